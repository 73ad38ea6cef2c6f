/* SPDX-License-Identifier: Apache-2.0 */
#include "net/fair_queue.h"

#include "base/contract.h"
#include "base/strmap.h"

struct fair_lane {
    struct list_node node; /* in the ring */
    struct ring *ring;
    struct list waiting;
    size_t address_bytes;
    char address[48];
};

/* Of a share. */
struct ring {
    struct strmap *by_address;
    struct list lanes; /* in which somebody waits; the first is served next */
    struct fair_lane shared;
};

struct fair_queue {
    struct ring rings[FAIR_SHARES];
    unsigned next; /* whose turn it is, if somebody waits there */
    size_t waiting;
    uint64_t gone;
};

static bool ring_init(struct ring *r)
{
    list_init(&r->lanes);
    list_init(&r->shared.waiting);
    r->shared.ring = r;
    r->by_address = strmap_new();
    return r->by_address != NULL;
}

struct fair_queue *fair_queue_new(void)
{
    struct fair_queue *q = mem_zalloc(sizeof(*q));
    bool made = q != NULL;

    for (size_t i = 0; made && i < FAIR_SHARES; i++)
        made = ring_init(&q->rings[i]);
    if (made)
        return q;
    fair_queue_free(q);
    return NULL;
}

void fair_queue_free(struct fair_queue *q)
{
    if (q == NULL)
        return;
    for (size_t i = 0; i < FAIR_SHARES; i++)
        strmap_free(q->rings[i].by_address);
    mem_free(q);
}

static struct fair_lane *new_lane(struct ring *r, struct slice address)
{
    struct fair_lane *lane;

    if (address.n > sizeof(lane->address))
        return NULL;
    lane = mem_zalloc(sizeof(*lane));
    if (lane == NULL)
        return NULL;
    list_init(&lane->waiting);
    lane->ring = r;
    memcpy(lane->address, address.p, address.n);
    lane->address_bytes = address.n;
    if (strmap_put(r->by_address, address, lane, NULL))
        return lane;
    mem_free(lane);
    return NULL;
}

static struct fair_lane *lane_of(struct ring *r, struct slice address)
{
    struct fair_lane *lane;

    if (address.n == 0)
        return &r->shared;
    lane = strmap_get(r->by_address, address);
    if (lane == NULL)
        lane = new_lane(r, address);
    return lane == NULL ? &r->shared : lane;
}

void fair_queue_add(struct fair_queue *q, struct loop_deferred *n, enum fair_share share, struct slice address,
                    enum fair_place place)
{
    struct ring *r = &q->rings[share];

    if (n->lane != NULL)
        return;
    n->lane = lane_of(r, address);
    if (list_linked(&n->lane->node) && place == FAIR_NEXT)
        list_remove(&r->lanes, &n->lane->node);
    if (!list_linked(&n->lane->node) && place == FAIR_NEXT)
        list_push_front(&r->lanes, &n->lane->node);
    else if (!list_linked(&n->lane->node))
        list_push_back(&r->lanes, &n->lane->node);
    if (place != FAIR_LAST)
        list_push_front(&n->lane->waiting, &n->node);
    else
        list_push_back(&n->lane->waiting, &n->node);
    q->waiting++;
}

/* The lane goes to the end of the ring, or away with its last one. */
static void take_out(struct fair_queue *q, struct loop_deferred *n, bool served)
{
    struct fair_lane *lane = n->lane;
    struct ring *r = lane->ring;

    list_remove(&lane->waiting, &n->node);
    must_hold(q->waiting > 0);
    n->lane = NULL;
    q->waiting--;
    q->gone++;
    if (lane->waiting.count > 0 && !served)
        return;
    list_remove(&r->lanes, &lane->node);
    if (lane->waiting.count > 0) {
        list_push_back(&r->lanes, &lane->node);
    } else if (lane != &r->shared) {
        const struct fair_lane *removed = strmap_remove(r->by_address, slice_of(lane->address, lane->address_bytes));

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

static struct loop_deferred *first_of(const struct ring *r)
{
    struct list_node *lane = list_first(&r->lanes), *first;

    if (lane == NULL)
        return NULL;
    first = list_first(&list_entry(lane, struct fair_lane, node)->waiting);
    must_hold(first != NULL); /* an empty lane is not in the ring */
    return list_entry(first, struct loop_deferred, node);
}

struct loop_deferred *fair_queue_next(struct fair_queue *q, bool strangers)
{
    for (unsigned i = 0; i < FAIR_SHARES; i++) {
        unsigned share = q->next;
        struct loop_deferred *n = first_of(&q->rings[share]);

        q->next = (share + 1) % FAIR_SHARES;
        if (n == NULL || (share == FAIR_STRANGERS && !strangers))
            continue;
        take_out(q, n, true);
        return n;
    }
    return NULL;
}
