/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's options as its requests see them.
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
    const char *const *trusted_proxies; /* networks whose X-Forwarded-For is believed; NULL: none */
    bool can_assert;                    /* a front-proxy certificate is configured */
    uint64_t request_timeout_ms;        /* to the response head of requests that are not long-running; 0 = none */
    uint64_t discovery_authz_ttl_ms;
    size_t max_in_flight_per_peer; /* clients' requests, 0 = no limit; beyond: the next candidate, then 503 */
    double goaway_chance; /* of an HTTP/2 request to be the last but those under way on its connection, 0 to 1 */
    struct access_log access_log;
    bool newest;           /* route_query.newest */
    bool legacy_discovery; /* is completed */
    const char *version;   /* of this program, for peers; static, NULL: not told */
};

/* Immutable, reference-counted form of struct proxy_opts: a request keeps the one it began with. */
struct proxy_config {
    unsigned refs;
    struct arena *arena;
    struct origin *local;
    struct authn_opts authn;
    uint64_t request_timeout_ms, discovery_authz_ttl_ms;
    size_t max_in_flight_per_peer;
    struct cidr_set trusted_proxies;
    double goaway_chance;
    struct access_log access_log;
    bool newest, legacy_discovery;
    const char *version;
};

/* One reference. NULL when out of memory. */
MEM_CHECK struct proxy_config *proxy_config_new(const struct proxy_opts *o);
void proxy_config_unref(struct proxy_config *c);

#endif
