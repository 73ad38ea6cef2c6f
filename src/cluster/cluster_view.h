/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of each server just now, for people. All texts are borrowed, and live until the loop goes on.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_VIEW_H
#define MVPROXY_CLUSTER_CLUSTER_VIEW_H

#include "base/mem.h"
#include "cluster/comparison.h"
#include "cluster/pulse.h"

struct cluster;

struct cluster_server {
    const char *id;
    const char *host;   /* its host name; the ID where none is known */
    const char *life;   /* "local", or as peer_life_name() */
    const char *holder; /* of its Lease; "" without */
    bool local, leased, fixed, left;
    bool missing; /* away for so long that what it served is forgotten, and nobody of its host name is there */
    uint64_t forgotten_in_ms; /* if it left */

    const char *address; /* NULL: none */
    const char *source;  /* of the address */
    const char
        *leads_to; /* host name of the other server that is there, as its mvproxy says; NULL: none is known to be */

    enum pulse_state answers;
    uint64_t answers_ms;                      /* since when it answers, or does not */
    const char *version, *emulated, *mvproxy; /* "" if not known */
    bool has_mvproxy;

    bool known;               /* what it serves was read, and nothing speaks against it */
    uint64_t lease_ms;        /* since its Lease was seen to change; UINT64_MAX: never */
    uint64_t discovery_ms;    /* since its discovery was last confirmed; UINT64_MAX: never read */
    uint64_t reads;           /* of its discovery, whatever came of them */
    size_t groups, resources; /* as far as known, the core group among them */
    const char *error;        /* the last; NULL: there was none */
    uint64_t error_ms;        /* how long ago; if it fails or is ejected: for how long this very one */
    bool failing;             /* the error is what is the matter now */
    bool ejected;             /* an outlier: tried last; the error is why, unless it fails altogether */
    bool drained;             /* by an operator */
    size_t in_flight;         /* requests of clients */
    const char *readiness;    /* of the local server, as readiness_name(); NULL of others */
};

struct cluster_view {
    const char *own_id, *hostname;
    bool peers_enabled, synced;
    uint64_t generation;
    const char *leases_failure;      /* why the identity Leases are not followed just now; NULL: they are */
    uint64_t leases_failure_ms;      /* since when */
    bool leases_never;               /* they have never been read: which servers there are is not known */
    const char *identity;            /* how the own Lease is kept: identity_state_name() */
    uint64_t skewed_ms, uneven_ms;   /* cluster_skewed_ms(), cluster_uneven_ms() */
    struct comparison_result uneven; /* what is not the same everywhere */
    size_t merged_bytes;             /* of the merged document */
    size_t never_from_peers;         /* group/versions of CRDs and aggregated APIs */
    struct cluster_server *servers;  /* the local one first, the others by host name */
    size_t n;
};

/* For how long schemas of live servers have differed; UINT64_MAX: they do not. */
uint64_t cluster_skewed_ms(const struct cluster *c);
/* For how long known servers have not served the same; UINT64_MAX: they do. */
uint64_t cluster_uneven_ms(const struct cluster *c);
/* Likewise of one group/version, and as they differ now; 0 as well if it has not been compared yet. */
uint64_t cluster_uneven_gv_ms(const struct cluster *c, struct slice group, struct slice version);
/* The host names of those that are missing (struct cluster_server). */
void cluster_each_missing(const struct cluster *c, void (*fn)(void *arg, const char *host), void *arg);
struct cluster_place {
    const char *server; /* host name */
    const char *host;   /* as struct dial_opts takes it */
    unsigned port;
    bool unreachable; /* the last attempt to connect failed */
};
/* Where the live peers are. Nothing else may be asked of the cluster in between. */
void cluster_each_place(const struct cluster *c, void (*fn)(void *arg, const struct cluster_place *p), void *arg);
/* Why the identity Leases have never been read; NULL: they have been, or are not used. */
const char *cluster_leases_never(const struct cluster *c);
/* False when out of memory. To be freed. */
MEM_CHECK bool cluster_view_take(struct cluster *c, struct cluster_view *out);
void cluster_view_free(struct cluster_view *v);

#endif
