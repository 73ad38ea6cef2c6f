/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline: a request → who is asking → what it means → where it goes → forwarded, answered from the snapshot,
 * tunnelled or refused.
 */
#ifndef MVPROXY_PROXY_PROXY_H
#define MVPROXY_PROXY_PROXY_H

#include "front/exchange.h"
#include "proxy/proxy_config.h"

struct back;
struct cluster;
struct askers;
struct loop;
struct metrics;
struct proxy;
struct traffic;

/* Ends the process only when out of memory. */
struct proxy *proxy_new(struct loop *l, struct back *b, struct cluster *c, struct metrics *m,
                        const struct proxy_opts *o);
/* Takes over the options (proxy_config_new); requests that are under way keep those that they began with. */
void proxy_update(struct proxy *p, struct proxy_config *c);
/* Cancels every request and tunnel. The front must be gone or draining. */
void proxy_free(struct proxy *p);
/* For front_opts.on_request; arg is the proxy. */
void proxy_on_request(struct exchange *x, void *arg);
/* From now on a client's GET /readyz is answered 503 here: the local server may be ready, but this way to it is about
 * to close, and a load balancer that probes it is to know. As kube-apiserver's own /readyz does from SIGTERM on. */
void proxy_set_stopping(struct proxy *p);
/* What its requests came to lately. */
const struct traffic *proxy_traffic(const struct proxy *p);
/* Who asks for what not all servers serve; watches that are open now included. */
const struct askers *proxy_askers(struct proxy *p);
/* Tunnels under way and their forceful end (drain). */
size_t proxy_tunnels(const struct proxy *p);
size_t proxy_long_running(const struct proxy *p);
/* Ends at most `n` of the long-running requests and tunnels, oldest first; the number that was ended (drain, spread
 * over the grace period). */
size_t proxy_end_long_running(struct proxy *p, size_t n);

#endif
