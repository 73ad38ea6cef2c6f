/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access log: selects the requests that get a line, and writes it. A request is logged if one of the filters
 * selects it. Sampling applies only to requests that no filter but "all" selects, so errors are never sampled away. It
 * goes by the Audit-ID, which is the same in every mvproxy that a request passes and in kube-apiserver's audit log, so
 * all of them decide alike.
 */
#ifndef MVPROXY_PROXY_ACCESS_LOG_H
#define MVPROXY_PROXY_ACCESS_LOG_H

#include "base/err.h"
#include "proxy/request_metrics.h"

struct access_log {
    bool all;
    bool rerouted;    /* for resources, sent on to a peer, or sent here by one */
    bool errors;      /* access_log_is_error() */
    uint64_t slow_ms; /* least time from head to end; not for long-running requests. 0: off */
    uint64_t sample;  /* one in `sample` of what only `all` selects; 0 and 1: every one */
    bool user;        /* lines have the user's name */
};

/* The filters of a NULL-terminated list: all, rerouted, errors, slow=DURATION; true is all, false is nothing. */
bool access_log_parse(const char *const *filters, struct access_log *out, struct err *err);
/* Whether any line may be written, so that the facts for lines must be kept. */
bool access_log_on(const struct access_log *l);
/* 5xx, 429, and answers that were broken off, unless by the client. */
bool access_log_is_error(const struct request_summary *e);
/* Whether this request is logged; `us`: microseconds from its head to its end. */
bool access_log_selects(const struct access_log *l, const struct request_summary *e, bool from_peer, uint64_t us);
/* Once per request, when it ends: writes the line if it is selected. */
void access_log_request(const struct access_log *l, struct exchange *x, const struct reqinfo *info,
                        const struct route *r, const struct request_summary *e, bool from_peer);

#endif
