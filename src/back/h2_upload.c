/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's body on its way out over HTTP/2: what the owner gives waits in the call's buffer for the server's windows
 * and is taken from there when nghttp2 makes DATA frames of it.
 */
#include "back/h2_call.h"
#include "base/limits.h"

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
                       nghttp2_data_source *source, void *arg)
{
    /* Not from `source`: the request may be gone, with its reset yet to be sent. */
    struct h2_call *call = nghttp2_session_get_stream_user_data(session, id);
    struct slice waiting;

    (void)source;
    (void)arg;
    if (call == NULL)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    waiting = buf_slice(&call->out);
    if (waiting.n == 0 && !call->r->body_finished) {
        call->starved = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (waiting.n > room)
        waiting.n = room;
    memcpy(to, waiting.p, waiting.n);
    buf_consume(&call->out, waiting.n);
    call->moved_ms = loop_now_ms(call->r->back->loop);
    if (call->r->body_finished && buf_len(&call->out) == 0) {
        *flags = NGHTTP2_DATA_FLAG_EOF;
        call->uploaded = true;
    }
    if (buf_len(&call->out) <= LIMIT_H2_OUTPUT_LOW)
        request_wants_body(call->r);
    return (ssize_t)waiting.n;
}

const nghttp2_data_provider *h2_call_upload(struct h2_call *call)
{
    static const nghttp2_data_provider provider = {.read_callback = on_read};

    call->starved = false;
    call->uploaded = call->r->opts.body.kind == HTTP_BODY_NONE || call->r->opts.body.length == 0;
    return call->uploaded ? NULL : &provider;
}

/* There is something to send, the end perhaps. */
static void feed(struct h2_call *call)
{
    if (call->starved && nghttp2_session_resume_data(call->c->session, call->id) == NGHTTP2_ERR_NOMEM)
        h2_client_note_broken(call->c, CLOSE_NO_MEMORY, "out of memory");
    call->starved = false;
    h2_client_wake(call->c);
}

bool h2_call_write(struct h2_call *call, struct slice data)
{
    if (call->c == NULL) /* the server has closed the stream: it has answered, and wants no more */
        return true;
    if (buf_len(&call->out) == 0)
        call->moved_ms = loop_now_ms(call->r->back->loop);
    if (!buf_append(&call->out, data)) {
        h2_call_fail(call, NGHTTP2_INTERNAL_ERROR, BACK_FAIL_MEMORY, "out of memory for the body");
        return false;
    }
    feed(call);
    return true;
}

bool h2_call_congested(const struct h2_call *call)
{
    return call->c != NULL && buf_len(&call->out) >= LIMIT_H2_OUTPUT_HIGH;
}

void h2_call_body_finished(struct h2_call *call)
{
    if (call->c == NULL)
        return;
    feed(call);
}
