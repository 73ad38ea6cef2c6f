/* SPDX-License-Identifier: Apache-2.0 */
#include "net/lifetime.h"

#include "base/contract.h"
#include "net/loop_internal.h"

void lifetime_init(struct lifetime *life, struct loop *l, const char *what)
{
    *life = (struct lifetime){.loop = l, .what = what};
    list_init(&life->guests);
}

static void free_all(void *arg)
{
    struct lifetime *life = arg;
    loop_fn *fn = life->free_fn;

    must_hold(fn != NULL && life->guests.count == 0); /* nobody calls it any more */
    loop_timers_free(life->timers);
    life->timers = NULL;
    fn(life->free_arg); /* `life` is gone */
}

static void cancel_guests(struct lifetime *life)
{
    struct list_node *n;

    while ((n = list_last(&life->guests)) != NULL) {
        struct lifetime_guest *g = list_entry(n, struct lifetime_guest, node);

        list_remove(&life->guests, n);
        g->cancel(g->arg);
    }
}

static bool refused(const struct lifetime *life, const char *what)
{
    if (!lifetime_over(life))
        return false;
    loop_misuse(life->loop, what, life->what);
    return true;
}

void lifetime_retire(struct lifetime *life, loop_fn *free_fn, void *arg)
{
    if (refused(life, "Ended twice"))
        return;
    must_hold(free_fn != NULL); /* it is what tells that the life is over */
    life->free_fn = free_fn;    /* from here on whatever a guest provokes is refused */
    life->free_arg = arg;
    loop_timers_end(life->timers);
    for (struct lifetime_work *w = life->works; w != NULL; w = w->next)
        loop_unqueue(life->loop, w->queue, &w->node);
    cancel_guests(life);
    loop_defer(life->loop, &life->free_work, free_all, life);
}

struct loop_timer *lifetime_timer(struct lifetime *life, loop_fn *fn, void *arg)
{
    struct loop_timer *t;

    if (refused(life, "Timer made after the end"))
        return NULL;
    t = loop_timer_new(life->loop, fn, arg);
    if (t != NULL)
        loop_timer_give(t, life, &life->timers);
    return t;
}

void lifetime_work_init(struct lifetime *life, struct lifetime_work *w, enum loop_queue queue, loop_fn *fn, void *arg)
{
    must_hold(!list_linked(&w->node.node)); /* made twice, what waits would be lost in its queue */
    *w = (struct lifetime_work){.node = {.fn = fn, .arg = arg}, .life = life, .next = life->works, .queue = queue};
    life->works = w;
}

void lifetime_queue(struct lifetime_work *w)
{
    if (!refused(w->life, "Work queued after the end"))
        loop_queue(w->life->loop, w->queue, &w->node, w->node.fn, w->node.arg);
}

void lifetime_cancel(struct lifetime_work *w)
{
    loop_unqueue(w->life->loop, w->queue, &w->node);
}

bool lifetime_queued(const struct lifetime_work *w)
{
    return list_linked(&w->node.node);
}

void lifetime_guest(struct lifetime *life, struct lifetime_guest *g, void (*cancel)(void *arg), void *arg)
{
    if (refused(life, "Guest taken in after the end")) {
        cancel(arg);
        return;
    }
    /* Who is another's guest would leave a list that he is not on. */
    must_hold(!list_linked(&g->node) || g->life == life);
    g->life = life;
    g->cancel = cancel;
    g->arg = arg;
    if (!list_linked(&g->node))
        list_push_back(&life->guests, &g->node);
}

void lifetime_release(struct lifetime_guest *g)
{
    if (list_linked(&g->node))
        list_remove(&g->life->guests, &g->node);
}
