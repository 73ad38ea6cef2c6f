/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gauges that are computed when metrics are read, and which gauges are exported at all: those of features that are not
 * configured are hidden.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_GAUGES_H
#define MVPROXY_CLUSTER_CLUSTER_GAUGES_H

struct cluster;
struct metrics;

/* Updates them before every exposition from now on. To be called once per cluster and registry. */
void cluster_gauges_follow(struct cluster *c, struct metrics *m);

#endif
