/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole data plane in one loop: clients, front, proxy, back, and servers that say exactly what the test tells them
 * to. Plain text on loopback. What the proxy knows of the cluster is what the test says (sim/fake_cluster.h).
 */
#ifndef MVPROXY_TESTS_UNIT_PROXY_KIT_H
#define MVPROXY_TESTS_UNIT_PROXY_KIT_H

#include "base/buf.h"
#include "lib/tap.h"
#include "net/stream.h"
#include "proxy/proxy.h"
#include "sim/fake_cluster.h"

enum { PROXY_KIT_PEERS = 3, PROXY_KIT_CONNS = 160, PROXY_KIT_BYTES = 32 << 20 };

/* An end of a connection that the test plays. */
struct played_end {
    struct proxy_kit *w;
    struct stream *s; /* NULL once closed */
    struct buf got;   /* unless `count_only` */
    uint64_t n_got;
    bool opened, eof, failed;
    bool count_only, stopped; /* stopped: reads nothing */
};

struct played_server {
    struct proxy_kit *w;
    struct listener *listener;
    struct origin *origin;
    unsigned port;
    struct played_end conns[PROXY_KIT_CONNS];
    size_t n_conns;
    bool refuse; /* what connects is cut off at once */
};

struct proxy_kit {
    struct loop *loop;
    struct metrics *metrics;
    struct back *back;
    struct front *front;
    struct proxy *proxy;
    struct cluster *cluster;                /* what it says, and was told */
    struct proxy_opts opts;                 /* may be changed before proxy_kit_start() */
    struct tls_ctx *front_tls, *client_tls; /* NULL: plain text; may be set before proxy_kit_start(), ours then */
    struct tls_ctx *server_tls, *back_tls;  /* of proxy_kit_init_tls() */
    struct played_server local, peers[PROXY_KIT_PEERS];
    size_t n_peers;
    bool forbidden;      /* the local server does not let us read its discovery */
    bool local_has_jobs; /* the local server serves batch/v1 jobs, too */
    enum { PROXY_KIT_JOB, PROXY_KIT_UNNAMED, PROXY_KIT_JAB } local_singular; /* what it calls one; the peers: job */
    size_t peers_without_jobs; /* of the peers so many, from the first; the others serve batch/v1 jobs */
    size_t without_list;       /* this peer, from 1, serves batch/v1 jobs without the verb; 0: all have it */
    size_t peers_lapsed;       /* so many from the first; the others are live */
    size_t peers_drained;      /* likewise */
    bool behind;               /* the Leases cannot be followed now */
    bool peers_pending;        /* they are there, and have not said what they serve */
    bool jobs_excluded;        /* what the proxy knows: batch/v1 is a custom resource or an aggregated API */
    bool jobs_aggregated;      /* an aggregated API, to be precise */
    bool unread_leases;        /* it is not known who there is */
    bool short_of_memory;      /* the test's own parts may fail, too */
    const char *document;      /* the merged one; NULL: proxy_kit_document() */
    bool document_is_long;     /* when it is laid out */
    const char *local_schemas, *peer_schemas; /* what /openapi/v3 said; NULL: not known */
    const char *last_schemas;                 /* each peer's, of an earlier process; NULL: none */
    size_t without_schemas;                   /* of the peers so many, from the first */
    bool schemas_pending;                     /* each peer's are about to be read */
    bool jobs_undiscovered;                   /* a stored APIService names batch/v1, and of somebody nothing is known */
    struct quota *schemas_quota;              /* to which these are charged; NULL: nobody counts */
    const char *peer_host;                    /* of each peer; NULL: its ID */
    uint64_t local_release, peer_release;     /* of Kubernetes, each peer's; 0: not known */
    bool has_protobuf;                        /* the merged documents are there in protobuf form */
    struct played_end clients[PROXY_KIT_CONNS];
    size_t n_clients;
};

#define JOBS "/apis/batch/v1/namespaces/d/jobs"
#define PODS "/api/v1/namespaces/d/pods"
/* Of the merged documents; the local server's own is "L". */
#define PROXY_KIT_ETAG FAKE_CLUSTER_ETAG
#define PROXY_KIT_PROTOBUF "(merged, in protobuf)"
const char *proxy_kit_document(void);

void proxy_kit_init(struct proxy_kit *w, size_t n_peers);
/* The same with servers that speak TLS, and what we dial them with; both are ours then. */
void proxy_kit_init_tls(struct proxy_kit *w, size_t n_peers, struct tls_ctx *server, struct tls_ctx *back);
void proxy_kit_start(struct proxy_kit *w);
/* init and start */
void proxy_kit_open(struct proxy_kit *w, size_t n_peers);
/* Other options from now on. */
void proxy_kit_reload(struct proxy_kit *w, const struct proxy_opts *o);
/* Frees all and checks that nothing is left under way. */
void proxy_kit_close(struct proxy_kit *w);
/* What the cluster knows, made anew out of w (after a change of local_has_jobs, say). */
void proxy_kit_know(struct proxy_kit *w);
/* The refresh that a request waits for ends. */
void proxy_kit_refreshed(struct proxy_kit *w);
bool proxy_kit_waiting(const struct proxy_kit *w);
double proxy_kit_metric(struct proxy_kit *w, const char *name, const char *label_value);

/* Runs the loop until the condition holds or ten seconds have passed (false). */
#define until(w, cond)                                                                                                 \
    ({                                                                                                                 \
        for (unsigned turn_ = 0; turn_ < 2000 && !(cond); turn_++)                                                     \
            loop_run_once((w)->loop, 5);                                                                               \
        (cond);                                                                                                        \
    })
void proxy_kit_settle(struct proxy_kit *w);

struct played_end *client(struct proxy_kit *w);
/* The server's nth connection, from 0. */
struct played_end *conn(struct played_server *s, size_t n);
void say(struct played_end *s, const char *text);
void say_bytes(struct played_end *s, struct slice bytes);
bool has(struct played_end *s, const char *text);
bool got(const struct played_end *s, const char *text); /* without waiting */
bool ended(struct played_end *s);                       /* waits for EOF or failure */
void stop_reading(struct played_end *s);
void go_on_reading(struct played_end *s);
void hang_up(struct played_end *s, enum stream_close_how how);

#endif
