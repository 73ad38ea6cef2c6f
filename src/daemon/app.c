/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/app.h"

#include "admin/process_metrics.h"
#include "back/shares.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/address_wait.h"
#include "daemon/app_state.h"
#include "daemon/config_warn.h"
#include "daemon/drain.h"
#include "daemon/expiry.h"
#include "daemon/logging.h"
#include "daemon/observe.h"
#include "daemon/operate.h"
#include "daemon/options.h"
#include "daemon/preflight.h"
#include "daemon/readiness_checks.h"
#include "daemon/reload.h"
#include "daemon/reread.h"
#include "daemon/rlimits.h"
#include "daemon/rotation.h"
#include "daemon/wire.h"
#include "net/file_watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    APP_HEARTBEAT_MS = 1000,
    APP_HELD_BEATS = ADDRESS_WAIT_BEATS,
    APP_HELD_BEATS_BESIDE = 60, /* while the process before us serves */
};

/* ---- readiness and status ---- */

/*
 * Whoever comes by an inherited socket can be served by the process before us, or waits in the kernel's queue: better
 * than a 503 while we do not know yet what is served. But not for ever: without a local server we are never ready. The
 * process before us, as long as it is there (it has the admin listener), knows more than we do: a local server that is
 * being upgraded is waited for longer, and the service manager hears so long that we are not ready.
 */
static void accept_when_ready(struct app *a)
{
    char reason[192];

    if (a->held_beats == 0 || a->phase != APP_SERVING)
        return;
    if ((readiness_checks_pass(a, reason, sizeof(reason)) && (a->inherited || address_wait_is_over(a))) ||
        (!a->inherited && address_wait_has_peers(a)))
        a->held_beats = 1;
    else if (!a->admin_waits && a->held_beats > APP_HELD_BEATS)
        a->held_beats = APP_HELD_BEATS;
    if (--a->held_beats > 0)
        return;
    log_info(a->inherited ? "Accepting connections from the inherited socket" : "Accepting connections");
    front_release(a->front);
    if (a->ready_later)
        notify_ready(a->notify, a->inherited ? "Took over" : "Starting");
    a->ready_later = false;
}

static void on_heartbeat(void *arg)
{
    struct app *a = arg;
    uint64_t watchdog_ms = notify_watchdog_interval_ms(a->notify);

    notify_again(a->notify);
    accept_when_ready(a);
    observe_retry(a);
    if (a->phase == APP_SERVING) {
        readiness_checks_tell(a);
        reread_look(a);
        operate_keep(a);
    }
    expiry_check(a->expiry);
    if (watchdog_ms > 0)
        notify_watchdog(a->notify);
    loop_timer_set(a->heartbeat, watchdog_ms > 0 && watchdog_ms < APP_HEARTBEAT_MS ? watchdog_ms : APP_HEARTBEAT_MS);
}

/* ---- signals ---- */

static void on_hangup(void *arg)
{
    reload_request(arg);
}

static void on_terminate(void *arg)
{
    drain_begin(arg);
}

void app_hold_signals(void)
{
    sigset_t hangup;

    (void)sigemptyset(&hangup);
    (void)sigaddset(&hangup, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &hangup, NULL);
}

static void mask_signals(int how)
{
    sigset_t ours;

    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGHUP);
    (void)sigaddset(&ours, SIGTERM);
    (void)sigaddset(&ours, SIGINT);
    (void)sigprocmask(how, &ours, NULL);
}

static bool catch_signals(struct app *a)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, NULL);
    if (!loop_on_signal(a->loop, SIGHUP, on_hangup, a) || !loop_on_signal(a->loop, SIGTERM, on_terminate, a) ||
        !loop_on_signal(a->loop, SIGINT, on_terminate, a))
        return false;
    /* Whoever started us may have held them back as well. */
    mask_signals(SIG_UNBLOCK);
    return true;
}

/* ---- construction ---- */

static char *find_hostname(const struct config *c)
{
    char name[256] = "";

    if (c->hostname_override[0] != '\0')
        return must_strdup(c->hostname_override);
    if (gethostname(name, sizeof(name) - 1) != 0)
        name[0] = '\0';
    return must_strdup(name);
}

static void declare_metrics(struct app *a)
{
    a->metrics = metrics_new();
    a->process = process_metrics_new(a->metrics, a->args.version);
    a->reload_ok = metric_single(a->metrics, METRIC_GAUGE, "mvproxy_config_last_reload_successful",
                                 "1 if the last reload of the configuration succeeded.");
    a->reload_time = metric_single(a->metrics, METRIC_GAUGE, "mvproxy_config_last_reload_success_timestamp_seconds",
                                   "When the configuration in force was loaded.");
    a->config_hash = metric_single(a->metrics, METRIC_GAUGE, "mvproxy_config_hash",
                                   "A number for the configuration in force: another one for other values.");
    a->files_ok = metric_single(a->metrics, METRIC_GAUGE, "mvproxy_certificate_files_good",
                                "0 while files of certificates or keys have changed and cannot be used.");
    a->files_changes = metric_single(a->metrics, METRIC_COUNTER, "mvproxy_certificate_files_changes_total",
                                     "How often changed files of certificates or keys were taken into use.");
    a->expiry = expiry_new(a->metrics);
    metric_set(a->reload_ok, 1);
    metric_set(a->config_hash, (double)options_hash(a->config));
    metric_set(a->reload_time, (double)clock_wall_us() / 1e6);
}

static bool build_middle(struct app *a)
{
    struct cluster_opts cluster;
    struct proxy_opts proxy;

    if (!wire_surroundings_make(a->back, a->config, &a->trust, a->hostname, &a->around))
        return false;
    claims_set(&a->claims, &a->around.headers, NULL);
    back_set_claims(a->back, claims_of, &a->claims);
    wire_cluster(a->config, &a->trust, &a->around, a->hostname, &cluster);
    cluster.changes = a->changes;
    a->cluster = cluster_new(a->loop, a->back, a->metrics, &cluster);
    wire_proxy(a->config, &a->trust, a->around.local, &proxy);
    a->proxy = proxy_new(a->loop, a->back, a->cluster, a->metrics, &proxy);
    return true;
}

/* A configuration cannot know which sockets it will be given. */
static bool refuse_self_loop(const struct app *a, const struct addresses *ours, struct buf *errors)
{
    struct derive_address local;
    struct err err = {.text = ""};

    if (!derive_url(a->config->apiserver, &local, &err) || addresses_reached_by(ours, &local) == NULL)
        return true;
    buf_printf(errors, "apiserver: %s is this proxy itself: let kube-apiserver listen on another address or port\n",
               a->config->apiserver);
    return false;
}

static bool build_front(struct app *a, struct buf *errors)
{
    int inherited[LISTENERS_MAX] = {-1};
    struct front_opts o;
    struct err err = {.text = ""};

    wire_front(a->config, &a->trust, &o);
    o.arg = a->proxy;
    o.listen.inherited = inherited;
    o.listen.n_inherited = notify_inherited(inherited, LISTENERS_MAX);
    a->inherited = o.listen.n_inherited > 0;
    o.hold = true;
    a->held_beats = a->inherited ? APP_HELD_BEATS_BESIDE : 0;
    if (a->inherited)
        addresses_inherited(inherited, o.listen.n_inherited, &a->addresses);
    else if (!addresses_configured(a->config, &a->addresses, &err))
        buf_printf(errors, "bind-address: %s\n", err.text);
    if (err_is_set(&err) || !refuse_self_loop(a, &a->addresses, errors))
        return false;
    o.listen_later = !a->inherited;
    a->front = front_new(a->loop, a->metrics, &o, &err);
    if (a->front == NULL || (o.listen_later && !address_wait_begin(a, &err))) {
        buf_printf(errors, "%s\n", err.text);
        return false;
    }
    if (!a->inherited && a->address_waits[0] == '\0')
        front_release(a->front);
    return true;
}

/* A line for each, so that what is listened on can be searched for. Who waits for its address says so when it has it.
 */
static void say_listeners(const struct app *a)
{
    if (a->address_waits[0] == '\0')
        address_wait_say(a);
    if (a->admin != NULL)
        log_info("Listening", LT("address", a->config->admin_bind_address), LT("for", "admin"));
    if (a->control != NULL)
        log_info("Listening", LT("path", a->config->control_socket), LT("for", "mvproxyctl"));
}

static bool build(struct app *a, struct buf *errors)
{
    a->loop = loop_new(a->metrics);
    a->watch = rotation_watch(a, a->config, reread_files); /* before the files are read */
    if (a->watch == NULL)
        buf_append_str(errors, "out of memory\n");
    if (a->watch == NULL)
        return false;
    if (!trust_load(a->config, &a->trust, errors)) {
        trust_name_options(a->config, errors);
        return false;
    }
    a->back = back_new(a->loop, a->metrics);
    back_set_connections(a->back, rlimits_descriptors() / 2); /* as many are left for clients */
    a->reload = reload_new(a);
    a->reread = reread_new(a);
    if (a->reload == NULL || a->reread == NULL || !build_middle(a) || !catch_signals(a)) {
        buf_append_str(errors, "out of memory\n");
        return false;
    }
    if (!build_front(a, errors) || !observe_build(a, errors))
        return false;
    rotation_replace(a, a->watch);
    a->started_ms = loop_now_ms(a->loop);
    operate_open(a);
    a->heartbeat = loop_timer_new(a->loop, on_heartbeat, a);
    if (a->heartbeat == NULL) {
        buf_append_str(errors, "out of memory\n");
        return false;
    }
    return true;
}

struct app *app_new(struct config *c, const struct app_args *args, struct buf *errors)
{
    struct app *a = must_zalloc(sizeof(*a));

    a->args = *args;
    a->config = c;
    a->hostname = find_hostname(c);
    a->notify = notify_new();
    a->changes = changes_new();
    declare_metrics(a);
    changes_count(a->changes, a->metrics);
    logging_apply(c);
    if (preflight_control_socket(c, errors) && build(a, errors))
        return a;
    app_free(a);
    return NULL;
}

int app_run(struct app *a)
{
    log_info("Started", LT("version", a->args.version),
             LT("config", a->args.config_file == NULL ? "none" : a->args.config_file), LT("hostname", a->hostname));
    say_listeners(a);
    trust_say_missing(&a->trust, NULL);
    trust_say_suites(a->config);
    config_warn_log(a->config);
    wire_say_limits(a->config);
    a->ready_later = (a->held_beats > 0 && a->admin_waits) || a->address_waits[0] != '\0';
    if (!a->ready_later)
        notify_ready(a->notify, "Starting");
    loop_timer_set(a->heartbeat, 0);
    log_set_buffered(true); /* the loop flushes once per turn */
    loop_run(a->loop);
    log_set_buffered(false);
    if (a->failed[0] == '\0')
        return 0;
    log_error("Cannot start", LT("err", a->failed));
    return EXIT_FAILURE;
}

/* In reverse order of construction; any part may be missing when construction failed. */
void app_free(struct app *a)
{
    mask_signals(SIG_BLOCK); /* one that still comes must not end the process as if something was wrong */
    loop_timer_free(a->heartbeat);
    loop_timer_free(a->address_retry);
    loop_timer_free(a->drain_step);
    operate_close(a);
    reload_free(a->reload);
    reread_free(a->reread);
    observe_free(a);
    if (a->front != NULL)
        front_free(a->front);
    if (a->proxy != NULL)
        proxy_free(a->proxy);
    cluster_free(a->cluster);
    origin_unref(a->around.local);
    wire_etcd_free(&a->around);
    back_free(a->back);
    wire_networks_free(a->around.networks);
    trust_free(&a->trust);
    file_watch_free(a->watch);
    if (a->loop != NULL)
        loop_free(a->loop);
    expiry_free(a->expiry);
    metrics_free(a->metrics);
    process_metrics_free(a->process);
    changes_free(a->changes);
    notify_free(a->notify);
    config_free(a->config_before);
    config_free(a->config);
    mem_free(a->hostname);
    mem_free(a);
}
