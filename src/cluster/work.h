/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that is too long for one turn of the loop: documents being read, merged, prepared, forgotten. It comes in pieces
 * of some 2 ms, and one turn does two of them, whoever they are for, or one if that has taken long; the others wait. So
 * many servers' documents that come in at once hold up nobody longer than one's.
 */
#ifndef MVPROXY_CLUSTER_WORK_H
#define MVPROXY_CLUSTER_WORK_H

#include "base/list.h"
#include "net/loop.h"

enum { WORK_PIECES_PER_TURN = 2, WORK_LONG_US = 2000 };

struct work_queue {
    struct loop *loop;
    struct list pieces;
    struct loop_deferred turn; /* while there are any */
};

/* Zeroed before its first use. */
struct work {
    struct list_node node;
    void (*fn)(void *arg);
    void *arg;
};

void work_queue_init(struct work_queue *q, struct loop *l);
/* What is still queued is not done any more. */
void work_queue_close(struct work_queue *q);
/*
 * fn is called once, in this turn or a later one, never from inside; it may queue its work again. What is queued
 * already keeps its place.
 */
void work_add(struct work_queue *q, struct work *w, void (*fn)(void *arg), void *arg);
void work_cancel(struct work_queue *q, struct work *w); /* also if it is not queued */

#endif
