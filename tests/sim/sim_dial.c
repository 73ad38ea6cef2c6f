/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/err.h"
#include "net/dial.h"
#include "net/egress_proxy.h"
#include "net/listener.h"
#include "net/loop_internal.h"
#include "net/proxy_accept.h"
#include "net/sockopt.h"
#include "net/tls_ctx.h"
#include "sim/sim_event.h"
#include "sim/sim_pipe.h"

enum { FIRST_FD = 1000 };

struct listener {
    struct loop *loop;
    struct sim_source source;
    listener_fn *fn;
    void *arg;
    bool paused, ended;
    struct loop_deferred free_work;
};

struct tls_ctx {
    unsigned refs;
    bool http2;
    const struct tls_peer *shows;
};

struct dial {
    struct loop *loop;
    struct sim_host *host; /* NULL: there is none */
    struct sim_source source;
    struct loop_timer *timer;
    const struct tls_ctx *tls;
    bool http2;
    dial_fn *fn;
    void *arg;
    struct loop_deferred free_work;
};

/* ---- the net ---- */

struct sim_net *sim_net_of(struct loop *l)
{
    return loop_resolver(l);
}

static void released(void *net)
{
    (void)net;
}

struct sim_net *sim_net_new(struct loop *l, size_t room)
{
    struct sim_net *n = calloc(1, sizeof(*n));

    if (n == NULL)
        abort();
    n->loop = l;
    n->room = room;
    n->high = room;
    n->low = room / 4;
    loop_set_resolver(l, n, released);
    return n;
}

void sim_net_free(struct sim_net *n)
{
    for (size_t i = n->n_accepted; i < n->n_backlog; i++) {
        pipe_close(n->backlog[i], PIPE_OURS, true);
        pipe_unref(n->backlog[i]);
    }
    free(n->backlog);
    free(n);
}

size_t sim_net_streams(const struct sim_net *n)
{
    return n->streams;
}

struct sim_sock *sim_connect(struct sim_net *n, const char *ip, const struct tls_peer *shows, bool http2)
{
    struct pipe *p = pipe_new(n, ip, true, http2);

    p->shows[PIPE_THEIRS] = shows;
    if (n->n_backlog == n->cap_backlog) {
        n->cap_backlog = n->cap_backlog * 2 + 16;
        n->backlog = realloc(n->backlog, n->cap_backlog * sizeof(struct pipe *));
        if (n->backlog == NULL)
            abort();
    }
    n->backlog[n->n_backlog++] = p;
    return pipe_sock(p);
}

size_t sim_backlog(const struct sim_net *n)
{
    return n->n_backlog - n->n_accepted;
}

struct pipe *sim_net_take(struct sim_net *n, int fd)
{
    return n->backlog[fd - FIRST_FD];
}

void sim_host_add(struct sim_net *n, struct sim_host *h)
{
    h->net = n;
    h->next = n->hosts;
    n->hosts = h;
}

/* ---- net/listener.h ---- */

static bool may_accept(void *arg)
{
    const struct listener *li = arg;

    return !li->paused && sim_backlog(sim_net_of(li->loop)) > 0;
}

static void accept_all(void *arg)
{
    struct listener *li = arg;
    struct sim_net *n = sim_net_of(li->loop);

    loop_enter(li->loop);
    while (!li->paused && !li->ended && sim_backlog(n) > 0)
        li->fn(FIRST_FD + (int)n->n_accepted++, li->arg);
    loop_leave(li->loop);
}

struct listener *listener_open(struct loop *l, const char *host, unsigned port, listener_fn *fn, void *arg,
                               struct err *err)
{
    struct listener *li = mem_zalloc(sizeof(*li));

    (void)host;
    (void)port;
    if (li == NULL) {
        err_set(err, "out of memory");
        return NULL;
    }
    li->loop = l;
    li->fn = fn;
    li->arg = arg;
    sim_source_add(l, &li->source, may_accept, accept_all, li);
    return li;
}

struct listener *listener_adopt(struct loop *l, int fd, listener_fn *fn, void *arg, struct err *err)
{
    (void)fd;
    return listener_open(l, "", 0, fn, arg, err);
}

/* Nobody hands sockets over here. */
bool listener_address_of(int fd, struct listen_address *out)
{
    (void)fd;
    (void)out;
    return false;
}

void listener_close(struct listener *li)
{
    struct sim_net *n;

    if (li == NULL)
        return;
    n = sim_net_of(li->loop);
    while (sim_backlog(n) > 0) {
        pipe_close(n->backlog[n->n_accepted], PIPE_OURS, true);
        pipe_unref(n->backlog[n->n_accepted++]);
    }
    li->ended = true;
    sim_source_remove(&li->source);
    loop_defer(li->loop, &li->free_work, mem_free, li);
}

void listener_pause(struct listener *li)
{
    li->paused = true;
}

void listener_resume(struct listener *li)
{
    li->paused = false;
}

unsigned listener_port(const struct listener *li)
{
    (void)li;
    return 6443;
}

void listener_on_starved(struct listener *li, listener_starved_fn *fn)
{
    (void)li;
    (void)fn;
}

uint64_t listener_emfile_pauses(const struct listener *li)
{
    (void)li;
    return 0;
}

/* ---- net/proxy_accept.h: there are no balancers here ---- */

void sockopt_ip(const struct sockaddr *addr, char out[INET6_ADDRSTRLEN])
{
    (void)addr;
    out[0] = '\0';
}

struct proxy_accept *proxy_accept_new(struct loop *l, proxy_accept_fn *fn, proxy_accept_bad_fn *bad, void *arg)
{
    (void)l;
    (void)fn;
    (void)bad;
    (void)arg;
    return mem_alloc(1);
}

void proxy_accept_free(struct proxy_accept *p)
{
    mem_free(p);
}

void proxy_accept_add(struct proxy_accept *p, int fd)
{
    (void)p;
    (void)fd;
    abort();
}

/* ---- net/tls_ctx.h ---- */

struct tls_ctx *sim_tls_new(bool http2, const struct tls_peer *peer)
{
    struct tls_ctx *c = calloc(1, sizeof(*c));

    if (c == NULL)
        abort();
    c->refs = 1;
    c->http2 = http2;
    c->shows = peer;
    return c;
}

struct tls_ctx *tls_ctx_ref(struct tls_ctx *c)
{
    c->refs++;
    return c;
}

void tls_ctx_unref(struct tls_ctx *c)
{
    if (--c->refs == 0)
        free(c);
}

bool tls_ctx_same(const struct tls_ctx *a, const struct tls_ctx *b)
{
    return a == b;
}

/* ---- net/egress_proxy.h: there are no proxies here ---- */

struct egress_proxy *egress_proxy_ref(struct egress_proxy *v)
{
    return v;
}

void egress_proxy_unref(struct egress_proxy *v)
{
    (void)v;
}

bool egress_proxy_same(const struct egress_proxy *a, const struct egress_proxy *b)
{
    return a == b;
}

/* ---- net/dial.h ---- */

static void free_dial(void *arg)
{
    mem_free(arg);
}

void dial_cancel(struct dial *d)
{
    sim_source_remove(&d->source);
    loop_timer_free(d->timer);
    d->timer = NULL;
    loop_defer(d->loop, &d->free_work, free_dial, d);
}

static void fail(struct dial *d, const char *why)
{
    dial_fn *fn = d->fn;
    void *arg = d->arg;

    dial_cancel(d);
    fn(NULL, why, arg);
}

static void on_timeout(void *arg)
{
    fail(arg, "timed out");
}

static void connected(struct dial *d)
{
    struct sim_host *h = d->host;
    bool http2 = h->http2 && d->http2;
    struct pipe *p = pipe_new(h->net, "10.0.0.1", d->tls != NULL, http2);
    struct stream *s = sim_stream_new(h->net, p, PIPE_OURS, p->ip);
    dial_fn *fn = d->fn;
    void *arg = d->arg;

    p->hop = h->hop && d->tls != NULL && d->tls->shows != NULL;
    if (s != NULL) {
        sim_stream_opened(s);
        h->on_connection(h, pipe_sock(p), d->tls != NULL ? d->tls->shows : NULL, http2);
    }
    pipe_unref(p);
    if (s == NULL) {
        fail(d, "out of memory");
        return;
    }
    dial_cancel(d);
    fn(s, NULL, arg);
}

static bool is_decided(void *arg)
{
    const struct dial *d = arg;

    return d->host == NULL || d->host->reach != SIM_SILENT;
}

static void on_decided(void *arg)
{
    struct dial *d = arg;
    struct loop *l = d->loop;

    loop_enter(l);
    if (d->host == NULL || d->host->reach == SIM_REFUSED)
        fail(d, "connection refused");
    else
        connected(d);
    loop_leave(l);
}

struct dial *dial_start(struct loop *l, const struct dial_opts *o, dial_fn *fn, void *arg)
{
    struct dial *d = mem_zalloc(sizeof(*d));
    struct sim_host *h = sim_net_of(l)->hosts;

    if (d == NULL)
        return NULL;
    while (h != NULL && (strcmp(h->host, o->host) != 0 || h->port != o->port))
        h = h->next;
    d->loop = l;
    d->host = h;
    d->tls = o->tls;
    d->http2 = o->http2 || (o->tls != NULL && o->tls->http2);
    d->fn = fn;
    d->arg = arg;
    d->timer = loop_timer_new(l, on_timeout, d);
    if (d->timer == NULL) {
        mem_free(d);
        return NULL;
    }
    loop_timer_set(d->timer, o->timeout_ms);
    sim_source_add(l, &d->source, is_decided, on_decided, d);
    return d;
}
