/* SPDX-License-Identifier: Apache-2.0 */
#include "net/loop.h"

#include <event2/event.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/contract.h"
#include "base/log.h"
#include "base/metric.h"
#include "net/loop_internal.h"

enum {
    /*
     * One allocation of a burst of records must not become an mmap and a munmap per request (page faults). But what is
     * larger than any of those must be one: then it grows without being copied, which for several documents of many
     * megabytes that come in side by side took longer than a turn may.
     */
    MALLOC_MMAP_THRESHOLD = 1 << 20,
    MALLOC_TRIM_THRESHOLD = 64 << 20,
    MISUSE_LINES = 20,   /* in the log; one would do, but they may be of several kinds */
    GAP_US = 100000,     /* without a look at the sockets: not what idle or busy processes are like */
    SUSPENDED_MS = 1000, /* a pause that is worth a line */
    CUT_TURNS = 4,       /* that left events to the next count as one for handshakes, and after a gap */
    CATCH_UP_TURNS = 64, /* what is not read by then is what has come since */
    DRAIN_ROUNDS = 1000, /* work that queues itself again and again ends here when the loop is freed */
};

struct loop_signal {
    struct list_node node;
    struct loop *loop;
    struct event *event;
    loop_fn *fn;
    void *arg;
};

struct loop {
    struct event_base *base;
    struct event *wait_limit;             /* ends the wait of loop_run_once() */
    struct list queues[LOOP_AT_EXIT + 1]; /* but for LOOP_BULK */
    struct list late;                     /* timers that are held after a gap */
    struct list signals;
    struct fair_queue *handshakes, *server_handshakes, *bulk;
    struct metric *lag, *suspended;
    struct metrics *metrics;
    void *resolver;
    void (*resolver_release)(void *resolver);
    uint64_t turn;
    uint64_t now_ms;         /* valid while awake */
    uint64_t awake_since_us; /* valid while awake */
    uint64_t looked_us;      /* when the sockets were asked last */
    uint64_t missed_ms;      /* in all */
    uint64_t late_ms;        /* of the timers that are held: the most */
    uint64_t gap_turn;       /* in which a gap was noticed */
    bool catching_up;        /* timers are held */
    unsigned depth;          /* callbacks on the stack */
    unsigned seen;           /* of them in this turn, of the outermost: what had arrived */
    unsigned misused;        /* calls that were refused */
    bool awake;              /* the turn has stamped its time */
    unsigned cuts;           /* turns in a row that left events to the next */
    bool in_events;          /* callbacks come from sockets and timers */
    uint64_t strained_us;    /* when the last turn was over that was long, or had events left */
    bool stop;
    bool ending; /* loop_free(): nothing is put off any more */
    struct buf_free_list free_list;
    struct recv_area area;
};

static void on_wait_limit(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

/* Otherwise it writes to standard error, in a form of its own. What its resolver says of name servers is no news: who
 * asked says that there was no answer. */
static void on_library_message(int severity, const char *text)
{
    if (severity >= EVENT_LOG_WARN)
        log_warning("Message from libevent", LT("err", text));
    else if (severity == EVENT_LOG_MSG)
        log_v(2, "Message from libevent", LT("message", text));
}

static struct event_base *new_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    event_set_log_callback(on_library_message);
    if (config != NULL) {
        /* Adding and removing interest within a turn cancels out instead of costing two epoll_ctl. */
        event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST);
        base = event_base_new_with_config(config);
        event_config_free(config);
    }
    return base;
}

static struct metric *lag_metric(struct metrics *metrics)
{
    static const double bounds[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                    0.025,  0.05,    0.1,    0.25,  0.5,    1};
    struct metric_family *f =
        metric_histogram_family(metrics, "mvproxy_loop_lag_seconds",
                                "How long the turns of the event loop took: whatever arrived meanwhile waited as long.",
                                NULL, bounds, sizeof(bounds) / sizeof(bounds[0]));

    return metric_child(f, NULL);
}

static void add_metrics(struct loop *l, struct metrics *metrics)
{
    l->lag = lag_metric(metrics);
    l->suspended = metric_single(metrics, METRIC_COUNTER, "mvproxy_suspended_seconds_total",
                                 "How long the process did not run, in pauses of 100 ms and more (SIGSTOP, a frozen "
                                 "control group, a machine without time for it).");
}

struct loop *loop_new(struct metrics *metrics)
{
    struct loop *l = must_zalloc(sizeof(*l));

    mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_THRESHOLD);
    mallopt(M_TRIM_THRESHOLD, MALLOC_TRIM_THRESHOLD);
    for (size_t i = 0; i < sizeof(l->queues) / sizeof(l->queues[0]); i++)
        list_init(&l->queues[i]);
    list_init(&l->late);
    list_init(&l->signals);
    l->looked_us = clock_us();
    l->base = new_base();
    if (l->base != NULL)
        l->wait_limit = event_new(l->base, -1, 0, on_wait_limit, NULL);
    l->handshakes = fair_queue_new();
    l->server_handshakes = fair_queue_new();
    l->bulk = fair_queue_new();
    if (l->wait_limit == NULL || l->handshakes == NULL || l->server_handshakes == NULL || l->bulk == NULL) {
        log_emit(LOG_FATAL, 0, __FILE__, __LINE__, "Could not make the event loop", LOG_KVS());
        exit(1);
    }
    l->metrics = metrics;
    if (metrics != NULL)
        add_metrics(l, metrics);
    return l;
}

static void note_gap(struct loop *l, uint64_t now_us)
{
    if (now_us < l->looked_us + GAP_US)
        return;
    l->catching_up = true;
    l->gap_turn = l->turn;
}

uint64_t loop_missed_ms(const struct loop *l)
{
    return l->missed_ms;
}

void loop_touch(struct loop *l)
{
    if (l->awake)
        return;
    l->awake = true;
    l->now_ms = clock_ms();
    l->awake_since_us = clock_us();
    note_gap(l, l->awake_since_us);
}

uint64_t loop_now_ms(const struct loop *l)
{
    return l->awake ? l->now_ms : clock_ms();
}

uint64_t loop_turn(const struct loop *l)
{
    return l->turn;
}

static void run_node(struct list_node *node)
{
    struct loop_deferred *d = list_entry(node, struct loop_deferred, node);

    must_hold(node != NULL); /* whoever runs a queue up to a mark finds the mark in it */
    d->fn(d->arg);
}

void loop_enter(struct loop *l)
{
    loop_touch(l);
    l->seen += l->depth == 0;
    l->depth++;
}

void loop_leave(struct loop *l)
{
    must_hold(l->depth > 0);
    /* Still inside while this runs, so that what it provokes joins the queue instead of nesting. */
    if (l->depth == 1) {
        struct list_node *node;

        while ((node = list_pop_front(&l->queues[LOOP_AT_LEAVE])) != NULL)
            run_node(node);
        /* libevent keeps what is due in its order, and goes on with it in the next turn, which does not wait. */
        if (l->in_events && clock_us() >= l->awake_since_us + EVENTS_TURN_US)
            event_base_loopbreak(l->base);
    }
    l->depth--;
}

void loop_misuse(struct loop *l, const char *what, const char *of)
{
#ifdef MVPROXY_SANITIZED
    log_error("Refused by the event loop", LT("what", what), LT("of", of));
    log_flush();
    abort();
#endif
    if (l->misused++ < MISUSE_LINES)
        log_error("Refused by the event loop", LT("what", what), LT("of", of));
}

static enum fair_share share_of(const struct loop_deferred *d)
{
    if (d->turns == NULL)
        return FAIR_OWN;
    return d->turns->known ? FAIR_KNOWN : FAIR_STRANGERS;
}

/* What is no client's has a lane for itself, named by what no address looks like. */
static void queue_bulk(struct loop *l, struct loop_deferred *d)
{
    fair_queue_add(l->bulk, d, share_of(d), d->turns == NULL ? slice_of((const char *)&d, sizeof(d)) : d->turns->of,
                   FAIR_LAST);
}

void loop_queue(struct loop *l, enum loop_queue q, struct loop_deferred *d, loop_fn *fn, void *arg)
{
    if (list_linked(&d->node)) {
        if (d->fn != fn || d->arg != arg)
            loop_misuse(l, "Queued work was to be replaced", "queue");
        return;
    }
    d->fn = fn;
    d->arg = arg;
    if (q == LOOP_BULK)
        queue_bulk(l, d);
    else
        list_push_back(&l->queues[q], &d->node);
}

void loop_unqueue(struct loop *l, enum loop_queue q, struct loop_deferred *d)
{
    if (q == LOOP_BULK)
        fair_queue_cancel(l->bulk, d);
    else if (list_linked(&d->node))
        list_remove(&l->queues[q], &d->node);
}

void loop_at_leave(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg)
{
    loop_queue(l, LOOP_AT_LEAVE, d, fn, arg);
}

void loop_at_leave_cancel(struct loop *l, struct loop_deferred *d)
{
    loop_unqueue(l, LOOP_AT_LEAVE, d);
}

void loop_at_exit(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg)
{
    loop_queue(l, LOOP_AT_EXIT, d, fn, arg);
}

void loop_at_exit_cancel(struct loop *l, struct loop_deferred *d)
{
    loop_unqueue(l, LOOP_AT_EXIT, d);
}

void loop_bulk(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg)
{
    loop_queue(l, LOOP_BULK, d, fn, arg);
}

void loop_bulk_cancel(struct loop *l, struct loop_deferred *d)
{
    loop_unqueue(l, LOOP_BULK, d);
}

void loop_defer(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg)
{
    loop_queue(l, LOOP_DEFERRED, d, fn, arg);
}

void loop_defer_cancel(struct loop *l, struct loop_deferred *d)
{
    loop_unqueue(l, LOOP_DEFERRED, d);
}

/* At least one, so that they get on however busy the others are. */
static void run_handshakes(struct loop *l, struct fair_queue *q, uint64_t part_us)
{
    uint64_t end = clock_us() + part_us;
    struct loop_deferred *n;

    while ((n = fair_queue_next(q, true)) != NULL) {
        loop_enter(l);
        n->fn(n->arg);
        loop_leave(l);
        if (clock_us() >= end)
            return;
    }
}

/* Of a part of the turn: dear to all others is a turn's length, and to these not to be left with nothing beside them.
 */
static uint64_t end_of_part(const struct loop *l)
{
    uint64_t now = clock_us(), spent = l->awake ? now - l->awake_since_us : 0;

    return now + (spent / 2 > BULK_TURN_US ? spent / 2 : BULK_TURN_US);
}

/*
 * As many as wait when it starts: then the sockets have their chance. Who leaves in between counts, or who came later
 * would have his place. Of strangers one, if there are others: these come back but once a turn, and a hundred strangers
 * who fill the time that is left make their turns long.
 */
static void run_bulk(struct loop *l)
{
    uint64_t end = end_of_part(l), gone = fair_queue_gone(l->bulk) + fair_queue_waiting(l->bulk);
    bool strangers = false, others = false;
    struct loop_deferred *d;

    while (fair_queue_gone(l->bulk) < gone && (d = fair_queue_next(l->bulk, !(strangers && others))) != NULL) {
        if (share_of(d) == FAIR_STRANGERS)
            strangers = true;
        else
            others = true;
        loop_enter(l);
        d->fn(d->arg);
        loop_leave(l);
        if (clock_us() >= end)
            return;
    }
}

static void run_closing(struct loop *l)
{
    struct list *queue = &l->queues[LOOP_CLOSING];
    uint64_t end = end_of_part(l);
    struct list_node *n, mark = {NULL, NULL};

    list_push_back(queue, &mark);
    while ((n = list_pop_front(queue)) != &mark) {
        loop_enter(l);
        run_node(n);
        loop_leave(l);
        if (clock_us() >= end) {
            list_remove(queue, &mark);
            return;
        }
    }
}

/*
 * Only what was queued when it starts: the rest belongs to the next turn, after the sockets had their chance. The mark
 * holds whatever happens to those before it; to count them would let in one of those after it for each that is
 * cancelled. And only as much as there is time for, unless it is the last turn of all.
 */
static void run_deferred(struct loop *l)
{
    struct list *deferred = &l->queues[LOOP_DEFERRED];
    uint64_t end = clock_us() + DEFERRED_TURN_US;
    struct list_node *n, mark = {NULL, NULL};

    list_push_back(deferred, &mark);
    while ((n = list_pop_front(deferred)) != &mark) {
        loop_enter(l);
        run_node(n);
        loop_leave(l);
        if (!l->ending && clock_us() >= end) {
            list_remove(deferred, &mark);
            return;
        }
    }
}

bool loop_hold_timer(struct loop *l, struct loop_deferred *late, uint64_t late_ms)
{
    if (!l->catching_up)
        return false;
    if (late_ms > l->late_ms)
        l->late_ms = late_ms;
    if (!list_linked(&late->node))
        list_push_back(&l->late, &late->node);
    return true;
}

void loop_release_timer(struct loop *l, struct loop_deferred *late)
{
    if (list_linked(&late->node))
        list_remove(&l->late, &late->node);
}

static bool has_work(const struct loop *l)
{
    return l->queues[LOOP_DEFERRED].count > 0 || fair_queue_waiting(l->bulk) > 0 || l->queues[LOOP_CLOSING].count > 0 ||
           fair_queue_waiting(l->handshakes) > 0 || fair_queue_waiting(l->server_handshakes) > 0;
}

/*
 * Whether everything is read that had arrived in a gap: the sockets were asked since and had nothing, or again and
 * again. Each time they tell of a part of themselves only (epoll_wait(2), maxevents), and each is read in pieces; what
 * they told of may be the work of several turns.
 */
static bool has_caught_up(struct loop *l, unsigned seen)
{
    if (l->gap_turn == l->turn)
        return false;
    if (l->cuts % CUT_TURNS != 0)
        l->gap_turn++;
    return (seen == 0 && !has_work(l)) || l->turn - l->gap_turn >= CATCH_UP_TURNS;
}

/* The timer that was due first says how long the pause was at least: when it began nobody knows. */
static void note_missed(struct loop *l)
{
    uint64_t late_ms = l->late_ms;

    l->late_ms = 0;
    if (late_ms * 1000 < GAP_US)
        return;
    l->missed_ms += late_ms;
    if (l->suspended != NULL)
        metric_add(l->suspended, (double)late_ms / 1000);
    if (late_ms >= SUSPENDED_MS)
        log_warning("Process was suspended", LU("missedMilliseconds", late_ms));
}

static void run_late_timers(struct loop *l)
{
    struct list_node *n, mark = {NULL, NULL};

    l->catching_up = false;
    note_missed(l);
    list_push_back(&l->late, &mark);
    while ((n = list_pop_front(&l->late)) != &mark)
        run_node(n);
}

static void end_turn(struct loop *l)
{
    uint64_t now = clock_us();

    if (l->awake && l->lag != NULL)
        metric_observe(l->lag, (double)(now - l->awake_since_us) / 1e6);
    if (l->awake && (l->cuts > 0 || now - l->awake_since_us >= STRAINED_TURN_US))
        l->strained_us = now;
    if (l->awake)
        l->looked_us = l->awake_since_us;
    note_gap(l, now); /* in the turn, or in a wait that ended with nothing */
    l->awake = false;
    l->looked_us = now;
}

bool loop_is_strained(const struct loop *l)
{
    return l->strained_us != 0 && clock_us() - l->strained_us < STRAINED_US;
}

/*
 * Their part is for all that is due at a time, however many turns that takes: or a flood of handshakes would have most
 * of the time as soon as there is much else to do.
 */
static void run_all_handshakes(struct loop *l)
{
    bool cut = event_base_got_break(l->base) && event_base_get_num_events(l->base, EVENT_BASE_COUNT_ACTIVE) > 0;

    l->cuts = cut ? l->cuts + 1 : 0;
    if (l->cuts % CUT_TURNS != 0)
        return;
    if (fair_queue_waiting(l->handshakes) > 0)
        run_handshakes(l, l->handshakes, HANDSHAKE_TURN_US);
    if (fair_queue_waiting(l->server_handshakes) > 0)
        run_handshakes(l, l->server_handshakes, SERVER_HANDSHAKE_TURN_US);
}

static void run_turn(struct loop *l, bool may_block)
{
    int flags = EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY;
    unsigned seen;

    must_hold(l->depth == 0); /* a turn inside of a callback would free what that still uses */
    l->turn++;
    if (l->queues[LOOP_AT_LEAVE].count > 0) { /* queued by calls from outside the loop */
        loop_enter(l);
        loop_leave(l);
        l->awake = false;
    }
    if (!may_block || l->catching_up || has_work(l))
        flags |= EVLOOP_NONBLOCK;
    l->seen = 0;
    l->in_events = true;
    event_base_loop(l->base, flags);
    l->in_events = false;
    seen = l->seen;
    run_all_handshakes(l);
    if (fair_queue_waiting(l->bulk) > 0)
        run_bulk(l);
    if (l->catching_up && has_caught_up(l, seen))
        run_late_timers(l);
    run_deferred(l);
    if (l->queues[LOOP_CLOSING].count > 0)
        run_closing(l);
    log_flush();
    end_turn(l);
}

void loop_run(struct loop *l)
{
    while (!l->stop)
        run_turn(l, true);
    l->stop = false;
}

void loop_run_once(struct loop *l, uint64_t max_wait_ms)
{
    struct timeval tv = {.tv_sec = (time_t)(max_wait_ms / 1000), .tv_usec = (suseconds_t)(max_wait_ms % 1000 * 1000)};

    if (max_wait_ms > 0)
        event_add(l->wait_limit, &tv);
    run_turn(l, max_wait_ms > 0);
    event_del(l->wait_limit);
}

void loop_stop(struct loop *l)
{
    l->stop = true;
}

static void on_signal(evutil_socket_t signo, short what, void *arg)
{
    struct loop_signal *s = arg;

    (void)signo;
    (void)what;
    loop_enter(s->loop);
    s->fn(s->arg);
    loop_leave(s->loop);
}

bool loop_on_signal(struct loop *l, int signo, loop_fn *fn, void *arg)
{
    struct loop_signal *s = mem_zalloc(sizeof(*s));

    if (s == NULL)
        return false;
    s->loop = l;
    s->fn = fn;
    s->arg = arg;
    s->event = evsignal_new(l->base, signo, on_signal, s);
    if (s->event == NULL || evsignal_add(s->event, NULL) != 0) {
        if (s->event != NULL)
            event_free(s->event);
        mem_free(s);
        return false;
    }
    list_push_back(&l->signals, &s->node);
    return true;
}

static void free_signals(struct loop *l)
{
    struct list_node *node;

    while ((node = list_pop_front(&l->signals)) != NULL) {
        struct loop_signal *s = list_entry(node, struct loop_signal, node);

        event_free(s->event);
        mem_free(s);
    }
}

static void run_all(struct loop *l, enum loop_queue q)
{
    loop_enter(l);
    for (struct list_node *node; (node = list_pop_front(&l->queues[q])) != NULL;)
        run_node(node);
    loop_leave(l);
}

void loop_free(struct loop *l)
{
    if (l == NULL)
        return;
    l->ending = true;
    free_signals(l); /* whom they would call may be gone */
    run_all(l, LOOP_AT_EXIT);
    if (l->resolver != NULL)
        l->resolver_release(l->resolver);
    /* The resolver's last callbacks and what libevent itself has put off come through the loop. */
    for (unsigned i = 0;
         i < DRAIN_ROUNDS && (i < 2 || l->queues[LOOP_DEFERRED].count + fair_queue_waiting(l->bulk) > 0); i++)
        run_turn(l, false);
    run_all(l, LOOP_CLOSING);
    fair_queue_free(l->handshakes);
    fair_queue_free(l->server_handshakes);
    fair_queue_free(l->bulk);
    event_free(l->wait_limit);
    event_base_free(l->base);
    buf_free_list_free(&l->free_list);
    mem_free(l);
}

struct event_base *loop_base(struct loop *l)
{
    return l->base;
}

struct recv_area *loop_recv_area_peek(struct loop *l)
{
    return &l->area;
}

struct recv_area *loop_recv_area(struct loop *l)
{
    if (l->area.holder != NULL)
        l->area.evict(l->area.holder);
    l->area.holder = NULL;
    return &l->area;
}

struct buf_free_list *loop_free_list(struct loop *l)
{
    return &l->free_list;
}

struct fair_queue *loop_handshakes(struct loop *l)
{
    return l->handshakes;
}

struct fair_queue *loop_server_handshakes(struct loop *l)
{
    return l->server_handshakes;
}

struct metrics *loop_metrics(const struct loop *l)
{
    return l->metrics;
}

void *loop_resolver(const struct loop *l)
{
    return l->resolver;
}

void loop_set_resolver(struct loop *l, void *resolver, void (*release)(void *resolver))
{
    l->resolver = resolver;
    l->resolver_release = release;
}
