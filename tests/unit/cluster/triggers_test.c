/* SPDX-License-Identifier: Apache-2.0 */
/* What makes discovery be read again at once, and in which order answers may come. */
#include <stdio.h>

#include "cluster/refresh.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { QUIET_MS = 5000, SOON_MS = 100 };

/* Looks of that trigger, whatever came of them. */
static double looks(struct cluster_kit *w, const char *whose, const char *trigger)
{
    static const char *const results[] = {"changed", "unchanged", "failed"};
    double n = 0;

    for (size_t i = 0; i < ROWS(results); i++)
        n += cluster_kit_metric(w, "mvproxy_discovery_refreshes_total", whose, trigger, results[i], NULL);
    return n;
}

static struct kube_server *start_pair(struct cluster_kit *w)
{
    struct kube_server *b;

    cluster_kit_init(w, KIT_BASE);
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(w);
    if (!cluster_kit_ready(w, 2000))
        tap_bail("not ready");
    sim_run_ms(w->loop, QUIET_MS);
    return b;
}

/* ---- each cause, and how often it was heard of ---- */

static void crd(struct cluster_kit *w, struct kube_server *b)
{
    (void)b;
    kube_put_crd(w->store, "things.x.example.com", "x.example.com", "v1");
}

static void crd_goes(struct cluster_kit *w, struct kube_server *b)
{
    (void)b;
    kube_delete(w->store, KUBE_CRD, "things.x.example.com");
}

static void api_service(struct cluster_kit *w, struct kube_server *b)
{
    (void)b;
    kube_put_apiservice(w->store, "y.example.com", "v1", true);
}

static void api_service_goes(struct cluster_kit *w, struct kube_server *b)
{
    (void)b;
    kube_delete(w->store, KUBE_APISERVICE, "v1.y.example.com");
}

static void miss(struct cluster_kit *w, struct kube_server *b)
{
    (void)b;
    (void)cluster_local_miss(w->cluster, NULL, NULL);
}

static void another_etag(struct cluster_kit *w, struct kube_server *b)
{
    (void)b;
    cluster_local_etag_seen(w->cluster, SLICE_LIT("\"another\""));
}

static void broken_watch(struct cluster_kit *w, struct kube_server *b)
{
    (void)b;
    sim_server_break(kube_sim(w->local));
}

static void suspect(struct cluster_kit *w, struct kube_server *b)
{
    cluster_peer_suspect(w->cluster, kube_id(b));
}

static void missed(struct cluster_kit *w, struct kube_server *b)
{
    cluster_peer_missed(w->cluster, kube_id(b));
}

static void other_holder(struct cluster_kit *w, struct kube_server *b)
{
    (void)w;
    kube_start(b, 0);
}

static void lease_comes_back(struct cluster_kit *w, struct kube_server *b)
{
    kube_stop(b, true);
    sim_run_ms(w->loop, SOON_MS);
    kube_start(b, 0);
}

static void operator_asks(struct cluster_kit *w, struct kube_server *b)
{
    (void)b;
    cluster_refresh(w->cluster);
}

static void causes(void)
{
    static const struct {
        const char *name;
        void (*happen)(struct cluster_kit *w, struct kube_server *b);
        const char *whose, *trigger;
    } rows[] = {
        {"a custom resource definition comes", crd, "local", "event"},
        {"one goes", crd_goes, "local", "event"},
        {"an APIService comes", api_service, "local", "event"},
        {"one goes", api_service_goes, "local", "event"},
        {"a request misses", miss, "local", "miss"},
        {"the local server shows another entity tag", another_etag, "local", "etag"},
        {"the watch of Leases breaks", broken_watch, "local", "recovered"},
        {"a peer denies what it has listed", suspect, "peer", "suspect"},
        {"a peer answers 404 or 503", missed, "peer", "miss"},
        {"a Lease has another holder", other_holder, "peer", "lease"},
        {"a Lease is deleted and made again", lease_comes_back, "peer", "lease"},
        {"somebody asks for it", operator_asks, "local", "operator"},
        {"somebody asks for it", operator_asks, "peer", "operator"},
    };
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w), *c;

    is_double(looks(&w, "local", "start") + looks(&w, "peer", "start"), 2, "each was looked at when it was first seen");
    for (size_t i = 0; i < ROWS(rows); i++) {
        double before = looks(&w, rows[i].whose, rows[i].trigger);

        rows[i].happen(&w, b);
        sim_run_ms(w.loop, SOON_MS);
        ok(looks(&w, rows[i].whose, rows[i].trigger) > before, "%s: %s is looked at", rows[i].name, rows[i].whose);
        sim_run_ms(w.loop, QUIET_MS);
    }
    c = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", KIT_BASE ";policy/v1:poddisruptionbudgets");
    sim_run_ms(w.loop, SOON_MS);
    ok(cluster_kit_peer_serves(&w, c, "policy", "v1", "poddisruptionbudgets"),
       "a Lease comes: its server is looked at");
    is_double(looks(&w, "peer", "start"), 2, "for the first time");
    cluster_kit_end(&w);
}

/* 0.2, 0.4, 0.8 s, up to ten seconds between them, for ever. */
static void retries(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    double before;

    kube_pause_renewal(b, true); /* nor a Lease that says it is there */
    w.opts.stale_after_ms = w.opts.forget_after_ms = 3600000;
    cluster_update(w.cluster, &w.opts);
    kube_forbid(b, "/", 500);
    cluster_peer_suspect(w.cluster, kube_id(b));
    sim_run_ms(w.loop, 3200);
    before = looks(&w, "peer", "retry");
    ok(before >= 3 && before <= 5, "in three seconds %.0f", before);
    sim_run_ms(w.loop, 10 * 60000);
    before = looks(&w, "peer", "retry") - before;
    ok(before >= 50 && before <= 85, "then every ten seconds or so: %.0f in ten minutes", before);
    kube_forbid(b, NULL, 0);
    sim_run_ms(w.loop, 13000);
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "until it answers");
    cluster_kit_end(&w);
}

/* A server that cannot be read is tried no more often for what changes meanwhile, but for what an operator asks. */
static double retries_amid(bool operator)
{
    char name[64], group[32];
    struct cluster_kit w;
    double before = 0;

    (void)start_pair(&w);
    kube_set_garbage(w.local, "nonsense");
    for (unsigned i = 0; i < 24; i++) {
        if (i == 12)
            before = looks(&w, "local", "retry");
        (void)snprintf(group, sizeof(group), "g%u.io", i);
        (void)snprintf(name, sizeof(name), "things.%s", group);
        if (operator)
            cluster_refresh(w.cluster);
        else
            kube_put_crd(w.store, name, group, "v1");
        sim_run_ms(w.loop, 5000);
    }
    before = looks(&w, "local", "retry") - before;
    cluster_kit_end(&w);
    return before;
}

static void retries_start_again(void)
{
    double events = retries_amid(false), operators = retries_amid(true);

    ok(operators >= 2 * 12, "what an operator asks begins anew: %.0f retries in a minute", operators);
    ok(events < 12, "an event does not: %.0f", events);
}

/* ---- answers that come late ---- */

/* What the old process was asked and answers late says nothing of the new one. */
static void answer_of_the_old_process(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    kube_sim(b)->delay_ms = 1500;
    kube_set_apis(b, KIT_BATCH ";policy/v1:poddisruptionbudgets");
    cluster_peer_suspect(w.cluster, kube_id(b));
    sim_run_ms(w.loop, SOON_MS);
    kube_set_apis(b, KIT_BASE ";batch/v2:jobs");
    kube_sim(b)->delay_ms = 5;
    kube_start(b, 0);
    sim_run_ms(w.loop, SOON_MS);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v2", "jobs"),
       "the new process was asked at once, and its answer counts");
    sim_run_ms(w.loop, 3000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v2", "jobs") && !cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "an answer of the old one comes to nobody");
    ok(!cluster_kit_merged_has(&w, "poddisruptionbudgets"), "nor into the document");
    cluster_kit_end(&w);
}

/* Peers that answer in the order of 3, 1, 2, each time another: the document is that of one world. */
static void any_order(void)
{
    static const uint64_t orders[][3] = {{10, 20, 30}, {30, 10, 20}, {20, 30, 10}, {30, 20, 10}, {1, 1000, 500}};
    char first[200] = "";

    for (size_t i = 0; i < ROWS(orders); i++) {
        struct cluster_kit w;
        struct kube_server *peers[3];
        struct slice etag;

        cluster_kit_init(&w, KIT_BASE);
        peers[0] = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
        peers[1] = cluster_kit_peer(&w, "cp-c", "10.0.0.3:6443", "batch/v2:jobs;" KIT_BASE);
        peers[2] = cluster_kit_peer(&w, "cp-d", "10.0.0.4:6443", KIT_BASE ";policy/v1:poddisruptionbudgets");
        for (size_t k = 0; k < ROWS(peers); k++)
            kube_sim(peers[k])->delay_ms = orders[i][k];
        cluster_kit_start(&w);
        ok(cluster_kit_ready(&w, 4000), "ready");
        etag = served_merged(cluster_served(w.cluster), SERVED_V2)->etag;
        if (i == 0)
            (void)snprintf(first, sizeof(first), "%.*s", (int)etag.n, etag.p);
        is_slice(etag, first, "order %zu: the same document", i);
        cluster_kit_end(&w);
    }
}

/* ---- connections that are half open ---- */

/* The watch of the Leases says nothing more, although nobody has closed it: it is noticed before anybody lapses. */
static void deaf_watch(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    unsigned not_live = 0;

    for (unsigned s = 0; s < 300; s++) {
        if (s % 50 == 0)
            kube_deafen(w.store);
        sim_run_ms(w.loop, 1000);
        not_live += cluster_kit_peer_of(&w, b) == NULL || cluster_kit_peer_of(&w, b)->life != SERVED_LIVE;
    }
    is_u64(not_live, 0, "nobody lapses for a watch that has gone silent, six times over");
    kube_stop(b, true);
    sim_run_ms(w.loop, SOON_MS);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LAPSED, "and the next one is heard");
    cluster_kit_end(&w);
}

/* A peer takes requests and says nothing; its Lease is renewed. */
static void deaf_peer(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    kube_sim(b)->fault = SIM_HANG;
    cluster_peer_suspect(w.cluster, kube_id(b));
    sim_run_ms(w.loop, 25000);
    ok(cluster_kit_peer_of(&w, b)->life == SERVED_LIVE, "it is there");
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "but what it said is old");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and the best there is");
    is_str(cluster_kit_freshness(&w, "apps"), "Current", "others go on");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 20000);
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "it speaks again");
    ok(sim_open(w.back) < 10, "without requests left behind (%zu open)", sim_open(w.back));
    cluster_kit_end(&w);
}

/* What an event is about may not be there yet when it comes: there is a second look, whoever else asks for looks
 * meanwhile. */
static void slow_server(uint64_t operator_ms)
{
    struct cluster_kit w;

    (void)start_pair(&w);
    kube_put_crd(w.store, "things.x.example.com", "x.example.com", "v1");
    if (operator_ms > 0) {
        sim_run_ms(w.loop, operator_ms);
        cluster_refresh(w.cluster);
    } else {
        kube_sim(w.local)->delay_ms = 50;
        cluster_refresh(w.cluster); /* before the event has come in */
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 60);
        kube_sim(w.local)->delay_ms = 0;
    }
    sim_run_ms(w.loop, 300);
    kube_set_apis(w.local, KIT_BASE ";x.example.com/v1:things");
    sim_run_ms(w.loop, 2500);
    ok(cluster_kit_local_serves(&w, "x.example.com", "v1", "things"),
       "served after a while, looked at meanwhile (%u): known soon", (unsigned)operator_ms);
    cluster_kit_end(&w);
}

/* What a minute costs each of two servers without aggregated discovery, of so many group/versions. */
static void a_minute(struct cluster_kit *w, struct kube_server *b, bool asking, uint64_t cost[2])
{
    struct kube_server *servers[2] = {w->local, b};

    for (size_t i = 0; i < 2; i++)
        cost[i] = kube_sim(servers[i])->requests;
    for (unsigned ms = 0; ms < 60000; ms += 50) {
        if (asking) {
            (void)cluster_local_miss(w->cluster, NULL, NULL);
            cluster_peer_missed(w->cluster, kube_id(b));
        }
        sim_run_ms(w->loop, 50);
    }
    for (size_t i = 0; i < 2; i++)
        cost[i] = kube_sim(servers[i])->requests - cost[i];
}

/* One client that asks again and again for what nobody serves, and for objects of a peer that are not there. */
static void legacy_walks(unsigned groups)
{
    struct cluster_kit w;
    struct kube_server *b;
    char apis[4000] = KIT_BASE;
    uint64_t quiet[2], asked[2];

    for (unsigned i = 1; i < groups; i++)
        (void)snprintf(apis + strlen(apis), sizeof(apis) - strlen(apis), ";g%u.k8s.io/v1:things", i);
    cluster_kit_init(&w, apis);
    (void)snprintf(apis + strlen(apis), sizeof(apis) - strlen(apis), ";batch/v1:jobs");
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", apis);
    kube_set_form(w.local, KUBE_LEGACY);
    kube_set_form(b, KUBE_LEGACY);
    cluster_kit_start(&w);
    if (!cluster_kit_ready(&w, 5000))
        tap_bail("not ready");
    sim_run_ms(w.loop, QUIET_MS);
    a_minute(&w, b, false, quiet);
    a_minute(&w, b, true, asked);
    for (size_t i = 0; i < 2; i++) {
        const char *whose = i == 0 ? "local server" : "peer";

        diag("%s of %u group/versions: %llu requests a minute, %llu beside that client", whose, groups,
             (unsigned long long)quiet[i], (unsigned long long)asked[i]);
        ok(asked[i] <= quiet[i] + 300, "%s: a client makes it cost little more", whose);
    }
    /* What is no client's word is not held back. */
    kube_set_apis(b, "apps/v1:deployments;policy/v1:poddisruptionbudgets");
    cluster_peer_missed(w.cluster, kube_id(b));
    kube_start(b, 0);
    sim_run_ms(w.loop, SOON_MS);
    ok(cluster_kit_peer_serves(&w, b, "policy", "v1", "poddisruptionbudgets"),
       "a Lease that says more is believed at once");
    kube_set_apis(b, "apps/v1:deployments;policy/v2:poddisruptionbudgets");
    cluster_peer_missed(w.cluster, kube_id(b));
    cluster_peer_suspect(w.cluster, kube_id(b));
    sim_run_ms(w.loop, REFRESH_LIMIT_MS + SOON_MS);
    ok(cluster_kit_peer_serves(&w, b, "policy", "v2", "poddisruptionbudgets"),
       "and a server that denies what it has listed");
    cluster_kit_end(&w);
}

/* Who has made a CRD asks for it until it is there: that holds back only what such clients cause. */
static void event_amid_misses(enum kube_form form)
{
    struct cluster_kit w;
    char apis[1000] = KIT_BASE;
    unsigned ms = 0;

    for (unsigned i = 1; i < 20; i++)
        (void)snprintf(apis + strlen(apis), sizeof(apis) - strlen(apis), ";g%u.k8s.io/v1:things", i);
    cluster_kit_init(&w, apis);
    kube_set_form(w.local, form);
    cluster_kit_start(&w);
    if (!cluster_kit_ready(&w, 5000))
        tap_bail("not ready");
    sim_run_ms(w.loop, QUIET_MS);
    kube_put_crd(w.store, "things.x.example.com", "x.example.com", "v1");
    (void)snprintf(apis + strlen(apis), sizeof(apis) - strlen(apis), ";x.example.com/v1:things");
    for (; ms < 2000 && !cluster_kit_local_serves(&w, "x.example.com", "v1", "things"); ms += 5) {
        if (ms == 500)
            kube_set_apis(w.local, apis);
        (void)cluster_local_miss(w.cluster, NULL, NULL);
        sim_run_ms(w.loop, 5);
    }
    ok(ms < 1500, "form %d: served half a second later, and known after %u ms", form, ms);
    cluster_kit_end(&w);
}

int main(void)
{
    causes();
    event_amid_misses(KUBE_LEGACY);
    event_amid_misses(KUBE_V2);
    legacy_walks(10);
    legacy_walks(35);
    legacy_walks(100);
    slow_server(0);
    slow_server(1);
    slow_server(100);

    retries();
    retries_start_again();
    answer_of_the_old_process();
    any_order();
    deaf_watch();
    deaf_peer();
    return tap_end();
}
