/* SPDX-License-Identifier: Apache-2.0 */
/* What has been said of the identity Lease, and how long the next attempt waits, begins anew when it works again. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/cluster_metrics.h"
#include "cluster/identity.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define FAILED "Identity Lease of this server: operation failed"
#define CONTESTED "Somebody else renews the identity Lease of this server"

struct story {
    struct cluster_kit w;
    struct api *api;
    struct cluster_metrics metrics;
    struct identity *identity;
    FILE *stream;
    char *text;
    size_t bytes;
};

static const struct peers *nobody(void *arg)
{
    (void)arg;
    return NULL;
}

static void begin(struct story *s)
{
    memset(s, 0, sizeof(*s));
    cluster_kit_init(&s->w, KIT_BASE);
    cluster_kit_without_lease(&s->w, 24);
    s->api = cluster_kit_api(&s->w, s->w.origin);
    cluster_metrics_init(&s->metrics, s->w.metrics);
    s->identity = identity_new(&(struct identity_opts){.api = s->api,
                                                       .id = kube_id(s->w.local),
                                                       .hostname = "cp-a",
                                                       .mode = IDENTITY_PUBLISH,
                                                       .advertise = "",
                                                       .metrics = &s->metrics,
                                                       .peers = nobody});
    identity_start(s->identity);
    sim_run_ms(s->w.loop, 1000);
    is_str(identity_state_name(s->identity), "publishing", "publishing");
    s->stream = open_memstream(&s->text, &s->bytes);
    if (s->stream == NULL)
        tap_bail("no memory stream");
    log_set_stream(s->stream);
}

static void end(struct story *s)
{
    log_flush();
    log_set_stream(stderr);
    (void)fclose(s->stream);
    free(s->text);
    identity_free(s->identity);
    api_free(s->api);
    cluster_kit_end(&s->w);
}

/* As a line of the log that is shown. */
static unsigned said(struct story *s, const char *words)
{
    unsigned n = 0;

    log_flush();
    (void)fflush(s->stream);
    for (const char *at = s->text; at != NULL && (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

static void another_renews(struct story *s)
{
    const struct kube_lease l = {.name = kube_id(s->w.local),
                                 .hostname = "cp-a",
                                 .holder = "another",
                                 .renew_us = clock_wall_us(),
                                 .duration_s = 3600};

    kube_put_lease(s->w.store, &l);
}

static void fails_again(void)
{
    struct story s;
    uint64_t before;

    begin(&s);
    for (unsigned round = 1; round <= 3; round++) {
        kube_forbid(s.w.local, "/apis/coordination.k8s.io", 500);
        sim_run_ms(s.w.loop, 60000);
        is_u64(said(&s, FAILED), round, "outage %u: said once", round);
        kube_forbid(s.w.local, NULL, 0);
        sim_run_ms(s.w.loop, 15000);
        is_str(identity_state_name(s.identity), "publishing", "over");
        sim_run_ms(s.w.loop, 30000);
    }
    /* One that fails alone is no outage, and is made up for soon. */
    for (unsigned i = 0; i < 3; i++) {
        uint64_t patches = kube_lease_writes(s.w.store, "PATCH");

        kube_forbid_writes(s.w.local, 500);
        before = kube_sim(s.w.local)->requests;
        while (kube_sim(s.w.local)->requests == before)
            sim_run_ms(s.w.loop, 10);
        kube_forbid_writes(s.w.local, 0);
        sim_run_ms(s.w.loop, 1000);
        ok(kube_lease_writes(s.w.store, "PATCH") > patches, "made up for within a second");
        sim_run_ms(s.w.loop, 30000);
    }
    is_u64(said(&s, FAILED), 3, "and not said");
    end(&s);
}

static void contested_again(void)
{
    struct story s;

    begin(&s);
    for (unsigned round = 1; round <= 2; round++) {
        for (unsigned i = 0; i < 12; i++) {
            another_renews(&s);
            sim_run_ms(s.w.loop, 10000);
        }
        is_str(identity_state_name(s.identity), "yielded", "left to another");
        is_u64(said(&s, CONTESTED), round, "said once, for the %u. time", round);
        sim_run_ms(s.w.loop, 120000);
        is_str(identity_state_name(s.identity), "publishing", "ours again");
        is_u64(said(&s, "Publishing the identity Lease of this server"), round, "which is said");
    }
    end(&s);
}

static void count(void *arg)
{
    ++*(unsigned *)arg;
}

static bool is_there(struct story *s)
{
    struct arena *arena = arena_new(1 << 20);
    struct lease l;
    bool there = kube_get_lease(s->w.store, kube_id(s->w.local), arena, &l);

    arena_free(arena);
    return there;
}

/* A Lease that somebody has changed in between is looked at again; one that we may not remove is left, and said. */
static void removal_refused(void)
{
    struct story s;
    unsigned left = 0;

    begin(&s);
    kube_forbid_writes(s.w.local, 409);
    identity_stop(s.identity, count, &left);
    sim_run_ms(s.w.loop, 100);
    ok(left == 0 && is_there(&s), "changed in between: tried again");
    kube_forbid_writes(s.w.local, 0);
    sim_run_ms(s.w.loop, 100);
    ok(left == 1 && !is_there(&s), "and removed");
    is_u64(said(&s, "Could not remove the own identity Lease"), 0, "without a word of failure");
    end(&s);
    begin(&s);
    left = 0;
    kube_forbid_writes(s.w.local, 403);
    identity_stop(s.identity, count, &left);
    sim_run_ms(s.w.loop, 100);
    ok(left == 1 && is_there(&s), "not allowed: nobody waits");
    is_u64(said(&s, "Could not remove the own identity Lease"), 1, "and it is said");
    end(&s);
}

int main(void)
{
    fails_again();
    contested_again();
    removal_refused();
    return tap_end();
}
