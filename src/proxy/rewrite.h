/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the head of a request to a server: the client's without hop-by-hop fields, mvproxies' own and those that claim
 * an identity, plus the identity and loop marks from mvproxy. The request target is the client's, byte by byte.
 */
#ifndef MVPROXY_PROXY_REWRITE_H
#define MVPROXY_PROXY_REWRITE_H

#include "http/head.h"
#include "kube/user.h"
#include "proxy/authn.h"

struct back;

enum rewrite_target {
    REWRITE_LOCAL,
    REWRITE_PEER,
};

/* Fields of requests that are a client's word only: stripped. */
struct rewrite_names {
    const struct user_headers *headers; /* as configured; also the names of what is sent */
    const struct user_headers *also;    /* further names; NULL: none */
    const struct back *back;            /* what it holds against connections now (back/claims.h); NULL: nothing */
};

struct rewrite_in {
    const struct http_head *head;
    const struct authn *authn;
    struct rewrite_names names;
    enum rewrite_target target;
    const char *client_ip;
    bool believes_client; /* its X-Forwarded-For counts: it is a peer, or a trusted proxy */
    bool upgrade;         /* keep the Upgrade field */
    bool if_ready;        /* the peer's mvproxy is asked to refuse if its server is only starting */
    bool may_deny;        /* and to deny what no server has */
    bool may_send_on;     /* the local server may send it to a peer, unless a peer sent it: mvproxy does not reroute */
};

enum rewrite_result { REWRITE_OK, REWRITE_UNENCODABLE, REWRITE_NO_MEMORY };

/* Fills *out from the arena. UNENCODABLE: the identity cannot be put into headers; the answer is to be 401. */
enum rewrite_result rewrite_request(const struct rewrite_in *in, struct arena *a, struct http_head *out);

/* The trailers without those that claim an identity or are mvproxies' own, in any spelling. False when out of memory.
 */
MEM_CHECK bool rewrite_trailers(const struct http_head *in, const struct rewrite_names *names, struct arena *a,
                                struct http_head *out);

/* What is added to a response; each may be NULL. */
struct rewrite_origin {
    const char *served_by; /* the peer that answered, by server ID */
    const char *warning;   /* of Warning: 299 - "..." */
    const char *hop;       /* our own server ID, on answers to a peer */
    const char *version;   /* our version, likewise */
    const char *ready;     /* USER_HOP_READY, likewise */
    bool unserved;         /* as far as we know, no server has it */
};

/* The response's end-to-end fields for the client. False when out of memory. */
MEM_CHECK bool rewrite_response(const struct http_head *in, const struct rewrite_origin *from, struct arena *a,
                                struct http_head *out);

/* The ID of the server that answered, on responses relayed from a peer. */
#define REWRITE_SERVED_BY "X-Mvproxy-Served-By"
/*
 * On answers to front proxies' requests with a loop mark: an mvproxy is in front of this server. A peer that sees it
 * knows that its connection may outlive the server behind (cluster/refresh.c). Identity never depends on it: see
 * stream_is_hop().
 */
#define REWRITE_HOP USER_HOP
/*
 * On an mvproxy's own 503 to a peer: its server has not read the request, or repeating it does no harm. Removed from
 * the answers of servers, so that only an mvproxy can say so.
 */
#define REWRITE_TRY_ANOTHER "X-Mvproxy-Try-Another"
/* On the answer of an mvproxy's server to a peer's request with USER_MAY_DENY: no server has it. Likewise. */
#define REWRITE_UNSERVED "X-Mvproxy-Unserved"

#endif
