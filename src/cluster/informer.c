/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/informer.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/random.h"
#include "base/state.h"
#include "base/strmap.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "cluster/work.h"
#include "kube/list_cut.h"
#include "kube/watch.h"
#include "net/lifetime.h"

enum {
    LIST_TIMEOUT_MS = 30000,
    HEAD_TIMEOUT_MS = 30000,
    WATCH_MIN_S = 300,            /* timeoutSeconds: as client-go, random between this and twice this */
    WATCH_GRACE_MS = 30000,       /* beyond timeoutSeconds: then the stream is dead */
    BOOKMARK_SILENCE_MS = 150000, /* a server that sends bookmarks does so about once a minute */
    SETTLED_MS = 5000,            /* a watch that lived so long starts the backoff anew */
    REFUSALS_MAX = 3,             /* watches refused in a row: then our resourceVersion may be what is wrong */
    OBJECTS_MAX = 200000,
    EVENT_BYTES = 128, /* around the object of an event */
    TARGET_BYTES = 8 << 10,
    VERSION_BYTES = 256,
};

enum state {
    STATE_LISTING,  /* a list request is under way */
    STATE_TAKING,   /* its objects are given out, then what is gone, some per turn */
    STATE_OPENING,  /* a watch request without an answer yet */
    STATE_WATCHING, /* its events come in */
    STATE_WAITING,  /* for the next attempt */
};

static const char *const state_names[] = {
    [STATE_LISTING] = "listing",   [STATE_TAKING] = "taking",   [STATE_OPENING] = "opening",
    [STATE_WATCHING] = "watching", [STATE_WAITING] = "waiting",
};
static const uint32_t state_next[] = {
    [STATE_LISTING] = STATE(STATE_TAKING) | STATE(STATE_WAITING),
    [STATE_TAKING] = STATE(STATE_LISTING) | STATE(STATE_OPENING) | STATE(STATE_WAITING),
    [STATE_OPENING] = STATE(STATE_WATCHING) | STATE(STATE_WAITING),
    [STATE_WATCHING] = STATE(STATE_WAITING),
    /* Itself: begins anew. */
    [STATE_WAITING] = STATE(STATE_LISTING) | STATE(STATE_OPENING) | STATE(STATE_WAITING),
};
static const struct state_table states = STATE_TABLE("informer", state_names, state_next);

struct informer {
    struct informer_opts o;
    const struct informer_handler *handler;
    void *arg;
    struct loop *loop;
    struct lifetime life;
    enum state state;
    bool relist; /* the next attempt lists (else it watches) */
    bool synced;
    unsigned refused;   /* the status; 0: it was not */
    bool said;          /* that it fails */
    bool recovered;     /* it worked again, and no resourceVersion has expired since */
    struct err failure; /* empty: works */
    struct err told;    /* the last that was logged */
    unsigned failures;  /* in a row */
    char version[VERSION_BYTES];
    struct strmap *keys; /* → the epoch in which it was seen last */
    uintptr_t epoch;     /* one per list */
    struct fetch *list;
    struct list_cut cut; /* its answer, while it comes in and is given out */
    struct object_list items;
    char *more; /* continue token, NULL if the page was the last */
    struct fetch *stream;
    struct watch_parser *parser;
    bool bookmarked;         /* this stream */
    uint64_t stream_events;  /* of this stream, bookmarks included */
    unsigned watch_refusals; /* in a row */
    uint64_t opened_ms, lists, events, bad_lines, too_large;
    struct backoff backoff;
    struct loop_timer *timer; /* next attempt, or the end of a silent watch */
    uint64_t stream_deadline_ms, heard_ms;
    struct work taking;
    size_t swept_to; /* so far `keys` have been compared with the list that was taken */
};

static void start_list(struct informer *i);
static void start_watch(struct informer *i);

/* ---- attempts ---- */

static void move(struct informer *i, enum state to)
{
    state_move(&states, &i->state, to);
}

static void drop_stream(struct informer *i)
{
    fetch_cancel(&i->stream);
    watch_parser_free(i->parser);
    i->parser = NULL;
}

static void drop_list(struct informer *i)
{
    fetch_cancel(&i->list);
    work_cancel(api_work(i->o.api), &i->taking);
    list_cut_free(&i->cut);
    mem_free(i->more);
    i->more = NULL;
}

static void works(struct informer *i)
{
    if (!err_is_set(&i->failure))
        return;
    err_clear(&i->failure);
    i->refused = 0;
    i->recovered = true;
    log_v(i->said ? 0 : 3, "Informer recovered", LT("collection", i->o.name), LU("failures", i->failures));
    i->failures = 0;
    i->said = false;
    i->handler->on_health(i->arg, NULL);
}

static void wait_ms(struct informer *i, uint64_t ms)
{
    drop_stream(i);
    drop_list(i);
    move(i, STATE_WAITING);
    loop_timer_set(i->timer, ms);
}

/* Twice in a row in another way than was said. */
static bool fails_otherwise(const struct informer *i, const char *why)
{
    return i->said && strcmp(i->failure.text, why) == 0 && strcmp(i->told.text, why) != 0;
}

/* The one way from any state to waiting because something went wrong. */
static void fails(struct informer *i, bool relist, const char *why)
{
    uint64_t wait = backoff_next(&i->backoff);
    bool news = !err_is_set(&i->failure), otherwise = fails_otherwise(i, why);

    i->relist = i->relist || relist;
    err_clear(&i->failure);
    (void)err_set(&i->failure, "%s", why);
    i->failures++;
    if ((!i->said || otherwise) && !api_local_unreachable(i->o.api)) {
        i->said = true;
        i->told = i->failure;
        log_warning("Informer cannot list or watch", LT("collection", i->o.name), LT("state", state_names[i->state]),
                    LT("err", why), LU("retryMs", wait));
    } else
        log_v(3, "Informer still cannot list or watch", LT("collection", i->o.name), LT("err", why),
              LU("retryMs", wait));
    wait_ms(i, wait);
    if (news)
        i->handler->on_health(i->arg, i->failure.text);
}

/*
 * The server no longer knows our resourceVersion: nothing is wrong, but only a list helps. A server that was away for
 * long says so first thing: what it was waited for last is no measure then.
 */
static void expired(struct informer *i)
{
    if (i->recovered)
        backoff_reset(&i->backoff);
    i->recovered = false;
    log_v(2, "Resource version expired, listing again", LT("collection", i->o.name), LT("resourceVersion", i->version));
    i->relist = true;
    wait_ms(i, backoff_next(&i->backoff));
}

static void fails_status(struct informer *i, unsigned status)
{
    char why[64];

    if (status == 410) {
        expired(i);
        return;
    }

    if (i->state == STATE_OPENING && ++i->watch_refusals >= REFUSALS_MAX)
        i->relist = true;
    i->refused = status == 401 || status == 403 || status == 404 || status == 405 ? status : 0;
    (void)snprintf(why, sizeof(why), "answered %u", status);
    fails(i, false, why);
}

static void next_attempt(struct informer *i)
{
    if (i->relist)
        start_list(i);
    else
        start_watch(i);
}

/* ---- list ---- */

static bool print_target(const struct informer *i, struct buf *b)
{
    buf_append_str(b, i->o.path);
    buf_append_char(b, '?');
    if (i->o.query != NULL)
        buf_printf(b, "%s&", i->o.query);
    return !b->failed;
}

/* A continue token is base64url without need for escapes; anything else is not sent. */
static bool token_is_plain(struct slice t)
{
    return slice_is_of(t, "-_.=");
}

static uintptr_t seen_epoch(void *value)
{
    return (uintptr_t)value;
}

/* False: out of memory. */
static bool take_object(struct informer *i, struct slice key, struct slice json)
{
    if (key.p == NULL) {
        log_v(2, "Skipped an object without a usable name", LT("collection", i->o.name));
        return true;
    }
    if (strmap_get(i->keys, key) == NULL && strmap_count(i->keys) >= OBJECTS_MAX)
        return true;
    if (strmap_put(i->keys, key, (void *)i->epoch, NULL) && i->handler->on_object(i->arg, key, json))
        return true;
    log_error("Out of memory for an object", LT("collection", i->o.name), LS("key", key));
    return false;
}

/* It is there, but not to be read: whose Leases, say, are large has no say in what becomes of the others. */
static void skip_object(void *arg, struct slice beginning)
{
    struct informer *i = arg;
    char text[OBJECT_KEY_BYTES];
    struct slice key = object_key_begun(beginning, i->o.unscoped, text);

    i->too_large++;
    log_v(2, "Skipped an object that is too large", LT("collection", i->o.name), LS("key", key),
          LU("limitBytes", i->o.object_limit));
    if (key.p == NULL || (strmap_get(i->keys, key) == NULL && strmap_count(i->keys) >= OBJECTS_MAX))
        return;
    if (!strmap_put(i->keys, key, (void *)i->epoch, NULL))
        log_error("Out of memory for an object", LT("collection", i->o.name), LS("key", key));
    if (i->handler->on_too_large != NULL)
        i->handler->on_too_large(i->arg, key);
}

/*
 * What the last list did not have is gone. All of 200,000 objects may be, and what the handler does with each takes
 * longer than the map does. Nothing else changes the map meanwhile: no watch is open, and what begins a list anew
 * cancels this.
 */
static enum step sweep_one(void *arg)
{
    struct informer *i = arg;
    char text[OBJECT_KEY_BYTES];
    struct slice key;
    void *value;

    if (!strmap_next(i->keys, &i->swept_to, &key, &value))
        return STEP_DONE;
    if (seen_epoch(value) == i->epoch || key.n > sizeof(text))
        return STEP_MORE;
    memcpy(text, key.p, key.n);
    strmap_remove(i->keys, key);
    i->handler->on_gone(i->arg, slice_of(text, key.n));
    return STEP_MORE;
}

static void swept(void *arg, bool done)
{
    struct informer *i = arg;

    (void)done; /* no step of it fails */
    i->relist = false;
    i->synced = true;
    i->lists++;
    log_v(2, "Listed", LT("collection", i->o.name), LU("objects", strmap_count(i->keys)),
          LT("resourceVersion", i->version));
    i->handler->on_synced(i->arg);
    start_watch(i);
}

static void sweep(struct informer *i)
{
    drop_list(i);
    i->swept_to = 0;
    work_start(api_work(i->o.api), &i->taking, sweep_one, swept, i);
}

static enum step take_one(void *arg)
{
    struct informer *i = arg;
    char text[OBJECT_KEY_BYTES];
    struct slice json;

    if (!object_list_next(&i->items, &json))
        return STEP_DONE;
    return take_object(i, object_key(json, text), json) ? STEP_MORE : STEP_FAILED;
}

static void taken(void *arg, bool done)
{
    struct informer *i = arg;

    if (!done)
        fails(i, true, "out of memory for an object");
    else if (i->more != NULL)
        start_list(i);
    else
        sweep(i);
}

static bool keep_version(struct informer *i, struct slice version)
{
    if (version.n >= sizeof(i->version) || !token_is_plain(version))
        return false;
    memcpy(i->version, version.p, version.n);
    i->version[version.n] = '\0';
    return true;
}

static bool on_piece(void *arg, const struct http_head *head, struct slice piece)
{
    struct informer *i = arg;

    return head->status != 200 || list_cut_feed(&i->cut, piece);
}

static void take_page(struct informer *i)
{
    struct err err = {.text = ""};
    struct slice token;

    if (!list_cut_end(&i->cut, &i->items, &err)) {
        fails(i, true, err.text);
        return;
    }
    token = i->items.more;
    mem_free(i->more);
    i->more = NULL;
    if (token.p != NULL) {
        i->more = token_is_plain(token) ? mem_slicedup(token) : NULL;
        if (i->more == NULL) {
            fails(i, true, "unusable continue token");
            return;
        }
    }
    if (!keep_version(i, i->items.resource_version)) {
        fails(i, true, "list without resourceVersion");
        return;
    }
    move(i, STATE_TAKING);
    work_start(api_work(i->o.api), &i->taking, take_one, taken, i);
}

static void on_list(void *arg, const struct fetch_result *r)
{
    struct informer *i = arg;

    i->list = NULL;
    if (i->cut.error != NULL)
        fails(i, true, i->cut.error);
    else if (!r->ok)
        fails(i, true, r->failure);
    else if (r->head->status == 200)
        take_page(i);
    else
        fails_status(i, r->head->status);
}

static void start_list(struct informer *i)
{
    struct buf target;
    struct api_request g = {.accept = SLICE_LIT("application/json"),
                            .ceiling = LIMIT_LIST_BYTES,
                            .timeout_ms = LIST_TIMEOUT_MS,
                            .on_piece = on_piece};
    const struct list_cut_opts cut = {
        .item_limit = i->o.object_limit, .ceiling = i->o.list_ceiling, .too_large = skip_object, .arg = i};

    if (i->more == NULL)
        i->epoch++;
    list_cut_free(&i->cut);
    list_cut_begin(&i->cut, &cut);
    move(i, STATE_LISTING);
    i->relist = true;
    buf_init(&target, TARGET_BYTES);
    if (print_target(i, &target)) {
        if (i->o.page > 0)
            buf_printf(&target, "limit=%u", i->o.page);
        if (i->more != NULL)
            buf_printf(&target, "&continue=%s", i->more);
    }
    g.target = buf_slice(&target);
    if (!target.failed)
        i->list = api_send(i->o.api, &g, on_list, i);
    buf_free(&target);
    if (i->list == NULL)
        fails(i, true, "out of memory");
}

/* ---- watch ---- */

static bool silence_tells(const struct informer *i)
{
    return i->o.silence_ms > 0 && i->state == STATE_WATCHING && strmap_count(i->keys) > 0 &&
           (i->handler->silence_tells == NULL || i->handler->silence_tells(i->arg));
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Milliseconds until it is taken for dead. */
static uint64_t patience(const struct informer *i)
{
    uint64_t now = loop_now_ms(i->loop), end = i->stream_deadline_ms;

    if (i->bookmarked)
        end = earlier(end, i->heard_ms + BOOKMARK_SILENCE_MS);
    if (silence_tells(i))
        end = earlier(end, i->heard_ms + i->o.silence_ms);
    return end > now ? end - now : 0;
}

static void arm_deadline(struct informer *i)
{
    i->heard_ms = loop_now_ms(i->loop);
    loop_timer_set(i->timer, patience(i));
}

/*
 * A watch that told nothing at all may wait for a resourceVersion that is long in the future: after etcd was restored
 * from a backup everything that happens is older. Only a list brings it back to what is.
 */
static void end_watch(struct informer *i, bool relist, const char *why)
{
    bool settled = i->state == STATE_WATCHING && loop_now_ms(i->loop) - i->opened_ms >= SETTLED_MS;

    if (settled)
        backoff_reset(&i->backoff);
    if (settled && i->stream_events == 0)
        i->relist = true;
    if (!settled || why != NULL) {
        fails(i, relist, why != NULL ? why : "watch ended at once");
        return;
    }
    /* The server's timeout, as agreed: go on where it stopped. */
    wait_ms(i, random_below(100));
}

static void take_error(struct informer *i, const struct watch_event *ev)
{
    char why[128];

    if (ev->code == 410) {
        expired(i);
        return;
    }
    (void)snprintf(why, sizeof(why), "watch error %u: %.*s", ev->code, (int)(ev->message.n > 80 ? 80 : ev->message.n),
                   ev->message.n > 0 ? ev->message.p : "");
    /* Whatever it is: a list is always right, and the backoff bounds its cost. */
    end_watch(i, true, why);
}

static void take_gone(struct informer *i, struct slice key)
{
    if (key.p == NULL || strmap_get(i->keys, key) == NULL)
        return;
    strmap_remove(i->keys, key);
    i->handler->on_gone(i->arg, key);
}

static void skip_event(struct informer *i, const struct watch_event *ev)
{
    char text[OBJECT_KEY_BYTES];
    struct slice key = object_key_begun(ev->object, i->o.unscoped, text);

    i->events++;
    i->stream_events++;
    if (ev->type == WATCH_DELETED && key.p != NULL && strmap_remove(i->keys, key) != NULL)
        i->handler->on_gone(i->arg, key);
    else if (ev->type == WATCH_ADDED || ev->type == WATCH_MODIFIED)
        skip_object(i, ev->object);
}

/* False: the stream is over. */
static bool take_event(struct informer *i, const struct watch_event *ev)
{
    char text[OBJECT_KEY_BYTES];
    struct slice key;

    i->events++;
    i->stream_events++;
    if (ev->type == WATCH_ERROR) {
        take_error(i, ev);
        return false;
    }
    /* The version first: what the handler does must not come between an event and its place. */
    if (!keep_version(i, ev->resource_version)) {
        end_watch(i, true, "event without resourceVersion");
        return false;
    }
    i->bookmarked = i->bookmarked || ev->type == WATCH_BOOKMARK;
    key = object_join(ev->ns, ev->name, text);
    if (ev->type == WATCH_DELETED)
        take_gone(i, key);
    else if (ev->type != WATCH_BOOKMARK && !take_object(i, key, ev->object)) {
        end_watch(i, true, "out of memory for an object");
        return false;
    }
    return true;
}

/* Always true: who ends the watch in here cancels its fetch. */
static bool on_data(void *arg, const struct http_head *head, struct slice data)
{
    struct informer *i = arg;
    struct watch_event ev;

    (void)head;
    watch_parser_feed(i->parser, data);
    for (;;) {
        switch (watch_parser_next(i->parser, &ev)) {
        case WATCH_EVENT:
            if (!take_event(i, &ev))
                return true;
            continue;
        case WATCH_MORE:
            arm_deadline(i);
            return true;
        case WATCH_TOO_LONG:
            skip_event(i, &ev);
            continue;
        case WATCH_BAD_LINE:
            i->bad_lines++;
            end_watch(i, true, "a line that is no watch event");
            return true;
        case WATCH_NO_MEMORY:
            end_watch(i, true, "out of memory");
            return true;
        }
    }
}

static void on_head(void *arg, const struct http_head *head)
{
    struct informer *i = arg;

    if (head->status != 200) {
        fails_status(i, head->status);
        return;
    }
    move(i, STATE_WATCHING);
    i->watch_refusals = 0;
    i->opened_ms = loop_now_ms(i->loop);
    arm_deadline(i);
    works(i);
}

static void on_over(void *arg, const struct fetch_result *r)
{
    struct informer *i = arg;

    i->stream = NULL;
    end_watch(i, false, r->ok ? NULL : r->failure);
}

static void start_watch(struct informer *i)
{
    struct buf target;
    uint64_t timeout_s = WATCH_MIN_S + random_below(WATCH_MIN_S + 1);
    struct api_request g = {.accept = SLICE_LIT("application/json"),
                            .ceiling = SIZE_MAX,
                            .timeout_ms = timeout_s * 1000 + 2 * WATCH_GRACE_MS, /* beyond our own patience */
                            .head_timeout_ms = HEAD_TIMEOUT_MS,
                            .on_head = on_head,
                            .on_piece = on_data};

    move(i, STATE_OPENING);
    i->bookmarked = false;
    i->stream_events = 0;
    buf_init(&target, TARGET_BYTES);
    if (print_target(i, &target))
        buf_printf(&target, "watch=true&allowWatchBookmarks=true&resourceVersion=%s&timeoutSeconds=%u", i->version,
                   (unsigned)timeout_s);
    i->parser = watch_parser_new(i->o.object_limit + EVENT_BYTES);
    g.target = buf_slice(&target);
    if (i->parser != NULL && !target.failed)
        i->stream = api_send(i->o.api, &g, on_over, i);
    buf_free(&target);
    if (i->stream == NULL) {
        fails(i, false, "out of memory");
        return;
    }
    i->stream_deadline_ms = loop_now_ms(i->loop) + timeout_s * 1000 + WATCH_GRACE_MS;
    arm_deadline(i);
}

static void on_timer(void *arg)
{
    struct informer *i = arg;

    if (i->state == STATE_WAITING)
        next_attempt(i);
    else if (patience(i) > 0) /* what was to be heard is no longer */
        loop_timer_set(i->timer, patience(i));
    else if (i->state == STATE_OPENING || i->state == STATE_WATCHING)
        end_watch(i, false, "the watch went silent");
}

/* ---- life ---- */

struct informer *informer_new(const struct informer_opts *o, const struct informer_handler *h, void *arg)
{
    struct informer *i = mem_zalloc(sizeof(*i));

    if (i == NULL)
        return NULL;
    i->o = *o;
    i->handler = h;
    i->arg = arg;
    i->loop = api_loop(o->api);
    i->state = STATE_WAITING;
    lifetime_init(&i->life, i->loop, "informer");
    i->relist = true;
    backoff_init(&i->backoff, BACKOFF_FIRST_MS, BACKOFF_MAX_MS);
    i->keys = strmap_new();
    i->timer = lifetime_timer(&i->life, on_timer, i);
    if (i->keys == NULL || i->timer == NULL) {
        informer_free(i);
        return NULL;
    }
    loop_timer_set(i->timer, 0);
    return i;
}

void informer_free(struct informer *i)
{
    if (i == NULL)
        return;
    drop_stream(i);
    drop_list(i);
    strmap_free(i->keys);
    lifetime_retire(&i->life, mem_free, i);
}

void informer_retry(struct informer *i)
{
    if (i->state != STATE_WAITING || !err_is_set(&i->failure))
        return;
    backoff_reset(&i->backoff);
    loop_timer_set(i->timer, 0);
}

void informer_restart(struct informer *i)
{
    i->relist = true;
    backoff_reset(&i->backoff);
    wait_ms(i, 0);
}

bool informer_synced(const struct informer *i)
{
    return i->synced;
}

bool informer_watching(const struct informer *i)
{
    return i->state == STATE_WATCHING;
}

unsigned informer_refused(const struct informer *i)
{
    return i->refused;
}

const char *informer_failure(const struct informer *i)
{
    return err_is_set(&i->failure) ? i->failure.text : NULL;
}

void informer_describe(const struct informer *i, struct buf *out)
{
    buf_printf(out, "{\"collection\":\"%s\",\"state\":\"%s\",\"synced\":%s,\"objects\":%zu,\"lists\":%llu,", i->o.name,
               state_names[i->state], i->synced ? "true" : "false", strmap_count(i->keys),
               (unsigned long long)i->lists);
    buf_printf(out, "\"events\":%llu,\"badLines\":%llu,\"tooLarge\":%llu,\"resourceVersion\":\"%s\"",
               (unsigned long long)i->events, (unsigned long long)i->bad_lines, (unsigned long long)i->too_large,
               i->version);
    buf_append_quoted(out, ",\"failure\":", slice_str(i->failure.text));
    buf_append_char(out, '}');
}
