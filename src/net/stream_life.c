/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How streams begin, and how their owners and carriers let go of them: the top floor, which knows all the others.
 */
#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <unistd.h>

#include "base/contract.h"
#include "net/sockopt.h"
#include "net/stream_bulk.h"
#include "net/stream_out.h"
#include "net/stream_tls.h"

static void deliver_work(void *arg)
{
    stream_deliver(arg);
}

static void on_linger_timeout(void *arg)
{
    stream_destroy(arg, false);
}

static void on_open_timeout(void *arg)
{
    struct stream *s = arg;

    stream_broke(s, s->state == STREAM_CONNECTING ? "timed out while connecting" : "timed out in the TLS handshake");
    stream_deliver(s);
}

static struct stream *stream_new(struct loop *l, int fd, const struct stream_opts *o)
{
    struct stream *s = mem_zalloc(sizeof(*s));

    if (s == NULL) {
        close(fd);
        return NULL;
    }
    s->loop = l;
    s->fd = fd;
    s->fn = o->fn;
    s->arg = o->arg;
    s->ops = o->tls == NULL ? stream_plain_transport() : stream_tls_transport();
    lifetime_init(&s->life, l, "stream");
    lifetime_work_init(&s->life, &s->deliver_work, LOOP_DEFERRED, deliver_work, s);
    lifetime_work_init(&s->life, &s->exit_work, LOOP_AT_EXIT, on_linger_timeout, s);
    stream_out_init(s);
    stream_bulk_init(s);
    event_assign(&s->readable, loop_base(l), fd, 0, NULL, NULL);
    s->timer = lifetime_timer(&s->life, on_open_timeout, s);
    if (s->timer == NULL || (o->tls != NULL && !stream_tls_init(s, o)))
        goto fail;
    loop_timer_set(s->timer, o->open_timeout_ms == 0 ? TIMEOUT_HANDSHAKE_MS : o->open_timeout_ms);
    return s;

fail:
    s->fn = NULL;
    stream_destroy(s, false);
    return NULL;
}

static void start(struct stream *s)
{
    stream_move(s, STREAM_HANDSHAKING);
    s->ops->start(s);
}

struct stream *stream_accept(struct loop *l, int fd, const struct stream_opts *o)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNIX};
    socklen_t len = sizeof(addr);
    struct stream *s = stream_new(l, fd, o);

    if (s == NULL)
        return NULL;
    if (o->client == NULL && getpeername(fd, (struct sockaddr *)&addr, &len) != 0)
        addr.ss_family = AF_UNIX; /* gone already: reading will tell */
    stream_describe(s, o->client != NULL ? o->client : (const struct sockaddr *)&addr);
    start(s);
    return s;
}

struct stream *stream_adopt(struct loop *l, int fd, const struct sockaddr *addr, const char *name,
                            const struct stream_opts *o)
{
    struct stream *s = stream_new(l, fd, o);

    if (s == NULL)
        return NULL;
    s->tunnelled = true;
    if (addr != NULL)
        stream_describe(s, addr);
    else
        (void)snprintf(s->remote, sizeof(s->remote), "%s", name);
    start(s);
    return s;
}

static void on_connected(evutil_socket_t fd, short what, void *arg)
{
    struct stream *s = arg;
    struct loop *l = s->loop;
    int error = 0;
    socklen_t len = sizeof(error);

    (void)what;
    loop_enter(l);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        error = errno;
    stream_forget_writable(s); /* from now on "writable" has its usual meaning */
    if (error != 0)
        stream_broke(s, "connect: %s", strerror(error));
    else
        start(s);
    stream_deliver(s);
    loop_leave(l);
}

struct stream *stream_connect(struct loop *l, const struct sockaddr *addr, socklen_t len, const struct stream_opts *o)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct stream *s;

    if (fd < 0)
        return NULL;
    if (addr->sa_family != AF_UNIX)
        sockopt_tune(fd);
    s = stream_new(l, fd, o);
    if (s == NULL)
        return NULL;
    stream_describe(s, addr);
    if (connect(fd, addr, len) == 0) {
        start(s);
    } else if (errno == EINPROGRESS) {
        if (!stream_await_writable(s, on_connected))
            stream_broke_for_memory(s);
    } else {
        stream_broke(s, "connect: %s", strerror(errno));
    }
    return s;
}

int stream_surrender(struct stream *s)
{
    int fd = s->fd;

    must_hold(s->state == STREAM_OPEN && stream_input_len(s) == 0 && stream_unsent(s) == 0);
    s->ops->detach(s);
    stream_forget_writable(s);
    event_del(&s->readable);
    s->fd = -1;
    stream_destroy(s, false);
    return fd;
}

void stream_carried(struct stream *s, void (*fn)(void *arg, bool reset), void *arg)
{
    s->carrier_fn = fn;
    s->carrier_arg = arg;
}

void stream_carrier_lost(struct stream *s, const char *failure)
{
    s->carrier_fn = NULL;
    if (failure != NULL && s->carrier_failure == NULL)
        s->carrier_failure = mem_strdup(failure);
}

void stream_on_closed(struct stream *s, void (*fn)(void *arg), void *arg)
{
    s->on_closed = fn;
    s->on_closed_arg = arg;
}

void stream_close(struct stream *s, enum stream_close_how how)
{
    bool was_open = s->state == STREAM_OPEN;

    s->fn = NULL;
    lifetime_cancel(&s->deliver_work);
    if (!was_open || s->send_broken || how == STREAM_CLOSE_ABORT) {
        stream_destroy(s, how == STREAM_CLOSE_ABORT);
        return;
    }
    s->finish = true;
    if (how == STREAM_CLOSE_NOW) {
        stream_flush(s);
        if (s->state != STREAM_CLOSED)
            stream_destroy(s, false);
        return;
    }
    stream_move(s, STREAM_FLUSHING);
    stream_update_reading(s);
    s->timer = lifetime_timer(&s->life, on_linger_timeout, s);
    if (s->timer == NULL) {
        stream_destroy(s, false);
        return;
    }
    loop_timer_set(s->timer, TIMEOUT_LINGER_MS);
    lifetime_queue(&s->exit_work);
    stream_flush_later(s);
}
