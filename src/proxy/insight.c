/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/insight.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/metric.h"
#include "base/strmap.h"

#include <stdlib.h>

enum { MEMO = 512, KEY_BYTES = 600, TEXT_BYTES = 128, SERIES = 1000, HOUR_MS = 3600 * 1000 };

struct entry {
    struct list_node node; /* in insight.entries */
    char *key;             /* its place in the map, and what the slices point into */
    struct slice group, version, resource, user_agent, user;
    uint64_t last_ms, hour; /* hour: of the newest bucket, since the clock's start */
    uint32_t hours[INSIGHT_HOURS];
};

struct insight {
    struct list entries; /* who asked last first */
    struct strmap *by_key;
    struct metric_family *requests;
    uint64_t forgotten;
    /* What was found out about a resource in this snapshot. */
    struct {
        uint64_t hash, generation;
        enum insight_kind kind;
    } memo[MEMO];
};

/* ---- kinds ---- */

/* What the known servers say together. */
struct tally {
    size_t known, serving;
    bool unversioned;                /* some server's release is not known */
    uint64_t oldest, newest;         /* of all */
    uint64_t serving_lo, serving_hi; /* of those that serve it */
};

static void count(struct tally *t, uint64_t release, bool serves)
{
    t->unversioned = t->unversioned || release == 0;
    t->oldest = t->known == 0 || release < t->oldest ? release : t->oldest;
    t->newest = t->known == 0 || release > t->newest ? release : t->newest;
    t->known++;
    if (!serves)
        return;
    t->serving_lo = t->serving == 0 || release < t->serving_lo ? release : t->serving_lo;
    t->serving_hi = t->serving == 0 || release > t->serving_hi ? release : t->serving_hi;
    t->serving++;
}

enum insight_kind insight_kind(const struct served *s, const struct gvr *gvr)
{
    struct slice none = slice_of("", 0);
    struct tally t = {0};

    if (served_local_disco(s) != NULL)
        count(&t, served_local_release(s), served_local(s, gvr, none, none) == DISCO_SERVED);
    for (size_t i = 0; i < served_n_peers(s); i++) {
        const struct served_peer *p = served_peer_at(s, i);

        /* Who is away for the moment comes back: what only he serves is not everybody's meanwhile. */
        if (p->discovery_known)
            count(&t, p->release, served_by_peer(s, i, gvr, none, none) == DISCO_SERVED);
    }
    if (t.serving == 0 || t.serving == t.known || served_excluded(s, gvr->group, gvr->version))
        return INSIGHT_EVEN;
    if (t.unversioned || t.oldest == t.newest)
        return INSIGHT_SOME;
    if (t.serving_hi < t.newest)
        return INSIGHT_OLD;
    return t.serving_lo > t.oldest ? INSIGHT_NEW : INSIGHT_SOME;
}

const char *insight_kind_name(enum insight_kind kind)
{
    static const char *const names[] = {
        [INSIGHT_EVEN] = "even", [INSIGHT_OLD] = "old", [INSIGHT_NEW] = "new", [INSIGHT_SOME] = "some"};

    return names[kind];
}

/* Into a buffer that is given, so that nothing is allocated for each request; false if it does not fit. */
static bool put_key(struct buf *b, const struct gvr *gvr, struct slice user_agent, struct slice user)
{
    const struct slice parts[] = {gvr->group, gvr->version, gvr->resource, user_agent, user};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        buf_append(b, parts[i]);
        buf_append_char(b, '\n');
    }
    return !b->failed;
}

enum insight_kind insight_look(struct insight *i, const struct served *s, const struct gvr *gvr)
{
    char text[KEY_BYTES];
    struct buf b = {.p = text, .cap = sizeof(text), .ceiling = sizeof(text)};
    uint64_t hash;

    if (served_n_peers(s) == 0)
        return INSIGHT_EVEN;
    if (!put_key(&b, gvr, SLICE_NONE, SLICE_NONE))
        return INSIGHT_EVEN; /* no resource has such a name */
    hash = hash_seeded(buf_slice(&b));
    if (i->memo[hash % MEMO].hash != hash || i->memo[hash % MEMO].generation != served_generation(s)) {
        i->memo[hash % MEMO].hash = hash;
        i->memo[hash % MEMO].generation = served_generation(s);
        i->memo[hash % MEMO].kind = insight_kind(s, gvr);
    }
    return i->memo[hash % MEMO].kind;
}

/* ---- who asked ---- */

struct insight *insight_new(struct metrics *m)
{
    static const char *const labels[] = {"group", "version", "resource", "served_by", NULL};
    struct insight *i = must_zalloc(sizeof(*i));

    list_init(&i->entries);
    i->by_key = strmap_new();
    i->requests =
        metric_family(m, METRIC_COUNTER, "mvproxy_skewed_resource_requests_total",
                      "Requests for resources that only older, only newer or only some servers serve.", labels, SERIES);
    if (i->by_key == NULL)
        abort();
    return i;
}

static void drop(struct insight *i, struct entry *e)
{
    (void)strmap_remove(i->by_key, slice_str(e->key));
    list_remove(&i->entries, &e->node);
    mem_free(e->key);
    mem_free(e);
}

void insight_free(struct insight *i)
{
    struct list_node *n;

    while ((n = list_first(&i->entries)) != NULL)
        drop(i, list_entry(n, struct entry, node));
    strmap_free(i->by_key);
    mem_free(i);
}

static struct entry *entry_new(struct insight *i, struct slice key)
{
    struct entry *e = mem_zalloc(sizeof(*e));
    struct slice rest;

    if (e == NULL)
        return NULL;
    e->key = mem_slicedup(key);
    if (e->key == NULL || !strmap_put(i->by_key, key, e, NULL)) {
        mem_free(e->key);
        mem_free(e);
        return NULL;
    }
    rest = slice_str(e->key);
    (void)slice_split(&rest, '\n', &e->group);
    (void)slice_split(&rest, '\n', &e->version);
    (void)slice_split(&rest, '\n', &e->resource);
    (void)slice_split(&rest, '\n', &e->user_agent);
    (void)slice_split(&rest, '\n', &e->user);
    list_push_front(&i->entries, &e->node);
    if (i->entries.count > LIMIT_INSIGHT_ASKERS) {
        drop(i, list_entry(list_last(&i->entries), struct entry, node));
        i->forgotten++;
    }
    return e;
}

/* Of what others say of themselves: bounded, and one line. */
static struct slice bounded(struct slice text, char end)
{
    size_t n = 0;

    while (n < text.n && n < TEXT_BYTES && text.p[n] != end && text.p[n] != '\n' && text.p[n] != '\0')
        n++;
    return slice_of(text.p, n);
}

static void advance(struct entry *e, uint64_t hour)
{
    if (hour - e->hour >= INSIGHT_HOURS)
        memset(e->hours, 0, sizeof(e->hours));
    else
        while (e->hour < hour)
            e->hours[++e->hour % INSIGHT_HOURS] = 0;
    e->hour = hour;
}

void insight_note(struct insight *i, enum insight_kind kind, const struct gvr *gvr, struct slice user_agent,
                  struct slice user)
{
    struct slice labels[] = {gvr->group, gvr->version, gvr->resource, slice_str(insight_kind_name(kind))};
    char text[KEY_BYTES];
    struct buf b = {.p = text, .cap = sizeof(text), .ceiling = sizeof(text)};
    struct entry *e;

    metric_inc(metric_child(i->requests, labels));
    if (!put_key(&b, gvr, bounded(user_agent, ' '), bounded(user, '\n')))
        return;
    e = strmap_get(i->by_key, buf_slice(&b));
    if (e == NULL)
        e = entry_new(i, buf_slice(&b));
    if (e == NULL)
        return;
    list_remove(&i->entries, &e->node);
    list_push_front(&i->entries, &e->node);
    e->last_ms = clock_ms();
    advance(e, e->last_ms / HOUR_MS);
    e->hours[e->hour % INSIGHT_HOURS]++;
}

void insight_each(const struct insight *i, void (*fn)(const struct insight_asker *a, void *arg), void *arg)
{
    uint64_t hour = clock_ms() / HOUR_MS;

    for (struct list_node *n = list_first(&i->entries); n != NULL; n = list_next(&i->entries, n)) {
        const struct entry *e = list_entry(n, struct entry, node);
        struct insight_asker a = {
            {e->group, e->version, e->resource}, e->user_agent, e->user, e->last_ms, .requests = 0};

        for (uint64_t back = 0; back < INSIGHT_HOURS && back <= e->hour; back++) {
            uint32_t requests = e->hours[(e->hour - back) % INSIGHT_HOURS];

            if (hour - (e->hour - back) >= INSIGHT_HOURS)
                break;
            a.requests += requests;
            a.requests_lately += hour - (e->hour - back) < 2 ? requests : 0;
        }
        if (a.requests > 0)
            fn(&a, arg);
    }
}

uint64_t insight_forgotten(const struct insight *i)
{
    return i->forgotten;
}
