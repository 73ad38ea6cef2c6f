/* SPDX-License-Identifier: Apache-2.0 */
/* The address by which this machine is reached: in networks of our own, where it is known what that is. */
#include "net/own_address.h"

#include <arpa/inet.h>
#include <linux/ipv6.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/tap.h"

#define OWN4 "192.0.2.7"
#define OWN6 "2001:db8:1::7"

static void must(int result, const char *what)
{
    if (result != 0)
        tap_bail("%s", what);
}

static void put4(struct sockaddr *at, const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};

    must(inet_pton(AF_INET, text, &in.sin_addr) != 1, text);
    memcpy(at, &in, sizeof(in));
}

/* The loopback device, up and with this address: one that others could use, if it were not the loopback device. */
static void address4(int fd, const char *address)
{
    struct ifreq r = {.ifr_name = "lo"};

    put4(&r.ifr_addr, address);
    must(ioctl(fd, SIOCSIFADDR, &r), "IPv4 address");
    must(ioctl(fd, SIOCGIFFLAGS, &r), "flags");
    r.ifr_flags = (short)(r.ifr_flags | IFF_UP);
    must(ioctl(fd, SIOCSIFFLAGS, &r), "up");
}

static void default_route4(int fd)
{
    char device[] = "lo";
    struct rtentry r = {.rt_flags = RTF_UP, .rt_dev = device};

    put4(&r.rt_dst, "0.0.0.0");
    put4(&r.rt_genmask, "0.0.0.0");
    must(ioctl(fd, SIOCADDRT, &r), "IPv4 route");
}

/* False: this kernel has no IPv6. */
static bool everything6(const char *address)
{
    struct in6_ifreq r = {.ifr6_prefixlen = 128, .ifr6_ifindex = (int)if_nametoindex("lo")};
    struct in6_rtmsg route = {.rtmsg_flags = RTF_UP, .rtmsg_metric = 1, .rtmsg_ifindex = r.ifr6_ifindex};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool fine;

    if (fd < 0)
        return false;
    must(inet_pton(AF_INET6, address, &r.ifr6_addr) != 1, address);
    fine = ioctl(fd, SIOCSIFADDR, &r) == 0 && ioctl(fd, SIOCADDRT, &route) == 0;
    (void)close(fd);
    return fine;
}

static bool new_network(void)
{
    return unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
}

static void is_found(int family, const char *want, const char *when)
{
    char text[OWN_ADDRESS_BYTES] = "none";
    bool found = own_address(family, text);

    is_str(found ? text : "none", want, "%s", when);
}

/* The kernel takes a new IPv6 address into use by and by. */
static void await6(void)
{
    char text[OWN_ADDRESS_BYTES];

    for (unsigned i = 0; i < 3000 && !own_address(AF_INET6, text); i++)
        (void)usleep(10000);
}

int main(void)
{
    int fd;

    if (!new_network()) {
        tap_skip("no network namespace to be had", "own address");
        return tap_end();
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    is_found(AF_INET, "none", "a network without anything");
    is_found(AF_INET6, "none", "nor over IPv6");
    address4(fd, "127.0.0.1");
    is_found(AF_INET, "none", "loopback has no way out");
    default_route4(fd);
    is_found(AF_INET, "none", "its address is none that others could use, whatever the routes say");
    address4(fd, OWN4);
    default_route4(fd);
    is_found(AF_INET, OWN4, "the source address of the default route");
    is_found(AF_INET6, "none", "which is none over IPv6");
    if (everything6(OWN6)) {
        await6();
        is_found(AF_INET6, OWN6, "IPv6 has its own");
    } else {
        tap_skip("no IPv6 here", "own address over IPv6");
    }
    (void)close(fd);
    return tap_end();
}
