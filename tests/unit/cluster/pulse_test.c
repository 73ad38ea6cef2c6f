/* SPDX-License-Identifier: Apache-2.0 */
/* A server that dies, or comes back, is noticed within two seconds, whatever it is and however it dies. */
#include "cluster/pulse.h"

#include "base/changes.h"
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
    sim_run_ms(w.loop, fault == SIM_REFUSE ? SOON_MS : SOON_MS + PULSE_TIMEOUT_MS);
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
    off();
    memory();
    return tap_end();
}
