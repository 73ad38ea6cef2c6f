/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the address under which peers reach this server into the Lease that its kube-apiserver publishes, if that has
 * none. Every write has uid and resourceVersion as preconditions; an address that a newer kube-apiserver writes itself
 * (1.36 and later) is kept. Where another mvproxy writes its own into the same Lease again and again, that is said, and
 * each write waits longer than the one before, up to a minute.
 */
#ifndef MVPROXY_CLUSTER_LEASE_ADDRESS_H
#define MVPROXY_CLUSTER_LEASE_ADDRESS_H

#include "kube/lease.h"

struct api;
struct lease_address;

/* Ends the process when out of memory. */
struct lease_address *lease_address_new(struct api *a);
void lease_address_free(struct lease_address *a); /* NULL is fine */
/* The Lease that the server keeps, and the server's minor version; NULL: none, or not known. */
void lease_address_at(struct lease_address *a, const char *path, unsigned minor);
/* "IP:port" to be written; "": none. */
void lease_address_set(struct lease_address *a, const char *advertise);
/* That Lease was seen by the informer. */
void lease_address_seen(struct lease_address *a, const struct lease *l);

#endif
