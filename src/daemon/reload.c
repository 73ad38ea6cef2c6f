/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reload.h"

#include "base/changes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/utf8.h"
#include "daemon/app_state.h"
#include "daemon/config_load.h"
#include "daemon/config_warn.h"
#include "daemon/expiry.h"
#include "daemon/in_force.h"
#include "daemon/logging.h"
#include "daemon/options.h"
#include "daemon/preflight.h"
#include "daemon/readiness_checks.h"
#include "daemon/remarks.h"
#include "daemon/reread.h"
#include "daemon/rotation.h"
#include "daemon/serving_pair.h"
#include "daemon/trust_reading.h"
#include "daemon/try_local.h"
#include "daemon/wire.h"
#include "net/file_watch.h"

#define SHUTTING_DOWN "the process is shutting down\n"

enum { RELOAD_ERRORS_CEILING = 64 << 10 };

/* Everything new, not yet in force. */
struct plan {
    struct config *config;
    struct trust trust;
    struct wire_surroundings around;
    struct file_watch *watch;
};

/* Of one reload. Those who wait for it look now and then, and the next may be over by then. */
struct reload_result {
    unsigned refs;
    bool over, ok;
    struct buf errors;
};

struct reload {
    struct app *app;
    struct plan plan;
    struct buf warnings;           /* of its files */
    struct loop_timer *due;        /* SIGHUP */
    struct loop_timer *second;     /* what is done in a turn of its own */
    uint64_t ended_ms;             /* the last one */
    struct trust_reading *reading; /* NULL: none is under way */
    struct local_trial *trial;     /* likewise */
    struct trust_trial *peers;     /* likewise */
    struct reload_result *result;  /* of the one under way, or the last; NULL: there was none */
    struct reload_result *next;    /* asked for while one was under way; NULL: it was not */
};

static struct reload_result *result_new(void)
{
    struct reload_result *one = mem_zalloc(sizeof(*one));

    if (one == NULL)
        return NULL;
    one->refs = 1;
    buf_init(&one->errors, RELOAD_ERRORS_CEILING);
    return one;
}

static struct reload_result *result_ref(struct reload_result *one)
{
    one->refs++;
    return one;
}

void reload_result_unref(struct reload_result *one)
{
    if (one == NULL || --one->refs > 0)
        return;
    buf_free(&one->errors);
    mem_free(one);
}

static void discard(struct plan *p)
{
    wire_networks_free(p->around.networks);
    if (p->around.local != NULL)
        origin_unref(p->around.local);
    wire_etcd_free(&p->around);
    trust_free(&p->trust);
    file_watch_free(p->watch);
    config_free(p->config);
    *p = (struct plan){0};
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

/* In several turns: the configuration, the certificates, and all that is made of them. */
static void on_read(void *arg);

static bool prepare(struct reload *r, struct buf *errors)
{
    struct app *a = r->app;
    struct plan *p = &r->plan;

    p->config = config_load(a->args.config_file, a->args.flags, a->args.n_flags, errors);
    if (p->config == NULL || !refuse_restart_options(a, p, errors))
        return false;
    p->watch = rotation_watch(a, p->config, reread_files); /* before the files are read */
    r->reading = p->watch == NULL ? NULL : trust_reading_begin(a->loop, p->config, on_read, r);
    if (r->reading == NULL)
        buf_append_str(errors, "out of memory\n");
    return r->reading != NULL;
}

static bool make(struct app *a, struct plan *p, struct buf *errors)
{
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
    in_force_keep_local(a, &p->around);
    return true;
}

static bool commit(struct app *a, struct plan *p, struct buf *errors)
{
    struct origin *old_local = a->around.local;
    struct user_headers old_headers = a->around.headers;

    claims_set(&a->claims, &old_headers, &p->around.headers);
    if (!in_force_put(a, p->config, &p->trust, &p->around, errors)) {
        claims_set(&a->claims, &old_headers, NULL);
        return false;
    }
    wire_etcd_free(&a->around); /* the cluster has its own references */
    a->around = p->around;
    origin_unref(old_local);
    logging_apply(p->config);
    in_force_trust(a, &p->trust);
    claims_set(&a->claims, &a->around.headers, &old_headers);
    config_free(a->config_before);
    a->config_before = a->config;
    a->config = p->config;
    reread_forget(a);
    rotation_replace(a, p->watch);
    return true;
}

/* That it is over, which READY=1 says, too; not before connections are accepted, or the process before us would end. */
static void tell_manager(struct app *a)
{
    readiness_checks_tell(a);
    if (!a->ready_later)
        notify_ready(a->notify, a->status);
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
        (void)snprintf(a->reload_refused, sizeof(a->reload_refused), "%.*s", (int)line.n, line.p);
    utf8_make_printable(a->reload_refused);
    changes_add(a->changes, CHANGE_FAILED, a->hostname, "a reload was refused: %s", a->reload_refused);
    tell_manager(a);
}

/* What the servers will be found to believe is known before they are asked, as a rule. */
static void warn_of_servers(const struct app *a, struct buf *out)
{
    char why[256];

    if (!cluster_front_expected(a->cluster, why, sizeof(why)))
        buf_printf(out, "warning: %s, as the API servers said last: compare it with kube-apiserver's flag\n", why);
}

static void finish(struct reload *r, bool ok)
{
    struct app *a = r->app;

    metric_set(a->reload_ok, ok ? 1 : 0);
    if (ok) {
        metric_set(a->config_hash, (double)options_hash(a->config));
        metric_set(a->reload_time, (double)clock_wall_us() / 1e6);
        log_info("Reloaded");
        config_warn_log(a->config);
        wire_say_limits(a->config);
        buf_reset(&r->result->errors);
        config_warn(a->config, &r->result->errors);
        buf_append(&r->result->errors, buf_slice(&r->warnings));
        warn_of_servers(a, &r->result->errors);
        serving_pair_warn(a->config, &r->result->errors);
        changes_add(a->changes, CHANGE_CHANGED, a->hostname, "the configuration was reloaded");
        trust_say_suites(a->config);
        a->reload_refused[0] = '\0';
        tell_manager(a);
        r->plan = (struct plan){0}; /* it is in force */
    } else {
        discard(&r->plan);
        say_failure(a, &r->result->errors);
    }
    r->ended_ms = clock_ms(); /* its end: the turn began before */
    r->result->ok = ok;
    r->result->over = true;
    if (r->next != NULL)
        reload_request(a);
}

static bool is_under_way(const struct reload *r)
{
    return r->result != NULL && !r->result->over;
}

/* Whether it has, the reload being over then: nothing is put in force any more. */
static bool has_to_stop(struct reload *r)
{
    if (r->app->phase == APP_SERVING)
        return false;
    discard(&r->plan);
    buf_append_str(&r->result->errors, SHUTTING_DOWN);
    r->result->over = true;
    return true;
}

/* The running configuration was refused for its files alone. */
static void note_cause(const struct reload *r)
{
    struct app *a = r->app;

    a->refused_for_files = options_hash(r->plan.config) == options_hash(a->config);
}

static void on_peers_tried(void *arg, enum trust_verdict v, const char *server, const char *why)
{
    struct reload *r = arg;
    struct remarks remarks = {r->plan.config, &r->result->errors, true};

    r->peers = NULL;
    if (has_to_stop(r))
        return;
    if (v == TRUST_UNFIT) {
        remarks_wrong(&remarks, "peer-ca-file", REREAD_UNFIT_PEERS, r->plan.config->peer_ca_file, server, why);
        note_cause(r);
    }
    finish(r, v != TRUST_UNFIT && commit(r->app, &r->plan, &r->result->errors));
}

static void ask_peers(struct reload *r)
{
    r->peers = reread_ask_peers(r->app, &r->plan.trust, on_peers_tried, r);
    if (r->peers == NULL)
        finish(r, commit(r->app, &r->plan, &r->result->errors));
}

static void on_tried(void *arg, const char *option, const struct err *err)
{
    struct reload *r = arg;
    struct remarks remarks = {r->plan.config, &r->result->errors, true};
    struct remarks warnings = {r->plan.config, &r->warnings, true};

    r->trial = NULL;
    if (has_to_stop(r))
        return;
    if (option == NULL) {
        if (err->text[0] != '\0')
            remarks_warn(&warnings, "apiserver", "%s", err->text);
        ask_peers(r);
        return;
    }
    remarks_wrong(&remarks, option, "%s", err->text);
    note_cause(r);
    finish(r, false);
}

/* A server that is reached in another way than before is asked first: one that cannot be believed would take the node
 * out of service. One that does not answer may be away: that is a warning. */
static void look_deeper(void *arg)
{
    struct reload *r = arg;
    struct app *a = r->app;

    if (has_to_stop(r))
        return;
    if (!preflight_wrong(r->plan.config, &r->result->errors, &r->warnings)) {
        note_cause(r);
        finish(r, false);
        return;
    }
    if (trust_stray(r->plan.config, &r->plan.trust, &a->trust, &r->result->errors)) {
        note_cause(r);
        finish(r, false);
        return;
    }
    if (r->plan.around.local != a->around.local)
        r->trial = local_trial_begin(a->back, a->loop, r->plan.config, r->plan.around.local, on_tried, r);
    if (r->trial == NULL)
        ask_peers(r);
}

static void on_read(void *arg)
{
    struct reload *r = arg;

    if (!has_to_stop(r)) {
        if (make(r->app, &r->plan, &r->result->errors))
            loop_timer_set(r->second, 0); /* in a turn of its own, for each takes some milliseconds */
        else
            finish(r, false);
    }
    trust_reading_free(r->reading);
    r->reading = NULL;
}

static void begin(struct reload *r)
{
    struct app *a = r->app;

    a->refused_for_files = false;
    buf_reset(&r->warnings);
    if (!a->ready_later)
        notify_reloading(a->notify);
    log_info("Reloading", LT("config", a->args.config_file == NULL ? "none" : a->args.config_file));
    if (!prepare(r, &r->result->errors))
        finish(r, false);
}

struct reload_result *reload_begin(struct app *a)
{
    struct reload *r = a->reload;
    struct reload_result *awaited;

    if (r->next == NULL)
        r->next = result_new();
    if (r->next == NULL)
        return NULL;
    awaited = result_ref(r->next);
    if (is_under_way(r)) /* it may have read the file before the last change */
        return awaited;
    reload_result_unref(r->result);
    r->result = r->next;
    r->next = NULL;
    if (!has_to_stop(r))
        begin(r);
    return awaited;
}

bool reload_is_over(const struct app *a, const struct reload_result *awaited, bool *ok, struct slice *lines)
{
    if (a->phase == APP_SERVING && !awaited->over)
        return false;
    *ok = awaited->over && awaited->ok;
    *lines = awaited->over ? buf_slice(&awaited->errors) : SLICE_LIT(SHUTTING_DOWN);
    return true;
}

static void reload_due(void *arg)
{
    const struct reload *r = arg;
    struct reload_result *nobodys = reload_begin(r->app);

    if (nobodys == NULL)
        log_error("Reload refused, the running configuration stays", LT("err", "out of memory"));
    reload_result_unref(nobodys);
}

void reload_request(struct app *a)
{
    struct reload *r = a->reload;
    uint64_t next = r->ended_ms + TIMEOUT_RELOAD_DISTANCE_MS, now = loop_now_ms(a->loop);

    if (!loop_timer_pending(r->due))
        loop_timer_set(r->due, next <= now ? 0 : next - now);
}

struct reload *reload_new(struct app *a)
{
    struct reload *r = must_zalloc(sizeof(*r));

    r->app = a;
    buf_init(&r->warnings, RELOAD_ERRORS_CEILING);
    r->due = loop_timer_new(a->loop, reload_due, r);
    r->second = loop_timer_new(a->loop, look_deeper, r);
    if (r->due != NULL && r->second != NULL)
        return r;
    reload_free(r);
    return NULL;
}

void reload_free(struct reload *r)
{
    if (r == NULL)
        return;
    trust_reading_free(r->reading);
    local_trial_end(r->trial);
    trust_trial_free(r->peers);
    if (r->due != NULL)
        loop_timer_free(r->due);
    if (r->second != NULL)
        loop_timer_free(r->second);
    discard(&r->plan);
    buf_free(&r->warnings);
    reload_result_unref(r->result);
    reload_result_unref(r->next);
    mem_free(r);
}
