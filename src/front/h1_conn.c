/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h1_conn.h"

#include "base/limits.h"
#include "base/state.h"
#include "front/h1_state.h"
#include "http/hop.h"

/*
 * A connection that waits for a request is given this long when we drain, because one may be on its way. Its answer
 * says that it was the last; closed without a word, a client could not tell whether it was carried out.
 */
enum { DRAIN_IDLE_MS = 1000 };

/* ---- state and time ---- */

static uint64_t timeout_of(const struct h1_conn *c, enum h1_state state)
{
    const struct front_limits *l = &c->fc->limits;
    uint64_t ms;

    switch (state) {
    case H1_AWAITING:
        ms = c->fc->requests > 0 ? l->idle_timeout_ms : l->header_timeout_ms;
        return c->fc->host->draining && ms > DRAIN_IDLE_MS ? DRAIN_IDLE_MS : ms;
    case H1_READING:
        ms = l->header_timeout_ms;
        return c->fc->host->draining && ms > DRAIN_IDLE_MS ? DRAIN_IDLE_MS : ms;
    case H1_RECEIVING:
    case H1_DISCARDING:
        return l->body_timeout_ms;
    case H1_LINGERING:
        return l->linger_timeout_ms;
    case H1_SERVING:
    case H1_CLOSED:
        break;
    }
    return 0;
}

static const char *const state_names[] = {
    [H1_AWAITING] = "awaiting", [H1_READING] = "reading",       [H1_RECEIVING] = "receiving",
    [H1_SERVING] = "serving",   [H1_DISCARDING] = "discarding", [H1_LINGERING] = "lingering",
    [H1_CLOSED] = "closed",
};
static const uint32_t state_next[] = {
    [H1_AWAITING] = STATE(H1_AWAITING) | STATE(H1_READING) | STATE(H1_RECEIVING) | STATE(H1_SERVING) |
                    STATE(H1_LINGERING) | STATE(H1_CLOSED),
    [H1_READING] = STATE(H1_RECEIVING) | STATE(H1_SERVING) | STATE(H1_LINGERING) | STATE(H1_CLOSED),
    [H1_RECEIVING] = STATE(H1_SERVING) | STATE(H1_DISCARDING) | STATE(H1_LINGERING) | STATE(H1_CLOSED),
    [H1_SERVING] = STATE(H1_AWAITING) | STATE(H1_LINGERING) | STATE(H1_CLOSED),
    [H1_DISCARDING] = STATE(H1_AWAITING) | STATE(H1_LINGERING) | STATE(H1_CLOSED),
    [H1_LINGERING] = STATE(H1_CLOSED),
    [H1_CLOSED] = 0,
};
static const struct state_table states = STATE_TABLE("HTTP/1.1 connection", state_names, state_next);

void h1_conn_move(struct h1_conn *c, enum h1_state to)
{
    /* From the connection to the end of its first head it is one and the same time that runs. */
    bool keep_timer = c->state == H1_AWAITING && to == H1_READING && c->fc->requests == 0;
    uint64_t ms = timeout_of(c, to);

    state_move(&states, &c->state, to);
    if (keep_timer)
        return;
    if (ms == 0)
        loop_timer_cancel(c->timer);
    else
        loop_timer_set(c->timer, ms);
    c->unsent_seen = stream_unsent(c->stream);
    c->written_seen = stream_bytes_out(c->stream);
    c->progress_ms = loop_now_ms(c->fc->host->loop);
}

/*
 * Has the client taken any of what we sent since the last look, or is there nothing to take? Looked at when a timer
 * fires, so that a slow reader is not cut off by a timeout meant for a silent one. More than fits into the queue can
 * only have been written because some of it had left.
 */
static bool client_is_reading(struct h1_conn *c)
{
    size_t unsent = stream_unsent(c->stream);
    uint64_t written = stream_bytes_out(c->stream), now = loop_now_ms(c->fc->host->loop);

    if (unsent < c->unsent_seen || written > c->written_seen)
        c->progress_ms = now;
    c->unsent_seen = unsent;
    c->written_seen = written;
    return unsent > 0 && now - c->progress_ms < c->fc->limits.body_timeout_ms;
}

/* ---- the end ---- */

static void free_conn(void *arg)
{
    struct h1_conn *c = arg;

    h1_body_reset(&c->body);
    h1_parser_free(c->parser);
    exchange_forget_request(&c->x);
    arena_free(c->arena);
    mem_free(c);
}

static void ignore_event(struct stream *s, enum stream_event ev, void *arg)
{
    (void)s;
    (void)ev;
    (void)arg;
}

static void free_later(struct h1_conn *c)
{
    h1_conn_move(c, H1_CLOSED);
    lifetime_retire(&c->life, free_conn, c);
}

void h1_conn_close(struct h1_conn *c, enum front_close reason, enum stream_close_how how)
{
    if (c->state == H1_CLOSED)
        return;
    free_later(c);
    front_conn_close(c->fc, reason, how);
}

struct stream *h1_conn_give_away(struct h1_conn *c)
{
    struct stream *s = c->stream;

    /* Nothing may reach us between here and the new owner's stream_set_owner(). */
    stream_set_owner(s, ignore_event, NULL);
    free_later(c);
    front_conn_give_away(c->fc);
    return s;
}

void h1_conn_linger(struct h1_conn *c, enum front_close reason)
{
    if (c->state == H1_CLOSED)
        return;
    c->close_reason = reason;
    stream_finish_writing(c->stream);
    h1_conn_move(c, H1_LINGERING);
    h1_conn_wake(c);
}

/* The client is gone, or what it sent makes it impossible to go on: the proxy is told first, while all facts still
 * live. */
static void end_exchange(struct h1_conn *c, const char *why, enum front_close reason)
{
    bool held = exchange_held(&c->x);

    exchange_give_gone(&c->x, why);
    h1_conn_close(c, reason, held && c->head_written ? STREAM_CLOSE_ABORT : STREAM_CLOSE_NOW);
}

/* A body that breaks the rules or stalls: the answer is ours if none has begun. */
static void refuse_body(struct h1_conn *c, unsigned status, const char *why, enum front_close reason)
{
    exchange_give_gone(&c->x, why);
    if (c->state == H1_DISCARDING)
        h1_conn_linger(c, reason);
    else if (c->head_written)
        h1_conn_close(c, reason, STREAM_CLOSE_ABORT);
    else
        h1_answer_refuse(c, status, why, reason);
}

/* ---- between requests ---- */

static void next_request(struct h1_conn *c)
{
    h1_body_reset(&c->body);
    exchange_forget_request(&c->x);
    arena_pool_give(&c->fc->host->arenas, c->arena);
    c->arena = c->x.arena = NULL;
    h1_conn_move(c, H1_AWAITING);
    stream_begin_message(c->stream);
    /* Never from here: the caller may be the proxy, in the middle of ending the exchange before. */
    if (stream_input_len(c->stream) > 0)
        h1_conn_wake(c);
}

static void request_read(struct h1_conn *c)
{
    if (c->close_after)
        h1_conn_linger(c, c->close_reason);
    else
        next_request(c);
}

void h1_conn_answer_waits(struct h1_conn *c)
{
    if (c->state != H1_SERVING || loop_timer_pending(c->timer))
        return;
    (void)client_is_reading(c);
    c->progress_ms = loop_now_ms(c->fc->host->loop);
    loop_timer_set(c->timer, c->fc->limits.body_timeout_ms);
}

bool h1_conn_rest_is_short(const struct h1_conn *c)
{
    return c->body.kind == HTTP_BODY_LENGTH && c->body.left <= H1_DISCARD_BYTES && !c->continue_pending;
}

void h1_conn_response_done(struct h1_conn *c)
{
    if (c->state != H1_RECEIVING || c->close_after) {
        request_read(c);
    } else if (h1_conn_rest_is_short(c)) {
        h1_conn_move(c, H1_DISCARDING);
        h1_conn_wake(c);
    } else {
        h1_conn_linger(c, FRONT_CLOSE_BODY_UNREAD);
    }
}

/* ---- what comes in ---- */

/* What stays when the request's fields are forgotten. */
static bool keep_request_line(struct h1_conn *c)
{
    struct http_head *h = &c->x.request;

    h->method = arena_copy(c->arena, h->method);
    h->target = arena_copy(c->arena, h->target);
    return h->method.p != NULL && h->target.p != NULL;
}

static void start_exchange(struct h1_conn *c)
{
    struct exchange *x = &c->x;
    struct http_body body = h1_request_body(&x->request);
    struct front_host *host = c->fc->host;

    if (body.kind == HTTP_BODY_LENGTH && body.length == 0)
        body.kind = HTTP_BODY_NONE;
    h1_body_begin(&c->body, body, c->arena);
    x->request_body = body;
    x->expects_continue = body.kind != HTTP_BODY_NONE && h1_expects_continue(&x->request);
    x->wants_upgrade = body.kind == HTTP_BODY_NONE && hop_wants_upgrade(&x->request);
    x->client.sequence = front_conn_count_request(c->fc);
    c->continue_pending = x->expects_continue;
    c->body_paused = c->head_written = c->chunked = c->close_after = false;
    h1_conn_move(c, body.kind == HTTP_BODY_NONE ? H1_SERVING : H1_RECEIVING);
    exchange_begin(x);
    host->on_request(x, host->arg);
    if (!exchange_taken(x))
        refuse_body(c, 500, "request was not handled", FRONT_CLOSE_RESPONSE_ABORTED);
}

/* Idle connections have neither arena nor parser: there are many of them, and these two are most of their memory. */
static bool begin_head(struct h1_conn *c)
{
    struct front_host *host = c->fc->host;

    c->arena = c->x.arena = arena_pool_take(&host->arenas, &c->fc->memory.held);
    c->x.request_arena = arena_pool_take(&host->arenas, &c->fc->memory.heads);
    c->parser = host->spare_parser;
    host->spare_parser = NULL;
    if (c->parser == NULL)
        c->parser = h1_parser_new(H1_REQUEST, 0);
    if (c->arena == NULL || c->x.request_arena == NULL || c->parser == NULL) {
        h1_conn_close(c, FRONT_CLOSE_NO_MEMORY, STREAM_CLOSE_NOW);
        return false;
    }
    h1_parser_limit(c->parser, c->fc->limits.max_head_bytes, c->fc->limits.max_head_fields);
    h1_parser_begin(c->parser, c->x.request_arena, &c->x.request);
    return true;
}

static void end_head(struct h1_conn *c)
{
    struct front_host *host = c->fc->host;

    if (host->spare_parser == NULL)
        host->spare_parser = c->parser;
    else
        h1_parser_free(c->parser);
    c->parser = NULL;
}

/* What the parser has no memory for may be what others hold. */
static void refuse_head(struct h1_conn *c)
{
    unsigned status = h1_parser_status(c->parser);

    if (status == 503 && !quota_has_room(&c->fc->memory.held, LIMIT_HEAD_BYTES))
        h1_answer_refuse(c, 429, "clients hold too much memory", FRONT_CLOSE_MEMORY);
    else
        h1_answer_refuse(c, status, h1_parser_error(c->parser), FRONT_CLOSE_BAD_REQUEST);
}

/* These two take what they can of the waiting bytes and return whether there is reason to look again at once. */
static bool take_head(struct h1_conn *c)
{
    struct slice in;
    size_t used;
    enum h1_result r;

    /* Answers of ours wait for the client: no reason to make more of them. */
    if (stream_congested(c->stream) || (in = stream_peek(c->stream)).n == 0)
        return false;
    if (c->parser == NULL && !begin_head(c))
        return false;
    r = h1_parser_feed(c->parser, in, &used);
    if (r == H1_ERROR) {
        refuse_head(c);
        return false;
    }
    stream_consume(c->stream, used);
    front_stats_received(c->fc->host->stats, used);
    if (r == H1_DONE) {
        end_head(c);
        if (front_conn_must_wait(c->fc))
            h1_answer_refuse(c, 429, "clients hold too much memory", FRONT_CLOSE_MEMORY);
        else if (!keep_request_line(c))
            h1_answer_refuse(c, 503, "out of memory", FRONT_CLOSE_NO_MEMORY);
        else
            start_exchange(c);
        return c->state == H1_RECEIVING;
    }
    if (front_conn_must_wait(c->fc)) { /* nor for the rest of a head */
        h1_answer_refuse(c, 429, "clients hold too much memory", FRONT_CLOSE_MEMORY);
        return false;
    }
    if (c->state == H1_AWAITING && h1_parser_started(c->parser))
        h1_conn_move(c, H1_READING);
    return true;
}

static void body_complete(struct h1_conn *c)
{
    if (c->state == H1_DISCARDING) {
        request_read(c);
    } else {
        h1_conn_move(c, H1_SERVING);
        exchange_give_end(&c->x, h1_body_trailers(&c->body));
    }
}

static bool take_body(struct h1_conn *c)
{
    struct slice in = stream_peek(c->stream), data = SLICE_NONE;
    bool all_seen = c->body.kind == HTTP_BODY_LENGTH && c->body.left == 0; /* the end needs no further byte */
    size_t used;
    enum h1_body_event ev;

    if ((c->state == H1_RECEIVING && c->body_paused) || (in.n == 0 && !all_seen))
        return false;
    ev = h1_body_feed(&c->body, in, &used, &data);
    c->continue_pending = false;
    loop_timer_set(c->timer, c->fc->limits.body_timeout_ms);
    if (ev == H1_BODY_DATA)
        exchange_give_body(&c->x, data);
    if (c->state == H1_CLOSED)
        return false;
    stream_consume(c->stream, used);
    front_stats_received(c->fc->host->stats, used);
    if (ev == H1_BODY_END)
        body_complete(c);
    else if (ev == H1_BODY_ERROR)
        refuse_body(c, 400, h1_body_error(&c->body), FRONT_CLOSE_BAD_REQUEST);
    return c->state == H1_RECEIVING || c->state == H1_DISCARDING;
}

static bool throw_away(struct h1_conn *c)
{
    size_t n = stream_peek(c->stream).n;

    stream_consume(c->stream, n);
    front_stats_received(c->fc->host->stats, n);
    return n > 0;
}

/* Ends after at most one request: the next one is taken in the next turn, for the sake of the other connections. */
static void take_input(struct h1_conn *c)
{
    bool again = true;

    while (again) {
        switch (c->state) {
        case H1_AWAITING:
        case H1_READING:
            again = take_head(c);
            break;
        case H1_RECEIVING:
        case H1_DISCARDING:
            again = take_body(c);
            break;
        case H1_LINGERING:
            again = throw_away(c);
            break;
        case H1_SERVING:
        case H1_CLOSED:
            again = false;
            break;
        }
    }
}

static void on_wake(void *arg)
{
    struct h1_conn *c = arg;

    if (c->x.phase == EXCHANGE_DOOMED)
        end_exchange(c, c->x.doom_reason, FRONT_CLOSE_RESPONSE_ABORTED);
    else
        take_input(c);
}

void h1_conn_wake(struct h1_conn *c)
{
    if (c->state != H1_CLOSED)
        lifetime_queue(&c->wake);
}

/* The client will send no more, but may still be reading the end of an answer. */
static void end_answered(struct h1_conn *c, enum front_close reason)
{
    if (stream_unsent(c->stream) == 0)
        h1_conn_close(c, reason, STREAM_CLOSE_FLUSH);
    else if (c->state != H1_LINGERING)
        h1_conn_linger(c, reason);
}

static enum front_close idle_end(const struct h1_conn *c)
{
    return c->fc->requests > 0 ? FRONT_CLOSE_CLIENT : FRONT_CLOSE_NO_REQUEST;
}

static void on_eof(struct h1_conn *c)
{
    switch (c->state) {
    case H1_AWAITING:
        end_answered(c, idle_end(c));
        break;
    case H1_DISCARDING:
        end_answered(c, FRONT_CLOSE_CLIENT_GONE);
        break;
    case H1_LINGERING:
        end_answered(c, c->close_reason);
        break;
    case H1_READING:
    case H1_RECEIVING:
    case H1_SERVING:
        end_exchange(c, "client closed the connection", FRONT_CLOSE_CLIENT_GONE);
        break;
    case H1_CLOSED:
        break;
    }
}

/* Many clients end a connection without close_notify. Where nothing was under way, nothing can have been cut off. */
static bool was_left_idle(const struct h1_conn *c)
{
    return c->state == H1_AWAITING && stream_was_left(c->stream) && stream_unsent(c->stream) == 0;
}

static void on_failed(struct h1_conn *c)
{
    if (c->state == H1_LINGERING)
        h1_conn_close(c, c->close_reason, STREAM_CLOSE_NOW);
    else if (was_left_idle(c))
        h1_conn_close(c, idle_end(c), STREAM_CLOSE_NOW);
    else
        end_exchange(c, stream_failure(c->stream), FRONT_CLOSE_STREAM_FAILED);
}

static void on_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct h1_conn *c = arg;

    (void)s;
    switch (ev) {
    case STREAM_OPENED:
        break;
    case STREAM_READABLE:
        take_input(c);
        break;
    case STREAM_WRITABLE:
        exchange_give_writable(&c->x);
        /* A pipelined request may have waited for this. */
        if (c->state == H1_AWAITING)
            take_input(c);
        break;
    case STREAM_EOF:
        on_eof(c);
        break;
    case STREAM_FAILED:
        on_failed(c);
        break;
    }
}

/* ---- timeouts ---- */

static void on_idle(struct h1_conn *c)
{
    enum front_close reason = c->fc->requests > 0 ? FRONT_CLOSE_IDLE_TIMEOUT : FRONT_CLOSE_NO_REQUEST;

    if (client_is_reading(c))
        loop_timer_set(c->timer, timeout_of(c, H1_AWAITING));
    else
        h1_conn_close(c, c->fc->host->draining ? FRONT_CLOSE_DRAIN : reason, STREAM_CLOSE_FLUSH);
}

static void on_stall(struct h1_conn *c)
{
    /* Not the client's turn: the proxy wants nothing now, or owes it a 100 (Continue), or it is busy reading. */
    if (c->body_paused || c->continue_pending || client_is_reading(c))
        loop_timer_set(c->timer, c->fc->limits.body_timeout_ms);
    else
        refuse_body(c, 408, "request body stalled", FRONT_CLOSE_BODY_TIMEOUT);
}

/* An answer is given, and its client may take none of it (armed in h1_answer.c). */
static void on_answer_look(struct h1_conn *c)
{
    if (stream_unsent(c->stream) == 0)
        return;
    if (client_is_reading(c)) {
        loop_timer_set(c->timer, c->fc->limits.body_timeout_ms);
        return;
    }
    front_stats_not_taken(c->fc->host->stats);
    end_exchange(c, "client takes nothing of the answer", FRONT_CLOSE_READ_TIMEOUT);
}

static void on_linger_over(struct h1_conn *c)
{
    bool sent = c->unsent_seen == 0 && stream_unsent(c->stream) == 0;

    if (!sent && (client_is_reading(c) || stream_unsent(c->stream) == 0))
        loop_timer_set(c->timer, c->fc->limits.linger_timeout_ms);
    else
        h1_conn_close(c, c->close_reason, sent ? STREAM_CLOSE_NOW : STREAM_CLOSE_ABORT);
}

static void on_timer(void *arg)
{
    struct h1_conn *c = arg;

    switch (c->state) {
    case H1_AWAITING:
        on_idle(c);
        break;
    case H1_READING:
        if (c->fc->host->draining)
            h1_conn_close(c, FRONT_CLOSE_DRAIN, STREAM_CLOSE_FLUSH);
        else
            h1_answer_refuse(c, 408, "request head took too long", FRONT_CLOSE_HEADER_TIMEOUT);
        break;
    case H1_RECEIVING:
        on_stall(c);
        break;
    case H1_DISCARDING:
        h1_conn_close(c, FRONT_CLOSE_BODY_TIMEOUT, STREAM_CLOSE_FLUSH);
        break;
    case H1_LINGERING:
        on_linger_over(c);
        break;
    case H1_SERVING:
        on_answer_look(c);
        break;
    case H1_CLOSED:
        break;
    }
}

/* ---- the front's side ---- */

static void drain(void *protocol)
{
    struct h1_conn *c = protocol;

    if ((c->state == H1_AWAITING && stream_input_len(c->stream) == 0) || c->state == H1_READING)
        loop_timer_set(c->timer, timeout_of(c, c->state));
}

/* Between requests it is for as long as its timer says. */
static bool busy(const void *protocol)
{
    const struct h1_conn *c = protocol;

    return c->fc->requests > 0 && c->state != H1_CLOSED;
}

static bool idle(const void *protocol)
{
    return ((const struct h1_conn *)protocol)->state == H1_AWAITING;
}

static void shut(void *protocol, const char *why, enum front_close reason)
{
    end_exchange(protocol, why, reason);
}

static const struct front_conn_ops conn_ops = {.drain = drain, .busy = busy, .idle = idle, .shut = shut};

bool h1_conn_start(struct front_conn *fc)
{
    struct h1_conn *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return false;
    c->fc = fc;
    c->stream = fc->stream;
    lifetime_init(&c->life, fc->host->loop, "HTTP/1.1 connection");
    lifetime_work_init(&c->life, &c->wake, LOOP_DEFERRED, on_wake, c);
    c->timer = lifetime_timer(&c->life, on_timer, c);
    if (c->timer == NULL) {
        lifetime_retire(&c->life, free_conn, c);
        return false;
    }
    c->x.arenas = &fc->host->arenas;
    c->x.ops = h1_answer_ops();
    c->x.stats = fc->host->stats;
    c->x.clients = fc->host->clients;
    c->x.quota = &fc->memory.held;
    c->x.client = (struct exchange_client){
        .address = stream_remote_text(fc->stream),
        .ip = stream_remote_ip(fc->stream),
        .tls = stream_tls_peer(fc->stream),
        .protocol = "HTTP/1.1",
        .connection_id = fc->id,
    };
    fc->ops = &conn_ops;
    fc->protocol = c;
    stream_set_owner(fc->stream, on_event, c);
    next_request(c);
    return true;
}
