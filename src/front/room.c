/* SPDX-License-Identifier: Apache-2.0 */
#include "front/room.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "front/front_conn.h"

enum {
    SEARCHED = 32,     /* connections in one look */
    RESTING_MS = 5000, /* of kubectl and others a handshake may take 10 s */
    SILENT_US = FRONT_HEAD_SLOW_MS * 1000,
};

/*
 * Nor is any of its last answer on its way: a window update to a closed socket would cost the client the rest of it.
 * Nor is there a request that has come and is not read.
 */
static bool may_end(struct front_conn *fc)
{
    return front_conn_is_between_requests(fc) && stream_unacknowledged(fc->stream) == 0 && stream_is_quiet(fc->stream);
}

/* Who has more than his share, and may go. Who is looked at and may stay comes last next time. */
static bool end_one(struct front_host *h, size_t max, struct list *among,
                    struct front_conn *(*conn_of)(struct list_node *), bool (*may_go)(struct front_conn *))
{
    struct list_node *n;
    size_t looks = among->count < SEARCHED ? among->count : SEARCHED;

    for (; looks > 0 && (n = list_pop_front(among)) != NULL; looks--) {
        struct front_conn *fc = conn_of(n);

        list_push_back(among, n);
        if (clients_has_surplus(h->clients, &fc->client, max) && may_go(fc)) {
            front_conn_shut(fc, "too many connections", FRONT_CLOSE_CROWDED_OUT);
            return true;
        }
    }
    return false;
}

static struct front_conn *idle_conn(struct list_node *n)
{
    return list_entry(n, struct front_conn, idle);
}

/* Who asks now and then and keeps many connections must not keep others out: one that is idle makes room. */
static bool end_idle(struct front_host *h, size_t max)
{
    return end_one(h, max, &h->idle, idle_conn, may_end);
}

/* Nor who never asks. Whoever has just come is given the time to. */
static bool end_silent(struct front_host *h, size_t max)
{
    struct client_member *m = clients_silent_surplus(h->clients, max);
    struct front_conn *fc = m != NULL ? list_entry(m, struct front_conn, client) : NULL;

    if (fc == NULL || clock_us() - fc->accepted_us < SILENT_US)
        return false;
    front_conn_shut(fc, "too many connections", FRONT_CLOSE_CROWDED_OUT);
    return true;
}

static struct front_conn *any_conn(struct list_node *n)
{
    return list_entry(n, struct front_conn, node);
}

/* What the client's machine has taken so far, and what waits for it, as bytes on the wire but for the records of TLS.
 */
struct taking {
    uint64_t taken, waiting;
};

static struct taking taking_of(const struct front_conn *fc)
{
    size_t unsent = stream_unsent(fc->stream), in_kernel = stream_unacknowledged(fc->stream) - unsent;
    size_t above = fc->upgraded ? 0 : fc->ops->waiting(fc->protocol);

    return (struct taking){stream_wire_bytes(fc->stream) - in_kernel, in_kernel + unsent + above};
}

/* The time in which it is to take some begins, if there is anything to take. */
static void mark(struct front_conn *fc, const struct taking *t)
{
    struct front_host *h = fc->host;

    if (list_linked(&fc->waiting))
        list_remove(&h->waiting, &fc->waiting);
    if (t->waiting == 0)
        return;
    fc->mark.since_ms = loop_now_ms(h->loop);
    fc->mark.taken = t->taken;
    fc->mark.due = t->taken + t->waiting;
    list_push_back(&h->waiting, &fc->waiting);
}

/* Of one that is not marked. Who watches and has been told all that there was to tell is not. */
static void look_at_reader(struct front_conn *fc)
{
    if (!list_linked(&fc->waiting)) {
        struct taking t = taking_of(fc);

        mark(fc, &t);
    }
}

/*
 * In all the time since its mark something has waited, for it has not yet taken what waited then, and it took less than
 * a byte in drips would be. Of who does better the time begins anew, so that haste at first does not count for ever.
 */
static bool takes_slowly(struct front_conn *fc, bool indulged)
{
    uint64_t ms = loop_now_ms(fc->host->loop) - fc->mark.since_ms;
    struct taking t = taking_of(fc);
    bool haste = indulged && t.taken - fc->mark.taken >= ms / 1000 * LIMIT_SLOW_READER_RATE;

    if (t.waiting > 0 && t.taken < fc->mark.due && !haste)
        return true;
    mark(fc, &t);
    return false;
}

bool room_is_slow_reader(struct front_conn *fc, uint64_t for_ms, bool indulged)
{
    look_at_reader(fc);
    return list_linked(&fc->waiting) && loop_now_ms(fc->host->loop) - fc->mark.since_ms >= for_ms &&
           takes_slowly(fc, indulged);
}

static void end_slow_reader(struct front_conn *fc)
{
    static const char why[] = "client takes what waits for it too slowly";
    struct front_host *h = fc->host;

    log_v(3, "Slow reader ended", LU("connection", fc->id), LT("client", stream_remote_text(fc->stream)),
          LU("took", taking_of(fc).taken - fc->mark.taken), LU("waits", taking_of(fc).waiting),
          LU("milliseconds", loop_now_ms(h->loop) - fc->mark.since_ms));
    front_stats_slow_reader(h->stats);
    list_remove(&h->waiting, &fc->waiting);
    if (fc->upgraded)
        front_conn_break(fc, why);
    else
        front_conn_shut(fc, why, FRONT_CLOSE_SLOW_READER);
}

/* Its other requests, if it has any, are not to be lost to one whose answer it leaves. */
static bool is_answered(const struct front_conn *fc)
{
    return fc->upgraded || fc->ops->answered(fc->protocol, TIMEOUT_SLOW_READER_MS, true);
}

/* Nor who takes what it asked for a few bytes at a time, be it in a tunnel: who has done so for longest. */
static bool end_slow(struct front_host *h, size_t max)
{
    struct list *among = &h->waiting;
    size_t looks = among->count < SEARCHED ? among->count : SEARCHED;
    struct list_node *n;

    for (; looks > 0 && (n = list_first(among)) != NULL; looks--) {
        struct front_conn *fc = list_entry(n, struct front_conn, waiting);

        if (loop_now_ms(h->loop) - fc->mark.since_ms < TIMEOUT_SLOW_READER_MS)
            break;
        if (!takes_slowly(fc, true))
            continue;
        if (clients_has_surplus(h->clients, &fc->client, max) && is_answered(fc)) {
            end_slow_reader(fc);
            return true;
        }
        mark(fc, &(struct taking){fc->mark.taken, fc->mark.due - fc->mark.taken}); /* who may stay comes last */
    }
    return false;
}

static bool drips(struct front_conn *fc)
{
    if (fc->ops == NULL)
        return false;
    look_at_reader(fc);
    return fc->ops->drips(fc->protocol, TIMEOUT_BODY_SLOW_MS, true);
}

static bool stays(struct front_conn *fc)
{
    if (fc->upgraded)
        look_at_reader(fc);
    return false;
}

/*
 * Nor who asks much and drips the bodies, or the next head. One that waits for its answer, reads one, or watches is
 * none of these; whether it reads that slowly will be known when the time since this look is over.
 */
static bool end_dripping(struct front_host *h, size_t max)
{
    (void)end_one(h, max, &h->leaving, any_conn, stays);
    return end_one(h, max, &h->conns, any_conn, drips);
}

/*
 * Nor, where everybody has a few, those who ask nothing for some seconds: who has done so for longest. A client that
 * keeps a connection for its next request opens another one without an error. Not where somebody has much more than a
 * share: he could take everybody's place, with requests that do not end.
 */
static bool end_resting(struct front_host *h, size_t max)
{
    struct list *among = &h->resting;
    size_t looks = among->count < SEARCHED ? among->count : SEARCHED;
    uint64_t now = loop_now_ms(h->loop);
    struct list_node *n;

    if (!clients_are_even(h->clients, max))
        return false;
    for (; looks > 0 && (n = list_first(among)) != NULL; looks--) {
        struct front_conn *fc = list_entry(n, struct front_conn, resting);

        if (now - fc->resting_since_ms < RESTING_MS)
            break;
        if (may_end(fc)) {
            front_conn_shut(fc, "too many connections", FRONT_CLOSE_CROWDED_OUT);
            return true;
        }
        list_remove(among, n); /* whose answer is still on its way rests from now on */
        fc->resting_since_ms = now;
        list_push_back(among, n);
    }
    return false;
}

bool room_make(struct front_host *h, size_t max)
{
    return end_idle(h, max) || end_silent(h, max) || end_slow(h, max) || end_dripping(h, max) || end_resting(h, max);
}
