/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition root: builds every subsystem from a configuration, wires them together, and takes them down in order.
 */
#ifndef MVPROXY_DAEMON_APP_H
#define MVPROXY_DAEMON_APP_H

#include "daemon/app_args.h"
#include "daemon/config.h"

struct app;

/* To be called before the configuration is read: a SIGHUP that arrives during the start makes a reload after it. */
void app_hold_signals(void);
/* Takes over the configuration. NULL, with lines in *errors and nothing left behind, on failure. */
struct app *app_new(struct config *c, const struct app_args *args, struct buf *errors);
/* Runs until the process is to end; returns its exit status. */
int app_run(struct app *a);
void app_free(struct app *a);

#endif
