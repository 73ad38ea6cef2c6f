/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever happened, in whichever order: when all is quiet again, an instance that has been through it knows what one
 * that starts now knows, to the byte. Seeded; the seed is named by what fails.
 */
#include <stdio.h>

#include "back/back.h"
#include "base/clock.h"
#include "base/metric.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define BATCH "batch/v1:jobs,cronjobs"
#define POLICY "policy/v1:poddisruptionbudgets"
#define TROUBLE "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":\"trouble\"}}\n"

enum {
    SEEDS = 60,
    EVENTS = 50,
    PEERS = 2,
    SERVERS = PEERS + 1,
    QUIET_MS = 1000000,
    KNOWN_MS = 20000,
    RENEWAL_US = 11000000
};

/* What a version of a server serves. */
static const char *const apis[] = {
    KIT_BASE,
    KIT_BASE ";" BATCH,
    KIT_BASE ";" BATCH ";" POLICY,
    "apps/v1:deployments;batch/v2:jobs;batch/v1:jobs",
    POLICY ";" KIT_BASE,
};
static const char *const names[][3] = {
    {"apps", "v1", "deployments"}, {"apps", "v1", "replicasets"},
    {"batch", "v1", "jobs"},       {"batch", "v1", "cronjobs"},
    {"batch", "v2", "jobs"},       {"policy", "v1", "poddisruptionbudgets"},
    {"c.example.com", "v1", "cs"}, {"policy", "v1beta1", "podsecuritypolicies"},
};

struct story {
    struct cluster_kit w;
    struct kube_server *servers[SERVERS]; /* the first is the local one */
    bool away[SERVERS], old;              /* old: the local one publishes no Lease */
    uint64_t random;
    unsigned seed;
};

static unsigned any(struct story *s, unsigned below)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(s->random >> 33) % below;
}

static struct kube_server *any_server(struct story *s, unsigned *which)
{
    *which = any(s, SERVERS);
    return s->servers[*which];
}

/* ---- what happens ---- */

static void comes(struct story *s, unsigned i, bool same_holder)
{
    struct kube_server *k = s->servers[i];

    if (i == 0) { /* before 1.26 it publishes nothing */
        s->old = any(s, 2) == 0;
        kube_set_minor(k, s->old ? 24 : 34);
        kube_pause_renewal(k, s->old);
    }
    kube_set_apis(k, apis[any(s, ROWS(apis))]);
    kube_set_form(k, any(s, 4) == 0 ? KUBE_LEGACY : any(s, 2) == 0 ? KUBE_V2BETA1 : KUBE_V2);
    if (same_holder)
        kube_start_again(k, 0);
    else
        kube_start(k, 0);
    s->away[i] = false;
}

static void a_server_goes_or_comes(struct story *s)
{
    unsigned i;
    struct kube_server *k = any_server(s, &i);

    if (s->away[i]) {
        comes(s, i, any(s, 2) == 0);
        return;
    }
    kube_stop(k, any(s, 2) == 0);
    s->away[i] = true;
}

/* What a stream was to say meanwhile it does not say later: the connection is of no use any more. */
static void set_fault(struct kube_server *k, enum sim_fault fault)
{
    bool hung = kube_sim(k)->fault == SIM_HANG;

    kube_sim(k)->fault = fault;
    if (hung && fault != SIM_HANG)
        sim_server_break(kube_sim(k));
}

static void a_server_is_in_trouble(struct story *s)
{
    static const enum sim_fault faults[] = {SIM_FINE, SIM_HANG, SIM_RESET, SIM_CUT};
    unsigned i;
    struct kube_server *k = any_server(s, &i);

    if (s->away[i])
        return;
    set_fault(k, faults[any(s, ROWS(faults))]);
    kube_sim(k)->delay_ms = any(s, 4) == 0 ? any(s, 3000) : any(s, 40);
    if (any(s, 2) == 0)
        sim_server_break(kube_sim(k));
}

static void a_server_serves_something_else(struct story *s)
{
    unsigned i;

    kube_set_apis(any_server(s, &i), apis[any(s, ROWS(apis))]);
}

static void watching_is_troubled(struct story *s)
{
    switch (any(s, 5)) {
    case 0:
        kube_inject(s->w.store, (enum kube_kind)any(s, KUBE_KINDS), TROUBLE);
        break;
    case 1:
        kube_compact(s->w.store);
        break;
    case 2:
        kube_deafen(s->w.store);
        break;
    case 3:
        kube_forbid_watches(s->w.local, 503);
        break;
    default:
        kube_forbid_watches(s->w.local, 0);
        break;
    }
}

static void something_is_declared(struct story *s)
{
    switch (any(s, 5)) {
    case 0:
        kube_put_crd(s->w.store, "cs.c.example.com", "c.example.com", any(s, 2) == 0 ? "v1" : "v1 v2");
        break;
    case 1:
        kube_delete(s->w.store, KUBE_CRD, "cs.c.example.com");
        break;
    case 2:
        kube_put_apiservice(s->w.store, "policy", "v1beta1", any(s, 2) == 0);
        break;
    case 3:
        kube_delete(s->w.store, KUBE_APISERVICE, "v1beta1.policy");
        break;
    default:
        kube_put_apiservice(s->w.store, "batch", "v1", false);
        break;
    }
}

static void somebody_asks(struct story *s)
{
    unsigned i;
    struct kube_server *k = any_server(s, &i);

    switch (any(s, 4)) {
    case 0:
        (void)cluster_local_miss(s->w.cluster, NULL, NULL);
        break;
    case 1:
        cluster_refresh(s->w.cluster);
        break;
    case 2:
        cluster_peer_suspect(s->w.cluster, kube_id(k));
        break;
    default:
        cluster_peer_answered(s->w.cluster, kube_id(k));
        break;
    }
}

static void it_is_reloaded(struct story *s)
{
    s->w.opts.peers_enabled = any(s, 3) != 0;
    s->w.opts.identity = (enum identity_mode)any(s, 4);
    s->w.opts.refresh_interval_ms = any(s, 2) == 0 ? 30000 : 10000;
    cluster_update(s->w.cluster, &s->w.opts);
}

static void memory_fails(struct story *s)
{
    mem_fail_nth(1 + any(s, 200));
}

static void happens(struct story *s)
{
    static void (*const all[])(struct story * s) = {
        a_server_goes_or_comes, a_server_goes_or_comes, a_server_is_in_trouble, a_server_serves_something_else,
        watching_is_troubled,   something_is_declared,  somebody_asks,          it_is_reloaded,
        memory_fails,
    };

    mem_fail_nth(0); /* parts without which the process ends are made in a reload */
    all[any(s, ROWS(all))](s);
    sim_run_ms(s->w.loop, any(s, 3) == 0 ? any(s, 12000) : any(s, 60));
}

static void all_is_well_again(struct story *s)
{
    mem_fail_nth(0);
    kube_forbid_watches(s->w.local, 0);
    for (unsigned i = 0; i < SERVERS; i++) {
        kube_sim(s->servers[i])->delay_ms = 2;
        if (s->away[i])
            comes(s, i, any(s, 2) == 0);
        set_fault(s->servers[i], SIM_FINE);
    }
    s->w.opts.peers_enabled = true;
    s->w.opts.identity = IDENTITY_AUTO;
    cluster_update(s->w.cluster, &s->w.opts);
    sim_run_ms(s->w.loop, QUIET_MS);
}

/* ---- what is known ---- */

static bool same_document(const struct served *a, const struct served *b, enum served_shape shape)
{
    const struct served_document *x = served_merged(a, shape), *y = served_merged(b, shape);

    return x != NULL && y != NULL && slice_eq(x->body, y->body) && slice_eq(x->etag, y->etag);
}

static bool same_peers(const struct served *a, const struct served *b)
{
    bool same = served_n_peers(a) == PEERS && served_n_peers(b) == PEERS;

    for (size_t i = 0; same && i < PEERS; i++) {
        const struct served_peer *x = served_peer_at(a, i), *y = served_peer_at(b, i);

        same = strcmp(x->id, y->id) == 0 && x->life == SERVED_LIVE && y->life == SERVED_LIVE && x->origin != NULL &&
               y->origin != NULL && strcmp(origin_address(x->origin), origin_address(y->origin)) == 0;
    }
    return same;
}

static bool same_routes(const struct served *a, const struct served *b)
{
    bool same = !served_unknown_peer(a) && !served_unknown_peer(b);

    for (size_t n = 0; same && n < ROWS(names); n++) {
        struct gvr g = {slice_str(names[n][0]), slice_str(names[n][1]), slice_str(names[n][2])};

        same = served_local(a, &g, SLICE_NONE, SLICE_NONE) == served_local(b, &g, SLICE_NONE, SLICE_NONE) &&
               served_excluded(a, g.group, g.version) == served_excluded(b, g.group, g.version) &&
               served_undiscovered(a, g.group, g.version) == served_undiscovered(b, g.group, g.version);
        for (size_t i = 0; same && i < PEERS; i++)
            same = served_by_peer(a, i, &g, SLICE_NONE, SLICE_NONE) == served_by_peer(b, i, &g, SLICE_NONE, SLICE_NONE);
    }
    return same;
}

static void is_as_new(struct story *s)
{
    struct cluster_opts opts = s->w.opts;
    struct metrics *m = metrics_new();
    struct cluster *fresh;
    const struct served *a, *b;

    opts.identity = IDENTITY_OFF;
    fresh = cluster_new(s->w.loop, s->w.back, m, &opts);
    sim_run_ms(s->w.loop, KNOWN_MS);
    a = cluster_served(s->w.cluster);
    b = cluster_served(fresh);
    ok(served_synced(a) && served_synced(b), "seed %u: both know", s->seed);
    ok(same_peers(a, b), "seed %u: the same peers", s->seed);
    ok(same_routes(a, b), "seed %u: the same of everybody", s->seed);
    ok(same_document(a, b, SERVED_V2) && same_document(a, b, SERVED_V2BETA1), "seed %u: the same documents", s->seed);
    cluster_free(fresh);
    metrics_free(m);
}

/* Whoever has it to keep, keeps it. */
static void lease_is_kept(struct story *s)
{
    struct arena *a = arena_new(1 << 20);
    struct lease l;

    ok(kube_get_lease(s->w.store, kube_id(s->w.local), a, &l) && l.renew_us > clock_wall_us() - RENEWAL_US,
       "seed %u: our Lease is renewed", s->seed);
    is_double(cluster_kit_metric(&s->w, "mvproxy_identity_lease_publishing", NULL), s->old, "seed %u: by whose it is",
              s->seed);
    arena_free(a);
}

int main(void)
{
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        struct story s = {.seed = seed, .random = seed};

        cluster_kit_init(&s.w, apis[any(&s, ROWS(apis))]);
        sim_seed(seed);
        s.servers[0] = s.w.local;
        s.servers[1] = cluster_kit_peer(&s.w, "cp-b", "10.0.0.2:6443", apis[any(&s, ROWS(apis))]);
        s.servers[2] = cluster_kit_peer(&s.w, "cp-c", "10.0.0.3:6443", apis[any(&s, ROWS(apis))]);
        s.w.opts.identity = IDENTITY_AUTO;
        cluster_kit_start(&s.w);
        for (unsigned i = 0; i < EVENTS; i++)
            happens(&s);
        all_is_well_again(&s);
        lease_is_kept(&s);
        is_as_new(&s);
        cluster_kit_end(&s.w);
    }
    return tap_end();
}
