/* The identity Lease, whatever comes first: each moment of what follows a restart, an upgrade, a downgrade. */
#include <stdio.h>

#include "back/back.h"
#include "base/clock.h"
#include "lib/tap.h"
#include "sim/world.h"

#define WATCH_TROUBLE                                                                                                  \
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500,\"message\":"                                    \
    "\"etcdserver: leader changed\"}}\n"
#define ADDRESS "10.0.0.1:16443"

enum { ARENA = 1 << 20, RENEWALS_MS = 10400 };

struct story {
    struct world w;
    struct arena *arena;
    struct lease lease; /* as last looked at */
    const char *id;
    char moment[80]; /* which of the sweep */
};

/* A local server of this version, that does not publish by itself. */
static void begin(struct story *s, unsigned minor, enum identity_mode mode)
{
    memset(s, 0, sizeof *s);
    s->arena = arena_new(ARENA);
    world_init(&s->w, WORLD_BASE);
    kube_stop(s->w.local, true);
    kube_sim(s->w.local)->fault = SIM_FINE;
    kube_set_minor(s->w.local, minor);
    s->id = kube_id(s->w.local);
    s->w.opts.identity = mode;
    s->w.opts.advertise = ADDRESS;
    s->w.opts.annotate = true;
}

static void end(struct story *s)
{
    cluster_free(s->w.cluster);
    s->w.cluster = NULL;
    world_end(&s->w);
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
    return world_metric(&s->w, "mvproxy_identity_lease_publishing", NULL);
}

static double yielded(struct story *s)
{
    return world_metric(&s->w, "mvproxy_identity_lease_renewals_total", "yielded", NULL);
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

    (void)snprintf(holder, sizeof holder, "%s_server", s->id);
    if (!anew && lease_there(s)) {
        (void)snprintf(holder, sizeof holder, "%.*s", (int)s->lease.holder.n, s->lease.holder.p);
        (void)snprintf(address, sizeof address, "%.*s", (int)s->lease.advertise.n, s->lease.advertise.p);
        (void)snprintf(written, sizeof written, "%.*s", (int)s->lease.written.n, s->lease.written.p);
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
    (void)snprintf(s.moment, sizeof s.moment, "%llu ms of life, Lease after %llu, answers after %llu",
                   (unsigned long long)lives_ms, (unsigned long long)lease_ms, (unsigned long long)delay_ms);
    world_start(&s.w);
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
    (void)snprintf(s.moment, sizeof s.moment, "%llu ms after the start, answers after %llu",
                   (unsigned long long)after_ms, (unsigned long long)delay_ms);
    server_renews(&s, true);
    kube_sim(s.w.local)->delay_ms = delay_ms;
    world_start(&s.w);
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
    (void)snprintf(s.moment, sizeof s.moment, "%llu ms after the start and %llu ms away", (unsigned long long)after_ms,
                   (unsigned long long)away_ms);
    world_start(&s.w);
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

/* A reload puts another server behind us, which publishes nothing. */
static void another_server(void)
{
    struct story s;
    struct origin_opts o = {.name = "local", .host = "10.0.0.9", .port = 6443};
    struct origin *origin;
    struct kube_server *k;

    begin(&s, 28, IDENTITY_AUTO);
    k = kube_server_new(s.w.store, s.w.back, "cp-a", "10.0.0.9:6443", WORLD_BASE);
    kube_set_minor(k, 24);
    world_start(&s.w);
    sim_run_ms(s.w.loop, 60000);
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

int main(void)
{
    another_server();
    restarts_and_upgrades();
    upgrades_at_start();
    downgrades();
    return tap_end();
}
