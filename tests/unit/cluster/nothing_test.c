/* SPDX-License-Identifier: Apache-2.0 */
/* What has never been made can be freed, as the headers say, and where there is no etcd nobody is asked. */
#include "cluster/cluster.h"
#include "cluster/cluster_metrics.h"
#include "cluster/comparer.h"
#include "cluster/etcd.h"
#include "cluster/front_trust.h"
#include "cluster/identity.h"
#include "cluster/informer.h"
#include "cluster/lease_address.h"
#include "cluster/lease_gc.h"
#include "cluster/lease_news.h"
#include "cluster/legacy_walk.h"
#include "cluster/own_lease.h"
#include "cluster/pulse.h"
#include "cluster/readiness.h"
#include "cluster/records.h"
#include "cluster/refresh.h"
#include "cluster/schemas.h"
#include "cluster/server.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

static void on_answer(void *arg, const struct etcd_answer *a)
{
    is_int(a->result, ETCD_FAILED, "where there is no etcd a call fails");
    is_str(a->failure, "no endpoints", "for that reason");
    ++*(unsigned *)arg;
}

static void no_etcd(void)
{
    struct cluster_kit w;
    struct cluster_metrics metrics;
    struct etcd *e;
    unsigned called = 0;

    cluster_kit_init(&w, KIT_BASE);
    cluster_metrics_init(&metrics, w.metrics);
    e = etcd_new(w.loop, w.back, &metrics);
    ok(etcd_call(e, ETCD_GRANT, SLICE_LIT("{}"), on_answer, &called) != NULL && called == 0, "not from inside");
    sim_run_ms(w.loop, 10);
    is_u64(called, 1, "called once");
    etcd_free(e);
    cluster_kit_end(&w);
}

int main(void)
{
    cluster_free(NULL);
    comparer_free(NULL);
    etcd_free(NULL);
    front_trust_free(NULL);
    identity_free(NULL);
    informer_free(NULL);
    lease_address_free(NULL);
    lease_gc_free(NULL);
    lease_news_free(NULL);
    legacy_walk_free(NULL);
    own_lease_free(NULL);
    pulse_free(NULL);
    readiness_free(NULL);
    records_free(NULL);
    refresh_free(NULL);
    schemas_free(NULL);
    schemas_invalidate(NULL);
    server_free(NULL);
    ok(true, "nothing can be freed");
    no_etcd();
    return tap_end();
}
