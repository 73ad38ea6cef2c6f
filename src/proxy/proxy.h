/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy: takes each client's request from the front, authenticates the client, parses what is requested, decides
 * where it goes, and forwards, answers, tunnels or refuses it.
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

/* Ends the process when out of memory. */
struct proxy *proxy_new(struct loop *l, struct back *b, struct cluster *c, struct metrics *m,
                        const struct proxy_opts *o);
/* A reload; takes over `c` (proxy_config_new). Requests under way keep the configuration that they began with. */
void proxy_update(struct proxy *p, struct proxy_config *c);
/* Cancels every request and tunnel. The front must be gone or draining. */
void proxy_free(struct proxy *p);
/* For front_opts.on_request; arg is the proxy. */
void proxy_on_request(struct exchange *x, void *arg);
/* From now on a client's GET /readyz is answered with 503: the local server may be ready, but mvproxy is about to stop,
 * and a load balancer that probes it is to know. kube-apiserver's own /readyz does so from SIGTERM on. */
void proxy_set_stopping(struct proxy *p);
/* Counts of recent requests, by route (traffic.h). Borrowed. */
const struct traffic *proxy_traffic(const struct proxy *p);
/* Who asked for resources that not all servers serve (insight.h); watches that are open now included. Borrowed. */
const struct askers *proxy_askers(struct proxy *p);
/* The numbers of open tunnels and of other long-running requests (for draining). */
size_t proxy_tunnels(const struct proxy *p);
size_t proxy_long_running(const struct proxy *p);
/* Ends at most `n` long-running requests and tunnels, oldest first, and returns how many. A drain calls it repeatedly,
 * spread over the grace period. */
size_t proxy_end_long_running(struct proxy *p, size_t n);

#endif
