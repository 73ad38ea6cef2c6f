/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/identity_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/state.h"
#include "cluster/api.h"
#include "cluster/cluster_metrics.h"
#include "cluster/lease_gc.h"
#include "kube/version.h"

enum {
    ENSURE_MAX_MS = 7000,
    CALL_MS = 10000,
    BUSY_MS = 100,
    FIRST_PUBLISHING_MINOR = 26, /* kube-apiserver 1.26: APIServerIdentity on by default */
    FIRST_ADVERTISING_MINOR = 36,
    VERSION_BYTES = 64 << 10,
    ANNOTATE_TRIES = 5, /* in a row, when the Lease is renewed under our hands */
};

/* ------------------------------------------------------------------------------------------------------- plumbing */

void identity_after(struct identity *i, uint64_t ms, identity_step_fn *next)
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

void identity_failing(struct identity *i, const char *what, const char *why, identity_step_fn *next)
{
    i->failed++;
    i->tries = 0;
    if (i->failed == 2)
        log_warning("Identity Lease of this server: operation failed", LT("lease", i->id), LT("operation", what),
                    LT("err", why));
    else
        log_v(3, "Identity Lease of this server: operation failed", LT("lease", i->id), LT("operation", what),
              LT("err", why));
    identity_after(i, backoff_next(&i->backoff), next);
}

bool identity_send(struct identity *i, const char *method, const char *target, struct buf *body, fetch_fn *fn)
{
    bool patch = strcmp(method, "PATCH") == 0;
    struct api_request g = {
        .method = slice_str(method),
        .target = slice_str(target),
        .accept = SLICE_LIT("application/json"),
        .ceiling = VERSION_BYTES,
        .timeout_ms = CALL_MS,
    };

    if (body != NULL) {
        g.content_type = patch ? SLICE_LIT("application/merge-patch+json") : SLICE_LIT("application/json");
        g.body = buf_slice(body);
    }
    if (body == NULL || !body->failed)
        i->call = api_send(i->o.api, &g, fn, i);
    return i->call != NULL;
}

/* Every callback begins so: true if the state that asked is no more. */
bool identity_left_meanwhile(struct identity *i)
{
    i->call = NULL;
    if (i->state == STATE_LEAVING)
        identity_leave(i);
    return i->state == STATE_LEAVING || i->state == STATE_STOPPED;
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

void identity_set_state(struct identity *i, enum identity_state s)
{
    state_move(&states, &i->state, s);
    if (s == STATE_PUBLISHING || s == STATE_OBSERVING) {
        /* Whose it was meanwhile says nothing of what is found there later. */
        mem_free(i->other_holder);
        i->other_holder = NULL;
    }
    metric_set(i->o.metrics->identity_publishing, s == STATE_PUBLISHING ? 1 : 0);
    if (s == STATE_PUBLISHING)
        lease_gc_start(i->gc);
    else
        lease_gc_stop(i->gc);
    lease_news_at(i->news, s == STATE_PUBLISHING || s == STATE_OBSERVING ? i->path : NULL);
}

/* --------------------------------------------------------------------------------------------------------- deciding */

static void look_at_servers(struct identity *i);

static void set_name(struct identity *i, const char *name)
{
    if (strcmp(i->path + sizeof LEASE_COLLECTION_PATH, name) != 0)
        i->patched = i->overruled = false;
    (void)snprintf(i->path, sizeof i->path, LEASE_COLLECTION_PATH "/%s", name);
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
    identity_set_state(i, STATE_OBSERVING);
    i->tries = 0;
    look_at_servers(i);
}

static void begin(struct identity *i)
{
    set_name(i, i->id);
    if (i->state == STATE_PUBLISHING) {
        identity_renew(i);
        return;
    }
    if (i->state != STATE_YIELDED)
        identity_set_state(i, STATE_STARTING);
    identity_look(i);
}

static void on_version(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    unsigned major = 0, minor = 0;
    char text[API_WHY_BYTES];

    if (identity_left_meanwhile(i))
        return;
    if (!api_answered(r, 200) || !version_parse(r->body, &major, &minor) || major != 1) {
        if (i->state == STATE_PUBLISHING) {
            i->decide_again = true;
            identity_failing(i, "ask for the version", api_why(r, text), identity_look);
        } else {
            identity_failing(i, "ask for the version", api_why(r, text), identity_decide);
        }
        return;
    }
    i->minor = minor;
    i->asked = true;
    i->failed = 0;
    backoff_reset(&i->backoff);
    if (i->decide_again) /* the answer may be that of the process before */
        identity_decide(i);
    else if (i->o.mode == IDENTITY_OBSERVE)
        observe(i, "configured");
    else if (minor >= FIRST_PUBLISHING_MINOR)
        observe(i, "it publishes identities itself");
    else
        begin(i);
}

void identity_decide(struct identity *i)
{
    i->decide_again = false;
    if (i->o.mode == IDENTITY_PUBLISH)
        begin(i);
    else if (!identity_send(i, "GET", "/version", NULL, on_version))
        identity_failing(i, "ask for the version", "out of memory", identity_decide);
}

void identity_start(struct identity *i)
{
    if (i->o.mode == IDENTITY_OFF || i->returning || (i->state != STATE_STOPPED && i->state != STATE_LEAVING))
        return;
    if (i->state == STATE_LEAVING && i->o.mode == IDENTITY_OBSERVE) {
        i->returning = true; /* ours is removed first */
        return;
    }
    fetch_cancel(&i->call);
    identity_tell(i);
    identity_set_state(i, STATE_DECIDING);
    loop_timer_cancel(i->deadline);
    identity_after(i, 0, identity_decide);
}

/* Only while ours is being written or looked for has the question to wait: for the next renewal. */
void identity_recheck(struct identity *i)
{
    if (i->o.mode != IDENTITY_AUTO || i->state == STATE_STOPPED || i->state == STATE_LEAVING)
        return;
    if (i->state == STATE_PUBLISHING || (i->state != STATE_OBSERVING && i->call != NULL))
        i->decide_again = true;
    else
        identity_after(i, 0, identity_decide);
}

/* If a look is due instead, nobody knows what has become of the last write: only the look may lead to the next one. */
static void renew_now(struct identity *i)
{
    if (i->state == STATE_PUBLISHING && i->call == NULL && i->next == identity_renew)
        identity_after(i, 0, identity_renew);
}

void identity_restarted(struct identity *i)
{
    identity_recheck(i); /* another process may be another version */
    i->anew = i->may_exist;
    renew_now(i);
}

/* ------------------------------------------------------------------------------- the address in the server's own Lease
 */

static void on_annotated(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    char text[API_WHY_BYTES];

    if (identity_left_meanwhile(i))
        return;
    i->patched = api_answered(r, 200);
    if (api_answered(r, 409) && i->tries++ < ANNOTATE_TRIES)
        look_at_servers(i); /* renewed meanwhile */
    else if (i->patched)
        log_info("Wrote the address for peers into the server's own Lease", LT("lease", i->id),
                 LT("address", i->advertise));
    else if (!api_answered(r, 409)) /* again at the next renewal, in ten seconds */
        log_v(i->failed++ == 0 ? 0 : 3, "Could not write the address for peers into the server's Lease",
              LT("lease", i->id), LT("err", api_why(r, text)));
}

static void annotate(struct identity *i, const struct lease *l)
{
    struct buf body;

    buf_init(&body, IDENTITY_BODY_BYTES);
    buf_append_str(&body, "{\"metadata\":{\"annotations\":{\"" LEASE_ADVERTISE_ANNOTATION "\":\"");
    buf_append_json(&body, slice_str(i->advertise));
    buf_append_str(&body, "\",\"" LEASE_WRITTEN_ANNOTATION "\":\"");
    buf_append_json(&body, slice_str(i->advertise));
    buf_append_str(&body, "\"},\"uid\":\"");
    buf_append_json(&body, l->uid);
    buf_append_str(&body, "\",\"resourceVersion\":\"");
    buf_append_json(&body, l->resource_version);
    buf_append_str(&body, "\"}}\n");
    (void)identity_send(i, "PATCH", i->path, &body, on_annotated);
    buf_free(&body);
}

/* Another version of this server may have left one of another name behind. */
static bool is_followed(const struct identity *i, const struct lease *l)
{
    return slice_eq(l->name, slice_str(i->path + sizeof LEASE_COLLECTION_PATH));
}

void identity_serves(struct identity *i, struct slice tag)
{
    lease_news_set(i->news, tag);
}

/* Then the next renewal is by that version, and not in vain. */
static void on_tag_written(void *arg, struct slice uid, struct slice version)
{
    struct identity *i = arg;
    char *copy;

    if (i->state != STATE_PUBLISHING || i->call != NULL || !slice_eq(uid, slice_str(i->uid)))
        return;
    copy = mem_slicedup(version);
    if (copy == NULL)
        return;
    mem_free(i->version);
    i->version = copy;
}

void identity_seen(struct identity *i, const struct lease *l)
{
    if (is_followed(i, l))
        lease_news_seen(i->news, l->discovery);
    if (i->state != STATE_OBSERVING || i->call != NULL || !i->o.annotate || i->advertise[0] == '\0')
        return;
    if (slice_eq(l->advertise, slice_str(i->advertise)) || !is_followed(i, l))
        return;
    if (l->advertise.n == 0 || slice_eq(l->advertise, l->written) ||
        (!i->patched && i->minor < FIRST_ADVERTISING_MINOR)) {
        annotate(i, l);
        return;
    }
    /* It writes one itself, again at each renewal. Two writers help nobody; `peers` on the reading side comes first. */
    if (!i->overruled)
        log_warning("The local kube-apiserver advertises another address than configured here; its own stands",
                    LT("lease", i->id), LS("address", l->advertise), LT("configured", i->advertise));
    i->overruled = true;
}

static void on_servers(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;

    if (!identity_left_meanwhile(i) && api_answered(r, 200) && identity_read(i, r, &l))
        identity_seen(i, &l);
}

/*
 * The watch has shown the server's Lease before it was known whose it is, perhaps, and shows it again when it is
 * renewed, in ten seconds. That long no peer would know where this server is.
 */
static void look_at_servers(struct identity *i)
{
    if (i->o.annotate && i->advertise[0] != '\0')
        (void)identity_send(i, "GET", i->path, NULL, on_servers);
}

/* ---------------------------------------------------------------------------------------------------------- reload */

static void change_address(struct identity *i, const char *advertise)
{
    if (strcmp(advertise, i->advertise) == 0)
        return;
    (void)snprintf(i->advertise, sizeof i->advertise, "%s", advertise);
    i->overruled = i->patched = false;
    renew_now(i);
    if (i->state == STATE_OBSERVING && i->call == NULL) {
        i->tries = 0;
        look_at_servers(i);
    }
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
        identity_after(i, 0, identity_decide);
    }
}

void identity_update(struct identity *i, enum identity_mode mode, const char *advertise, bool annotate)
{
    i->o.annotate = annotate;
    change_address(i, advertise == NULL ? "" : advertise);
    change_mode(i, mode);
}

/* ----------------------------------------------------------------------------------------------------------- whole */

struct identity *identity_new(const struct identity_opts *o)
{
    struct identity *i = must_zalloc(sizeof *i);
    struct lease_gc_opts gc = {.api = o->api,
                               .own_id = o->id,
                               .collected = o->metrics->identity_collected,
                               .collects = o->collects,
                               .renewed = o->renewed,
                               .arg = o->arg};

    struct lease_news_opts news = {
        .api = o->api, .writes = o->metrics->identity_tags, .written = on_tag_written, .arg = i};

    i->o = *o;
    i->loop = api_loop(o->api);
    i->id = must_strdup(o->id);
    i->hostname = must_strdup(o->hostname);
    (void)snprintf(i->advertise, sizeof i->advertise, "%s", o->advertise == NULL ? "" : o->advertise);
    identity_take_holder(i);
    set_name(i, i->id);
    backoff_init(&i->backoff, BACKOFF_FIRST_MS, ENSURE_MAX_MS);
    i->arena = arena_new(2 * LIMIT_WATCH_LINE_BYTES);
    i->timer = loop_timer_new(i->loop, on_timer, i);
    i->deadline = loop_timer_new(i->loop, identity_too_late, i);
    i->gc = lease_gc_new(&gc);
    i->news = lease_news_new(&news);
    if (i->arena == NULL || i->timer == NULL || i->deadline == NULL)
        abort();
    return i;
}

void identity_free(struct identity *i)
{
    if (i == NULL)
        return;
    fetch_cancel(&i->call);
    loop_defer_cancel(i->loop, &i->over);
    loop_timer_free(i->timer);
    loop_timer_free(i->deadline);
    lease_gc_free(i->gc);
    lease_news_free(i->news);
    arena_free(i->arena);
    mem_free(i->id);
    mem_free(i->hostname);
    mem_free(i->uid);
    mem_free(i->version);
    mem_free(i->other_holder);
    mem_free(i);
}

const char *identity_state_name(const struct identity *i)
{
    return state_names[i->state];
}
