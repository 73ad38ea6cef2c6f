/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One other API server: a row of the peer table (peers.h), its addresses, and the origin made from the address in use.
 * Address sources by precedence: static configuration, etcd record, Lease annotation.
 */
#ifndef MVPROXY_CLUSTER_PEER_H
#define MVPROXY_CLUSTER_PEER_H

#include "back/back.h"
#include "kube/lease.h"

struct changes;
struct cluster_env;
struct server;

enum peer_life { PEER_LIVE, PEER_LAPSED, PEER_FORGOTTEN };
/* A server's Lease has another name in 1.26 than in later versions: after an upgrade or downgrade it has both for a
 * while. */
enum peer_lease { PEER_LEASE, PEER_LEASE_126, PEER_LEASES };
enum { PEER_ADDRESS_BYTES = 72 }; /* more than a literal IP:port takes */
enum peer_source { PEER_FROM_STATIC, PEER_FROM_ETCD, PEER_FROM_ANNOTATION, PEER_SOURCES };

/* Only the table (peers.h) writes to it, except for `server`. Lives until handler.removed has returned. */
struct peer {
    char *id;
    char *hostname; /* "" if unknown */
    char *holder;   /* "" without Lease, but that of before if it has left */
    enum peer_life life;
    bool leased, fixed; /* has a Lease; is a static peer */
    bool listed;        /* is still one, while that is found out */
    bool seed;          /* known by its record in etcd alone, since the Leases have not been listed yet */
    bool left;          /* its Lease was deleted, and leave_grace is not over */
    bool expired;       /* its Lease had expired when it was first seen, and has not been renewed since */
    bool answered;      /* its discovery was read at least once since it was last forgotten */
    bool drained;       /* by an operator: gets requests only if no other server can take them */
    /* The tag of its discovery that its mvproxy wrote into each of its Leases; "": none. */
    char tags[PEER_LEASES][LEASE_TAG_BYTES];
    /* And the address, unchecked and cut. */
    char said_addresses[PEER_LEASES][PEER_ADDRESS_BYTES];
    enum peer_lease said;        /* whose tag changed last */
    uint64_t known_ms;           /* since when it is in the table */
    uint64_t seen_ms;            /* last sign of life */
    uint64_t answered_ms;        /* when its discovery was last read, if `answered` */
    int64_t renew_us, rhythm_us; /* by the server's clock, in µs: its Lease's renewTime, and the time since the
                                    renewTime before (0: unknown) */
    uint64_t duration_ms;        /* 0: no Lease */
    int64_t other_us;            /* renewTime of its other Lease, as last seen; 0: none seen */
    uint64_t other_ms;        /* since when the other Lease is renewed and the one in use is not; 0: that is not so */
    char *other_holder;       /* "" if none was seen */
    uint64_t other_holder_ms; /* since when that is known to hold it */
    uint64_t other_seen_ms;   /* when that was last seen to be renewed; valid while other_us is not 0 */
    bool lent;                /* the annotation's address was taken from the other Lease, or the one of before */
    int64_t made_us;          /* the first renewTime of its Lease if that was made while it was known, else 0 */
    uint64_t held_ms;         /* since when its Lease does not say the address any more that is used, if `lent` */
    struct {
        char *host; /* NULL: no address from this source */
        unsigned port;
    } address[PEER_SOURCES];
    enum peer_source source; /* the one in use; PEER_SOURCES: none */
    struct origin *origin;   /* NULL: no usable address, or forgotten */
    struct server *server;   /* owned by the cluster; the table does not use it */
};

/*
 * What changed. RENEWED alone: only the Lease's renewTime. RHYTHM: the renewal came out of turn by the server's clock,
 * so its process may be another one. A kube-apiserver before 1.35 keeps the holder of its predecessor's Lease (it does
 * not delete the Lease when it starts, and an update leaves the holder alone) and renews it first of all: nothing else
 * tells that it restarted.
 */
enum {
    PEER_CHANGED_LIFE = 1,
    PEER_CHANGED_HOLDER = 2,
    PEER_CHANGED_ORIGIN = 4,
    PEER_CHANGED_RENEWED = 8,
    PEER_CHANGED_RHYTHM = 16,
    PEER_CHANGED_TAG = 32,
    PEER_CHANGED_DRAINED = 64,
};

/* Starts as FORGOTTEN and without addresses. NULL when out of memory. */
MEM_CHECK struct peer *peer_new(struct slice id, uint64_t now_ms);
void peer_free(struct peer *peer); /* NULL is fine */
/* The setters return whether the value changed; when out of memory the old one is kept. */
bool peer_set_text(char **slot, struct slice text);
bool peer_set_address(struct peer *peer, enum peer_source s, const char *host, unsigned port); /* host NULL: none */
/* Whoever may write Leases can write the annotation, so only literal IP addresses are accepted: with DNS names it could
 * direct us anywhere. */
bool peer_set_annotation(struct peer *peer, struct slice text, struct changes *changes);
unsigned peer_set_tag(struct peer *peer, enum peer_lease which, struct slice tag); /* PEER_CHANGED_TAG or 0 */
/* A Lease of another name than the one it is known by. */
bool peer_other_lease(const struct peer *peer, const struct lease *l);
/*
 * Its other Lease is the one that counts now, and it has answered since this process is seen to hold that one: then it
 * was this process that did, and is no other one now.
 */
bool peer_was_read(const struct peer *peer, const struct lease *l);
/* Also who the other one's holder is tells that a process is there, before it is known which of the two is renewed:
 * PEER_CHANGED_RHYTHM or 0. */
unsigned peer_set_other(struct peer *peer, struct slice holder, uint64_t now);
/* Its other Lease is the one it is known by from now on, if that was renewed later. False: it was not; no memory. */
bool peer_take_other(struct peer *peer);
/*
 * Picks the address by precedence and makes the origin for it, even if the address is the same when `anew` is set. True
 * if the origin changed (it is NULL when out of memory).
 */
bool peer_settle_origin(struct peer *peer, const struct cluster_env *env, bool anew);
/* Its name in logs and metrics: the host name, or the ID if that is not known. */
const char *peer_label(const struct peer *peer);
/* The only way in which `life` changes; for the table. */
void peer_move(struct peer *peer, enum peer_life to);
const char *peer_life_name(enum peer_life life);
const char *peer_source_name(enum peer_source s);

#endif
