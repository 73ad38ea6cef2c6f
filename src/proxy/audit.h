/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Audit lines for the answers that mvproxy makes itself (refusals, merged documents), since these are in no API
 * server's audit log. A line of the log, "Audit", has the fields of an audit.k8s.io/v1 Event under the same names
 * (k8s.io/apiserver pkg/apis/audit/types.go, level Metadata, stage ResponseComplete; of 401, as there,
 * ResponseStarted).
 *
 * Anybody can cause such lines, so they are limited: for each sort of answer (documents, 401 and 403, all others) to
 * AUDIT_LINES in AUDIT_WINDOW_MS, of which AUDIT_LINES_OF_ONE for one address. The first line of an address is always
 * written, so that a few addresses do not hide the others (addresses are hashed to 256 places, and those that share one
 * count as one). Lines left out are counted, and the log says how many when the window is over. If the access log has
 * every request ("all"), nothing is left out.
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

/* Part of each request, zeroed at first. Texts live in the exchange's arena. */
struct audit_entry {
    bool own;          /* mvproxy made the answer */
    bool unbounded;    /* the access log has every request: no limit */
    const char *route; /* name of the row of the routing table; static */
    struct slice user, impersonated, sources;
    const struct slice *groups;
    size_t n_groups;
    const char *why;      /* 401: what is wrong with the certificate; static */
    struct slice verdict; /* auditID of the request that asked the API server whether this client may read it */
};

/* Ends the process when out of memory. */
struct audit *audit_new(struct loop *l, struct metrics *m);
void audit_free(struct audit *a);
/*
 * Keeps the facts of the request for the line; to be called once mvproxy will answer itself, before the request's
 * fields are freed. `believed`: the client's X-Forwarded-For counts. When out of memory the line has less.
 */
void audit_note(struct audit_entry *e, struct exchange *x, const struct authn *au, bool believed);
/* Writes the line; once, at the end of each request that mvproxy answered itself. */
void audit_write(struct audit *a, struct exchange *x, const struct reqinfo *info, const struct audit_entry *e,
                 const struct request_summary *ended);

#endif
