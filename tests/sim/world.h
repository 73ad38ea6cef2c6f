/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated cluster with the cluster layer of mvproxy before its first server: what most tests start from.
 */
#ifndef MVPROXY_TESTS_SIM_WORLD_H
#define MVPROXY_TESTS_SIM_WORLD_H

#include "cluster/cluster.h"
#include "sim/sim_kube.h"

struct world {
    struct loop *loop;
    struct metrics *metrics;
    struct back *back;
    struct kube_store *store;
    struct kube_server *local; /* node cp-a */
    struct origin *origin;     /* of the local server */
    struct cluster_opts opts;
    struct cluster *cluster; /* NULL until world_start */
};

#define WORLD_BASE "apps/v1:deployments,replicasets"
#define WORLD_BATCH WORLD_BASE ";batch/v1:jobs,cronjobs"

/* A server at port 6443 of this host, and the options of a cluster behind it: for who makes his own world (fleet.h). */
struct origin *world_origin(struct back *b, const char *name, const char *host);
struct cluster_opts world_opts(const char *hostname, struct origin *local);

/* The local server, at 10.0.0.1:6443, serves these APIs and publishes its Lease. */
void world_init(struct world *w, const char *apis);
/* Before world_start(): the local server has this minor version, and has published no Lease of its identity. */
void world_without_lease(struct world *w, unsigned minor);
/* Asks `local` as an API server does; the caller's. */
struct api *world_api(const struct world *w, struct origin *local);
void world_start(struct world *w); /* makes the cluster with w->opts */
void world_end(struct world *w);   /* checks that nothing is left open */
/* A further server, started. */
struct kube_server *world_peer(struct world *w, const char *hostname, const char *address, const char *apis);
/* Both nodes of one control plane, each in a world of its own in which the other is a peer. Both are ready. */
void world_two(struct world *a, const char *apis_a, struct world *b, const char *apis_b);
/* Runs until ready, at most so long. */
bool world_ready(struct world *w, uint64_t max_ms);

/* Questions to the current snapshot. */
const struct served_peer *world_peer_of(struct world *w, const struct kube_server *k); /* NULL: not in it */
/* The description of what is known says that some server is behind an mvproxy. */
bool world_sees_mvproxy(struct world *w);
bool world_local_serves(struct world *w, const char *group, const char *version, const char *resource);
bool world_peer_serves(struct world *w, const struct kube_server *k, const char *group, const char *version,
                       const char *resource);
/* The merged document has the text. */
bool world_merged_has(struct world *w, const char *text);
/* "Current", "Stale", or "" if the merged document lacks the group. */
const char *world_freshness(struct world *w, const char *group);
/* Of a metric without labels, or of one series: label values in order, NULL at the end. 0 if there is none. */
double world_metric(struct world *w, const char *name, ...);

#endif
