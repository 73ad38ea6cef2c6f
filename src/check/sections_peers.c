/* SPDX-License-Identifier: Apache-2.0 */
/* The other API servers, as the daemon would find and read them. */
#include "check/sections.h"

#include <json-c/json.h>
#include <stdio.h>

#include "check/visits.h"
#include "cluster/cluster.h"
#include "cluster/cluster_view.h"
#include "daemon/addresses.h"
#include "net/cidr.h"
#include "net/loop.h"

enum { TURN_MS = 100, PATIENCE_MS = 10000, IN_VAIN_MS = 1000, ADDRESS_PATIENCE_MS = 3000 };

struct given {
    const struct cluster_static_peer *list; /* NULL: those of the configuration */
    size_t n;
};

/* The daemon's own knowledge of the cluster, that publishes nothing. */
static struct cluster *look(struct scene *s, struct given peers)
{
    struct cluster_opts o;

    wire_cluster(s->config, &s->trust, &s->around, s->hostname, &o);
    o.identity = IDENTITY_OFF;
    o.annotate = false;
    o.advertise = "";
    o.local_failover = false;
    if (peers.list != NULL) {
        o.static_peers = peers.list;
        o.n_static_peers = peers.n;
    }
    return cluster_new(s->loop, s->back, s->metrics, &o);
}

static bool all_have_addresses(const struct served *v)
{
    for (size_t i = 0; i < served_n_peers(v); i++)
        if (served_peer_at(v, i)->origin == NULL)
            return false;
    return true;
}

/* Addresses may come from etcd's records, later than the Leases. */
static void wait_for_peers(struct scene *s, struct cluster *c)
{
    uint64_t begin = loop_now_ms(s->loop), passed = 0, patience = s->around.n_etcd > 0 ? ADDRESS_PATIENCE_MS : 0,
             most = s->stored_silent ? IN_VAIN_MS : PATIENCE_MS; /* the Leases are in etcd, too */

    while (passed < most &&
           (!served_synced(cluster_served(c)) || (passed < patience && !all_have_addresses(cluster_served(c))))) {
        loop_run_once(s->loop, TURN_MS);
        passed = loop_now_ms(s->loop) - begin;
    }
}

/* Those of a list, which are there as soon as the loop has run. */
static void wait_for(struct scene *s, struct cluster *c, size_t n)
{
    uint64_t begin = loop_now_ms(s->loop);

    while (served_n_peers(cluster_served(c)) < n && loop_now_ms(s->loop) - begin < ADDRESS_PATIENCE_MS)
        loop_run_once(s->loop, TURN_MS);
}

struct range {
    unsigned oldest, newest; /* minor versions; 0: none known */
};

static void widen(struct range *r, unsigned minor)
{
    if (minor == 0)
        return;
    if (r->oldest == 0 || minor < r->oldest)
        r->oldest = minor;
    if (minor > r->newest)
        r->newest = minor;
}

/* Nobody was dialled (net/dial.c). */
static bool is_not_allowed(const char *failure)
{
    return strstr(failure, "the address is not allowed") != NULL;
}

static const char *to_answer(const char *failure)
{
    if (strstr(failure, "egress proxy") != NULL)
        return "see to the egress proxy (selection controlplane of egress-selector-config-file): does it run at that "
               "address, is its certificate of the caBundle there, and does it let this machine through to the peer?";
    if (is_not_allowed(failure))
        return "give peer-allowed-cidrs the networks of all peers, this one's among them (without it loopback, "
               "link-local and the like are dialled nowhere), or correct its address: in peers, or peer-advertise-ip "
               "there";
    if (strstr(failure, "certificate") != NULL)
        return "its certificate must be of peer-ca-file and valid for kubernetes.default.svc, and what serves there an "
               "API server of this cluster";
    if (strstr(failure, "Connection refused") != NULL)
        return "start its mvproxy (or kube-apiserver, on a node that has none), or correct its address: in peers, or "
               "peer-advertise-ip there";
    return "is it up, is the address right, does the network let this machine there, and does its mvproxy accept (at "
           "max-connections peers wait, too: mvproxyctl status there)?";
}

static void judge_answer(struct scene *s, const struct served_peer *p, const struct answer *a)
{
    if (!a->ok)
        findings_wrong(s->f, "peer-reachable", to_answer(a->failure), "peer %s: %s%s", p->host, a->failure,
                       is_not_allowed(a->failure) ? ": it is not in peer-allowed-cidrs" : "");
    else if (a->status == 401 || a->status == 403)
        findings_wrong(s->f, "peer-believes",
                       "give each node the same front-proxy CA (requestheader-client-ca-file) and "
                       "requestheader-allowed-names",
                       "peer %s at %s does not believe this front proxy: it answers %u", p->host,
                       origin_address(p->origin), a->status);
    else if (a->status == 502 || a->status == 503 || a->status == 504)
        findings_wrong(s->f, "peer-reachable",
                       "see to the kube-apiserver on that node; mvproxyctl status there says what is the matter",
                       "peer %s at %s answers %u: what serves there does not reach its kube-apiserver", p->host,
                       origin_address(p->origin), a->status);
    else
        findings_wrong(s->f, "peer-reachable", to_answer("certificate"),
                       "peer %s at %s: it answers %u when asked for its version", p->host, origin_address(p->origin),
                       a->status);
}

/* The servers that the running process knows; NULL: it does not say. */
static struct json_object *told(const struct scene *s)
{
    struct json_object *list = NULL;

    return s->opts->status != NULL && json_object_object_get_ex(s->opts->status, "servers", &list) &&
                   json_object_is_type(list, json_type_array)
               ? list
               : NULL;
}

/* NULL: nothing. */
static struct json_object *told_of(const struct scene *s, const char *id)
{
    struct json_object *list = told(s);

    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);

        if (strcmp(sections_text(one, "id"), id) == 0)
            return one;
    }
    return NULL;
}

static bool is_true(struct json_object *o, const char *name)
{
    struct json_object *v = NULL;

    return o != NULL && json_object_object_get_ex(o, name, &v) && json_object_get_boolean(v);
}

/* Said of peers that this check can read, or has not asked: else it would be said twice. */
static void judge_told(struct scene *s, struct json_object *one, const char *beyond)
{
    const char *failure = sections_text(one, "lastError");

    if (is_true(one, "failing") && !is_true(one, "local")) /* with the local one it is not ready, too */
        findings_warn(s->f, "process-peers",
                      is_not_allowed(failure) || strstr(failure, "egress proxy") != NULL
                          ? to_answer(failure)
                          : "mvproxyctl refresh tries again; mvproxyctl peers shows what comes of it",
                      "the process cannot read peer %s%s: %s", sections_text(one, "hostname"), beyond, failure);
}

static void judge_all_told(struct scene *s)
{
    struct json_object *list = told(s);

    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++)
        judge_told(s, json_object_array_get_idx(list, i), "");
}

/* A drain survives reloads, and he who made it may have forgotten it. */
static void judge_drains(struct scene *s)
{
    struct json_object *list = told(s);

    for (size_t i = 0; list != NULL && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        char remedy[320];

        if (!is_true(one, "drained"))
            continue;
        (void)snprintf(remedy, sizeof(remedy), "mvproxyctl undrain %s, when the work there is done",
                       sections_text(one, "hostname"));
        findings_warn(s->f, "peer-drained", remedy,
                      "peer %s is drained: clients' requests go there from here only where nobody else serves them",
                      sections_text(one, "hostname"));
    }
}

static const char *source(const struct scene *s, const struct served_peer *p)
{
    if (s->recalled)
        return "as the process knows it";
    return p->source == NULL ? "" : p->source;
}

/* It says its version and its discovery: may it be relied on? Its Lease is new to this check, however old. */
static void judge_read(struct scene *s, const struct visit *one)
{
    const struct served_peer *p = one->peer;
    struct json_object *known = told_of(s, p->id);

    if (one->unready[0] != '\0')
        findings_wrong(s->f, "peer-ready",
                       one->etcd_fails
                           ? "see to the etcd of that node, which does not answer its kube-apiserver; go on "
                             "with no other node before"
                           : "wait if it starts or stops; else the log of its kube-apiserver says why; go "
                             "on with no other node before",
                       "peer %s at %s (%s): %s, is not ready: its %s", p->host, origin_address(p->origin), source(s, p),
                       one->version.binary, one->unready);
    else if (strcmp(sections_text(known, "life"), "lapsed") == 0)
        findings_warn(s->f, "peer-lapsed",
                      "see the log of its kube-apiserver, which renews it every ten seconds, and whether it writes to "
                      "the same etcd",
                      "peer %s at %s (%s): %s, its discovery is read, but the process has not seen its Lease renewed "
                      "for longer than peer-stale-after",
                      p->host, origin_address(p->origin), source(s, p), one->version.binary);
    else
        findings_good(s->f, "peer-reachable", "peer %s at %s (%s): %s, its discovery is read", p->host,
                      origin_address(p->origin), source(s, p), one->version.binary);
}

static void judge_visit(struct scene *s, const struct visit *one, struct range *versions)
{
    const struct served_peer *p = one->peer;

    if (one->version.major == 0) {
        judge_answer(s, p, &one->answer);
    } else if (!one->read && one->other == NULL) {
        findings_wrong(s->f, "peer-discovery", "see the log of its kube-apiserver and of its mvproxy",
                       "peer %s at %s: its discovery cannot be read", p->host, origin_address(p->origin));
    } else if (one->read) {
        widen(versions, one->version.major == 1 ? one->version.minor : 0);
        judge_read(s, one);
        scene_judge_clock(s, "peer-clock", p->host, &one->answer);
        judge_told(s, told_of(s, p->id), ", which this check can read");
    }
}

/* What comes from a node of the control plane begins without a PROXY header: its mvproxy, its kubelet, its Pods. */
static void check_headers(struct scene *s, const struct served_peer *p, const struct cidr_set *balancers)
{
    const char *text = origin_address(p->origin);
    struct derive_address at;
    struct err err;

    err_clear(&err);
    if (!derive_host_port(slice_str(text), &at, &err) || !cidr_set_covers(balancers, slice_str(at.host)))
        return;
    findings_wrong(s->f, "peer-header",
                   "take the addresses of control-plane nodes out of proxy-protocol-from on each node, and give a load "
                   "balancer that runs there an address of its own",
                   "peer %s at %s is in proxy-protocol-from: it sends no PROXY header, and is cut off", p->host, text);
}

/* With somebody else's address for ours, others send him what is for us. Bound here, it is he who has the wrong one. */
static void check_advertised(struct scene *s, const struct served_peer *p)
{
    struct derive_address own, at;
    struct addresses bound;
    struct err err;

    err_clear(&err);
    if (s->config->peer_advertise_port == 0 || !derive_host_port(slice_str(s->around.advertise), &own, &err) ||
        !derive_host_port(slice_str(origin_address(p->origin)), &at, &err) || !addresses_meet(&own, &at))
        return;
    if (addresses_configured(s->config, &bound, &err) && addresses_reached_by(&bound, &own) != NULL)
        return;
    findings_wrong(s->f, "peer-advertise",
                   "give an address at which peers reach this node, or none (then mvproxy's own)",
                   "peer-advertise-ip: %s is the address of peer %s", s->around.advertise, p->host);
}

static void judge(struct scene *s, const struct visit *one, const struct cidr_set *balancers, struct range *versions)
{
    const struct served_peer *p = one->peer;

    if (p->life == SERVED_LAPSED)
        findings_warn(s->f, "peer-lapsed", "start it; if it is gone for good it will be forgotten",
                      "peer %s renews its Lease no more", p->host);
    else if (p->origin == NULL && s->mistaken)
        findings_skipped(s->f, "peer-address", "peer %s is not examined: it may be this node", p->host);
    else if (p->origin == NULL && s->opts->before)
        findings_warn(
            s->f, "peer-address",
            "its mvproxy will write it, once it runs there (peer-advertise-ip and -port); or list it in peers",
            "peer %s: nothing says yet where it can be reached", p->host);
    else if (p->origin == NULL)
        findings_wrong(s->f, "peer-address",
                       "let its mvproxy write it (peer-advertise-ip and -port there), or list it in peers",
                       "peer %s: nothing says where it can be reached", p->host);
    else {
        check_headers(s, p, balancers);
        check_advertised(s, p);
        if (one->state != VISIT_WAITING)
            judge_visit(s, one, versions);
    }
}

static bool is_static(const struct scene *s, const struct served_peer *p)
{
    return !s->recalled && p->source != NULL && strcmp(p->source, "static") == 0;
}

/* Two names at one address: what only one of the two servers serves is looked for at the other. */
static void check_twins(struct scene *s, const struct visit *visits, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct served_peer *a = visits[j].peer, *b = visits[i].peer;

            if (a->origin != NULL && b->origin != NULL && (is_static(s, a) || is_static(s, b)) &&
                strcmp(origin_address(a->origin), origin_address(b->origin)) == 0)
                findings_wrong(s->f, "peer-address", "correct peers: each server has an address of its own",
                               "peers %s and %s have the same address, %s", a->host, b->host,
                               origin_address(a->origin));
        }
}

/* Of a name in `peers` that no Lease has, as long as servers have Leases, there is no server. */
static void check_leases(struct scene *s, struct cluster *c)
{
    enum { LEASES_SINCE_MINOR = 26 };
    struct cluster_view v;

    if (s->minor < LEASES_SINCE_MINOR || s->recalled || !cluster_leases_listed(c) || !cluster_view_take(c, &v))
        return;
    for (size_t i = 0; i < v.n; i++)
        if (v.servers[i].fixed && !v.servers[i].leased)
            findings_warn(s->f, "peer-lease",
                          "give the host name that its kube-apiserver has (kubectl -n kube-system get leases -L "
                          "kubernetes.io/hostname); if that is right it is away, and its Lease with it: start it",
                          "peers: no API server of the cluster has the name %s (no identity Lease)", v.servers[i].host);
    cluster_view_free(&v);
}

/* NULL: nobody whom we know, or who says nothing. */
static const char *host_of(const struct served *v, const char *id)
{
    for (size_t i = 0; i < served_n_peers(v); i++)
        if (strcmp(served_peer_at(v, i)->id, id) == 0)
            return served_peer_at(v, i)->host;
    return strcmp(served_local_id(v), id) == 0 ? served_local_host(v) : NULL;
}

/* An address that leads to another server: what that one does is not this one's. */
static const char *who_answers_instead(const struct served *v, const struct visit *one)
{
    return one->version.major == 0 || strcmp(one->answer.hop, one->peer->id) == 0 ? NULL : host_of(v, one->answer.hop);
}

static void check_names(struct scene *s, const struct served *v, const struct visit *one)
{
    if (one->other != NULL)
        findings_wrong(s->f, "peer-address",
                       strcmp(one->answer.hop, served_local_id(v)) == 0
                           ? "correct its address, in peers, or peer-advertise-ip there; or, if this node has that "
                             "address, hostname-override (or the host name) here, which is another server's"
                           : "correct its address, in peers, or peer-advertise-ip there; or, if that is right, "
                             "hostname-override (or the host name) there, which is the other server's",
                       "peer %s at %s answers as %s", one->peer->host, origin_address(one->peer->origin), one->other);
}

static void judge_all(struct scene *s, const struct visit *visits, size_t n, struct range *versions)
{
    struct cidr_set balancers = {NULL, 0};
    size_t unasked = 0;

    if (!cidr_set_assign(&balancers, s->config->proxy_protocol_from))
        findings_skipped(s->f, "peer-header", "proxy-protocol-from is not examined: out of memory");
    for (size_t i = 0; i < n; i++) {
        judge(s, &visits[i], &balancers, versions);
        unasked += visits[i].state == VISIT_WAITING;
    }
    cidr_set_free(&balancers);
    check_twins(s, visits, n);
    if (unasked > 0)
        findings_skipped(s->f, "peer-reachable",
                         "%zu more peers are not examined: a minute was spent on those above (mvproxyctl peers shows "
                         "what mvproxy knows of them)",
                         unasked);
}

static void check_each(struct scene *s, struct cluster *c)
{
    struct served *v = served_ref(cluster_served(c));
    struct range versions = {0, 0};
    size_t unknown = 0, n = served_n_peers(v);
    struct visit *visits = must_zalloc((n + 1) * sizeof(visits[0]));

    for (size_t i = 0; i < n; i++) {
        const struct served_peer *p = served_peer_at(v, i);

        visits[i] = (struct visit){
            .peer = p,
            .silent = strcmp(sections_text(told_of(s, p->id), "answers"), "unreachable") == 0,
            .state = p->life == SERVED_LAPSED || p->origin == NULL ? VISIT_NONE : VISIT_WAITING,
        };
    }
    if (n > 0 && !cluster_leases_listed(c))
        findings_skipped(s->f, "peers", "the Leases cannot be read: only those are examined that %s",
                         s->recalled ? "the process knows" : "peers names");
    visits_make(s, c, visits, n);
    for (size_t i = 0; i < n; i++)
        visits[i].other = who_answers_instead(v, &visits[i]);
    widen(&versions, s->minor);
    judge_all(s, visits, n, &versions);
    check_leases(s, c);
    for (size_t i = 0; i < n; i++)
        check_names(s, v, &visits[i]);
    for (size_t i = 0; i < n; i++)
        unknown += visits[i].version.major == 0 && visits[i].peer->life != SERVED_LAPSED;
    s->with_records = visits_with_records(visits, n);
    mem_free(visits);
    if (n == 0 && !cluster_leases_listed(c))
        findings_skipped(s->f, "peers", "not examined: the Leases cannot be read");
    else if (n == 0)
        findings_good(s->f, "peers", "there is no other API server");
    else if (versions.newest - versions.oldest > 1)
        findings_warn(s->f, "peer-versions", "upgrade the older ones first, a minor version at a time",
                      "API servers from 1.%u to 1.%u: Kubernetes supports neighbours only", versions.oldest,
                      versions.newest);
    else if (unknown > 0 && versions.newest != 0)
        findings_skipped(s->f, "peer-versions",
                         "whether the API servers' versions are neighbours: %zu could not be asked", unknown);
    else if (versions.newest != 0)
        findings_good(s->f, "peer-versions", "the API servers' versions are neighbours");
    served_unref(v);
}

static bool are_possible(struct scene *s)
{
    struct derive_gates gates = {false};
    struct err err;

    if (!s->local_answers) {
        findings_skipped(s->f, "peers", "not examined: the local API server does not answer");
        return false;
    }
    err_clear(&err);
    (void)derive_gates(s->config->feature_gates, &gates, &err);
    if (!gates.unknown_version_interoperability_proxy) {
        findings_good(s->f, "peers", "not used: the feature gate UnknownVersionInteroperabilityProxy is off");
        return false;
    }
    if (s->trust.local_cert == NULL) {
        findings_skipped(s->f, "peers", "cannot be used without a front-proxy certificate");
        return false;
    }
    if (!trust_has_peers(&s->trust)) {
        findings_skipped(s->f, "peers", "cannot be used: peer-ca-file is not configured");
        return false;
    }
    if (!s->believed)
        findings_skipped(s->f, "peers", "not examined: the local API server does not tell who they are");
    return s->believed;
}

/* The peers of another process. */
struct recalled {
    struct cluster_static_peer *known; /* lives as long as what is made of it, so `at` as well */
    struct derive_address *at;
};

/* Peers are wanted most when etcd is away, and the running process knows them still. */
static struct cluster *recall(struct scene *s, struct cluster *c, struct recalled *r)
{
    struct json_object *list = told(s);
    size_t n = 0, all = list == NULL ? 0 : json_object_array_length(list);
    struct err err;

    err_clear(&err);
    r->known = must_zalloc((all + 1) * sizeof(r->known[0]));
    r->at = must_zalloc((all + 1) * sizeof(r->at[0]));
    for (size_t i = 0; i < all; i++) {
        struct json_object *one = json_object_array_get_idx(list, i);

        if (is_true(one, "local") || strcmp(sections_text(one, "life"), "live") != 0 ||
            !derive_host_port(slice_str(sections_text(one, "address")), &r->at[n], &err))
            continue;
        r->known[n] = (struct cluster_static_peer){sections_text(one, "hostname"), r->at[n].host, r->at[n].port};
        n++;
    }
    s->recalled = n > 0;
    if (s->recalled) {
        cluster_free(c);
        c = look(s, (struct given){r->known, n});
        wait_for(s, c, n);
    }
    return c;
}

void section_peers(struct scene *s)
{
    struct recalled r = {NULL, NULL};
    struct cluster *c;

    findings_enter(s->f, CHECK_PEERS);
    judge_drains(s);
    if (!are_possible(s)) {
        judge_all_told(s);
        return;
    }
    c = look(s, (struct given){NULL, 0});
    wait_for_peers(s, c);
    if (!cluster_leases_listed(c))
        c = recall(s, c, &r);
    check_each(s, c);
    cluster_free(c);
    mem_free(r.known);
    mem_free(r.at);
}
