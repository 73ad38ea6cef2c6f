/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/waiters.h"

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

static void call_all(void *arg)
{
    struct waiters *w = arg;
    struct list_node *n;

    /* Who waits anew from inside its call stands on the other list. */
    while ((n = list_pop_front(&w->published)) != NULL) {
        struct cluster_waiter *one = list_entry(n, struct cluster_waiter, node);
        void (*done)(void *arg) = one->done;
        void *done_arg = one->arg;

        mem_free(one);
        if (done != NULL)
            done(done_arg);
    }
}

void waiters_polled(struct waiters *w, bool snapshot_follows)
{
    struct list_node *n;

    while ((n = list_pop_front(&w->polling)) != NULL)
        push(&w->published, list_entry(n, struct cluster_waiter, node));
    if (!snapshot_follows)
        loop_defer(w->loop, &w->turn, call_all, w);
}

void waiters_published(struct waiters *w)
{
    call_all(w);
}
