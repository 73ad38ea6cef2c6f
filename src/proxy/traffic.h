/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts of requests that ended in the last ten minutes, by row of the decision table: for people, without a monitoring
 * system.
 */
#ifndef MVPROXY_PROXY_TRAFFIC_H
#define MVPROXY_PROXY_TRAFFIC_H

#include "proxy/route.h"

enum { TRAFFIC_BUCKETS = 60, TRAFFIC_BUCKET_MS = 10000 }; /* ten minutes */

struct traffic_count {
    uint32_t requests, errors; /* errors: answered with 5xx, or not at all */
};

/* Zeroed at first. */
struct traffic {
    uint64_t newest; /* number of the newest bucket, counted from the clock's start */
    struct traffic_count at[TRAFFIC_BUCKETS][ROUTE_ROWS];
};

void traffic_add(struct traffic *t, uint64_t now_ms, enum route_row row, unsigned status);
/* The counts of one row, the oldest bucket first; the last one is not over yet. True if there were any requests. */
bool traffic_of(const struct traffic *t, uint64_t now_ms, enum route_row row,
                struct traffic_count out[TRAFFIC_BUCKETS]);

#endif
