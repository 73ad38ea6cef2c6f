/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads one server's discovery: /api and /apis in parallel and within one deadline, each as a conditional request.
 * Accepts aggregated v2 or v2beta1, or the legacy list, of which every group/version is then requested (legacy_walk.h).
 * Answers are parsed in pieces that do not hold up the loop.
 */
#ifndef MVPROXY_CLUSTER_DISCO_FETCH_H
#define MVPROXY_CLUSTER_DISCO_FETCH_H

#include "cluster/api.h"
#include "kube/disco.h"

struct api;
struct disco_fetch;
struct origin;

struct disco_fetch_opts {
    struct api *api;
    struct origin *origin;
    bool peer;                         /* ask with the loop marks */
    const struct disco *last;          /* the last document; NULL: none */
    struct slice core_etag, apis_etag; /* of `last`; empty: none */
    uint64_t timeout_ms;
    /* The name of the known server, not this one, before which an mvproxy with this server ID stands; NULL: it may be
     * this one's. NULL: nobody asks. */
    const char *(*another)(void *arg, const char *id);
    void *arg; /* of `another` */
};

enum disco_outcome { DISCO_CHANGED, DISCO_UNCHANGED, DISCO_FAILED };

struct disco_fetch_result {
    enum disco_outcome outcome;
    const char *failure;               /* FAILED; valid during the call */
    unsigned refused;                  /* FAILED: it was answered 401 or 403: which; 0: neither */
    bool odd;                          /* FAILED: an answer is a discovery document that we cannot read */
    size_t requests;                   /* number of requests made */
    unsigned failed_paths;             /* FAILED: 1 or 2, as upstream's metric counts them */
    const struct disco *disco;         /* CHANGED: disco_ref it to keep it */
    struct slice core_etag, apis_etag; /* CHANGED, UNCHANGED: of the present documents; valid during the call */
    bool mvproxy;                      /* CHANGED, UNCHANGED: all answers came through an mvproxy */
    enum api_word word;                /* of the server as it answered with /apis (api.h) */
    uint64_t core_connection; /* CHANGED, UNCHANGED: the connection over which /api was answered (fetch_result) */
};

typedef void disco_fetch_fn(void *arg, const struct disco_fetch_result *r);

/* fn is called once, never from inside, and the fetch must not be used after that. NULL when out of memory. */
MEM_CHECK struct disco_fetch *disco_fetch_start(const struct disco_fetch_opts *o, disco_fetch_fn *fn, void *arg);
/* Frees it; fn is not called. Not from inside fn. */
void disco_fetch_cancel(struct disco_fetch *f);

#endif
