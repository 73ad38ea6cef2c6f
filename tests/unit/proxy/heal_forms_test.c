/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy discovery in the forms that clients accept, and the index of schemas in one that no API server has. */
#include <stdio.h>

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

int main(void)
{
    other_form("application/json", "\"name\":\"jobs\"");
    other_form("application/yaml", "Content-Type: application/yaml\r\n");
    other_form("application/vnd.kubernetes.protobuf", "HTTP/1.1 406 ");
    other_form("application/cbor", "HTTP/1.1 406 ");
    other_form("text/html", "HTTP/1.1 406 ");
    yaml_alone();
    held_with_trailers();
    return tap_end();
}
