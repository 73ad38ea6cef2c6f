/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS for the one party that brings event code of its own: the admin listener, whose HTTP is libevent's evhttp. Clients
 * and servers of the data plane use net/stream.h.
 */
#ifndef MVPROXY_NET_TLS_BUFFEREVENT_H
#define MVPROXY_NET_TLS_BUFFEREVENT_H

#include "net/tls_ctx.h"

struct bufferevent;
struct loop;
struct tls_acceptor;
struct tls_peer;

/*
 * Handshakes of accepted connections, with their parts of the loop's turns (fair_queue.h). Who has not ended his
 * after timeout_ms (0: TIMEOUT_HANDSHAKE_MS) is closed, and of more than LIMIT_ADMIN_HANDSHAKES the oldest of the
 * address that has most, which `crowded` is told. Ends the process when out of memory: for start-up.
 */
struct tls_acceptor *tls_acceptor_new(struct loop *l, uint64_t timeout_ms, void (*crowded)(void *arg), void *arg);
/* Before the bufferevents are freed. NULL is fine. */
void tls_acceptor_free(struct tls_acceptor *a);

/*
 * The server side of a connection that is given its descriptor in this callback, and whose bufferevent closes it. It
 * sleeps until its handshake is over. NULL when out of memory.
 */
struct bufferevent *tls_bufferevent_new(struct tls_acceptor *a, struct tls_ctx *c);
/*
 * Calls fn with who the other side is by its certificate; what it is given lives only during the call. False, and no
 * call, when this is no TLS connection or memory is short: nobody is known then.
 */
MEM_CHECK bool tls_bufferevent_peer(const struct tls_ctx *c, struct bufferevent *bev,
                                    void (*fn)(const struct tls_peer *peer, void *arg), void *arg);

#endif
