/* SPDX-License-Identifier: Apache-2.0 */
/* The peer table at its edges: Leases half seen, collected, without an end; a table full of the dead. */
#include <stdio.h>

#include "base/clock.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { FULL = 1000, LIVING = 20 };

#define SECOND_US INT64_C(1000000)

static const char *life_of(struct cluster_kit *w, const struct kube_server *k)
{
    static const char *const names[] = {"live", "lapsed"};
    const struct served_peer *p = cluster_kit_peer_of(w, k);

    return p == NULL ? "none" : names[p->life];
}

/* The local server answers one list on its way down, while watches fail already. */
static void half_seen(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_forbid_watches(w.local, 503);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 20000);
    ok(kube_lists(w.store, KUBE_LEASE) > 1, "Leases are listed, and cannot be watched");
    kube_sim(w.local)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, 10 * 60000);
    is_str(life_of(&w, b), "live", "nobody lapses after that, for nobody can be seen");
    kube_forbid_watches(w.local, 0);
    kube_sim(w.local)->fault = SIM_FINE;
    sim_run_ms(w.loop, 15000);
    kube_stop(b, false);
    sim_run_ms(w.loop, 45000);
    is_str(life_of(&w, b), "lapsed", "until Leases can be seen again");
    cluster_kit_end(&w);
}

/* The Lease of a static peer runs out and is collected; then a server comes in its place that keeps none. */
static void collected(void)
{
    struct cluster_kit w;
    struct cluster_static_peer fixed = {.name = "cp-b", .host = "10.0.0.2", .port = 6443};
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    w.opts.static_peers = &fixed;
    w.opts.n_static_peers = 1;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_stop(b, false);
    sim_run_ms(w.loop, 10 * 60000);
    is_str(life_of(&w, b), "none", "a static peer whose Lease nobody renews is forgotten");
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    sim_run_ms(w.loop, 10000);
    is_str(life_of(&w, b), "none", "its Lease is collected: still nobody answers");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 15000);
    is_str(life_of(&w, b), "live", "who answers at its address needs no Lease");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and is asked");
    cluster_kit_end(&w);
}

static void put_dead(struct cluster_kit *w, int i)
{
    char name[64], holder[80];
    const struct kube_lease l = {.name = name,
                                 .hostname = "dead",
                                 .holder = holder,
                                 .address = "10.9.9.9:6443",
                                 .renew_us = clock_wall_us() - 4000 * SECOND_US,
                                 .duration_s = 3600};

    (void)snprintf(name, sizeof(name), "apiserver-%026d", i);
    for (char *c = name; *c != '\0'; c++) /* base32 has neither 0, 1, 8 nor 9 */
        if (*c >= '0' && *c <= '9')
            *c = (char)('a' + (*c - '0'));
    (void)snprintf(holder, sizeof(holder), "%s_x", name);
    kube_put_lease(w->store, &l);
}

static struct kube_server *living(struct cluster_kit *w, int i)
{
    char hostname[32], address[32];

    (void)snprintf(hostname, sizeof(hostname), "node-%d", i);
    (void)snprintf(address, sizeof(address), "10.1.0.%d:6443", i + 1);
    return cluster_kit_peer(w, hostname, address, KIT_BATCH);
}

/* Nobody has collected the Leases of dead servers for long: there is room for the living, whoever was seen first. */
static void full_of_the_dead(void)
{
    struct cluster_kit w;
    struct kube_server *late;

    cluster_kit_init(&w, KIT_BASE);
    for (int i = 0; i < FULL + 50; i++)
        put_dead(&w, i);
    for (int i = 0; i < LIVING; i++)
        (void)living(&w, i);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 5000), "ready");
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "live", NULL), LIVING, "all who live are peers");
    late = living(&w, LIVING);
    sim_run_ms(w.loop, 1000);
    is_str(life_of(&w, late), "live", "and a newcomer becomes one");
    kube_compact(w.store);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 15000);
    is_double(cluster_kit_metric(&w, "mvproxy_peers", "live", NULL), LIVING + 1,
              "another list of all the dead takes no place away");
    cluster_kit_end(&w);
}

/*
 * Somebody takes the duration out: kube-apiserver goes on renewing the Lease without one. Who sees it for the first
 * time takes it for expired, as kube-apiserver does.
 */
static void without_duration(bool seen_before)
{
    struct cluster_kit w;
    struct kube_server *b;
    struct kube_lease l = {.hostname = "cp-b", .address = "10.0.0.2:6443"};
    char holder[80];
    unsigned dead = 0;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_pause_renewal(b, true);
    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(b));
    l.name = kube_id(b);
    l.holder = holder;
    l.renew_us = clock_wall_us();
    if (!seen_before)
        kube_put_lease(w.store, &l);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    ok(seen_before || cluster_kit_peer_of(&w, b) == NULL, "one without duration is expired at first sight");
    sim_run_ms(w.loop, 5000);
    for (int i = 0; i < 10; i++) {
        l.renew_us = clock_wall_us();
        kube_put_lease(w.store, &l);
        for (int n = 0; n < 100; n++) {
            sim_run_ms(w.loop, 100);
            dead += strcmp(life_of(&w, b), "live") != 0;
        }
    }
    is_u64(dead, 0, "each renewal is a sign of life");
    sim_run_ms(w.loop, 35000);
    is_str(life_of(&w, b), "lapsed", "and its silence is silence");
    cluster_kit_end(&w);
}

/* Its later Lease is silent, and the one of 1.26 counts before that matters, whenever in turn all others renew theirs.
 */
static void never_lapses_on_the_way_back(uint64_t at_ms, int64_t clock_us)
{
    struct cluster_kit w;
    struct kube_server *b;
    bool lapsed = false;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 60000 + at_ms);
    kube_set_minor(b, 26);
    kube_start(b, clock_us);
    for (unsigned i = 0; i < 300; i++) {
        sim_run_ms(w.loop, 200);
        lapsed = lapsed || cluster_kit_peer_of(&w, b)->life != SERVED_LIVE;
    }
    ok(!lapsed, "taken back to 1.26 after %llu s: live all the time", (unsigned long long)at_ms / 1000);
    lapsed = false;
    kube_set_minor(b, 34);
    kube_start(b, 2 * clock_us);
    for (unsigned i = 0; i < 300; i++) {
        sim_run_ms(w.loop, 200);
        lapsed = lapsed || cluster_kit_peer_of(&w, b)->life != SERVED_LIVE;
    }
    ok(!lapsed, "and upgraded again");
    cluster_kit_end(&w);
}

enum { HOLDER_BYTES = 80 };

/* How the Lease of cp-b is called in 1.26, and who holds it. */
static void name_in_126(char older[SERVER_ID_BYTES_126], char holder[HOLDER_BYTES])
{
    ok(server_id_126_from_hostname(SLICE_LIT("cp-b"), older), "the name in 1.26");
    (void)snprintf(holder, HOLDER_BYTES, "%s_process-2", older);
}

/* Its later Lease says no address, and counts until it has been silent for longer than a client waits. */
static void found_on_the_way_back(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    char older[SERVER_ID_BYTES_126], holder[HOLDER_BYTES];
    struct kube_lease l = {.name = older, .hostname = "cp-b", .holder = holder, .duration_s = 3600, .label_126 = true};
    unsigned lost = 0;

    name_in_126(older, holder);
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_set_unadvertised(b);
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    kube_start(b, 0);
    l.address = "10.0.0.2:6443";
    l.renew_us = clock_wall_us() - 1000000;
    kube_put_lease(w.store, &l);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 90000), "ready");
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "what an upgrade has left behind says where it was");
    kube_pause_renewal(b, true);
    l.renew_us = clock_wall_us();
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "one of 1.26 that is renewed says where it is");
    for (unsigned i = 0; i < 8; i++) { /* the Leases of 1.26 are listed before the others, or after them */
        kube_compact(w.store);
        sim_server_break(kube_sim(w.local));
        sim_run_ms(w.loop, 1000);
        lost += cluster_kit_peer_of(&w, b)->origin == NULL;
        for (unsigned ms = 0; ms < 1000; ms++) {
            sim_run_ms(w.loop, 1);
            lost += cluster_kit_peer_of(&w, b)->origin == NULL;
        }
    }
    is_u64(lost, 0, "also when all Leases are listed again");
    cluster_kit_end(&w);
}

/* 1.26 was there before, by a clock that was ahead: the Lease that the mvproxy before 1.24 writes seems older. */
static void found_behind_a_clock_that_was_ahead(bool listed)
{
    struct cluster_kit w;
    struct kube_server *b;
    char older[SERVER_ID_BYTES_126], holder[HOLDER_BYTES], own[80];
    struct kube_lease before = {
        .name = older, .hostname = "cp-b", .holder = holder, .duration_s = 3600, .label_126 = true};
    struct kube_lease l = {.hostname = "cp-b", .holder = own, .address = "10.0.0.2:6443", .duration_s = 3600};

    name_in_126(older, holder);
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    (void)snprintf(own, sizeof(own), "%s_mvproxy", kube_id(b));
    kube_pause_renewal(b, true);
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    before.renew_us = clock_wall_us() + 15 * SECOND_US;
    kube_put_lease(w.store, &before);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 90000), "ready");
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "1.26 has not said where it is");
    l.name = kube_id(b);
    l.renew_us = clock_wall_us();
    if (listed)
        sim_server_break(kube_sim(w.local));
    kube_put_lease(w.store, &l);
    if (listed)
        kube_compact(w.store);
    sim_run_ms(w.loop, 2000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "one that was created since says where it is, %s",
       listed ? "when it is listed" : "when it is watched");
    cluster_kit_end(&w);
}

/* As its mvproxy does, with a patch. */
static void say_tag(struct cluster_kit *w, const struct kube_server *k, const char *tag)
{
    struct arena *a = kube_arena();
    struct lease was;
    char holder[100], address[64];
    struct kube_lease l = {.name = kube_id(k), .hostname = "cp-b", .holder = holder, .duration_s = 3600, .tag = tag};

    ok(kube_get_lease(w->store, kube_id(k), a, &was), "its Lease");
    (void)snprintf(holder, sizeof(holder), "%.*s", (int)was.holder.n, was.holder.p);
    (void)snprintf(address, sizeof(address), "%.*s", (int)was.advertise.n, was.advertise.p);
    l.address = address;
    l.renew_us = was.renew_us;
    kube_put_lease(w->store, &l);
    arena_free(a);
}

/* We have come after 1.26 was there without its mvproxy. Now it is upgraded, by a clock that is behind. */
static void found_after_an_upgrade(bool renews)
{
    struct cluster_kit w;
    struct kube_server *b;
    char older[SERVER_ID_BYTES_126], holder[HOLDER_BYTES];
    struct kube_lease l = {.name = older, .hostname = "cp-b", .holder = holder, .duration_s = 3600, .label_126 = true};

    name_in_126(older, holder);
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_pause_renewal(b, true);
    l.renew_us = clock_wall_us() + 60 * SECOND_US;
    kube_put_lease(w.store, &l);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 90000), "ready");
    ok(!cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "where it was before 1.26 is not where it is");
    if (renews) {
        kube_pause_renewal(b, false);
        kube_start_again(b, 0);
    } else {
        say_tag(&w, b, "another");
    }
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "its first renewal says where it is, or its mvproxy (%d)",
       renews);
    cluster_kit_end(&w);
}

/* Its later Lease says no address, and counts, by a clock that was ahead. Its mvproxy comes when that of 1.26 is there,
 * and writes its address into it before its next renewal. */
static void found_before_a_renewal(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    char older[SERVER_ID_BYTES_126], holder[HOLDER_BYTES];
    struct kube_lease l = {.name = older, .hostname = "cp-b", .holder = holder, .duration_s = 3600, .label_126 = true};

    name_in_126(older, holder);
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_set_unadvertised(b);
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    kube_start(b, 0);
    kube_pause_renewal(b, true);
    l.address = "10.0.0.9:6443";
    l.renew_us = clock_wall_us() - 15 * SECOND_US;
    kube_put_lease(w.store, &l);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 90000), "ready");
    ok(cluster_kit_peer_of(&w, b)->origin == NULL, "where it was in 1.26 is not where it is");
    kube_compact(w.store);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 2000);
    ok(cluster_kit_peer_of(&w, b)->origin == NULL, "however often that Lease is listed");
    l.address = "10.0.0.2:6443";
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "another address in it is news");
    cluster_kit_end(&w);
}

/* Of a server that was taken back to 1.26: how long what it serves is not known, from 15 to 40 s after that. */
static unsigned unknown_on_the_way_back(bool silent)
{
    struct cluster_kit w;
    struct kube_server *b;
    unsigned unknown = 0;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 60000);
    kube_set_minor(b, 26);
    kube_start(b, 0);
    kube_sim(b)->delay_ms = 20;
    if (silent)
        kube_forbid(b, "/api", 0);
    sim_run_ms(w.loop, 15000);
    for (unsigned ms = 0; ms < 25000; ms++) {
        sim_run_ms(w.loop, 1);
        unknown += !cluster_kit_peer_of(&w, b)->discovery_known;
    }
    cluster_kit_end(&w);
    return unknown;
}

static void read_before_it_counts(void)
{
    is_u64(unknown_on_the_way_back(false), 0, "who was read is known when the Lease of 1.26 begins to count");
    ok(unknown_on_the_way_back(true) > 0, "and who was not is another process then");
}

/* The one of 1.26 says the address. Then an event of the other one comes late, with a renewal of before. */
static void found_though_news_are_late(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    char older[SERVER_ID_BYTES_126], holder[HOLDER_BYTES], own[HOLDER_BYTES];
    struct kube_lease l = {.name = older, .hostname = "cp-b", .holder = holder, .duration_s = 3600, .label_126 = true};
    struct kube_lease later = {.hostname = "cp-b", .holder = own, .duration_s = 3600};

    name_in_126(older, holder);
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_pause_renewal(b, true);
    (void)snprintf(own, sizeof(own), "%s_process-1", kube_id(b));
    later.name = kube_id(b);
    later.renew_us = clock_wall_us() - 10 * SECOND_US;
    kube_put_lease(w.store, &later);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 90000), "ready");
    l.address = "10.0.0.2:6443";
    l.renew_us = clock_wall_us();
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "one of 1.26 says where it is");
    later.renew_us = l.renew_us - 2 * SECOND_US;
    kube_put_lease(w.store, &later);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_of(&w, b)->origin != NULL, "also when the other one was renewed before that");
    later.renew_us = l.renew_us + SECOND_US;
    kube_put_lease(w.store, &later);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_of(&w, b)->origin == NULL, "but not when it is renewed after that");
    cluster_kit_end(&w);
}

/* We come when both Leases are there, and ask before either is renewed. Then the one of 1.26 is, by `renewing`. */
static unsigned unknown_after_both_were_seen(const char *renewing)
{
    struct cluster_kit w;
    struct kube_server *b;
    char older[SERVER_ID_BYTES_126], holder[HOLDER_BYTES], again[HOLDER_BYTES];
    struct kube_lease l = {.name = older, .hostname = "cp-b", .holder = holder, .duration_s = 3600, .label_126 = true};
    unsigned unknown = 0;

    name_in_126(older, holder);
    (void)snprintf(again, sizeof(again), "%s_%s", older, renewing);
    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_pause_renewal(b, true);
    kube_sim(b)->delay_ms = 500;
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 100);
    l.address = "10.0.0.2:6443";
    l.renew_us = clock_wall_us() + 15 * SECOND_US;
    kube_put_lease(w.store, &l);
    ok(cluster_kit_ready(&w, 90000) && cluster_kit_peer_of(&w, b)->discovery_known, "read when both Leases were seen");
    l.holder = again;
    l.renew_us += 15 * SECOND_US;
    kube_put_lease(w.store, &l);
    for (unsigned ms = 0; ms < 2000; ms++) {
        sim_run_ms(w.loop, 1);
        unknown += !cluster_kit_peer_of(&w, b)->discovery_known;
    }
    cluster_kit_end(&w);
    return unknown;
}

static void read_before_either_is_renewed(void)
{
    is_u64(unknown_after_both_were_seen("process-2"), 0,
           "the first renewal of the process that was read is no restart");
    ok(unknown_after_both_were_seen("process-3") > 0, "that of another one is");
}

/* All are back at 1.26, and what their later versions have left stays there for an hour, unrenewed. */
static void all_the_way_back(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    uint64_t lists;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_set_minor(w.local, 26);
    kube_start(w.local, 0);
    kube_set_minor(b, 26);
    kube_start(b, 0);
    sim_run_ms(w.loop, 60000);
    lists = kube_lists(w.store, KUBE_LEASE);
    sim_run_ms(w.loop, 305000);
    is_u64(kube_lists(w.store, KUBE_LEASE), lists, "that nobody renews these is no silence");
    kube_set_minor(b, 34);
    kube_set_apis(b, KIT_BASE ";batch/v3:jobs");
    kube_start(b, 0);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v3", "jobs"), "who goes on again is seen");
    kube_deafen(w.store);
    sim_run_ms(w.loop, 30000);
    kube_set_apis(b, KIT_BASE ";batch/v2:jobs");
    kube_start(b, 0);
    sim_run_ms(w.loop, 1000);
    ok(cluster_kit_peer_serves(&w, b, "batch", "v2", "jobs"), "and then silence tells again");
    cluster_kit_end(&w);
}

int main(void)
{
    half_seen();
    collected();
    full_of_the_dead();
    without_duration(true);
    without_duration(false);
    for (uint64_t ms = 0; ms < 10000; ms += 1000)
        never_lapses_on_the_way_back(ms, 0);
    never_lapses_on_the_way_back(3000, -1000 * 1000000ll); /* and its clock is set back */
    found_on_the_way_back();
    found_behind_a_clock_that_was_ahead(false);
    found_behind_a_clock_that_was_ahead(true);
    found_before_a_renewal();
    found_after_an_upgrade(true);
    found_after_an_upgrade(false);
    found_though_news_are_late();
    read_before_it_counts();
    read_before_either_is_renewed();
    all_the_way_back();
    return tap_end();
}
