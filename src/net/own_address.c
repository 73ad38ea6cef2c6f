/* SPDX-License-Identifier: Apache-2.0 */
#include "net/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "net/cidr.h"

enum { DISCARD_PORT = 9 };

/* Addresses that nobody has (RFC 5737, RFC 3849), so only the default route leads to them. */
static bool somewhere_else(int family, struct sockaddr_storage *out, socklen_t *n)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;

    memset(out, 0, sizeof(*out));
    if (family == AF_INET) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(DISCARD_PORT);
        *n = sizeof(*v4);
        return inet_pton(AF_INET, "203.0.113.1", &v4->sin_addr) == 1;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(DISCARD_PORT);
    *n = sizeof(*v6);
    return inet_pton(AF_INET6, "2001:db8::1", &v6->sin6_addr) == 1;
}

/* Connecting a datagram socket chooses a route and a source address, and sends nothing. */
static bool source_of(int family, struct sockaddr_storage *out)
{
    struct sockaddr_storage to;
    socklen_t n, got = sizeof(*out);
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok;

    *out = (struct sockaddr_storage){0};
    if (fd < 0)
        return false;
    ok = somewhere_else(family, &to, &n) && connect(fd, (struct sockaddr *)(void *)&to, n) == 0 &&
         getsockname(fd, (struct sockaddr *)(void *)out, &got) == 0;
    (void)close(fd);
    return ok;
}

/* False: it is none that another machine could use. */
static bool usable(const struct sockaddr *addr, char out[OWN_ADDRESS_BYTES])
{
    const void *bytes = addr->sa_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)(const void *)addr)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr;

    return !cidr_is_special(addr) && inet_ntop(addr->sa_family, bytes, out, OWN_ADDRESS_BYTES) != NULL;
}

bool own_address(int family, char out[OWN_ADDRESS_BYTES])
{
    struct sockaddr_storage from;

    return source_of(family, &from) && usable((const struct sockaddr *)(const void *)&from, out);
}

static bool is_loopback(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
}

static bool same_ip(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a == NULL || a->sa_family != b->sa_family)
        return false;
    if (b->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

bool own_address_is(const struct sockaddr *addr)
{
    struct ifaddrs *all;
    bool found = false;

    if (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)
        return false;
    if (is_loopback(addr))
        return true;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next)
        found = same_ip(i->ifa_addr, addr);
    freeifaddrs(all);
    return found;
}

void own_address_each(void (*fn)(const char *ip, void *arg), void *arg)
{
    char ip[OWN_ADDRESS_BYTES];
    struct ifaddrs *all;

    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        const struct sockaddr *a = i->ifa_addr;

        if (a != NULL && (a->sa_family == AF_INET || a->sa_family == AF_INET6) &&
            strcmp(i->ifa_name, "kube-ipvs0") != 0 && usable(a, ip))
            fn(ip, arg);
    }
    freeifaddrs(all);
}
