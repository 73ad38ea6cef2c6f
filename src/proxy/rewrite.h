/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head that goes to the target: what the client sent, less what is hop-by-hop or claims an identity, plus what we
 * vouch for. The request target stays the client's bytes.
 */
#ifndef MVPROXY_PROXY_REWRITE_H
#define MVPROXY_PROXY_REWRITE_H

#include "http/head.h"
#include "kube/user.h"
#include "proxy/authn.h"

enum rewrite_target {
    REWRITE_LOCAL,
    REWRITE_PEER,
};

struct rewrite_in {
    const struct http_head *head;
    const struct authn *authn;
    const struct user_headers
        *headers; /* as configured: which names are stripped, and the spelling towards the local server */
    const struct user_headers *also; /* further names that are stripped; NULL: none */
    enum rewrite_target target;
    const char *client_ip;
    bool believes_client; /* in whose name it asks (X-Forwarded-For): a peer, or a proxy that is trusted */
    bool upgrade;         /* keep the Upgrade field */
    bool if_ready;        /* the peer shall rather refuse than let a server answer that is only starting */
    bool may_send_on;     /* what nobody has sent on yet the local server may send to a peer: we do not */
};

enum rewrite_result { REWRITE_OK, REWRITE_UNENCODABLE, REWRITE_NO_MEMORY };

/* Fills *out out of the arena. UNENCODABLE: the identity cannot be carried in headers: answer 401. */
enum rewrite_result rewrite_request(const struct rewrite_in *in, struct arena *a, struct http_head *out);

/* The trailers that may go on: those that claim no identity, however it is spelled. False when out of memory. */
MEM_CHECK bool rewrite_trailers(const struct http_head *in, const struct user_headers *headers,
                                const struct user_headers *also, struct arena *a, struct http_head *out);

/* What is added to a response; either may be NULL. */
struct rewrite_origin {
    const char *served_by; /* the peer that answered, by server ID */
    const char *warning;   /* a warn-text without quotes: Warning: 299 - "..." */
    const char *hop;       /* our own server ID, on answers to a peer */
    const char *version;   /* our own, likewise */
};

/* The response's end-to-end fields for the client. False when out of memory. */
MEM_CHECK bool rewrite_response(const struct http_head *in, const struct rewrite_origin *from, struct arena *a,
                                struct http_head *out);

/* Names the server that answered, on responses relayed from a peer. */
#define REWRITE_SERVED_BY "X-Mvproxy-Served-By"
/*
 * On answers to marked requests of verified front proxies: an mvproxy stands here. A peer that sees it knows that
 * its connection may outlive the server behind (cluster/refresh.c). Identity never depends on it: see stream_is_hop().
 */
#define REWRITE_HOP USER_HOP
/*
 * On a 503 of an mvproxy's own to a peer: its server has not read the request, or reading it twice does no harm. Only
 * an mvproxy can say so: it is removed from what servers answer.
 */
#define REWRITE_TRY_ANOTHER "X-Mvproxy-Try-Another"

#endif
