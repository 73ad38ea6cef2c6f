/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/pulse.h"

#include <stdio.h>

#include "back/back.h"
#include "base/contract.h"
#include "base/err.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "kube/readyz.h"
#include "kube/server_id.h"
#include "kube/user.h"
#include "net/loop.h"

enum { ANSWER_BYTES = 64 << 10, READYZ_BYTES = 256 << 10, JITTER_PERCENT = 10 };

enum failure { FAILURE_UNREACHED, FAILURE_LATE, FAILURE_REFUSED };

struct pulse {
    struct pulse_opts o;
    struct loop *loop;
    struct origin *origin;
    struct loop_timer *timer;
    struct fetch *fetch;
    enum pulse_state state;
    uint64_t since_ms, failed_ms, failure_since_ms;
    struct err failure; /* the last */
    struct err told;    /* the last that was told */
    enum failure kind;  /* of it */
    uint64_t asked_ms;  /* the beginning of the last probe */
    uint64_t heard_ms;  /* when the last answer to anything but probes came; 0: none */
    uint64_t seen_ms;   /* when the youngest request was sent that is known to have been answered; 0: none */
    bool early;         /* the timer is set for the sake of what others know */
    bool repeated;      /* the probe under way took the place of one without an answer */
    bool loading;       /* a peer that may deny what it will allow a moment later */
    uint64_t loaded_ms; /* when that ended */
    uint64_t good_ms;   /* since when it is known that it had loaded all; 0: it is not */
    uint64_t readyz_ms; /* when that was asked last */
    struct fetch *readyz;
    struct version says;
    bool hop;
    char hop_id[SERVER_ID_BYTES], hop_told[SERVER_ID_BYTES];
    uint64_t hop_since_ms; /* since when it is hop_id */
    char mvproxy[PULSE_MVPROXY_BYTES];
};

static void ask(void *arg);

static uint64_t interval(const struct pulse *p)
{
    size_t n = p->o.servers(p->o.servers_arg);

    return n <= PULSE_SERVERS ? PULSE_INTERVAL_MS : PULSE_INTERVAL_MS * n / PULSE_SERVERS;
}

/* What was found last: any may follow any. */
static void move(struct pulse *p, enum pulse_state to)
{
    must_hold(to == PULSE_UNKNOWN || p->origin != NULL);
    p->state = to;
}

static void set_state(struct pulse *p, enum pulse_state s, bool other)
{
    enum pulse_state before = p->state;

    if (s != before)
        p->since_ms = loop_now_ms(p->loop);
    move(p, s);
    if (s != before || other)
        p->o.changed(p->o.arg, before);
}

/* A server that is restarted fails in one way after the other: told is what it stays with. */
static bool fails_otherwise(const struct pulse *p)
{
    return p->state == PULSE_UNREACHABLE && p->failed_ms - p->failure_since_ms >= PULSE_REASON_MS &&
           strcmp(p->failure.text, p->told.text) != 0;
}

/* An outage may begin with one error and go on with another: each has its own age. */
static void unreachable(struct pulse *p, const struct err *why, enum failure kind)
{
    bool otherwise;

    p->failed_ms = loop_now_ms(p->loop);
    if (p->state != PULSE_UNREACHABLE || strcmp(why->text, p->failure.text) != 0)
        p->failure_since_ms = p->failed_ms;
    p->failure = *why;
    p->kind = kind;
    p->good_ms = 0;
    p->loading |= p->o.peer && kind != FAILURE_REFUSED; /* whoever answers next may be a new process */
    otherwise = fails_otherwise(p);
    if (otherwise || p->state != PULSE_UNREACHABLE)
        p->told = *why;
    set_state(p, PULSE_UNREACHABLE, otherwise);
}

/* Nothing but what a version can consist of is taken over from others. */
static void take_mvproxy(struct pulse *p, const struct http_head *head)
{
    const struct http_field *hop = http_head_find_name(head, SLICE_LIT(USER_HOP));
    const struct http_field *f = http_head_find_name(head, SLICE_LIT(USER_HOP_VERSION));

    p->hop = p->o.peer && hop != NULL && server_id_valid(hop->value);
    p->mvproxy[0] = p->hop_id[0] = '\0';
    if (p->hop) {
        memcpy(p->hop_id, hop->value.p, SERVER_ID_CHARS);
        p->hop_id[SERVER_ID_CHARS] = '\0';
    }
    if (p->hop && f != NULL && version_text_valid(f->value) && f->value.n < sizeof(p->mvproxy)) {
        memcpy(p->mvproxy, f->value.p, f->value.n);
        p->mvproxy[f->value.n] = '\0';
    }
}

/* ---- whether a peer has read who may do what ---- */

static void end_loading(struct pulse *p)
{
    if (p->loading)
        p->loaded_ms = loop_now_ms(p->loop);
    p->loading = false;
}

/* Its RBAC is read before its CRDs. */
static bool is_of_interest(const struct pulse *p)
{
    return p->loading ||
           (p->o.peer && !p->hop && p->good_ms == 0 && loop_now_ms(p->loop) - p->since_ms < PULSE_STEADY_MS);
}

/* Refused, it may be by what it has not read, or for ever. */
static void on_readyz(void *arg, const struct fetch_result *r)
{
    struct pulse *p = arg;
    bool told = r->ok && r->head->status != 401 && r->head->status != 403;
    bool long_ago = loop_now_ms(p->loop) - p->since_ms >= PULSE_LOADING_MS;

    p->readyz = NULL;
    if (r->ok && r->head->status == 200 && p->readyz_ms > p->failed_ms)
        p->good_ms = loop_now_ms(p->loop);
    if (told ? r->head->status < 500 || !readyz_is_loading(r->body) : long_ago)
        end_loading(p);
}

static void ask_readyz(struct pulse *p)
{
    const struct api_request g = {
        .origin = p->origin,
        .peer = true,
        .probe = true,
        .target = SLICE_LIT("/readyz"),
        .accept = SLICE_LIT("text/plain"),
        .ceiling = READYZ_BYTES,
        .timeout_ms = PULSE_TIMEOUT_MS,
    };

    if (p->hop) /* its mvproxy tells us */
        end_loading(p);
    else if (p->readyz == NULL) {
        p->readyz_ms = loop_now_ms(p->loop);
        p->readyz = api_send(p->o.api, &g, on_readyz, p); /* out of memory: with the next probe */
    }
}

bool pulse_was_loading(const struct pulse *p, uint64_t sent_ms)
{
    return p != NULL && p->origin != NULL && (p->loading || p->loaded_ms > sent_ms);
}

/* Whether another server's mvproxy answers than was told; an address may lead to one and the other in turn. */
static bool is_another(struct pulse *p, const char *before)
{
    uint64_t now = loop_now_ms(p->loop);

    if (strcmp(before, p->hop_id) != 0)
        p->hop_since_ms = now;
    if (p->state == PULSE_ANSWERS && (p->hop_told[0] == '\0' || p->hop_id[0] == '\0' ||
                                      strcmp(p->hop_told, p->hop_id) == 0 || now - p->hop_since_ms < PULSE_REASON_MS))
        return false;
    memcpy(p->hop_told, p->hop_id, sizeof(p->hop_told));
    return p->state == PULSE_ANSWERS;
}

/* ---- probes ---- */

static void answered(struct pulse *p, const struct fetch_result *r)
{
    struct version before = p->says, says;
    unsigned status = r->head->status;
    struct err why = {.text = ""};
    char who[SERVER_ID_BYTES];
    bool other;

    if (status >= 500) {
        (void)err_set(&why,
                      p->hop ? "the mvproxy in front of it answers %u: it does not reach its kube-apiserver"
                             : "it answers %u",
                      status);
        unreachable(p, &why, FAILURE_REFUSED);
        return;
    }
    memcpy(who, p->hop_id, sizeof(who));
    take_mvproxy(p, r->head);
    other = is_another(p, who);
    if (status == 200 && version_read(r->body, &says) && says.binary[0] != '\0') {
        other = other || (before.binary[0] != '\0' &&
                          (strcmp(before.binary, says.binary) != 0 || strcmp(before.emulated, says.emulated) != 0));
        p->says = says;
    }
    set_state(p, PULSE_ANSWERS, other);
    if (is_of_interest(p))
        ask_readyz(p);
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    struct pulse *p = arg;
    struct err why = {.text = ""};

    p->fetch = NULL;
    p->repeated = false;
    if (!p->early)
        loop_timer_set(p->timer, jitter_ms(interval(p), JITTER_PERCENT));
    if (r->ok) {
        answered(p, r);
        return;
    }
    (void)err_set(&why, "%s", r->failure);
    /* One that answers others is slow for this question alone. */
    if (r->timed_out && p->heard_ms <= p->asked_ms)
        origin_suspect(p->origin);
    unreachable(p, &why, r->timed_out ? FAILURE_LATE : FAILURE_UNREACHED);
}

static void ask(void *arg)
{
    struct pulse *p = arg;
    const struct api_request g = {
        .origin = p->origin,
        .peer = p->o.peer,
        .probe = true,
        .target = SLICE_LIT("/version"),
        .accept = SLICE_LIT("application/json"),
        .ceiling = ANSWER_BYTES,
        .timeout_ms = PULSE_TIMEOUT_MS,
    };

    if (p->origin == NULL)
        return;
    p->early = false;
    p->repeated = p->fetch != NULL;
    fetch_cancel(&p->fetch);
    p->asked_ms = loop_now_ms(p->loop);
    p->fetch = api_send(p->o.api, &g, on_answer, p);
    if (p->fetch == NULL) /* out of memory: nothing is known by it */
        loop_timer_set(p->timer, interval(p));
}

struct pulse *pulse_new(const struct pulse_opts *o)
{
    struct pulse *p = mem_zalloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    p->o = *o;
    p->loop = api_loop(o->api);
    p->timer = loop_timer_new(p->loop, ask, p);
    if (p->timer != NULL)
        return p;
    pulse_free(p);
    return NULL;
}

static void rest(struct pulse *p)
{
    fetch_cancel(&p->fetch);
    fetch_cancel(&p->readyz);
    p->early = p->repeated = false;
    if (p->timer != NULL)
        loop_timer_cancel(p->timer);
    origin_unref(p->origin);
    p->origin = NULL;
}

void pulse_free(struct pulse *p)
{
    if (p == NULL)
        return;
    rest(p);
    loop_timer_free(p->timer);
    mem_free(p);
}

void pulse_set_origin(struct pulse *p, struct origin *o)
{
    bool same_place;

    if (p == NULL || o == p->origin)
        return;
    same_place = o != NULL && p->origin != NULL && strcmp(origin_address(o), origin_address(p->origin)) == 0;
    rest(p);
    if (!same_place) {
        move(p, PULSE_UNKNOWN);
        p->seen_ms = p->heard_ms = p->loaded_ms = p->good_ms = 0;
        p->loading = p->o.peer;
        err_clear(&p->failure);
    }
    if (o == NULL)
        return;
    p->origin = origin_ref(o);
    loop_timer_set(p->timer, 0);
}

static void ask_early(struct pulse *p)
{
    uint64_t now = loop_now_ms(p->loop), due = p->asked_ms + PULSE_EARLY_MS;

    if (p->early)
        return;
    p->early = true;
    loop_timer_set(p->timer, due > now ? due - now : 0);
}

/* One under way may be lost with what was there before. But only one: answers that take long have their time. */
void pulse_answered(struct pulse *p, uint64_t sent_ms)
{
    p->heard_ms = loop_now_ms(p->loop);
    if (p->origin == NULL || p->state != PULSE_UNREACHABLE)
        return;
    if (sent_ms > p->seen_ms)
        p->seen_ms = sent_ms;
    if (!p->repeated)
        ask_early(p);
}

void pulse_doubt(struct pulse *p)
{
    if (p->origin == NULL || p->fetch != NULL)
        return;
    if (p->state == PULSE_ANSWERS ||
        (p->state == PULSE_UNREACHABLE && p->kind == FAILURE_UNREACHED && !origin_unreachable(p->origin)))
        ask_early(p);
}

/* It has come back, and only the next probe will say so. */
static bool is_back(const struct pulse *p)
{
    return p->state == PULSE_UNREACHABLE && p->kind != FAILURE_LATE && p->seen_ms > p->failed_ms;
}

void pulse_look(const struct pulse *p, struct pulse_view *out)
{
    static const struct version nothing;
    bool back, fails;

    *out = (struct pulse_view){.says = &nothing, .hop_id = "", .mvproxy = ""};
    if (p == NULL)
        return;
    back = is_back(p);
    fails = p->state == PULSE_UNREACHABLE && !back;
    *out = (struct pulse_view){
        .state = back ? PULSE_ANSWERS : p->state,
        .age_ms = p->state == PULSE_UNKNOWN ? 0 : loop_now_ms(p->loop) - (back ? p->seen_ms : p->since_ms),
        .failure = fails ? p->failure.text : NULL,
        .refuses = fails && p->kind == FAILURE_REFUSED,
        .hangs = fails && p->kind == FAILURE_LATE,
        .last_failure = err_is_set(&p->failure) ? p->failure.text : NULL,
        .last_failure_ms = loop_now_ms(p->loop) - (fails ? p->failure_since_ms : p->failed_ms),
        .says = &p->says,
        .good_ms = p->hop ? 0 : p->good_ms,
        .hop = p->hop,
        .hop_id = p->hop_id,
        .mvproxy = p->mvproxy,
    };
}

const char *pulse_name(enum pulse_state s)
{
    static const char *const names[] = {
        [PULSE_UNKNOWN] = "unknown", [PULSE_ANSWERS] = "answers", [PULSE_UNREACHABLE] = "unreachable"};

    return names[s];
}
