/* SPDX-License-Identifier: Apache-2.0 */
/* Each peer of the table is asked what it serves, and asked again when its Lease says that this may be another. */
#include "base/log.h"
#include "cluster/cluster_internal.h"
#include "cluster/publish.h"
#include "cluster/records.h"
#include "cluster/server.h"

/* A forgotten peer is asked no more; without a Lease its answers are the only sign of life there can be. */
static bool worth_asking(const struct peer *peer)
{
    return peer->life != PEER_FORGOTTEN || !peer->leased;
}

static void set_origin(struct cluster *c, struct peer *peer)
{
    if (peer->server == NULL)
        return;
    if (peer->origin == NULL && peer->life == PEER_LIVE)
        metric_inc(c->metrics.sync_errors_no_address);
    server_set_origin(peer->server, worth_asking(peer) ? peer->origin : NULL, c->o.pulse);
}

void cluster_start_server(struct cluster *c, struct peer *peer)
{
    server_free(peer->server);
    peer->server = cluster_new_server(c, peer);
    if (peer->server == NULL) {
        log_error("Out of memory for a peer's discovery", LT("server", peer_label(peer)));
        loop_timer_set(c->memory_retry, CLUSTER_MEMORY_RETRY_MS);
    }
    set_origin(c, peer);
}

static void on_peer_added(void *arg, struct peer *peer)
{
    struct cluster *c = arg;

    cluster_start_server(c, peer);
    records_tell(c->records, slice_str(peer->id));
    publish_request(c->publish);
}

static void trigger(const struct peer *peer, enum refresh_trigger t)
{
    refresh_trigger(peer->server->discovery, t);
}

static bool has_origin(const struct peer *peer)
{
    return refresh_has_origin(peer->server->discovery);
}

static void on_peer_life(struct cluster *c, struct peer *peer)
{
    if (peer->life == PEER_FORGOTTEN)
        cluster_start_server(c, peer); /* with it goes the document */
    else if (peer->life == PEER_LIVE && peer->server == NULL)
        cluster_start_server(c, peer);
    else if (peer->life == PEER_LIVE && !has_origin(peer))
        set_origin(c, peer);
    else if (peer->life == PEER_LIVE && peer->leased)
        trigger(peer, REFRESH_LEASE);
}

/* What its mvproxy says that it serves is not what we have read; or it is another process, and we could not read it. */
static bool says_other(const struct peer *peer)
{
    char known[LEASE_TAG_BYTES];

    refresh_tag(peer->server->discovery, known);
    return refresh_failing(peer->server->discovery) || known[0] == '\0' ||
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
    if ((what & PEER_CHANGED_RENEWED) && refresh_failing(peer->server->discovery))
        trigger(peer, REFRESH_RECOVERED);
    if (what & PEER_CHANGED_RHYTHM)
        trigger(peer, REFRESH_LEASE);
    if ((what & PEER_CHANGED_TAG) && says_other(peer))
        trigger(peer, REFRESH_TAG);
}

static void on_peer_changed(void *arg, struct peer *peer, unsigned what)
{
    struct cluster *c = arg;

    if (what & PEER_CHANGED_LIFE)
        on_peer_life(c, peer);
    /* With its Lease a static peer that was forgotten loses what kept it from being asked. */
    if ((what & PEER_CHANGED_ORIGIN) ||
        (peer->origin != NULL && peer->server != NULL && worth_asking(peer) && !has_origin(peer)))
        set_origin(c, peer);
    if (peer->server != NULL)
        poll_changed(peer, what);
    if (what & ~(unsigned)(PEER_CHANGED_RENEWED | PEER_CHANGED_RHYTHM | PEER_CHANGED_TAG))
        publish_request(c->publish);
}

static void on_peer_removed(void *arg, struct peer *peer)
{
    struct cluster *c = arg;

    server_free(peer->server);
    peer->server = NULL;
    publish_request(c->publish);
}

static bool another_is_there(const struct cluster *c, const struct peer *peer)
{
    const char *address = origin_address(peer->origin);
    const struct peer *p;
    size_t i = 0;

    while ((p = peers_next(c->peers, &i)) != NULL)
        if (p != peer && p->life != PEER_FORGOTTEN && p->origin != NULL && p->seen_ms >= peer->seen_ms &&
            strcmp(origin_address(p->origin), address) == 0)
            return true;
    return strcmp(c->advertise, address) == 0;
}

/*
 * An mvproxy says which server it stands before. A bare kube-apiserver says nothing of itself: its certificate is any
 * API server's, so at an address that is somebody else's as well its answer is nobody's.
 */
static bool peer_answers(void *arg, const struct peer *peer)
{
    const struct cluster *c = arg;
    struct pulse_view v;

    if (peer->origin == NULL || peer->server == NULL)
        return false;
    pulse_look(peer->server->pulse, &v);
    if (v.state == PULSE_UNREACHABLE)
        return false;
    if (v.state == PULSE_UNKNOWN &&
        (!peer->answered || loop_now_ms(c->loop) - peer->answered_ms >= c->o.stale_after_ms))
        return false;
    if (v.hop)
        return strcmp(v.hop_id, peer->id) == 0;
    return !another_is_there(c, peer);
}

static const struct peers_handler peers_handler = {
    .added = on_peer_added, .changed = on_peer_changed, .removed = on_peer_removed, .answers = peer_answers};

const struct peers_handler *cluster_peers_handler(void)
{
    return &peers_handler;
}

const char *cluster_leads_to(const struct cluster *c, const struct peer *p)
{
    struct pulse_view v;

    pulse_look(p->server == NULL ? NULL : p->server->pulse, &v);
    return v.state == PULSE_ANSWERS && v.hop && strcmp(v.hop_id, p->id) != 0 ? cluster_name_of(c, v.hop_id) : NULL;
}
