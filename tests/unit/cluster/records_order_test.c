/* SPDX-License-Identifier: Apache-2.0 */
/* Our endpoint record in etcd, whatever comes at whichever moment of getting a lease, writing and keeping alive. */
#include <stdio.h>
#include <stdlib.h>

#include "back/back.h"
#include "base/log.h"
#include "kube/peer_record.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

#define FOLDER "/registry/peerserverleases/"

enum { ROUND_MS = 10500, TTL_MS = 15000 };

struct story {
    struct cluster_kit w;
    struct sim_etcd *etcd;
    struct sim_server *member;
    struct origin *origin;
    char key[80];
    bool left;
    char moment[80]; /* which of the sweep */
};

static void begin(struct story *s, uint64_t delay_ms)
{
    struct origin_opts o = {.name = "etcd", .host = "10.0.1.1", .port = 2379};

    memset(s, 0, sizeof(*s));
    cluster_kit_init(&s->w, KIT_BASE);
    s->etcd = sim_etcd_new(s->w.loop, 77);
    s->member = sim_etcd_member(s->etcd, s->w.back, "10.0.1.1:2379");
    s->member->delay_ms = delay_ms;
    s->origin = origin_new(s->w.back, &o);
    s->w.opts.etcd_servers = &s->origin;
    s->w.opts.n_etcd_servers = 1;
    s->w.opts.etcd_prefix = "/registry";
    s->w.opts.advertise = "10.0.0.11:6443";
    (void)snprintf(s->key, sizeof(s->key), FOLDER "%s", kube_id(s->w.local));
    cluster_kit_start(&s->w);
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

static bool says(struct story *s, const char *ip)
{
    const char *value = sim_etcd_get(s->etcd, s->key);
    struct peer_record r;
    struct err err = {""};

    return value != NULL && peer_record_parse(slice_str(value), &r, &err) && strcmp(r.ip, ip) == 0;
}

static double yielded(struct story *s)
{
    return cluster_kit_metric(&s->w, "mvproxy_peer_endpoint_record_writes_total", "yielded", NULL);
}

static void stands(struct story *s, const char *ip)
{
    ok(says(s, ip) && cluster_kit_metric(&s->w, "mvproxy_peer_endpoint_record_publishing", NULL) == 1, "it stands: %s",
       s->moment);
    is_double(yielded(s), 0, "never taken for another's: %s", s->moment);
    sim_run_ms(s->w.loop, TTL_MS + 1000);
    ok(says(s, ip), "and goes on: %s", s->moment);
    is_u64(sim_etcd_leases(s->etcd), 1, "with one lease: %s", s->moment);
}

enum trouble { UNAVAILABLE, CUT, RESET, REFUSED, NO_LEADER, TROUBLES };

static void make(struct story *s, enum trouble t)
{
    static const char *const names[] = {"unavailable", "cut", "reset", "refused", "no leader"};

    (void)snprintf(s->moment + strlen(s->moment), 20, ", %s", names[t]);
    if (t == UNAVAILABLE)
        sim_etcd_answer(s->etcd, 503, "{\"error\":\"trouble\",\"code\":14}");
    else if (t == NO_LEADER)
        sim_etcd_set_leader(s->etcd, false);
    else
        s->member->fault = t == CUT ? SIM_CUT : t == RESET ? SIM_RESET : SIM_REFUSE;
    if (t == CUT || t == RESET)
        sim_server_break(s->member);
}

static void repair(struct story *s)
{
    sim_etcd_answer(s->etcd, 0, NULL);
    sim_etcd_set_leader(s->etcd, true);
    s->member->fault = SIM_FINE;
}

/* The moments of the first round, and of one in which the lease is kept alive. */
static uint64_t moment_ms(unsigned i)
{
    return i < 40 ? i * 4 : 9500 + i * 24;
}

enum { MOMENTS = 84 };

static void in_trouble(unsigned i, enum trouble t, uint64_t long_ms)
{
    struct story s;

    begin(&s, 20);
    (void)snprintf(s.moment, sizeof(s.moment), "%llu ms on, for %llu ms", (unsigned long long)moment_ms(i),
                   (unsigned long long)long_ms);
    sim_run_ms(s.w.loop, moment_ms(i));
    make(&s, t);
    sim_run_ms(s.w.loop, long_ms);
    repair(&s);
    sim_run_ms(s.w.loop, 6000);
    stands(&s, "10.0.0.11");
    end(&s);
}

static void reload(struct story *s, bool peers, const char *advertise)
{
    s->w.opts.peers_enabled = peers;
    s->w.opts.n_etcd_servers = peers;
    s->w.opts.advertise = advertise;
    cluster_update(s->w.cluster, &s->w.opts);
}

static void reloaded(unsigned i, uint64_t after_ms)
{
    struct story s;

    begin(&s, 20);
    (void)snprintf(s.moment, sizeof(s.moment), "reload %llu ms on, and %llu later", (unsigned long long)moment_ms(i),
                   (unsigned long long)after_ms);
    sim_run_ms(s.w.loop, moment_ms(i));
    if (i % 3 == 0)
        reload(&s, false, "10.0.0.11:6443");
    else
        reload(&s, true, i % 3 == 1 ? "" : "10.0.0.22:6443");
    sim_run_ms(s.w.loop, after_ms);
    reload(&s, true, "10.0.0.33:6443");
    sim_run_ms(s.w.loop, 6000);
    stands(&s, "10.0.0.33");
    end(&s);
}

static void deleted(unsigned i)
{
    struct story s;

    begin(&s, 20);
    (void)snprintf(s.moment, sizeof(s.moment), "deleted %llu ms on", (unsigned long long)moment_ms(i));
    sim_run_ms(s.w.loop, moment_ms(i));
    sim_etcd_delete(s.etcd, s.key);
    sim_run_ms(s.w.loop, ROUND_MS);
    stands(&s, "10.0.0.11");
    end(&s);
}

/* In protobuf. */
static bool is_servers(struct story *s)
{
    const char *value = sim_etcd_get(s->etcd, s->key);

    return value != NULL && strcmp(value, "k8s") == 0;
}

/* As kube-apiserver with the feature on: without looking. */
static void kube_writes(struct story *s)
{
    static const char head[] = "k8s\0\n\x0f\n\x02v1\x12\tEndpoints\x12";
    static const char tail[] = "\x12\x18\x0a\x0b\x0a\x09"
                               "10.0.0.99\x1a\x09\n\x05https\x10\x05";
    struct buf b;
    size_t id_n = SERVER_ID_CHARS, meta = 2 + 2 + 17 + 2 + id_n;

    buf_init(&b, 256);
    buf_append(&b, slice_of(head, sizeof(head) - 1));
    buf_append_char(&b, (char)(2 + meta + sizeof(tail) - 1));
    buf_append_char(&b, '\n');
    buf_append_char(&b, (char)meta);
    buf_append_char(&b, 'Z');
    buf_append_char(&b, (char)(meta - 2));
    buf_append_str(&b, "\n\x11"
                       "apiserverIdentity\x12");
    buf_append_char(&b, (char)id_n);
    buf_append_str(&b, kube_id(s->w.local));
    buf_append(&b, slice_of(tail, sizeof(tail) - 1));
    sim_etcd_put(s->etcd, s->key, buf_slice(&b), TTL_MS / 1000);
    buf_free(&b);
}

static void servers_own(unsigned i)
{
    struct story s;
    unsigned ours = 0;

    begin(&s, 20);
    (void)snprintf(s.moment, sizeof(s.moment), "the server's from %llu ms on", (unsigned long long)moment_ms(i));
    sim_run_ms(s.w.loop, moment_ms(i));
    kube_writes(&s);
    for (int k = 0; k < 6; k++) {
        for (int ms = 0; ms < 10000; ms += 10) {
            sim_run_ms(s.w.loop, 10);
            ours += !is_servers(&s);
        }
        kube_writes(&s);
    }
    is_u64(ours, 0, "never replaced: %s", s.moment);
    ok(yielded(&s) >= 1, "but left to it: %s", s.moment);
    sim_run_ms(s.w.loop, 3 * TTL_MS);
    ok(says(&s, "10.0.0.11"), "as long as it is there: %s", s.moment);
    end(&s);
}

static void on_left(void *arg)
{
    struct story *s = arg;

    s->left = true;
}

static void stopped(unsigned i)
{
    struct story s;

    begin(&s, 20);
    (void)snprintf(s.moment, sizeof(s.moment), "stopped %llu ms on", (unsigned long long)moment_ms(i));
    sim_run_ms(s.w.loop, moment_ms(i));
    cluster_stop(s.w.cluster, on_left, &s);
    sim_run_ms(s.w.loop, 200);
    ok(s.left && sim_etcd_get(s.etcd, s.key) == NULL, "gone: %s", s.moment);
    sim_run_ms(s.w.loop, 2 * TTL_MS);
    ok(sim_etcd_get(s.etcd, s.key) == NULL, "for good: %s", s.moment);
    is_u64(sim_etcd_leases(s.etcd), 0, "with its lease: %s", s.moment);
    end(&s);
}

/* ---- others' records ---- */

static void put_record(struct story *s, const struct kube_server *k, const char *ip)
{
    struct peer_record r = {.port = 6443};
    struct buf value;
    char key[80];

    (void)snprintf(r.id, sizeof(r.id), "%s", kube_id(k));
    (void)snprintf(r.ip, sizeof(r.ip), "%s", ip);
    (void)snprintf(key, sizeof(key), FOLDER "%s", kube_id(k));
    buf_init(&value, 1024);
    ok(peer_record_print(&r, &value), "a record");
    sim_etcd_put(s->etcd, key, buf_slice(&value), 0);
    buf_free(&value);
}

static bool is_at(struct story *s, const struct kube_server *k, const char *address)
{
    const struct served_peer *p = cluster_kit_peer_of(&s->w, k);

    return p != NULL && p->origin != NULL && strcmp(origin_address(p->origin), address) == 0;
}

/* Written, changed and deleted at any moment of reading and watching, in trouble or not: it ends with what is there. */
static void followed(unsigned i, enum trouble t, bool compact)
{
    struct story s;
    struct kube_server *b;
    char key[80];

    begin(&s, 20);
    b = cluster_kit_peer(&s.w, "cp-b", "10.0.0.2:6443", KIT_BASE);
    (void)snprintf(key, sizeof(key), FOLDER "%s", kube_id(b));
    (void)snprintf(s.moment, sizeof(s.moment), "%llu ms on%s", (unsigned long long)moment_ms(i),
                   compact ? ", compacted" : "");
    sim_run_ms(s.w.loop, moment_ms(i));
    put_record(&s, b, "10.0.0.4");
    sim_run_ms(s.w.loop, i % 5 * 9);
    make(&s, t);
    put_record(&s, b, "10.0.0.3");
    sim_run_ms(s.w.loop, i % 3 * 400);
    if (compact)
        sim_etcd_compact(s.etcd);
    repair(&s);
    sim_run_ms(s.w.loop, 11000);
    ok(is_at(&s, b, "10.0.0.3:6443"), "it is followed: %s", s.moment);
    make(&s, t);
    sim_etcd_delete(s.etcd, key);
    sim_run_ms(s.w.loop, i % 7 * 300);
    if (compact)
        sim_etcd_compact(s.etcd);
    repair(&s);
    sim_run_ms(s.w.loop, 11000);
    ok(is_at(&s, b, "10.0.0.2:6443"), "and missed, so that the annotation counts: %s", s.moment);
    end(&s);
}

/* Far apart: the tenth is no reason to wait longer than the first. */
static void elections(void)
{
    struct story s;
    struct kube_server *b;
    char ip[20];

    begin(&s, 20);
    b = cluster_kit_peer(&s.w, "cp-b", "10.0.0.2:6443", KIT_BASE);
    for (unsigned i = 0; i < 10; i++) {
        char address[30];

        (void)snprintf(ip, sizeof(ip), "10.0.0.%u", 20 + i);
        (void)snprintf(address, sizeof(address), "%s:6443", ip);
        sim_run_ms(s.w.loop, 60000);
        sim_etcd_set_leader(s.etcd, false);
        sim_run_ms(s.w.loop, 50);
        sim_etcd_set_leader(s.etcd, true);
        put_record(&s, b, ip);
        sim_run_ms(s.w.loop, 1000);
        ok(is_at(&s, b, address), "election %u: what is written after it is seen in a second", i + 1);
    }
    end(&s);
}

/* What is no list of records is none, and not an empty one. */
static void unreadable(void)
{
    char *logged = NULL;
    size_t n = 0;
    FILE *log = open_memstream(&logged, &n);
    struct story s;

    begin(&s, 0);
    sim_etcd_answer(s.etcd, 200, "{\"header\":{\"cluster_id\":\"77\",\"revision\":\"1\"},\"kvs\":[7]}");
    log_set_stream(log);
    sim_run_ms(s.w.loop, 5000);
    log_set_stream(stderr);
    (void)fclose(log);
    ok(strstr(logged, "not an answer of etcd: an element is no object") != NULL, "it is said");
    ok(strstr(logged, "Peer endpoint records read") == NULL, "nothing counts as read: %s", logged);
    free(logged);
    sim_etcd_answer(s.etcd, 0, NULL);
    sim_run_ms(s.w.loop, 40000);
    ok(sim_etcd_watches(s.etcd) == 1 && says(&s, "10.0.0.11"), "until it is one");
    end(&s);
}

/* At any moment, so also between the list and the watch, it becomes another one. */
static void another_cluster(void)
{
    for (uint64_t ms = 0; ms < 120; ms += 10) {
        struct story s;

        begin(&s, 50);
        for (unsigned i = 0; sim_etcd_ranges(s.etcd) == 0 && i < 1000; i++)
            sim_run_ms(s.w.loop, 1);
        sim_run_ms(s.w.loop, ms);
        sim_etcd_reset(s.etcd, 78);
        sim_run_ms(s.w.loop, 60000);
        ok(sim_etcd_watches(s.etcd) == 1, "after %u ms: it is watched", (unsigned)ms);
        ok(says(&s, "10.0.0.11"), "and our record is there");
        end(&s);
    }
}

int main(void)
{
    elections();
    for (unsigned i = 0; i < MOMENTS; i++) {
        in_trouble(i, (enum trouble)(i % TROUBLES), 100);
        in_trouble(i, (enum trouble)(i % TROUBLES), 17000);
        reloaded(i, i % 7 * 11);
        deleted(i);
        servers_own(i);
        stopped(i);
        followed(i, (enum trouble)(i % TROUBLES), i % 2 == 0);
    }
    unreadable();
    another_cluster();
    return tap_end();
}
