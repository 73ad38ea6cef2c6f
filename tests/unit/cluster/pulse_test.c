/* SPDX-License-Identifier: Apache-2.0 */
/* A server that dies, or comes back, is noticed within two seconds, whatever it is and however it dies. */
#include "cluster/pulse.h"

#include <stdio.h>

#include "base/changes.h"
#include "base/clock.h"
#include "cluster/cluster_view.h"
#include "lib/tap.h"
#include "sim/world.h"

enum { SOON_MS = 2000 };

static struct changes *start(struct world *w)
{
    struct changes *c = changes_new();

    world_init(w, WORLD_BASE);
    w->opts.pulse = true;
    w->opts.changes = c;
    return c;
}

/* Of the server with this index; texts live until the world goes on. */
static struct cluster_server look(struct world *w, size_t i)
{
    struct cluster_view v;
    struct cluster_server s;

    if (!cluster_view_take(w->cluster, &v) || i >= v.n)
        tap_bail("no such server");
    s = v.servers[i];
    cluster_view_free(&v);
    return s;
}

static bool is_told(const struct changes *c, enum change_kind kind, const char *who)
{
    const struct change *x;

    for (size_t i = 0; (x = changes_at(c, false, i)) != NULL; i++)
        if (x->kind == kind && strcmp(x->subject, who) == 0)
            return true;
    return false;
}

static void dies(enum sim_fault fault, bool local)
{
    struct world w;
    struct changes *c = start(&w);
    struct kube_server *b = world_peer(&w, "cp-b", "10.0.0.2:6443", WORLD_BATCH), *k;
    const char *name = local ? "cp-a" : "cp-b";
    uint64_t before;

    k = local ? w.local : b;
    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, !local).answers == PULSE_ANSWERS && !look(&w, !local).failing, "%s answers", name);
    ok(strncmp(look(&w, !local).version, "v1.", 3) == 0, "and which version it is");
    before = kube_discovery_requests(k);
    sim_run_ms(w.loop, SOON_MS);
    is_u64(kube_discovery_requests(k), before, "that it answers is no reason to read its discovery");
    kube_sim(k)->fault = fault;
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, !local).answers == PULSE_UNREACHABLE && look(&w, !local).failing, "%s is dead", name);
    ok(look(&w, !local).error != NULL && look(&w, !local).error_ms <= SOON_MS, "why and for how long");
    ok(is_told(c, CHANGE_FAILED, name), "it is in the list");
    kube_sim(k)->fault = SIM_FINE; /* what hangs does so until its time is up */
    sim_run_ms(w.loop, fault == SIM_REFUSE ? SOON_MS : SOON_MS + PULSE_TIMEOUT_MS);
    ok(look(&w, !local).answers == PULSE_ANSWERS, "%s is back", name);
    ok(look(&w, !local).error != NULL, "the last error is still known");
    ok(is_told(c, CHANGE_RECOVERED, name), "in the list, too");
    world_end(&w);
    changes_free(c);
}

static const char *told_of(const struct changes *c, enum change_kind kind)
{
    const struct change *x;

    for (size_t i = 0; (x = changes_at(c, false, i)) != NULL; i++)
        if (x->kind == kind)
            return x->text;
    return "nothing";
}

/* The core group counts, as it does for skew; an upgrade is told as one. */
static void upgraded(void)
{
    struct world w;
    struct changes *c = start(&w);
    struct kube_server *b = world_peer(&w, "cp-b", "10.0.0.2:6443", WORLD_BATCH);
    char want[128];

    kube_set_core(w.local, "v1:pods,nodes");
    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    is_u64(look(&w, 0).groups, 2, "apps and core");
    is_u64(look(&w, 0).resources, 4, "two resources of each");
    (void)snprintf(want, sizeof(want), ", before %s", look(&w, 1).version);
    kube_stop(b, false);
    sim_run_ms(w.loop, SOON_MS);
    kube_set_minor(b, 99);
    kube_start(b, 0);
    sim_run_ms(w.loop, SOON_MS);
    ok(strstr(told_of(c, CHANGE_RECOVERED), want) != NULL &&
           strstr(told_of(c, CHANGE_RECOVERED), "again, v1.99.") != NULL,
       "from which version to which: %s", told_of(c, CHANGE_RECOVERED));
    world_end(&w);
    changes_free(c);
}

/* However long ago it was asked last. */
static void hangs_at_any_time(void)
{
    enum { STEP_MS = 90, PHASES = 14 };
    unsigned seen = 0;

    for (unsigned i = 0; i < PHASES; i++) {
        struct world w;
        struct changes *c = start(&w);
        struct kube_server *b = world_peer(&w, "cp-b", "10.0.0.2:6443", WORLD_BATCH);

        world_start(&w);
        sim_run_ms(w.loop, 5000 + i * STEP_MS);
        kube_sim(b)->fault = SIM_HANG;
        sim_run_ms(w.loop, SOON_MS);
        seen += look(&w, 1).answers == PULSE_UNREACHABLE;
        world_end(&w);
        changes_free(c);
    }
    is_u64(seen, PHASES, "within two seconds, whenever it begins to hang");
}

static uint64_t news(const struct changes *c)
{
    const struct change *x;
    uint64_t n = 0;

    for (size_t i = 0; (x = changes_at(c, false, i)) != NULL; i++)
        n += x->times;
    return n;
}

/* What is seen of the peer by those who read the night's outage. */
static void ages(void)
{
    struct world w;
    struct changes *c = start(&w);
    struct kube_server *b = world_peer(&w, "cp-b", "10.0.0.2:6443", WORLD_BATCH);
    uint64_t told;

    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    kube_forbid(b, "/version", 503);
    sim_run_ms(w.loop, 60000);
    ok(look(&w, 1).error_ms > 57000, "an error that stays is as old as the outage");
    kube_forbid(b, NULL, 0);
    kube_sim(b)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).error_ms <= SOON_MS, "another error is young: %s", look(&w, 1).error);
    ok(look(&w, 1).answers_ms > 57000, "the outage is not");
    told = news(c);
    w.opts.peer_rule_changed = true; /* as new certificates: it is reached by another origin */
    ok(cluster_update(w.cluster, &w.opts), "a reload");
    ok(look(&w, 1).answers == PULSE_UNREACHABLE, "is no news of the server");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).answers_ms > 57000, "nor makes an outage younger");
    is_u64(news(c), told, "nothing came or failed anew");
    kube_sim(b)->fault = SIM_FINE;
    sim_run_ms(w.loop, 2 * SOON_MS);
    told = news(c);
    ok(cluster_update(w.cluster, &w.opts), "another reload, while it answers");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 1).answers == PULSE_ANSWERS && look(&w, 1).answers_ms > SOON_MS, "it answers as long as before");
    is_u64(news(c), told, "nothing came");
    world_end(&w);
    changes_free(c);
}

/* An mvproxy says which server it stands before: what is asked there says nothing of the peer. */
static void leads_elsewhere(void)
{
    struct world w;
    struct changes *c = start(&w);
    struct kube_server *b = world_peer(&w, "cp-b", "10.0.0.2:6443", WORLD_BATCH),
                       *d = world_peer(&w, "cp-d", "10.0.0.4:6443", WORLD_BATCH);

    kube_set_hop(b, kube_id(b));
    kube_set_hop(d, kube_id(b)); /* an address of cp-d that is really cp-b's */
    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, SOON_MS);
    is_str(look(&w, 2).host, "cp-d", "the other one");
    is_str(look(&w, 2).leads_to, "cp-b", "who is there instead");
    ok(look(&w, 1).leads_to == NULL, "and the right one is itself");
    kube_set_hop(d, "apiserver-scg43bmblmfhqplxpiyqlziyzi");
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 2).leads_to == NULL, "of whom nobody knows nothing is said");
    kube_set_hop(d, kube_id(w.local));
    sim_run_ms(w.loop, SOON_MS);
    is_str(look(&w, 2).leads_to, "cp-a", "it may be this very server");
    kube_set_hop(d, kube_id(d));
    sim_run_ms(w.loop, SOON_MS);
    ok(look(&w, 2).leads_to == NULL, "corrected");
    kube_stop(d, false);
    kube_delete(w.store, KUBE_LEASE, kube_id(d));
    sim_run_ms(w.loop, 60000);
    ok(look(&w, 2).left && look(&w, 2).forgotten_in_ms > 230000 && look(&w, 2).forgotten_in_ms <= 240000,
       "one that left is forgotten in %llu ms", (unsigned long long)look(&w, 2).forgotten_in_ms);
    world_end(&w);
    changes_free(c);
}

static void off(void)
{
    struct world w;
    struct changes *c = start(&w);

    w.opts.pulse = false;
    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, 5000);
    ok(look(&w, 0).answers == PULSE_UNKNOWN, "nobody asks");
    world_end(&w);
    changes_free(c);
}

static void leases_unread(void)
{
    struct world w;
    struct cluster_view v;
    struct changes *c = start(&w);

    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    ok(cluster_view_take(w.cluster, &v) && v.leases_failure == NULL, "Leases are followed");
    cluster_view_free(&v);
    kube_forbid(w.local, "/apis/coordination.k8s.io", 500);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 30000);
    ok(cluster_view_take(w.cluster, &v) && v.leases_failure != NULL, "and then they are not");
    ok(v.leases_failure_ms > 1000 && v.leases_failure_ms <= 30000, "since they were refused");
    cluster_view_free(&v);
    world_end(&w);
    changes_free(c);
}

static void count_host(void *arg, const char *host)
{
    *(unsigned *)arg += strcmp(host, "cp-b") == 0;
}

/* Who is away for long is not simply gone: its Lease is there. */
static void missing(void)
{
    struct world w;
    struct changes *c = start(&w);
    struct kube_server *b = world_peer(&w, "cp-b", "10.0.0.2:6443", WORLD_BATCH);
    unsigned n = 0;

    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    kube_stop(b, false);
    sim_run_ms(w.loop, 120000);
    cluster_each_missing(w.cluster, count_host, &n);
    ok(n == 0 && !look(&w, 1).missing, "two minutes: what it serves is known");
    sim_run_ms(w.loop, 300000);
    cluster_each_missing(w.cluster, count_host, &n);
    ok(n == 1 && look(&w, 1).missing, "seven minutes: it is missing");
    kube_put_lease(w.store, &(struct kube_lease){.name = "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa",
                                                 .hostname = "cp-b",
                                                 .holder = "apiserver-aaaaaaaaaaaaaaaaaaaaaaaaaa_x",
                                                 .address = "10.0.0.2:6443",
                                                 .duration_s = 3600,
                                                 .renew_us = clock_wall_us()});
    sim_run_ms(w.loop, 1000);
    n = 0;
    cluster_each_missing(w.cluster, count_host, &n);
    is_u64(n, 0, "nobody misses what was left behind by who is there under another ID");
    world_end(&w);
    changes_free(c);
}

static void leases_never_read(void)
{
    struct world w;
    struct cluster_view v;
    struct changes *c = start(&w);

    kube_forbid(w.local, "/apis/coordination.k8s.io", 403);
    world_start(&w);
    sim_run_ms(w.loop, 3000);
    if (!cluster_view_take(w.cluster, &v))
        tap_bail("out of memory");
    ok(cluster_leases_never(w.cluster) != NULL && v.leases_never, "not one: %s", v.leases_failure);
    cluster_view_free(&v);
    kube_forbid(w.local, NULL, 0);
    sim_run_ms(w.loop, 60000);
    ok(cluster_leases_never(w.cluster) == NULL, "but then");
    kube_forbid(w.local, "/apis/coordination.k8s.io", 403);
    sim_server_break(kube_sim(w.local));
    sim_run_ms(w.loop, 60000);
    ok(cluster_leases_never(w.cluster) == NULL, "once is not never");
    world_end(&w);
    changes_free(c);
}

static void memory(void)
{
    struct cluster_view v;
    struct world w;
    struct changes *c = start(&w);

    world_start(&w);
    ok(world_ready(&w, 2000), "ready");
    mem_fail_nth(1);
    ok(!cluster_view_take(w.cluster, &v), "no view without memory");
    mem_fail_nth(0);
    world_end(&w);
    changes_free(c);
}

int main(void)
{
    dies(SIM_REFUSE, true);
    dies(SIM_REFUSE, false);
    dies(SIM_HANG, true);
    dies(SIM_HANG, false);
    hangs_at_any_time();
    upgraded();
    ages();
    leads_elsewhere();
    off();
    leases_unread();
    missing();
    leases_never_read();
    memory();
    return tap_end();
}
