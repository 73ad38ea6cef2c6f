/* SPDX-License-Identifier: Apache-2.0 */
/* Which HTTP/2 connections make room at the limit, and which stay. */
#include "unit/front/h2_kit.h"

#include <unistd.h>

#include "base/clock.h"
#include "lib/tap.h"

static void limit_connections(struct front_h2_kit *k, size_t max)
{
    k->front.opts.max_connections = max;
    front_update(k->front.front, &k->front.opts);
}

static void test_idle_one_makes_room(struct front_h2_kit *k)
{
    int silent[2];
    struct req *r;

    h2_kit_connect(k, false, false);
    h2_kit_get(k, "/x");
    r = h2_kit_get(k, "/x");
    h2_kit_held(k, 2);
    for (int i = 0; i < 2; i++)
        silent[i] = client_raw(&k->front);
    h2_kit_settle(k);
    is_u64(front_connections(k->front.front), 3, "with two others there are three");
    limit_connections(k, 3);
    h2_kit_reply(&k->held[0], 200, "one");
    h2_kit_settle(k);
    limit_connections(k, 0);
    limit_connections(k, 3);
    is_double(front_kit_closed(&k->front, "crowded_out"), 0, "with a request under way nobody makes room");
    limit_connections(k, 0);
    h2_kit_reply(&k->held[1], 200, "two");
    ok(h2_kit_closed(k, r), "when the last of them is answered");
    limit_connections(k, 3);
    ok(h2_kit_ended(k), "the connection is idle, and does");
    is_double(front_kit_closed(&k->front, "crowded_out"), 1, "counted");
    is_int(k->goaways, 1, "its client is told");
    for (int i = 0; i < 2; i++)
        close(silent[i]);
}

static void test_dripping_one_makes_room(struct front_h2_kit *k)
{
    int silent[2];

    h2_kit_connect(k, false, false);
    clock_fake(clock_us(), clock_wall_us());
    k->hold_bodies = true;
    h2_kit_ask(k, "POST", "/x", "h", NULL, KIT_LARGE);
    k->hold_bodies = false;
    h2_kit_get(k, "/x");
    h2_kit_held(k, 2);
    exchange_pause_body(k->held[0].x);
    clock_fake(clock_us() + 21000000, clock_wall_us());
    exchange_resume_body(k->held[0].x);
    for (int i = 0; i < 2; i++)
        silent[i] = client_raw(&k->front);
    h2_kit_settle(k);
    limit_connections(k, 3);
    is_double(front_kit_closed(&k->front, "crowded_out"), 0,
              "beside what waits for its answer a slow body does not count");
    h2_kit_reply(&k->held[1], 200, "one");
    h2_kit_settle(k);
    limit_connections(k, 0);
    limit_connections(k, 3);
    is_double(front_kit_closed(&k->front, "crowded_out"), 0, "nor one that has just been asked for");
    limit_connections(k, 0);
    for (int i = 0; i < 2; i++)
        close(silent[i]);
    clock_fake(clock_us() + 20000000, clock_wall_us());
    for (int i = 0; i < 2; i++)
        silent[i] = client_raw(&k->front);
    h2_kit_settle(k);
    limit_connections(k, 3);
    ok(h2_kit_ended(k), "a connection with slow bodies alone makes room");
    clock_real();
    is_double(front_kit_closed(&k->front, "crowded_out"), 1, "counted");
    is_int(k->held[0].gone, 1, "the proxy is told");
    for (int i = 0; i < 2; i++)
        close(silent[i]);
}

/* Half a minute at the limit, among two that have just come. */
static void half_a_minute_at_limit(struct front_h2_kit *k, struct req *r, int32_t takes)
{
    int silent[2];

    for (int i = 0; i < 2; i++)
        silent[i] = client_raw(&k->front);
    h2_kit_settle(k);
    limit_connections(k, 3);
    limit_connections(k, 0);
    for (int i = 0; i < 2; i++)
        close(silent[i]);
    if (k->end != CLIENT_OPEN)
        return;
    nghttp2_submit_window_update(k->session, NGHTTP2_FLAG_NONE, 0, takes);
    nghttp2_submit_window_update(k->session, NGHTTP2_FLAG_NONE, r->id, takes);
    h2_kit_flush(k);
    clock_fake(clock_us() + 31000000, clock_wall_us());
    h2_kit_settle(k);
}

/* Nothing waits in the socket then: the windows are what it opens a little now and then. */
static void test_slow_reader_makes_room(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    struct req *r;
    uint64_t given;

    r = h2_kit_answering(k);
    given = h2_kit_pump(h, 0, KIT_LARGE);
    h2_kit_settle(k);
    half_a_minute_at_limit(k, r, 40000);
    h2_kit_pump(h, given, KIT_LARGE);
    half_a_minute_at_limit(k, r, 10);
    is_double(front_kit_closed(&k->front, "slow_reader"), 0, "who took enough stays");
    half_a_minute_at_limit(k, r, 10);
    ok(h2_kit_ended(k), "who took ten bytes makes room");
    clock_real();
    is_double(front_kit_closed(&k->front, "slow_reader"), 1, "counted");
    is_int(h->gone, 1, "the proxy is told");
    ok(front_kit_empty(&k->front), "over");
}

/* It has taken all that there was. */
static void test_silent_watch_stays(struct front_h2_kit *k)
{
    struct held *h = &k->held[0];
    struct req *r;

    r = h2_kit_answering(k);
    exchange_body(h->x, slice_str("event"));
    h2_kit_settle(k);
    is_u64(r->body_bytes, 5, "a watch that was told something");
    for (int i = 0; i < 3; i++)
        half_a_minute_at_limit(k, r, 10);
    clock_real();
    is_int(k->end, CLIENT_OPEN, "a minute of silence at the limit");
    is_double(front_kit_closed(&k->front, "slow_reader"), 0, "ends no watch");
}

static const struct h2_kit_story stories[] = {
    {"idle one makes room", test_idle_one_makes_room},
    {"dripping one makes room", test_dripping_one_makes_room},
    {"slow reader makes room", test_slow_reader_makes_room},
    {"silent watch stays", test_silent_watch_stays},
};

int main(int argc, char **argv)
{
    h2_kit_run(stories, ROWS(stories), argc > 1 ? argv[1] : NULL);
    return tap_end();
}
