/* SPDX-License-Identifier: Apache-2.0 */
#include "back/h2_load.h"

#include "base/contract.h"

/*
 * CPU per request of 1 KB with all requests over HTTP/2, as a ratio to all over HTTP/1.1, by the number of HTTP/1.1
 * clients, in turns (docs/performance.md): 1: 1.14, 4: 1.08, 8: 1.05, 16: 1.00, 32: 0.74, 64: 0.94, 128: 0.81. Answers
 * of 100 KB cost 1.08 over HTTP/2 with 128: their bytes are framed once more, and few of them make up a turn.
 */
enum {
    ON_FROM = 16,
    OFF_BELOW = 8,
    LARGE_BYTES = 16 << 10,
    MEAN_OF = 16,
};

static void judge(struct h2_load *l)
{
    if (l->on)
        l->on = l->under_way >= OFF_BELOW && l->mean_bytes < 2 * LARGE_BYTES;
    else
        l->on = l->under_way >= ON_FROM && l->mean_bytes < LARGE_BYTES;
}

void h2_load_begin(struct h2_load *l)
{
    l->under_way++;
    judge(l);
}

void h2_load_end(struct h2_load *l, uint64_t bytes)
{
    const uint32_t most = 1 << 24; /* one huge answer must not be remembered for long */
    uint32_t capped = bytes < most ? (uint32_t)bytes : most;

    must_hold(l->under_way > 0);
    l->under_way--;
    l->mean_bytes = (uint32_t)(((uint64_t)l->mean_bytes * (MEAN_OF - 1) + capped) / MEAN_OF);
    judge(l);
}
