/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of the two discovery documents of one server (/api or /apis): asked for conditionally, taken as it comes
 * (aggregated v2 or v2beta1, or the legacy list, which starts a walk over its group/versions), parsed in steps that
 * never hold up the loop.
 */
#ifndef MVPROXY_CLUSTER_DISCO_HALF_H
#define MVPROXY_CLUSTER_DISCO_HALF_H

#include "base/mem.h"

struct api;
struct disco_doc;
struct disco_half;
struct origin;

struct disco_half_opts {
    struct api *api;
    struct origin *origin;
    bool peer;                  /* ask with the loop marks */
    bool core;                  /* /api (whose absence is fine), else /apis */
    struct slice if_none_match; /* of the document already known; empty: none */
    uint64_t timeout_ms;
};

struct disco_half_result {
    bool ok;
    const char *failure;   /* when not ok; valid during the call */
    bool refused;          /* when not ok: it says that we may not know (401, 403) */
    bool not_modified;     /* 304: what was known still holds */
    struct disco_doc *doc; /* the receiver's reference; NULL if not_modified, or /api does not exist */
    struct slice etag;     /* as sent; empty if none; valid during the call */
    bool mvproxy;          /* when ok: the answer says that an mvproxy stands there (USER_HOP) */
    uint64_t connection;   /* when ok: fetch_result's */
};

typedef void disco_half_fn(void *arg, const struct disco_half_result *r);

/* fn is called once, never from inside, and the half is over then. NULL when out of memory. */
MEM_CHECK struct disco_half *disco_half_start(const struct disco_half_opts *o, disco_half_fn *fn, void *arg);
/* No call any more. */
void disco_half_cancel(struct disco_half *h);

#endif
