/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the cluster facade. cluster.c fills and moves it; cluster_health.c and cluster_view.c read it, and
 * nobody else knows it: the parts are told what they need when they are made, and tell by handlers.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_INTERNAL_H
#define MVPROXY_CLUSTER_CLUSTER_INTERNAL_H

#include "cluster/cluster_env.h"
#include "cluster/cluster_gauges.h"
#include "cluster/waiters.h"

struct cluster {
    struct cluster_env e;
    struct cluster_metrics metrics;
    struct cluster_gauges gauges;
    struct local *local; /* its readiness without an origin while local-failover or peers are off */
    struct peer_side *side;
    struct survey *survey;
    struct front_trust *front_trust;
    struct identity *identity; /* stopped while peers are off */
    struct records *records;   /* switched off while peers are off */
    struct comparer *comparer;
    struct waiters waiters;
    struct waiters protobuf_waiters; /* for the documents' protobuf forms */
    bool peers_seen;                 /* cluster_peers_synced was true once */
    bool ending;                     /* cluster_stop */
    size_t withdrawing;              /* parts that are still withdrawing */
    void (*withdrawn)(void *arg);
    void *withdrawn_arg;
    struct loop_deferred withdrawn_turn;
};

#endif
