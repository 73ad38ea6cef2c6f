/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition root: builds every subsystem from a configuration, wires them together, and takes them down in order.
 */
#ifndef MVPROXY_DAEMON_APP_H
#define MVPROXY_DAEMON_APP_H

#include "daemon/config.h"

struct app;

/* The command line, as a reload needs it again. Everything must outlive the app. */
struct app_args {
    const char *config_file; /* NULL: none */
    const struct config_setting *flags;
    size_t n_flags;
    const char *version;
};

/* Before the configuration is read: a reload that is asked for while we start (SIGHUP) is made when we have. */
void app_hold_signals(void);
/* Takes the configuration. NULL with lines in *errors; nothing is left behind then. */
struct app *app_new(struct config *c, const struct app_args *args, struct buf *errors);
/* Returns the exit status when it is over. */
int app_run(struct app *a);
void app_free(struct app *a);

#endif
