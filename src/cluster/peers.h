/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer table: which other API servers there are, whether each is alive, and where it can be reached.
 *
 * A peer is live while its Lease is seen to change (our monotonic clock: clock skew between nodes does not matter),
 * lapsed after stale_after, forgotten after forget_after or its Lease's own duration. One whose Lease is deleted has
 * left: lapsed at once, forgotten after leave_grace, for servers delete their Leases whenever they restart (1.35 and
 * later). If it answers, silence alone never makes it forgotten, nor lapsed while nobody's Lease is renewed: Leases may
 * be readable and not writable. A static peer without a Lease is judged by its answers instead. While the Leases cannot
 * be watched nobody ages: not seeing is no evidence.
 *
 * Addresses come from several sources with a fixed precedence: static configuration, etcd record, Lease annotation.
 */
#ifndef MVPROXY_CLUSTER_PEERS_H
#define MVPROXY_CLUSTER_PEERS_H

#include "cluster/peer.h"

struct loop;
struct peers;
struct peers_static;

struct peers_handler {
    void (*added)(void *arg, struct peer *p);
    void (*changed)(void *arg, struct peer *p, unsigned what); /* PEER_CHANGED_* */
    void (*removed)(void *arg, struct peer *p);
    /* Whether it answers at present, and it is this peer that does: not who has its address now. */
    bool (*answers)(void *arg, const struct peer *p);
};

struct peers_opts {
    struct loop *loop;
    struct peer_reach reach;
    const char *own_id; /* copied */
    uint64_t stale_after_ms, forget_after_ms;
    uint64_t leave_grace_ms; /* 0: whose Lease is deleted is forgotten at once */
    bool rule_changed;       /* peers_update: reach.allow judges otherwise than before, although it is the same */
};

/* NULL when out of memory. */
MEM_CHECK struct peers *peers_new(const struct peers_opts *o, const struct peers_handler *h, void *arg);
void peers_free(struct peers *p); /* calls `removed` for each */
/* A reload: origins are made anew if trust or the rule changed. */
void peers_update(struct peers *p, const struct peers_opts *o);
/*
 * The whole list, taken over; what is no longer in it loses that address, and the table if it has no Lease. What there
 * is no memory for in the table is tried again.
 */
void peers_set_static(struct peers *p, struct peers_static *list);

/* A Lease that lease_refusal() accepts, new, changed or listed again. */
void peers_lease(struct peers *p, const struct lease *l);
/* What a Lease of this peer says that it serves (LEASE_DISCOVERY_ANNOTATION), also one that says nothing else: a server
 * that was taken back to 1.26 has left its later one behind, and it takes a while until that is known to be dead. */
void peers_tag(struct peers *p, struct slice id, enum peer_lease which, struct slice tag);
/*
 * Another Lease of this peer than the one that it is known by was seen. Whether somebody writes it as far as we see:
 * its server, which renews it, or the mvproxy before that, which says what it serves; and whether it is renewed and the
 * one that the peer is known by is not, by our clock: the clock of its host may have been set back, or that of the
 * server before was ahead.
 */
enum { PEERS_REPLACED_MS = 25000 };
enum peers_other { PEERS_OTHER_LEFT, PEERS_OTHER_WRITTEN, PEERS_OTHER_REPLACES };
enum peers_other peers_saw_other(struct peers *p, struct slice id, const struct lease *l, enum peer_lease which);
/* The address in such a Lease, for a peer whose own Lease says none: its mvproxy may not have been there since. */
void peers_lend_address(struct peers *p, struct slice id, struct slice address);
/* `unseen`: it was gone when the Leases were listed. Who came and left since the last look is not known. */
void peers_lease_gone(struct peers *p, struct slice id, bool unseen);
/* An address from etcd's records; host NULL: the record is gone. */
void peers_etcd_address(struct peers *p, struct slice id, const char *host, unsigned port);
void peers_set_drained(struct peers *p, struct peer *peer, bool drained);
/* Our own Lease was: so Leases can be written. */
void peers_own_renewed(struct peers *p);
/* Its discovery was answered. */
void peers_answered(struct peers *p, struct peer *peer);
/* Whether Leases are being watched just now. Starts as false. */
void peers_set_watching(struct peers *p, bool watching);

struct peer *peers_find(const struct peers *p, struct slice id);
/* How long one that left (peer->left) is still kept. */
uint64_t peers_forgotten_in_ms(const struct peers *p, const struct peer *peer);
size_t peers_count(const struct peers *p);     /* forgotten ones included */
uint64_t peers_ignored(const struct peers *p); /* how often there was no room for one */
size_t peers_count_life(const struct peers *p, enum peer_life life);
/* In the order of their IDs; *i starts at 0; NULL at the end. Table unchanged meanwhile. */
struct peer *peers_next(const struct peers *p, size_t *i);

#endif
