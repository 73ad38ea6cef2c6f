/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h1_conn.h"

#include "base/limits.h"
#include "front/h1_answer.h"
#include "http/hop.h"

/* ---- what goes wrong ---- */

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
    if (c->head_written)
        h1_conn_close(c, reason, STREAM_CLOSE_ABORT);
    else
        h1_answer_refuse(c, status, why, reason);
}

/* ---- what comes in ---- */

/* It stays when the request's fields are forgotten; so does the method, which is a literal. */
static bool keep_target(struct h1_conn *c)
{
    struct slice *target = &c->x.request.target;

    *target = arena_copy(c->arena, *target);
    return target->p != NULL;
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
        else if (!keep_target(c))
            h1_answer_refuse(c, 503, "out of memory", FRONT_CLOSE_NO_MEMORY);
        else
            start_exchange(c);
        return c->state == H1_RECEIVING;
    }
    if (front_conn_must_wait(c->fc)) /* nor for the rest of a head */
        h1_answer_refuse(c, 429, "clients hold too much memory", FRONT_CLOSE_MEMORY);
    else if (c->state == H1_AWAITING && h1_parser_started(c->parser))
        h1_conn_move(c, H1_READING);
    return true;
}

static void body_complete(struct h1_conn *c)
{
    if (c->state == H1_DISCARDING) {
        h1_conn_next(c);
    } else {
        h1_conn_move(c, H1_SERVING);
        if (stream_congested(c->stream)) /* its producer waits, and writes nothing that would have this looked at */
            h1_conn_answer_waits(c);
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
    c->body_ms = loop_now_ms(c->fc->host->loop);
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

    if (h1_conn_client_reads(c))
        h1_conn_time_anew(c);
    else
        h1_conn_close(c, c->fc->host->draining ? FRONT_CLOSE_DRAIN : reason, STREAM_CLOSE_FLUSH);
}

static void end_untaken(struct h1_conn *c)
{
    front_stats_not_taken(c->fc->host->stats);
    if (c->state == H1_DISCARDING) /* the proxy is through with it, and the client is to see that some is lost */
        h1_conn_close(c, FRONT_CLOSE_READ_TIMEOUT, STREAM_CLOSE_ABORT);
    else
        end_exchange(c, "client takes nothing of the answer", FRONT_CLOSE_READ_TIMEOUT);
}

/* A body that goes on, a byte now and then, is no reason to keep an answer that nobody takes. */
static void on_stall(struct h1_conn *c)
{
    uint64_t timeout = c->fc->limits.body_timeout_ms, silent = loop_now_ms(c->fc->host->loop) - c->body_ms;
    bool reads = h1_conn_client_reads(c);

    if (stream_unsent(c->stream) > 0 && !reads)
        end_untaken(c);
    else if (silent < timeout)
        loop_timer_set(c->timer, timeout - silent);
    else if (c->state == H1_DISCARDING)
        h1_conn_close(c, FRONT_CLOSE_BODY_TIMEOUT, STREAM_CLOSE_FLUSH);
    /* Not the client's turn: the proxy wants nothing now, or owes it a 100 (Continue), or it is busy reading. */
    else if (c->body_paused || c->continue_pending || reads)
        h1_conn_time_anew(c);
    else
        refuse_body(c, 408, "request body stalled", FRONT_CLOSE_BODY_TIMEOUT);
}

/* An answer is given, and its client may take none of it (armed in h1_answer.c, and when the body is complete). */
static void on_answer_look(struct h1_conn *c)
{
    if (stream_unsent(c->stream) == 0)
        return;
    if (h1_conn_client_reads(c))
        loop_timer_set(c->timer, c->fc->limits.body_timeout_ms);
    else
        end_untaken(c);
}

static void on_linger_over(struct h1_conn *c)
{
    bool sent = c->unsent_seen == 0 && stream_unsent(c->stream) == 0;

    if (!sent && (h1_conn_client_reads(c) || stream_unsent(c->stream) == 0))
        h1_conn_time_anew(c);
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
    case H1_DISCARDING:
        on_stall(c);
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
        h1_conn_time_anew(c);
}

/* Between requests it is for as long as its timer says. */
static bool busy(const void *protocol)
{
    const struct h1_conn *c = protocol;

    return c->fc->requests > 0 && c->state != H1_CLOSED;
}

/* The rest of a body that nobody wants is the client's turn, too, once it has the answer. */
static bool drips(const void *protocol, uint64_t for_ms, bool indulged)
{
    const struct h1_conn *c = protocol;
    bool owed = c->state == H1_RECEIVING && !c->body_paused && !c->continue_pending && !c->head_written;

    if (c->state == H1_DISCARDING || c->state == H1_READING)
        owed = stream_unacknowledged(c->stream) == 0;
    if (c->state == H1_READING)
        return owed && loop_now_ms(c->fc->host->loop) - c->body_ms >= FRONT_HEAD_SLOW_MS;
    return owed && exchange_is_slow(&c->x, for_ms, indulged);
}

/* It may have sent this request before it took the answers to those before. */
static bool answered(const void *protocol, uint64_t for_ms, bool indulged)
{
    const struct h1_conn *c = protocol;

    return c->head_written || (c->state != H1_RECEIVING && c->state != H1_SERVING) || drips(protocol, for_ms, indulged);
}

/* All goes into the stream at once. */
static size_t waiting(const void *protocol)
{
    (void)protocol;
    return 0;
}

static void shut(void *protocol, const char *why, enum front_close reason)
{
    end_exchange(protocol, why, reason);
}

static size_t open_requests(const void *protocol)
{
    (void)protocol;
    return 1;
}

static const struct front_conn_ops conn_ops = {.drain = drain,
                                               .busy = busy,
                                               .drips = drips,
                                               .answered = answered,
                                               .waiting = waiting,
                                               .open = open_requests,
                                               .shut = shut};

bool h1_conn_start(struct front_conn *fc)
{
    struct h1_conn *c = h1_conn_new(fc, on_wake, on_timer);

    if (c == NULL)
        return false;
    c->x.ops = h1_answer_ops();
    fc->ops = &conn_ops;
    fc->protocol = c;
    stream_set_owner(fc->stream, on_event, c);
    h1_conn_next(c);
    return true;
}
