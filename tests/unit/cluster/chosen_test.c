/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several it is: the cause that a look is for, the peer that is meant, the address that may be used, and what
 * of a peer's words is taken. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/changes.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/cluster_view.h"
#include "kube/server_id.h"
#include "lib/listen.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

#define ID(letter) "apiserver-" letter letter "aaaaaaaaaaaaaaaaaaaaaaaa"

/* ---- causes ---- */

static double looks(struct cluster_kit *w, const char *trigger)
{
    static const char *const results[] = {"changed", "unchanged", "failed"};
    double n = 0;

    for (size_t i = 0; i < ROWS(results); i++)
        n += cluster_kit_metric(w, "mvproxy_discovery_refreshes_total", "local", trigger, results[i], NULL);
    return n;
}

/* The server is being asked when there are causes to ask it again: the next look is for the one that may not wait. */
static void next_cause(bool both)
{
    double miss, operators, starts;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 5000);
    kube_sim(w.local)->delay_ms = 50;
    cluster_local_etag_seen(w.cluster, SLICE_LIT("\"another\""));
    sim_run_ms(w.loop, 10);
    miss = looks(&w, "miss");
    operators = looks(&w, "operator");
    starts = looks(&w, "start");
    (void)cluster_local_miss(w.cluster, NULL, NULL);
    if (both)
        cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 4000);
    is_double(looks(&w, "miss") - miss, !both, "a look for a miss: %d", !both);
    is_double(looks(&w, "operator") - operators, both, "a look for who asked for it: %d", both);
    is_double(looks(&w, "start") - starts, 0, "none for a start");
    cluster_kit_end(&w);
}

/* ---- names ---- */

static void put_lease(struct cluster_kit *w, const char *id, const char *hostname, const char *address)
{
    char holder[80];

    (void)snprintf(holder, sizeof(holder), "%s_x", id);
    kube_put_lease(w->store, &(struct kube_lease){.name = id,
                                                  .hostname = hostname,
                                                  .holder = holder,
                                                  .address = address,
                                                  .renew_us = clock_wall_us(),
                                                  .duration_s = 3600});
}

/* To be read again is not to be drained: that one of them is tells nothing of which is meant. */
static void twins(void)
{
    struct cluster_drained d;
    struct err err = {.text = ""};
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    put_lease(&w, ID("b"), "twin", "10.0.0.2:6443");
    put_lease(&w, ID("c"), "twin", "10.0.0.3:6443");
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 3000);
    is_null(cluster_refresh_server(w.cluster, "twin", &err), "two of one name");
    ok(strstr(err.text, "2 servers are named \"twin\"") != NULL, "why: %s", err.text);
    err_clear(&err);
    ok(cluster_drain_peer(w.cluster, ID("b"), true, &d, &err), "one is drained: %s", err.text);
    is_null(cluster_refresh_server(w.cluster, "twin", &err), "still two");
    err_clear(&err);
    ok(cluster_drain_peer(w.cluster, "twin", false, &d, &err) && strcmp(d.id, ID("b")) == 0,
       "but only one that may be undrained: %s", err.text);
    is_str(cluster_refresh_server(w.cluster, ID("c"), &err), ID("c"), "by its ID");
    is_str(cluster_refresh_server(w.cluster, "cp-a", &err), served_local_id(cluster_served(w.cluster)), "the own one");
    cluster_kit_end(&w);
}

/* ---- addresses ---- */

static bool nobody(const struct sockaddr *addr, void *arg)
{
    (void)addr;
    (void)arg;
    return false;
}

static bool reads(struct cluster_kit *w, const char *host)
{
    const struct served *v = cluster_served(w->cluster);

    for (size_t i = 0; i < served_n_peers(v); i++)
        if (strcmp(served_peer_at(v, i)->host, host) == 0)
            return served_peer_at(v, i)->disco != NULL;
    return false;
}

/* What stands in the configuration itself may be used whatever the networks are; what a name leads to may not. */
static void literal(bool rule)
{
    static const struct cluster_static_peer fixed[] = {
        {"cp-b", "10.0.0.2", 6443}, {"cp-c", "fd00::3", 6443}, {"cp-e", "cp-e.example", 6443}};
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    (void)cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    (void)cluster_kit_peer(&w, "cp-c", "[fd00::3]:6443", KIT_BATCH);
    (void)cluster_kit_peer(&w, "cp-d", "10.0.0.4:6443", KIT_BATCH);
    (void)cluster_kit_peer(&w, "cp-e", "cp-e.example:6443", KIT_BATCH);
    w.opts.static_peers = fixed;
    w.opts.n_static_peers = ROWS(fixed);
    w.opts.peer_allowed = rule ? nobody : NULL;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 5000);
    ok(reads(&w, "cp-b"), "rule %d: an address of IPv4 in the configuration", rule);
    ok(reads(&w, "cp-c"), "rule %d: one of IPv6", rule);
    ok(reads(&w, "cp-e") == !rule, "rule %d: a name there", rule);
    ok(reads(&w, "cp-d") == !rule, "rule %d: one in a Lease", rule);
    cluster_kit_end(&w);
}

/* Where nothing else is known, a record counts though it is old. */
static void only_address(bool annotated)
{
    const struct origin_opts o = {.name = "etcd", .host = "10.0.1.1", .port = 2379};
    char key[100], value[400];
    struct sim_server *member;
    struct kube_server *b;
    struct sim_etcd *etcd;
    struct origin *origin;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    if (!annotated) {
        kube_stop(b, true);
        kube_set_unadvertised(b);
        kube_start(b, 0);
    }
    etcd = sim_etcd_new(w.loop, 77);
    member = sim_etcd_member(etcd, w.back, "10.0.1.1:2379");
    origin = origin_new(w.back, &o);
    (void)snprintf(key, sizeof(key), "/registry/peerserverleases/%s", kube_id(b));
    (void)snprintf(
        value, sizeof(value),
        "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{\"apiserverIdentity\":\"%s\"}},"
        "\"subsets\":[{\"addresses\":[{\"ip\":\"10.0.0.21\"}],\"ports\":[{\"port\":6443}]}]}",
        kube_id(b));
    sim_etcd_put(etcd, key, slice_str(value), 36000);
    w.opts.etcd_servers = &origin;
    w.opts.n_etcd_servers = 1;
    w.opts.etcd_prefix = "/registry";
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 10000);
    is_str(origin_address(cluster_kit_peer_of(&w, b)->origin), "10.0.0.21:6443", "annotated %d: by its record",
           annotated);
    member->fault = SIM_REFUSE;
    sim_server_break(member);
    sim_run_ms(w.loop, 100000);
    is_str(cluster_kit_peer_of(&w, b)->origin == NULL ? "nowhere" : origin_address(cluster_kit_peer_of(&w, b)->origin),
           annotated ? "10.0.0.2:6443" : "10.0.0.21:6443", "annotated %d: without etcd for long", annotated);
    origin_unref(origin);
    cluster_free(w.cluster);
    w.cluster = NULL;
    sim_run_ms(w.loop, 0);
    sim_etcd_free(etcd);
    cluster_kit_end(&w);
}

/* ---- words ---- */

/* What no API server can have is left out, and said when there is more or less of it. */
static void left_out(void)
{
    struct kube_server *b;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.changes = changes_new();
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH ";Odd_Group/v1:things");
    listen_to_log();
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 3000);
    is_u64(heard("Left out of a peer's discovery what no API server can have"), 1, "an odd group: said");
    is_str(changes_at(w.opts.changes, true, 0)->subject, "cp-b", "listed");
    is_str(changes_at(w.opts.changes, true, 0)->text,
           "1 names in its discovery that no API server can have: Odd_Group///", "with the first of them");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs") &&
           !cluster_kit_peer_serves(&w, b, "Odd_Group", "v1", "things"),
       "the others are known");
    sim_run_ms(w.loop, 200000);
    is_u64(heard("Left out of a peer's discovery what no API server can have"), 1, "once");
    kube_set_apis(b, KIT_BATCH ";Odd_Group/v1:things;Odd_Group_Too/v1:things");
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 3000);
    is_u64(heard("Left out of a peer's discovery what no API server can have"), 2, "another one: said");
    kube_set_apis(b, KIT_BATCH);
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 3000);
    is_u64(heard("Left out of a peer's discovery what no API server can have"), 2, "none any more: not said");
    kube_set_apis(b, KIT_BATCH ";Odd_Group/v1:things");
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 3000);
    is_u64(heard("Left out of a peer's discovery what no API server can have"), 3, "again: said");
    listen_no_more();
    cluster_kit_end(&w);
    changes_free(w.opts.changes);
}

/* What is said of a server that serves something else, in one line for each change. */
static void changes_of_apis(void)
{
    static const struct {
        const char *apis, *want;
    } rows[] = {
        {"apps/v1:deployments;batch/v1:jobs", "changed: apps/v1 batch/v1"},
        {"apps/v1:deployments;batch/v1:jobs;policy/v1:budgets", "new: policy/v1"},
        {"apps/v1:deployments;policy/v1:budgets", "gone: batch/v1"},
        {"apps/v1:deployments;batch/v1:jobs", "gone: policy/v1; new: batch/v1"},
        {"apps/v1:deployments,statefulsets", "gone: batch/v1; changed: apps/v1"},
        {"apps/v1:deployments;batch/v1:jobs", "new: batch/v1; changed: apps/v1"},
        {"apps/v1:statefulsets;policy/v1:budgets", "gone: batch/v1; new: policy/v1; changed: apps/v1"},
    };
    char want[200];
    struct kube_server *b;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    w.opts.changes = changes_new();
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 5000);
    for (size_t i = 0; i < ROWS(rows); i++) {
        kube_set_apis(b, rows[i].apis);
        cluster_refresh(w.cluster);
        sim_run_ms(w.loop, 3000);
        (void)snprintf(want, sizeof(want), "serves another set of APIs: %s", rows[i].want);
        is_str(changes_at(w.opts.changes, false, 0)->subject, "cp-b", "whose");
        is_str(changes_at(w.opts.changes, false, 0)->text, want, "change %zu", i);
    }
    cluster_free(w.cluster);
    w.cluster = NULL;
    changes_free(w.opts.changes);
    cluster_kit_end(&w);
}

/* A reload changes how often servers are read. */
static void intervals(void)
{
    uint64_t local, peer;
    struct kube_server *b;
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 5000);
    for (unsigned i = 0; i < 2; i++) {
        w.opts.refresh_interval_ms = i == 0 ? 2000 : 30000;
        ok(cluster_update(w.cluster, &w.opts), "every %u s", i == 0 ? 2 : 30);
        sim_run_ms(w.loop, 5000);
        local = kube_discovery_requests(w.local);
        peer = kube_discovery_requests(b);
        sim_run_ms(w.loop, 120000);
        local = kube_discovery_requests(w.local) - local;
        peer = kube_discovery_requests(b) - peer;
        ok(i == 0 ? local > 80 : local < 20, "the local server is asked %llu times", (unsigned long long)local);
        ok(i == 0 ? peer > 80 : peer < 20, "a peer %llu times", (unsigned long long)peer);
    }
    cluster_kit_end(&w);
}

/* All brackets outside of texts are closed, and nothing follows. */
static bool is_whole(struct slice json)
{
    bool quoted = false;
    int depth = 0;

    for (size_t i = 0; i < json.n; i++) {
        if (json.p[i] == '"' && (i == 0 || json.p[i - 1] != '\\'))
            quoted = !quoted;
        if (quoted)
            continue;
        depth += json.p[i] == '{' || json.p[i] == '[';
        depth -= json.p[i] == '}' || json.p[i] == ']';
        if (depth < 0 || (depth == 0 && i + 1 < json.n))
            return false;
    }
    return !quoted && depth == 0 && json.n > 0;
}

static void described(bool peers)
{
    struct cluster_kit w;
    struct buf out;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.peers_enabled = peers;
    kube_put_crd(w.store, "things.x.io", "x.io", "v1");
    (void)cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    buf_init(&out, 1 << 20);
    cluster_kit_start(&w);
    for (unsigned i = 0; i < 2; i++) {
        buf_reset(&out);
        cluster_describe(w.cluster, &out);
        ok(is_whole(buf_slice(&out)), "the description is JSON: %.*s", (int)buf_len(&out), buf_slice(&out).p);
        sim_run_ms(w.loop, 5000);
    }
    buf_append_char(&out, '\0');
    ok((strstr(buf_slice(&out).p, "\"groupVersions\":[") != NULL) == peers, "with what comes from no peer: %d", peers);
    buf_free(&out);
    cluster_kit_end(&w);
}

/* ---- versions ---- */

static struct {
    void (*serve)(void *arg, struct sim_request *q);
    const char *body; /* NULL: the server's own answer */
    unsigned status;
} version;

static void answer_version(void *arg, struct sim_request *q)
{
    if (version.body != NULL && slice_eq(sim_path(q), SLICE_LIT("/version")))
        sim_reply(q, version.status, "application/json", NULL, slice_str(version.body));
    else
        version.serve(arg, q);
}

/* A server of another major version is none that we know, and no identity is published for it. */
static void another_major(void)
{
    static const char *const bodies[] = {"{\"major\":\"2\",\"minor\":\"1\",\"gitVersion\":\"v2.1.0\"}",
                                         "{\"major\":\"0\",\"minor\":\"9\",\"gitVersion\":\"v0.9.0\"}", "nonsense"};

    for (size_t i = 0; i < ROWS(bodies); i++) {
        struct arena *a = arena_new(1 << 20);
        struct lease l;
        struct cluster_kit w;

        cluster_kit_init(&w, KIT_BASE);
        cluster_kit_without_lease(&w, 24);
        w.opts.identity = IDENTITY_AUTO;
        w.opts.advertise = "10.0.0.1:16443";
        version.serve = kube_sim(w.local)->serve;
        version.body = bodies[i];
        version.status = 200;
        kube_sim(w.local)->serve = answer_version;
        cluster_kit_start(&w);
        sim_run_ms(w.loop, 60000);
        ok(!kube_get_lease(w.store, kube_id(w.local), a, &l), "nothing is published: %s", bodies[i]);
        version.body = NULL;
        sim_run_ms(w.loop, 120000);
        ok(kube_get_lease(w.store, kube_id(w.local), a, &l), "until it says what it is");
        arena_free(a);
        cluster_kit_end(&w);
    }
}

static void is_version(struct cluster_kit *w, const char *want, const char *what)
{
    struct cluster_view v;

    if (!cluster_view_take(w->cluster, &v))
        tap_bail("no view");
    is_str(v.servers[0].version, want, "%s", what);
    ok(v.servers[0].answers == PULSE_ANSWERS, "%s: it answers", what);
    cluster_view_free(&v);
}

/* What is no version, or refused, says nothing of it. */
static void no_version(void)
{
    static const struct {
        unsigned status;
        const char *body;
    } rows[] = {{403, "{\"major\":\"1\",\"minor\":\"40\",\"gitVersion\":\"v1.40.0\"}"},
                {200, "nonsense"},
                {200, "{\"major\":\"1\",\"minor\":\"40\"}"},
                {404, ""}};
    struct cluster_kit w;

    cluster_kit_init(&w, KIT_BASE);
    w.opts.pulse = true;
    version.serve = kube_sim(w.local)->serve;
    version.body = "";
    version.status = 403;
    kube_sim(w.local)->serve = answer_version;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 3000);
    is_version(&w, "", "refused from the start");
    version.body = "{\"major\":\"1\",\"minor\":\"33\",\"gitVersion\":\"v1.33.1\"}";
    version.status = 200;
    sim_run_ms(w.loop, 3000);
    is_version(&w, "v1.33.1", "told");
    for (size_t i = 0; i < ROWS(rows); i++) {
        version.body = rows[i].body;
        version.status = rows[i].status;
        sim_run_ms(w.loop, 3000);
        is_version(&w, "v1.33.1", "it stays what it was");
    }
    cluster_kit_end(&w);
}

int main(void)
{
    another_major();
    no_version();
    changes_of_apis();
    intervals();
    described(true);
    described(false);
    next_cause(false);
    next_cause(true);
    twins();
    literal(false);
    literal(true);
    only_address(true);
    only_address(false);
    left_out();
    return tap_end();
}
