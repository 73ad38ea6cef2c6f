/* Whether an mvproxy stands before a peer: learned from its answers to our marked requests, believed no longer than it
 * is certain. */
#include "lib/tap.h"
#include "sim/world.h"

#define HOP "apiserver-scg43bmblmfhqplxpiyqlziyzi"

enum { A_LOOK_MS = 1500 };

static bool mvproxy_there(struct world *w, const struct kube_server *k)
{
    const struct served_peer *p = world_peer_of(w, k);

    return p != NULL && p->mvproxy;
}

static void look(struct world *w, const struct kube_server *k)
{
    cluster_peer_suspect(w->cluster, kube_id(k));
    sim_run_ms(w->loop, A_LOOK_MS);
}

static struct kube_server *start(struct world *w, const char *hop)
{
    struct kube_server *b;

    world_init(w, WORLD_BASE);
    b = world_peer(w, "cp-b", "10.0.0.2:6443", WORLD_BATCH);
    kube_set_hop(b, hop);
    world_start(w);
    ok(world_ready(w, 2000), "ready");
    return b;
}

static void comes_and_goes(void)
{
    struct world w;
    struct kube_server *b = start(&w, NULL);
    uint64_t generation;

    ok(!mvproxy_there(&w, b), "a bare kube-apiserver is none");
    sim_run_ms(w.loop, A_LOOK_MS);
    generation = served_generation(cluster_served(w.cluster));
    kube_set_hop(b, HOP);
    look(&w, b);
    ok(mvproxy_there(&w, b), "it says so with a 304");
    ok(kube_not_modified(b) > 0, "the document had not changed");
    ok(served_generation(cluster_served(w.cluster)) > generation, "this alone makes a new snapshot");
    generation = served_generation(cluster_served(w.cluster));
    look(&w, b);
    is_u64(served_generation(cluster_served(w.cluster)), generation, "the same again makes none");
    kube_set_hop(b, NULL);
    look(&w, b);
    ok(!mvproxy_there(&w, b), "and is gone again");
    kube_set_hop(b, "anything");
    look(&w, b);
    ok(!mvproxy_there(&w, b), "what is no server ID says nothing");
    world_end(&w);
}

/* A new process may be the bare server: our certificate with somebody's token could make that one us. */
static void not_beyond_its_process(void)
{
    struct world w;
    struct kube_server *b = start(&w, HOP);

    ok(mvproxy_there(&w, b), "in the first document's answer");
    kube_sim(b)->fault = SIM_HANG;
    look(&w, b);
    ok(mvproxy_there(&w, b), "silence says nothing against it");
    kube_start(b, 0);
    kube_sim(b)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, A_LOOK_MS);
    ok(world_peer_of(&w, b) != NULL && !mvproxy_there(&w, b), "another holder: not until it has answered");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 10000 + A_LOOK_MS);
    ok(mvproxy_there(&w, b), "it has answered");
    world_end(&w);
}

static void local_server_is_none(void)
{
    struct world w;

    world_init(&w, WORLD_BASE);
    kube_set_hop(w.local, HOP);
    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    is_u64(kube_unmarked(w.local), 0, "the local server is asked without marks, and says nothing");
    world_end(&w);
}

int main(void)
{
    comes_and_goes();
    not_beyond_its_process();
    local_server_is_none();
    return tap_end();
}
