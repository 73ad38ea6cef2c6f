/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the cluster facade, and what its files call in each other. Who calls whom, from top to bottom: cluster.c
 * (life cycle, triggers), cluster_peers.c (changes of the peer table), cluster_parts.c (making and starting the parts),
 * cluster_collect.c (facts for a snapshot); and those that only read: cluster_health.c, cluster_view.c,
 * cluster_gauges.c.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_INTERNAL_H
#define MVPROXY_CLUSTER_CLUSTER_INTERNAL_H

#include "base/limits.h"
#include "cluster/cluster_metrics.h"
#include "cluster/cluster_opts.h"
#include "cluster/identity.h"
#include "cluster/peers.h"
#include "cluster/waiters.h"
#include "kube/server_id.h"

struct local;
struct server;

enum { CLUSTER_MEMORY_RETRY_MS = 1000 };

struct cluster {
    struct loop *loop;
    uint64_t started_ms;
    struct back *back;
    struct cluster_opts o; /* texts and arrays are NULL: they have been passed on to the parts */
    char own_id[SERVER_ID_BYTES];
    char *hostname, advertise[LIMIT_ADDRESS_TEXT_BYTES];
    struct api *api;
    struct local *local; /* its readiness without an origin while local-failover or peers are off */
    bool doubtful;       /* what CRDs and aggregated APIs there are nobody knows: they are Stale */
    /* All NULL while peers are off. */
    struct peers *peers;
    struct leases *leases;
    struct exclusions *exclusions;
    struct front_trust *front_trust;
    struct identity *identity; /* stopped while peers are off */
    struct records *records;   /* switched off while peers are off */
    size_t withdrawing;        /* parts that are still withdrawing (cluster_stop) */
    void (*withdrawn)(void *arg);
    void *withdrawn_arg;
    bool ending; /* cluster_stop */
    struct publish *publish;
    struct comparer *comparer;
    struct waiters waiters;
    struct waiters protobuf_waiters; /* for the documents' protobuf forms */
    struct loop_timer *memory_retry; /* starting the informers again */
    bool leases_fail;                /* they cannot be followed */
    uint64_t leases_changed_ms;      /* since when the Leases are followed, or are not */
    uint64_t leases_behind_ms;       /* when the minute began in which unknown APIs may belong to unknown peers
                                        (cluster_collect.c) */
    struct loop_timer *patience;     /* fires when a time limit of cluster_collect() is over */
    bool peers_seen;                 /* cluster_peers_synced was true once */
    struct cluster_metrics metrics;
};

/* ---- cluster_peers.c ---- */

const struct peers_handler *cluster_peers_handler(void); /* with the cluster */
/* Starts polling the peer from the beginning, without its last document; tried again when out of memory. */
void cluster_start_server(struct cluster *c, struct peer *peer);
/* The host name, or the ID, of the server with this ID, which may be ours; NULL: nobody's that is known. */
const char *cluster_name_of(const struct cluster *c, const char *id);
/* As `leads_to` of cluster_server (cluster_view.h). */
const char *cluster_leads_to(const struct cluster *c, const struct peer *p);

/* ---- cluster_parts.c ---- */

size_t cluster_servers(void *arg); /* server_opts.servers, with the cluster */
/* A server to be polled. NULL when out of memory. */
MEM_CHECK struct server *cluster_new_server(struct cluster *c, struct peer *peer);
/* Makes c->identity from the host name, server ID and options in c. Once. */
void cluster_make_identity(struct cluster *c);
void cluster_make_records(struct cluster *c);
/* Takes the complete options, as c->o lacks texts and arrays. */
void cluster_configure_records(struct cluster *c, const struct cluster_opts *o);
enum identity_mode cluster_identity_mode(const struct cluster *c);
struct peers_opts cluster_peers_options(const struct cluster *c, const struct cluster_opts *o);
/* Starts whatever part of the peer side is not running, except for the peer table. When out of memory, sets
 * c->memory_retry. */
void cluster_start_peer_side(struct cluster *c);
void cluster_stop_peer_side(struct cluster *c);

/* ---- cluster_collect.c ---- */

/* The Leases can be followed from now on, or cannot, for all that the watch or readiness says. */
void cluster_note_leases(struct cluster *c);

#endif
