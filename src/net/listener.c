/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/contract.h"
#include "net/lifetime.h"
#include "net/loop_internal.h"
#include "net/sockopt.h"

enum {
    ACCEPT_BATCH = 64,    /* per turn, so that a flood of connections does not starve the open ones */
    ACCEPT_TURN_US = 250, /* likewise, on a slow machine */
    BACKLOG = 65535, /* the kernel cuts it to net.core.somaxconn: how long the queue is, is the operator's choice */
    EMFILE_PAUSE_MS = 100, /* out of descriptors: they come back as connections close */
};

struct listener {
    struct loop *loop;
    struct lifetime life;
    struct event readable;
    struct loop_timer *retry;
    int fd;
    unsigned port;
    bool paused;   /* by our owner */
    bool starving; /* no descriptors */
    bool closed;
    bool shared; /* inherited: others have it, too */
    uint64_t emfile_pauses;
    listener_fn *fn;
    listener_starved_fn *on_starved;
    void *arg;
    struct lifetime_work let_go; /* closed, shared */
};

static void update(struct listener *l)
{
    if (l->paused || l->starving || l->closed)
        event_del(&l->readable);
    else
        event_add(&l->readable, NULL);
}

static void on_retry(void *arg)
{
    struct listener *l = arg;

    l->starving = false;
    update(l);
}

static void starve(struct listener *l, int error)
{
    l->emfile_pauses++;
    if (l->on_starved != NULL)
        l->on_starved(error, l->arg);
    l->starving = true;
    loop_timer_set(l->retry, EMFILE_PAUSE_MS);
    update(l);
}

static bool out_of_resources(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct listener *l = arg;
    struct loop *loop = l->loop;
    uint64_t end = clock_us() + ACCEPT_TURN_US;

    (void)what;
    must_hold(!l->closed);
    loop_enter(loop);
    for (int i = 0; i < ACCEPT_BATCH && !l->paused && !l->closed && (i == 0 || clock_us() < end); i++) {
        int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (client >= 0) {
            l->fn(client, l->arg);
        } else if (out_of_resources(errno)) {
            starve(l, errno);
            break;
        } else if (errno == EAGAIN) {
            break;
        } /* anything else concerns that one connection only (accept(2), "Error handling") */
    }
    loop_leave(loop);
}

static void free_listener(void *arg)
{
    struct listener *l = arg;

    if (l->shared)
        close(l->fd);
    mem_free(l);
}

/*
 * epoll watches the socket, not the descriptor, and libevent tells it of changes when the next turn begins. Closing
 * a descriptor while others still have the socket tells it nothing: it would wake us for each client of theirs, and,
 * if nobody accepts, again and again. So the descriptor outlives a whole turn: what ends in the deferred queue is freed
 * in that of the next.
 */
static void let_go(void *arg)
{
    struct listener *l = arg;

    lifetime_retire(&l->life, free_listener, l);
}

static struct listener *listener_new(struct loop *loop, int fd, listener_fn *fn, void *arg, struct err *err)
{
    struct listener *l = must_zalloc(sizeof(*l));

    l->loop = loop;
    l->fd = fd;
    l->fn = fn;
    l->arg = arg;
    lifetime_init(&l->life, loop, "listener");
    lifetime_work_init(&l->life, &l->let_go, LOOP_DEFERRED, let_go, l);
    l->retry = lifetime_timer(&l->life, on_retry, l);
    sockopt_tune(fd); /* what it accepts inherits that, so it costs no system calls for each */
    event_assign(&l->readable, loop_base(loop), fd, EV_READ | EV_PERSIST, on_readable, l);
    if (l->retry == NULL || event_add(&l->readable, NULL) != 0) {
        err_set(err, "listening socket: out of memory");
        listener_close(l);
        return NULL;
    }
    l->port = sockopt_port(fd);
    return l;
}

static bool parse_address(const char *host, unsigned port, struct sockaddr_storage *addr, socklen_t *len)
{
    struct sockaddr_in *in = (struct sockaddr_in *)addr;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

    memset(addr, 0, sizeof(*addr));
    if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        *len = sizeof(*in);
        return true;
    }
    if (inet_pton(AF_INET6, host, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)port);
        *len = sizeof(*in6);
        return true;
    }
    return false;
}

static int bind_and_listen(const struct sockaddr_storage *addr, socklen_t len)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    int off = 0;
    int saved;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* A virtual address comes and goes. For IPv6, too, the kernel reads the option of IPv4 (ipv6(7), IPV6_FREEBIND). */
    setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on));
    if (addr->ss_family == AF_INET6) /* "::" means all addresses of both families, as kube-apiserver binds it */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) ? &off : &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)addr, len) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

struct listener *listener_open(struct loop *l, const char *host, unsigned port, listener_fn *fn, void *arg,
                               struct err *err)
{
    struct sockaddr_storage addr;
    socklen_t len;
    int fd;

    if (port > UINT16_MAX || !parse_address(host, port, &addr, &len)) {
        err_set(err, "bind %s port %u: not an IP address and port", host, port);
        return NULL;
    }
    fd = bind_and_listen(&addr, len);
    if (fd < 0) {
        err_set(err, strchr(host, ':') == NULL ? "bind %s:%u: %s" : "bind [%s]:%u: %s", host, port, strerror(errno));
        return NULL;
    }
    return listener_new(l, fd, fn, arg, err);
}

bool listener_address_of(int fd, struct listen_address *out)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addr;
    socklen_t len = sizeof(addr);

    if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
        return false;
    out->port = sockopt_port(fd);
    if (addr.ss_family == AF_INET)
        return inet_ntop(AF_INET, &in->sin_addr, out->host, sizeof(out->host)) != NULL;
    return addr.ss_family == AF_INET6 && inet_ntop(AF_INET6, &in6->sin6_addr, out->host, sizeof(out->host)) != NULL;
}

struct listener *listener_adopt(struct loop *l, int fd, listener_fn *fn, void *arg, struct err *err)
{
    struct listener *adopted;
    int listening = 0;
    socklen_t len = sizeof(listening);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) != 0) {
        err_set(err, "inherited descriptor %d: %s", fd, strerror(errno));
        return NULL;
    }
    if (listening == 0) {
        err_set(err, "inherited descriptor %d: not a listening socket", fd);
        return NULL;
    }
    if (evutil_make_socket_nonblocking(fd) != 0 || evutil_make_socket_closeonexec(fd) != 0) {
        err_set(err, "inherited descriptor %d: %s", fd, strerror(errno));
        return NULL;
    }
    adopted = listener_new(l, fd, fn, arg, err);
    if (adopted != NULL)
        adopted->shared = true;
    return adopted;
}

void listener_close(struct listener *l)
{
    if (l == NULL || l->closed)
        return;
    l->closed = true;
    event_del(&l->readable);
    if (l->shared) {
        loop_timer_cancel(l->retry);
        lifetime_queue(&l->let_go);
    } else {
        close(l->fd);
        lifetime_retire(&l->life, free_listener, l);
    }
}

void listener_pause(struct listener *l)
{
    l->paused = true;
    update(l);
}

void listener_resume(struct listener *l)
{
    l->paused = false;
    update(l);
}

unsigned listener_port(const struct listener *l)
{
    return l->port;
}

void listener_on_starved(struct listener *l, listener_starved_fn *fn)
{
    l->on_starved = fn;
}

uint64_t listener_emfile_pauses(const struct listener *l)
{
    return l->emfile_pauses;
}
