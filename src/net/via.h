/*
 * A proxy through which servers are dialled: HTTP CONNECT over TCP, TLS or a Unix socket. Immutable and counted by
 * reference, as TLS contexts are: a reload makes new ones.
 */
#ifndef MVPROXY_NET_VIA_H
#define MVPROXY_NET_VIA_H

#include "base/mem.h"

struct tls_ctx;
struct via;

struct via_opts {
    const char *host; /* of the proxy: literal, name or "unix:/path" */
    unsigned port;
    struct tls_ctx *tls; /* towards the proxy; NULL: plain. Its server name is what the proxy's certificate must have */
};

/* The text is copied, the context referenced. NULL when out of memory. */
MEM_CHECK struct via *via_new(const struct via_opts *o);
struct via *via_ref(struct via *v);
void via_unref(struct via *v); /* NULL is fine */
const struct via_opts *via_opts(const struct via *v);
/* Whether dialling through either is the same. NULL is a direct connection. */
bool via_same(const struct via *a, const struct via *b);
/* "10.0.0.1:3128" or "unix:/path", for messages. */
const char *via_text(const struct via *v);

#endif
