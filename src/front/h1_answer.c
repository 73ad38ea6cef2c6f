/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h1_answer.h"

#include "base/clock.h"
#include "base/log.h"
#include "front/refusal.h"
#include "http/hop.h"

static struct h1_conn *conn_of(struct exchange *x)
{
    return list_entry(x, struct h1_conn, x);
}

static bool write_bytes(struct h1_conn *c, struct slice data)
{
    if (!stream_write(c->stream, data))
        return false;
    front_stats_sent(c->fc->host->stats, data.n);
    return true;
}

/* The scratch buffer is shared by all connections: it never keeps anything, and nothing big stays allocated. */
static bool write_scratch(struct h1_conn *c, bool made)
{
    struct buf *out = &c->fc->host->scratch;
    bool written = made && write_bytes(c, buf_slice(out));

    if (out->cap > 64 << 10)
        buf_release(out);
    else
        buf_reset(out);
    return written;
}

static bool write_head(struct h1_conn *c, const struct http_head *head, struct http_body body, unsigned flags)
{
    struct front_host *host = c->fc->host;
    struct slice date = head->status < 200 ? SLICE_NONE : h1_date_text(&host->date, clock_wall_us());

    return write_scratch(c, h1_write_response(&host->scratch, head, body, flags, date));
}

static bool answer_interim(struct exchange *x, const struct http_head *head)
{
    struct h1_conn *c = conn_of(x);

    /* RFC 9110 15.2: a 1.0 client does not know 1xx. */
    if (x->request.minor == 0)
        return true;
    if (head->status == 100)
        c->continue_pending = false;
    return write_head(c, head, (struct http_body){HTTP_BODY_NONE, 0}, H1_WRITE_NO_LENGTH);
}

/* Must this response be the last one? Decided when its head is written, because the client is told there. */
static void settle_last(struct h1_conn *c)
{
    const struct front_conn *fc = c->fc;

    c->close_after = true;
    if (!h1_keep_alive(&c->x.request))
        c->close_reason = FRONT_CLOSE_CLIENT_REQUEST;
    else if (c->state == H1_RECEIVING && !h1_conn_rest_is_short(c))
        c->close_reason = FRONT_CLOSE_BODY_UNREAD;
    else if (fc->limits.max_requests != 0 && fc->requests >= fc->limits.max_requests)
        c->close_reason = FRONT_CLOSE_REQUEST_LIMIT;
    else if (fc->host->draining)
        c->close_reason = FRONT_CLOSE_DRAIN;
    else if (c->x.sent_away)
        c->close_reason = FRONT_CLOSE_SENT_AWAY;
    else
        c->close_after = false;
}

static bool answer_respond(struct exchange *x, const struct http_head *head)
{
    struct h1_conn *c = conn_of(x);
    struct http_body body = x->answer;
    unsigned flags = 0;

    settle_last(c);
    if (x->bodyless) {
        if (body.kind != HTTP_BODY_LENGTH) {
            body.kind = HTTP_BODY_NONE;
            flags |= H1_WRITE_NO_LENGTH;
        }
    } else if (body.kind == HTTP_BODY_CHUNKED) {
        c->chunked = x->request.minor > 0;
        if (!c->chunked)
            body.kind = HTTP_BODY_CLOSE;
    }
    if (c->close_after)
        flags |= H1_WRITE_CLOSE;
    if (!write_head(c, head, body, flags))
        return false;
    c->head_written = true;
    return true;
}

static bool write_body(struct h1_conn *c, struct slice data)
{
    char line[H1_CHUNK_HEAD_BYTES];

    if (!c->chunked)
        return write_bytes(c, data);
    return write_bytes(c, h1_chunk_head(data.n, line)) && write_bytes(c, data) && write_bytes(c, H1_CHUNK_TAIL);
}

static bool answer_body(struct exchange *x, struct slice data)
{
    struct h1_conn *c = conn_of(x);
    bool written = write_body(c, data);

    if (stream_congested(c->stream))
        h1_conn_answer_waits(c);
    return written;
}

static bool answer_congested(const struct exchange *x)
{
    const struct h1_conn *c = list_entry(x, struct h1_conn, x);

    return c->state != H1_CLOSED && stream_congested(c->stream);
}

static void answer_finish(struct exchange *x, const struct http_head *trailers)
{
    struct h1_conn *c = conn_of(x);

    if (c->chunked && !x->bodyless && !write_scratch(c, h1_write_last_chunk(&c->fc->host->scratch, trailers)))
        h1_conn_close(c, FRONT_CLOSE_RESPONSE_ABORTED, STREAM_CLOSE_ABORT);
    else
        h1_conn_response_done(c);
}

static void answer_abort(struct exchange *x, const char *reason)
{
    struct h1_conn *c = conn_of(x);

    log_v(3, "Response aborted", LU("connection", c->fc->id), LT("client", x->client.address), LT("reason", reason));
    h1_conn_close(c, FRONT_CLOSE_RESPONSE_ABORTED, c->head_written ? STREAM_CLOSE_ABORT : STREAM_CLOSE_NOW);
}

static struct stream *answer_upgrade(struct exchange *x, const struct http_head *head)
{
    struct h1_conn *c = conn_of(x);

    if (!write_head(c, head, (struct http_body){HTTP_BODY_NONE, 0}, H1_WRITE_UPGRADE | H1_WRITE_NO_LENGTH)) {
        h1_conn_close(c, FRONT_CLOSE_STREAM_FAILED, STREAM_CLOSE_NOW);
        return NULL;
    }
    return h1_conn_give_away(c);
}

static void answer_doomed(struct exchange *x)
{
    h1_conn_wake(conn_of(x));
}

static void answer_pause(struct exchange *x)
{
    conn_of(x)->body_paused = true;
}

static void answer_resume(struct exchange *x)
{
    struct h1_conn *c = conn_of(x);

    if (c->body_paused) {
        c->body_paused = false;
        c->body_ms = loop_now_ms(c->fc->host->loop);
        exchange_await_body(x);
        h1_conn_wake(c);
    }
}

const struct exchange_ops *h1_answer_ops(void)
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

void h1_answer_refuse(struct h1_conn *c, unsigned status, const char *message, enum front_close reason)
{
    enum { REFUSAL_BYTES = 4096 };
    struct front_host *host = c->fc->host;
    struct http_field fields[REFUSAL_FIELDS];
    struct http_head head;
    struct buf body;

    front_stats_refused(host->stats, status);
    log_v(3, "Request refused", LU("connection", c->fc->id), LT("client", stream_remote_text(c->stream)),
          LU("code", status), LT("reason", message));
    buf_init(&body, REFUSAL_BYTES);
    refusal_make(host, status, message, fields, &head, &body);
    if (body.failed)
        buf_reset(&body);
    if (write_head(c, &head, (struct http_body){HTTP_BODY_LENGTH, buf_len(&body)}, H1_WRITE_CLOSE) &&
        (c->x.request.method_id == HTTP_HEAD || write_bytes(c, buf_slice(&body))))
        h1_conn_linger(c, reason);
    else
        h1_conn_close(c, reason, STREAM_CLOSE_NOW);
    /* Its client may take its time for the answer; nothing more is read, and a part of a head may be large. */
    h1_parser_free(c->parser);
    c->parser = NULL;
    exchange_forget_request(&c->x);
    buf_free(&body);
}
