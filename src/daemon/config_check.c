/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_check.h"

#include "base/limits.h"
#include "cluster/etcd.h"
#include "daemon/addresses.h"
#include "kube/server_id.h"
#include "net/cidr.h"
#include "net/tls_sni.h"
#include "net/tls_suites.h"
#include "proxy/access_log.h"

#include <stdio.h>
#include <unistd.h>

static const struct config_setting *last_setting(const struct config_sources *o, const char *name)
{
    for (size_t i = o->n_flags; i > 0; i--)
        if (slice_eq(o->flags[i - 1].key, slice_str(name)))
            return &o->flags[i - 1];
    for (size_t i = o->n_file; i > 0; i--)
        if (slice_eq(o->file[i - 1].key, slice_str(name)))
            return &o->file[i - 1];
    return NULL;
}

static void wrong(struct config_sources *o, const char *name, const char *what)
{
    const struct config_setting *s = last_setting(o, name);

    o->ok = false;
    if (s == NULL)
        buf_printf(o->errors, "%s: %s\n", name, what);
    else
        config_complain(o->errors, &s->place, "%s: %s", name, what);
}

/* ---- checks over the whole ---- */

static bool given(const char *s)
{
    return s[0] != '\0';
}

static void need(struct config_sources *o, const char *name, const char *value, const char *what)
{
    if (!given(value))
        wrong(o, name, what);
}

static void check_pair(struct config_sources *o, const char *cert, const char *cert_name, const char *key,
                       const char *key_name)
{
    if (given(cert) && !given(key))
        wrong(o, key_name, "is required together with the certificate");
    if (given(key) && !given(cert))
        wrong(o, cert_name, "is required together with the key");
}

static void check_networks(struct config_sources *o, const char *name, const char *const *list)
{
    struct cidr cidr;
    struct err err;

    for (size_t i = 0; list[i] != NULL; i++) {
        if (cidr_parse(slice_str(list[i]), &cidr))
            continue;
        err_clear(&err);
        if (derive_may_be_shown(slice_str(list[i]), &err))
            (void)err_set(&err, "\"%s\" is not a network such as 10.0.0.0/8", list[i]);
        wrong(o, name, err.text);
    }
}

static void check_peers(struct config_sources *o, const struct config *c)
{
    char name[DERIVE_HOST_BYTES];
    struct derive_address addr;
    struct err err;

    for (size_t i = 0; c->peers[i] != NULL; i++) {
        err_clear(&err);
        if (!derive_peer(c->peers[i], name, &addr, &err))
            wrong(o, "peers", err.text);
    }
    check_networks(o, "peer-allowed-cidrs", c->peer_allowed_cidrs);
    if (c->peer_forget_after < c->peer_stale_after)
        wrong(o, "peer-forget-after", "must not be shorter than peer-stale-after");
}

static void check_addresses(struct config_sources *o, const struct config *c)
{
    struct derive_address addr;
    struct derive_gates gates;
    double chance;
    struct err err;
    char advertise[DERIVE_HOST_BYTES];

    err_clear(&err);
    if (!derive_url(c->apiserver, &addr, &err))
        wrong(o, "apiserver", err.text);
    err_clear(&err);
    if (given(c->admin_bind_address) && !derive_host_port(slice_str(c->admin_bind_address), &addr, &err))
        wrong(o, "admin-bind-address", err.text);
    err_clear(&err);
    if (!derive_chance(c->goaway_chance, &chance, &err))
        wrong(o, "goaway-chance", err.text);
    err_clear(&err);
    if (!derive_gates(c->feature_gates, &gates, &err))
        wrong(o, "feature-gates", err.text);
    err_clear(&err);
    if (!derive_advertise(c->peer_advertise_ip, c->peer_advertise_port, advertise, &err))
        wrong(o, given(c->peer_advertise_ip) ? "peer-advertise-ip" : "peer-advertise-port", err.text);
}

/* The list may be the same on all nodes: an entry for this very server is left out later. */
static bool names_ourselves(const struct config *c, const char *peer)
{
    char host[256] = "", id[SERVER_ID_BYTES];

    if (c->hostname_override[0] != '\0')
        (void)snprintf(host, sizeof(host), "%s", c->hostname_override);
    else if (gethostname(host, sizeof(host) - 1) != 0)
        return true;
    return strcmp(peer, host) == 0 || (server_id_from_hostname(slice_str(host), id) && strcmp(peer, id) == 0);
}

static void check_peers_are_others(struct config_sources *o, const struct config *c, const struct addresses *ours)
{
    char name[DERIVE_HOST_BYTES];
    struct derive_address to;
    struct err err;

    for (size_t i = 0; c->peers[i] != NULL; i++) {
        err_clear(&err);
        if (!derive_peer(c->peers[i], name, &to, &err) || addresses_reached_by(ours, &to) == NULL ||
            names_ourselves(c, name))
            continue;
        (void)err_set(&err, "%s is the address of this proxy itself: give that of the peer", c->peers[i]);
        wrong(o, "peers", err.text);
    }
}

/* Whoever connects there comes back to us: said here, before it can become an endless loop of connections. */
static void check_not_ourselves(struct config_sources *o, const struct config *c)
{
    struct derive_address to;
    struct addresses ours;
    struct err err;

    err_clear(&err);
    if (!addresses_configured(c, &ours, &err)) {
        if (c->bind_address[0] != NULL)
            wrong(o, "bind-address", err.text);
        return; /* without a default route nothing is known: a start says it */
    }
    if (derive_url(c->apiserver, &to, &err) && addresses_reached_by(&ours, &to) != NULL)
        wrong(o, "apiserver",
              "is this proxy itself (bind-address, secure-port): let kube-apiserver listen on another address or port");
    if (given(c->admin_bind_address) && derive_host_port(slice_str(c->admin_bind_address), &to, &err) &&
        addresses_reached_by(&ours, &to) != NULL)
        wrong(o, "admin-bind-address", "clients are served there (bind-address, secure-port): choose another port");
    check_peers_are_others(o, c, &ours);
}

static void check_etcd(struct config_sources *o, const struct config *c)
{
    bool any_tls = false, tls;
    struct derive_address addr;
    struct err err;
    size_t n = 0;

    for (; c->etcd_servers[n] != NULL; n++) {
        err_clear(&err);
        if (!derive_etcd_url(c->etcd_servers[n], &addr, &tls, &err))
            wrong(o, "etcd-servers", err.text);
        else
            any_tls = any_tls || tls;
    }
    if (n > ETCD_SERVERS_MAX)
        wrong(o, "etcd-servers", "too many endpoints");
    if (any_tls)
        need(o, "etcd-cafile", c->etcd_cafile, "is required for the https:// URLs of etcd-servers: give etcd's CA");
    check_pair(o, c->etcd_certfile, "etcd-certfile", c->etcd_keyfile, "etcd-keyfile");
    if (strlen(c->etcd_prefix) > LIMIT_ETCD_PREFIX_BYTES)
        wrong(o, "etcd-prefix", "too long");
}

static bool is_token(const char *s)
{
    for (const char *p = s; *p != '\0'; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr("!#$%&'*+-.^_`|~", *p) != NULL))
            return false;
    return *s != '\0';
}

static void check_header_names(struct config_sources *o, const char *name, const char *const *list)
{
    for (size_t i = 0; list[i] != NULL; i++)
        if (!is_token(list[i]))
            wrong(o, name, "not a header name");
}

static void check_cipher_suites(struct config_sources *o, const char *const *names)
{
    bool any = names[0] == NULL;
    struct err err;

    for (size_t i = 0; names[i] != NULL; i++) {
        enum tls_suite_kind kind = tls_suite_kind(names[i]);

        any = any || (kind != TLS_SUITE_UNKNOWN && kind != TLS_SUITE_MISSING);
        if (kind != TLS_SUITE_UNKNOWN)
            continue;
        err_clear(&err);
        (void)err_set(&err, "\"%s\" is not a cipher suite that kube-apiserver knows", names[i]);
        wrong(o, "tls-cipher-suites", err.text);
        return;
    }
    if (!any)
        wrong(o, "tls-cipher-suites", "the TLS library here has none of them");
}

static void check_tls(struct config_sources *o, const struct config *c)
{
    struct tls_sni_spec spec;
    struct err err;

    check_cipher_suites(o, c->tls_cipher_suites);
    for (size_t i = 0; c->tls_sni_cert_key[i] != NULL; i++) {
        err_clear(&err);
        if (!tls_sni_parse(c->tls_sni_cert_key[i], &spec, &err))
            wrong(o, "tls-sni-cert-key", err.text);
    }
}

static void check_access_log(struct config_sources *o, const struct config *c)
{
    struct access_log ignored = {.all = false};
    struct err err;

    err_clear(&err);
    if (!access_log_parse(c->access_log, &ignored, &err))
        wrong(o, "access-log", err.text);
}

bool config_check(struct config_sources *o, const struct config *c)
{
    need(o, "tls-cert-file", c->tls_cert_file, "is required: give kube-apiserver's serving certificate");
    need(o, "tls-private-key-file", c->tls_private_key_file, "is required: give kube-apiserver's serving key");
    need(o, "apiserver-ca-file", c->apiserver_ca_file,
         "is required: give the CA of kube-apiserver's serving certificate");
    need(o, "apiserver-user", c->apiserver_user, "is required: give a user such as system:apiserver");
    check_pair(o, c->proxy_client_cert_file, "proxy-client-cert-file", c->proxy_client_key_file,
               "proxy-client-key-file");
    check_header_names(o, "requestheader-username-headers", c->requestheader_username_headers);
    check_header_names(o, "requestheader-uid-headers", c->requestheader_uid_headers);
    check_header_names(o, "requestheader-group-headers", c->requestheader_group_headers);
    check_header_names(o, "requestheader-extra-headers-prefix", c->requestheader_extra_headers_prefix);
    check_networks(o, "trusted-proxies", c->trusted_proxies);
    check_networks(o, "proxy-protocol-from", c->proxy_protocol_from);
    check_tls(o, c);
    check_peers(o, c);
    check_addresses(o, c);
    check_not_ourselves(o, c);
    check_etcd(o, c);
    check_access_log(o, c);
    return o->ok;
}
