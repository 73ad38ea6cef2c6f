/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the process, step by step: what is told to whom, and when it is over. Clock, front, proxy, cluster and
 * service manager are played here, and write down what they are told.
 */
#include "daemon/drain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "daemon/app_state.h"
#include "lib/tap.h"
#include "unit/daemon/one_timer.h"

enum { TEXT = 4096 };

/* The world. */
static struct {
    char told[TEXT];
    uint64_t missed_ms;
    size_t connections, exchanges, tunnels, long_running;
    void (*on_withdrawn)(void *arg);
} world;

static void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *fmt, ...)
{
    size_t n = strlen(world.told);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(world.told + n, sizeof(world.told) - n, fmt, ap);
    va_end(ap);
}

/* ---- in place of net, front, proxy, cluster and the service manager ---- */

uint64_t loop_missed_ms(const struct loop *l)
{
    (void)l;
    return world.missed_ms;
}

void loop_stop(struct loop *l)
{
    (void)l;
    tell("loop stops; ");
}

size_t front_connections(const struct front *f)
{
    (void)f;
    return world.connections;
}

size_t front_exchanges(const struct front *f)
{
    (void)f;
    return world.exchanges;
}

void front_drain(struct front *f, void (*on_drained)(void *arg), void *arg)
{
    (void)f;
    (void)on_drained;
    (void)arg;
    tell("front drains; ");
}

size_t proxy_tunnels(const struct proxy *p)
{
    (void)p;
    return world.tunnels;
}

size_t proxy_long_running(const struct proxy *p)
{
    (void)p;
    return world.long_running;
}

size_t proxy_end_long_running(struct proxy *p, size_t n)
{
    (void)p;
    tell("ends %zu; ", n);
    return n;
}

void proxy_set_stopping(struct proxy *p)
{
    (void)p;
    tell("proxy stops; ");
}

void cluster_stop(struct cluster *c, void (*done)(void *arg), void *arg)
{
    (void)c;
    (void)arg;
    world.on_withdrawn = done;
    tell("cluster stops; ");
}

void notify_stopping(struct notify *n)
{
    (void)n;
    tell("stopping; ");
}

void notify_extend_timeout(struct notify *n, uint64_t us)
{
    (void)n;
    tell("extends %llu ms; ", (unsigned long long)us / 1000);
}

/* ---- stories ---- */

static char *logged;
static size_t logged_n;

/* What was told since the last time. */
static void told(const char *want, const char *name)
{
    is_str(world.told, want, "%s", name);
    world.told[0] = '\0';
}

static bool said(const char *words)
{
    fflush(NULL);
    return logged != NULL && strstr(logged, words) != NULL;
}

static struct app begin(uint64_t delay_ms, uint64_t grace_ms)
{
    static struct config config;

    memset(&world, 0, sizeof(world));
    *one_timer() = (struct one_timer){.now_ms = 0};
    one_timer()->now_ms = 10000;
    config = (struct config){.shutdown_delay_duration = delay_ms, .shutdown_grace_period = grace_ms};
    return (struct app){.config = &config, .phase = APP_SERVING};
}

static void with_delay(void)
{
    struct app a = begin(3000, 5000);

    drain_begin(&a);
    told("stopping; proxy stops; cluster stops; extends 8000 ms; ", "first of all peers hear of it");
    is_int(a.phase, APP_DELAYING, "still served");
    is_u64(one_timer()->due_ms, 13000, "for the delay");
    world.on_withdrawn(&a);
    is_int(a.phase, APP_DELAYING, "the delay is kept");
    world.connections = 1;
    one_timer_fire(&a);
    told("front drains; ends 0; extends 2000 ms; ", "then the listener closes");
    is_int(a.phase, APP_DRAINING, "draining");
    is_u64(a.drain_ends_ms, 18000, "the grace period begins after the delay");
    one_timer_fire(&a);
    told("ends 0; extends 2000 ms; ", "a step");
    world.connections = 0;
    one_timer_fire(&a);
    told("loop stops; ", "nobody is left");
    is_int(a.phase, APP_STOPPED, "stopped");
    ok(said("why=\"drained\""), "why: %s", logged);
    one_timer()->fn(&a);
    world.on_withdrawn(&a);
    told("", "what comes later does nothing");
}

/* What we have published is to be withdrawn first, but no longer than the grace period. */
static void withdrawal(void)
{
    struct app a = begin(0, 400);

    drain_begin(&a);
    told("stopping; proxy stops; cluster stops; front drains; ends 0; extends 2000 ms; ", "no delay");
    one_timer_fire(&a);
    told("ends 0; extends 2000 ms; ", "nobody is there, but it is not withdrawn");
    world.on_withdrawn(&a);
    told("loop stops; ", "withdrawn: without waiting for the next step");

    a = begin(0, 400);
    drain_begin(&a);
    world.connections = 1;
    world.on_withdrawn(&a);
    is_int(a.phase, APP_DRAINING, "a connection holds it");
    world.connections = 0;
    world.tunnels = 1;
    world.on_withdrawn(&a);
    is_int(a.phase, APP_DRAINING, "a tunnel holds it");
}

static void grace_period(void)
{
    struct app a = begin(0, 300);

    world.tunnels = 1;
    drain_begin(&a);
    world.on_withdrawn(&a);
    one_timer_fire(&a);
    one_timer_fire(&a);
    is_u64(one_timer()->now_ms, 10200, "two steps");
    is_int(a.phase, APP_DRAINING, "the grace period is not over");
    one_timer_fire(&a);
    is_int(a.phase, APP_STOPPED, "it is");
    ok(said("why=\"grace period over\""), "why: %s", logged);
    a = begin(0, 300);
    drain_begin(&a);
    for (int i = 0; i < 5; i++)
        one_timer_fire(&a);
    is_int(a.phase, APP_DRAINING, "but not before all is withdrawn");
}

/* Long-running requests end in even shares, the last a second before the end of the grace period. */
static void shares(void)
{
    static const struct {
        uint64_t grace_ms;
        size_t long_running, tunnels;
        const char *want;
    } rows[] = {{3000, 20, 0, "ends 1; "}, {3000, 21, 0, "ends 2; "}, {3000, 15, 6, "ends 2; "},
                {1100, 7, 0, "ends 7; "},  {1099, 7, 0, "ends 7; "},  {1000, 7, 2, "ends 9; "},
                {500, 7, 0, "ends 7; "},   {1200, 7, 0, "ends 4; "},  {3000, 2000, 0, "ends 100; "}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct app a = begin(0, rows[i].grace_ms);

        world.long_running = rows[i].long_running;
        world.tunnels = rows[i].tunnels;
        drain_begin(&a);
        ok(strstr(world.told, rows[i].want) != NULL, "row %zu: %s", i, world.told);
    }
}

/* A process that was stopped meanwhile takes a second to end in order. */
static void suspended(void)
{
    static const struct {
        uint64_t missed_ms, at_ms, want;
    } rows[] = {
        {999, 11900, 12000}, {1000, 10900, 12000}, {1000, 11000, 12000}, {1000, 11001, 12001}, {60000, 70000, 71000}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct app a = begin(0, 2000);

        world.missed_ms = 5000; /* before it was told to end */
        world.connections = 1;
        drain_begin(&a);
        world.on_withdrawn(&a);
        world.missed_ms += rows[i].missed_ms;
        one_timer()->now_ms = rows[i].at_ms;
        one_timer()->fn(&a);
        is_u64(a.drain_ends_ms, rows[i].want, "row %zu", i);
        is_int(a.phase, APP_DRAINING, "row %zu: goes on", i);
        one_timer()->now_ms = a.drain_ends_ms;
        one_timer()->fn(&a);
        is_int(a.phase, APP_STOPPED, "row %zu: what was missed counts once", i);
    }
}

/* Nobody could connect so far, and nobody has to be sent elsewhere. */
static void not_listening(void)
{
    struct app a = begin(3000, 5000);

    (void)snprintf(a.address_waits, sizeof(a.address_waits), "bind");
    drain_begin(&a);
    told("stopping; proxy stops; cluster stops; front drains; ends 0; extends 2000 ms; ", "an address is waited for");
    is_u64(a.drain_ends_ms, 15000, "the grace period begins at once");
}

static void impatience(void)
{
    struct app a = begin(1000, 1000);

    drain_begin(&a);
    world.told[0] = '\0';
    drain_begin(&a);
    told("loop stops; ", "a second signal ends it at once");
    ok(said("why=\"second signal\""), "why: %s", logged);
    drain_begin(&a);
    told("", "a third one finds it ended");
    a = begin(1000, 1000);
    one_timer()->no_memory = true;
    drain_begin(&a);
    is_int(a.phase, APP_STOPPED, "no memory for a timer");
    told("stopping; proxy stops; cluster stops; loop stops; ", "ends it at once, too");
}

int main(void)
{
    FILE *f = open_memstream(&logged, &logged_n);

    if (f == NULL)
        tap_bail("open_memstream");
    log_set_stream(f);
    with_delay();
    withdrawal();
    grace_period();
    shares();
    suspended();
    not_listening();
    impatience();
    log_set_stream(stderr);
    (void)fclose(f);
    free(logged);
    return tap_end();
}
