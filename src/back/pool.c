/* SPDX-License-Identifier: Apache-2.0 */
#include "back/pool.h"

#include "back/h1_client.h"
#include "base/clock.h"
#include "base/contract.h"
#include "base/limits.h"
#include "net/dial.h"
#include "net/stream.h"

enum {
    MAX_LOOKS = 4,        /* at idle connections, for one request */
    ENDED_AT_ONCE = 32,   /* idle connections: with TLS each is a record, and some 10 us */
    HELD_MS = 100,        /* those for whom no dial is made are looked at again */
    RELEASED_AT_ONCE = 4, /* of them: what a dial costs shows only when it was used */
    FEW = 32,             /* connections of a client: it waits with those who have none */
    FAILED_AT_ONCE = 32,  /* of those who wait: whose clients hold too much, or whose time is over */
    PLACED_AT_ONCE = 32,  /* of those who are in the wrong pool */
    AGAIN_MS = 1,
};

#define NO_ROOM_TEXT "out of memory for a connection"
#define HOLDS_MUCH_TEXT "its client holds too much for another connection"

static struct loop *loop_of(const struct pool *p)
{
    return p->origin->back->loop;
}

size_t pool_max(const struct pool *p)
{
    size_t max = p->origin->opts.max_connections;

    return max == 0 ? LIMIT_POOL_CONNECTIONS : max;
}

static struct pool *pool_of(struct h1_client *c)
{
    return list_entry(c->home, struct pool, h1);
}

static size_t pool_open(const struct pool *p)
{
    return p->h1.by_state[CONN_DIALLING].count + p->h1.by_state[CONN_IDLE].count + p->h1.by_state[CONN_BUSY].count;
}

/* ---- dialling ---- */

static void balance(struct pool *p);
static void put(struct h1_client *c);

static size_t n_waiting(const struct pool *p)
{
    return p->waiting.requests.count + p->crowd.requests.count;
}

static struct back_request *next_to_dial(const struct pool *p)
{
    struct back_request *r = line_first(p->crowd_is_next ? &p->crowd : &p->waiting);

    return r != NULL ? r : line_first(p->crowd_is_next ? &p->waiting : &p->crowd);
}

static struct back_request *next_in_line(const struct pool *p)
{
    struct back_request *r = next_to_dial(p);

    return r != NULL ? r : line_first(&p->held);
}

static void call(struct pool *p, struct back_request *r)
{
    request_stop_waiting(r);
    p->crowd_is_next = !p->crowd_is_next;
}

static void dial_failed(struct h1_client *c, struct back_request *r, const char *failure)
{
    struct pool *p = pool_of(c);

    if (r == NULL && n_waiting(p) > p->dialling_shared) {
        r = next_to_dial(p);
        call(p, r);
    }
    if (r != NULL)
        request_fail(r, origin_failure(p->origin), failure);
    h1_client_close(c, CLOSE_CONNECT_FAILED, failure);
}

struct tls_ctx *pool_tls(const struct pool *p)
{
    const struct origin_opts *o = &p->origin->opts;

    return p->kind == POOL_NO_CERT ? o->tls_no_cert : o->tls_cert;
}

bool pool_is_bare(const struct pool *p)
{
    return p->kind == POOL_HOP && loop_now_ms(loop_of(p)) < p->bare_until_ms;
}

bool pool_admits(const struct pool *p, const struct stream *s)
{
    if (p->kind == POOL_NO_CERT)
        return true;
    p->origin->pools[POOL_HOP]->bare_until_ms = stream_is_hop(s) ? 0 : loop_now_ms(loop_of(p)) + TIMEOUT_BARE_MS;
    return p->kind == POOL_CERT || stream_is_hop(s);
}

/* Of thousands who wait no turn moves all. A dial that finds an mvproxy after all is for those who are left. */
static void leave_some(void *arg)
{
    struct pool *p = arg;
    struct back_request *r;

    for (unsigned i = 0; i < PLACED_AT_ONCE && pool_is_bare(p) && (r = next_in_line(p)) != NULL; i++) {
        request_stop_waiting(r);
        request_place(r, false);
    }
    if (pool_is_bare(p) && next_in_line(p) != NULL)
        lifetime_queue(&p->leave);
    else
        balance(p);
}

/* No mvproxy is there: the connection is one for asserted users, and whoever wanted it goes without certificate. */
static void not_a_hop(struct h1_client *c, struct stream *s, struct back_request *dedicated)
{
    struct pool *p = pool_of(c);

    pool_adopt(p->origin->pools[POOL_CERT], s);
    if (dedicated != NULL)
        request_place(dedicated, true);
    lifetime_queue(&p->leave);
    h1_client_close(c, CLOSE_NO_HOP, "");
}

static void on_dialled(struct stream *s, const char *failure, void *arg)
{
    struct h1_client *c = arg;
    struct pool *p = pool_of(c);
    struct back_request *r = h1_client_dialled(c);

    must_hold(r != NULL || p->dialling_shared > 0);
    if (r == NULL)
        p->dialling_shared--;
    if (s == NULL) {
        origin_connect_failed(p->origin, failure);
        dial_failed(c, r, failure);
        return;
    }
    if (origin_refuses(p->origin, s)) {
        stream_close(s, STREAM_CLOSE_NOW);
        dial_failed(c, r, ORIGIN_LOOP_TEXT);
        return;
    }
    origin_connected(p->origin);
    if (!pool_admits(p, s)) {
        not_a_hop(c, s, r);
        return;
    }
    h1_client_opened(c, s);
    if (r != NULL) {
        h1_client_attach(c, r);
        return;
    }
    put(c);
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
        .egress = o->egress,
    };

    return dial_start(loop_of(p), &d, fn, arg);
}

void pool_adopt(struct pool *p, struct stream *s)
{
    struct h1_client *c = h1_client_new(&p->h1);

    if (c == NULL) {
        stream_close(s, STREAM_CLOSE_NOW);
        return;
    }
    h1_client_opened(c, s);
    put(c);
}

static bool start_dial(struct pool *p, struct back_request *dedicated)
{
    struct h1_client *c = h1_client_new(&p->h1);
    struct dial *d = c == NULL ? NULL : pool_dial(p, false, on_dialled, c);

    if (d == NULL) {
        if (c != NULL)
            h1_client_discard(c);
        return false;
    }
    p->dialling_shared += dedicated == NULL;
    h1_client_dials(c, d, dedicated);
    return true;
}

/*
 * As many dials as requests wait, up to the limits. Not all at once: a burst is mostly served by the connections that
 * become free meanwhile, and a restarted server need not shake thousands of hands at the same time.
 */
static void balance(struct pool *p)
{
    if (lifetime_queued(&p->leave)) /* those who wait want no dial here */
        return;
    while (n_waiting(p) > p->dialling_shared && p->dialling_shared < LIMIT_POOL_DIALS && pool_open(p) < pool_max(p)) {
        struct back_request *r;

        if (start_dial(p, NULL))
            continue;
        r = next_to_dial(p); /* a dial that is not begun takes nobody off the list */
        call(p, r);
        request_fail(r, BACK_FAIL_MEMORY, NO_ROOM_TEXT);
    }
}

/* ---- waiting ---- */

/* Their clients may have come out of debt. */
static void on_held_timer(void *arg)
{
    struct pool *p = arg;
    struct list *held = &p->held.requests;
    struct list_node *n = list_first(held), *next;

    for (unsigned released = 0; n != NULL && released < RELEASED_AT_ONCE; n = next) {
        struct back_request *r = list_entry(n, struct back_request, node);

        next = list_next(held, n);
        if (!request_may_dial(r))
            continue;
        request_stop_waiting(r);
        request_wait_by_time(r, &p->waiting);
        released++;
    }
    if (held->count > 0)
        loop_timer_set(p->held_timer, HELD_MS);
    balance(p);
}

/* When the line is to be looked at next; 0: nobody is in it. */
static uint64_t give_up_on(struct line *l, uint64_t now, enum back_failure why)
{
    struct back_request *r;

    for (unsigned failed = 0; (r = line_first(l)) != NULL; failed++) {
        if (r->give_up_ms > now)
            return r->give_up_ms;
        if (failed == FAILED_AT_ONCE)
            return now + AGAIN_MS;
        request_stop_waiting(r);
        request_fail(r, why, "no connection became free in time");
    }
    return 0;
}

static void sooner(uint64_t *at, uint64_t other)
{
    if (*at == 0 || (other != 0 && other < *at))
        *at = other;
}

/* A dial ends in time by itself; this is for those who wait for connections that stay busy. */
static void on_wait_timer(void *arg)
{
    struct pool *p = arg;
    uint64_t now = loop_now_ms(loop_of(p));
    uint64_t at = give_up_on(&p->waiting, now, BACK_FAIL_BUSY);

    sooner(&at, give_up_on(&p->crowd, now, BACK_FAIL_BUSY));
    sooner(&at, give_up_on(&p->held, now, BACK_FAIL_CLIENT));
    if (at != 0)
        loop_timer_set(p->wait_timer, at - now);
}

static void wait_in(struct pool *p, struct back_request *r)
{
    uint64_t patience = 2 * p->origin->opts.connect_timeout_ms;
    bool may_dial = request_may_dial(r);
    struct line *line = !may_dial ? &p->held : request_shares(r) > FEW ? &p->crowd : &p->waiting;

    if (line->requests.count >= LIMIT_POOL_WAITING) {
        request_fail(r, may_dial ? BACK_FAIL_BUSY : BACK_FAIL_CLIENT, "too many requests wait for a connection");
        return;
    }
    r->give_up_ms = loop_now_ms(loop_of(p)) + patience;
    if (!loop_timer_pending(p->wait_timer))
        loop_timer_set(p->wait_timer, patience);
    request_wait_in(r, line);
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
    const struct list *idle = &p->h1.by_state[CONN_IDLE];
    struct list_node *n = list_first(idle);

    for (size_t i = 0; n != NULL && i < MAX_LOOKS && i + p->ending < idle->count; i++, n = list_next(idle, n))
        if (is_quiet(list_entry(n, struct h1_client, node)))
            return list_entry(n, struct h1_client, node);
    return NULL;
}

void pool_take(struct pool *p, struct back_request *r, bool fresh)
{
    struct h1_client *c = fresh ? NULL : find_idle(p);

    if (!request_take_share(r))
        request_fail(r, BACK_FAIL_CLIENT, "its client has its share of connections");
    else if (!h1_client_is_affordable(r))
        request_fail(r, BACK_FAIL_CLIENT, HOLDS_MUCH_TEXT);
    else if (c != NULL)
        h1_client_attach(c, r);
    else if (!fresh)
        wait_in(p, r);
    else if (pool_open(p) >= pool_max(p))
        request_fail(r, BACK_FAIL_BUSY, "too many connections");
    else if (!request_may_dial(r))
        request_fail(r, BACK_FAIL_CLIENT, "its client has wasted too many connections");
    else if (!start_dial(p, r))
        request_fail(r, BACK_FAIL_MEMORY, NO_ROOM_TEXT);
}

/* ---- idle ---- */

static void on_idle_timer(void *arg)
{
    struct pool *p = arg;
    uint64_t now = loop_now_ms(loop_of(p));

    while (p->h1.by_state[CONN_IDLE].count > 0) {
        struct h1_client *c = list_entry(list_last(&p->h1.by_state[CONN_IDLE]), struct h1_client, node);
        uint64_t end = c->idle_since_ms + p->origin->opts.idle_timeout_ms;

        if (end > now) {
            loop_timer_set(p->idle_timer, end - now);
            return;
        }
        h1_client_close(c, CLOSE_IDLE_TIMEOUT, "");
    }
}

/* Who has come to hold too much while he waited has no connection any more. Not all of them in one turn: NULL, and
 * somebody may wait all the same. */
static struct back_request *next_to_serve(struct pool *p)
{
    for (unsigned failed = 0; failed < FAILED_AT_ONCE; failed++) {
        struct back_request *r = next_in_line(p);

        if (r == NULL || h1_client_is_affordable(r))
            return r;
        call(p, r);
        request_fail(r, BACK_FAIL_CLIENT, HOLDS_MUCH_TEXT);
    }
    return NULL;
}

/* Somebody waits, and there is an idle connection. */
static void on_serve(void *arg)
{
    struct pool *p = arg;
    struct back_request *r = next_to_serve(p);
    struct h1_client *c = find_idle(p);

    if (r != NULL && c != NULL) {
        call(p, r);
        h1_client_attach(c, r);
    } else if (c != NULL && next_in_line(p) != NULL) {
        lifetime_queue(&p->serve);
    }
}

/* It can serve: whoever waits first, else it is idle. */
static void put(struct h1_client *c)
{
    struct pool *p = pool_of(c);
    struct back_request *r = next_to_serve(p);

    if (r != NULL && !is_quiet(c)) {
        h1_client_close(c, CLOSE_UNSOLICITED, "");
        return;
    }
    if (r != NULL) {
        call(p, r);
        h1_client_attach(c, r);
        return;
    }
    if (p->origin->refs == 0 || p->h1.by_state[CONN_IDLE].count >= LIMIT_POOL_IDLE_PER_ORIGIN) {
        h1_client_close(c, p->origin->refs == 0 ? CLOSE_ORIGIN_GONE : CLOSE_SURPLUS, "");
        return;
    }
    h1_client_idle(c);
    if (next_in_line(p) != NULL)
        lifetime_queue(&p->serve);
    if (!loop_timer_pending(p->idle_timer))
        loop_timer_set(p->idle_timer, p->origin->opts.idle_timeout_ms);
}

/* Those who wait may have another. */
static void gone(struct h1_client *c)
{
    struct pool *p = pool_of(c);

    if (c->dial != NULL && c->dedicated == NULL) {
        must_hold(p->dialling_shared > 0);
        p->dialling_shared--;
    }
    balance(p);
}

/* Those that were idle then are the last of the list, or have ended by themselves. */
static void end_some(void *arg)
{
    struct pool *p = arg;
    const struct list *idle = &p->h1.by_state[CONN_IDLE];

    for (unsigned i = 0; i < ENDED_AT_ONCE && p->ending > 0 && idle->count > 0; i++) {
        p->ending--;
        h1_client_close(list_entry(list_last(idle), struct h1_client, node), p->ending_why, "");
    }
    if (idle->count == 0)
        p->ending = 0;
    if (p->ending > 0)
        lifetime_queue(&p->end);
}

void pool_close_idle(struct pool *p, enum close_reason why)
{
    p->ending = p->h1.by_state[CONN_IDLE].count;
    p->ending_why = why;
    end_some(p);
}

static void on_silent(void *arg)
{
    struct pool *p = arg;

    p->origin->back->give_up(p);
}

static void on_h2_place(void *arg)
{
    struct pool *p = arg;

    p->origin->back->place_waiting(p);
}

void pool_is_silent(struct pool *p)
{
    lifetime_queue(&p->silent);
}

void pool_give_up(struct pool *p, struct giving_up *g)
{
    struct list *busy = &p->h1.by_state[CONN_BUSY];

    /* First, so that nothing is dialled for them. */
    line_give_up(&p->waiting, g);
    line_give_up(&p->crowd, g);
    line_give_up(&p->held, g);
    for (struct list_node *n = list_first(busy), *next; n != NULL && g->left > 0; n = next) {
        next = list_next(busy, n);
        request_give_up(list_entry(n, struct h1_client, node)->request, g);
    }
}

/* Who has come since the server is silent waits as long as everybody. */
static bool has_waited(const struct h1_client *c)
{
    return clock_us() - c->request->started_us >= origin_patience_ms(c->origin) * 1000;
}

void pool_end_busy(struct pool *p, struct giving_up *g)
{
    struct list *busy = &p->h1.by_state[CONN_BUSY];

    for (struct list_node *n = list_first(busy), *next; n != NULL && g->left > 0; n = next) {
        struct h1_client *c = list_entry(n, struct h1_client, node);

        next = list_next(busy, n);
        g->left -= has_waited(c) && h1_client_give_up(c, g->text);
    }
}

void pool_drop_all(struct pool *p)
{
    struct list_node *n;
    struct back_request *r;

    while ((r = next_in_line(p)) != NULL)
        request_drop(r);
    for (size_t state = 0; state < CONN_GONE; state++)
        while ((n = list_first(&p->h1.by_state[state])) != NULL) {
            struct h1_client *c = list_entry(n, struct h1_client, node);

            r = c->request != NULL ? c->request : c->dedicated;
            if (r != NULL)
                request_drop(r);
            else
                h1_client_close(c, CLOSE_ORIGIN_GONE, "");
        }
}

/* Whoever is on one of its lists would find it gone. */
static void free_pool(void *arg)
{
    struct pool *p = arg;
    struct list_node *n;

    must_hold(n_waiting(p) + p->held.requests.count + p->h2_clients.count + p->h2_waiting == 0);
    while ((n = list_pop_front(&p->h2_lines)) != NULL)
        mem_free(list_entry(n, struct h2_line, node));
    for (size_t i = 0; i < CONN_GONE; i++)
        must_hold(p->h1.by_state[i].count == 0);
    mem_free(p);
}

struct pool *pool_new(struct origin *o, enum pool_kind kind)
{
    struct pool *p = mem_zalloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    p->origin = p->h1.origin = o;
    p->h1.free = put;
    p->h1.gone = gone;
    p->kind = p->h1.kind = kind;
    for (size_t i = 0; i < CONN_GONE; i++)
        list_init(&p->h1.by_state[i]);
    line_init(&p->waiting, NULL);
    line_init(&p->crowd, NULL);
    line_init(&p->held, NULL);
    list_init(&p->h2_clients);
    list_init(&p->h2_lines);
    lifetime_init(&p->life, o->back->loop, "pool");
    lifetime_work_init(&p->life, &p->silent, LOOP_DEFERRED, on_silent, p);
    lifetime_work_init(&p->life, &p->serve, LOOP_DEFERRED, on_serve, p);
    lifetime_work_init(&p->life, &p->end, LOOP_DEFERRED, end_some, p);
    lifetime_work_init(&p->life, &p->leave, LOOP_DEFERRED, leave_some, p);
    lifetime_work_init(&p->life, &p->h2_place, LOOP_DEFERRED, on_h2_place, p);
    p->idle_timer = lifetime_timer(&p->life, on_idle_timer, p);
    p->wait_timer = lifetime_timer(&p->life, on_wait_timer, p);
    p->held_timer = lifetime_timer(&p->life, on_held_timer, p);
    if (p->idle_timer != NULL && p->wait_timer != NULL && p->held_timer != NULL)
        return p;
    pool_free(p);
    return NULL;
}

void pool_free(struct pool *p)
{
    if (p != NULL)
        lifetime_retire(&p->life, free_pool, p);
}
