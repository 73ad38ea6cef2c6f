/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of this machine that others are likely to reach it by.
 */
#ifndef MVPROXY_NET_OWN_ADDRESS_H
#define MVPROXY_NET_OWN_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

enum { OWN_ADDRESS_BYTES = 46 };

/*
 * The source address of the default route (AF_INET or AF_INET6): what kube-apiserver calls the default interface's.
 * Asks the kernel's routing table; nothing is sent. False: there is no such route, or it has no address that another
 * machine could use.
 */
bool own_address(int family, char out[OWN_ADDRESS_BYTES]);

/* Whether a packet to this address stays on this machine: loopback, or an interface has it. Asks the kernel, by
 * netlink: bind() would take any address where net.ipv4.ip_nonlocal_bind is set, as keepalived wants it. */
bool own_address_is(const struct sockaddr *addr);

/*
 * Each address of this machine that others may reach it by: those of loopback and link-local ones are left out, and
 * those that kube-proxy keeps for Services (kube-ipvs0).
 */
void own_address_each(void (*fn)(const char *ip, void *arg), void *arg);

#endif
