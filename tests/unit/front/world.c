/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/front/world.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lib/folder.h"
#include "lib/tap.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"

enum { SINK_BYTES = 1 << 20, CLIENT_BYTES = 64 << 20 };

/* ---- the proxy's part ---- */

static struct http_head *make_head(struct exchange *x, unsigned status, const char *name, const char *value)
{
    struct arena *a = exchange_arena(x);
    struct http_head *h = arena_zalloc(a, sizeof(*h));

    if (h == NULL || !http_head_init(h, a, 4))
        return NULL;
    h->status = status;
    h->reason = http_reason(status);
    h->minor = 1;
    if (name != NULL && !http_head_add(h, a, slice_str(name), slice_str(value)))
        return NULL;
    return h;
}

struct http_head *head_of(struct world *w, unsigned status, const char *name, const char *value)
{
    struct http_head *h = make_head(w->x, status, name, value);

    if (h == NULL)
        tap_bail("out of memory");
    return h;
}

static void reply(struct exchange *x, unsigned status, const char *body)
{
    struct http_head *h = make_head(x, status, "Content-Type", "text/plain");

    if (h == NULL)
        exchange_abort(x, "out of memory");
    else
        exchange_reply(x, h, slice_str(body));
}

void respond_whole(struct world *w, unsigned status, const char *body)
{
    struct exchange *x = w->x;

    w->x = NULL;
    reply(x, status, body);
}

static void on_body(void *arg, struct slice data)
{
    struct world *w = arg;

    buf_printf(&w->sink, "body(%.*s) ", (int)(data.n > 200 ? 200 : data.n), data.p);
    if (w->finish_in_body)
        respond_whole(w, 200, "early");
}

static void on_body_end(void *arg, const struct http_head *trailers)
{
    struct world *w = arg;

    buf_append_str(&w->sink, "end");
    for (size_t i = 0; i < trailers->n_fields; i++) {
        buf_append_str(&w->sink, " trailer:");
        buf_append(&w->sink, trailers->fields[i].name);
    }
    buf_append_char(&w->sink, ' ');
    if (slice_eq(exchange_request(w->x)->target, SLICE_LIT("/whole")))
        respond_whole(w, 200, "in sync");
}

static void on_writable(void *arg)
{
    struct world *w = arg;

    buf_append_str(&w->sink, "writable ");
}

static void on_gone(void *arg, const char *reason)
{
    struct world *w = arg;

    w->gone++;
    w->x = NULL;
    buf_printf(&w->sink, "gone(%s) ", reason);
}

static const struct exchange_sink sink = {on_body, on_body_end, on_writable, on_gone};

static void on_request(struct exchange *x, void *arg)
{
    struct world *w = arg;
    struct slice target = exchange_request(x)->target;

    w->handled++;
    if (w->keep_quiet)
        return;
    if (slice_eq(target, SLICE_LIT("/away")))
        exchange_send_away(x);
    if (slice_eq(target, SLICE_LIT("/sync")) || slice_eq(target, SLICE_LIT("/away"))) {
        reply(x, 200, "sync");
        return;
    }
    w->x = x;
    exchange_attach(x, &sink, w);
}

/* ---- the world ---- */

/* A CA, a server and a client, once per test program. */
static void make_certificates(void)
{
    static bool made;

    if (made)
        return;
    folder_certificates("a.issue('ca', 'ca', is_ca=True, eku='');"
                        "a.issue('server', 's', ca='ca', eku='serverAuth', sans=('localhost',));"
                        "a.issue('client', 'alice', ('dev',), ca='ca')");
    made = true;
}

static void make_tls(struct world *w, bool http2)
{
    const char *dir = folder();
    char ca[600], cert[600], key[600], client_cert[600], client_key[600];
    struct err err = {""};
    struct tls_server_opts so = {.cert_file = cert, .key_file = key, .client_ca_file = ca, .http2 = http2};
    struct tls_client_opts co = {
        .ca_file = ca, .cert_file = client_cert, .key_file = client_key, .server_name = "localhost", .http2 = http2};

    make_certificates();
    snprintf(ca, sizeof(ca), "%s/ca.crt", dir);
    snprintf(cert, sizeof(cert), "%s/server.crt", dir);
    snprintf(key, sizeof(key), "%s/server.key", dir);
    snprintf(client_cert, sizeof(client_cert), "%s/client.crt", dir);
    snprintf(client_key, sizeof(client_key), "%s/client.key", dir);
    w->server_tls = tls_server_ctx_new(&so, &err);
    w->client_tls = tls_client_ctx_new(&co, &err);
    if (w->server_tls == NULL || w->client_tls == NULL)
        tap_bail("TLS: %s", err.text);
}

static void init(struct world *w, bool tls, bool http2)
{
    static const struct listen_address loopback = {"127.0.0.1", 0};

    memset(w, 0, sizeof(*w));
    w->metrics = metrics_new();
    w->loop = loop_new(w->metrics);
    buf_init(&w->sink, SINK_BYTES);
    if (tls)
        make_tls(w, http2);
    w->opts = (struct front_opts){
        .listen = {.addresses = &loopback, .n_addresses = 1},
        .max_head_bytes = 16 << 10,
        .header_timeout_ms = 60000,
        .idle_timeout_ms = 60000,
        .linger_timeout_ms = 200,
        .tls = w->server_tls,
        .on_request = on_request,
        .arg = w,
    };
}

void world_init(struct world *w, bool tls)
{
    init(w, tls, false);
}

void world_init_http2(struct world *w)
{
    init(w, true, true);
}

void world_start(struct world *w)
{
    struct err err = {""};

    w->front = front_new(w->loop, w->metrics, &w->opts, &err);
    if (w->front == NULL)
        tap_bail("front_new: %s", err.text);
    w->started = true;
}

void world_end(struct world *w)
{
    if (w->front != NULL)
        front_free(w->front);
    if (w->started) {
        is_double(world_metric(w, "mvproxy_front_connections", NULL), 0, "no connection is left over");
        is_double(world_metric(w, "mvproxy_front_requests_in_flight", NULL), 0, "no request is left over");
    }
    loop_free(w->loop);
    metrics_free(w->metrics);
    buf_free(&w->sink);
    if (w->server_tls != NULL)
        tls_ctx_unref(w->server_tls);
    if (w->client_tls != NULL)
        tls_ctx_unref(w->client_tls);
}

bool world_until(struct world *w, bool (*done)(void *arg), void *arg)
{
    uint64_t give_up = deadline();

    while (!done(arg)) {
        if (passed(give_up))
            return false;
        loop_run_once(w->loop, 20);
    }
    return true;
}

void world_settle(struct world *w)
{
    for (int i = 0; i < 20; i++)
        loop_run_once(w->loop, 1);
}

struct handled_goal {
    struct world *w;
    unsigned n;
};

static bool handled_reached(void *arg)
{
    struct handled_goal *g = arg;

    return g->w->handled >= g->n;
}

bool world_handled(struct world *w, unsigned n)
{
    struct handled_goal g = {w, n};

    return world_until(w, handled_reached, &g) && w->handled == n;
}

struct text_goal {
    struct buf *b;
    const char *text;
};

static bool text_there(void *arg)
{
    struct text_goal *g = arg;

    return buf_len(g->b) > 0 && memmem(buf_slice(g->b).p, buf_len(g->b), g->text, strlen(g->text)) != NULL;
}

static bool text_last(void *arg)
{
    struct text_goal *g = arg;

    return slice_has_suffix(buf_slice(g->b), slice_str(g->text));
}

bool world_sink_has(struct world *w, const char *text)
{
    struct text_goal g = {&w->sink, text};

    return world_until(w, text_there, &g);
}

static bool no_connection(void *arg)
{
    struct world *w = arg;

    return front_connections(w->front) == 0;
}

bool world_empty(struct world *w)
{
    return world_until(w, no_connection, w);
}

struct metric_query {
    const char *name, *label_value;
    double value;
};

static void match_metric(const struct metric_view *v, void *arg)
{
    struct metric_query *q = arg;

    if (strcmp(v->name, q->name) != 0)
        return;
    if (q->label_value == NULL || (v->n_labels > 0 && slice_eq(v->label_values[0], slice_str(q->label_value))))
        q->value = v->kind == METRIC_HISTOGRAM ? (double)v->count : v->value;
}

double world_metric(struct world *w, const char *name, const char *label_value)
{
    struct metric_query q = {name, label_value, -1};

    metrics_walk(w->metrics, match_metric, &q);
    return q.value;
}

/* ---- clients ---- */

static void on_client_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct client *c = arg;
    struct slice piece;

    switch (ev) {
    case STREAM_OPENED:
        c->opened = true;
        break;
    case STREAM_READABLE:
        while ((piece = stream_peek(s)).n > 0) {
            if (!buf_append(&c->in, piece))
                c->end = CLIENT_BROKEN; /* no memory: the test of that counts it as not answered */
            stream_consume(s, piece.n);
        }
        break;
    case STREAM_WRITABLE:
        break;
    case STREAM_EOF:
        if (c->end == CLIENT_OPEN)
            c->end = CLIENT_EOF;
        break;
    case STREAM_FAILED:
        c->end = CLIENT_BROKEN;
        break;
    }
}

void client_start(struct world *w, struct client *c)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)front_port(w->front)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct stream_opts o = {.fn = on_client_event, .arg = c, .tls = w->client_tls};

    memset(c, 0, sizeof(*c));
    c->w = w;
    buf_init(&c->in, CLIENT_BYTES);
    c->s = stream_connect(w->loop, (struct sockaddr *)&addr, sizeof(addr), &o);
    if (c->s == NULL)
        tap_bail("stream_connect");
}

static bool client_is_open(void *arg)
{
    struct client *c = arg;

    return c->opened || c->end != CLIENT_OPEN;
}

void client_open(struct world *w, struct client *c)
{
    client_start(w, c);
    if (!world_until(w, client_is_open, c) || c->end != CLIENT_OPEN)
        tap_bail("client cannot connect: %s", stream_failure(c->s));
}

void client_send_bytes(struct client *c, struct slice bytes)
{
    if (!stream_write(c->s, bytes))
        c->end = CLIENT_BROKEN;
}

int client_raw_from(struct world *w, unsigned char n)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + n)}, to = from;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)front_port(w->front));
    if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        tap_bail("connect");
    return fd;
}

int client_raw(struct world *w)
{
    return client_raw_from(w, 1);
}

void client_raw_asks(struct world *w, int fd)
{
    static const char request[] = "GET /sync HTTP/1.1\r\nHost: h\r\n\r\n";
    char got[1024];
    int yes = 1;

    is_int(send(fd, request, strlen(request), 0), (long long)strlen(request), "one asks");
    while (recv(fd, got, sizeof(got), MSG_DONTWAIT) < 0)
        loop_run_once(w->loop, 20);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof(yes));
}

void client_send(struct client *c, const char *text)
{
    client_send_bytes(c, slice_str(text));
}

bool client_has(struct client *c, const char *text)
{
    struct text_goal g = {&c->in, text};

    return world_until(c->w, text_there, &g);
}

bool client_ends_in(struct client *c, const char *text)
{
    struct text_goal g = {&c->in, text};

    return world_until(c->w, text_last, &g);
}

static bool client_is_over(void *arg)
{
    struct client *c = arg;

    return c->end != CLIENT_OPEN;
}

enum client_end client_ended(struct client *c)
{
    world_until(c->w, client_is_over, c);
    return c->end;
}

const char *client_take(struct client *c)
{
    static char text[1 << 20];
    struct slice s = buf_slice(&c->in);
    size_t n = s.n < sizeof(text) - 1 ? s.n : sizeof(text) - 1;

    if (n > 0)
        memcpy(text, s.p, n);
    text[n] = '\0';
    buf_reset(&c->in);
    return text;
}

void client_close(struct client *c, enum stream_close_how how)
{
    stream_close(c->s, how);
    buf_free(&c->in);
}

bool respond_more(struct world *w, const char *text)
{
    return exchange_body(w->x, slice_str(text));
}

void respond_end(struct world *w)
{
    struct exchange *x = w->x;

    w->x = NULL;
    exchange_finish(x, NULL);
}

const char *world_sunk(struct world *w)
{
    static char text[1 << 16];

    snprintf(text, sizeof(text), "%.*s", (int)buf_len(&w->sink), buf_len(&w->sink) == 0 ? "" : buf_slice(&w->sink).p);
    buf_reset(&w->sink);
    return text;
}

double world_closed(struct world *w, const char *reason)
{
    return world_metric(w, "mvproxy_front_closed_total", reason);
}

void client_ask(struct client *c, const char *target)
{
    char text[256];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    client_send(c, text);
}

const char *client_take_undated(struct client *c)
{
    static char out[1 << 16];
    const char *p = client_take(c);
    size_t n = 0;

    while (*p != '\0' && n < sizeof(out) - 1) {
        if (strncmp(p, "Date: ", 6) == 0)
            p = strstr(p, "\r\n") + 2;
        else
            out[n++] = *p++;
    }
    out[n] = '\0';
    return out;
}

/* ---- stories ---- */

void world_run(const struct world_story *stories, size_t n)
{
    for (size_t i = 0; i < 2 * n; i++) {
        const struct world_story *story = &stories[i % n];
        struct world w;
        bool tls = i >= n;

        diag("%s, %s", story->name, tls ? "TLS" : "plain");
        world_init(&w, tls);
        story->run(&w);
        world_end(&w);
    }
}

void world_fill(struct world *w)
{
    static char piece[16 << 10];

    memset(piece, 'y', sizeof(piece));
    while (w->gone == 0 && !exchange_congested(w->x)) {
        exchange_body(w->x, slice_of(piece, sizeof(piece)));
        loop_run_once(w->loop, 0);
    }
    (void)world_sunk(w);
}

void world_pass(struct world *w, uint64_t ms)
{
    clock_fake(clock_us() + ms * 1000, clock_wall_us());
    for (int i = 0; i < 10; i++)
        loop_run_once(w->loop, 10);
}
