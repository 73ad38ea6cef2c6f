/* SPDX-License-Identifier: Apache-2.0 */
#include "front/memory.h"

#include "base/limits.h"
#include "net/loop.h"

enum {
    MUCH_BYTES = 64 << 10, /* who holds less is not worth ending */
    STILL_MS = 1000,       /* who has moved next to nothing for so long is idle */
    LOOK_MS = 100,         /* between two looks at who holds much */
    ENDED_AT_ONCE = 16,    /* in one turn */
    CLIENTS = 128,         /* of one connection: more than it has streams */
};

struct memory_client {
    uint64_t client; /* whose it is while something is held */
    struct quota heads;
};

struct memory {
    struct loop *loop;
    struct loop_timer *look;
    struct quota all;
    struct list much; /* holders of MUCH_BYTES and more */
    uint64_t (*moved)(const struct memory_holder *h);
    void (*end)(struct memory_holder *h);
};

/* ---- who holds much ---- */

static void forget(struct memory_holder *h)
{
    if (list_linked(&h->node))
        list_remove(&h->memory->much, &h->node);
}

static void on_much(struct quota *q)
{
    struct memory_holder *h = list_entry(q, struct memory_holder, held);

    if (h->memory == NULL || list_linked(&h->node))
        return;
    list_push_back(&h->memory->much, &h->node);
    h->moved = h->memory->moved(h);
    h->still_since_ms = loop_now_ms(h->memory->loop);
}

/* Has it moved less than an eighth of what it holds since a second ago? A few bytes now and then do not count. */
static bool is_idle(struct memory_holder *h)
{
    uint64_t moved = h->memory->moved(h), now = loop_now_ms(h->memory->loop);

    if (moved - h->moved >= h->held.held / 8) {
        h->moved = moved;
        h->still_since_ms = now;
    }
    return now - h->still_since_ms >= STILL_MS;
}

static bool greedier(const struct memory_holder *a, const struct memory_holder *b)
{
    size_t of_a = a->held.parent->held, of_b = b->held.parent->held;

    return of_a != of_b ? of_a > of_b : a->held.held > b->held.held;
}

/* Keeps the greediest, in order; returns how many there are. */
static size_t put_in_order(struct memory_holder **greediest, size_t n, struct memory_holder *h)
{
    size_t at = n;

    while (at > 0 && greedier(h, greediest[at - 1]))
        at--;
    if (at == ENDED_AT_ONCE)
        return n;
    if (n == ENDED_AT_ONCE)
        n--;
    memmove(&greediest[at + 1], &greediest[at], (n - at) * sizeof(*greediest));
    greediest[at] = h;
    return n + 1;
}

static size_t find_greediest(struct memory *m, struct memory_holder **greediest)
{
    struct list_node *node, *next;
    size_t n = 0;

    for (node = list_first(&m->much); node != NULL; node = next) {
        struct memory_holder *h = list_entry(node, struct memory_holder, node);

        next = list_next(&m->much, node);
        if (h->held.held < MUCH_BYTES)
            forget(h);
        else if (is_idle(h))
            n = put_in_order(greediest, n, h);
    }
    return n;
}

/* ---- too much ---- */

static void make_room(void *arg)
{
    struct memory *m = arg;
    struct memory_holder *greediest[ENDED_AT_ONCE];
    size_t n, enough = m->all.mark - m->all.mark / 8, left = m->all.held;

    if (left <= enough)
        return;
    n = find_greediest(m, greediest);
    for (size_t i = 0; i < n && left > enough; i++) {
        size_t held = greediest[i]->held.held;

        left -= held < left ? held : left; /* its memory goes at the end of the turn */
        m->end(greediest[i]);
    }
    loop_timer_set(m->look, LOOK_MS);
}

/* From the mark on, until there is room for what could not have it: a large head, say. */
static void on_full(struct quota *q)
{
    struct memory *m = list_entry(q, struct memory, all);

    if (!loop_timer_pending(m->look))
        loop_timer_set(m->look, 0);
}

/* ---- life ---- */

struct memory *memory_new(struct loop *l, uint64_t (*moved)(const struct memory_holder *h),
                          void (*end)(struct memory_holder *h))
{
    struct memory *m = mem_zalloc(sizeof(*m));

    if (m == NULL)
        return NULL;
    m->loop = l;
    m->moved = moved;
    m->end = end;
    list_init(&m->much);
    quota_init(&m->all, NULL, 0);
    m->all.reached = on_full;
    m->look = loop_timer_new(l, make_room, m);
    if (m->look == NULL) {
        mem_free(m);
        return NULL;
    }
    return m;
}

void memory_free(struct memory *m)
{
    if (m == NULL)
        return;
    must_hold(m->all.held == 0);
    loop_timer_free(m->look);
    mem_free(m);
}

void memory_set_limit(struct memory *m, size_t most)
{
    m->all.most = most == 0 ? SIZE_MAX : most;
    m->all.mark = m->all.most - m->all.most / 8;
    if (m->all.held >= m->all.mark)
        on_full(&m->all);
}

struct quota *memory_all(struct memory *m)
{
    return &m->all;
}

void memory_enter(struct memory *m, struct memory_holder *h, struct quota *address)
{
    *h = (struct memory_holder){.memory = m};
    quota_init(&h->held, address, 0);
    quota_init(&h->heads, &h->held, LIMIT_CONNECTION_HEADS);
    h->held.mark = MUCH_BYTES;
    h->held.reached = on_much;
}

void memory_lift_heads(struct memory_holder *h)
{
    h->heads.most = SIZE_MAX;
}

static bool make_clients(struct memory_holder *h)
{
    if (h->clients != NULL)
        return true;
    h->clients = mem_array(CLIENTS, sizeof(*h->clients));
    if (h->clients == NULL)
        return false;
    for (size_t i = 0; i < CLIENTS; i++) {
        h->clients[i].client = 0;
        quota_init(&h->clients[i].heads, &h->held, LIMIT_CONNECTION_HEADS);
    }
    return true;
}

struct quota *memory_heads_of(struct memory_holder *h, uint64_t client)
{
    struct memory_client *vacant = NULL;

    if (!make_clients(h))
        return &h->heads;
    for (size_t i = 0; i < CLIENTS; i++) {
        struct memory_client *c = &h->clients[((client >> 1) + i) % CLIENTS];

        if (c->heads.held > 0 && c->client == client)
            return &c->heads;
        if (c->heads.held == 0 && vacant == NULL)
            vacant = c;
        if (c->client == 0)
            break; /* nobody was ever put behind this one */
    }
    if (vacant == NULL)
        return &h->heads;
    vacant->client = client;
    return &vacant->heads;
}

void memory_leave(struct memory_holder *h)
{
    must_hold(h->held.held == 0);
    mem_free(h->clients);
}

void memory_dismiss(struct memory_holder *h)
{
    if (h->memory == NULL)
        return;
    forget(h);
    h->memory = NULL;
}

bool memory_refuses(const struct memory_holder *h, size_t addresses)
{
    const struct quota *all = h->memory == NULL ? NULL : &h->memory->all;

    return all != NULL && all->held >= all->mark && h->held.parent->held > all->mark / addresses;
}
