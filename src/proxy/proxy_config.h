/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of the proxy, and the immutable form in which requests use them.
 */
#ifndef MVPROXY_PROXY_PROXY_CONFIG_H
#define MVPROXY_PROXY_PROXY_CONFIG_H

#include "base/mem.h"
#include "net/cidr.h"
#include "proxy/access_log.h"
#include "proxy/authn.h"

struct origin;

/* Text and arrays are copied, the origin is referenced. Lists are NULL-terminated; NULL is an empty list. */
struct proxy_opts {
    struct origin *local;
    const char *const *username_headers, *const *uid_headers, *const *group_headers, *const *extra_header_prefixes;
    const char *const *allowed_names;   /* requestheader-allowed-names */
    const char *const *trusted_proxies; /* networks of clients whose X-Forwarded-For is believed */
    bool can_assert;                    /* a front-proxy certificate is configured */
    uint64_t request_timeout_ms;        /* until the response's head, for requests that are not long-running; 0: none */
    uint64_t discovery_authz_ttl_ms;
    size_t max_in_flight_per_peer; /* clients' requests; beyond that the next candidate, then 503. 0: no limit */
    size_t max_outdated_bytes;     /* of snapshots that were replaced and requests hold (snapshots.h); 0: no limit */
    double goaway_chance; /* 0 to 1: probability that an HTTP/2 request makes its connection take no new ones */
    struct access_log access_log;
    bool newest;           /* route_query.newest */
    bool legacy_discovery; /* legacy discovery is completed (heal.h) */
    const char *version;   /* of this program, told to peers; static; NULL: not told */
};

/* Immutable, reference-counted form of struct proxy_opts: a request keeps the one it began with. */
struct proxy_config {
    unsigned refs;
    struct arena *arena;
    struct origin *local;
    struct authn_opts authn;
    uint64_t request_timeout_ms, discovery_authz_ttl_ms;
    size_t max_in_flight_per_peer, max_outdated_bytes;
    struct cidr_set trusted_proxies;
    double goaway_chance;
    struct access_log access_log;
    bool newest, legacy_discovery;
    const char *version;
};

/* The caller has the one reference. NULL when out of memory. */
MEM_CHECK struct proxy_config *proxy_config_new(const struct proxy_opts *o);
void proxy_config_unref(struct proxy_config *c);

#endif
