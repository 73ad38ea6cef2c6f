/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/leases.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/strmap.h"
#include "cluster/informer.h"
#include "cluster/peers.h"
#include "kube/lease.h"

/* kube-apiserver renews every 10 s ± 4 %: two renewals missed by everybody mean that the watch is dead, not the
 * cluster. */
enum { SILENCE_MS = 25000, LEASE_ARENA = 4 * LIMIT_LEASE_BYTES };

/*
 * 1.26 labels its Leases otherwise than all later versions. Two selectors are two collections to the API server. What
 * an upgrade leaves behind in the older one stays there unrenewed for an hour: its silence says nothing.
 */
enum { SOURCES = 2 };
static const struct {
    const char *name, *query;
    uint64_t silence_ms;
} kinds[SOURCES] = {
    {"leases", "labelSelector=apiserver.kubernetes.io%2Fidentity%3D" LEASE_IDENTITY_VALUE, SILENCE_MS},
    {"leases-1.26", "labelSelector=k8s.io%2Fcomponent%3D" LEASE_IDENTITY_VALUE, 0},
};

struct source {
    struct leases *leases;
    struct informer *informer;
    bool failing;
};

struct leases {
    struct source sources[SOURCES];
    struct peers *peers;
    const struct leases_handler *handler;
    void *arg;
    char *own_id;
    char own_name[LEASE_NAME_BYTES]; /* of the own Lease while it is seen; else "" */
    struct arena *arena;             /* of the Lease in hand */
    struct strmap *refused;          /* keys that have been complained about */
};

/* Once per object: a Lease is renewed every ten seconds. */
static void complain(struct leases *l, struct slice key, const char *why)
{
    if (strmap_get(l->refused, key) != NULL)
        return;
    if (strmap_count(l->refused) >= LIMIT_PEERS || !strmap_put(l->refused, key, l, NULL))
        return;
    log_warning("Ignoring a Lease that is no API server identity", LS("lease", key), LT("err", why));
    l->handler->on_refused(l->arg, key, why);
}

static bool is_of(const char *holder, struct slice name)
{
    return slice_has_prefix(slice_str(holder), name) && holder[name.n] == '_';
}

/*
 * A server that was upgraded from 1.26 has two Leases, or was taken back to it. They are written by the clock of one
 * host: the newer one is renewed, unless both are, for somebody else publishes the later one; then it is the one. Two
 * renewals missed are enough to know: sooner than a peer lapses.
 */
static bool counts(const struct leases *l, const struct lease *lease, struct slice id)
{
    const struct peer *p = peers_find(l->peers, id);

    if (p == NULL || !p->leased || is_of(p->holder, lease->name))
        return true;
    return lease->renew_us > p->renew_us + (lease_is_126(lease) ? PEERS_REPLACED_MS * 1000ll : 0);
}

static void gone(struct leases *l, struct slice name, bool unseen)
{
    struct peer *p;
    size_t i = 0;

    if (slice_eq(name, slice_str(l->own_name)))
        l->own_name[0] = '\0';
    while ((p = peers_next(l->peers, &i)) != NULL)
        if (p->leased && is_of(p->holder, name)) {
            peers_lease_gone(l->peers, slice_str(p->id), unseen);
            return;
        } else if (is_of(p->other_holder, name)) {
            peers_other_gone(l->peers, slice_str(p->id));
            return;
        }
}

/* The newer one: what an upgrade has left behind says where the server was. */
static bool newer(const struct leases *l, const struct lease *lease, struct slice id)
{
    const struct peer *p = peers_find(l->peers, id);

    return p != NULL && lease->renew_us > p->renew_us;
}

static void take(struct leases *l, struct lease *lease, struct slice id)
{
    enum peer_lease which = lease_is_126(lease) ? PEER_LEASE_126 : PEER_LEASE;
    enum peers_other other = counts(l, lease, id) ? PEERS_OTHER_REPLACES : peers_saw_other(l->peers, id, lease, which);

    /* It was created since the last list, whatever the clock of its host says. */
    if (other == PEERS_OTHER_FIRST && leases_synced(l))
        other = PEERS_OTHER_WRITTEN;
    if (other == PEERS_OTHER_REPLACES) {
        lease->name = id;
        peers_lease(l->peers, lease);
    } else if (other == PEERS_OTHER_WRITTEN || newer(l, lease, id)) {
        peers_lend_address(l->peers, id, lease->advertise);
    }
    peers_lease_says(l->peers, id, which, lease);
}

/*
 * From here on holders begin with their Lease's name: by that it is known which of two Leases a server is known by. Who
 * has put in another one has not changed that. False: no memory.
 */
static bool name_holder(struct leases *l, struct lease *lease)
{
    struct slice name = lease->name, holder = lease->holder;

    if (lease_holder_by_name(lease))
        return true;
    lease->holder = arena_printf(l->arena, "%.*s_%.*s", (int)name.n, name.p, (int)holder.n, holder.p);
    return lease->holder.n > 0;
}

/* What is lost for want of memory comes again with the next renewal. */
static bool on_object(void *arg, struct slice key, struct slice json)
{
    struct leases *l = ((struct source *)arg)->leases;
    char id[LEASE_NAME_BYTES];
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
            gone(l, lease.name, false);
        return true;
    }
    (void)strmap_remove(l->refused, key);
    lease_server_id(&lease, id);
    if (strcmp(id, l->own_id) == 0) {
        memcpy(l->own_name, lease.name.p, lease.name.n);
        l->own_name[lease.name.n] = '\0';
        l->handler->on_own(l->arg, &lease);
    } else if (name_holder(l, &lease)) {
        take(l, &lease, slice_str(id));
    }
    return true;
}

/* Whatever it says: an identity is small, and what is not read cannot be judged. */
static void on_too_large(void *arg, struct slice key)
{
    struct leases *l = ((struct source *)arg)->leases;
    struct slice name = key, ns;

    complain(l, key, "too large");
    if (slice_split(&name, '/', &ns) && slice_eq(ns, SLICE_LIT(LEASE_NAMESPACE)))
        gone(l, name, false);
}

static void on_gone(void *arg, struct slice key)
{
    const struct source *s = arg;
    struct leases *l = s->leases;
    struct slice name = key, ns;

    (void)strmap_remove(l->refused, key);
    if (slice_split(&name, '/', &ns) && slice_eq(ns, SLICE_LIT(LEASE_NAMESPACE)))
        gone(l, name, !informer_watching(s->informer));
}

static void on_synced(void *arg)
{
    struct leases *l = ((struct source *)arg)->leases;

    /* One list while watching fails says nothing of what comes after it. */
    peers_set_watching(l->peers, leases_synced(l) && leases_failure(l) == NULL);
    l->handler->on_synced(l->arg);
}

static void on_health(void *arg, const char *why)
{
    struct source *s = arg;
    struct leases *l = s->leases;
    bool before = l->sources[0].failing || l->sources[1].failing, now;

    s->failing = why != NULL;
    now = l->sources[0].failing || l->sources[1].failing;
    peers_set_watching(l->peers, !now && leases_synced(l));
    if (now != before)
        l->handler->on_health(l->arg, why);
}

/* Not where all servers were taken back to 1.26: nobody renews what their later versions have left. */
static bool silence_tells(void *arg)
{
    const struct leases *l = ((const struct source *)arg)->leases;
    const struct peer *p;
    size_t i = 0;

    if (strcmp(l->own_name, l->own_id) == 0)
        return true;
    while ((p = peers_next(l->peers, &i)) != NULL)
        if (p->leased && p->life == PEER_LIVE && is_of(p->holder, slice_str(p->id)))
            return true;
    return false;
}

static const struct informer_handler informer_handler = {.on_object = on_object,
                                                         .on_gone = on_gone,
                                                         .on_too_large = on_too_large,
                                                         .on_synced = on_synced,
                                                         .on_health = on_health,
                                                         .silence_tells = silence_tells};

static bool follow(struct leases *l, struct api *api, size_t which)
{
    struct source *s = &l->sources[which];
    const struct informer_opts o = {
        .api = api,
        .name = kinds[which].name,
        .path = LEASE_COLLECTION_PATH,
        .query = kinds[which].query,
        .list_ceiling = LIMIT_LEASE_LIST_BYTES,
        .object_limit = LIMIT_LEASE_BYTES,
        .silence_ms = kinds[which].silence_ms,
    };

    s->leases = l;
    s->informer = informer_new(&o, &informer_handler, s);
    return s->informer != NULL;
}

struct leases *leases_new(struct api *api, struct peers *peers, const char *own_id, const struct leases_handler *h,
                          void *arg)
{
    struct leases *l = mem_zalloc(sizeof(*l));

    if (l == NULL)
        return NULL;
    l->peers = peers;
    l->handler = h;
    l->arg = arg;
    l->own_id = mem_strdup(own_id);
    l->arena = arena_new(LEASE_ARENA);
    l->refused = strmap_new();
    if (l->own_id != NULL && l->arena != NULL && l->refused != NULL && follow(l, api, 0) && follow(l, api, 1))
        return l;
    leases_free(l);
    return NULL;
}

void leases_free(struct leases *l)
{
    if (l == NULL)
        return;
    for (size_t i = 0; i < SOURCES; i++)
        informer_free(l->sources[i].informer);
    strmap_free(l->refused);
    arena_free(l->arena);
    mem_free(l->own_id);
    mem_free(l);
}

void leases_restart(struct leases *l)
{
    peers_set_watching(l->peers, false);
    for (size_t i = 0; i < SOURCES; i++)
        informer_restart(l->sources[i].informer);
}

void leases_retry(struct leases *l)
{
    for (size_t i = 0; i < SOURCES; i++)
        informer_retry(l->sources[i].informer);
}

bool leases_synced(const struct leases *l)
{
    return informer_synced(l->sources[0].informer) && informer_synced(l->sources[1].informer);
}

unsigned leases_refused(const struct leases *l)
{
    unsigned first = informer_refused(l->sources[0].informer);

    return first != 0 ? first : informer_refused(l->sources[1].informer);
}

const char *leases_failure(const struct leases *l)
{
    const char *why = informer_failure(l->sources[0].informer);

    return why != NULL ? why : informer_failure(l->sources[1].informer);
}

bool leases_own_seen(const struct leases *l)
{
    return l->own_name[0] != '\0';
}

void leases_describe(const struct leases *l, struct buf *out)
{
    informer_describe(l->sources[0].informer, out);
}
