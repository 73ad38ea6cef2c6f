/*
 * The facade's face to operators: cluster_describe() of cluster.h, and the gauges that are cheaper to compute than to
 * keep.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_DESCRIBE_H
#define MVPROXY_CLUSTER_CLUSTER_DESCRIBE_H

struct cluster;
struct metrics;

/* The gauges are computed at every exposition. The cluster must outlive the registry's last one. */
void cluster_metrics_follow(struct cluster *c, struct metrics *m);

#endif
