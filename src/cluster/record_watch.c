/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/record_watch.h"

#include <stdio.h>

#include "base/changes.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/state.h"
#include "base/strmap.h"
#include "cluster/backoff.h"
#include "cluster/cluster_metrics.h"
#include "cluster/etcd.h"
#include "net/lifetime.h"

enum {
    /* Three rewritings missed: then a look instead of trust in a connection that may be half open. */
    SILENCE_MS = 30000,
    WATCH_MS = 240000,
    SETTLED_MS = 5000, /* a watch that lived so long starts the backoff anew */
    FIRST_REVISION = 1,
    KEY_BYTES = 4 << 10,
};

enum state {
    STATE_STOPPED,
    STATE_READING,  /* all of them */
    STATE_OPENING,  /* a watch that has not said that it is there */
    STATE_WATCHING, /* what happens comes in */
    STATE_WAITING,  /* for the next attempt */
};

static const char *const state_names[] = {[STATE_STOPPED] = "stopped",
                                          [STATE_READING] = "reading",
                                          [STATE_OPENING] = "opening",
                                          [STATE_WATCHING] = "watching",
                                          [STATE_WAITING] = "waiting"};
static const uint32_t state_next[] = {
    [STATE_STOPPED] = STATE(STATE_STOPPED) | STATE(STATE_WAITING),
    [STATE_READING] = STATE(STATE_STOPPED) | STATE(STATE_OPENING) | STATE(STATE_WAITING),
    [STATE_OPENING] = STATE(STATE_STOPPED) | STATE(STATE_WATCHING) | STATE(STATE_WAITING),
    [STATE_WATCHING] = STATE(STATE_STOPPED) | STATE(STATE_READING) | STATE(STATE_WAITING),
    [STATE_WAITING] = STATE(STATE_STOPPED) | STATE(STATE_READING) | STATE(STATE_WAITING), /* itself: begins anew */
};
static const struct state_table states = STATE_TABLE("watch of peer endpoint records", state_names, state_next);

struct entry {
    struct peer_record record;
    bool usable;
    uint64_t revision; /* of the key */
    uint64_t epoch;    /* of the reading that saw it last */
};

struct record_watch {
    struct record_watch_opts o;
    struct lifetime life;
    enum state state;
    struct etcd_call *call;
    struct loop_timer *timer; /* the next attempt, or the end of a silent watch */
    struct backoff backoff;
    struct strmap *entries; /* server ID → struct entry */
    uint64_t epoch, revision, cluster, opened_ms;
    size_t usable; /* of the entries */
    bool synced, crowded;
};

static void read_all(struct record_watch *w);

/* ---- records ---- */

static void changed(struct record_watch *w, const char *what)
{
    const struct slice label = slice_str(what);

    metric_inc(metric_child(w->o.metrics->record_changes, &label));
    metric_set(w->o.metrics->records, (double)record_watch_count(w));
}

static void say_record(const struct peer_record *r, const char *what)
{
    char port[8];

    (void)snprintf(port, sizeof(port), "%u", r->port);
    log_info(what, LT("id", r->id), LT("ip", r->ip), LT("port", port),
             LT("form", r->form == PEER_RECORD_JSON ? "json" : "protobuf"));
}

static struct entry *entry_of(struct record_watch *w, struct slice id)
{
    struct entry *e = strmap_get(w->entries, id);

    if (e != NULL)
        return e;
    if (strmap_count(w->entries) >= LIMIT_PEERS) {
        if (!w->crowded)
            log_warning("Peer limit reached, peer endpoint records ignored", LU("limit", LIMIT_PEERS));
        w->crowded = true;
        return NULL;
    }
    e = mem_zalloc(sizeof(*e));
    if (e != NULL && strmap_put(w->entries, id, e, NULL))
        return e;
    log_error("Out of memory for a peer endpoint record", LS("id", id));
    mem_free(e);
    return NULL;
}

static void remove_entry(struct record_watch *w, struct slice id)
{
    struct entry *e = strmap_remove(w->entries, id);

    if (e == NULL)
        return;
    if (e->usable) {
        must_hold(w->usable > 0);
        w->usable--;
        log_info("Peer endpoint record gone", LT("id", e->record.id));
        changed(w, "removed");
        w->o.handler->on_gone(w->o.arg, slice_str(e->record.id));
    }
    mem_free(e);
}

static void refuse(struct record_watch *w, struct entry *e, struct slice id, const char *why)
{
    bool was = e->usable, news = was || e->revision == 0;

    must_hold(w->usable >= was);
    w->usable -= was;
    e->usable = false;
    if (!news)
        return;
    log_warning("A peer endpoint record cannot be used", LS("id", id), LT("err", why));
    changes_add(w->o.changes, CHANGE_DISBELIEVED, "etcd", "the endpoint record of %.*s: %s", (int)id.n, id.p, why);
    changed(w, "refused");
    if (was)
        w->o.handler->on_gone(w->o.arg, id);
}

static void take_record(struct record_watch *w, struct slice id, const struct etcd_kv *kv)
{
    struct entry *e = entry_of(w, id);
    struct peer_record r = {.port = 0};
    struct err err = {.text = ""};
    bool fits;

    if (e == NULL)
        return;
    e->epoch = w->epoch;
    /* An event that is late; but a reading is the truth, also of an etcd that was restored from a backup. */
    if (kv->revision < e->revision && w->state != STATE_READING)
        return;
    if (kv->too_large)
        fits = err_set(&err, "a record of more than %d bytes", PEER_RECORD_BYTES);
    else
        fits = peer_record_parse(kv->value, &r, &err) &&
               (slice_eq(slice_str(r.id), id) || err_set(&err, "its label names another server than its key"));
    if (!fits) {
        refuse(w, e, id, err.text);
        e->revision = kv->revision;
        return;
    }
    e->revision = kv->revision;
    if (!e->usable || !peer_record_same_address(&r, &e->record)) {
        bool is_new = !e->usable;

        w->usable += is_new;
        e->usable = true;
        e->record = r;
        say_record(&r, is_new ? "Peer endpoint record" : "Peer endpoint record changed");
        changed(w, is_new ? "added" : "changed");
    }
    e->record = r;
    w->o.handler->on_record(w->o.arg, &r, kv->lease);
}

static bool take(void *arg, const struct etcd_kv *kv)
{
    struct record_watch *w = arg;
    struct slice id = peer_record_key_id(slice_str(w->o.prefix), kv->key);
    const struct entry *e;

    if (id.p == NULL) {
        log_v(3, "Ignoring a key that names no API server", LS("key", kv->key));
        return true;
    }
    e = strmap_get(w->entries, id);
    if (!kv->deleted)
        take_record(w, id, kv);
    else if (e != NULL && kv->revision >= e->revision)
        remove_entry(w, id);
    return true;
}

/* Of an answer that was broken off, at another endpoint, nothing counts as seen. */
static bool begin_reading(void *arg, const struct etcd_head *h)
{
    struct record_watch *w = arg;

    (void)h;
    w->epoch++;
    return true;
}

static const struct etcd_cut_handler range_handler = {.on_head = begin_reading, .on_kv = take};

/* What the last reading did not have is gone. */
static void sweep(struct record_watch *w)
{
    char text[SERVER_ID_BYTES];
    size_t cursor = 0;
    struct slice key;
    void *value;

    while (strmap_next(w->entries, &cursor, &key, &value)) {
        const struct entry *e = value;
        struct slice id = slice_of(text, key.n);

        if (e->epoch == w->epoch || key.n >= sizeof(text))
            continue;
        memcpy(text, key.p, key.n);
        remove_entry(w, id);
    }
}

/* ---- attempts ---- */

static void stop_call(struct record_watch *w)
{
    etcd_cancel(w->call);
    w->call = NULL;
}

static void set_state(struct record_watch *w, enum state s)
{
    state_move(&states, &w->state, s);
    metric_set(w->o.metrics->record_watching, s == STATE_WATCHING ? 1 : 0);
}

static void try_later(struct record_watch *w)
{
    stop_call(w);
    if (w->state == STATE_WATCHING && loop_now_ms(w->life.loop) - w->opened_ms >= SETTLED_MS)
        backoff_reset(&w->backoff);
    set_state(w, STATE_WAITING);
    loop_timer_set(w->timer, backoff_next(&w->backoff));
}

static void on_over(void *arg, const struct etcd_answer *a)
{
    struct record_watch *w = arg;

    log_v(3, "Watch of peer endpoint records is over", LT("why", a->failure == NULL ? "" : a->failure));
    w->call = NULL;
    if (w->state == STATE_OPENING)
        etcd_watch_refused(w->o.etcd, a->failure == NULL ? "" : a->failure);
    try_later(w);
}

static bool on_head(void *arg, const struct etcd_head *h)
{
    struct record_watch *w = arg;

    if (h->canceled || h->compacted > 0) {
        log_v(2, "etcd ended the watch of peer endpoint records, reading them again", LS("why", h->reason),
              LU("compacted", h->compacted));
        if (w->state == STATE_OPENING)
            etcd_watch_refused(w->o.etcd, "it ends each watch at once");
        try_later(w);
        return false;
    }
    if (w->state == STATE_OPENING) {
        if (h->header.cluster != w->cluster) {
            etcd_next_server(w->o.etcd);
            try_later(w);
            return false;
        }
        set_state(w, STATE_WATCHING);
        etcd_watch_opened(w->o.etcd);
        w->opened_ms = loop_now_ms(w->life.loop);
    }
    if (loop_now_ms(w->life.loop) - w->opened_ms >= WATCH_MS) { /* what this line says is read as well */
        stop_call(w);
        read_all(w);
        return false;
    }
    loop_timer_set(w->timer, SILENCE_MS);
    return true;
}

static const struct etcd_cut_handler watch_handler = {.on_head = on_head, .on_kv = take};

/* What all keys begin with. */
static bool print_folder(const struct record_watch *w, struct buf *out)
{
    buf_init(out, KEY_BYTES);
    return peer_record_key(slice_str(w->o.prefix), SLICE_LIT(""), out);
}

static void watch(struct record_watch *w)
{
    struct buf folder, body;

    buf_init(&body, KEY_BYTES);
    if (print_folder(w, &folder) && etcd_print_watch(&body, buf_slice(&folder), w->revision + 1))
        w->call = etcd_watch(w->o.etcd, buf_slice(&body), &watch_handler, on_over, w);
    buf_free(&folder);
    buf_free(&body);
    if (w->call == NULL) {
        try_later(w);
        return;
    }
    set_state(w, STATE_OPENING);
    loop_timer_set(w->timer, SILENCE_MS);
}

static void on_read(void *arg, const struct etcd_answer *a)
{
    struct record_watch *w = arg;

    w->call = NULL;
    if (a->result != ETCD_OK) {
        try_later(w);
        return;
    }
    sweep(w);
    if (!w->synced)
        log_info("Peer endpoint records read", LU("records", record_watch_count(w)),
                 LU("revision", a->header.revision));
    w->synced = true;
    w->revision = a->header.revision;
    w->cluster = a->header.cluster;
    watch(w);
}

static void read_all(struct record_watch *w)
{
    struct buf folder, body;

    set_state(w, STATE_READING);
    loop_timer_cancel(w->timer);
    buf_init(&body, KEY_BYTES);
    if (print_folder(w, &folder) && etcd_print_range(&body, buf_slice(&folder), LIMIT_PEERS + 1))
        w->call = etcd_range(w->o.etcd, buf_slice(&body), &range_handler, on_read, w);
    buf_free(&folder);
    buf_free(&body);
    if (w->call == NULL)
        try_later(w);
}

static void on_timer(void *arg)
{
    struct record_watch *w = arg;

    if (w->state == STATE_OPENING) { /* it took the request and says nothing */
        etcd_next_server(w->o.etcd);
        try_later(w);
        return;
    }
    stop_call(w);
    read_all(w);
}

/* ---- whole ---- */

struct record_watch *record_watch_new(const struct record_watch_opts *o)
{
    struct record_watch *w = must_zalloc(sizeof(*w));

    w->o = *o;
    lifetime_init(&w->life, etcd_loop(o->etcd), "watch of peer endpoint records");
    backoff_init(&w->backoff, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    w->entries = strmap_new();
    w->timer = lifetime_timer(&w->life, on_timer, w);
    must_hold(w->entries != NULL && w->timer != NULL);
    return w;
}

void record_watch_stop(struct record_watch *w)
{
    size_t cursor = 0;
    struct slice key;
    void *value;

    stop_call(w);
    loop_timer_cancel(w->timer);
    while (strmap_next(w->entries, &cursor, &key, &value))
        mem_free(strmap_remove(w->entries, key));
    w->usable = 0;
    w->revision = 0;
    w->synced = w->crowded = false;
    set_state(w, STATE_STOPPED);
}

static void free_watch(void *arg)
{
    struct record_watch *w = arg;

    strmap_free(w->entries);
    mem_free(w);
}

void record_watch_free(struct record_watch *w)
{
    record_watch_stop(w);
    lifetime_retire(&w->life, free_watch, w);
}

void record_watch_restart(struct record_watch *w)
{
    stop_call(w);
    backoff_reset(&w->backoff);
    set_state(w, STATE_WAITING);
    loop_timer_set(w->timer, 0);
}

const struct peer_record *record_watch_find(const struct record_watch *w, struct slice id)
{
    const struct entry *e = strmap_get(w->entries, id);

    return e != NULL && e->usable ? &e->record : NULL;
}

size_t record_watch_count(const struct record_watch *w)
{
    return w->usable;
}

struct slice record_watch_next(const struct record_watch *w, size_t *cursor)
{
    struct slice key;
    void *value;

    while (strmap_next(w->entries, cursor, &key, &value))
        if (((const struct entry *)value)->usable)
            return slice_str(((const struct entry *)value)->record.id);
    return SLICE_NONE;
}

bool record_watch_synced(const struct record_watch *w)
{
    return w->synced;
}

void record_watch_describe(const struct record_watch *w, struct buf *out)
{
    buf_printf(out, "\"watch\":\"%s\",\"synced\":%s,\"records\":%zu,\"revision\":%llu", state_names[w->state],
               w->synced ? "true" : "false", record_watch_count(w), (unsigned long long)w->revision);
}
