/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which peer an operator means. A server ID is one server's; a host name may be that of several: of a server that has
 * got another ID and has left its old Lease behind, or of whoever else can write a Lease.
 */
#ifndef MVPROXY_CLUSTER_PEER_NAMED_H
#define MVPROXY_CLUSTER_PEER_NAMED_H

#include "base/err.h"
#include "cluster/peers.h"

/*
 * The one of this ID; else the only one of this host name; else, of several, the only one that is drained (`drained`:
 * such a one is looked for), that is live with an address and answers (h->answers), or that is live with an address.
 * NULL: there is none of that name, or, with *err, it may be one or another of those listed there.
 */
struct peer *peer_named(const struct peers *p, const char *name, bool drained, const struct peers_handler *h, void *arg,
                        struct err *err);

#endif
