/* SPDX-License-Identifier: Apache-2.0 */
#include "front/clients.h"

#include <stdio.h>

#include "base/churn.h"
#include "base/contract.h"
#include "base/strmap.h"
#include "front/memory.h"
#include "front/vouched.h"

enum {
    SEARCHED = 32, /* how far we look for somebody with more than a share; beyond, age alone decides */
    SECOND_MS = 1000,
    COUNTED = 1024, /* descriptors of one address; beyond, they are many */
};

struct client_address {
    size_t open;    /* descriptors */
    size_t members; /* those, and whose memory has not gone yet */
    struct memory_address memory;
    uint64_t cancels_since_ms; /* a running second, and how many were in it */
    unsigned cancels;
    struct list fresh; /* by client_member.of_address, oldest first */
    char ip[48];
};

struct clients {
    struct memory *memory;
    struct strmap *by_ip;
    struct list fresh;      /* by client_member.among_all, oldest first */
    size_t fresh_addresses; /* addresses that have any */
    size_t asking;          /* addresses that have others */
    size_t with[COUNTED];   /* addresses that have so many descriptors, the last: that many or more */
    size_t most;            /* the last that is not 0 */
    struct churn given_up;
    struct vouched vouched;
};

struct clients *clients_new(struct memory *memory)
{
    struct clients *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->memory = memory;
    c->given_up.rate = churn_rate_of(LIMIT_CHURN_REQUESTS, LIMIT_CHURN_REQUESTS_SECOND);
    list_init(&c->fresh);
    c->by_ip = strmap_new();
    if (c->by_ip == NULL) {
        mem_free(c);
        return NULL;
    }
    return c;
}

void clients_free(struct clients *c)
{
    size_t cursor = 0;
    struct slice key;
    void *address;

    if (c == NULL)
        return;
    while (strmap_next(c->by_ip, &cursor, &key, &address)) {
        memory_address_leave(&((struct client_address *)address)->memory);
        mem_free(address);
    }
    strmap_free(c->by_ip);
    mem_free(c);
}

static struct client_address *address_of(struct clients *c, struct slice ip)
{
    struct client_address *a = strmap_get(c->by_ip, ip);

    if (a != NULL)
        return a;
    a = mem_zalloc(sizeof(*a));
    if (a == NULL)
        return NULL;
    list_init(&a->fresh);
    snprintf(a->ip, sizeof(a->ip), "%.*s", (int)ip.n, ip.p);
    if (!strmap_put(c->by_ip, slice_str(a->ip), a, NULL)) {
        mem_free(a);
        return NULL;
    }
    memory_address_enter(c->memory, &a->memory);
    return a;
}

static size_t counted(size_t open)
{
    return open < COUNTED ? open : COUNTED - 1;
}

/* As its count goes up or down by one, so does the greatest, at most. */
static void count_open(struct clients *c, struct client_address *a, bool more)
{
    size_t before = counted(a->open), after = counted(more ? ++a->open : --a->open);

    must_hold(before == 0 || c->with[before] > 0);
    if (before > 0)
        c->with[before]--;
    if (after > 0)
        c->with[after]++;
    if (after > c->most || c->with[c->most] == 0)
        c->most = after;
}

enum clients_verdict clients_enter(struct clients *c, struct client_member *m, struct slice ip, size_t max)
{
    struct client_address *a = address_of(c, ip);

    if (a == NULL)
        return CLIENTS_NO_MEMORY;
    if (max != 0 && ip.n > 0 && a->open >= max)
        return CLIENTS_TOO_MANY;
    count_open(c, a, true);
    a->members++;
    m->address = a;
    if (a->fresh.count == 0)
        c->fresh_addresses++;
    list_push_back(&a->fresh, &m->of_address);
    list_push_back(&c->fresh, &m->among_all);
    return CLIENTS_WELCOME;
}

/* How many of its connections have asked something. */
static size_t asked_by(const struct client_address *a)
{
    must_hold(a->open >= a->fresh.count);
    return a->open - a->fresh.count;
}

void clients_asked(struct clients *c, struct client_member *m)
{
    if (m->address == NULL || !list_linked(&m->among_all))
        return;
    list_remove(&c->fresh, &m->among_all);
    list_remove(&m->address->fresh, &m->of_address);
    must_hold(c->fresh_addresses > 0);
    if (m->address->fresh.count == 0)
        c->fresh_addresses--;
    c->asking += asked_by(m->address) == 1;
}

void clients_renew(struct clients *c, struct client_member *m)
{
    must_hold(m->address != NULL && list_linked(&m->among_all));
    list_remove(&c->fresh, &m->among_all);
    list_push_back(&c->fresh, &m->among_all);
    list_remove(&m->address->fresh, &m->of_address);
    list_push_back(&m->address->fresh, &m->of_address);
}

void clients_leave(struct clients *c, struct client_member *m)
{
    if (m->address == NULL || m->left)
        return;
    clients_asked(c, m);
    must_hold(m->address->open > 0);
    m->left = true;
    count_open(c, m->address, false);
    must_hold(c->asking > 0); /* this one is counted as one that has asked, by now */
    c->asking -= asked_by(m->address) == 0;
}

void clients_gone(struct clients *c, struct client_member *m)
{
    struct client_address *a = m->address;
    const struct client_address *removed;

    m->address = NULL;
    must_hold(a == NULL || (a->members > 0 && !list_linked(&m->of_address)));
    if (a == NULL || --a->members > 0)
        return;
    memory_address_leave(&a->memory);
    removed = strmap_remove(c->by_ip, slice_str(a->ip));
    must_hold(removed == a && a->fresh.count == 0); /* nobody is on its list */
    mem_free(a);
}

bool clients_may_cancel(struct client_member *m, uint64_t now_ms, unsigned most)
{
    struct client_address *a = m->address;

    if (a == NULL)
        return true;
    if (now_ms - a->cancels_since_ms >= SECOND_MS) {
        a->cancels_since_ms = now_ms;
        a->cancels = 0;
    }
    return ++a->cancels <= most;
}

struct vouched *clients_vouched(struct clients *c)
{
    return &c->vouched;
}

struct churn *clients_given_up(struct clients *c)
{
    return &c->given_up;
}

struct quota *clients_quota(const struct client_member *m)
{
    return &m->address->memory.held;
}

static size_t share_of(const struct clients *c, size_t max)
{
    size_t left = max > c->fresh.count ? max - c->fresh.count : 0;

    return left / (c->asking + 1) + 1;
}

bool clients_has_surplus(const struct clients *c, const struct client_member *m, size_t max)
{
    return m->address != NULL && m->address->open > share_of(c, max);
}

/* With more than can be counted somebody has a surplus for certain: so many are an equal share of few only. */
bool clients_are_even(const struct clients *c, size_t max)
{
    return c->most < COUNTED - 1 && c->most <= 2 * share_of(c, max);
}

size_t clients_fresh(const struct clients *c)
{
    return c->fresh.count;
}

static struct client_member *oldest_of(const struct client_address *a)
{
    return list_entry(list_first(&a->fresh), struct client_member, of_address);
}

struct client_member *clients_surplus(const struct clients *c, const struct client_member *newcomer, size_t max)
{
    struct list_node *n;
    size_t share, seen = 0;

    if (max == 0 || c->fresh.count <= max)
        return NULL;
    must_hold(c->fresh_addresses > 0);
    share = max / c->fresh_addresses;
    if (newcomer->address->fresh.count > share && newcomer->address->fresh.count > 1)
        return oldest_of(newcomer->address);
    for (n = list_first(&c->fresh); n != NULL && seen < SEARCHED; n = list_next(&c->fresh, n), seen++) {
        struct client_member *m = list_entry(n, struct client_member, among_all);

        if (m->address->fresh.count > share && m != newcomer)
            return m;
    }
    return list_entry(list_first(&c->fresh), struct client_member, among_all);
}

struct client_member *clients_silent_surplus(const struct clients *c, size_t max)
{
    size_t seen = 0;

    for (struct list_node *n = list_first(&c->fresh); n != NULL && seen < SEARCHED;
         n = list_next(&c->fresh, n), seen++) {
        struct client_member *m = list_entry(n, struct client_member, among_all);

        if (clients_has_surplus(c, m, max))
            return m;
    }
    return NULL;
}
