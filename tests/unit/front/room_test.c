/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes room at max-connections, and who stays. */
#include "unit/front/kit.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "front/front_conn.h"
#include "lib/tap.h"

/* Two of the three that may be there have a request under way. */
static void start_with_two_busy(struct front_kit *k, struct front_client busy[2])
{
    k->opts.max_connections = 3;
    front_kit_start(k);
    for (unsigned i = 0; i < 2; i++) {
        client_open(k, &busy[i]);
        client_ask(&busy[i], "/held");
        ok(front_kit_handled(k, i + 1), "%u with a request", i + 1);
    }
}

/* Who once has asked something could keep all places, and everybody else out. */
static void test_idle_ones_make_room(struct front_kit *k)
{
    struct front_client busy[2], c[3];

    start_with_two_busy(k, busy);
    client_open(k, &c[0]);
    client_ask(&c[0], "/sync");
    ok(client_ends_in(&c[0], "sync"), "and an answered one are as many as may be");
    client_start(k, &c[1]);
    client_ask(&c[1], "/held");
    ok(front_kit_handled(k, 4), "one more comes in");
    ok(client_ended(&c[0]) != CLIENT_OPEN, "for whom the idle one has to go");
    is_double(front_kit_closed(k, "crowded_out"), 1, "counted");
    client_start(k, &c[2]);
    client_ask(&c[2], "/sync");
    front_kit_settle(k);
    is_u64(buf_len(&c[2].in), 0, "while all have requests under way nobody has to");
    respond_whole(k, 200, "late");
    ok(client_ends_in(&c[1], "late"), "until one is answered");
    ok(client_ends_in(&c[2], "sync"), "then the next comes in");
    ok(client_ended(&c[1]) != CLIENT_OPEN, "in its place");
    for (int i = 0; i < 2; i++) {
        is_int(busy[i].end, CLIENT_OPEN, "who was first has stayed all the time");
        client_close(&busy[i], STREAM_CLOSE_NOW);
    }
    for (int i = 0; i < 3; i++)
        client_close(&c[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* With HTTP/2 a window update for the rest of it would meet a closed socket, and the kernel drop that rest. */
static void test_untaken_answers_stay(struct front_kit *k)
{
    static char long_answer[400 << 10];
    struct front_client busy[2], slow, c;

    memset(long_answer, 'z', sizeof(long_answer) - 1);
    start_with_two_busy(k, busy);
    client_open(k, &slow);
    client_ask(&slow, "/held");
    ok(front_kit_handled(k, 3), "and one that is slow");
    stream_pause(slow.s, STREAM_PAUSE_LIMIT);
    respond_whole(k, 200, long_answer);
    client_start(k, &c);
    client_ask(&c, "/sync");
    for (int i = 0; i < 20; i++)
        loop_run_once(k->loop, 20);
    is_double(front_kit_closed(k, "crowded_out"), 0, "whose answer is on its way does not have to go");
    stream_resume(slow.s, STREAM_PAUSE_LIMIT);
    ok(client_ends_in(&c, "sync"), "once it is there it makes room");
    is_int(client_ended(&slow), CLIENT_EOF, "its client sees the end");
    ok(buf_len(&slow.in) > sizeof(long_answer), "and has got all of it");
    client_close(&c, STREAM_CLOSE_NOW);
    client_close(&slow, STREAM_CLOSE_NOW);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* However many others have requests under way: there is no search for it. */
static void test_idle_one_among_many(struct front_kit *k)
{
    enum { BUSY = 40 };
    struct front_client busy[BUSY];
    int idle;

    if (k->client_tls != NULL)
        return;
    front_kit_start(k);
    for (unsigned i = 0; i < BUSY; i++) {
        client_open(k, &busy[i]);
        client_ask(&busy[i], "/held");
        front_kit_handled(k, i + 1);
    }
    idle = client_raw(k);
    client_raw_asks(k, idle);
    k->opts.max_connections = BUSY + 1;
    front_update(k->front, &k->opts);
    is_double(front_kit_closed(k, "crowded_out"), 1, "the one that is idle makes room at once");
    close(idle);
    for (int i = 0; i < BUSY; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static double pauses(struct front_kit *k, const char *reason)
{
    return front_kit_metric(k, "mvproxy_front_accept_pauses_total", reason);
}

static bool pauses_reach(struct front_kit *k, const char *reason, double n)
{
    for (int i = 0; i < 1000 && pauses(k, reason) < n; i++)
        loop_run_once(k->loop, 20);
    return pauses(k, reason) >= n;
}

/* Nobody waits as long as somebody makes room at once. */
static void test_room_is_made_first(struct front_kit *k)
{
    struct front_client busy[3];
    char said[4096] = "", *line;
    double before;
    FILE *log;
    int idle;

    if (k->client_tls != NULL)
        return;
    k->opts.max_connections = 3;
    front_kit_start(k);
    log = fmemopen(said, sizeof(said), "w");
    log_set_stream(log);
    idle = client_raw(k);
    client_raw_asks(k, idle);
    for (unsigned i = 0; i < 3; i++) {
        client_open(k, &busy[i]);
        client_ask(&busy[i], "/held");
        ok(front_kit_handled(k, 2 + i), "%u with a request", i + 1);
        is_double(front_kit_closed(k, "crowded_out"), i < 1 ? 0 : 1, "who is idle goes when the limit is reached");
        is_u64(pauses(k, "connections") > 0, i == 2, "others wait once there is nobody to go");
    }
    before = pauses(k, "connections");
    ok(pauses_reach(k, "connections", before + 2), "that is counted for as long as it is so");
    log_set_stream(stderr);
    (void)fclose(log);
    line = strstr(said, "Connection limit reached, new clients wait");
    ok(line != NULL && strstr(line, "limit=3 timesSinceLastLine=1") != NULL, "and said: %s", said);
    ok(line != NULL && strstr(line + 1, "Connection limit") == NULL, "once");
    ok(front_is_crowded(k->front) && front_is_full(k->front), "and known to who asks for the state");
    close(idle);
    for (int i = 0; i < 3; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    ok(front_is_crowded(k->front) && !front_is_full(k->front), "as is for ten seconds that they had to");
}

/* Who is refused sees nothing but a reset. */
static void test_client_limit_said(struct front_kit *k)
{
    char text[4096] = "", *line;
    FILE *log = fmemopen(text, sizeof(text), "w");
    struct front_client c[4];

    k->opts.max_connections_per_client = 1;
    front_kit_start(k);
    log_set_stream(log);
    client_open(k, &c[0]);
    for (size_t i = 1; i < sizeof(c) / sizeof(c[0]); i++) {
        client_start(k, &c[i]);
        is_int(client_ended(&c[i]), CLIENT_BROKEN, "more of the same client are refused");
        client_close(&c[i], STREAM_CLOSE_NOW);
    }
    log_set_stream(stderr);
    (void)fclose(log);
    line = strstr(text, "Connection limit of one client address reached");
    ok(line != NULL && strstr(line + 1, "Connection limit") == NULL, "said once in a while");
    ok(strstr(text, "max-connections-per-client") != NULL &&
           strstr(text, "client=\"127.0.0.1\" limit=1 timesSinceLastLine=1") != NULL,
       "with the option, the address and the limit: %s", text);
    client_close(&c[0], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* What the log says of clients who cannot come in while there are only so many descriptors. */
static void go_on_without_descriptors(struct front_kit *k, int fds, char *said, size_t n)
{
    struct rlimit before, tight;
    FILE *log = fmemopen(said, n, "w");

    getrlimit(RLIMIT_NOFILE, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)fds;
    log_set_stream(log);
    setrlimit(RLIMIT_NOFILE, &tight);
    ok(pauses_reach(k, "descriptors", 3), "nobody comes in, which is counted for as long as it is so");
    setrlimit(RLIMIT_NOFILE, &before);
    log_set_stream(stderr);
    (void)fclose(log);
}

static void test_no_descriptors(struct front_kit *k)
{
    char said[4096], *line;
    int client, next;

    if (k->client_tls != NULL)
        return;
    front_kit_start(k);
    client = client_raw(k);
    next = dup(client);
    close(next);
    go_on_without_descriptors(k, next, said, sizeof(said));
    line = strstr(said, "Connection cannot be accepted, new clients wait");
    ok(line != NULL && strstr(line, "err=\"Too many open files\"") != NULL, "that is said: %s", said);
    ok(line != NULL && strstr(line + 1, "Connection cannot") == NULL, "once in a while");
    is_str(front_accept_failure(k->front), "Too many open files", "as is known to who asks for the state");
    ok(!front_is_crowded(k->front), "it is not max_connections");
    clock_fake(clock_us() + 9000000, clock_wall_us());
    ok(front_accept_failure(k->front) != NULL, "for ten seconds");
    clock_fake(clock_us() + 1000000, clock_wall_us());
    ok(front_accept_failure(k->front) == NULL, "and not longer");
    clock_real();
    for (int i = 0; i < 1000 && front_connections(k->front) == 0; i++)
        loop_run_once(k->loop, 20);
    is_u64(front_connections(k->front), 1, "with descriptors again who waited comes in");
    close(client);
    ok(front_kit_empty(k), "over");
}

/* It is in the kernel, and its client could not tell whether it was carried out. */
static void test_request_has_come(struct front_kit *k)
{
    static const char request[] = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";
    struct front_client busy[2];
    int idle;

    if (k->client_tls != NULL)
        return;
    start_with_two_busy(k, busy);
    idle = client_raw(k);
    k->opts.max_connections = 0;
    front_update(k->front, &k->opts);
    client_raw_asks(k, idle);
    (void)!send(idle, request, strlen(request), 0);
    k->opts.max_connections = 3;
    front_update(k->front, &k->opts);
    is_double(front_kit_closed(k, "crowded_out"), 0, "whose next request has come does not make room");
    ok(front_kit_handled(k, 4), "it is served");
    close(idle);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Nor may who asks nothing, as long as there may be some of those. */
static void test_silent_ones_make_room(struct front_kit *k)
{
    struct front_client silent[3], c;

    k->opts.max_connections = 3;
    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    client_open(k, &silent[0]);
    clock_fake(clock_us() + 500000, clock_wall_us());
    for (int i = 1; i < 3; i++)
        client_open(k, &silent[i]);
    client_start(k, &c);
    client_ask(&c, "/sync");
    front_kit_settle(k);
    is_double(front_kit_closed(k, "crowded_out"), 0, "who has just come may be about to ask");
    clock_fake(clock_us() + 500000, clock_wall_us());
    ok(client_ends_in(&c, "sync"), "who has not in a second makes room");
    ok(client_ended(&silent[0]) != CLIENT_OPEN, "the oldest");
    is_double(front_kit_closed(k, "crowded_out"), 1, "alone");
    is_int(silent[1].end, CLIENT_OPEN, "not who came half a second later");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    for (int i = 0; i < 3; i++)
        client_close(&silent[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void pass_ms(unsigned ms)
{
    clock_fake(clock_us() + 1000 * (uint64_t)ms, clock_wall_us());
}

/* Who has asked something with a body that does not come. */
static void open_upload(struct front_kit *k, struct front_client *c, const char *target, size_t sent)
{
    static char body[20000];

    memset(body, 'b', sizeof(body));
    client_open(k, c);
    client_send(c, target);
    client_send_bytes(c, slice_of(body, sent));
}

/* At less than 500 bytes a second for 20 s, and no answer has begun or it is all there. */
static void test_dripping_ones_make_room(struct front_kit *k)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    struct front_client answering, good, paused, slow, c;

    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    open_upload(k, &answering, post, 10);
    ok(front_kit_handled(k, 1), "one that is answered before its body is there");
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    open_upload(k, &paused, post, 10);
    ok(front_kit_handled(k, 2), "one whose body is not wanted now");
    exchange_pause_body(k->x);
    open_upload(k, &good, post, 11000);
    open_upload(k, &slow, post, 9000);
    ok(front_kit_handled(k, 4), "one whose body comes, and one that drips");
    k->opts.max_connections = 4;
    front_update(k->front, &k->opts);
    client_start(k, &c);
    client_ask(&c, "/sync");
    front_kit_settle(k);
    pass_ms(19900);
    front_kit_settle(k);
    is_double(front_kit_closed(k, "crowded_out"), 0, "all are given time");
    pass_ms(200);
    ok(client_ends_in(&c, "sync"), "after 20 s one makes room");
    ok(client_ended(&slow) != CLIENT_OPEN, "the one that drips");
    for (int i = 0; i < 3; i++)
        pass_ms(200), front_kit_settle(k);
    client_close(&c, STREAM_CLOSE_NOW);
    front_kit_settle(k);
    is_double(front_kit_closed(k, "crowded_out"), 1 + (c.end != CLIENT_OPEN), "and none of the others");
    is_int(good.end + paused.end + answering.end, CLIENT_OPEN, "which go on");
    clock_real();
    client_close(&good, STREAM_CLOSE_NOW);
    client_close(&paused, STREAM_CLOSE_NOW);
    client_close(&answering, STREAM_CLOSE_NOW);
    client_close(&slow, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* A second after it has begun. */
static void test_half_heads_make_room(struct front_kit *k)
{
    struct front_client half[4], c;
    int ended = 0;

    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    for (size_t i = 0; i < ROWS(half); i++) {
        client_start(k, &half[i]);
        client_ask(&half[i], "/sync");
        ok(client_ends_in(&half[i], "sync"), "one that has asked");
        client_send(&half[i], "GET /next HTT");
    }
    front_kit_settle(k);
    k->opts.max_connections = ROWS(half);
    front_update(k->front, &k->opts);
    client_start(k, &c);
    client_ask(&c, "/sync");
    front_kit_settle(k);
    pass_ms(FRONT_HEAD_SLOW_MS - 100);
    front_kit_settle(k);
    is_double(front_kit_closed(k, "crowded_out"), 0, "and asks again, has time for that");
    pass_ms(300);
    ok(client_ends_in(&c, "sync"), "after a second one makes room");
    for (size_t i = 0; i < ROWS(half); i++)
        ended += half[i].end != CLIENT_OPEN;
    ok(ended > 0 && c.end == CLIENT_OPEN, "for who comes, and perhaps for the next (%d)", ended);
    is_double(front_kit_closed(k, "crowded_out"), ended, "counted");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    for (size_t i = 0; i < ROWS(half); i++)
        client_close(&half[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Until one more has made room, or for a second. */
static bool room_is_made(struct front_kit *k, double before)
{
    for (int i = 0; i < 10 && front_kit_closed(k, "crowded_out") <= before; i++) {
        pass_ms(100);
        for (int turns = 0; turns < 5; turns++)
            loop_run_once(k->loop, 10);
    }
    return front_kit_closed(k, "crowded_out") > before;
}

/* What the client could not send counts for nothing: the time begins when it may. */
static void test_time_begins_with_turn(struct front_kit *k)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    static const char asking[] =
        "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n";
    struct front_client busy[2], paused, expecting, hasty;
    struct exchange *waits, *asks;

    start_with_two_busy(k, busy);
    k->opts.max_connections = 5;
    front_update(k->front, &k->opts);
    clock_fake(clock_us(), clock_wall_us());
    open_upload(k, &paused, post, 15000);
    ok(front_kit_handled(k, 3), "one whose body the server does not take");
    front_kit_settle(k);
    waits = k->x;
    exchange_pause_body(waits);
    open_upload(k, &expecting, asking, 0);
    ok(front_kit_handled(k, 4), "one who waits to be let");
    asks = k->x;
    open_upload(k, &hasty, asking, 0);
    ok(front_kit_handled(k, 5), "and one more, who is not");
    pass_ms(30000);
    ok(!room_is_made(k, 0), "neither makes room");
    exchange_resume_body(waits);
    ok(exchange_interim(asks, head_of(k, 100, NULL, NULL)), "both may send");
    pass_ms(18000);
    ok(!room_is_made(k, 0), "for which they are given time");
    client_send(&hasty, "one");
    pass_ms(2000);
    ok(room_is_made(k, 0), "who does not makes room");
    k->opts.max_connections = 4;
    front_update(k->front, &k->opts);
    ok(room_is_made(k, 1), "each of them");
    ok(client_ended(&paused) != CLIENT_OPEN && client_ended(&expecting) != CLIENT_OPEN, "those two");
    k->opts.max_connections = 3;
    front_update(k->front, &k->opts);
    ok(!room_is_made(k, 2), "not who waited in vain and has begun then");
    is_int(hasty.end, CLIENT_OPEN, "it goes on");
    clock_real();
    client_close(&paused, STREAM_CLOSE_NOW);
    client_close(&expecting, STREAM_CLOSE_NOW);
    client_close(&hasty, STREAM_CLOSE_NOW);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Nor is any of its answer lost: it has to be there first. */
static void test_unwanted_body_of_slow_reader(struct front_kit *k)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n";
    static char long_answer[400 << 10];
    struct front_client busy[2], slow;

    memset(long_answer, 'z', sizeof(long_answer) - 1);
    start_with_two_busy(k, busy);
    clock_fake(clock_us(), clock_wall_us());
    open_upload(k, &slow, post, 10);
    ok(front_kit_handled(k, 3), "one that sends no more of its body");
    stream_pause(slow.s, STREAM_PAUSE_LIMIT);
    pass_ms(19000);
    respond_whole(k, 200, long_answer);
    pass_ms(19000);
    ok(!room_is_made(k, 0), "has time after its answer, too");
    pass_ms(1000);
    ok(!room_is_made(k, 0), "and more while that is on its way");
    stream_resume(slow.s, STREAM_PAUSE_LIMIT);
    ok(client_has(&slow, "zzz"), "it reads");
    ok(room_is_made(k, 0), "and makes room");
    ok(client_ended(&slow) != CLIENT_OPEN, "then");
    ok(buf_len(&slow.in) > sizeof(long_answer), "with all of it");
    clock_real();
    client_close(&slow, STREAM_CLOSE_NOW);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* A short body that nobody wants could take hours, a byte a minute. */
static void test_unwanted_bodies_make_room(struct front_kit *k)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n";
    struct front_client busy[2], slow, c;

    start_with_two_busy(k, busy);
    clock_fake(clock_us(), clock_wall_us());
    open_upload(k, &slow, post, 10);
    ok(front_kit_handled(k, 3), "one does not send all of its body");
    pass_ms(19000);
    respond_whole(k, 200, "early");
    ok(client_ends_in(&slow, "early"), "nor the rest after its answer");
    client_start(k, &c);
    client_ask(&c, "/sync");
    pass_ms(18000);
    ok(!room_is_made(k, 0), "it is given time");
    pass_ms(1000);
    ok(room_is_made(k, 0), "after 20 s it makes room");
    ok(client_ends_in(&c, "sync"), "for the next");
    ok(client_ended(&slow) != CLIENT_OPEN, "and is closed");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    client_close(&slow, STREAM_CLOSE_NOW);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Time passes, and at the limit it is looked for who makes room. */
static void pass_and_look(struct front_kit *k, unsigned ms)
{
    pass_ms(ms);
    for (int i = 0; i < 25; i++)
        loop_run_once(k->loop, 10);
}

static bool slow_one_ended(void *arg)
{
    return front_kit_metric(arg, "mvproxy_front_slow_readers_total", NULL) > 0;
}

/* As much as there is room for on the way. */
static void fill_answer(struct front_kit *k, struct exchange *x)
{
    static char piece[16 << 10];

    memset(piece, 'y', sizeof(piece));
    exchange_respond(x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (unsigned turns = 0; turns < 2000 && (turns < 5 || !exchange_congested(x)); turns++) {
        if (!exchange_congested(x))
            exchange_body(x, slice_of(piece, sizeof(piece)));
        loop_run_once(k->loop, 0);
    }
}

/* Two of the three that may be there have answers, of which all that there is has been taken. */
static void start_with_two_watches(struct front_kit *k, struct front_client watch[2])
{
    k->opts.max_connections = 3;
    front_kit_start(k);
    for (unsigned i = 0; i < 2; i++) {
        client_open(k, &watch[i]);
        client_ask(&watch[i], "/watch");
        ok(front_kit_handled(k, i + 1), "%u that watches", i + 1);
        exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
        respond_more(k, "event");
        ok(client_ends_in(&watch[i], "event\r\n"), "and has been told all");
    }
    clock_fake(clock_us(), clock_wall_us());
}

static void end_watches(struct front_kit *k, struct front_client watch[2])
{
    clock_real();
    for (int i = 0; i < 2; i++) {
        is_int(watch[i].end, CLIENT_OPEN, "who has been told all stays, however long ago");
        client_close(&watch[i], STREAM_CLOSE_NOW);
    }
    ok(front_kit_empty(k), "over");
}

/* Who takes a few bytes now and then is never one that takes nothing, and could keep its place for ever. */
static void test_slow_readers_make_room(struct front_kit *k)
{
    struct front_client watch[2], slow, c;

    start_with_two_watches(k, watch);
    client_open(k, &slow);
    client_ask(&slow, "/held");
    ok(front_kit_handled(k, 3), "and one that does not read");
    stream_pause(slow.s, STREAM_PAUSE_LIMIT);
    fill_answer(k, k->x);
    client_start(k, &c);
    client_ask(&c, "/sync");
    pass_and_look(k, 1000);
    pass_and_look(k, 28000);
    ok(!slow_one_ended(k), "has 30 s from when it is seen first");
    pass_and_look(k, 2000);
    ok(front_kit_until(k, slow_one_ended, k), "then it makes room");
    ok(client_ends_in(&c, "sync"), "for the next");
    is_double(front_kit_closed(k, "slow_reader"), 1, "counted as what it is");
    is_double(front_kit_closed(k, "crowded_out"), 0, "and as nothing else");
    ok(front_kit_sink_has(k, "gone(client takes what waits for it too slowly)"), "the proxy is told");
    stream_resume(slow.s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(&slow), CLIENT_BROKEN, "its client sees that some is lost");
    client_close(&slow, STREAM_CLOSE_NOW);
    client_close(&c, STREAM_CLOSE_NOW);
    end_watches(k, watch);
}

static size_t take(int fd, size_t n)
{
    static char got[64 << 10];
    size_t sum = 0;
    ssize_t r = 1;

    while (sum < n && r > 0) {
        r = recv(fd, got, n - sum < sizeof(got) ? n - sum : sizeof(got), MSG_DONTWAIT);
        sum += r > 0 ? (size_t)r : 0;
    }
    return sum;
}

/* However it was before: haste at first does not count for ever. */
static void test_readers_become_slow(struct front_kit *k)
{
    static const char request[] = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";
    struct front_client watch[2];
    int fd;

    if (k->client_tls != NULL)
        return;
    start_with_two_watches(k, watch);
    fd = client_raw(k);
    is_int(send(fd, request, strlen(request), 0), (long long)strlen(request), "one asks");
    ok(front_kit_handled(k, 3), "for much");
    fill_answer(k, k->x);
    for (int i = 0; i < 6; i++) {
        pass_and_look(k, 20000);
        ok(take(fd, 256 << 10) > 0, "it takes some");
        front_kit_settle(k);
    }
    ok(!slow_one_ended(k), "who takes enough of it stays, with more waiting all the time");
    for (int i = 0; i < 6 && !slow_one_ended(k); i++) {
        pass_and_look(k, 20000);
        ok(slow_one_ended(k) || take(fd, 10) > 0, "it takes a little");
    }
    ok(slow_one_ended(k), "who takes next to nothing goes");
    close(fd);
    end_watches(k, watch);
}

/* Those of an address that has no more than its share do not make room for others. */
static void test_slow_reader_keeps_share(struct front_kit *k)
{
    struct front_client slow, busy;

    k->opts.max_connections = 2;
    front_kit_start(k);
    client_open(k, &busy);
    client_ask(&busy, "/held");
    ok(front_kit_handled(k, 1), "one with a request");
    clock_fake(clock_us(), clock_wall_us());
    client_open(k, &slow);
    client_ask(&slow, "/held");
    ok(front_kit_handled(k, 2), "and one that does not read");
    stream_pause(slow.s, STREAM_PAUSE_LIMIT);
    fill_answer(k, k->x);
    for (int i = 0; i < 3; i++)
        pass_and_look(k, 40000);
    ok(!slow_one_ended(k), "are no more than a share");
    clock_real();
    client_close(&slow, STREAM_CLOSE_NOW);
    client_close(&busy, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

struct tunnel_end {
    struct stream *s;
    bool failed;
};

static void on_tunnel(struct stream *s, enum stream_event ev, void *arg)
{
    struct tunnel_end *t = arg;

    t->failed = t->failed || ev == STREAM_FAILED;
    if (ev != STREAM_FAILED)
        return;
    stream_close(s, STREAM_CLOSE_ABORT);
    t->s = NULL;
}

/* Whoever owns them: their descriptors count, too. The one that has waited for longest is the first. */
static void test_slow_tunnels_make_room(struct front_kit *k)
{
    static char piece[16 << 10];
    struct tunnel_end ends[3] = {{NULL, false}, {NULL, false}, {NULL, false}};
    struct front_client c[3];

    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    k->opts.max_connections = 3;
    for (unsigned i = 0; i < 3; i++) {
        client_open(k, &c[i]);
        client_send(&c[i], "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
        ok(front_kit_handled(k, i + 1), "a tunnel");
        ends[i].s = exchange_upgrade(k->x, head_of(k, 101, "Upgrade", "SPDY/3.1"));
        k->x = NULL;
        stream_set_owner(ends[i].s, on_tunnel, &ends[i]);
        ok(client_has(&c[i], "\r\n\r\n"), "is open");
    }
    front_update(k->front, &k->opts);
    for (int i = 1; i >= 0; i--) {
        stream_pause(c[i].s, STREAM_PAUSE_LIMIT);
        for (unsigned turns = 0; turns < 2000 && !stream_congested(ends[i].s); turns++) {
            stream_write(ends[i].s, slice_of(piece, sizeof(piece)));
            loop_run_once(k->loop, 0);
        }
        pass_and_look(k, 5000);
    }
    pass_and_look(k, 24000);
    ok(!slow_one_ended(k), "both that do not read have their time");
    pass_and_look(k, 2000);
    ok(front_kit_until(k, slow_one_ended, k), "then one makes room");
    front_kit_settle(k);
    ok(ends[1].failed, "the one that has waited for longer: its owner is told");
    ok(!ends[0].failed && !ends[2].failed, "not the other, nor the one that is silent");
    is_double(front_kit_metric(k, "mvproxy_front_slow_readers_total", NULL), 1, "counted");
    is_double(front_kit_closed(k, "upgraded"), 3, "and as the tunnels that they were");
    clock_real();
    for (int i = 0; i < 3; i++) {
        if (ends[i].s != NULL)
            stream_close(ends[i].s, STREAM_CLOSE_ABORT);
        client_close(&c[i], STREAM_CLOSE_NOW);
    }
    ok(front_kit_empty(k), "over");
}

static const struct front_kit_story stories[] = {
    {"idle ones make room", test_idle_ones_make_room},
    {"an idle one among many", test_idle_one_among_many},
    {"room is made first", test_room_is_made_first},
    {"limit of one client in the log", test_client_limit_said},
    {"no descriptors", test_no_descriptors},
    {"a request that has come stays", test_request_has_come},
    {"untaken answers stay", test_untaken_answers_stay},
    {"silent ones make room", test_silent_ones_make_room},
    {"dripping ones make room", test_dripping_ones_make_room},
    {"half heads make room", test_half_heads_make_room},
    {"time begins with the client's turn", test_time_begins_with_turn},
    {"unwanted bodies make room", test_unwanted_bodies_make_room},
    {"unwanted body of a slow reader", test_unwanted_body_of_slow_reader},
    {"slow readers make room", test_slow_readers_make_room},
    {"readers become slow", test_readers_become_slow},
    {"a slow reader keeps its share", test_slow_reader_keeps_share},
    {"slow tunnels make room", test_slow_tunnels_make_room},
};

int main(void)
{
    front_kit_run(stories, ROWS(stories));
    return tap_end();
}
