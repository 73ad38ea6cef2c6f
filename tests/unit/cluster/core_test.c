/* SPDX-License-Identifier: Apache-2.0 */
/* The core group changes only with another process: by what that is noticed. */
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define HOP "apiserver-scg43bmblmfhqplxpiyqlziyzi"
#define NEWER_CORE "v1:pods+exec,services,configmaps,gadgets"

enum { SOON_MS = 100, AN_INTERVAL_MS = 34000, TEN_MINUTES_MS = 600000 };

struct story {
    struct cluster_kit w;
    struct kube_server *b;
};

/* A peer that has been looked at twice by interval, so that nothing of the start matters any more. */
static void start(struct story *s, const char *hop)
{
    cluster_kit_init(&s->w, KIT_BASE);
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_set_hop(s->b, hop);
    cluster_kit_start(&s->w);
    ok(cluster_kit_ready(&s->w, 2000), "ready");
    sim_run_ms(s->w.loop, 2 * AN_INTERVAL_MS);
}

static bool has_gadgets(struct story *s)
{
    return cluster_kit_peer_serves(&s->w, s->b, "", "v1", "gadgets");
}

/* A static peer without a Lease is known by nothing but its connections. */
static void connection_breaks(void)
{
    const struct cluster_static_peer fixed = {.name = "cp-b", .host = "10.0.0.2", .port = 6443};
    struct story s;

    start(&s, NULL);
    s.w.opts.static_peers = &fixed;
    s.w.opts.n_static_peers = 1;
    cluster_update(s.w.cluster, &s.w.opts);
    kube_pause_renewal(s.b, true);
    kube_delete(s.w.store, KUBE_LEASE, kube_id(s.b));
    sim_run_ms(s.w.loop, TEN_MINUTES_MS);
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "a static peer without a Lease");
    kube_set_core(s.b, NEWER_CORE);
    sim_server_break(kube_sim(s.b));
    ok(!has_gadgets(&s), "another process is there now");
    sim_run_ms(s.w.loop, AN_INTERVAL_MS);
    ok(has_gadgets(&s), "what is new in it is known at the next interval");
    cluster_kit_end(&s.w);
}

/* What is between may keep the connection open. Then the Lease tells. */
static void holder_changes(void)
{
    struct story s;

    start(&s, HOP);
    kube_set_core(s.b, NEWER_CORE);
    kube_start(s.b, 0);
    sim_run_ms(s.w.loop, SOON_MS);
    ok(has_gadgets(&s), "another holder: asked at once, connection or not");
    cluster_kit_end(&s.w);
}

static void local_restarts(void)
{
    struct story s;

    start(&s, NULL);
    kube_set_core(s.w.local, NEWER_CORE);
    kube_stop(s.w.local, false);
    sim_run_ms(s.w.loop, 500);
    kube_start(s.w.local, 0);
    sim_run_ms(s.w.loop, 15000);
    ok(cluster_kit_local_serves(&s.w, "", "v1", "gadgets"), "the local server is another: what it serves is known");
    cluster_kit_end(&s.w);
}

int main(void)
{
    connection_breaks();
    holder_changes();
    local_restarts();
    return tap_end();
}
