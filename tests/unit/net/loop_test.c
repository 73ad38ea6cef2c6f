/* SPDX-License-Identifier: Apache-2.0 */
/* Timers, signals, and the order of things within a turn. */
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "lib/tap.h"
#include "net/loop_internal.h"
#include "unit/net/fixture.h"

struct log {
    struct loop *l;
    char text[256];
    struct loop_timer *timer;
    struct loop_deferred a, b, c;
};

static void add(struct log *g, const char *what)
{
    size_t n = strlen(g->text);

    snprintf(g->text + n, sizeof(g->text) - n, "%s", what);
}

static void say_a(void *arg)
{
    add(arg, "a");
}

static void say_b(void *arg)
{
    add(arg, "b");
}

static void say_c(void *arg)
{
    add(arg, "c");
}

static void say_a_and_defer_c(void *arg)
{
    struct log *g = arg;

    add(g, "a");
    loop_defer(g->l, &g->c, say_c, g);
}

static void test_deferred(struct loop *l)
{
    struct log g = {.l = l};

    loop_defer(l, &g.a, say_a, &g);
    loop_defer(l, &g.b, say_b, &g);
    loop_defer(l, &g.a, say_a, &g);
    is_str(g.text, "", "deferred work does not run at once");
    loop_run_once(l, 10000);
    is_str(g.text, "ab", "but in the next turn, which does not block, once and in order");
    loop_run_once(l, 0);
    is_str(g.text, "ab", "and not again");
    loop_defer(l, &g.a, say_a, &g);
    loop_defer_cancel(l, &g.a);
    loop_defer_cancel(l, &g.a);
    loop_run_once(l, 0);
    is_str(g.text, "ab", "cancelled work never");
    loop_defer(l, &g.a, say_a_and_defer_c, &g);
    loop_run_once(l, 0);
    is_str(g.text, "aba", "work that is queued by queued work");
    loop_run_once(l, 10000);
    is_str(g.text, "abac", "runs in the turn after, which does not block");
}

static void cancel_b_and_defer_c(void *arg)
{
    struct log *g = arg;

    add(g, "x");
    loop_defer_cancel(g->l, &g->b);
    loop_defer(g->l, &g->c, say_c, g);
}

static void test_deferred_and_cancelled(struct loop *l)
{
    struct log g = {.l = l};

    loop_defer(l, &g.a, cancel_b_and_defer_c, &g);
    loop_defer(l, &g.b, say_b, &g);
    loop_run_once(l, 0);
    is_str(g.text, "x", "whoever is cancelled gives nobody who came later a place in this turn");
    loop_run_once(l, 0);
    is_str(g.text, "xc", "but in the next");
}

static void cancel_b_and_queue_c(void *arg)
{
    struct log *g = arg;

    add(g, "x");
    loop_bulk_cancel(g->l, &g->b);
    loop_bulk(g->l, &g->c, say_c, g);
}

static void test_bulk_and_cancelled(struct loop *l)
{
    struct log g = {.l = l};

    loop_bulk(l, &g.a, cancel_b_and_queue_c, &g);
    loop_bulk(l, &g.b, say_b, &g);
    loop_run_once(l, 0);
    is_str(g.text, "x", "the same among those that move much");
    loop_run_once(l, 0);
    is_str(g.text, "xc", "who came later has the next turn");
}

static void test_at_leave(struct loop *l)
{
    struct log g = {.l = l};

    loop_enter(l);
    loop_enter(l);
    loop_at_leave(l, &g.a, say_a, &g);
    loop_leave(l);
    is_str(g.text, "", "leaving an inner callback");
    loop_leave(l);
    is_str(g.text, "a", "leaving the outermost");
    loop_at_leave(l, &g.b, say_b, &g);
    loop_at_leave(l, &g.c, say_c, &g);
    loop_at_leave_cancel(l, &g.c);
    is_str(g.text, "a", "outside of any");
    loop_run_once(l, 0);
    is_str(g.text, "ab", "at the start of the next turn");
}

static void test_timer(struct loop *l)
{
    struct log g = {.l = l};
    uint64_t before = loop_now_ms(l);

    g.timer = loop_timer_new(l, say_a, &g);
    ok(!loop_timer_pending(g.timer), "a new timer is idle");
    loop_timer_set(g.timer, 20);
    ok(loop_timer_pending(g.timer), "a set one is not");
    ok(run_until(l, g.text[0] != '\0'), "it fires");
    ok(loop_now_ms(l) - before >= 20, "not early");
    ok(!loop_timer_pending(g.timer), "and is idle again");
    settle(l);
    is_str(g.text, "a", "one shot");
    loop_timer_set(g.timer, 1);
    loop_timer_cancel(g.timer);
    usleep(3000);
    settle(l);
    is_str(g.text, "a", "cancelled: silent");
    loop_timer_set(g.timer, 10000);
    loop_timer_set(g.timer, 1);
    ok(run_until(l, strlen(g.text) == 2), "brought forward: fires");
    loop_timer_free(g.timer);
    settle(l);
}

static void test_timer_pushed_back(struct loop *l)
{
    struct log g = {.l = l};
    uint64_t start = loop_now_ms(l);

    g.timer = loop_timer_new(l, say_a, &g);
    loop_timer_set(g.timer, 5);
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        loop_timer_set(g.timer, 30);
        loop_run_once(l, 0);
    }
    ok(run_until(l, g.text[0] != '\0'), "a timer that is pushed back again and again fires in the end");
    ok(loop_now_ms(l) - start >= 50, "after the last deadline");
    loop_timer_free(g.timer);
    settle(l);
}

static void free_itself(void *arg)
{
    struct log *g = arg;

    add(g, "f");
    loop_timer_free(g->timer);
    g->timer = NULL;
}

static void test_timer_moved(struct loop *l)
{
    struct log g = {.l = l};
    uint64_t start;

    g.timer = loop_timer_new(l, say_a, &g);
    loop_timer_move(g.timer, 10000);
    loop_timer_move(g.timer, 1);
    ok(run_until(l, g.text[0] != '\0'), "moved forward: fires");
    start = loop_now_ms(l);
    loop_timer_set(g.timer, 1);
    loop_timer_move(g.timer, 40);
    loop_timer_cancel(g.timer);
    loop_timer_move(g.timer, 50);
    usleep(3000);
    ok(loop_timer_pending(g.timer) && run_until(l, strlen(g.text) == 2), "moved back: fires");
    ok(loop_now_ms(l) - start >= 50, "not before the last deadline");
    settle(l);
    is_str(g.text, "aa", "once each");
    loop_timer_free(g.timer);
    settle(l);
}

static void test_timer_free_inside(struct loop *l)
{
    struct log g = {.l = l};

    g.timer = loop_timer_new(l, free_itself, &g);
    loop_timer_set(g.timer, 0);
    ok(run_until(l, g.text[0] != '\0'), "a timer may free itself");
    settle(l);
    is_str(g.text, "f", "and is gone");
}

struct dear {
    struct loop_deferred n;
    struct log *g;
    const char *name;
    uint64_t takes_us;
};

static void spend(void *arg)
{
    struct dear *d = arg;
    uint64_t end = clock_us() + d->takes_us;

    add(d->g, d->name);
    while (clock_us() < end)
        ;
}

/* Each takes what all of them may take in a turn. */
static void test_handshakes_in(struct loop *l, struct fair_queue *q, uint64_t part_us)
{
    struct log g = {.l = l};
    struct dear dear[3] = {{.name = "1"}, {.name = "2"}, {.name = "3"}};

    for (size_t i = 0; i < ROWS(dear); i++) {
        dear[i].g = &g;
        dear[i].takes_us = part_us;
        dear[i].n = (struct loop_deferred){.fn = spend, .arg = &dear[i]};
        fair_queue_add(q, &dear[i].n, FAIR_STRANGERS, SLICE_LIT("10.0.0.1"), FAIR_LAST);
    }
    loop_defer(l, &g.a, say_a, &g);
    loop_run_once(l, 10000);
    is_str(g.text, "1a", "a turn ends when handshakes have had their part, and does not block while they wait");
    loop_defer(l, &g.b, say_b, &g);
    loop_run_once(l, 10000);
    is_str(g.text, "1a2b", "what came meanwhile has its turn");
    fair_queue_cancel(q, &dear[2].n);
    loop_defer(l, &g.c, say_c, &g);
    loop_run_once(l, 10000);
    is_str(g.text, "1a2bc", "who has gone is not served");
}

/* However many of the one kind there are, the other has its part. */
static void test_handshakes(struct loop *l)
{
    struct fair_queue *clients = loop_handshakes(l), *servers = loop_server_handshakes(l);
    struct log g = {.l = l};
    struct dear dear[4] = {{.name = "1"}, {.name = "2"}, {.name = "3"}, {.name = "4"}};

    test_handshakes_in(l, clients, HANDSHAKE_TURN_US);
    test_handshakes_in(l, servers, SERVER_HANDSHAKE_TURN_US);
    for (size_t i = 0; i < ROWS(dear); i++) {
        dear[i].g = &g;
        dear[i].takes_us = SERVER_HANDSHAKE_TURN_US;
        dear[i].n = (struct loop_deferred){.fn = spend, .arg = &dear[i]};
        fair_queue_add(i < 2 ? clients : servers, &dear[i].n, FAIR_STRANGERS, SLICE_LIT("10.0.0.1"), FAIR_LAST);
    }
    loop_run_once(l, 10000);
    is_str(g.text, "13", "one with a client and one with a server in a turn");
    loop_run_once(l, 10000);
    is_str(g.text, "1324", "and the others in the next");
}

struct piece {
    struct loop_deferred d;
    struct log *g;
    const char *name;
    uint64_t began_us; /* of the turn, or earlier */
};

/* Takes what all of them may take in a turn. */
static void move_much(void *arg)
{
    struct piece *p = arg;
    uint64_t now = clock_us(), end = now + BULK_TURN_US + (now - p->began_us);

    add(p->g, p->name);
    while (clock_us() < end)
        ;
}

/* `first`, `then`: what is said in the first turn and in the second. */
static void test_part(struct loop *l, enum loop_queue q, const char *first, const char *then)
{
    struct log g = {.l = l};
    struct piece piece[3] = {{.name = "1"}, {.name = "2"}, {.name = "3"}};

    for (size_t i = 0; i < ROWS(piece); i++) {
        piece[i].g = &g;
        piece[i].began_us = clock_us();
        loop_queue(l, q, &piece[i].d, move_much, &piece[i]);
    }
    loop_queue(l, q, &piece[0].d, move_much, &piece[0]);
    loop_defer(l, &g.a, say_a, &g);
    loop_run_once(l, 10000);
    is_str(g.text, first, "a turn ends when these have had their part, and does not block while they wait");
    loop_unqueue(l, q, &piece[1].d);
    loop_run_once(l, 10000);
    is_str(g.text, then, "one after the other; who has gone is not served");
    loop_run_once(l, 0);
    is_str(g.text, then, "who has been served was not queued twice");
}

static const struct loop_turns one = {.of = SLICE_LIT("10.0.0.1")}, another = {.of = SLICE_LIT("10.0.0.2")},
                               third = {.of = SLICE_LIT("10.0.0.3")},
                               known = {.of = SLICE_LIT("10.0.0.1"), .known = true};

static void test_bulk_by_address(struct loop *l)
{
    struct log g = {.l = l};
    struct piece piece[] = {{.name = "1", .d.turns = &one},
                            {.name = "2", .d.turns = &one},
                            {.name = "3", .d.turns = &one},
                            {.name = "4", .d.turns = &one},
                            {.name = "a", .d.turns = &another},
                            {.name = "k", .d.turns = &known},
                            {.name = "x"},
                            {.name = "y"}};

    for (size_t i = 0; i < ROWS(piece); i++) {
        piece[i].g = &g;
        piece[i].began_us = clock_us();
        loop_bulk(l, &piece[i].d, move_much, &piece[i]);
    }
    for (int i = 0; i < 4; i++)
        loop_run_once(l, 10000);
    is_str(g.text, "1kxa",
           "addresses take turns, however much one of them has queued; so do strangers, others, our own");
    loop_bulk_cancel(l, &piece[1].d);
    for (size_t i = 0; i < ROWS(piece); i++)
        loop_run_once(l, 0);
    is_str(g.text, "1kxay34", "each that has no address has its own");
}

/* Queues itself again, as a stream does on which there is more. */
struct again {
    struct loop_deferred d;
    struct log *g;
    const char *name;
};

static void go_on(void *arg)
{
    struct again *a = arg;

    add(a->g, a->name);
    loop_bulk(a->g->l, &a->d, go_on, a);
}

/* Or the sockets would not be looked at as long as there is something to do. */
static void test_bulk_again(struct loop *l)
{
    struct log g = {.l = l};
    struct again again[] = {{.name = "a", .g = &g, .d.turns = &one}, {.name = "b", .g = &g, .d.turns = &another}};

    for (size_t i = 0; i < ROWS(again); i++)
        loop_bulk(l, &again[i].d, go_on, &again[i]);
    loop_run_once(l, 0);
    is_str(g.text, "ab", "as many have their turn as waited when the part began");
    for (size_t i = 0; i < ROWS(again); i++)
        loop_bulk_cancel(l, &again[i].d);
}

/* And each of their turns would be as long as there are strangers, though shares take turns. */
static void test_bulk_of_strangers(struct loop *l)
{
    struct log g = {.l = l};
    struct again again[] = {{.name = "a", .g = &g, .d.turns = &one},
                            {.name = "b", .g = &g, .d.turns = &another},
                            {.name = "c", .g = &g, .d.turns = &third},
                            {.name = "k", .g = &g, .d.turns = &known},
                            {.name = "x", .g = &g}};

    for (size_t i = 0; i < 3; i++)
        loop_bulk(l, &again[i].d, go_on, &again[i]);
    loop_run_once(l, 0);
    is_str(g.text, "abc", "strangers alone have all the time");
    for (size_t i = 3; i < ROWS(again); i++)
        loop_bulk(l, &again[i].d, go_on, &again[i]);
    for (int i = 0; i < 3; i++)
        loop_run_once(l, 0);
    is_str(g.text, "abckxakxbkxkxckxkx", "beside others one of them has a turn, and the others the rest");
    for (size_t i = 0; i < ROWS(again); i++)
        loop_bulk_cancel(l, &again[i].d);
}

/* Takes all that deferred work may take in a turn. */
static void do_much(void *arg)
{
    struct piece *p = arg;
    uint64_t end = clock_us() + DEFERRED_TURN_US;

    add(p->g, p->name);
    while (clock_us() < end)
        ;
}

static void test_much_deferred(struct loop *l)
{
    struct log g = {.l = l};
    struct piece piece[4] = {{.name = "1"}, {.name = "2"}, {.name = "3"}, {.name = "4"}};
    struct loop_deferred other = {.fn = NULL};

    for (size_t i = 0; i < ROWS(piece); i++) {
        piece[i].g = &g;
        loop_defer(l, &piece[i].d, do_much, &piece[i]);
    }
    loop_run_once(l, 10000);
    is_str(g.text, "1", "deferred work has a part of a turn, and what is left does not let the next one block");
    loop_defer_cancel(l, &piece[1].d);
    loop_defer(l, &other, say_a, &g);
    loop_run_once(l, 10000);
    is_str(g.text, "13", "it goes on in its order; who has gone is not served");
    loop_run_once(l, 10000);
    loop_run_once(l, 10000);
    is_str(g.text, "134a", "and who came later comes later");
}

static void test_closed_at_exit(void)
{
    struct loop *l = loop_new(NULL);
    struct log g = {.l = l};
    struct piece piece[3] = {{.name = "1"}, {.name = "2"}, {.name = "3"}}, much[2] = {{.name = "a"}, {.name = "b"}};

    for (size_t i = 0; i < ROWS(piece); i++) {
        piece[i].g = &g;
        loop_queue(l, LOOP_CLOSING, &piece[i].d, move_much, &piece[i]);
        piece[i].began_us = clock_us();
    }
    for (size_t i = 0; i < ROWS(much); i++) {
        much[i].g = &g;
        loop_defer(l, &much[i].d, do_much, &much[i]);
    }
    loop_free(l);
    is_u64(strlen(g.text), ROWS(piece) + ROWS(much), "whatever still waits at the loop's end, that comes after it: %s",
           g.text);
}

/* Takes half of what all of them may take in a turn. */
static void on_dear_arrival(evutil_socket_t fd, short what, void *arg)
{
    struct dear *d = arg;
    char byte;

    (void)what;
    loop_enter(d->g->l);
    if (read(fd, &byte, 1) == 1)
        spend(d);
    loop_leave(d->g->l);
}

static void test_events(struct loop *l)
{
    enum { MANY = 9 };
    struct log g = {.l = l};
    struct dear dear[MANY], handshake = {.g = &g, .name = "h"};
    struct event *events[MANY];
    int pair[MANY][2];
    size_t first;

    for (size_t i = 0; i < MANY; i++) {
        if (pipe(pair[i]) != 0 || write(pair[i][1], "x", 1) != 1)
            tap_bail("pipe");
        dear[i] = (struct dear){.g = &g, .name = "e", .takes_us = EVENTS_TURN_US / 2 + 1};
        events[i] = event_new(loop_base(l), pair[i][0], EV_READ | EV_PERSIST, on_dear_arrival, &dear[i]);
        event_add(events[i], NULL);
    }
    loop_defer(l, &g.a, say_a, &g);
    handshake.n = (struct loop_deferred){.fn = spend, .arg = &handshake};
    fair_queue_add(loop_handshakes(l), &handshake.n, FAIR_STRANGERS, SLICE_LIT("10.0.0.1"), FAIR_LAST);
    loop_run_once(l, 10000);
    first = strcspn(g.text, "a");
    ok(first >= 1 && first <= 2, "a turn begins no further callback when events have had their part: %s", g.text);
    is_str(g.text + first, "a", "the rest of the turn comes all the same, but for handshakes");
    for (size_t turns = 0; strlen(g.text) < MANY + 2 && turns < MANY; turns++)
        loop_run_once(l, 10000);
    is_u64(strlen(g.text), MANY + 2, "what is left has the next turns, which do not block: %s", g.text);
    ok(g.text[MANY + 1] == 'e', "and a handshake has its part in one of them");
    for (size_t i = 0; i < MANY; i++) {
        event_free(events[i]);
        close(pair[i][0]);
        close(pair[i][1]);
    }
    settle(l);
}

static void say_r(void *arg)
{
    add(arg, "r");
}

struct arrival {
    struct log *g;
    struct loop_deferred read;
    int fd;
};

static void on_arrival(evutil_socket_t fd, short what, void *arg)
{
    struct arrival *a = arg;
    char byte;

    (void)what;
    loop_enter(a->g->l);
    if (read(fd, &byte, 1) == 1)
        loop_bulk(a->g->l, &a->read, say_r, a->g); /* as a stream that moves much does */
    loop_leave(a->g->l);
}

static void await_state(pid_t pid, char want)
{
    char path[64], line[256];

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    for (;;) {
        FILE *f = fopen(path, "r");
        const char *behind_name;

        if (f == NULL || fgets(line, sizeof(line), f) == NULL)
            _exit(1);
        fclose(f);
        behind_name = strrchr(line, ')');
        if (behind_name != NULL && behind_name[2] == want)
            return;
        usleep(1000);
    }
}

/* Stops its parent while that waits, until it is past the deadline; what comes meanwhile has come in time. */
static void disturb(uint64_t deadline_ms, const int *fds, size_t n)
{
    pid_t parent = getppid();

    await_state(parent, 'S');
    kill(parent, SIGSTOP);
    await_state(parent, 'T');
    for (size_t i = 0; i < n; i++)
        if (write(fds[i], "x", 1) != 1)
            _exit(1);
    while (clock_ms() < deadline_ms)
        usleep(1000);
    kill(parent, SIGCONT);
    _exit(0);
}

/* More than epoll tells of at once. */
enum { ARRIVALS = 100, PAUSE_MS = 1500 };

/* What the log says of it, and how many seconds are counted. */
static void is_told(struct metrics *m, const char *log)
{
    struct metric *counted = metric_single(m, METRIC_COUNTER, "mvproxy_suspended_seconds_total", "");

    ok(metric_value(counted) * 1000 >= PAUSE_MS / 2, "it is counted");
    ok(strstr(log, "\"Process was suspended\" missedMilliseconds=") != NULL, "and said: %s", log);
}

static void test_pause(void)
{
    struct metrics *m = metrics_new();
    struct loop *l = loop_new(m);
    struct log g = {.l = l};
    char *said = NULL;
    size_t n_said = 0;
    FILE *log = open_memstream(&said, &n_said);
    struct arrival a[ARRIVALS];
    struct event *events[ARRIVALS];
    int fds[ARRIVALS], pair[2], status = -1;
    uint64_t missed = loop_missed_ms(l), deadline_ms;
    pid_t child;

    for (size_t i = 0; i < ARRIVALS; i++) {
        if (pipe(pair) != 0)
            tap_bail("pipe");
        a[i] = (struct arrival){.g = &g, .fd = pair[0]};
        fds[i] = pair[1];
        events[i] = event_new(loop_base(l), pair[0], EV_READ | EV_PERSIST, on_arrival, &a[i]);
        event_add(events[i], NULL);
    }
    settle(l);
    g.timer = loop_timer_new(l, say_a, &g);
    loop_timer_set(g.timer, PAUSE_MS);
    deadline_ms = clock_ms() + 2 * PAUSE_MS;
    log_set_stream(log);
    child = fork();
    if (child == 0)
        disturb(deadline_ms, fds, ARRIVALS);
    ok(run_until(l, strchr(g.text, 'a') != NULL || strlen(g.text) > ARRIVALS), "a timer that is due in a pause fires");
    is_u64(strcspn(g.text, "a"), ARRIVALS, "when all is read that had come");
    ok(loop_missed_ms(l) - missed >= PAUSE_MS / 2, "how long the pause was is known");
    ok(waitpid(child, &status, 0) == child && status == 0, "the pause was one");
    log_set_stream(stderr);
    fclose(log);
    is_told(m, said);
    free(said);
    for (size_t i = 0; i < ARRIVALS; i++) {
        event_free(events[i]);
        close(a[i].fd);
        close(fds[i]);
    }
    loop_timer_free(g.timer);
    settle(l);
    loop_free(l);
    metrics_free(m);
}

static void stop(void *arg)
{
    struct log *g = arg;

    add(g, "s");
    loop_stop(g->l);
}

static void test_run_and_signal(struct loop *l)
{
    struct log g = {.l = l};

    ok(loop_on_signal(l, SIGUSR1, stop, &g), "a signal handler");
    raise(SIGUSR1);
    loop_run(l);
    is_str(g.text, "s", "runs in the loop, and stopping ends the run");
    loop_defer(l, &g.a, say_a, &g);
    loop_stop(l);
    loop_run(l);
    is_str(g.text, "s", "stopped before it ran: nothing happens");
    loop_run_once(l, 0);
    is_str(g.text, "sa", "until the next turn");
}

static void raise_it(void *arg)
{
    (void)arg;
    raise(SIGUSR2);
}

/* Whom it would call has been freed by then. */
static void test_signal_at_the_end(struct loop *unused)
{
    struct loop *l = loop_new(NULL);
    struct log g = {.l = l};

    (void)unused;
    signal(SIGUSR2, SIG_IGN);
    ok(loop_on_signal(l, SIGUSR2, stop, &g), "a signal handler");
    loop_defer(l, &g.a, raise_it, NULL);
    loop_free(l);
    is_str(g.text, "", "is not called by what loop_free() runs");
}

static void turn_within(evutil_socket_t fd, short what, void *arg)
{
    struct log *g = arg;

    (void)fd;
    (void)what;
    event_base_loop(loop_base(g->l), EVLOOP_NONBLOCK);
}

static void test_library_message(struct loop *l)
{
    struct log g = {.l = l};
    const struct timeval at_once = {0, 0};
    char *said = NULL;
    size_t n;
    FILE *log = open_memstream(&said, &n);

    log_set_stream(log);
    event_base_once(loop_base(l), -1, EV_TIMEOUT, turn_within, &g, &at_once);
    settle(l);
    log_set_stream(stderr);
    fclose(log);
    ok(said != NULL && said[0] == 'W' && strstr(said, "libevent") != NULL && strstr(said, "reentrant") != NULL,
       "what libevent complains of is a line of the log: %s", said);
    free(said);
}

static void test_metric(void)
{
    struct metrics *m = metrics_new();
    struct loop *l = loop_new(m);
    struct log g = {.l = l};
    struct metric *lag = metric_child(metric_histogram_family(m, "mvproxy_loop_lag_seconds", "", NULL, NULL, 0), NULL);

    is_double(metric_value(lag), 0, "no turn yet");
    loop_defer(l, &g.a, say_a, &g);
    loop_run_once(l, 0);
    is_double(metric_value(lag), 1, "a turn with work is observed");
    loop_free(l);
    metrics_free(m);
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    test_deferred(l);
    test_deferred_and_cancelled(l);
    test_bulk_and_cancelled(l);
    test_at_leave(l);
    test_timer(l);
    test_timer_pushed_back(l);
    test_timer_moved(l);
    test_timer_free_inside(l);
    test_handshakes(l);
    test_part(l, LOOP_BULK, "1a", "1a3");
    test_part(l, LOOP_CLOSING, "a1", "a13");
    test_bulk_by_address(l);
    test_bulk_again(l);
    test_bulk_of_strangers(l);
    test_much_deferred(l);
    test_closed_at_exit();
    test_events(l);
    test_pause();
    test_run_and_signal(l);
    test_signal_at_the_end(l);
    test_library_message(l);
    test_metric();
    loop_free(l);
    return tap_end();
}
