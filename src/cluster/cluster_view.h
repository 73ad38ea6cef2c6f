/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of each server at present, for people (mvproxyctl status). All texts are borrowed and valid until the
 * loop goes on.
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
    bool missing;             /* forgotten, and no other server has its host name */
    uint64_t forgotten_in_ms; /* milliseconds until it is forgotten, if `left` */

    const char *address;  /* NULL: none */
    const char *source;   /* of the address */
    const char *leads_to; /* host name of the server that answers at its address instead, as the mvproxy there says;
                             NULL: none known */

    enum pulse_state answers;
    bool refuses;                             /* PULSE_UNREACHABLE: there is an answer, 5xx */
    bool hangs;                               /* PULSE_UNREACHABLE: there is none, nor an error */
    uint64_t answers_ms;                      /* for how long it has answered, or not */
    const char *version, *emulated, *mvproxy; /* "" if not known */
    bool has_mvproxy;

    bool known;                   /* its discovery was read and is up to date */
    uint64_t lease_ms;            /* since its Lease was seen to change; UINT64_MAX: never */
    uint64_t discovery_ms;        /* since its discovery was last confirmed; UINT64_MAX: never read */
    uint64_t reads;               /* polls of its discovery, failed ones included */
    const char *schemas_unusable; /* why its index of schemas is (schemas.h); NULL: it is not */
    size_t groups, resources;     /* as far as known, the core group among them */
    const char *error;            /* the last error; NULL: none yet */
    uint64_t error_ms;            /* how long ago; if it fails or is ejected: for how long with this error */
    bool failing;                 /* the error persists */
    bool ejected;                 /* an outlier, tried last; the error says why, unless it is `failing` */
    bool drained;                 /* by an operator */
    size_t in_flight;             /* requests of clients */
    const char *readiness;        /* readiness_name() of the local server; NULL for peers */
};

struct cluster_view {
    const char *own_id, *hostname;
    bool peers_enabled, synced;
    uint64_t generation;
    const char *leases_failure;      /* why the identity Leases are not followed just now; NULL: they are */
    uint64_t leases_failure_ms;      /* since when */
    bool leases_never;               /* they have never been read, so the peers are not known */
    const char *identity;            /* identity_state_name() */
    uint64_t skewed_ms, uneven_ms;   /* cluster_skewed_ms(), cluster_uneven_ms() */
    struct comparison_result uneven; /* what differs between servers */
    size_t merged_bytes;             /* size of the merged document of /apis */
    bool custom_stale;               /* which of these there are nobody knows: all are Stale */
    size_t never_from_peers;         /* group/versions of CRDs and aggregated APIs */
    struct cluster_server *servers;  /* the local one first, the others by host name */
    size_t n;
};

/* Milliseconds for which schemas of live servers have differed; UINT64_MAX: they do not. */
uint64_t cluster_skewed_ms(const struct cluster *c);
/* Milliseconds for which servers with known discovery have not all served the same; UINT64_MAX: they do. */
uint64_t cluster_uneven_ms(const struct cluster *c);
/* The same for one group/version and its present difference; 0 also if it has not been compared yet. */
uint64_t cluster_uneven_gv_ms(const struct cluster *c, struct slice group, struct slice version);
/* Calls fn with the host name of each server that is `missing`. */
void cluster_each_missing(const struct cluster *c, void (*fn)(void *arg, const char *host), void *arg);
struct cluster_place {
    const char *server; /* host name */
    const char *host;   /* as struct dial_opts takes it */
    unsigned port;
    bool unreachable; /* the last attempt to connect failed */
};
/* Calls fn for each live peer with an address. fn must not call the cluster. */
void cluster_each_place(const struct cluster *c, void (*fn)(void *arg, const struct cluster_place *p), void *arg);
/* The identity Leases have been listed, so that all peers are known. */
bool cluster_leases_listed(const struct cluster *c);
/* Why the identity Leases have never been read; NULL: they have, or are not used. */
const char *cluster_leases_never(const struct cluster *c);
/* Fills *out, to be released with cluster_view_free(). False when out of memory. */
MEM_CHECK bool cluster_view_take(struct cluster *c, struct cluster_view *out);
void cluster_view_free(struct cluster_view *v);

#endif
