/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/front/kit.h"

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

struct http_head *front_kit_head(struct exchange *x, unsigned status, const char *name, const char *value)
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

struct http_head *head_of(struct front_kit *k, unsigned status, const char *name, const char *value)
{
    struct http_head *h = front_kit_head(k->x, status, name, value);

    if (h == NULL)
        tap_bail("out of memory");
    return h;
}

void front_kit_reply(struct exchange *x, unsigned status, const char *body)
{
    struct http_head *h = front_kit_head(x, status, "Content-Type", "text/plain");

    if (h == NULL)
        exchange_abort(x, "out of memory");
    else
        exchange_reply(x, h, slice_str(body));
}

void respond_whole(struct front_kit *k, unsigned status, const char *body)
{
    struct exchange *x = k->x;

    k->x = NULL;
    front_kit_reply(x, status, body);
}

static void on_body(void *arg, struct slice data)
{
    struct front_kit *k = arg;

    buf_printf(&k->sink, "body(%.*s) ", (int)(data.n > 200 ? 200 : data.n), data.p);
    if (k->finish_in_body)
        respond_whole(k, 200, "early");
}

static void on_body_end(void *arg, const struct http_head *trailers)
{
    struct front_kit *k = arg;

    buf_append_str(&k->sink, "end");
    for (size_t i = 0; i < trailers->n_fields; i++) {
        buf_append_str(&k->sink, " trailer:");
        buf_append(&k->sink, trailers->fields[i].name);
    }
    buf_append_char(&k->sink, ' ');
    if (slice_eq(exchange_request(k->x)->target, SLICE_LIT("/whole")))
        respond_whole(k, 200, "in sync");
}

static void on_writable(void *arg)
{
    struct front_kit *k = arg;

    buf_append_str(&k->sink, "writable ");
}

static void on_gone(void *arg, const char *reason)
{
    struct front_kit *k = arg;

    k->gone++;
    k->x = NULL;
    buf_printf(&k->sink, "gone(%s) ", reason);
}

static const struct exchange_sink sink = {on_body, on_body_end, on_writable, on_gone};

static void on_request(struct exchange *x, void *arg)
{
    struct front_kit *k = arg;
    struct slice target = exchange_request(x)->target;

    k->handled++;
    if (k->keep_quiet)
        return;
    if (slice_eq(target, SLICE_LIT("/away")))
        exchange_send_away(x);
    if (slice_eq(target, SLICE_LIT("/sync")) || slice_eq(target, SLICE_LIT("/away"))) {
        front_kit_reply(x, 200, "sync");
        return;
    }
    (void)exchange_may_ask(x, 1);
    k->x = x;
    exchange_attach(x, &sink, k);
}

/* ---- the whole ---- */

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

static void make_tls(struct front_kit *k, bool http2)
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
    k->server_tls = tls_server_ctx_new(&so, &err);
    k->client_tls = tls_client_ctx_new(&co, &err);
    if (k->server_tls == NULL || k->client_tls == NULL)
        tap_bail("TLS: %s", err.text);
}

static void init(struct front_kit *k, bool tls, bool http2)
{
    static const struct listen_address loopback = {"127.0.0.1", 0};

    memset(k, 0, sizeof(*k));
    k->metrics = metrics_new();
    k->loop = loop_new(k->metrics);
    buf_init(&k->sink, SINK_BYTES);
    if (tls)
        make_tls(k, http2);
    k->opts = (struct front_opts){
        .listen = {.addresses = &loopback, .n_addresses = 1},
        .max_head_bytes = 16 << 10,
        .header_timeout_ms = 60000,
        .idle_timeout_ms = 60000,
        .linger_timeout_ms = 200,
        .tls = k->server_tls,
        .on_request = on_request,
        .arg = k,
    };
}

void front_kit_init(struct front_kit *k, bool tls)
{
    init(k, tls, false);
}

void front_kit_init_http2(struct front_kit *k)
{
    init(k, true, true);
}

void front_kit_start(struct front_kit *k)
{
    struct err err = {""};

    k->front = front_new(k->loop, k->metrics, &k->opts, &err);
    if (k->front == NULL)
        tap_bail("front_new: %s", err.text);
    k->started = true;
}

void front_kit_end(struct front_kit *k)
{
    if (k->front != NULL)
        front_free(k->front);
    if (k->started) {
        is_double(front_kit_metric(k, "mvproxy_front_connections", NULL), 0, "no connection is left over");
        is_double(front_kit_metric(k, "mvproxy_front_requests_in_flight", NULL), 0, "no request is left over");
    }
    loop_free(k->loop);
    metrics_free(k->metrics);
    buf_free(&k->sink);
    if (k->server_tls != NULL)
        tls_ctx_unref(k->server_tls);
    if (k->client_tls != NULL)
        tls_ctx_unref(k->client_tls);
}

bool front_kit_until(struct front_kit *k, bool (*done)(void *arg), void *arg)
{
    uint64_t give_up = deadline();

    while (!done(arg)) {
        if (passed(give_up))
            return false;
        loop_run_once(k->loop, 20);
    }
    return true;
}

void front_kit_settle(struct front_kit *k)
{
    for (int i = 0; i < 20; i++)
        loop_run_once(k->loop, 1);
}

struct handled_goal {
    struct front_kit *k;
    unsigned n;
};

static bool handled_reached(void *arg)
{
    struct handled_goal *g = arg;

    return g->k->handled >= g->n;
}

bool front_kit_handled(struct front_kit *k, unsigned n)
{
    struct handled_goal g = {k, n};

    return front_kit_until(k, handled_reached, &g) && k->handled == n;
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

bool front_kit_sink_has(struct front_kit *k, const char *text)
{
    struct text_goal g = {&k->sink, text};

    return front_kit_until(k, text_there, &g);
}

static bool no_connection(void *arg)
{
    struct front_kit *k = arg;

    return front_connections(k->front) == 0;
}

bool front_kit_empty(struct front_kit *k)
{
    return front_kit_until(k, no_connection, k);
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

double front_kit_metric(struct front_kit *k, const char *name, const char *label_value)
{
    struct metric_query q = {name, label_value, -1};

    metrics_walk(k->metrics, match_metric, &q);
    return q.value;
}

/* ---- clients ---- */

static void on_client_event(struct stream *s, enum stream_event ev, void *arg)
{
    struct front_client *c = arg;
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

void client_start(struct front_kit *k, struct front_client *c)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)front_port(k->front)),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct stream_opts o = {.fn = on_client_event, .arg = c, .tls = k->client_tls};

    memset(c, 0, sizeof(*c));
    c->k = k;
    buf_init(&c->in, CLIENT_BYTES);
    c->s = stream_connect(k->loop, (struct sockaddr *)&addr, sizeof(addr), &o);
    if (c->s == NULL)
        tap_bail("stream_connect");
}

static bool client_is_open(void *arg)
{
    struct front_client *c = arg;

    return c->opened || c->end != CLIENT_OPEN;
}

void client_open(struct front_kit *k, struct front_client *c)
{
    client_start(k, c);
    if (!front_kit_until(k, client_is_open, c) || c->end != CLIENT_OPEN)
        tap_bail("client cannot connect: %s", stream_failure(c->s));
}

void client_send_bytes(struct front_client *c, struct slice bytes)
{
    if (!stream_write(c->s, bytes))
        c->end = CLIENT_BROKEN;
}

int client_raw_from(struct front_kit *k, unsigned char n)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + n)}, to = from;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)front_port(k->front));
    if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) != 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        tap_bail("connect");
    return fd;
}

int client_raw(struct front_kit *k)
{
    return client_raw_from(k, 1);
}

void client_raw_asks(struct front_kit *k, int fd)
{
    static const char request[] = "GET /sync HTTP/1.1\r\nHost: h\r\n\r\n";
    char got[1024];
    int yes = 1;

    is_int(send(fd, request, strlen(request), 0), (long long)strlen(request), "one asks");
    while (recv(fd, got, sizeof(got), MSG_DONTWAIT) < 0)
        loop_run_once(k->loop, 20);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof(yes));
}

void client_send(struct front_client *c, const char *text)
{
    client_send_bytes(c, slice_str(text));
}

bool client_has(struct front_client *c, const char *text)
{
    struct text_goal g = {&c->in, text};

    return front_kit_until(c->k, text_there, &g);
}

bool client_ends_in(struct front_client *c, const char *text)
{
    struct text_goal g = {&c->in, text};

    return front_kit_until(c->k, text_last, &g);
}

static bool client_is_over(void *arg)
{
    struct front_client *c = arg;

    return c->end != CLIENT_OPEN;
}

enum client_end client_ended(struct front_client *c)
{
    front_kit_until(c->k, client_is_over, c);
    return c->end;
}

const char *client_take(struct front_client *c)
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

void client_close(struct front_client *c, enum stream_close_how how)
{
    stream_close(c->s, how);
    buf_free(&c->in);
}

bool respond_more(struct front_kit *k, const char *text)
{
    return exchange_body(k->x, slice_str(text));
}

void respond_end(struct front_kit *k)
{
    struct exchange *x = k->x;

    k->x = NULL;
    exchange_finish(x, NULL);
}

const char *front_kit_sunk(struct front_kit *k)
{
    static char text[1 << 16];

    snprintf(text, sizeof(text), "%.*s", (int)buf_len(&k->sink), buf_len(&k->sink) == 0 ? "" : buf_slice(&k->sink).p);
    buf_reset(&k->sink);
    return text;
}

double front_kit_closed(struct front_kit *k, const char *reason)
{
    return front_kit_metric(k, "mvproxy_front_closed_total", reason);
}

void client_ask(struct front_client *c, const char *target)
{
    char text[256];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    client_send(c, text);
}

const char *client_take_undated(struct front_client *c)
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

void front_kit_run(const struct front_kit_story *stories, size_t n)
{
    for (size_t i = 0; i < 2 * n; i++) {
        const struct front_kit_story *story = &stories[i % n];
        struct front_kit k;
        bool tls = i >= n;

        diag("%s, %s", story->name, tls ? "TLS" : "plain");
        front_kit_init(&k, tls);
        story->run(&k);
        front_kit_end(&k);
    }
}

void front_kit_fill(struct front_kit *k)
{
    static char piece[16 << 10];

    memset(piece, 'y', sizeof(piece));
    while (k->gone == 0 && !exchange_congested(k->x)) {
        exchange_body(k->x, slice_of(piece, sizeof(piece)));
        loop_run_once(k->loop, 0);
    }
    (void)front_kit_sunk(k);
}

void front_kit_pass(struct front_kit *k, uint64_t ms)
{
    clock_fake(clock_us() + ms * 1000, clock_wall_us());
    for (int i = 0; i < 10; i++)
        loop_run_once(k->loop, 10);
}
