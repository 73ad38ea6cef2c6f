/* SPDX-License-Identifier: Apache-2.0 */
#include "back/h2_client.h"

#include <stdio.h>

#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/state.h"
#include "net/stream.h"

/* So that what one connection makes us do between two looks at its output stays small. */
enum { PIECE_BYTES = 16 << 10, RATE_MS = 1000 };

static struct loop *loop_of(const struct h2_client *c)
{
    return c->life.loop;
}

static uint64_t now_of(const struct h2_client *c)
{
    return loop_now_ms(loop_of(c));
}

bool h2_client_rate_exceeded(struct h2_client *c, struct h2_rate *r, unsigned limit)
{
    uint64_t now = now_of(c);

    if (now - r->since_ms >= RATE_MS)
        *r = (struct h2_rate){now, 0};
    return ++r->count > limit;
}

/* ---- states, and how they are counted ---- */

static enum conn_state shown_as(const struct h2_client *c)
{
    switch (c->state) {
    case H2C_DIALLING:
    case H2C_OPENING:
        return CONN_DIALLING;
    case H2C_OPEN:
    case H2C_LEAVING:
        return c->calls.count > 0 ? CONN_BUSY : CONN_IDLE;
    case H2C_GONE:
        break;
    }
    return CONN_GONE;
}

void h2_client_show(struct h2_client *c)
{
    enum conn_state as = shown_as(c);
    struct origin_metrics *m = &c->origin->m;

    if (as == c->shown)
        return;
    if (c->shown != CONN_GONE)
        metric_add(m->conns[c->shown], -1);
    if (as != CONN_GONE)
        metric_add(m->conns[as], 1);
    if (as == CONN_DIALLING)
        c->pool->h2_dials++;
    must_hold(c->shown != CONN_DIALLING || c->pool->h2_dials > 0);
    if (as != CONN_DIALLING && c->shown == CONN_DIALLING)
        c->pool->h2_dials--;
    c->shown = as;
}

static const char *const state_names[] = {
    [H2C_DIALLING] = "dialling", [H2C_OPENING] = "opening", [H2C_OPEN] = "open",
    [H2C_LEAVING] = "leaving",   [H2C_GONE] = "gone",
};

static const uint32_t next_states[] = {
    [H2C_DIALLING] = STATE(H2C_OPENING) | STATE(H2C_GONE),
    [H2C_OPENING] = STATE(H2C_OPEN) | STATE(H2C_GONE),
    [H2C_OPEN] = STATE(H2C_LEAVING) | STATE(H2C_GONE),
    [H2C_LEAVING] = STATE(H2C_GONE),
    [H2C_GONE] = 0,
};

static const struct state_table states = STATE_TABLE("HTTP/2 connection to a server", state_names, next_states);

static void move(struct h2_client *c, enum h2_client_state to)
{
    state_move(&states, &c->state, to);
    h2_client_show(c);
}

bool h2_client_has_room(const struct h2_client *c)
{
    size_t most;

    if (c->state != H2C_OPEN || c->broken != CLOSE_REASONS || c->doubted)
        return false;
    most = nghttp2_session_get_remote_settings(c->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    if (most > LIMIT_H2_BACK_STREAMS)
        most = LIMIT_H2_BACK_STREAMS;
    return c->calls.count < most && nghttp2_session_check_request_allowed(c->session) != 0;
}

/* ---- the end ---- */

static void free_conn(void *arg)
{
    struct h2_client *c = arg;
    struct origin *o = c->origin;

    must_hold(!c->in_session && c->stream == NULL);
    must_hold(c->calls.count == 0 && c->line == NULL); /* they would come back to it */
    nghttp2_session_del(c->session);
    mem_free_secret(c->credential, c->credential_len);
    mem_free(c);
    origin_release(o);
}

void h2_client_close(struct h2_client *c, enum close_reason why, const char *detail)
{
    struct list_node *n;
    char text[160];

    must_hold(!c->in_session);
    (void)snprintf(text, sizeof(text), "%s", detail); /* it may be the stream's */
    move(c, H2C_GONE);
    while ((n = list_first(&c->calls)) != NULL)
        c->events->lost(n, text);
    c->events->failed(c, text);
    if (c->stream != NULL)
        stream_close(c->stream, STREAM_CLOSE_NOW);
    c->stream = NULL;
    list_remove(&c->pool->h2_clients, &c->node);
    c->events->gone(c);
    origin_note_close(c->origin, why, text, "h2", c->served);
    lifetime_retire(&c->life, free_conn, c);
}

void h2_client_note_broken(struct h2_client *c, enum close_reason why, const char *text)
{
    if (c->broken != CLOSE_REASONS)
        return;
    c->broken = why;
    (void)snprintf(c->broken_text, sizeof(c->broken_text), "%s", text);
    h2_client_wake(c);
}

void h2_client_fail(struct h2_client *c, uint32_t code, enum close_reason why, const char *text)
{
    log_v(3, "HTTP/2 connection to server abandoned", LT("server", c->origin->server),
          LT("address", stream_remote_text(c->stream)), LT("reason", origin_close_text(why)), LT("detail", text));
    h2_client_note_broken(c, why, text);
    (void)nghttp2_session_terminate_session(c->session, code);
}

void h2_client_leave(struct h2_client *c)
{
    if (c->state != H2C_OPEN)
        return;
    move(c, H2C_LEAVING);
    h2_client_wake(c);
}

/* ---- what there is to do outside of all calls ---- */

/* False: stream or session are broken beyond use. */
static bool send_output(struct h2_client *c)
{
    const uint8_t *p;
    ssize_t n = 1;

    must_hold(!c->in_session);
    while (n > 0 && !c->speechless && !stream_congested(c->stream)) {
        c->in_session = true;
        n = nghttp2_session_mem_send(c->session, &p);
        c->in_session = false;
        if (n > 0 && !stream_write(c->stream, slice_of((const char *)p, (size_t)n)))
            return false;
    }
    if (n < 0) {
        c->speechless = true;
        h2_client_note_broken(c, CLOSE_NO_MEMORY, nghttp2_strerror((int)n));
    }
    return !c->speechless;
}

/* What nghttp2 refuses without saying so itself. */
static void refuse_input(struct h2_client *c, ssize_t error)
{
    const char *text = nghttp2_strerror((int)error);

    if (error == NGHTTP2_ERR_NOMEM)
        h2_client_fail(c, NGHTTP2_INTERNAL_ERROR, CLOSE_NO_MEMORY, text);
    else if (error == NGHTTP2_ERR_FLOODED)
        h2_client_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, CLOSE_FLOOD, text);
    else
        h2_client_fail(c, NGHTTP2_PROTOCOL_ERROR, CLOSE_PROTOCOL, text);
}

static void take_input(struct h2_client *c)
{
    struct slice in;

    must_hold(!c->in_session);
    /*
     * Also while bodies wait for the server: one that does not read either until it has been read from would wait for
     * us for ever. What its frames make us say is bounded by nghttp2 (LIMIT_H2_UNSENT_ACKS) and by the rate below.
     */
    while ((in = stream_peek(c->stream)).n > 0) {
        ssize_t used;

        if (in.n > PIECE_BYTES)
            in.n = PIECE_BYTES;
        c->heard_ms = now_of(c);
        origin_heard(c->origin);
        c->pinged_ms = 0;
        c->doubted = false;
        c->in_session = true;
        used = nghttp2_session_mem_recv(c->session, (const uint8_t *)in.p, in.n);
        c->in_session = false;
        if (used < 0)
            refuse_input(c, used);
        stream_consume(c->stream, in.n);
        (void)send_output(c); /* when nobody reads any more, what was said before still counts */
        if (c->broken != CLOSE_REASONS)
            return;
    }
}

/* Not sooner because it was asked early: no client of the server's own would give it up before. */
static uint64_t dead_at(const struct h2_client *c)
{
    uint64_t since_ping = c->pinged_ms + c->origin->opts.ping_timeout_ms;
    uint64_t since_heard = c->heard_ms + origin_patience_ms(c->origin);

    return since_ping > since_heard ? since_ping : since_heard;
}

/* The timer looks after everything at once; it is never later than the first of them, and may be early. */
static void arm(struct h2_client *c)
{
    const struct origin_opts *o = &c->origin->opts;
    uint64_t now = now_of(c), at = c->heard_ms + o->ping_after_ms;

    if (c->state == H2C_OPENING)
        at = c->opening_ms + o->connect_timeout_ms;
    else if (c->pinged_ms != 0)
        at = dead_at(c);
    if (c->state == H2C_OPEN && c->calls.count == 0 && c->idle_since_ms + o->idle_timeout_ms < at)
        at = c->idle_since_ms + o->idle_timeout_ms;
    loop_timer_set(c->timer, at > now ? at - now : 1);
}

/* Before the server's SETTINGS it was no connection yet. */
static void ended(struct h2_client *c, enum close_reason why, const char *text)
{
    if (c->state == H2C_OPENING) {
        origin_connect_failed(c->origin, text);
        why = CLOSE_CONNECT_FAILED;
    }
    h2_client_close(c, why, text);
}

/* The one place where bytes go in and out. */
static void settle(struct h2_client *c)
{
    if (c->broken == CLOSE_REASONS)
        take_input(c);
    if (!send_output(c) && c->broken == CLOSE_REASONS)
        return; /* the stream is broken, and says so itself */
    if (c->broken != CLOSE_REASONS)
        ended(c, c->broken, c->broken_text);
    else if (c->state == H2C_LEAVING && c->calls.count == 0)
        h2_client_close(c, CLOSE_GOAWAY, "");
    else if (c->state == H2C_OPEN && c->calls.count == 0 && c->origin->refs == 0)
        h2_client_close(c, CLOSE_ORIGIN_GONE, "");
    else
        arm(c);
}

static void on_work(void *arg)
{
    settle(arg);
}

void h2_client_wake(struct h2_client *c)
{
    if (c->state != H2C_GONE && c->state != H2C_DIALLING)
        lifetime_queue(&c->work);
}

static void ping(struct h2_client *c)
{
    c->pinged_ms = now_of(c);
    if (nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL) != 0)
        h2_client_note_broken(c, CLOSE_NO_MEMORY, "out of memory");
}

/* One that is still being made has its time for that. A PING that is out already is as good. */
void h2_client_doubt(struct h2_client *c)
{
    if ((c->state != H2C_OPEN && c->state != H2C_LEAVING) || c->broken != CLOSE_REASONS)
        return;
    c->doubted = true;
    if (c->pinged_ms != 0)
        return;
    ping(c);
    h2_client_wake(c);
}

/* ---- events ---- */

static void on_stream(struct stream *s, enum stream_event ev, void *arg)
{
    struct h2_client *c = arg;

    (void)s;
    switch (ev) {
    case STREAM_OPENED:
    case STREAM_READABLE:
    case STREAM_WRITABLE:
        settle(c);
        break;
    case STREAM_EOF:
        ended(c, c->state == H2C_LEAVING ? CLOSE_GOAWAY : CLOSE_BY_SERVER, "server closed the connection");
        break;
    case STREAM_FAILED:
        ended(c, c->calls.count > 0 ? CLOSE_BROKEN : CLOSE_BY_SERVER, stream_failure(c->stream));
        break;
    }
}

static void on_timer(void *arg)
{
    struct h2_client *c = arg;
    const struct origin_opts *o = &c->origin->opts;
    uint64_t now = now_of(c);

    if (c->state == H2C_OPENING && now - c->opening_ms >= o->connect_timeout_ms) {
        ended(c, CLOSE_CONNECT_FAILED, "no HTTP/2 SETTINGS in time");
        return;
    }
    if (c->pinged_ms != 0 && now >= dead_at(c)) {
        h2_client_close(c, CLOSE_PING_TIMEOUT, "server does not answer PING");
        return;
    }
    if (c->state == H2C_OPEN && c->calls.count == 0 && now - c->idle_since_ms >= o->idle_timeout_ms) {
        h2_client_close(c, CLOSE_IDLE_TIMEOUT, "");
        return;
    }
    if (c->state != H2C_OPENING && c->pinged_ms == 0 && now - c->heard_ms >= o->ping_after_ms)
        ping(c);
    settle(c);
}

void h2_client_heard_settings(struct h2_client *c)
{
    if (c->state != H2C_OPENING)
        return;
    origin_connected(c->origin);
    c->idle_since_ms = now_of(c);
    move(c, H2C_OPEN);
    if (!h2_client_has_room(c) && c->broken == CLOSE_REASONS) {
        h2_client_note_broken(c, CLOSE_NO_HTTP2, "server takes no streams");
        c->events->refused(c);
        return;
    }
    c->events->opened(c);
}

/* ---- making one ---- */

/* Who asserts users shares HTTP/2 connections of another class; for HTTP/1.1 the connection is as good as any. */
static void not_a_hop(struct h2_client *c, struct stream *s)
{
    origin_connected(c->origin);
    if (strcmp(stream_alpn(s), "h2") == 0)
        stream_close(s, STREAM_CLOSE_NOW);
    else
        pool_adopt(c->origin->pools[POOL_CERT], s);
    c->events->not_a_hop(c);
    h2_client_close(c, CLOSE_NO_HOP, "");
}

static void cancel_dial(void *arg)
{
    dial_cancel(arg);
}

static void on_dialled(struct stream *s, const char *failure, void *arg)
{
    struct h2_client *c = arg;

    lifetime_release(&c->dial);
    if (s == NULL) {
        origin_connect_failed(c->origin, failure);
        h2_client_close(c, CLOSE_CONNECT_FAILED, failure);
        return;
    }
    if (origin_refuses(c->origin, s)) {
        stream_close(s, STREAM_CLOSE_NOW);
        h2_client_close(c, CLOSE_CONNECT_FAILED, ORIGIN_LOOP_TEXT);
        return;
    }
    if (!pool_admits(c->pool, s)) {
        not_a_hop(c, s);
        return;
    }
    if (strcmp(stream_alpn(s), "h2") != 0) {
        origin_connected(c->origin);
        pool_adopt(c->pool, s);
        c->events->refused(c);
        h2_client_close(c, CLOSE_NO_HTTP2, "");
        return;
    }
    c->stream = s;
    stream_set_owner(s, on_stream, c);
    c->opening_ms = c->heard_ms = now_of(c);
    move(c, H2C_OPENING);
    c->session = c->events->session(c);
    if (c->session == NULL)
        h2_client_close(c, CLOSE_NO_MEMORY, "out of memory");
    else
        settle(c);
}

/* False: out of memory. */
static bool begin(struct h2_client *c, struct slice credential)
{
    struct dial *d;

    c->timer = lifetime_timer(&c->life, on_timer, c);
    c->credential_len = credential.n;
    if (credential.p != NULL)
        c->credential = mem_slicedup(credential);
    if (c->timer == NULL || (credential.p != NULL && c->credential == NULL))
        return false;
    d = pool_dial(c->pool, true, on_dialled, c);
    if (d != NULL)
        lifetime_guest(&c->life, &c->dial, cancel_dial, d);
    return d != NULL;
}

struct h2_client *h2_client_new(struct pool *p, struct slice credential, const struct h2_events *events)
{
    struct h2_client *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->pool = p;
    c->origin = p->origin;
    c->events = events;
    c->shown = CONN_GONE;
    c->broken = CLOSE_REASONS;
    list_init(&c->calls);
    origin_use(c->origin);
    lifetime_init(&c->life, p->life.loop, "HTTP/2 connection to a server");
    lifetime_work_init(&c->life, &c->work, LOOP_DEFERRED, on_work, c);
    if (!begin(c, credential)) {
        lifetime_retire(&c->life, free_conn, c);
        return NULL;
    }
    list_push_front(&p->h2_clients, &c->node);
    h2_client_show(c);
    return c;
}
