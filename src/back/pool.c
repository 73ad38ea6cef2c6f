#include "back/pool.h"

#include "back/h1_client.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "net/dial.h"
#include "net/stream.h"

enum {
    MAX_LOOKS = 4,        /* at idle connections, for one request */
    HELD_MS = 100,        /* those for whom no dial is made are looked at again */
    RELEASED_AT_ONCE = 4, /* of them: what a dial costs shows only when it was used */
};

static const char *const close_texts[CLOSE_REASONS] = {
    [CLOSE_CONNECT_FAILED] = "connect_failed",
    [CLOSE_IDLE_TIMEOUT] = "idle_timeout",
    [CLOSE_BY_SERVER] = "closed_by_server",
    [CLOSE_UNSOLICITED] = "unsolicited_bytes",
    [CLOSE_NOT_REUSABLE] = "not_reusable",
    [CLOSE_CANCELLED] = "cancelled",
    [CLOSE_BROKEN] = "broken",
    [CLOSE_UPGRADED] = "upgraded",
    [CLOSE_ORIGIN_GONE] = "origin_gone",
    [CLOSE_SURPLUS] = "surplus",
    [CLOSE_NO_HOP] = "no_mvproxy",
    [CLOSE_NO_HTTP2] = "no_http2",
    [CLOSE_GOAWAY] = "goaway",
    [CLOSE_PROTOCOL] = "protocol_error",
    [CLOSE_FLOW_CONTROL] = "flow_control",
    [CLOSE_FLOOD] = "flood",
    [CLOSE_PING_TIMEOUT] = "ping_timeout",
    [CLOSE_MAKE_ROOM] = "make_room",
    [CLOSE_NO_MEMORY] = "no_memory",
};

const char *pool_close_text(enum close_reason why)
{
    return close_texts[why];
}

static struct loop *loop_of(const struct pool *p)
{
    return p->origin->back->loop;
}

size_t pool_max(const struct pool *p)
{
    size_t max = p->origin->opts.max_connections;

    return max == 0 ? LIMIT_POOL_CONNECTIONS : max;
}

static size_t pool_open(const struct pool *p)
{
    return p->conns[CONN_DIALLING].count + p->conns[CONN_IDLE].count + p->conns[CONN_BUSY].count;
}

void pool_move(struct h1_client *c, enum conn_state to)
{
    struct pool *p = c->pool;

    if (list_linked(&c->node)) {
        list_remove(&p->conns[c->state], &c->node);
        metric_add(p->origin->m.conns[c->state], -1);
    }
    c->state = to;
    if (to == CONN_GONE)
        return;
    list_push_front(&p->conns[to], &c->node);
    metric_add(p->origin->m.conns[to], 1);
}

/* ------------------------------------------------------------------------------------------------------ dialling */

static void balance(struct pool *p);

/* There must be one. */
static struct back_request *first_waiting(struct pool *p)
{
    struct list_node *first = list_first(&p->waiting);

    contract(first != NULL);
    return list_entry(first, struct back_request, node);
}

static struct back_request *next_in_line(struct pool *p)
{
    struct list_node *n = list_first(&p->waiting);

    if (n == NULL)
        n = list_first(&p->held);
    return n == NULL ? NULL : list_entry(n, struct back_request, node);
}

static void dial_failed(struct h1_client *c, const char *failure)
{
    struct pool *p = c->pool;
    struct back_request *r = c->dedicated;

    origin_connect_failed(p->origin, failure);
    if (r == NULL)
        p->dialling_shared--;
    c->dial = NULL;
    c->dedicated = NULL;
    if (r == NULL && p->waiting.count > p->dialling_shared) {
        r = first_waiting(p);
        pool_stop_waiting(r);
    }
    if (r != NULL) {
        r->conn = NULL;
        request_fail(r, BACK_FAIL_CONNECT, failure);
    }
    h1_client_close(c, CLOSE_CONNECT_FAILED, failure);
}

struct tls_ctx *pool_tls(const struct pool *p)
{
    const struct origin_opts *o = &p->origin->opts;

    return p->kind == POOL_NO_CERT ? o->tls_no_cert : o->tls_cert;
}

bool pool_admits(const struct pool *p, const struct stream *s)
{
    if (p->kind == POOL_NO_CERT)
        return true;
    p->origin->pools[POOL_HOP].bare_until_ms = stream_is_hop(s) ? 0 : loop_now_ms(loop_of(p)) + TIMEOUT_BARE_MS;
    return p->kind == POOL_CERT || stream_is_hop(s);
}

/* No mvproxy is there: the connection is one for asserted users, and whoever wanted it goes without certificate. */
static void not_a_hop(struct h1_client *c, struct stream *s, struct back_request *dedicated)
{
    struct pool *p = c->pool;

    pool_adopt(&p->origin->pools[POOL_CERT], s);
    if (dedicated != NULL) {
        dedicated->conn = NULL;
        request_place(dedicated, true);
    } else {
        p->dialling_shared--;
    }
    while (p->waiting.count > 0) {
        struct back_request *r = first_waiting(p);

        pool_stop_waiting(r);
        request_place(r, false);
    }
    h1_client_close(c, CLOSE_NO_HOP, "");
}

static void on_dialled(struct stream *s, const char *failure, void *arg)
{
    struct h1_client *c = arg;
    struct pool *p = c->pool;
    struct back_request *r = c->dedicated;

    if (s == NULL) {
        dial_failed(c, failure);
        return;
    }
    origin_connected(p->origin);
    c->dial = NULL;
    c->dedicated = NULL;
    if (!pool_admits(p, s)) {
        not_a_hop(c, s, r);
        return;
    }
    h1_client_opened(c, s);
    if (r != NULL) {
        r->conn = NULL;
        h1_client_attach(c, r);
        return;
    }
    p->dialling_shared--;
    pool_put(c);
    balance(p);
}

struct dial *pool_dial(struct pool *p, bool http2, dial_fn *fn, void *arg)
{
    const struct origin_opts *o = &p->origin->opts;
    struct dial_opts d = {
        .host = o->host,
        .port = o->port,
        .tls = pool_tls(p),
        .timeout_ms = o->connect_timeout_ms,
        .http2 = http2,
        .allow = o->allow,
        .allow_arg = o->allow_arg,
        .via = o->via,
    };

    return dial_start(loop_of(p), &d, fn, arg);
}

void pool_adopt(struct pool *p, struct stream *s)
{
    struct h1_client *c = h1_client_new(p);

    if (c == NULL) {
        stream_close(s, STREAM_CLOSE_NOW);
        return;
    }
    p->origin->users++;
    h1_client_opened(c, s);
    pool_move(c, CONN_IDLE);
    pool_put(c);
}

static bool start_dial(struct pool *p, struct back_request *dedicated)
{
    struct h1_client *c = h1_client_new(p);

    if (c == NULL)
        return false;
    c->dial = pool_dial(p, false, on_dialled, c);
    if (c->dial == NULL) {
        h1_client_free(c);
        return false;
    }
    p->origin->users++;
    c->dedicated = dedicated;
    if (dedicated != NULL)
        dedicated->conn = c;
    else
        p->dialling_shared++;
    pool_move(c, CONN_DIALLING);
    return true;
}

/*
 * As many dials as requests wait, up to the limits. Not all at once: a burst is mostly served by the connections that
 * become free meanwhile, and a restarted server need not shake thousands of hands at the same time.
 */
static void balance(struct pool *p)
{
    while (p->waiting.count > p->dialling_shared && p->dialling_shared < LIMIT_POOL_DIALS &&
           pool_open(p) < pool_max(p)) {
        struct back_request *r;

        if (start_dial(p, NULL))
            continue;
        r = first_waiting(p); /* a dial that is not begun takes nobody off the list */
        pool_stop_waiting(r);
        request_fail(r, BACK_FAIL_MEMORY, "out of memory for a connection");
    }
}

/* ------------------------------------------------------------------------------------------------------- waiting */

void pool_stop_waiting(struct back_request *r)
{
    if (!list_linked(&r->node))
        return;
    if (r->waits_in != &r->pool->waiting && r->waits_in != &r->pool->held)
        r->pool->h2_waiting--;
    list_remove(r->waits_in, &r->node);
}

static void queue(struct list *l, struct back_request *r)
{
    r->waits_in = l;
    list_push_back(l, &r->node);
}

/* Their clients may have come out of debt. */
static void on_held_timer(void *arg)
{
    struct pool *p = arg;
    struct list_node *n = list_first(&p->held), *next;

    for (unsigned released = 0; n != NULL && released < RELEASED_AT_ONCE; n = next) {
        struct back_request *r = list_entry(n, struct back_request, node);

        next = list_next(&p->held, n);
        if (!request_may_dial(r))
            continue;
        list_remove(&p->held, n);
        queue(&p->waiting, r);
        released++;
    }
    if (p->held.count > 0)
        loop_timer_set(p->held_timer, HELD_MS);
    balance(p);
}

/* The time of the first in the list that has to wait on; 0: none has. */
static uint64_t give_up_on(struct list *l, uint64_t now, enum back_failure why)
{
    struct list_node *n;

    while ((n = list_first(l)) != NULL) {
        struct back_request *r = list_entry(n, struct back_request, node);

        if (r->give_up_ms > now)
            return r->give_up_ms;
        pool_stop_waiting(r);
        request_fail(r, why, "no connection became free in time");
    }
    return 0;
}

/* A dial ends in time by itself; this is for those who wait for connections that stay busy. */
static void on_wait_timer(void *arg)
{
    struct pool *p = arg;
    uint64_t now = loop_now_ms(loop_of(p));
    uint64_t waiting = give_up_on(&p->waiting, now, BACK_FAIL_BUSY);
    uint64_t held = give_up_on(&p->held, now, BACK_FAIL_CLIENT);

    if (waiting == 0 || (held != 0 && held < waiting))
        waiting = held;
    if (waiting != 0)
        loop_timer_set(p->wait_timer, waiting - now);
}

static void wait_in(struct pool *p, struct back_request *r)
{
    uint64_t patience = 2 * p->origin->opts.connect_timeout_ms;
    bool may_dial = request_may_dial(r);
    struct list *line = may_dial ? &p->waiting : &p->held;

    if (line->count >= LIMIT_POOL_WAITING) {
        request_fail(r, may_dial ? BACK_FAIL_BUSY : BACK_FAIL_CLIENT, "too many requests wait for a connection");
        return;
    }
    r->give_up_ms = loop_now_ms(loop_of(p)) + patience;
    if (!loop_timer_pending(p->wait_timer))
        loop_timer_set(p->wait_timer, patience);
    queue(line, r);
    if (may_dial)
        balance(p);
    else if (!loop_timer_pending(p->held_timer))
        loop_timer_set(p->held_timer, HELD_MS);
}

/*
 * Bytes that have come before the request was sent are no answer to it, but would be taken for one: then each answer on
 * this connection would go to the request, and perhaps the user, after the right one. The read event will judge it.
 */
static bool is_quiet(const struct h1_client *c)
{
    return c->served == 0 || stream_is_quiet(c->stream);
}

static struct h1_client *find_idle(const struct pool *p)
{
    struct list_node *n = list_first(&p->conns[CONN_IDLE]);

    for (unsigned i = 0; i < MAX_LOOKS && n != NULL; i++, n = list_next(&p->conns[CONN_IDLE], n))
        if (is_quiet(list_entry(n, struct h1_client, node)))
            return list_entry(n, struct h1_client, node);
    return NULL;
}

void pool_take(struct pool *p, struct back_request *r, bool fresh)
{
    struct h1_client *c = fresh ? NULL : find_idle(p);

    if (c != NULL)
        h1_client_attach(c, r);
    else if (!fresh)
        wait_in(p, r);
    else if (pool_open(p) >= pool_max(p))
        request_fail(r, BACK_FAIL_BUSY, "too many connections");
    else if (!request_may_dial(r))
        request_fail(r, BACK_FAIL_CLIENT, "its client has wasted too many connections");
    else if (!start_dial(p, r))
        request_fail(r, BACK_FAIL_MEMORY, "out of memory for a connection");
}

/* ---------------------------------------------------------------------------------------------------------- idle */

static void on_idle_timer(void *arg)
{
    struct pool *p = arg;
    uint64_t now = loop_now_ms(loop_of(p));

    while (p->conns[CONN_IDLE].count > 0) {
        struct h1_client *c = list_entry(list_last(&p->conns[CONN_IDLE]), struct h1_client, node);
        uint64_t end = c->idle_since_ms + p->origin->opts.idle_timeout_ms;

        if (end > now) {
            loop_timer_set(p->idle_timer, end - now);
            return;
        }
        h1_client_close(c, CLOSE_IDLE_TIMEOUT, "");
    }
}

void pool_put(struct h1_client *c)
{
    struct pool *p = c->pool;

    struct back_request *r = next_in_line(p);

    if (r != NULL && !is_quiet(c)) {
        h1_client_close(c, CLOSE_UNSOLICITED, "");
        return;
    }
    if (r != NULL) {
        pool_stop_waiting(r);
        h1_client_attach(c, r);
        return;
    }
    if (p->origin->refs == 0 || p->conns[CONN_IDLE].count >= LIMIT_POOL_IDLE_PER_ORIGIN) {
        h1_client_close(c, p->origin->refs == 0 ? CLOSE_ORIGIN_GONE : CLOSE_SURPLUS, "");
        return;
    }
    c->idle_since_ms = loop_now_ms(loop_of(p));
    pool_move(c, CONN_IDLE);
    if (!loop_timer_pending(p->idle_timer))
        loop_timer_set(p->idle_timer, p->origin->opts.idle_timeout_ms);
}

void pool_forget(struct h1_client *c, enum close_reason why, const char *detail)
{
    struct pool *p = c->pool;
    struct back *b = p->origin->back;
    struct slice labels[2] = {slice_str(p->origin->name), slice_str(close_texts[why])};

    if (c->dial != NULL) {
        dial_cancel(c->dial);
        c->dial = NULL;
        if (c->dedicated == NULL)
            p->dialling_shared--;
    }
    pool_move(c, CONN_GONE);
    metric_inc(metric_child(b->closes, labels));
    log_v(4, "Closed back connection", LT("origin", p->origin->name), LT("reason", close_texts[why]),
          LT("detail", detail), LU("requests", c->served));
    back_bury_conn(b, c);
    balance(p);
}

void pool_close_idle(struct pool *p, enum close_reason why)
{
    struct list_node *n;

    while ((n = list_first(&p->conns[CONN_IDLE])) != NULL)
        h1_client_close(list_entry(n, struct h1_client, node), why, "");
}

bool pool_init(struct pool *p, struct origin *o, enum pool_kind kind)
{
    p->origin = o;
    p->kind = kind;
    for (size_t i = 0; i < CONN_GONE; i++)
        list_init(&p->conns[i]);
    list_init(&p->waiting);
    list_init(&p->held);
    list_init(&p->h2_clients);
    p->idle_timer = loop_timer_new(o->back->loop, on_idle_timer, p);
    p->wait_timer = loop_timer_new(o->back->loop, on_wait_timer, p);
    p->held_timer = loop_timer_new(o->back->loop, on_held_timer, p);
    return p->idle_timer != NULL && p->wait_timer != NULL && p->held_timer != NULL;
}

void pool_release(struct pool *p)
{
    loop_timer_free(p->idle_timer);
    loop_timer_free(p->wait_timer);
    loop_timer_free(p->held_timer);
    p->idle_timer = p->wait_timer = p->held_timer = NULL;
}
