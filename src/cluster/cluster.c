#include "cluster/cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "back/back.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/cluster_collect.h"
#include "cluster/cluster_describe.h"
#include "cluster/cluster_internal.h"
#include "cluster/exclusions.h"
#include "cluster/informer.h"
#include "cluster/leases.h"
#include "cluster/peers.h"
#include "cluster/publish.h"
#include "cluster/records.h"
#include "cluster/refresh.h"

enum {
    MEMORY_RETRY_MS = 1000,
    LOOKS_TOGETHER = 8, /* that join another in one turn of the loop: some 50 us each */
};

/* ------------------------------------------------------------------------------------------------------- local */

/* Many things break a watch. But the connections of a process end with it, so that another one answers over a newer
 * one. */
static void look_for_restart(struct cluster *c)
{
    uint64_t before = c->local_connection;

    c->local_connection = refresh_connection(c->local);
    if (c->local_suspect && before > 0 && c->local_connection > before)
        identity_restarted(c->identity);
    c->local_suspect = false;
}

static void on_local_end(void *arg, bool ok, bool changed)
{
    struct cluster *c = arg;

    if (ok)
        look_for_restart(c);
    if (changed)
        publish_request(c->publish);
    waiters_looked(&c->waiters, publish_pending(c->publish));
}

static bool is_watched(void *arg)
{
    const struct peer *peer = arg;
    const struct cluster *c = peer->owner;

    return peers_watched(c->peers, peer);
}

static void look_together(struct cluster *c)
{
    unsigned joined = refresh_join(c->local);
    struct peer *p;
    size_t i = 0;

    while (c->peers != NULL && joined < LOOKS_TOGETHER && (p = peers_next(c->peers, &i)) != NULL)
        joined += p->refresh != NULL && refresh_join(p->refresh);
}

static void on_local_interval(void *arg)
{
    look_together(arg);
}

static void on_peer_interval(void *arg)
{
    const struct peer *peer = arg;

    look_together(peer->owner);
}

static struct refresh *new_refresh(struct cluster *c, const char *name, struct peer *peer,
                                   void (*on_end)(void *arg, bool ok, bool changed))
{
    const struct refresh_opts o = {
        .api = c->api,
        .name = name,
        .peer = peer != NULL,
        .interval_ms = c->o.refresh_interval_ms,
        .metrics = &c->metrics,
        .watched = peer != NULL ? is_watched : NULL,
        .on_interval = peer != NULL ? on_peer_interval : on_local_interval,
        .on_end = on_end,
        .arg = peer != NULL ? (void *)peer : (void *)c,
    };

    return refresh_new(&o);
}

/* ------------------------------------------------------------------------------------------------------- peers */

static void on_peer_end(void *arg, bool ok, bool changed)
{
    struct peer *peer = arg;
    struct cluster *c = peer->owner;

    if (changed)
        publish_request(c->publish);
    if (ok)
        peers_answered(c->peers, peer);
}

/* A forgotten peer is asked no more; without a Lease its answers are the only sign of life there can be. */
static bool worth_asking(const struct peer *peer)
{
    return peer->life != PEER_FORGOTTEN || !peer->leased;
}

static void set_origin(struct cluster *c, struct peer *peer)
{
    if (peer->refresh == NULL)
        return;
    if (peer->origin == NULL && peer->life == PEER_LIVE)
        metric_inc(c->metrics.sync_errors_no_address);
    refresh_set_origin(peer->refresh, worth_asking(peer) ? peer->origin : NULL);
}

static void start_refresh(struct cluster *c, struct peer *peer)
{
    refresh_free(peer->refresh);
    peer->refresh = new_refresh(c, peer->id, peer, on_peer_end);
    if (peer->refresh == NULL) {
        log_error("Out of memory for a peer's discovery", LT("peer", peer->id));
        loop_timer_set(c->memory_retry, MEMORY_RETRY_MS);
    }
    set_origin(c, peer);
}

static void on_peer_added(void *arg, struct peer *peer)
{
    struct cluster *c = arg;

    start_refresh(c, peer);
    records_tell(c->records, slice_str(peer->id));
    publish_request(c->publish);
}

static void on_peer_life(struct cluster *c, struct peer *peer)
{
    if (peer->life == PEER_FORGOTTEN)
        start_refresh(c, peer); /* with it goes the document */
    else if (peer->life == PEER_LIVE && peer->refresh == NULL)
        start_refresh(c, peer);
    else if (peer->life == PEER_LIVE && !refresh_has_origin(peer->refresh))
        set_origin(c, peer);
    else if (peer->life == PEER_LIVE && peer->leased)
        (void)refresh_trigger(peer->refresh, REFRESH_LEASE);
}

static void on_peer_changed(void *arg, struct peer *peer, unsigned what)
{
    struct cluster *c = arg;

    if (what & PEER_CHANGED_LIFE)
        on_peer_life(c, peer);
    if (peer->refresh != NULL && (what & PEER_CHANGED_HOLDER) && peer->life != PEER_FORGOTTEN) {
        refresh_doubt(peer->refresh);
        (void)refresh_trigger(peer->refresh, REFRESH_LEASE);
    }
    /* With its Lease a static peer that was forgotten loses what kept it from being asked. */
    if ((what & PEER_CHANGED_ORIGIN) ||
        (peer->origin != NULL && peer->refresh != NULL && worth_asking(peer) && !refresh_has_origin(peer->refresh)))
        set_origin(c, peer);
    /* A server that comes back renews its Lease first of all: no waiting for the next retry then. */
    if ((what & PEER_CHANGED_RENEWED) && peer->refresh != NULL && refresh_failing(peer->refresh))
        (void)refresh_trigger(peer->refresh, REFRESH_RECOVERED);
    if (what & ~(unsigned)PEER_CHANGED_RENEWED)
        publish_request(c->publish);
}

static void on_peer_removed(void *arg, struct peer *peer)
{
    struct cluster *c = arg;

    refresh_free(peer->refresh);
    peer->refresh = NULL;
    publish_request(c->publish);
}

static const struct peers_handler peers_handler = {
    .added = on_peer_added, .changed = on_peer_changed, .removed = on_peer_removed};

/* ------------------------------------------------------------------------------------------- leases, exclusions */

static void on_leases_synced(void *arg)
{
    struct cluster *c = arg;

    publish_request(c->publish);
}

/* A stream that breaks is the first sign that the local server goes, and its return that there is a new one, maybe of
 * another version. */
static void on_leases_health(void *arg, const char *why)
{
    struct cluster *c = arg;

    if (why != NULL)
        metric_inc(c->metrics.sync_errors_lease_list);
    else
        identity_recheck(c->identity);
    c->local_suspect = true;
    (void)refresh_trigger(c->local, REFRESH_RECOVERED);
}

static void on_own_lease(void *arg, const struct lease *l)
{
    struct cluster *c = arg;

    identity_seen(c->identity, l);
}

static const struct leases_handler leases_handler = {
    .on_synced = on_leases_synced, .on_own = on_own_lease, .on_health = on_leases_health};

/* One instance's worth of effort: the first of those that live collects. */
static bool collects(void *arg)
{
    struct cluster *c = arg;
    struct peer *p;
    size_t i = 0;

    while (c->peers != NULL && (p = peers_next(c->peers, &i)) != NULL)
        if (p->leased && p->life == PEER_LIVE && strcmp(p->id, c->own_id) < 0)
            return false;
    return c->peers != NULL;
}

static bool renewed(void *arg, struct slice id)
{
    const struct cluster *c = arg;
    const struct peer *p = c->peers == NULL ? NULL : peers_find(c->peers, id);

    return p != NULL && p->leased && p->life == PEER_LIVE;
}

static enum identity_mode identity_mode(const struct cluster *c)
{
    return c->own_id[0] == '\0' ? IDENTITY_OFF : c->o.identity;
}

static void make_identity(struct cluster *c)
{
    const struct identity_opts o = {
        .api = c->api,
        .local = c->o.local,
        .id = c->own_id,
        .hostname = c->hostname,
        .mode = identity_mode(c),
        .advertise = c->advertise,
        .annotate = c->o.annotate,
        .metrics = &c->metrics,
        .collects = collects,
        .renewed = renewed,
        .arg = c,
    };

    identity_free(c->identity);
    c->identity = identity_new(&o);
}

static void on_record_address(void *arg, struct slice id, const char *host, unsigned port)
{
    struct cluster *c = arg;

    if (c->peers != NULL)
        peers_etcd_address(c->peers, id, host, port);
}

static bool answers(void *arg)
{
    const struct cluster *c = arg;

    return refresh_looks(c->local) > 0 && refresh_failure(c->local) == NULL;
}

static bool is_annotated(void *arg, struct slice id)
{
    const struct cluster *c = arg;
    const struct peer *p = c->peers == NULL ? NULL : peers_find(c->peers, id);

    return p != NULL && p->address[PEER_FROM_ANNOTATION].host != NULL;
}

static void make_records(struct cluster *c)
{
    const struct records_opts o = {
        .loop = c->loop,
        .back = c->back,
        .metrics = &c->metrics,
        .own_id = c->own_id,
        .on_address = on_record_address,
        .may_publish = answers,
        .has_other = is_annotated,
        .arg = c,
    };

    records_free(c->records);
    c->records = records_new(&o);
}

/* With the options as given; what c keeps of them lacks the texts. */
static void configure_records(struct cluster *c, const struct cluster_opts *o)
{
    const struct records_config r = {
        .servers = o->etcd_servers,
        .n_servers = o->peers_enabled ? o->n_etcd_servers : 0,
        .prefix = o->etcd_prefix,
        .advertise = o->advertise,
    };

    records_configure(c->records, &r);
}

static void on_exclusions_change(void *arg)
{
    struct cluster *c = arg;

    publish_request(c->publish);
}

static void on_exclusions_event(void *arg)
{
    struct cluster *c = arg;

    (void)refresh_trigger(c->local, REFRESH_EVENT);
}

static void on_exclusions_health(void *arg, const char *why)
{
    (void)arg;
    (void)why;
}

static const struct exclusions_handler exclusions_handler = {.on_change = on_exclusions_change,
                                                             .on_event = on_exclusions_event,
                                                             .on_settled = on_exclusions_change,
                                                             .on_health = on_exclusions_health};

/* ---------------------------------------------------------------------------------------------------- snapshots */

static void on_patience(void *arg)
{
    struct cluster *c = arg;

    publish_request(c->publish);
}

static void on_published(void *arg)
{
    struct cluster *c = arg;

    waiters_published(&c->waiters);
}

static void on_settled(void *arg)
{
    struct cluster *c = arg;

    waiters_looked(&c->protobuf_waiters, false);
}

/* ------------------------------------------------------------------------------------------------------ the parts */

static struct peers_opts peers_options(const struct cluster *c)
{
    return (struct peers_opts){
        .loop = c->loop,
        .back = c->back,
        .own_id = c->own_id,
        .stale_after_ms = c->o.stale_after_ms,
        .forget_after_ms = c->o.forget_after_ms,
        .leave_grace_ms = c->o.leave_grace_ms,
        .tls_cert = c->o.peer_tls_cert,
        .tls_no_cert = c->o.peer_tls_no_cert,
        .allow = c->o.peer_allowed,
        .allow_arg = c->o.peer_allowed_arg,
        .rule_changed = c->o.peer_rule_changed,
        .via = c->o.peer_via,
    };
}

/* Whatever of the peer side is missing. Without memory the rest is tried again. */
static void start_peer_side(struct cluster *c)
{
    if (c->peers == NULL) {
        struct peers_opts o = peers_options(c);

        c->peers = peers_new(&o, &peers_handler, c);
    }
    if (c->leases == NULL)
        c->leases = leases_new(c->api, c->o.local, c->peers, c->own_id, &leases_handler, c);
    if (c->exclusions == NULL)
        c->exclusions = exclusions_new(c->api, c->o.local, &exclusions_handler, c);
    if (!c->ending)
        identity_start(c->identity);
    if (c->leases == NULL || c->exclusions == NULL) {
        log_error("Out of memory for following the cluster");
        loop_timer_set(c->memory_retry, MEMORY_RETRY_MS);
    }
}

static void on_memory_retry(void *arg)
{
    struct cluster *c = arg;
    struct peer *p;
    size_t i = 0;

    if (!c->o.peers_enabled)
        return;
    start_peer_side(c);
    while ((p = peers_next(c->peers, &i)) != NULL)
        if (p->refresh == NULL)
            start_refresh(c, p);
}

static void stop_peer_side(struct cluster *c)
{
    leases_free(c->leases);
    exclusions_free(c->exclusions);
    peers_free(c->peers);
    c->leases = NULL;
    c->exclusions = NULL;
    c->peers = NULL;
    c->peers_seen = false;
    if (!c->ending) /* else whoever ends it waits to hear of it */
        identity_stop(c->identity, NULL, NULL);
}

/* Keeps what is needed later; texts and arrays have only been borrowed. */
static void take_options(struct cluster *c, const struct cluster_opts *o)
{
    struct origin *old = c->o.local;

    c->o = *o;
    c->o.local = origin_ref(o->local);
    if (old != NULL)
        origin_unref(old);
    c->o.hostname = c->o.user = c->o.advertise = NULL;
    c->o.groups = NULL;
    c->o.static_peers = NULL;
    c->o.etcd_servers = NULL;
    c->o.etcd_prefix = NULL;
    c->o.n_static_peers = 0;
}

static struct api_identity identity(const struct cluster_opts *o)
{
    return (struct api_identity){.user = o->user, .groups = o->groups, .headers = o->headers};
}

static char *replace_text(char *old, const char *text)
{
    mem_free(old);
    return must_strdup(text == NULL ? "" : text);
}

static void set_hostname(struct cluster *c, const char *hostname)
{
    mem_free(c->hostname);
    c->hostname = must_strdup(hostname);
    if (!server_id_from_hostname(slice_str(hostname), c->own_id)) {
        log_error("The host name makes no server ID", LT("hostname", hostname));
        c->own_id[0] = '\0';
    }
    log_info("Own server ID", LT("id", c->own_id), LT("hostname", hostname));
}

/* ------------------------------------------------------------------------------------------------------- life */

struct cluster *cluster_new(struct loop *l, struct back *b, struct metrics *m, const struct cluster_opts *o)
{
    struct cluster *c = must_zalloc(sizeof *c);
    struct api_identity who = identity(o);
    struct publish_opts p = {.loop = l,
                             .metrics = &c->metrics,
                             .collect = cluster_collect,
                             .on_published = on_published,
                             .on_settled = on_settled,
                             .arg = c};

    c->loop = l;
    c->back = b;
    take_options(c, o);
    c->advertise = replace_text(NULL, o->advertise);
    set_hostname(c, o->hostname);
    cluster_metrics_init(&c->metrics, m);
    cluster_metrics_follow(c, m);
    c->api = api_new(l, b, &who);
    make_identity(c);
    make_records(c);
    waiters_init(&c->waiters, l);
    waiters_init(&c->protobuf_waiters, l);
    p.work = api_work(c->api);
    c->publish = publish_new(&p);
    c->memory_retry = loop_timer_new(l, on_memory_retry, c);
    c->patience = loop_timer_new(l, on_patience, c);
    c->local = new_refresh(c, "local", NULL, on_local_end);
    if (c->local == NULL || c->memory_retry == NULL || c->patience == NULL)
        abort();
    refresh_set_origin(c->local, c->o.local);
    if (o->peers_enabled) {
        start_peer_side(c);
        peers_set_static(c->peers, o->static_peers, o->n_static_peers);
    }
    configure_records(c, o);
    publish_request(c->publish);
    return c;
}

void cluster_free(struct cluster *c)
{
    if (c == NULL)
        return;
    stop_peer_side(c);
    identity_free(c->identity);
    records_free(c->records);
    waiters_clear(&c->waiters);
    waiters_clear(&c->protobuf_waiters);
    refresh_free(c->local);
    publish_free(c->publish);
    loop_timer_free(c->memory_retry);
    loop_timer_free(c->patience);
    api_free(c->api);
    origin_unref(c->o.local);
    mem_free(c->hostname);
    mem_free(c->advertise);
    mem_free(c);
}

static void update_peer_side(struct cluster *c, const struct cluster_opts *o, bool moved)
{
    struct peers_opts p = peers_options(c);
    struct peer *peer;
    size_t i = 0;

    peers_update(c->peers, &p);
    peers_set_static(c->peers, o->static_peers, o->n_static_peers);
    while ((peer = peers_next(c->peers, &i)) != NULL)
        if (peer->refresh != NULL)
            refresh_set_interval(peer->refresh, o->refresh_interval_ms);
    if (moved && c->leases != NULL)
        leases_restart(c->leases, c->o.local);
    if (moved && c->exclusions != NULL)
        exclusions_restart(c->exclusions, c->o.local);
}

void cluster_update(struct cluster *c, const struct cluster_opts *o)
{
    struct api_identity who = identity(o);
    bool moved = o->local != c->o.local, renamed = strcmp(o->hostname, c->hostname) != 0;
    bool was_enabled = c->o.peers_enabled;

    take_options(c, o);
    if (!api_set_identity(c->api, &who))
        log_error("Could not express the own user in request headers, keeping the one before", LT("user", o->user));
    if (renamed)
        set_hostname(c, o->hostname);
    if (was_enabled && (renamed || !o->peers_enabled))
        stop_peer_side(c);
    c->advertise = replace_text(c->advertise, o->advertise);
    if (renamed) {
        make_identity(c);
        make_records(c);
    } else {
        identity_update(c->identity, identity_mode(c), c->advertise, c->o.annotate);
    }
    if (was_enabled != o->peers_enabled)
        log_info(o->peers_enabled ? "Peers are on" : "Peers are off: local knowledge only");
    if (moved) {
        refresh_set_origin(c->local, c->o.local);
        identity_set_origin(c->identity, c->o.local);
    }
    refresh_set_interval(c->local, o->refresh_interval_ms);
    if (o->peers_enabled) {
        start_peer_side(c);
        update_peer_side(c, o, moved && was_enabled && !renamed);
    }
    configure_records(c, o);
    publish_request(c->publish);
}

static void on_part_withdrawn(void *arg)
{
    struct cluster *c = arg;

    if (--c->withdrawing == 0)
        c->withdrawn(c->withdrawn_arg);
}

void cluster_stop(struct cluster *c, void (*done)(void *arg), void *arg)
{
    c->ending = true;
    c->withdrawn = done;
    c->withdrawn_arg = arg;
    c->withdrawing = 2;
    records_stop(c->records, on_part_withdrawn, c);
    identity_stop(c->identity, on_part_withdrawn, c);
}

struct served *cluster_served(struct cluster *c)
{
    return publish_current(c->publish);
}

/* ------------------------------------------------------------------------------------------------------ surprises */

struct cluster_waiter *cluster_local_miss(struct cluster *c, void (*done)(void *arg), void *arg)
{
    /* Each request to a peer comes here, and most wait for nothing. */
    if (!refresh_trigger(c->local, REFRESH_MISS) || done == NULL)
        return NULL;
    return waiters_add(&c->waiters, done, arg);
}

struct cluster_waiter *cluster_want_protobuf(struct cluster *c, void (*done)(void *arg), void *arg)
{
    if (!publish_want_protobuf(c->publish))
        return NULL;
    return waiters_add(&c->protobuf_waiters, done, arg);
}

void cluster_forget_waiter(struct cluster *c, struct cluster_waiter *w)
{
    (void)c;
    waiters_forget(w);
}

void cluster_peer_suspect(struct cluster *c, const char *peer_id)
{
    struct peer *p = c->peers == NULL ? NULL : peers_find(c->peers, slice_str(peer_id));

    if (p != NULL && p->refresh != NULL)
        (void)refresh_trigger(p->refresh, REFRESH_SUSPECT);
}

void cluster_peer_answered(struct cluster *c, const char *peer_id)
{
    struct peer *p = c->peers == NULL ? NULL : peers_find(c->peers, slice_str(peer_id));

    if (p != NULL && p->refresh != NULL && refresh_failing(p->refresh))
        (void)refresh_trigger(p->refresh, REFRESH_ANSWERED);
}

void cluster_refresh(struct cluster *c)
{
    struct peer *p;
    size_t i = 0;

    (void)refresh_trigger(c->local, REFRESH_OPERATOR);
    while (c->peers != NULL && (p = peers_next(c->peers, &i)) != NULL)
        if (p->refresh != NULL)
            (void)refresh_trigger(p->refresh, REFRESH_OPERATOR);
}

void cluster_local_etag_seen(struct cluster *c, struct slice etag)
{
    if (etag.n > 0 && !slice_eq(etag, refresh_apis_etag(c->local)))
        (void)refresh_trigger(c->local, REFRESH_ETAG);
}

/* --------------------------------------------------------------------------------------------------------- health */

static bool not_yet(char *reason, size_t n, const char *what, const char *why)
{
    (void)snprintf(reason, n, "%s%s%s", what, why == NULL ? "" : ": ", why == NULL ? "" : why);
    return false;
}

bool cluster_local_synced(struct cluster *c, char *reason, size_t n)
{
    /* What we may not know is not waited for: the server goes on being served without it. */
    if (refresh_disco(c->local) != NULL || refresh_refused(c->local))
        return true;
    return not_yet(reason, n, "local discovery not read yet", refresh_failure(c->local));
}

bool cluster_leases_synced(struct cluster *c, char *reason, size_t n)
{
    if (!c->o.peers_enabled)
        return true;
    if (c->leases == NULL)
        return not_yet(reason, n, "out of memory", NULL);
    if (!informer_synced(leases_informer(c->leases)) && !informer_refused(leases_informer(c->leases)))
        return not_yet(reason, n, "leases not listed yet", informer_failure(leases_informer(c->leases)));
    if (c->exclusions == NULL || !exclusions_settled(c->exclusions))
        return not_yet(reason, n, "custom resources and APIServices not listed yet", NULL);
    return true;
}

static const struct peer *awaited(const struct cluster *c)
{
    uint64_t now = loop_now_ms(c->loop);
    struct peer *p;
    size_t i = 0;

    while ((p = peers_next(c->peers, &i)) != NULL)
        if (p->life == PEER_LIVE && (p->refresh == NULL || !refresh_known(p->refresh)) &&
            now - p->known_ms < TIMEOUT_PEER_FIRST_ANSWER_MS)
            return p;
    return NULL;
}

/* Nothing more will be known than is. */
static bool refused(const struct cluster *c)
{
    return refresh_refused(c->local) || informer_refused(leases_informer(c->leases));
}

bool cluster_peers_synced(struct cluster *c, char *reason, size_t n)
{
    const struct peer *p;

    /* Once is enough: a peer that joins later must not take this instance out of service. */
    if (!c->o.peers_enabled || c->peers_seen)
        return true;
    if (!cluster_leases_synced(c, reason, n))
        return false;
    p = awaited(c);
    if (p != NULL)
        return not_yet(reason, n, "a peer has not answered yet", p->hostname[0] != '\0' ? p->hostname : p->id);
    /* What the last one answered must have reached the snapshot. */
    if (!publish_settled(c->publish) || (!served_synced(publish_current(c->publish)) && !refused(c)))
        return not_yet(reason, n, "discovery is being merged", NULL);
    c->peers_seen = true;
    return true;
}

bool cluster_local_reachable(struct cluster *c, char *reason, size_t n)
{
    const char *failure = refresh_failure(c->local);

    if ((failure == NULL && refresh_looks(c->local) > 0) || refresh_refused(c->local))
        return true;
    return not_yet(reason, n, failure == NULL ? "not asked yet" : "the local kube-apiserver does not answer", failure);
}
