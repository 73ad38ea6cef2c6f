/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An hour of a simulated control plane (fleet.h) in which clients ask throughout, as Prometheus would see it: what each
 * mvproxy's /metrics says, every 15 s of its time.
 *
 *   fleet_hour healthy | dead-peer | dead-server | replaced-server | dead-etcd | refused-leases
 *
 * Of three nodes the last serves what the others do not. After ten minutes nothing happens, or that node dies, or its
 * kube-apiserver, or that of the first node, whose APIs all have, or etcd answers nobody, or the first node's mvproxy
 * may not read Leases any more. Before each exposition stands "# scrape NODE SECOND"; nothing follows where no mvproxy
 * runs.
 */
#include <stdio.h>

#include "admin/metrics_text.h"
#include "base/log.h"
#include "kube/lease.h"
#include "lib/tap.h"
#include "sim/fleet.h"

enum { NODES = 3, HOUR_S = 3600, SCRAPE_S = 15, EVENT_S = 600, QUESTION_MS = 500, TEXT_BYTES = 8 << 20 };

#define BASE "apps/v1:deployments,replicasets;batch/v1:jobs,cronjobs"

static const struct gvr everywhere[] = {{SLICE_LIT("apps"), SLICE_LIT("v1"), SLICE_LIT("deployments")},
                                        {SLICE_LIT("batch"), SLICE_LIT("v1"), SLICE_LIT("jobs")}},
                        newest = {SLICE_LIT("resource.k8s.io"), SLICE_LIT("v1"), SLICE_LIT("deviceclasses")};

static void answered(void *arg, const struct fleet_answer *a)
{
    (void)arg;
    (void)a;
}

static void scrape(struct fleet *f, unsigned node, unsigned second)
{
    struct metrics *m = fleet_metrics(f, node);
    struct buf text;

    printf("# scrape %u %u\n", node, second);
    if (m == NULL)
        return;
    buf_init(&text, TEXT_BYTES);
    if (!metrics_text_write(&text, m, METRICS_PROMETHEUS))
        tap_bail("too many metrics");
    (void)fwrite(text.p, 1, buf_len(&text), stdout);
    buf_free(&text);
}

/* One request in ten is for what only the last node has. */
static void ask_all(struct fleet *f, unsigned number)
{
    for (unsigned i = 0; i < NODES; i++) {
        const struct gvr *g = (number + i) % 10 == 0 ? &newest : &everywhere[number % 2];

        if (fleet_proxy_up(f, i) > 0)
            fleet_ask(f, i, g, false, answered, NULL);
    }
}

int main(int argc, char **argv)
{
    const char *story = argc == 2 ? argv[1] : "";
    bool peer = strcmp(story, "dead-peer") == 0, server = strcmp(story, "dead-server") == 0;
    bool etcd = strcmp(story, "dead-etcd") == 0, replaced = strcmp(story, "replaced-server") == 0;
    bool refused = strcmp(story, "refused-leases") == 0;
    struct fleet *f;

    if (!peer && !server && !replaced && !etcd && !refused && strcmp(story, "healthy") != 0)
        return 2;
    log_set_stream(fopen("/dev/null", "w"));
    f = fleet_new(NODES);
    fleet_probe(f);
    fleet_use_etcd(f, true);
    for (unsigned i = 0; i < NODES; i++) {
        fleet_start_server(f, i, i == NODES - 1 ? BASE ";resource.k8s.io/v1:deviceclasses" : BASE, 0);
        fleet_start_proxy(f, i);
    }
    sim_run_ms(fleet_loop(f), 20000); /* they know each other */
    for (unsigned t = 0; t < HOUR_S * 1000; t += QUESTION_MS) {
        if (t == EVENT_S * 1000 && (peer || server))
            fleet_stop_server(f, NODES - 1, false);
        if (t == EVENT_S * 1000 && replaced)
            fleet_stop_server(f, 0, false);
        if (t == EVENT_S * 1000 && peer)
            fleet_kill_proxy(f, NODES - 1);
        if (t == EVENT_S * 1000 && refused)
            kube_forbid(fleet_server(f, 0), LEASE_COLLECTION_PATH, 403); /* a watch that is open goes on */
        for (unsigned i = 0; t == EVENT_S * 1000 && etcd && i < 2; i++)
            fleet_etcd_member(f, i)->fault = SIM_REFUSE;
        if (t % (SCRAPE_S * 1000) == 0)
            for (unsigned i = 0; i < NODES; i++)
                scrape(f, i, t / 1000);
        ask_all(f, t / QUESTION_MS);
        sim_run_ms(fleet_loop(f), QUESTION_MS);
    }
    return fleet_free(f) == 0 ? 0 : 1;
}
