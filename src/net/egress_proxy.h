/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy through which servers are dialled: HTTP CONNECT over TCP, TLS or a Unix socket. Immutable and counted by
 * reference, as TLS contexts are: a reload makes new ones.
 */
#ifndef MVPROXY_NET_EGRESS_PROXY_H
#define MVPROXY_NET_EGRESS_PROXY_H

#include "base/mem.h"

struct loop;
struct relay;
struct tls_ctx;
struct egress_proxy;

struct egress_proxy_opts {
    const char *host; /* of the proxy: literal, name or "unix:/path" */
    unsigned port;
    struct tls_ctx *tls; /* towards the proxy; NULL: plain. Its server name is what the proxy's certificate must have */
};

/*
 * fd is the receiver's (non-blocking), and so is the relay, if there is one: relay_bind() or relay_drop(). Or fd is -1
 * and failure says why, naming the proxy. It is over.
 */
typedef void egress_proxy_fn(int fd, struct relay *relay, const char *failure, void *arg);

struct egress_proxy_request {
    const char *target;  /* HOST:PORT that the proxy is asked for */
    uint64_t timeout_ms; /* for all of it */
    egress_proxy_fn *fn; /* never called from inside of egress_proxy_start() */
    void *arg;
};

/*
 * How tunnels are made: connect.h, which itself dials the proxy. It is told at creation because dial.c, which asks for
 * tunnels, is below it.
 */
struct egress_proxy_ops {
    void *(*start)(struct loop *l, struct egress_proxy *v, const struct egress_proxy_request *r);
    void (*cancel)(void *tunnel);
};

/* The text is copied, the context referenced. NULL when out of memory. */
MEM_CHECK struct egress_proxy *egress_proxy_new(const struct egress_proxy_opts *o, const struct egress_proxy_ops *ops);
/* Asks for a tunnel; NULL when out of memory. */
MEM_CHECK void *egress_proxy_start(struct egress_proxy *v, struct loop *l, const struct egress_proxy_request *r);
/* No callback any more. */
void egress_proxy_cancel(const struct egress_proxy *v, void *tunnel);
struct egress_proxy *egress_proxy_ref(struct egress_proxy *v);
void egress_proxy_unref(struct egress_proxy *v); /* NULL is fine */
const struct egress_proxy_opts *egress_proxy_opts(const struct egress_proxy *v);
/* Whether dialling through either is the same. NULL is a direct connection. */
bool egress_proxy_same(const struct egress_proxy *a, const struct egress_proxy *b);
/* "10.0.0.1:3128" or "unix:/path", for messages. */
const char *egress_proxy_text(const struct egress_proxy *v);

#endif
