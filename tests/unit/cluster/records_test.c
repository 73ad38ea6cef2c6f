/* SPDX-License-Identifier: Apache-2.0 */
/* Peer endpoint records: stories of an etcd that changes its mind, its leader, its shape, or is not there. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

#define FOLDER "/registry/peerserverleases/"

enum { MEMBERS = 3 };

struct story {
    struct cluster_kit w;
    struct sim_etcd *etcd;
    struct sim_server *members[MEMBERS];
    struct origin *origins[MEMBERS];
    struct kube_server *b;
    char own_key[80], b_key[80];
};

static void begin(struct story *s, size_t members)
{
    static const char *const hosts[] = {"10.0.1.1", "10.0.1.2", "10.0.1.3"};
    char address[32];

    cluster_kit_init(&s->w, KIT_BASE);
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    s->etcd = sim_etcd_new(s->w.loop, 77);
    for (size_t i = 0; i < members; i++) {
        struct origin_opts o = {.name = "etcd", .host = hosts[i], .port = 2379};

        (void)snprintf(address, sizeof(address), "%s:2379", hosts[i]);
        s->members[i] = sim_etcd_member(s->etcd, s->w.back, address);
        s->origins[i] = origin_new(s->w.back, &o);
    }
    s->w.opts.etcd_servers = s->origins;
    s->w.opts.n_etcd_servers = members;
    s->w.opts.etcd_prefix = "/registry";
    s->w.opts.advertise = "10.0.0.11:6443";
    (void)snprintf(s->own_key, sizeof(s->own_key), FOLDER "%s", kube_id(s->w.local));
    (void)snprintf(s->b_key, sizeof(s->b_key), FOLDER "%s", kube_id(s->b));
}

static void end(struct story *s, size_t members)
{
    for (size_t i = 0; i < members; i++)
        origin_unref(s->origins[i]);
    /* The requests that are open end with the cluster, before their etcd does. */
    cluster_free(s->w.cluster);
    s->w.cluster = NULL;
    sim_run_ms(s->w.loop, 0);
    sim_etcd_free(s->etcd);
    cluster_kit_end(&s->w);
}

/* A record as an API server of that name would write it. */
static void put_record(struct story *s, const struct kube_server *k, const char *ip, unsigned port, uint64_t ttl_s)
{
    char key[80], value[400];

    (void)snprintf(key, sizeof(key), FOLDER "%s", kube_id(k));
    (void)snprintf(
        value, sizeof(value),
        "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{\"apiserverIdentity\":\"%s\"}},"
        "\"subsets\":[{\"addresses\":[{\"ip\":\"%s\"}],\"ports\":[{\"port\":%u}]}]}",
        kube_id(k), ip, port);
    sim_etcd_put(s->etcd, key, slice_str(value), ttl_s);
}

static void is_at(struct story *s, const char *want, const char *what)
{
    const struct served_peer *p = cluster_kit_peer_of(&s->w, s->b);

    is_str(p == NULL || p->origin == NULL ? "nowhere" : origin_address(p->origin), want, "%s", what);
}

static void from(struct story *s, const char *want, const char *what)
{
    const struct served_peer *p = cluster_kit_peer_of(&s->w, s->b);

    is_str(p == NULL || p->source == NULL ? "" : p->source, want, "%s", what);
}

static bool own_is(struct story *s, const char *ip)
{
    const char *value = sim_etcd_get(s->etcd, s->own_key);

    return value != NULL && strstr(value, ip) != NULL;
}

/* ---- reading ---- */

static void precedence(void)
{
    static const struct cluster_static_peer fixed[] = {{"cp-b", "10.0.0.22", 6443}};
    struct story s;

    begin(&s, 1);
    put_record(&s, s.b, "10.0.0.21", 7443, 3600);
    cluster_kit_start(&s.w);
    ok(cluster_kit_ready(&s.w, 10000), "ready");
    is_at(&s, "10.0.0.21:7443", "the record in etcd comes before the annotation");
    from(&s, "etcd", "and it is said so");
    put_record(&s, s.b, "10.0.0.2", 6443, 3600);
    sim_run_ms(s.w.loop, 50);
    is_at(&s, "10.0.0.2:6443", "a record that changes is followed at once");
    s.w.opts.static_peers = fixed;
    s.w.opts.n_static_peers = 1;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 50);
    is_at(&s, "10.0.0.22:6443", "a static peer comes before etcd");
    s.w.opts.n_static_peers = 0;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 50);
    from(&s, "etcd", "without it etcd's counts again");
    sim_etcd_delete(s.etcd, s.b_key);
    sim_run_ms(s.w.loop, 50);
    from(&s, "annotation", "a record that is gone leaves the annotation");
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_record_changes_total", "removed", NULL), 1, "counted");
    end(&s, 1);
}

static void record_before_lease(void)
{
    struct story s;
    struct kube_server *c;

    begin(&s, 1);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    c = kube_server_new(s.w.store, s.w.back, "cp-c", "10.0.0.3:6443", KIT_BATCH);
    put_record(&s, c, "10.0.0.3", 6443, 3600);
    sim_run_ms(s.w.loop, 1000);
    ok(cluster_kit_peer_of(&s.w, c) == NULL, "a record alone makes no peer");
    kube_put_lease(
        s.w.store,
        &(struct kube_lease){.name = kube_id(c), .hostname = "cp-c", .holder = "x", .renew_us = 1, .duration_s = 3600});
    kube_start(c, 0);
    sim_run_ms(s.w.loop, 1000);
    ok(cluster_kit_peer_of(&s.w, c) != NULL && cluster_kit_peer_of(&s.w, c)->source != NULL &&
           strcmp(cluster_kit_peer_of(&s.w, c)->source, "etcd") == 0,
       "when its Lease comes, the record counts");
    end(&s, 1);
}

static void expiry(void)
{
    struct story s;

    begin(&s, 1);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    put_record(&s, s.b, "10.0.0.21", 6443, 15);
    sim_run_ms(s.w.loop, 14000);
    from(&s, "etcd", "14 s after its last writing a record is there");
    sim_run_ms(s.w.loop, 2000);
    from(&s, "annotation", "after 15 s it has expired");
    end(&s, 1);
}

static void refused_records(void)
{
    static const char *const values[] = {"", "{}", "k8s:enc:aescbc:v1:key1:abc", "k8s", "\xff\xfe", "null"};
    struct story s;

    begin(&s, 1);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    for (size_t i = 0; i < ROWS(values); i++) {
        sim_etcd_put(s.etcd, s.b_key, slice_str(values[i]), 0);
        sim_run_ms(s.w.loop, 100);
        from(&s, "annotation", "a record that cannot be read leaves the annotation");
        put_record(&s, s.b, "10.0.0.21", 6443, 3600);
        sim_run_ms(s.w.loop, 100);
        from(&s, "etcd", "and counts again when it can");
    }
    /* Of another server, under this one's key. */
    sim_etcd_put(s.etcd, s.b_key, slice_str(sim_etcd_get(s.etcd, s.own_key)), 0);
    sim_run_ms(s.w.loop, 100);
    from(&s, "annotation", "a label that names another server is refused");
    sim_etcd_put(s.etcd, FOLDER "not-a-server", SLICE_LIT("{}"), 0);
    sim_etcd_put(s.etcd, FOLDER "x/y", SLICE_LIT("{}"), 0);
    sim_run_ms(s.w.loop, 100);
    ok(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_record_changes_total", "refused", NULL) >= (double)ROWS(values),
       "counted");
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_records_watching", NULL), 1, "the watch goes on");
    end(&s, 1);
}

static void compaction(void)
{
    struct story s;

    begin(&s, 1);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    sim_etcd_set_deaf(s.etcd, true);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    sim_etcd_set_deaf(s.etcd, false);
    sim_run_ms(s.w.loop, 100);
    from(&s, "annotation", "an event was lost");
    sim_etcd_compact(s.etcd);
    sim_run_ms(s.w.loop, 2000);
    from(&s, "etcd", "compaction: everything is read again");
    is_u64(sim_etcd_watches(s.etcd), 1, "one watch");
    end(&s, 1);
}

static void silence(void)
{
    struct story s;

    begin(&s, 1);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    sim_etcd_set_deaf(s.etcd, true);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    sim_run_ms(s.w.loop, 20000);
    from(&s, "annotation", "a watch that is half open says nothing");
    sim_run_ms(s.w.loop, 15000);
    from(&s, "etcd", "after 30 s of silence everything is read again");
    end(&s, 1);
}

/* Nor is a watch that is over taken for one that has nothing to say. */
static void dropped(void)
{
    struct story s;

    begin(&s, 1);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 10000);
    is_u64(sim_etcd_watches(s.etcd), 1, "one watch");
    sim_etcd_drop_watches(s.etcd);
    sim_run_ms(s.w.loop, 2000);
    is_u64(sim_etcd_watches(s.etcd), 1, "it was ended: there is another");
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    sim_run_ms(s.w.loop, 100);
    from(&s, "etcd", "which says what happens");
    end(&s, 1);
}

/* A watch is as old as it may get when it says something just before it counts as silent: one look, and not another. */
static void old_watch(void)
{
    struct story s;
    uint64_t before;

    begin(&s, 1);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    s.w.opts.advertise = ""; /* ours does not come in between */
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 1000);
    before = sim_etcd_ranges(s.etcd);
    for (int i = 0; i < 8; i++) {
        put_record(&s, s.b, "10.0.0.21", 6443, 3600);
        sim_run_ms(s.w.loop, 29900);
    }
    is_u64(sim_etcd_ranges(s.etcd), before, "four minutes with a word each 29.9 s: nothing is read again");
    s.members[0]->delay_ms = 3000;
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    sim_run_ms(s.w.loop, 20000);
    is_u64(sim_etcd_ranges(s.etcd), before + 1, "then it is, once, however slowly");
    is_u64(sim_etcd_watches(s.etcd), 1, "and watched");
    end(&s, 1);
}

static void garbage(void)
{
    static const char *const lines[] = {
        "nonsense\n",
        "{}\n",
        "{\"result\":{}}\n",
        "\n\n{\"result\":7}\n",
        "{\"result\":{\"header\":{\"cluster_id\":\"77\"},\"events\":[7]}}\n",
        "{\"result\":{\"header\":{\"cluster_id\":\"77\"},\"events\":[{\"kv\":{\"key\":\"*\"}}]}}\n"};
    struct story s;

    begin(&s, 1);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    for (size_t i = 0; i < ROWS(lines); i++) {
        uint64_t before = sim_etcd_ranges(s.etcd);

        sim_etcd_say(s.etcd, lines[i]);
        sim_run_ms(s.w.loop, 15000);
        ok(sim_etcd_ranges(s.etcd) > before && sim_etcd_watches(s.etcd) == 1, "read again after: %s", lines[i]);
        from(&s, "etcd", "and what is known stays");
    }
    end(&s, 1);
}

/* ---- trouble ---- */

static void not_etcd(void)
{
    static const struct {
        unsigned status;
        const char *body;
    } rows[] = {{200, "<html>hello</html>"},
                {200, "{}"},
                {404, "404 page not found\n"},
                {200, ""},
                {500, "oops"},
                {302, "away"},
                {403, "{\"error\":\"permission denied\"}"}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct story s;
        char text[512];

        begin(&s, 1);
        put_record(&s, s.b, "10.0.0.21", 6443, 3600);
        sim_etcd_answer(s.etcd, rows[i].status, rows[i].body);
        cluster_kit_start(&s.w);
        ok(cluster_kit_ready(&s.w, 10000), "answers %u \"%s\": ready all the same", rows[i].status, rows[i].body);
        sim_run_ms(s.w.loop, 30000);
        from(&s, "annotation", "annotations work");
        is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_working", NULL), 0, "it is shown");
        ok(cluster_kit_metric(&s.w, "mvproxy_etcd_requests_total", "range", "failed", NULL) >= 3,
           "counted, and tried again");
        cluster_etcd_state(s.w.cluster, text, sizeof(text));
        ok(strstr(text, "cannot be used") != NULL, "said: %s", text);
        sim_etcd_answer(s.etcd, 0, NULL);
        sim_run_ms(s.w.loop, 15000);
        from(&s, "etcd", "when it is etcd after all, its records count");
        ok(own_is(&s, "10.0.0.11"), "and ours is there");
        end(&s, 1);
    }
}

/* How often it changes its mind in that time, looked at every 100 ms. */
static unsigned changes(struct story *s, uint64_t ms)
{
    double before = cluster_kit_metric(&s->w, "mvproxy_etcd_working", NULL);
    unsigned n = 0;

    for (uint64_t at = 0; at < ms; at += 100) {
        double now;

        sim_run_ms(s->w.loop, 100);
        now = cluster_kit_metric(&s->w, "mvproxy_etcd_working", NULL);
        n += now != before;
        before = now;
    }
    return n;
}

/* One kind of request fails for ever, all others work: shown, said, and no flapping. */
static void one_kind_fails(void)
{
    static const char *const paths[] = {"/v3/kv/txn", "/v3/watch", "/v3/lease/keepalive"};

    for (size_t i = 0; i < ROWS(paths); i++) {
        struct story s;
        char text[512];

        begin(&s, 1);
        put_record(&s, s.b, "10.0.0.21", 6443, 3600);
        cluster_kit_start(&s.w);
        ok(cluster_kit_ready(&s.w, 10000), "ready");
        sim_run_ms(s.w.loop, 2000);
        is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_working", NULL), 1, "all is well");
        sim_etcd_refuse(s.etcd, paths[i]);
        sim_etcd_say(s.etcd, "\n{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"away\"}}\n");
        if (i == 0) /* it has to be written anew */
            sim_etcd_delete(s.etcd, s.own_key);
        sim_run_ms(s.w.loop, 20000);
        is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_working", NULL), 0, "%s is refused: shown", paths[i]);
        is_u64(changes(&s, 120000), 0, "%s: and stays so", paths[i]);
        cluster_etcd_state(s.w.cluster, text, sizeof(text));
        ok(strstr(text, "cannot be used") != NULL && strstr(text, "space exceeded") != NULL, "said: %s", text);
        sim_etcd_refuse(s.etcd, NULL);
        is_u64(changes(&s, 120000), 1, "%s: it works again, once", paths[i]);
        is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_working", NULL), 1, "%s: shown", paths[i]);
        end(&s, 1);
    }
}

/* It takes every request to watch, and ends it with the answer, as one does whose roles forbid it. */
static void watches_end(void)
{
    struct story s;
    char text[512];

    begin(&s, 1);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    sim_etcd_end_watches(s.etcd, true);
    cluster_kit_start(&s.w);
    ok(cluster_kit_ready(&s.w, 10000), "ready");
    sim_run_ms(s.w.loop, 60000);
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_working", NULL), 0, "without a watch: shown");
    cluster_etcd_state(s.w.cluster, text, sizeof(text));
    ok(strstr(text, "it ends each watch at once") != NULL, "said: %s", text);
    sim_etcd_end_watches(s.etcd, false);
    is_u64(changes(&s, 120000), 1, "it works again, once");
    end(&s, 1);
}

static void faults(void)
{
    static const struct {
        enum sim_fault fault;
        const char *name;
    } rows[] = {{SIM_REFUSE, "refuses"}, {SIM_HANG, "hangs"}, {SIM_RESET, "resets"}, {SIM_CUT, "cuts"}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct story s;

        begin(&s, 1);
        put_record(&s, s.b, "10.0.0.21", 6443, 3600);
        s.members[0]->fault = rows[i].fault;
        cluster_kit_start(&s.w);
        ok(cluster_kit_ready(&s.w, 10000), "etcd %s at the start: ready", rows[i].name);
        sim_run_ms(s.w.loop, 20000);
        from(&s, "annotation", "annotations work");
        s.members[0]->fault = SIM_FINE;
        sim_run_ms(s.w.loop, 20000);
        from(&s, "etcd", "then it comes, and counts");
        ok(own_is(&s, "10.0.0.11"), "ours is written");
        s.members[0]->fault = rows[i].fault;
        sim_server_break(s.members[0]);
        sim_run_ms(s.w.loop, 30000);
        from(&s, "etcd", "it goes again: what it said stays, for a minute");
        sim_run_ms(s.w.loop, 45000);
        from(&s, "annotation", "then the annotation comes first");
        s.members[0]->fault = SIM_FINE;
        put_record(&s, s.b, "10.0.0.21", 6443, 3600);
        sim_run_ms(s.w.loop, 20000);
        from(&s, "etcd", "until it is back");
        ok(own_is(&s, "10.0.0.11"), "with our record");
        end(&s, 1);
    }
}

/* Answers in time, but only just: nothing waits for it, and what it says counts. */
static void slow(void)
{
    struct story s;

    begin(&s, 1);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    s.members[0]->delay_ms = 4000;
    cluster_kit_start(&s.w);
    ok(cluster_kit_ready(&s.w, 2000), "ready before a slow etcd has answered");
    from(&s, "annotation", "by what the annotations say");
    sim_run_ms(s.w.loop, 30000);
    from(&s, "etcd", "its records count when they are there");
    ok(own_is(&s, "10.0.0.11"), "and ours is written");
    s.members[0]->delay_ms = 6000;
    sim_server_break(s.members[0]);
    sim_run_ms(s.w.loop, 90000);
    from(&s, "annotation", "slower than that is as good as none");
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_working", NULL), 0, "and said");
    end(&s, 1);
}

static void only_source(void)
{
    struct story s;
    char holder[80];

    begin(&s, 1);
    (void)snprintf(holder, sizeof(holder), "%s_another", kube_id(s.b));
    put_record(&s, s.b, "10.0.0.2", 6443, 3600);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    kube_pause_renewal(s.b, true);
    kube_put_lease(s.w.store, &(struct kube_lease){.name = kube_id(s.b),
                                                   .hostname = "cp-b",
                                                   .holder = holder,
                                                   .renew_us = 1764000000000000,
                                                   .duration_s = 3600});
    sim_run_ms(s.w.loop, 1000);
    from(&s, "etcd", "without an annotation etcd is the only source");
    end(&s, 1);
}

static void failover(void)
{
    struct story s;

    begin(&s, 3);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    s.members[0]->fault = SIM_REFUSE;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 2000);
    from(&s, "etcd", "the first endpoint is down: the second answers");
    ok(own_is(&s, "10.0.0.11"), "and takes our record");
    for (size_t down = 0; down < 6; down++) {
        for (size_t i = 0; i < MEMBERS; i++)
            s.members[i]->fault = i == down % MEMBERS ? SIM_FINE : i % 2 == 0 ? SIM_HANG : SIM_REFUSE;
        for (size_t i = 0; i < MEMBERS; i++)
            sim_server_break(s.members[i]);
        sim_run_ms(s.w.loop, 45000);
        from(&s, "etcd", "only one endpoint is left");
        ok(own_is(&s, "10.0.0.11"), "our record is there");
        is_u64(sim_etcd_watches(s.etcd), 1, "one watch");
    }
    end(&s, 3);
}

static void leader_change(void)
{
    struct story s;

    begin(&s, 3);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 2000);
    for (int i = 0; i < 5; i++) {
        sim_etcd_set_leader(s.etcd, false);
        sim_run_ms(s.w.loop, 3000);
        from(&s, "etcd", "no leader for 3 s: what is known stays");
        sim_etcd_set_leader(s.etcd, true);
        sim_run_ms(s.w.loop, 12000);
        ok(own_is(&s, "10.0.0.11") && sim_etcd_watches(s.etcd) == 1, "a new leader: all goes on");
    }
    is_u64(sim_etcd_leases(s.etcd), 2, "nothing is left behind: our lease, and that of the other record");
    end(&s, 3);
}

static void wrong_cluster(void)
{
    struct story s;
    struct sim_etcd *other;

    begin(&s, 2);
    other = sim_etcd_new(s.w.loop, 78);
    s.members[2] = sim_etcd_member(other, s.w.back, "10.0.1.9:2379");
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    origin_unref(s.origins[1]);
    s.origins[1] = origin_new(s.w.back, &(struct origin_opts){.name = "etcd", .host = "10.0.1.9", .port = 2379});
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 2000);
    from(&s, "etcd", "the first endpoint's records");
    s.members[0]->fault = SIM_REFUSE;
    sim_server_break(s.members[0]);
    sim_run_ms(s.w.loop, 20000);
    from(&s, "etcd", "an endpoint of another cluster is not believed");
    ok(sim_etcd_get(other, s.own_key) == NULL, "and gets no record");
    s.members[0]->fault = SIM_FINE;
    sim_run_ms(s.w.loop, 20000);
    ok(own_is(&s, "10.0.0.11"), "the right one goes on");
    for (int i = 0; i < 2; i++)
        origin_unref(s.origins[i]);
    cluster_free(s.w.cluster);
    s.w.cluster = NULL;
    sim_run_ms(s.w.loop, 0);
    sim_etcd_free(other);
    sim_etcd_free(s.etcd);
    cluster_kit_end(&s.w);
}

/* A reload to another etcd: nobody waits until the one before is forgotten. */
static void moved(void)
{
    struct story s;
    struct sim_etcd *other;
    struct origin *origins[2];

    begin(&s, 2);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 2000);
    is_at(&s, "10.0.0.21:6443", "the records of one etcd");
    other = sim_etcd_new(s.w.loop, 78);
    s.members[2] = sim_etcd_member(other, s.w.back, "10.0.1.9:2379");
    (void)sim_etcd_member(other, s.w.back, "10.0.1.10:2379");
    origins[0] = origin_new(s.w.back, &(struct origin_opts){.name = "etcd", .host = "10.0.1.9", .port = 2379});
    origins[1] = origin_new(s.w.back, &(struct origin_opts){.name = "etcd", .host = "10.0.1.10", .port = 2379});
    s.w.opts.etcd_servers = origins;
    for (unsigned ms = 0; ms < 40; ms++) { /* whatever is under way at the other one */
        sim_run_ms(s.w.loop, 250);
        s.w.opts.etcd_servers = ms % 2 == 0 ? origins : s.origins;
        cluster_update(s.w.cluster, &s.w.opts);
    }
    s.w.opts.etcd_servers = origins;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 2000);
    ok(sim_etcd_get(other, s.own_key) != NULL, "another one: our record is there");
    is_at(&s, "10.0.0.2:6443", "and what the one before said is forgotten");
    origin_unref(origins[0]);
    origin_unref(origins[1]);
    for (int i = 0; i < 2; i++)
        origin_unref(s.origins[i]);
    cluster_free(s.w.cluster);
    s.w.cluster = NULL;
    sim_run_ms(s.w.loop, 0);
    sim_etcd_free(other);
    sim_etcd_free(s.etcd);
    cluster_kit_end(&s.w);
}

static void count_done(void *arg)
{
    ++*(int *)arg;
}

/* A reload to another etcd while our record is being removed: what the one before still answers is not the other's. */
static void moved_at_the_end(void)
{
    struct story s;
    struct sim_etcd *other;
    struct origin *origins[2];
    int done = 0;

    begin(&s, 2);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 2000);
    other = sim_etcd_new(s.w.loop, 78);
    s.members[2] = sim_etcd_member(other, s.w.back, "10.0.1.9:2379");
    origins[0] = origin_new(s.w.back, &(struct origin_opts){.name = "etcd", .host = "10.0.1.9", .port = 2379});
    origins[1] = origin_new(s.w.back, &(struct origin_opts){.name = "etcd", .host = "10.0.1.9", .port = 2380});
    s.members[0]->delay_ms = s.members[1]->delay_ms = 100;
    s.members[2]->delay_ms = 500;
    cluster_stop(s.w.cluster, count_done, &done);
    s.w.opts.etcd_servers = origins;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 1500);
    is_u64(sim_etcd_watches(other), 1, "the other one is read and watched at once");
    sim_run_ms(s.w.loop, 1500);
    is_int(done, 1, "and nobody is held up");
    for (int i = 0; i < 2; i++) {
        origin_unref(origins[i]);
        origin_unref(s.origins[i]);
    }
    cluster_free(s.w.cluster);
    s.w.cluster = NULL;
    sim_run_ms(s.w.loop, 0);
    sim_etcd_free(other);
    sim_etcd_free(s.etcd);
    cluster_kit_end(&s.w);
}

static void restored(void)
{
    struct story s;

    begin(&s, 1);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    for (int i = 0; i < 50; i++)
        put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 2000);
    sim_etcd_reset(s.etcd, 79);
    put_record(&s, s.b, "10.0.0.23", 6443, 3600);
    sim_server_break(s.members[0]);
    sim_run_ms(s.w.loop, 12000);
    is_at(&s, "10.0.0.23:6443", "the only etcd set up anew, with older revisions: believed");
    ok(own_is(&s, "10.0.0.11"), "with our record in it");
    end(&s, 1);
}

/* A line of the log when the record is published, and none when it is renewed. */
static void said_once(void)
{
    static const char line[] = "Publishing the peer endpoint record of this server";
    struct story s;
    char *text = NULL, *at;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL)
        tap_bail("no memory");
    begin(&s, 1);
    log_set_stream(f);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 600000);
    log_flush();
    log_set_stream(stderr);
    fclose(f);
    at = strstr(text, line);
    ok(at != NULL && strstr(at, "ip=\"10.0.0.11\"") != NULL, "said");
    ok(at != NULL && strstr(at + 1, line) == NULL, "once");
    free(text);
    end(&s, 1);
}

/* Nor is it said again and again that etcd is away. */
static void away_once(void)
{
    static const char line[] = "etcd has not answered for a minute";
    struct story s;
    char *text = NULL, *at;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (f == NULL)
        tap_bail("no memory");
    begin(&s, 1);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    cluster_kit_start(&s.w);
    ok(cluster_kit_ready(&s.w, 10000), "ready");
    sim_run_ms(s.w.loop, 2000);
    s.members[0]->fault = SIM_REFUSE;
    sim_server_break(s.members[0]);
    log_set_stream(f);
    sim_run_ms(s.w.loop, 600000);
    log_flush();
    log_set_stream(stderr);
    fclose(f);
    at = strstr(text, line);
    ok(at != NULL && strstr(at + 1, line) == NULL, "said once in ten minutes");
    free(text);
    end(&s, 1);
}

/* Whoever takes a watch and never says that it is there is left for the next endpoint. */
static void silent_watch(void)
{
    struct story s;

    begin(&s, 2);
    sim_etcd_hold_watches(s.etcd, true);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 35000);
    ok(s.members[1]->requests > 0 && s.members[1]->requests < 20, "the next one is asked");
    sim_etcd_hold_watches(s.etcd, false);
    sim_run_ms(s.w.loop, 35000);
    put_record(&s, s.b, "10.0.0.21", 6443, 3600);
    sim_run_ms(s.w.loop, 50);
    from(&s, "etcd", "a watch that is there is heard");
    end(&s, 2);
}

/* As many records as there may be peers are kept, and of the rest it is said once that they are not. */
static void too_many(void)
{
    static const char line[] = "Peer limit reached, peer endpoint records ignored", other[] = "{}";
    struct story s;
    char *text = NULL, *at, key[80], id[SERVER_ID_BYTES];
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    begin(&s, 1);
    log_set_stream(f);
    for (unsigned i = 0; i < LIMIT_PEERS; i++) {
        (void)snprintf(key, sizeof(key), "other-%u", i);
        if (!server_id_from_hostname(slice_str(key), id))
            tap_bail("no ID");
        (void)snprintf(key, sizeof(key), FOLDER "%s", id);
        sim_etcd_put(s.etcd, key, slice_str(other), 3600);
    }
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 5000);
    put_record(&s, s.b, "10.0.0.21", 7443, 3600);
    sim_run_ms(s.w.loop, 5000);
    log_flush();
    log_set_stream(stderr);
    fclose(f);
    at = strstr(text, line);
    ok(at != NULL && strstr(at + 1, line) == NULL, "one record more than may be: said once");
    from(&s, "annotation", "the peer is where its Lease says");
    sim_etcd_delete(s.etcd, key);
    put_record(&s, s.b, "10.0.0.21", 7443, 3600);
    sim_run_ms(s.w.loop, 5000);
    from(&s, "etcd", "until there is room");
    free(text);
    end(&s, 1);
}

int main(void)
{
    precedence();
    record_before_lease();
    expiry();
    refused_records();
    compaction();
    silence();
    dropped();
    old_watch();
    garbage();
    not_etcd();
    one_kind_fails();
    watches_end();
    faults();
    slow();
    only_source();
    failover();
    leader_change();
    wrong_cluster();
    moved();
    moved_at_the_end();
    restored();
    said_once();
    away_once();
    silent_watch();
    too_many();
    return tap_end();
}
