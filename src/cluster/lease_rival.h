/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges whether the owner of a Lease in place of ours is alive, that is, whether it was seen to change between two
 * looks. Clocks of nodes may differ, so the Lease's age counts only if it is great.
 */
#ifndef MVPROXY_CLUSTER_LEASE_RIVAL_H
#define MVPROXY_CLUSTER_LEASE_RIVAL_H

#include "kube/lease.h"

struct lease_rival {
    char *holder; /* as last seen; NULL: none seen */
    int64_t renew_us;
    uint64_t noted_ms; /* when it was first seen like that */
};

enum lease_rival_verdict {
    LEASE_RIVAL_NEW,   /* not seen before: look again in *wait_ms */
    LEASE_RIVAL_WAITS, /* the same */
    LEASE_RIVAL_ALIVE,
    LEASE_RIVAL_DEAD,
    LEASE_RIVAL_NO_MEMORY,
};

enum lease_rival_verdict lease_rival_judge(struct lease_rival *r, const struct lease *l, uint64_t now_ms,
                                           uint64_t *wait_ms);
/* Forgets the owner seen so far, and frees its text. */
void lease_rival_forget(struct lease_rival *r);

#endif
