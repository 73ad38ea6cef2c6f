/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>

#include "admin/access.h"
#include "admin/asked.h"
#include "admin/connections.h"
#include "admin/exposition.h"
#include "admin/metrics_text.h"
#include "admin/pieces.h"
#include "admin/status.h"
#include "admin/status_page.h"
#include "admin/untaken.h"
#include "admin/yaml_text.h"
#include "admin/zpages.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/gzip.h"
#include "http/negotiate.h"
#include "net/loop_internal.h"
#include "net/sockopt.h"
#include "net/tls_bufferevent.h"
#include "net/tls_peer.h"

enum { MAX_REQUEST_HEADERS = 16 << 10, MAX_REQUEST_BODY = 1024, MAX_ANSWER = 32 << 20, TIMEOUT_SECONDS = 30 };
enum { SAID_AGAIN_MS = 20000 }; /* between two lines about what anybody can bring about as often as he likes */

struct admin {
    struct event_base *base;
    struct evhttp *http;
    struct tls_ctx *tls; /* NULL on loopback, as its handshakes */
    struct tls_acceptor *handshakes;
    struct health *health;
    struct metrics *metrics;
    struct metric_family *requests, *limits;
    struct connections *connections;
    struct asked *asked;
    struct untaken *untaken;
    void (*flags)(admin_flag_fn *each, void *each_arg, void *arg);
    bool (*status)(struct status *out, void *arg);
    void *arg;
    struct loop *loop;
    struct pieces *pieces;
    char *version;
    int64_t started_wall_us;
    uint64_t started_ms;
    unsigned port;
    bool loopback;
    uint64_t not_taken_said_ms; /* client certificates: when that was last said; 0: never */
    unsigned not_taken;         /* how many since then */
};

/* One request and the answer that is being made. */
struct call {
    struct admin *admin;
    struct evhttp_request *req;
    struct slice path, query, accept, accept_encoding, user_agent, host;
    enum access_verdict verdict;
    const char *why_not; /* a client certificate was shown and did not do; NULL: it did, or there was none */
    unsigned status;
    const char *content_type, *encoding; /* encoding NULL: as it is */
    const char *warning;                 /* NULL: none */
    struct buf body;
    struct status_page *page; /* there is more behind the body; NULL: there is not */
    struct gzipper *gzip;     /* through which body and page go; NULL: as they are */
    struct exposition *made;  /* NULL: nothing has been */
};

static void reached_limit(struct admin *a, const char *which)
{
    struct slice labels[] = {slice_str(which)};

    log_v(4, "Limit of the admin listener reached", LT("limit", which));
    metric_inc(metric_child(a->limits, labels));
}

/* ---- the pages ---- */

/* In /statusz, which has only the first part of each, as kube-apiserver's. */
static const char *const paths[] = {"/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", NULL};

/* NULL: that is no path of metrics. */
static struct metrics *metrics_at(const struct admin *a, struct slice path)
{
    if (slice_eq(path, SLICE_LIT("/metrics")))
        return a->metrics;
    return slice_eq(path, SLICE_LIT("/metrics/slis")) ? health_slis(a->health) : NULL;
}

static struct exposition *new_exposition(const struct call *c)
{
    return exposition_new(metrics_at(c->admin, c->path), metrics_text_negotiate(c->accept),
                          metrics_text_accepts_gzip(c->accept_encoding), MAX_ANSWER);
}

/* Most often it has been made by now (make_some()). */
static void serve_metrics(struct call *c)
{
    if (c->made == NULL)
        c->made = new_exposition(c);
    c->content_type = metrics_text_content_type(metrics_text_negotiate(c->accept));
    if (c->made == NULL) {
        c->body.failed = true;
        return;
    }
    while (exposition_step(c->made))
        ;
    buf_free(&c->body);
    if (exposition_take(c->made, &c->body))
        c->encoding = "gzip";
}

static void serve_health(struct call *c)
{
    c->status = health_answer(c->admin->health, c->path, c->query, &c->body);
}

/* As all errors of kube-apiserver: in YAML for who asks for any. */
static void not_acceptable(struct call *c)
{
    static const struct slice status = SLICE_LIT(
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"only "
        "the following media types are accepted: application/json, application/yaml, text/plain\",\"reason\":"
        "\"NotAcceptable\",\"code\":406}\n");
    enum negotiate_format format;

    c->status = 406;
    (void)negotiate_plain(c->accept, NEGOTIATE_OFFER_YAML, &format);
    c->content_type = format == NEGOTIATE_YAML ? "application/yaml" : "application/json";
    if (format == NEGOTIATE_YAML)
        (void)yaml_text_from_json(status, &c->body);
    else
        buf_append(&c->body, status);
}

static bool accepts(struct call *c, enum zpage which, enum zpage_form *form)
{
    *form = zpage_negotiate(which, c->accept,
                            negotiate_pretty_asked(slice_str(evhttp_request_get_uri(c->req)), c->user_agent));
    if (*form == ZPAGE_NOT_ACCEPTABLE) {
        not_acceptable(c);
        return false;
    }
    c->content_type = zpage_content_type(which, *form);
    c->warning = zpage_warning(which, *form);
    return true;
}

/* A failure is the body's, and becomes a 500. */
static bool collect(struct call *c, struct status *s)
{
    bool ok = c->admin->status(s, c->admin->arg);

    c->body.failed = c->body.failed || !ok;
    return ok;
}

static void serve_statusz(struct call *c)
{
    enum zpage_form form;
    struct statusz s = {.started_wall_us = c->admin->started_wall_us,
                        .uptime_ms = clock_ms() - c->admin->started_ms,
                        .version = c->admin->version,
                        .paths = paths};
    struct status status;
    struct buf facts;

    if (!accepts(c, ZPAGE_STATUSZ, &form) || !collect(c, &status))
        return;
    buf_init(&facts, MAX_ANSWER);
    if (form == ZPAGE_TEXT)
        status_text(&status, &facts);
    else
        status_json(&status, &facts);
    status_end(&status);
    s.facts = buf_slice(&facts);
    c->body.failed = c->body.failed || facts.failed;
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

/* /?refresh=SECONDS. */
static unsigned asked_refresh(struct slice query)
{
    struct slice pair;
    unsigned seconds = 0;

    while (slice_split(&query, '&', &pair)) {
        if (!slice_has_prefix(pair, SLICE_LIT("refresh=")))
            continue;
        for (size_t i = 8; i < pair.n && i < 12 && pair.p[i] >= '0' && pair.p[i] <= '9'; i++)
            seconds = seconds * 10 + (unsigned)(pair.p[i] - '0');
    }
    return seconds < STATUS_PAGE_REFRESH_MIN || seconds > STATUS_PAGE_REFRESH_MAX ? 0 : seconds;
}

/* The first piece; the others come when it has been sent. */
static void serve_status_page(struct call *c)
{
    struct status s;

    c->content_type = "text/html; charset=utf-8";
    if (!collect(c, &s))
        return;
    if (pieces_make_room(c->admin->pieces))
        reached_limit(c->admin, "pages");
    c->page = status_page_begin(&s, asked_refresh(c->query), &c->body);
    c->body.failed = c->body.failed || c->page == NULL;
    if (c->page != NULL && metrics_text_accepts_gzip(c->accept_encoding))
        c->gzip = gzipper_new();
    c->encoding = c->gzip != NULL ? "gzip" : NULL;
    status_end(&s);
}

static const struct {
    const char *path;
    void (*serve)(struct call *c);
} routes[] = {
    {"/", serve_status_page},    {"/metrics", serve_metrics}, {"/metrics/slis", serve_metrics},
    {"/statusz", serve_statusz}, {"/flagz", serve_flagz},
};

enum { ROUTES = sizeof(routes) / sizeof(routes[0]) };

/* ---- one request ---- */

static int fd_of(struct evhttp_request *req)
{
    return bufferevent_getfd(evhttp_connection_get_bufferevent(evhttp_request_get_connection(req)));
}

static void refuse(struct call *c, unsigned status, const char *text)
{
    c->status = status;
    c->content_type = "text/plain; charset=utf-8";
    c->encoding = NULL;
    buf_reset(&c->body);
    buf_append_str(&c->body, text);
}

static void judge(const struct tls_peer *peer, void *arg)
{
    int64_t now = clock_wall_us() / 1000000;
    struct call *c = arg;

    c->verdict = access_check(c->admin->loopback, c->path, c->host, peer, now);
    c->why_not = c->verdict == ACCESS_GRANTED ? NULL : access_why_not(peer, now);
}

static void check_access(struct call *c)
{
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(c->req));

    c->verdict = ACCESS_NO_IDENTITY;
    if (c->admin->loopback)
        judge(NULL, c);
    /* No call: not over TLS, which only happens when memory was too short for it. Nothing is answered in the clear. */
    else if (!tls_bufferevent_peer(c->admin->tls, bev, judge, c))
        c->verdict = ACCESS_IN_CLEAR;
}

/* What others do not read does not keep anybody from reading: who has not for longest ends. */
static bool has_room(struct call *c)
{
    if (untaken_bytes(c->admin->untaken) < LIMIT_ADMIN_UNTAKEN)
        return true;
    reached_limit(c->admin, "answers");
    return connections_end_reader(c->admin->connections, fd_of(c->req));
}

static void serve(struct call *c)
{
    if (health_is_path(c->path)) {
        serve_health(c);
        return;
    }
    for (size_t i = 0; i < ROUTES; i++) {
        if (!slice_eq(c->path, slice_str(routes[i].path)))
            continue;
        if (has_room(c))
            routes[i].serve(c);
        else
            refuse(c, HTTP_SERVUNAVAIL, "too many answers wait for their readers\n");
        return;
    }
    refuse(c, HTTP_NOTFOUND, "404 page not found\n");
}

/* What is to be done about it: whoever reads it is on this machine, or has a certificate of client-ca-file. */
static const char *const verdict_texts[] = {
    [ACCESS_GRANTED] = "",
    [ACCESS_NO_IDENTITY] = "a client certificate is needed\n",
    [ACCESS_FOREIGN_HOST] = "forbidden: the Host header must be a loopback address or localhost\n",
    [ACCESS_NOT_MONITORING] = "forbidden: the certificate must name system:monitoring or system:masters\n",
    [ACCESS_IN_CLEAR] = "forbidden: not over TLS\n",
};

static void refuse_access(struct call *c)
{
    char text[256];

    if (c->verdict == ACCESS_NO_IDENTITY && c->why_not != NULL) {
        (void)snprintf(text, sizeof(text), "the client certificate is not accepted: %s\n", c->why_not);
        refuse(c, 401, text);
    } else
        refuse(c, c->verdict == ACCESS_NO_IDENTITY ? 401 : 403, verdict_texts[c->verdict]);
}

static bool is_let_in(struct call *c)
{
    enum evhttp_cmd_type method = evhttp_request_get_command(c->req);

    check_access(c);
    if (c->verdict != ACCESS_GRANTED)
        refuse_access(c);
    else if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD)
        refuse(c, HTTP_BADMETHOD, "method not allowed\n");
    else
        return true;
    return false;
}

static void decide(struct call *c)
{
    if (is_let_in(c))
        serve(c);
    if (c->body.failed) {
        status_page_free(c->page);
        c->page = NULL;
        refuse(c, HTTP_INTERNAL, "out of memory\n");
    }
}

static void add_header(struct call *c, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(c->req), name, value);
}

static void add_headers(struct call *c)
{
    struct buf policy;

    buf_init(&policy, 1024);
    status_page_policy(&policy);
    buf_append_char(&policy, '\0');
    add_header(c, "Content-Type", c->content_type);
    if (c->encoding != NULL)
        add_header(c, "Content-Encoding", c->encoding);
    if (c->warning != NULL)
        add_header(c, "Warning", c->warning);
    add_header(c, "X-Content-Type-Options", "nosniff");
    add_header(c, "Referrer-Policy", "no-referrer");
    add_header(c, "Cache-Control", "no-cache, no-store");
    add_header(c, "Content-Security-Policy", policy.failed ? "default-src 'none'" : buf_slice(&policy).p);
    if (c->status == HTTP_BADMETHOD)
        add_header(c, "Allow", "GET, HEAD");
    buf_free(&policy);
}

static void send_whole(struct call *c, bool head)
{
    struct evbuffer *out = evbuffer_new();
    struct slice body = buf_slice(&c->body);
    char length[24];

    if (head && c->page == NULL) {
        snprintf(length, sizeof(length), "%zu", body.n);
        add_header(c, "Content-Length", length);
    } else if (!head && body.n > 0) {
        if (out != NULL && untaken_add(c->admin->untaken, out, &c->body))
            buf_init(&c->body, MAX_ANSWER);
        else
            c->status = HTTP_INTERNAL; /* with no body: out of memory */
    }
    evhttp_send_reply(c->req, (int)c->status, NULL, out);
    if (out != NULL)
        evbuffer_free(out);
}

static void send_answer(struct call *c)
{
    bool head = evhttp_request_get_command(c->req) == EVHTTP_REQ_HEAD;

    add_headers(c);
    if (c->page != NULL && !head) {
        if (pieces_send(c->admin->pieces, c->req, buf_slice(&c->body), c->page, c->gzip))
            return;
        c->status = HTTP_INTERNAL; /* with no body: out of memory */
        buf_reset(&c->body);
        evhttp_remove_header(evhttp_request_get_output_headers(c->req), "Content-Encoding");
    }
    send_whole(c, head);
    status_page_free(c->page);
    gzipper_free(c->gzip);
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

static struct call call_of(struct evhttp_request *req, struct admin *a)
{
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(req);
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
    struct call c = {
        .admin = a,
        .req = req,
        .path = slice_str(uri == NULL ? NULL : evhttp_uri_get_path(uri)),
        .query = slice_str(uri == NULL ? NULL : evhttp_uri_get_query(uri)),
        .accept = slice_str(evhttp_find_header(headers, "Accept")),
        .accept_encoding = slice_str(evhttp_find_header(headers, "Accept-Encoding")),
        .user_agent = slice_str(evhttp_find_header(headers, "User-Agent")),
        .host = slice_str(evhttp_find_header(headers, "Host")),
        .status = HTTP_OK,
        .content_type = "text/plain; charset=utf-8",
    };

    buf_init(&c.body, MAX_ANSWER);
    return c;
}

/* Metrics alone can take longer than a turn may, but for the page, which is sent in pieces. */
static bool make_some(struct evhttp_request *req, void **work, void *arg)
{
    if (*work == NULL) {
        struct call c = call_of(req, arg);

        if (metrics_at(arg, c.path) != NULL && is_let_in(&c))
            *work = new_exposition(&c);
        buf_free(&c.body);
        return *work == NULL;
    }
    return !exposition_step(*work);
}

static void drop_made(void *work)
{
    exposition_free(work);
}

/* Who scrapes with a certificate that has expired sees nothing of us any more, and an alert says that we are down. */
static void say_not_taken(struct call *c)
{
    struct admin *a = c->admin;
    uint64_t now = loop_now_ms(a->loop);
    char *address = NULL;
    uint16_t port = 0;

    if (c->why_not == NULL)
        return;
    a->not_taken++;
    if (a->not_taken_said_ms != 0 && now - a->not_taken_said_ms < SAID_AGAIN_MS)
        return;
    evhttp_connection_get_peer(evhttp_request_get_connection(c->req), &address, &port);
    log_warning("Client certificate refused by the admin listener", LT("client", address), LS("path", c->path),
                LT("why", c->why_not), LU("timesSinceLastLine", a->not_taken));
    a->not_taken_said_ms = now;
    a->not_taken = 0;
}

static void respond(struct evhttp_request *req, void *work, void *arg)
{
    struct call c = call_of(req, arg);

    c.made = work;
    decide(&c);
    count(&c);
    log_v(6, "Admin request", LS("path", c.path), LU("code", c.status));
    say_not_taken(&c);
    send_answer(&c);
    exposition_free(c.made);
    buf_free(&c.body);
}

static void on_answered(struct evhttp_request *req, void *arg)
{
    struct admin *a = arg;

    connections_answered(a->connections, fd_of(req));
}

/* Probes wait for nobody: theirs are the answers that cost nothing. */
static void on_request(struct evhttp_request *req, void *arg)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
    struct admin *a = arg;

    loop_enter(a->loop);
    connections_asked(a->connections, fd_of(req));
    evhttp_request_set_on_complete_cb(req, on_answered, a);
    if (health_is_path(slice_str(uri == NULL ? NULL : evhttp_uri_get_path(uri))))
        respond(req, NULL, a);
    else
        asked_add(a->asked, req);
    loop_leave(a->loop);
}

/* ---- life ---- */

static struct bufferevent *make_bufferevent(struct event_base *base, void *arg)
{
    struct admin *a = arg;
    struct bufferevent *bev = a->loopback ? bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE)
                                          : tls_bufferevent_new(a->handshakes, a->tls);

    if (bev != NULL)
        connections_arrived(a->connections, bev);
    return bev;
}

static void on_connections(enum connections_event ev, void *arg)
{
    static const char *const limits[] = {[CONNECTIONS_TOO_MANY] = "connections",
                                         [CONNECTIONS_FLOODED] = "request",
                                         [CONNECTIONS_STARVED] = "descriptors"};

    reached_limit(arg, limits[ev]);
}

static void on_handshakes_crowded(void *arg)
{
    reached_limit(arg, "handshakes");
}

static bool listen_on(struct admin *a, const char *address, unsigned port, struct err *err)
{
    struct evhttp_bound_socket *s = evhttp_bind_socket_with_handle(a->http, address, (uint16_t)port);

    if (s == NULL)
        return err_set(err, "admin listener: bind %s port %u: %s", address, port, strerror(errno));
    a->port = sockopt_port(evhttp_bound_socket_get_fd(s));
    a->connections = connections_new(a->loop, evhttp_bound_socket_get_listener(s), on_connections, a);
    return a->connections != NULL || err_set(err, "admin listener: out of memory");
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
    evhttp_set_bevcb(http, make_bufferevent, a);
    return http;
}

struct admin *admin_new(struct loop *l, const struct admin_opts *o, struct err *err)
{
    static const char *const labels[] = {"path", "code", NULL}, *const limit[] = {"limit", NULL};
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
    a->loop = l;
    a->pieces = pieces_new(l);
    a->arg = o->arg;
    a->version = must_strdup(o->version);
    a->started_wall_us = clock_wall_us();
    a->started_ms = clock_ms();
    a->requests = metric_family(o->metrics, METRIC_COUNTER, "mvproxy_admin_requests_total",
                                "Requests to the admin listener, by path and status code.", labels, 100);
    a->limits = metric_family(o->metrics, METRIC_COUNTER, "mvproxy_admin_limits_total",
                              "How often a limit of the admin listener was reached, by limit.", limit, 6);
    a->untaken = untaken_new();
    if (!a->loopback) {
        a->tls = tls_ctx_ref(o->tls);
        a->handshakes = tls_acceptor_new(l, o->handshake_timeout_ms, on_handshakes_crowded, a);
    }
    a->asked = asked_new(l, &(struct asked_fns){make_some, respond, drop_made}, a);
    a->http = a->asked == NULL ? NULL : new_http(a);
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
    pieces_free(a->pieces);
    asked_free(a->asked);
    tls_acceptor_free(a->handshakes);
    connections_free(a->connections);
    if (a->http != NULL)
        evhttp_free(a->http);
    untaken_unref(a->untaken);
    if (a->tls != NULL)
        tls_ctx_unref(a->tls);
    mem_free(a->version);
    mem_free(a);
}
