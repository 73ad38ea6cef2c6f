/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h2_stream.h"

#include "base/contract.h"
#include "base/log.h"
#include "base/state.h"
#include "front/h2_head.h"

/* ---- state and life ---- */

static const char *const receiving_names[] = {
    [H2_HEAD] = "head", [H2_BODY] = "body", [H2_ENDED] = "ended", [H2_RECEIVED] = "received"};
static const uint32_t receiving_next[] = {
    [H2_HEAD] = STATE(H2_BODY) | STATE(H2_RECEIVED),
    [H2_BODY] = STATE(H2_ENDED) | STATE(H2_RECEIVED),
    [H2_ENDED] = STATE(H2_RECEIVED),
    [H2_RECEIVED] = STATE(H2_RECEIVED), /* at its end in any case */
};
static const struct state_table receiving = STATE_TABLE("request of HTTP/2", receiving_names, receiving_next);

static const char *const sending_names[] = {[H2_NOTHING] = "nothing",
                                            [H2_ANSWERING] = "answering",
                                            [H2_ENDING] = "ending",
                                            [H2_ANSWERED] = "answered",
                                            [H2_RESET] = "reset"};
static const uint32_t sending_next[] = {
    [H2_NOTHING] = STATE(H2_ANSWERING) | STATE(H2_ENDING) | STATE(H2_RESET),
    [H2_ANSWERING] = STATE(H2_ENDING) | STATE(H2_RESET),
    [H2_ENDING] = STATE(H2_ANSWERED) | STATE(H2_RESET),
    [H2_ANSWERED] = STATE(H2_RESET),
    [H2_RESET] = 0,
};
static const struct state_table sending = STATE_TABLE("answer of HTTP/2", sending_names, sending_next);

void h2_stream_send(struct h2_stream *st, enum h2_sending to)
{
    /* What is given to an answer whose end is decided goes nowhere. */
    if (st->sending != H2_RESET)
        state_move(&sending, &st->sending, to);
}

void h2_stream_receive(struct h2_stream *st, enum h2_receiving to)
{
    struct h2_conn *c = st->c;

    must_hold(st->receiving != H2_BODY || c->n_bodies > 0);
    if (st->receiving == H2_BODY)
        c->n_bodies--;
    if (to == H2_BODY) {
        h2_conn_expect(c);
        c->n_bodies++;
    }
    state_move(&receiving, &st->receiving, to);
}

void h2_stream_out_changed(struct h2_stream *st)
{
    struct h2_conn *c = st->c;
    bool waits = buf_len(&st->out) > 0;

    st->taken_ms = st->waiting && waits ? st->taken_ms : loop_now_ms(c->fc->host->loop);
    if (waits == st->waiting)
        return;
    st->waiting = waits;
    if (!waits) {
        must_hold(c->n_waiting > 0);
        c->n_waiting--;
        return;
    }
    h2_conn_expect(c);
    c->n_waiting++;
}

struct h2_stream *h2_stream_new(struct h2_conn *c, int32_t id, const struct exchange_ops *ops)
{
    struct arena_pool *arenas = &c->fc->host->arenas;
    struct arena *arena = arena_pool_take(arenas, &c->fc->memory.held);
    struct h2_stream *st = arena == NULL ? NULL : arena_zalloc(arena, sizeof(*st));

    if (st == NULL) {
        arena_pool_give(arenas, arena);
        return NULL;
    }
    st->c = c;
    lifetime_init(&st->life, c->fc->host->loop, "stream of a client");
    st->id = id;
    st->x.arena = arena;
    st->x.arenas = arenas;
    st->x.request_arena = arena_pool_take(arenas, &c->fc->memory.heads);
    if (st->x.request_arena == NULL || !http_head_init(&st->x.request, st->x.request_arena, 12))
        h2_head_no_room(st);
    buf_init(&st->in, LIMIT_H2_STREAM_WINDOW);
    buf_init(&st->out, LIMIT_STREAM_OUTPUT_HARD);
    buf_charge(&st->in, &c->fc->memory.held);
    buf_charge(&st->out, &c->fc->memory.held);
    st->x.ops = ops;
    st->x.stats = c->fc->host->stats;
    st->x.clients = c->fc->host->clients;
    st->x.quota = &c->fc->memory.held;
    st->x.turns = c->fc->turns;
    st->x.heads = &c->fc->memory;
    st->x.client = (struct exchange_client){
        .address = stream_remote_text(c->stream),
        .ip = stream_remote_ip(c->stream),
        .tls = stream_tls_peer(c->stream),
        .protocol = "HTTP/2.0",
        .connection_id = c->fc->id,
    };
    list_push_back(&c->streams, &st->node);
    front_conn_idle(c->fc, false);
    return st;
}

static void free_stream(void *arg)
{
    struct h2_stream *st = arg;
    struct arena *arena = st->x.arena; /* which it lies in */

    must_hold(!exchange_held(&st->x)); /* the proxy would go on with it */
    buf_free(&st->in);
    buf_free(&st->out);
    exchange_forget_request(&st->x);
    arena_pool_give(&st->c->fc->host->arenas, arena);
}

void h2_stream_free_later(struct h2_stream *st)
{
    struct h2_conn *c = st->c;

    h2_stream_receive(st, H2_RECEIVED);
    must_hold(c->n_waiting >= st->waiting);
    c->n_waiting -= st->waiting;
    list_remove(&c->streams, &st->node);
    front_conn_idle(c->fc, c->streams.count == 0 && c->state != H2_CLOSED);
    if (list_linked(&st->woken))
        list_remove(&c->woken, &st->woken);
    lifetime_retire(&st->life, free_stream, st);
}

void h2_stream_wake(struct h2_stream *st)
{
    if (!list_linked(&st->woken))
        list_push_back(&st->c->woken, &st->woken);
    h2_conn_wake(st->c);
}

void h2_stream_reset(struct h2_stream *st, uint32_t code)
{
    struct h2_conn *c = st->c;

    if (st->sending == H2_RESET)
        return;
    h2_stream_send(st, H2_RESET);
    if (nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, st->id, code) != 0)
        c->no_memory = true;
    h2_conn_wake(c);
}

void h2_stream_answered(struct h2_stream *st)
{
    struct h2_conn *c = st->c;

    if (st->sending != H2_ENDING)
        return;
    h2_stream_send(st, H2_ANSWERED);
    st->taken_ms = loop_now_ms(c->fc->host->loop);
    if (c->stall_due_ms > st->taken_ms + H2_ANSWERED_MS)
        c->stall_due_ms = st->taken_ms + H2_ANSWERED_MS;
}

void h2_stream_closed(struct h2_stream *st, uint32_t code)
{
    h2_stream_free_later(st);
    exchange_give_gone(&st->x, code == NGHTTP2_NO_ERROR || code == NGHTTP2_CANCEL ? "client cancelled the request"
                                                                                  : nghttp2_http2_strerror(code));
}

/* What waits is freed when the stream is: nghttp2 may be in the middle of a frame of it. */
void h2_stream_not_taken(struct h2_stream *st)
{
    struct h2_conn *c = st->c;

    front_stats_not_taken(c->fc->host->stats);
    log_v(3, "Response abandoned", LU("connection", c->fc->id), LT("client", st->x.client.address),
          LT("reason", "client takes nothing of it"));
    exchange_give_gone(&st->x, "client takes nothing of the answer");
    h2_stream_reset(st, NGHTTP2_CANCEL);
}
