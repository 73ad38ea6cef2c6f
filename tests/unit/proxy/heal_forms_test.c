/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy discovery in the forms that clients accept, and the index of schemas in one that no API server has. */
#include <stdio.h>

#include "base/mem.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#define JOBS_V1 "{\"groupVersion\":\"batch/v1\",\"version\":\"v1\"}"
#define ALL_GROUPS "{\"groups\":[{\"name\":\"batch\",\"versions\":[" JOBS_V1 "],\"preferredVersion\":" JOBS_V1 "}]}"
#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nlost"

/* One peer, which alone has batch/v1. The local server has this request of a client, which is returned. */
static struct played_end *start(struct proxy_kit *w, const char *method, const char *path, const char *accept)
{
    char request[200];
    struct played_end *c;

    proxy_kit_init(w, 1);
    w->opts.legacy_discovery = true;
    proxy_kit_start(w);
    c = client(w);
    (void)snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: k\r\nAccept: %s\r\n\r\n", method, path, accept);
    say(c, request);
    (void)has(conn(&w->local, 0), "\r\n\r\n");
    return c;
}

/*
 * In a form that is not completed there is nothing to say of what a peer has: neither that it is not there nor, as it
 * will be no different next time, that the client should come again.
 */
static void other_form(const char *accept, const char *want)
{
    struct proxy_kit w;
    struct played_end *c = start(&w, "GET", "/apis/batch/v1", accept);

    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, want) && !got(c, "Retry-After"), "%s: %s", accept, want);
    proxy_kit_close(&w);
}

/* A body, or the wish for another protocol, is no reason to deny what a peer has. */
static void with_more(void)
{
    static const char *const accepts[] = {"application/json\r\nContent-Length: 2\r\nX: y",
                                          "application/json\r\n"
                                          "Connection: Upgrade\r\nUpgrade: websocket"};

    for (size_t i = 0; i < ROWS(accepts); i++) {
        struct proxy_kit w;
        struct played_end *c = start(&w, "GET", "/apis/batch/v1", accepts[i]);

        if (i == 0)
            say(c, "hm");
        ok(!got(&w.local.conns[0], "Upgrade") && !got(&w.local.conns[0], "Content-Length"), "%zu: asked without", i);
        say(conn(&w.local, 0), NOT_FOUND);
        ok(has(c, "HTTP/1.1 200 ") && has(c, "\"name\":\"jobs\""), "%zu: completed", i);
        ok(!got(&w.local.conns[0], "hm"), "%zu: the body goes nowhere", i);
        proxy_kit_close(&w);
    }
}

/* The server is asked for JSON, and JSON is YAML: so it is called for who takes nothing else, whatever becomes of it.
 */
static void yaml_alone(void)
{
    static const struct {
        const char *method, *head, *body, *want;
    } rows[] = {
        {"GET", "200 OK\r\nContent-Type: application/json", "{\"groups\":[]}", ALL_GROUPS},
        {"GET", "200 OK\r\nContent-Type: application/json", ALL_GROUPS, ALL_GROUPS},
        {"GET", "403 Forbidden\r\nContent-Type: application/json", "{\"code\":403}", "{\"code\":403}"},
        {"HEAD", "200 OK\r\nContent-Type: application/json", ALL_GROUPS, "\r\n\r\n"},
        {"GET", "500 Lost\r\nContent-Type: text/plain", "away", "away"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        bool json = strstr(rows[i].head, "json") != NULL;
        char answer[400];
        struct proxy_kit w;
        struct played_end *c = start(&w, rows[i].method, "/apis", "application/yaml");

        (void)snprintf(answer, sizeof(answer), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", rows[i].head,
                       strlen(rows[i].body), rows[i].body);
        say(conn(&w.local, 0), answer);
        ok(has(c, rows[i].want) && !got(c, "application/json") && got(c, "Content-Type: application/yaml\r\n") == json,
           "%s, %s: in a form that is accepted", rows[i].method, rows[i].head);
        proxy_kit_close(&w);
    }
}

#define PROTOBUF "application/vnd.kubernetes.protobuf"
#define GROUP_LIST "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":["
#define FORBIDDEN "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"reason\":\"Forbidden\",\"code\":403}"

static void answer_with(struct proxy_kit *w, const char *head, const char *body)
{
    char answer[500];

    (void)snprintf(answer, sizeof(answer), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s", head, strlen(body), body);
    say(conn(&w->local, 0), answer);
}

static bool has_bytes(struct played_end *c, struct slice bytes)
{
    return until(c->w,
                 buf_len(&c->got) > 0 && memmem(buf_slice(&c->got).p, buf_len(&c->got), bytes.p, bytes.n) != NULL);
}

/* The server is asked for JSON, and its answer, completed, is written as protobuf for who rather takes that. */
static void protobuf(void)
{
#define JOBS_GROUP                                                                                                     \
    "\x0a\x05"                                                                                                         \
    "batch\x12\x0e\x0a\x08"                                                                                            \
    "batch/v1\x12\x02v1\x1a\x0e\x0a\x08"                                                                               \
    "batch/v1\x12\x02v1"
#define TYPE(n, kind) "k8s\0\x0a" n "\x0a\x02v1\x12" kind
    static const struct {
        const char *method, *path, *head, *body;
        struct slice want;
        const char *form, *what;
    } rows[] = {
        {"GET", "/apis", "200 OK\r\nContent-Type: application/json", GROUP_LIST "]}",
         SLICE_LIT(TYPE("\x12", "\x0c"
                                "APIGroupList") "\x12\x29\x0a\x27" JOBS_GROUP "\x1a\0\x22\0"),
         PROTOBUF, "what a peer has"},
        {"GET", "/apis", "200 OK\r\nContent-Type: application/json",
         GROUP_LIST "{\"name\":\"batch\",\"versions\":[" JOBS_V1 "],\"preferredVersion\":" JOBS_V1 "}]}",
         SLICE_LIT(TYPE("\x12", "\x0c"
                                "APIGroupList") "\x12\x29\x0a\x27" JOBS_GROUP "\x1a\0\x22\0"),
         PROTOBUF, "nothing is added"},
        {"GET", "/apis/batch", "404 Not Found\r\nContent-Type: text/plain", "404 page not found",
         SLICE_LIT("HTTP/1.1 200 "), PROTOBUF, "a group that only a peer has"},
        {"GET", "/apis/batch", "404 Not Found\r\nContent-Type: text/plain", "404 page not found",
         SLICE_LIT(TYPE("\x0e", "\x08"
                                "APIGroup") "\x12\x27" JOBS_GROUP "\x1a\0\x22\0"),
         PROTOBUF, "the group's bytes"},
        {"GET", "/apis", "403 Forbidden\r\nX-Content-Type-Options: nosniff\r\nContent-Type: application/json",
         FORBIDDEN,
         SLICE_LIT(TYPE("\x0c", "\x06"
                                "Status") "\x12\x1a\x0a\x06\x0a\0\x12\0\x1a\0\x12\0\x1a\0\"\x09"
                                          "Forbidden\x30\x93\x03\x1a\0\x22\0"),
         PROTOBUF, "an error"},
        {"GET", "/apis", "403 Forbidden\r\nX-Content-Type-Options: nosniff\r\nContent-Type: application/json",
         FORBIDDEN, SLICE_LIT("X-Content-Type-Options: nosniff\r\n"), PROTOBUF, "an error's fields"},
        {"GET", "/apis", "403 Forbidden\r\nContent-Type: application/json", FORBIDDEN, SLICE_LIT("HTTP/1.1 403 "),
         PROTOBUF, "an error's status"},
        {"HEAD", "/apis", "200 OK\r\nContent-Type: application/json", GROUP_LIST "]}",
         SLICE_LIT("Content-Length: 71\r\n"), PROTOBUF, "the fields alone"},
        {"GET", "/apis", "500 Lost\r\nContent-Type: text/plain", "away", SLICE_LIT("away"), "text/plain",
         "an error that is no JSON"},
        {"GET", "/apis", "500 Lost\r\nContent-Type: application/json", "{\"code\":500}", SLICE_LIT("{\"code\":500}"),
         "application/json", "an error that is no Status"},
        {"GET", "/apis", "200 OK\r\nContent-Type: application/json", "no JSON", SLICE_LIT("no JSON"),
         "application/json", "what cannot be completed"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        static const char *const accepts[] = {PROTOBUF, PROTOBUF ", */*"};

        for (size_t k = 0; k < ROWS(accepts); k++) {
            char form[100];
            struct proxy_kit w;
            struct played_end *c = start(&w, rows[i].method, rows[i].path, accepts[k]);

            (void)snprintf(form, sizeof(form), "Content-Type: %s\r\n", rows[i].form);
            ok(got(conn(&w.local, 0), "Accept: application/json\r\n"), "the server is asked for JSON");
            answer_with(&w, rows[i].head, rows[i].body);
            ok(has_bytes(c, rows[i].want) && got(c, form), "%s, %s: %s", accepts[k], rows[i].path, rows[i].what);
            proxy_kit_close(&w);
        }
    }
}

/* Neither the local truth nor a 404 for want of memory. */
static void protobuf_without_memory(void)
{
    enum { ALLOCATIONS = 60 };
    unsigned refused = 0, answered = 0;

    for (uint64_t n = 1; n < ALLOCATIONS; n++) {
        struct proxy_kit w;
        struct played_end *c = start(&w, "GET", "/apis/batch", PROTOBUF);

        w.short_of_memory = true;
        mem_fail_nth(n);
        say(conn(&w.local, 0), NOT_FOUND);
        (void)until(&w, got(c, "\r\n\r\n") || c->eof || c->failed);
        mem_fail_nth(0);
        refused += got(c, "HTTP/1.1 503 ");
        answered += got(c, "HTTP/1.1 200 ");
        ok(!got(c, "HTTP/1.1 404 ") && !got(c, "json\r\n") == !got(c, "HTTP/1.1 503 "), "without allocation %u",
           (unsigned)n);
        proxy_kit_close(&w);
    }
    ok(refused > 5 && answered > 5, "%u times 503, %u times 200", refused, answered);
}

/* A server before 1.27 has no singular names: that is nothing to complete, so the request goes through as it came. */
static void unnamed(void)
{
    for (unsigned i = PROXY_KIT_JOB; i <= PROXY_KIT_JAB; i++) {
        struct proxy_kit w;

        proxy_kit_init(&w, 1);
        w.opts.legacy_discovery = w.local_has_jobs = true;
        w.local_singular = i;
        proxy_kit_start(&w);
        say(client(&w), "GET /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json, x/y\r\n\r\n");
        ok(has(conn(&w.local, 0), "\r\n\r\n") &&
               got(conn(&w.local, 0), "Accept: application/json, x/y\r\n") == (i != PROXY_KIT_JAB),
           "%s", i == PROXY_KIT_JAB ? "another singular name: to be completed" : "the same, or none: untouched");
        proxy_kit_close(&w);
    }
}

/*
 * With trailers it goes on as it came, if it may wait for the client at once. So may all that is held of an answer that
 * does not say how long it is: exactly that much has not been let go before its end.
 */
static void held_with_trailers(void)
{
    enum { PIECES = 32 };
    static char piece[64 << 10];
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_schemas = "{\"paths\":{}}";
    w.peer_schemas = "{\"paths\":{\"apis/batch/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/batch/v1?hash=B\"}}}";
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET /openapi/v3 HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    memset(piece, ' ', sizeof(piece));
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n");
    for (unsigned i = 0; i < PIECES; i++) {
        say_bytes(conn(&w.local, 0), slice_of(piece, sizeof(piece)));
        proxy_kit_settle(&w);
    }
    ok(!got(c, "HTTP/1.1 "), "an index of 2 MiB, all of which is held");
    say(conn(&w.local, 0), "\r\n0\r\nX-End: y\r\n\r\n");
    ok(has(c, "X-End: y\r\n") && c->n_got > sizeof(piece) * PIECES, "keeps its trailers");
    proxy_kit_close(&w);
}

/* The same for a client that wants the head alone: no piece of the body, nor its trailers, follows. */
static void let_go_for_head(bool trailers)
{
    enum { PIECES = 33 };
    static char piece[64 << 10];
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.opts.legacy_discovery = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "HEAD /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n");
    ok(has(conn(&w.local, 0), "GET /apis/batch/v1 ") && has(conn(&w.local, 0), "\r\n\r\n"), "asked for with GET");
    memset(piece, ' ', sizeof(piece));
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n");
    if (trailers)
        say(conn(&w.local, 0), "2\r\n{}\r\n0\r\nX-End: y\r\n\r\n");
    else
        say(conn(&w.local, 0), "210000\r\n");
    for (unsigned i = 0; i < PIECES && !trailers; i++) {
        say_bytes(conn(&w.local, 0), slice_of(piece, sizeof(piece)));
        proxy_kit_settle(&w);
    }
    ok(has(c, "HTTP/1.1 200 ") && has(c, "X-A: b\r\n") && has(c, "\r\n\r\n"), "trailers %d: the head", trailers);
    buf_reset(&c->got);
    say(c, "GET " PODS " HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)until(&w, (w.local.n_conns > 1 && got(&w.local.conns[1], "\r\n\r\n")) || got(&w.local.conns[0], PODS));
    say(&w.local.conns[w.local.n_conns - 1], "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    ok(has(c, "\r\n\r\nok") && !got(c, "X-End") && !got(c, "  "), "trailers %d: and nothing more", trailers);
    proxy_kit_close(&w);
}

int main(void)
{
    other_form("application/json", "\"name\":\"jobs\"");
    other_form("application/yaml", "Content-Type: application/yaml\r\n");
    other_form("application/vnd.kubernetes.protobuf", "Content-Type: application/vnd.kubernetes.protobuf\r\n");
    other_form("application/vnd.kubernetes.protobuf, */*", "Content-Type: application/vnd.kubernetes.protobuf\r\n");
    other_form("application/json, application/vnd.kubernetes.protobuf", "Content-Type: application/json\r\n");
    other_form("application/cbor", "HTTP/1.1 406 ");
    other_form("text/html", "HTTP/1.1 406 ");
    with_more();
    yaml_alone();
    unnamed();
    protobuf();
    protobuf_without_memory();
    held_with_trailers();
    let_go_for_head(true);
    let_go_for_head(false);
    return tap_end();
}
