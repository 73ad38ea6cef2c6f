/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connections: requests and answers, refusals, flow control. */
#include "unit/front/h2_kit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "front/h2_stream.h"
#include "lib/tap.h"

/* ---- requests and answers ---- */

static void test_request(struct front_h2_kit *k)
{
    struct req *r;
    const struct http_head *h;

    h2_kit_connect(k, false, false);
    r = h2_kit_ask(k, "GET", "/api/v1?x=%20y", "Server:6443",
                   "accept: a/b\ncookie: a=1\nx-custom: v\ncookie: b=2\nte: trailers\n", 0);
    ok(h2_kit_held(k, 1), "a request arrives");
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
    h2_kit_reply(&k->held[0], 200, "hello");
    ok(h2_kit_closed(k, r), "answered");
    is_int((int)r->code, NGHTTP2_NO_ERROR, "in good order");
    is_int(r->status, 200, "status");
    is_str(h2_kit_text(&r->body), "hello", "body");
    ok(h2_kit_has(&r->fields, "content-type: text/plain\n"), "field names are in lower case");
    ok(h2_kit_has(&r->fields, "content-length: 5\n"), "length");
    ok(h2_kit_has(&r->fields, "date: "), "date");
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "answered inside the handler");
    is_str(h2_kit_text(&r->body), "sync", "body");
}

static void test_multiplex(struct front_h2_kit *k)
{
    struct req *r[50];
    unsigned good = 0;
    char path[20];

    h2_kit_connect(k, false, false);
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        r[i] = h2_kit_get(k, "/x");
    }
    ok(h2_kit_held(k, 50), "fifty at once");
    is_u64(front_exchanges(k->front.front), 50, "all in flight");
    for (int i = 49; i >= 0; i--) {
        snprintf(path, sizeof(path), "%d", i);
        h2_kit_reply(&k->held[i], 200, path);
        if (i % 7 == 0)
            h2_kit_settle(k);
    }
    for (int i = 0; i < 50; i++) {
        snprintf(path, sizeof(path), "%d", i);
        good += h2_kit_closed(k, r[i]) && strcmp(h2_kit_text(&r[i]->body), path) == 0;
    }
    is_int(good, 50, "each gets its own answer, in any order");
}

static void test_pieces(struct front_h2_kit *k)
{
    struct req *r;

    h2_kit_connect(k, false, false);
    k->trickle = true;
    r = h2_kit_ask(k, "POST", "/whole-trailer", "h", "content-type: x\n", 20);
    ok(h2_kit_held(k, 1), "a request in pieces of one byte");
    h2_kit_flush(k);
    ok(h2_kit_told(k, &k->held[0], "end x-sum=abc"), "with its body and trailers");
    is_u64(k->held[0].body, 20, "all of it");
    is_int((int)k->held[0].sum, (int)h2_kit_sum(20), "as sent");
    h2_kit_reply(&k->held[0], 201, "ok");
    ok(h2_kit_closed(k, r), "answered");
    is_int(r->status, 201, "status");
}

static void test_forms(struct front_h2_kit *k)
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

    h2_kit_connect(k, false, false);
    for (unsigned i = 0; i < ROWS(rows); i++) {
        struct req *r = h2_kit_ask(k, rows[i].method, "/", "h", NULL, 0);
        struct held *h = &k->held[i];
        struct exchange *x;

        h2_kit_held(k, i + 1);
        x = h->x;
        ok(exchange_respond(x, h2_kit_head(h, rows[i].status, "Connection", "close"), rows[i].body), "%s",
           rows[i].name);
        if (rows[i].bytes)
            exchange_body(x, SLICE_LIT("abc"));
        h->x = NULL;
        exchange_finish(x, NULL);
        ok(h2_kit_closed(k, r) && r->code == NGHTTP2_NO_ERROR, "%s: ends well", rows[i].name);
        is_int(r->status, rows[i].status, "%s: status", rows[i].name);
        is_u64(r->body_bytes, rows[i].bytes ? 3 : 0, "%s: bytes", rows[i].name);
        ok(h2_kit_has(&r->fields, rows[i].field), "%s: %s", rows[i].name, h2_kit_text(&r->fields));
        ok(!h2_kit_has(&r->fields, "connection:"), "%s: no fields of connections", rows[i].name);
        if (rows[i].no_field != NULL)
            ok(!h2_kit_has(&r->fields, rows[i].no_field), "%s: no %s", rows[i].name, rows[i].no_field);
    }
}

static void test_interim_and_trailers(struct front_h2_kit *k)
{
    struct req *r;
    struct exchange *x;
    struct http_head *t;

    h2_kit_connect(k, false, false);
    r = h2_kit_ask(k, "POST", "/trailer", "h", "expect: 100-continue\ncontent-length: 5\n", 5);
    h2_kit_held(k, 1);
    x = k->held[0].x;
    ok(exchange_expects_continue(x), "100 is waited for");
    is_int(exchange_request_body(x).kind, HTTP_BODY_LENGTH, "a body of known length");
    is_u64(exchange_request_body(x).length, 5, "five bytes");
    ok(exchange_interim(x, h2_kit_head(&k->held[0], 100, NULL, NULL)), "and given");
    ok(exchange_interim(x, h2_kit_head(&k->held[0], 103, "Link", "a")), "103 too");
    ok(h2_kit_told(k, &k->held[0], "end x-sum=abc"), "the body and its trailers arrive");
    exchange_respond(x, h2_kit_head(&k->held[0], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_body(x, SLICE_LIT("data"));
    t = h2_kit_head(&k->held[0], 0, "X-Trailer", "last");
    if (!http_head_add(t, exchange_arena(x), SLICE_LIT("Content-Length"), SLICE_LIT("9")))
        tap_bail("memory");
    k->held[0].x = NULL;
    exchange_finish(x, t);
    ok(h2_kit_closed(k, r) && r->code == NGHTTP2_NO_ERROR, "ends well");
    is_int(r->interim, 103, "interim responses come through");
    ok(h2_kit_has(&r->fields, "link: a\n"), "with fields");
    is_str(h2_kit_text(&r->body), "data", "body");
    is_str(h2_kit_text(&r->trailers), "x-trailer: last\n", "trailers, without what must not be there");
}

/* ---- refusals ---- */

static void test_refusals(struct front_h2_kit *k)
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
        {"outer space before a value", "GET", "/", "h", "x-a:  b\n", 0},
        {"outer tab before a value", "GET", "/", "h", "x-a: \tb\n", 0},
        {"outer space behind a value", "GET", "/", "h", "x-a: b \n", 0},
        {"outer tab behind a value", "GET", "/", "h", "x-remote-user: b\t\n", 0},
        {"control byte in a value", "GET", "/", "h", "x-a: a\x01z\n", 0},
        {"CR in a value", "GET", "/", "h", "x-a: a\rb\n", 0},
        {"DEL in a value", "GET", "/", "h", "x-a: a\x7f\n", 0},
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
    h2_kit_connect(k, false, false);
    for (size_t i = 0; i < ROWS(rows); i++) {
        r = h2_kit_ask(k, rows[i].method, rows[i].path, rows[i].authority, rows[i].fields, 0);
        ok(h2_kit_closed(k, r), "%s", rows[i].name);
        if (rows[i].status != 0)
            is_int(r->status, rows[i].status, "%s: status", rows[i].name);
        else
            is_int((int)r->code, NGHTTP2_PROTOCOL_ERROR, "%s: reset", rows[i].name);
    }
    is_int(k->n_held, 0, "none of them reached the proxy");
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the connection goes on");
    is_double(front_kit_metric(&k->front, "mvproxy_front_refusals_total", "400"), 4, "refusals are counted");
    k->quiet = true;
    r = h2_kit_get(k, "/");
    ok(h2_kit_closed(k, r), "a request that nobody handles");
    is_int(r->status, 500, "is answered");
}

/* A cookie in as many crumbs as there may be is joined in one go: what it costs is what it is long. */
static void test_many_crumbs(struct front_h2_kit *k)
{
    enum { CRUMBS = LIMIT_HEAD_FIELDS - 6, VALUE = 40 };
    static char fields[CRUMBS * (VALUE + 16)];
    size_t at = 0;
    struct slice cookie;

    for (int i = 0; i < CRUMBS; i++)
        at += (size_t)snprintf(fields + at, sizeof(fields) - at, "cookie: %04d=%0*d\n", i, VALUE - 5, i);
    k->front.opts.max_head_bytes = 1 << 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    h2_kit_ask(k, "GET", "/x", "h", fields, 0);
    ok(h2_kit_held(k, 1), "a cookie in many crumbs");
    cookie = http_head_find_name(exchange_request(k->held[0].x), SLICE_LIT("cookie"))->value;
    is_u64(cookie.n, CRUMBS * (VALUE + 2) - 2, "is whole");
    is_u64(exchange_request(k->held[0].x)->n_fields, 2, "and one field, besides Host");
    ok(arena_used(exchange_arena(k->held[0].x)) < 4 * sizeof(fields), "of %u bytes it keeps %u", (unsigned)cookie.n,
       (unsigned)arena_used(exchange_arena(k->held[0].x)));
}

static void test_long_heads(struct front_h2_kit *k)
{
    enum { LONG = 60000 }; /* the client's nghttp2 sends no larger heads than 64 KiB */
    static char path[66000], value[66000];
    struct req *r;

    k->front.opts.max_head_bytes = 200 << 10;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    memset(path, 'a', sizeof(path) - 1);
    path[0] = '/';
    path[LONG] = '\0';
    r = h2_kit_ask(k, "GET", path, "h", NULL, 0);
    ok(h2_kit_held(k, 1), "a long target is taken");
    is_u64(exchange_request(k->held[0].x)->target.n, LONG, "whole");
    h2_kit_reply(&k->held[0], 200, "");
    ok(h2_kit_closed(k, r) && r->status == 200, "answered");
    snprintf(value, sizeof(value), "x-a: %.*s\n", LONG, path);
    r = h2_kit_ask(k, "GET", "/", "h", value, 0);
    ok(h2_kit_held(k, 2), "a head over several frames");
    h2_kit_reply(&k->held[1], 200, "");
    ok(h2_kit_closed(k, r) && r->status == 200, "answered");
}

static void test_bad_preface(struct front_h2_kit *k)
{
    h2_kit_connect(k, true, false);
    h2_kit_raw(k, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 27);
    ok(h2_kit_ended(k), "HTTP/1.1 where HTTP/2 was agreed on");
    ok(front_kit_empty(&k->front), "ends");
    is_double(front_kit_closed(&k->front, "bad_request"), 1, "counted");
}

static void test_bad_frames(struct front_h2_kit *k)
{
    /* DATA on stream 0; then more. */
    static const unsigned char frame[] = {0, 0, 1, 0, 0, 0, 0, 0, 0, 'x'};
    struct req *r;

    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    h2_kit_raw(k, frame, sizeof(frame));
    ok(h2_kit_ended(k), "a frame that must not be ends the connection");
    is_int((int)k->goaway_code, NGHTTP2_PROTOCOL_ERROR, "GOAWAY says why");
    ok(!r->ended, "the request is not answered");
    is_int(k->held[0].gone, 1, "the proxy is told");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "bad_request"), 1, "counted");
}

static void test_backwards(struct front_h2_kit *k)
{
    /* :method GET, :scheme https, :path /, authority "h", on streams 5, then 3. */
    static const unsigned char five[] = {0, 0, 6, 1, 5, 0, 0, 0, 5, 0x82, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char three[] = {0, 0, 6, 1, 5, 0, 0, 0, 3, 0x82, 0x87, 0x84, 0x41, 1, 'h'};

    h2_kit_connect(k, true, false);
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    h2_kit_raw(k, five, sizeof(five));
    ok(h2_kit_held(k, 1), "a client may skip streams");
    is_double(front_kit_metric(&k->front, "mvproxy_front_received_bytes_total", NULL),
              sizeof(KIT_PREFACE) - 1 + sizeof(five), "what it sends is counted");
    h2_kit_raw(k, three, sizeof(three));
    ok(h2_kit_ended(k), "but not open them later");
    is_int(k->n_held, 1, "nobody is shown the request");
    is_int(k->held[0].gone, 1, "the other one ends with the connection");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "bad_request"), 1, "counted");
}

static void test_skipped_between(struct front_h2_kit *k)
{
    /* As above, POST on stream 1, GET on 7; then the trailers of the first. */
    static const unsigned char one[] = {0, 0, 6, 1, 4, 0, 0, 0, 1, 0x83, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char seven[] = {0, 0, 6, 1, 5, 0, 0, 0, 7, 0x82, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char nine[] = {0, 0, 6, 1, 5, 0, 0, 0, 9, 0x82, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char three[] = {0, 0, 6, 1, 5, 0, 0, 0, 3, 0x82, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char trailers[] = {0, 0,   11,  1,   5,   0,   0, 0,   1,   0,
                                             5, 'x', '-', 's', 'u', 'm', 3, 'a', 'b', 'c'};

    h2_kit_connect(k, true, false);
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    h2_kit_raw(k, one, sizeof(one));
    h2_kit_raw(k, seven, sizeof(seven));
    ok(h2_kit_held(k, 2), "two requests, and streams between them that nobody opened");
    h2_kit_raw(k, trailers, sizeof(trailers));
    ok(h2_kit_told(k, &k->held[0], "end x-sum=abc"), "trailers of the first are none of those");
    is_int(k->held[0].gone + k->held[1].gone, 0, "and end nothing else");
    h2_kit_raw(k, nine, sizeof(nine));
    ok(h2_kit_held(k, 3), "the next one skips nothing");
    h2_kit_raw(k, three, sizeof(three));
    ok(h2_kit_ended(k), "the first that was skipped may not be opened now");
    is_int((int)k->n_held, 3, "nobody is shown the request");
}

/* ---- flow control ---- */

static bool upload_done(void *arg)
{
    struct held *h = arg;

    return h->ended || h->gone > 0;
}

static void test_upload(struct front_h2_kit *k)
{
    struct req *r, *fast;
    uint64_t stuck;

    k->pause_all = true;
    h2_kit_connect(k, false, false);
    r = h2_kit_ask(k, "POST", "/up", "h", "content-length: 10485760\n", KIT_LARGE);
    h2_kit_held(k, 1);
    h2_kit_settle(k);
    is_u64(k->held[0].body, 0, "a paused body is not delivered");
    stuck = r->sent;
    ok(stuck <= LIMIT_H2_STREAM_WINDOW, "the client has sent no more than the stream's window: %llu",
       (unsigned long long)stuck);
    k->pause_all = false;
    fast = h2_kit_ask(k, "POST", "/whole", "h", NULL, 3 << 20);
    ok(h2_kit_closed(k, fast) && fast->status == 200,
       "another stream uploads more than the connection's window beside it");
    is_int((int)k->held[1].sum, (int)h2_kit_sum(3 << 20), "as sent");
    is_u64(r->sent, stuck, "the paused one stays where it is");
    for (int i = 0; i < 40; i++) {
        exchange_resume_body(k->held[0].x);
        loop_run_once(k->front.loop, 1);
        loop_run_once(k->front.loop, 1);
        if (k->held[0].x != NULL)
            exchange_pause_body(k->held[0].x);
    }
    ok(k->held[0].body > 0, "paused and resumed, it moves");
    exchange_resume_body(k->held[0].x);
    ok(h2_kit_until(k, upload_done, &k->held[0]) && k->held[0].ended, "and ends");
    is_u64(k->held[0].body, KIT_LARGE, "all of it");
    is_int((int)k->held[0].sum, (int)h2_kit_sum(KIT_LARGE), "as sent");
    is_u64(exchange_request_bytes(k->held[0].x), KIT_LARGE, "counted");
    h2_kit_reply(&k->held[0], 200, "");
    ok(h2_kit_closed(k, r), "answered");
}

struct download {
    struct front_h2_kit *k;
    struct held *h;
    struct req *r;
    uint64_t given, total;
    uint64_t most; /* that was ever given and not received */
};

static bool download_done(void *arg)
{
    struct download *d = arg;

    d->given = h2_kit_pump(d->h, d->given, d->total);
    if (d->given - d->r->body_bytes > d->most)
        d->most = d->given - d->r->body_bytes;
    if (d->given == d->total && d->h->x != NULL) {
        struct exchange *x = d->h->x;

        d->h->x = NULL;
        exchange_finish(x, NULL);
    }
    return d->r->closed || d->k->end != CLIENT_OPEN;
}

static void start_download(struct download *d, struct front_h2_kit *k, const char *path, uint64_t total)
{
    struct req *r = h2_kit_get(k, path);

    h2_kit_held(k, k->n_held + 1);
    *d = (struct download){.k = k, .h = &k->held[k->n_held - 1], .r = r, .total = total};
    exchange_respond(d->h->x, h2_kit_head(d->h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
}

static void test_download(struct front_h2_kit *k)
{
    struct download d;

    h2_kit_connect(k, false, false);
    start_download(&d, k, "/down", KIT_LARGE);
    ok(h2_kit_until(k, download_done, &d), "a large answer");
    is_u64(d.r->body_bytes, KIT_LARGE, "all of it");
    is_int((int)d.r->sum, (int)h2_kit_sum(KIT_LARGE), "as given");
    ok(d.h->writable > 10, "with pauses: %u", d.h->writable);
    ok(d.most < 2 << 20, "never much under way: %llu", (unsigned long long)d.most);
}

/* A request's end is told once, however often its answer has to wait. */
static void test_one_end(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    struct download d = {.k = k, .h = h, .total = KIT_LARGE};
    const char *end;

    h2_kit_connect(k, false, false);
    d.r = h2_kit_ask(k, "POST", "/up", "h", NULL, 5);
    ok(h2_kit_held(k, 1) && h2_kit_told(k, h, "end"), "a request with a body");
    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    ok(h2_kit_until(k, download_done, &d) && h->writable > 0, "and an answer with pauses");
    end = strstr(h2_kit_text(&h->told), "end");
    ok(end != NULL && strstr(end + 3, "end") == NULL, "ends once");
}

/* Windows that only the test opens: nobody reads the slow one, the others pass it. */
static void test_slow_stream(struct front_h2_kit *k)
{
    struct download slow, fast[5];
    unsigned told;
    int good = 0;

    h2_kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 64 << 20);
    h2_kit_flush(k);
    start_download(&slow, k, "/slow", KIT_LARGE);
    for (int i = 0; i < 20; i++) {
        (void)download_done(&slow);
        h2_kit_settle(k);
    }
    ok(exchange_congested(slow.h->x), "nobody reads: congested");
    ok(slow.given <= 65535 + LIMIT_H2_OUTPUT_HIGH + (16 << 10), "after the window and one buffer: %llu",
       (unsigned long long)slow.given);
    is_u64(slow.r->body_bytes, 65535, "the client has its window full");
    told = slow.h->writable;
    for (int i = 0; i < 5; i++) {
        start_download(&fast[i], k, "/fast", 60000);
        good += h2_kit_until(k, download_done, &fast[i]) && fast[i].r->body_bytes == 60000;
    }
    is_int(good, 5, "streams beside it are served");
    is_u64(slow.r->body_bytes, 65535, "it still waits");
    is_int(slow.h->writable, told, "nobody was told otherwise");
    ok(told > 0, "but once, before");
    exchange_pause_body(slow.h->x);
    exchange_resume_body(slow.h->x);
    h2_kit_settle(k);
    is_int(slow.h->writable, told, "a request that goes on says nothing of its answer");
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, slow.r->id, 32 << 20);
    h2_kit_flush(k);
    ok(h2_kit_until(k, download_done, &slow), "when its window opens it goes on");
    is_u64(slow.r->body_bytes, KIT_LARGE, "to the end");
    is_int((int)slow.r->sum, (int)h2_kit_sum(KIT_LARGE), "as given");
}

/* A socket that is not read at all. */
static void test_stuck_client(struct front_h2_kit *k)
{
    struct download d[10];
    uint64_t given = 0;
    int good = 0;

    h2_kit_connect(k, false, false);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 1 << 30);
    for (int i = 0; i < 10; i++) {
        start_download(&d[i], k, "/down", KIT_LARGE);
        nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, d[i].r->id, 1 << 30);
    }
    h2_kit_flush(k);
    h2_kit_settle(k);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 10; i++)
            (void)download_done(&d[i]);
        h2_kit_settle(k);
    }
    for (int i = 0; i < 10; i++)
        given += exchange_congested(d[i].h->x) ? 1 : 0;
    is_u64(given, 10, "all ten wait for a client that does not read");
    stream_resume(k->s, STREAM_PAUSE_LIMIT);
    for (int i = 0; i < 10; i++)
        good += h2_kit_until(k, download_done, &d[i]) && d[i].r->body_bytes == KIT_LARGE;
    is_int(good, 10, "and end when it does");
}

/* A head with so many fields of 30 KB; nghttp2 by itself sends at most 64 KiB, and drops the rest without a word. */
static struct req *answer_with_long_head(struct front_h2_kit *k, unsigned fields)
{
    static char value[30001];
    struct held *h = &k->held[k->n_held];
    struct req *r = h2_kit_get(k, "/x");
    struct exchange *x;
    struct http_head *head;

    memset(value, 'v', sizeof(value) - 1);
    h2_kit_held(k, k->n_held + 1);
    x = h->x;
    head = h2_kit_head(h, 200, NULL, NULL);
    for (unsigned i = 0; i < fields; i++)
        if (!http_head_add(head, exchange_arena(x), SLICE_LIT("X-Long"), slice_str(value)))
            tap_bail("out of memory");
    exchange_reply(x, head, SLICE_LIT("long"));
    return r;
}

static void test_long_answer_heads(struct front_h2_kit *k)
{
    struct req *r;

    h2_kit_connect(k, false, false);
    r = answer_with_long_head(k, 3);
    ok(h2_kit_closed(k, r), "an answer with 90 KB of head");
    is_int(r->status, 200, "arrives");
    is_str(h2_kit_text(&r->body), "long", "with its body");
    r = answer_with_long_head(k, 100);
    ok(h2_kit_closed(k, r), "one with 3 MB");
    is_int((int)r->code, NGHTTP2_INTERNAL_ERROR, "breaks");
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the connection goes on");
}

static void test_trailer_behind_long_head(struct front_h2_kit *k)
{
    static char field[LIMIT_TRAILER_BYTES + 100]; /* a line and NUL */
    struct req *r;

    k->front.opts.max_head_bytes = 64 << 10;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    memset(field, 'v', sizeof(field) - 2);
    memcpy(field, "x-long: ", 8);
    field[sizeof(field) - 2] = '\n';
    r = h2_kit_ask(k, "POST", "/whole?trailer", "h", field, 1000);
    h2_kit_held(k, 1);
    ok(h2_kit_told(k, &k->held[0], "end x-sum=abc"), "a long head leaves room for trailers");
    if (k->held[0].x != NULL)
        h2_kit_reply(&k->held[0], 200, "yes");
    ok(h2_kit_closed(k, r), "answered");
    is_int(r->status, 200, "and not refused");
}

/* ---- a piece of an answer for which there is no memory ---- */

static void test_piece_without_memory(struct front_h2_kit *k)
{
    static char piece[60000];
    struct held *h = &k->held[0];
    struct req *r;

    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    ok(h2_kit_status(k, r), "an answer begins");
    mem_fail_nth(1);
    exchange_body(h->x, slice_of(piece, sizeof(piece)));
    mem_fail_nth(0);
    ok(h2_kit_told(k, h, "gone"), "the proxy is told that a piece is lost");
    ok(h2_kit_closed(k, r) && r->code == NGHTTP2_INTERNAL_ERROR, "and the client, to whom it does not look whole");
}

/* ---- a body that comes slowly ---- */

static void test_dripping_body(struct front_h2_kit *k)
{
    static const unsigned char byte[] = {0, 0, 1, 0, 0, 0, 0, 0, 1, 'x'}; /* DATA on stream 1 */

    k->front.opts.body_timeout_ms = 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    k->hold_bodies = true;
    h2_kit_ask(k, "POST", "/x", "h", NULL, 50);
    h2_kit_held(k, 1);
    for (int i = 0; i < 6 && k->held[0].gone == 0; i++) {
        h2_kit_later(k, 15);
        h2_kit_raw(k, byte, sizeof(byte));
        h2_kit_settle(k);
    }
    is_int(k->held[0].gone, 0, "a body of which some comes now and then goes on");
    is_u64(k->held[0].body, 6, "and is given");
    for (int i = 0; i < 20 && k->held[0].gone == 0; i++)
        h2_kit_later(k, 15);
    ok(h2_kit_has(&k->held[0].told, "gone(request body stalled)"), "until none comes any more");
    clock_real();
}

/* One that began when another was late already. */
static void test_later_body(struct front_h2_kit *k)
{
    k->front.opts.body_timeout_ms = 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    k->hold_bodies = true;
    for (unsigned i = 0; i < 2; i++) {
        h2_kit_ask(k, "POST", "/x", "h", NULL, 50);
        h2_kit_held(k, i + 1);
        h2_kit_later(k, i == 0 ? 15 : 10);
    }
    ok(h2_kit_has(&k->held[0].told, "gone(request body stalled)"), "a body that does not come is given up");
    is_int(k->held[1].gone, 0, "one that began later has its own time");
    h2_kit_later(k, 15);
    ok(h2_kit_has(&k->held[1].told, "gone(request body stalled)"), "and no more");
    clock_real();
}

static bool is_answered(void *arg)
{
    const struct req *r = arg;

    return r->ended;
}

static void answer_early(struct front_h2_kit *k, unsigned status, const char *body)
{
    struct req *r;

    k->pause_all = true;
    h2_kit_connect(k, false, false);
    r = h2_kit_ask(k, "POST", "/x", "h", NULL, KIT_LARGE);
    h2_kit_held(k, 1);
    clock_fake(clock_us(), clock_wall_us());
    h2_kit_reply(&k->held[0], status, body);
    ok(h2_kit_until(k, is_answered, r), "answered in the middle of the body");
    h2_kit_later(k, H2_ANSWERED_MS - 1);
    ok(!r->closed, "the client has time to read it");
    h2_kit_later(k, 1);
    ok(h2_kit_closed(k, r), "before the stream ends");
    clock_real();
    is_u64(r->status, status, "status");
    is_str(h2_kit_text(&r->body), body, "the whole answer");
    ok(r->ended, "complete");
    is_int((int)r->code, NGHTTP2_NO_ERROR, "and the rest is not wanted");
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the connection goes on");
}

static void test_early_answer(struct front_h2_kit *k)
{
    answer_early(k, 413, "too large");
}

/* It ends with its head. */
static void test_early_empty_answer(struct front_h2_kit *k)
{
    answer_early(k, 401, "");
}

/* The time for the body does not run any more. */
static void test_early_answer_late(struct front_h2_kit *k)
{
    struct req *r;

    k->front.opts.body_timeout_ms = H2_ANSWERED_MS + 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    k->hold_bodies = true;
    r = h2_kit_ask(k, "POST", "/x", "h", NULL, 50);
    h2_kit_held(k, 1);
    h2_kit_later(k, H2_ANSWERED_MS);
    h2_kit_reply(&k->held[0], 413, "too large");
    ok(h2_kit_until(k, is_answered, r), "answered in the middle of a body that does not come");
    h2_kit_later(k, H2_ANSWERED_MS / 2);
    ok(!r->closed, "the client has time to read it");
    h2_kit_later(k, H2_ANSWERED_MS);
    ok(h2_kit_closed(k, r) && r->code == NGHTTP2_NO_ERROR, "and is told that the rest is not wanted");
    clock_real();
}

/* Who has the whole answer and gives up the rest of his body by himself floods nobody. */
static void test_early_answers_given_up(struct front_h2_kit *k)
{
    struct req *r;

    k->pause_all = true;
    h2_kit_connect(k, false, false);
    for (unsigned n = 0; n <= LIMIT_H2_RESETS; n++) {
        r = h2_kit_ask(k, "POST", "/x", "h", NULL, KIT_LARGE);
        if (!h2_kit_held(k, n + 1))
            break;
        h2_kit_reply(&k->held[n], 413, "too large");
        (void)h2_kit_until(k, is_answered, r);
        nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
        h2_kit_flush(k);
    }
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the connection goes on");
}

static const struct h2_kit_story stories[] = {
    {"request", test_request},
    {"multiplex", test_multiplex},
    {"pieces", test_pieces},
    {"forms of answers", test_forms},
    {"interim responses and trailers", test_interim_and_trailers},
    {"refusals", test_refusals},
    {"many crumbs", test_many_crumbs},
    {"long heads", test_long_heads},
    {"long heads of answers", test_long_answer_heads},
    {"a trailer behind a long head", test_trailer_behind_long_head},
    {"bad preface", test_bad_preface},
    {"bad frames", test_bad_frames},
    {"backwards", test_backwards},
    {"skipped between", test_skipped_between},
    {"upload", test_upload},
    {"download", test_download},
    {"one end", test_one_end},
    {"slow stream", test_slow_stream},
    {"dripping body", test_dripping_body},
    {"a later body", test_later_body},
    {"a piece without memory", test_piece_without_memory},
    {"stuck client", test_stuck_client},
    {"early answer", test_early_answer},
    {"early answer without a body", test_early_empty_answer},
    {"late early answer", test_early_answer_late},
    {"early answers, given up", test_early_answers_given_up},
};

int main(int argc, char **argv)
{
    h2_kit_run(stories, ROWS(stories), argc > 1 ? argv[1] : NULL);
    return tap_end();
}
