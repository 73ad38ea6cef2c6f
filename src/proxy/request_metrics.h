/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is recorded of every request: its metrics, under upstream's names where there are any, and the summary for the
 * access log and audit lines.
 */
#ifndef MVPROXY_PROXY_REQUEST_METRICS_H
#define MVPROXY_PROXY_REQUEST_METRICS_H

#include "front/exchange.h"
#include "kube/reqinfo.h"
#include "proxy/route.h"

struct request_metrics;
struct metrics;

/* request_summary.why if the client left before the end. */
#define ACCOUNT_CLIENT_GONE "client gone"

struct request_summary {
    unsigned status;       /* as sent to the client; 0: nothing was */
    const char *peer;      /* host name of the peer that answered; NULL: the local server or mvproxy */
    const char *why;       /* why it failed: "client gone", ...; static; NULL: it did not */
    const char *user_kind; /* "certificate", "front-proxy", "pass", "refused" */
    unsigned attempts;     /* requests made to servers */
    size_t own_bytes; /* of the body of an answer of mvproxy's own, which is sent when the request has been counted */
    bool long_running;
    bool unavailable;        /* an answer of 503 is mvproxy's own: no server that could answer was reached */
    bool custom;             /* for the metrics: of a CRD or an aggregated API server; only set if that matters */
    bool anonymous;          /* it came with no credential: neither certificate nor token (authn.h) */
    bool vouched;            /* its certificate was verified, or a server has taken its token within a day */
    bool apply;              /* its Content-Type is that of server-side apply */
    bool aggregated;         /* it asks for the aggregated form of discovery */
    struct slice user;       /* for the access log: set if it logs users and the proxy knows the user */
    struct slice user_agent; /* for the access log */
    struct slice audit_id;   /* for the access log: the answer's, before that the request's */
};

enum request_metrics_peer_error { PEER_ERROR_ENDPOINT_RESOLUTION, PEER_ERROR_PROXY_TRANSPORT };

/* Ends the process when out of memory. */
struct request_metrics *request_metrics_new(struct metrics *m);
void request_metrics_free(struct request_metrics *a);

/*
 * The Audit-ID for an answer of mvproxy's own: the client's, whoever that is, or a new one, as in k8s.io/apiserver
 * pkg/endpoints/filters/audit_init.go. SLICE_NONE when out of memory.
 */
struct slice request_summary_own_audit_id(struct request_summary *e, struct arena *a);
/*
 * Gives a request to a server an Audit-ID: the client's, or one of ours. The server uses it, so its audit log has the
 * request under that. `a` lives as long as the exchange, `head_arena` as the head. False when out of memory.
 */
MEM_CHECK bool request_summary_name_head(struct request_summary *e, struct http_head *h, struct arena *a,
                                         struct arena *head_arena);
/* Whether the status shows that a server authenticated the client: not one that anybody can get at will, and not to a
 * request without credentials, which RBAC may allow some things. */
bool request_summary_was_heard(const struct request_summary *e);
/* Takes the Audit-ID of a server's answer, if it has one. */
void request_summary_note_answer(struct request_summary *e, const struct http_head *h);
/* Takes the request's fields for the access log, by reference: they must live until the request ends, or until
 * request_summary_keep_head() has copied what the log would write. */
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
/* A client certificate that ends in `seconds_left` was used to authenticate a request. */
void request_metrics_certificate(struct request_metrics *a, int64_t seconds_left);
void request_metrics_retry(struct request_metrics *a, const char *reason);

#endif
