/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where does this request go? A pure function of the request's meaning, the loop mark, the served snapshot and the
 * candidates' health: the heart of the program, tested as a table (design: the decision table; KEP-4020 "Proposal").
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
    ROUTE_DISCOVERY, /* `/apis`, `/api`: answered by proxy/disco_serve, or as follows in its legacy form */
    ROUTE_HEAL,      /* legacy discovery, the index of schemas: by proxy/heal */
    ROUTE_REFRESH,   /* refresh local discovery (coalesced), then route again with `refreshed` set */
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
    ROUTE_ROW_PEERS_FAILED,   /* 10: never decided here, but by what happens afterwards */
    ROUTE_ROW_UNKNOWN_PEER,   /* 11 */
    ROUTE_ROW_NOBODY,         /* 12 */
    ROUTE_ROW_FORBIDDEN,      /* the local server does not let us know what it serves */
    ROUTE_ROW_NEWEST,         /* the local server would, with an older schema */
    ROUTE_ROW_LOCAL_FAILOVER, /* 5a: the local server would, but cannot now */
    ROUTE_ROWS
};

struct route_query {
    const struct reqinfo *info;
    bool get_or_head;  /* the HTTP method: only these are anything but local where no resource is asked for */
    bool rerouted;     /* a peer has sent this on already */
    bool refreshed;    /* local discovery was refreshed for this request */
    bool newest;       /* skewed-resources: newest */
    bool failover;     /* local-failover is on */
    bool local_denied; /* for this request: it said 404 to a schema that its index names */
    bool local_failed; /* for this request: it certainly was not read, or may be sent again */
    enum readiness_state local_state;
    const struct served *served;
    /* Health of a peer's origin; NULL: all healthy. */
    bool (*healthy)(const struct served_peer *p, void *arg);
    void *arg;
    uint64_t dice; /* random: shuffles the candidates */
};

struct route {
    enum route_action action;
    enum route_row row;
    const char *message;    /* ROUTE_REFUSE: for the Status */
    const char *reason;     /* 5a: "unreachable", "starting", "failed"; else NULL. Static */
    bool older;             /* the local server is not the newest that has it: its answer needs a Warning */
    uint64_t release;       /* 5a, where schemas differ: an answer of a peer older than that needs one; 0: none does */
    bool local_miss;        /* the local server lacks the resource as far as we know: its discovery wants a look */
    bool known_resource;    /* somebody serves group/version/resource: safe as a metric label */
    bool known_subresource; /* and the subresource that was named, if any */
    size_t n_candidates;
    uint16_t candidates[ROUTE_MAX_CANDIDATES]; /* indices of served peers; the healthy ones first, each part shuffled */
};

void route_decide(const struct route_query *q, struct route *out);
/* Is it one schema, and has that server's index (NULL: not known) it? Not of what is excluded: that comes and goes. */
bool route_has_schema(const struct served *s, const struct reqinfo *info, const struct schema_index *x);
/* What the local server says that it does not have is nobody's, as far as can be known: no peer serves it, or may. */
bool route_nobody_else(const struct served *s, const struct reqinfo *info);
/* Is it for a resource or for a schema? While the local server is away peers answer for these. */
bool route_may_fail_over(const struct reqinfo *info);
/* "served-locally", "peer", … Static. */
const char *route_row_name(enum route_row row);

#endif
