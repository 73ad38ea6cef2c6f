/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation may fail: whatever it was for, the layer survives and comes to the same knowledge a little later. */
#include "lib/tap.h"
#include "sim/cluster_kit.h"

struct story {
    struct cluster_kit w;
    struct kube_server *b, *c;
};

static void begin(struct story *s)
{
    cluster_kit_init(&s->w, KIT_BASE);
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    s->c = cluster_kit_peer(&s->w, "cp-c", "10.0.0.3:6443", KIT_BASE ";policy/v1:poddisruptionbudgets");
    kube_set_form(s->c, KUBE_LEGACY);
    kube_put_crd(s->w.store, "crontabs.stable.example.com", "stable.example.com", "v1");
    cluster_kit_start(&s->w);
}

static void happen(struct story *s)
{
    sim_run_ms(s->w.loop, 3000);
    kube_stop(s->b, true);
    kube_put_crd(s->w.store, "bs.b.example.com", "b.example.com", "v1");
    sim_run_ms(s->w.loop, 1000);
    kube_set_apis(s->b, KIT_BASE ";batch/v2:jobs");
    kube_start(s->b, 0);
    (void)cluster_local_miss(s->w.cluster, NULL, NULL);
    sim_run_ms(s->w.loop, 1000);
    cluster_refresh(s->w.cluster);
    sim_run_ms(s->w.loop, 1000);
}

/* True if in the end everything is known. */
static bool all_is_known(struct story *s)
{
    return cluster_kit_local_serves(&s->w, "apps", "v1", "deployments") &&
           cluster_kit_peer_serves(&s->w, s->b, "batch", "v2", "jobs") &&
           cluster_kit_peer_serves(&s->w, s->c, "policy", "v1", "poddisruptionbudgets") &&
           strcmp(cluster_kit_freshness(&s->w, "policy"), "Current") == 0 &&
           strcmp(cluster_kit_freshness(&s->w, "batch"), "Current") == 0 &&
           served_excluded(cluster_served(s->w.cluster), SLICE_LIT("stable.example.com"), SLICE_LIT("v1")) &&
           served_excluded(cluster_served(s->w.cluster), SLICE_LIT("b.example.com"), SLICE_LIT("v1"));
}

static bool switch_peers(struct story *s, bool on)
{
    s->w.opts.peers_enabled = on;
    return cluster_update(s->w.cluster, &s->w.opts);
}

static void begin_off(struct story *s)
{
    begin(s);
    sim_run_ms(s->w.loop, 1000);
    (void)switch_peers(s, false);
    sim_run_ms(s->w.loop, 1000);
}

/* Peers are switched on by a reload, and something for it is missing: refused, or the rest is at work when that comes.
 */
static void switched_on(void)
{
    uint64_t calls = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct story s;
        bool taken;

        begin_off(&s);
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        taken = switch_peers(&s, true);
        mem_fail_nth(0);
        calls = n == 0 ? mem_calls() - calls : calls;
        sim_run_ms(s.w.loop, 4000);
        if (!taken) {
            ok(!served_peers_enabled(cluster_served(s.w.cluster)), "allocation %llu: refused, peers stay off",
               (unsigned long long)n);
            ok(switch_peers(&s, true), "and the next time they are switched on");
            sim_run_ms(s.w.loop, 4000);
        }
        ok(served_synced(cluster_served(s.w.cluster)) && cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs") &&
               served_excluded(cluster_served(s.w.cluster), SLICE_LIT("stable.example.com"), SLICE_LIT("v1")),
           "allocation %llu of switching peers on fails", (unsigned long long)n);
        cluster_kit_end(&s.w);
    }
}

/* And off again before that is tried again: then nobody follows the cluster. */
static void switched_off_again(void)
{
    uint64_t calls = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct story s;
        bool off;

        begin_off(&s);
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        (void)switch_peers(&s, true);
        mem_fail_nth(0);
        calls = n == 0 ? mem_calls() - calls : calls;
        off = switch_peers(&s, false);
        sim_run_ms(s.w.loop, 4000);
        ok(off && served_n_peers(cluster_served(s.w.cluster)) == 0, "allocation %llu fails, and peers are switched off",
           (unsigned long long)n);
        cluster_kit_end(&s.w);
    }
}

static bool has_static_peer(struct story *s)
{
    const struct served *v = cluster_served(s->w.cluster);

    for (size_t i = 0; i < served_n_peers(v); i++)
        if (strcmp(served_peer_at(v, i)->host, "cp-d") == 0)
            return served_peer_at(v, i)->origin != NULL &&
                   strcmp(origin_address(served_peer_at(v, i)->origin), "10.0.0.4:6443") == 0;
    return false;
}

/* Much else is changed by one: it is taken as a whole, now or a moment later, or refused as a whole. */
static void reloaded(void)
{
    const struct cluster_static_peer fixed[] = {{.name = "cp-d", .host = "10.0.0.4", .port = 6443},
                                                {.name = "cp-b", .host = "10.0.0.2", .port = 6443}};
    uint64_t calls = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct story s;
        bool taken;

        begin(&s);
        sim_run_ms(s.w.loop, 3000);
        s.w.opts.static_peers = fixed;
        s.w.opts.n_static_peers = 2;
        s.w.opts.advertise = "10.0.0.7:6443";
        s.w.opts.user = "somebody";
        s.w.opts.etcd_servers = &s.w.origin;
        s.w.opts.n_etcd_servers = 1;
        s.w.opts.etcd_prefix = "/other";
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        taken = cluster_update(s.w.cluster, &s.w.opts);
        mem_fail_nth(0);
        calls = n == 0 ? mem_calls() - calls : calls;
        sim_run_ms(s.w.loop, 4000);
        if (!taken) {
            ok(!has_static_peer(&s), "allocation %llu: refused, all stays as it was", (unsigned long long)n);
            ok(cluster_update(s.w.cluster, &s.w.opts), "and the next reload is not");
            sim_run_ms(s.w.loop, 4000);
        }
        ok(has_static_peer(&s) && cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"),
           "allocation %llu of a reload fails", (unsigned long long)n);
        cluster_kit_end(&s.w);
    }
    diag("%llu allocations in a reload", (unsigned long long)calls);
}

static void on_looked(void *arg)
{
    unsigned *called = arg;

    (*called)++;
}

/* Who waits for a look, or for a form of the documents, is called once, whatever there is no memory for. */
static void waited_for(void)
{
    struct story s;
    uint64_t calls = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        unsigned called = 0, waits;

        begin(&s);
        sim_run_ms(s.w.loop, 3000);
        kube_set_apis(s.w.local, n % 2 == 0 ? KIT_BATCH : KIT_BASE ";batch/v2:jobs");
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        waits = cluster_local_miss(s.w.cluster, on_looked, &called) != NULL;
        waits += cluster_want_protobuf(s.w.cluster, on_looked, &called) != NULL;
        sim_run_ms(s.w.loop, 300);
        calls = n == 0 ? mem_calls() - calls : calls;
        mem_fail_nth(0);
        sim_run_ms(s.w.loop, 1000);
        is_u64(called, waits, "allocation %llu fails: who waits is called", (unsigned long long)n);
        ok(cluster_kit_local_serves(&s.w, "batch", n % 2 == 0 ? "v1" : "v2", "jobs"), "and what is new is known");
        cluster_kit_end(&s.w);
    }
}

int main(void)
{
    struct story s;
    uint64_t calls;

    waited_for();

    switched_on();
    switched_off_again();
    reloaded();

    begin(&s);
    calls = mem_calls();
    happen(&s);
    calls = mem_calls() - calls;
    ok(all_is_known(&s), "without failures all is known");
    cluster_kit_end(&s.w);
    diag("%llu allocations", (unsigned long long)calls);
    for (uint64_t n = 1; n < calls; n += 1 + n / 40) {
        begin(&s);
        mem_fail_nth(n);
        happen(&s);
        mem_fail_nth(0);
        /* Nothing forces another list: who could not keep an event must ask for one. */
        sim_server_break(kube_sim(s.w.local));
        sim_run_ms(s.w.loop, 45000);
        if (!ok(all_is_known(&s), "allocation %llu fails", (unsigned long long)n))
            break;
        cluster_kit_end(&s.w);
    }
    return tap_end();
}
