/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peer_side.h"

#include "base/changes.h"
#include "base/contract.h"
#include "base/log.h"
#include "cluster/exclusions.h"
#include "cluster/leases.h"
#include "cluster/local.h"
#include "cluster/peer_named.h"
#include "cluster/publish.h"
#include "net/loop.h"

enum { MEMORY_RETRY_MS = 1000 };

static void changed(void *arg)
{
    const struct peer_side *s = arg;

    publish_request(s->env->publish);
}

/* ---- each server ---- */

static void on_polled(void *arg, struct server *of, bool ok, bool is_other)
{
    struct peer_side *s = arg;

    (void)is_other;
    if (s->local->life != LOCAL_THERE) /* it may vouch now, with the same document */
        publish_request(s->env->publish);
    if (!ok)
        return;
    schemas_poll(of->schemas, of->peer->origin);
    peers_answered(s->peers, of->peer);
}

/* NULL: nobody's that is known. */
static const char *name_of(const struct peer_side *s, const char *id)
{
    const struct peer *other;

    if (strcmp(id, s->env->own_id) == 0)
        return s->env->hostname[0] != '\0' ? s->env->hostname : s->env->own_id;
    other = peers_find(s->peers, slice_str(id));
    return other == NULL ? NULL : peer_label(other);
}

static const char *known(void *arg, const char *id)
{
    return name_of(arg, id);
}

static const struct server_handler server_handler = {.polled = on_polled, .known = known};

/* ---- what changes in the table ---- */

/* A forgotten peer is asked no more; without a Lease its answers are the only sign of life there can be. */
static bool worth_asking(const struct peer *peer)
{
    return peer->life != PEER_FORGOTTEN || !peer->leased;
}

static void set_origin(struct peer_side *s, struct peer *peer)
{
    if (peer->server == NULL)
        return;
    if (peer->origin == NULL && peer->life == PEER_LIVE)
        metric_inc(s->env->metrics->sync_errors_no_address);
    server_set_origin(peer->server, worth_asking(peer) ? peer->origin : NULL, s->env->o.pulse);
}

static void start_server(struct peer_side *s, struct peer *peer)
{
    server_free(peer->server);
    peer->server = server_new(s->env, peer, &server_handler, s);
    if (peer->server == NULL) {
        log_error("Out of memory for a peer's discovery", LT("server", peer_label(peer)));
        loop_timer_set(s->retry, MEMORY_RETRY_MS);
    }
    set_origin(s, peer);
}

static void on_peer_added(void *arg, struct peer *peer)
{
    struct peer_side *s = arg;

    start_server(s, peer);
    s->handler->added(s->arg, peer->id);
    publish_request(s->env->publish);
}

static void trigger(const struct peer *peer, enum refresh_trigger t)
{
    refresh_trigger(peer->server->discovery, t);
}

static bool has_origin(const struct peer *peer)
{
    return refresh_look(peer->server->discovery)->origin != NULL;
}

static void on_peer_life(struct peer_side *s, struct peer *peer)
{
    if (peer->life == PEER_FORGOTTEN)
        start_server(s, peer); /* with it goes the document */
    else if (peer->life == PEER_LIVE && peer->server == NULL)
        start_server(s, peer);
    else if (peer->life == PEER_LIVE && !has_origin(peer))
        set_origin(s, peer);
    else if (peer->server != NULL && ((peer->life == PEER_LIVE && peer->leased) || peer->left))
        trigger(peer, REFRESH_LEASE);
}

/* What its mvproxy says that it serves is not what we have read; or it is another process, and we could not read it. */
static bool says_other(const struct peer *peer)
{
    char known[LEASE_TAG_BYTES];

    refresh_tag(peer->server->discovery, known);
    return refresh_look(peer->server->discovery)->failing || known[0] == '\0' ||
           strncmp(known, peer->tags[peer->said], strlen(known)) != 0;
}

/* What makes it be asked again. */
static void poll_changed(struct peer *peer, unsigned what)
{
    if ((what & PEER_CHANGED_HOLDER) && peer->life != PEER_FORGOTTEN) {
        server_invalidate(peer->server);
        trigger(peer, REFRESH_LEASE);
    }
    /* A server that comes back renews its Lease first of all: no waiting for the next retry then. */
    if ((what & PEER_CHANGED_RENEWED) && refresh_look(peer->server->discovery)->failing)
        trigger(peer, REFRESH_RECOVERED);
    if (what & PEER_CHANGED_RHYTHM)
        trigger(peer, REFRESH_LEASE);
    if ((what & PEER_CHANGED_TAG) && says_other(peer))
        trigger(peer, REFRESH_TAG);
}

static void on_peer_changed(void *arg, struct peer *peer, unsigned what)
{
    struct peer_side *s = arg;

    if (what & PEER_CHANGED_LIFE)
        on_peer_life(s, peer);
    /* With its Lease a static peer that was forgotten loses what kept it from being asked. */
    if ((what & PEER_CHANGED_ORIGIN) ||
        (peer->origin != NULL && peer->server != NULL && worth_asking(peer) && !has_origin(peer)))
        set_origin(s, peer);
    if (peer->server != NULL)
        poll_changed(peer, what);
    if (what & ~(unsigned)(PEER_CHANGED_RENEWED | PEER_CHANGED_RHYTHM | PEER_CHANGED_TAG))
        publish_request(s->env->publish);
}

static void on_peer_removed(void *arg, struct peer *peer)
{
    struct peer_side *s = arg;

    server_free(peer->server);
    peer->server = NULL;
    publish_request(s->env->publish);
}

static bool another_is_there(const struct peer_side *s, const struct peer *peer)
{
    const char *address = origin_address(peer->origin);
    const struct peer *p;
    size_t i = 0;

    while ((p = peers_next(s->peers, &i)) != NULL)
        if (p != peer && p->life != PEER_FORGOTTEN && p->origin != NULL && p->seen_ms >= peer->seen_ms &&
            strcmp(origin_address(p->origin), address) == 0)
            return true;
    return strcmp(s->env->advertise, address) == 0;
}

/*
 * An mvproxy says which server it stands before. A bare kube-apiserver says nothing of itself: its certificate is any
 * API server's, so at an address that is somebody else's as well its answer is nobody's.
 */
bool peer_side_answers(const struct peer_side *s, const struct peer *peer)
{
    struct pulse_view v;

    if (peer->origin == NULL || peer->server == NULL)
        return false;
    pulse_look(peer->server->pulse, &v);
    if (v.state == PULSE_UNREACHABLE)
        return false;
    if (v.state == PULSE_UNKNOWN &&
        (!peer->answered || loop_now_ms(s->env->loop) - peer->answered_ms >= s->env->o.stale_after_ms))
        return false;
    if (v.hop)
        return strcmp(v.hop_id, peer->id) == 0;
    return !another_is_there(s, peer);
}

static bool peer_answers(void *arg, const struct peer *peer)
{
    return peer_side_answers(arg, peer);
}

static bool peer_document_holds(void *arg, const struct peer *peer)
{
    const struct peer_side *s = arg;
    struct pulse_view v;
    uint64_t came;

    if (peer->server == NULL || refresh_look(peer->server->discovery)->failure != NULL)
        return false;
    pulse_look(peer->server->pulse, &v);
    came = loop_now_ms(s->env->loop) - v.age_ms;
    return v.state == PULSE_ANSWERS && (came <= peer->seen_ms || refresh_look(peer->server->discovery)->read_ms > came);
}

static const struct peers_handler peers_handler = {
    .added = on_peer_added,
    .changed = on_peer_changed,
    .removed = on_peer_removed,
    .answers = peer_answers,
    .document_holds = peer_document_holds,
};

/* ---- the Leases, the exclusions ---- */

static void on_watch(void *arg, const char *why)
{
    const struct peer_side *s = arg;

    s->handler->watch(s->arg, why);
}

static void on_own_lease(void *arg, const struct lease *l)
{
    const struct peer_side *s = arg;

    if (local_lease_seen(s->local, l->renew_us))
        peers_note_renewal(s->peers);
    s->handler->own_lease(s->arg, l);
}

static void on_lease_refused(void *arg, struct slice key, const char *why)
{
    const struct peer_side *s = arg;

    changes_add(s->env->o.changes, CHANGE_DISBELIEVED, "Lease", "%.*s is no API server identity: %s", (int)key.n, key.p,
                why);
}

static const struct leases_handler leases_handler = {
    .on_synced = changed, .on_own = on_own_lease, .on_health = on_watch, .on_refused = on_lease_refused};

/* Who has an mvproxy is read when that has written another tag; of a bare one nothing else tells before its interval.
 */
static void on_exclusions_event(void *arg)
{
    const struct peer_side *s = arg;
    const struct peer *p;
    size_t i = 0;

    refresh_trigger(s->local->server->discovery, REFRESH_EVENT);
    while ((p = peers_next(s->peers, &i)) != NULL)
        if (p->life == PEER_LIVE && p->server != NULL && refresh_look(p->server->discovery)->known &&
            !refresh_look(p->server->discovery)->mvproxy)
            refresh_trigger(p->server->discovery, REFRESH_EVENT);
}

static const struct exclusions_handler exclusions_handler = {.on_change = changed, .on_event = on_exclusions_event};

/* ---- life ---- */

static void start_informers(struct peer_side *s)
{
    if (s->leases == NULL)
        s->leases = leases_new(s->env->api, s->peers, s->env->own_id, &leases_handler, s);
    if (s->exclusions == NULL)
        s->exclusions = exclusions_new(s->env->api, &exclusions_handler, s);
    if (s->leases != NULL && s->exclusions != NULL)
        return;
    log_error("Out of memory for following the cluster");
    loop_timer_set(s->retry, MEMORY_RETRY_MS);
}

static void on_retry(void *arg)
{
    struct peer_side *s = arg;
    struct peer *p;
    size_t i = 0;

    start_informers(s);
    while ((p = peers_next(s->peers, &i)) != NULL)
        if (p->server == NULL)
            start_server(s, p);
}

struct peer_side *peer_side_new(const struct cluster_env *env, struct local *local, const struct peer_side_handler *h,
                                void *arg)
{
    struct peer_side *s = must_zalloc(sizeof(*s));

    *s = (struct peer_side){.env = env,
                            .local = local,
                            .handler = h,
                            .arg = arg,
                            .peers = peers_new(env, &peers_handler, s),
                            .retry = loop_timer_new(env->loop, on_retry, s)};
    must_hold(s->retry != NULL);
    return s;
}

void peer_side_free(struct peer_side *s)
{
    if (s == NULL)
        return;
    peer_side_stop(s);
    peers_free(s->peers);
    loop_timer_free(s->retry);
    mem_free(s);
}

void peer_side_start(struct peer_side *s, bool anew, bool moved)
{
    struct peer *p;
    size_t i = 0;

    start_informers(s);
    peers_update(s->peers, anew);
    while ((p = peers_next(s->peers, &i)) != NULL)
        if (p->server != NULL)
            refresh_set_interval(p->server->discovery, s->env->o.refresh_interval_ms);
    if (moved && s->leases != NULL)
        leases_restart(s->leases);
    if (moved && s->exclusions != NULL)
        exclusions_restart(s->exclusions);
}

void peer_side_stop(struct peer_side *s)
{
    loop_timer_cancel(s->retry);
    leases_free(s->leases);
    exclusions_free(s->exclusions);
    s->leases = NULL;
    s->exclusions = NULL;
    peers_clear(s->peers);
}

void peer_side_retry(struct peer_side *s)
{
    if (s->leases != NULL)
        leases_retry(s->leases);
    if (s->exclusions != NULL)
        exclusions_retry(s->exclusions);
}

/* ---- what others ask ---- */

struct server *peer_side_server(const struct peer_side *s, const char *id)
{
    const struct peer *p = peers_find(s->peers, slice_str(id));

    return p == NULL ? NULL : p->server;
}

struct peer *peer_side_named(struct peer_side *s, const char *name, bool drained, struct err *err)
{
    return peer_named(s->peers, name, drained, &peers_handler, s, err);
}

const char *peer_side_leads_to(const struct peer_side *s, const struct peer *p)
{
    struct pulse_view v;

    pulse_look(p->server == NULL ? NULL : p->server->pulse, &v);
    return v.state == PULSE_ANSWERS && v.hop && strcmp(v.hop_id, p->id) != 0 ? name_of(s, v.hop_id) : NULL;
}

size_t peer_side_servers(const struct peer_side *s)
{
    return 1 + peers_count_life(s->peers, PEER_LIVE);
}

bool peer_side_watches(const struct peer_side *s)
{
    return s->leases == NULL || leases_failure(s->leases) == NULL || leases_refused(s->leases) != 0;
}

size_t peer_side_poll(struct peer_side *s)
{
    struct peer *p;
    size_t i = 0;

    while ((p = peers_next(s->peers, &i)) != NULL)
        if (p->life == PEER_LIVE && p->server != NULL && refresh_look(p->server->discovery)->failure == NULL)
            refresh_trigger(p->server->discovery, REFRESH_MISS);
    return i;
}
