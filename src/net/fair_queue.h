/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that has a part of each turn of the loop, because it is dear: steps of TLS handshakes, and whatever moves much
 * (loop_internal.h). Between addresses it goes round in a ring, whoever asks most; of one address in the order in which
 * it came. Or who has a hundred connections would have a hundred times the turns of who has one. And who has a hundred
 * addresses would have a hundred times the turns of who has one: so shares take turns first, each with a ring of its
 * own.
 */
#ifndef MVPROXY_NET_FAIR_QUEUE_H
#define MVPROXY_NET_FAIR_QUEUE_H

#include "base/mem.h"
#include "base/slice.h"
#include "net/loop.h"

struct fair_queue;

enum fair_share {
    FAIR_STRANGERS, /* of whom nobody knows whether they may do anything at all */
    FAIR_KNOWN,     /* clients whom a server or a certificate has vouched for */
    FAIR_OWN,       /* connections to servers, of other mvproxies, and to the admin listener; our own work */
    FAIR_SHARES
};

/* NULL when out of memory. */
MEM_CHECK struct fair_queue *fair_queue_new(void);
/* None may be waiting. */
void fair_queue_free(struct fair_queue *q);
enum fair_place {
    FAIR_LAST,
    FAIR_NEXT_OF_ADDRESS, /* before those of the same address who have had nothing yet: what was paid for is to end */
    FAIR_NEXT, /* and before all other addresses of the share; not for who could ask for it again and again */
};

/* Queues fn(arg) once; who waits already keeps the place. Without memory for the address it shares one lane with all
 * such. */
void fair_queue_add(struct fair_queue *q, struct loop_deferred *n, enum fair_share share, struct slice address,
                    enum fair_place place);
/* Of one that does not wait: nothing. */
void fair_queue_cancel(struct fair_queue *q, struct loop_deferred *n);
size_t fair_queue_waiting(const struct fair_queue *q);
/* How many have waited so far and do no longer, whether they were served or cancelled. */
uint64_t fair_queue_gone(const struct fair_queue *q);
/* Takes out the next one, for the caller to run; NULL if there is none. `strangers`: of theirs as well. */
struct loop_deferred *fair_queue_next(struct fair_queue *q, bool strangers);

#endif
