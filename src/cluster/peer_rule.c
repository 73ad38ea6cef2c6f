#include "cluster/peer_rule.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

static bool allowed4(uint32_t a)
{
    unsigned first = a >> 24;

    if (first == 0 || first == 127 || first >= 224)
        return false;           /* this network, loopback; multicast, reserved, broadcast */
    return (a >> 16) != 0xa9fe; /* 169.254.0.0/16: link-local, and the metadata services of clouds */
}

static bool allowed6(const struct in6_addr *a)
{
    uint32_t v4;

    if (IN6_IS_ADDR_V4MAPPED(a) || IN6_IS_ADDR_V4COMPAT(a)) {
        memcpy(&v4, &a->s6_addr[12], sizeof v4);
        return allowed4(ntohl(v4));
    }
    return !IN6_IS_ADDR_LOOPBACK(a) && !IN6_IS_ADDR_UNSPECIFIED(a) && !IN6_IS_ADDR_LINKLOCAL(a) &&
           !IN6_IS_ADDR_MULTICAST(a);
}

bool peer_rule_default(const struct sockaddr *addr, void *unused)
{
    (void)unused;
    if (addr->sa_family == AF_INET)
        return allowed4(ntohl(((const struct sockaddr_in *)(const void *)addr)->sin_addr.s_addr));
    if (addr->sa_family == AF_INET6)
        return allowed6(&((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr);
    return false;
}
