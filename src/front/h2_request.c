/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h2_request.h"

#include "front/h2_answer.h"
#include "front/h2_head.h"
#include "front/h2_stream.h"
#include "http/h1_parse.h"

/* What makes it impossible to go on with a request: the answer is ours if none has begun. */
static void refuse(struct h2_stream *st, unsigned status, const char *why)
{
    exchange_give_gone(&st->x, why);
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

void h2_request_begin(struct h2_stream *st, bool ended)
{
    struct h2_conn *c = st->c;
    struct front_host *host = c->fc->host;
    struct exchange *x = &st->x;
    unsigned status;
    const char *bad = h2_head_check(st, &status);

    x->client.sequence = front_conn_count_request(c->fc);
    st->progress_ms = loop_now_ms(host->loop);
    h2_stream_receive(st, ended ? H2_RECEIVED : H2_BODY);
    if (bad == NULL && front_conn_must_wait(c->fc)) {
        bad = "clients hold too much memory";
        status = 429;
    }
    if (bad != NULL) {
        h2_answer_refuse(st, status, bad);
        st->refusal = 0; /* that was it: what trailers will be refused for is another matter */
        return;
    }
    x->request_body = body_of(&x->request, ended);
    x->expects_continue = !ended && h1_expects_continue(&x->request);
    st->continue_pending = x->expects_continue;
    exchange_begin(x);
    host->on_request(x, host->arg);
    if (x->of_peer && !st->c->of_peer) {
        st->c->of_peer = true;
        memory_lift_heads(&st->c->fc->memory);
    }
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
    h2_stream_receive(st, H2_RECEIVED);
    exchange_give_end(&st->x, &st->trailers);
}

void h2_request_body(struct h2_stream *st, struct slice data)
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

void h2_request_end(struct h2_stream *st)
{
    if (st->receiving != H2_BODY)
        return;
    h2_stream_receive(st, H2_ENDED);
    if (st->refusal != 0)
        refuse(st, st->refusal, st->refusal_reason);
    else
        h2_request_deliver(st);
}

void h2_request_deliver(struct h2_stream *st)
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

void h2_request_stalled(struct h2_stream *st)
{
    refuse(st, 408, "request body stalled");
}
