#include <event2/event.h>
#include <event2/event_struct.h>
#include <sys/time.h>

#include "net/loop_internal.h"

struct loop_timer {
    struct event event;
    struct loop *loop;
    union {
        struct {
            loop_fn *fn;
            void *arg;
            uint64_t deadline_ms; /* when fn is wanted; valid while pending */
            uint64_t armed_ms;    /* when libevent wakes us; valid while armed */
        };
        struct loop_deferred release; /* of one that is freed */
    };
    bool pending;
    bool armed;
};

static void arm(struct loop_timer *t, uint64_t delay_ms)
{
    struct timeval tv = {.tv_sec = (time_t)(delay_ms / 1000), .tv_usec = (suseconds_t)(delay_ms % 1000 * 1000)};

    t->armed = event_add(&t->event, &tv) == 0;
    t->armed_ms = t->deadline_ms;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct loop_timer *t = arg;
    struct loop *l = t->loop;

    (void)fd;
    (void)what;
    loop_enter(l);
    t->armed = false;
    if (t->pending) {
        uint64_t now = loop_now_ms(l);

        if (now < t->deadline_ms) {
            arm(t, t->deadline_ms - now); /* was pushed back meanwhile */
        } else {
            t->pending = false;
            t->fn(t->arg);
        }
    }
    loop_leave(l);
}

struct loop_timer *loop_timer_new(struct loop *l, loop_fn *fn, void *arg)
{
    struct loop_timer *t = mem_zalloc(sizeof(*t));

    if (t == NULL)
        return NULL;
    t->loop = l;
    t->fn = fn;
    t->arg = arg;
    if (evtimer_assign(&t->event, loop_base(l), on_timer, t) != 0) {
        mem_free(t);
        return NULL;
    }
    return t;
}

void loop_timer_free(struct loop_timer *t)
{
    if (t == NULL)
        return;
    t->pending = false;
    event_del(&t->event);
    t->release = (struct loop_deferred){.fn = NULL};
    loop_defer(t->loop, &t->release, mem_free, t);
}

void loop_timer_set(struct loop_timer *t, uint64_t delay_ms)
{
    t->deadline_ms = loop_now_ms(t->loop) + delay_ms;
    t->pending = true;
    if (!t->armed || t->deadline_ms < t->armed_ms)
        arm(t, delay_ms);
}

void loop_timer_move(struct loop_timer *t, uint64_t delay_ms)
{
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
