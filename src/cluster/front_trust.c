/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/front_trust.h"

#include <stdio.h>
#include <string.h>

#include "back/fetch.h"
#include "base/buf.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "net/loop.h"

enum {
    MAP_BYTES = 2 * LIMIT_TRUST_DATA_BYTES,
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
    struct front_trust_self self;
    unsigned status;      /* of the last answer since it was configured; 0: none */
    bool believed;        /* some answer was not such a refusal: */
    bool doubted;         /* it refuses us as those whom it does not believe: */
    uint64_t doubted_ms;  /* since then */
    struct err disbelief; /* that was long enough; empty: it was not */
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
    else if (!t->doubted) /* that is said for itself */
        unknown(t, text);
}

/* ---- whether it believes us ---- */

static bool is_in_date(const struct front_trust *t)
{
    return t->self.until_s > clock_wall_us() / 1000000;
}

bool front_trust_is_disbelief(const struct front_trust *t, unsigned status)
{
    return is_in_date(t) && (status == 401 || (status == 403 && t->self.masters)) &&
           (t->status == 0 || t->status == status);
}

/* `told`: by an answer, and not because nobody is asserted any more. */
static void not_disbelieved(struct front_trust *t, bool told)
{
    if (told && err_is_set(&t->disbelief))
        log_info("API server believes this front proxy");
    err_clear(&t->disbelief);
    metric_set(t->o.refused, 0);
}

static void disbelieved(struct front_trust *t, unsigned status)
{
    struct err why = {.text = ""};

    if (status == 401)
        (void)err_set(&why, "the local kube-apiserver does not believe this front proxy: it answers 401 to "
                            "proxy-client-cert-file, so users with certificates get 401");
    else
        (void)err_set(&why, "the local kube-apiserver does not read the groups that are asserted: it answers 403 to "
                            "system:masters, so users with certificates lack rights");
    if (strcmp(why.text, t->disbelief.text) != 0) {
        log_error("API server does not believe this front proxy", LU("status", status), LT("err", why.text));
        changes_add(t->o.changes, CHANGE_DISBELIEVED, "requestheader", "%s", why.text);
    }
    t->disbelief = why;
    metric_set(t->o.refused, 1);
}

/* False: it is in doubt. */
static bool note_belief(struct front_trust *t, unsigned status)
{
    uint64_t now = loop_now_ms(t->loop);

    t->status = status;
    if (!front_trust_is_disbelief(t, status)) {
        t->doubted = false;
        t->believed = true;
        not_disbelieved(t, status != 401 && status != 403);
        return true;
    }
    if (!t->doubted)
        t->doubted_ms = now;
    t->doubted = true;
    if (now - t->doubted_ms >= FRONT_TRUST_DOUBT_MS)
        disbelieved(t, status);
    return err_is_set(&t->disbelief);
}

void front_trust_doubt(struct front_trust *t)
{
    if (t->configured && t->call == NULL && !t->doubted && is_in_date(t))
        loop_timer_set(t->timer, 0);
}

/* ---- asking ---- */

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
    bool kept = true, settled;

    t->call = NULL;
    if (status != 200 && status != 401 && status != 403 && status != 404) {
        log_v(3, "Could not ask which front proxies the API servers believe", LU("status", status));
        t->doubted = t->doubted && err_is_set(&t->disbelief); /* it may be starting */
        ask_again(t);
        return;
    }
    settled = note_belief(t, status);
    if (status == 200) {
        buf_reset(&t->last);
        kept = take_named(t, r->body);
        (void)buf_append(&t->last, r->body); /* without memory: as if it had never been read */
        judge(t, r->body);
    } else {
        judge_refused(t, status);
    }
    metric_set(t->o.differs, t->verdict == REQUEST_HEADER_DIFFERS ? 1 : 0);
    t->answered = (t->answered || kept) && !t->doubted;
    if (!kept) {
        ask_again(t);
        return;
    }
    backoff_reset(&t->backoff);
    loop_timer_set(t->timer, !settled     ? FRONT_TRUST_DOUBT_STEP_MS
                             : t->doubted ? FRONT_TRUST_REFUSED_MS
                                          : jitter_ms(FRONT_TRUST_INTERVAL_MS, JITTER_PERCENT));
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

static bool is_same_self(const struct front_trust_self *a, const struct front_trust_self *b)
{
    return a->until_s == b->until_s && a->masters == b->masters;
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

void front_trust_configure(struct front_trust *t, const struct request_header *ours,
                           const struct front_trust_self *self, bool moved)
{
    bool same = is_same(t, ours) && is_same_self(&t->self, self) && !moved;

    t->ours = *ours;
    t->self = *self;
    if (ours->headers != NULL) {
        t->headers = *ours->headers;
        t->ours.headers = &t->headers;
    }
    if (moved)
        buf_reset(&t->last);
    /* Where words differ, a reload may be to say that they were put right over there. */
    if (same && t->verdict != REQUEST_HEADER_DIFFERS && !t->doubted)
        return;
    t->said = t->answered = t->doubted = false;
    t->status = 0;
    stop(t);
    backoff_reset(&t->backoff);
    if (ours->headers != NULL)
        loop_timer_set(t->timer, 0);
    else
        t->verdict = REQUEST_HEADER_UNKNOWN;
    if (self->until_s == 0)
        not_disbelieved(t, false);
}

/* Nothing is lost by saying at once of what is behind all that cannot be read at a start. */
static bool is_refused_from_the_start(const struct front_trust *t)
{
    return t->doubted && !t->believed && is_in_date(t);
}

bool front_trust_agrees(const struct front_trust *t, char *reason, size_t n)
{
    const struct err *why = t->verdict == REQUEST_HEADER_DIFFERS         ? &t->why
                            : err_is_set(&t->disbelief) && is_in_date(t) ? &t->disbelief
                                                                         : NULL;

    if (why != NULL)
        (void)snprintf(reason, n, "%s", why->text);
    else if (is_refused_from_the_start(t))
        (void)snprintf(reason, n,
                       "the local kube-apiserver has not believed this front proxy so far: it answers %u to %s",
                       t->status, t->status == 401 ? "proxy-client-cert-file" : "system:masters");
    return why == NULL && !is_refused_from_the_start(t);
}

const char *front_trust_more(const struct front_trust *t)
{
    return t->verdict == REQUEST_HEADER_MORE ? t->why.text : NULL;
}

bool front_trust_expected(const struct front_trust *t, char *reason, size_t n)
{
    struct err why = {.text = ""};

    if (!t->configured || t->ours.headers == NULL || buf_len(&t->last) == 0 ||
        request_header_compare(&t->ours, buf_slice(&t->last), &why) != REQUEST_HEADER_DIFFERS)
        return true;
    (void)snprintf(reason, n, "%s", why.text);
    return false;
}

enum request_header_verdict front_trust_clients(const struct front_trust *t, struct slice client_ca)
{
    const struct request_header ours = {.client_ca = client_ca, .ended = t->ours.ended};

    return buf_len(&t->last) == 0 ? REQUEST_HEADER_UNKNOWN : request_header_clients(&ours, buf_slice(&t->last));
}

void front_trust_ask(struct front_trust *t)
{
    if (t->configured && t->ours.headers != NULL && t->call == NULL)
        loop_timer_set(t->timer, 0);
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
    must_hold(t->timer != NULL);
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
