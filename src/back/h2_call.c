/* SPDX-License-Identifier: Apache-2.0 */
#include "back/h2_call.h"

#include <inttypes.h>
#include <stdio.h>

#include "back/bearers.h"
#include "back/withhold.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/state.h"
#include "http/h1_check.h"
#include "http/h1_parse.h"
#include "http/h2_fields.h"
#include "http/hop.h"
#include "net/stream.h"

enum {
    FIRST_FIELDS = 12,
    FEW_FIELDS = 40,           /* of a request: need no memory of their own */
    OWN_FIELDS = 5,            /* of a request: four pseudo-header fields, content-length */
    DELIVERY_BYTES = 16 << 10, /* given at once of what waited */
    WINDOW_FAST_MS = 500,      /* whoever takes a window's worth in less may have a larger one */
};

static uint64_t now_of(const struct h2_call *call)
{
    return loop_now_ms(call->r->back->loop);
}

/* ---- life ---- */

static const char *const state_names[] = {
    [H2_CALL_UNUSED] = "unused", [H2_CALL_HEAD] = "head", [H2_CALL_BODY] = "body",
    [H2_CALL_ENDED] = "ended",   [H2_CALL_LOST] = "lost",
};

static const uint32_t next_states[] = {
    [H2_CALL_UNUSED] = STATE(H2_CALL_HEAD),
    [H2_CALL_HEAD] = STATE(H2_CALL_BODY) | STATE(H2_CALL_UNUSED),
    [H2_CALL_BODY] = STATE(H2_CALL_ENDED) | STATE(H2_CALL_LOST) | STATE(H2_CALL_UNUSED),
    [H2_CALL_ENDED] = STATE(H2_CALL_UNUSED),
    [H2_CALL_LOST] = STATE(H2_CALL_UNUSED),
};

static const struct state_table states = STATE_TABLE("call on an HTTP/2 connection", state_names, next_states);

static void move(struct h2_call *call, enum h2_call_state to)
{
    state_move(&states, &call->state, to);
}

static bool is_bulk(const struct h2_call *call)
{
    return call->window > LIMIT_H2_BACK_WINDOW && !call->r->opts.lasting;
}

/* No stream any more; the request may still be reading. */
static void detach(struct h2_call *call)
{
    struct h2_client *c = call->c;

    if (c == NULL)
        return;
    (void)nghttp2_session_set_stream_user_data(c->session, call->id, NULL);
    list_remove(&c->calls, &call->node);
    must_hold(c->bulk >= is_bulk(call));
    c->bulk -= is_bulk(call);
    call->c = NULL;
    metric_add(c->origin->m.streams, -1);
    if (c->calls.count == 0)
        c->idle_since_ms = now_of(call);
    h2_client_show(c);
    if (c->calls.count == 0)
        h2_client_wake(c); /* it may be over, or idle */
}

static void reset(struct h2_call *call, uint32_t code)
{
    struct h2_client *c = call->c;

    if (c == NULL)
        return;
    if (nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, call->id, code) != 0)
        h2_client_note_broken(c, CLOSE_NO_MEMORY, "out of memory");
    h2_client_wake(c);
    detach(call);
}

static void on_work(void *arg);
static bool need_timer(struct h2_call *call);
static void set_window(struct h2_call *call, int32_t size);

/* The request has what it wanted of HTTP/2. */
static void leave(struct h2_call *call)
{
    must_hold(call->c == NULL); /* what the stream still brings would be the next request's */
    lifetime_cancel(&call->work);
    buf_release(&call->in);
    buf_release(&call->out);
    move(call, H2_CALL_UNUSED);
}

static void free_call(struct h2_call *call)
{
    must_hold(call->c == NULL);
    buf_free(&call->in);
    buf_free(&call->out);
    mem_free(call);
}

void h2_call_fail(struct h2_call *call, uint32_t code, enum back_failure why, const char *text)
{
    struct back_request *r = call->r;

    reset(call, code);
    leave(call);
    request_lost(r, why, text);
}

/* ---- the request's body: waits for the server's windows, and is taken when nghttp2 makes DATA frames of it ---- */

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
    must_hold(call->id == id && call->c != NULL); /* no byte on another's stream */
    waiting = buf_slice(&call->out);
    if (waiting.n == 0 && !call->r->body_finished) {
        call->starved = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (waiting.n > room)
        waiting.n = room;
    memcpy(to, waiting.p, waiting.n);
    buf_consume(&call->out, waiting.n);
    call->moved_ms = now_of(call);
    if (call->r->body_finished && buf_len(&call->out) == 0) {
        *flags = NGHTTP2_DATA_FLAG_EOF;
        call->uploaded = true;
    }
    if (buf_len(&call->out) <= LIMIT_H2_OUTPUT_LOW)
        request_wants_body(call->r);
    return (ssize_t)waiting.n;
}

/* What nghttp2 is to take the body from; NULL: there is none. */
static const nghttp2_data_provider *body_source(struct h2_call *call)
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

/* ---- operations ---- */

static bool op_write(void *self, struct slice data)
{
    struct h2_call *call = self;

    if (call->c == NULL) /* the server has closed the stream: it has answered, and wants no more */
        return true;
    if (buf_len(&call->out) == 0)
        call->moved_ms = now_of(call);
    if (!buf_append(&call->out, data)) {
        h2_call_fail(call, NGHTTP2_INTERNAL_ERROR, BACK_FAIL_MEMORY, "out of memory for the body");
        return false;
    }
    feed(call);
    return true;
}

static bool op_congested(const void *self)
{
    const struct h2_call *call = self;

    return call->c != NULL && buf_len(&call->out) >= LIMIT_H2_OUTPUT_HIGH;
}

static void op_body_finished(void *self)
{
    struct h2_call *call = self;

    if (call->c != NULL)
        feed(call);
}

static void op_pause(void *self, bool paused)
{
    struct h2_call *call = self;

    if (!paused)
        lifetime_queue(&call->work);
    else if (call->c != NULL) /* what moves nothing needs no large one */
        set_window(call, LIMIT_H2_BACK_WINDOW);
}

/* It says so: there is no reading it to its end. */
static bool answer_is_long(const struct h2_call *call)
{
    const struct back_request *r = call->r;
    uint64_t length;

    return call->state == H2_CALL_BODY && h1_content_length(&r->response, &length) &&
           length > r->got + LIMIT_DRAIN_BYTES;
}

/* A reset spares the server work, and is passed on as long as the client does not live on them. */
static bool op_may_drain(void *self)
{
    struct h2_call *call = self;
    struct churn *resets = &call->r->back->resets;

    if (call->c == NULL)
        return false;
    if (!answer_is_long(call) && !churn_allows(resets, call->r->client, now_of(call)))
        return call->uploaded && need_timer(call);
    churn_charge(resets, call->r->client, now_of(call));
    return false;
}

/* It was too long, or took too long: it is reset all the same, and that counts. */
static void reset_late(struct h2_call *call)
{
    churn_charge(&call->r->back->resets, call->r->client, now_of(call));
    request_drop(call->r);
}

static void op_drain(void *self)
{
    struct h2_call *call = self;

    buf_charge(&call->in, NULL);
    buf_charge(&call->out, NULL);
    call->drained = 0;
    loop_timer_set(call->timer, TIMEOUT_DRAIN_MS);
    lifetime_queue(&call->work); /* what waited while its owner had it paused */
}

static void op_cancel(void *self)
{
    struct h2_call *call = self;

    reset(call, NGHTTP2_CANCEL);
    leave(call);
}

static const struct link_ops ops = {
    .write = op_write,
    .congested = op_congested,
    .body_finished = op_body_finished,
    .pause = op_pause,
    .may_drain = op_may_drain,
    .drain = op_drain,
    .cancel = op_cancel,
    .can_refuse = true,
};

/* ---- the request ---- */

/* As in h1_client.c: the head of an answer changes nothing. */
static void look_later(struct h2_call *call)
{
    uint64_t now = now_of(call), at = request_next_look(call->r, !call->uploaded);

    if (call->timer == NULL)
        return;
    if (at == UINT64_MAX)
        loop_timer_cancel(call->timer);
    else
        loop_timer_set(call->timer, at > now ? at - now : 1);
}

static void look(struct h2_call *call)
{
    struct back_request *r = call->r;

    if (buf_len(&call->out) == 0)
        call->moved_ms = now_of(call);
    if (request_is_overdue(r))
        h2_call_fail(call, NGHTTP2_CANCEL, BACK_FAIL_TIMEOUT, "no response head in time");
    else if (now_of(call) - call->moved_ms >= r->origin->opts.stall_timeout_ms)
        h2_call_fail(call, NGHTTP2_CANCEL, BACK_FAIL_TIMEOUT, "server does not take the request's body");
    else
        look_later(call);
}

static void on_timer(void *arg)
{
    struct h2_call *call = arg;

    if (call->r->state == REQUEST_ABANDONED)
        reset_late(call);
    else if (call->state == H2_CALL_HEAD || call->state == H2_CALL_BODY)
        look(call);
}

static bool need_timer(struct h2_call *call)
{
    if (call->timer == NULL)
        call->timer = lifetime_timer(&call->r->life, on_timer, call);
    return call->timer != NULL;
}

/* False when it cannot be sent: *why says why. `nva` has room for all fields and OWN_FIELDS. */
static bool submit_in(struct h2_call *call, nghttp2_nv *nva, enum back_failure *why)
{
    const struct http_head *head = call->r->opts.head;
    struct slice host = http_head_value(head, HTTP_HOST);
    char length[24];
    size_t n = 0;

    nva[n++] = h2_nv(SLICE_LIT(":method"), head->method);
    nva[n++] = h2_nv(SLICE_LIT(":scheme"), SLICE_LIT("https"));
    nva[n++] = h2_nv(SLICE_LIT(":authority"), host);
    nva[n++] = h2_nv(SLICE_LIT(":path"), head->target);
    *why = BACK_FAIL_HEAD;
    for (size_t i = 0; i < head->n_fields; i++)
        if (head->fields[i].id != HTTP_HOST && !h2_put_field(nva, &n, &head->fields[i]))
            return false;
    if (call->r->opts.body.kind == HTTP_BODY_LENGTH) {
        (void)snprintf(length, sizeof(length), "%" PRIu64, call->r->opts.body.length);
        nva[n++] = h2_nv(http_name_text(HTTP_CONTENT_LENGTH), slice_str(length));
    }
    if (!h1_is_value(host) || !h1_is_token(head->method) || !h1_is_value(head->target))
        return false;
    *why = BACK_FAIL_MEMORY;
    call->id = nghttp2_submit_request(call->c->session, NULL, nva, n, body_source(call), call);
    return call->id > 0;
}

/* How many fields there are is for others to bound: a head has those of the client, and ours. */
static bool submit(struct h2_call *call, enum back_failure *why)
{
    nghttp2_nv few[FEW_FIELDS];
    size_t n = call->r->opts.head->n_fields + OWN_FIELDS;
    nghttp2_nv *nva = n <= FEW_FIELDS ? few : mem_alloc(n * sizeof(*nva));
    bool sent = nva != NULL && submit_in(call, nva, why);

    if (nva != few)
        mem_free(nva);
    return sent;
}

static bool prepare(struct h2_client *c, struct back_request *r)
{
    struct h2_call *call = r->call;

    if (call == NULL) {
        call = r->call = mem_zalloc(sizeof(*call));
        if (call == NULL)
            return false;
        r->free_call = free_call;
        lifetime_work_init(&r->life, &call->work, LOOP_DEFERRED, on_work, call);
        buf_init(&call->in, LIMIT_H2_BACK_WINDOW_MAX);
        buf_init(&call->out, LIMIT_H2_BACK_UPLOAD);
        call->r = r;
    }
    if ((r->deadline_ms != 0 || r->opts.body.kind != HTTP_BODY_NONE) && !need_timer(call))
        return false;
    buf_charge(&call->in, r->opts.quota);
    buf_charge(&call->out, r->opts.quota);
    call->submitted = false;
    call->interims = 0;
    call->bad = call->why = NULL;
    call->no_memory = false;
    call->window_got = 0;
    call->window = LIMIT_H2_BACK_WINDOW;
    call->c = c;
    return true;
}

void h2_call_start(struct h2_client *c, struct back_request *r)
{
    enum back_failure why = BACK_FAIL_MEMORY;
    struct h2_call *call;

    if (request_must_be_withheld(r, c->pool->kind, c->stream)) {
        request_fail(r, BACK_FAIL_IDENTITY, "identity does not fit the connection");
        return;
    }
    if (!prepare(c, r) || !submit(r->call, &why)) {
        if (r->call != NULL)
            r->call->c = NULL;
        request_fail(r, why, why == BACK_FAIL_HEAD ? "request head cannot be sent" : "out of memory");
        return;
    }
    call = r->call;
    move(call, H2_CALL_HEAD);
    list_push_back(&c->calls, &call->node);
    metric_add(c->origin->m.streams, 1);
    h2_client_show(c);
    h2_client_wake(c);
    request_begin(r, &ops, call, c->served++ > 0);
    r->sent = true;
    call->moved_ms = now_of(call);
    look_later(call);
    request_open_body(r);
}

/* ---- the response's head: the same judgement as on HTTP/1.1 ---- */

static void refuse(struct h2_call *call, const char *why)
{
    if (call->bad == NULL)
        call->bad = why;
}

static void refuse_memory(struct h2_call *call)
{
    refuse(call, "out of memory");
    call->no_memory = true;
}

static struct slice keep(struct h2_call *call, struct slice text)
{
    struct slice copy = arena_copy(call->r->arena, text);

    if (copy.p == NULL)
        refuse_memory(call);
    return copy;
}

void h2_call_fields_begin(struct h2_call *call)
{
    struct back_request *r = call->r;

    call->in_head = call->state == H2_CALL_HEAD;
    call->head_bytes = call->head_fields = 0;
    if (!call->in_head)
        return;
    if (!http_head_init(&r->response, r->arena, FIRST_FIELDS))
        refuse_memory(call);
    r->response.minor = 1;
}

void h2_call_field(struct h2_call *call, struct slice name, struct slice value)
{
    struct back_request *r = call->r;
    struct http_head *h = call->in_head ? &r->response : &r->trailers;
    enum http_name id = http_name_of(name);
    uint64_t status;

    call->head_bytes += name.n + value.n + H2_FIELD_OVERHEAD;
    if (call->head_bytes > (call->in_head ? LIMIT_HEAD_BYTES : LIMIT_TRAILER_BYTES) ||
        ++call->head_fields > LIMIT_HEAD_FIELDS)
        refuse(call, "response head is too large");
    if (call->bad != NULL)
        return;
    if (name.n > 0 && name.p[0] == ':') { /* nghttp2 lets only :status pass, once, with three digits */
        if (slice_u64(value, &status))
            h->status = (unsigned)status;
        return;
    }
    if (!call->in_head && !hop_trailer_allowed(name))
        return;
    name = id == HTTP_NAME_OTHER ? keep(call, name) : http_name_text(id);
    value = keep(call, slice_trim(value));
    if (call->bad == NULL && !http_head_add(h, r->arena, name, value))
        refuse_memory(call);
}

static const char *check(const struct http_head *h)
{
    const char *bad = h1_check_names(h);

    for (size_t i = 0; bad == NULL && i < h->n_fields; i++)
        if (!h1_is_value(h->fields[i].value))
            bad = "control byte in head";
    return bad != NULL ? bad : h1_check_response(h);
}

static struct http_body body_of(const struct back_request *r, bool ended)
{
    const struct http_head *h = &r->response;
    struct http_body body = {HTTP_BODY_CHUNKED, 0};

    if (r->method == HTTP_HEAD || h->status == 204 || h->status == 304)
        body.kind = HTTP_BODY_NONE;
    else if (h1_content_length(h, &body.length) || ended)
        body.kind = HTTP_BODY_LENGTH;
    return body;
}

static void interim(struct h2_call *call)
{
    struct back_request *r = call->r;

    if (++call->interims > LIMIT_INTERIM_RESPONSES)
        h2_call_fail(call, NGHTTP2_ENHANCE_YOUR_CALM, BACK_FAIL_HEAD, "too many interim responses");
    else if (r->opts.handler->on_interim != NULL)
        r->opts.handler->on_interim(r->opts.arg, &r->response);
}

/*
 * kube-apiserver wants no more requests on a connection on which one was not authenticated; with another's credential
 * it never will be, so that it need not say so itself.
 */
static void heed_refusal(struct h2_call *call)
{
    if (call->c == NULL || call->c->credential == NULL || call->r->response.status != 401)
        return;
    (void)bearer_answered(call->r);
    h2_client_leave(call->c);
}

static void final_head(struct h2_call *call, bool ended)
{
    struct back_request *r = call->r;
    struct http_body body = body_of(r, ended);

    move(call, H2_CALL_BODY);
    call->window_since_ms = now_of(call);
    request_responded(r);
    heed_refusal(call);
    r->opts.handler->on_head(r->opts.arg, &r->response, body);
    if (ended && call->state == H2_CALL_BODY)
        h2_call_end(call);
}

static enum back_failure failure_of(const struct h2_call *call)
{
    if (call->state == H2_CALL_BODY)
        return BACK_FAIL_BODY;
    return call->no_memory ? BACK_FAIL_MEMORY : BACK_FAIL_HEAD;
}

void h2_call_fields_end(struct h2_call *call, bool ended)
{
    struct back_request *r = call->r;
    const char *bad = call->bad;

    r->answered = true;
    if (bad == NULL && call->state == H2_CALL_HEAD)
        bad = check(&r->response);
    if (bad == NULL && call->state == H2_CALL_HEAD && r->response.status == 101)
        bad = "server switches protocols on HTTP/2";
    if (bad != NULL)
        h2_call_fail(call, call->no_memory ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_PROTOCOL_ERROR, failure_of(call), bad);
    else if (call->state == H2_CALL_HEAD && r->response.status < 200)
        interim(call);
    else if (call->state == H2_CALL_HEAD)
        final_head(call, ended);
    else if (ended)
        h2_call_end(call);
}

/* ---- the response's body ---- */

static void set_window(struct h2_call *call, int32_t size)
{
    must_hold(call->c->bulk >= is_bulk(call));
    call->c->bulk -= is_bulk(call);
    call->window = size;
    call->c->bulk += is_bulk(call);
    if (nghttp2_session_set_local_window_size(call->c->session, NGHTTP2_FLAG_NONE, call->id, size) != 0)
        h2_client_note_broken(call->c, CLOSE_NO_MEMORY, "out of memory");
}

/* A window is what may be under way: too small a one makes each of its fillings cost a round trip. */
static void adapt_window(struct h2_call *call, size_t n)
{
    uint64_t now = now_of(call);

    call->window_got += n;
    if (call->window_got < (uint64_t)call->window)
        return;
    if (now - call->window_since_ms < WINDOW_FAST_MS && call->window < LIMIT_H2_BACK_WINDOW_MAX)
        set_window(call, call->window * 2);
    call->window_got = 0;
    call->window_since_ms = now;
}

/* The stream's window opens again by what was taken. False: the owner has let go of the request. */
static bool give(struct h2_call *call, struct slice data)
{
    struct back_request *r = call->r;

    if (call->c != NULL && nghttp2_session_consume_stream(call->c->session, call->id, data.n) != 0)
        h2_client_note_broken(call->c, CLOSE_NO_MEMORY, "out of memory");
    r->got += data.n;
    if (r->state == REQUEST_ABANDONED && (call->drained += data.n) > LIMIT_DRAIN_BYTES)
        reset_late(call);
    else
        r->opts.handler->on_body(r->opts.arg, data);
    return call->state != H2_CALL_UNUSED;
}

static void finish(struct h2_call *call)
{
    struct back_request *r = call->r;

    if (!call->uploaded)
        reset(call, NGHTTP2_NO_ERROR); /* as RFC 9113 8.1 has servers do: nobody needs the rest of the body */
    detach(call);
    leave(call);
    request_complete(r, &r->trailers);
}

/* Gives the owner what waits for it, and then the end. */
static void deliver(struct h2_call *call)
{
    struct back_request *r = call->r;

    while (!r->paused && buf_len(&call->in) > 0) {
        struct slice piece = buf_slice(&call->in);

        if (piece.n > DELIVERY_BYTES)
            piece.n = DELIVERY_BYTES;
        if (!give(call, piece))
            return;
        buf_consume(&call->in, piece.n);
    }
    if (call->c != NULL)
        h2_client_wake(call->c);
    if (buf_len(&call->in) > 0)
        return;
    buf_release(&call->in);
    if (r->paused)
        return;
    if (call->state == H2_CALL_ENDED) {
        finish(call);
    } else if (call->state == H2_CALL_LOST) {
        const char *why = call->why;

        leave(call);
        request_lost(r, BACK_FAIL_BODY, why);
    }
}

static void on_work(void *arg)
{
    deliver(arg);
}

void h2_call_data(struct h2_call *call, struct slice data)
{
    bool nothing_waits = !call->r->paused && buf_len(&call->in) == 0;

    if (call->state == H2_CALL_BODY && nothing_waits) {
        adapt_window(call, data.n);
        (void)give(call, data);
    } else if (call->state == H2_CALL_BODY && !buf_append(&call->in, data)) {
        h2_call_fail(call, NGHTTP2_INTERNAL_ERROR, BACK_FAIL_MEMORY, "out of memory");
    }
}

void h2_call_end(struct h2_call *call)
{
    if (call->state == H2_CALL_BODY) {
        move(call, H2_CALL_ENDED);
        deliver(call);
    }
}

/* ---- ends that are none ---- */

/* The body broke off. What came before it is still the owner's, when he wants it. */
static void break_off(struct h2_call *call, const char *why)
{
    move(call, H2_CALL_LOST);
    call->why = why;
    if (buf_len(&call->in) > 0)
        return;
    leave(call);
    request_lost(call->r, BACK_FAIL_BODY, why);
}

/* The server has not looked at it (RFC 9113 8.7): it may be sent again whatever it is. */
static void not_processed(struct h2_call *call, uint32_t code)
{
    struct back_request *r = call->r;

    leave(call);
    r->sent = false;
    r->http1 = r->http1 || code == NGHTTP2_HTTP_1_1_REQUIRED;
    request_lost(r, BACK_FAIL_UNANSWERED, nghttp2_http2_strerror(code));
}

void h2_call_closed(struct h2_call *call, uint32_t code)
{
    bool ours = call->bad != NULL;

    detach(call);
    if (call->state == H2_CALL_BODY) {
        break_off(call, ours ? call->bad : nghttp2_http2_strerror(code));
    } else if (call->state == H2_CALL_HEAD) {
        struct back_request *r = call->r;

        if (!r->answered && !ours &&
            (!call->submitted || code == NGHTTP2_REFUSED_STREAM || code == NGHTTP2_HTTP_1_1_REQUIRED)) {
            not_processed(call, code);
            return;
        }
        leave(call);
        request_lost(r, r->answered || ours ? BACK_FAIL_HEAD : BACK_FAIL_UNANSWERED,
                     ours ? call->bad : nghttp2_http2_strerror(code));
    }
}

void h2_call_lost(struct list_node *n, const char *text)
{
    struct h2_call *call = list_entry(n, struct h2_call, node);
    struct back_request *r = call->r;

    detach(call);
    if (call->state == H2_CALL_BODY) {
        break_off(call, "connection to the server is lost");
    } else if (call->state == H2_CALL_HEAD) {
        r->sent = call->submitted;
        leave(call);
        request_lost(r, r->answered ? BACK_FAIL_HEAD : BACK_FAIL_UNANSWERED, text);
    }
}
