#include "back/h2_pool.h"

#include "back/h2_client.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/metric.h"
#include "net/loop.h"

static uint64_t now_of(const struct pool *p)
{
    return loop_now_ms(p->origin->back->loop);
}

/* ---- whose requests share a connection ---- */

/* The one Authorization; NONE: without, or with several, of which nobody knows which one counts. */
static struct slice bearer_of(const struct http_head *head)
{
    struct slice found = SLICE_NONE;

    for (size_t i = 0; i < head->n_fields; i++) {
        if (head->fields[i].id != HTTP_AUTHORIZATION)
            continue;
        if (found.n > 0)
            return SLICE_NONE;
        found = head->fields[i].value;
    }
    return found;
}

static bool is_shared(const struct back_request *r)
{
    return r->opts.http2 == BACK_HTTP2_SHARED && r->opts.with_cert;
}

/* As h2_client.credential: NONE is everybody's. */
static struct slice credential_of(const struct back_request *r)
{
    return is_shared(r) ? SLICE_NONE : bearer_of(r->opts.head);
}

/* The price of a short one is small, and large uploads are what HTTP/1.1 is better at. */
static bool has_fit_body(const struct back_request *r)
{
    const struct http_body *body = &r->opts.body;

    return body->kind == HTTP_BODY_NONE ||
           (body->kind == HTTP_BODY_LENGTH && body->length <= LIMIT_H2_BACK_UPLOAD_LENGTH);
}

bool h2_pool_serves(const struct back_request *r)
{
    const struct pool *p = r->pool;

    if (r->opts.http2 == BACK_HTTP1 || r->http1 || r->opts.upgrade || r->opts.expect_continue || !has_fit_body(r))
        return false;
    if (pool_tls(p) == NULL) /* without ALPN nobody can tell */
        return false;
    if (r->opts.http2_if_busy && (r->load == NULL || !r->load->on))
        return false;
    return now_of(p) >= p->http1_until_ms && (is_shared(r) || r->bearer != 0);
}

static bool is_of(const struct h2_client *c, struct slice credential)
{
    if (c->credential == NULL || credential.p == NULL)
        return c->credential == NULL && credential.p == NULL;
    return slice_eq(slice_of(c->credential, c->credential_len), credential);
}

/*
 * A connection for a token is made only after some server has taken that token: else anybody could have us make one for
 * each of his requests, with a new invented token every time. That it was taken is shown by success or 403: errors may
 * come before anybody looks at the token (of kube-apiserver 400 for a bad timeout, 429 and 503 while it stops). A slot
 * is a token's seeded hash; two tokens that share one take turns over HTTP/1.1.
 */
static struct bearer *slot_of(const struct back_request *r)
{
    return &r->back->bearers[r->bearer % LIMIT_ACCEPTED_BEARERS];
}

static bool may_make(const struct back_request *r)
{
    return is_shared(r) || slot_of(r)->accepted == r->bearer;
}

void h2_pool_answered(const struct back_request *r)
{
    if (r->bearer == 0)
        return;
    if (r->response.status < 300 || r->response.status == 403)
        slot_of(r)->accepted = r->bearer;
    else if (slot_of(r)->accepted == r->bearer)
        slot_of(r)->accepted = 0;
}

void h2_pool_count(struct back_request *r)
{
    struct slice bearer = SLICE_NONE;

    if (r->opts.http2 == BACK_HTTP1)
        return;
    if (!is_shared(r))
        bearer = bearer_of(r->opts.head);
    if (bearer.n > 0)
        r->bearer = hash_seeded(bearer);
    if (r->opts.lasting || (bearer.n == 0 && !is_shared(r)))
        return;
    r->load = is_shared(r) ? &r->pool->load : &slot_of(r)->load;
    h2_load_begin(r->load);
}

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
    struct h2_client *used = is_shared(r) ? NULL : slot_of(r)->used;
    struct h2_client *best = NULL;
    struct list_node *n;

    *n_open = 0;
    /* Of tokens there are hundreds, each with its connection. */
    if (used != NULL && used->pool == p && used->bulk == 0 && is_of(used, credential) && h2_client_room(used) > 0)
        return used;
    for (n = list_first(&p->h2_clients); n != NULL; n = list_next(&p->h2_clients, n)) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        if (!is_of(c, credential) || h2_client_room(c) == 0)
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

        if (is_being_made(c) && c->waiting.count < most && is_of(c, credential))
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

    if (p->h2_dials >= LIMIT_H2_BACK_DIALS || !may_make(r))
        return NULL;
    if ((p->h2_clients.count >= LIMIT_H2_BACK_CONNECTIONS || p->h2_clients.count >= pool_max(p)) && !make_room(p))
        return NULL;
    c = h2_client_new(p, credential_of(r));
    if (c != NULL)
        c->bearer = r->bearer;
    return c;
}

static void wait_for(struct h2_client *c, struct back_request *r)
{
    struct pool *p = c->pool;

    if (r->give_up_ms == 0)
        r->give_up_ms = now_of(p) + 2 * p->origin->opts.connect_timeout_ms;
    r->waits_in = &c->waiting;
    list_push_back(&c->waiting, &r->node);
    p->h2_waiting++;
}

/* All connections move large answers: the next request, and not this one, finds another. */
static void spread(struct pool *p, const struct back_request *r, size_t n_open)
{
    if (n_open < LIMIT_H2_BACK_SPREAD && find_coming(p, credential_of(r), SIZE_MAX) == NULL)
        (void)make(p, r);
}

void h2_pool_take(struct pool *p, struct back_request *r)
{
    struct slice credential = credential_of(r);
    size_t n_open;
    struct h2_client *c = find_open(p, r, &n_open);

    if (c != NULL) {
        if (c->bulk > 0)
            spread(p, r, n_open);
        if (!is_shared(r))
            slot_of(r)->used = c;
        h2_call_start(c, r);
        return;
    }
    if (p->h2_waiting >= LIMIT_POOL_WAITING) {
        request_fail(r, BACK_FAIL_BUSY, "too many requests wait for an HTTP/2 connection");
        return;
    }
    c = find_coming(p, credential, LIMIT_H2_BACK_STREAMS);
    if (c == NULL)
        c = make(p, r);
    if (c == NULL)
        c = find_coming(p, credential, SIZE_MAX);
    if (c != NULL)
        wait_for(c, r);
    else
        pool_take(p, r, false);
}

/* ---- what becomes of those who wait ---- */

static struct back_request *next_waiting(struct h2_client *c)
{
    struct list_node *n = list_first(&c->waiting);
    struct back_request *r = n == NULL ? NULL : list_entry(n, struct back_request, node);

    if (r != NULL)
        pool_stop_waiting(r);
    return r;
}

void h2_pool_opened(struct h2_client *c)
{
    uint64_t now = now_of(c->pool);
    struct back_request *r;

    while ((r = next_waiting(c)) != NULL) {
        if (h2_client_room(c) > 0)
            h2_call_start(c, r);
        else if (now >= r->give_up_ms)
            request_fail(r, BACK_FAIL_BUSY, "no HTTP/2 connection had room in time");
        else
            request_place(r, false);
    }
}

void h2_pool_refused(struct h2_client *c)
{
    struct pool *p = c->pool;
    struct back_request *r;

    log_v(2, "Origin does not serve HTTP/2; requests go over HTTP/1.1", LT("origin", p->origin->name));
    p->http1_until_ms = now_of(p) + TIMEOUT_HTTP2_REFUSED_MS;
    while ((r = next_waiting(c)) != NULL)
        request_place(r, false);
}

void h2_pool_not_a_hop(struct h2_client *c)
{
    struct back_request *r;

    while ((r = next_waiting(c)) != NULL)
        request_place(r, false);
}

void h2_pool_failed(struct h2_client *c, const char *failure)
{
    struct back_request *r;

    while ((r = next_waiting(c)) != NULL)
        request_fail(r, BACK_FAIL_CONNECT, failure);
}

/* ---- ends ---- */

void h2_pool_forget(struct h2_client *c, enum close_reason why, const char *detail)
{
    struct origin *o = c->pool->origin;
    struct slice labels[2] = {slice_str(o->name), slice_str(pool_close_text(why))};
    struct bearer *slot = &o->back->bearers[c->bearer % LIMIT_ACCEPTED_BEARERS];

    if (slot->used == c)
        slot->used = NULL;
    list_remove(&c->pool->h2_clients, &c->node);
    metric_inc(metric_child(o->back->closes, labels));
    log_v(4, "Closed back connection", LT("origin", o->name), LT("reason", pool_close_text(why)), LT("detail", detail),
          LT("protocol", "h2"), LU("requests", c->served));
    back_bury_h2(o->back, c);
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

void h2_pool_drop_all(struct pool *p)
{
    struct list_node *n, *m;

    while ((n = list_first(&p->h2_clients)) != NULL) {
        struct h2_client *c = list_entry(n, struct h2_client, node);

        while ((m = list_first(&c->waiting)) != NULL)
            back_cancel(list_entry(m, struct back_request, node));
        while ((m = list_first(&c->calls)) != NULL)
            back_cancel(list_entry(m, struct h2_call, node)->r);
        h2_client_close(c, CLOSE_ORIGIN_GONE, "");
    }
}
