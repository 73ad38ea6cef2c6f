/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/readiness.h"

#include "back/back.h"
#include "base/contract.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/state.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "kube/readyz.h"
#include "net/loop.h"

enum { READINESS_BODY_BYTES = 256 << 10, READINESS_JITTER_PERCENT = 10 };

struct readiness {
    struct api *api;
    struct loop *loop;
    struct origin *origin;
    void (*changed)(void *arg);
    void *arg;
    enum readiness_state state;
    uint64_t since_ms;  /* in this state */
    uint64_t away_ms;   /* since when it is not READY, which may be more than one state */
    bool served;        /* it has been READY, by its answer, since it was last UNREACHABLE */
    bool loading;       /* what answers has not read yet who may do what, for all we know */
    uint64_t loaded_ms; /* when that ended */
    uint64_t good_ms;   /* since when its /readyz is known to be 200; 0: it is not */
    uint64_t doubt_ms;  /* the last time when that was in doubt */
    bool asked;         /* a probe of this origin has ended */
    struct fetch *fetch;
    uint64_t asked_ms;  /* when that was sent */
    bool slow;          /* its last answer took longer than a look waits: looks wait as long as questions do */
    struct err failure; /* why it is not ready */
    bool etcd_fails;    /* its last /readyz said so, of the bad ones */
    bool again;         /* invalidated while it was asked: the answer may be of before */
    bool was_good;      /* the last answer was good, but may be of before */
    uint64_t paid_ms;   /* each question costs READINESS_SPACING_MS: so far they are paid for in advance */
    struct loop_timer *timer;
    struct fetch *look; /* that once a second */
    uint64_t look_ms;   /* when it was sent */
    struct loop_timer *look_timer;
    unsigned bad_looks; /* in a row */
    struct loop_deferred giving_up;
};

static const char *const state_names[] = {
    [READINESS_READY] = "ready",
    [READINESS_UNREACHABLE] = "unreachable",
    [READINESS_STARTING] = "starting",
};
/* Whatever it was, it may be found in any other: by a question, a look, or a request that failed. */
static const uint32_t state_next[] = {
    [READINESS_READY] = STATE(READINESS_UNREACHABLE) | STATE(READINESS_STARTING),
    [READINESS_UNREACHABLE] = STATE(READINESS_READY) | STATE(READINESS_STARTING),
    [READINESS_STARTING] = STATE(READINESS_READY) | STATE(READINESS_UNREACHABLE),
};
static const struct state_table states = STATE_TABLE("readiness of the local server", state_names, state_next);

/* Without a server it is READY. */
static void move(struct readiness *r, enum readiness_state to)
{
    must_hold(to == READINESS_READY || r->origin != NULL);
    state_move(&states, &r->state, to);
    r->since_ms = loop_now_ms(r->loop);
}

static void set_loading(struct readiness *r, bool loading)
{
    if (r->loading && !loading)
        r->loaded_ms = loop_now_ms(r->loop);
    r->loading = loading;
}

static void set_state(struct readiness *r, enum readiness_state s, const char *why)
{
    uint64_t now = loop_now_ms(r->loop);

    err_clear(&r->failure);
    (void)err_set(&r->failure, "%s", why);
    if (s == r->state)
        return;
    if (r->state == READINESS_READY)
        r->away_ms = now;
    r->bad_looks = 0;
    r->was_good = false;
    r->served = r->served && s != READINESS_UNREACHABLE;
    move(r, s);
    if (s != READINESS_STARTING) /* whoever answers next may be a new process */
        set_loading(r, s == READINESS_UNREACHABLE);
    if (s == READINESS_READY)
        log_info("Local API server is ready", LU("afterMilliseconds", now - r->away_ms));
    else
        log_warning("Local API server is not ready", LT("state", readiness_served(r) ? "unready" : readiness_name(s)),
                    LT("err", why));
    if (r->changed != NULL)
        r->changed(r->arg);
}

/* ---- whether a peer may be told so ---- */

static void doubt(struct readiness *r)
{
    r->good_ms = 0;
    r->doubt_ms = loop_now_ms(r->loop);
}

/* `fresh`: the question was sent since the last doubt. */
static void note_good(struct readiness *r, const struct fetch_result *f, bool fresh)
{
    if (!f->ok || f->head->status != 200)
        doubt(r);
    else if (fresh && r->good_ms == 0)
        r->good_ms = loop_now_ms(r->loop);
}

enum api_word readiness_word(const struct readiness *r, uint64_t sent_ms)
{
    if (readiness_was_loading(r, sent_ms))
        return API_WORD_LOADING;
    return r->state == READINESS_READY && r->good_ms > 0 && r->good_ms < sent_ms ? API_WORD_READY : API_WORD_NONE;
}

/* ---- questions ---- */

static void be_starting(struct readiness *r, const struct fetch_result *f)
{
    r->etcd_fails = readyz_etcd_fails(f->body);
    set_state(r, READINESS_STARTING,
              r->etcd_fails ? "its /readyz says that its etcd fails" : "its /readyz has not been good yet");
}

static void give_up_some(void *arg)
{
    struct readiness *r = arg;

    if (r->state != READINESS_READY && origin_fail_unanswered(r->origin, r->failure.text))
        loop_defer(r->loop, &r->giving_up, give_up_some, r);
}

/* It is no more ready, and what it has been asked waits there with its etcd, or with all of it: for long, perhaps. */
static void move_unanswered(struct readiness *r, const struct fetch_result *f)
{
    if (r->state != READINESS_READY && (f->timed_out || (f->ok && readyz_etcd_fails(f->body))))
        give_up_some(r);
}

static void be_ready(struct readiness *r)
{
    set_state(r, READINESS_READY, "");
    r->served = true;
}

static void note_pace(struct readiness *r, const struct fetch_result *f, uint64_t sent_ms)
{
    if (f->ok)
        r->slow = loop_now_ms(r->loop) - sent_ms > READINESS_LOOK_TIMEOUT_MS;
}

static void ask(struct readiness *r);

static void on_answer(void *arg, const struct fetch_result *f)
{
    struct readiness *r = arg;
    bool again = r->again, was_ready = r->state == READINESS_READY;
    bool slow = f->timed_out && r->state == READINESS_STARTING;

    r->fetch = NULL;
    r->asked = true;
    note_pace(r, f, r->asked_ms);
    note_good(r, f, !again);
    /* Who starts may take long to say that it is not ready yet: it has not gone away again. */
    if (!f->ok && !slow)
        set_state(r, READINESS_UNREACHABLE, f->failure);
    else if (f->ok && f->head->status >= 500)
        be_starting(r, f);
    else if (f->ok && (!again || r->was_good))
        be_ready(r);
    r->was_good = f->ok && f->head->status < 500;
    if (f->ok && f->head->status >= 500)
        set_loading(r, readyz_is_loading(f->body));
    if (was_ready)
        move_unanswered(r, f);
    if (again)
        ask(r);
    else if (r->state != READINESS_READY)
        loop_timer_set(r->timer, READINESS_POLL_MS);
}

static struct fetch *request(struct readiness *r, bool probe, uint64_t timeout_ms, fetch_fn *fn)
{
    const struct api_request g = {
        .origin = r->origin,
        .probe = probe,
        .target = SLICE_LIT("/readyz"),
        .accept = SLICE_LIT("text/plain"),
        .ceiling = READINESS_BODY_BYTES,
        .timeout_ms = timeout_ms,
    };

    return api_send(r->api, &g, fn, r);
}

static void ask(struct readiness *r)
{
    uint64_t now = loop_now_ms(r->loop), ahead = r->paid_ms > now ? r->paid_ms - now : 0;

    r->again = r->fetch != NULL;
    if (r->again)
        return;
    /* Each request that fails invalidates: some in a row are asked about together. */
    if (ahead > READINESS_AHEAD_MS) {
        loop_timer_set(r->timer, ahead - READINESS_AHEAD_MS);
        return;
    }
    loop_timer_cancel(r->timer);
    r->paid_ms = now + ahead + READINESS_SPACING_MS;
    r->asked_ms = now;
    r->fetch = request(r, false, READINESS_TIMEOUT_MS, on_answer);
    if (r->fetch == NULL)
        loop_timer_set(r->timer, READINESS_POLL_MS);
}

static void on_timer(void *arg)
{
    ask(arg);
}

/* One bad answer may be a slow one, or of an etcd that elects its leader. A server that is not ready for another reason
 * serves its clients as before. */
static void on_looked(void *arg, const struct fetch_result *f)
{
    struct readiness *r = arg;
    bool refuses = f->ok && f->head->status >= 500 && readyz_etcd_fails(f->body);

    r->look = NULL;
    note_pace(r, f, r->look_ms);
    note_good(r, f, r->look_ms > r->doubt_ms);
    loop_timer_set(r->look_timer,
                   f->timed_out ? READINESS_POLL_MS : jitter_ms(READINESS_LOOK_MS, READINESS_JITTER_PERCENT));
    if (r->state != READINESS_READY)
        return;
    r->bad_looks = f->ok && !refuses ? 0 : r->bad_looks + 1;
    if (r->bad_looks < READINESS_BAD_LOOKS)
        return;
    if (refuses)
        be_starting(r, f);
    else
        set_state(r, READINESS_UNREACHABLE, f->failure);
    move_unanswered(r, f);
    ask(r);
}

static void on_look_timer(void *arg)
{
    struct readiness *r = arg;

    r->look_ms = loop_now_ms(r->loop);
    if (r->state == READINESS_READY && r->fetch == NULL)
        r->look = request(r, true, r->slow ? READINESS_TIMEOUT_MS : READINESS_LOOK_TIMEOUT_MS, on_looked);
    if (r->look == NULL)
        loop_timer_set(r->look_timer, READINESS_LOOK_MS);
}

struct readiness *readiness_new(struct api *a, void (*changed)(void *arg), void *arg)
{
    struct readiness *r = must_zalloc(sizeof(*r));

    r->api = a;
    r->loop = api_loop(a);
    r->changed = changed;
    r->arg = arg;
    r->timer = loop_timer_new(r->loop, on_timer, r);
    r->look_timer = loop_timer_new(r->loop, on_look_timer, r);
    must_hold(r->timer != NULL && r->look_timer != NULL);
    r->since_ms = loop_now_ms(r->loop);
    return r;
}

void readiness_free(struct readiness *r)
{
    if (r == NULL)
        return;
    r->changed = NULL;
    readiness_set_origin(r, NULL);
    loop_timer_free(r->timer);
    loop_timer_free(r->look_timer);
    mem_free(r);
}

/* Nobody asks any more, so nothing is known, or said, of the server: it counts as ready. */
static void forget(struct readiness *r)
{
    if (r->state == READINESS_READY)
        return;
    move(r, READINESS_READY);
    r->loading = false;
    if (r->changed != NULL)
        r->changed(r->arg);
}

void readiness_set_origin(struct readiness *r, struct origin *o)
{
    struct origin *old = r->origin;

    if (o == old)
        return;
    fetch_cancel(&r->fetch);
    fetch_cancel(&r->look);
    loop_timer_cancel(r->timer);
    loop_timer_cancel(r->look_timer);
    loop_defer_cancel(r->loop, &r->giving_up);
    doubt(r);
    r->bad_looks = 0;
    r->asked = r->served = r->slow = r->was_good = false;
    r->origin = o == NULL ? NULL : origin_ref(o);
    origin_unref(old);
    if (o == NULL) {
        forget(r);
        return;
    }
    ask(r);
    loop_timer_set(r->look_timer, READINESS_LOOK_MS);
}

void readiness_invalidate(struct readiness *r)
{
    doubt(r);
    if (r->origin != NULL)
        ask(r);
}

void readiness_lost(struct readiness *r)
{
    doubt(r);
    if (r->origin == NULL || r->state == READINESS_UNREACHABLE)
        return;
    set_state(r, READINESS_UNREACHABLE, "connecting failed");
    ask(r);
}

enum readiness_state readiness_state(const struct readiness *r)
{
    return r->state;
}

bool readiness_etcd_fails(const struct readiness *r)
{
    return r->state == READINESS_STARTING && r->etcd_fails;
}

bool readiness_served(const struct readiness *r)
{
    return r->served;
}

bool readiness_was_loading(const struct readiness *r, uint64_t sent_ms)
{
    return r->loading || r->loaded_ms > sent_ms;
}

bool readiness_asked(const struct readiness *r)
{
    return r->asked || r->origin == NULL;
}

const char *readiness_failure(const struct readiness *r)
{
    return r->failure.text;
}

uint64_t readiness_age_ms(const struct readiness *r)
{
    return loop_now_ms(r->loop) - r->since_ms;
}

uint64_t readiness_away_ms(const struct readiness *r)
{
    return loop_now_ms(r->loop) - r->away_ms;
}

const char *readiness_name(enum readiness_state s)
{
    return state_names[s];
}
