/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peers.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/changes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/cluster_opts.h"
#include "kube/hostport.h"
#include "kube/server_id.h"
#include "net/cidr.h"
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
    char *own_id;
    struct peer **table; /* sorted by ID */
    size_t n, cap;
    bool watching;
    uint64_t unwatched_since_ms, missed_ms;
    uint64_t renewing_since_ms, renewed_ms; /* any Lease, our own as well: without a gap since, and last */
    struct loop_timer *tick;                /* armed while there are peers */
};

const char *peer_life_name(enum peer_life life)
{
    static const char *const names[] = {"live", "lapsed", "forgotten"};

    return names[life];
}

const char *peer_source_name(enum peer_source s)
{
    static const char *const names[] = {"static", "etcd", "annotation", "none"};

    return names[s];
}

/* --------------------------------------------------------------------------------------------------------- table */

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
    bool found;
    size_t at = position(p, id, &found);

    return found ? p->table[at] : NULL;
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

static void peer_free(struct peer *peer)
{
    if (peer == NULL)
        return;
    for (size_t i = 0; i < PEER_SOURCES; i++)
        mem_free(peer->address[i].host);
    if (peer->origin != NULL)
        origin_unref(peer->origin);
    mem_free(peer->id);
    mem_free(peer->hostname);
    mem_free(peer->holder);
    mem_free(peer);
}

static bool grow(struct peers *p)
{
    size_t cap = p->cap == 0 ? 16 : p->cap * 2;
    struct peer **table;

    if (p->n < p->cap)
        return true;
    table = mem_realloc(p->table, cap * sizeof *table);
    if (table == NULL)
        return false;
    p->table = table;
    p->cap = cap;
    return true;
}

static struct peer *peer_new(const struct peers *p, struct slice id)
{
    struct peer *peer = mem_zalloc(sizeof *peer);

    if (peer == NULL)
        return NULL;
    peer->id = mem_slicedup(id);
    peer->hostname = mem_strdup("");
    peer->holder = mem_strdup("");
    peer->life = PEER_FORGOTTEN;
    peer->source = PEER_SOURCES;
    peer->known_ms = peer->seen_ms = loop_now_ms(p->o.loop);
    if (peer->id != NULL && peer->hostname != NULL && peer->holder != NULL)
        return peer;
    peer_free(peer);
    return NULL;
}

const char *peer_label(const struct peer *peer)
{
    return peer->hostname[0] != '\0' ? peer->hostname : peer->id;
}

static void take_out(struct peers *p, struct peer *peer, const char *why)
{
    bool found;
    size_t at = position(p, slice_str(peer->id), &found);

    log_info("Peer removed", LT("peer", peer->id), LT("host", peer->hostname), LT("reason", why),
             LB("drained", peer->drained));
    changes_add(p->o.changes, CHANGE_WENT, peer_label(peer), "is forgotten: %s", why);
    p->handler->removed(p->arg, peer);
    memmove(&p->table[at], &p->table[at + 1], (p->n - at - 1) * sizeof *p->table);
    p->n--;
    peer_free(peer);
}

/*
 * A full table has room for who is there rather than for who left or is dead: of those, the one that was seen longest
 * ago goes.
 */
static bool make_room(struct peers *p)
{
    struct peer *oldest = NULL;

    for (size_t i = 0; i < p->n; i++) {
        struct peer *peer = p->table[i];

        if (!peer->fixed && (peer->left || peer->life == PEER_FORGOTTEN) &&
            (oldest == NULL || peer->seen_ms < oldest->seen_ms))
            oldest = peer;
    }
    if (oldest != NULL)
        take_out(p, oldest, oldest->left ? "Lease deleted, and its place is needed" : "dead, and its place is needed");
    return oldest != NULL;
}

/* Known to nobody yet: the caller fills it in and then calls announce(). NULL: full, or out of memory. */
static struct peer *insert(struct peers *p, struct slice id)
{
    struct peer *peer;
    size_t at;
    bool found;

    if (p->n >= LIMIT_PEERS && !make_room(p)) {
        log_warning("Peer limit reached, API server ignored", LS("peer", id), LU("limit", LIMIT_PEERS));
        return NULL;
    }
    at = position(p, id, &found);
    peer = grow(p) ? peer_new(p, id) : NULL;
    if (peer == NULL) {
        log_error("Out of memory for a peer", LS("peer", id));
        return NULL;
    }
    memmove(&p->table[at + 1], &p->table[at], (p->n - at) * sizeof *p->table);
    p->table[at] = peer;
    p->n++;
    if (!loop_timer_pending(p->tick))
        loop_timer_set(p->tick, TICK_MS);
    return peer;
}

/* ------------------------------------------------------------------------------------------------------- origins */

static enum peer_source best_source(const struct peer *peer)
{
    enum peer_source s = PEER_FROM_STATIC;

    while (s < PEER_SOURCES && peer->address[s].host == NULL)
        s++;
    return s;
}

static bool is_literal(const char *host)
{
    char text[300];
    struct hostport hp;
    int n = snprintf(text, sizeof text, strchr(host, ':') != NULL ? "[%s]:1" : "%s:1", host);

    return n > 0 && (size_t)n < sizeof text && hostport_parse(slice_of(text, (size_t)n), &hp) && hp.ip;
}

/*
 * The rule without peer-allowed-cidrs. An address out of a Lease can be written by whoever may write Leases in
 * kube-system: it must not turn us against services of our own node.
 */
static bool is_elsewhere(const struct sockaddr *addr, void *unused)
{
    (void)unused;
    return !cidr_is_special(addr);
}

static struct origin *make_origin(const struct peers *p, const struct peer *peer, enum peer_source s)
{
    struct origin_opts o = {
        .name = peer->id,
        .server = peer_label(peer),
        .host = peer->address[s].host,
        .port = peer->address[s].port,
        .tls_cert = p->o.tls_cert,
        .tls_no_cert = p->o.tls_no_cert,
        .tls_required = true,
        .allow = p->o.allow != NULL ? p->o.allow : is_elsewhere,
        .allow_arg = p->o.allow_arg,
        .egress = p->o.egress,
    };

    /*
     * What the operator has written as a static peer is listed explicitly; only a name among peer-allowed-cidrs, which
     * resolves to whatever DNS says, is still held against them.
     */
    if (s == PEER_FROM_STATIC && (p->o.allow == NULL || is_literal(o.host)))
        o.allow = NULL;
    return origin_new(p->o.back, &o);
}

/* Picks the address by precedence and makes the origin fit it. True if the origin is another one now. */
static bool settle_origin(struct peers *p, struct peer *peer, bool anew)
{
    enum peer_source s = best_source(peer);
    struct origin *old = peer->origin;

    if (!anew && s == peer->source && (old != NULL || s == PEER_SOURCES))
        return false;
    peer->origin = s == PEER_SOURCES ? NULL : make_origin(p, peer, s);
    peer->source = s;
    if (s == PEER_SOURCES) {
        log_warning("Peer has no usable address", LT("peer", peer->id), LT("host", peer->hostname));
        changes_add(p->o.changes, CHANGE_FAILED, peer_label(peer), "has no usable address");
    } else if (peer->origin == NULL)
        log_error("Out of memory for a peer's address", LT("peer", peer->id));
    else {
        log_info("Peer address", LT("peer", peer->id), LT("address", origin_address(peer->origin)),
                 LT("source", peer_source_name(s)));
        changes_add(p->o.changes, CHANGE_CHANGED, peer_label(peer), "address %s, from %s", origin_address(peer->origin),
                    peer_source_name(s));
    }
    if (old != NULL)
        origin_unref(old);
    return true;
}

/* Returns whether the slot has other contents now. host NULL empties it. */
static bool set_address(struct peer *peer, enum peer_source s, const char *host, unsigned port)
{
    char *copy = NULL;

    if (host == NULL && peer->address[s].host == NULL)
        return false;
    if (host != NULL && peer->address[s].host != NULL && strcmp(host, peer->address[s].host) == 0 &&
        port == peer->address[s].port)
        return false;
    if (host != NULL) {
        copy = mem_strdup(host);
        if (copy == NULL)
            return false;
    }
    mem_free(peer->address[s].host);
    peer->address[s].host = copy;
    peer->address[s].port = port;
    return true;
}

/* The Lease annotation may be written by many: literal addresses only, so that DNS cannot be used to aim us. */
static bool set_annotation(struct peer *peer, struct slice text, struct changes *changes)
{
    struct hostport hp;
    char host[64];

    if (text.n == 0)
        return set_address(peer, PEER_FROM_ANNOTATION, NULL, 0);
    if (!hostport_parse(text, &hp) || !hp.ip || hp.host.n >= sizeof host) {
        log_v(2, "Ignoring a peer address that is not IP:PORT", LT("peer", peer->id), LS("address", text));
        changes_add(changes, CHANGE_DISBELIEVED, peer_label(peer), "address in its Lease: \"%.*s\" is not IP:PORT",
                    (int)text.n, text.p);
        return set_address(peer, PEER_FROM_ANNOTATION, NULL, 0);
    }
    memcpy(host, hp.host.p, hp.host.n);
    host[hp.host.n] = '\0';
    return set_address(peer, PEER_FROM_ANNOTATION, host, hp.port);
}

/* ---------------------------------------------------------------------------------------------------------- life */

/* The only place where life changes. Returns PEER_CHANGED_LIFE if it did. */
static unsigned move(struct peers *p, struct peer *peer, enum peer_life to, const char *why)
{
    enum peer_life from = peer->life;

    if (from == to)
        return 0;
    peer->life = to;
    if (to == PEER_FORGOTTEN)
        peer->answered = false;
    changes_add(p->o.changes,
                to == PEER_LIVE     ? CHANGE_RECOVERED
                : to == PEER_LAPSED ? CHANGE_FAILED
                                    : CHANGE_WENT,
                peer_label(peer), "is %s, was %s: %s", peer_life_name(to), peer_life_name(from), why);
    log_info("Peer state changed", LT("peer", peer->id), LT("host", peer->hostname), LT("from", peer_life_name(from)),
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
    log_info("Peer added", LT("peer", peer->id), LT("host", peer->hostname), LT("life", peer_life_name(peer->life)),
             LB("lease", peer->leased), LB("static", peer->fixed));
    changes_add(p->o.changes, CHANGE_CAME, peer_label(peer), "is known by its %s",
                peer->leased ? "Lease" : "configuration");
    (void)settle_origin(p, peer, false);
    p->handler->added(p->arg, peer);
}

/* How long it may be silent before it is forgotten. */
static uint64_t patience(const struct peers *p, const struct peer *peer)
{
    if (peer->left)
        return p->o.leave_grace_ms;
    return peer->leased && peer->duration_ms < p->o.forget_after_ms ? peer->duration_ms : p->o.forget_after_ms;
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

static void judge(struct peers *p, struct peer *peer, uint64_t now)
{
    uint64_t silent = now - peer->seen_ms, limit = patience(p, peer);
    const char *why = peer->leased ? "Lease not renewed" : "no answers";
    bool answers;

    /* Without sight of the Leases there is nothing to judge by. */
    if (((peer->leased || peer->left) && !p->watching) || (silent < limit && silent < p->o.stale_after_ms))
        return;
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

/* Nobody was seen while this process was not let run, which is not their silence. */
static void make_up(struct peers *p, uint64_t now)
{
    uint64_t in_all = loop_missed_ms(p->o.loop), missed = in_all - p->missed_ms;

    p->missed_ms = in_all;
    p->renewing_since_ms = later(p->renewing_since_ms, missed, now);
    p->renewed_ms = later(p->renewed_ms, missed, now);
    for (size_t i = 0; missed > 0 && i < p->n; i++)
        p->table[i]->seen_ms = later(p->table[i]->seen_ms, missed, now);
}

static void on_tick(void *arg)
{
    struct peers *p = arg;
    uint64_t now = loop_now_ms(p->o.loop);

    make_up(p, now);
    /* Downwards: one that is taken out moves only those that have been seen to. */
    for (size_t i = p->n; i-- > 0;) {
        /* An origin that could not be made for want of memory. */
        if (p->table[i]->origin == NULL && settle_origin(p, p->table[i], false))
            report(p, p->table[i], PEER_CHANGED_ORIGIN);
        judge(p, p->table[i], now);
    }
    if (p->n > 0)
        loop_timer_set(p->tick, TICK_MS);
}

/* Not of one address or Lease: it stays until the peer is removed from the table, or undrained. */
void peers_set_drained(struct peers *p, struct peer *peer, bool drained)
{
    if (peer->drained == drained)
        return;
    peer->drained = drained;
    log_info(drained ? "Peer drained" : "Peer undrained", LT("peer", peer->id), LT("host", peer->hostname));
    changes_add(p->o.changes, CHANGE_CHANGED, peer_label(peer), drained ? "is drained" : "is not drained any more");
    report(p, peer, PEER_CHANGED_DRAINED);
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

/* --------------------------------------------------------------------------------------------------------- leases */

static bool replace_text(char **slot, struct slice text)
{
    char *copy;

    if (slice_eq(slice_str(*slot), text))
        return false;
    copy = mem_slicedup(text);
    if (copy == NULL)
        return false;
    mem_free(*slot);
    *slot = copy;
    return true;
}

/* The host name that a Lease says, by which the origin's metrics go. A Lease without the label takes none away. */
static unsigned set_hostname(struct peers *p, struct peer *peer, struct slice text)
{
    if (text.n == 0 || !replace_text(&peer->hostname, text) || peer->origin == NULL)
        return 0;
    return settle_origin(p, peer, true) ? PEER_CHANGED_ORIGIN : 0;
}

static void take_lease(struct peer *peer, const struct lease *l, uint64_t now)
{
    (void)replace_text(&peer->holder, l->holder);
    peer->renew_us = l->renew_us;
    peer->duration_ms = l->has_duration && l->duration_s > 0 ? (uint64_t)l->duration_s * 1000 : 0;
    peer->seen_ms = now;
    peer->leased = true;
    peer->left = false;
}

static unsigned set_tag(struct peer *peer, struct slice tag)
{
    if (tag.n >= sizeof peer->tag || slice_eq(tag, slice_str(peer->tag)))
        return 0;
    memcpy(peer->tag, tag.p, tag.n);
    peer->tag[tag.n] = '\0';
    return tag.n > 0 ? PEER_CHANGED_TAG : 0;
}

static void first_lease(struct peers *p, const struct lease *l)
{
    bool expired = lease_expired(l, clock_wall_us());
    /* What a dead server left behind is kept in mind, so that a renewal is noticed, but is no peer. */
    struct peer *peer = expired && p->n >= LIMIT_PEERS ? NULL : insert(p, l->name);

    if (peer == NULL)
        return;
    (void)set_hostname(p, peer, l->hostname_label);
    take_lease(peer, l, loop_now_ms(p->o.loop));
    (void)set_annotation(peer, l->advertise, p->o.changes);
    (void)set_tag(peer, l->discovery);
    if (expired) {
        log_info("Lease has expired", LT("peer", peer->id), LT("host", peer->hostname));
    } else {
        note_renewal(p);
        peer->life = PEER_LIVE;
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

static unsigned renewed(struct peers *p, struct peer *peer, const struct lease *l)
{
    bool regained = !peer->leased;
    bool holder = !slice_eq(slice_str(peer->holder), l->holder);
    bool moved = peer->renew_us != l->renew_us;
    unsigned what = 0;

    if (!regained && !holder && !moved)
        return 0;
    note_renewal(p);
    if (holder && !regained) {
        log_info("Peer restarted: its Lease has another holder", LT("peer", peer->id), LT("host", peer->hostname),
                 LS("holder", l->holder));
        changes_add(p->o.changes, CHANGE_CHANGED, peer_label(peer), "restarted: its Lease has another holder");
    }
    if (moved)
        what |= PEER_CHANGED_RENEWED;
    if (holder || regained) {
        what |= PEER_CHANGED_HOLDER;
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
    unsigned what;

    if (slice_eq(l->name, slice_str(p->own_id)))
        return;
    if (peer == NULL) {
        first_lease(p, l);
        return;
    }
    what = set_hostname(p, peer, l->hostname_label);
    what |= renewed(p, peer, l) | set_tag(peer, l->discovery);
    if (set_annotation(peer, l->advertise, p->o.changes) &&
        settle_origin(p, peer, peer->source == PEER_FROM_ANNOTATION))
        what |= PEER_CHANGED_ORIGIN;
    report(p, peer, what);
}

/* Also of one that has never said what it serves: what only it has is not gone because we have not heard of it. */
static bool worth_keeping(const struct peers *p, const struct peer *peer)
{
    return p->o.leave_grace_ms > 0 && peer->life != PEER_FORGOTTEN;
}

void peers_lease_gone(struct peers *p, struct slice id, bool unseen)
{
    struct peer *peer = peers_find(p, id);

    if (peer == NULL || !peer->leased)
        return;
    peer->leased = false;
    peer->duration_ms = 0;
    (void)replace_text(&peer->holder, SLICE_LIT(""));
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
    (void)set_address(peer, PEER_FROM_ANNOTATION, NULL, 0);
    report(p, peer, PEER_CHANGED_HOLDER | move(p, peer, PEER_FORGOTTEN, "Lease deleted"));
}

void peers_etcd_address(struct peers *p, struct slice id, const char *host, unsigned port)
{
    struct peer *peer = peers_find(p, id);

    /* A record alone makes no peer: the Lease does. */
    if (peer != NULL && set_address(peer, PEER_FROM_ETCD, host, port) &&
        settle_origin(p, peer, peer->source == PEER_FROM_ETCD))
        report(p, peer, PEER_CHANGED_ORIGIN);
}

/* --------------------------------------------------------------------------------------------------------- static */

static bool static_id(const struct cluster_static_peer *s, char out[SERVER_ID_BYTES])
{
    struct slice name = slice_str(s->name);

    if (!server_id_valid(name))
        return server_id_from_hostname(name, out);
    memcpy(out, name.p, SERVER_ID_CHARS);
    out[SERVER_ID_CHARS] = '\0';
    return true;
}

static void add_static(struct peers *p, const struct cluster_static_peer *s, const char *id)
{
    struct peer *peer = peers_find(p, slice_str(id));
    bool is_new = peer == NULL;

    if (is_new)
        peer = insert(p, slice_str(id));
    if (peer == NULL)
        return;
    if (!server_id_valid(slice_str(s->name)) && peer->hostname[0] == '\0')
        (void)replace_text(&peer->hostname, slice_str(s->name));
    peer->fixed = true;
    if (is_new) {
        (void)set_address(peer, PEER_FROM_STATIC, s->host, s->port);
        peer->life = PEER_LIVE;
        announce(p, peer);
    } else if (set_address(peer, PEER_FROM_STATIC, s->host, s->port) && settle_origin(p, peer, true))
        report(p, peer, PEER_CHANGED_ORIGIN);
}

static bool listed(const struct cluster_static_peer *list, size_t n, const char *id)
{
    char text[SERVER_ID_BYTES];

    for (size_t i = 0; i < n; i++)
        if (static_id(&list[i], text) && strcmp(text, id) == 0)
            return true;
    return false;
}

void peers_set_static(struct peers *p, const struct cluster_static_peer *list, size_t n)
{
    char id[SERVER_ID_BYTES];

    for (size_t i = p->n; i-- > 0;) {
        struct peer *peer = p->table[i];

        if (!peer->fixed || listed(list, n, peer->id))
            continue;
        peer->fixed = false;
        if (!peer->leased && !peer->left)
            take_out(p, peer, "no longer configured");
        else if (set_address(peer, PEER_FROM_STATIC, NULL, 0) && settle_origin(p, peer, false))
            report(p, peer, PEER_CHANGED_ORIGIN);
    }
    for (size_t i = 0; i < n; i++) {
        if (!static_id(&list[i], id))
            log_warning("Ignoring a static peer without a usable name", LT("host", list[i].host));
        else if (strcmp(id, p->own_id) == 0)
            log_warning("Ignoring a static peer that is this server itself", LT("peer", id));
        else
            add_static(p, &list[i], id);
    }
}

/* ---------------------------------------------------------------------------------------------------------- whole */

struct peers *peers_new(const struct peers_opts *o, const struct peers_handler *h, void *arg)
{
    struct peers *p = must_zalloc(sizeof *p);

    p->o = *o;
    p->handler = h;
    p->arg = arg;
    p->own_id = must_strdup(o->own_id);
    p->o.own_id = p->own_id;
    p->unwatched_since_ms = loop_now_ms(o->loop);
    p->missed_ms = loop_missed_ms(o->loop);
    p->tick = loop_timer_new(o->loop, on_tick, p);
    if (p->tick == NULL)
        abort();
    return p;
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
    mem_free(p->table);
    mem_free(p->own_id);
    mem_free(p);
}

void peers_update(struct peers *p, const struct peers_opts *o)
{
    bool anew = o->tls_cert != p->o.tls_cert || o->tls_no_cert != p->o.tls_no_cert || o->allow != p->o.allow ||
                o->allow_arg != p->o.allow_arg || o->rule_changed || o->egress != p->o.egress;

    p->o = *o;
    p->o.own_id = p->own_id;
    for (size_t i = 0; anew && i < p->n; i++)
        if (settle_origin(p, p->table[i], true))
            report(p, p->table[i], PEER_CHANGED_ORIGIN);
}
