/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at unchanged servers that only the interval makes come in one turn of the loop, but not too many. */
#include <stdio.h>

#include "lib/tap.h"
#include "sim/world.h"

enum { MANY = 30, AT_ONCE = 9, INTERVAL_MS = 30000, SHORTEST_MS = 27000 };

static struct kube_server *peers[MANY];

static void start(struct world *w, size_t n)
{
    char name[16], address[32];

    world_init(w, WORLD_BASE);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "node-%zu", i);
        (void)snprintf(address, sizeof address, "10.0.1.%zu:6443", i + 1);
        peers[i] = world_peer(w, name, address, WORLD_BATCH);
    }
    world_start(w);
    ok(world_ready(w, 2000), "ready");
}

static uint64_t looks(const struct world *w, size_t n)
{
    uint64_t all = kube_discovery_requests(w->local) - kube_core_requests(w->local);

    for (size_t i = 0; i < n; i++)
        all += kube_discovery_requests(peers[i]) - kube_core_requests(peers[i]);
    return all;
}

/* Runs until a look is made; how many are made in that millisecond. */
static uint64_t next_looks(struct world *w, size_t n)
{
    uint64_t before = looks(w, n);

    for (unsigned i = 0; i < 2 * INTERVAL_MS && looks(w, n) == before; i++)
        sim_run_ms(w->loop, 1);
    return looks(w, n) - before;
}

static void come_together(void)
{
    struct world w;
    uint64_t late;

    start(&w, 3);
    sim_run_ms(w.loop, 10000);
    cluster_peer_suspect(w.cluster, kube_id(peers[0]));
    sim_run_ms(w.loop, 9000);
    cluster_peer_suspect(w.cluster, kube_id(peers[1]));
    sim_run_ms(w.loop, 2000);
    ok(next_looks(&w, 3) < 4, "each was last looked at at another time");
    sim_run_ms(w.loop, 2 * INTERVAL_MS);
    is_u64(next_looks(&w, 3), 4, "soon after all are looked at in one turn");
    for (unsigned i = 0; i < 5; i++) {
        late = looks(&w, 3);
        sim_run_ms(w.loop, SHORTEST_MS - 1);
        is_u64(looks(&w, 3), late, "no more often than before");
        is_u64(next_looks(&w, 3), 4, "and together it stays");
    }
    world_end(&w);
}

/* One that has just been looked at for a reason of its own, or is being looked at, is left to itself. */
static void not_all_go_along(void)
{
    struct world w;
    uint64_t before;

    start(&w, 3);
    sim_run_ms(w.loop, 2 * INTERVAL_MS);
    is_u64(next_looks(&w, 3), 4, "all together");
    sim_run_ms(w.loop, 16000);
    cluster_peer_suspect(w.cluster, kube_id(peers[0]));
    sim_run_ms(w.loop, 1000);
    is_u64(next_looks(&w, 3), 3, "one has been looked at a moment ago: not again");
    sim_run_ms(w.loop, 2 * INTERVAL_MS);
    is_u64(next_looks(&w, 3), 4, "it is with the others again");
    sim_run_ms(w.loop, SHORTEST_MS - 2000);
    kube_sim(peers[1])->fault = SIM_HANG;
    cluster_peer_suspect(w.cluster, kube_id(peers[1]));
    sim_run_ms(w.loop, 1000);
    before = kube_sim(peers[1])->requests;
    is_u64(next_looks(&w, 3), 3, "one does not answer: the others are looked at");
    is_u64(kube_sim(peers[1])->requests, before, "without a second look at that one");
    world_end(&w);
}

static void not_too_many(void)
{
    struct world w;
    uint64_t most = 0, all;

    start(&w, MANY);
    sim_run_ms(w.loop, 2 * INTERVAL_MS);
    all = looks(&w, MANY);
    for (unsigned i = 0; i < 5 * INTERVAL_MS; i++) {
        uint64_t before = looks(&w, MANY);

        sim_run_ms(w.loop, 1);
        before = looks(&w, MANY) - before;
        most = before > most ? before : most;
    }
    ok(looks(&w, MANY) - all >= 4 * (MANY + 1), "all are looked at in every interval");
    is_u64(most, AT_ONCE, "never more than a few in one turn");
    world_end(&w);
}

int main(void)
{
    come_together();
    not_all_go_along();
    not_too_many();
    return tap_end();
}
