/* SPDX-License-Identifier: Apache-2.0 */
/* Our own peer endpoint record: when it is written, renewed, left to others, and removed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/metric.h"
#include "cluster/backoff.h"
#include "kube/peer_record.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

#define FOLDER "/registry/peerserverleases/"

struct story {
    struct cluster_kit w;
    struct sim_etcd *etcd;
    struct sim_server *member;
    struct origin *origin;
    char key[80];
};

static void begin(struct story *s)
{
    struct origin_opts o = {.name = "etcd", .host = "10.0.1.1", .port = 2379};

    cluster_kit_init(&s->w, KIT_BASE);
    s->etcd = sim_etcd_new(s->w.loop, 77);
    s->member = sim_etcd_member(s->etcd, s->w.back, "10.0.1.1:2379");
    s->origin = origin_new(s->w.back, &o);
    s->w.opts.etcd_servers = &s->origin;
    s->w.opts.n_etcd_servers = 1;
    s->w.opts.etcd_prefix = "/registry";
    s->w.opts.advertise = "10.0.0.11:6443";
    (void)snprintf(s->key, sizeof(s->key), FOLDER "%s", kube_id(s->w.local));
}

static void end(struct story *s)
{
    origin_unref(s->origin);
    cluster_free(s->w.cluster);
    s->w.cluster = NULL;
    sim_run_ms(s->w.loop, 0);
    sim_etcd_free(s->etcd);
    cluster_kit_end(&s->w);
}

static void start(struct story *s)
{
    cluster_kit_start(&s->w);
    sim_run_ms(s->w.loop, 2000);
}

static bool ours(struct story *s)
{
    const char *value = sim_etcd_get(s->etcd, s->key);
    struct peer_record r;
    struct err err = {""};

    return value != NULL && peer_record_parse(slice_str(value), &r, &err) && strcmp(r.ip, "10.0.0.11") == 0 &&
           r.port == 6443 && strcmp(r.id, kube_id(s->w.local)) == 0;
}

static double publishing(struct story *s)
{
    return cluster_kit_metric(&s->w, "mvproxy_peer_endpoint_record_publishing", NULL);
}

/* As kube-apiserver with the feature on does it: every ten seconds, without looking, in protobuf. */
static void kube_writes(struct story *s, const char *ip)
{
    char value[256];
    size_t ip_n = strlen(ip), id_n = SERVER_ID_CHARS, subset = ip_n + 4 + 11, meta = 2 + 2 + 17 + 2 + id_n;
    struct buf b;

    buf_init(&b, sizeof(value));
    buf_append(&b, slice_of("k8s\0\n\x0f\n\x02v1\x12\tEndpoints\x12", 22));
    buf_append_char(&b, (char)(2 + meta + 2 + subset));
    buf_append_char(&b, '\n');
    buf_append_char(&b, (char)meta);
    buf_append_char(&b, 'Z');
    buf_append_char(&b, (char)(meta - 2));
    buf_append_str(&b, "\n\x11"
                       "apiserverIdentity\x12");
    buf_append_char(&b, (char)id_n);
    buf_append_str(&b, kube_id(s->w.local));
    buf_append_char(&b, '\x12');
    buf_append_char(&b, (char)subset);
    buf_append_char(&b, '\n');
    buf_append_char(&b, (char)(ip_n + 2));
    buf_append_char(&b, '\n');
    buf_append_char(&b, (char)ip_n);
    buf_append_str(&b, ip);
    buf_append(&b, slice_of("\x1a\x09\n\x05https\x10\x05", 11));
    sim_etcd_put(s->etcd, s->key, buf_slice(&b), 15);
    buf_free(&b);
}

/* ---- stories ---- */

static void written_and_renewed(void)
{
    struct story s;
    uint64_t lease, writes;

    begin(&s);
    start(&s);
    ok(ours(&s), "written once the local server answers");
    is_double(publishing(&s), 1, "and it is shown");
    lease = sim_etcd_lease_of(s.etcd, s.key);
    ok(lease != 0, "under a lease");
    writes = sim_etcd_writes(s.etcd);
    sim_run_ms(s.w.loop, 100000);
    ok(ours(&s) && sim_etcd_lease_of(s.etcd, s.key) == lease, "100 s later it is there, under the same lease");
    ok(sim_etcd_writes(s.etcd) - writes >= 9 && sim_etcd_writes(s.etcd) - writes <= 11, "written every ten seconds");
    is_u64(sim_etcd_leases(s.etcd), 1, "one lease");
    cluster_free(s.w.cluster); /* as kill -9: nobody says goodbye */
    s.w.cluster = NULL;
    sim_run_ms(s.w.loop, 4000);
    ok(ours(&s), "killed: 4 s later the record is still there");
    sim_run_ms(s.w.loop, 11500);
    ok(sim_etcd_get(s.etcd, s.key) == NULL, "and 15 s later it has expired");
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 2000);
    ok(ours(&s), "the next process writes it");
    end(&s);
}

/* etcd says what it is when it refuses to replace it unseen. */
static void replaces_rubbish(size_t n)
{
    struct story s;
    char *rubbish = malloc(n);

    if (rubbish == NULL)
        tap_bail("no memory");
    memset(rubbish, 'x', n);
    begin(&s);
    sim_etcd_put(s.etcd, s.key, slice_of(rubbish, n), 0);
    start(&s);
    sim_run_ms(s.w.loop, 300000);
    ok(ours(&s) && publishing(&s) == 1, "%zu bytes that nobody can read and nobody keeps are replaced", n);
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_working", NULL), 1, "and nothing is wrong with etcd");
    free(rubbish);
    end(&s);
}

/* What else there is in the folder is not ours, however long its name. */
static void long_name_beside(size_t n, bool late)
{
    struct story s;
    char *key = calloc(1, n + sizeof(FOLDER));

    if (key == NULL)
        tap_bail("no memory");
    memcpy(key, FOLDER, sizeof(FOLDER));
    memset(key + strlen(FOLDER), 'k', n);
    begin(&s);
    if (!late)
        sim_etcd_put(s.etcd, key, SLICE_LIT("x"), 0);
    start(&s);
    if (late)
        sim_etcd_put(s.etcd, key, SLICE_LIT("x"), 0);
    sim_run_ms(s.w.loop, 300000);
    ok(ours(&s), "beside a name of %zu bytes there is our record", n);
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_records", NULL), 1, "and it is read");
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_records_watching", NULL), 1, "and watched");
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_working", NULL), 1, "and nothing is wrong with etcd");
    free(key);
    end(&s);
}

/* Its own event is no news, also when it comes after the answer. */
static void own_events_late(void)
{
    struct story s;
    uint64_t writes;

    begin(&s);
    s.member->late_ms = 40;
    start(&s);
    ok(ours(&s), "written");
    writes = sim_etcd_writes(s.etcd);
    sim_run_ms(s.w.loop, 100000);
    ok(ours(&s) && sim_etcd_writes(s.etcd) - writes >= 9 && sim_etcd_writes(s.etcd) - writes <= 11,
       "and renewed every ten seconds: %llu times", (unsigned long long)(sim_etcd_writes(s.etcd) - writes));
    end(&s);
}

static void restart_takes_over(void)
{
    struct story s;
    struct metrics *old;
    uint64_t before;

    begin(&s);
    start(&s);
    before = sim_etcd_lease_of(s.etcd, s.key);
    cluster_free(s.w.cluster);
    old = s.w.metrics; /* a process has its own */
    s.w.metrics = metrics_new();
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    ok(ours(&s) && sim_etcd_lease_of(s.etcd, s.key) != before, "what the process before left is taken over at once");
    sim_run_ms(s.w.loop, 20000);
    ok(ours(&s), "and does not expire with it");
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_record_writes_total", "yielded", NULL), 0,
              "nobody was given way to");
    end(&s);
    metrics_free(old);
}

/* A new process has come and the old one still serves: both say the same, and need not say it all the time. */
static void handover(void)
{
    struct story s;
    struct metrics *second = metrics_new();
    struct cluster *next;
    uint64_t writes;

    begin(&s);
    start(&s);
    writes = sim_etcd_writes(s.etcd);
    next = cluster_new(s.w.loop, s.w.back, second, &s.w.opts);
    sim_run_ms(s.w.loop, 60000);
    ok(ours(&s), "it is there");
    writes = sim_etcd_writes(s.etcd) - writes;
    ok(writes <= 10, "written %llu times in a minute by two", (unsigned long long)writes);
    cluster_free(s.w.cluster);
    s.w.cluster = next;
    sim_run_ms(s.w.loop, 60000);
    ok(ours(&s), "and stays when the old one has gone");
    end(&s);
    metrics_free(second);
}

static void count_done(void *arg)
{
    ++*(int *)arg;
}

static void graceful(void)
{
    struct story s;
    int done = 0;

    begin(&s);
    start(&s);
    ok(ours(&s), "published");
    cluster_stop(s.w.cluster, count_done, &done);
    is_int(done, 0, "never from inside");
    sim_run_ms(s.w.loop, 100);
    is_int(done, 1, "withdrawn, said once");
    ok(sim_etcd_get(s.etcd, s.key) == NULL && sim_etcd_leases(s.etcd) == 0, "the record is gone, and its lease");
    sim_run_ms(s.w.loop, 60000);
    ok(sim_etcd_get(s.etcd, s.key) == NULL, "and does not come back while we drain");
    end(&s);
}

static void graceful_without_etcd(void)
{
    static const enum sim_fault how[] = {SIM_REFUSE, SIM_HANG, SIM_RESET};

    for (size_t i = 0; i < ROWS(how); i++) {
        struct story s;
        int done = 0;

        begin(&s);
        start(&s);
        s.member->fault = how[i];
        cluster_stop(s.w.cluster, count_done, &done);
        sim_run_ms(s.w.loop, 2100);
        is_int(done, 1, "an etcd that does not answer holds nobody up");
        end(&s);
    }
}

static char *logged;
static size_t logged_n;

/* How often the log says so. */
static unsigned left_to_expire(void)
{
    unsigned n = 0;

    log_flush();
    (void)fflush(NULL);
    for (const char *at = logged; at != NULL && (at = strstr(at, "is left to expire")) != NULL; at++)
        n++;
    return n;
}

static void local_is_down(void)
{
    struct story s;
    uint64_t turns;

    begin(&s);
    kube_stop(s.w.local, false);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 20000);
    turns = sim_turns(s.w.loop);
    sim_run_ms(s.w.loop, 60000);
    ok(sim_turns(s.w.loop) - turns < 400, "nothing asks all the time (%llu turns)",
       (unsigned long long)(sim_turns(s.w.loop) - turns));
    ok(sim_etcd_get(s.etcd, s.key) == NULL, "as long as the local server does not answer there is no record");
    is_u64(left_to_expire(), 0, "there was none that would be left to expire");
    kube_start(s.w.local, 0);
    sim_run_ms(s.w.loop, 12000);
    ok(ours(&s), "then there is");
    kube_stop(s.w.local, false);
    sim_run_ms(s.w.loop, 30000);
    is_u64(left_to_expire(), 1, "it is left to expire, which is said once");
    ok(sim_etcd_get(s.etcd, s.key) == NULL, "it goes: the record expires");
    is_double(publishing(&s), 0, "and it is shown");
    kube_start(s.w.local, 0);
    sim_run_ms(s.w.loop, 15000);
    ok(ours(&s), "it comes back: so does the record");
    end(&s);
}

static void kube_has_its_own(const char *ip)
{
    struct story s;
    uint64_t writes;

    begin(&s);
    kube_writes(&s, ip);
    start(&s);
    for (int i = 0; i < 6; i++) {
        ok(memcmp(sim_etcd_get(s.etcd, s.key), "k8s", 4) == 0, "the local server's own record (%s) stands", ip);
        kube_writes(&s, ip);
        sim_run_ms(s.w.loop, 10000);
    }
    is_u64(sim_etcd_writes(s.etcd), 0, "nothing of ours was written over it");
    is_double(cluster_kit_metric(&s.w, "mvproxy_peer_endpoint_record_writes_total", "yielded", NULL), 1,
              "given way to once");
    is_u64(sim_etcd_leases(s.etcd), 1, "no lease is held for nothing");
    sim_run_ms(s.w.loop, 20000);
    ok(ours(&s), "it stops, and its record expires: ours is there");
    /* The gate is switched on while we run. */
    writes = sim_etcd_writes(s.etcd);
    kube_writes(&s, ip);
    sim_run_ms(s.w.loop, 9000);
    ok(memcmp(sim_etcd_get(s.etcd, s.key), "k8s", 4) == 0, "it starts again: its own stands");
    is_u64(sim_etcd_writes(s.etcd), writes, "we do not write any more");
    is_double(publishing(&s), 0, "and say so");
    end(&s);
}

static void another_of_the_name(void)
{
    struct story s;
    char value[300];

    begin(&s);
    (void)snprintf(
        value, sizeof(value),
        "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{\"apiserverIdentity\":\"%s\"}},"
        "\"subsets\":[{\"addresses\":[{\"ip\":\"10.0.0.99\"}],\"ports\":[{\"port\":6443}]}]}",
        kube_id(s.w.local));
    sim_etcd_put(s.etcd, s.key, slice_str(value), 0);
    start(&s);
    sim_run_ms(s.w.loop, 60000);
    ok(strstr(sim_etcd_get(s.etcd, s.key), "10.0.0.99") != NULL, "another node of the same name: left alone");
    sim_etcd_put(s.etcd, s.key, SLICE_LIT("junk"), 0);
    sim_run_ms(s.w.loop, 35000);
    ok(ours(&s), "what nobody can read and nobody keeps is replaced");
    end(&s);
}

static void lost(void)
{
    struct story s;

    begin(&s);
    start(&s);
    sim_etcd_delete(s.etcd, s.key);
    sim_run_ms(s.w.loop, 100);
    ok(ours(&s), "somebody deletes it: written again at once");
    s.member->fault = SIM_REFUSE;
    sim_server_break(s.member);
    sim_run_ms(s.w.loop, 40000);
    ok(sim_etcd_get(s.etcd, s.key) == NULL, "etcd is away for 40 s: it expires");
    is_double(publishing(&s), 0, "and is not said to be there");
    s.member->fault = SIM_FINE;
    sim_run_ms(s.w.loop, 10000);
    ok(ours(&s), "and is written under a new lease");
    sim_etcd_set_leader(s.etcd, false);
    sim_run_ms(s.w.loop, 8000);
    sim_etcd_set_leader(s.etcd, true);
    sim_run_ms(s.w.loop, 8000);
    ok(ours(&s), "a leader is elected within the lease: nobody notices");
    end(&s);
}

static double failures(struct story *s)
{
    return cluster_kit_metric(&s->w, "mvproxy_peer_endpoint_record_writes_total", "failed", NULL);
}

/* etcd confirms the lease, and has lost it when the record comes that is to be under it: that is no failure. */
static void lease_lost_meanwhile(void)
{
    struct story s;
    uint64_t asked;

    begin(&s);
    start(&s);
    asked = s.member->requests;
    for (int ms = 0; ms < 20000 && s.member->requests == asked; ms++)
        sim_run_ms(s.w.loop, 1);
    sim_etcd_reset(s.etcd, 77);
    sim_run_ms(s.w.loop, 50);
    ok(ours(&s) && publishing(&s) == 1, "the lease is lost while it is renewed: written under another at once");
    sim_run_ms(s.w.loop, BACKOFF_FIRST_MS * 2);
    is_double(failures(&s), 0, "nothing has failed");
    is_u64(sim_etcd_leases(s.etcd), 1, "one lease");
    end(&s);
}

/* The first look after a failure comes soon, whatever failed before. */
static void first_retry(void)
{
    struct story s;

    begin(&s);
    start(&s);
    for (int i = 0; i < 3; i++) {
        double before = failures(&s);
        uint64_t writes;

        s.member->fault = SIM_REFUSE;
        sim_server_break(s.member);
        while (failures(&s) == before)
            sim_run_ms(s.w.loop, 10);
        s.member->fault = SIM_FINE;
        writes = sim_etcd_writes(s.etcd);
        sim_run_ms(s.w.loop, BACKOFF_FIRST_MS * 3 / 2);
        ok(sim_etcd_writes(s.etcd) > writes && publishing(&s) == 1, "failure %d: written again soon", i);
    }
    end(&s);
}

static void reloads(void)
{
    struct story s;
    uint64_t before;

    begin(&s);
    start(&s);
    before = s.member->requests;
    for (int i = 0; i < 10; i++)
        cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 100);
    is_u64(s.member->requests, before, "ten reloads without a change ask nothing");
    is_u64(sim_etcd_watches(s.etcd), 1, "the watch goes on");
    s.w.opts.advertise = "10.0.0.12:7443";
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 100);
    ok(strstr(sim_etcd_get(s.etcd, s.key), "10.0.0.12") != NULL, "another address: written at once");
    s.w.opts.advertise = "";
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 100);
    ok(sim_etcd_get(s.etcd, s.key) == NULL && sim_etcd_leases(s.etcd) == 0, "no address: removed");
    s.w.opts.advertise = "10.0.0.11:6443";
    s.w.opts.etcd_prefix = "/other";
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 2000);
    (void)snprintf(s.key, sizeof(s.key), "/other/peerserverleases/%s", kube_id(s.w.local));
    ok(ours(&s), "another prefix");
    s.w.opts.peers_enabled = false;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 1000);
    ok(sim_etcd_get(s.etcd, s.key) == NULL && sim_etcd_watches(s.etcd) == 0,
       "peers are off: removed, nothing is watched");
    s.w.opts.peers_enabled = true;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 2000);
    ok(ours(&s) && sim_etcd_watches(s.etcd) == 1, "on: it is back");
    s.w.opts.n_etcd_servers = 0;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 1000);
    ok(sim_etcd_get(s.etcd, s.key) == NULL && sim_etcd_watches(s.etcd) == 0, "no etcd any more: removed");
    end(&s);
}

static bool begins_anew(struct story *s)
{
    char text[512];

    cluster_etcd_state(s->w.cluster, text, sizeof(text));
    return strstr(text, "own record: starting") != NULL && publishing(s) == 0;
}

/* Nobody is told that a record is published of which etcd has not heard yet. */
static void anew(void)
{
    struct story s;

    begin(&s);
    start(&s);
    ok(!begins_anew(&s) && publishing(&s) == 1, "published");
    s.w.opts.advertise = "10.0.0.12:7443";
    cluster_update(s.w.cluster, &s.w.opts);
    ok(begins_anew(&s), "another address: not yet");
    sim_run_ms(s.w.loop, 100);
    is_double(publishing(&s), 1, "now it is");
    s.w.opts.n_etcd_servers = 0;
    cluster_update(s.w.cluster, &s.w.opts);
    s.w.opts.n_etcd_servers = 1;
    cluster_update(s.w.cluster, &s.w.opts);
    ok(begins_anew(&s), "etcd was switched off and on: not yet");
    sim_run_ms(s.w.loop, 100);
    is_double(publishing(&s), 1, "now it is again");
    origin_unref(s.origin);
    (void)sim_etcd_member(s.etcd, s.w.back, "10.0.1.2:2379");
    s.origin = origin_new(s.w.back, &(struct origin_opts){.name = "etcd", .host = "10.0.1.2", .port = 2379});
    cluster_update(s.w.cluster, &s.w.opts);
    ok(begins_anew(&s), "another endpoint: not yet");
    sim_run_ms(s.w.loop, 100);
    is_double(publishing(&s), 1, "and there it is as well");
    kube_stop(s.w.local, false);
    sim_run_ms(s.w.loop, 30000);
    ok(!begins_anew(&s) && publishing(&s) == 0, "the local server is away: left to expire");
    sim_etcd_refuse(s.etcd, "/v3/lease/keepalive");
    kube_start(s.w.local, 0);
    sim_run_ms(s.w.loop, 12000);
    ok(begins_anew(&s), "it is back, and etcd refuses: begun, and not said to be withheld");
    end(&s);
}

static void memory(void)
{
    struct story s;
    uint64_t calls;

    begin(&s);
    cluster_kit_start(&s.w);
    calls = mem_calls();
    sim_run_ms(s.w.loop, 14000);
    calls = mem_calls() - calls;
    end(&s);
    for (uint64_t n = 1; n < calls; n += 1 + n / 60) {
        begin(&s);
        cluster_kit_start(&s.w); /* which ends the process without memory */
        mem_fail_nth(n);
        sim_run_ms(s.w.loop, 14000);
        mem_fail_nth(0);
        sim_run_ms(s.w.loop, 45000);
        if (!ours(&s) || sim_etcd_watches(s.etcd) != 1)
            ok(false, "allocation %llu fails", (unsigned long long)n);
        cluster_stop(s.w.cluster, count_done, &(int){0});
        mem_fail_nth(1 + n % 3);
        sim_run_ms(s.w.loop, 2100);
        mem_fail_nth(0);
        origin_unref(s.origin);
        cluster_free(s.w.cluster);
        s.w.cluster = NULL;
        sim_run_ms(s.w.loop, 0);
        sim_etcd_free(s.etcd);
        cluster_kit_end(&s.w);
    }
    ok(calls > 0, "whatever allocation fails, it is published in the end (%llu)", (unsigned long long)calls);
}

int main(void)
{
    FILE *f;

    written_and_renewed();
    replaces_rubbish(20000);
    replaces_rubbish(200000);
    for (size_t n = 3000; n <= 300000; n *= 10) {
        long_name_beside(n, false);
        long_name_beside(n, true);
    }
    own_events_late();
    restart_takes_over();
    handover();
    graceful();
    graceful_without_etcd();
    f = open_memstream(&logged, &logged_n);
    log_set_stream(f);
    local_is_down();
    log_set_stream(stderr);
    (void)fclose(f);
    free(logged);
    kube_has_its_own("10.0.0.11");
    kube_has_its_own("10.0.0.77");
    another_of_the_name();
    lost();
    lease_lost_meanwhile();
    first_retry();
    reloads();
    anew();
    memory();
    return tap_end();
}
