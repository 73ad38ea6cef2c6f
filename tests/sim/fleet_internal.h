/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a simulated control plane (fleet.h): fleet.c has its lives, fleet_ask.c its clients and what they see. */
#ifndef MVPROXY_TESTS_SIM_FLEET_INTERNAL_H
#define MVPROXY_TESTS_SIM_FLEET_INTERNAL_H

#include "cluster/cluster.h"
#include "proxy/proxy.h"
#include "sim/fleet.h"
#include "sim/sim_front.h"

struct custom_server;

enum { ASK_TIMEOUT_MS = 90000, MAX_WRITES = 4096 };

struct node {
    struct fleet *fleet;
    unsigned number;
    char hostname[16], front_address[32], front_host[32];
    struct kube_server *server;
    struct back *back;
    struct origin *local;
    struct origin *etcd[FLEET_ETCD_MEMBERS];
    struct sim_front front;
    struct metrics *metrics;
    struct cluster_opts opts;
    struct cluster *cluster; /* NULL: its mvproxy is dead */
    struct proxy *proxy;
    uint64_t server_since, proxy_since; /* 0: not up */
    uint64_t server_until, proxy_until; /* when it was up last */
    bool hangs, withdrawn;
    unsigned minor;               /* 0: never mind */
    char apis[600];               /* without custom resources and aggregated APIs */
    struct custom_server *custom; /* NULL: the fleet has none */
};

struct fleet {
    struct loop *loop;
    struct back *net; /* that clients are in, and all servers */
    struct kube_store *store;
    unsigned n;
    struct node nodes[FLEET_MAX];
    bool cut[FLEET_MAX][FLEET_MAX];
    uint64_t path_since[FLEET_MAX][FLEET_MAX], changed;
    struct origin *fronts[FLEET_MAX]; /* as clients reach them */
    unsigned char written[MAX_WRITES];
    size_t n_writes, asking;
    bool deletes_lacking, newest;
    struct customs *customs; /* NULL: none */
    struct sim_etcd *etcd;   /* NULL: none */
    struct sim_server *members[FLEET_ETCD_MEMBERS];
    bool cut_etcd[FLEET_MAX];
    unsigned failures;
};

#endif
