/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies both ways: large ones, pauses, back-pressure, early answers and expectations.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "unit/back/kit.h"

#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

enum { BIG = 10 << 20 };

static char *pattern(size_t n)
{
    char *p = malloc(n);

    if (p == NULL)
        tap_bail("no memory");
    for (size_t i = 0; i < n; i++)
        p[i] = (char)('a' + i % 23 + (i >> 16) % 3);
    return p;
}

/* Sends as much as the other side takes. */
static bool feed_server(struct server_conn *s, const char *text, size_t n, size_t *at)
{
    while (*at < n && !stream_congested(s->s)) {
        size_t step = n - *at < 30000 ? n - *at : 30000;

        if (!stream_write(s->s, slice_of(text + *at, step)))
            return false;
        *at += step;
    }
    return true;
}

static void big_download(bool tls, bool chunked)
{
    static struct back_kit k;
    char *text = pattern(BIG), *wire = text;
    size_t n = BIG, at = 0, paused = 0;
    struct server_conn *s;
    struct call c;
    struct buf b;

    back_kit_open(&k, tls, 0);
    call_init(&c, &k, "GET", "/");
    c.pause_at = "body";
    call_send(&c);
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    buf_init(&b, 2 * BIG);
    if (chunked) {
        conn_say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (size_t i = 0; i < BIG; i += 77777) {
            size_t step = BIG - i < 77777 ? BIG - i : 77777;

            buf_printf(&b, "%zx\r\n", step);
            buf_append(&b, slice_of(text + i, step));
            buf_append_str(&b, "\r\n");
        }
        buf_append_str(&b, "0\r\n\r\n");
        wire = b.p;
        n = buf_len(&b);
    } else {
        conn_say(s, "HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n");
    }
    while (c.r != NULL && feed_server(s, wire, n, &at)) {
        if (c.pause_at == NULL) { /* it has paused itself: nothing may come */
            size_t before = buf_len(&c.body);

            settle(k.loop);
            if (c.r != NULL && buf_len(&c.body) != before) {
                ok(false, "a body piece in a pause");
                break;
            }
            c.pause_at = ++paused < 50 ? "body" : "never";
            back_resume(c.r);
        }
        loop_run_once(k.loop, 20);
    }
    ok(paused >= 10, "%s%s: paused %zu times", tls ? "TLS, " : "", chunked ? "chunked" : "length", paused);
    ok(call_is(&c, "head(200) end"), "complete");
    ok(slice_eq(buf_slice(&c.body), slice_of(text, BIG)), "byte for byte");
    call_free(&c);
    settle(k.loop);
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), 1, "the connection is kept, unpaused");
    k.auto_reply = OK5;
    call_start(&c, &k, "GET", "/again");
    ok(call_is(&c, "head(200) end"), "and works");
    call_free(&c);
    is_u64(k.n_conns, 1, "one connection");
    back_kit_close(&k);
    buf_free(&b);
    free(text);
}

/* While the owner pauses, the server finishes and leaves: what it sent is not lost. */
static void pause_and_close(bool tls, enum stream_close_how how, const char *log)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, tls, 0);
    call_init(&c, &k, "GET", "/");
    c.pause_at = "head";
    call_send(&c);
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    conn_say(s, OK5);
    conn_close(s, how);
    settle(k.loop);
    is_int(c.body_events, 0, "nothing in the pause");
    back_resume(c.r);
    ok(call_is(&c, log), "%sthen %s", tls ? "TLS: " : "", log);
    ok(slice_eq(buf_slice(&c.body), SLICE_LIT("hello")), "with all of the body");
    call_free(&c);
    back_kit_close(&k);
}

static void upload(bool tls, bool chunked)
{
    static struct back_kit k;
    char *text = pattern(BIG);
    size_t at = 0, waits = 0;
    struct server_conn *s;
    struct call c;
    bool congested = false;

    back_kit_open(&k, tls, 0);
    call_init(&c, &k, "PUT", "/");
    c.opts.body = (struct http_body){chunked ? HTTP_BODY_CHUNKED : HTTP_BODY_LENGTH, chunked ? 0 : BIG};
    call_send(&c);
    ok(back_congested(c.r), "congested before there is a connection");
    ok(run_until(k.loop, c.writable > 0), "writable");
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "the head is there before the body");
    stream_pause(s->s, STREAM_PAUSE_LIMIT);
    while (at < BIG) {
        size_t step = BIG - at < 10000 ? BIG - at : 10000;

        if (back_congested(c.r)) {
            unsigned before = c.writable;

            if (!congested)
                stream_resume(s->s, STREAM_PAUSE_LIMIT);
            congested = true;
            if (!run_until(k.loop, c.writable > before))
                break;
            ok(!back_congested(c.r), "on_writable means writable");
            waits++;
            continue;
        }
        if (!back_write(c.r, slice_of(text + at, step)))
            break;
        at += step;
    }
    is_u64(at, BIG, "all given");
    ok(waits > 0, "%s%s: waited %zu times", tls ? "TLS, " : "", chunked ? "chunked" : "length", waits);
    back_finish(c.r, NULL);
    if (!congested)
        stream_resume(s->s, STREAM_PAUSE_LIMIT);
    if (chunked)
        ok(conn_has(s, "\r\n0\r\n\r\n"), "last chunk");
    else
        ok(run_until(k.loop, buf_len(&s->got) > BIG), "all received");
    settle(k.loop);
    if (!chunked)
        ok(slice_eq(slice_from(buf_slice(&s->got), buf_len(&s->got) - BIG), slice_of(text, BIG)), "byte for byte");
    conn_say(s, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
    ok(call_is(&c, "head(201) end"), "answered");
    settle(k.loop);
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), 1, "kept");
    call_free(&c);
    back_kit_close(&k);
    free(text);
}

static void small_bodies(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct http_head trailers;
    struct call c;

    back_kit_open(&k, false, 0);
    /* given before there is a connection */
    call_init(&c, &k, "POST", "/early");
    c.opts.body = (struct http_body){HTTP_BODY_CHUNKED, 0};
    call_send(&c);
    ok(back_write(c.r, SLICE_LIT("abc")) && back_write(c.r, SLICE_NONE) &&
           back_write(c.r, SLICE_LIT("0123456789abcdef")),
       "kept");
    if (!http_head_init(&trailers, c.arena, 1) || !http_head_add(&trailers, c.arena, SLICE_LIT("A"), SLICE_LIT("b")))
        tap_bail("no memory");
    back_finish(c.r, &trailers);
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n0\r\n"), "sent");
    settle(k.loop);
    is_str(conn_take(s),
           "POST /early HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
           "chunked\r\n\r\n3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n",
           "as it was given");
    conn_say(s, OK5);
    ok(call_is(&c, "head(200) end"), "answered");
    is_int(c.writable, 0, "no on_writable for who has finished");
    call_free(&c);

    /* an empty chunked body goes out twice when the server leaves: nothing of it was taken */
    call_init(&c, &k, "GET", "/empty");
    c.opts.body = (struct http_body){HTTP_BODY_CHUNKED, 0};
    call_send(&c);
    back_finish(c.r, NULL);
    ok(conn_has(s, "0\r\n\r\n"), "empty chunked body");
    conn_close(s, STREAM_CLOSE_NOW);
    s = back_kit_conn(&k, 1);
    ok(conn_has(s, "\r\n\r\n0\r\n\r\n"), "is repeated on a new connection");
    conn_say(s, OK5);
    ok(call_is(&c, "head(200) end"), "answered");
    call_free(&c);

    /* what was read is not sent again, kept or not */
    call_init(&c, &k, "POST", "/taken");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 3};
    call_send(&c);
    ok(back_write(c.r, SLICE_LIT("abc")), "body");
    ok(conn_has(s, "abc"), "sent");
    conn_close(s, STREAM_CLOSE_NOW);
    ok(call_is(&c, "failed: unanswered"), "lost");
    ok(c.failure.body_sent && c.failure.request_sent && c.failure.reused, "and the owner knows");
    call_free(&c);
    back_kit_close(&k);
}

/* The end of a body that has ended before there was a connection is on each connection on which the request goes out.
 */
static void ended_early(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    call_init(&c, &k, "GET", "/nothing");
    c.opts.body = (struct http_body){HTTP_BODY_CHUNKED, 0};
    call_send(&c);
    back_finish(c.r, NULL);
    for (unsigned i = 0; i < 2; i++) {
        ok(conn_has(back_kit_conn(&k, i), "/nothing"), "an empty chunked body, time %u", i);
        settle(k.loop);
        is_str(conn_take(back_kit_conn(&k, i)),
               "GET /nothing HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "ends at once");
        if (i == 0)
            conn_close(back_kit_conn(&k, 0), STREAM_CLOSE_NOW);
    }
    conn_say(back_kit_conn(&k, 1), OK5);
    ok(call_is(&c, "head(200) end"), "answered");
    settle(k.loop);
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), 1, "and the connection can be used again");
    call_free(&c);
    back_kit_close(&k);
}

static void wrong_lengths(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, false, 0);
    for (size_t i = 0; i < 3; i++) {
        call_init(&c, &k, "POST", "/");
        c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 5};
        call_send(&c);
        if (i < 2)
            ok(run_until(k.loop, c.writable > 0), "writable");
        ok(back_write(c.r, SLICE_LIT("1234")), "four of five");
        if (i == 0)
            ok(!back_write(c.r, SLICE_LIT("56")), "two more are too many");
        else
            back_finish(c.r, NULL);
        ok(!back_write(c.r, SLICE_LIT("x")), "over");
        ok(call_is(&c, "failed: body"), "fails");
        if (i < 2) {
            s = back_kit_conn(&k, k.n_conns - 1);
            ok(conn_closed(s), "the connection is closed: the server must not wait for the rest");
            ok(!buf_has(&s->got, "56"), "nothing beyond the length went out");
        }
        call_free(&c);
    }
    back_kit_close(&k);
}

static void early_answer(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, false, 0);
    call_init(&c, &k, "POST", "/");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 1000000};
    call_send(&c);
    ok(run_until(k.loop, c.writable > 0), "writable");
    ok(back_write(c.r, SLICE_LIT("some")), "some of the body");
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "some"), "there");
    conn_say(s, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    ok(call_is(&c, "head(413) end"), "answered before the body was complete");
    ok(conn_closed(s), "such a connection is not used again");
    call_free(&c);
    back_kit_close(&k);
}

static void expectations(void)
{
    static const char *const replies[] = {"HTTP/1.1 100 Continue\r\n\r\n", "", OK5};

    for (size_t i = 0; i < ROWS(replies); i++) {
        static struct back_kit k;
        struct server_conn *s;
        struct call c;

        back_kit_open(&k, false, 0);
        call_init(&c, &k, "POST", "/");
        if (!http_head_add_id(&c.head, c.arena, HTTP_EXPECT, SLICE_LIT("100-continue")))
            tap_bail("no memory");
        c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 3};
        c.opts.expect_continue = true;
        call_send(&c);
        s = back_kit_conn(&k, 0);
        ok(conn_has(s, "\r\n\r\n"), "head");
        settle(k.loop);
        is_int(c.writable, 0, "waits");
        ok(back_congested(c.r), "congested");
        if (i == 2) {
            conn_say(s, replies[i]);
            ok(call_is(&c, "head(200) end"), "a final answer instead");
            call_free(&c);
            back_kit_close(&k);
            continue;
        }
        conn_say(s, replies[i]);
        ok(run_until(k.loop, c.writable > 0), i == 0 ? "100 opens the way" : "so does waiting");
        ok(back_write(c.r, SLICE_LIT("abc")), "body");
        ok(conn_has(s, "abc"), "sent");
        conn_say(s, OK5);
        ok(call_is(&c, i == 0 ? "interim(100) head(200) end" : "head(200) end"), "answered");
        call_free(&c);
        back_kit_close(&k);
    }
}

/* What waits of an answer for its owner is charged to him, and is nobody's when he has gone. */
static void charged_answer(bool tls, bool cancelled)
{
    static struct back_kit k;
    static char text[60 << 10];
    struct quota quota;
    struct server_conn *s;
    struct call c;
    size_t before;

    quota_init(&quota, NULL, 0);
    memset(text, 'x', sizeof(text) - 1);
    back_kit_open(&k, tls, 0);
    call_init(&c, &k, "GET", "/");
    c.opts.quota = &quota;
    c.pause_at = "head";
    call_send(&c);
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    before = quota.held;
    conn_say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n");
    conn_say(s, text);
    ok(run_until(k.loop, quota.held > before), "an answer waits, and is charged (%zu bytes)", quota.held);
    if (cancelled) {
        back_cancel(c.r);
        c.r = NULL;
    } else {
        back_resume(c.r);
        ok(run_until(k.loop, buf_len(&c.body) == sizeof(text) - 1), "it goes on");
        conn_close(s, STREAM_CLOSE_ABORT);
        ok(call_over(&c), "and breaks off");
    }
    is_u64(quota.held, 0, "nothing is left, at once");
    call_free(&c);
    back_kit_close(&k);
}

/* The head of an answer is there for as long as its request, which may be for ever. */
static void charged_head(bool lasting, bool room)
{
    enum { FIELDS = 20, VALUE = 4000 };
    static char head[FIELDS * (VALUE + 8) + 64];
    static struct back_kit k;
    struct quota quota;
    struct server_conn *s;
    struct call c;
    size_t n = (size_t)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n");

    for (int i = 0; i < FIELDS; i++)
        n += (size_t)snprintf(head + n, sizeof(head) - n, "X: %0*d\r\n", VALUE, i);
    (void)snprintf(head + n, sizeof(head) - n, "\r\n");
    quota_init(&quota, NULL, room ? 0 : FIELDS * VALUE);
    back_kit_open(&k, false, 0);
    call_init(&c, &k, "GET", "/");
    c.opts.quota = &quota;
    c.opts.lasting = lasting;
    call_send(&c);
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    conn_say(s, head);
    if (room) {
        ok(call_is(&c, "head(200)"), "an answer with a large head begins");
        ok(quota.held >= FIELDS * VALUE, "which is charged as long as it is there (%zu bytes)", quota.held);
        conn_say(s, "body body");
        ok(call_over(&c), "it ends");
    } else {
        ok(call_over(&c), "a head that there is no room for");
        is_int(c.failure.why, BACK_FAIL_MEMORY, "fails for want of memory, and the server is not blamed");
    }
    is_u64(quota.held, 0, "nothing is left");
    call_free(&c);
    back_kit_close(&k);
}

/* Nor is a part of a head, or of trailers, for nothing, however long the rest takes. */
static void charged_part(bool trailers, bool cancelled)
{
    enum { PART = 15000 };
    static char part[PART + 1];
    static struct back_kit k;
    struct quota quota;
    struct server_conn *s;
    struct call c;
    size_t before;

    quota_init(&quota, NULL, 0);
    memset(part, 'x', PART);
    back_kit_open(&k, false, 0);
    call_init(&c, &k, "GET", "/");
    c.opts.quota = &quota;
    call_send(&c);
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    conn_say(s, trailers ? "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-A: "
                         : "HTTP/1.1 200 OK\r\nX-A: ");
    ok(!trailers || run_until(k.loop, buf_len(&c.body) == 1), "an answer begins");
    before = quota.held;
    conn_say(s, part);
    ok(run_until(k.loop, quota.held >= before + PART), "what has come of it is charged");
    if (cancelled) {
        back_cancel(c.r);
        c.r = NULL;
        conn_say(s, "\r\n\r\n");
    } else {
        conn_close(s, STREAM_CLOSE_ABORT);
        ok(call_over(&c), "it breaks off");
    }
    is_u64(quota.held, 0, "nothing is left, at once");
    call_free(&c);
    back_kit_close(&k);
}

/* Not even for a request without any answer is there room. */
static void no_room(bool lasting)
{
    static struct back_kit k;
    struct quota quota;
    struct call c;

    quota_init(&quota, NULL, 100);
    back_kit_open(&k, false, 0);
    call_init(&c, &k, "GET", "/");
    c.opts.quota = &quota;
    c.opts.lasting = lasting;
    is_null(back_start(k.back, &c.opts), "no room for a request");
    is_u64(quota.held, 0, "nothing is charged");
    call_free(&c);
    back_kit_close(&k);
}

/* The server stops reading in the middle of a body; `answering`: after its answer has begun. */
static void not_taken(bool chunked, bool answering)
{
    static struct back_kit k;
    static char piece[64 << 10];
    struct server_conn *s;
    size_t given = 0;
    struct call c;

    memset(piece, 'x', sizeof(piece));
    back_kit_open(&k, true, 0);
    back_kit_origin(&k, &(struct origin_opts){.stall_timeout_ms = 200});
    call_init(&c, &k, "PUT", "/");
    c.opts.body = (struct http_body){chunked ? HTTP_BODY_CHUNKED : HTTP_BODY_LENGTH, chunked ? 0 : BIG};
    call_send(&c);
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    stream_pause(s->s, STREAM_PAUSE_LIMIT);
    if (answering) {
        conn_say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        ok(call_is(&c, "head(200)"), "answered early");
    }
    for (uint64_t end = deadline();
         c.r != NULL && !passed(end);) { /* as much as goes out, until the kernel takes no more */
        while (c.r != NULL && !back_congested(c.r) && given + sizeof(piece) <= BIG &&
               back_write(c.r, slice_of(piece, sizeof(piece))))
            given += sizeof(piece);
        loop_run_once(k.loop, 20);
    }
    ok(call_is(&c, answering ? "head(200) failed: timeout" : "failed: timeout"), "%s: ends",
       chunked ? "chunked" : "length");
    is_str(c.failure_text, "server does not take the request's body", "and says why");
    ok(back_kit_metric(&k, "mvproxy_back_failures_total", "timeout") == 1, "counted");
    call_free(&c);
    back_kit_close(&k);
}

/* The time that an answer has ends with its head, whatever of the body is still to come. */
static void late_body(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call c;

    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.stall_timeout_ms = 20});
    call_init(&c, &k, "PUT", "/");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 3};
    c.opts.head_timeout_ms = 2000;
    call_send(&c);
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "\r\n\r\n"), "request");
    conn_say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    ok(call_is(&c, "head(200)"), "answered early");
    for (int i = 0; i < 40; i++) { /* in steps that are no pause of the process */
        clock_fake(clock_us() + 90000, clock_wall_us());
        loop_run_once(k.loop, 5);
    }
    clock_real();
    ok(c.r != NULL && back_write(c.r, SLICE_LIT("abc")), "the body may be given at any time");
    ok(conn_has(s, "abc"), "and is sent");
    conn_say(s, "0\r\n\r\n");
    ok(call_is(&c, "head(200) end"), "over");
    call_free(&c);
    back_kit_close(&k);
}

/* One that its owner does not give is not the server's fault; but the answer is late all the same. */
static void not_given(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.stall_timeout_ms = 20});
    call_init(&c, &k, "PUT", "/");
    c.opts.body = (struct http_body){HTTP_BODY_LENGTH, 10};
    c.opts.head_timeout_ms = 300;
    call_send(&c);
    ok(run_until(k.loop, c.writable > 0), "writable");
    ok(back_write(c.r, SLICE_LIT("abc")), "some of it");
    ok(call_is(&c, "failed: timeout"), "the time of the answer holds for uploads");
    is_str(c.failure_text, "no response head in time", "and nothing else");
    call_free(&c);
    back_kit_close(&k);
}

int main(void)
{
    for (int i = 0; i < 4; i++)
        not_taken((i & 1) != 0, (i & 2) != 0);
    late_body();
    for (int i = 0; i < 4; i++)
        charged_answer((i & 1) != 0, (i & 2) != 0);
    for (int i = 0; i < 4; i++)
        charged_head((i & 1) != 0, (i & 2) != 0);
    for (int i = 0; i < 4; i++)
        charged_part((i & 1) != 0, (i & 2) != 0);
    no_room(false);
    no_room(true);
    not_given();
    big_download(false, false);
    big_download(false, true);
    big_download(true, false);
    big_download(true, true);
    pause_and_close(false, STREAM_CLOSE_FLUSH, "head(200) end");
    pause_and_close(true, STREAM_CLOSE_FLUSH, "head(200) end");
    upload(false, false);
    upload(false, true);
    upload(true, false);
    upload(true, true);
    small_bodies();
    ended_early();
    wrong_lengths();
    early_answer();
    expectations();
    return tap_end();
}
