/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peers_table.h"

#include <stdio.h>

#include "base/changes.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/loop.h"

/* Two renewals: if nobody's Lease is renewed for so long, none can be. */
enum { RENEWAL_GAP_MS = 20000 };

/* ---- rows ---- */

static size_t position(const struct peers *p, struct slice id, bool *found)
{
    size_t low = 0, high = p->n;

    *found = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = slice_cmp(slice_str(p->table[mid]->id), id);

        if (c == 0)
            *found = true;
        if (c >= 0)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

struct peer *peers_find(const struct peers *p, struct slice id)
{
    bool found = false;
    size_t at = position(p, id, &found);

    if (!found)
        return NULL;
    must_hold(p->table[at] != NULL);
    return p->table[at];
}

uint64_t peers_ignored(const struct peers *p)
{
    return p->ignored;
}

size_t peers_count(const struct peers *p)
{
    return p->n;
}

size_t peers_count_life(const struct peers *p, enum peer_life life)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        n += p->table[i]->life == life;
    return n;
}

struct peer *peers_next(const struct peers *p, size_t *i)
{
    return *i < p->n ? p->table[(*i)++] : NULL;
}

struct peer *peers_after(const struct peers *p, struct slice id)
{
    bool found = false;
    size_t at = position(p, id, &found);

    at += found;
    return peers_next(p, &at);
}

static bool grow(struct peers *p)
{
    size_t cap = p->cap == 0 ? 16 : p->cap * 2;
    struct peer **table;

    if (p->n < p->cap)
        return true;
    table = mem_realloc(p->table, cap * sizeof(*table));
    if (table == NULL)
        return false;
    p->table = table;
    p->cap = cap;
    return true;
}

void peers_take_out(struct peers *p, struct peer *peer, const char *why)
{
    bool found;
    size_t at = position(p, slice_str(peer->id), &found);

    log_info("Peer removed", LT("server", peer_label(peer)), LT("id", peer->id), LT("reason", why),
             LB("drained", peer->drained));
    changes_add(p->env->o.changes, CHANGE_WENT, peer_label(peer), "is forgotten: %s", why);
    p->handler->removed(p->arg, peer);
    memmove(&p->table[at], &p->table[at + 1], (p->n - at - 1) * sizeof(*p->table));
    p->n--;
    peer_free(peer);
}

/* It left, is dead, or is silent and has never answered: a Lease that somebody forged. */
static bool is_dispensable(const struct peer *peer)
{
    return !peer->fixed &&
           (peer->left || peer->life == PEER_FORGOTTEN || (peer->life == PEER_LAPSED && !peer->answered));
}

/* A full table has room for who is there: of those who can be spared the one that was seen longest ago goes. */
static bool make_room(struct peers *p)
{
    struct peer *oldest = NULL;

    for (size_t i = 0; i < p->n; i++) {
        struct peer *peer = p->table[i];

        if (is_dispensable(peer) && (oldest == NULL || peer->seen_ms < oldest->seen_ms))
            oldest = peer;
    }
    if (oldest != NULL)
        peers_take_out(p, oldest,
                       oldest->left ? "Lease deleted, and its place is needed" : "no answers, and its place is needed");
    return oldest != NULL;
}

/* Nothing is known of what it serves: that must not be found in the log alone. */
static void say_ignored(struct peers *p, struct slice id, struct slice host)
{
    char name[CHANGE_SUBJECT_BYTES];

    p->ignored++;
    (void)snprintf(name, sizeof(name), "%.*s", (int)(host.n > 0 ? host.n : id.n), host.n > 0 ? host.p : id.p);
    log_warning("Peer limit reached, API server ignored", LT("server", name), LS("id", id), LU("limit", LIMIT_PEERS));
    changes_add(p->env->o.changes, CHANGE_DISBELIEVED, name,
                "is ignored: %d other API servers are known, and more are not taken (are their Leases in kube-system "
                "all of servers?)",
                LIMIT_PEERS);
}

struct peer *peers_insert(struct peers *p, struct slice id, struct slice host)
{
    struct peer *peer;
    size_t at;
    bool found;

    if (p->n >= LIMIT_PEERS && !make_room(p)) {
        say_ignored(p, id, host);
        return NULL;
    }
    at = position(p, id, &found);
    peer = grow(p) ? peer_new(id, loop_now_ms(p->env->loop)) : NULL;
    if (peer == NULL) {
        log_error("Out of memory for a peer", LS("id", id));
        return NULL;
    }
    must_hold(!found && p->n < p->cap); /* no two peers of one identity */
    memmove(&p->table[at + 1], &p->table[at], (p->n - at) * sizeof(*p->table));
    p->table[at] = peer;
    p->n++;
    if (!loop_timer_pending(p->tick))
        loop_timer_set(p->tick, PEERS_TICK_MS);
    return peer;
}

/* ---- what is told ---- */

unsigned peers_move(struct peers *p, struct peer *peer, enum peer_life to, const char *why)
{
    enum peer_life from = peer->life;

    if (from == to)
        return 0;
    peer_move(peer, to);
    if (to == PEER_FORGOTTEN)
        peer->answered = false;
    changes_add(p->env->o.changes,
                to == PEER_LIVE     ? CHANGE_RECOVERED
                : to == PEER_LAPSED ? CHANGE_FAILED
                                    : CHANGE_WENT,
                peer_label(peer), "is %s, was %s: %s", peer_life_name(to), peer_life_name(from), why);
    log_info("Peer state changed", LT("server", peer_label(peer)), LT("id", peer->id), LT("from", peer_life_name(from)),
             LT("to", peer_life_name(to)), LT("reason", why),
             LU("silentMs", loop_now_ms(p->env->loop) - peer->seen_ms));
    return PEER_CHANGED_LIFE;
}

void peers_report(struct peers *p, struct peer *peer, unsigned what)
{
    if (what != 0)
        p->handler->changed(p->arg, peer, what);
}

void peers_announce(struct peers *p, struct peer *peer)
{
    log_info("Peer added", LT("server", peer_label(peer)), LT("id", peer->id), LT("life", peer_life_name(peer->life)),
             LB("lease", peer->leased), LB("static", peer->fixed));
    changes_add(p->env->o.changes, CHANGE_CAME, peer_label(peer), "is known by its %s",
                peer->leased ? "Lease"
                : peer->seed ? "record in etcd"
                             : "configuration");
    (void)peer_settle_origin(peer, p->env, false);
    p->handler->added(p->arg, peer);
}

void peers_note_renewal(struct peers *p)
{
    uint64_t now = loop_now_ms(p->env->loop);

    if (now - p->renewed_ms > RENEWAL_GAP_MS)
        p->renewing_since_ms = now;
    p->renewed_ms = now;
}

bool peers_goes_on(struct peers *p, struct peer *peer)
{
    bool read = peer->answered && peer->answered_ms > peer->other_holder_ms;

    if (peer->life != PEER_LIVE || !peer_take_other(peer))
        return false;
    log_info("Peer is known by its other Lease now", LT("server", peer_label(peer)), LT("id", peer->id),
             LT("holder", peer->holder));
    peers_report(p, peer, read ? PEER_CHANGED_RHYTHM : PEER_CHANGED_HOLDER);
    return true;
}
