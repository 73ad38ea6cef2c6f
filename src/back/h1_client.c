/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/1.1 connection to a server, one request at a time. The response's framing is trusted only as long as every
 * byte of it was as expected: anything else ends the connection.
 */
#include "back/h1_client.h"

#include "back/bearers.h"
#include "back/withhold.h"
#include "base/contract.h"
#include "base/metric.h"
#include "base/state.h"
#include "http/h1_write.h"
#include "http/hop.h"
#include "net/dial.h"
#include "net/stream.h"

enum {
    CONTINUE_WAIT_MS = 1000,     /* as net/http's ExpectContinueTimeout */
    CONNECTION_BYTES = 24 << 10, /* roughly what one holds, for the most part TLS; one that is being made, too */
};

static void on_timer(void *arg);
static void on_stream(struct stream *s, enum stream_event ev, void *arg);

/* ---- states ---- */

static const char *const state_names[] = {
    [CONN_DIALLING] = "dialling",
    [CONN_IDLE] = "idle",
    [CONN_BUSY] = "busy",
    [CONN_GONE] = "gone",
};

static const uint32_t next_states[] = {
    [CONN_DIALLING] = STATE(CONN_IDLE) | STATE(CONN_BUSY) | STATE(CONN_GONE),
    [CONN_IDLE] = STATE(CONN_BUSY) | STATE(CONN_GONE),
    [CONN_BUSY] = STATE(CONN_IDLE) | STATE(CONN_BUSY) | STATE(CONN_GONE), /* with the next request at once */
    [CONN_GONE] = 0,
};

static const struct state_table states = STATE_TABLE("HTTP/1.1 connection to a server", state_names, next_states);

static void enter(struct h1_client *c, enum conn_state state)
{
    list_push_front(&c->home->by_state[state], &c->node);
    metric_add(c->origin->m.conns[state], 1);
}

static void move(struct h1_client *c, enum conn_state to)
{
    if (list_linked(&c->node)) {
        list_remove(&c->home->by_state[c->state], &c->node);
        metric_add(c->origin->m.conns[c->state], -1);
    }
    state_move(&states, &c->state, to);
    if (to != CONN_GONE)
        enter(c, to);
}

/* ---- beginning and end ---- */

static void free_conn(void *arg)
{
    struct h1_client *c = arg;
    struct origin *o = c->origin;

    must_hold(c->request == NULL && c->stream == NULL && !list_linked(&c->node));
    h1_parser_free(c->parser);
    h1_body_reset(&c->body);
    mem_free(c);
    origin_release(o);
}

struct h1_client *h1_client_new(struct h1_conns *home)
{
    struct h1_client *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->home = home;
    c->origin = home->origin;
    origin_use(home->origin);
    lifetime_init(&c->life, home->origin->back->loop, "HTTP/1.1 connection to a server");
    c->parser = h1_parser_new(H1_RESPONSE, LIMIT_HEAD_BYTES);
    c->timer = lifetime_timer(&c->life, on_timer, c);
    if (c->parser == NULL || c->timer == NULL) {
        lifetime_retire(&c->life, free_conn, c);
        return NULL;
    }
    return c;
}

static void cancel_dial(void *arg)
{
    dial_cancel(arg);
}

void h1_client_dials(struct h1_client *c, struct dial *d, struct back_request *dedicated)
{
    must_hold(c->dial == NULL && c->stream == NULL);
    c->dial = d;
    c->dedicated = dedicated;
    lifetime_guest(&c->life, &c->dial_guest, cancel_dial, d);
    if (dedicated != NULL) {
        request_set_link(dedicated, h1_client_ops(), c);
        quota_add(dedicated->opts.quota, CONNECTION_BYTES);
    }
    enter(c, CONN_DIALLING);
}

struct back_request *h1_client_dialled(struct h1_client *c)
{
    struct back_request *r = c->dedicated;

    must_hold(c->state == CONN_DIALLING);
    c->dial = NULL;
    c->dedicated = NULL;
    lifetime_release(&c->dial_guest);
    if (r != NULL) {
        request_set_link(r, NULL, NULL);
        quota_give(r->opts.quota, CONNECTION_BYTES);
    }
    return r;
}

void h1_client_discard(struct h1_client *c)
{
    lifetime_retire(&c->life, free_conn, c);
}

void h1_client_opened(struct h1_client *c, struct stream *s)
{
    must_hold(c->stream == NULL);
    c->stream = s;
    c->number = ++c->origin->back->connections;
    stream_set_owner(s, on_stream, c);
}

void h1_client_idle(struct h1_client *c)
{
    must_hold(c->request == NULL);
    stream_take_turns_of(c->stream, 0, false);
    c->idle_since_ms = loop_now_ms(c->origin->back->loop);
    move(c, CONN_IDLE);
}

/* What is read, and kept until it is whole, is charged to the request whose answer it is, as long as that is there. */
static void charge_nobody(struct h1_client *c)
{
    stream_charge(c->stream, NULL);
    h1_parser_uncharge(c->parser);
    h1_body_uncharge(&c->body);
}

void h1_client_close(struct h1_client *c, enum close_reason why, const char *detail)
{
    if (c->stream != NULL) {
        charge_nobody(c);
        stream_close(c->stream, STREAM_CLOSE_NOW);
    }
    if (c->dedicated != NULL)
        quota_give(c->dedicated->opts.quota, CONNECTION_BYTES);
    c->stream = NULL;
    c->request = NULL;
    move(c, CONN_GONE);
    origin_note_close(c->origin, why, detail, "h1", c->served);
    lifetime_retire(&c->life, free_conn, c);
    c->home->gone(c);
}

/* The connection is no good any more, nor is the request on it. */
static void fail(struct h1_client *c, enum back_failure why, const char *text)
{
    struct back_request *r = c->request;
    char detail[160];
    size_t n = strlen(text) < sizeof(detail) - 1 ? strlen(text) : sizeof(detail) - 1;

    if (r->sent && stream_unread(c->stream, c->wire_mark))
        r->sent = false;
    memcpy(detail, text, n); /* it may be the stream's */
    detail[n] = '\0';
    h1_client_close(c, CLOSE_BROKEN, detail);
    request_lost(r, why, detail);
}

/* ---- sending ---- */

static bool send_head(struct h1_client *c, struct back_request *r)
{
    struct buf *scratch = &r->back->scratch;

    buf_reset(scratch);
    if (!h1_write_request(scratch, r->opts.head, r->opts.body, r->opts.upgrade ? H1_WRITE_UPGRADE : 0))
        return false;
    r->sent = true;
    (void)stream_write(c->stream, buf_slice(scratch)); /* broken: the stream will say so */
    if (scratch->cap > LIMIT_STREAM_OUTPUT_HIGH)
        buf_release(scratch);
    return true;
}

static uint64_t now_of(const struct h1_client *c)
{
    return loop_now_ms(c->origin->back->loop);
}

/* Of its body something is to come, or waits for the server. */
static bool body_waits(const struct h1_client *c)
{
    return c->request->opts.body.kind != HTTP_BODY_NONE && (!c->request->body_finished || stream_unsent(c->stream) > 0);
}

/*
 * Has the kernel taken nothing of what waits, for too long? What it has taken is for the server's side to tell. An
 * answer may come before it has; once the server is gone, what is here of that is all that counts.
 */
static bool is_stalled(struct h1_client *c)
{
    uint64_t wire = stream_wire_bytes(c->stream);

    if (!body_waits(c) || c->got_eof || c->is_broken || stream_unsent(c->stream) == 0 || wire != c->wire_seen)
        c->moved_ms = now_of(c);
    c->wire_seen = wire;
    return now_of(c) - c->moved_ms >= c->origin->opts.stall_timeout_ms;
}

/* From the request's beginning on, and from each look; an answer's head that comes in between changes nothing. */
static void look_later(struct h1_client *c)
{
    uint64_t now = now_of(c), at = request_next_look(c->request, body_waits(c));

    if (!c->request->body_open && c->continue_ms < at)
        at = c->continue_ms;
    if (at != UINT64_MAX)
        loop_timer_set(c->timer, at > now ? at - now : 1);
}

bool h1_client_is_affordable(const struct back_request *r)
{
    return quota_has_room(r->opts.quota, CONNECTION_BYTES);
}

void h1_client_attach(struct h1_client *c, struct back_request *r)
{
    must_hold(c->request == NULL && c->stream != NULL);
    move(c, CONN_BUSY);
    c->request = r;
    c->in_body = false;
    c->keep = false;
    c->interims = 0;
    c->wire_mark = stream_wire_bytes(c->stream);
    stream_begin_message(c->stream);
    stream_take_turns_of(c->stream, request_client(r), !r->stranger);
    stream_charge(c->stream, r->opts.quota); /* until it serves this request no more */
    request_begin(r, h1_client_ops(), c, c->served++ > 0);
    h1_parser_begin(c->parser, r->arena, &r->response);
    if (request_must_be_withheld(r, c->home->kind, c->stream)) {
        fail(c, BACK_FAIL_IDENTITY, "identity does not fit the connection");
        return;
    }
    if (!send_head(c, r)) {
        if (c->request == r)
            fail(c, BACK_FAIL_HEAD, "request head cannot be sent");
        return;
    }
    c->continue_ms = now_of(c) + CONTINUE_WAIT_MS;
    c->moved_ms = now_of(c);
    if (!r->opts.expect_continue || r->body_finished)
        request_open_body(r);
    if (c->request == r)
        look_later(c);
}

/* ---- the answer to a cancelled request ---- */

static bool is_drained(const struct h1_client *c)
{
    return c->request->state == REQUEST_ABANDONED;
}

/* Of a body that tells its length the rest is short, and of an answer that has not begun it may be. */
static bool rest_is_short(const struct h1_client *c)
{
    return !c->in_body || h1_body_done(&c->body) ||
           (c->body.kind == HTTP_BODY_LENGTH && c->body.left <= LIMIT_DRAIN_BYTES);
}

static bool may_drain(const struct h1_client *c)
{
    return c->request->body_open && !c->got_eof && !c->is_broken && (!c->in_body || c->keep) && rest_is_short(c);
}

static void drain(void *self)
{
    struct h1_client *c = self;

    request_charge(c->request); /* until it has come */
    charge_nobody(c);
    loop_timer_set(c->timer, TIMEOUT_DRAIN_MS);
    stream_resume(c->stream, STREAM_PAUSE_BODY);
}

static void on_timer(void *arg)
{
    struct h1_client *c = arg;

    if (c->request != NULL && is_drained(c))
        request_drop(c->request);
    if (c->request == NULL)
        return;
    if (request_is_overdue(c->request)) {
        fail(c, BACK_FAIL_TIMEOUT, "no response head in time");
    } else if (is_stalled(c)) {
        fail(c, BACK_FAIL_TIMEOUT, "server does not take the request's body");
    } else {
        if (!c->request->body_open && now_of(c) >= c->continue_ms)
            request_open_body(c->request);
        if (c->request != NULL)
            look_later(c);
    }
}

/* ---- receiving ---- */

/* The response is complete: the connection is free (or closed) before the owner hears of it, so that he can use it. */
static void complete(struct h1_client *c)
{
    struct back_request *r = c->request;
    bool reusable = c->keep && r->body_finished && !r->stuck && !c->got_eof && !c->is_broken && !r->opts.upgrade &&
                    stream_input_len(c->stream) == 0;

    must_hold(h1_body_done(&c->body)); /* whoever reads on reads another's answer */
    r->trailers = *h1_body_trailers(&c->body);
    c->request = NULL;
    charge_nobody(c);
    loop_timer_cancel(c->timer);
    if (reusable && r->state == REQUEST_ABANDONED)
        request_refund(r);
    else if (!reusable && (!r->body_finished || r->opts.upgrade)) /* the client's doing */
        request_charge(r);
    if (reusable) {
        stream_resume(c->stream, STREAM_PAUSE_BODY);
        c->home->free(c);
    } else {
        h1_client_close(c, CLOSE_NOT_REUSABLE, "");
    }
    request_complete(r, &r->trailers);
}

static void upgraded(struct h1_client *c)
{
    struct back_request *r = c->request;
    struct stream *s = c->stream;

    /* With a body half sent nobody could tell its rest from the new protocol. */
    if (!r->opts.upgrade || r->opts.handler->on_upgraded == NULL || !r->body_finished ||
        !hop_accepts_upgrade(r->opts.head, &r->response)) {
        fail(c, BACK_FAIL_HEAD, "server switches protocols unasked");
        return;
    }
    request_responded(r);
    (void)bearer_answered(r);
    charge_nobody(c);
    c->stream = NULL;
    h1_client_close(c, CLOSE_UPGRADED, "");
    request_over(r);
    r->opts.handler->on_upgraded(r->opts.arg, &r->response, s);
}

/* False: the connection serves this request no more. */
static bool interim(struct h1_client *c)
{
    struct back_request *r = c->request;

    if (++c->interims > LIMIT_INTERIM_RESPONSES) {
        fail(c, BACK_FAIL_HEAD, "too many interim responses");
        return false;
    }
    if (r->response.status == 100 && !r->body_open)
        request_open_body(r);
    if (c->request == r && r->opts.handler->on_interim != NULL)
        r->opts.handler->on_interim(r->opts.arg, &r->response);
    if (c->request != r)
        return false;
    h1_parser_begin(c->parser, r->arena, &r->response);
    return true;
}

/* A server that announces a body where none can be may send it all the same, later, as somebody else's answer. */
static bool promises_more(const struct http_head *response)
{
    uint64_t length;

    return (response->status == 204 && h1_content_length(response, &length) && length > 0) ||
           (response->status == 304 && http_head_find(response, HTTP_TRANSFER_ENCODING) != NULL);
}

static bool final_head(struct h1_client *c)
{
    struct back_request *r = c->request;
    struct http_body body = h1_response_body(&r->response, r->method);

    c->in_body = true;
    c->keep = h1_keep_alive(&r->response) && body.kind != HTTP_BODY_CLOSE && !promises_more(&r->response);
    h1_body_begin(&c->body, body, r->arena);
    if (is_drained(c) && !may_drain(c)) {
        request_drop(r);
        return false;
    }
    request_responded(r);
    if (!r->body_open)
        request_open_body(r);
    must_hold(c->request == r); /* on_writable() ends no request, nor does writing */
    if (r->paused)
        stream_pause(c->stream, STREAM_PAUSE_BODY);
    if (bearer_answered(r))
        stream_take_turns_of(c->stream, request_client(r), true);
    r->opts.handler->on_head(r->opts.arg, &r->response, body);
    if (c->request != r)
        return false;
    if (!h1_body_done(&c->body))
        return true;
    complete(c);
    return false;
}

static bool read_head(struct h1_client *c, struct slice in)
{
    struct back_request *r = c->request;
    size_t took;
    enum h1_result result = h1_parser_feed(c->parser, in, &took);

    r->answered = true;
    if (result == H1_ERROR) {
        bool memory = h1_parser_status(c->parser) == 503;

        fail(c, memory ? BACK_FAIL_MEMORY : BACK_FAIL_HEAD, h1_parser_error(c->parser));
        return false;
    }
    stream_consume(c->stream, took);
    if (result == H1_MORE)
        return true;
    if (r->response.status == 101) {
        upgraded(c);
        return false;
    }
    return r->response.status < 200 ? interim(c) : final_head(c);
}

static bool read_body(struct h1_client *c, struct slice in)
{
    struct back_request *r = c->request;
    struct slice data;
    size_t took;

    switch (h1_body_feed(&c->body, in, &took, &data)) {
    case H1_BODY_ERROR:
        fail(c, BACK_FAIL_BODY, h1_body_error(&c->body));
        return false;
    case H1_BODY_DATA:
        r->got += data.n;
        r->opts.handler->on_body(r->opts.arg, data);
        if (c->request != r)
            return false;
        break;
    case H1_BODY_MORE:
    case H1_BODY_END:
        break;
    }
    stream_consume(c->stream, took);
    if (!h1_body_done(&c->body))
        return true;
    complete(c);
    return false;
}

/* No more of the answer comes. */
static void lose(struct h1_client *c, const char *why)
{
    if (c->is_broken && stream_lacks_memory(c->stream)) {
        fail(c, BACK_FAIL_MEMORY, why); /* its client holds too much: that is nothing of the server's */
        return;
    }
    fail(c, c->in_body ? BACK_FAIL_BODY : c->request->answered ? BACK_FAIL_HEAD : BACK_FAIL_UNANSWERED, why);
}

/* The server ended and everything it sent is read. */
static void ended(struct h1_client *c)
{
    if (c->request == NULL)
        h1_client_close(c, CLOSE_BY_SERVER, c->is_broken ? stream_failure(c->stream) : "");
    else if (c->in_body && !c->is_broken && h1_body_eof(&c->body))
        complete(c);
    else
        lose(c, c->is_broken ? stream_failure(c->stream)
                : c->in_body ? "response body is truncated"
                             : "server closed the connection");
}

bool h1_client_give_up(struct h1_client *c, const char *why)
{
    must_hold(c->state == CONN_BUSY);
    if (c->request->paused || stream_input_len(c->stream) > 0)
        return false;
    lose(c, why);
    return true;
}

static void read_input(struct h1_client *c)
{
    struct slice in;

    while (c->state == CONN_BUSY && !(c->in_body && c->request->paused) && (in = stream_peek(c->stream)).n > 0 &&
           (c->in_body ? read_body(c, in) : read_head(c, in)))
        continue;
    if (c->state == CONN_IDLE && stream_input_len(c->stream) > 0)
        h1_client_close(c, CLOSE_UNSOLICITED, "");
    else if ((c->got_eof || c->is_broken) && c->state != CONN_GONE && stream_input_len(c->stream) == 0)
        ended(c);
}

static void on_stream(struct stream *s, enum stream_event ev, void *arg)
{
    struct h1_client *c = arg;

    (void)s;
    switch (ev) {
    case STREAM_OPENED:
    case STREAM_WRITABLE:
        if (c->request != NULL && c->request->body_open && !c->request->body_finished &&
            c->request->opts.handler->on_writable != NULL)
            c->request->opts.handler->on_writable(c->request->opts.arg);
        return;
    case STREAM_EOF:
        c->got_eof = true;
        break;
    case STREAM_FAILED:
        c->is_broken = true;
        break;
    case STREAM_READABLE:
        origin_heard(c->origin);
        break;
    }
    read_input(c);
}

/* ---- operations ---- */

static bool op_write(void *self, struct slice data)
{
    return stream_write(((struct h1_client *)self)->stream, data);
}

static bool op_congested(const void *self)
{
    return stream_congested(((const struct h1_client *)self)->stream);
}

static void op_pause(void *self, bool paused)
{
    struct h1_client *c = self;

    if (!c->in_body)
        return;
    if (paused)
        stream_pause(c->stream, STREAM_PAUSE_BODY);
    else
        stream_resume(c->stream, STREAM_PAUSE_BODY);
}

static bool op_may_drain(void *self)
{
    return may_drain(self);
}

static void op_cancel(void *self)
{
    struct h1_client *c = self;

    request_charge(c->request != NULL ? c->request : c->dedicated);
    h1_client_close(c, CLOSE_CANCELLED, "");
}

static uint64_t op_number(const void *self)
{
    return ((const struct h1_client *)self)->number;
}

const struct link_ops *h1_client_ops(void)
{
    static const struct link_ops ops = {
        .write = op_write,
        .congested = op_congested,
        .pause = op_pause,
        .may_drain = op_may_drain,
        .drain = drain,
        .cancel = op_cancel,
        .number = op_number,
    };

    return &ops;
}
