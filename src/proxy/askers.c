/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/askers.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/strmap.h"

enum { TEXT_BYTES = 128, ADDRESS_BYTES = 64, KEY_BYTES = GVR_KEY_BYTES + 2 * TEXT_BYTES + 8, HOUR_MS = 3600 * 1000 };

struct hours {
    uint64_t last_ms, newest; /* newest: the hour of the newest count, since the clock's start */
    uint32_t counts[ASKERS_HOURS];
};

struct resource {
    struct list_node node; /* in its pool */
    char *key;             /* its place in the map */
    unsigned pool;
    struct hours hours;
    struct list entries; /* who asked last first */
};

/* The entries that somebody has in one pool. */
struct share {
    struct list_node node; /* in by_count[rank] of the pool, if it has any */
    size_t rank;
    struct list entries; /* who asked last first */
};

/* Whoever made up the names: the user if he is known, else the client's address. */
struct source {
    char key[1 + TEXT_BYTES + 1]; /* its place in the map */
    size_t entries;               /* in all pools; none: it is freed */
    struct share in[ASKERS_POOLS];
};

struct entry {
    struct list_node node, node_in_share, node_in_pool;
    struct resource *resource;
    struct source *source;
    char *key;                     /* its place in the map */
    struct slice user_agent, user; /* in it */
    char address[ADDRESS_BYTES];   /* of the last request; no NUL where it fills it */
    struct hours hours;
};

struct pool {
    struct list resources; /* the one asked for last first */
    struct list entries;   /* who asked last first */
    /* Shares by how many entries they have (the last: or more), the one that changed last first. */
    struct list by_count[LIMIT_ASKERS + 1];
    size_t most;        /* none above it has shares */
    bool forgot;        /* resources; the last one of them was asked for at: */
    uint64_t forgot_ms; /* clock_ms() */
};

struct askers {
    struct pool pools[ASKERS_POOLS];
    struct strmap *resources, *entries, *sources;
    uint64_t began_ms, forgotten;
};

/* ---- by hours ---- */

static void count_request(struct hours *h, uint64_t now)
{
    uint64_t hour = now / HOUR_MS;

    if (hour - h->newest >= ASKERS_HOURS)
        memset(h->counts, 0, sizeof(h->counts));
    else
        while (h->newest < hour)
            h->counts[++h->newest % ASKERS_HOURS] = 0;
    h->newest = hour;
    h->last_ms = now;
    h->counts[hour % ASKERS_HOURS]++;
}

static struct asked sum(const struct hours *h)
{
    struct asked all = {.last_ms = h->last_ms};
    uint64_t hour = clock_ms() / HOUR_MS;

    for (uint64_t back = 0; back < ASKERS_HOURS && back <= h->newest; back++) {
        uint32_t requests = h->counts[(h->newest - back) % ASKERS_HOURS];

        if (hour - (h->newest - back) >= ASKERS_HOURS)
            break;
        all.requests += requests;
        all.requests_lately += hour - (h->newest - back) < 2 ? requests : 0;
    }
    return all;
}

static bool is_silent(const struct hours *h)
{
    return clock_ms() / HOUR_MS - h->newest >= ASKERS_HOURS;
}

/* ---- what is kept ---- */

struct askers *askers_new(void)
{
    struct askers *a = must_zalloc(sizeof(*a));

    for (size_t i = 0; i < ASKERS_POOLS; i++) {
        list_init(&a->pools[i].resources);
        list_init(&a->pools[i].entries);
        for (size_t k = 0; k <= LIMIT_ASKERS; k++)
            list_init(&a->pools[i].by_count[k]);
    }
    a->resources = strmap_new();
    a->entries = strmap_new();
    a->sources = strmap_new();
    a->began_ms = clock_ms();
    must_hold(a->resources != NULL && a->entries != NULL && a->sources != NULL);
    return a;
}

static void rank(struct pool *p, struct share *s)
{
    if (list_linked(&s->node))
        list_remove(&p->by_count[s->rank], &s->node);
    s->rank = s->entries.count < LIMIT_ASKERS ? s->entries.count : LIMIT_ASKERS;
    if (s->rank > 0)
        list_push_front(&p->by_count[s->rank], &s->node);
    p->most = s->rank > p->most ? s->rank : p->most;
}

static void source_free_if_unused(struct askers *a, struct source *s)
{
    const struct source *removed;

    if (s->entries > 0)
        return;
    removed = strmap_remove(a->sources, slice_str(s->key));
    must_hold(removed == s);
    mem_free(s);
}

/* The caller frees the source if that was its last entry. */
static void take_from_pool(struct askers *a, struct entry *e)
{
    struct pool *p = &a->pools[e->resource->pool];
    struct share *s = &e->source->in[e->resource->pool];

    list_remove(&p->entries, &e->node_in_pool);
    list_remove(&s->entries, &e->node_in_share);
    must_hold(e->source->entries > 0);
    e->source->entries--;
    rank(p, s);
}

static void put_into_pool(struct askers *a, struct entry *e, struct source *source)
{
    struct pool *p = &a->pools[e->resource->pool];
    struct share *s = &source->in[e->resource->pool];

    e->source = source;
    list_push_front(&p->entries, &e->node_in_pool);
    list_push_front(&s->entries, &e->node_in_share);
    source->entries++;
    rank(p, s);
}

static void drop_entry(struct askers *a, struct entry *e)
{
    const struct entry *removed = strmap_remove(a->entries, slice_str(e->key));

    must_hold(removed == e);
    list_remove(&e->resource->entries, &e->node);
    take_from_pool(a, e);
    source_free_if_unused(a, e->source);
    mem_free(e->key);
    mem_free(e);
}

static void drop_resource(struct askers *a, struct resource *r)
{
    struct list_node *n;

    while ((n = list_first(&r->entries)) != NULL)
        drop_entry(a, list_entry(n, struct entry, node));
    (void)strmap_remove(a->resources, slice_str(r->key));
    list_remove(&a->pools[r->pool].resources, &r->node);
    mem_free(r->key);
    mem_free(r);
}

void askers_free(struct askers *a)
{
    struct list_node *n;

    for (size_t i = 0; i < ASKERS_POOLS; i++)
        while ((n = list_first(&a->pools[i].resources)) != NULL)
            drop_resource(a, list_entry(n, struct resource, node));
    strmap_free(a->resources);
    strmap_free(a->entries);
    strmap_free(a->sources);
    mem_free(a);
}

static void forget_resource(struct pool *p, uint64_t last_ms)
{
    p->forgot_ms = !p->forgot || last_ms > p->forgot_ms ? last_ms : p->forgot_ms;
    p->forgot = true;
}

static struct entry *oldest_of_most(struct pool *p)
{
    struct list_node *share, *last;

    while (p->most > 0 && p->by_count[p->most].count == 0)
        p->most--;
    share = list_last(&p->by_count[p->most]);
    must_hold(share != NULL); /* somebody has the entries that are too many */
    last = list_last(&list_entry(share, struct share, node)->entries);
    must_hold(last != NULL);
    return list_entry(last, struct entry, node_in_share);
}

/* Whoever asks in many names takes no room from others; who is not told of any more makes room first. */
static void forget_entry(struct askers *a, struct pool *p)
{
    struct list_node *last = list_last(&p->entries);
    struct entry *e;

    must_hold(last != NULL);
    e = list_entry(last, struct entry, node_in_pool);
    drop_entry(a, is_silent(&e->hours) ? e : oldest_of_most(p));
    a->forgotten++;
}

static void keep_bounds(struct askers *a, struct pool *p)
{
    while (p->resources.count > LIMIT_ASKERS_RESOURCES) {
        struct list_node *last = list_last(&p->resources);
        struct resource *r = list_entry(last, struct resource, node);

        must_hold(last != NULL);
        forget_resource(p, r->hours.last_ms);
        a->forgotten += r->entries.count;
        drop_resource(a, r);
    }
    while (p->entries.count > LIMIT_ASKERS)
        forget_entry(a, p);
}

/* ---- notes ---- */

static struct resource *resource_of(struct askers *a, unsigned pool, struct slice key)
{
    struct resource *r = strmap_get(a->resources, key);

    if (r != NULL)
        return r;
    r = mem_zalloc(sizeof(*r));
    if (r == NULL)
        return NULL;
    r->key = mem_slicedup(key);
    if (r->key == NULL || !strmap_put(a->resources, key, r, NULL)) {
        mem_free(r->key);
        mem_free(r);
        return NULL;
    }
    r->pool = pool;
    list_init(&r->entries);
    list_push_front(&a->pools[pool].resources, &r->node);
    return r;
}

/* Its askers count as the latest there, among themselves in their order. */
static void move_entries(struct askers *a, struct resource *r, unsigned from, unsigned to)
{
    for (size_t left = r->entries.count; left > 0; left--) {
        struct list_node *n = list_last(&r->entries);
        struct entry *e;

        must_hold(n != NULL);
        e = list_entry(n, struct entry, node);
        list_remove(&r->entries, n);
        list_push_front(&r->entries, n);
        r->pool = from;
        take_from_pool(a, e);
        r->pool = to;
        put_into_pool(a, e, e->source);
    }
}

static void move_to(struct askers *a, struct resource *r, unsigned pool)
{
    list_remove(&a->pools[r->pool].resources, &r->node);
    if (r->pool != pool)
        move_entries(a, r, r->pool, pool);
    r->pool = pool;
    list_push_front(&a->pools[pool].resources, &r->node);
}

/* Of what others say of themselves: bounded, and one line. */
static struct slice bounded(struct slice text, char end)
{
    size_t n = 0;

    while (n < text.n && n < TEXT_BYTES && text.p[n] != end && text.p[n] != '\n' && text.p[n] != '\0')
        n++;
    return slice_of(text.p, n);
}

/* What `who` has of room is counted together. NULL: no memory. */
static struct source *source_of(struct askers *a, const struct asker_who *who)
{
    struct slice user = bounded(who->user, '\n');
    struct slice name = user.n > 0 ? user : bounded(who->address, '\n');
    char key[sizeof(((struct source *)NULL)->key)] = {user.n > 0 ? 'u' : 'a'};
    struct source *s;

    if (name.n > 0)
        memcpy(key + 1, name.p, name.n);
    s = strmap_get(a->sources, slice_str(key));
    if (s != NULL)
        return s;
    s = mem_zalloc(sizeof(*s));
    if (s == NULL || !strmap_put(a->sources, slice_str(key), s, NULL)) {
        mem_free(s);
        return NULL;
    }
    memcpy(s->key, key, sizeof(key));
    for (size_t i = 0; i < ASKERS_POOLS; i++)
        list_init(&s->in[i].entries);
    return s;
}

static struct entry *entry_new(struct askers *a, struct resource *r, struct source *source, struct slice key)
{
    struct entry *e = mem_zalloc(sizeof(*e));
    struct slice rest;

    if (e == NULL)
        return NULL;
    e->key = mem_slicedup(key);
    if (e->key == NULL || !strmap_put(a->entries, key, e, NULL)) {
        mem_free(e->key);
        mem_free(e);
        return NULL;
    }
    rest = slice_str(e->key + strlen(r->key) + 1);
    (void)slice_split(&rest, '\n', &e->user_agent);
    (void)slice_split(&rest, '\n', &e->user);
    e->resource = r;
    list_push_front(&r->entries, &e->node);
    put_into_pool(a, e, source);
    return e;
}

/* The one that `who` says, made if there is none. NULL: no memory. */
static struct entry *entry_of(struct askers *a, struct resource *r, struct source *source, const struct asker_who *who)
{
    const struct slice parts[] = {slice_str(r->key), bounded(who->user_agent, ' '), bounded(who->user, '\n')};
    char text[KEY_BYTES];
    struct buf b = {.p = text, .cap = sizeof(text), .ceiling = sizeof(text)};
    struct entry *e;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        buf_append(&b, parts[i]);
        buf_append_char(&b, '\n');
    }
    if (b.failed)
        return NULL;
    e = strmap_get(a->entries, buf_slice(&b));
    return e == NULL ? entry_new(a, r, source, buf_slice(&b)) : e;
}

/* By token he may come from another address than before: then he counts there. */
static void renew_entry(struct askers *a, struct entry *e, struct source *source)
{
    struct source *before = e->source;

    list_remove(&e->resource->entries, &e->node);
    list_push_front(&e->resource->entries, &e->node);
    take_from_pool(a, e);
    put_into_pool(a, e, source);
    source_free_if_unused(a, before);
}

static void note_entry(struct askers *a, struct resource *r, const struct asker_who *who)
{
    struct source *source = source_of(a, who);
    struct entry *e;

    if (source == NULL)
        return; /* it counts all the same */
    e = entry_of(a, r, source, who);
    if (e == NULL) {
        source_free_if_unused(a, source);
        return;
    }
    renew_entry(a, e, source);
    count_request(&e->hours, r->hours.last_ms);
    memset(e->address, 0, sizeof(e->address));
    if (who->address.n > 0)
        memcpy(e->address, who->address.p, who->address.n < ADDRESS_BYTES ? who->address.n : ADDRESS_BYTES);
}

void askers_note(struct askers *a, unsigned pool, const struct gvr *gvr, const struct asker_who *who)
{
    char text[GVR_KEY_BYTES];
    struct slice key = gvr_key(gvr, text);
    struct resource *r;

    if (key.p == NULL || memchr(key.p, '\0', key.n) != NULL)
        return; /* no resource has such a name */
    r = resource_of(a, pool, key);
    if (r == NULL) {
        forget_resource(&a->pools[pool], clock_ms());
        return;
    }
    move_to(a, r, pool);
    count_request(&r->hours, clock_ms());
    note_entry(a, r, who);
    keep_bounds(a, &a->pools[pool]);
}

/* ---- questions ---- */

static const struct resource *find(const struct askers *a, const struct gvr *gvr)
{
    char text[GVR_KEY_BYTES];
    struct slice key = gvr_key(gvr, text);

    return key.p == NULL ? NULL : strmap_get(a->resources, key);
}

void askers_count(const struct askers *a, const struct gvr *gvr, struct asked *out)
{
    const struct resource *r = find(a, gvr);

    *out = r == NULL ? (struct asked){.requests = 0} : sum(&r->hours);
}

void askers_each(const struct askers *a, const struct gvr *gvr, void (*fn)(const struct asker *asker, void *arg),
                 void *arg)
{
    const struct resource *r = find(a, gvr);

    if (r == NULL)
        return;
    for (struct list_node *n = list_first(&r->entries); n != NULL; n = list_next(&r->entries, n)) {
        const struct entry *e = list_entry(n, struct entry, node);
        struct slice address = slice_of(e->address, strnlen(e->address, sizeof(e->address)));
        struct asker one = {{e->user_agent, e->user, address}, sum(&e->hours)};

        if (one.asked.requests > 0)
            fn(&one, arg);
    }
}

uint64_t askers_forgotten(const struct askers *a)
{
    return a->forgotten;
}

bool askers_forget_resources(const struct askers *a, unsigned pool)
{
    const struct pool *p = &a->pools[pool];

    return p->forgot && clock_ms() - p->forgot_ms < (uint64_t)ASKERS_HOURS * HOUR_MS;
}

uint64_t askers_since_ms(const struct askers *a)
{
    uint64_t all = (uint64_t)ASKERS_HOURS * HOUR_MS, ms = clock_ms() - a->began_ms;

    return ms < all ? ms : all;
}
