/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the cluster facade, and what its files call in each other. Who calls whom, from top to bottom: cluster.c
 * (life cycle, triggers), cluster_peers.c (changes of the peer table), cluster_parts.c (making and starting the parts),
 * cluster_collect.c (facts for a snapshot); and those that only read: cluster_health.c, cluster_view.c,
 * cluster_gauges.c.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_INTERNAL_H
#define MVPROXY_CLUSTER_CLUSTER_INTERNAL_H

#include "base/limits.h"
#include "cluster/cluster_metrics.h"
#include "cluster/cluster_opts.h"
#include "cluster/identity.h"
#include "cluster/waiters.h"
#include "kube/server_id.h"

struct local;
struct peer_side;

struct cluster {
    struct loop *loop;
    uint64_t started_ms;
    struct back *back;
    struct cluster_opts o; /* texts and arrays are NULL: they have been passed on to the parts */
    char own_id[SERVER_ID_BYTES];
    char *hostname, advertise[LIMIT_ADDRESS_TEXT_BYTES];
    struct api *api;
    struct local *local; /* its readiness without an origin while local-failover or peers are off */
    bool doubtful;       /* what CRDs and aggregated APIs there are nobody knows: they are Stale */
    struct peer_side *side;
    struct front_trust *front_trust;
    struct identity *identity; /* stopped while peers are off */
    struct records *records;   /* switched off while peers are off */
    size_t withdrawing;        /* parts that are still withdrawing (cluster_stop) */
    void (*withdrawn)(void *arg);
    void *withdrawn_arg;
    bool ending; /* cluster_stop */
    struct publish *publish;
    struct comparer *comparer;
    struct waiters waiters;
    struct waiters protobuf_waiters; /* for the documents' protobuf forms */
    bool leases_fail;                /* they cannot be followed */
    uint64_t leases_changed_ms;      /* since when the Leases are followed, or are not */
    uint64_t leases_behind_ms;       /* when the minute began in which unknown APIs may belong to unknown peers
                                        (cluster_collect.c) */
    struct loop_timer *patience;     /* fires when a time limit of cluster_collect() is over */
    bool peers_seen;                 /* cluster_peers_synced was true once */
    struct cluster_metrics metrics;
};

/* ---- cluster_collect.c ---- */

/* The Leases can be followed from now on, or cannot, for all that the watch or readiness says. */
void cluster_note_leases(struct cluster *c);

#endif
