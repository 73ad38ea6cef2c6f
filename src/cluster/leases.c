#include "cluster/leases.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/strmap.h"
#include "cluster/informer.h"
#include "cluster/peers.h"
#include "kube/lease.h"

/* kube-apiserver renews every 10 s ± 4 %: two renewals missed by everybody mean that the watch is dead, not the
 * cluster. */
enum { SILENCE_MS = 25000, LEASE_ARENA = 2 * LIMIT_WATCH_LINE_BYTES };

struct leases {
    struct informer *informer;
    struct peers *peers;
    const struct leases_handler *handler;
    void *arg;
    char *own_id;
    bool own_seen;
    struct arena *arena;    /* of the Lease in hand */
    struct strmap *refused; /* keys that have been complained about */
};

/* Once per object: a Lease is renewed every ten seconds. */
static void complain(struct leases *l, struct slice key, const char *why)
{
    if (strmap_get(l->refused, key) != NULL)
        return;
    if (strmap_count(l->refused) >= LIMIT_PEERS || !strmap_put(l->refused, key, l, NULL))
        return;
    log_warning("Ignoring a Lease that is no API server identity", LS("lease", key), LT("err", why));
}

/* What is lost for want of memory comes again with the next renewal. */
static bool on_object(void *arg, struct slice key, struct slice json)
{
    struct leases *l = arg;
    struct lease lease;
    struct err err = {.text = ""};
    const char *refusal;

    arena_reset(l->arena);
    if (!lease_parse(l->arena, json, &lease, &err)) {
        complain(l, key, err.text);
        return true;
    }
    refusal = lease_refusal(&lease);
    if (refusal != NULL) {
        complain(l, key, refusal);
        /* It may have been a good one before. */
        if (slice_eq(lease.ns, SLICE_LIT(LEASE_NAMESPACE)))
            peers_lease_gone(l->peers, lease.name);
        return true;
    }
    (void)strmap_remove(l->refused, key);
    if (slice_eq(lease.name, slice_str(l->own_id))) {
        l->own_seen = true;
        l->handler->on_own(l->arg, &lease);
    } else
        peers_lease(l->peers, &lease);
    return true;
}

static void on_gone(void *arg, struct slice key)
{
    struct leases *l = arg;
    struct slice name = key, ns;

    (void)strmap_remove(l->refused, key);
    if (!slice_split(&name, '/', &ns) || !slice_eq(ns, SLICE_LIT(LEASE_NAMESPACE)))
        return;
    if (slice_eq(name, slice_str(l->own_id)))
        l->own_seen = false;
    else
        peers_lease_gone(l->peers, name);
}

static void on_synced(void *arg)
{
    struct leases *l = arg;

    /* One list while watching fails says nothing of what comes after it. */
    peers_set_sight(l->peers, informer_failure(l->informer) == NULL);
    l->handler->on_synced(l->arg);
}

static void on_health(void *arg, const char *why)
{
    struct leases *l = arg;

    peers_set_sight(l->peers, why == NULL);
    l->handler->on_health(l->arg, why);
}

static const struct informer_handler informer_handler = {
    .on_object = on_object, .on_gone = on_gone, .on_synced = on_synced, .on_health = on_health};

struct leases *leases_new(struct api *api, struct origin *local, struct peers *peers, const char *own_id,
                          const struct leases_handler *h, void *arg)
{
    struct leases *l = mem_zalloc(sizeof *l);
    const struct informer_opts o = {
        .api = api,
        .origin = local,
        .name = "leases",
        .path = LEASE_COLLECTION_PATH,
        .query = "labelSelector=apiserver.kubernetes.io%2Fidentity%3D" LEASE_IDENTITY_VALUE,
        .list_ceiling = LIMIT_LEASE_LIST_BYTES,
        .line_limit = LIMIT_WATCH_LINE_BYTES,
        .silence_ms = SILENCE_MS,
    };

    if (l == NULL)
        return NULL;
    l->peers = peers;
    l->handler = h;
    l->arg = arg;
    l->own_id = mem_strdup(own_id);
    l->arena = arena_new(LEASE_ARENA);
    l->refused = strmap_new();
    if (l->own_id != NULL && l->arena != NULL && l->refused != NULL)
        l->informer = informer_new(&o, &informer_handler, l);
    if (l->informer != NULL)
        return l;
    leases_free(l);
    return NULL;
}

void leases_free(struct leases *l)
{
    if (l == NULL)
        return;
    informer_free(l->informer);
    if (l->refused != NULL)
        strmap_free(l->refused);
    arena_free(l->arena);
    mem_free(l->own_id);
    mem_free(l);
}

void leases_restart(struct leases *l, struct origin *local)
{
    peers_set_sight(l->peers, false);
    informer_restart(l->informer, local);
}

struct informer *leases_informer(struct leases *l)
{
    return l->informer;
}

bool leases_own_seen(const struct leases *l)
{
    return l->own_seen;
}
