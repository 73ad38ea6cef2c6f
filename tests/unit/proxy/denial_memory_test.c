/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation of a simulated control plane fails in turn while a client asks for what a server has, in several
 * states of the servers: what could not be done or read for want of memory is no 404.
 */
#include "base/log.h"
#include "base/mem.h"
#include "lib/tap.h"
#include "sim/fleet.h"

enum { SETTLED_MS = 60000, PAUSE_MS = 150 };

#define BASE "apps/v1:deployments;batch/v1:jobs"
#define MORE BASE ";batch/v2:jobs"
#define LIE                                                                                                            \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["        \
    "{\"metadata\":{\"name\":\"batch\"},\"versions\":[{\"version\":\"v2\",\"resources\":[{\"resource\":\"jobs\","      \
    "\"responseKind\":{\"group\":\"batch\",\"version\":\"v2\",\"kind\":\"Job\"},\"scope\":\"Namespaced\","             \
    "\"singularResource\":\"job\",\"verbs\":[\"get\"]}],\"freshness\":\"Current\"}]}]}"

static const struct gvr common = {SLICE_LIT("apps"), SLICE_LIT("v1"), SLICE_LIT("deployments")},
                        newer = {SLICE_LIT("batch"), SLICE_LIT("v2"), SLICE_LIT("jobs")};

static void nothing(struct fleet *f)
{
    (void)f;
}

static void lie(struct fleet *f)
{
    fleet_start_server(f, 1, BASE, 0);
    kube_set_garbage(fleet_server(f, 1), LIE);
    sim_run_ms(fleet_loop(f), SETTLED_MS);
}

static void stop_own(struct fleet *f)
{
    fleet_stop_server(f, 0, false);
}

static void stop_peer(struct fleet *f)
{
    fleet_stop_server(f, 1, false);
}

static void restart_peer(struct fleet *f)
{
    fleet_stop_server(f, 1, true);
    fleet_start_server(f, 1, MORE, 0);
}

static void restart_own(struct fleet *f)
{
    fleet_stop_server(f, 0, true);
    fleet_start_server(f, 0, BASE, 0);
}

static void reload(struct fleet *f)
{
    fleet_reload(f, 0);
}

static const struct {
    const char *what;
    void (*first)(struct fleet *f), (*each)(struct fleet *f); /* once, and before each allocation that fails */
    const struct gvr *gvr;
    unsigned allocations, questions, status; /* what most are answered with */
} scenes[] = {
    {"what a peer has", nothing, nothing, &newer, 400, 1, 200},
    {"what the peer denies that it says it has", lie, nothing, &newer, 400, 1, 503},
    {"what both have, while the own server is away", stop_own, nothing, &common, 400, 1, 200},
    {"what only a server has that is away, and not yet forgotten", stop_peer, nothing, &newer, 150, 1, 503},
    {"what a peer has that starts again", nothing, restart_peer, &newer, 1500, 6, 200},
    {"what a peer has, while the own server starts again", nothing, restart_own, &newer, 1500, 6, 200},
    {"what a peer has, while the configuration is taken again", nothing, reload, &newer, 400, 2, 200},
};

struct answers {
    unsigned expected, denied;
    unsigned status;
};

static void answered(void *arg, const struct fleet_answer *a)
{
    struct answers *s = arg;

    s->expected += a->status == s->status;
    s->denied += a->status == 404;
}

static void play(size_t scene)
{
    struct answers s = {.status = scenes[scene].status};
    struct fleet *f = fleet_new(2);

    for (unsigned i = 0; i < 2; i++) {
        fleet_start_server(f, i, i == 0 ? BASE : MORE, 0);
        fleet_start_proxy(f, i);
    }
    sim_run_ms(fleet_loop(f), SETTLED_MS);
    scenes[scene].first(f);
    for (uint64_t nth = 1; nth <= scenes[scene].allocations; nth++) {
        mem_fail_nth(nth);
        scenes[scene].each(f);
        for (unsigned i = 0; i < scenes[scene].questions; i++) {
            fleet_ask(f, 0, scenes[scene].gvr, false, answered, &s);
            sim_run_ms(fleet_loop(f), PAUSE_MS);
        }
        sim_run_ms(fleet_loop(f), PAUSE_MS * 10);
        mem_fail_nth(0);
    }
    ok(s.expected > scenes[scene].allocations / 2, "%s: %u times %u", scenes[scene].what, s.expected, s.status);
    is_u64(s.denied, 0, "%s: whatever fails, it is never 404", scenes[scene].what);
    is_u64(fleet_free(f), 0, "%s: nothing else is wrong", scenes[scene].what);
}

int main(void)
{
    log_set_verbosity(-1);
    for (size_t i = 0; i < ROWS(scenes); i++)
        play(i);
    return tap_end();
}
