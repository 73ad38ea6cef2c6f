/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGHUP in two phases: prepare everything aside, then commit, or leave all as it was and say why: what `mvproxy -t`
 * calls wrong is refused.
 */
#ifndef MVPROXY_DAEMON_RELOAD_H
#define MVPROXY_DAEMON_RELOAD_H

#include "base/mem.h"
#include "base/slice.h"

struct app;
struct buf;
struct reload;

/* What reloads of this app share: it goes to a->reload. NULL when out of memory. */
MEM_CHECK struct reload *reload_new(struct app *a);
void reload_free(struct reload *r); /* nothing of it goes on; NULL is nothing */

/*
 * Somebody wants a reload (SIGHUP): now, or once TIMEOUT_RELOAD_DISTANCE_MS have passed since the last one, however
 * often it is asked for until then. The result goes to the log, the metrics and the service manager.
 */
void reload_request(struct app *a);
/*
 * At once, for somebody who waits for it: the number of the reload to wait for. It is over when reload_is_over() is
 * true: *ok when the new configuration is in force, else *errors says line by line what is wrong, until the next one.
 * A local server that would be reached in another way than before, and peers, if their CA would be another, are asked
 * first, which may take some seconds; if one is under way, the next one is meant.
 */
uint64_t reload_begin(struct app *a);
bool reload_is_over(const struct app *a, uint64_t number, bool *ok, struct slice *errors);

#endif
