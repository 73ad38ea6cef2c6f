/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP/1.1 server connection over a real socket, in the clear and over TLS: requests and their answers, as the
 * proxy and the client see them. */
#include "unit/front/kit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "front/h1_state.h"
#include "lib/tap.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"

/* How often a client's certificate was judged again. */
static unsigned judged;

void __real_stream_judge_again(struct stream *s, const struct tls_ctx *c);
void __wrap_stream_judge_again(struct stream *s, const struct tls_ctx *c);

void __wrap_stream_judge_again(struct stream *s, const struct tls_ctx *c)
{
    judged++;
    __real_stream_judge_again(s, c);
}

/* How often net has been told that what comes says nothing of the amount to come. */
static unsigned begun;

void __real_stream_begin_message(struct stream *s);
void __wrap_stream_begin_message(struct stream *s);

void __wrap_stream_begin_message(struct stream *s)
{
    begun++;
    __real_stream_begin_message(s);
}

/* ---- requests and answers ---- */

static bool nothing_asked(void *arg)
{
    return front_kit_closed(arg, "no_request") > 0;
}

static void test_keep_alive(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /a?b=c HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n");
    ok(front_kit_handled(k, 1), "a request reaches the handler");
    is_slice(exchange_request(k->x)->method, "GET", "its method");
    is_slice(exchange_request(k->x)->target, "/a?b=c", "its target");
    is_slice(http_head_value(exchange_request(k->x), HTTP_ACCEPT), "*/*", "its fields");
    is_int(exchange_request_body(k->x).kind, HTTP_BODY_NONE, "it has no body");
    is_str(exchange_client(k->x)->ip, "127.0.0.1", "the client's address");
    is_str(exchange_client(k->x)->protocol, "HTTP/1.1", "the protocol");
    is_u64(exchange_client(k->x)->sequence, 1, "the first on its connection");
    ok(exchange_client(k->x)->tls->present == (k->client_tls != NULL), "the certificate is passed on");
    is_double(front_kit_metric(k, "mvproxy_front_requests_in_flight", NULL), 1, "it is in flight");
    is_u64(front_exchanges(k->front), 1, "the front says so too");
    respond_whole(k, 200, "hello");
    ok(client_ends_in(&c, "hello"), "the answer arrives");
    is_str(client_take_undated(&c), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
           "framed by its length, and no more");
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "a second request, answered inside the handler");
    client_ask(&c, "/c");
    ok(front_kit_handled(k, 3), "a third");
    is_u64(exchange_client(k->x)->sequence, 3, "it knows its number");
    respond_whole(k, 404, "");
    ok(client_has(&c, "HTTP/1.1 404 Not Found\r\n"), "an answer without a body");
    ok(client_has(&c, "Content-Length: 0\r\n"), "says so");
    ok(client_has(&c, "Date: "), "and has a date");
    is_double(front_kit_metric(k, "mvproxy_front_requests_total", NULL), 3, "three requests counted");
    client_close(&c, STREAM_CLOSE_FLUSH);
    ok(front_kit_empty(k), "the client leaves");
    is_double(front_kit_closed(k, "client"), 1, "that is counted");
    client_open(k, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "a client that asks once");
    client_close(&c, STREAM_CLOSE_FLUSH);
    ok(front_kit_empty(k), "leaves");
    is_double(front_kit_closed(k, "client"), 2, "no less than one that asks more");
    client_open(k, &c);
    client_close(&c, STREAM_CLOSE_FLUSH);
    ok(front_kit_until(k, nothing_asked, k), "one that asks nothing is another matter");
}

static void test_pieces(struct front_kit *k)
{
    const char *text =
        "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\nGET /sync "
        "HTTP/1.1\r\nHost: h\r\n\r\n";
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    for (const char *p = text; *p != '\0'; p++) {
        client_send_bytes(&c, slice_of(p, 1));
        loop_run_once(k->loop, 1);
        loop_run_once(k->loop, 1);
    }
    ok(front_kit_sink_has(k, "end"), "a request in pieces of one byte");
    is_str(front_kit_sunk(k), "body(a) body(b) body(c) end trailer:X-T ", "its body and trailers");
    is_u64(exchange_request_bytes(k->x), 3, "its bytes are counted");
    is_int(k->handled, 1, "the next waits");
    respond_whole(k, 200, "one");
    ok(client_ends_in(&c, "sync"), "and is answered after it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_pipeline(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    begun = 0;
    client_open(k, &c);
    client_send(&c,
                "\r\nGET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /sync HTTP/1.1\r\nHost: "
                "h\r\n\r\nGET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(front_kit_handled(k, 1), "the first of four");
    front_kit_settle(k);
    is_int(k->handled, 1, "the second waits unread");
    respond_whole(k, 200, "one");
    is_int(k->handled, 1, "it does not start inside the call that ends the first");
    ok(front_kit_handled(k, 2), "but then");
    is_slice(exchange_request(k->x)->target, "/2", "in order");
    respond_whole(k, 200, "two");
    ok(front_kit_handled(k, 4), "the others follow");
    ok(client_has(&c, "syncHTTP/1.1") && client_ends_in(&c, "sync"), "and are answered");
    is_str(strstr(client_take_undated(&c), "two"),
           "twoHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n"
           "syncHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nsync",
           "each once, in order");
    is_u64(begun, 5, "each begins a message of its own, and the next one will");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* The next request is not read before the answer is on its way, and its client has nothing more to send then. */
static void test_pipeline_behind_large(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\n\r\nGET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(front_kit_handled(k, 1), "the first of two");
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    front_kit_fill(k);
    respond_end(k);
    front_kit_settle(k);
    is_int(k->handled, 1, "of whose answer more waits than goes out: the second one waits");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    ok(front_kit_handled(k, 2) && client_ends_in(&c, "sync"), "and is answered when there is room");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* There may be many thousands of them. */
static void test_idle_holds_nothing(struct front_kit *k)
{
    struct front_client c;
    struct h1_conn *conn;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\r\n\r\n");
    ok(front_kit_sink_has(k, "end"), "a request with trailers");
    conn = list_entry(k->x, struct h1_conn, x);
    ok(conn->arena != NULL && conn->x.request_arena != NULL, "has what it needs");
    respond_whole(k, 200, "one");
    ok(client_ends_in(&c, "one"), "is answered");
    ok(conn->parser == NULL && conn->body.trailer_parser == NULL, "then its connection has no parser");
    ok(conn->arena == NULL && conn->x.request_arena == NULL, "nor an arena");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_upload(struct front_kit *k)
{
    struct front_client c;
    struct exchange *x;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "PUT /u HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123");
    ok(front_kit_sink_has(k, "body(0123)"), "the body flows as it comes");
    is_u64(exchange_request_body(k->x).length, 10, "its length is known");
    exchange_pause_body(k->x);
    client_send(&c, "45");
    front_kit_settle(k);
    is_str(front_kit_sunk(k), "body(0123) ", "nothing comes while it is paused");
    x = k->x;
    exchange_resume_body(x);
    is_str(front_kit_sunk(k), "", "nothing comes inside the call that resumes it");
    ok(front_kit_sink_has(k, "body(45)"), "then the rest");
    client_send(&c, "6789");
    ok(front_kit_sink_has(k, "end"), "and the end");
    is_str(front_kit_sunk(k), "body(45) body(6789) end ", "once");
    respond_whole(k, 201, "");
    ok(client_has(&c, "201 Created"), "answered");
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "the connection goes on");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_big_upload_paused(struct front_kit *k)
{
    enum { BYTES = 8 * LIMIT_STREAM_INPUT };
    static char big[BYTES];
    struct front_client c;
    char head[128];

    memset(big, 'x', sizeof(big));
    snprintf(head, sizeof(head), "PUT /u HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", BYTES);
    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, head);
    ok(front_kit_handled(k, 1), "an upload bigger than all buffers");
    exchange_pause_body(k->x);
    client_send_bytes(&c, slice_of(big, sizeof(big)));
    front_kit_settle(k);
    is_u64(exchange_request_bytes(k->x), 0, "nothing is delivered while it is paused");
    ok(stream_unsent(c.s) > 0 || front_kit_metric(k, "mvproxy_front_received_bytes_total", NULL) < BYTES,
       "and what is taken in is bounded");
    exchange_resume_body(k->x);
    ok(front_kit_sink_has(k, "end"), "resumed, it arrives");
    is_u64(exchange_request_bytes(k->x), BYTES, "completely");
    respond_whole(k, 200, "ok");
    ok(client_ends_in(&c, "ok"), "and is answered");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_streaming_answer(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/watch");
    ok(front_kit_handled(k, 1), "a watch");
    ok(exchange_respond(k->x, head_of(k, 200, "X-A", "b"), (struct http_body){HTTP_BODY_CHUNKED, 0}), "a head");
    ok(exchange_responded(k->x), "is known to be given");
    ok(client_has(&c, "X-A: b\r\n"), "and leaves at once");
    ok(respond_more(k, "event1"), "an event");
    ok(client_ends_in(&c, "6\r\nevent1\r\n"), "leaves at once");
    respond_more(k, "ev");
    respond_more(k, "");
    respond_more(k, "ent2");
    ok(client_ends_in(&c, "2\r\nev\r\n4\r\nent2\r\n"), "pieces, and no empty chunk");
    is_u64(exchange_response_bytes(k->x), 12, "bytes are counted");
    respond_end(k);
    ok(client_ends_in(&c, "4\r\nent2\r\n0\r\n\r\n"), "the end");
    client_ask(&c, "/trailers");
    ok(front_kit_handled(k, 2), "another");
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    respond_more(k, "x");
    exchange_finish(k->x, head_of(k, 0, "X-Sum", "1"));
    ok(client_ends_in(&c, "1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n"), "trailers");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_old_client(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /old HTTP/1.0\r\nHost: h\r\n\r\n");
    ok(front_kit_handled(k, 1), "an HTTP/1.0 request");
    ok(exchange_interim(k->x, head_of(k, 103, "Link", "x")), "an interim response is accepted");
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    respond_more(k, "until the end");
    respond_end(k);
    is_int(client_ended(&c), CLIENT_EOF, "the connection ends after it");
    is_str(client_take_undated(&c), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
           "no interim head, no chunks, closed");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "client_request"), 1, "as the client asked");
}

static void test_close_asked(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    is_int(client_ended(&c), CLIENT_EOF, "Connection: close is obeyed");
    is_int(k->handled, 1, "what comes behind it is not served");
    is_str(client_take_undated(&c),
           "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsync",
           "the answer says so too");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_bodyless(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "HEAD /h HTTP/1.1\r\nHost: h\r\n\r\n");
    front_kit_handled(k, 1);
    respond_whole(k, 200, "12345");
    ok(client_has(&c, "\r\n\r\n"), "HEAD");
    is_str(client_take_undated(&c), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n",
           "has the length and nothing else");
    client_send(&c, "HEAD /h HTTP/1.1\r\nHost: h\r\n\r\n");
    front_kit_handled(k, 2);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    respond_end(k);
    ok(client_has(&c, "\r\n\r\n"), "HEAD of unknown length");
    is_str(client_take_undated(&c), "HTTP/1.1 200 OK\r\n\r\n", "has no framing");
    client_ask(&c, "/304");
    front_kit_handled(k, 3);
    respond_whole(k, 304, "");
    ok(client_has(&c, "\r\n\r\n"), "304");
    is_str(client_take_undated(&c), "HTTP/1.1 304 Not Modified\r\nContent-Type: text/plain\r\n\r\n",
           "has no length of ours");
    client_ask(&c, "/304");
    front_kit_handled(k, 4);
    exchange_respond(k->x, head_of(k, 304, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 77});
    respond_end(k);
    ok(client_has(&c, "\r\n\r\n"), "304 with a length");
    is_str(client_take_undated(&c), "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", "keeps it");
    client_ask(&c, "/204");
    front_kit_handled(k, 5);
    exchange_respond(k->x, head_of(k, 204, NULL, NULL), (struct http_body){HTTP_BODY_NONE, 0});
    respond_end(k);
    ok(client_has(&c, "\r\n\r\n"), "204");
    is_str(client_take_undated(&c), "HTTP/1.1 204 No Content\r\n\r\n", "has no framing");
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "the connection is still in step");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_own_fields_only(struct front_kit *k)
{
    struct front_client c;
    struct http_head *h;

    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    h = head_of(k, 200, "Content-Length", "9");
    ok(http_head_add(h, exchange_arena(k->x), SLICE_LIT("Transfer-Encoding"), SLICE_LIT("gzip")) &&
           http_head_add(h, exchange_arena(k->x), SLICE_LIT("Connection"), SLICE_LIT("X-B")) &&
           http_head_add(h, exchange_arena(k->x), SLICE_LIT("Date"), SLICE_LIT("yesterday")) &&
           http_head_add(h, exchange_arena(k->x), SLICE_LIT("Keep-Alive"), SLICE_LIT("timeout=1")),
       "a head with framing fields of somebody else");
    exchange_reply(k->x, h, SLICE_LIT("ok"));
    ok(client_ends_in(&c, "ok"), "is answered");
    is_str(client_take(&c), "HTTP/1.1 200 OK\r\nDate: yesterday\r\nContent-Length: 2\r\n\r\nok",
           "with our framing only, and its own date");
    client_ask(&c, "/split");
    front_kit_handled(k, 2);
    exchange_reply(k->x, head_of(k, 200, "X-A", "b\r\nX-C: d"), SLICE_LIT("ok"));
    ok(client_ended(&c) != CLIENT_OPEN, "a head that would split the response is not sent");
    is_str(client_take(&c), "", "not a byte of it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* ---- Expect, early answers ---- */

static void test_continue(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "POST /e HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    front_kit_handled(k, 1);
    ok(exchange_expects_continue(k->x), "the client waits");
    front_kit_settle(k);
    is_str(client_take(&c), "", "nobody tells it to go on but the proxy");
    ok(exchange_interim(k->x, head_of(k, 100, NULL, NULL)), "100");
    ok(client_has(&c, "\r\n\r\n"), "arrives");
    is_str(client_take(&c), "HTTP/1.1 100 Continue\r\n\r\n", "bare");
    client_send(&c, "abc");
    ok(front_kit_sink_has(k, "end"), "the body follows");
    exchange_interim(k->x, head_of(k, 103, "Link", "</x>"));
    respond_whole(k, 200, "ok");
    ok(client_ends_in(&c, "ok"), "then the answer");
    ok(strstr(client_take(&c), "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n") != NULL,
       "behind another interim response");
    client_send(&c, "POST /e HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    front_kit_handled(k, 2);
    respond_whole(k, 403, "no");
    is_int(client_ended(&c), CLIENT_EOF, "an answer instead of 100 ends the connection");
    ok(strstr(client_take(&c), "Connection: close\r\n") != NULL,
       "and says so: body and next request could not be told apart");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "body_unread"), 1, "counted");
}

static void test_early_short(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nab");
    ok(front_kit_sink_has(k, "body(ab)"), "part of a short body");
    respond_whole(k, 413, "too big");
    ok(client_ends_in(&c, "too big"), "is answered early");
    ok(strstr(client_take(&c), "Connection: close") == NULL, "the connection stays");
    client_send(&c, "cdefGET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(client_ends_in(&c, "sync"), "the rest is thrown away, the next request served");
    is_str(front_kit_sunk(k), "body(ab) ", "nobody saw the rest");
    k->finish_in_body = true;
    client_send(&c, "POST /in-body HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef");
    ok(client_ends_in(&c, "early"), "an answer in the middle of a delivery");
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "does no harm");
    client_send(&c, "POST /in-body HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nab");
    ok(client_ends_in(&c, "early"), "an early answer again");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "and the client leaves instead of sending the rest");
    is_int(k->gone, 0, "nobody is told: the exchange was over");
    is_double(front_kit_closed(k, "client_gone"), 1, "but it is counted");
}

static void test_early_long(struct front_kit *k, const char *framing)
{
    static char big[1 << 20];
    struct front_client c;

    memset(big, 'x', sizeof(big));
    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "POST /early HTTP/1.1\r\nHost: h\r\n");
    client_send(&c, framing);
    front_kit_handled(k, 1);
    respond_whole(k, 413, "too big");
    client_send_bytes(&c, slice_of(big, sizeof(big)));
    is_int(client_ended(&c), CLIENT_EOF, "a long body nobody wants ends the connection, in order");
    is_slice(buf_slice(&c.in).n > 7 ? slice_from(buf_slice(&c.in), buf_len(&c.in) - 7) : SLICE_NONE, "too big",
             "the client could read the answer");
    ok(strstr(client_take(&c), "Connection: close\r\n") != NULL, "which said so");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "body_unread"), 1, "counted");
}

static void test_early_long_length(struct front_kit *k)
{
    test_early_long(k, "Content-Length: 100000000\r\n\r\n");
}

static void test_early_long_chunked(struct front_kit *k)
{
    test_early_long(k, "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n");
}

/* A body that came while nobody wanted it is there: it is not waited for when it is thrown away. */
static void test_rest_is_there(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    client_open(k, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
    ok(front_kit_handled(k, 1), "an upload");
    exchange_pause_body(k->x);
    client_send(&c, "hello");
    front_kit_settle(k);
    respond_whole(k, 200, "no");
    ok(client_ends_in(&c, "no"), "that is not wanted is answered");
    for (int i = 0; i < 3; i++)
        front_kit_pass(k, 15);
    is_int(c.end, CLIENT_OPEN, "and its connection goes on");
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "with the next request");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* The time in which the proxy did not want it is not the client's. */
static void test_wanted_again(struct front_kit *k)
{
    struct front_client c;

    k->opts.body_timeout_ms = 20;
    front_kit_start(k);
    client_open(k, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    ok(front_kit_sink_has(k, "body(ab)"), "an upload");
    exchange_pause_body(k->x);
    for (int i = 0; i < 3; i++)
        front_kit_pass(k, 15);
    exchange_resume_body(k->x);
    front_kit_pass(k, 15);
    is_int(k->gone, 0, "that is wanted again has its time");
    front_kit_pass(k, 15);
    front_kit_pass(k, 15);
    is_int(k->gone, 1, "and no more");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Nothing of one request is left for the next: that its body was not wanted, how its answer was framed. */
static void test_each_anew(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
    ok(front_kit_handled(k, 1), "an upload");
    exchange_pause_body(k->x);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    respond_more(k, "no");
    respond_end(k);
    client_send(&c, "hello");
    ok(client_ends_in(&c, "2\r\nno\r\n0\r\n\r\n"), "that is not wanted, and an answer in chunks");
    (void)client_take(&c);
    client_send(&c, "POST /y HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
    ok(front_kit_sink_has(k, "body(abc) end"), "the next one is");
    respond_whole(k, 200, "yes");
    ok(client_ends_in(&c, "\r\n\r\nyes"), "and answered in one piece");
    (void)client_take(&c);
    client_send(&c, "POST /z HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    ok(client_has(&c, "HTTP/1.1 400 "), "a bad one is told so, however many have been answered");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* ---- whom the front believes ---- */

static void ask_twice(struct front_kit *k, struct front_client *c)
{
    for (int i = 0; i < 2; i++) {
        client_ask(c, "/a");
        ok(front_kit_handled(k, k->handled + 1), "a request");
        respond_whole(k, 200, "ok");
        ok(client_ends_in(c, "ok"), "is answered");
        (void)client_take(c);
    }
}

static void test_other_cas(struct front_kit *k)
{
    struct tls_ctx *first = k->opts.tls;
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    judged = 0;
    ask_twice(k, &c);
    is_u64(judged, 0, "nobody is judged again for nothing");
    k->opts.tls = first == NULL ? NULL : server_ctx(false);
    front_update(k->front, &k->opts);
    is_u64(judged, 0, "nor all at once when there are other CAs");
    ask_twice(k, &c);
    is_u64(judged, first != NULL, "but with its next request, once");
    if (k->opts.tls != NULL)
        tls_ctx_unref(k->opts.tls);
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static const struct front_kit_story stories[] = {
    {"keep-alive", test_keep_alive},
    {"pieces", test_pieces},
    {"pipeline", test_pipeline},
    {"a pipeline behind a large answer", test_pipeline_behind_large},
    {"who is idle holds nothing", test_idle_holds_nothing},
    {"upload", test_upload},
    {"big upload, paused", test_big_upload_paused},
    {"streaming answer", test_streaming_answer},
    {"old client", test_old_client},
    {"close asked", test_close_asked},
    {"bodyless", test_bodyless},
    {"own fields only", test_own_fields_only},
    {"100 (Continue)", test_continue},
    {"early answer, short rest", test_early_short},
    {"early answer, long rest", test_early_long_length},
    {"early answer, rest in chunks", test_early_long_chunked},
    {"the rest is there", test_rest_is_there},
    {"wanted again", test_wanted_again},
    {"each anew", test_each_anew},
    {"other CAs", test_other_cas},
};

int main(void)
{
    front_kit_run(stories, ROWS(stories));
    return tap_end();
}
