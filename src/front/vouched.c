/* SPDX-License-Identifier: Apache-2.0 */
#include "front/vouched.h"

#include "base/hash.h"

/* Its own slot, else the one that has not been used for longest. */
void vouched_add(struct vouched *v, struct slice address, uint64_t now_ms)
{
    uint64_t hash = hash_seeded(address);
    size_t set = hash % VOUCHED_SETS, at = 0;

    for (size_t i = 0; i < VOUCHED_WAYS; i++) {
        if (v->slots[set][i].address == hash) {
            at = i;
            break;
        }
        if (v->slots[set][i].at_ms < v->slots[set][at].at_ms)
            at = i;
    }
    v->slots[set][at].address = hash;
    v->slots[set][at].at_ms = now_ms;
}

bool vouched_has(const struct vouched *v, struct slice address, uint64_t now_ms)
{
    uint64_t hash = hash_seeded(address);
    size_t set = hash % VOUCHED_SETS;

    for (size_t i = 0; i < VOUCHED_WAYS; i++)
        if (v->slots[set][i].address == hash && v->slots[set][i].at_ms != 0)
            return now_ms - v->slots[set][i].at_ms < VOUCHED_KEPT_MS;
    return false;
}
