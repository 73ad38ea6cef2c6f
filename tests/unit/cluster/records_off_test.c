/* SPDX-License-Identifier: Apache-2.0 */
/* Peer endpoint records when they are switched off, moved or cannot be had: who hears of which address, and of what. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "cluster/cluster_metrics.h"
#include "cluster/etcd.h"
#include "cluster/records.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

#define OWN "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "apiserver-bbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "apiserver-cccccccccccccccccccccccccc"
#define UNKNOWN "apiserver-dddddddddddddddddddddddddd"

struct story {
    struct cluster_kit w;
    struct cluster_metrics metrics;
    struct sim_etcd *etcd;
    struct sim_server *member;
    struct origin *origin;
    struct records *records;
    unsigned told, withdrawn, others, own, left;
    char last[2][64]; /* address of B and C */
    char *logged;
    size_t n_logged;
    FILE *log;
};

static void on_address(void *arg, struct slice id, const char *host, unsigned port)
{
    struct story *s = arg;

    s->own += slice_eq(id, SLICE_LIT(OWN));
    if (!slice_eq(id, SLICE_LIT(B)) && !slice_eq(id, SLICE_LIT(C))) {
        s->others += host != NULL ? 1u : -1u;
        return;
    }
    (void)snprintf(s->last[slice_eq(id, SLICE_LIT(C))], sizeof(s->last[0]), "%s:%u", host == NULL ? "" : host, port);
    s->told += host != NULL;
    s->withdrawn += host == NULL;
}

static bool yes(void *arg)
{
    (void)arg;
    return true;
}

static bool no_other(void *arg, struct slice id)
{
    (void)arg;
    (void)id;
    return false;
}

static void on_left(void *arg)
{
    ((struct story *)arg)->left++;
}

static void put(struct story *s, const char *prefix, const char *id, const char *ip)
{
    char key[120], value[400];

    (void)snprintf(key, sizeof(key), "%s/peerserverleases/%s", prefix, id);
    (void)snprintf(
        value, sizeof(value),
        "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{\"apiserverIdentity\":\"%s\"}},"
        "\"subsets\":[{\"addresses\":[{\"ip\":\"%s\"}],\"ports\":[{\"port\":6443}]}]}",
        id, ip);
    sim_etcd_put(s->etcd, key, slice_str(value), 3600);
}

static void configure(struct story *s, const char *prefix, const char *advertise, bool on)
{
    records_configure(
        s->records,
        &(struct records_config){.servers = &s->origin, .n_servers = on, .prefix = prefix, .advertise = advertise});
}

static void begin(struct story *s)
{
    const struct origin_opts o = {.name = "etcd", .host = "10.0.1.1", .port = 2379};

    memset(s, 0, sizeof(*s));
    cluster_kit_init(&s->w, KIT_BASE);
    cluster_metrics_init(&s->metrics, s->w.metrics);
    s->etcd = sim_etcd_new(s->w.loop, 77);
    s->member = sim_etcd_member(s->etcd, s->w.back, "10.0.1.1:2379");
    s->origin = origin_new(s->w.back, &o);
    put(s, "/registry", B, "10.0.0.2");
    put(s, "/registry", C, "10.0.0.3");
    s->log = open_memstream(&s->logged, &s->n_logged);
    log_set_stream(s->log);
    s->records = records_new(&(struct records_opts){.loop = s->w.loop,
                                                    .back = s->w.back,
                                                    .metrics = &s->metrics,
                                                    .own_id = OWN,
                                                    .on_address = on_address,
                                                    .may_publish = yes,
                                                    .has_other = no_other,
                                                    .arg = s});
    configure(s, "/registry", "10.0.0.1:6443", true);
    sim_run_ms(s->w.loop, 2000);
    ok(s->told == 2 && s->own == 0, "two addresses are told, and not the own one");
}

static void end(struct story *s)
{
    log_set_stream(stderr);
    (void)fclose(s->log);
    free(s->logged);
    records_free(s->records);
    sim_run_ms(s->w.loop, 0);
    sim_etcd_free(s->etcd);
    origin_unref(s->origin);
    cluster_kit_end(&s->w);
}

static unsigned heard(struct story *s, const char *what)
{
    unsigned n = 0;

    (void)fflush(s->log);
    for (const char *at = s->logged; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

static bool own_there(struct story *s, const char *prefix)
{
    char key[120];

    (void)snprintf(key, sizeof(key), "%s/peerserverleases/" OWN, prefix);
    return sim_etcd_get(s->etcd, key) != NULL;
}

static void switched_off(void)
{
    struct story s;

    begin(&s);
    ok(own_there(&s, "/registry"), "the own one is written");
    configure(&s, "/registry", "10.0.0.1:6443", false);
    is_u64(s.withdrawn, 2, "switched off: both addresses are withdrawn at once");
    ok(strcmp(s.last[0], ":0") == 0 && strcmp(s.last[1], ":0") == 0, "each of them");
    sim_run_ms(s.w.loop, 3000);
    ok(!own_there(&s, "/registry") && s.own == 0, "and the own record is removed");
    configure(&s, "/registry", "10.0.0.1:6443", true);
    sim_run_ms(s.w.loop, 3000);
    ok(s.told == 4 && own_there(&s, "/registry"), "on again: all as before");
    end(&s);
}

/* Each of many, wherever it stands. */
static void many(void)
{
    enum { MANY = 24 };
    char id[40];
    struct story s;

    begin(&s);
    for (char c = 'a'; c < 'a' + MANY; c++) {
        (void)snprintf(id, sizeof(id), "apiserver-x%caaaaaaaaaaaaaaaaaaaaaaaa", c);
        put(&s, "/registry", id, "10.0.0.5");
    }
    sim_run_ms(s.w.loop, 1000);
    is_u64(s.others, MANY, "many addresses are told");
    configure(&s, "/registry", "10.0.0.1:6443", false);
    ok(s.others == 0 && s.withdrawn == 2, "and all of them withdrawn");
    end(&s);
}

static void moved(void)
{
    struct story s;

    begin(&s);
    put(&s, "/other", B, "10.0.0.22");
    configure(&s, "/other", "10.0.0.1:6443", true);
    is_u64(s.withdrawn, 2, "another prefix: what was under the one before is withdrawn");
    sim_run_ms(s.w.loop, 3000);
    is_str(s.last[0], "10.0.0.22:6443", "and what is under this one told");
    is_str(s.last[1], ":0", "as far as there is any");
    ok(own_there(&s, "/other"), "where the own one is written, too");
    configure(&s, "/other", "10.0.0.1:6443", false);
    sim_run_ms(s.w.loop, 3000);
    ok(!own_there(&s, "/other"), "until it is switched off");
    configure(&s, "/third", "10.0.0.1:6443", true);
    sim_run_ms(s.w.loop, 3000);
    ok(own_there(&s, "/third") && !own_there(&s, "/other"), "and on again, with yet another prefix");
    end(&s);
}

/* After the end nothing is written any more, whatever is configured. */
static void stopped(void)
{
    struct story s;
    uint64_t writes;

    begin(&s);
    records_stop(s.records, on_left, &s);
    sim_run_ms(s.w.loop, 1000);
    ok(s.left == 1 && !own_there(&s, "/registry"), "withdrawn");
    writes = sim_etcd_writes(s.etcd);
    configure(&s, "/registry", "10.0.0.4:6443", true);
    sim_run_ms(s.w.loop, 30000);
    ok(!own_there(&s, "/registry") && sim_etcd_writes(s.etcd) == writes, "a reload writes nothing");
    configure(&s, "/other", "10.0.0.4:6443", true);
    sim_run_ms(s.w.loop, 30000);
    ok(!own_there(&s, "/other") && sim_etcd_writes(s.etcd) == writes, "nor one with another prefix");
    end(&s);
}

/* It is time to write again while etcd takes its time to remove the record. */
static void removed_slowly(void)
{
    struct story s;

    begin(&s);
    sim_run_ms(s.w.loop, 7500);
    s.member->delay_ms = 1200;
    records_stop(s.records, on_left, &s);
    sim_run_ms(s.w.loop, 5000);
    ok(s.left == 1 && !own_there(&s, "/registry"), "removed, and not written again");
    is_u64(heard(&s, "Removed the own peer endpoint record"), 1, "which was in time");
    end(&s);
}

static const char *state(struct story *s)
{
    static char text[300];

    records_state(s->records, text, sizeof(text));
    return text;
}

static bool fails_for(struct story *s, const char *from)
{
    return strncmp(state(s), from, strlen(from)) == 0;
}

/* For how long, since it began. */
static void failing(void)
{
    struct story s;

    begin(&s);
    sim_run_ms(s.w.loop, 100000);
    for (unsigned i = 0; i < 2; i++) {
        s.member->fault = SIM_REFUSE;
        sim_server_break(s.member);
        sim_run_ms(s.w.loop, 25000);
        ok(fails_for(&s, "cannot be used for 1") || fails_for(&s, "cannot be used for 2"), "since it began to fail");
        sim_run_ms(s.w.loop, 20000);
        ok(fails_for(&s, "cannot be used for 3") || fails_for(&s, "cannot be used for 4"), "each failure counts on");
        is_u64(heard(&s, "etcd cannot be used: peer endpoint records"), i + 1, "said once");
        s.member->fault = SIM_FINE;
        sim_run_ms(s.w.loop, 40000);
        ok(fails_for(&s, "works; 3 records, read; own record: published"), "it works again");
        is_u64(heard(&s, "etcd answers again"), i + 1, "which is said");
        is_u64(heard(&s, "failures=0"), 1, "with the number of failures, but at the start there was none");
    }
    is_u64(heard(&s, "Peer endpoint records read"), 1, "that they were read is said once");
    end(&s);
}

/* What is none, or cannot be used, is told to nobody. */
static void unusable(void)
{
    struct story s;
    unsigned told;

    begin(&s);
    told = s.told;
    records_tell(s.records, SLICE_LIT(UNKNOWN));
    is_u64(s.told, told, "a server without a record");
    records_tell(s.records, SLICE_LIT(B));
    is_u64(s.told, told + 1, "one with a record is told again");
    sim_etcd_put(s.etcd, "/registry/peerserverleases/" B, SLICE_LIT("nonsense"), 3600);
    sim_run_ms(s.w.loop, 1000);
    ok(s.withdrawn == 1 && strcmp(s.last[0], ":0") == 0, "what cannot be read takes the address away");
    records_tell(s.records, SLICE_LIT(B));
    is_u64(s.told, told + 1, "and is not told");
    sim_etcd_put(s.etcd, "/registry/peerserverleases/" B, SLICE_LIT("more nonsense"), 3600);
    sim_run_ms(s.w.loop, 1000);
    is_u64(s.withdrawn, 1, "nor withdrawn once more");
    end(&s);
}

/* The first lease is asked for, and not one kept that nobody has. */
static void first_lease(void)
{
    struct story s;

    begin(&s);
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_requests_total", "grant", "ok", NULL), 1, "a lease is granted");
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_requests_total", "keepalive", "ok", NULL), 0, "and kept later");
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_requests_total", "put", "ok", NULL), 1, "one write");
    sim_run_ms(s.w.loop, 10000);
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_requests_total", "keepalive", "ok", NULL), 1, "after ten seconds");
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_requests_total", "grant", "ok", NULL), 1, "no other one");
    configure(&s, "/registry", "10.0.0.1:6443", false);
    sim_run_ms(s.w.loop, 3000);
    configure(&s, "/registry", "10.0.0.1:6443", true);
    sim_run_ms(s.w.loop, 3000);
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_requests_total", "grant", "ok", NULL), 2,
              "off and on: another one");
    is_double(cluster_kit_metric(&s.w, "mvproxy_etcd_requests_total", "keepalive", "ok", NULL), 1, "granted at once");
    end(&s);
}

/* One answer to whatever is asked, with the records that each write finds there. */
#define ANSWER(kvs)                                                                                                    \
    "{\"header\":{\"cluster_id\":\"77\",\"member_id\":\"1\",\"revision\":\"9\",\"raft_term\":\"2\"},\"ID\":\"5\","     \
    "\"TTL\":"                                                                                                         \
    "\"15\",\"responses\":[{\"response_range\":{\"kvs\":[" kvs "]}}]}"
#define OURS "{\"key\":\"eA==\",\"value\":\"eA==\",\"lease\":\"5\",\"mod_revision\":\"8\"}"
#define USELESS "{\"key\":\"eA==\",\"value\":\"eA==\",\"mod_revision\":\"8\"}"

/* The record is there under our lease though each write finds another one, is nobody's, or has gone; or what is
 * answered is no answer to a write. */
static void surprises(void)
{
    static const struct {
        const char *name, *answer;
        unsigned least, most; /* requests in a second */
    } rows[] = {{"ours", ANSWER(OURS), 18, 24},
                {"nobody's", ANSWER(USELESS), 18, 24},
                {"gone", ANSWER(""), 18, 24},
                {"no answer",
                 "{\"header\":{\"cluster_id\":\"77\",\"member_id\":\"1\",\"revision\":\"9\",\"raft_term\":\"2\"},"
                 "\"ID\":\"5\",\"TTL\":\"15\"}",
                 4, 9}};
    struct story s;
    uint64_t before;

    for (size_t i = 0; i < ROWS(rows); i++) {
        begin(&s);
        sim_etcd_answer(s.etcd, 200, rows[i].answer);
        before = s.member->requests;
        configure(&s, "/registry", "10.0.0.9:6443", true);
        sim_run_ms(s.w.loop, 900);
        before = s.member->requests - before;
        ok(before >= rows[i].least && before <= rows[i].most, "%s: %llu requests", rows[i].name,
           (unsigned long long)before);
        ok(strstr(state(&s), "own record: ") != NULL && strstr(state(&s), "own record: published") == NULL, "%s: %s",
           rows[i].name, state(&s));
        before = s.member->requests;
        sim_run_ms(s.w.loop, 10000);
        ok(s.member->requests - before < 100, "%s: not tried without end: %llu requests", rows[i].name,
           (unsigned long long)(s.member->requests - before));
        sim_etcd_answer(s.etcd, 200, NULL);
        sim_run_ms(s.w.loop, 60000);
        ok(own_there(&s, "/registry"), "%s: written when it can be", rows[i].name);
        end(&s);
    }
}

static void note_failure(void *arg, const struct etcd_answer *a)
{
    (void)snprintf(arg, 200, "%s", a->failure);
}

/* Each endpoint fails in its own way: what is said is how the last one did, which it is said of. */
static void last_endpoint(void)
{
    const struct origin_opts o = {.name = "etcd", .host = "10.0.1.2", .port = 2379};
    struct origin *servers[2];
    struct etcd_call *call;
    struct story s;
    struct etcd *e;
    char why[200] = "";

    begin(&s);
    sim_etcd_answer(s.etcd, 200, "junk");
    sim_etcd_member(s.etcd, s.w.back, "10.0.1.2:2379")->fault = SIM_REFUSE;
    servers[0] = s.origin;
    servers[1] = origin_new(s.w.back, &o);
    e = etcd_new(s.w.loop, s.w.back, &s.metrics);
    (void)etcd_set_servers(e, servers, 2);
    call = etcd_call(e, ETCD_GRANT, SLICE_LIT("{}"), note_failure, why);
    ok(call != NULL, "a request to one that answers nonsense and one that is away");
    sim_run_ms(s.w.loop, 100);
    is_str(why, "10.0.1.2:2379: connection refused", "fails with the words of the one that is away");
    etcd_free(e);
    origin_unref(servers[1]);
    end(&s);
}

int main(void)
{
    switched_off();
    many();
    moved();
    stopped();
    removed_slowly();
    failing();
    unusable();
    first_lease();
    surprises();
    last_endpoint();
    return tap_end();
}
