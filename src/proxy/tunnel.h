/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two streams joined after a 101: raw bytes both ways, half-close carried over, back-pressure end to end.
 */
#ifndef MVPROXY_PROXY_TUNNEL_H
#define MVPROXY_PROXY_TUNNEL_H

#include "base/mem.h"

struct loop;
struct stream;
struct tunnel;

/* What went through, when it is over. `reason` is static. */
typedef void tunnel_done_fn(void *arg, uint64_t client_bytes, uint64_t server_bytes, const char *reason);

/* Owns both streams from now on, also when it fails (NULL: out of memory; both are closed). `done` is called once, when
 * both directions have ended; the tunnel is gone then. */
MEM_CHECK struct tunnel *tunnel_start(struct loop *l, struct stream *client, struct stream *server,
                                      tunnel_done_fn *done, void *arg);
/* Ends it now; `done` is not called. */
void tunnel_cancel(struct tunnel *t);

#endif
