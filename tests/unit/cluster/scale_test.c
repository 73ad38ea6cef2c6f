/* SPDX-License-Identifier: Apache-2.0 */
/* As many servers at once as there may be, out-of-order answers, a storm of changes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { MANY = LIMIT_PEERS };

static void all_at_once(void)
{
    struct cluster_kit w;
    static struct kube_server *peers[MANY];
    char hostname[32], address[32], apis[100];
    size_t known = 0;

    cluster_kit_init(&w, KIT_BASE);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(hostname, sizeof(hostname), "node-%d", i);
        (void)snprintf(address, sizeof(address), "10.1.%d.%d:6443", i / 250, i % 250 + 1);
        (void)snprintf(apis, sizeof(apis), KIT_BASE ";batch/v%d:jobs;g%d.example.com/v1:things", i % 3 + 1, i % 50);
        peers[i] = cluster_kit_peer(&w, hostname, address, apis);
        /* Answers come in any order, from 1 to 500 ms. */
        kube_sim(peers[i])->delay_ms = 1 + (uint64_t)(i * 7919) % 500;
    }
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 5000), "ready with %d peers", MANY);
    for (int i = 0; i < MANY; i++)
        known += cluster_kit_peer_of(&w, peers[i]) != NULL && cluster_kit_peer_of(&w, peers[i])->discovery_known;
    is_u64(known, MANY, "all of them are known");
    ok(cluster_kit_peer_serves(&w, peers[17], "g17.example.com", "v1", "things"), "one of them is asked for its own");
    is_str(cluster_kit_freshness(&w, "g49.example.com"), "Current", "and merged");
    for (int i = 0; i < MANY; i += 2)
        kube_stop(peers[i], i % 4 == 0);
    sim_run_ms(w.loop, 60000);
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "live", NULL), MANY / 2, "half of them gone: half live");
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "lapsed", NULL), MANY / 2,
              "those that crashed or left have lapsed");
    is_u64(served_n_peers(cluster_served(w.cluster)), MANY, "and are kept");
    is_str(cluster_kit_freshness(&w, "g1.example.com"), "Current", "what others serve is current");
    is_str(cluster_kit_freshness(&w, "g2.example.com"), "Stale", "what only crashed ones serve is stale");
    for (int i = 0; i < 20; i++) {
        (void)snprintf(hostname, sizeof(hostname), "newcomer-%d", i);
        (void)snprintf(address, sizeof(address), "10.2.0.%d:6443", i + 1);
        cluster_kit_peer(&w, hostname, address, KIT_BASE);
    }
    sim_run_ms(w.loop, 1000);
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "live", NULL), MANY / 2 + 20,
              "a full table has room for newcomers");
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "lapsed", NULL), MANY / 2 - 20, "in the place of some that left");
    cluster_kit_end(&w);
}

static void one_too_many(void)
{
    struct cluster_kit w;
    char hostname[32], address[32];

    cluster_kit_init(&w, KIT_BASE);
    for (int i = 0; i < MANY + 20; i++) {
        (void)snprintf(hostname, sizeof(hostname), "node-%d", i);
        (void)snprintf(address, sizeof(address), "10.1.%d.%d:6443", i / 250, i % 250 + 1);
        cluster_kit_peer(&w, hostname, address, KIT_BASE);
    }
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 5000), "ready");
    is_u64(served_n_peers(cluster_served(w.cluster)), MANY, "no more than the limit");
    cluster_kit_end(&w);
}

/* Whatever happens in whatever order: when it is over, the layer knows what is true. */
static void storm(uint64_t seed)
{
    static const char *const apis[] = {KIT_BASE, KIT_BATCH, KIT_BASE ";batch/v2:jobs",
                                       KIT_BATCH ";policy/v1:poddisruptionbudgets"};
    struct cluster_kit w;
    struct kube_server *peers[6];
    size_t serves[6];
    bool up[6];
    char hostname[32], address[32], reason[128];
    bool right = true;

    srandom((unsigned)seed);
    cluster_kit_init(&w, KIT_BASE);
    sim_seed(seed);
    for (size_t i = 0; i < ROWS(peers); i++) {
        (void)snprintf(hostname, sizeof(hostname), "node-%zu", i);
        (void)snprintf(address, sizeof(address), "10.1.0.%zu:6443", i + 1);
        peers[i] = cluster_kit_peer(&w, hostname, address, apis[1]);
        serves[i] = 1;
        up[i] = true;
    }
    cluster_kit_start(&w);
    for (int step = 0; step < 120; step++) {
        size_t i = (size_t)random() % ROWS(peers);

        switch (random() % 9) {
        case 0:
            kube_stop(peers[i], random() % 2);
            up[i] = false;
            break;
        case 1:
        case 2:
            serves[i] = (size_t)random() % ROWS(apis);
            kube_set_apis(peers[i], apis[serves[i]]);
            kube_set_form(peers[i], (enum kube_form)(random() % 3));
            kube_start(peers[i], (random() % 1000 - 500) * 1000000);
            up[i] = true;
            break;
        case 3:
            sim_server_break(kube_sim(w.local));
            break;
        case 4:
            kube_compact(w.store);
            sim_server_break(kube_sim(w.local));
            break;
        case 5:
            kube_sim(peers[i])->delay_ms = (uint64_t)random() % 3000;
            break;
        case 6:
            kube_set_garbage(peers[i], random() % 2 ? "{]" : NULL);
            break;
        case 7:
            cluster_peer_suspect(w.cluster, kube_id(peers[i]));
            break;
        case 8:
            cluster_refresh(w.cluster);
            break;
        }
        sim_run_ms(w.loop, (uint64_t)random() % 2000);
    }
    for (size_t i = 0; i < ROWS(peers); i++) {
        kube_set_garbage(peers[i], NULL);
        kube_sim(peers[i])->delay_ms = 5;
    }
    sim_run_ms(w.loop, 6 * 60000);
    for (size_t i = 0; i < ROWS(peers); i++) {
        bool batch1 = serves[i] == 1 || serves[i] == 3, batch2 = serves[i] == 2;

        right = right && (cluster_kit_peer_of(&w, peers[i]) != NULL) == up[i];
        right = right && cluster_kit_peer_serves(&w, peers[i], "batch", "v1", "jobs") == (up[i] && batch1);
        right = right && cluster_kit_peer_serves(&w, peers[i], "batch", "v2", "jobs") == (up[i] && batch2);
    }
    ok(right, "after storm %llu everything believed is true", (unsigned long long)seed);
    ok(cluster_peers_synced(w.cluster, reason, sizeof(reason)) && !served_unknown_peer(cluster_served(w.cluster)),
       "storm %llu: and nothing is unknown", (unsigned long long)seed);
    cluster_kit_end(&w);
}

int main(void)
{
    all_at_once();
    one_too_many();
    for (uint64_t seed = 1; seed <= 25; seed++)
        storm(seed);
    return tap_end();
}
