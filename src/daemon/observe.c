#include "daemon/observe.h"

#include "admin/admin.h"
#include "admin/page.h"
#include "admin/skew.h"
#include "base/log.h"
#include "daemon/app_state.h"
#include "daemon/derive.h"
#include "daemon/expiry.h"
#include "daemon/options.h"

#include <errno.h>

/* ---- health ---- */

typedef bool cluster_check(struct cluster *c, char *reason, size_t n);

static bool check(cluster_check *fn, struct app *a, struct err *why)
{
    char reason[192] = "";

    return fn(a->cluster, reason, sizeof(reason)) || err_set(why, "%s", reason);
}

static bool local_apiserver(void *arg, struct err *why)
{
    return check(cluster_local_reachable, arg, why);
}

static bool local_discovery_sync(void *arg, struct err *why)
{
    return check(cluster_local_synced, arg, why);
}

static bool lease_informer_sync(void *arg, struct err *why)
{
    return check(cluster_leases_synced, arg, why);
}

static bool peer_discovery_sync(void *arg, struct err *why)
{
    return check(cluster_peers_synced, arg, why);
}

static bool requestheader(void *arg, struct err *why)
{
    return check(cluster_front_trusted, arg, why);
}

static bool tls_certificates(void *arg, struct err *why)
{
    const struct app *a = arg;

    return !expiry_is_over(a->expiry, "tls-cert-file") || err_set(why, "the serving certificate has expired");
}

static bool shutdown(void *arg, struct err *why)
{
    const struct app *a = arg;

    return a->phase == APP_SERVING || err_set(why, "process is shutting down");
}

static struct health *build_health(struct app *a)
{
    unsigned ready = HEALTH_READYZ | HEALTH_HEALTHZ;
    struct health *h = health_new();

    health_add(h, ready, "local-apiserver", local_apiserver, a);
    health_add(h, ready, "local-discovery-sync", local_discovery_sync, a);
    health_add(h, ready, "lease-informer-sync", lease_informer_sync, a);
    health_add(h, ready, "peer-discovery-sync", peer_discovery_sync, a);
    health_add(h, ready, "requestheader", requestheader, a);
    health_add(h, ready, "tls-certificates", tls_certificates, a);
    health_add(h, HEALTH_READYZ, "shutdown", shutdown, a);
    return h;
}

bool observe_ready(struct app *a, char *reason, size_t n)
{
    return cluster_local_reachable(a->cluster, reason, n) && cluster_local_synced(a->cluster, reason, n) &&
           cluster_leases_synced(a->cluster, reason, n) && cluster_peers_synced(a->cluster, reason, n) &&
           cluster_front_trusted(a->cluster, reason, n);
}

/* ---- pages ---- */

static void list_flags(admin_flag_fn *each, void *each_arg, void *arg)
{
    const struct app *a = arg;
    struct buf value;
    size_t n;
    const struct option *t = options_table(&n);

    buf_init(&value, 1 << 20);
    for (size_t i = 0; i < n; i++) {
        buf_reset(&value);
        if (options_append_value(&value, a->config, &t[i]) && buf_append_char(&value, '\0'))
            each(each_arg, t[i].name, buf_slice(&value).p);
    }
    buf_free(&value);
}

enum { SKEWED_BYTES = 8 << 10 };

/* What does not fit is left out: the metric has the number. */
static void list_skewed(void *arg, struct slice group, struct slice version)
{
    struct buf *out = arg;
    size_t n = group.n + version.n + 3;

    if (buf_len(out) + n <= SKEWED_BYTES)
        buf_printf(out, "%s%.*s%s%.*s", buf_len(out) > 0 ? ", " : "", (int)group.n, group.p, group.n > 0 ? "/" : "",
                   (int)version.n, version.p);
}

static void put_failing(const char *check, const char *why, void *arg)
{
    const struct page_cell cells[] = {{slice_str(check), PAGE_BAD}, {slice_str(why), PAGE_BAD}};

    page_row(arg, cells, 2);
}

/* The first thing to be seen: ready or not, and why. */
static void put_readiness(struct page *p, struct app *a)
{
    static const char *const columns[] = {"check", "reason", NULL};
    char reason[192] = "";

    if (observe_ready(a, reason, sizeof(reason))) {
        page_note(p, "Ready.");
        return;
    }
    page_table(p, "Not ready", columns);
    health_each_failing(a->health, HEALTH_READYZ, put_failing, p);
}

static void fill_page(struct page *p, void *arg)
{
    static const char *const columns[] = {"what", "state", NULL};
    struct app *a = arg;
    struct buf skewed;
    char text[512];

    put_readiness(p, a);
    skew_page(p, cluster_served(a->cluster), cluster_local_reachable(a->cluster, text, sizeof(text)));
    page_table(p, "Group/versions with different schemas", columns);
    buf_init(&skewed, SKEWED_BYTES);
    served_each_skewed(cluster_served(a->cluster), list_skewed, &skewed);
    page_fact(p, a->config->skewed_resources, buf_len(&skewed) > 0 ? buf_slice(&skewed) : SLICE_LIT("none"));
    buf_free(&skewed);
    page_table(p, "Local API server", columns);
    cluster_local_describe(a->cluster, text, sizeof(text));
    page_fact(p, "local failover", slice_str(text));
    page_table(p, "Peer endpoint records", columns);
    cluster_etcd_state(a->cluster, text, sizeof(text));
    page_fact(p, "etcd", slice_str(text));
}

static void count_skewed(void *arg, struct slice group, struct slice version)
{
    (void)group;
    (void)version;
    (*(size_t *)arg)++;
}

static void list_facts(struct buf *out, void *arg)
{
    const struct app *a = arg;
    const struct served *s = cluster_served(a->cluster);
    const char *before = "Peers tried last: ";
    size_t skewed = 0;
    char text[256];

    for (size_t i = 0; i < served_n_peers(s); i++) {
        const struct served_peer *p = served_peer_at(s, i);

        if (p->origin == NULL || !origin_ejected(p->origin))
            continue;
        buf_printf(out, "%s%s", before, p->id);
        before = ", ";
    }
    buf_append_str(out, buf_len(out) > 0 ? "\n" : "");
    served_each_skewed(s, count_skewed, &skewed);
    buf_printf(out, "Group/versions with different schemas: %zu (skewed-resources: %s)\n", skewed,
               a->config->skewed_resources);
    cluster_local_describe(a->cluster, text, sizeof(text));
    buf_printf(out, "Local failover: %s\n", text);
}

static bool open_admin(struct app *a, struct err *err)
{
    struct derive_address at;
    struct admin_opts o = {
        .tls = a->trust.admin,
        .version = a->args.version,
        .metrics = a->metrics,
        .flags = list_flags,
        .status = fill_page,
        .facts = list_facts,
        .health = a->health,
        .arg = a,
    };

    if (!derive_host_port(slice_str(a->config->admin_bind_address), &at, err))
        return false;
    o.bind_address = at.host;
    o.port = at.port;
    a->admin = admin_new(a->loop, &o, err);
    return a->admin != NULL;
}

bool observe_build(struct app *a, struct buf *errors)
{
    struct err err;

    a->health = build_health(a);
    if (a->config->admin_bind_address[0] == '\0')
        return true;
    err_clear(&err);
    if (open_admin(a, &err))
        return true;
    if (a->inherited && errno == EADDRINUSE) {
        log_info("The admin listener waits for the process before this one", LT("err", err.text));
        a->admin_waits = true;
        return true;
    }
    buf_printf(errors, "admin-bind-address: %s\n", err.text);
    return false;
}

void observe_retry(struct app *a)
{
    struct err err;

    err_clear(&err);
    if (!a->admin_waits || !open_admin(a, &err))
        return;
    a->admin_waits = false;
    log_info("Listening", LT("address", a->config->admin_bind_address), LT("for", "admin"));
}

void observe_free(struct app *a)
{
    if (a->admin != NULL)
        admin_free(a->admin);
    if (a->health != NULL)
        health_free(a->health);
}
