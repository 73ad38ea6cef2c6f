/* SPDX-License-Identifier: Apache-2.0 */
/* The identity Lease of this node: published, observed, contested, removed, collected. */
#include <stdio.h>

#include "base/clock.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define WATCH_TROUBLE                                                                                                  \
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":"                                    \
    "\"etcdserver: leader changed\"}}\n"

enum { ARENA = 1 << 20, RENEWALS_MS = 10400, HOUR_MS = 3600 * 1000 };

struct story {
    struct cluster_kit w;
    struct arena *arena;
    struct lease lease; /* as last looked at */
    const char *id;
    bool left;
};

/* A local server of this version, that does not publish by itself. */
static void prepare(struct story *s, unsigned minor, enum identity_mode mode)
{
    memset(s, 0, sizeof(*s));
    s->arena = arena_new(ARENA);
    cluster_kit_init(&s->w, KIT_BASE);
    cluster_kit_without_lease(&s->w, minor);
    s->id = kube_id(s->w.local);
    s->w.opts.identity = mode;
    s->w.opts.advertise = "10.0.0.1:16443";
    s->w.opts.annotate = true;
}

static bool lease_there(struct story *s)
{
    arena_reset(s->arena);
    return kube_get_lease(s->w.store, s->id, s->arena, &s->lease);
}

static void end(struct story *s)
{
    cluster_kit_end(&s->w);
    arena_free(s->arena);
}

static void on_left(void *arg)
{
    struct story *s = arg;

    s->left = true;
}

static void leave(struct story *s, uint64_t ms)
{
    cluster_stop(s->w.cluster, on_left, s);
    ok(!s->left, "not told from inside");
    sim_run_ms(s->w.loop, ms);
    ok(s->left, "told");
}

static void put_of(struct story *s, const char *id, const char *hostname, const char *holder, int64_t renew_us)
{
    const struct kube_lease l = {
        .name = id, .hostname = hostname, .holder = holder, .renew_us = renew_us, .duration_s = 3600};

    kube_put_lease(s->w.store, &l);
}

static void put(struct story *s, const char *id, const char *holder, int64_t renew_us)
{
    put_of(s, id, "cp-x", holder, renew_us);
}

static bool by_us(struct story *s)
{
    return lease_there(s) && slice_has_prefix(s->lease.holder, slice_str(s->id)) && s->lease.holder.n == 36 + 1 + 36;
}

static void publishes(void)
{
    struct story s;
    int64_t renewed;

    prepare(&s, 24, IDENTITY_AUTO);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 200);
    ok(by_us(&s), "an old server's Lease is published, with a holder of its ID and a UUID");
    is_slice(s.lease.ns, "kube-system", "namespace");
    is_slice(s.lease.identity_label, "kube-apiserver", "label");
    is_slice(s.lease.hostname_label, "cp-a", "host name");
    is_slice(s.lease.advertise, "10.0.0.1:16443", "address");
    ok(s.lease.has_duration && s.lease.duration_s == 3600, "an hour");
    is_int(s.lease.renew_us / 1000000, clock_wall_us() / 1000000, "now");
    renewed = s.lease.renew_us;
    sim_run_ms(s.w.loop, RENEWALS_MS);
    ok(by_us(&s) && s.lease.renew_us >= renewed + 9600000 && s.lease.renew_us <= renewed + 10500000, "renewed");
    sim_run_ms(s.w.loop, 100000);
    ok(kube_lease_writes(s.w.store, "PATCH") >= 9 && kube_lease_writes(s.w.store, "PATCH") <= 12, "every 10 s");
    is_u64(kube_lease_writes(s.w.store, "POST"), 1, "made once");
    is_u64(kube_unmarked(s.w.local), 0, "asked as ourselves");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_publishing", NULL), 1, "metric");
    leave(&s, 100);
    ok(!lease_there(&s), "removed at the end");
    end(&s);
}

static void observes(unsigned minor, enum identity_mode mode)
{
    struct story s;

    prepare(&s, minor, mode);
    s.w.opts.annotate = false; /* an address by default is for our own Lease */
    kube_start(s.w.local, 0);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 60000);
    is_u64(kube_lease_writes(s.w.store, "POST") + kube_lease_writes(s.w.store, "PATCH") +
               kube_lease_writes(s.w.store, "DELETE"),
           0, "nothing is written");
    leave(&s, 100);
    ok(lease_there(&s), "the server's Lease stays");
    end(&s);
}

/* 1.25 with the feature switched on: only its renewals tell. */
static void server_publishes_unexpectedly(void)
{
    struct story s;

    prepare(&s, 25, IDENTITY_AUTO);
    kube_start(s.w.local, 0);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 120000);
    is_u64(kube_lease_writes(s.w.store, "DELETE") + kube_lease_writes(s.w.store, "POST"), 0,
           "who is alive is left alone");
    ok(lease_there(&s) && slice_index(s.lease.holder, 'p') < s.lease.holder.n, "the server holds it");
    end(&s);
}

static void conflicts(void)
{
    struct story s;
    char holder[200];
    int64_t renewed;

    prepare(&s, 24, IDENTITY_PUBLISH);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 200);
    ok(by_us(&s), "published");
    (void)snprintf(holder, sizeof(holder), "%.*s", (int)s.lease.holder.n, s.lease.holder.p);
    renewed = s.lease.renew_us;
    put(&s, s.id, holder, renewed); /* somebody wrote into it, but renewed nothing */
    sim_run_ms(s.w.loop, RENEWALS_MS);
    ok(by_us(&s) && s.lease.renew_us > renewed, "a conflict is resolved at once");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_renewals_total", "conflict", NULL), 1, "and counted");
    kube_delete(s.w.store, KUBE_LEASE, s.id);
    sim_run_ms(s.w.loop, RENEWALS_MS);
    ok(by_us(&s), "deleted by somebody: made again");
    put(&s, s.id, holder, clock_wall_us() + 1); /* as a kube-apiserver that was upgraded does: the holder stays */
    sim_run_ms(s.w.loop, 25000);
    ok(lease_there(&s), "renewed by somebody else under our holder");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_publishing", NULL), 0, "left to them");
    leave(&s, 100);
    ok(lease_there(&s), "also at the end");
    end(&s);
}

static void leftovers(int64_t age_us, uint64_t until_ms)
{
    struct story s;
    char holder[100];

    prepare(&s, 24, IDENTITY_AUTO);
    (void)snprintf(holder, sizeof(holder), "%s_earlier", s.id);
    put(&s, s.id, holder, clock_wall_us() - age_us);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 200);
    is_int(by_us(&s), until_ms <= 200, "only what is old for certain is removed at once");
    sim_run_ms(s.w.loop, until_ms);
    ok(by_us(&s), "nobody renewed it: removed, and made anew");
    is_u64(kube_lease_writes(s.w.store, "DELETE"), 1, "deleted once");
    end(&s);
}

/* A second instance with the same host name, before another server on the same store. */
static void twins(int64_t skew_us)
{
    struct story s;
    char holder[100];
    uint64_t writes;

    prepare(&s, 24, IDENTITY_PUBLISH);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 200);
    (void)snprintf(holder, sizeof(holder), "%s_twin", s.id);
    put(&s, s.id, holder, clock_wall_us() + skew_us);
    writes = kube_lease_writes(s.w.store, "DELETE");
    for (int i = 0; i < 12; i++) {
        sim_run_ms(s.w.loop, 10000);
        put(&s, s.id, holder, clock_wall_us() + skew_us);
    }
    is_u64(kube_lease_writes(s.w.store, "DELETE"), writes, "no war of deletions");
    ok(lease_there(&s) && slice_eq(s.lease.holder, slice_str(holder)), "the other one has it");
    ok(cluster_kit_metric(&s.w, "mvproxy_identity_lease_renewals_total", "yielded", NULL) >= 1, "given way");
    sim_run_ms(s.w.loop, 120000);
    ok(by_us(&s), "taken over when the other one renews no more");
    end(&s);
}

static void outages(void)
{
    struct story s;
    int64_t renewed;

    prepare(&s, 24, IDENTITY_AUTO);
    kube_sim(s.w.local)->fault = SIM_REFUSE;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 30000);
    kube_sim(s.w.local)->fault = SIM_FINE;
    sim_run_ms(s.w.loop, 9000);
    ok(by_us(&s), "published when the server is there, after 9 s at most");
    renewed = s.lease.renew_us;
    kube_sim(s.w.local)->fault = SIM_REFUSE;
    sim_run_ms(s.w.loop, 60000);
    kube_sim(s.w.local)->fault = SIM_FINE;
    sim_run_ms(s.w.loop, 9000);
    ok(by_us(&s) && s.lease.renew_us > renewed + 60000000, "renewed again after an outage");
    is_u64(kube_lease_writes(s.w.store, "POST"), 1, "the same one");
    kube_sim(s.w.local)->fault = SIM_HANG;
    cluster_stop(s.w.cluster, on_left, &s);
    sim_run_ms(s.w.loop, 1900);
    ok(!s.left, "it tries for a while to remove the Lease");
    sim_run_ms(s.w.loop, 200);
    ok(s.left, "but for no more than 2 s");
    end(&s);
}

/* etcd without space or leader: all can be read, nothing written. */
static void read_only(enum identity_mode mode, uint64_t long_ms)
{
    struct story s;
    int64_t renewed;

    prepare(&s, 24, mode);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    ok(by_us(&s), "published");
    renewed = s.lease.renew_us;
    kube_forbid_writes(s.w.local, 500);
    sim_run_ms(s.w.loop, long_ms);
    ok(by_us(&s) && s.lease.renew_us == renewed, "nothing can be written");
    kube_forbid_writes(s.w.local, 0);
    sim_run_ms(s.w.loop, 8000);
    ok(by_us(&s) && s.lease.renew_us > renewed, "renewed as soon as it can be, after %llu ms",
       (unsigned long long)long_ms);
    end(&s);
}

static bool same_holder(struct story *s, char text[100])
{
    bool same;

    if (!by_us(s))
        return false;
    same = slice_eq(s->lease.holder, slice_str(text));
    (void)snprintf(text, 100, "%.*s", (int)s->lease.holder.n, s->lease.holder.p);
    return same;
}

/* The Lease stands for the server: another process of it is another holder, as with kube-apiserver's own. */
static void server_restarts(enum identity_mode mode, enum sim_fault away)
{
    struct story s;
    char holder[100] = "";

    prepare(&s, 24, mode);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    ok(by_us(&s) && !same_holder(&s, holder), "published");
    sim_run_ms(s.w.loop, 60000);
    kube_inject(s.w.store, KUBE_LEASE, WATCH_TROUBLE);
    sim_run_ms(s.w.loop, 20000);
    ok(same_holder(&s, holder), "a watch that ends for another reason changes nothing");
    for (int i = 0; i < 3; i++) {
        kube_sim(s.w.local)->fault = away;
        sim_server_break(kube_sim(s.w.local));
        sim_run_ms(s.w.loop, 3000);
        kube_sim(s.w.local)->fault = SIM_FINE;
        sim_run_ms(s.w.loop, 13000);
        ok(!same_holder(&s, holder) && by_us(&s), "another process: another holder");
        sim_run_ms(s.w.loop, 60000);
        ok(same_holder(&s, holder), "which stays");
    }
    is_u64(kube_lease_writes(s.w.store, "POST"), 1, "in the same object");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_renewals_total", "yielded", NULL), 0,
              "and nobody takes it for a stranger's");
    leave(&s, 100);
    ok(!lease_there(&s), "it is ours to the end");
    end(&s);
}

/* Whatever is lost on the way of the write that changes the holder, the Lease is ours. */
static void restarts_in_doubt(void)
{
    struct story s;
    char path[200];

    prepare(&s, 24, IDENTITY_PUBLISH);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    (void)snprintf(path, sizeof(path), LEASE_COLLECTION_PATH "/%s", s.id);
    kube_sim(s.w.local)->delay_ms = 20;
    for (unsigned i = 0; i < 300; i++) { /* each moment of what follows a restart */
        sim_server_break(kube_sim(s.w.local));
        sim_run_ms(s.w.loop, i / 3);
        if (i % 3 == 0)
            kube_forbid(s.w.local, path, 503);
        else
            kube_sim(s.w.local)->fault = i % 3 == 1 ? SIM_CUT : SIM_RESET;
        if (i % 3 > 0)
            sim_server_break(kube_sim(s.w.local));
        sim_run_ms(s.w.loop, 100);
        kube_sim(s.w.local)->fault = SIM_FINE;
        kube_forbid(s.w.local, NULL, 0);
        sim_run_ms(s.w.loop, 14000);
    }
    sim_run_ms(s.w.loop, 20000);
    ok(by_us(&s), "published");
    is_u64(kube_lease_writes(s.w.store, "POST"), 1, "the same one");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_renewals_total", "yielded", NULL), 0, "never given up");
    leave(&s, 100);
    ok(!lease_there(&s), "removed at the end");
    end(&s);
}

static void publish_for_a_minute(struct story *s, char holder[100])
{
    prepare(s, 24, IDENTITY_PUBLISH);
    cluster_kit_start(&s->w);
    sim_run_ms(s->w.loop, 60000);
    ok(by_us(s) && !same_holder(s, holder), "published");
}

/* The process before answers until it ends, and the next one before anybody can watch again. */
static void restarts_after_an_answer(void)
{
    struct story s;
    char holder[100] = "";

    publish_for_a_minute(&s, holder);
    kube_forbid_watches(s.w.local, 503);
    kube_inject(s.w.store, KUBE_LEASE, WATCH_TROUBLE);
    sim_run_ms(s.w.loop, 2000);
    ok(same_holder(&s, holder), "answered over the connection of before");
    sim_server_break(kube_sim(s.w.local));
    (void)cluster_local_miss(s.w.cluster, NULL, NULL);
    sim_run_ms(s.w.loop, 1000);
    kube_forbid_watches(s.w.local, 0);
    sim_run_ms(s.w.loop, 15000);
    ok(!same_holder(&s, holder) && by_us(&s), "another process: another holder");
    sim_run_ms(s.w.loop, 60000);
    ok(same_holder(&s, holder), "which stays");
    end(&s);
}

/* Who may write Leases but not watch them has no sign of restarts: not every new connection is one. */
static void may_not_watch(void)
{
    struct story s;
    char holder[100] = "";

    publish_for_a_minute(&s, holder);
    kube_forbid_watches(s.w.local, 403);
    kube_inject(s.w.store, KUBE_LEASE, WATCH_TROUBLE);
    sim_run_ms(s.w.loop, 60000);
    for (int i = 0; i < 3; i++) {
        sim_server_break(kube_sim(s.w.local));
        sim_run_ms(s.w.loop, 60000);
        ok(by_us(&s) && same_holder(&s, holder), "another connection: the same holder");
    }
    end(&s);
}

static void stops_early(void)
{
    struct story s;

    prepare(&s, 24, IDENTITY_PUBLISH);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1);
    leave(&s, 2100);
    ok(!lease_there(&s), "nothing left behind");
    sim_run_ms(s.w.loop, 30000);
    ok(!lease_there(&s), "and nothing comes later");
    end(&s);
}

/* A Lease of the server's own, without an address. */
static void put_servers(struct story *s)
{
    char holder[100];
    struct kube_lease l = {
        .name = s->id, .hostname = "cp-a", .holder = holder, .renew_us = clock_wall_us(), .duration_s = 3600};

    (void)snprintf(holder, sizeof(holder), "%s_server", s->id);
    kube_put_lease(s->w.store, &l);
}

static bool address_there(struct story *s)
{
    return lease_there(s) && slice_eq(s->lease.advertise, slice_str("10.0.0.1:16443"));
}

/* Whatever comes first: its answers, the Lease that it takes over, or the watch that shows it. */
static void upgrade(uint64_t away_ms, uint64_t lease_ms)
{
    struct story s;

    prepare(&s, 24, IDENTITY_AUTO);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    ok(by_us(&s), "published for 1.24");
    kube_sim(s.w.local)->fault = SIM_REFUSE;
    sim_server_break(kube_sim(s.w.local));
    sim_run_ms(s.w.loop, away_ms);
    kube_set_minor(s.w.local, 28);
    kube_sim(s.w.local)->fault = SIM_FINE;
    sim_run_ms(s.w.loop, lease_ms);
    put_servers(&s);
    sim_run_ms(s.w.loop, 12000);
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_publishing", NULL), 0, "left to 1.28");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_renewals_total", "yielded", NULL), 0,
              "which is no stranger, %llu ms away and %llu until its Lease", (unsigned long long)away_ms,
              (unsigned long long)lease_ms);
    ok(address_there(&s), "with the address for peers");
    leave(&s, 100);
    ok(lease_there(&s), "which renews what is there");
    end(&s);
}

static void upgrades(void)
{
    for (uint64_t away = 1; away < 3000; away = away * 3 / 2 + 1)
        for (uint64_t lease = 0; lease < 600; lease = lease * 2 + 10)
            upgrade(away, lease);
}

static void annotates(unsigned minor, const char *own, const char *written, const char *wanted)
{
    struct story s;
    char holder[100];
    struct kube_lease l = {
        .hostname = "cp-a", .holder = holder, .address = own, .written = written, .duration_s = 3600};

    prepare(&s, minor, IDENTITY_AUTO);
    l.name = s.id;
    (void)snprintf(holder, sizeof(holder), "%s_server", s.id);
    cluster_kit_start(&s.w);
    for (int i = 0; i < 4; i++) {
        l.renew_us = clock_wall_us();
        if ((own == NULL || written == own) && lease_there(&s) &&
            slice_eq(s.lease.advertise, slice_str("10.0.0.1:16443")))
            l.address = l.written = "10.0.0.1:16443"; /* the server keeps what it does not know */
        kube_put_lease(s.w.store, &l);
        sim_run_ms(s.w.loop, 10000);
    }
    ok(lease_there(&s), "there");
    is_slice(s.lease.advertise, wanted, "the address in the server's Lease");
    ok(kube_lease_writes(s.w.store, "PATCH") <= 1, "written once at most");
    end(&s);
}

/* Not only when the server renews its Lease, in ten seconds: peers wait for it. */
static void annotates_at_once(void)
{
    struct story s;

    prepare(&s, 33, IDENTITY_AUTO);
    put_servers(&s);
    kube_forbid(s.w.local, "/version", 503);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 300);
    ok(!address_there(&s), "the Lease is listed before it is known whose it is");
    kube_forbid(s.w.local, NULL, 0);
    sim_run_ms(s.w.loop, 1000);
    ok(address_there(&s), "the address is there all the same");
    end(&s);
    prepare(&s, 33, IDENTITY_AUTO);
    put_servers(&s);
    kube_sim(s.w.local)->delay_ms = 20;
    cluster_kit_start(&s.w);
    for (int i = 0; i < 12; i++) {
        sim_run_ms(s.w.loop, 10);
        if (!address_there(&s))
            put_servers(&s);
    }
    ok(!address_there(&s), "it is renewed under our hands");
    sim_run_ms(s.w.loop, 500);
    ok(address_there(&s), "the address is there as soon as it rests");
    end(&s);
}

static void collects(bool first)
{
    struct story s;
    char dead[SERVER_ID_BYTES], older[SERVER_ID_BYTES], fresh[SERVER_ID_BYTES];

    prepare(&s, 24, IDENTITY_PUBLISH);
    /* cp-b's ID sorts before cp-a's. */
    if (!first)
        (void)cluster_kit_peer(&s.w, "cp-b", "10.0.0.2:6443", KIT_BASE);
    (void)server_id_from_hostname(SLICE_LIT("dead"), dead);
    (void)server_id_from_hostname(SLICE_LIT("older"), older);
    (void)server_id_from_hostname(SLICE_LIT("fresh"), fresh);
    put_of(&s, dead, "dead", "x_dead", clock_wall_us() - (int64_t)1800 * 1000000);
    put_of(&s, older, "older", "x_older", clock_wall_us() - (int64_t)7200 * 1000000);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    ok(by_us(&s), "published");
    sim_run_ms(s.w.loop, HOUR_MS - 3 * 60 * 1000);
    put_of(&s, fresh, "fresh", "x_fresh", clock_wall_us());
    put(&s, "not-an-identity", "x", clock_wall_us() - (int64_t)7200 * 1000000);
    sim_run_ms(s.w.loop, HOUR_MS);
    arena_reset(s.arena);
    is_int(kube_get_lease(s.w.store, dead, s.arena, &s.lease), !first, "the expired one");
    is_int(kube_get_lease(s.w.store, older, s.arena, &s.lease), !first, "and one that had expired before we came");
    ok(kube_get_lease(s.w.store, fresh, s.arena, &s.lease), "one that has not expired stays");
    ok(kube_get_lease(s.w.store, "not-an-identity", s.arena, &s.lease), "one of another shape stays");
    ok(by_us(&s), "our own stays");
    end(&s);
}

static void reload(struct story *s, enum identity_mode mode, const char *advertise)
{
    s->w.opts.identity = mode;
    s->w.opts.advertise = advertise;
    cluster_update(s->w.cluster, &s->w.opts);
    sim_run_ms(s->w.loop, 100);
}

static void changes_address(void)
{
    struct story s;

    prepare(&s, 24, IDENTITY_AUTO);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 200);
    ok(by_us(&s), "published");
    reload(&s, IDENTITY_AUTO, "10.0.0.9:7443");
    ok(by_us(&s), "by the same process");
    is_slice(s.lease.advertise, "10.0.0.9:7443", "a reload's address is written at once");
    is_u64(kube_lease_writes(s.w.store, "POST"), 1, "into the same Lease");
    reload(&s, IDENTITY_AUTO, "10.0.0.9:7443");
    is_u64(kube_lease_writes(s.w.store, "PATCH"), 1, "the same address is no news");
    end(&s);
}

/* Into the Lease of a server that publishes its own: whatever we wrote is ours to change. */
static void changes_annotation(unsigned minor)
{
    struct story s;
    char holder[100];
    struct kube_lease l = {.hostname = "cp-a", .holder = holder, .duration_s = 3600};

    prepare(&s, minor, IDENTITY_AUTO);
    l.name = s.id;
    (void)snprintf(holder, sizeof(holder), "%s_server", s.id);
    l.renew_us = clock_wall_us();
    kube_put_lease(s.w.store, &l);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 500);
    ok(lease_there(&s), "there");
    is_slice(s.lease.advertise, "10.0.0.1:16443", "1.%u: the address in the server's Lease", minor);
    reload(&s, IDENTITY_AUTO, "10.0.0.9:7443");
    l.address = l.written = "10.0.0.9:7443"; /* the server keeps what it does not know */
    for (int i = 0; i < 3; i++) {
        ok(lease_there(&s), "there");
        is_slice(s.lease.advertise, "10.0.0.9:7443", "1.%u: the one of the reload", minor);
        l.renew_us = clock_wall_us();
        kube_put_lease(s.w.store, &l);
        sim_run_ms(s.w.loop, 100);
    }
    is_u64(kube_lease_writes(s.w.store, "PATCH"), 2, "written twice in all");
    end(&s);
}

static void changes_mode(void)
{
    struct story s;
    uint64_t posts;

    prepare(&s, 28, IDENTITY_PUBLISH);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 200);
    ok(by_us(&s), "published because it was told to");
    reload(&s, IDENTITY_OBSERVE, "10.0.0.1:16443");
    ok(!lease_there(&s), "observe: what was published is removed");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_publishing", NULL), 0, "and no more of it");
    sim_run_ms(s.w.loop, 15000);
    ok(!lease_there(&s), "nothing comes later");
    posts = kube_lease_writes(s.w.store, "POST");
    reload(&s, IDENTITY_AUTO, "10.0.0.1:16443");
    sim_run_ms(s.w.loop, 15000);
    is_u64(kube_lease_writes(s.w.store, "POST"), posts, "auto: 1.28 does it by itself");
    reload(&s, IDENTITY_PUBLISH, "10.0.0.1:16443");
    ok(by_us(&s), "publish: at once");
    reload(&s, IDENTITY_OFF, "10.0.0.1:16443");
    ok(!lease_there(&s), "off: removed");
    reload(&s, IDENTITY_PUBLISH, "10.0.0.1:16443");
    ok(by_us(&s), "and on");
    reload(&s, IDENTITY_AUTO, "10.0.0.1:16443");
    sim_run_ms(s.w.loop, RENEWALS_MS);
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_lease_publishing", NULL), 0, "auto: left to 1.28");
    ok(lease_there(&s), "with what is there");
    leave(&s, 100);
    end(&s);
}

/* The server is away while the mode changes, back and forth. */
static void changes_mode_blindly(void)
{
    struct story s;

    prepare(&s, 24, IDENTITY_PUBLISH);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 200);
    kube_sim(s.w.local)->fault = SIM_REFUSE;
    for (int i = 0; i < 20; i++)
        reload(&s, (enum identity_mode)(i % 4), "10.0.0.1:16443");
    reload(&s, IDENTITY_OBSERVE, "10.0.0.1:16443");
    sim_run_ms(s.w.loop, 10000);
    kube_sim(s.w.local)->fault = SIM_FINE;
    reload(&s, IDENTITY_PUBLISH, "10.0.0.1:16443");
    sim_run_ms(s.w.loop, 30000);
    ok(by_us(&s), "published in the end");
    reload(&s, IDENTITY_OBSERVE, "10.0.0.1:16443");
    cluster_stop(s.w.cluster, on_left, &s);
    sim_run_ms(s.w.loop, 2100);
    ok(s.left && !lease_there(&s), "and removed");
    sim_run_ms(s.w.loop, 60000);
    ok(!lease_there(&s), "for good");
    end(&s);
}

/* A Lease that its owner renews while we make up our mind is never deleted, whether the watch tells us in time or not.
 */
static void collects_carefully(uint64_t late_ms)
{
    struct story s;
    char dead[SERVER_ID_BYTES];
    uint64_t reads;

    prepare(&s, 24, IDENTITY_PUBLISH);
    (void)server_id_from_hostname(SLICE_LIT("dead"), dead);
    put_of(&s, dead, "dead", "x_dead", clock_wall_us() - (int64_t)4000 * 1000000);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    reads = kube_lease_reads(s.w.store);
    /* Answers take a second, so that a renewal can come between look and deletion. */
    kube_sim(s.w.local)->delay_ms = 1000;
    kube_sim(s.w.local)->late_ms = late_ms;
    while (kube_lease_reads(s.w.store) == reads)
        sim_run_ms(s.w.loop, 10);
    sim_run_ms(s.w.loop, 500);
    put_of(&s, dead, "dead", "x_dead", clock_wall_us());
    sim_run_ms(s.w.loop, 20000);
    arena_reset(s.arena);
    ok(kube_get_lease(s.w.store, dead, s.arena, &s.lease), "renewed after the look, told %llu ms later: stays",
       (unsigned long long)late_ms);
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_leases_collected_total", NULL), 0, "and not counted");
    end(&s);
}

/* Who does not publish any more does not collect any more. */
static void collects_no_more(void)
{
    struct story s;
    char dead[SERVER_ID_BYTES];

    prepare(&s, 24, IDENTITY_PUBLISH);
    (void)server_id_from_hostname(SLICE_LIT("dead"), dead);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    ok(by_us(&s), "published");
    reload(&s, IDENTITY_OFF, "10.0.0.1:16443");
    ok(!lease_there(&s), "withdrawn");
    put_of(&s, dead, "dead", "x_dead", clock_wall_us() - (int64_t)7200 * 1000000);
    sim_run_ms(s.w.loop, 2 * HOUR_MS);
    arena_reset(s.arena);
    ok(kube_get_lease(s.w.store, dead, s.arena, &s.lease), "an expired one stays");
    end(&s);
}

/* An owner whose clock is two hours behind, or ours that many before: his Lease is renewed all the same. */
static void wrong_clocks(void)
{
    struct story s;
    struct kube_server *slow;

    prepare(&s, 24, IDENTITY_PUBLISH);
    slow = kube_server_new(s.w.store, s.w.back, "slow-2", "10.0.0.2:6443", KIT_BASE);
    kube_start(slow, -(int64_t)7200 * 1000000);
    ok(strcmp(kube_id(slow), s.id) > 0, "it is for us to collect");
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 2 * HOUR_MS);
    ok(by_us(&s), "published");
    is_u64(kube_lease_writes(s.w.store, "DELETE"), 0, "nothing is deleted");
    is_double(cluster_kit_metric(&s.w, "mvproxy_identity_leases_collected_total", NULL), 0, "nor counted");
    kube_stop(slow, true);
    sim_run_ms(s.w.loop, 2 * HOUR_MS);
    arena_reset(s.arena);
    ok(!kube_get_lease(s.w.store, kube_id(slow), s.arena, &s.lease), "when nobody renews it any more it goes");
    end(&s);
}

/* A server of 1.26 publishes its own Lease, under another label and another name. */
static void of_126(void)
{
    struct story s;
    char older[SERVER_ID_BYTES_126];

    prepare(&s, 26, IDENTITY_AUTO);
    ok(server_id_126_from_hostname(SLICE_LIT("cp-a"), older), "the name");
    kube_start(s.w.local, 0);
    cluster_kit_start(&s.w);
    ok(cluster_kit_ready(&s.w, 2000), "ready");
    sim_run_ms(s.w.loop, 1000);
    ok(!lease_there(&s), "it is observed, and none of the later kind is made");
    s.id = older;
    ok(lease_there(&s) && slice_eq(s.lease.advertise, slice_str(s.w.opts.advertise)), "its Lease gets our address");
    is_u64(served_n_peers(cluster_served(s.w.cluster)), 0, "and is no peer's");
    kube_stop(s.w.local, false);
    sim_run_ms(s.w.loop, 5000);
    kube_set_minor(s.w.local, 27);
    kube_start(s.w.local, 0);
    s.id = kube_id(s.w.local);
    for (unsigned ms = 0; ms < 10000 && !address_there(&s); ms += 100)
        sim_run_ms(s.w.loop, 100);
    ok(address_there(&s), "upgraded: the later one gets it");
    end(&s);
}

int main(void)
{
    static const char left[] = "10.8.8.8:6443";

    publishes();
    observes(34, IDENTITY_AUTO);
    observes(24, IDENTITY_OBSERVE);
    observes(24, IDENTITY_OFF);
    server_publishes_unexpectedly();
    conflicts();
    leftovers((int64_t)600 * 1000000, 200);
    leftovers((int64_t)5 * 1000000, 13000);
    leftovers(-(int64_t)3600 * 1000000, 13000);
    twins(0);
    twins(-(int64_t)3600 * 1000000);
    twins((int64_t)3600 * 1000000);
    outages();
    read_only(IDENTITY_AUTO, 12000);
    read_only(IDENTITY_PUBLISH, 120000);
    server_restarts(IDENTITY_AUTO, SIM_REFUSE);
    server_restarts(IDENTITY_PUBLISH, SIM_REFUSE);
    server_restarts(IDENTITY_PUBLISH, SIM_RESET);
    restarts_in_doubt();
    restarts_after_an_answer();
    may_not_watch();
    stops_early();
    upgrades();
    annotates(33, NULL, NULL, "10.0.0.1:16443");
    annotates(33, "10.9.9.9:6443", NULL, "10.9.9.9:6443");
    annotates(36, "10.9.9.9:6443", NULL, "10.9.9.9:6443");
    annotates(36, "10.9.9.9:6443", "10.8.8.8:6443", "10.9.9.9:6443");
    /* left behind by the process before */
    annotates(36, left, left, "10.0.0.1:16443");
    annotates_at_once();
    collects(true);
    collects(false);
    collects_no_more();
    collects_carefully(0);
    collects_carefully(5000);
    wrong_clocks();
    changes_address();
    changes_annotation(33);
    changes_annotation(36);
    changes_mode();
    changes_mode_blindly();
    of_126();
    return tap_end();
}
