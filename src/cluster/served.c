/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/served.h"

#include <stdlib.h>

#include "back/back.h"
#include "base/buf.h"
#include "base/contract.h"

enum { SERVED_ARENA_BYTES = 64 << 20 };

struct served {
    unsigned refs;
    struct list_node dead;
    struct arena *arena;    /* texts and arrays of `is`, and `distinct` */
    struct served_input is; /* with references of its own; what is excluded is sorted */
    bool leases_listed;
    const struct schema_index **distinct; /* of the servers that have a say, each that is another one; some server's */
    size_t n_distinct;
    struct schema_index *undiscovered_schemas;
};

static const char *host_or_id(const char *host, const char *id)
{
    return host == NULL || host[0] == '\0' ? id : host;
}

static const char *keep_text(struct served *s, const char *text)
{
    return arena_copy(s->arena, slice_str(text)).p;
}

/* A room for so many, never NULL for want of any. */
static void *room(struct served *s, size_t n, size_t size)
{
    return arena_alloc(s->arena, n * size + 1);
}

static struct schema_index *last_schemas(const struct served_peer *in)
{
    return in->last_schemas == NULL ? in->schemas : in->last_schemas;
}

static bool copy_peers(struct served *s, const struct served_input *in)
{
    struct served_peer *peers = room(s, in->n_peers, sizeof(*peers));

    s->is.peers = peers;
    for (size_t i = 0; peers != NULL && i < in->n_peers; i++) {
        struct served_peer *p = &peers[i];

        *p = in->peers[i];
        p->id = keep_text(s, in->peers[i].id);
        p->host = keep_text(s, host_or_id(in->peers[i].host, in->peers[i].id));
        p->origin = p->origin == NULL ? NULL : origin_ref(p->origin);
        p->disco = p->disco == NULL ? NULL : disco_ref(p->disco);
        p->last_schemas = last_schemas(p);
        (void)schema_index_ref(p->schemas);
        (void)schema_index_ref(p->last_schemas);
        s->is.n_peers++;
        if (p->id == NULL || p->host == NULL)
            return false;
    }
    return peers != NULL;
}

/* Sorted. NULL: no memory. */
static const struct slice *copy_texts(struct served *s, const struct slice *in, size_t n)
{
    struct slice *texts = room(s, n, sizeof(*texts));

    for (size_t i = 0; texts != NULL && i < n; i++) {
        texts[i] = arena_copy(s->arena, in[i]);
        if (texts[i].p == NULL)
            return NULL;
    }
    if (texts != NULL && n > 0)
        qsort(texts, n, sizeof(*texts), slice_cmp_at);
    return texts;
}

static bool copy_lists(struct served *s, const struct served_input *in)
{
    struct served_gv *gvs = room(s, in->n_undiscovered, sizeof(*gvs));
    bool complete = gvs != NULL;

    s->is.excluded = copy_texts(s, in->excluded, in->n_excluded);
    s->is.aggregated = copy_texts(s, in->aggregated, in->n_aggregated);
    for (size_t i = 0; complete && i < in->n_undiscovered; i++) {
        gvs[i].group = arena_copy(s->arena, in->undiscovered[i].group);
        gvs[i].version = arena_copy(s->arena, in->undiscovered[i].version);
        complete = gvs[i].group.p != NULL && gvs[i].version.p != NULL;
    }
    s->is.undiscovered = gvs;
    return complete && s->is.excluded != NULL && s->is.aggregated != NULL;
}

static bool copy(struct served *s, const struct served_input *in)
{
    bool complete = true;

    s->is = *in;
    s->is.n_peers = 0; /* copied */
    s->is.local = in->local == NULL ? NULL : disco_ref(in->local);
    (void)schema_index_ref(in->local_schemas);
    for (size_t i = 0; i < SERVED_HALVES; i++)
        (void)served_documents_ref(in->documents[i]);
    s->is.local_id = keep_text(s, in->local_id);
    s->is.local_host = keep_text(s, host_or_id(in->local_host, in->local_id));
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        s->is.local_etag[i] = arena_copy(s->arena, in->local_etag[i]);
        complete = complete && s->is.local_etag[i].p != NULL;
    }
    return copy_peers(s, in) && copy_lists(s, in) && complete && s->is.local_id != NULL && s->is.local_host != NULL;
}

/*
 * Their paths belong into the index of schemas: without them it says that these kinds do not exist. There are some
 * dozens, if there are any; more than so many nobody has who means well.
 */
static bool name_undiscovered(struct served *s)
{
    enum { MOST = 1000, BYTES_AROUND = 64 };
    size_t n = s->is.n_undiscovered < MOST ? s->is.n_undiscovered : MOST, bytes = BYTES_AROUND;
    struct buf text;
    bool good;

    if (n == 0)
        return true;
    for (size_t i = 0; i < n; i++)
        bytes += BYTES_AROUND + 2 * (s->is.undiscovered[i].group.n + s->is.undiscovered[i].version.n);
    buf_init(&text, bytes);
    buf_append_str(&text, "{\"paths\":{");
    for (size_t i = 0; i < n; i++) {
        struct slice group = s->is.undiscovered[i].group, version = s->is.undiscovered[i].version;

        buf_append_str(&text, i == 0 ? "" : ",");
        buf_printf(&text, "\"apis/%.*s/%.*s\":{\"serverRelativeURL\":\"/openapi/v3/apis/%.*s/%.*s\"}", (int)group.n,
                   group.p, (int)version.n, version.p, (int)group.n, group.p, (int)version.n, version.p);
    }
    buf_append_str(&text, "}}");
    good = !text.failed && schema_index_read(buf_slice(&text), &s->undiscovered_schemas);
    buf_free(&text);
    return good;
}

/* Server 0 is the local one, i peer i - 1. NULL: it has no say. */
static const struct schema_index *schemas_of(const struct served *s, size_t server)
{
    if (server == 0)
        return s->is.local_schemas;
    return s->is.peers[server - 1].life == SERVED_LIVE ? s->is.peers[server - 1].schemas : NULL;
}

/* Most servers have the very same index: it is looked into once. */
static bool take_distinct(struct served *s)
{
    s->distinct = arena_alloc(s->arena, (s->is.n_peers + 1) * sizeof(*s->distinct));
    if (s->distinct == NULL)
        return false;
    for (size_t i = 0; i <= s->is.n_peers; i++) {
        const struct schema_index *x = schemas_of(s, i);
        size_t k = 0;

        while (k < s->n_distinct && schema_index_digest(s->distinct[k]) != schema_index_digest(x))
            k++;
        if (x != NULL && k == s->n_distinct)
            s->distinct[s->n_distinct++] = x;
    }
    return true;
}

struct served *served_new(const struct served_input *in)
{
    struct served *s = mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->refs = 1;
    s->leases_listed = in->leases_synced;
    s->arena = arena_new(SERVED_ARENA_BYTES);
    if (s->arena != NULL && copy(s, in) && take_distinct(s) && name_undiscovered(s))
        return s;
    served_unref(s);
    return NULL;
}

static bool same_peer(const struct served_peer *p, const struct served_peer *in)
{
    return strcmp(p->id, in->id) == 0 && strcmp(p->host, host_or_id(in->host, in->id)) == 0 && p->life == in->life &&
           p->drained == in->drained && p->discovery_known == in->discovery_known && p->pending == in->pending &&
           p->silent == in->silent && p->origin == in->origin && p->source == in->source && p->disco == in->disco &&
           p->schemas == in->schemas && p->last_schemas == last_schemas(in) &&
           p->schemas_pending == in->schemas_pending && p->release == in->release;
}

static bool same_lists(const struct served *s, const struct served_input *in)
{
    bool same = s->is.n_peers == in->n_peers && s->is.n_excluded == in->n_excluded &&
                s->is.n_aggregated == in->n_aggregated && s->is.n_undiscovered == in->n_undiscovered;

    for (size_t i = 0; same && i < s->is.n_peers; i++)
        same = same_peer(&s->is.peers[i], &in->peers[i]);
    for (size_t i = 0; same && i < s->is.n_excluded; i++)
        same = slice_eq(s->is.excluded[i], in->excluded[i]);
    for (size_t i = 0; same && i < s->is.n_aggregated; i++)
        same = slice_eq(s->is.aggregated[i], in->aggregated[i]);
    for (size_t i = 0; same && i < s->is.n_undiscovered; i++)
        same = slice_eq(s->is.undiscovered[i].group, in->undiscovered[i].group) &&
               slice_eq(s->is.undiscovered[i].version, in->undiscovered[i].version);
    return same;
}

/* What is compared by address cannot have been freed meanwhile, and another be there: the snapshot holds it. */
bool served_is(const struct served *s, const struct served_input *in)
{
    return s->is.peers_enabled == in->peers_enabled && (in->local != NULL || s->leases_listed == in->leases_synced) &&
           s->is.behind == in->behind && s->is.peers_read == in->peers_read && s->is.local_read == in->local_read &&
           s->is.local_refused == in->local_refused && s->is.local == in->local &&
           s->is.local_schemas == in->local_schemas && s->is.local_release == in->local_release &&
           memcmp(s->is.documents, in->documents, sizeof(s->is.documents)) == 0 &&
           strcmp(s->is.local_id, in->local_id) == 0 &&
           strcmp(s->is.local_host, host_or_id(in->local_host, in->local_id)) == 0 &&
           slice_eq(s->is.local_etag[SERVED_APIS], in->local_etag[SERVED_APIS]) &&
           slice_eq(s->is.local_etag[SERVED_CORE], in->local_etag[SERVED_CORE]) && same_lists(s, in);
}

void served_complete(struct served *s, struct served_documents *const d[SERVED_HALVES], bool leases_synced,
                     uint64_t generation)
{
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        struct served_documents *old = s->is.documents[i];

        if (d[i] == NULL)
            continue;
        s->is.documents[i] = served_documents_ref(d[i]);
        served_documents_unref(old);
    }
    s->is.leases_synced = leases_synced;
    s->is.generation = generation;
}

size_t served_own_bytes(const struct served *s)
{
    size_t schemas = s->undiscovered_schemas == NULL ? 0 : schema_index_bytes(s->undiscovered_schemas);

    return sizeof(*s) + arena_used(s->arena) + schemas;
}

struct served *served_ref(struct served *s)
{
    must_hold(s->refs > 0);
    s->refs++;
    return s;
}

static void served_free(struct served *s)
{
    for (size_t i = 0; i < s->is.n_peers; i++) {
        origin_unref(s->is.peers[i].origin);
        disco_unref((struct disco *)(uintptr_t)s->is.peers[i].disco);
        schema_index_unref(s->is.peers[i].schemas);
        schema_index_unref(s->is.peers[i].last_schemas);
    }
    for (size_t i = 0; i < SERVED_HALVES; i++)
        served_documents_unref(s->is.documents[i]);
    disco_unref((struct disco *)(uintptr_t)s->is.local);
    schema_index_unref(s->is.local_schemas);
    schema_index_unref(s->undiscovered_schemas);
    arena_free(s->arena);
    mem_free(s);
}

void served_unref(struct served *s)
{
    must_hold(s == NULL || s->refs > 0);
    if (s != NULL && --s->refs == 0)
        served_free(s);
}

void served_bury(struct served *s, struct list *dead)
{
    if (s->refs > 1)
        served_unref(s);
    else
        list_push_back(dead, &s->dead);
}

bool served_free_next(struct list *dead)
{
    struct list_node *n = list_pop_front(dead);

    if (n == NULL)
        return false;
    served_unref(list_entry(n, struct served, dead));
    return true;
}

uint64_t served_generation(const struct served *s)
{
    return s->is.generation;
}

bool served_peers_enabled(const struct served *s)
{
    return s->is.peers_enabled;
}

bool served_synced(const struct served *s)
{
    return s->is.local != NULL && s->is.leases_synced;
}

bool served_leases_listed(const struct served *s)
{
    return s->leases_listed;
}

bool served_forbidden(const struct served *s)
{
    return s->is.local == NULL && s->is.local_refused;
}

size_t served_n_peers(const struct served *s)
{
    return s->is.n_peers;
}

const struct served_peer *served_peer_at(const struct served *s, size_t i)
{
    must_hold(i < s->is.n_peers); /* a candidate is a number, and means nothing in another snapshot */
    return &s->is.peers[i];
}

const char *served_local_id(const struct served *s)
{
    return s->is.local_id;
}

const char *served_local_host(const struct served *s)
{
    return s->is.local_host;
}

enum disco_answer served_local(const struct served *s, const struct gvr *gvr, struct slice subresource,
                               struct slice verb)
{
    return s->is.local == NULL ? DISCO_NO_RESOURCE : disco_lookup(s->is.local, gvr, subresource, verb);
}

enum disco_answer served_by_peer(const struct served *s, size_t peer, const struct gvr *gvr, struct slice subresource,
                                 struct slice verb)
{
    const struct served_peer *p = &s->is.peers[peer];

    /* After a change of holder the old document is good enough to advertise, and to ask by (route.c), not to be sure.
     */
    if (p->disco == NULL || !p->discovery_known)
        return DISCO_NO_RESOURCE;
    return disco_lookup(p->disco, gvr, subresource, verb);
}

/* Among sorted "group/version"s. */
static bool is_among(const struct slice *gvs, size_t n, struct slice group, struct slice version)
{
    char text[2 * GVR_NAME_BYTES + 1];
    struct slice key;

    if (group.n > GVR_NAME_BYTES || version.n > GVR_NAME_BYTES || n == 0)
        return false;
    if (group.n > 0)
        memcpy(text, group.p, group.n);
    text[group.n] = '/';
    if (version.n > 0)
        memcpy(text + group.n + 1, version.p, version.n);
    key = slice_of(text, group.n + 1 + version.n);
    return bsearch(&key, gvs, n, sizeof(*gvs), slice_cmp_at) != NULL;
}

bool served_excluded(const struct served *s, struct slice group, struct slice version)
{
    return is_among(s->is.excluded, s->is.n_excluded, group, version);
}

bool served_aggregated(const struct served *s, struct slice group, struct slice version)
{
    return is_among(s->is.aggregated, s->is.n_aggregated, group, version);
}

bool served_peers_read(const struct served *s)
{
    return s->is.peers_read;
}

bool served_local_read(const struct served *s)
{
    return s->is.local_read;
}

bool served_pending(const struct served *s)
{
    for (size_t i = 0; i < s->is.n_peers; i++)
        if (s->is.peers[i].pending)
            return true;
    return false;
}

bool served_schemas_pending(const struct served *s)
{
    for (size_t i = 0; i < s->is.n_peers; i++)
        if (s->is.peers[i].schemas_pending)
            return true;
    return false;
}

const struct schema_index *served_undiscovered_schemas(const struct served *s)
{
    return s->undiscovered_schemas;
}

bool served_unknown_peer(const struct served *s)
{
    return s->is.behind || served_pending(s);
}

static bool names(const struct disco *d, struct slice group, struct slice version)
{
    if (version.n == 0)
        return disco_doc_group(disco_apis(d), group) != NULL;
    return disco_gv(d, group, version) != DISCO_GV_ABSENT;
}

bool served_undiscovered(const struct served *s, struct slice group, struct slice version)
{
    for (size_t i = 0; i < s->is.n_undiscovered; i++)
        if (slice_eq(s->is.undiscovered[i].group, group) &&
            (version.n == 0 || slice_eq(s->is.undiscovered[i].version, version)))
            return true;
    for (size_t i = 0; i < s->is.n_peers; i++)
        if (!s->is.peers[i].discovery_known && s->is.peers[i].disco != NULL &&
            names(s->is.peers[i].disco, group, version))
            return true;
    return false;
}

bool served_live_peer_names(const struct served *s, struct slice group, struct slice version)
{
    for (size_t i = 0; i < s->is.n_peers; i++) {
        const struct served_peer *p = &s->is.peers[i];

        if (p->life == SERVED_LIVE && p->discovery_known && p->disco != NULL && names(p->disco, group, version))
            return true;
    }
    return false;
}

const struct served_document *served_merged(const struct served *s, enum served_shape shape)
{
    return served_merged_half(s, SERVED_APIS, shape);
}

const struct served_document *served_merged_half(const struct served *s, enum served_half half, enum served_shape shape)
{
    return served_documents_at(s->is.documents[half], shape);
}

const struct disco_doc *served_merged_doc(const struct served *s, enum served_half half)
{
    return served_documents_parsed(s->is.documents[half]);
}

struct slice served_local_etag(const struct served *s, enum served_half half)
{
    return s->is.local_etag[half];
}

const struct disco *served_local_disco(const struct served *s)
{
    return s->is.local;
}

struct slice served_schema(const struct served *s, size_t server, struct slice group, struct slice version)
{
    return schema_index_hash(schemas_of(s, server), group, version);
}

bool served_skewed(const struct served *s, struct slice group, struct slice version)
{
    struct slice first = SLICE_NONE;

    for (size_t i = 0; i < s->n_distinct; i++) {
        struct slice hash = schema_index_hash(s->distinct[i], group, version);

        if (hash.n == 0)
            continue;
        if (first.n > 0 && !slice_eq(hash, first))
            return !served_excluded(s, group, version);
        first = hash;
    }
    return false;
}

const struct schema_index *const *served_distinct_schemas(const struct served *s, size_t *n)
{
    *n = s->n_distinct;
    return s->distinct;
}

/* By address: both hold what they say. */
bool served_says_same(const struct served *a, const struct served *b)
{
    bool same = a->is.local == b->is.local && a->is.n_peers == b->is.n_peers && a->is.n_excluded == b->is.n_excluded;

    for (size_t i = 0; same && i < a->is.n_peers; i++)
        same = a->is.peers[i].disco == b->is.peers[i].disco;
    for (size_t i = 0; same && i <= a->is.n_peers; i++)
        same = schemas_of(a, i) == schemas_of(b, i);
    for (size_t i = 0; same && i < a->is.n_excluded; i++)
        same = slice_eq(a->is.excluded[i], b->is.excluded[i]);
    return same;
}

const struct schema_index *served_local_schemas(const struct served *s)
{
    return s->is.local_schemas;
}

uint64_t served_local_release(const struct served *s)
{
    return s->is.local_release;
}
