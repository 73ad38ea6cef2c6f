/* SPDX-License-Identifier: Apache-2.0 */
/* What the layers above ask of the cluster that is not routing: pages for people, places to dial, what differs, whom an
 * operator takes out of service. */
#include "cluster/cluster_view.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

enum { ROOM = 1 << 16, MEMBERS = 2 };

/* ---- internal state ---- */

static void is_described(struct cluster_kit *w, const char *want, const char *what)
{
    struct buf out;

    buf_init(&out, ROOM);
    cluster_describe(w->cluster, &out);
    is_slice(buf_slice(&out), want, "%s", what);
    buf_free(&out);
}

static void described(void)
{
    static const char *const hosts[MEMBERS] = {"10.0.1.1", "10.0.1.2"};
    struct cluster_kit w;
    struct sim_etcd *etcd;
    struct sim_server *members[MEMBERS];
    struct origin *origins[MEMBERS];
    char address[32];

    cluster_kit_init(&w, KIT_BASE);
    etcd = sim_etcd_new(w.loop, 77);
    for (size_t i = 0; i < MEMBERS; i++) {
        struct origin_opts o = {.name = "etcd", .host = hosts[i], .port = 2379};

        (void)snprintf(address, sizeof(address), "%s:2379", hosts[i]);
        members[i] = sim_etcd_member(etcd, w.back, address);
        origins[i] = origin_new(w.back, &o);
    }
    w.opts.peers_enabled = false;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 1000);
    is_described(&w, "{\"etcd\":{}}", "without peers");
    w.opts.peers_enabled = true;
    w.opts.etcd_servers = origins;
    w.opts.n_etcd_servers = MEMBERS;
    w.opts.etcd_prefix = "/registry";
    w.opts.advertise = "10.0.0.11:6443";
    ok(cluster_update(w.cluster, &w.opts), "with peers and etcd");
    is_described(
        &w,
        "{\"etcd\":{\"working\":false,\"endpoints\":[\"10.0.1.1:2379\",\"10.0.1.2:2379\"],\"endpoint\":\"10.0."
        "1.1:2379\",\"failure\":\"\",\"watch\":\"waiting\",\"synced\":false,\"records\":0,\"revision\":0,\"ownRec"
        "ord\":\"starting\"},\"ownLeaseSeen\":false,\"leases\":{\"collection\":\"leases\",\"state\":\"waiting\","
        "\"synced\":false,\"objects\":0,\"lists\":0,\"events\":0,\"badLines\":0,\"tooLarge\":0,\"resourceVersi"
        "on\":\"\",\"failure\":\"\"},\"exclusions\":{\"informers\":[{\"collection\":\"customresourcedefinitions"
        "\",\"state\":\"waiting\",\"synced\":false,\"objects\":0,\"lists\":0,\"events\":0,\"badLines\":0,\"tooLar"
        "ge\":0,\"resourceVersion\":\"\",\"failure\":\"\"},{\"collection\":\"apiservices\",\"state\":\"waiting\",\""
        "synced\":false,\"objects\":0,\"lists\":0,\"events\":0,\"badLines\":0,\"tooLarge\":0,\"resourceVersio"
        "n\":\"\",\"failure\":\"\"}],\"groupVersions\":[]}}",
        "at first");
    kube_put_crd(w.store, "crontabs.stable.example.com", "stable.example.com", "v1 v2");
    kube_put_apiservice(w.store, "metrics.k8s.io", "v1beta1", true);
    sim_run_ms(w.loop, 2000);
    is_described(
        &w,
        "{\"etcd\":{\"working\":true,\"endpoints\":[\"10.0.1.1:2379\",\"10.0.1.2:2379\"],\"endpoint\":\"10.0.1"
        ".1:2379\",\"failure\":\"\",\"watch\":\"watching\",\"synced\":true,\"records\":1,\"revision\":10,\"ownRec"
        "ord\":\"published\"},\"ownLeaseSeen\":true,\"leases\":{\"collection\":\"leases\",\"state\":\"watching\""
        ",\"synced\":true,\"objects\":1,\"lists\":1,\"events\":0,\"badLines\":0,\"tooLarge\":0,\"resourceVersi"
        "on\":\"103\",\"failure\":\"\"},\"exclusions\":{\"informers\":[{\"collection\":\"customresourcedefiniti"
        "ons\",\"state\":\"watching\",\"synced\":true,\"objects\":1,\"lists\":1,\"events\":0,\"badLines\":0,\"too"
        "Large\":0,\"resourceVersion\":\"103\",\"failure\":\"\"},{\"collection\":\"apiservices\",\"state\":\"watc"
        "hing\",\"synced\":true,\"objects\":1,\"lists\":1,\"events\":0,\"badLines\":0,\"tooLarge\":0,\"resource"
        "Version\":\"103\",\"failure\":\"\"}],\"groupVersions\":[\"stable.example.com/v1\",\"stable.example.c"
        "om/v2\",\"metrics.k8s.io/v1beta1\"]}}",
        "all is read");
    for (size_t i = 0; i < MEMBERS; i++)
        members[i]->fault = SIM_REFUSE;
    for (size_t i = 0; i < MEMBERS; i++)
        sim_server_break(members[i]);
    kube_forbid(w.local, "/apis/apiregistration.k8s.io", 500);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 20000);
    is_described(
        &w,
        "{\"etcd\":{\"working\":false,\"endpoints\":[\"10.0.1.1:2379\",\"10.0.1.2:2379\"],\"endpoint\":\"10.0."
        "1.2:2379\",\"failure\":\"10.0.1.1:2379: connection refused\",\"watch\":\"waiting\",\"synced\":true,"
        "\"records\":1,\"revision\":10,\"ownRecord\":\"starting\"},\"ownLeaseSeen\":true,\"leases\":{\"collect"
        "ion\":\"leases\",\"state\":\"watching\",\"synced\":true,\"objects\":1,\"lists\":1,\"events\":2,\"badLine"
        "s\":0,\"tooLarge\":0,\"resourceVersion\":\"105\",\"failure\":\"\"},\"exclusions\":{\"informers\":[{\"col"
        "lection\":\"customresourcedefinitions\",\"state\":\"watching\",\"synced\":true,\"objects\":1,\"lists"
        "\":1,\"events\":0,\"badLines\":0,\"tooLarge\":0,\"resourceVersion\":\"103\",\"failure\":\"\"},{\"collect"
        "ion\":\"apiservices\",\"state\":\"waiting\",\"synced\":true,\"objects\":1,\"lists\":1,\"events\":0,\"bad"
        "Lines\":0,\"tooLarge\":0,\"resourceVersion\":\"103\",\"failure\":\"answered 500\"}],\"groupVersions\""
        ":[\"stable.example.com/v1\",\"stable.example.com/v2\",\"metrics.k8s.io/v1beta1\"]}}",
        "etcd is away, and APIServices cannot be read");
    cluster_free(w.cluster);
    w.cluster = NULL;
    sim_run_ms(w.loop, 0);
    for (size_t i = 0; i < MEMBERS; i++)
        origin_unref(origins[i]);
    sim_etcd_free(etcd);
    cluster_kit_end(&w);
}

static bool own_seen(struct cluster_kit *w)
{
    struct buf out;
    bool seen;

    buf_init(&out, ROOM);
    cluster_describe(w->cluster, &out);
    seen = memmem(out.p + out.start, buf_len(&out), "\"ownLeaseSeen\":true", 19) != NULL;
    buf_free(&out);
    return seen;
}

/* A server of 1.26 has another name for its Lease: the last that was seen is its own. */
static void own_lease(void)
{
    struct cluster_kit w;
    char older[SERVER_ID_BYTES_126];

    cluster_kit_init(&w, KIT_BASE);
    kube_stop(w.local, true);
    kube_set_minor(w.local, 26);
    kube_start(w.local, 0);
    if (!server_id_126_from_hostname(SLICE_LIT("cp-a"), older))
        tap_bail("no ID");
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 1000);
    ok(own_seen(&w), "that of 1.26");
    kube_stop(w.local, false);
    kube_set_minor(w.local, 34);
    kube_start(w.local, 0);
    sim_run_ms(w.loop, 15000);
    ok(own_seen(&w), "another one");
    kube_delete(w.store, KUBE_LEASE, older);
    sim_run_ms(w.loop, 100);
    ok(own_seen(&w), "without the former");
    kube_pause_renewal(w.local, true);
    kube_delete(w.store, KUBE_LEASE, kube_id(w.local));
    sim_run_ms(w.loop, 100);
    ok(!own_seen(&w), "and without it");
    cluster_kit_end(&w);
}

/* ---- places ---- */

struct places {
    char text[512];
};

static void on_place(void *arg, const struct cluster_place *p)
{
    struct places *to = arg;
    size_t n = strlen(to->text);

    (void)snprintf(to->text + n, sizeof(to->text) - n, "%s at %s port %u%s; ", p->server, p->host, p->port,
                   p->unreachable ? ", unreachable" : "");
}

static const char *places(struct cluster_kit *w)
{
    static struct places to;

    to.text[0] = '\0';
    cluster_each_place(w->cluster, on_place, &to);
    return to.text;
}

static void each_place(void)
{
    struct cluster_kit w;
    struct kube_server *b, *c;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BASE);
    c = kube_server_new(w.store, w.back, "cp-c", "10.0.0.3:6443", KIT_BASE);
    kube_set_unadvertised(c);
    kube_start(c, 0);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 2000);
    is_str(places(&w), "cp-b at 10.0.0.2 port 6443; ", "who has an address");
    kube_sim(b)->fault = SIM_REFUSE;
    sim_server_break(kube_sim(b));
    cluster_peer_suspect(w.cluster, kube_id(b));
    sim_run_ms(w.loop, 2000);
    is_str(places(&w), "cp-b at 10.0.0.2 port 6443, unreachable; ", "which leads nowhere");
    kube_stop(b, true);
    sim_run_ms(w.loop, 1000);
    is_str(places(&w), "", "who has gone is at no place");
    w.opts.peers_enabled = false;
    ok(cluster_update(w.cluster, &w.opts), "without peers");
    is_str(places(&w), "", "nobody");
    cluster_kit_end(&w);
}

/* ---- an operator's words ---- */

static void drains(void)
{
    struct cluster_kit w;
    struct kube_server *c;
    struct cluster_drained d = {.in_flight = 7};
    struct err err = {.text = ""};

    cluster_kit_init(&w, KIT_BASE);
    c = kube_server_new(w.store, w.back, "cp-c", "10.0.0.3:6443", KIT_BASE);
    kube_set_unadvertised(c);
    kube_start(c, 0);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 2000);
    ok(cluster_drain_peer(w.cluster, "cp-c", true, &d, &err), "a peer without an address: %s", err.text);
    is_u64(d.in_flight, 0, "has no requests");
    ok(strcmp(d.id, kube_id(c)) == 0 && strcmp(d.host, "cp-c") == 0, "it is that one");
    sim_run_ms(w.loop, 100);
    ok(cluster_kit_peer_of(&w, c)->drained, "and drained");
    ok(!cluster_drain_peer(w.cluster, "cp-x", true, &d, &err), "nobody of that name");
    err_clear(&err);
    ok(cluster_drain_peer(w.cluster, kube_id(c), false, &d, &err), "back: %s", err.text);
    sim_run_ms(w.loop, 100);
    ok(!cluster_kit_peer_of(&w, c)->drained, "in service");
    cluster_kit_end(&w);
}

static void fixed(void)
{
    static char long_name[400];
    struct cluster_static_peer fixed[] = {
        {.name = long_name, .host = "10.0.0.8", .port = 6443},
        {.name = NULL, .host = "10.0.0.3", .port = 6444}, /* by its ID */
        {.name = "cp-d", .host = "10.0.0.4", .port = 6445},
        {.name = "cp-a", .host = "10.0.0.1", .port = 6443}, /* ourselves */
    };
    struct cluster_kit w;
    struct kube_server *c;
    const struct served *s;

    memset(long_name, 'x', sizeof(long_name) - 1);
    cluster_kit_init(&w, KIT_BASE);
    c = kube_server_new(w.store, w.back, "cp-c", "10.0.0.3:6444", KIT_BASE);
    fixed[1].name = kube_id(c);
    w.opts.static_peers = fixed;
    w.opts.n_static_peers = ROWS(fixed);
    cluster_kit_start(&w);
    ok(strstr(places(&w), "cp-d at 10.0.0.4 port 6445") != NULL, "where they are is known at once: %s", places(&w));
    sim_run_ms(w.loop, 2000);
    s = cluster_served(w.cluster);
    is_u64(served_n_peers(s), 2, "who has a usable name, and is another");
    ok(cluster_kit_peer_of(&w, c) != NULL && strcmp(cluster_kit_peer_of(&w, c)->source, "static") == 0,
       "one by its ID");
    ok(strstr(places(&w), "at 10.0.0.3 port 6444") != NULL && strstr(places(&w), "cp-d at 10.0.0.4 port 6445") != NULL,
       "at their places: %s", places(&w));
    fixed[1].port = 6446;
    w.opts.n_static_peers = 2;
    ok(cluster_update(w.cluster, &w.opts), "one moves, one goes");
    sim_run_ms(w.loop, 2000);
    is_u64(served_n_peers(cluster_served(w.cluster)), 1, "the other one stays");
    ok(strstr(places(&w), "at 10.0.0.3 port 6446") != NULL, "at its place: %s", places(&w));
    cluster_kit_end(&w);
}

/* Whose address stands in the configuration is asked again when it is back, as anybody. */
static void back_at_once(bool is_fixed)
{
    static const struct cluster_static_peer fixed[] = {{.name = "cp-b", .host = "10.0.0.2", .port = 6443}};
    struct cluster_kit w;
    struct kube_server *b;
    uint64_t before;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    w.opts.static_peers = fixed;
    w.opts.n_static_peers = is_fixed ? 1 : 0;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000) && cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "ready");
    kube_stop(b, false);
    sim_run_ms(w.loop, 400000);
    ok(cluster_kit_peer_of(&w, b) == NULL, "forgotten");
    before = kube_sim(b)->requests;
    sim_run_ms(w.loop, 100000);
    is_u64(kube_sim(b)->requests, before, "and asked no more");
    kube_start(b, 0);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "back: asked at once");
    cluster_kit_end(&w);
}

/* Each time that it comes, that nobody knows where it is is counted. */
static void without_address(void)
{
    static const char counted[] = "apiserver_peer_discovery_sync_errors_total";
    struct cluster_kit w;
    struct kube_server *c;

    cluster_kit_init(&w, KIT_BASE);
    c = kube_server_new(w.store, w.back, "cp-c", "10.0.0.3:6443", KIT_BASE);
    kube_set_unadvertised(c);
    kube_start(c, 0);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 2000);
    is_double(cluster_kit_metric(&w, counted, "hostport_resolution", NULL), 1, "who has no address is counted");
    kube_stop(c, false);
    sim_run_ms(w.loop, 60000);
    is_double(cluster_kit_metric(&w, counted, "hostport_resolution", NULL), 1, "once");
    kube_start(c, 0);
    sim_run_ms(w.loop, 2000);
    is_double(cluster_kit_metric(&w, counted, "hostport_resolution", NULL), 2, "and again when it is back");
    cluster_kit_end(&w);
}

/* Who can be asked at last is waited for from then on, as anybody. */
static void address_at_last(void)
{
    struct cluster_static_peer fixed[] = {{.name = "cp-c", .host = "10.0.0.3", .port = 6443}};
    struct cluster_kit w;
    struct kube_server *c;
    uint64_t before;

    cluster_kit_init(&w, KIT_BASE);
    c = kube_server_new(w.store, w.back, "cp-c", "10.0.0.3:6443", KIT_BASE);
    kube_set_unadvertised(c);
    kube_start(c, 0);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 200000);
    ok(cluster_kit_peer_of(&w, c) != NULL && !cluster_kit_peer_of(&w, c)->pending,
       "nobody waits for whom nobody can ask");
    kube_sim(c)->fault = SIM_HANG;
    w.opts.static_peers = fixed;
    w.opts.n_static_peers = 1;
    ok(cluster_update(w.cluster, &w.opts), "an address");
    sim_run_ms(w.loop, 30000);
    ok(cluster_kit_peer_of(&w, c)->pending, "waited for");
    sim_run_ms(w.loop, 35000);
    ok(!cluster_kit_peer_of(&w, c)->pending, "for a minute");
    for (unsigned port = 6444; port > 6442; port--) {
        fixed[0].port = port;
        ok(cluster_update(w.cluster, &w.opts), "elsewhere while it is asked, and back at once");
    }
    kube_sim(c)->fault = SIM_FINE;
    before = kube_discovery_requests(c);
    sim_run_ms(w.loop, 3000);
    ok(cluster_kit_peer_serves(&w, c, "apps", "v1", "deployments") && kube_discovery_requests(c) == before + 2,
       "it answers, asked once");
    cluster_kit_end(&w);
}

/* ---- what differs ---- */

static void differs(void)
{
    const struct slice batch = SLICE_LIT("batch"), apps = SLICE_LIT("apps"), v1 = SLICE_LIT("v1");
    struct cluster_kit w;
    struct kube_server *b;
    uint64_t now_ms, ms;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_set_schemas(w.local, "A");
    kube_set_schemas(b, "B");
    cluster_kit_start(&w);
    is_u64(cluster_uneven_gv_ms(w.cluster, batch, v1), 0, "nothing has been compared");
    ok(cluster_kit_ready(&w, 2000), "ready");
    now_ms = clock_ms();
    sim_run_ms(w.loop, 5000);
    ms = cluster_uneven_gv_ms(w.cluster, batch, v1);
    ok(ms >= 4000 && ms <= 5000 + now_ms, "what one has differs for %llu ms", (unsigned long long)ms);
    ok(ms < 8000, "since it was seen");
    is_u64(cluster_uneven_gv_ms(w.cluster, apps, v1), 0, "what both have does not");
    is_u64(cluster_uneven_gv_ms(w.cluster, batch, SLICE_LIT("v9")), 0, "nor what nobody has");
    ok(served_live_peer_names(cluster_served(w.cluster), batch, v1), "a live peer has it");
    ok(served_live_peer_names(cluster_served(w.cluster), batch, SLICE_NONE), "and the group");
    ok(!served_live_peer_names(cluster_served(w.cluster), SLICE_LIT("policy"), SLICE_NONE), "not another one");
    ok(!served_live_peer_names(cluster_served(w.cluster), batch, SLICE_LIT("v2")), "nor another version");
    is_slice(served_schema(cluster_served(w.cluster), 0, apps, v1), "A", "hashes of schemas: the local server's");
    is_slice(served_schema(cluster_served(w.cluster), 1, apps, v1), "B", "the peer's");
    is_u64(served_schema(cluster_served(w.cluster), 1, batch, v1).n, 0, "none where the index has none");
    ok(served_local_schemas(cluster_served(w.cluster)) != NULL, "the local index");
    kube_stop(b, false);
    sim_run_ms(w.loop, 60000);
    ok(!served_live_peer_names(cluster_served(w.cluster), batch, v1), "who has lapsed says nothing");
    cluster_kit_end(&w);
}

/* ---- the local server ---- */

static void suspected(void)
{
    struct cluster_kit w;
    uint64_t before;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 5000);
    before = kube_discovery_requests(w.local);
    cluster_local_suspect(w.cluster);
    sim_run_ms(w.loop, 100);
    is_u64(kube_discovery_requests(w.local), before + 2, "the local server is asked at once");
    cluster_kit_end(&w);
}

static const char *failover(struct cluster_kit *w)
{
    static char text[300];

    cluster_local_describe(w->cluster, text, sizeof(text));
    return text;
}

static void fails_over(void)
{
    struct cluster_kit w;
    char reason[200];
    uint64_t before;

    cluster_kit_init(&w, KIT_BASE);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    is_str(failover(&w), "off", "without failover");
    cluster_kit_end(&w);
    cluster_kit_init(&w, KIT_BASE);
    w.opts.local_failover = true;
    w.opts.pulse = true;
    cluster_kit_start(&w);
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)), "at first it is not known: %s", reason);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(cluster_local_reachable(w.cluster, reason, sizeof(reason)), "it answers");
    is_str(failover(&w), "not needed: the local API server answers", "all is well");
    kube_sim(w.local)->leads_back = true;
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)), "an mvproxy is there in its place");
    is_str(reason, "requests to the API server come back: an mvproxy answers at its address", "which is said");
    sim_run_ms(w.loop, 5000);
    before = kube_discovery_requests(w.local);
    cluster_local_failed(w.cluster, false);
    sim_run_ms(w.loop, 100);
    is_u64(kube_discovery_requests(w.local), before + 2, "a request that failed for that: discovery is read again");
    kube_sim(w.local)->leads_back = false;
    sim_run_ms(w.loop, 5000);
    before = kube_discovery_requests(w.local);
    cluster_local_failed(w.cluster, false);
    sim_run_ms(w.loop, 100);
    is_u64(kube_discovery_requests(w.local), before, "for another reason: it is not");
    kube_sim(w.local)->fault = SIM_HANG;
    sim_run_ms(w.loop, 6000);
    ok(slice_has_prefix(slice_str(failover(&w)), SLICE_LIT("active for ")) &&
           strstr(failover(&w), "s: the local kube-apiserver does not answer, and no peer answers for it") != NULL,
       "away: %s", failover(&w));
    ok(!cluster_local_reachable(w.cluster, reason, sizeof(reason)), "it does not answer");
    is_str(reason, "the local kube-apiserver does not answer: timed out", "and how");
    cluster_kit_end(&w);
}

int main(void)
{
    described();
    own_lease();
    each_place();
    drains();
    fixed();
    without_address();
    address_at_last();
    back_at_once(true);
    back_at_once(false);
    differs();
    suspected();
    fails_over();
    return tap_end();
}
