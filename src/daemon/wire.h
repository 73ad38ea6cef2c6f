/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates the configuration into the options of each module, since nothing below daemon/ knows struct config.
 */
#ifndef MVPROXY_DAEMON_WIRE_H
#define MVPROXY_DAEMON_WIRE_H

#include "back/back.h"
#include "cluster/cluster.h"
#include "daemon/config.h"
#include "daemon/derive.h"
#include "daemon/trust.h"
#include "front/front.h"
#include "kube/user.h"
#include "proxy/proxy.h"

struct wire_peers {
    struct cluster_static_peer *list; /* in the configuration's arena */
    size_t n;
};

/* The networks in which peers may be dialled (peer-allowed-cidrs). Origins of several configurations use the same one,
 * so that lives as long as the program. */
struct wire_networks;
MEM_CHECK struct wire_networks *wire_networks_new(const struct config *c);
void wire_networks_free(struct wire_networks *n);
bool wire_networks_same(const struct wire_networks *a, const struct wire_networks *b);
/* Moves the rule of `from` to `into`, which takes effect at once for every origin; frees `from`. */
void wire_networks_replace(struct wire_networks *into, struct wire_networks *from);

/* What the cluster needs besides plain options: servers, allowed networks, and the names of identity headers. */
struct wire_surroundings {
    struct origin *local;
    struct wire_networks *networks;
    struct origin *etcd[ETCD_SERVERS_MAX];
    size_t n_etcd;
    struct wire_peers peers;
    char advertise[DERIVE_HOST_BYTES]; /* "ip:port" where peers reach us; "": not told */
    bool annotate;                     /* write that also into a Lease that the server publishes itself */
    struct user_headers headers;       /* text and arrays in the configuration's arena */
};

/* The configuration has been checked, so these fail only when out of memory (NULL or false). */
MEM_CHECK struct origin *wire_local_origin(struct back *b, const struct config *c, const struct trust *t,
                                           const char *hostname);
MEM_CHECK bool wire_static_peers(const struct config *c, struct wire_peers *out);
/* Makes all of it. After false the caller has to free what was made (local, networks, etcd). */
MEM_CHECK bool wire_surroundings_make(struct back *b, const struct config *c, const struct trust *t,
                                      const char *hostname, struct wire_surroundings *out);
MEM_CHECK bool wire_etcd(struct back *b, const struct config *c, const struct trust *t, struct wire_surroundings *out);
void wire_etcd_free(struct wire_surroundings *s);
void wire_cluster(const struct config *c, const struct trust *t, const struct wire_surroundings *s,
                  const char *hostname, struct cluster_opts *out);
void wire_proxy(const struct config *c, const struct trust *t, struct origin *local, struct proxy_opts *out);
void wire_front(const struct config *c, const struct trust *t, struct front_opts *out);
/* Logs which limits are lower than they are configured. */
void wire_say_limits(const struct config *c);
#endif
