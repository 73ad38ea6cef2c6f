#include "daemon/status.h"

#include "admin/health.h"
#include "admin/skew.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "daemon/app_state.h"
#include "daemon/expiry.h"
#include "daemon/observe.h"
#include "daemon/options.h"

#include <string.h>
#include <unistd.h>

/* ---- the whole ---- */

struct failing {
    struct json_write list;
    bool any;
};

static void put_failing(const char *check, const char *why, void *arg)
{
    struct failing *f = arg;
    struct json_write one = json_nested(&f->list, NULL, '{');

    json_text(&one, "check", check);
    json_text(&one, "reason", why);
    json_close(&one);
    f->any = true;
}

static void put_readiness(struct app *a, struct json_write *w)
{
    struct failing f = {json_nested(w, "notReady", '['), false};

    health_each_failing(a->health, HEALTH_READYZ, put_failing, &f);
    json_close(&f.list);
    json_bool(w, "ready", !f.any);
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

static void put_listeners(const struct app *a, struct json_write *w)
{
    struct json_write list = json_nested(w, "listeners", '[');
    char text[DERIVE_HOST_BYTES];

    for (size_t i = 0; i < a->addresses.n; i++) {
        derive_text(a->addresses.at[i].host,
                    a->addresses.at[i].port != 0 ? a->addresses.at[i].port : front_port(a->front), text);
        json_text(&list, NULL, text);
    }
    json_close(&list);
}

static void put_config_state(const struct app *a, struct json_write *w)
{
    struct json_write c = json_nested(w, "config", '{');

    json_text(&c, "file", a->args.config_file);
    json_text(&c, "lastReloadRefused", a->reload_refused[0] == '\0' ? NULL : a->reload_refused);
    json_text(&c, "lastFilesRefused", a->files_refused[0] == '\0' ? NULL : a->files_refused);
    json_close(&c);
}

void status_write(struct app *a, struct buf *out)
{
    struct json_write w = json_open(out, '{');

    put_readiness(a, &w);
    json_text(&w, "phase", phase_of(a));
    json_text(&w, "hostname", a->hostname);
    json_text(&w, "version", a->args.version);
    json_u64(&w, "pid", (uint64_t)getpid());
    json_seconds(&w, "upSeconds", loop_now_ms(a->loop) - a->started_ms);
    put_listeners(a, &w);
    json_u64(&w, "connections", front_connections(a->front));
    json_u64(&w, "requestsInFlight", front_exchanges(a->front));
    json_u64(&w, "tunnels", proxy_tunnels(a->proxy));
    put_config_state(a, &w);
    json_raw(&w, "cluster");
    cluster_describe(a->cluster, out);
    json_raw(&w, "certificates");
    status_write_certificates(a, out);
    json_close(&w);
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
    json_close(&one);
}

void status_write_certificates(struct app *a, struct buf *out)
{
    struct json_write list = json_open(out, '[');

    expiry_each(a->expiry, put_certificate, &list);
    json_close(&list);
}

/* ---- skew ---- */

struct skew_list {
    struct json_write rows;
    size_t all, uneven;
    bool want_all;
};

static void put_row(const struct skew_row *row, void *arg)
{
    static const char *const states[] = {[SKEW_UNKNOWN] = "unknown", [SKEW_ABSENT] = "no", [SKEW_SERVED] = "yes"};
    struct skew_list *s = arg;
    struct json_write one, by;

    s->all++;
    s->uneven += row->uneven;
    if (!row->uneven && !s->want_all)
        return;
    one = json_nested(&s->rows, NULL, '{');
    json_slice(&one, "group", row->gvr.group);
    json_slice(&one, "version", row->gvr.version);
    json_slice(&one, "resource", row->gvr.resource);
    by = json_nested(&one, "servedBy", '[');
    for (size_t i = 0; i < row->n; i++)
        json_text(&by, NULL, states[row->by[i]]);
    json_close(&by);
    json_close(&one);
}

bool status_write_skew(struct app *a, bool all, struct buf *out)
{
    const struct served *s = cluster_served(a->cluster);
    struct json_write w = json_open(out, '{'), servers = json_nested(&w, "servers", '[');
    struct skew_list list = {.want_all = all};
    bool ok;

    json_text(&servers, NULL, served_local_host(s));
    for (size_t i = 0; i < served_n_peers(s); i++)
        json_text(&servers, NULL, served_peer_at(s, i)->host);
    json_close(&servers);
    list.rows = json_nested(&w, "resources", '[');
    ok = skew_walk(s, put_row, &list);
    json_close(&list.rows);
    json_u64(&w, "compared", list.all);
    json_u64(&w, "uneven", list.uneven);
    json_close(&w);
    return ok;
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
