/*
 * SIGHUP in two phases: prepare everything aside, then commit, or leave all as it was and say why. The same for the
 * certificates alone, when their files change.
 */
#ifndef MVPROXY_DAEMON_RELOAD_H
#define MVPROXY_DAEMON_RELOAD_H

#include <stdbool.h>

struct app;
struct buf;

/* True when the new configuration is in force. The result goes to the log, the metrics and the service manager. */
bool reload_now(struct app *a);
/* The same for somebody who waits for it: also says in *errors, line by line, what is wrong. */
bool reload_saying(struct app *a, struct buf *errors);

/*
 * Reads the files of the configuration in force again. What changed is used for new connections; nothing that is open
 * notices. True also if nothing changed; false, with lines in *errors, if all stays as it was.
 */
bool reload_trust(struct app *a, struct buf *errors);

#endif
