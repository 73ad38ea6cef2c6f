/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses from which somebody was let in within a day: what comes from there has a share of the turns that strangers
 * do not touch, however many addresses they have. The address of a node or of a load balancer stays known while it is
 * in use.
 */
#ifndef MVPROXY_FRONT_VOUCHED_H
#define MVPROXY_FRONT_VOUCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum { VOUCHED_SETS = 1024, VOUCHED_WAYS = 4, VOUCHED_KEPT_MS = 24 * 3600 * 1000 };

/* Zeroed: none. 64 KiB, and no more: who can be let in from thousands of addresses forgets those of others. */
struct vouched {
    struct {
        uint64_t address; /* its seeded hash */
        uint64_t at_ms;   /* 0: empty */
    } slots[VOUCHED_SETS][VOUCHED_WAYS];
};

/* now_ms never goes back. */
void vouched_add(struct vouched *v, struct slice address, uint64_t now_ms);
bool vouched_has(const struct vouched *v, struct slice address, uint64_t now_ms);

#endif
