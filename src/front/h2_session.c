/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h2_session.h"

#include "base/clock.h"
#include "base/contract.h"
#include "base/log.h"
#include "front/h2_answer.h"
#include "front/h2_head.h"
#include "front/h2_request.h"
#include "front/h2_stream.h"
#include "http/h2_fields.h"
#include "http/h2_open.h"

enum { RATE_MS = 1000 };

/* ---- what came in ---- */

static struct h2_stream *stream_by(nghttp2_session *session, int32_t id)
{
    struct h2_stream *st = nghttp2_session_get_stream_user_data(session, id);

    must_hold(st == NULL || st->id == id); /* no byte of another's stream */
    return st;
}

/* Counts one; true beyond the limit. */
static bool rate_exceeded(struct h2_conn *c, struct h2_rate *r, unsigned limit)
{
    uint64_t now = loop_now_ms(c->fc->host->loop);

    if (now - r->since_ms >= RATE_MS)
        *r = (struct h2_rate){now, 0};
    return ++r->count > limit;
}

static bool is_due(struct h2_conn *c)
{
    if (c->updates_due == 0)
        return false;
    c->updates_due--;
    return true;
}

/* What another mvproxy resets was counted there, by client. */
static bool is_cheap(struct h2_conn *c, const nghttp2_frame_hd *hd)
{
    const struct h2_stream *st;

    if (hd->type == NGHTTP2_WINDOW_UPDATE)
        return !is_due(c);
    if (hd->type == NGHTTP2_RST_STREAM && c->of_peer)
        return false;
    if (h2_frame_is_cheap(hd) || hd->type != NGHTTP2_CONTINUATION)
        return h2_frame_is_cheap(hd);
    st = stream_by(c->session, hd->stream_id);
    return st == NULL || st->refusal != 0; /* the rest of what is not read any more */
}

/*
 * RFC 9113 5.1.1: a stream that a client has skipped it may not open afterwards. nghttp2 takes such HEADERS for
 * trailers of a stream that was reset, and ignores them; the ids skipped last are enough to tell the two apart.
 */
static bool opens_backwards(struct h2_conn *c, int32_t id)
{
    if (id <= c->last_id)
        return id >= c->skipped_from && id <= c->skipped_to;
    if (id > c->last_id + 2) {
        c->skipped_from = c->last_id + 2;
        c->skipped_to = id - 2;
    }
    c->last_id = id;
    return false;
}

/*
 * HEADERS that nobody is told of, though they must be read: of what a client opens behind our last GOAWAY (RFC 9113
 * 6.8), and of streams that are over or were refused.
 */
static bool comes_too_late(const struct h2_conn *c, const nghttp2_frame_hd *hd)
{
    if (hd->type != NGHTTP2_HEADERS)
        return false;
    return hd->stream_id > c->last_id ? c->state >= H2_LEAVING : stream_by(c->session, hd->stream_id) == NULL;
}

static void count_control(struct h2_conn *c)
{
    if (rate_exceeded(c, &c->control, LIMIT_H2_CONTROL_FRAMES))
        h2_conn_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, FRONT_CLOSE_FLOOD);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
    struct h2_conn *c = arg;

    (void)session;
    if (is_cheap(c, hd) || comes_too_late(c, hd))
        count_control(c);
    if (hd->type == NGHTTP2_HEADERS && hd->stream_id % 2 == 1 && opens_backwards(c, hd->stream_id))
        h2_conn_fail(c, NGHTTP2_PROTOCOL_ERROR, FRONT_CLOSE_BAD_REQUEST);
    return 0;
}

/* They have a limit of their own. */
static void trailers_begin(struct h2_stream *st)
{
    if (st != NULL)
        st->head_bytes = st->head_fields = 0;
}

static bool request_begins(struct h2_conn *c, int32_t id)
{
    struct h2_stream *st = h2_stream_new(c, id, h2_answer_ops());

    if (st == NULL)
        return false;
    /* Fails only for a stream that is not there. */
    if (nghttp2_session_set_stream_user_data(c->session, id, st) == 0)
        return true;
    h2_stream_free_later(st);
    return false;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_conn *c = arg;

    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        trailers_begin(stream_by(session, frame->hd.stream_id));
    else if (!request_begins(c, frame->hd.stream_id))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* of whose end nobody is told */
    else
        c->updates_due += H2_UPDATES_PER_FRAME; /* some clients open each stream's window */
    c->head_since_ms = loop_now_ms(c->fc->host->loop);
    c->head_id = frame->hd.stream_id;
    return 0;
}

/* So many of a head have been decoded. False: enough for this look, nghttp2 has to stop. */
static bool count_head(struct h2_conn *c, size_t n)
{
    c->head_bytes += n;
    c->stopped = c->late || c->head_bytes >= (c->has_turn ? H2_HEADS_AT_ONCE : H2_HEADS_DEAR);
    return !c->stopped;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct h2_stream *st = stream_by(session, frame->hd.stream_id);
    struct slice n = slice_of((const char *)name, name_len), v = slice_of((const char *)value, value_len);

    (void)flags;
    if (st != NULL && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        h2_head_field(st, n, v);
    else if (st != NULL)
        h2_head_trailer(st, n, v);
    return count_head(arg, name_len + value_len) ? 0 : NGHTTP2_ERR_PAUSE;
}

/* 16 KB may be heads of a thousand requests: those behind what has taken our time wait, from the next one's first field
 * on, where nghttp2 can be stopped. */
static void headers_complete(struct h2_conn *c, struct h2_stream *st, const nghttp2_frame *frame)
{
    bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        h2_request_begin(st, ended);
        c->late = clock_us() >= c->look_end_us;
    } else if (ended) {
        h2_request_end(st);
    }
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_conn *c = arg;
    struct h2_stream *st = frame->hd.stream_id == 0 ? NULL : stream_by(session, frame->hd.stream_id);

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        c->head_since_ms = 0;
        if (st != NULL)
            headers_complete(c, st, frame);
        break;
    case NGHTTP2_DATA:
        if (st != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
            h2_request_end(st);
        break;
    case NGHTTP2_RST_STREAM:
        if (st != NULL)
            st->reset_by_client = true;
        break;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0 && c->state == H2_ANNOUNCED)
            c->heard = true;
        break;
    default:
        break;
    }
    return 0;
}

/*
 * A stream beyond LIMIT_H2_STREAMS that the client opens without having acknowledged our SETTINGS is refused by
 * nghttp2, and that is all we hear of it. No reset: it may have sent some in good faith.
 */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code, void *arg)
{
    struct h2_conn *c = arg;

    (void)session;
    if (frame->hd.type == NGHTTP2_HEADERS)
        c->head_since_ms = 0;
    if (code == NGHTTP2_ERR_REFUSED_STREAM)
        count_control(c);
    log_v(4, "Bad HTTP/2 frame", LU("connection", c->fc->id), LT("client", stream_remote_text(c->stream)),
          LU("type", frame->hd.type), LU("stream", (uint64_t)frame->hd.stream_id),
          LT("reason", nghttp2_strerror(code)));
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n, void *arg)
{
    struct h2_stream *st = stream_by(session, id);

    (void)flags;
    (void)arg;
    /* Of a stream that we have refused or reset nghttp2 shows no more, and opens the connection's window by itself. */
    if (st != NULL)
        h2_request_body(st, slice_of((const char *)data, n));
    return 0;
}

/*
 * Rapid reset (CVE-2023-44487) and its sister, errors on purpose that make us reset (CVE-2025-8671): requests begun and
 * thrown away make work without being limited by the number of streams. The code says nothing about that. What we reset
 * by ourselves is not the client's doing.
 */
static bool thrown_away(const struct h2_stream *st)
{
    return st->sending == H2_NOTHING || (st->reset_by_client && st->sending != H2_ANSWERED && st->sending != H2_RESET);
}

/*
 * Many connections must not do together what one may not. Of what the proxy was shown (`asked`) there is an account for
 * all connections of its client, by which his next requests are refused (exchange_may_ask()). What another mvproxy
 * passes on was counted there, by client; here it would end the requests of its other clients. So would what one client
 * of another proxy gives up (`behind`).
 */
static bool too_many_thrown_away(struct h2_conn *c, bool behind, bool asked)
{
    bool too_many;

    if (behind || c->of_peer)
        return false;
    too_many = rate_exceeded(c, &c->resets, LIMIT_H2_RESETS);
    if (!asked)
        too_many |= !clients_may_cancel(&c->fc->client, loop_now_ms(c->fc->host->loop), LIMIT_CLIENT_RESETS);
    return too_many;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    struct h2_conn *c = arg;
    struct h2_stream *st = stream_by(session, id);
    bool behind, asked, thrown;

    /* Of the end of a head (trailers) whose stream is closed nobody is told. */
    if (c->head_id == id)
        c->head_since_ms = 0;
    if (st == NULL)
        return 0;
    behind = st->x.behind != 0;
    asked = st->x.phase != EXCHANGE_UNUSED;
    thrown = thrown_away(st);
    h2_stream_closed(st, code);
    if (c->streams.count == 0) {
        c->idle_since_ms = loop_now_ms(c->fc->host->loop);
        c->untaken_seen = SIZE_MAX;
    }
    if (thrown && too_many_thrown_away(c, behind, asked))
        h2_conn_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, FRONT_CLOSE_FLOOD);
    return 0;
}

/* ---- what went out ---- */

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_conn *c = arg;
    bool may_end = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    struct h2_stream *st;

    if (frame->hd.type == NGHTTP2_DATA)
        c->updates_due += H2_UPDATES_PER_FRAME + frame->hd.length / H2_BYTES_PER_UPDATE;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR &&
        (c->state == H2_SERVING || c->state == H2_ANNOUNCED || c->state == H2_LEAVING)) {
        c->close_reason = FRONT_CLOSE_BAD_REQUEST;
        log_v(3, "HTTP/2 protocol error", LU("connection", c->fc->id), LT("client", stream_remote_text(c->stream)),
              LT("reason", nghttp2_http2_strerror(frame->goaway.error_code)));
        c->failed_ms = loop_now_ms(c->fc->host->loop);
        h2_conn_move(c, H2_FAILING);
    }
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.last_stream_id < INT32_MAX)
        c->parting = false;
    /* nghttp2 would let the others go on; but whoever ignores windows makes us hold what we said we would not. */
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code == NGHTTP2_FLOW_CONTROL_ERROR)
        h2_conn_fail(c, NGHTTP2_FLOW_CONTROL_ERROR, FRONT_CLOSE_BAD_REQUEST);
    if (!may_end || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
        return 0;
    st = stream_by(session, frame->hd.stream_id);
    if (st != NULL && st->receiving == H2_BODY)
        h2_stream_answered(st);
    return 0;
}

/* nghttp2 drops a head that it cannot send, and with it the answer: nobody would ever hear of the stream again. */
static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int code, void *arg)
{
    struct h2_stream *st = frame->hd.type == NGHTTP2_HEADERS ? stream_by(session, frame->hd.stream_id) : NULL;

    (void)code;
    (void)arg;
    if (st != NULL)
        h2_stream_reset(st, NGHTTP2_INTERNAL_ERROR);
    return 0;
}

/* ---- making one ---- */

static void set_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
    nghttp2_session_callbacks_set_send_data_callback(cb, h2_answer_send);
}

nghttp2_session *h2_session_new(struct h2_conn *c)
{
    size_t most = c->fc->limits.max_head_bytes;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, LIMIT_H2_STREAMS},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LIMIT_H2_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, most < UINT32_MAX ? (uint32_t)most : UINT32_MAX},
    };

    return h2_session_open(&(struct h2_opening){
        .server = true,
        .set_callbacks = set_callbacks,
        .arg = c,
        .settings = settings,
        .n_settings = sizeof(settings) / sizeof(settings[0]),
        .window = LIMIT_H2_CONNECTION_WINDOW,
        .quota = &c->fc->memory.held,
    });
}
