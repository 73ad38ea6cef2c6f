/* SPDX-License-Identifier: Apache-2.0 */
/* What this node says of itself, its identity Lease and its record in etcd, whatever there is no memory for: a little
 * later it is said, and it is taken back at the end. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "cluster/cluster_env.h"
#include "cluster/cluster_metrics.h"
#include "cluster/identity.h"
#include "cluster/peers.h"
#include "cluster/records.h"
#include "kube/server_id.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

#define FOLDER "/registry/peerserverleases/"
#define PUBLISHING "mvproxy_identity_lease_publishing"
#define RENEWALS "mvproxy_identity_lease_renewals_total"

enum { ARENA = 1 << 20, HOUR_MS = 3600 * 1000, SETTLED_MS = 45000 };

struct story {
    struct cluster_kit w;
    struct api *api;
    struct cluster_metrics metrics;
    struct arena *arena;
    struct lease lease; /* as last looked at */
    const char *id;
    unsigned left;
    struct identity *identity;
    struct cluster_env env;
    struct peers *peers;
    char dead[SERVER_ID_BYTES], holder[100];
    /* Of records. */
    struct sim_etcd *etcd;
    struct origin *origin;
    struct records *records;
    char key[80];
};

static bool yes(void *arg)
{
    (void)arg;
    return true;
}

static bool no_other(void *arg, struct slice id)
{
    (void)arg;
    (void)id;
    return false;
}

static void on_left(void *arg)
{
    ((struct story *)arg)->left++;
}

static void prepare(struct story *s, unsigned minor)
{
    memset(s, 0, sizeof(*s));
    s->arena = arena_new(ARENA);
    cluster_kit_init(&s->w, KIT_BASE);
    cluster_kit_without_lease(&s->w, minor);
    s->id = kube_id(s->w.local);
    s->api = cluster_kit_api(&s->w, s->w.origin);
    cluster_metrics_init(&s->metrics, s->w.metrics);
}

static void end(struct story *s)
{
    identity_free(s->identity);
    if (s->peers != NULL)
        peers_free(s->peers);
    records_free(s->records);
    api_free(s->api);
    sim_run_ms(s->w.loop, 0);
    if (s->etcd != NULL)
        sim_etcd_free(s->etcd);
    if (s->origin != NULL)
        origin_unref(s->origin);
    cluster_kit_end(&s->w);
    arena_free(s->arena);
}

static bool lease_there(struct story *s, const char *id)
{
    arena_reset(s->arena);
    return kube_get_lease(s->w.store, id, s->arena, &s->lease);
}

static bool by_us(struct story *s)
{
    return lease_there(s, s->id) && slice_has_prefix(s->lease.holder, slice_str(s->id)) && s->lease.holder.n == 73;
}

static const struct peers *peers(void *arg)
{
    return ((struct story *)arg)->peers;
}

static void on_peer(void *arg, struct peer *p)
{
    (void)arg;
    (void)p;
}

static const struct peers_handler peers_handler = {.added = on_peer, .removed = on_peer};

/* ---- the Lease: what happens, and with which allocation nothing is had ---- */

static void begin_identity(struct story *s, unsigned minor)
{
    prepare(s, minor);
    s->env = (struct cluster_env){.loop = s->w.loop, .back = s->w.back};
    (void)snprintf(s->env.own_id, sizeof(s->env.own_id), "%s", s->id);
    s->peers = peers_new(&s->env, &peers_handler, NULL);
    s->identity = identity_new(&(struct identity_opts){.api = s->api,
                                                       .id = s->id,
                                                       .hostname = "cp-a",
                                                       .mode = IDENTITY_AUTO,
                                                       .advertise = "10.0.0.1:16443",
                                                       .annotate = true,
                                                       .metrics = &s->metrics,
                                                       .peers = peers,
                                                       .arg = s});
}

static void put_lease(struct story *s, const char *id, int64_t renew_us)
{
    const struct kube_lease l = {
        .name = id, .hostname = "cp-x", .holder = "x", .renew_us = renew_us, .duration_s = 3600};

    kube_put_lease(s->w.store, &l);
}

static void nobody_before(struct story *s)
{
    begin_identity(s, 24);
}

static void dead_before(struct story *s)
{
    begin_identity(s, 24);
    put_lease(s, s->id, 1);
}

static void fresh_before(struct story *s)
{
    begin_identity(s, 24);
    put_lease(s, s->id, clock_wall_us());
}

static void publishing(struct story *s)
{
    begin_identity(s, 24);
    identity_start(s->identity);
    sim_run_ms(s->w.loop, 1000);
}

/* A round of collecting is due in a moment. */
static void collecting(struct story *s)
{
    publishing(s);
    if (!server_id_from_hostname(SLICE_LIT("cp-dead"), s->dead))
        tap_bail("no ID");
    put_lease(s, s->dead, 1);
    if (!lease_there(s, s->dead))
        tap_bail("no Lease");
    peers_lease(s->peers, &s->lease);
    sim_pause_ms(s->w.loop, HOUR_MS - HOUR_MS / 20);
    sim_run_ms(s->w.loop, 1000);
}

static void server_publishes(struct story *s)
{
    begin_identity(s, 30);
    kube_set_unadvertised(s->w.local);
    kube_start(s->w.local, 0);
}

static void start(struct story *s)
{
    identity_start(s->identity);
    sim_run_ms(s->w.loop, 14000);
}

static void another_holder(struct story *s)
{
    if (!by_us(s))
        tap_bail("not published");
    (void)snprintf(s->holder, sizeof(s->holder), "%.*s", (int)s->lease.holder.n, s->lease.holder.p);
    identity_restarted(s->identity);
    identity_serves(s->identity, SLICE_LIT("0123456789abcdef"));
    sim_run_ms(s->w.loop, 14000);
}

static void round_of_collecting(struct story *s)
{
    sim_run_ms(s->w.loop, HOUR_MS / 10);
}

static void start_observing(struct story *s)
{
    identity_serves(s->identity, SLICE_LIT("0123456789abcdef"));
    start(s);
    if (lease_there(s, s->id))
        identity_seen(s->identity, &s->lease);
    sim_run_ms(s->w.loop, 1000);
}

static bool is_published(struct story *s)
{
    return by_us(s) && cluster_kit_metric(&s->w, PUBLISHING, NULL) == 1 &&
           strcmp(identity_state_name(s->identity), "publishing") == 0 &&
           cluster_kit_metric(&s->w, RENEWALS, "conflict", NULL) == 0;
}

static bool is_told(struct story *s)
{
    return by_us(s) && strcmp(identity_state_name(s->identity), "publishing") == 0 &&
           !slice_eq(s->lease.holder, slice_str(s->holder)) &&
           slice_has_prefix(s->lease.discovery, SLICE_LIT("0123456789abcdef."));
}

/* Who was not collected is in the next round. */
static bool is_collected(struct story *s)
{
    if (lease_there(s, s->dead)) {
        sim_pause_ms(s->w.loop, HOUR_MS - HOUR_MS / 10);
        sim_run_ms(s->w.loop, HOUR_MS / 5);
    }
    return is_published(s) && !lease_there(s, s->dead);
}

static bool is_observed(struct story *s)
{
    if (lease_there(s, s->id))
        identity_seen(s->identity, &s->lease);
    sim_run_ms(s->w.loop, 1000);
    return strcmp(identity_state_name(s->identity), "observing") == 0 && lease_there(s, s->id) &&
           slice_eq(s->lease.advertise, SLICE_LIT("10.0.0.1:16443")) && s->lease.discovery.n > 0;
}

static void lease(const char *name, void (*before)(struct story *s), void (*happens)(struct story *s),
                  bool (*is_so)(struct story *s))
{
    uint64_t calls = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct story s;

        before(&s);
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        happens(&s);
        mem_fail_nth(0);
        calls = n == 0 ? mem_calls() - calls : calls;
        sim_run_ms(s.w.loop, SETTLED_MS);
        ok(is_so(&s), "%s: allocation %llu of %llu fails (%s)", name, (unsigned long long)n, (unsigned long long)calls,
           identity_state_name(s.identity));
        end(&s);
    }
}

/* Another address is tried as often as the one before, where the Lease is renewed under our hands each time. */
static void another_address(void)
{
    enum { LEAST_REQUESTS = 10 };
    struct story s;
    uint64_t before;

    server_publishes(&s);
    kube_forbid_writes(s.w.local, 409);
    identity_start(s.identity);
    sim_run_ms(s.w.loop, 1000);
    before = kube_sim(s.w.local)->requests;
    sim_run_ms(s.w.loop, 1000);
    is_u64(kube_sim(s.w.local)->requests, before, "not for ever");
    identity_update(s.identity, IDENTITY_AUTO, "10.0.0.1:17443", true);
    sim_run_ms(s.w.loop, 1000);
    ok(kube_sim(s.w.local)->requests >= before + LEAST_REQUESTS, "another address: tried %llu times",
       (unsigned long long)(kube_sim(s.w.local)->requests - before) / 2);
    kube_forbid_writes(s.w.local, 0);
    identity_update(s.identity, IDENTITY_AUTO, "10.0.0.1:18443", true);
    sim_run_ms(s.w.loop, 1000);
    ok(lease_there(&s, s.id) && slice_eq(s.lease.advertise, SLICE_LIT("10.0.0.1:18443")), "written in the end");
    end(&s);
}

/* It is told in time that it has gone, and it has, unless there was no memory to ask for that. */
static void leaves(void)
{
    uint64_t calls = 0;
    unsigned stayed = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct story s;

        publishing(&s);
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        identity_stop(s.identity, on_left, &s);
        sim_run_ms(s.w.loop, 1500);
        mem_fail_nth(0);
        calls = n == 0 ? mem_calls() - calls : calls;
        is_u64(s.left, 1, "leaving: allocation %llu of %llu fails: told", (unsigned long long)n,
               (unsigned long long)calls);
        is_str(identity_state_name(s.identity), "stopped", "stopped");
        stayed += lease_there(&s, s.id);
        ok(n > 0 || !lease_there(&s, s.id), "removed");
        end(&s);
    }
    ok(stayed > 0 && stayed < calls, "left to expire in %u of %llu cases", stayed, (unsigned long long)calls);
}

/* ---- the record ---- */

static void on_address(void *arg, struct slice id, const char *host, unsigned port)
{
    (void)arg;
    (void)id;
    (void)host;
    (void)port;
}

static void begin_record(struct story *s)
{
    const struct origin_opts o = {.name = "etcd", .host = "10.0.1.1", .port = 2379};

    prepare(s, 30);
    s->etcd = sim_etcd_new(s->w.loop, 77);
    (void)sim_etcd_member(s->etcd, s->w.back, "10.0.1.1:2379");
    s->origin = origin_new(s->w.back, &o);
    (void)snprintf(s->key, sizeof(s->key), FOLDER "%s", s->id);
    s->records = records_new(&(struct records_opts){.loop = s->w.loop,
                                                    .back = s->w.back,
                                                    .metrics = &s->metrics,
                                                    .own_id = s->id,
                                                    .on_address = on_address,
                                                    .may_publish = yes,
                                                    .has_other = no_other,
                                                    .arg = s});
}

static void configure(struct story *s)
{
    records_configure(s->records,
                      &(struct records_config){
                          .servers = &s->origin, .n_servers = 1, .prefix = "/registry", .advertise = "10.0.0.11:6443"});
}

static void left_behind(struct story *s)
{
    char value[400];

    begin_record(s);
    (void)snprintf(
        value, sizeof(value),
        "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"labels\":{\"apiserverIdentity\":\"%s\"}},"
        "\"subsets\":[{\"addresses\":[{\"ip\":\"10.0.0.11\"}],\"ports\":[{\"port\":6443}]}]}",
        s->id);
    sim_etcd_put(s->etcd, s->key, slice_str(value), 3600);
}

static bool is_written(struct story *s)
{
    const char *value = sim_etcd_get(s->etcd, s->key);
    char text[256];

    records_state(s->records, text, sizeof(text));
    return value != NULL && strstr(value, "10.0.0.11") != NULL &&
           strcmp(text, "works; 1 records, read; own record: published") == 0 && sim_etcd_watches(s->etcd) == 1;
}

static void record(const char *name, void (*before)(struct story *s))
{
    uint64_t calls = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct story s;
        char text[256];

        before(&s);
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        configure(&s);
        sim_run_ms(s.w.loop, 12000);
        mem_fail_nth(0);
        calls = n == 0 ? mem_calls() - calls : calls;
        sim_run_ms(s.w.loop, SETTLED_MS);
        records_state(s.records, text, sizeof(text));
        ok(is_written(&s), "%s: allocation %llu of %llu fails (%s)", name, (unsigned long long)n,
           (unsigned long long)calls, text);
        records_stop(s.records, on_left, &s);
        sim_run_ms(s.w.loop, 100);
        ok(s.left == 1 && sim_etcd_get(s.etcd, s.key) == NULL && sim_etcd_leases(s.etcd) <= 1, "withdrawn");
        end(&s);
    }
}

static void withdrawn(void)
{
    uint64_t calls = 0;

    for (uint64_t n = 0; n <= calls; n++) {
        struct story s;

        begin_record(&s);
        configure(&s);
        sim_run_ms(s.w.loop, 2000);
        calls = n == 0 ? mem_calls() : calls;
        mem_fail_nth(n);
        records_stop(s.records, on_left, &s);
        sim_run_ms(s.w.loop, 1500);
        mem_fail_nth(0);
        calls = n == 0 ? mem_calls() - calls : calls;
        is_u64(s.left, 1, "withdrawing: allocation %llu of %llu fails: told", (unsigned long long)n,
               (unsigned long long)calls);
        sim_run_ms(s.w.loop, 15000);
        ok(sim_etcd_get(s.etcd, s.key) == NULL, "and gone, if only when it expires");
        end(&s);
    }
}

int main(void)
{
    lease("nobody before", nobody_before, start, is_published);
    lease("dead before", dead_before, start, is_published);
    lease("another one's, fresh", fresh_before, start, is_published);
    lease("another holder", publishing, another_holder, is_told);
    lease("collecting", collecting, round_of_collecting, is_collected);
    lease("the server's own", server_publishes, start_observing, is_observed);
    another_address();
    leaves();
    record("nobody's record", begin_record);
    record("an earlier one", left_behind);
    withdrawn();
    return tap_end();
}
