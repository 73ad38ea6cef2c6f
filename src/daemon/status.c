/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/status.h"

#include "admin/health.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "daemon/app_state.h"
#include "daemon/doubts.h"
#include "daemon/expiry.h"
#include "daemon/options.h"
#include "daemon/readiness_checks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GATE_OFF "the feature gate UnknownVersionInteroperabilityProxy is off (feature-gates, "

/* ---- the whole ---- */

static void take_failing(const char *check, const char *why, void *arg)
{
    struct status *s = arg;
    struct status_check *c = &s->failing[s->n_failing];

    s->ready = false;
    if (s->n_failing == STATUS_CHECKS)
        return;
    c->name = check;
    c->look = readiness_checks_look(check, why);
    (void)snprintf(c->why, sizeof(c->why), "%s", why);
    s->n_failing++;
}

static const char *phase_of(const struct app *a)
{
    static const char *const names[] = {
        [APP_SERVING] = "serving",
        [APP_DELAYING] = "shutting-down",
        [APP_DRAINING] = "draining",
        [APP_STOPPED] = "stopped",
    };

    return names[a->phase];
}

static void take_listeners(const struct app *a, struct status *s)
{
    if (a->address_waits[0] != '\0')
        return;
    for (; s->n_listeners < a->addresses.n && s->n_listeners < STATUS_LISTENERS; s->n_listeners++) {
        const struct listen_address *at = &a->addresses.at[s->n_listeners];

        derive_text(at->host, at->port != 0 ? at->port : front_port(a->front), s->listeners[s->n_listeners]);
    }
}

static void take_certificate(const struct expiry_entry *e, void *arg)
{
    struct status *s = arg;

    if (s->n_certificates < STATUS_CERTS)
        s->certificates[s->n_certificates++] = (struct status_certificate){
            .option = e->option,
            .file = e->path,
            .not_after_s = e->not_after,
            .remaining_s = e->not_after - s->now_us / 1000000,
            .soon = e->soon,
        };
}

static void take_doubts(const struct app *a, struct status *s)
{
    const struct doubts_facts f = {a->config, &a->addresses, a->inherited, a->around.advertise, a->admin_waits};

    doubts_collect(&f, s);
}

static void take_process(struct app *a, struct status *s)
{
    s->up_ms = loop_now_ms(a->loop) - a->started_ms;
    s->started_us = s->now_us - (int64_t)s->up_ms * 1000;
    take_listeners(a, s);
    s->connections = front_connections(a->front);
    s->requests = front_exchanges(a->front);
    s->tunnels = proxy_tunnels(a->proxy);
    s->max_connections = front_max_connections(a->front);
    s->crowded = front_is_crowded(a->front);
    s->full = front_is_full(a->front);
    s->accept_failure = front_accept_failure(a->front);
    s->client_memory = front_memory(a->front);
    s->client_memory_limit = front_memory_limit(a->front);
    s->memory_ended = front_memory_ended(a->front);
    expiry_each(a->expiry, take_certificate, s);
}

void status_peers_off(const struct app *a, char *text, size_t n)
{
    const struct config *c = a->config;
    const struct config_origin *gates = &c->origins[options_index(options_find(SLICE_LIT("feature-gates")))];
    struct derive_gates set = {false};
    struct err err = {.text = ""};

    (void)derive_gates(c->feature_gates, &set, &err);
    text[0] = '\0';
    if (!set.unknown_version_interoperability_proxy && gates->place.file != NULL)
        (void)snprintf(text, n, GATE_OFF "%s:%zu)", gates->place.file, gates->place.line);
    else if (!set.unknown_version_interoperability_proxy)
        (void)snprintf(text, n, GATE_OFF "command line)");
    else if (!trust_has_peers(&a->trust))
        (void)snprintf(text, n, "%s is not configured",
                       c->peer_ca_file[0] == '\0' ? "peer-ca-file" : "proxy-client-cert-file");
}

bool status_collect(struct app *a, struct status *out)
{
    *out = (struct status){
        .ready = true,
        .phase = phase_of(a),
        .version = a->args.version,
        .hostname = a->hostname,
        .pid = (unsigned long)getpid(),
        .now_us = clock_wall_us(),
        .now_ms = clock_ms(),
        .config_file = a->args.config_file,
        .reload_refused = a->reload_refused,
        .files_refused = a->files_refused,
        .reload_refused_ms = loop_now_ms(a->loop) - a->reload_refused_ms,
        .files_refused_ms = loop_now_ms(a->loop) - a->files_refused_ms,
        .headers_more = cluster_front_more(a->cluster),
        .skewed_resources = a->config->skewed_resources,
        .advertised = a->around.advertise,
        .changes = a->changes,
        .traffic = proxy_traffic(a->proxy),
        .served = served_ref(cluster_served(a->cluster)),
    };
    buf_init(&out->internals, LIMIT_CONTROL_ANSWER);
    health_each_failing(a->health, HEALTH_READYZ, take_failing, out);
    take_process(a, out);
    take_doubts(a, out);
    cluster_local_describe(a->cluster, out->failover, sizeof(out->failover));
    cluster_etcd_state(a->cluster, out->etcd, sizeof(out->etcd));
    status_peers_off(a, out->peers_off, sizeof(out->peers_off));
    if (cluster_view_take(a->cluster, &out->cluster))
        return true;
    status_end(out);
    return false;
}

bool status_write(struct app *a, struct buf *out)
{
    struct status s;

    if (!status_collect(a, &s))
        return false;
    cluster_describe(a->cluster, &s.internals);
    status_json(&s, out);
    status_end(&s);
    return true;
}

/* ---- certificates ---- */

static void put_certificate(const struct expiry_entry *e, void *arg)
{
    struct json_write *list = arg, one = json_nested(list, NULL, '{');
    char when[CLOCK_RFC3339_BYTES];

    clock_rfc3339(e->not_after * 1000000, when);
    json_text(&one, "option", e->option);
    json_text(&one, "file", e->path);
    json_text(&one, "notAfter", when);
    json_i64(&one, "remainingSeconds", e->not_after - clock_wall_us() / 1000000);
    json_bool(&one, "endsSoon", e->soon);
    json_close(&one);
}

void status_write_certificates(struct app *a, struct buf *out)
{
    struct json_write list = json_open(out, '[');

    expiry_each(a->expiry, put_certificate, &list);
    json_close(&list);
}

/* ---- configuration ---- */

static void put_origin(struct json_write *w, const struct config_place *at)
{
    char text[DERIVE_HOST_BYTES + 64];

    if (at == NULL) {
        json_text(w, "origin", "default");
        return;
    }
    if (at->file == NULL) {
        json_text(w, "origin", "command line");
        return;
    }
    (void)snprintf(text, sizeof(text), "%s:%zu", at->file, at->line);
    json_text(w, "origin", text);
}

void status_write_config(struct app *a, struct buf *out)
{
    struct json_write list = json_open(out, '[');
    struct buf value;
    size_t n;
    const struct option *t = options_table(&n);

    buf_init(&value, 1 << 20);
    for (size_t i = 0; i < n; i++) {
        struct json_write one = json_nested(&list, NULL, '{');

        buf_reset(&value);
        (void)options_append_value(&value, a->config, &t[i]);
        json_text(&one, "name", t[i].name);
        json_slice(&one, "value", buf_slice(&value));
        json_text(&one, "default", t[i].initial);
        put_origin(&one, a->config->origins[i].given ? &a->config->origins[i].place : NULL);
        json_close(&one);
    }
    buf_free(&value);
    json_close(&list);
}
