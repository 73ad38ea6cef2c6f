#include "cluster/identity.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "cluster/cluster_metrics.h"
#include "cluster/lease_gc.h"
#include "kube/server_id.h"
#include "kube/version.h"
#include "net/loop.h"

enum {
    RENEW_MS = 10000,
    RENEW_JITTER_PERCENT = 4,
    /* Longer than anybody's renewal takes to show: a Lease that has not changed meanwhile has no owner. */
    LOOK_AGAIN_MS = 12000,
    YIELDED_MS = 30000,
    DEAD_AFTER_US = 60 * 1000 * 1000, /* renewed so long ago, by our clock: no need to look twice */
    ENSURE_MAX_MS = 7000,
    IMMEDIATE_TRIES = 5,
    CALL_MS = 10000,
    STOP_MS = 2000,
    BUSY_MS = 100,
    FIRST_PUBLISHING_MINOR = 26, /* kube-apiserver 1.26: APIServerIdentity on by default */
    FIRST_ADVERTISING_MINOR = 36,
    BODY_BYTES = 16 << 10,
    VERSION_BYTES = 64 << 10,
    HOLDER_BYTES = SERVER_ID_BYTES + 37,
    LABEL_MAX = 63,
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

typedef void step_fn(struct identity *i);

struct identity {
    struct identity_opts o;
    char *id, *hostname, *advertise;
    char holder[HOLDER_BYTES];
    char former[HOLDER_BYTES]; /* until the present one is confirmed: the Lease may still have this; "": no such */
    bool anew;                 /* another holder, as soon as the present one is confirmed */
    char path[sizeof LEASE_COLLECTION_PATH + SERVER_ID_BYTES + 1];
    struct loop *loop;
    enum state state;
    struct fetch *call; /* at most one */
    struct loop_timer *timer, *deadline;
    step_fn *next;
    struct backoff backoff;
    unsigned tries;  /* in a row without waiting */
    unsigned failed; /* in a row */
    unsigned minor;  /* of the local server, 0: unknown */
    bool decide_again;
    bool returning; /* LEAVING only for a moment: then decides anew, by another mode */
    bool may_exist; /* we have asked for it to be created, or it is ours */
    bool conceded;  /* that somebody else renews it has been said */
    char *uid, *version;
    int64_t sent_us, confirmed_us; /* renewals of ours: asked for, answered */
    char *other_holder;            /* as last looked at */
    int64_t other_renew_us;
    bool patched;   /* the annotation, in somebody else's Lease */
    bool overruled; /* a differing address of the server's own stands */
    struct arena *arena;
    struct lease_gc *gc;
    void (*done)(void *arg);
    void *done_arg;
    struct loop_deferred over;
};

static void look(struct identity *i);
static void decide(struct identity *i);
static void renew(struct identity *i);
static void leave(struct identity *i);
static void tell(void *arg);

/* ------------------------------------------------------------------------------------------------------- plumbing */

static void after(struct identity *i, uint64_t ms, step_fn *next)
{
    i->next = next;
    loop_timer_set(i->timer, ms);
}

static void on_timer(void *arg)
{
    struct identity *i = arg;

    if (i->call == NULL)
        i->next(i);
    else
        loop_timer_set(i->timer, BUSY_MS);
}

static void failing(struct identity *i, const char *what, const char *why, step_fn *next)
{
    i->failed++;
    if (i->failed == 2)
        log_warning("Trouble with the own identity Lease", LT("lease", i->id), LT("doing", what), LT("err", why));
    else
        log_v(3, "Trouble with the own identity Lease", LT("lease", i->id), LT("doing", what), LT("err", why));
    after(i, backoff_next(&i->backoff), next);
}

static const char *why_of(const struct fetch_result *r, char text[32])
{
    if (!r->ok)
        return r->failure;
    (void)snprintf(text, 32, "answered %u", r->head->status);
    return text;
}

static bool send(struct identity *i, const char *method, const char *target, struct buf *body, fetch_fn *fn)
{
    bool patch = strcmp(method, "PATCH") == 0;
    struct api_get g = {
        .origin = i->o.local,
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
        i->call = api_get(i->o.api, &g, fn, i);
    return i->call != NULL;
}

/* Every callback begins so: true if the state that asked is no more. */
static bool left_meanwhile(struct identity *i)
{
    i->call = NULL;
    if (i->state == STATE_LEAVING)
        leave(i);
    return i->state == STATE_LEAVING || i->state == STATE_STOPPED;
}

static bool ok_status(const struct fetch_result *r, unsigned status)
{
    return r->ok && r->head->status == status;
}

static void set_state(struct identity *i, enum state s)
{
    i->state = s;
    metric_set(i->o.metrics->identity_publishing, s == STATE_PUBLISHING ? 1 : 0);
    if (s == STATE_PUBLISHING)
        lease_gc_start(i->gc);
    else
        lease_gc_stop(i->gc);
}

static void count(struct identity *i, const char *result)
{
    const struct slice label = slice_str(result);

    metric_inc(metric_child(i->o.metrics->identity_renewals, &label));
}

/* -------------------------------------------------------------------------------------------------- the Lease itself
 */

/* kube-apiserver would never get its Lease created with such a host name; the label is for people only. */
static bool fits_label(struct slice s)
{
    if (s.n == 0 || s.n > LABEL_MAX)
        return false;
    for (size_t k = 0; k < s.n; k++) {
        char c = s.p[k];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alnum && (k == 0 || k == s.n - 1 || (c != '-' && c != '.' && c != '_')))
            return false;
    }
    return true;
}

static struct lease wanted(struct identity *i)
{
    struct slice hostname = slice_str(i->hostname);

    i->sent_us = clock_wall_us();
    return (struct lease){
        .ns = SLICE_LIT(LEASE_NAMESPACE),
        .name = slice_str(i->id),
        .uid = SLICE_LIT(""),
        .resource_version = SLICE_LIT(""),
        .identity_label = SLICE_LIT(LEASE_IDENTITY_VALUE),
        .hostname_label = fits_label(hostname) ? hostname : SLICE_LIT(""),
        .advertise = slice_str(i->advertise),
        .holder = slice_str(i->holder),
        .has_duration = true,
        .has_renew_time = true,
        .duration_s = LEASE_DURATION_SECONDS,
        .renew_us = i->sent_us,
    };
}

static bool keep(char **slot, struct slice text)
{
    mem_free(*slot);
    *slot = mem_slicedup(text);
    return *slot != NULL;
}

static bool read_lease(struct identity *i, const struct fetch_result *r, struct lease *l)
{
    struct err err = {.text = ""};

    arena_reset(i->arena);
    return lease_parse(i->arena, r->body, l, &err);
}

static bool is_ours(const struct identity *i, const struct lease *l)
{
    bool by_us = slice_eq(l->holder, slice_str(i->holder)) ||
                 (i->former[0] != '\0' && slice_eq(l->holder, slice_str(i->former)));

    return by_us && l->has_renew_time && (l->renew_us == i->sent_us || l->renew_us == i->confirmed_us);
}

/* It is as we wrote it, or somebody has added something. */
static void adopt(struct identity *i, const struct lease *l)
{
    if (!keep(&i->uid, l->uid) || !keep(&i->version, l->resource_version)) {
        failing(i, "keep", "out of memory", look);
        return;
    }
    if (i->state != STATE_PUBLISHING)
        log_info("Publishing the identity Lease of this server", LT("lease", i->id), LT("holder", i->holder),
                 LT("address", i->advertise));
    set_state(i, STATE_PUBLISHING);
    i->confirmed_us = l->renew_us;
    i->tries = i->failed = 0;
    i->conceded = false;
    i->former[0] = '\0';
    backoff_reset(&i->backoff);
    after(i, i->anew ? 0 : jitter_ms(RENEW_MS, RENEW_JITTER_PERCENT), renew);
}

/* Somebody else renews it. Fighting would take the Lease away from both. */
static void yield(struct identity *i, const struct lease *l)
{
    if (!i->conceded)
        log_error("Somebody else renews the identity Lease of this server, so it is left to them: either the local "
                  "kube-apiserver publishes it, or two control-plane nodes have the same host name",
                  LT("lease", i->id), LT("hostname", i->hostname), LS("holder", l->holder), LT("ownHolder", i->holder));
    i->conceded = true;
    i->may_exist = false;
    set_state(i, STATE_YIELDED);
    count(i, "yielded");
    after(i, YIELDED_MS, i->o.mode == IDENTITY_AUTO ? decide : look);
}

static void on_written(void *arg, const struct fetch_result *r);

static void create(struct identity *i)
{
    struct lease l = wanted(i);
    struct buf body;

    buf_init(&body, BODY_BYTES);
    (void)lease_print(&l, &body);
    i->may_exist = true;
    if (!send(i, "POST", LEASE_COLLECTION_PATH, &body, on_written))
        failing(i, "create", "out of memory", look);
    buf_free(&body);
}

static void on_removed(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    char text[32];

    if (left_meanwhile(i))
        return;
    if (ok_status(r, 200) || ok_status(r, 404))
        create(i);
    else if (ok_status(r, 409))
        after(i, LOOK_AGAIN_MS, look); /* changed under our hands: it is not dead */
    else
        failing(i, "remove the one before", why_of(r, text), look);
}

static bool remove_it(struct identity *i, const struct lease *l, fetch_fn *fn)
{
    struct buf body;
    bool sent;

    buf_init(&body, BODY_BYTES);
    (void)lease_print_delete(l, &body);
    sent = send(i, "DELETE", i->path, &body, fn);
    buf_free(&body);
    return sent;
}

/* Alive means: seen to change between two looks. The clocks of two nodes may differ, so its age says so only if it is
 * great. */
static void judge_other(struct identity *i, const struct lease *l)
{
    bool again = i->other_holder != NULL && slice_eq(l->holder, slice_str(i->other_holder));
    bool moved = again && l->renew_us != i->other_renew_us;
    bool old = !l->has_renew_time || l->renew_us < clock_wall_us() - DEAD_AFTER_US;

    if (!keep(&i->other_holder, l->holder)) {
        failing(i, "look", "out of memory", look);
        return;
    }
    i->other_renew_us = l->renew_us;
    if (moved || i->state == STATE_PUBLISHING) {
        yield(i, l);
        return;
    }
    if (!again && !old) {
        log_info("There is a Lease of this server's name; is anybody renewing it?", LT("lease", i->id),
                 LS("holder", l->holder));
        after(i, LOOK_AGAIN_MS, look);
        return;
    }
    log_info("Removing a Lease that an earlier process left behind", LT("lease", i->id), LS("holder", l->holder));
    if (!remove_it(i, l, on_removed))
        failing(i, "remove the one before", "out of memory", look);
}

static void on_look(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;
    char text[32];

    if (left_meanwhile(i))
        return;
    if (ok_status(r, 404)) {
        create(i);
    } else if (!ok_status(r, 200) || !read_lease(i, r, &l)) {
        failing(i, "look", ok_status(r, 200) ? "not a Lease" : why_of(r, text), look);
    } else if (is_ours(i, &l)) {
        i->may_exist = true;
        i->confirmed_us = l.renew_us;
        if (!keep(&i->uid, l.uid) || !keep(&i->version, l.resource_version))
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
    char text[32];

    if (left_meanwhile(i))
        return;
    if ((ok_status(r, 200) || ok_status(r, 201)) && read_lease(i, r, &l)) {
        count(i, "ok");
        adopt(i, &l);
    } else if (ok_status(r, 409)) {
        count(i, "conflict");
        look(i);
    } else if (ok_status(r, 404) && i->state == STATE_PUBLISHING) {
        log_warning("The own identity Lease was deleted by somebody, and is made again", LT("lease", i->id));
        create(i);
    } else {
        count(i, "failed");
        failing(i, "write", why_of(r, text), look);
    }
}

static void take_holder(struct identity *i)
{
    char uuid[37];

    hash_uuid(uuid);
    (void)snprintf(i->holder, sizeof i->holder, "%.*s_%s", SERVER_ID_CHARS, i->id, uuid);
}

static void renew(struct identity *i)
{
    struct lease l;
    struct buf body;

    if (i->decide_again) {
        decide(i);
        return;
    }
    if (i->anew && i->former[0] == '\0') {
        memcpy(i->former, i->holder, sizeof i->former);
        take_holder(i);
        i->anew = false;
        log_info("The local kube-apiserver is another process: its Lease gets another holder", LT("lease", i->id),
                 LT("holder", i->holder));
    }
    l = wanted(i);
    l.uid = slice_str(i->uid);
    l.resource_version = slice_str(i->version);
    buf_init(&body, BODY_BYTES);
    (void)lease_print_renewal(&l, &body);
    if (!send(i, "PATCH", i->path, &body, on_written))
        failing(i, "renew", "out of memory", look);
    buf_free(&body);
}

/* --------------------------------------------------------------------------------------------------------- deciding */

static void observe(struct identity *i, const char *why)
{
    if (i->state != STATE_OBSERVING)
        log_info("The identity Lease of this server is left to the local kube-apiserver", LT("lease", i->id),
                 LT("why", why), LU("minorVersion", i->minor));
    i->may_exist = i->conceded = false;
    set_state(i, STATE_OBSERVING);
}

static void begin(struct identity *i)
{
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
    unsigned major = 0, minor = 0;
    char text[32];

    if (left_meanwhile(i))
        return;
    if (!ok_status(r, 200) || !version_parse(r->body, &major, &minor) || major != 1) {
        if (i->state == STATE_PUBLISHING) {
            i->decide_again = true;
            failing(i, "ask for the version", why_of(r, text), look);
        } else {
            failing(i, "ask for the version", why_of(r, text), decide);
        }
        return;
    }
    i->minor = minor;
    i->failed = 0;
    backoff_reset(&i->backoff);
    if (i->o.mode == IDENTITY_OBSERVE)
        observe(i, "configured");
    else if (minor >= FIRST_PUBLISHING_MINOR)
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
    if (i->call != NULL)
        fetch_cancel(i->call);
    i->call = NULL;
    loop_defer(i->loop, &i->over, tell, i);
    set_state(i, STATE_DECIDING);
    loop_timer_cancel(i->deadline);
    after(i, 0, decide);
}

void identity_recheck(struct identity *i)
{
    if (i->o.mode != IDENTITY_AUTO)
        return;
    if (i->state == STATE_PUBLISHING)
        i->decide_again = true;
    else if (i->state == STATE_OBSERVING && i->call == NULL)
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
    i->anew = i->state == STATE_PUBLISHING;
    renew_now(i);
}

/* ------------------------------------------------------------------------------- the address in the server's own Lease
 */

static void on_annotated(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    char text[32];

    if (left_meanwhile(i))
        return;
    i->patched = ok_status(r, 200);
    if (i->patched)
        log_info("Wrote the address for peers into the server's own Lease", LT("lease", i->id),
                 LT("address", i->advertise));
    else if (!ok_status(r, 409)) /* at the next renewal, in ten seconds */
        log_v(i->failed++ == 0 ? 0 : 3, "Could not write the address for peers into the server's Lease",
              LT("lease", i->id), LT("err", why_of(r, text)));
}

static void annotate(struct identity *i, const struct lease *l)
{
    struct buf body;

    buf_init(&body, BODY_BYTES);
    buf_append_str(&body, "{\"metadata\":{\"annotations\":{\"" LEASE_ADVERTISE_ANNOTATION "\":\"");
    buf_append_json(&body, slice_str(i->advertise));
    buf_append_str(&body, "\",\"" LEASE_WRITTEN_ANNOTATION "\":\"");
    buf_append_json(&body, slice_str(i->advertise));
    buf_append_str(&body, "\"},\"uid\":\"");
    buf_append_json(&body, l->uid);
    buf_append_str(&body, "\",\"resourceVersion\":\"");
    buf_append_json(&body, l->resource_version);
    buf_append_str(&body, "\"}}\n");
    (void)send(i, "PATCH", i->path, &body, on_annotated);
    buf_free(&body);
}

void identity_seen(struct identity *i, const struct lease *l)
{
    if (i->state != STATE_OBSERVING || i->call != NULL || !i->o.annotate || i->advertise[0] == '\0')
        return;
    if (slice_eq(l->advertise, slice_str(i->advertise)))
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

/* --------------------------------------------------------------------------------------------------------- leaving */

static void tell(void *arg)
{
    struct identity *i = arg;
    void (*done)(void *arg) = i->done;

    i->done = NULL;
    if (done != NULL)
        done(i->done_arg);
}

static void gone(struct identity *i)
{
    loop_timer_cancel(i->timer);
    loop_timer_cancel(i->deadline);
    i->may_exist = false;
    set_state(i, STATE_STOPPED);
    loop_defer(i->loop, &i->over, tell, i);
    if (!i->returning)
        return;
    i->returning = false;
    identity_start(i);
}

static void on_deadline(void *arg)
{
    struct identity *i = arg;

    log_warning("Could not remove the own identity Lease in time; it expires by itself", LT("lease", i->id));
    if (i->call != NULL)
        fetch_cancel(i->call);
    i->call = NULL;
    gone(i);
}

static void on_left(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    char text[32];

    i->call = NULL;
    if (i->state != STATE_LEAVING)
        return;
    if (ok_status(r, 409)) {
        leave(i);
        return;
    }
    if (ok_status(r, 200) || ok_status(r, 404))
        log_info("Removed the own identity Lease", LT("lease", i->id));
    else if (!r->ok || r->head->status >= 500) {
        after(i, backoff_next(&i->backoff), leave);
        return;
    } else
        log_warning("Could not remove the own identity Lease", LT("lease", i->id), LT("err", why_of(r, text)));
    gone(i);
}

static void on_last_look(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;

    i->call = NULL;
    if (i->state != STATE_LEAVING)
        return;
    if (ok_status(r, 200) && read_lease(i, r, &l) && is_ours(i, &l)) {
        if (remove_it(i, &l, on_left))
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
    loop_timer_cancel(i->timer);
    if (!ours) {
        if (i->call != NULL)
            fetch_cancel(i->call);
        i->call = NULL;
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

/* ---------------------------------------------------------------------------------------------------------- reload */

static void change_address(struct identity *i, const char *advertise)
{
    if (strcmp(advertise, i->advertise) == 0)
        return;
    mem_free(i->advertise);
    i->advertise = must_strdup(advertise);
    i->overruled = i->patched = false;
    renew_now(i);
}

static void change_mode(struct identity *i, enum identity_mode mode)
{
    if (mode == i->o.mode)
        return;
    i->o.mode = mode;
    if (i->state == STATE_STOPPED || i->state == STATE_LEAVING)
        return;
    log_info("Another way to keep the identity Lease of this server", LT("lease", i->id),
             LT("state", identity_state_name(i)));
    if (mode == IDENTITY_OFF || (mode == IDENTITY_OBSERVE && i->may_exist)) {
        identity_stop(i, NULL, NULL);
        i->returning = mode != IDENTITY_OFF && i->state == STATE_LEAVING;
    } else if (i->state == STATE_PUBLISHING) {
        i->decide_again = true; /* at the next renewal */
    } else {
        if (i->call != NULL)
            fetch_cancel(i->call);
        i->call = NULL;
        after(i, 0, decide);
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
                               .local = o->local,
                               .own_id = o->id,
                               .collected = o->metrics->identity_collected,
                               .collects = o->collects,
                               .renewed = o->renewed,
                               .arg = o->arg};

    i->o = *o;
    i->o.local = origin_ref(o->local);
    i->loop = api_loop(o->api);
    i->id = must_strdup(o->id);
    i->hostname = must_strdup(o->hostname);
    i->advertise = must_strdup(o->advertise == NULL ? "" : o->advertise);
    take_holder(i);
    (void)snprintf(i->path, sizeof i->path, LEASE_COLLECTION_PATH "/%.*s", SERVER_ID_CHARS, o->id);
    backoff_init(&i->backoff, BACKOFF_FIRST_MS, ENSURE_MAX_MS);
    i->arena = arena_new(2 * LIMIT_WATCH_LINE_BYTES);
    i->timer = loop_timer_new(i->loop, on_timer, i);
    i->deadline = loop_timer_new(i->loop, on_deadline, i);
    i->gc = lease_gc_new(&gc);
    if (i->arena == NULL || i->timer == NULL || i->deadline == NULL)
        abort();
    return i;
}

void identity_free(struct identity *i)
{
    if (i == NULL)
        return;
    if (i->call != NULL)
        fetch_cancel(i->call);
    loop_defer_cancel(i->loop, &i->over);
    loop_timer_free(i->timer);
    loop_timer_free(i->deadline);
    lease_gc_free(i->gc);
    arena_free(i->arena);
    origin_unref(i->o.local);
    mem_free(i->id);
    mem_free(i->hostname);
    mem_free(i->advertise);
    mem_free(i->uid);
    mem_free(i->version);
    mem_free(i->other_holder);
    mem_free(i);
}

void identity_set_origin(struct identity *i, struct origin *local)
{
    struct origin *old = i->o.local;

    i->o.local = origin_ref(local);
    origin_unref(old);
    lease_gc_set_origin(i->gc, local);
}

const char *identity_state_name(const struct identity *i)
{
    static const char *const names[] = {"stopped", "deciding",  "starting", "publishing",
                                        "yielded", "observing", "leaving"};

    return names[i->state];
}
