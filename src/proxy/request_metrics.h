/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of every request: metrics under upstream's names, and the access log.
 */
#ifndef MVPROXY_PROXY_REQUEST_METRICS_H
#define MVPROXY_PROXY_REQUEST_METRICS_H

#include "front/exchange.h"
#include "kube/reqinfo.h"
#include "proxy/route.h"

struct request_metrics;
struct metrics;

/* request_summary.why of who did not wait for the end. */
#define ACCOUNT_CLIENT_GONE "client gone"

struct request_summary {
    unsigned status;       /* as sent to the client; 0: nothing was */
    const char *peer;      /* host name of who answered, NULL: local or ourselves */
    const char *why;       /* how it ended when not well: "client gone", … static */
    const char *user_kind; /* "certificate", "front-proxy", "pass", "refused" */
    unsigned attempts;     /* requests made to servers */
    bool long_running;
    bool unavailable;        /* the answer, if it is 503, is an mvproxy's own: nobody who could answer was reached */
    bool custom;             /* for the metrics: of a CRD or an aggregated API server; only told where it matters */
    bool apply;              /* its Content-Type is that of server-side apply */
    struct slice user;       /* for the access log, if it wants to know and the proxy knows it */
    struct slice user_agent; /* for the access log */
    struct slice audit_id;   /* likewise: the answer's; until there is one the request's */
};

enum request_metrics_peer_error { PEER_ERROR_ENDPOINT_RESOLUTION, PEER_ERROR_PROXY_TRANSPORT };

/* Ends the process when out of memory. */
struct request_metrics *request_metrics_new(struct metrics *m);
void request_metrics_free(struct request_metrics *a);

/*
 * The Audit-ID of an answer of our own: the client's, whoever it is, or a new one (k8s.io/apiserver
 * pkg/endpoints/filters/audit_init.go). NONE when out of memory.
 */
struct slice request_summary_own_audit_id(struct request_summary *e, struct arena *a);
/*
 * The request that goes to a server carries an Audit-ID: the client's, or one of ours, which the server takes, so that
 * its audit log has this request under it. `a` lives as long as the exchange, `head_arena` as the head. False when out
 * of memory.
 */
MEM_CHECK bool request_summary_name_head(struct request_summary *e, struct http_head *h, struct arena *a,
                                         struct arena *head_arena);
/* The answer's, of a server that has one. */
/* Whether its answer shows that a server knew who asked: what strangers can have at will counts for nothing. */
bool request_summary_was_heard(const struct request_summary *e);
void request_summary_note_answer(struct request_summary *e, const struct http_head *h);
/* For the access log: what it says of the request's fields. They must live until the request ends, or until
 * request_summary_keep_head() has copied from them what the log would write. */
void request_summary_note_head(struct request_summary *e, const struct http_head *h);
void request_summary_keep_head(struct request_summary *e, struct arena *a);
/* Once per request, when it ends. */
void request_metrics_count(struct request_metrics *a, struct exchange *x, const struct reqinfo *info,
                           const struct route *r, const struct request_summary *e);
/* apiserver_rerouted_request_total: once per request sent to a peer, with the code the client got. */
void request_metrics_rerouted(struct request_metrics *a, unsigned status, const struct reqinfo *info);
void request_metrics_peer_error(struct request_metrics *a, enum request_metrics_peer_error type,
                                const struct reqinfo *info);
void request_metrics_discovery_hit(struct request_metrics *a);
void request_metrics_discovery_nopeer(struct request_metrics *a);
void request_metrics_tunnel(struct request_metrics *a, int change); /* +1 / -1 */
void request_metrics_tunnel_bytes(struct request_metrics *a, uint64_t from_client, uint64_t from_server);
/* A client's certificate was looked at to authenticate a request; it ends in so many seconds. */
void request_metrics_certificate(struct request_metrics *a, int64_t seconds_left);
void request_metrics_retry(struct request_metrics *a, const char *reason);

#endif
