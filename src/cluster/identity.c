/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/identity.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/state.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "cluster/cluster_metrics.h"
#include "cluster/lease_address.h"
#include "cluster/lease_gc.h"
#include "cluster/lease_news.h"
#include "cluster/own_lease.h"
#include "kube/server_id.h"
#include "kube/version.h"
#include "net/loop.h"

enum {
    ENSURE_MAX_MS = 7000,
    BUSY_MS = 100,
    FIRST_PUBLISHING_MINOR = 26, /* kube-apiserver 1.26: APIServerIdentity on by default */
    RENEW_MS = 10000,
    RENEW_JITTER_PERCENT = 4,
    LOOK_AGAIN_MS = 12000,
    YIELDED_MS = 30000,
    UNRENEWED_MS = 35000, /* three renewals; peers take a server for live for 40 s after one */
    IMMEDIATE_TRIES = 5,
    STOP_MS = 2000,
    BODY_BYTES = 16 << 10,
};

enum state {
    STATE_STOPPED,
    STATE_DECIDING,   /* what does the local server do? */
    STATE_STARTING,   /* whose is the Lease that is there? */
    STATE_PUBLISHING, /* ours, and renewed */
    STATE_YIELDED,    /* somebody else renews it */
    STATE_OBSERVING,
    STATE_LEAVING, /* ours is being removed */
};

/* One request at a time: whoever asks is called back in the state that asked, or the state has been left. */
struct identity {
    struct identity_opts o;
    char *id, *hostname;
    char path[sizeof(LEASE_COLLECTION_PATH) + SERVER_ID_BYTES_126 + 1];
    struct loop *loop;
    enum state state;
    struct fetch *call; /* at most one */
    struct loop_timer *timer, *deadline;
    void (*next)(struct identity *i);
    struct backoff backoff;
    unsigned tries;     /* in a row without waiting: of renewing ours */
    unsigned failed;    /* in a row */
    bool said;          /* that it does */
    unsigned minor;     /* of the local server, 0: unknown */
    int64_t renewed_us; /* renewTime of its Lease, as it was seen last */
    uint64_t heard_ms;  /* when that changed, or the server was away or began anew */
    bool silent;        /* that server publishes nothing, by what was seen, though it is able to */
    bool decide_again;
    bool asked;     /* the local server for its version, in this row of requests without waiting */
    bool returning; /* LEAVING only for a moment: then decides anew, by another mode */
    bool may_exist; /* we have asked for it to be created, or it is ours */
    bool conceded;  /* that somebody else renews it has been said */
    bool anew;      /* another holder, as soon as the present one is confirmed */
    struct arena *arena;
    struct own_lease *own;
    struct lease_address *address; /* told where, while the server keeps its Lease itself */
    struct lease_gc *gc;
    struct lease_news *news; /* told where, while there is a Lease that stands for this server */
    void (*done)(void *arg); /* waits until it is stopped; NULL: nobody does */
    void *done_arg;
};

static void decide(struct identity *i); /* whose turn is it to keep the Lease? */
static void look(struct identity *i);   /* whose is the Lease that is there? */
static void renew(struct identity *i);
static void leave(struct identity *i);
static void doubt(struct identity *i); /* does the server keep the Lease that is left to it? */

/* ---- plumbing ---- */

/* The next step, so much later. */
static void after(struct identity *i, uint64_t ms, void (*next)(struct identity *i))
{
    i->next = next;
    loop_timer_set(i->timer, ms);
}

static void on_timer(void *arg)
{
    struct identity *i = arg;

    if (i->call != NULL) {
        loop_timer_set(i->timer, BUSY_MS);
        return;
    }
    i->asked = false;
    i->next(i);
}

/* It did not work: said (the second time in a row, as a warning), and `next` after a while. */
static void failing(struct identity *i, const char *what, const char *why, void (*next)(struct identity *i))
{
    i->failed++;
    i->tries = 0;
    if (i->failed >= 2 && !i->said && !api_local_unreachable(i->o.api)) {
        i->said = true;
        log_warning("Identity Lease of this server: operation failed", LT("lease", i->id), LT("operation", what),
                    LT("err", why));
    } else
        log_v(3, "Identity Lease of this server: operation failed", LT("lease", i->id), LT("operation", what),
              LT("err", why));
    after(i, backoff_next(&i->backoff), next);
}

/* Asks the local server; body may be NULL. False when out of memory. */
static bool send(struct identity *i, const char *method, const char *target, struct buf *body, fetch_fn *fn)
{
    if (body == NULL || !body->failed)
        i->call = api_ask(i->o.api, method, target, body == NULL ? SLICE_NONE : buf_slice(body), fn, i);
    return i->call != NULL;
}

/* Every callback begins so: true if the state that asked is no more. */
static bool left_meanwhile(struct identity *i)
{
    bool leaving = i->state == STATE_LEAVING; /* what this answers, though it may begin anew at once */

    i->call = NULL;
    if (leaving)
        leave(i);
    return leaving || i->state == STATE_STOPPED;
}

static const char *const state_names[] = {
    [STATE_STOPPED] = "stopped",       [STATE_DECIDING] = "deciding", [STATE_STARTING] = "starting",
    [STATE_PUBLISHING] = "publishing", [STATE_YIELDED] = "yielded",   [STATE_OBSERVING] = "observing",
    [STATE_LEAVING] = "leaving",
};

/* Once it is decided what to do, another answer of the local server may change it to anything but the decision. */
#define DECIDED                                                                                                        \
    (STATE(STATE_STARTING) | STATE(STATE_PUBLISHING) | STATE(STATE_YIELDED) | STATE(STATE_OBSERVING) |                 \
     STATE(STATE_LEAVING) | STATE(STATE_STOPPED))

static const uint32_t state_next[] = {
    [STATE_STOPPED] = STATE(STATE_DECIDING) | STATE(STATE_STOPPED),
    [STATE_DECIDING] = DECIDED,
    [STATE_STARTING] = DECIDED,
    [STATE_PUBLISHING] = DECIDED,
    [STATE_YIELDED] = DECIDED,
    [STATE_OBSERVING] = DECIDED,
    [STATE_LEAVING] = STATE(STATE_LEAVING) | STATE(STATE_STOPPED) | STATE(STATE_DECIDING),
};
static const struct state_table states = STATE_TABLE("identity Lease", state_names, state_next);

static void set_state(struct identity *i, enum state s)
{
    state_move(&states, &i->state, s);
    if (s == STATE_PUBLISHING || s == STATE_OBSERVING)
        own_lease_forget_rival(i->own);
    metric_set(i->o.metrics->identity_publishing, s == STATE_PUBLISHING ? 1 : 0);
    if (s == STATE_PUBLISHING)
        lease_gc_start(i->gc);
    else
        lease_gc_stop(i->gc);
    lease_news_at(i->news, s == STATE_PUBLISHING || s == STATE_OBSERVING ? i->path : NULL);
    lease_address_at(i->address, s == STATE_OBSERVING ? i->path : NULL, i->minor);
}

/* ---- ours ---- */

static void count(struct identity *i, const char *result)
{
    const struct slice label = slice_str(result);

    metric_inc(metric_child(i->o.metrics->identity_renewals, &label));
}

static bool read_lease(struct identity *i, const struct fetch_result *r, struct lease *l)
{
    struct err err = {.text = ""};

    arena_reset(i->arena);
    return lease_parse(i->arena, r->body, l, &err);
}

/* It is as we wrote it, or somebody has added something. */
static void adopt(struct identity *i, const struct lease *l)
{
    if (!own_lease_keep(i->own, l)) {
        failing(i, "keep", "out of memory", look);
        return;
    }
    if (i->state != STATE_PUBLISHING)
        log_info("Publishing the identity Lease of this server", LT("lease", i->id),
                 LT("holder", own_lease_holder(i->own)), LT("address", own_lease_address(i->own)));
    set_state(i, STATE_PUBLISHING);
    i->tries = i->failed = 0;
    i->said = false;
    i->conceded = false;
    own_lease_confirm(i->own);
    backoff_reset(&i->backoff);
    after(i, i->anew ? 0 : jitter_ms(RENEW_MS, RENEW_JITTER_PERCENT), renew);
}

/* Somebody else renews it. Fighting would take the Lease away from both. */
static void yield(struct identity *i, const struct lease *l)
{
    if (!i->conceded)
        log_error("Somebody else renews the identity Lease of this server, so it is left to them: either the local "
                  "kube-apiserver publishes it, or two control-plane nodes have the same host name",
                  LT("lease", i->id), LT("hostname", i->hostname), LS("holder", l->holder),
                  LT("ownHolder", own_lease_holder(i->own)));
    i->conceded = true;
    i->may_exist = i->silent = false;
    set_state(i, STATE_YIELDED);
    count(i, "yielded");
    after(i, YIELDED_MS, i->o.mode == IDENTITY_AUTO ? decide : look);
}

static void on_written(void *arg, const struct fetch_result *r);

static void create(struct identity *i)
{
    struct buf body;

    buf_init(&body, BODY_BYTES);
    (void)own_lease_print(i->own, &body);
    i->may_exist = true;
    if (!send(i, "POST", LEASE_COLLECTION_PATH, &body, on_written))
        failing(i, "create", "out of memory", look);
    buf_free(&body);
}

static void on_removed(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    char text[API_WHY_BYTES];

    if (left_meanwhile(i))
        return;
    lease_news_at(i->news, NULL);
    if (api_answered(r, 200) || api_answered(r, 404))
        create(i);
    else if (api_answered(r, 409))
        after(i, LOOK_AGAIN_MS, look); /* changed under our hands: it is not dead */
    else
        failing(i, "remove the one before", api_why(r, text), look);
}

static bool remove_lease(struct identity *i, const struct lease *l, fetch_fn *fn)
{
    struct buf body;
    bool sent;

    buf_init(&body, BODY_BYTES);
    (void)lease_print_delete(l, &body);
    sent = send(i, "DELETE", i->path, &body, fn);
    buf_free(&body);
    return sent;
}

static void judge_other(struct identity *i, const struct lease *l)
{
    enum lease_rival v;
    uint64_t wait_ms = 0;

    if (i->o.mode == IDENTITY_AUTO && (!i->asked || i->decide_again)) {
        decide(i); /* it may be the server's own, of a newer version than before */
        return;
    }
    v = own_lease_judge(i->own, l, loop_now_ms(i->loop), &wait_ms);
    if (v == LEASE_RIVAL_NO_MEMORY) {
        failing(i, "look", "out of memory", look);
    } else if (v == LEASE_RIVAL_ALIVE || i->state == STATE_PUBLISHING) {
        yield(i, l);
    } else if (v != LEASE_RIVAL_DEAD) {
        if (v == LEASE_RIVAL_NEW)
            log_info("Identity Lease of this server exists; waiting to see whether it is renewed", LT("lease", i->id),
                     LS("holder", l->holder));
        after(i, wait_ms, look);
        lease_news_at(i->news, i->path); /* it stands for this server as yet, and peers read it */
    } else {
        log_info("Removing a Lease that an earlier process left behind", LT("lease", i->id), LS("holder", l->holder));
        if (!remove_lease(i, l, on_removed))
            failing(i, "remove the one before", "out of memory", look);
    }
}

static void on_look(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;
    char text[API_WHY_BYTES];

    if (left_meanwhile(i))
        return;
    if (api_answered(r, 404)) {
        create(i);
    } else if (!api_answered(r, 200) || !read_lease(i, r, &l)) {
        failing(i, "look", api_answered(r, 200) ? "not a Lease" : api_why(r, text), look);
    } else if (own_lease_is(i->own, &l)) {
        i->may_exist = true;
        if (!own_lease_keep(i->own, &l))
            failing(i, "look", "out of memory", look);
        else if (i->tries++ < IMMEDIATE_TRIES)
            renew(i);
        else
            failing(i, "renew", "it keeps changing", look);
    } else {
        judge_other(i, &l);
    }
}

static void look(struct identity *i)
{
    if (!send(i, "GET", i->path, NULL, on_look))
        failing(i, "look", "out of memory", look);
}

static void on_written(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;
    char text[API_WHY_BYTES];

    if (left_meanwhile(i))
        return;
    if ((api_answered(r, 200) || api_answered(r, 201)) && read_lease(i, r, &l)) {
        count(i, "ok");
        adopt(i, &l);
    } else if (api_answered(r, 409)) {
        count(i, "conflict");
        look(i);
    } else if (api_answered(r, 404) && i->state == STATE_PUBLISHING) {
        log_warning("The own identity Lease was deleted by somebody, and is made again", LT("lease", i->id));
        create(i);
    } else {
        count(i, "failed");
        failing(i, "write", api_why(r, text), look);
    }
}

static void renew(struct identity *i)
{
    struct buf body;

    if (i->decide_again) {
        decide(i);
        return;
    }
    if (i->anew && own_lease_take_holder(i->own)) {
        i->anew = false;
        log_info("The local kube-apiserver is another process: its Lease gets another holder", LT("lease", i->id),
                 LT("holder", own_lease_holder(i->own)));
    }
    buf_init(&body, BODY_BYTES);
    (void)own_lease_print_renewal(i->own, &body);
    if (!send(i, "PATCH", i->path, &body, on_written))
        failing(i, "renew", "out of memory", look);
    buf_free(&body);
}

/* ---- deciding ---- */

static void set_name(struct identity *i, const char *name)
{
    (void)snprintf(i->path, sizeof(i->path), LEASE_COLLECTION_PATH "/%s", name);
}

static void doubt_later(struct identity *i)
{
    uint64_t passed = loop_now_ms(i->loop) - i->heard_ms;

    after(i, passed < UNRENEWED_MS ? UNRENEWED_MS - passed : 0, doubt);
}

/* For a while. */
static void trust(struct identity *i)
{
    i->heard_ms = loop_now_ms(i->loop);
    doubt_later(i);
}

static void on_doubt(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;
    int64_t renewed_us = 0;

    if (left_meanwhile(i) || i->next != doubt) /* it is decided anew */
        return;
    if (api_answered(r, 200) && read_lease(i, r, &l))
        renewed_us = l.renew_us;
    if (!api_answered(r, 404) && (renewed_us == 0 || renewed_us != i->renewed_us)) {
        i->renewed_us = renewed_us;
        trust(i);
        return;
    }
    log_warning("The local kube-apiserver renews no identity Lease of this name, so it is published here: is its "
                "feature gate APIServerIdentity off, or its host name another one (hostname-override)?",
                LT("lease", i->id), LU("minorVersion", i->minor));
    i->silent = true;
    decide(i);
}

/* Nothing was seen of a Lease that the local server ought to renew. Who may not read it, or cannot, knows nothing. */
static void doubt(struct identity *i)
{
    if (loop_now_ms(i->loop) - i->heard_ms < UNRENEWED_MS)
        doubt_later(i);
    else if (api_local_unreachable(i->o.api) || !send(i, "GET", i->path, NULL, on_doubt))
        trust(i);
}

static void observe(struct identity *i, const char *why)
{
    char older[SERVER_ID_BYTES_126];

    if (i->minor == FIRST_PUBLISHING_MINOR && server_id_126_from_hostname(slice_str(i->hostname), older))
        set_name(i, older);
    else
        set_name(i, i->id);
    if (i->state != STATE_OBSERVING)
        log_info("The identity Lease of this server is left to the local kube-apiserver", LT("lease", i->id),
                 LT("why", why), LU("minorVersion", i->minor));
    i->may_exist = i->conceded = false;
    if (i->state != STATE_OBSERVING)
        i->heard_ms = loop_now_ms(i->loop);
    set_state(i, STATE_OBSERVING);
    /* The Lease of 1.26 has another name than ours would have: we would not see the server come back to it. */
    if (i->o.mode == IDENTITY_AUTO && i->minor != FIRST_PUBLISHING_MINOR)
        doubt_later(i);
}

static void begin(struct identity *i)
{
    set_name(i, i->id);
    if (i->state == STATE_PUBLISHING) {
        renew(i);
        return;
    }
    if (i->state != STATE_YIELDED)
        set_state(i, STATE_STARTING);
    look(i);
}

static void on_version(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct version v;
    char text[API_WHY_BYTES];

    if (left_meanwhile(i))
        return;
    if (!api_answered(r, 200) || !version_read(r->body, &v) || v.major != 1) {
        if (i->state == STATE_PUBLISHING) {
            i->decide_again = true;
            failing(i, "ask for the version", api_why(r, text), look);
        } else {
            failing(i, "ask for the version", api_why(r, text), decide);
        }
        return;
    }
    if (v.minor != i->minor)
        i->silent = false;
    i->minor = v.minor;
    i->asked = true;
    i->failed = 0;
    i->said = false;
    backoff_reset(&i->backoff);
    if (i->decide_again) /* the answer may be that of the process before */
        decide(i);
    else if (i->o.mode == IDENTITY_OBSERVE)
        observe(i, "configured");
    else if (v.minor >= FIRST_PUBLISHING_MINOR && !i->silent)
        observe(i, "it publishes identities itself");
    else
        begin(i);
}

static void decide(struct identity *i)
{
    i->decide_again = false;
    if (i->o.mode == IDENTITY_PUBLISH)
        begin(i);
    else if (!send(i, "GET", "/version", NULL, on_version))
        failing(i, "ask for the version", "out of memory", decide);
}

void identity_start(struct identity *i)
{
    if (i->o.mode == IDENTITY_OFF || i->returning || (i->state != STATE_STOPPED && i->state != STATE_LEAVING))
        return;
    if (i->state == STATE_LEAVING && i->o.mode == IDENTITY_OBSERVE) {
        i->returning = true; /* ours is removed first */
        return;
    }
    contract(i->done == NULL);
    fetch_cancel(&i->call);
    set_state(i, STATE_DECIDING);
    loop_timer_cancel(i->deadline);
    after(i, 0, decide);
}

/* Only while ours is being written or looked for has the question to wait: for the next renewal. */
void identity_recheck(struct identity *i)
{
    if ((i->o.mode != IDENTITY_AUTO && i->o.mode != IDENTITY_OBSERVE) || i->state == STATE_STOPPED ||
        i->state == STATE_LEAVING)
        return;
    if (i->state == STATE_PUBLISHING || (i->state != STATE_OBSERVING && i->call != NULL))
        i->decide_again = true;
    else
        after(i, 0, decide);
}

/* If a look is due instead, nobody knows what has become of the last write: only the look may lead to the next one. */
static void renew_now(struct identity *i)
{
    if (i->state == STATE_PUBLISHING && i->call == NULL && i->next == renew)
        after(i, 0, renew);
}

void identity_restarted(struct identity *i)
{
    i->heard_ms = loop_now_ms(i->loop);
    identity_recheck(i); /* another process may be another version */
    i->anew = i->may_exist;
    renew_now(i);
    /* The pause before the next attempt has grown while it was away, and peers go by this Lease. */
    if (i->state == STATE_PUBLISHING && i->call == NULL && i->next == look)
        after(i, 0, look);
}

/* ---- what the watch shows ---- */

/* Another version of this server may have left one of another name behind. */
static bool is_followed(const struct identity *i, const struct lease *l)
{
    return slice_eq(l->name, slice_str(i->path + sizeof(LEASE_COLLECTION_PATH)));
}

void identity_serves(struct identity *i, struct slice tag)
{
    lease_news_set(i->news, tag);
}

static void on_tag_written(void *arg, struct slice uid, struct slice version)
{
    struct identity *i = arg;

    if (i->state == STATE_PUBLISHING && i->call == NULL)
        own_lease_moved(i->own, uid, version);
}

void identity_seen(struct identity *i, const struct lease *l)
{
    if (!is_followed(i, l))
        return;
    if (l->renew_us != i->renewed_us)
        i->heard_ms = loop_now_ms(i->loop);
    i->renewed_us = l->renew_us;
    lease_news_seen(i->news, l->discovery);
    lease_address_seen(i->address, l);
}

/* ---- leaving ---- */

static void gone(struct identity *i)
{
    loop_timer_cancel(i->timer);
    loop_timer_cancel(i->deadline);
    i->may_exist = false;
    set_state(i, STATE_STOPPED);
    if (i->done != NULL)
        i->done(i->done_arg);
    i->done = NULL;
    if (!i->returning)
        return;
    i->returning = false;
    identity_start(i);
}

static void too_late(void *arg)
{
    struct identity *i = arg;

    log_warning("Could not remove the own identity Lease in time; it expires by itself", LT("lease", i->id));
    fetch_cancel(&i->call);
    gone(i);
}

static void on_left(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    char text[API_WHY_BYTES];

    i->call = NULL;
    if (i->state != STATE_LEAVING)
        return;
    if (api_answered(r, 409)) {
        leave(i);
        return;
    }
    if (api_answered(r, 200) || api_answered(r, 404))
        log_info("Removed the own identity Lease", LT("lease", i->id));
    else if (!r->ok || r->head->status >= 500) {
        after(i, backoff_next(&i->backoff), leave);
        return;
    } else
        log_warning("Could not remove the own identity Lease", LT("lease", i->id), LT("err", api_why(r, text)));
    gone(i);
}

static void on_last_look(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;

    i->call = NULL;
    if (i->state != STATE_LEAVING)
        return;
    if (api_answered(r, 200) && read_lease(i, r, &l) && own_lease_is(i->own, &l)) {
        if (remove_lease(i, &l, on_left))
            return;
    } else if (r->ok && r->head->status < 500) {
        gone(i); /* it is not there, not ours any more, or none of our business */
        return;
    }
    after(i, backoff_next(&i->backoff), leave);
}

static void leave(struct identity *i)
{
    if (!send(i, "GET", i->path, NULL, on_last_look))
        gone(i);
}

void identity_stop(struct identity *i, void (*done)(void *arg), void *arg)
{
    bool ours = i->may_exist;

    i->returning = false;
    i->done = done;
    i->done_arg = arg;
    if (!ours) {
        fetch_cancel(&i->call);
        gone(i);
        return;
    }
    set_state(i, STATE_LEAVING);
    backoff_reset(&i->backoff);
    loop_timer_set(i->deadline, STOP_MS);
    /* What is under way may change the Lease yet: first its answer. */
    if (i->call == NULL)
        leave(i);
}

/* ---- reload ---- */

static void set_address(struct identity *i, const char *advertise, bool annotate)
{
    lease_address_set(i->address, annotate ? advertise : "");
    if (own_lease_set_address(i->own, advertise))
        renew_now(i);
}

static void change_mode(struct identity *i, enum identity_mode mode)
{
    if (mode == i->o.mode)
        return;
    i->o.mode = mode;
    if (i->state == STATE_STOPPED || i->state == STATE_LEAVING)
        return;
    log_info("Mode of the identity Lease changed", LT("lease", i->id), LT("state", identity_state_name(i)));
    if (mode == IDENTITY_OFF || (mode == IDENTITY_OBSERVE && i->may_exist)) {
        identity_stop(i, NULL, NULL);
        i->returning = mode != IDENTITY_OFF && i->state == STATE_LEAVING;
    } else if (i->state == STATE_PUBLISHING) {
        i->decide_again = true; /* at the next renewal */
    } else {
        fetch_cancel(&i->call);
        after(i, 0, decide);
    }
}

void identity_update(struct identity *i, enum identity_mode mode, const char *advertise, bool annotate)
{
    set_address(i, advertise, annotate);
    change_mode(i, mode);
}

/* ---- whole ---- */

struct identity *identity_new(const struct identity_opts *o)
{
    struct identity *i = must_zalloc(sizeof(*i));
    struct lease_gc_opts gc = {
        .api = o->api, .own_id = o->id, .collected = o->metrics->identity_collected, .peers = o->peers, .arg = o->arg};

    struct lease_news_opts news = {
        .api = o->api, .writes = o->metrics->identity_tags, .written = on_tag_written, .arg = i};

    i->o = *o;
    i->loop = api_loop(o->api);
    i->id = must_strdup(o->id);
    i->hostname = must_strdup(o->hostname);
    i->own = own_lease_new(o->id, o->hostname);
    i->address = lease_address_new(o->api);
    set_address(i, o->advertise, o->annotate);
    set_name(i, i->id);
    backoff_init(&i->backoff, BACKOFF_FIRST_MS, ENSURE_MAX_MS);
    i->arena = arena_new(4 * LIMIT_LEASE_BYTES);
    i->timer = loop_timer_new(i->loop, on_timer, i);
    i->deadline = loop_timer_new(i->loop, too_late, i);
    i->gc = lease_gc_new(&gc);
    i->news = lease_news_new(&news);
    must_hold(i->arena != NULL && i->timer != NULL && i->deadline != NULL);
    return i;
}

void identity_free(struct identity *i)
{
    if (i == NULL)
        return;
    fetch_cancel(&i->call);
    loop_timer_free(i->timer);
    loop_timer_free(i->deadline);
    lease_gc_free(i->gc);
    lease_news_free(i->news);
    arena_free(i->arena);
    mem_free(i->id);
    mem_free(i->hostname);
    own_lease_free(i->own);
    lease_address_free(i->address);
    mem_free(i);
}

const char *identity_state_name(const struct identity *i)
{
    return state_names[i->state];
}
