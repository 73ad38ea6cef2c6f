/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/waiters.h"

enum { CALLED_AT_ONCE = 64 }; /* each may route and send a request: 50 us */

struct cluster_waiter {
    struct list_node node;
    struct list *on;
    void (*done)(void *arg);
    void *arg;
};

static void push(struct list *l, struct cluster_waiter *w)
{
    list_push_back(l, &w->node);
    w->on = l;
}

void waiters_init(struct waiters *w, struct loop *l)
{
    memset(w, 0, sizeof(*w));
    w->loop = l;
    list_init(&w->polling);
    list_init(&w->published);
    list_init(&w->due);
}

static void clear(struct list *l)
{
    struct list_node *n;

    while ((n = list_pop_front(l)) != NULL)
        mem_free(list_entry(n, struct cluster_waiter, node));
}

void waiters_clear(struct waiters *w)
{
    loop_defer_cancel(w->loop, &w->turn);
    clear(&w->polling);
    clear(&w->published);
    clear(&w->due);
}

struct cluster_waiter *waiters_add(struct waiters *w, void (*done)(void *arg), void *arg)
{
    struct cluster_waiter *one = mem_zalloc(sizeof(*one));

    if (one == NULL)
        return NULL;
    one->done = done;
    one->arg = arg;
    push(&w->polling, one);
    return one;
}

void waiters_forget(struct cluster_waiter *w)
{
    list_remove(w->on, &w->node);
    mem_free(w);
}

static void move_all(struct list *from, struct list *to)
{
    struct list_node *n;

    while ((n = list_pop_front(from)) != NULL)
        push(to, list_entry(n, struct cluster_waiter, node));
}

static void call_some(void *arg)
{
    struct waiters *w = arg;
    struct list_node *n;

    /* Who waits anew from inside its call stands on another list. */
    for (unsigned i = 0; i < CALLED_AT_ONCE && (n = list_pop_front(&w->due)) != NULL; i++) {
        struct cluster_waiter *one = list_entry(n, struct cluster_waiter, node);
        void (*done)(void *arg) = one->done;
        void *done_arg = one->arg;

        mem_free(one);
        if (done != NULL)
            done(done_arg);
    }
    if (w->due.count > 0)
        loop_defer(w->loop, &w->turn, call_some, w);
}

void waiters_polled(struct waiters *w, bool snapshot_follows)
{
    move_all(&w->polling, &w->published);
    if (snapshot_follows)
        return;
    move_all(&w->published, &w->due);
    loop_defer(w->loop, &w->turn, call_some, w);
}

void waiters_published(struct waiters *w)
{
    move_all(&w->published, &w->due);
    call_some(w);
}
