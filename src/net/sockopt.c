/* SPDX-License-Identifier: Apache-2.0 */
#include "net/sockopt.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum {
    KEEPALIVE_IDLE_S = 30,
    KEEPALIVE_INTERVAL_S = 15,
    KEEPALIVE_COUNT = 4,
};

static void set(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

void sockopt_tune(int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
    /*
     * No TCP_USER_TIMEOUT: it would also cut a reader that pauses (its window is shut, though it answers every probe),
     * and it overrides the count of keepalive probes, by which a dead host is noticed on an idle connection after 90 s.
     */
}

unsigned sockopt_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(bound);

    if (getsockname(fd, &bound.any, &len) != 0)
        return 0;
    switch (bound.any.sa_family) {
    case AF_INET:
        return ntohs(bound.v4.sin_port);
    case AF_INET6:
        return ntohs(bound.v6.sin6_port);
    default:
        return 0;
    }
}

void sockopt_ip(const struct sockaddr *addr, char out[INET6_ADDRSTRLEN])
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)addr;

    out[0] = '\0';
    if (addr->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, out, INET6_ADDRSTRLEN);
    else if (addr->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], out, INET6_ADDRSTRLEN);
    else if (addr->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &in6->sin6_addr, out, INET6_ADDRSTRLEN);
}
