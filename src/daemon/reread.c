/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reread.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "cluster/cluster_view.h"
#include "daemon/app_state.h"
#include "daemon/derive.h"
#include "daemon/expiry.h"
#include "daemon/in_force.h"
#include "daemon/preflight.h"
#include "daemon/readiness_checks.h"
#include "daemon/remarks.h"
#include "daemon/rotation.h"
#include "daemon/trust_reading.h"

enum {
    REREAD_ERRORS_CEILING = 64 << 10,
    SERVER_BYTES = 256,
    WHY_BYTES = 192,
    ASK_LOOKS = 5, /* so many seconds between questions whether a CA of clients is known to the servers by now */
};

enum group_kind { GROUP_LOCAL, GROUP_PEERS, GROUPS };

/* Who is reached by one CA file. */
struct group {
    struct reread *reread;
    struct trust_trial *trial; /* NULL: nobody is being asked */
    bool held;                 /* the file has changed, and the one before counts */
    char server[SERVER_BYTES], why[WHY_BYTES];
};

struct reread {
    struct app *app;
    struct trust_reading *reading; /* NULL: none is under way */
    bool pending;                  /* servers are being asked: */
    struct trust fresh;            /* what was read */
    struct group groups[GROUPS];
    bool front_held;    /* requestheader-client-ca-file has changed, and the one before counts */
    char *clients_held; /* the text of a client-ca-file that is held back; NULL: it is not */
    unsigned looks;
};

/* ---- who is asked ---- */

static void ask_place(void *arg, const struct cluster_place *p)
{
    trust_trial_ask(arg, p->server, p->host, p->port);
}

static struct trust_trial *trial_new(const struct app *a, const struct trust *fresh, enum group_kind k,
                                     void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why),
                                     void *arg)
{
    bool local = k == GROUP_LOCAL;
    struct trust_trial_opts o = {.loop = a->loop, .done = done, .arg = arg};
    struct cluster_opts cluster;

    o.fresh = local ? fresh->local_no_cert : fresh->peer_no_cert;
    o.old = local ? a->trust.local_no_cert : a->trust.peer_no_cert;
    if (o.fresh == NULL || o.old == NULL || o.fresh == o.old)
        return NULL;
    if (!local) {
        wire_cluster(a->config, fresh, &a->around, a->hostname, &cluster);
        o.way = (struct dial_opts){
            .allow = cluster.peer_allowed, .allow_arg = a->around.networks, .egress = cluster.peer_egress};
    }
    return trust_trial_new(&o);
}

static struct trust_trial *begin(struct trust_trial *t)
{
    if (t == NULL || trust_trial_asks(t))
        return t;
    trust_trial_free(t);
    return NULL;
}

static struct trust_trial *ask_local(const struct app *a, const struct trust *fresh, struct group *g,
                                     void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why))
{
    struct trust_trial *t = trial_new(a, fresh, GROUP_LOCAL, done, g);
    struct derive_address at;
    struct err err = {.text = ""};

    if (t != NULL && derive_url(a->config->apiserver, &at, &err))
        trust_trial_ask(t, a->config->apiserver, at.host, at.port);
    return begin(t);
}

struct trust_trial *reread_ask_peers(const struct app *a, const struct trust *fresh,
                                     void (*done)(void *arg, enum trust_verdict v, const char *server, const char *why),
                                     void *arg)
{
    struct trust_trial *t = trial_new(a, fresh, GROUP_PEERS, done, arg);

    if (t != NULL)
        cluster_each_place(a->cluster, ask_place, t);
    return begin(t);
}

/* ---- what comes of it ---- */

static void stop_asking(struct reread *r)
{
    for (size_t i = 0; i < GROUPS; i++) {
        trust_trial_free(r->groups[i].trial);
        r->groups[i].trial = NULL;
    }
    if (r->pending)
        trust_free(&r->fresh);
    r->pending = false;
    trust_reading_free(r->reading);
    r->reading = NULL;
}

static void say_clients(const struct reread *r, struct buf *errors)
{
    const struct config *c = r->app->config;
    struct remarks say = {c, errors, true};

    if (r->front_held)
        remarks_wrong(&say, "requestheader-client-ca-file", REREAD_DISOWNS_FRONT, c->requestheader_client_ca_file);
    if (r->clients_held != NULL)
        remarks_wrong(&say, "client-ca-file", REREAD_FOREIGN_CLIENTS, c->client_ca_file);
}

static void hold_back(struct reread *r, struct buf *errors)
{
    const struct config *c = r->app->config;
    const struct trust *old = &r->app->trust;
    const struct group *local = &r->groups[GROUP_LOCAL], *peers = &r->groups[GROUP_PEERS];
    struct remarks say = {c, errors, true};

    say_clients(r, errors);

    if (local->held) {
        trust_hold_local(c, &r->fresh, old);
        remarks_wrong(&say, "apiserver-ca-file", REREAD_UNFIT_LOCAL, c->apiserver_ca_file, local->server, local->why);
    }
    if (peers->held) {
        trust_hold_peers(c, &r->fresh, old);
        remarks_wrong(&say, "peer-ca-file", REREAD_UNFIT_PEERS, c->peer_ca_file, peers->server, peers->why);
    }
}

/* What was refused for its files alone is in force once those are. */
static void files_are_good(struct app *a)
{
    struct buf ignored;
    bool good;

    if (!a->refused_for_files)
        return;
    buf_init(&ignored, REREAD_ERRORS_CEILING);
    good = preflight_wrong(a->config, &ignored, NULL);
    buf_free(&ignored);
    if (!good)
        return;
    a->refused_for_files = false;
    a->reload_refused[0] = '\0';
    metric_set(a->reload_ok, 1);
    log_info("The files for which a reload was refused are good, and in use");
    readiness_checks_tell(a);
}

/* Takes *t over if it is true. `changed`: as trust_keep_same(). */
static bool put(struct app *a, struct trust *t, unsigned changed, struct buf *errors)
{
    struct wire_surroundings around = a->around;
    bool made;

    around.local = wire_local_origin(a->back, a->config, t, a->hostname);
    made = wire_etcd(a->back, a->config, t, &around) && around.local != NULL;
    if (!made)
        buf_append_str(errors, "out of memory\n");
    else
        in_force_keep_local(a, &around);
    if (!made || !in_force_put(a, a->config, t, &around, errors)) {
        if (around.local != NULL)
            origin_unref(around.local);
        wire_etcd_free(&around);
        return false;
    }
    wire_etcd_free(&a->around);
    origin_unref(a->around.local);
    a->around = around;
    in_force_trust(a, t);
    rotation_changed(a, changed);
    return true;
}

static bool is_held(const struct reread *r)
{
    return r->groups[GROUP_LOCAL].held || r->groups[GROUP_PEERS].held || r->front_held || r->clients_held != NULL;
}

static void take(struct reread *r)
{
    struct app *a = r->app;
    struct buf errors;
    unsigned changed;
    bool ok = true;

    buf_init(&errors, REREAD_ERRORS_CEILING);
    hold_back(r, &errors);
    r->pending = false;
    changed = trust_keep_same(&r->fresh, &a->trust);
    if (changed != 0)
        ok = put(a, &r->fresh, changed, &errors);
    else
        trust_free(&r->fresh);
    if (!ok)
        trust_free(&r->fresh);
    ok = ok && !is_held(r);
    if (ok)
        files_are_good(a);
    rotation_done(a, ok, &errors);
    buf_free(&errors);
}

static bool is_asking(const struct reread *r)
{
    return r->groups[GROUP_LOCAL].trial != NULL || r->groups[GROUP_PEERS].trial != NULL;
}

static void on_verdict(void *arg, enum trust_verdict v, const char *server, const char *why)
{
    struct group *g = arg;
    struct reread *r = g->reread;

    g->trial = NULL;
    g->held = v == TRUST_UNFIT || (v == TRUST_UNKNOWN && g->held);
    if (v == TRUST_UNFIT) {
        (void)snprintf(g->server, sizeof(g->server), "%s", server);
        (void)snprintf(g->why, sizeof(g->why), "%s", why);
    }
    if (is_asking(r))
        return;
    if (r->app->phase == APP_SERVING)
        take(r);
}

static void forget_clients(struct reread *r)
{
    mem_free(r->clients_held);
    r->clients_held = NULL;
}

/* Only the servers know it, and what they say is a minute old at most. While that is not known it is as it was. */
static bool is_foreign(const struct reread *r)
{
    const struct app *a = r->app;
    enum request_header_verdict v = cluster_front_clients(a->cluster, slice_str(r->fresh.client_ca));

    if (strcmp(r->fresh.client_ca, a->trust.client_ca) == 0)
        return false;
    if (v == REQUEST_HEADER_UNKNOWN)
        return r->clients_held != NULL;
    return v == REQUEST_HEADER_DIFFERS &&
           cluster_front_clients(a->cluster, slice_str(a->trust.client_ca)) == REQUEST_HEADER_AGREES;
}

/* The bundles by which clients are believed; before what depends on them. False with an error: *fresh is freed. */
static bool hold_clients(struct reread *r, struct buf *errors)
{
    const struct app *a = r->app;
    bool foreign = is_foreign(r);
    char *text = foreign ? mem_strdup(r->fresh.client_ca) : NULL;
    unsigned which;

    forget_clients(r);
    r->clients_held = text;
    r->front_held = trust_disowns_front(a->config, &r->fresh, &a->trust);
    which = (foreign ? TRUST_CLIENT_CA : 0) | (r->front_held ? TRUST_FRONT_CA : 0);
    if (foreign && text == NULL)
        buf_append_str(errors, "out of memory\n");
    else if (which == 0 || trust_hold_clients(a->config, &r->fresh, &a->trust, which, errors))
        return true;
    trust_free(&r->fresh);
    return false;
}

static void judge(struct reread *r, struct buf *errors)
{
    struct app *a = r->app;
    bool changed;

    if (expiry_would_end(a->expiry, a->config, errors) || !trust_load(a->config, &r->fresh, errors) ||
        !hold_clients(r, errors)) {
        trust_name_options(a->config, errors);
        rotation_done(a, false, errors);
    } else if (trust_stray(a->config, &r->fresh, &a->trust, errors)) {
        say_clients(r, errors);
        trust_free(&r->fresh);
        rotation_done(a, false, errors);
    } else {
        r->pending = true;
        changed = trust_keep_same(&r->fresh, &a->trust);
        r->groups[GROUP_LOCAL].trial = changed ? ask_local(a, &r->fresh, &r->groups[GROUP_LOCAL], on_verdict) : NULL;
        r->groups[GROUP_PEERS].trial =
            changed ? reread_ask_peers(a, &r->fresh, on_verdict, &r->groups[GROUP_PEERS]) : NULL;
        for (size_t i = 0; i < GROUPS; i++)
            r->groups[i].held = r->groups[i].held && r->groups[i].trial != NULL;
        if (!is_asking(r))
            take(r);
    }
}

static void on_read(void *arg)
{
    struct reread *r = arg;
    struct buf errors;

    buf_init(&errors, REREAD_ERRORS_CEILING);
    if (r->app->phase == APP_SERVING)
        judge(r, &errors);
    buf_free(&errors);
    trust_reading_free(r->reading); /* the contexts have what was read */
    r->reading = NULL;
}

void reread_files(struct app *a)
{
    struct reread *r = a->reread;
    struct buf errors;

    stop_asking(r);
    r->reading = trust_reading_begin(a->loop, a->config, on_read, r);
    if (r->reading != NULL)
        return;
    buf_init(&errors, REREAD_ERRORS_CEILING);
    buf_append_str(&errors, "out of memory\n");
    rotation_done(a, false, &errors);
    buf_free(&errors);
}

static void note_unreachable(void *arg, const struct cluster_place *p)
{
    bool *any = arg;

    *any = *any || p->unreachable;
}

/* They are asked more often than otherwise: whoever comes meanwhile gets 401. */
static bool is_known_by_now(struct reread *r)
{
    if (r->clients_held == NULL)
        return false;
    if (++r->looks % ASK_LOOKS == 0)
        cluster_front_ask(r->app->cluster);
    if (cluster_front_clients(r->app->cluster, slice_str(r->clients_held)) != REQUEST_HEADER_AGREES)
        return false;
    forget_clients(r); /* once: there may be something else wrong with the files */
    return true;
}

void reread_look(struct app *a)
{
    struct reread *r = a->reread;
    bool lost = r->groups[GROUP_LOCAL].held && origin_unreachable(a->around.local);

    if (r->groups[GROUP_PEERS].held)
        cluster_each_place(a->cluster, note_unreachable, &lost);
    lost = is_known_by_now(r) || lost;
    if (lost && !is_asking(r) && r->reading == NULL)
        reread_files(a);
}

/* ---- life ---- */

struct reread *reread_new(struct app *a)
{
    struct reread *r = mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    r->app = a;
    for (size_t i = 0; i < GROUPS; i++)
        r->groups[i].reread = r;
    return r;
}

void reread_free(struct reread *r)
{
    if (r == NULL)
        return;
    stop_asking(r);
    forget_clients(r);
    mem_free(r);
}

void reread_forget(struct app *a)
{
    struct reread *r = a->reread;

    stop_asking(r);
    r->groups[GROUP_LOCAL].held = r->groups[GROUP_PEERS].held = r->front_held = false;
    forget_clients(r);
}
