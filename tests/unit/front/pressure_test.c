/* SPDX-License-Identifier: Apache-2.0 */
/* Heads for which there is no room: 429 while clients hold too much, 431 for too many fields, 414 for a long target. */
#include "front/memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/h2_fields.h"
#include "lib/tap.h"
#include "net/tls_ctx.h"
#include "unit/front/h2_kit.h"
#include "unit/net/fixture.h"

enum { PIECE = 64 << 10, HELD = 400 << 10 };

#define V100 "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
#define V1000 V100 V100 V100 V100 V100 V100 V100 V100 V100 V100

static double refused_429(struct front_kit *w)
{
    return front_kit_metric(w, "mvproxy_front_refusals_total", "429");
}

/* Memory is short from `mark` bytes on, and there is an eighth of the limit beyond it. */
static void set_mark(struct front_kit *w, size_t mark)
{
    w->opts.max_memory = mark / 7 * 8 + 8;
    front_update(w->front, &w->opts);
}

/* ---- HTTP/1.1 ---- */

/* An answer that is not read holds so much; who takes part in it is at work, and not ended. */
static void hold_h1(struct front_kit *w, struct front_client *c)
{
    static char piece[PIECE];

    client_open(w, c);
    clock_fake(clock_us(), clock_wall_us());
    client_ask(c, "/x");
    ok(front_kit_handled(w, w->handled + 1), "one with a long answer");
    stream_pause(c->s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (unsigned turns = 0; turns < 5000 && !exchange_congested(w->x); turns++) {
        exchange_body(w->x, slice_of(piece, sizeof(piece)));
        loop_run_once(w->loop, 0);
    }
    /* The kernels take some more of it, now and then. */
    for (unsigned i = 0; i < 8; i++) {
        while (w->x != NULL && front_memory(w->front) < HELD)
            if (!exchange_body(w->x, slice_of(piece, sizeof(piece))))
                break;
        front_kit_settle(w);
    }
    ok(front_memory(w->front) >= HELD, "which it does not read");
}

static void expect_too_much(struct front_kit *w, struct front_client *c, unsigned nth)
{
    ok(client_has(c, "clients hold too much memory"), "is told why");
    ok(strstr(client_take(c), "HTTP/1.1 429 ") != NULL, "with 429");
    ok(client_ended(c) != CLIENT_OPEN, "and its connection ends");
    is_double(refused_429(w), nth, "counted");
    client_close(c, STREAM_CLOSE_NOW);
    front_kit_settle(w);
    is_double(front_kit_closed(w, "memory"), nth, "as what it is");
}

/* Bytes of a head in one piece, which the parser has to copy. */
static void send_long_head(struct front_client *c, size_t n)
{
    char *text = malloc(n + 1);

    if (text == NULL)
        tap_bail("out of memory");
    memset(text, 'v', n);
    text[n] = '\0';
    client_send(c, "GET /y HTTP/1.1\r\nHost: h\r\nX-Long: ");
    client_send(c, text);
    client_send(c, "\r\n\r\n");
    free(text);
}

static void test_h1_short(struct front_kit *w)
{
    struct front_client greedy, whole, half, next, dear;
    unsigned handled;

    w->opts.max_head_bytes = 1 << 20;
    front_kit_start(w);
    client_open(w, &whole);
    client_open(w, &half);
    client_open(w, &dear);
    hold_h1(w, &greedy);
    handled = w->handled;
    set_mark(w, front_memory(w->front) - 1000);
    client_ask(&whole, "/y");
    expect_too_much(w, &whole, 1);
    set_mark(w, front_memory(w->front) - 1000);
    client_send(&half, "GET /y HTTP/1.1\r\nHo");
    expect_too_much(w, &half, 2);
    set_mark(w, front_memory(w->front) + (16 << 10));
    send_long_head(&dear, 200 << 10);
    expect_too_much(w, &dear, 3);
    is_u64(w->handled, handled, "none of them reached the proxy");
    is_int(w->gone, 0, "whose exchange goes on");
    w->opts.max_memory = 0;
    front_update(w->front, &w->opts);
    client_open(w, &next);
    client_ask(&next, "/sync");
    ok(client_ends_in(&next, "sync"), "without a limit there is room");
    clock_real();
    client_close(&next, STREAM_CLOSE_NOW);
    client_close(&greedy, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
    is_int(w->gone, 1, "the long answer's exchange, too");
}

#define V10000 V1000 V1000 V1000 V1000 V1000 V1000 V1000 V1000 V1000 V1000

/* Nor is it held for as long as its client may read the refusal, be it a part or all of a head. */
static void test_h1_refused_head(struct front_kit *w)
{
    static const struct {
        const char *begin, *status;
        unsigned fields;
    } rows[] = {{"GET /y HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 431 ", HELD / 10000 + 10},
                {"GET /y HTTP/1.1\r\n", "HTTP/1.1 400 ", HELD / 10000 - 10}};
    struct front_client c;

    w->opts.max_head_bytes = HELD;
    w->opts.linger_timeout_ms = 60000;
    front_kit_start(w);
    for (size_t i = 0; i < ROWS(rows); i++) {
        client_open(w, &c);
        client_send(&c, rows[i].begin);
        for (unsigned field = 0; field < rows[i].fields && c.end == CLIENT_OPEN; field++) {
            client_send(&c, "X-Long: " V10000 "\r\n");
            loop_run_once(w->loop, 1);
        }
        client_send(&c, "\r\n");
        ok(client_has(&c, rows[i].status), "a large head that is refused");
        is_u64(front_connections(w->front), 1, "whose client may read that");
        ok(front_memory(w->front) < 128 << 10, "is not held any more (%zu bytes)", front_memory(w->front));
        client_close(&c, STREAM_CLOSE_NOW);
        ok(front_kit_empty(w), "over");
    }
}

/* The limit may come down when more than it is held already: somebody has to go at once. */
static void test_h1_limit_comes_down(struct front_kit *w)
{
    struct front_client greedy;

    front_kit_start(w);
    hold_h1(w, &greedy);
    w->opts.max_memory = HELD / 2;
    front_update(w->front, &w->opts);
    is_u64(front_memory_limit(w->front), HELD / 2, "the limit is known");
    for (unsigned i = 0; i < 50 && front_connections(w->front) > 0; i++) {
        clock_fake(clock_us() + 100000, clock_wall_us());
        for (unsigned turns = 0; turns < 10; turns++)
            loop_run_once(w->loop, 10);
    }
    is_u64(front_connections(w->front), 0, "who holds more than a new limit goes");
    is_double(front_kit_closed(w, "memory"), 1, "counted");
    is_int(w->gone, 1, "the proxy is told");
    clock_real();
    client_close(&greedy, STREAM_CLOSE_NOW);
}

static void on_tunnel(struct stream *s, enum stream_event ev, void *arg)
{
    (void)s;
    if (ev == STREAM_FAILED)
        *(bool *)arg = true;
}

/*
 * A tunnel that its front leaves to others is uncounted, so that it ends for nobody's memory: the look at who holds
 * what is due in the very turn at whose end the front goes, and what the upgrade has left is still held then.
 */
static void test_h1_disowned(struct front_kit *w)
{
    struct stream *tunnel;
    bool failed = false;
    struct front_client c;

    front_kit_start(w);
    client_open(w, &c);
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    ok(front_kit_handled(w, 1), "an upgrade");
    front_kit_pass(w, 2000); /* who has moved just now is spared anyway */
    tunnel = exchange_upgrade(w->x, head_of(w, 101, "Upgrade", "websocket"));
    stream_set_owner(tunnel, on_tunnel, &failed);
    w->opts.max_memory = 1;
    front_update(w->front, &w->opts);
    ok(front_memory(w->front) > 1, "a tunnel, and more is held than may be");
    front_free(w->front);
    w->front = NULL;
    ok(client_has(&c, "HTTP/1.1 101 "), "outlives its front");
    front_kit_settle(w);
    ok(!failed, "unharmed");
    clock_real();
    stream_close(tunnel, STREAM_CLOSE_NOW);
    client_close(&c, STREAM_CLOSE_NOW);
    front_kit_settle(w);
}

/* ---- HTTP/2 ---- */

/* The first exchange of the connection holds that much. */
static void hold_h2(struct front_h2_kit *k)
{
    static char piece[PIECE];
    struct held *h = &k->held[k->n_held];

    h2_kit_connect(k, false, true);
    clock_fake(clock_us(), clock_wall_us());
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, KIT_LARGE); /* of the connection alone */
    h2_kit_get(k, "/x");
    ok(h2_kit_held(k, k->n_held + 1), "one with a long answer");
    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    while (front_memory(k->front.front) < HELD)
        if (!exchange_body(h->x, slice_of(piece, sizeof(piece))))
            break;
    h2_kit_settle(k);
    ok(front_memory(k->front.front) > HELD - (100 << 10), "whose window is small");
}

/* What of a body waited for the proxy is given back when it has been taken. */
static void test_h2_body_taken(struct front_h2_kit *k)
{
    enum { BODY = 200 << 10 };

    k->pause_all = true;
    h2_kit_connect(k, false, false);
    h2_kit_ask(k, "POST", "/x", "h", NULL, BODY);
    ok(h2_kit_held(k, 1), "an upload that nobody takes");
    h2_kit_settle(k);
    ok(front_memory(k->front.front) >= BODY, "is held");
    exchange_resume_body(k->held[0].x);
    ok(h2_kit_told(k, &k->held[0], "end"), "until it is taken");
    ok(front_memory(k->front.front) < BODY / 2, "and not longer (%zu bytes)", front_memory(k->front.front));
}

static void expect_429(struct front_h2_kit *k, struct req *r, const char *what)
{
    ok(h2_kit_closed(k, r), "%s: over", what);
    is_int(r->status, 429, "%s: refused", what);
    ok(h2_kit_has(&r->body, "clients hold too much memory"), "%s: and told why", what);
}

static void test_h2_short(struct front_h2_kit *k)
{
    struct req *r;

    hold_h2(k);
    set_mark(&k->front, front_memory(k->front.front) - 1000);
    r = h2_kit_get(k, "/y");
    expect_429(k, r, "a head for which memory is short");
    is_double(refused_429(&k->front), 1, "counted");
    k->front.opts.max_memory = 0;
    front_update(k->front.front, &k->front.opts);
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "without a limit there is room on the same connection");
    is_int(k->held[0].gone, 0, "where the other one goes on");
    clock_real();
}

/* Where the mark is, from before the head to behind it: what the proxy is given is below, with all that its head takes.
 */
static void test_h2_last_field(struct front_h2_kit *k)
{
    enum { STEP = 1 << 10, TO = 40 << 10 };
    unsigned refused = 0, handled = 0;
    struct req *r;

    hold_h2(k);
    for (size_t more = 0; more < TO; more += STEP) {
        unsigned before = k->n_held;
        size_t mark = front_memory(k->front.front) + more;

        set_mark(&k->front, mark);
        r = h2_kit_ask(k, "GET", "/y", "h", "a: " V1000 V1000 V1000 "\nb: " V1000 V1000 V1000 "\n", 0);
        while (k->n_held == before && r->status == 0 && !r->closed)
            loop_run_once(k->front.loop, 20);
        if (k->n_held > before) {
            handled++;
            ok(front_memory(k->front.front) < mark + STEP, "given to the proxy below the mark");
            h2_kit_reply(&k->held[before], 200, "");
        } else {
            refused++;
            is_int(r->status, 429, "refused at the mark");
        }
        (void)h2_kit_closed(k, r);
        h2_kit_settle(k);
    }
    ok(refused > 4 && handled > 4, "%u were refused, %u not", refused, handled);
    clock_real();
}

enum { CRUMBS = 30, CRUMB = 3000 };

/* A request whose cookie comes in so many equal crumbs, by header compression; nghttp2 would not send as much. */
static void send_crumbs(struct front_h2_kit *k, unsigned char id)
{
    static const unsigned char request[] = {0x82, 0x87, 0x84, 0x01, 1, 'h'};
    static const unsigned char cookie[] = {
        0x40, 6, 'c', 'o', 'o', 'k', 'i', 'e', 0x7f, (CRUMB - 127) % 128 | 128, (CRUMB - 127) / 128};
    static char value[CRUMB], again[CRUMBS - 1];
    size_t n = sizeof(request) + sizeof(cookie) + sizeof(value) + sizeof(again);
    unsigned char head[9] = {0, (unsigned char)(n >> 8), (unsigned char)n, 1, 5, 0, 0, 0, id};

    memset(value, 'v', sizeof(value));
    memset(again, 0xbe, sizeof(again)); /* the newest entry of the dynamic table */
    h2_kit_raw(k, head, sizeof(head));
    h2_kit_raw(k, request, sizeof(request));
    h2_kit_raw(k, cookie, sizeof(cookie));
    h2_kit_raw(k, value, sizeof(value));
    h2_kit_raw(k, again, sizeof(again));
}

/* All crumbs of a cookie have room, and what they make together has none. */
static void test_h2_cookie(struct front_h2_kit *k)
{
    static const unsigned char get[] = {0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x87, 0x84, 0x01, 1, 'h'};
    enum { STEP = 8 << 10, TO = 320 << 10 };
    static char piece[PIECE];
    unsigned char id = 3;
    unsigned refused = 0;

    k->front.opts.max_head_bytes = 1 << 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, true, false);
    clock_fake(clock_us(), clock_wall_us());
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    h2_kit_raw(k, get, sizeof(get));
    ok(h2_kit_held(k, 1), "one with a long answer");
    exchange_respond(k->held[0].x, h2_kit_head(&k->held[0], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    while (front_memory(k->front.front) < HELD && exchange_body(k->held[0].x, slice_of(piece, sizeof(piece))))
        ;
    h2_kit_settle(k);
    for (size_t more = 0; more < TO; more += STEP, id += 2) {
        unsigned held = k->n_held, before = refused;

        set_mark(&k->front, front_memory(k->front.front) + more);
        send_crumbs(k, id);
        while (k->end == CLIENT_OPEN && k->n_held == held && refused == before) {
            loop_run_once(k->front.loop, 20);
            refused = refused_429(&k->front) > 0 ? (unsigned)refused_429(&k->front) : 0; /* -1: none yet */
        }
        if (k->n_held == held)
            continue;
        is_u64(http_head_find_name(exchange_request(k->held[held].x), SLICE_LIT("cookie"))->value.n,
               CRUMBS * (CRUMB + 2) - 2, "all of it in one field");
        h2_kit_reply(&k->held[held], 200, "");
        h2_kit_settle(k);
    }
    ok(refused > 5 && k->n_held > 2, "a cookie is refused %u times, and %u not", refused, k->n_held - 1);
    clock_real();
}

/* ---- too many fields ---- */

static struct req *ask_with_fields(struct front_h2_kit *k, unsigned n, uint64_t upload)
{
    static char fields[(LIMIT_HOP_FIELDS + 1) * 8];
    size_t at = 0;

    for (unsigned i = 0; i < n; i++)
        at += (size_t)snprintf(fields + at, sizeof(fields) - at, "x: y\n");
    return h2_kit_ask(k, upload > 0 ? "POST" : "GET", "/sync", "h", fields, upload);
}

/* What it may send is what an mvproxy may that it is none of. */
static void fields_of(struct front_h2_kit *k, const char *who, bool hop, unsigned most)
{
    enum { PSEUDO = 4 };
    struct tls_ctx *server = k->front.opts.tls, *client = k->front.client_tls;
    struct req *r;

    k->front.opts.tls = hop_server_ctx(true);
    k->front.opts.max_head_bytes = 1 << 20;
    k->front.client_tls = hop ? hop_client_ctx(who, true) : client_ctx(who, true);
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    r = ask_with_fields(k, most - PSEUDO, 0);
    ok(h2_kit_closed(k, r), "as many fields as may be");
    is_int(r->status, 200, "are taken");
    for (uint64_t upload = 0; upload <= 1 << 20; upload = 10000 * upload + 1) {
        r = ask_with_fields(k, most - PSEUDO + 1, upload);
        ok(h2_kit_closed(k, r), "one more, and a body of %u bytes", (unsigned)upload);
        is_int(r->status, 431, "is not");
        ok(h2_kit_has(&r->body, "too many fields"), "and says so");
        is_int((int)r->code, NGHTTP2_NO_ERROR, "nor is it reset");
    }
    h2_kit_disconnect(k);
    ok(front_kit_empty(&k->front), "over");
    tls_ctx_unref(k->front.opts.tls);
    tls_ctx_unref(k->front.client_tls);
    k->front.opts.tls = server;
    k->front.client_tls = client;
    front_update(k->front.front, &k->front.opts);
}

static void test_fields(struct front_h2_kit *k)
{
    fields_of(k, "alice", false, LIMIT_HEAD_FIELDS);
    fields_of(k, "front-proxy-client", false, LIMIT_HEAD_FIELDS);
    fields_of(k, "alice", true, LIMIT_HEAD_FIELDS);
    fields_of(k, "front-proxy-client", true, LIMIT_HOP_FIELDS);
}

/* ---- too long ---- */

static void append_frame(struct buf *b, unsigned type, unsigned flags, struct slice payload)
{
    const unsigned char head[9] = {0,
                                   (unsigned char)(payload.n >> 8),
                                   (unsigned char)payload.n,
                                   (unsigned char)type,
                                   (unsigned char)flags,
                                   0,
                                   0,
                                   0,
                                   1};

    buf_append(b, slice_of((const char *)head, sizeof(head)));
    buf_append(b, payload);
}

/* A GET for "/aaa…" of so many bytes, as the first request of a connection. */
static void ask_for_long_target(struct front_h2_kit *k, size_t bytes)
{
    enum { MOST = 128 << 10, FRAME = 16 << 10 };
    static char target[MOST];
    static unsigned char block[MOST];
    nghttp2_nv nva[] = {h2_nv(SLICE_LIT(":method"), SLICE_LIT("GET")), h2_nv(SLICE_LIT(":scheme"), SLICE_LIT("https")),
                        h2_nv(SLICE_LIT(":authority"), SLICE_LIT("h")),
                        h2_nv(SLICE_LIT(":path"), slice_of(target, bytes))};
    nghttp2_hd_deflater *deflater;
    struct buf b;
    ssize_t n;

    memset(target, 'a', sizeof(target));
    target[0] = '/';
    if (nghttp2_hd_deflate_new(&deflater, 4096) != 0)
        tap_bail("no memory");
    n = nghttp2_hd_deflate_hd(deflater, block, sizeof(block), nva, ROWS(nva));
    nghttp2_hd_deflate_del(deflater);
    if (n <= 0)
        tap_bail("the head does not fit");
    buf_init(&b, 1 << 20);
    buf_append(&b, slice_of(KIT_PREFACE, sizeof(KIT_PREFACE) - 1));
    for (size_t at = 0; at < (size_t)n; at += FRAME) {
        size_t left = (size_t)n - at, piece = left < FRAME ? left : FRAME;

        append_frame(&b, at == 0 ? NGHTTP2_HEADERS : NGHTTP2_CONTINUATION,
                     (at == 0 ? NGHTTP2_FLAG_END_STREAM : 0) | (piece == left ? NGHTTP2_FLAG_END_HEADERS : 0),
                     slice_of((const char *)block + at, piece));
    }
    h2_kit_connect(k, true, false);
    h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
    buf_free(&b);
}

static bool is_refused(void *arg)
{
    return front_kit_metric(&((struct front_h2_kit *)arg)->front, "mvproxy_front_refusals_total", "414") > 0;
}

static void test_long_targets(struct front_h2_kit *k)
{
    k->front.opts.max_head_bytes = 1 << 20;
    front_update(k->front.front, &k->front.opts);
    ask_for_long_target(k, LIMIT_TARGET_BYTES);
    ok(h2_kit_held(k, 1), "a target that is as long as it may be");
    is_u64(exchange_request(k->held[0].x)->target.n, LIMIT_TARGET_BYTES, "arrives");
    h2_kit_disconnect(k);
    ask_for_long_target(k, LIMIT_TARGET_BYTES + 1);
    ok(h2_kit_until(k, is_refused, k), "one byte more is answered with 414");
    is_int((int)k->n_held, 1, "and goes nowhere");
}

/* ---- trailers ---- */

static void append_number(struct buf *b, unsigned char head, size_t more)
{
    for (buf_append_char(b, (char)head); more >= 128; more /= 128)
        buf_append_char(b, (char)(more % 128 | 128));
    buf_append_char(b, (char)more);
}

/* A POST, then one trailer, with its overhead of so many bytes, in the same breath. */
static void send_trailer(struct front_h2_kit *k, size_t bytes)
{
    enum { NAME = 3, FIRST = 8 << 10 };
    static const unsigned char post[] = {0x83, 0x87, 0x84, 0x01, 1, 'h'};
    static char value[LIMIT_TRAILER_BYTES];
    size_t n = bytes - NAME - H2_FIELD_OVERHEAD;
    struct buf b, block;

    memset(value, 'v', sizeof(value));
    buf_init(&block, 1 << 20);
    buf_append(&block, SLICE_LIT("\0\3x-s"));
    append_number(&block, 0x7f, n - 127);
    buf_append(&block, slice_of(value, n));
    buf_init(&b, 1 << 20);
    buf_append(&b, slice_of(KIT_PREFACE, sizeof(KIT_PREFACE) - 1));
    append_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, slice_of((const char *)post, sizeof(post)));
    append_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, slice_of(buf_slice(&block).p, FIRST));
    append_frame(&b, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, slice_from(buf_slice(&block), FIRST));
    h2_kit_connect(k, true, false);
    h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
    buf_free(&block);
    buf_free(&b);
}

static void test_long_trailers(struct front_h2_kit *k)
{
    send_trailer(k, LIMIT_TRAILER_BYTES);
    ok(h2_kit_held(k, 1) && h2_kit_told(k, &k->held[0], "end x-s=vvv"), "a trailer that is as long as it may be");
    h2_kit_disconnect(k);
    send_trailer(k, LIMIT_TRAILER_BYTES + 1);
    ok(h2_kit_held(k, 2) && h2_kit_told(k, &k->held[1], "gone(head is too large)"), "and one that is longer");
    is_double(front_kit_metric(&k->front, "mvproxy_front_refusals_total", "431"), 1, "which is refused");
}

static bool one_refused(void *arg)
{
    return front_kit_metric(&((struct front_h2_kit *)arg)->front, "mvproxy_front_refusals_total", "431") > 0;
}

/* Its client has no window for the answer, which must not keep the head. */
static void test_refused_head(struct front_h2_kit *k)
{
    static const char no_window[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0";
    enum { FIELDS = 200 };
    struct buf b;

    k->front.opts.max_head_bytes = FIELDS * KIT_DEAR_VALUE / 2;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, true, false);
    buf_init(&b, 1 << 20);
    h2_kit_append_dear_head(&b, 0, FIELDS, NULL);
    h2_kit_raw(k, no_window, sizeof(no_window) - 1);
    h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
    buf_free(&b);
    ok(h2_kit_until(k, one_refused, k), "a head that is too large");
    h2_kit_settle(k);
    ok(front_memory(k->front.front) < 128 << 10, "is not held while its refusal waits (%zu bytes)",
       front_memory(k->front.front));
}

/* ---- the heads of many clients on one connection ---- */

static void test_heads_of_clients(void)
{
    enum { CLIENTS = 1000, SIZE = 64 };
    struct memory_holder h;
    struct quota address, *of[CLIENTS];
    unsigned own = 0, twice = 0;
    size_t table;

    quota_init(&address, NULL, 0);
    memory_enter(NULL, &h, &address);
    of[0] = memory_heads_of(&h, 8);
    table = address.held;
    ok(table > LIMIT_H2_STREAMS * sizeof(struct quota), "what tells them apart is charged, too");
    ok(of[0] != &h.heads && quota_take(of[0], LIMIT_CONNECTION_HEADS), "a client has as much as a connection");
    ok(!quota_take(memory_heads_of(&h, 8), 1), "and no more");
    ok(memory_heads_of(&h, 9) != of[0] && quota_take(memory_heads_of(&h, 9), 1), "of a neighbour's he takes nothing");
    is_u64(address.held, table + LIMIT_CONNECTION_HEADS + 1, "all of it is his connection's and address'");
    quota_give(memory_heads_of(&h, 9), 1);
    quota_add(memory_heads_of(&h, 1), 1);
    ok(memory_heads_of(&h, 257) != &h.heads && memory_heads_of(&h, 257)->held == 0,
       "nor of one who would be in the same place");
    quota_give(memory_heads_of(&h, 1), 1);
    quota_give(of[0], LIMIT_CONNECTION_HEADS);
    for (size_t i = 0; i < CLIENTS; i++) {
        of[i] = memory_heads_of(&h, i + 1);
        quota_add(of[i], SIZE);
        own += of[i] != &h.heads;
        for (size_t j = 0; j < i; j++)
            twice += of[i] == of[j] && of[i] != &h.heads;
    }
    ok(own > LIMIT_H2_STREAMS && twice == 0, "of a thousand at once %u have their own, more than there are streams",
       own);
    is_u64(h.heads.held, (CLIENTS - own) * SIZE, "the rest shares");
    for (size_t i = 0; i < CLIENTS; i++)
        quota_give(of[i], SIZE);
    ok(memory_heads_of(&h, CLIENTS + 1) != &h.heads, "whoever comes when they have gone has his own again");
    mem_fail_nth(1);
    memory_leave(&h);
    memory_enter(NULL, &h, &address);
    ok(memory_heads_of(&h, 8) == &h.heads, "without memory for it nobody has");
    mem_fail_nth(0);
    memory_leave(&h);
    is_u64(address.held, 0, "nothing is left");
    address.most = table - 1;
    memory_enter(NULL, &h, &address);
    ok(memory_heads_of(&h, 8) == &h.heads && address.held == 0, "nor without room for it");
    memory_leave(&h);
}

static const struct front_kit_story h1_stories[] = {
    {"memory is short", test_h1_short},
    {"the limit comes down", test_h1_limit_comes_down},
    {"disowned", test_h1_disowned},
    {"refused head", test_h1_refused_head},
};

static const struct h2_kit_story h2_stories[] = {
    {"a body is taken", test_h2_body_taken},
    {"memory is short", test_h2_short},
    {"with the last field", test_h2_last_field},
    {"a cookie", test_h2_cookie},
    {"fields", test_fields},
    {"long targets", test_long_targets},
    {"long trailers", test_long_trailers},
    {"refused head", test_refused_head},
};

int main(void)
{
    test_heads_of_clients();
    front_kit_run(h1_stories, ROWS(h1_stories));
    h2_kit_run(h2_stories, ROWS(h2_stories), NULL);
    return tap_end();
}
