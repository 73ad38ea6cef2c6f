/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting times between retries: they double up to a maximum, with jitter so that many instances do not retry at the
 * same time.
 */
#ifndef MVPROXY_CLUSTER_BACKOFF_H
#define MVPROXY_CLUSTER_BACKOFF_H

#include <stdint.h>

struct backoff {
    uint64_t first_ms, max_ms, next_ms;
};

enum { BACKOFF_FIRST_MS = 200, BACKOFF_MAX_MS = 10000 };

void backoff_init(struct backoff *b, uint64_t first_ms, uint64_t max_ms);
/* After a success. */
void backoff_reset(struct backoff *b);
/* How long to wait now: the current step ± 25 %; the next step is twice as long, up to the maximum. */
uint64_t backoff_next(struct backoff *b);
/* `ms` ± `percent`, uniformly. */
uint64_t jitter_ms(uint64_t ms, unsigned percent);

#endif
