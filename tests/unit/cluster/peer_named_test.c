/* SPDX-License-Identifier: Apache-2.0 */
/* Which peer an operator means whose host name several Leases have. */
#include <stdio.h>

#include "base/changes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

#define ID(letter) "apiserver-" letter letter "aaaaaaaaaaaaaaaaaaaaaaaa"

static void put_lease(struct cluster_kit *w, const char *id, const char *hostname, const char *address)
{
    char holder[80];
    const struct kube_lease l = {.name = id,
                                 .hostname = hostname,
                                 .holder = holder,
                                 .address = address,
                                 .renew_us = clock_wall_us(),
                                 .duration_s = 3600};

    (void)snprintf(holder, sizeof(holder), "%s_x", id);
    kube_put_lease(w->store, &l);
}

static void drained(struct cluster_kit *w, const char *name, bool want, const char *id, const char *what)
{
    struct cluster_drained done = {.id = "none"};
    struct err err = {""};

    ok(cluster_drain_peer(w->cluster, name, want, &done, &err), "%s: %s", what, err.text);
    is_str(done.id, id, "%s: it is meant", what);
}

static void refused(struct cluster_kit *w, const char *name, const char *text, const char *what)
{
    struct cluster_drained done;
    struct err drain = {""}, refresh = {""};

    ok(!cluster_drain_peer(w->cluster, name, true, &done, &drain), "%s: not drained", what);
    is_str(drain.text, text, "%s: why", what);
    is_null(cluster_refresh_server(w->cluster, name, &refresh), "%s: not read again", what);
    is_str(refresh.text, text, "%s: why", what);
}

/* More Leases than there may be servers: whose it is that nobody knows is told, and counted. */
static void too_many(void)
{
    struct cluster_kit w;
    const struct change *told;
    struct changes *changes = changes_new();
    char id[48], host[16];

    cluster_kit_init(&w, KIT_BASE);
    w.opts.changes = changes;
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    for (unsigned i = 0; i < LIMIT_PEERS; i++) {
        (void)snprintf(id, sizeof(id), "apiserver-a%025u", i);
        (void)snprintf(host, sizeof(host), "cp-%u", i);
        put_lease(&w, id, host, "");
    }
    sim_run_ms(w.loop, 500);
    is_u64((uint64_t)cluster_kit_metric(&w, "mvproxy_peers_ignored_total", NULL), 0, "as many as may be");
    put_lease(&w, ID("b"), "cp-late", "");
    sim_run_ms(w.loop, 500);
    told = changes_at(changes, true, 0);
    ok(told != NULL && strcmp(told->subject, "cp-late") == 0 && strstr(told->text, "256 other API servers") != NULL,
       "one more: told by its host name");
    ok(cluster_kit_metric(&w, "mvproxy_peers_ignored_total", NULL) >= 1, "and counted");
    cluster_kit_end(&w);
    changes_free(changes);
}

int main(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    struct err err = {""};

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BATCH);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    refused(&w, "cp-x", "", "nobody");
    is_str(cluster_nearest_peer(w.cluster, "pc-b"), "cp-b", "who was meant");
    is_null(cluster_nearest_peer(w.cluster, "elsewhere"), "nobody was");
    drained(&w, "cp-b", true, kube_id(b), "the only one");
    drained(&w, "cp-b", false, kube_id(b), "and again");
    put_lease(&w, ID("b"), "cp-b", "");
    put_lease(&w, ID("z"), "cp-b", "");
    sim_run_ms(w.loop, 500);
    drained(&w, "cp-b", true, kube_id(b), "others have no address");
    sim_run_ms(w.loop, 100);
    ok(cluster_kit_peer_of(&w, b)->drained, "and so it is");
    drained(&w, "cp-b", false, kube_id(b), "and back");
    is_str(cluster_refresh_server(w.cluster, "cp-b", &err), kube_id(b), "its discovery is read again");
    put_lease(&w, ID("b"), "cp-b", "10.0.0.2:6443");
    sim_run_ms(w.loop, 20000);
    drained(&w, "cp-b", true, kube_id(b), "another is at the same address, and not renewed");
    drained(&w, "cp-b", false, kube_id(b), "and back");
    sim_run_ms(w.loop, 60000);
    drained(&w, "cp-b", true, kube_id(b), "the other has lapsed");
    drained(&w, "cp-b", false, kube_id(b), "and back");

    put_lease(&w, ID("c"), "cp-c", "");
    put_lease(&w, ID("d"), "cp-c", "10.0.0.4:6443");
    put_lease(&w, ID("e"), "cp-c", "10.0.0.5:6443");
    sim_run_ms(w.loop, 500);
    refused(&w, "cp-c",
            "3 servers are named \"cp-c\"; give the ID of one: " ID("c") " (live, no address), " ID(
                "d") " (live, 10.0.0.4:6443), " ID("e") " (live, 10.0.0.5:6443)",
            "two may be meant");
    drained(&w, ID("d"), true, ID("d"), "by ID");
    drained(&w, "cp-c", false, ID("d"), "the one that is drained is not any more");
    put_lease(&w, ID("f"), ID("d"), "10.0.0.6:6443");
    sim_run_ms(w.loop, 500);
    drained(&w, ID("d"), true, ID("d"), "nobody's host name stands for another's ID");
    is_str(cluster_refresh_server(w.cluster, "cp-a", &err), kube_id(w.local), "the local one");
    put_lease(&w, ID("g"), "cp-a", "10.0.0.7:6443");
    sim_run_ms(w.loop, 500);
    is_str(cluster_refresh_server(w.cluster, "cp-a", &err), kube_id(w.local), "whoever else says that he is it");
    cluster_kit_end(&w);
    too_many();
    return tap_end();
}
