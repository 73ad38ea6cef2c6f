/* SPDX-License-Identifier: Apache-2.0 */
/* Who is a peer, how long, and where: stories of Leases, clocks and addresses. */
#include <stdio.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/random.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

static const char *life_of(struct cluster_kit *w, const struct kube_server *k)
{
    const struct served_peer *p = cluster_kit_peer_of(w, k);

    return p == NULL ? "none" : p->life == SERVED_LIVE ? "live" : "lapsed";
}

static const char *address_of(struct cluster_kit *w, const struct kube_server *k)
{
    const struct served_peer *p = cluster_kit_peer_of(w, k);

    return p == NULL || p->origin == NULL ? NULL : origin_address(p->origin);
}

static struct kube_server *start_pair(struct cluster_kit *w)
{
    struct kube_server *b;

    cluster_kit_init(w, KIT_BASE);
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready");
    return b;
}

static void crash(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    sim_run_ms(w.loop, 20000);
    kube_stop(b, false);
    sim_run_ms(w.loop, 3000);
    is_str(life_of(&w, b), "live", "renewed a moment ago: live");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "its document was confirmed less than an interval ago");
    sim_run_ms(w.loop, 39000);
    is_str(life_of(&w, b), "lapsed", "after 40 s: lapsed");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "it stays a candidate");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "its group is marked, not dropped");
    is_str(cluster_kit_freshness(&w, "apps"), "Current", "what the local server serves too is not");
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "lapsed", NULL), 1, "counted as lapsed");
    ok(!served_unknown_peer(cluster_served(w.cluster)), "a lapsed one is not waited for");
    sim_run_ms(w.loop, 260000);
    is_str(life_of(&w, b), "none", "after five minutes: forgotten, although its Lease says an hour");
    is_str(cluster_kit_freshness(&w, "batch"), "", "and its groups with it");
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "forgotten", NULL), 1, "its Lease is kept in mind");
    kube_start(b, 0);
    sim_run_ms(w.loop, 100);
    is_str(life_of(&w, b), "live", "a renewal brings it back at once");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "with its document");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "merged again");
    cluster_kit_end(&w);
}

static void renew_nothing(struct cluster_kit *w, struct kube_server *b, bool nothing)
{
    kube_pause_renewal(b, nothing);
    kube_pause_renewal(w->local, nothing);
}

/* etcd is full, or a webhook denies it: no Lease is renewed for ten minutes, and everybody answers. */
static void unwritable(bool pulse)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.pulse = pulse;
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready; pulse %d", pulse);
    sim_run_ms(w.loop, 20000);
    renew_nothing(&w, b, true);
    for (int i = 0; i < 10; i++) {
        sim_run_ms(w.loop, 60000);
        is_str(life_of(&w, b), "live", "nobody's Lease is renewed, and it answers: live");
        is_str(cluster_kit_freshness(&w, "batch"), "Current", "its APIs are as current as ever");
    }
    kube_sim(b)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, 40000);
    is_str(life_of(&w, b), "none", "it does not answer any more: what its Lease says counts");
    kube_sim(b)->fault = SIM_FINE;
    renew_nothing(&w, b, false);
    sim_run_ms(w.loop, 12000);
    is_str(life_of(&w, b), "live", "renewed again");
    sim_run_ms(w.loop, 30000);
    kube_stop(b, true);
    sim_run_ms(w.loop, 301000);
    is_str(life_of(&w, b), "none", "who really leaves is forgotten");
    cluster_kit_end(&w);
}

/* The others' Leases are renewed: this one has a trouble of its own (no etcd), although it answers. */
static void alone_unwritable(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    sim_run_ms(w.loop, 20000);
    kube_pause_renewal(b, true);
    sim_run_ms(w.loop, 60000);
    is_str(life_of(&w, b), "lapsed", "only its own Lease is not renewed: lapsed");
    sim_run_ms(w.loop, 600000);
    is_str(life_of(&w, b), "lapsed", "but not forgotten while it answers");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "what only it serves is found");
    kube_pause_renewal(w.local, true);
    sim_run_ms(w.loop, 60000);
    kube_pause_renewal(w.local, false);
    sim_run_ms(w.loop, 60000);
    is_str(life_of(&w, b), "lapsed", "the same after others could not renew either");
    cluster_kit_end(&w);
}

/* Everybody can renew again, one after the other: nobody lapses because he is not the first. */
static void writable_again(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    sim_run_ms(w.loop, 20000);
    renew_nothing(&w, b, true);
    sim_run_ms(w.loop, 600000);
    kube_pause_renewal(w.local, false);
    for (int i = 0; i < 30; i++) {
        sim_run_ms(w.loop, 1000);
        if (strcmp(life_of(&w, b), "live") != 0)
            break;
    }
    is_str(life_of(&w, b), "live", "half a minute after the first");
    kube_pause_renewal(b, false);
    sim_run_ms(w.loop, 60000);
    is_str(life_of(&w, b), "live", "and when it is renewed itself");
    cluster_kit_end(&w);
}

/* What answers at a silent peer's address is somebody else. */
static void address_reused(const char *hop)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.pulse = true;
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 20000);
    renew_nothing(&w, b, true);
    kube_set_hop(b, hop == NULL ? kube_id(b) : hop);
    sim_run_ms(w.loop, 310000);
    is_str(life_of(&w, b), hop == NULL ? "live" : "none", "an mvproxy before %s server answers",
           hop == NULL ? "this" : "another");
    cluster_kit_end(&w);
}

/* Of two bare servers at one address the one answers whose Lease was renewed later: the other is gone. */
static void address_shared(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    struct kube_lease other = {.name = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe",
                               .hostname = "cp-new",
                               .holder = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe_x",
                               .address = "10.0.0.2:6443",
                               .duration_s = 3600};

    sim_run_ms(w.loop, 20000);
    kube_pause_renewal(b, true);
    for (int i = 0; i < 31; i++) {
        other.renew_us = clock_wall_us();
        kube_put_lease(w.store, &other);
        sim_run_ms(w.loop, 10000);
    }
    is_str(life_of(&w, b), "none", "forgotten, whoever answers at its address");
    is_u64(served_n_peers(cluster_served(w.cluster)), 1, "who has the address now is there");
    cluster_kit_end(&w);
}

static void paused(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    sim_run_ms(w.loop, 20000);
    kube_stop(b, false);
    sim_run_ms(w.loop, 20000);
    sim_pause_ms(w.loop, 60000);
    sim_run_ms(w.loop, 2000);
    is_str(life_of(&w, b), "live", "the time in which we were suspended is not its silence");
    sim_run_ms(w.loop, 20000);
    is_str(life_of(&w, b), "lapsed", "the time before and after is");
    cluster_kit_end(&w);
}

static void graceful(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    kube_stop(b, true);
    sim_run_ms(w.loop, 20);
    is_str(life_of(&w, b), "lapsed", "a deleted Lease: lapsed at once");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "it stays a candidate: 503 and not 404");
    ok(!served_unknown_peer(cluster_served(w.cluster)), "nobody waits for it to say more");
    sim_run_ms(w.loop, 400);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "it has been asked: what only it serves is stale");
    is_str(cluster_kit_freshness(&w, "apps"), "Current", "the rest is not");
    sim_run_ms(w.loop, 297600);
    is_str(life_of(&w, b), "lapsed", "just below five minutes later still");
    sim_run_ms(w.loop, 3000);
    is_str(life_of(&w, b), "none", "then it is forgotten");
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "forgotten", NULL), 0, "altogether");
    is_str(cluster_kit_freshness(&w, "batch"), "", "the last peer's groups leave the document too");
    ok(slice_eq(served_merged(cluster_served(w.cluster), SERVED_V2)->body, kube_document(w.local)),
       "which is the local one again");
    is_slice(served_merged(cluster_served(w.cluster), SERVED_V2)->etag, kube_etag(w.local), "under its tag");
    kube_start(b, 0);
    sim_run_ms(w.loop, 20);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "20 ms after its Lease it is routed to");
    cluster_kit_end(&w);
}

/* As kube-apiserver 1.35 and later restart: the Lease goes, and comes back with another holder. */
static void graceful_restart(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    kube_stop(b, true);
    sim_run_ms(w.loop, 100000);
    kube_set_apis(b, KIT_BASE ";batch/v2:jobs");
    kube_sim(b)->delay_ms = 700;
    kube_start(b, 0);
    sim_run_ms(w.loop, 100);
    is_str(life_of(&w, b), "live", "back: live at once");
    ok(!cluster_kit_peer_of(&w, b)->discovery_known && served_unknown_peer(cluster_served(w.cluster)),
       "what it serves now is unknown, so nothing is denied");
    kube_stop(b, true);
    sim_run_ms(w.loop, 20);
    is_str(life_of(&w, b), "lapsed", "gone again before it answered");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "the old document is the best there is");
    kube_start(b, 0);
    sim_run_ms(w.loop, 2000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v2", "jobs"), "its answer counts");
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and nothing is left of what it served before");
    ok(!cluster_kit_merged_has(&w, "cronjobs"), "in the merged document neither");
    sim_run_ms(w.loop, 400000);
    is_str(life_of(&w, b), "live", "the grace is over, and it goes on living");
    cluster_kit_end(&w);
}

/* Never has a Lease that comes and goes made anybody deny what it serves. */
static void restarts_over_and_over(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    unsigned denied = 0;

    for (unsigned i = 0; i < 200; i++) {
        kube_stop(b, true);
        for (unsigned n = 0; n < 10; n++) {
            sim_run_ms(w.loop, random_below(3000));
            denied += !cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs") &&
                      !served_unknown_peer(cluster_served(w.cluster));
        }
        kube_start(b, 0);
        for (unsigned n = 0; n < 10; n++) {
            sim_run_ms(w.loop, random_below(30));
            denied += !cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs") &&
                      !served_unknown_peer(cluster_served(w.cluster));
        }
    }
    is_u64(denied, 0, "over 200 graceful restarts it is a candidate, or waited for");
    cluster_kit_end(&w);
}

static void no_grace(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    w.opts.leave_grace_ms = 0;
    cluster_update(w.cluster, &w.opts);
    kube_stop(b, true);
    sim_run_ms(w.loop, 20);
    is_str(life_of(&w, b), "none", "without grace a deleted Lease forgets at once");
    is_str(cluster_kit_freshness(&w, "batch"), "", "and its groups");
    kube_start(b, 0);
    sim_run_ms(w.loop, 20);
    w.opts.leave_grace_ms = 300000;
    cluster_update(w.cluster, &w.opts);
    kube_stop(b, true);
    sim_run_ms(w.loop, 1000);
    is_str(life_of(&w, b), "lapsed", "with it it is kept");
    w.opts.leave_grace_ms = 0;
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 1000);
    is_str(life_of(&w, b), "none", "until it is taken away");
    cluster_kit_end(&w);
}

/* The grace is for whoever was there, whether he has said what he serves or not: not for the dead. */
static void left_for_good(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w), *c, *d;

    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BATCH);
    d = cluster_kit_peer(&w, "cp-d", "10.0.0.4:6443", KIT_BATCH);
    kube_sim(d)->fault = SIM_HANG;
    sim_run_ms(w.loop, 30000);
    kube_delete(w.store, KUBE_LEASE, kube_id(d));
    kube_stop(d, false);
    sim_run_ms(w.loop, 20);
    is_str(life_of(&w, d), "lapsed", "who never said what it serves may come back, too");
    kube_stop(b, false);
    sim_run_ms(w.loop, 200000);
    is_str(life_of(&w, b), "lapsed", "one that crashed");
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    sim_run_ms(w.loop, 70000);
    is_str(life_of(&w, b), "lapsed", "and whose Lease is then deleted");
    sim_run_ms(w.loop, 31000);
    is_str(life_of(&w, b), "none", "gets no more time than before");
    kube_stop(c, false);
    sim_run_ms(w.loop, 301000);
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "forgotten", NULL), 1, "another is forgotten, with its Lease");
    kube_delete(w.store, KUBE_LEASE, kube_id(c));
    sim_run_ms(w.loop, 20);
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "forgotten", NULL), 0, "and goes with it");
    cluster_kit_end(&w);
}

/* While nothing can be seen nobody runs out of grace: the new Lease may be there already. */
static void left_unseen(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    kube_stop(b, true);
    sim_run_ms(w.loop, 60000);
    kube_sim(w.local)->fault = SIM_REFUSE;
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 600000);
    is_str(life_of(&w, b), "lapsed", "who has left is kept while the Leases cannot be seen");
    kube_start(b, 0);
    kube_sim(w.local)->fault = SIM_FINE;
    sim_run_ms(w.loop, 15000);
    is_str(life_of(&w, b), "live", "and is back with them");
    kube_stop(b, true);
    sim_run_ms(w.loop, 301000);
    is_str(life_of(&w, b), "none", "or not");
    cluster_kit_end(&w);
}

static void static_leaves(void)
{
    struct cluster_kit w;
    struct cluster_static_peer fixed = {.name = "cp-b", .host = "10.0.0.2", .port = 6443};
    struct kube_server *b = start_pair(&w);

    w.opts.static_peers = &fixed;
    w.opts.n_static_peers = 1;
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 20000);
    kube_stop(b, true);
    sim_run_ms(w.loop, 5000);
    is_str(life_of(&w, b), "lapsed", "a static peer whose Lease is deleted has lapsed");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and stays a candidate");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 13000);
    is_str(life_of(&w, b), "live", "it needs no Lease to be live: an answer will do");
    kube_stop(b, false);
    sim_run_ms(w.loop, 320000);
    is_str(life_of(&w, b), "none", "without either it is forgotten");
    kube_start(b, 0);
    sim_run_ms(w.loop, 15000);
    is_str(life_of(&w, b), "live", "and back with its Lease");
    kube_stop(b, true);
    sim_run_ms(w.loop, 5000);
    w.opts.n_static_peers = 0;
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 1000);
    is_str(life_of(&w, b), "lapsed", "one that has left is no longer configured either: it keeps its time");
    sim_run_ms(w.loop, 301000);
    is_str(life_of(&w, b), "none", "which passes");
    cluster_kit_end(&w);
}

static void holder_change(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    /* Rolled to another version without its Lease being deleted (before 1.35); slow to answer while it starts. */
    sim_run_ms(w.loop, 3000);
    kube_set_apis(b, KIT_BASE ";batch/v2:jobs");
    kube_sim(b)->delay_ms = 700;
    kube_start(b, 0);
    sim_run_ms(w.loop, 100);
    is_str(life_of(&w, b), "live", "another holder: live");
    ok(!cluster_kit_peer_of(&w, b)->discovery_known, "but what it serves now is unknown");
    ok(served_unknown_peer(cluster_served(w.cluster)), "which is row 11 of the routing table");
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "nothing is routed by the old document");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "it is still advertised");
    sim_run_ms(w.loop, 1500);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v2", "jobs") && !cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "the new document counts");
    ok(!served_unknown_peer(cluster_served(w.cluster)), "nothing is unknown");
    cluster_kit_end(&w);
}

/* Its new process is never heard of: what the old one said is the best there is. */
static void holder_changes_and_dies(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    kube_sim(b)->delay_ms = 3600000;
    kube_start(b, 0);
    sim_run_ms(w.loop, 5000);
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs") && served_unknown_peer(cluster_served(w.cluster)),
       "another holder that does not answer: unknown");
    kube_stop(b, false);
    sim_run_ms(w.loop, 60000);
    is_str(life_of(&w, b), "lapsed", "and lapses");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "what it served before is held back, not denied");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "as the merged document has it");
    ok(!served_unknown_peer(cluster_served(w.cluster)), "what nobody ever served is not");
    cluster_kit_end(&w);
}

static void restart_of_same(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    kube_stop(b, false);
    kube_start(b, 0);
    sim_run_ms(w.loop, 50);
    ok(cluster_kit_peer_of(&w, b)->discovery_known && cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "another holder with the same tag: 304 is knowledge");
    cluster_kit_end(&w);
}

static void skewed_clocks(void)
{
    static const int64_t skews_s[] = {-86400 / 2, -3000, -60, 60, 3000, 86400, 86400 * 365};

    for (size_t i = 0; i < ROWS(skews_s); i++) {
        struct cluster_kit w;
        struct kube_server *b = start_pair(&w);

        kube_start(b, skews_s[i] * 1000000);
        sim_run_ms(w.loop, 15 * 60000);
        is_str(life_of(&w, b), "live", "a clock that is %lld s off: live", (long long)skews_s[i]);
        is_str(cluster_kit_freshness(&w, "batch"), "Current", "and current");
        kube_pause_renewal(b, true);
        sim_run_ms(w.loop, 55000);
        is_str(life_of(&w, b), "lapsed", "and lapses when it stops renewing");
        cluster_kit_end(&w);
    }
}

static void ghosts(void)
{
    struct cluster_kit w;
    struct kube_lease dead = {.name = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe",
                              .hostname = "test-server-a",
                              .holder = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe_x",
                              .address = "10.0.0.7:6443",
                              .duration_s = 3600};

    cluster_kit_init(&w, KIT_BASE);
    dead.renew_us = clock_wall_us() - 3700 * INT64_C(1000000);
    kube_put_lease(w.store, &dead);
    kube_put_apiservice(w.store, "batch", "v1", false);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "an expired Lease does not delay readiness");
    is_u64(served_n_peers(cluster_served(w.cluster)), 0, "and makes no peer");
    ok(served_undiscovered(cluster_served(w.cluster), SLICE_LIT("batch"), SLICE_LIT("v1")),
       "but if only the clocks say so, what some server registered may be its");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "and is not missing from discovery");
    sim_run_ms(w.loop, 26000);
    ok(!served_undiscovered(cluster_served(w.cluster), SLICE_LIT("batch"), SLICE_LIT("v1")), "for a while");
    dead.renew_us = clock_wall_us() - 3700 * INT64_C(1000000) + 10000000;
    kube_put_lease(w.store, &dead);
    sim_run_ms(w.loop, 10);
    is_u64(served_n_peers(cluster_served(w.cluster)), 1, "unless it is seen to be renewed after all");
    sim_run_ms(w.loop, 41000);
    is_int(served_peer_at(cluster_served(w.cluster), 0)->life, SERVED_LAPSED, "and lapses again");
    cluster_kit_end(&w);
}

static void impostors(void)
{
    static const struct {
        const char *why;
        struct kube_lease lease;
    } rows[] = {
        {"another namespace",
         {.name = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe",
          .holder = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe_x",
          .ns = "default",
          .duration_s = 3600}},
        {"no server ID", {.name = "kube-scheduler", .holder = "kube-scheduler_x", .duration_s = 3600}},
        {"no holder", {.name = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe", .duration_s = 3600}},
        {"another's holder",
         {.name = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe",
          .holder = "apiserver-scg43bmblmfhqplxpiyqlziyzi_x",
          .duration_s = 3600}},
        {"no label",
         {.name = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe",
          .holder = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe_x",
          .no_label = true,
          .duration_s = 3600}},
    };
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct kube_lease l = rows[i].lease;

        l.renew_us = clock_wall_us();
        l.address = "10.0.0.7:6443";
        kube_put_lease(w.store, &l);
        sim_run_ms(w.loop, 100);
        is_u64(served_n_peers(cluster_served(w.cluster)), 0, "no peer: %s", rows[i].why);
        kube_delete(w.store, KUBE_LEASE, l.name);
        sim_run_ms(w.loop, 100);
    }
    cluster_kit_end(&w);
}

static void addresses(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    struct kube_lease l = {.name = kube_id(b), .hostname = "cp-b", .holder = NULL, .duration_s = 3600};
    struct cluster_static_peer fixed = {.name = "cp-b", .host = "10.0.1.2", .port = 7443};
    struct kube_server *other =
        kube_server_new(w.store, w.back, "cp-b", "10.0.1.2:7443", KIT_BASE ";static.example/v1:things");
    struct kube_server *moved =
        kube_server_new(w.store, w.back, "cp-b", "10.0.2.2:6443", KIT_BASE ";moved.example/v1:things");
    char holder[100];

    (void)moved;
    (void)other;
    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(b));
    kube_pause_renewal(b, true);
    l.holder = holder;
    is_str(address_of(&w, b), "10.0.0.2:6443", "from the annotation");
    l.renew_us = clock_wall_us();
    l.address = "10.0.2.2:6443";
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 50);
    is_str(address_of(&w, b), "10.0.2.2:6443", "the annotation changes");
    ok(cluster_kit_peer_serves(&w, b, "moved.example", "v1", "things"), "and the new place is asked at once");
    l.address = "cp-b.example:6443";
    l.renew_us += 10000000;
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 50);
    is_str(address_of(&w, b), NULL, "a name in the annotation is no address");
    is_double(cluster_kit_metric(&w, "apiserver_peer_discovery_sync_errors_total", "hostport_resolution", NULL), 1,
              "which is counted");
    ok(cluster_kit_peer_of(&w, b) != NULL, "but the peer is one");
    w.opts.static_peers = &fixed;
    w.opts.n_static_peers = 1;
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 50);
    is_str(address_of(&w, b), "10.0.1.2:7443", "a static address by host name");
    ok(cluster_kit_peer_serves(&w, b, "static.example", "v1", "things"), "is used");
    l.address = "10.0.0.2:6443";
    l.renew_us += 10000000;
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 50);
    is_str(address_of(&w, b), "10.0.1.2:7443", "static wins over the annotation");
    w.opts.n_static_peers = 0;
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 50);
    is_str(address_of(&w, b), "10.0.0.2:6443", "taken away by a reload: the annotation again");
    cluster_kit_end(&w);
}

static void static_without_lease(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    struct cluster_static_peer fixed = {.name = "cp-b", .host = "127.0.0.1", .port = 7443};

    cluster_kit_init(&w, KIT_BASE);
    b = kube_server_new(w.store, w.back, "cp-b", "127.0.0.1:7443", KIT_BATCH);
    w.opts.static_peers = &fixed;
    w.opts.n_static_peers = 1;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    is_str(life_of(&w, b), "live", "a static peer needs no Lease");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and may be on loopback: it is listed explicitly");
    sim_run_ms(w.loop, 10 * 60000);
    is_str(life_of(&w, b), "live", "its answers keep it alive");
    kube_stop(b, false);
    sim_run_ms(w.loop, 75000);
    is_str(life_of(&w, b), "lapsed", "without them it lapses");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "and its groups are stale");
    sim_run_ms(w.loop, 300000);
    is_str(life_of(&w, b), "none", "and is forgotten, but asked on");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 13000);
    is_str(life_of(&w, b), "live", "so its return is noticed");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and it serves again");
    cluster_kit_end(&w);
}

static void rules(void)
{
    static const char *const refused[] = {"127.0.0.1:6443", "169.254.169.254:6443", "[::1]:6443",
                                          "[fe80::1]:6443", "0.0.0.0:6443",         "[::ffff:127.0.0.1]:6443"};

    for (size_t i = 0; i < ROWS(refused); i++) {
        struct cluster_kit w;
        struct kube_server *b;

        cluster_kit_init(&w, KIT_BASE);
        b = cluster_kit_peer(&w, "cp-b", refused[i], KIT_BATCH);
        cluster_kit_start(&w);
        ok(cluster_kit_ready(&w, 6000), "ready after the wait for the first answer");
        is_u64(kube_sim(b)->requests, 0, "an annotation cannot aim us at %s", refused[i]);
        ok(served_unknown_peer(cluster_served(w.cluster)), "and what it serves stays unknown");
        cluster_kit_end(&w);
    }
}

static void local_outage(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w), *c;

    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BASE ";policy/v1:poddisruptionbudgets");
    sim_run_ms(w.loop, 20000);
    kube_sim(w.local)->fault = SIM_REFUSE;
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 10 * 60000);
    is_str(life_of(&w, b), "live", "while the Leases cannot be seen nobody lapses");
    is_double(cluster_kit_metric(&w, "apiserver_peer_discovery_sync_errors_total", "lease_list", NULL), 1,
              "once is counted that they cannot");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "what answers by itself is current");
    kube_stop(c, false);
    sim_run_ms(w.loop, 60000);
    is_str(cluster_kit_freshness(&w, "policy"), "Stale", "what does not answer is stale all the same");
    kube_sim(w.local)->fault = SIM_FINE;
    sim_run_ms(w.loop, 15000);
    is_str(life_of(&w, b), "live", "and when they are seen again it goes on");
    sim_run_ms(w.loop, 45000);
    is_str(life_of(&w, b), "live", "for whoever renews");
    is_str(life_of(&w, c), "lapsed", "not for whoever does not");
    cluster_kit_end(&w);
}

static void flapping(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    for (int i = 0; i < 200; i++) {
        if (i % 2 == 0)
            kube_stop(b, i % 4 == 0);
        else
            kube_start(b, 0);
        sim_run_ms(w.loop, 37);
    }
    kube_start(b, 0);
    sim_run_ms(w.loop, 12000);
    is_str(life_of(&w, b), "live", "a peer that flaps ends up live");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and known");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "and current");
    ok(sim_open(w.back) < 20, "without requests left behind (%zu open)", sim_open(w.back));
    cluster_kit_end(&w);
}

static void three(void)
{
    struct cluster_kit w;
    struct kube_server *b, *c;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs") && cluster_kit_peer_serves(&w, c, "batch", "v1", "jobs"),
       "two candidates");
    kube_stop(b, false);
    sim_run_ms(w.loop, 90000);
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "one of them is enough for current");
    kube_stop(c, false);
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 1000);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "none is not");
    cluster_kit_end(&w);
}

/* A peer is the same through an upgrade from 1.26 and back, although its Lease is another one. */
static void from_126_and_back(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    char older[SERVER_ID_BYTES_126];

    ok(server_id_126_from_hostname(SLICE_LIT("cp-b"), older), "the name in 1.26");
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    kube_set_minor(b, 26);
    kube_start(b, 0);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000) && cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "a peer of 1.26 is seen");
    kube_set_minor(b, 27);
    kube_set_apis(b, KIT_BASE ";batch/v2:jobs");
    kube_start(b, 0);
    sim_run_ms(w.loop, 500);
    is_u64(served_n_peers(cluster_served(w.cluster)), 1, "upgraded: the same peer");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v2", "jobs"), "which is read again");
    kube_delete(w.store, KUBE_LEASE, older);
    sim_run_ms(w.loop, 500);
    is_str(life_of(&w, b), "live", "what it left behind is collected: no matter");
    kube_set_minor(b, 26);
    kube_start(b, 0);
    sim_run_ms(w.loop, 60000);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LIVE && served_n_peers(cluster_served(w.cluster)) == 1, "live again");
    kube_compact(w.store); /* all are listed again, the one that nobody renews as well */
    kube_restore(w.store, 0);
    sim_run_ms(w.loop, 30000);
    is_str(life_of(&w, b), "live", "and stays so");
    kube_delete(w.store, KUBE_LEASE, older);
    sim_run_ms(w.loop, 1000);
    is_str(life_of(&w, b), "lapsed", "its own Lease goes: lapsed");
    cluster_kit_end(&w);
}

int main(void)
{
    crash();
    unwritable(true);
    unwritable(false);
    alone_unwritable();
    writable_again();
    address_reused(NULL);
    address_reused("apiserver-scg43bmblmfhqplxpiyqlziyzi");
    address_shared();
    paused();
    graceful();
    graceful_restart();
    restarts_over_and_over();
    no_grace();
    left_for_good();
    left_unseen();
    static_leaves();
    holder_change();
    holder_changes_and_dies();
    restart_of_same();
    skewed_clocks();
    ghosts();
    impostors();
    addresses();
    static_without_lease();
    rules();
    local_outage();
    flapping();
    three();
    from_126_and_back();
    return tap_end();
}
