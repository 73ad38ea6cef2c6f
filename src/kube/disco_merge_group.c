/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/disco_merge_group.h"

#include "base/contract.h"
#include "base/strmap.h"
#include "kube/consensus.h"
#include "kube/disco_union.h"

/* Uniting descriptions of a resource costs about as much as looking at this many; so many bytes are copied while one is
 * looked at. */
enum { UNION_COST = 16, BYTES_PER_RESOURCE = 256, FORGET_AT_ONCE = 1000 };

/* Which hashes may have been met: where all descriptions are different, none is compared with all others. */
struct met {
    uint64_t bits[8];
};

/* Whether it may have been; from now on it has. */
static bool meet(struct met *m, uint64_t hash)
{
    uint64_t *word = &m->bits[(hash >> 6) % (sizeof(m->bits) / sizeof(m->bits[0]))], bit = (uint64_t)1 << (hash & 63);
    bool met = (*word & bit) != 0;

    *word |= bit;
    return met;
}

/* One distinct description of the group, and who gives it. */
struct group_part {
    const struct disco_group *group;
    uint64_t hash; /* the group's, where it is quickly found */
    bool partial, doubtful;
    bool live;   /* one of the givers is */
    size_t last; /* number of the last giver */
};

struct version_part {
    const struct disco_version *version;
    uint64_t hash;
    bool live;
    size_t last;
};

struct version {
    struct slice name;
    struct version_part *parts; /* distinct */
    size_t n;
    struct met met;
};

/* A name that several descriptions share; parts are distinct in their bytes, in order of their first giver. */
struct resource {
    struct resource *next;
    uint32_t number;
    struct disco_union_part *parts;
    size_t n;
    struct met met;
};

struct resources {
    struct strmap *by_name;
    struct resource *first, **last;
    struct resource *expected; /* servers mostly have the same ones in the same order: often this comes next */
    size_t n;
};

struct disco_group_merge {
    disco_excluded_fn *excluded;
    void *arg;
    struct buf *out;
    struct arena *in_group; /* till the end of the group */
    struct arena *scratch;  /* till the end of one resource */
    struct group_part *parts;
    size_t n_parts;
    struct version *versions;
    size_t n_versions;
    struct fiber *fiber;
    bool tidy; /* without empty timestamps */
};

struct disco_group_merge *disco_group_merge_new(struct buf *out, disco_excluded_fn *excluded, void *arg)
{
    struct disco_group_merge *m = mem_zalloc(sizeof(*m));

    if (m == NULL)
        return NULL;
    m->out = out;
    m->excluded = excluded;
    m->arg = arg;
    m->in_group = arena_new(DISCO_MERGE_ARENA_BYTES);
    m->scratch = arena_new(DISCO_MERGE_ARENA_BYTES);
    if (m->in_group == NULL || m->scratch == NULL) {
        disco_group_merge_free(m);
        return NULL;
    }
    return m;
}

void disco_group_merge_free(struct disco_group_merge *m)
{
    if (m == NULL)
        return;
    arena_free(m->in_group);
    arena_free(m->scratch);
    mem_free(m);
}

static bool spend(struct disco_group_merge *m, size_t n)
{
    return fiber_spend(m->fiber, n);
}

/* ---- resources ---- */

static struct resource *find_resource(struct resources *all, const struct disco_resource *like)
{
    struct resource *r = all->expected;

    return r != NULL && slice_eq(r->parts[0].resource->name, like->name) ? r : strmap_get(all->by_name, like->name);
}

static bool add_resource(struct disco_group_merge *m, struct resources *all, const struct disco_resource *r,
                         size_t last, size_t max_parts, uint32_t *number)
{
    struct resource *known = find_resource(all, r);

    if (known == NULL) {
        known = arena_zalloc(m->in_group, sizeof(*known));
        if (known == NULL || !strmap_put(all->by_name, r->name, known, NULL))
            return false;
        known->number = (uint32_t)all->n++;
        known->parts = arena_alloc(m->in_group, max_parts * sizeof(*known->parts));
        if (known->parts == NULL)
            return false;
        *all->last = known;
        all->last = &known->next;
    }
    all->expected = known->next;
    *number = known->number;
    for (size_t i = 0, n = meet(&known->met, r->hash) ? known->n : 0; i < n; i++)
        if (known->parts[i].hash == r->hash && known->parts[i].resource->reduced == r->reduced &&
            slice_eq(known->parts[i].resource->raw, r->raw)) {
            if (known->parts[i].last < last)
                known->parts[i].last = last;
            return true;
        }
    must_hold(known->n < max_parts); /* a version has each resource once */
    known->parts[known->n++] = (struct disco_union_part){r, r->hash, last};
    return true;
}

static bool put_as_it_is(struct disco_group_merge *m, struct slice raw)
{
    return buf_append_long(m->out, raw, m->fiber, BYTES_PER_RESOURCE);
}

static bool put_resource(struct disco_group_merge *m, const struct resource *r)
{
    bool good;

    if (r->n == 1 && !r->parts[0].resource->reduced)
        return put_as_it_is(m, r->parts[0].resource->raw);
    good = disco_union_resource(m->scratch, r->parts, r->n, m->out, m->fiber);
    arena_reset(m->scratch);
    return good && spend(m, UNION_COST * r->n);
}

/* Which resources a server's version has, and how it describes them. */
static bool gather_list(struct disco_group_merge *m, struct resources *all, const struct version *v,
                        const struct version_part *part, struct consensus_list *list)
{
    uint32_t *items = arena_alloc(m->in_group, part->version->n_resources * sizeof(*items));

    if (items == NULL)
        return false;
    *list = (struct consensus_list){items, 0};
    all->expected = all->first;
    for (const struct disco_resource *r = part->version->resources; r != NULL; r = r->next) {
        must_hold(list->n < part->version->n_resources);
        if (!add_resource(m, all, r, part->last, v->n, &items[list->n++]) || !spend(m, 1))
            return false;
    }
    return true;
}

/* *by_number gets them by number, *order the numbers as they are to be written. */
static bool order_resources(struct disco_group_merge *m, struct resources *all, const struct version *v,
                            const struct resource ***by_number, uint32_t **order)
{
    struct consensus_list *lists = arena_alloc(m->in_group, v->n * sizeof(*lists));
    struct slice *names;

    if (lists == NULL)
        return false;
    for (size_t i = 0; i < v->n; i++)
        if (!gather_list(m, all, v, &v->parts[i], &lists[i]))
            return false;
    names = arena_alloc(m->in_group, all->n * sizeof(*names));
    *by_number = arena_alloc(m->in_group, all->n * sizeof(**by_number));
    *order = arena_alloc(m->in_group, all->n * sizeof(**order));
    if (names == NULL || *by_number == NULL || *order == NULL)
        return false;
    for (const struct resource *one = all->first; one != NULL; one = one->next) {
        (*by_number)[one->number] = one;
        names[one->number] = one->parts[0].resource->name;
    }
    return consensus_fold(names, all->n, lists, v->n, *order, m->fiber);
}

static bool put_resources(struct disco_group_merge *m, struct resources *all, const struct version *v)
{
    const struct resource **by_number;
    uint32_t *order;

    if (!order_resources(m, all, v, &by_number, &order))
        return false;
    for (size_t i = 0; i < all->n; i++) {
        buf_append_str(m->out, i == 0 ? ",\"resources\":[" : ",");
        if (!put_resource(m, by_number[order[i]]) || !spend(m, 1))
            return false;
    }
    return all->n == 0 || buf_append_char(m->out, ']');
}

/* ---- versions ---- */

/* The freshness that the merged version has: as some live server writes it ("": not at all), else Stale. */
static struct slice version_freshness(const struct version *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->parts[i].live && !v->parts[i].version->stale)
            return v->parts[i].version->freshness;
    return SLICE_LIT("Stale");
}

/* Fields that only some servers know, behind the others. */
static bool put_unknown_of_version(struct disco_group_merge *m, const struct version *v)
{
    struct disco_union u = {.n = 0};

    for (size_t i = 0; i < v->n; i++)
        disco_union_add(&u, &v->parts[i].version->extras);
    return disco_union_put(&u, m->out, m->fiber);
}

static bool put_different_version(struct disco_group_merge *m, const struct version *v)
{
    struct resources all = {.by_name = strmap_new()};
    struct slice freshness = version_freshness(v);
    bool good;

    buf_append_quoted(m->out, "{\"version\":", v->name);
    all.last = &all.first;
    good = all.by_name != NULL && put_resources(m, &all, v);
    while (good && !strmap_free_some(all.by_name, FORGET_AT_ONCE))
        good = spend(m, FORGET_AT_ONCE);
    strmap_free(all.by_name);
    if (good && freshness.n > 0)
        buf_append_quoted(m->out, ",\"freshness\":", freshness);
    return good && put_unknown_of_version(m, v) && buf_append_char(m->out, '}');
}

static bool put_version(struct disco_group_merge *m, const struct version *v)
{
    if (v->n == 1 && !v->parts[0].version->reduced && (v->parts[0].live || v->parts[0].version->stale))
        return put_as_it_is(m, v->parts[0].version->raw);
    return put_different_version(m, v);
}

static void add_version_part(struct version *v, const struct disco_version *from, const struct group_part *part,
                             bool live)
{
    for (size_t i = 0, n = meet(&v->met, from->hash) ? v->n : 0; i < n; i++) {
        struct version_part *known = &v->parts[i];

        if (known->hash != from->hash || known->version->reduced != from->reduced ||
            !slice_eq(known->version->raw, from->raw))
            continue;
        known->live = known->live || live;
        if (known->last < part->last)
            known->last = part->last;
        return;
    }
    v->parts[v->n++] = (struct version_part){from, from->hash, live, part->last};
}

/* Servers mostly have the same ones in the same order: the one at place `guess` is tried first. NULL if there is none.
 */
static struct version *find_version(struct disco_group_merge *m, const struct strmap *by_name,
                                    const struct disco_version *like, size_t guess)
{
    if (guess < m->n_versions && slice_eq(m->versions[guess].name, like->name))
        return &m->versions[guess];
    return strmap_get(by_name, like->name);
}

static struct version *version_named(struct disco_group_merge *m, struct strmap *by_name,
                                     const struct disco_version *from, size_t guess)
{
    struct version *v = find_version(m, by_name, from, guess);

    if (v != NULL)
        return v;
    v = &m->versions[m->n_versions++];
    v->name = from->name;
    v->parts = arena_alloc(m->in_group, m->n_parts * sizeof(*v->parts));
    return v->parts != NULL && strmap_put(by_name, from->name, v, NULL) ? v : NULL;
}

static bool gather_versions(struct disco_group_merge *m, struct strmap *by_name)
{
    size_t max = 0;

    for (size_t i = 0; i < m->n_parts; i++)
        max += m->parts[i].group->n_versions;
    m->versions = arena_zalloc(m->in_group, max * sizeof(*m->versions));
    if (m->versions == NULL)
        return false;
    for (size_t i = 0; i < m->n_parts; i++) {
        const struct group_part *part = &m->parts[i];
        size_t guess = 0;

        for (const struct disco_version *from = part->group->versions; from != NULL; from = from->next) {
            bool excluded = part->partial && m->excluded(m->arg, from);
            struct version *v;

            if (excluded && !part->doubtful)
                continue;
            v = version_named(m, by_name, from, guess++);
            if (v == NULL)
                return false;
            must_hold(v->n <= i); /* each of those before has had it once */
            add_version_part(v, from, part, part->live && !excluded);
        }
        if (!spend(m, part->group->n_versions / 4))
            return false;
    }
    return true;
}

/* Also the place of an excluded version counts, if it comes from elsewhere. */
static bool list_versions(struct disco_group_merge *m, const struct strmap *by_name, struct consensus_list *lists)
{
    for (size_t i = 0; i < m->n_parts; i++) {
        size_t guess = 0;
        const struct disco_group *group = m->parts[i].group;
        uint32_t *items = arena_alloc(m->in_group, group->n_versions * sizeof(*items));

        if (items == NULL)
            return false;
        lists[i] = (struct consensus_list){items, 0};
        for (const struct disco_version *from = group->versions; from != NULL; from = from->next) {
            const struct version *v = find_version(m, by_name, from, guess++);

            must_hold(lists[i].n < group->n_versions);
            if (v != NULL)
                items[lists[i].n++] = (uint32_t)(v - m->versions);
        }
    }
    return true;
}

static bool order_versions(struct disco_group_merge *m, uint32_t **order)
{
    struct strmap *by_name = strmap_new();
    struct consensus_list *lists = arena_alloc(m->in_group, m->n_parts * sizeof(*lists));
    struct slice *names;
    bool good = by_name != NULL && lists != NULL && gather_versions(m, by_name) && list_versions(m, by_name, lists);

    strmap_free(by_name);
    if (!good)
        return false;
    names = arena_alloc(m->in_group, m->n_versions * sizeof(*names));
    *order = arena_alloc(m->in_group, m->n_versions * sizeof(**order));
    if (names == NULL || *order == NULL)
        return false;
    for (size_t i = 0; i < m->n_versions; i++)
        names[i] = m->versions[i].name;
    return consensus_fold(names, m->n_versions, lists, m->n_parts, *order, m->fiber);
}

/* ---- the group ---- */

/* Distinct descriptions. Servers mostly agree, so this is where most of the work ends. */
static bool gather_parts(struct disco_group_merge *m, const struct disco_group_giver *givers, size_t n)
{
    struct met met = {{0}};
    size_t i;

    m->parts = arena_alloc(m->in_group, n * sizeof(*m->parts));
    m->n_parts = 0;
    if (m->parts == NULL)
        return false;
    for (const struct disco_group_giver *giver = givers; giver < givers + n; giver++) {
        const struct disco_group *group = giver->group;

        for (i = meet(&met, group->hash) ? 0 : m->n_parts; i < m->n_parts; i++)
            if (m->parts[i].hash == group->hash && m->parts[i].partial == giver->partial &&
                m->parts[i].group->reduced == group->reduced && slice_eq(m->parts[i].group->raw, group->raw))
                break;
        if (i == m->n_parts)
            m->parts[m->n_parts++] = (struct group_part){.group = group,
                                                         .hash = group->hash,
                                                         .partial = giver->partial,
                                                         .doubtful = giver->doubtful,
                                                         .live = giver->live};
        m->parts[i].live = m->parts[i].live || giver->live;
        m->parts[i].last = giver->server;
        if (!spend(m, 1 + group->raw.n / 4096))
            return false;
    }
    return true;
}

static bool all_stale(const struct disco_group *g)
{
    for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
        if (!v->stale)
            return false;
    return true;
}

static bool put_unknown_of_group(struct disco_group_merge *m)
{
    struct disco_union u = {.n = 0};

    for (size_t i = 0; i < m->n_parts; i++)
        disco_union_add(&u, &m->parts[i].group->extras);
    return disco_union_put(&u, m->out, m->fiber);
}

static const struct slice empty_timestamp = SLICE_LIT("\"creationTimestamp\":null}");

bool disco_group_has_timestamp(const struct disco_group *g)
{
    return g->metadata.n > empty_timestamp.n &&
           slice_eq(slice_from(g->metadata, g->metadata.n - empty_timestamp.n), empty_timestamp);
}

static void put_metadata(struct disco_group_merge *m, struct slice metadata)
{
    const struct disco_group g = {.metadata = metadata};
    size_t kept = metadata.n - empty_timestamp.n;

    if (!m->tidy || !disco_group_has_timestamp(&g)) {
        buf_append(m->out, metadata);
        return;
    }
    buf_append(m->out, slice_of(metadata.p, metadata.p[kept - 1] == ',' ? kept - 1 : kept));
    buf_append_char(m->out, '}');
}

/* All that was said of it, in the same bytes by everybody. */
static bool put_whole_group(struct disco_group_merge *m, const struct disco_group *g)
{
    static const struct slice before = SLICE_LIT("{\"metadata\":");

    if (!m->tidy || !slice_has_prefix(g->raw, before) || g->metadata.p != g->raw.p + before.n)
        return put_as_it_is(m, g->raw);
    buf_append(m->out, before);
    put_metadata(m, g->metadata);
    return put_as_it_is(m, slice_from(g->raw, before.n + g->metadata.n));
}

static bool put_different_group(struct disco_group_merge *m)
{
    struct slice metadata = SLICE_LIT("{}");
    uint32_t *order;

    m->n_versions = 0;
    if (!order_versions(m, &order))
        return false;
    for (size_t i = m->n_parts; i > 0; i--)
        if (m->parts[i - 1].group->metadata.n > 2 && m->parts[i - 1].group->metadata.p[0] == '{')
            metadata = m->parts[i - 1].group->metadata;
    buf_append_str(m->out, "{\"metadata\":");
    put_metadata(m, metadata);
    for (size_t i = 0; i < m->n_versions; i++) {
        buf_append_str(m->out, i == 0 ? ",\"versions\":[" : ",");
        if (!put_version(m, &m->versions[order[i]]) || !spend(m, 1))
            return false;
    }
    if (m->n_versions > 0)
        buf_append_char(m->out, ']');
    return put_unknown_of_group(m) && buf_append_char(m->out, '}');
}

bool disco_group_merge(struct disco_group_merge *m, const struct disco_group_giver *givers, size_t n,
                       struct fiber *fiber)
{
    const struct group_part *only;

    arena_reset(m->in_group);
    m->fiber = fiber;
    if (!gather_parts(m, givers, n))
        return false;
    only = m->parts;
    if (m->n_parts > 1 || only->partial || only->group->reduced || (!only->live && !all_stale(only->group)))
        return put_different_group(m);
    return put_whole_group(m, only->group);
}

void disco_group_merge_tidy(struct disco_group_merge *m)
{
    m->tidy = true;
}
