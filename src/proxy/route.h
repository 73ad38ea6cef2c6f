/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides where a request goes: a pure function of the request's meaning, the loop mark, the snapshot and the
 * candidates' health, tested as a table (design: the decision table; KEP-4020 "Proposal").
 */
#ifndef MVPROXY_PROXY_ROUTE_H
#define MVPROXY_PROXY_ROUTE_H

#include "cluster/readiness.h"
#include "cluster/served.h"
#include "kube/reqinfo.h"

enum { ROUTE_MAX_CANDIDATES = 16 };

enum route_action {
    ROUTE_LOCAL,     /* to the local kube-apiserver */
    ROUTE_PEER,      /* to the candidates, in their order */
    ROUTE_DISCOVERY, /* `/apis`, `/api`: by proxy/disco_serve; in legacy form as ROUTE_HEAL */
    ROUTE_HEAL,      /* legacy discovery and the index of schemas: by proxy/heal */
    ROUTE_REFRESH,   /* poll local discovery (coalesced), then route again with `refreshed` set */
    ROUTE_REFUSE,    /* 503 with `message` */
};

/* The rows of the decision table; stable names for logs, metrics and `explain`. */
enum route_row {
    ROUTE_ROW_DISABLED = 1,   /* 1: feature gate off */
    ROUTE_ROW_NON_RESOURCE,   /* 2 */
    ROUTE_ROW_REROUTED,       /* 3: carries the loop mark */
    ROUTE_ROW_NOT_SYNCED,     /* 4 */
    ROUTE_ROW_SERVED_LOCALLY, /* 5 */
    ROUTE_ROW_NO_PEERS,       /* 6 */
    ROUTE_ROW_EXCLUDED,       /* 7: CRD or aggregated APIService */
    ROUTE_ROW_PEER,           /* 8 */
    ROUTE_ROW_NO_ADDRESS,     /* 9 */
    ROUTE_ROW_PEERS_FAILED,   /* 10: not decided here, but when the candidates have failed */
    ROUTE_ROW_UNKNOWN_PEER,   /* 11 */
    ROUTE_ROW_NOBODY,         /* 12 */
    ROUTE_ROW_FORBIDDEN,      /* the local server does not let us read its discovery */
    ROUTE_ROW_NEWEST,         /* the local server serves it, but with an older schema */
    ROUTE_ROW_LOCAL_FAILOVER, /* 5a: the local server serves it, but cannot now */
    ROUTE_ROWS
};

struct route_query {
    const struct reqinfo *info;
    bool get_or_head;  /* the HTTP method; with any other, non-resource requests go to the local server */
    bool rerouted;     /* a peer sent it */
    bool may_deny;     /* and relays the local server's denial if we know that nobody has it */
    bool refreshed;    /* local discovery was polled for this request */
    bool newest;       /* skewed-resources: newest */
    bool failover;     /* local-failover is on */
    bool local_denied; /* it answered 404 to this request for a schema that its index lists */
    bool local_unread; /* to this one for what its discovery lists, which could not be read since: it is not believed */
    bool local_failed; /* it failed this request, which it certainly did not read, or which may be repeated */
    enum readiness_state local_state;
    const struct served *served;
    /* Health of a peer's origin; NULL: all healthy. */
    bool (*healthy)(const struct served_peer *p, void *arg);
    /* Whether it answers at all, as far as is known; NULL: all do. */
    bool (*reachable)(const struct served_peer *p, void *arg);
    void *arg;
    uint64_t dice; /* random number that shuffles the candidates */
};

struct route {
    enum route_action action;
    enum route_row row;
    const char *message; /* ROUTE_REFUSE: for the Status */
    const char *reason;  /* 5a: "unreachable", "starting", "failed"; else NULL. Static */
    /* ROUTE_PEER: nobody is known to serve it, and what the candidates, all live peers, deny is denied. */
    bool unserved;
    bool untold;            /* with it: one of them has to know who there is, since the Leases are not read here */
    bool older;             /* newer servers than the local one have it: an answer of the local one gets a Warning */
    uint64_t release;       /* 5a, if schemas differ: answers of peers older than this get one; 0: none */
    bool local_miss;        /* the local server's discovery lacks it: to be polled again */
    bool known_resource;    /* some server serves group/version/resource: safe as a metric label */
    bool known_subresource; /* and the requested subresource, if any */
    size_t n_candidates;
    uint16_t candidates[ROUTE_MAX_CANDIDATES]; /* indices of served peers; the healthy ones first, each part shuffled */
};

void route_decide(const struct route_query *q, struct route *out);
/* Whether a single schema is requested, and a server's index (NULL: not known) has it. False for excluded
 * group/versions, since these come and go. */
bool route_has_schema(const struct served *s, const struct reqinfo *info, const struct schema_index *x);
/* Whether, as far as is known, no peer serves it or may serve it, so that the local server's 404 is right. */
bool route_nobody_else(const struct served *s, const struct reqinfo *info);
/* Whether it is for a resource or a schema: for these peers answer while the local server is away. */
bool route_may_fail_over(const struct reqinfo *info);
/* "served-locally", "peer", … Static. */
const char *route_row_name(enum route_row row);

#endif
