/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/metric.h"
#include "kube/lease.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_loop.h"

struct sought {
    const char *name, *server;
    size_t found;
};

static void look_at(const struct metric_view *v, void *arg)
{
    struct sought *s = arg;

    if (strcmp(v->name, s->name) == 0 &&
        (s->server == NULL || (v->n_labels > 0 && slice_eq(v->label_values[0], slice_str(s->server)))))
        s->found++;
}

/* How many series there are, of that server or in all. */
static size_t series(struct cluster_kit *w, const char *name, const char *server)
{
    struct sought s = {name, server, 0};

    metrics_collect(w->metrics);
    metrics_walk(w->metrics, look_at, &s);
    return s.found;
}

/* The same, as it is before anybody has collected. */
static size_t shown(struct cluster_kit *w, const char *name)
{
    struct sought s = {name, NULL, 0};

    metrics_walk(w->metrics, look_at, &s);
    return s.found;
}

/* The local server, and one called cp-b, which is looked after. */
static struct kube_server *with_peer(struct cluster_kit *w)
{
    struct kube_server *b;

    cluster_kit_init(w, KIT_BASE);
    w->opts.pulse = true;
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(w);
    return b;
}

static void by_host_name(void)
{
    struct cluster_kit w;
    struct kube_server *b = with_peer(&w);

    ok(cluster_kit_ready(&w, 10000), "ready");
    sim_run_ms(w.loop, 3000);
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-a", NULL), 1, "the local server answers");
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-b", NULL), 1, "and so does the peer");
    is_u64(series(&w, "mvproxy_server_info", NULL), 2, "both are described");
    ok(cluster_kit_metric(&w, "mvproxy_discovery_age_seconds", "cp-b", NULL) < 35, "and read now and then");
    kube_stop(b, false);
    sim_run_ms(w.loop, 5000);
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-b", NULL), 0, "it is seen when the peer dies");
    is_u64(series(&w, "mvproxy_server_up", "cp-b"), 1, "and goes on being said");
    sim_run_ms(w.loop, 600000);
    ok(cluster_kit_metric(&w, "mvproxy_discovery_age_seconds", "cp-b", NULL) > 500, "also of one that is forgotten");
    cluster_kit_end(&w);
}

/* The older, the longer it is tried in vain: since the start. */
static void never_read(void)
{
    struct cluster_kit w;

    (void)with_peer(&w);
    kube_forbid(w.local, "/api", 403);
    sim_run_ms(w.loop, 20000);
    ok(cluster_kit_metric(&w, "mvproxy_discovery_age_seconds", "cp-a", NULL) >= 19 &&
           cluster_kit_metric(&w, "mvproxy_discovery_age_seconds", "cp-a", NULL) <= 21,
       "what was never read is as old as we are");
    cluster_kit_end(&w);
}

/* Who answers at its address is another: nobody can be sent to it, and that it does not answer is what an alert sees.
 */
static void another_answers(void)
{
    struct cluster_kit w;
    struct kube_server *b = with_peer(&w);

    kube_set_hop(b, kube_id(b));
    ok(cluster_kit_ready(&w, 10000), "ready");
    sim_run_ms(w.loop, 3000);
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-b", NULL), 1,
              "the mvproxy there says that it is this one");
    kube_set_hop(b, kube_id(w.local));
    sim_run_ms(w.loop, 3000);
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-b", NULL), 0, "it says that it is another");
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-a", NULL), 1, "which answers at its own address");
    kube_set_hop(b, kube_id(b));
    sim_run_ms(w.loop, 3000);
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-b", NULL), 1, "corrected");
    cluster_kit_end(&w);
}

/* What was left behind under another ID does not hide the one that lives. */
static void two_of_one_name(void)
{
    static const struct {
        const char *name, *holder;
    } others[] = {{"apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa", "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa_x"}, /* sorts before */
                  {"apiserver-zzzzzzzzzzzzzzzzzzzzzzzzzz", "apiserver-zzzzzzzzzzzzzzzzzzzzzzzzzz_x"}};
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.pulse = true;
    cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    for (size_t i = 0; i < ROWS(others); i++)
        kube_put_lease(w.store, &(struct kube_lease){.name = others[i].name,
                                                     .hostname = "cp-b",
                                                     .holder = others[i].holder,
                                                     .address = "10.0.0.9:6443",
                                                     .duration_s = 3600,
                                                     .renew_us = clock_wall_us()});
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 60000);
    is_u64(series(&w, "mvproxy_server_info", "cp-b"), 3, "three of that name are described");
    is_u64(series(&w, "mvproxy_server_up", "cp-b"), 1, "and counted as one server");
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-b", NULL), 1, "which answers");
    ok(cluster_kit_metric(&w, "mvproxy_discovery_age_seconds", "cp-b", NULL) < 35, "and was read lately");
    cluster_kit_end(&w);
}

/* A server that was taken away, its Lease deleted, is known for a while, and nobody is to be woken for it. */
static void taken_away(void)
{
    struct cluster_kit w;
    struct kube_server *b = with_peer(&w);

    sim_run_ms(w.loop, 10000);
    is_u64(series(&w, "mvproxy_discovery_age_seconds", "cp-b"), 1, "it has an age");
    is_u64(series(&w, "mvproxy_server_up", "cp-b"), 1, "and answers");
    kube_stop(b, false);
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    sim_run_ms(w.loop, 10000);
    is_u64(series(&w, "mvproxy_server_info", "cp-b"), 1, "gone, it is still known");
    is_u64(series(&w, "mvproxy_discovery_age_seconds", "cp-b"), 0, "without an age");
    is_u64(series(&w, "mvproxy_server_up", "cp-b"), 1, "by which an alert would fire");
    is_double(cluster_kit_metric(&w, "mvproxy_server_up", "cp-b", NULL), 0, "but that it is down is said");
    sim_run_ms(w.loop, 400000);
    is_u64(series(&w, "mvproxy_server_up", "cp-b"), 0, "until it is forgotten");
    cluster_kit_end(&w);
}

/* Rights that are taken away, a watch that is refused while lists are answered, a server that is away: all the same. */
static void leases_unread(void)
{
    static const char *const name = "mvproxy_leases_watching";
    unsigned followed = 0;
    struct cluster_kit w;

    (void)with_peer(&w);
    kube_forbid(w.local, LEASE_COLLECTION_PATH, 403);
    is_double(cluster_kit_metric(&w, name, NULL), 0, "nothing was read before anything has begun");
    sim_run_ms(w.loop, 20000);
    is_u64(series(&w, name, NULL), 1, "without the right it is said");
    is_double(cluster_kit_metric(&w, name, NULL), 0, "that the Leases were never read");
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 120000);
    is_double(cluster_kit_metric(&w, name, NULL), 1, "with it they are followed");

    kube_forbid(w.local, LEASE_COLLECTION_PATH, 403);
    sim_run_ms(w.loop, 10000);
    is_double(cluster_kit_metric(&w, name, NULL), 1, "and as long as that watch lasts");
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 10000);
    is_double(cluster_kit_metric(&w, name, NULL), 0, "then they are not");
    sim_run_ms(w.loop, 600000);
    is_double(cluster_kit_metric(&w, name, NULL), 0, "for as long as it is refused");
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 120000);
    is_double(cluster_kit_metric(&w, name, NULL), 1, "granted again");

    kube_forbid_watches(w.local, 403);
    sim_server_break(kube_sim(w.local));
    for (unsigned i = 0; i < 60; i++) {
        sim_run_ms(w.loop, 1000);
        followed += cluster_kit_metric(&w, name, NULL) > 0;
    }
    is_u64(followed, 0, "lists alone are not enough");
    kube_forbid_watches(w.local, 0);
    sim_run_ms(w.loop, 120000);
    kube_stop(w.local, false);
    sim_run_ms(w.loop, 5000);
    is_double(cluster_kit_metric(&w, name, NULL), 0, "a server that is away");
    cluster_kit_end(&w);
}

static void not_configured(void)
{
    static const char *const silent[] = {"mvproxy_etcd_working",
                                         "mvproxy_peer_endpoint_records",
                                         "mvproxy_local_failover_active",
                                         "mvproxy_identity_lease_publishing",
                                         "mvproxy_peers",
                                         "mvproxy_peers_ignored_total",
                                         "mvproxy_leases_watching",
                                         "mvproxy_peers_drained",
                                         "mvproxy_identity_leases_collected_total",
                                         "mvproxy_peer_endpoint_records_watching",
                                         "mvproxy_peer_endpoint_record_publishing",
                                         "mvproxy_skewed_group_versions",
                                         "mvproxy_uneven_group_versions",
                                         "mvproxy_requestheader_differs",
                                         "mvproxy_front_proxy_disbelieved",
                                         "mvproxy_excluded_group_versions"};
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.peers_enabled = false;
    cluster_kit_start(&w);
    for (size_t i = 0; i < ROWS(silent); i++)
        is_u64(shown(&w, silent[i]), 0, "nor from the start: %s", silent[i]);
    sim_run_ms(w.loop, 3000);
    for (size_t i = 0; i < ROWS(silent); i++)
        is_u64(series(&w, silent[i], NULL), 0, "without peers nothing is said of %s", silent[i]);
    is_u64(series(&w, "mvproxy_server_info", NULL), 1, "but the local server is there");
    cluster_kit_end(&w);
}

int main(void)
{
    by_host_name();
    never_read();
    another_answers();
    two_of_one_name();
    taken_away();
    leases_unread();
    not_configured();
    return tap_end();
}
