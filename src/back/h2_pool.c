/* SPDX-License-Identifier: Apache-2.0 */
#include "back/h2_pool.h"

#include <stdio.h>

#include "back/bearers.h"
#include "back/h2_session.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/h2_fields.h"

enum { PLACED_AT_ONCE = 32 }; /* of those who wait, in a turn: some 10 us each */

static const struct h2_events events;

static uint64_t now_of(const struct pool *p)
{
    return loop_now_ms(p->life.loop);
}

/* ---- whose requests share a connection ---- */

/* As h2_client.credential: NONE is everybody's. */
static struct slice credential_of(const struct back_request *r)
{
    return bearer_is_shared(r) ? SLICE_NONE : bearer_of(r->opts.head);
}

/* The price of a short one is small, and large uploads are what HTTP/1.1 is better at. */
static bool has_fit_body(const struct back_request *r)
{
    const struct http_body *body = &r->opts.body;

    return body->kind == HTTP_BODY_NONE ||
           (body->kind == HTTP_BODY_LENGTH && body->length <= LIMIT_H2_BACK_UPLOAD_LENGTH);
}

/*
 * A head of one frame. A longer one may be more than the server reads (its SETTINGS_MAX_HEADER_LIST_SIZE, or a number
 * of CONTINUATION frames), and servers end the connection for that, with the requests of everybody on it; on HTTP/1.1
 * it is answered with 431.
 */
static bool has_fit_head(const struct back_request *r)
{
    const struct http_head *h = r->opts.head;
    size_t n = h->target.n;

    for (size_t i = 0; i < h->n_fields; i++)
        n += h->fields[i].name.n + h->fields[i].value.n + H2_FIELD_OVERHEAD;
    return n <= LIMIT_H2_BACK_HEAD;
}

bool h2_pool_serves(const struct back_request *r)
{
    const struct pool *p = r->pool;

    if (r->opts.http2 == BACK_HTTP1 || r->http1 || r->opts.upgrade || !has_fit_body(r) ||
        http_head_find(r->opts.head, HTTP_EXPECT) != NULL) /* over HTTP/2 kube-apiserver does not heed it */
        return false;
    if (pool_tls(p) == NULL) /* without ALPN nobody can tell */
        return false;
    if (r->opts.http2_if_busy && (r->load == NULL || !r->load->on))
        return false;
    return now_of(p) >= p->http1_until_ms && (bearer_is_shared(r) || r->bearer != 0) && has_fit_head(r);
}

static bool is_of(const struct h2_client *c, struct slice credential)
{
    if (c->credential == NULL || credential.p == NULL)
        return c->credential == NULL && credential.p == NULL;
    return slice_eq(slice_of(c->credential, c->credential_len), credential);
}

/* ---- which one ---- */

/*
 * One with room, best one without bulk: what is small does not wait behind what is large. *n is how many there are if
 * it has some.
 */
static struct h2_client *find_open(const struct pool *p, const struct back_request *r, size_t *n_open)
{
    struct slice credential = credential_of(r);
    struct h2_client *used = bearer_is_shared(r) ? NULL : bearer_slot(r)->used;
    struct h2_client *best = NULL;
    struct list_node *n;

    *n_open = 0;
    /* Of tokens there are hundreds, each with its connection. */
    if (used != NULL && used->pool == p && used->bulk == 0 && is_of(used, credential) && h2_client_has_room(used))
        return used;
    for (n = list_first(&p->h2_clients); n != NULL; n = list_next(&p->h2_clients, n)) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        if (!is_of(c, credential) || !h2_client_has_room(c))
            continue;
        if (c->bulk == 0)
            return c;
        if (best == NULL || c->bulk < best->bulk)
            best = c;
        ++*n_open;
    }
    return best;
}

/* Who waits for one that is being made; NULL: none is. */
static struct h2_line *find_line(const struct pool *p, struct slice credential)
{
    struct list_node *n;

    for (n = list_first(&p->h2_clients); n != NULL; n = list_next(&p->h2_clients, n)) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        if (c->line != NULL && is_of(c, credential))
            return c->line;
    }
    return NULL;
}

/* One that nghttp2 is at work on is not: its owner is in there, and it looks after itself when he returns. */
static bool is_idle(const struct h2_client *c)
{
    return c->state == H2C_OPEN && c->calls.count == 0 && c->broken == CLOSE_REASONS && !c->in_session;
}

/* The one that has been idle for longest; it is not that often that the list is walked. */
static bool make_room(struct pool *p)
{
    struct h2_client *oldest = NULL;
    struct list_node *n;

    for (n = list_first(&p->h2_clients); n != NULL; n = list_next(&p->h2_clients, n)) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        if (is_idle(c) && (oldest == NULL || c->idle_since_ms < oldest->idle_since_ms))
            oldest = c;
    }
    if (oldest != NULL)
        h2_client_close(oldest, CLOSE_MAKE_ROOM, "");
    return oldest != NULL;
}

static struct h2_line *line_new(struct pool *p)
{
    struct h2_line *l = mem_zalloc(sizeof(*l));

    if (l == NULL)
        return NULL;
    line_init(&l->waiting, &p->h2_waiting);
    list_push_back(&p->h2_lines, &l->node);
    return l;
}

static bool is_over(const struct h2_line *l)
{
    return l->coming + l->waiting.requests.count == 0;
}

static void free_if_over(struct pool *p, struct h2_line *l)
{
    if (!is_over(l))
        return;
    list_remove(&p->h2_lines, &l->node);
    mem_free(l);
}

/* Another one for those in the line, or for a line that begins with it: NULL. Returns the line, or NULL. */
static struct h2_line *make(struct pool *p, const struct back_request *r, struct h2_line *l)
{
    struct h2_client *c = NULL;

    if (p->h2_dials >= LIMIT_H2_BACK_DIALS || !bearer_may_connect(r))
        return NULL;
    if ((p->h2_clients.count >= LIMIT_H2_BACK_CONNECTIONS || p->h2_clients.count >= pool_max(p)) && !make_room(p))
        return NULL;
    if (l == NULL)
        l = line_new(p);
    if (l != NULL)
        c = h2_client_new(p, credential_of(r), &events);
    if (c == NULL) {
        if (l != NULL)
            free_if_over(p, l);
        return NULL;
    }
    c->bearer = r->bearer;
    c->line = l;
    l->coming++;
    return l;
}

/*
 * So many need more than what is being made, if the server allows as many streams as we do. What fails is not made
 * again and again while some are still being tried: those who wait would wait for the last.
 */
static bool is_short(const struct pool *p, const struct h2_line *l, size_t requests)
{
    return requests > l->coming * LIMIT_H2_BACK_STREAMS && (l->coming == 0 || !origin_unreachable(p->origin));
}

/* All connections move large answers: the next request, and not this one, finds another. */
static void spread(struct pool *p, const struct back_request *r, size_t n_open)
{
    if (n_open < LIMIT_H2_BACK_SPREAD && find_line(p, credential_of(r)) == NULL)
        (void)make(p, r, NULL);
}

/* On one that is open. False: none has room. */
static bool start(struct pool *p, struct back_request *r)
{
    size_t n_open;
    struct h2_client *c = find_open(p, r, &n_open);

    if (c == NULL)
        return false;
    if (c->bulk > 0)
        spread(p, r, n_open);
    must_hold(bearer_is_shared(r) || c->bearer == r->bearer); /* gone() finds it there */
    if (!bearer_is_shared(r))
        bearer_slot(r)->used = c;
    request_stop_waiting(r);
    h2_call_start(c, r);
    return true;
}

bool h2_pool_take(struct pool *p, struct back_request *r)
{
    struct h2_line *l, *made = NULL;

    if (start(p, r))
        return true;
    if (p->h2_waiting >= LIMIT_POOL_WAITING) {
        request_fail(r, BACK_FAIL_BUSY, "too many requests wait for an HTTP/2 connection");
        return true;
    }
    l = find_line(p, credential_of(r));
    if (l == NULL || is_short(p, l, l->waiting.requests.count + 1))
        made = make(p, r, l);
    if (l == NULL)
        l = made;
    if (l == NULL)
        return false;
    if (r->give_up_ms == 0)
        r->give_up_ms = now_of(p) + 2 * p->origin->opts.connect_timeout_ms;
    request_wait_in(r, &l->waiting);
    return true;
}

/* ---- what becomes of those who wait ---- */

static void fail(struct back_request *r, enum back_failure why, const char *text)
{
    request_stop_waiting(r);
    request_fail(r, why, text);
}

static void place_anew(struct back_request *r)
{
    request_stop_waiting(r);
    request_place(r, false);
}

/* A connection that it can wait for. */
static bool one_comes(struct pool *p, struct h2_line *l, const struct back_request *r)
{
    return (is_short(p, l, l->waiting.requests.count) && make(p, r, l) != NULL) ||
           find_line(p, credential_of(r)) != NULL;
}

/* That there is nothing for one is so for all behind it: there may be a thousand connections to look through. */
static void place_some(struct pool *p, struct h2_line *l, size_t *left)
{
    uint64_t now = now_of(p);
    struct back_request *r;
    bool room = true, hope = true;

    for (; *left > 0 && (r = line_first(&l->waiting)) != NULL; --*left) {
        if (l->failing > 0) {
            l->failing--;
            fail(r, origin_failure(p->origin), l->failure);
            continue;
        }
        if (now < p->http1_until_ms || pool_is_bare(p)) {
            place_anew(r);
            continue;
        }
        room = room && start(p, r);
        if (room)
            continue;
        if (now >= r->give_up_ms) {
            fail(r, BACK_FAIL_BUSY, "no HTTP/2 connection had room in time");
            continue;
        }
        hope = hope && one_comes(p, l, r);
        if (hope)
            return; /* they keep their places */

        r->http1 = true; /* nothing else is to be had */
        place_anew(r);
    }
    if (l->waiting.requests.count == 0)
        l->failing = 0; /* some were cancelled meanwhile */
}

void h2_pool_place_waiting(struct pool *p)
{
    size_t left = PLACED_AT_ONCE;

    for (struct list_node *n = list_first(&p->h2_lines), *next; n != NULL && left > 0; n = next) {
        struct h2_line *l = list_entry(n, struct h2_line, node);

        place_some(p, l, &left);
        next = list_next(&p->h2_lines, n);
        if (left == 0) { /* the others come first then */
            list_remove(&p->h2_lines, n);
            list_push_back(&p->h2_lines, n);
            lifetime_queue(&p->h2_place);
        }
        free_if_over(p, l);
    }
}

/* Who waits for this one has to be looked at: it may have been the last. */
static struct h2_line *leave_line(struct h2_client *c)
{
    struct h2_line *l = c->line;

    c->line = NULL;
    must_hold(l->coming > 0);
    l->coming--;
    lifetime_queue(&c->pool->h2_place);
    return l;
}

/* Some at once, so that they leave together. */
static void opened(struct h2_client *c)
{
    size_t left = PLACED_AT_ONCE;

    place_some(c->pool, leave_line(c), &left);
}

static void refused(struct h2_client *c)
{
    struct pool *p = c->pool;

    log_v(2, "Server does not offer HTTP/2; requests go over HTTP/1.1", LT("server", p->origin->server));
    p->http1_until_ms = now_of(p) + TIMEOUT_HTTP2_REFUSED_MS;
    (void)leave_line(c);
}

static void not_a_hop(struct h2_client *c)
{
    (void)leave_line(c);
}

/* They fail who have waited longest: its part of them, and with the last connection all. */
static void failed(struct h2_client *c, const char *failure)
{
    struct h2_line *l;
    size_t left;

    if (c->line == NULL)
        return;
    l = leave_line(c);
    if (l->failing > l->waiting.requests.count)
        l->failing = l->waiting.requests.count;
    left = l->waiting.requests.count - l->failing;
    l->failing += (left + l->coming) / (l->coming + 1);
    (void)snprintf(l->failure, sizeof(l->failure), "%s", failure);
}

static void gone(struct h2_client *c)
{
    struct bearer *slot = &c->origin->back->bearers[c->bearer % LIMIT_ACCEPTED_BEARERS];

    if (slot->used == c)
        slot->used = NULL;
}

static const struct h2_events events = {
    .session = h2_client_session_new,
    .lost = h2_call_lost,
    .opened = opened,
    .refused = refused,
    .not_a_hop = not_a_hop,
    .failed = failed,
    .gone = gone,
};

/* ---- all of them ---- */

void h2_pool_close_idle(struct pool *p, enum close_reason why)
{
    struct list_node *n = list_first(&p->h2_clients), *next;

    for (; n != NULL; n = next) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        next = list_next(&p->h2_clients, n);
        if (is_idle(c))
            h2_client_close(c, why, "");
    }
}

void h2_pool_doubt(struct pool *p)
{
    for (struct list_node *n = list_first(&p->h2_clients); n != NULL; n = list_next(&p->h2_clients, n))
        h2_client_doubt(list_entry(n, struct h2_client, node));
}

void h2_pool_give_up(struct pool *p, struct giving_up *g)
{
    struct list_node *n, *call, *next;

    for (n = list_first(&p->h2_lines); n != NULL && g->left > 0; n = list_next(&p->h2_lines, n))
        line_give_up(&list_entry(n, struct h2_line, node)->waiting, g);
    for (n = list_first(&p->h2_clients); n != NULL && g->left > 0; n = list_next(&p->h2_clients, n)) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        for (call = list_first(&c->calls); call != NULL && g->left > 0; call = next) {
            next = list_next(&c->calls, call);
            request_give_up(list_entry(call, struct h2_call, node)->r, g);
        }
    }
}

void h2_pool_drop_all(struct pool *p)
{
    struct list_node *n;
    struct back_request *r;

    for (n = list_first(&p->h2_lines); n != NULL; n = list_next(&p->h2_lines, n))
        while ((r = line_first(&list_entry(n, struct h2_line, node)->waiting)) != NULL)
            request_drop(r);
    while ((n = list_first(&p->h2_clients)) != NULL) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        while ((n = list_first(&c->calls)) != NULL)
            request_drop(list_entry(n, struct h2_call, node)->r);
        h2_client_close(c, CLOSE_ORIGIN_GONE, "");
    }
}
