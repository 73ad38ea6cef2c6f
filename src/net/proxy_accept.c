/* SPDX-License-Identifier: Apache-2.0 */
#include "net/proxy_accept.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/limits.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"
#include "net/proxy_header.h"

struct proxy_accept {
    struct loop *loop;
    struct list waiting; /* the oldest first */
    proxy_accept_fn *fn;
    proxy_accept_bad_fn *bad;
    void *arg;
};

struct waiting {
    struct list_node node;
    struct proxy_accept *owner;
    struct lifetime life;
    struct lifetime_guest readable_guest;
    struct event readable;
    struct loop_timer *timer;
    int fd;
    size_t n;
    char head[PROXY_HEADER_MAX];
};

static void stop_reading(void *arg)
{
    struct waiting *w = arg;

    event_del(&w->readable);
}

static void leave(struct waiting *w)
{
    list_remove(&w->owner->waiting, &w->node);
    lifetime_retire(&w->life, mem_free, w);
}

static void refuse(struct waiting *w, const char *why)
{
    struct proxy_accept *p = w->owner;

    if (why != NULL)
        p->bad(w->fd, why, p->arg);
    close(w->fd);
    leave(w);
}

static void on_timeout(void *arg)
{
    refuse(arg, "timed out");
}

static void hand_over(struct waiting *w, const struct proxy_header *h)
{
    struct proxy_accept *p = w->owner;
    int fd = w->fd;

    leave(w);
    p->fn(fd, h->client.ss_family == AF_UNSPEC ? NULL : (const struct sockaddr *)&h->client, p->arg);
}

/* What has been looked at is read, but nothing behind the header: that is the connection's. */
static bool consume(struct waiting *w, size_t upto)
{
    size_t wanted = upto - w->n;

    must_hold(upto >= w->n && upto <= sizeof(w->head)); /* a header is longer than what was too short for it */
    w->n = upto;
    return wanted == 0 || recv(w->fd, w->head + upto - wanted, wanted, 0) == (ssize_t)wanted;
}

static void look(struct waiting *w)
{
    ssize_t got = recv(w->fd, w->head + w->n, sizeof(w->head) - w->n, MSG_PEEK);
    struct proxy_header h;

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        refuse(w, got == 0 ? "ended before the header did" : "broken before the header came");
        return;
    }
    switch (proxy_header_parse(slice_of(w->head, w->n + (size_t)got), &h)) {
    case PROXY_HEADER_MORE:
        if (!consume(w, w->n + (size_t)got))
            refuse(w, "broken before the header came");
        return;
    case PROXY_HEADER_OK:
        if (consume(w, h.bytes))
            hand_over(w, &h);
        else
            refuse(w, "broken before the header came");
        return;
    case PROXY_HEADER_BAD:
        refuse(w, "no valid PROXY header");
        return;
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct waiting *w = arg;
    struct loop *l = w->owner->loop;

    (void)fd;
    (void)what;
    loop_enter(l);
    look(w);
    loop_leave(l);
}

struct proxy_accept *proxy_accept_new(struct loop *l, proxy_accept_fn *fn, proxy_accept_bad_fn *bad, void *arg)
{
    struct proxy_accept *p = must_zalloc(sizeof(*p));

    p->loop = l;
    p->fn = fn;
    p->bad = bad;
    p->arg = arg;
    list_init(&p->waiting);
    return p;
}

void proxy_accept_free(struct proxy_accept *p)
{
    struct list_node *n;

    if (p == NULL)
        return;
    while ((n = list_first(&p->waiting)) != NULL)
        refuse(list_entry(n, struct waiting, node), NULL);
    mem_free(p);
}

void proxy_accept_add(struct proxy_accept *p, int fd)
{
    struct waiting *w = mem_zalloc(sizeof(*w));

    if (w == NULL) {
        p->bad(fd, "out of memory", p->arg);
        close(fd);
        return;
    }
    w->owner = p;
    w->fd = fd;
    lifetime_init(&w->life, p->loop, "PROXY header");
    list_push_back(&p->waiting, &w->node);
    event_assign(&w->readable, loop_base(p->loop), fd, EV_READ | EV_PERSIST, on_readable, w);
    w->timer = lifetime_timer(&w->life, on_timeout, w);
    if (w->timer == NULL || event_add(&w->readable, NULL) != 0) {
        refuse(w, "out of memory");
        return;
    }
    lifetime_guest(&w->life, &w->readable_guest, stop_reading, w);
    loop_timer_set(w->timer, TIMEOUT_PROXY_HEADER_MS);
    if (p->waiting.count > LIMIT_PROXY_HEADERS)
        refuse(list_entry(list_first(&p->waiting), struct waiting, node), "too many wait");
}
