/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/asked.h"

#include <event2/http.h>

#include "base/clock.h"
#include "base/list.h"
#include "net/loop.h"

struct asked {
    struct loop *loop;
    struct asked_fns fns;
    void *arg;
    struct list waiting; /* of struct waiter */
    struct loop_deferred next;
};

struct waiter {
    struct list_node node;
    struct asked *asked;
    struct evhttp_request *req;
    struct evhttp_connection *connection;
    void *work;
};

struct asked *asked_new(struct loop *l, const struct asked_fns *fns, void *arg)
{
    struct asked *a = mem_zalloc(sizeof(*a));

    if (a == NULL)
        return NULL;
    a->loop = l;
    a->fns = *fns;
    a->arg = arg;
    list_init(&a->waiting);
    return a;
}

/* What was made of the answer is dropped. */
static struct evhttp_request *let_go(struct waiter *w)
{
    struct evhttp_request *req = w->req;

    if (w->work != NULL)
        w->asked->fns.drop(w->work);
    evhttp_connection_set_closecb(w->connection, NULL, NULL);
    list_remove(&w->asked->waiting, &w->node);
    mem_free(w);
    return req;
}

void asked_free(struct asked *a)
{
    struct list_node *n;

    if (a == NULL)
        return;
    while ((n = list_first(&a->waiting)) != NULL)
        (void)let_go(list_entry(n, struct waiter, node));
    loop_defer_cancel(a->loop, &a->next);
    mem_free(a);
}

/* The connection breaks. A request that libevent has taken off it before is nobody's, and its end frees it. */
static void on_gone(struct evhttp_connection *connection, void *arg)
{
    struct evhttp_request *req = let_go(arg);

    (void)connection;
    if (evhttp_request_get_connection(req) == NULL)
        evhttp_send_reply_end(req);
}

static void go_on(struct waiter *w)
{
    const struct asked *a = w->asked;
    struct evhttp_request *req;
    void *work;

    if (a->fns.make != NULL && !a->fns.make(w->req, &w->work, a->arg))
        return;
    work = w->work;
    w->work = NULL;
    req = let_go(w);
    a->fns.send(req, work, a->arg);
}

/* One step at least, so that they get on however busy the others are. */
static void serve(void *arg)
{
    struct asked *a = arg;
    uint64_t end = clock_us() + ASKED_TURN_US;
    struct list_node *n;

    while ((n = list_first(&a->waiting)) != NULL) {
        go_on(list_entry(n, struct waiter, node));
        if (clock_us() >= end)
            break;
    }
    if (list_first(&a->waiting) != NULL)
        loop_defer(a->loop, &a->next, serve, a);
}

void asked_add(struct asked *a, struct evhttp_request *req)
{
    struct waiter *w = mem_zalloc(sizeof(*w));
    void *work = NULL;

    if (w == NULL) {
        while (a->fns.make != NULL && !a->fns.make(req, &work, a->arg))
            ;
        a->fns.send(req, work, a->arg);
        return;
    }
    w->asked = a;
    w->req = req;
    w->connection = evhttp_request_get_connection(req);
    list_push_back(&a->waiting, &w->node);
    evhttp_connection_set_closecb(w->connection, on_gone, w);
    loop_defer(a->loop, &a->next, serve, a);
}
