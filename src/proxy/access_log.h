/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access log: which requests get a line, and the line. A request is written if one of the filters selects it;
 * sampling thins out only what nothing but "all" selects, so that errors are never sampled away. Two mvproxies that
 * saw the same request decide alike: what is drawn is its Audit-ID, the same in both and in kube-apiserver's audit log.
 */
#ifndef MVPROXY_PROXY_ACCESS_LOG_H
#define MVPROXY_PROXY_ACCESS_LOG_H

#include "base/err.h"
#include "proxy/request_metrics.h"

struct access_log {
    bool all;
    bool rerouted;    /* for resources, sent on to a peer, or sent here by one */
    bool errors;      /* access_log_is_error() */
    uint64_t slow_ms; /* from head to end, long-running requests excepted; 0: not selected by that */
    uint64_t sample;  /* of what only `all` selects, one in so many; 0 and 1: every one */
    bool user;        /* name the user */
};

/* The filters of a NULL-terminated list: all, rerouted, errors, slow=DURATION; true is all, false is nothing. */
bool access_log_parse(const char *const *filters, struct access_log *out, struct err *err);
/* Whether anything may be written at all, so that what the lines need must be kept. */
bool access_log_on(const struct access_log *l);
/* 5xx, 429, and an answer that was broken off by other than the client. */
bool access_log_is_error(const struct request_summary *e);
/* Whether this request is written; `us`: from its head to its end. */
bool access_log_selects(const struct access_log *l, const struct request_summary *e, bool from_peer, uint64_t us);
/* Once per request, when it ends: writes the line if it is selected. */
void access_log_request(const struct access_log *l, struct exchange *x, const struct reqinfo *info,
                        const struct route *r, const struct request_summary *e, bool from_peer);

#endif
