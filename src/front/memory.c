/* SPDX-License-Identifier: Apache-2.0 */
#include "front/memory.h"

#include "base/contract.h"
#include "base/limits.h"
#include "net/loop.h"

enum {
    MUCH_BYTES = 64 << 10, /* who holds so much is looked for first */
    STILL_MS = 1000,       /* who has moved next to nothing for so long is idle */
    LOOK_MS = 100,         /* between two looks at who holds what */
    AGAIN_MS = 10,         /* while they find small ones, whose like may come as fast as handshakes go */
    ENDED_AT_ONCE = 16,    /* in one look, of those that hold much */
    SMALL_AT_ONCE = 32,    /* and of the others */
    REQUESTS_AT_ONCE =
        64,            /* that end with them: one connection goes on beyond it, the next one waits for the next look */
    SMALL_SEEN = 1024, /* of the others in one look; the next look goes on behind them */
    CLIENTS = 128,     /* of one connection: more than it has streams */
    FORGOTTEN = 2,     /* addresses that are looked at for each that comes to hold more than a little */
};

struct memory_client {
    uint64_t client; /* whose it is while something is held */
    struct quota heads;
};

struct memory {
    struct loop *loop;
    struct loop_timer *look;
    struct quota all;
    struct list much;  /* holders of MUCH_BYTES and more */
    struct list small; /* the others; those seen last are at the end */
    struct list large; /* addresses that hold, or held lately, more than a little */
    size_t addresses;
    size_t little; /* what the other addresses held at the last look */
    bool crowd;    /* that, and a little for each large one, is too much */
    bool bounded;  /* the large ones are, until there is room again */
    struct memory_opts opts;
};

/* ---- who holds what ---- */

static void leave(struct memory_holder *h)
{
    list_remove(h->much ? &h->memory->much : &h->memory->small, &h->node);
}

static void join(struct memory_holder *h, bool much)
{
    h->much = much;
    list_push_back(much ? &h->memory->much : &h->memory->small, &h->node);
}

static void on_much(struct quota *q)
{
    struct memory_holder *h = list_entry(q, struct memory_holder, held);

    if (h->memory == NULL || h->much)
        return;
    leave(h);
    join(h, true);
    h->moved = h->memory->opts.moved(h);
    h->still_since_ms = loop_now_ms(h->memory->loop);
}

/* Has it moved less than an eighth of what it holds since a second ago? A few bytes now and then do not count. */
static bool is_still(struct memory_holder *h)
{
    uint64_t moved = h->memory->opts.moved(h), now = loop_now_ms(h->memory->loop);

    if (moved - h->moved >= h->held.held / 8) {
        h->moved = moved;
        h->still_since_ms = now;
    }
    return now - h->still_since_ms >= STILL_MS;
}

static size_t of_address(const struct memory_holder *h)
{
    return h->held.parent->held;
}

static size_t enough(const struct memory *m)
{
    return m->all.mark - m->all.mark / 8;
}

/* ---- shares ---- */

/* Those seen last are at the end. Returns what they hold that are still large. */
static size_t look_at_large(struct memory *m, size_t n)
{
    struct list_node *node;
    size_t held = 0;

    for (; n > 0 && (node = list_pop_front(&m->large)) != NULL; n--) {
        struct memory_address *a = list_entry(node, struct memory_address, node);

        if (a->held.held < LIMIT_CLIENT_LITTLE) {
            a->held.most = SIZE_MAX;
            continue;
        }
        list_push_back(&m->large, node);
        held += a->held.held;
    }
    return held;
}

static void on_large(struct quota *q)
{
    struct memory_address *a = list_entry(q, struct memory_address, held);

    (void)look_at_large(a->memory, FORGOTTEN); /* or else the list is of all that ever were */
    if (!list_linked(&a->node))
        list_push_back(&a->memory->large, &a->node);
}

static void look_at_addresses(struct memory *m)
{
    size_t large = look_at_large(m, m->large.count);

    must_hold(large <= m->all.held);
    m->little = m->all.held - large;
    m->crowd = m->little + m->large.count * LIMIT_CLIENT_LITTLE >= enough(m);
}

/* As long as there is more than enough, somebody holds more than that. */
static size_t share_of(const struct memory *m, size_t all)
{
    size_t left = all > m->little ? all - m->little : 0, n = m->large.count > 0 ? m->large.count : 1;

    if (m->crowd)
        return all / (m->addresses > 0 ? m->addresses : 1);
    return left / n > LIMIT_CLIENT_LITTLE ? left / n : LIMIT_CLIENT_LITTLE;
}

/* All that addresses beyond their share may make of it: the last sixteenth is for the others. */
static size_t for_greedy(const struct memory *m)
{
    return m->all.most - m->all.most / 16;
}

/* `full`: what is under way at addresses beyond their share grows no further than that; else without bounds again. */
static void bound_greedy(struct memory *m, bool full)
{
    size_t share = share_of(m, enough(m)), most = for_greedy(m);
    size_t room = most > m->all.held ? (most - m->all.held) / (m->large.count > 0 ? m->large.count : 1) : 0;
    struct list_node *node;

    for (node = list_first(&m->large); node != NULL; node = list_next(&m->large, node)) {
        struct memory_address *a = list_entry(node, struct memory_address, node);
        size_t held = a->held.held + room;

        a->held.most = !full ? SIZE_MAX : held > share ? held : share;
    }
    m->bounded = full;
}

/* ---- the greediest of them ---- */

struct ranking {
    size_t n, most;
    struct memory_holder *first[SMALL_AT_ONCE]; /* in order */
};

/* Address by address; who is between requests loses least. */
static bool before(const struct memory_holder *a, const struct memory_holder *b)
{
    if (of_address(a) != of_address(b))
        return of_address(a) > of_address(b);
    if (a->held.parent != b->held.parent)
        return a->held.parent > b->held.parent;
    return a->idle != b->idle ? a->idle : a->held.held > b->held.held;
}

static void rank(struct ranking *r, struct memory_holder *h)
{
    size_t at = r->n;

    while (at > 0 && before(h, r->first[at - 1]))
        at--;
    if (at == r->most)
        return;
    if (r->n == r->most)
        r->n--;
    memmove(&r->first[at + 1], &r->first[at], (r->n - at) * sizeof(r->first[0]));
    r->first[at] = h;
    r->n++;
}

static void rank_much(struct memory *m, struct ranking *r)
{
    size_t least = share_of(m, enough(m));
    struct list_node *node, *next;

    for (node = list_first(&m->much); node != NULL; node = next) {
        struct memory_holder *h = list_entry(node, struct memory_holder, node);

        next = list_next(&m->much, node);
        if (h->held.held < MUCH_BYTES) {
            leave(h);
            join(h, false);
        } else if (is_still(h) && of_address(h) > least) {
            h->idle = false;
            rank(r, h);
        }
    }
}

static void rank_small(struct memory *m, struct ranking *r)
{
    size_t least = share_of(m, enough(m)), n = m->small.count < SMALL_SEEN ? m->small.count : SMALL_SEEN;
    struct list_node *node;

    for (; n > 0 && (node = list_pop_front(&m->small)) != NULL; n--) {
        struct memory_holder *h = list_entry(node, struct memory_holder, node);

        list_push_back(&m->small, node);
        h->idle = m->opts.idle(h);
        if ((is_still(h) || h->idle) && of_address(h) > least)
            rank(r, h);
    }
}

/* ---- too much ---- */

/*
 * What they hold goes at the end of the turn. Each address keeps its share. Returns what will be left of `all`;
 * `requests`: how many may still end in this turn, which takes time for each.
 */
static size_t end_first(struct memory *m, const struct ranking *r, size_t all, size_t *requests)
{
    size_t most = enough(m), least = share_of(m, most), of_it = 0;
    const struct quota *address = NULL;

    for (size_t i = 0; i < r->n && all > most && *requests > 0; i++) {
        struct memory_holder *h = r->first[i];
        size_t held = h->held.held, ended;

        if (h->held.parent != address)
            of_it = of_address(h);
        address = h->held.parent;
        if (of_it <= least)
            continue;
        of_it -= held;
        all -= held;
        ended = m->opts.end(h);
        *requests -= ended < *requests ? ended : *requests;
    }
    return all;
}

static void make_room(void *arg)
{
    struct memory *m = arg;
    struct ranking much = {.most = ENDED_AT_ONCE}, small = {.most = SMALL_AT_ONCE};
    size_t all = m->all.held, left, requests = REQUESTS_AT_ONCE;

    m->crowd = false;
    if (all <= enough(m)) {
        bound_greedy(m, false);
        return;
    }
    look_at_addresses(m);
    bound_greedy(m, m->addresses > 1 && (all >= m->all.mark || m->bounded));
    rank_much(m, &much);
    all = left = end_first(m, &much, all, &requests);
    if (all > enough(m)) {
        rank_small(m, &small);
        left = end_first(m, &small, all, &requests);
    }
    loop_timer_set(m->look, left < all || requests == 0 ? AGAIN_MS : LOOK_MS);
}

/* From the mark on, until there is room for what could not have it: a large head, say. */
static void on_full(struct quota *q)
{
    struct memory *m = list_entry(q, struct memory, all);

    if (!loop_timer_pending(m->look))
        loop_timer_set(m->look, 0);
}

/* ---- life ---- */

struct memory *memory_new(struct loop *l, const struct memory_opts *o)
{
    struct memory *m = mem_zalloc(sizeof(*m));

    if (m == NULL)
        return NULL;
    m->loop = l;
    m->opts = *o;
    list_init(&m->much);
    list_init(&m->small);
    list_init(&m->large);
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
    must_hold(m->all.held == 0 && m->addresses == 0);
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

void memory_address_enter(struct memory *m, struct memory_address *a)
{
    *a = (struct memory_address){.memory = m};
    quota_init(&a->held, m != NULL ? &m->all : NULL, 0);
    if (m == NULL)
        return;
    a->held.mark = LIMIT_CLIENT_LITTLE;
    a->held.reached = on_large;
    m->addresses++;
}

void memory_address_leave(struct memory_address *a)
{
    must_hold(a->held.held == 0);
    if (a->memory == NULL)
        return;
    if (list_linked(&a->node))
        list_remove(&a->memory->large, &a->node);
    must_hold(a->memory->addresses > 0);
    a->memory->addresses--;
}

void memory_enter(struct memory *m, struct memory_holder *h, struct quota *address)
{
    *h = (struct memory_holder){.memory = m};
    quota_init(&h->held, address, 0);
    quota_init(&h->heads, &h->held, LIMIT_CONNECTION_HEADS);
    if (m == NULL)
        return;
    h->held.mark = MUCH_BYTES;
    h->held.reached = on_much;
    h->still_since_ms = loop_now_ms(m->loop);
    join(h, false);
}

void memory_lift_heads(struct memory_holder *h)
{
    h->heads.most = SIZE_MAX;
}

/* The table is what its connection holds, too. */
static bool make_clients(struct memory_holder *h)
{
    if (h->clients != NULL)
        return true;
    if (!quota_has_room(&h->held, CLIENTS * sizeof(*h->clients)))
        return false;
    h->clients = mem_array(CLIENTS, sizeof(*h->clients));
    if (h->clients == NULL)
        return false;
    quota_add(&h->held, CLIENTS * sizeof(*h->clients));
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
    must_hold(h->memory == NULL); /* dismissed: nobody finds it any more */
    if (h->clients != NULL)
        quota_give(&h->held, CLIENTS * sizeof(*h->clients));
    must_hold(h->held.held == 0);
    mem_free(h->clients);
}

void memory_dismiss(struct memory_holder *h)
{
    if (h->memory == NULL)
        return;
    leave(h);
    h->memory = NULL;
}

bool memory_refuses(const struct memory_holder *h)
{
    const struct memory *m = h->memory;

    return m != NULL && m->all.held >= m->all.mark && of_address(h) > share_of(m, m->all.mark);
}
