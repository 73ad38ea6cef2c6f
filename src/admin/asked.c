/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/asked.h"

#include <event2/http.h>

#include "base/clock.h"
#include "base/list.h"
#include "net/loop.h"

struct asked {
    struct loop *loop;
    asked_fn *fn;
    void *arg;
    struct list waiting; /* of struct waiter */
    struct loop_deferred next;
};

struct waiter {
    struct list_node node;
    struct asked *asked;
    struct evhttp_request *req;
    struct evhttp_connection *connection;
};

struct asked *asked_new(struct loop *l, asked_fn *fn, void *arg)
{
    struct asked *a = mem_zalloc(sizeof(*a));

    if (a == NULL)
        return NULL;
    a->loop = l;
    a->fn = fn;
    a->arg = arg;
    list_init(&a->waiting);
    return a;
}

static struct evhttp_request *let_go(struct waiter *w)
{
    struct evhttp_request *req = w->req;

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

/* One at least, so that they get on however busy the others are. */
static void serve(void *arg)
{
    struct asked *a = arg;
    uint64_t end = clock_us() + ASKED_TURN_US;
    struct list_node *n;

    while ((n = list_first(&a->waiting)) != NULL) {
        a->fn(let_go(list_entry(n, struct waiter, node)), a->arg);
        if (clock_us() >= end)
            break;
    }
    if (list_first(&a->waiting) != NULL)
        loop_defer(a->loop, &a->next, serve, a);
}

void asked_add(struct asked *a, struct evhttp_request *req)
{
    struct waiter *w = mem_zalloc(sizeof(*w));

    if (w == NULL) {
        a->fn(req, a->arg);
        return;
    }
    w->asked = a;
    w->req = req;
    w->connection = evhttp_request_get_connection(req);
    list_push_back(&a->waiting, &w->node);
    evhttp_connection_set_closecb(w->connection, on_gone, w);
    loop_defer(a->loop, &a->next, serve, a);
}
