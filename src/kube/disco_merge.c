/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of the merge.
 *
 *   servers      in bytewise order of their IDs, ours among them: nothing depends on who merges, or on the order of
 *                adding.
 *
 *   exclusion    an excluded group/version comes from our server only, or from those that vouch for it; a group of
 *                which nothing is left is absent.
 *                Where ours has it, the others still have a say in the order and in the group's metadata: so all
 *                servers, each of which takes its own, come to the same bytes. While nobody knows what there is (the
 *                local server is not ready), it comes from all, as Stale.
 *
 *   order        of groups the consensus of all servers' lists (consensus.h), of versions in a group and resources in
 *                a version the same two servers at a time; on a cycle that of all at once.
 *
 *   the same     what all its givers describe in the same bytes is copied as it is: groups, versions, resources.
 *                Not that of which something was left out (disco_parser_judge): what is left is written anew.
 *
 *   group        metadata and unknown fields of the first server that has them; creationTimestamp: null, which servers
 *                up to 1.33 write, is left out unless all servers write it.
 *
 *   version      unknown fields of the first. Freshness: Current if any server that has not lapsed says so, else Stale.
 *
 *   resource     scope, singularResource, shortNames, categories of the first server; responseKind and unknown fields
 *                of the first that says something; verbs: union, sorted; subresources: union by name, sorted.
 *
 *   subresource  as the last server describes it.
 *
 * The result is what kube-apiserver makes of the same documents (k8s.io/apiserver, pkg/endpoints/discovery/aggregated/
 * peer_aggregated_handler.go), byte for byte, but for this: on a cycle in the order it sorts by name; freshness it
 * takes from the first server; of exclusions it knows only what it excludes itself; unknown fields, and a kind that
 * only a later server knows, it drops.
 */
#include "kube/disco_merge.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/strmap.h"
#include "kube/consensus.h"
#include "kube/disco_merge_group.h"

enum { MERGE_OUTPUT_BYTES = 2 * LIMIT_DISCOVERY_BYTES };
enum { BYTES_PER_RESOURCE = 256 }; /* copying so many takes as long as looking at one */
enum { NOBODYS = UINT32_MAX };

#define HEAD_BEFORE_VERSION "{\"kind\":\"" DISCO_LIST_KIND "\",\"apiVersion\":\"" DISCO_GROUP "/"
#define HEAD_AFTER_VERSION "\",\"metadata\":{},\"items\":["

struct server {
    char *id;
    struct disco_doc *doc;
    unsigned flags;
};

struct group {
    struct slice name;
    uint32_t number;
    struct disco_group_giver *givers;
    size_t n_givers, cap_givers;
};

struct disco_merge {
    struct server *servers; /* in order of ID */
    size_t n_servers, cap_servers;
    struct strmap *excluded, *excluded_groups;
    struct arena *work; /* till the end of the merge */
    struct disco_group_merge *writer;
    struct strmap *by_name;
    struct group **groups;
    size_t n_groups, cap_groups;
    size_t expected; /* the number of the group that probably comes next: most servers have the same order */
    const struct disco_group *local; /* next group of the local document to compare with */
    bool differs;
    struct buf out, other; /* the merged document; the chosen document with the other apiVersion */
    const struct disco_doc *local_doc;
    bool vouched;  /* somebody vouches */
    bool doubtful; /* disco_merge_doubt */
};

/* ---- life and inputs ---- */

static struct slice version_key(struct slice group, struct slice version, char out[GVR_KEY_BYTES])
{
    const struct gvr name = {group, version, SLICE_LIT("")};

    return gvr_key(&name, out);
}

static bool is_excluded(void *arg, const struct disco_version *v)
{
    const struct disco_merge *m = arg;
    char text[GVR_KEY_BYTES];
    struct slice key = version_key(v->group->name, v->name, text);

    return key.p != NULL && strmap_get(m->excluded, key) != NULL;
}

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
    m->work = arena_new(DISCO_MERGE_ARENA_BYTES);
    m->writer = disco_group_merge_new(&m->out, is_excluded, m);
    if (m->excluded == NULL || m->excluded_groups == NULL || m->by_name == NULL || m->work == NULL ||
        m->writer == NULL) {
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

/* Everything but the results and the documents they may point into. */
static void free_work(struct disco_merge *m)
{
    free_map(&m->excluded);
    free_map(&m->excluded_groups);
    free_map(&m->by_name);
    arena_free(m->work);
    m->work = NULL;
    disco_group_merge_free(m->writer);
    m->writer = NULL;
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
    size_t at = m->n_servers;
    struct server s = {.flags = flags};

    /* From the end: most callers add in order. */
    while (at > 0 && slice_cmp(slice_str(m->servers[at - 1].id), server_id) >= 0)
        at--;
    if (m->work == NULL || (at < m->n_servers && slice_eq(slice_str(m->servers[at].id), server_id)))
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
    m->vouched = m->vouched || (flags & DISCO_SERVER_VOUCHES) != 0;
    return true;
}

bool disco_merge_exclude(struct disco_merge *m, struct slice group, struct slice version)
{
    char text[GVR_KEY_BYTES];
    struct slice key = version_key(group, version, text);

    if (key.p == NULL)
        return true; /* no document has such a name */
    return strmap_put(m->excluded, key, m, NULL) && strmap_put(m->excluded_groups, group, m, NULL);
}

void disco_merge_doubt(struct disco_merge *m)
{
    m->doubtful = true;
}

/* ---- collecting ---- */

static bool is_local(const struct disco_merge *m, size_t server)
{
    return (m->servers[server].flags & DISCO_SERVER_LOCAL) != 0;
}

/* Exclusions do not apply. */
static bool is_exempt(const struct disco_merge *m, size_t server)
{
    return m->doubtful || (m->servers[server].flags & DISCO_SERVER_VOUCHES) != 0 ||
           (is_local(m, server) && !m->vouched);
}

/* Whether a server to which exclusions do not apply has it. */
static bool is_left(const struct disco_merge *m, struct slice group)
{
    for (size_t i = 0; i < m->n_servers; i++)
        if (is_exempt(m, i) && disco_doc_group(m->servers[i].doc, group) != NULL)
            return true;
    return false;
}

static size_t count_excluded(struct disco_merge *m, const struct disco_group *g)
{
    size_t n = 0;

    if (strmap_count(m->excluded) == 0 || strmap_get(m->excluded_groups, g->name) == NULL)
        return 0;
    for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
        n += is_excluded(m, v) ? 1 : 0;
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

/* The group with this one's name, made if there is none. NULL when out of memory. */
static struct group *group_named(struct disco_merge *m, const struct disco_group *from)
{
    bool guessed = m->expected < m->n_groups && slice_eq(m->groups[m->expected]->name, from->name);
    struct group *g = guessed ? m->groups[m->expected] : strmap_get(m->by_name, from->name);

    if (g != NULL)
        return g;
    g = arena_zalloc(m->work, sizeof(*g));
    if (g == NULL || !room_for_group(m) || !strmap_put(m->by_name, from->name, g, NULL))
        return NULL;
    g->name = from->name;
    g->number = (uint32_t)m->n_groups;
    m->groups[m->n_groups++] = g;
    return g;
}

static bool room_for_giver(struct disco_merge *m, struct group *g)
{
    struct disco_group_giver *grown;

    if (g->n_givers < g->cap_givers)
        return true;
    g->cap_givers = g->cap_givers == 0 ? 2 : 2 * g->cap_givers;
    grown = arena_alloc(m->work, g->cap_givers * sizeof(*grown));
    if (grown == NULL)
        return false;
    if (g->n_givers > 0)
        memcpy(grown, g->givers, g->n_givers * sizeof(*grown));
    g->givers = grown;
    return true;
}

static bool has_lapsed(const struct server *s)
{
    return (s->flags & DISCO_SERVER_LAPSED) != 0;
}

/*
 * What is excluded is of all servers, out of one etcd. So the local server's lapse says nothing about it: while no
 * other one's word is taken for it, it is as the local server said it last, until there is doubt.
 */
static bool gives_live(struct disco_merge *m, size_t server, const struct disco_group *from)
{
    return !has_lapsed(&m->servers[server]) ||
           (is_exempt(m, server) && is_local(m, server) && !m->doubtful && count_excluded(m, from) > 0);
}

static bool collect_group(struct disco_merge *m, size_t server, const struct disco_group *from, uint32_t *number)
{
    size_t excluded = is_exempt(m, server) && !m->doubtful ? 0 : count_excluded(m, from);
    struct group *g;

    *number = NOBODYS;
    if (excluded > 0 && excluded == from->n_versions && !is_left(m, from->name))
        return true;
    g = group_named(m, from);
    if (g == NULL || !room_for_giver(m, g))
        return false;
    m->expected = g->number + 1U;
    g->givers[g->n_givers++] = (struct disco_group_giver){.server = server,
                                                          .group = from,
                                                          .partial = excluded > 0,
                                                          .doubtful = m->doubtful,
                                                          .live = gives_live(m, server, from)};
    *number = g->number;
    return true;
}

/* The groups of all servers, and in which order each has them. */
static bool collect(struct disco_merge *m, struct consensus_list *lists, struct fiber *f)
{
    for (size_t i = 0; i < m->n_servers; i++) {
        const struct disco_doc *doc = m->servers[i].doc;
        uint32_t *numbers = arena_alloc(m->work, disco_doc_n_groups(doc) * sizeof(*numbers));

        if (numbers == NULL)
            return false;
        lists[i] = (struct consensus_list){numbers, 0};
        m->expected = 0;
        for (const struct disco_group *from = disco_doc_groups(doc); from != NULL; from = from->next) {
            if (!collect_group(m, i, from, &numbers[lists[i].n]) || !fiber_spend(f, 2))
                return false;
            lists[i].n += numbers[lists[i].n] != NOBODYS;
        }
    }
    return true;
}

/* Of one server that leaves it out, all learn it: so the bytes are the same everywhere. */
static void see_to_timestamps(struct disco_merge *m)
{
    for (size_t i = 0; i < m->n_servers; i++) {
        const struct disco_group *g = disco_doc_groups(m->servers[i].doc);

        if (g != NULL && !disco_group_has_timestamp(g))
            disco_group_merge_tidy(m->writer);
    }
}

/* NULL when out of memory. */
static const uint32_t *order_groups(struct disco_merge *m, const struct consensus_list *lists, struct fiber *f)
{
    struct slice *names = arena_alloc(m->work, m->n_groups * sizeof(*names));
    uint32_t *order = arena_alloc(m->work, m->n_groups * sizeof(*order));

    if (names == NULL || order == NULL)
        return NULL;
    for (size_t i = 0; i < m->n_groups; i++)
        names[i] = m->groups[i]->name;
    return consensus_order(names, m->n_groups, lists, m->n_servers, order, f) ? order : NULL;
}

/* ---- groups ---- */

/* Compares what was just written with the local document at the same place. */
static void compare_with_local(struct disco_merge *m, struct slice written)
{
    if (m->local == NULL || !slice_eq(m->local->raw, written))
        m->differs = true;
    else
        m->local = m->local->next;
}

static bool put_groups(struct disco_merge *m, const uint32_t *order, struct fiber *f)
{
    see_to_timestamps(m);
    m->local = m->local_doc == NULL ? NULL : disco_doc_groups(m->local_doc);
    m->differs = m->local_doc == NULL;
    buf_append_str(&m->out, HEAD_BEFORE_VERSION "v2" HEAD_AFTER_VERSION);
    for (size_t i = 0; i < m->n_groups; i++) {
        const struct group *g = m->groups[order[i]];
        size_t start;

        if (i > 0)
            buf_append_char(&m->out, ',');
        start = buf_len(&m->out);
        if (!disco_group_merge(m->writer, g->givers, g->n_givers, f) || !fiber_spend(f, 1))
            return false;
        compare_with_local(m, slice_from(buf_slice(&m->out), start));
    }
    m->differs = m->differs || m->local != NULL;
    return buf_append_str(&m->out, "]}\n");
}

/* ---- result ---- */

/* The document that is chosen, but for the apiVersion. */
static bool put_other(struct disco_merge *m, struct fiber *f)
{
    struct slice document = buf_slice(&m->out), version, rest;
    bool beta = false;

    if (m->differs) {
        version =
            slice_of(document.p + sizeof(HEAD_BEFORE_VERSION) - 1 - sizeof(DISCO_GROUP), sizeof(DISCO_GROUP "/v2") - 1);
    } else {
        document = disco_doc_raw(m->local_doc);
        version = disco_doc_api_version(m->local_doc);
        beta = disco_doc_form(m->local_doc) == DISCO_V2BETA1;
    }
    if (buf_reserve(&m->other, document.n + sizeof(DISCO_GROUP "/v2beta1")) == NULL)
        return false;
    rest = slice_from(document, (size_t)(version.p - document.p) + version.n);
    buf_append(&m->other, slice_of(document.p, (size_t)(version.p - document.p)));
    buf_append_str(&m->other, beta ? DISCO_GROUP "/v2" : DISCO_GROUP "/v2beta1");
    return buf_append_long(&m->other, rest, f, BYTES_PER_RESOURCE);
}

static bool merge(struct disco_merge *m, struct fiber *f)
{
    struct consensus_list *lists = arena_alloc(m->work, m->n_servers * sizeof(*lists));
    const uint32_t *order;

    if (lists == NULL || !collect(m, lists, f))
        return false;
    order = order_groups(m, lists, f);
    if (order == NULL || !put_groups(m, order, f))
        return false;
    if (!m->differs)
        buf_release(&m->out);
    free_work(m);
    return put_other(m, f);
}

void disco_merge_result(const struct disco_merge *m, struct disco_merged *out)
{
    struct slice other = buf_slice(&m->other);

    *out = (struct disco_merged){.v2 = buf_slice(&m->out), .v2beta1 = other};
    if (m->differs)
        return;
    out->parsed = m->local_doc;
    out->is_local = disco_doc_form(m->local_doc) == DISCO_V2;
    out->v2 = out->is_local ? disco_doc_raw(m->local_doc) : other;
    out->v2beta1 = out->is_local ? other : disco_doc_raw(m->local_doc);
}

bool disco_merge_run(struct disco_merge *m, struct fiber *f, struct err *err)
{
    return merge(m, f) || err_set(err, "out of memory, or the merged document is over %d bytes", MERGE_OUTPUT_BYTES);
}
