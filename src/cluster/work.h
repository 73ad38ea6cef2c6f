/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue for work that is too long for one turn of the loop: reading, merging, preparing and freeing documents, taking
 * lists. Work is done in steps (base/step.h). What is queued takes turns of one millisecond or one step, and all
 * together get two milliseconds per turn of the loop, so that many documents at once delay nobody longer than one does.
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
    struct loop_deferred turn; /* runs while something is queued */
};

/* Zeroed before its first use. */
struct work {
    struct list_node node;
    enum step (*step)(void *arg);
    void (*over)(void *arg, bool done);
    void *arg;
    uint64_t busy_us; /* time spent in steps; reset by the owner */
};

void work_queue_init(struct work_queue *q, struct loop *l);
/* What is still queued is dropped. */
void work_queue_close(struct work_queue *q);
/*
 * Calls `step` in this turn and later ones, never from inside, until it does not return STEP_MORE; then `over` once,
 * which may start more work or free `w`. Work that is queued already keeps its place.
 */
void work_start(struct work_queue *q, struct work *w, enum step (*step)(void *arg), void (*over)(void *arg, bool done),
                void *arg);
/* Nothing is called after this. Fine if it is not queued. Not from its own step. */
void work_cancel(struct work_queue *q, struct work *w);

#endif
