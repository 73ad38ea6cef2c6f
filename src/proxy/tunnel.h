/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins two streams after a 101: passes raw bytes both ways, with half-close and back-pressure end to end.
 */
#ifndef MVPROXY_PROXY_TUNNEL_H
#define MVPROXY_PROXY_TUNNEL_H

#include "base/mem.h"

struct loop;
struct stream;
struct tunnel;

/* The end of a tunnel, with the bytes from either side. `reason` is static. */
typedef void tunnel_done_fn(void *arg, uint64_t client_bytes, uint64_t server_bytes, const char *reason);

/* Takes over both streams, even when it fails (NULL when out of memory; both are closed). `done` is called once, when
 * both directions have ended, and the tunnel must not be used after that. */
MEM_CHECK struct tunnel *tunnel_start(struct loop *l, struct stream *client, struct stream *server,
                                      tunnel_done_fn *done, void *arg);
/* Ends it now; `done` is not called. */
void tunnel_cancel(struct tunnel *t);

#endif
