/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of the cluster.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_OPTS_H
#define MVPROXY_CLUSTER_CLUSTER_OPTS_H

#include "kube/request_header.h"

struct changes;
struct egress_proxy;
struct origin;
struct sockaddr;
struct tls_ctx;
struct user_headers;

/* What becomes of the identity Lease of this server (identity.h). */
enum identity_mode {
    IDENTITY_OFF,
    IDENTITY_AUTO,    /* publish if the local server is older than 1.26, or renews none, and nobody else does so */
    IDENTITY_OBSERVE, /* never publish; at most add the address for peers to the server's own Lease */
    IDENTITY_PUBLISH,
};

struct cluster_static_peer {
    const char *name; /* server ID or host name (turned into its server ID) */
    const char *host;
    unsigned port;
};

struct cluster_opts {
    bool peers_enabled;        /* feature gate on and peer trust configured; false: local knowledge only */
    const char *hostname;      /* of this node: gives the own server ID */
    struct origin *local;      /* the local kube-apiserver */
    const char *user;          /* user of our own requests: X-Remote-User, X-Remote-Group */
    const char *const *groups; /* NULL-terminated */
    int64_t front_until_s;     /* end of the front-proxy certificate, in seconds since 1970; 0: there is none */
    const struct user_headers *headers; /* names of the headers; NULL: the standard ones. Must outlive the cluster */
    struct tls_ctx *peer_tls_cert, *peer_tls_no_cert; /* towards peers; must live until the next cluster_update */
    const struct cluster_static_peer *static_peers;   /* must live until the next cluster_update, too */
    size_t n_static_peers;
    /* peer-allowed-cidrs; NULL: any but special addresses (peer.c) */
    bool (*peer_allowed)(const struct sockaddr *addr, void *arg);
    void *peer_allowed_arg;
    struct egress_proxy *peer_egress; /* egress proxy towards peers; NULL: none. Lives as long as peer_tls_* */
    bool peer_rule_changed;           /* cluster_update only: peer_allowed gives other results than before */
    uint64_t refresh_interval_ms, stale_after_ms, forget_after_ms; /* see peers.h */
    uint64_t leave_grace_ms; /* 0: a peer is forgotten as soon as its Lease is deleted */
    enum identity_mode identity;
    const char *advertise;              /* "ip:port" under which peers reach us; NULL: not told */
    struct request_header front;        /* the front proxies that we accept; must live until the next cluster_update */
    bool annotate;                      /* write `advertise` also into a Lease that the local server publishes itself */
    struct origin *const *etcd_servers; /* for peer endpoint records; n_etcd_servers 0: none */
    size_t n_etcd_servers;
    const char *etcd_prefix;
    bool local_failover;     /* peers may take over while the local server is not ready */
    bool pulse;              /* probe each server (pulse.h) */
    struct changes *changes; /* list of changes for people; NULL: not kept. Must outlive the cluster */
};

#endif
