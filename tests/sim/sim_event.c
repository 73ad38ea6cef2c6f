/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_event.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdlib.h>

#include "base/clock.h"

enum { EVENTS = 4096, WATCHED = 8 };

/* What loop.c believes to be libevent's. Timers, and descriptors for who asks for them; signals do not come. */
struct event_base {
    struct list sources;
    struct list due_sources;
    struct event *armed[EVENTS];
    struct event *due[EVENTS]; /* NULL: cancelled meanwhile */
    size_t n_armed, n_due;
    size_t called;
    bool broken; /* the rest has the next turn */
    sim_order_fn *order;
    void *order_arg;
    sim_readable_fn *readable; /* NULL: descriptors are not looked at */
    void *readable_arg;
    struct event *watched[WATCHED];
    int known[WATCHED]; /* to the kernel */
    size_t n_watched, n_known;
};

struct event_config {
    int unused;
};

/* Where an event keeps its place, from 1; 0: not armed. */
static int *place(struct event *e)
{
    return &e->ev_timeout_pos.min_heap_idx;
}

static uint64_t due_us(const struct event *e)
{
    return (uint64_t)e->ev_timeout.tv_sec * 1000000 + (uint64_t)e->ev_timeout.tv_usec;
}

void event_set_log_callback(event_log_cb cb)
{
    (void)cb;
}

struct event_config *event_config_new(void)
{
    return calloc(1, sizeof(struct event_config));
}

void event_config_free(struct event_config *config)
{
    free(config);
}

int event_config_set_flag(struct event_config *config, int flag)
{
    (void)config;
    (void)flag;
    return 0;
}

struct event_base *event_base_new_with_config(const struct event_config *config)
{
    struct event_base *b = malloc(sizeof(*b));

    (void)config;
    if (b == NULL)
        abort();
    b->n_armed = b->n_due = b->called = 0; /* the arrays are large, and read up to there */
    b->n_watched = b->n_known = 0;
    b->readable = NULL;
    b->order = NULL;
    b->order_arg = NULL;
    list_init(&b->sources);
    list_init(&b->due_sources);
    return b;
}

void event_base_free(struct event_base *b)
{
    if (b->sources.count > 0 || b->n_armed > 0 ||
        b->n_watched > 0) /* somebody would be called who has no loop any more */
        abort();
    free(b);
}

int event_assign(struct event *e, struct event_base *b, evutil_socket_t fd, short what, event_callback_fn fn, void *arg)
{
    memset(e, 0, sizeof(*e));
    e->ev_base = b;
    e->ev_fd = fd;
    e->ev_events = what;
    e->ev_evcallback.evcb_cb_union.evcb_callback = fn;
    e->ev_evcallback.evcb_arg = arg;
    return 0;
}

struct event *event_new(struct event_base *b, evutil_socket_t fd, short what, event_callback_fn fn, void *arg)
{
    struct event *e = malloc(sizeof(*e));

    if (e == NULL)
        abort();
    event_assign(e, b, fd, what, fn, arg);
    return e;
}

static void watch(struct event_base *b, struct event *e)
{
    if (b->readable == NULL || (e->ev_events & EV_READ) == 0) /* a signal */
        return;
    for (size_t i = 0; i < b->n_watched; i++)
        if (b->watched[i] == e)
            return;
    if (b->n_watched == WATCHED)
        abort();
    b->watched[b->n_watched++] = e;
}

static void unwatch(struct event_base *b, const struct event *e)
{
    for (size_t i = 0; i < b->n_watched; i++)
        if (b->watched[i] == e)
            b->watched[i] = b->watched[--b->n_watched];
}

int event_del(struct event *e)
{
    struct event_base *b = e->ev_base;
    int at = *place(e);

    unwatch(b, e);
    for (size_t i = 0; i < b->n_due; i++)
        if (b->due[i] == e)
            b->due[i] = NULL;
    if (at == 0)
        return 0;
    b->armed[at - 1] = b->armed[--b->n_armed];
    *place(b->armed[at - 1]) = at;
    *place(e) = 0;
    return 0;
}

int event_add(struct event *e, const struct timeval *delay)
{
    struct event_base *b = e->ev_base;
    uint64_t due;

    if (delay == NULL) {
        watch(b, e);
        return 0;
    }
    event_del(e);
    if (b->n_armed == EVENTS)
        abort();
    due = clock_us() + (uint64_t)delay->tv_sec * 1000000 + (uint64_t)delay->tv_usec;
    e->ev_timeout = (struct timeval){(time_t)(due / 1000000), (suseconds_t)(due % 1000000)};
    b->armed[b->n_armed++] = e;
    *place(e) = (int)b->n_armed;
    return 0;
}

void event_free(struct event *e)
{
    event_del(e);
    free(e);
}

/* ---- one turn ---- */

void sim_source_add(struct loop *l, struct sim_source *s, bool (*ready)(void *arg), loop_fn *run, void *arg)
{
    *s = (struct sim_source){.loop = l, .ready = ready, .run = run, .arg = arg};
    list_push_back(&loop_base(l)->sources, &s->node);
}

void sim_source_remove(struct sim_source *s)
{
    if (list_linked(&s->node))
        list_remove(&loop_base(s->loop)->sources, &s->node);
    if (list_linked(&s->due))
        list_remove(&loop_base(s->loop)->due_sources, &s->due);
}

void sim_order(struct loop *l, sim_order_fn *fn, void *arg)
{
    loop_base(l)->order = fn;
    loop_base(l)->order_arg = arg;
}

static int by_time(const void *a, const void *b)
{
    const struct event *x = *(struct event *const *)a, *y = *(struct event *const *)b;

    return due_us(x) < due_us(y) ? -1 : due_us(x) > due_us(y);
}

/* What is due is known before the first of it is called, as with epoll. */
static void collect(struct event_base *b)
{
    uint64_t now = clock_us();

    for (struct list_node *n = list_first(&b->sources); n != NULL; n = list_next(&b->sources, n)) {
        struct sim_source *s = list_entry(n, struct sim_source, node);

        if (s->ready(s->arg))
            list_push_back(&b->due_sources, &s->due);
    }
    b->n_due = 0;
    for (size_t i = 0; i < b->n_watched; i++)
        if (b->readable(b->readable_arg, b->watched[i]->ev_fd))
            b->due[b->n_due++] = b->watched[i];
    for (size_t i = 0; i < b->n_armed; i++)
        if (due_us(b->armed[i]) <= now)
            b->due[b->n_due++] = b->armed[i];
    if (b->n_due > 1)
        qsort(b->due, b->n_due, sizeof(b->due[0]), by_time);
}

static size_t left(const struct event_base *b)
{
    size_t n = b->due_sources.count;

    for (size_t i = 0; i < b->n_due; i++)
        n += b->due[i] != NULL;
    return n;
}

static void call_source(struct event_base *b, size_t at)
{
    struct list_node *n = list_first(&b->due_sources);
    struct sim_source *s;

    while (at-- > 0)
        n = list_next(&b->due_sources, n);
    s = list_entry(n, struct sim_source, due);
    list_remove(&b->due_sources, n);
    if (!s->ready(s->arg)) /* what was called before it has taken its reason away */
        return;
    b->called++;
    s->run(s->arg);
}

static void call_event(struct event_base *b, size_t at)
{
    size_t i = 0;
    struct event *e;

    for (; b->due[i] == NULL || at > 0; i++)
        at -= b->due[i] != NULL;
    e = b->due[i];
    b->due[i] = NULL;
    b->called++;
    if ((e->ev_events & EV_READ) != 0) {
        e->ev_evcallback.evcb_cb_union.evcb_callback(e->ev_fd, EV_READ, e->ev_evcallback.evcb_arg);
        return;
    }
    event_del(e);
    e->ev_evcallback.evcb_cb_union.evcb_callback(-1, EV_TIMEOUT, e->ev_evcallback.evcb_arg);
}

static void tell_kernel(struct event_base *b)
{
    b->n_known = b->n_watched;
    for (size_t i = 0; i < b->n_known; i++)
        b->known[i] = b->watched[i]->ev_fd;
}

int event_base_loop(struct event_base *b, int flags)
{
    size_t n;

    (void)flags;
    b->broken = false;
    tell_kernel(b);
    collect(b);
    while ((n = left(b)) > 0 && !b->broken) {
        size_t at = n > 1 && b->order != NULL ? b->order(b->order_arg, n) : 0;

        if (at < b->due_sources.count)
            call_source(b, at);
        else
            call_event(b, at - b->due_sources.count);
    }
    b->n_due = 0;
    while (list_pop_front(&b->due_sources) != NULL) /* what is still due is found again */
        ;
    return 0;
}

int event_base_loopbreak(struct event_base *b)
{
    b->broken = true;
    return 0;
}

int event_base_got_break(struct event_base *b)
{
    return b->broken;
}

int event_base_get_num_events(struct event_base *b, unsigned what)
{
    (void)what;
    return (int)left(b);
}

/* ---- for tests ---- */

static const int64_t wall_start_us = 1764000000000000; /* some day in 2025 */
enum { START_US = 1000000000, BUSY_MS = 90 };

void sim_clock_start(void)
{
    clock_fake(START_US, wall_start_us);
}

void sim_pass_ms(uint64_t ms)
{
    clock_fake(clock_us() + ms * 1000, clock_wall_us() + (int64_t)ms * 1000);
}

void sim_pass_busy_ms(struct loop *l, uint64_t ms)
{
    for (; ms > BUSY_MS; ms -= BUSY_MS) {
        sim_pass_ms(BUSY_MS);
        (void)sim_turn(l);
    }
    sim_pass_ms(ms);
}

void sim_descriptors(struct loop *l, sim_readable_fn *readable, void *arg)
{
    loop_base(l)->readable = readable;
    loop_base(l)->readable_arg = arg;
}

bool sim_kernel_watches(const struct loop *l, int fd)
{
    const struct event_base *b = loop_base((struct loop *)(uintptr_t)l);

    for (size_t i = 0; i < b->n_known; i++)
        if (b->known[i] == fd)
            return true;
    return false;
}

size_t sim_turn(struct loop *l)
{
    size_t before = loop_base(l)->called;

    loop_run_once(l, 0);
    return loop_base(l)->called - before;
}

uint64_t sim_next_timer_ms(const struct loop *l)
{
    const struct event_base *b = loop_base((struct loop *)(uintptr_t)l);
    uint64_t now = clock_us(), next = UINT64_MAX;

    for (size_t i = 0; i < b->n_armed; i++) {
        uint64_t due = due_us(b->armed[i]), wait = due > now ? (due - now + 999) / 1000 : 0;

        next = wait < next ? wait : next;
    }
    return next;
}

bool sim_settle(struct loop *l, unsigned most)
{
    unsigned quiet = 0;

    while (most-- > 0 && quiet < 3)
        quiet = sim_turn(l) == 0 ? quiet + 1 : 0;
    return quiet == 3;
}

/* ---- random numbers: the same in every story (-Wl,--wrap) ---- */

void __wrap_random_bytes(void *p, size_t n);
uint64_t __wrap_random_u64(void);
uint64_t __wrap_random_below(uint64_t bound);
void __wrap_random_uuid(char out[37]);

void __wrap_random_bytes(void *p, size_t n)
{
    memset(p, 0x5a, n);
}

uint64_t __wrap_random_u64(void)
{
    return clock_us() * 0x9e3779b97f4a7c15u;
}

uint64_t __wrap_random_below(uint64_t bound)
{
    return __wrap_random_u64() % bound;
}

void __wrap_random_uuid(char out[37])
{
    (void)snprintf(out, 37, "00000000-0000-4000-8000-%012llx", (unsigned long long)clock_us() & 0xffffffffffff);
}
