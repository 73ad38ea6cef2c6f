/* SPDX-License-Identifier: Apache-2.0 */
/* What seldom comes, and is taken for what it is: names that are none, objects that say nothing, too many of them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/changes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/cluster_env.h"
#include "cluster/own_lease.h"
#include "cluster/peers.h"
#include "cluster/pulse.h"
#include "lib/listen.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { LONG_NAME = 600, MOST_FIELDS = 64 };

/* ---- own names ---- */

static bool has_label(const char *hostname)
{
    struct own_lease *o = own_lease_new("apiserver-x", hostname);
    char label[400];
    struct buf body;
    bool has;

    buf_init(&body, 1 << 16);
    (void)snprintf(label, sizeof(label), "\"%s\"", hostname);
    ok(own_lease_print(o, &body), "printed");
    buf_append_char(&body, '\0');
    has = strstr(buf_slice(&body).p, label) != NULL;
    buf_free(&body);
    own_lease_free(o);
    return has;
}

/* Only a host name that a label may have is one. */
static void labels(void)
{
    static const char longest[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk";
    static const char *const fine[] = {"cp-a", "a", "0", "Z", "a.b_c-D9", "9-0", "az-AZ", longest};
    static const char *const none[] = {"-cp", "cp-", ".cp", "cp.", "_cp", "cp_", "c/p",
                                       "c p", "c@p", "c[p", "c`p", "c{p", "c:p", "cp\xc3\xa4"};
    char text[80];

    for (size_t i = 0; i < ROWS(fine); i++)
        ok(has_label(fine[i]), "a label: %s", fine[i]);
    for (size_t i = 0; i < ROWS(none); i++)
        ok(!has_label(none[i]), "no label: %s", none[i]);
    is_u64(sizeof(longest) - 1, 63, "as long as a label may be");
    (void)snprintf(text, sizeof(text), "%sl", longest);
    ok(!has_label(text), "a longer one");
}

/* A host name that is longer than any makes no server ID, and mvproxy goes on without. */
static void no_own_id(void)
{
    char hostname[400];
    struct kube_server *b;
    struct cluster_kit w;

    memset(hostname, 'h', sizeof(hostname) - 1);
    hostname[sizeof(hostname) - 1] = '\0';
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    w.opts.hostname = hostname;
    listen_to_log();
    cluster_kit_start(&w);
    is_u64(heard("The host name makes no server ID"), 1, "a host name that makes no ID: said");
    listen_no_more();
    sim_run_ms(w.loop, 3000);
    is_str(served_local_id(cluster_served(w.cluster)), "", "there is none");
    ok(cluster_is_own_name(w.cluster, hostname), "but a name");
    ok(cluster_kit_local_serves(&w, "apps", "v1", "deployments") &&
           cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "and all else is known");
    cluster_kit_end(&w);
}

/* ---- own identity in requests ---- */

static void groups(void)
{
    const char *names[MOST_FIELDS + 2] = {NULL};
    struct cluster_kit w;
    uint64_t unmarked;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (size_t i = 0; i + 1 < MOST_FIELDS; i++)
        names[i] = "some";
    w.opts.groups = names;
    ok(cluster_update(w.cluster, &w.opts), "a user with 63 groups");
    names[MOST_FIELDS - 1] = "one more";
    ok(!cluster_update(w.cluster, &w.opts), "with one more: refused");
    names[MOST_FIELDS] = "and another";
    ok(!cluster_update(w.cluster, &w.opts), "and with another one");
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 2000);
    unmarked = kube_unmarked(w.local);
    is_u64(unmarked, 0, "all is asked as before");
    cluster_kit_end(&w);

    cluster_kit_init(&w, KIT_BASE);
    w.opts.groups = names;
    listen_to_log();
    cluster_kit_start(&w);
    is_u64(heard("Could not express the own user in request headers"), 1, "from the start: said");
    listen_no_more();
    sim_run_ms(w.loop, 1000);
    w.opts.groups = NULL;
    ok(cluster_update(w.cluster, &w.opts), "until a reload without");
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 3000);
    ok(cluster_kit_local_serves(&w, "apps", "v1", "deployments"), "then all is read");
    cluster_kit_end(&w);
}

/* ---- objects ---- */

static bool excluded(struct cluster_kit *w, const char *group, const char *version)
{
    return served_excluded(cluster_served(w->cluster), slice_str(group), slice_str(version));
}

/* None of them says which versions there are, and the others count. */
static void odd_definitions(void)
{
    static const char *const specs[] = {",\"spec\":{\"group\":\"o.io\"}",
                                        ",\"spec\":{\"group\":\"o.io\",\"versions\":{}}",
                                        ",\"spec\":{\"group\":\"o.io\",\"versions\":\"v1\"}",
                                        ",\"spec\":{\"group\":\"o.io\",\"versions\":[]}",
                                        ",\"spec\":{\"group\":\"o.io\",\"versions\":[\"v1\",1,{},{\"name\":1}]}",
                                        ",\"spec\":{\"group\":\"o.io\",\"versions\":[{\"name\":\"v\\u0031\"}]}",
                                        ",\"spec\":{\"group\":\"o.io\",\"versions\":[{\"name\":\"\"}]}",
                                        ",\"spec\":{\"versions\":[{\"name\":\"v1\"}]}",
                                        ",\"spec\":\"o.io\""};
    char name[32], spec[LONG_NAME + 200], longest[LONG_NAME];
    uint64_t asked;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    for (size_t i = 0; i < ROWS(specs); i++) {
        (void)snprintf(name, sizeof(name), "o%zu.o.io", i);
        kube_put(w.store, KUBE_CRD, name, "", specs[i]);
    }
    memset(longest, 'v', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    (void)snprintf(spec, sizeof(spec),
                   ",\"spec\":{\"group\":\"l.io\",\"versions\":[{\"name\":\"%s\"},{\"name\":\"v2\"}]}", longest);
    kube_put(w.store, KUBE_CRD, "ls.l.io", "", spec);
    (void)snprintf(spec, sizeof(spec), ",\"spec\":{\"group\":\"%s\",\"versions\":[{\"name\":\"v2\"}]}", longest);
    kube_put(w.store, KUBE_CRD, "ms.l.io", "", spec);
    longest[512] = '\0';
    (void)snprintf(spec, sizeof(spec), ",\"spec\":{\"group\":\"%s\",\"versions\":[{\"name\":\"v2\"}]}", longest);
    kube_put(w.store, KUBE_CRD, "ns.l.io", "", spec);
    kube_put_crd(w.store, "goods.g.io", "g.io", "v1");
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(excluded(&w, "g.io", "v1") && excluded(&w, "l.io", "v2") && excluded(&w, longest, "v2"),
       "what is a name is one");
    is_double(cluster_kit_metric(&w, "mvproxy_excluded_group_versions", NULL), 3, "and nothing else");
    sim_run_ms(w.loop, 10000);
    asked = kube_discovery_requests(w.local);
    kube_inject(
        w.store, KUBE_CRD,
        "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"nobodys.n.io\",\"resourceVersion\":\"9\"}}}\n");
    sim_run_ms(w.loop, 1000);
    is_u64(kube_discovery_requests(w.local), asked, "what nobody has seen does not go");
    ok(kube_watches(w.store, KUBE_CRD) == 1 && excluded(&w, "g.io", "v1"), "the watch goes on");
    kube_put_crd(w.store, "twos.t.io", "t.io", "v7 v8");
    sim_run_ms(w.loop, 10);
    kube_put_apiservice(w.store, "u.io", "v7", true);
    sim_run_ms(w.loop, 10);
    ok(excluded(&w, "u.io", "v7") && !excluded(&w, "u.io", "v8"), "an APIService has one version");
    is_double(cluster_kit_metric(&w, "mvproxy_excluded_group_versions", NULL), 6, "no other");
    cluster_kit_end(&w);
}

/* ---- peers ---- */

static unsigned added, removed, changed;

static void on_added(void *arg, struct peer *peer)
{
    (void)arg;
    (void)peer;
    added++;
}

static void on_removed(void *arg, struct peer *peer)
{
    (void)arg;
    (void)peer;
    removed++;
}

static void on_changed(void *arg, struct peer *peer, unsigned what)
{
    (void)arg;
    (void)peer;
    (void)what;
    changed++;
}

static bool answers(void *arg, const struct peer *peer)
{
    (void)arg;
    (void)peer;
    return false;
}

static struct lease lease_of(const char *name)
{
    return (struct lease){.name = slice_str(name),
                          .ns = SLICE_LIT("kube-system"),
                          .holder = SLICE_LIT("h"),
                          .hostname_label = SLICE_LIT("cp-x"),
                          .has_duration = true,
                          .has_renew_time = true,
                          .duration_s = 3600,
                          .renew_us = clock_wall_us()};
}

static void limits(void)
{
    static const struct peers_handler h = {
        .added = on_added, .changed = on_changed, .removed = on_removed, .answers = answers, .document_holds = answers};
    struct cluster_env env = {.own_id = "own", .o = {.stale_after_ms = 40000, .forget_after_ms = 300000}};
    struct lease own = lease_of("own"), other = lease_of("one-more");
    struct peers *p;
    struct cluster_kit w;
    char id[32];

    cluster_kit_init(&w, KIT_BASE);
    env.loop = w.loop;
    env.back = w.back;
    p = peers_new(&env, &h, NULL);
    if (p == NULL)
        tap_bail("no peers");
    peers_lease(p, &own);
    ok(peers_count(p) == 0 && added == 0 && peers_find(p, SLICE_LIT("own")) == NULL, "nobody is his own peer");
    for (unsigned i = 0; i < LIMIT_PEERS; i++) {
        (void)snprintf(id, sizeof(id), "seed-%u", i);
        peers_etcd_address(p, slice_str(id), "10.0.0.2", 6443);
    }
    ok(peers_count(p) == LIMIT_PEERS && added == LIMIT_PEERS && peers_ignored(p) == 0, "as many as there may be");
    peers_etcd_address(p, SLICE_LIT("one-more"), "10.0.0.2", 6443);
    ok(peers_count(p) == LIMIT_PEERS && added == LIMIT_PEERS && peers_ignored(p) == 1, "no more by their records");
    peers_lease(p, &other);
    ok(peers_count(p) == LIMIT_PEERS && peers_ignored(p) == 2, "nor by their Leases");
    other.renew_us = 1;
    peers_lease(p, &other);
    ok(peers_count(p) == LIMIT_PEERS && peers_ignored(p) == 2, "nor is what has expired one that there is no room for");
    peers_free(p);
    is_u64(removed, LIMIT_PEERS, "and all of them go");
    cluster_kit_end(&w);
}

/* Leases that somebody forged: renewed they are peers, silent they keep nobody out. */
static void forged_crowd(void)
{
    char name[] = "apiserver-tcwjsvs6hjq4qbwzx5rvp5fsqe", holder[sizeof(name) + 2];
    struct kube_server *b;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (unsigned i = 0; i < LIMIT_PEERS + 4; i++) {
        struct kube_lease l = {.name = name, .hostname = "ghost", .holder = holder, .duration_s = 3600};

        name[10] = (char)('a' + i / 26);
        name[11] = (char)('a' + i % 26);
        (void)snprintf(holder, sizeof(holder), "%s_x", name);
        l.renew_us = clock_wall_us();
        kube_put_lease(w.store, &l);
    }
    sim_run_ms(w.loop, 1000);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    sim_run_ms(w.loop, 60000);
    ok(cluster_kit_peer_of(&w, b) != NULL && cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"),
       "a server has a place when they lapse");
    cluster_kit_end(&w);
}

/* What is so already is not said again. */
static void drained_twice(void)
{
    struct cluster_drained d;
    struct err err = {.text = ""};
    struct kube_server *b;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    w.opts.changes = changes_new();
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (unsigned i = 0; i < 3; i++) {
        listen_to_log();
        ok(cluster_drain_peer(w.cluster, "cp-b", i < 2, &d, &err), "drained: %d", i < 2);
        sim_run_ms(w.loop, 100);
        is_u64(heard("Peer drained") + heard("Peer undrained"), i != 1, "said once");
        listen_no_more();
        is_u64(changes_at(w.opts.changes, false, 0)->times, 1, "as one change");
        is_str(d.id, kube_id(b), "whom");
        ok(cluster_kit_peer_of(&w, b)->drained == (i < 2), "and it is so");
    }
    cluster_free(w.cluster);
    w.cluster = NULL;
    changes_free(w.opts.changes);
    cluster_kit_end(&w);
}

/* ---- what is said of servers ---- */

static void denied_long_ago(void)
{
    const struct gvr gvr = {SLICE_LIT("batch"), SLICE_LIT("v1"), SLICE_LIT("jobs")},
                     other = {SLICE_LIT("batch"), SLICE_LIT("v1"), SLICE_LIT("cronjobs")};
    uint64_t ago_ms = 1;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.changes = changes_new();
    cluster_kit_start(&w);
    ok(!cluster_disbelieved_lately(w.cluster, "cp-b", &gvr, &ago_ms), "not before");
    cluster_disbelieved(w.cluster, "cp-b", &gvr);
    ok(cluster_disbelieved_lately(w.cluster, "cp-b", &gvr, &ago_ms) && ago_ms == 0, "just now");
    sim_run_ms(w.loop, 599000);
    ok(cluster_disbelieved_lately(w.cluster, "cp-b", &gvr, &ago_ms) && ago_ms == 599000, "ten minutes ago: %llu",
       (unsigned long long)ago_ms);
    ok(!cluster_disbelieved_lately(w.cluster, "cp-c", &gvr, &ago_ms), "not another server");
    ok(!cluster_disbelieved_lately(w.cluster, "cp-b", &other, &ago_ms), "nor something else");
    sim_run_ms(w.loop, 2000);
    ok(!cluster_disbelieved_lately(w.cluster, "cp-b", &gvr, &ago_ms), "longer ago does not count");
    cluster_free(w.cluster);
    w.cluster = NULL;
    changes_free(w.opts.changes);
    cluster_kit_end(&w);
}

/* What failover waits for while the server does not answer, and when it has begun. */
static void not_yet(void)
{
    char text[300];
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.pulse = w.opts.local_failover = true;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    cluster_local_describe(w.cluster, text, sizeof(text));
    is_str(text, "not needed: the local API server answers", "it answers");
    kube_forbid(w.local, "/version", 500);
    sim_run_ms(w.loop, 5000);
    cluster_local_describe(w.cluster, text, sizeof(text));
    ok(strncmp(text, "not yet: the local API server does not answer for ", 50) == 0 &&
           strstr(text, "s; it begins when a request, its /readyz or reading discovery fails as well") != NULL,
       "nothing else fails: %s", text);
    kube_sim(w.local)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, 5000);
    cluster_local_describe(w.cluster, text, sizeof(text));
    ok(strncmp(text, "active for ", 11) == 0 &&
           strstr(text, "s: the local kube-apiserver does not answer, and no peer answers for it") != NULL,
       "all fails: %s", text);
    w.opts.local_failover = false;
    ok(cluster_update(w.cluster, &w.opts), "switched off");
    cluster_local_describe(w.cluster, text, sizeof(text));
    is_str(text, "off", "and said so");
    cluster_etcd_state(w.cluster, text, sizeof(text));
    is_str(text, "not configured", "nor is there an etcd");
    cluster_kit_end(&w);
}

static void read_at_last(void)
{
    struct kube_server *b;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_sim(b)->delay_ms = 3000;
    kube_forbid(w.local, "/apis/coordination.k8s.io/", 500);
    listen_to_log();
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 500);
    ok(!served_leases_listed(cluster_served(w.cluster)), "the Leases cannot be listed");
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 2000);
    ok(served_leases_listed(cluster_served(w.cluster)), "then they are");
    ok(!served_peers_read(cluster_served(w.cluster)), "a peer has not said yet what it has");
    kube_sim(b)->delay_ms = 0;
    sim_run_ms(w.loop, 12000);
    ok(served_peers_read(cluster_served(w.cluster)), "then it has");
    is_u64(heard("Discovery synced"), 1, "that all is known is said once");
    listen_no_more();
    cluster_kit_end(&w);
}

static void names(void)
{
    is_str(pulse_name(PULSE_UNKNOWN), "unknown", "not known");
    is_str(pulse_name(PULSE_ANSWERS), "answers", "answers");
    is_str(pulse_name(PULSE_UNREACHABLE), "unreachable", "does not");
}

int main(void)
{
    labels();
    no_own_id();
    groups();
    odd_definitions();
    limits();
    forged_crowd();
    drained_twice();
    denied_long_ago();
    not_yet();
    read_at_last();
    names();
    return tap_end();
}
