/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On which addresses clients and peers are served, and whether somebody else's address is one of them.
 */
#ifndef MVPROXY_DAEMON_ADDRESSES_H
#define MVPROXY_DAEMON_ADDRESSES_H

#include "base/err.h"
#include "daemon/derive.h"
#include "net/listeners.h"

struct config;

struct addresses {
    struct listen_address at[LISTENERS_MAX];
    size_t n;
};

/*
 * Of bind-address and secure-port; without bind-address that of each family's default route: never an unspecified one,
 * which would be kube-apiserver's port on loopback as well. False with *err if there is none, or one of them is wrong,
 * or stands in the way of another; out->n is the number of the entry then, from 0.
 */
bool addresses_configured(const struct config *c, struct addresses *out, struct err *err);
/* Of another listener's: that one, or none if it is a name (but for "localhost"). */
void addresses_of(const struct derive_address *one, struct addresses *out);
/* Whether two sockets on them would be in each other's way. */
bool addresses_overlap(const struct listen_address *a, const struct listen_address *b);
/* Of listening sockets that the service manager made. */
void addresses_inherited(const int *fds, size_t n, struct addresses *out);

/*
 * The one of them to which a connection to that host and port would come, or NULL: the same address, or the unspecified
 * one and an address of this machine. Names are not looked up, but for "localhost".
 */
const struct listen_address *addresses_reached_by(const struct addresses *a, const struct derive_address *to);

/* Where peers reach us if nobody says it: the first that another machine could use; of the unspecified one, the default
 * route's. "" if there is none. */
void addresses_advertised(const struct addresses *a, char out[DERIVE_HOST_BYTES]);

#endif
