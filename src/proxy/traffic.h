/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests ended in the last minutes, by the row of the decision table that sent them where they went: for
 * people who look, without anything that would have to be asked for it.
 */
#ifndef MVPROXY_PROXY_TRAFFIC_H
#define MVPROXY_PROXY_TRAFFIC_H

#include "proxy/route.h"

enum { TRAFFIC_BUCKETS = 60, TRAFFIC_BUCKET_MS = 10000 }; /* ten minutes */

struct traffic_count {
    uint32_t requests, errors; /* errors: answered with 5xx, or not at all */
};

/* Zeroed: nothing happened yet. */
struct traffic {
    uint64_t newest; /* its number since the clock's start */
    struct traffic_count at[TRAFFIC_BUCKETS][ROUTE_ROWS];
};

void traffic_add(struct traffic *t, uint64_t now_ms, enum route_row row, unsigned status);
/* One route's, the oldest first; the last bucket is not over yet. True if there were any requests. */
bool traffic_of(const struct traffic *t, uint64_t now_ms, enum route_row row,
                struct traffic_count out[TRAFFIC_BUCKETS]);

#endif
