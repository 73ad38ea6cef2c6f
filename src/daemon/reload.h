/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP in two phases: prepare everything aside, then commit, or leave all as it was and say why. The same for the
 * certificates alone, when their files change.
 */
#ifndef MVPROXY_DAEMON_RELOAD_H
#define MVPROXY_DAEMON_RELOAD_H

#include <stdbool.h>

struct app;
struct buf;

/*
 * Somebody wants a reload (SIGHUP): now, or once TIMEOUT_RELOAD_DISTANCE_MS have passed since the last one, however
 * often it is asked for until then. The result goes to the log, the metrics and the service manager.
 */
void reload_request(struct app *a);
/* At once, for somebody who waits for it: true when the new configuration is in force, else *errors says line by line
 * what is wrong. */
bool reload_saying(struct app *a, struct buf *errors);

/*
 * Reads the files of the configuration in force again. What changed is used for new connections; nothing that is open
 * notices. True also if nothing changed; false, with lines in *errors, if all stays as it was.
 */
bool reload_trust(struct app *a, struct buf *errors);

#endif
