/* SPDX-License-Identifier: Apache-2.0 */
#include "back/back.h"

#include "back/bearers.h"
#include "back/h2_pool.h"
#include "back/loop_token.h"
#include "back/pool.h"
#include "back/withhold.h"
#include "base/metric.h"

enum {
    SCRATCH_CEILING = 2 * LIMIT_HEAD_BYTES,
    GIVEN_UP_AT_ONCE = 32, /* 40 to 80 us each, with what their owners do then */
};

/* ---- where requests go ---- */

/*
 * A pool with certificate only for who asserts a user, or where each connection proves itself. That a server was found
 * bare a moment ago spares the attempt; that it was not proves nothing.
 */
static enum pool_kind kind_for(const struct back_request *r)
{
    const struct origin *o = r->origin;

    if (r->opts.with_cert)
        return POOL_CERT;
    if (r->opts.hop && o->opts.tls_cert != NULL && loop_now_ms(r->back->loop) >= o->pools[POOL_HOP]->bare_until_ms)
        return POOL_HOP;
    return POOL_NO_CERT;
}

/* An identity that the origin has no context for must not go out in another one's name, nor in the clear. */
static bool has_context(const struct pool *p)
{
    const struct origin_opts *o = &p->origin->opts;

    return pool_tls(p) != NULL || (!o->tls_required && o->tls_cert == NULL && o->tls_no_cert == NULL);
}

static void place(struct back_request *r, bool fresh)
{
    r->pool = r->origin->pools[kind_for(r)];
    if (!has_context(r->pool))
        request_fail(r, BACK_FAIL_CONNECT,
                     r->opts.with_cert ? "no client certificate is configured"
                                       : "peer-ca-file or proxy-client-cert-file is not configured");
    else if (fresh || !h2_pool_serves(r))
        pool_take(r->pool, r, fresh);
    else if (!h2_pool_take(r->pool, r))
        pool_take(r->pool, r, false);
}

static void close_idle(struct origin *o)
{
    for (size_t i = 0; i < POOL_KINDS; i++) {
        pool_close_idle(o->pools[i], CLOSE_ORIGIN_GONE);
        h2_pool_close_idle(o->pools[i], CLOSE_ORIGIN_GONE);
    }
}

/* Other requests get a connection that shows whether there is somebody. */
static void doubt(struct origin *o)
{
    for (size_t i = 0; i < POOL_KINDS; i++) {
        pool_close_idle(o->pools[i], CLOSE_ORIGIN_HANGS);
        h2_pool_doubt(o->pools[i]);
    }
}

static void is_silent(struct origin *o)
{
    for (size_t i = 0; i < POOL_KINDS; i++)
        pool_is_silent(o->pools[i]);
}

/* It has said something meanwhile, or may yet, or will not: then HTTP/2's connections find out for themselves. */
static void give_up(struct pool *p)
{
    struct giving_up g = {.text = "server hangs", .left = GIVEN_UP_AT_ONCE, .watches = true};

    if (!origin_hangs(p->origin))
        return;
    if (loop_now_ms(p->origin->back->loop) - p->origin->silent_ms >= origin_patience_ms(p->origin)) {
        pool_end_busy(p, &g);
    } else {
        pool_give_up(p, &g);
        h2_pool_give_up(p, &g);
    }
    if (g.left == 0)
        pool_is_silent(p);
}

bool origin_fail_unanswered(struct origin *o, const char *text)
{
    struct giving_up g = {.text = text, .left = GIVEN_UP_AT_ONCE};

    for (size_t i = 0; o->back != NULL && i < POOL_KINDS; i++) {
        pool_give_up(o->pools[i], &g);
        h2_pool_give_up(o->pools[i], &g);
    }
    return g.left == 0;
}

static void drop_pools(struct origin *o)
{
    for (size_t i = 0; i < POOL_KINDS; i++) {
        pool_free(o->pools[i]);
        o->pools[i] = NULL;
    }
}

struct origin *origin_new(struct back *b, const struct origin_opts *opts)
{
    struct origin *o = origin_make(b, opts);

    if (o == NULL)
        return NULL;
    o->complete = true;
    for (size_t i = 0; i < POOL_KINDS; i++) {
        o->pools[i] = pool_new(o, (enum pool_kind)i);
        o->complete = o->complete && o->pools[i] != NULL;
    }
    if (o->complete)
        return o;
    origin_unref(o);
    return NULL;
}

/* ---- the whole ---- */

struct back *back_new(struct loop *l, struct metrics *m)
{
    static const char *const server_state[] = {"server", "state", NULL};
    static const char *const server_result[] = {"server", "result", NULL};
    static const char *const server_reason[] = {"server", "reason", NULL};
    static const char *const server_only[] = {"server", NULL};
    static const double seconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
    struct back *b = must_zalloc(sizeof(*b));

    b->loop = l;
    loop_token_make(b);
    b->place = place;
    b->close_idle = close_idle;
    b->doubt = doubt;
    b->is_silent = is_silent;
    b->give_up = give_up;
    b->place_waiting = h2_pool_place_waiting;
    b->drop_pools = drop_pools;
    if (m == NULL)
        m = b->own_metrics = metrics_new();
    list_init(&b->origins);
    list_init(&b->failing);
    buf_init(&b->scratch, SCRATCH_CEILING);
    b->arenas.ceiling = LIMIT_EXCHANGE_ARENA;
    b->wasted_dials.rate = churn_rate_of(LIMIT_CHURN_DIALS, LIMIT_CHURN_DIALS_SECOND);
    b->shares.most = LIMIT_POOL_CONNECTIONS;
    b->resets.rate = churn_rate_of(LIMIT_CHURN_RESETS, LIMIT_CHURN_RESETS_SECOND);
    b->conns = metric_family(m, METRIC_GAUGE, "mvproxy_back_connections", "Open connections to servers, by state.",
                             server_state, LIMIT_METRIC_SERIES);
    b->connects = metric_family(m, METRIC_COUNTER, "mvproxy_back_connects_total",
                                "Attempts to connect to servers, by result.", server_result, LIMIT_METRIC_SERIES);
    b->reuses =
        metric_family(m, METRIC_COUNTER, "mvproxy_back_connection_reuses_total",
                      "Requests sent on a connection that had served another.", server_only, LIMIT_METRIC_SERIES);
    b->retries = metric_family(m, METRIC_COUNTER, "mvproxy_back_retries_total",
                               "Requests sent again because their connection ended unanswered.", server_only,
                               LIMIT_METRIC_SERIES);
    b->streams = metric_family(m, METRIC_GAUGE, "mvproxy_back_streams", "Requests under way on HTTP/2 connections.",
                               server_only, LIMIT_METRIC_SERIES);
    b->retries_refused = metric_family(m, METRIC_COUNTER, "mvproxy_back_retries_refused_total",
                                       "Requests not sent again because the retry budget of the origin was used up.",
                                       server_only, LIMIT_METRIC_SERIES);
    b->ejections = metric_family(m, METRIC_COUNTER, "mvproxy_back_ejections_total",
                                 "Times that a server was put last because of failures in a row.", server_only,
                                 LIMIT_METRIC_SERIES);
    b->ejected =
        metric_family(m, METRIC_GAUGE, "mvproxy_back_ejected",
                      "1 while a server is put last because of failures in a row.", server_only, LIMIT_METRIC_SERIES);
    b->closes = metric_family(m, METRIC_COUNTER, "mvproxy_back_connections_closed_total",
                              "Connections to servers that ended, by reason.", server_reason, LIMIT_METRIC_SERIES);
    b->check.withheld = metric_family(m, METRIC_COUNTER, "mvproxy_back_requests_withheld_total",
                                      "Requests not sent because the identity in them did not fit the connection.",
                                      server_only, LIMIT_METRIC_SERIES);
    b->seconds = metric_histogram_family(m, "mvproxy_back_request_duration_seconds",
                                         "Time from when a client's request was given to a server to the head of its "
                                         "answer; long-running requests are left out.",
                                         server_only, seconds, sizeof(seconds) / sizeof(seconds[0]));
    b->failures = metric_family(m, METRIC_COUNTER, "mvproxy_back_failures_total",
                                "Requests to servers that failed, by reason.", server_reason, LIMIT_METRIC_SERIES);
    return b;
}

void back_set_connections(struct back *b, size_t most)
{
    b->shares.most = most == 0 || most > LIMIT_POOL_CONNECTIONS ? LIMIT_POOL_CONNECTIONS : most;
}

void back_set_claims(struct back *b, back_claims_fn *fn, void *arg)
{
    b->check.claims = fn;
    b->check.arg = arg;
}

bool back_name_claims(const struct back *b, struct slice name)
{
    struct http_field field = {.id = HTTP_NAME_OTHER, .name = name};
    const struct http_head head = {.fields = &field, .n_fields = 1};
    struct back_claims claims = {0, 0};

    if (b->check.claims != NULL)
        b->check.claims(&head, b->check.arg, &claims);
    return claims.users + claims.others > 0;
}

void back_free(struct back *b)
{
    struct list_node *n, *next;

    if (b == NULL)
        return;
    for (n = list_first(&b->origins); n != NULL; n = list_next(&b->origins, n)) {
        struct origin *o = list_entry(n, struct origin, node);

        for (size_t i = 0; i < POOL_KINDS; i++) {
            h2_pool_drop_all(o->pools[i]);
            pool_drop_all(o->pools[i]);
        }
    }
    while ((n = list_first(&b->failing)) != NULL)
        request_drop(list_entry(n, struct back_request, node));
    for (n = list_first(&b->origins); n != NULL; n = next) {
        struct origin *o = list_entry(n, struct origin, node);

        next = list_next(&b->origins, n);
        drop_pools(o);
        o->back = NULL; /* somebody still holds it, or what ends in this turn does; it is of no use */
    }
    arena_pool_free(&b->arenas);
    buf_free(&b->scratch);
    metrics_free(b->own_metrics);
    mem_free(b);
}

/* ---- requests ---- */

bool back_is_stranger(const struct back *b, const struct http_head *request)
{
    return bearer_is_stranger(b, request);
}

uint64_t back_bearer(const struct http_head *request)
{
    return bearer_hash(request);
}

bool back_bearer_was_taken(const struct back *b, uint64_t bearer)
{
    return bearer_was_taken(b, bearer);
}

struct back_request *back_start(struct back *b, const struct back_opts *o)
{
    struct back_request *r = request_new(b, o);

    if (r == NULL)
        return NULL;
    withhold_read(r);
    bearer_count(r, &r->pool->load);
    if (!o->proves_nothing)
        origin_note_deposit(r->origin, r->stranger);
    request_place(r, o->upgrade);
    return r;
}
