/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients waste, by client: the requests that they cancel, connections to servers that end because of these (the
 * next one is a TLS handshake) and streams that are reset. Each client has a budget, and all have one together, which
 * is held against those only who have wasted something lately. Pure: time comes in as milliseconds. A client is a
 * seeded hash of its address; 0 is ourselves, and never counted.
 *
 * An account is the time at which it is settled (generic cell rate): each event moves it `cost_ms` further, and while
 * it is more than `burst_ms` ahead of now the budget is used up.
 */
#ifndef MVPROXY_BASE_CHURN_H
#define MVPROXY_BASE_CHURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

struct churn_rate {
    unsigned cost_ms, burst_ms; /* of one client */
    unsigned together;          /* so many clients may do this at the same time */
};

struct churn_account {
    uint64_t client, settled_ms;
    bool strained; /* it has been beyond its burst since it was settled last */
};

/* Zeroed but for its rate: nobody has wasted anything. */
struct churn {
    struct churn_rate rate;
    struct churn_account accounts[LIMIT_CHURN_ACCOUNTS]; /* by hash: two that share one take turns */
    uint64_t all_settled_us;
};

/* So many at once, and then so many a second. */
struct churn_rate churn_rate_of(unsigned burst, unsigned per_second);
void churn_charge(struct churn *ch, uint64_t client, uint64_t now_ms);
/* It was no waste after all. */
void churn_refund(struct churn *ch, uint64_t client, uint64_t now_ms);
bool churn_allows(const struct churn *ch, uint64_t client, uint64_t now_ms);
/* It was beyond its burst, and is not settled yet: as much as it has under way it might waste at once, again. */
bool churn_strained(const struct churn *ch, uint64_t client, uint64_t now_ms);

#endif
