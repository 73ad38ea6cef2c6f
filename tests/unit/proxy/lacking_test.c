/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single steps of a request that find no memory, or say no: who asked is told so, or sees that there is no answer, and
 * nothing of it stays.
 */
#include <stdio.h>

#include "back/origin.h"
#include "base/quota.h"
#include "front/clients.h"
#include "front/front.h"
#include "proxy/disco_pretty.h"
#include "proxy/request_labels.h"
#include "proxy/rewrite.h"
#include "unit/proxy/kit.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: k\r\n\r\n"
#define UPGRADE(path) "GET " path " HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define NOT_MODIFIED "HTTP/1.1 304 Not Modified\r\nETag: \"L\"\r\n\r\n"
#define NO_MEMORY "The proxy is out of memory, please try again later"

/* ---- steps that fail ---- */

static const char *failing; /* this function; NULL: none */
static unsigned fails_at;   /* at this of its calls, from 1; 0: at each */
static unsigned calls;

static bool fails(const char *function)
{
    return failing != NULL && strcmp(failing, function) == 0 && (++calls == fails_at || fails_at == 0);
}

static void fail(const char *function, unsigned at)
{
    failing = function;
    fails_at = at;
    calls = 0;
}

static enum rewrite_result says = REWRITE_NO_MEMORY;

enum rewrite_result __real_rewrite_request(const struct rewrite_in *in, struct arena *a, struct http_head *out);
enum rewrite_result __wrap_rewrite_request(const struct rewrite_in *in, struct arena *a, struct http_head *out);

enum rewrite_result __wrap_rewrite_request(const struct rewrite_in *in, struct arena *a, struct http_head *out)
{
    return fails("rewrite_request") ? says : __real_rewrite_request(in, a, out);
}

#define WRAPPED(name, params, args)                                                                                    \
    bool __real_##name params;                                                                                         \
    bool __wrap_##name params;                                                                                         \
    bool __wrap_##name params                                                                                          \
    {                                                                                                                  \
        return fails(#name) ? false : __real_##name args;                                                              \
    }

WRAPPED(rewrite_response,
        (const struct http_head *in, const struct rewrite_origin *from, struct arena *a, struct http_head *out),
        (in, from, a, out))
WRAPPED(rewrite_trailers,
        (const struct http_head *in, const struct rewrite_names *names, struct arena *a, struct http_head *out),
        (in, names, a, out))
WRAPPED(request_summary_name_head,
        (struct request_summary * s, struct http_head *head, struct arena *a, struct arena *of_head),
        (s, head, a, of_head))
WRAPPED(exchange_may_ask, (struct exchange * x, uint64_t account), (x, account))
WRAPPED(exchange_for_client, (struct exchange * x, struct slice address), (x, address))
WRAPPED(http_head_copy, (const struct http_head *h, struct arena *a, struct http_head *out), (h, a, out))
WRAPPED(origin_may_repeat, (const struct origin *o, bool stranger), (o, stranger))

static bool broken;                  /* whoever is no side of the test cannot be written to */
static const struct stream *side[2]; /* these are */

bool __real_stream_write(struct stream *s, struct slice data);
bool __wrap_stream_write(struct stream *s, struct slice data);

bool __wrap_stream_write(struct stream *s, struct slice data)
{
    return broken && s != side[0] && s != side[1] ? false : __real_stream_write(s, data);
}

/* ---- a request ---- */

static void refused(const char *what, const char *request, const char *answer, const char *status)
{
    const char *const function = failing;
    struct proxy_kit w;
    struct played_end *c;

    failing = NULL;
    proxy_kit_open(&w, 1);
    c = client(&w);
    failing = function;
    say(c, request);
    ok(has(c, status) && has(c, "}"), "%s: %s", what, status);
    ok(got(c, answer), "%s: told why", what);
    failing = NULL;
    is_u64(w.local.n_conns, 0, "%s: no server is asked", what);
    c = client(&w);
    say(c, GET(PODS));
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "%s: the next one is", what);
    say(conn(&w.local, 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "%s: and answers", what);
    proxy_kit_close(&w);
}

static void requests(void)
{
    fail("rewrite_request", 1);
    refused("no memory for its head", GET(PODS), NO_MEMORY, "HTTP/1.1 503 ");
    fail("rewrite_request", 1);
    refused("no memory for an upgrade's head", UPGRADE(PODS "/x/exec"), NO_MEMORY, "HTTP/1.1 503 ");
    says = REWRITE_UNENCODABLE;
    fail("rewrite_request", 1);
    refused("a name that no field can carry", GET(PODS), "Unauthorized", "HTTP/1.1 401 ");
    says = REWRITE_NO_MEMORY;
    fail("request_summary_name_head", 1);
    refused("no memory for an upgrade's name", UPGRADE(PODS "/x/exec"), NO_MEMORY, "HTTP/1.1 503 ");
    fail("request_summary_name_head", 1);
    refused("no memory for the name of our question",
            "GET /apis HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: " V2 "\r\n\r\n", NO_MEMORY,
            "HTTP/1.1 503 ");
}

/* A client of another proxy that begins requests and throws them away. */
static void cancelling(const char *refused_by)
{
    static const char *const trusted[] = {"127.0.0.0/8", NULL};
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 0);
    w.opts.trusted_proxies = trusted;
    proxy_kit_start(&w);
    c = client(&w);
    fail(refused_by, 1);
    say(c, "GET " PODS " HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: 10.1.1.1\r\n\r\n");
    ok(has(c, "HTTP/1.1 429 ") && has(c, "Retry-After: ") && has(c, "}"), "it is to wait");
    is_u64(w.local.n_conns, 0, "no server is asked");
    say(c, "GET " PODS " HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: 10.1.1.2\r\n\r\n");
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "the next one is not");
    failing = NULL;
    proxy_kit_close(&w);
}

/* Trailers are lost, the body is not. */
static void trailers(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 0);
    c = client(&w);
    fail("rewrite_trailers", 1);
    say(c, "POST " PODS " HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n");
    ok(has(conn(&w.local, 0), "3\r\nabc\r\n0\r\n\r\n"), "a body whose trailers find no memory is whole");
    failing = NULL;
    say(conn(&w.local, 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "and answered");
    buf_reset(&w.local.conns[0].got);
    say(c, "POST " PODS " HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n");
    ok(has(conn(&w.local, 0), "3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n"), "with memory they go on");
    proxy_kit_close(&w);
}

/* ---- an answer ---- */

#define DOCUMENT "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"resources\":[]}"

static void answers(void)
{
    static const struct {
        const char *request, *answer;
        bool legacy;
        const char *fails;
    } rows[] = {
        {GET(PODS), OK_ANSWER, false, "rewrite_response"},
        {"GET /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n", DOCUMENT, true,
         "rewrite_response"},
        {"HEAD /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n", DOCUMENT, true,
         "rewrite_response"},
        {"GET /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n",
         "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno", true, "rewrite_response"},
        {"HEAD /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n",
         "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno", true, "rewrite_response"},
        {"GET /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n", DOCUMENT, true,
         "http_head_copy"},
        {"GET /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-End: y\r\n\r\n", true,
         "rewrite_response"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, 1);
        w.opts.legacy_discovery = rows[i].legacy;
        proxy_kit_start(&w);
        for (int short_of = 1; short_of >= 0; short_of--) {
            c = client(&w);
            say(c, rows[i].request);
            ok(has(conn(&w.local, 0), "\r\n\r\n"), "row %zu: the server is asked", i);
            fail(short_of ? rows[i].fails : NULL, 1);
            buf_reset(&w.local.conns[0].got);
            say(conn(&w.local, 0), rows[i].answer);
            ok(has(c, "\r\n\r\n") && got(c, "HTTP/1.1 503 ") == short_of, "row %zu: an answer%s", i,
               short_of ? " for which there is no memory is 503" : "");
            failing = NULL;
        }
        proxy_kit_close(&w);
    }
}

/* A document of ours for a client that cannot be written to. */
static void unwritable(const char *target, bool long_one)
{
    enum { LONG = 200000 };
    static char text[LONG + 2], request[300];
    struct proxy_kit w;
    struct played_end *c;

    for (size_t i = 0; i < LONG; i++)
        text[i] = (char)('a' + i % 23);
    proxy_kit_init(&w, 1);
    w.document = long_one ? text : "{\"kind\":\"x\"}\n";
    proxy_kit_start(&w);
    c = client(&w);
    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: " V2 "\r\n\r\n", target);
    say(c, request);
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "%s: our question", target);
    side[0] = c->s;
    side[1] = w.local.conns[0].s;
    say(conn(&w.local, 0), NOT_MODIFIED);
    broken = true;
    ok(ended(c), "%s: the connection ends", target);
    broken = false;
    is_u64(buf_len(&c->got), 0, "%s: without a byte", target);
    is_u64(front_exchanges(w.front), 0, "%s: nothing is left of it", target);
    proxy_kit_close(&w);
}

/* What is sent twice is bounded. */
static void repeats(void)
{
    for (int allowed = 1; allowed >= 0; allowed--) {
        struct proxy_kit w;
        struct played_end *c;
        size_t first;

        proxy_kit_open(&w, 2);
        c = client(&w);
        say(c, GET(JOBS));
        ok(until(&w, (w.peers[0].n_conns > 0 && got(&w.peers[0].conns[0], "\r\n\r\n")) ||
                         (w.peers[1].n_conns > 0 && got(&w.peers[1].conns[0], "\r\n\r\n"))),
           "a peer is asked");
        first = w.peers[0].n_conns > 0 && got(&w.peers[0].conns[0], "\r\n\r\n") ? 0 : 1;
        fail(allowed ? NULL : "origin_may_repeat", 0);
        w.peers[first].refuse = true;
        hang_up(&w.peers[first].conns[0], STREAM_CLOSE_ABORT);
        if (allowed)
            ok(has(conn(&w.peers[1 - first], 0), "\r\n\r\n"), "that breaks off: the other one is");
        else
            ok(has(c, "HTTP/1.1 5") && w.peers[1 - first].n_conns == 0, "unless too much is sent twice already");
        is_double(proxy_kit_metric(&w, "mvproxy_back_retries_refused_total", NULL), allowed ? 0 : 2,
                  "counted where the same one would be asked again, and where another one would be");
        failing = NULL;
        proxy_kit_close(&w);
    }
}

/* ---- parts ---- */

static void pretty(void)
{
    struct disco_pretty *p;
    struct quota q;

    quota_init(&q, NULL, 100 << 10);
    p = disco_pretty_new(SLICE_LIT("{}"), true, &q);
    ok(p == NULL, "no room to compress");
    is_u64(q.held, 0, "nothing is held for it");
    p = disco_pretty_new(SLICE_LIT("{}"), false, &q);
    ok(p != NULL, "none is needed where nothing is compressed");
    disco_pretty_free(p);
    is_u64(q.held, 0, "nothing stays");
    quota_init(&q, NULL, 1 << 20);
    p = disco_pretty_new(SLICE_LIT("{}"), true, &q);
    ok(p != NULL && q.held > 200 << 10, "room to compress is held");
    disco_pretty_free(p);
    is_u64(q.held, 0, "and given back");
}

int main(void)
{
    requests();
    cancelling("exchange_may_ask");
    cancelling("exchange_for_client");
    trailers();
    answers();
    unwritable("/apis", false);
    unwritable("/apis", true);
    unwritable("/apis?pretty=1", false);
    repeats();
    pretty();
    return tap_end();
}
