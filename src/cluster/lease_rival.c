/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/lease_rival.h"

#include "base/clock.h"

enum {
    /* Longer than anybody's renewal takes to show: a Lease that has not changed meanwhile has no owner. */
    LOOK_AGAIN_MS = 12000,
    DEAD_AFTER_US = 60 * 1000 * 1000, /* renewed so long ago, by our clock: no need to look twice */
};

static bool note(struct lease_rival *r, const struct lease *l, uint64_t now_ms)
{
    lease_rival_forget(r);
    r->holder = mem_slicedup(l->holder);
    r->renew_us = l->renew_us;
    r->noted_ms = now_ms;
    return r->holder != NULL;
}

enum lease_rival_verdict lease_rival_judge(struct lease_rival *r, const struct lease *l, uint64_t now_ms,
                                           uint64_t *wait_ms)
{
    bool again = r->holder != NULL && slice_eq(l->holder, slice_str(r->holder));
    bool moved = again && l->renew_us != r->renew_us;
    bool old = !l->has_renew_time || l->renew_us < clock_wall_us() - DEAD_AFTER_US;

    if ((!again || moved) && !note(r, l, now_ms))
        return LEASE_RIVAL_NO_MEMORY;
    if (moved)
        return LEASE_RIVAL_ALIVE;
    if (old || now_ms - r->noted_ms >= LOOK_AGAIN_MS)
        return LEASE_RIVAL_DEAD;
    *wait_ms = LOOK_AGAIN_MS - (now_ms - r->noted_ms);
    return again ? LEASE_RIVAL_WAITS : LEASE_RIVAL_NEW;
}

void lease_rival_forget(struct lease_rival *r)
{
    mem_free(r->holder);
    r->holder = NULL;
}
