/* SPDX-License-Identifier: Apache-2.0 */
/* What the whole layer makes of what the servers say: stories, each in a world of its own. */
#include "base/buf.h"
#include "base/changes.h"
#include "cluster/cluster_view.h"
#include "cluster/pulse.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

static void mixed_pair(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(!served_synced(cluster_served(w.cluster)), "nothing is known at the start");
    ok(cluster_kit_ready(&w, 2000), "ready within two seconds");
    ok(served_synced(cluster_served(w.cluster)), "the snapshot says so too");
    is_u64(served_n_peers(cluster_served(w.cluster)), 1, "one peer, not ourselves");
    ok(cluster_kit_local_serves(&w, "apps", "v1", "deployments"), "deployments are local");
    ok(!cluster_kit_local_serves(&w, "batch", "v1", "jobs"), "jobs are not");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "jobs are at the peer");
    is_str(cluster_kit_peer_of(&w, b)->id, kube_id(b), "the peer is named by its server ID");
    is_str(origin_address(cluster_kit_peer_of(&w, b)->origin), "10.0.0.2:6443",
           "its address comes from the annotation");
    ok(!served_unknown_peer(cluster_served(w.cluster)), "nobody's discovery is unknown");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "the merged document has the peer's group");
    is_slice(served_local_etag(cluster_served(w.cluster), SERVED_APIS), kube_etag(w.local),
             "the local tag is the local server's");
    ok(!slice_eq(served_merged(cluster_served(w.cluster), SERVED_V2)->etag, slice_str(kube_etag(w.local))),
       "the merged tag is another");
    is_u64(kube_unmarked(w.local) + kube_unmarked(b), 0, "every request had identity and, to the peer, loop marks");
    cluster_kit_end(&w);
}

static void alone(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready without peers");
    ok(slice_eq(served_merged(cluster_served(w.cluster), SERVED_V2)->body, kube_document(w.local)),
       "the local document byte for byte");
    is_slice(served_merged(cluster_served(w.cluster), SERVED_V2)->etag, kube_etag(w.local), "under its own tag");
    is_u64(served_n_peers(cluster_served(w.cluster)), 0, "no peers");
    cluster_kit_end(&w);
}

static void same_everywhere(void)
{
    struct cluster_kit a, b;
    struct slice body_a, body_b, etag_a, etag_b;

    /* The second world is the first seen from the other node. */
    cluster_kit_init(&a, KIT_BASE ";resource.k8s.io/v1:deviceclasses");
    cluster_kit_peer(&a, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&a);
    ok(cluster_kit_ready(&a, 2000), "ready at the one node");
    cluster_kit_init(&b, KIT_BATCH);
    b.opts.hostname = "cp-b";
    kube_stop(b.local, true);
    b.local = kube_server_new(b.store, b.back, "cp-b", "10.0.0.1:6443", KIT_BATCH);
    kube_start(b.local, 0);
    cluster_kit_peer(&b, "cp-a", "10.0.0.2:6443", KIT_BASE ";resource.k8s.io/v1:deviceclasses");
    cluster_kit_start(&b);
    ok(cluster_kit_ready(&b, 2000), "ready at the other");
    body_a = served_merged(cluster_served(a.cluster), SERVED_V2)->body;
    body_b = served_merged(cluster_served(b.cluster), SERVED_V2)->body;
    etag_a = served_merged(cluster_served(a.cluster), SERVED_V2)->etag;
    etag_b = served_merged(cluster_served(b.cluster), SERVED_V2)->etag;
    ok(slice_eq(body_a, body_b), "the same bytes on both nodes");
    ok(etag_a.n == 130 && slice_eq(etag_a, etag_b), "the same tag on both nodes");
    body_a = served_merged(cluster_served(a.cluster), SERVED_V2BETA1)->body;
    ok(memmem(body_a.p, body_a.n, "apidiscovery.k8s.io/v2beta1", 27) != NULL, "v2beta1 is there as well");
    cluster_kit_end(&b);
    cluster_kit_end(&a);
}

static void superset(void)
{
    struct cluster_kit a, b;

    /* Merged equals the larger server's own document; its tag must still be the same on both nodes. */
    cluster_kit_two(&a, KIT_BATCH, &b, KIT_BASE);
    ok(slice_eq(served_merged(cluster_served(a.cluster), SERVED_V2)->body,
                served_merged(cluster_served(b.cluster), SERVED_V2)->body),
       "the same bytes");
    ok(slice_eq(served_merged(cluster_served(a.cluster), SERVED_V2)->etag,
                served_merged(cluster_served(b.cluster), SERVED_V2)->etag),
       "the same tag");
    cluster_kit_end(&b);
    cluster_kit_end(&a);
}

/* What each server takes from itself alone must not make their documents differ. */
static void same_with_crds(void)
{
    static const char older[] = KIT_BASE ";example.com/v1:widgets", newer[] =
                                                                        KIT_BASE ";resource.k8s.io/v1:deviceclasses;"
                                                                                 "example.com/v1:widgets";
    struct cluster_kit a, b;

    cluster_kit_init(&a, older);
    cluster_kit_peer(&a, "cp-b", "10.0.0.2:6443", newer);
    kube_put_crd(a.store, "widgets.example.com", "example.com", "v1");
    cluster_kit_start(&a);
    ok(cluster_kit_ready(&a, 2000), "ready at the older one");
    cluster_kit_init(&b, newer);
    kube_delete(b.store, KUBE_LEASE, kube_id(b.local));
    kube_pause_renewal(b.local, true);
    b.opts.hostname = "cp-b";
    cluster_kit_peer(&b, "cp-a", "10.0.0.2:6443", older);
    kube_put_crd(b.store, "widgets.example.com", "example.com", "v1");
    cluster_kit_start(&b);
    ok(cluster_kit_ready(&b, 2000), "ready at the newer one");
    is_str(cluster_kit_freshness(&a, "example.com"), "Current", "a custom resource's group is there");
    ok(slice_eq(served_merged(cluster_served(a.cluster), SERVED_V2)->body,
                served_merged(cluster_served(b.cluster), SERVED_V2)->body),
       "in the same bytes on both nodes");
    cluster_kit_end(&b);
    cluster_kit_end(&a);
}

/* Legacy /apis lists the stored APIServices; an older server deletes those of what it does not have. */
static void unregistered(bool schemas)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_set_form(b, KUBE_LEGACY);
    kube_list_registered(b);
    kube_set_schemas(b, schemas ? "A" : NULL);
    kube_put_apiservice(w.store, "apps", "v1", false);
    if (!schemas)
        kube_put_apiservice(w.store, "batch", "v1", false);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    if (!schemas) {
        ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "a server without an index has jobs");
        kube_delete(w.store, KUBE_APISERVICE, "v1.batch");
        sim_run_ms(w.loop, 90000);
    }
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "jobs are known where no APIService names them, %s an index", schemas ? "by" : "without");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "and advertised");
    kube_set_apis(b, KIT_BASE);
    sim_run_ms(w.loop, 90000);
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "what the server has no more is gone");
    cluster_kit_end(&w);
}

static void forms(void)
{
    static const struct {
        enum kube_form form;
        const char *name;
    } rows[] = {{KUBE_V2, "v2"}, {KUBE_V2BETA1, "v2beta1"}, {KUBE_LEGACY, "legacy"}};

    for (size_t local = 0; local < ROWS(rows); local++)
        for (size_t peer = 0; peer < ROWS(rows); peer++) {
            struct cluster_kit w;
            struct kube_server *b;

            cluster_kit_init(&w, KIT_BASE);
            b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH ";policy/v1:poddisruptionbudgets");
            kube_set_form(w.local, rows[local].form);
            kube_set_form(b, rows[peer].form);
            cluster_kit_start(&w);
            ok(cluster_kit_ready(&w, 3000) && cluster_kit_local_serves(&w, "apps", "v1", "replicasets") &&
                   cluster_kit_local_serves(&w, "", "v1", "pods") &&
                   cluster_kit_peer_serves(&w, b, "batch", "v1", "cronjobs") &&
                   !strcmp(cluster_kit_freshness(&w, "policy"), "Current"),
               "local %s, peer %s", rows[local].name, rows[peer].name);
            cluster_kit_end(&w);
        }
}

static void conditional(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    uint64_t generation, answers;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    generation = served_generation(cluster_served(w.cluster));
    answers = kube_discovery_requests(b);
    sim_run_ms(w.loop, 10 * 60000);
    answers = kube_discovery_requests(b) - answers;
    ok(answers >= 2 * 18 && answers <= 2 * 23, "both documents are asked for every 30 s");
    is_u64(kube_not_modified(b), answers, "each answered with 304");
    is_u64(served_generation(cluster_served(w.cluster)), generation, "no new snapshot out of nothing");
    kube_set_apis(b, KIT_BASE ";batch/v2:jobs");
    sim_run_ms(w.loop, 34000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v2", "jobs"), "a change is seen within an interval");
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and what is gone is gone");
    cluster_kit_end(&w);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

static void local_miss(void)
{
    struct cluster_kit w;
    int called = 0, forgotten = 0;
    uint64_t before;
    struct cluster_waiter *gone;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 5000);
    kube_set_apis(w.local, KIT_BATCH);
    before = kube_discovery_requests(w.local);
    for (int i = 0; i < 100; i++)
        ok(cluster_local_miss(w.cluster, count, &called) != NULL, "waiter %d", i);
    gone = cluster_local_miss(w.cluster, count, &forgotten);
    cluster_forget_waiter(w.cluster, gone);
    ok(cluster_local_miss(w.cluster, NULL, NULL) == NULL, "one who does not wait");
    is_int(called, 0, "nobody is called from inside");
    sim_run_ms(w.loop, 100);
    is_int(called, 100, "all are called once");
    is_int(forgotten, 0, "but not who has left");
    ok(cluster_kit_local_serves(&w, "batch", "v1", "jobs"), "after the new snapshot");
    is_u64(kube_discovery_requests(w.local) - before, 2, "one look for all");
    before = kube_discovery_requests(w.local);
    for (int i = 0; i < 50; i++) {
        ok(cluster_local_miss(w.cluster, count, &called) != NULL, "miss %d", i);
        sim_run_ms(w.loop, 100);
    }
    sim_run_ms(w.loop, 1100);
    ok(kube_discovery_requests(w.local) - before <= 2 * 7, "at most one look a second");
    is_int(called, 150, "everybody is called in the end");
    kube_sim(w.local)->fault = SIM_REFUSE;
    ok(cluster_local_miss(w.cluster, count, &called) != NULL, "a miss while the server is away");
    sim_run_ms(w.loop, 1100);
    is_int(called, 151, "is called as well");
    ok(cluster_kit_local_serves(&w, "batch", "v1", "jobs"), "and the document has survived");
    ok(cluster_local_miss(w.cluster, count, &called) != NULL, "one who waits when all is freed");
    cluster_kit_end(&w);
    is_int(called, 151, "is not called, and freed as well");
}

struct unread_look {
    const struct cluster *cluster;
    int looks;
    bool unread;
};

static void on_looked(void *arg)
{
    struct unread_look *l = arg;

    l->looks++;
    l->unread = cluster_local_unread(l->cluster);
}

/* Who has waited for a look knows whether there could be one. */
static void unread(void)
{
    struct cluster_kit w;
    struct unread_look l = {.looks = 0};

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    l.cluster = w.cluster;
    ok(cluster_kit_ready(&w, 2000) && !cluster_local_unread(w.cluster), "ready: it was read");
    sim_run_ms(w.loop, 5000);
    for (enum sim_fault f = SIM_FINE; f <= SIM_CUT; f++) {
        kube_sim(w.local)->fault = f;
        l.unread = f == SIM_FINE;
        ok(cluster_local_miss(w.cluster, on_looked, &l) != NULL, "fault %d: waits for a look", (int)f);
        sim_run_ms(w.loop, 30000);
        is_int(l.looks, (int)f + 1, "and is called");
        is_int(l.unread, f != SIM_FINE, "and told whether it could be read");
    }
    kube_sim(w.local)->fault = SIM_FINE;
    ok(cluster_local_miss(w.cluster, on_looked, &l) != NULL, "all is well again");
    sim_run_ms(w.loop, 30000);
    ok(l.looks == SIM_CUT + 2 && !l.unread, "it could be read");
    cluster_kit_end(&w);
}

static void garbage(void)
{
    static const char *const bodies[] = {
        "",
        "{",
        "null",
        "[]",
        "<html>not found</html>",
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v3\",\"items\":[]}",
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"items\":{}}",
        ("{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/"
         "v2\",\"items\":[{\"metadata\":{\"name\":7}}]}"),
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"items\":[",
    };
    struct cluster_kit w;
    struct kube_server *b, *c;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BASE ";policy/v1:poddisruptionbudgets");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (size_t i = 0; i < ROWS(bodies); i++) {
        kube_set_garbage(b, bodies[i]);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 3000);
        ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs") &&
               cluster_kit_peer_serves(&w, c, "policy", "v1", "poddisruptionbudgets"),
           "garbage %zu: the last known document stays, nobody else notices", i);
        is_str(cluster_kit_freshness(&w, "batch"), "Stale", "garbage %zu: what only it serves is stale", i);
        is_str(cluster_kit_freshness(&w, "policy"), "Current", "garbage %zu: the other's is not", i);
        kube_set_garbage(b, NULL);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 1000);
        is_str(cluster_kit_freshness(&w, "batch"), "Current", "garbage %zu: healed", i);
    }
    ok(cluster_kit_metric(&w, "apiserver_peer_discovery_sync_errors_total", "fetch_discovery", NULL) >=
           (double)ROWS(bodies),
       "and counted");
    cluster_kit_end(&w);
}

static void slow_peer(void)
{
    struct cluster_kit w;
    struct kube_server *b, *c;
    char reason[128];

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BASE ";policy/v1:poddisruptionbudgets");
    kube_sim(b)->fault = SIM_HANG;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_serves(&w, c, "policy", "v1", "poddisruptionbudgets"), "one that hangs does not delay another");
    ok(served_unknown_peer(cluster_served(w.cluster)), "it is unknown, which is not the same as not found");
    ok(!cluster_peers_synced(w.cluster, reason, sizeof(reason)), "its first answer is awaited");
    ok(strstr(reason, "cp-b") != NULL, "by name: %s", reason);
    sim_run_ms(w.loop, 5000);
    ok(cluster_peers_synced(w.cluster, reason, sizeof(reason)), "but not for ever");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 15000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "after its deadline it is asked again");
    ok(!served_unknown_peer(cluster_served(w.cluster)), "and known");
    cluster_kit_end(&w);
}

static void suspicion(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    uint64_t before;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 5000);
    before = kube_discovery_requests(b);
    kube_set_apis(b, KIT_BASE);
    for (int i = 0; i < 1000; i++)
        cluster_peer_suspect(w.cluster, kube_id(b));
    cluster_peer_suspect(w.cluster, "apiserver-of-nobody");
    sim_run_ms(w.loop, 50);
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "a suspect is looked at at once");
    is_u64(kube_discovery_requests(b) - before, 2, "once");
    is_str(cluster_kit_freshness(&w, "batch"), "", "and its group leaves the merged document");
    cluster_kit_end(&w);
}

static void etag_seen(void)
{
    struct cluster_kit w;
    uint64_t before;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 5000);
    before = kube_discovery_requests(w.local);
    cluster_local_etag_seen(w.cluster, slice_str(kube_etag(w.local)));
    sim_run_ms(w.loop, 500);
    is_u64(kube_discovery_requests(w.local), before, "the tag that we have is no news");
    kube_set_apis(w.local, KIT_BATCH);
    cluster_local_etag_seen(w.cluster, slice_str(kube_etag(w.local)));
    sim_run_ms(w.loop, 500);
    ok(cluster_kit_local_serves(&w, "batch", "v1", "jobs"), "another one is");
    cluster_kit_end(&w);
}

static void local_restart(void)
{
    struct cluster_kit w;
    char reason[128];

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 12345);
    kube_stop(w.local, true);
    sim_run_ms(w.loop, 1000);
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)), "its going is noticed within a second: %s", reason);
    ok(cluster_kit_local_serves(&w, "apps", "v1", "deployments"), "what it served is remembered");
    sim_run_ms(w.loop, 20000);
    kube_set_apis(w.local, KIT_BATCH);
    kube_start(w.local, 0);
    sim_run_ms(w.loop, 13000);
    ok(cluster_local_reachable(w.cluster, reason, sizeof(reason)), "its return is noticed");
    ok(cluster_kit_local_serves(&w, "batch", "v1", "jobs"), "with what it serves now");
    cluster_kit_end(&w);
}

/* For operators who ask why a client got 503. */
static void denies_what_it_lists(void)
{
    const struct gvr jobs = {SLICE_LIT("batch"), SLICE_LIT("v1"), SLICE_LIT("jobs")},
                     pods = {SLICE_LIT(""), SLICE_LIT("v1"), SLICE_LIT("pods")};
    struct changes *changes = changes_new();
    struct cluster_kit w;
    uint64_t ago;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.changes = changes;
    cluster_kit_start(&w);
    cluster_disbelieved(w.cluster, "cp-b", &jobs);
    sim_run_ms(w.loop, 12000);
    ok(cluster_disbelieved_lately(w.cluster, "cp-b", &jobs, &ago), "a 404 that was not believed is remembered");
    ok(!cluster_disbelieved_lately(w.cluster, "cp-c", &jobs, &ago) &&
           !cluster_disbelieved_lately(w.cluster, "cp-b", &pods, &ago),
       "of that server, for that resource");
    cluster_kit_end(&w);
    changes_free(changes);
}

/* It keeps its connections and says nothing any more: nobody's requests have to tell us. */
static void local_stuck(void)
{
    struct cluster_kit w;
    char reason[192];

    cluster_kit_init(&w, KIT_BASE);
    w.opts.pulse = true;
    w.opts.local_failover = true;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 12345);
    kube_sim(w.local)->fault = SIM_HANG;
    sim_run_ms(w.loop, PULSE_INTERVAL_MS + PULSE_INTERVAL_MS / 10 + PULSE_TIMEOUT_MS + 100);
    ok(cluster_local_reachable(w.cluster, reason, sizeof(reason)), "one answer that is missing is no outage");
    sim_run_ms(w.loop, PULSE_INTERVAL_MS + PULSE_TIMEOUT_MS);
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)), "two in a row are: %s", reason);
    cluster_local_describe(w.cluster, reason, sizeof(reason));
    ok(strstr(reason, "active") != NULL && strstr(reason, "does not answer") != NULL, "failover has begun: %s", reason);
    sim_run_ms(w.loop, 45000);
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)), "a local server that hangs is noticed: %s", reason);
    kube_sim(w.local)->fault = SIM_FINE;
    sim_run_ms(w.loop, 25000);
    ok(cluster_local_reachable(w.cluster, reason, sizeof(reason)), "and that it goes on");
    cluster_kit_end(&w);
}

static void unreachable_at_start(void)
{
    struct cluster_kit w;
    char reason[128];

    cluster_kit_init(&w, KIT_BASE);
    kube_sim(w.local)->fault = SIM_REFUSE;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 60000);
    ok(!served_synced(cluster_served(w.cluster)), "not synced");
    ok(!cluster_local_synced(w.cluster, reason, sizeof(reason)), "local discovery: %s", reason);
    ok(!cluster_leases_synced(w.cluster, reason, sizeof(reason)), "leases: %s", reason);
    ok(!cluster_peers_synced(w.cluster, reason, sizeof(reason)), "peers: %s", reason);
    kube_sim(w.local)->fault = SIM_FINE;
    ok(cluster_kit_ready(&w, 13000), "ready by itself when it comes");
    cluster_kit_end(&w);
}

/* Waiting for what we may not know would keep the local server's traffic down for ever. */
static void refused_at_start(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_forbid(w.local, "/", 403);
    cluster_kit_start(&w);
    ok(!cluster_kit_ready(&w, 0), "not ready before anybody was asked");
    ok(cluster_kit_ready(&w, 6000), "ready although nothing may be read");
    ok(served_forbidden(cluster_served(w.cluster)) && !served_synced(cluster_served(w.cluster)),
       "and nothing is believed");
    ok(!served_leases_listed(cluster_served(w.cluster)), "nor does anybody know who else is there");
    kube_forbid(w.local, "/api", 403);
    sim_run_ms(w.loop, 13000);
    ok(served_forbidden(cluster_served(w.cluster)) && !served_leases_listed(cluster_served(w.cluster)), "still");
    kube_forbid(w.local, "/apis/coordination.k8s.io", 403);
    sim_run_ms(w.loop, 13000);
    ok(cluster_kit_local_serves(&w, "apps", "v1", "deployments"), "discovery may be read: known");
    ok(!served_forbidden(cluster_served(w.cluster)) && !served_synced(cluster_served(w.cluster)), "the Leases are not");
    ok(cluster_kit_ready(&w, 0), "still ready");
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 13000);
    ok(served_synced(cluster_served(w.cluster)) && cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "all may be read");
    cluster_kit_end(&w);
}

static void switched_off(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    w.opts.peers_enabled = false;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready with peers off");
    ok(!served_peers_enabled(cluster_served(w.cluster)), "and says so");
    is_u64(kube_sim(b)->requests, 0, "the peer is not asked");
    is_u64(kube_watches(w.store, KUBE_LEASE), 0, "nor are leases watched");
    w.opts.peers_enabled = true;
    cluster_update(w.cluster, &w.opts);
    ok(cluster_kit_ready(&w, 2000) && cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "switched on by a reload");
    w.opts.peers_enabled = false;
    cluster_update(w.cluster, &w.opts);
    sim_run_ms(w.loop, 100);
    is_u64(served_n_peers(cluster_served(w.cluster)), 0, "and off again: no peers");
    is_str(cluster_kit_freshness(&w, "batch"), "", "and nothing of theirs in the document");
    ok(served_synced(cluster_served(w.cluster)), "still synced");
    w.opts.peers_enabled = true;
    cluster_update(w.cluster, &w.opts);
    ok(cluster_kit_ready(&w, 2000) && cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and on again");
    cluster_kit_end(&w);
}

/* A server before 1.26 is asked for each of its group/versions: several at a time, but not all. */
static void long_walk(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    struct buf apis;
    size_t before, most = 0;

    buf_init(&apis, 1 << 20);
    buf_append_str(&apis, KIT_BASE);
    for (int i = 0; i < 60; i++)
        buf_printf(&apis, ";g%d.example.com/v1:things%d", i, i);
    buf_append_char(&apis, '\0');
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", apis.p + apis.start);
    kube_set_form(b, KUBE_LEGACY);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 3000), "ready");
    sim_run_ms(w.loop, 3000);
    before = sim_open(w.back);
    kube_sim(b)->delay_ms = 20;
    cluster_refresh(w.cluster);
    for (unsigned ms = 0; ms < 1000; ms++) {
        sim_run_ms(w.loop, 1);
        most = sim_open(w.back) > before + most ? sim_open(w.back) - before : most;
    }
    ok(most >= 8 && most <= 9, "eight at once, and /api beside them (%zu)", most);
    ok(cluster_kit_peer_serves(&w, b, "g59.example.com", "v1", "things59"), "all are walked to");
    cluster_kit_end(&w);
    buf_free(&apis);
}

/* An mvproxy answers 503 for a server that has gone: nothing of that is an API that is unavailable. */
static void gone_amid_walk(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BASE ";batch/v1:jobs");
    kube_set_form(b, KUBE_LEGACY);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 3000), "ready");
    sim_run_ms(w.loop, 3000);
    kube_sim(b)->delay_ms = 20;
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 30); /* its list is there, its group/versions are not */
    kube_forbid(b, "/api", 503);
    sim_run_ms(w.loop, 100);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "what was known stays, where a server goes in the middle of a walk");
    for (unsigned away_ms = 10; away_ms <= 60; away_ms += 10) {
        kube_forbid(b, NULL, 0);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 3000);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 30);
        kube_forbid(b, "/api", 503);
        sim_run_ms(w.loop, away_ms);
        kube_forbid(b, NULL, 0);
        sim_run_ms(w.loop, 200);
        is_str(cluster_kit_freshness(&w, "batch"), "Current", "nor where it is back before the end of it, after %u ms",
               away_ms);
        ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and it has its resources");
    }
    kube_forbid(b, "/apis/batch", 503);
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 3000);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "a group/version alone is unavailable");
    cluster_kit_end(&w);
}

/* It is there again before the walk ends: what the mvproxy before it has said meanwhile, it has not said itself. */
static void away_amid_walk(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BASE ";batch/v1:jobs");
    kube_set_form(b, KUBE_LEGACY);
    kube_set_hop(b, kube_id(b));
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 3000), "ready");
    sim_run_ms(w.loop, 3000);
    kube_sim(b)->delay_ms = 20;
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 30);
    kube_set_hop(b, NULL);
    kube_forbid(b, "/apis/", 503);
    sim_run_ms(w.loop, 100);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "what was known stays, where an mvproxy answers for its server");
    kube_set_hop(b, kube_id(b));
    kube_forbid(b, "/apis/batch", 503);
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 3000);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "what it hands on is believed");
    cluster_kit_end(&w);
}

/* Ceilings: on bytes, on depth, on one part. */
static void enormous(void)
{
    static const char head[] =
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"items\":[";
    static const struct {
        const char *name, *part;
        size_t n;
    } rows[] = {
        {"over 24 MiB", "                                                                ", (24 << 20) / 64 + 1},
        {"a hundred thousand levels", "[", 100000},
        {"a long name without an end", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 100000},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct cluster_kit w;
        struct kube_server *b;
        struct buf body;

        buf_init(&body, 80 << 20);
        buf_append_str(&body, head);
        for (size_t k = 0; k < rows[i].n; k++)
            buf_append_str(&body, rows[i].part);
        buf_append_str(&body, "{\"metadata\":{}}]}");
        buf_append_char(&body, '\0');
        cluster_kit_init(&w, KIT_BASE);
        b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
        cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BASE ";policy/v1:poddisruptionbudgets");
        cluster_kit_start(&w);
        ok(!body.failed && cluster_kit_ready(&w, 2000), "%s: ready", rows[i].name);
        kube_set_garbage(b, body.p + body.start);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 1000);
        ok(cluster_kit_metric(&w, "apiserver_peer_discovery_sync_errors_total", "fetch_discovery", NULL) >= 1,
           "%s: counted", rows[i].name);
        ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "%s: the last known document stays", rows[i].name);
        is_str(cluster_kit_freshness(&w, "policy"), "Current", "%s: nobody else notices", rows[i].name);
        kube_set_garbage(b, NULL);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 1000);
        is_str(cluster_kit_freshness(&w, "batch"), "Current", "%s: healed", rows[i].name);
        cluster_kit_end(&w);
        buf_free(&body);
    }
}

static void big_document(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    const struct served_document *d;
    struct buf apis;

    buf_init(&apis, 8 << 20);
    buf_append_str(&apis, KIT_BASE);
    for (int i = 0; i < 600; i++)
        buf_printf(&apis, ";g%04d.example.com/v1:things%d,widgets%d", i, i, i);
    buf_append_char(&apis, '\0');
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", apis.p + apis.start);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 3000), "ready");
    ok(cluster_kit_peer_serves(&w, b, "g0599.example.com", "v1", "widgets599"), "a document in many pieces is whole");
    d = served_merged(cluster_served(w.cluster), SERVED_V2);
    ok(d->body.n > 128 << 10 && d->gzip.n > 0 && d->gzip.n < d->body.n / 2, "over 128 KiB there is a compressed form");
    ok(served_merged(cluster_served(w.cluster), SERVED_V2BETA1)->gzip.n > 0, "of both shapes");
    cluster_kit_end(&w);
    buf_free(&apis);
}

static void described(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    struct cluster_view v;
    struct buf text;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 7000);
    buf_init(&text, 1 << 20);
    cluster_describe(w.cluster, &text);
    ok(!text.failed && memmem(text.p, buf_len(&text), "\"leases\":{", 10) != NULL, "the parts describe themselves");
    ok(cluster_view_take(w.cluster, &v) && v.n == 2, "two servers");
    ok(v.servers[0].local && strcmp(v.servers[0].life, "local") == 0, "the local one first");
    ok(v.servers[0].leased && v.servers[0].lease_ms < 20000, "the age of its Lease");
    is_str(v.servers[1].host, "cp-b", "the peer by its host name");
    is_str(v.servers[1].id, kube_id(b), "and its ID");
    is_str(v.servers[1].life, "live", "it is live");
    is_str(v.servers[1].address, "10.0.0.2:6443", "at its address");
    ok(v.servers[1].known && v.servers[1].discovery_ms >= 6000 && v.servers[1].lease_ms < 20000, "ages");
    ok(v.servers[1].error == NULL && !v.servers[1].failing, "no error");
    ok(!v.servers[0].ejected && !v.servers[1].ejected, "nobody is an outlier");
    cluster_view_free(&v);
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "live", NULL), 1, "one live peer");
    ok(cluster_kit_metric(&w, "mvproxy_discovery_age_seconds", "cp-b", NULL) > 6, "the age of its document");
    ok(cluster_kit_metric(&w, "aggregator_discovery_peer_aggregated_cache_misses_total", NULL) >= 1,
       "builds are counted");
    ok(cluster_kit_metric(&w, "mvproxy_discovery_merge_seconds", NULL) >= 1, "and timed");
    ok(cluster_kit_metric(&w, "mvproxy_discovery_refreshes_total", "peer", "start", "changed", NULL) == 1,
       "refreshes by trigger and result");
    ok(cluster_kit_metric(&w, "mvproxy_discovery_merged_bytes", NULL) > 0, "size");
    ok(cluster_kit_metric(&w, "mvproxy_served_generation", NULL) > 0, "generation");
    buf_free(&text);
    cluster_kit_end(&w);
}

int main(void)
{
    mixed_pair();
    alone();
    same_everywhere();
    superset();
    same_with_crds();
    unregistered(true);
    unregistered(false);
    forms();
    conditional();
    local_miss();
    unread();
    garbage();
    slow_peer();
    suspicion();
    etag_seen();
    local_restart();
    denies_what_it_lists();
    local_stuck();
    unreachable_at_start();
    refused_at_start();
    switched_off();
    long_walk();
    gone_amid_walk();
    away_amid_walk();
    enormous();
    big_document();
    described();
    return tap_end();
}
