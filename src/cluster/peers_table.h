/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the peer table (peers.h), and what is told of each: the floor below peers.c and peers_lease.c, which
 * alone include this.
 */
#ifndef MVPROXY_CLUSTER_PEERS_TABLE_H
#define MVPROXY_CLUSTER_PEERS_TABLE_H

#include "cluster/cluster_env.h"
#include "cluster/peers.h"

enum { PEERS_TICK_MS = 500 };

struct peers {
    const struct cluster_env *env;
    const struct peers_handler *handler;
    void *arg;
    struct peer **table; /* sorted by ID */
    uint64_t ignored;
    size_t n, cap;
    bool watching, listed; /* the Leases: now, once */
    uint64_t unwatched_since_ms, missed_ms;
    uint64_t renewing_since_ms, renewed_ms; /* any Lease, our own as well: without a gap since, and last */
    struct loop_timer *tick;                /* armed while there are peers */
    bool static_due;                        /* not every static peer is in the table, for want of memory */
};

/* Known to nobody yet: the caller fills it in and then calls peers_announce(). NULL: full, or out of memory. */
struct peer *peers_insert(struct peers *p, struct slice id, struct slice host);
void peers_take_out(struct peers *p, struct peer *peer, const char *why);
void peers_announce(struct peers *p, struct peer *peer);
/* Tells of PEER_CHANGED_*, if it is any. */
void peers_report(struct peers *p, struct peer *peer, unsigned what);
/* Of who is known already: it is told. Returns PEER_CHANGED_LIFE if it did. */
unsigned peers_move(struct peers *p, struct peer *peer, enum peer_life to, const char *why);
/*
 * By the clock of its host it renewed its other Lease later, and is known by that now. Two watches tell of them, in any
 * order; and the one that it was known by is not renewed, or is gone.
 */
bool peers_goes_on(struct peers *p, struct peer *peer);

#endif
