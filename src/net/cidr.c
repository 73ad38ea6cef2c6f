/* SPDX-License-Identifier: Apache-2.0 */
#include "net/cidr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

static const unsigned char v4_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static bool address_bytes(const struct sockaddr *addr, unsigned char out[16])
{
    if (addr->sa_family == AF_INET6) {
        memcpy(out, &((const struct sockaddr_in6 *)(const void *)addr)->sin6_addr, 16);
        return true;
    }
    if (addr->sa_family != AF_INET)
        return false;
    memcpy(out, v4_prefix, 12);
    memcpy(out + 12, &((const struct sockaddr_in *)(const void *)addr)->sin_addr, 4);
    return true;
}

static bool parse_address(struct slice s, unsigned char out[16], unsigned *width)
{
    char text[INET6_ADDRSTRLEN];

    if (s.n == 0 || s.n >= sizeof(text))
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    if (inet_pton(AF_INET6, text, out) == 1) {
        *width = 128;
        return true;
    }
    memcpy(out, v4_prefix, 12);
    *width = 32;
    return inet_pton(AF_INET, text, out + 12) == 1;
}

bool cidr_parse(struct slice s, struct cidr *out)
{
    struct slice rest = s, address;
    uint64_t bits;
    unsigned width;

    if (!slice_split(&rest, '/', &address) || !parse_address(address, out->bytes, &width))
        return false;
    bits = width;
    if (rest.p != NULL && (!slice_u64(rest, &bits) || bits > width))
        return false;
    out->bits = (unsigned)bits + 128 - width;
    return true;
}

bool cidr_network(const struct cidr *c, char out[CIDR_TEXT_BYTES])
{
    bool v4 = c->bits >= 96 && memcmp(c->bytes, v4_prefix, sizeof(v4_prefix)) == 0;
    unsigned char bytes[16] = {0};
    char text[INET6_ADDRSTRLEN];

    memcpy(bytes, c->bytes, (c->bits + 7) / 8);
    if (c->bits % 8 != 0)
        bytes[c->bits / 8] &= (unsigned char)(0xff00U >> c->bits % 8);
    if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? bytes + 12 : bytes, text, sizeof(text)) == NULL)
        text[0] = '\0';
    (void)snprintf(out, CIDR_TEXT_BYTES, "%s/%u", text, v4 ? c->bits - 96 : c->bits);
    return memcmp(bytes, c->bytes, sizeof(bytes)) != 0;
}

static bool bytes_in(const struct cidr *c, const unsigned char b[16])
{
    unsigned whole = c->bits / 8, rest = c->bits % 8;
    unsigned char mask = (unsigned char)(0xff00U >> rest);

    return memcmp(c->bytes, b, whole) == 0 && (rest == 0 || ((c->bytes[whole] ^ b[whole]) & mask) == 0);
}

bool cidr_same(const struct cidr *a, const struct cidr *b)
{
    return a->bits == b->bits && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool cidr_covers(const struct cidr *outer, const struct cidr *inner)
{
    return outer->bits <= inner->bits && bytes_in(outer, inner->bytes);
}

bool cidr_contains(const struct cidr *c, const struct sockaddr *addr)
{
    unsigned char b[16];

    return address_bytes(addr, b) && bytes_in(c, b);
}

/* Read already: each address of a peer is put to them each time that something is heard of the peer. */
#define V4(a, b, c, d, n)                                                                                              \
    {                                                                                                                  \
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, 96 + (n)                                               \
    }

static bool is_special(const unsigned char b[16])
{
    static const struct cidr special[] = {
        V4(0, 0, 0, 0, 8),
        V4(127, 0, 0, 0, 8),
        V4(169, 254, 0, 0, 16),
        V4(224, 0, 0, 0, 3),
        {{0}, 96}, /* ::/96 */
        {{0xfe, 0x80}, 10},
        {{0xff}, 8},
        /* Metadata services that are not link-local: Amazon's, Google's, Alibaba's, Azure's. */
        {{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54}, 128},
        {{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54}, 128},
        V4(100, 100, 100, 200, 32),
        V4(168, 63, 129, 16, 32),
    };

    for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
        if (bytes_in(&special[i], b))
            return true;
    return false;
}

static bool special_inside(const unsigned char b[16], const unsigned char at[4], unsigned char flip)
{
    unsigned char v4[16];

    memcpy(v4, v4_prefix, sizeof(v4_prefix));
    for (size_t i = 0; i < 4; i++)
        v4[12 + i] = b[at[i]] ^ flip;
    return is_special(v4);
}

/*
 * Where RFC 6052, 2.2 puts the IPv4 address under a prefix of 48, 56, 64 or 96 bits: nothing but zeros follows it. Byte
 * 8 stays free.
 */
static const unsigned char *place_of_v4(const unsigned char b[16])
{
    static const unsigned char places[][4] = {{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, {12, 13, 14, 15}};

    if ((b[13] | b[14] | b[15]) != 0)
        return places[3];
    return b[12] != 0 ? places[2] : b[11] != 0 ? places[1] : places[0];
}

/* Addresses that a translator or a relay on the way turns into IPv4 ones. */
static bool carries_special(const unsigned char b[16])
{
    static const struct cidr nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96},          /* RFC 6052 */
        nat64_local = {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48},             /* of a site's own, RFC 8215 */
        sixto4_relay = {{0x20, 0x02}, 16}, teredo = {{0x20, 0x01, 0x00}, 32}; /* RFC 3056, RFC 4380 */
    static const unsigned char last[4] = {12, 13, 14, 15}, sixto4[4] = {2, 3, 4, 5}, teredo_server[4] = {4, 5, 6, 7};

    if (bytes_in(&nat64, b))
        return special_inside(b, last, 0);
    if (bytes_in(&nat64_local, b))
        return special_inside(b, place_of_v4(b), 0);
    if (bytes_in(&sixto4_relay, b))
        return special_inside(b, sixto4, 0);
    if (bytes_in(&teredo, b)) /* the server, and the client upside down */
        return special_inside(b, teredo_server, 0) || special_inside(b, last, 0xff);
    return false;
}

bool cidr_is_special(const struct sockaddr *addr)
{
    unsigned char b[16];

    return !address_bytes(addr, b) || is_special(b) || carries_special(b);
}

bool cidr_set_assign(struct cidr_set *s, const char *const *list)
{
    struct cidr_set fresh = {NULL, 0};
    size_t count = 0;

    while (list != NULL && list[count] != NULL)
        count++;
    if (count > 0) {
        fresh.each = mem_array(count, sizeof(*fresh.each));
        if (fresh.each == NULL)
            return false;
    }
    for (size_t i = 0; i < count; i++)
        if (cidr_parse(slice_str(list[i]), &fresh.each[fresh.n]))
            fresh.n++;
    mem_free(s->each);
    *s = fresh;
    return true;
}

void cidr_set_free(struct cidr_set *s)
{
    mem_free(s->each);
    *s = (struct cidr_set){NULL, 0};
}

bool cidr_set_contains(const struct cidr_set *s, const struct sockaddr *addr)
{
    for (size_t i = 0; i < s->n; i++)
        if (cidr_contains(&s->each[i], addr))
            return true;
    return false;
}

bool cidr_set_covers(const struct cidr_set *s, struct slice text)
{
    struct cidr inner;

    if (s->n == 0 || !cidr_parse(text, &inner))
        return false;
    for (size_t i = 0; i < s->n; i++)
        if (cidr_covers(&s->each[i], &inner))
            return true;
    return false;
}

bool cidr_set_same(const struct cidr_set *a, const struct cidr_set *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; i++)
        same = cidr_same(&a->each[i], &b->each[i]);
    return same;
}
