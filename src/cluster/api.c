/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/api.h"

#include <stdio.h>

#include "base/log.h"
#include "cluster/work.h"
#include "kube/server_id.h"
#include "kube/user.h"

enum { IDENTITY_FIELDS = 64, IDENTITY_BYTES = 64 << 10, OWN_FIELDS = 7, SMALL_BYTES = 64 << 10, SMALL_MS = 10000 };

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
        .head_timeout_ms = g->head_timeout_ms,
        .on_head = g->on_head,
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

struct fetch *api_ask(struct api *a, const char *method, const char *target, struct slice body, fetch_fn *fn, void *arg)
{
    struct api_request g = {
        .method = slice_str(method),
        .target = slice_str(target),
        .accept = SLICE_LIT("application/json"),
        .body = body,
        .ceiling = SMALL_BYTES,
        .timeout_ms = SMALL_MS,
    };

    if (body.n > 0)
        g.content_type = slice_str(strcmp(method, "PATCH") == 0 ? "application/merge-patch+json" : "application/json");
    return api_send(a, &g, fn, arg);
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
