/* SPDX-License-Identifier: Apache-2.0 */
/* Our Lease: whose is the one that is there, making it, renewing it. */
#include <stdio.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "cluster/cluster_metrics.h"
#include "cluster/identity_internal.h"

enum {
    RENEW_MS = 10000,
    RENEW_JITTER_PERCENT = 4,
    /* Longer than anybody's renewal takes to show: a Lease that has not changed meanwhile has no owner. */
    LOOK_AGAIN_MS = 12000,
    YIELDED_MS = 30000,
    DEAD_AFTER_US = 60 * 1000 * 1000, /* renewed so long ago, by our clock: no need to look twice */
    IMMEDIATE_TRIES = 5,
    LABEL_MAX = 63,
};

static void count(struct identity *i, const char *result)
{
    const struct slice label = slice_str(result);

    metric_inc(metric_child(i->o.metrics->identity_renewals, &label));
}

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

bool identity_read(struct identity *i, const struct fetch_result *r, struct lease *l)
{
    struct err err = {.text = ""};

    arena_reset(i->arena);
    return lease_parse(i->arena, r->body, l, &err);
}

bool identity_is_ours(const struct identity *i, const struct lease *l)
{
    bool by_us = slice_eq(l->holder, slice_str(i->holder)) ||
                 (i->former[0] != '\0' && slice_eq(l->holder, slice_str(i->former)));

    return by_us && l->has_renew_time && (l->renew_us == i->sent_us || l->renew_us == i->confirmed_us);
}

/* It is as we wrote it, or somebody has added something. */
static void adopt(struct identity *i, const struct lease *l)
{
    if (!keep(&i->uid, l->uid) || !keep(&i->version, l->resource_version)) {
        identity_failing(i, "keep", "out of memory", identity_look);
        return;
    }
    if (i->state != STATE_PUBLISHING)
        log_info("Publishing the identity Lease of this server", LT("lease", i->id), LT("holder", i->holder),
                 LT("address", i->advertise));
    identity_set_state(i, STATE_PUBLISHING);
    i->confirmed_us = l->renew_us;
    i->tries = i->failed = 0;
    i->conceded = false;
    i->former[0] = '\0';
    backoff_reset(&i->backoff);
    identity_after(i, i->anew ? 0 : jitter_ms(RENEW_MS, RENEW_JITTER_PERCENT), identity_renew);
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
    identity_set_state(i, STATE_YIELDED);
    count(i, "yielded");
    identity_after(i, YIELDED_MS, i->o.mode == IDENTITY_AUTO ? identity_decide : identity_look);
}

static void on_written(void *arg, const struct fetch_result *r);

static void create(struct identity *i)
{
    struct lease l = wanted(i);
    struct buf body;

    buf_init(&body, IDENTITY_BODY_BYTES);
    (void)lease_print(&l, &body);
    i->may_exist = true;
    if (!identity_send(i, "POST", LEASE_COLLECTION_PATH, &body, on_written))
        identity_failing(i, "create", "out of memory", identity_look);
    buf_free(&body);
}

static void on_removed(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    char text[API_WHY_BYTES];

    if (identity_left_meanwhile(i))
        return;
    if (api_answered(r, 200) || api_answered(r, 404))
        create(i);
    else if (api_answered(r, 409))
        identity_after(i, LOOK_AGAIN_MS, identity_look); /* changed under our hands: it is not dead */
    else
        identity_failing(i, "remove the one before", api_why(r, text), identity_look);
}

bool identity_remove(struct identity *i, const struct lease *l, fetch_fn *fn)
{
    struct buf body;
    bool sent;

    buf_init(&body, IDENTITY_BODY_BYTES);
    (void)lease_print_delete(l, &body);
    sent = identity_send(i, "DELETE", i->path, &body, fn);
    buf_free(&body);
    return sent;
}

static bool note_other(struct identity *i, const struct lease *l)
{
    i->other_renew_us = l->renew_us;
    i->other_noted_ms = loop_now_ms(i->loop);
    return keep(&i->other_holder, l->holder);
}

/*
 * Alive means: seen to change between two looks. The clocks of two nodes may differ, so its age says so only if it is
 * great.
 */
static void judge_other(struct identity *i, const struct lease *l)
{
    bool again = i->other_holder != NULL && slice_eq(l->holder, slice_str(i->other_holder));
    bool moved = again && l->renew_us != i->other_renew_us;
    bool old = !l->has_renew_time || l->renew_us < clock_wall_us() - DEAD_AFTER_US;
    uint64_t rested;

    if (i->o.mode == IDENTITY_AUTO && (!i->asked || i->decide_again)) {
        identity_decide(i); /* it may be the server's own, of a newer version than before */
        return;
    }
    if ((!again || moved) && !note_other(i, l)) {
        identity_failing(i, "look", "out of memory", identity_look);
        return;
    }
    if (moved || i->state == STATE_PUBLISHING) {
        yield(i, l);
        return;
    }
    rested = loop_now_ms(i->loop) - i->other_noted_ms;
    if (rested < LOOK_AGAIN_MS && !old) {
        if (!again)
            log_info("Identity Lease of this server exists; waiting to see whether it is renewed", LT("lease", i->id),
                     LS("holder", l->holder));
        identity_after(i, LOOK_AGAIN_MS - rested, identity_look);
        return;
    }
    log_info("Removing a Lease that an earlier process left behind", LT("lease", i->id), LS("holder", l->holder));
    if (!identity_remove(i, l, on_removed))
        identity_failing(i, "remove the one before", "out of memory", identity_look);
}

static void on_look(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;
    char text[API_WHY_BYTES];

    if (identity_left_meanwhile(i))
        return;
    if (api_answered(r, 404)) {
        create(i);
    } else if (!api_answered(r, 200) || !identity_read(i, r, &l)) {
        identity_failing(i, "look", api_answered(r, 200) ? "not a Lease" : api_why(r, text), identity_look);
    } else if (identity_is_ours(i, &l)) {
        i->may_exist = true;
        i->confirmed_us = l.renew_us;
        if (!keep(&i->uid, l.uid) || !keep(&i->version, l.resource_version))
            identity_failing(i, "look", "out of memory", identity_look);
        else if (i->tries++ < IMMEDIATE_TRIES)
            identity_renew(i);
        else
            identity_failing(i, "renew", "it keeps changing", identity_look);
    } else {
        judge_other(i, &l);
    }
}

void identity_look(struct identity *i)
{
    if (!identity_send(i, "GET", i->path, NULL, on_look))
        identity_failing(i, "look", "out of memory", identity_look);
}

static void on_written(void *arg, const struct fetch_result *r)
{
    struct identity *i = arg;
    struct lease l;
    char text[API_WHY_BYTES];

    if (identity_left_meanwhile(i))
        return;
    if ((api_answered(r, 200) || api_answered(r, 201)) && identity_read(i, r, &l)) {
        count(i, "ok");
        adopt(i, &l);
    } else if (api_answered(r, 409)) {
        count(i, "conflict");
        identity_look(i);
    } else if (api_answered(r, 404) && i->state == STATE_PUBLISHING) {
        log_warning("The own identity Lease was deleted by somebody, and is made again", LT("lease", i->id));
        create(i);
    } else {
        count(i, "failed");
        identity_failing(i, "write", api_why(r, text), identity_look);
    }
}

void identity_take_holder(struct identity *i)
{
    char uuid[37];

    hash_uuid(uuid);
    (void)snprintf(i->holder, sizeof i->holder, "%.*s_%s", SERVER_ID_CHARS, i->id, uuid);
}

void identity_renew(struct identity *i)
{
    struct lease l;
    struct buf body;

    if (i->decide_again) {
        identity_decide(i);
        return;
    }
    if (i->anew && i->former[0] == '\0') {
        memcpy(i->former, i->holder, sizeof i->former);
        identity_take_holder(i);
        i->anew = false;
        log_info("The local kube-apiserver is another process: its Lease gets another holder", LT("lease", i->id),
                 LT("holder", i->holder));
    }
    l = wanted(i);
    l.uid = slice_str(i->uid);
    l.resource_version = slice_str(i->version);
    buf_init(&body, IDENTITY_BODY_BYTES);
    (void)lease_print_renewal(&l, &body);
    if (!identity_send(i, "PATCH", i->path, &body, on_written))
        identity_failing(i, "renew", "out of memory", identity_look);
    buf_free(&body);
}
