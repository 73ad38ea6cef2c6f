/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 to servers where it is rare: a farewell said twice, streams that the server ends first, tokens that go
 * different ways, nghttp2 out of memory at one point, and more requests than may wait.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "back/bearers.h"
#include "base/clock.h"
#include "unit/back/h2_kit.h"

#define OK_HEAD ":status: 200\n"

/* The function of nghttp2 that finds no memory; NULL: none. */
static const char *without_memory;

#define WRAPPED(name, params, args)                                                                                    \
    int __real_##name params;                                                                                          \
    int __wrap_##name params;                                                                                          \
    int __wrap_##name params                                                                                           \
    {                                                                                                                  \
        return without_memory != NULL && strcmp(without_memory, #name) == 0 ? NGHTTP2_ERR_NOMEM : __real_##name args;  \
    }

WRAPPED(nghttp2_submit_rst_stream, (nghttp2_session * s, uint8_t flags, int32_t id, uint32_t code),
        (s, flags, id, code))
WRAPPED(nghttp2_submit_ping, (nghttp2_session * s, uint8_t flags, const uint8_t *data), (s, flags, data))
WRAPPED(nghttp2_session_consume_connection, (nghttp2_session * s, size_t n), (s, n))
WRAPPED(nghttp2_session_consume_stream, (nghttp2_session * s, int32_t id, size_t n), (s, id, n))
WRAPPED(nghttp2_session_resume_data, (nghttp2_session * s, int32_t id), (s, id))
WRAPPED(nghttp2_session_set_local_window_size, (nghttp2_session * s, uint8_t flags, int32_t id, int32_t n),
        (s, flags, id, n))

/* What nghttp2 says to the next bytes from a server; 0: what it thinks of them. */
static ssize_t says_to_input;
/* The most that it was given at once. */
static size_t most_input;

ssize_t __real_nghttp2_session_mem_recv(nghttp2_session *s, const uint8_t *in, size_t n);
ssize_t __wrap_nghttp2_session_mem_recv(nghttp2_session *s, const uint8_t *in, size_t n);

ssize_t __wrap_nghttp2_session_mem_recv(nghttp2_session *s, const uint8_t *in, size_t n)
{
    ssize_t error = says_to_input;

    if (nghttp2_session_check_server_session(s) == 0 && n > most_input)
        most_input = n;
    if (error == 0 || nghttp2_session_check_server_session(s) != 0)
        return __real_nghttp2_session_mem_recv(s, in, n);
    says_to_input = 0;
    return error;
}

static void upload_init(struct call *c, struct back_h2_kit *k, uint64_t length)
{
    h2_call_init(c, k, "/x", NULL);
    c->head.method = SLICE_LIT("POST");
    c->head.method_id = HTTP_POST;
    c->opts.body = (struct http_body){HTTP_BODY_LENGTH, length};
}

/* As Go's servers do: first that they leave, then what they have looked at. */
static void two_goaways(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    (void)h2_asked(s, 0);
    h2_goaway(s, INT32_MAX, NGHTTP2_NO_ERROR);
    settle(k.k.loop);
    h2_goaway(s, s->asked[0].id, NGHTTP2_NO_ERROR);
    settle(k.k.loop);
    ok(!s->eof && c.r != NULL, "a server that leaves, and says so twice, is heard to the end");
    h2_headers(s, s->asked[0].id, OK_HEAD, true);
    ok(call_is(&c, "head(200) end"), "what it was asked before is answered");
    ok(h2_ended(s), "then the connection ends");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "goaway"), 1, "for that reason");
    call_free(&c);
    h2_close(&k);
}

/* A question that is out already is as good as one more. */
static void doubted_twice(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    back_kit_origin(&k.k, &(struct origin_opts){.ping_after_ms = 20, .ping_timeout_ms = 60000});
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    (void)h2_asked(s, 0);
    k.silent = true;
    ok(run_until(k.k.loop, s->pings > 0), "who is silent is asked");
    origin_suspect(k.k.origin);
    settle(k.k.loop);
    is_u64(s->pings, 1, "and not again while that is unanswered");
    call_free(&c);
    h2_call_send(&c, &k, "/x", NULL);
    ok(run_until(k.k.loop, k.n_conns == 2), "but nothing new goes there");
    call_free(&c);
    h2_close(&k);
}

/* A request comes in the very turn in which the connection has been idle for long enough: that is no reason to ask. */
static void used_in_time(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    back_kit_origin(&k.k, &(struct origin_opts){.idle_timeout_ms = 20, .ping_after_ms = 60000});
    clock_fake(clock_us(), clock_wall_us());
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, true);
    ok(call_is(&c, "head(200) end"), "answered");
    call_free(&c);
    settle(k.k.loop);
    clock_fake(clock_us() + 20000, clock_wall_us());
    (void)poll(NULL, 0, 30); /* its timer is due when the loop looks */
    h2_call_send(&c, &k, "/x", NULL);
    h2_headers(s, h2_asked(s, 1)->id, OK_HEAD, true);
    ok(call_is(&c, "head(200) end"), "the next one goes over the same connection");
    is_u64(s->pings, 0, "without a question");
    clock_real();
    call_free(&c);
    h2_close(&k);
}

/* A body of which the server has taken nothing for as long as it may. */
static void not_taken(void)
{
    static char body[100000];
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    k.holds = true;
    back_kit_origin(&k.k, &(struct origin_opts){.stall_timeout_ms = 20});
    clock_fake(clock_us(), clock_wall_us());
    upload_init(&c, &k, sizeof(body));
    call_send(&c);
    ok(run_until(k.k.loop, c.writable > 0) && back_write(c.r, slice_of(body, sizeof(body))), "a body");
    (void)h2_asked_body(h2_conn(&k, 0), 0, 65535);
    settle(k.k.loop);
    for (int late = 0; late < 2; late++) {
        ok(late || c.r != NULL, "has its time");
        clock_fake(clock_us() + (late ? 5000 : 15000), clock_wall_us());
        for (int i = 0; i < 40; i++)
            loop_run_once(k.k.loop, 5);
    }
    ok(c.r == NULL, "and no more");
    is_str(c.failure_text, "server does not take the request's body", "that is said");
    clock_real();
    call_free(&c);
    h2_close(&k);
}

/* As many frames that carry nothing as a server may send in a second, twice, and then one more. */
static void control_frames(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    clock_fake(clock_us(), clock_wall_us());
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    (void)h2_asked(s, 0);
    settle(k.k.loop);
    for (size_t second = 0; second < 2; second++) {
        clock_fake(clock_us() + 1000000, clock_wall_us());
        for (unsigned i = 0; i < LIMIT_H2_CONTROL_FRAMES; i++)
            h2_frame(s, NGHTTP2_PING, 0, 0, SLICE_LIT("12345678"));
        h2_headers(s, s->asked[second].id, OK_HEAD, true);
        ok(call_is(&c, "head(200) end"), "as many frames as may be in one second");
        call_free(&c);
        h2_call_send(&c, &k, "/x", NULL);
        (void)h2_asked(s, second + 1);
    }
    ok(!s->eof && k.n_conns == 1, "the connection goes on");
    h2_frame(s, NGHTTP2_PING, 0, 0, SLICE_LIT("12345678"));
    ok(h2_ended(s), "one more ends it");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "flood"), 1, "as a flood");
    clock_real();
    call_free(&c);
    h2_close(&k);
}

/* However much has come: in between what it makes us say goes out. */
static void input_in_pieces(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    h2_call_send(&c, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    most_input = 0;
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    h2_bulk(s, s->asked[0].id, LIMIT_H2_BACK_WINDOW);
    h2_data(s, s->asked[0].id, "", true);
    ok(call_is(&c, "head(200) end"), "an answer of a window's size");
    ok(most_input > 0 && most_input <= (16 << 10), "nghttp2 is given little of it at once: %zu", most_input);
    call_free(&c);
    h2_close(&k);
}

/* ---- tokens ---- */

static void token_asks(struct call *c, struct back_h2_kit *k, bool hop)
{
    h2_call_init(c, k, "/x", "Bearer a");
    c->opts.hop = hop;
    call_send(c);
}

/* The connection that it used last has no room, or is of the other way there. */
static void token_with_several(void)
{
    static const struct {
        bool hop;
        size_t conn, nth;
    } rows[] = {{false, 0, 0}, {false, 0, 1}, {true, 1, 0}, {true, 1, 1}, {false, 0, 2},
                {false, 2, 0}, {false, 2, 1}, {true, 1, 2}, {true, 3, 0}, {false, 2, 2}};
    static struct back_h2_kit k;
    static struct call c[ROWS(rows)];
    size_t used = 0;

    h2_open(&k);
    k.max_streams = 3;
    tls_ctx_unref(k.k.client_cert_tls);
    k.k.client_cert_tls = hop_client_ctx("front-proxy-client", false);
    back_kit_origin(&k.k, &(struct origin_opts){.ping_after_ms = 0});
    tls_ctx_unref(k.k.server_tls);
    k.k.server_tls = hop_server_ctx(true);
    h2_judge_bearer(&k, "Bearer a", 200);
    for (size_t i = 0; i < ROWS(rows); i++) {
        token_asks(&c[i], &k, rows[i].hop);
        (void)h2_asked(h2_conn(&k, rows[i].conn), rows[i].nth);
        is_int(stream_tls_peer(k.conns[rows[i].conn]->s)->present, rows[i].hop, "request %zu is on connection %zu", i,
               rows[i].conn);
    }
    is_u64(k.n_conns, 4, "no more connections than are needed");
    for (size_t i = 0; i < LIMIT_ACCEPTED_BEARERS; i++)
        used += k.k.back->bearers[i].used != NULL;
    is_u64(used, 1, "the last one is remembered");
    for (size_t i = 0; i < ROWS(rows); i++)
        call_free(&c[i]);
    for (size_t i = 0; i < k.n_conns; i++)
        h2_conn_close(k.conns[i], STREAM_CLOSE_NOW);
    settle(k.k.loop);
    for (size_t i = 0; i < LIMIT_ACCEPTED_BEARERS; i++)
        used -= k.k.back->bearers[i].used == NULL;
    is_u64(used + LIMIT_ACCEPTED_BEARERS, 1, "and forgotten with its end");
    h2_close(&k);
}

/* ---- the server ends first ---- */

/* It has answered without all of the body, whose rest is nobody's; its owner has not read the answer yet. */
static void answered_before_all_is_sent(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    upload_init(&c, &k, 10);
    c.pause_at = "head";
    call_send(&c);
    s = h2_conn(&k, 0);
    ok(run_until(k.k.loop, c.writable > 0) && back_write(c.r, SLICE_LIT("01234")), "half of a body");
    (void)h2_asked_body(s, 0, 5);
    h2_headers(s, s->asked[0].id, OK_HEAD, false);
    h2_data(s, s->asked[0].id, "answer", true);
    h2_rst(s, s->asked[0].id, NGHTTP2_NO_ERROR);
    ok(call_is(&c, "head(200)"), "an answer that is not read yet");
    settle(k.k.loop);
    ok(!back_congested(c.r) && back_write(c.r, SLICE_LIT("567")) && back_write(c.r, SLICE_LIT("89")),
       "the rest is taken and goes nowhere");
    settle(k.k.loop);
    is_u64(buf_len(&s->asked[0].body), 5, "nothing of it is sent");
    back_resume(c.r);
    ok(call_is(&c, "head(200) end") && buf_has(&c.body, "answer"), "the answer is there");
    is_double(back_kit_metric(&k.k, "mvproxy_back_streams", NULL), 0, "and the stream gone");
    call_free(&c);
    h2_close(&k);
}

/* Its owner lets go in the middle of what has waited for it. */
static void cancelled_while_delivered(void)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c;

    h2_open(&k);
    h2_call_init(&c, &k, "/x", NULL);
    c.pause_at = "head";
    call_send(&c);
    s = h2_conn(&k, 0);
    h2_headers(s, h2_asked(s, 0)->id, OK_HEAD, false);
    h2_bulk(s, s->asked[0].id, 40000);
    ok(call_is(&c, "head(200)"), "more than is given at once waits");
    settle(k.k.loop);
    c.cancel_at = "body";
    back_resume(c.r);
    ok(call_is(&c, "head(200) cancel"), "cancelled in the first piece");
    settle(k.k.loop);
    is_u64(c.body_events, 1, "no second piece comes");
    ok(h2_was_reset(s, 0), "the server is told");
    call_free(&c);
    h2_close(&k);
}

/* ---- what cannot be sent, and what is no answer ---- */

static void unsendable(void)
{
    static const char *const names[] = {"a field", "a host", "a method", "a path"};
    static struct back_h2_kit k;
    struct call c;

    h2_open(&k);
    for (size_t i = 0; i < ROWS(names); i++) {
        h2_call_init(&c, &k, "/x", NULL);
        if (i == 0 && !http_head_add(&c.head, c.arena, SLICE_LIT("X-A"), SLICE_LIT("a\r\nX-B: b")))
            tap_bail("no memory");
        if (i == 1)
            c.head.fields[0].value = SLICE_LIT("h\r\nx: y");
        if (i == 2)
            c.head.method = SLICE_LIT("GE T");
        if (i == 3)
            c.head.target = SLICE_LIT("/\r\n");
        call_send(&c);
        ok(call_is(&c, "failed: head"), "%s that cannot be written", names[i]);
        is_str(c.failure_text, "request head cannot be sent", "that is said");
        call_free(&c);
    }
    h2_call_send(&c, &k, "/x", NULL);
    is_int(h2_asked(h2_conn(&k, 0), 0)->id, 1, "nothing of them has been sent");
    call_free(&c);
    h2_close(&k);
}

static void bad_answers(void)
{
    static const struct {
        const char *name, *head, *trailers, *log;
    } rows[] = {
        {"101", ":status: 101\n", NULL, "failed: head"},
        {"two lengths", ":status: 200\ncontent-length: 5\ncontent-length: 6\n", NULL, "failed: head"},
        {"a field that is none", ":status: 200\nX y: 1\n", NULL, "failed: head"},
        {"trailers with one that is none", OK_HEAD, "X y: 1\n", "head(200) failed: body"},
    };
    static struct back_h2_kit k;

    h2_open(&k);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct h2_conn *s;
        struct call c;

        h2_call_send(&c, &k, "/x", NULL);
        s = h2_conn(&k, 0);
        h2_headers(s, h2_asked(s, i)->id, rows[i].head, false);
        if (rows[i].trailers != NULL)
            h2_headers(s, s->asked[i].id, rows[i].trailers, true);
        ok(call_is(&c, rows[i].log), "%s: %s", rows[i].name, rows[i].log);
        ok(h2_was_reset(s, i), "the server is told");
        is_u64(s->asked[i].code, NGHTTP2_PROTOCOL_ERROR, "whose fault it is");
        call_free(&c);
    }
    is_u64(k.n_conns, 1, "others may go on");
    h2_close(&k);
}

/* A field counts as its name, its value and 32 bytes. */
static void long_trailers(void)
{
    enum { FIELDS = 4, NAME = 3, OVERHEAD = 32, EACH = LIMIT_TRAILER_BYTES / FIELDS - NAME - OVERHEAD };
    static struct back_h2_kit k;
    static char fields[FIELDS * (EACH + 8)], value[EACH + 2];

    h2_open(&k);
    for (int more = 0; more < 2; more++) {
        struct h2_conn *s;
        struct call c;
        size_t at = 0;

        memset(value, 'v', sizeof(value) - 1);
        for (int i = 0; i < FIELDS; i++)
            at += (size_t)snprintf(fields + at, sizeof(fields) - at, "x-%d: %.*s\n", i, EACH + (i == 0 ? more : 0),
                                   value);
        h2_call_send(&c, &k, "/x", NULL);
        s = h2_conn(&k, 0);
        h2_headers(s, h2_asked(s, (size_t)more)->id, OK_HEAD, false);
        h2_headers(s, s->asked[more].id, fields, true);
        ok(call_is(&c, more > 0 ? "head(200) failed: body" : "head(200) end(4)"), "trailers of %d bytes",
           LIMIT_TRAILER_BYTES + more);
        if (more > 0)
            is_str(c.failure_text, "response head is too large", "which says so");
        call_free(&c);
    }
    h2_close(&k);
}

/* ---- memory ---- */

/* Whatever nghttp2 has no memory for, the connection ends, and those on it are told. */
static void nghttp2_without_memory(const char *function)
{
    static struct back_h2_kit k;
    struct h2_conn *s;
    struct call c, other;

    h2_open(&k);
    h2_call_send(&other, &k, "/x", NULL);
    s = h2_conn(&k, 0);
    (void)h2_asked(s, 0);
    upload_init(&c, &k, 10);
    call_send(&c);
    ok(run_until(k.k.loop, c.writable > 0), "a body is wanted");
    settle(k.k.loop);
    without_memory = function;
    if (strcmp(function, "nghttp2_session_resume_data") == 0) {
        ok(back_write(c.r, SLICE_LIT("01234")), "taken");
    } else if (strcmp(function, "nghttp2_submit_ping") == 0) {
        origin_suspect(k.k.origin);
    } else if (strcmp(function, "nghttp2_submit_rst_stream") == 0) {
        ok(back_write(c.r, SLICE_LIT("01234")), "taken");
        back_cancel(c.r);
        c.r = NULL;
    } else {
        h2_headers(s, s->asked[0].id, OK_HEAD, false);
        h2_bulk(s, s->asked[0].id, 2 * LIMIT_H2_BACK_WINDOW - 1);
    }
    ok(run_until(k.k.loop, other.r == NULL || k.n_conns == 2), "%s: the request ends, or goes elsewhere", function);
    without_memory = NULL;
    ok(call_over(&c), "the other one ends");
    is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", "no_memory"), 1, "with its connection");
    call_free(&c);
    call_free(&other);
    is_double(back_kit_metric(&k.k, "mvproxy_back_streams", NULL), 0, "no stream is left");
    h2_close(&k);
}

static void refused_by_nghttp2(void)
{
    static const struct {
        ssize_t error;
        const char *reason;
        uint32_t code;
    } rows[] = {{NGHTTP2_ERR_NOMEM, "no_memory", NGHTTP2_INTERNAL_ERROR},
                {NGHTTP2_ERR_FLOODED, "flood", NGHTTP2_ENHANCE_YOUR_CALM},
                {NGHTTP2_ERR_CALLBACK_FAILURE, "protocol_error", NGHTTP2_PROTOCOL_ERROR}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        static struct back_h2_kit k;
        struct h2_conn *s;
        struct call c;

        h2_open(&k);
        upload_init(&c, &k, 10);
        call_send(&c);
        s = h2_conn(&k, 0);
        ok(run_until(k.k.loop, c.writable > 0), "a body is wanted");
        settle(k.k.loop);
        says_to_input = rows[i].error;
        h2_headers(s, s->asked[0].id, OK_HEAD, false);
        ok(call_over(&c), "input that nghttp2 refuses, %zu: the request ends", i);
        ok(h2_ended(s), "with its connection");
        is_double(back_kit_metric(&k.k, "mvproxy_back_connections_closed_total", rows[i].reason), 1, "%s",
                  rows[i].reason);
        is_u64(s->goaways, 1, "the server is told");
        is_u64(s->goaway_code, rows[i].code, "why");
        call_free(&c);
        h2_close(&k);
    }
}

static void ignore_failure(void *arg, const struct back_failure_info *f)
{
    if (f->why == BACK_FAIL_BUSY)
        ++*(size_t *)arg;
}

/* Those who wait for an HTTP/2 connection, and then those who wait for one of HTTP/1.1. */
static void too_many_wait(bool http2)
{
    static const struct back_handler handler = {.on_failed = ignore_failure};
    static struct back_h2_kit k;
    size_t busy = 0;
    struct call c;

    h2_open(&k);
    k.silent = true;
    back_kit_origin(&k.k, &(struct origin_opts){.max_connections = 1, .connect_timeout_ms = 600000});
    h2_call_init(&c, &k, "/x", NULL);
    c.opts.http2 = http2 ? BACK_HTTP2_SHARED : BACK_HTTP1;
    c.opts.handler = &handler;
    c.opts.arg = &busy;
    for (size_t i = 0; i < LIMIT_POOL_WAITING; i++)
        if (back_start(k.k.back, &c.opts) == NULL)
            tap_bail("no memory");
    for (int i = 0; i < 3; i++)
        loop_run_once(k.k.loop, 0);
    is_u64(busy, 0, "%s: so many may wait", http2 ? "HTTP/2" : "HTTP/1.1");
    for (int i = 0; i < 3; i++)
        if (back_start(k.k.back, &c.opts) == NULL)
            tap_bail("no memory");
    for (int i = 0; i < 3; i++)
        loop_run_once(k.k.loop, 0);
    is_u64(busy, 3, "and no more");
    back_free(k.k.back);
    k.k.back = back_new(k.k.loop, NULL);
    call_free(&c);
    h2_close(&k);
}

int main(void)
{
    static const char *const functions[] = {
        "nghttp2_submit_rst_stream",      "nghttp2_submit_ping",         "nghttp2_session_consume_connection",
        "nghttp2_session_consume_stream", "nghttp2_session_resume_data", "nghttp2_session_set_local_window_size"};

    two_goaways();
    doubted_twice();
    used_in_time();
    not_taken();
    control_frames();
    input_in_pieces();
    token_with_several();
    answered_before_all_is_sent();
    cancelled_while_delivered();
    unsendable();
    bad_answers();
    long_trailers();
    for (size_t i = 0; i < ROWS(functions); i++)
        nghttp2_without_memory(functions[i]);
    refused_by_nghttp2();
    too_many_wait(true);
    too_many_wait(false);
    return tap_end();
}
