/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thousands of requests that wait for a connection: whatever becomes of it, a turn of the loop deals with some of them,
 * and the others keep their places.
 */
#include <stdio.h>

#include "back/pool.h"
#include "base/clock.h"
#include "net/listener.h"
#include "unit/back/h2_kit.h"

enum {
    WAIT = 600,       /* three connections are made for these */
    MOST_IN_TURN = 64 /* twice what is meant: a connection that opens serves some at once, and so does its turn's end */
};

static struct back_h2_kit k;
static struct call calls[WAIT];

static struct pool *pool(void)
{
    return k.k.origin->pools[POOL_CERT];
}

/* Those who wait for either protocol. */
static size_t waiting(const struct pool *p)
{
    return p->h2_waiting + p->waiting.requests.count + p->crowd.requests.count + p->held.requests.count;
}

static bool has_preface(size_t conn)
{
    return k.n_conns > conn && k.conns[conn]->window > NGHTTP2_INITIAL_WINDOW_SIZE;
}

/* Nothing is said on the connections that are made for them. */
static void all_wait(size_t conns)
{
    k.silent = true;
    for (size_t i = 0; i < WAIT; i++)
        h2_call_send(&calls[i], &k, "/x", NULL);
    for (size_t i = 0; i < conns; i++)
        (void)run_until(k.k.loop, has_preface(i));
    is_u64(pool()->h2_waiting, WAIT, "all wait");
}

static size_t waiting_http2(const struct pool *p)
{
    return p->h2_waiting;
}

/* The most of those whom `count` counts that left in one turn until `left` of them are there. */
static size_t most_of(struct loop *l, size_t (*count)(const struct pool *p), const struct pool *p, size_t left)
{
    size_t most = 0;

    for (int turns = 0; turns < 10000 && count(p) > left; turns++) {
        size_t before = count(p);

        loop_run_once(l, 5);
        if (before > count(p) && before - count(p) > most)
            most = before - count(p);
    }
    is_u64(count(p), left, "so many wait in the end");
    return most;
}

static size_t most_in_turn(size_t left)
{
    return most_of(k.k.loop, waiting_http2, pool(), left);
}

static bool on_stream(const struct call *c)
{
    return c->r != NULL && c->r->link != NULL;
}

static void close_all(void)
{
    for (size_t i = 0; i < WAIT; i++)
        call_free(&calls[i]);
    h2_close(&k);
}

static void it_opens(void)
{
    size_t most;

    h2_open(&k);
    all_wait(3);
    h2_settings(k.conns[1], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000);
    most = most_in_turn(WAIT - LIMIT_H2_BACK_STREAMS);
    ok(most <= MOST_IN_TURN, "%zu get a stream in one turn", most);
    for (size_t i = 0; i < LIMIT_H2_BACK_STREAMS; i++)
        if (!on_stream(&calls[i]))
            tap_bail("%zu has waited longest, and has no stream", i);
    settle(k.k.loop);
    is_u64(k.n_conns, 3, "those who are left are few enough for the others");
    h2_settings(k.conns[0], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000);
    h2_settings(k.conns[2], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1000);
    most = most_in_turn(0);
    ok(most <= 2 * MOST_IN_TURN, "%zu where two open at once", most);
    is_u64(k.k.n_conns + k.n_conns, 3, "nobody went another way");
    close_all();
}

/* A server that allows a stream at a time: the others stay where they are, and are not moved from line to line. */
static void it_has_little_room(void)
{
    struct line *line;
    size_t moved = 0;

    h2_open(&k);
    all_wait(3);
    line = calls[1].r->line;
    h2_settings(k.conns[0], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    is_u64(most_in_turn(WAIT - 1), 1, "one has its stream");
    settle(k.k.loop);
    ok(on_stream(&calls[0]), "who came first");
    for (size_t i = 1; i < WAIT; i++)
        moved += calls[i].r->line != line;
    is_u64(moved, 0, "nobody else has moved");
    ok(line_first(line) == calls[1].r, "nor lost his place");
    ok(run_until(k.k.loop, has_preface(3)), "another is made for them");
    h2_settings(k.conns[3], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    is_u64(most_in_turn(WAIT - 2), 1, "the next");
    ok(on_stream(&calls[1]), "in their order");
    close_all();
}

static void it_takes_no_streams(void)
{
    size_t most;

    h2_open(&k);
    all_wait(3);
    h2_settings(k.conns[0], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 0);
    most = most_in_turn(0);
    ok(most <= MOST_IN_TURN, "%zu go over to HTTP/1.1 in one turn", most);
    is_double(back_kit_metric(&k.k, "mvproxy_back_failures_total", NULL), 0, "none fails");
    close_all();
}

/* Those that are there are all that there may be, and each is full. */
static void no_other_can_be_made(void)
{
    size_t most;

    h2_open(&k);
    back_kit_origin(&k.k, &(struct origin_opts){.max_connections = 3});
    all_wait(3);
    for (size_t i = 0; i < 3; i++)
        h2_settings(k.conns[i], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    most = most_in_turn(0);
    ok(most <= MOST_IN_TURN + 3, "%zu go over to HTTP/1.1 in one turn", most);
    for (size_t i = 0; i < 3; i++)
        ok(on_stream(&calls[i]), "number %zu has a stream", i);
    is_double(back_kit_metric(&k.k, "mvproxy_back_failures_total", NULL), 0, "none fails");
    close_all();
}

static void some_fail(void)
{
    enum { PART = WAIT / 3 };
    size_t most, failed = 0;

    h2_open(&k);
    all_wait(3);
    listener_close(k.k.listener);
    k.k.listener = NULL;
    h2_conn_close(k.conns[0], STREAM_CLOSE_NOW);
    most = most_in_turn(WAIT - PART);
    ok(most <= MOST_IN_TURN, "its part of them fails, %zu in one turn", most);
    ok(call_is(&calls[0], "failed: connect"), "who came first");
    h2_settings(k.conns[1], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    ok(run_until(k.k.loop, on_stream(&calls[PART])), "who comes first then has the stream that there is");
    h2_conn_close(k.conns[2], STREAM_CLOSE_NOW);
    most = most_in_turn(0);
    ok(most <= MOST_IN_TURN, "%zu in one turn again", most);
    for (size_t i = 0; i < WAIT; i++)
        failed += i != PART && call_is(&calls[i], "failed: connect");
    is_u64(failed, WAIT - 1, "with the last all fail who have no stream");
    close_all();
}

/* While it was being made the time of all went by. */
static void their_time_is_over(void)
{
    size_t most, failed = 0;

    h2_open(&k);
    back_kit_origin(&k.k, &(struct origin_opts){.connect_timeout_ms = 10000});
    clock_fake(clock_us(), clock_wall_us());
    all_wait(3);
    clock_fake(clock_us() + UINT64_C(20000) * 1000, clock_wall_us());
    h2_settings(k.conns[0], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    most = most_in_turn(0);
    ok(most <= MOST_IN_TURN, "%zu fail in one turn", most);
    for (size_t i = 1; i < WAIT; i++)
        failed += call_over(&calls[i]);
    is_u64(failed, WAIT - 1, "all but one fail");
    clock_real();
    close_all();
}

/* Cancelled before anything becomes of it: nothing is left of the line. */
static void all_are_cancelled(void)
{
    h2_open(&k);
    all_wait(3);
    for (size_t i = 0; i < WAIT; i++) {
        back_cancel(calls[i].r);
        calls[i].r = NULL;
    }
    for (size_t i = 0; i < 3; i++)
        h2_settings(k.conns[i], NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1);
    ok(run_until(k.k.loop, pool()->h2_lines.count == 0), "no line is left");
    close_all();
}

/* ---- HTTP/1.1 ---- */

/* All connections stay busy. */
static void none_becomes_free(void)
{
    enum { N = 200 };
    struct origin_opts o = {.max_connections = 1, .connect_timeout_ms = 500};
    static struct call c[N];
    static struct back_kit h1;
    struct pool *p;
    size_t most;

    back_kit_open(&h1, false, 0);
    back_kit_origin(&h1, &o);
    clock_fake(clock_us(), clock_wall_us()); /* their time is over at once */
    for (size_t i = 0; i < N; i++)
        call_start(&c[i], &h1, "GET", "/x");
    clock_real();
    (void)conn_has(back_kit_conn(&h1, 0), "GET /x");
    p = h1.origin->pools[POOL_NO_CERT];
    is_u64(waiting(p), N - 1, "all but one wait");
    most = most_of(h1.loop, waiting, p, 0);
    ok(most <= MOST_IN_TURN, "they give up: %zu in one turn", most);
    ok(call_is(&c[N - 1], "failed: busy"), "told so");
    for (size_t i = 0; i < N; i++)
        call_free(&c[i]);
    back_kit_close(&h1);
}

/* The first dial finds a peer without mvproxy, and all who waited for it go without certificate. */
static void no_mvproxy_is_there(void)
{
    enum { N = 300 };
    static struct call c[N];
    static struct back_kit h1;
    struct pool *p;
    size_t most;

    back_kit_open(&h1, true, 0);
    tls_ctx_unref(h1.client_cert_tls);
    h1.client_cert_tls = hop_client_ctx("front-proxy-client", false);
    back_kit_origin(&h1, &(struct origin_opts){.ping_after_ms = 0});
    h1.auto_reply = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    p = h1.origin->pools[POOL_HOP];
    for (size_t i = 0; i < N; i++) {
        call_init(&c[i], &h1, "GET", "/x");
        c[i].opts.hop = true;
        call_send(&c[i]);
    }
    is_u64(waiting(p), N, "all wait");
    most = most_of(h1.loop, waiting, p, 0);
    ok(most <= MOST_IN_TURN, "they go elsewhere: %zu in one turn", most);
    for (size_t i = 0; i < N; i++)
        if (!call_is(&c[i], "head(200) end"))
            tap_bail("request %zu", i);
    is_u64(p->h1.by_state[CONN_DIALLING].count, 0, "nothing is dialled there for nobody");
    for (size_t i = 0; i < N; i++)
        call_free(&c[i]);
    back_kit_close(&h1);
}

int main(void)
{
    it_opens();
    it_has_little_room();
    it_takes_no_streams();
    no_other_can_be_made();
    some_fail();
    their_time_is_over();
    all_are_cancelled();
    none_becomes_free();
    no_mvproxy_is_there();
    return tap_end();
}
