/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is polled of an API server, the local one or a peer: its discovery, its schemas, and whether it answers. Changes
 * are recorded, under its host name, in the list of changes.
 */
#ifndef MVPROXY_CLUSTER_SERVER_H
#define MVPROXY_CLUSTER_SERVER_H

#include "cluster/cluster_env.h"
#include "cluster/pulse.h"
#include "cluster/refresh.h"
#include "cluster/schemas.h"

struct peer;
struct server;

struct server_handler {
    /* As refresh_opts.on_end. */
    void (*polled)(void *arg, struct server *s, bool ok, bool changed);
    /* The name of the server with this ID; NULL if that is not known. Not called for the local server. */
    const char *(*known)(void *arg, const char *id);
    /* It no longer answers probes. May be NULL. */
    void (*silent)(void *arg, struct server *s);
};

/* Read-only; refresh, schemas and pulse may be used through their functions. */
struct server {
    const struct cluster_env *env;
    struct peer *peer; /* NULL: the local server */
    const struct server_handler *handler;
    void *arg;
    struct refresh *discovery;
    struct schemas *schemas;
    struct pulse *pulse;
    struct version said; /* the last version recorded as a change; empty texts before */
    bool elsewhere;      /* when it was last told of, its address led to another server */
};

/* NULL when out of memory. Nothing is polled before server_set_origin(). A snapshot is requested when something of it
 * is new. */
MEM_CHECK struct server *server_new(const struct cluster_env *env, struct peer *peer, const struct server_handler *h,
                                    void *arg);
void server_free(struct server *s); /* NULL is fine */
/* NULL: polling stops. `pulse`: it is also probed (pulse.h). */
void server_set_origin(struct server *s, struct origin *o, bool pulse);
/* Another process may answer for it: discovery is kept, but counts as not known; the schemas are forgotten. */
void server_invalidate(struct server *s);

#endif
