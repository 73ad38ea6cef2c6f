/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/record_publish.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/state.h"
#include "cluster/backoff.h"
#include "cluster/cluster_metrics.h"
#include "cluster/etcd.h"
#include "net/lifetime.h"

enum {
    TTL_S = 15,
    RENEW_MS = 10000,
    RENEW_JITTER_PERCENT = 4,
    RETRY_MAX_MS = 5000, /* a short failure must not outlast what is left of the lease */
    BUSY_MS = 250,
    YIELDED_MS = 30000, /* without a word of who writes it */
    STOP_MS = 2000,
    IMMEDIATE_TRIES = 5,
    BODY_BYTES = 16 << 10,
};

enum state {
    STATE_STOPPED,
    STATE_NOTHING,   /* no address to say */
    STATE_NOT_NOW,   /* peers should not come */
    STATE_STARTING,  /* getting a lease, writing */
    STATE_PUBLISHED, /* ours, and renewed */
    STATE_YIELDED,   /* somebody else writes it */
    STATE_LEAVING,   /* ours is being removed */
};

static const char *const state_names[] = {
    [STATE_STOPPED] = "stopped",
    [STATE_NOTHING] = "none, the own address is not known",
    [STATE_NOT_NOW] = "withheld, the local server does not answer",
    [STATE_STARTING] = "starting",
    [STATE_PUBLISHED] = "published",
    [STATE_YIELDED] = "written by another process",
    [STATE_LEAVING] = "leaving",
};
/* Itself: looked at again. Only what has begun to be written can be published, or found to be somebody else's. */
static const uint32_t state_next[] = {
    [STATE_STOPPED] = STATE(STATE_STOPPED) | STATE(STATE_STARTING),
    [STATE_NOTHING] = STATE(STATE_STOPPED) | STATE(STATE_NOTHING) | STATE(STATE_NOT_NOW) | STATE(STATE_STARTING),
    [STATE_NOT_NOW] = STATE(STATE_STOPPED) | STATE(STATE_NOTHING) | STATE(STATE_NOT_NOW) | STATE(STATE_STARTING) |
                      STATE(STATE_LEAVING),
    [STATE_STARTING] = STATE(STATE_STOPPED) | STATE(STATE_NOTHING) | STATE(STATE_NOT_NOW) | STATE(STATE_STARTING) |
                       STATE(STATE_PUBLISHED) | STATE(STATE_YIELDED) | STATE(STATE_LEAVING),
    [STATE_PUBLISHED] = STATE(STATE_STOPPED) | STATE(STATE_NOT_NOW) | STATE(STATE_STARTING) | STATE(STATE_PUBLISHED) |
                        STATE(STATE_YIELDED) | STATE(STATE_LEAVING),
    [STATE_YIELDED] = STATE(STATE_STOPPED) | STATE(STATE_NOT_NOW) | STATE(STATE_STARTING) | STATE(STATE_PUBLISHED) |
                      STATE(STATE_YIELDED) | STATE(STATE_LEAVING),
    [STATE_LEAVING] = STATE(STATE_STOPPED) | STATE(STATE_STARTING) | STATE(STATE_LEAVING),
};
static const struct state_table states = STATE_TABLE("own peer endpoint record", state_names, state_next);

struct record_publish {
    struct record_publish_opts o;
    struct lifetime life;
    struct peer_record record;
    bool has_address, mine; /* the key stands under our lease as far as we know */
    enum state state;
    uint64_t lease;     /* 0: none */
    uint64_t take_over; /* the revision of an earlier process' record that may be replaced */
    unsigned tries;     /* in a row without waiting */
    uint64_t written_ms;
    bool conceded; /* that somebody else writes it has been said */
    struct etcd_call *call;
    struct loop_timer *timer, *deadline;
    struct backoff backoff;
    void (*done)(void *arg); /* waits until it is stopped; NULL: nobody does */
    void *done_arg;
};

static void round_begin(struct record_publish *p);
static void get_lease(struct record_publish *p);
static void write_record(struct record_publish *p);

/* ---- plumbing ---- */

static void set_state(struct record_publish *p, enum state s)
{
    state_move(&states, &p->state, s);
    metric_set(p->o.metrics->record_publishing, s == STATE_PUBLISHED ? 1 : 0);
}

static void stop_call(struct record_publish *p)
{
    etcd_cancel(p->call);
    p->call = NULL;
}

static void count(struct record_publish *p, const char *result)
{
    const struct slice label = slice_str(result);

    metric_inc(metric_child(p->o.metrics->record_writes, &label));
}

static void failing(struct record_publish *p)
{
    count(p, "failed");
    p->tries = 0;
    if (p->state == STATE_PUBLISHED && loop_now_ms(p->life.loop) - p->written_ms >= TTL_S * 1000)
        set_state(p, STATE_STARTING);
    loop_timer_set(p->timer, backoff_next(&p->backoff));
}

static bool ask(struct record_publish *p, enum etcd_op op, struct buf *body, etcd_fn *fn)
{
    p->call = body->failed ? NULL : etcd_call(p->o.etcd, op, buf_slice(body), fn, p);
    buf_free(body);
    return p->call != NULL;
}

static bool ask_lease(struct record_publish *p, enum etcd_op op, etcd_fn *fn)
{
    struct buf body;

    buf_init(&body, BODY_BYTES);
    (void)etcd_print_lease(&body, p->lease);
    return ask(p, op, &body, fn);
}

/* ---- writing ---- */

static void published(struct record_publish *p)
{
    if (p->state != STATE_PUBLISHED) {
        char port[8];

        (void)snprintf(port, sizeof(port), "%u", p->record.port);
        log_info("Publishing the peer endpoint record of this server", LT("id", p->record.id), LT("ip", p->record.ip),
                 LT("port", port), LU("lease", p->lease));
    }
    count(p, "ok");
    set_state(p, STATE_PUBLISHED);
    p->written_ms = loop_now_ms(p->life.loop);
    p->mine = true;
    p->conceded = false;
    p->take_over = 0;
    p->tries = 0;
    backoff_reset(&p->backoff);
    loop_timer_set(p->timer, jitter_ms(RENEW_MS, RENEW_JITTER_PERCENT));
}

static void on_dropped(void *arg, const struct etcd_answer *a)
{
    struct record_publish *p = arg;

    (void)a;
    p->call = NULL;
}

/* What is not used is not kept: the lease has nothing of ours under it. */
static void drop_lease(struct record_publish *p)
{
    if (p->lease != 0 && p->call == NULL)
        (void)ask_lease(p, ETCD_REVOKE, on_dropped);
    p->lease = 0;
    p->mine = false;
}

static void yield(struct record_publish *p, const struct peer_record *other)
{
    bool same = peer_record_same_address(other, &p->record);
    char port[8];

    (void)snprintf(port, sizeof(port), "%u", other->port);
    if (!p->conceded && same)
        log_info(other->form == PEER_RECORD_JSON
                     ? "The peer endpoint record of this server is written by another process of this node now"
                     : "The peer endpoint record of this server is written by the local kube-apiserver itself",
                 LT("id", p->record.id), LT("ip", other->ip), LT("port", port));
    else if (!p->conceded)
        log_warning(
            "Somebody else writes the peer endpoint record of this server, with another address, and it is left to "
            "them: either the local kube-apiserver (set its --advertise-address), or another node with the same "
            "host name",
            LT("id", p->record.id), LT("ip", other->ip), LT("port", port), LT("ownIP", p->record.ip));
    p->conceded = true;
    p->take_over = 0;
    p->tries = 0;
    count(p, "yielded");
    set_state(p, STATE_YIELDED);
    drop_lease(p);
    loop_timer_set(p->timer, YIELDED_MS);
}

/* Too many surprises in a row are taken for a failure, so that two of a kind do not spin. */
static void write_again(struct record_publish *p)
{
    if (p->tries++ < IMMEDIATE_TRIES)
        write_record(p);
    else
        failing(p);
}

/*
 * The key is there and not under our lease. kube-apiserver writes protobuf, and without looking: if it was so, it is
 * alive. A record in JSON with our address is what an earlier process of ours has left; or, if it has replaced the one
 * that we keep up, what a later one has written that takes over from us. Both would else write by turns, without end.
 */
static void judge(struct record_publish *p, const struct etcd_kv *kv)
{
    struct peer_record other;
    bool readable = peer_record_parse(kv->value, &other, NULL);
    bool left_behind = readable && other.form == PEER_RECORD_JSON && peer_record_same_address(&other, &p->record) &&
                       p->state != STATE_PUBLISHED;
    bool useless = !readable && kv->lease == 0; /* to anybody, and nobody keeps it */

    if (kv->lease == p->lease && p->lease != 0) { /* written by a request whose answer was lost */
        p->mine = true;
        write_again(p);
    } else if (left_behind || useless) {
        p->take_over = kv->revision;
        p->mine = false;
        write_again(p);
    } else {
        yield(p, &other);
    }
}

static void on_written(void *arg, const struct etcd_answer *a)
{
    struct record_publish *p = arg;
    struct etcd_kv_text text;
    struct etcd_kv kv;
    struct err err = {.text = ""};

    p->call = NULL;
    if (a->result == ETCD_NO_LEASE) { /* it has expired meanwhile */
        p->lease = 0;
        p->mine = false;
        if (p->tries++ < IMMEDIATE_TRIES)
            get_lease(p);
        else
            failing(p);
        return;
    }
    if (a->result != ETCD_OK) {
        failing(p);
        return;
    }
    etcd_kv_text_init(&text);
    switch (etcd_read_put(a->body, &text, &kv, &err)) {
    case ETCD_PUT_DONE:
        published(p);
        break;
    case ETCD_PUT_NO_KEY: /* removed by somebody */
        p->mine = false;
        p->take_over = 0;
        write_again(p);
        break;
    case ETCD_PUT_OTHER:
        judge(p, &kv);
        break;
    case ETCD_PUT_MALFORMED:
        log_v(2, "Could not read etcd's answer", LT("err", err.text));
        failing(p);
        break;
    }
    etcd_kv_text_free(&text);
}

static void write_record(struct record_publish *p)
{
    struct etcd_put put = {.lease = p->lease};
    struct buf key, value, body;

    if (p->mine) {
        put.condition = ETCD_IF_LEASE;
        put.expected = p->lease;
    } else if (p->take_over != 0) {
        put.condition = ETCD_IF_REVISION;
        put.expected = p->take_over;
    } else {
        put.condition = ETCD_IF_ABSENT;
    }
    p->record.generation++;
    buf_init(&key, BODY_BYTES);
    buf_init(&value, PEER_RECORD_BYTES);
    buf_init(&body, BODY_BYTES);
    if (peer_record_key(slice_str(p->o.prefix), slice_str(p->record.id), &key) &&
        peer_record_print(&p->record, &value)) {
        put.key = buf_slice(&key);
        put.value = buf_slice(&value);
        (void)etcd_print_put(&body, &put);
    } else {
        body.failed = true;
    }
    buf_free(&key);
    buf_free(&value);
    if (!ask(p, ETCD_PUT, &body, on_written))
        failing(p);
}

/* ---- lease ---- */

static void on_granted(void *arg, const struct etcd_answer *a)
{
    struct record_publish *p = arg;
    uint64_t ttl;

    p->call = NULL;
    if (a->result == ETCD_OK && etcd_read_lease(a->body, &p->lease, &ttl)) {
        write_record(p);
        return;
    }
    p->lease = 0;
    failing(p);
}

static void get_lease(struct record_publish *p)
{
    struct buf body;

    buf_init(&body, BODY_BYTES);
    (void)etcd_print_grant(&body, TTL_S);
    if (!ask(p, ETCD_GRANT, &body, on_granted))
        failing(p);
}

static void on_kept(void *arg, const struct etcd_answer *a)
{
    struct record_publish *p = arg;
    uint64_t lease, ttl;

    p->call = NULL;
    if (a->result == ETCD_FAILED) {
        failing(p);
        return;
    }
    if (a->result == ETCD_OK && etcd_read_lease(a->body, &lease, &ttl) && lease == p->lease && ttl > 0) {
        write_record(p);
        return;
    }
    /* It has expired, and the record with it. */
    p->lease = 0;
    p->mine = false;
    get_lease(p);
}

static void round_begin(struct record_publish *p)
{
    if (!p->has_address) {
        set_state(p, STATE_NOTHING);
        drop_lease(p);
        return;
    }
    if (!p->o.may(p->o.arg)) {
        if (p->state == STATE_PUBLISHED)
            log_info("The local kube-apiserver does not answer: its peer endpoint record is left to expire",
                     LT("id", p->record.id));
        set_state(p, STATE_NOT_NOW); /* until we are told */
        return;
    }
    if (p->state != STATE_PUBLISHED && p->state != STATE_YIELDED)
        set_state(p, STATE_STARTING);
    if (p->lease == 0)
        get_lease(p);
    else if (!ask_lease(p, ETCD_KEEPALIVE, on_kept))
        failing(p);
}

static void on_timer(void *arg)
{
    struct record_publish *p = arg;

    if (p->call != NULL) /* a lease being dropped */
        loop_timer_set(p->timer, BUSY_MS);
    else
        round_begin(p);
}

static void soon(struct record_publish *p)
{
    if (p->state != STATE_STOPPED && p->state != STATE_LEAVING && p->call == NULL)
        loop_timer_set(p->timer, 0);
}

void record_publish_local_answers(struct record_publish *p)
{
    if (p->state == STATE_NOT_NOW)
        loop_timer_set(p->timer, 0);
}

void record_publish_moved(struct record_publish *p)
{
    if (p->state == STATE_STOPPED || p->state == STATE_LEAVING)
        return;
    stop_call(p);
    p->lease = 0;
    p->mine = false;
    p->take_over = 0;
    set_state(p, STATE_STARTING);
    loop_timer_set(p->timer, 0);
}

void record_publish_seen(struct record_publish *p, const struct peer_record *r, uint64_t lease)
{
    bool ours = r != NULL && lease == p->lease && lease != 0;

    if (p->call != NULL || ours)
        return;
    if (r != NULL && p->state == STATE_YIELDED)
        loop_timer_set(p->timer, YIELDED_MS);
    /* Gone although it was not we who removed it, or there is room for ours now. */
    if (r == NULL && (p->state == STATE_PUBLISHED || p->state == STATE_YIELDED))
        soon(p);
    else if (r != NULL && p->state == STATE_PUBLISHED && p->mine) /* overwritten */
        soon(p);
}

/* ---- leaving ---- */

static void gone(struct record_publish *p)
{
    stop_call(p);
    loop_timer_cancel(p->timer);
    loop_timer_cancel(p->deadline);
    p->lease = 0;
    p->mine = false;
    set_state(p, STATE_STOPPED);
    if (p->done != NULL)
        p->done(p->done_arg);
    p->done = NULL;
}

static void on_deadline(void *arg)
{
    struct record_publish *p = arg;

    log_warning("Could not remove the own peer endpoint record in time; it expires by itself", LT("id", p->record.id));
    gone(p);
}

static void on_revoked(void *arg, const struct etcd_answer *a)
{
    struct record_publish *p = arg;

    p->call = NULL;
    if (a->result == ETCD_FAILED)
        log_warning("Could not remove the own peer endpoint record; it expires by itself", LT("id", p->record.id),
                    LT("err", a->failure));
    else
        log_info("Removed the own peer endpoint record", LT("id", p->record.id));
    gone(p);
}

/* With the lease goes what stands under it, and nothing else: also a write that is still under way cannot come after.
 */
void record_publish_stop(struct record_publish *p, void (*done)(void *arg), void *arg)
{
    p->done = done;
    p->done_arg = arg;
    stop_call(p);
    loop_timer_cancel(p->timer);
    if (p->state == STATE_STOPPED || p->lease == 0) {
        gone(p);
        return;
    }
    set_state(p, STATE_LEAVING);
    loop_timer_set(p->deadline, STOP_MS);
    if (!ask_lease(p, ETCD_REVOKE, on_revoked))
        gone(p);
}

/* ---- whole ---- */

void record_publish_set_address(struct record_publish *p, const char *address)
{
    struct peer_record r = p->record;
    bool has = address != NULL && address[0] != '\0' && peer_record_set_address(&r, slice_str(address));

    if (has == p->has_address && (!has || peer_record_same_address(&r, &p->record)))
        return;
    p->has_address = has;
    p->record = r;
    if (p->state == STATE_PUBLISHED || p->state == STATE_YIELDED)
        set_state(p, STATE_STARTING); /* to be said anew */
    p->conceded = false;
    if (p->state == STATE_STOPPED || p->state == STATE_LEAVING)
        return;
    stop_call(p);
    loop_timer_set(p->timer, 0);
}

void record_publish_start(struct record_publish *p)
{
    if (p->state != STATE_STOPPED && p->state != STATE_LEAVING)
        return;
    contract(p->done == NULL);
    stop_call(p);
    loop_timer_cancel(p->deadline);
    p->lease = 0;
    p->mine = false;
    p->tries = 0;
    backoff_reset(&p->backoff);
    set_state(p, STATE_STARTING);
    loop_timer_set(p->timer, 0);
}

struct record_publish *record_publish_new(const struct record_publish_opts *o)
{
    struct record_publish *p = must_zalloc(sizeof(*p));
    struct slice id = slice_str(o->id);

    p->o = *o;
    lifetime_init(&p->life, etcd_loop(o->etcd), "own peer endpoint record");
    backoff_init(&p->backoff, BACKOFF_FIRST_MS, RETRY_MAX_MS);
    memcpy(p->record.id, id.p, id.n < SERVER_ID_CHARS ? id.n : SERVER_ID_CHARS);
    p->timer = lifetime_timer(&p->life, on_timer, p);
    p->deadline = lifetime_timer(&p->life, on_deadline, p);
    must_hold(p->timer != NULL && p->deadline != NULL);
    return p;
}

void record_publish_free(struct record_publish *p)
{
    stop_call(p);
    lifetime_retire(&p->life, mem_free, p);
}

bool record_publish_stopped(const struct record_publish *p)
{
    return p->state == STATE_STOPPED;
}

const char *record_publish_state_name(const struct record_publish *p)
{
    return state_names[p->state];
}
