/* SPDX-License-Identifier: Apache-2.0 */
/* Custom resources and aggregated APIs are never taken from peers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cluster/exclusions.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

static bool excluded(struct cluster_kit *w, const char *group, const char *version)
{
    return served_excluded(cluster_served(w->cluster), slice_str(group), slice_str(version));
}

static bool aggregated(struct cluster_kit *w, const char *group, const char *version)
{
    return served_aggregated(cluster_served(w->cluster), slice_str(group), slice_str(version));
}

static void kinds(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443",
                         KIT_BATCH ";stable.example.com/v1:crontabs;metrics.k8s.io/v1beta1:nodes");
    kube_put_crd(w.store, "crontabs.stable.example.com", "stable.example.com", "v1 v1alpha1");
    kube_put_apiservice(w.store, "metrics.k8s.io", "v1beta1", true);
    kube_put_apiservice(w.store, "batch", "v1", false);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(excluded(&w, "stable.example.com", "v1") && excluded(&w, "stable.example.com", "v1alpha1"),
       "every version of a custom resource");
    ok(excluded(&w, "metrics.k8s.io", "v1beta1"), "a service-backed APIService");
    ok(aggregated(&w, "metrics.k8s.io", "v1beta1"), "which is known as such");
    ok(!aggregated(&w, "stable.example.com", "v1"), "not so a custom resource");
    ok(!excluded(&w, "batch", "v1"), "not one that a server has itself");
    ok(cluster_kit_peer_serves(&w, b, "stable.example.com", "v1", "crontabs"), "the peer says that it serves it");
    is_str(cluster_kit_freshness(&w, "stable.example.com"), "", "but it is not merged");
    is_str(cluster_kit_freshness(&w, "metrics.k8s.io"), "", "nor the aggregated one");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "the built-in is");
    is_double(cluster_kit_metric(&w, "mvproxy_excluded_group_versions", NULL), 3, "counted");
    cluster_kit_end(&w);
}

/* Of many, and by a bundle of CAs some are as large as etcd lets an object be. */
static void large_services(void)
{
    enum { LARGE = 30, BYTES = 1400 << 10 };
    char *members = must_zalloc(BYTES + 200), name[32];
    struct cluster_kit w;
    size_t n = 0;

    cluster_kit_init(&w, KIT_BASE);
    for (unsigned i = 0; i < LARGE; i++) {
        int head = snprintf(
            members, 200,
            ",\"spec\":{\"group\":\"g%u.io\",\"version\":\"v1\",\"service\":{\"name\":\"s\"},\"caBundle\":\"", i);

        memset(members + head, 'Q', BYTES);
        (void)snprintf(members + head + BYTES, 4, "\"}");
        (void)snprintf(name, sizeof(name), "v1.g%u.io", i);
        kube_put(w.store, KUBE_APISERVICE, name, "", members);
    }
    mem_free(members);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 10000), "ready");
    for (unsigned i = 0; i < LARGE; i++) {
        (void)snprintf(name, sizeof(name), "g%u.io", i);
        n += excluded(&w, name, "v1");
    }
    is_u64(n, LARGE, "APIServices over a megabyte are known");
    cluster_kit_end(&w);
}

static void created_later(unsigned after_ms)
{
    struct cluster_kit w;
    struct kube_server *b;
    uint64_t before, of_b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BASE ";stable.example.com/v1:crontabs");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    is_str(cluster_kit_freshness(&w, "stable.example.com"), "Current", "a group like any other");
    sim_run_ms(w.loop, 5000);
    before = kube_discovery_requests(w.local);
    of_b = kube_discovery_requests(b);
    kube_put_crd(w.store, "crontabs.stable.example.com", "stable.example.com", "v1");
    sim_run_ms(w.loop, 20);
    ok(excluded(&w, "stable.example.com", "v1"), "a definition appears: excluded at once");
    is_str(cluster_kit_freshness(&w, "stable.example.com"), "", "and out of the document");
    ok(kube_discovery_requests(w.local) > before, "local discovery is looked at");
    ok(kube_discovery_requests(b) > of_b, "and a bare peer's: in which order it has them counts");
    sim_run_ms(w.loop, after_ms);
    kube_set_apis(w.local, KIT_BASE ";stable.example.com/v1:crontabs");
    sim_run_ms(w.loop, after_ms < 500 ? 2 * after_ms + 30 : 600);
    ok(cluster_kit_local_serves(&w, "stable.example.com", "v1", "crontabs"),
       "and again when it has followed, %u ms later", after_ms);
    is_str(cluster_kit_freshness(&w, "stable.example.com"), "Current", "which the document says");
    before = kube_discovery_requests(w.local);
    sim_run_ms(w.loop, 10000);
    ok(kube_discovery_requests(w.local) - before < 16, "not for ever: %llu more",
       (unsigned long long)(kube_discovery_requests(w.local) - before));
    cluster_kit_end(&w);
}

/* Then it is listed, and no event tells of it; nor does the server serve it yet. It may be away first, for so long that
 * nobody waits for the lists any more. */
static void created_just_before(unsigned after_ms, bool away)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    kube_sim(w.local)->fault = away ? SIM_REFUSE : SIM_FINE;
    kube_put_crd(w.store, "crontabs.stable.example.com", "stable.example.com", "v1");
    cluster_kit_start(&w);
    if (away)
        sim_run_ms(w.loop, EXCLUSIONS_PATIENCE_MS + 1000);
    kube_sim(w.local)->fault = SIM_FINE;
    ok(cluster_kit_ready(&w, away ? 20000 : 2000), "ready");
    for (unsigned i = 0; i < 30000 && !excluded(&w, "stable.example.com", "v1"); i++)
        sim_run_ms(w.loop, 1);
    sim_run_ms(w.loop, after_ms);
    kube_set_apis(w.local, KIT_BASE ";stable.example.com/v1:crontabs");
    sim_run_ms(w.loop, away ? 2100 : after_ms < 500 ? 2 * after_ms + 30 : 600);
    ok(cluster_kit_local_serves(&w, "stable.example.com", "v1", "crontabs"),
       "a definition from before our start, served %u ms after it: known", after_ms);
    cluster_kit_end(&w);
}

/* Whoever makes one waits until it is established, and then looks for it: a busy server is asked as often. */
static void created_at_a_busy_server(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_sim(w.local)->delay_ms = 35;
    sim_run_ms(w.loop, 40000);
    kube_put_crd(w.store, "crontabs.stable.example.com", "stable.example.com", "v1");
    sim_run_ms(w.loop, 100);
    kube_set_apis(w.local, KIT_BASE ";stable.example.com/v1:crontabs");
    sim_run_ms(w.loop, 4 * 35 + 70);
    ok(cluster_kit_local_serves(&w, "stable.example.com", "v1", "crontabs"), "known as soon as that can be");
    is_str(cluster_kit_freshness(&w, "stable.example.com"), "Current", "which the document says");
    cluster_kit_end(&w);
}

static void grace(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BASE ";stable.example.com/v1:crontabs;b.example.com/v1:bs");
    kube_put_crd(w.store, "crontabs.stable.example.com", "stable.example.com", "v1");
    kube_put_crd(w.store, "others.stable.example.com", "stable.example.com", "v1");
    kube_put_crd(w.store, "bs.b.example.com", "b.example.com", "v1");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_delete(w.store, KUBE_CRD, "crontabs.stable.example.com");
    sim_run_ms(w.loop, 400000);
    ok(excluded(&w, "stable.example.com", "v1"), "excluded while another definition has it");
    kube_delete(w.store, KUBE_CRD, "others.stable.example.com");
    sim_run_ms(w.loop, 200000);
    kube_delete(w.store, KUBE_CRD, "bs.b.example.com");
    sim_run_ms(w.loop, 99000);
    ok(excluded(&w, "stable.example.com", "v1"), "and for almost five minutes after the last");
    sim_run_ms(w.loop, 2000);
    ok(!excluded(&w, "stable.example.com", "v1"), "not longer");
    is_str(cluster_kit_freshness(&w, "stable.example.com"), "Current", "then a peer's word counts");
    ok(excluded(&w, "b.example.com", "v1"), "one deleted later has its own five minutes");
    sim_run_ms(w.loop, 197000);
    ok(excluded(&w, "b.example.com", "v1"), "to the end");
    sim_run_ms(w.loop, 5000);
    ok(!excluded(&w, "b.example.com", "v1"), "and not longer");
    kube_put_crd(w.store, "bs.b.example.com", "b.example.com", "v1");
    sim_run_ms(w.loop, 100);
    kube_delete(w.store, KUBE_CRD, "bs.b.example.com");
    sim_run_ms(w.loop, 200000);
    kube_put_crd(w.store, "bs.b.example.com", "b.example.com", "v1");
    sim_run_ms(w.loop, 200000);
    ok(excluded(&w, "b.example.com", "v1"), "made again within the five minutes: stays");
    cluster_kit_end(&w);
}

/* An APIService that names a service takes a custom resource's group/version over, and gives it back. */
static void taken_over(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    kube_put_crd(w.store, "bs.b.example.com", "b.example.com", "v1");
    kube_put_apiservice(w.store, "b.example.com", "v1", false);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(excluded(&w, "b.example.com", "v1") && !aggregated(&w, "b.example.com", "v1"), "a custom resource");
    for (unsigned i = 0; i < 2; i++) {
        kube_put_apiservice(w.store, "b.example.com", "v1", true);
        sim_run_ms(w.loop, 100);
        ok(aggregated(&w, "b.example.com", "v1"), "aggregated");
        if (i == 0)
            kube_put_apiservice(w.store, "b.example.com", "v1", false);
        else
            kube_delete(w.store, KUBE_APISERVICE, "v1.b.example.com");
        sim_run_ms(w.loop, 100);
        ok(excluded(&w, "b.example.com", "v1") && !aggregated(&w, "b.example.com", "v1"), "and no more");
    }
    cluster_kit_end(&w);
}

static void changed_versions(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    kube_put_crd(w.store, "bs.b.example.com", "b.example.com", "v1 v2");
    kube_put_apiservice(w.store, "m.example.com", "v1", true);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_put_crd(w.store, "bs.b.example.com", "b.example.com", "v2 v3");
    kube_put_apiservice(w.store, "m.example.com", "v1", false);
    sim_run_ms(w.loop, 100);
    ok(excluded(&w, "b.example.com", "v1") && excluded(&w, "b.example.com", "v2") &&
           excluded(&w, "b.example.com", "v3"),
       "old, kept and new version");
    sim_run_ms(w.loop, 301000);
    ok(!excluded(&w, "b.example.com", "v1"), "the old one goes after the grace");
    ok(excluded(&w, "b.example.com", "v2") && excluded(&w, "b.example.com", "v3"), "the others stay");
    ok(!excluded(&w, "m.example.com", "v1"), "an APIService that loses its service goes too");
    cluster_kit_end(&w);
}

static void many(void)
{
    struct cluster_kit w;
    char name[96], group[64];

    cluster_kit_init(&w, KIT_BASE);
    for (int i = 0; i < 137; i++) {
        (void)snprintf(group, sizeof(group), "g%d.example.com", i);
        (void)snprintf(name, sizeof(name), "things.%s", group);
        kube_put_crd(w.store, name, group, "v1");
    }
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    is_u64(kube_lists(w.store, KUBE_CRD), 7, "listed in pages of 20");
    is_double(cluster_kit_metric(&w, "mvproxy_excluded_group_versions", NULL), 137, "none is lost");
    ok(excluded(&w, "g0.example.com", "v1") && excluded(&w, "g136.example.com", "v1"), "from the first to the last");
    cluster_kit_end(&w);
}

/* In what was logged since `from`, which goes on. */
static size_t reaped_lines(struct slice log, size_t *from)
{
    static const char line[] = "Group/version may come from peers again";
    const char *at;
    size_t n = 0;

    while ((at = memmem(log.p + *from, log.n - *from, line, sizeof(line) - 1)) != NULL) {
        *from = (size_t)(at - log.p) + sizeof(line) - 1;
        n++;
    }
    return n;
}

/* What was deleted together is forgotten in steps, so that no turn of the loop is long. */
static void many_reaped(void)
{
    enum { MANY = 1200, AT_ONCE_MOST = 500 };
    struct cluster_kit w;
    char name[96], group[64];
    char *text = NULL;
    size_t n = 0, from = 0, seen = 0, most = 0;
    FILE *f = open_memstream(&text, &n);

    cluster_kit_init(&w, KIT_BASE);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(group, sizeof(group), "g%d.example.com", i);
        (void)snprintf(name, sizeof(name), "things.%s", group);
        kube_put_crd(w.store, name, group, "v1");
    }
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 5000), "ready");
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "things.g%d.example.com", i);
        kube_delete(w.store, KUBE_CRD, name);
    }
    sim_run_ms(w.loop, EXCLUSIONS_GRACE_MS - 1000);
    is_double(cluster_kit_metric(&w, "mvproxy_excluded_group_versions", NULL), MANY,
              "all deleted: all excluded for five minutes");
    log_set_stream(f);
    for (int ms = 0; ms < 3000; ms++) {
        size_t lines;

        sim_run_ms(w.loop, 1);
        log_flush();
        fflush(f);
        lines = reaped_lines(slice_of(text, n), &from);
        most = lines > most ? lines : most;
        seen += lines;
    }
    log_set_stream(stderr);
    fclose(f);
    free(text);
    is_double(cluster_kit_metric(&w, "mvproxy_excluded_group_versions", NULL), 0, "then none is");
    ok(seen == MANY && most <= AT_ONCE_MOST, "%zu of %zu at once", most, seen);
    cluster_kit_end(&w);
}

static void refused(void)
{
    static const unsigned codes[] = {401, 403, 404};

    for (size_t i = 0; i < ROWS(codes); i++) {
        struct cluster_kit w;

        cluster_kit_init(&w, KIT_BASE);
        cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
        kube_forbid(w.local, "/apis/apiextensions.k8s.io", codes[i]);
        cluster_kit_start(&w);
        ok(cluster_kit_ready(&w, 500), "a %u on custom resources does not hold up readiness", codes[i]);
        is_str(cluster_kit_freshness(&w, "batch"), "Current", "and peers are believed");
        kube_forbid(w.local, NULL, 0);
        kube_put_crd(w.store, "jobs.batch", "batch", "v1");
        sim_run_ms(w.loop, 13000);
        ok(excluded(&w, "batch", "v1"), "it is asked on, and counts as soon as it answers");
        cluster_kit_end(&w);
    }
}

static void silent(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_forbid(w.local, "/apis/apiregistration.k8s.io", 503);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 4900);
    ok(!served_synced(cluster_served(w.cluster)), "a server that cannot say it yet is waited for");
    ok(cluster_kit_ready(&w, 300), "but not for more than five seconds");
    ok(served_synced(cluster_served(w.cluster)), "then it goes on without");
    cluster_kit_end(&w);
}

/* Who has come meanwhile may serve what is registered, as long as nobody knows who is there. */
static void registered_amid_failure(void)
{
    const struct slice batch = SLICE_LIT("batch"), v1 = SLICE_LIT("v1");
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    kube_put_apiservice(w.store, "batch", "v1", false);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(!served_undiscovered(cluster_served(w.cluster), batch, v1), "nobody serves what is registered");
    kube_forbid(w.local, LEASE_COLLECTION_PATH, 500);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 10000);
    ok(served_undiscovered(cluster_served(w.cluster), batch, v1), "somebody may, while the Leases cannot be followed");
    ok(!served_undiscovered(cluster_served(w.cluster), SLICE_LIT("policy"), v1), "not what is not registered");
    sim_run_ms(w.loop, 300000);
    ok(served_undiscovered(cluster_served(w.cluster), batch, v1), "also after minutes");
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 60000);
    ok(!served_undiscovered(cluster_served(w.cluster), batch, v1), "nobody does");
    cluster_kit_end(&w);
}

/* Names of APIServices that are gone count until everybody has been read, whichever they are. */
static void names_are_forgotten(void)
{
    enum { MANY = 40 };
    unsigned before = 0, after = 0;
    char name[32];
    struct cluster_kit w;
    struct kube_server *b, *c;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "g%u.io", i);
        kube_put_apiservice(w.store, name, "v1", false);
    }
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_sim(b)->fault = SIM_HANG;
    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BATCH);
    kube_sim(c)->fault = SIM_HANG;
    sim_run_ms(w.loop, 1000);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "v1.g%u.io", i);
        kube_delete(w.store, KUBE_APISERVICE, name);
    }
    sim_run_ms(w.loop, 2000);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "g%u.io", i);
        before += served_undiscovered(cluster_served(w.cluster), slice_str(name), SLICE_LIT("v1"));
    }
    is_u64(before, MANY, "while a peer has not been read it may serve them");
    kube_sim(b)->fault = kube_sim(c)->fault = SIM_FINE;
    sim_server_break(kube_sim(b));
    sim_server_break(kube_sim(c));
    sim_run_ms(w.loop, 60000);
    c = cluster_kit_peer(&w, "cp-d", "10.0.0.4:6443", KIT_BATCH);
    kube_sim(c)->fault = SIM_HANG;
    sim_run_ms(w.loop, 2000);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "g%u.io", i);
        after += served_undiscovered(cluster_served(w.cluster), slice_str(name), SLICE_LIT("v1"));
    }
    ok(served_unknown_peer(cluster_served(w.cluster)) || served_pending(cluster_served(w.cluster)), "another one");
    is_u64(after, 0, "who comes later does not");
    cluster_kit_end(&w);
}

int main(void)
{
    kinds();
    large_services();
    for (unsigned ms = 0; ms < 700; ms = ms == 0 ? 20 : 3 * ms)
        created_later(ms);
    created_later(1500);
    created_just_before(100, false);
    created_just_before(900, false);
    created_just_before(0, true);
    created_at_a_busy_server();
    grace();
    changed_versions();
    taken_over();
    many();
    many_reaped();
    refused();
    silent();
    registered_amid_failure();
    for (unsigned i = 0; i < 4; i++)
        names_are_forgotten();
    return tap_end();
}
