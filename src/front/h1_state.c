/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h1_state.h"

#include "base/contract.h"
#include "base/state.h"

/*
 * A connection that waits for a request is given this long when we drain, because one may be on its way. Its answer
 * says that it was the last; closed without a word, a client could not tell whether it was carried out.
 */
enum { DRAIN_IDLE_MS = 1000 };

/* How much of an unwanted body is read for the sake of keeping the connection. */
enum { DISCARD_BYTES = 64 << 10 };

/* ---- state and time ---- */

static uint64_t unless_draining(const struct h1_conn *c, uint64_t ms)
{
    return c->fc->host->draining && ms > DRAIN_IDLE_MS ? DRAIN_IDLE_MS : ms;
}

static uint64_t timeout_of(const struct h1_conn *c, enum h1_state state)
{
    const struct front_limits *l = &c->fc->limits;

    switch (state) {
    case H1_AWAITING:
        return unless_draining(c, c->fc->requests > 0 ? l->idle_timeout_ms : l->header_timeout_ms);
    case H1_READING:
        return unless_draining(c, l->header_timeout_ms);
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
    front_conn_idle(c->fc, to == H1_AWAITING);
    if (keep_timer)
        return;
    if (ms == 0)
        loop_timer_cancel(c->timer);
    else
        loop_timer_set(c->timer, ms);
    c->unsent_seen = stream_unsent(c->stream);
    c->written_seen = stream_bytes_out(c->stream);
    c->progress_ms = c->body_ms = loop_now_ms(c->fc->host->loop);
}

void h1_conn_time_anew(struct h1_conn *c)
{
    loop_timer_set(c->timer, timeout_of(c, c->state));
}

/* More than fits into the queue can only have been written because some of it had left. */
bool h1_conn_client_reads(struct h1_conn *c)
{
    size_t unsent = stream_unsent(c->stream);
    uint64_t written = stream_bytes_out(c->stream), now = loop_now_ms(c->fc->host->loop);

    if (unsent < c->unsent_seen || written > c->written_seen)
        c->progress_ms = now;
    c->unsent_seen = unsent;
    c->written_seen = written;
    return unsent > 0 && now - c->progress_ms < c->fc->limits.body_timeout_ms;
}

void h1_conn_answer_waits(struct h1_conn *c)
{
    if (c->state != H1_SERVING || loop_timer_pending(c->timer))
        return;
    (void)h1_conn_client_reads(c);
    c->progress_ms = loop_now_ms(c->fc->host->loop);
    loop_timer_set(c->timer, c->fc->limits.body_timeout_ms);
}

void h1_conn_wake(struct h1_conn *c)
{
    if (c->state != H1_CLOSED)
        lifetime_queue(&c->wake);
}

/* ---- beginning and end ---- */

static void free_conn(void *arg)
{
    struct h1_conn *c = arg;

    must_hold(!exchange_held(&c->x)); /* the proxy would go on with it */
    h1_body_reset(&c->body);
    h1_parser_free(c->parser);
    exchange_forget_request(&c->x);
    arena_free(c->arena);
    mem_free(c);
}

struct h1_conn *h1_conn_new(struct front_conn *fc, loop_fn *on_wake, loop_fn *on_timer)
{
    struct h1_conn *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->fc = fc;
    c->stream = fc->stream;
    lifetime_init(&c->life, fc->host->loop, "HTTP/1.1 connection");
    lifetime_work_init(&c->life, &c->wake, LOOP_DEFERRED, on_wake, c);
    c->timer = lifetime_timer(&c->life, on_timer, c);
    if (c->timer == NULL) {
        lifetime_retire(&c->life, free_conn, c);
        return NULL;
    }
    c->x.arenas = &fc->host->arenas;
    c->x.stats = fc->host->stats;
    c->x.clients = fc->host->clients;
    c->x.quota = &fc->memory.held;
    c->x.turns = fc->turns;
    c->x.client = (struct exchange_client){
        .address = stream_remote_text(fc->stream),
        .ip = stream_remote_ip(fc->stream),
        .tls = stream_tls_peer(fc->stream),
        .protocol = "HTTP/1.1",
        .connection_id = fc->id,
    };
    return c;
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

void h1_conn_next(struct h1_conn *c)
{
    if (c->close_after)
        h1_conn_linger(c, c->close_reason);
    else
        next_request(c);
}

bool h1_conn_rest_is_short(const struct h1_conn *c)
{
    return c->body.kind == HTTP_BODY_LENGTH && c->body.left <= DISCARD_BYTES && !c->continue_pending;
}

void h1_conn_response_done(struct h1_conn *c)
{
    if (c->state != H1_RECEIVING || c->close_after) {
        h1_conn_next(c);
    } else if (h1_conn_rest_is_short(c)) {
        exchange_await_body(&c->x);
        h1_conn_move(c, H1_DISCARDING);
        h1_conn_wake(c);
    } else {
        h1_conn_linger(c, FRONT_CLOSE_BODY_UNREAD);
    }
}
