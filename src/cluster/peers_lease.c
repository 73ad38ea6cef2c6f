/* SPDX-License-Identifier: Apache-2.0 */
/* What Leases say of peers. */
#include "base/changes.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/peers_table.h"
#include "net/loop.h"

/* Everybody renews every 10 s ± 4 % (kube-apiserver: + 4 %), and then it takes a moment. */
enum { RHYTHM_MIN_US = 9500 * 1000, RHYTHM_MAX_US = 11000 * 1000 };

/*
 * A kube-apiserver that makes its Lease anew writes it twice, with an API call between, however long that takes. An
 * mvproxy writes its address into a Lease when it sees that this was made anew, or that somebody has taken it out; and
 * somebody may have put a Lease back that is hours old, so that by its own clock the next renewal is late.
 */
enum { MADE_US = 5000 * 1000, HELD_MS = 5000 };

/* The host name that a Lease says, by which the origin's metrics go. A Lease without the label takes none away. */
static unsigned set_hostname(struct peers *p, struct peer *peer, struct slice text)
{
    if (text.n == 0 || !peer_set_text(&peer->hostname, text) || peer->origin == NULL)
        return 0;
    return peer_settle_origin(peer, p->env, true) ? PEER_CHANGED_ORIGIN : 0;
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
    /* Who renews it without one is there: kube-apiserver leaves alone what somebody has taken out. */
    peer->duration_ms =
        1000 * (l->has_duration && l->duration_s > 0 ? (uint64_t)l->duration_s : LEASE_DURATION_SECONDS);
    peer->seen_ms = now;
    peer->leased = true;
    peer->left = peer->expired = false;
    peer->other_ms = 0;
}

static void first_lease(struct peers *p, const struct lease *l)
{
    bool expired = lease_expired(l, clock_wall_us());
    /* What a dead server left behind is kept in mind, so that a renewal is noticed, but is no peer. */
    struct peer *peer = expired && p->n >= LIMIT_PEERS ? NULL : peers_insert(p, l->name, l->hostname_label);

    if (peer == NULL)
        return;
    (void)set_hostname(p, peer, l->hostname_label);
    take_lease(peer, l, loop_now_ms(p->env->loop));
    (void)peer_set_annotation(peer, l->advertise, p->env->o.changes);
    peer->expired = expired;
    if (expired) {
        log_info("Lease has expired", LT("server", peer_label(peer)), LT("id", peer->id));
    } else {
        peers_note_renewal(p);
        peer_move(peer, PEER_LIVE);
    }
    peers_announce(p, peer);
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
    /* A static one that has answered since its Lease was deleted has come back without it. */
    return (peer->left || (peer->fixed && peer->life == PEER_LIVE)) &&
           (slice_eq(slice_str(peer->holder), l->holder) || p->handler->document_holds(p->arg, peer));
}

static unsigned renewed(struct peers *p, struct peer *peer, const struct lease *l)
{
    bool regained = !peer->leased;
    bool holder = !slice_eq(slice_str(peer->holder), l->holder);
    bool moved = peer->renew_us != l->renew_us, read = (holder || regained) && is_known(p, peer, l);
    unsigned what = 0;

    if (!regained && !holder && !moved)
        return 0;
    peers_note_renewal(p);
    if (read && !regained) {
        log_info("Peer is known by its other Lease now", LT("server", peer_label(peer)), LT("id", peer->id),
                 LS("holder", l->holder));
    } else if (holder && !regained) {
        log_info("Peer restarted: its Lease has another holder", LT("server", peer_label(peer)), LT("id", peer->id),
                 LS("holder", l->holder));
        changes_add(p->env->o.changes, CHANGE_CHANGED, peer_label(peer), "restarted: its Lease has another holder");
    }
    if (moved)
        what |= PEER_CHANGED_RENEWED;
    if (holder || regained) {
        what |= read ? PEER_CHANGED_RHYTHM : PEER_CHANGED_HOLDER;
        peer->rhythm_us = 0;
    } else if (moved && out_of_turn(peer, l->renew_us - peer->renew_us)) {
        what |= PEER_CHANGED_RHYTHM;
    }
    take_lease(peer, l, loop_now_ms(p->env->loop));
    if (regained && lease_expired(l, clock_wall_us()))
        return what;
    return what | peers_move(p, peer, PEER_LIVE, regained ? "Lease appeared" : "Lease renewed");
}

/* It was renewed since the other one was taken, or since it was made or said an address, and its mvproxy had the time
 * to write. */
static bool says_all(const struct peers *p, const struct peer *peer, const struct lease *l)
{
    return l->renew_us > peer->other_us && (l->renew_us < peer->made_us || l->renew_us - peer->made_us >= MADE_US) &&
           loop_now_ms(p->env->loop) - peer->held_ms >= HELD_MS;
}

/* What its mvproxy has not written where it has written one is somebody else's; a server that writes one itself does so
 * when it renews its Lease. */
static bool says_address(const struct lease *l, bool renewed)
{
    return l->advertise.n > 0 && (l->written.n == 0 ? renewed : slice_eq(l->advertise, l->written));
}

/*
 * A Lease that was made anew says in a moment where its server is, and so does one in which somebody has changed that;
 * until it is renewed in its rhythm, that is where it was. One that is listed again says no less than before, nor one
 * that was renewed before the other one was.
 */
static bool lends(struct peers *p, struct peer *peer, const struct lease *l, bool made, bool renewed)
{
    if (says_address(l, renewed) || peer->address[PEER_FROM_ANNOTATION].host == NULL)
        return false;
    if (made || !peer->lent)
        peer->held_ms = loop_now_ms(p->env->loop);
    return made || !peer->lent || !renewed || !says_all(p, peer, l);
}

void peers_lease(struct peers *p, const struct lease *l)
{
    struct peer *peer = peers_find(p, l->name);
    bool made, other;
    unsigned what, change;

    if (slice_eq(l->name, slice_str(p->env->own_id)))
        return;
    if (peer == NULL) {
        first_lease(p, l);
        return;
    }
    what = set_hostname(p, peer, l->hostname_label);
    other = peer->leased && peer_other_lease(peer, l);
    made = !peer->leased || (!slice_eq(slice_str(peer->holder), l->holder) && !other);
    change = renewed(p, peer, l);
    what |= change;
    if (made)
        peer->made_us = l->renew_us;
    /* What its other Lease does not say nobody has taken out of it. */
    peer->lent = (!other || peer->lent) && lends(p, peer, l, made, change != 0);
    if (!peer->lent) {
        if (peer_set_annotation(peer, l->advertise, p->env->o.changes) &&
            peer_settle_origin(peer, p->env, peer->source == PEER_FROM_ANNOTATION))
            what |= PEER_CHANGED_ORIGIN;
    }
    peers_report(p, peer, what);
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
    peers_report(p, peer, peer_set_tag(peer, which, l->discovery));
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
            peer->other_seen_ms = loop_now_ms(p->env->loop);
        peer->other_us = l->renew_us;
        peers_report(p, peer, peer_set_other(peer, l->holder, loop_now_ms(p->env->loop)));
    }
    if (!seen)
        return PEERS_OTHER_FIRST;
    if (!moved)
        return was_written(peer, which, l) ? PEERS_OTHER_WRITTEN : PEERS_OTHER_LEFT;
    if (peer->other_ms == 0) {
        peer->other_ms = loop_now_ms(p->env->loop);
        peers_report(p, peer, PEER_CHANGED_RHYTHM);
    }
    return loop_now_ms(p->env->loop) - peer->seen_ms >= PEERS_REPLACED_MS ? PEERS_OTHER_REPLACES : PEERS_OTHER_WRITTEN;
}

void peers_lend_address(struct peers *p, struct slice id, struct slice address)
{
    struct peer *peer = peers_find(p, id);

    if (peer == NULL || peer->address[PEER_FROM_ANNOTATION].host != NULL)
        return;
    peer->lent = true;
    if (peer_set_annotation(peer, address, p->env->o.changes) && peer_settle_origin(peer, p->env, false))
        peers_report(p, peer, PEER_CHANGED_ORIGIN);
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
    return p->env->o.leave_grace_ms > 0 && peer->life != PEER_FORGOTTEN;
}

void peers_lease_gone(struct peers *p, struct slice id, bool unseen)
{
    struct peer *peer = peers_find(p, id);

    if (peer == NULL || !peer->leased || peers_goes_on(p, peer))
        return;
    peer->leased = false;
    peer->duration_ms = 0;
    if (worth_keeping(p, peer)) {
        peer->left = true;
        if (peer->life == PEER_LIVE)
            peer->seen_ms = loop_now_ms(p->env->loop);
        peers_report(p, peer, (unseen ? PEER_CHANGED_HOLDER : 0) | peers_move(p, peer, PEER_LAPSED, "Lease deleted"));
        return;
    }
    if (!peer->fixed) {
        peers_take_out(p, peer, "Lease deleted");
        return;
    }
    (void)peer_set_text(&peer->holder, SLICE_LIT(""));
    (void)peer_set_address(peer, PEER_FROM_ANNOTATION, NULL, 0);
    peers_report(p, peer, PEER_CHANGED_HOLDER | peers_move(p, peer, PEER_FORGOTTEN, "Lease deleted"));
}
