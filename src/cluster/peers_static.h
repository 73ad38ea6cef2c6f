/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static peers of the configuration: a copy, with host names turned into server IDs.
 */
#ifndef MVPROXY_CLUSTER_PEERS_STATIC_H
#define MVPROXY_CLUSTER_PEERS_STATIC_H

#include "base/mem.h"
#include "kube/server_id.h"

struct cluster_static_peer;

struct peers_static_row {
    char id[SERVER_ID_BYTES];
    char *hostname; /* NULL: it is configured by its server ID */
    char *host;
    unsigned port;
};

struct peers_static {
    size_t n;
    struct peers_static_row rows[];
};

/* A name that gives no server ID is logged and left out. NULL when out of memory. */
MEM_CHECK struct peers_static *peers_static_new(const struct cluster_static_peer *list, size_t n);
void peers_static_free(struct peers_static *s); /* NULL is fine */
/* NULL if there is none. */
const struct peers_static_row *peers_static_find(const struct peers_static *s, const char *id);

#endif
