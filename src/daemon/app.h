/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition root: builds every subsystem from a configuration, wires them together, and takes them down in order.
 */
#ifndef MVPROXY_DAEMON_APP_H
#define MVPROXY_DAEMON_APP_H

#include "daemon/app_args.h"
#include "daemon/config.h"

struct app;

/* Before the configuration is read: a reload that is asked for while we start (SIGHUP) is made when we have. */
void app_hold_signals(void);
/* Takes the configuration. NULL with lines in *errors; nothing is left behind then. */
struct app *app_new(struct config *c, const struct app_args *args, struct buf *errors);
/* Returns the exit status when it is over. */
int app_run(struct app *a);
void app_free(struct app *a);

#endif
