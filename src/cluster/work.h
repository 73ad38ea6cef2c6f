/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that is too long for one turn of the loop: documents being read, merged, prepared, forgotten, lists being taken.
 * It is done in steps (base/step.h). Who waits takes turns, a millisecond or one step each, and a turn of the loop has
 * two milliseconds of it, whoever they are for. So many servers' documents that come in at once hold up nobody longer
 * than one's.
 */
#ifndef MVPROXY_CLUSTER_WORK_H
#define MVPROXY_CLUSTER_WORK_H

#include "base/list.h"
#include "base/step.h"
#include "net/loop.h"

enum { WORK_PIECE_US = 1000, WORK_TURN_US = 2000 };

struct work_queue {
    struct loop *loop;
    struct list waiting;
    struct loop_deferred turn; /* while there are any */
};

/* Zeroed before its first use. */
struct work {
    struct list_node node;
    enum step (*step)(void *arg);
    void (*over)(void *arg, bool done);
    void *arg;
    uint64_t busy_us; /* in steps; the owner's to reset */
};

void work_queue_init(struct work_queue *q, struct loop *l);
/* What is still queued is not done any more. */
void work_queue_close(struct work_queue *q);
/*
 * `step` is called in this turn and later ones, never from inside, until it says that it is over; then `over` is, once,
 * and may begin more or free the work. What is queued already keeps its place.
 */
void work_start(struct work_queue *q, struct work *w, enum step (*step)(void *arg), void (*over)(void *arg, bool done),
                void *arg);
/* No call any more; also if it is not queued. Not from its own step. */
void work_cancel(struct work_queue *q, struct work *w);

#endif
