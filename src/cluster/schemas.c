/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/schemas.h"

#include "back/back.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/api.h"
#include "kube/version.h"

struct schemas {
    struct api *api;
    bool peer;
    void (*changed)(void *arg);
    void *arg;
    struct fetch *fetch;
    struct origin *origin; /* while something is asked */
    struct schema_index *index, *coming;
    char *etag, *coming_etag;
    unsigned char digest[HASH_SHA256_BYTES], coming_digest[HASH_SHA256_BYTES]; /* of the indexes */
    uint64_t release;
};

struct schemas *schemas_new(struct api *a, bool peer, void (*changed)(void *arg), void *arg)
{
    struct schemas *s = mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->api = a;
    s->peer = peer;
    s->changed = changed;
    s->arg = arg;
    return s;
}

static void drop_coming(struct schemas *s)
{
    schema_index_unref(s->coming);
    mem_free(s->coming_etag);
    s->coming = NULL;
    s->coming_etag = NULL;
}

/* Nothing is asked any more. */
static void rest(struct schemas *s)
{
    fetch_cancel(&s->fetch);
    drop_coming(s);
    origin_unref(s->origin);
    s->origin = NULL;
}

static void forget(struct schemas *s)
{
    schema_index_unref(s->index);
    mem_free(s->etag);
    s->index = NULL;
    s->etag = NULL;
    s->release = 0;
}

void schemas_free(struct schemas *s)
{
    if (s == NULL)
        return;
    rest(s);
    forget(s);
    mem_free(s);
}

static void ask(struct schemas *s, const char *target, fetch_fn *fn)
{
    const struct api_request g = {
        .origin = s->origin,
        .peer = s->peer,
        .target = slice_str(target),
        .accept = SLICE_LIT("application/json"),
        .if_none_match = s->coming == NULL ? slice_str(s->etag) : SLICE_NONE,
        .ceiling = LIMIT_SCHEMA_INDEX_BYTES,
        .timeout_ms = TIMEOUT_DISCOVERY_MS,
    };

    s->fetch = api_send(s->api, &g, fn, s);
    if (s->fetch == NULL)
        rest(s);
}

static void on_version(void *arg, const struct fetch_result *f)
{
    struct schemas *s = arg;
    struct version v;

    s->fetch = NULL;
    if (!api_answered(f, 200)) {
        rest(s); /* tried again with the next poll: the tag is still that of before */
        return;
    }
    forget(s);
    (void)version_read(f->body, &v);
    s->release = v.release;
    s->index = s->coming;
    s->etag = s->coming_etag;
    s->coming = NULL;
    s->coming_etag = NULL;
    memcpy(s->digest, s->coming_digest, sizeof(s->digest));
    rest(s);
    s->changed(s->arg);
}

/* kube-apiserver gives its index no entity tag, so each poll brings all of it. */
static bool is_held(struct schemas *s, struct slice body)
{
    return hash_sha256(body, s->coming_digest) && s->index != NULL &&
           memcmp(s->digest, s->coming_digest, sizeof(s->digest)) == 0;
}

static void on_index(void *arg, const struct fetch_result *f)
{
    struct schemas *s = arg;

    s->fetch = NULL;
    if (api_answered(f, 200) && is_held(s, f->body)) {
        rest(s);
        return;
    }
    if (api_answered(f, 200)) {
        s->coming = schema_index_parse(f->body);
        s->coming_etag = mem_slicedup(http_head_value(f->head, HTTP_ETAG));
    }
    if (s->coming != NULL) {
        ask(s, "/version", on_version);
        return;
    }
    if (api_answered(f, 200))
        log_v(2, "The index of schemas is not understood", LT("server", origin_name(s->origin)));
    rest(s);
    /* A server that has none any more: what it had says nothing about it. */
    if (f->ok && f->head->status == 404 && s->index != NULL) {
        forget(s);
        s->changed(s->arg);
    }
}

void schemas_poll(struct schemas *s, struct origin *o)
{
    if (s == NULL || s->fetch != NULL || o == NULL)
        return;
    s->origin = origin_ref(o);
    ask(s, "/openapi/v3", on_index);
}

void schemas_invalidate(struct schemas *s)
{
    if (s == NULL)
        return;
    rest(s);
    forget(s);
}

struct schema_index *schemas_index(const struct schemas *s)
{
    return s == NULL ? NULL : s->index;
}

uint64_t schemas_release(const struct schemas *s)
{
    return s == NULL ? 0 : s->release;
}
