/* SPDX-License-Identifier: Apache-2.0 */
#include "net/fair_queue.h"

#include "base/contract.h"
#include "base/strmap.h"

struct fair_lane {
    struct list_node node; /* in the ring */
    struct list waiting;
    size_t address_bytes;
    char address[48];
};

struct fair_queue {
    struct strmap *by_address;
    struct list ring; /* lanes in which somebody waits; the first is served next */
    struct fair_lane shared;
    size_t waiting;
    uint64_t gone;
};

struct fair_queue *fair_queue_new(void)
{
    struct fair_queue *q = mem_zalloc(sizeof(*q));

    if (q == NULL)
        return NULL;
    list_init(&q->ring);
    list_init(&q->shared.waiting);
    q->by_address = strmap_new();
    if (q->by_address != NULL)
        return q;
    mem_free(q);
    return NULL;
}

void fair_queue_free(struct fair_queue *q)
{
    if (q == NULL)
        return;
    strmap_free(q->by_address);
    mem_free(q);
}

static struct fair_lane *new_lane(struct fair_queue *q, struct slice address)
{
    struct fair_lane *lane;

    if (address.n > sizeof(lane->address))
        return NULL;
    lane = mem_zalloc(sizeof(*lane));
    if (lane == NULL)
        return NULL;
    list_init(&lane->waiting);
    memcpy(lane->address, address.p, address.n);
    lane->address_bytes = address.n;
    if (strmap_put(q->by_address, address, lane, NULL))
        return lane;
    mem_free(lane);
    return NULL;
}

static struct fair_lane *lane_of(struct fair_queue *q, struct slice address)
{
    struct fair_lane *lane;

    if (address.n == 0)
        return &q->shared;
    lane = strmap_get(q->by_address, address);
    if (lane == NULL)
        lane = new_lane(q, address);
    return lane == NULL ? &q->shared : lane;
}

void fair_queue_add(struct fair_queue *q, struct loop_deferred *n, struct slice address, bool begun)
{
    if (n->lane != NULL)
        return;
    n->lane = lane_of(q, address);
    if (n->lane->waiting.count == 0)
        list_push_back(&q->ring, &n->lane->node);
    if (begun)
        list_push_front(&n->lane->waiting, &n->node);
    else
        list_push_back(&n->lane->waiting, &n->node);
    q->waiting++;
}

/* The lane goes to the end of the ring, or away with its last one. */
static void take_out(struct fair_queue *q, struct loop_deferred *n, bool served)
{
    struct fair_lane *lane = n->lane;

    list_remove(&lane->waiting, &n->node);
    must_hold(q->waiting > 0);
    n->lane = NULL;
    q->waiting--;
    q->gone++;
    if (lane->waiting.count > 0 && !served)
        return;
    list_remove(&q->ring, &lane->node);
    if (lane->waiting.count > 0) {
        list_push_back(&q->ring, &lane->node);
    } else if (lane != &q->shared) {
        const struct fair_lane *removed = strmap_remove(q->by_address, slice_of(lane->address, lane->address_bytes));

        must_hold(removed == lane);
        mem_free(lane);
    }
}

void fair_queue_cancel(struct fair_queue *q, struct loop_deferred *n)
{
    if (n->lane != NULL)
        take_out(q, n, false);
}

size_t fair_queue_waiting(const struct fair_queue *q)
{
    return q->waiting;
}

uint64_t fair_queue_gone(const struct fair_queue *q)
{
    return q->gone;
}

struct loop_deferred *fair_queue_next(struct fair_queue *q)
{
    struct list_node *ring = list_first(&q->ring), *first;
    struct loop_deferred *n;

    if (ring == NULL)
        return NULL;
    first = list_first(&list_entry(ring, struct fair_lane, node)->waiting);
    must_hold(first != NULL); /* an empty lane is not in the ring */
    n = list_entry(first, struct loop_deferred, node);
    take_out(q, n, true);
    return n;
}
