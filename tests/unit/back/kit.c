/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/back/kit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/quota.h"
#include "lib/metric_sum.h"
#include "net/listener.h"

/* ---- server ---- */

bool buf_has(const struct buf *b, const char *text)
{
    return buf_len(b) > 0 && memmem(b->p + b->start, buf_len(b), text, strlen(text)) != NULL;
}

static void answer(struct server_conn *c)
{
    struct slice in = buf_slice(&c->got);
    size_t heads = 0;

    for (const char *at = in.p; at != NULL && in.n > 0; heads++) {
        at = memmem(at, (size_t)(in.p + in.n - at), "\r\n\r\n", 4);
        if (at == NULL)
            break;
        at += 4;
    }
    for (; c->answered < heads; c->answered++)
        conn_say(c, c->kit->auto_reply);
    if (c->got.failed) {
        conn_close(c, STREAM_CLOSE_NOW);
        c->failed = true;
    }
}

static void on_server_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct server_conn *c = arg;

    if (ev == STREAM_READABLE) {
        struct slice in;

        while ((in = stream_peek(s)).n > 0) {
            if (!buf_append(&c->got, in) && !c->kit->short_of_memory)
                tap_bail("the server got too much");
            stream_consume(s, in.n);
        }
        if (c->kit->auto_reply != NULL)
            answer(c);
    }
    c->eof = c->eof || ev == STREAM_EOF;
    c->failed = c->failed || ev == STREAM_FAILED;
}

static void on_accept(int fd, void *arg)
{
    struct back_kit *k = arg;
    struct server_conn *c = &k->conns[k->n_conns++];
    struct stream_opts o = {.fn = on_server_event, .arg = c, .tls = k->server_tls};

    if (k->on_accept != NULL) {
        k->n_conns--;
        k->on_accept(k, fd);
        return;
    }
    if (k->n_conns > KIT_CONNS)
        tap_bail("too many connections");
    *c = (struct server_conn){.kit = k};
    buf_init(&c->got, KIT_BODY);
    c->s = stream_accept(k->loop, fd, &o);
    if (c->s == NULL && !k->short_of_memory)
        tap_bail("stream_accept");
    c->failed = c->s == NULL;
    if (k->close_at_once)
        conn_close(c, STREAM_CLOSE_NOW);
}

void back_kit_open(struct back_kit *k, bool tls, size_t max_connections)
{
    struct err err = {""};
    struct origin_opts o = {.name = "server", .host = "127.0.0.1", .max_connections = max_connections};

    memset(k, 0, sizeof(*k));
    k->metrics = metrics_new();
    k->loop = loop_new(NULL);
    k->back = back_new(k->loop, k->metrics);
    if (tls) {
        k->server_tls = server_ctx(false);
        o.tls_no_cert = k->client_tls = client_ctx(NULL, false);
        o.tls_cert = k->client_cert_tls = client_ctx("alice", false);
    }
    k->listener = listener_open(k->loop, "127.0.0.1", 0, on_accept, k, &err);
    if (k->listener == NULL)
        tap_bail("%s", err.text);
    k->port = o.port = listener_port(k->listener);
    k->origin = origin_new(k->back, &o);
    if (k->origin == NULL)
        tap_bail("no memory");
}

void back_kit_origin(struct back_kit *k, const struct origin_opts *o)
{
    struct origin_opts changed = *o;

    changed.name = "server";
    changed.host = changed.host == NULL ? "127.0.0.1" : changed.host;
    changed.port = k->port;
    changed.tls_no_cert = k->client_tls;
    changed.tls_cert = k->client_cert_tls;
    origin_unref(k->origin);
    k->origin = origin_new(k->back, &changed);
    if (k->origin == NULL)
        tap_bail("no memory");
}

void back_kit_close(struct back_kit *k)
{
    is_u64(origin_in_flight(k->origin), 0, "nothing is left in flight");
    origin_unref(k->origin);
    settle(k->loop);
    back_free(k->back);
    if (k->listener != NULL)
        listener_close(k->listener);
    for (size_t i = 0; i < k->n_conns; i++) {
        if (k->conns[i].s != NULL)
            stream_close(k->conns[i].s, STREAM_CLOSE_NOW);
        buf_free(&k->conns[i].got);
    }
    if (k->server_tls != NULL) {
        tls_ctx_unref(k->server_tls);
        tls_ctx_unref(k->client_tls);
        tls_ctx_unref(k->client_cert_tls);
    }
    loop_free(k->loop);
    metrics_free(k->metrics);
}

struct server_conn *back_kit_conn(struct back_kit *k, size_t n)
{
    if (!run_until(k->loop, k->n_conns > n))
        tap_bail("no connection %zu", n);
    return &k->conns[n];
}

bool conn_has(struct server_conn *c, const char *text)
{
    return run_until(c->kit->loop, buf_has(&c->got, text));
}

const char *conn_take(struct server_conn *c)
{
    static char text[4096];

    (void)snprintf(text, sizeof(text), "%.*s", (int)buf_len(&c->got),
                   buf_len(&c->got) == 0 ? "" : buf_slice(&c->got).p);
    buf_reset(&c->got);
    return text;
}

void conn_say(struct server_conn *c, const char *text)
{
    if ((c->s == NULL || !stream_write(c->s, slice_str(text))) && !c->kit->short_of_memory)
        tap_bail("the server cannot write");
}

void conn_close(struct server_conn *c, enum stream_close_how how)
{
    if (c->s != NULL)
        stream_close(c->s, how);
    c->s = NULL;
}

bool conn_closed(struct server_conn *c)
{
    return run_until(c->kit->loop, c->eof || c->failed);
}

void back_kit_fetched(void *arg, const struct fetch_result *r)
{
    struct back_kit_fetched *f = arg;

    f->calls++;
    f->ok = r->ok;
    (void)snprintf(f->said, sizeof(f->said), "%.*s", r->ok ? (int)r->body.n : (int)strlen(r->failure),
                   r->ok ? r->body.p : r->failure);
}

double back_kit_metric(struct back_kit *k, const char *name, const char *label)
{
    return metric_sum(k->metrics, name, label);
}

/* ---- calls ---- */

static void note(struct call *c, const char *event, unsigned status)
{
    buf_printf(&c->log, buf_len(&c->log) == 0 ? "" : " ");
    buf_printf(&c->log, status > 0 ? "%s(%u)" : "%s", event, status);
}

static void act(struct call *c, const char *event)
{
    if (c->pause_at != NULL && strcmp(c->pause_at, event) == 0) {
        c->pause_at = NULL;
        back_pause(c->r);
    }
    if (c->cancel_at != NULL && strcmp(c->cancel_at, event) == 0) {
        c->cancel_at = NULL;
        note(c, "cancel", 0);
        back_cancel(c->r);
        c->r = NULL;
    }
}

static void on_interim(void *arg, const struct http_head *head)
{
    struct call *c = arg;

    note(c, "interim", head->status);
    act(c, "interim");
}

static void on_head(void *arg, const struct http_head *head, struct http_body body)
{
    struct call *c = arg;

    c->n_fields = head->n_fields;
    c->answer_body = body;
    note(c, "head", head->status);
    act(c, "head");
}

static void on_body(void *arg, struct slice data)
{
    struct call *c = arg;

    c->body_events++;
    if (data.n == 0 || (!buf_append(&c->body, data) && !c->kit->short_of_memory))
        tap_bail("a piece of body that is empty or too large");
    act(c, "body");
}

static void on_end(void *arg, const struct http_head *trailers)
{
    struct call *c = arg;

    c->r = NULL;
    c->charged_at_end = c->opts.quota == NULL ? 0 : c->opts.quota->held;
    note(c, "end", (unsigned)trailers->n_fields);
    if (c->follow != NULL)
        call_send(c->follow);
}

static void on_writable(void *arg)
{
    struct call *c = arg;

    c->writable++;
    act(c, "writable");
}

static void on_failed(void *arg, const struct back_failure_info *info)
{
    struct call *c = arg;

    c->r = NULL;
    c->failure = *info;
    (void)snprintf(c->failure_text, sizeof(c->failure_text), "%s", info->text);
    note(c, "failed:", 0);
    note(c, back_failure_name(info->why), 0);
}

static void on_upgraded(void *arg, const struct http_head *head, struct stream *s)
{
    struct call *c = arg;

    c->r = NULL;
    c->upgraded = s;
    note(c, "upgraded", head->status);
}

static const struct back_handler handler = {
    .on_interim = on_interim,
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_writable = on_writable,
    .on_failed = on_failed,
    .on_upgraded = on_upgraded,
};

void call_init(struct call *c, struct back_kit *k, const char *method, const char *target)
{
    memset(c, 0, sizeof(*c));
    c->kit = k;
    c->arena = arena_new(1 << 20);
    if (c->arena == NULL || !http_head_init(&c->head, c->arena, 8) ||
        !http_head_add_id(&c->head, c->arena, HTTP_HOST, SLICE_LIT("h")))
        tap_bail("no memory");
    c->head.method = slice_str(method);
    c->head.method_id = http_method_of(c->head.method);
    c->head.target = slice_str(target);
    buf_init(&c->log, 1 << 16);
    buf_init(&c->body, KIT_BODY);
    c->opts = (struct back_opts){.origin = k->origin, .head = &c->head, .handler = &handler, .arg = c};
}

void call_send(struct call *c)
{
    c->r = back_start(c->kit->back, &c->opts);
    if (c->r == NULL)
        tap_bail("no memory");
}

void call_start(struct call *c, struct back_kit *k, const char *method, const char *target)
{
    call_init(c, k, method, target);
    call_send(c);
}

static bool log_is(const struct call *c, const char *log)
{
    return slice_eq(buf_slice(&c->log), slice_str(log));
}

bool call_is(struct call *c, const char *log)
{
    bool good = run_until(c->kit->loop, log_is(c, log));

    if (!good)
        diag("log: %.*s (%s)", (int)buf_len(&c->log), buf_len(&c->log) == 0 ? "" : buf_slice(&c->log).p,
             c->failure_text);
    return good;
}

bool call_over(struct call *c)
{
    return run_until(c->kit->loop, c->r == NULL);
}

void call_free(struct call *c)
{
    if (c->r != NULL)
        back_cancel(c->r);
    buf_free(&c->log);
    buf_free(&c->body);
    arena_free(c->arena);
}
