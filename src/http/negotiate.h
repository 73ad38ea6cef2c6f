/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content negotiation as kube-apiserver does it, quirk by quirk (k8s.io/apiserver pkg/endpoints/handlers/negotiation,
 * pkg/endpoints/discovery/aggregated/wrapper.go, and its Accept parser github.com/munnerz/goautoneg).
 */
#ifndef MVPROXY_HTTP_NEGOTIATE_H
#define MVPROXY_HTTP_NEGOTIATE_H

#include "http/head.h"

enum negotiate_document { NEGOTIATE_LEGACY, NEGOTIATE_V2, NEGOTIATE_V2BETA1 };
enum negotiate_format { NEGOTIATE_JSON, NEGOTIATE_YAML, NEGOTIATE_PROTOBUF };

/* What the server has to offer; JSON is always there. */
enum negotiate_offer {
    NEGOTIATE_OFFER_YAML = 1,
    NEGOTIATE_OFFER_PROTOBUF = 2,
    NEGOTIATE_OFFER_V2BETA1 = 4,
};

struct negotiated {
    enum negotiate_document document; /* LEGACY: no clause asks for aggregated discovery; the rest is unset */
    enum negotiate_format format;
    struct slice profile; /* p is NULL if the clause has none */
    bool pretty;          /* the clause says pretty=1 */
};

/* Longer Accept values are cut: a client that sends more gets what the first 64 clauses say. */
enum { NEGOTIATE_CLAUSES = 64 };

/* One clause of an Accept value, as goautoneg reads it: values are not unquoted, and q=0 is no refusal. */
struct negotiate_clause {
    struct slice type, subtype;
    struct slice group, version, as, profile, stream, server_version; /* n is 0 if it has none */
    float q;
    bool pretty;
};

/* All that it can read, the best first; how many there are. */
size_t negotiate_clauses(struct slice accept, struct negotiate_clause clauses[NEGOTIATE_CLAUSES]);
/*
 * Which discovery document does this Accept value (the first line's; empty if there is none) ask for? `offers` are
 * enum negotiate_offer bits. Clauses without the discovery triple are skipped, whatever their q.
 */
struct negotiated negotiate_discovery(struct slice accept, unsigned offers);
/*
 * In which form does this Accept value want something plain? Clauses that ask for another shape of it (g, v, as) are
 * skipped; no value at all is JSON. False: in none that is offered.
 */
bool negotiate_plain(struct slice accept, unsigned offers, enum negotiate_format *out);
/* Content-Type of the chosen document, e.g. "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList". */
struct slice negotiate_content_type(enum negotiate_document document, enum negotiate_format format);
/* Accept-Encoding (first line) has an element that is exactly `gzip`; "gzip;q=1" is not. */
bool negotiate_gzip(const struct http_head *request);
/* Indented JSON? `target` is the request target with its query: pretty=…, else the clause, else curl, Wget,
 * Mozilla/5.0. */
bool negotiate_pretty(const struct http_head *request, const struct negotiated *n);
/* The same without a clause that says so. */
bool negotiate_pretty_asked(struct slice target, struct slice user_agent);
/* The value of the first `name=` in a target's query, not unescaped; p is NULL if there is none. */
struct slice negotiate_query_value(struct slice target, struct slice name);

#endif
