/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an mvproxy stands before a peer: learned from its answers to our marked requests, believed no longer than it
 * is certain. It rules when discovery is read whole (refresh.c), and nothing else: identity is the connection's. */
#include <stdio.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define HOP "apiserver-scg43bmblmfhqplxpiyqlziyzi"

enum { A_LOOK_MS = 1500 };

static void look(struct cluster_kit *w, const struct kube_server *k)
{
    cluster_peer_suspect(w->cluster, kube_id(k));
    sim_run_ms(w->loop, A_LOOK_MS);
}

static struct kube_server *start(struct cluster_kit *w, const char *hop)
{
    struct kube_server *b;

    cluster_kit_init(w, KIT_BASE);
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_set_hop(b, hop);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready");
    return b;
}

static void comes_and_goes(void)
{
    struct cluster_kit w;
    struct kube_server *b = start(&w, NULL);
    uint64_t generation;

    ok(!cluster_kit_sees_mvproxy(&w), "a bare kube-apiserver is none");
    sim_run_ms(w.loop, A_LOOK_MS);
    generation = served_generation(cluster_served(w.cluster));
    kube_set_hop(b, HOP);
    look(&w, b);
    ok(cluster_kit_sees_mvproxy(&w), "it says so with a 304");
    ok(kube_not_modified(b) > 0, "the document had not changed");
    is_u64(served_generation(cluster_served(w.cluster)), generation, "this alone makes no new snapshot");
    kube_set_hop(b, NULL);
    look(&w, b);
    ok(!cluster_kit_sees_mvproxy(&w), "and is gone again");
    kube_set_hop(b, "anything");
    look(&w, b);
    ok(!cluster_kit_sees_mvproxy(&w), "what is no server ID says nothing");
    cluster_kit_end(&w);
}

/* A new process may be the bare server. */
static void not_beyond_its_process(void)
{
    struct cluster_kit w;
    struct kube_server *b = start(&w, HOP);

    ok(cluster_kit_sees_mvproxy(&w), "in the first document's answer");
    kube_sim(b)->fault = SIM_HANG;
    look(&w, b);
    ok(cluster_kit_sees_mvproxy(&w), "silence says nothing against it");
    kube_start(b, 0);
    kube_sim(b)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, A_LOOK_MS);
    ok(cluster_kit_peer_of(&w, b) != NULL && !cluster_kit_sees_mvproxy(&w),
       "another holder: not until it has answered");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 10000 + A_LOOK_MS);
    ok(cluster_kit_sees_mvproxy(&w), "it has answered");
    cluster_kit_end(&w);
}

static void local_server_is_none(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    kube_set_hop(w.local, HOP);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    is_u64(kube_unmarked(w.local), 0, "the local server is asked without marks, and says nothing");
    cluster_kit_end(&w);
}

/* Somebody has written another server's address into its Lease. */
static void of_another(void)
{
    struct cluster_kit w;
    struct kube_server *b = start(&w, NULL), *c;
    char holder[100];
    struct kube_lease l = {
        .name = kube_id(b), .hostname = "cp-b", .holder = holder, .address = "10.0.0.3:6443", .duration_s = 3600};

    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BASE);
    kube_set_hop(b, kube_id(b));
    kube_set_hop(c, kube_id(c));
    sim_run_ms(w.loop, 20000);
    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(b));
    kube_pause_renewal(b, true);
    l.renew_us = clock_wall_us();
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, A_LOOK_MS);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "the document of who answers there is not its own");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "what only it has cannot be reached");
    kube_set_hop(c, HOP);
    sim_run_ms(w.loop, 12000);
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "who stands before a server that nobody knows may be its");
    cluster_kit_end(&w);
}

int main(void)
{
    comes_and_goes();
    not_beyond_its_process();
    local_server_is_none();
    of_another();
    return tap_end();
}
