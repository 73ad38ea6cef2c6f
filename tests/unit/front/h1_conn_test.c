/* One HTTP/1.1 server connection over a real socket, in the clear and over TLS: what the proxy sees, what the client
 * sees. */
#include "unit/front/world.h"

#include <stdio.h>

#include "base/limits.h"
#include "lib/tap.h"

/* Everything received, without Date lines: they differ every second. */
static const char *take_undated(struct client *c)
{
    static char out[1 << 16];
    const char *p = client_take(c);
    size_t n = 0;

    while (*p != '\0' && n < sizeof(out) - 1) {
        if (strncmp(p, "Date: ", 6) == 0)
            p = strstr(p, "\r\n") + 2;
        else
            out[n++] = *p++;
    }
    out[n] = '\0';
    return out;
}

static const char *sunk(struct world *w)
{
    static char text[1 << 16];

    snprintf(text, sizeof(text), "%.*s", (int)buf_len(&w->sink), buf_len(&w->sink) == 0 ? "" : buf_slice(&w->sink).p);
    buf_reset(&w->sink);
    return text;
}

static void a_request(struct client *c, const char *target)
{
    char text[256];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    client_send(c, text);
}

static bool put(struct world *w, const char *text)
{
    return exchange_body(w->x, slice_str(text));
}

static void finish(struct world *w)
{
    struct exchange *x = w->x;

    w->x = NULL;
    exchange_finish(x, NULL);
}

static double closed(struct world *w, const char *reason)
{
    return world_metric(w, "mvproxy_front_closed_total", reason);
}

/* ---- requests and answers ---- */

static void test_keep_alive(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /a?b=c HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n");
    ok(world_handled(w, 1), "a request reaches the handler");
    is_slice(exchange_request(w->x)->method, "GET", "its method");
    is_slice(exchange_request(w->x)->target, "/a?b=c", "its target");
    is_slice(http_head_value(exchange_request(w->x), HTTP_ACCEPT), "*/*", "its fields");
    is_int(exchange_request_body(w->x).kind, HTTP_BODY_NONE, "it has no body");
    is_str(exchange_client(w->x)->ip, "127.0.0.1", "the client's address");
    is_str(exchange_client(w->x)->protocol, "HTTP/1.1", "the protocol");
    is_u64(exchange_client(w->x)->sequence, 1, "the first on its connection");
    ok(exchange_client(w->x)->tls->present == (w->client_tls != NULL), "the certificate is passed on");
    is_double(world_metric(w, "mvproxy_front_requests_in_flight", NULL), 1, "it is in flight");
    is_u64(front_exchanges(w->front), 1, "the front says so too");
    respond_whole(w, 200, "hello");
    ok(client_ends_in(&c, "hello"), "the answer arrives");
    is_str(take_undated(&c), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
           "framed by its length, and no more");
    a_request(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "a second request, answered inside the handler");
    a_request(&c, "/c");
    ok(world_handled(w, 3), "a third");
    is_u64(exchange_client(w->x)->sequence, 3, "it knows its number");
    respond_whole(w, 404, "");
    ok(client_has(&c, "HTTP/1.1 404 Not Found\r\n"), "an answer without a body");
    ok(client_has(&c, "Content-Length: 0\r\n"), "says so");
    ok(client_has(&c, "Date: "), "and has a date");
    is_double(world_metric(w, "mvproxy_front_requests_total", NULL), 3, "three requests counted");
    client_close(&c, STREAM_CLOSE_FLUSH);
    ok(world_empty(w), "the client leaves");
    is_double(closed(w, "client"), 1, "that is counted");
}

static void test_pieces(struct world *w)
{
    const char *text =
        "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\nGET /sync "
        "HTTP/1.1\r\nHost: h\r\n\r\n";
    struct client c;

    world_start(w);
    client_open(w, &c);
    for (const char *p = text; *p != '\0'; p++) {
        client_send_bytes(&c, slice_of(p, 1));
        loop_run_once(w->loop, 1);
        loop_run_once(w->loop, 1);
    }
    ok(world_sink_has(w, "end"), "a request in pieces of one byte");
    is_str(sunk(w), "body(a) body(b) body(c) end trailer:X-T ", "its body and trailers");
    is_u64(exchange_request_bytes(w->x), 3, "its bytes are counted");
    is_int(w->handled, 1, "the next waits");
    respond_whole(w, 200, "one");
    ok(client_ends_in(&c, "sync"), "and is answered after it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_pipeline(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_send(&c,
                "\r\nGET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /sync HTTP/1.1\r\nHost: "
                "h\r\n\r\nGET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(world_handled(w, 1), "the first of four");
    world_settle(w);
    is_int(w->handled, 1, "the second waits unread");
    respond_whole(w, 200, "one");
    is_int(w->handled, 1, "it does not start inside the call that ends the first");
    ok(world_handled(w, 2), "but then");
    is_slice(exchange_request(w->x)->target, "/2", "in order");
    respond_whole(w, 200, "two");
    ok(world_handled(w, 4), "the others follow");
    ok(client_has(&c, "syncHTTP/1.1") && client_ends_in(&c, "sync"), "and are answered");
    is_str(strstr(take_undated(&c), "two"),
           "twoHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n"
           "syncHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nsync",
           "each once, in order");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_upload(struct world *w)
{
    struct client c;
    struct exchange *x;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "PUT /u HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123");
    ok(world_sink_has(w, "body(0123)"), "the body flows as it comes");
    is_u64(exchange_request_body(w->x).length, 10, "its length is known");
    exchange_pause_body(w->x);
    client_send(&c, "45");
    world_settle(w);
    is_str(sunk(w), "body(0123) ", "nothing comes while it is paused");
    x = w->x;
    exchange_resume_body(x);
    is_str(sunk(w), "", "nothing comes inside the call that resumes it");
    ok(world_sink_has(w, "body(45)"), "then the rest");
    client_send(&c, "6789");
    ok(world_sink_has(w, "end"), "and the end");
    is_str(sunk(w), "body(45) body(6789) end ", "once");
    respond_whole(w, 201, "");
    ok(client_has(&c, "201 Created"), "answered");
    a_request(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "the connection goes on");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_big_upload_paused(struct world *w)
{
    enum { BYTES = 8 * LIMIT_STREAM_INPUT };
    static char big[BYTES];
    struct client c;
    char head[128];

    memset(big, 'x', sizeof(big));
    snprintf(head, sizeof(head), "PUT /u HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", BYTES);
    world_start(w);
    client_open(w, &c);
    client_send(&c, head);
    ok(world_handled(w, 1), "an upload bigger than all buffers");
    exchange_pause_body(w->x);
    client_send_bytes(&c, slice_of(big, sizeof(big)));
    world_settle(w);
    is_u64(exchange_request_bytes(w->x), 0, "nothing is delivered while it is paused");
    ok(stream_unsent(c.s) > 0 || world_metric(w, "mvproxy_front_received_bytes_total", NULL) < BYTES,
       "and what is taken in is bounded");
    exchange_resume_body(w->x);
    ok(world_sink_has(w, "end"), "resumed, it arrives");
    is_u64(exchange_request_bytes(w->x), BYTES, "completely");
    respond_whole(w, 200, "ok");
    ok(client_ends_in(&c, "ok"), "and is answered");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_streaming_answer(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    a_request(&c, "/watch");
    ok(world_handled(w, 1), "a watch");
    ok(exchange_respond(w->x, head_of(w, 200, "X-A", "b"), (struct http_body){HTTP_BODY_CHUNKED, 0}), "a head");
    ok(exchange_responded(w->x), "is known to be given");
    ok(client_has(&c, "X-A: b\r\n"), "and leaves at once");
    ok(put(w, "event1"), "an event");
    ok(client_ends_in(&c, "6\r\nevent1\r\n"), "leaves at once");
    put(w, "ev");
    put(w, "");
    put(w, "ent2");
    ok(client_ends_in(&c, "2\r\nev\r\n4\r\nent2\r\n"), "pieces, and no empty chunk");
    is_u64(exchange_response_bytes(w->x), 12, "bytes are counted");
    finish(w);
    ok(client_ends_in(&c, "4\r\nent2\r\n0\r\n\r\n"), "the end");
    a_request(&c, "/trailers");
    ok(world_handled(w, 2), "another");
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    put(w, "x");
    exchange_finish(w->x, head_of(w, 0, "X-Sum", "1"));
    ok(client_ends_in(&c, "1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n"), "trailers");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_old_client(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /old HTTP/1.0\r\nHost: h\r\n\r\n");
    ok(world_handled(w, 1), "an HTTP/1.0 request");
    ok(exchange_interim(w->x, head_of(w, 103, "Link", "x")), "an interim response is accepted");
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    put(w, "until the end");
    finish(w);
    is_int(client_ended(&c), CLIENT_EOF, "the connection ends after it");
    is_str(take_undated(&c), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
           "no interim head, no chunks, closed");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(closed(w, "client_request"), 1, "as the client asked");
}

static void test_close_asked(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /sync HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    is_int(client_ended(&c), CLIENT_EOF, "Connection: close is obeyed");
    is_int(w->handled, 1, "what comes behind it is not served");
    is_str(take_undated(&c),
           "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsync",
           "the answer says so too");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_bodyless(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "HEAD /h HTTP/1.1\r\nHost: h\r\n\r\n");
    world_handled(w, 1);
    respond_whole(w, 200, "12345");
    ok(client_has(&c, "\r\n\r\n"), "HEAD");
    is_str(take_undated(&c), "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n",
           "has the length and nothing else");
    client_send(&c, "HEAD /h HTTP/1.1\r\nHost: h\r\n\r\n");
    world_handled(w, 2);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    finish(w);
    ok(client_has(&c, "\r\n\r\n"), "HEAD of unknown length");
    is_str(take_undated(&c), "HTTP/1.1 200 OK\r\n\r\n", "has no framing");
    a_request(&c, "/304");
    world_handled(w, 3);
    respond_whole(w, 304, "");
    ok(client_has(&c, "\r\n\r\n"), "304");
    is_str(take_undated(&c), "HTTP/1.1 304 Not Modified\r\nContent-Type: text/plain\r\n\r\n", "has no length of ours");
    a_request(&c, "/304");
    world_handled(w, 4);
    exchange_respond(w->x, head_of(w, 304, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 77});
    finish(w);
    ok(client_has(&c, "\r\n\r\n"), "304 with a length");
    is_str(take_undated(&c), "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", "keeps it");
    a_request(&c, "/204");
    world_handled(w, 5);
    exchange_respond(w->x, head_of(w, 204, NULL, NULL), (struct http_body){HTTP_BODY_NONE, 0});
    finish(w);
    ok(client_has(&c, "\r\n\r\n"), "204");
    is_str(take_undated(&c), "HTTP/1.1 204 No Content\r\n\r\n", "has no framing");
    a_request(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "the connection is still in step");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_own_fields_only(struct world *w)
{
    struct client c;
    struct http_head *h;

    world_start(w);
    client_open(w, &c);
    a_request(&c, "/x");
    world_handled(w, 1);
    h = head_of(w, 200, "Content-Length", "9");
    ok(http_head_add(h, exchange_arena(w->x), SLICE_LIT("Transfer-Encoding"), SLICE_LIT("gzip")) &&
           http_head_add(h, exchange_arena(w->x), SLICE_LIT("Connection"), SLICE_LIT("X-B")) &&
           http_head_add(h, exchange_arena(w->x), SLICE_LIT("Date"), SLICE_LIT("yesterday")) &&
           http_head_add(h, exchange_arena(w->x), SLICE_LIT("Keep-Alive"), SLICE_LIT("timeout=1")),
       "a head with framing fields of somebody else");
    exchange_reply(w->x, h, SLICE_LIT("ok"));
    ok(client_ends_in(&c, "ok"), "is answered");
    is_str(client_take(&c), "HTTP/1.1 200 OK\r\nDate: yesterday\r\nContent-Length: 2\r\n\r\nok",
           "with our framing only, and its own date");
    a_request(&c, "/split");
    world_handled(w, 2);
    exchange_reply(w->x, head_of(w, 200, "X-A", "b\r\nX-C: d"), SLICE_LIT("ok"));
    ok(client_ended(&c) != CLIENT_OPEN, "a head that would split the response is not sent");
    is_str(client_take(&c), "", "not a byte of it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* ---- Expect, early answers ---- */

static void test_continue(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "POST /e HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    world_handled(w, 1);
    ok(exchange_expects_continue(w->x), "the client waits");
    world_settle(w);
    is_str(client_take(&c), "", "nobody tells it to go on but the proxy");
    ok(exchange_interim(w->x, head_of(w, 100, NULL, NULL)), "100");
    ok(client_has(&c, "\r\n\r\n"), "arrives");
    is_str(client_take(&c), "HTTP/1.1 100 Continue\r\n\r\n", "bare");
    client_send(&c, "abc");
    ok(world_sink_has(w, "end"), "the body follows");
    exchange_interim(w->x, head_of(w, 103, "Link", "</x>"));
    respond_whole(w, 200, "ok");
    ok(client_ends_in(&c, "ok"), "then the answer");
    ok(strstr(client_take(&c), "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n") != NULL,
       "behind another interim response");
    client_send(&c, "POST /e HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    world_handled(w, 2);
    respond_whole(w, 403, "no");
    is_int(client_ended(&c), CLIENT_EOF, "an answer instead of 100 ends the connection");
    ok(strstr(client_take(&c), "Connection: close\r\n") != NULL,
       "and says so: body and next request could not be told apart");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(closed(w, "body_unread"), 1, "counted");
}

static void test_early_short(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "POST /early HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nab");
    ok(world_sink_has(w, "body(ab)"), "part of a short body");
    respond_whole(w, 413, "too big");
    ok(client_ends_in(&c, "too big"), "is answered early");
    ok(strstr(client_take(&c), "Connection: close") == NULL, "the connection stays");
    client_send(&c, "cdefGET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(client_ends_in(&c, "sync"), "the rest is thrown away, the next request served");
    is_str(sunk(w), "body(ab) ", "nobody saw the rest");
    w->finish_in_body = true;
    client_send(&c, "POST /in-body HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabcdef");
    ok(client_ends_in(&c, "early"), "an answer in the middle of a delivery");
    a_request(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "does no harm");
    client_send(&c, "POST /in-body HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nab");
    ok(client_ends_in(&c, "early"), "an early answer again");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "and the client leaves instead of sending the rest");
    is_int(w->gone, 0, "nobody is told: the exchange was over");
    is_double(closed(w, "client_gone"), 1, "but it is counted");
}

static void test_early_long(struct world *w, const char *framing)
{
    static char big[1 << 20];
    struct client c;

    memset(big, 'x', sizeof(big));
    world_start(w);
    client_open(w, &c);
    client_send(&c, "POST /early HTTP/1.1\r\nHost: h\r\n");
    client_send(&c, framing);
    world_handled(w, 1);
    respond_whole(w, 413, "too big");
    client_send_bytes(&c, slice_of(big, sizeof(big)));
    is_int(client_ended(&c), CLIENT_EOF, "a long body nobody wants ends the connection, in order");
    is_slice(buf_slice(&c.in).n > 7 ? slice_from(buf_slice(&c.in), buf_len(&c.in) - 7) : SLICE_NONE, "too big",
             "the client could read the answer");
    ok(strstr(client_take(&c), "Connection: close\r\n") != NULL, "which said so");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(closed(w, "body_unread"), 1, "counted");
}

static void test_early_long_length(struct world *w)
{
    test_early_long(w, "Content-Length: 100000000\r\n\r\n");
}

static void test_early_long_chunked(struct world *w)
{
    test_early_long(w, "Transfer-Encoding: chunked\r\n\r\nfffffff\r\n");
}

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
        is_double(closed(w, l->reason), 1, "%s: counted as %s", l->name, l->reason);
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
    a_request(&c, "/x");
    world_handled(w, 1);
    stream_finish_writing(c.s);
    ok(world_sink_has(w, "gone(client closed the connection)"), "the end of the client's direction means it is gone");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* ---- broken responses ---- */

static void test_abort(struct world *w)
{
    struct client c;
    struct exchange *x;

    world_start(w);
    client_open(w, &c);
    a_request(&c, "/x");
    world_handled(w, 1);
    x = w->x;
    exchange_abort(x, "test");
    ok(client_ended(&c) != CLIENT_OPEN, "aborted before the head: closed");
    is_str(client_take(&c), "", "without a byte");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    a_request(&c, "/x");
    world_handled(w, 2);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    put(w, "abc");
    ok(client_ends_in(&c, "abc\r\n"), "aborted in the middle of the body");
    exchange_abort(w->x, "test");
    is_int(client_ended(&c), CLIENT_BROKEN, "is seen as broken");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_send(&c, "GET /x HTTP/1.0\r\nHost: h\r\n\r\n");
    world_handled(w, 3);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CLOSE, 0});
    put(w, "abc");
    ok(client_ends_in(&c, "abc"), "even where the end is the delimiter");
    exchange_abort(w->x, "test");
    is_int(client_ended(&c), CLIENT_BROKEN, "it is seen as broken");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_int(w->gone, 0, "who aborts is not told that the client is gone");
    is_double(closed(w, "response_aborted"), 3, "counted");
}

static void test_wrong_length(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    a_request(&c, "/x");
    world_handled(w, 1);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    ok(put(w, "abc"), "three of five bytes");
    finish(w);
    is_int(client_ended(&c), CLIENT_BROKEN, "a response that is too short is broken");
    is_int(w->gone, 0, "who finished it is not told");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    a_request(&c, "/x");
    world_handled(w, 2);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    ok(!put(w, "abcdef"), "six of five bytes are refused");
    is_int(w->gone, 0, "not inside the call");
    ok(world_sink_has(w, "gone(response longer than announced)"), "then the proxy is told");
    is_int(client_ended(&c), CLIENT_BROKEN, "and the client sees a broken stream");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    a_request(&c, "/x");
    world_handled(w, 3);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 5});
    put(w, "abcdef");
    finish(w);
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
    a_request(&c, "/x");
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
    a_request(&c, "/x");
    world_handled(w, 1);
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    while (!exchange_congested(w->x) && pieces < 100000) {
        exchange_body(w->x, slice_of(piece, sizeof(piece)));
        pieces++;
        loop_run_once(w->loop, 0);
    }
    ok(pieces < 100000, "a client that does not read makes the exchange congested");
    is_str(sunk(w), "", "not writable yet");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    ok(world_sink_has(w, "writable"), "it reads: writable");
    ok(!exchange_congested(w->x), "no longer congested");
    finish(w);
    ok(client_ends_in(&c, "\r\n0\r\n\r\n"), "everything arrives");
    ok(buf_len(&c.in) > pieces * sizeof(piece), "all of it");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
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
    finish(w);
    for (int i = 0; i < 10; i++)
        loop_run_once(w->loop, 20);
    is_u64(front_connections(w->front), 1, "the connection waits for a slow reader");
    stream_resume(c.s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(&c), CLIENT_EOF, "which then sees the end");
    ok(buf_len(&c.in) > sent, "and has got everything");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(closed(w, "client_request"), 1, "an ordinary end");
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
    is_double(closed(w, "upgraded"), 1, "counted");
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
    a_request(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "and the connection goes on");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    buf_free(&in);
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
    is_double(closed(w, "bad_request"), (double)ROWS(refusals) + 1, "and as a reason");
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
    a_request(&c, "/sync");
    is_int(client_ended(&c), CLIENT_EOF, "an idle connection ends");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    ok(world_sink_has(w, "gone(request body stalled)"), "a body that does not go on: the proxy is told");
    ok(client_has(&c, "HTTP/1.1 408 Request Timeout\r\n"), "and the client");
    is_int(client_ended(&c), CLIENT_EOF, "and that is the end");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(closed(w, "no_request"), 1, "counted: no request");
    is_double(closed(w, "header_timeout"), 1, "counted: header timeout");
    is_double(closed(w, "idle_timeout"), 1, "counted: idle timeout");
    is_double(closed(w, "body_timeout"), 1, "counted: body timeout");
}

static bool never(void *arg)
{
    return *(uint64_t *)arg <= 0;
}

static void test_no_timeout(struct world *w)
{
    struct client c;
    uint64_t left = 20;

    w->opts.header_timeout_ms = w->opts.idle_timeout_ms = w->opts.body_timeout_ms = 20;
    world_start(w);
    client_open(w, &c);
    a_request(&c, "/watch");
    world_handled(w, 1);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    while (!never(&left)) {
        loop_run_once(w->loop, 10);
        left--;
    }
    is_int(w->gone, 0, "a watch has no timeout");
    put(w, "event");
    ok(client_ends_in(&c, "event\r\n"), "it goes on");
    finish(w);
    is_int(client_ended(&c), CLIENT_EOF, "afterwards the connection is idle like any other");
    client_close(&c, STREAM_CLOSE_NOW);
    client_open(w, &c);
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    world_handled(w, 2);
    for (left = 20; !never(&left); left--)
        loop_run_once(w->loop, 10);
    is_int(w->gone, 0, "nor has a body that the client may not send yet");
    respond_whole(w, 200, "");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    void (*run)(struct world *w);
} tests[] = {
    {"keep-alive", test_keep_alive},
    {"pieces", test_pieces},
    {"pipeline", test_pipeline},
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
    {"leaving", test_leaving},
    {"half-close", test_half_close},
    {"abort", test_abort},
    {"wrong length", test_wrong_length},
    {"forgotten", test_forgotten},
    {"back-pressure", test_back_pressure},
    {"slow last answer", test_slow_last_answer},
    {"upgrade", test_upgrade},
    {"refusals", test_refusals},
    {"timeouts", test_timeouts},
    {"no timeout", test_no_timeout},
};

int main(void)
{
    for (size_t i = 0; i < 2 * ROWS(tests); i++) {
        struct world w;
        bool tls = i >= ROWS(tests);

        diag("%s, %s", tests[i % ROWS(tests)].name, tls ? "TLS" : "plain");
        world_init(&w, tls);
        tests[i % ROWS(tests)].run(&w);
        world_end(&w);
    }
    return tap_end();
}
