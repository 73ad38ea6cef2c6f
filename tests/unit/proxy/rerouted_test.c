/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that a peer has sent on: served here or refused, after one look at what is served; never sent on again. */
#include "back/back.h"
#include "base/limits.h"
#include "net/loop.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"
#include "unit/proxy/kit.h"

#define TOKEN "Authorization: Bearer t\r\n"
#define MARKED " HTTP/1.1\r\nHost: k\r\nx-kubernetes-peer-proxied: true\r\n"

static void open_with(struct proxy_kit *w, const char *certificate)
{
    proxy_kit_init(w, 1);
    w->front_tls = server_ctx(false);
    w->client_tls = client_ctx(certificate, false);
    proxy_kit_start(w);
}

/* The resource is served here, as far as is known, and the client is a peer. */
static struct played_end *open_served(struct proxy_kit *w)
{
    proxy_kit_init(w, 1);
    w->front_tls = server_ctx(false);
    w->client_tls = client_ctx("front-proxy-client", false);
    w->local_has_jobs = true;
    proxy_kit_start(w);
    return client(w);
}

static struct played_end *waiting(struct proxy_kit *w)
{
    struct played_end *c;

    open_with(w, "front-proxy-client");
    c = client(w);
    say(c, "POST " JOBS MARKED "Content-Length: 6\r\n\r\nabc");
    ok(until(w, proxy_kit_waiting(w)), "not served as far as we know: looks again");
    say(c, "def");
    proxy_kit_settle(w);
    return c;
}

static void served_after_all(void)
{
    struct proxy_kit w;
    struct played_end *c = waiting(&w);

    w.local_has_jobs = true;
    proxy_kit_know(&w);
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.local, 0), "abcdef"), "served after all, with all of the body");
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ok(has(c, "\r\n\r\nok"), "answered");
    ok(got(c, "X-Mvproxy-Hop: apiserver-a"), "and a peer's mvproxy learns of us");
    proxy_kit_close(&w);
}

static void not_served(void)
{
    struct proxy_kit w;
    struct played_end *c = waiting(&w);

    proxy_kit_refreshed(&w);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "still not served: 503");
    is_u64(w.peers[0].n_conns, 0, "never sent on again");
    proxy_kit_close(&w);
}

/* What a peer is told of our server and of us, on what is about the server itself; a client nothing. */
static void what_is_told(void)
{
    static const struct {
        const char *request;
        enum api_word word;
        const char *ready; /* NULL: nothing */
        bool version, hop;
    } rows[] = {
        {"GET /version" MARKED "\r\n", API_WORD_READY, "X-Mvproxy-Ready: true\r\n", true, true},
        {"GET /version" MARKED "\r\n", API_WORD_LOADING, "X-Mvproxy-Ready: false\r\n", true, true},
        {"GET /version" MARKED "\r\n", API_WORD_NONE, NULL, true, true},
        {"GET " PODS MARKED "\r\n", API_WORD_READY, NULL, false, true},
        {"GET /version HTTP/1.1\r\nHost: k\r\n\r\n", API_WORD_READY, NULL, false, false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, 1);
        w.front_tls = rows[i].hop ? server_ctx(false) : NULL;
        w.client_tls = rows[i].hop ? client_ctx("front-proxy-client", false) : NULL;
        w.opts.version = "v9";
        w.cluster->local_word = rows[i].word;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, rows[i].request);
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        ok(has(c, "\r\n\r\nok"), "row %zu: answered", i);
        ok(rows[i].ready == NULL ? !got(c, "X-Mvproxy-Ready") : got(c, rows[i].ready), "row %zu: whether it is ready",
           i);
        is_int(got(c, "X-Mvproxy-Version: v9\r\n"), rows[i].version, "row %zu: our version", i);
        is_int(got(c, "X-Mvproxy-Hop: "), rows[i].hop, "row %zu: that we are here", i);
        proxy_kit_close(&w);
    }
}

static void client_leaves(void)
{
    struct proxy_kit w;
    struct played_end *c = waiting(&w);

    hang_up(c, STREAM_CLOSE_ABORT);
    ok(until(&w, !proxy_kit_waiting(&w)), "a client that leaves waits no more");
    proxy_kit_close(&w);
}

static void nothing_to_refresh(void)
{
    struct proxy_kit w;
    struct played_end *c;

    open_with(&w, "front-proxy-client");
    w.cluster->no_refresh = true;
    c = client(&w);
    say(c, "GET " JOBS MARKED "\r\n");
    ok(has(c, "HTTP/1.1 503 "), "nothing to look at: 503 at once");
    proxy_kit_close(&w);
}

/*
 * The local server has come back without it, and its discovery was not read since. `unread`: nor can it be. `token`:
 * what the server has said of it before, or 0; who may be nobody does not count where it pages.
 */
static void denied_here(bool unread, unsigned token)
{
    struct proxy_kit w;
    struct played_end *c = open_served(&w);

    if (token != 0) {
        say(c, "GET " PODS MARKED TOKEN "\r\n");
        (void)has(conn(&w.local, 0), PODS);
        say(conn(&w.local, 0), token == 401 ? "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
                                            : "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        (void)has(c, "\r\n\r\n");
    }
    say(c, "GET " JOBS MARKED TOKEN "\r\n");
    ok(has(conn(&w.local, 0), JOBS), "believed to be served here");
    say(conn(&w.local, 0), "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno");
    ok(until(&w, proxy_kit_waiting(&w)), "denied: looks again");
    w.cluster->unread_local = unread;
    w.local_has_jobs = unread;
    proxy_kit_know(&w);
    proxy_kit_refreshed(&w);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "),
       "not served, or not known: 503, and the other one may ask elsewhere");
    is_double(proxy_kit_metric(&w, "mvproxy_unavailable_requests_total", NULL), token == 403, "counted: %u", token);
    is_double(proxy_kit_metric(&w, "mvproxy_resource_requests_total", NULL), token == 403, "among all: %u", token);
    is_u64(w.peers[0].n_conns, 0, "never sent on again");
    proxy_kit_close(&w);
}

/* A kube-apiserver that is a proxy itself looks at no verb and no subresource: that nobody has it is the truth. */
static void nobodys_verb(void)
{
    struct proxy_kit w;
    struct played_end *c;

    open_with(&w, "front-proxy-client");
    c = client(&w);
    say(c, "DELETE " PODS "/x" MARKED "\r\n");
    ok(until(&w, proxy_kit_waiting(&w)), "a verb that is not served as far as we know: looks again");
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.local, 0), "DELETE " PODS "/x"), "nor is by anybody: the local server says so");
    say(conn(&w.local, 0), "HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json\r\nContent-Length: "
                           "114\r\n\r\n{\"kind\":\"Status\",\"message\":\"the server does not allow this method on "
                           "the requested resource\",\"details\":{},\"x\":\"y\"}");
    ok(has(c, "HTTP/1.1 405 ") && has(c, "\"y\"}"), "and is believed");
    proxy_kit_close(&w);
}

/* Another one of us, whose own server is away, asks whether anybody has it: we know who there is. */
static void asked_whether_anybody(bool known)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.front_tls = server_ctx(false);
    w.client_tls = client_ctx("front-proxy-client", false);
    w.peers_without_jobs = 1;
    w.behind = !known;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS MARKED "X-Mvproxy-If-Ready: true\r\nX-Mvproxy-May-Deny: true\r\n\r\n");
    if (known) {
        ok(has(conn(&w.local, 0), "GET " JOBS) && !got(&w.local.conns[0], "X-Mvproxy"), "the local server is asked");
        say(conn(&w.local, 0), "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno");
        ok(has(c, "HTTP/1.1 404 ") && got(c, "X-Mvproxy-Unserved: true\r\n"), "its denial is said to be everybody's");
        ok(!proxy_kit_waiting(&w), "and nothing is polled for that, which would take up to a second each time");
    } else {
        ok(until(&w, proxy_kit_waiting(&w)), "not served as far as we know: looks again");
        proxy_kit_refreshed(&w);
        ok(has(c, "HTTP/1.1 503 ") && got(c, "X-Mvproxy-Try-Another: true\r\n"), "another one may know");
        is_u64(w.local.n_conns, 0, "who is there is not known here");
    }
    is_u64(w.peers[0].n_conns, 0, "never sent on again");
    proxy_kit_close(&w);
}

static void mark_of_anybody(void)
{
    struct proxy_kit w;
    struct played_end *c;

    open_with(&w, NULL);
    c = client(&w);
    say(c, "GET " JOBS MARKED "\r\n");
    ok(has(conn(&w.peers[0], 0), "GET "), "a mark without the certificate is none");
    say(conn(&w.peers[0], 0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ok(has(c, "\r\n\r\nok") && !got(c, "X-Mvproxy-Hop"), "and learns nothing");
    proxy_kit_close(&w);
}

/* What some clients of a peer's mvproxy waste must not be held against its others, who come from the same address. */
static void waste_of_others(void)
{
    enum { WASTED = LIMIT_CHURN_DIALS + 40 };
    struct proxy_kit w;
    struct played_end *c = open_served(&w);

    for (unsigned i = 0; i < WASTED && w.local.n_conns == i; i++) {
        say(c, "GET " JOBS MARKED "Connection: upgrade\r\nUpgrade: other\r\n\r\n");
        if (!until(&w, w.local.n_conns > i) || !has(conn(&w.local, i), "Upgrade"))
            break;
        say(conn(&w.local, i), "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
        if (!has(c, "\r\n\r\nno"))
            break;
        buf_reset(&c->got);
    }
    is_u64(w.local.n_conns, WASTED, "each request of a peer gets its connection");
    proxy_kit_close(&w);
}

/* They wait at the local server, whose etcd goes. Whoever sent them on has others to ask, or has not. */
static void given_up(void)
{
    struct proxy_kit w;
    struct played_end *asks, *waits;

    proxy_kit_init(&w, 1);
    w.front_tls = server_ctx(false);
    w.client_tls = client_ctx("front-proxy-client", false);
    w.local_has_jobs = w.cluster->fails_over = true;
    proxy_kit_start(&w);
    asks = client(&w);
    waits = client(&w);
    say(asks, "GET " JOBS MARKED "X-Mvproxy-If-Ready: true\r\n\r\n");
    say(waits, "GET " JOBS "/x" MARKED "\r\n");
    ok(has(conn(&w.local, 0), "\r\n\r\n") && has(conn(&w.local, 1), "\r\n\r\n"), "both are under way");
    origin_fail_unanswered(w.opts.local, "its etcd is away");
    ok(has(asks, "HTTP/1.1 503 ") && got(asks, "X-Mvproxy-Try-Another: true\r\n"), "there it is another one's turn");
    proxy_kit_settle(&w);
    ok(!got(waits, "HTTP/1.1 "), "here an answer may still come");
    for (size_t i = 0; i < 2; i++)
        if (got(conn(&w.local, i), "/x HTTP"))
            say(conn(&w.local, i), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ok(has(waits, "\r\n\r\nok"), "and does");
    proxy_kit_close(&w);
}

int main(void)
{
    given_up();
    waste_of_others();
    served_after_all();
    not_served();
    client_leaves();
    nothing_to_refresh();
    what_is_told();
    denied_here(false, 403);
    denied_here(true, 403);
    denied_here(false, 401);
    denied_here(false, 0);
    nobodys_verb();
    asked_whether_anybody(true);
    asked_whether_anybody(false);
    mark_of_anybody();
    return tap_end();
}
