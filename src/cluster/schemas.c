/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/schemas.h"

#include "back/back.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/work.h"
#include "kube/version.h"
#include "net/loop.h"

struct schemas {
    struct api *api;
    bool peer;
    void (*changed)(void *arg);
    void *arg;
    struct fetch *fetch;
    struct origin *origin; /* while something is asked, or read */
    struct buf text;       /* of the index that comes */
    struct hash_stream *hash;
    bool too_large;
    size_t skipped; /* bytes of an answer that is no index */
    struct schema_reader *reader;
    struct work work; /* reads it */
    struct schema_index *index, *coming;
    struct schema_index *before; /* of another process; NULL: none, or `index` is known */
    uint64_t since_ms;           /* the first poll began; 0: there was none */
    bool asked;                  /* a poll has had its end */
    char *etag, *coming_etag;
    unsigned char digest[HASH_SHA512_BYTES], coming_digest[HASH_SHA512_BYTES]; /* of the indexes */
    uint64_t release;
    const char *unusable; /* why the last one that was there is; NULL: it is not */
};

static const char too_large[] = "it is over 8 MiB",
                  not_understood[] = "it is malformed, or has more than 65536 documents", no_memory[] = "out of memory";
_Static_assert(LIMIT_SCHEMA_INDEX_BYTES == 8 << 20 && LIMIT_SCHEMAS == 65536, "as the texts say");

struct schemas *schemas_new(struct api *a, bool peer, void (*changed)(void *arg), void *arg)
{
    struct schemas *s = mem_zalloc(sizeof(*s));

    if (s == NULL)
        return NULL;
    s->api = a;
    s->peer = peer;
    s->changed = changed;
    s->arg = arg;
    buf_init(&s->text, LIMIT_SCHEMA_INDEX_BYTES);
    return s;
}

static void drop_coming(struct schemas *s)
{
    work_cancel(api_work(s->api), &s->work);
    schema_reader_free(s->reader);
    if (s->hash != NULL)
        (void)hash_sha512_end(s->hash, NULL);
    buf_release(&s->text);
    schema_index_unref(s->coming);
    mem_free(s->coming_etag);
    s->reader = NULL;
    s->hash = NULL;
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

/* The end of a poll without an index. Who answers and gives none is not the process that gave the one before. */
static void finish(struct schemas *s, bool answered)
{
    bool news = !s->asked || (answered && s->before != NULL);

    rest(s);
    s->asked = true;
    if (answered) {
        schema_index_unref(s->before);
        s->before = NULL;
    }
    if (news)
        s->changed(s->arg);
}

static void forget(struct schemas *s)
{
    schema_index_unref(s->index);
    schema_index_unref(s->before);
    mem_free(s->etag);
    s->index = s->before = NULL;
    s->etag = NULL;
    s->release = 0;
}

/* Said once for as long as it is so. */
static void note_unusable(struct schemas *s, const char *why)
{
    if (why == s->unusable)
        return;
    s->unusable = why;
    if (why != NULL)
        log_warning("The index of schemas (/openapi/v3) of a server cannot be used, so schemas are not merged with it",
                    LT("server", origin_name(s->origin)), LT("err", why));
    else
        log_v(0, "The index of schemas of the server can be used again", LT("server", origin_name(s->origin)));
}

void schemas_free(struct schemas *s)
{
    if (s == NULL)
        return;
    rest(s);
    forget(s);
    buf_free(&s->text);
    mem_free(s);
}

static bool on_piece(void *arg, const struct http_head *head, struct slice piece)
{
    struct schemas *s = arg;

    if (head->status != 200) { /* its status says it all */
        s->skipped += piece.n;
        return s->skipped <= LIMIT_SMALL_BODY;
    }
    s->too_large = piece.n > LIMIT_SCHEMA_INDEX_BYTES - buf_len(&s->text);
    return buf_append(&s->text, piece) && hash_sha512_add(s->hash, piece);
}

static void ask(struct schemas *s, struct api_request g, fetch_fn *fn)
{
    g.origin = s->origin;
    g.peer = s->peer;
    g.accept = SLICE_LIT("application/json");
    g.timeout_ms = TIMEOUT_DISCOVERY_MS;
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
        finish(s, false); /* tried again with the next poll: the tag is still that of before */
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
    s->asked = true;
    s->changed(s->arg);
}

static enum step read_some(void *arg)
{
    struct schemas *s = arg;

    return schema_reader_step(s->reader, &s->coming);
}

static void on_read(void *arg, bool done)
{
    struct schemas *s = arg;
    bool starved;

    if (done) {
        note_unusable(s, NULL);
        schema_reader_free(s->reader);
        s->reader = NULL;
        buf_release(&s->text);
        ask(s, (struct api_request){.target = SLICE_LIT("/version"), .ceiling = LIMIT_SMALL_BODY}, on_version);
    } else {
        starved = schema_reader_starved(s->reader);
        note_unusable(s, starved ? no_memory : not_understood);
        finish(s, !starved);
    }
}

static bool digest_of_text(struct schemas *s)
{
    bool good = hash_sha512_end(s->hash, s->coming_digest);

    s->hash = NULL;
    return good;
}

/* kube-apiserver gives its index no entity tag, so each poll brings all of it. */
static bool is_held(const struct schemas *s)
{
    return s->index != NULL && memcmp(s->digest, s->coming_digest, sizeof(s->digest)) == 0;
}

static void take_index(struct schemas *s, const struct http_head *head)
{
    if (digest_of_text(s) && is_held(s)) {
        note_unusable(s, NULL);
        finish(s, true);
        return;
    }
    s->coming_etag = mem_slicedup(http_head_value(head, HTTP_ETAG));
    s->reader = schema_reader_new(buf_slice(&s->text), NULL);
    if (s->reader != NULL) {
        work_start(api_work(s->api), &s->work, read_some, on_read, s);
        return;
    }
    note_unusable(s, no_memory);
    finish(s, false);
}

static void on_index(void *arg, const struct fetch_result *f)
{
    struct schemas *s = arg;
    bool gone;

    s->fetch = NULL;
    if (api_answered(f, 200)) {
        take_index(s, f->head);
        return;
    }
    if (s->too_large)
        note_unusable(s, too_large);
    else if (api_answered(f, 304) || api_answered(f, 404))
        note_unusable(s, NULL);
    /* A server that has none any more: what it had says nothing about it. */
    gone = f->ok && f->head->status == 404 && s->index != NULL;
    if (gone)
        forget(s);
    s->asked = s->asked && !gone;
    finish(s, f->ok || s->too_large);
}

void schemas_poll(struct schemas *s, struct origin *o)
{
    if (s == NULL || s->origin != NULL || o == NULL)
        return;
    s->origin = origin_ref(o);
    if (s->since_ms == 0)
        s->since_ms = loop_now_ms(api_loop(s->api));
    s->too_large = false;
    s->skipped = 0;
    s->hash = hash_sha512_start();
    if (s->hash == NULL) {
        rest(s);
        return;
    }
    ask(s,
        (struct api_request){
            .target = SLICE_LIT("/openapi/v3"),
            .if_none_match = slice_str(s->etag),
            .ceiling = SIZE_MAX,
            .on_piece = on_piece,
        },
        on_index);
}

void schemas_invalidate(struct schemas *s)
{
    struct schema_index *before;

    if (s == NULL)
        return;
    before = schema_index_ref(schemas_last_index(s));
    rest(s);
    forget(s);
    s->before = before;
    s->unusable = NULL; /* another process: nothing is known of its */
}

struct schema_index *schemas_index(const struct schemas *s)
{
    return s == NULL ? NULL : s->index;
}

struct schema_index *schemas_last_index(const struct schemas *s)
{
    return s == NULL || s->index != NULL ? schemas_index(s) : s->before;
}

bool schemas_expected(const struct schemas *s, uint64_t *for_ms)
{
    *for_ms = s->since_ms == 0 ? 0 : loop_now_ms(api_loop(s->api)) - s->since_ms;
    return !s->asked && *for_ms < SCHEMAS_EXPECTED_MS;
}

const char *schemas_unusable(const struct schemas *s)
{
    return s == NULL ? NULL : s->unusable;
}

uint64_t schemas_release(const struct schemas *s)
{
    return s == NULL ? 0 : s->release;
}
