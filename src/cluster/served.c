/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/served.h"

#include <stdlib.h>

#include "back/back.h"

struct served_documents {
    unsigned refs;
    struct served_document at[SERVED_SHAPES];
    char *storage[SERVED_SHAPES * 3];
    struct disco_doc *parsed;
};

struct served {
    unsigned refs;
    uint64_t generation;
    bool peers_enabled, leases_synced, leases_listed, local_refused, behind;
    char *local_id, *local_host;
    char *local_etag[SERVED_HALVES];
    struct disco *local;
    struct schema_index *local_schemas;
    uint64_t local_release;
    struct served_peer *peers; /* IDs are owned here */
    size_t n_peers;
    const struct schema_index **distinct; /* of the servers that have a say, each that is another one; some server's */
    size_t n_distinct;
    struct slice *excluded; /* sorted, into excluded_text */
    char *excluded_text;
    size_t n_excluded;
    struct served_gv *undiscovered; /* into undiscovered_text */
    char *undiscovered_text;
    size_t n_undiscovered;
    struct served_documents *documents[SERVED_HALVES];
};

struct served_documents *served_documents_new(const struct served_document documents[SERVED_SHAPES],
                                              char *const storage[SERVED_SHAPES * 3], const struct disco_doc *parsed)
{
    struct served_documents *d = mem_zalloc(sizeof *d);

    if (d == NULL) {
        for (size_t i = 0; i < SERVED_SHAPES * 3; i++)
            mem_free(storage[i]);
        return NULL;
    }
    d->refs = 1;
    memcpy(d->at, documents, sizeof d->at);
    memcpy(d->storage, storage, sizeof d->storage);
    d->parsed = parsed == NULL ? NULL : disco_doc_ref(parsed);
    return d;
}

struct served_documents *served_documents_ref(struct served_documents *d)
{
    if (d != NULL)
        d->refs++;
    return d;
}

void served_documents_unref(struct served_documents *d)
{
    if (d == NULL || --d->refs > 0)
        return;
    for (size_t i = 0; i < SERVED_SHAPES * 3; i++)
        mem_free(d->storage[i]);
    disco_doc_unref(d->parsed);
    mem_free(d);
}

const struct served_document *served_documents_at(const struct served_documents *d, enum served_shape shape)
{
    return d == NULL || d->at[shape].body.p == NULL ? NULL : &d->at[shape];
}

static const char *host_or_id(const char *host, const char *id)
{
    return host == NULL || host[0] == '\0' ? id : host;
}

static bool copy_peers(struct served *s, const struct served_input *in)
{
    if (in->n_peers == 0)
        return true;
    s->peers = mem_array(in->n_peers, sizeof *s->peers);
    if (s->peers == NULL)
        return false;
    for (size_t i = 0; i < in->n_peers; i++) {
        struct served_peer *p = &s->peers[i];

        *p = in->peers[i];
        p->id = mem_strdup(in->peers[i].id);
        p->host = mem_strdup(host_or_id(in->peers[i].host, in->peers[i].id));
        if (p->id == NULL || p->host == NULL) {
            mem_free((void *)(uintptr_t)p->id);
            mem_free((void *)(uintptr_t)p->host);
            return false;
        }
        if (p->origin != NULL)
            origin_ref(p->origin);
        if (p->disco != NULL)
            p->disco = disco_ref(p->disco);
        (void)schema_index_ref(p->schemas);
        s->n_peers++;
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

static bool copy_excluded(struct served *s, const struct served_input *in)
{
    size_t bytes = 0, at = 0;

    if (in->n_excluded == 0)
        return true;
    for (size_t i = 0; i < in->n_excluded; i++)
        bytes += in->excluded[i].n;
    s->excluded = mem_array(in->n_excluded, sizeof *s->excluded);
    s->excluded_text = mem_alloc(bytes + 1);
    if (s->excluded == NULL || s->excluded_text == NULL)
        return false;
    for (size_t i = 0; i < in->n_excluded; i++) {
        memcpy(s->excluded_text + at, in->excluded[i].p, in->excluded[i].n);
        s->excluded[i] = slice_of(s->excluded_text + at, in->excluded[i].n);
        at += in->excluded[i].n;
    }
    s->n_excluded = in->n_excluded;
    qsort(s->excluded, s->n_excluded, sizeof *s->excluded, by_text);
    return true;
}

static struct slice put_text(char *at, struct slice s)
{
    if (s.n > 0)
        memcpy(at, s.p, s.n);
    return slice_of(at, s.n);
}

static bool copy_undiscovered(struct served *s, const struct served_input *in)
{
    size_t bytes = 0;
    char *at;

    if (in->n_undiscovered == 0)
        return true;
    for (size_t i = 0; i < in->n_undiscovered; i++)
        bytes += in->undiscovered[i].group.n + in->undiscovered[i].version.n;
    s->undiscovered = mem_array(in->n_undiscovered, sizeof *s->undiscovered);
    at = s->undiscovered_text = mem_alloc(bytes + 1);
    if (s->undiscovered == NULL || at == NULL)
        return false;
    for (size_t i = 0; i < in->n_undiscovered; i++) {
        s->undiscovered[i].group = put_text(at, in->undiscovered[i].group);
        at += in->undiscovered[i].group.n;
        s->undiscovered[i].version = put_text(at, in->undiscovered[i].version);
        at += in->undiscovered[i].version.n;
    }
    s->n_undiscovered = in->n_undiscovered;
    return true;
}

/* Server 0 is the local one, i peer i - 1. NULL: it has no say. */
static const struct schema_index *schemas_of(const struct served *s, size_t server)
{
    if (server == 0)
        return s->local_schemas;
    return s->peers[server - 1].life == SERVED_LIVE ? s->peers[server - 1].schemas : NULL;
}

/* Most servers have the very same index: it is looked into once. */
static bool take_distinct(struct served *s)
{
    s->distinct = mem_array(s->n_peers + 1, sizeof *s->distinct);
    if (s->distinct == NULL)
        return false;
    for (size_t i = 0; i <= s->n_peers; i++) {
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
    struct served *s = mem_zalloc(sizeof *s);
    bool complete = true;

    if (s == NULL)
        return NULL;
    s->refs = 1;
    s->generation = in->generation;
    s->peers_enabled = in->peers_enabled;
    s->leases_synced = s->leases_listed = in->leases_synced;
    s->local_refused = in->local_refused;
    s->behind = in->behind;
    s->local_id = mem_strdup(in->local_id);
    s->local_host = mem_strdup(host_or_id(in->local_host, in->local_id));
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        s->local_etag[i] = mem_slicedup(in->local_etag[i]);
        s->documents[i] = served_documents_ref(in->documents[i]);
        complete = complete && s->local_etag[i] != NULL;
    }
    s->local = in->local == NULL ? NULL : disco_ref(in->local);
    s->local_schemas = schema_index_ref(in->local_schemas);
    s->local_release = in->local_release;
    if (complete && s->local_id != NULL && s->local_host != NULL && copy_peers(s, in) && take_distinct(s) &&
        copy_excluded(s, in) && copy_undiscovered(s, in))
        return s;
    served_unref(s);
    return NULL;
}

static bool same_peer(const struct served_peer *p, const struct served_peer *in)
{
    return strcmp(p->id, in->id) == 0 && strcmp(p->host, host_or_id(in->host, in->id)) == 0 && p->life == in->life &&
           p->drained == in->drained && p->discovery_known == in->discovery_known && p->pending == in->pending &&
           p->origin == in->origin && p->source == in->source && p->disco == in->disco && p->schemas == in->schemas &&
           p->release == in->release;
}

static bool same_lists(const struct served *s, const struct served_input *in)
{
    bool same = s->n_peers == in->n_peers && s->n_excluded == in->n_excluded && s->n_undiscovered == in->n_undiscovered;

    for (size_t i = 0; same && i < s->n_peers; i++)
        same = same_peer(&s->peers[i], &in->peers[i]);
    for (size_t i = 0; same && i < s->n_excluded; i++)
        same = slice_eq(s->excluded[i], in->excluded[i]);
    for (size_t i = 0; same && i < s->n_undiscovered; i++)
        same = slice_eq(s->undiscovered[i].group, in->undiscovered[i].group) &&
               slice_eq(s->undiscovered[i].version, in->undiscovered[i].version);
    return same;
}

/* What is compared by address cannot have been freed meanwhile, and another be there: the snapshot holds it. */
bool served_is(const struct served *s, const struct served_input *in)
{
    return s->peers_enabled == in->peers_enabled && (in->local != NULL || s->leases_listed == in->leases_synced) &&
           s->behind == in->behind && s->local_refused == in->local_refused && s->local == in->local &&
           s->local_schemas == in->local_schemas && s->local_release == in->local_release &&
           memcmp(s->documents, in->documents, sizeof s->documents) == 0 && strcmp(s->local_id, in->local_id) == 0 &&
           strcmp(s->local_host, host_or_id(in->local_host, in->local_id)) == 0 &&
           slice_eq(slice_str(s->local_etag[SERVED_APIS]), in->local_etag[SERVED_APIS]) &&
           slice_eq(slice_str(s->local_etag[SERVED_CORE]), in->local_etag[SERVED_CORE]) && same_lists(s, in);
}

void served_complete(struct served *s, struct served_documents *const d[SERVED_HALVES], bool leases_synced,
                     uint64_t generation)
{
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        struct served_documents *old = s->documents[i];

        if (d[i] == NULL)
            continue;
        s->documents[i] = served_documents_ref(d[i]);
        served_documents_unref(old);
    }
    s->leases_synced = leases_synced;
    s->generation = generation;
}

struct served *served_ref(struct served *s)
{
    s->refs++;
    return s;
}

static void served_free(struct served *s)
{
    for (size_t i = 0; i < s->n_peers; i++) {
        mem_free((void *)(uintptr_t)s->peers[i].host);
        mem_free((void *)(uintptr_t)s->peers[i].id);
        origin_unref(s->peers[i].origin);
        disco_unref((struct disco *)(uintptr_t)s->peers[i].disco);
        schema_index_unref(s->peers[i].schemas);
    }
    mem_free(s->peers);
    mem_free(s->excluded);
    mem_free(s->excluded_text);
    mem_free(s->undiscovered);
    mem_free(s->undiscovered_text);
    mem_free(s->distinct);
    mem_free(s->local_id);
    mem_free(s->local_host);
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        mem_free(s->local_etag[i]);
        served_documents_unref(s->documents[i]);
    }
    disco_unref(s->local);
    schema_index_unref(s->local_schemas);
    mem_free(s);
}

void served_unref(struct served *s)
{
    if (s != NULL && --s->refs == 0)
        served_free(s);
}

uint64_t served_generation(const struct served *s)
{
    return s->generation;
}

bool served_peers_enabled(const struct served *s)
{
    return s->peers_enabled;
}

bool served_synced(const struct served *s)
{
    return s->local != NULL && s->leases_synced;
}

bool served_leases_listed(const struct served *s)
{
    return s->leases_listed;
}

bool served_forbidden(const struct served *s)
{
    return s->local == NULL && s->local_refused;
}

size_t served_n_peers(const struct served *s)
{
    return s->n_peers;
}

const struct served_peer *served_peer_at(const struct served *s, size_t i)
{
    return &s->peers[i];
}

const char *served_local_id(const struct served *s)
{
    return s->local_id;
}

const char *served_local_host(const struct served *s)
{
    return s->local_host;
}

enum disco_answer served_local(const struct served *s, const struct gvr *gvr, struct slice subresource,
                               struct slice verb)
{
    return s->local == NULL ? DISCO_NO_RESOURCE : disco_lookup(s->local, gvr, subresource, verb);
}

enum disco_answer served_by_peer(const struct served *s, size_t peer, const struct gvr *gvr, struct slice subresource,
                                 struct slice verb)
{
    const struct served_peer *p = &s->peers[peer];

    /* After a change of holder the old document is good enough to advertise, but not to send somebody there. */
    if (p->disco == NULL || !p->discovery_known)
        return DISCO_NO_RESOURCE;
    return disco_lookup(p->disco, gvr, subresource, verb);
}

bool served_excluded(const struct served *s, struct slice group, struct slice version)
{
    char text[2 * GVR_NAME_BYTES + 1];
    struct slice key = slice_of(text, group.n + 1 + version.n);

    if (group.n > GVR_NAME_BYTES || version.n > GVR_NAME_BYTES || s->n_excluded == 0)
        return false;
    if (group.n > 0)
        memcpy(text, group.p, group.n);
    text[group.n] = '/';
    if (version.n > 0)
        memcpy(text + group.n + 1, version.p, version.n);
    return bsearch(&key, s->excluded, s->n_excluded, sizeof *s->excluded, by_text) != NULL;
}

bool served_unknown_peer(const struct served *s)
{
    if (s->behind)
        return true;
    for (size_t i = 0; i < s->n_peers; i++)
        if (s->peers[i].pending)
            return true;
    return false;
}

static bool names(const struct disco *d, struct slice group, struct slice version)
{
    if (version.n == 0)
        return disco_doc_group(disco_apis(d), group) != NULL;
    return disco_gv(d, group, version) != DISCO_GV_ABSENT;
}

bool served_undiscovered(const struct served *s, struct slice group, struct slice version)
{
    for (size_t i = 0; i < s->n_undiscovered; i++)
        if (slice_eq(s->undiscovered[i].group, group) &&
            (version.n == 0 || slice_eq(s->undiscovered[i].version, version)))
            return true;
    for (size_t i = 0; i < s->n_peers; i++)
        if (!s->peers[i].discovery_known && s->peers[i].disco != NULL && names(s->peers[i].disco, group, version))
            return true;
    return false;
}

const struct served_document *served_merged(const struct served *s, enum served_shape shape)
{
    return served_merged_half(s, SERVED_APIS, shape);
}

const struct served_document *served_merged_half(const struct served *s, enum served_half half, enum served_shape shape)
{
    return served_documents_at(s->documents[half], shape);
}

const struct disco_doc *served_merged_doc(const struct served *s, enum served_half half)
{
    return s->documents[half] == NULL ? NULL : s->documents[half]->parsed;
}

struct slice served_local_etag(const struct served *s, enum served_half half)
{
    return slice_str(s->local_etag[half]);
}

const struct disco *served_local_disco(const struct served *s)
{
    return s->local;
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
    bool same = a->local == b->local && a->n_peers == b->n_peers && a->n_excluded == b->n_excluded;

    for (size_t i = 0; same && i < a->n_peers; i++)
        same = a->peers[i].disco == b->peers[i].disco;
    for (size_t i = 0; same && i <= a->n_peers; i++)
        same = schemas_of(a, i) == schemas_of(b, i);
    for (size_t i = 0; same && i < a->n_excluded; i++)
        same = slice_eq(a->excluded[i], b->excluded[i]);
    return same;
}

const struct schema_index *served_local_schemas(const struct served *s)
{
    return s->local_schemas;
}

uint64_t served_local_release(const struct served *s)
{
    return s->local_release;
}
