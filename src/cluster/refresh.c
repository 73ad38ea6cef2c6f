/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/refresh.h"

#include <limits.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/changes.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/state.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "cluster/cluster_metrics.h"
#include "cluster/disco_fetch.h"
#include "cluster/disco_news.h"
#include "net/loop.h"

enum { INTERVAL_JITTER_PERCENT = 10, DISCO_HALVES = 2 };

enum state {
    STATE_IDLE,    /* no origin */
    STATE_WAITING, /* the timer runs */
    STATE_POLLING, /* a fetch is under way */
};

static const char *const state_names[] = {
    [STATE_IDLE] = "idle", [STATE_WAITING] = "waiting", [STATE_POLLING] = "polling"};
static const uint32_t state_next[] = {
    [STATE_IDLE] = STATE(STATE_IDLE) | STATE(STATE_WAITING),
    [STATE_WAITING] = STATE(STATE_IDLE) | STATE(STATE_WAITING) | STATE(STATE_POLLING), /* itself: with another time */
    [STATE_POLLING] = STATE(STATE_IDLE) | STATE(STATE_WAITING),
};
static const struct state_table states = STATE_TABLE("refresh", state_names, state_next);

static const char *const trigger_names[REFRESH_TRIGGERS] = {
    [REFRESH_START] = "start",
    [REFRESH_INTERVAL] = "interval",
    [REFRESH_RETRY] = "retry",
    [REFRESH_LEASE] = "lease",
    [REFRESH_RECOVERED] = "recovered",
    [REFRESH_OPERATOR] = "operator",
    [REFRESH_EVENT] = "event",
    [REFRESH_MISS] = "miss",
    [REFRESH_SUSPECT] = "suspect",
    [REFRESH_ETAG] = "etag",
    [REFRESH_TAG] = "tag",
    [REFRESH_ANSWERED] = "answered",
    [REFRESH_PULSE] = "pulse",
};

struct refresh {
    struct refresh_opts o;
    struct refresh_view is;
    char *name;
    struct loop *loop;
    enum state state;
    enum refresh_trigger next; /* what the timer waits for, or what made the poll under way */
    uint64_t due_ms;           /* when the timer fires */
    struct loop_timer *timer;
    struct disco_fetch *fetch;
    bool again; /* triggered during the poll */
    enum refresh_trigger again_for;
    uint64_t event_ms;     /* the last one */
    uint64_t follow_up_ms; /* a poll from then on is needed, because of it; 0: none */
    uint64_t took_ms;      /* the last poll */
    size_t requests;       /* of it */
    bool ever;
    struct backoff backoff;
    unsigned failures;  /* in a row */
    unsigned said;      /* of them, as a warning: not where the server cannot be reached, which is said of that */
    size_t left_out;    /* names, of the document there is */
    unsigned fruitless; /* polls for the sake of a Lease that brought nothing, since one that did or the interval */
    uint64_t confirmed_ms;
    uint64_t unknown_ms; /* while not known: since when it can be asked */
    uint64_t lost_ms;    /* when it could no longer be asked; 0: never */
    struct err failure;  /* the last, however long ago */
    uint64_t failure_ms;
};

static void move(struct refresh *r, enum state to)
{
    state_move(&states, &r->state, to);
}

static void schedule(struct refresh *r, enum refresh_trigger t, uint64_t delay_ms)
{
    move(r, STATE_WAITING);
    r->next = t;
    r->due_ms = loop_now_ms(r->loop) + delay_ms;
    loop_timer_move(r->timer, delay_ms);
}

/* Whoever may patch Leases can cause these as often as he likes. */
static bool is_of_lease(const struct refresh *r, enum refresh_trigger t)
{
    return t == REFRESH_LEASE || t == REFRESH_TAG || (t == REFRESH_RECOVERED && r->o.peer);
}

static void note_fruitless(struct refresh *r, enum refresh_trigger t)
{
    if (is_of_lease(r, t) && r->fruitless < UINT_MAX)
        r->fruitless++;
}

/* A server that restarts may change its Lease some times: only then is there something to hold back. */
static uint64_t fruitless_limit(const struct refresh *r)
{
    unsigned beyond = r->fruitless - REFRESH_FRUITLESS;
    uint64_t limit;

    if (r->fruitless < REFRESH_FRUITLESS)
        return 0;
    limit = beyond < 16 ? (uint64_t)REFRESH_TAG_LIMIT_MS << beyond : REFRESH_FRUITLESS_MAX_MS;
    return limit < REFRESH_FRUITLESS_MAX_MS ? limit : REFRESH_FRUITLESS_MAX_MS;
}

/* Between polls for events: half of the time, or a twentieth where they are a walk of a server without aggregated
 * discovery. Whoever has just made a CRD looks for it at once, and a busy server takes its time. */
static uint64_t event_limit(const struct refresh *r)
{
    uint64_t limit = (r->requests > DISCO_HALVES ? 20 : 2) * r->took_ms;

    if (limit < REFRESH_EVENT_LIMIT_MS)
        return REFRESH_EVENT_LIMIT_MS;
    return limit < REFRESH_LIMIT_MS ? limit : REFRESH_LIMIT_MS;
}

/* Between polls that any client can cause. */
static uint64_t client_limit(const struct refresh *r)
{
    uint64_t limit = r->requests * (uint64_t)REFRESH_COST_MS;

    if (limit < REFRESH_LIMIT_MS)
        return REFRESH_LIMIT_MS;
    return limit < REFRESH_COST_MAX_MS ? limit : REFRESH_COST_MAX_MS;
}

/* Of the polls that follow an event the next one behind that time; 0: it was the last. */
static uint64_t follow_up_after(const struct refresh *r, uint64_t ms)
{
    static const uint64_t after_ms[] = {30, 60, 120, 250, 500, REFRESH_LIMIT_MS, 2 * REFRESH_LIMIT_MS};

    for (size_t i = 0; i < sizeof(after_ms) / sizeof(after_ms[0]); i++)
        if (r->event_ms + after_ms[i] > ms)
            return r->event_ms + after_ms[i];
    return 0;
}

static uint64_t limit_of(const struct refresh *r, enum refresh_trigger t)
{
    uint64_t limit = t < REFRESH_LIMITED                          ? 0
                     : t == REFRESH_TAG                           ? REFRESH_TAG_LIMIT_MS
                     : t == REFRESH_EVENT                         ? event_limit(r)
                     : t == REFRESH_MISS || t == REFRESH_ANSWERED ? client_limit(r)
                                                                  : REFRESH_LIMIT_MS;
    uint64_t fruitless = is_of_lease(r, t) ? fruitless_limit(r) : 0;

    return fruitless > limit ? fruitless : limit;
}

static bool is_sooner(const struct refresh *r, enum refresh_trigger a, enum refresh_trigger b)
{
    uint64_t first = limit_of(r, a), second = limit_of(r, b);

    return first < second || (first == second && a < b);
}

/* How long a trigger has to wait for the sake of its rate. */
static uint64_t hold_back(const struct refresh *r, enum refresh_trigger t)
{
    uint64_t since = loop_now_ms(r->loop) - r->is.started_ms, limit = limit_of(r, t);

    return r->ever && since < limit ? limit - since : 0;
}

/* Whatever makes a poll after an event, it counts only if it does not come too early. */
static uint64_t follow_up_delay(const struct refresh *r)
{
    uint64_t delay = hold_back(r, REFRESH_EVENT), now = loop_now_ms(r->loop);

    return r->follow_up_ms > now + delay ? r->follow_up_ms - now : delay;
}

static void schedule_interval(struct refresh *r)
{
    schedule(r, REFRESH_INTERVAL,
             r->follow_up_ms > 0 ? follow_up_delay(r) : jitter_ms(r->o.interval_ms, INTERVAL_JITTER_PERCENT));
}

/* Something wanted another poll while that one was under way: it, or what follows an event, whichever comes sooner. */
static void plan_again(struct refresh *r, bool ok)
{
    uint64_t delay = ok ? hold_back(r, r->again_for) : backoff_next(&r->backoff);

    r->again = false;
    if (ok && r->follow_up_ms > 0 && follow_up_delay(r) < delay)
        schedule_interval(r);
    else
        schedule(r, r->again_for, delay);
}

static void plan(struct refresh *r, bool ok)
{
    if (r->again)
        plan_again(r, ok);
    else if (!ok)
        schedule(r, REFRESH_RETRY, backoff_next(&r->backoff));
    else
        schedule_interval(r);
}

static void count(struct refresh *r, const char *result)
{
    const struct slice labels[] = {r->o.peer ? SLICE_LIT("peer") : SLICE_LIT("local"),
                                   slice_str(trigger_names[r->next]), slice_str(result)};

    metric_inc(metric_child(r->o.metrics->refreshes, labels));
}

static void keep_text(char **slot, struct slice text)
{
    char *copy;

    if (*slot != NULL && slice_eq(slice_str(*slot), text))
        return;
    copy = mem_slicedup(text); /* without memory: none known, a full answer next time */
    mem_free(*slot);
    *slot = copy;
}

/* The first failure, and the one from which the document counts as stale. */
static bool is_to_be_said(struct refresh *r)
{
    if (origin_unreachable(r->is.origin) || r->said == REFRESH_FAILING)
        return false;
    r->said++;
    return true;
}

/* Whether it is believed otherwise now. */
static bool failed(struct refresh *r, const struct disco_fetch_result *f)
{
    bool known = r->is.known, odd = r->is.odd;
    unsigned refused = r->is.refused;

    count(r, "failed");
    metric_add(r->o.metrics->sync_errors_fetch, r->o.peer ? f->failed_paths : 0);
    r->failures++;
    r->is.failing = r->failures >= REFRESH_FAILING;
    if (is_to_be_said(r))
        log_warning("Could not read discovery", LT("server", r->name), LT("trigger", trigger_names[r->next]),
                    LU("failures", r->failures), LB("documentKept", r->is.disco != NULL), LB("known", known),
                    LT("err", f->failure));
    else
        log_v(3, "Still cannot read discovery", LT("server", r->name), LU("failures", r->failures),
              LT("err", f->failure));
    err_clear(&r->failure);
    (void)err_set(&r->failure, "%s", f->failure);
    r->is.failure = r->failure.text;
    r->failure_ms = loop_now_ms(r->loop);
    r->is.refused = f->refused;
    r->is.odd = f->odd;
    return r->failures == REFRESH_FAILING || r->is.refused != refused || r->is.odd != odd;
}

/* A server that names such things does so each time: said when there are more or less of them than before. */
static void say_left_out(struct refresh *r, const struct disco *now)
{
    struct slice first, apis;
    size_t of_core = disco_doc_left_out(disco_core(now), &first),
           n = of_core + disco_doc_left_out(disco_apis(now), &apis);

    if (of_core == 0)
        first = apis;
    if (n != r->left_out && n > 0) {
        log_warning("Left out of a peer's discovery what no API server can have", LT("server", r->name), LU("names", n),
                    LS("first", first));
        changes_add(r->o.changes, CHANGE_DISBELIEVED, r->name,
                    "%zu names in its discovery that no API server can have: %.*s", n, (int)first.n, first.p);
    }
    r->left_out = n;
}

static void replace(struct refresh *r, const struct disco *now)
{
    struct disco_news news;

    disco_news(r->is.disco, now, &news);
    log_info("Discovery read", LT("server", r->name), LT("trigger", trigger_names[r->next]),
             LU("groups", disco_doc_n_groups(disco_apis(now))), LU("resources", disco_doc_n_resources(disco_apis(now))),
             LU("bytes", disco_doc_raw(disco_apis(now)).n), LT("came", news.came), LT("gone", news.gone),
             LT("changed", news.changed));
    say_left_out(r, now);
    if (r->o.on_news != NULL && r->is.disco != NULL)
        r->o.on_news(r->o.arg, &news);
    disco_unref(r->is.disco);
    r->is.disco = disco_ref(now);
}

static bool succeeded(struct refresh *r, const struct disco_fetch_result *f)
{
    bool changed = f->outcome == DISCO_CHANGED || !r->is.known || r->is.failing;

    count(r, f->outcome == DISCO_CHANGED ? "changed" : "unchanged");
    if (f->outcome == DISCO_CHANGED)
        replace(r, f->disco);
    else if (!r->is.known || r->is.failing)
        log_info("Discovery read again, unchanged", LT("server", r->name), LU("failures", r->failures));
    if (f->mvproxy != r->is.mvproxy)
        log_info(f->mvproxy ? "An mvproxy answers for this server" : "No mvproxy answers for this server any more",
                 LT("server", r->name));
    r->is.mvproxy = f->mvproxy;
    r->is.word = f->word;
    keep_text(&r->is.core_etag, f->core_etag);
    keep_text(&r->is.apis_etag, f->apis_etag);
    r->is.connection = f->core_connection;
    r->is.known = true;
    r->is.refused = 0;
    r->is.odd = r->is.failing = false;
    r->failures = r->said = 0;
    r->confirmed_ms = loop_now_ms(r->loop);
    r->is.read_ms = r->is.started_ms;
    r->is.failure = NULL;
    backoff_reset(&r->backoff);
    return changed;
}

static void on_fetched(void *arg, const struct disco_fetch_result *f)
{
    struct refresh *r = arg;
    bool ok = f->outcome != DISCO_FAILED, changed;

    r->fetch = NULL;
    r->is.polls++;
    r->took_ms = loop_now_ms(r->loop) - r->is.started_ms;
    r->requests = f->requests;
    if (f->outcome == DISCO_CHANGED || (ok && r->is.failing))
        r->fruitless = 0;
    else
        note_fruitless(r, r->next);
    if (ok)
        changed = succeeded(r, f);
    else
        changed = failed(r, f);
    plan(r, ok);
    r->o.on_end(r->o.arg, ok, changed);
}

static void poll_server(struct refresh *r)
{
    struct disco_fetch_opts f = {
        .api = r->o.api,
        .origin = r->is.origin,
        .peer = r->o.peer,
        .last = r->is.disco,
        .core_etag = slice_str(r->is.core_etag),
        .apis_etag = slice_str(r->is.apis_etag),
        .timeout_ms = TIMEOUT_DISCOVERY_MS,
        .another = r->o.another,
        .arg = r->o.arg,
    };

    loop_timer_cancel(r->timer);
    move(r, STATE_POLLING);
    r->is.started_ms = loop_now_ms(r->loop);
    if (r->next == REFRESH_INTERVAL)
        r->fruitless = 0;
    if (r->next == REFRESH_EVENT)
        r->event_ms = r->is.started_ms;
    if (r->next == REFRESH_EVENT || (r->follow_up_ms > 0 && r->is.started_ms >= r->follow_up_ms))
        r->follow_up_ms = follow_up_after(r, r->is.started_ms);
    r->ever = true;
    r->fetch = disco_fetch_start(&f, on_fetched, r);
    if (r->fetch == NULL) {
        log_error("Out of memory for polling discovery", LT("server", r->name));
        schedule(r, REFRESH_RETRY, backoff_next(&r->backoff));
    }
}

static void on_timer(void *arg)
{
    poll_server(arg);
}

void refresh_trigger(struct refresh *r, enum refresh_trigger t)
{
    uint64_t delay = hold_back(r, t);

    if (t < REFRESH_LIMITED)
        backoff_reset(&r->backoff);
    if (t == REFRESH_EVENT) {
        r->event_ms = loop_now_ms(r->loop);
        r->follow_up_ms = follow_up_after(r, r->event_ms);
    }
    switch (r->state) {
    case STATE_IDLE:
        break;
    case STATE_WAITING:
        if (loop_now_ms(r->loop) + delay < r->due_ms)
            schedule(r, t, delay);
        break;
    case STATE_POLLING:
        if (!r->again || is_sooner(r, t, r->again_for))
            r->again_for = t;
        r->again = true;
        break;
    }
}

void refresh_invalidate(struct refresh *r)
{
    if (r->is.known)
        r->unknown_ms = loop_now_ms(r->loop);
    r->is.known = r->is.mvproxy = false;
    r->is.word = API_WORD_NONE;
    if (r->state == STATE_POLLING) {
        /* Whoever is answering may be the old one. */
        disco_fetch_cancel(r->fetch);
        r->fetch = NULL;
        note_fruitless(r, REFRESH_LEASE);
        schedule(r, REFRESH_LEASE, hold_back(r, REFRESH_LEASE));
    }
}

/* What may be its is held back for a minute: an address that comes and goes begins no other one. */
static void note_address(struct refresh *r, const struct origin *o)
{
    uint64_t now = loop_now_ms(r->loop);

    if (o == NULL && r->is.origin != NULL)
        r->lost_ms = now;
    else if (o != NULL && r->is.origin == NULL && (r->lost_ms == 0 || now - r->lost_ms >= TIMEOUT_PEER_UNKNOWN_MS))
        r->unknown_ms = now;
}

void refresh_set_origin(struct refresh *r, struct origin *o)
{
    struct origin *old = r->is.origin;

    if (r->fetch != NULL)
        disco_fetch_cancel(r->fetch);
    r->fetch = NULL;
    r->again = r->is.mvproxy = false;
    r->is.word = API_WORD_NONE;
    note_address(r, o);
    r->is.origin = o == NULL ? NULL : origin_ref(o);
    origin_unref(old);
    backoff_reset(&r->backoff);
    if (o == NULL) {
        loop_timer_cancel(r->timer);
        move(r, STATE_IDLE);
    } else
        schedule(r, r->ever ? REFRESH_LEASE : REFRESH_START, 0);
}

void refresh_set_interval(struct refresh *r, uint64_t interval_ms)
{
    if (interval_ms == r->o.interval_ms) /* many reloads must not put off what is due */
        return;
    r->o.interval_ms = interval_ms;
    if (r->state == STATE_WAITING && r->next == REFRESH_INTERVAL)
        schedule_interval(r);
}

struct refresh *refresh_new(const struct refresh_opts *o)
{
    struct refresh *r = mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    r->o = *o;
    r->loop = api_loop(o->api);
    r->name = mem_strdup(o->name);
    backoff_init(&r->backoff, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    r->timer = loop_timer_new(r->loop, on_timer, r);
    if (r->name != NULL && r->timer != NULL)
        return r;
    refresh_free(r);
    return NULL;
}

void refresh_free(struct refresh *r)
{
    if (r == NULL)
        return;
    if (r->fetch != NULL)
        disco_fetch_cancel(r->fetch);
    loop_timer_free(r->timer);
    origin_unref(r->is.origin);
    disco_unref(r->is.disco);
    mem_free(r->is.core_etag);
    mem_free(r->is.apis_etag);
    mem_free(r->name);
    mem_free(r);
}

const struct refresh_view *refresh_look(const struct refresh *r)
{
    return &r->is;
}

uint64_t refresh_unknown_ms(const struct refresh *r)
{
    if (r->is.known)
        return 0;
    return r->is.origin == NULL ? UINT64_MAX : loop_now_ms(r->loop) - r->unknown_ms;
}

const char *refresh_last_failure(const struct refresh *r, uint64_t *age_ms)
{
    *age_ms = loop_now_ms(r->loop) - r->failure_ms;
    return err_is_set(&r->failure) ? r->failure.text : NULL;
}

void refresh_tag(const struct refresh *r, char out[LEASE_TAG_BYTES])
{
    unsigned char digest[HASH_SHA256_BYTES];
    struct buf text;

    out[0] = '\0';
    if (!r->is.known || r->is.disco == NULL)
        return;
    buf_init(&text, 4096);
    if (r->is.core_etag != NULL && *r->is.core_etag != '\0' && r->is.apis_etag != NULL && *r->is.apis_etag != '\0')
        buf_printf(&text, "%s\n%s\n", r->is.core_etag, r->is.apis_etag);
    else
        buf_printf(&text, "%016llx\n%016llx\n", (unsigned long long)disco_doc_hash(disco_core(r->is.disco)),
                   (unsigned long long)disco_doc_hash(disco_apis(r->is.disco)));
    if (!text.failed && hash_sha256(buf_slice(&text), digest))
        hash_base32_lower(digest, 16, out);
    buf_free(&text);
}

uint64_t refresh_age_ms(const struct refresh *r)
{
    return r->is.disco == NULL ? UINT64_MAX : loop_now_ms(r->loop) - r->confirmed_ms;
}
