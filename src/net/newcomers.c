/* SPDX-License-Identifier: Apache-2.0 */
#include "net/newcomers.h"

#include "base/contract.h"
#include "base/strmap.h"

struct newcomers_lane {
    struct list_node node; /* in the ring */
    struct list waiting;
    size_t address_bytes;
    char address[48];
};

struct newcomers {
    struct strmap *by_address;
    struct list ring; /* lanes in which somebody waits; the first is served next */
    struct newcomers_lane shared;
    size_t waiting;
};

struct newcomers *newcomers_new(void)
{
    struct newcomers *q = mem_zalloc(sizeof(*q));

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

void newcomers_free(struct newcomers *q)
{
    if (q == NULL)
        return;
    strmap_free(q->by_address);
    mem_free(q);
}

static struct newcomers_lane *new_lane(struct newcomers *q, struct slice address)
{
    struct newcomers_lane *lane;

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

static struct newcomers_lane *lane_of(struct newcomers *q, struct slice address)
{
    struct newcomers_lane *lane;

    if (address.n == 0)
        return &q->shared;
    lane = strmap_get(q->by_address, address);
    if (lane == NULL)
        lane = new_lane(q, address);
    return lane == NULL ? &q->shared : lane;
}

void newcomers_add(struct newcomers *q, struct newcomer *n, struct slice address, bool begun)
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
static void take_out(struct newcomers *q, struct newcomer *n, bool served)
{
    struct newcomers_lane *lane = n->lane;

    list_remove(&lane->waiting, &n->node);
    n->lane = NULL;
    q->waiting--;
    if (lane->waiting.count > 0 && !served)
        return;
    list_remove(&q->ring, &lane->node);
    if (lane->waiting.count > 0) {
        list_push_back(&q->ring, &lane->node);
    } else if (lane != &q->shared) {
        strmap_remove(q->by_address, slice_of(lane->address, lane->address_bytes));
        mem_free(lane);
    }
}

void newcomers_cancel(struct newcomers *q, struct newcomer *n)
{
    if (n->lane != NULL)
        take_out(q, n, false);
}

size_t newcomers_waiting(const struct newcomers *q)
{
    return q->waiting;
}

struct newcomer *newcomers_next(struct newcomers *q)
{
    struct list_node *ring = list_first(&q->ring), *first;
    struct newcomer *n;

    if (ring == NULL)
        return NULL;
    first = list_first(&list_entry(ring, struct newcomers_lane, node)->waiting);
    contract(first != NULL); /* an empty lane is not in the ring */
    n = list_entry(first, struct newcomer, node);
    take_out(q, n, true);
    return n;
}
