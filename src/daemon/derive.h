/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsers for options with structured values: URLs, addresses, feature gates, peers. Pure; used to check a
 * configuration and again to apply it.
 */
#ifndef MVPROXY_DAEMON_DERIVE_H
#define MVPROXY_DAEMON_DERIVE_H

#include "base/err.h"
#include "base/slice.h"

enum { DERIVE_HOST_BYTES = 256 };

struct derive_address {
    char host[DERIVE_HOST_BYTES]; /* without brackets */
    unsigned port;
};

/* "https://host[:port][/]"; port 443 if missing. */
bool derive_url(const char *url, struct derive_address *out, struct err *err);
/* "http[s]://host[:port][/]"; port 2379 if missing. */
bool derive_etcd_url(const char *url, struct derive_address *out, bool *tls, struct err *err);
/* False if the address may contain a password or token, so that no message may quote it; *err then does not. */
bool derive_may_be_shown(struct slice address, struct err *err);
/* "host:port", "[v6]:port". */
bool derive_host_port(struct slice s, struct derive_address *out, struct err *err);
/* The same, of admin-bind-address: only what is said of what is none differs. */
bool derive_admin(const char *text, struct derive_address *out, struct err *err);
/* "ID=HOST:PORT"; name gets at most DERIVE_HOST_BYTES - 1 characters. */
bool derive_peer(const char *text, char name[DERIVE_HOST_BYTES], struct derive_address *out, struct err *err);

/* "host:port", brackets for IPv6; "" if it does not fit. */
void derive_text(const char *host, uint64_t port, char out[DERIVE_HOST_BYTES]);
/* "ip:port" from peer-advertise-ip and -port; "" if neither is given. False: only one is given, or it is no IP
 * address. */
bool derive_advertise(const char *ip, uint64_t port, char out[DERIVE_HOST_BYTES], struct err *err);
/* goaway-chance: a plain decimal fraction from 0 to 0.02, kube-apiserver's bounds (pkg/server/options). */
bool derive_chance(const char *text, double *out, struct err *err);

struct derive_gates {
    bool unknown_version_interoperability_proxy;
};
/*
 * Feature gates as kube-apiserver writes them (k8s.io/component-base, featuregate and compatibility): a NULL-terminated
 * list of Name=bool or kube:Name=bool, all in the same form. The last one of a name counts; AllBeta, at any place,
 * counts for gates that are not named. Unknown names and components are errors.
 */
bool derive_gates(const char *const *list, struct derive_gates *out, struct err *err);

#endif
