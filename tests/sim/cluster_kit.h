/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated cluster with the cluster layer of mvproxy before its first server: what most tests start from.
 */
#ifndef MVPROXY_TESTS_SIM_CLUSTER_KIT_H
#define MVPROXY_TESTS_SIM_CLUSTER_KIT_H

#include "cluster/cluster.h"
#include "sim/sim_kube.h"

struct cluster_kit {
    struct loop *loop;
    struct metrics *metrics;
    struct back *back;
    struct kube_store *store;
    struct kube_server *local; /* node cp-a */
    struct origin *origin;     /* of the local server */
    struct cluster_opts opts;
    struct cluster *cluster; /* NULL until cluster_kit_start */
};

#define KIT_BASE "apps/v1:deployments,replicasets"
#define KIT_BATCH KIT_BASE ";batch/v1:jobs,cronjobs"

/* A server at port 6443 of this host, and the options of a cluster behind it: for who makes his own world (fleet.h). */
struct origin *cluster_kit_origin(struct back *b, const char *name, const char *host);
struct cluster_opts cluster_kit_opts(const char *hostname, struct origin *local);

/* The local server, at 10.0.0.1:6443, serves these APIs and publishes its Lease. */
void cluster_kit_init(struct cluster_kit *w, const char *apis);
/* Before cluster_kit_start(): the local server has this minor version, and has published no Lease of its identity. */
void cluster_kit_without_lease(struct cluster_kit *w, unsigned minor);
/* Asks `local` as an API server does; the caller's. */
struct api *cluster_kit_api(const struct cluster_kit *w, struct origin *local);
void cluster_kit_start(struct cluster_kit *w); /* makes the cluster with w->opts */
void cluster_kit_end(struct cluster_kit *w);   /* checks that nothing is left open */
/* A further server, started. */
struct kube_server *cluster_kit_peer(struct cluster_kit *w, const char *hostname, const char *address,
                                     const char *apis);
/* Both nodes of one control plane, each in a world of its own in which the other is a peer. Both are ready. */
void cluster_kit_two(struct cluster_kit *a, const char *apis_a, struct cluster_kit *b, const char *apis_b);
/* Runs until ready, at most so long. */
bool cluster_kit_ready(struct cluster_kit *w, uint64_t max_ms);

/* Questions to the current snapshot. */
const struct served_peer *cluster_kit_peer_of(struct cluster_kit *w, const struct kube_server *k); /* NULL: not in it */
/* The description of what is known says that some server is behind an mvproxy. */
bool cluster_kit_sees_mvproxy(struct cluster_kit *w);
bool cluster_kit_local_serves(struct cluster_kit *w, const char *group, const char *version, const char *resource);
bool cluster_kit_peer_serves(struct cluster_kit *w, const struct kube_server *k, const char *group, const char *version,
                             const char *resource);
/* The merged document has the text. */
bool cluster_kit_merged_has(struct cluster_kit *w, const char *text);
/* "Current", "Stale", or "" if the merged document lacks the group. */
const char *cluster_kit_freshness(struct cluster_kit *w, const char *group);
/* Of a metric without labels, or of one series: label values in order, NULL at the end. 0 if there is none. */
double cluster_kit_metric(struct cluster_kit *w, const char *name, ...);

#endif
