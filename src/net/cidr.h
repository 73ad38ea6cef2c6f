/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks, and whether an address may be dialled as a peer.
 */
#ifndef MVPROXY_NET_CIDR_H
#define MVPROXY_NET_CIDR_H

#include "base/mem.h"
#include "base/slice.h"

struct sockaddr;

struct cidr {
    unsigned char bytes[16]; /* IPv4 as ::ffff:a.b.c.d */
    unsigned bits;           /* 0-128 */
};

/* "10.0.0.0/8", "fd00::/8", or a single address. */
bool cidr_parse(struct slice s, struct cidr *out);
/* The network alone, as "10.0.0.0/8". False: it is what it was parsed from, without bits of a host in it. */
enum { CIDR_TEXT_BYTES = 64 };
bool cidr_network(const struct cidr *c, char out[CIDR_TEXT_BYTES]);
bool cidr_same(const struct cidr *a, const struct cidr *b);
/* Whether all of `inner` is in `outer`. */
bool cidr_covers(const struct cidr *outer, const struct cidr *inner);
bool cidr_contains(const struct cidr *c, const struct sockaddr *addr);
/* Some networks. */
struct cidr_set {
    struct cidr *each;
    size_t n;
};
/* Replaces what is there by those of a NULL-terminated list (NULL: none), leaving out what is none. False, and nothing
 * changed, when out of memory. */
MEM_CHECK bool cidr_set_assign(struct cidr_set *s, const char *const *list);
void cidr_set_free(struct cidr_set *s);
bool cidr_set_contains(const struct cidr_set *s, const struct sockaddr *addr);
/* The same of an address, or of a whole network, as text; false also of what is none. */
bool cidr_set_covers(const struct cidr_set *s, struct slice text);
/* The same networks in the same order. */
bool cidr_set_same(const struct cidr_set *a, const struct cidr_set *b);

/*
 * Loopback, link-local, multicast, unspecified, a metadata service of the known clouds, or of no IP family; also as the
 * IPv4 address inside of a NAT64, 6to4 or Teredo one.
 */
bool cidr_is_special(const struct sockaddr *addr);

#endif
