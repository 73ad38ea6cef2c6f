/*
 * The rules of the merge.
 *
 *  servers     in bytewise order of their IDs, ours among them: nothing depends on who merges, or on the order of
 * adding. exclusion   an excluded group/version counts as absent from every server but ours; a group of which nothing
 * is left is absent. order       of groups, of versions in a group, of resources in a version: the consensus of the
 * servers' lists (consensus.h). Unlike kube-apiserver, which merges versions and resources two servers at a time, every
 * level looks at all lists at once. the same    what all its givers describe in the same bytes is copied as it is:
 * groups, versions and resources alike. group       metadata and unknown fields of the first server that has them.
 *  version     unknown fields of the first. Freshness: Current if any live server says so (without a lapsed flag and
 * not Stale), Stale otherwise. resource    responseKind, scope, singularResource and unknown fields of the first server
 * that says something; verbs: union, sorted; shortNames, categories: union in order of appearance; subresources: union
 * by name, sorted. subresource the last server takes precedence, as in kube-apiserver; but its verbs are united with
 * everybody's (there they are lost), and what it does not say (responseKind, acceptedTypes, unknown fields) comes from
 * the one before it.
 *
 * Where groups are different the work is cut by versions: one step never does more than the versions of one name in one
 * group.
 */
#include "kube/disco_merge.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/strmap.h"
#include "kube/consensus.h"
#include "kube/disco_union.h"

enum { MERGE_ARENA_BYTES = 512 << 20, MERGE_OUTPUT_BYTES = 2 * LIMIT_DISCOVERY_BYTES };

#define HEAD_BEFORE_VERSION "{\"kind\":\"" DISCO_LIST_KIND "\",\"apiVersion\":\"" DISCO_GROUP "/"
#define HEAD_AFTER_VERSION "\",\"metadata\":{},\"items\":["

enum stage { STAGE_ADDING, STAGE_COLLECT, STAGE_ORDER, STAGE_GROUPS, STAGE_VERSIONS, STAGE_FINISH, STAGE_DONE };

struct server {
    char *id;
    struct disco_doc *doc;
    unsigned flags;
    struct consensus_list groups; /* numbers of its groups, in its order */
};

/* What one server says of a group. */
struct giver {
    struct giver *next;
    size_t server;
    const struct disco_group *group;
    bool partial; /* some versions are excluded */
};

struct group {
    struct slice name;
    uint32_t number;
    struct giver *givers, **last;
};

/* One distinct description, and who gives it. */
struct group_part {
    const struct disco_group *group;
    bool partial;
    bool live;   /* one of the givers is not lapsed */
    size_t last; /* number of the last giver */
};

struct version_part {
    const struct disco_version *version;
    bool live;
    size_t last;
};

struct version {
    struct slice name;
    struct version_part *parts; /* distinct */
    size_t n;
};

struct disco_merge {
    enum stage stage;
    struct server *servers; /* in order of ID */
    size_t n_servers, cap_servers;
    struct strmap *excluded, *excluded_groups;
    struct arena *work;     /* till the end of the merge */
    struct arena *in_group; /* till the end of one group that differs */
    struct arena *scratch;  /* till the end of one resource */
    struct strmap *by_name;
    struct group **groups;
    size_t n_groups, cap_groups;
    uint32_t *order;
    size_t at_server; /* STAGE_COLLECT */
    const struct disco_group *at_group;
    size_t next_group, group_start; /* STAGE_GROUPS: place in order; where the open one starts in out */
    struct group_part *parts;       /* STAGE_VERSIONS: of the open group */
    size_t n_parts;
    struct version *versions;
    uint32_t *version_order;
    size_t n_versions, next_version;
    struct disco_union group_union;
    const struct disco_group *local; /* next group of the local document to compare with */
    bool differs;
    size_t spent;
    struct buf out, other; /* the merged document; the chosen document with the other apiVersion */
    const struct disco_doc *local_doc;
};

/* -------------------------------------------------------------------------------------------------------- life and
 * inputs */

struct disco_merge *disco_merge_new(void)
{
    struct disco_merge *m = mem_zalloc(sizeof(*m));

    if (m == NULL)
        return NULL;
    buf_init(&m->out, MERGE_OUTPUT_BYTES);
    buf_init(&m->other, MERGE_OUTPUT_BYTES);
    m->excluded = strmap_new();
    m->excluded_groups = strmap_new();
    m->by_name = strmap_new();
    m->work = arena_new(MERGE_ARENA_BYTES);
    m->in_group = arena_new(MERGE_ARENA_BYTES);
    m->scratch = arena_new(MERGE_ARENA_BYTES);
    if (m->excluded == NULL || m->excluded_groups == NULL || m->by_name == NULL || m->work == NULL ||
        m->in_group == NULL || m->scratch == NULL) {
        disco_merge_free(m);
        return NULL;
    }
    return m;
}

static void free_map(struct strmap **map)
{
    if (*map != NULL)
        strmap_free(*map);
    *map = NULL;
}

static void free_arena(struct arena **arena)
{
    if (*arena != NULL)
        arena_free(*arena);
    *arena = NULL;
}

/* Everything but the results and the documents they may point into. */
static void free_work(struct disco_merge *m)
{
    free_map(&m->excluded);
    free_map(&m->excluded_groups);
    free_map(&m->by_name);
    free_arena(&m->work);
    free_arena(&m->in_group);
    free_arena(&m->scratch);
    mem_free(m->groups);
    m->groups = NULL;
}

static void free_server(struct server *s)
{
    disco_doc_unref(s->doc);
    mem_free(s->id);
}

void disco_merge_free(struct disco_merge *m)
{
    if (m == NULL)
        return;
    free_work(m);
    for (size_t i = 0; i < m->n_servers; i++)
        free_server(&m->servers[i]);
    mem_free(m->servers);
    buf_free(&m->out);
    buf_free(&m->other);
    mem_free(m);
}

static bool room_for_server(struct disco_merge *m)
{
    size_t cap = m->cap_servers == 0 ? 8 : 2 * m->cap_servers;
    struct server *grown;

    if (m->n_servers < m->cap_servers)
        return true;
    grown = mem_realloc(m->servers, cap * sizeof(*grown));
    if (grown == NULL)
        return false;
    m->servers = grown;
    m->cap_servers = cap;
    return true;
}

bool disco_merge_add(struct disco_merge *m, struct slice server_id, const struct disco_doc *apis, unsigned flags)
{
    size_t at = 0;
    struct server s = {.flags = flags};

    while (at < m->n_servers && slice_cmp(slice_str(m->servers[at].id), server_id) < 0)
        at++;
    if (m->stage != STAGE_ADDING || (at < m->n_servers && slice_eq(slice_str(m->servers[at].id), server_id)))
        return false;
    if (!room_for_server(m))
        return false;
    s.id = mem_slicedup(server_id);
    if (s.id == NULL)
        return false;
    s.doc = disco_doc_ref(apis);
    memmove(&m->servers[at + 1], &m->servers[at], (m->n_servers - at) * sizeof(s));
    m->servers[at] = s;
    m->n_servers++;
    if ((flags & DISCO_SERVER_LOCAL) != 0)
        m->local_doc = s.doc;
    return true;
}

static struct slice version_key(struct slice group, struct slice version, char out[GVR_KEY_BYTES])
{
    const struct gvr name = {group, version, SLICE_LIT("")};

    return gvr_key(&name, out);
}

bool disco_merge_exclude(struct disco_merge *m, struct slice group, struct slice version)
{
    char text[GVR_KEY_BYTES];
    struct slice key = version_key(group, version, text);

    if (key.p == NULL)
        return true; /* no document has such a name */
    return strmap_put(m->excluded, key, m, NULL) && strmap_put(m->excluded_groups, group, m, NULL);
}

/* -------------------------------------------------------------------------------------------------------------
 * collecting */

static bool is_excluded(const struct disco_merge *m, const struct disco_version *v)
{
    char text[GVR_KEY_BYTES];
    struct slice key = version_key(v->group->name, v->name, text);

    return key.p != NULL && strmap_get(m->excluded, key) != NULL;
}

static bool is_local(const struct disco_merge *m, size_t server)
{
    return (m->servers[server].flags & DISCO_SERVER_LOCAL) != 0;
}

static bool is_live(const struct disco_merge *m, size_t server)
{
    return is_local(m, server) || (m->servers[server].flags & DISCO_SERVER_LAPSED) == 0;
}

static size_t count_excluded(struct disco_merge *m, const struct disco_group *g)
{
    size_t n = 0;

    if (strmap_count(m->excluded) == 0 || strmap_get(m->excluded_groups, g->name) == NULL)
        return 0;
    for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
        n += is_excluded(m, v) ? 1 : 0;
    m->spent += g->n_versions;
    return n;
}

static bool room_for_group(struct disco_merge *m)
{
    size_t cap = m->cap_groups == 0 ? 64 : 2 * m->cap_groups;
    struct group **grown;

    if (m->n_groups < m->cap_groups)
        return true;
    grown = mem_realloc(m->groups, cap * sizeof(*grown));
    if (grown == NULL)
        return false;
    m->groups = grown;
    m->cap_groups = cap;
    return true;
}

/* The group with this name, made if there is none. NULL when out of memory. */
static struct group *group_named(struct disco_merge *m, struct slice name)
{
    struct group *g = strmap_get(m->by_name, name);

    if (g != NULL)
        return g;
    g = arena_zalloc(m->work, sizeof(*g));
    if (g == NULL || !room_for_group(m) || !strmap_put(m->by_name, name, g, NULL))
        return NULL;
    g->name = name;
    g->number = (uint32_t)m->n_groups;
    g->last = &g->givers;
    m->groups[m->n_groups++] = g;
    return g;
}

static bool collect_group(struct disco_merge *m, struct server *s, const struct disco_group *from)
{
    size_t excluded = is_local(m, m->at_server) ? 0 : count_excluded(m, from);
    struct group *g;
    struct giver *giver;

    m->spent++;
    if (excluded > 0 && excluded == from->n_versions)
        return true;
    g = group_named(m, from->name);
    giver = arena_zalloc(m->work, sizeof(*giver));
    if (g == NULL || giver == NULL)
        return false;
    *giver = (struct giver){.server = m->at_server, .group = from, .partial = excluded > 0};
    *g->last = giver;
    g->last = &giver->next;
    /* Written where open_server made room; const for everybody else. */
    ((uint32_t *)(uintptr_t)s->groups.items)[s->groups.n++] = g->number;
    return true;
}

static bool open_server(struct disco_merge *m, struct server *s)
{
    s->groups.items = arena_alloc(m->work, disco_doc_n_groups(s->doc) * sizeof(*s->groups.items));
    m->at_group = disco_doc_groups(s->doc);
    return s->groups.items != NULL;
}

static bool unit_collect(struct disco_merge *m)
{
    struct server *s = &m->servers[m->at_server];

    if (m->at_server == m->n_servers) {
        m->stage = STAGE_ORDER;
        return true;
    }
    if (s->groups.items == NULL && !open_server(m, s))
        return false;
    if (m->at_group == NULL) {
        m->at_server++;
        return true;
    }
    if (!collect_group(m, s, m->at_group))
        return false;
    m->at_group = m->at_group->next;
    return true;
}

static bool unit_order(struct disco_merge *m)
{
    struct slice *names = arena_alloc(m->work, m->n_groups * sizeof(*names));
    struct consensus_list *lists = arena_alloc(m->work, m->n_servers * sizeof(*lists));

    m->order = arena_alloc(m->work, m->n_groups * sizeof(*m->order));
    if (names == NULL || lists == NULL || m->order == NULL)
        return false;
    for (size_t i = 0; i < m->n_groups; i++)
        names[i] = m->groups[i]->name;
    for (size_t i = 0; i < m->n_servers; i++) {
        lists[i] = m->servers[i].groups;
        m->spent += lists[i].n;
    }
    if (!consensus_order(names, m->n_groups, lists, m->n_servers, m->order))
        return false;
    m->local = m->local_doc == NULL ? NULL : disco_doc_groups(m->local_doc);
    m->differs = m->local_doc == NULL;
    buf_append_str(&m->out, HEAD_BEFORE_VERSION "v2" HEAD_AFTER_VERSION);
    m->stage = STAGE_GROUPS;
    return true;
}

/* --------------------------------------------------------------------------------------------------------------
 * resources */

/* A name that several descriptions share; parts are distinct in their bytes, in order of their first giver. */
struct resource {
    struct resource *next;
    uint32_t number;
    struct disco_union_part *parts;
    size_t n;
};

struct resources {
    struct strmap *by_name;
    struct resource *first, **last;
    size_t n;
};

static bool add_resource(struct disco_merge *m, struct resources *all, const struct disco_resource *r, size_t last,
                         size_t max_parts, uint32_t *number)
{
    struct resource *known = strmap_get(all->by_name, r->name);

    m->spent++;
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
    *number = known->number;
    for (size_t i = 0; i < known->n; i++)
        if (slice_eq(known->parts[i].resource->raw, r->raw)) {
            if (known->parts[i].last < last)
                known->parts[i].last = last;
            return true;
        }
    known->parts[known->n++] = (struct disco_union_part){r, last};
    return true;
}

static bool put_resource(struct disco_merge *m, const struct resource *r)
{
    bool good;

    if (r->n == 1)
        return buf_append(&m->out, r->parts[0].resource->raw);
    good = disco_union_resource(m->scratch, r->parts, r->n, &m->out);
    arena_reset(m->scratch);
    return good;
}

static bool order_resources(struct disco_merge *m, const struct resources *all, const struct consensus_list *lists,
                            size_t n_lists, const struct resource ***ordered)
{
    const struct resource **by_number = arena_alloc(m->in_group, all->n * sizeof(*by_number));
    struct slice *names = arena_alloc(m->in_group, all->n * sizeof(*names));
    uint32_t *order = arena_alloc(m->in_group, all->n * sizeof(*order));

    *ordered = arena_alloc(m->in_group, all->n * sizeof(**ordered));
    if (by_number == NULL || names == NULL || order == NULL || *ordered == NULL)
        return false;
    for (const struct resource *r = all->first; r != NULL; r = r->next) {
        by_number[r->number] = r;
        names[r->number] = r->parts[0].resource->name;
    }
    if (!consensus_order(names, all->n, lists, n_lists, order))
        return false;
    for (size_t i = 0; i < all->n; i++)
        (*ordered)[i] = by_number[order[i]];
    return true;
}

static bool gather_resources(struct disco_merge *m, const struct version *v, struct resources *all,
                             struct consensus_list *lists)
{
    for (size_t i = 0; i < v->n; i++) {
        uint32_t *items = arena_alloc(m->in_group, v->parts[i].version->n_resources * sizeof(*items));

        if (items == NULL)
            return false;
        lists[i] = (struct consensus_list){items, 0};
        for (const struct disco_resource *r = v->parts[i].version->resources; r != NULL; r = r->next)
            if (!add_resource(m, all, r, v->parts[i].last, v->n, &items[lists[i].n++]))
                return false;
    }
    return true;
}

static bool put_resources(struct disco_merge *m, const struct version *v)
{
    struct resources all = {.by_name = strmap_new()};
    struct consensus_list *lists = arena_alloc(m->in_group, v->n * sizeof(*lists));
    const struct resource **ordered;
    bool good;

    all.last = &all.first;
    good = all.by_name != NULL && lists != NULL && gather_resources(m, v, &all, lists) &&
           order_resources(m, &all, lists, v->n, &ordered);
    if (good && all.n > 0)
        buf_append_str(&m->out, ",\"resources\":[");
    for (size_t i = 0; good && i < all.n; i++) {
        if (i > 0)
            buf_append_char(&m->out, ',');
        good = put_resource(m, ordered[i]);
    }
    if (good && all.n > 0)
        buf_append_char(&m->out, ']');
    if (all.by_name != NULL)
        strmap_free(all.by_name);
    return good;
}

/* ---------------------------------------------------------------------------------------------------------------
 * versions */

enum version_field { VERSION_NAME, VERSION_RESOURCES, VERSION_FRESHNESS };

/* The freshness that the merged version has: as some live server writes it, else Stale. p is NULL if it is left out. */
static bool version_freshness(struct disco_merge *m, const struct version *v, struct slice *out)
{
    static const struct slice key = SLICE_LIT("freshness");
    struct disco_union u;

    *out = SLICE_LIT("\"Stale\"");
    for (size_t i = 0; i < v->n; i++) {
        if (!v->parts[i].live || v->parts[i].version->stale)
            continue;
        if (!disco_union_init(&u, m->in_group, &v->parts[i].version->raw, 1, &key, 1))
            return false;
        *out = disco_union_first(&u, 0);
        return true;
    }
    return true;
}

static bool put_different_version(struct disco_merge *m, const struct version *v)
{
    static const struct slice keys[] = {
        [VERSION_NAME] = SLICE_LIT("version"),
        [VERSION_RESOURCES] = SLICE_LIT("resources"),
        [VERSION_FRESHNESS] = SLICE_LIT("freshness"),
    };
    struct slice *raws = arena_alloc(m->in_group, v->n * sizeof(*raws)), freshness;
    struct disco_union u;

    if (raws == NULL)
        return false;
    for (size_t i = 0; i < v->n; i++)
        raws[i] = v->parts[i].version->raw;
    if (!disco_union_init(&u, m->in_group, raws, v->n, keys, 3) || !version_freshness(m, v, &freshness))
        return false;
    buf_append_str(&m->out, "{\"version\":");
    buf_append(&m->out, disco_union_first(&u, VERSION_NAME));
    if (!put_resources(m, v))
        return false;
    if (freshness.p != NULL) {
        buf_append_str(&m->out, ",\"freshness\":");
        buf_append(&m->out, freshness);
    }
    disco_union_put_unknown(&u, &m->out);
    return buf_append_char(&m->out, '}');
}

static bool put_version(struct disco_merge *m, const struct version *v)
{
    m->spent++;
    if (v->n == 1 && (v->parts[0].live || v->parts[0].version->stale))
        return buf_append(&m->out, v->parts[0].version->raw);
    return put_different_version(m, v);
}

static void add_version_part(struct version *v, const struct disco_version *from, const struct group_part *part)
{
    for (size_t i = 0; i < v->n; i++) {
        struct version_part *known = &v->parts[i];

        if (!slice_eq(known->version->raw, from->raw))
            continue;
        known->live = known->live || part->live;
        if (known->last < part->last)
            known->last = part->last;
        return;
    }
    v->parts[v->n++] = (struct version_part){from, part->live, part->last};
}

static bool gather_versions(struct disco_merge *m, struct strmap *by_name, struct consensus_list *lists)
{
    size_t max = 0;

    for (size_t i = 0; i < m->n_parts; i++)
        max += m->parts[i].group->n_versions;
    m->versions = arena_zalloc(m->in_group, max * sizeof(*m->versions));
    if (m->versions == NULL)
        return false;
    for (size_t i = 0; i < m->n_parts; i++) {
        const struct group_part *part = &m->parts[i];
        uint32_t *items = arena_alloc(m->in_group, part->group->n_versions * sizeof(*items));

        if (items == NULL)
            return false;
        lists[i] = (struct consensus_list){items, 0};
        for (const struct disco_version *from = part->group->versions; from != NULL; from = from->next) {
            struct version *v = strmap_get(by_name, from->name);

            if (part->partial && is_excluded(m, from))
                continue;
            if (v == NULL) {
                v = &m->versions[m->n_versions++];
                v->name = from->name;
                v->parts = arena_alloc(m->in_group, m->n_parts * sizeof(*v->parts));
                if (v->parts == NULL || !strmap_put(by_name, from->name, v, NULL))
                    return false;
            }
            add_version_part(v, from, part);
            items[lists[i].n++] = (uint32_t)(v - m->versions);
        }
    }
    return true;
}

static bool order_versions(struct disco_merge *m)
{
    struct strmap *by_name = strmap_new();
    struct consensus_list *lists = arena_alloc(m->in_group, m->n_parts * sizeof(*lists));
    struct slice *names;
    bool good = by_name != NULL && lists != NULL && gather_versions(m, by_name, lists);

    if (by_name != NULL)
        strmap_free(by_name);
    if (!good)
        return false;
    names = arena_alloc(m->in_group, m->n_versions * sizeof(*names));
    m->version_order = arena_alloc(m->in_group, m->n_versions * sizeof(*m->version_order));
    if (names == NULL || m->version_order == NULL)
        return false;
    for (size_t i = 0; i < m->n_versions; i++)
        names[i] = m->versions[i].name;
    return consensus_order(names, m->n_versions, lists, m->n_parts, m->version_order);
}

/* -----------------------------------------------------------------------------------------------------------------
 * groups */

/* Distinct descriptions of a group. Servers mostly agree, so this is where most of the work ends. */
static bool gather_parts(struct disco_merge *m, const struct group *g)
{
    size_t max = 0, i;

    for (const struct giver *giver = g->givers; giver != NULL; giver = giver->next)
        max++;
    m->parts = arena_alloc(m->in_group, max * sizeof(*m->parts));
    m->n_parts = 0;
    if (m->parts == NULL)
        return false;
    for (const struct giver *giver = g->givers; giver != NULL; giver = giver->next) {
        bool live = is_live(m, giver->server);

        m->spent += 1 + giver->group->raw.n / 4096;
        for (i = 0; i < m->n_parts; i++)
            if (m->parts[i].partial == giver->partial && slice_eq(m->parts[i].group->raw, giver->group->raw))
                break;
        if (i == m->n_parts)
            m->parts[m->n_parts++] = (struct group_part){giver->group, giver->partial, live, giver->server};
        m->parts[i].live = m->parts[i].live || live;
        m->parts[i].last = giver->server;
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

/* Compares what was just written with the local document at the same place. */
static void compare_with_local(struct disco_merge *m)
{
    struct slice written = slice_from(buf_slice(&m->out), m->group_start);

    if (m->local == NULL || !slice_eq(m->local->raw, written))
        m->differs = true;
    else
        m->local = m->local->next;
}

static bool close_group(struct disco_merge *m)
{
    compare_with_local(m);
    arena_reset(m->in_group);
    m->stage = STAGE_GROUPS;
    return !m->out.failed;
}

static bool open_different_group(struct disco_merge *m)
{
    static const struct slice keys[] = {SLICE_LIT("metadata"), SLICE_LIT("versions")};
    struct slice *raws = arena_alloc(m->in_group, m->n_parts * sizeof(*raws)), metadata;

    m->n_versions = m->next_version = 0;
    if (raws == NULL || !order_versions(m))
        return false;
    for (size_t i = 0; i < m->n_parts; i++)
        raws[i] = m->parts[i].group->raw;
    if (!disco_union_init(&m->group_union, m->in_group, raws, m->n_parts, keys, 2))
        return false;
    metadata = disco_union_first(&m->group_union, 0);
    buf_append_str(&m->out, "{\"metadata\":");
    buf_append(&m->out, metadata.p == NULL ? SLICE_LIT("{}") : metadata);
    m->stage = STAGE_VERSIONS;
    return true;
}

static bool unit_groups(struct disco_merge *m)
{
    const struct group *g;
    const struct group_part *only;

    if (m->next_group == m->n_groups) {
        m->stage = STAGE_FINISH;
        return true;
    }
    g = m->groups[m->order[m->next_group]];
    if (m->next_group++ > 0)
        buf_append_char(&m->out, ',');
    m->group_start = buf_len(&m->out);
    if (!gather_parts(m, g))
        return false;
    only = m->parts;
    if (m->n_parts > 1 || only->partial || (!only->live && !all_stale(only->group)))
        return open_different_group(m);
    buf_append(&m->out, only->group->raw);
    return close_group(m);
}

static bool unit_versions(struct disco_merge *m)
{
    if (m->next_version < m->n_versions) {
        buf_append_str(&m->out, m->next_version == 0 ? ",\"versions\":[" : ",");
        return put_version(m, &m->versions[m->version_order[m->next_version++]]);
    }
    if (m->n_versions > 0)
        buf_append_char(&m->out, ']');
    disco_union_put_unknown(&m->group_union, &m->out);
    buf_append_char(&m->out, '}');
    return close_group(m);
}

/* ------------------------------------------------------------------------------------------------------------------
 * result */

/* `document` with its apiVersion's text (a slice of it) replaced. */
static bool put_with_version(struct buf *out, struct slice document, struct slice version, const char *other)
{
    size_t before = (size_t)(version.p - document.p);

    buf_append(out, slice_of(document.p, before));
    buf_append_str(out, other);
    return buf_append(out, slice_of(version.p + version.n, document.n - before - version.n));
}

static bool unit_finish(struct disco_merge *m)
{
    struct slice document, version;
    bool beta = false, good;

    buf_append_str(&m->out, "]}\n");
    if (m->local != NULL)
        m->differs = true;
    if (m->differs) {
        document = buf_slice(&m->out);
        version =
            slice_of(document.p + sizeof(HEAD_BEFORE_VERSION) - 1 - sizeof(DISCO_GROUP), sizeof(DISCO_GROUP "/v2") - 1);
    } else {
        document = disco_doc_raw(m->local_doc);
        version = disco_doc_api_version(m->local_doc);
        beta = disco_doc_form(m->local_doc) == DISCO_V2BETA1;
    }
    good = !m->out.failed &&
           put_with_version(&m->other, document, version, beta ? DISCO_GROUP "/v2" : DISCO_GROUP "/v2beta1");
    if (!m->differs)
        buf_release(&m->out);
    free_work(m);
    m->stage = STAGE_DONE;
    return good;
}

void disco_merge_result(const struct disco_merge *m, struct disco_merged *out)
{
    struct slice other = buf_slice(&m->other);

    *out = (struct disco_merged){.v2 = buf_slice(&m->out), .v2beta1 = other};
    if (m->differs)
        return;
    out->is_local = disco_doc_form(m->local_doc) == DISCO_V2;
    out->v2 = out->is_local ? disco_doc_raw(m->local_doc) : other;
    out->v2beta1 = out->is_local ? other : disco_doc_raw(m->local_doc);
}

static bool unit(struct disco_merge *m)
{
    m->spent++;
    switch (m->stage) {
    case STAGE_ADDING:
        m->stage = STAGE_COLLECT;
        return true;
    case STAGE_COLLECT:
        return unit_collect(m);
    case STAGE_ORDER:
        return unit_order(m);
    case STAGE_GROUPS:
        return unit_groups(m);
    case STAGE_VERSIONS:
        return unit_versions(m);
    case STAGE_FINISH:
        return unit_finish(m);
    case STAGE_DONE:
        break;
    }
    return true;
}

enum disco_step disco_merge_step(struct disco_merge *m, size_t budget, struct err *err)
{
    m->spent = 0;
    while (m->stage != STAGE_DONE && m->spent < budget)
        if (!unit(m)) {
            err_set(err, "out of memory, or the merged document is over %d bytes", MERGE_OUTPUT_BYTES);
            return DISCO_STEP_FAILED;
        }
    return m->stage == STAGE_DONE ? DISCO_STEP_DONE : DISCO_STEP_MORE;
}
