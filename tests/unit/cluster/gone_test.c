/* SPDX-License-Identifier: Apache-2.0 */
/* While the local server is away, what custom resources there are is what live peers list: it cannot say what went. */
#include "cluster/cluster_view.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define CUSTOM "example.com/v1"
#define BEFORE KIT_BASE ";" CUSTOM ":widgets,gadgets;old.io/v1:things"
#define AFTER KIT_BASE ";" CUSTOM ":gadgets,gizmos;new.io/v1:things"

enum { STEADY_MS = 31000, SOON_MS = 2500 };

/* Clients are shown the document. */
static bool is_shown(void *arg)
{
    struct cluster_kit *w = arg;
    char reason[200];

    return cluster_peers_synced(w->cluster, reason, sizeof(reason));
}

/* Who is in front of the peer, and what its /readyz says. */
struct peer_kind {
    const char *name;
    const char *says;    /* its mvproxy of it; NULL: nothing */
    const char *failing; /* check; NULL: none */
    bool bare;
};
static const struct peer_kind old_mvproxy = {.name = "a peer whose mvproxy does not say whether it is ready"};

/* Two servers that have been there for a while, and of which one goes, without which CRDs change. */
static struct kube_server *begin_with(struct cluster_kit *w, const struct peer_kind *kind, uint64_t for_ms)
{
    struct kube_server *b;

    cluster_kit_init(w, BEFORE ";batch/v1:jobs");
    w->opts.local_failover = w->opts.pulse = true;
    kube_put_crd(w->store, "widgets.example.com", "example.com", "v1");
    kube_put_crd(w->store, "gadgets.example.com", "example.com", "v1");
    kube_put_crd(w->store, "things.old.io", "old.io", "v1");
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", BEFORE);
    kube_set_hop(b, kind->bare ? NULL : kube_id(b));
    kube_set_hop_ready(b, kind->says);
    kube_fail_check(b, kind->failing);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready");
    sim_run_ms(w->loop, for_ms);
    return b;
}

static struct kube_server *begin(struct cluster_kit *w, uint64_t for_ms)
{
    return begin_with(w, &old_mvproxy, for_ms);
}

static void change(struct cluster_kit *w, struct kube_server *b)
{
    kube_delete(w->store, KUBE_CRD, "widgets.example.com");
    kube_delete(w->store, KUBE_CRD, "things.old.io");
    kube_put_crd(w->store, "gizmos.example.com", "example.com", "v1");
    kube_put_crd(w->store, "things.new.io", "new.io", "v1");
    kube_set_apis(b, AFTER);
}

static bool shows_before(struct cluster_kit *w)
{
    return cluster_kit_merged_has(w, "widgets") && cluster_kit_merged_has(w, "gadgets") &&
           cluster_kit_merged_has(w, "old.io");
}

static bool shows_after(struct cluster_kit *w)
{
    return !cluster_kit_merged_has(w, "widgets") && cluster_kit_merged_has(w, "gadgets") &&
           cluster_kit_merged_has(w, "gizmos") && cluster_kit_merged_has(w, "new.io") &&
           !cluster_kit_merged_has(w, "old.io");
}

static void goes_and_returns(void)
{
    struct cluster_kit w;
    struct kube_server *b = begin(&w, STEADY_MS);
    uint64_t asked = kube_discovery_requests(b);
    unsigned stale = 0;

    kube_stop(w.local, false);
    for (unsigned i = 0; i < SOON_MS / 50; i++) {
        sim_run_ms(w.loop, 50);
        stale += strcmp(cluster_kit_freshness(&w, "example.com"), "Current") != 0;
    }
    ok(shows_before(&w), "nothing has changed yet");
    is_u64(stale, 0, "nor does a custom resource lapse for a moment");
    change(&w, b);
    sim_run_ms(w.loop, SOON_MS);
    ok(shows_after(&w), "what was deleted is gone, and what came is there");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "what only the local server has stays, Stale as on every node");
    is_str(cluster_kit_freshness(&w, "apps"), "Current", "and what others have is as it was");
    asked = kube_discovery_requests(b) - asked;
    ok(asked >= 4 && asked <= 16, "the peer is read once a second (%llu)", (unsigned long long)asked);
    /* It is there, and has not read what CRDs there are. */
    kube_set_apis(w.local, KIT_BASE);
    kube_fail_check(w.local, "poststarthook/crd-informer-synced");
    kube_start(w.local, 0);
    sim_run_ms(w.loop, SOON_MS);
    ok(shows_after(&w), "nor do custom resources vanish because a server starts");
    kube_fail_check(w.local, NULL);
    kube_set_apis(w.local, KIT_BASE ";" CUSTOM ":gadgets");
    sim_run_ms(w.loop, SOON_MS);
    ok(cluster_kit_merged_has(&w, "gadgets") && !cluster_kit_merged_has(&w, "gizmos"),
       "ready, it says itself what there is");
    ok(!cluster_kit_merged_has(&w, "batch"), "and what it lost is gone");
    asked = kube_discovery_requests(b);
    sim_run_ms(w.loop, SOON_MS);
    ok(kube_discovery_requests(b) - asked <= 2, "and the peer is read as ever");
    cluster_kit_end(&w);
}

static bool all_are(struct cluster_kit *w, const char *freshness)
{
    return strcmp(cluster_kit_freshness(w, "example.com"), freshness) == 0 &&
           strcmp(cluster_kit_freshness(w, "old.io"), freshness) == 0;
}

static bool said_to_operators(struct cluster_kit *w)
{
    struct cluster_view v;
    bool stale;

    if (!cluster_view_take(w->cluster, &v))
        tap_bail("no memory for the view");
    stale = v.custom_stale;
    cluster_view_free(&v);
    return stale;
}

/* Who has just come, or come back, may not know yet what there is. */
static void not_of_anybody(void)
{
    struct cluster_kit w;
    struct kube_server *b = begin(&w, SOON_MS);

    kube_stop(w.local, false);
    change(&w, b);
    sim_run_ms(w.loop, SOON_MS);
    ok(shows_before(&w), "a peer that has just come is not believed to know them all");
    ok(all_are(&w, "Stale"), "nor is anybody else: what there is nobody knows");
    ok(said_to_operators(&w), "which is said");
    is_str(cluster_kit_freshness(&w, "apps"), "Current", "what is no custom resource is known");
    sim_run_ms(w.loop, STEADY_MS);
    ok(shows_after(&w) && !said_to_operators(&w), "later it is");
    is_str(cluster_kit_freshness(&w, "example.com"), "Current", "and what it has is there");
    kube_stop(b, false);
    sim_run_ms(w.loop, SOON_MS);
    kube_set_apis(b, KIT_BASE);
    kube_start(b, 0);
    sim_run_ms(w.loop, SOON_MS);
    is_str(cluster_kit_freshness(&w, "example.com"), "Stale", "nor one that was away, and may have been started again");
    sim_run_ms(w.loop, STEADY_MS);
    ok(!cluster_kit_merged_has(&w, "gadgets"), "unless it says so for long");
    cluster_kit_end(&w);
}

/* That it is ready is known of it: so it need not have been there for long. */
static void knows_at_once(const struct peer_kind *kind)
{
    struct cluster_kit w;
    struct kube_server *b = begin_with(&w, kind, SOON_MS);

    kube_stop(w.local, false);
    change(&w, b);
    sim_run_ms(w.loop, SOON_MS);
    ok(shows_after(&w) && strcmp(cluster_kit_freshness(&w, "example.com"), "Current") == 0, "%s: it knows them all",
       kind->name);
    kube_stop(b, false);
    sim_run_ms(w.loop, SOON_MS);
    kube_set_apis(b, KIT_BASE);
    kube_fail_check(b, "poststarthook/start-apiextensions-informers");
    kube_set_hop_ready(b, kind->bare ? NULL : "false");
    kube_start(b, 0);
    sim_run_ms(w.loop, SOON_MS);
    is_str(cluster_kit_freshness(&w, "example.com"), "Stale", "one that starts does not");
    kube_set_apis(b, AFTER);
    kube_fail_check(b, NULL);
    kube_set_hop_ready(b, kind->says);
    sim_run_ms(w.loop, SOON_MS);
    is_str(cluster_kit_freshness(&w, "example.com"), "Current", "ready again, it does");
    cluster_kit_end(&w);
}

/* What is only starting may do so for long. */
static void never_while_loading(void)
{
    static const struct peer_kind kind = {.name = "an mvproxy before a server that starts", .says = "false"};
    struct cluster_kit w;
    struct kube_server *b = begin_with(&w, &kind, STEADY_MS);

    kube_stop(w.local, false);
    kube_set_apis(b, KIT_BASE);
    sim_run_ms(w.loop, STEADY_MS);
    is_str(cluster_kit_freshness(&w, "example.com"), "Stale", "%s: it has no say", kind.name);
    cluster_kit_end(&w);
}

/* Not ready for another reason, or not to be asked: nobody says whether it has read all. */
static void nobody_says(const struct peer_kind *kind)
{
    struct cluster_kit w;
    struct kube_server *b = begin_with(&w, kind, SOON_MS);

    kube_stop(w.local, false);
    change(&w, b);
    sim_run_ms(w.loop, SOON_MS);
    is_str(cluster_kit_freshness(&w, "example.com"), "Stale", "%s: not believed at once", kind->name);
    sim_run_ms(w.loop, STEADY_MS);
    is_str(cluster_kit_freshness(&w, "example.com"), "Current", "but later");
    cluster_kit_end(&w);
}

/* A server that starts alone: nobody else says what vanishes. */
static void alone(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, BEFORE);
    w.opts.local_failover = w.opts.pulse = true;
    kube_put_crd(w.store, "widgets.example.com", "example.com", "v1");
    kube_put_crd(w.store, "things.old.io", "old.io", "v1");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000) && all_are(&w, "Current"), "ready");
    kube_stop(w.local, false);
    sim_run_ms(w.loop, 1000);
    ok(all_are(&w, "Current"), "what was read a second ago may well be so");
    sim_run_ms(w.loop, SOON_MS);
    ok(all_are(&w, "Stale") && shows_before(&w), "what was read some seconds ago may be otherwise");
    kube_set_apis(w.local, KIT_BASE);
    kube_fail_check(w.local, "poststarthook/crd-informer-synced");
    kube_start(w.local, 0);
    for (unsigned i = 0; i < 200 && all_are(&w, "Stale"); i++)
        sim_run_ms(w.loop, 10);
    ok(all_are(&w, "Stale"), "nor do they vanish while it starts");
    kube_fail_check(w.local, NULL);
    kube_set_apis(w.local, BEFORE);
    for (unsigned i = 0; i < 200 && all_are(&w, "Stale"); i++)
        sim_run_ms(w.loop, 10);
    ok(all_are(&w, "Current") && shows_before(&w), "and then they are there again");
    cluster_kit_end(&w);
}

static bool is_whole(void *arg)
{
    return all_are(arg, "Current");
}

/* It is not ready as it is read for the first time. */
static void starts_with_it(bool refused)
{
    struct cluster_kit w;
    char reason[200];

    cluster_kit_init(&w, KIT_BASE);
    w.opts.local_failover = w.opts.pulse = true;
    kube_put_crd(w.store, "widgets.example.com", "example.com", "v1");
    kube_put_crd(w.store, "things.old.io", "old.io", "v1");
    kube_fail_check(w.local, "poststarthook/crd-informer-synced");
    if (refused)
        kube_forbid(w.local, "/apis/apiextensions.k8s.io", 403);
    cluster_kit_start(&w);
    if (refused) {
        sim_run_ms(w.loop, SOON_MS);
        ok(!cluster_peers_synced(w.cluster, reason, sizeof(reason)), "what it keeps to itself is awaited");
        ok(strstr(reason, "custom resources are not known") != NULL, "and that is said: %s", reason);
    } else {
        ok(sim_run_until(w.loop, 2000, is_shown, &w) && all_are(&w, "Stale"), "what it has not yet is Stale");
        sim_run_ms(w.loop, SOON_MS);
        ok(all_are(&w, "Stale"), "for as long as it has not");
    }
    kube_forbid(w.local, NULL, 0);
    kube_fail_check(w.local, NULL);
    kube_set_apis(w.local, BEFORE);
    ok(sim_run_until(w.loop, SOON_MS, is_whole, &w) && is_shown(&w), "ready, it has them");
    cluster_kit_end(&w);
}

int main(void)
{
    goes_and_returns();
    not_of_anybody();
    knows_at_once(&(struct peer_kind){.name = "a peer whose mvproxy says that it is ready", .says = "true"});
    knows_at_once(&(struct peer_kind){.name = "a peer without an mvproxy, by its /readyz", .bare = true});
    never_while_loading();
    nobody_says(&(struct peer_kind){.name = "a KMS plugin that fails", .bare = true, .failing = "kms-providers"});
    nobody_says(&(struct peer_kind){.name = "an unknown word", .says = "perhaps"});
    alone();
    starts_with_it(false);
    starts_with_it(true);
    return tap_end();
}
