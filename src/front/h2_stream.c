#include "front/h2_stream.h"

#include "base/log.h"
#include "front/h2_answer.h"
#include "front/h2_head.h"
#include "http/h1_parse.h"

/* ---- state and life ---- */

static void move(struct h2_stream *st, enum h2_receiving to)
{
    struct h2_conn *c = st->c;

    if (st->receiving == H2_BODY)
        c->n_bodies--;
    if (to == H2_BODY) {
        h2_conn_expect(c);
        c->n_bodies++;
    }
    st->receiving = to;
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
        c->n_waiting--;
        return;
    }
    h2_conn_expect(c);
    c->n_waiting++;
}

struct h2_stream *h2_stream_new(struct h2_conn *c, int32_t id)
{
    struct arena_pool *arenas = &c->fc->host->arenas;
    struct arena *arena = arena_pool_take(arenas, &c->fc->memory.held);
    struct h2_stream *st = arena == NULL ? NULL : arena_zalloc(arena, sizeof(*st));

    if (st == NULL) {
        arena_pool_give(arenas, arena);
        return NULL;
    }
    st->c = c;
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
    st->x.ops = h2_answer_ops();
    st->x.stats = c->fc->host->stats;
    st->x.client = (struct exchange_client){
        .address = stream_remote_text(c->stream),
        .ip = stream_remote_ip(c->stream),
        .tls = stream_tls_peer(c->stream),
        .protocol = "HTTP/2.0",
        .connection_id = c->fc->id,
    };
    list_push_back(&c->streams, &st->node);
    return st;
}

static void free_stream(void *arg)
{
    struct h2_stream *st = arg;
    struct arena *arena = st->x.arena; /* which it lies in */

    buf_free(&st->in);
    buf_free(&st->out);
    exchange_forget_request(&st->x);
    arena_pool_give(&st->c->fc->host->arenas, arena);
}

void h2_stream_free_later(struct h2_stream *st)
{
    struct h2_conn *c = st->c;

    move(st, H2_RECEIVED);
    c->n_waiting -= st->waiting;
    st->waiting = false;
    list_remove(&c->streams, &st->node);
    if (list_linked(&st->woken))
        list_remove(&c->woken, &st->woken);
    loop_defer(c->fc->host->loop, &st->gone, free_stream, st);
}

void h2_stream_reset(struct h2_stream *st, uint32_t code)
{
    struct h2_conn *c = st->c;

    if (st->sending == H2_RESET)
        return;
    st->sending = H2_RESET;
    if (nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, st->id, code) != 0)
        c->no_memory = true;
    h2_conn_wake(c);
}

void h2_stream_closed(struct h2_stream *st, uint32_t code)
{
    h2_stream_free_later(st);
    exchange_give_gone(&st->x, code == NGHTTP2_NO_ERROR || code == NGHTTP2_CANCEL ? "client cancelled the request"
                                                                                  : nghttp2_http2_strerror(code));
}

/* What makes it impossible to go on with a request: the answer is ours if none has begun. */
static void refuse(struct h2_stream *st, unsigned status, const char *why)
{
    exchange_give_gone(&st->x, why);
    move(st, st->receiving == H2_ENDED ? H2_RECEIVED : st->receiving);
    if (st->sending == H2_NOTHING)
        h2_answer_refuse(st, status, why);
    else
        h2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
}

/* ---- the request ---- */

static struct http_body body_of(const struct http_head *head, bool ended)
{
    struct http_body body = {HTTP_BODY_CHUNKED, 0};

    if (ended)
        body.kind = HTTP_BODY_NONE;
    /* An announced length of 0 whose end is still to come is left open: the end will tell. */
    else if (h1_content_length(head, &body.length) && body.length > 0)
        body.kind = HTTP_BODY_LENGTH;
    return body;
}

void h2_stream_request(struct h2_stream *st, bool ended)
{
    struct h2_conn *c = st->c;
    struct front_host *host = c->fc->host;
    struct exchange *x = &st->x;
    unsigned status;
    const char *bad = h2_head_check(st, &status);

    x->client.sequence = front_conn_count_request(c->fc);
    st->progress_ms = loop_now_ms(host->loop);
    move(st, ended ? H2_RECEIVED : H2_BODY);
    if (bad == NULL && front_conn_must_wait(c->fc)) {
        bad = "clients hold too much memory";
        status = 429;
    }
    if (bad != NULL) {
        h2_answer_refuse(st, status, bad);
        return;
    }
    x->request_body = body_of(&x->request, ended);
    x->expects_continue = !ended && h1_expects_continue(&x->request);
    st->continue_pending = x->expects_continue;
    exchange_begin(x);
    host->on_request(x, host->arg);
    if (!exchange_taken(x))
        refuse(st, 500, "request was not handled");
}

/* The window of the stream opens again by what was taken. */
static void give(struct h2_stream *st, struct slice data)
{
    if (nghttp2_session_consume_stream(st->c->session, st->id, data.n) != 0)
        st->c->no_memory = true;
    exchange_give_body(&st->x, data);
}

static void give_end(struct h2_stream *st)
{
    move(st, H2_RECEIVED);
    exchange_give_end(&st->x, &st->trailers);
}

void h2_stream_body(struct h2_stream *st, struct slice data)
{
    st->progress_ms = loop_now_ms(st->c->fc->host->loop);
    st->continue_pending = false;
    /* The window of the connection belongs to all streams: one that is paused must not hold it. */
    if (nghttp2_session_consume_connection(st->c->session, data.n) != 0)
        st->c->no_memory = true;
    if (!exchange_held(&st->x))
        return;
    if (!st->body_paused && buf_len(&st->in) == 0)
        give(st, data);
    else if (!buf_append(&st->in, data))
        refuse(st, 503, "out of memory");
}

void h2_stream_end(struct h2_stream *st)
{
    if (st->receiving != H2_BODY)
        return;
    move(st, H2_ENDED);
    if (st->refusal != 0)
        refuse(st, st->refusal, st->refusal_reason);
    else
        h2_stream_deliver(st);
}

void h2_stream_deliver(struct h2_stream *st)
{
    while (!st->body_paused && exchange_held(&st->x) && buf_len(&st->in) > 0) {
        struct slice piece = buf_slice(&st->in);

        if (piece.n > 16 << 10)
            piece.n = 16 << 10;
        give(st, piece);
        buf_consume(&st->in, piece.n);
    }
    if (buf_len(&st->in) > 0 && exchange_held(&st->x))
        return;
    buf_release(&st->in);
    if (st->receiving == H2_ENDED && !st->body_paused)
        give_end(st);
}

/* What waits is freed when the stream is: nghttp2 may be in the middle of a frame of it. */
void h2_stream_not_taken(struct h2_stream *st)
{
    struct h2_conn *c = st->c;

    front_stats_not_taken(c->fc->host->stats);
    log_v(3, "Answer given up", LU("connection", c->fc->id), LT("client", st->x.client.address),
          LT("reason", "client takes nothing of it"));
    exchange_give_gone(&st->x, "client takes nothing of the answer");
    h2_stream_reset(st, NGHTTP2_CANCEL);
}

void h2_stream_stalled(struct h2_stream *st)
{
    refuse(st, 408, "request body stalled");
}
