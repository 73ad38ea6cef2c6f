/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_loop.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"

enum { RUNAWAY = 2000000 };

struct loop_timer {
    struct loop *loop;
    struct lifetime *life; /* NULL: its maker's */
    struct loop_timer **chain, *next;
    size_t place; /* in loop.heap, from 1; 0: not pending */
    loop_fn *fn;
    void *arg;
};

/* What it is ordered by stands in the heap itself: nobody has to look at the timers. */
struct place {
    uint64_t due, seq;
    struct loop_timer *timer;
};

struct loop {
    struct list deferred;
    struct place *heap; /* [1..n], the earliest first */
    size_t n, cap;
    uint64_t now, seq, turns, idle_turns, missed;
};

static const int64_t wall_start_us = 1764000000000000; /* some day in 2025 */
static uint64_t random_state = 1, uuids;

static void set_clock(struct loop *l)
{
    clock_fake(l->now * 1000, wall_start_us + (int64_t)l->now * 1000);
}

struct loop *loop_new(struct metrics *metrics)
{
    struct loop *l = must_zalloc(sizeof(*l));

    (void)metrics;
    list_init(&l->deferred);
    l->now = 1000000;
    set_clock(l);
    return l;
}

void loop_free(struct loop *l)
{
    sim_run_ms(l, 0);
    clock_real();
    free(l->heap);
    mem_free(l);
}

uint64_t loop_now_ms(const struct loop *l)
{
    return l->now;
}

uint64_t loop_missed_ms(const struct loop *l)
{
    return l->missed;
}

struct event_base *loop_base(struct loop *l)
{
    (void)l;
    return NULL;
}

struct loop_timer *loop_timer_new(struct loop *l, loop_fn *fn, void *arg)
{
    struct loop_timer *t = mem_zalloc(sizeof(*t));

    if (t == NULL)
        return NULL;
    t->loop = l;
    t->fn = fn;
    t->arg = arg;
    return t;
}

static bool before(const struct place *a, const struct place *b)
{
    return a->due != b->due ? a->due < b->due : a->seq < b->seq;
}

static void put(struct loop *l, size_t at, const struct place *p)
{
    l->heap[at] = *p;
    p->timer->place = at;
}

static void sift_up(struct loop *l, size_t at, struct place p)
{
    for (; at > 1 && before(&p, &l->heap[at / 2]); at /= 2)
        put(l, at, &l->heap[at / 2]);
    put(l, at, &p);
}

static void sift_down(struct loop *l, size_t at, struct place p)
{
    size_t child;

    while ((child = 2 * at) <= l->n) {
        if (child < l->n && before(&l->heap[child + 1], &l->heap[child]))
            child++;
        if (!before(&l->heap[child], &p))
            break;
        put(l, at, &l->heap[child]);
        at = child;
    }
    put(l, at, &p);
}

void loop_timer_cancel(struct loop_timer *t)
{
    struct loop *l = t->loop;
    size_t at = t->place;
    struct place last;

    if (at == 0)
        return;
    t->place = 0;
    last = l->heap[l->n--];
    if (last.timer == t)
        return;
    if (at > 1 && before(&last, &l->heap[at / 2]))
        sift_up(l, at, last);
    else
        sift_down(l, at, last);
}

void loop_misuse(struct loop *l, const char *what, const char *of)
{
    (void)l;
    fprintf(stderr, "sim: %s: %s\n", of, what);
    abort();
}

void loop_timer_free(struct loop_timer *t)
{
    struct loop_timer **at;

    if (t == NULL || (t->life != NULL && lifetime_over(t->life)))
        return;
    loop_timer_cancel(t);
    if (t->life != NULL) {
        for (at = t->chain; *at != t;)
            at = &(*at)->next;
        *at = t->next;
    }
    mem_free(t);
}

void loop_timer_give(struct loop_timer *t, struct lifetime *life, struct loop_timer **first)
{
    t->life = life;
    t->chain = first;
    t->next = *first;
    *first = t;
}

void loop_timers_end(struct loop_timer *first)
{
    for (struct loop_timer *t = first; t != NULL; t = t->next)
        loop_timer_cancel(t);
}

void loop_timers_free(struct loop_timer *first)
{
    for (struct loop_timer *next; first != NULL; first = next) {
        next = first->next;
        mem_free(first);
    }
}

static void push(struct loop *l, struct place p)
{
    if (l->n + 1 >= l->cap) {
        l->cap = l->cap == 0 ? 64 : l->cap * 2;
        l->heap = realloc(l->heap, l->cap * sizeof(l->heap[0]));
        if (l->heap == NULL)
            abort();
    }
    l->n++;
    sift_up(l, l->n, p);
}

void loop_timer_set(struct loop_timer *t, uint64_t delay_ms)
{
    if (t->life != NULL && lifetime_over(t->life))
        loop_misuse(t->loop, "timer set after the end", t->life->what);
    loop_timer_cancel(t);
    push(t->loop, (struct place){.due = t->loop->now + delay_ms, .seq = t->loop->seq++, .timer = t});
}

void loop_timer_move(struct loop_timer *t, uint64_t delay_ms)
{
    loop_timer_set(t, delay_ms);
}

bool loop_timer_pending(const struct loop_timer *t)
{
    return t->place != 0;
}

void loop_queue(struct loop *l, enum loop_queue q, struct loop_deferred *d, loop_fn *fn, void *arg)
{
    if (q != LOOP_DEFERRED && q != LOOP_BULK) /* no turn is so long that the second would have to wait */
        loop_misuse(l, "only deferred work is simulated", "queue");
    if (list_linked(&d->node)) {
        if (d->fn != fn || d->arg != arg)
            loop_misuse(l, "queued work was to be replaced", "queue");
        return;
    }
    d->fn = fn;
    d->arg = arg;
    list_push_back(&l->deferred, &d->node);
}

void loop_unqueue(struct loop *l, enum loop_queue q, struct loop_deferred *d)
{
    (void)q;
    if (list_linked(&d->node))
        list_remove(&l->deferred, &d->node);
}

void loop_defer(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg)
{
    loop_queue(l, LOOP_DEFERRED, d, fn, arg);
}

void loop_defer_cancel(struct loop *l, struct loop_deferred *d)
{
    loop_unqueue(l, LOOP_DEFERRED, d);
}

/* What is queued while the queue runs, runs in the next turn. */
static void run_deferred(struct loop *l)
{
    while (l->deferred.count > 0) {
        struct list_node *node, mark = {NULL, NULL};

        l->turns++;
        if (++l->idle_turns > RUNAWAY) {
            fprintf(stderr, "sim: the loop never comes to rest\n");
            abort();
        }
        list_push_back(&l->deferred, &mark);
        while ((node = list_pop_front(&l->deferred)) != &mark) {
            struct loop_deferred *d = list_entry(node, struct loop_deferred, node);

            d->fn(d->arg);
        }
    }
}

/* One timer that is due by `end`; false if there is none. */
static bool step(struct loop *l, uint64_t end)
{
    struct place p;

    run_deferred(l);
    if (l->n == 0 || l->heap[1].due > end)
        return false;
    p = l->heap[1];
    if (p.due > l->now) {
        l->now = p.due;
        l->idle_turns = 0;
        set_clock(l);
    }
    l->turns++;
    loop_timer_cancel(p.timer);
    p.timer->fn(p.timer->arg);
    run_deferred(l);
    return true;
}

void sim_run_ms(struct loop *l, uint64_t ms)
{
    uint64_t end = l->now + ms;

    while (step(l, end)) {
    }
    l->now = end;
    set_clock(l);
}

void sim_pause_ms(struct loop *l, uint64_t ms)
{
    l->now += ms;
    l->missed += ms;
    set_clock(l);
}

bool sim_run_until(struct loop *l, uint64_t max_ms, bool (*done)(void *arg), void *arg)
{
    uint64_t end = l->now + max_ms;

    run_deferred(l);
    while (!done(arg)) {
        if (step(l, end))
            continue;
        l->now = end;
        set_clock(l);
        return done(arg);
    }
    return true;
}

uint64_t sim_turns(const struct loop *l)
{
    return l->turns;
}

void sim_seed(uint64_t seed)
{
    random_state = seed == 0 ? 1 : seed;
    uuids = 0;
}

/* The linker puts these in place of base/random.c's (-Wl,--wrap): xorshift64*. */
void __wrap_random_bytes(void *p, size_t n);
uint64_t __wrap_random_u64(void);
uint64_t __wrap_random_below(uint64_t bound);
void __wrap_random_uuid(char out[37]);

/* Map seeds: the order in maps is the same in each process. */
void __wrap_random_bytes(void *p, size_t n)
{
    memset(p, 0x5a, n);
}

uint64_t __wrap_random_u64(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 2685821657736338717u;
}

uint64_t __wrap_random_below(uint64_t bound)
{
    return __wrap_random_u64() % bound;
}

void __wrap_random_uuid(char out[37])
{
    (void)snprintf(out, 37, "00000000-0000-4000-8000-%012llx", (unsigned long long)++uuids & 0xffffffffffff);
}
