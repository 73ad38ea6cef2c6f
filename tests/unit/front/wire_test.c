/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a socket or nghttp2 rarely says, said for them: bytes that cannot be written, a client's kernel that has not
 * taken all, a frame that cannot be made.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "front/h1_state.h"
#include "lib/tap.h"
#include "unit/front/h2_kit.h"

/* ---- what is said ---- */

static const struct stream *client_side; /* nothing is said of this one */
static bool broken;                      /* nothing more can be written, but for so many pieces */
static unsigned pieces_before;
static size_t unsent_says, unacknowledged_says; /* 0: the truth */
static uint64_t wire_more;                      /* than there were on the wire in truth */
static const struct stream *only;               /* of this one; NULL: of all */

static bool is_meant(const struct stream *s)
{
    return s != client_side && (only == NULL || s == only);
}

bool __real_stream_write(struct stream *s, struct slice data);
bool __wrap_stream_write(struct stream *s, struct slice data);
size_t __real_stream_unsent(const struct stream *s);
size_t __wrap_stream_unsent(const struct stream *s);
size_t __real_stream_unacknowledged(const struct stream *s);
size_t __wrap_stream_unacknowledged(const struct stream *s);
uint64_t __real_stream_wire_bytes(const struct stream *s);
uint64_t __wrap_stream_wire_bytes(const struct stream *s);

bool __wrap_stream_write(struct stream *s, struct slice data)
{
    if (broken && s != client_side) {
        if (pieces_before == 0)
            return false;
        pieces_before--;
    }
    return __real_stream_write(s, data);
}

size_t __wrap_stream_unsent(const struct stream *s)
{
    return is_meant(s) && unsent_says > 0 ? unsent_says : __real_stream_unsent(s);
}

size_t __wrap_stream_unacknowledged(const struct stream *s)
{
    return is_meant(s) && unacknowledged_says > 0 ? unacknowledged_says : __real_stream_unacknowledged(s);
}

uint64_t __wrap_stream_wire_bytes(const struct stream *s)
{
    return __real_stream_wire_bytes(s) + (is_meant(s) ? wire_more : 0);
}

static const char *without_memory; /* the function of nghttp2 that finds none; NULL: none */

#define WRAPPED(name, params, args)                                                                                    \
    int __real_##name params;                                                                                          \
    int __wrap_##name params;                                                                                          \
    int __wrap_##name params                                                                                           \
    {                                                                                                                  \
        return without_memory != NULL && strcmp(without_memory, #name) == 0 ? NGHTTP2_ERR_NOMEM : __real_##name args;  \
    }

WRAPPED(nghttp2_submit_trailer, (nghttp2_session * s, int32_t id, const nghttp2_nv *nva, size_t n), (s, id, nva, n))
WRAPPED(nghttp2_session_terminate_session, (nghttp2_session * s, uint32_t code), (s, code))
WRAPPED(nghttp2_session_set_stream_user_data, (nghttp2_session * s, int32_t id, void *data), (s, id, data))
WRAPPED(nghttp2_submit_ping, (nghttp2_session * s, uint8_t flags, const uint8_t *data), (s, flags, data))

static void be_true(void)
{
    broken = false;
    pieces_before = 0;
    unsent_says = unacknowledged_says = 0;
    wire_more = 0;
    only = NULL;
    without_memory = NULL;
    client_side = NULL;
}

/* ---- HTTP/1.1: a client that cannot be written to ---- */

static void open_client(struct front_kit *w, struct front_client *c)
{
    client_open(w, c);
    client_side = c->s;
}

enum answer_part { INTERIM, HEAD, BODY, END, UPGRADE };

static const struct {
    const char *name;
    enum answer_part part;
    unsigned pieces; /* that can be written of this part */
    const char *reason;
} unwritten[] = {
    {"interim answer", INTERIM, 0, "response_aborted"},        {"head", HEAD, 0, "response_aborted"},
    {"chunk's length", BODY, 0, "response_aborted"},           {"chunk", BODY, 1, "response_aborted"},
    {"end of a chunk", BODY, 2, "response_aborted"},           {"end of the body", END, 0, "response_aborted"},
    {"head of another protocol", UPGRADE, 0, "stream_failed"},
};

/* What the proxy is told by the call itself. */
static bool give(struct front_kit *w, enum answer_part part)
{
    struct http_head *head;
    struct exchange *x = w->x;

    switch (part) {
    case INTERIM:
        return exchange_interim(x, head_of(w, 103, NULL, NULL));
    case HEAD:
        return exchange_respond(x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    case BODY:
        return exchange_body(x, SLICE_LIT("abc"));
    case END:
        w->x = NULL;
        exchange_finish(x, NULL);
        return false;
    case UPGRADE:
        head = head_of(w, 101, "Upgrade", "x");
        w->x = NULL;
        return exchange_upgrade(x, head) != NULL;
    }
    return true;
}

static void unwritable(struct front_kit *w, size_t i)
{
    enum answer_part part = unwritten[i].part;
    struct front_client c;
    bool told = part != END && part != UPGRADE; /* of the others the proxy is through with it */

    open_client(w, &c);
    client_send(&c, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    ok(front_kit_handled(w, w->handled + 1), "a request");
    if (part == BODY || part == END)
        ok(give(w, HEAD), "whose answer begins");
    broken = true;
    pieces_before = unwritten[i].pieces;
    ok(!give(w, part), "%s that cannot be written", unwritten[i].name);
    is_u64(pieces_before, 0, "written as far as it could be");
    if (told)
        ok(front_kit_sink_has(w, "gone(client cannot be written to)"), "the proxy is told");
    ok(front_kit_empty(w), "that is the end");
    be_true();
    is_u64(w->gone, told, "told once, or not at all");
    is_double(front_kit_closed(w, unwritten[i].reason), 1, "counted as %s", unwritten[i].reason);
    if (part == BODY || part == END)
        is_int(client_ended(&c), CLIENT_BROKEN, "the client sees that some is lost");
    client_close(&c, STREAM_CLOSE_NOW);
}

static void test_unwritable(struct front_kit *w)
{
    bool tls = w->client_tls != NULL;

    front_kit_end(w);
    for (size_t i = 0; i < ROWS(unwritten); i++) {
        front_kit_init(w, tls);
        front_kit_start(w);
        unwritable(w, i);
        front_kit_end(w);
    }
    front_kit_init(w, tls);
}

/* Nor can it be told that it is refused. */
static void test_unwritable_refusal(struct front_kit *w)
{
    struct front_client c;

    front_kit_start(w);
    for (unsigned pieces = 0; pieces < 3; pieces++) {
        open_client(w, &c);
        broken = true;
        pieces_before = pieces;
        client_send(&c, "GET / HTTP/1.1\r\n\r\n");
        ok(client_ended(&c) != CLIENT_OPEN, "refused, of which %u pieces can be written", pieces);
        be_true();
        is_int(strstr(client_take(&c), "\r\n\r\n") != NULL, pieces > 0, "so much it has");
        client_close(&c, STREAM_CLOSE_NOW);
        ok(front_kit_empty(w), "over");
        is_double(front_kit_closed(w, "bad_request"), pieces + 1, "counted as what it was refused for");
    }
}

/* ---- HTTP/1.1: what the client's kernel has taken ---- */

/* Who reads the end of his last answer is not idle; who has stopped is. */
static void test_idle_and_reading(struct front_kit *w)
{
    struct front_client c;

    w->opts.idle_timeout_ms = w->opts.body_timeout_ms = 30;
    front_kit_start(w);
    open_client(w, &c);
    clock_fake(clock_us(), clock_wall_us());
    unsent_says = 1000;
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "an answer");
    for (int i = 0; i < 4; i++) {
        unsent_says -= 100;
        front_kit_pass(w, 31);
    }
    is_double(front_kit_closed(w, "idle_timeout"), 0, "whose client takes some of it all the time");
    is_u64(front_connections(w->front), 1, "stays");
    front_kit_pass(w, 31);
    front_kit_pass(w, 31);
    ok(front_kit_empty(w), "and no longer than that");
    is_double(front_kit_closed(w, "idle_timeout"), 1, "counted");
    be_true();
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
}

/* An answer in one piece, of which its client takes nothing. */
static void test_large_piece_not_taken(struct front_kit *w)
{
    static char piece[3 << 20];
    struct front_client c;

    w->opts.body_timeout_ms = 30;
    front_kit_start(w);
    open_client(w, &c);
    clock_fake(clock_us(), clock_wall_us());
    client_ask(&c, "/x");
    ok(front_kit_handled(w, 1), "a request");
    stream_pause(c.s, STREAM_PAUSE_LIMIT);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    front_kit_settle(w);
    ok(exchange_body(w->x, slice_of(piece, sizeof(piece))), "much of its answer");
    ok(exchange_congested(w->x), "is more than goes out at once");
    unsent_says = sizeof(piece);
    for (int i = 0; i < 3; i++)
        front_kit_pass(w, 31);
    is_int(w->gone, 1, "and waits for its client no longer than any other");
    is_double(front_kit_closed(w, "read_timeout"), 1, "counted");
    be_true();
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* Time passes, and at the limit it is looked for who makes room. */
static void pass_and_look(struct front_kit *w, unsigned ms)
{
    clock_fake(clock_us() + 1000 * (uint64_t)ms, clock_wall_us());
    for (int i = 0; i < 25; i++)
        loop_run_once(w->loop, 10);
}

static double slow_readers(struct front_kit *w)
{
    return front_kit_metric(w, "mvproxy_front_slow_readers_total", NULL);
}

/* To the byte: who has taken all that waited when it was seen first has not been slow, whatever has come to it since.
 */
static void test_taken_to_the_byte(struct front_kit *w)
{
    struct front_client watch[3], c;

    w->opts.max_connections = 3;
    front_kit_start(w);
    for (unsigned i = 0; i < 3; i++) {
        client_open(w, &watch[i]);
        client_ask(&watch[i], "/watch");
        ok(front_kit_handled(w, i + 1), "one that watches");
        exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
        respond_more(w, "event");
        ok(client_ends_in(&watch[i], "event\r\n"), "and has been told all");
    }
    only = list_entry(w->x, struct h1_conn, x)->stream;
    clock_fake(clock_us(), clock_wall_us());
    unacknowledged_says = 1000;
    client_start(w, &c);
    client_ask(&c, "/sync");
    pass_and_look(w, 1000);
    unacknowledged_says = wire_more = 500;
    pass_and_look(w, 31000);
    is_double(slow_readers(w), 0, "all that waited has been taken, slowly: its time begins anew");
    pass_and_look(w, 31000);
    is_double(slow_readers(w), 1, "when nothing more is taken it makes room");
    be_true();
    ok(client_ends_in(&c, "sync"), "for the next");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    for (int i = 0; i < 3; i++)
        client_close(&watch[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* Whose body drips may stay as long as a place is free. */
static void test_one_slow_is_enough(struct front_kit *w)
{
    struct front_client watch[4], drip;
    struct front_conn *slow;

    w->opts.max_connections = 5;
    front_kit_start(w);
    for (unsigned i = 0; i < 4; i++) {
        client_open(w, &watch[i]);
        client_ask(&watch[i], "/watch");
        ok(front_kit_handled(w, i + 1), "one that watches");
        exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
        respond_more(w, "event");
        ok(client_ends_in(&watch[i], "event\r\n"), "and has been told all");
    }
    slow = list_entry(w->x, struct h1_conn, x)->fc;
    only = slow->stream;
    clock_fake(clock_us(), clock_wall_us());
    client_open(w, &drip);
    client_send(&drip, "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
    ok(front_kit_handled(w, 5), "one whose body does not come");
    unacknowledged_says = 10;
    for (int i = 0; i < 20 && !list_linked(&slow->waiting); i++)
        front_kit_pass(w, 200);
    ok(list_linked(&slow->waiting), "one is seen not to have taken all of his answer");
    front_kit_pass(w, 31000);
    for (int i = 0; i < 20 && front_connections(w->front) == 5; i++)
        front_kit_pass(w, 200);
    is_double(slow_readers(w), 1, "who takes nothing of his answer makes room");
    is_u64(front_connections(w->front), 4, "alone");
    be_true();
    clock_real();
    client_close(&drip, STREAM_CLOSE_NOW);
    for (int i = 0; i < 4; i++)
        client_close(&watch[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

/* Said once, for as long as it lasts. */
static void test_full_is_said_once(struct front_kit *w)
{
    char *said = NULL, *first;
    size_t n_said;
    FILE *log = open_memstream(&said, &n_said);
    struct front_client watch, c;

    log_set_stream(log);
    w->opts.max_connections = 1;
    front_kit_start(w);
    client_open(w, &watch);
    client_ask(&watch, "/watch");
    ok(front_kit_handled(w, 1), "as many as may be");
    clock_fake(clock_us(), clock_wall_us());
    client_start(w, &c);
    for (int i = 0; i < 4; i++)
        pass_and_look(w, 3600 * 1000);
    log_set_stream(stderr);
    (void)fclose(log);
    first = strstr(said, "Connection limit reached");
    ok(first != NULL, "that there are is said");
    ok(first != NULL && strstr(first + 1, "Connection limit reached") == NULL, "once in hours: %s", said);
    free(said);
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    client_close(&watch, STREAM_CLOSE_NOW);
    ok(front_kit_empty(w), "over");
}

static void on_drained(void *arg)
{
    *(bool *)arg = true;
}

/* Nor has it to be known whether its client has the answer before. */
static void test_half_head_in_drain(struct front_kit *w)
{
    struct front_client c;
    bool gone = false;

    front_kit_start(w);
    open_client(w, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "answered");
    clock_fake(clock_us(), clock_wall_us());
    client_send(&c, "GET /x HT");
    front_kit_settle(w);
    unacknowledged_says = 1000;
    front_drain(w->front, on_drained, &gone);
    for (int i = 0; i < 50 && !gone; i++)
        front_kit_pass(w, 200);
    ok(gone, "half a head holds no drain");
    is_double(front_kit_closed(w, "drain"), 1, "counted");
    be_true();
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
}

/* ---- HTTP/2 ---- */

static void connect_kit(struct front_h2_kit *k, bool raw)
{
    h2_kit_connect(k, raw, false);
    client_side = k->s;
}

static void h2_unwritable(unsigned pieces)
{
    static struct front_h2_kit k;
    struct held *h = &k.held[0];

    h2_kit_init(&k);
    h2_kit_start(&k);
    connect_kit(&k, false);
    h2_kit_get(&k, "/x");
    ok(h2_kit_held(&k, 1), "a request");
    h2_kit_settle(&k);
    broken = true;
    pieces_before = pieces;
    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_body(h->x, SLICE_LIT("abc"));
    ok(h2_kit_told(&k, h, "gone(client cannot be written to)"), "after %u pieces: the proxy is told", pieces);
    ok(front_kit_empty(&k.front), "over");
    is_u64(pieces_before, 0, "written as far as it could be");
    be_true();
    is_double(front_kit_closed(&k.front, "stream_failed"), 1, "counted");
    is_u64(h->gone, 1, "told once");
    h2_kit_end(&k);
}

static void test_h2_unwritable_at_once(struct front_h2_kit *k)
{
    connect_kit(k, false);
    h2_kit_settle(k);
    broken = true;
    h2_kit_get(k, "/sync");
    ok(front_kit_empty(&k->front), "an answer that the proxy gives at once, and that cannot be written");
    be_true();
    is_double(front_kit_closed(&k->front, "stream_failed"), 1, "ends the connection");
}

/* A body longer than what may wait for a client. */
static void refusal_body(struct buf *out, unsigned status, const char *message, void *arg)
{
    static const char piece[64 << 10];

    (void)status;
    (void)message;
    (void)arg;
    for (size_t n = 0; n <= LIMIT_STREAM_OUTPUT_HARD; n += sizeof(piece))
        buf_append(out, slice_of(piece, sizeof(piece)));
}

static void h2_refusal_too_long(void)
{
    static struct front_h2_kit k;
    struct req *r;

    h2_kit_init(&k);
    k.front.opts.refusal_body = refusal_body;
    h2_kit_start(&k);
    connect_kit(&k, false);
    r = h2_kit_ask(&k, "FOO", "/x", "h", NULL, 0);
    ok(h2_kit_closed(&k, r), "a refusal for which there is no room");
    is_int((int)r->code, NGHTTP2_INTERNAL_ERROR, "is none");
    is_int((int)r->status, 0, "of which nothing is seen");
    r = h2_kit_get(&k, "/sync");
    ok(h2_kit_closed(&k, r) && r->status == 200, "the next one is answered");
    h2_kit_end(&k);
}

static void test_h2_no_trailers(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    struct http_head *trailers;
    struct exchange *x;
    struct req *r;

    connect_kit(k, false);
    r = h2_kit_get(k, "/x");
    ok(h2_kit_held(k, 1), "a request");
    x = h->x;
    trailers = h2_kit_head(h, 200, "x-end", "1");
    exchange_respond(x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_body(x, SLICE_LIT("abc"));
    without_memory = "nghttp2_submit_trailer";
    h->x = NULL;
    exchange_finish(x, trailers);
    ok(h2_kit_closed(k, r) && !r->ended, "an answer whose trailers find no memory has no end");
    is_int((int)r->code, NGHTTP2_INTERNAL_ERROR, "it is reset");
    be_true();
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the connection goes on");
}

static void test_h2_unknown_stream(struct front_h2_kit *k)
{
    struct req *r;

    connect_kit(k, false);
    h2_kit_settle(k);
    without_memory = "nghttp2_session_set_stream_user_data";
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r), "a request that nghttp2 does not keep for us");
    is_int((int)r->code, NGHTTP2_INTERNAL_ERROR, "is reset");
    be_true();
    r = h2_kit_get(k, "/sync");
    ok(h2_kit_closed(k, r) && r->status == 200, "the next one is answered");
    is_u64(front_exchanges(k->front.front), 0, "nothing is left");
}

static void test_h2_no_last_word(struct front_h2_kit *k)
{
    k->front.opts.header_timeout_ms = 30;
    front_update(k->front.front, &k->front.opts);
    connect_kit(k, false);
    without_memory = "nghttp2_session_terminate_session";
    ok(h2_kit_ended(k), "without memory for the last word");
    be_true();
    is_int((int)k->goaways, 0, "there is none");
    ok(front_kit_empty(&k->front), "over");
    is_double(front_kit_closed(&k->front, "no_memory"), 1, "counted");
}

static void test_h2_no_ping(struct front_h2_kit *k)
{
    connect_kit(k, false);
    h2_kit_get(k, "/x");
    ok(h2_kit_held(k, 1), "a request");
    without_memory = "nghttp2_submit_ping";
    front_drain(k->front.front, NULL, NULL);
    ok(h2_kit_ended(k), "who cannot be asked whether it has heard is left without a word");
    be_true();
    is_int(k->held[0].gone, 1, "the proxy is told");
    is_double(front_kit_closed(&k->front, "no_memory"), 1, "counted");
}

/* It has said goodbye and has its answer, which its kernel takes some of, and then no more. */
static void test_h2_parted(struct front_h2_kit *k)
{
    k->front.opts.body_timeout_ms = 250;
    front_update(k->front.front, &k->front.opts);
    connect_kit(k, false);
    h2_kit_get(k, "/x");
    ok(h2_kit_held(k, 1), "a request");
    nghttp2_submit_goaway(k->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
    h2_kit_flush(k);
    h2_kit_settle(k);
    clock_fake(clock_us(), clock_wall_us());
    unacknowledged_says = 1000;
    h2_kit_reply(&k->held[0], 200, "bye");
    h2_kit_settle(k);
    for (int i = 0; i < 3; i++) {
        unacknowledged_says -= 100;
        h2_kit_later(k, 150);
    }
    is_u64(front_connections(k->front.front), 1, "who takes some of the last answer all the time stays");
    h2_kit_later(k, 200);
    is_u64(front_connections(k->front.front), 1, "and has as long as a body may stall for the next of it");
    for (int i = 0; i < 3 && front_connections(k->front.front) > 0; i++)
        h2_kit_later(k, 60);
    is_u64(front_connections(k->front.front), 0, "and no longer");
    be_true();
    clock_real();
    is_double(front_kit_closed(&k->front, "client"), 1, "counted as the end that it is");
    is_int(h2_kit_ended(k) ? (int)k->end : CLIENT_OPEN, CLIENT_BROKEN, "and its client sees that some is lost");
}

/* Who breaks the rules is told, and not waited for. */
static void test_h2_rule_broken(struct front_h2_kit *k)
{
    static const unsigned char frame[] = {0, 0, 1, 0, 0, 0, 0, 0, 0, 'x'}; /* DATA of no stream */

    connect_kit(k, false);
    h2_kit_get(k, "/x");
    ok(h2_kit_held(k, 1), "a request");
    h2_kit_settle(k);
    unacknowledged_says = 1000;
    h2_kit_raw(k, frame, sizeof(frame));
    ok(front_kit_empty(&k->front), "and a frame that must not be: that ends the connection");
    be_true();
    is_double(front_kit_closed(&k->front, "bad_request"), 1, "counted");
    is_int(k->held[0].gone, 1, "the proxy is told");
}

/* A client that sends more than was allowed on one stream. */
static void test_h2_beyond_window(struct front_h2_kit *k)
{
    static const unsigned char post[] = {0, 0, 6, 1, 4, 0, 0, 0, 1, 0x83, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char get[] = {0, 0, 6, 1, 5, 0, 0, 0, 3, 0x82, 0x87, 0x84, 0x41, 1, 'h'};
    static const unsigned char settings_heard[] = {0, 0, 0, 4, 1, 0, 0, 0, 0};
    static unsigned char data[9 + (16 << 10)] = {0, 0x40, 0, 0, 0, 0, 0, 0, 1};

    k->pause_all = true;
    connect_kit(k, true);
    h2_kit_raw(k, KIT_PREFACE, sizeof(KIT_PREFACE) - 1);
    h2_kit_settle(k);
    h2_kit_raw(k, settings_heard, sizeof(settings_heard));
    h2_kit_raw(k, post, sizeof(post));
    h2_kit_raw(k, get, sizeof(get));
    ok(h2_kit_held(k, 2), "an upload that the proxy does not take, and another request");
    for (int n = 0; n < LIMIT_H2_STREAM_WINDOW; n += 16 << 10) {
        h2_kit_raw(k, data, sizeof(data));
        h2_kit_settle(k);
    }
    is_u64(front_connections(k->front.front), 1, "as much as there is a window for");
    is_int(k->held[0].gone, 0, "is kept");
    h2_kit_raw(k, data, sizeof(data));
    ok(h2_kit_ended(k), "more than that ends the connection");
    ok(front_kit_empty(&k->front), "over");
    is_int(k->held[0].gone + k->held[1].gone, 2, "of which the proxy is told");
    is_double(front_kit_closed(&k->front, "bad_request"), 1, "counted");
}

/* ---- HTTP/2: bodies ---- */

struct sipper {
    struct exchange *x;
    size_t bytes, calls;
    bool ended;
};

static void sip(void *arg, struct slice data)
{
    struct sipper *s = arg;

    s->bytes += data.n;
    s->calls++;
    exchange_pause_body(s->x);
}

static void sip_end(void *arg, const struct http_head *trailers)
{
    struct sipper *s = arg;

    (void)trailers;
    s->ended = true;
}

static void sip_nothing(void *arg)
{
    (void)arg;
}

static void sip_gone(void *arg, const char *reason)
{
    (void)reason;
    ((struct sipper *)arg)->x = NULL;
}

static void on_sip(struct exchange *x, void *arg)
{
    static const struct exchange_sink sink = {sip, sip_end, sip_nothing, sip_gone};
    struct sipper *s = arg;

    s->x = x;
    exchange_attach(x, &sink, s);
    exchange_pause_body(x);
}

/* A proxy that takes one piece at a time. */
static void h2_sips(void)
{
    enum { UPLOAD = 100000 };
    static struct front_h2_kit k;
    struct sipper s = {NULL, 0, 0, false};
    struct exchange *x;
    struct req *r;

    h2_kit_init(&k);
    k.front.opts.on_request = on_sip;
    k.front.opts.arg = &s;
    h2_kit_start(&k);
    h2_kit_connect(&k, false, false);
    r = h2_kit_ask(&k, "POST", "/x", "h", NULL, UPLOAD);
    h2_kit_settle(&k);
    is_u64(s.calls, 0, "a body that is not wanted yet");
    for (size_t i = 1; i <= 6; i++) {
        exchange_resume_body(s.x);
        h2_kit_settle(&k);
        is_u64(s.calls, i, "comes by one piece");
        is_u64(s.bytes, i * (16 << 10), "of sixteen KiB");
        ok(!s.ended, "and does not end in between");
    }
    exchange_resume_body(s.x);
    h2_kit_settle(&k);
    is_u64(s.bytes, UPLOAD, "to its last byte");
    ok(!s.ended, "whose end waits, too");
    exchange_resume_body(s.x);
    h2_kit_settle(&k);
    ok(s.ended, "for the proxy to want it");
    x = s.x;
    s.x = NULL;
    exchange_abort(x, "test");
    ok(h2_kit_closed(&k, r), "over");
    h2_kit_end(&k);
}

/* To want more of what is wanted already gives its client no more time. */
static void test_h2_wanted_twice(struct front_h2_kit *k)
{
    k->front.opts.body_timeout_ms = 100;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    k->hold_bodies = true;
    h2_kit_ask(k, "POST", "/x", "h", NULL, 5);
    h2_kit_held(k, 1);
    for (int i = 0; i < 8 && k->held[0].x != NULL; i++) {
        exchange_resume_body(k->held[0].x);
        h2_kit_later(k, 30);
    }
    ok(h2_kit_has(&k->held[0].told, "gone(request body stalled)"), "a body stalls however often it is asked for");
    clock_real();
}

/* Each answer that is not taken has its own time, though one timer looks after all. */
static void test_h2_untaken_in_turn(struct front_h2_kit *k)
{
    enum { ANSWER = 100000 }; /* more than the client's windows hold */
    struct held *h;

    k->front.opts.body_timeout_ms = 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, KIT_LARGE);
    h2_kit_flush(k);
    h2_kit_settle(k);
    clock_fake(clock_us(), clock_wall_us());
    for (unsigned i = 0; i < 2; i++) {
        h = &k->held[i];
        h2_kit_get(k, "/x");
        h2_kit_held(k, i + 1);
        exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
        h2_kit_pump(h, 0, ANSWER);
        h2_kit_settle(k);
        h2_kit_later(k, i == 0 ? 12 : 9);
    }
    is_int((int)k->held[0].gone, 1, "the first one's time is up");
    is_int((int)k->held[1].gone, 0, "the second one's is not");
    h2_kit_later(k, 13);
    is_int((int)k->held[1].gone, 1, "and is when it has been as long");
    is_double(front_kit_metric(&k->front, "mvproxy_front_answers_not_taken_total", NULL), 2, "counted");
    clock_real();
}

static const struct front_kit_story h1_stories[] = {
    {"unwritable", test_unwritable},
    {"unwritable refusal", test_unwritable_refusal},
    {"idle and reading", test_idle_and_reading},
    {"a large piece is not taken", test_large_piece_not_taken},
    {"taken to the byte", test_taken_to_the_byte},
    {"one slow reader is enough", test_one_slow_is_enough},
    {"full is said once", test_full_is_said_once},
    {"half a head in a drain", test_half_head_in_drain},
};

static const struct h2_kit_story h2_stories[] = {
    {"unwritable at once", test_h2_unwritable_at_once},
    {"no trailers", test_h2_no_trailers},
    {"unknown stream", test_h2_unknown_stream},
    {"no last word", test_h2_no_last_word},
    {"no ping", test_h2_no_ping},
    {"parted", test_h2_parted},
    {"a rule broken", test_h2_rule_broken},
    {"beyond the window", test_h2_beyond_window},
    {"wanted twice", test_h2_wanted_twice},
    {"untaken in turn", test_h2_untaken_in_turn},
};

int main(void)
{
    front_kit_run(h1_stories, ROWS(h1_stories));
    for (unsigned pieces = 0; pieces < 3; pieces++)
        h2_unwritable(pieces);
    h2_kit_run(h2_stories, ROWS(h2_stories), NULL);
    h2_refusal_too_long();
    h2_sips();
    return tap_end();
}
