/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses on which clients and peers are served, and whether a given address leads to one of them.
 */
#ifndef MVPROXY_DAEMON_ADDRESSES_H
#define MVPROXY_DAEMON_ADDRESSES_H

#include "base/err.h"
#include "daemon/derive.h"
#include "net/listeners.h"

struct config;
struct sockaddr_storage;

struct addresses {
    struct listen_address at[LISTENERS_MAX];
    size_t n;
};

/*
 * From bind-address and secure-port. Without bind-address: the address of each family's default route, never an
 * unspecified one, which would take kube-apiserver's port on loopback as well. False, with *err set, if there is none,
 * or if an entry is not valid or overlaps with another; out->n is then that entry's number, from 0.
 */
bool addresses_configured(const struct config *c, struct addresses *out, struct err *err);
/* From another listener's address: that one, or none if it is a name other than "localhost". */
void addresses_of(const struct derive_address *one, struct addresses *out);
/* For bind(2); its length, or 0 if the host is no IP address. */
unsigned addresses_sockaddr(const struct listen_address *a, struct sockaddr_storage *out);
/* Whether a second socket could not be bound because of the first. */
bool addresses_overlap(const struct listen_address *a, const struct listen_address *b);
/* The addresses of inherited listening sockets, made by the service manager. */
void addresses_inherited(const int *fds, size_t n, struct addresses *out);

/*
 * The address to which a connection to `to` would lead, or NULL: an equal one, or the unspecified one if `to` is an
 * address of this machine. Of names, that of this machine and what /etc/hosts has lead where that says; nobody is
 * asked.
 */
const struct listen_address *addresses_reached_by(const struct addresses *a, const struct derive_address *to);

/*
 * Whether connections to both lead to the same place, however each is written: IPv4 as IPv6 has it, an unspecified
 * address, "localhost", which is either family's loopback. Of other names, only whether they are equal.
 */
bool addresses_meet(const struct derive_address *a, const struct derive_address *b);

/*
 * The address in one spelling, for who compares many with each other: lower case, IPv4 as IPv4, this machine's loopback
 * for "localhost" and for the unspecified one. No file is read for a name.
 */
enum { ADDRESSES_SPELT_BYTES = DERIVE_HOST_BYTES + 8 };
void addresses_spell(const struct derive_address *a, char out[ADDRESSES_SPELT_BYTES]);

/* The address for peers if none is configured: the first that another machine could use; for the unspecified one, that
 * of the default route. "" if there is none. */
void addresses_advertised(const struct addresses *a, char out[DERIVE_HOST_BYTES]);

#endif
