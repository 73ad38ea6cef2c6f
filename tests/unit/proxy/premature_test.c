/* SPDX-License-Identifier: Apache-2.0 */
/* The local server has only just started and denies what it will allow a moment later: who is told so, and who not. */
#include <stdio.h>
#include <string.h>

#include "back/back.h"
#include "base/limits.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"
#include "unit/proxy/kit.h"

#define POST "POST " PODS " HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\nabc"
#define GET "GET " PODS " HTTP/1.1\r\nHost: k\r\n\r\n"
#define MARKED "Host: k\r\nx-kubernetes-peer-proxied: true\r\n"
#define FORBIDDEN "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
#define NOBODY "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
#define AS_BOB "HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer bob\r\n"

static void start(struct proxy_kit *w, size_t n_peers, enum readiness_state state)
{
    proxy_kit_init(w, n_peers);
    w->cluster->fails_over = w->opts.legacy_discovery = w->cluster->local_loading = true;
    w->cluster->local_state = state;
    proxy_kit_start(w);
}

/* This server answers so; and whether the client is told something else. Ends the kit. */
static void denies(struct proxy_kit *w, struct played_server *s, const char *request, const char *answer, bool held)
{
    struct played_end *c = client(w);

    say(c, request);
    (void)has(conn(s, 0), "\r\n\r\n");
    say(conn(s, 0), answer);
    if (held)
        ok(has(c, "HTTP/1.1 503 ") && got(c, "Retry-After: 1\r\n") && has(c, "who may do what"), "not yet: %s",
           request);
    else
        ok(has(c, strstr(answer, " 401 ") != NULL ? "HTTP/1.1 401 " : "HTTP/1.1 403 "), "relayed: %.20s", request);
    proxy_kit_close(w);
}

/* A server that has only just started denies what it will allow; nobody else can say whether it will. */
static void premature(const char *request, const char *answer, bool held)
{
    struct proxy_kit w;

    start(&w, 0, READINESS_READY);
    denies(&w, &w.local, request, answer, held);
}

/* Another server knows already. */
static void premature_and_others(const char *request, const char *body)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w, 1, READINESS_READY);
    c = client(&w);
    say(c, request);
    ok(has(conn(&w.local, 0), body), "a server that has only just started gets it");
    say(conn(&w.local, 0), FORBIDDEN);
    ok(has(conn(&w.peers[0], 0), body) && !got(c, "HTTP/1.1"), "it does not know yet who may: the peer gets it");
    say(conn(&w.peers[0], 0), FORBIDDEN);
    ok(has(c, "HTTP/1.1 403 "), "what that denies is denied");
    proxy_kit_close(&w);
}

static void premature_for_peer(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.front_tls = server_ctx(false);
    w.client_tls = client_ctx("front-proxy-client", false);
    w.cluster->fails_over = w.cluster->local_loading = true;
    w.cluster->local_state = READINESS_STARTING;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "POST " PODS " HTTP/1.1\r\n" MARKED "Content-Length: 3\r\n\r\nabc");
    ok(has(conn(&w.local, 0), "abc"), "sent on by a peer: it is asked");
    say(conn(&w.local, 0), FORBIDDEN);
    ok(has(c, "HTTP/1.1 503 ") && got(c, "X-Mvproxy-Try-Another: true"), "not yet: let another one do it");
    say(c, "GET /version HTTP/1.1\r\n" MARKED "\r\n");
    ok(has(conn(&w.local, 0), "/version"), "what a peer looks for");
    say(conn(&w.local, 0), FORBIDDEN);
    ok(has(c, "HTTP/1.1 403 "), "is answered");
    proxy_kit_close(&w);
}

/* One without an mvproxy, which nobody else holds back. */
static void premature_peer(const char *request, const char *answer, bool held)
{
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.cluster->fails_over = w.cluster->peer_loading = true;
    proxy_kit_start(&w);
    denies(&w, &w.peers[0], request, answer, held);
}

static void premature_peer_and_others(void)
{
    struct proxy_kit w;
    struct played_end *c, *first;
    bool zero;

    proxy_kit_init(&w, 2);
    w.cluster->fails_over = w.cluster->peer_loading = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\nabc");
    ok(until(&w, w.peers[0].n_conns + w.peers[1].n_conns > 0), "one of two gets it");
    zero = w.peers[0].n_conns > 0;
    first = conn(&w.peers[zero ? 0 : 1], 0);
    ok(has(first, "abc"), "all of it");
    say(first, FORBIDDEN);
    ok(has(conn(&w.peers[zero ? 1 : 0], 0), "abc") && !got(c, "HTTP/1.1"),
       "it does not know yet who may: the other one");
    w.cluster->peer_loading = false;
    say(conn(&w.peers[zero ? 1 : 0], 0), FORBIDDEN);
    ok(has(c, "HTTP/1.1 403 "), "what that denies is denied");
    proxy_kit_close(&w);
}

/* What an aggregated API denies is its own, whoever handed it the request. */
static void denied_by_aggregated(const char *target)
{
    char request[200];
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 0);
    w.cluster->fails_over = w.local_has_jobs = w.jobs_aggregated = w.cluster->local_loading = w.opts.legacy_discovery =
        true;
    proxy_kit_start(&w);
    c = client(&w);
    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: k\r\n\r\n", target);
    say(c, request);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), FORBIDDEN);
    ok(has(c, "HTTP/1.1 403 "), "an aggregated API denies it: %s", target);
    proxy_kit_close(&w);
}

/* Nor can it be told whose a group is where the local server's discovery may not be read. */
static void denied_by_who_is_not_known(const char *target, bool held)
{
    char request[200];
    struct proxy_kit w;

    proxy_kit_init(&w, 0);
    w.forbidden = w.cluster->fails_over = w.cluster->local_loading = w.opts.legacy_discovery = true;
    proxy_kit_start(&w);
    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: k\r\n\r\n", target);
    denies(&w, &w.local, request, FORBIDDEN, held);
}

int main(void)
{
    premature(GET, FORBIDDEN, true);
    premature(POST, FORBIDDEN, true);
    premature("GET /version HTTP/1.1\r\nHost: k\r\n\r\n", FORBIDDEN, true);
    premature("GET /api/v1 HTTP/1.1\r\nHost: k\r\n\r\n", FORBIDDEN, true);
    premature("GET /apis HTTP/1.1\r\nHost: k\r\nAccept: "
              "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n\r\n",
              FORBIDDEN, true);
    premature("GET " PODS " " AS_BOB "\r\n", NOBODY, true);
    premature("GET /apis " AS_BOB "\r\n", NOBODY, true);
    premature(GET, NOBODY, false);
    premature("GET " PODS "/x/proxy/y HTTP/1.1\r\nHost: k\r\n\r\n", FORBIDDEN, false);
    premature("GET /readyz HTTP/1.1\r\nHost: k\r\n\r\n", FORBIDDEN, false);
    premature("GET /livez/ping " AS_BOB "\r\n", NOBODY, false);
    premature_and_others(GET, "GET ");
    premature_and_others(POST, "abc");
    premature_for_peer();
    premature_peer("GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n", FORBIDDEN, true);
    premature_peer("GET " JOBS " " AS_BOB "\r\n", NOBODY, true);
    premature_peer("GET " JOBS "/x/proxy/y HTTP/1.1\r\nHost: k\r\n\r\n", FORBIDDEN, false);
    premature_peer(
        "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n",
        "HTTP/1.1 403 Forbidden\r\nX-Mvproxy-Hop: apiserver-25uiiall6mndm6qe6t4yu6qciu\r\nContent-Length: 2\r\n\r\nno",
        false);
    premature_peer_and_others();
    denied_by_aggregated("/apis/batch/v1/jobs");
    denied_by_aggregated("/apis/batch/v1");
    denied_by_aggregated("/openapi/v3/apis/batch/v1");
    denied_by_who_is_not_known(PODS, true);
    denied_by_who_is_not_known("/api/v1", true);
    denied_by_who_is_not_known(JOBS, false);
    return tap_end();
}
