/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer says that it serves what it denies, and memory fails at any place on the way of that answer: what could not be
 * read is no 404.
 */
#include "base/log.h"
#include "base/mem.h"
#include "lib/tap.h"
#include "sim/fleet.h"

enum { ALLOCATIONS = 400, ANSWER_MS = 2000 };

#define LIE                                                                                                            \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["        \
    "{\"metadata\":{\"name\":\"batch\"},\"versions\":[{\"version\":\"v2\",\"resources\":[{\"resource\":\"jobs\","      \
    "\"responseKind\":{\"group\":\"batch\",\"version\":\"v2\",\"kind\":\"Job\"},\"scope\":\"Namespaced\","             \
    "\"singularResource\":\"job\",\"verbs\":[\"get\"]}],\"freshness\":\"Current\"}]}]}"

static void answered(void *arg, const struct fleet_answer *a)
{
    unsigned *status = arg;

    *status = a->status;
}

int main(void)
{
    static const struct gvr jobs = {SLICE_LIT("batch"), SLICE_LIT("v2"), SLICE_LIT("jobs")};
    unsigned refused = 0, passed_on = 0, status;
    struct fleet *f;

    log_set_verbosity(-1);
    f = fleet_new(2);
    for (unsigned i = 0; i < 2; i++) {
        fleet_start_server(f, i, "apps/v1:deployments;batch/v1:jobs", 0);
        fleet_start_proxy(f, i);
    }
    kube_set_garbage(fleet_server(f, 1), LIE);
    sim_run_ms(fleet_loop(f), 60000);
    ok(fleet_lists(f, 0, &jobs), "the lie is believed");
    for (uint64_t nth = 1; nth <= ALLOCATIONS; nth++) {
        status = 0;
        mem_fail_nth(nth);
        fleet_ask(f, 0, &jobs, false, answered, &status);
        sim_run_ms(fleet_loop(f), ANSWER_MS);
        mem_fail_nth(0);
        refused += status == 503;
        passed_on += status == 404;
    }
    ok(refused > ALLOCATIONS / 2, "it is not known: 503 (%u times)", refused);
    is_u64(passed_on, 0, "whatever fails, a denial is not passed on unread");
    is_u64(fleet_free(f), 0, "nothing else is wrong");
    return tap_end();
}
