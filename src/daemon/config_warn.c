/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_warn.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/addresses.h"
#include "daemon/config_check_self.h"
#include "daemon/derive.h"
#include "daemon/options.h"
#include "daemon/remarks.h"
#include "daemon/serving_pair.h"
#include "kube/user.h"
#include "net/cidr.h"
#include "net/own_address.h"
#include "net/tls_sni.h"
#include "net/tls_suites.h"
#include "proxy/access_log.h"

enum { WARNINGS_CEILING = 64 << 10 };

static bool given(const char *s)
{
    return s[0] != '\0';
}

/* ---- what much does not work without ---- */

static void lacking(struct remarks *r)
{
    if (!given(r->c->tls_cert_file))
        return; /* then much more lacks */
    if (!given(r->c->peer_ca_file))
        remarks_warn(r, "peer-ca-file",
                     "none: peers cannot be used, and what only they have is 503: give the CA of the API servers' "
                     "serving certificates");
    if (!given(r->c->proxy_client_cert_file))
        remarks_warn(r, "proxy-client-cert-file",
                     "none: users with certificates are refused, and peers cannot be used: give kube-apiserver's "
                     "front-proxy pair");
    if (!given(r->c->requestheader_client_ca_file))
        remarks_warn(r, "requestheader-client-ca-file",
                     "none: requests from peers are refused, because their identity headers cannot be verified: give "
                     "kube-apiserver's --requestheader-client-ca-file");
}

/* ---- networks ---- */

/* Written as an address, it was perhaps meant as one. */
static void host_bits(struct remarks *r, const char *option, const char *const *list)
{
    char entry[REMARKS_NAME_BYTES], network[CIDR_TEXT_BYTES];
    struct cidr cidr;

    for (size_t i = 0; list[i] != NULL; i++) {
        struct slice address = slice_of(list[i], strcspn(list[i], "/"));

        if (cidr_parse(slice_str(list[i]), &cidr) && cidr_network(&cidr, network))
            remarks_warn(r, remarks_entry(entry, option, i),
                         "%s means all of %s: write that, or %.*s alone for the one address", list[i], network,
                         (int)address.n, address.p);
    }
}

static void trusts_everybody(struct remarks *r)
{
    char entry[REMARKS_NAME_BYTES], network[CIDR_TEXT_BYTES];
    struct cidr cidr;

    for (size_t i = 0; r->c->trusted_proxies[i] != NULL; i++) {
        if (!cidr_parse(slice_str(r->c->trusted_proxies[i]), &cidr))
            continue;
        (void)cidr_network(&cidr, network);
        if (strcmp(network, "0.0.0.0/0") == 0 || strcmp(network, "::/0") == 0)
            remarks_warn(r, remarks_entry(entry, "trusted-proxies", i),
                         "%s is everybody, who may then forge the addresses in the audit log: give the balancers' "
                         "addresses alone",
                         r->c->trusted_proxies[i]);
    }
}

/* ---- who has to send a PROXY header and never does ---- */

struct headerless {
    struct remarks *r;
    struct cidr_set balancers;
    bool warned;
};

static void look_at_own(const char *ip, void *arg)
{
    struct headerless *h = arg;

    if (h->warned || !cidr_set_covers(&h->balancers, slice_str(ip)))
        return;
    h->warned = true;
    remarks_warn(h->r, "proxy-protocol-from",
                 "has %s, an address of this machine: its own connections (kubelet, kube-proxy, host-network Pods) are "
                 "refused without a PROXY header: give the balancer an address of its own",
                 ip);
}

static void without_header(struct remarks *r)
{
    struct headerless h = {.r = r};
    struct derive_address at;
    char name[DERIVE_HOST_BYTES];

    if (!cidr_set_assign(&h.balancers, r->c->proxy_protocol_from))
        return;
    for (size_t i = 0; r->c->peers[i] != NULL; i++)
        if (derive_peer(r->c->peers[i], name, &at, NULL) && cidr_set_covers(&h.balancers, slice_str(at.host)))
            remarks_warn(r, "proxy-protocol-from",
                         "has %s, the peer %s, whose requests come without a PROXY header and are refused: give the "
                         "balancer an address of its own",
                         at.host, name);
    own_address_each(look_at_own, &h);
    cidr_set_free(&h.balancers);
}

/* ---- peers ---- */

/* Neither a name nor an address that anybody may dial. */
static bool is_special(const char *host)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, host, &in.sin_addr) == 1)
        return cidr_is_special((struct sockaddr *)&in);
    return inet_pton(AF_INET6, host, &in6.sin6_addr) == 1 && cidr_is_special((struct sockaddr *)&in6);
}

static bool is_address(const char *host)
{
    struct cidr cidr;

    return cidr_parse(slice_str(host), &cidr);
}

/* The list may be the same on all nodes. With another node's address it is rather the name that is wrong. */
static void look_at_own_name(struct remarks *r, const char *entry, const char *name, const struct derive_address *to)
{
    struct addresses ours;
    struct derive_address at = *to;
    struct err err = {.text = ""};

    if (!config_check_self_is_named(r->c, name) || !is_address(to->host) || !addresses_configured(r->c, &ours, &err))
        return;
    for (size_t i = 0; i < ours.n; i++) {
        at.port = ours.at[i].port;
        if (addresses_reached_by(&ours, &at) != NULL)
            return;
    }
    remarks_warn(r, entry,
                 "%s is this server's own name, and %s not its address, so the entry is ignored: give the peer's name, "
                 "or take it out",
                 name, to->host);
}

struct peer_entry {
    char name[DERIVE_HOST_BYTES]; /* "": it is not valid, which is said elsewhere */
    struct derive_address to;
    char spelt[ADDRESSES_SPELT_BYTES];
};

/* Of a list that was written by copying lines. */
static void look_at_same_place(struct remarks *r, const struct peer_entry *all, size_t i, const char *entry)
{
    char text[DERIVE_HOST_BYTES];

    for (size_t k = 0; k < i; k++) {
        if (all[k].name[0] == '\0' || strcmp(all[k].spelt, all[i].spelt) != 0)
            continue;
        derive_text(all[i].to.host, all[i].to.port, text);
        remarks_warn(r, entry,
                     "%s is the address of %s, too, so one is asked for what the other has: give each its own", text,
                     all[k].name);
        return;
    }
}

static void look_at_peer(struct remarks *r, const struct peer_entry *all, size_t i, const struct cidr_set *allowed)
{
    const struct peer_entry *p = &all[i];
    char entry[REMARKS_NAME_BYTES];

    if (p->name[0] == '\0')
        return;
    (void)remarks_entry(entry, "peers", i);
    look_at_own_name(r, entry, p->name, &p->to);
    if (allowed->n > 0 && is_address(p->to.host) && !cidr_set_covers(allowed, slice_str(p->to.host)))
        remarks_warn(r, entry,
                     "%s is not in peer-allowed-cidrs, and dialled all the same, as they bound names and what Leases "
                     "and etcd say: take it out if it is not meant",
                     p->to.host);
    else if (allowed->n == 0 && is_special(p->to.host))
        remarks_warn(r, entry,
                     "%s is no address of another machine (loopback and the like), and dialled all the same, as it "
                     "stands here: give the peer's own",
                     p->to.host);
    for (size_t k = 0; k < i; k++)
        if (strcmp(p->name, all[k].name) == 0) {
            remarks_warn(r, entry, "%s is named twice, and only the last address is used: take one out", p->name);
            return;
        }
    look_at_same_place(r, all, i, entry);
}

/* Each is compared with each, so they are read once. */
static void look_at_peers(struct remarks *r, const struct cidr_set *allowed)
{
    size_t n = 0;
    struct peer_entry *all;

    while (r->c->peers[n] != NULL)
        n++;
    all = n > 0 ? mem_zalloc(n * sizeof(*all)) : NULL;
    for (size_t i = 0; all != NULL && i < n; i++) {
        if (!derive_peer(r->c->peers[i], all[i].name, &all[i].to, NULL))
            all[i].name[0] = '\0';
        addresses_spell(&all[i].to, all[i].spelt);
        look_at_peer(r, all, i, allowed);
    }
    mem_free(all);
}

static void peers(struct remarks *r)
{
    struct cidr_set allowed = {NULL, 0};

    if (!cidr_set_assign(&allowed, r->c->peer_allowed_cidrs))
        return;
    look_at_peers(r, &allowed);
    if (given(r->c->peer_advertise_ip) && is_special(r->c->peer_advertise_ip))
        remarks_warn(r, "peer-advertise-ip", "peers on other machines do not reach %s: give an address that they reach",
                     r->c->peer_advertise_ip);
    cidr_set_free(&allowed);
}

/* ---- who asks ---- */

static bool has(const char *const *list, const char *text)
{
    while (*list != NULL && !slice_ieq(slice_str(*list), slice_str(text)))
        list++;
    return *list != NULL;
}

static void identities(struct remarks *r)
{
    const struct config *c = r->c;
    char entry[REMARKS_NAME_BYTES];

    if (given(c->apiserver_user) && strcmp(c->apiserver_user, "system:apiserver") != 0 &&
        has(c->apiserver_groups, "system:masters"))
        remarks_warn(r, remarks_is_given(r, "apiserver-groups") ? "apiserver-groups" : "apiserver-user",
                     "%s is in system:masters, so it may do everything whatever RBAC grants it: give apiserver-groups, "
                     "such as system:authenticated",
                     c->apiserver_user);
    for (size_t i = 0; c->requestheader_group_headers[i] != NULL; i++)
        if (has(c->requestheader_username_headers, c->requestheader_group_headers[i]))
            remarks_warn(r, remarks_entry(entry, "requestheader-group-headers", i),
                         "%s is in requestheader-username-headers, too, so that names are groups: give one of its own",
                         c->requestheader_group_headers[i]);
    for (size_t i = 0; c->requestheader_extra_headers_prefix[i] != NULL; i++)
        if (user_name_judge(slice_str(c->requestheader_extra_headers_prefix[i]), true) == USER_NAME_GENERAL)
            remarks_warn(r, remarks_entry(entry, "requestheader-extra-headers-prefix", i),
                         "%s is rather general, and all headers that begin so are removed from requests: give one that "
                         "ends in \"-\", such as X-Remote-Extra-",
                         c->requestheader_extra_headers_prefix[i]);
}

/* As a label of a host's name may be, and somewhat more: the kernel takes anything. */
static bool is_host_name(struct slice s)
{
    static const char parts[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    struct slice label;

    while (slice_split(&s, '.', &label)) {
        if (label.n == 0)
            return false;
        for (size_t i = 0; i < label.n; i++)
            if (memchr(parts, label.p[i], sizeof(parts) - 1) == NULL)
                return false;
    }
    return true;
}

static void names(struct remarks *r)
{
    char entry[REMARKS_NAME_BYTES];
    struct tls_sni_spec spec;
    struct slice name;
    struct err err;

    if (given(r->c->hostname_override) && !is_host_name(slice_str(r->c->hostname_override)))
        remarks_warn(r, "hostname-override",
                     "\"%s\" is not a host's name, from which a server ID is made: give what "
                     "hostname says where kube-apiserver runs",
                     r->c->hostname_override);
    for (size_t i = 0; r->c->tls_sni_cert_key[i] != NULL; i++) {
        err_clear(&err);
        if (!tls_sni_parse(r->c->tls_sni_cert_key[i], &spec, &err))
            continue;
        while (slice_split(&spec.patterns, ',', &name)) {
            name = slice_trim(name);
            if (slice_has_prefix(name, SLICE_LIT("*.")))
                name = slice_from(name, 2);
            if (!is_host_name(name) && !slice_eq(name, SLICE_LIT("*")) && slice_index(name, ':') == name.n)
                remarks_warn(r, remarks_entry(entry, "tls-sni-cert-key", i),
                             "\"%.*s\" is a name that no client asks for: write it such as api.example.com",
                             (int)name.n, name.n == 0 ? "" : name.p);
        }
    }
}

static void of_no_log(struct remarks *r)
{
    struct access_log log = {.all = false};
    struct err err = {.text = ""};

    if (!access_log_parse(r->c->access_log, &log, &err))
        return; /* that has been said */
    if (r->c->access_log_sample > 1 && !log.all)
        remarks_warn(r, "access-log-sample",
                     "has no effect without all in access-log, of which it takes a part: add it, or take this out");
    if (r->c->access_log_user && !access_log_on(&log))
        remarks_warn(r, "access-log-user", "has no effect without access-log: give it, or take this out");
}

static void without_effect(struct remarks *r)
{
    static const char *const options[] = {"etcd-cafile", "etcd-certfile"};

    for (size_t i = 0; i < 2 && r->c->etcd_servers[0] == NULL; i++)
        if (remarks_is_given(r, options[i]) && given(i == 0 ? r->c->etcd_cafile : r->c->etcd_certfile))
            remarks_warn(r, options[i], "has no effect without etcd-servers: give them, or take it out");
    of_no_log(r);
}

static void too_short(struct remarks *r)
{
    const struct option *stale = options_find(SLICE_LIT("peer-stale-after"));
    char given_for[32], least[32];

    if (r->c->peer_stale_after >= stale->sensible)
        return;
    clock_format_duration(r->c->peer_stale_after, given_for);
    clock_format_duration(stale->sensible, least);
    remarks_warn(
        r, stale->name,
        "%s is too short for Leases, which are renewed each 10s: peers that are well lapse, and what only they "
        "serve is marked Stale: give %s or more",
        given_for, least);
}

static void unlikely(struct remarks *r)
{
    const struct config *c = r->c;

    too_short(r);
    without_header(r);
    trusts_everybody(r);
    host_bits(r, "trusted-proxies", c->trusted_proxies);
    host_bits(r, "proxy-protocol-from", c->proxy_protocol_from);
    host_bits(r, "peer-allowed-cidrs", c->peer_allowed_cidrs);
    peers(r);
    identities(r);
    names(r);
    without_effect(r);
}

/* A start and a reload log it in words of their own (trust_say_suites()). */
static void suites(struct remarks *r)
{
    char entry[REMARKS_NAME_BYTES];

    for (size_t i = 0; r->c->tls_cipher_suites[i] != NULL; i++) {
        const char *name = r->c->tls_cipher_suites[i];
        enum tls_suite_kind kind = tls_suite_kind(name);

        (void)remarks_entry(entry, "tls-cipher-suites", i);
        if (kind == TLS_SUITE_INSECURE)
            remarks_warn(r, entry, "%s is insecure: take it out, unless a client can do nothing better", name);
        else if (kind == TLS_SUITE_MISSING)
            remarks_warn(r, entry, "the TLS library here lacks %s, and it is left out: take it out", name);
    }
}

void config_warn(const struct config *c, struct buf *out)
{
    struct remarks r = {c, out, true};

    lacking(&r);
    suites(&r);
    unlikely(&r);
}

void config_warn_log(const struct config *c)
{
    struct slice prefix = SLICE_LIT("warning: "), rest, line;
    struct buf text;
    struct remarks r = {c, &text, true};

    buf_init(&text, WARNINGS_CEILING);
    unlikely(&r);
    serving_pair_warn(c, &text);
    rest = buf_slice(&text);
    while (slice_split(&rest, '\n', &line))
        if (slice_has_prefix(line, prefix))
            log_warning("The configuration may not be as it is meant", LS("err", slice_from(line, prefix.n)));
    buf_free(&text);
}
