/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/backoff.h"
#include "base/random.h"

void backoff_init(struct backoff *b, uint64_t first_ms, uint64_t max_ms)
{
    b->first_ms = b->next_ms = first_ms;
    b->max_ms = max_ms;
}

void backoff_reset(struct backoff *b)
{
    b->next_ms = b->first_ms;
}

uint64_t jitter_ms(uint64_t ms, unsigned percent)
{
    uint64_t spread = ms * percent / 100;

    return ms - spread + random_below(2 * spread + 1);
}

uint64_t backoff_next(struct backoff *b)
{
    uint64_t now = b->next_ms;

    b->next_ms = now >= b->max_ms / 2 ? b->max_ms : now * 2;
    return jitter_ms(now, 25);
}
