/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 clients that take their answers slowly, and the end of such a connection: each event that can come second. */
#include "unit/front/h2_kit.h"

#include <unistd.h>

#include "base/clock.h"
#include "lib/tap.h"

static void configure_timeout(struct front_h2_kit *k, uint64_t body_timeout_ms)
{
    k->front.opts.body_timeout_ms = body_timeout_ms;
    front_update(k->front.front, &k->front.opts);
}

/* A request for which the client's windows are wide open. */
static void ask_much(struct front_h2_kit *k)
{
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, 64 << 20);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, h2_kit_get(k, "/x")->id, 64 << 20);
    h2_kit_held(k, k->n_held + 1);
}

/* A body, as much of it as is taken: how much. */
static uint64_t respond(struct front_h2_kit *k, struct held *h, uint64_t total)
{
    uint64_t given = 0;

    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    for (unsigned turns_in_vain = 0; given < total && turns_in_vain < 20; turns_in_vain++) {
        uint64_t before = given;

        given = h2_kit_pump(h, given, total);
        if (given > before)
            turns_in_vain = 0;
        loop_run_once(k->front.loop, 1);
    }
    return given;
}

static bool given_up(void *arg)
{
    return front_kit_metric(&((struct front_h2_kit *)arg)->front, "mvproxy_front_answers_not_taken_total", NULL) > 0;
}

static void test_window_shut(struct front_h2_kit *k)
{
    struct req *r[2];

    configure_timeout(k, 300);
    h2_kit_connect(k, false, true);
    r[0] = h2_kit_get(k, "/x");
    r[1] = h2_kit_get(k, "/y");
    h2_kit_held(k, 2);
    (void)respond(k, &k->held[0], 200000);
    exchange_respond(k->held[1].x, h2_kit_head(&k->held[1], 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    ok(h2_kit_until(k, given_up, k), "a client that does not open its window");
    ok(h2_kit_closed(k, r[0]) && r[0]->code == NGHTTP2_CANCEL, "loses that stream");
    is_int(k->held[0].gone, 1, "the proxy is told");
    is_int(k->held[1].gone, 0, "an answer that has nothing to send goes on");
    is_int(k->end, CLIENT_OPEN, "and so does the connection");
}

/* By the clock of the test: in 300 ms of the other one the kernels may take some more after all. */
static void test_socket_shut(struct front_h2_kit *k)
{
    configure_timeout(k, 300);
    h2_kit_connect(k, false, true);
    clock_fake(clock_us(), clock_wall_us());
    ask_much(k);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    ok(respond(k, &k->held[0], 64 << 20) < 64 << 20, "a client that does not read its socket");
    h2_kit_later(k, 290);
    is_int(k->held[0].gone, 0, "has its time");
    h2_kit_later(k, 20);
    is_int(k->held[0].gone, 1, "and the proxy is told");
    is_double(front_kit_metric(&k->front, "mvproxy_front_answers_not_taken_total", NULL), 1, "counted");
    clock_real();
    ok(front_kit_empty(&k->front), "it loses its connection");
    is_double(front_kit_closed(&k->front, "read_timeout"), 1, "for this");
}

/*
 * The client has said goodbye, takes the rest slowly, and leaves: its end is read in the very turn in which the timer
 * that looks after the rest is due. What closes the connection first must be what frees it, whoever comes second:
 * however much of the rest is still with us, with the kernels, or with the client.
 */
static void leave_when_timer_is_due(struct front_h2_kit *k, uint64_t total)
{
    enum { LONGER_THAN_A_LOOK_US = 110 * 1000 };
    struct held *h = &k->held[k->n_held];

    h2_kit_connect(k, false, true);
    ask_much(k);
    nghttp2_submit_goaway(k->session, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, NULL, 0);
    h2_kit_flush(k);
    h2_kit_settle(k);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    (void)respond(k, h, total);
    exchange_finish(h->x, NULL);
    h2_kit_settle(k);
    stream_finish_writing(k->s); /* close_notify leaves when the next turn begins */
    usleep(LONGER_THAN_A_LOOK_US);
    h2_kit_settle(k);
    stream_close(k->s, STREAM_CLOSE_ABORT);
    k->s = NULL;
    h2_kit_disconnect(k);
    ok(front_kit_empty(&k->front), "%u KB: the end of the stream and the timer in one turn", (unsigned)(total >> 10));
}

/* From less to more than the kernels take, in steps smaller than what a stream holds. */
static void test_leaves_when_timer_is_due(struct front_h2_kit *k)
{
    for (uint64_t total = 3 << 20; total < 5 << 20; total += 100 << 10)
        leave_when_timer_is_due(k, total);
}

/* Whole answers, until a part of one stays with us. */
static bool fill_kernels(struct front_h2_kit *k)
{
    enum { ANSWER = 60000, PART = 20000, MOST = 200 };
    size_t before = front_memory(k->front.front);

    for (unsigned i = 0; i < MOST; i++) {
        struct held *h = &k->held[k->n_held];

        h2_kit_get(k, "/x");
        h2_kit_held(k, k->n_held + 1);
        exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, ANSWER});
        h2_kit_pump(h, 0, ANSWER);
        exchange_finish(h->x, NULL);
        h2_kit_settle(k);
        if (front_memory(k->front.front) > before + PART)
            return true;
    }
    return false;
}

/* Of an answer that waited, and whose stream is over, nothing is awaited any more. */
static void give_up_waiting(struct front_h2_kit *k)
{
    struct held *h = &k->held[k->n_held];
    struct req *r = h2_kit_get(k, "/x");

    h2_kit_held(k, k->n_held + 1);
    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    h2_kit_pump(h, 0, KIT_LARGE);
    h2_kit_settle(k);
    nghttp2_submit_rst_stream(k->session, NGHTTP2_FLAG_NONE, r->id, NGHTTP2_CANCEL);
    h2_kit_flush(k);
    h2_kit_told(k, h, "gone");
}

/* A client that has stopped reading: what goes out from now on stays in the socket's queue. */
static void open_unread(struct front_h2_kit *k)
{
    k->front.opts.linger_timeout_ms = 10;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, true);
    nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, KIT_LARGE);
    h2_kit_flush(k);
    h2_kit_settle(k);
    clock_fake(clock_us(), clock_wall_us());
    give_up_waiting(k);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    ok(fill_kernels(k), "answered, and no more is taken than the kernels hold");
}

/* Nothing is asked any more, so that no stream tells that the rest is not taken. */
static void test_takes_nothing(struct front_h2_kit *k)
{
    k->front.opts.idle_timeout_ms = 20;
    k->front.opts.body_timeout_ms = 5; /* is for who waits for an answer */
    open_unread(k);
    h2_kit_later(k, 25);
    is_u64(front_connections(k->front.front), 1, "who has asked is given time to read");
    h2_kit_later(k, 25);
    is_double(front_kit_closed(&k->front, "idle_timeout"), 1, "who takes nothing of its answers is idle");
    clock_real();
    ok(front_kit_empty(&k->front), "and does not stay");
}

/* Of a watch that has been told something there is nothing left but in the socket. */
static struct req *open_unread_watch(struct front_h2_kit *k)
{
    struct held *h;
    struct req *r;

    k->front.opts.body_timeout_ms = 20;
    open_unread(k);
    h = &k->held[k->n_held];
    r = h2_kit_get(k, "/watch");
    h2_kit_held(k, k->n_held + 1);
    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    exchange_body(h->x, SLICE_LIT("event"));
    h2_kit_settle(k);
    return r;
}

static void test_unread_watch(struct front_h2_kit *k)
{
    (void)open_unread_watch(k);
    h2_kit_later(k, 15);
    is_double(front_kit_closed(&k->front, "read_timeout"), 0, "a watch that is not read has its time");
    for (int i = 0; i < 3; i++) {
        nghttp2_submit_ping(k->session, NGHTTP2_FLAG_NONE, NULL);
        h2_kit_flush(k);
        h2_kit_later(k, 15);
    }
    is_double(front_kit_closed(&k->front, "read_timeout"), 1, "and ends with it, whatever its client says");
    is_double(front_kit_metric(&k->front, "mvproxy_front_answers_not_taken_total", NULL), 1, "counted");
    is_int(k->held[k->n_held - 1].gone, 1, "the proxy is told");
    clock_real();
    ok(front_kit_empty(&k->front), "over");
}

static void on_pause_over(void *arg)
{
    *(bool *)arg = true;
}

/* How often the loop wakes in so long a time in which nothing happens. */
static unsigned count_turns(struct front_h2_kit *k, uint64_t ms)
{
    bool over = false;
    struct loop_timer *t = loop_timer_new(k->front.loop, on_pause_over, &over);
    unsigned turns = 0;

    if (t == NULL)
        tap_bail("out of memory");
    loop_timer_set(t, ms);
    clock_fake(clock_us() + ms * 1000, clock_wall_us());
    for (; !over && turns < 1000; turns++)
        loop_run_once(k->front.loop, 100);
    loop_timer_free(t);
    return turns;
}

static bool event_came(void *arg)
{
    return ((struct req *)arg)->body_bytes > 0;
}

static void test_read_watch(struct front_h2_kit *k)
{
    struct req *r = open_unread_watch(k);
    unsigned turns;

    h2_kit_later(k, 15);
    stream_resume(k->s, STREAM_PAUSE_LIMIT);
    ok(h2_kit_until(k, event_came, r), "a client reads on, as fast as it can");
    for (int i = 0; i < 6; i++)
        h2_kit_later(k, 15);
    is_double(front_kit_closed(&k->front, "read_timeout"), 0,
              "of one that reads nothing waits, however long it is silent");
    is_int(k->held[k->n_held - 1].gone, 0, "it goes on");
    turns = count_turns(k, 50);
    ok(turns < 50, "nor is it looked at all the time (%u turns)", turns);
    clock_real();
    h2_kit_disconnect(k);
    ok(front_kit_empty(&k->front), "over");
}

static void drained(void *arg)
{
    *(bool *)arg = true;
}

/* The watch is over, and the client told that we leave: nothing is left but what it does not read. */
static void test_unread_goaway(struct front_h2_kit *k)
{
    bool gone = false;

    (void)open_unread_watch(k);
    front_drain(k->front.front, drained, &gone);
    exchange_finish(k->held[k->n_held - 1].x, NULL);
    for (int i = 0; i < 200 && !gone; i++)
        h2_kit_later(k, 15);
    ok(gone, "who does not read the end does not keep a front that drains");
    clock_real();
    ok(front_kit_empty(&k->front), "over");
}

/* What it has done wrong it cannot be told either. */
static void test_unread_error(struct front_h2_kit *k)
{
    static const unsigned char head_begun[] = {0, 0, 1, 1, 0, 0, 0, 0, 3, 0x82};
    struct held *h = &k->held[k->n_held];
    uint64_t given;
    unsigned turns;

    k->front.opts.linger_timeout_ms = 200;
    k->front.opts.header_timeout_ms = 20;
    front_update(k->front.front, &k->front.opts);
    h2_kit_connect(k, false, true);
    clock_fake(clock_us(), clock_wall_us());
    ask_much(k);
    h2_kit_settle(k);
    h2_kit_raw(k, head_begun, sizeof(head_begun));
    h2_kit_settle(k);
    stream_pause(k->s, STREAM_PAUSE_LIMIT);
    given = respond(k, h, KIT_LARGE);
    ok(given < KIT_LARGE, "an answer that is not read, and a head that does not end");
    h2_kit_later(k, 25);
    is_double(front_kit_closed(&k->front, "header_timeout"), 0, "a client that does not hear of its end");
    turns = count_turns(k, 50);
    ok(turns < 100, "is looked at when its time is over, not all the time (%u turns)", turns);
    clock_fake(clock_us() + 250000, clock_wall_us());
    ok(front_kit_empty(&k->front), "and is not waited for");
    is_double(front_kit_closed(&k->front, "header_timeout"), 1, "counted");
    clock_real();
}

static void take_some(struct front_h2_kit *k, int32_t id)
{
    enum { SOME = 10 };

    nghttp2_submit_window_update(k->session, NGHTTP2_FLAG_NONE, 0, SOME);
    nghttp2_submit_window_update(k->session, NGHTTP2_FLAG_NONE, id, SOME);
    h2_kit_flush(k);
    h2_kit_settle(k);
}

/* The rest of the answer waits all the time: what tells that its client reads is that it becomes less. */
static void test_taken_slowly(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    uint64_t given, first;
    struct req *r;

    configure_timeout(k, 20);
    h2_kit_connect(k, false, true);
    clock_fake(clock_us(), clock_wall_us());
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 1);
    exchange_respond(h->x, h2_kit_head(h, 200, NULL, NULL), (struct http_body){HTTP_BODY_CHUNKED, 0});
    given = h2_kit_pump(h, 0, KIT_LARGE);
    h2_kit_settle(k);
    h2_kit_pump(h, given, KIT_LARGE); /* more than its first window */
    first = r->body_bytes;
    for (int i = 0; i < 6 && h->gone == 0; i++) {
        h2_kit_later(k, 15);
        take_some(k, r->id);
    }
    is_int(h->gone, 0, "an answer of which some is taken now and then goes on");
    ok(r->body_bytes > first, "and arrives");
    for (int i = 0; i < 20 && h->gone == 0; i++)
        h2_kit_later(k, 15);
    ok(h2_kit_has(&h->told, "gone(client takes nothing of the answer)"), "until none is taken any more");
    clock_real();
    ok(h2_kit_closed(k, r) && r->code == NGHTTP2_CANCEL, "the client is told");
}

static bool one_is_left(void *arg)
{
    return front_connections(((struct front_h2_kit *)arg)->front.front) == 1;
}

/* A drain waits for the answer beside it; alone a body that does not come holds it for 5 s. */
static void test_drain_in_body(struct front_h2_kit *k)
{
    struct req *r;
    int silent = client_raw(&k->front);

    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    k->hold_bodies = true;
    h2_kit_ask(k, "POST", "/x", "h", NULL, KIT_LARGE);
    k->hold_bodies = false;
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 2);
    clock_fake(clock_us() + 5000000, clock_wall_us());
    front_drain(k->front.front, NULL, NULL);
    clock_fake(clock_us() + 1000000, clock_wall_us());
    ok(h2_kit_until(k, one_is_left, k), "the drain has looked at who is there");
    h2_kit_reply(&k->held[1], 200, "one");
    ok(h2_kit_closed(k, r) && r->status == 200, "it has waited for the answer");
    clock_fake(clock_us() + 1000000, clock_wall_us());
    ok(h2_kit_ended(k), "but not for the body");
    is_double(front_kit_closed(&k->front, "drain"), 2, "counted");
    is_int(k->held[0].gone, 1, "the proxy is told");
    clock_real();
    close(silent);
}

static const struct h2_kit_story stories[] = {
    {"window shut", test_window_shut},
    {"socket shut", test_socket_shut},
    {"takes nothing", test_takes_nothing},
    {"a watch that is not read", test_unread_watch},
    {"a watch that is read", test_read_watch},
    {"an end that is not read", test_unread_goaway},
    {"an error that is not read", test_unread_error},
    {"taken slowly", test_taken_slowly},
    {"drain in a body", test_drain_in_body},
    {"leaves when the timer is due", test_leaves_when_timer_is_due},
};

int main(int argc, char **argv)
{
    h2_kit_run(stories, ROWS(stories), argc > 1 ? argv[1] : NULL);
    return tap_end();
}
