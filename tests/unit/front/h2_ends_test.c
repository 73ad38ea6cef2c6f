/* SPDX-License-Identifier: Apache-2.0 */
/* How HTTP/2 requests and connections end: resets, time, drain, lack of memory. */
#include "unit/front/h2_kit.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "lib/tap.h"
#include "net/stream_internal.h"

/* ---- the ways in which a request ends early ---- */

static void test_client_resets(struct front_h2_kit *k)
{
    static const char *const names[] = {"before the answer", "in the answer", "in its own body",
                                        "with the answer waiting"};
    struct req *r;

    h2_kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 64 << 20);
    for (unsigned i = 0; i < 4; i++) {
        struct held *h = &k->held[i];

        r = h2_kit_ask(k, "POST", "/x", "h", NULL, i == 2 ? KIT_LARGE : 0);
        h2_kit_held(k, i + 1);
        if (i == 1 || i == 3) {
            exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
            h2_kit_pump(h, 0, i == 3 ? 1 << 20 : 1000);
            h2_kit_status(k, r);
        }
        nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
        h2_kit_flush(k);
        ok(h2_kit_told(k, h, "gone(client cancelled the request)"), "reset %s: the proxy is told at once", names[i]);
        is_int(h->gone, 1, "once");
        is_u64(front_exchanges(k->front.front), 0, "nothing is left");
    }
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the connection goes on");
}

static void test_aborts(struct front_h2_kit *k)
{
    struct req *r[4];
    struct exchange *x;

    h2_kit_connect(k, false, false);
    for (unsigned i = 0; i < 4; i++)
        r[i] = h2_kit_get(k, "/x");
    h2_kit_held(k, 4);
    x = k->held[0].x;
    exchange_abort(x, "test");
    x = k->held[1].x;
    exchange_respond(x, h2_kit_head(&k->held[1], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_body(x, SLICE_LIT("abc"));
    exchange_abort(x, "test");
    x = k->held[2].x;
    exchange_respond(x, h2_kit_head(&k->held[2], 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 10});
    exchange_body(x, SLICE_LIT("abc"));
    exchange_finish(x, NULL);
    x = k->held[3].x;
    exchange_respond(x, h2_kit_head(&k->held[3], 200, "X-Bad", "a\nb"), (struct http_body){HTTP_BODY_LENGTH, 3});
    for (unsigned i = 0; i < 4; i++) {
        ok(h2_kit_closed(k, r[i]), "broken answer %u", i);
        is_int((int)r[i]->code, NGHTTP2_INTERNAL_ERROR, "the client sees it broken");
        ok(!r[i]->ended, "not complete");
    }
    is_int(k->held[3].gone, 1, "a head that must not be sent dooms its exchange");
    is_int(k->held[0].gone + k->held[1].gone + k->held[2].gone, 0, "the others ended by themselves");
    is_int(k->end, CLIENT_OPEN, "the connection goes on");
}

static void test_client_leaves(struct front_h2_kit *k)
{
    h2_kit_connect(k, false, false);
    for (int i = 0; i < 10; i++)
        h2_kit_ask(k, "POST", "/x", "h", NULL, i % 2 == 0 ? 0 : KIT_LARGE);
    h2_kit_held(k, 10);
    h2_kit_disconnect(k);
    ok(front_kit_empty(&k->front), "a client leaves");
    for (int i = 0; i < 10; i++)
        is_int(k->held[i].gone, 1, "request %d is told", i);
    is_double(front_kit_closed(&k->front, "client_gone") + front_kit_closed(&k->front, "stream_failed"), 1, "counted");
}

/* It ends with a FIN and without close_notify, which may be a cut: with requests under way that is a failure. */
static void test_client_is_cut(struct front_h2_kit *k)
{
    static const struct {
        bool busy;
        const char *reason;
    } rows[] = {{false, "client"}, {true, "stream_failed"}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct req *r;

        h2_kit_connect(k, false, false);
        r = h2_kit_get(k, "/sync");
        h2_kit_closed(k, r);
        if (rows[i].busy) {
            h2_kit_get(k, "/x");
            h2_kit_held(k, 1);
        }
        h2_kit_settle(k);
        (void)shutdown(k->s->fd, SHUT_WR);
        ok(front_kit_empty(&k->front), "over");
        is_double(front_kit_closed(&k->front, rows[i].reason), 1, "%s, counted as %s",
                  rows[i].busy ? "busy" : "at rest", rows[i].reason);
        h2_kit_disconnect(k);
    }
}

static void test_client_goaway(struct front_h2_kit *k)
{
    struct req *r;

    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    nghttp2_submit_goaway(k->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
    h2_kit_flush(k);
    h2_kit_settle(k);
    is_int(k->held[0].gone, 0, "a client that says goodbye gets its answer");
    h2_kit_reply(&k->held[0], 200, "bye");
    ok(h2_kit_closed(k, r) && r->status == 200, "here it is");
    ok(h2_kit_ended(k), "then the connection ends");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "client"), 1, "counted");
}

/* ---- time ---- */

/* And answered: what is sent raw is not cut in two by an ACK. */
static bool settings_seen(void *arg)
{
    return ((struct front_h2_kit *)arg)->settings > 0;
}

static void test_timeouts(struct front_h2_kit *k)
{
    static const unsigned char head_begun[] = {0, 0, 1, 1, 0, 0, 0, 0, 3, 0x82};
    struct req *r;

    k->front.opts.header_timeout_ms = 300;
    k->front.opts.idle_timeout_ms = 300;
    k->front.opts.body_timeout_ms = 300;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    ok(h2_kit_ended(k), "nothing asked");
    is_int(k->goaways, 1, "GOAWAY");
    is_double(front_kit_closed(&k->front, "no_request"), 1, "counted");
    h2_kit_disconnect(k);
    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && h2_kit_ended(k), "nothing more asked");
    is_double(front_kit_closed(&k->front, "idle_timeout"), 1, "counted");
    h2_kit_disconnect(k);
    h2_kit_connect(k, false, false);
    r = h2_kit_get(k, "/long");
    h2_kit_held(k, 1);
    h2_kit_until(k, settings_seen, k);
    h2_kit_raw(k, head_begun, sizeof(head_begun));
    ok(h2_kit_ended(k), "a head that never ends");
    ok(k->goaways > 0, "GOAWAY");
    is_double(front_kit_closed(&k->front, "header_timeout"), 1, "counted");
    h2_kit_disconnect(k);
    h2_kit_connect(k, false, true);
    r = h2_kit_ask(k, "POST", "/stall", "h", NULL, UINT64_MAX - 1);
    h2_kit_held(k, 2);
    stream_pause(k->s, STREAM_PAUSE_LIMIT); /* no WINDOW_UPDATE is seen: nothing is sent */
    ok(h2_kit_told(k, &k->held[1], "gone(request body stalled)"), "a body that stalls");
    stream_resume(k->s, STREAM_PAUSE_LIMIT);
    ok(h2_kit_status(k, r), "is answered");
    is_int(r->status, 408, "with 408");
}

struct busy_wait {
    struct front_h2_kit *k;
    struct held *h;
    uint64_t last_ms;
};

/* A frame in each 2 ms, so that the connection is never at rest. */
static bool stalled_among_others(void *arg)
{
    struct busy_wait *b = arg;

    if (clock_ms() < b->last_ms + 2)
        return b->h->gone > 0;
    b->last_ms = clock_ms();
    nghttp2_submit_window_update(b->k->session, NGHTTP2_FLAG_NONE, 0, 1);
    h2_kit_flush(b->k);
    return b->h->gone > 0;
}

static void test_stall_on_busy_connection(struct front_h2_kit *k)
{
    struct busy_wait b = {k, &k->held[1], 0};

    k->front.opts.body_timeout_ms = 300;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, true);
    h2_kit_get(k, "/long");
    h2_kit_held(k, 1);
    h2_kit_ask(k, "POST", "/stall", "h", NULL, UINT64_MAX - 1); /* as far as the window goes */
    h2_kit_held(k, 2);
    stream_pause(k->s, STREAM_PAUSE_LIMIT); /* no WINDOW_UPDATE is seen: nothing more is sent */
    ok(h2_kit_until(k, stalled_among_others, &b), "a body that stalls while the connection is busy");
    ok(h2_kit_has(&k->held[1].told, "gone(request body stalled)"), "its time is up all the same");
    is_int(k->held[0].gone, 0, "and the other request goes on");
}

static bool is_told_to_go_on(void *arg)
{
    return ((struct req *)arg)->interim == 100;
}

/* The client waits for 100 (Continue): that its body does not come is not its doing. */
static void test_continue_awaited(struct front_h2_kit *k)
{
    struct req *r;

    k->front.opts.body_timeout_ms = 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    k->hold_bodies = true;
    r = h2_kit_ask(k, "POST", "/x", "h", "expect: 100-continue\n", 5);
    h2_kit_held(k, 1);
    for (int i = 0; i < 3 && k->held[0].gone == 0; i++)
        h2_kit_later(k, 20);
    is_int(k->held[0].gone, 0, "a body that the client may not send yet");
    exchange_interim(k->held[0].x, h2_kit_head(&k->held[0], 100, NULL, NULL));
    ok(h2_kit_until(k, is_told_to_go_on, r), "now it may");
    for (int i = 0; i < 50 && k->held[0].gone == 0; i++)
        h2_kit_later(k, 20);
    ok(h2_kit_told(k, &k->held[0], "gone(request body stalled)"), "and does not: it stalls");
    clock_real();
}

static void test_header_timeout(struct front_h2_kit *k)
{
    static const unsigned char head_begun[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82};

    k->front.opts.header_timeout_ms = 200;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    h2_kit_until(k, settings_seen, k);
    h2_kit_raw(k, head_begun, sizeof(head_begun));
    ok(h2_kit_ended(k), "a first head that never ends");
    is_double(front_kit_closed(&k->front, "header_timeout"), 1, "counted");
}

/* The answer ends, or the stream does, amid its trailers: they are nobody's, and hold nobody up. */
static void trailers_too_late(struct front_h2_kit *k, bool reset)
{
    /* HEADERS: POST / on stream 1 with END_HEADERS; then trailers of 11 bytes, whole but for the last three. */
    static const unsigned char post[] = {0, 0, 6, 1, 4, 0, 0, 0, 1, 0x83, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char get[] = {0, 0, 6, 1, 5, 0, 0, 0, 3, 0x82, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char third[] = {0, 0, 6, 1, 5, 0, 0, 0, 5, 0x82, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char reset_third[] = {0, 0, 4, 3, 0, 0, 0, 0, 5, 0, 0, 0, 8};
    /* Without END_HEADERS: more is to come. */
    static const unsigned char begun[] = {0, 0, 11, 1, 1, 0, 0, 0, 1, 0, 5, 'x', '-', 's', 'u', 'm', 3, 'a', 'b', 'c'};
    static const unsigned char rest[] = {0, 0, 0, 9, 4, 0, 0, 0, 1};

    k->front.opts.header_timeout_ms = 300;
    front_update(k->front.front, &k->front.opts);
    clock_fake(clock_us(), clock_wall_us()); /* however long it takes, no head is late */
    h2_kit_connect(k, true, false);
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    h2_kit_raw(k, post, sizeof(post));
    h2_kit_raw(k, get, sizeof(get));
    h2_kit_raw(k, third, sizeof(third));
    ok(h2_kit_held(k, 3), "an upload, and two other requests");
    h2_kit_raw(k, begun, sizeof(begun));
    h2_kit_settle(k);
    if (reset)
        exchange_abort(k->held[0].x, "test");
    else
        h2_kit_reply(&k->held[0], 401, "no");
    h2_kit_settle(k);
    h2_kit_raw(k, rest, sizeof(rest));
    h2_kit_raw(k, reset_third, sizeof(reset_third));
    ok(h2_kit_told(k, &k->held[2], "gone"), "all of it has come");
    clock_fake(clock_us() + 1000000, clock_wall_us());
    for (int i = 0; i < 100; i++)
        loop_run_once(k->front.loop, 1);
    is_int(k->held[1].gone, 0, "the other goes on");
    is_double(front_kit_closed(&k->front, "header_timeout"), 0, "no head is late");
    clock_real();
}

static void test_trailers_of_an_answered_stream(struct front_h2_kit *k)
{
    trailers_too_late(k, false);
}

static void test_trailers_of_a_closed_stream(struct front_h2_kit *k)
{
    trailers_too_late(k, true);
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
    return ((struct front_h2_kit *)arg)->goaways > 0;
}

static void test_drain(struct front_h2_kit *k)
{
    struct req *busy, *late;
    int drained = 0;

    h2_kit_connect(k, false, false);
    busy = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    late = h2_kit_get(k, "/y"); /* under way when we decide to leave */
    front_drain(k->front.front, on_drained, &drained);
    ok(h2_kit_until(k, goodbye_told, k), "the client is told");
    is_int((int)k->goaway_code, NGHTTP2_NO_ERROR, "in good order");
    is_int(k->goaway_last, INT32_MAX, "with nothing taken back");
    ok(h2_kit_held(k, 2), "a request that was under way is still served");
    h2_kit_settle(k);
    is_int(k->goaways, 2, "then the last word");
    is_int(k->goaway_last, late->id, "which names the last request");
    is_int(drained, 0, "not drained while requests are served");
    h2_kit_reply(&k->held[1], 200, "late");
    ok(h2_kit_closed(k, late) && late->status == 200, "one is answered");
    h2_kit_reply(&k->held[0], 200, "busy");
    ok(h2_kit_closed(k, busy) && busy->status == 200, "then the other");
    ok(h2_kit_until(k, is_drained, &drained), "and the front is drained");
    ok(h2_kit_ended(k), "the connection is over");
    is_double(front_kit_closed(&k->front, "drain"), 1, "counted");
}

/* Time is what the clock says, and looks come by the real one. */
static void pass(struct front_h2_kit *k, unsigned seconds, unsigned looks)
{
    clock_fake(clock_us() + seconds * 1000000, clock_wall_us());
    for (unsigned i = 0; i < looks * 2; i++)
        h2_kit_later(k, 1);
}

/* Windows that he opens a little, so that nothing waits in the socket. Of one whom nobody knows that is not enough. */
static void drain_beside_reader(struct front_h2_kit *k, bool known)
{
    struct held *h = &k->held[0];
    struct req *r;
    uint64_t given;

    r = h2_kit_answering(k);
    if (known)
        exchange_vouch(h->x);
    given = h2_kit_pump(h, 0, KIT_LARGE); /* as much as he takes without being asked */
    h2_kit_settle(k);
    given = h2_kit_pump(h, given, KIT_LARGE);
    front_drain(k->front.front, NULL, NULL);
    for (int takes = 5000; takes > 0 && k->end == CLIENT_OPEN; takes = takes == 5000 ? 5 : 0) {
        pass(k, 2, takes == 5000 ? 12 : 1);
        is_int(k->end, CLIENT_OPEN, "has time for what waits");
        nghttp2_submit_window_update(k->session, NGHTTP2_FLAG_NONE, 0, takes);
        nghttp2_submit_window_update(k->session, NGHTTP2_FLAG_NONE, r->id, takes);
        h2_kit_flush(k);
        pass(k, 5, 4);
        is_int(k->end == CLIENT_OPEN, known && takes == 5000, "after 5 s in which he took %d bytes", takes);
        if (k->end == CLIENT_OPEN)
            given = h2_kit_pump(h, given, KIT_LARGE);
    }
    ok(h2_kit_ended(k), "holds the drain no longer");
    clock_real();
    is_double(front_kit_closed(&k->front, "drain"), 1, "counted");
    is_int(h->gone, 1, "the proxy is told");
}

static void test_drain_beside_slow_reader(struct front_h2_kit *k)
{
    drain_beside_reader(k, true);
}

static void test_drain_beside_stranger(struct front_h2_kit *k)
{
    drain_beside_reader(k, false);
}

/* His other requests, and of another mvproxy those of others, are not lost to the one whose answer he leaves. */
static void test_drain_beside_unanswered(struct front_h2_kit *k)
{
    struct held *paused = &k->held[0], *unanswered = &k->held[1];
    struct req *r;

    h2_kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 64 << 20);
    clock_fake(clock_us(), clock_wall_us());
    (void)h2_kit_get(k, "/x");
    r = h2_kit_ask(k, "POST", "/x", "h", NULL, 0);
    h2_kit_held(k, 2);
    exchange_respond(paused->x, h2_kit_head(paused, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    (void)h2_kit_pump(paused, 0, KIT_LARGE);
    front_drain(k->front.front, NULL, NULL);
    pass(k, 20, 12);
    is_int(k->end, CLIENT_OPEN, "one request is with its server");
    exchange_respond(unanswered->x, h2_kit_head(unanswered, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 2});
    exchange_body(unanswered->x, SLICE_LIT("ok"));
    exchange_finish(unanswered->x, NULL);
    ok(h2_kit_closed(k, r) && r->status == 200 && r->ended, "it is answered");
    for (int i = 0; i < 2; i++)
        pass(k, 6, 12); /* of what he has taken with it the time began anew */
    ok(h2_kit_ended(k), "then nothing holds the drain");
    clock_real();
    is_int(paused->gone, 1, "the proxy is told");
}

/* A client that opens a stream in the same breath in which it says that it has heard the first GOAWAY. */
static void test_drain_late(struct front_h2_kit *k)
{
    static const unsigned char heard[17] = {0, 0, 8, 6, 1};
    struct req *busy, *late;
    struct buf both;
    const uint8_t *p;
    ssize_t n;

    h2_kit_connect(k, false, false);
    busy = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    h2_kit_settle(k);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    front_drain(k->front.front, NULL, NULL);
    h2_kit_settle(k);
    buf_init(&both, 64 << 10);
    buf_append(&both, slice_of((const char *)heard, sizeof(heard)));
    k->hold_output = true;
    late = h2_kit_get(k, "/late");
    while ((n = nghttp2_session_mem_send(k->session, &p)) > 0)
        buf_append(&both, slice_of((const char *)p, (size_t)n));
    k->hold_output = false;
    h2_kit_raw(k, buf_slice(&both).p, buf_len(&both));
    buf_free(&both);
    stream_resume(k->s, STREAM_PAUSE_LIMIT);
    ok(h2_kit_held(k, 2), "a request behind the answer to our PING is shown to the proxy");
    h2_kit_settle(k);
    is_int(k->held[1].gone, 0, "which keeps it");
    is_int(k->goaway_last, late->id, "so the last GOAWAY must not say that it was not looked at");
    if (k->held[1].x != NULL)
        h2_kit_reply(&k->held[1], 200, "late");
    ok(h2_kit_closed(k, late) && late->status == 200, "it is answered");
    h2_kit_reply(&k->held[0], 200, "busy");
    ok(h2_kit_closed(k, busy) && busy->status == 200, "as is the other");
    ok(h2_kit_ended(k), "then the connection ends");
}

/* GET / at h, as a whole stream. */
static void open_raw(struct front_h2_kit *k, unsigned id)
{
    unsigned char head[15] = {0, 0, 6, 1, 5, 0, 0, 0, 0, 0x82, 0x87, 0x84, 0x41, 1, 'h'};

    head[6] = (unsigned char)(id >> 16);
    head[7] = (unsigned char)(id >> 8);
    head[8] = (unsigned char)id;
    h2_kit_raw(k, head, sizeof(head));
}

/* A client that has been told that no further stream is looked at, and opens some all the same: a few, or very many. */
static void streams_after_goaway(struct front_h2_kit *k, unsigned n)
{
    struct req *busy;

    h2_kit_connect(k, false, false);
    busy = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    front_drain(k->front.front, NULL, NULL);
    ok(h2_kit_until(k, goodbye_told, k), "the client is told");
    h2_kit_settle(k);
    is_int(k->goaway_last, busy->id, "which stream was the last");
    for (unsigned i = 1; i <= n && k->end == CLIENT_OPEN; i++) {
        open_raw(k, (unsigned)busy->id + 2 * i);
        if (i % 200 == 0)
            loop_run_once(k->front.loop, 0);
    }
    h2_kit_settle(k);
    is_int((int)k->n_held, 1, "streams that it opens then are not served");
}

static void test_after_goaway(struct front_h2_kit *k)
{
    streams_after_goaway(k, 10);
    h2_kit_reply(&k->held[0], 200, "busy");
    ok(h2_kit_closed(k, &k->req[0]) && k->req[0].status == 200, "what was under way is answered");
    is_int((int)k->goaway_code, NGHTTP2_NO_ERROR, "no harm is meant by streams that crossed the GOAWAY");
    ok(h2_kit_ended(k), "the connection ends");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "drain"), 1, "counted");
}

static void test_flood_after_goaway(struct front_h2_kit *k)
{
    streams_after_goaway(k, 20000);
    ok(h2_kit_ended(k), "thousands of them are a flood");
    is_int((int)k->goaway_code, NGHTTP2_ENHANCE_YOUR_CALM, "told why");
    is_int(k->held[0].gone, 1, "and the proxy is told");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "flood"), 1, "counted");
}

static void test_drain_idle(struct front_h2_kit *k)
{
    int drained = 0;

    h2_kit_connect(k, false, false);
    h2_kit_closed(k, h2_kit_get(k, "/sync"));
    front_drain(k->front.front, on_drained, &drained);
    ok(h2_kit_until(k, is_drained, &drained), "an idle connection ends");
    ok(h2_kit_ended(k), "for the client too");
    is_double(front_kit_closed(&k->front, "drain"), 1, "counted");
}

static void test_drain_silent(struct front_h2_kit *k)
{
    int drained = 0;

    h2_kit_connect(k, true, false);
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    h2_kit_settle(k);
    front_drain(k->front.front, on_drained, &drained);
    ok(h2_kit_until(k, is_drained, &drained), "a client that does not answer our PING does not hold us up");
}

/* A head that does not end, of a client that has asked nothing else or something: neither holds a drain. */
static void test_drain_unfinished(struct front_h2_kit *k)
{
    static const unsigned char begun[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82}, again[] = {0, 0, 1, 1, 0, 0, 0, 0, 3, 0x82};
    struct stream *first;
    int drained = 0;

    h2_kit_connect(k, true, false);
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    h2_kit_raw(k, begun, sizeof(begun));
    h2_kit_settle(k);
    first = k->s;
    h2_kit_connect(k, false, false);
    h2_kit_closed(k, h2_kit_get(k, "/sync"));
    h2_kit_settle(k);
    h2_kit_raw(k, again, sizeof(again));
    h2_kit_settle(k);
    front_drain(k->front.front, on_drained, &drained);
    ok(h2_kit_until(k, is_drained, &drained), "heads that do not end do not hold a drain");
    stream_close(first, STREAM_CLOSE_ABORT);
}

static void test_free_busy(struct front_h2_kit *k)
{
    h2_kit_connect(k, false, false);
    for (int i = 0; i < 3; i++)
        h2_kit_get(k, "/x");
    h2_kit_held(k, 3);
    front_free(k->front.front);
    k->front.front = NULL;
    is_int(k->held[0].gone + k->held[1].gone + k->held[2].gone, 3, "freed in the middle of it all");
    ok(h2_kit_has(&k->held[0].told, "gone(shutting down)"), "the proxy is told why");
    ok(h2_kit_ended(k), "the connection is closed");
}

static void test_request_limit(struct front_h2_kit *k)
{
    struct req *r[3];

    k->front.opts.max_requests_per_connection = 2;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    r[0] = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r[0]) && k->goaways == 0, "first of two requests");
    r[1] = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r[1]) && h2_kit_ended(k), "the second is the last");
    ok(k->goaways >= 1, "GOAWAY says so");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "request_limit"), 1, "counted");
}

static void test_sent_away(struct front_h2_kit *k)
{
    struct req *held, *r;

    h2_kit_connect(k, false, false);
    held = h2_kit_get(k, "/held");
    h2_kit_held(k, 1);
    r = h2_kit_get(k, "/away");
    ok(h2_kit_closed(k, r) && r->status == 200, "an answer that sends the client away");
    h2_kit_settle(k);
    ok(k->goaways >= 1 && !held->closed, "GOAWAY, and what else is under way goes on");
    h2_kit_reply(&k->held[0], 200, "held");
    ok(h2_kit_closed(k, held) && held->status == 200, "to its end");
    ok(h2_kit_ended(k), "then the connection ends");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "sent_away"), 1, "counted");
}

static void test_ping(struct front_h2_kit *k)
{
    h2_kit_connect(k, false, false);
    nghttp2_submit_ping(k->session, NGHTTP2_FLAG_NONE, (const uint8_t *)"12345678");
    h2_kit_flush(k);
    h2_kit_settle(k);
    is_int(k->pings, 1, "PING is answered");
}

/* ---- memory ---- */

static bool scenario_over(void *arg)
{
    struct front_h2_kit *k = arg;

    return k->end != CLIENT_OPEN || (k->req[0].closed && k->req[1].closed);
}

static bool scenario(struct front_h2_kit *k, uint64_t nth, uint64_t *calls)
{
    uint64_t before;
    bool good;

    k->n_held = 0;
    h2_kit_connect(k, false, false);
    h2_kit_settle(k);
    before = mem_calls();
    mem_fail_nth(nth);
    h2_kit_get(k, "/sync");
    h2_kit_ask(k, "POST", "/whole", "h", "x-long-name: value\ncookie: a\ncookie: b\n", 300000);
    if (!h2_kit_until(k, scenario_over, k))
        ok(false, "allocation %llu: neither answered nor closed", (unsigned long long)nth);
    mem_fail_nth(0);
    *calls = mem_calls() - before;
    good = k->end == CLIENT_OPEN && k->req[0].status == 200 && k->req[1].status == 200;
    h2_kit_disconnect(k);
    front_kit_empty(&k->front);
    for (unsigned i = 0; i < k->n_held; i++)
        buf_free(&k->held[i].told);
    return good;
}

static void test_no_memory(struct front_h2_kit *k)
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

struct refused_goal {
    struct front_h2_kit *k;
    struct req *r;
    unsigned n_held;
};

static bool refused_or_held(void *arg)
{
    struct refused_goal *g = arg;

    return g->r->closed || g->k->end != CLIENT_OPEN || g->k->n_held > g->n_held;
}

/* The head of a request that there was no memory for is over, too: its time must not run on. */
static void test_no_memory_for_a_head(struct front_h2_kit *k)
{
    bool seen = false;

    k->front.opts.header_timeout_ms = 1000; /* must not end what a busy machine is slow with */
    front_update(k->front.front, &k->front.opts);
    for (uint64_t nth = 0; nth < 57 && !seen; nth++) { /* three times, if the machine was slow just then */
        struct req *r;
        uint64_t refused_ms;

        h2_kit_connect(k, false, false);
        h2_kit_closed(k, h2_kit_get(k, "/sync"));
        h2_kit_get(k, "/held"); /* has the memory that the first has given back */
        h2_kit_held(k, k->n_held + 1);
        h2_kit_settle(k);
        mem_fail_nth(1 + nth % 19);
        r = h2_kit_get(k, "/x");
        h2_kit_until(k, refused_or_held, &(struct refused_goal){k, r, k->n_held});
        mem_fail_nth(0);
        seen = r->closed && k->end == CLIENT_OPEN;
        refused_ms = loop_now_ms(k->front.loop);
        while (seen && loop_now_ms(k->front.loop) - refused_ms < 1500)
            loop_run_once(k->front.loop, 10);
        if (seen)
            is_int(k->goaways, 0, "a request without memory, and its connection goes on");
        h2_kit_disconnect(k);
        front_kit_empty(&k->front);
    }
    ok(seen, "seen");
}

static const struct h2_kit_story stories[] = {
    {"client resets", test_client_resets},
    {"aborts", test_aborts},
    {"client leaves", test_client_leaves},
    {"client is cut", test_client_is_cut},
    {"client says goodbye", test_client_goaway},
    {"timeouts", test_timeouts},
    {"stall on a busy connection", test_stall_on_busy_connection},
    {"continue awaited", test_continue_awaited},
    {"header timeout", test_header_timeout},
    {"trailers of an answered stream", test_trailers_of_an_answered_stream},
    {"trailers of a closed stream", test_trailers_of_a_closed_stream},
    {"drain", test_drain},
    {"drain beside a slow reader", test_drain_beside_slow_reader},
    {"drain beside a stranger", test_drain_beside_stranger},
    {"drain beside an unanswered request", test_drain_beside_unanswered},
    {"drain late", test_drain_late},
    {"streams after GOAWAY", test_after_goaway},
    {"a flood of them", test_flood_after_goaway},
    {"drain idle", test_drain_idle},
    {"drain silent", test_drain_silent},
    {"drain, unfinished heads", test_drain_unfinished},
    {"free while busy", test_free_busy},
    {"request limit", test_request_limit},
    {"sent away", test_sent_away},
    {"ping", test_ping},
    {"no memory", test_no_memory},
    {"no memory for a head", test_no_memory_for_a_head},
};

int main(int argc, char **argv)
{
    h2_kit_run(stories, ROWS(stories), argc > 1 ? argv[1] : NULL);
    return tap_end();
}
