/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/pulse.h"

#include <stdio.h>

#include "back/back.h"
#include "base/err.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "kube/server_id.h"
#include "kube/user.h"
#include "net/loop.h"

enum { ANSWER_BYTES = 64 << 10, JITTER_PERCENT = 10 };

struct pulse {
    struct pulse_opts o;
    struct loop *loop;
    struct origin *origin;
    struct loop_timer *timer;
    struct fetch *fetch;
    enum pulse_state state;
    uint64_t since_ms, failed_ms, failure_since_ms;
    struct err failure; /* the last */
    struct version says;
    bool hop;
    char hop_id[SERVER_ID_BYTES];
    char mvproxy[PULSE_MVPROXY_BYTES];
};

static void ask(void *arg);

static uint64_t interval(const struct pulse *p)
{
    size_t n = p->o.servers(p->o.arg);

    return n <= PULSE_SERVERS ? PULSE_INTERVAL_MS : PULSE_INTERVAL_MS * n / PULSE_SERVERS;
}

static void set_state(struct pulse *p, enum pulse_state s, bool other)
{
    enum pulse_state before = p->state;

    if (s != before)
        p->since_ms = loop_now_ms(p->loop);
    p->state = s;
    if (s != before || other)
        p->o.changed(p->o.arg, before);
}

/* An outage may begin with one error and go on with another: each has its own age. */
static void unreachable(struct pulse *p, const struct err *why)
{
    p->failed_ms = loop_now_ms(p->loop);
    if (p->state != PULSE_UNREACHABLE || strcmp(why->text, p->failure.text) != 0)
        p->failure_since_ms = p->failed_ms;
    p->failure = *why;
    set_state(p, PULSE_UNREACHABLE, false);
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

static void answered(struct pulse *p, const struct fetch_result *r)
{
    struct version before = p->says, says;
    unsigned status = r->head->status;
    struct err why = {.text = ""};
    bool other = false;

    if (status >= 500) {
        (void)err_set(
            &why, p->hop ? "the mvproxy before it answers %u: it does not reach its kube-apiserver" : "it answers %u",
            status);
        unreachable(p, &why);
        return;
    }
    take_mvproxy(p, r->head);
    if (status == 200 && version_read(r->body, &says) && says.binary[0] != '\0') {
        other = before.binary[0] != '\0' &&
                (strcmp(before.binary, says.binary) != 0 || strcmp(before.emulated, says.emulated) != 0);
        p->says = says;
    }
    set_state(p, PULSE_ANSWERS, other);
}

static void on_answer(void *arg, const struct fetch_result *r)
{
    struct pulse *p = arg;
    struct err why = {.text = ""};

    p->fetch = NULL;
    loop_timer_set(p->timer, jitter_ms(interval(p), JITTER_PERCENT));
    if (r->ok) {
        answered(p, r);
        return;
    }
    (void)err_set(&why, "%s", r->failure);
    unreachable(p, &why);
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
        p->state = PULSE_UNKNOWN;
        err_clear(&p->failure);
    }
    if (o == NULL)
        return;
    p->origin = origin_ref(o);
    loop_timer_set(p->timer, 0);
}

void pulse_look(const struct pulse *p, struct pulse_view *out)
{
    static const struct version nothing;

    *out = (struct pulse_view){.says = &nothing, .hop_id = "", .mvproxy = ""};
    if (p == NULL)
        return;
    *out = (struct pulse_view){
        .state = p->state,
        .age_ms = p->state == PULSE_UNKNOWN ? 0 : loop_now_ms(p->loop) - p->since_ms,
        .failure = p->state == PULSE_UNREACHABLE ? p->failure.text : NULL,
        .last_failure = err_is_set(&p->failure) ? p->failure.text : NULL,
        .last_failure_ms = loop_now_ms(p->loop) - (p->state == PULSE_UNREACHABLE ? p->failure_since_ms : p->failed_ms),
        .says = &p->says,
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
