/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who asked for something to be withdrawn hears that it is: once, when the turn ends, never from inside. The next
 * withdrawal may begin before that.
 */
#ifndef MVPROXY_CLUSTER_FAREWELL_H
#define MVPROXY_CLUSTER_FAREWELL_H

#include "net/loop.h"

struct farewell {
    struct loop *loop;
    void (*done)(void *arg); /* of the withdrawal that is under way */
    void *arg;
    void (*due)(void *arg); /* of one that is over, called when the turn ends */
    void *due_arg;
    struct loop_deferred turn;
};

void farewell_init(struct farewell *f, struct loop *l);
/* `done` NULL: nobody wants to know. No other one before the last was called. */
void farewell_await(struct farewell *f, void (*done)(void *arg), void *arg);
/* It is over, or overtaken. */
void farewell_tell(struct farewell *f);
void farewell_cancel(struct farewell *f); /* nobody is called any more */

#endif
