/* SPDX-License-Identifier: Apache-2.0 */
#include "net/proxy_header.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum { V1_MAX = 107, V2_FIXED = 16, V2_INET_BYTES = 12, V2_INET6_BYTES = 36 };

static const char v2_signature[12] = "\r\n\r\n\0\r\nQUIT\n";

/* ---- version 1: "PROXY TCP4 source destination port port\r\n" ---- */

static bool take_word(struct slice *rest, char *word, size_t size)
{
    struct slice one;

    if (!slice_split(rest, ' ', &one) || one.n == 0 || one.n >= size)
        return false;
    memcpy(word, one.p, one.n);
    word[one.n] = '\0';
    return true;
}

static bool take_address(struct slice *rest, int family, unsigned char out[16])
{
    char text[INET6_ADDRSTRLEN];

    return take_word(rest, text, sizeof(text)) && inet_pton(family, text, out) == 1;
}

/* Plain decimal without leading zeros. */
static bool take_port(struct slice *rest, uint16_t *out)
{
    char text[6];
    uint64_t v;

    if (!take_word(rest, text, sizeof(text)) || (text[0] == '0' && text[1] != '\0') ||
        !slice_u64(slice_str(text), &v) || v > UINT16_MAX)
        return false;
    *out = (uint16_t)v;
    return true;
}

static void set_client(struct proxy_header *h, int family, const unsigned char *address, uint16_t port)
{
    struct sockaddr_in *in = (struct sockaddr_in *)&h->client;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&h->client;

    h->client.ss_family = (sa_family_t)family;
    if (family == AF_INET) {
        memcpy(&in->sin_addr, address, sizeof(in->sin_addr));
        in->sin_port = htons(port);
    } else {
        memcpy(&in6->sin6_addr, address, sizeof(in6->sin6_addr));
        in6->sin6_port = htons(port);
    }
}

static bool parse_v1_line(struct slice line, struct proxy_header *out)
{
    unsigned char source[16], destination[16];
    uint16_t source_port, destination_port;
    char word[8];
    int family;

    if (!take_word(&line, word, sizeof(word)) || strcmp(word, "PROXY") != 0 || !take_word(&line, word, sizeof(word)))
        return false;
    if (strcmp(word, "UNKNOWN") == 0)
        return true; /* whatever follows is to be ignored */
    if (strcmp(word, "TCP4") != 0 && strcmp(word, "TCP6") != 0)
        return false;
    family = word[3] == '4' ? AF_INET : AF_INET6;
    if (!take_address(&line, family, source) || !take_address(&line, family, destination) ||
        !take_port(&line, &source_port) || !take_port(&line, &destination_port) || line.p != NULL)
        return false;
    set_client(out, family, source, source_port);
    return true;
}

static enum proxy_header_verdict parse_v1(struct slice in, struct proxy_header *out)
{
    struct slice head = slice_of(in.p, in.n < V1_MAX ? in.n : V1_MAX);
    size_t end = slice_index(head, '\r');

    if (memchr(in.p, '\n', end) != NULL || memchr(in.p, '\0', end) != NULL)
        return PROXY_HEADER_BAD;
    if (end + 1 >= head.n)
        return head.n < V1_MAX ? PROXY_HEADER_MORE : PROXY_HEADER_BAD;
    if (in.p[end + 1] != '\n' || !parse_v1_line(slice_of(in.p, end), out))
        return PROXY_HEADER_BAD;
    out->bytes = end + 2;
    return PROXY_HEADER_OK;
}

/* ---- version 2: signature, version and command, family and transport, length, addresses, TLVs ---- */

enum {
    V2_LOCAL = 0x20,
    V2_PROXY = 0x21,
    V2_UNSPEC = 0x00,
    V2_TCP4 = 0x11,
    V2_UDP4 = 0x12,
    V2_TCP6 = 0x21,
    V2_UDP6 = 0x22,
    V2_UNIX_STREAM = 0x31,
    V2_UNIX_DATAGRAM = 0x32,
};

static uint16_t be16(const unsigned char *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static bool take_v2_client(const unsigned char *p, size_t length, struct proxy_header *out)
{
    const unsigned char *addresses = p + V2_FIXED;

    if (p[12] == V2_LOCAL)
        return true;
    switch (p[13]) {
    case V2_UNSPEC:
    case V2_UDP4: /* who has no use for a family reads it as UNSPEC (the specification, 2.2) */
    case V2_UDP6:
    case V2_UNIX_STREAM: /* of a balancer whose own front end is one */
    case V2_UNIX_DATAGRAM:
        return true;
    case V2_TCP4:
        if (length < V2_INET_BYTES)
            return false;
        set_client(out, AF_INET, addresses, be16(addresses + 8));
        return true;
    case V2_TCP6:
        if (length < V2_INET6_BYTES)
            return false;
        set_client(out, AF_INET6, addresses, be16(addresses + 32));
        return true;
    default:
        return false; /* no valid combination */
    }
}

static enum proxy_header_verdict parse_v2(struct slice in, struct proxy_header *out)
{
    const unsigned char *p = (const unsigned char *)in.p;
    size_t length;

    if (in.n > 12 && p[12] != V2_LOCAL && p[12] != V2_PROXY)
        return PROXY_HEADER_BAD;
    if (in.n < V2_FIXED)
        return PROXY_HEADER_MORE;
    length = be16(p + 14);
    if (V2_FIXED + length > PROXY_HEADER_MAX)
        return PROXY_HEADER_BAD;
    if (in.n < V2_FIXED + length)
        return PROXY_HEADER_MORE;
    if (!take_v2_client(p, length, out))
        return PROXY_HEADER_BAD;
    out->bytes = V2_FIXED + length;
    return PROXY_HEADER_OK;
}

/* 1: begins with it; 0: may become it; -1: never. */
static int begins_with(struct slice in, struct slice start)
{
    size_t n = in.n < start.n ? in.n : start.n;

    if (memcmp(in.p, start.p, n) != 0)
        return -1;
    return in.n >= start.n ? 1 : 0;
}

enum proxy_header_verdict proxy_header_parse(struct slice in, struct proxy_header *out)
{
    int v1, v2;

    memset(out, 0, sizeof(*out));
    if (in.n == 0)
        return PROXY_HEADER_MORE;
    v1 = begins_with(in, SLICE_LIT("PROXY "));
    v2 = begins_with(in, slice_of(v2_signature, sizeof(v2_signature)));
    if (v1 > 0)
        return parse_v1(in, out);
    if (v2 > 0)
        return parse_v2(in, out);
    return v1 == 0 || v2 == 0 ? PROXY_HEADER_MORE : PROXY_HEADER_BAD;
}
