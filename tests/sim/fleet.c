/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/metric.h"
#include "kube/reqinfo.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/fleet_customs.h"
#include "sim/fleet_internal.h"

enum { WITHDRAWN_MS = 5000 };

static void __attribute__((format(printf, 2, 3))) failed(struct fleet *f, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    diag("%s", text);
    f->failures++;
}

/* ---- the model API server ---- */

static void refuse(struct sim_request *q, bool group_known)
{
    if (group_known)
        sim_reply(
            q, 404, "application/json", NULL,
            SLICE_LIT("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
                      "\"the server could not find the requested resource\",\"reason\":\"NotFound\",\"details\":{},"
                      "\"code\":404}\n"));
    else
        sim_reply(q, 404, "text/plain; charset=utf-8", NULL, SLICE_LIT("404 page not found\n"));
}

/* RBAC and CRDs are not read yet: what is not known may be there all the same. */
static void refuse_for_now(struct sim_request *q)
{
    sim_reply(
        q, 503, "application/json", NULL,
        SLICE_LIT("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
                  "\"the request has been made before all known HTTP paths have been installed, please try again\","
                  "\"reason\":\"ServiceUnavailable\",\"details\":{\"retryAfterSeconds\":5},\"code\":503}\n"));
    sim_field(q, "Retry-After", "5");
}

static void deny(struct node *n, struct sim_request *q, const struct gvr *g)
{
    bool ours = kube_knows(n->server, g->group, SLICE_NONE) && !customs_owns(g->group);

    if (!ours && n->custom != NULL && customs_server_loading(n->custom))
        refuse_for_now(q);
    else
        refuse(q, ours);
}

static void note_write(struct node *n, struct slice name)
{
    size_t number = strtoul(name.p + 1, NULL, 10);

    if (number < MAX_WRITES && ++n->fleet->written[number] > 1)
        failed(n->fleet, "write %zu was carried out twice", number);
}

/* Everything that is asked of a server for a client comes as that client. */
static void check_identity(struct node *n, const struct sim_request *q)
{
    if (!sim_with_cert(q) || !slice_eq(sim_header(q, "X-Remote-User"), SLICE_LIT("client")))
        failed(n->fleet, "node %u was asked as somebody else", n->number);
}

static bool serve_resource(void *arg, struct sim_request *q)
{
    struct node *n = arg;
    struct reqinfo info;
    struct gvr g;
    char body[64];

    if (slice_eq(sim_path(q), SLICE_LIT("/readyz"))) {
        sim_reply(q, 200, "text/plain", NULL, SLICE_LIT("ok"));
        return true;
    }
    if (reqinfo_parse(sim_arena(q), sim_method(q), sim_request_head(q)->target, &info) != REQINFO_OK ||
        !info.is_resource || info.name.n == 0)
        return false;
    check_identity(n, q);
    g = reqinfo_gvr(&info);
    if (!kube_serves_sub(n->server, &g, info.subresource)) {
        deny(n, q, &g);
        return true;
    }
    if (!slice_eq(sim_method(q), SLICE_LIT("GET")))
        note_write(n, info.name);
    (void)snprintf(body, sizeof(body), "{\"kind\":\"Thing\",\"server\":%u}", n->number);
    sim_reply(q, 200, "application/json", NULL, slice_str(body));
    return true;
}

/* ---- the nodes ---- */

static bool reach(void *arg, const struct back *from, const struct sim_server *to)
{
    const struct fleet *f = arg;

    for (unsigned i = 0; i < f->n; i++)
        for (unsigned m = 0; m < FLEET_ETCD_MEMBERS; m++)
            if (f->cut_etcd[i] && from == f->nodes[i].back && to == f->members[m])
                return false;
    for (unsigned i = 0; i < f->n; i++)
        for (unsigned j = 0; j < f->n; j++)
            if (f->cut[i][j] && from == f->nodes[i].back &&
                (to == f->nodes[j].front.server || to == kube_sim(f->nodes[j].server)))
                return false;
    return true;
}

static void init_node(struct fleet *f, unsigned i)
{
    struct node *n = &f->nodes[i];
    char address[32], host[32];

    n->fleet = f;
    n->number = i;
    (void)snprintf(n->hostname, sizeof(n->hostname), "cp-%u", i);
    (void)snprintf(host, sizeof(host), "10.0.0.%u", i + 1);
    (void)snprintf(address, sizeof(address), "10.0.0.%u:6443", i + 1);
    (void)snprintf(n->front_host, sizeof(n->front_host), "10.0.1.%u", i + 1);
    (void)snprintf(n->front_address, sizeof(n->front_address), "10.0.1.%u:6443", i + 1);
    n->server = kube_server_new(f->store, f->net, n->hostname, address, "");
    kube_set_unadvertised(n->server);
    kube_set_extra(n->server, serve_resource, n);
    kube_sim(n->server)->fault = SIM_REFUSE;
    n->back = back_new(f->loop, NULL);
    sim_back_join(n->back, f->net);
    n->local = cluster_kit_origin(n->back, "local", host);
    n->front.arg = n;
    sim_front_open(&n->front, f->net, f->loop, n->front_address);
    n->front.server->fault = SIM_REFUSE;
    f->fronts[i] = cluster_kit_origin(f->net, n->hostname, n->front_host);
    n->opts = cluster_kit_opts(n->hostname, n->local);
    n->opts.identity = IDENTITY_AUTO;
    n->opts.advertise = n->front_address;
    n->opts.annotate = true;
    n->opts.local_failover = true;
}

struct fleet *fleet_new(unsigned nodes)
{
    struct fleet *f = must_zalloc(sizeof(*f));

    f->loop = loop_new(NULL);
    f->net = back_new(f->loop, NULL);
    f->store = kube_store_new(f->loop);
    f->n = nodes;
    f->changed = loop_now_ms(f->loop);
    for (unsigned i = 0; i < nodes; i++)
        f->nodes[i].proxy_until = f->changed;
    sim_back_paths(f->net, reach, f);
    for (unsigned i = 0; i < nodes; i++)
        init_node(f, i);
    for (unsigned i = 0; i < nodes; i++)
        for (unsigned j = 0; j < nodes; j++)
            f->path_since[i][j] = 1; /* for as long as anybody knows */
    return f;
}

void fleet_use_etcd(struct fleet *f, bool annotations)
{
    char host[32], address[32];

    f->etcd = sim_etcd_new(f->loop, 77);
    for (unsigned m = 0; m < FLEET_ETCD_MEMBERS; m++) {
        (void)snprintf(host, sizeof(host), "10.0.2.%u", m + 1);
        (void)snprintf(address, sizeof(address), "10.0.2.%u:6443", m + 1);
        f->members[m] = sim_etcd_member(f->etcd, f->net, address);
        for (unsigned i = 0; i < f->n; i++)
            f->nodes[i].etcd[m] = cluster_kit_origin(f->nodes[i].back, "etcd", host);
    }
    for (unsigned i = 0; i < f->n; i++) {
        struct cluster_opts *o = &f->nodes[i].opts;

        o->etcd_servers = f->nodes[i].etcd;
        o->n_etcd_servers = FLEET_ETCD_MEMBERS;
        o->etcd_prefix = "/registry";
        o->annotate = annotations;
    }
}

struct sim_etcd *fleet_etcd(struct fleet *f)
{
    return f->etcd;
}

struct sim_server *fleet_etcd_member(struct fleet *f, unsigned member)
{
    return f->members[member];
}

void fleet_cut_etcd(struct fleet *f, unsigned node, bool cut)
{
    f->cut_etcd[node] = cut;
}

unsigned fleet_free(struct fleet *f)
{
    unsigned failures;

    for (unsigned i = 0; i < f->n; i++) {
        fleet_kill_proxy(f, i);
        fleet_stop_server(f, i, false);
    }
    sim_run_ms(f->loop, ASK_TIMEOUT_MS + 1);
    if (sim_open(f->net) > 0 || f->asking > 0)
        failed(f, "%zu requests of clients never ended", f->asking);
    for (unsigned i = 0; i < f->n; i++) {
        struct node *n = &f->nodes[i];

        if (sim_open(n->back) > 0)
            failed(f, "%zu requests of node %u are left behind", sim_open(n->back), i);
        if (n->custom != NULL)
            customs_server_free(n->custom);
        origin_unref(n->local);
        origin_unref(f->fronts[i]);
        for (unsigned m = 0; f->etcd != NULL && m < FLEET_ETCD_MEMBERS; m++)
            origin_unref(n->etcd[m]);
        back_free(n->back);
    }
    if (f->etcd != NULL)
        sim_etcd_free(f->etcd);
    customs_free(f->customs);
    kube_store_free(f->store);
    back_free(f->net);
    loop_free(f->loop);
    failures = f->failures;
    mem_free(f);
    return failures;
}

struct loop *fleet_loop(struct fleet *f)
{
    return f->loop;
}

struct kube_store *fleet_store(struct fleet *f)
{
    return f->store;
}

unsigned fleet_nodes(const struct fleet *f)
{
    return f->n;
}

struct kube_server *fleet_server(struct fleet *f, unsigned node)
{
    return f->nodes[node].server;
}

void fleet_probe(struct fleet *f)
{
    for (unsigned i = 0; i < f->n; i++)
        f->nodes[i].opts.pulse = true;
}

bool fleet_knows_all(const struct fleet *f, unsigned node)
{
    struct cluster *c = f->nodes[node].cluster;

    return c != NULL && !served_unknown_peer(cluster_served(c));
}

struct metrics *fleet_metrics(struct fleet *f, unsigned node)
{
    return f->nodes[node].cluster == NULL ? NULL : f->nodes[node].metrics;
}

/* A kube-apiserver registers what it serves itself; what it no longer serves stays until somebody deletes it. */
static void register_apis(struct fleet *f, const char *apis)
{
    struct slice rest = slice_str(apis), one, gv, group;
    char g[64], v[64];

    while (slice_split(&rest, ';', &one)) {
        one = slice_trim(one);
        if (!slice_split(&one, ':', &gv) || slice_index(gv, '/') == gv.n || !slice_split(&gv, '/', &group))
            continue;
        (void)snprintf(g, sizeof(g), "%.*s", (int)group.n, group.p);
        (void)snprintf(v, sizeof(v), "%.*s", (int)gv.n, gv.p);
        kube_put_apiservice(f->store, g, v, false);
    }
}

void fleet_use_newest(struct fleet *f)
{
    f->newest = true;
}

static void serve_customs(void *arg, bool loading)
{
    struct node *n = arg;
    char apis[1000];

    (void)snprintf(apis, sizeof(apis), "%s", n->apis);
    customs_print(n->custom, apis, sizeof(apis));
    kube_set_apis(n->server, apis);
    kube_fail_check(n->server, loading ? "poststarthook/crd-informer-synced" : NULL);
}

struct customs *fleet_use_customs(struct fleet *f)
{
    f->customs = customs_new(f->loop, f->store);
    for (unsigned i = 0; i < f->n; i++)
        f->nodes[i].custom = customs_server_new(f->customs, serve_customs, &f->nodes[i]);
    return f->customs;
}

void fleet_pace_customs(struct fleet *f, unsigned node, uint64_t lag_ms, uint64_t load_ms)
{
    customs_server_pace(f->nodes[node].custom, lag_ms, load_ms);
}

uint64_t fleet_loaded(const struct fleet *f, unsigned node)
{
    const struct node *n = &f->nodes[node];

    uint64_t loaded = customs_server_loaded(n->custom), up = fleet_server_up(f, node);

    return loaded < up ? loaded : up; /* also since it ran again */
}

void fleet_delete_lacking(struct fleet *f)
{
    f->deletes_lacking = true;
}

void fleet_set_legacy(struct fleet *f, unsigned node, bool legacy)
{
    struct kube_server *k = f->nodes[node].server;

    kube_list_registered(k);
    kube_set_schemas(k, "1");
    kube_set_form(k, legacy ? KUBE_LEGACY : KUBE_V2);
}

static void delete_lacking(struct fleet *f, struct kube_server *k)
{
    char *stored = kube_store_registered(f->store);
    struct slice rest = slice_str(stored), one, group;
    char name[128];

    while (slice_split(&rest, ';', &one)) {
        one.n -= one.n > 0; /* the colon */
        if (!slice_split(&one, '/', &group) || kube_knows(k, group, one) || customs_owns(group))
            continue;
        (void)snprintf(name, sizeof(name), "%.*s.%.*s", (int)one.n, one.p, (int)group.n, group.p);
        kube_delete(f->store, KUBE_APISERVICE, name);
    }
    mem_free(stored);
}

void fleet_set_minor(struct fleet *f, unsigned node, unsigned minor)
{
    f->nodes[node].minor = minor;
    kube_set_minor(f->nodes[node].server, minor);
    kube_pause_renewal(f->nodes[node].server, minor < 26);
}

size_t fleet_open(const struct fleet *f, unsigned node)
{
    return sim_open(f->nodes[node].back);
}

void fleet_start_server(struct fleet *f, unsigned node, const char *apis, int64_t skew_us)
{
    struct node *n = &f->nodes[node];

    fleet_hang_server(f, node, false);
    f->changed = n->server_since = loop_now_ms(f->loop);
    kube_set_apis(n->server, apis);
    (void)snprintf(n->apis, sizeof(n->apis), "%s", apis);
    if (n->custom != NULL)
        customs_server_start(n->custom);
    if (n->minor == 0 || n->minor >= 35)
        kube_start(n->server, skew_us);
    else
        kube_start_again(n->server, skew_us);
    if (f->deletes_lacking)
        delete_lacking(f, n->server);
    register_apis(f, apis);
}

void fleet_stop_server(struct fleet *f, unsigned node, bool graceful)
{
    struct node *n = &f->nodes[node];

    fleet_hang_server(f, node, false);
    if (n->server_since == 0)
        return;
    f->changed = n->server_until = loop_now_ms(f->loop);
    n->server_since = 0;
    if (n->custom != NULL)
        customs_server_pause(n->custom, true);
    kube_stop(n->server, graceful && (n->minor == 0 || n->minor >= 35));
}

void fleet_hang_server(struct fleet *f, unsigned node, bool hangs)
{
    struct node *n = &f->nodes[node];

    if (n->hangs == hangs)
        return;
    n->hangs = hangs;
    f->changed = loop_now_ms(f->loop);
    n->server_since = hangs ? 0 : f->changed;
    n->server_until = f->changed;
    if (n->custom != NULL)
        customs_server_pause(n->custom, hangs);
    kube_sim(n->server)->fault = hangs ? SIM_HANG : SIM_FINE;
    kube_pause_renewal(n->server, hangs || (n->minor > 0 && n->minor < 26));
    if (!hangs)
        sim_server_break(kube_sim(n->server));
}

static struct proxy_opts proxy_opts_of(const struct node *n)
{
    static const char *const user[] = {"X-Remote-User", NULL}, *const group[] = {"X-Remote-Group", NULL};
    static const char *const extra[] = {"X-Remote-Extra-", NULL};

    return (struct proxy_opts){.local = n->local,
                               .username_headers = user,
                               .group_headers = group,
                               .extra_header_prefixes = extra,
                               .can_assert = true,
                               .newest = n->fleet->newest,
                               .request_timeout_ms = 60000,
                               .discovery_authz_ttl_ms = 10000};
}

void fleet_start_proxy(struct fleet *f, unsigned node)
{
    struct node *n = &f->nodes[node];
    struct proxy_opts o = proxy_opts_of(n);

    if (n->cluster != NULL) {
        fleet_set_peers(f, node, true);
        return;
    }
    n->opts.peers_enabled = true;
    mem_fail_nth(0); /* by contract, without memory it does not start */
    f->changed = n->proxy_since = loop_now_ms(f->loop);
    n->metrics = metrics_new();
    n->cluster = cluster_new(f->loop, n->back, n->metrics, &n->opts);
    n->proxy = proxy_new(f->loop, n->back, n->cluster, n->metrics, &o);
    n->front.handle = proxy_on_request;
    n->front.arg = n->proxy;
    n->front.server->fault = SIM_FINE;
}

/* Nobody reaches it any more. NULL: there is none. */
static struct node *close_proxy(struct fleet *f, unsigned node)
{
    struct node *n = &f->nodes[node];

    if (n->cluster == NULL)
        return NULL;
    f->changed = loop_now_ms(f->loop);
    n->proxy_since = 0;
    n->front.server->fault = SIM_REFUSE;
    return n;
}

void fleet_kill_proxy(struct fleet *f, unsigned node)
{
    struct node *n = close_proxy(f, node);

    if (n == NULL)
        return;
    n->proxy_until = loop_now_ms(f->loop);
    sim_server_break(n->front.server);
    proxy_free(n->proxy);
    cluster_free(n->cluster);
    n->cluster = NULL;
    sim_run_ms(f->loop, 0);
    metrics_free(n->metrics);
}

static void on_withdrawn(void *arg)
{
    struct node *n = arg;

    n->withdrawn = true;
}

void fleet_stop_proxy(struct fleet *f, unsigned node)
{
    struct node *n = close_proxy(f, node);

    if (n == NULL)
        return;
    n->withdrawn = false;
    cluster_stop(n->cluster, on_withdrawn, n);
    for (unsigned ms = 0; !n->withdrawn && ms < WITHDRAWN_MS; ms++)
        sim_run_ms(f->loop, 1);
    if (!n->withdrawn)
        failed(f, "mvproxy %u does not end", node);
    fleet_kill_proxy(f, node);
}

/* False: refused for want of memory, and all stays as it was. */
static bool reload(struct node *n)
{
    struct proxy_opts o = proxy_opts_of(n);
    struct proxy_config *config = proxy_config_new(&o);

    if (config == NULL || !cluster_update(n->cluster, &n->opts)) {
        proxy_config_unref(config);
        return false;
    }
    proxy_update(n->proxy, config);
    return true;
}

void fleet_reload(struct fleet *f, unsigned node)
{
    if (f->nodes[node].cluster != NULL)
        (void)reload(&f->nodes[node]);
}

void fleet_set_peers(struct fleet *f, unsigned node, bool enabled)
{
    struct node *n = &f->nodes[node];

    if (n->cluster == NULL || n->opts.peers_enabled == enabled)
        return;
    n->opts.peers_enabled = enabled;
    /* Whoever wants that sees when it is refused, and does it again. */
    if (!reload(n) && !reload(n))
        abort();
    f->changed = loop_now_ms(f->loop);
    n->proxy_since = enabled ? f->changed : 0;
}

void fleet_cut(struct fleet *f, unsigned from, unsigned to, bool cut)
{
    if (f->cut[from][to] == cut || from == to)
        return;
    f->cut[from][to] = cut;
    f->changed = f->path_since[from][to] = loop_now_ms(f->loop);
}

static uint64_t since(const struct fleet *f, uint64_t start)
{
    return start == 0 ? 0 : loop_now_ms(f->loop) - start + 1;
}

uint64_t fleet_server_up(const struct fleet *f, unsigned node)
{
    return since(f, f->nodes[node].server_since);
}

uint64_t fleet_server_away(const struct fleet *f, unsigned node)
{
    return f->nodes[node].server_since > 0 ? 0 : since(f, f->nodes[node].server_until);
}

uint64_t fleet_proxy_up(const struct fleet *f, unsigned node)
{
    return since(f, f->nodes[node].proxy_since);
}

uint64_t fleet_path_up(const struct fleet *f, unsigned from, unsigned to)
{
    return f->cut[from][to] ? 0 : since(f, f->path_since[from][to]);
}

uint64_t fleet_path_cut(const struct fleet *f, unsigned from, unsigned to)
{
    return f->cut[from][to] ? since(f, f->path_since[from][to]) : 0;
}

uint64_t fleet_proxy_dead(const struct fleet *f, unsigned node)
{
    return f->nodes[node].cluster != NULL ? 0 : since(f, f->nodes[node].proxy_until);
}

bool fleet_proxy_runs(const struct fleet *f, unsigned node)
{
    return f->nodes[node].cluster != NULL;
}

uint64_t fleet_quiet(const struct fleet *f)
{
    return since(f, f->changed);
}

uint64_t fleet_registered(const struct fleet *f, const struct gvr *g)
{
    return since(f, kube_registered_ms(f->store, g->group, g->version));
}

bool fleet_leased(const struct fleet *f, unsigned node, bool *addressed)
{
    char older[SERVER_ID_BYTES_126] = "";
    const char *id = kube_id(f->nodes[node].server);

    (void)server_id_126_from_hostname(slice_str(f->nodes[node].hostname), older);
    if (addressed != NULL)
        *addressed = kube_lease_has_address(f->store, id) || kube_lease_has_address(f->store, older);
    return kube_has_lease(f->store, id) || kube_has_lease(f->store, older);
}
