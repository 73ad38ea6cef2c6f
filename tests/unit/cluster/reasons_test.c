/* SPDX-License-Identifier: Apache-2.0 */
/* What fails for one reason after another: which is told, and what is known meanwhile. */
#include <string.h>

#include "base/changes.h"
#include "cluster/cluster.h"
#include "cluster/pulse.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { SOON_MS = 2000 };

static struct changes *start(struct cluster_kit *w)
{
    struct changes *c = changes_new();

    cluster_kit_init(w, KIT_BASE);
    w->opts.pulse = true;
    w->opts.changes = c;
    return c;
}

static unsigned times_failed(const struct changes *c, const char *who, const char *why)
{
    const struct change *x;
    unsigned n = 0;

    for (size_t i = 0; (x = changes_at(c, false, i)) != NULL; i++)
        if (x->kind == CHANGE_FAILED && strcmp(x->subject, who) == 0 && strstr(x->text, why) != NULL)
            n += x->times;
    return n;
}

/* Who reads the log afterwards is to see what it stayed with, but not each way in which a restart fails. */
static void fails_otherwise(void)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);

    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    kube_sim(b)->fault = SIM_REFUSE;
    sim_run_ms(w.loop, 20000);
    kube_sim(b)->fault = SIM_FINE;
    kube_forbid(b, "/", 503);
    sim_run_ms(w.loop, PULSE_REASON_MS - 1000);
    is_u64(times_failed(c, "cp-b", "answers 503"), 0, "another failure, for less than five seconds: no news");
    sim_run_ms(w.loop, 3000);
    is_u64(times_failed(c, "cp-b", "answers 503"), 1, "it stays: told");
    sim_run_ms(w.loop, 60000);
    is_u64(times_failed(c, "cp-b", ""), 2, "once");
    for (unsigned i = 0; i < 20; i++) {
        kube_forbid(b, i % 2 == 0 ? NULL : "/", 503);
        kube_sim(b)->fault = i % 2 == 0 ? SIM_REFUSE : SIM_FINE;
        sim_run_ms(w.loop, SOON_MS);
    }
    is_u64(times_failed(c, "cp-b", ""), 2, "nor what comes and goes");
    kube_forbid(b, NULL, 0);
    sim_run_ms(w.loop, SOON_MS);
    ok(changes_at(c, false, 0)->kind == CHANGE_RECOVERED, "it is back");
    cluster_kit_end(&w);
    changes_free(c);
}

/* The right to read the Leases is taken away: who comes is not known, whatever the reason. Who never had it serves by
 * what else he knows. */
static void leases_refused_later(bool later)
{
    struct cluster_kit w;
    struct changes *c = start(&w);
    struct kube_server *b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);

    if (!later)
        kube_forbid(w.local, "/apis/coordination.k8s.io", 403);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, 3000);
    if (later) {
        ok(!served_unknown_peer(cluster_served(w.cluster)), "Leases are followed");
        kube_forbid(w.local, "/apis/coordination.k8s.io", 403);
        sim_server_break(kube_sim(w.local));
    }
    sim_run_ms(w.loop, 5000);
    kube_set_apis(b, KIT_BASE); /* there is another snapshot */
    cluster_refresh(w.cluster);
    sim_run_ms(w.loop, 5000);
    ok(served_unknown_peer(cluster_served(w.cluster)) == later, "refused %s", later ? "after they were read" : "ever");
    cluster_kit_end(&w);
    changes_free(c);
}

int main(void)
{
    fails_otherwise();
    leases_refused_later(true);
    leases_refused_later(false);
    return tap_end();
}
