/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of the cluster layer. Where kube-apiserver has the same metric, its name is used.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_METRICS_H
#define MVPROXY_CLUSTER_CLUSTER_METRICS_H

#include "base/metric.h"

struct cluster_metrics {
    struct metric *sync_errors_lease_list, *sync_errors_no_address, *sync_errors_fetch;
    struct metric *merges; /* aggregator_discovery_peer_aggregated_cache_misses_total: a build */
    struct metric *merge_seconds, *merge_failures;
    struct metric *generation, *merged_bytes, *excluded;
    struct metric *failing_over, *skewed, *uneven;
    struct metric *peers_drained, *peers_ignored;
    struct metric *peers_live, *peers_lapsed, *peers_forgotten;
    struct metric *leases_watching;
    struct metric *identity_publishing, *identity_collected;
    struct metric_family *identity_renewals; /* result: "ok", "conflict", "failed", "yielded" */
    struct metric *front_differs, *front_refused;
    struct metric_family *identity_tags; /* result: "ok", "failed" */
    struct metric_family *refreshes;     /* role ("local", "peer"), trigger, result */
    struct metric *etcd_working, *record_watching, *record_publishing, *records;
    struct metric_family *etcd_requests;  /* operation, result: "ok", "failed" */
    struct metric_family *record_changes; /* "added", "changed", "removed", "refused" */
    struct metric_family *record_writes;  /* of our own: "ok", "failed", "yielded" */
    struct metric_family *age;            /* seconds since the document was last confirmed, by server */
    struct metric_family *up;             /* by server */
    struct metric_family *info;           /* server, id, version, address */
};

void cluster_metrics_init(struct cluster_metrics *cm, struct metrics *m);

#endif
