/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h2_answer.h"

#include "base/contract.h"
#include "base/log.h"
#include "front/h2_head.h"
#include "front/h2_stream.h"
#include "front/refusal.h"
#include "http/h1_parse.h"

static struct h2_stream *stream_of(struct exchange *x)
{
    return list_entry(x, struct h2_stream, x);
}

/* ---- nghttp2 fetches what was given ---- */

ssize_t h2_answer_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length, uint32_t *flags,
                       nghttp2_data_source *source, void *arg)
{
    struct h2_stream *st = source->ptr;
    size_t n = buf_len(&st->out);

    must_hold(st->id == id);
    (void)buf;
    (void)arg;
    if (n == 0 && st->sending == H2_ANSWERING) {
        st->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > length)
        n = length;
    if (n > 0)
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (st->sending == H2_ENDING && n == buf_len(&st->out)) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (st->n_trailer_nva > 0) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (nghttp2_submit_trailer(session, id, st->trailer_nva, st->n_trailer_nva) != 0)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
    }
    return (ssize_t)n;
}

static void sent(struct h2_stream *st, size_t n)
{
    buf_consume(&st->out, n);
    st->taken_ms = loop_now_ms(st->c->fc->host->loop);
    h2_stream_out_changed(st);
    if (buf_len(&st->out) == 0)
        buf_release(&st->out); /* ten thousand watches that wait need none */
    if (st->full && buf_len(&st->out) <= LIMIT_H2_OUTPUT_LOW) {
        st->full = false;
        st->was_full = true;
        h2_stream_wake(st);
    }
}

int h2_answer_send(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t length,
                   nghttp2_data_source *source, void *arg)
{
    enum { FRAME_HEAD_BYTES = 9 };
    struct h2_stream *st = source->ptr;
    struct h2_conn *c = arg;

    (void)session;
    must_hold(st->c == c && st->id == frame->hd.stream_id); /* never padded: we set no callback that would ask for it */
    must_hold(length <= buf_len(&st->out));
    if (stream_congested(c->stream))
        return NGHTTP2_ERR_WOULDBLOCK;
    if (!h2_conn_write(c, slice_of((const char *)head, FRAME_HEAD_BYTES)) ||
        !h2_conn_write(c, slice_of(buf_slice(&st->out).p, length)))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    sent(st, length);
    return 0;
}

static void fetch(struct h2_stream *st)
{
    if (st->deferred) {
        st->deferred = false;
        if (nghttp2_session_resume_data(st->c->session, st->id) == NGHTTP2_ERR_NOMEM)
            st->c->no_memory = true;
    }
    h2_conn_wake(st->c);
}

static bool submit_head(struct h2_stream *st, const nghttp2_nv *nva, size_t n, bool with_body)
{
    nghttp2_data_provider provider = {.source.ptr = st, .read_callback = h2_answer_read};

    return nghttp2_submit_response(st->c->session, st->id, nva, n, with_body ? &provider : NULL) == 0;
}

/* ---- the proxy's calls ---- */

static bool answer_interim(struct exchange *x, const struct http_head *head)
{
    struct h2_stream *st = stream_of(x);
    size_t n;
    nghttp2_nv *nva = h2_head_response(st, head, (struct http_body){HTTP_BODY_NONE, 0}, &n);

    if (nva == NULL || nghttp2_submit_headers(st->c->session, NGHTTP2_FLAG_NONE, st->id, NULL, nva, n, NULL) != 0)
        return false;
    if (head->status == 100)
        st->continue_pending = false;
    h2_conn_wake(st->c);
    return true;
}

static bool answer_respond(struct exchange *x, const struct http_head *head)
{
    struct h2_stream *st = stream_of(x);
    bool whole = x->bodyless || (x->answer.kind == HTTP_BODY_LENGTH && x->answer.length == 0);
    size_t n;
    nghttp2_nv *nva = h2_head_response(st, head, x->answer, &n);

    if (nva == NULL)
        return false;
    st->c->send_away |= x->sent_away;
    if (!whole) {
        if (!submit_head(st, nva, n, true))
            return false;
        h2_conn_wake(st->c);
    } else if (!h2_head_keep(st, nva, n)) {
        return false;
    } else { /* goes out with its end, in one frame */
        st->nva = nva;
        st->n_nva = n;
    }
    h2_stream_send(st, H2_ANSWERING);
    return true;
}

static bool answer_body(struct exchange *x, struct slice data)
{
    struct h2_stream *st = stream_of(x);

    if (!buf_append(&st->out, data))
        return false;
    h2_stream_out_changed(st);
    /* Behind a socket that takes nothing now one piece is enough. */
    if (buf_len(&st->out) >= LIMIT_H2_OUTPUT_HIGH || stream_congested(st->c->stream))
        st->full = true;
    fetch(st);
    return true;
}

static bool answer_congested(const struct exchange *x)
{
    return list_entry(x, struct h2_stream, x)->full;
}

static bool end_response(struct h2_stream *st, const struct http_head *trailers)
{
    if (trailers != NULL && trailers->n_fields > 0 && !st->x.bodyless) {
        st->trailer_nva = h2_head_trailers(st, trailers, &st->n_trailer_nva);
        if (st->trailer_nva == NULL || !h2_head_keep(st, st->trailer_nva, st->n_trailer_nva))
            return false;
    }
    h2_stream_send(st, H2_ENDING);
    if (st->nva == NULL)
        return true;
    return submit_head(st, st->nva, st->n_nva, st->n_trailer_nva > 0);
}

static void answer_finish(struct exchange *x, const struct http_head *trailers)
{
    struct h2_stream *st = stream_of(x);

    if (end_response(st, trailers))
        fetch(st);
    else
        h2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
}

static void answer_abort(struct exchange *x, const char *reason)
{
    struct h2_stream *st = stream_of(x);

    log_v(3, "Response aborted", LU("connection", st->c->fc->id), LT("client", x->client.address),
          LT("reason", reason));
    h2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
}

static struct stream *answer_upgrade(struct exchange *x, const struct http_head *head)
{
    (void)head; /* HTTP/2 has no upgrades: x->wants_upgrade is never set */
    answer_abort(x, "upgrade on HTTP/2");
    return NULL;
}

static void answer_doomed(struct exchange *x)
{
    h2_stream_wake(stream_of(x));
}

static void answer_pause(struct exchange *x)
{
    stream_of(x)->body_paused = true;
}

static void answer_resume(struct exchange *x)
{
    struct h2_stream *st = stream_of(x);

    if (!st->body_paused)
        return;
    st->body_paused = false;
    /* The time that a client needs for more begins now. */
    st->progress_ms = loop_now_ms(st->c->fc->host->loop);
    exchange_await_body(x);
    h2_stream_wake(st);
}

const struct exchange_ops *h2_answer_ops(void)
{
    static const struct exchange_ops ops = {
        .interim = answer_interim,
        .respond = answer_respond,
        .body = answer_body,
        .congested = answer_congested,
        .finish = answer_finish,
        .abort = answer_abort,
        .upgrade = answer_upgrade,
        .doomed = answer_doomed,
        .pause = answer_pause,
        .resume = answer_resume,
    };

    return &ops;
}

/* ---- our own answers ---- */

static bool refusal(struct h2_stream *st, unsigned status, const char *message)
{
    struct front_host *host = st->c->fc->host;
    struct http_field fields[REFUSAL_FIELDS];
    struct http_head head;
    bool bodyless = st->x.request.method_id == HTTP_HEAD;
    nghttp2_nv *nva;
    size_t n;

    refusal_make(host, status, message, fields, &head, &st->out);
    if (st->out.failed)
        return false;
    h2_stream_out_changed(st);
    nva = h2_head_response(st, &head, (struct http_body){HTTP_BODY_LENGTH, buf_len(&st->out)}, &n);
    h2_stream_send(st, H2_ENDING);
    return nva != NULL && submit_head(st, nva, n, !bodyless);
}

void h2_answer_refuse(struct h2_stream *st, unsigned status, const char *message)
{
    struct h2_conn *c = st->c;

    front_stats_refused(c->fc->host->stats, status);
    log_v(3, "Request refused", LU("connection", c->fc->id), LT("client", stream_remote_text(c->stream)),
          LU("code", status), LT("reason", message));
    if (refusal(st, status, message))
        h2_conn_wake(c);
    else
        h2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
    exchange_forget_request(&st->x);
}
