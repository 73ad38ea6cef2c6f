/* SPDX-License-Identifier: Apache-2.0 */
/* An address that another process has when we start: for how long it is asked for, and what is said to whom. Clock,
 * front, cluster and drain are played here. */
#include "daemon/address_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "cluster/cluster.h"
#include "daemon/app_state.h"
#include "daemon/drain.h"
#include "lib/tap.h"
#include "unit/daemon/one_timer.h"

enum { STEP_MS = 200 };

/* The world. */
static struct {
    int error; /* of listening; 0: it succeeds */
    unsigned asked, drained;
    enum readiness_state state;
    bool peers;
} world;

/* ---- in place of net, front, cluster and drain ---- */

bool front_listen(struct front *f, const struct listeners_opts *listen, struct err *err)
{
    (void)f;
    world.asked++;
    is_u64(listen->n_addresses, 2, "all addresses at once");
    if (world.error == 0)
        return true;
    errno = world.error;
    return err_set(err, "bind 10.0.0.1:6443: error %d", world.error);
}

unsigned front_port(const struct front *f)
{
    (void)f;
    return 6443;
}

void drain_begin(struct app *a)
{
    world.drained++;
    a->phase = APP_DRAINING;
}

enum readiness_state cluster_local_state(const struct cluster *c)
{
    (void)c;
    return world.state;
}

bool cluster_peers_answer(const struct cluster *c)
{
    (void)c;
    return world.peers;
}

/* ---- stories ---- */

static char *logged;
static size_t logged_n;

static bool said(const char *words)
{
    fflush(NULL);
    return logged != NULL && strstr(logged, words) != NULL;
}

static unsigned lines(void)
{
    unsigned n = 0;

    fflush(NULL);
    for (const char *p = logged; p != NULL && (p = strchr(p, '\n')) != NULL; p++)
        n++;
    return n;
}

static struct app begin(int error)
{
    memset(&world, 0, sizeof(world));
    *one_timer() = (struct one_timer){.now_ms = 0};
    one_timer()->now_ms = 10000;
    world.error = error;
    world.state = READINESS_STARTING;
    return (struct app){.phase = APP_SERVING,
                        .ready_later = error != 0,
                        .addresses = {.at = {{"10.0.0.1", 6443}, {"127.0.0.1", 0}}, .n = 2}};
}

static void free_address(void)
{
    struct app a = begin(0);
    struct err err = {""};

    ok(address_wait_begin(&a, &err), "it is free");
    is_str(a.address_waits, "", "nothing is waited for");
    is_u64(one_timer()->due_ms, 0, "no timer");
}

static void impossible(void)
{
    struct app a = begin(EACCES);
    struct err err = {""};

    ok(!address_wait_begin(&a, &err), "a port that we may not have is not waited for");
    ok(strncmp(err.text,
               "bind 10.0.0.1:6443: error 13: a port below 1024 needs AmbientCapabilities=CAP_NET_BIND_SERVICE",
               93) == 0,
       "why, and what to do: %s", err.text);
    a = begin(EADDRNOTAVAIL);
    err_clear(&err);
    ok(!address_wait_begin(&a, &err), "what is not there is not waited for");
    is_str(err.text, "bind 10.0.0.1:6443: error 99", "and is no matter of rights");
    a = begin(EADDRINUSE);
    one_timer()->no_memory = true;
    ok(!address_wait_begin(&a, &err), "nor is one without memory for a timer");
}

static void comes_free(void)
{
    struct app a = begin(EADDRINUSE);
    struct err err = {""};
    unsigned before = lines();

    ok(address_wait_begin(&a, &err), "somebody has it: waited for");
    is_str(a.address_waits, "bind 10.0.0.1:6443: error 98", "which is told");
    is_u64(lines() - before, 1, "in one line");
    ok(said("another process has: ss -ltnp tells whose it is\" err=\"bind 10.0.0.1:6443: error 98\""), "%s", logged);
    for (int i = 0; i < 10; i++)
        one_timer_fire(&a);
    is_u64(one_timer()->now_ms, 12000, "asked again and again");
    is_u64(world.asked, 11, "each time");
    is_u64(lines() - before, 1, "without a word");
    world.error = 0;
    one_timer_fire(&a);
    is_str(a.address_waits, "", "had");
    ok(said("\"Listening\" address=\"10.0.0.1\" port=6443 for=\"clients\" socket=\"own\""), "said: %s", logged);
    is_u64(lines() - before, 3, "a line for each");
    is_u64(a.held_beats, ADDRESS_WAIT_BEATS, "nobody is accepted yet");
    one_timer()->now_ms += ADDRESS_WAIT_SETTLES_MS - 1;
    world.peers = true;
    ok(!address_wait_is_over(&a) && !address_wait_has_peers(&a), "who had it may still be seen");
    one_timer()->now_ms++;
    ok(!address_wait_is_over(&a), "the local server starts anew");
    ok(address_wait_has_peers(&a), "peers answer meanwhile");
    world.peers = false;
    ok(!address_wait_has_peers(&a), "unless there is none");
    world.state = READINESS_READY;
    ok(address_wait_is_over(&a), "and is ready");
    is_u64(one_timer()->due_ms, 0, "no timer any more");
}

static void stays_taken(void)
{
    struct app a = begin(EADDRINUSE);
    struct err err = {""};

    (void)address_wait_begin(&a, &err);
    while (one_timer()->due_ms != 0)
        one_timer_fire(&a);
    is_u64(one_timer()->now_ms, 10000 + TIMEOUT_ADDRESS_IN_USE_MS, "until the time is over");
    is_u64(world.asked, 1 + TIMEOUT_ADDRESS_IN_USE_MS / STEP_MS, "so many times");
    is_u64(world.drained, 1, "then the process ends");
    is_str(a.failed, "bind 10.0.0.1:6443: error 98 (waited 60 s)", "and fails");

    a = begin(EADDRINUSE);
    (void)address_wait_begin(&a, &err);
    world.error = EACCES;
    one_timer_fire(&a);
    is_u64(world.drained, 1, "another error ends it at once");
}

static void told_to_stop(void)
{
    struct app a = begin(EADDRINUSE);
    struct err err = {""};

    (void)address_wait_begin(&a, &err);
    a.phase = APP_DRAINING;
    world.error = 0;
    one_timer_fire(&a);
    is_u64(world.asked, 1, "told to stop: not asked for again");
    is_u64(one_timer()->due_ms, 0, "never");
}

int main(void)
{
    FILE *f = open_memstream(&logged, &logged_n);

    if (f == NULL)
        tap_bail("open_memstream");
    log_set_stream(f);
    free_address();
    impossible();
    comes_free();
    stays_taken();
    told_to_stop();
    log_set_stream(stderr);
    (void)fclose(f);
    free(logged);
    return tap_end();
}
