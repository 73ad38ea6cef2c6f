/* SPDX-License-Identifier: Apache-2.0 */
/* A kube-apiserver that could publish its identity and does not: its feature gate APIServerIdentity is off. */
#include "base/clock.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { NOTICED_MS = 120000, RENEWALS_MS = 11000 };

struct story {
    struct cluster_kit w;
    struct arena *arena;
};

static bool lease_of(struct story *s, struct lease *l)
{
    arena_reset(s->arena);
    return kube_get_lease(s->w.store, kube_id(s->w.local), s->arena, l);
}

static bool is_publishing(struct story *s)
{
    return cluster_kit_metric(&s->w, "mvproxy_identity_lease_publishing", NULL) > 0;
}

static uint64_t writes(const struct story *s)
{
    return kube_lease_writes(s->w.store, "POST") + kube_lease_writes(s->w.store, "PATCH") +
           kube_lease_writes(s->w.store, "DELETE");
}

/* A server of 1.34; `lease`: that of a process before, or of a server whose renewals stop. */
static void begin(struct story *s, enum identity_mode mode, bool lease)
{
    memset(s, 0, sizeof(*s));
    s->arena = arena_new(1 << 20);
    cluster_kit_init(&s->w, KIT_BASE);
    s->w.opts.identity = mode;
    s->w.opts.advertise = "10.0.0.1:16443";
    if (!lease)
        cluster_kit_without_lease(&s->w, 34);
    kube_pause_renewal(s->w.local, true);
    cluster_kit_start(&s->w);
    sim_run_ms(s->w.loop, 5000);
}

static void end(struct story *s)
{
    cluster_kit_end(&s->w);
    arena_free(s->arena);
}

static void taken_over(bool lease)
{
    struct story s;
    struct lease l;
    int64_t renewed;

    begin(&s, IDENTITY_AUTO, lease);
    is_int(lease_of(&s, &l), lease, "the server's own Lease, if there is one");
    ok(!is_publishing(&s), "is left to the server at first");
    sim_run_ms(s.w.loop, NOTICED_MS);
    ok(is_publishing(&s), "nobody renews it: it is published here");
    ok(lease_of(&s, &l) && slice_eq(l.advertise, slice_str(s.w.opts.advertise)), "with the address for peers");
    renewed = l.renew_us;
    sim_run_ms(s.w.loop, RENEWALS_MS);
    ok(lease_of(&s, &l) && l.renew_us > renewed, "and renewed");
    kube_stop(s.w.local, false);
    sim_run_ms(s.w.loop, 3000);
    kube_start(s.w.local, 0);
    sim_run_ms(s.w.loop, RENEWALS_MS);
    ok(is_publishing(&s), "when the server is back, as before it is not waited for");
    kube_pause_renewal(s.w.local, false);
    kube_start(s.w.local, 0);
    sim_run_ms(s.w.loop, NOTICED_MS);
    ok(!is_publishing(&s), "it renews its own, with the gate on: it is left to it");
    end(&s);
}

static void left_alone(enum identity_mode mode, bool readable)
{
    struct story s;
    uint64_t before;

    begin(&s, mode, true);
    if (!readable)
        kube_forbid(s.w.local, LEASE_COLLECTION_PATH, 403);
    before = writes(&s);
    sim_run_ms(s.w.loop, NOTICED_MS);
    ok(!is_publishing(&s), "nothing is published");
    is_u64(writes(&s), before, "nor written");
    end(&s);
}

/* It is taken back to 1.26, whose Lease has another name: what is published under ours is left to lapse. */
static void another_version(void)
{
    struct story s;
    struct lease l;
    int64_t renewed;

    begin(&s, IDENTITY_AUTO, true);
    sim_run_ms(s.w.loop, NOTICED_MS);
    ok(is_publishing(&s), "published for 1.34");
    kube_stop(s.w.local, false);
    sim_run_ms(s.w.loop, 3000);
    kube_set_minor(s.w.local, 26);
    kube_pause_renewal(s.w.local, false);
    kube_start(s.w.local, 0);
    sim_run_ms(s.w.loop, 2 * RENEWALS_MS);
    ok(!is_publishing(&s), "1.26 does it by itself");
    renewed = lease_of(&s, &l) ? l.renew_us : 0;
    sim_run_ms(s.w.loop, NOTICED_MS);
    ok(!is_publishing(&s) && (!lease_of(&s, &l) || l.renew_us == renewed), "and is not doubted");
    end(&s);
}

/* What is renewed, though no watch tells of it. */
static void not_heard_of(void)
{
    struct story s;

    begin(&s, IDENTITY_AUTO, true);
    kube_pause_renewal(s.w.local, false);
    sim_run_ms(s.w.loop, 1000);
    kube_deafen(s.w.store);
    sim_run_ms(s.w.loop, 2 * NOTICED_MS);
    ok(!is_publishing(&s), "a server that renews its Lease keeps it");
    end(&s);
}

int main(void)
{
    taken_over(false);
    taken_over(true);
    left_alone(IDENTITY_OBSERVE, true);
    left_alone(IDENTITY_AUTO, false);
    another_version();
    not_heard_of();
    return tap_end();
}
