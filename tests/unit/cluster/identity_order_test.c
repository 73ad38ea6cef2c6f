/* SPDX-License-Identifier: Apache-2.0 */
/* The identity Lease, whatever comes first: each moment of what follows a restart, an upgrade, a downgrade. */
#include <stdio.h>

#include "back/back.h"
#include "base/clock.h"
#include "base/metric.h"
#include "cluster/cluster_view.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define WATCH_TROUBLE                                                                                                  \
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":"                                    \
    "\"etcdserver: leader changed\"}}\n"
#define ADDRESS "10.0.0.1:16443"

enum { ARENA = 1 << 20, RENEWALS_MS = 10400 };

struct story {
    struct cluster_kit w;
    struct arena *arena;
    struct lease lease; /* as last looked at */
    const char *id;
    char moment[80]; /* which of the sweep */
};

/* A local server of this version, that does not publish by itself. */
static void begin(struct story *s, unsigned minor, enum identity_mode mode)
{
    memset(s, 0, sizeof(*s));
    s->arena = arena_new(ARENA);
    cluster_kit_init(&s->w, KIT_BASE);
    cluster_kit_without_lease(&s->w, minor);
    s->id = kube_id(s->w.local);
    s->w.opts.identity = mode;
    s->w.opts.advertise = ADDRESS;
    s->w.opts.annotate = true;
}

static void end(struct story *s)
{
    cluster_free(s->w.cluster);
    s->w.cluster = NULL;
    cluster_kit_end(&s->w);
    arena_free(s->arena);
}

static bool lease_there(struct story *s)
{
    arena_reset(s->arena);
    return kube_get_lease(s->w.store, s->id, s->arena, &s->lease);
}

static bool by_us(struct story *s)
{
    return lease_there(s) && slice_has_prefix(s->lease.holder, slice_str(s->id)) && s->lease.holder.n == 36 + 1 + 36;
}

static bool address_there(struct story *s)
{
    return lease_there(s) && slice_eq(s->lease.advertise, slice_str(ADDRESS));
}

static double publishing(struct story *s)
{
    return cluster_kit_metric(&s->w, "mvproxy_identity_lease_publishing", NULL);
}

static void state_is(struct story *s, const char *state)
{
    struct cluster_view v;

    if (!cluster_view_take(s->w.cluster, &v))
        tap_bail("no view");
    is_str(v.identity, state, "%s: %s", state, s->moment);
    cluster_view_free(&v);
}

static double yielded(struct story *s)
{
    return cluster_kit_metric(&s->w, "mvproxy_identity_lease_renewals_total", "yielded", NULL);
}

/*
 * The server's own renewal: into what is there, whose holder stays and with it what the server does not know, or a
 * Lease of its own (1.35 and later delete what they find when they start).
 */
static void server_renews(struct story *s, bool anew)
{
    char holder[100], address[60] = "", written[60] = "";
    struct kube_lease l = {
        .name = s->id, .hostname = "cp-a", .holder = holder, .renew_us = clock_wall_us(), .duration_s = 3600};

    (void)snprintf(holder, sizeof(holder), "%s_server", s->id);
    if (!anew && lease_there(s)) {
        (void)snprintf(holder, sizeof(holder), "%.*s", (int)s->lease.holder.n, s->lease.holder.p);
        (void)snprintf(address, sizeof(address), "%.*s", (int)s->lease.advertise.n, s->lease.advertise.p);
        (void)snprintf(written, sizeof(written), "%.*s", (int)s->lease.written.n, s->lease.written.p);
    }
    l.address = address[0] == '\0' ? NULL : address;
    l.written = written[0] == '\0' ? NULL : written;
    kube_put_lease(s->w.store, &l);
}

static void goes(struct story *s)
{
    kube_sim(s->w.local)->fault = SIM_REFUSE;
    sim_server_break(kube_sim(s->w.local));
}

static void comes(struct story *s, unsigned minor)
{
    kube_set_minor(s->w.local, minor);
    kube_sim(s->w.local)->fault = SIM_FINE;
}

/* 1.28 keeps its Lease from now on. */
static void is_left_to_server(struct story *s)
{
    for (int i = 0; i < 2; i++) {
        sim_run_ms(s->w.loop, 10000);
        server_renews(s, false);
    }
    sim_run_ms(s->w.loop, 2000);
    is_double(publishing(s), 0, "left to 1.28, %s", s->moment);
    is_double(yielded(s), 0, "which is no stranger, %s", s->moment);
    ok(address_there(s), "with the address for peers, %s", s->moment);
}

/* A process of before that does not live long (static pods are made anew more than once), then the upgrade. */
static void restart_and_upgrade(uint64_t lives_ms, uint64_t lease_ms, bool anew, uint64_t delay_ms)
{
    struct story s;

    begin(&s, 24, IDENTITY_AUTO);
    kube_sim(s.w.local)->delay_ms = delay_ms;
    (void)snprintf(s.moment, sizeof(s.moment), "%llu ms of life, Lease after %llu, answers after %llu",
                   (unsigned long long)lives_ms, (unsigned long long)lease_ms, (unsigned long long)delay_ms);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    goes(&s);
    sim_run_ms(s.w.loop, 700);
    comes(&s, 24);
    sim_run_ms(s.w.loop, lives_ms);
    goes(&s);
    sim_run_ms(s.w.loop, 700);
    comes(&s, 28);
    sim_run_ms(s.w.loop, lease_ms);
    server_renews(&s, anew);
    is_left_to_server(&s);
    end(&s);
}

static void restarts_and_upgrades(void)
{
    for (uint64_t lives = 0; lives < 1500; lives += 19)
        for (uint64_t lease = 0; lease < 300; lease += 90)
            restart_and_upgrade(lives, lease, lives % 2 == 0, lives % 3 * 11);
}

/* It starts before 1.24, finds a Lease that somebody has left, and 1.24 is replaced while it waits. */
static void upgrade_at_start(uint64_t after_ms, uint64_t delay_ms)
{
    struct story s;

    begin(&s, 24, IDENTITY_AUTO);
    (void)snprintf(s.moment, sizeof(s.moment), "%llu ms after the start, answers after %llu",
                   (unsigned long long)after_ms, (unsigned long long)delay_ms);
    server_renews(&s, true);
    kube_sim(s.w.local)->delay_ms = delay_ms;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, after_ms);
    goes(&s);
    sim_run_ms(s.w.loop, 700);
    comes(&s, 28);
    server_renews(&s, after_ms % 2 == 0);
    is_left_to_server(&s);
    end(&s);
}

static void upgrades_at_start(void)
{
    for (uint64_t after = 0; after < 300; after += 7)
        upgrade_at_start(after, after % 5 * 5);
    for (uint64_t after = 11000; after < 13000; after += 31)
        upgrade_at_start(after, after % 3 * 9);
}

/* 1.28 goes, and 1.24 comes back, which renews nothing. */
static void downgrade(uint64_t away_ms, uint64_t after_ms, uint64_t delay_ms)
{
    struct story s;

    begin(&s, 24, IDENTITY_AUTO);
    kube_sim(s.w.local)->delay_ms = delay_ms;
    (void)snprintf(s.moment, sizeof(s.moment), "%llu ms after the start and %llu ms away", (unsigned long long)after_ms,
                   (unsigned long long)away_ms);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, after_ms);
    goes(&s);
    sim_run_ms(s.w.loop, 700);
    comes(&s, 28);
    server_renews(&s, true);
    is_left_to_server(&s);
    goes(&s);
    sim_run_ms(s.w.loop, away_ms);
    comes(&s, 24);
    sim_run_ms(s.w.loop, 24000);
    ok(by_us(&s) && publishing(&s) == 1, "published for 1.24 again, %s", s.moment);
    is_double(yielded(&s), 0, "whose predecessor is nobody's rival, %s", s.moment);
    end(&s);
}

static void downgrades(void)
{
    for (uint64_t after = 9000; after < 10500; after += 20) /* our renewal is due */
        downgrade(after % 7 * 300 + 5, after, after % 3 * 7);
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

/*
 * 1.24 restarts while it is looked at, or its Lease is written, or somebody watches or not: for all others it gets
 * another holder, soon and once.
 */
static void restart(uint64_t after_ms, uint64_t away_ms, bool blind)
{
    struct story s;
    char holder[100] = "";
    unsigned changes = 0;

    begin(&s, 24, after_ms % 2 == 0 ? IDENTITY_AUTO : IDENTITY_PUBLISH);
    (void)snprintf(s.moment, sizeof(s.moment), "%llu ms on, %llu ms away%s", (unsigned long long)after_ms,
                   (unsigned long long)away_ms, blind ? ", unseen" : "");
    kube_sim(s.w.local)->delay_ms = 15;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 29500);
    if (after_ms % 3 == 0)
        cluster_refresh(s.w.cluster);
    if (blind) {
        kube_forbid_watches(s.w.local, 503);
        kube_inject(s.w.store, KUBE_LEASE, WATCH_TROUBLE);
    }
    sim_run_ms(s.w.loop, after_ms);
    ok(by_us(&s) && !same_holder(&s, holder), "published");
    goes(&s);
    sim_run_ms(s.w.loop, away_ms);
    comes(&s, 24);
    sim_run_ms(s.w.loop, after_ms % 5 * 200);
    kube_forbid_watches(s.w.local, 0);
    for (int i = 0; i < 150; i++) {
        sim_run_ms(s.w.loop, 100);
        changes += !same_holder(&s, holder);
    }
    is_u64(changes, 1, "another holder, %s", s.moment);
    sim_run_ms(s.w.loop, 40000);
    ok(same_holder(&s, holder), "which stays, %s", s.moment);
    is_double(yielded(&s), 0, "nobody is a stranger, %s", s.moment);
    end(&s);
}

static void restarts(void)
{
    for (uint64_t after = 0; after < 1500; after += 17)
        restart(after, after % 4 * 900 + 20, after % 9 == 0);
}

/* A second instance with our host name, before another server. */
struct twin {
    struct metrics *metrics;
    struct origin *origin;
    struct kube_server *server;
    struct cluster *cluster;
};

static void twin_starts(struct story *s, struct twin *t, enum identity_mode mode)
{
    struct origin_opts o = {.name = "local", .host = "10.0.0.9", .port = 6443};
    struct cluster_opts opts = s->w.opts;

    t->server = kube_server_new(s->w.store, s->w.back, "cp-a", "10.0.0.9:6443", KIT_BASE);
    kube_set_minor(t->server, 24);
    t->origin = origin_new(s->w.back, &o);
    t->metrics = metrics_new();
    opts.local = t->origin;
    opts.identity = mode;
    t->cluster = cluster_new(s->w.loop, s->w.back, t->metrics, &opts);
}

static void twin_ends(struct twin *t)
{
    cluster_free(t->cluster);
    origin_unref(t->origin);
    metrics_free(t->metrics);
}

static double both_publishing(struct story *s, struct twin *t)
{
    struct cluster_kit other = {.metrics = t->metrics};

    return publishing(s) + cluster_kit_metric(&other, "mvproxy_identity_lease_publishing", NULL);
}

/* Whenever the second one starts, and however long the first one's server is away: one gives way, nobody fights. */
static void twins(uint64_t after_ms, uint64_t away_ms, enum identity_mode mode)
{
    struct story s;
    struct twin t;
    uint64_t deleted;

    begin(&s, 24, mode);
    (void)snprintf(s.moment, sizeof(s.moment), "%llu ms after, %llu ms away", (unsigned long long)after_ms,
                   (unsigned long long)away_ms);
    kube_sim(s.w.local)->delay_ms = after_ms % 3 * 9;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, after_ms);
    twin_starts(&s, &t, mode);
    sim_run_ms(s.w.loop, 60000);
    is_double(both_publishing(&s, &t), 1, "one of two, %s", s.moment);
    ok(by_us(&s) && kube_lease_writes(s.w.store, "DELETE") == 0, "nobody's Lease is removed, %s", s.moment);
    goes(&s);
    sim_run_ms(s.w.loop, away_ms);
    comes(&s, 24);
    sim_run_ms(s.w.loop, 50000);
    deleted = kube_lease_writes(s.w.store, "DELETE");
    ok(deleted <= 1, "it is taken over once at most, %s", s.moment);
    sim_run_ms(s.w.loop, 120000);
    is_double(both_publishing(&s, &t), 1, "still one of two, %s", s.moment);
    ok(by_us(&s) && s.lease.renew_us > clock_wall_us() - 11000000, "which renews it, %s", s.moment);
    is_u64(kube_lease_writes(s.w.store, "DELETE"), deleted, "and keeps it, %s", s.moment);
    twin_ends(&t);
    end(&s);
}

static void all_twins(void)
{
    for (uint64_t after = 0; after < 160; after += 4)
        twins(after, after * after * 8, after % 8 == 0 ? IDENTITY_AUTO : IDENTITY_PUBLISH);
}

/* A reload puts another server behind us, which publishes nothing. */
static void another_server(void)
{
    struct story s;
    struct origin_opts o = {.name = "local", .host = "10.0.0.9", .port = 6443};
    struct origin *origin;
    struct kube_server *k;

    begin(&s, 28, IDENTITY_AUTO);
    k = kube_server_new(s.w.store, s.w.back, "cp-a", "10.0.0.9:6443", KIT_BASE);
    kube_set_minor(k, 24);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 30000);
    ok(!lease_there(&s), "left to 1.28");
    origin = origin_new(s.w.back, &o);
    s.w.opts.local = origin;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, 1000);
    ok(by_us(&s), "published for 1.24");
    s.w.opts.local = s.w.origin;
    cluster_update(s.w.cluster, &s.w.opts);
    sim_run_ms(s.w.loop, RENEWALS_MS);
    is_double(publishing(&s), 0, "and left to 1.28 again");
    origin_unref(origin);
    end(&s);
}

static void on_left(void *arg)
{
    bool *left = arg;

    *left = true;
}

/* Stopped at any moment, with a write on its way, lost or refused: no Lease stays, and none comes later. */
static void stop(uint64_t after_ms, enum sim_fault fault)
{
    struct story s;
    bool left = false;

    begin(&s, 24, IDENTITY_AUTO);
    (void)snprintf(s.moment, sizeof(s.moment), "stopped after %llu ms, fault %d", (unsigned long long)after_ms,
                   (int)fault);
    kube_sim(s.w.local)->delay_ms = 15;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, after_ms);
    kube_sim(s.w.local)->fault = fault;
    if (fault != SIM_FINE)
        sim_server_break(kube_sim(s.w.local));
    cluster_stop(s.w.cluster, on_left, &left);
    sim_run_ms(s.w.loop, 300);
    kube_sim(s.w.local)->fault = SIM_FINE;
    sim_run_ms(s.w.loop, 1800);
    ok(left && !lease_there(&s), "nothing is left: %s", s.moment);
    sim_run_ms(s.w.loop, 30000);
    ok(!lease_there(&s), "and nothing comes later: %s", s.moment);
    end(&s);
}

static void stops(void)
{
    static const enum sim_fault faults[] = {SIM_FINE, SIM_RESET, SIM_CUT, SIM_REFUSE};

    for (uint64_t after = 0; after < 100; after++)
        stop(after, faults[after % 4]);
    for (uint64_t after = 9550; after < 10550; after += 9)
        stop(after, faults[after % 4]);
}

static void reload(struct story *s, bool peers, enum identity_mode mode)
{
    s->w.opts.peers_enabled = peers;
    s->w.opts.identity = mode;
    cluster_update(s->w.cluster, &s->w.opts);
}

/* A Lease that the server keeps itself by now needs no word of its server, which is away. */
static void stop_after_upgrade(void)
{
    struct story s;
    bool left = false;

    begin(&s, 24, IDENTITY_AUTO);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    goes(&s);
    sim_run_ms(s.w.loop, 700);
    comes(&s, 28);
    server_renews(&s, false);
    is_left_to_server(&s);
    goes(&s);
    cluster_stop(s.w.cluster, on_left, &left);
    sim_run_ms(s.w.loop, 0);
    ok(left && lease_there(&s), "it stays, and nobody waits for it");
    end(&s);
}

/* To be left to the server, and stopped while ours is still being removed: it does not begin again. */
static void stop_after_reload(uint64_t after_ms)
{
    struct story s;
    bool left = false;

    begin(&s, 24, IDENTITY_AUTO);
    (void)snprintf(s.moment, sizeof(s.moment), "stopped %llu ms after a reload", (unsigned long long)after_ms);
    kube_sim(s.w.local)->delay_ms = 15;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    reload(&s, true, IDENTITY_OBSERVE);
    sim_run_ms(s.w.loop, after_ms);
    cluster_stop(s.w.cluster, on_left, &left);
    sim_run_ms(s.w.loop, 3000);
    ok(left && !lease_there(&s), "nothing is left: %s", s.moment);
    state_is(&s, "stopped");
    end(&s);
}

struct last_word {
    struct story *s;
    bool told, there; /* the Lease was, when it was told */
};

static void on_told(void *arg)
{
    struct last_word *l = arg;

    l->told = true;
    l->there = lease_there(l->s);
}

/* Switched off, on again and stopped in one turn of the loop: told when the Lease is gone, and not before. */
static void stopped_at_once(uint64_t after_ms)
{
    struct story s;
    struct last_word l = {.s = &s};

    begin(&s, 24, IDENTITY_AUTO);
    kube_sim(s.w.local)->delay_ms = 15;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, after_ms);
    reload(&s, false, IDENTITY_AUTO);
    reload(&s, true, IDENTITY_AUTO);
    cluster_stop(s.w.cluster, on_told, &l);
    ok(!l.told, "not from inside");
    sim_run_ms(s.w.loop, 1500);
    ok(l.told && !l.there, "told when it is gone, %llu ms after the start", (unsigned long long)after_ms);
    end(&s);
}

/* ---- after the end ---- */

struct listener {
    void (*serve)(void *arg, struct sim_request *q);
    void (*gone)(void *arg, struct sim_request *q);
    void *arg;
    const char *id;
    unsigned asked; /* about the Lease */
};

static void listen_serve(void *arg, struct sim_request *q)
{
    struct listener *l = arg;

    l->asked += slice_has_suffix(sim_path(q), slice_str(l->id));
    l->serve(l->arg, q);
}

static void listen_gone(void *arg, struct sim_request *q)
{
    struct listener *l = arg;

    l->gone(l->arg, q);
}

/* The server does not answer in time: after all is said to be over, nothing more is asked. */
static void asks_no_more(void)
{
    struct story s;
    struct sim_server *server;
    struct listener l;
    bool left = false;

    begin(&s, 24, IDENTITY_PUBLISH);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    ok(by_us(&s), "published");
    server = kube_sim(s.w.local);
    l = (struct listener){.serve = server->serve, .gone = server->gone, .arg = server->arg, .id = s.id};
    server->serve = listen_serve;
    server->gone = server->gone == NULL ? NULL : listen_gone;
    server->arg = &l;
    kube_forbid_writes(s.w.local, 500);
    cluster_stop(s.w.cluster, on_left, &left);
    for (int i = 0; i < 100 && !left; i++)
        sim_run_ms(s.w.loop, 100);
    ok(left && l.asked > 1, "asked again and again, in vain, and told so");
    l.asked = 0;
    sim_run_ms(s.w.loop, 60000);
    is_int((int)l.asked, 0, "nobody asks about the Lease any more");
    server->serve = l.serve;
    server->gone = l.gone;
    server->arg = l.arg;
    end(&s);
}

/* All is freed in the turn in which it would have been told. */
static void freed_at_once(void)
{
    struct story s;
    bool left = false;

    begin(&s, 24, IDENTITY_OFF);
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, 1000);
    cluster_stop(s.w.cluster, on_left, &left);
    cluster_free(s.w.cluster);
    s.w.cluster = NULL;
    sim_run_ms(s.w.loop, 1000);
    ok(!left, "nobody is told any more");
    end(&s);
}

/* Reloaded at any moment, twice: what was said last holds. */
static void reloaded(uint64_t after_ms, uint64_t then_ms, enum identity_mode last)
{
    static const enum identity_mode modes[] = {IDENTITY_OFF, IDENTITY_OBSERVE, IDENTITY_PUBLISH, IDENTITY_AUTO};
    struct story s;

    begin(&s, 24, IDENTITY_AUTO);
    (void)snprintf(s.moment, sizeof(s.moment), "reloaded after %llu ms and after %llu, in the end %d",
                   (unsigned long long)after_ms, (unsigned long long)then_ms, (int)last);
    kube_sim(s.w.local)->delay_ms = 15;
    cluster_kit_start(&s.w);
    sim_run_ms(s.w.loop, after_ms);
    reload(&s, after_ms % 5 != 0, modes[after_ms % 4]);
    sim_run_ms(s.w.loop, then_ms);
    reload(&s, true, last);
    sim_run_ms(s.w.loop, 3000);
    ok(by_us(&s) == (last == IDENTITY_PUBLISH || last == IDENTITY_AUTO), "as it was said last: %s", s.moment);
    sim_run_ms(s.w.loop, 30000);
    ok(by_us(&s) == (last == IDENTITY_PUBLISH || last == IDENTITY_AUTO), "for good: %s", s.moment);
    state_is(&s, last == IDENTITY_OFF ? "stopped" : last == IDENTITY_OBSERVE ? "observing" : "publishing");
    is_double(yielded(&s), 0, "nobody is a stranger: %s", s.moment);
    end(&s);
}

static void reloads(void)
{
    static const enum identity_mode modes[] = {IDENTITY_PUBLISH, IDENTITY_AUTO, IDENTITY_OBSERVE, IDENTITY_OFF};

    for (uint64_t after = 0; after < 120; after++)
        for (uint64_t then = 0; then < 4; then++)
            reloaded(after, then * (after % 7 + 1) * 5, modes[(after + then) % 4]);
}

int main(void)
{
    for (uint64_t after = 0; after < 400; after += 13)
        stopped_at_once(after);
    stops();
    stop_after_upgrade();
    asks_no_more();
    freed_at_once();
    for (uint64_t after = 0; after < 60; after += 7)
        stop_after_reload(after);
    reloads();
    restarts();
    all_twins();
    another_server();
    restarts_and_upgrades();
    upgrades_at_start();
    downgrades();
    return tap_end();
}
