/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer table: which other API servers there are, whether each is alive, and at which address it is reached.
 *
 * A peer is known by its Lease, its configuration (static), or both. By our monotonic clock, so that differing clocks
 * of nodes do not matter, it is live while its Lease is seen to change, lapsed after stale_after without a change, and
 * forgotten after forget_after or, if that is shorter, the Lease's own duration. A peer whose Lease is deleted has
 * left: it is lapsed at once and forgotten after leave_grace, since servers delete their Leases whenever they restart
 * (1.35 and later).
 *
 * Three exceptions. A peer that still answers is never forgotten for silence, nor lapsed while no Lease at all is
 * renewed: Leases may be readable but not writable. A static peer without a Lease is judged by whether its discovery
 * answers, and so is, until the Leases have been listed once, one that has a record in etcd. While the Leases cannot be
 * watched, time does not count.
 *
 * Address sources by precedence: static configuration, etcd record, Lease annotation.
 */
#ifndef MVPROXY_CLUSTER_PEERS_H
#define MVPROXY_CLUSTER_PEERS_H

#include "cluster/peer.h"

struct peers;

struct peers_handler {
    void (*added)(void *arg, struct peer *p);
    void (*changed)(void *arg, struct peer *p, unsigned what); /* PEER_CHANGED_* */
    void (*removed)(void *arg, struct peer *p);
    /* Whether the peer answers at present, and what answers at its address is this peer, not another server that has
     * its address now. */
    bool (*answers)(void *arg, const struct peer *p);
    /* Whether the peer has answered throughout since its Lease was seen last, or was away and came back, and its
     * discovery was read after that. */
    bool (*document_holds)(void *arg, const struct peer *p);
};

/* Empty before peers_update(). Ends the process when out of memory. */
struct peers *peers_new(const struct cluster_env *env, const struct peers_handler *h, void *arg);
void peers_free(struct peers *p);
void peers_clear(struct peers *p); /* as new; calls `removed` for each */
/*
 * The options changed. `anew`: TLS, the rule for addresses or the egress proxy among them, so that all origins are made
 * anew. A peer that is no static one any more loses its static address, and is removed if it has no Lease. Static peers
 * that could not be added for lack of memory are added later.
 */
void peers_update(struct peers *p, bool anew);

/* A Lease that lease_refusal() accepts was added, changed or listed again. Our own is ignored. */
void peers_lease(struct peers *p, const struct lease *l);
/* What one of this peer's Leases says, to be called last of all for each Lease that is seen. The tag of discovery
 * (LEASE_DISCOVERY_ANNOTATION) counts also in one that is not in use otherwise: a server that was downgraded to 1.26
 * leaves its later Lease behind, and it takes a while until that is known to be dead. */
void peers_lease_says(struct peers *p, struct slice id, enum peer_lease which, const struct lease *l);
/*
 * A Lease of this peer was seen that is not the one it is known by (enum peer_lease).
 *
 * FIRST: it was not seen before. LEFT: nobody was seen to write it since. WRITTEN: it is renewed by its server, or the
 * mvproxy before the server writes its tag or address. REPLACES: it is renewed, and the Lease that the peer is known by
 * has not been for PEERS_REPLACED_MS by our clock, so the caller passes this one to peers_lease(). Which Lease has the
 * later renewTime does not tell, as the host's clock may have been set back.
 */
enum { PEERS_REPLACED_MS = 25000 };
enum peers_other { PEERS_OTHER_FIRST, PEERS_OTHER_LEFT, PEERS_OTHER_WRITTEN, PEERS_OTHER_REPLACES };
enum peers_other peers_saw_other(struct peers *p, struct slice id, const struct lease *l, enum peer_lease which);
/* The address in such a Lease: used if the peer's own Lease has none, as the mvproxy may have written only the other
 * one. */
void peers_lend_address(struct peers *p, struct slice id, struct slice address);
/* Such a Lease was deleted. */
void peers_other_gone(struct peers *p, struct slice id);
/* The Lease was deleted, and the peer has left, unless its other Lease was renewed later. `unseen`: that was found by
 * listing, so other processes may have come and gone in between, and what is known of the server is no longer trusted.
 */
void peers_lease_gone(struct peers *p, struct slice id, bool unseen);
/* An address from etcd's records; host NULL: the record is gone. Before Leases were listed it makes a peer. */
void peers_etcd_address(struct peers *p, struct slice id, const char *host, unsigned port);
void peers_set_drained(struct peers *p, struct peer *peer, bool drained);
/* A Lease was renewed, our own or a peer's, which proves that Leases can be written. */
void peers_note_renewal(struct peers *p);
/* A poll of its discovery succeeded. */
void peers_answered(struct peers *p, struct peer *peer);
/* Whether Leases are being watched just now. Starts as false. */
void peers_set_watching(struct peers *p, bool watching);

struct peer *peers_find(const struct peers *p, struct slice id);
/* Milliseconds until a peer that left (peer->left) is forgotten. */
uint64_t peers_forgotten_in_ms(const struct peers *p, const struct peer *peer);
size_t peers_count(const struct peers *p);     /* forgotten ones included */
uint64_t peers_ignored(const struct peers *p); /* number of times that LIMIT_PEERS kept one out */
size_t peers_count_life(const struct peers *p, enum peer_life life);
/* In the order of IDs; *i starts at 0; NULL at the end. The table must not change meanwhile. */
struct peer *peers_next(const struct peers *p, size_t *i);
/* The one that comes after `id` in that order, whoever has come and gone meanwhile; NULL: none does. */
struct peer *peers_after(const struct peers *p, struct slice id);

#endif
