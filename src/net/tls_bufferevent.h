/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for the one party that brings event code of its own: the admin listener, whose HTTP is libevent's evhttp. Clients
 * and servers of the data plane use net/stream.h.
 */
#ifndef MVPROXY_NET_TLS_BUFFEREVENT_H
#define MVPROXY_NET_TLS_BUFFEREVENT_H

#include "net/tls_ctx.h"

struct bufferevent;
struct event_base;
struct tls_peer;

/* The server side of a connection that has no descriptor yet; the connection closes it. NULL when out of memory. */
struct bufferevent *tls_bufferevent_new(struct tls_ctx *c, struct event_base *base);
/*
 * Calls fn with who the other side is by its certificate; what it is given lives only during the call. False, and no
 * call, when this is no TLS connection or memory is short: nobody is known then.
 */
MEM_CHECK bool tls_bufferevent_peer(const struct tls_ctx *c, struct bufferevent *bev,
                                    void (*fn)(const struct tls_peer *peer, void *arg), void *arg);

#endif
