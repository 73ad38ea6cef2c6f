/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that was away is back: its discovery is read again at the first sign of it, not at the end of a long wait. */
#include <stdio.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { AWAY_MS = 25000, A_MOMENT_MS = 5, SOON_MS = 100, NOTICED_MS = 2500 };

/* A peer whose discovery could not be read for so long that the waits between retries have become long. */
static struct kube_server *peer_away(struct cluster_kit *w)
{
    struct kube_server *b;

    cluster_kit_init(w, KIT_BASE);
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready");
    kube_pause_renewal(b, true);
    kube_sim(b)->fault = SIM_REFUSE;
    cluster_peer_suspect(w->cluster, kube_id(b));
    sim_run_ms(w->loop, AWAY_MS);
    is_str(cluster_kit_freshness(w, "batch"), "Stale", "stale while it is away");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w->loop, A_MOMENT_MS);
    is_str(cluster_kit_freshness(w, "batch"), "Stale", "nobody has noticed yet that it is back");
    return b;
}

/* What it serves is believed for longer, but not that it is still the one that does: the Leases are not followed. */
static void it_is_silent(void)
{
    static const enum sim_fault faults[] = {SIM_REFUSE, SIM_HANG};

    for (size_t i = 0; i < ROWS(faults); i++) {
        struct cluster_kit w;
        struct kube_server *b;

        cluster_kit_init(&w, KIT_BASE);
        w.opts.local_failover = w.opts.pulse = true;
        b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
        cluster_kit_start(&w);
        ok(cluster_kit_ready(&w, 2000) && !cluster_kit_peer_of(&w, b)->silent, "fault %zu: a peer that answers", i);
        kube_sim(w.local)->fault = SIM_REFUSE;
        sim_run_ms(w.loop, NOTICED_MS);
        ok(!cluster_kit_peer_of(&w, b)->silent, "while the local server is away");
        kube_sim(b)->fault = faults[i];
        sim_run_ms(w.loop, NOTICED_MS);
        ok(cluster_kit_peer_of(&w, b)->silent, "one that does not, as soon as that is noticed");
        is_str(cluster_kit_freshness(&w, "batch"), faults[i] == SIM_HANG ? "Current" : "Stale",
               "the document waits for polls");
        kube_sim(b)->fault = SIM_FINE;
        sim_run_ms(w.loop, NOTICED_MS);
        ok(!cluster_kit_peer_of(&w, b)->silent, "and it does again");
        cluster_kit_end(&w);
    }
}

static void it_answers(void)
{
    struct cluster_kit w;
    struct kube_server *b = peer_away(&w);
    uint64_t before = kube_discovery_requests(b);

    for (int i = 0; i < 1000; i++)
        cluster_peer_answered(w.cluster, kube_id(b));
    cluster_peer_answered(w.cluster, "apiserver-of-nobody");
    sim_run_ms(w.loop, SOON_MS);
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "a request that it answers is noticed");
    is_u64(kube_discovery_requests(b) - before, 2, "and looked into once");
    for (int i = 0; i < 1000; i++)
        cluster_peer_answered(w.cluster, kube_id(b));
    sim_run_ms(w.loop, SOON_MS);
    is_u64(kube_discovery_requests(b) - before, 2, "answers of a peer that is well are no reason to look");
    cluster_kit_end(&w);
}

static void it_renews(void)
{
    struct cluster_kit w;
    struct kube_server *b = peer_away(&w);
    char holder[100];
    const struct kube_lease renewed = {.name = kube_id(b),
                                       .hostname = "cp-b",
                                       .holder = holder,
                                       .address = "10.0.0.2:6443",
                                       .renew_us = clock_wall_us(),
                                       .duration_s = 3600};

    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(b));
    kube_put_lease(w.store, &renewed);
    sim_run_ms(w.loop, SOON_MS);
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "its Lease is renewed: it is looked at");
    is_double(cluster_kit_metric(&w, "mvproxy_discovery_refreshes_total", "peer", "recovered", "unchanged", NULL), 1,
              "for that reason, and not as a new process");
    cluster_kit_end(&w);
}

/* Started while a peer is away: what it may have is stale, not absent, until it has told or is forgotten. */
static void never_read(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_put_apiservice(w.store, "apps", "v1", false);
    kube_put_apiservice(w.store, "batch", "v1", false);
    kube_put_apiservice(w.store, "batch", "v1beta1", false);
    kube_put_apiservice(w.store, "metrics.example.com", "v1", true);
    kube_put_apiservice(w.store, "", "v1", false);
    kube_sim(b)->fault = SIM_REFUSE;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready without the peer");
    is_str(cluster_kit_freshness(&w, "apps"), "Current", "what the local server has is as it is");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "what only stored APIServices name is stale");
    ok(cluster_kit_merged_has(&w, "v1beta1"), "each version of it");
    is_str(cluster_kit_freshness(&w, "metrics.example.com"), "", "what a service has is not made up");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 15000);
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "the peer has told");
    ok(!cluster_kit_merged_has(&w, "v1beta1"), "what it does not have is gone");
    kube_sim(b)->fault = SIM_REFUSE;
    kube_pause_renewal(b, true);
    sim_run_ms(w.loop, 60000);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "away again: what it told is stale");
    ok(!cluster_kit_merged_has(&w, "v1beta1"), "but not unknown");
    cluster_kit_end(&w);
}

static bool undiscovered(struct cluster_kit *w, const char *group, const char *version)
{
    return served_undiscovered(cluster_served(w->cluster), slice_str(group), slice_str(version));
}

/* It was dead when we started: what may be its is held back until it is forgotten, and nothing else is. */
static void never_read_and_dead(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_put_apiservice(w.store, "apps", "v1", false);
    kube_put_apiservice(w.store, "batch", "v1", false);
    kube_put_apiservice(w.store, "metrics.example.com", "v1", true);
    kube_put_apiservice(w.store, "", "v1", false);
    kube_stop(b, false);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready without the peer");
    ok(served_unknown_peer(cluster_served(w.cluster)), "it may be alive: nothing is denied");
    sim_run_ms(w.loop, 60000);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LAPSED && !served_unknown_peer(cluster_served(w.cluster)),
       "it is not");
    ok(undiscovered(&w, "", "v1"), "it may have more in the core group");
    ok(!cluster_kit_merged_has(&w, "\"name\":\"\""), "which is not of /apis");
    ok(undiscovered(&w, "batch", "v1") && undiscovered(&w, "batch", ""), "what stored APIServices name is held back");
    ok(undiscovered(&w, "apps", "v1"), "although others serve the version: it may have more in it");
    ok(!undiscovered(&w, "batch", "v2") && !undiscovered(&w, "nobody.example.com", ""), "what nobody names is denied");
    ok(!undiscovered(&w, "metrics.example.com", "v1"), "and what a service has is no peer's");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "the merged document says so too");
    sim_run_ms(w.loop, 250000);
    ok(cluster_kit_peer_of(&w, b) == NULL && !undiscovered(&w, "batch", "v1"), "until the peer is forgotten");
    is_str(cluster_kit_freshness(&w, "batch"), "", "everywhere");
    kube_start(b, 0);
    sim_run_ms(w.loop, 15000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs") && !undiscovered(&w, "apps", "v1"),
       "it is back, and tells");
    cluster_kit_end(&w);
}

/* APIServices become known last: it takes the local server long to list them, or the peer stores another one. */
static void named_later(bool at_start)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_sim(b)->fault = SIM_REFUSE;
    kube_put_apiservice(w.store, "apps", "v1", false);
    if (at_start)
        kube_forbid(w.local, "/apis/apiregistration.k8s.io", 503);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready without the peer");
    sim_run_ms(w.loop, 5000);
    is_str(cluster_kit_freshness(&w, "batch"), "", "nobody has heard of it");
    kube_put_apiservice(w.store, "batch", "v1", false);
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, at_start ? 15000 : 500);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "what an APIService names is stale");
    ok(undiscovered(&w, "batch", "v1"), "and held back");
    kube_delete(w.store, KUBE_APISERVICE, "v1.batch");
    sim_run_ms(w.loop, 500);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "also when an older server has deleted it at its start");
    ok(undiscovered(&w, "batch", "v1"), "and held back still");
    kube_sim(b)->fault = SIM_FINE;
    kube_set_apis(b, KIT_BASE);
    sim_run_ms(w.loop, 15000);
    ok(!undiscovered(&w, "batch", "v1"), "until the peer has told");
    kube_start(b, 0);
    kube_sim(b)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, 5000);
    ok(!cluster_kit_peer_of(&w, b)->discovery_known && !undiscovered(&w, "batch", "v1"), "then it is forgotten");
    cluster_kit_end(&w);
}

/* A custom resource's APIService goes with it, and it is nobody's then. */
static void deleted_for_all(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_sim(b)->fault = SIM_REFUSE;
    kube_put_crd(w.store, "widgets.example.com", "example.com", "v1");
    kube_put_apiservice(w.store, "example.com", "v1", false);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready without the peer");
    kube_delete(w.store, KUBE_CRD, "widgets.example.com");
    sim_run_ms(w.loop, 1000);
    kube_delete(w.store, KUBE_APISERVICE, "v1.example.com");
    sim_run_ms(w.loop, 320000);
    ok(!undiscovered(&w, "example.com", "v1"), "a deleted custom resource is held back no more");
    cluster_kit_end(&w);
}

/* Leases that can be followed and cannot, by turns: not every API that nobody names may be 503 for ever. */
static void leases_come_and_go(void)
{
    struct cluster_kit w;
    unsigned unknown = 0;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (unsigned i = 0; i < 40; i++) {
        kube_forbid(w.local, "/apis/coordination.k8s.io", 500);
        kube_inject(w.store, KUBE_LEASE, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}\n");
        for (unsigned k = 0; k < 20; k++) {
            sim_run_ms(w.loop, 1000);
            unknown += served_unknown_peer(cluster_served(w.cluster));
        }
        kube_forbid(w.local, NULL, 0);
        sim_run_ms(w.loop, 20000);
        ok(!served_unknown_peer(cluster_served(w.cluster)), "not while they are followed");
    }
    ok(unknown > 30 && unknown <= 60, "for a minute anything may be anybody's: %u s", unknown);
    sim_run_ms(w.loop, 60000);
    kube_forbid(w.local, "/apis/coordination.k8s.io", 500);
    kube_inject(w.store, KUBE_LEASE, "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}\n");
    sim_run_ms(w.loop, 10000);
    ok(served_unknown_peer(cluster_served(w.cluster)), "after a minute in which all was well it is so again");
    cluster_kit_end(&w);
}

/* A local server that hangs ends no watch: what comes meanwhile is told by nobody, as where the watch breaks. */
static void watch_of_a_server_that_hangs(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    (void)cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    w.opts.local_failover = true;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 60000);
    ok(!served_unknown_peer(cluster_served(w.cluster)), "the Leases are followed");
    kube_sim(w.local)->fault = SIM_HANG;
    sim_run_ms(w.loop, 8000);
    is_u64(kube_watches(w.store, KUBE_LEASE), 2, "its watches go on");
    ok(served_unknown_peer(cluster_served(w.cluster)), "but are not believed: anything may be anybody's");
    sim_run_ms(w.loop, 60000);
    ok(!served_unknown_peer(cluster_served(w.cluster)), "for a minute");
    kube_sim(w.local)->fault = SIM_FINE;
    sim_run_ms(w.loop, 10000);
    ok(!served_unknown_peer(cluster_served(w.cluster)), "not when it answers again");
    cluster_kit_end(&w);
}

/* A peer that nobody can ask, for want of an address, holds things up for a minute only. */
static void nowhere(void)
{
    const struct kube_lease lease = {.name = "apiserver-scg43bmblmfhqplxpiyqlziyzi",
                                     .hostname = "test-server-b",
                                     .holder = "apiserver-scg43bmblmfhqplxpiyqlziyzi_1",
                                     .renew_us = clock_wall_us(),
                                     .duration_s = 3600};
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    kube_put_apiservice(w.store, "batch", "v1", false);
    kube_put_lease(w.store, &lease);
    w.opts.stale_after_ms = 200000;
    w.opts.forget_after_ms = 300000;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready");
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "live", NULL), 1, "a peer is known to be there");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "it may get an address yet");
    ok(!served_unknown_peer(cluster_served(w.cluster)), "an API that nobody names is denied at once");
    ok(undiscovered(&w, "batch", "v1"), "what may be its is held back");
    sim_run_ms(w.loop, 50000);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "still");
    sim_run_ms(w.loop, 15000);
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "live", NULL), 1, "it is there still");
    is_str(cluster_kit_freshness(&w, "batch"), "", "but nothing is waited for");
    ok(undiscovered(&w, "batch", "v1"), "but what may be its is not denied");
    cluster_kit_end(&w);
}

/* A live peer whose address is dead, before and after its process is replaced: a minute each, and only its own then. */
static void dead_address(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_put_apiservice(w.store, "policy", "v1", false);
    kube_sim(b)->fault = SIM_REFUSE;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready without the peer");
    sim_run_ms(w.loop, 50000);
    ok(served_unknown_peer(cluster_served(w.cluster)), "for a minute anything may be its");
    sim_run_ms(w.loop, 15000);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LIVE && !served_unknown_peer(cluster_served(w.cluster)),
       "then an API that nobody names is denied");
    ok(undiscovered(&w, "policy", "v1") && !undiscovered(&w, "batch", "v1"),
       "and what stored APIServices name is held back");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 15000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs") && !undiscovered(&w, "policy", "v1"), "it tells");
    for (unsigned i = 0; i < 4; i++) {
        kube_start(b, 0); /* another holder, again and again */
        kube_sim(b)->fault = SIM_REFUSE;
        sim_run_ms(w.loop, 20000);
    }
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LIVE && !served_unknown_peer(cluster_served(w.cluster)),
       "a Lease that changes hands all the time begins no other minute");
    ok(undiscovered(&w, "batch", "v1") && undiscovered(&w, "policy", "v1"), "what it said before is held back, too");
    cluster_kit_end(&w);
}

/* Its mvproxy has stopped, and has taken back where it is: no poll fails, as there is nobody to be polled. */
static void withdrawn_address(void)
{
    char holder[100];
    struct kube_lease l = {.hostname = "cp-b", .holder = holder, .duration_s = 3600};
    struct kube_server *b;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "what a peer has");
    kube_pause_renewal(b, true);
    l.name = kube_id(b);
    l.renew_us = clock_wall_us();
    (void)snprintf(holder, sizeof(holder), "%s_process-1", l.name);
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 9000);
    l.renew_us = clock_wall_us();
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LIVE && cluster_kit_peer_of(&w, b)->origin == NULL,
       "live, and not to be reached");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "what only it has");
    kube_pause_renewal(b, false);
    sim_run_ms(w.loop, 12000);
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "until there is an address again");
    cluster_kit_end(&w);
}

/* Whoever writes Leases could otherwise hold back every API that nobody has, for ever. */
static void address_that_comes_and_goes(void)
{
    struct kube_lease l = {.name = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe",
                           .hostname = "ghost",
                           .holder = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe_x",
                           .duration_s = 3600};
    unsigned held = 0;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 8000), "ready");
    for (unsigned s = 0; s < 600; s += 2) {
        l.address = s % 50 == 0 ? NULL : "10.0.0.9:6443";
        l.renew_us = clock_wall_us();
        kube_put_lease(w.store, &l);
        sim_run_ms(w.loop, 2000);
        held += served_unknown_peer(cluster_served(w.cluster)) ? 2 : 0;
    }
    ok(held >= 50 && held <= 70, "what a dead address may have is held back for a minute in all (%u s)", held);
    cluster_kit_end(&w);
}

/* What kube-apiserver shows of etcd's troubles: nobody lapses for it, and nothing is denied meanwhile. */
static void etcd_changes_leader(void)
{
    static const char *const errors[] = {
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":\"etcdserver: leader "
        "changed\"}}\n",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":504,\"message\":\"Too large resource "
        "version\"}}\n",
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n",
    };
    static const unsigned statuses[] = {500, 503, 504, 429};
    struct cluster_kit w;
    struct kube_server *b;
    unsigned denied = 0;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (size_t i = 0; i < 48; i++) {
        if (i % 4 == 0)
            kube_inject(w.store, KUBE_LEASE, errors[i / 4 % ROWS(errors)]);
        else if (i % 4 == 1)
            kube_forbid(w.local, "/apis/coordination.k8s.io", statuses[i / 4 % ROWS(statuses)]);
        else if (i % 4 == 2)
            kube_restore(w.store, i);
        else
            kube_forbid_watches(w.local, statuses[i / 4 % ROWS(statuses)]);
        for (unsigned k = 0; k < 25; k++) {
            sim_run_ms(w.loop, 1000);
            denied += !cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs");
        }
        kube_forbid(w.local, NULL, 0);
        kube_forbid_watches(w.local, 0);
    }
    is_u64(denied, 0, "twenty minutes of trouble: its resources are a peer's all the time");
    sim_run_ms(w.loop, 40000);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LIVE, "and it is live");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "and current");
    kube_stop(b, true);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LAPSED, "and the Leases are followed again");
    cluster_kit_end(&w);
}

/* By the fault of one aggregated API, say: no node is taken out of service for it, nor is it forgotten what was known.
 */
static void unreadable(bool from_the_start)
{
    static const char odd[] = "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\","
                              "\"items\":[{\"versions\":[{\"version\":\"v1\"";
    char reason[128];
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    if (from_the_start)
        kube_set_garbage(w.local, odd);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_set_garbage(w.local, odd);
    for (unsigned i = 0; i < 5; i++) {
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 3000);
    }
    ok(cluster_local_reachable(w.cluster, reason, sizeof(reason)), "it answers: %s", reason);
    ok(served_forbidden(cluster_served(w.cluster)) == from_the_start, "%s",
       from_the_start ? "what it serves is not known" : "what it served is known");
    ok(cluster_kit_local_serves(&w, "apps", "v1", "deployments") == !from_the_start, "resources");
    kube_set_garbage(w.local, NULL);
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 11000);
    ok(!served_forbidden(cluster_served(w.cluster)) && cluster_kit_local_serves(&w, "apps", "v1", "deployments"),
       "read");
    cluster_kit_end(&w);
}

int main(void)
{
    unreadable(true);
    unreadable(false);
    never_read();
    never_read_and_dead();
    named_later(false);
    named_later(true);
    deleted_for_all();
    leases_come_and_go();
    watch_of_a_server_that_hangs();
    nowhere();
    dead_address();
    withdrawn_address();
    address_that_comes_and_goes();
    it_is_silent();
    it_answers();
    it_renews();
    etcd_changes_leader();
    return tap_end();
}
