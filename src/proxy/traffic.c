/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/traffic.h"

#include <string.h>

void traffic_add(struct traffic *t, uint64_t now_ms, enum route_row row, unsigned status)
{
    uint64_t number = now_ms / TRAFFIC_BUCKET_MS;
    struct traffic_count *c;

    if (row >= ROUTE_ROWS)
        return;
    if (number - t->newest >= TRAFFIC_BUCKETS) /* also at the start */
        memset(t->at, 0, sizeof(t->at));
    else
        while (t->newest < number)
            memset(t->at[++t->newest % TRAFFIC_BUCKETS], 0, sizeof(t->at[0]));
    t->newest = number;
    c = &t->at[number % TRAFFIC_BUCKETS][row];
    c->requests++;
    c->errors += status == 0 || status >= 500;
}

bool traffic_of(const struct traffic *t, uint64_t now_ms, enum route_row row, struct traffic_count out[TRAFFIC_BUCKETS])
{
    uint64_t number = now_ms / TRAFFIC_BUCKET_MS;
    bool any = false;

    for (uint64_t i = 0; i < TRAFFIC_BUCKETS; i++) {
        uint64_t back = TRAFFIC_BUCKETS - 1 - i; /* from now */

        out[i] = (struct traffic_count){0, 0};
        if (back > number || number - back > t->newest)
            continue;
        out[i] = t->at[(number - back) % TRAFFIC_BUCKETS][row];
        any = any || out[i].requests > 0;
    }
    return any;
}
