/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/egress_file.h"

#include "daemon/yaml_tree.h"
#include "kube/hostport.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

enum { UDS_NAME_MAX = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1 };

struct parse {
    struct arena *arena;
    struct buf *errors;
    bool alpha; /* v1alpha1 */
    bool ok;
};

static void wrong(struct parse *p, const struct config_place *place, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void wrong(struct parse *p, const struct config_place *place, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    p->ok = false;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    yaml_complain(p->errors, place, "%s", text);
}

/* ---- fields ---- */

/* `known` is NULL-terminated. */
static void check_fields(struct parse *p, const struct yaml_node *map, const char *const *known)
{
    for (const struct yaml_node *n = map->first; n != NULL; n = n->next) {
        size_t i = 0;

        while (known[i] != NULL && !slice_eq(n->key, slice_str(known[i])))
            i++;
        if (known[i] == NULL)
            wrong(p, &n->key_place, "unknown field \"%.*s\": correct it, or take it out",
                  (int)(n->key.n < 100 ? n->key.n : 100), n->key.p);
    }
}

static bool is_shown(struct slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return false;
    return true;
}

/* "" at the place of the map if there is none. */
static struct egress_text text_of(struct parse *p, const struct yaml_node *map, const char *name)
{
    const struct yaml_node *n = yaml_member(map, name);

    if (n == NULL)
        return (struct egress_text){"", map->place};
    if (n->kind != YAML_SCALAR || yaml_is_untextual(n))
        wrong(p, &n->place, "%s: must be a text: write it in quotes", name);
    else if (!is_shown(n->text))
        wrong(p, &n->place, "%s: must not contain control characters: take them out", name);
    else
        return (struct egress_text){n->text.p, n->place};
    return (struct egress_text){"", n->place};
}

/* NULL if there is none, or something else, which is said. */
static const struct yaml_node *map_of(struct parse *p, const struct yaml_node *map, const char *name)
{
    const struct yaml_node *n = yaml_member(map, name);

    if (n == NULL || n->kind == YAML_MAP)
        return n;
    wrong(p, &n->place, "%s: must be a mapping: write its fields below it, indented", name);
    return NULL;
}

static bool is_empty(const struct egress_text *t)
{
    return t->text[0] == '\0';
}

/* ---- transports ---- */

static void take_tls(struct parse *p, const struct yaml_node *tls, struct egress_selection *out)
{
    static const char *const known[] = {"caBundle", "clientKey", "clientCert", "tlsServerName", NULL};

    check_fields(p, tls, known);
    out->ca_bundle = text_of(p, tls, "caBundle");
    out->client_cert = text_of(p, tls, "clientCert");
    out->client_key = text_of(p, tls, "clientKey");
    out->server_name = text_of(p, tls, "tlsServerName");
}

static void take_authority(struct parse *p, const struct egress_text *url, struct slice rest,
                           struct egress_selection *out)
{
    size_t end = 0;
    struct slice host;
    struct hostport hp;

    /* What follows the authority says nothing about a proxy, and kube-apiserver does not look at it. */
    while (end < rest.n && strchr("/?#", rest.p[end]) == NULL)
        end++;
    rest.n = end;
    if (slice_index(rest, '@') != rest.n) {
        wrong(p, &url->place, "url: a user name or password in the URL would not be sent: take it out");
        return;
    }
    if (!hostport_parse(rest, &hp)) {
        wrong(p, &url->place, "url: must be http://HOST:PORT or https://HOST:PORT");
        return;
    }
    host = arena_copy(p->arena, hp.host);
    out->host = host.p;
    out->port = hp.port;
    if (host.p == NULL)
        wrong(p, &url->place, "out of memory");
}

static void take_tcp(struct parse *p, const struct yaml_node *tcp, struct egress_selection *out)
{
    static const char *const known[] = {"url", "tlsConfig", NULL};
    const struct yaml_node *tls = map_of(p, tcp, "tlsConfig");
    struct egress_text url = text_of(p, tcp, "url");
    struct slice text = slice_str(url.text), http = SLICE_LIT("http://"), https = SLICE_LIT("https://");

    check_fields(p, tcp, known);
    if (tls != NULL)
        take_tls(p, tls, out);
    if (slice_has_prefix(text, http)) {
        if (tls != NULL)
            wrong(p, &tls->key_place, "tlsConfig: must not be present when url is http://");
        take_authority(p, &url, slice_from(text, http.n), out);
    } else if (slice_has_prefix(text, https)) {
        out->tls = true;
        if (tls == NULL)
            wrong(p, &tcp->key_place, "tlsConfig: must be present when url is https://");
        else if (is_empty(&out->client_cert))
            wrong(p, &out->client_cert.place, "clientCert: is required when url is https://");
        if (tls != NULL && is_empty(&out->client_key))
            wrong(p, &out->client_key.place, "clientKey: is required when url is https://");
        take_authority(p, &url, slice_from(text, https.n), out);
    } else {
        wrong(p, &url.place, "url: must begin with http:// or https://");
    }
}

static void take_uds(struct parse *p, const struct yaml_node *uds, struct egress_selection *out)
{
    static const char *const known[] = {"udsName", NULL};
    struct egress_text name = text_of(p, uds, "udsName");
    size_t n = strlen(name.text) + sizeof("unix:");
    char *host = arena_alloc(p->arena, n);

    check_fields(p, uds, known);
    if (is_empty(&name))
        wrong(p, &name.place, "udsName: must be present for UDS connections");
    else if (strlen(name.text) > UDS_NAME_MAX)
        wrong(p, &name.place, "udsName: longer than %d bytes, which no socket's path can be: choose a shorter one",
              (int)UDS_NAME_MAX);
    else if (name.text[0] == '@')
        wrong(p, &name.place, "udsName: abstract sockets are not supported: give the path of a socket");
    else if (host == NULL)
        wrong(p, &name.place, "out of memory");
    if (host != NULL)
        (void)snprintf(host, n, "unix:%s", name.text);
    out->host = host;
}

static void take_http_connect(struct parse *p, const struct yaml_node *connection, const struct yaml_node *transport,
                              struct egress_selection *out)
{
    const struct yaml_node *tcp, *uds;

    if (transport == NULL) {
        wrong(p, &connection->key_place, "transport: must be set for HTTPConnect");
        return;
    }
    tcp = map_of(p, transport, "tcp");
    uds = map_of(p, transport, "uds");
    if (tcp != NULL && uds != NULL)
        wrong(p, &transport->key_place, "transport: tcp and uds cannot both be set: keep one");
    else if (tcp != NULL)
        take_tcp(p, tcp, out);
    else if (uds != NULL)
        take_uds(p, uds, out);
    else
        wrong(p, &transport->key_place, "transport: one of tcp or uds must be set");
}

/* ---- selections ---- */

static void take_grpc(struct parse *p, const struct yaml_node *connection, const struct yaml_node *transport,
                      enum egress_name name, struct egress_selection *out)
{
    const struct yaml_node *protocol = yaml_member(connection, "proxyProtocol");
    const struct yaml_node *uds = transport == NULL ? NULL : map_of(p, transport, "uds");

    /* kube-apiserver's file may have it for the cluster's own network, where nothing of ours goes. */
    if (name != EGRESS_CLUSTER)
        wrong(p, &protocol->place,
              "proxyProtocol: GRPC is not supported by mvproxy, which uses this selection; HTTPConnect "
              "and Direct are");
    else if (transport == NULL)
        wrong(p, &connection->key_place, "transport: must be set for GRPC");
    else if (uds == NULL)
        wrong(p, &transport->key_place, "uds: must be set for GRPC");
    else
        take_uds(p, uds, out);
}

static void take_connection(struct parse *p, const struct yaml_node *connection, enum egress_name name,
                            struct egress_selection *out)
{
    static const char *const known[] = {"proxyProtocol", "transport", NULL};
    static const char *const known_transports[] = {"tcp", "uds", NULL};
    const struct yaml_node *transport = map_of(p, connection, "transport");
    struct egress_text protocol = text_of(p, connection, "proxyProtocol");

    check_fields(p, connection, known);
    if (transport != NULL)
        check_fields(p, transport, known_transports);
    if (strcmp(protocol.text, "Direct") == 0) {
        out->protocol = EGRESS_DIRECT;
        if (transport != NULL)
            wrong(p, &transport->key_place, "transport: must be absent for Direct");
    } else if (strcmp(protocol.text, "HTTPConnect") == 0) {
        out->protocol = EGRESS_HTTP_CONNECT;
        take_http_connect(p, connection, transport, out);
    } else if (strcmp(protocol.text, "GRPC") == 0) {
        out->protocol = EGRESS_GRPC;
        take_grpc(p, connection, transport, name, out);
    } else {
        wrong(p, &protocol.place, "proxyProtocol: must be Direct, HTTPConnect or GRPC, not \"%.100s\"", protocol.text);
    }
}

static bool find_name(struct parse *p, const struct egress_text *name, enum egress_name *out)
{
    static const char *const names[EGRESS_NAMES] = {
        [EGRESS_CONTROLPLANE] = "controlplane",
        [EGRESS_CLUSTER] = "cluster",
        [EGRESS_ETCD] = "etcd",
    };

    for (unsigned i = 0; i < EGRESS_NAMES; i++) {
        if (!slice_ieq(slice_str(name->text), slice_str(names[i])))
            continue;
        *out = (enum egress_name)i;
        return true;
    }
    if (strcmp(name->text, "master") == 0) {
        *out = EGRESS_CONTROLPLANE;
        if (!p->alpha)
            wrong(p, &name->place, "name: \"master\" was v1alpha1's word for controlplane: write that");
        return p->alpha;
    }
    wrong(p, &name->place, "name: must be controlplane, cluster or etcd, not \"%.100s\"", name->text);
    return false;
}

static void take_selection(struct parse *p, const struct yaml_node *n, struct egress *out, size_t *lines)
{
    static const char *const known[] = {"name", "connection", NULL};
    struct egress_selection s = {.given = true, .ca_bundle.text = ""};
    const struct yaml_node *connection;
    struct egress_text name;
    enum egress_name which;

    if (n->kind != YAML_MAP) {
        wrong(p, &n->place,
              "an egress selection must be a mapping: write \"- name: NAME\", and \"connection:\" below it");
        return;
    }
    check_fields(p, n, known);
    name = text_of(p, n, "name");
    connection = map_of(p, n, "connection");
    s.ca_bundle = s.client_cert = s.client_key = s.server_name = (struct egress_text){"", n->place};
    if (connection == NULL)
        wrong(p, &n->place, "connection: is required");
    if (!find_name(p, &name, &which))
        return;
    if (connection != NULL)
        take_connection(p, connection, which, &s);
    if (out->of[which].given)
        wrong(p, &name.place, "name: %.100s is selected twice, first in line %zu: keep one of them", name.text,
              lines[which]);
    else
        lines[which] = name.place.line;
    out->of[which] = s;
}

static void take_root(struct parse *p, const struct yaml_node *root, struct egress *out)
{
    static const char *const known[] = {"apiVersion", "kind", "egressSelections", NULL};
    struct egress_text version = text_of(p, root, "apiVersion"), kind = text_of(p, root, "kind");
    const struct yaml_node *list = yaml_member(root, "egressSelections");
    size_t lines[EGRESS_NAMES] = {0};

    check_fields(p, root, known);
    if (strcmp(kind.text, "EgressSelectorConfiguration") != 0)
        wrong(p, &kind.place, "kind: must be EgressSelectorConfiguration, not \"%.100s\"", kind.text);
    p->alpha = strcmp(version.text, "apiserver.k8s.io/v1alpha1") == 0;
    if (!p->alpha && strcmp(version.text, "apiserver.k8s.io/v1beta1") != 0)
        wrong(p, &version.place, "apiVersion: must be apiserver.k8s.io/v1beta1 or v1alpha1, not \"%.100s\"",
              version.text);
    if (list != NULL && list->kind != YAML_LIST) {
        wrong(p, &list->place, "egressSelections: must be a list: begin each selection with \"- name: NAME\"");
        return;
    }
    for (const struct yaml_node *n = list == NULL ? NULL : list->first; n != NULL; n = n->next)
        take_selection(p, n, out, lines);
}

bool egress_file_parse(const char *name, struct slice text, struct arena *a, struct egress *out, struct buf *errors)
{
    struct parse p = {.arena = a, .errors = errors};
    struct config_place start = {name, 1, 1};
    struct yaml_node *root;

    *out = (struct egress){0};
    p.ok = yaml_tree_parse(name, text, a, &root, errors);
    if (root != NULL && root->kind == YAML_MAP)
        take_root(&p, root, out);
    else if (p.ok)
        wrong(&p, root == NULL ? &start : &root->place,
              "not an EgressSelectorConfiguration: give one, with apiVersion, kind and egressSelections");
    return p.ok;
}
