/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_check.h"

#include "base/limits.h"
#include "cluster/etcd.h"
#include "daemon/config_check_self.h"
#include "daemon/derive.h"
#include "daemon/remarks.h"
#include "http/head.h"
#include "kube/user.h"
#include "net/cidr.h"
#include "net/tls_sni.h"
#include "net/tls_suites.h"
#include "proxy/access_log.h"

/* TLS has no longer names. Of as whom mvproxy asks the cluster layer (cluster/api.c) keeps a user and 63 groups, and
 * more bytes than these of each. */
enum { SERVER_NAME_MAX = 255, GROUPS_MAX = 63, IDENTITY_BYTES_MAX = 8 << 10 };

static bool given(const char *s)
{
    return s[0] != '\0';
}

static void need(struct remarks *r, const char *name, const char *value, const char *give)
{
    if (!given(value))
        remarks_wrong(r, name, "is required: give %s", give);
}

static void check_pair(struct remarks *r, const char *cert, const char *cert_name, const char *key,
                       const char *key_name)
{
    if (given(cert) && !given(key))
        remarks_lacks(r, key_name, cert_name, "is required together with %s: give its key", cert_name);
    if (given(key) && !given(cert))
        remarks_lacks(r, cert_name, key_name, "is required together with %s: give its certificate", key_name);
}

static void check_networks(struct remarks *r, const char *name, const char *const *list)
{
    char entry[REMARKS_NAME_BYTES];
    struct cidr cidr;
    struct err err;

    for (size_t i = 0; list[i] != NULL; i++) {
        if (cidr_parse(slice_str(list[i]), &cidr))
            continue;
        err_clear(&err);
        if (derive_may_be_shown(slice_str(list[i]), &err))
            (void)err_set(&err, "\"%s\" is not a network: write it such as 10.0.0.0/8", list[i]);
        remarks_wrong(r, remarks_entry(entry, name, i), "%s", err.text);
    }
}

static void check_peers(struct remarks *r)
{
    char name[DERIVE_HOST_BYTES], entry[REMARKS_NAME_BYTES];
    struct derive_address addr;
    struct err err;

    for (size_t i = 0; r->c->peers[i] != NULL; i++) {
        err_clear(&err);
        if (!derive_peer(r->c->peers[i], name, &addr, &err))
            remarks_wrong(r, remarks_entry(entry, "peers", i), "%s", err.text);
    }
    check_networks(r, "peer-allowed-cidrs", r->c->peer_allowed_cidrs);
    if (remarks_is_read(r, "peer-stale-after") && remarks_is_read(r, "peer-forget-after") &&
        r->c->peer_forget_after < r->c->peer_stale_after)
        remarks_lacks(r, "peer-forget-after",
                      remarks_is_given(r, "peer-forget-after") ? "peer-forget-after" : "peer-stale-after",
                      "is shorter than peer-stale-after: give a longer one");
}

static void check_addresses(struct remarks *r)
{
    const struct config *c = r->c;
    struct derive_address addr;
    struct derive_gates gates;
    double chance;
    struct err err = {.text = ""};
    char advertise[DERIVE_HOST_BYTES];

    if (!derive_url(c->apiserver, &addr, &err))
        remarks_wrong(r, "apiserver", "%s", err.text);
    err_clear(&err);
    if (given(c->admin_bind_address) && !derive_admin(c->admin_bind_address, &addr, &err))
        remarks_wrong(r, "admin-bind-address", "%s", err.text);
    err_clear(&err);
    if (!derive_chance(c->goaway_chance, &chance, &err))
        remarks_wrong(r, "goaway-chance", "%s", err.text);
    err_clear(&err);
    if (!derive_gates(c->feature_gates, &gates, &err))
        remarks_wrong(r, "feature-gates", "%s", err.text);
    err_clear(&err);
    if (remarks_is_read(r, "peer-advertise-port") &&
        !derive_advertise(c->peer_advertise_ip, c->peer_advertise_port, advertise, &err))
        remarks_wrong(r, given(c->peer_advertise_ip) ? "peer-advertise-ip" : "peer-advertise-port", "%s", err.text);
}

static void check_etcd(struct remarks *r)
{
    const struct config *c = r->c;
    bool any_tls = false, tls;
    char entry[REMARKS_NAME_BYTES];
    struct derive_address addr;
    struct err err;
    size_t n = 0, prefix = strlen(c->etcd_prefix);

    for (; c->etcd_servers[n] != NULL; n++) {
        err_clear(&err);
        if (!derive_etcd_url(c->etcd_servers[n], &addr, &tls, &err))
            remarks_wrong(r, remarks_entry(entry, "etcd-servers", n), "%s", err.text);
        else
            any_tls = any_tls || tls;
    }
    if (n > ETCD_SERVERS_MAX)
        remarks_wrong(r, "etcd-servers", "more than %d endpoints: take some out", ETCD_SERVERS_MAX);
    if (any_tls && !given(c->etcd_cafile))
        remarks_lacks(r, "etcd-cafile", "etcd-servers",
                      "is required for the https:// URLs of etcd-servers: give etcd's CA");
    check_pair(r, c->etcd_certfile, "etcd-certfile", c->etcd_keyfile, "etcd-keyfile");
    if (prefix > LIMIT_ETCD_PREFIX_BYTES)
        remarks_wrong(r, "etcd-prefix", "longer than %d characters: give kube-apiserver's --etcd-prefix",
                      LIMIT_ETCD_PREFIX_BYTES);
    else if (n > 0 && prefix > 0 && (c->etcd_prefix[0] != '/' || c->etcd_prefix[prefix - 1] == '/'))
        remarks_wrong(r, "etcd-prefix",
                      "\"%s\" is not how kube-apiserver's keys begin: put a \"/\" before it, and none behind it",
                      c->etcd_prefix);
}

static bool is_token(const char *s)
{
    for (const char *p = s; *p != '\0'; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr("!#$%&'*+-.^_`|~", *p) != NULL))
            return false;
    return *s != '\0';
}

/*
 * A header of HTTP itself is taken for what it means there, and never for somebody's name. Impersonate-* would be
 * removed from requests, which would then be the impersonator's own.
 */
static void check_header_names(struct remarks *r, const char *name, const char *const *list)
{
    bool prefix = list == r->c->requestheader_extra_headers_prefix;
    char entry[REMARKS_NAME_BYTES];

    for (size_t i = 0; list[i] != NULL; i++) {
        (void)remarks_entry(entry, name, i);
        if (!is_token(list[i]))
            remarks_wrong(r, entry, "\"%s\" is not a header's name: write it without blanks, as in X-Remote-User",
                          list[i]);
        else if (http_name_of(slice_str(list[i])) != HTTP_NAME_OTHER)
            remarks_wrong(r, entry,
                          "\"%s\" means something else in HTTP: give a header for identities, such as X-Remote-User",
                          list[i]);
        else if (user_name_judge(slice_str(list[i]), prefix) == USER_NAME_RESERVED)
            remarks_wrong(r, entry, "\"%s\" would have Impersonate-* or Sec-WebSocket-* removed from requests: give %s",
                          list[i],
                          prefix ? "a prefix for identities, such as X-Remote-Extra-"
                                 : "a header for identities, such as X-Remote-User");
    }
}

/* ---- as whom mvproxy asks ---- */

static bool emit_nothing(void *arg, struct slice name, struct slice value)
{
    (void)arg;
    (void)name;
    (void)value;
    return true;
}

static void check_word(struct remarks *r, const char *entry, const char *word)
{
    const struct user u = {.name = slice_str(word), .uid = SLICE_LIT("")};

    if (given(word) && user_encode(&u, user_headers_default(), NULL, emit_nothing, NULL) != USER_OK)
        remarks_wrong(r, entry,
                      "begins or ends with a blank, or has a control character, which no header to an API server can "
                      "have: take it out");
}

static void check_identity(struct remarks *r)
{
    const char *const *groups = r->c->apiserver_groups;
    char entry[REMARKS_NAME_BYTES];
    size_t n = 0, bytes = 0;

    need(r, "apiserver-user", r->c->apiserver_user, "a user such as system:apiserver");
    check_word(r, "apiserver-user", r->c->apiserver_user);
    if (strlen(r->c->apiserver_user) > IDENTITY_BYTES_MAX)
        remarks_wrong(r, "apiserver-user", "longer than %d characters: give a user such as system:apiserver",
                      IDENTITY_BYTES_MAX);
    for (; groups[n] != NULL; bytes += strlen(groups[n++]))
        check_word(r, remarks_entry(entry, "apiserver-groups", n), groups[n]);
    if (n > GROUPS_MAX)
        remarks_wrong(r, "apiserver-groups", "more than %d groups: take some out", GROUPS_MAX);
    if (bytes > IDENTITY_BYTES_MAX)
        remarks_wrong(r, "apiserver-groups", "longer than %d characters in all: take some out", IDENTITY_BYTES_MAX);
}

static void check_server_name(struct remarks *r)
{
    const char *name = r->c->apiserver_tls_server_name;

    need(r, "apiserver-tls-server-name", name, "a name in its certificate such as kubernetes.default.svc");
    if (strlen(name) > SERVER_NAME_MAX)
        remarks_wrong(r, "apiserver-tls-server-name",
                      "longer than %d characters, the most in TLS: give a name in its certificate such as "
                      "kubernetes.default.svc",
                      SERVER_NAME_MAX);
}

static void check_cipher_suites(struct remarks *r, const char *const *names)
{
    bool any = names[0] == NULL;
    char entry[REMARKS_NAME_BYTES];

    for (size_t i = 0; names[i] != NULL; i++) {
        enum tls_suite_kind kind = tls_suite_kind(names[i]);

        any = any || kind != TLS_SUITE_MISSING;
        if (kind == TLS_SUITE_UNKNOWN)
            remarks_wrong(r, remarks_entry(entry, "tls-cipher-suites", i),
                          "\"%s\" is not a cipher suite that kube-apiserver knows: write it such as "
                          "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                          names[i]);
    }
    if (!any)
        remarks_wrong(r, "tls-cipher-suites", "the TLS library here has none of them: give others, or none");
}

static void check_tls(struct remarks *r)
{
    char entry[REMARKS_NAME_BYTES];
    struct tls_sni_spec spec;
    struct err err;

    check_cipher_suites(r, r->c->tls_cipher_suites);
    for (size_t i = 0; r->c->tls_sni_cert_key[i] != NULL; i++) {
        err_clear(&err);
        if (!tls_sni_parse(r->c->tls_sni_cert_key[i], &spec, &err))
            remarks_wrong(r, remarks_entry(entry, "tls-sni-cert-key", i), "%s", err.text);
    }
}

static bool is_good_log(const char *const *filters, struct err *err)
{
    struct access_log ignored = {.all = false};

    err_clear(err);
    return access_log_parse(filters, &ignored, err);
}

static void check_access_log(struct remarks *r)
{
    char entry[REMARKS_NAME_BYTES] = "access-log";
    struct err err;

    if (is_good_log(r->c->access_log, &err))
        return;
    for (size_t i = 0; r->c->access_log[i] != NULL; i++) {
        const char *const one[] = {r->c->access_log[i], NULL};

        if (!is_good_log(one, &err))
            remarks_wrong(r, remarks_entry(entry, "access-log", i), "%s", err.text);
    }
    if (strcmp(entry, "access-log") == 0) /* each for itself is good */
        remarks_wrong(r, entry, "false goes with no filter: take it out, or the others");
}

bool config_check(const struct config *c, struct buf *errors)
{
    struct remarks r = {c, errors, true};

    need(&r, "tls-cert-file", c->tls_cert_file, "kube-apiserver's serving certificate");
    need(&r, "tls-private-key-file", c->tls_private_key_file, "kube-apiserver's serving key");
    need(&r, "apiserver-ca-file", c->apiserver_ca_file, "the CA of kube-apiserver's serving certificate");
    check_server_name(&r);
    check_identity(&r);
    check_pair(&r, c->proxy_client_cert_file, "proxy-client-cert-file", c->proxy_client_key_file,
               "proxy-client-key-file");
    check_header_names(&r, "requestheader-username-headers", c->requestheader_username_headers);
    check_header_names(&r, "requestheader-uid-headers", c->requestheader_uid_headers);
    check_header_names(&r, "requestheader-group-headers", c->requestheader_group_headers);
    check_header_names(&r, "requestheader-extra-headers-prefix", c->requestheader_extra_headers_prefix);
    check_networks(&r, "trusted-proxies", c->trusted_proxies);
    check_networks(&r, "proxy-protocol-from", c->proxy_protocol_from);
    check_tls(&r);
    check_peers(&r);
    check_addresses(&r);
    check_etcd(&r);
    config_check_self(&r);
    check_access_log(&r);
    return r.ok;
}
