/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/plane_world.h"

#include <stdlib.h>

#include "base/clock.h"
#include "cluster/cluster.h"
#include "kube/disco_parse.h"
#include "kube/schema_index.h"

#define LIST(items)                                                                                                    \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[" items  \
    "]}"
#define RESOURCE(group, name)                                                                                          \
    "{\"metadata\":{\"name\":\"" group "\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"" name    \
    "\",\"responseKind\":{\"group\":\"" group "\",\"version\":\"v1\",\"kind\":\"Thing\"},\"scope\":\"Namespaced\","    \
    "\"singularResource\":\"thing\",\"verbs\":[\"get\",\"list\",\"watch\",\"create\"],\"subresources\":[{"             \
    "\"subresource\":\"exec\",\"verbs\":[\"create\",\"get\"]}]}]}]}"
#define MERGED LIST(RESOURCE("batch", "jobs"))

#define SCHEMAS(more) "{\"paths\":{\"api/v1\":{\"serverRelativeURL\":\"/openapi/v3/api/v1?hash=AA\"}" more "}}"

/* The same in all stories. */
static struct disco *local_disco, *peer_disco;
static struct schema_index *local_schemas, *peer_schemas;
static struct served_documents *merged_apis;

/* ---- cluster/cluster.h: as plane_world.h has it, and a refresh ends when the loop gets to it ---- */

struct cluster_waiter {
    struct list_node node;
    void (*done)(void *arg);
    void *arg;
};

struct cluster {
    struct served *served;
    const struct sim_host *local;
    bool missed; /* a connection to the local server failed */
    struct plane_local told;
    struct list waiters;
    struct sim_source source;
};

static bool somebody_waits(void *arg)
{
    return ((struct cluster *)arg)->waiters.count > 0;
}

static void end_wait(void *arg)
{
    struct cluster *c = arg;
    struct cluster_waiter *w = list_entry(list_pop_front(&c->waiters), struct cluster_waiter, node), copy = *w;

    free(w);
    copy.done(copy.arg);
}

static struct cluster_waiter *wait_for(struct cluster *c, void (*done)(void *arg), void *arg)
{
    struct cluster_waiter *w = done == NULL ? NULL : calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->done = done;
    w->arg = arg;
    list_push_back(&c->waiters, &w->node);
    return w;
}

struct served *cluster_served(struct cluster *c)
{
    return c->served;
}

struct cluster_waiter *cluster_local_miss(struct cluster *c, void (*done)(void *arg), void *arg)
{
    return wait_for(c, done, arg);
}

struct cluster_waiter *cluster_want_protobuf(struct cluster *c, void (*done)(void *arg), void *arg)
{
    return wait_for(c, done, arg);
}

void cluster_forget_waiter(struct cluster *c, struct cluster_waiter *w)
{
    list_remove(&c->waiters, &w->node);
    free(w);
}

bool cluster_local_unread(const struct cluster *c)
{
    return c->told.unread;
}

void cluster_local_suspect(struct cluster *c)
{
    (void)c;
}

void cluster_peer_missed(struct cluster *c, const char *peer_id)
{
    (void)c;
    (void)peer_id;
}

void cluster_peer_suspect(struct cluster *c, const char *peer_id)
{
    (void)c;
    (void)peer_id;
}

void cluster_disbelieved(struct cluster *c, const char *server, const struct gvr *gvr)
{
    (void)c;
    (void)server;
    (void)gvr;
}

bool cluster_disbelieved_lately(const struct cluster *c, const char *server, const struct gvr *gvr, uint64_t *ago_ms)
{
    (void)c;
    (void)server;
    (void)gvr;
    (void)ago_ms;
    return false;
}

void cluster_peer_answered(struct cluster *c, const char *peer_id)
{
    (void)c;
    (void)peer_id;
}

void cluster_server_answered(struct cluster *c, const char *peer_id, uint64_t sent_ms)
{
    (void)c, (void)peer_id, (void)sent_ms;
}

void cluster_local_etag_seen(struct cluster *c, struct slice etag)
{
    (void)c;
    (void)etag;
}

const struct user_headers *cluster_front_named(const struct cluster *c)
{
    static const struct user_headers none = {0};

    (void)c;
    return &none;
}

bool cluster_fails_over(const struct cluster *c)
{
    return !c->told.no_failover;
}

/* As good as asking, unless told otherwise: known again as soon as it can be reached. */
enum readiness_state cluster_local_state(const struct cluster *c)
{
    if (c->told.state != READINESS_READY)
        return c->told.state;
    return c->missed && c->local->reach != SIM_REACHED ? READINESS_UNREACHABLE : READINESS_READY;
}

bool cluster_local_was_loading(const struct cluster *c, uint64_t sent_ms)
{
    (void)sent_ms;
    return c->told.loading;
}

enum api_word cluster_local_word(const struct cluster *c, uint64_t sent_ms)
{
    (void)c;
    (void)sent_ms;
    return API_WORD_READY;
}

bool cluster_peer_was_loading(struct cluster *c, const char *peer_id, uint64_t sent_ms)
{
    (void)peer_id;
    (void)sent_ms;
    return c->told.loading;
}

void cluster_local_failed(struct cluster *c, bool unreachable)
{
    c->missed |= unreachable;
}

bool cluster_peers_synced(struct cluster *c, char *reason, size_t n)
{
    (void)c;
    (void)reason;
    (void)n;
    return true;
}

static struct disco_doc *parse(const char *text)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(slice_str(text), &err);

    if (d == NULL)
        abort();
    return d;
}

static struct schema_index *schemas(const char *text)
{
    struct schema_index *x = schema_index_parse(slice_str(text));

    if (x == NULL)
        abort();
    return x;
}

static struct served_documents *documents(const char *text, const struct disco_doc *parsed)
{
    struct served_document shapes[SERVED_SHAPES] = {{.body = SLICE_NONE}};
    char *storage[SERVED_SHAPES * 3] = {NULL};

    for (size_t i = 0; i < SERVED_JSON_SHAPES; i++) {
        storage[i] = mem_strdup(text);
        shapes[i] = (struct served_document){.body = slice_str(storage[i]), .etag = SLICE_LIT("\"M\"")};
    }
    return served_documents_new(shapes, storage, parsed);
}

void plane_prepare(void)
{
    struct disco_doc *core = parse(LIST(RESOURCE("", "pods"))), *nothing = parse(LIST("")), *apis = parse(MERGED);

    sim_clock_start();
    local_disco = disco_new(core, nothing);
    peer_disco = disco_new(core, apis);
    merged_apis = documents(MERGED, apis);
    local_schemas = schemas(SCHEMAS(""));
    peer_schemas = schemas(SCHEMAS(",\"apis/batch/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/batch/v1?hash=BB\"}"));
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

static struct served *make_snapshot(struct plane *p, unsigned bits)
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
                              .generation = ++p->generation,
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

    return served_new(&in);
}

void plane_snapshot(struct plane *p, unsigned bits)
{
    struct served *s = make_snapshot(p, bits);

    plane_say(p, "another snapshot, %#x%s", bits, s == NULL ? ": there is no memory for it" : "");
    if (s == NULL)
        return;
    served_unref(p->cluster->served);
    p->cluster->served = s;
}

void plane_local(struct plane *p, const struct plane_local *l)
{
    plane_say(p, "the local server is %s%s%s%s", readiness_name(l->state), l->loading ? ", loading" : "",
              l->unread ? ", not read" : "", l->no_failover ? ", and nobody takes over" : "");
    p->cluster->told = *l;
}

void plane_world_open(struct plane *p)
{
    p->cluster = calloc(1, sizeof(*p->cluster));
    p->cluster->local = &p->hosts[0];
    list_init(&p->cluster->waiters);
    p->cluster->served = make_snapshot(p, 0);
    sim_source_add(p->loop, &p->cluster->source, somebody_waits, end_wait, p->cluster);
}

bool plane_world_is_waited_for(const struct plane *p)
{
    return p->cluster->waiters.count > 0;
}

void plane_world_forget(struct plane *p)
{
    served_unref(p->cluster->served);
    p->cluster->served = NULL;
}

void plane_world_close(struct plane *p)
{
    sim_source_remove(&p->cluster->source);
    free(p->cluster);
}
