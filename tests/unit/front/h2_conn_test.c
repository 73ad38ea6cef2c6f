/* HTTP/2 connections: requests, answers, flow control, what clients break, and how it all ends. */
#include "unit/front/h2_kit.h"

#include <stdio.h>

#include "base/limits.h"
#include "lib/tap.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"

static bool has(struct buf *b, const char *text)
{
    return strstr(kit_text(b), text) != NULL;
}

static double closed(struct kit *k, const char *reason)
{
    return world_metric(&k->w, "mvproxy_front_closed_total", reason);
}

/* ---- requests and answers ---- */

static void test_request(struct kit *k)
{
    struct req *r;
    const struct http_head *h;

    kit_connect(k, false, false);
    r = kit_ask(k, "GET", "/api/v1?x=%20y", "Server:6443",
                "accept: a/b\ncookie: a=1\nx-custom: v\ncookie: b=2\nte: trailers\n", 0);
    ok(kit_held(k, 1), "a request arrives");
    h = exchange_request(k->held[0].x);
    is_slice(h->method, "GET", "method");
    is_int(h->method_id, HTTP_GET, "its id");
    is_slice(h->target, "/api/v1?x=%20y", "target");
    is_slice(h->fields[0].name, "Host", "Host is the first field");
    is_slice(h->fields[0].value, "Server:6443", "from :authority");
    is_slice(http_head_value(h, HTTP_ACCEPT), "a/b", "a field");
    is_slice(http_head_find_name(h, SLICE_LIT("X-Custom"))->value, "v", "an unknown field");
    is_slice(http_head_find_name(h, SLICE_LIT("Cookie"))->value, "a=1; b=2", "cookie crumbs are one field");
    is_u64(h->n_fields, 5, "nothing else");
    is_int(exchange_request_body(k->held[0].x).kind, HTTP_BODY_NONE, "no body");
    is_str(exchange_client(k->held[0].x)->protocol, "HTTP/2.0", "protocol");
    is_u64(exchange_client(k->held[0].x)->sequence, 1, "sequence");
    is_slice(exchange_client(k->held[0].x)->tls->common_name, "alice", "client certificate");
    ok(!exchange_wants_upgrade(k->held[0].x), "no upgrade");
    kit_reply(&k->held[0], 200, "hello");
    ok(kit_closed(k, r), "answered");
    is_int((int)r->code, NGHTTP2_NO_ERROR, "in good order");
    is_int(r->status, 200, "status");
    is_str(kit_text(&r->body), "hello", "body");
    ok(has(&r->fields, "content-type: text/plain\n"), "field names are in lower case");
    ok(has(&r->fields, "content-length: 5\n"), "length");
    ok(has(&r->fields, "date: "), "date");
    r = kit_get(k, "/sync");
    ok(kit_closed(k, r) && r->status == 200, "answered inside the handler");
    is_str(kit_text(&r->body), "sync", "body");
}

static void test_multiplex(struct kit *k)
{
    struct req *r[50];
    unsigned good = 0;
    char path[20];

    kit_connect(k, false, false);
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        r[i] = kit_get(k, "/x");
    }
    ok(kit_held(k, 50), "fifty at once");
    is_u64(front_exchanges(k->w.front), 50, "all in flight");
    for (int i = 49; i >= 0; i--) {
        snprintf(path, sizeof(path), "%d", i);
        kit_reply(&k->held[i], 200, path);
        if (i % 7 == 0)
            kit_settle(k);
    }
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof(path), "%d", i);
        good += kit_closed(k, r[i]) && strcmp(kit_text(&r[i]->body), path) == 0;
    }
    is_int(good, 50, "each gets its own answer, in any order");
}

static void test_pieces(struct kit *k)
{
    struct req *r;

    kit_connect(k, false, false);
    k->trickle = true;
    r = kit_ask(k, "POST", "/whole-trailer", "h", "content-type: x\n", 20);
    ok(kit_held(k, 1), "a request in pieces of one byte");
    kit_flush(k);
    ok(kit_told(k, &k->held[0], "end x-sum=abc"), "with its body and trailers");
    is_u64(k->held[0].body, 20, "all of it");
    is_int((int)k->held[0].sum, (int)kit_sum(20), "as sent");
    kit_reply(&k->held[0], 201, "ok");
    ok(kit_closed(k, r), "answered");
    is_int(r->status, 201, "status");
}

static void test_forms(struct kit *k)
{
    static const struct {
        const char *name, *method;
        unsigned status;
        struct http_body body;
        bool bytes;
        const char *field, *no_field;
    } rows[] = {
        {"HEAD with length", "HEAD", 200, {HTTP_BODY_LENGTH, 1234}, false, "content-length: 1234\n", NULL},
        {"HEAD without", "HEAD", 200, {HTTP_BODY_CHUNKED, 0}, false, ":status: 200\n", "content-length"},
        {"204", "DELETE", 204, {HTTP_BODY_NONE, 0}, false, ":status: 204\n", "content-length"},
        {"304", "GET", 304, {HTTP_BODY_LENGTH, 9}, false, "content-length: 9\n", NULL},
        {"empty", "GET", 200, {HTTP_BODY_LENGTH, 0}, false, "content-length: 0\n", NULL},
        {"nothing said", "GET", 200, {HTTP_BODY_NONE, 0}, false, "content-length: 0\n", NULL},
        {"known length", "GET", 200, {HTTP_BODY_LENGTH, 3}, true, "content-length: 3\n", NULL},
        {"unknown length", "GET", 200, {HTTP_BODY_CLOSE, 0}, true, ":status: 200\n", "content-length"},
    };

    kit_connect(k, false, false);
    for (unsigned i = 0; i < ROWS(rows); i++) {
        struct req *r = kit_ask(k, rows[i].method, "/", "h", NULL, 0);
        struct held *h = &k->held[i];
        struct exchange *x;

        kit_held(k, i + 1);
        x = h->x;
        ok(exchange_respond(x, kit_head(h, rows[i].status, "Connection", "close"), rows[i].body), "%s", rows[i].name);
        if (rows[i].bytes)
            exchange_body(x, SLICE_LIT("abc"));
        h->x = NULL;
        exchange_finish(x, NULL);
        ok(kit_closed(k, r) && r->code == NGHTTP2_NO_ERROR, "%s: ends well", rows[i].name);
        is_int(r->status, rows[i].status, "%s: status", rows[i].name);
        is_u64(r->body_bytes, rows[i].bytes ? 3 : 0, "%s: bytes", rows[i].name);
        ok(has(&r->fields, rows[i].field), "%s: %s", rows[i].name, kit_text(&r->fields));
        ok(!has(&r->fields, "connection:"), "%s: no fields of connections", rows[i].name);
        if (rows[i].no_field != NULL)
            ok(!has(&r->fields, rows[i].no_field), "%s: no %s", rows[i].name, rows[i].no_field);
    }
}

static void test_interim_and_trailers(struct kit *k)
{
    struct req *r;
    struct exchange *x;
    struct http_head *t;

    kit_connect(k, false, false);
    r = kit_ask(k, "POST", "/trailer", "h", "expect: 100-continue\ncontent-length: 5\n", 5);
    kit_held(k, 1);
    x = k->held[0].x;
    ok(exchange_expects_continue(x), "100 is waited for");
    is_int(exchange_request_body(x).kind, HTTP_BODY_LENGTH, "a body of known length");
    is_u64(exchange_request_body(x).length, 5, "five bytes");
    ok(exchange_interim(x, kit_head(&k->held[0], 100, NULL, NULL)), "and given");
    ok(exchange_interim(x, kit_head(&k->held[0], 103, "Link", "a")), "103 too");
    ok(kit_told(k, &k->held[0], "end x-sum=abc"), "the body and its trailers arrive");
    exchange_respond(x, kit_head(&k->held[0], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_body(x, SLICE_LIT("data"));
    t = kit_head(&k->held[0], 0, "X-Trailer", "last");
    if (!http_head_add(t, exchange_arena(x), SLICE_LIT("Content-Length"), SLICE_LIT("9")))
        tap_bail("memory");
    k->held[0].x = NULL;
    exchange_finish(x, t);
    ok(kit_closed(k, r) && r->code == NGHTTP2_NO_ERROR, "ends well");
    is_int(r->interim, 103, "interim responses come through");
    ok(has(&r->fields, "link: a\n"), "with fields");
    is_str(kit_text(&r->body), "data", "body");
    is_str(kit_text(&r->trailers), "x-trailer: last\n", "trailers, without what must not be there");
}

/* ---- refusals ---- */

static void test_refusals(struct kit *k)
{
    static char big[20000];
    static const struct {
        const char *name, *method, *path, *authority, *fields;
        unsigned status; /* 0: the stream is reset */
    } rows[] = {
        {"CONNECT", "CONNECT", NULL, "h:1", NULL, 405},
        {"unknown method", "BREW", "/", "h", NULL, 501},
        {"no Host at all", "GET", "/", NULL, NULL, 0},
        {"Host that differs", "GET", "/", "h", "host: other\n", 400},
        {"Host with odd bytes", "GET", "/", "user@h", NULL, 400},
        {"bad escape", "GET", "/a%zz", "h", NULL, 400},
        {"fragment", "GET", "/a#b", "h", NULL, 400},
        {"target *", "GET", "*", "h", NULL, 0},
        {"not origin form", "GET", "a", "h", NULL, 0},
        {"big head", "GET", "/", "h", big, 431},
        {"transfer-encoding", "POST", "/", "h", "transfer-encoding: chunked\n", 0},
        {"connection", "GET", "/", "h", "connection: close\n", 0},
        {"upgrade", "GET", "/", "h", "upgrade: x\n", 0},
        {"te: gzip", "GET", "/", "h", "te: gzip\n", 0},
        {"upper case", "GET", "/", "h", "X-A: b\n", 0},
        {"space in name", "GET", "/", "h", "x a: b\n", 0},
        {"two lengths", "POST", "/", "h", "content-length: 1\ncontent-length: 2\n", 0},
        {"length that lies", "POST", "/", "h", "content-length: 4\n", 0},
        {"pseudo field twice", "GET", "/", "h", ":path: /\n", 0},
        {"unknown pseudo field", "GET", "/", "h", ":odd: /\n", 0},
    };
    struct req *r;

    for (size_t i = 0; i < sizeof(big) - 1; i += 100)
        snprintf(
            big + i, sizeof(big) - i, "x-n%03zu: %.*s\n", i / 100, 91,
            "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789");
    kit_connect(k, false, false);
    for (size_t i = 0; i < ROWS(rows); i++) {
        r = kit_ask(k, rows[i].method, rows[i].path, rows[i].authority, rows[i].fields, 0);
        ok(kit_closed(k, r), "%s", rows[i].name);
        if (rows[i].status != 0)
            is_int(r->status, rows[i].status, "%s: status", rows[i].name);
        else
            is_int((int)r->code, NGHTTP2_PROTOCOL_ERROR, "%s: reset", rows[i].name);
    }
    is_int(k->n_held, 0, "none of them reached the proxy");
    r = kit_get(k, "/sync");
    ok(kit_closed(k, r) && r->status == 200, "the connection goes on");
    is_double(world_metric(&k->w, "mvproxy_front_refusals_total", "400"), 4, "refusals are counted");
    k->quiet = true;
    r = kit_get(k, "/");
    ok(kit_closed(k, r), "a request that nobody handles");
    is_int(r->status, 500, "is answered");
}

static void test_long_heads(struct kit *k)
{
    enum { LONG = 60000 }; /* the client's nghttp2 sends no larger heads than 64 KiB */
    static char path[66000], value[66000];
    struct req *r;

    kit_connect(k, false, false);
    memset(path, 'a', sizeof(path) - 1);
    path[0] = '/';
    path[LONG] = '\0';
    r = kit_ask(k, "GET", path, "h", NULL, 0);
    ok(kit_held(k, 1), "a long target is taken");
    is_u64(exchange_request(k->held[0].x)->target.n, LONG, "whole");
    kit_reply(&k->held[0], 200, "");
    ok(kit_closed(k, r) && r->status == 200, "answered");
    snprintf(value, sizeof(value), "x-a: %.*s\n", LONG, path);
    r = kit_ask(k, "GET", "/", "h", value, 0);
    ok(kit_held(k, 2), "a head over several frames");
    kit_reply(&k->held[1], 200, "");
    ok(kit_closed(k, r) && r->status == 200, "answered");
}

static void test_bad_preface(struct kit *k)
{
    kit_connect(k, true, false);
    kit_raw(k, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 27);
    ok(kit_ended(k), "HTTP/1.1 where HTTP/2 was agreed on");
    ok(world_empty(&k->w), "ends");
    is_double(closed(k, "bad_request"), 1, "counted");
}

static void test_bad_frames(struct kit *k)
{
    /* DATA on stream 0; then more. */
    static const unsigned char frame[] = {0, 0, 1, 0, 0, 0, 0, 0, 0, 'x'};
    struct req *r;

    kit_connect(k, false, false);
    r = kit_get(k, "/x");
    kit_held(k, 1);
    kit_raw(k, frame, sizeof(frame));
    ok(kit_ended(k), "a frame that must not be ends the connection");
    is_int((int)k->goaway_code, NGHTTP2_PROTOCOL_ERROR, "GOAWAY says why");
    ok(!r->ended, "the request is not answered");
    is_int(k->held[0].gone, 1, "the proxy is told");
    ok(world_empty(&k->w), "over");
    is_double(closed(k, "bad_request"), 1, "counted");
}

static void test_backwards(struct kit *k)
{
    /* :method GET, :scheme https, :path /, authority "h", on streams 5, then 3. */
    static const unsigned char five[] = {0, 0, 6, 1, 5, 0, 0, 0, 5, 0x82, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char three[] = {0, 0, 6, 1, 5, 0, 0, 0, 3, 0x82, 0x87, 0x84, 0x41, 1, 'h'};

    kit_connect(k, true, false);
    kit_raw(k, PREFACE, sizeof(PREFACE) - 1);
    kit_raw(k, five, sizeof(five));
    ok(kit_held(k, 1), "a client may skip streams");
    kit_raw(k, three, sizeof(three));
    ok(kit_ended(k), "but not open them later");
    is_int(k->n_held, 1, "nobody is shown the request");
    is_int(k->held[0].gone, 1, "the other one ends with the connection");
    ok(world_empty(&k->w), "over");
    is_double(closed(k, "bad_request"), 1, "counted");
}

/* ---- flow control ---- */

enum { LARGE = 10 << 20 };

static bool upload_done(void *arg)
{
    struct held *h = arg;

    return h->ended || h->gone > 0;
}

static void test_upload(struct kit *k)
{
    struct req *r, *fast;
    uint64_t stuck;

    k->pause_all = true;
    kit_connect(k, false, false);
    r = kit_ask(k, "POST", "/up", "h", "content-length: 10485760\n", LARGE);
    kit_held(k, 1);
    kit_settle(k);
    is_u64(k->held[0].body, 0, "a paused body is not delivered");
    stuck = r->sent;
    ok(stuck <= LIMIT_H2_STREAM_WINDOW, "the client has sent no more than the stream's window: %llu",
       (unsigned long long)stuck);
    k->pause_all = false;
    fast = kit_ask(k, "POST", "/whole", "h", NULL, 3 << 20);
    ok(kit_closed(k, fast) && fast->status == 200,
       "another stream uploads more than the connection's window beside it");
    is_int((int)k->held[1].sum, (int)kit_sum(3 << 20), "as sent");
    is_u64(r->sent, stuck, "the paused one stays where it is");
    for (int i = 0; i < 40; i++) {
        exchange_resume_body(k->held[0].x);
        loop_run_once(k->w.loop, 1);
        loop_run_once(k->w.loop, 1);
        if (k->held[0].x != NULL)
            exchange_pause_body(k->held[0].x);
    }
    ok(k->held[0].body > 0, "paused and resumed, it moves");
    exchange_resume_body(k->held[0].x);
    ok(kit_until(k, upload_done, &k->held[0]) && k->held[0].ended, "and ends");
    is_u64(k->held[0].body, LARGE, "all of it");
    is_int((int)k->held[0].sum, (int)kit_sum(LARGE), "as sent");
    is_u64(exchange_request_bytes(k->held[0].x), LARGE, "counted");
    kit_reply(&k->held[0], 200, "");
    ok(kit_closed(k, r), "answered");
}

struct download {
    struct kit *k;
    struct held *h;
    struct req *r;
    uint64_t given, total;
    uint64_t most; /* that was ever given and not received */
};

static bool download_done(void *arg)
{
    struct download *d = arg;

    d->given = kit_pump(d->h, d->given, d->total);
    if (d->given - d->r->body_bytes > d->most)
        d->most = d->given - d->r->body_bytes;
    if (d->given == d->total && d->h->x != NULL) {
        struct exchange *x = d->h->x;

        d->h->x = NULL;
        exchange_finish(x, NULL);
    }
    return d->r->closed || d->k->end != CLIENT_OPEN;
}

static void start_download(struct download *d, struct kit *k, const char *path, uint64_t total)
{
    struct req *r = kit_get(k, path);

    kit_held(k, k->n_held + 1);
    *d = (struct download){.k = k, .h = &k->held[k->n_held - 1], .r = r, .total = total};
    exchange_respond(d->h->x, kit_head(d->h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
}

static void test_download(struct kit *k)
{
    struct download d;

    kit_connect(k, false, false);
    start_download(&d, k, "/down", LARGE);
    ok(kit_until(k, download_done, &d), "a large answer");
    is_u64(d.r->body_bytes, LARGE, "all of it");
    is_int((int)d.r->sum, (int)kit_sum(LARGE), "as given");
    ok(d.h->writable > 10, "with pauses: %u", d.h->writable);
    ok(d.most < 2 << 20, "never much under way: %llu", (unsigned long long)d.most);
}

/* Windows that only the test opens: nobody reads the slow one, the others pass it. */
static void test_slow_stream(struct kit *k)
{
    struct download slow, fast[5];
    unsigned told;
    int good = 0;

    kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 64 << 20);
    kit_flush(k);
    start_download(&slow, k, "/slow", LARGE);
    for (int i = 0; i < 20; i++) {
        (void)download_done(&slow);
        kit_settle(k);
    }
    ok(exchange_congested(slow.h->x), "nobody reads: congested");
    ok(slow.given <= 65535 + LIMIT_H2_OUTPUT_HIGH + (16 << 10), "after the window and one buffer: %llu",
       (unsigned long long)slow.given);
    is_u64(slow.r->body_bytes, 65535, "the client has its window full");
    told = slow.h->writable;
    for (int i = 0; i < 5; i++) {
        start_download(&fast[i], k, "/fast", 60000);
        good += kit_until(k, download_done, &fast[i]) && fast[i].r->body_bytes == 60000;
    }
    is_int(good, 5, "streams beside it are served");
    is_u64(slow.r->body_bytes, 65535, "it still waits");
    is_int(slow.h->writable, told, "nobody was told otherwise");
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, slow.r->id, 32 << 20);
    kit_flush(k);
    ok(kit_until(k, download_done, &slow), "when its window opens it goes on");
    is_u64(slow.r->body_bytes, LARGE, "to the end");
    is_int((int)slow.r->sum, (int)kit_sum(LARGE), "as given");
}

/* A socket that is not read at all. */
static void test_stuck_client(struct kit *k)
{
    struct download d[10];
    uint64_t given = 0;
    int good = 0;

    kit_connect(k, false, false);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 1 << 30);
    for (int i = 0; i < 10; i++) {
        start_download(&d[i], k, "/down", LARGE);
        nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, d[i].r->id, 1 << 30);
    }
    kit_flush(k);
    kit_settle(k);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 10; i++)
            (void)download_done(&d[i]);
        kit_settle(k);
    }
    for (int i = 0; i < 10; i++)
        given += exchange_congested(d[i].h->x) ? 1 : 0;
    is_u64(given, 10, "all ten wait for a client that does not read");
    stream_resume(k->s, STREAM_PAUSE_LIMIT);
    for (int i = 0; i < 10; i++)
        good += kit_until(k, download_done, &d[i]) && d[i].r->body_bytes == LARGE;
    is_int(good, 10, "and end when it does");
}

/* ---- the ways in which a request ends early ---- */

static void test_client_resets(struct kit *k)
{
    static const char *const names[] = {"before the answer", "in the answer", "in its own body",
                                        "with the answer waiting"};
    struct req *r;

    kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 64 << 20);
    for (unsigned i = 0; i < 4; i++) {
        struct held *h = &k->held[i];

        r = kit_ask(k, "POST", "/x", "h", NULL, i == 2 ? LARGE : 0);
        kit_held(k, i + 1);
        if (i == 1 || i == 3) {
            exchange_respond(h->x, kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
            kit_pump(h, 0, i == 3 ? 1 << 20 : 1000);
            kit_status(k, r);
        }
        nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
        kit_flush(k);
        ok(kit_told(k, h, "gone(client cancelled the request)"), "reset %s: the proxy is told at once", names[i]);
        is_int(h->gone, 1, "once");
        is_u64(front_exchanges(k->w.front), 0, "nothing is left");
    }
    r = kit_get(k, "/sync");
    ok(kit_closed(k, r) && r->status == 200, "the connection goes on");
}

static void test_aborts(struct kit *k)
{
    struct req *r[4];
    struct exchange *x;

    kit_connect(k, false, false);
    for (unsigned i = 0; i < 4; i++)
        r[i] = kit_get(k, "/x");
    kit_held(k, 4);
    x = k->held[0].x;
    exchange_abort(x, "test");
    x = k->held[1].x;
    exchange_respond(x, kit_head(&k->held[1], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_body(x, SLICE_LIT("abc"));
    exchange_abort(x, "test");
    x = k->held[2].x;
    exchange_respond(x, kit_head(&k->held[2], 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 10});
    exchange_body(x, SLICE_LIT("abc"));
    exchange_finish(x, NULL);
    x = k->held[3].x;
    exchange_respond(x, kit_head(&k->held[3], 200, "X-Bad", "a\nb"), (struct http_body){HTTP_BODY_LENGTH, 3});
    for (unsigned i = 0; i < 4; i++) {
        ok(kit_closed(k, r[i]), "broken answer %u", i);
        is_int((int)r[i]->code, NGHTTP2_INTERNAL_ERROR, "the client sees it broken");
        ok(!r[i]->ended, "not complete");
    }
    is_int(k->held[3].gone, 1, "a head that must not be sent dooms its exchange");
    is_int(k->held[0].gone + k->held[1].gone + k->held[2].gone, 0, "the others ended by themselves");
    is_int(k->end, CLIENT_OPEN, "the connection goes on");
}

static void test_early_answer(struct kit *k)
{
    struct req *r;

    k->pause_all = true;
    kit_connect(k, false, false);
    r = kit_ask(k, "POST", "/x", "h", NULL, LARGE);
    kit_held(k, 1);
    kit_reply(&k->held[0], 413, "too large");
    ok(kit_closed(k, r), "answered in the middle of the body");
    is_int(r->status, 413, "status");
    is_str(kit_text(&r->body), "too large", "the whole answer");
    ok(r->ended, "complete");
    is_int((int)r->code, NGHTTP2_NO_ERROR, "and the rest is not wanted");
    r = kit_get(k, "/sync");
    ok(kit_closed(k, r) && r->status == 200, "the connection goes on");
}

static void test_client_leaves(struct kit *k)
{
    kit_connect(k, false, false);
    for (int i = 0; i < 10; i++)
        kit_ask(k, "POST", "/x", "h", NULL, i % 2 == 0 ? 0 : LARGE);
    kit_held(k, 10);
    kit_disconnect(k);
    ok(world_empty(&k->w), "a client leaves");
    for (int i = 0; i < 10; i++)
        is_int(k->held[i].gone, 1, "request %d is told", i);
    is_double(closed(k, "client_gone") + closed(k, "stream_failed"), 1, "counted");
}

static void test_client_goaway(struct kit *k)
{
    struct req *r;

    kit_connect(k, false, false);
    r = kit_get(k, "/x");
    kit_held(k, 1);
    nghttp2_submit_goaway(k->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
    kit_flush(k);
    kit_settle(k);
    is_int(k->held[0].gone, 0, "a client that says goodbye gets its answer");
    kit_reply(&k->held[0], 200, "bye");
    ok(kit_closed(k, r) && r->status == 200, "here it is");
    ok(kit_ended(k), "then the connection ends");
    ok(world_empty(&k->w), "over");
    is_double(closed(k, "client"), 1, "counted");
}

/* ---- time ---- */

/* And answered: what is sent raw is not cut in two by an ACK. */
static bool settings_seen(void *arg)
{
    return ((struct kit *)arg)->settings > 0;
}

static void test_timeouts(struct kit *k)
{
    static const unsigned char head_begun[] = {0, 0, 1, 1, 0, 0, 0, 0, 3, 0x82};
    struct req *r;

    k->w.opts.header_timeout_ms = 60;
    k->w.opts.idle_timeout_ms = 60;
    k->w.opts.body_timeout_ms = 60;
    front_update(k->w.front, &k->w.opts);
    kit_connect(k, false, false);
    ok(kit_ended(k), "nothing asked");
    is_int(k->goaways, 1, "GOAWAY");
    is_double(closed(k, "no_request"), 1, "counted");
    kit_disconnect(k);
    kit_connect(k, false, false);
    r = kit_get(k, "/sync");
    ok(kit_closed(k, r) && kit_ended(k), "nothing more asked");
    is_double(closed(k, "idle_timeout"), 1, "counted");
    kit_disconnect(k);
    kit_connect(k, false, false);
    r = kit_get(k, "/long");
    kit_held(k, 1);
    kit_until(k, settings_seen, k);
    kit_raw(k, head_begun, sizeof(head_begun));
    ok(kit_ended(k), "a head that never ends");
    ok(k->goaways > 0, "GOAWAY");
    is_double(closed(k, "header_timeout"), 1, "counted");
    kit_disconnect(k);
    kit_connect(k, false, true);
    r = kit_ask(k, "POST", "/stall", "h", NULL, UINT64_MAX - 1);
    kit_held(k, 2);
    stream_pause(k->s, STREAM_PAUSE_LIMIT); /* no WINDOW_UPDATE is seen: nothing is sent */
    ok(kit_told(k, &k->held[1], "gone(request body stalled)"), "a body that stalls");
    stream_resume(k->s, STREAM_PAUSE_LIMIT);
    ok(kit_status(k, r), "is answered");
    is_int(r->status, 408, "with 408");
}

static void test_header_timeout(struct kit *k)
{
    static const unsigned char head_begun[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82};

    k->w.opts.header_timeout_ms = 200;
    front_update(k->w.front, &k->w.opts);
    kit_connect(k, false, false);
    kit_until(k, settings_seen, k);
    kit_raw(k, head_begun, sizeof(head_begun));
    ok(kit_ended(k), "a first head that never ends");
    is_double(closed(k, "header_timeout"), 1, "counted");
}

/* ---- floods ---- */

static void flood(struct kit *k, const void *frame, size_t n, unsigned times)
{
    for (unsigned i = 0; i < times && k->end == CLIENT_OPEN; i++) {
        kit_raw(k, frame, n);
        if (i % 200 == 0)
            loop_run_once(k->w.loop, 0);
    }
}

static void test_cheap_floods(struct kit *k)
{
    static const struct {
        const char *name;
        unsigned char frame[20];
        size_t n;
    } rows[] = {
        {"PING", {0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, 17},
        {"SETTINGS", {0, 0, 0, 4, 0, 0, 0, 0, 0}, 9},
        {"PRIORITY", {0, 0, 5, 2, 0, 0, 0, 0, 5, 0, 0, 0, 0, 1}, 14},
    };
    for (unsigned i = 0; i < ROWS(rows); i++) {
        kit_connect(k, true, false);
        kit_raw(k, PREFACE, sizeof(PREFACE) - 1);
        flood(k, rows[i].frame, rows[i].n, 20000);
        ok(kit_ended(k), "a flood of %s ends the connection", rows[i].name);
        kit_disconnect(k);
        ok(world_empty(&k->w), "over");
        is_double(closed(k, "flood"), i + 1, "counted");
    }
}

static void test_empty_data(struct kit *k)
{
    static const unsigned char empty[] = {0, 0, 0, 0, 0, 0, 0, 0, 1};

    k->pause_all = true;
    kit_connect(k, false, false);
    kit_ask(k, "POST", "/x", "h", NULL, LARGE);
    kit_held(k, 1);
    kit_settle(k);
    flood(k, empty, sizeof(empty), 20000);
    ok(kit_ended(k), "a flood of empty DATA ends the connection");
    is_int((int)k->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM, "which is told why");
    is_int(k->held[0].gone, 1, "and so is the proxy");
    ok(world_empty(&k->w), "over");
    is_double(closed(k, "flood"), 1, "counted");
}

static void test_continuation(struct kit *k)
{
    static const unsigned char begin[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82};
    static const unsigned char more[] = {0, 0, 0, 9, 0, 0, 0, 0, 1};

    kit_connect(k, false, false);
    kit_raw(k, begin, sizeof(begin));
    flood(k, more, sizeof(more), 20000);
    ok(kit_ended(k), "a flood of CONTINUATION ends the connection");
    ok(world_empty(&k->w), "over");
    is_double(closed(k, "flood") + closed(k, "bad_request"), 1, "counted");
}

static void test_rapid_reset(struct kit *k)
{
    kit_connect(k, false, false);
    for (int i = 0; i < 300 && k->end == CLIENT_OPEN; i++) {
        struct req *r = kit_get(k, "/x");

        nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
        kit_flush(k);
        if (i % 50 == 0)
            loop_run_once(k->w.loop, 0);
        if (k->n_req > KIT_REQUESTS - 10)
            break;
    }
    ok(kit_ended(k), "rapid resets end the connection");
    is_int((int)k->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM, "which is told why");
    ok(k->n_held <= LIMIT_H2_RESETS + 200, "the proxy saw %u of them", k->n_held);
    for (unsigned i = 0; i < k->n_held; i++)
        if (k->held[i].gone != 1)
            ok(false, "request %u was told %u times", i, k->held[i].gone);
    ok(world_empty(&k->w), "over");
    is_double(closed(k, "flood"), 1, "counted");
}

static void test_provoked_resets(struct kit *k)
{
    kit_connect(k, false, false);
    for (int i = 0; i < 300 && k->end == CLIENT_OPEN; i++) {
        kit_ask(k, "GET", "/x", "h", "connection: close\n", 0);
        loop_run_once(k->w.loop, 0);
    }
    ok(kit_ended(k), "so do requests that are malformed on purpose");
    is_int((int)k->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM, "told why");
    ok(world_empty(&k->w), "over");
    is_double(closed(k, "flood"), 1, "counted");
}

static void test_stream_limit(struct kit *k)
{
    struct req *r[150];
    unsigned refused = 0;

    kit_connect(k, false, false);
    kit_settle(k);
    is_u64(nghttp2_session_get_remote_settings(k->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS), LIMIT_H2_STREAMS,
           "the number of streams is announced");
    is_u64(nghttp2_session_get_remote_settings(k->session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE),
           LIMIT_H2_STREAM_WINDOW, "so is their window");
    is_u64(nghttp2_session_get_remote_settings(k->session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE), 16 << 10,
           "and the size of heads");
    for (int i = 0; i < 150; i++)
        r[i] = kit_get(k, "/x");
    ok(kit_held(k, 100), "more wait at the client");
    for (int i = 0; i < 150; i++) {
        kit_held(k, (unsigned)(i < 50 ? 100 + i : 150));
        kit_reply(&k->held[i], 200, "");
        kit_closed(k, r[i]);
    }
    for (int i = 0; i < 150; i++)
        refused += r[i]->status != 200;
    is_int(refused, 0, "and are served in their turn");
}

/* ---- the front's side ---- */

static void on_drained(void *arg)
{
    ++*(int *)arg;
}

static bool is_drained(void *arg)
{
    return *(int *)arg > 0;
}

static bool goodbye_told(void *arg)
{
    return ((struct kit *)arg)->goaways > 0;
}

static void test_drain(struct kit *k)
{
    struct req *busy, *late;
    int drained = 0;

    kit_connect(k, false, false);
    busy = kit_get(k, "/x");
    kit_held(k, 1);
    late = kit_get(k, "/y"); /* under way when we decide to leave */
    front_drain(k->w.front, on_drained, &drained);
    ok(kit_until(k, goodbye_told, k), "the client is told");
    is_int((int)k->goaway_code, NGHTTP2_NO_ERROR, "in good order");
    is_int(k->goaway_last, INT32_MAX, "with nothing taken back");
    ok(kit_held(k, 2), "a request that was under way is still served");
    kit_settle(k);
    is_int(k->goaways, 2, "then the last word");
    is_int(k->goaway_last, late->id, "which names the last request");
    is_int(drained, 0, "not drained while requests are served");
    kit_reply(&k->held[1], 200, "late");
    ok(kit_closed(k, late) && late->status == 200, "one is answered");
    kit_reply(&k->held[0], 200, "busy");
    ok(kit_closed(k, busy) && busy->status == 200, "then the other");
    ok(kit_until(k, is_drained, &drained), "and the front is drained");
    ok(kit_ended(k), "the connection is over");
    is_double(closed(k, "drain"), 1, "counted");
}

static void test_drain_idle(struct kit *k)
{
    int drained = 0;

    kit_connect(k, false, false);
    kit_closed(k, kit_get(k, "/sync"));
    front_drain(k->w.front, on_drained, &drained);
    ok(kit_until(k, is_drained, &drained), "an idle connection ends");
    ok(kit_ended(k), "for the client too");
    is_double(closed(k, "drain"), 1, "counted");
}

static void test_drain_silent(struct kit *k)
{
    int drained = 0;

    kit_connect(k, true, false);
    kit_raw(k, PREFACE, sizeof(PREFACE) - 1);
    kit_settle(k);
    front_drain(k->w.front, on_drained, &drained);
    ok(kit_until(k, is_drained, &drained), "a client that does not answer our PING does not hold us up");
}

static void test_free_busy(struct kit *k)
{
    kit_connect(k, false, false);
    for (int i = 0; i < 3; i++)
        kit_get(k, "/x");
    kit_held(k, 3);
    front_free(k->w.front);
    k->w.front = NULL;
    is_int(k->held[0].gone + k->held[1].gone + k->held[2].gone, 3, "freed in the middle of it all");
    ok(kit_ended(k), "the connection is closed");
}

static void test_request_limit(struct kit *k)
{
    struct req *r[3];

    k->w.opts.max_requests_per_connection = 2;
    front_update(k->w.front, &k->w.opts);
    kit_connect(k, false, false);
    r[0] = kit_get(k, "/sync");
    ok(kit_closed(k, r[0]) && k->goaways == 0, "first of two requests");
    r[1] = kit_get(k, "/sync");
    ok(kit_closed(k, r[1]) && kit_ended(k), "the second is the last");
    ok(k->goaways >= 1, "GOAWAY says so");
    ok(world_empty(&k->w), "over");
    is_double(closed(k, "request_limit"), 1, "counted");
}

static void test_ping(struct kit *k)
{
    kit_connect(k, false, false);
    nghttp2_submit_ping(k->session, NGHTTP2_FLAG_NONE, (const uint8_t *)"12345678");
    kit_flush(k);
    kit_settle(k);
    is_int(k->pings, 1, "PING is answered");
}

/* ---- memory ---- */

static bool scenario_over(void *arg)
{
    struct kit *k = arg;

    return k->end != CLIENT_OPEN || (k->req[0].closed && k->req[1].closed);
}

static bool scenario(struct kit *k, uint64_t nth, uint64_t *calls)
{
    uint64_t before;
    bool good;

    k->n_held = 0;
    kit_connect(k, false, false);
    kit_settle(k);
    before = mem_calls();
    mem_fail_nth(nth);
    kit_get(k, "/sync");
    kit_ask(k, "POST", "/whole", "h", "x-long-name: value\ncookie: a\ncookie: b\n", 300000);
    if (!kit_until(k, scenario_over, k))
        ok(false, "allocation %llu: neither answered nor closed", (unsigned long long)nth);
    mem_fail_nth(0);
    *calls = mem_calls() - before;
    good = k->end == CLIENT_OPEN && k->req[0].status == 200 && k->req[1].status == 200;
    kit_disconnect(k);
    world_empty(&k->w);
    for (unsigned i = 0; i < k->n_held; i++)
        buf_free(&k->held[i].told);
    return good;
}

static void test_no_memory(struct kit *k)
{
    uint64_t all = 0, calls;
    unsigned good = 0, bad = 0;

    ok(scenario(k, 0, &all), "two requests: answered, with %llu allocations", (unsigned long long)all);
    for (uint64_t nth = 1; nth <= all + 5; nth++) {
        if (scenario(k, nth, &calls))
            good++;
        else
            bad++;
    }
    ok(bad > 0, "each of them failed once: %u times answered, %u times not", good, bad);
    ok(scenario(k, 0, &calls), "all is well afterwards");
    k->n_held = 0;
}

static const struct {
    const char *name;
    void (*run)(struct kit *k);
} tests[] = {
    {"request", test_request},
    {"multiplex", test_multiplex},
    {"pieces", test_pieces},
    {"forms of answers", test_forms},
    {"interim responses and trailers", test_interim_and_trailers},
    {"refusals", test_refusals},
    {"long heads", test_long_heads},
    {"bad preface", test_bad_preface},
    {"bad frames", test_bad_frames},
    {"backwards", test_backwards},
    {"upload", test_upload},
    {"download", test_download},
    {"slow stream", test_slow_stream},
    {"stuck client", test_stuck_client},
    {"client resets", test_client_resets},
    {"aborts", test_aborts},
    {"early answer", test_early_answer},
    {"client leaves", test_client_leaves},
    {"client says goodbye", test_client_goaway},
    {"timeouts", test_timeouts},
    {"header timeout", test_header_timeout},
    {"cheap floods", test_cheap_floods},
    {"empty DATA", test_empty_data},
    {"continuation", test_continuation},
    {"rapid reset", test_rapid_reset},
    {"provoked resets", test_provoked_resets},
    {"stream limit", test_stream_limit},
    {"drain", test_drain},
    {"drain idle", test_drain_idle},
    {"drain silent", test_drain_silent},
    {"free while busy", test_free_busy},
    {"request limit", test_request_limit},
    {"ping", test_ping},
    {"no memory", test_no_memory},
};

static struct kit kit;

int main(int argc, char **argv)
{
    for (size_t i = 0; i < ROWS(tests); i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        diag("%s", tests[i].name);
        kit_init(&kit);
        if (strcmp(tests[i].name, "long heads") == 0)
            kit.w.opts.max_head_bytes = 200 << 10;
        kit_start(&kit);
        tests[i].run(&kit);
        kit_end(&kit);
    }
    return tap_end();
}
