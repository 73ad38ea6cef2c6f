/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the peer that an operator names. A server ID belongs to one server, but several peers may have the same host
 * name: a server that got another ID leaves its old Lease behind, and anybody who can write Leases can claim a host
 * name.
 */
#ifndef MVPROXY_CLUSTER_PEER_NAMED_H
#define MVPROXY_CLUSTER_PEER_NAMED_H

#include "base/err.h"
#include "base/nearest.h"
#include "cluster/peers.h"

/*
 * The peer with this ID; else the only one with this host name. Of several with this host name, the only one that is
 * drained (if `drained` is set: the caller looks for such a one); else the only one that is live, has an address and
 * answers (h->answers); else the only one that is live and has an address. NULL: there is none of that name, or, with
 * *err set, several are possible, which *err lists.
 */
struct peer *peer_named(const struct peers *p, const char *name, bool drained, const struct peers_handler *h, void *arg,
                        struct err *err);
/* Somebody meant a peer, and mistyped its ID or host name: offers those of all peers. */
void peer_named_nearest(const struct peers *p, struct nearest *n);

#endif
