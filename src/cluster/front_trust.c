/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/front_trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "back/fetch.h"
#include "base/buf.h"
#include "base/changes.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "net/loop.h"

enum {
    MAP_BYTES = 2 * LIMIT_JSON_SMALL_BYTES,
    NAMED_BYTES = 256 << 10,
    CALL_MS = 10000,
    JITTER_PERCENT = 10,
    RETRY_FIRST_MS = 500
};

struct front_trust {
    struct front_trust_opts o;
    struct loop *loop;
    struct request_header ours;
    struct user_headers headers; /* ours.headers */
    struct fetch *call;
    struct loop_timer *timer;
    struct backoff backoff;
    struct buf last;                         /* what they said when it could be read; empty: it never could */
    enum request_header_verdict verdict;     /* the last that there was */
    struct err why;                          /* of DIFFERS and MORE */
    struct user_headers named;               /* as far as it could last be read; in the arena */
    struct arena *named_in;                  /* NULL: it never could */
    unsigned char digest[HASH_SHA256_BYTES]; /* of ours */
    bool configured;
    bool answered; /* since it was configured, whatever it was */
    bool said;     /* that it cannot be read */
};

static void agreed(struct front_trust *t, enum request_header_verdict v)
{
    if (t->verdict == REQUEST_HEADER_DIFFERS)
        log_info("API servers believe the same front proxies and clients' CAs as configured here");
    t->verdict = v;
}

/* It may be there for ever, and is said once. */
static void more(struct front_trust *t, const struct err *why)
{
    bool said = t->verdict == REQUEST_HEADER_MORE && strcmp(why->text, t->why.text) == 0;

    agreed(t, REQUEST_HEADER_MORE);
    if (!said)
        log_warning("API servers name headers for identities that are not configured here: they are removed from "
                    "requests",
                    LT("err", why->text));
    t->why = *why;
}

static void differs(struct front_trust *t, const struct err *why)
{
    if (t->verdict != REQUEST_HEADER_DIFFERS || strcmp(why->text, t->why.text) != 0) {
        log_error("API servers believe other front proxies, headers or clients' CAs than configured here: certificate "
                  "users are not who they seem to be",
                  LT("err", why->text));
        changes_add(t->o.changes, CHANGE_DISBELIEVED, "requestheader", "the API servers believe otherwise: %s",
                    why->text);
    }
    t->verdict = REQUEST_HEADER_DIFFERS;
    t->why = *why;
}

/* No rights, no such object, no front proxies: nothing that the next minute would change. */
static void unknown(struct front_trust *t, const char *why)
{
    if (!t->said)
        log_warning("Cannot tell which front proxies the API servers believe, so their headers are not compared with "
                    "requestheader-* of the configuration",
                    LT("path", REQUEST_HEADER_PATH), LT("err", why));
    t->said = true;
    t->verdict = REQUEST_HEADER_UNKNOWN;
}

static void judge(struct front_trust *t, struct slice configmap)
{
    struct err why = {.text = ""};

    switch (request_header_compare(&t->ours, configmap, &why)) {
    case REQUEST_HEADER_AGREES:
        agreed(t, REQUEST_HEADER_AGREES);
        break;
    case REQUEST_HEADER_MORE:
        more(t, &why);
        break;
    case REQUEST_HEADER_DIFFERS:
        differs(t, &why);
        break;
    case REQUEST_HEADER_UNKNOWN:
        unknown(t, why.text);
        break;
    }
}

/* False: it could not be read, or kept, which changes nothing: servers believe what they did. */
static bool take_named(struct front_trust *t, struct slice configmap)
{
    struct arena *a = arena_new(NAMED_BYTES);
    struct user_headers named = {0};

    if (a == NULL || !request_header_named(configmap, a, &named)) {
        arena_free(a);
        return false;
    }
    arena_free(t->named_in);
    t->named_in = a;
    t->named = named;
    return true;
}

/*
 * Headers that servers do not know cost us our own groups, and with them the right to read this: what was read before
 * is compared.
 */
static void judge_refused(struct front_trust *t, unsigned status)
{
    char text[32];

    if (status == 404)
        buf_reset(&t->last);
    (void)snprintf(text, sizeof(text), "answered %u", status);
    if (buf_len(&t->last) > 0)
        judge(t, buf_slice(&t->last));
    else
        unknown(t, text);
}

/* What only the servers name is removed from the first answer on, so a server that comes up is asked soon. */
static void ask_again(struct front_trust *t)
{
    uint64_t delay_ms = backoff_next(&t->backoff);

    loop_timer_set(t->timer, t->answered || delay_ms < RETRY_FIRST_MS ? delay_ms : RETRY_FIRST_MS);
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    struct front_trust *t = arg;
    unsigned status = r->ok ? r->head->status : 0;
    bool kept = true;

    t->call = NULL;
    if (status != 200 && status != 401 && status != 403 && status != 404) {
        log_v(3, "Could not ask which front proxies the API servers believe", LU("status", status));
        ask_again(t);
        return;
    }
    if (status == 200) {
        buf_reset(&t->last);
        kept = take_named(t, r->body);
        (void)buf_append(&t->last, r->body); /* without memory: as if it had never been read */
        judge(t, r->body);
    } else {
        judge_refused(t, status);
    }
    metric_set(t->o.differs, t->verdict == REQUEST_HEADER_DIFFERS ? 1 : 0);
    t->answered |= kept;
    if (!kept) {
        ask_again(t);
        return;
    }
    backoff_reset(&t->backoff);
    loop_timer_set(t->timer, jitter_ms(FRONT_TRUST_INTERVAL_MS, JITTER_PERCENT));
}

static void ask(void *arg)
{
    struct front_trust *t = arg;
    const struct api_request g = {
        .target = SLICE_LIT(REQUEST_HEADER_PATH),
        .accept = SLICE_LIT("application/json"),
        .ceiling = MAP_BYTES,
        .timeout_ms = CALL_MS,
    };

    t->call = api_send(t->o.api, &g, on_answer, t);
    if (t->call == NULL)
        ask_again(t);
}

static void stop(struct front_trust *t)
{
    fetch_cancel(&t->call);
    loop_timer_cancel(t->timer);
}

static void add_words(struct buf *out, const struct slice *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%zu:%.*s", words[i].n, (int)words[i].n, words[i].p);
    buf_append_char(out, '|');
}

/* Of all that is compared, so that a reload without a change asks nobody. False: out of memory, so it is another. */
static bool digest_of(const struct request_header *ours, unsigned char out[HASH_SHA256_BYTES])
{
    const struct user_headers *h = ours->headers;
    struct buf words;
    bool ok;

    buf_init(&words, 2 * LIMIT_PEM_BYTES + LIMIT_SMALL_BODY);
    if (h != NULL) {
        add_words(&words, h->username, h->n_username);
        add_words(&words, h->uid, h->n_uid);
        add_words(&words, h->group, h->n_group);
        add_words(&words, h->extra_prefix, h->n_extra_prefix);
    }
    for (size_t i = 0; ours->names != NULL && ours->names[i] != NULL; i++)
        buf_printf(&words, "%zu:%s", strlen(ours->names[i]), ours->names[i]);
    buf_append_char(&words, '|');
    buf_append(&words, ours->ca);
    buf_append_char(&words, '|');
    buf_append(&words, ours->client_ca);
    ok = !words.failed && hash_sha256(buf_slice(&words), out);
    buf_free(&words);
    return ok;
}

static bool is_same(struct front_trust *t, const struct request_header *ours)
{
    unsigned char digest[HASH_SHA256_BYTES];
    bool known = digest_of(ours, digest), same;

    same = known && t->configured && memcmp(digest, t->digest, sizeof(digest)) == 0;
    if (known)
        memcpy(t->digest, digest, sizeof(digest));
    t->configured = known;
    return same;
}

void front_trust_configure(struct front_trust *t, const struct request_header *ours, bool moved)
{
    bool same = is_same(t, ours) && !moved;

    t->ours = *ours;
    if (ours->headers != NULL) {
        t->headers = *ours->headers;
        t->ours.headers = &t->headers;
    }
    if (moved)
        buf_reset(&t->last);
    /* Where words differ, a reload may be to say that they were put right over there. */
    if (same && t->verdict != REQUEST_HEADER_DIFFERS)
        return;
    t->said = t->answered = false;
    stop(t);
    backoff_reset(&t->backoff);
    if (ours->headers != NULL)
        loop_timer_set(t->timer, 0);
    else
        t->verdict = REQUEST_HEADER_UNKNOWN;
}

bool front_trust_agrees(const struct front_trust *t, char *reason, size_t n)
{
    if (t->verdict != REQUEST_HEADER_DIFFERS)
        return true;
    (void)snprintf(reason, n, "%s", t->why.text);
    return false;
}

const struct user_headers *front_trust_named(const struct front_trust *t)
{
    return &t->named;
}

struct front_trust *front_trust_new(const struct front_trust_opts *o)
{
    struct front_trust *t = must_zalloc(sizeof(*t));

    t->o = *o;
    t->loop = api_loop(o->api);
    buf_init(&t->last, MAP_BYTES);
    backoff_init(&t->backoff, RETRY_FIRST_MS, FRONT_TRUST_INTERVAL_MS);
    t->timer = loop_timer_new(t->loop, ask, t);
    if (t->timer == NULL)
        abort();
    return t;
}

void front_trust_free(struct front_trust *t)
{
    if (t == NULL)
        return;
    stop(t);
    loop_timer_free(t->timer);
    buf_free(&t->last);
    arena_free(t->named_in);
    mem_free(t);
}
