/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/cluster_metrics.h"

#include "base/limits.h"

static struct metric *with_label(struct metric_family *f, const char *value)
{
    struct slice v = slice_str(value);

    return metric_child(f, &v);
}

static void init_records(struct cluster_metrics *cm, struct metrics *m)
{
    static const char *const change[] = {"change", NULL}, *const result[] = {"result", NULL};
    static const char *const request[] = {"operation", "result", NULL};

    cm->etcd_working = metric_single(m, METRIC_GAUGE, "mvproxy_etcd_working",
                                     "1 if the last request to etcd was answered by some endpoint.");
    cm->etcd_requests = metric_family(m, METRIC_COUNTER, "mvproxy_etcd_requests_total",
                                      "Requests to etcd's endpoints, by operation and result.", request, 16);
    cm->record_watching = metric_single(m, METRIC_GAUGE, "mvproxy_peer_endpoint_records_watching",
                                        "1 while changes of peer endpoint records in etcd are seen as they happen.");
    cm->records = metric_single(m, METRIC_GAUGE, "mvproxy_peer_endpoint_records",
                                "Usable peer endpoint records in etcd, the own one included.");
    cm->record_changes =
        metric_family(m, METRIC_COUNTER, "mvproxy_peer_endpoint_record_changes_total",
                      "Peer endpoint records that came, changed, went, or could not be used.", change, 8);
    cm->record_publishing = metric_single(m, METRIC_GAUGE, "mvproxy_peer_endpoint_record_publishing",
                                          "1 while this instance publishes the endpoint record of its server in etcd.");
    cm->record_writes = metric_family(m, METRIC_COUNTER, "mvproxy_peer_endpoint_record_writes_total",
                                      "Writes of the own peer endpoint record, by result.", result, 4);
}

void cluster_metrics_init(struct cluster_metrics *cm, struct metrics *m)
{
    static const char *const type[] = {"type", NULL}, *const state[] = {"state", NULL},
                             *const server[] = {"server", NULL}, *const result[] = {"result", NULL};
    static const char *const refresh[] = {"role", "trigger", "result", NULL};
    static const char *const info[] = {"server", "id", "version", "address", NULL};
    static const double bounds[] = {0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1};
    struct metric_family *f;

    f = metric_family(m, METRIC_COUNTER, "apiserver_peer_discovery_sync_errors_total",
                      "Errors while learning what peers serve, by type.", type, 8);
    cm->sync_errors_lease_list = with_label(f, "lease_list");
    cm->sync_errors_no_address = with_label(f, "hostport_resolution");
    cm->sync_errors_fetch = with_label(f, "fetch_discovery");
    cm->merges = metric_single(m, METRIC_COUNTER, "aggregator_discovery_peer_aggregated_cache_misses_total",
                               "Times the merged discovery document was built.");
    f = metric_histogram_family(
        m, "mvproxy_discovery_merge_seconds",
        "Processor time of one merge of all servers' discovery documents, preparation included.", NULL, bounds,
        sizeof(bounds) / sizeof(bounds[0]));
    cm->merge_seconds = metric_child(f, NULL);
    cm->merge_failures = metric_single(m, METRIC_COUNTER, "mvproxy_discovery_merge_failures_total",
                                       "Merges that failed; the document before stays.");
    cm->generation = metric_single(m, METRIC_GAUGE, "mvproxy_served_generation",
                                   "Number of the current snapshot of who serves what.");
    cm->merged_bytes = metric_single(m, METRIC_GAUGE, "mvproxy_discovery_merged_bytes",
                                     "Size of the merged discovery document, uncompressed.");
    cm->excluded = metric_single(m, METRIC_GAUGE, "mvproxy_excluded_group_versions",
                                 "Group/versions that are never taken from peers.");
    cm->failing_over =
        metric_single(m, METRIC_GAUGE, "mvproxy_local_failover_active",
                      "1 while requests for resources go to peers because the local API server cannot be "
                      "reached or is starting.");
    cm->skewed = metric_single(m, METRIC_GAUGE, "mvproxy_skewed_group_versions",
                               "Group/versions whose schema is not the same on all live API servers.");
    cm->uneven = metric_single(m, METRIC_GAUGE, "mvproxy_uneven_group_versions",
                               "Group/versions that some API servers do not serve, or describe otherwise.");
    f = metric_family(m, METRIC_GAUGE, "mvproxy_peers", "Other API servers, by state.", state, 4);
    cm->peers_live = with_label(f, "live");
    cm->peers_lapsed = with_label(f, "lapsed");
    cm->peers_forgotten = with_label(f, "forgotten");
    cm->peers_drained =
        metric_single(m, METRIC_GAUGE, "mvproxy_peers_drained", "Other API servers that an operator has drained.");
    cm->peers_ignored = metric_single(m, METRIC_COUNTER, "mvproxy_peers_ignored_total",
                                      "Looks at Leases of API servers for which there was no room.");
    cm->leases_watching = metric_single(m, METRIC_GAUGE, "mvproxy_leases_watching",
                                        "1 while the identity Leases of API servers are listed and watched.");
    cm->identity_publishing = metric_single(m, METRIC_GAUGE, "mvproxy_identity_lease_publishing",
                                            "1 while this instance publishes the identity Lease of its server.");
    cm->identity_collected = metric_single(m, METRIC_COUNTER, "mvproxy_identity_leases_collected_total",
                                           "Expired identity Leases that this instance deleted.");
    cm->identity_renewals = metric_family(m, METRIC_COUNTER, "mvproxy_identity_lease_renewals_total",
                                          "Writes of the own identity Lease, by result.", result, 4);
    cm->front_differs = metric_single(m, METRIC_GAUGE, "mvproxy_requestheader_differs",
                                      "1 while API servers believe other front proxies, headers or clients' CAs "
                                      "than configured here.");
    cm->front_refused = metric_single(m, METRIC_GAUGE, "mvproxy_front_proxy_disbelieved",
                                      "1 while the local API server refuses this front proxy or its groups.");
    cm->identity_tags = metric_family(m, METRIC_COUNTER, "mvproxy_identity_lease_tags_total",
                                      "Writes of the tag of local discovery into the Lease of this server.", result, 2);
    cm->refreshes =
        metric_family(m, METRIC_COUNTER, "mvproxy_discovery_refreshes_total",
                      "Polls of a server's discovery, by role of the server, trigger and result.", refresh, 64);
    cm->age =
        metric_family(m, METRIC_GAUGE, "mvproxy_discovery_age_seconds",
                      "Seconds since a server's discovery document was last confirmed.", server, LIMIT_METRIC_SERIES);
    cm->up = metric_family(m, METRIC_GAUGE, "mvproxy_server_up",
                           "1 while a server answers, 0 while it does not, or another answers at its address.", server,
                           LIMIT_METRIC_SERIES);
    cm->info = metric_family(m, METRIC_GAUGE, "mvproxy_server_info",
                             "Always 1; the labels say which API servers are known.", info, LIMIT_METRIC_SERIES);
    init_records(cm, m);
}
