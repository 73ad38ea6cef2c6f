#include "back/back.h"

#include <stdio.h>
#include <stdlib.h>

#include "back/h1_client.h"
#include "back/h2_client.h"
#include "back/retry.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "http/h1_write.h"
#include "net/stream.h"

enum {
    SCRATCH_CEILING = 2 * LIMIT_HEAD_BYTES,
    STALL_LOOKS = 4,          /* at a body that waits, in the time that it may */
    WATCH_ARENA_BYTES = 1024, /* holds the head of kube-apiserver's answer to a watch */
};

/* ----------------------------------------------------------------------------------------------------- the whole */

static struct churn_rate rate_of(unsigned burst, unsigned per_second)
{
    return (struct churn_rate){1000 / per_second, burst * (1000 / per_second), LIMIT_CHURN_TOGETHER};
}

struct back *back_new(struct loop *l, struct metrics *m)
{
    static const char *const origin_state[] = {"origin", "state", NULL};
    static const char *const origin_result[] = {"origin", "result", NULL};
    static const char *const origin_reason[] = {"origin", "reason", NULL};
    static const char *const origin_only[] = {"origin", NULL};
    struct back *b = must_zalloc(sizeof *b);

    b->loop = l;
    if (m == NULL)
        m = b->own_metrics = metrics_new();
    list_init(&b->origins);
    list_init(&b->dead_conns);
    list_init(&b->dead_h2);
    list_init(&b->dead_requests);
    list_init(&b->failing);
    buf_init(&b->scratch, SCRATCH_CEILING);
    b->arenas.ceiling = LIMIT_EXCHANGE_ARENA;
    b->wasted_dials.rate = rate_of(LIMIT_CHURN_DIALS, LIMIT_CHURN_DIALS_SECOND);
    b->resets.rate = rate_of(LIMIT_CHURN_RESETS, LIMIT_CHURN_RESETS_SECOND);
    b->conns = metric_family(m, METRIC_GAUGE, "mvproxy_back_connections", "Open connections to servers, by state.",
                             origin_state, LIMIT_METRIC_SERIES);
    b->connects = metric_family(m, METRIC_COUNTER, "mvproxy_back_connects_total",
                                "Attempts to connect to servers, by result.", origin_result, LIMIT_METRIC_SERIES);
    b->reuses =
        metric_family(m, METRIC_COUNTER, "mvproxy_back_connection_reuses_total",
                      "Requests sent on a connection that had served another.", origin_only, LIMIT_METRIC_SERIES);
    b->retries = metric_family(m, METRIC_COUNTER, "mvproxy_back_retries_total",
                               "Requests sent again because their connection ended unanswered.", origin_only,
                               LIMIT_METRIC_SERIES);
    b->streams = metric_family(m, METRIC_GAUGE, "mvproxy_back_streams", "Requests under way on HTTP/2 connections.",
                               origin_only, LIMIT_METRIC_SERIES);
    b->retries_refused = metric_family(m, METRIC_COUNTER, "mvproxy_back_retries_refused_total",
                                       "Requests not sent again because the retry budget of the origin was used up.",
                                       origin_only, LIMIT_METRIC_SERIES);
    b->ejections = metric_family(m, METRIC_COUNTER, "mvproxy_back_ejections_total",
                                 "Times that a server was put last because of failures in a row.", origin_only,
                                 LIMIT_METRIC_SERIES);
    b->ejected =
        metric_family(m, METRIC_GAUGE, "mvproxy_back_ejected",
                      "1 while a server is put last because of failures in a row.", origin_only, LIMIT_METRIC_SERIES);
    b->closes = metric_family(m, METRIC_COUNTER, "mvproxy_back_connections_closed_total",
                              "Connections to servers that ended, by reason.", origin_reason, LIMIT_METRIC_SERIES);
    b->check.withheld = metric_family(m, METRIC_COUNTER, "mvproxy_back_requests_withheld_total",
                                      "Requests not sent because the identity in them did not fit the connection.",
                                      origin_only, LIMIT_METRIC_SERIES);
    b->failures = metric_family(m, METRIC_COUNTER, "mvproxy_back_failures_total",
                                "Requests to servers that failed, by reason.", origin_reason, LIMIT_METRIC_SERIES);
    return b;
}

void back_set_claims(struct back *b, back_claims_fn *fn, void *arg)
{
    b->check.claims = fn;
    b->check.arg = arg;
}

static void request_free(struct back_request *r)
{
    struct back *b = r->back;
    struct origin *o = r->pool->origin;

    if (r->opts.lasting)
        arena_free(r->arena);
    else
        arena_pool_give(&b->arenas, r->arena);
    buf_free(&r->pending);
    h2_call_free(r->call);
    buf_free(&r->copy);
    mem_free(r);
    o->users--;
    origin_free_if_unused(o);
}

static void sweep(void *arg)
{
    struct back *b = arg;
    struct list_node *n;

    while ((n = list_pop_front(&b->dead_requests)) != NULL)
        request_free(list_entry(n, struct back_request, node));
    while ((n = list_pop_front(&b->dead_conns)) != NULL) {
        struct h1_client *c = list_entry(n, struct h1_client, node);
        struct origin *o = c->pool->origin;

        h1_client_free(c);
        o->users--;
        origin_free_if_unused(o);
    }
    while ((n = list_pop_front(&b->dead_h2)) != NULL) {
        struct h2_client *c = list_entry(n, struct h2_client, node);
        struct origin *o = c->pool->origin;

        h2_client_free(c);
        o->users--;
        origin_free_if_unused(o);
    }
}

void back_bury_h2(struct back *b, struct h2_client *c)
{
    list_push_back(&b->dead_h2, &c->node);
    loop_defer(b->loop, &b->sweep, sweep, b);
}

void back_bury_conn(struct back *b, struct h1_client *c)
{
    list_push_back(&b->dead_conns, &c->node);
    loop_defer(b->loop, &b->sweep, sweep, b);
}

static void drop_all(struct pool *p)
{
    struct list_node *n;

    h2_pool_drop_all(p);
    while ((n = list_first(&p->waiting)) != NULL || (n = list_first(&p->held)) != NULL)
        request_drop(list_entry(n, struct back_request, node));
    for (size_t state = 0; state < CONN_GONE; state++)
        while ((n = list_first(&p->conns[state])) != NULL) {
            struct h1_client *c = list_entry(n, struct h1_client, node);
            struct back_request *r = c->request != NULL ? c->request : c->dedicated;

            if (r != NULL)
                request_drop(r);
            else
                h1_client_close(c, CLOSE_ORIGIN_GONE, "");
        }
}

void back_free(struct back *b)
{
    struct list_node *n, *next;

    if (b == NULL)
        return;
    for (n = list_first(&b->origins); n != NULL; n = list_next(&b->origins, n)) {
        struct origin *o = list_entry(n, struct origin, node);

        for (unsigned kind = 0; kind < POOL_KINDS; kind++)
            drop_all(&o->pools[kind]);
    }
    while ((n = list_first(&b->failing)) != NULL)
        request_drop(list_entry(n, struct back_request, node));
    loop_defer_cancel(b->loop, &b->sweep);
    sweep(b);
    for (n = list_first(&b->origins); n != NULL; n = next) {
        struct origin *o = list_entry(n, struct origin, node);

        next = list_next(&b->origins, n);
        for (unsigned kind = 0; kind < POOL_KINDS; kind++)
            pool_release(&o->pools[kind]);
        list_remove(&b->origins, n);
        o->back = NULL; /* somebody still holds it; it is of no use */
    }
    arena_pool_free(&b->arenas);
    buf_free(&b->scratch);
    metrics_free(b->own_metrics);
    mem_free(b);
}

/* -------------------------------------------------------------------------------------------------------- failing */

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
    }
    return "other";
}

bool request_on_h2(const struct back_request *r)
{
    return r->call != NULL && r->call->state != H2_CALL_UNUSED;
}

/* ---------------------------------------------------------------------------------------------------------- states */

static uint64_t now_of(const struct back_request *r)
{
    return loop_now_ms(r->back->loop);
}

uint64_t request_next_look(const struct back_request *r, bool body_waits)
{
    uint64_t at = r->deadline_ms == 0 ? UINT64_MAX : r->deadline_ms;
    uint64_t look = now_of(r) + r->pool->origin->opts.stall_timeout_ms / STALL_LOOKS;

    return body_waits && look < at ? look : at;
}

void request_move(struct back_request *r, enum request_state to)
{
#define TO(state) (1U << (state))
    static const unsigned legal[REQUEST_STATES] = {
        [REQUEST_NEW] = TO(REQUEST_WAITING) | TO(REQUEST_FAILING),
        [REQUEST_WAITING] =
            TO(REQUEST_WAITING) | TO(REQUEST_ACTIVE) | TO(REQUEST_FAILING) | TO(REQUEST_OVER), /* another queue */
        [REQUEST_ACTIVE] = TO(REQUEST_WAITING) | TO(REQUEST_ABANDONED) | TO(REQUEST_FAILING) | TO(REQUEST_OVER),
        [REQUEST_ABANDONED] = TO(REQUEST_OVER),
        [REQUEST_FAILING] = TO(REQUEST_OVER),
    };
#undef TO

    if ((legal[r->state] >> to & 1) == 0)
        abort();
    r->state = to;
}

void request_over(struct back_request *r)
{
    if (r->state != REQUEST_ABANDONED)
        origin_note_over(r->pool->origin, r->opts.own);
    request_move(r, REQUEST_OVER);
    if (r->load != NULL)
        h2_load_end(r->load, r->got);
    loop_defer_cancel(r->back->loop, &r->kick);
    list_push_back(&r->back->dead_requests, &r->node);
    loop_defer(r->back->loop, &r->back->sweep, sweep, r->back);
}

/* Takes the request off whatever it is on, for good. */
static void leave(struct back_request *r)
{
    struct h1_client *c = r->conn;

    if (r->state == REQUEST_FAILING)
        list_remove(&r->back->failing, &r->node);
    else
        pool_stop_waiting(r);
    r->conn = NULL;
    if (c != NULL) {
        request_charge(r);
        h1_client_close(c, CLOSE_CANCELLED, "");
    }
    if (request_on_h2(r))
        h2_call_cancel(r->call);
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

void request_fail(struct back_request *r, enum back_failure why, const char *text)
{
    struct slice labels[2] = {slice_str(r->pool->origin->name), slice_str(back_failure_name(why))};

    (void)snprintf(r->failure_text, sizeof r->failure_text, "%s", text);
    r->failure = (struct back_failure_info){
        .why = why,
        .text = r->failure_text,
        .reused = r->reused,
        .request_sent = r->sent,
        .body_sent = r->body_taken,
    };
    request_move(r, REQUEST_FAILING);
    list_push_back(&r->back->failing, &r->node);
    metric_inc(metric_child(r->back->failures, labels));
    origin_request_failed(r->pool->origin, why, r->failure_text);
    log_v(3, "Request to server failed", LT("origin", r->pool->origin->name), LT("reason", back_failure_name(why)),
          LT("err", r->failure_text), LB("reused", r->reused));
    loop_defer(r->back->loop, &r->kick, kick, r);
}

/* What was given of the body goes out again from its beginning. Out of memory: none of it will. */
static bool rewind_body(struct back_request *r)
{
    bool kept = buf_len(&r->copy) == 0 || buf_append(&r->pending, buf_slice(&r->copy));

    buf_release(&r->copy);
    r->keeps_copy = false;
    r->sent = r->body_open = r->tell_writable = r->stuck = false;
    return kept;
}

void request_lost(struct back_request *r, enum back_failure why, const char *text)
{
    struct origin *o = r->pool->origin;
    struct retry_case c = {
        .method = r->method,
        .why = why,
        .relayed = r->answered,
        .sent = r->sent,
        .body_gone = r->body_taken && !r->keeps_copy,
        .upgrade = r->opts.upgrade,
        .affordable = true,
        .repeated = r->retries + r->opts.others,
    };
    bool here;

    if (r->state == REQUEST_ABANDONED) {
        request_over(r);
        return;
    }
    here = retry_decide(&c) == RETRY_HERE;
    if (here && !origin_may_repeat(o)) {
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
    origin_note_repeat(o);
    metric_inc(o->m.retries);
    log_v(4, "Sending request again", LT("origin", o->name), LT("err", text), LU("retry", r->retries));
    request_place(r, r->retries == RETRY_MAX_HERE);
}

/*
 * A pool with certificate only for who asserts a user, or where each connection proves itself. That a server was found
 * bare a moment ago spares the attempt; that it was not proves nothing.
 */
static enum pool_kind kind_for(const struct back_request *r, const struct origin *o)
{
    if (r->opts.with_cert)
        return POOL_CERT;
    if (r->opts.hop && o->opts.tls_cert != NULL && loop_now_ms(r->back->loop) >= o->pools[POOL_HOP].bare_until_ms)
        return POOL_HOP;
    return POOL_NO_CERT;
}

/* An identity that the origin has no context for must not go out in another one's name, nor in the clear. */
static bool has_context(const struct pool *p)
{
    const struct origin_opts *o = &p->origin->opts;

    return pool_tls(p) != NULL || (!o->tls_required && o->tls_cert == NULL && o->tls_no_cert == NULL);
}

void request_place(struct back_request *r, bool fresh)
{
    struct origin *o = r->pool->origin;

    request_move(r, REQUEST_WAITING);
    r->pool = &o->pools[kind_for(r, o)];
    if (!has_context(r->pool))
        request_fail(r, BACK_FAIL_CONNECT,
                     r->opts.with_cert ? "no client certificate is configured" : "no TLS is configured");
    else if (!fresh && h2_pool_serves(r))
        h2_pool_take(r->pool, r);
    else
        pool_take(r->pool, r, fresh);
}

void request_complete(struct back_request *r, const struct http_head *trailers)
{
    bool abandoned = r->state == REQUEST_ABANDONED;

    request_over(r);
    if (!abandoned)
        r->opts.handler->on_end(r->opts.arg, trailers);
}

/* ---------------------------------------------------------------------------------------------------- the request */

struct back_request *back_start(struct back *b, const struct back_opts *o)
{
    struct back_request *r = mem_zalloc(sizeof *r);

    if (r == NULL)
        return NULL;
    r->arena =
        o->lasting ? arena_new_sized(LIMIT_EXCHANGE_ARENA, WATCH_ARENA_BYTES) : arena_pool_take(&b->arenas, NULL);
    if (r->arena == NULL) {
        mem_free(r);
        return NULL;
    }
    r->back = b;
    r->opts = *o;
    r->method = o->head->method_id;
    r->deadline_ms = o->head_timeout_ms == 0 ? 0 : now_of(r) + o->head_timeout_ms;
    r->pool = &o->origin->pools[o->with_cert ? POOL_CERT : POOL_NO_CERT]; /* until it is placed */
    r->length_left = o->body.kind == HTTP_BODY_LENGTH ? o->body.length : 0;
    r->body_finished = o->body.kind == HTTP_BODY_NONE || (o->body.kind == HTTP_BODY_LENGTH && o->body.length == 0);
    buf_init(&r->pending, LIMIT_STREAM_OUTPUT_HIGH + LIMIT_STREAM_INPUT);
    buf_init(&r->copy, LIMIT_REPLAY_BYTES);
    o->origin->users++;
    origin_note_request(o->origin, o->own);
    h2_pool_count(r);
    request_place(r, o->upgrade);
    return r;
}

/* ---------------------------------------------------------------------------------------------------- cancelling */

static uint64_t client_of(struct back_request *r)
{
    if (r->client == 0 && r->opts.client != NULL && r->opts.client[0] != '\0')
        r->client = hash_seeded(slice_str(r->opts.client)) | 1;
    return r->client;
}

bool request_may_dial(struct back_request *r)
{
    return churn_allows(&r->back->wasted_dials, client_of(r), now_of(r));
}

void request_charge(struct back_request *r)
{
    if (!r->charged)
        churn_charge(&r->back->wasted_dials, client_of(r), now_of(r));
    r->charged = true;
}

void request_refund(struct back_request *r)
{
    if (r->charged)
        churn_refund(&r->back->wasted_dials, client_of(r), now_of(r));
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

/* A stream is reset, which spares the server work, as long as its client does not live on that. */
static bool may_drain_stream(struct back_request *r)
{
    struct churn *resets = &r->back->resets;

    if (!h2_call_is_open(r->call))
        return false;
    if (!churn_allows(resets, client_of(r), now_of(r)))
        return h2_call_may_drain(r->call);
    churn_charge(resets, client_of(r), now_of(r));
    return false;
}

/* Nobody asks any more; what is left of the answer is read all the same. False: that would be too much. */
static bool abandon(struct back_request *r)
{
    static const struct back_handler nobody = {.on_head = drop_head, .on_body = drop_body};

    if (r->state != REQUEST_ACTIVE || !r->body_finished || r->stuck || r->opts.upgrade)
        return false;
    if (request_on_h2(r) ? !may_drain_stream(r) : !h1_client_may_drain(r->conn))
        return false;
    (void)client_of(r); /* its address is not ours any more then */
    request_move(r, REQUEST_ABANDONED);
    origin_note_over(r->pool->origin, r->opts.own);
    loop_defer_cancel(r->back->loop, &r->kick);
    r->opts.handler = &nobody;
    r->opts.head = NULL;
    r->opts.client = NULL;
    r->paused = false;
    if (request_on_h2(r))
        h2_call_drain(r->call);
    else
        h1_client_drain(r->conn);
    return true;
}

void back_cancel(struct back_request *r)
{
    if (r->state != REQUEST_ABANDONED && !abandon(r))
        request_drop(r);
}

static void give_up(struct back_request *r, const char *text)
{
    leave(r);
    request_fail(r, BACK_FAIL_BODY, text);
}

static bool is_live(const struct back_request *r)
{
    return r->state == REQUEST_WAITING || r->state == REQUEST_ACTIVE;
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

void request_keep_copy(struct back_request *r)
{
    r->keeps_copy = (r->reused || request_on_h2(r)) && !r->opts.upgrade && r->retries < RETRY_MAX_HERE;
    if (buf_len(&r->pending) > 0)
        keep_copy(r, buf_slice(&r->pending));
}

/*
 * To the connection. One that is broken takes no more and is about to say so, after an answer that came before: until
 * then the rest is for the copy alone. False: the request is over.
 */
static bool put(struct back_request *r, struct slice data)
{
    bool taken = r->stuck || (request_on_h2(r) ? h2_call_write(r->call, data) : h1_client_write(r->conn, data));

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
    give_up(r, "request body came before there was a connection for it");
    return false;
}

static void tell_finished(struct back_request *r)
{
    if (request_on_h2(r))
        h2_call_body_finished(r->call);
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
    loop_defer(r->back->loop, &r->kick, kick, r);
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
        give_up(r, "request body is longer than announced");
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
    if (!r->body_open)
        return true;
    return request_on_h2(r) ? h2_call_congested(r->call) : stream_congested(r->conn->stream);
}

void back_finish(struct back_request *r, const struct http_head *trailers)
{
    struct buf *scratch = &r->back->scratch;

    if (!is_live(r) || r->body_finished)
        return;
    if (r->opts.body.kind == HTTP_BODY_LENGTH) {
        give_up(r, "request body is shorter than announced");
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
        give_up(r, "request trailers cannot be sent");
        return;
    }
    if (emit(r, buf_slice(scratch)))
        finished(r);
}

uint64_t request_connection(const struct back_request *r)
{
    return r->state == REQUEST_ACTIVE && r->conn != NULL ? r->conn->number : 0;
}

static void set_paused(struct back_request *r, bool paused)
{
    r->paused = paused;
    if (r->state == REQUEST_ACTIVE && request_on_h2(r))
        h2_call_pause(r->call, paused);
    else if (r->state == REQUEST_ACTIVE)
        h1_client_pause(r->conn, paused);
}

void back_pause(struct back_request *r)
{
    set_paused(r, true);
}

void back_resume(struct back_request *r)
{
    set_paused(r, false);
}
