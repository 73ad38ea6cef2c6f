/* SPDX-License-Identifier: Apache-2.0 */
/* An HTTP/1.1 server connection when something goes wrong, or on: clients that leave, broken responses, slow readers,
 * upgrades, bad requests, time. */
#include "unit/front/world.h"

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

static void test_leave(struct world *w, const struct leaving *l, enum stream_close_how how)
{
    const char *manner = how == STREAM_CLOSE_ABORT ? "reset" : "end";
    struct client c;

    client_open(w, &c);
    client_send(&c, l->sent);
    if (l->handled)
        ok(world_handled(w, w->handled + 1), "%s (%s): handled", l->name, manner);
    else
        world_settle(w);
    if (l->body_paused)
        exchange_pause_body(w->x);
    if (l->head_given)
        exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    world_settle(w);
    client_close(&c, how);
    ok(world_empty(w), "%s (%s): noticed", l->name, manner);
    is_int(w->gone, l->handled, "%s (%s): the proxy is told, once", l->name, manner);
    if (how != STREAM_CLOSE_ABORT)
        is_double(world_closed(w, l->reason), 1, "%s: counted as %s", l->name, l->reason);
}

static void test_leaving(struct world *w)
{
    bool tls = w->client_tls != NULL;

    world_end(w);
    for (size_t i = 0; i < 2 * ROWS(leavings); i++) {
        world_init(w, tls);
        world_start(w);
        test_leave(w, &leavings[i / 2], i % 2 == 0 ? STREAM_CLOSE_FLUSH : STREAM_CLOSE_ABORT);
        world_end(w);
    }
    world_init(w, tls);
}

static void test_half_close(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    world_handled(w, 1);
    stream_finish_writing(c.s);
    ok(world_sink_has(w, "gone(client closed the connection)"), "the end of the client's direction means it is gone");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* Many clients end by a FIN alone. Over TLS that may be a cut, and is one with a request under way. */
static void test_client_is_cut(struct world *w)
{
    static const struct {
        const char *target, *plain, *tls;
    } rows[] = {
        {NULL, "no_request", "no_request"}, {"/sync", "client", "client"}, {"/x", "client_gone", "stream_failed"}};
    bool tls = w->client_tls != NULL;
    struct client c;

    world_start(w);
    for (size_t i = 0; i < ROWS(rows); i++) {
        client_open(w, &c);
        if (rows[i].target != NULL)
            client_ask(&c, rows[i].target);
        if (i == 1)
            ok(client_has(&c, "\r\n\r\n"), "answered");
        world_settle(w);
        (void)shutdown(c.s->fd, SHUT_WR);
        ok(world_empty(w), "left");
        is_double(world_closed(w, tls ? rows[i].tls : rows[i].plain), 1, "row %zu", i);
        client_close(&c, STREAM_CLOSE_NOW);
    }
}

/* ---- broken responses ---- */

static void test_abort(struct world *w)
{
    struct client c;
    struct exchange *x;

    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    world_handled(w, 1);
    x = w->x;
    exchange_abort(x, "test");
    ok(client_ended(&c) != CLIENT_OPEN, "aborted before the head: closed");
    is_str(client_take(&c), "", "without a byte");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_ask(&c, "/x");
    world_handled(w, 2);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    respond_more(w, "abc");
    ok(client_ends_in(&c, "abc\r\n"), "aborted in the middle of the body");
    exchange_abort(w->x, "test");
    is_int(client_ended(&c), CLIENT_BROKEN, "is seen as broken");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_send(&c, "GET /x HTTP/1.0\r\nHost: h\r\n\r\n");
    world_handled(w, 3);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    respond_more(w, "abc");
    ok(client_ends_in(&c, "abc"), "even where the end is the delimiter");
    exchange_abort(w->x, "test");
    is_int(client_ended(&c), CLIENT_BROKEN, "it is seen as broken");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_int(w->gone, 0, "who aborts is not told that the client is gone");
    is_double(world_closed(w, "response_aborted"), 3, "counted");
}

static void test_wrong_length(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    world_handled(w, 1);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    ok(respond_more(w, "abc"), "three of five bytes");
    respond_end(w);
    is_int(client_ended(&c), CLIENT_BROKEN, "a response that is too short is broken");
    is_int(w->gone, 0, "who finished it is not told");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_ask(&c, "/x");
    world_handled(w, 2);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    ok(!respond_more(w, "abcdef"), "six of five bytes are refused");
    is_int(w->gone, 0, "not inside the call");
    ok(world_sink_has(w, "gone(response longer than announced)"), "then the proxy is told");
    is_int(client_ended(&c), CLIENT_BROKEN, "and the client sees a broken stream");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_ask(&c, "/x");
    world_handled(w, 3);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    respond_more(w, "abcdef");
    respond_end(w);
    ok(world_empty(w), "finished after the refusal");
    is_int(w->gone, 1, "told no more");
    client_close(&c, STREAM_CLOSE_NOW);
}

static void test_forgotten(struct world *w)
{
    struct client c;

    w->keep_quiet = true;
    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    ok(client_has(&c, "HTTP/1.1 500 "), "a request that the handler forgets");
    is_int(client_ended(&c), CLIENT_EOF, "is answered and the connection closed");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_back_pressure(struct world *w)
{
    static char piece[16 << 10];
    struct client c;
    size_t pieces = 0;

    memset(piece, 'y', sizeof(piece));
    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    world_handled(w, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    while (!exchange_congested(w->x) && pieces < 100000) {
        exchange_body(w->x, slice_of(piece, sizeof(piece)));
        pieces++;
        loop_run_once(w->loop, 0);
    }
    ok(pieces < 100000, "a client that does not read makes the exchange congested");
    is_str(world_sunk(w), "", "not writable yet");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    ok(world_sink_has(w, "writable"), "it reads: writable");
    ok(!exchange_congested(w->x), "no longer congested");
    respond_end(w);
    ok(client_ends_in(&c, "\r\n0\r\n\r\n"), "everything arrives");
    ok(buf_len(&c.in) > pieces * sizeof(piece), "all of it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* Whoever takes some of the answer from time to time is slow: that lasts as long as it lasts. */
static void test_slow_reader(struct world *w)
{
    struct client c;

    w->opts.body_timeout_ms = 20;
    world_start(w);
    client_open(w, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_ask(&c, "/x");
    world_handled(w, 1);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (int i = 0; i < 4 && w->gone == 0; i++) {
        stream_pause(c.s, STREAM_PAUSE_LIMIT);
        world_fill(w);
        world_pass(w, 15);
        stream_resume(c.s, STREAM_PAUSE_LIMIT);
        ok(world_sink_has(w, "writable"), "it takes some");
    }
    is_int(w->gone, 0, "and has more time than the time in which some has to be taken");
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    world_fill(w);
    for (int i = 0; i < 50 && w->gone == 0; i++)
        world_pass(w, 20);
    ok(world_sink_has(w, "gone(client takes nothing of the answer)"), "one who takes nothing more does not");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* An upload whose answer has begun and is not read: as much of that as there is room for waits. */
static void open_unread(struct world *w, struct client *c, const char *request)
{
    client_open(w, c);
    clock_fake(clock_us(), clock_wall_us());
    client_send(c, request);
    ok(world_handled(w, w->handled + 1), "an upload is answered before it is there");
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    stream_pause(c->s, STREAM_PAUSE_LIMIT);
    world_fill(w);
}

static void expect_untaken(struct world *w, struct client *c, const char *byte)
{
    for (int i = 0; i < 20 && front_connections(w->front) > 0; i++) {
        client_send(c, byte);
        world_pass(w, 15);
    }
    is_u64(front_connections(w->front), 0, "it ends");
    is_double(world_closed(w, "read_timeout"), 1, "for its answer");
    is_double(world_metric(w, "mvproxy_front_answers_not_taken_total", NULL), 1, "which is counted");
    is_double(world_closed(w, "body_timeout"), 0, "and not for its body");
    stream_resume(c->s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(c), CLIENT_BROKEN, "its client sees that some is lost");
    clock_real();
    client_close(c, STREAM_CLOSE_NOW);
}

#define LONG_UPLOAD "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nab"
#define SHORT_UPLOAD "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nab"

/* A byte of the body now and then would keep the connection and the answer for ever. */
static void test_dripping_and_not_reading(struct world *w)
{
    struct client c;

    w->opts.body_timeout_ms = 20;
    world_start(w);
    open_unread(w, &c, LONG_UPLOAD);
    expect_untaken(w, &c, "c");
    is_int(w->gone, 1, "the proxy is told");
}

static void test_paused_and_not_reading(struct world *w)
{
    struct client c;

    w->opts.body_timeout_ms = 20;
    world_start(w);
    open_unread(w, &c, LONG_UPLOAD);
    exchange_pause_body(w->x);
    expect_untaken(w, &c, "");
    is_int(w->gone, 1, "the proxy is told, although it is the one who wants no more of the body");
}

/* Nothing more is written then, by which the answer would be looked at. */
static void test_uploaded_and_not_reading(struct world *w)
{
    struct client c;

    w->opts.body_timeout_ms = 20;
    world_start(w);
    open_unread(w, &c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab");
    client_send(&c, "c");
    ok(world_sink_has(w, "end"), "the body is complete");
    expect_untaken(w, &c, "");
    is_int(w->gone, 1, "the proxy is told");
}

static void test_rest_dripping_and_not_reading(struct world *w)
{
    struct client c;

    w->opts.body_timeout_ms = 20;
    world_start(w);
    open_unread(w, &c, SHORT_UPLOAD);
    respond_end(w);
    expect_untaken(w, &c, "c");
    is_int(w->gone, 0, "the proxy was through with it");
}

/* Whoever takes some of the answer now and then may also be slow with the body; then it is the body's turn. */
static void test_dripping_and_reading(struct world *w)
{
    struct client c;

    w->opts.body_timeout_ms = 20;
    world_start(w);
    open_unread(w, &c, LONG_UPLOAD);
    for (int i = 0; i < 6 && w->gone == 0; i++) {
        client_send(&c, "c");
        world_pass(w, 15);
        stream_resume(c.s, STREAM_PAUSE_LIMIT);
        ok(world_sink_has(w, "writable"), "it takes some");
        stream_pause(c.s, STREAM_PAUSE_LIMIT);
        world_fill(w);
    }
    is_int(w->gone, 0, "who reads, and sends, goes on");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    ok(world_sink_has(w, "writable"), "it takes all");
    for (int i = 0; i < 6 && w->gone == 0; i++) {
        client_send(&c, "c");
        world_pass(w, 15);
    }
    is_int(w->gone, 0, "who drips the body alone goes on as before");
    for (int i = 0; i < 6 && w->gone == 0; i++)
        world_pass(w, 15);
    ok(world_sink_has(w, "gone(request body stalled)"), "and who stops ends for that");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(world_closed(w, "body_timeout"), 1, "as what it is");
}

/* The last answer of a connection must reach a client that takes longer for it than we linger. */
static void test_slow_last_answer(struct world *w)
{
    static char piece[64 << 10];
    struct client c;
    size_t sent = 0;

    memset(piece, 'z', sizeof(piece));
    w->opts.linger_timeout_ms = 20;
    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /x HTTP/1.0\r\nHost: h\r\n\r\n");
    world_handled(w, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    while (!exchange_congested(w->x)) {
        exchange_body(w->x, slice_of(piece, sizeof(piece)));
        sent += sizeof(piece);
        loop_run_once(w->loop, 0);
    }
    respond_end(w);
    for (int i = 0; i < 10; i++)
        loop_run_once(w->loop, 20);
    is_u64(front_connections(w->front), 1, "the connection waits for a slow reader");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(&c), CLIENT_EOF, "which then sees the end");
    ok(buf_len(&c.in) > sent, "and has got everything");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(world_closed(w, "client_request"), 1, "an ordinary end");
}

/* How it goes when all has been said changes nothing. */
static void test_cut_while_lingering(struct world *w)
{
    struct client c;

    w->opts.linger_timeout_ms = 10000;
    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    world_handled(w, 1);
    respond_whole(w, 200, "abc");
    is_int(client_ended(&c), CLIENT_EOF, "the last answer");
    is_u64(front_connections(w->front), 1, "whose client may still send");
    client_close(&c, STREAM_CLOSE_ABORT);
    ok(world_empty(w), "it cuts the connection");
    is_double(world_closed(w, "client_request"), 1, "which is the end that it had asked for");
}

/* Some of an answer that its client does not read is with us, and not so much that its producer would wait. */
static void fill_somewhat(struct world *w)
{
    enum { SOME = 16 << 10 };
    static char piece[4 << 10];
    size_t before;

    world_settle(w);
    before = front_memory(w->front);
    while (front_memory(w->front) < before + SOME && !exchange_congested(w->x)) {
        exchange_body(w->x, slice_of(piece, sizeof(piece)));
        loop_run_once(w->loop, 0);
    }
    ok(!exchange_congested(w->x), "some of an answer waits");
}

static void test_last_answer_read_late(struct world *w)
{
    enum { LINGER_MS = 150 };
    struct client c;
    uint64_t end;

    w->opts.linger_timeout_ms = LINGER_MS;
    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /x HTTP/1.0\r\nHost: h\r\n\r\n");
    world_handled(w, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    fill_somewhat(w);
    end = clock_us();
    respond_end(w);
    loop_run_once(w->loop, 0);
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(&c), CLIENT_EOF, "its client reads it while we linger");
    ok(world_empty(w), "over");
    ok(clock_us() - end >= 2 * LINGER_MS * 1000 - 5000, "and has as long again for the end of it");
    client_close(&c, STREAM_CLOSE_NOW);
}

/* What was written before the connection was at rest is no sign that its client reads. */
static void test_idle_and_not_reading(struct world *w)
{
    struct client c;

    w->opts.body_timeout_ms = 10;
    w->opts.idle_timeout_ms = 100;
    world_start(w);
    client_open(w, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_ask(&c, "/x");
    world_handled(w, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    fill_somewhat(w);
    respond_end(w);
    world_pass(w, 150);
    ok(world_empty(w), "who has taken nothing in its idle time has had it");
    is_double(world_closed(w, "idle_timeout"), 1, "counted");
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

static void test_upgrade(struct world *w)
{
    struct client c;
    struct stream *s;
    struct buf in;
    struct http_head *h;

    buf_init(&in, 1000);
    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nearly bytes");
    world_handled(w, 1);
    ok(exchange_wants_upgrade(w->x), "the client wants another protocol");
    world_settle(w);
    h = head_of(w, 101, "Upgrade", "SPDY/3.1");
    s = exchange_upgrade(w->x, h);
    w->x = NULL;
    ok(s != NULL, "it gets it");
    stream_set_owner(s, on_tunnel, &in);
    is_u64(front_connections(w->front), 0, "the front lets go of the connection");
    client_send(&c, ", later bytes");
    ok(client_has(&c, "\r\n\r\n"), "the head arrives");
    is_str(client_take(&c), "HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\n",
           "as it must be");
    for (int i = 0; i < 100 && buf_len(&in) < 24; i++)
        loop_run_once(w->loop, 20);
    is_slice(buf_slice(&in), "early bytes, later bytes", "all bytes are there");
    stream_write(s, SLICE_LIT("answer"));
    ok(client_ends_in(&c, "answer"), "and go the other way");
    stream_close(s, STREAM_CLOSE_NOW);
    client_close(&c, STREAM_CLOSE_NOW);
    is_double(world_closed(w, "upgraded"), 1, "counted");
    client_open(w, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n\r\n");
    world_handled(w, 2);
    ok(!exchange_wants_upgrade(w->x), "not while a body is to come: it could not be told from the new protocol");
    respond_whole(w, 200, "no");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    world_handled(w, 3);
    respond_whole(w, 403, "refused");
    ok(client_ends_in(&c, "refused"), "a refused upgrade is an ordinary answer");
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "and the connection goes on");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    buf_free(&in);
}

/* Whoever gets the stream listens to it later: by then what the front had of the connection is others' memory. */
static void test_upgrade_taken_late(struct world *w)
{
    static void *others[100];
    struct client c;
    struct stream *s;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    world_handled(w, 1);
    s = exchange_upgrade(w->x, head_of(w, 101, "Upgrade", "SPDY/3.1"));
    w->x = NULL;
    ok(s != NULL && client_has(&c, "\r\n\r\n"), "a tunnel that nobody listens to yet");
    for (size_t i = 0; i < ROWS(others); i++) {
        others[i] = malloc(sizeof(struct h1_conn));
        if (others[i] == NULL)
            tap_bail("no memory");
        memset(others[i], 0xff, sizeof(struct h1_conn));
    }
    client_send(&c, "bytes");
    world_settle(w);
    is_slice(stream_peek(s), "bytes", "what comes waits in it");
    client_close(&c, STREAM_CLOSE_ABORT);
    world_settle(w);
    for (size_t i = 0; i < ROWS(others); i++)
        free(others[i]);
    stream_close(s, STREAM_CLOSE_NOW);
    is_int(w->gone, 0, "the proxy is not told of its end");
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

static void expect_refusal(struct world *w, struct client *c, const char *name, const char *status)
{
    ok(client_has(c, status), "%s: %s", name, status);
    is_int(client_ended(c), CLIENT_EOF, "%s: then the connection ends", name);
    is_slice(slice_from(buf_slice(&c->in), buf_len(&c->in) - 1), "}", "%s: the body is ours", name);
    ok(strstr(client_take(c), "Connection: close\r\n") != NULL, "%s: and it says so", name);
    client_close(c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "%s: over", name);
}

static void test_refusals(struct world *w)
{
    char arg[] = "here";
    static char big[40 << 10];
    struct client c;

    w->opts.refusal_body = refusal_body;
    w->opts.refusal_arg = arg;
    world_start(w);
    for (size_t i = 0; i < ROWS(refusals); i++) {
        client_open(w, &c);
        client_send(&c, refusals[i].sent);
        client_send(&c, "GET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
        expect_refusal(w, &c, refusals[i].name, refusals[i].status);
    }
    is_int(w->handled, 1, "nothing behind a bad head is ever served");
    is_int(w->gone, 1, "the one whose body went wrong was told");
    memset(big, 'a', sizeof(big) - 1);
    client_open(w, &c);
    client_send(&c, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
    client_send(&c, big);
    expect_refusal(w, &c, "a head beyond the limit", "431 Request Header Fields Too Large");
    is_double(world_metric(w, "mvproxy_front_refusals_total", "431"), 1, "counted by status");
    is_double(world_closed(w, "bad_request"), (double)ROWS(refusals) + 1, "and as a reason");
}

/* ---- time ---- */

static void test_timeouts(struct world *w)
{
    struct client c;

    w->opts.header_timeout_ms = w->opts.idle_timeout_ms = w->opts.body_timeout_ms = 100;
    world_start(w);
    client_open(w, &c);
    ok(client_ended(&c) != CLIENT_OPEN, "a client that sends nothing is closed");
    is_str(client_take(&c), "", "without a word");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_send(&c, "GET / HTTP/1.1\r\nHo");
    ok(client_has(&c, "HTTP/1.1 408 Request Timeout\r\n"), "a head that does not end");
    is_int(client_ended(&c), CLIENT_EOF, "is refused");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_ask(&c, "/sync");
    is_int(client_ended(&c), CLIENT_EOF, "an idle connection ends");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    ok(world_sink_has(w, "gone(request body stalled)"), "a body that does not go on: the proxy is told");
    ok(client_has(&c, "HTTP/1.1 408 Request Timeout\r\n"), "and the client");
    is_int(client_ended(&c), CLIENT_EOF, "and that is the end");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(world_closed(w, "no_request"), 1, "counted: no request");
    is_double(world_closed(w, "header_timeout"), 1, "counted: header timeout");
    is_double(world_closed(w, "idle_timeout"), 1, "counted: idle timeout");
    is_double(world_closed(w, "body_timeout"), 1, "counted: body timeout");
}

static bool never(void *arg)
{
    return *(uint64_t *)arg <= 0;
}

static void test_no_timeout(struct world *w)
{
    struct client c;
    uint64_t left = 30;

    w->opts.header_timeout_ms = w->opts.idle_timeout_ms = w->opts.body_timeout_ms = 100;
    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/watch");
    world_handled(w, 1);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    while (!never(&left)) {
        loop_run_once(w->loop, 10);
        left--;
    }
    is_int(w->gone, 0, "a watch has no timeout");
    respond_more(w, "event");
    ok(client_ends_in(&c, "event\r\n"), "it goes on");
    respond_end(w);
    is_int(client_ended(&c), CLIENT_EOF, "afterwards the connection is idle like any other");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    world_handled(w, 2);
    for (left = 30; !never(&left); left--)
        loop_run_once(w->loop, 10);
    is_int(w->gone, 0, "nor has a body that the client may not send yet");
    respond_whole(w, 200, "");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static const struct world_story stories[] = {
    {"client is cut", test_client_is_cut},
    {"leaving", test_leaving},
    {"half-close", test_half_close},
    {"abort", test_abort},
    {"wrong length", test_wrong_length},
    {"forgotten", test_forgotten},
    {"back-pressure", test_back_pressure},
    {"slow reader", test_slow_reader},
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
    {"no timeout", test_no_timeout},
};

int main(void)
{
    world_run(stories, ROWS(stories));
    return tap_end();
}
