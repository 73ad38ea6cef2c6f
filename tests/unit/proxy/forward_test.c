/* SPDX-License-Identifier: Apache-2.0 */
/* Requests through the whole data plane: where they go, what happens when servers fail, who is held back by whom. */
#include "net/loop.h"
#include "unit/proxy/kit.h"

#include <stdio.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
#define GO_NOT_FOUND                                                                                                   \
    "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n404 page not "     \
    "found\n"

static void ask(struct played_end *c, const char *method, const char *target, const char *more)
{
    char head[1000];

    (void)snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: k\r\n%s\r\n", method, target, more);
    say(c, head);
}

static void local_and_peer(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    ask(c, "GET", PODS, "Authorization: Bearer t\r\nX-Remote-User: admin\r\n");
    ok(has(conn(&w.local, 0), "Authorization: Bearer t\r\n"), "a known resource goes to the local server");
    ok(!got(conn(&w.local, 0), "X-Remote-User"), "a claimed identity does not");
    say(conn(&w.local, 0), OK_ANSWER);
    ok(has(c, "\r\n\r\n{}"), "and is answered");
    ok(!got(c, "X-Mvproxy-Served-By"), "nobody else is named");
    is_u64(w.cluster->local_seen, 1, "and the local server is shown to answer");
    ask(c, "GET", JOBS, "");
    ok(has(conn(&w.peers[0], 0), "x-kubernetes-peer-proxied: true"), "an unknown one goes to the peer, marked");
    ok(has(conn(&w.peers[0], 0), "\r\n\r\n") && !got(conn(&w.peers[0], 0), "May-Deny"), "who is known to have it");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "X-Mvproxy-Served-By: apiserver-b"), "who is named");
    proxy_kit_settle(&w);
    is_double(proxy_kit_metric(&w, "apiserver_rerouted_request_total", "jobs"), 1, "and counted");
    is_double(proxy_kit_metric(&w, "apiserver_rerouted_request_total", "pods"), 0, "as the local server's is not");
    ok(proxy_kit_metric(&w, "mvproxy_request_duration_seconds", "served-locally") > 0, "how long each took");
    ok(proxy_kit_metric(&w, "mvproxy_request_duration_seconds", "peer") > 0, "by where it went");
    is_double(proxy_kit_metric(&w, "apiserver_client_certificate_expiration_seconds", NULL), 0, "no certificate");
    proxy_kit_close(&w);
}

#define WEBSOCKET "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"

/* What may be tried elsewhere: the server's part in the failure, and the method. */
enum failing { REFUSES, CLOSES, HALF_A_HEAD, NOT_FOUND };
static const struct {
    const char *name, *method, *more;
    enum failing how;
    bool again;
    bool by_client; /* the client is told to try again */
} failures[] = {
    {"GET, cut off at once", "GET", "", REFUSES, true, true},
    {"POST with a body, cut off at once", "POST", "Content-Length: 4\r\n", REFUSES, false, false},
    {"GET, connection closed", "GET", "", CLOSES, true, true},
    {"POST, connection closed", "POST", "Content-Length: 0\r\n", CLOSES, false, false},
    {"DELETE, connection closed", "DELETE", "", CLOSES, false, false},
    {"GET, half a head", "GET", "", HALF_A_HEAD, true, true},
    {"POST, half a head", "POST", "Content-Length: 0\r\n", HALF_A_HEAD, false, false},
    {"DELETE, half a head", "DELETE", "", HALF_A_HEAD, false, false},
    {"an upgrade, connection closed", "GET", WEBSOCKET, CLOSES, false, false},
    {"an upgrade, half a head", "GET", WEBSOCKET, HALF_A_HEAD, false, false},
    {"GET, plain 404", "GET", "", NOT_FOUND, true, true},
    {"DELETE, plain 404", "DELETE", "", NOT_FOUND, true, true},
};

/* The server that is asked first is one of two, at random: fails whoever gets a connection before the other does. */
static struct played_server *first_asked(struct proxy_kit *w, size_t n)
{
    (void)until(w, w->peers[0].n_conns > n || w->peers[1].n_conns > n);
    return w->peers[0].n_conns > n ? &w->peers[0] : &w->peers[1];
}

static void fail_once(struct proxy_kit *w, enum failing how, struct played_end *s)
{
    (void)w;
    (void)has(s, "\r\n\r\n");
    switch (how) {
    case REFUSES:
    case CLOSES:
        break;
    case HALF_A_HEAD:
        say(s, "HTTP/1.1 200 OK\r\nCon");
        break;
    case NOT_FOUND:
        say(s, GO_NOT_FOUND);
        return;
    }
    hang_up(s, STREAM_CLOSE_FLUSH);
}

static void failing_first(size_t row)
{
    struct proxy_kit w;
    struct played_end *c;
    struct played_server *first, *second;

    proxy_kit_open(&w, 2);
    c = client(&w);
    ask(c, failures[row].method, failures[row].method[0] == 'P' ? JOBS : JOBS "/x", failures[row].more);
    first = first_asked(&w, 0);
    second = first == &w.peers[0] ? &w.peers[1] : &w.peers[0];
    for (size_t i = 0; i < 4 && second->n_conns == 0 && !got(c, "HTTP/1.1"); i++)
        if (until(&w, first->n_conns > i || second->n_conns > 0 || got(c, "HTTP/1.1")) && first->n_conns > i)
            fail_once(&w, failures[row].how, &first->conns[i]);
    if (failures[row].again) {
        ok(has(conn(second, 0), "\r\n\r\n"), "%s: the next one is asked", failures[row].name);
        say(conn(second, 0), OK_ANSWER);
        ok(has(c, "HTTP/1.1 200 OK"), "%s: and answers", failures[row].name);
        is_double(proxy_kit_metric(&w, "mvproxy_retries_total", NULL), 1, "%s: counted", failures[row].name);
    } else {
        ok(has(c, "HTTP/1.1 503 "), "%s: refused", failures[row].name);
        ok(has(c, "\"kind\":\"Status\""), "%s: as a Status", failures[row].name);
        ok(got(c, "Retry-After: ") == failures[row].by_client, "%s: Retry-After", failures[row].name);
        ok(got(c, "retryAfterSeconds") == failures[row].by_client, "%s: and in the Status", failures[row].name);
        is_u64(second->n_conns, 0, "%s: and not repeated", failures[row].name);
    }
    ok(w.cluster->suspects > 0, "%s: the peer is looked at again", failures[row].name);
    proxy_kit_close(&w);
}

static void all_fail(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 2);
    w.peers[0].refuse = w.peers[1].refuse = true;
    proxy_kit_start(&w);
    c = client(&w);
    ask(c, "GET", JOBS, "");
    ok(has(c, "HTTP/1.1 503 "), "no peer works: 503");
    ok(has(c, "Error while proxying request to destination apiserver"), "as kube-apiserver says it");
    proxy_kit_settle(&w);
    is_double(proxy_kit_metric(&w, "mvproxy_request_duration_seconds", "peers-failed") > 0, 1, "row 10");
    proxy_kit_close(&w);
}

/* Repeated it would only take as long again, and be as much work: nobody is told to. */
static void too_slow(const char *target)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.opts.request_timeout_ms = 100;
    proxy_kit_start(&w);
    c = client(&w);
    ask(c, "GET", target, "");
    ok(has(c, "HTTP/1.1 504 ") && has(c, "\"kind\":\"Status\""), "%s: no answer in time: 504", target);
    ok(!got(c, "Retry-After") && !got(c, "retryAfterSeconds"), "which is not to be repeated");
    proxy_kit_close(&w);
}

static void not_found_everywhere(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    ask(c, "GET", JOBS, "");
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    say(conn(&w.peers[0], 0), GO_NOT_FOUND);
    ok(has(c, "HTTP/1.1 503 "), "a peer's plain 404 is not believed");
    proxy_kit_settle(&w);
    is_double(proxy_kit_metric(&w, "mvproxy_retries_total", NULL), 0, "and nothing was retried");
    ask(c, "GET", JOBS "/x/proxy/", "");
    (void)has(conn(&w.peers[0], 0), "/x/proxy/");
    say(conn(&w.peers[0], 0), GO_NOT_FOUND);
    ok(has(c, "404 page not found"), "but that of a program behind `proxy` is");
    proxy_kit_close(&w);
}

/* What the answer to a rerouted request says of the peer: it may have lost what it served, or it is there again. */
static void what_answers_tell(void)
{
    static const struct {
        const char *answer, *status;
        bool missed;
    } rows[] = {
        {"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", "404", true},
        {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}", "503", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "200", false},
        {"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}", "500", false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        char line[20];
        struct proxy_kit w;
        struct played_end *c;

        (void)snprintf(line, sizeof(line), "HTTP/1.1 %s ", rows[i].status);
        proxy_kit_open(&w, 1);
        c = client(&w);
        ask(c, "GET", JOBS "/x", "");
        (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
        say(conn(&w.peers[0], 0), rows[i].answer);
        ok(has(c, line), "a peer's %s is relayed", rows[i].status);
        proxy_kit_settle(&w);
        is_u64(w.cluster->peer_misses, rows[i].missed, "%s: it is looked at again, or not", rows[i].status);
        is_u64(w.cluster->suspects, 0, "%s: but not as if it had denied what it has", rows[i].status);
        is_u64(w.cluster->answered, !rows[i].missed, "%s: it is there, or not", rows[i].status);
        is_u64(w.cluster->peer_seen, rows[i].status[0] < '5', "%s: it is shown to answer, or not", rows[i].status);
        is_u64(w.cluster->local_seen, 0, "%s: the local server has nothing to do with it", rows[i].status);
        proxy_kit_close(&w);
    }
}

static void breaks_off(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    ask(c, "GET", JOBS, "");
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    say(conn(&w.peers[0], 0), "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    ok(has(c, "abc"), "half an answer");
    hang_up(conn(&w.peers[0], 0), STREAM_CLOSE_FLUSH);
    ok(ended(c) && c->failed, "breaks the client's connection");
    proxy_kit_close(&w);
}

/* ---- bodies ---- */

static void send_all(struct proxy_kit *w, struct played_end *from, struct played_end *to, size_t n)
{
    static char block[32 << 10];
    size_t sent = 0;
    uint64_t before = to->n_got;

    memset(block, 'x', sizeof(block));
    while (sent < n && from->s != NULL && !from->failed) {
        if (stream_congested(from->s)) {
            loop_run_once(w->loop, 5);
            continue;
        }
        say_bytes(from, slice_of(block, n - sent < sizeof(block) ? n - sent : sizeof(block)));
        sent += n - sent < sizeof(block) ? n - sent : sizeof(block);
    }
    ok(until(w, to->n_got - before >= n), "%zu bytes arrive", n);
}

/* How much `from` gets rid of while the reader sleeps: what the buffers on the way hold, kernel's included. */
static uint64_t fill(struct proxy_kit *w, struct played_end *from, size_t limit)
{
    static char block[32 << 10];
    uint64_t sent = 0;
    unsigned idle = 0;

    while (sent < limit && idle < 100) {
        if (stream_congested(from->s)) {
            loop_run_once(w->loop, 5);
            idle++;
            continue;
        }
        idle = 0;
        say_bytes(from, slice_of(block, sizeof(block)));
        sent += sizeof(block);
    }
    return sent;
}

enum { BIG = 24 << 20 };

static void slow_server(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;
    uint64_t taken;
    char head[200];

    proxy_kit_open(&w, 0);
    c = client(&w);
    (void)snprintf(head, sizeof(head), "Content-Length: %d\r\n", BIG);
    ask(c, "POST", PODS, head);
    s = conn(&w.local, 0);
    s->count_only = true;
    (void)until(&w, s->n_got > 0);
    stop_reading(s);
    taken = fill(&w, c, BIG);
    ok(taken < BIG, "a server that does not read holds the client back (%llu bytes taken)", (unsigned long long)taken);
    go_on_reading(s);
    send_all(&w, c, s, BIG - (size_t)taken);
    ok(until(&w, s->n_got > BIG), "and gets all of it in the end");
    say(s, OK_ANSWER);
    ok(has(c, "\r\n\r\n{}"), "then it answers");
    proxy_kit_close(&w);
}

static void slow_client(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;
    uint64_t taken;
    char head[200];

    proxy_kit_open(&w, 0);
    c = client(&w);
    ask(c, "GET", PODS, "");
    s = conn(&w.local, 0);
    (void)has(s, "\r\n\r\n");
    c->count_only = true;
    (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BIG);
    say(s, head);
    (void)until(&w, c->n_got > 0);
    stop_reading(c);
    taken = fill(&w, s, BIG);
    ok(taken < BIG, "a client that does not read holds the server back (%llu bytes taken)", (unsigned long long)taken);
    go_on_reading(c);
    send_all(&w, s, c, BIG - (size_t)taken);
    ok(until(&w, c->n_got > BIG), "and gets all of it in the end");
    proxy_kit_close(&w);
}

static void chunks_and_trailers(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 0);
    c = client(&w);
    ask(c, "POST", PODS, "Transfer-Encoding: chunked\r\n");
    say(c, "3\r\nabc\r\n");
    s = conn(&w.local, 0);
    ok(has(s, "3\r\nabc\r\n"), "a chunk goes through before the next is there");
    say(c, "0\r\nX-Sum: 1\r\n\r\n");
    ok(has(s, "0\r\nX-Sum: 1\r\n\r\n"), "with its trailer");
    say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Done\r\n\r\n2\r\nok\r\n0\r\nX-Done: y\r\n\r\n");
    ok(has(c, "2\r\nok\r\n0\r\nX-Done: y\r\n\r\n"), "and back");
    proxy_kit_close(&w);
}

static void expect_continue(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 0);
    c = client(&w);
    ask(c, "POST", PODS, "Content-Length: 3\r\nExpect: 100-continue\r\n");
    s = conn(&w.local, 0);
    ok(has(s, "Expect: 100-continue"), "the expectation reaches the server");
    say(s, "HTTP/1.1 100 Continue\r\n\r\n");
    ok(has(c, "HTTP/1.1 100 "), "and its answer the client");
    say(c, "abc");
    ok(has(s, "abc"), "then the body follows");
    say(s, OK_ANSWER);
    ok(has(c, "{}"), "and the answer");
    ask(c, "POST", PODS, "Content-Length: 3\r\nExpect: 100-continue\r\n");
    s = conn(&w.local, 0);
    (void)until(&w, w.local.n_conns > 1 || buf_len(&s->got) > 400);
    say(s, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
    ok(has(c, "HTTP/1.1 413 "), "a refusal instead of a 100");
    ok(ended(c), "ends the connection, whose next bytes nobody could read rightly");
    proxy_kit_close(&w);
}

static void early_answer(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 0);
    c = client(&w);
    ask(c, "POST", PODS, "Content-Length: 1000000\r\n");
    say(c, "abc");
    s = conn(&w.local, 0);
    ok(has(s, "abc"), "the body begins");
    say(s, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    ok(has(c, "\r\n\r\nno"), "an answer before its end is relayed");
    ok(ended(c), "and ends the connection");
    proxy_kit_close(&w);
}

static void no_content(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 0);
    c = client(&w);
    ask(c, "HEAD", PODS, "");
    s = conn(&w.local, 0);
    (void)has(s, "HEAD ");
    say(s, "HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n");
    ok(has(c, "Content-Length: 17\r\n"), "HEAD: the length is passed on");
    ask(c, "GET", PODS "/a", "If-None-Match: \"x\"\r\n");
    (void)has(s, "/a HTTP/1.1");
    say(s, "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n");
    ok(has(c, "HTTP/1.1 304 "), "304");
    ask(c, "DELETE", PODS "/b", "");
    (void)has(s, "/b HTTP/1.1");
    say(s, "HTTP/1.1 204 No Content\r\n\r\n");
    ok(has(c, "HTTP/1.1 204 "), "204");
    ask(c, "GET", PODS "/c", "");
    ok(has(s, "/c HTTP/1.1"), "all on one connection");
    say(s, OK_ANSWER);
    ok(has(c, "\r\n\r\n{}"), "whose framing held");
    proxy_kit_close(&w);
}

/* ---- the client leaves ---- */

#define TOKEN "Authorization: Bearer t\r\n"

static void gone_while(const char *what, const char *target, const char *more, const char *answer)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    ask(c, answer == NULL ? "POST" : "GET", target, more);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    if (answer != NULL) {
        say(conn(&w.local, 0), answer);
        (void)has(c, "HTTP/1.1 200");
    }
    hang_up(c, STREAM_CLOSE_ABORT);
    ok(ended(conn(&w.local, 0)), "%s: the server's connection ends", what);
    is_double(proxy_kit_metric(&w, "mvproxy_resource_requests_total", "served-locally"),
              strcmp(more, TOKEN) == 0 ? 1 : 0,
              "what was given up unanswered, or needs no credential, hides no 503 from the alert");
    proxy_kit_close(&w);
}

static void client_leaves(void)
{
    gone_while("waiting for the head", PODS, "Content-Length: 0\r\n", NULL);
    gone_while("sending a body", PODS, "Content-Length: 100\r\n\r\nabc", NULL);
    gone_while("receiving a body", PODS, TOKEN, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    gone_while("watching", PODS "?watch=1", TOKEN, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    gone_while("receiving what anybody may have, with what is no token", PODS, "Authorization: Basic eDp5\r\n",
               "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    gone_while("receiving what anybody may have", PODS, "", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc");
    gone_while("asking for /apis", "/apis",
               "Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n",
               "HTTP/1.1 403 Forbidden\r\nX: HTTP/1.1 200\r\nContent-Length: 9\r\n\r\nabc");
}

/* What strangers get at will hides no 503 from the alert either. */
static void heard(void)
{
    static const unsigned heard[] = {200, 201, 404, 405, 409, 410, 422, 500, 503},
                          unheard[] = {0, 400, 401, 403, 408, 413, 414, 417, 429, 431, 501, 504, 505};

    for (size_t i = 0; i < ROWS(heard); i++)
        ok(request_summary_was_heard(&(struct request_summary){.status = heard[i]}), "%u says who asked", heard[i]);
    for (size_t i = 0; i < ROWS(unheard); i++)
        ok(!request_summary_was_heard(&(struct request_summary){.status = unheard[i]}), "%u does not", unheard[i]);
    ok(!request_summary_was_heard(&(struct request_summary){.status = 200, .anonymous = true}),
       "nor without credentials");
}

/* ---- drain, reload ---- */

static void ends_watches(void)
{
    struct proxy_kit w;
    struct played_end *watch, *log, *waits;

    proxy_kit_open(&w, 0);
    watch = client(&w);
    ask(watch, "GET", PODS "?watch=1", "");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n");
    ok(has(watch, "{}"), "a watch");
    log = client(&w);
    ask(log, "GET", PODS "/x/exec", "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n");
    (void)has(conn(&w.local, 1), "\r\n\r\n");
    say(conn(&w.local, 1), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n");
    (void)has(log, "{}");
    waits = client(&w);
    ask(waits, "GET", PODS "?watch=1", "");
    (void)has(conn(&w.local, 2), "\r\n\r\n");
    is_u64(proxy_long_running(w.proxy), 3, "three long-running requests");
    is_u64(proxy_end_long_running(w.proxy, 1), 1, "one is to end");
    ok(has(watch, "0\r\n\r\n"), "the oldest, a watch: in order");
    is_u64(proxy_end_long_running(w.proxy, 9), 2, "all others");
    is_double(proxy_kit_metric(&w, "mvproxy_request_duration_seconds", NULL), 0, "which took what their clients liked");
    ok(ended(log) && !got(log, "0\r\n\r\n"), "what is no watch breaks off");
    ok(has(waits, "HTTP/1.1 503 "), "what has no answer yet is refused");
    proxy_kit_close(&w);
}

static void reload_meanwhile(void)
{
    struct proxy_kit w;
    struct played_end *c;
    struct proxy_opts changed;

    proxy_kit_open(&w, 1);
    c = client(&w);
    ask(c, "GET", PODS, "");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    changed = w.opts;
    changed.local = w.peers[0].origin;
    proxy_kit_reload(&w, &changed);
    say(conn(&w.local, 0), OK_ANSWER);
    ok(has(c, "{}"), "a request under way stays where it is");
    ask(c, "GET", PODS "/later", "");
    ok(has(conn(&w.peers[0], 0), "/later"), "the next goes by the new ones");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    proxy_kit_settle(&w);
    proxy_kit_close(&w);
}

static void too_many_in_flight(void)
{
    struct proxy_kit w;
    struct played_end *a, *b;

    proxy_kit_init(&w, 1);
    w.opts.max_in_flight_per_peer = 1;
    proxy_kit_start(&w);
    a = client(&w);
    b = client(&w);
    ask(a, "GET", JOBS, "");
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    ask(b, "GET", JOBS, "");
    ok(has(b, "too many requests in flight"), "beyond max-requests-inflight-per-peer: 503");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(a, "{}"), "the one before is served");
    proxy_kit_close(&w);
}

/* ---- labels ---- */

static void labels(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 0);
    c = client(&w);
    ask(c, "POST", PODS "?dryRun=All", "Content-Length: 0\r\n");
    (void)has(conn(&w.local, 0), "dryRun=All");
    say(conn(&w.local, 0), OK_ANSWER);
    ok(has(c, "{}"), "a dry run");
    ask(c, "GET", PODS "/x/nonsense-of-a-client", "");
    (void)has(conn(&w.local, 0), "nonsense");
    say(conn(&w.local, 0), GO_NOT_FOUND);
    (void)has(c, "404 page");
    proxy_kit_settle(&w);
    is_double(proxy_kit_metric(&w, "apiserver_request_total", "All"), 1, "dry_run");
    is_double(proxy_kit_metric(&w, "apiserver_request_total", "nonsense-of-a-client"), 0,
              "no label of a client's making");
    is_double(proxy_kit_metric(&w, "apiserver_request_total", "other"), 1, "but other");
    proxy_kit_close(&w);
}

/* Of what a CRD or an aggregated API server serves kube-apiserver tells the scope in another way. */
static void scope(const char *target, bool excluded, bool away, const char *want)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.jobs_excluded = excluded;
    w.local_has_jobs = true;
    w.local.refuse = away;
    proxy_kit_start(&w);
    c = client(&w);
    ask(c, "GET", target, "");
    if (!away) {
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        say(conn(&w.local, 0), OK_ANSWER);
    }
    ok(has(c, away ? "HTTP/1.1 503 " : "\r\n\r\n{}"), "%s, answered %d", target, !away);
    proxy_kit_settle(&w);
    is_double(proxy_kit_metric(&w, "apiserver_request_total", want), 1, "%s, custom %d: %s", target, excluded, want);
    proxy_kit_close(&w);
}

static void scopes(void)
{
    for (int away = 0; away <= 1; away++) {
        scope(JOBS "?fieldSelector=metadata.name%3Dx", false, away, "namespace");
        scope(JOBS "?fieldSelector=metadata.name%3Dx", true, away, "resource");
        scope(JOBS, true, away, "namespace");
    }
}

int main(void)
{
    local_and_peer();
    for (size_t i = 0; i < ROWS(failures); i++)
        failing_first(i);
    all_fail();
    too_slow(PODS);
    too_slow(JOBS);
    too_slow("/openapi/v3");
    not_found_everywhere();
    what_answers_tell();
    breaks_off();
    slow_server();
    slow_client();
    chunks_and_trailers();
    expect_continue();
    early_answer();
    no_content();
    client_leaves();
    heard();
    ends_watches();
    reload_meanwhile();
    too_many_in_flight();
    labels();
    scopes();
    return tap_end();
}
