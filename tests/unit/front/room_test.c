/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes room at max-connections, and who stays. */
#include "unit/front/world.h"

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
static void start_with_two_busy(struct world *w, struct client busy[2])
{
    w->opts.max_connections = 3;
    world_start(w);
    for (unsigned i = 0; i < 2; i++) {
        client_open(w, &busy[i]);
        client_ask(&busy[i], "/held");
        ok(world_handled(w, i + 1), "%u with a request", i + 1);
    }
}

/* Who once has asked something could keep all places, and everybody else out. */
static void test_idle_ones_make_room(struct world *w)
{
    struct client busy[2], c[3];

    start_with_two_busy(w, busy);
    client_open(w, &c[0]);
    client_ask(&c[0], "/sync");
    ok(client_ends_in(&c[0], "sync"), "and an answered one are as many as may be");
    client_start(w, &c[1]);
    client_ask(&c[1], "/held");
    ok(world_handled(w, 4), "one more comes in");
    ok(client_ended(&c[0]) != CLIENT_OPEN, "for whom the idle one has to go");
    is_double(world_closed(w, "crowded_out"), 1, "counted");
    client_start(w, &c[2]);
    client_ask(&c[2], "/sync");
    world_settle(w);
    is_u64(buf_len(&c[2].in), 0, "while all have requests under way nobody has to");
    respond_whole(w, 200, "late");
    ok(client_ends_in(&c[1], "late"), "until one is answered");
    ok(client_ends_in(&c[2], "sync"), "then the next comes in");
    ok(client_ended(&c[1]) != CLIENT_OPEN, "in its place");
    for (int i = 0; i < 2; i++) {
        is_int(busy[i].end, CLIENT_OPEN, "who was first has stayed all the time");
        client_close(&busy[i], STREAM_CLOSE_NOW);
    }
    for (int i = 0; i < 3; i++)
        client_close(&c[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* With HTTP/2 a window update for the rest of it would meet a closed socket, and the kernel drop that rest. */
static void test_untaken_answers_stay(struct world *w)
{
    static char long_answer[400 << 10];
    struct client busy[2], slow, c;

    memset(long_answer, 'z', sizeof(long_answer) - 1);
    start_with_two_busy(w, busy);
    client_open(w, &slow);
    client_ask(&slow, "/held");
    ok(world_handled(w, 3), "and one that is slow");
    stream_pause(slow.s, STREAM_PAUSE_LIMIT);
    respond_whole(w, 200, long_answer);
    client_start(w, &c);
    client_ask(&c, "/sync");
    for (int i = 0; i < 20; i++)
        loop_run_once(w->loop, 20);
    is_double(world_closed(w, "crowded_out"), 0, "whose answer is on its way does not have to go");
    stream_resume(slow.s, STREAM_PAUSE_LIMIT);
    ok(client_ends_in(&c, "sync"), "once it is there it makes room");
    is_int(client_ended(&slow), CLIENT_EOF, "its client sees the end");
    ok(buf_len(&slow.in) > sizeof(long_answer), "and has got all of it");
    client_close(&c, STREAM_CLOSE_NOW);
    client_close(&slow, STREAM_CLOSE_NOW);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* However many others have requests under way: there is no search for it. */
static void test_idle_one_among_many(struct world *w)
{
    enum { BUSY = 40 };
    struct client busy[BUSY];
    int idle;

    if (w->client_tls != NULL)
        return;
    world_start(w);
    for (unsigned i = 0; i < BUSY; i++) {
        client_open(w, &busy[i]);
        client_ask(&busy[i], "/held");
        world_handled(w, i + 1);
    }
    idle = client_raw(w);
    client_raw_asks(w, idle);
    w->opts.max_connections = BUSY + 1;
    front_update(w->front, &w->opts);
    is_double(world_closed(w, "crowded_out"), 1, "the one that is idle makes room at once");
    close(idle);
    for (int i = 0; i < BUSY; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static double pauses(struct world *w, const char *reason)
{
    return world_metric(w, "mvproxy_front_accept_pauses_total", reason);
}

static bool pauses_reach(struct world *w, const char *reason, double n)
{
    for (int i = 0; i < 1000 && pauses(w, reason) < n; i++)
        loop_run_once(w->loop, 20);
    return pauses(w, reason) >= n;
}

/* Nobody waits as long as somebody makes room at once. */
static void test_room_is_made_first(struct world *w)
{
    struct client busy[3];
    char said[4096] = "", *line;
    double before;
    FILE *log;
    int idle;

    if (w->client_tls != NULL)
        return;
    w->opts.max_connections = 3;
    world_start(w);
    log = fmemopen(said, sizeof(said), "w");
    log_set_stream(log);
    idle = client_raw(w);
    client_raw_asks(w, idle);
    for (unsigned i = 0; i < 3; i++) {
        client_open(w, &busy[i]);
        client_ask(&busy[i], "/held");
        ok(world_handled(w, 2 + i), "%u with a request", i + 1);
        is_double(world_closed(w, "crowded_out"), i < 1 ? 0 : 1, "who is idle goes when the limit is reached");
        is_u64(pauses(w, "connections") > 0, i == 2, "others wait once there is nobody to go");
    }
    before = pauses(w, "connections");
    ok(pauses_reach(w, "connections", before + 2), "that is counted for as long as it is so");
    log_set_stream(stderr);
    (void)fclose(log);
    line = strstr(said, "Connection limit reached, new clients wait");
    ok(line != NULL && strstr(line, "limit=3 timesSinceLastLine=1") != NULL, "and said: %s", said);
    ok(line != NULL && strstr(line + 1, "Connection limit") == NULL, "once");
    ok(front_is_crowded(w->front) && front_is_full(w->front), "and known to who asks for the state");
    close(idle);
    for (int i = 0; i < 3; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    ok(front_is_crowded(w->front) && !front_is_full(w->front), "as is for ten seconds that they had to");
}

/* Who is refused sees nothing but a reset. */
static void test_client_limit_said(struct world *w)
{
    char text[4096] = "", *line;
    FILE *log = fmemopen(text, sizeof(text), "w");
    struct client c[4];

    w->opts.max_connections_per_client = 1;
    world_start(w);
    log_set_stream(log);
    client_open(w, &c[0]);
    for (size_t i = 1; i < sizeof(c) / sizeof(c[0]); i++) {
        client_start(w, &c[i]);
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
    ok(world_empty(w), "over");
}

/* What the log says of clients who cannot come in while there are only so many descriptors. */
static void go_on_without_descriptors(struct world *w, int fds, char *said, size_t n)
{
    struct rlimit before, tight;
    FILE *log = fmemopen(said, n, "w");

    getrlimit(RLIMIT_NOFILE, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)fds;
    log_set_stream(log);
    setrlimit(RLIMIT_NOFILE, &tight);
    ok(pauses_reach(w, "descriptors", 3), "nobody comes in, which is counted for as long as it is so");
    setrlimit(RLIMIT_NOFILE, &before);
    log_set_stream(stderr);
    (void)fclose(log);
}

static void test_no_descriptors(struct world *w)
{
    char said[4096], *line;
    int client, next;

    if (w->client_tls != NULL)
        return;
    world_start(w);
    client = client_raw(w);
    next = dup(client);
    close(next);
    go_on_without_descriptors(w, next, said, sizeof(said));
    line = strstr(said, "Connection cannot be accepted, new clients wait");
    ok(line != NULL && strstr(line, "err=\"Too many open files\"") != NULL, "that is said: %s", said);
    ok(line != NULL && strstr(line + 1, "Connection cannot") == NULL, "once in a while");
    is_str(front_accept_failure(w->front), "Too many open files", "as is known to who asks for the state");
    ok(!front_is_crowded(w->front), "it is not max_connections");
    clock_fake(clock_us() + 9000000, clock_wall_us());
    ok(front_accept_failure(w->front) != NULL, "for ten seconds");
    clock_fake(clock_us() + 1000000, clock_wall_us());
    ok(front_accept_failure(w->front) == NULL, "and not longer");
    clock_real();
    for (int i = 0; i < 1000 && front_connections(w->front) == 0; i++)
        loop_run_once(w->loop, 20);
    is_u64(front_connections(w->front), 1, "with descriptors again who waited comes in");
    close(client);
    ok(world_empty(w), "over");
}

/* It is in the kernel, and its client could not tell whether it was carried out. */
static void test_request_has_come(struct world *w)
{
    static const char request[] = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";
    struct client busy[2];
    int idle;

    if (w->client_tls != NULL)
        return;
    start_with_two_busy(w, busy);
    idle = client_raw(w);
    w->opts.max_connections = 0;
    front_update(w->front, &w->opts);
    client_raw_asks(w, idle);
    (void)!send(idle, request, strlen(request), 0);
    w->opts.max_connections = 3;
    front_update(w->front, &w->opts);
    is_double(world_closed(w, "crowded_out"), 0, "whose next request has come does not make room");
    ok(world_handled(w, 4), "it is served");
    close(idle);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* Nor may who asks nothing, as long as there may be some of those. */
static void test_silent_ones_make_room(struct world *w)
{
    struct client silent[3], c;

    w->opts.max_connections = 3;
    world_start(w);
    clock_fake(clock_us(), clock_wall_us());
    client_open(w, &silent[0]);
    clock_fake(clock_us() + 500000, clock_wall_us());
    for (int i = 1; i < 3; i++)
        client_open(w, &silent[i]);
    client_start(w, &c);
    client_ask(&c, "/sync");
    world_settle(w);
    is_double(world_closed(w, "crowded_out"), 0, "who has just come may be about to ask");
    clock_fake(clock_us() + 500000, clock_wall_us());
    ok(client_ends_in(&c, "sync"), "who has not in a second makes room");
    ok(client_ended(&silent[0]) != CLIENT_OPEN, "the oldest");
    is_double(world_closed(w, "crowded_out"), 1, "alone");
    is_int(silent[1].end, CLIENT_OPEN, "not who came half a second later");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    for (int i = 0; i < 3; i++)
        client_close(&silent[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void pass_ms(unsigned ms)
{
    clock_fake(clock_us() + 1000 * (uint64_t)ms, clock_wall_us());
}

/* Who has asked something with a body that does not come. */
static void open_upload(struct world *w, struct client *c, const char *target, size_t sent)
{
    static char body[20000];

    memset(body, 'b', sizeof(body));
    client_open(w, c);
    client_send(c, target);
    client_send_bytes(c, slice_of(body, sent));
}

/* At less than 500 bytes a second for 20 s, and no answer has begun or it is all there. */
static void test_dripping_ones_make_room(struct world *w)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    struct client answering, good, paused, slow, c;

    world_start(w);
    clock_fake(clock_us(), clock_wall_us());
    open_upload(w, &answering, post, 10);
    ok(world_handled(w, 1), "one that is answered before its body is there");
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    open_upload(w, &paused, post, 10);
    ok(world_handled(w, 2), "one whose body is not wanted now");
    exchange_pause_body(w->x);
    open_upload(w, &good, post, 11000);
    open_upload(w, &slow, post, 9000);
    ok(world_handled(w, 4), "one whose body comes, and one that drips");
    w->opts.max_connections = 4;
    front_update(w->front, &w->opts);
    client_start(w, &c);
    client_ask(&c, "/sync");
    world_settle(w);
    pass_ms(19900);
    world_settle(w);
    is_double(world_closed(w, "crowded_out"), 0, "all are given time");
    pass_ms(200);
    ok(client_ends_in(&c, "sync"), "after 20 s one makes room");
    ok(client_ended(&slow) != CLIENT_OPEN, "the one that drips");
    for (int i = 0; i < 3; i++)
        pass_ms(200), world_settle(w);
    client_close(&c, STREAM_CLOSE_NOW);
    world_settle(w);
    is_double(world_closed(w, "crowded_out"), 1 + (c.end != CLIENT_OPEN), "and none of the others");
    is_int(good.end + paused.end + answering.end, CLIENT_OPEN, "which go on");
    clock_real();
    client_close(&good, STREAM_CLOSE_NOW);
    client_close(&paused, STREAM_CLOSE_NOW);
    client_close(&answering, STREAM_CLOSE_NOW);
    client_close(&slow, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* A second after it has begun. */
static void test_half_heads_make_room(struct world *w)
{
    struct client half[4], c;
    int ended = 0;

    world_start(w);
    clock_fake(clock_us(), clock_wall_us());
    for (size_t i = 0; i < ROWS(half); i++) {
        client_start(w, &half[i]);
        client_ask(&half[i], "/sync");
        ok(client_ends_in(&half[i], "sync"), "one that has asked");
        client_send(&half[i], "GET /next HTT");
    }
    world_settle(w);
    w->opts.max_connections = ROWS(half);
    front_update(w->front, &w->opts);
    client_start(w, &c);
    client_ask(&c, "/sync");
    world_settle(w);
    pass_ms(FRONT_HEAD_SLOW_MS - 100);
    world_settle(w);
    is_double(world_closed(w, "crowded_out"), 0, "and asks again, has time for that");
    pass_ms(300);
    ok(client_ends_in(&c, "sync"), "after a second one makes room");
    for (size_t i = 0; i < ROWS(half); i++)
        ended += half[i].end != CLIENT_OPEN;
    ok(ended > 0 && c.end == CLIENT_OPEN, "for who comes, and perhaps for the next (%d)", ended);
    is_double(world_closed(w, "crowded_out"), ended, "counted");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    for (size_t i = 0; i < ROWS(half); i++)
        client_close(&half[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* Until one more has made room, or for a second. */
static bool room_is_made(struct world *w, double before)
{
    for (int i = 0; i < 10 && world_closed(w, "crowded_out") <= before; i++) {
        pass_ms(100);
        for (int turns = 0; turns < 5; turns++)
            loop_run_once(w->loop, 10);
    }
    return world_closed(w, "crowded_out") > before;
}

/* What the client could not send counts for nothing: the time begins when it may. */
static void test_time_begins_with_turn(struct world *w)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    static const char asking[] =
        "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n";
    struct client busy[2], paused, expecting, hasty;
    struct exchange *waits, *asks;

    start_with_two_busy(w, busy);
    w->opts.max_connections = 5;
    front_update(w->front, &w->opts);
    clock_fake(clock_us(), clock_wall_us());
    open_upload(w, &paused, post, 15000);
    ok(world_handled(w, 3), "one whose body the server does not take");
    world_settle(w);
    waits = w->x;
    exchange_pause_body(waits);
    open_upload(w, &expecting, asking, 0);
    ok(world_handled(w, 4), "one who waits to be let");
    asks = w->x;
    open_upload(w, &hasty, asking, 0);
    ok(world_handled(w, 5), "and one more, who is not");
    pass_ms(30000);
    ok(!room_is_made(w, 0), "neither makes room");
    exchange_resume_body(waits);
    ok(exchange_interim(asks, head_of(w, 100, NULL, NULL)), "both may send");
    pass_ms(18000);
    ok(!room_is_made(w, 0), "for which they are given time");
    client_send(&hasty, "one");
    pass_ms(2000);
    ok(room_is_made(w, 0), "who does not makes room");
    w->opts.max_connections = 4;
    front_update(w->front, &w->opts);
    ok(room_is_made(w, 1), "each of them");
    ok(client_ended(&paused) != CLIENT_OPEN && client_ended(&expecting) != CLIENT_OPEN, "those two");
    w->opts.max_connections = 3;
    front_update(w->front, &w->opts);
    ok(!room_is_made(w, 2), "not who waited in vain and has begun then");
    is_int(hasty.end, CLIENT_OPEN, "it goes on");
    clock_real();
    client_close(&paused, STREAM_CLOSE_NOW);
    client_close(&expecting, STREAM_CLOSE_NOW);
    client_close(&hasty, STREAM_CLOSE_NOW);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* Nor is any of its answer lost: it has to be there first. */
static void test_unwanted_body_of_slow_reader(struct world *w)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n";
    static char long_answer[400 << 10];
    struct client busy[2], slow;

    memset(long_answer, 'z', sizeof(long_answer) - 1);
    start_with_two_busy(w, busy);
    clock_fake(clock_us(), clock_wall_us());
    open_upload(w, &slow, post, 10);
    ok(world_handled(w, 3), "one that sends no more of its body");
    stream_pause(slow.s, STREAM_PAUSE_LIMIT);
    pass_ms(19000);
    respond_whole(w, 200, long_answer);
    pass_ms(19000);
    ok(!room_is_made(w, 0), "has time after its answer, too");
    pass_ms(1000);
    ok(!room_is_made(w, 0), "and more while that is on its way");
    stream_resume(slow.s, STREAM_PAUSE_LIMIT);
    ok(client_has(&slow, "zzz"), "it reads");
    ok(room_is_made(w, 0), "and makes room");
    ok(client_ended(&slow) != CLIENT_OPEN, "then");
    ok(buf_len(&slow.in) > sizeof(long_answer), "with all of it");
    clock_real();
    client_close(&slow, STREAM_CLOSE_NOW);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* A short body that nobody wants could take hours, a byte a minute. */
static void test_unwanted_bodies_make_room(struct world *w)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n";
    struct client busy[2], slow, c;

    start_with_two_busy(w, busy);
    clock_fake(clock_us(), clock_wall_us());
    open_upload(w, &slow, post, 10);
    ok(world_handled(w, 3), "one does not send all of its body");
    pass_ms(19000);
    respond_whole(w, 200, "early");
    ok(client_ends_in(&slow, "early"), "nor the rest after its answer");
    client_start(w, &c);
    client_ask(&c, "/sync");
    pass_ms(18000);
    ok(!room_is_made(w, 0), "it is given time");
    pass_ms(1000);
    ok(room_is_made(w, 0), "after 20 s it makes room");
    ok(client_ends_in(&c, "sync"), "for the next");
    ok(client_ended(&slow) != CLIENT_OPEN, "and is closed");
    clock_real();
    client_close(&c, STREAM_CLOSE_NOW);
    client_close(&slow, STREAM_CLOSE_NOW);
    for (int i = 0; i < 2; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* Time passes, and at the limit it is looked for who makes room. */
static void pass_and_look(struct world *w, unsigned ms)
{
    pass_ms(ms);
    for (int i = 0; i < 25; i++)
        loop_run_once(w->loop, 10);
}

static bool slow_one_ended(void *arg)
{
    return world_metric(arg, "mvproxy_front_slow_readers_total", NULL) > 0;
}

/* As much as there is room for on the way. */
static void fill_answer(struct world *w, struct exchange *x)
{
    static char piece[16 << 10];

    memset(piece, 'y', sizeof(piece));
    exchange_respond(x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (unsigned turns = 0; turns < 2000 && (turns < 5 || !exchange_congested(x)); turns++) {
        if (!exchange_congested(x))
            exchange_body(x, slice_of(piece, sizeof(piece)));
        loop_run_once(w->loop, 0);
    }
}

/* Two of the three that may be there have answers, of which all that there is has been taken. */
static void start_with_two_watches(struct world *w, struct client watch[2])
{
    w->opts.max_connections = 3;
    world_start(w);
    for (unsigned i = 0; i < 2; i++) {
        client_open(w, &watch[i]);
        client_ask(&watch[i], "/watch");
        ok(world_handled(w, i + 1), "%u that watches", i + 1);
        exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
        respond_more(w, "event");
        ok(client_ends_in(&watch[i], "event\r\n"), "and has been told all");
    }
    clock_fake(clock_us(), clock_wall_us());
}

static void end_watches(struct world *w, struct client watch[2])
{
    clock_real();
    for (int i = 0; i < 2; i++) {
        is_int(watch[i].end, CLIENT_OPEN, "who has been told all stays, however long ago");
        client_close(&watch[i], STREAM_CLOSE_NOW);
    }
    ok(world_empty(w), "over");
}

/* Who takes a few bytes now and then is never one that takes nothing, and could keep its place for ever. */
static void test_slow_readers_make_room(struct world *w)
{
    struct client watch[2], slow, c;

    start_with_two_watches(w, watch);
    client_open(w, &slow);
    client_ask(&slow, "/held");
    ok(world_handled(w, 3), "and one that does not read");
    stream_pause(slow.s, STREAM_PAUSE_LIMIT);
    fill_answer(w, w->x);
    client_start(w, &c);
    client_ask(&c, "/sync");
    pass_and_look(w, 1000);
    pass_and_look(w, 28000);
    ok(!slow_one_ended(w), "has 30 s from when it is seen first");
    pass_and_look(w, 2000);
    ok(world_until(w, slow_one_ended, w), "then it makes room");
    ok(client_ends_in(&c, "sync"), "for the next");
    is_double(world_closed(w, "slow_reader"), 1, "counted as what it is");
    is_double(world_closed(w, "crowded_out"), 0, "and as nothing else");
    ok(world_sink_has(w, "gone(client takes what waits for it too slowly)"), "the proxy is told");
    stream_resume(slow.s, STREAM_PAUSE_LIMIT);
    is_int(client_ended(&slow), CLIENT_BROKEN, "its client sees that some is lost");
    client_close(&slow, STREAM_CLOSE_NOW);
    client_close(&c, STREAM_CLOSE_NOW);
    end_watches(w, watch);
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
static void test_readers_become_slow(struct world *w)
{
    static const char request[] = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";
    struct client watch[2];
    int fd;

    if (w->client_tls != NULL)
        return;
    start_with_two_watches(w, watch);
    fd = client_raw(w);
    is_int(send(fd, request, strlen(request), 0), (long long)strlen(request), "one asks");
    ok(world_handled(w, 3), "for much");
    fill_answer(w, w->x);
    for (int i = 0; i < 6; i++) {
        pass_and_look(w, 20000);
        ok(take(fd, 256 << 10) > 0, "it takes some");
        world_settle(w);
    }
    ok(!slow_one_ended(w), "who takes enough of it stays, with more waiting all the time");
    for (int i = 0; i < 6 && !slow_one_ended(w); i++) {
        pass_and_look(w, 20000);
        ok(slow_one_ended(w) || take(fd, 10) > 0, "it takes a little");
    }
    ok(slow_one_ended(w), "who takes next to nothing goes");
    close(fd);
    end_watches(w, watch);
}

/* Those of an address that has no more than its share do not make room for others. */
static void test_slow_reader_keeps_share(struct world *w)
{
    struct client slow, busy;

    w->opts.max_connections = 2;
    world_start(w);
    client_open(w, &busy);
    client_ask(&busy, "/held");
    ok(world_handled(w, 1), "one with a request");
    clock_fake(clock_us(), clock_wall_us());
    client_open(w, &slow);
    client_ask(&slow, "/held");
    ok(world_handled(w, 2), "and one that does not read");
    stream_pause(slow.s, STREAM_PAUSE_LIMIT);
    fill_answer(w, w->x);
    for (int i = 0; i < 3; i++)
        pass_and_look(w, 40000);
    ok(!slow_one_ended(w), "are no more than a share");
    clock_real();
    client_close(&slow, STREAM_CLOSE_NOW);
    client_close(&busy, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
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
static void test_slow_tunnels_make_room(struct world *w)
{
    static char piece[16 << 10];
    struct tunnel_end ends[3] = {{NULL, false}, {NULL, false}, {NULL, false}};
    struct client c[3];

    world_start(w);
    clock_fake(clock_us(), clock_wall_us());
    w->opts.max_connections = 3;
    for (unsigned i = 0; i < 3; i++) {
        client_open(w, &c[i]);
        client_send(&c[i], "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
        ok(world_handled(w, i + 1), "a tunnel");
        ends[i].s = exchange_upgrade(w->x, head_of(w, 101, "Upgrade", "SPDY/3.1"));
        w->x = NULL;
        stream_set_owner(ends[i].s, on_tunnel, &ends[i]);
        ok(client_has(&c[i], "\r\n\r\n"), "is open");
    }
    front_update(w->front, &w->opts);
    for (int i = 1; i >= 0; i--) {
        stream_pause(c[i].s, STREAM_PAUSE_LIMIT);
        for (unsigned turns = 0; turns < 2000 && !stream_congested(ends[i].s); turns++) {
            stream_write(ends[i].s, slice_of(piece, sizeof(piece)));
            loop_run_once(w->loop, 0);
        }
        pass_and_look(w, 5000);
    }
    pass_and_look(w, 24000);
    ok(!slow_one_ended(w), "both that do not read have their time");
    pass_and_look(w, 2000);
    ok(world_until(w, slow_one_ended, w), "then one makes room");
    world_settle(w);
    ok(ends[1].failed, "the one that has waited for longer: its owner is told");
    ok(!ends[0].failed && !ends[2].failed, "not the other, nor the one that is silent");
    is_double(world_metric(w, "mvproxy_front_slow_readers_total", NULL), 1, "counted");
    is_double(world_closed(w, "upgraded"), 3, "and as the tunnels that they were");
    clock_real();
    for (int i = 0; i < 3; i++) {
        if (ends[i].s != NULL)
            stream_close(ends[i].s, STREAM_CLOSE_ABORT);
        client_close(&c[i], STREAM_CLOSE_NOW);
    }
    ok(world_empty(w), "over");
}

static const struct world_story stories[] = {
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
    world_run(stories, ROWS(stories));
    return tap_end();
}
