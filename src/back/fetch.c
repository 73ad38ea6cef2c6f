/* SPDX-License-Identifier: Apache-2.0 */
#include "back/fetch.h"

#include "back/loop_token.h"
#include "back/request.h"
#include "base/buf.h"
#include "base/err.h"
#include "net/lifetime.h"

enum { REQUEST_BYTES = 1 << 20, PATH_SHOWN = 80 };

struct fetch {
    struct back_request *request; /* NULL once it is over */
    struct fetch_opts opts;
    fetch_fn *fn;
    void *arg;
    struct arena *arena; /* request and, when it is complete, nothing else: the response is the back request's */
    struct http_head head;
    const struct http_head *response;
    struct buf body;
    size_t got; /* bytes of the body */
    uint64_t connection;
    struct lifetime life;
    struct loop_timer *timer;
    bool too_large, stopped;
};

static void free_work(void *arg)
{
    struct fetch *f = arg;

    buf_free(&f->body);
    arena_free(f->arena);
    mem_free(f);
}

static void release(struct fetch *f)
{
    if (f->request != NULL)
        back_cancel(f->request);
    f->request = NULL;
    lifetime_retire(&f->life, free_work, f);
}

static void end(struct fetch *f, const struct fetch_result *r)
{
    release(f);
    f->fn(f->arg, r);
}

static void fail(struct fetch *f, const char *why)
{
    end(f, &(struct fetch_result){.failure = why});
}

static bool take(struct fetch *f, struct slice text)
{
    if (text.n > f->opts.ceiling - f->got) {
        f->too_large = true;
        return false;
    }
    f->got += text.n;
    if (f->opts.on_piece == NULL)
        return buf_append(&f->body, text);
    f->stopped = !f->opts.on_piece(f->arg, f->response, text);
    /* The receiver may have cancelled the fetch from in there. */
    return !f->stopped && f->request != NULL;
}

/* Only as it is was asked for. To unpack what another one has packed may take longer than a turn of the loop may. */
static void on_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct fetch *f = arg;
    struct slice coding = http_head_value(head, HTTP_CONTENT_ENCODING);

    f->response = head;
    f->connection = request_connection(f->request);
    if (body.kind != HTTP_BODY_NONE && coding.n > 0 && !slice_ieq(coding, SLICE_LIT("identity")))
        fail(f, "content encoding that was not asked for");
    else if (f->opts.on_head != NULL)
        f->opts.on_head(f->arg, head);
}

static void on_body(void *arg, struct slice data)
{
    struct fetch *f = arg;

    if (take(f, data) || f->request == NULL)
        return;
    if (f->stopped)
        fail(f, "stopped by its receiver");
    else if (f->too_large)
        fail(f, "response is too large");
    else
        fail(f, "out of memory");
}

static void on_end(void *arg, const struct http_head *trailers)
{
    struct fetch *f = arg;
    struct fetch_result r = {.ok = true, .head = f->response, .connection = f->connection};

    (void)trailers;
    f->request = NULL;
    r.body = buf_len(&f->body) > 0 ? buf_slice(&f->body) : SLICE_LIT("");
    end(f, &r);
}

static void on_writable(void *arg)
{
    struct fetch *f = arg;

    if (f->opts.body.n > 0)
        (void)back_write(f->request, f->opts.body); /* whole: with its last byte it is finished */
}

static void on_failed(void *arg, const struct back_failure_info *info)
{
    struct fetch *f = arg;

    f->request = NULL;
    fail(f, info->text);
}

/* Connecting included. What stands behind the path is long, and nobody's who reads this. */
static void on_timer(void *arg)
{
    struct fetch *f = arg;
    struct slice path = slice_of(f->head.target.p, slice_index(f->head.target, '?'));
    struct err why = {.text = ""};

    (void)err_set(&why, "timed out: no answer to %.*s %.*s in %.1f s", (int)f->head.method.n, f->head.method.p,
                  (int)(path.n < PATH_SHOWN ? path.n : PATH_SHOWN), path.p, (double)f->opts.timeout_ms / 1000);
    end(f, &(struct fetch_result){.failure = why.text, .timed_out = true});
}

static bool prepare(struct fetch *f, const struct fetch_opts *o)
{
    struct http_head *h = &f->head;
    struct slice token = slice_str(loop_token_of(o->origin, o->target));

    if (!http_head_init(h, f->arena, o->n_fields + 3))
        return false;
    h->method = arena_copy(f->arena, o->method);
    h->method_id = http_method_of(o->method);
    h->target = arena_copy(f->arena, o->target);
    f->opts.body = arena_copy(f->arena, o->body);
    if (h->method.p == NULL || h->target.p == NULL || f->opts.body.p == NULL)
        return false;
    for (size_t i = 0; i < o->n_fields; i++) {
        struct slice name = arena_copy(f->arena, o->fields[i].name), value = arena_copy(f->arena, o->fields[i].value);

        if (name.p == NULL || value.p == NULL || !http_head_add(h, f->arena, name, value))
            return false;
    }
    if (!http_head_add_id(h, f->arena, HTTP_ACCEPT_ENCODING, SLICE_LIT("identity")))
        return false;
    if (token.n > 0 && !http_head_add(h, f->arena, SLICE_LIT(LOOP_TOKEN_FIELD), token))
        return false;
    if (http_head_find(h, HTTP_HOST) == NULL) {
        struct slice host = arena_copy(f->arena, slice_str(origin_address(o->origin)));

        return host.p != NULL && http_head_add_id(h, f->arena, HTTP_HOST, host);
    }
    return true;
}

struct fetch *fetch_start(struct back *b, struct loop *l, const struct fetch_opts *o, fetch_fn *fn, void *arg)
{
    static const struct back_handler handler = {
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
        .on_writable = on_writable,
        .on_failed = on_failed,
    };
    struct fetch *f = mem_zalloc(sizeof(*f));
    struct back_opts bo = {
        .origin = o->origin,
        .with_cert = o->with_cert,
        .own = true,
        .proves_nothing = o->probe,
        .head_timeout_ms = o->head_timeout_ms,
        .body = {.kind = o->body.n > 0 ? HTTP_BODY_LENGTH : HTTP_BODY_NONE, .length = o->body.n},
        .handler = &handler,
        .arg = f,
    };

    if (f == NULL)
        return NULL;
    f->opts = *o;
    f->fn = fn;
    f->arg = arg;
    buf_init(&f->body, o->ceiling);
    f->arena = arena_new(REQUEST_BYTES + o->body.n);
    lifetime_init(&f->life, l, "question of our own");
    f->timer = lifetime_timer(&f->life, on_timer, f);
    if (f->arena == NULL || f->timer == NULL || !prepare(f, o))
        goto fail;
    bo.head = &f->head;
    f->request = back_start(b, &bo);
    if (f->request == NULL)
        goto fail;
    loop_timer_set(f->timer, o->timeout_ms);
    return f;

fail:
    lifetime_retire(&f->life, free_work, f);
    return NULL;
}

void fetch_cancel(struct fetch **f)
{
    if (*f != NULL && !lifetime_over(&(*f)->life))
        release(*f);
    *f = NULL;
}
