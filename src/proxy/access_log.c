/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy/access_log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/random.h"
#include "proxy/redact.h"

/* ---- which ---- */

static bool unknown_filter(const char *filter, struct err *err)
{
    static const char *const names[] = {"all", "rerouted", "errors", "slow"};
    struct nearest n = nearest_to(slice_of(filter, strcspn(filter, "=")));

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        nearest_try(&n, names[i]);
    if (strcmp(filter, "slow") == 0)
        return err_set(err, "\"slow\" has no duration: write it such as slow=1s");
    if (n.best != NULL)
        return err_set(err, "\"%s\" is no filter: did you mean %s?", filter, n.best);
    return err_set(err, "\"%s\" is no filter: give all, rerouted, errors or slow=DURATION", filter);
}

bool access_log_parse(const char *const *filters, struct access_log *out, struct err *err)
{
    for (size_t i = 0; filters[i] != NULL; i++) {
        struct slice text = slice_str(filters[i]);

        if (slice_eq(text, SLICE_LIT("all")) || slice_eq(text, SLICE_LIT("true")))
            out->all = true;
        else if (slice_eq(text, SLICE_LIT("rerouted")))
            out->rerouted = true;
        else if (slice_eq(text, SLICE_LIT("errors")))
            out->errors = true;
        else if (slice_eq(text, SLICE_LIT("false")) && filters[1] == NULL)
            continue;
        else if (!slice_has_prefix(text, SLICE_LIT("slow=")))
            return unknown_filter(filters[i], err);
        else if (!clock_parse_duration(slice_from(text, 5), &out->slow_ms) || out->slow_ms == 0)
            return err_set(err, "\"%s\" has no duration: write it such as slow=1s", filters[i]);
    }
    return true;
}

bool access_log_on(const struct access_log *l)
{
    return l->all || l->rerouted || l->errors || l->slow_ms > 0;
}

bool access_log_is_error(const struct request_summary *e)
{
    bool broken_off = e->why != NULL && e->status < 400 && strcmp(e->why, ACCOUNT_CLIENT_GONE) != 0;

    return e->status >= 500 || e->status == 429 || broken_off;
}

/* By a key that is the same everywhere. Whoever picks his Audit-ID picks whether he is drawn: the manual says so. */
static bool is_drawn(const struct access_log *l, const struct request_summary *e)
{
    static const unsigned char same[HASH_SIP_KEY_BYTES] = {0};

    if (l->sample <= 1)
        return true;
    return e->audit_id.n > 0 ? hash_siphash(same, e->audit_id) % l->sample == 0 : random_below(l->sample) == 0;
}

bool access_log_selects(const struct access_log *l, const struct request_summary *e, bool from_peer, uint64_t us)
{
    if ((l->all || l->errors) && access_log_is_error(e))
        return true;
    if (l->rerouted && (from_peer || e->peer != NULL))
        return true;
    if (l->slow_ms > 0 && !e->long_running && us / 1000 >= l->slow_ms)
        return true;
    return l->all && is_drawn(l, e);
}

/* ---- the line ---- */

enum { PAIRS = 24 };

struct line {
    struct log_kv kv[PAIRS];
    size_t n;
};

static void add(struct line *l, struct log_kv kv)
{
    l->kv[l->n++] = kv;
}

#define ADD(l, pair) add((l), (struct log_kv)pair)

static void add_request(struct line *l, struct exchange *x, const struct reqinfo *info, struct slice uri)
{
    const struct exchange_client *c = exchange_client(x);

    ADD(l, LS("verb", info->verb));
    ADD(l, LS("method", exchange_request(x)->method));
    ADD(l, LS("uri", uri));
    ADD(l, LT("protocol", c->protocol));
    ADD(l, LT("client", c->address));
}

static void add_answer(struct line *l, struct exchange *x, const struct request_summary *e, uint64_t us)
{
    ADD(l, LU("attempts", e->attempts));
    ADD(l, LU("code", e->status));
    ADD(l, LU("requestBytes", exchange_request_bytes(x)));
    ADD(l, LU("responseBytes", exchange_response_bytes(x) + e->own_bytes));
    ADD(l, LU("durationMicroseconds", us));
    ADD(l, LS("userAgent", e->user_agent));
    ADD(l, LS("auditID", e->audit_id));
    ADD(l, LT("end", e->why == NULL ? "complete" : e->why));
}

void access_log_request(const struct access_log *l, struct exchange *x, const struct reqinfo *info,
                        const struct route *r, const struct request_summary *e, bool from_peer)
{
    uint64_t us = clock_us() - exchange_started_us(x);
    struct line line = {.n = 0};
    struct buf uri;

    if (!access_log_on(l) || !access_log_selects(l, e, from_peer, us))
        return;
    buf_init(&uri, 2 * LIMIT_LOG_VALUE);
    redact_target(exchange_request(x)->target, info, &uri);
    add_request(&line, x, info, buf_slice(&uri));
    ADD(&line, LT("identity", e->user_kind));
    if (l->user)
        ADD(&line, LS("user", e->user));
    ADD(&line, LT("route", route_row_name(r->row)));
    ADD(&line, LT("peer", e->peer));
    ADD(&line, LT("failover", r->reason));
    add_answer(&line, x, e, us);
    log_emit(LOG_INFO, 0, __FILE__, __LINE__, "Request", line.kv);
    buf_free(&uri);
}
