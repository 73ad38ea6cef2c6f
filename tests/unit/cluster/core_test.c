/* SPDX-License-Identifier: Apache-2.0 */
/* When /api is asked and when it is left out: it cannot change without another process, but every other process counts.
 */
#include "lib/tap.h"
#include "sim/world.h"

#define HOP "apiserver-scg43bmblmfhqplxpiyqlziyzi"
#define NEWER_CORE "v1:pods+exec,services,configmaps,gadgets"

enum { SOON_MS = 100, AN_INTERVAL_MS = 34000, TEN_MINUTES_MS = 600000, LOOKS_IN_TEN_MINUTES = 18 };

struct story {
    struct world w;
    struct kube_server *b;
    uint64_t core, all;
};

/* A peer that has been looked at twice by interval, so that nothing of the start matters any more. */
static void start(struct story *s, const char *hop)
{
    world_init(&s->w, WORLD_BASE);
    s->b = world_peer(&s->w, "cp-b", "10.0.0.2:6443", WORLD_BATCH);
    kube_set_hop(s->b, hop);
    world_start(&s->w);
    ok(world_ready(&s->w, 2000), "ready");
    sim_run_ms(s->w.loop, 2 * AN_INTERVAL_MS);
}

/* What `k` is asked while the time passes. */
static void run(struct story *s, const struct kube_server *k, uint64_t ms)
{
    s->core = kube_core_requests(k);
    s->all = kube_discovery_requests(k);
    sim_run_ms(s->w.loop, ms);
    s->core = kube_core_requests(k) - s->core;
    s->all = kube_discovery_requests(k) - s->all;
}

static bool has_gadgets(struct story *s)
{
    return world_peer_serves(&s->w, s->b, "", "v1", "gadgets");
}

static void left_out(void)
{
    struct story s;

    start(&s, NULL);
    run(&s, s.b, TEN_MINUTES_MS);
    ok(s.all - s.core >= LOOKS_IN_TEN_MINUTES, "a peer is asked for /apis at every interval");
    ok(s.core >= 1 && s.core <= 3, "for /api now and then");
    run(&s, s.w.local, TEN_MINUTES_MS);
    ok(s.all - s.core >= LOOKS_IN_TEN_MINUTES, "so is the local server for /apis");
    ok(s.core >= 1 && s.core <= 3, "and for /api");
    world_end(&s.w);
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
    ok(world_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "a static peer without a Lease");
    run(&s, s.b, AN_INTERVAL_MS);
    ok(s.all > s.core, "goes on being looked at");
    kube_set_core(s.b, NEWER_CORE);
    sim_server_break(kube_sim(s.b));
    ok(!has_gadgets(&s), "another process is there now");
    run(&s, s.b, AN_INTERVAL_MS);
    is_u64(s.core, 1, "a new connection: /api is asked at the next interval");
    ok(has_gadgets(&s), "and what is new in it is known");
    run(&s, s.b, AN_INTERVAL_MS);
    is_u64(s.core, 0, "on the same connection it is left out again");
    world_end(&s.w);
}

/* What is between may keep the connection open. Then the Lease tells. */
static void holder_changes(void)
{
    struct story s;

    start(&s, HOP);
    run(&s, s.b, AN_INTERVAL_MS);
    is_u64(s.core, 0, "an mvproxy stands before it, its Lease is watched: /api is left out");
    kube_set_core(s.b, NEWER_CORE);
    kube_start(s.b, 0);
    run(&s, s.b, SOON_MS);
    is_u64(s.core, 1, "another holder: /api is asked at once, connection or not");
    ok(has_gadgets(&s), "and what is new in it is known");
    world_end(&s.w);
}

static void nobody_would_tell(void)
{
    const struct cluster_static_peer fixed = {.name = "cp-b", .host = "10.0.0.2", .port = 6443};
    struct story s;

    start(&s, HOP);
    kube_forbid_watches(s.w.local, 503);
    kube_forbid(s.w.local, "/apis/coordination.k8s.io", 503);
    kube_inject(s.w.store, KUBE_LEASE, "what is this?\n");
    sim_run_ms(s.w.loop, SOON_MS);
    run(&s, s.b, AN_INTERVAL_MS);
    ok(s.core >= 1 && s.core == s.all - s.core, "the Leases are out of sight: /api is asked every time");
    kube_forbid_watches(s.w.local, 0);
    kube_forbid(s.w.local, NULL, 0);
    sim_run_ms(s.w.loop, AN_INTERVAL_MS);
    run(&s, s.b, AN_INTERVAL_MS);
    is_u64(s.core, 0, "they are back: it is left out");
    s.w.opts.static_peers = &fixed;
    s.w.opts.n_static_peers = 1;
    cluster_update(s.w.cluster, &s.w.opts);
    kube_pause_renewal(s.b, true);
    kube_delete(s.w.store, KUBE_LEASE, kube_id(s.b));
    sim_run_ms(s.w.loop, TEN_MINUTES_MS);
    kube_set_core(s.b, NEWER_CORE);
    run(&s, s.b, AN_INTERVAL_MS);
    ok(s.core >= 1 && s.core == s.all - s.core, "without a Lease, behind an mvproxy: every time as well");
    ok(has_gadgets(&s), "so that nothing is missed");
    world_end(&s.w);
}

static void apis_changes(void)
{
    struct story s;

    start(&s, NULL);
    kube_set_apis(s.b, WORLD_BATCH ";example.com/v1:things");
    kube_set_core(s.b, NEWER_CORE);
    run(&s, s.b, AN_INTERVAL_MS);
    is_u64(s.core, 1, "/apis has changed: /api is asked in the same look");
    ok(has_gadgets(&s) && world_peer_serves(&s.w, s.b, "example.com", "v1", "things"), "both are known");
    kube_set_hop(s.b, HOP);
    run(&s, s.b, AN_INTERVAL_MS);
    is_u64(s.core, 1, "an mvproxy answers for it all of a sudden: /api is asked as well");
    ok(world_sees_mvproxy(&s.w), "and both say so");
    kube_set_hop(s.b, NULL);
    run(&s, s.b, AN_INTERVAL_MS);
    is_u64(s.core, 1, "none any more: likewise");
    ok(!world_sees_mvproxy(&s.w), "as both say");
    world_end(&s.w);
}

static void other_triggers(void)
{
    struct story s;

    start(&s, NULL);
    cluster_peer_suspect(s.w.cluster, kube_id(s.b));
    run(&s, s.b, 2000);
    is_u64(s.core, 1, "a peer that answered 404 is asked for both");
    cluster_refresh(s.w.cluster);
    run(&s, s.b, 2000);
    is_u64(s.core, 1, "by order of the operator, too");
    (void)cluster_local_miss(s.w.cluster, NULL, NULL);
    run(&s, s.w.local, 2000);
    is_u64(s.core, 1, "a miss: the local server is asked for both");
    kube_sim(s.b)->fault = SIM_RESET;
    sim_run_ms(s.w.loop, AN_INTERVAL_MS);
    kube_sim(s.b)->fault = SIM_FINE;
    run(&s, s.b, 11000);
    is_u64(s.core, 1, "after failures both are asked");
    is_u64(s.all, 2, "once");
    world_end(&s.w);
}

/* Nothing speaks for another process, and yet /api is another: what nobody foresaw lasts minutes, not for ever. */
static void insurance(void)
{
    struct story s;

    start(&s, NULL);
    kube_set_core(s.b, NEWER_CORE);
    sim_run_ms(s.w.loop, TEN_MINUTES_MS);
    ok(has_gadgets(&s), "it is asked once in ten looks all the same");
    world_end(&s.w);
}

static void without_tags(void)
{
    struct story s;

    start(&s, NULL);
    kube_set_form(s.b, KUBE_LEGACY);
    sim_run_ms(s.w.loop, AN_INTERVAL_MS);
    run(&s, s.b, AN_INTERVAL_MS);
    ok(s.core >= 1 && s.core == s.all - s.core, "no 304 without a tag: both are asked every time");
    world_end(&s.w);
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
    ok(world_local_serves(&s.w, "", "v1", "gadgets"), "the local server is another: what it serves is known");
    world_end(&s.w);
}

int main(void)
{
    left_out();
    connection_breaks();
    holder_changes();
    nobody_would_tell();
    apis_changes();
    other_triggers();
    insurance();
    without_tags();
    local_restarts();
    return tap_end();
}
