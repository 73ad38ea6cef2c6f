/* SPDX-License-Identifier: Apache-2.0 */
/* The PROXY protocol's header, whole, byte by byte, and wrong. */
#include "net/proxy_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "lib/tap.h"

#define V(text) SLICE_LIT(text)
#define V2 "\r\n\r\n\0\r\nQUIT\n"

static const struct {
    const char *name;
    struct slice in;
    const char *client; /* "ip port", "-" for the balancer itself, NULL: wrong */
    size_t rest;        /* bytes behind the header */
} rows[] = {
    {"v1 TCP4", V("PROXY TCP4 192.0.2.1 192.0.2.2 56324 6443\r\n"), "192.0.2.1 56324", 0},
    {"v1 with what follows", V("PROXY TCP4 192.0.2.1 192.0.2.2 1 0\r\n\x16\x03\x01"), "192.0.2.1 1", 3},
    {"v1 TCP6", V("PROXY TCP6 2001:db8::1 ::1 65535 6443\r\n"), "2001:db8::1 65535", 0},
    {"v1 UNKNOWN", V("PROXY UNKNOWN\r\n"), "-", 0},
    {"v1 UNKNOWN with more", V("PROXY UNKNOWN ffff:f...f:ffff x 65535 65535\r\n"), "-", 0},
    {"v1 longest",
     V("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535", 0},
    {"v1 bare line feed", V("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n"), NULL, 0},
    {"v1 bare carriage return", V("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\rx"), NULL, 0},
    {"v1 two spaces", V("PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n"), NULL, 0},
    {"v1 trailing space", V("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n"), NULL, 0},
    {"v1 one word more", V("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n"), NULL, 0},
    {"v1 one word less", V("PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n"), NULL, 0},
    {"v1 leading zero", V("PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n"), NULL, 0},
    {"v1 port too large", V("PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n"), NULL, 0},
    {"v1 negative port", V("PROXY TCP4 192.0.2.1 192.0.2.2 -1 2\r\n"), NULL, 0},
    {"v1 wrong family", V("PROXY TCP4 ::1 ::1 1 2\r\n"), NULL, 0},
    {"v1 short address", V("PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n"), NULL, 0},
    {"v1 name", V("PROXY TCP4 localhost 192.0.2.2 1 2\r\n"), NULL, 0},
    {"v1 UDP", V("PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n"), NULL, 0},
    {"v1 lower case", V("proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n"), NULL, 0},
    {"v1 tab", V("PROXY\tTCP4 192.0.2.1 192.0.2.2 1 2\r\n"), NULL, 0},
    {"v1 NUL", V("PROXY TCP4 192.0.2.1\0 192.0.2.2 1 2\r\n"), NULL, 0},
    {"v1 without an end",
     V("PROXY UNKNOWN "
       "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n"),
     NULL, 0},
    {"v2 TCP4", V(V2 "\x21\x11\0\x0c\xc0\0\2\1\xc0\0\2\2\xdc\4\x19\x2b"), "192.0.2.1 56324", 0},
    {"v2 TCP4 with TLVs", V(V2 "\x21\x11\0\x10\xc0\0\2\1\xc0\0\2\2\xdc\4\x19\x2b\4\0\1xGET"), "192.0.2.1 56324", 3},
    {"v2 TCP6",
     V(V2 "\x21\x21\0\x24"
          "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
          "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1"
          "\xff\xff\x19\x2b"),
     "2001:db8::1 65535", 0},
    {"v2 LOCAL", V(V2 "\x20\0\0\0"), "-", 0},
    {"v2 LOCAL with addresses", V(V2 "\x20\x11\0\x0c\xc0\0\2\1\xc0\0\2\2\xdc\4\x19\x2b"), "-", 0},
    {"v2 UNSPEC", V(V2 "\x21\0\0\2xy"), "-", 0},
    {"v2 too short for its family", V(V2 "\x21\x11\0\x0b\xc0\0\2\1\xc0\0\2\2\xdc\4\x19"), NULL, 0},
    {"v2 IPv6 in the room of IPv4", V(V2 "\x21\x21\0\x0c\xc0\0\2\1\xc0\0\2\2\xdc\4\x19\x2b"), NULL, 0},
    {"v2 datagram", V(V2 "\x21\x12\0\x0c\xc0\0\2\1\xc0\0\2\2\xdc\4\x19\x2b"), "-", 0},
    {"v2 Unix socket", V(V2 "\x21\x31\0\0"), "-", 0},
    {"v2 Unix datagram", V(V2 "\x21\x32\0\2xyGET"), "-", 3},
    {"v2 IPv6 datagram", V(V2 "\x21\x22\0\0"), "-", 0},
    {"v2 unknown transport", V(V2 "\x21\x13\0\0"), NULL, 0},
    {"v2 unknown family", V(V2 "\x21\x41\0\0"), NULL, 0},
    {"v2 unknown command", V(V2 "\x22\x11\0\0"), NULL, 0},
    {"v2 version 3", V(V2 "\x31\x11\0\0"), NULL, 0},
    {"v2 too long", V(V2 "\x21\x11\x0f\xf1"), NULL, 0},
    {"a TLS hello", V("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), NULL, 0},
    {"HTTP", V("GET / HTTP/1.1\r\n"), NULL, 0},
    {"P and no more of it", V("POST / HTTP/1.1\r\n"), NULL, 0},
};

static void describe(enum proxy_header_verdict v, const struct proxy_header *h, char *out, size_t size)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&h->client;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&h->client;
    char ip[INET6_ADDRSTRLEN];

    if (v != PROXY_HEADER_OK)
        (void)snprintf(out, size, "%s", v == PROXY_HEADER_MORE ? "more" : "bad");
    else if (h->client.ss_family == AF_UNSPEC)
        (void)snprintf(out, size, "-");
    else if (h->client.ss_family == AF_INET)
        (void)snprintf(out, size, "%s %u", inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip)), ntohs(in->sin_port));
    else
        (void)snprintf(out, size, "%s %u", inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip)), ntohs(in6->sin6_port));
}

int main(void)
{
    struct proxy_header h;
    char got[80];

    for (size_t i = 0; i < ROWS(rows); i++) {
        enum proxy_header_verdict v = proxy_header_parse(rows[i].in, &h);
        size_t n = 0;

        describe(v, &h, got, sizeof(got));
        is_str(got, rows[i].client == NULL ? "bad" : rows[i].client, "%s", rows[i].name);
        if (rows[i].client != NULL)
            is_u64(rows[i].in.n - h.bytes, rows[i].rest, "and where it ends");
        /* Byte by byte: nothing but "more" before the verdict, which is the same. */
        while (n < rows[i].in.n && proxy_header_parse(slice_of(rows[i].in.p, n), &h) == PROXY_HEADER_MORE)
            n++;
        describe(proxy_header_parse(slice_of(rows[i].in.p, n), &h), &h, got, sizeof(got));
        is_str(got, rows[i].client == NULL ? "bad" : rows[i].client, "%s, byte by byte", rows[i].name);
    }
    return tap_end();
}
