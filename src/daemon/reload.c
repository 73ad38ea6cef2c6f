/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reload.h"

#include "admin/admin.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "daemon/app_state.h"
#include "daemon/config_load.h"
#include "daemon/logging.h"
#include "daemon/options.h"
#include "daemon/readiness_checks.h"
#include "daemon/rotation.h"
#include "net/file_watch.h"
#include "proxy/proxy_config.h"

enum { RELOAD_ERRORS_CEILING = 64 << 10 };

/* Everything new, not yet in force. */
struct plan {
    struct config *config;
    struct trust trust;
    struct wire_surroundings around;
    struct file_watch *watch;
};

static void discard(struct plan *p)
{
    wire_networks_free(p->around.networks);
    if (p->around.local != NULL)
        origin_unref(p->around.local);
    wire_etcd_free(&p->around);
    trust_free(&p->trust);
    file_watch_free(p->watch);
    config_free(p->config);
}

static bool refuse_restart_options(const struct app *a, const struct plan *p, struct buf *errors)
{
    struct buf names;
    bool none;

    buf_init(&names, 4096);
    options_restart_needed(a->config, p->config, &names);
    none = buf_len(&names) == 0;
    if (!none)
        buf_printf(errors, "cannot be changed without a restart: %.*s: restart mvproxy, or take it back\n",
                   (int)buf_len(&names), buf_slice(&names).p);
    buf_free(&names);
    return none;
}

/* The same server, reached in the same way: its connections, and whoever watches it, go on undisturbed. */
static void keep_local(const struct app *a, struct wire_surroundings *s)
{
    if (!origin_same(s->local, a->around.local))
        return;
    origin_unref(s->local);
    s->local = origin_ref(a->around.local);
}

static bool prepare(struct app *a, struct plan *p, struct buf *errors)
{
    p->config = config_load(a->args.config_file, a->args.flags, a->args.n_flags, errors);
    if (p->config == NULL || !refuse_restart_options(a, p, errors))
        return false;
    p->watch = rotation_watch(a, p->config, reload_trust); /* before the files are read */
    if (p->watch == NULL) {
        buf_append_str(errors, "out of memory\n");
        return false;
    }
    if (!trust_load(p->config, &p->trust, errors)) {
        trust_name_options(p->config, errors);
        a->refused_for_files = options_hash(p->config) == options_hash(a->config);
        return false;
    }
    (void)trust_keep_same(&p->trust, &a->trust);
    if (!wire_surroundings_make(a->back, p->config, &p->trust, a->hostname, &p->around)) {
        buf_append_str(errors, "out of memory\n");
        return false;
    }
    keep_local(a, &p->around);
    return true;
}

/*
 * Tells everybody. What may fail comes first: then all is as it was. What a->config, a->trust and a->around hold is the
 * caller's to replace.
 */
static bool put_in_force(struct app *a, const struct config *c, const struct trust *t, struct wire_surroundings *s,
                         struct buf *errors)
{
    struct proxy_opts proxy;
    struct proxy_config *config;
    struct cluster_opts cluster;
    struct front_opts front;
    bool renetworked = s->networks != a->around.networks && !wire_networks_same(a->around.networks, s->networks);

    wire_proxy(c, t, s->local, &proxy);
    wire_cluster(c, t, s, a->hostname, &cluster);
    cluster.peer_allowed_arg = a->around.networks;
    cluster.peer_rule_changed = renetworked;
    cluster.changes = a->changes;
    config = proxy_config_new(&proxy);
    if (config == NULL || !cluster_update(a->cluster, &cluster)) {
        proxy_config_unref(config);
        buf_append_str(errors, "out of memory, or apiserver-user cannot be put into headers\n");
        return false;
    }
    proxy_update(a->proxy, config);
    if (s->networks != a->around.networks) {
        wire_networks_replace(a->around.networks, s->networks);
        s->networks = a->around.networks;
    }
    wire_front(c, t, &front);
    front.arg = a->proxy;
    front_update(a->front, &front);
    if (a->admin != NULL)
        admin_update(a->admin, t->admin);
    return true;
}

static void replace_trust(struct app *a, const struct trust *t)
{
    struct trust old = a->trust;

    a->trust = *t;
    trust_say_missing(&a->trust, &old);
    trust_free(&old);
}

static bool commit(struct app *a, struct plan *p, struct buf *errors)
{
    struct origin *old_local = a->around.local;
    struct user_headers old_headers = a->around.headers;

    claims_set(&a->claims, &old_headers, &p->around.headers);
    if (!put_in_force(a, p->config, &p->trust, &p->around, errors)) {
        claims_set(&a->claims, &old_headers, NULL);
        return false;
    }
    wire_etcd_free(&a->around); /* the cluster has its own references */
    a->around = p->around;
    origin_unref(old_local);
    logging_apply(p->config);
    replace_trust(a, &p->trust);
    claims_set(&a->claims, &a->around.headers, &old_headers);
    config_free(a->config_before);
    a->config_before = a->config;
    a->config = p->config;
    rotation_replace(a, p->watch);
    return true;
}

static void say_failure(struct app *a, struct buf *errors)
{
    struct slice rest = buf_slice(errors), line;

    while (slice_split(&rest, '\n', &line))
        if (line.n > 0)
            log_error("Reload refused, the running configuration stays", LS("err", line));
    if (a->reload_refused[0] == '\0')
        a->reload_refused_ms = loop_now_ms(a->loop);
    rest = buf_slice(errors);
    if (slice_split(&rest, '\n', &line))
        (void)snprintf(a->reload_refused, sizeof(a->reload_refused), "%.*s", (int)(line.n < 200 ? line.n : 200),
                       line.p);
    changes_add(a->changes, CHANGE_FAILED, a->hostname, "a reload was refused: %s", a->reload_refused);
    readiness_checks_tell(a);
    notify_ready(a->notify, a->status);
}

bool reload_saying(struct app *a, struct buf *errors)
{
    struct plan plan = {0};
    bool ok;

    if (a->phase != APP_SERVING) {
        buf_append_str(errors, "the process is shutting down\n");
        return false;
    }
    a->refused_for_files = false;
    notify_reloading(a->notify);
    log_info("Reloading", LT("config", a->args.config_file == NULL ? "none" : a->args.config_file));
    ok = prepare(a, &plan, errors) && commit(a, &plan, errors);
    metric_set(a->reload_ok, ok ? 1 : 0);
    if (ok) {
        metric_set(a->config_hash, (double)options_hash(a->config));
        metric_set(a->reload_time, (double)clock_wall_us() / 1e6);
        log_info("Reloaded");
        changes_add(a->changes, CHANGE_CHANGED, a->hostname, "the configuration was reloaded");
        trust_say_suites(a->config);
        a->reload_refused[0] = '\0';
        readiness_checks_tell(a);
        notify_ready(a->notify, a->status);
    } else {
        discard(&plan);
        say_failure(a, errors);
    }
    a->reloaded_ms = clock_ms(); /* its end: the turn began before */
    return ok;
}

static void reload_due(void *arg)
{
    struct app *a = arg;
    struct buf errors;

    buf_init(&errors, RELOAD_ERRORS_CEILING);
    (void)reload_saying(a, &errors);
    buf_free(&errors);
}

void reload_request(struct app *a)
{
    uint64_t next = a->reloaded_ms + TIMEOUT_RELOAD_DISTANCE_MS, now = loop_now_ms(a->loop);

    if (a->reload_timer == NULL)
        a->reload_timer = loop_timer_new(a->loop, reload_due, a);
    if (a->reload_timer == NULL)
        log_error("Out of memory for a reload");
    else if (!loop_timer_pending(a->reload_timer))
        loop_timer_set(a->reload_timer, a->reloaded_ms == 0 || next <= now ? 0 : next - now);
}

/* What was refused for its files alone is in force once those are. */
static void files_are_good(struct app *a)
{
    if (a->reload_refused[0] == '\0' || !a->refused_for_files)
        return;
    a->refused_for_files = false;
    a->reload_refused[0] = '\0';
    metric_set(a->reload_ok, 1);
    log_info("The files for which a reload was refused are good, and in use");
    readiness_checks_tell(a);
}

bool reload_trust(struct app *a, struct buf *errors)
{
    struct wire_surroundings around = a->around;
    struct trust t;
    bool made;

    if (!trust_load(a->config, &t, errors)) {
        trust_name_options(a->config, errors);
        return false;
    }
    if (!trust_keep_same(&t, &a->trust)) {
        trust_free(&t);
        files_are_good(a);
        return true;
    }
    around.local = wire_local_origin(a->back, a->config, &t, a->hostname);
    made = wire_etcd(a->back, a->config, &t, &around) && around.local != NULL;
    if (!made)
        buf_append_str(errors, "out of memory\n");
    else
        keep_local(a, &around);
    if (!made || !put_in_force(a, a->config, &t, &around, errors)) {
        if (around.local != NULL)
            origin_unref(around.local);
        wire_etcd_free(&around);
        trust_free(&t);
        return false;
    }
    wire_etcd_free(&a->around);
    origin_unref(a->around.local);
    a->around = around;
    replace_trust(a, &t);
    rotation_changed(a);
    files_are_good(a);
    return true;
}
