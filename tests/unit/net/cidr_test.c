/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks: what they hold, and what is no other machine's address.
 */
#include "net/cidr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "lib/tap.h"

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un unix_path;
};

static union address address_of(const char *text)
{
    union address a = {0};

    if (strchr(text, ':') != NULL) {
        a.v6.sin6_family = AF_INET6;
        if (inet_pton(AF_INET6, text, &a.v6.sin6_addr) != 1)
            tap_bail("%s", text);
    } else {
        a.v4.sin_family = AF_INET;
        if (inet_pton(AF_INET, text, &a.v4.sin_addr) != 1)
            tap_bail("%s", text);
    }
    return a;
}

static const struct {
    const char *cidr, *address;
    bool holds;
} rows[] = {
    {"10.0.0.0/8", "10.255.1.2", true},
    {"10.0.0.0/8", "11.0.0.1", false},
    {"10.1.2.3", "10.1.2.3", true},
    {"10.1.2.3", "10.1.2.4", false},
    {"192.168.4.0/22", "192.168.7.255", true},
    {"192.168.4.0/22", "192.168.8.0", false},
    {"0.0.0.0/0", "1.2.3.4", true},
    {"0.0.0.0/0", "fd00::1", false},
    {"::/0", "1.2.3.4", true},
    {"fd00::/8", "fd12::1", true},
    {"fd00::/8", "fe00::1", false},
    {"10.0.0.0/8", "::ffff:10.1.1.1", true},
    {"127.0.0.0/31", "127.0.0.1", true},
    {"127.0.0.0/31", "127.0.0.2", false},
};

static const char *const bad[] = {"",          "10.0.0.0/33", "10.0.0/8",     "::/129", "10.0.0.0/-1",
                                  "10.0.0.0/", "a",           "10.0.0.0/8/8", "[::1]"};
static const char *const special[] = {"127.0.0.1",
                                      "127.255.255.254",
                                      "0.0.0.0",
                                      "0.1.2.3",
                                      "169.254.0.1",
                                      "169.254.169.254",
                                      "224.0.0.1",
                                      "255.255.255.255",
                                      "::1",
                                      "::",
                                      "fe80::1",
                                      "febf::1",
                                      "ff02::1",
                                      "::ffff:127.0.0.1",
                                      "::ffff:169.254.169.254",
                                      "::127.0.0.1",
                                      "fd00:ec2::254",
                                      "fd20:ce::254",
                                      "100.100.100.200",
                                      "::ffff:100.100.100.200",
                                      "168.63.129.16",
                                      "64:ff9b::127.0.0.1",
                                      "64:ff9b::169.254.169.254",
                                      "64:ff9b:1::127.0.0.1",
                                      "64:ff9b:1:a9fe:a9:fe00::",
                                      "64:ff9b:1:1:7f:0:100:0",
                                      "64:ff9b:1:a9:fe:a9fe::",
                                      "64:ff9b:1:1:a9:fea9:fe00:0",
                                      "2002:7f00:1::1",
                                      "2002:a9fe:a9fe::1",
                                      "2001:0:7f00:1::f5ff:fffe",
                                      "2001:0:808:808::80ff:fffe",
                                      "2001:0:808:808:0:0:5601:5601"};
static const char *const ordinary[] = {"10.0.0.1",
                                       "126.255.255.255",
                                       "128.0.0.1",
                                       "169.253.1.1",
                                       "169.255.1.1",
                                       "223.255.255.1",
                                       "100.64.0.1",
                                       "fec0::1",
                                       "192.168.1.1",
                                       "172.16.0.1",
                                       "8.8.8.8",
                                       "fd00::1",
                                       "64:ff9b::10.0.0.1",
                                       "64:ff9b:1::8.8.8.8",
                                       "64:ff9b:1:a00:0:100::",
                                       "64:ff9b:1:a:0:1::",
                                       "64:ff9b:1:1:a:0:100:0",
                                       "64:ff9b:2::127.0.0.1",
                                       "2002:a00:1::127.0.0.1",
                                       "2001:0:808:808::f5ff:fffe",
                                       "2001:1::1",
                                       "2001:db8::1",
                                       "::ffff:10.0.0.1",
                                       "fd00:ec2::253",
                                       "100.100.100.201"};

static void sets(void)
{
    static const char *const list[] = {"10.0.0.0/8", "no network", "fd00::/8", NULL}, *const none[] = {NULL};
    union address a = address_of("fd00::1"), b = address_of("192.168.1.1");
    struct cidr_set s = {NULL, 0}, same = {NULL, 0};

    if (!cidr_set_assign(&s, list) || !cidr_set_assign(&same, list))
        tap_bail("no memory");
    ok(cidr_set_contains(&s, &a.any) && !cidr_set_contains(&s, &b.any), "an address in a set");
    ok(cidr_set_covers(&s, SLICE_LIT("10.1.2.3")) && cidr_set_covers(&s, SLICE_LIT("10.1.0.0/16")), "as text");
    ok(!cidr_set_covers(&s, SLICE_LIT("11.1.2.3")) && !cidr_set_covers(&s, SLICE_LIT("0.0.0.0/0")), "not in it");
    ok(!cidr_set_covers(&s, SLICE_LIT("")) && !cidr_set_covers(&s, SLICE_LIT("no network")), "no address");
    ok(cidr_set_same(&s, &same), "the same set");
    if (!cidr_set_assign(&same, none))
        tap_bail("no memory");
    ok(!cidr_set_same(&s, &same), "another set");
    ok(!cidr_set_covers(&same, SLICE_LIT("10.1.2.3")), "none has nothing");
    cidr_set_free(&s);
    cidr_set_free(&same);
}

static const struct {
    const char *given, *network;
    bool has_host;
} networks[] = {
    {"10.0.0.5/8", "10.0.0.0/8", true},        {"10.0.0.0/8", "10.0.0.0/8", false},
    {"10.0.0.5", "10.0.0.5/32", false},        {"10.0.0.5/0", "0.0.0.0/0", true},
    {"0.0.0.0/0", "0.0.0.0/0", false},         {"10.255.0.0/12", "10.240.0.0/12", true},
    {"fd00::1/64", "fd00::/64", true},         {"::/0", "::/0", false},
    {"2001:db8::/96", "2001:db8::/96", false}, {"fd00::1", "fd00::1/128", false},
};

static void alone(void)
{
    for (size_t i = 0; i < ROWS(networks); i++) {
        char text[CIDR_TEXT_BYTES];
        struct cidr c;

        ok(cidr_parse(slice_str(networks[i].given), &c), "a network");
        is_int(cidr_network(&c, text), networks[i].has_host, "%s has bits of a host", networks[i].given);
        is_str(text, networks[i].network, "the network alone");
    }
}

int main(void)
{
    union address local = {.unix_path = {.sun_family = AF_UNIX}};
    struct cidr c;

    for (size_t i = 0; i < ROWS(rows); i++) {
        union address a = address_of(rows[i].address);

        if (!cidr_parse(slice_str(rows[i].cidr), &c))
            tap_bail("%s", rows[i].cidr);
        is_int(cidr_contains(&c, &a.any), rows[i].holds, "%s in %s", rows[i].address, rows[i].cidr);
    }
    for (size_t i = 0; i < ROWS(bad); i++)
        ok(!cidr_parse(slice_str(bad[i]), &c), "\"%s\" is no network", bad[i]);
    for (size_t i = 0; i < ROWS(special); i++) {
        union address a = address_of(special[i]);

        ok(cidr_is_special(&a.any), "%s is special", special[i]);
    }
    for (size_t i = 0; i < ROWS(ordinary); i++) {
        union address a = address_of(ordinary[i]);

        ok(!cidr_is_special(&a.any), "%s is ordinary", ordinary[i]);
    }
    ok(cidr_is_special(&local.any), "what is no IP address is special");
    sets();
    alone();
    return tap_end();
}
