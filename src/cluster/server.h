/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An API server as it is asked, the local one or a peer: what it serves, by which schemas, and whether it is there.
 * What becomes of that is told in the list of changes, by the name that people know it by.
 */
#ifndef MVPROXY_CLUSTER_SERVER_H
#define MVPROXY_CLUSTER_SERVER_H

#include "cluster/pulse.h"
#include "cluster/refresh.h"
#include "cluster/schemas.h"

struct changes;
struct peer;
struct server;

struct server_opts {
    struct api *api;
    struct peer *peer;    /* NULL: the local server */
    const char *hostname; /* of the local server; outlives it */
    uint64_t interval_ms; /* of discovery */
    struct cluster_metrics *metrics;
    struct changes *changes;      /* may be NULL */
    size_t (*servers)(void *arg); /* how many servers are asked */
    /* As refresh_opts.on_end. */
    void (*polled)(void *arg, struct server *s, bool ok, bool changed);
    void (*schemas_changed)(void *arg);
    void *arg;
};

/* Read-only but for their functions. */
struct server {
    struct server_opts o;
    struct refresh *discovery;
    struct schemas *schemas;
    struct pulse *pulse;
    struct version said; /* the last version that was told of; empty texts before */
};

/* NULL when out of memory. Asks nobody without an origin. */
MEM_CHECK struct server *server_new(const struct server_opts *o);
void server_free(struct server *s); /* NULL is fine */
/* `pulse`: it is also asked once a second whether it is there. */
void server_set_origin(struct server *s, struct origin *o, bool pulse);
/* Another process is there, or may be: what is known of it is kept, and is no knowledge. */
void server_invalidate(struct server *s);

#endif
