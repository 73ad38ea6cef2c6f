/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_back.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/contract.h"
#include "base/limits.h"
#include "net/loop.h"

enum { ARENA = 1 << 20, PIECE = 16 << 10, KEPT = 256, PATIENCE_MS = TIMEOUT_H2_PING_MS + TIMEOUT_H2_PONG_MS };

struct back {
    struct loop *loop;
    struct back *net; /* whose servers it reaches: its own, or another's */
    struct list servers;
    struct list over; /* the last that have ended: their memory stays, so that who still knows them is found out */
    size_t open, retired;
    uint64_t connections;
    bool (*reach)(void *arg, const struct back *from, const struct sim_server *to);
    void *reach_arg;
};

struct origin {
    unsigned refs;
    struct back *back;
    char *name, *host, *address;
    struct sim_server *server; /* at that address, when there were so many servers */
    size_t servers;
    bool has_cert;
    bool (*allow)(const struct sockaddr *addr, void *arg);
    void *allow_arg;
};

enum event_kind { EVENT_ARRIVE, EVENT_HEAD, EVENT_BODY, EVENT_END, EVENT_FAIL, EVENT_GIVE_UP };

struct event {
    struct list_node node;
    enum event_kind kind;
    uint64_t due;
    struct slice data; /* malloc'ed */
};

/* One exchange; fetch and back_request are the two faces of it. */
struct sim_request {
    struct list_node node; /* on server.open once it has arrived */
    struct back *back;
    struct sim_server *server;
    struct arena *arena;
    struct http_head head, answer;
    struct slice sent; /* the body */
    bool with_cert, dead, replied, paused;
    struct list_node over; /* on back.over once it is dead */
    bool freed;
    bool answered; /* its head has come */
    bool refused;  /* by the allow rule */
    bool moves;    /* who asks may ask elsewhere, and nothing is done by it */
    uint64_t connection, arrived_ms;
    struct list events;
    struct loop_timer *timer, *timeout;
    struct loop_deferred free;
    void *note;
    /* one of the two */
    const struct back_handler *handler;
    void *arg;
    fetch_fn *fn;
    void (*on_head)(void *arg, const struct http_head *head);
    bool (*on_piece)(void *arg, const struct http_head *head, struct slice piece);
    struct buf body;
};

struct back_request {
    struct sim_request q;
};

struct fetch {
    struct sim_request q;
};

/* ---- world ---- */

struct back *back_new(struct loop *l, struct metrics *m)
{
    struct back *b = must_zalloc(sizeof(*b));

    (void)m;
    b->loop = l;
    b->net = b;
    list_init(&b->servers);
    list_init(&b->over);
    return b;
}

void sim_back_join(struct back *b, struct back *net)
{
    b->net = net;
}

void sim_back_paths(struct back *net, bool (*reach)(void *arg, const struct back *from, const struct sim_server *to),
                    void *arg)
{
    net->reach = reach;
    net->reach_arg = arg;
}

/* Whether there is a way from here to there now. */
static bool reaches(const struct back *from, const struct sim_server *to)
{
    return from->net->reach == NULL || from->net->reach(from->net->reach_arg, from, to);
}

static void forget_over(struct back *b, size_t kept)
{
    while (b->over.count > kept) {
        struct sim_request *q = list_entry(list_pop_front(&b->over), struct sim_request, over);

        if (q->freed)
            mem_free(q);
    }
}

void back_free(struct back *b)
{
    struct list_node *n;

    while ((n = list_pop_front(&b->servers)) != NULL) {
        struct sim_server *s = list_entry(n, struct sim_server, node);

        mem_free(s->address);
        mem_free(s);
    }
    forget_over(b, 0);
    mem_free(b);
}

struct sim_server *sim_server_new(struct back *b, struct loop *l, const char *address,
                                  void (*serve)(void *arg, struct sim_request *q), void *arg)
{
    struct sim_server *s = must_zalloc(sizeof(*s));

    s->address = must_strdup(address);
    s->serve = serve;
    s->arg = arg;
    s->loop = l;
    s->delay_ms = 2;
    list_init(&s->open);
    list_push_front(&b->servers, &s->node);
    return s;
}

size_t sim_open(const struct back *b)
{
    return b->open;
}

size_t sim_retired(const struct back *b)
{
    return b->retired;
}

/* Servers come and never go; of two at one address the later one counts. */
static struct sim_server *server_of(struct origin *o)
{
    const struct list *servers = &o->back->net->servers;

    if (o->servers == servers->count)
        return o->server;
    o->servers = servers->count;
    o->server = NULL;
    for (struct list_node *n = list_first(servers); n != NULL && o->server == NULL; n = list_next(servers, n)) {
        struct sim_server *s = list_entry(n, struct sim_server, node);

        if (strcmp(s->address, o->address) == 0)
            o->server = s;
    }
    return o->server;
}

struct origin *origin_new(struct back *b, const struct origin_opts *o)
{
    struct origin *g = mem_zalloc(sizeof(*g));
    char text[400];

    if (g == NULL)
        return NULL;
    (void)snprintf(text, sizeof(text), strchr(o->host, ':') != NULL ? "[%s]:%u" : "%s:%u", o->host, o->port);
    g->refs = 1;
    g->back = b;
    g->name = mem_strdup(o->name);
    g->host = mem_strdup(o->host);
    g->address = mem_strdup(text);
    g->has_cert = o->tls_cert != NULL;
    g->allow = o->allow;
    g->allow_arg = o->allow_arg;
    if (g->name != NULL && g->host != NULL && g->address != NULL)
        return g;
    origin_unref(g);
    return NULL;
}

struct origin *origin_ref(struct origin *o)
{
    o->refs++;
    return o;
}

void origin_unref(struct origin *o)
{
    if (o == NULL || --o->refs > 0)
        return;
    mem_free(o->name);
    mem_free(o->host);
    mem_free(o->address);
    mem_free(o);
}

void origin_retire(struct origin *o)
{
    if (o != NULL)
        o->back->retired++;
    origin_unref(o);
}

bool origin_same(const struct origin *a, const struct origin *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->address, b->address) == 0 && a->has_cert == b->has_cert &&
           a->allow == b->allow && a->allow_arg == b->allow_arg;
}

const char *origin_name(const struct origin *o)
{
    return o->name;
}

const char *origin_address(const struct origin *o)
{
    return o->address;
}

bool origin_healthy(const struct origin *o)
{
    const struct sim_server *s = server_of((struct origin *)(uintptr_t)o);

    return s != NULL && s->fault != SIM_REFUSE && reaches(o->back, s);
}

const char *origin_ejection(const struct origin *o, uint64_t *for_ms)
{
    if (for_ms != NULL)
        *for_ms = 0;
    return origin_healthy(o) ? NULL : "cannot be reached";
}

bool origin_unreachable(const struct origin *o)
{
    return !origin_healthy(o);
}

bool origin_hangs(const struct origin *o)
{
    const struct sim_server *s = server_of((struct origin *)(uintptr_t)o);

    return s != NULL && s->fault == SIM_HANG && s->silent_ms > 0;
}

bool origin_loops(const struct origin *o)
{
    const struct sim_server *s = server_of((struct origin *)(uintptr_t)o);

    return s != NULL && s->leads_back;
}

bool origin_has_cert(const struct origin *o)
{
    return o->has_cert;
}

/* A literal address is put to the rule as the real dialler does; names resolve to 10.9.9.9. */
static bool allowed(const struct origin *o)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};

    if (o->allow == NULL)
        return true;
    if (inet_pton(AF_INET6, o->host, &v6.sin6_addr) == 1)
        return o->allow((const struct sockaddr *)&v6, o->allow_arg);
    if (inet_pton(AF_INET, o->host, &v4.sin_addr) != 1)
        (void)inet_pton(AF_INET, "10.9.9.9", &v4.sin_addr);
    return o->allow((const struct sockaddr *)&v4, o->allow_arg);
}

/* ---- requests ---- */

static void request_free(void *arg)
{
    struct sim_request *q = arg;
    struct list_node *n;

    while ((n = list_pop_front(&q->events)) != NULL) {
        struct event *e = list_entry(n, struct event, node);

        mem_free((void *)(uintptr_t)e->data.p);
        mem_free(e);
    }
    loop_timer_free(q->timer);
    loop_timer_free(q->timeout);
    buf_free(&q->body);
    arena_free(q->arena);
    q->freed = true;
    if (!list_linked(&q->over))
        mem_free(q); /* the first member of either face */
}

static void request_over(struct sim_request *q)
{
    if (q->dead)
        return;
    q->dead = true;
    q->back->open--;
    loop_timer_cancel(q->timer);
    loop_timer_cancel(q->timeout);
    if (list_linked(&q->node)) {
        list_remove(&q->server->open, &q->node);
        if (q->server->gone != NULL)
            q->server->gone(q->server->arg, q);
    }
    list_push_back(&q->back->over, &q->over);
    forget_over(q->back, KEPT);
    loop_defer(q->back->loop, &q->free, request_free, q);
}

static void fail(struct sim_request *q, enum back_failure why, const char *text)
{
    struct back_failure_info info = {.why = why, .text = text, .request_sent = why != BACK_FAIL_CONNECT};
    struct fetch_result r = {.failure = text, .timed_out = why == BACK_FAIL_TIMEOUT};

    if (q->dead)
        return;
    request_over(q);
    if (q->fn != NULL)
        q->fn(q->arg, &r);
    else
        q->handler->on_failed(q->arg, &info);
}

/* As the real ones tell (back.h): before the answer has begun a request may be repeated, if it is harmless. */
static void lose(struct sim_request *q)
{
    fail(q, q->answered ? BACK_FAIL_BODY : BACK_FAIL_UNANSWERED, "connection lost");
}

static void arm(struct sim_request *q)
{
    struct list_node *n = list_first(&q->events);
    uint64_t now = loop_now_ms(q->back->loop);

    if (n == NULL || q->dead || q->paused)
        return;
    loop_timer_set(q->timer,
                   list_entry(n, struct event, node)->due > now ? list_entry(n, struct event, node)->due - now : 0);
}

static struct event *push(struct sim_request *q, enum event_kind kind)
{
    struct event *e = must_zalloc(sizeof(*e));
    struct list_node *last = list_last(&q->events);
    bool whole_answer_delay = kind == EVENT_HEAD || kind == EVENT_FAIL;

    e->kind = kind;
    e->due = loop_now_ms(q->back->loop) + (whole_answer_delay && q->server != NULL ? q->server->delay_ms : 0);
    if (kind == EVENT_BODY && q->answered)
        e->due += q->server->late_ms;
    if (last != NULL && list_entry(last, struct event, node)->due > e->due)
        e->due = list_entry(last, struct event, node)->due;
    list_push_back(&q->events, &e->node);
    if (last == NULL)
        arm(q);
    return e;
}

/* All of it at once: the simulation has few. */
bool origin_fail_unanswered(struct origin *o, const char *text)
{
    struct sim_server *s = server_of(o);
    struct list_node *next;

    (void)text;
    if (s == NULL)
        return false;
    s->given_up++;
    for (struct list_node *n = list_first(&s->open); n != NULL; n = next) {
        struct sim_request *q = list_entry(n, struct sim_request, node);
        struct event *e;

        next = list_next(&s->open, n);
        if (q->back != o->back || q->answered || !q->moves)
            continue;
        e = must_zalloc(sizeof(*e));
        e->kind = EVENT_GIVE_UP;
        list_push_front(&q->events, &e->node);
        arm(q);
    }
    return false;
}

/* Whom it has not answered for so long nobody would wait for any more. */
static void fail_all(struct back *b, struct sim_server *s)
{
    for (struct list_node *n = list_first(&s->open), *next; n != NULL; n = next) {
        struct sim_request *q = list_entry(n, struct sim_request, node);

        next = list_next(&s->open, n);
        if (q->back == b && !q->dead && loop_now_ms(b->loop) - q->arrived_ms >= PATIENCE_MS)
            push(q, EVENT_FAIL);
    }
}

void origin_suspect(struct origin *o)
{
    struct sim_server *s = server_of(o);
    uint64_t now = loop_now_ms(o->back->loop);

    if (s == NULL)
        return;
    s->suspected++;
    if (s->silent_ms == 0 || s->fault != SIM_HANG)
        s->silent_ms = now;
    else if (now - s->silent_ms >= PATIENCE_MS)
        fail_all(o->back, s);
    else if (now - s->silent_ms >= TIMEOUT_H2_PONG_MS)
        (void)origin_fail_unanswered(o, "server hangs");
}

static void arrive(struct sim_request *q)
{
    if (q->server != NULL && (q->server->fault == SIM_REFUSE || q->server->fault == SIM_RESET))
        q->server->connection = 0;
    if (q->refused)
        fail(q, BACK_FAIL_CONNECT, "address not allowed");
    else if (q->server == NULL || q->server->fault == SIM_REFUSE || !reaches(q->back, q->server))
        fail(q, BACK_FAIL_CONNECT, "connection refused");
    else {
        q->server->requests++;
        q->arrived_ms = loop_now_ms(q->back->loop);
        if (q->server->connection == 0)
            q->server->connection = ++q->back->connections;
        q->connection = q->server->connection;
        list_push_back(&q->server->open, &q->node);
        if (q->server->fault == SIM_RESET)
            fail(q, BACK_FAIL_UNANSWERED, "connection reset");
        else if (q->server->fault != SIM_HANG) {
            q->server->silent_ms = 0;
            q->server->serve(q->server->arg, q);
        }
    }
}

static void take_body(struct sim_request *q, struct slice data)
{
    if (q->fn == NULL)
        q->handler->on_body(q->arg, data);
    else if (q->on_piece == NULL) {
        if (!buf_append(&q->body, data))
            fail(q, BACK_FAIL_BODY, "the answer is too large");
    } else
        for (size_t at = 0; at < data.n && !q->dead; at += PIECE) {
            struct slice p = slice_from(data, at);

            if (p.n > PIECE)
                p.n = PIECE;
            if (!q->on_piece(q->arg, &q->answer, p))
                fail(q, BACK_FAIL_BODY, "the receiver refused the answer");
        }
}

static void take_end(struct sim_request *q)
{
    struct fetch_result r = {.ok = true, .head = &q->answer, .body = buf_slice(&q->body), .connection = q->connection};

    request_over(q);
    if (q->fn != NULL)
        q->fn(q->arg, &r);
    else
        q->handler->on_end(q->arg, NULL);
}

static struct http_body body_of(const struct sim_request *q)
{
    bool none = q->answer.status == 304 || q->head.method_id == HTTP_HEAD;

    return (struct http_body){.kind = none ? HTTP_BODY_NONE : HTTP_BODY_CHUNKED};
}

static void on_timer(void *arg)
{
    struct sim_request *q = arg;
    struct list_node *n = list_pop_front(&q->events);
    struct event *e = list_entry(n, struct event, node);

    switch (e->kind) {
    case EVENT_ARRIVE:
        arrive(q);
        break;
    case EVENT_HEAD:
        q->answered = true;
        if (q->fn == NULL)
            q->handler->on_head(q->arg, &q->answer, body_of(q));
        else if (q->on_head != NULL)
            q->on_head(q->arg, &q->answer);
        break;
    case EVENT_BODY:
        take_body(q, e->data);
        break;
    case EVENT_END:
        take_end(q);
        break;
    case EVENT_FAIL:
        lose(q);
        break;
    case EVENT_GIVE_UP:
        fail(q, BACK_FAIL_GIVEN_UP, "given up");
        break;
    }
    mem_free((void *)(uintptr_t)e->data.p);
    mem_free(e);
    if (!q->dead)
        arm(q);
}

static void on_timeout(void *arg)
{
    fail(arg, BACK_FAIL_TIMEOUT, "timed out");
}

static bool copy_head(struct sim_request *q, struct slice method, struct slice target, const struct http_field *fields,
                      size_t n)
{
    if (!http_head_init(&q->head, q->arena, n + 1))
        return false;
    q->head.method = arena_copy(q->arena, method);
    q->head.method_id = http_method_of(method);
    q->head.minor = 1;
    q->head.target = arena_copy(q->arena, target);
    for (size_t i = 0; i < n; i++)
        if (!http_head_add(&q->head, q->arena, arena_copy(q->arena, fields[i].name),
                           arena_copy(q->arena, fields[i].value)))
            return false;
    return q->head.method.p != NULL && q->head.target.p != NULL;
}

static bool request_init(struct sim_request *q, struct back *b, struct origin *o, uint64_t timeout_ms)
{
    q->back = b;
    must_hold(b->net == o->back->net);
    q->server = server_of(o);
    q->refused = !allowed(o);
    list_init(&q->events);
    buf_init(&q->body, 0);
    q->arena = arena_new(ARENA);
    q->timer = loop_timer_new(b->loop, on_timer, q);
    q->timeout = loop_timer_new(b->loop, on_timeout, q);
    if (q->arena == NULL || q->timer == NULL || q->timeout == NULL)
        return false;
    if (timeout_ms > 0)
        loop_timer_set(q->timeout, timeout_ms);
    return true;
}

static void launch(struct sim_request *q)
{
    q->back->open++;
    push(q, EVENT_ARRIVE);
}

struct back_request *back_start(struct back *b, const struct back_opts *o)
{
    struct back_request *r = mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    r->q.handler = o->handler;
    r->q.arg = o->arg;
    if (!request_init(&r->q, b, o->origin, o->head_timeout_ms) ||
        !copy_head(&r->q, o->head->method, o->head->target, o->head->fields, o->head->n_fields)) {
        request_free(&r->q);
        return NULL;
    }
    /* A hop shows the certificate only to another mvproxy. */
    r->q.with_cert = o->with_cert || (o->hop && r->q.server != NULL && r->q.server->mvproxy);
    r->q.moves = o->movable && !o->once && !o->upgrade && http_method_is_safe(o->head->method_id);
    launch(&r->q);
    return r;
}

/* Nobody here sends a body. */
void back_pause(struct back_request *r)
{
    r->q.paused = true;
}

void back_resume(struct back_request *r)
{
    r->q.paused = false;
    arm(&r->q);
}

const char *back_failure_name(enum back_failure why)
{
    return why == BACK_FAIL_CONNECT ? "connect" : why == BACK_FAIL_TIMEOUT ? "timeout" : "broken";
}

void back_cancel(struct back_request *r)
{
    must_hold(!r->q.dead);
    request_over(&r->q);
}

struct fetch *fetch_start(struct back *b, struct loop *l, const struct fetch_opts *o, fetch_fn *fn, void *arg)
{
    struct fetch *f = mem_zalloc(sizeof(*f));

    (void)l;
    if (f == NULL)
        return NULL;
    f->q.fn = fn;
    f->q.arg = arg;
    f->q.on_head = o->on_head;
    f->q.on_piece = o->on_piece;
    f->q.with_cert = o->with_cert;
    if (!request_init(&f->q, b, o->origin, o->head_timeout_ms > 0 ? o->head_timeout_ms : o->timeout_ms) ||
        !copy_head(&f->q, o->method, o->target, o->fields, o->n_fields)) {
        request_free(&f->q);
        return NULL;
    }
    f->q.body.ceiling = o->ceiling;
    f->q.sent = arena_copy(f->q.arena, o->body);
    launch(&f->q);
    return f;
}

void fetch_cancel(struct fetch **f)
{
    if (*f != NULL) {
        must_hold(!(*f)->q.dead); /* its function has been called: it must have been forgotten there */
        request_over(&(*f)->q);
    }
    *f = NULL;
}

/* ---- for servers ---- */

const struct http_head *sim_request_head(const struct sim_request *q)
{
    return &q->head;
}

struct arena *sim_arena(const struct sim_request *q)
{
    return q->arena;
}

void sim_server_break(struct sim_server *s)
{
    struct list_node *n;

    s->connection = 0;
    while ((n = list_first(&s->open)) != NULL)
        lose(list_entry(n, struct sim_request, node));
}

struct slice sim_method(const struct sim_request *q)
{
    return q->head.method;
}

struct slice sim_path(const struct sim_request *q)
{
    return slice_of(q->head.target.p, slice_index(q->head.target, '?'));
}

struct slice sim_query(const struct sim_request *q, const char *name)
{
    struct slice rest = slice_from(q->head.target, slice_index(q->head.target, '?') + 1), pair, key;

    while (slice_split(&rest, '&', &pair)) {
        struct slice value = pair;

        if (slice_split(&value, '=', &key) && slice_eq(key, slice_str(name)))
            return value.p == NULL ? SLICE_LIT("") : value;
    }
    return SLICE_NONE;
}

struct slice sim_header(const struct sim_request *q, const char *name)
{
    const struct http_field *f = http_head_find_name(&q->head, slice_str(name));

    return f == NULL ? SLICE_NONE : f->value;
}

struct slice sim_body(const struct sim_request *q)
{
    return q->sent;
}

bool sim_with_cert(const struct sim_request *q)
{
    return q->with_cert;
}

void *sim_note(const struct sim_request *q)
{
    return q->note;
}

void sim_set_note(struct sim_request *q, void *note)
{
    q->note = note;
}

/* Memory may fail once, by order of a test, but it is not the server that is tested. */
static struct slice copied(struct sim_request *q, struct slice text)
{
    struct slice copy = arena_copy(q->arena, text);

    return copy.p != NULL ? copy : arena_copy(q->arena, text);
}

static void add(struct sim_request *q, struct slice name, struct slice value)
{
    struct slice n = copied(q, name), v = copied(q, value);

    if (!http_head_add(&q->answer, q->arena, n, v) && !http_head_add(&q->answer, q->arena, n, v))
        abort();
}

void sim_head(struct sim_request *q, unsigned status, const char *content_type, const char *etag)
{
    if (!http_head_init(&q->answer, q->arena, 4) && !http_head_init(&q->answer, q->arena, 4))
        abort();
    q->answer.status = status;
    q->answer.minor = 1;
    add(q, http_name_text(HTTP_CONTENT_TYPE), slice_str(content_type));
    if (etag != NULL)
        add(q, http_name_text(HTTP_ETAG), slice_str(etag));
    if (q->fn == NULL || q->on_head != NULL) /* the timeout is for the head alone */
        loop_timer_cancel(q->timeout);
    push(q, EVENT_HEAD);
}

void sim_relay_head(struct sim_request *q, const struct http_head *head)
{
    sim_head(q, head->status, "text/plain", NULL);
    if (!http_head_init(&q->answer, q->arena, head->n_fields + 1) &&
        !http_head_init(&q->answer, q->arena, head->n_fields + 1))
        abort();
    q->answer.status = head->status;
    q->answer.minor = 1;
    for (size_t i = 0; i < head->n_fields; i++)
        add(q, head->fields[i].name, head->fields[i].value);
}

void sim_field(struct sim_request *q, const char *name, const char *value)
{
    add(q, slice_str(name), slice_str(value));
}

void sim_write(struct sim_request *q, struct slice data)
{
    if (q->dead || data.n == 0 || q->server->fault == SIM_HANG)
        return;
    push(q, EVENT_BODY)->data = slice_of(must_slicedup(data), data.n);
}

void sim_end(struct sim_request *q)
{
    push(q, EVENT_END);
}

void sim_fail(struct sim_request *q)
{
    push(q, EVENT_FAIL);
}

void sim_reply(struct sim_request *q, unsigned status, const char *content_type, const char *etag, struct slice body)
{
    sim_head(q, status, content_type, etag);
    if (q->server->fault == SIM_CUT) {
        sim_write(q, slice_of(body.p, body.n / 2));
        sim_fail(q);
        return;
    }
    sim_write(q, body);
    sim_end(q);
}
