/* SPDX-License-Identifier: Apache-2.0 */
#include "back/request.h"

#include <stdio.h>

#include "back/loop_token.h"
#include "back/retry.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/state.h"
#include "http/h1_write.h"

enum {
    STALL_LOOKS = 4,          /* at a body that waits, in the time that it may */
    WATCH_ARENA_BYTES = 1024, /* holds the head of kube-apiserver's answer to a watch */
};

/* ---- states ---- */

static const char *const state_names[] = {
    [REQUEST_NEW] = "new",         [REQUEST_WAITING] = "waiting",
    [REQUEST_ACTIVE] = "active",   [REQUEST_ABANDONED] = "abandoned",
    [REQUEST_FAILING] = "failing", [REQUEST_OVER] = "over",
};

static const uint32_t next_states[] = {
    [REQUEST_NEW] = STATE(REQUEST_WAITING) | STATE(REQUEST_FAILING),
    /* From one line to another, as well. */
    [REQUEST_WAITING] = STATE(REQUEST_WAITING) | STATE(REQUEST_ACTIVE) | STATE(REQUEST_FAILING) | STATE(REQUEST_OVER),
    [REQUEST_ACTIVE] = STATE(REQUEST_WAITING) | STATE(REQUEST_ABANDONED) | STATE(REQUEST_FAILING) | STATE(REQUEST_OVER),
    [REQUEST_ABANDONED] = STATE(REQUEST_OVER),
    [REQUEST_FAILING] = STATE(REQUEST_OVER),
    [REQUEST_OVER] = 0,
};

static const struct state_table states = STATE_TABLE("request to a server", state_names, next_states);

static void move(struct back_request *r, enum request_state to)
{
    state_move(&states, &r->state, to);
}

static uint64_t now_of(const struct back_request *r)
{
    return loop_now_ms(r->back->loop);
}

/*
 * What was sent while this process was suspended comes to the server only now, and nobody saw its answer: it has as
 * long again as was missed.
 */
static uint64_t deadline_of(struct back_request *r)
{
    uint64_t in_all = loop_missed_ms(r->back->loop), missed = in_all - r->missed_ms;

    r->missed_ms = in_all;
    if (missed > r->opts.head_timeout_ms)
        missed = r->opts.head_timeout_ms;
    if (missed > 0 && now_of(r) + missed > r->deadline_ms)
        r->deadline_ms = now_of(r) + missed;
    return r->deadline_ms;
}

static bool has_deadline(const struct back_request *r)
{
    return r->opts.head_timeout_ms != 0 && !r->responded;
}

bool request_is_overdue(struct back_request *r)
{
    return has_deadline(r) && now_of(r) >= deadline_of(r);
}

uint64_t request_next_look(struct back_request *r, bool body_waits)
{
    uint64_t at = has_deadline(r) ? deadline_of(r) : UINT64_MAX;
    uint64_t look = now_of(r) + r->origin->opts.stall_timeout_ms / STALL_LOOKS;

    return body_waits && look < at ? look : at;
}

/* ---- lines ---- */

void line_init(struct line *l, size_t *total)
{
    list_init(&l->requests);
    l->total = total;
}

static void wait_before(struct back_request *r, struct line *l, struct list_node *n)
{
    must_hold(r->state == REQUEST_WAITING && !list_linked(&r->node));
    r->line = l;
    list_insert_before(&l->requests, n, &r->node);
    if (l->total != NULL)
        ++*l->total;
}

void request_wait_in(struct back_request *r, struct line *l)
{
    wait_before(r, l, NULL);
}

void request_wait_by_time(struct back_request *r, struct line *l)
{
    struct list_node *n = list_first(&l->requests);

    while (n != NULL && list_entry(n, struct back_request, node)->give_up_ms <= r->give_up_ms)
        n = list_next(&l->requests, n);
    wait_before(r, l, n);
}

void request_stop_waiting(struct back_request *r)
{
    if (r->state != REQUEST_WAITING || !list_linked(&r->node))
        return;
    list_remove(&r->line->requests, &r->node);
    must_hold(r->line->total == NULL || *r->line->total > 0);
    if (r->line->total != NULL)
        --*r->line->total;
}

struct back_request *line_first(const struct line *l)
{
    struct list_node *n = list_first(&l->requests);

    return n == NULL ? NULL : list_entry(n, struct back_request, node);
}

/* ---- beginning and end ---- */

static void kick(void *arg);

static void request_free(void *arg)
{
    struct back_request *r = arg;
    struct origin *o = r->origin;

    must_hold(r->state == REQUEST_OVER && r->link == NULL && !list_linked(&r->node));
    if (r->opts.lasting || o->back == NULL)
        arena_free(r->arena);
    else
        arena_pool_give(&o->back->arenas, r->arena);
    buf_free(&r->pending);
    buf_free(&r->copy);
    if (r->call != NULL)
        r->free_call(r->call);
    mem_free(r);
    origin_release(o);
}

/* It will hold the answer's head, which may be large and is there as long as the request: its client's. */
static struct arena *arena_for(struct back *b, const struct back_opts *o)
{
    struct arena *a;

    if (!o->lasting)
        return arena_pool_take(&b->arenas, o->quota);
    a = arena_new_sized(LIMIT_EXCHANGE_ARENA, WATCH_ARENA_BYTES);
    if (a == NULL || arena_charge(a, o->quota))
        return a;
    arena_free(a);
    return NULL;
}

struct back_request *request_new(struct back *b, const struct back_opts *o)
{
    struct back_request *r = mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    r->arena = arena_for(b, o);
    if (r->arena == NULL) {
        mem_free(r);
        return NULL;
    }
    lifetime_init(&r->life, b->loop, "request to a server");
    lifetime_work_init(&r->life, &r->kick, LOOP_DEFERRED, kick, r);
    r->back = b;
    r->origin = o->origin;
    r->opts = *o;
    r->method = o->head->method_id;
    r->deadline_ms = o->head_timeout_ms == 0 ? 0 : now_of(r) + o->head_timeout_ms;
    r->missed_ms = loop_missed_ms(b->loop);
    r->started_us = clock_us();
    r->pool = o->origin->pools[o->with_cert ? POOL_CERT : POOL_NO_CERT]; /* until it is placed */
    r->length_left = o->body.kind == HTTP_BODY_LENGTH ? o->body.length : 0;
    r->body_finished = o->body.kind == HTTP_BODY_NONE || (o->body.kind == HTTP_BODY_LENGTH && o->body.length == 0);
    buf_init(&r->pending, LIMIT_STREAM_OUTPUT_HIGH + LIMIT_STREAM_INPUT);
    buf_init(&r->copy, LIMIT_REPLAY_BYTES);
    buf_charge(&r->pending, o->quota);
    buf_charge(&r->copy, o->quota);
    origin_use(o->origin);
    origin_note_request(o->origin, o->own, o->proves_nothing);
    return r;
}

void request_place(struct back_request *r, bool fresh)
{
    request_set_link(r, NULL, NULL);
    if (loop_token_refuses(r->origin, r->opts.own)) {
        request_fail(r, BACK_FAIL_LOOP, ORIGIN_LOOP_TEXT);
        return;
    }
    move(r, REQUEST_WAITING);
    r->back->place(r, fresh);
}

void request_set_link(struct back_request *r, const struct link_ops *ops, void *self)
{
    must_hold(ops == NULL || r->state != REQUEST_OVER);
    r->link = ops;
    r->link_self = self;
}

/* The quota may go with the owner, before our memory does. */
static void stop_charging(struct back_request *r)
{
    r->opts.quota = NULL;
    (void)!arena_charge(r->arena, NULL); /* nobody refuses */
    buf_charge(&r->pending, NULL);
    buf_charge(&r->copy, NULL);
}

void request_over(struct back_request *r)
{
    stop_charging(r);
    if (r->shared)
        shares_give(&r->back->shares, r->client);
    r->shared = false;
    if (r->state != REQUEST_ABANDONED)
        origin_note_over(r->origin, r->opts.own);
    move(r, REQUEST_OVER);
    request_set_link(r, NULL, NULL);
    if (r->load != NULL)
        h2_load_end(r->load, r->got);
    lifetime_retire(&r->life, request_free, r);
}

/* Takes the request off whatever it is on, for good. */
static void leave(struct back_request *r)
{
    const struct link_ops *link = r->link;

    if (r->state == REQUEST_FAILING)
        list_remove(&r->back->failing, &r->node);
    else
        request_stop_waiting(r);
    if (link == NULL)
        return;
    r->link = NULL;
    link->cancel(r->link_self);
}

static void kick(void *arg)
{
    struct back_request *r = arg;

    if (r->state == REQUEST_FAILING) {
        leave(r);
        request_over(r);
        r->opts.handler->on_failed(r->opts.arg, &r->failure);
    } else if (r->state == REQUEST_ACTIVE && r->tell_writable && r->body_open && !r->body_finished) {
        r->tell_writable = false;
        if (r->opts.handler->on_writable != NULL)
            r->opts.handler->on_writable(r->opts.arg);
    }
}

/* ---- failing ---- */

const char *back_failure_name(enum back_failure why)
{
    switch (why) {
    case BACK_FAIL_CONNECT:
        return "connect";
    case BACK_FAIL_BUSY:
        return "busy";
    case BACK_FAIL_UNANSWERED:
        return "unanswered";
    case BACK_FAIL_HEAD:
        return "head";
    case BACK_FAIL_BODY:
        return "body";
    case BACK_FAIL_TIMEOUT:
        return "timeout";
    case BACK_FAIL_IDENTITY:
        return "identity";
    case BACK_FAIL_MEMORY:
        return "memory";
    case BACK_FAIL_CLIENT:
        return "client";
    case BACK_FAIL_LOOP:
        return "loop";
    case BACK_FAIL_GIVEN_UP:
        return "given_up";
    }
    return "other";
}

void request_fail(struct back_request *r, enum back_failure why, const char *text)
{
    struct slice labels[2] = {slice_str(r->origin->server), slice_str(back_failure_name(why))};

    (void)snprintf(r->failure_text, sizeof(r->failure_text), "%s", text);
    r->failure = (struct back_failure_info){
        .why = why,
        .text = r->failure_text,
        .reused = r->reused,
        .request_sent = r->sent,
        .body_sent = r->body_taken,
    };
    request_set_link(r, NULL, NULL);
    move(r, REQUEST_FAILING);
    must_hold(!list_linked(&r->node));
    list_push_back(&r->back->failing, &r->node);
    metric_inc(metric_child(r->back->failures, labels));
    if (!r->responded && !r->opts.proves_nothing) /* else the server was judged by its answer */
        origin_request_failed(r->origin, why, r->failure_text);
    log_v(3, "Request to server failed", LT("server", r->origin->server), LT("reason", back_failure_name(why)),
          LT("err", r->failure_text), LB("reused", r->reused));
    lifetime_queue(&r->kick);
}

/* What was given of the body goes out again from its beginning. Out of memory: none of it will. */
static bool rewind_body(struct back_request *r)
{
    bool kept = true;

    /* What had not gone out yet (the server was to say 100 first) is in the copy as well. */
    if (buf_len(&r->copy) > 0) {
        buf_reset(&r->pending);
        kept = buf_append(&r->pending, buf_slice(&r->copy));
    }
    buf_release(&r->copy);
    r->keeps_copy = false;
    r->length_out = 0;
    r->sent = r->body_open = r->tell_writable = r->stuck = false;
    return kept;
}

void request_lost(struct back_request *r, enum back_failure why, const char *text)
{
    struct origin *o = r->origin;
    struct retry_case c = {
        .method = r->method,
        .why = why,
        .relayed = r->answered,
        .sent = r->sent,
        .body_gone = r->body_taken && !r->keeps_copy,
        .upgrade = r->opts.upgrade || r->opts.once,
        .hangs = origin_hangs(o),
        .affordable = true,
        .repeated = r->retries + r->opts.others,
    };
    bool here;

    if (r->state == REQUEST_ABANDONED) {
        request_over(r);
        return;
    }
    here = retry_decide(&c) == RETRY_HERE;
    if (here && !origin_may_repeat(o, r->stranger)) {
        origin_note_refused_repeat(o);
        here = false;
    }
    if (!here) {
        request_fail(r, why, text);
        return;
    }
    if (!rewind_body(r)) {
        request_fail(r, BACK_FAIL_MEMORY, "out of memory for the body");
        return;
    }
    r->retries++;
    origin_note_repeat(o, r->stranger);
    metric_inc(o->m.retries);
    log_v(4, "Sending request again", LT("server", o->server), LT("err", text), LU("retry", r->retries));
    request_place(r, r->retries == RETRY_MAX_HERE);
}

void request_responded(struct back_request *r)
{
    r->responded = true;
    if (!r->opts.proves_nothing)
        origin_answered(r->origin, r->response.status);
    if (r->opts.own)
        loop_token_answered(r->origin, r->response.status);
    /* A watch is answered at once, whatever the server has to do; and what is our own hides how clients are served. */
    if (r->state != REQUEST_ABANDONED && !r->opts.lasting && !r->opts.own)
        origin_note_time(r->origin, clock_us() - r->started_us);
}

void request_complete(struct back_request *r, const struct http_head *trailers)
{
    bool abandoned = r->state == REQUEST_ABANDONED;

    request_over(r);
    if (!abandoned)
        r->opts.handler->on_end(r->opts.arg, trailers);
}

/* ---- giving up ---- */

static bool is_live(const struct back_request *r)
{
    return r->state == REQUEST_WAITING || r->state == REQUEST_ACTIVE;
}

/* Not one whose client does not read: what has come of it is his first. */
static bool is_silent_watch(const struct back_request *r)
{
    return r->opts.watch && r->responded && !r->paused;
}

static bool may_be_asked_elsewhere(const struct back_request *r)
{
    return !r->answered && !r->body_taken && r->opts.movable &&
           retry_is_harmless(r->method, r->opts.upgrade || r->opts.once, r->sent);
}

void request_give_up(struct back_request *r, struct giving_up *g)
{
    bool watch = g->watches && is_silent_watch(r);

    if (g->left == 0 || !is_live(r) || !(watch || may_be_asked_elsewhere(r)))
        return;
    g->left--;
    leave(r);
    request_fail(r, watch ? BACK_FAIL_BODY : BACK_FAIL_GIVEN_UP, g->text);
}

void line_give_up(struct line *l, struct giving_up *g)
{
    for (struct list_node *n = list_first(&l->requests), *next; n != NULL && g->left > 0; n = next) {
        next = list_next(&l->requests, n);
        request_give_up(list_entry(n, struct back_request, node), g);
    }
}

/* ---- cancelling ---- */

uint64_t request_client(struct back_request *r)
{
    if (r->client == 0 && r->opts.client != NULL && r->opts.client[0] != '\0')
        r->client = hash_seeded(slice_str(r->opts.client)) | 1;
    return r->client;
}

bool request_may_dial(struct back_request *r)
{
    return churn_allows(&r->back->wasted_dials, request_client(r), now_of(r));
}

bool request_take_share(struct back_request *r)
{
    r->shared = r->shared || shares_take(&r->back->shares, request_client(r));
    return r->shared;
}

size_t request_shares(struct back_request *r)
{
    return shares_of(&r->back->shares, request_client(r));
}

void request_charge(struct back_request *r)
{
    if (!r->charged)
        churn_charge(&r->back->wasted_dials, request_client(r), now_of(r));
    r->charged = true;
}

void request_refund(struct back_request *r)
{
    if (r->charged)
        churn_refund(&r->back->wasted_dials, request_client(r), now_of(r));
    r->charged = false;
}

void request_drop(struct back_request *r)
{
    if (r->state == REQUEST_OVER)
        return;
    leave(r);
    request_over(r);
}

static void drop_head(void *arg, const struct http_head *head, struct http_body body)
{
    (void)arg;
    (void)head;
    (void)body;
}

static void drop_body(void *arg, struct slice data)
{
    (void)arg;
    (void)data;
}

/* Nobody asks any more; what is left of the answer is read all the same. False: that would be too much. */
static bool abandon(struct back_request *r)
{
    static const struct back_handler nobody = {.on_head = drop_head, .on_body = drop_body};

    if (r->state != REQUEST_ACTIVE || !r->body_finished || r->stuck || r->opts.upgrade || r->link == NULL)
        return false;
    (void)request_client(r); /* its address is not ours any more afterwards */
    if (!r->link->may_drain(r->link_self))
        return false;
    move(r, REQUEST_ABANDONED);
    origin_note_over(r->origin, r->opts.own);
    lifetime_cancel(&r->kick);
    r->opts.handler = &nobody;
    r->opts.head = NULL;
    r->opts.client = NULL;
    stop_charging(r);
    r->paused = false;
    r->link->drain(r->link_self);
    return true;
}

void back_cancel(struct back_request *r)
{
    if (r->state != REQUEST_ABANDONED && !abandon(r))
        request_drop(r);
}

/* ---- the body ---- */

static void fail_body(struct back_request *r, const char *text)
{
    leave(r);
    request_fail(r, BACK_FAIL_BODY, text);
}

/* A body too long for that is the price of a rare race: its request is not repeated then. */
static void keep_copy(struct back_request *r, struct slice data)
{
    if (!r->keeps_copy)
        return;
    r->keeps_copy = buf_append(&r->copy, data);
    if (!r->keeps_copy)
        buf_release(&r->copy);
}

/*
 * The server may have closed the connection meanwhile, or may say on it that it has not looked at the request: a copy
 * of the body, up to LIMIT_REPLAY_BYTES, lets the request go out again if nothing of it was read.
 */
static void begin_copy(struct back_request *r)
{
    r->keeps_copy = (r->reused || r->link->can_refuse) && !r->opts.upgrade && r->retries < RETRY_MAX_HERE;
    if (buf_len(&r->pending) > 0)
        keep_copy(r, buf_slice(&r->pending));
}

/*
 * To the connection. One that is broken takes no more and is about to say so, after an answer that came before: until
 * then the rest is for the copy alone. False: the request is over.
 */
static bool put(struct back_request *r, struct slice data)
{
    bool taken;

    /* A byte more would be the beginning of another request, of whatever user it says. */
    must_hold(r->opts.body.kind != HTTP_BODY_LENGTH || data.n <= r->opts.body.length - r->length_out);
    r->length_out += data.n;
    taken = r->stuck || r->link->write(r->link_self, data);
    r->stuck = r->stuck || (!taken && r->state == REQUEST_ACTIVE);
    return taken || r->stuck;
}

static bool emit(struct back_request *r, struct slice data)
{
    keep_copy(r, data);
    if (r->body_open)
        return put(r, data);
    if (buf_append(&r->pending, data))
        return true;
    fail_body(r, "request body came before there was a connection for it");
    return false;
}

static void tell_finished(struct back_request *r)
{
    if (r->link->body_finished != NULL)
        r->link->body_finished(r->link_self);
}

static void finished(struct back_request *r)
{
    r->body_finished = true;
    if (r->body_open)
        tell_finished(r);
}

void request_wants_body(struct back_request *r)
{
    r->tell_writable = true;
    lifetime_queue(&r->kick);
}

void request_open_body(struct back_request *r)
{
    bool good = true;

    r->body_open = true;
    if (buf_len(&r->pending) > 0)
        good = put(r, buf_slice(&r->pending));
    else if (r->opts.body.kind == HTTP_BODY_CHUNKED && r->body_finished)
        good = put(r, SLICE_LIT("0\r\n\r\n"));
    if (!good)
        return;
    buf_release(&r->pending);
    if (r->body_finished)
        tell_finished(r);
    else
        request_wants_body(r);
}

bool back_write(struct back_request *r, struct slice data)
{
    char head[H1_CHUNK_HEAD_BYTES];

    if (!is_live(r))
        return false;
    if (data.n == 0)
        return true;
    if (r->body_finished || (r->opts.body.kind == HTTP_BODY_LENGTH && data.n > r->length_left)) {
        fail_body(r, "request body is longer than announced");
        return false;
    }
    r->body_taken = true;
    if (r->opts.body.kind == HTTP_BODY_CHUNKED)
        return emit(r, h1_chunk_head(data.n, head)) && emit(r, data) && emit(r, H1_CHUNK_TAIL);
    if (!emit(r, data))
        return false;
    r->length_left -= data.n;
    if (r->length_left == 0)
        finished(r);
    return true;
}

bool back_congested(const struct back_request *r)
{
    if (!is_live(r))
        return false;
    if (!r->body_open || r->link == NULL)
        return true;
    return r->link->congested(r->link_self);
}

void back_finish(struct back_request *r, const struct http_head *trailers)
{
    struct buf *scratch = &r->back->scratch;

    if (!is_live(r) || r->body_finished)
        return;
    if (r->opts.body.kind == HTTP_BODY_LENGTH) {
        fail_body(r, "request body is shorter than announced");
        return;
    }
    if (trailers != NULL && trailers->n_fields > 0)
        r->body_taken = true;
    if (!r->body_open && !r->body_taken) { /* its end is written when it may go out, as often as that happens */
        r->body_finished = true;
        return;
    }
    buf_reset(scratch);
    if (!h1_write_last_chunk(scratch, trailers)) {
        fail_body(r, "request trailers cannot be sent");
        return;
    }
    if (emit(r, buf_slice(scratch)))
        finished(r);
}

void request_begin(struct back_request *r, const struct link_ops *ops, void *self, bool reused)
{
    move(r, REQUEST_ACTIVE);
    request_set_link(r, ops, self);
    r->reused = reused;
    if (reused)
        metric_inc(r->origin->m.reuses);
    begin_copy(r);
}

uint64_t request_connection(const struct back_request *r)
{
    return r->state == REQUEST_ACTIVE && r->link != NULL && r->link->number != NULL ? r->link->number(r->link_self) : 0;
}

static void set_paused(struct back_request *r, bool paused)
{
    r->paused = paused;
    if (r->state == REQUEST_ACTIVE && r->link != NULL)
        r->link->pause(r->link_self, paused);
}

void back_pause(struct back_request *r)
{
    set_paused(r, true);
}

void back_resume(struct back_request *r)
{
    set_paused(r, false);
}
