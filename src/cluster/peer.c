/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/peer.h"

#include <stdio.h>

#include "base/changes.h"
#include "base/log.h"
#include "base/state.h"
#include "cluster/cluster_env.h"
#include "kube/hostport.h"
#include "net/cidr.h"

static const char *const life_names[] = {
    [PEER_LIVE] = "live", [PEER_LAPSED] = "lapsed", [PEER_FORGOTTEN] = "forgotten"};
static const uint32_t next_lives[] = {
    [PEER_LIVE] = STATE(PEER_LAPSED) | STATE(PEER_FORGOTTEN),
    [PEER_LAPSED] = STATE(PEER_LIVE) | STATE(PEER_FORGOTTEN),
    [PEER_FORGOTTEN] = STATE(PEER_LIVE),
};
static const struct state_table lives = STATE_TABLE("peer", life_names, next_lives);

void peer_move(struct peer *peer, enum peer_life to)
{
    state_move(&lives, &peer->life, to);
}

const char *peer_life_name(enum peer_life life)
{
    return life_names[life];
}

const char *peer_source_name(enum peer_source s)
{
    static const char *const names[] = {"static", "etcd", "annotation", "none"};

    return names[s];
}

void peer_free(struct peer *peer)
{
    if (peer == NULL)
        return;
    for (size_t i = 0; i < PEER_SOURCES; i++)
        mem_free(peer->address[i].host);
    origin_retire(peer->origin);
    mem_free(peer->id);
    mem_free(peer->hostname);
    mem_free(peer->holder);
    mem_free(peer->other_holder);
    mem_free(peer);
}

struct peer *peer_new(struct slice id, uint64_t now_ms)
{
    struct peer *peer = mem_zalloc(sizeof(*peer));

    if (peer == NULL)
        return NULL;
    peer->id = mem_slicedup(id);
    peer->hostname = mem_strdup("");
    peer->holder = mem_strdup("");
    peer->other_holder = mem_strdup("");
    peer->life = PEER_FORGOTTEN;
    peer->source = PEER_SOURCES;
    peer->known_ms = peer->seen_ms = now_ms;
    if (peer->id != NULL && peer->hostname != NULL && peer->holder != NULL && peer->other_holder != NULL)
        return peer;
    peer_free(peer);
    return NULL;
}

const char *peer_label(const struct peer *peer)
{
    return peer->hostname[0] != '\0' ? peer->hostname : peer->id;
}

/* ---- origins ---- */

static enum peer_source best_source(const struct peer *peer)
{
    enum peer_source s = PEER_FROM_STATIC;

    while (s < PEER_SOURCES && peer->address[s].host == NULL)
        s++;
    return s;
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

static struct origin *make_origin(const struct peer *peer, const struct cluster_env *env, enum peer_source s)
{
    struct origin_opts o = {
        .name = peer->id,
        .server = peer_label(peer),
        .host = peer->address[s].host,
        .port = peer->address[s].port,
        .tls_cert = env->o.peer_tls_cert,
        .tls_no_cert = env->o.peer_tls_no_cert,
        .tls_required = true,
        .allow = env->o.peer_allowed != NULL ? env->o.peer_allowed : is_elsewhere,
        .allow_arg = env->o.peer_allowed_arg,
        .egress = env->o.peer_egress,
    };

    /*
     * What the operator has written as a static peer is listed explicitly; only a name among peer-allowed-cidrs, which
     * resolves to whatever DNS says, is still held against them.
     */
    if (s == PEER_FROM_STATIC && (env->o.peer_allowed == NULL || hostport_is_ip(slice_str(o.host))))
        o.allow = NULL;
    return origin_new(env->back, &o);
}

bool peer_settle_origin(struct peer *peer, const struct cluster_env *env, bool anew)
{
    enum peer_source s = best_source(peer), before = peer->source;
    struct origin *old = peer->origin;

    if (!anew && s == peer->source && (old != NULL || s == PEER_SOURCES))
        return false;
    peer->origin = s == PEER_SOURCES ? NULL : make_origin(peer, env, s);
    peer->source = s;
    if (s == PEER_SOURCES) {
        log_warning("Peer has no usable address", LT("server", peer_label(peer)), LT("id", peer->id));
        changes_add(env->o.changes, CHANGE_FAILED, peer_label(peer), "has no usable address");
    } else if (peer->origin == NULL)
        log_error("Out of memory for a peer's address", LT("server", peer_label(peer)));
    else {
        log_info("Peer address", LT("server", peer_label(peer)), LT("address", origin_address(peer->origin)),
                 LT("source", peer_source_name(s)));
        /* By other certificates it is the same place. */
        if (old == NULL || before != s || strcmp(origin_address(old), origin_address(peer->origin)) != 0)
            changes_add(env->o.changes, CHANGE_CHANGED, peer_label(peer), "address %s, from %s",
                        origin_address(peer->origin), peer_source_name(s));
    }
    origin_retire(old);
    return true;
}

bool peer_set_address(struct peer *peer, enum peer_source s, const char *host, unsigned port)
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

bool peer_set_annotation(struct peer *peer, struct slice text, struct changes *changes)
{
    struct hostport hp;
    char host[64];

    if (text.n == 0)
        return peer_set_address(peer, PEER_FROM_ANNOTATION, NULL, 0);
    if (!hostport_parse(text, &hp) || !hp.ip || hp.host.n >= sizeof(host)) {
        log_v(2, "Ignoring a peer address that is not IP:PORT", LT("server", peer_label(peer)), LS("address", text));
        changes_add(changes, CHANGE_DISBELIEVED, peer_label(peer), "address in its Lease: \"%.*s\" is not IP:PORT",
                    (int)text.n, text.p);
        return peer_set_address(peer, PEER_FROM_ANNOTATION, NULL, 0);
    }
    memcpy(host, hp.host.p, hp.host.n);
    host[hp.host.n] = '\0';
    return peer_set_address(peer, PEER_FROM_ANNOTATION, host, hp.port);
}

bool peer_set_text(char **slot, struct slice text)
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

bool peer_other_lease(const struct peer *peer, const struct lease *l)
{
    struct slice before = slice_str(peer->holder), now = l->holder, name_before, name_now;

    return slice_split(&before, '_', &name_before) && slice_split(&now, '_', &name_now) &&
           !slice_eq(name_before, name_now);
}

bool peer_was_read(const struct peer *peer, const struct lease *l)
{
    return peer_other_lease(peer, l) && slice_eq(slice_str(peer->other_holder), l->holder) && peer->answered &&
           peer->answered_ms > peer->other_holder_ms;
}

unsigned peer_set_other(struct peer *peer, struct slice holder, uint64_t now)
{
    bool known = peer->other_holder[0] != '\0';

    if (!peer_set_text(&peer->other_holder, holder))
        return 0;
    peer->other_holder_ms = now;
    return known ? PEER_CHANGED_RHYTHM : 0;
}

bool peer_take_other(struct peer *peer)
{
    /* By our clock as well, since its own may have been ahead when an upgrade left the other one behind. */
    bool since = peer->other_ms > 0 || peer->other_holder_ms >= peer->seen_ms;

    if (!since || peer->other_us <= peer->renew_us || !peer_set_text(&peer->holder, slice_str(peer->other_holder)))
        return false;
    peer->renew_us = peer->other_us;
    peer->other_us = peer->rhythm_us = 0;
    peer->other_ms = 0;
    if (peer->seen_ms < peer->other_seen_ms)
        peer->seen_ms = peer->other_seen_ms;
    return true;
}

unsigned peer_set_tag(struct peer *peer, enum peer_lease which, struct slice tag)
{
    char *said = peer->tags[which];

    if (tag.n >= LEASE_TAG_BYTES || slice_eq(tag, slice_str(said)))
        return 0;
    if (tag.n > 0)
        memcpy(said, tag.p, tag.n);
    said[tag.n] = '\0';
    peer->said = which;
    return tag.n > 0 ? PEER_CHANGED_TAG : 0;
}
