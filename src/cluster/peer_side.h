/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other servers: who there is (peers.h) by the Leases (leases.h), what each of them serves and whether it answers
 * (server.h), and what is never taken from them (exclusions.h). While peers are off there is none of it: the table is
 * empty, Leases and exclusions are NULL, as they are also when out of memory, which is tried again.
 */
#ifndef MVPROXY_CLUSTER_PEER_SIDE_H
#define MVPROXY_CLUSTER_PEER_SIDE_H

#include "base/err.h"
#include "cluster/cluster_env.h"
#include "cluster/peers.h"

struct exclusions;
struct leases;
struct local;
struct peer_side;

struct peer_side_handler {
    void (*added)(void *arg, const char *id);            /* a peer is new in the table */
    void (*watch)(void *arg, const char *why);           /* leases_handler.on_health */
    void (*own_lease)(void *arg, const struct lease *l); /* leases_handler.on_own */
};

/* Read-only; peers, leases and exclusions may be used through their functions. */
struct peer_side {
    const struct cluster_env *env;
    struct local *local;
    const struct peer_side_handler *handler;
    void *arg;
    struct peers *peers;
    struct leases *leases;
    struct exclusions *exclusions;
    struct loop_timer *retry; /* of what there was no memory for */
};

/* Ends the process when out of memory. Nothing is there before peer_side_start(). */
struct peer_side *peer_side_new(const struct cluster_env *env, struct local *local, const struct peer_side_handler *h,
                                void *arg);
void peer_side_free(struct peer_side *s); /* NULL is fine */

/* At start and at a reload: what is there and has the same options goes on undisturbed. `anew`: peers are reached in
 * another way. `moved`: the local server is another one. */
void peer_side_start(struct peer_side *s, bool anew, bool moved);
void peer_side_stop(struct peer_side *s);
void peer_side_retry(struct peer_side *s); /* the local server is back */

struct server *peer_side_server(const struct peer_side *s, const char *id); /* NULL: there is none */
/* peer_named(). */
struct peer *peer_side_named(struct peer_side *s, const char *name, bool drained, struct err *err);
/* Whether at its address answers who is this peer, as far as that can be told. */
bool peer_side_answers(const struct peer_side *s, const struct peer *p);
/* As `leads_to` of cluster_server (cluster_view.h). */
const char *peer_side_leads_to(const struct peer_side *s, const struct peer *p);
/* Number of servers that are probed, the local one included. */
size_t peer_side_servers(const struct peer_side *s);
/* Whether it would be seen that the local server goes. Who may not watch never sees it. */
bool peer_side_watches(const struct peer_side *s);
/* Polls the live ones that answered last time. Returns how many peers there are. */
size_t peer_side_poll(struct peer_side *s);

#endif
