/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/hostport.h"

#include <arpa/inet.h>

static bool is_literal(int family, struct slice s)
{
    unsigned char addr[16];
    char text[INET6_ADDRSTRLEN];

    if (s.n == 0 || s.n >= sizeof(text) || slice_index(s, '\0') != s.n)
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    return inet_pton(family, text, addr) == 1;
}

bool hostport_is_ip(struct slice host)
{
    return is_literal(AF_INET, host) || is_literal(AF_INET6, host);
}

/* RFC 1123: labels of letters, digits and inner hyphens. A last label of digits only would be a malformed IPv4 address.
 */
static bool is_dns_name(struct slice s)
{
    struct slice label;
    bool digits_only = true;

    if (s.n == 0 || s.n > 253)
        return false;
    while (slice_split(&s, '.', &label)) {
        if (label.n == 0 || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
            return false;
        digits_only = true;
        for (size_t i = 0; i < label.n; i++) {
            char c = label.p[i];
            bool digit = c >= '0' && c <= '9';

            if (!digit && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-')
                return false;
            digits_only = digits_only && digit;
        }
    }
    return !digits_only;
}

bool hostport_parse(struct slice s, struct hostport *out)
{
    size_t colon = s.n;
    uint64_t port;

    while (colon > 0 && s.p[colon - 1] != ':')
        colon--;
    if (colon == 0 || s.n - colon > 5 || !slice_u64(slice_from(s, colon), &port) || port == 0 || port > 65535)
        return false;
    *out = (struct hostport){.host = slice_of(s.p, colon - 1), .port = (uint16_t)port};
    if (out->host.n > 2 && out->host.p[0] == '[' && out->host.p[out->host.n - 1] == ']') {
        out->host = slice_of(out->host.p + 1, out->host.n - 2);
        out->ip = true;
        return is_literal(AF_INET6, out->host);
    }
    out->ip = is_literal(AF_INET, out->host);
    return out->ip || is_dns_name(out->host);
}

bool hostport_print(struct slice host, uint16_t port, struct buf *out)
{
    bool brackets = slice_index(host, ':') != host.n;

    if (brackets)
        buf_append_char(out, '[');
    buf_append(out, host);
    if (brackets)
        buf_append_char(out, ']');
    buf_append_char(out, ':');
    return buf_append_u64(out, port);
}
