/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/publish.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/contract.h"
#include "base/log.h"
#include "base/state.h"
#include "cluster/build.h"
#include "cluster/cluster_metrics.h"
#include "cluster/work.h"
#include "http/etag.h"
#include "net/loop.h"

enum {
    RESTART_FOR_MS = 200, /* so long a stream of changes may put off the end of a merge */
    GATHER_MS = 5,        /* changes come in flocks: what comes of them waits for the rest */
    ROUTING_MS = 15,      /* and so long the new routing waits for its documents, so that one change is one snapshot */
    MEMORY_RETRY_MS = 500,
    FAILED_RETRY_MS = 10000,
    KEY_CEILING = 8 << 20,
};

enum state {
    STATE_SETTLED,   /* nothing to do */
    STATE_REQUESTED, /* at the end of this turn */
    STATE_GATHERING, /* when the timer fires */
    STATE_BUILDING,  /* documents are merged and prepared */
    STATE_RETRYING,  /* out of memory: after a while */
};

static const char *const state_names[] = {
    [STATE_SETTLED] = "settled",   [STATE_REQUESTED] = "requested", [STATE_GATHERING] = "gathering",
    [STATE_BUILDING] = "building", [STATE_RETRYING] = "retrying",
};

/* At a turn what is known is looked at whatever was under way: it goes on, or is dropped. */
#define LOOKED (STATE(STATE_SETTLED) | STATE(STATE_GATHERING) | STATE(STATE_BUILDING) | STATE(STATE_RETRYING))

static const uint32_t state_next[] = {
    [STATE_SETTLED] = LOOKED | STATE(STATE_REQUESTED),   [STATE_REQUESTED] = LOOKED,
    [STATE_GATHERING] = LOOKED | STATE(STATE_REQUESTED), [STATE_BUILDING] = LOOKED,
    [STATE_RETRYING] = LOOKED | STATE(STATE_REQUESTED),
};
static const struct state_table states = STATE_TABLE("publisher", state_names, state_next);

/* All that a merge depends on. Documents are compared by address, so the key keeps them. */
struct key {
    struct buf text;
    const struct disco **held;
    size_t n;
};

struct publish {
    struct publish_opts o;
    struct served *current;
    struct served *next;        /* says what is known, and waits for its documents; NULL: current does */
    bool next_synced;           /* its Leases have been listed */
    bool told;                  /* of the current one */
    bool urgent;                /* the new routing is not to wait */
    struct loop_timer *routing; /* while `next` waits */
    uint64_t generation;
    enum state state;
    bool dirty;                                        /* requested, and nothing collected since */
    bool outdated;                                     /* the merge under way is of what was true before */
    bool built;                                        /* a merge has ended, well or badly */
    bool protobuf;                                     /* is wanted */
    struct served_documents *documents[SERVED_HALVES]; /* of the key `have` */
    struct key have, want;                             /* want: of the merge under way */
    bool has_key;
    struct build *build;       /* BUILDING: for the key `want` */
    struct err err;            /* of it */
    uint64_t merge_since_ms;   /* the first start in a row of restarts */
    bool put_off;              /* that merge gave way to newer changes, and none has ended since */
    struct loop_deferred turn; /* REQUESTED */
    struct work work;          /* BUILDING */
    const struct disco **old;  /* held by keys until now, being given back */
    size_t n_old;
    struct work forget;
    bool gathered;                        /* the timer has fired */
    struct loop_timer *timer;             /* GATHERING, RETRYING */
    struct loop_timer *again;             /* after a merge that failed */
    unsigned failed;                      /* merges in a row */
    size_t n_excluded;                    /* of `next`, or the current one */
    char said_etag[ETAG_SHORT_BYTES + 1]; /* of the document that the log had last */
};

static void built(void *arg, bool done);

/* ---- key ---- */

static void key_free(struct key *k)
{
    for (size_t i = 0; i < k->n; i++)
        disco_unref((struct disco *)(uintptr_t)k->held[i]);
    mem_free(k->held);
    buf_free(&k->text);
    memset(k, 0, sizeof(*k));
}

static void key_server(struct key *k, const char *id, const struct disco *d, bool stale, bool vouches)
{
    if (d == NULL)
        return;
    k->held[k->n++] = disco_ref(d);
    buf_printf(&k->text, "%s %p %d %d\n", id, (const void *)d, stale, vouches);
}

/* In the order in which they are kept: another order only makes a merge more. */
static void key_undiscovered(struct key *k, const struct served_input *in)
{
    buf_append_str(&k->text, "undiscovered");
    for (size_t i = 0; i < in->n_undiscovered; i++) {
        struct slice version = in->undiscovered[i].version, group = in->undiscovered[i].group;

        buf_printf(&k->text, " %.*s.%.*s", (int)version.n, version.p, (int)group.n, group.p);
    }
    buf_append_char(&k->text, '\n');
}

static void sort(const struct slice *texts, size_t n)
{
    if (n > 0)
        qsort((void *)(uintptr_t)texts, n, sizeof(*texts), slice_cmp_at);
}

static bool key_make(struct key *k, struct served_input *in, bool protobuf)
{
    const struct served_input *s = in;

    memset(k, 0, sizeof(*k));
    buf_init(&k->text, KEY_CEILING);
    k->held = mem_array(s->n_peers + 1, sizeof(*k->held));
    if (k->held == NULL)
        return false;
    key_server(k, s->local_id, s->local, s->local_stale, false);
    for (size_t i = 0; s->peers_enabled && i < s->n_peers; i++)
        key_server(k, s->peers[i].id, s->peers[i].disco, s->peers[i].stale, s->peers[i].vouches);
    sort(s->excluded, s->n_excluded);
    sort(s->aggregated, s->n_aggregated);
    for (size_t i = 0; i < s->n_excluded; i++) {
        buf_append(&k->text, s->excluded[i]);
        buf_append_char(&k->text, '\n');
    }
    if (in->incomplete && in->n_undiscovered > 0)
        key_undiscovered(k, in);
    if (in->doubtful)
        buf_append_str(&k->text, "doubtful\n");
    if (protobuf)
        buf_append_str(&k->text, "protobuf\n");
    return !k->text.failed;
}

static bool key_same(const struct key *a, const struct key *b)
{
    return slice_eq(buf_slice(&a->text), buf_slice(&b->text));
}

/* ---- snapshots ---- */

static bool collect(struct publish *p, struct served_input *in)
{
    memset(in, 0, sizeof(*in));
    return p->o.collect(p->o.arg, in);
}

static void input_free(struct served_input *in)
{
    mem_free((void *)(uintptr_t)in->peers);
    mem_free((void *)(uintptr_t)in->excluded);
    mem_free((void *)(uintptr_t)in->aggregated);
    mem_free(in->undiscovered);
}

static bool make_next(struct publish *p, struct served_input *in)
{
    struct served *new;

    memcpy(in->documents, p->documents, sizeof(p->documents));
    new = served_new(in);
    if (new == NULL)
        return false;
    served_unref(p->next);
    p->next = new;
    p->next_synced = in->leases_synced;
    p->n_excluded = in->n_excluded;
    return true;
}

/* Whether the Leases count as listed: see the top of publish.h. */
static bool counts_as_synced(const struct publish *p, bool leases_synced, bool peers_enabled)
{
    return leases_synced && (p->built || !peers_enabled);
}

/* Nothing has changed since the current snapshot: whoever waits for the next one has it. */
static bool is_current(struct publish *p, struct served_input *in)
{
    bool synced = in->local != NULL && counts_as_synced(p, in->leases_synced, in->peers_enabled);

    memcpy(in->documents, p->documents, sizeof(p->documents));
    return p->next == NULL && p->generation > 0 && served_synced(p->current) == synced && served_is(p->current, in);
}

/* Each document once, and at a start not before all peers that answer are in it. */
static void say_document(struct publish *p, const struct served_document *d)
{
    struct slice tag = d == NULL ? SLICE_NONE : etag_short(d->etag);

    if (tag.n == 0 || !served_synced(p->current) || served_unknown_peer(p->current) ||
        slice_eq(tag, slice_str(p->said_etag)))
        return;
    memcpy(p->said_etag, tag.p, tag.n);
    p->said_etag[tag.n] = '\0';
    log_v(2, "Merged discovery", LS("etag", tag), LU("bytes", d->body.n), LU("servers", p->have.n),
          LU("generation", p->generation));
}

static void show_next(struct publish *p)
{
    const struct served_document *d;
    struct served *new = p->next;

    if (new == NULL)
        return;
    p->next = NULL;
    loop_timer_cancel(p->routing);
    served_complete(new, p->documents, counts_as_synced(p, p->next_synced, served_peers_enabled(new)), ++p->generation);
    if (served_synced(new) != served_synced(p->current))
        log_info("Discovery synced", LB("known", served_synced(new)), LU("peers", served_n_peers(new)),
                 LB("peersEnabled", served_peers_enabled(new)));
    served_unref(p->current);
    p->current = new;
    p->told = false;
    d = served_merged(new, SERVED_V2);
    metric_set(p->o.metrics->generation, (double)p->generation);
    metric_set(p->o.metrics->merged_bytes, d == NULL ? 0 : (double)d->body.n);
    metric_set(p->o.metrics->excluded, (double)p->n_excluded);
    log_v(4, "New snapshot", LU("generation", p->generation), LU("peers", served_n_peers(new)),
          LU("excluded", p->n_excluded), LU("mergedBytes", d == NULL ? 0 : d->body.n));
    say_document(p, d);
}

/* The last thing that is done in a turn: whoever is called may ask for more. */
static void tell(struct publish *p)
{
    if (p->told)
        return;
    p->told = true;
    p->o.on_published(p->o.arg);
}

/* The merge takes longer than the routing may wait. */
static void on_routing(void *arg)
{
    struct publish *p = arg;

    show_next(p);
    tell(p);
}

static void await_documents(struct publish *p)
{
    if (!p->built || p->urgent)
        show_next(p);
    else if (!loop_timer_pending(p->routing))
        loop_timer_set(p->routing, ROUTING_MS);
}

/* ---- merging ---- */

static enum step forget(void *arg)
{
    struct publish *p = arg;

    if (p->n_old > 0)
        disco_unref((struct disco *)(uintptr_t)p->old[--p->n_old]);
    return p->n_old > 0 ? STEP_MORE : STEP_DONE;
}

static void forgotten(void *arg, bool done)
{
    (void)arg;
    (void)done;
}

/* Like key_free, but its documents may be the last of many large ones: they go one after the other. */
static void retire(struct publish *p, struct key *k)
{
    const struct disco **grown = k->n == 0 ? NULL : mem_realloc(p->old, (p->n_old + k->n) * sizeof(*grown));

    if (grown != NULL) {
        memcpy(grown + p->n_old, k->held, k->n * sizeof(*grown));
        p->old = grown;
        p->n_old += k->n;
        k->n = 0;
        work_start(p->o.work, &p->forget, forget, forgotten, p);
    }
    key_free(k);
}

static void move(struct publish *p, enum state to)
{
    state_move(&states, &p->state, to);
}

static void drop_merge(struct publish *p)
{
    build_free(p->build);
    p->build = NULL;
    retire(p, &p->want);
}

static void retry_later(struct publish *p)
{
    log_error("Out of memory for a snapshot of discovery");
    drop_merge(p);
    move(p, STATE_RETRYING);
    loop_timer_set(p->timer, MEMORY_RETRY_MS);
}

static enum step build_some(void *arg)
{
    struct publish *p = arg;

    return build_step(p->build, &p->err);
}

static void go_on(struct publish *p)
{
    move(p, STATE_BUILDING);
    work_start(p->o.work, &p->work, build_some, built, p);
}

static void settle(struct publish *p)
{
    move(p, STATE_SETTLED);
    p->put_off = false;
    if (p->dirty || p->outdated)
        publish_request(p);
    else
        p->o.on_documents(p->o.arg);
}

static bool start_merge(struct publish *p, const struct served_input *in, struct key *key)
{
    p->want = *key;
    memset(key, 0, sizeof(*key));
    p->work.busy_us = 0;
    p->build = build_new(in, p->protobuf);
    if (p->build == NULL)
        return false;
    go_on(p);
    return true;
}

/* Does a merge have to begin, to begin again, or is it as it should be? False when out of memory. */
static bool see_to_merge(struct publish *p, const struct served_input *in, struct key *key)
{
    bool under_way = p->state == STATE_BUILDING;
    uint64_t now = loop_now_ms(p->o.loop);

    p->outdated = false;
    await_documents(p);
    /* publish_request() has interrupted it. */
    if (under_way && key_same(key, &p->want)) {
        go_on(p);
        return true;
    }
    if (under_way && now - p->merge_since_ms >= RESTART_FOR_MS) {
        p->outdated = true;
        go_on(p);
        return true;
    }
    drop_merge(p);
    if (in->local == NULL || (p->has_key && key_same(key, &p->have))) {
        loop_timer_cancel(p->timer);
        p->gathered = false;
        show_next(p);
        settle(p);
        return true;
    }
    p->put_off = p->put_off || under_way;
    if (!p->gathered && p->built) {
        move(p, STATE_GATHERING);
        if (!loop_timer_pending(p->timer))
            loop_timer_set(p->timer, GATHER_MS);
        return true;
    }
    p->gathered = false;
    if (!p->put_off)
        p->merge_since_ms = now;
    return start_merge(p, in, key);
}

static void on_turn(void *arg)
{
    struct publish *p = arg;
    struct served_input in;
    struct key key = {.n = 0};
    bool fine;

    fine = collect(p, &in) && key_make(&key, &in, p->protobuf);
    if (fine && is_current(p, &in))
        p->told = false;
    else
        fine = fine && make_next(p, &in);
    if (fine) {
        p->dirty = false;
        fine = see_to_merge(p, &in, &key);
        p->urgent = false;
    }
    key_free(&key);
    input_free(&in);
    if (!fine)
        retry_later(p);
    else
        tell(p);
}

static void merge_failed(struct publish *p)
{
    log_error("Could not merge discovery, the previous document stays",
              LT("err", err_is_set(&p->err) ? p->err.text : "out of memory"));
    err_clear(&p->err);
    metric_inc(p->o.metrics->merge_failures);
    /* The same inputs may well fail again: then they are taken as done until they change, or a while has passed. */
    p->failed++;
    loop_timer_set(p->again, p->failed == 1 ? MEMORY_RETRY_MS : FAILED_RETRY_MS);
    retire(p, &p->have);
    p->have = p->want;
    memset(&p->want, 0, sizeof(p->want));
    p->has_key = p->built = true;
    drop_merge(p);
    p->dirty = true;
    p->o.on_documents(p->o.arg);
    settle(p);
}

static void complete(struct publish *p)
{
    bool shown = p->next != NULL, protobuf = build_has_protobuf(p->build);
    const struct served_document *d;

    metric_inc(p->o.metrics->merges);
    metric_observe(p->o.metrics->merge_seconds, (double)p->work.busy_us / 1e6);
    p->failed = 0;
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        served_documents_unref(p->documents[i]);
        p->documents[i] = build_take(p->build, (enum served_half)i);
    }
    retire(p, &p->have);
    p->have = p->want;
    memset(&p->want, 0, sizeof(p->want));
    p->has_key = p->built = true;
    drop_merge(p);
    d = served_documents_at(p->documents[SERVED_APIS], SERVED_V2);
    log_v(4, "Discovery merged", LU("bytes", d->body.n), LU("servers", p->have.n), LU("cpuUs", p->work.busy_us));
    /* The routing could not wait: another snapshot, with the documents. */
    p->dirty = p->dirty || !shown;
    show_next(p);
    tell(p);
    /* Where things change all the time it never settles. */
    if (protobuf && shown)
        p->o.on_documents(p->o.arg);
    settle(p);
}

static void built(void *arg, bool done)
{
    struct publish *p = arg;

    if (done)
        complete(p);
    else
        merge_failed(p);
}

/* ---- turns ---- */

static void on_timer(void *arg)
{
    struct publish *p = arg;

    if (p->state != STATE_GATHERING && p->state != STATE_RETRYING)
        return;
    p->gathered = p->state == STATE_GATHERING;
    move(p, STATE_REQUESTED);
    loop_defer(p->o.loop, &p->turn, on_turn, p);
}

static void on_again(void *arg)
{
    struct publish *p = arg;

    p->has_key = false;
    publish_request(p);
}

/* What has changed is looked at before a merge goes on. */
static void note_change(struct publish *p)
{
    p->dirty = true;
    work_cancel(p->o.work, &p->work);
}

void publish_request(struct publish *p)
{
    note_change(p);
    if (p->state == STATE_SETTLED && p->built) {
        move(p, STATE_GATHERING);
        loop_timer_set(p->timer, GATHER_MS);
    } else if (p->state == STATE_SETTLED) {
        move(p, STATE_REQUESTED);
    }
    if (p->state != STATE_RETRYING && p->state != STATE_GATHERING)
        loop_defer(p->o.loop, &p->turn, on_turn, p);
}

void publish_request_now(struct publish *p)
{
    note_change(p);
    p->urgent = true;
    if (p->state == STATE_SETTLED || p->state == STATE_GATHERING) {
        loop_timer_cancel(p->timer);
        move(p, STATE_REQUESTED);
    }
    if (p->state != STATE_RETRYING)
        loop_defer(p->o.loop, &p->turn, on_turn, p);
}

/* ---- whole ---- */

struct publish *publish_new(const struct publish_opts *o)
{
    struct publish *p = must_zalloc(sizeof(*p));
    struct served_input nothing = {.local_id = ""};

    p->o = *o;
    p->current = served_new(&nothing);
    p->told = true;
    p->routing = loop_timer_new(o->loop, on_routing, p);
    p->timer = loop_timer_new(o->loop, on_timer, p);
    p->again = loop_timer_new(o->loop, on_again, p);
    must_hold(p->current != NULL && p->timer != NULL && p->again != NULL && p->routing != NULL);
    return p;
}

void publish_free(struct publish *p)
{
    loop_defer_cancel(p->o.loop, &p->turn);
    loop_timer_free(p->timer);
    loop_timer_free(p->again);
    loop_timer_free(p->routing);
    served_unref(p->next);
    drop_merge(p);
    retire(p, &p->have);
    while (p->n_old > 0)
        disco_unref((struct disco *)(uintptr_t)p->old[--p->n_old]);
    mem_free(p->old);
    work_cancel(p->o.work, &p->work);
    work_cancel(p->o.work, &p->forget);
    for (size_t i = 0; i < SERVED_HALVES; i++)
        served_documents_unref(p->documents[i]);
    served_unref(p->current);
    mem_free(p);
}

bool publish_want_protobuf(struct publish *p)
{
    if (p->protobuf && !p->dirty && p->state == STATE_SETTLED)
        return false;
    if (!p->protobuf)
        publish_request(p);
    p->protobuf = true;
    return true;
}

bool publish_pending(const struct publish *p)
{
    return p->dirty || p->next != NULL;
}

bool publish_settled(const struct publish *p)
{
    return p->state == STATE_SETTLED && p->failed != 1;
}

struct served *publish_current(const struct publish *p)
{
    return p->current;
}
