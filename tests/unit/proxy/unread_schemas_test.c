/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of servers whose index is not known: neither they nor their paths are "not found". */
#include <stdio.h>

#include "unit/proxy/kit.h"

#define SPEC(path, hash) "\"" path "\":{\"serverRelativeURL\":\"/openapi/v3/" path hash "\"}"
#define OWN "{\"paths\":{" SPEC("api/v1", "?hash=A1") "}}"
#define JOBS_SCHEMA "/openapi/v3/apis/batch/v1"
#define GET(path) "GET " path " HTTP/1.1\r\nHost: k\r\n\r\n"
#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nlost"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static struct played_end *start(struct proxy_kit *w)
{
    w->local_schemas = OWN;
    proxy_kit_start(w);
    return client(w);
}

/* Of a peer another process is there, whose index is not known; its discovery is. */
static struct played_end *start_replaced(struct proxy_kit *w)
{
    proxy_kit_init(w, 1);
    w->last_schemas = "{\"paths\":{" SPEC("apis/batch/v1", "?hash=B1") "}}";
    return start(w);
}

/* The index, as the client gets it. */
static struct played_end *index_of(struct proxy_kit *w, struct played_end *c)
{
    char answer[300];

    buf_reset(&c->got);
    say(c, GET("/openapi/v3"));
    (void)has(conn(&w->local, 0), "\r\n\r\n");
    (void)snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n" OWN, strlen(OWN));
    say(conn(&w->local, 0), answer);
    (void)has(c, "}}}");
    return c;
}

static void refused(struct proxy_kit *w, struct played_end *c, const char *request, const char *what)
{
    buf_reset(&c->got);
    say(c, request);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: ") && w->local.n_conns == 0, "%s", what);
}

static void about_to_be_read(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.schemas_pending = true;
    c = start(&w);
    refused(&w, c, GET("/openapi/v3"), "there is no index without what comes any moment");
    proxy_kit_close(&w);
    proxy_kit_init(&w, 1);
    w.unread_leases = w.cluster->unread_peers = true;
    c = start(&w);
    refused(&w, c, GET("/openapi/v3"), "nor before it is known who there is");
    proxy_kit_close(&w);
    proxy_kit_init(&w, 1);
    w.unread_leases = true;
    c = start(&w);
    ok(got(index_of(&w, c), SPEC("api/v1", "?hash=A1")), "there is one where that will never be known");
    proxy_kit_close(&w);
    proxy_kit_init(&w, 1);
    w.unread_leases = true;
    c = start(&w);
    refused(&w, c, GET("/openapi/v3/apis/nobody.io/v1"), "nor is a schema not found then");
    proxy_kit_close(&w);
}

/* Its index is not known: its discovery says that there is a schema. */
static void of_who_lists_it(void)
{
    struct proxy_kit w;
    struct played_end *c = start_replaced(&w);

    ok(got(index_of(&w, c), SPEC("apis/batch/v1", "?hash=B1")), "the index has what its last process had");
    say(c, GET(JOBS_SCHEMA "?hash=B1"));
    ok(has(conn(&w.peers[0], 0), "GET " JOBS_SCHEMA "?hash=B1"), "a schema is asked of who lists the version");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "who has it");
    w.cluster->local_state = READINESS_UNREACHABLE;
    w.cluster->fails_over = true;
    buf_reset(&conn(&w.peers[0], 0)->got);
    say(c, GET(JOBS_SCHEMA));
    ok(has(conn(&w.peers[0], 0), "GET " JOBS_SCHEMA), "also while the local server is away");
    proxy_kit_close(&w);
}

/* Two have it. The index of one is known, and so that it is there; the other one only lists the version. */
static void of_whose_index_is_known(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 2);
    w.peer_schemas = "{\"paths\":{" SPEC("apis/batch/v1", "?hash=B1") "}}";
    w.without_schemas = 1;
    c = start(&w);
    for (unsigned i = 0; i < 10; i++) {
        buf_reset(&c->got);
        say(c, GET(JOBS_SCHEMA));
        if (!has(conn(&w.peers[1], 0), "GET " JOBS_SCHEMA))
            break;
        buf_reset(&conn(&w.peers[1], 0)->got);
        say(conn(&w.peers[1], 0), OK_ANSWER);
        (void)has(c, "\r\n\r\nok");
    }
    is_u64(w.peers[0].n_conns, 0, "who is known to have it is asked");
    proxy_kit_close(&w);
}

/* It had the schema before, and its discovery lists the version: that it is not there may be of a moment. */
static void denied(void)
{
    struct proxy_kit w;
    struct played_end *c = start_replaced(&w);

    say(c, GET(JOBS_SCHEMA));
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    say(conn(&w.peers[0], 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 503 "), "its 404 is not believed");
    proxy_kit_close(&w);
}

static void of_a_local_server_without_index(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.peer_schemas = "{\"paths\":{" SPEC("apis/batch/v1", "?hash=B1") "}}";
    proxy_kit_start(&w);
    c = client(&w);
    ok(got(index_of(&w, c), SPEC("apis/batch/v1", "?hash=B1")), "what it answers is completed");
    buf_reset(&conn(&w.local, 0)->got);
    say(c, GET("/openapi/v3/apis/nobody.io/v1"));
    ok(has(conn(&w.local, 0), "nobody.io"), "what nobody has is asked of it");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "lost"), "who says so");
    proxy_kit_close(&w);
}

/* Of somebody nothing was ever read, and a stored APIService names what may be his. */
static void of_nobody_known(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.jobs_undiscovered = true;
    w.peers_without_jobs = 1;
    c = start(&w);
    refused(&w, c, GET(JOBS_SCHEMA), "its schema is not \"not found\"");
    ok(got(index_of(&w, c), SPEC("apis/batch/v1", "")), "and the index has its path");
    proxy_kit_close(&w);
}

/* A peer answers in its place, whose index lacks what only it has. */
static void of_a_local_server_that_is_away(void)
{
    static const char peers[] = "{\"paths\":{" SPEC("apis/batch/v1", "?hash=B1") "}}";
    char answer[300];
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.peer_schemas = peers;
    w.cluster->local_state = READINESS_UNREACHABLE;
    w.cluster->fails_over = true;
    c = start(&w);
    say(c, GET("/openapi/v3"));
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    (void)snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(peers), peers);
    say(conn(&w.peers[0], 0), answer);
    ok(has(c, SPEC("apis/batch/v1", "?hash=B1")), "a peer's index");
    ok(got(c, SPEC("api/v1", "?hash=A1")), "is completed with what the local server had");
    proxy_kit_close(&w);
}

int main(void)
{
    about_to_be_read();
    of_who_lists_it();
    of_whose_index_is_known();
    denied();
    of_a_local_server_without_index();
    of_nobody_known();
    of_a_local_server_that_is_away();
    return tap_end();
}
