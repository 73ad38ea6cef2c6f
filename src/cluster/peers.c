/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peers.h"

#include "base/changes.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/peers_table.h"
#include "net/loop.h"

/* ---- life ---- */

/* How long it may be silent before it is forgotten. */
static uint64_t patience(const struct peers *p, const struct peer *peer)
{
    if (peer->left)
        return p->env->o.leave_grace_ms;
    return peer->leased && peer->duration_ms < p->env->o.forget_after_ms ? peer->duration_ms
                                                                         : p->env->o.forget_after_ms;
}

uint64_t peers_forgotten_in_ms(const struct peers *p, const struct peer *peer)
{
    uint64_t silent = loop_now_ms(p->env->loop) - peer->seen_ms, limit = patience(p, peer);

    return silent < limit ? limit - silent : 0;
}

static void forget_left(struct peers *p, struct peer *peer, const char *why)
{
    peer->left = false;
    if (peer->fixed)
        peers_report(p, peer, peers_move(p, peer, PEER_FORGOTTEN, why));
    else
        peers_take_out(p, peer, why);
}

/* For long enough that this one's silence is its own, and not that nobody can write Leases (a full etcd, a webhook). */
static bool others_renew(const struct peers *p, const struct peer *peer)
{
    uint64_t since = peer->seen_ms > p->renewing_since_ms ? peer->seen_ms : p->renewing_since_ms;

    return p->renewed_ms >= since + p->env->o.stale_after_ms;
}

/* Who is forgotten is not asked. */
static bool still_answers(const struct peers *p, const struct peer *peer)
{
    return peer->leased && peer->life != PEER_FORGOTTEN && p->handler->answers(p->arg, peer);
}

static void judge(struct peers *p, struct peer *peer, uint64_t now)
{
    uint64_t silent = now - peer->seen_ms, limit = patience(p, peer);
    const char *why = peer->leased ? "Lease not renewed" : "no answers";
    bool answers;

    /* Without sight of the Leases there is nothing to judge by. */
    if (((peer->leased || peer->left) && !p->watching) || (silent < limit && silent < p->env->o.stale_after_ms))
        return;
    if (peer->leased && peers_goes_on(p, peer))
        return; /* that one is judged at the next look */
    answers = still_answers(p, peer);
    if (answers && !others_renew(p, peer)) {
        peers_report(p, peer, peers_move(p, peer, PEER_LIVE, "answers, and nobody's Lease is renewed"));
    } else if (silent >= limit && !answers) {
        if (peer->left)
            forget_left(p, peer, "Lease deleted, and not made again");
        else
            peers_report(p, peer, peers_move(p, peer, PEER_FORGOTTEN, why));
    } else if (silent >= p->env->o.stale_after_ms && peer->life == PEER_LIVE)
        peers_report(p, peer, peers_move(p, peer, PEER_LAPSED, why));
}

static uint64_t later(uint64_t at, uint64_t by, uint64_t now)
{
    return now - at > by ? at + by : now;
}

/* Nobody was seen while this process was suspended, which is not their silence. */
static void make_up(struct peers *p, uint64_t now)
{
    uint64_t in_all = loop_missed_ms(p->env->loop), missed = in_all - p->missed_ms;

    p->missed_ms = in_all;
    p->renewing_since_ms = later(p->renewing_since_ms, missed, now);
    p->renewed_ms = later(p->renewed_ms, missed, now);
    for (size_t i = 0; missed > 0 && i < p->n; i++)
        p->table[i]->seen_ms = later(p->table[i]->seen_ms, missed, now);
}

static void add_all_static(struct peers *p);

static void on_tick(void *arg)
{
    struct peers *p = arg;
    uint64_t now = loop_now_ms(p->env->loop);

    make_up(p, now);
    /* Downwards: one that is taken out moves only those that have been seen to. */
    for (size_t i = p->n; i-- > 0;) {
        /* An origin that could not be made for want of memory. */
        if (p->table[i]->origin == NULL && peer_settle_origin(p->table[i], p->env, false))
            peers_report(p, p->table[i], PEER_CHANGED_ORIGIN);
        judge(p, p->table[i], now);
    }
    if (p->static_due)
        add_all_static(p);
    if (p->n > 0)
        loop_timer_set(p->tick, PEERS_TICK_MS);
}

/* Not of one address or Lease: it stays until the peer is removed from the table, or undrained. */
void peers_set_drained(struct peers *p, struct peer *peer, bool drained)
{
    if (peer->drained == drained)
        return;
    peer->drained = drained;
    log_info(drained ? "Peer drained" : "Peer undrained", LT("server", peer_label(peer)), LT("id", peer->id));
    changes_add(p->env->o.changes, CHANGE_CHANGED, peer_label(peer),
                drained ? "is drained" : "is not drained any more");
    peers_report(p, peer, PEER_CHANGED_DRAINED);
}

static bool is_mere_seed(const struct peer *peer)
{
    return peer->seed && !peer->leased && !peer->fixed;
}

/* From now on who is there is known by Leases. */
static void drop_seeds(struct peers *p)
{
    p->listed = true;
    for (size_t i = p->n; i-- > 0;) {
        struct peer *peer = p->table[i];
        bool alone = is_mere_seed(peer);

        peer->seed = false;
        if (alone)
            peers_take_out(p, peer, "a record in etcd, and no Lease");
    }
}

void peers_set_watching(struct peers *p, bool watching)
{
    uint64_t now = loop_now_ms(p->env->loop);

    if (watching == p->watching)
        return;
    p->watching = watching;
    if (!watching) {
        p->unwatched_since_ms = now;
        return;
    }
    if (!p->listed)
        drop_seeds(p);
    /* The time in which nothing could be seen does not count. */
    p->renewing_since_ms = later(p->renewing_since_ms, now - p->unwatched_since_ms, now);
    p->renewed_ms = later(p->renewed_ms, now - p->unwatched_since_ms, now);
    for (size_t i = 0; i < p->n; i++) {
        struct peer *peer = p->table[i];
        uint64_t from = peer->seen_ms > p->unwatched_since_ms ? peer->seen_ms : p->unwatched_since_ms;

        if (peer->leased || peer->left)
            peer->seen_ms += now - from;
    }
}

void peers_answered(struct peers *p, struct peer *peer)
{
    peer->answered = true;
    peer->answered_ms = loop_now_ms(p->env->loop);
    /* Who has left may answer to the last moment: that prolongs nothing, unless it needs no Lease at all. */
    if (peer->leased || (peer->left && !peer->fixed))
        return;
    peer->left = false;
    peer->seen_ms = loop_now_ms(p->env->loop);
    peers_report(p, peer, peers_move(p, peer, PEER_LIVE, "answered"));
}

/* ---- records in etcd ---- */

/* Who starts while its own server is away would know nobody. The certificate says whether it is an API server. */
static void plant(struct peers *p, struct slice id, const char *host, unsigned port)
{
    struct peer *peer = peers_insert(p, id, SLICE_NONE);

    if (peer == NULL)
        return;
    peer->seed = true;
    peer_move(peer, PEER_LIVE);
    (void)peer_set_address(peer, PEER_FROM_ETCD, host, port);
    peers_announce(p, peer);
}

void peers_etcd_address(struct peers *p, struct slice id, const char *host, unsigned port)
{
    struct peer *peer = peers_find(p, id);

    /* Once Leases are known a record alone makes no peer. */
    if (peer == NULL && host != NULL && !p->listed && !slice_eq(id, slice_str(p->env->own_id)))
        plant(p, id, host, port);
    else if (peer != NULL && host == NULL && is_mere_seed(peer))
        peers_take_out(p, peer, "its record in etcd is gone");
    else if (peer != NULL && peer_set_address(peer, PEER_FROM_ETCD, host, port) &&
             peer_settle_origin(peer, p->env, peer->source == PEER_FROM_ETCD))
        peers_report(p, peer, PEER_CHANGED_ORIGIN);
}

/* ---- static ---- */

static bool is_id(const struct cluster_static_peer *row)
{
    return server_id_valid(slice_str(row->name));
}

/* False: its name makes none. */
static bool id_of(const struct cluster_static_peer *row, char out[SERVER_ID_BYTES])
{
    if (!is_id(row))
        return server_id_from_hostname(slice_str(row->name), out);
    memcpy(out, row->name, SERVER_ID_BYTES);
    return true;
}

static bool has_static_address(const struct peer *peer, const struct cluster_static_peer *row)
{
    const char *host = peer->address[PEER_FROM_STATIC].host;

    return host != NULL && strcmp(host, row->host) == 0 && peer->address[PEER_FROM_STATIC].port == row->port;
}

/* False: there is no memory for all of it. */
static bool add_static(struct peers *p, const struct cluster_static_peer *row)
{
    char id[SERVER_ID_BYTES];
    struct peer *peer;
    bool is_new;

    if (!id_of(row, id) || strcmp(id, p->env->own_id) == 0)
        return true;
    peer = peers_find(p, slice_str(id));
    is_new = peer == NULL;
    if (is_new)
        peer = peers_insert(p, slice_str(id), slice_str(row->host));
    if (peer == NULL)
        return p->n >= LIMIT_PEERS;
    if (!is_id(row) && peer->hostname[0] == '\0')
        (void)peer_set_text(&peer->hostname, slice_str(row->name));
    peer->fixed = true;
    if (is_new) {
        (void)peer_set_address(peer, PEER_FROM_STATIC, row->host, row->port);
        peer_move(peer, PEER_LIVE);
        peers_announce(p, peer);
    } else if (peer_set_address(peer, PEER_FROM_STATIC, row->host, row->port) &&
               peer_settle_origin(peer, p->env, true)) {
        peers_report(p, peer, PEER_CHANGED_ORIGIN);
    }
    return has_static_address(peer, row) && (is_id(row) || peer->hostname[0] != '\0');
}

static void add_all_static(struct peers *p)
{
    p->static_due = false;
    for (size_t i = 0; i < p->env->o.n_static_peers; i++)
        if (!add_static(p, &p->env->o.static_peers[i]))
            p->static_due = true;
    if (p->static_due && !loop_timer_pending(p->tick))
        loop_timer_set(p->tick, PEERS_TICK_MS);
}

static void mark_listed(struct peers *p)
{
    for (size_t i = 0; i < p->env->o.n_static_peers; i++) {
        const struct cluster_static_peer *row = &p->env->o.static_peers[i];
        char id[SERVER_ID_BYTES];
        struct peer *peer;

        if (!id_of(row, id))
            log_warning("Ignoring a static peer without a usable name", LT("address", row->host));
        else if (strcmp(id, p->env->own_id) == 0)
            log_warning("Ignoring a static peer that is this server itself", LT("id", id));
        else if ((peer = peers_find(p, slice_str(id))) != NULL)
            peer->listed = true;
    }
}

static void drop_unlisted(struct peers *p)
{
    for (size_t i = p->n; i-- > 0;) {
        struct peer *peer = p->table[i];
        bool listed = peer->listed;

        peer->listed = false;
        if (!peer->fixed || listed)
            continue;
        peer->fixed = false;
        if (!peer->leased && !peer->left)
            peers_take_out(p, peer, "no longer configured");
        else if (peer_set_address(peer, PEER_FROM_STATIC, NULL, 0) && peer_settle_origin(peer, p->env, false))
            peers_report(p, peer, PEER_CHANGED_ORIGIN);
    }
}

/* ---- whole ---- */

void peers_clear(struct peers *p)
{
    loop_timer_cancel(p->tick);
    while (p->n > 0) {
        struct peer *peer = p->table[--p->n];

        p->handler->removed(p->arg, peer);
        peer_free(peer);
    }
    mem_free(p->table);
    *p = (struct peers){
        .env = p->env,
        .handler = p->handler,
        .arg = p->arg,
        .tick = p->tick,
        .unwatched_since_ms = loop_now_ms(p->env->loop),
        .missed_ms = loop_missed_ms(p->env->loop),
    };
}

struct peers *peers_new(const struct cluster_env *env, const struct peers_handler *h, void *arg)
{
    struct peers *p = must_zalloc(sizeof(*p));

    *p = (struct peers){.env = env, .handler = h, .arg = arg, .tick = loop_timer_new(env->loop, on_tick, p)};
    must_hold(p->tick != NULL);
    peers_clear(p);
    return p;
}

void peers_free(struct peers *p)
{
    peers_clear(p);
    loop_timer_free(p->tick);
    mem_free(p);
}

void peers_update(struct peers *p, bool anew)
{
    for (size_t i = 0; anew && i < p->n; i++)
        if (peer_settle_origin(p->table[i], p->env, true))
            peers_report(p, p->table[i], PEER_CHANGED_ORIGIN);
    mark_listed(p);
    drop_unlisted(p);
    add_all_static(p);
}
