/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds which snapshot of what everybody serves: each is megabytes that no client's budget counts.
 */
#ifndef MVPROXY_PROXY_HOLDERS_H
#define MVPROXY_PROXY_HOLDERS_H

#include "cluster/served.h"
#include "cluster/work.h"

struct holders {
    struct list of_old; /* the owner's nodes, those that hold the oldest snapshots first */
    struct list dead;   /* snapshots that nobody holds */
    struct work burial; /* frees these, one in a turn */
    struct work_queue *work;
    uint64_t generation;       /* snapshots.c: the last that was seen there */
    struct loop_deferred trim; /* likewise */
};

void holders_init(struct holders *h, struct work_queue *work);
/* When the queue is closed. */
void holders_close(struct holders *h);
/* Takes a reference to the snapshot, the current one. */
struct served *holders_take(struct holders *h, struct list_node *holder, struct served *s);
/* Drops it. `holder` need not be one. */
void holders_drop(struct holders *h, struct list_node *holder, struct served *s);

#endif
