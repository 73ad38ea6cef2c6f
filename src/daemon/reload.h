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
struct reload_result;

/* The state of reloads, to be kept as a->reload. NULL when out of memory. */
MEM_CHECK struct reload *reload_new(struct app *a);
void reload_free(struct reload *r); /* ends a reload under way; NULL is fine */

/*
 * Requests a reload (SIGHUP): now, or once TIMEOUT_RELOAD_DISTANCE_MS have passed since the last one; several requests
 * until then make one reload. The result goes to the log, the metrics and the service manager.
 */
void reload_request(struct app *a);
/*
 * Reloads at once, for a caller that waits for the result, which is the caller's then; if one is under way, that of the
 * next one. NULL when out of memory. It is over when reload_is_over() is true: *ok if the new configuration was put in
 * force, and *lines has its warnings (config_warn(), preflight.h, cluster_front_expected()); else *lines has a line for
 * each error. Of that very reload, however many there have been since.
 *
 * A local server that would be reached in another way than before, and peers if their CA changes, are dialled first,
 * which may take some seconds.
 */
MEM_CHECK struct reload_result *reload_begin(struct app *a);
bool reload_is_over(const struct app *a, const struct reload_result *awaited, bool *ok, struct slice *lines);
void reload_result_unref(struct reload_result *one); /* NULL is fine */

#endif
