/* SPDX-License-Identifier: Apache-2.0 */
#include "net/handshake_queue.h"

#include "base/contract.h"
#include "base/strmap.h"

struct handshake_lane {
    struct list_node node; /* in the ring */
    struct list waiting;
    size_t address_bytes;
    char address[48];
};

struct handshake_queue {
    struct strmap *by_address;
    struct list ring; /* lanes in which somebody waits; the first is served next */
    struct handshake_lane shared;
    size_t waiting;
};

struct handshake_queue *handshake_queue_new(void)
{
    struct handshake_queue *q = mem_zalloc(sizeof(*q));

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

void handshake_queue_free(struct handshake_queue *q)
{
    if (q == NULL)
        return;
    strmap_free(q->by_address);
    mem_free(q);
}

static struct handshake_lane *new_lane(struct handshake_queue *q, struct slice address)
{
    struct handshake_lane *lane;

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

static struct handshake_lane *lane_of(struct handshake_queue *q, struct slice address)
{
    struct handshake_lane *lane;

    if (address.n == 0)
        return &q->shared;
    lane = strmap_get(q->by_address, address);
    if (lane == NULL)
        lane = new_lane(q, address);
    return lane == NULL ? &q->shared : lane;
}

void handshake_queue_add(struct handshake_queue *q, struct handshake_step *n, struct slice address, bool begun)
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
static void take_out(struct handshake_queue *q, struct handshake_step *n, bool served)
{
    struct handshake_lane *lane = n->lane;

    list_remove(&lane->waiting, &n->node);
    must_hold(q->waiting > 0);
    n->lane = NULL;
    q->waiting--;
    if (lane->waiting.count > 0 && !served)
        return;
    list_remove(&q->ring, &lane->node);
    if (lane->waiting.count > 0) {
        list_push_back(&q->ring, &lane->node);
    } else if (lane != &q->shared) {
        const struct handshake_lane *removed =
            strmap_remove(q->by_address, slice_of(lane->address, lane->address_bytes));

        must_hold(removed == lane);
        mem_free(lane);
    }
}

void handshake_queue_cancel(struct handshake_queue *q, struct handshake_step *n)
{
    if (n->lane != NULL)
        take_out(q, n, false);
}

size_t handshake_queue_waiting(const struct handshake_queue *q)
{
    return q->waiting;
}

struct handshake_step *handshake_queue_next(struct handshake_queue *q)
{
    struct list_node *ring = list_first(&q->ring), *first;
    struct handshake_step *n;

    if (ring == NULL)
        return NULL;
    first = list_first(&list_entry(ring, struct handshake_lane, node)->waiting);
    must_hold(first != NULL); /* an empty lane is not in the ring */
    n = list_entry(first, struct handshake_step, node);
    take_out(q, n, true);
    return n;
}
