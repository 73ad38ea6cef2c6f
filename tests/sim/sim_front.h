/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated server side: the contract of front/exchange.h over a request that arrived at a simulated server. Link
 * it instead of libfront. Requests have no bodies, and clients are as fast as the answer.
 *
 * Who asks is told by the request: one that comes with the front-proxy certificate (sim_with_cert) is another mvproxy;
 * any other is a client with the certificate of the user that its field SIM_USER names.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_FRONT_H
#define MVPROXY_TESTS_SIM_SIM_FRONT_H

#include "front/exchange.h"
#include "sim/sim_back.h"

#define SIM_USER "X-Sim-User"

/* A server at this address whose requests are given to `handle`, as front_opts.on_request. Break it (sim_server_break)
 * before arg goes. */
struct sim_front {
    struct sim_server *server;
    void (*handle)(struct exchange *x, void *arg);
    void *arg;
    struct loop *loop;
    uint64_t requests;
};

void sim_front_open(struct sim_front *f, struct back *net, struct loop *l, const char *address);

#endif
