/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the address under which peers reach this server into the Lease that its kube-apiserver keeps itself, if that
 * says none. Nothing is written without uid and resourceVersion as preconditions; one that a newer server writes itself
 * (1.36 and later) stands.
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
/* "IP:port"; "": none is to be written. */
void lease_address_set(struct lease_address *a, const char *advertise);
/* That Lease as it is. */
void lease_address_seen(struct lease_address *a, const struct lease *l);

#endif
