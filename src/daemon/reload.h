/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reloads the configuration (SIGHUP) in two phases: prepares everything new, then commits it, or leaves everything
 * unchanged and says why. What `mvproxy -t` calls wrong is refused.
 */
#ifndef MVPROXY_DAEMON_RELOAD_H
#define MVPROXY_DAEMON_RELOAD_H

#include "base/mem.h"
#include "base/slice.h"

struct app;
struct buf;
struct reload;

/* The state of reloads, to be kept as a->reload. NULL when out of memory. */
MEM_CHECK struct reload *reload_new(struct app *a);
void reload_free(struct reload *r); /* ends a reload under way; NULL is fine */

/*
 * Requests a reload (SIGHUP): now, or once TIMEOUT_RELOAD_DISTANCE_MS have passed since the last one; several requests
 * until then make one reload. The result goes to the log, the metrics and the service manager.
 */
void reload_request(struct app *a);
/*
 * Reloads at once, for a caller that waits for the result, and returns the number of the reload to wait for; if one is
 * under way, that of the next one. It is over when reload_is_over() is true: *ok if the new configuration is in force;
 * else *errors has a line for each error, valid until the next reload.
 *
 * A local server that would be reached in another way than before, and peers if their CA changes, are dialled first,
 * which may take some seconds.
 */
uint64_t reload_begin(struct app *a);
bool reload_is_over(const struct app *a, uint64_t number, bool *ok, struct slice *errors);

#endif
