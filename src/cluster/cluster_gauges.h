/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gauges that are computed when metrics are read, and which gauges are exported at all: those of features that are not
 * configured are hidden.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_GAUGES_H
#define MVPROXY_CLUSTER_CLUSTER_GAUGES_H

#include <stdint.h>

struct cluster_env;
struct comparer;
struct local;
struct metrics;
struct peer_side;

/* What they are computed from. */
struct cluster_gauges {
    const struct cluster_env *env;
    const struct local *local;
    const struct peer_side *side;
    const struct comparer *comparer;
    uint64_t started_ms; /* by the loop's clock: since when anything may be known of the local server */
};

/* Updates them before every exposition from now on. To be called once per registry. */
void cluster_gauges_follow(struct cluster_gauges *g, struct metrics *m);

#endif
