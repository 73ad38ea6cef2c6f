/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callers that wait for the next poll of local discovery to end and its result to be in the snapshot.
 */
#ifndef MVPROXY_CLUSTER_WAITERS_H
#define MVPROXY_CLUSTER_WAITERS_H

#include "base/list.h"
#include "base/mem.h"
#include "net/loop.h"

struct cluster_waiter;

struct waiters {
    struct loop *loop;
    struct list polling, published, due; /* waiting for the poll; for the snapshot after it; for their turn */
    struct loop_deferred turn;
};

void waiters_init(struct waiters *w, struct loop *l);
/* Frees all waiters without calling them. */
void waiters_clear(struct waiters *w);
/* `done` may be NULL. NULL when out of memory. */
MEM_CHECK struct cluster_waiter *waiters_add(struct waiters *w, void (*done)(void *arg), void *arg);
void waiters_forget(struct cluster_waiter *w);
/* The poll has ended. `snapshot_follows`: waiters_published() will be called; else they are called when the turn
 * ends. Many are called in several turns. */
void waiters_polled(struct waiters *w, bool snapshot_follows);
/* Calls back those whose poll has ended. */
void waiters_published(struct waiters *w);

#endif
