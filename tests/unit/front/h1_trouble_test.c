/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/1.1 server connection when something goes wrong, or on: clients that leave, broken responses, slow readers,
 * upgrades, bad requests, time. */
#include "unit/front/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/limits.h"
#include "front/h1_state.h"
#include "lib/tap.h"
#include "net/stream_internal.h"

/* ---- clients that leave ---- */

struct leaving {
    const char *name;
    const char *sent;
    bool handled, head_given, body_paused;
    const char *reason; /* of an orderly end */
};

static const struct leaving leavings[] = {
    {"before any byte", "", false, false, false, "no_request"},
    {"in the middle of a head", "GET / HT", false, false, false, "client_gone"},
    {"after the head of a body", "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", true, false, false,
     "client_gone"},
    {"in the middle of a body", "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", true, false, false,
     "client_gone"},
    {"in the middle of a paused body", "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab", true, false, true,
     "client_gone"},
    {"in the middle of a chunk", "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", true,
     false, false, "client_gone"},
    {"while it is served", "GET /x HTTP/1.1\r\nHost: h\r\n\r\n", true, false, false, "client_gone"},
    {"while it is served, next request waiting", "GET /x HTTP/1.1\r\nHost: h\r\n\r\nGET /y HTTP/1.1\r\nHost: h\r\n\r\n",
     true, false, false, "client_gone"},
    {"in the middle of the answer", "GET /x HTTP/1.1\r\nHost: h\r\n\r\n", true, true, false, "client_gone"},
};

static void test_leave(struct front_kit *k, const struct leaving *l, enum stream_close_how how)
{
    const char *manner = how == STREAM_CLOSE_ABORT ? "reset" : "end";
    struct front_client c;

    client_open(k, &c);
    client_send(&c, l->sent);
    if (l->handled)
        ok(front_kit_handled(k, k->handled + 1), "%s (%s): handled", l->name, manner);
    else
        front_kit_settle(k);
    if (l->body_paused)
        exchange_pause_body(k->x);
    if (l->head_given)
        exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    front_kit_settle(k);
    client_close(&c, how);
    ok(front_kit_empty(k), "%s (%s): noticed", l->name, manner);
    is_int(k->gone, l->handled, "%s (%s): the proxy is told, once", l->name, manner);
    is_double(front_kit_metric(k, "mvproxy_front_requests_given_up_total", NULL), l->handled,
              "%s (%s): it is on its client's account", l->name, manner);
    if (how != STREAM_CLOSE_ABORT)
        is_double(front_kit_closed(k, l->reason), 1, "%s: counted as %s", l->name, l->reason);
}

static void test_leaving(struct front_kit *k)
{
    bool tls = k->client_tls != NULL;

    front_kit_end(k);
    for (size_t i = 0; i < 2 * ROWS(leavings); i++) {
        front_kit_init(k, tls);
        front_kit_start(k);
        test_leave(k, &leavings[i / 2], i % 2 == 0 ? STREAM_CLOSE_FLUSH : STREAM_CLOSE_ABORT);
        front_kit_end(k);
    }
    front_kit_init(k, tls);
}

static void test_half_close(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    stream_finish_writing(c.s);
    ok(front_kit_sink_has(k, "gone(client closed the connection)"),
       "the end of the client's direction means it is gone");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Many clients end by a FIN alone. Over TLS that may be a cut, and is one with a request under way. */
static void test_client_is_cut(struct front_kit *k)
{
    static const struct {
        const char *target, *plain, *tls;
    } rows[] = {
        {NULL, "no_request", "no_request"}, {"/sync", "client", "client"}, {"/x", "client_gone", "stream_failed"}};
    bool tls = k->client_tls != NULL;
    struct front_client c;

    front_kit_start(k);
    for (size_t i = 0; i < ROWS(rows); i++) {
        client_open(k, &c);
        if (rows[i].target != NULL)
            client_ask(&c, rows[i].target);
        if (i == 1)
            ok(client_has(&c, "\r\n\r\n"), "answered");
        front_kit_settle(k);
        (void)shutdown(c.s->fd, SHUT_WR);
        ok(front_kit_empty(k), "left");
        is_double(front_kit_closed(k, tls ? rows[i].tls : rows[i].plain), 1, "row %zu", i);
        client_close(&c, STREAM_CLOSE_NOW);
    }
}

/* ---- broken responses ---- */

static void test_abort(struct front_kit *k)
{
    struct front_client c;
    struct exchange *x;

    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    x = k->x;
    exchange_abort(x, "test");
    ok(client_ended(&c) != CLIENT_OPEN, "aborted before the head: closed");
    is_str(client_take(&c), "", "without a byte");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 2);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    respond_more(k, "abc");
    ok(client_ends_in(&c, "abc\r\n"), "aborted in the middle of the body");
    exchange_abort(k->x, "test");
    is_int(client_ended(&c), CLIENT_BROKEN, "is seen as broken");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_send(&c, "GET /x HTTP/1.0\r\nHost: h\r\n\r\n");
    front_kit_handled(k, 3);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    respond_more(k, "abc");
    ok(client_ends_in(&c, "abc"), "even where the end is the delimiter");
    exchange_abort(k->x, "test");
    is_int(client_ended(&c), CLIENT_BROKEN, "it is seen as broken");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_int(k->gone, 0, "who aborts is not told that the client is gone");
    is_double(front_kit_closed(k, "response_aborted"), 3, "counted");
}

static void test_wrong_length(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    ok(respond_more(k, "abc"), "three of five bytes");
    respond_end(k);
    is_int(client_ended(&c), CLIENT_BROKEN, "a response that is too short is broken");
    is_int(k->gone, 0, "who finished it is not told");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 2);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    ok(!respond_more(k, "abcdef"), "six of five bytes are refused");
    is_int(k->gone, 0, "not inside the call");
    ok(front_kit_sink_has(k, "gone(response longer than announced)"), "then the proxy is told");
    is_int(client_ended(&c), CLIENT_BROKEN, "and the client sees a broken stream");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 3);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    respond_more(k, "abcdef");
    respond_end(k);
    ok(front_kit_empty(k), "finished after the refusal");
    is_int(k->gone, 1, "told no more");
    client_close(&c, STREAM_CLOSE_NOW);
}

static void test_forgotten(struct front_kit *k)
{
    struct front_client c;

    k->keep_quiet = true;
    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/x");
    ok(client_has(&c, "HTTP/1.1 500 "), "a request that the handler forgets");
    is_int(client_ended(&c), CLIENT_EOF, "is answered and the connection closed");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_back_pressure(struct front_kit *k)
{
    static char piece[16 << 10];
    struct front_client c;
    size_t pieces = 0;

    memset(piece, 'y', sizeof(piece));
    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    while (!exchange_congested(k->x) && pieces < 100000) {
        exchange_body(k->x, slice_of(piece, sizeof(piece)));
        pieces++;
        loop_run_once(k->loop, 0);
    }
    ok(pieces < 100000, "a client that does not read makes the exchange congested");
    is_str(front_kit_sunk(k), "", "not writable yet");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    ok(front_kit_sink_has(k, "writable"), "it reads: writable");
    ok(!exchange_congested(k->x), "no longer congested");
    respond_end(k);
    ok(client_ends_in(&c, "\r\n0\r\n\r\n"), "everything arrives");
    ok(buf_len(&c.in) > pieces * sizeof(piece), "all of it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Whoever takes some of the answer from time to time is slow: that lasts as long as it lasts. */
static void test_slow_reader(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    client_open(k, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (int i = 0; i < 4 && k->gone == 0; i++) {
        stream_pause(c.s, STREAM_PAUSE_LIMIT);
        front_kit_fill(k);
        front_kit_pass(k, 15);
        stream_resume(c.s, STREAM_PAUSE_LIMIT);
        ok(front_kit_sink_has(k, "writable"), "it takes some");
    }
    is_int(k->gone, 0, "and has more time than the time in which some has to be taken");
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    front_kit_fill(k);
    for (int i = 0; i < 50 && k->gone == 0; i++)
        front_kit_pass(k, 20);
    ok(front_kit_sink_has(k, "gone(client takes nothing of the answer)"), "one who takes nothing more does not");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* What was written before it had to wait is not taken for something that the client took. */
static void test_no_reader(struct front_kit *k)
{
    struct front_client c;
    int periods = 0;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    client_open(k, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    front_kit_fill(k);
    for (; periods < 50 && k->gone == 0; periods++)
        front_kit_pass(k, 20);
    is_int(periods, 1, "who takes none of the answer has its time once");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* An upload whose answer has begun and is not read: as much of that as there is room for waits. */
static void open_unread(struct front_kit *k, struct front_client *c, const char *request)
{
    client_open(k, c);
    clock_fake(clock_us(), clock_wall_us());
    client_send(c, request);
    ok(front_kit_handled(k, k->handled + 1), "an upload is answered before it is there");
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    stream_pause(c->s, STREAM_PAUSE_LIMIT);
    front_kit_fill(k);
}

static void expect_untaken(struct front_kit *k, struct front_client *c, const char *byte)
{
    for (int i = 0; i < 20 && front_connections(k->front) > 0; i++) {
        client_send(c, byte);
        front_kit_pass(k, 15);
    }
    is_u64(front_connections(k->front), 0, "it ends");
    is_double(front_kit_closed(k, "read_timeout"), 1, "for its answer");
    is_double(front_kit_metric(k, "mvproxy_front_answers_not_taken_total", NULL), 1, "which is counted");
    is_double(front_kit_closed(k, "body_timeout"), 0, "and not for its body");
    stream_resume(c->s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(c), CLIENT_BROKEN, "its client sees that some is lost");
    clock_real();
    client_close(c, STREAM_CLOSE_NOW);
}

#define LONG_UPLOAD "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nab"
#define SHORT_UPLOAD "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nab"

/* A byte of the body now and then would keep the connection and the answer for ever. */
static void test_dripping_and_not_reading(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    open_unread(k, &c, LONG_UPLOAD);
    expect_untaken(k, &c, "c");
    is_int(k->gone, 1, "the proxy is told");
}

static void test_paused_and_not_reading(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    open_unread(k, &c, LONG_UPLOAD);
    exchange_pause_body(k->x);
    expect_untaken(k, &c, "");
    is_int(k->gone, 1, "the proxy is told, although it is the one who wants no more of the body");
}

/* Nothing more is written then, by which the answer would be looked at. */
static void test_uploaded_and_not_reading(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    open_unread(k, &c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab");
    client_send(&c, "c");
    ok(front_kit_sink_has(k, "end"), "the body is complete");
    expect_untaken(k, &c, "");
    is_int(k->gone, 1, "the proxy is told");
}

static void test_rest_dripping_and_not_reading(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    open_unread(k, &c, SHORT_UPLOAD);
    respond_end(k);
    expect_untaken(k, &c, "c");
    is_int(k->gone, 0, "the proxy was through with it");
}

/* Whoever takes some of the answer now and then may also be slow with the body; then it is the body's turn. */
static void test_dripping_and_reading(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    open_unread(k, &c, LONG_UPLOAD);
    for (int i = 0; i < 6 && k->gone == 0; i++) {
        client_send(&c, "c");
        front_kit_pass(k, 15);
        stream_resume(c.s, STREAM_PAUSE_LIMIT);
        ok(front_kit_sink_has(k, "writable"), "it takes some");
        stream_pause(c.s, STREAM_PAUSE_LIMIT);
        front_kit_fill(k);
    }
    is_int(k->gone, 0, "who reads, and sends, goes on");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    ok(front_kit_sink_has(k, "writable"), "it takes all");
    for (int i = 0; i < 6 && k->gone == 0; i++) {
        client_send(&c, "c");
        front_kit_pass(k, 15);
    }
    is_int(k->gone, 0, "who drips the body alone goes on as before");
    for (int i = 0; i < 6 && k->gone == 0; i++)
        front_kit_pass(k, 15);
    ok(front_kit_sink_has(k, "gone(request body stalled)"), "and who stops ends for that");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "body_timeout"), 1, "as what it is");
}

/* The last answer of a connection must reach a client that takes longer for it than we linger. */
static void test_slow_last_answer(struct front_kit *k)
{
    static char piece[64 << 10];
    struct front_client c;
    size_t sent = 0;

    memset(piece, 'z', sizeof(piece));
    k->opts.linger_timeout_ms = 20;
    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /x HTTP/1.0\r\nHost: h\r\n\r\n");
    front_kit_handled(k, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    while (!exchange_congested(k->x)) {
        exchange_body(k->x, slice_of(piece, sizeof(piece)));
        sent += sizeof(piece);
        loop_run_once(k->loop, 0);
    }
    respond_end(k);
    for (int i = 0; i < 10; i++)
        loop_run_once(k->loop, 20);
    is_u64(front_connections(k->front), 1, "the connection waits for a slow reader");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(&c), CLIENT_EOF, "which then sees the end");
    ok(buf_len(&c.in) > sent, "and has got everything");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "client_request"), 1, "an ordinary end");
}

/* How it goes when all has been said changes nothing. */
static void test_cut_while_lingering(struct front_kit *k)
{
    struct front_client c;

    k->opts.linger_timeout_ms = 10000;
    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    front_kit_handled(k, 1);
    respond_whole(k, 200, "abc");
    is_int(client_ended(&c), CLIENT_EOF, "the last answer");
    is_u64(front_connections(k->front), 1, "whose client may still send");
    client_close(&c, STREAM_CLOSE_ABORT);
    ok(front_kit_empty(k), "it cuts the connection");
    is_double(front_kit_closed(k, "client_request"), 1, "which is the end that it had asked for");
}

/* Some of an answer that its client does not read is with us, and not so much that its producer would wait. */
static void fill_somewhat(struct front_kit *k)
{
    enum { SOME = 16 << 10 };
    static char piece[4 << 10];
    size_t before;

    front_kit_settle(k);
    before = front_memory(k->front);
    while (front_memory(k->front) < before + SOME && !exchange_congested(k->x)) {
        exchange_body(k->x, slice_of(piece, sizeof(piece)));
        loop_run_once(k->loop, 0);
    }
    ok(!exchange_congested(k->x), "some of an answer waits");
}

static void test_last_answer_read_late(struct front_kit *k)
{
    enum { LINGER_MS = 150 };
    struct front_client c;
    uint64_t end;

    k->opts.linger_timeout_ms = LINGER_MS;
    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /x HTTP/1.0\r\nHost: h\r\n\r\n");
    front_kit_handled(k, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    fill_somewhat(k);
    end = clock_us();
    respond_end(k);
    loop_run_once(k->loop, 0);
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(&c), CLIENT_EOF, "its client reads it while we linger");
    ok(front_kit_empty(k), "over");
    ok(clock_us() - end >= 2 * LINGER_MS * 1000 - 5000, "and has as long again for the end of it");
    client_close(&c, STREAM_CLOSE_NOW);
}

/* What was written before the connection was at rest is no sign that its client reads. */
static void test_idle_and_not_reading(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 10;
    k->opts.idle_timeout_ms = 100;
    front_kit_start(k);
    client_open(k, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    fill_somewhat(k);
    respond_end(k);
    front_kit_pass(k, 150);
    ok(front_kit_empty(k), "who has taken nothing in its idle time has had it");
    is_double(front_kit_closed(k, "idle_timeout"), 1, "counted");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
}

/* ---- upgrades ---- */

static void on_tunnel(struct stream *s, enum stream_event ev, void *arg)
{
    struct buf *in = arg;
    struct slice piece;

    while (ev == STREAM_READABLE && (piece = stream_peek(s)).n > 0) {
        buf_append(in, piece);
        stream_consume(s, piece.n);
    }
}

static void test_upgrade(struct front_kit *k)
{
    struct front_client c;
    struct stream *s;
    struct buf in;
    struct http_head *h;

    buf_init(&in, 1000);
    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nearly bytes");
    front_kit_handled(k, 1);
    ok(exchange_wants_upgrade(k->x), "the client wants another protocol");
    front_kit_settle(k);
    h = head_of(k, 101, "Upgrade", "SPDY/3.1");
    s = exchange_upgrade(k->x, h);
    k->x = NULL;
    ok(s != NULL, "it gets it");
    stream_set_owner(s, on_tunnel, &in);
    is_u64(front_connections(k->front), 0, "the front lets go of the connection");
    client_send(&c, ", later bytes");
    ok(client_has(&c, "\r\n\r\n"), "the head arrives");
    is_str(client_take(&c), "HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n",
           "as it must be");
    for (int i = 0; i < 100 && buf_len(&in) < 24; i++)
        loop_run_once(k->loop, 20);
    is_slice(buf_slice(&in), "early bytes, later bytes", "all bytes are there");
    stream_write(s, SLICE_LIT("answer"));
    ok(client_ends_in(&c, "answer"), "and go the other way");
    stream_close(s, STREAM_CLOSE_NOW);
    client_close(&c, STREAM_CLOSE_NOW);
    is_double(front_kit_closed(k, "upgraded"), 1, "counted");
    client_open(k, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n\r\n");
    front_kit_handled(k, 2);
    ok(!exchange_wants_upgrade(k->x), "not while a body is to come: it could not be told from the new protocol");
    respond_whole(k, 200, "no");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    front_kit_handled(k, 3);
    respond_whole(k, 403, "refused");
    ok(client_ends_in(&c, "refused"), "a refused upgrade is an ordinary answer");
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "and the connection goes on");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    buf_free(&in);
}

/* Whoever gets the stream listens to it later: by then what the front had of the connection is others' memory. */
static void test_upgrade_taken_late(struct front_kit *k)
{
    static void *others[100];
    struct front_client c;
    struct stream *s;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    front_kit_handled(k, 1);
    s = exchange_upgrade(k->x, head_of(k, 101, "Upgrade", "SPDY/3.1"));
    k->x = NULL;
    ok(s != NULL && client_has(&c, "\r\n\r\n"), "a tunnel that nobody listens to yet");
    for (size_t i = 0; i < ROWS(others); i++) {
        others[i] = malloc(sizeof(struct h1_conn));
        if (others[i] == NULL)
            tap_bail("no memory");
        memset(others[i], 0xff, sizeof(struct h1_conn));
    }
    client_send(&c, "bytes");
    front_kit_settle(k);
    is_slice(stream_peek(s), "bytes", "what comes waits in it");
    client_close(&c, STREAM_CLOSE_ABORT);
    front_kit_settle(k);
    for (size_t i = 0; i < ROWS(others); i++)
        free(others[i]);
    stream_close(s, STREAM_CLOSE_NOW);
    is_int(k->gone, 0, "the proxy is not told of its end");
}

/* ---- bad requests ---- */

static const struct {
    const char *name, *sent, *status;
} refusals[] = {
    {"two lengths", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
     "400 Bad Request"},
    {"no host", "GET / HTTP/1.1\r\n\r\n", "400 Bad Request"},
    {"not HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01", "400 Bad Request"},
    {"an unknown version", "GET / HTTP/1.9\r\nHost: h\r\n\r\n", "505 HTTP Version Not Supported"},
    {"an unknown coding", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", "501 Not Implemented"},
    {"bad chunk", "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400 Bad Request"},
};

static void refusal_body(struct buf *out, unsigned status, const char *message, void *arg)
{
    ok(message[0] != '\0', "a refusal has a message");
    buf_printf(out, "{\"code\":%u,\"arg\":\"%s\"}", status, (const char *)arg);
}

static void expect_refusal(struct front_kit *k, struct front_client *c, const char *name, const char *status)
{
    ok(client_has(c, status), "%s: %s", name, status);
    is_int(client_ended(c), CLIENT_EOF, "%s: then the connection ends", name);
    is_slice(slice_from(buf_slice(&c->in), buf_len(&c->in) - 1), "}", "%s: the body is ours", name);
    ok(client_ends_in(c, ",\"arg\":\"here\"}"), "%s: as it was made for us", name);
    ok(strstr(client_take(c), "Connection: close\r\n") != NULL, "%s: and it says so", name);
    client_close(c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "%s: over", name);
}

static void test_refusals(struct front_kit *k)
{
    char arg[] = "here";
    static char big[40 << 10];
    struct front_client c;

    k->opts.refusal_body = refusal_body;
    k->opts.refusal_arg = arg;
    front_kit_start(k);
    for (size_t i = 0; i < ROWS(refusals); i++) {
        client_open(k, &c);
        client_send(&c, refusals[i].sent);
        client_send(&c, "GET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
        expect_refusal(k, &c, refusals[i].name, refusals[i].status);
    }
    is_int(k->handled, 1, "nothing behind a bad head is ever served");
    is_int(k->gone, 1, "the one whose body went wrong was told");
    memset(big, 'a', sizeof(big) - 1);
    client_open(k, &c);
    client_send(&c, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
    client_send(&c, big);
    expect_refusal(k, &c, "a head beyond the limit", "431 Request Header Fields Too Large");
    is_double(front_kit_metric(k, "mvproxy_front_refusals_total", "431"), 1, "counted by status");
    is_double(front_kit_closed(k, "bad_request"), (double)ROWS(refusals) + 1, "and as a reason");
}

/* ---- time ---- */

static void test_timeouts(struct front_kit *k)
{
    struct front_client c;

    k->opts.header_timeout_ms = k->opts.idle_timeout_ms = k->opts.body_timeout_ms = 100;
    front_kit_start(k);
    client_open(k, &c);
    ok(client_ended(&c) != CLIENT_OPEN, "a client that sends nothing is closed");
    is_str(client_take(&c), "", "without a word");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_send(&c, "GET / HTTP/1.1\r\nHo");
    ok(client_has(&c, "HTTP/1.1 408 Request Timeout\r\n"), "a head that does not end");
    is_int(client_ended(&c), CLIENT_EOF, "is refused");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_ask(&c, "/sync");
    is_int(client_ended(&c), CLIENT_EOF, "an idle connection ends");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    ok(front_kit_sink_has(k, "gone(request body stalled)"), "a body that does not go on: the proxy is told");
    ok(client_has(&c, "HTTP/1.1 408 Request Timeout\r\n"), "and the client");
    is_int(client_ended(&c), CLIENT_EOF, "and that is the end");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "no_request"), 1, "counted: no request");
    is_double(front_kit_closed(k, "header_timeout"), 1, "counted: header timeout");
    is_double(front_kit_closed(k, "idle_timeout"), 1, "counted: idle timeout");
    is_double(front_kit_closed(k, "body_timeout"), 1, "counted: body timeout");
}

/* Of any request on a connection, however long that may be idle. */
static void test_later_head_stalls(struct front_kit *k)
{
    struct front_client c;

    k->opts.header_timeout_ms = 20;
    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    client_open(k, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "answered");
    for (int i = 0; i < 3; i++)
        front_kit_pass(k, 15);
    is_int(c.end, CLIENT_OPEN, "its client may be idle");
    client_send(&c, "GET / HT");
    front_kit_settle(k);
    front_kit_pass(k, 25);
    ok(client_has(&c, "HTTP/1.1 408 Request Timeout\r\n"), "but not in the middle of a head");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "header_timeout"), 1, "counted");
}

static bool never(void *arg)
{
    return *(uint64_t *)arg <= 0;
}

static void test_no_timeout(struct front_kit *k)
{
    struct front_client c;
    uint64_t left = 30;

    k->opts.header_timeout_ms = k->opts.idle_timeout_ms = k->opts.body_timeout_ms = 100;
    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/watch");
    front_kit_handled(k, 1);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    while (!never(&left)) {
        loop_run_once(k->loop, 10);
        left--;
    }
    is_int(k->gone, 0, "a watch has no timeout");
    respond_more(k, "event");
    ok(client_ends_in(&c, "event\r\n"), "it goes on");
    respond_end(k);
    is_int(client_ended(&c), CLIENT_EOF, "afterwards the connection is idle like any other");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(k, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    front_kit_handled(k, 2);
    for (left = 30; !never(&left); left--)
        loop_run_once(k->loop, 10);
    is_int(k->gone, 0, "nor has a body that the client may not send yet");
    respond_whole(k, 200, "");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static const struct front_kit_story stories[] = {
    {"client is cut", test_client_is_cut},
    {"leaving", test_leaving},
    {"half-close", test_half_close},
    {"abort", test_abort},
    {"wrong length", test_wrong_length},
    {"forgotten", test_forgotten},
    {"back-pressure", test_back_pressure},
    {"slow reader", test_slow_reader},
    {"no reader", test_no_reader},
    {"dripping and not reading", test_dripping_and_not_reading},
    {"paused and not reading", test_paused_and_not_reading},
    {"uploaded and not reading", test_uploaded_and_not_reading},
    {"the rest dripping and not reading", test_rest_dripping_and_not_reading},
    {"dripping and reading", test_dripping_and_reading},
    {"slow last answer", test_slow_last_answer},
    {"cut while lingering", test_cut_while_lingering},
    {"last answer, read late", test_last_answer_read_late},
    {"idle and not reading", test_idle_and_not_reading},
    {"upgrade", test_upgrade},
    {"upgrade, taken late", test_upgrade_taken_late},
    {"refusals", test_refusals},
    {"timeouts", test_timeouts},
    {"a later head stalls", test_later_head_stalls},
    {"no timeout", test_no_timeout},
};

int main(void)
{
    front_kit_run(stories, ROWS(stories));
    return tap_end();
}
