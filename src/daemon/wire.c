/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/wire.h"

#include <config.h>

#include "base/log.h"
#include "daemon/addresses.h"
#include "daemon/derive.h"
#include "daemon/machine_memory.h"
#include "daemon/rlimits.h"
#include "http/head.h"
#include "kube/status.h"
#include "net/cidr.h"
#include "net/tls_inspect.h"

enum {
    SPARE_DESCRIPTORS = 320, /* for the admin listener, the control socket, files, watches */
    /* What replaced snapshots may take, beside what clients hold: this part of that, and no more than so much. */
    OUTDATED_SHARE = 4,
    MOST_OUTDATED_BYTES = 128 << 20,
};

struct wire_networks {
    struct cidr_set set;
};

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (list[n] != NULL)
        n++;
    return n;
}

struct wire_networks *wire_networks_new(const struct config *c)
{
    struct wire_networks *w = mem_zalloc(sizeof(*w));

    if (w == NULL || cidr_set_assign(&w->set, c->peer_allowed_cidrs))
        return w;
    mem_free(w);
    return NULL;
}

void wire_networks_free(struct wire_networks *n)
{
    if (n == NULL)
        return;
    cidr_set_free(&n->set);
    mem_free(n);
}

bool wire_networks_same(const struct wire_networks *a, const struct wire_networks *b)
{
    return cidr_set_same(&a->set, &b->set);
}

void wire_networks_replace(struct wire_networks *into, struct wire_networks *from)
{
    cidr_set_free(&into->set);
    into->set = from->set;
    mem_free(from);
}

/* A list that is given says everything; without one, only addresses that cannot belong to another machine are refused.
 */
static bool may_dial(const struct sockaddr *addr, void *arg)
{
    const struct wire_networks *w = arg;

    return w->set.n == 0 ? !cidr_is_special(addr) : cidr_set_contains(&w->set, addr);
}

struct origin *wire_local_origin(struct back *b, const struct config *c, const struct trust *t, const char *hostname)
{
    struct derive_address addr;
    struct err err = {.text = ""};
    struct origin_opts o;

    if (!derive_url(c->apiserver, &addr, &err))
        return NULL;
    o = (struct origin_opts){
        .name = "local",
        .server = hostname[0] != '\0' ? hostname : NULL,
        .host = addr.host,
        .port = addr.port,
        .tls_cert = t->local_cert,
        .tls_no_cert = t->local_no_cert,
        .tls_required = true,
        .sole = true,
        .last = true,
    };
    return origin_new(b, &o);
}

bool wire_static_peers(const struct config *c, struct wire_peers *out)
{
    size_t n = count(c->peers);

    out->n = 0;
    out->list = arena_zalloc(c->arena, (n + 1) * sizeof(*out->list));
    for (size_t i = 0; out->list != NULL && i < n; i++) {
        char name[DERIVE_HOST_BYTES];
        struct derive_address addr;
        struct slice name_copy, host_copy;
        struct err err;

        err_clear(&err);
        if (!derive_peer(c->peers[i], name, &addr, &err))
            continue;
        name_copy = arena_copy(c->arena, slice_str(name));
        host_copy = arena_copy(c->arena, slice_str(addr.host));
        if (name_copy.p == NULL || host_copy.p == NULL)
            return false;
        out->list[out->n++] = (struct cluster_static_peer){name_copy.p, host_copy.p, addr.port};
    }
    return out->list != NULL;
}

static struct origin *etcd_origin(struct back *b, const char *url, struct tls_ctx *ctx, struct egress_proxy *egress)
{
    struct derive_address addr;
    struct err err = {.text = ""};
    bool tls;
    struct origin_opts o;

    if (!derive_etcd_url(url, &addr, &tls, &err))
        return NULL;
    o = (struct origin_opts){
        .name = "etcd",
        .host = addr.host,
        .port = addr.port,
        .tls_no_cert = ctx, /* it shows etcd-certfile, which is no certificate of the front proxy */
        .tls_required = tls,
        .egress = egress,
    };
    return origin_new(b, &o);
}

bool wire_etcd(struct back *b, const struct config *c, const struct trust *t, struct wire_surroundings *out)
{
    for (out->n_etcd = 0; c->etcd_servers[out->n_etcd] != NULL && out->n_etcd < ETCD_SERVERS_MAX; out->n_etcd++) {
        out->etcd[out->n_etcd] = etcd_origin(b, c->etcd_servers[out->n_etcd], t->etcd[out->n_etcd], t->etcd_egress);
        if (out->etcd[out->n_etcd] == NULL)
            return false;
    }
    return true;
}

void wire_etcd_free(struct wire_surroundings *s)
{
    while (s->n_etcd > 0)
        origin_unref(s->etcd[--s->n_etcd]);
}

static bool copy_names(struct arena *a, const char *const *names, const struct slice **out, size_t *n)
{
    struct slice *v = arena_alloc(a, (count(names) + 1) * sizeof(*v));

    if (v == NULL)
        return false;
    for (*n = 0; names[*n] != NULL; (*n)++)
        v[*n] = slice_str(names[*n]);
    *out = v;
    return true;
}

static bool wire_headers(const struct config *c, struct user_headers *out)
{
    return copy_names(c->arena, c->requestheader_username_headers, &out->username, &out->n_username) &&
           copy_names(c->arena, c->requestheader_uid_headers, &out->uid, &out->n_uid) &&
           copy_names(c->arena, c->requestheader_group_headers, &out->group, &out->n_group) &&
           copy_names(c->arena, c->requestheader_extra_headers_prefix, &out->extra_prefix, &out->n_extra_prefix);
}

static void take_advertise(const struct config *c, struct wire_surroundings *out)
{
    struct addresses ours;
    struct err err = {.text = ""};

    if (c->peer_advertise_port == 0 ||
        !derive_advertise(c->peer_advertise_ip, c->peer_advertise_port, out->advertise, &err)) {
        if (!addresses_configured(c, &ours, &err))
            ours.n = 0;
        addresses_advertised(&ours, out->advertise);
    }
    /* As kube-apiserver does it since 1.36, whether it was configured or derived. */
    out->annotate = out->advertise[0] != '\0';
}

bool wire_surroundings_make(struct back *b, const struct config *c, const struct trust *t, const char *hostname,
                            struct wire_surroundings *out)
{
    out->local = wire_local_origin(b, c, t, hostname);
    out->networks = wire_networks_new(c);
    take_advertise(c, out);
    return out->local != NULL && out->networks != NULL && wire_static_peers(c, &out->peers) &&
           wire_headers(c, &out->headers) && wire_etcd(b, c, t, out);
}

static enum identity_mode identity_mode(const char *text)
{
    static const char *const names[] = {
        [IDENTITY_OFF] = "off",
        [IDENTITY_AUTO] = "auto",
        [IDENTITY_OBSERVE] = "observe",
        [IDENTITY_PUBLISH] = "publish",
    };
    unsigned m = IDENTITY_OFF;

    while (m < IDENTITY_PUBLISH && strcmp(names[m], text) != 0)
        m++;
    return (enum identity_mode)m;
}

void wire_cluster(const struct config *c, const struct trust *t, const struct wire_surroundings *s,
                  const char *hostname, struct cluster_opts *out)
{
    struct derive_gates gates = {false};
    struct err err = {.text = ""};

    (void)derive_gates(c->feature_gates, &gates, &err);
    *out = (struct cluster_opts){
        .peers_enabled = gates.unknown_version_interoperability_proxy,
        .hostname = hostname,
        .local = s->local,
        .user = c->apiserver_user,
        .groups = c->apiserver_groups,
        .front_until_s = t->front_until_s,
        .headers = &s->headers,
        .peer_tls_cert = t->peer_cert,
        .peer_tls_no_cert = t->peer_no_cert,
        .static_peers = s->peers.list,
        .n_static_peers = s->peers.n,
        .peer_allowed = may_dial,
        .peer_allowed_arg = s->networks,
        .peer_egress = t->peer_egress,
        .refresh_interval_ms = c->discovery_refresh_interval,
        .stale_after_ms = c->peer_stale_after,
        .forget_after_ms = c->peer_forget_after,
        .leave_grace_ms = c->peer_leave_grace,
        .identity = identity_mode(c->identity_lease),
        .advertise = s->advertise,
        .annotate = s->annotate,
        .front = {.headers = &s->headers,
                  .names = c->requestheader_allowed_names,
                  .ca = slice_str(t->requestheader_ca),
                  .client_ca = slice_str(t->client_ca),
                  .ended = tls_inspect_ended,
                  .fixed = http_name_is_known},
        .etcd_servers = s->etcd,
        .n_etcd_servers = s->n_etcd,
        .etcd_prefix = c->etcd_prefix,
        .local_failover = c->local_failover,
        .pulse = true,
    };
}

static double goaway_chance(const struct config *c)
{
    double chance = 0;
    struct err err = {.text = ""};

    (void)derive_chance(c->goaway_chance, &chance, &err);
    return chance;
}

static struct access_log access_log(const struct config *c)
{
    struct access_log l = {.sample = c->access_log_sample, .user = c->access_log_user};
    struct err err = {.text = ""};

    (void)access_log_parse(c->access_log, &l, &err);
    return l;
}

static size_t client_memory(const struct config *c)
{
    return (size_t)machine_memory_for_clients(c->max_client_memory, machine_memory());
}

static size_t outdated_snapshots(const struct config *c)
{
    size_t share = client_memory(c) / OUTDATED_SHARE;

    return share < MOST_OUTDATED_BYTES ? share : MOST_OUTDATED_BYTES;
}

void wire_proxy(const struct config *c, const struct trust *t, struct origin *local, struct proxy_opts *out)
{
    *out = (struct proxy_opts){
        .version = PACKAGE_VERSION,
        .local = local,
        .username_headers = c->requestheader_username_headers,
        .uid_headers = c->requestheader_uid_headers,
        .group_headers = c->requestheader_group_headers,
        .extra_header_prefixes = c->requestheader_extra_headers_prefix,
        .allowed_names = c->requestheader_allowed_names,
        .trusted_proxies = c->trusted_proxies,
        .can_assert = t->local_cert != NULL,
        .request_timeout_ms = c->request_timeout,
        .discovery_authz_ttl_ms = c->discovery_authz_ttl,
        .max_in_flight_per_peer = c->max_requests_inflight_per_peer,
        .max_outdated_bytes = outdated_snapshots(c),
        .goaway_chance = goaway_chance(c),
        .access_log = access_log(c),
        .newest = strcmp(c->skewed_resources, "newest") == 0,
        .legacy_discovery = strcmp(c->legacy_discovery, "off") != 0,
    };
}

/* What the connection refuses by itself is a Status too. */
static void refusal_body(struct buf *out, unsigned status, const char *message, void *arg)
{
    struct status s = {.code = status, .message = slice_str(message)};

    (void)arg;
    if (status == 429 || status == 503)
        s.retry_after = STATUS_RETRY_AFTER;
    (void)status_print(&s, out);
}

/* A quarter of the descriptors: the other clients need theirs twice, here and towards the servers. */
static size_t fresh_connections(const struct config *c)
{
    size_t quarter = rlimits_descriptors() / 4;

    return quarter != 0 && (c->max_fresh_connections == 0 || c->max_fresh_connections > quarter)
               ? quarter
               : c->max_fresh_connections;
}

/* Half of the descriptors are for servers. Where clients had all of the rest, nobody could be accepted to make room,
 * nor ask the admin listener how we are. */
static size_t connections(const struct config *c)
{
    size_t half = rlimits_descriptors() / 2, spare = half / 4 < SPARE_DESCRIPTORS ? half / 4 : SPARE_DESCRIPTORS;

    return half != 0 && c->max_connections > half - spare ? half - spare : c->max_connections;
}

void wire_say_limits(const struct config *c)
{
    if (connections(c) < c->max_connections)
        log_warning("max-connections is more than there are descriptors for", LU("maxConnections", c->max_connections),
                    LU("used", connections(c)), LU("descriptors", rlimits_descriptors()));
}

void wire_front(const struct config *c, const struct trust *t, struct front_opts *out)
{
    *out = (struct front_opts){
        .max_connections = connections(c),
        .max_connections_per_client = c->max_connections_per_client,
        .max_fresh_connections = fresh_connections(c),
        .max_requests_per_connection = c->max_requests_per_connection,
        .max_memory = client_memory(c),
        .max_head_bytes = c->max_request_header_bytes,
        .header_timeout_ms = c->client_header_timeout,
        .idle_timeout_ms = c->client_idle_timeout,
        .proxy_protocol_from = c->proxy_protocol_from,
        .tls = t->serving,
        .on_request = proxy_on_request,
        .refusal_body = refusal_body,
        .retry_after_s = STATUS_RETRY_AFTER,
    };
}
