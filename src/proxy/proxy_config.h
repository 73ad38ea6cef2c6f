/*
 * The proxy's options as its requests see them.
 */
#ifndef MVPROXY_PROXY_PROXY_CONFIG_H
#define MVPROXY_PROXY_PROXY_CONFIG_H

#include "base/mem.h"
#include "proxy/authn.h"
#include "proxy/proxy.h"

struct cidr;

/* Immutable, reference-counted form of struct proxy_opts: a request keeps the one it began with. */
struct proxy_config {
    unsigned refs;
    struct arena *arena;
    struct origin *local;
    struct authn_opts authn;
    uint64_t request_timeout_ms, discovery_authz_ttl_ms;
    size_t max_in_flight_per_peer;
    const struct cidr *trusted_proxies;
    size_t n_trusted_proxies;
    double goaway_chance;
    bool access_log, legacy_discovery;
};

/* One reference. NULL when out of memory. */
MEM_CHECK struct proxy_config *proxy_config_new(const struct proxy_opts *o);
void proxy_config_unref(struct proxy_config *c);
/* A network that the configuration names, by the client's address. */
bool proxy_config_trusts(const struct proxy_config *c, const char *ip);

#endif
