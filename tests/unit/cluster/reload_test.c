/* SPDX-License-Identifier: Apache-2.0 */
/* Reloads as the cluster layer sees them: what did not change goes on undisturbed, what did is followed. */
#include <stdio.h>

#include "lib/tap.h"
#include "sim/cluster_kit.h"

struct story {
    struct cluster_kit w;
    struct kube_server *b;
};

static void start(struct story *s)
{
    cluster_kit_init(&s->w, KIT_BASE);
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&s->w);
    ok(cluster_kit_ready(&s->w, 2000), "ready");
    sim_run_ms(s->w.loop, 1000);
}

static uint64_t lists(const struct story *s)
{
    return kube_lists(s->w.store, KUBE_LEASE) + kube_lists(s->w.store, KUBE_CRD) +
           kube_lists(s->w.store, KUBE_APISERVICE);
}

static size_t watches(const struct story *s)
{
    return kube_watches(s->w.store, KUBE_LEASE) + kube_watches(s->w.store, KUBE_CRD) +
           kube_watches(s->w.store, KUBE_APISERVICE);
}

static uint64_t requests(const struct story *s)
{
    return kube_sim(s->w.local)->requests + kube_sim(s->b)->requests;
}

static void reload(struct story *s)
{
    cluster_update(s->w.cluster, &s->w.opts);
    sim_run_ms(s->w.loop, 50);
}

static void nothing_changes(void)
{
    struct story s;
    uint64_t before;

    start(&s);
    before = requests(&s);
    for (int i = 0; i < 10; i++)
        reload(&s);
    is_u64(requests(&s), before, "ten reloads without a change: nobody is asked anything");
    is_u64(lists(&s), 4, "nothing is listed again");
    is_u64(watches(&s), 4, "the watches go on");
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "what is known stays known");
    ok(cluster_kit_ready(&s.w, 0), "and ready");
    before = kube_discovery_requests(s.b);
    for (int i = 0; i < 100; i++) {
        cluster_update(s.w.cluster, &s.w.opts);
        sim_run_ms(s.w.loop, 1000);
    }
    ok(kube_discovery_requests(s.b) >= before + 2, "many reloads do not put off the next look");
    cluster_kit_end(&s.w);
}

static void small_changes(void)
{
    struct story s;
    uint64_t before;

    start(&s);
    before = requests(&s);
    s.w.opts.stale_after_ms = 20000;
    s.w.opts.forget_after_ms = 60000;
    s.w.opts.refresh_interval_ms = 60000;
    reload(&s);
    is_u64(requests(&s), before, "other times: nobody is asked anything");
    kube_stop(s.b, false);
    sim_run_ms(s.w.loop, 21000);
    ok(cluster_kit_peer_of(&s.w, s.b) != NULL && cluster_kit_peer_of(&s.w, s.b)->life == SERVED_LAPSED,
       "but they count");
    sim_run_ms(s.w.loop, 40000);
    ok(cluster_kit_peer_of(&s.w, s.b) == NULL, "all of them");
    kube_delete(s.w.store, KUBE_LEASE, kube_id(s.b));
    sim_run_ms(s.w.loop, 1000);
    is_u64(sim_retired(s.w.back), 1, "nothing is told of the way to one whose Lease is gone as well");
    cluster_kit_end(&s.w);
}

/* Trust or place of one side is another: that side is asked anew, the other is not. */
static void one_side(void)
{
    struct story s;
    uint64_t before;
    struct origin_opts o = {.name = "local", .host = "10.0.0.1", .port = 6443};
    struct origin *moved, *old;

    start(&s);
    before = kube_sim(s.w.local)->requests;
    is_u64(sim_retired(s.w.back), 0, "each origin is in use");
    s.w.opts.peer_rule_changed = true;
    reload(&s);
    s.w.opts.peer_rule_changed = false;
    is_u64(sim_retired(s.w.back), 1, "whoever holds the peer's old one: it is not told of");
    is_u64(kube_sim(s.w.local)->requests, before, "peers are dialled by another rule: not the local server's affair");
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "and nothing is forgotten");
    before = kube_sim(s.b)->requests;
    moved = origin_new(s.w.back, &o);
    if (moved == NULL)
        tap_bail("no origin");
    old = s.w.opts.local;
    s.w.opts.local = moved;
    reload(&s);
    is_u64(lists(&s), 8, "the local server is reached in another way: listed again");
    is_u64(watches(&s), 4, "watched once");
    is_u64(kube_sim(s.b)->requests, before, "not the peer's affair");
    ok(cluster_kit_ready(&s.w, 0), "ready all the time");
    s.w.opts.local = old;
    reload(&s);
    origin_unref(moved);
    is_u64(watches(&s), 4, "and back");
    cluster_kit_end(&s.w);
}

static void gate(void)
{
    struct story s;

    start(&s);
    for (int i = 0; i < 3; i++) {
        uint64_t before, generation;

        s.w.opts.peers_enabled = false;
        reload(&s);
        is_u64(watches(&s), 0, "off: nothing is watched any more");
        ok(!served_peers_enabled(cluster_served(s.w.cluster)), "the snapshot says so");
        is_u64(served_n_peers(cluster_served(s.w.cluster)), 0, "and knows no peer");
        ok(slice_eq(served_merged(cluster_served(s.w.cluster), SERVED_V2)->body, kube_document(s.w.local)),
           "discovery is the local server's");
        is_slice(served_merged(cluster_served(s.w.cluster), SERVED_V2)->etag, kube_etag(s.w.local), "with its tag");
        ok(cluster_kit_ready(&s.w, 0), "ready");
        before = kube_sim(s.b)->requests;
        generation = served_generation(cluster_served(s.w.cluster));
        kube_put_crd(s.w.store, "widgets.example.com", "example.com", "v1");
        sim_run_ms(s.w.loop, 100000);
        kube_delete(s.w.store, KUBE_CRD, "widgets.example.com");
        is_u64(kube_sim(s.b)->requests, before, "nobody asks peers");
        is_u64(served_generation(cluster_served(s.w.cluster)), generation, "and what happens there is not heard of");
        s.w.opts.peers_enabled = true;
        cluster_update(s.w.cluster, &s.w.opts);
        sim_run_ms(s.w.loop, 1);
        ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs") || !served_synced(cluster_served(s.w.cluster)) ||
               served_unknown_peer(cluster_served(s.w.cluster)),
           "on: while nothing is known nothing is denied");
        sim_run_ms(s.w.loop, 200);
        is_u64(watches(&s), 4, "watched again");
        ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "the peer is known again");
        is_str(cluster_kit_freshness(&s.w, "batch"), "Current", "and merged");
        ok(cluster_kit_ready(&s.w, 0), "ready");
    }
    cluster_kit_end(&s.w);
}

/* Without peers nothing is watched: another process of the local server is seen by the interval only. */
static void restarted_without_peers(void)
{
    struct story s;

    start(&s);
    s.w.opts.peers_enabled = false;
    reload(&s);
    kube_stop(s.w.local, false);
    kube_set_apis(s.w.local, KIT_BASE ";policy/v1:budgets");
    kube_start(s.w.local, 0);
    sim_run_ms(s.w.loop, 2000);
    ok(!cluster_kit_local_serves(&s.w, "policy", "v1", "budgets"), "what it serves now is not known without peers");
    s.w.opts.peers_enabled = true;
    reload(&s);
    sim_run_ms(s.w.loop, 1000);
    ok(cluster_kit_local_serves(&s.w, "policy", "v1", "budgets"), "and is read when they are enabled");
    ok(cluster_kit_merged_has(&s.w, "budgets"), "and told");
    cluster_kit_end(&s.w);
}

int main(void)
{
    nothing_changes();
    small_changes();
    one_side();
    gate();
    restarted_without_peers();
    return tap_end();
}
