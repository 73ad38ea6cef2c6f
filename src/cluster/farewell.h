/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls back, when something has been withdrawn, whoever asked for that: once, at the end of the loop turn, never from
 * inside. The next withdrawal may begin before the call.
 */
#ifndef MVPROXY_CLUSTER_FAREWELL_H
#define MVPROXY_CLUSTER_FAREWELL_H

#include "net/loop.h"

struct farewell {
    struct loop *loop;
    void (*done)(void *arg); /* for the withdrawal under way */
    void *arg;
    void (*due)(void *arg); /* for the one that is over, called when the turn ends */
    void *due_arg;
    struct loop_deferred turn;
};

void farewell_init(struct farewell *f, struct loop *l);
/* A withdrawal begins; `done` may be NULL. Not before the last one's farewell_tell(). */
void farewell_await(struct farewell *f, void (*done)(void *arg), void *arg);
/* The withdrawal is over, or ended by a new start: `done` is called when the turn ends. */
void farewell_tell(struct farewell *f);
void farewell_cancel(struct farewell *f); /* nothing is called after this */

#endif
