/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One other API server: a row of the table (peers.h), its addresses, and the origin that comes of them. Addresses come
 * from several sources with a fixed precedence: static configuration, etcd record, Lease annotation.
 */
#ifndef MVPROXY_CLUSTER_PEER_H
#define MVPROXY_CLUSTER_PEER_H

#include "back/back.h"
#include "kube/lease.h"

struct changes;
struct server;

enum peer_life { PEER_LIVE, PEER_LAPSED, PEER_FORGOTTEN };
/* A server that was upgraded from 1.26, or taken back to it, has two for a while. */
enum peer_lease { PEER_LEASE, PEER_LEASE_126, PEER_LEASES };
enum peer_source { PEER_FROM_STATIC, PEER_FROM_ETCD, PEER_FROM_ANNOTATION, PEER_SOURCES };

/* Read-only for everybody but the table (peers.c), except `server`. Lives until handler.removed has returned. */
struct peer {
    char *id;
    char *hostname; /* "" if unknown */
    char *holder;   /* "" without Lease */
    enum peer_life life;
    bool leased, fixed; /* has a Lease; is in the configuration */
    bool left;          /* its Lease was deleted, and it is kept for a while */
    bool answered;      /* its discovery was, once at least */
    bool drained;       /* by an operator: gets requests only where nobody else is left */
    /* Of what it serves, as its mvproxy says in its Lease and in that of 1.26; "": not said. */
    char tags[PEER_LEASES][LEASE_TAG_BYTES];
    enum peer_lease said;        /* the one that changed last */
    uint64_t known_ms;           /* since when it is in the table */
    uint64_t seen_ms;            /* last sign of life */
    uint64_t answered_ms;        /* when its discovery was last, if `answered` */
    int64_t renew_us, rhythm_us; /* by its own clock: the last renewal, and the time from the one before to it (0:
                                    unknown) */
    uint64_t duration_ms;        /* 0: no Lease */
    int64_t other_us;            /* the renewal that was seen last in its other Lease; 0: none */
    uint64_t other_ms;           /* since when that one is seen to be renewed and this one is not; 0: it is not */
    bool lent;                   /* its annotation's address is that one's */
    struct {
        char *host; /* NULL: this source says nothing */
        unsigned port;
    } address[PEER_SOURCES];
    enum peer_source source; /* the one in use; PEER_SOURCES: none */
    struct origin *origin;   /* NULL: no usable address, or forgotten */
    struct server *server;   /* the cluster's: the table never looks at it */
};

/*
 * RENEWED alone: only the Lease's renewTime moved. With RHYTHM: out of turn, by its own clock. A kube-apiserver
 * before 1.35 that follows another process keeps its holder (it deletes no Lease when it starts, and an update leaves
 * the holder alone), and renews first of all: nothing else tells that it is another.
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

/* How servers are reached at their addresses. */
struct peer_reach {
    struct back *back;
    struct tls_ctx *tls_cert, *tls_no_cert;
    bool (*allow)(const struct sockaddr *addr, void *arg); /* NULL: not cidr_is_special() */
    void *allow_arg;
    struct egress_proxy *egress; /* NULL: directly */
    struct changes *changes;     /* gets what happens to peers; NULL: nobody wants to know */
};

/* FORGOTTEN, without addresses. NULL when out of memory. */
MEM_CHECK struct peer *peer_new(struct slice id, uint64_t now_ms);
void peer_free(struct peer *peer); /* NULL is fine */
/* The setters return whether there is something else now; without memory all stays. */
bool peer_set_text(char **slot, struct slice text);
bool peer_set_address(struct peer *peer, enum peer_source s, const char *host, unsigned port); /* host NULL: none */
/* The annotation may be written by many: literal addresses only, so that DNS cannot be used to aim us. */
bool peer_set_annotation(struct peer *peer, struct slice text, struct changes *changes);
unsigned peer_set_tag(struct peer *peer, enum peer_lease which, struct slice tag); /* PEER_CHANGED_TAG or 0 */
/*
 * Picks the address by precedence and makes the origin fit it; `anew`: another one in any case. True if it is another
 * one now (NULL also when out of memory).
 */
bool peer_settle_origin(struct peer *peer, const struct peer_reach *r, bool anew);
/* How it is named in metrics: its host name, or its ID where that is not known. */
const char *peer_label(const struct peer *peer);
const char *peer_life_name(enum peer_life life);
const char *peer_source_name(enum peer_source s);

#endif
