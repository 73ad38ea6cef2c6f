/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/addresses.h"

#include "daemon/config.h"
#include "daemon/local_names.h"
#include "net/cidr.h"
#include "net/own_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <strings.h>

static bool to_sockaddr(const char *ip, struct sockaddr_storage *out)
{
    struct sockaddr_in *in = (struct sockaddr_in *)out;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;

    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, ip, &in->sin_addr) == 1)
        out->ss_family = AF_INET;
    else if (inet_pton(AF_INET6, ip, &in6->sin6_addr) == 1)
        out->ss_family = AF_INET6;
    return out->ss_family != AF_UNSPEC;
}

unsigned addresses_sockaddr(const struct listen_address *a, struct sockaddr_storage *out)
{
    if (!to_sockaddr(a->host, out))
        return 0;
    if (out->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)out)->sin6_port = htons((uint16_t)a->port);
        return sizeof(struct sockaddr_in6);
    }
    ((struct sockaddr_in *)out)->sin_port = htons((uint16_t)a->port);
    return sizeof(struct sockaddr_in);
}

static bool is_unspecified(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static bool is_localhost(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strcasecmp(host, "localhost.") == 0;
}

/* The address itself, in one spelling; of IPv4 also where it is written as IPv6 (::ffff:127.0.0.1). */
static bool normalize(const char *host, char out[INET6_ADDRSTRLEN])
{
    struct sockaddr_storage addr;
    const struct in6_addr *in6 = &((struct sockaddr_in6 *)&addr)->sin6_addr;

    if (!to_sockaddr(host, &addr))
        return false;
    if (addr.ss_family == AF_INET)
        return inet_ntop(AF_INET, &((struct sockaddr_in *)&addr)->sin_addr, out, INET6_ADDRSTRLEN) != NULL;
    if (IN6_IS_ADDR_V4MAPPED(in6))
        return inet_ntop(AF_INET, &in6->s6_addr[12], out, INET6_ADDRSTRLEN) != NULL;
    return inet_ntop(AF_INET6, in6, out, INET6_ADDRSTRLEN) != NULL;
}

/* What no connection can be made to, or not without the name of an interface. */
static const char *unusable(const struct sockaddr_storage *addr)
{
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)addr)->sin6_addr;
    uint32_t in = ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr);

    if (addr->ss_family == AF_INET)
        return IN_MULTICAST(in) || in == INADDR_BROADCAST ? "a multicast or broadcast" : NULL;
    if (IN6_IS_ADDR_MULTICAST(in6))
        return "a multicast";
    return IN6_IS_ADDR_LINKLOCAL(in6) ? "a link-local" : NULL;
}

static bool not_an_address(const char *text, struct err *err)
{
    size_t n = strlen(text);

    if (n > 2 && text[0] == '[' && text[n - 1] == ']')
        return err_set(err, "\"%s\" has brackets and no port: take the brackets off, or add a port behind them", text);
    if (strchr(text, '%') != NULL)
        return err_set(err, "\"%s\" names an interface, which is not possible: give another address of this machine",
                       text);
    return err_set(err, "\"%s\" is not an IP address, alone or with a port: give one of this machine", text);
}

/* "IP", "IP:PORT", "[IP]:PORT". */
static bool parse_listen(const char *text, unsigned port, struct listen_address *out, struct err *err)
{
    struct derive_address given = {.port = port};
    struct sockaddr_storage addr;
    struct err ignored;

    err_clear(&ignored);
    if (strlen(text) < sizeof(given.host) && to_sockaddr(text, &addr))
        (void)snprintf(given.host, sizeof(given.host), "%s", text);
    else if (!derive_may_be_shown(slice_str(text), err))
        return false;
    else if (!derive_host_port(slice_str(text), &given, &ignored) || !to_sockaddr(given.host, &addr))
        return not_an_address(text, err);
    if (unusable(&addr) != NULL)
        return err_set(err, "\"%s\" is %s address, on which nobody can be served: give another of this machine", text,
                       unusable(&addr));
    out->port = given.port;
    /* One spelling for each address. */
    if (addr.ss_family == AF_INET)
        return inet_ntop(AF_INET, &((struct sockaddr_in *)&addr)->sin_addr, out->host, sizeof(out->host)) != NULL;
    return inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&addr)->sin6_addr, out->host, sizeof(out->host)) != NULL;
}

bool addresses_overlap(const struct listen_address *a, const struct listen_address *b)
{
    char one[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];

    if (a->port == 0 || a->port != b->port || !normalize(a->host, one) || !normalize(b->host, other))
        return false;
    /* A socket on :: takes connections of both families (net/listener.c). */
    return strcmp(one, other) == 0 || strcmp(one, "::") == 0 || strcmp(other, "::") == 0 ||
           (strcmp(one, "0.0.0.0") == 0 && strchr(other, ':') == NULL) ||
           (strcmp(other, "0.0.0.0") == 0 && strchr(one, ':') == NULL);
}

/* Of the entries before: none has any of its connections. */
static bool is_free(const struct config *c, const struct addresses *before, const struct listen_address *l,
                    struct err *err)
{
    for (size_t i = 0; i < before->n; i++) {
        const char *one = c->bind_address[i], *other = c->bind_address[before->n];

        if (!addresses_overlap(&before->at[i], l))
            continue;
        if (strcmp(l->host, before->at[i].host) != 0)
            return err_set(err, "\"%s\" and \"%s\" overlap, so that only one can be bound: take one out", one, other);
        return err_set(err, "\"%s\" is given twice: take one out", other);
    }
    return true;
}

static bool parse_all(const struct config *c, struct addresses *out, struct err *err)
{
    for (; c->bind_address[out->n] != NULL; out->n++) {
        if (out->n == LISTENERS_MAX)
            return err_set(err, "more than %d addresses: take some out, or give 0.0.0.0 or ::", LISTENERS_MAX);
        if (!parse_listen(c->bind_address[out->n], (unsigned)c->secure_port, &out->at[out->n], err) ||
            !is_free(c, out, &out->at[out->n], err))
            return false;
    }
    return true;
}

bool addresses_configured(const struct config *c, struct addresses *out, struct err *err)
{
    static const int families[] = {AF_INET, AF_INET6};

    out->n = 0;
    if (!parse_all(c, out, err))
        return false;
    if (out->n > 0)
        return true;
    for (size_t i = 0; i < 2; i++) {
        out->at[out->n].port = (unsigned)c->secure_port;
        if (own_address(families[i], out->at[out->n].host))
            out->n++;
    }
    if (out->n == 0)
        return err_set(err, "this machine has no default route whose address could be used: give an address");
    return true;
}

void addresses_of(const struct derive_address *one, struct addresses *out)
{
    out->n = strlen(one->host) < sizeof(out->at[0].host);
    if (out->n == 0)
        return;
    (void)snprintf(out->at[0].host, sizeof(out->at[0].host), "%s", is_localhost(one->host) ? "127.0.0.1" : one->host);
    out->at[0].port = one->port;
}

void addresses_inherited(const int *fds, size_t n, struct addresses *out)
{
    out->n = 0;
    for (size_t i = 0; i < n && i < LISTENERS_MAX; i++)
        if (listener_address_of(fds[i], &out->at[out->n]))
            out->n++;
}

/* A socket on :: takes connections of both families (net/listener.c). */
static bool covers(const char *bound, const char *ip)
{
    struct sockaddr_storage addr;

    if (strcmp(bound, ip) == 0)
        return true;
    if (!is_unspecified(bound) || !to_sockaddr(ip, &addr) || (bound[0] == '0' && addr.ss_family != AF_INET))
        return false;
    return own_address_is((struct sockaddr *)&addr);
}

/* Who connects to an unspecified address comes to loopback. */
static bool reaches(const struct listen_address *l, const struct derive_address *to)
{
    char bound[INET6_ADDRSTRLEN], ip[INET6_ADDRSTRLEN];

    if (l->port == 0 || l->port != to->port || !normalize(l->host, bound))
        return false;
    if (is_localhost(to->host) || strcmp(to->host, "::") == 0)
        return covers(bound, "127.0.0.1") || covers(bound, "::1");
    return normalize(to->host, ip) && covers(bound, is_unspecified(ip) ? "127.0.0.1" : ip);
}

static const struct listen_address *reached_by(const struct addresses *a, const struct derive_address *to)
{
    for (size_t i = 0; i < a->n; i++)
        if (reaches(&a->at[i], to))
            return &a->at[i];
    return NULL;
}

/* DNS may have another of its addresses for this machine's own name than one would think of; on all of them listens who
 * listens on the unspecified one. */
static const struct listen_address *reached_by_own_name(const struct addresses *a, const struct derive_address *to)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->at[i].port != 0 && a->at[i].port == to->port && is_unspecified(a->at[i].host) &&
            local_names_is_own(to->host))
            return &a->at[i];
    return NULL;
}

const struct listen_address *addresses_reached_by(const struct addresses *a, const struct derive_address *to)
{
    const struct listen_address *l = reached_by(a, to);
    char found[LOCAL_NAMES_MAX][LOCAL_NAMES_BYTES], ip[INET6_ADDRSTRLEN];
    struct derive_address there = {.port = to->port};
    size_t n;

    if (l != NULL || is_localhost(to->host) || normalize(to->host, ip))
        return l;
    n = local_names_find("/etc/hosts", to->host, found);
    for (size_t i = 0; l == NULL && i < n; i++) {
        (void)snprintf(there.host, sizeof(there.host), "%s", found[i]);
        l = reached_by(a, &there);
    }
    return n > 0 ? l : reached_by_own_name(a, to);
}

static bool would_reach(const struct derive_address *server, const struct derive_address *to)
{
    struct addresses at;

    addresses_of(server, &at);
    /* Somebody else's socket: where a connection leads to is known, and not on what it listens. */
    if (at.n > 0 && is_unspecified(at.at[0].host))
        (void)snprintf(at.at[0].host, sizeof(at.at[0].host), "127.0.0.1");
    return addresses_reached_by(&at, to) != NULL;
}

bool addresses_meet(const struct derive_address *a, const struct derive_address *b)
{
    return (a->port == b->port && strcasecmp(a->host, b->host) == 0) || would_reach(a, b) || would_reach(b, a);
}

void addresses_spell(const struct derive_address *a, char out[ADDRESSES_SPELT_BYTES])
{
    char ip[INET6_ADDRSTRLEN];
    const char *host = a->host;

    if (is_localhost(host))
        host = "127.0.0.1";
    else if (normalize(host, ip))
        host = !is_unspecified(ip) ? ip : ip[0] == ':' ? "::1" : "127.0.0.1";
    (void)snprintf(out, ADDRESSES_SPELT_BYTES, "%s %u", host, (unsigned)a->port);
    for (char *c = out; *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
}

void addresses_advertised(const struct addresses *a, char out[DERIVE_HOST_BYTES])
{
    char own[OWN_ADDRESS_BYTES];

    out[0] = '\0';
    for (size_t i = 0; i < a->n && out[0] == '\0'; i++) {
        const struct listen_address *l = &a->at[i];
        struct sockaddr_storage addr;

        if (l->port == 0)
            continue;
        if (!is_unspecified(l->host) && to_sockaddr(l->host, &addr) && !cidr_is_special((struct sockaddr *)&addr))
            derive_text(l->host, l->port, out);
        else if (is_unspecified(l->host) &&
                 (own_address(AF_INET, own) || (l->host[0] == ':' && own_address(AF_INET6, own))))
            derive_text(own, l->port, out);
    }
}
