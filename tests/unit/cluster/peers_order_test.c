/* SPDX-License-Identifier: Apache-2.0 */
/* A peer is replaced by another process: whatever is under way at that moment, nothing that exists is denied. */
#include <stdio.h>

#include "base/clock.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define BATCH_V2 KIT_BATCH ";batch/v2:jobs"

enum { RENEW_MS = 10000, SOON_MS = 100, RHYTHM_MIN_MS = 9500, RHYTHM_MAX_MS = 11000 };

struct story {
    struct cluster_kit w;
    struct kube_server *b;
    char moment[100]; /* which of the sweep */
    unsigned denied;  /* milliseconds in which it would have been 404 */
};

/* As route() has it: who is not served by anybody is denied only if everybody has told. */
static bool is_denied(struct story *s, const char *version)
{
    const struct served *served = cluster_served(s->w.cluster);

    return !cluster_kit_local_serves(&s->w, "batch", version, "jobs") &&
           !cluster_kit_peer_serves(&s->w, s->b, "batch", version, "jobs") && !served_unknown_peer(served) &&
           !served_undiscovered(served, SLICE_LIT("batch"), slice_str(version));
}

static void pass(struct story *s, uint64_t ms, const char *version)
{
    for (uint64_t i = 0; i < ms; i += i < SOON_MS ? 1 : 10) {
        sim_run_ms(s->w.loop, i < SOON_MS ? 1 : 10);
        s->denied += is_denied(s, version);
    }
}

static void begin(struct story *s, uint64_t delay_ms)
{
    memset(s, 0, sizeof(*s));
    cluster_kit_init(&s->w, KIT_BASE);
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_sim(s->b)->delay_ms = delay_ms;
    cluster_kit_start(&s->w);
    ok(cluster_kit_ready(&s->w, 3000), "ready");
}

enum old_lease { DELETED, ANOTHER_HOLDER, SAME_HOLDER };

static void comes_back(struct story *s, enum old_lease old)
{
    if (old == SAME_HOLDER)
        kube_start_again(s->b, 0);
    else
        kube_start(s->b, 0);
}

/* A look is under way when it goes, so many milliseconds old; maybe nobody can see the Leases meanwhile. */
static void upgrade(enum old_lease old, uint64_t look_ms, uint64_t delay_ms, bool unseen)
{
    struct story s;

    begin(&s, delay_ms);
    (void)snprintf(s.moment, sizeof(s.moment), "%s, a look %llu of %llu ms old%s",
                   old == DELETED          ? "Lease deleted"
                   : old == ANOTHER_HOLDER ? "another holder"
                                           : "the same holder",
                   (unsigned long long)look_ms, (unsigned long long)delay_ms, unseen ? ", unseen" : "");
    pass(&s, 12000, "v1");
    cluster_refresh(s.w.cluster);
    pass(&s, look_ms, "v1");
    kube_stop(s.b, old == DELETED);
    if (unseen) {
        kube_forbid_watches(s.w.local, 503);
        kube_inject(s.w.store, KUBE_LEASE, "trouble\n");
        kube_compact(s.w.store);
    }
    pass(&s, 2500, "v1");
    kube_set_apis(s.b, BATCH_V2);
    comes_back(&s, old);
    kube_forbid_watches(s.w.local, 0);
    pass(&s, unseen ? 8000 : SOON_MS + 2 * delay_ms, "v1");
    pass(&s, 20000, "v2");
    is_u64(s.denied, 0, "nothing is denied: %s", s.moment);
    is_str(cluster_kit_freshness(&s.w, "batch"), "Current", "and all is known: %s", s.moment);
    cluster_kit_end(&s.w);
}

static void upgrades(void)
{
    for (uint64_t look = 0; look < 60; look += 3)
        for (unsigned i = 0; i < 6; i++)
            upgrade((enum old_lease)(i % 3), look, look % 2 == 0 ? 40 : 2, i >= 3);
}

/* Until 1.34 a process that follows another keeps its holder: it is known by renewing out of turn. */
static void is_noticed(uint64_t lives_ms, uint64_t away_ms, bool core)
{
    struct story s;
    uint64_t since = lives_ms % RENEW_MS + away_ms;

    if (since >= RHYTHM_MIN_MS && since <= RHYTHM_MAX_MS)
        return;
    begin(&s, 2);
    (void)snprintf(s.moment, sizeof(s.moment), "after %llu ms, for %llu ms", (unsigned long long)lives_ms,
                   (unsigned long long)away_ms);
    kube_set_hop(s.b, kube_id(s.b)); /* whose connections stay when the server behind it goes */
    sim_run_ms(s.w.loop, lives_ms);
    kube_pause_renewal(s.b, true);
    sim_run_ms(s.w.loop, away_ms);
    kube_pause_renewal(s.b, false);
    if (core)
        kube_set_core(s.b, "v1:pods+resize,services,configmaps");
    else
        kube_set_apis(s.b, BATCH_V2);
    kube_start_again(s.b, 0);
    sim_run_ms(s.w.loop, SOON_MS);
    if (core)
        ok(served_by_peer(cluster_served(s.w.cluster), 0,
                          &(struct gvr){SLICE_LIT(""), SLICE_LIT("v1"), SLICE_LIT("pods")}, SLICE_LIT("resize"),
                          SLICE_NONE) == DISCO_SERVED,
           "what is new in the core group is known: %s", s.moment);
    else
        ok(!is_denied(&s, "v2"), "what is new is known: %s", s.moment);
    cluster_kit_end(&s.w);
}

static void are_noticed(void)
{
    for (uint64_t lives = 11000; lives < 70000; lives += 1700) {
        is_noticed(lives, 2500, false);
        is_noticed(lives, 6000, true);
        is_noticed(lives, 13000, lives % 200 == 0);
    }
}

/* Who renews in time is not looked at for it, nor who always renews more often. */
static void regular(void)
{
    struct story s;
    uint64_t asked;
    char holder[100];
    struct kube_lease often = {.hostname = "cp-b", .holder = holder, .address = "10.0.0.2:6443", .duration_s = 3600};

    begin(&s, 2);
    sim_run_ms(s.w.loop, 1000);
    asked = kube_discovery_requests(s.b);
    sim_run_ms(s.w.loop, 300000);
    ok(kube_discovery_requests(s.b) - asked <= 24, "asked by interval only, twelve times at most");
    is_double(cluster_kit_metric(&s.w, "mvproxy_discovery_refreshes_total", "peer", "lease", "unchanged", NULL), 0,
              "never for its Lease");
    (void)snprintf(holder, sizeof(holder), "%s_process-1", kube_id(s.b));
    often.name = kube_id(s.b);
    kube_pause_renewal(s.b, true);
    for (int i = 0; i < 100; i++) {
        often.renew_us = clock_wall_us();
        kube_put_lease(s.w.store, &often);
        sim_run_ms(s.w.loop, 500);
    }
    is_double(cluster_kit_metric(&s.w, "mvproxy_discovery_refreshes_total", "peer", "lease", "unchanged", NULL), 1,
              "once for another rhythm than before");
    cluster_kit_end(&s.w);
}

/*
 * It is taken back to 1.26, where its Lease has another name and is followed by another watch: that one may be seen
 * before it is seen that the later version's was deleted. `collected`: so is the former, before.
 */
static void taken_back(bool collected)
{
    struct story s;
    char older[SERVER_ID_BYTES_126];
    const struct served_peer *b;

    begin(&s, 2);
    ok(server_id_126_from_hostname(SLICE_LIT("cp-b"), older), "the name in 1.26");
    sim_run_ms(s.w.loop, 3000);
    kube_set_minor(s.b, 26);
    kube_set_apis(s.b, BATCH_V2);
    kube_start(s.b, 0);
    sim_run_ms(s.w.loop, 500);
    if (collected)
        kube_delete(s.w.store, KUBE_LEASE, older);
    sim_run_ms(s.w.loop, 100);
    kube_delete(s.w.store, KUBE_LEASE, kube_id(s.b));
    sim_run_ms(s.w.loop, 500);
    b = cluster_kit_peer_of(&s.w, s.b);
    ok(b != NULL && b->life == (collected ? SERVED_LAPSED : SERVED_LIVE), "its later Lease goes: %s",
       collected ? "it has no other one" : "it is live by the other one");
    sim_run_ms(s.w.loop, 500);
    ok(collected || cluster_kit_peer_serves(&s.w, s.b, "batch", "v2", "jobs"), "and was read since");
    is_str(cluster_kit_freshness(&s.w, "batch"), "Current", "it answers, so its group is no less than before");
    cluster_kit_end(&s.w);
}

/*
 * It crashes and comes back as 1.26, and then its new Lease is not renewed either: for as long as that one has been
 * silent it is live.
 */
static void taken_back_and_silent(void)
{
    struct story s;
    const struct served_peer *b;

    begin(&s, 2);
    sim_run_ms(s.w.loop, 3000);
    kube_stop(s.b, false);
    sim_run_ms(s.w.loop, 8000);
    kube_set_minor(s.b, 26);
    kube_set_apis(s.b, BATCH_V2);
    kube_start(s.b, 0);
    sim_run_ms(s.w.loop, 11000);
    kube_pause_renewal(s.b, true);
    sim_run_ms(s.w.loop, 33000);
    b = cluster_kit_peer_of(&s.w, s.b);
    ok(b != NULL && b->life == SERVED_LIVE,
       "the Lease of the version before is silent for 55 s, its own for less: live");
    is_str(cluster_kit_freshness(&s.w, "batch"), "Current", "as its group shows");
    sim_run_ms(s.w.loop, 25000);
    b = cluster_kit_peer_of(&s.w, s.b);
    ok(b != NULL && b->life == SERVED_LAPSED, "both are: lapsed");
    cluster_kit_end(&s.w);
}

/* For so long, millisecond by millisecond: whether what it serves is known, and where it is. */
static void watch_b(struct story *s, uint64_t ms, uint64_t *unknown, uint64_t *lost)
{
    *unknown = *lost = 0;
    for (uint64_t i = 0; i < ms; i++) {
        const struct served_peer *b = cluster_kit_peer_of(&s->w, s->b);

        *unknown += b == NULL || !b->discovery_known;
        *lost += b == NULL || b->origin == NULL;
        sim_run_ms(s->w.loop, 1);
    }
}

/* kube-apiserver says where it is in a Lease that it makes only from 1.36 on; before, its mvproxy does, in a moment. */
static void made_anew(bool another)
{
    struct story s;
    uint64_t unknown, lost;
    const struct served_peer *b;

    begin(&s, 2);
    kube_set_unadvertised(s.b);
    sim_run_ms(s.w.loop, 3000);
    if (another)
        kube_stop(s.b, true);
    else
        kube_delete(s.w.store, KUBE_LEASE, kube_id(s.b));
    watch_b(&s, 3000, &unknown, &lost);
    is_u64(lost + (another ? 0 : unknown), 0, "its Lease is gone: it is where it was");
    if (another)
        kube_start(s.b, 0);
    else
        kube_start_again(s.b, 0);
    ok(!kube_lease_has_address(s.w.store, kube_id(s.b)), "it makes another Lease, without an address");
    watch_b(&s, 9000, &unknown, &lost);
    is_u64(lost, 0, "and still is where it was");
    ok(unknown <= (another ? 10 : 0), "%s: unknown for %llu ms", another ? "another process, read at once" : "the same",
       (unsigned long long)unknown);
    b = cluster_kit_peer_of(&s.w, s.b);
    ok(b != NULL && b->life == SERVED_LIVE, "live");
    sim_run_ms(s.w.loop, 2000);
    b = cluster_kit_peer_of(&s.w, s.b);
    ok(b != NULL && b->origin == NULL, "renewed, and nobody has said where it is: nowhere");
    cluster_kit_end(&s.w);
}

enum absence { NEVER_AWAY, BACK_FOR_LONG, JUST_BACK };

/* It answers before it makes its Lease, and was read then; or it was never away, whatever the Lease's holder says. */
static void read_before_its_lease(enum absence absence, bool is_static)
{
    static const struct cluster_static_peer fixed = {.name = "cp-b", .host = "10.0.0.2", .port = 6443};
    struct story s;
    uint64_t unknown, lost;

    memset(&s, 0, sizeof(s));
    cluster_kit_init(&s.w, KIT_BASE);
    s.w.opts.pulse = true;
    s.w.opts.static_peers = &fixed;
    s.w.opts.n_static_peers = is_static;
    s.b = cluster_kit_peer(&s.w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    kube_sim(s.b)->delay_ms = 20;
    cluster_kit_start(&s.w);
    ok(cluster_kit_ready(&s.w, 3000), "ready");
    sim_run_ms(s.w.loop, 3000);
    if (absence == NEVER_AWAY)
        kube_delete(s.w.store, KUBE_LEASE, kube_id(s.b));
    else
        kube_stop(s.b, true);
    sim_run_ms(s.w.loop, 4000);
    if (absence == BACK_FOR_LONG) {
        kube_sim(s.b)->fault = SIM_FINE;
        sim_run_ms(s.w.loop, 3000);
    }
    kube_start(s.b, 0);
    watch_b(&s, 2000, &unknown, &lost);
    ok(absence == JUST_BACK ? unknown > 0 : unknown == 0, "%s%s: unknown for %llu ms", is_static ? "static, " : "",
       absence == NEVER_AWAY  ? "never away"
       : absence == JUST_BACK ? "just back"
                              : "back for long",
       (unsigned long long)unknown);
    cluster_kit_end(&s.w);
}

/* What its 1.26 left behind, by a clock that was ahead then, does not speak for it. */
static void left_behind(void)
{
    struct story s;
    const struct served_peer *b;

    begin(&s, 2);
    kube_stop(s.b, true);
    kube_set_minor(s.b, 26);
    kube_start(s.b, 600000000);
    sim_run_ms(s.w.loop, 15000);
    kube_set_minor(s.b, 35);
    kube_start(s.b, 0);
    sim_run_ms(s.w.loop, 60000);
    b = cluster_kit_peer_of(&s.w, s.b);
    ok(b != NULL && b->life == SERVED_LIVE, "upgraded: live");
    kube_stop(s.b, true);
    sim_run_ms(s.w.loop, 500);
    b = cluster_kit_peer_of(&s.w, s.b);
    ok(b != NULL && b->life == SERVED_LAPSED, "it stops, and its Lease goes: lapsed");
    cluster_kit_end(&s.w);
}

int main(void)
{
    upgrades();
    are_noticed();
    regular();
    taken_back(false);
    taken_back(true);
    taken_back_and_silent();
    left_behind();
    made_anew(false);
    made_anew(true);
    for (int fixed = 0; fixed <= 1; fixed++) {
        read_before_its_lease(NEVER_AWAY, fixed == 1);
        read_before_its_lease(BACK_FOR_LONG, fixed == 1);
        read_before_its_lease(JUST_BACK, fixed == 1);
    }
    return tap_end();
}
