/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of this process: collected from everybody who knows something, each of whom is played here. */
#include "daemon/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "admin/health.h"
#include "base/changes.h"
#include "base/clock.h"
#include "daemon/app_state.h"
#include "daemon/config_load.h"
#include "daemon/expiry.h"
#include "daemon/options.h"
#include "daemon/readiness_checks.h"
#include "lib/tap.h"
#include "proxy/traffic.h"

enum { ROOM = 1 << 20, NOW_S = 1795305600 /* 2026-11-22T00:00:00Z */ };

static struct served *served;
static unsigned n_certificates;
static bool no_memory;

/* ---- in place of front, proxy, cluster and the certificates ---- */

unsigned front_port(const struct front *f)
{
    (void)f;
    return 4711;
}

size_t front_connections(const struct front *f)
{
    (void)f;
    return 1;
}

size_t front_exchanges(const struct front *f)
{
    (void)f;
    return 2;
}

size_t front_max_connections(const struct front *f)
{
    (void)f;
    return 9;
}

bool front_is_crowded(const struct front *f)
{
    (void)f;
    return true;
}

bool front_is_full(const struct front *f)
{
    (void)f;
    return true;
}

const char *front_accept_failure(const struct front *f)
{
    (void)f;
    return "no room";
}

size_t front_memory(const struct front *f)
{
    (void)f;
    return 81 << 20;
}

size_t front_memory_ended(const struct front *f)
{
    (void)f;
    return 3;
}

size_t front_memory_limit(const struct front *f)
{
    (void)f;
    return 100 << 20;
}

size_t proxy_tunnels(const struct proxy *p)
{
    (void)p;
    return 3;
}

const struct traffic *proxy_traffic(const struct proxy *p)
{
    static const struct traffic none;

    (void)p;
    return &none;
}

struct served *cluster_served(struct cluster *c)
{
    (void)c;
    return served;
}

void cluster_local_describe(struct cluster *c, char *text, size_t n)
{
    (void)c;
    (void)snprintf(text, n, "on");
}

const char *cluster_front_more(const struct cluster *c)
{
    (void)c;
    return NULL;
}

void cluster_etcd_state(struct cluster *c, char *text, size_t n)
{
    (void)c;
    (void)snprintf(text, n, "followed");
}

void cluster_describe(struct cluster *c, struct buf *out)
{
    (void)c;
    buf_append_str(out, "{\"x\":1}");
}

uint64_t cluster_skewed_ms(const struct cluster *c)
{
    (void)c;
    return UINT64_MAX;
}

uint64_t cluster_uneven_ms(const struct cluster *c)
{
    (void)c;
    return UINT64_MAX;
}

bool cluster_view_take(struct cluster *c, struct cluster_view *out)
{
    (void)c;
    *out = (struct cluster_view){
        .own_id = "apiserver-a", .identity = "observing", .skewed_ms = UINT64_MAX, .uneven_ms = UINT64_MAX};
    return !no_memory;
}

void cluster_view_free(struct cluster_view *v)
{
    (void)v;
}

void expiry_each(const struct expiry *e, void (*fn)(const struct expiry_entry *entry, void *arg), void *arg)
{
    const struct expiry_entry one = {
        .option = "tls-cert-file", .path = "/a.crt", .not_after = NOW_S + 60, .soon = true};

    (void)e;
    for (unsigned i = 0; i < n_certificates; i++)
        fn(&one, arg);
}

const char *readiness_checks_look(const char *check, const char *why)
{
    (void)why;
    return check[0] == 'b' ? "look b" : "look";
}

/* ---- the process ---- */

static bool fails(void *arg, struct err *why)
{
    return err_set(why, "broken %s", (const char *)arg);
}

static struct config *configured(void)
{
    char path[] = "/tmp/status_test.XXXXXX";
    const struct slice value = SLICE_LIT("5");
    const struct config_place nowhere = {.file = NULL};
    const struct config_setting v = {.key = SLICE_LIT("v"), .values = &value, .places = &nowhere, .n_values = 1};
    int fd = mkstemp(path);
    struct buf errors;
    struct config *c;

    if (fd < 0 ||
        dprintf(fd, "tls-cert-file: c\ntls-private-key-file: k\napiserver-ca-file: a\nbind-address: 10.0.0.9\n") < 0)
        tap_bail("cannot write");
    (void)close(fd);
    buf_init(&errors, ROOM);
    c = config_load(path, &v, 1, &errors);
    if (c == NULL)
        tap_bail("%.*s", (int)buf_len(&errors), buf_slice(&errors).p);
    (void)unlink(path);
    buf_free(&errors);
    return c;
}

static void collect(struct app *a, struct status *s)
{
    if (!status_collect(a, s))
        tap_bail("out of memory");
}

static void collected(struct app *a)
{
    static const char *const phases[] = {"serving", "shutting-down", "draining", "stopped"};
    struct status s;

    if (!ok(status_collect(a, &s), "collected"))
        return;
    ok(s.ready && s.n_failing == 0, "ready");
    is_u64(s.up_ms, 90000, "up for");
    is_int(s.started_us / 1000000, NOW_S - 90, "since");
    ok(s.connections == 1 && s.requests == 2 && s.tunnels == 3, "traffic");
    ok(s.max_connections == 9 && s.crowded, "and its limit");
    is_u64(s.memory_ended, 3, "and what ended for memory");
    is_str(s.accept_failure, "no room", "of the machine, too");
    is_u64(s.n_listeners, 2, "listeners");
    is_str(s.listeners[0], "10.0.0.1:6443", "with its port");
    is_str(s.listeners[1], "[::1]:4711", "with the one that it was given");
    is_u64(s.reload_refused_ms, 99000, "how long the reload has been refused");
    is_u64(s.files_refused_ms, 98000, "and the files");
    is_str(s.failover, "on", "failover");
    is_str(s.etcd, "followed", "records");
    is_u64(s.n_certificates, 1, "certificates");
    ok(s.certificates[0].remaining_s == 60 && s.certificates[0].not_after_s == NOW_S + 60, "how long it is good");
    status_end(&s);
    for (unsigned i = 0; i < ROWS(phases); i++) {
        a->phase = (enum app_phase)i;
        collect(a, &s);
        is_str(s.phase, phases[i], "phase");
        status_end(&s);
    }
    a->phase = APP_SERVING;
    n_certificates = STATUS_CERTS + 1;
    collect(a, &s);
    is_u64(s.n_certificates, STATUS_CERTS, "no more than there is room for");
    status_end(&s);
    n_certificates = 1;
    no_memory = true;
    ok(!status_collect(a, &s), "out of memory");
    no_memory = false;
}

static void unready(struct app *a)
{
    static char names[STATUS_CHECKS + 1][8];
    struct status s;

    for (unsigned i = 0; i < ROWS(names); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%c%u", i == 1 ? 'b' : 'a', i);
        health_add(a->health, HEALTH_READYZ, names[i], fails, names[i]);
    }
    collect(a, &s);
    ok(!s.ready, "not ready");
    is_u64(s.n_failing, STATUS_CHECKS, "no more than there is room for");
    is_str(s.failing[1].name, "b1", "which");
    is_str(s.failing[1].why, "broken b1", "why");
    is_str(s.failing[1].look, "look b", "where to look");
    status_end(&s);
}

static bool has(struct buf *out, const char *text)
{
    bool found;

    buf_append_char(out, '\0');
    found = strstr(out->p, text) != NULL;
    if (!found)
        diag("%s", out->p);
    return found;
}

static void written(struct app *a)
{
    struct buf out;

    buf_init(&out, ROOM);
    ok(status_write(a, &out) && has(&out, "\"internals\":{\"x\":1}}"), "with what is inside");
    buf_reset(&out);
    no_memory = true;
    ok(!status_write(a, &out), "or not at all");
    no_memory = false;
    buf_reset(&out);
    n_certificates = 2;
    status_write_certificates(a, &out);
    is_slice(
        buf_slice(&out),
        "[{\"option\":\"tls-cert-file\",\"file\":\"/a.crt\",\"notAfter\":\"2026-11-22T00:01:00.000000Z\","
        "\"remainingSeconds\":60,\"endsSoon\":true},{\"option\":\"tls-cert-file\",\"file\":\"/a.crt\",\"notAfter\":"
        "\"2026-11-22T00:01:00.000000Z\",\"remainingSeconds\":60,\"endsSoon\":true}]",
        "certificates");
    buf_reset(&out);
    status_write_config(a, &out);
    ok(has(&out, "[{\"name\":\"bind-address\",\"value\":\"[\\\"10.0.0.9\\\"]\",\"default\":") &&
           has(&out, ":4\"},{\"name\":"),
       "from the file, and its line");
    ok(has(&out, "{\"name\":\"v\",\"value\":\"5\",\"default\":\"2\",\"origin\":\"command line\"}"),
       "from the command line");
    ok(has(&out, "{\"name\":\"secure-port\",\"value\":\"6443\",\"default\":\"6443\",\"origin\":\"default\"}"),
       "by default");
    buf_free(&out);
}

static void gated(struct app *a, const char *const *gates, const struct config_origin *origin)
{
    a->config->feature_gates = gates;
    a->config->origins[options_index(options_find(SLICE_LIT("feature-gates")))] = *origin;
}

static void not_used(struct app *a)
{
    static const char *const off[] = {"UnknownVersionInteroperabilityProxy=false", NULL};
    const char *const *gates = a->config->feature_gates;
    struct tls_ctx *some = (struct tls_ctx *)a; /* never looked into */
    char why[256];

    status_peers_off(a, why, sizeof(why));
    is_str(why, "peer-ca-file is not configured", "no CA");
    a->config->peer_ca_file = "/ca.crt";
    status_peers_off(a, why, sizeof(why));
    is_str(why, "proxy-client-cert-file is not configured", "no pair");
    a->trust.peer_cert = some;
    status_peers_off(a, why, sizeof(why));
    is_str(why, "", "peers are used");
    gated(a, off, &(struct config_origin){.given = true, .place = {"/m.yaml", 7, 1}});
    status_peers_off(a, why, sizeof(why));
    is_str(why, "the feature gate UnknownVersionInteroperabilityProxy is off (feature-gates, /m.yaml:7)", "the gate");
    gated(a, off, &(struct config_origin){.given = true});
    status_peers_off(a, why, sizeof(why));
    is_str(why, "the feature gate UnknownVersionInteroperabilityProxy is off (feature-gates, command line)", "by hand");
    gated(a, gates, &(struct config_origin){.given = false});
    a->trust.peer_cert = NULL;
}

int main(void)
{
    const struct served_input in = {.local_id = "apiserver-a", .local_host = "cp-a", .local_etag = {SLICE_LIT("")}};
    struct app a = {.phase = APP_SERVING,
                    .hostname = (char[]){"cp-a"},
                    .args = {.version = "1.2.3"},
                    .started_ms = 10000,
                    .reload_refused_ms = 1000,
                    .files_refused_ms = 2000,
                    .addresses = {.at = {{.host = "10.0.0.1", .port = 6443}, {.host = "::1", .port = 0}}, .n = 2}};

    clock_fake(100000000, (int64_t)NOW_S * 1000000);
    a.metrics = metrics_new();
    a.loop = loop_new(a.metrics);
    served = served_new(&in);
    a.config = configured();
    a.health = health_new();
    a.changes = changes_new();
    n_certificates = 1;
    collected(&a);
    unready(&a);
    written(&a);
    not_used(&a);
    changes_free(a.changes);
    health_free(a.health);
    config_free(a.config);
    served_unref(served);
    loop_free(a.loop);
    metrics_free(a.metrics);
    return tap_end();
}
