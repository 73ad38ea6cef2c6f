/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of every request: metrics under upstream's names, and the access log.
 */
#ifndef MVPROXY_PROXY_ACCOUNT_H
#define MVPROXY_PROXY_ACCOUNT_H

#include "front/exchange.h"
#include "kube/reqinfo.h"
#include "proxy/route.h"

struct account;
struct metrics;

/* account_entry.why of who did not wait for the end. */
#define ACCOUNT_CLIENT_GONE "client gone"

struct account_entry {
    unsigned status;       /* as sent to the client; 0: nothing was */
    const char *peer;      /* host name of who answered, NULL: local or ourselves */
    const char *why;       /* how it ended when not well: "client gone", … static */
    const char *user_kind; /* "certificate", "front-proxy", "pass", "refused" */
    unsigned attempts;     /* requests made to servers */
    bool long_running;
    bool custom;             /* for the metrics: of a CRD or an aggregated API server; only told where it matters */
    bool apply;              /* its Content-Type is that of server-side apply */
    struct slice user;       /* for the access log, if it wants to know and the proxy knows it */
    struct slice user_agent; /* for the access log */
    struct slice audit_id;   /* likewise: the answer's; until there is one the request's */
};

enum account_peer_error { ACCOUNT_ENDPOINT_RESOLUTION, ACCOUNT_PROXY_TRANSPORT };

/* Ends the process when out of memory. */
struct account *account_new(struct metrics *m);
void account_free(struct account *a);

/*
 * The Audit-ID of an answer of our own: the client's, whoever it is, or a new one (k8s.io/apiserver
 * pkg/endpoints/filters/audit_init.go). NONE when out of memory.
 */
struct slice account_own_audit_id(struct account_entry *e, struct arena *a);
/* The answer's, of a server that has one. */
void account_note_answer(struct account_entry *e, const struct http_head *h);
/* For the access log: what it says of the request's fields. They must live until the request ends, or until
 * account_keep_head() has copied from them what the log would write. */
void account_note_head(struct account_entry *e, const struct http_head *h);
void account_keep_head(struct account_entry *e, struct arena *a);
/* Once per request, when it ends. */
void account_request(struct account *a, struct exchange *x, const struct reqinfo *info, const struct route *r,
                     const struct account_entry *e);
/* apiserver_rerouted_request_total: once per request sent to a peer, with the code the client got. */
void account_rerouted(struct account *a, unsigned status, const struct reqinfo *info);
void account_peer_error(struct account *a, enum account_peer_error type, const struct reqinfo *info);
void account_discovery_hit(struct account *a);
void account_discovery_nopeer(struct account *a);
void account_tunnel(struct account *a, int change); /* +1 / -1 */
void account_tunnel_bytes(struct account *a, uint64_t from_client, uint64_t from_server);
/* A client's certificate was looked at to authenticate a request; it ends in so many seconds. */
void account_certificate(struct account *a, int64_t seconds_left);
void account_retry(struct account *a, const char *reason);

#endif
