/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepted connections that must begin with a PROXY header (net/proxy_header.h) wait here until it has come, and go on
 * with the client that it names. At most LIMIT_PROXY_HEADERS wait at once, the oldest goes first, and none for longer
 * than TIMEOUT_PROXY_HEADER_MS: they come from balancers that the operator has named.
 */
#ifndef MVPROXY_NET_PROXY_ACCEPT_H
#define MVPROXY_NET_PROXY_ACCEPT_H

#include <sys/socket.h>

#include "base/mem.h"

struct loop;
struct proxy_accept;

/* The receiver owns the fd, of which the header has been read and not one byte more. client NULL: the balancer itself.
 */
typedef void proxy_accept_fn(int fd, const struct sockaddr *client, void *arg);
/* A connection will be closed here, the caller's fd no more afterwards; why, for the log. */
typedef void proxy_accept_bad_fn(int fd, const char *why, void *arg);

struct proxy_accept *proxy_accept_new(struct loop *l, proxy_accept_fn *fn, proxy_accept_bad_fn *bad, void *arg);
/* Closes those that wait, silently. NULL is nothing. */
void proxy_accept_free(struct proxy_accept *p);
/* Takes over a connected, non-blocking fd. */
void proxy_accept_add(struct proxy_accept *p, int fd);

#endif
