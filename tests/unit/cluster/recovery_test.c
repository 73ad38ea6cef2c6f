/* A peer that was away is back: its discovery is read again at the first sign of it, not at the end of a long wait. */
#include <stdio.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "sim/world.h"

enum { AWAY_MS = 25000, A_MOMENT_MS = 5, SOON_MS = 100 };

/* A peer whose discovery could not be read for so long that the waits between retries have become long. */
static struct kube_server *peer_away(struct world *w)
{
    struct kube_server *b;

    world_init(w, WORLD_BASE);
    b = world_peer(w, "cp-b", "10.0.0.2:6443", WORLD_BATCH);
    world_start(w);
    ok(world_ready(w, 2000), "ready");
    kube_pause_renewal(b, true);
    kube_sim(b)->fault = SIM_REFUSE;
    cluster_peer_suspect(w->cluster, kube_id(b));
    sim_run_ms(w->loop, AWAY_MS);
    is_str(world_freshness(w, "batch"), "Stale", "stale while it is away");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w->loop, A_MOMENT_MS);
    is_str(world_freshness(w, "batch"), "Stale", "nobody has noticed yet that it is back");
    return b;
}

static void it_answers(void)
{
    struct world w;
    struct kube_server *b = peer_away(&w);
    uint64_t before = kube_discovery_requests(b);

    for (int i = 0; i < 1000; i++)
        cluster_peer_answered(w.cluster, kube_id(b));
    cluster_peer_answered(w.cluster, "apiserver-of-nobody");
    sim_run_ms(w.loop, SOON_MS);
    is_str(world_freshness(&w, "batch"), "Current", "a request that it answers is noticed");
    is_u64(kube_discovery_requests(b) - before, 2, "and looked into once");
    for (int i = 0; i < 1000; i++)
        cluster_peer_answered(w.cluster, kube_id(b));
    sim_run_ms(w.loop, SOON_MS);
    is_u64(kube_discovery_requests(b) - before, 2, "answers of a peer that is well are no reason to look");
    world_end(&w);
}

static void it_renews(void)
{
    struct world w;
    struct kube_server *b = peer_away(&w);
    char holder[100];
    const struct kube_lease renewed = {.name = kube_id(b),
                                       .hostname = "cp-b",
                                       .holder = holder,
                                       .address = "10.0.0.2:6443",
                                       .renew_us = clock_wall_us(),
                                       .duration_s = 3600};

    (void)snprintf(holder, sizeof holder, "%s_process-1", kube_id(b));
    kube_put_lease(w.store, &renewed);
    sim_run_ms(w.loop, SOON_MS);
    is_str(world_freshness(&w, "batch"), "Current", "its Lease is renewed: it is looked at");
    is_double(world_metric(&w, "mvproxy_discovery_refreshes_total", "peer", "recovered", "unchanged", NULL), 1,
              "for that reason, and not as a new process");
    world_end(&w);
}

int main(void)
{
    it_answers();
    it_renews();
    return tap_end();
}
