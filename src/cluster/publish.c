/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/publish.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/state.h"
#include "cluster/cluster_metrics.h"
#include "cluster/documents.h"
#include "cluster/placeholder.h"
#include "cluster/work.h"
#include "http/etag.h"
#include "kube/disco_merge.h"
#include "net/loop.h"

enum {
    MERGE_BUDGET = 10000, /* resources in a piece of work: some 2 ms */
    PIECE_US = 2000,      /* small steps share a piece up to this */
    FORGET_US = 1000,     /* old documents are given back so long at a time */
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
    STATE_MERGING,   /* one half of discovery, and then, in the same way, */
    STATE_PREPARING, /* its tags and compressed forms; then the other half */
    STATE_RETRYING,  /* out of memory: after a while */
};

static const char *const state_names[] = {
    [STATE_SETTLED] = "settled", [STATE_REQUESTED] = "requested", [STATE_GATHERING] = "gathering",
    [STATE_MERGING] = "merging", [STATE_PREPARING] = "preparing", [STATE_RETRYING] = "retrying",
};

/* At a turn what is known is looked at whatever was under way: it goes on, or is dropped. */
#define LOOKED (STATE(STATE_SETTLED) | STATE(STATE_GATHERING) | STATE(STATE_MERGING) | STATE(STATE_RETRYING))

static const uint32_t state_next[] = {
    [STATE_SETTLED] = LOOKED | STATE(STATE_REQUESTED),   [STATE_REQUESTED] = LOOKED,
    [STATE_GATHERING] = LOOKED | STATE(STATE_REQUESTED), [STATE_MERGING] = LOOKED | STATE(STATE_PREPARING),
    [STATE_PREPARING] = LOOKED | STATE(STATE_PREPARING), [STATE_RETRYING] = LOOKED | STATE(STATE_REQUESTED),
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
    bool with_protobuf;                                /* is being prepared */
    struct served_documents *documents[SERVED_HALVES]; /* of the key `have` */
    struct key have, want;                             /* want: of the merge under way */
    bool has_key;
    enum served_half half;                    /* MERGING, PREPARING */
    struct disco_merge *merge[SERVED_HALVES]; /* NULL: no server has that half */
    struct documents *preparing;
    struct served_documents *prepared[SERVED_HALVES]; /* for the key `want` */
    uint64_t merge_since_ms;                          /* the first start in a row of restarts */
    bool put_off; /* that merge gave way to newer changes, and none has ended since */
    uint64_t busy_us;
    struct loop_deferred turn; /* REQUESTED */
    struct work work;          /* MERGING, PREPARING */
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

static void on_work(void *arg);

/* ----------------------------------------------------------------------------------------------------------- key */

static void key_free(struct key *k)
{
    for (size_t i = 0; i < k->n; i++)
        disco_unref((struct disco *)(uintptr_t)k->held[i]);
    mem_free(k->held);
    buf_free(&k->text);
    memset(k, 0, sizeof *k);
}

static void key_server(struct key *k, const char *id, const struct disco *d, unsigned flags)
{
    if (d == NULL)
        return;
    k->held[k->n++] = disco_ref(d);
    buf_printf(&k->text, "%s %p %u\n", id, (const void *)d, flags);
}

/* In the order in which they are kept: another order only makes a merge more. */
static void key_undiscovered(struct key *k, const struct publish_input *in)
{
    buf_append_str(&k->text, "undiscovered");
    for (size_t i = 0; i < in->served.n_undiscovered; i++) {
        buf_append_char(&k->text, ' ');
        buf_append(&k->text, in->served.undiscovered[i].version);
        buf_append_char(&k->text, '.');
        buf_append(&k->text, in->served.undiscovered[i].group);
    }
    buf_append_char(&k->text, '\n');
}

static int by_text(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

static bool key_make(struct key *k, struct publish_input *in, bool protobuf)
{
    const struct served_input *s = &in->served;

    memset(k, 0, sizeof *k);
    buf_init(&k->text, KEY_CEILING);
    k->held = mem_array(s->n_peers + 1, sizeof *k->held);
    if (k->held == NULL)
        return false;
    key_server(k, s->local_id, s->local, DISCO_SERVER_LOCAL);
    for (size_t i = 0; s->peers_enabled && i < s->n_peers; i++)
        key_server(k, s->peers[i].id, s->peers[i].disco, in->extra[i].stale ? DISCO_SERVER_LAPSED : 0);
    if (s->n_excluded > 0)
        qsort((void *)(uintptr_t)s->excluded, s->n_excluded, sizeof *s->excluded, by_text);
    for (size_t i = 0; i < s->n_excluded; i++) {
        buf_append(&k->text, s->excluded[i]);
        buf_append_char(&k->text, '\n');
    }
    if (in->incomplete && in->served.n_undiscovered > 0)
        key_undiscovered(k, in);
    if (protobuf)
        buf_append_str(&k->text, "protobuf\n");
    return !k->text.failed;
}

static bool key_same(const struct key *a, const struct key *b)
{
    return slice_eq(buf_slice(&a->text), buf_slice(&b->text));
}

/* ------------------------------------------------------------------------------------------------------ snapshots */

static bool collect(struct publish *p, struct publish_input *in)
{
    memset(in, 0, sizeof *in);
    return p->o.collect(p->o.arg, in);
}

static void input_free(struct publish_input *in)
{
    mem_free((void *)(uintptr_t)in->served.peers);
    mem_free((void *)(uintptr_t)in->served.excluded);
    mem_free(in->extra);
    mem_free(in->served.undiscovered);
}

static bool make_next(struct publish *p, struct publish_input *in)
{
    struct served *new;

    memcpy(in->served.documents, p->documents, sizeof p->documents);
    new = served_new(&in->served);
    if (new == NULL)
        return false;
    served_unref(p->next);
    p->next = new;
    p->next_synced = in->served.leases_synced;
    p->n_excluded = in->served.n_excluded;
    return true;
}

/* Whether the Leases count as listed: see the top of publish.h. */
static bool counts_as_synced(const struct publish *p, bool leases_synced, bool peers_enabled)
{
    return leases_synced && (p->built || !peers_enabled);
}

/* Nothing has changed since the current snapshot: whoever waits for the next one has it. */
static bool is_current(struct publish *p, struct publish_input *in)
{
    bool synced = in->served.local != NULL && counts_as_synced(p, in->served.leases_synced, in->served.peers_enabled);

    memcpy(in->served.documents, p->documents, sizeof p->documents);
    return p->next == NULL && p->generation > 0 && served_synced(p->current) == synced &&
           served_is(p->current, &in->served);
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

/* ---------------------------------------------------------------------------------------------------------- merging */

static void forget(void *arg)
{
    struct publish *p = arg;
    uint64_t start = clock_us();

    while (p->n_old > 0 && clock_us() - start < FORGET_US)
        disco_unref((struct disco *)(uintptr_t)p->old[--p->n_old]);
    if (p->n_old > 0)
        work_add(p->o.work, &p->forget, forget, p);
}

/* Like key_free, but its documents may be the last of many large ones: they go one after the other. */
static void retire(struct publish *p, struct key *k)
{
    const struct disco **grown = k->n == 0 ? NULL : mem_realloc(p->old, (p->n_old + k->n) * sizeof *grown);

    if (grown != NULL) {
        memcpy(grown + p->n_old, k->held, k->n * sizeof *grown);
        p->old = grown;
        p->n_old += k->n;
        k->n = 0;
        work_add(p->o.work, &p->forget, forget, p);
    }
    key_free(k);
}

static void move(struct publish *p, enum state to)
{
    state_move(&states, &p->state, to);
}

static void drop_merge(struct publish *p)
{
    documents_free(p->preparing);
    p->preparing = NULL;
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        disco_merge_free(p->merge[i]);
        p->merge[i] = NULL;
        served_documents_unref(p->prepared[i]);
        p->prepared[i] = NULL;
    }
    retire(p, &p->want);
}

static void retry_later(struct publish *p)
{
    log_error("Out of memory for a snapshot of discovery");
    drop_merge(p);
    move(p, STATE_RETRYING);
    loop_timer_set(p->timer, MEMORY_RETRY_MS);
}

static void go_on(struct publish *p, enum state s)
{
    move(p, s);
    work_add(p->o.work, &p->work, on_work, p);
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

static bool add_placeholder(struct publish *p, const struct publish_input *in)
{
    struct disco_doc *doc = placeholder_new(in->served.undiscovered, in->served.n_undiscovered);
    bool fine =
        doc != NULL && disco_merge_add(p->merge[SERVED_APIS], SLICE_LIT(PLACEHOLDER_ID), doc, DISCO_SERVER_LAPSED);

    disco_doc_unref(doc);
    return fine;
}

static const struct disco_doc *half_of(const struct disco *d, enum served_half half)
{
    if (d == NULL)
        return NULL;
    return half == SERVED_CORE ? disco_core(d) : disco_apis(d);
}

/* A server without this half (a hostile one, or one that is no kube-apiserver) has no say in it. */
static bool merge_servers(struct disco_merge *m, const struct publish_input *in, enum served_half half)
{
    const struct served_input *s = &in->served;

    if (!disco_merge_add(m, slice_str(s->local_id), half_of(s->local, half), DISCO_SERVER_LOCAL))
        return false;
    for (size_t i = 0; s->peers_enabled && i < s->n_peers; i++) {
        const struct disco_doc *doc = half_of(s->peers[i].disco, half);

        if (doc != NULL &&
            !disco_merge_add(m, slice_str(s->peers[i].id), doc, in->extra[i].stale ? DISCO_SERVER_LAPSED : 0))
            return false;
    }
    return true;
}

static bool merge_inputs(struct publish *p, const struct publish_input *in)
{
    const struct served_input *s = &in->served;

    for (size_t i = 0; i < SERVED_HALVES; i++) {
        if (half_of(s->local, (enum served_half)i) == NULL)
            continue;
        p->merge[i] = disco_merge_new();
        if (p->merge[i] == NULL || !merge_servers(p->merge[i], in, (enum served_half)i))
            return false;
    }
    if (in->incomplete && in->served.n_undiscovered > 0 && !add_placeholder(p, in))
        return false;
    for (size_t i = 0; i < s->n_excluded; i++) {
        struct slice version = s->excluded[i], group;

        if (slice_split(&version, '/', &group) && !disco_merge_exclude(p->merge[SERVED_APIS], group, version))
            return false;
    }
    return true;
}

static bool start_merge(struct publish *p, const struct publish_input *in, struct key *key)
{
    p->want = *key;
    memset(key, 0, sizeof *key);
    p->busy_us = 0;
    p->half = SERVED_APIS;
    if (!merge_inputs(p, in))
        return false;
    go_on(p, STATE_MERGING);
    return true;
}

static bool is_under_way(const struct publish *p)
{
    return p->state == STATE_MERGING || p->state == STATE_PREPARING;
}

/* Does a merge have to begin, to begin again, or is it as it should be? False when out of memory. */
static bool see_to_merge(struct publish *p, const struct publish_input *in, struct key *key)
{
    bool under_way = is_under_way(p);
    uint64_t now = loop_now_ms(p->o.loop);

    p->outdated = false;
    await_documents(p);
    if (under_way && key_same(key, &p->want)) {
        go_on(p, p->state);
        return true;
    }
    if (under_way && now - p->merge_since_ms >= RESTART_FOR_MS) {
        p->outdated = true;
        go_on(p, p->state);
        return true;
    }
    drop_merge(p);
    if (in->served.local == NULL || (p->has_key && key_same(key, &p->have))) {
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
    struct publish_input in;
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

static void merge_failed(struct publish *p, const char *why)
{
    log_error("Could not merge discovery, the previous document stays", LT("err", why));
    metric_inc(p->o.metrics->merge_failures);
    /* The same inputs may well fail again: then they are taken as done until they change, or a while has passed. */
    p->failed++;
    loop_timer_set(p->again, p->failed == 1 ? MEMORY_RETRY_MS : FAILED_RETRY_MS);
    retire(p, &p->have);
    p->have = p->want;
    memset(&p->want, 0, sizeof p->want);
    p->has_key = p->built = true;
    drop_merge(p);
    p->dirty = true;
    p->o.on_documents(p->o.arg);
    settle(p);
}

static void merged(struct publish *p)
{
    struct documents_input make = {.protobuf = p->half == SERVED_APIS ? p->protobuf : p->with_protobuf};
    struct disco_merged m;

    disco_merge_result(p->merge[p->half], &m);
    make.text[SERVED_V2] = m.v2;
    make.text[SERVED_V2BETA1] = m.v2beta1;
    make.parsed = m.parsed;
    p->with_protobuf = make.protobuf;
    p->preparing = documents_new(&make);
    if (p->preparing == NULL)
        retry_later(p);
    else
        go_on(p, STATE_PREPARING);
}

/* Both halves are. */
static void complete(struct publish *p)
{
    bool shown = p->next != NULL;
    const struct served_document *d;

    metric_inc(p->o.metrics->merges);
    metric_observe(p->o.metrics->merge_seconds, (double)p->busy_us / 1e6);
    p->failed = 0;
    for (size_t i = 0; i < SERVED_HALVES; i++) {
        served_documents_unref(p->documents[i]);
        p->documents[i] = p->prepared[i];
        p->prepared[i] = NULL;
    }
    retire(p, &p->have);
    p->have = p->want;
    memset(&p->want, 0, sizeof p->want);
    p->has_key = p->built = true;
    drop_merge(p);
    d = served_documents_at(p->documents[SERVED_APIS], SERVED_V2);
    log_v(4, "Discovery merged", LU("bytes", d->body.n), LU("servers", p->have.n), LU("cpuUs", p->busy_us));
    /* The routing could not wait: another snapshot, with the documents. */
    p->dirty = p->dirty || !shown;
    show_next(p);
    tell(p);
    /* Where things change all the time it never settles. */
    if (p->with_protobuf && shown)
        p->o.on_documents(p->o.arg);
    settle(p);
}

static void prepared(struct publish *p, struct served_documents *documents)
{
    p->prepared[p->half] = documents;
    documents_free(p->preparing);
    p->preparing = NULL;
    if (p->half == SERVED_APIS && p->merge[SERVED_CORE] != NULL) {
        p->half = SERVED_CORE;
        go_on(p, STATE_MERGING);
    } else {
        complete(p);
    }
}

/* ----------------------------------------------------------------------------------------------------------- turns */

static enum disco_step some_steps(struct publish *p, struct served_documents **out, struct err *err)
{
    uint64_t start = clock_us(), now;
    enum disco_step s;

    do {
        s = p->state == STATE_MERGING ? disco_merge_step(p->merge[p->half], MERGE_BUDGET, err)
                                      : documents_step(p->preparing, out);
        now = clock_us();
    } while (s == DISCO_STEP_MORE && p->state == STATE_PREPARING && now - start < PIECE_US);
    p->busy_us += now - start;
    return s;
}

static void merge_some(struct publish *p)
{
    struct served_documents *documents = NULL;
    struct err err = {.text = ""};

    switch (some_steps(p, &documents, &err)) {
    case DISCO_STEP_MORE:
        go_on(p, p->state);
        break;
    case DISCO_STEP_DONE:
        if (p->state == STATE_MERGING)
            merged(p);
        else
            prepared(p, documents);
        break;
    case DISCO_STEP_FAILED:
        merge_failed(p, err_is_set(&err) ? err.text : "out of memory");
        break;
    }
}

static void on_work(void *arg)
{
    struct publish *p = arg;

    /* What has changed is looked at first, which goes on with the merge or begins another. */
    if (p->dirty || !is_under_way(p))
        return;
    merge_some(p);
}

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

void publish_request(struct publish *p)
{
    p->dirty = true;
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
    p->dirty = p->urgent = true;
    if (p->state == STATE_SETTLED || p->state == STATE_GATHERING) {
        loop_timer_cancel(p->timer);
        move(p, STATE_REQUESTED);
    }
    if (p->state != STATE_RETRYING)
        loop_defer(p->o.loop, &p->turn, on_turn, p);
}

/* ----------------------------------------------------------------------------------------------------------- whole */

struct publish *publish_new(const struct publish_opts *o)
{
    struct publish *p = must_zalloc(sizeof *p);
    struct served_input nothing = {.local_id = ""};

    p->o = *o;
    p->current = served_new(&nothing);
    p->told = true;
    p->routing = loop_timer_new(o->loop, on_routing, p);
    p->timer = loop_timer_new(o->loop, on_timer, p);
    p->again = loop_timer_new(o->loop, on_again, p);
    if (p->current == NULL || p->timer == NULL || p->again == NULL || p->routing == NULL)
        abort();
    return p;
}

void publish_free(struct publish *p)
{
    if (p == NULL)
        return;
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
