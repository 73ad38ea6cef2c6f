/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/readiness_checks.h"

#include "admin/health.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/utf8.h"
#include "daemon/app_state.h"
#include "daemon/expiry.h"

#include <stdio.h>
#include <string.h>

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

/* False with *why: the certificate has expired. */
static bool in_date(const struct app *a, const char *option, const char *effect, struct err *why)
{
    char when[CLOCK_RFC3339_BYTES];
    struct expiry_entry over;

    if (!expiry_is_over(a->expiry, option, &over))
        return true;
    clock_rfc3339(over.not_after * 1000000, when);
    return err_set(why, "%s has expired (%.19sZ): %s: %s", over.option, when, effect, over.path);
}

bool readiness_checks_front_proxy(const struct app *a, struct err *why)
{
    return in_date(a, "proxy-client-cert-file", "users with certificates get 401, and discovery cannot be read", why);
}

static bool tls_certificates(void *arg, struct err *why)
{
    struct err also;
    bool serving = in_date(arg, "tls-cert-file", "clients refuse to connect", why), front;

    err_clear(&also);
    front = readiness_checks_front_proxy(arg, serving ? why : &also);
    if (!serving && !front) { /* they often end together */
        struct err first = *why;

        err_clear(why);
        (void)err_set(why, "proxy-client-cert-file has expired, too: renew both: %s", first.text);
    }
    return serving && front;
}

static bool client_listener(void *arg, struct err *why)
{
    const struct app *a = arg;

    return a->address_waits[0] == '\0' || err_set(why, "%s", a->address_waits);
}

static bool shutdown(void *arg, struct err *why)
{
    const struct app *a = arg;

    return a->phase == APP_SERVING || err_set(why, "process is shutting down");
}

#define LOOK_LOCAL                                                                                                     \
    "the log of the kube-apiserver on this node, its etcd, and whether it listens where the option apiserver says"

#define LOOK_CERTIFICATE                                                                                               \
    "the certificate that kube-apiserver on this node shows (--tls-cert-file), apiserver-ca-file, and this machine's " \
    "clock (mvproxyctl check)"

static const struct {
    const char *name;
    unsigned endpoints;
    health_fn *fn;
    const char *look;
} checks[] = {
    {"local-apiserver", HEALTH_READYZ | HEALTH_HEALTHZ, local_apiserver, LOOK_LOCAL},
    /* Before what cannot be read for that reason. */
    {"requestheader", HEALTH_READYZ | HEALTH_HEALTHZ, requestheader,
     "requestheader-* and client-ca-file here and in kube-apiserver: they must be the same (mvproxyctl check "
     "compares)"},
    {"local-discovery-sync", HEALTH_READYZ | HEALTH_HEALTHZ, local_discovery_sync,
     "the kube-apiserver on this node: may the user of this proxy read /api and /apis?"},
    {"lease-informer-sync", HEALTH_READYZ | HEALTH_HEALTHZ, lease_informer_sync,
     "RBAC of this proxy's user: leases in kube-system, customresourcedefinitions and apiservices (contrib/rbac)"},
    {"peer-discovery-sync", HEALTH_READYZ | HEALTH_HEALTHZ, peer_discovery_sync,
     "mvproxyctl peers: the last error of the peer that has not answered"},
    {"tls-certificates", HEALTH_READYZ | HEALTH_HEALTHZ, tls_certificates,
     "mvproxyctl certs: renew the file, which is then used without a restart"},
    {"client-listener", HEALTH_READYZ | HEALTH_HEALTHZ, client_listener,
     "ss -ltnp tells who has the address: kube-apiserver must listen elsewhere (--bind-address=127.0.0.1)"},
    {"shutdown", HEALTH_READYZ, shutdown, "nothing is wrong: the service was told to stop"},
};

enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static void note_failing(const char *name, const char *why, void *arg)
{
    bool *ready = arg;

    (void)name;
    (void)why;
    *ready = false;
}

/* As /readyz is answered at this moment. */
static void collect_ready(void *arg)
{
    const struct app *a = arg;
    bool ready = true;

    if (a->health != NULL)
        health_each_failing(a->health, HEALTH_READYZ, note_failing, &ready);
    metric_set(a->ready, ready && a->health != NULL ? 1 : 0);
}

struct health *readiness_checks_new(struct app *a)
{
    struct health *h = health_new();

    for (size_t i = 0; i < CHECKS; i++)
        health_add(h, checks[i].endpoints, checks[i].name, checks[i].fn, a);
    a->ready =
        metric_single(a->metrics, METRIC_GAUGE, "mvproxy_ready", "1 while this mvproxy is ready, as /readyz says.");
    metrics_on_collect(a->metrics, collect_ready, a);
    return h;
}

/* Who is not believed lacks no right, and nothing can be read. */
static bool is_disbelief(const char *check, const char *why)
{
    return strcmp(check, "local-apiserver") != 0 &&
           (strstr(why, "answered 401") != NULL || strstr(why, "answers 401") != NULL);
}

/* It gives no answer, or one that says that it is unwell: no right is lacking, and no peer is at fault. */
static bool is_local_trouble(const char *why)
{
    static const char *const reasons[] = {
        "the local kube-apiserver does not answer: ", "local discovery not read yet: ", "leases not listed yet: ",
        "the local server is not ready"};

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (strncmp(why, reasons[i], strlen(reasons[i])) == 0)
            return strstr(why, "answered 403") == NULL;
    return false;
}

const char *readiness_checks_look(const char *check, const char *why)
{
    if (is_disbelief(check, why))
        return "proxy-client-cert-file: is it of the CA and the name that kube-apiserver's "
               "--requestheader-client-ca-file and --requestheader-allowed-names say? (mvproxyctl check)";
    if (is_local_trouble(why))
        return strstr(why, "certificate refused: ") != NULL ? LOOK_CERTIFICATE : LOOK_LOCAL;
    for (size_t i = 0; i < CHECKS; i++)
        if (strcmp(checks[i].name, check) == 0)
            return checks[i].look;
    return "the log of mvproxy";
}

bool readiness_checks_pass(struct app *a, char *reason, size_t n)
{
    struct err why = {.text = ""};

    if (!client_listener(a, &why)) {
        (void)snprintf(reason, n, "%s", why.text);
        return false;
    }
    /* Whom the server does not believe can read nothing of it: first what is at the bottom of that. */
    if (!cluster_local_reachable(a->cluster, reason, n) || !cluster_front_trusted(a->cluster, reason, n) ||
        !cluster_local_synced(a->cluster, reason, n) || !cluster_leases_synced(a->cluster, reason, n) ||
        !cluster_peers_synced(a->cluster, reason, n))
        return false;
    if (tls_certificates(a, &why))
        return true;
    (void)snprintf(reason, n, "%s", why.text);
    return false;
}

/* Not to be ready is a warning once, and not yet to be so at the very start is none. */
static void say_status(struct app *a, const char *not_ready, bool first)
{
    bool lost = not_ready != NULL && !first;

    if (lost && !a->said_not_ready)
        log_warning("Status", LT("status", a->status));
    else
        log_v(2, "Status", LT("status", a->status));
    if (lost && !a->said_not_ready)
        changes_add(a->changes, CHANGE_FAILED, a->hostname, "this mvproxy is not ready: %s", not_ready);
    else if (!lost && a->said_not_ready)
        changes_add(a->changes, CHANGE_RECOVERED, a->hostname, "this mvproxy is ready again");
    a->said_not_ready = lost;
}

void readiness_checks_tell(struct app *a)
{
    char reason[192] = "", status[sizeof(a->status)];
    const char *refused = a->reload_refused, *separator = refused[0] == '\0' ? "" : "; last reload refused: ";
    bool ready = readiness_checks_pass(a, reason, sizeof(reason)), first = a->status[0] == '\0';

    if (ready)
        (void)snprintf(status, sizeof(status), "Serving, %zu peers known%s%.200s",
                       served_n_peers(cluster_served(a->cluster)), separator, refused);
    else
        (void)snprintf(status, sizeof(status), "Not ready: %s%s%.200s", reason, separator, refused);
    utf8_make_printable(status); /* it may have been cut within a character: systemd would not show it */
    if (strcmp(status, a->status) == 0)
        return;
    memcpy(a->status, status, sizeof(status));
    notify_status(a->notify, a->status);
    say_status(a, ready ? NULL : reason, first);
}
