/* SPDX-License-Identifier: Apache-2.0 */
/* What seldom happens to what is known: a reload while all of it ends, or when the Leases come last. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/metric.h"
#include "cluster/cluster_view.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

static void count_done(void *arg)
{
    unsigned *n = arg;

    ++*n;
}

static bool lease_there(struct cluster_kit *w)
{
    struct arena *a = arena_new(1 << 16);
    struct lease l;
    bool there = kube_get_lease(w->store, kube_id(w->local), a, &l);

    arena_free(a);
    return there;
}

/* A local server that publishes no Lease, for which we do. */
static void begin_publishing(struct cluster_kit *w)
{
    cluster_kit_init(w, KIT_BASE);
    cluster_kit_without_lease(w, 24);
    w->opts.identity = IDENTITY_PUBLISH;
    w->opts.advertise = "10.0.0.1:16443";
    cluster_kit_start(w);
    sim_run_ms(w->loop, 1000);
    ok(lease_there(w), "the Lease is published");
}

/* With the peers goes the Lease by which they find us. */
static void switched_off(void)
{
    struct cluster_kit w;

    begin_publishing(&w);
    w.opts.peers_enabled = false;
    ok(cluster_update(w.cluster, &w.opts), "a reload without peers");
    sim_run_ms(w.loop, 1000);
    ok(!lease_there(&w), "removes it");
    cluster_kit_end(&w);
}

/* What is withdrawn stays so, and who waits for that hears of it. */
static void reloaded_at_the_end(bool off)
{
    unsigned done = 0;
    struct cluster_kit w;

    begin_publishing(&w);
    cluster_stop(w.cluster, count_done, &done);
    is_u64(done, 0, "not from inside");
    if (off) {
        w.opts.peers_enabled = false;
        ok(cluster_update(w.cluster, &w.opts), "peers are switched off while all ends");
    }
    sim_run_ms(w.loop, 2000);
    is_u64(done, 1, "told once that all is withdrawn, %d", off);
    w.opts.peers_enabled = !off;
    ok(cluster_update(w.cluster, &w.opts), "a reload at the end");
    w.opts.peers_enabled = off;
    ok(cluster_update(w.cluster, &w.opts), "and another one");
    sim_run_ms(w.loop, 20000);
    ok(!lease_there(&w), "the Lease stays away, %d", off);
    is_u64(done, 1, "and nothing more is said, %d", off);
    cluster_kit_end(&w);
}

/* With nothing to withdraw it is over at once, and still not told from inside, nor after the end. */
static void nothing_to_withdraw(bool freed)
{
    unsigned done = 0;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.identity = IDENTITY_OFF;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 1000);
    cluster_stop(w.cluster, count_done, &done);
    is_u64(done, 0, "nothing to withdraw: not told from inside");
    if (freed) {
        cluster_free(w.cluster);
        w.cluster = NULL;
    }
    sim_run_ms(w.loop, 1000);
    is_u64(done, freed ? 0 : 1, "and once, unless it has ended before, %d", freed);
    cluster_kit_end(&w);
}

/* All else is known by then. */
static void leases_come_last(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    kube_forbid(w.local, "/apis/coordination.k8s.io/", 500);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 3000);
    ok(!served_synced(cluster_served(w.cluster)), "the Leases cannot be listed");
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 20000);
    ok(served_synced(cluster_served(w.cluster)), "it is noticed when they have been");
    cluster_kit_end(&w);
}

/* Whether what is known of the local server is of its present process. */
static void read_since_its_trouble(void)
{
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 5000) && served_local_read(cluster_served(w.cluster)), "read");
    kube_stop(w.local, false);
    sim_run_ms(w.loop, 3000);
    ok(!served_local_read(cluster_served(w.cluster)), "not of whoever comes now");
    kube_start(w.local, 0);
    sim_run_ms(w.loop, 30000);
    ok(served_local_read(cluster_served(w.cluster)), "read again");
    cluster_kit_end(&w);
}

/* An answer without a tag says nothing of the document. */
static void no_tag(void)
{
    uint64_t before;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 5000);
    before = kube_discovery_requests(w.local);
    cluster_local_etag_seen(w.cluster, SLICE_NONE);
    cluster_local_etag_seen(w.cluster, slice_str(kube_etag(w.local)));
    sim_run_ms(w.loop, 500);
    is_u64(kube_discovery_requests(w.local), before, "nothing is looked at for it");
    cluster_local_etag_seen(w.cluster, SLICE_LIT("\"x\""));
    sim_run_ms(w.loop, 500);
    ok(kube_discovery_requests(w.local) > before, "but for another one");
    cluster_kit_end(&w);
}

/* What is given back is empty. */
static void view_is_given_back(void)
{
    struct cluster_view v;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 2000);
    ok(cluster_view_take(w.cluster, &v) && v.n == 1, "one server");
    cluster_view_free(&v);
    ok(v.n == 0 && v.servers == NULL, "none when it is given back");
    ok(cluster_is_own_name(w.cluster, "cp-a") && cluster_is_own_name(w.cluster, kube_id(w.local)), "its names");
    ok(!cluster_is_own_name(w.cluster, "cp-b") && !cluster_is_own_name(w.cluster, "zz") &&
           !cluster_is_own_name(w.cluster, ""),
       "and no others");
    cluster_kit_end(&w);
}

static unsigned times(const char *text, const char *what)
{
    unsigned n = 0;

    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        n++;
    }
    return n;
}

/* Said once, not each time that it is looked at. */
static void observes(void)
{
    char *logged = NULL;
    size_t n = 0;
    FILE *log = open_memstream(&logged, &n);
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.identity = IDENTITY_AUTO;
    log_set_stream(log);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 60000);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 60000);
    log_set_stream(stderr);
    (void)fclose(log);
    is_u64(times(logged, "is left to the local kube-apiserver"), 1, "whose Lease it is");
    free(logged);
    cluster_kit_end(&w);
}

int main(void)
{
    switched_off();
    reloaded_at_the_end(false);
    reloaded_at_the_end(true);
    nothing_to_withdraw(false);
    nothing_to_withdraw(true);
    leases_come_last();
    read_since_its_trouble();
    no_tag();
    view_is_given_back();
    observes();
    return tap_end();
}
