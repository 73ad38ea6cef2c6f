/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/operate.h"

#include "admin/control.h"
#include "admin/metrics_text.h"
#include "admin/server_state.h"
#include "base/json_write.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/cluster_view.h"
#include "daemon/app_state.h"
#include "daemon/readiness_checks.h"
#include "daemon/reload.h"
#include "daemon/skew_view.h"
#include "daemon/status.h"
#include "proxy/explain.h"

#include <stdio.h>
#include <string.h>

enum { REQUESTS_SHOWN = 1000, RELOAD_PAUSE_MS = 20, SKEW_BYTES = LIMIT_CONTROL_ANSWER / 2 };

static bool do_status(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    (void)request;
    return status_write(arg, out) || err_set(err, "out of memory");
}

static bool look_at_server(void *arg, const char *id, struct explain_server *out)
{
    const struct cluster_view *v = arg;

    for (size_t i = 0; i < v->n; i++) {
        const struct cluster_server *s = &v->servers[i];
        char words[SERVER_STATE_BYTES];

        if (strcmp(s->id, id) != 0)
            continue;
        *out = (struct explain_server){.answers = s->answers != PULSE_UNREACHABLE && s->address != NULL,
                                       .refuses = s->refuses,
                                       .hangs = s->hangs,
                                       .error = s->error,
                                       .failing = s->failing || s->ejected,
                                       .error_ms = s->answers == PULSE_UNREACHABLE ? s->answers_ms : s->error_ms};
        (void)server_state(s, words);
        (void)snprintf(out->state, sizeof(out->state), "%s", words);
        return true;
    }
    return false;
}

static bool do_explain(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    struct app *a = arg;
    const char *user = "";
    struct cluster_view view;
    struct err expired = {.text = ""};
    char doubt[EXPLAIN_DOUBT_BYTES], peers_off[STATUS_WHY_BYTES];
    struct explain_query q = {
        .method = "",
        .target = "",
        .look = look_at_server,
        .arg = &view,
    };
    bool ok;

    if (!control_text(request, "method", &q.method, err) || !control_text(request, "path", &q.target, err) ||
        !control_text(request, "user", &user, err) || !control_flag(request, "rerouted", &q.rerouted, err))
        return false;
    q.user = user[0] == '\0' ? NULL : user;
    if (!cluster_view_take(a->cluster, &view))
        return err_set(err, "out of memory");
    if (!q.rerouted && a->config->client_ca_file[0] == '\0')
        q.disbelieved = "client-ca-file is not configured";
    else if (!readiness_checks_front_proxy(a, &expired))
        q.disbelieved = expired.text;
    status_peers_off(a, peers_off, sizeof(peers_off));
    q.no_peers = peers_off[0] == '\0' ? NULL : peers_off;
    if (!cluster_front_trusted(a->cluster, doubt, sizeof(doubt)))
        q.doubted = doubt;
    ok = explain_request(a->proxy, &q, out, err);
    cluster_view_free(&view);
    return ok;
}

static bool do_requests(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    const struct app *a = arg;

    (void)request;
    (void)err;
    explain_under_way(a->proxy, REQUESTS_SHOWN, out);
    return true;
}

/* Which of several is meant has been said: that stays. */
static bool nobody_named(const struct app *a, const char *what, const char *name, struct err *err)
{
    const char *near = cluster_nearest_peer(a->cluster, name);

    if (near == NULL)
        return err_set(err, "no %s \"%.200s\": it is not the host name or server ID of one", what, name);
    return err_set(err, "no %s \"%.200s\": did you mean %s?", what, name, near);
}

static bool do_refresh(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    struct app *a = arg;
    const char *peer = "", *id = NULL;
    struct json_write w;

    if (!control_text(request, "peer", &peer, err))
        return false;
    if (peer[0] == '\0')
        cluster_refresh(a->cluster);
    else
        id = cluster_refresh_server(a->cluster, peer, err);
    if (peer[0] != '\0' && id == NULL)
        return nobody_named(a, "server", peer, err);
    w = json_open(out, '{');
    if (id != NULL)
        json_text(&w, "id", id);
    json_close(&w);
    return true;
}

static bool set_drained(const struct json_object *request, bool drained, struct app *a, struct buf *out,
                        struct err *err)
{
    const char *peer = "";
    struct cluster_drained done;
    struct json_write w;

    if (!control_text(request, "peer", &peer, err))
        return false;
    if (cluster_is_own_name(a->cluster, peer))
        return err_set(err, "\"%.200s\" is this server itself: ask the mvproxies of the others, or stop this one",
                       peer);
    if (!cluster_drain_peer(a->cluster, peer, drained, &done, err))
        return nobody_named(a, "peer", peer, err);
    w = json_open(out, '{');
    json_text(&w, "peer", done.host);
    json_text(&w, "id", done.id);
    json_bool(&w, "drained", drained);
    json_u64(&w, "requestsInFlight", done.in_flight);
    json_close(&w);
    return true;
}

static bool do_drain(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    return set_drained(request, true, arg, out, err);
}

static bool do_undrain(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    return set_drained(request, false, arg, out, err);
}

struct awaited_reload {
    const struct app *app;
    struct reload_result *result;
};

static void end_reload(void *job)
{
    struct awaited_reload *w = job;

    reload_result_unref(w->result);
    mem_free(w);
}

static void *begin_reload(const struct json_object *request, struct err *err, void *arg)
{
    struct app *a = arg;
    struct awaited_reload *w;

    (void)request;
    if (a->phase != APP_SERVING) {
        (void)err_set(err, "the process is shutting down");
        return NULL;
    }
    w = mem_zalloc(sizeof(*w));
    if (w != NULL)
        *w = (struct awaited_reload){a, reload_begin(a)};
    if (w != NULL && w->result != NULL)
        return w;
    mem_free(w);
    (void)err_set(err, "out of memory");
    return NULL;
}

static void put_lines(struct json_write *w, const char *name, struct slice rest)
{
    struct json_write list = json_nested(w, name, '[');
    struct slice line;

    while (slice_split(&rest, '\n', &line))
        if (line.n > 0)
            json_slice(&list, NULL, line);
    json_close(&list);
}

/* All that was wrong, not only its first line as in the status; or what mvproxy -t would warn of. */
static bool more_of_reload(void *job, struct buf *piece)
{
    const struct awaited_reload *w = job;
    struct json_write all;
    struct slice rest;
    bool ok;

    if (!reload_is_over(w->app, w->result, &ok, &rest)) {
        buf_append_char(piece,
                        ' '); /* who waits for it hears that the process is alive: servers are asked for seconds */
        return true;
    }
    all = json_open(piece, '{');
    json_bool(&all, "reloaded", ok);
    put_lines(&all, "errors", ok ? slice_of("", 0) : rest);
    put_lines(&all, "warnings", ok ? rest : slice_of("", 0));
    json_close(&all);
    return false;
}

static bool do_loglevel(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    int64_t before = log_verbosity(), level = before;
    struct json_write w;

    (void)arg;
    if (!control_number(request, "level", &level, err))
        return false;
    if (level < 0 || level > 10)
        return err_set(err, "the level must be between 0 and 10");
    if (level != before) {
        log_set_verbosity((int)level);
        log_info("Verbosity changed by the control socket", LI("verbosity", level));
    }
    w = json_open(out, '{');
    json_i64(&w, "level", log_verbosity());
    json_close(&w);
    return true;
}

static bool do_config(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    (void)request;
    (void)err;
    status_write_config(arg, out);
    return true;
}

static bool do_certs(const struct json_object *request, struct buf *out, struct err *err, void *arg)
{
    (void)request;
    (void)err;
    status_write_certificates(arg, out);
    return true;
}

/* ---- metrics: one string of JSON ---- */

struct metrics_job {
    struct metrics_text *text;
    bool begun;
};

static void end_metrics(void *job)
{
    struct metrics_job *j = job;

    metrics_text_free(j->text);
    mem_free(j);
}

static void *begin_metrics(const struct json_object *request, struct err *err, void *arg)
{
    const struct app *a = arg;
    struct metrics_job *j = mem_zalloc(sizeof(*j));

    (void)request;
    if (j != NULL)
        j->text = metrics_text_new(a->metrics, METRICS_PROMETHEUS);
    if (j != NULL && j->text != NULL)
        return j;
    mem_free(j);
    (void)err_set(err, "out of memory");
    return NULL;
}

static bool more_metrics(void *job, struct buf *piece)
{
    struct metrics_job *j = job;
    struct buf text;
    bool more;

    buf_init(&text, LIMIT_CONTROL_ANSWER);
    more = metrics_text_more(j->text, &text);
    if (!j->begun)
        buf_append_char(piece, '"');
    j->begun = true;
    buf_append_json(piece, buf_slice(&text));
    if (!more)
        buf_append_char(piece, '"');
    piece->failed = piece->failed || text.failed;
    buf_free(&text);
    return more;
}

/* ---- skew ---- */

static void *begin_view(bool upgrade, const struct json_object *request, struct err *err, const struct app *a)
{
    bool all = false;
    struct skew_view *v;

    if (!control_flag(request, "all", &all, err))
        return NULL;
    v = skew_view_new(&(struct skew_view_opts){.served = cluster_served(a->cluster),
                                               .askers = proxy_askers(a->proxy),
                                               .skewed_resources = a->config->skewed_resources,
                                               .skewed_ms = cluster_skewed_ms(a->cluster),
                                               .uneven_ms = cluster_uneven_ms(a->cluster),
                                               .uneven_gv_ms = cluster_uneven_gv_ms,
                                               .cluster = a->cluster,
                                               .most_bytes = SKEW_BYTES,
                                               .upgrade = upgrade,
                                               .all = all});
    if (v == NULL)
        (void)err_set(err, "out of memory");
    return v;
}

static void *begin_skew(const struct json_object *request, struct err *err, void *arg)
{
    return begin_view(false, request, err, arg);
}

static void *begin_upgrade(const struct json_object *request, struct err *err, void *arg)
{
    return begin_view(true, request, err, arg);
}

static const struct control_job skew_job = {begin_skew, skew_view_more, skew_view_free, 0};
static const struct control_job upgrade_job = {begin_upgrade, skew_view_more, skew_view_free, 0};
static const struct control_job reload_job = {begin_reload, more_of_reload, end_reload, RELOAD_PAUSE_MS};
static const struct control_job metrics_job = {begin_metrics, more_metrics, end_metrics, 0};

static const struct control_command commands[] = {
    {"status", do_status, NULL},     {"skew", NULL, &skew_job},
    {"upgrade", NULL, &upgrade_job}, {"explain", do_explain, NULL},
    {"requests", do_requests, NULL}, {"refresh", do_refresh, NULL},
    {"drain", do_drain, NULL},       {"undrain", do_undrain, NULL},
    {"reload", NULL, &reload_job},   {"loglevel", do_loglevel, NULL},
    {"config", do_config, NULL},     {"certs", do_certs, NULL},
    {"metrics", NULL, &metrics_job}, {NULL, NULL, NULL},
};

void operate_open(struct app *a)
{
    struct control_opts o = {.path = a->config->control_socket, .commands = commands, .arg = a, .metrics = a->metrics};
    struct err err;

    if (o.path[0] == '\0')
        return;
    err_clear(&err);
    a->control = control_new(a->loop, &o, &err);
    if (a->control == NULL)
        log_warning("No control socket: mvproxyctl cannot be used", LT("err", err.text));
}

void operate_keep(struct app *a)
{
    if (a->control != NULL)
        control_keep(a->control);
}

void operate_close(struct app *a)
{
    control_free(a->control);
    a->control = NULL;
}
