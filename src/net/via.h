/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proxy through which servers are dialled: HTTP CONNECT over TCP, TLS or a Unix socket. Immutable and counted by
 * reference, as TLS contexts are: a reload makes new ones.
 */
#ifndef MVPROXY_NET_VIA_H
#define MVPROXY_NET_VIA_H

#include "base/mem.h"

struct loop;
struct relay;
struct tls_ctx;
struct via;

struct via_opts {
    const char *host; /* of the proxy: literal, name or "unix:/path" */
    unsigned port;
    struct tls_ctx *tls; /* towards the proxy; NULL: plain. Its server name is what the proxy's certificate must have */
};

/*
 * fd is the receiver's (non-blocking), and so is the relay, if there is one: relay_bind() or relay_drop(). Or fd is -1
 * and failure says why, naming the proxy. It is over.
 */
typedef void via_fn(int fd, struct relay *relay, const char *failure, void *arg);

struct via_request {
    const char *target;  /* HOST:PORT that the proxy is asked for */
    uint64_t timeout_ms; /* for all of it */
    via_fn *fn;          /* never called from inside of via_start() */
    void *arg;
};

/*
 * How tunnels are made: connect.h, which itself dials the proxy. It is told at creation because dial.c, which asks for
 * tunnels, is below it.
 */
struct via_ops {
    void *(*start)(struct loop *l, struct via *v, const struct via_request *r);
    void (*cancel)(void *tunnel);
};

/* The text is copied, the context referenced. NULL when out of memory. */
MEM_CHECK struct via *via_new(const struct via_opts *o, const struct via_ops *ops);
/* Asks for a tunnel; NULL when out of memory. */
MEM_CHECK void *via_start(struct via *v, struct loop *l, const struct via_request *r);
/* No callback any more. */
void via_cancel(const struct via *v, void *tunnel);
struct via *via_ref(struct via *v);
void via_unref(struct via *v); /* NULL is fine */
const struct via_opts *via_opts(const struct via *v);
/* Whether dialling through either is the same. NULL is a direct connection. */
bool via_same(const struct via *a, const struct via *b);
/* "10.0.0.1:3128" or "unix:/path", for messages. */
const char *via_text(const struct via *v);

#endif
