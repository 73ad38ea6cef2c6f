/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one server's discovery: /api and /apis at once, within one deadline, each conditionally and as it comes
 * (aggregated v2 or v2beta1, or the legacy list, which is walked), parsed in pieces that never hold up the loop.
 */
#ifndef MVPROXY_CLUSTER_DISCO_FETCH_H
#define MVPROXY_CLUSTER_DISCO_FETCH_H

#include "kube/disco.h"

struct api;
struct disco_fetch;
struct origin;

struct disco_fetch_opts {
    struct api *api;
    struct origin *origin;
    bool peer;                         /* ask with the loop marks */
    const struct disco *last;          /* what is known; NULL: nothing */
    struct slice core_etag, apis_etag; /* of `last`; empty: none */
    uint64_t timeout_ms;
};

enum disco_outcome { DISCO_CHANGED, DISCO_UNCHANGED, DISCO_FAILED };

struct disco_fetch_result {
    enum disco_outcome outcome;
    const char *failure;               /* FAILED; valid during the call */
    bool refused;                      /* FAILED: because it says that we may not know (401, 403) */
    size_t requests;                   /* what it cost the server */
    unsigned failed_paths;             /* FAILED: 1 or 2, as upstream's metric counts them */
    const struct disco *disco;         /* CHANGED: disco_ref it to keep it */
    struct slice core_etag, apis_etag; /* CHANGED, UNCHANGED: as they are now; valid during the call */
    bool mvproxy;                      /* CHANGED, UNCHANGED: all answers came through an mvproxy */
    uint64_t core_connection;          /* CHANGED, UNCHANGED: over which /api was answered (fetch_result) */
};

typedef void disco_fetch_fn(void *arg, const struct disco_fetch_result *r);

/* fn is called once, never from inside, and the fetch is over then. NULL when out of memory. */
MEM_CHECK struct disco_fetch *disco_fetch_start(const struct disco_fetch_opts *o, disco_fetch_fn *fn, void *arg);
/* No call any more. Not from inside fn. */
void disco_fetch_cancel(struct disco_fetch *f);

#endif
