/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/access.h"

#include <arpa/inet.h>

#include "admin/health.h"
#include "net/tls_peer.h"

bool access_is_loopback(const char *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* The Host field without its port and without brackets. */
static struct slice host_name(struct slice host)
{
    if (host.n > 0 && host.p[0] == '[') {
        size_t end = slice_index(host, ']');

        return end == host.n ? SLICE_NONE : slice_of(host.p + 1, end - 1);
    }
    host.n = slice_index(host, ':');
    return host;
}

static bool is_local_host(struct slice host)
{
    struct slice name = host_name(host);
    char text[64];

    if (slice_ieq(name, SLICE_LIT("localhost")))
        return true;
    if (name.n == 0 || name.n >= sizeof(text))
        return false;
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    return access_is_loopback(text);
}

static bool may_monitor(const struct tls_peer *peer)
{
    for (size_t i = 0; i < peer->n_orgs; i++)
        if (slice_eq(peer->orgs[i], SLICE_LIT("system:masters")) ||
            slice_eq(peer->orgs[i], SLICE_LIT("system:monitoring")))
            return true;
    return false;
}

enum access_verdict access_check(bool loopback, struct slice path, struct slice host, const struct tls_peer *peer,
                                 int64_t now)
{
    /* Without Host it is HTTP/1.0, which no browser speaks. */
    if (loopback)
        return host.n == 0 || is_local_host(host) ? ACCESS_GRANTED : ACCESS_FOREIGN_HOST;
    if (health_is_public(path))
        return ACCESS_GRANTED;
    if (peer == NULL || !peer->client_ca || peer->too_many_orgs || now >= peer->not_after)
        return ACCESS_NO_IDENTITY;
    return may_monitor(peer) ? ACCESS_GRANTED : ACCESS_NOT_MONITORING;
}

const char *access_why_not(const struct tls_peer *peer, int64_t now)
{
    if (peer == NULL || !peer->present)
        return NULL;
    if (peer->why_not != NULL)
        return peer->why_not;
    if (!peer->client_ca)
        return "it is of requestheader-client-ca-file, not of client-ca-file";
    if (peer->too_many_orgs)
        return "it names too many organizations";
    if (now >= peer->not_after)
        return "the certificate has expired since the handshake";
    return may_monitor(peer) ? NULL : "it names neither system:monitoring nor system:masters";
}
