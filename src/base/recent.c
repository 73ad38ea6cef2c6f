/* SPDX-License-Identifier: Apache-2.0 */
#include "base/recent.h"

static uint64_t slot_of(uint64_t now_ms)
{
    return now_ms / RECENT_SLOT_MS;
}

void recent_add(struct recent *r, uint64_t now_ms)
{
    uint64_t now = slot_of(now_ms);

    if (now - r->slot > RECENT_SLOTS)
        r->slot = now - RECENT_SLOTS; /* all are over */
    while (r->slot < now)
        r->times[++r->slot % RECENT_SLOTS] = 0;
    r->times[now % RECENT_SLOTS]++;
}

size_t recent_count(const struct recent *r, uint64_t now_ms)
{
    uint64_t now = slot_of(now_ms);
    size_t sum = 0;

    for (uint64_t ago = now - r->slot; ago < RECENT_SLOTS; ago++)
        sum += r->times[(now - ago + RECENT_SLOTS) % RECENT_SLOTS];
    return sum;
}
