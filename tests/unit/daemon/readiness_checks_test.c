/* SPDX-License-Identifier: Apache-2.0 */
/* Which checks there are, what each asks, and what the service manager hears of them. */
#include "daemon/readiness_checks.h"

#include <stdio.h>
#include <stdlib.h>

#include "admin/health.h"
#include "base/changes.h"
#include "base/log.h"
#include "daemon/app_state.h"
#include "daemon/expiry.h"
#include "lib/metric_sum.h"
#include "lib/tap.h"

enum { FACTS = 5, ROOM = 1 << 16 };

/* What is wrong; NULL: nothing. In the order of the functions below. */
static const char *faults[FACTS];
static const char *over; /* the option whose certificate has expired; NULL: none */
static bool all_over;    /* each has */
static char status[512];
static unsigned notified;
static size_t peers;

/* ---- in place of the cluster, the certificates and the service manager ---- */

static bool fact(unsigned i, char *reason, size_t n)
{
    if (faults[i] != NULL)
        (void)snprintf(reason, n, "%s", faults[i]);
    return faults[i] == NULL;
}

bool cluster_local_reachable(struct cluster *c, char *reason, size_t n)
{
    (void)c;
    return fact(0, reason, n);
}

bool cluster_local_synced(struct cluster *c, char *reason, size_t n)
{
    (void)c;
    return fact(1, reason, n);
}

bool cluster_leases_synced(struct cluster *c, char *reason, size_t n)
{
    (void)c;
    return fact(2, reason, n);
}

bool cluster_peers_synced(struct cluster *c, char *reason, size_t n)
{
    (void)c;
    return fact(3, reason, n);
}

bool cluster_front_trusted(struct cluster *c, char *reason, size_t n)
{
    (void)c;
    return fact(4, reason, n);
}

struct served *cluster_served(struct cluster *c)
{
    (void)c;
    return NULL;
}

size_t served_n_peers(const struct served *s)
{
    (void)s;
    return peers;
}

bool expiry_is_over(const struct expiry *e, const char *option, struct expiry_entry *out)
{
    (void)e;
    *out = (struct expiry_entry){.option = option, .path = "/etc/pki/x.crt", .not_after = 1795381447};
    return all_over || (over != NULL && strcmp(over, option) == 0);
}

void notify_status(struct notify *n, const char *text)
{
    (void)n;
    notified++;
    (void)snprintf(status, sizeof(status), "%s", text);
}

/* ---- what is said ---- */

static const char *const names[FACTS] = {"local-apiserver", "local-discovery-sync", "lease-informer-sync",
                                         "peer-discovery-sync", "requestheader"};

static void note(const char *check, const char *why, void *arg)
{
    struct buf *out = arg;

    buf_printf(out, "%s: %s; ", check, why);
}

static struct metrics *metrics;

static void failing(struct health *h, enum health_endpoint endpoint, const char *want, const char *name)
{
    struct buf out;

    buf_init(&out, ROOM);
    health_each_failing(h, endpoint, note, &out);
    is_slice(buf_slice(&out), want, "%s", name);
    buf_free(&out);
    if (endpoint != HEALTH_READYZ)
        return;
    metrics_collect(metrics);
    is_int((int)metric_sum(metrics, "mvproxy_ready", NULL), want[0] == '\0', "%s: the metric", name);
}

/* Whoever comes is refused, by us or by every server that we ask: a load balancer is to know. */
static void expired(struct app *a, struct health *h)
{
    static const struct {
        const char *option, *effect;
    } rows[] = {
        {"tls-cert-file", "clients refuse to connect"},
        {"proxy-client-cert-file", "users with certificates get 401, and discovery cannot be read"},
    };
    char want[256], reason[192];

    for (size_t i = 0; i < ROWS(rows); i++) {
        over = rows[i].option;
        (void)snprintf(want, sizeof(want),
                       "tls-certificates: %s has expired (2026-11-22T21:04:07Z): %s: /etc/pki/x.crt; ", over,
                       rows[i].effect);
        failing(h, HEALTH_READYZ, want, over);
        failing(h, HEALTH_HEALTHZ, want, over);
        ok(!readiness_checks_pass(a, reason, sizeof(reason)), "%s: not ready", over);
        ok(strstr(want, reason) != NULL, "for the service manager as well: %s", reason);
    }
    all_over = true;
    failing(h, HEALTH_READYZ,
            "tls-certificates: proxy-client-cert-file has expired, too: renew both: tls-cert-file has expired "
            "(2026-11-22T21:04:07Z): clients refuse to connect: /etc/pki/x.crt; ",
            "both are named at once");
    all_over = false;
    over = "client-ca-file";
    failing(h, HEALTH_READYZ, "", "on every node at once: nobody would be better off elsewhere");
    over = NULL;
}

static void checks(struct app *a)
{
    struct health *h;
    char want[64], reason[64];

    metrics = a->metrics = metrics_new();
    a->health = h = readiness_checks_new(a);
    failing(h, HEALTH_READYZ, "", "all well");
    ok(readiness_checks_pass(a, reason, sizeof(reason)), "it passes");
    for (unsigned i = 0; i < FACTS; i++) {
        faults[i] = "broken";
        (void)snprintf(want, sizeof(want), "%s: broken; ", names[i]);
        failing(h, HEALTH_READYZ, want, names[i]);
        failing(h, HEALTH_HEALTHZ, want, names[i]);
        failing(h, HEALTH_LIVEZ, "", "alive it is");
        ok(!readiness_checks_pass(a, reason, sizeof(reason)), "%s: not ready", names[i]);
        is_str(reason, "broken", "%s: why", names[i]);
        faults[i] = NULL;
    }
    expired(a, h);
    (void)snprintf(a->address_waits, sizeof(a->address_waits), "bind x: in use");
    failing(h, HEALTH_READYZ, "client-listener: bind x: in use; ", "nobody can connect");
    ok(!readiness_checks_pass(a, reason, sizeof(reason)), "not ready");
    is_str(reason, "bind x: in use", "why");
    a->address_waits[0] = '\0';
    a->phase = APP_DELAYING;
    failing(h, HEALTH_READYZ, "shutdown: process is shutting down; ", "told to stop");
    failing(h, HEALTH_HEALTHZ, "", "which is no fault");
    a->phase = APP_SERVING;
    health_free(h);
    a->health = NULL;
    metrics_collect(metrics);
    is_int((int)metric_sum(metrics, "mvproxy_ready", NULL), 0, "of no health is said nothing good");
    metrics_free(metrics);
}

static void looks(void)
{
    static const struct {
        const char *check, *words, *why;
    } rows[] = {
        {"local-apiserver", "the option apiserver", ""},
        {"local-apiserver", "the option apiserver", "answered 401"},
        {"local-apiserver", "the option apiserver",
         "the local kube-apiserver does not answer: [::1]:6444: connect: Connection refused"},
        {"local-apiserver", "clock",
         "the local kube-apiserver does not answer: [::1]:6444: TLS handshake: certificate refused: it is not valid "
         "yet"},
        {"lease-informer-sync", "apiserver-ca-file",
         "leases not listed yet: [::1]:6444: TLS handshake: certificate refused: its CA is not in apiserver-ca-file"},
        {"local-discovery-sync", "proxy-client-cert-file", "local discovery not read yet: /apis: answered 401"},
        {"lease-informer-sync", "proxy-client-cert-file", "leases not listed yet: answered 401"},
        {"lease-informer-sync", "contrib/rbac", "leases not listed yet: answered 403"},
        {"lease-informer-sync", "the option apiserver",
         "leases not listed yet: [::1]:6444: connect: Connection refused"},
        {"lease-informer-sync", "contrib/rbac", "custom resources and APIServices not listed yet"},
        {"local-discovery-sync", "may the user", "local discovery not read yet: /apis: answered 403"},
        {"local-discovery-sync", "the option apiserver", "local discovery not read yet: /api: answered 500"},
        {"local-discovery-sync", "may the user", "local discovery not read yet"},
        {"peer-discovery-sync", "the option apiserver", "leases not listed yet: timed out"},
        {"peer-discovery-sync", "the option apiserver",
         "the local server is not ready, so custom resources are not known"},
        {"peer-discovery-sync", "mvproxyctl peers", "a peer has not answered yet: cp-b"},
        {"peer-discovery-sync", "proxy-client-cert-file", "leases not listed yet: answered 401"},
        {"requestheader", "proxy-client-cert-file", "it answers 401 to proxy-client-cert-file"},
        {"local-discovery-sync", "/apis", ""},
        {"lease-informer-sync", "contrib/rbac", ""},
        {"peer-discovery-sync", "mvproxyctl peers", ""},
        {"requestheader", "requestheader-*", ""},
        {"tls-certificates", "mvproxyctl certs", ""},
        {"client-listener", "ss -ltnp", ""},
        {"shutdown", "told to stop", ""},
        {"else", "the log of mvproxy", ""},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *look = readiness_checks_look(rows[i].check, rows[i].why);

        ok(strstr(look, rows[i].words) != NULL, "%s: %s", rows[i].check, look);
    }
}

static void tell(struct app *a, const char *want, unsigned times, const char *name)
{
    notified = 0;
    readiness_checks_tell(a);
    is_str(status, want, "%s", name);
    is_str(a->status, want, "%s: remembered", name);
    is_u64(notified, times, "%s: told", name);
}

/* The first letter of what is logged meanwhile: its level. */
static char level_of_tell(struct app *a)
{
    char *text = NULL, level;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL)
        tap_bail("memory");
    log_set_verbosity(2);
    log_set_stream(f);
    readiness_checks_tell(a);
    log_flush();
    log_set_stream(stderr);
    log_set_verbosity(0);
    (void)fclose(f);
    level = text[0];
    free(text);
    return level;
}

/* Of the changes, the latest first. */
static void happened(const struct app *a, size_t n, const char *want, const char *name)
{
    const struct change *c = changes_at(a->changes, false, 0);

    is_str(c == NULL ? NULL : c->text, want, "%s: for people", name);
    ok(n == 0 || changes_at(a->changes, false, n - 1) != NULL, "%s: so many", name);
    ok(changes_at(a->changes, false, n) == NULL, "%s: and no more", name);
}

static void levels(void)
{
    struct app a = {.phase = APP_SERVING, .changes = changes_new(), .hostname = (char[]){"cp-a"}};

    faults[0] = "not asked yet";
    is_int(level_of_tell(&a), 'I', "not ready yet at the very start");
    happened(&a, 0, NULL, "the start");
    faults[0] = "it does not answer";
    is_int(level_of_tell(&a), 'W', "not ready a moment later");
    happened(&a, 1, "this mvproxy is not ready: it does not answer", "not ready");
    faults[0] = "it still does not";
    is_int(level_of_tell(&a), 'I', "said once");
    happened(&a, 1, "this mvproxy is not ready: it does not answer", "still not");
    faults[0] = NULL;
    is_int(level_of_tell(&a), 'I', "ready");
    happened(&a, 2, "this mvproxy is ready again", "ready");
    peers++;
    is_int(level_of_tell(&a), 'I', "ready, and something else is new");
    happened(&a, 2, "this mvproxy is ready again", "still ready");
    faults[0] = "gone";
    is_int(level_of_tell(&a), 'W', "no longer ready");
    happened(&a, 3, "this mvproxy is not ready: gone", "once more");
    faults[0] = NULL;
    changes_free(a.changes);
}

static void manager(struct app *a)
{
    peers = 2;
    tell(a, "Serving, 2 peers known", 1, "well");
    tell(a, "Serving, 2 peers known", 0, "the same is not said again");
    peers = 3;
    tell(a, "Serving, 3 peers known", 1, "another peer");
    faults[2] = "no Leases";
    tell(a, "Not ready: no Leases", 1, "not ready");
    (void)snprintf(a->reload_refused, sizeof(a->reload_refused), "no such option");
    tell(a, "Not ready: no Leases; last reload refused: no such option", 1, "and a reload was refused");
    faults[2] = NULL;
    tell(a, "Serving, 3 peers known; last reload refused: no such option", 1, "ready");
}

int main(void)
{
    struct app a = {.phase = APP_SERVING};

    log_set_verbosity(0);
    checks(&a);
    looks();
    manager(&a);
    levels();
    return tap_end();
}
