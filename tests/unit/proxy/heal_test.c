/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy discovery and the index of schemas: what is asked for, completed, held back and let go. */
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept: application/json\r\n\r\n"
#define JOBS_V1 "{\"groupVersion\":\"batch/v1\",\"version\":\"v1\"}"
#define BATCH "{\"name\":\"batch\",\"versions\":[" JOBS_V1 "],\"preferredVersion\":" JOBS_V1 "}"
#define NO_GROUPS "{\"kind\":\"APIGroupList\",\"groups\":[]}"
#define ALL_GROUPS "{\"kind\":\"APIGroupList\",\"groups\":[" BATCH "]}\n"
#define BATCH_ALONE                                                                                                    \
    "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"batch\",\"versions\":[" JOBS_V1                           \
    "],\"preferredVersion\":" JOBS_V1 "}\n"
#define FORBIDDEN "HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\ndenied"
#define STOPS                                                                                                          \
    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: 55\r\n\r\n"                         \
    "The apiserver is shutting down, please try again later."
#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nlost"

static void start(struct proxy_kit *w)
{
    proxy_kit_init(w, 1);
    w->opts.legacy_discovery = true;
    w->cluster->fails_over = true;
    proxy_kit_start(w);
}

static void say_ok(struct played_end *s, const char *body)
{
    char head[200];

    (void)snprintf(
        head, sizeof(head),
        "HTTP/1.1 200 OK\r\nAudit-Id: of-the-server\r\nContent-Type: text/x\r\nETag: \"own\"\r\nX-More: 1\r\n"
        "Content-Length: %zu\r\n\r\n",
        strlen(body));
    say(s, head);
    say(s, body);
}

/* A request reaches the local server, which has said nothing of it yet. */
static struct played_end *asked(struct proxy_kit *w, struct played_end *c, const char *request)
{
    struct played_end *s;

    buf_reset(&c->got);
    if (w->local.n_conns > 0)
        buf_reset(&w->local.conns[0].got);
    say(c, request);
    s = conn(&w->local, 0);
    (void)has(s, "\r\n\r\n");
    return s;
}

/* What the only server's answer to a question becomes. */
static void completed(void)
{
    static const struct {
        const char *path, *answer; /* answer NULL: 404 */
        const char *want;
    } rows[] = {
        {"/apis", NO_GROUPS, ALL_GROUPS},
        {"/apis", "{\"groups\":[" BATCH "]}", "{\"groups\":[" BATCH "]}"},
        {"/apis", "no JSON", "no JSON"},
        {"/apis/batch", NULL, BATCH_ALONE},
        {"/apis/batch/v1", NULL, "\"resources\":[{\"name\":\"jobs\","},
        /* as clients that were generated from OpenAPI write them */
        {"/apis/", NO_GROUPS, ALL_GROUPS},
        {"/apis/batch/", NULL, BATCH_ALONE},
        {"/apis/batch/v1/", NULL, "\"resources\":[{\"name\":\"jobs\","},
        {"/apis/batch/v1", "{\"resources\":[{\"name\":\"mine\"}]}", ",{\"name\":\"mine\"}]}\n"},
        {"/apis/batch/v1", "{\"resources\":[{\"name\":\"mine\"}]}", "\"name\":\"jobs/proxy\""},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        char request[400];
        struct proxy_kit w;
        struct played_end *c;

        start(&w);
        c = client(&w);
        (void)snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\nAccept-Encoding: gzip\r\n"
                       "If-None-Match: \"x\"\r\nRange: bytes=0-1\r\nif-range: \"x\"\r\n"
                       "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nAccept: application/json, */*\r\n\r\n",
                       rows[i].path);
        say(c, request);
        ok(has(conn(&w.local, 0), "\r\n\r\n") && got(&w.local.conns[0], "Authorization: Bearer t\r\n"),
           "%s: the local server is asked, with the client's credential", rows[i].path);
        ok(!got(&w.local.conns[0], "ange: ") && !got(&w.local.conns[0], "If-Modified-Since"), "not for a part");
        ok(!got(&w.local.conns[0], "gzip") && !got(&w.local.conns[0], "If-None-Match") &&
               got(&w.local.conns[0], "Accept: application/json\r\n"),
           "for all of it, in plain JSON");
        if (rows[i].answer == NULL)
            say(conn(&w.local, 0), NOT_FOUND);
        else
            say_ok(conn(&w.local, 0), rows[i].answer);
        ok(has(c, rows[i].want) && got(c, "HTTP/1.1 200 "), "completed where it lacks something");
        proxy_kit_settle(&w);
        ok(rows[i].answer == NULL || got(c, "X-More: 1\r\n"), "with the server's fields");
        ok(strcmp(rows[i].answer != NULL ? rows[i].answer : "", rows[i].want) == 0 ||
               (!got(c, "\"own\"") && !got(c, "text/") && got(c, "Content-Type: application/json\r\n")),
           "but for those about its own body");
        proxy_kit_close(&w);
    }
}

/*
 * The local server has all that there is, but a server with less has deleted the APIService of it when it started:
 * kube-apiserver makes /apis of what is stored.
 */
static void apiservice_deleted(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.opts.legacy_discovery = w.cluster->fails_over = w.local_has_jobs = true;
    w.peers_without_jobs = 1;
    proxy_kit_start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/apis"));
    say_ok(conn(&w.local, 0), NO_GROUPS);
    ok(has(c, ALL_GROUPS), "its own group, which its legacy discovery does not name, is there");
    (void)asked(&w, c, GET("/apis/batch"));
    say_ok(conn(&w.local, 0), "{\"name\":\"batch\",\"versions\":[]}");
    ok(has(c, "{\"name\":\"batch\",\"versions\":[{\"groupVersion\":\"batch/v1\",\"version\":\"v1\"}]}"),
       "so is a version of it, where others are left");
    proxy_kit_close(&w);
}

/* Without peers nobody knows better than the server itself. */
static void alone(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 0);
    w.opts.legacy_discovery = w.local_has_jobs = true;
    proxy_kit_start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/apis"));
    say_ok(conn(&w.local, 0), NO_GROUPS);
    ok(has(c, NO_GROUPS), "the only server's groups are as it says");
    proxy_kit_close(&w);
}

static void head(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    c = client(&w);
    say(c, "HEAD /apis/batch HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n");
    ok(has(conn(&w.local, 0), "GET /apis/batch "), "a HEAD: the server is asked for the document");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 200 ") && has(c, "\r\n\r\n") && !got(c, "batch/v1"), "its completion has a head only");
    (void)asked(&w, c, "HEAD /apis/batch HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n");
    say(conn(&w.local, 0), FORBIDDEN);
    ok(has(c, "HTTP/1.1 403 ") && has(c, "\r\n\r\n") && !got(c, "denied"), "so has a refusal");
    (void)asked(&w, c, "HEAD /apis HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n");
    say_ok(conn(&w.local, 0), "{\"groups\":[" BATCH "]}");
    ok(has(c, "HTTP/1.1 200 ") && has(c, "X-More: 1\r\n") && !got(c, "groups"), "and what needs no completion");
    proxy_kit_close(&w);
}

/* Whom the server refuses, who encodes its answer and what is too long get it as it comes. */
static void relayed(void)
{
    static char zeros[LIMIT_HEALED_BYTES / 4 + 1];
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/apis"));
    say(conn(&w.local, 0), FORBIDDEN);
    ok(has(c, "HTTP/1.1 403 ") && has(c, "denied"), "a refusal is relayed");
    (void)asked(&w, c, GET("/apis"));
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\nbrrr");
    ok(has(c, "brrr") && got(c, "Content-Encoding: br\r\n"), "so is what is encoded");
    (void)asked(&w, c, GET("/apis"));
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 262145\r\n\r\n");
    ok(has(c, "Content-Length: 262145\r\n"), "what says that it is too long is not held back");
    memset(zeros, '0', sizeof(zeros) - 1);
    for (unsigned i = 0; i < 4; i++)
        say(conn(&w.local, 0), zeros);
    say(conn(&w.local, 0), "!");
    ok(has(c, "0!"), "and comes whole");
    (void)asked(&w, c, GET("/apis"));
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < 5; i++) {
        say(conn(&w.local, 0), "10000\r\n");
        say(conn(&w.local, 0), zeros);
        say(conn(&w.local, 0), "\r\n");
    }
    say(conn(&w.local, 0), "0\r\n\r\n");
    ok(has(c, "\r\n0\r\n\r\n") && buf_len(&c->got) > 5 * (sizeof(zeros) - 1),
       "what turns out to be too long is let go");
    is_u64(w.local.n_conns, 1, "all on one connection");
    proxy_kit_close(&w);
}

/* The local server starts; a peer that is asked in its place breaks off in the body; then the local server is. */
static void peer_breaks_off(const char *begun, const char *answer, const char *want)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    w.cluster->local_state = READINESS_STARTING;
    c = client(&w);
    say(c, GET("/apis"));
    ok(has(conn(&w.peers[0], 0), "GET /apis "), "a peer is asked");
    say(conn(&w.peers[0], 0), "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    say(conn(&w.peers[0], 0), begun);
    proxy_kit_settle(&w);
    hang_up(conn(&w.peers[0], 0), STREAM_CLOSE_ABORT);
    ok(has(conn(&w.local, 0), "GET /apis "), "it breaks off: then the local server");
    say(conn(&w.local, 0), answer);
    ok(has(c, want) && !got(c, "of the peer"), "whose answer alone counts");
    ok(!got(c, "Served-By"), "and is called its own");
    proxy_kit_close(&w);
}

/* As of any request that a peer answers. */
static void peer_is_named(void)
{
    char *logged = NULL;
    size_t n = 0;
    FILE *log = open_memstream(&logged, &n);
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.opts.legacy_discovery = w.opts.access_log.rerouted = w.cluster->fails_over = true;
    w.cluster->local_state = READINESS_STARTING;
    w.peer_host = "cp-b";
    proxy_kit_start(&w);
    log_set_stream(log);
    c = client(&w);
    say(c, GET("/apis"));
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    say_ok(conn(&w.peers[0], 0), NO_GROUPS);
    ok(has(c, ALL_GROUPS) && got(c, "Served-By: apiserver-b"), "a peer's answer is completed as well");
    proxy_kit_settle(&w);
    log_set_stream(stderr);
    (void)fclose(log);
    ok(strstr(logged, "\"Request\"") != NULL && strstr(logged, "peer=\"cp-b\"") != NULL, "it is logged by its host");
    ok(strstr(logged, "auditID=\"of-the-server\"") != NULL, "and with the Audit-Id that its answer has: %s", logged);
    free(logged);
    proxy_kit_close(&w);
}

/*
 * The local server is away, and a peer that is asked in its place lacks what it had: 503 where nobody else has it, and
 * otherwise what is known of who has.
 */
static void peer_lacks(void)
{
    static const struct {
        const char *request;
        size_t without;     /* of two peers */
        const char *answer; /* NULL: 404 */
        const char *want;
    } rows[] = {
        {GET("/apis/batch/v1"), 2, NULL, "HTTP/1.1 503 "},
        {GET("/apis/batch"), 2, NULL, "HTTP/1.1 503 "},
        {"HEAD /apis/batch/v1 HTTP/1.1\r\nHost: k\r\n\r\n", 2, NULL, "HTTP/1.1 503 "},
        {GET("/apis"), 2, NO_GROUPS, ALL_GROUPS},
        {GET("/apis/batch/v1"), 1, NULL, "\"resources\":[{\"name\":\"jobs\","},
        {GET("/apis/batch"), 1, NULL, BATCH_ALONE},
        {GET("/apis/other/v1"), 1, NULL, "HTTP/1.1 404 "},
    };
    static const char *const when[] = {"before", "when it breaks off", "when it says that it stops"};

    for (size_t i = 0; i < ROWS(rows); i++) {
        for (unsigned fails = 0; fails < ROWS(when); fails++) {
            struct played_end *c, *peer;
            struct proxy_kit w;

            if (fails == 2 && strncmp(rows[i].request, "HEAD", 4) == 0)
                continue; /* its answer has no body that could say so */
            proxy_kit_init(&w, 2);
            w.opts.legacy_discovery = w.cluster->fails_over = w.local_has_jobs = true;
            w.peers_without_jobs = rows[i].without;
            w.cluster->local_state = fails ? READINESS_READY : READINESS_UNREACHABLE;
            proxy_kit_start(&w);
            c = client(&w);
            say(c, rows[i].request);
            if (fails > 0)
                (void)has(conn(&w.local, 0), "\r\n\r\n");
            if (fails == 1) {
                w.local.refuse = true;
                hang_up(conn(&w.local, 0), STREAM_CLOSE_ABORT);
            } else if (fails == 2) {
                say(conn(&w.local, 0), STOPS);
            }
            ok(until(&w, w.peers[0].n_conns + w.peers[1].n_conns > 0), "%.20s: a peer is asked", rows[i].request);
            peer = conn(&w.peers[w.peers[0].n_conns == 0], 0);
            (void)has(peer, "\r\n\r\n");
            if (rows[i].answer == NULL)
                say(peer, NOT_FOUND);
            else
                say_ok(peer, rows[i].answer);
            ok(has(c, rows[i].want), "row %zu, failed over %s", i, when[fails]);
            proxy_kit_close(&w);
        }
    }
}

/* legacy-discovery: off. What the server says goes on as it is, and nothing is read again for it. */
static void switched_off(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.cluster->fails_over = w.local_has_jobs = true;
    proxy_kit_start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/apis/batch/v1"));
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "lost"), "switched off: the server's 404 at once");
    proxy_kit_close(&w);
}

/* A document is not completed with what is not known yet. */
static void before_peers_are_read(void)
{
    static const char *const requests[] = {GET("/apis"), GET("/apis/batch"), GET("/apis/batch/v1"), GET("/api/v1"),
                                           GET("/openapi/v3")};

    for (size_t i = 0; i < ROWS(requests); i++) {
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, 1);
        w.opts.legacy_discovery = w.cluster->unread_peers = true;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, requests[i]);
        ok(has(c, "HTTP/1.1 503 "), "%.20s: while a peer has not been read", requests[i]);
        proxy_kit_close(&w);
    }
}

/* All of the answer is there, and waits for its share of a turn. */
static void leaves_before_it_is_completed(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/apis"));
    say_ok(conn(&w.local, 0), NO_GROUPS);
    hang_up(c, STREAM_CLOSE_ABORT);
    proxy_kit_settle(&w);
    ok(!got(c, "HTTP/1.1"), "a client that is gone by then is answered nothing");
    proxy_kit_close(&w);
}

/* They could not be kept until the answer is completed: it goes on as it came. */
static void with_trailers(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/apis"));
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-End: y\r\n\r\n");
    ok(has(c, "2\r\n{}\r\n") && has(c, "X-End: y\r\n"), "an answer with trailers");
    proxy_kit_close(&w);
}

/* A 404 for what a peer has is never passed on, whatever comes with it: nothing of it is needed. */
static void false_404(void)
{
    static char zeros[LIMIT_HEALED_BYTES / 4 + 1];
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    memset(zeros, '0', sizeof(zeros) - 1);
    c = client(&w);
    (void)asked(&w, c, GET("/apis/batch"));
    say(conn(&w.local, 0),
        "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-End: y\r\n\r\n");
    ok(has(c, BATCH_ALONE) && !got(c, "X-End"), "a 404 with trailers is completed");
    (void)asked(&w, c, GET("/apis/batch"));
    say(conn(&w.local, 0), "HTTP/1.1 404 Not Found\r\nContent-Length: 262145\r\n\r\n");
    for (unsigned i = 0; i < 4; i++)
        say(conn(&w.local, 0), zeros);
    say(conn(&w.local, 0), "!");
    ok(has(c, BATCH_ALONE), "one that says that it is long");
    (void)asked(&w, c, GET("/apis/batch"));
    say(conn(&w.local, 0), "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (unsigned i = 0; i < 5; i++) {
        say(conn(&w.local, 0), "10000\r\n");
        say(conn(&w.local, 0), zeros);
        say(conn(&w.local, 0), "\r\n");
    }
    say(conn(&w.local, 0), "0\r\n\r\n");
    ok(has(c, BATCH_ALONE) && !got(c, "HTTP/1.1 404 "), "and one that turns out to be");
    proxy_kit_close(&w);
}

/* One allocation fails from the server's 404 on: then it is 503. */
static void without_memory(const char *request, bool long_body)
{
    enum { ALLOCATIONS = 16 };
    unsigned refused = 0, answered = 0;

    for (uint64_t nth = 1; nth <= ALLOCATIONS; nth++) {
        struct proxy_kit w;
        struct played_end *c;

        start(&w);
        w.short_of_memory = true;
        c = client(&w);
        (void)asked(&w, c, request);
        mem_fail_nth(nth);
        say(conn(&w.local, 0),
            long_body ? "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n" : NOT_FOUND);
        proxy_kit_settle(&w);
        if (long_body)
            say(conn(&w.local, 0), "0\r\n\r\n");
        (void)until(&w, c->eof || c->failed || got(c, "\r\n\r\n"));
        mem_fail_nth(0);
        refused += got(c, "HTTP/1.1 503 ");
        answered += got(c, "HTTP/1.1 200 ");
        ok(!got(c, "HTTP/1.1 404 "), "%.20s, allocation %u: no 404", request, (unsigned)nth);
        proxy_kit_close(&w);
    }
    ok(refused > 0 && answered > 0, "%.20s: %u times 503, %u times 200", request, refused, answered);
}

/* Nor is a peer asked in its place, which serves something else: that no document completes. */
static void switched_off_and_away(void)
{
    static const struct {
        const char *request;
        bool peer_asked;
    } rows[] = {
        {GET("/apis"), false},          {GET("/apis/batch"), false}, {GET("/apis/batch/v1"), false},
        {GET("/apis/other/v1"), false}, {GET("/api/v1"), false},     {GET("/openapi/v3"), true},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, 1);
        w.cluster->fails_over = w.local_has_jobs = w.local.refuse = true;
        w.cluster->local_state = READINESS_UNREACHABLE;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, rows[i].request);
        if (rows[i].peer_asked)
            ok(has(conn(&w.peers[0], 0), "\r\n\r\n"), "%.20s: a peer is asked", rows[i].request);
        else
            ok(has(c, "HTTP/1.1 503 ") && w.peers[0].n_conns == 0, "%.20s: 503, and no peer is asked", rows[i].request);
        proxy_kit_close(&w);
    }
}

/* A request has waited at the local server since nobody was known to have it: what is known by now counts. */
static void known_meanwhile(const char *request, size_t without, bool behind, const char *want)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    w.peers_without_jobs = w.n_peers;
    proxy_kit_know(&w);
    c = client(&w);
    (void)asked(&w, c, request);
    w.peers_without_jobs = without;
    w.behind = behind;
    proxy_kit_know(&w);
    buf_reset(&conn(&w.local, 0)->got);
    say(conn(&w.local, 0), NOT_FOUND);
    if (behind || without < w.n_peers) {
        ok(has(conn(&w.local, 0), "\r\n\r\n"), "%.20s: by now somebody has it, or may: asked again", request);
        say(conn(&w.local, 0), NOT_FOUND);
    }
    ok(has(c, want), "and then: %s", want);
    proxy_kit_close(&w);
}

/* Discovery said that the local server has it, and it says 404: that is looked at before anybody is told so. */
static void local_denies(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    w.local_has_jobs = true;
    proxy_kit_know(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/apis/batch/v1"));
    say(conn(&w.local, 0), NOT_FOUND);
    ok(until(&w, proxy_kit_waiting(&w)), "a 404 for what is in its discovery: that is read again");
    w.local_has_jobs = false;
    proxy_kit_know(&w);
    buf_reset(&conn(&w.local, 0)->got);
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.local, 0), "Accept: application/json\r\n"), "and the server asked again");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 200 ") && has(c, "\"name\":\"jobs\""), "whose answer is completed now");
    w.local_has_jobs = true;
    proxy_kit_know(&w);
    (void)asked(&w, c, GET("/apis/batch"));
    say(conn(&w.local, 0), NOT_FOUND);
    (void)until(&w, proxy_kit_waiting(&w));
    buf_reset(&conn(&w.local, 0)->got);
    proxy_kit_refreshed(&w);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "lost"), "where discovery still has it the answer counts");
    w.jobs_excluded = true;
    proxy_kit_know(&w);
    (void)asked(&w, c, GET("/apis/batch/v1"));
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "lost"), "and for a CRD's, which come and go");
    proxy_kit_close(&w);
}

/* Somebody denies what the local server is known to serve, and its discovery cannot be read again. */
static void drifted_unread(void)
{
    static const struct {
        size_t n_peers;
        bool pending; /* what they serve was not read yet */
        const char *accept, *want, *what;
    } rows[] = {
        {1, false, "application/json", "\"name\":\"jobs\"", "a peer has it: completed"},
        {1, false, "application/cbor", "HTTP/1.1 503 ", "a form that is not completed: 503"},
        {1, true, "application/json", "HTTP/1.1 503 ", "a peer may have it: 503"},
        {0, false, "application/json", "lost", "nobody else has it: the 404 counts"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        char request[200];
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, rows[i].n_peers);
        w.opts.legacy_discovery = w.local_has_jobs = w.cluster->unread_local = true;
        w.peers_pending = rows[i].pending;
        w.peers_without_jobs = rows[i].pending;
        proxy_kit_start(&w);
        c = client(&w);
        (void)snprintf(request, sizeof(request), "GET /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: %s\r\n\r\n",
                       rows[i].accept);
        (void)asked(&w, c, request);
        say(conn(&w.local, 0), NOT_FOUND);
        ok(until(&w, proxy_kit_waiting(&w)), "a 404 for what is in its discovery: that is to be read again");
        buf_reset(&conn(&w.local, 0)->got);
        proxy_kit_refreshed(&w);
        ok(has(conn(&w.local, 0), "\r\n\r\n"), "in vain: the server is asked again");
        say(conn(&w.local, 0), NOT_FOUND);
        ok(has(c, rows[i].want), "%s", rows[i].what);
        ok(rows[i].n_peers == 0 || !got(c, "HTTP/1.1 404 "), "no 404 where others may have it");
        proxy_kit_close(&w);
    }
}

/* What is decided anew may be asked of anybody: who failed before is there by now. */
static void asked_anew(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    w.cluster->local_state = READINESS_STARTING;
    w.local_has_jobs = w.peers[0].refuse = true;
    proxy_kit_know(&w);
    c = client(&w);
    say(c, GET("/apis/batch/v1"));
    ok(has(conn(&w.local, 0), "\r\n\r\n"), "the peer fails: the local server is asked after all");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(until(&w, proxy_kit_waiting(&w)), "a 404 for what is in its discovery: that is read again");
    w.peers[0].refuse = false;
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.peers[0], 0), "GET /apis/batch/v1 ") && has(conn(&w.peers[0], 0), "\r\n\r\n"),
       "then the peer is asked first again");
    say_ok(conn(&w.peers[0], 0), "{\"resources\":[]}");
    ok(has(c, "HTTP/1.1 200 ") && has(c, "\"name\":\"jobs\""), "and its answer completed");
    proxy_kit_close(&w);
}

#define SPEC(path, hash) "\"" path "\":{\"serverRelativeURL\":\"/openapi/v3/" path "?hash=" hash "\"}"

static void schemas(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_schemas = "{\"paths\":{" SPEC("api/v1", "A1") "}}";
    w.peer_schemas = "{\"paths\":{" SPEC("api/v1", "B1") "," SPEC("apis/batch/v1", "B2") "}}";
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET /openapi/v3 HTTP/1.1\r\nHost: k\r\nRange: bytes=0-1\r\nIf-Modified-Since: x\r\nAccept: */*\r\n\r\n");
    ok(has(conn(&w.local, 0), "GET /openapi/v3 ") && has(conn(&w.local, 0), "\r\n\r\n"), "the index of schemas");
    ok(!got(&w.local.conns[0], "Range: ") && !got(&w.local.conns[0], "If-Modified-Since"), "is asked for whole");
    say_ok(conn(&w.local, 0), "{\"paths\":{" SPEC("api/v1", "A1") "}}");
    ok(has(c, "{\"paths\":{" SPEC("api/v1", "A1") "," SPEC("apis/batch/v1", "B2") "}}"), "is completed");
    ok(got(c, "ETag: \"") && !got(c, "\"own\""), "with a tag of its own");
    (void)asked(&w, c, GET("/openapi/v3"));
    say_ok(conn(&w.local, 0), "{\"paths\":{" SPEC("api/v1", "A2") "}}");
    ok(has(c, SPEC("api/v1", "A2")), "what the server says now counts, not what it said");
    (void)asked(&w, c, GET("/openapi/v3"));
    say_ok(conn(&w.local, 0), "no index");
    ok(has(c, "no index") && got(c, "\"own\""), "what is no index is relayed");
    proxy_kit_close(&w);
}

/* Where schemas of a version lack resources those of who has all of them are named, if he is there. */
static void schemas_that_lack(bool has_all, bool lapsed)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_has_jobs = has_all;
    w.peers_lapsed = lapsed;
    w.local_schemas = "{\"paths\":{" SPEC("apis/batch/v1", "A1") "}}";
    w.peer_schemas = "{\"paths\":{" SPEC("apis/batch/v1", "B1") "," SPEC("apis/batch/v2", "B2") "}}";
    proxy_kit_start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/openapi/v3"));
    say_ok(conn(&w.local, 0), "{\"paths\":{" SPEC("apis/batch/v1", "A1") "}}");
    ok(has(c, SPEC("apis/batch/v2", "B2")), "what the local server has not is added, %d %d", has_all, lapsed);
    ok(got(c, has_all || lapsed ? SPEC("apis/batch/v1", "A1") : SPEC("apis/batch/v1", "B1")), "what it has, %d %d",
       has_all, lapsed);
    proxy_kit_close(&w);
}

/* The same as the document that the client has is not sent again. */
static void schemas_not_modified(void)
{
    char request[400];
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_schemas = "{\"paths\":{" SPEC("api/v1", "A1") "}}";
    w.peer_schemas = "{\"paths\":{" SPEC("apis/batch/v1", "B2") "}}";
    proxy_kit_start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/openapi/v3"));
    say_ok(conn(&w.local, 0), "{\"paths\":{" SPEC("api/v1", "A1") "}}");
    (void)has(c, "}}}");
    (void)snprintf(request, sizeof(request), "GET /openapi/v3 HTTP/1.1\r\nHost: k\r\nIf-None-Match: %.130s\r\n\r\n",
                   (const char *)memmem(buf_slice(&c->got).p, buf_len(&c->got), "ETag: ", 6) + 6);
    (void)asked(&w, c, request);
    say_ok(conn(&w.local, 0), "{\"paths\":{" SPEC("api/v1", "A1") "}}");
    ok(has(c, "HTTP/1.1 304 ") && has(c, "\r\n\r\n") && !got(c, "paths"), "what the client has");
    proxy_kit_close(&w);
}

/* Who there is at all is not known yet. */
static void before_leases_are_read(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 0);
    w.opts.legacy_discovery = w.unread_leases = true;
    proxy_kit_start(&w);
    c = client(&w);
    (void)asked(&w, c, GET("/apis/batch"));
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 503 "), "a 404 is not believed before the Leases have been read");
    proxy_kit_close(&w);
}

/*
 * What the server's head is made of goes with the request to it, before the answer is completed: what is allocated
 * meanwhile would stand in its place.
 */
static void long_head(void)
{
    static char padding[9000];
    unsigned n = 0, fields = 0;
    struct buf answer;
    struct proxy_kit w;
    struct played_end *c;

    buf_init(&answer, 40000);
    for (size_t size = 7000; size < sizeof(padding); size += 100) {
        memset(padding, 'p', size);
        padding[size] = '\0';
        start(&w);
        c = client(&w);
        (void)asked(&w, c, GET("/apis/batch/v1"));
        buf_append_str(&answer, "HTTP/1.1 200 OK\r\n");
        for (unsigned i = 0; i < 80; i++)
            buf_printf(&answer, "X-More-%u: %0*u\r\n", i, 100, i);
        buf_printf(&answer, "Content-Length: %zu\r\n\r\n{\"resources\":[{\"name\":\"mine%s\"}]}", size + 31, padding);
        say_bytes(conn(&w.local, 0), buf_slice(&answer));
        n += has(c, "p\"}]}\n") && got(c, "\"name\":\"jobs\"");
        for (unsigned i = 0; i < 80; i++) {
            char line[200];

            (void)snprintf(line, sizeof(line), "\r\nX-More-%u: %0*u\r\n", i, 100, i);
            fields += got(c, line);
        }
        proxy_kit_close(&w);
        buf_reset(&answer);
    }
    buf_free(&answer);
    is_u64(n, 20, "answers with long heads are completed");
    is_u64(fields, (size_t)n * 80, "with all fields");
}

/* Nothing to add: the local server's own business. */
static void left_alone(void)
{
    struct proxy_kit w;
    struct played_end *c;

    start(&w);
    c = client(&w);
    w.local_has_jobs = true;
    proxy_kit_know(&w);
    say(c, "GET /apis/batch HTTP/1.1\r\nHost: k\r\nAccept: application/yaml\r\nAccept-Encoding: gzip\r\n\r\n");
    ok(has(conn(&w.local, 0), "GET /apis/batch ") && got(&w.local.conns[0], "Accept: application/yaml\r\n") &&
           got(&w.local.conns[0], "gzip"),
       "where servers agree it is the client's own request");
    say_ok(conn(&w.local, 0), "mine");
    ok(has(c, "mine") && got(c, "ETag: \"own\"\r\n"), "and its answer comes as it is");
    proxy_kit_close(&w);
}

int main(void)
{
    static const char *const begun[] = {"", "{\"groups\":[\"of the peer"};

    completed();
    apiservice_deleted();
    alone();
    head();
    relayed();
    for (size_t i = 0; i < ROWS(begun); i++) {
        peer_breaks_off(begun[i], "HTTP/1.1 200 OK\r\nContent-Length: 35\r\n\r\n" NO_GROUPS, ALL_GROUPS);
        peer_breaks_off(begun[i], "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nno JSON!", "no JSON!");
        peer_breaks_off(begun[i], FORBIDDEN, "denied");
    }
    peer_is_named();
    peer_lacks();
    switched_off();
    switched_off_and_away();
    before_peers_are_read();
    leaves_before_it_is_completed();
    with_trailers();
    false_404();
    known_meanwhile(GET("/apis/batch/v1"), 0, false, "\"name\":\"jobs\"");
    known_meanwhile(GET("/apis/batch"), 0, false, BATCH_ALONE);
    known_meanwhile(GET("/apis/batch/v1"), SIZE_MAX, true, "HTTP/1.1 503 ");
    known_meanwhile(GET("/apis/batch/v1"), SIZE_MAX, false, "lost");
    for (unsigned i = 0; i < 2; i++) {
        without_memory(GET("/apis/batch"), i);
        without_memory(GET("/apis/batch/v1"), i);
    }
    local_denies();
    drifted_unread();
    asked_anew();
    schemas();
    schemas_that_lack(false, false);
    schemas_that_lack(true, false);
    schemas_that_lack(false, true);
    schemas_not_modified();
    before_leases_are_read();
    long_head();
    left_alone();
    return tap_end();
}
