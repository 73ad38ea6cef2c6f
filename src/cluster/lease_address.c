/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/lease_address.h"

#include <stdio.h>

#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "cluster/api.h"
#include "cluster/backoff.h"
#include "kube/server_id.h"
#include "net/loop.h"

enum {
    BODY_BYTES = 16 << 10,
    TRIES = 5, /* in a row, when the Lease is renewed under our hands */
    FIRST_ADVERTISING_MINOR = 36,
    RIVAL_WRITES = 5, /* so often it may be a process that gives way to this one */
    RIVAL_FIRST_MS = 1000,
    RIVAL_MAX_MS = 60000,
    RIVAL_GONE_MS = 180000, /* longer than he waits, if he does as we do */
};

/*
 * Another mvproxy that takes this server's Lease for its own, by the same host name: each would write whenever the
 * other one has.
 */
struct rival {
    unsigned writes; /* of his, over ours */
    uint64_t seen_ms;
    struct backoff backoff;
    struct loop_timer *timer;
};

struct lease_address {
    struct api *api;
    char path[sizeof(LEASE_COLLECTION_PATH) + SERVER_ID_BYTES_126 + 1];
    bool on; /* the server keeps one there */
    char advertise[LIMIT_ADDRESS_TEXT_BYTES];
    unsigned minor;
    struct fetch *call;
    unsigned tries, failed; /* in a row */
    bool written;           /* by us */
    bool stood;             /* ours has been there since his last one */
    bool kept;              /* the server has renewed its Lease and left ours there: it writes none itself */
    int64_t renew_us;       /* of its Lease when ours was to be written, or was found there; 0: neither */
    struct rival rival;
    bool overruled; /* a differing address of the server's own stands */
    struct arena *arena;
};

static void look(struct lease_address *a);

static void on_written(void *arg, const struct fetch_result *r)
{
    struct lease_address *a = arg;
    char text[API_WHY_BYTES];

    a->call = NULL;
    a->written = api_answered(r, 200);
    a->stood = a->stood || a->written;
    if (api_answered(r, 409) && a->tries++ < TRIES) {
        look(a); /* renewed meanwhile */
        return;
    }
    a->tries = 0;
    if (a->written)
        log_info("Wrote the address for peers into the server's own Lease",
                 LT("lease", a->path + sizeof(LEASE_COLLECTION_PATH)), LT("address", a->advertise));
    else if (!api_answered(r, 409)) /* again at the next renewal, in ten seconds */
        log_v(a->failed++ == 0 ? 0 : 3, "Could not write the address for peers into the server's Lease",
              LT("lease", a->path + sizeof(LEASE_COLLECTION_PATH)), LT("err", api_why(r, text)));
}

static void write_address(struct lease_address *a, const struct lease *l)
{
    struct buf body;

    a->renew_us = l->renew_us;
    buf_init(&body, BODY_BYTES);
    buf_append_quoted(&body,
                      "{\"metadata\":{\"annotations\":{\"" LEASE_ADVERTISE_ANNOTATION "\":", slice_str(a->advertise));
    buf_append_quoted(&body, ",\"" LEASE_WRITTEN_ANNOTATION "\":", slice_str(a->advertise));
    buf_append_quoted(&body, "},\"uid\":", l->uid);
    buf_append_quoted(&body, ",\"resourceVersion\":", l->resource_version);
    if (buf_append_str(&body, "}}\n"))
        a->call = api_ask(a->api, "PATCH", a->path, buf_slice(&body), on_written, a);
    buf_free(&body);
}

/* ---- a rival ---- */

static void forget_rival(struct lease_address *a)
{
    a->rival.writes = 0;
    backoff_reset(&a->rival.backoff);
    loop_timer_cancel(a->rival.timer);
}

static void on_turn(void *arg)
{
    look(arg);
}

/* Whether the server keeps it: it may have been written by the mvproxy before this process. */
static void note_kept(struct lease_address *a, const struct lease *l)
{
    if (!a->written && !slice_eq(l->advertise, l->written))
        return;
    if (a->renew_us == 0)
        a->renew_us = l->renew_us;
    a->kept = a->kept || l->renew_us > a->renew_us;
}

static void forget_kept(struct lease_address *a)
{
    a->written = a->kept = false;
    a->renew_us = 0;
}

/* Ours stands: for long enough, so that he would have written again? */
static void note_peace(struct lease_address *a)
{
    if (a->rival.writes == 0 || loop_now_ms(api_loop(a->api)) - a->rival.seen_ms < RIVAL_GONE_MS)
        return;
    if (a->rival.writes >= RIVAL_WRITES)
        log_info("Nobody else writes an address into the server's own Lease any more",
                 LT("lease", a->path + sizeof(LEASE_COLLECTION_PATH)), LU("times", a->rival.writes));
    forget_rival(a);
}

/* Not the server, which writes none; an mvproxy would have said that it has. */
static bool is_somebodys(const struct lease_address *a, const struct lease *l)
{
    return l->advertise.n > 0 && !slice_eq(l->advertise, l->written) &&
           (a->kept || (!a->written && a->minor < FIRST_ADVERTISING_MINOR));
}

static void say_rival(const struct lease_address *a, const struct lease *l)
{
    const char *lease = a->path + sizeof(LEASE_COLLECTION_PATH);

    if (is_somebodys(a, l))
        log_warning("Somebody writes another address into the Lease of this server again and again", LT("lease", lease),
                    LS("address", l->advertise), LT("configured", a->advertise));
    else
        log_warning(
            "Another mvproxy writes its address into the Lease of this server again and again, so two nodes have "
            "one host name: give each its own, by hostname-override or the machine's name",
            LT("lease", lease), LS("hostname", l->hostname_label), LS("address", l->advertise),
            LT("configured", a->advertise));
}

/* Whether to leave what he has written, for now. */
static bool yields_to_rival(struct lease_address *a, const struct lease *l)
{
    struct rival *r = &a->rival;

    if (!a->stood || l->advertise.n == 0 || (!slice_eq(l->advertise, l->written) && !is_somebodys(a, l)))
        return false;
    a->stood = false;
    r->seen_ms = loop_now_ms(api_loop(a->api));
    if (++r->writes < RIVAL_WRITES)
        return false;
    if (r->writes == RIVAL_WRITES)
        say_rival(a, l);
    loop_timer_set(r->timer, backoff_next(&r->backoff));
    return true;
}

/* ---- what is seen ---- */

void lease_address_seen(struct lease_address *a, const struct lease *l)
{
    struct slice own = slice_str(a->advertise);

    if (!a->on || a->call != NULL || own.n == 0 || loop_timer_pending(a->rival.timer))
        return;
    if (slice_eq(l->advertise, own)) {
        note_kept(a, l);
        note_peace(a);
        return;
    }
    if (yields_to_rival(a, l))
        return;
    if (l->advertise.n == 0 || slice_eq(l->advertise, l->written) || is_somebodys(a, l)) {
        write_address(a, l);
        return;
    }
    /* It writes one itself, again at each renewal. Two writers help nobody; `peers` on the reading side comes first. */
    if (!a->overruled)
        log_warning("The local kube-apiserver advertises another address than configured here; its own stands",
                    LT("lease", a->path + sizeof(LEASE_COLLECTION_PATH)), LS("address", l->advertise),
                    LT("configured", a->advertise));
    a->overruled = true;
}

static void on_read(void *arg, const struct fetch_result *r)
{
    struct lease_address *a = arg;
    struct err err = {.text = ""};
    struct lease l;

    a->call = NULL;
    arena_reset(a->arena);
    if (api_answered(r, 200) && lease_parse(a->arena, r->body, &l, &err))
        lease_address_seen(a, &l);
}

/*
 * The watch has shown the server's Lease before it was known whose it is, perhaps, and shows it again when it is
 * renewed, in ten seconds. That long no peer would know where this server is.
 */
static void look(struct lease_address *a)
{
    if (a->on && a->advertise[0] != '\0' && a->call == NULL)
        a->call = api_ask(a->api, "GET", a->path, SLICE_NONE, on_read, a);
}

void lease_address_at(struct lease_address *a, const char *path, unsigned minor)
{
    a->on = path != NULL;
    if (path == NULL || strcmp(a->path, path) != 0)
        fetch_cancel(&a->call);
    if (path != NULL && strcmp(a->path, path) != 0) {
        a->overruled = a->stood = false;
        forget_kept(a);
        forget_rival(a);
        (void)snprintf(a->path, sizeof(a->path), "%s", path);
    }
    if (minor != a->minor) /* another version may write one, or write none any more */
        forget_kept(a);
    a->minor = minor;
    a->tries = a->failed = 0;
    look(a);
}

void lease_address_set(struct lease_address *a, const char *advertise)
{
    if (strcmp(advertise, a->advertise) == 0)
        return;
    (void)snprintf(a->advertise, sizeof(a->advertise), "%s", advertise);
    a->overruled = a->stood = false;
    forget_kept(a);
    forget_rival(a);
    a->tries = 0;
    look(a);
}

struct lease_address *lease_address_new(struct api *api)
{
    struct lease_address *a = must_zalloc(sizeof(*a));

    a->api = api;
    a->arena = arena_new(4 * LIMIT_LEASE_BYTES);
    backoff_init(&a->rival.backoff, RIVAL_FIRST_MS, RIVAL_MAX_MS);
    a->rival.timer = loop_timer_new(api_loop(api), on_turn, a);
    must_hold(a->arena != NULL && a->rival.timer != NULL);
    return a;
}

void lease_address_free(struct lease_address *a)
{
    if (a == NULL)
        return;
    fetch_cancel(&a->call);
    loop_timer_free(a->rival.timer);
    arena_free(a->arena);
    mem_free(a);
}
