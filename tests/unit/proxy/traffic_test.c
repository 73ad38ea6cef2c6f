/* SPDX-License-Identifier: Apache-2.0 */
/* The last ten minutes in sixty parts, by route. */
#include "proxy/traffic.h"

#include "lib/tap.h"

static uint64_t sum(const struct traffic_count *c)
{
    uint64_t n = 0;

    for (size_t i = 0; i < TRAFFIC_BUCKETS; i++)
        n += c[i].requests;
    return n;
}

int main(void)
{
    static struct traffic t, young;
    struct traffic_count c[TRAFFIC_BUCKETS];
    const uint64_t start = 7 * TRAFFIC_BUCKET_MS; /* since boot: less than there are buckets */

    traffic_add(&young, 0, ROUTE_ROW_PEER, 200);
    ok(traffic_of(&young, TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, c) && c[58].requests == 1 && sum(c) == 1,
       "from the very start");
    ok(!traffic_of(&t, start, ROUTE_ROW_PEER, c) && sum(c) == 0, "nothing yet");
    traffic_add(&t, start, ROUTE_ROW_PEER, 200);
    traffic_add(&t, start + TRAFFIC_BUCKET_MS - 1, ROUTE_ROW_PEER, 503);
    traffic_add(&t, start + TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, 0);
    traffic_add(&t, start + TRAFFIC_BUCKET_MS, ROUTE_ROW_NOBODY, 404);
    traffic_add(&t, start, ROUTE_ROWS, 200);
    ok(traffic_of(&t, start + TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, c), "something");
    ok(c[58].requests == 2 && c[58].errors == 1 && c[59].requests == 1 && c[59].errors == 1,
       "each in its part, the latest last");
    ok(traffic_of(&t, start + TRAFFIC_BUCKET_MS, ROUTE_ROW_NOBODY, c) && c[59].errors == 0,
       "404 is no error of a server");
    ok(traffic_of(&t, start + 4 * TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, c) && c[55].requests == 2 && c[56].requests == 1 &&
           sum(c) == 3,
       "they move on while nothing happens");
    traffic_add(&t, start + 59 * TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, 200);
    ok(traffic_of(&t, start + 59 * TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, c) && c[0].requests == 2 && c[59].requests == 1,
       "a full ring");
    traffic_add(&t, start + 60 * TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, 200);
    ok(traffic_of(&t, start + 60 * TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, c) && c[0].requests == 1 && sum(c) == 3,
       "the oldest are forgotten");
    ok(!traffic_of(&t, start + 500 * TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, c), "all of them in time");
    traffic_add(&t, start + 500 * TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, 200);
    ok(traffic_of(&t, start + 500 * TRAFFIC_BUCKET_MS, ROUTE_ROW_PEER, c) && sum(c) == 1, "after a long silence");
    return tap_end();
}
