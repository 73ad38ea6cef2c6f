/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peers.h"

#include <stdio.h>

#include "base/changes.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/peers_static.h"
#include "kube/server_id.h"
#include "net/loop.h"

enum {
    TICK_MS = 500,
    /* Everybody renews every 10 s ± 4 % (kube-apiserver: + 4 %), and then it takes a moment. */
    RHYTHM_MIN_US = 9500 * 1000,
    RHYTHM_MAX_US = 11000 * 1000,
    /* Two renewals: if nobody's Lease is renewed for so long, none can be. */
    RENEWAL_GAP_MS = 20000,
};

struct peers {
    struct peers_opts o;
    const struct peers_handler *handler;
    void *arg;
    char own_id[SERVER_ID_BYTES];
    struct peer **table; /* sorted by ID */
    uint64_t ignored;
    size_t n, cap;
    bool watching, listed; /* the Leases: now, once */
    uint64_t unwatched_since_ms, missed_ms;
    uint64_t renewing_since_ms, renewed_ms; /* any Lease, our own as well: without a gap since, and last */
    struct loop_timer *tick;                /* armed while there are peers */
    struct peers_static *fixed;             /* as configured */
    bool static_due;                        /* not all of it is in the table, for want of memory */
};

/* ---- table ---- */

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
    size_t at = p == NULL ? 0 : position(p, id, &found);

    if (!found)
        return NULL;
    must_hold(p->table[at] != NULL);
    return p->table[at];
}

uint64_t peers_ignored(const struct peers *p)
{
    return p == NULL ? 0 : p->ignored;
}

size_t peers_count(const struct peers *p)
{
    return p == NULL ? 0 : p->n;
}

size_t peers_count_life(const struct peers *p, enum peer_life life)
{
    size_t n = 0;

    for (size_t i = 0; i < peers_count(p); i++)
        n += p->table[i]->life == life;
    return n;
}

struct peer *peers_next(const struct peers *p, size_t *i)
{
    return *i < peers_count(p) ? p->table[(*i)++] : NULL;
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

static void take_out(struct peers *p, struct peer *peer, const char *why)
{
    bool found;
    size_t at = position(p, slice_str(peer->id), &found);

    log_info("Peer removed", LT("server", peer_label(peer)), LT("id", peer->id), LT("reason", why),
             LB("drained", peer->drained));
    changes_add(p->o.reach.changes, CHANGE_WENT, peer_label(peer), "is forgotten: %s", why);
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
        take_out(p, oldest,
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
    changes_add(p->o.reach.changes, CHANGE_DISBELIEVED, name,
                "is ignored: %d other API servers are known, and more are not taken (are their Leases in kube-system "
                "all of servers?)",
                LIMIT_PEERS);
}

/* Known to nobody yet: the caller fills it in and then calls announce(). NULL: full, or out of memory. */
static struct peer *insert(struct peers *p, struct slice id, struct slice host)
{
    struct peer *peer;
    size_t at;
    bool found;

    if (p->n >= LIMIT_PEERS && !make_room(p)) {
        say_ignored(p, id, host);
        return NULL;
    }
    at = position(p, id, &found);
    peer = grow(p) ? peer_new(id, loop_now_ms(p->o.loop)) : NULL;
    if (peer == NULL) {
        log_error("Out of memory for a peer", LS("id", id));
        return NULL;
    }
    must_hold(!found && p->n < p->cap); /* no two peers of one identity */
    memmove(&p->table[at + 1], &p->table[at], (p->n - at) * sizeof(*p->table));
    p->table[at] = peer;
    p->n++;
    if (!loop_timer_pending(p->tick))
        loop_timer_set(p->tick, TICK_MS);
    return peer;
}

/* ---- life ---- */

/* Of who is known already: it is told. Returns PEER_CHANGED_LIFE if it did. */
static unsigned move(struct peers *p, struct peer *peer, enum peer_life to, const char *why)
{
    enum peer_life from = peer->life;

    if (from == to)
        return 0;
    peer_move(peer, to);
    if (to == PEER_FORGOTTEN)
        peer->answered = false;
    changes_add(p->o.reach.changes,
                to == PEER_LIVE     ? CHANGE_RECOVERED
                : to == PEER_LAPSED ? CHANGE_FAILED
                                    : CHANGE_WENT,
                peer_label(peer), "is %s, was %s: %s", peer_life_name(to), peer_life_name(from), why);
    log_info("Peer state changed", LT("server", peer_label(peer)), LT("id", peer->id), LT("from", peer_life_name(from)),
             LT("to", peer_life_name(to)), LT("reason", why), LU("silentMs", loop_now_ms(p->o.loop) - peer->seen_ms));
    return PEER_CHANGED_LIFE;
}

static void report(struct peers *p, struct peer *peer, unsigned what)
{
    if (what != 0)
        p->handler->changed(p->arg, peer, what);
}

static void announce(struct peers *p, struct peer *peer)
{
    log_info("Peer added", LT("server", peer_label(peer)), LT("id", peer->id), LT("life", peer_life_name(peer->life)),
             LB("lease", peer->leased), LB("static", peer->fixed));
    changes_add(p->o.reach.changes, CHANGE_CAME, peer_label(peer), "is known by its %s",
                peer->leased ? "Lease"
                : peer->seed ? "record in etcd"
                             : "configuration");
    (void)peer_settle_origin(peer, &p->o.reach, false);
    p->handler->added(p->arg, peer);
}

/* How long it may be silent before it is forgotten. */
static uint64_t patience(const struct peers *p, const struct peer *peer)
{
    if (peer->left)
        return p->o.leave_grace_ms;
    return peer->leased && peer->duration_ms < p->o.forget_after_ms ? peer->duration_ms : p->o.forget_after_ms;
}

uint64_t peers_forgotten_in_ms(const struct peers *p, const struct peer *peer)
{
    uint64_t silent = loop_now_ms(p->o.loop) - peer->seen_ms, limit = patience(p, peer);

    return silent < limit ? limit - silent : 0;
}

static void forget_left(struct peers *p, struct peer *peer, const char *why)
{
    peer->left = false;
    if (peer->fixed)
        report(p, peer, move(p, peer, PEER_FORGOTTEN, why));
    else
        take_out(p, peer, why);
}

/* A Lease was written, whosever it is. */
static void note_renewal(struct peers *p)
{
    uint64_t now = loop_now_ms(p->o.loop);

    if (now - p->renewed_ms > RENEWAL_GAP_MS)
        p->renewing_since_ms = now;
    p->renewed_ms = now;
}

void peers_own_renewed(struct peers *p)
{
    note_renewal(p);
}

/* For long enough that this one's silence is its own, and not that nobody can write Leases (a full etcd, a webhook). */
static bool others_renew(const struct peers *p, const struct peer *peer)
{
    uint64_t since = peer->seen_ms > p->renewing_since_ms ? peer->seen_ms : p->renewing_since_ms;

    return p->renewed_ms >= since + p->o.stale_after_ms;
}

/* A Lease that holds for no time is none to speak for; who is forgotten is not asked. */
static bool still_answers(const struct peers *p, const struct peer *peer)
{
    return peer->leased && peer->duration_ms > 0 && peer->life != PEER_FORGOTTEN && p->handler->answers(p->arg, peer);
}

/* By the clock of its host it renewed its other Lease later. Two watches tell of them, in any order; and the one that
 * it is known by is not renewed, or is gone. */
static bool goes_on(struct peers *p, struct peer *peer)
{
    bool read = peer->answered && peer->answered_ms > peer->other_holder_ms;

    if (peer->life != PEER_LIVE || !peer_take_other(peer))
        return false;
    log_info("Peer is known by its other Lease now", LT("server", peer_label(peer)), LT("id", peer->id),
             LT("holder", peer->holder));
    report(p, peer, read ? PEER_CHANGED_RHYTHM : PEER_CHANGED_HOLDER);
    return true;
}

static void judge(struct peers *p, struct peer *peer, uint64_t now)
{
    uint64_t silent = now - peer->seen_ms, limit = patience(p, peer);
    const char *why = peer->leased ? "Lease not renewed" : "no answers";
    bool answers;

    /* Without sight of the Leases there is nothing to judge by. */
    if (((peer->leased || peer->left) && !p->watching) || (silent < limit && silent < p->o.stale_after_ms))
        return;
    if (peer->leased && goes_on(p, peer))
        return; /* that one is judged at the next look */
    answers = still_answers(p, peer);
    if (answers && !others_renew(p, peer)) {
        report(p, peer, move(p, peer, PEER_LIVE, "answers, and nobody's Lease is renewed"));
    } else if (silent >= limit && !answers) {
        if (peer->left)
            forget_left(p, peer, "Lease deleted, and not made again");
        else
            report(p, peer, move(p, peer, PEER_FORGOTTEN, why));
    } else if (silent >= p->o.stale_after_ms && peer->life == PEER_LIVE)
        report(p, peer, move(p, peer, PEER_LAPSED, why));
}

static uint64_t later(uint64_t at, uint64_t by, uint64_t now)
{
    return now - at > by ? at + by : now;
}

/* Nobody was seen while this process was suspended, which is not their silence. */
static void make_up(struct peers *p, uint64_t now)
{
    uint64_t in_all = loop_missed_ms(p->o.loop), missed = in_all - p->missed_ms;

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
    uint64_t now = loop_now_ms(p->o.loop);

    make_up(p, now);
    /* Downwards: one that is taken out moves only those that have been seen to. */
    for (size_t i = p->n; i-- > 0;) {
        /* An origin that could not be made for want of memory. */
        if (p->table[i]->origin == NULL && peer_settle_origin(p->table[i], &p->o.reach, false))
            report(p, p->table[i], PEER_CHANGED_ORIGIN);
        judge(p, p->table[i], now);
    }
    if (p->static_due)
        add_all_static(p);
    if (p->n > 0)
        loop_timer_set(p->tick, TICK_MS);
}

/* Not of one address or Lease: it stays until the peer is removed from the table, or undrained. */
void peers_set_drained(struct peers *p, struct peer *peer, bool drained)
{
    if (peer->drained == drained)
        return;
    peer->drained = drained;
    log_info(drained ? "Peer drained" : "Peer undrained", LT("server", peer_label(peer)), LT("id", peer->id));
    changes_add(p->o.reach.changes, CHANGE_CHANGED, peer_label(peer),
                drained ? "is drained" : "is not drained any more");
    report(p, peer, PEER_CHANGED_DRAINED);
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
            take_out(p, peer, "a record in etcd, and no Lease");
    }
}

void peers_set_watching(struct peers *p, bool watching)
{
    uint64_t now = loop_now_ms(p->o.loop);

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
    peer->answered_ms = loop_now_ms(p->o.loop);
    /* Who has left may answer to the last moment: that prolongs nothing, unless it needs no Lease at all. */
    if (peer->leased || (peer->left && !peer->fixed))
        return;
    peer->left = false;
    peer->seen_ms = loop_now_ms(p->o.loop);
    report(p, peer, move(p, peer, PEER_LIVE, "answered"));
}

/* ---- leases ---- */

/* The host name that a Lease says, by which the origin's metrics go. A Lease without the label takes none away. */
static unsigned set_hostname(struct peers *p, struct peer *peer, struct slice text)
{
    if (text.n == 0 || !peer_set_text(&peer->hostname, text) || peer->origin == NULL)
        return 0;
    return peer_settle_origin(peer, &p->o.reach, true) ? PEER_CHANGED_ORIGIN : 0;
}

static void take_lease(struct peer *peer, const struct lease *l, uint64_t now)
{
    if (peer->leased && peer_other_lease(peer, l)) {
        peer->other_us = peer->renew_us;
        peer->other_seen_ms = peer->seen_ms;
        (void)peer_set_other(peer, slice_str(peer->holder), now);
    }
    (void)peer_set_text(&peer->holder, l->holder);
    peer->renew_us = l->renew_us;
    peer->duration_ms = l->has_duration && l->duration_s > 0 ? (uint64_t)l->duration_s * 1000 : 0;
    peer->seen_ms = now;
    peer->leased = true;
    peer->left = peer->expired = false;
    peer->other_ms = 0;
}

static void first_lease(struct peers *p, const struct lease *l)
{
    bool expired = lease_expired(l, clock_wall_us());
    /* What a dead server left behind is kept in mind, so that a renewal is noticed, but is no peer. */
    struct peer *peer = expired && p->n >= LIMIT_PEERS ? NULL : insert(p, l->name, l->hostname_label);

    if (peer == NULL)
        return;
    (void)set_hostname(p, peer, l->hostname_label);
    take_lease(peer, l, loop_now_ms(p->o.loop));
    (void)peer_set_annotation(peer, l->advertise, p->o.reach.changes);
    peer->expired = expired;
    if (expired) {
        log_info("Lease has expired", LT("server", peer_label(peer)), LT("id", peer->id));
    } else {
        note_renewal(p);
        peer_move(peer, PEER_LIVE);
    }
    announce(p, peer);
}

/*
 * By its own clock: how long the renewal took to come here does not matter. Who renews more often than kube-apiserver
 * does (a test) has another rhythm, of which nothing is known.
 */
static bool out_of_turn(struct peer *peer, int64_t since)
{
    int64_t before = peer->rhythm_us;

    peer->rhythm_us = since;
    return since > RHYTHM_MAX_US || (since < RHYTHM_MIN_US && before >= RHYTHM_MIN_US);
}

/*
 * Whether its document was read from the process that writes this Lease: it is the one of before, whose Lease somebody
 * deleted, or it was never away; or it was seen to go and to come since, and read after that, as the mvproxy before it
 * answers sooner than it writes its Lease.
 */
static bool is_known(const struct peers *p, const struct peer *peer, const struct lease *l)
{
    if (peer->leased)
        return peer_was_read(peer, l);
    return peer->left && (slice_eq(slice_str(peer->holder), l->holder) || p->handler->document_holds(p->arg, peer));
}

static unsigned renewed(struct peers *p, struct peer *peer, const struct lease *l)
{
    bool regained = !peer->leased;
    bool holder = !slice_eq(slice_str(peer->holder), l->holder);
    bool moved = peer->renew_us != l->renew_us, read = (holder || regained) && is_known(p, peer, l);
    unsigned what = 0;

    if (!regained && !holder && !moved)
        return 0;
    note_renewal(p);
    if (read && !regained) {
        log_info("Peer is known by its other Lease now", LT("server", peer_label(peer)), LT("id", peer->id),
                 LS("holder", l->holder));
    } else if (holder && !regained) {
        log_info("Peer restarted: its Lease has another holder", LT("server", peer_label(peer)), LT("id", peer->id),
                 LS("holder", l->holder));
        changes_add(p->o.reach.changes, CHANGE_CHANGED, peer_label(peer), "restarted: its Lease has another holder");
    }
    if (moved)
        what |= PEER_CHANGED_RENEWED;
    if (holder || regained) {
        what |= read ? PEER_CHANGED_RHYTHM : PEER_CHANGED_HOLDER;
        peer->rhythm_us = 0;
    } else if (moved && out_of_turn(peer, l->renew_us - peer->renew_us)) {
        what |= PEER_CHANGED_RHYTHM;
    }
    take_lease(peer, l, loop_now_ms(p->o.loop));
    /* Without a duration nobody can tell how long it holds: kube-apiserver takes that for expired (as lease_expired).
     */
    if ((regained || peer->duration_ms == 0) && lease_expired(l, clock_wall_us()))
        return what;
    return what | move(p, peer, PEER_LIVE, regained ? "Lease appeared" : "Lease renewed");
}

void peers_lease(struct peers *p, const struct lease *l)
{
    struct peer *peer = peers_find(p, l->name);
    bool made;
    unsigned what, change;

    if (slice_eq(l->name, slice_str(p->own_id)))
        return;
    if (peer == NULL) {
        first_lease(p, l);
        return;
    }
    what = set_hostname(p, peer, l->hostname_label);
    made = !peer->leased || (!slice_eq(slice_str(peer->holder), l->holder) && !peer_other_lease(peer, l));
    change = renewed(p, peer, l);
    what |= change;
    /* A Lease that was made anew says in a moment where its server is; until it is renewed, that is where it was. */
    if (made && l->advertise.n == 0 && peer->address[PEER_FROM_ANNOTATION].host != NULL)
        peer->lent = true;
    /* One that is listed again says no less than before, nor one that was renewed before the other one was. */
    else if (l->advertise.n > 0 || !peer->lent || (change != 0 && l->renew_us > peer->other_us)) {
        peer->lent = false;
        if (peer_set_annotation(peer, l->advertise, p->o.reach.changes) &&
            peer_settle_origin(peer, &p->o.reach, peer->source == PEER_FROM_ANNOTATION))
            what |= PEER_CHANGED_ORIGIN;
    }
    report(p, peer, what);
}

/* As much of it as is kept. */
static struct slice cut_address(const struct lease *l)
{
    return slice_of(l->advertise.p, l->advertise.n < PEER_ADDRESS_BYTES ? l->advertise.n : PEER_ADDRESS_BYTES - 1);
}

void peers_lease_says(struct peers *p, struct slice id, enum peer_lease which, const struct lease *l)
{
    struct peer *peer = peers_find(p, id);
    struct slice address = cut_address(l);

    if (peer == NULL)
        return;
    if (address.n > 0)
        memcpy(peer->said_addresses[which], address.p, address.n);
    peer->said_addresses[which][address.n] = '\0';
    report(p, peer, peer_set_tag(peer, which, l->discovery));
}

static bool was_written(const struct peer *peer, enum peer_lease which, const struct lease *l)
{
    return !slice_eq(l->discovery, slice_str(peer->tags[which])) ||
           !slice_eq(cut_address(l), slice_str(peer->said_addresses[which]));
}

enum peers_other peers_saw_other(struct peers *p, struct slice id, const struct lease *l, enum peer_lease which)
{
    struct peer *peer = peers_find(p, id);
    bool seen = peer != NULL && peer->other_us != 0, moved = seen && l->renew_us != peer->other_us;

    if (peer != NULL) {
        if (!seen || moved)
            peer->other_seen_ms = loop_now_ms(p->o.loop);
        peer->other_us = l->renew_us;
        report(p, peer, peer_set_other(peer, l->holder, loop_now_ms(p->o.loop)));
    }
    if (!seen)
        return PEERS_OTHER_FIRST;
    if (!moved)
        return was_written(peer, which, l) ? PEERS_OTHER_WRITTEN : PEERS_OTHER_LEFT;
    if (peer->other_ms == 0) {
        peer->other_ms = loop_now_ms(p->o.loop);
        report(p, peer, PEER_CHANGED_RHYTHM);
    }
    return loop_now_ms(p->o.loop) - peer->seen_ms >= PEERS_REPLACED_MS ? PEERS_OTHER_REPLACES : PEERS_OTHER_WRITTEN;
}

void peers_lend_address(struct peers *p, struct slice id, struct slice address)
{
    struct peer *peer = peers_find(p, id);

    if (peer == NULL || peer->address[PEER_FROM_ANNOTATION].host != NULL)
        return;
    peer->lent = true;
    if (peer_set_annotation(peer, address, p->o.reach.changes) && peer_settle_origin(peer, &p->o.reach, false))
        report(p, peer, PEER_CHANGED_ORIGIN);
}

void peers_other_gone(struct peers *p, struct slice id)
{
    struct peer *peer = peers_find(p, id);

    if (peer != NULL)
        peer->other_us = 0;
}

/* Also of one that has never said what it serves: what only it has is not gone because we have not heard of it. */
static bool worth_keeping(const struct peers *p, const struct peer *peer)
{
    return p->o.leave_grace_ms > 0 && peer->life != PEER_FORGOTTEN;
}

void peers_lease_gone(struct peers *p, struct slice id, bool unseen)
{
    struct peer *peer = peers_find(p, id);

    if (peer == NULL || !peer->leased || goes_on(p, peer))
        return;
    peer->leased = false;
    peer->duration_ms = 0;
    if (worth_keeping(p, peer)) {
        peer->left = true;
        if (peer->life == PEER_LIVE)
            peer->seen_ms = loop_now_ms(p->o.loop);
        report(p, peer, (unseen ? PEER_CHANGED_HOLDER : 0) | move(p, peer, PEER_LAPSED, "Lease deleted"));
        return;
    }
    if (!peer->fixed) {
        take_out(p, peer, "Lease deleted");
        return;
    }
    (void)peer_set_text(&peer->holder, SLICE_LIT(""));
    (void)peer_set_address(peer, PEER_FROM_ANNOTATION, NULL, 0);
    report(p, peer, PEER_CHANGED_HOLDER | move(p, peer, PEER_FORGOTTEN, "Lease deleted"));
}

/* Who starts while its own server is away would know nobody. The certificate says whether it is an API server. */
static void plant(struct peers *p, struct slice id, const char *host, unsigned port)
{
    struct peer *peer = insert(p, id, SLICE_NONE);

    if (peer == NULL)
        return;
    peer->seed = true;
    peer_move(peer, PEER_LIVE);
    (void)peer_set_address(peer, PEER_FROM_ETCD, host, port);
    announce(p, peer);
}

void peers_etcd_address(struct peers *p, struct slice id, const char *host, unsigned port)
{
    struct peer *peer = peers_find(p, id);

    /* Once Leases are known a record alone makes no peer. */
    if (peer == NULL && host != NULL && !p->listed && !slice_eq(id, slice_str(p->own_id)))
        plant(p, id, host, port);
    else if (peer != NULL && host == NULL && is_mere_seed(peer))
        take_out(p, peer, "its record in etcd is gone");
    else if (peer != NULL && peer_set_address(peer, PEER_FROM_ETCD, host, port) &&
             peer_settle_origin(peer, &p->o.reach, peer->source == PEER_FROM_ETCD))
        report(p, peer, PEER_CHANGED_ORIGIN);
}

/* ---- static ---- */

static bool has_static_address(const struct peer *peer, const struct peers_static_row *row)
{
    const char *host = peer->address[PEER_FROM_STATIC].host;

    return host != NULL && strcmp(host, row->host) == 0 && peer->address[PEER_FROM_STATIC].port == row->port;
}

/* False: there is no memory for all of it. */
static bool add_static(struct peers *p, const struct peers_static_row *row)
{
    struct peer *peer = peers_find(p, slice_str(row->id));
    bool is_new = peer == NULL;

    if (is_new)
        peer = insert(p, slice_str(row->id), slice_str(row->host));
    if (peer == NULL)
        return p->n >= LIMIT_PEERS;
    if (row->hostname != NULL && peer->hostname[0] == '\0')
        (void)peer_set_text(&peer->hostname, slice_str(row->hostname));
    peer->fixed = true;
    if (is_new) {
        (void)peer_set_address(peer, PEER_FROM_STATIC, row->host, row->port);
        peer_move(peer, PEER_LIVE);
        announce(p, peer);
    } else if (peer_set_address(peer, PEER_FROM_STATIC, row->host, row->port) &&
               peer_settle_origin(peer, &p->o.reach, true)) {
        report(p, peer, PEER_CHANGED_ORIGIN);
    }
    return has_static_address(peer, row) && (row->hostname == NULL || peer->hostname[0] != '\0');
}

static void add_all_static(struct peers *p)
{
    p->static_due = false;
    for (size_t i = 0; p->fixed != NULL && i < p->fixed->n; i++)
        if (strcmp(p->fixed->rows[i].id, p->own_id) != 0 && !add_static(p, &p->fixed->rows[i]))
            p->static_due = true;
    if (p->static_due && !loop_timer_pending(p->tick))
        loop_timer_set(p->tick, TICK_MS);
}

void peers_set_static(struct peers *p, struct peers_static *list)
{
    for (size_t i = p->n; i-- > 0;) {
        struct peer *peer = p->table[i];

        if (!peer->fixed || peers_static_find(list, peer->id) != NULL)
            continue;
        peer->fixed = false;
        if (!peer->leased && !peer->left)
            take_out(p, peer, "no longer configured");
        else if (peer_set_address(peer, PEER_FROM_STATIC, NULL, 0) && peer_settle_origin(peer, &p->o.reach, false))
            report(p, peer, PEER_CHANGED_ORIGIN);
    }
    if (peers_static_find(list, p->own_id) != NULL)
        log_warning("Ignoring a static peer that is this server itself", LT("id", p->own_id));
    peers_static_free(p->fixed);
    p->fixed = list;
    add_all_static(p);
}

/* ---- whole ---- */

struct peers *peers_new(const struct peers_opts *o, const struct peers_handler *h, void *arg)
{
    struct peers *p = mem_zalloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    p->o = *o;
    p->handler = h;
    p->arg = arg;
    (void)snprintf(p->own_id, sizeof(p->own_id), "%s", o->own_id);
    p->o.own_id = p->own_id;
    p->unwatched_since_ms = loop_now_ms(o->loop);
    p->missed_ms = loop_missed_ms(o->loop);
    p->tick = loop_timer_new(o->loop, on_tick, p);
    if (p->tick != NULL)
        return p;
    mem_free(p);
    return NULL;
}

void peers_free(struct peers *p)
{
    if (p == NULL)
        return;
    loop_timer_free(p->tick);
    while (p->n > 0) {
        struct peer *peer = p->table[--p->n];

        p->handler->removed(p->arg, peer);
        peer_free(peer);
    }
    peers_static_free(p->fixed);
    mem_free(p->table);
    mem_free(p);
}

void peers_update(struct peers *p, const struct peers_opts *o)
{
    const struct peer_reach *now = &o->reach, *then = &p->o.reach;
    bool anew = now->tls_cert != then->tls_cert || now->tls_no_cert != then->tls_no_cert || now->allow != then->allow ||
                now->allow_arg != then->allow_arg || o->rule_changed || now->egress != then->egress;

    p->o = *o;
    p->o.own_id = p->own_id;
    for (size_t i = 0; anew && i < p->n; i++)
        if (peer_settle_origin(p->table[i], &p->o.reach, true))
            report(p, p->table[i], PEER_CHANGED_ORIGIN);
}
