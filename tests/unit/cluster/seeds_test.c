/* SPDX-License-Identifier: Apache-2.0 */
/* An mvproxy that starts while its own server is away: records in etcd say whom to ask, until Leases say who is there.
 */
#include <stdio.h>

#include "lib/tap.h"
#include "sim/cluster_kit.h"
#include "sim/sim_etcd.h"

enum { SOON_MS = 1000 };

struct story {
    struct cluster_kit w;
    struct kube_server *b;
    struct sim_etcd *etcd;
    struct origin *origin;
};

static void key_of(const struct kube_server *k, char key[100])
{
    (void)snprintf(key, 100, "/registry/peerserverleases/%s", kube_id(k));
}

static void record(struct story *s, const struct kube_server *k, const char *ip)
{
    char key[100], text[400];

    key_of(k, key);
    (void)snprintf(text, sizeof(text),
                   "{\"kind\":\"Endpoints\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"%s\",\"labels\":{"
                   "\"apiserverIdentity\":\"%s\"}},\"subsets\":[{\"addresses\":[{\"ip\":\"%s\"}],\"ports\":[{\"name\":"
                   "\"https\",\"port\":6443,\"protocol\":\"TCP\"}]}]}",
                   kube_id(k), kube_id(k), ip);
    sim_etcd_put(s->etcd, key, slice_str(text), 0);
}

/* The local server is away from the beginning on; the other one has a record, and ours stands there from before. */
static void begin(struct story *s)
{
    const struct origin_opts o = {.name = "etcd", .host = "10.0.1.1", .port = 2379};

    cluster_kit_init(&s->w, KIT_BASE);
    s->w.opts.local_failover = true;
    s->b = cluster_kit_peer(&s->w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    s->etcd = sim_etcd_new(s->w.loop, 77);
    (void)sim_etcd_member(s->etcd, s->w.back, "10.0.1.1:2379");
    s->origin = origin_new(s->w.back, &o);
    s->w.opts.etcd_servers = &s->origin;
    s->w.opts.n_etcd_servers = 1;
    s->w.opts.etcd_prefix = "/registry";
    kube_stop(s->w.local, false);
    record(s, s->b, "10.0.0.2");
    record(s, s->w.local, "10.0.0.1");
    cluster_kit_start(&s->w);
    sim_run_ms(s->w.loop, SOON_MS);
}

static void end(struct story *s)
{
    struct origin *etcd = s->origin;
    struct sim_etcd *e = s->etcd;

    sim_etcd_drop_watches(e);
    cluster_free(s->w.cluster);
    s->w.cluster = NULL;
    sim_run_ms(s->w.loop, 0);
    sim_etcd_free(e);
    origin_unref(etcd);
    cluster_kit_end(&s->w);
}

static const struct served_peer *peer(struct story *s)
{
    return cluster_kit_peer_of(&s->w, s->b);
}

static void until_leases(void)
{
    struct story s;

    begin(&s);
    ok(peer(&s) != NULL && peer(&s)->life == SERVED_LIVE && peer(&s)->origin != NULL, "its record makes it a peer");
    ok(cluster_kit_peer_serves(&s.w, s.b, "batch", "v1", "jobs"), "which is read");
    is_u64(served_n_peers(cluster_served(s.w.cluster)), 1, "our own record makes none");
    ok(!served_synced(cluster_served(s.w.cluster)), "who else is there is not known");
    kube_start(s.w.local, 0);
    ok(cluster_kit_ready(&s.w, 10000), "the local server is back");
    ok(peer(&s) != NULL && peer(&s)->life == SERVED_LIVE, "its Lease keeps it");
    sim_run_ms(s.w.loop, 20000);
    ok(peer(&s) != NULL && peer(&s)->life == SERVED_LIVE, "and so it stays");
    end(&s);
}

/* The record of a server that has no Lease: of one that has just gone, say. */
static void without_lease(bool returns)
{
    struct story s;

    begin(&s);
    kube_delete(s.w.store, KUBE_LEASE, kube_id(s.b));
    kube_pause_renewal(s.b, true);
    if (returns) {
        kube_start(s.w.local, 0);
        ok(cluster_kit_ready(&s.w, 10000), "the local server is back");
    } else {
        char key[100];

        key_of(s.b, key);
        sim_etcd_delete(s.etcd, key);
        sim_run_ms(s.w.loop, SOON_MS);
    }
    ok(peer(&s) == NULL, returns ? "nobody has such a Lease: it is none" : "its record is gone: so is it");
    record(&s, s.b, "10.0.0.2");
    sim_run_ms(s.w.loop, SOON_MS);
    ok((peer(&s) == NULL) == returns, "a record alone makes a peer only while the Leases were never listed");
    end(&s);
}

/* What does not answer is not counted on for ever. */
static void dies(void)
{
    struct story s;

    begin(&s);
    kube_stop(s.b, false);
    sim_run_ms(s.w.loop, 60000);
    ok(peer(&s) != NULL && peer(&s)->life == SERVED_LAPSED, "no answers: lapsed");
    kube_start(s.b, 0);
    sim_run_ms(s.w.loop, 12000);
    ok(peer(&s) != NULL && peer(&s)->life == SERVED_LIVE, "it answers again: live");
    end(&s);
}

int main(void)
{
    until_leases();
    without_lease(true);
    without_lease(false);
    dies();
    return tap_end();
}
