/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/plane_cluster.h"

#include "kube/disco.h"
#include "kube/schema_index.h"
#include "lib/disco_text.h"
#include "sim/fake_cluster.h"

#define RESOURCE(group, name)                                                                                          \
    "{\"metadata\":{\"name\":\"" group "\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"" name    \
    "\",\"responseKind\":{\"group\":\"" group "\",\"version\":\"v1\",\"kind\":\"Thing\"},\"scope\":\"Namespaced\","    \
    "\"singularResource\":\"thing\",\"verbs\":[\"get\",\"list\",\"watch\",\"create\"],\"subresources\":[{"             \
    "\"subresource\":\"exec\",\"verbs\":[\"create\",\"get\"]}]}]}]}"
#define MERGED DISCO_TEXT(RESOURCE("batch", "jobs"))
#define SCHEMAS(more) "{\"paths\":{\"api/v1\":{\"serverRelativeURL\":\"/openapi/v3/api/v1?hash=AA\"}" more "}}"

/* The same in all stories. */
static struct disco *local_disco, *peer_disco;
static struct schema_index *local_schemas, *peer_schemas;
static struct served_documents *merged_apis;

void plane_prepare(void)
{
    struct disco_doc *core = disco_doc_of(SLICE_LIT(DISCO_TEXT(RESOURCE("", "pods"))));
    struct disco_doc *nothing = disco_doc_of(SLICE_LIT(DISCO_TEXT(""))), *apis = disco_doc_of(SLICE_LIT(MERGED));

    sim_clock_start();
    local_disco = disco_new(core, nothing);
    peer_disco = disco_new(core, apis);
    merged_apis = fake_cluster_documents(MERGED, false, NULL, apis);
    local_schemas = fake_cluster_schemas(SCHEMAS(""), NULL);
    peer_schemas = fake_cluster_schemas(
        SCHEMAS(",\"apis/batch/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/batch/v1?hash=BB\"}"), NULL);
    disco_doc_unref(core);
    disco_doc_unref(nothing);
    disco_doc_unref(apis);
}

void plane_unprepare(void)
{
    schema_index_unref(local_schemas);
    schema_index_unref(peer_schemas);
    served_documents_unref(merged_apis);
    disco_unref(local_disco);
    disco_unref(peer_disco);
}

static bool know(struct plane *p, unsigned bits)
{
    bool known = (bits & SNAPSHOT_UNDISCOVERED) == 0, silent = (bits & SNAPSHOT_SILENT) != 0;
    struct served_peer peer = {.id = bits & SNAPSHOT_REPLACED ? "apiserver-bb" : "apiserver-b",
                               .host = bits & SNAPSHOT_RENAMED ? "host-b" : NULL,
                               .life = bits & SNAPSHOT_LAPSED ? SERVED_LAPSED : SERVED_LIVE,
                               .drained = (bits & SNAPSHOT_DRAINED) != 0,
                               .stale = silent,
                               .silent = silent,
                               .pending = !known && (bits & SNAPSHOT_EXPECTED) != 0,
                               .discovery_known = known,
                               .disco = known ? peer_disco : NULL,
                               .schemas = known ? peer_schemas : NULL,
                               .origin = bits & SNAPSHOT_UNADDRESSED ? NULL : p->origins[1]};
    struct served_input in = {.peers_enabled = true,
                              .leases_synced = (bits & SNAPSHOT_UNSYNCED) == 0,
                              .local_id = "apiserver-a",
                              .local = bits & SNAPSHOT_LOCAL_UNKNOWN ? NULL
                                       : bits & SNAPSHOT_LOCAL_ALL   ? peer_disco
                                                                     : local_disco,
                              .local_etag = {SLICE_LIT("\"L\"")},
                              .local_schemas = local_schemas,
                              .peers = &peer,
                              .n_peers = bits & SNAPSHOT_ALONE ? 0 : 1,
                              .documents = {[SERVED_APIS] = bits & SNAPSHOT_UNMERGED ? NULL : merged_apis}};

    return fake_cluster_know(p->cluster, &in);
}

void plane_snapshot(struct plane *p, unsigned bits)
{
    bool known = know(p, bits);

    plane_say(p, "another snapshot, %#x%s", bits, known ? "" : ": there is no memory for it");
}

void plane_local(struct plane *p, const struct plane_local *l)
{
    struct cluster *c = p->cluster;

    plane_say(p, "the local server is %s%s%s%s", readiness_name(l->state), l->loading ? ", loading" : "",
              l->unread ? ", not read" : "", l->no_failover ? ", and nobody takes over" : "");
    c->local_state = l->state;
    c->local_loading = c->peer_loading = l->loading;
    c->unread_local = l->unread;
    c->fails_over = !l->no_failover;
}

/* As good as asking: known again as soon as it can be reached. */
static bool is_reached(const void *local)
{
    return ((const struct sim_host *)local)->reach == SIM_REACHED;
}

static bool somebody_waits(void *arg)
{
    return ((struct cluster *)arg)->waiters.count > 0;
}

static void end_wait(void *arg)
{
    fake_cluster_refreshed(arg);
}

void plane_cluster_open(struct plane *p)
{
    p->cluster = fake_cluster_new();
    p->cluster->fails_over = true;
    p->cluster->reaches_local = is_reached;
    p->cluster->arg = &p->hosts[0];
    p->cluster->local_word = API_WORD_READY;
    (void)know(p, 0);
    sim_source_add(p->loop, &p->refreshes, somebody_waits, end_wait, p->cluster);
}

void plane_cluster_close(struct plane *p)
{
    sim_source_remove(&p->refreshes);
    fake_cluster_free(p->cluster);
}
