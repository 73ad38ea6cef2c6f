#include "admin/admin.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdio.h>

#include "admin/access.h"
#include "admin/metrics_text.h"
#include "admin/zpages.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"
#include "net/sockopt.h"
#include "net/tls_bufferevent.h"
#include "net/tls_peer.h"

enum {
    MAX_REQUEST_HEADERS = 16 << 10,
    MAX_REQUEST_BODY = 1024,
    MAX_ANSWER = 32 << 20,
    MAX_FACTS = 64 << 10,
    TIMEOUT_SECONDS = 30
};

struct admin {
    struct event_base *base;
    struct evhttp *http;
    struct tls_ctx *tls; /* NULL on loopback */
    struct health *health;
    struct metrics *metrics;
    struct metric_family *requests;
    void (*flags)(admin_flag_fn *each, void *each_arg, void *arg);
    void (*status)(struct page *p, void *arg);
    void (*facts)(struct buf *out, void *arg);
    void *arg;
    char *version;
    int64_t started_wall_us;
    uint64_t started_ms;
    unsigned port;
    bool loopback;
};

/* One request and the answer that is being made. */
struct call {
    struct admin *admin;
    struct evhttp_request *req;
    struct slice path, query, accept, host;
    enum access_verdict verdict;
    unsigned status;
    const char *content_type;
    struct buf body;
};

/* ---- the pages ---- */

static const char *const paths[] = {"/flagz",        "/healthz", "/livez",   "/metrics",
                                    "/metrics/slis", "/readyz",  "/statusz", NULL};

static void answer_metrics(struct call *c, struct metrics *m)
{
    enum metrics_format format = metrics_text_negotiate(c->accept);

    c->content_type = metrics_text_content_type(format);
    metrics_text_write(&c->body, m, format);
}

static void serve_metrics(struct call *c)
{
    answer_metrics(c, c->admin->metrics);
}

static void serve_slis(struct call *c)
{
    answer_metrics(c, health_slis(c->admin->health));
}

static void serve_health(struct call *c)
{
    c->status = health_answer(c->admin->health, c->path, c->query, &c->body);
}

static bool accepts(struct call *c, enum zpage which, enum zpage_form *form)
{
    *form = zpage_negotiate(which, c->accept);
    if (*form != ZPAGE_NOT_ACCEPTABLE) {
        c->content_type = zpage_content_type(which, *form);
        return true;
    }
    c->status = 406;
    buf_append_str(&c->body, "only text/plain, and JSON by its full media type, are served here\n");
    return false;
}

static void serve_statusz(struct call *c)
{
    enum zpage_form form;
    struct statusz s = {.started_wall_us = c->admin->started_wall_us,
                        .uptime_ms = clock_ms() - c->admin->started_ms,
                        .version = c->admin->version,
                        .paths = paths};

    struct buf facts;

    if (!accepts(c, ZPAGE_STATUSZ, &form))
        return;
    buf_init(&facts, MAX_FACTS);
    if (c->admin->facts != NULL)
        c->admin->facts(&facts, c->admin->arg);
    s.facts = buf_slice(&facts);
    statusz_write(&c->body, form, &s);
    buf_free(&facts);
}

static void each_flag(void *arg, const char *name, const char *value)
{
    flagz_add(arg, name, value);
}

static void serve_flagz(struct call *c)
{
    enum zpage_form form;
    struct flagz f;

    if (!accepts(c, ZPAGE_FLAGZ, &form))
        return;
    flagz_begin(&f, &c->body, form);
    if (c->admin->flags != NULL)
        c->admin->flags(each_flag, &f, c->admin->arg);
    flagz_end(&f);
}

static void serve_status_page(struct call *c)
{
    static const char *const columns[] = {"", "", NULL};
    char uptime[32];
    struct page p;

    clock_format_duration((clock_ms() - c->admin->started_ms) / 1000 * 1000, uptime);
    c->content_type = "text/html; charset=utf-8";
    page_begin(&p, &c->body, "mvproxy");
    page_table(&p, "This process", columns);
    page_fact(&p, "version", slice_str(c->admin->version));
    page_fact(&p, "up", slice_str(uptime));
    if (c->admin->status != NULL)
        c->admin->status(&p, c->admin->arg);
    page_end(&p);
}

static const struct {
    const char *path;
    void (*serve)(struct call *c);
} routes[] = {
    {"/", serve_status_page},    {"/metrics", serve_metrics}, {"/metrics/slis", serve_slis},
    {"/statusz", serve_statusz}, {"/flagz", serve_flagz},
};

enum { ROUTES = sizeof(routes) / sizeof(routes[0]) };

/* ---- one request ---- */

static void refuse(struct call *c, unsigned status, const char *text)
{
    c->status = status;
    c->content_type = "text/plain; charset=utf-8";
    buf_reset(&c->body);
    buf_append_str(&c->body, text);
}

static void judge(const struct tls_peer *peer, void *arg)
{
    struct call *c = arg;

    c->verdict = access_check(c->admin->loopback, c->path, c->host, peer, clock_wall_us() / 1000000);
}

static void check_access(struct call *c)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(c->req));

    c->verdict = ACCESS_NO_IDENTITY;
    if (c->admin->loopback)
        judge(NULL, c);
    /* No call: not over TLS, which only happens when memory was too short for it. Nothing is answered in the clear. */
    else if (!tls_bufferevent_peer(c->admin->tls, bev, judge, c))
        c->verdict = ACCESS_FORBIDDEN;
}

static void serve(struct call *c)
{
    if (health_is_path(c->path)) {
        serve_health(c);
        return;
    }
    for (size_t i = 0; i < ROUTES; i++) {
        if (slice_eq(c->path, slice_str(routes[i].path))) {
            routes[i].serve(c);
            return;
        }
    }
    refuse(c, HTTP_NOTFOUND, "404 page not found\n");
}

static void decide(struct call *c)
{
    enum evhttp_cmd_type method = evhttp_request_get_command(c->req);

    check_access(c);
    if (c->verdict == ACCESS_NO_IDENTITY)
        refuse(c, 401, "a client certificate is needed\n");
    else if (c->verdict == ACCESS_FORBIDDEN)
        refuse(c, 403, "forbidden\n");
    else if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD)
        refuse(c, HTTP_BADMETHOD, "method not allowed\n");
    else
        serve(c);
    if (c->body.failed)
        refuse(c, HTTP_INTERNAL, "out of memory\n");
}

static void add_header(struct call *c, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(c->req), name, value);
}

static void send_answer(struct call *c)
{
    bool head = evhttp_request_get_command(c->req) == EVHTTP_REQ_HEAD;
    struct evbuffer *out = evbuffer_new();
    struct slice body = buf_slice(&c->body);
    char length[24];

    add_header(c, "Content-Type", c->content_type);
    add_header(c, "X-Content-Type-Options", "nosniff");
    add_header(c, "Cache-Control", "no-cache, no-store");
    add_header(c, "Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    if (c->status == HTTP_BADMETHOD)
        add_header(c, "Allow", "GET, HEAD");
    if (head) {
        snprintf(length, sizeof(length), "%zu", body.n);
        add_header(c, "Content-Length", length);
    } else if (out != NULL && body.n > 0) {
        evbuffer_add(out, body.p, body.n);
    }
    evhttp_send_reply(c->req, (int)c->status, NULL, out);
    if (out != NULL)
        evbuffer_free(out);
}

/* Known paths only: a label that anybody can choose would grow without bound. */
static struct slice path_label(struct slice path)
{
    for (size_t i = 0; i < ROUTES; i++)
        if (slice_eq(path, slice_str(routes[i].path)))
            return path;
    for (size_t i = 0; paths[i] != NULL; i++)
        if (slice_eq(path, slice_str(paths[i])))
            return path;
    return SLICE_LIT("other");
}

static void count(struct call *c)
{
    char code[16];
    struct slice labels[] = {path_label(c->path), {code, (size_t)snprintf(code, sizeof(code), "%u", c->status)}};

    metric_inc(metric_child(c->admin->requests, labels));
}

static void on_request(struct evhttp_request *req, void *arg)
{
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(req);
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
    struct call c = {
        .admin = arg,
        .req = req,
        .path = slice_str(uri == NULL ? NULL : evhttp_uri_get_path(uri)),
        .query = slice_str(uri == NULL ? NULL : evhttp_uri_get_query(uri)),
        .accept = slice_str(evhttp_find_header(headers, "Accept")),
        .host = slice_str(evhttp_find_header(headers, "Host")),
        .status = HTTP_OK,
        .content_type = "text/plain; charset=utf-8",
    };

    buf_init(&c.body, MAX_ANSWER);
    decide(&c);
    count(&c);
    log_v(6, "Admin request", LS("path", c.path), LU("code", c.status));
    send_answer(&c);
    buf_free(&c.body);
}

/* ---- life ---- */

static struct bufferevent *make_bufferevent(struct event_base *base, void *arg)
{
    struct admin *a = arg;

    return tls_bufferevent_new(a->tls, base);
}

static bool listen_on(struct admin *a, const char *address, unsigned port, struct err *err)
{
    struct evhttp_bound_socket *s = evhttp_bind_socket_with_handle(a->http, address, (uint16_t)port);

    if (s == NULL)
        return err_set(err, "admin listener: bind %s port %u: %s", address, port, strerror(errno));
    a->port = sockopt_port(evhttp_bound_socket_get_fd(s));
    return true;
}

static struct evhttp *new_http(struct admin *a)
{
    struct evhttp *http = evhttp_new(a->base);

    if (http == NULL)
        return NULL;
    evhttp_set_max_headers_size(http, MAX_REQUEST_HEADERS);
    evhttp_set_max_body_size(http, MAX_REQUEST_BODY);
    evhttp_set_timeout(http, TIMEOUT_SECONDS);
    evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
                                         EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
    evhttp_set_gencb(http, on_request, a);
    if (!a->loopback)
        evhttp_set_bevcb(http, make_bufferevent, a);
    return http;
}

struct admin *admin_new(struct loop *l, const struct admin_opts *o, struct err *err)
{
    static const char *const labels[] = {"path", "code", NULL};
    struct admin *a;
    int why;

    if (!access_is_loopback(o->bind_address) && o->tls == NULL) {
        err_set(err, "admin listener: %s can be reached by others, and there is no certificate to serve with",
                o->bind_address);
        return NULL;
    }
    a = must_zalloc(sizeof(*a));
    a->base = loop_base(l);
    a->loopback = access_is_loopback(o->bind_address);
    a->health = o->health;
    a->metrics = o->metrics;
    a->flags = o->flags;
    a->status = o->status;
    a->facts = o->facts;
    a->arg = o->arg;
    a->version = must_strdup(o->version);
    a->started_wall_us = clock_wall_us();
    a->started_ms = clock_ms();
    a->requests = metric_family(o->metrics, METRIC_COUNTER, "mvproxy_admin_requests_total",
                                "Requests to the admin listener, by path and status code.", labels, 100);
    if (!a->loopback)
        a->tls = tls_ctx_ref(o->tls);
    a->http = new_http(a);
    if (a->http == NULL)
        err_set(err, "admin listener: out of memory");
    errno = 0;
    if (a->http == NULL || !listen_on(a, o->bind_address, o->port, err)) {
        why = errno;
        admin_free(a);
        errno = why;
        return NULL;
    }
    return a;
}

void admin_update(struct admin *a, struct tls_ctx *tls)
{
    struct tls_ctx *old = a->tls;

    if (a->loopback || tls == NULL)
        return;
    a->tls = tls_ctx_ref(tls);
    tls_ctx_unref(old);
}

unsigned admin_port(const struct admin *a)
{
    return a->port;
}

void admin_free(struct admin *a)
{
    if (a->http != NULL)
        evhttp_free(a->http);
    if (a->tls != NULL)
        tls_ctx_unref(a->tls);
    mem_free(a->version);
    mem_free(a);
}
