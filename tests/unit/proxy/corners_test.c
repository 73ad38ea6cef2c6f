/* SPDX-License-Identifier: Apache-2.0 */
/* What seldom happens to requests: each row of code that none of the other tests comes by. */
#include <stdio.h>

#include "back/back.h"
#include "base/log.h"
#include "kube/status.h"
#include "net/loop.h"
#include "net/tls_ctx.h"
#include "proxy/traffic.h"
#include "unit/net/fixture.h"
#include "unit/proxy/kit.h"
#include "unit/proxy/stopping.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: k\r\n\r\n"
#define APIS(token) "GET /apis HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer " token "\r\nAccept: " V2 "\r\n\r\n"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define BEGUN "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"
#define UPGRADE "GET " PODS "/x/exec HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
#define SWITCHED "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
#define NOT_MODIFIED "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n\r\n"
#define STATUS_401(length, message)                                                                                    \
    "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: " length                           \
    "\r\n\r\n{\"kind\":\"Status\",\"message\":\"" message "\"}"

static struct tls_ctx *with_certificate(struct proxy_kit *w, size_t n_peers, const char *name)
{
    static const char *const users[] = {"X-Remote-User", NULL}, *const groups[] = {"X-Remote-Group", NULL};
    struct tls_ctx *front = server_ctx(false);

    proxy_kit_init_tls(w, n_peers, tls_ctx_ref(front), client_ctx("front-proxy-client", false));
    w->front_tls = front;
    w->client_tls = client_ctx(name, false);
    w->opts.can_assert = true;
    w->opts.username_headers = users;
    w->opts.group_headers = groups;
    return front;
}

/* The one of two that has the request; what it has got is forgotten. NULL: nobody. */
static struct played_end *taker(struct proxy_kit *w)
{
    struct played_end *found = NULL;

    (void)until(w, (w->peers[0].n_conns > 0 && got(&w->peers[0].conns[0], "\r\n\r\n")) ||
                       (w->peers[1].n_conns > 0 && got(&w->peers[1].conns[0], "\r\n\r\n")));
    for (size_t i = 0; i < 2; i++)
        if (w->peers[i].n_conns > 0 && got(&w->peers[i].conns[0], "\r\n\r\n"))
            found = &w->peers[i].conns[0];
    if (found != NULL)
        buf_reset(&found->got);
    return found;
}

/* Its end goes to the next server with it. */
static void body_that_has_ended(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.cluster->fails_over = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "POST " PODS " HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    ok(has(conn(&w.local, 0), "0\r\n\r\n"), "a server that stops gets all of a body");
    say(conn(&w.local, 0), STOPPING);
    ok(has(conn(&w.peers[0], 0), "\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "and so does the next one, its end as well");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "which answers");
    proxy_kit_close(&w);
}

/* The local server does not answer, and nobody else has what is asked for: it may still. */
static void stays(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.cluster->fails_over = w.local_has_jobs = true;
    w.peers_without_jobs = 1;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, GET(JOBS));
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "a request waits at the local server");
    origin_fail_unanswered(w.opts.local, "its etcd is away");
    ok(has(conn(&w.local, 1), "\r\n\r\n") && !got(c, "HTTP/1.1 "), "given up there, it is asked there again");
    is_u64(w.peers[0].n_conns, 0, "for nobody else has it");
    origin_fail_unanswered(w.opts.local, "its etcd is away");
    proxy_kit_settle(&w);
    is_u64(w.local.n_conns, 2, "and not given up any more");
    say(conn(&w.local, 1), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "until it answers");
    proxy_kit_close(&w);
}

struct given_up {
    struct proxy_kit *w;
    struct played_end *client;
    struct loop_deferred now;
    uint64_t failing; /* allocation; 0: none */
};

/* Both in one turn of the loop: what was given up is told so in the next, behind what has come for it. */
static void give_up(void *arg)
{
    struct given_up *g = arg;

    say(g->client, "3\r\nabc\r\n0\r\n\r\n");
    origin_fail_unanswered(g->w->opts.local, "its etcd is away");
    mem_fail_nth(g->failing);
}

/* As it is given up there the body comes, of which nothing can be kept: what is sent again must not look whole. */
static void stays_without_its_body(void)
{
    enum { ALLOCATIONS = 10 };
    unsigned whole = 0, refused = 0, cut = 0;

    for (uint64_t nth = 0; nth <= ALLOCATIONS; nth++) {
        struct proxy_kit w;
        struct given_up g = {.w = &w, .failing = nth};

        proxy_kit_init(&w, 1);
        w.cluster->fails_over = w.local_has_jobs = w.short_of_memory = true;
        w.peers_without_jobs = 1;
        proxy_kit_start(&w);
        g.client = client(&w);
        say(g.client, "GET " JOBS " HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n");
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        loop_defer(w.loop, &g.now, give_up, &g);
        proxy_kit_settle(&w);
        mem_fail_nth(0);
        refused += got(g.client, "HTTP/1.1 503 ");
        for (unsigned i = 0; i < w.local.n_conns; i++) {
            whole += got(&w.local.conns[i], "3\r\nabc\r\n0\r\n\r\n");
            cut += got(&w.local.conns[i], "\r\n\r\n0\r\n\r\n");
        }
        proxy_kit_close(&w);
    }
    is_u64(cut, 0, "nobody gets it without its body");
    ok(whole > 0 && refused > 0, "it is sent again %u times, and refused %u times", whole, refused);
}

/* Nobody's name is sent where it would not be believed. */
static void nobody_to_assert_to(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 2);
    w.front_tls = server_ctx(false);
    w.client_tls = client_ctx("alice", false);
    w.opts.can_assert = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, GET(JOBS));
    ok(has(c, "HTTP/1.1 503 ") && has(c, "}"), "peers without our certificate: 503");
    is_u64(w.peers[0].n_conns + w.peers[1].n_conns, 0, "and none is asked");
    proxy_kit_close(&w);
}

/* A peer that does not believe us who it is may say so without a word. */
static void distrusted(const char *method, const char *answer, bool of_the_user)
{
    char request[200];
    struct proxy_kit w;
    struct played_end *c, *s;

    (void)with_certificate(&w, 2, "alice");
    proxy_kit_start(&w);
    c = client(&w);
    (void)snprintf(request, sizeof(request), "%s " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n", method);
    say(c, request);
    s = taker(&w);
    if (s == NULL)
        tap_bail("nobody is asked");
    say(s, answer);
    if (of_the_user) {
        ok(has(c, "HTTP/1.1 401 ") && has(c, "expired\"}"), "%s: a 401 that is about the user is the answer", method);
    } else {
        ok((s = taker(&w)) != NULL && !got(c, "HTTP/1.1 "), "%s: another peer is asked", method);
        is_u64(w.cluster->suspects, 1, "%s: this one is suspected", method);
        say(s, strcmp(method, "HEAD") == 0 ? "HTTP/1.1 200 OK\r\n\r\n" : OK_ANSWER);
        ok(has(c, "HTTP/1.1 200 "), "%s: and answers", method);
    }
    proxy_kit_close(&w);
}

/* What the local server says in its trouble is relayed, to where it breaks off. */
static void judge_breaks_off(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    say(c, APIS("t"));
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "the local server is asked who may read");
    say(conn(&w.local, 0), "HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\nhalf");
    ok(has(c, "half"), "its trouble is relayed");
    hang_up(conn(&w.local, 0), STREAM_CLOSE_ABORT);
    ok(ended(c) && !got(c, "HTTP/1.1 503"), "and ends as it ended");
    is_u64(w.peers[0].n_conns, 0, "nobody else is asked any more");
    proxy_kit_close(&w);
}

/* Who is drained is asked behind the others. */
static void judge_is_drained(void)
{
    struct proxy_kit w;

    proxy_kit_init(&w, 2);
    w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_UNREACHABLE;
    w.peers_drained = 1;
    proxy_kit_start(&w);
    for (unsigned i = 0; i < 8; i++) {
        say(client(&w), APIS("t"));
        ok(has(conn(&w.peers[1], i), "\r\n\r\n") && w.peers[0].n_conns == 0, "the other one judges, %u", i);
    }
    proxy_kit_close(&w);
}

/* Who is an outlier is asked last, behind who is drained. */
static void judge_is_an_outlier(bool drained)
{
    struct proxy_kit w;

    proxy_kit_init(&w, 2);
    w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_UNREACHABLE;
    w.peers_without_jobs = 1;
    w.peers_drained = drained;
    proxy_kit_start(&w);
    for (unsigned i = 0; i < 20 && origin_healthy(w.peers[1].origin); i++) {
        struct played_end *c = client(&w), *s;

        say(c, GET(JOBS));
        s = taker(&w);
        if (s == NULL)
            tap_bail("nobody is asked");
        say(s, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n{}");
        (void)has(c, "{}");
        hang_up(c, STREAM_CLOSE_NOW);
    }
    ok(!origin_healthy(w.peers[1].origin), "one of two peers is an outlier");
    for (unsigned i = 0; i < 8; i++) {
        struct played_end *c = client(&w);

        buf_reset(&w.peers[1].conns[0].got);
        say(c, APIS("t"));
        ok(has(conn(&w.peers[0], i), "\r\n\r\n") && !got(&w.peers[1].conns[0], "GET "), "the other one judges, %u", i);
    }
    proxy_kit_close(&w);
}

/* Two peers judge in the local server's place, and the first has trouble of its own, or the local one is starting. */
static void judge_has_trouble(bool premature)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_init(&w, 2);
    w.cluster->fails_over = true;
    w.cluster->local_state = premature ? READINESS_READY : READINESS_UNREACHABLE;
    w.cluster->local_loading = premature;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, APIS("t"));
    s = premature ? conn(&w.local, 0) : taker(&w);
    if (s == NULL)
        tap_bail("nobody is asked");
    if (premature)
        (void)has(s, "\r\n\r\n");
    say(s, premature ? "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
                     : "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno");
    s = taker(&w);
    ok(s != NULL && !got(c, "HTTP/1.1 "), "%s: another one judges", premature ? "starting" : "in trouble");
    if (s != NULL)
        say(s, NOT_MODIFIED);
    ok(has(c, "HTTP/1.1 200 ") && has(c, "jobs"), "and lets the client read");
    proxy_kit_close(&w);
}

/* A tunnel has the name that its client gave it, or one of ours. */
static void named(const char *field, bool named_by_client)
{
    char request[300];
    struct slice seen;
    const char *first;
    struct proxy_kit w;

    proxy_kit_open(&w, 0);
    (void)snprintf(request, sizeof(request),
                   "GET " PODS "/x/exec HTTP/1.1\r\nHost: k\r\n%sConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
                   field);
    say(client(&w), request);
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "an upgrade");
    seen = buf_slice(&w.local.conns[0].got);
    first = memmem(seen.p, seen.n, "Audit-Id: ", 10);
    ok(first != NULL && memmem(first + 1, seen.n - (size_t)(first + 1 - seen.p), "Audit-Id: ", 10) == NULL,
       "has one name: %.*s", (int)seen.n, seen.p);
    ok((first != NULL && strncmp(first + 10, "id-7\r\n", 6) == 0) == named_by_client, "%s", field);
    proxy_kit_close(&w);
}

/* ---- documents ---- */

static void read_once(struct proxy_kit *w, struct played_end *c, const char *request, const char *answer)
{
    buf_reset(&c->got);
    if (w->local.n_conns > 0)
        buf_reset(&w->local.conns[0].got);
    say(c, request);
    (void)has(conn(&w->local, 0), "\r\n\r\n");
    say(conn(&w->local, 0), answer);
}

/* In pieces, all of them. */
static void long_document(void)
{
    enum { LONG = 200000 };
    static char text[LONG + 2];
    struct proxy_kit w;
    struct played_end *c;

    for (size_t i = 0; i < LONG; i++)
        text[i] = (char)('a' + i % 23);
    proxy_kit_init(&w, 1);
    w.document = text;
    proxy_kit_start(&w);
    c = client(&w);
    read_once(&w, c, APIS("t"), NOT_MODIFIED);
    ok(has(c, "Content-Length: 200000\r\n") && has(c, text), "a long document arrives whole");
    proxy_kit_close(&w);
}

/* The line feed is the compact form's. */
static void laid_out(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.document = "{\"kind\":\"x\"}\n";
    proxy_kit_start(&w);
    c = client(&w);
    read_once(&w, c, "GET /apis?pretty=1 HTTP/1.1\r\nHost: k\r\nAccept: " V2 "\r\n\r\n", NOT_MODIFIED);
    ok(has(c, "{\n  \"kind\": \"x\"\n}\r\n0\r\n\r\n"), "pretty, without a line feed at its end");
    proxy_kit_close(&w);
}

/* What the local server says of itself, as it said it last. */
static void strict_transport(void)
{
#define HSTS(value) "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\nStrict-Transport-Security: " value "\r\n\r\n"
    static const struct {
        const char *request, *answer, *want; /* want NULL: none */
    } rows[] = {{APIS("1"), HSTS("a"), "Security: a\r\n"},
                {APIS("2"), HSTS("a"), "Security: a\r\n"},
                {APIS("3"), HSTS("b"), "Security: b\r\n"},
                {APIS("4"), NOT_MODIFIED, NULL}};
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 1);
    c = client(&w);
    for (size_t i = 0; i < ROWS(rows); i++) {
        read_once(&w, c, rows[i].request, rows[i].answer);
        ok(has(c, "jobs") && (rows[i].want == NULL ? !got(c, "Strict-Transport") : got(c, rows[i].want)),
           "answer %zu is kept", i);
    }
    proxy_kit_close(&w);
}

/* What was known before a reload counts no more: who may read, and what the local server has said of itself. */
static void reloaded(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.opts.discovery_authz_ttl_ms = 600000;
    w.cluster->fails_over = true;
    proxy_kit_start(&w);
    c = client(&w);
    read_once(&w, c, APIS("1"), HSTS("a"));
    ok(has(c, "jobs"), "who may read is remembered");
    w.cluster->local_state = READINESS_UNREACHABLE;
    buf_reset(&c->got);
    say(c, APIS("1"));
    ok(has(c, "jobs") && w.peers[0].n_conns == 0 && got(c, "Security: a\r\n"), "and what the server said of itself");
    proxy_kit_reload(&w, &w.opts);
    buf_reset(&c->got);
    say(c, APIS("1"));
    ok(has(conn(&w.peers[0], 0), "\r\n\r\n"), "until a reload");
    say(conn(&w.peers[0], 0), NOT_MODIFIED);
    ok(has(c, "jobs") && !got(c, "Strict-Transport"), "which a peer cannot say");
    proxy_kit_close(&w);
}

/* ---- what is written down ---- */

static char *logged;
static size_t n_logged;

static FILE *begin_log(void)
{
    FILE *log = open_memstream(&logged, &n_logged);

    log_set_stream(log);
    return log;
}

static void end_log(FILE *log)
{
    log_set_stream(stderr);
    (void)fclose(log);
}

static void access_log(bool user)
{
    struct traffic_count counts[TRAFFIC_BUCKETS];
    struct proxy_kit w;
    struct played_end *c;
    const char *list;
    FILE *log;

    (void)with_certificate(&w, 1, "alice");
    w.opts.access_log.all = true;
    w.opts.access_log.user = user;
    w.peer_host = "cp-b";
    proxy_kit_start(&w);
    log = begin_log();
    c = client(&w);
    say(c, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nUser-Agent: me\r\nAudit-ID: id-1\r\nContent-Length: 3\r\n\r\nabc");
    ok(has(conn(&w.peers[0], 0), "abc"), "a request of a certificate's user");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "is answered");
    buf_reset(&c->got);
    say(c, "GET " PODS " HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.local, 0), PODS), "another one, of what all serve");
    say(conn(&w.local, 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "as well");
    proxy_kit_settle(&w);
    ok(traffic_of(proxy_traffic(w.proxy), loop_now_ms(w.loop), ROUTE_ROW_PEER, counts) &&
           counts[TRAFFIC_BUCKETS - 1].requests + counts[TRAFFIC_BUCKETS - 2].requests == 1 &&
           counts[TRAFFIC_BUCKETS - 1].errors + counts[TRAFFIC_BUCKETS - 2].errors == 0,
       "and counted");
    end_log(log);
    ok(strstr(logged, "\"Request\" verb=\"create\" method=\"POST\" uri=\"" JOBS
                      "\" protocol=\"HTTP/1.1\" client=\"127.0.0.1:") != NULL,
       "what was asked: %s", logged);
    ok(strstr(logged, user ? " identity=\"certificate\" user=\"alice\" route=\"peer\" peer=\"cp-b\""
                           : " identity=\"certificate\" route=\"peer\" peer=\"cp-b\"") != NULL,
       "who asked, %s", user ? "by name" : "unnamed");
    list = strstr(logged, "\"Request\" verb=\"list\"");
    ok(list != NULL && (strstr(list, " user=\"alice\" ") != NULL) == user, "of either");
    ok(strstr(logged, " attempts=1 code=200 requestBytes=3 responseBytes=2 durationMicroseconds=") != NULL,
       "what became of it");
    ok(strstr(logged, " userAgent=\"me\" auditID=\"id-1\" end=\"complete\"") != NULL, "and by which name");
    free(logged);
    ok(proxy_kit_metric(&w, "apiserver_client_certificate_expiration_seconds", NULL) > 0,
       "how long the certificate lasts is counted");
    proxy_kit_close(&w);
}

/* Why there was no answer, or no whole one. */
static void access_log_end(const char *request, const char *said, bool client_leaves, const char *want)
{
    struct proxy_kit w;
    struct played_end *c;
    FILE *log;

    proxy_kit_init(&w, 1);
    w.opts.access_log.all = w.peers[0].refuse = true;
    proxy_kit_start(&w);
    log = begin_log();
    c = client(&w);
    say(c, request);
    if (said != NULL) {
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        say(conn(&w.local, 0), said);
    }
    ok(has(c, "\r\n\r\n"), "a head");
    hang_up(client_leaves ? c : conn(&w.local, 0), STREAM_CLOSE_NOW);
    (void)until(&w, proxy_kit_metric(&w, "mvproxy_front_requests_in_flight", NULL) == 0);
    end_log(log);
    ok(strstr(logged, want) != NULL, "%s in %s", want, logged);
    free(logged);
    proxy_kit_close(&w);
}

/* What no filter of the access log names, and what a server answers: its own audit log has that. */
static void not_logged(void)
{
    struct proxy_kit w;
    struct played_end *c;
    FILE *log;

    proxy_kit_init(&w, 0);
    w.opts.access_log.errors = true;
    proxy_kit_start(&w);
    log = begin_log();
    c = client(&w);
    say(c, GET(PODS));
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "no error");
    proxy_kit_settle(&w);
    end_log(log);
    ok(strstr(logged, "\"Request\"") == NULL, "is none in the access log: %s", logged);
    ok(strstr(logged, "\"Audit\"") == NULL, "nor is the server's answer audited as ours");
    free(logged);
    proxy_kit_close(&w);
}

/* The server is starting, and everything is logged from now on. */
static struct played_end *peer_of_starting(struct proxy_kit *w, FILE **log)
{
    (void)with_certificate(w, 1, "front-proxy-client");
    w->opts.access_log.all = w->cluster->fails_over = true;
    w->cluster->local_state = READINESS_STARTING;
    proxy_kit_start(w);
    *log = begin_log();
    return client(w);
}

/* Sent back to a peer's mvproxy, which asks whom else it knows: by what it was asked for. */
static void sent_back(const char *target, const char *route)
{
    char request[300];
    struct proxy_kit w;
    struct played_end *c;
    FILE *log;

    c = peer_of_starting(&w, &log);
    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: k\r\nx-kubernetes-peer-proxied: true\r\nX-Mvproxy-If-Ready: true\r\n\r\n",
                   target);
    say(c, request);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "X-Mvproxy-Try-Another: true\r\n"), "%s is sent back", target);
    proxy_kit_settle(&w);
    end_log(log);
    ok(strstr(logged, route) != NULL, "%s in %s", route, logged);
    is_u64(w.local.n_conns, 0, "the local server is not asked");
    free(logged);
    proxy_kit_close(&w);
}

/* What a peer's mvproxy asks for itself says nothing that the line on our server has not said; others' requests do. */
static void looks_of_a_peer(void)
{
    static const struct {
        const char *target, *agent;
        bool logged, audited, counted;
    } rows[] = {
        {"/apis", "mvproxy", false, false, true},    {"/apis", "kubectl", true, true, true},
        {PODS, "mvproxy", true, true, false},        {"/version", "mvproxy", false, false, false},
        {"/version", "kubectl", false, true, false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct traffic_count counts[TRAFFIC_BUCKETS];
        char request[300];
        struct proxy_kit w;
        struct played_end *c;
        FILE *log;

        c = peer_of_starting(&w, &log);
        (void)snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: k\r\nUser-Agent: %s\r\nx-kubernetes-peer-proxied: true\r\n"
                       "X-Mvproxy-If-Ready: true\r\n\r\n",
                       rows[i].target, rows[i].agent);
        say(c, request);
        (void)has(c, "HTTP/1.1 503 ");
        proxy_kit_settle(&w);
        end_log(log);
        is_int(strstr(logged, "\"Request\"") != NULL, rows[i].logged, "%s of %s: logged", rows[i].target,
               rows[i].agent);
        is_int(strstr(logged, "\"Audit\"") != NULL, rows[i].audited, "%s of %s: audited", rows[i].target,
               rows[i].agent);
        is_int(traffic_of(proxy_traffic(w.proxy), loop_now_ms(w.loop), ROUTE_ROW_NON_RESOURCE, counts), rows[i].counted,
               "%s of %s: counted", rows[i].target, rows[i].agent);
        free(logged);
        proxy_kit_close(&w);
    }
}

/* As the API server would write it, which adds a group to who is somebody. */
static void audited(const char *user, const char *group, const char *want)
{
    char request[300];
    struct proxy_kit w;
    struct played_end *c;
    FILE *log;

    (void)with_certificate(&w, 1, "front-proxy-client");
    w.peers[0].refuse = true;
    proxy_kit_start(&w);
    log = begin_log();
    c = client(&w);
    (void)snprintf(request, sizeof(request),
                   "GET " JOBS " HTTP/1.1\r\nHost: k\r\nX-Remote-User: %s\r\nX-Remote-Group: %s\r\n\r\n", user, group);
    say(c, request);
    ok(has(c, "HTTP/1.1 503 "), "%s of %s is refused", user, group);
    proxy_kit_settle(&w);
    end_log(log);
    ok(strstr(logged, want) != NULL, "%s in %s", want, logged);
    free(logged);
    proxy_kit_close(&w);
}

/* What the client shows is good for nothing: who runs this is told why. */
static void audited_unknown(void)
{
    struct proxy_kit w;
    struct played_end *c;
    FILE *log;

    (void)with_certificate(&w, 1, "foreign");
    proxy_kit_start(&w);
    log = begin_log();
    c = client(&w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\nUser-Agent: me\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n");
    ok(has(c, "HTTP/1.1 401 "), "an unknown certificate is refused");
    proxy_kit_settle(&w);
    end_log(log);
    ok(strstr(logged, " stage=\"ResponseStarted\" ") != NULL && strstr(logged, " responseStatus.code=401 ") != NULL,
       "and audited: %s", logged);
    ok(strstr(logged, " why=\"") != NULL && strstr(logged, "identity=\"refused\"") != NULL, "with the reason");
    ok(strstr(logged, " sourceIPs=[\"127.0.0.1\"] userAgent=\"me\" ") != NULL, "and who it was");
    free(logged);
    proxy_kit_close(&w);
}

/* The nearest, which are the last, and none that is empty. */
static void audited_sources(const char *sources, const char *want)
{
    static const char *const trusted[] = {"127.0.0.0/8", NULL};
    char request[600];
    struct proxy_kit w;
    struct played_end *c;
    FILE *log;

    (void)with_certificate(&w, 1, "foreign");
    w.opts.trusted_proxies = trusted;
    proxy_kit_start(&w);
    log = begin_log();
    c = client(&w);
    (void)snprintf(request, sizeof(request), "GET " JOBS " HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: %s\r\n\r\n",
                   sources);
    say(c, request);
    ok(has(c, "HTTP/1.1 401 "), "refused");
    proxy_kit_settle(&w);
    end_log(log);
    ok(strstr(logged, want) != NULL, "%s in %s", want, logged);
    free(logged);
    proxy_kit_close(&w);
}

int main(void)
{
    body_that_has_ended();
    stays();
    stays_without_its_body();
    nobody_to_assert_to();
    distrusted("HEAD", "HTTP/1.1 401 Unauthorized\r\n\r\n", false);
    distrusted("GET", STATUS_401("42", "Unauthorized"), false);
    distrusted("GET", STATUS_401("43", "token expired"), true);
    judge_breaks_off();
    judge_is_drained();
    judge_is_an_outlier(false);
    judge_is_an_outlier(true);
    judge_has_trouble(false);
    judge_has_trouble(true);
    named("", false);
    named("Audit-Id: id-7\r\n", true);
    long_document();
    laid_out();
    strict_transport();
    reloaded();
    access_log(true);
    access_log(false);
    access_log_end(GET(JOBS), NULL, true, " end=\"" STATUS_PROXY_FAILED "\"");
    access_log_end(GET(PODS), BEGUN, false, " end=\"server broke off its response\"");
    access_log_end(GET(PODS), BEGUN, true, " end=\"client gone\"");
    access_log_end(UPGRADE, SWITCHED, true, " code=101 ");
    not_logged();
    sent_back(PODS, " route=\"rerouted\"");
    sent_back("/version", " route=\"non-resource\"");
    looks_of_a_peer();
    audited_unknown();
    audited_sources("10.0.0.1, ,10.0.0.2,,", "sourceIPs=[\"10.0.0.1\",\"10.0.0.2\",\"127.0.0.1\"]");
    audited("bob", "dev", "user.groups=[\"dev\",\"system:authenticated\"]");
    audited("bob", "system:authenticated", "user.groups=[\"system:authenticated\"]");
    audited("bob", "system:unauthenticated", "user.groups=[\"system:unauthenticated\"]");
    audited("system:anonymous", "dev", "user.groups=[\"dev\"]");
    return tap_end();
}
