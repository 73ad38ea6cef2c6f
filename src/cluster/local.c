/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/local.h"

#include "base/changes.h"
#include "base/contract.h"
#include "base/state.h"
#include "cluster/publish.h"
#include "net/loop.h"

enum { PEERS_MS = 1000 };

static const char *const names[] = {[LOCAL_THERE] = "there", [LOCAL_GONE] = "gone", [LOCAL_ANOTHER] = "another"};
static const uint32_t next[] = {
    [LOCAL_THERE] = STATE(LOCAL_GONE),
    [LOCAL_GONE] = STATE(LOCAL_ANOTHER) | STATE(LOCAL_THERE),
    [LOCAL_ANOTHER] = STATE(LOCAL_THERE),
};
static const struct state_table lives = STATE_TABLE("local server", names, next);

static void move(struct local *l, enum local_life to)
{
    state_move(&lives, &l->life, to);
    if (to != LOCAL_GONE)
        return;
    l->gone_ms = loop_now_ms(l->env->loop);
    loop_timer_set(l->peers, 0);
}

static void doubt(struct local *l)
{
    l->trouble_ms = loop_now_ms(l->env->loop);
    if (l->read)
        publish_request(l->env->publish);
    l->read = false;
}

/*
 * Their Leases, in which they say that they serve something else, cannot be read meanwhile. If they are many, each is
 * read less often.
 */
static void on_peers(void *arg)
{
    struct local *l = arg;
    size_t n;

    if (l->life == LOCAL_THERE)
        return;
    n = l->handler->poll_peers(l->arg);
    publish_request(l->env->publish);
    loop_timer_set(l->peers, PEERS_MS * (1 + n / PULSE_SERVERS));
}

/* ---- readiness ---- */

static void tell(const struct local *l, enum readiness_state s)
{
    bool ready = s == READINESS_READY;

    changes_add(l->env->o.changes, ready ? CHANGE_RECOVERED : CHANGE_FAILED, l->env->hostname,
                "the local kube-apiserver is %s%s", readiness_name(s),
                ready                   ? ""
                : local_peers_answer(l) ? ": peers take over what they serve"
                                        : ", and no peer answers for it");
    metric_set(l->env->metrics->failing_over, ready ? 0 : 1);
}

static void on_readiness(void *arg)
{
    struct local *l = arg;
    enum readiness_state s = readiness_state(l->readiness);

    tell(l, s);
    doubt(l);
    if (s != READINESS_READY && l->life == LOCAL_THERE)
        move(l, LOCAL_GONE);
    if (s == READINESS_UNREACHABLE)
        pulse_doubt(l->server->pulse);
    else /* It may be another version; the pauses before the next attempts have grown while it was away. */
        refresh_trigger(l->server->discovery, REFRESH_RECOVERED);
    if (s == READINESS_READY)
        pulse_answered(l->server->pulse, 0);
    l->handler->readiness(l->arg, s == READINESS_READY);
}

/* ---- discovery ---- */

/* A poll that began before is of the process before. */
static void note_read(struct local *l)
{
    if (l->read || refresh_look(l->server->discovery)->started_ms < l->trouble_ms)
        return;
    l->read = true;
    if (l->life != LOCAL_THERE && readiness_state(l->readiness) == READINESS_READY)
        move(l, LOCAL_THERE);
    publish_request(l->env->publish);
}

/*
 * Many things break a watch. But the connections of a process end with it, so that another one answers over a newer
 * one. While the watch does not go, an answer over the same as before clears nobody: the process may have ended since.
 */
static bool look_for_restart(struct local *l)
{
    uint64_t before = l->connection;
    bool restarted;

    l->connection = refresh_look(l->server->discovery)->connection;
    restarted = l->suspect && before > 0 && l->connection > before;
    if (restarted) /* What it installs last may be missing in what it has just said. */
        refresh_trigger(l->server->discovery, REFRESH_EVENT);
    if (l->handler->watched(l->arg))
        l->suspect = false;
    return restarted;
}

static void on_polled(void *arg, struct server *s, bool ok, bool changed)
{
    struct local *l = arg;
    bool restarted = false;

    (void)s;
    if (ok && changed && l->life == LOCAL_GONE)
        move(l, LOCAL_ANOTHER);
    if (ok) {
        note_read(l);
        restarted = look_for_restart(l);
    } else {
        readiness_invalidate(l->readiness);
    }
    l->handler->polled(l->arg, ok, restarted);
}

/* Who hangs fails no request, so nobody else tells of it in time. What it says of itself decides. */
static void on_silent(void *arg, struct server *s)
{
    struct local *l = arg;

    (void)s;
    readiness_invalidate(l->readiness);
}

static const struct server_handler server_handler = {.polled = on_polled, .silent = on_silent};

struct local *local_new(const struct cluster_env *env, const struct local_handler *h, void *arg)
{
    struct local *l = must_zalloc(sizeof(*l));

    l->env = env;
    l->handler = h;
    l->arg = arg;
    l->peers = loop_timer_new(env->loop, on_peers, l);
    l->readiness = readiness_new(env->api, on_readiness, l);
    l->server = server_new(env, NULL, &server_handler, l);
    must_hold(l->peers != NULL && l->server != NULL);
    return l;
}

void local_free(struct local *l)
{
    if (l == NULL)
        return;
    server_free(l->server);
    readiness_free(l->readiness);
    loop_timer_free(l->peers);
    mem_free(l);
}

void local_watch_changed(struct local *l)
{
    l->suspect = true;
    doubt(l);
    readiness_invalidate(l->readiness);
    refresh_trigger(l->server->discovery, REFRESH_RECOVERED);
}

bool local_lease_seen(struct local *l, int64_t renew_us)
{
    bool renewed = l->renewed_ms == 0 || renew_us != l->renew_us;

    if (renewed)
        l->renewed_ms = loop_now_ms(l->env->loop);
    l->renew_us = renew_us;
    return renewed;
}

uint64_t local_lease_ms(const struct local *l)
{
    return l->renewed_ms == 0 ? UINT64_MAX : loop_now_ms(l->env->loop) - l->renewed_ms;
}

bool local_peers_answer(const struct local *l)
{
    const struct served *s = publish_current(l->env->publish);
    bool may = l->env->o.local_failover && l->env->o.peers_enabled;

    for (size_t i = 0; may && i < served_n_peers(s); i++) {
        const struct served_peer *p = served_peer_at(s, i);

        if (p->life == SERVED_LIVE && p->discovery_known && p->origin != NULL && origin_healthy(p->origin))
            return true;
    }
    return false;
}

uint64_t local_gone_ms(const struct local *l)
{
    return loop_now_ms(l->env->loop) - l->gone_ms;
}
