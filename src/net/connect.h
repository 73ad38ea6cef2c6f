/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tunnels through a proxy (egress_proxy.h): dials it, asks with CONNECT, judges the answer. What comes of it is a
 * descriptor that reaches the target: the connection to the proxy itself, or, when that one is under TLS, one end of a
 * relay.
 */
#ifndef MVPROXY_NET_CONNECT_H
#define MVPROXY_NET_CONNECT_H

#include "net/egress_proxy.h"

/* A proxy that is asked with CONNECT. NULL when out of memory. */
MEM_CHECK struct egress_proxy *connect_egress_new(const struct egress_proxy_opts *o);

#endif
