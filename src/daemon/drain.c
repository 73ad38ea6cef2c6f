/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/drain.h"

#include "base/log.h"
#include "daemon/app_state.h"

enum {
    DRAIN_STEP_MS = 100,
    DRAIN_QUIET_MS = 1000, /* the last part of the grace period is for what was told to end to do so */
};

static void stop(struct app *a, const char *why)
{
    if (a->phase == APP_STOPPED)
        return;
    app_set_phase(a, APP_STOPPED);
    log_info("Stopped", LT("why", why), LU("connections", front_connections(a->front)),
             LU("tunnels", proxy_tunnels(a->proxy)));
    loop_stop(a->loop);
}

/* The front knows of requests, the proxy of the tunnels that have left it. */
static bool idle(const struct app *a)
{
    return front_connections(a->front) == 0 && proxy_tunnels(a->proxy) == 0;
}

/* As many as it takes for the last to end shortly before the grace period does. */
static size_t share_of_step(const struct app *a, uint64_t left_ms)
{
    size_t n = proxy_long_running(a->proxy) + proxy_tunnels(a->proxy);
    uint64_t usable = left_ms > DRAIN_QUIET_MS ? left_ms - DRAIN_QUIET_MS : 0;
    uint64_t steps = usable / DRAIN_STEP_MS;

    return steps == 0 ? n : (n + (size_t)steps - 1) / (size_t)steps;
}

/*
 * A process that was suspended (its machine is moved, its control group is out of time) may find the grace period
 * over before it could end what it has to end in order: for that it takes the time that it has missed.
 */
static void make_up(struct app *a, uint64_t now)
{
    uint64_t in_all = loop_missed_ms(a->loop), missed = in_all - a->drain_missed_ms;

    a->drain_missed_ms = in_all;
    if (missed < DRAIN_QUIET_MS || a->drain_ends_ms >= now + DRAIN_QUIET_MS)
        return;
    log_info("Grace period extended, the process was suspended", LU("missedMilliseconds", missed));
    a->drain_ends_ms = now + DRAIN_QUIET_MS;
}

static void step(void *arg)
{
    struct app *a = arg;
    uint64_t now = loop_now_ms(a->loop);

    if (a->phase == APP_STOPPED)
        return;
    make_up(a, now);
    if (a->withdrawn && (idle(a) || now >= a->drain_ends_ms)) {
        stop(a, idle(a) ? "drained" : "grace period over");
        return;
    }
    (void)proxy_end_long_running(a->proxy, share_of_step(a, a->drain_ends_ms > now ? a->drain_ends_ms - now : 0));
    notify_extend_timeout(a->notify, (uint64_t)DRAIN_STEP_MS * 1000 * 20);
    loop_timer_set(a->drain_step, DRAIN_STEP_MS);
}

static void begin_draining(void *arg)
{
    struct app *a = arg;

    app_set_phase(a, APP_DRAINING);
    a->drain_missed_ms = loop_missed_ms(a->loop);
    a->drain_ends_ms = loop_now_ms(a->loop) + a->config->shutdown_grace_period;
    log_info("Draining", LU("connections", front_connections(a->front)), LU("requests", front_exchanges(a->front)),
             LU("longRunning", proxy_long_running(a->proxy)), LU("tunnels", proxy_tunnels(a->proxy)));
    front_drain(a->front, NULL, NULL);
    step(a);
}

static void after_delay(void *arg)
{
    struct app *a = arg;

    if (a->phase == APP_DELAYING)
        begin_draining(a);
    else
        step(a);
}

static void on_withdrawn(void *arg)
{
    struct app *a = arg;

    a->withdrawn = true;
    /* Nothing else to wait for: without waiting for the next step. */
    if (a->phase == APP_DRAINING && idle(a))
        stop(a, "drained");
}

void drain_begin(struct app *a)
{
    /* Nobody has to be sent elsewhere by what nobody could come to. */
    uint64_t delay_ms = a->address_waits[0] == '\0' ? a->config->shutdown_delay_duration : 0;

    if (a->phase != APP_SERVING) {
        stop(a, "second signal");
        return;
    }
    app_set_phase(a, APP_DELAYING);
    log_info("Shutting down", LU("delayMilliseconds", delay_ms));
    notify_stopping(a->notify);
    proxy_set_stopping(a->proxy);
    /* First of all, so that peers send nothing here any more. */
    cluster_stop(a->cluster, on_withdrawn, a);
    a->drain_step = loop_timer_new(a->loop, after_delay, a);
    if (a->drain_step == NULL) {
        stop(a, "out of memory");
        return;
    }
    if (delay_ms > 0) {
        notify_extend_timeout(a->notify, (delay_ms + a->config->shutdown_grace_period) * 1000);
        loop_timer_set(a->drain_step, delay_ms);
    } else {
        begin_draining(a);
    }
}
