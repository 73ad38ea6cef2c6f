/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 clients that make us work or hold more than they send. */
#include "unit/front/h2_kit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/h2_open.h"
#include "lib/tap.h"

#define GIVEN_UP "mvproxy_front_requests_given_up_total"

enum { DEAR_FIELDS = 200 };

static void flood(struct front_h2_kit *k, const void *frame, size_t n, unsigned times)
{
    for (unsigned i = 0; i < times && k->end == CLIENT_OPEN; i++) {
        h2_kit_raw(k, frame, n);
        if (i % 200 == 0)
            loop_run_once(k->front.loop, 0);
    }
}

static void test_cheap_floods(struct front_h2_kit *k)
{
    static const struct {
        const char *name;
        unsigned char frame[20];
        size_t n;
    } rows[] = {
        {"PING", {0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, 17},
        {"SETTINGS", {0, 0, 0, 4, 0, 0, 0, 0, 0}, 9},
        {"PRIORITY", {0, 0, 5, 2, 0, 0, 0, 0, 5, 0, 0, 0, 0, 1}, 14},
        {"WINDOW_UPDATE", {0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 13},
    };
    for (unsigned i = 0; i < ROWS(rows); i++) {
        h2_kit_connect(k, true, false);
        h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
        flood(k, rows[i].frame, rows[i].n, 20000);
        ok(h2_kit_ended(k), "a flood of %s ends the connection", rows[i].name);
        h2_kit_disconnect(k);
        ok(front_kit_empty(&k->front), "over");
        is_double(front_kit_closed(&k->front, "flood"), i + 1, "counted");
    }
}

/* Who opens his windows by next to nothing, but after what has come. */
static void test_honest_updates(struct front_h2_kit *k)
{
    static const unsigned char update[] = {0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    struct req *r;

    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    exchange_respond(k->held[0].x, h2_kit_head(&k->held[0], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    (void)h2_kit_pump(&k->held[0], 0, KIT_LARGE);
    h2_kit_settle(k);
    flood(k, update, sizeof(update), LIMIT_H2_CONTROL_FRAMES + (unsigned)(r->body_bytes / H2_BYTES_PER_UPDATE));
    h2_kit_settle(k);
    is_int(k->end, CLIENT_OPEN, "as many as go with what was sent are no flood");
    clock_real();
}

static void test_empty_data(struct front_h2_kit *k)
{
    static const unsigned char empty[] = {0, 0, 0, 0, 0, 0, 0, 0, 1};

    k->pause_all = true;
    h2_kit_connect(k, false, false);
    h2_kit_ask(k, "POST", "/x", "h", NULL, KIT_LARGE);
    h2_kit_held(k, 1);
    h2_kit_settle(k);
    flood(k, empty, sizeof(empty), 20000);
    ok(h2_kit_ended(k), "a flood of empty DATA ends the connection");
    is_int((int)k->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM, "which is told why");
    is_int(k->held[0].gone, 1, "and so is the proxy");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "flood"), 1, "counted");
}

static void test_continuation(struct front_h2_kit *k)
{
    static const unsigned char begin[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82};
    static const unsigned char more[] = {0, 0, 0, 9, 0, 0, 0, 0, 1};

    h2_kit_connect(k, false, false);
    h2_kit_raw(k, begin, sizeof(begin));
    flood(k, more, sizeof(more), 20000);
    ok(h2_kit_ended(k), "a flood of CONTINUATION ends the connection");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "flood") + front_kit_closed(&k->front, "bad_request"), 1, "counted");
}

/* Long heads come in several of them: what is read, and not small, is none. */
static void test_honest_continuations(struct front_h2_kit *k)
{
    enum { REQUESTS = 300, EACH = 4, VALUE = 1100 };
    static const unsigned char more[] = {0x00, 1, 'x', 0x7f, (VALUE - 127) % 128 | 128, (VALUE - 127) / 128};
    static const unsigned char get[] = {0x82, 0x87, 0x04, 2, '/', 'x', 0x01, 1, 'h'};
    static char value[VALUE];
    unsigned char head[9] = {0, 0, sizeof(get), 1, 1};
    unsigned n = sizeof(more) + VALUE;

    memset(value, 'v', sizeof(value));
    h2_kit_connect(k, true, false);
    clock_fake(clock_us(), clock_wall_us());
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    for (unsigned i = 0; i < REQUESTS && k->end == CLIENT_OPEN; i++) {
        unsigned char next[9] = {0, (unsigned char)(n >> 8), (unsigned char)n, 9, 0};

        head[7] = next[7] = (unsigned char)((2 * i + 1) >> 8);
        head[8] = next[8] = (unsigned char)(2 * i + 1);
        h2_kit_raw(k, head, sizeof(head));
        h2_kit_raw(k, get, sizeof(get));
        for (unsigned at = 0; at < EACH; at++) {
            next[4] = at + 1 == EACH ? 4 : 0;
            h2_kit_raw(k, next, sizeof(next));
            h2_kit_raw(k, more, sizeof(more));
            h2_kit_raw(k, value, sizeof(value));
        }
        if (!h2_kit_held(k, i + 1))
            break;
        h2_kit_reply(&k->held[i], 200, "");
    }
    is_u64(k->n_held, REQUESTS, "long heads are read, one after the other");
    is_int(k->end, CLIENT_OPEN, "and are no flood");
    clock_real();
}

static void send_head(struct front_h2_kit *k, unsigned id, bool ended)
{
    unsigned char head[15] = {0, 0, 6, 1, ended ? 5 : 4, 0, 0, 0, 0, 0x82, 0x87, 0x84, 0x41, 1, 'h'};

    head[7] = (unsigned char)(id >> 8);
    head[8] = (unsigned char)id;
    h2_kit_raw(k, head, sizeof(head));
    if (id % 64 == 1)
        loop_run_once(k->front.loop, 0);
}

/* Who does not acknowledge SETTINGS opens as many streams as he likes: nghttp2 refuses them without a word to us. */
static void test_refused_streams(struct front_h2_kit *k)
{
    enum { IN_GOOD_FAITH = 800, FLOOD = 5000 };
    unsigned id = 1;

    h2_kit_connect(k, true, false);
    clock_fake(clock_us(), clock_wall_us());
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    for (unsigned i = 0; i < LIMIT_H2_STREAMS + IN_GOOD_FAITH; i++, id += 2)
        send_head(k, id, true);
    h2_kit_settle(k);
    is_u64(k->n_held, LIMIT_H2_STREAMS, "of what a client opens before it knows how much it may, so many are served");
    is_int(k->end, CLIENT_OPEN, "some too many are only refused");
    for (unsigned i = 0; i < FLOOD && k->end == CLIENT_OPEN; i++, id += 2)
        send_head(k, id, true);
    ok(h2_kit_ended(k), "a flood of them ends the connection");
    clock_real();
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "flood"), 1, "counted");
}

/* Of such a stream nghttp2 remembers nothing, and ignores what comes for it. */
static void test_closed_streams(struct front_h2_kit *k)
{
    unsigned id = 1;

    h2_kit_connect(k, true, false);
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    for (unsigned i = 0; i < 3 * LIMIT_H2_STREAMS; i++, id += 2) {
        send_head(k, id, true);
        if (!h2_kit_held(k, i + 1))
            break;
        h2_kit_reply(&k->held[i], 200, "");
    }
    is_u64(k->n_held, 3 * LIMIT_H2_STREAMS, "many requests, one after the other");
    for (unsigned i = 0; i < 5000 && k->end == CLIENT_OPEN; i++)
        send_head(k, 1, true);
    ok(h2_kit_ended(k), "a flood of heads of streams that are over ends the connection");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "flood"), 1, "counted");
}

static void rapid_reset(struct front_h2_kit *k, uint32_t code)
{
    h2_kit_connect(k, false, false);
    for (int i = 0; i < 300 && k->end == CLIENT_OPEN; i++) {
        struct req *r = h2_kit_get(k, "/x");

        nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, code);
        h2_kit_flush(k);
        if (i % 50 == 0)
            loop_run_once(k->front.loop, 0);
        if (k->n_req > KIT_REQUESTS - 10)
            break;
    }
    ok(h2_kit_ended(k), "rapid resets end the connection");
    is_int((int)k->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM, "which is told why");
    ok(k->n_held <= LIMIT_H2_RESETS + 200, "the proxy saw %u of them", k->n_held);
    for (unsigned i = 0; i < k->n_held; i++)
        if (k->held[i].gone != 1)
            ok(false, "request %u was told %u times", i, k->held[i].gone);
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "flood"), 1, "counted");
}

static void reset_one(struct front_h2_kit *k)
{
    unsigned n = k->n_held;
    struct req *r = h2_kit_get(k, "/x");

    if (!h2_kit_held(k, n + 1))
        return;
    nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
    h2_kit_flush(k);
    h2_kit_told(k, &k->held[n], "gone");
}

/* As many as are allowed in one moment, and one more. */
static void test_resets_allowed(struct front_h2_kit *k)
{
    struct req *r;

    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    for (unsigned i = 0; i < LIMIT_H2_RESETS; i++)
        reset_one(k);
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "%u resets: the connection goes on", (unsigned)LIMIT_H2_RESETS);
    reset_one(k);
    ok(h2_kit_ended(k), "one more ends it");
    clock_real();
}

/* One client of it must not be able to end the requests of all others. */
static void test_resets_of_a_peer(struct front_h2_kit *k)
{
    struct req *other;

    k->of_peer = true;
    h2_kit_connect(k, false, false);
    other = h2_kit_get(k, "/other");
    ok(h2_kit_held(k, 1), "a peer asks for somebody");
    for (unsigned i = 1; i < LIMIT_CLIENT_RESETS + 50 && k->end == CLIENT_OPEN; i++) {
        struct req *r = h2_kit_get(k, "/x");

        if (!h2_kit_held(k, i + 1))
            break;
        nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
        h2_kit_flush(k);
        h2_kit_told(k, &k->held[i], "gone");
    }
    is_u64(k->n_held, LIMIT_CLIENT_RESETS + 50, "and passes on what others give up");
    h2_kit_reply(&k->held[0], 200, "");
    ok(h2_kit_closed(k, other) && other->status == 200, "which ends nobody else's request");
}

static struct req *ask_for(struct front_h2_kit *k, const char *client)
{
    char field[64];

    snprintf(field, sizeof(field), "x-forwarded-for: %s\n", client);
    return h2_kit_ask(k, "GET", "/x", "h", field, 0);
}

/* Of another proxy neither: it is his account that they are on. */
static void test_resets_behind_a_proxy(struct front_h2_kit *k)
{
    struct req *other;

    k->for_clients = true;
    h2_kit_connect(k, false, false);
    other = ask_for(k, "10.0.0.2");
    ok(h2_kit_held(k, 1), "a proxy asks for somebody");
    for (unsigned i = 0; i < LIMIT_H2_RESETS + 1; i++) {
        struct req *r = ask_for(k, "10.0.0.1");

        if (!h2_kit_held(k, i + 2))
            break;
        nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
        h2_kit_flush(k);
        h2_kit_told(k, &k->held[i + 1], "gone");
    }
    is_double(front_kit_metric(&k->front, GIVEN_UP, NULL), LIMIT_H2_RESETS + 1, "what is given up is counted");
    h2_kit_reply(&k->held[0], 200, "");
    ok(h2_kit_closed(k, other) && other->status == 200, "and nobody's connection ends");
    is_double(front_kit_closed(&k->front, "flood"), 0, "no flood");
}

/* What is not answered for the proxy's own reasons is nobody's attack. */
static void test_own_resets(struct front_h2_kit *k)
{
    struct req *r;

    clock_fake(clock_us(), clock_wall_us());
    h2_kit_connect(k, false, false);
    for (unsigned i = 0; i < LIMIT_H2_RESETS + 5; i++) {
        r = h2_kit_get(k, "/x");
        if (!h2_kit_held(k, i + 1))
            break;
        exchange_abort(k->held[i].x, "test");
        k->held[i].x = NULL;
        h2_kit_closed(k, r);
    }
    is_u64(k->n_held, LIMIT_H2_RESETS + 5, "more requests than a client may give up in a second are reset by us");
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the next one is answered");
    is_double(front_kit_closed(&k->front, "flood"), 0, "no flood");
    clock_real();
}

/* So many heads from the nth on, of 800 KB each in 200 bytes; of: for which client of a proxy; NULL: its own. */
static void send_dear_heads(struct front_h2_kit *k, unsigned nth, unsigned n, const char *of)
{
    struct buf b;

    buf_init(&b, 1 << 20);
    if (nth == 0)
        buf_append(&b, slice_of(KIT_PREFACE, sizeof(KIT_PREFACE) - 1));
    for (unsigned i = 0; i < n; i++)
        h2_kit_append_dear_head(&b, nth + i, DEAR_FIELDS, of);
    h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
    buf_free(&b);
}

static void connect_with_large_heads(struct front_h2_kit *k)
{
    k->front.opts.max_head_bytes = 1 << 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, true, false);
}

/* Nor to have them refused because of what it has kept here. */
static void test_dear_heads_of_a_peer(struct front_h2_kit *k)
{
    k->of_peer = true;
    connect_with_large_heads(k);
    send_dear_heads(k, 0, 20, NULL);
    ok(h2_kit_held(k, 20), "large heads of a peer's clients are not counted against each other");
}

static unsigned held_of(const struct front_h2_kit *k, const char *client)
{
    unsigned n = 0;

    for (unsigned i = 0; i < k->n_held; i++)
        n += k->held[i].x != NULL &&
             slice_eq(http_head_value(exchange_request(k->held[i].x), HTTP_X_FORWARDED_FOR), slice_str(client));
    return n;
}

static unsigned held_from(const struct front_h2_kit *k, const char *ip)
{
    unsigned n = 0;

    for (unsigned i = 0; i < k->n_held; i++)
        n += k->held[i].x != NULL && strcmp(exchange_client(k->held[i].x)->ip, ip) == 0;
    return n;
}

static bool others_are_held(void *arg)
{
    return held_of(arg, "10.0.0.2") == 2;
}

/* Of another proxy each client has what a connection of its own would have. */
static void test_dear_heads_behind_a_proxy(struct front_h2_kit *k)
{
    unsigned greedy;

    k->for_clients = true;
    connect_with_large_heads(k);
    send_dear_heads(k, 0, 20, "10.0.0.1");
    send_dear_heads(k, 20, 2, "10.0.0.2");
    ok(h2_kit_until(k, others_are_held, k), "one client's large heads refuse nobody else's on a proxy's connection");
    greedy = held_of(k, "10.0.0.1");
    ok(greedy > 1 && greedy * DEAR_FIELDS * KIT_DEAR_VALUE <= LIMIT_CONNECTION_HEADS, "%u of his are kept", greedy);
    h2_kit_reply(&k->held[0], 200, "");
    send_dear_heads(k, 22, 1, "10.0.0.1");
    ok(h2_kit_held(k, greedy + 3), "when one has ended there is room for another");
}

static void test_rapid_reset(struct front_h2_kit *k)
{
    rapid_reset(k, NGHTTP2_CANCEL);
}

/* What a client calls it makes no difference. */
static void test_rapid_reset_no_error(struct front_h2_kit *k)
{
    rapid_reset(k, NGHTTP2_NO_ERROR);
}

static void test_rapid_reset_own_code(struct front_h2_kit *k)
{
    rapid_reset(k, 0xfeedbeef);
}

/* Given up when the answer has begun: the server behind us has worked for it all the same. */
static void test_resets_of_answers(struct front_h2_kit *k)
{
    unsigned n;

    h2_kit_connect(k, false, true);
    for (n = 0; n < 2 * LIMIT_H2_RESETS && k->end == CLIENT_OPEN; n++) {
        struct req *r = h2_kit_get(k, "/x");
        struct held *h = &k->held[n];

        if (!h2_kit_held(k, n + 1))
            break;
        exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
        h2_kit_status(k, r);
        nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
        h2_kit_flush(k);
        h2_kit_told(k, h, "gone");
    }
    ok(h2_kit_ended(k), "answers that are given up one after the other end the connection (after %u)", n);
    is_double(front_kit_closed(&k->front, "flood"), 1, "counted");
}

/* A client closes its connection with all that it has asked for: that is given up as if each had been reset. */
static void test_given_up_with_the_connection(struct front_h2_kit *k)
{
    enum { ASKED = 50 };
    struct req *first;

    k->accounts = true;
    h2_kit_connect(k, false, false);
    first = h2_kit_get(k, "/x");
    for (unsigned i = 1; i < ASKED; i++)
        (void)h2_kit_get(k, "/x");
    ok(h2_kit_held(k, ASKED), "asked");
    h2_kit_reply(&k->held[0], 200, "");
    ok(h2_kit_closed(k, first), "one has its answer");
    h2_kit_disconnect(k);
    ok(front_kit_empty(&k->front), "gone");
    is_double(front_kit_metric(&k->front, GIVEN_UP, NULL), ASKED - 1, "the others are given up");
}

/* Many connections of one address, each of which keeps to what one may do. */
static void test_resets_of_an_address(struct front_h2_kit *k)
{
    enum { EACH = LIMIT_H2_RESETS / 2, CONNECTIONS = LIMIT_CLIENT_RESETS / EACH + 4 };
    /* To the host "?", so that the proxy is never shown it. */
    static const unsigned char request[15] = {0, 0, 6, 1, 5, 0, 0, 0, 0, 0x82, 0x87, 0x84, 0x41, 1, '?'};
    struct stream *s[CONNECTIONS];
    struct buf b;

    buf_init(&b, 64 << 10);
    buf_append(&b, slice_of(KIT_PREFACE, sizeof(KIT_PREFACE) - 1));
    for (unsigned id = 1; id < 2 * EACH; id += 2) {
        unsigned char reset[13] = {0, 0, 4, 3, 0, 0, 0, 0, (unsigned char)id, 0, 0, 0, 8}, head[15];

        memcpy(head, request, sizeof(head));
        head[8] = (unsigned char)id;
        buf_append(&b, slice_of((const char *)head, sizeof(head)));
        buf_append(&b, slice_of((const char *)reset, sizeof(reset)));
    }
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        h2_kit_connect(k, true, false);
        s[i] = k->s;
    }
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        k->s = s[i];
        k->end = CLIENT_OPEN;
        h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
    }
    buf_free(&b);
    h2_kit_settle(k);
    ok(front_kit_closed(&k->front, "flood") > 0, "resets of many connections of one address are a flood (%.0f)",
       front_kit_closed(&k->front, "flood"));
    ok(front_connections(k->front.front) > 0, "those before are not ended");
    for (unsigned i = 0; i < CONNECTIONS; i++)
        stream_close(s[i], STREAM_CLOSE_ABORT);
    k->s = NULL;
}

static void test_provoked_resets(struct front_h2_kit *k)
{
    h2_kit_connect(k, false, false);
    for (int i = 0; i < 300 && k->end == CLIENT_OPEN; i++) {
        h2_kit_ask(k, "GET", "/x", "h", "connection: close\n", 0);
        loop_run_once(k->front.loop, 0);
    }
    ok(h2_kit_ended(k), "so do requests that are malformed on purpose");
    is_int((int)k->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM, "told why");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "flood"), 1, "counted");
}

static void test_dear_heads(struct front_h2_kit *k)
{
    enum { HEADS = 8 };
    double before = 0, most = 0;
    struct buf b;

    h2_kit_connect(k, true, false);
    buf_init(&b, 1 << 20);
    buf_append(&b, slice_of(KIT_PREFACE, sizeof(KIT_PREFACE) - 1));
    for (unsigned i = 0; i < HEADS; i++)
        h2_kit_append_dear_head(&b, i, KIT_DEAR_BYTES - 5000, NULL);
    h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
    buf_free(&b);
    for (int turn = 0; turn < 10000 && before < HEADS; turn++) {
        double now;

        loop_run_once(k->front.loop, 20);
        now = front_kit_metric(&k->front, "mvproxy_front_refusals_total", "431");
        most = now - before > most ? now - before : most;
        before = now;
    }
    is_double(before, HEADS, "heads that cost us more than their sender are refused");
    ok(most <= 2, "at most two of them in a turn (%.0f)", most);
}

static bool all_judged(void *arg)
{
    struct front_h2_kit *k = arg;

    return k->n_held + front_kit_metric(&k->front, "mvproxy_front_refusals_total", "429") >= 50;
}

/* What a connection may have us keep is bounded. */
static void test_many_dear_heads(struct front_h2_kit *k)
{
    static const unsigned char reset[] = {0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8};
    unsigned held;

    connect_with_large_heads(k);
    send_dear_heads(k, 0, 50, NULL);
    ok(h2_kit_until(k, all_judged, k), "many large heads at once");
    held = k->n_held;
    ok(held > 1 && held * DEAR_FIELDS * KIT_DEAR_VALUE <= LIMIT_CONNECTION_HEADS, "%u are kept, the rest is refused",
       held);
    h2_kit_raw(k, reset, sizeof(reset));
    h2_kit_told(k, &k->held[0], "gone");
    send_dear_heads(k, 50, 1, NULL);
    ok(h2_kit_held(k, held + 1), "when one has ended there is room for another");
}

/* Each is decoded in pieces, and others are served between them. */
static void test_dear_heads_in_turns(struct front_h2_kit *k)
{
    enum { HEADS = 4, LEAST_TURNS = HEADS * DEAR_FIELDS * KIT_DEAR_VALUE / (256 << 10) };
    static const unsigned char ask[] = {0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x87, 0x84, 1, 1, 'h'};
    static struct front_client other;
    unsigned turns = 0, when_other = 0;

    connect_with_large_heads(k);
    client_open(&k->front, &other);
    client_send_bytes(&other, slice_of(KIT_PREFACE, sizeof(KIT_PREFACE) - 1));
    h2_kit_settle(k);
    send_dear_heads(k, 0, HEADS, NULL);
    for (; k->n_held < HEADS + 1 && turns < 10000; turns++) {
        unsigned before = k->n_held;

        loop_run_once(k->front.loop, 20);
        if (turns == 1)
            client_send_bytes(&other, slice_of((const char *)ask, sizeof(ask)));
        for (unsigned i = before; i < k->n_held && when_other == 0; i++)
            if (exchange_request(k->held[i].x)->n_fields < DEAR_FIELDS)
                when_other = i + 1;
    }
    ok(k->n_held == HEADS + 1 && turns > LEAST_TURNS, "large heads take turns: %u", turns);
    ok(when_other > 0 && when_other < HEADS, "and others are served meanwhile (request %u)", when_other);
    client_close(&other, STREAM_CLOSE_NOW);
}

/* Who has many connections has no more turns for that than who has one. */
static void test_dear_heads_of_an_address(struct front_h2_kit *k)
{
    enum { CROWD = 8 };
    struct stream *s[CROWD + 1];

    connect_with_large_heads(k);
    s[0] = k->s;
    for (unsigned i = 1; i <= CROWD; i++) {
        h2_kit_connect_from(k, i < CROWD ? 1 : 2);
        s[i] = k->s;
    }
    for (unsigned i = 0; i <= CROWD; i++) {
        k->s = s[i];
        send_dear_heads(k, 0, 1, NULL);
    }
    for (int turn = 0; turn < 10000 && held_from(k, "127.0.0.2") == 0; turn++)
        loop_run_once(k->front.loop, 20);
    is_u64(held_from(k, "127.0.0.2"), 1, "a large head of another address");
    ok(k->n_held - 1 <= CROWD / 4, "does not wait for those of eight connections of one, but for %u of them",
       k->n_held - 1);
    for (unsigned i = 0; i <= CROWD; i++)
        stream_close(s[i], STREAM_CLOSE_ABORT);
    k->s = NULL;
}

/* A hundred heads in one piece of input, each of which has us do something: they are not begun all at once. */
static void test_dear_requests_in_turns(struct front_h2_kit *k)
{
    enum { TAKES_US = 300, MOST = 8 }; /* 1 ms of input, and as much again among those that give much to do */
    unsigned most = 0;
    struct buf b;

    h2_kit_connect(k, true, false);
    buf_init(&b, 1 << 20);
    buf_append(&b, slice_of(KIT_PREFACE, sizeof(KIT_PREFACE) - 1));
    for (unsigned i = 0; i < LIMIT_H2_STREAMS; i++) {
        unsigned char head[15] = {0, 0, 6, 1, 5, 0, 0, 0, (unsigned char)(2 * i + 1), 0x82, 0x87, 0x84, 0x41, 1, 'h'};

        buf_append(&b, slice_of((const char *)head, sizeof(head)));
    }
    clock_fake(clock_us(), clock_wall_us());
    k->takes_us = TAKES_US;
    h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
    buf_free(&b);
    for (unsigned turn = 0; turn < 10000 && k->n_held < LIMIT_H2_STREAMS; turn++) {
        unsigned before = k->n_held;

        loop_run_once(k->front.loop, 20);
        most = k->n_held - before > most ? k->n_held - before : most;
    }
    is_u64(k->n_held, LIMIT_H2_STREAMS, "all requests of a piece of input are begun");
    ok(most <= MOST, "at most so many in a turn as it has time for (%u)", most);
    k->takes_us = 0;
    clock_real();
}

/* Wherever nghttp2 has to stop inside of one, at its last field as well. */
static void test_dear_heads_of_all_lengths(struct front_h2_kit *k)
{
    unsigned n = 0;

    connect_with_large_heads(k);
    for (unsigned fields = 28; fields < 72; fields++, n++) {
        struct buf b;

        buf_init(&b, 1 << 20);
        if (n == 0)
            buf_append(&b, slice_of(KIT_PREFACE, sizeof(KIT_PREFACE) - 1));
        h2_kit_append_dear_head(&b, n, fields, NULL);
        h2_kit_raw(k, buf_slice(&b).p, buf_len(&b));
        buf_free(&b);
        if (!h2_kit_held(k, n + 1))
            break;
        if (exchange_request(k->held[n].x)->n_fields != fields + 1 + (n == 0))
            diag("%u fields: %zu came", fields, exchange_request(k->held[n].x)->n_fields);
        h2_kit_reply(&k->held[n], 200, "");
    }
    is_u64(n, 72 - 28, "heads of all lengths come in whole, one after the other");
}

static void test_stream_limit(struct front_h2_kit *k)
{
    struct req *r[150];
    unsigned refused = 0;

    h2_kit_connect(k, false, false);
    h2_kit_settle(k);
    is_u64(nghttp2_session_get_remote_settings(k->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS), LIMIT_H2_STREAMS,
           "the number of streams is announced");
    is_u64(nghttp2_session_get_remote_settings(k->session, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE),
           LIMIT_H2_STREAM_WINDOW, "so is their window");
    is_u64(nghttp2_session_get_remote_settings(k->session, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE), 16 << 10,
           "and the size of heads");
    for (int i = 0; i < 150; i++)
        r[i] = h2_kit_get(k, "/x");
    ok(h2_kit_held(k, 100), "more wait at the client");
    for (int i = 0; i < 150; i++) {
        h2_kit_held(k, (unsigned)(i < 50 ? 100 + i : 150));
        h2_kit_reply(&k->held[i], 200, "");
        h2_kit_closed(k, r[i]);
    }
    for (int i = 0; i < 150; i++)
        refused += r[i]->status != 200;
    is_int(refused, 0, "and are served in their turn");
}

static const struct h2_kit_story stories[] = {
    {"cheap floods", test_cheap_floods},
    {"honest updates", test_honest_updates},
    {"empty DATA", test_empty_data},
    {"continuation", test_continuation},
    {"honest continuations", test_honest_continuations},
    {"refused streams", test_refused_streams},
    {"closed streams", test_closed_streams},
    {"rapid reset", test_rapid_reset},
    {"rapid reset, no error", test_rapid_reset_no_error},
    {"rapid reset, own code", test_rapid_reset_own_code},
    {"resets of answers", test_resets_of_answers},
    {"given up with the connection", test_given_up_with_the_connection},
    {"resets of an address", test_resets_of_an_address},
    {"resets that are allowed", test_resets_allowed},
    {"resets of a peer", test_resets_of_a_peer},
    {"resets behind a proxy", test_resets_behind_a_proxy},
    {"our own resets", test_own_resets},
    {"dear heads of a peer", test_dear_heads_of_a_peer},
    {"dear heads behind a proxy", test_dear_heads_behind_a_proxy},
    {"provoked resets", test_provoked_resets},
    {"dear heads", test_dear_heads},
    {"many dear heads", test_many_dear_heads},
    {"dear heads in turns", test_dear_heads_in_turns},
    {"dear heads of an address", test_dear_heads_of_an_address},
    {"dear requests in turns", test_dear_requests_in_turns},
    {"dear heads of all lengths", test_dear_heads_of_all_lengths},
    {"stream limit", test_stream_limit},
};

int main(int argc, char **argv)
{
    h2_kit_run(stories, ROWS(stories), argc > 1 ? argv[1] : NULL);
    return tap_end();
}
