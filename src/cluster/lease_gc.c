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
#include "cluster/work.h"
#include "kube/lease.h"
#include "kube/list_cut.h"
#include "kube/server_id.h"
#include "net/loop.h"

enum {
    PERIOD_MS = 3600 * 1000,
    JITTER_PERCENT = 4,
    CALL_MS = 10000,
    BODY_BYTES = 4 << 10,
};

enum state {
    STATE_STOPPED,
    STATE_WAITING, /* for the next round */
    STATE_LISTING,
    STATE_WALKING,  /* through the list */
    STATE_CHECKING, /* one Lease, live */
    STATE_DELETING,
};

static const char *const state_names[] = {
    [STATE_STOPPED] = "stopped", [STATE_WAITING] = "waiting",   [STATE_LISTING] = "listing",
    [STATE_WALKING] = "walking", [STATE_CHECKING] = "checking", [STATE_DELETING] = "deleting",
};
/* A round ends where one of its requests cannot be made. */
static const uint32_t state_next[] = {
    [STATE_STOPPED] = STATE(STATE_STOPPED) | STATE(STATE_WAITING),
    [STATE_WAITING] = STATE(STATE_STOPPED) | STATE(STATE_LISTING),
    [STATE_LISTING] = STATE(STATE_STOPPED) | STATE(STATE_WAITING) | STATE(STATE_WALKING),
    [STATE_WALKING] = STATE(STATE_STOPPED) | STATE(STATE_WAITING) | STATE(STATE_CHECKING),
    [STATE_CHECKING] = STATE(STATE_STOPPED) | STATE(STATE_WAITING) | STATE(STATE_WALKING) | STATE(STATE_DELETING),
    [STATE_DELETING] = STATE(STATE_STOPPED) | STATE(STATE_WALKING),
};
static const struct state_table states = STATE_TABLE("collection of Leases", state_names, state_next);

struct lease_gc {
    struct lease_gc_opts o;
    char *own_id;
    struct loop *loop;
    enum state state;
    struct loop_timer *timer;
    struct work work;
    struct fetch *call;
    struct list_cut cut; /* what was listed */
    struct object_list list;
    char path[300]; /* CHECKING: of this one */
    struct arena *arena;
};

static enum step walk(void *arg);
static void walked(void *arg, bool done);

static void move(struct lease_gc *g, enum state to)
{
    state_move(&states, &g->state, to);
}

static void wait(struct lease_gc *g)
{
    list_cut_free(&g->cut);
    move(g, STATE_WAITING);
    loop_timer_set(g->timer, jitter_ms(PERIOD_MS, JITTER_PERCENT));
}

static void walk_on(struct lease_gc *g)
{
    move(g, STATE_WALKING);
    work_start(api_work(g->o.api), &g->work, walk, walked, g);
}

static bool send(struct lease_gc *g, const char *method, const char *target, struct slice body, fetch_fn *fn)
{
    g->call = api_ask(g->o.api, method, target, body, fn, g);
    return g->call != NULL;
}

static void lease_path(struct slice name, char out[300])
{
    (void)snprintf(out, 300, LEASE_COLLECTION_PATH "/%.*s", SERVER_ID_CHARS, name.p);
}

/* Names of another shape are nobody's identity, and not for a path. */
static bool dead(const struct lease_gc *g, const struct lease *l)
{
    return slice_eq(l->ns, SLICE_LIT(LEASE_NAMESPACE)) &&
           slice_eq(l->identity_label, SLICE_LIT(LEASE_IDENTITY_VALUE)) && server_id_valid(l->name) &&
           !slice_eq(l->name, slice_str(g->own_id)) && lease_expired(l, clock_wall_us()) &&
           !g->o.renewed(g->o.arg, l->name);
}

static void on_deleted(void *arg, const struct fetch_result *r)
{
    struct lease_gc *g = arg;

    g->call = NULL;
    if (api_answered(r, 200))
        metric_inc(g->o.collected);
    else
        log_v(2, "An expired Lease was not collected", LU("status", r->ok ? r->head->status : 0));
    walk_on(g);
}

static void on_checked(void *arg, const struct fetch_result *r)
{
    struct lease_gc *g = arg;
    struct err err = {.text = ""};
    struct lease l;
    struct buf body;
    char path[300];

    g->call = NULL;
    arena_reset(g->arena);
    if (!api_answered(r, 200) || !lease_parse(g->arena, r->body, &l, &err) || !dead(g, &l) || l.uid.n == 0 ||
        l.resource_version.n == 0) {
        walk_on(g);
        return;
    }
    log_info("Collecting an expired identity Lease", LS("lease", l.name), LS("holder", l.holder));
    move(g, STATE_DELETING);
    buf_init(&body, BODY_BYTES);
    lease_path(l.name, path);
    if (!lease_print_delete(&l, &body) || !send(g, "DELETE", path, buf_slice(&body), on_deleted))
        walk_on(g);
    buf_free(&body);
}

/* Done: to the end, or to one that may be dead. */
static enum step walk(void *arg)
{
    struct lease_gc *g = arg;
    struct err err = {.text = ""};
    struct slice item;
    struct lease l;

    if (!object_list_next(&g->list, &item))
        return STEP_DONE;
    arena_reset(g->arena);
    if (!lease_parse(g->arena, item, &l, &err) || !dead(g, &l))
        return STEP_MORE;
    move(g, STATE_CHECKING);
    lease_path(l.name, g->path);
    return STEP_DONE;
}

static void walked(void *arg, bool done)
{
    struct lease_gc *g = arg;

    (void)done;
    if (g->state != STATE_CHECKING || !send(g, "GET", g->path, SLICE_NONE, on_checked))
        wait(g);
}

static bool on_piece(void *arg, const struct http_head *head, struct slice piece)
{
    struct lease_gc *g = arg;

    return head->status != 200 || list_cut_feed(&g->cut, piece);
}

static void on_listed(void *arg, const struct fetch_result *r)
{
    struct lease_gc *g = arg;
    struct err err = {.text = ""};

    g->call = NULL;
    if (!api_answered(r, 200) || !list_cut_end(&g->cut, &g->list, &err))
        wait(g);
    else
        walk_on(g);
}

static bool list(struct lease_gc *g)
{
    const struct list_cut_opts cut = {.item_limit = LIMIT_LEASE_BYTES, .ceiling = LIMIT_LEASE_LIST_BYTES};
    const struct api_request get = {
        .target = SLICE_LIT(LEASE_COLLECTION_PATH
                            "?labelSelector=apiserver.kubernetes.io%2Fidentity%3D" LEASE_IDENTITY_VALUE),
        .accept = SLICE_LIT("application/json"),
        .ceiling = LIMIT_LIST_BYTES,
        .timeout_ms = CALL_MS,
        .on_piece = on_piece,
    };

    list_cut_begin(&g->cut, &cut);
    g->call = api_send(g->o.api, &get, on_listed, g);
    return g->call != NULL;
}

static void on_timer(void *arg)
{
    struct lease_gc *g = arg;

    move(g, STATE_LISTING);
    if (!g->o.collects(g->o.arg) || !list(g))
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
    work_cancel(api_work(g->o.api), &g->work);
    loop_timer_cancel(g->timer);
    list_cut_free(&g->cut);
    move(g, STATE_STOPPED);
}

struct lease_gc *lease_gc_new(const struct lease_gc_opts *o)
{
    struct lease_gc *g = must_zalloc(sizeof(*g));

    g->o = *o;
    g->own_id = must_strdup(o->own_id);
    g->loop = api_loop(o->api);
    g->timer = loop_timer_new(g->loop, on_timer, g);
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
