/*
 * SIGHUP in two phases: prepare everything aside, then commit, or leave all as it was and say why.
 */
#ifndef MVPROXY_DAEMON_RELOAD_H
#define MVPROXY_DAEMON_RELOAD_H

#include <stdbool.h>

struct app;

/* True when the new configuration is in force. The result goes to the log, the metrics and the service manager. */
bool reload_now(struct app *a);

#endif
