/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries a stream inside another one (TLS to a server inside of TLS to a proxy): bytes go between `far`, the stream to
 * the proxy, and a pair of Unix sockets, whose other end serves the inner stream as its descriptor. So an inner stream
 * is like any other. Congestion on either side stops reading on the other; an end of one direction is handed on; and
 * what a pair of sockets cannot tell, an abort of the inner stream or a failure of the outer one, is told beside it.
 */
#ifndef MVPROXY_NET_RELAY_H
#define MVPROXY_NET_RELAY_H

#include "base/mem.h"

struct loop;
struct relay;
struct stream;

/*
 * Takes over `far`, which is open. *fd is the descriptor for the inner stream, the caller's. NULL (far closed, *fd -1)
 * when out of memory or descriptors. Ends by itself with the inner stream.
 */
MEM_CHECK struct relay *relay_new(struct loop *l, struct stream *far, int *fd);
/* The inner stream, made with the descriptor. */
void relay_bind(struct relay *r, struct stream *user);
/* There will be no inner stream; the descriptor is closed by the caller. */
void relay_drop(struct relay *r);

#endif
