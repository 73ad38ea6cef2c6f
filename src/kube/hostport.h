/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "host:port" as Kubernetes writes addresses: IPv4, [IPv6], or a DNS name.
 */
#ifndef MVPROXY_KUBE_HOSTPORT_H
#define MVPROXY_KUBE_HOSTPORT_H

#include "base/buf.h"

struct hostport {
    struct slice host; /* without brackets, into the parsed text */
    uint16_t port;     /* never 0 */
    bool ip;           /* a literal address of either family, not a name */
};

/* Whether it is a literal address of either family, without brackets or zone. */
bool hostport_is_ip(struct slice host);
/* Strict: port 1-65535 in plain decimal, IPv6 only in brackets and without zone, names of RFC 1123 characters up to 253
 * bytes. */
bool hostport_parse(struct slice s, struct hostport *out);
/* The inverse; puts brackets around a host with a colon. */
bool hostport_print(struct slice host, uint16_t port, struct buf *out);

#endif
