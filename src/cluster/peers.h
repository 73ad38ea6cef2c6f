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

#include "back/back.h"
#include "kube/lease.h"

struct buf;
struct changes;
struct cluster_static_peer;
struct loop;
struct peers;
struct server;

enum peer_life { PEER_LIVE, PEER_LAPSED, PEER_FORGOTTEN };
enum peer_source { PEER_FROM_STATIC, PEER_FROM_ETCD, PEER_FROM_ANNOTATION, PEER_SOURCES };

/* Read-only for everybody but peers.c, except `server`. Lives until handler.removed has returned. */
struct peer {
    char *id;
    char *hostname; /* "" if unknown */
    char *holder;   /* "" without Lease */
    enum peer_life life;
    bool leased, fixed;          /* has a Lease; is in the configuration */
    bool left;                   /* its Lease was deleted, and it is kept for a while */
    bool answered;               /* its discovery was, once at least */
    bool drained;                /* by an operator: gets requests only where nobody else is left */
    char tag[LEASE_TAG_BYTES];   /* of what it serves, as its mvproxy says in the Lease; "": not said */
    uint64_t known_ms;           /* since when it is in the table */
    uint64_t seen_ms;            /* last sign of life */
    uint64_t answered_ms;        /* when its discovery was last, if `answered` */
    int64_t renew_us, rhythm_us; /* by its own clock: the last renewal, and the time from the one before to it (0:
                                    unknown) */
    uint64_t duration_ms;        /* 0: no Lease */
    struct {
        char *host; /* NULL: this source says nothing */
        unsigned port;
    } address[PEER_SOURCES];
    enum peer_source source; /* the one in use; PEER_SOURCES: none */
    struct origin *origin;   /* NULL: no usable address, or forgotten */
    struct server *server;   /* the cluster's: peers.c never looks at it */
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

struct peers_handler {
    void (*added)(void *arg, struct peer *p);
    void (*changed)(void *arg, struct peer *p, unsigned what); /* PEER_CHANGED_* */
    void (*removed)(void *arg, struct peer *p);
    /* Whether it answers at present, and it is this peer that does: not who has its address now. */
    bool (*answers)(void *arg, const struct peer *p);
};

struct peers_opts {
    struct loop *loop;
    struct back *back;
    const char *own_id; /* copied */
    uint64_t stale_after_ms, forget_after_ms;
    uint64_t leave_grace_ms; /* 0: whose Lease is deleted is forgotten at once */
    struct tls_ctx *tls_cert, *tls_no_cert;
    bool (*allow)(const struct sockaddr *addr, void *arg); /* NULL: not cidr_is_special() */
    void *allow_arg;
    bool rule_changed;           /* peers_update: `allow` judges otherwise than before, although it is the same */
    struct egress_proxy *egress; /* NULL: directly */
    struct changes *changes;     /* gets what happens to peers; NULL: nobody wants to know */
};

/* Ends the process when out of memory. */
struct peers *peers_new(const struct peers_opts *o, const struct peers_handler *h, void *arg);
void peers_free(struct peers *p); /* calls `removed` for each */
/* A reload: origins are made anew if trust or the rule changed. */
void peers_update(struct peers *p, const struct peers_opts *o);
/* The whole static list; what is no longer in it loses that address, and the table if it has no Lease. */
void peers_set_static(struct peers *p, const struct cluster_static_peer *list, size_t n);

/* A Lease that lease_refusal() accepts, new, changed or listed again. */
void peers_lease(struct peers *p, const struct lease *l);
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
size_t peers_count(const struct peers *p); /* forgotten ones included */
size_t peers_count_life(const struct peers *p, enum peer_life life);
/* In the order of their IDs; *i starts at 0; NULL at the end. Table unchanged meanwhile. */
struct peer *peers_next(const struct peers *p, size_t *i);
/* How it is named in metrics: its host name, or its ID where that is not known. */
const char *peer_label(const struct peer *peer);
const char *peer_life_name(enum peer_life life);
const char *peer_source_name(enum peer_source s);

#endif
