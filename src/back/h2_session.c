/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nghttp2 calls. Frames, stream states, header compression and the rules of HTTP messages (RFC 9113 section 8) are
 * nghttp2's; what a server may cost us is counted here.
 */
#include "back/h2_session.h"

#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/h2_fields.h"
#include "http/h2_open.h"
#include "net/stream.h"

static struct h2_call *call_of(nghttp2_session *session, int32_t id)
{
    struct h2_call *call = id == 0 ? NULL : nghttp2_session_get_stream_user_data(session, id);

    must_hold(call == NULL || (call->id == id && call->c != NULL)); /* no byte of another's stream */
    return call;
}

/* What our bodies account for, and a reset for each request: Go's servers reset what they have answered early. */
static bool is_due(struct h2_client *c, const nghttp2_frame_hd *hd)
{
    uint64_t *due = hd->type == NGHTTP2_WINDOW_UPDATE ? &c->updates_due : &c->resets_due;

    if ((hd->type != NGHTTP2_WINDOW_UPDATE && hd->type != NGHTTP2_RST_STREAM) || *due == 0)
        return false;
    --*due;
    return true;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
    struct h2_client *c = arg;

    (void)session;
    if (h2_frame_is_cheap(hd) && !is_due(c, hd) && h2_client_rate_exceeded(c, &c->control, LIMIT_H2_CONTROL_FRAMES))
        h2_client_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, CLOSE_FLOOD, "too many frames that carry nothing");
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_call *call = call_of(session, frame->hd.stream_id);

    (void)arg;
    if (call != NULL)
        h2_call_fields_begin(call);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct h2_call *call = call_of(session, frame->hd.stream_id);

    (void)flags;
    (void)arg;
    if (call != NULL)
        h2_call_field(call, slice_of((const char *)name, name_len), slice_of((const char *)value, value_len));
    return 0;
}

/* nghttp2 would pass over such a field; an answer that is odd in one place is not trusted in the others. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
                             const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
    struct h2_call *call = call_of(session, frame->hd.stream_id);

    (void)name;
    (void)name_len;
    (void)value;
    (void)value_len;
    (void)flags;
    (void)arg;
    if (call != NULL && call->bad == NULL)
        call->bad = "invalid field";
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_client *c = arg;
    bool ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    struct h2_call *call = call_of(session, frame->hd.stream_id);

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (call != NULL)
            h2_call_fields_end(call, ended);
        break;
    case NGHTTP2_DATA:
        if (call != NULL && ended)
            h2_call_end(call);
        break;
    case NGHTTP2_SETTINGS:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
            h2_client_heard_settings(c);
        break;
    case NGHTTP2_GOAWAY:
        log_v(3, "Server ends HTTP/2 connection", LT("server", c->origin->server),
              LT("code", nghttp2_http2_strerror(frame->goaway.error_code)), LU("streams", c->calls.count));
        h2_client_leave(c);
        break;
    default:
        break;
    }
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code, void *arg)
{
    struct h2_client *c = arg;
    struct h2_call *call = call_of(session, frame->hd.stream_id);

    if (call != NULL && call->bad == NULL)
        call->bad = nghttp2_strerror(code);
    log_v(4, "Bad HTTP/2 frame of server", LT("server", c->origin->server), LU("type", frame->hd.type),
          LU("stream", (uint64_t)frame->hd.stream_id), LT("reason", nghttp2_strerror(code)));
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n, void *arg)
{
    struct h2_client *c = arg;
    struct h2_call *call = call_of(session, id);

    (void)flags;
    /* The window of the connection belongs to all streams: one that is paused must not hold it. */
    if (nghttp2_session_consume_connection(session, n) != 0)
        h2_client_note_broken(c, CLOSE_NO_MEMORY, "out of memory");
    if (call != NULL)
        h2_call_data(call, slice_of((const char *)data, n));
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    struct h2_call *call = call_of(session, id);

    (void)arg;
    if (call != NULL)
        h2_call_closed(call, code);
    return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_client *c = arg;
    struct h2_call *call;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        call = call_of(session, frame->hd.stream_id);
        if (call != NULL && !call->submitted) {
            call->submitted = true;
            c->resets_due++;
        }
        break;
    case NGHTTP2_DATA:
        c->updates_due += H2_UPDATES_PER_FRAME + frame->hd.length / H2_BYTES_PER_UPDATE;
        break;
    case NGHTTP2_RST_STREAM:
        /* nghttp2 would let the others go on; but whoever ignores windows makes us hold what we said we would not. */
        if (frame->rst_stream.error_code == NGHTTP2_FLOW_CONTROL_ERROR)
            h2_client_fail(c, NGHTTP2_FLOW_CONTROL_ERROR, CLOSE_FLOW_CONTROL, "server ignores a stream's window");
        break;
    case NGHTTP2_GOAWAY:
        if (frame->goaway.error_code != NGHTTP2_NO_ERROR)
            h2_client_note_broken(
                c, frame->goaway.error_code == NGHTTP2_FLOW_CONTROL_ERROR ? CLOSE_FLOW_CONTROL : CLOSE_PROTOCOL,
                nghttp2_http2_strerror(frame->goaway.error_code));
        break;
    default:
        break;
    }
    return 0;
}

static void set_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(cb, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
}

nghttp2_session *h2_client_session_new(struct h2_client *c)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LIMIT_H2_BACK_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LIMIT_HEAD_BYTES},
    };

    return h2_session_open(&(struct h2_opening){
        .set_callbacks = set_callbacks,
        .arg = c,
        .settings = settings,
        .n_settings = sizeof(settings) / sizeof(settings[0]),
        .window = LIMIT_H2_BACK_CONNECTION_WINDOW,
    });
}
