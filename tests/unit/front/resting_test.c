/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes room at max-connections where everybody has a few: who has been idle for longest. */
#include "unit/front/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "lib/tap.h"

static void pass_ms(unsigned ms)
{
    clock_fake(clock_us() + 1000 * (uint64_t)ms, clock_wall_us());
}

/* Time passes, and at the limit it is looked for who makes room. */
static void pass_and_look(struct front_kit *k, unsigned ms)
{
    pass_ms(ms);
    for (int i = 0; i < 25; i++)
        loop_run_once(k->loop, 10);
}

static bool is_open(int fd)
{
    char c;

    return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

/* Each address has one: all the same they must not keep others out until they are closed for their idleness. */
static void test_resting_ones_make_room(struct front_kit *k)
{
    struct front_client busy;
    int idle[3], next;

    if (k->client_tls != NULL)
        return;
    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    client_open(k, &busy);
    client_ask(&busy, "/held");
    ok(front_kit_handled(k, 1), "one with a request");
    for (int i = 0; i < 3; i++) {
        idle[i] = client_raw_from(k, (unsigned char)(i + 2));
        client_raw_asks(k, idle[i]);
        pass_ms(500);
    }
    client_raw_asks(k, idle[0]); /* the second is idle for longest now */
    k->opts.max_connections = 4;
    front_update(k->front, &k->opts);
    next = client_raw_from(k, 6);
    pass_and_look(k, 3900);
    is_double(front_kit_closed(k, "crowded_out"), 0, "who asks every few seconds keeps his place");
    pass_and_look(k, 200);
    is_double(front_kit_closed(k, "crowded_out"), 1, "after 5 s one makes room");
    ok(is_open(idle[0]) && !is_open(idle[1]) && is_open(idle[2]), "the one that has been idle for longest");
    client_raw_asks(k, next);
    clock_real();
    is_int(busy.end, CLIENT_OPEN, "a request under way stays");
    client_close(&busy, STREAM_CLOSE_NOW);
    for (int i = 0; i < 3; i++)
        close(idle[i]);
    close(next);
    ok(front_kit_empty(k), "over");
}

/* One is enough, and then nobody has to wait. */
static void test_one_makes_room(struct front_kit *k)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    struct front_client busy;
    int resting, silent[3], dripping[3];

    if (k->client_tls != NULL)
        return;
    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    client_open(k, &busy);
    client_ask(&busy, "/held");
    ok(front_kit_handled(k, 1), "one with a request");
    resting = client_raw_from(k, 2);
    client_raw_asks(k, resting);
    pass_ms(6000);
    k->opts.max_connections = 2;
    front_update(k->front, &k->opts);
    is_double(front_kit_closed(k, "crowded_out"), 1, "the one that rests makes room");
    ok(!front_is_crowded(k->front), "and nobody has to wait");
    k->opts.max_connections = 0;
    front_update(k->front, &k->opts);
    for (unsigned i = 0; i < 3; i++) {
        silent[i] = client_raw_from(k, 3);
        dripping[i] = client_raw_from(k, 4);
        (void)!send(dripping[i], post, strlen(post), 0);
        ok(front_kit_handled(k, i + 3), "some that are silent, some that drip");
    }
    pass_ms(30000);
    k->opts.max_connections = 7;
    front_update(k->front, &k->opts);
    is_double(front_kit_closed(k, "crowded_out"), 2, "a silent one makes room");
    loop_run_once(k->loop, 0); /* its descriptor is closed at the end of the turn */
    k->opts.max_connections = 6;
    front_update(k->front, &k->opts);
    is_double(front_kit_closed(k, "crowded_out"), 3, "alone, as does one that drips");
    ok(!front_is_crowded(k->front), "nobody has to wait");
    clock_real();
    for (int i = 0; i < 3; i++) {
        close(silent[i]);
        close(dripping[i]);
    }
    close(resting);
    client_close(&busy, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* Or one address could take the places of all others, by requests that do not end. */
static void test_resting_ones_stay_beside_many(struct front_kit *k)
{
    enum { BUSY = 11 };
    struct front_client busy[BUSY];
    int idle;

    if (k->client_tls != NULL)
        return;
    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    idle = client_raw_from(k, 2);
    client_raw_asks(k, idle);
    for (unsigned i = 0; i < BUSY; i++) {
        client_open(k, &busy[i]);
        client_ask(&busy[i], "/held");
        front_kit_handled(k, i + 2);
    }
    k->opts.max_connections = BUSY + 1;
    front_update(k->front, &k->opts);
    pass_and_look(k, 20000);
    ok(is_open(idle), "one of another address stays while somebody has much more than a share");
    ok(front_is_crowded(k->front), "then nobody makes room, and new ones have to wait");
    clock_real();
    close(idle);
    for (int i = 0; i < BUSY; i++)
        client_close(&busy[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* ---- what is said of it ---- */

void __real_loop_timer_set(struct loop_timer *t, uint64_t delay_ms);
void __wrap_loop_timer_set(struct loop_timer *t, uint64_t delay_ms);
static struct loop_timer *of_line; /* of a line that waits for 20 s, which the test sets */

void __wrap_loop_timer_set(struct loop_timer *t, uint64_t delay_ms)
{
    if (delay_ms == 20000)
        of_line = t;
    else
        __real_loop_timer_set(t, delay_ms);
}

static void set_limits(struct front_kit *k, size_t most, size_t most_of_client)
{
    k->opts.max_connections = most;
    k->opts.max_connections_per_client = most_of_client;
    front_update(k->front, &k->opts);
}

/* What happens again soon is said later. */
static void test_said_again(struct front_kit *k)
{
    char *text = NULL;
    size_t n_text;
    FILE *log = open_memstream(&text, &n_text);
    struct front_client busy;
    int refused;

    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    client_open(k, &busy);
    client_ask(&busy, "/held");
    ok(front_kit_handled(k, 1), "one with a request");
    log_set_stream(log);
    for (int i = 0; i < 3; i++) {
        set_limits(k, 1, 0);
        set_limits(k, 0, 1);
        refused = client_raw(k);
        front_kit_settle(k);
        close(refused);
    }
    ok(of_line != NULL, "what is held back is to be told");
    __real_loop_timer_set(of_line, 0);
    front_kit_settle(k);
    for (unsigned ms = 19999; ms <= 20000; ms++) {
        pass_ms(ms == 19999 ? ms : 1);
        set_limits(k, 1, 0);
        set_limits(k, 0, 0);
    }
    clock_real();
    log_set_stream(stderr);
    (void)fclose(log);
    is_double(front_kit_closed(k, "client_limit"), 3, "three are refused");
    ok(strstr(text, "what=\"Connection limit reached\" times=2") != NULL, "of two limits: %s", text);
    ok(strstr(text, "what=\"Connection limit of one client address reached\" times=2") != NULL, "each is told");
    ok(strstr(text, "new clients wait\" limit=1 timesSinceLastLine=2") != NULL, "it is said itself after 20 s: %s",
       text);
    free(text);
    client_close(&busy, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static const struct front_kit_story stories[] = {
    {"resting ones make room", test_resting_ones_make_room},
    {"one makes room", test_one_makes_room},
    {"resting ones stay beside many", test_resting_ones_stay_beside_many},
    {"said again", test_said_again},
};

int main(void)
{
    front_kit_run(stories, ROWS(stories));
    return tap_end();
}
