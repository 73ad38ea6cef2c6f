/*
 * Where peers may be dialled when the operator has not said it with peer-allowed-cidrs.
 */
#ifndef MVPROXY_CLUSTER_PEER_RULE_H
#define MVPROXY_CLUSTER_PEER_RULE_H

#include <stdbool.h>

struct sockaddr;

/*
 * Everywhere but: loopback, link-local, multicast, unspecified and broadcast addresses (also as IPv4-mapped IPv6). An
 * address out of a Lease can be written by whoever may write Leases in kube-system: it must not turn us against
 * services of our own node.
 */
bool peer_rule_default(const struct sockaddr *addr, void *unused);

#endif
