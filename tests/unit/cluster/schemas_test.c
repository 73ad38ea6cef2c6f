/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas are read with discovery, conditionally, and what is known of them stays true. */
#include "cluster/schemas.h"

#include "base/limits.h"
#include "cluster/cluster_view.h"
#include "lib/tap.h"
#include "sim/cluster_kit.h"

enum { A_WHILE_MS = 100, INTERVAL_MS = 35000 };

static bool skewed(struct cluster_kit *w)
{
    return served_skewed(cluster_served(w->cluster), SLICE_LIT("apps"), SLICE_LIT("v1"));
}

static uint64_t release_of(unsigned minor)
{
    return (uint64_t)1 << 40 | (uint64_t)minor << 20;
}

/* Not started yet. */
static struct kube_server *prepare(struct cluster_kit *w, const char *local, const char *peer)
{
    struct kube_server *b;

    cluster_kit_init(w, KIT_BASE);
    b = cluster_kit_peer(w, "cp-b", "10.0.0.2:6443", KIT_BASE);
    kube_set_schemas(w->local, local);
    kube_set_schemas(b, peer);
    return b;
}

static struct kube_server *two(struct cluster_kit *w, const char *local, const char *peer)
{
    struct kube_server *b = prepare(w, local, peer);

    kube_set_minor(b, 35);
    cluster_kit_start(w);
    ok(cluster_kit_ready(w, 2000), "ready");
    sim_run_ms(w->loop, A_WHILE_MS);
    return b;
}

static void differ(void)
{
    struct cluster_kit w;
    struct kube_server *b = two(&w, "A", "B");

    ok(skewed(&w), "other hashes: skewed");
    ok(served_local_release(cluster_served(w.cluster)) == release_of(34), "release of the local server");
    ok(cluster_kit_peer_of(&w, b)->release == release_of(35), "and of the peer");
    is_double(cluster_kit_metric(&w, "mvproxy_skewed_group_versions", NULL), 1, "counted");
    sim_run_ms(w.loop, 2 * INTERVAL_MS);
    ok(kube_schemas_unchanged(b) > 0 && kube_schemas_unchanged(w.local) > 0, "asked again conditionally");
    ok(skewed(&w), "nothing has changed");
    kube_set_schemas(b, "A");
    sim_run_ms(w.loop, INTERVAL_MS);
    ok(!skewed(&w), "the same now");
    kube_set_schemas(b, "C");
    sim_run_ms(w.loop, INTERVAL_MS);
    ok(skewed(&w), "and others again");
    kube_set_schemas(b, NULL);
    sim_run_ms(w.loop, INTERVAL_MS);
    ok(!skewed(&w), "a server that has no index any more has no say");
    is_u64(kube_unmarked(w.local) + kube_unmarked(b), 0, "all asked as ourselves, marked");
    cluster_kit_end(&w);
}

/* Another process, of another release: what is known of the one before counts no more. */
static void replaced(void)
{
    struct cluster_kit w;
    struct kube_server *b = two(&w, "A", "B");

    kube_stop(b, true);
    kube_set_schemas(b, "A");
    kube_set_minor(b, 36);
    kube_start(b, 0);
    sim_run_ms(w.loop, 5000);
    ok(!skewed(&w) && cluster_kit_peer_of(&w, b)->release == release_of(36), "read again with its discovery");
    cluster_kit_end(&w);
}

/* Until its index has been read the one of before says which paths there are. */
static void replaced_unread(void)
{
    struct cluster_kit w;
    struct kube_server *b = two(&w, "A", "B");
    const struct served_peer *p;

    kube_stop(b, true);
    kube_forbid(b, "/openapi/v3", 0);
    kube_start(b, 0);
    sim_run_ms(w.loop, 5000);
    p = cluster_kit_peer_of(&w, b);
    ok(p->discovery_known && p->schemas == NULL && schema_index_count(p->last_schemas) > 0,
       "not known, and not forgotten");
    ok(!p->schemas_pending, "nobody waits for it: there is something to be said");
    kube_forbid(b, NULL, 0);
    sim_run_ms(w.loop, 2 * INTERVAL_MS);
    p = cluster_kit_peer_of(&w, b);
    ok(p->schemas != NULL && p->last_schemas == p->schemas, "until it is read");
    kube_stop(b, true);
    kube_forbid(b, "/openapi/v3", 403);
    kube_start(b, 0);
    sim_run_ms(w.loop, 5000);
    p = cluster_kit_peer_of(&w, b);
    ok(p->discovery_known && p->last_schemas == NULL, "or until it says that it gives none");
    cluster_kit_end(&w);
}

/* At the start the first index of each is waited for, not for long. */
static void waited_for(void)
{
    char reason[200] = "";
    struct cluster_kit w;
    struct kube_server *b = prepare(&w, "A", "B");

    kube_forbid(b, "/openapi/v3", 0);
    cluster_kit_start(&w);
    sim_run_ms(w.loop, SCHEMAS_EXPECTED_MS / 2);
    ok(!cluster_peers_synced(w.cluster, reason, sizeof(reason)) && strstr(reason, "schemas") != NULL, "not ready: %s",
       reason);
    ok(cluster_kit_peer_of(&w, b)->schemas_pending, "they are expected");
    sim_run_ms(w.loop, SCHEMAS_EXPECTED_MS);
    ok(cluster_peers_synced(w.cluster, reason, sizeof(reason)) && !cluster_kit_peer_of(&w, b)->schemas_pending,
       "who does not answer is not waited for");
    cluster_kit_end(&w);
}

/* Half of an answer is none. */
static void without_version(void)
{
    struct cluster_kit w;
    struct kube_server *b = prepare(&w, "A", "B");

    kube_forbid(b, "/version", 500);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "ready");
    sim_run_ms(w.loop, A_WHILE_MS);
    ok(!skewed(&w), "no release: not known");
    kube_forbid(b, NULL, 0);
    sim_run_ms(w.loop, INTERVAL_MS);
    ok(skewed(&w), "with the next look it is");
    cluster_kit_end(&w);
}

/* kube-apiserver gives no tag: all of it comes each time, and is nothing new. */
static void untagged(void)
{
    struct cluster_kit w;
    struct kube_server *b;
    uint64_t generation, versions;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BASE);
    kube_set_schemas(w.local, "A");
    kube_set_schemas(b, "B");
    kube_untag_schemas(w.local);
    kube_untag_schemas(b);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "untagged: ready");
    sim_run_ms(w.loop, A_WHILE_MS);
    generation = served_generation(cluster_served(w.cluster));
    versions = kube_version_requests(b);
    sim_run_ms(w.loop, 10 * INTERVAL_MS);
    is_u64(served_generation(cluster_served(w.cluster)), generation, "untagged: the same index is no new snapshot");
    is_u64(kube_version_requests(b), versions, "untagged: nor asked about");
    kube_set_schemas(b, "A");
    sim_run_ms(w.loop, INTERVAL_MS);
    ok(!skewed(&w), "untagged: another one is seen");
    is_u64(served_generation(cluster_served(w.cluster)), generation + 1, "untagged: one change, one snapshot");
    cluster_kit_end(&w);
}

static const char *unusable(struct cluster_kit *w, size_t server)
{
    struct cluster_view v;
    const char *why;

    if (!cluster_view_take(w->cluster, &v))
        tap_bail("no memory for the view");
    why = v.servers[server].schemas_unusable;
    cluster_view_free(&v);
    return why == NULL ? "-" : why;
}

/* Some 4 MB of CRDs are read, like any other; what is more than that, or makes no sense, is said, and the last counts.
 */
static void large(void)
{
    struct cluster_kit w;
    struct kube_server *b;

    cluster_kit_init(&w, KIT_BASE);
    b = cluster_kit_peer(&w, "cp-b", "10.0.0.2:6443", KIT_BASE);
    kube_set_schemas(w.local, "A");
    kube_set_schemas(b, "B");
    kube_add_schemas(w.local, 20000);
    kube_add_schemas(b, 20001);
    kube_untag_schemas(b);
    cluster_kit_start(&w);
    ok(cluster_kit_ready(&w, 2000), "large: ready");
    sim_run_ms(w.loop, 2000);
    ok(skewed(&w), "large: both indexes are read");
    is_u64(schema_index_count(cluster_kit_peer_of(&w, b)->schemas), 20001 + 1, "large: whole");
    is_str(unusable(&w, 1), "-", "large: nothing to say");
    kube_add_schemas(b, 50000);
    sim_run_ms(w.loop, INTERVAL_MS);
    is_str(unusable(&w, 1), "it is over 8 MiB", "too large: said");
    is_u64(schema_index_count(cluster_kit_peer_of(&w, b)->schemas), 20001 + 1, "too large: the last one counts");
    kube_set_schemas(b, "\"");
    kube_add_schemas(b, 10);
    sim_run_ms(w.loop, INTERVAL_MS);
    is_str(unusable(&w, 1), "it is malformed, or has more than 65536 documents", "not understood: said");
    kube_set_schemas(b, "A");
    kube_add_schemas(b, 20000);
    sim_run_ms(w.loop, INTERVAL_MS);
    is_str(unusable(&w, 1), "-", "as before: no longer said");
    ok(!skewed(&w), "as before: read");
    kube_set_schemas(b, NULL);
    sim_run_ms(w.loop, INTERVAL_MS);
    is_str(unusable(&w, 1), "-", "none: not needed");
    kube_set_schemas(b, "A");
    kube_add_schemas(b, 50000);
    sim_run_ms(w.loop, INTERVAL_MS);
    is_str(unusable(&w, 1), "it is over 8 MiB", "too large again: said");
    kube_set_schemas(b, NULL);
    sim_run_ms(w.loop, INTERVAL_MS);
    is_str(unusable(&w, 1), "-", "none any more: not said");
    cluster_kit_end(&w);
}

static bool serve_much(void *arg, struct sim_request *q)
{
    sim_reply(q, 404, "text/plain", NULL, *(struct slice *)arg);
    return true;
}

/* No index: how long the answer is does not matter, as it is not read to its end. */
static void endless_denial(void)
{
    struct slice much = {mem_zalloc(LIMIT_SMALL_BODY + 1), LIMIT_SMALL_BODY + 1};
    struct cluster_kit w;
    struct kube_server *b = two(&w, "A", "B");

    kube_set_schemas(b, NULL);
    kube_set_extra(b, serve_much, &much);
    sim_run_ms(w.loop, INTERVAL_MS);
    ok(skewed(&w), "a denial that is too long to be one says nothing");
    much.n = LIMIT_SMALL_BODY;
    sim_run_ms(w.loop, INTERVAL_MS);
    ok(!skewed(&w), "one that is just as long as it may be is read");
    cluster_kit_end(&w);
    mem_free((char *)(uintptr_t)much.p);
}

int main(void)
{
    endless_denial();
    differ();
    untagged();
    replaced();
    replaced_unread();
    waited_for();
    without_version();
    large();
    return tap_end();
}
