/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/daemon/one_timer.h"

#include "lib/tap.h"
#include "net/loop.h"

static struct one_timer timer;

struct one_timer *one_timer(void)
{
    return &timer;
}

uint64_t loop_now_ms(const struct loop *l)
{
    (void)l;
    return timer.now_ms;
}

struct loop_timer *loop_timer_new(struct loop *l, loop_fn *fn, void *arg)
{
    (void)l;
    timer.fn = fn;
    return timer.no_memory ? NULL : arg;
}

void loop_timer_set(struct loop_timer *t, uint64_t delay_ms)
{
    (void)t;
    timer.due_ms = timer.now_ms + delay_ms;
}

void one_timer_fire(void *arg)
{
    if (timer.due_ms == 0)
        tap_bail("the timer is not set");
    timer.now_ms = timer.due_ms;
    timer.due_ms = 0;
    timer.fn(arg);
}
