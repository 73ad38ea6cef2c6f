/* SPDX-License-Identifier: Apache-2.0 */
#include "back/h2_pool.h"

#include "back/bearers.h"
#include "back/h2_session.h"
#include "base/contract.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/h2_fields.h"

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

/* ---- what becomes of those who wait ---- */

static struct back_request *next_waiting(struct h2_client *c)
{
    struct back_request *r = line_first(&c->waiting);

    if (r != NULL)
        request_stop_waiting(r);
    return r;
}

static void opened(struct h2_client *c)
{
    uint64_t now = now_of(c->pool);
    struct back_request *r;

    while ((r = next_waiting(c)) != NULL) {
        if (h2_client_has_room(c))
            h2_call_start(c, r);
        else if (now >= r->give_up_ms)
            request_fail(r, BACK_FAIL_BUSY, "no HTTP/2 connection had room in time");
        else
            request_place(r, false);
    }
}

static void refused(struct h2_client *c)
{
    struct pool *p = c->pool;
    struct back_request *r;

    log_v(2, "Server does not offer HTTP/2; requests go over HTTP/1.1", LT("server", p->origin->server));
    p->http1_until_ms = now_of(p) + TIMEOUT_HTTP2_REFUSED_MS;
    while ((r = next_waiting(c)) != NULL)
        request_place(r, false);
}

static void not_a_hop(struct h2_client *c)
{
    struct back_request *r;

    while ((r = next_waiting(c)) != NULL)
        request_place(r, false);
}

static void failed(struct h2_client *c, const char *failure)
{
    struct back_request *r;

    while ((r = next_waiting(c)) != NULL)
        request_fail(r, origin_failure(c->origin), failure);
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

/* ---- which one ---- */

static bool is_being_made(const struct h2_client *c)
{
    return c->state == H2C_DIALLING || c->state == H2C_OPENING;
}

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

/* One that is being made, with fewer than `most` requests that wait for it. */
static struct h2_client *find_coming(const struct pool *p, struct slice credential, size_t most)
{
    struct list_node *n;

    for (n = list_first(&p->h2_clients); n != NULL; n = list_next(&p->h2_clients, n)) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        if (is_being_made(c) && c->waiting.requests.count < most && is_of(c, credential))
            return c;
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

static struct h2_client *make(struct pool *p, const struct back_request *r)
{
    struct h2_client *c;

    if (p->h2_dials >= LIMIT_H2_BACK_DIALS || !bearer_may_connect(r))
        return NULL;
    if ((p->h2_clients.count >= LIMIT_H2_BACK_CONNECTIONS || p->h2_clients.count >= pool_max(p)) && !make_room(p))
        return NULL;
    c = h2_client_new(p, credential_of(r), &events);
    if (c != NULL)
        c->bearer = r->bearer;
    return c;
}

static void wait_for(struct h2_client *c, struct back_request *r)
{
    struct pool *p = c->pool;

    if (r->give_up_ms == 0)
        r->give_up_ms = now_of(p) + 2 * p->origin->opts.connect_timeout_ms;
    request_wait_in(r, &c->waiting);
}

/* All connections move large answers: the next request, and not this one, finds another. */
static void spread(struct pool *p, const struct back_request *r, size_t n_open)
{
    if (n_open < LIMIT_H2_BACK_SPREAD && find_coming(p, credential_of(r), SIZE_MAX) == NULL)
        (void)make(p, r);
}

bool h2_pool_take(struct pool *p, struct back_request *r)
{
    struct slice credential = credential_of(r);
    size_t n_open;
    struct h2_client *c = find_open(p, r, &n_open);

    if (c != NULL) {
        if (c->bulk > 0)
            spread(p, r, n_open);
        must_hold(bearer_is_shared(r) || c->bearer == r->bearer); /* gone() finds it there */
        if (!bearer_is_shared(r))
            bearer_slot(r)->used = c;
        h2_call_start(c, r);
        return true;
    }
    if (p->h2_waiting >= LIMIT_POOL_WAITING) {
        request_fail(r, BACK_FAIL_BUSY, "too many requests wait for an HTTP/2 connection");
        return true;
    }
    c = find_coming(p, credential, LIMIT_H2_BACK_STREAMS);
    if (c == NULL)
        c = make(p, r);
    if (c == NULL)
        c = find_coming(p, credential, SIZE_MAX);
    if (c != NULL)
        wait_for(c, r);
    return c != NULL;
}

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

static void give_up(struct h2_client *c, struct giving_up *g)
{
    line_give_up(&c->waiting, g);
    for (struct list_node *n = list_first(&c->calls), *next; n != NULL && g->left > 0; n = next) {
        next = list_next(&c->calls, n);
        request_give_up(list_entry(n, struct h2_call, node)->r, g);
    }
}

void h2_pool_give_up(struct pool *p, struct giving_up *g)
{
    for (struct list_node *n = list_first(&p->h2_clients), *next; n != NULL && g->left > 0; n = next) {
        next = list_next(&p->h2_clients, n);
        give_up(list_entry(n, struct h2_client, node), g);
    }
}

void h2_pool_drop_all(struct pool *p)
{
    struct list_node *n;
    struct back_request *r;

    while ((n = list_first(&p->h2_clients)) != NULL) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        while ((r = line_first(&c->waiting)) != NULL)
            request_drop(r);
        while ((n = list_first(&c->calls)) != NULL)
            request_drop(list_entry(n, struct h2_call, node)->r);
        h2_client_close(c, CLOSE_ORIGIN_GONE, "");
    }
}
