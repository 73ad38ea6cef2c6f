/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gauges that are cheaper to compute when somebody looks than to keep, and which of them are exported at all: what
 * is not configured says nothing.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_GAUGES_H
#define MVPROXY_CLUSTER_CLUSTER_GAUGES_H

struct cluster;
struct metrics;

/* From now on, before every exposition. Once per cluster and registry. */
void cluster_gauges_follow(struct cluster *c, struct metrics *m);

#endif
