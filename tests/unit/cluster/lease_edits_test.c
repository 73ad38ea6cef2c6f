/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a healthy server whose identity Lease somebody deletes, edits, or puts back out of a backup:
 * kube-apiserver renews it with whatever it finds.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

/* ---- a peer's ---- */

static const char *life_of(struct cluster_kit *w, const struct kube_server *k)
{
    const struct served_peer *p = cluster_kit_peer_of(w, k);

    return p == NULL ? "none" : p->life == SERVED_LIVE ? "live" : "lapsed";
}

static const char *address_of(struct cluster_kit *w, const struct kube_server *k)
{
    const struct served_peer *p = cluster_kit_peer_of(w, k);

    return p == NULL || p->origin == NULL ? NULL : origin_address(p->origin);
}

static struct kube_server *start_pair(struct cluster_kit *w)
{
    struct kube_server *b;

    cluster_kit_init(w, KIT_BASE);
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready");
    return b;
}

static unsigned stale_for(struct cluster_kit *w, unsigned ms)
{
    unsigned stale = 0;

    for (unsigned i = 0; i < ms; i += 5) {
        sim_run_ms(w->loop, 5);
        stale += strcmp(cluster_kit_freshness(w, "batch"), "Current") != 0;
    }
    return stale;
}

/* Somebody deletes the Lease, and its server goes on: clients take nothing from what is stale. */
static void only_deleted(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);

    for (unsigned i = 0; i < 20; i++) {
        sim_run_ms(w.loop, random_below(12000));
        kube_delete(w.store, KUBE_LEASE, kube_id(b));
        is_u64(stale_for(&w, 12000), 0, "deleted at any time, and made again: never stale");
    }
    kube_pause_renewal(b, true);
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    is_u64(stale_for(&w, 24000), 0, "nor while it is late");
    sim_run_ms(w.loop, 2000);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "but if it never comes");
    kube_pause_renewal(b, false);
    sim_run_ms(w.loop, 11000);
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "until it does");
    kube_pause_renewal(b, true);
    sim_run_ms(w.loop, 50000);
    is_str(life_of(&w, b), "lapsed", "one that does not renew");
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    sim_run_ms(w.loop, 100);
    is_str(cluster_kit_freshness(&w, "batch"), "Stale", "is none the fresher when its Lease is collected");
    cluster_kit_end(&w);
}

/* kube-apiserver renews its Lease with whatever holder it finds. */
static void another_holder(const char *holder)
{
    char old[100];
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    struct kube_lease l = {
        .name = kube_id(b), .hostname = "cp-b", .holder = holder, .address = "10.0.0.2:6443", .duration_s = 3600};

    kube_pause_renewal(b, true);
    for (int i = 0; i < 40; i++) {
        l.renew_us = clock_wall_us();
        kube_put_lease(w.store, &l);
        sim_run_ms(w.loop, 10000);
    }
    is_str(life_of(&w, b), "live", "a peer whose Lease somebody gave another holder, or none, is renewed by it");
    ok(cluster_kit_peer_serves(&w, b, "batch", "v1", "jobs"), "and asked");
    is_str(cluster_kit_freshness(&w, "batch"), "Current", "and believed");
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    sim_run_ms(w.loop, 100);
    is_str(life_of(&w, b), "lapsed", "and known to have gone");
    l.address = NULL;
    l.holder = old;
    (void)snprintf(old, sizeof(old), "%s_process-1", kube_id(b));
    for (int i = 0; i < 2; i++) {
        l.renew_us = clock_wall_us();
        kube_put_lease(w.store, &l);
        sim_run_ms(w.loop, 15);
        is_str(address_of(&w, b), "10.0.0.2:6443", "it is where it was when that is made again");
    }
    cluster_kit_end(&w);
}

/* Somebody takes the address out of a peer's Lease; its mvproxy writes it again in two seconds. */
static void address_taken_out(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    struct kube_lease l = {.name = kube_id(b), .hostname = "cp-b", .duration_s = 3600};
    char holder[100];

    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(b));
    kube_pause_renewal(b, true);
    l.holder = holder;
    l.renew_us = clock_wall_us();
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 1000);
    is_str(address_of(&w, b), "10.0.0.2:6443", "where it was");
    l.renew_us = clock_wall_us();
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 3000);
    is_str(address_of(&w, b), "10.0.0.2:6443", "also when it is renewed before its mvproxy could write");
    l.address = l.written = "10.0.0.2:6443";
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 7000);
    for (int i = 0; i < 3; i++) {
        is_str(address_of(&w, b), i < 2 ? "10.0.0.2:6443" : NULL, "after %d renewals without an address", i);
        l.address = NULL;
        l.renew_us = clock_wall_us();
        kube_put_lease(w.store, &l);
        sim_run_ms(w.loop, 10000);
    }
    cluster_kit_end(&w);
}

/* Somebody has written another address over what its mvproxy has written, which that puts right. */
static void address_written_over(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    char holder[100];
    struct kube_lease l = {.name = kube_id(b),
                           .hostname = "cp-b",
                           .holder = holder,
                           .address = "10.9.9.9:6443",
                           .written = "10.0.0.2:6443",
                           .duration_s = 3600};

    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(b));
    kube_pause_renewal(b, true);
    for (int i = 0; i < 3; i++) {
        l.renew_us = clock_wall_us();
        kube_put_lease(w.store, &l);
        sim_run_ms(w.loop, 3000);
        is_str(address_of(&w, b), i < 2 ? "10.0.0.2:6443" : "10.9.9.9:6443", "%d s after it was written over", i * 3);
    }
    cluster_kit_end(&w);
}

/* A kube-apiserver that writes its address itself does so with each renewal. */
static void servers_own_written_over(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    char holder[100];
    struct kube_lease l = {.name = kube_id(b), .hostname = "cp-b", .holder = holder, .duration_s = 3600};

    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(b));
    kube_pause_renewal(b, true);
    for (int i = 0; i < 3; i++) {
        l.address = "10.0.0.2:6443";
        l.renew_us = clock_wall_us();
        kube_put_lease(w.store, &l);
        sim_run_ms(w.loop, 5000);
        l.address = "10.9.9.9:6443";
        kube_put_lease(w.store, &l);
        sim_run_ms(w.loop, 5000);
        is_str(address_of(&w, b), "10.0.0.2:6443", "what somebody else has written is not followed");
    }
    l.renew_us = clock_wall_us();
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 100);
    is_str(address_of(&w, b), "10.9.9.9:6443", "unless it stays");
    cluster_kit_end(&w);
}

/* Out of a backup, from before its mvproxy had written into it. */
static void put_back(void)
{
    struct cluster_kit w;
    struct kube_server *b = start_pair(&w);
    struct kube_lease l = {.name = kube_id(b), .hostname = "cp-b", .duration_s = 3600};
    char holder[100];

    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(b));
    kube_pause_renewal(b, true);
    l.holder = holder;
    l.renew_us = clock_wall_us() - 1800 * INT64_C(1000000);
    kube_delete(w.store, KUBE_LEASE, kube_id(b));
    sim_run_ms(w.loop, 10);
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 300);
    l.renew_us = clock_wall_us();
    kube_put_lease(w.store, &l);
    sim_run_ms(w.loop, 1000);
    is_str(address_of(&w, b), "10.0.0.2:6443", "an old Lease put back, and renewed at once: its peer is where it was");
    cluster_kit_end(&w);
}

/* ---- the local server's ---- */

struct own {
    struct cluster_kit w;
    struct kube_lease l; /* as its server, or somebody, writes it */
    char holder[100];
};

static void prepare(struct own *o, unsigned minor)
{
    memset(o, 0, sizeof(*o));
    cluster_kit_init(&o->w, KIT_BASE);
    cluster_kit_without_lease(&o->w, minor);
    o->w.opts.identity = IDENTITY_AUTO;
    o->w.opts.advertise = "10.0.0.1:16443";
    o->w.opts.annotate = true;
    o->l =
        (struct kube_lease){.name = kube_id(o->w.local), .hostname = "cp-a", .holder = o->holder, .duration_s = 3600};
    (void)snprintf(o->holder, sizeof(o->holder), "%s_server", o->l.name);
}

static void write_lease(struct own *o, uint64_t ms)
{
    kube_put_lease(o->w.store, &o->l);
    sim_run_ms(o->w.loop, ms);
}

static void renew(struct own *o, uint64_t ms)
{
    o->l.renew_us = clock_wall_us();
    write_lease(o, ms);
}

/* Whether the Lease says where its mvproxy is. */
static bool says_ours(struct own *o)
{
    struct arena *a = kube_arena();
    struct lease l;
    bool says = kube_get_lease(o->w.store, o->l.name, a, &l) && slice_eq(l.advertise, slice_str("10.0.0.1:16443"));

    arena_free(a);
    return says;
}

/* Its Lease is made anew, and written by somebody else while the address is being written, again and again. */
static void never_tires(void)
{
    struct own o;
    unsigned late = 0;

    prepare(&o, 33);
    kube_sim(o.w.local)->delay_ms = 20;
    renew(&o, 0);
    cluster_kit_start(&o.w);
    sim_run_ms(o.w.loop, 1000);
    for (int i = 0; i < 20; i++) {
        kube_delete(o.w.store, KUBE_LEASE, o.l.name);
        renew(&o, 30);
        renew(&o, 300);
        late += !says_ours(&o);
        sim_run_ms(o.w.loop, 8000);
    }
    is_u64(late, 0, "the address is there in a moment, however often");
    cluster_kit_end(&o.w);
}

static void somebody_writes(unsigned minor)
{
    struct own o;

    prepare(&o, minor);
    renew(&o, 0);
    cluster_kit_start(&o.w);
    sim_run_ms(o.w.loop, 5000);
    o.l.address = o.l.written = "10.0.0.1:16443";
    renew(&o, 10000);
    renew(&o, 10000);
    o.l.address = "10.9.9.9:6443";
    for (int i = 0; i < 4; i++) {
        write_lease(&o, 2500);
        ok(says_ours(&o), "%u: what somebody has written is written over", minor);
    }
    write_lease(&o, 300);
    ok(!says_ours(&o), "not for ever at once");
    sim_run_ms(o.w.loop, 5000);
    ok(says_ours(&o), "but in a while");
    cluster_kit_end(&o.w);
}

/* Ours was written by the mvproxy before this process. */
static void somebody_writes_after_restart(unsigned minor)
{
    struct own o;

    prepare(&o, minor);
    o.l.address = o.l.written = "10.0.0.1:16443";
    renew(&o, 0);
    cluster_kit_start(&o.w);
    for (int i = 0; i < 3; i++)
        renew(&o, 10000);
    o.l.address = "10.9.9.9:6443";
    renew(&o, 2500);
    ok(says_ours(&o), "%u: it is written over by another process than has written ours", minor);
    cluster_kit_end(&o.w);
}

static void restart_as(struct own *o, unsigned minor)
{
    kube_sim(o->w.local)->fault = SIM_REFUSE;
    sim_server_break(kube_sim(o->w.local));
    sim_run_ms(o->w.loop, 3000);
    kube_set_minor(o->w.local, minor);
    kube_sim(o->w.local)->fault = SIM_FINE;
    sim_run_ms(o->w.loop, 3000);
}

/* 1.35, then 1.36, which writes an address itself, and back, in a Lease that stays. */
static void server_changes(enum identity_mode mode)
{
    struct own o;
    uint64_t before;

    prepare(&o, 35);
    o.w.opts.identity = mode;
    renew(&o, 0);
    cluster_kit_start(&o.w);
    sim_run_ms(o.w.loop, 5000);
    o.l.address = o.l.written = "10.0.0.1:16443";
    renew(&o, 10000);
    renew(&o, 10000);
    restart_as(&o, 36);
    before = kube_lease_writes(o.w.store, "PATCH");
    o.l.address = "10.0.0.1:6443";
    for (int i = 0; i < 9; i++)
        renew(&o, 10000);
    is_u64(kube_lease_writes(o.w.store, "PATCH"), before, "what 1.36 writes stands");
    restart_as(&o, 35);
    renew(&o, 5000);
    ok(says_ours(&o), "but not when 1.35 is back, which renews what it finds");
    cluster_kit_end(&o.w);
}

int main(void)
{
    only_deleted();
    another_holder("somebody");
    another_holder(NULL);
    address_taken_out();
    address_written_over();
    servers_own_written_over();
    put_back();
    never_tires();
    somebody_writes(33);
    somebody_writes(37);
    somebody_writes_after_restart(33);
    somebody_writes_after_restart(37);
    server_changes(IDENTITY_AUTO);
    server_changes(IDENTITY_OBSERVE);
    return tap_end();
}
