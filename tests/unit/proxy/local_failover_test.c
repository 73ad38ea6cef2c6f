/* SPDX-License-Identifier: Apache-2.0 */
/* The local server is away or starting: who is asked in its place, what goes along, and what is never sent twice. */
#include <stdio.h>

#include "back/back.h"
#include "base/limits.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"
#include "unit/proxy/kit.h"
#include "unit/proxy/stopping.h"

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
#define CREATED "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
#define NOT_READY                                                                                                      \
    "HTTP/1.1 503 Service Unavailable\r\nX-Mvproxy-Try-Another: true\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
#define POST "POST " PODS " HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\nabc"
#define GET "GET " PODS " HTTP/1.1\r\nHost: k\r\n\r\n"
#define METRIC "mvproxy_local_failover_requests_total"
#define RETRIES "mvproxy_retries_total"

static void start(struct proxy_kit *w, size_t n_peers, enum readiness_state state)
{
    proxy_kit_init(w, n_peers);
    w->cluster->fails_over = w->opts.legacy_discovery = true;
    w->cluster->local_state = state;
    proxy_kit_start(w);
}

static void shut_down(struct played_server *s)
{
    listener_close(s->listener);
    s->listener = NULL;
}

static void unreachable(const char *request, const char *body)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_READY);
    shut_down(&w.local);
    c = client(&w);
    say(c, request);
    ok(has(conn(&w.peers[0], 0), body), "a server that refuses connections: the peer gets it, body and all");
    ok(got(&w.peers[0].conns[0], "x-kubernetes-peer-proxied: true\r\n"), "marked");
    ok(got(&w.peers[0].conns[0], "X-Mvproxy-If-Ready: true\r\n"), "and only if its server is ready");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "HTTP/1.1 200 ") && got(c, "X-Mvproxy-Served-By: apiserver-b"), "answered by the peer");
    is_u64(w.cluster->local_failures, 1, "the cluster hears of it");
    is_u64((uint64_t)proxy_kit_metric(&w, METRIC, "failed"), 1, "counted");
    buf_reset(&w.peers[0].conns[0].got);
    say(c, request);
    ok(has(conn(&w.peers[0], 0), body), "the next one goes there at once");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(until(&w, proxy_kit_metric(&w, METRIC, "unreachable") > 0), "without trying the local server");
    proxy_kit_close(&w);
}

static void starting(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_STARTING);
    c = client(&w);
    say(c, GET);
    ok(has(conn(&w.peers[0], 0), "GET "), "a server that starts is not asked");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "HTTP/1.1 200 "), "the peer answers");
    w.cluster->local_state = READINESS_READY;
    say(c, "GET " PODS "/x HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.local, 0), "/x "), "ready again: at once");
    say(conn(&w.local, 0), OK_ANSWER);
    proxy_kit_settle(&w);
    w.cluster->local_state = READINESS_STARTING;
    say(c, "GET /readyz HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.local, 0), "/readyz"), "what is no resource is the local server's to answer");
    say(conn(&w.local, 0), "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
    ok(has(c, "HTTP/1.1 500 "), "truly");
    proxy_kit_close(&w);
}

/* The peers are starting, too: their refusals cost a moment, then the local server is asked after all. */
static void everybody_starts(void)
{
    struct played_server *refused = NULL;
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 2, READINESS_STARTING);
    c = client(&w);
    say(c, POST);
    for (size_t i = 0; i < 2; i++) {
        ok(until(&w, w.peers[0].n_conns + w.peers[1].n_conns > i), "a peer is asked");
        refused = w.peers[0].n_conns > 0 && refused != &w.peers[0] ? &w.peers[0] : &w.peers[1];
        ok(has(conn(refused, 0), "X-Mvproxy-If-Ready"), "whether it is ready");
        say(conn(refused, 0), NOT_READY);
        proxy_kit_settle(&w);
    }
    ok(has(conn(&w.local, 0), "abc"), "then the local server");
    say(conn(&w.local, 0), CREATED);
    ok(has(c, "HTTP/1.1 201 ") && !got(c, "Served-By"), "which answers");
    is_double(proxy_kit_metric(&w, RETRIES, "peer-not-ready"), 1, "counted: to the second peer");
    is_double(proxy_kit_metric(&w, RETRIES, "last-resort"), 1, "and to the local server");
    proxy_kit_close(&w);
}

/* Nobody is ready and the local server is gone: a peer that is only starting is better than nothing. */
static void last_resort(void)
{
    struct proxy_kit w;
    struct played_end *c, *again = &w.peers[0].conns[0]; /* the connection may be used again, or not */

    start(&w, 1, READINESS_UNREACHABLE);
    shut_down(&w.local);
    c = client(&w);
    say(c, POST);
    ok(has(conn(&w.peers[0], 0), "abc"), "the peer is asked");
    buf_reset(&w.peers[0].conns[0].got);
    say(conn(&w.peers[0], 0), NOT_READY);
    ok(until(&w, got(again, "abc") || got(again = &w.peers[0].conns[w.peers[0].n_conns - 1], "abc")), "and once more");
    ok(!got(again, "X-Mvproxy-If-Ready"), "now ready or not");
    say(again, CREATED);
    ok(has(c, "HTTP/1.1 201 "), "it answers");
    is_double(proxy_kit_metric(&w, RETRIES, "last-resort"), 2, "counted: the local server, and that peer again");
    proxy_kit_close(&w);
}

/* The mvproxy before a live peer answers that its server is away. Who had lapsed is back, of which nobody could hear.
 */
static void lapsed_and_back(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 2);
    w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_UNREACHABLE;
    w.peers_lapsed = 1;
    proxy_kit_start(&w);
    shut_down(&w.local);
    c = client(&w);
    say(c, POST);
    ok(has(conn(&w.peers[1], 0), "abc"), "the live peer is asked first");
    is_u64(w.peers[0].n_conns, 0, "alone");
    say(conn(&w.peers[1], 0), NOT_READY);
    ok(has(conn(&w.peers[0], 0), "abc") && got(&w.peers[0].conns[0], "X-Mvproxy-If-Ready"), "then the lapsed one");
    say(conn(&w.peers[0], 0), CREATED);
    ok(has(c, "HTTP/1.1 201 ") && got(c, "X-Mvproxy-Served-By: apiserver-b"), "which answers");
    proxy_kit_close(&w);
}

static void nobody(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 2, READINESS_UNREACHABLE);
    shut_down(&w.local);
    shut_down(&w.peers[0]);
    shut_down(&w.peers[1]);
    c = client(&w);
    say(c, POST);
    ok(has(c, "HTTP/1.1 503 ") && got(c, "Retry-After: 1\r\n"), "all are down: 503, to be sent again");
    proxy_kit_close(&w);
}

/* What the server may have read is sent elsewhere only if that is harmless. */
static void lost(const char *request, bool again)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_READY);
    c = client(&w);
    say(c, request);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    shut_down(&w.local);
    hang_up(conn(&w.local, 0), STREAM_CLOSE_ABORT);
    if (again) {
        ok(has(conn(&w.peers[0], 0), "GET "), "a read goes to the peer");
        say(conn(&w.peers[0], 0), OK_ANSWER);
        ok(has(c, "HTTP/1.1 200 "), "and is answered");
    } else {
        ok(has(c, "HTTP/1.1 503 ") && !got(c, "Retry-After"), "a write is not sent twice, by nobody");
        is_u64(w.peers[0].n_conns, 0, "the peer never saw it");
    }
    proxy_kit_close(&w);
}

static void stopping(const char *answer, const char *request, const char *body)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_READY);
    c = client(&w);
    say(c, request);
    ok(has(conn(&w.local, 0), body), "a server that stops gets it");
    say(conn(&w.local, 0), answer);
    ok(has(conn(&w.peers[0], 0), body), "it has not looked at it: the peer gets it, body and all");
    ok(!got(c, "HTTP/1.1"), "the client hears nothing yet");
    is_u64(w.cluster->local_failures, 1, "the cluster hears of it");
    is_int(w.cluster->local_state, READINESS_READY, "and not that it is away");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "HTTP/1.1 200 ") && got(c, "X-Mvproxy-Served-By: apiserver-b"), "answered by the peer");
    is_double(proxy_kit_metric(&w, RETRIES, "local-not-ready"), 1, "counted");
    proxy_kit_close(&w);
}

/* Too much to do is no reason to give it to somebody else. */
static void overloaded(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_READY);
    c = client(&w);
    say(c, GET);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0),
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n"
        "Content-Length: 10\r\n\r\ntoo many.\n");
    ok(has(c, "HTTP/1.1 429 ") && has(c, "too many.") && got(c, "Retry-After: 1\r\n"),
       "any other 429 is relayed, whole");
    is_u64(w.peers[0].n_conns, 0, "and nobody else asked");
    proxy_kit_close(&w);
}

/* Of the peers that have what the local server lacks, one after the other. */
static void peers_stopping(bool all)
{
    struct proxy_kit w;
    struct played_end *c;
    size_t first;

    start(&w, 2, READINESS_READY);
    c = client(&w);
    say(c, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\nabc");
    ok(until(&w, (w.peers[0].n_conns > 0 && got(&w.peers[0].conns[0], "abc")) ||
                     (w.peers[1].n_conns > 0 && got(&w.peers[1].conns[0], "abc"))),
       "one of two peers gets it");
    first = w.peers[0].n_conns > 0 && got(&w.peers[0].conns[0], "abc") ? 0 : 1;
    say(conn(&w.peers[first], 0), AWAY);
    ok(has(conn(&w.peers[1 - first], 0), "abc"), "and then the other");
    ok(!got(c, "HTTP/1.1"), "the client hears nothing yet");
    say(conn(&w.peers[1 - first], 0), all ? AWAY : OK_ANSWER);
    if (all)
        ok(has(c, "HTTP/1.1 503 ") && got(c, "Retry-After: "), "nobody is left: 503, to be sent again");
    else
        ok(has(c, "HTTP/1.1 200 "), "which answers");
    ok(w.cluster->suspects > 0, "who stops is looked at");
    proxy_kit_close(&w);
}

/* Its own answer is what is left. */
static void stopping_and_nobody_else(bool failover)
{
    struct proxy_kit w;
    struct played_end *c;

    if (failover)
        start(&w, 1, READINESS_READY);
    else
        proxy_kit_open(&w, 1);
    shut_down(&w.peers[0]);
    c = client(&w);
    say(c, POST);
    (void)has(conn(&w.local, 0), "abc");
    say(conn(&w.local, 0), STOPPING);
    ok(has(c, "HTTP/1.1 503 ") && got(c, "Retry-After: 1\r\n"), "nobody else: 503, to be sent again");
    if (!failover)
        ok(got(c, STOPPING_BODY), "the server's own");
    proxy_kit_close(&w);
}

/* What was taken of the body and not kept nobody else can get; and what is no resource nobody else is asked for. */
static void stopping_is_the_answer(bool resource)
{
    static char part[LIMIT_REPLAY_BYTES + 1];
    struct proxy_kit w;
    struct played_end *c;

    memset(part, 'a', sizeof(part) - 1);
    start(&w, 1, READINESS_READY);
    c = client(&w);
    if (resource) {
        say(c, "POST " PODS " HTTP/1.1\r\nHost: k\r\nContent-Length: 65540\r\n\r\n");
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        say(c, part);
        say(c, "tail");
        ok(has(conn(&w.local, 0), "atail"), "a long body is with the server");
    } else {
        say(c, "GET /version HTTP/1.1\r\nHost: k\r\n\r\n");
        ok(has(conn(&w.local, 0), "/version"), "no resource");
    }
    say(conn(&w.local, 0), STOPPING);
    ok(has(c, STOPPING_BODY), "the server's own answer is relayed, whole");
    is_u64(w.peers[0].n_conns, 0, "and nobody else asked");
    proxy_kit_close(&w);
}

static void off(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    shut_down(&w.local);
    c = client(&w);
    say(c, GET);
    ok(has(c, "HTTP/1.1 503 "), "switched off: 503");
    is_u64(w.peers[0].n_conns, 0, "no peer is asked");
    proxy_kit_close(&w);
}

#define MARKED "Host: k\r\nx-kubernetes-peer-proxied: true\r\n"

/* Others' requests end here, and they are told whether somebody else may have them. */
static void sent_on(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.front_tls = server_ctx(false);
    w.client_tls = client_ctx("front-proxy-client", false);
    w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_STARTING;
    w.opts.username_headers = (const char *const[]){"X-Remote-User", NULL};
    w.opts.can_assert = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " PODS " HTTP/1.1\r\n" MARKED "X-Remote-User: u\r\nX-Mvproxy-If-Ready: true\r\n\r\n");
    ok(has(c, "HTTP/1.1 503 ") && got(c, "X-Mvproxy-Try-Another: true"), "starting: let another one do it");
    is_double(proxy_kit_metric(&w, "mvproxy_unavailable_requests_total", "rerouted"), 1, "counted as what a peer sent");
    is_double(proxy_kit_metric(&w, "mvproxy_resource_requests_total", "rerouted"), 1, "of what peers sent");
    is_double(proxy_kit_metric(&w, "mvproxy_unavailable_requests_total", "none"), 0, "and not as a failure of our own");
    is_double(proxy_kit_metric(&w, "apiserver_request_total", "pods"), 1, "by the resource's name");
    say(c, "GET " PODS " HTTP/1.1\r\n" MARKED "\r\n");
    ok(has(conn(&w.local, 0), "GET ") && !got(&w.local.conns[0], "If-Ready"), "if nobody else can: it is asked");
    say(conn(&w.local, 0), OK_ANSWER);
    ok(has(c, "HTTP/1.1 200 "), "and answers");
    shut_down(&w.local);
    hang_up(conn(&w.local, 0), STREAM_CLOSE_ABORT);
    proxy_kit_settle(&w);
    buf_reset(&c->got);
    say(c, "POST " PODS " HTTP/1.1\r\n" MARKED "Content-Length: 3\r\n\r\nabc");
    ok(has(c, "HTTP/1.1 503 ") && got(c, "X-Mvproxy-Try-Another: true"), "gone: the same");
    is_u64(w.peers[0].n_conns, 0, "never sent on a second time");
    proxy_kit_close(&w);
}

/* What the local server may have carried out is neither for another one nor for the client to send again. */
static void sent_on_in_doubt(const char *method, bool again)
{
    char request[200];
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.front_tls = server_ctx(false);
    w.client_tls = client_ctx("front-proxy-client", false);
    w.cluster->fails_over = true;
    proxy_kit_start(&w);
    c = client(&w);
    (void)snprintf(request, sizeof(request), "%s " PODS " HTTP/1.1\r\n" MARKED "Content-Length: 0\r\n\r\n", method);
    say(c, request);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    shut_down(&w.local);
    hang_up(conn(&w.local, 0), STREAM_CLOSE_ABORT);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "\r\n\r\n"), "%s: its server breaks off", method);
    is_int(got(c, "X-Mvproxy-Try-Another: true"), again, "%s: for another one", method);
    is_int(got(c, "Retry-After: "), again, "%s: to be sent again", method);
    proxy_kit_close(&w);
}

/*
 * A body waits until a server can take it: nothing of it is gone when the one that was asked first never gets as far as
 * a handshake, however much the client has sent.
 */
static void body_waits(void)
{
    static char part[4 * LIMIT_REPLAY_BYTES + 1];
    struct tls_ctx *tls = server_ctx(false);
    struct played_server *silent, *second;
    struct proxy_kit w;
    struct played_end *c;
    size_t at = 0;

    memset(part, 'a', sizeof(part) - 1);
    proxy_kit_init_tls(&w, 2, NULL, client_ctx("front-proxy-client", false));
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nContent-Length: 262148\r\n\r\n");
    say(c, part);
    say(c, "tail");
    (void)until(&w, w.peers[0].n_conns + w.peers[1].n_conns > 0);
    silent = w.peers[0].n_conns > 0 ? &w.peers[0] : &w.peers[1];
    second = silent == &w.peers[0] ? &w.peers[1] : &w.peers[0];
    for (unsigned i = 0; i < 20; i++)
        proxy_kit_settle(&w);
    w.server_tls = tls;
    shut_down(silent);
    hang_up(conn(silent, 0), STREAM_CLOSE_ABORT);
    (void)conn(second, 0);
    /* On whichever of its connections. */
    ok(until(&w, got(&second->conns[at], "atail") || got(&second->conns[at = second->n_conns - 1], "atail")),
       "the next one gets all of a body that nobody has taken");
    say(&second->conns[at], CREATED);
    ok(has(c, "HTTP/1.1 201 "), "and answers");
    proxy_kit_close(&w);
}

/* From a client, the field means nothing, and no server can say that another one should be tried. */
static void forged(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_READY);
    c = client(&w);
    say(c, "POST " PODS " HTTP/1.1\r\nHost: k\r\nX-Mvproxy-If-Ready: true\r\nContent-Length: 3\r\n\r\nabc");
    ok(has(conn(&w.local, 0), "abc") && !got(&w.local.conns[0], "If-Ready"), "removed on its way");
    say(conn(&w.local, 0), NOT_READY);
    ok(has(c, "HTTP/1.1 503 ") && !got(c, "Try-Another"), "a local server's answer is passed on");
    is_u64(w.peers[0].n_conns, 0, "and nobody else asked");
    proxy_kit_close(&w);
}

/* A pod behind a peer that has no mvproxy writes what it likes. */
static void forged_behind_peer(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 2, READINESS_UNREACHABLE);
    c = client(&w);
    say(c, "POST " PODS "/x/proxy HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\nabc");
    ok(until(&w, w.peers[0].n_conns + w.peers[1].n_conns > 0), "a peer is asked");
    say(conn(&w.peers[w.peers[0].n_conns > 0 ? 0 : 1], 0), NOT_READY);
    ok(has(c, "HTTP/1.1 503 "), "its answer is passed on");
    is_u64(w.peers[0].n_conns + w.peers[1].n_conns + w.local.n_conns, 1, "and the write not sent twice");
    proxy_kit_close(&w);
}

static void watch_stays(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_UNREACHABLE);
    c = client(&w);
    say(c, "GET " PODS "?watch=true HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.peers[0], 0), "watch=true");
    say(conn(&w.peers[0], 0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    ok(has(c, "one"), "a watch by the peer");
    w.cluster->local_state = READINESS_READY;
    say(conn(&w.peers[0], 0), "3\r\ntwo\r\n");
    ok(has(c, "two"), "stays there when the local server is back");
    say(conn(&w.peers[0], 0), "0\r\n\r\n");
    ok(has(c, "0\r\n\r\n"), "until it ends");
    proxy_kit_close(&w);
}

static void upgrade(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_READY);
    shut_down(&w.local);
    c = client(&w);
    say(c, "POST " PODS "/x/exec HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    (void)has(conn(&w.peers[0], 0), "/exec");
    say(conn(&w.peers[0], 0),
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello");
    ok(has(c, "hello"), "exec goes by the peer");
    say(c, "world");
    ok(has(conn(&w.peers[0], 0), "world"), "both ways");
    proxy_kit_close(&w);
}

#define APIS                                                                                                           \
    "GET /apis HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: "                                             \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n\r\n"

/* The merged document is there; whether this client may read it another server can say. */
/* While the local server is away all peers judge who may read /apis, not one of them for everybody. */
static void judges(void)
{
    unsigned n_asked = 0;
    struct proxy_kit w;

    start(&w, 3, READINESS_UNREACHABLE);
    for (unsigned n = 0; n < 40; n++) {
        char request[300];

        (void)snprintf(request, sizeof(request),
                       "GET /apis HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t%u\r\nAccept: "
                       "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n\r\n",
                       n);
        say(client(&w), request);
    }
    ok(until(&w, w.peers[0].n_conns + w.peers[1].n_conns + w.peers[2].n_conns >= 40), "40 readers are asked about");
    for (size_t i = 0; i < 3; i++)
        n_asked += w.peers[i].n_conns > 0;
    is_u64(n_asked, 3, "by each of the peers");
    proxy_kit_close(&w);
}

/* What a peer allows it allows for one request: the local server is asked as soon as it is back. */
static void judged_anew(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_UNREACHABLE);
    c = client(&w);
    say(c, APIS);
    (void)has(conn(&w.peers[0], 0), "GET /apis");
    say(conn(&w.peers[0], 0), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    ok(has(c, "HTTP/1.1 200 "), "a peer lets somebody read");
    w.cluster->local_state = READINESS_READY;
    c = client(&w);
    say(c, APIS);
    ok(until(&w, w.local.n_conns > 0 || got(c, "HTTP/1.1 ")) && w.local.n_conns > 0, "the local server is asked again");
    proxy_kit_close(&w);
}

static bool asked(struct played_server *s)
{
    return s->n_conns > 0 && got(&s->conns[0], "\r\n\r\n");
}

/* Whom the client's next request goes to. */
static struct played_server *first_asked(struct proxy_kit *w, struct played_end *c)
{
    buf_reset(&c->got);
    for (size_t i = 0; i < 2; i++)
        if (w->peers[i].n_conns > 0)
            buf_reset(&w->peers[i].conns[0].got);
    say(c, GET);
    (void)until(w, asked(&w->peers[0]) || asked(&w->peers[1]));
    return asked(&w->peers[0]) ? &w->peers[0] : &w->peers[1];
}

/* Peers that answer well in between are not tried last: then there is a budget for how often others do their work. */
static void passed_on_too_often(void)
{
    enum { ROUNDS = 600, MOST = 2 * 100 + 2 * ROUNDS / 5 };
    unsigned passed = 0;
    bool relayed = false;
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 2, READINESS_UNREACHABLE);
    c = client(&w);
    for (unsigned n = 0; n < ROUNDS && !relayed; n++) {
        struct played_server *s = first_asked(&w, c), *other = s == &w.peers[0] ? &w.peers[1] : &w.peers[0];

        say(conn(s, 0), NOT_READY);
        relayed = until(&w, asked(other) || got(c, "HTTP/1.1 503 ")) && !asked(other);
        passed += !relayed;
        if (relayed)
            break;
        say(conn(other, 0), OK_ANSWER);
        (void)has(c, "HTTP/1.1 200 ");
        say(conn(first_asked(&w, c), 0), OK_ANSWER);
        (void)has(c, "HTTP/1.1 200 ");
    }
    ok(relayed && passed >= 100 && passed < MOST, "then \"not ready\" is the answer (after %u)", passed);
    ok(proxy_kit_metric(&w, "mvproxy_back_retries_refused_total", NULL) > 0, "and counted");
    proxy_kit_close(&w);
}

static void discovery(unsigned status)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_READY);
    shut_down(&w.local);
    c = client(&w);
    say(c, APIS);
    ok(has(conn(&w.peers[0], 0), "Authorization: Bearer t") && got(&w.peers[0].conns[0], "GET /apis "),
       "a peer's server is asked");
    ok(got(&w.peers[0].conns[0], "x-kubernetes-peer-proxied: true"), "marked");
    if (status == 200) {
        say(conn(&w.peers[0], 0), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        ok(has(c, "HTTP/1.1 200 ") && has(c, "\"jobs\""), "allowed there: ours is served");
        is_str(w.cluster->seen_etag, "", "its tag says nothing about the local server");
    } else {
        say(conn(&w.peers[0], 0), "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nnope");
        ok(has(c, "HTTP/1.1 403 Forbidden") && has(c, "nope") && got(c, "X-Mvproxy-Served-By: apiserver-b"),
           "forbidden there: the refusal is passed on");
        ok(!got(c, "jobs"), "without a word of the document");
    }
    proxy_kit_close(&w);
}

/* What the peer that is asked next answers to a reader of discovery with a token. */
static bool next_judges(struct proxy_kit *w, const char *path, const char *answer)
{
    char request[100];
    bool there;

    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1", path);
    (void)until(w, asked(&w->peers[0]) || asked(&w->peers[1]));
    for (size_t i = 0; i < 2; i++)
        if (asked(&w->peers[i])) {
            there = got(&w->peers[i].conns[0], request) && got(&w->peers[i].conns[0], "Authorization: Bearer t");
            buf_reset(&w->peers[i].conns[0].got);
            say(&w->peers[i].conns[0], answer);
            proxy_kit_settle(w);
            return there;
        }
    return false;
}

#define DISCOVERY_OK "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

/* A new client with a token, who asks for the aggregated form. */
static struct played_end *read_discovery(struct proxy_kit *w, const char *path)
{
    struct played_end *c = client(w);
    char request[200];

    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: k\r\nAccept: %s\r\nAuthorization: Bearer t\r\n\r\n", path,
                   "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    say(c, request);
    return c;
}

/* One peer's server does not know the token: another one's may. */
static void unknown_token(const char *path)
{
    static const char refusal[] = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}";
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 2, READINESS_UNREACHABLE);
    shut_down(&w.local);
    c = read_discovery(&w, path);
    ok(next_judges(&w, path, refusal) && !got(c, "HTTP/1.1 "), "%s: a peer does not know the token", path);
    ok(next_judges(&w, path, DISCOVERY_OK) && has(c, "HTTP/1.1 200 "), "another one does");
    hang_up(c, STREAM_CLOSE_NOW);
    c = read_discovery(&w, path);
    ok(next_judges(&w, path, refusal) && next_judges(&w, path, refusal) && has(c, "HTTP/1.1 401 "),
       "neither does: that is the answer");
    proxy_kit_close(&w);
}

/* A peer that is asked in the local server's place cannot answer: another one can. */
static void another_judge(const char *path, const char *trouble)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 2, READINESS_UNREACHABLE);
    shut_down(&w.local);
    c = read_discovery(&w, path);
    if (trouble != NULL)
        ok(next_judges(&w, path, trouble) && !got(c, "HTTP/1.1 "), "%s: a peer is in trouble itself", path);
    else {
        (void)until(&w, asked(&w.peers[0]) || asked(&w.peers[1]));
        for (size_t i = 0; i < 2; i++)
            if (asked(&w.peers[i])) {
                buf_reset(&w.peers[i].conns[0].got);
                shut_down(&w.peers[i]);
                hang_up(&w.peers[i].conns[0], STREAM_CLOSE_NOW);
                break;
            }
    }
    ok(next_judges(&w, path, DISCOVERY_OK) && has(c, "HTTP/1.1 200 "), "%s: the other one answers", path);
    proxy_kit_close(&w);
}

/* What a peer answers to one user's requests, until it is an outlier or has done so often. */
static void answer_often(struct proxy_kit *w, const char *target, const char *answer)
{
    for (unsigned i = 0; i < 20 && origin_healthy(w->peers[0].origin); i++) {
        char request[200];
        struct played_end *c = client(w);

        (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\n\r\n",
                       target);
        say(c, request);
        (void)until(w, asked(&w->peers[0]));
        buf_reset(&w->peers[0].conns[0].got);
        say(&w->peers[0].conns[0], answer);
        (void)has(c, "HTTP/1.1 50");
        hang_up(c, STREAM_CLOSE_NOW);
    }
}

/* An outlier is better than no discovery. Nobody makes one by what he asks for. */
static void ejected_judge(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_UNREACHABLE);
    shut_down(&w.local);
    answer_often(&w, JOBS "?timeout=1ns", "HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 2\r\n\r\n{}");
    ok(origin_healthy(w.peers[0].origin), "504, which anybody has for the asking, ejects nobody");
    answer_often(&w, JOBS "/x/proxy/y", "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}");
    ok(origin_healthy(w.peers[0].origin), "nor does a program behind a server");
    answer_often(&w, JOBS, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n{}");
    ok(!origin_healthy(w.peers[0].origin), "the only peer is ejected");
    c = client(&w);
    say(c, "GET /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\n\r\n");
    ok(next_judges(&w, "/apis/batch/v1", DISCOVERY_OK) && has(c, "HTTP/1.1 200 "), "and asked about discovery");
    proxy_kit_close(&w);
}

/* kube-apiserver ends the request of who has reached a program that breaks off: that is no server that is lost. */
static void program_breaks_off(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 2);
    w.cluster->fails_over = w.local_has_jobs = true;
    proxy_kit_start(&w);
    for (size_t i = 0; i < 8; i++) {
        c = client(&w);
        say(c, "GET " JOBS "/x/proxy/y HTTP/1.1\r\nHost: k\r\n\r\n");
        (void)has(conn(&w.local, i), "\r\n\r\n");
        hang_up(conn(&w.local, i), STREAM_CLOSE_ABORT);
        ok(ended(c) && !got(c, "HTTP/1.1"), "%zu: the client's connection ends as the server's did", i);
    }
    is_u64(w.local.n_conns, 8, "it is not asked again");
    is_u64(w.peers[0].n_conns + w.peers[1].n_conns, 0, "and nobody else");
    is_u64(w.cluster->local_failures, 0, "the local server is not taken for lost");
    proxy_kit_close(&w);
}

int main(void)
{
    unreachable(POST, "abc");
    unreachable(GET, "GET ");
    starting();
    everybody_starts();
    last_resort();
    lapsed_and_back();
    nobody();
    lost(GET, true);
    lost(POST, false);
    stopping(STOPPING, POST, "abc");
    stopping(STOPPING, GET, "GET ");
    stopping(AWAY, POST, "abc");
    stopping(AWAY, GET, "GET ");
    overloaded();
    peers_stopping(false);
    peers_stopping(true);
    stopping_and_nobody_else(true);
    stopping_and_nobody_else(false);
    stopping_is_the_answer(true);
    stopping_is_the_answer(false);
    off();
    sent_on();
    sent_on_in_doubt("POST", false);
    sent_on_in_doubt("GET", true);
    forged();
    forged_behind_peer();
    watch_stays();
    upgrade();
    passed_on_too_often();
    judges();
    judged_anew();
    discovery(200);
    discovery(403);
    body_waits();
    for (size_t i = 0; i < 2; i++) {
        const char *path = i == 0 ? "/apis" : "/apis/batch/v1";

        another_judge(path, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}");
        another_judge(path, NULL);
    }
    ejected_judge();
    program_breaks_off();
    unknown_token("/apis");
    unknown_token("/apis/batch/v1");
    return tap_end();
}
