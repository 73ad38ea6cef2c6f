/* SPDX-License-Identifier: Apache-2.0 */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/time.h>

#include "net/lifetime.h"

#include "base/contract.h"
#include "net/loop_internal.h"

struct loop_timer {
    struct event event;
    struct loop *loop;
    struct lifetime *life;     /* whose it is; NULL: its maker's */
    struct loop_timer **chain; /* the first of them */
    struct loop_timer *next;
    loop_fn *fn;
    void *arg;
    uint64_t deadline_ms;      /* when fn is wanted; valid while pending */
    uint64_t armed_ms;         /* when libevent wakes us; valid while armed */
    struct loop_deferred work; /* on_late() until what has arrived is read; of one that is freed: the free */
    bool pending;
    bool armed;
};

static void arm(struct loop_timer *t, uint64_t delay_ms)
{
    struct timeval tv = {.tv_sec = (time_t)(delay_ms / 1000), .tv_usec = (suseconds_t)(delay_ms % 1000 * 1000)};

    t->armed = event_add(&t->event, &tv) == 0;
    t->armed_ms = t->deadline_ms;
}

/* One that was pushed back meanwhile is armed again. */
static bool is_due(struct loop_timer *t)
{
    uint64_t now = loop_now_ms(t->loop);

    if (!t->pending)
        return false;
    if (now >= t->deadline_ms)
        return true;
    if (!t->armed)
        arm(t, t->deadline_ms - now);
    return false;
}

static void fire(struct loop_timer *t)
{
    struct loop *l = t->loop;

    loop_enter(l);
    t->pending = false;
    t->fn(t->arg);
    loop_leave(l);
}

/* Nothing has to be read before it any more. */
static void on_late(void *arg)
{
    struct loop_timer *t = arg;

    loop_touch(t->loop);
    if (is_due(t))
        fire(t);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct loop_timer *t = arg;
    struct loop *l = t->loop;

    (void)fd;
    (void)what;
    loop_touch(l);
    t->armed = false;
    if (!is_due(t) || loop_hold_timer(l, &t->work, loop_now_ms(l) - t->deadline_ms))
        return;
    fire(t);
}

struct loop_timer *loop_timer_new(struct loop *l, loop_fn *fn, void *arg)
{
    struct loop_timer *t = mem_zalloc(sizeof(*t));

    if (t == NULL)
        return NULL;
    t->loop = l;
    t->fn = fn;
    t->arg = arg;
    t->work = (struct loop_deferred){.fn = on_late, .arg = t};
    if (evtimer_assign(&t->event, loop_base(l), on_timer, t) != 0) {
        mem_free(t);
        return NULL;
    }
    return t;
}

static void leave_chain(struct loop_timer *t)
{
    struct loop_timer **at = t->chain;

    while (*at != t) {
        must_hold(*at != NULL);
        at = &(*at)->next;
    }
    *at = t->next;
}

void loop_timer_free(struct loop_timer *t)
{
    if (t == NULL)
        return;
    if (t->life != NULL) {
        if (lifetime_over(t->life))
            return; /* goes with the object */
        leave_chain(t);
        t->life = NULL;
    }
    must_hold(t->work.fn == on_late); /* freed once: its free waits in another queue than on_late() does */
    t->pending = false;
    event_del(&t->event);
    loop_release_timer(t->loop, &t->work);
    loop_defer(t->loop, &t->work, mem_free, t);
}

void loop_timer_give(struct loop_timer *t, struct lifetime *life, struct loop_timer **first)
{
    must_hold(t->life == NULL);
    t->life = life;
    t->chain = first;
    t->next = *first;
    *first = t;
}

void loop_timers_end(struct loop_timer *first)
{
    for (struct loop_timer *t = first; t != NULL; t = t->next) {
        t->pending = t->armed = false;
        event_del(&t->event);
        loop_release_timer(t->loop, &t->work);
    }
}

void loop_timers_free(struct loop_timer *first)
{
    for (struct loop_timer *next; first != NULL; first = next) {
        next = first->next;
        must_hold(!first->armed && !list_linked(&first->work.node)); /* libevent and the loop know nothing of it */
        mem_free(first);
    }
}

static bool refused(const struct loop_timer *t)
{
    if (t->life == NULL || !lifetime_over(t->life))
        return false;
    loop_misuse(t->loop, "Timer set after the end", t->life->what);
    return true;
}

void loop_timer_set(struct loop_timer *t, uint64_t delay_ms)
{
    if (refused(t))
        return;
    t->deadline_ms = loop_now_ms(t->loop) + delay_ms;
    t->pending = true;
    if (!t->armed || t->deadline_ms < t->armed_ms)
        arm(t, delay_ms);
}

void loop_timer_move(struct loop_timer *t, uint64_t delay_ms)
{
    if (refused(t))
        return;
    t->deadline_ms = loop_now_ms(t->loop) + delay_ms;
    t->pending = true;
    if (!t->armed || t->deadline_ms != t->armed_ms)
        arm(t, delay_ms);
}

void loop_timer_cancel(struct loop_timer *t)
{
    t->pending = false; /* it fires once more into nothing: cheaper than taking it out of the heap at each request */
}

bool loop_timer_pending(const struct loop_timer *t)
{
    return t->pending;
}
