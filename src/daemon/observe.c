/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/observe.h"

#include "admin/admin.h"
#include "base/log.h"
#include "daemon/app_state.h"
#include "daemon/derive.h"
#include "daemon/expiry.h"
#include "daemon/options.h"
#include "daemon/status.h"

#include <errno.h>
#include <string.h>

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

static const struct {
    const char *name;
    unsigned endpoints;
    health_fn *fn;
    const char *look;
} checks[] = {
    {"local-apiserver", HEALTH_READYZ | HEALTH_HEALTHZ, local_apiserver,
     "the log of the kube-apiserver on this node, and whether it listens where the option apiserver says"},
    {"local-discovery-sync", HEALTH_READYZ | HEALTH_HEALTHZ, local_discovery_sync,
     "the kube-apiserver on this node: may the user of this proxy read /api and /apis?"},
    {"lease-informer-sync", HEALTH_READYZ | HEALTH_HEALTHZ, lease_informer_sync,
     "RBAC of this proxy's user: leases in kube-system, customresourcedefinitions and apiservices (contrib/rbac)"},
    {"peer-discovery-sync", HEALTH_READYZ | HEALTH_HEALTHZ, peer_discovery_sync,
     "mvproxyctl peers: the last error of the peer that has not answered"},
    {"requestheader", HEALTH_READYZ | HEALTH_HEALTHZ, requestheader,
     "the requestheader-* options here and in kube-apiserver: they must be the same"},
    {"tls-certificates", HEALTH_READYZ | HEALTH_HEALTHZ, tls_certificates, "mvproxyctl certs: the file to be renewed"},
    {"shutdown", HEALTH_READYZ, shutdown, "nothing is wrong: the service was told to stop"},
};

enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static struct health *build_health(struct app *a)
{
    struct health *h = health_new();

    for (size_t i = 0; i < CHECKS; i++)
        health_add(h, checks[i].endpoints, checks[i].name, checks[i].fn, a);
    return h;
}

const char *observe_look(const char *check)
{
    for (size_t i = 0; i < CHECKS; i++)
        if (strcmp(checks[i].name, check) == 0)
            return checks[i].look;
    return "the log of mvproxy";
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

static bool collect(struct status *out, void *arg)
{
    return status_collect(arg, out);
}

static bool open_admin(struct app *a, struct err *err)
{
    struct derive_address at;
    struct admin_opts o = {
        .tls = a->trust.admin,
        .version = a->args.version,
        .metrics = a->metrics,
        .flags = list_flags,
        .status = collect,
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
