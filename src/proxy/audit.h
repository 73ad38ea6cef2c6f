/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we answer by ourselves (a refusal, a merged document) stands in no API server's audit log. It leaves a line in
 * ours, "Audit", with the fields of an audit.k8s.io/v1 Event under their names there (k8s.io/apiserver
 * pkg/apis/audit/types.go, level Metadata, stage ResponseComplete).
 *
 * Anybody can cause such lines: of each sort (documents, 401 and 403, all else) AUDIT_LINES are written in
 * AUDIT_WINDOW_MS, AUDIT_LINES_OF_ONE for one address; the first line of an address is written beyond that (of 256
 * places that addresses share), so that a few do not hide the others'. What is left out is counted, and the log says so
 * when that time is over. With the access log on, which has a line for each request anyway, all are.
 */
#ifndef MVPROXY_PROXY_AUDIT_H
#define MVPROXY_PROXY_AUDIT_H

#include "front/exchange.h"
#include "kube/reqinfo.h"
#include "proxy/authn.h"
#include "proxy/request_metrics.h"

enum { AUDIT_LINES = 100, AUDIT_LINES_OF_ONE = 50, AUDIT_WINDOW_MS = 10000 };

struct audit;
struct loop;

/* Of a request, zeroed with it; all text lives in the exchange's arena. */
struct audit_entry {
    bool own;          /* the answer is ours */
    bool unbounded;    /* the access log is on */
    const char *route; /* why it is ours, static */
    struct slice user, impersonated, sources;
    const struct slice *groups;
    size_t n_groups;
    const char *why;      /* 401: what is wrong with the certificate; static */
    struct slice verdict; /* the auditID with which the API server was asked whether this client may read it */
};

/* Ends the process when out of memory. */
struct audit *audit_new(struct loop *l, struct metrics *m);
void audit_free(struct audit *a);
/*
 * The answer will be ours: keeps what the line says of the request, before its fields are forgotten. `believed`: the
 * client may say where the request comes from. Without memory the line says less.
 */
void audit_note(struct audit_entry *e, struct exchange *x, const struct authn *au, bool believed);
/* Once per request with an answer of ours, when it ends. */
void audit_write(struct audit *a, struct exchange *x, const struct reqinfo *info, const struct audit_entry *e,
                 const struct request_summary *ended);

#endif
