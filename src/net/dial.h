/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Name or address + port to an open stream: resolves (literals without any query), tries the addresses in turn,
 * within one deadline. Cancellable. Through a proxy (egress_proxy.h) each attempt is a tunnel to that address, and what
 * the caller gets is a stream to the server all the same: TLS, verification and names are those of the server.
 */
#ifndef MVPROXY_NET_DIAL_H
#define MVPROXY_NET_DIAL_H

#include "net/stream.h"

struct dial;
struct egress_proxy;

struct dial_opts {
    const char *host; /* IPv4/IPv6 literal (no brackets), name, or "unix:/path" */
    unsigned port;
    struct tls_ctx *tls;     /* NULL: plain */
    const char *server_name; /* NULL: the context's */
    uint64_t timeout_ms;     /* resolve + connect + handshake */
    bool http2;              /* offers h2 (see stream.h): stream_alpn() tells what was agreed on */
    /* NULL: any. Asked for every resolved address before connecting: false = must not be dialled (peer-allowed-cidrs).
     */
    bool (*allow)(const struct sockaddr *addr, void *arg);
    void *allow_arg;
    /*
     * NULL: directly. With `allow`, names are resolved and judged here and the proxy is asked for an address, so the
     * rule holds whatever the proxy knows. Without, the proxy gets the name, as from kube-apiserver. Not for unix:.
     */
    struct egress_proxy *egress;
};

/* On success s is open and the receiver owns it (stream_set_owner at once); otherwise s is NULL and `failure` says why.
 * The dial is over. */
typedef void dial_fn(struct stream *s, const char *failure, void *arg);

/* NULL when out of memory. fn is never called from inside this call. */
MEM_CHECK struct dial *dial_start(struct loop *l, const struct dial_opts *o, dial_fn *fn, void *arg);
/* No callback any more. */
void dial_cancel(struct dial *d);

#endif
