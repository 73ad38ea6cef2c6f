/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often something happened in the last minute, give or take ten seconds. Zeroed: never.
 */
#ifndef MVPROXY_BASE_RECENT_H
#define MVPROXY_BASE_RECENT_H

#include <stddef.h>
#include <stdint.h>

enum { RECENT_SLOT_MS = 10000, RECENT_SLOTS = 7 }; /* the last one is not over */

struct recent {
    uint64_t slot; /* of now_ms, when it was last */
    size_t times[RECENT_SLOTS];
};

/* It happens. now_ms never goes back. */
void recent_add(struct recent *r, uint64_t now_ms);
size_t recent_count(const struct recent *r, uint64_t now_ms);

#endif
