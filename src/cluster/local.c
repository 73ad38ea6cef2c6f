/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/local.h"

#include "base/changes.h"
#include "base/contract.h"
#include "base/state.h"
#include "cluster/cluster_metrics.h"
#include "net/loop.h"

enum { PEERS_MS = 1000 };

struct local {
    struct local_opts o;
    struct server *server;
    struct readiness *readiness;
    enum local_life life;
    uint64_t gone_ms;         /* since when it is not THERE */
    struct loop_timer *peers; /* meanwhile: they are polled again */
    bool read;                /* since it was last in trouble */
    uint64_t trouble_ms;      /* when that was */
    bool suspect;             /* the Leases' watch broke or works again: another process may answer */
    uint64_t connection;      /* refresh_connection() at its last good poll */
    int64_t renew_us;         /* of its Lease, as it was seen last */
    uint64_t renewed_ms;      /* when it was seen to change; 0: never */
};

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
    l->gone_ms = loop_now_ms(l->o.loop);
    loop_timer_set(l->peers, 0);
}

static void doubt(struct local *l)
{
    l->trouble_ms = loop_now_ms(l->o.loop);
    if (l->read)
        l->o.handler->changed(l->o.arg);
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
    n = l->o.handler->poll_peers(l->o.arg);
    l->o.handler->changed(l->o.arg);
    loop_timer_set(l->peers, PEERS_MS * (1 + n / PULSE_SERVERS));
}

/* ---- readiness ---- */

static void tell(const struct local *l, enum readiness_state s)
{
    bool ready = s == READINESS_READY;

    changes_add(l->o.changes, ready ? CHANGE_RECOVERED : CHANGE_FAILED, l->o.hostname,
                "the local kube-apiserver is %s%s", readiness_name(s),
                ready                                  ? ""
                : l->o.handler->peers_answer(l->o.arg) ? ": peers take over what they serve"
                                                       : ", and no peer answers for it");
    metric_set(l->o.metrics->failing_over, ready ? 0 : 1);
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
    l->o.handler->readiness(l->o.arg, s == READINESS_READY);
}

/* ---- discovery ---- */

/* A poll that began before is of the process before. */
static void note_read(struct local *l)
{
    if (l->read || refresh_started_ms(l->server->discovery) < l->trouble_ms)
        return;
    l->read = true;
    if (l->life != LOCAL_THERE && readiness_state(l->readiness) == READINESS_READY)
        move(l, LOCAL_THERE);
    l->o.handler->changed(l->o.arg);
}

/*
 * Many things break a watch. But the connections of a process end with it, so that another one answers over a newer
 * one. While the watch does not go, an answer over the same as before clears nobody: the process may have ended since.
 */
static void look_for_restart(struct local *l)
{
    uint64_t before = l->connection;

    l->connection = refresh_connection(l->server->discovery);
    if (l->suspect && before > 0 && l->connection > before) {
        l->o.handler->restarted(l->o.arg);
        /* What it installs last may be missing in what it has just said. */
        refresh_trigger(l->server->discovery, REFRESH_EVENT);
    }
    if (l->o.handler->watched(l->o.arg))
        l->suspect = false;
}

static void on_polled(void *arg, struct server *s, bool ok, bool changed)
{
    struct local *l = arg;

    (void)s;
    if (changed)
        l->o.handler->changed(l->o.arg);
    if (ok && changed && l->life == LOCAL_GONE)
        move(l, LOCAL_ANOTHER);
    if (ok) {
        note_read(l);
        look_for_restart(l);
    } else {
        readiness_invalidate(l->readiness);
    }
    l->o.handler->polled(l->o.arg, ok);
}

/* Who hangs fails no request, so nobody else tells of it in time. What it says of itself decides. */
static void on_silent(void *arg, struct server *s)
{
    struct local *l = arg;

    (void)s;
    readiness_invalidate(l->readiness);
}

static void on_schemas(void *arg)
{
    struct local *l = arg;

    l->o.handler->changed(l->o.arg);
}

static size_t servers(void *arg)
{
    struct local *l = arg;

    return l->o.handler->servers(l->o.arg);
}

struct local *local_new(const struct local_opts *o)
{
    struct local *l = must_zalloc(sizeof(*l));

    l->o = *o;
    l->peers = loop_timer_new(o->loop, on_peers, l);
    l->readiness = readiness_new(o->api, on_readiness, l);
    l->server = server_new(&(struct server_opts){
        .api = o->api,
        .hostname = o->hostname,
        .interval_ms = o->interval_ms,
        .metrics = o->metrics,
        .changes = o->changes,
        .servers = servers,
        .polled = on_polled,
        .silent = on_silent,
        .schemas_changed = on_schemas,
        .arg = l,
    });
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

struct server *local_server(const struct local *l)
{
    return l->server;
}

struct refresh *local_discovery(const struct local *l)
{
    return l->server->discovery;
}

struct readiness *local_readiness(const struct local *l)
{
    return l->readiness;
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
        l->renewed_ms = loop_now_ms(l->o.loop);
    l->renew_us = renew_us;
    return renewed;
}

uint64_t local_lease_ms(const struct local *l)
{
    return l->renewed_ms == 0 ? UINT64_MAX : loop_now_ms(l->o.loop) - l->renewed_ms;
}

bool local_is_read(const struct local *l)
{
    return l->read;
}

enum local_life local_life(const struct local *l)
{
    return l->life;
}

uint64_t local_gone_ms(const struct local *l)
{
    return loop_now_ms(l->o.loop) - l->gone_ms;
}
