/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/api.h"

#include <stdio.h>

#include "back/loop_token.h"
#include "base/log.h"
#include "cluster/work.h"
#include "kube/server_id.h"
#include "kube/user.h"
#include "net/lifetime.h"

enum { IDENTITY_FIELDS = 64, IDENTITY_BYTES = 64 << 10, OWN_FIELDS = 7, STREAM_BYTES = 64 << 10 };

struct identity {
    struct arena *arena;
    struct http_field fields[IDENTITY_FIELDS];
    size_t n;
};

struct api {
    struct loop *loop;
    struct back *back;
    struct origin *local;
    struct identity *identity;
    struct work_queue work;
};

struct api_stream {
    struct api *api;
    struct arena *arena;
    struct http_head head;
    struct back_request *request; /* NULL once over */
    struct lifetime life;
    const struct api_stream_handler *handler;
    void *arg;
};

/* Requests name themselves, but never as kube-apiserver: that name is exempt from its shutdown answers. */
static const struct http_field user_agent = {
    .name = {"User-Agent", 10}, .value = {"mvproxy", 7}, .id = HTTP_USER_AGENT};

static void identity_free(struct identity *i)
{
    if (i == NULL)
        return;
    arena_free(i->arena);
    mem_free(i);
}

static bool identity_add(void *arg, struct slice name, struct slice value)
{
    struct identity *i = arg;
    struct http_field *f = &i->fields[i->n];

    if (i->n == IDENTITY_FIELDS)
        return false;
    f->name = arena_copy(i->arena, name);
    f->value = arena_copy(i->arena, value);
    f->id = http_name_of(name);
    i->n++;
    return f->name.p != NULL && f->value.p != NULL;
}

static struct identity *identity_new(const struct api_identity *who)
{
    const struct user_headers *headers = who->headers != NULL ? who->headers : user_headers_default();
    struct identity *i = mem_zalloc(sizeof(*i));
    struct slice groups[IDENTITY_FIELDS];
    struct user u = {.name = slice_str(who->user), .uid = SLICE_LIT(""), .groups = groups};

    if (i == NULL)
        return NULL;
    for (; who->groups != NULL && who->groups[u.n_groups] != NULL && u.n_groups < IDENTITY_FIELDS; u.n_groups++)
        groups[u.n_groups] = slice_str(who->groups[u.n_groups]);
    i->arena = arena_new(IDENTITY_BYTES);
    if (i->arena != NULL && user_encode(&u, headers, i->arena, identity_add, i) == USER_OK)
        return i;
    identity_free(i);
    return NULL;
}

struct api *api_new(struct loop *l, struct back *b, struct origin *local, const struct api_identity *who)
{
    struct api *a = must_zalloc(sizeof(*a));

    a->loop = l;
    a->back = b;
    a->local = origin_ref(local);
    work_queue_init(&a->work, l);
    if (!api_set_identity(a, who))
        log_error("Could not express the own user in request headers", LT("user", who->user));
    return a;
}

void api_free(struct api *a)
{
    work_queue_close(&a->work);
    identity_free(a->identity);
    origin_unref(a->local);
    mem_free(a);
}

bool api_set_identity(struct api *a, const struct api_identity *who)
{
    struct identity *i = identity_new(who);

    if (i == NULL)
        return false;
    identity_free(a->identity);
    a->identity = i;
    return true;
}

bool api_local_unreachable(const struct api *a)
{
    return origin_unreachable(a->local);
}

void api_set_local(struct api *a, struct origin *local)
{
    struct origin *old = a->local;

    a->local = origin_ref(local);
    origin_unref(old);
}

struct loop *api_loop(const struct api *a)
{
    return a->loop;
}

struct work_queue *api_work(struct api *a)
{
    return &a->work;
}

static struct http_field field(enum http_name id, struct slice value)
{
    return (struct http_field){.name = http_name_text(id), .value = value, .id = id};
}

static struct http_field mark(const char *name)
{
    return (struct http_field){.name = slice_str(name), .value = SLICE_LIT("true"), .id = HTTP_NAME_OTHER};
}

/* Identity only over the front-proxy certificate: without it the headers would be ignored, and have no business there.
 */
static size_t add_identity(const struct api *a, const struct origin *o, struct http_field *fields)
{
    if (a->identity == NULL || !origin_has_cert(o))
        return 0;
    memcpy(fields, a->identity->fields, a->identity->n * sizeof(*fields));
    return a->identity->n;
}

struct fetch *api_send(struct api *a, const struct api_request *g, fetch_fn *fn, void *arg)
{
    struct http_field fields[IDENTITY_FIELDS + OWN_FIELDS];
    struct origin *origin = g->origin == NULL ? a->local : g->origin;
    size_t n = add_identity(a, origin, fields);
    struct fetch_opts o = {
        .origin = origin,
        .with_cert = origin_has_cert(origin),
        .probe = g->probe,
        .method = g->method.n > 0 ? g->method : SLICE_LIT("GET"),
        .target = g->target,
        .body = g->body,
        .fields = fields,
        .ceiling = g->ceiling,
        .timeout_ms = g->timeout_ms,
        .on_piece = g->on_piece,
    };

    fields[n++] = user_agent;
    fields[n++] = field(HTTP_ACCEPT, g->accept);
    if (g->content_type.n > 0)
        fields[n++] = field(HTTP_CONTENT_TYPE, g->content_type);
    if (g->if_none_match.n > 0)
        fields[n++] = field(HTTP_IF_NONE_MATCH, g->if_none_match);
    if (g->peer) {
        fields[n++] = mark(USER_MARK_REROUTED);
        fields[n++] = mark(USER_MARK_PROXIED);
    }
    o.n_fields = n;
    return fetch_start(a->back, a->loop, &o, fn, arg);
}

bool api_answered(const struct fetch_result *r, unsigned status)
{
    return r->ok && r->head->status == status;
}

bool api_through_mvproxy(const struct http_head *head)
{
    const struct http_field *f = http_head_find_name(head, SLICE_LIT(USER_HOP));

    return f != NULL && server_id_valid(f->value);
}

enum api_word api_word(const struct http_head *head)
{
    const struct http_field *f = http_head_find_name(head, SLICE_LIT(USER_HOP_READY));

    if (f == NULL || !api_through_mvproxy(head))
        return API_WORD_NONE;
    if (slice_eq(f->value, SLICE_LIT("true")))
        return API_WORD_READY;
    return slice_eq(f->value, SLICE_LIT("false")) ? API_WORD_LOADING : API_WORD_NONE;
}

const char *api_why(const struct fetch_result *r, char text[API_WHY_BYTES])
{
    if (!r->ok)
        return r->failure;
    (void)snprintf(text, API_WHY_BYTES, "answered %u", r->head->status);
    return text;
}

static void stream_free(void *arg)
{
    struct api_stream *s = arg;

    arena_free(s->arena);
    mem_free(s);
}

static void stream_over(struct api_stream *s, const char *failure)
{
    s->request = NULL;
    /* The client side may still look at the head in this turn. */
    lifetime_retire(&s->life, stream_free, s);
    s->handler->on_over(s->arg, failure);
}

static void stream_on_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct api_stream *s = arg;

    (void)body;
    s->handler->on_head(s->arg, head);
}

static void stream_on_body(void *arg, struct slice data)
{
    struct api_stream *s = arg;

    /* The owner may have cancelled at the head. */
    if (s->request != NULL)
        s->handler->on_data(s->arg, data);
}

static void stream_on_end(void *arg, const struct http_head *trailers)
{
    (void)trailers;
    stream_over(arg, NULL);
}

static void stream_on_failed(void *arg, const struct back_failure_info *info)
{
    stream_over(arg, info->text == NULL ? "failed" : info->text);
}

static void stream_on_writable(void *arg)
{
    (void)arg;
}

static const struct back_handler stream_handler = {
    .on_head = stream_on_head,
    .on_body = stream_on_body,
    .on_end = stream_on_end,
    .on_writable = stream_on_writable,
    .on_failed = stream_on_failed,
};

static bool stream_head(struct api_stream *s, const struct origin *o, struct slice target)
{
    struct slice token = slice_str(loop_token_of(o, target));
    struct http_field identity[IDENTITY_FIELDS];
    size_t n = add_identity(s->api, o, identity);
    struct slice host = arena_copy(s->arena, slice_str(origin_address(o)));

    s->head.method = SLICE_LIT("GET");
    s->head.method_id = HTTP_GET;
    s->head.minor = 1;
    s->head.target = arena_copy(s->arena, target);
    if (s->head.target.p == NULL || host.p == NULL || !http_head_add_id(&s->head, s->arena, HTTP_HOST, host))
        return false;
    for (size_t i = 0; i < n; i++) {
        /* A reload may free the identity while this request lives. */
        struct slice name = arena_copy(s->arena, identity[i].name), value = arena_copy(s->arena, identity[i].value);

        if (name.p == NULL || value.p == NULL || !http_head_add(&s->head, s->arena, name, value))
            return false;
    }
    if (token.n > 0 && !http_head_add(&s->head, s->arena, SLICE_LIT(LOOP_TOKEN_FIELD), token))
        return false;
    return http_head_add_id(&s->head, s->arena, HTTP_USER_AGENT, user_agent.value) &&
           http_head_add_id(&s->head, s->arena, HTTP_ACCEPT, SLICE_LIT("application/json"));
}

struct api_stream *api_stream_start(struct api *a, struct slice target, uint64_t head_timeout_ms,
                                    const struct api_stream_handler *h, void *arg)
{
    struct api_stream *s = mem_zalloc(sizeof(*s));
    struct back_opts b = {.origin = a->local,
                          .with_cert = origin_has_cert(a->local),
                          .body = {.kind = HTTP_BODY_NONE},
                          .head_timeout_ms = head_timeout_ms,
                          .own = true,
                          .handler = &stream_handler};

    if (s == NULL)
        return NULL;
    s->api = a;
    s->handler = h;
    s->arg = arg;
    lifetime_init(&s->life, a->loop, "stream of the API");
    s->arena = arena_new(STREAM_BYTES);
    if (s->arena != NULL && http_head_init(&s->head, s->arena, IDENTITY_FIELDS + OWN_FIELDS) &&
        stream_head(s, a->local, target)) {
        b.head = &s->head;
        b.arg = s;
        s->request = back_start(a->back, &b);
    }
    if (s->request != NULL)
        return s;
    stream_free(s);
    return NULL;
}

void api_stream_cancel(struct api_stream *s)
{
    if (s->request == NULL)
        return;
    back_cancel(s->request);
    s->request = NULL;
    lifetime_retire(&s->life, stream_free, s);
}
