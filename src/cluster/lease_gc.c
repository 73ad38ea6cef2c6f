/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/lease_gc.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/state.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "cluster/peers.h"
#include "kube/lease.h"
#include "kube/server_id.h"
#include "net/loop.h"

enum {
    PERIOD_MS = 3600 * 1000,
    JITTER_PERCENT = 4,
    BODY_BYTES = 4 << 10,
};

enum state {
    STATE_STOPPED,
    STATE_WAITING,  /* for the next round */
    STATE_CHECKING, /* one Lease, live */
    STATE_DELETING,
};

static const char *const state_names[] = {
    [STATE_STOPPED] = "stopped",
    [STATE_WAITING] = "waiting",
    [STATE_CHECKING] = "checking",
    [STATE_DELETING] = "deleting",
};
/* A round has nothing to check, or ends where one of its requests cannot be made. */
static const uint32_t state_next[] = {
    [STATE_STOPPED] = STATE(STATE_STOPPED) | STATE(STATE_WAITING),
    [STATE_WAITING] = STATE(STATE_STOPPED) | STATE(STATE_WAITING) | STATE(STATE_CHECKING),
    [STATE_CHECKING] = STATE(STATE_STOPPED) | STATE(STATE_WAITING) | STATE(STATE_CHECKING) | STATE(STATE_DELETING),
    [STATE_DELETING] = STATE(STATE_STOPPED) | STATE(STATE_WAITING) | STATE(STATE_CHECKING),
};
static const struct state_table states = STATE_TABLE("collection of Leases", state_names, state_next);

struct lease_gc {
    struct lease_gc_opts o;
    char *own_id;
    enum state state;
    struct loop_timer *timer;
    struct fetch *call;
    char id[SERVER_ID_BYTES]; /* of the peer whose turn it is in this round; "": before the first */
    struct arena *arena;
};

static void check_next(struct lease_gc *g);

static void move(struct lease_gc *g, enum state to)
{
    state_move(&states, &g->state, to);
}

static void wait(struct lease_gc *g)
{
    move(g, STATE_WAITING);
    loop_timer_set(g->timer, jitter_ms(PERIOD_MS, JITTER_PERCENT));
}

static bool send(struct lease_gc *g, const char *method, struct slice body, fetch_fn *fn)
{
    char path[sizeof(LEASE_COLLECTION_PATH) + SERVER_ID_BYTES];

    (void)snprintf(path, sizeof(path), LEASE_COLLECTION_PATH "/%s", g->id);
    g->call = api_ask(g->o.api, method, path, body, fn, g);
    return g->call != NULL;
}

static const struct peers *peers(const struct lease_gc *g)
{
    return g->o.peers(g->o.arg);
}

/* By what was seen of its Lease lately. */
static bool may_be_dead(const struct peer *p)
{
    return p != NULL && p->leased && p->life != PEER_LIVE;
}

/* And by what it says itself. */
static bool dead(const struct lease_gc *g, const struct lease *l)
{
    return slice_eq(l->ns, SLICE_LIT(LEASE_NAMESPACE)) &&
           slice_eq(l->identity_label, SLICE_LIT(LEASE_IDENTITY_VALUE)) && slice_eq(l->name, slice_str(g->id)) &&
           lease_expired(l, clock_wall_us()) && may_be_dead(peers_find(peers(g), l->name));
}

static void on_deleted(void *arg, const struct fetch_result *r)
{
    struct lease_gc *g = arg;

    g->call = NULL;
    if (api_answered(r, 200))
        metric_inc(g->o.collected);
    else
        log_v(2, "An expired Lease was not collected", LU("status", r->ok ? r->head->status : 0));
    check_next(g);
}

static void on_checked(void *arg, const struct fetch_result *r)
{
    struct lease_gc *g = arg;
    struct err err = {.text = ""};
    struct lease l;
    struct buf body;

    g->call = NULL;
    arena_reset(g->arena);
    if (!api_answered(r, 200) || !lease_parse(g->arena, r->body, &l, &err) || !dead(g, &l) || l.uid.n == 0 ||
        l.resource_version.n == 0) {
        check_next(g);
        return;
    }
    log_info("Collecting an expired identity Lease", LS("lease", l.name), LS("holder", l.holder));
    move(g, STATE_DELETING);
    buf_init(&body, BODY_BYTES);
    if (!lease_print_delete(&l, &body) || !send(g, "DELETE", buf_slice(&body), on_deleted))
        check_next(g);
    buf_free(&body);
}

/* After the last one, or where there is no memory, the round is over. */
static void check_next(struct lease_gc *g)
{
    const struct peer *p = peers_after(peers(g), slice_str(g->id));

    while (p != NULL && !may_be_dead(p))
        p = peers_after(peers(g), slice_str(p->id));
    if (p != NULL) {
        move(g, STATE_CHECKING);
        (void)snprintf(g->id, sizeof(g->id), "%s", p->id);
    }
    if (p == NULL || !send(g, "GET", SLICE_NONE, on_checked))
        wait(g);
}

/* One instance's worth of effort: the first of those that live collects. */
static bool is_first(const struct lease_gc *g)
{
    const struct peer *p;
    size_t i = 0;

    while ((p = peers_next(peers(g), &i)) != NULL)
        if (p->leased && p->life == PEER_LIVE)
            return strcmp(g->own_id, p->id) < 0;
    return true;
}

static void on_timer(void *arg)
{
    struct lease_gc *g = arg;

    g->id[0] = '\0';
    if (is_first(g))
        check_next(g);
    else
        wait(g);
}

void lease_gc_start(struct lease_gc *g)
{
    if (g->state == STATE_STOPPED)
        wait(g);
}

void lease_gc_stop(struct lease_gc *g)
{
    fetch_cancel(&g->call);
    loop_timer_cancel(g->timer);
    move(g, STATE_STOPPED);
}

struct lease_gc *lease_gc_new(const struct lease_gc_opts *o)
{
    struct lease_gc *g = must_zalloc(sizeof(*g));

    g->o = *o;
    g->own_id = must_strdup(o->own_id);
    g->timer = loop_timer_new(api_loop(o->api), on_timer, g);
    g->arena = arena_new(4 * LIMIT_LEASE_BYTES);
    must_hold(g->timer != NULL && g->arena != NULL);
    return g;
}

void lease_gc_free(struct lease_gc *g)
{
    if (g == NULL)
        return;
    lease_gc_stop(g);
    loop_timer_free(g->timer);
    arena_free(g->arena);
    mem_free(g->own_id);
    mem_free(g);
}
