/* SPDX-License-Identifier: Apache-2.0 */
/* A server answers that it does not know what we believe it serves: it has come back serving less. */
#include "base/limits.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#include <stdio.h>

#define NOT_FOUND                                                                                                      \
    "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n404 page not "     \
    "found\n"
#define NOT_FOUND_HEAD "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n"
#define HEAD(status, type, length) "HTTP/1.1 " status "\r\nContent-Type: " type "\r\nContent-Length: " length "\r\n\r\n"
#define UNKNOWN "\"the server could not find the requested resource\""
#define UNKNOWN_404 HEAD("404 Not Found", "application/json", "122") UNKNOWN_BODY
#define UNKNOWN_BODY "{\"kind\":\"Status\",\"message\":" UNKNOWN ",\"reason\":\"NotFound\",\"details\":{},\"code\":404}"
#define CHUNKED "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

/* A request that the local server has just denied, and that waits for a look at its discovery. */
static struct played_end *denied(struct proxy_kit *w, const char *request)
{
    struct played_end *c;

    proxy_kit_init(w, 1);
    w->local_has_jobs = true;
    proxy_kit_start(w);
    c = client(w);
    say(c, request);
    ok(has(conn(&w->local, 0), JOBS), "believed to be served here");
    say(conn(&w->local, 0), NOT_FOUND);
    return c;
}

static void sent_to_a_peer(void)
{
    struct proxy_kit w;
    struct played_end *c = denied(&w, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");

    ok(until(&w, proxy_kit_waiting(&w)), "denied: looks again");
    w.local_has_jobs = false;
    proxy_kit_know(&w);
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.peers[0], 0), "GET " JOBS), "and goes to the peer");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok") && !got(c, "HTTP/1.1 404 "), "the client sees no 404");
    proxy_kit_close(&w);
}

static void really_denied(void)
{
    struct proxy_kit w;
    struct played_end *c = denied(&w, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");

    ok(until(&w, proxy_kit_waiting(&w)), "denied: looks again");
    buf_reset(&conn(&w.local, 0)->got);
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.local, 0), JOBS), "still served here: asked once more");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "404 page not found"), "its second answer is final");
    proxy_kit_close(&w);
}

/* Denied by the local server, whose discovery cannot be read now. The client, when all is decided anew. */
static struct played_end *denied_unread(struct proxy_kit *w, bool waits)
{
    struct played_end *c;

    w->local_has_jobs = w->cluster->unread_local = true;
    w->cluster->no_refresh = !waits;
    proxy_kit_start(w);
    c = client(w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w->local, 0), JOBS), "believed to be served here");
    buf_reset(&conn(&w->local, 0)->got);
    say(conn(&w->local, 0), NOT_FOUND);
    if (!waits)
        return c;
    ok(until(w, proxy_kit_waiting(w)), "denied: looks again, in vain");
    proxy_kit_know(w);
    proxy_kit_refreshed(w);
    return c;
}

/* Also where there is no memory to wait for a look. */
static void unread_but_a_peers(bool waits)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    c = denied_unread(&w, waits);
    ok(has(conn(&w.peers[0], 0), "GET " JOBS), "a peer is known to serve it: it is asked");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok") && !got(c, "HTTP/1.1 404 "), "the client sees no 404");
    proxy_kit_close(&w);
}

static void unread_and_nobodys(size_t n_peers)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, n_peers);
    w.peers_without_jobs = n_peers;
    c = denied_unread(&w, true);
    ok(has(conn(&w.local, 0), JOBS), "%zu peers, none with it: the local server is asked once more", n_peers);
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "404 page not found"), "and its answer is final");
    proxy_kit_close(&w);
}

static void unread_and_unknown(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.peers_pending = true;
    w.peers_without_jobs = 1;
    c = denied_unread(&w, true);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: ") && !got(c, "HTTP/1.1 404 "),
       "a peer that was not read may have it: 503");
    proxy_kit_close(&w);
}

/* It may not be read any more: then nobody can say what the server serves. */
static void unread_for_it_is_forbidden(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_has_jobs = w.cluster->unread_local = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), JOBS);
    buf_reset(&conn(&w.local, 0)->got);
    say(conn(&w.local, 0), NOT_FOUND);
    (void)until(&w, proxy_kit_waiting(&w));
    w.forbidden = true;
    proxy_kit_know(&w);
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.local, 0), JOBS), "its discovery is forbidden now: it is asked once more");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 503 ") && !got(c, "HTTP/1.1 404 "), "and a peer may have it: 503");
    proxy_kit_close(&w);
}

static void with_a_body_under_way(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_has_jobs = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nContent-Length: 6\r\n\r\nabc");
    ok(has(conn(&w.local, 0), "abc"), "part of the body is with the server");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "cannot be sent elsewhere: 503, not 404");
    is_u64(w.peers[0].n_conns, 0, "and is not");
    proxy_kit_close(&w);
}

/* What more of it comes while discovery is read again goes to whoever gets the request then. */
static void with_a_body_that_comes_meanwhile(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_has_jobs = w.cluster->fails_over = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    ok(has(conn(&w.local, 0), "abc"), "part of the body is with the server");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(until(&w, proxy_kit_waiting(&w)), "its discovery is looked at again");
    say(c, "3\r\ndef\r\n0\r\n\r\n");
    proxy_kit_settle(&w);
    w.local_has_jobs = false;
    proxy_kit_know(&w);
    proxy_kit_refreshed(&w);
    ok(has(conn(&w.peers[0], 0), "0\r\n\r\n"), "the peer gets the request");
    ok(got(&w.peers[0].conns[0], "abc") && got(&w.peers[0].conns[0], "def"), "with all of its body");
    proxy_kit_close(&w);
}

/* What a program, or a kubelet, behind a subresource says of itself is no word of the server's. */
static void said_behind_it(void)
{
    static const char *const targets[] = {JOBS "/x/proxy", JOBS "/x/exec"};
    char request[200];

    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, 1);
        proxy_kit_start(&w);
        c = client(&w);
        (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: k\r\n\r\n", targets[i]);
        say(c, request);
        ok(has(conn(&w.peers[0], 0), targets[i]), "%s goes to the peer", targets[i]);
        say(conn(&w.peers[0], 0), NOT_FOUND);
        ok(has(c, "404 page not found"), "its 404 is passed on");
        proxy_kit_close(&w);
    }
}

#define NOT_ALLOWED                                                                                                    \
    HEAD("405 Method Not Allowed", "application/json", "109")                                                          \
    "{\"kind\":\"Status\",\"message\":\"the server does not allow this method on the requested resource\","            \
    "\"details\":{}}   "

/* The verb is no server's, but the resource is a peer's: the local server's 404 would say that it is gone. */
static void verb_of_nobody(const char *answer, const char *status)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "DELETE " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.peers[0], 0), "DELETE " JOBS), "deletecollection, which nobody has: the peer is asked");
    say(conn(&w.peers[0], 0), answer);
    ok(has(c, status), "and its answer becomes %s", status);
    is_u64(w.cluster->suspects, strcmp(answer, NOT_FOUND) == 0, "is it looked at again?");
    proxy_kit_close(&w);
}

/* Every way in which a server denies that it knows a path, said by the local one and by a peer. */
static const struct {
    const char *name, *method, *answer;
} denials[] = {
    {"plain 404", "GET", NOT_FOUND},
    {"404 with an empty Status", "GET", UNKNOWN_404},
    {"the same in chunks", "GET",
     CHUNKED "5\r\n{\"kin\r\n75\r\n"
             "d\":\"Status\",\"message\":" UNKNOWN
             ",\"reason\":\"NotFound\",\"details\":{},\"code\":404}\r\n0\r\n\r\n"},
    {"the same to DELETE", "DELETE", UNKNOWN_404},
    {"405 with an empty Status", "DELETE", NOT_ALLOWED},
    {"404 in YAML", "GET",
     HEAD("404 Not Found", "application/yaml",
          "71") "kind: Status\nmessage: the server could not find the requested resource\n"},
    {"404 to HEAD", "HEAD", HEAD("404 Not Found", "application/json", "122")},
};

static void all_denials_of_the_local_server(void)
{
    for (size_t i = 0; i < sizeof(denials) / sizeof(denials[0]); i++) {
        char request[200];
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, 1);
        w.local_has_jobs = true;
        proxy_kit_start(&w);
        c = client(&w);
        (void)snprintf(request, sizeof(request), "%s " JOBS "/x HTTP/1.1\r\nHost: k\r\n\r\n", denials[i].method);
        say(c, request);
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        say(conn(&w.local, 0), denials[i].answer);
        ok(until(&w, proxy_kit_waiting(&w)), "%s: looks again", denials[i].name);
        w.local_has_jobs = false;
        proxy_kit_know(&w);
        proxy_kit_refreshed(&w);
        ok(has(conn(&w.peers[0], 0), JOBS), "%s: and goes to the peer", denials[i].name);
        say(conn(&w.peers[0], 0), OK_ANSWER);
        ok(has(c, "HTTP/1.1 200 OK"), "%s: the client sees nothing of it", denials[i].name);
        proxy_kit_close(&w);
    }
}

static void all_denials_of_a_peer(void)
{
    for (size_t i = 0; i < sizeof(denials) / sizeof(denials[0]); i++) {
        char request[200];
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_open(&w, 1);
        c = client(&w);
        (void)snprintf(request, sizeof(request), "%s " JOBS "/x HTTP/1.1\r\nHost: k\r\n\r\n", denials[i].method);
        say(c, request);
        (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
        say(conn(&w.peers[0], 0), denials[i].answer);
        ok(has(c, "HTTP/1.1 503 ") && got(c, "Retry-After: "), "%s of a peer: 503", denials[i].name);
        ok(w.cluster->suspects > 0, "%s of a peer: it is looked at again", denials[i].name);
        proxy_kit_close(&w);
    }
}

static void a_peer_that_is_not_ready(const char *message)
{
    struct proxy_kit w;
    struct played_end *c;
    struct played_server *first, *second;
    char answer[300];

    proxy_kit_open(&w, 2);
    c = client(&w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)until(&w, w.peers[0].n_conns > 0 || w.peers[1].n_conns > 0);
    first = w.peers[0].n_conns > 0 ? &w.peers[0] : &w.peers[1];
    second = first == &w.peers[0] ? &w.peers[1] : &w.peers[0];
    (void)has(conn(first, 0), "\r\n\r\n");
    (void)snprintf(answer, sizeof(answer),
                   "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n"
                   "{\"kind\":\"Status\",\"message\":\"%s\"}",
                   strlen(message) + strlen("{\"kind\":\"Status\",\"message\":\"\"}"), message);
    say(conn(first, 0), answer);
    ok(has(conn(second, 0), JOBS), "%s: the next one is asked", message);
    say(conn(second, 0), OK_ANSWER);
    ok(has(c, "HTTP/1.1 200 OK"), "and answers");
    proxy_kit_close(&w);
}

/* What only looks like a denial is relayed, whole and as it came. */
static void truths(void)
{
    static const struct {
        const char *name, *answer, *end;
    } rows[] = {
        {"an object that is not there",
         HEAD("404 Not Found", "application/json", "91") "{\"kind\":\"Status\",\"message\":\"jobs \\\"x\\\" not "
                                                         "found\",\"details\":{\"name\":\"x\",\"kind\":\"jobs\"}}    ",
         "\"kind\":\"jobs\"}}    "},
        {"405 about a kind of objects",
         HEAD("405 Method Not Allowed", "application/json",
              "69") "{\"kind\":\"Status\",\"message\":\"not supported\",\"details\":{\"kind\":\"jobs\"}}",
         "{\"kind\":\"jobs\"}}"},
        {"503 of the server's own",
         HEAD("503 Service Unavailable", "application/json", "36") "{\"kind\":\"Status\",\"message\":\"later\"} ",
         "\"later\"} "},
        {"an empty body", HEAD("404 Not Found", "application/json", "0"), "Content-Length: 0\r\n\r\n"},
        {"an announced body that is long", HEAD("404 Not Found", "application/json", "5000") "{", "\r\n\r\n{"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, 1);
        w.local_has_jobs = true;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, "DELETE " JOBS "/x HTTP/1.1\r\nHost: k\r\n\r\n");
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        say(conn(&w.local, 0), rows[i].answer);
        ok(has(c, rows[i].end), "%s is passed on", rows[i].name);
        is_u64(w.cluster->misses, 0, "%s: nothing is looked at", rows[i].name);
        proxy_kit_close(&w);
    }
}

static void endless_not_found(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_has_jobs = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS "/x HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), CHUNKED);
    for (size_t i = 0; i < LIMIT_DENIAL_BODY / 16 - 1; i++)
        say(conn(&w.local, 0), "10\r\n0123456789abcdef\r\n");
    proxy_kit_settle(&w);
    ok(!got(c, "HTTP/1.1"), "a 404 whose end is not known is held back");
    say(conn(&w.local, 0), "20\r\n0123456789abcdef0123456789ABCDEF\r\n");
    ok(has(c, "HTTP/1.1 404 ") && has(c, "ABCDEF"), "up to a ceiling");
    say(conn(&w.local, 0), "5\r\n-end-\r\n0\r\n\r\n");
    ok(has(c, "-end-"), "and then relayed");
    proxy_kit_close(&w);
}

static void broken_off(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_has_jobs = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS "/x HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), CHUNKED "5\r\n{\"kin\r\n");
    hang_up(conn(&w.local, 0), STREAM_CLOSE_FLUSH);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "half a 404 is none");
    proxy_kit_close(&w);
}

static void aggregated(const char *answer)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_has_jobs = w.jobs_excluded = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS "/x HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), answer);
    ok(has(c, "HTTP/1.1 404 "), "an aggregated server's error is its own");
    is_u64(w.cluster->misses, 0, "and nothing is looked at");
    proxy_kit_close(&w);
}

/* Without a namespace, what is in one can be listed and watched, and nothing else: that no server knows. */
static void out_of_scope(void)
{
    static const struct {
        const char *request;
        bool looks; /* at the server's discovery: it may have drifted */
    } rows[] = {
        {"GET /apis/batch/v1/jobs", true},
        {"GET /apis/batch/v1/jobs?watch=1", true},
        {"GET /apis/batch/v1/watch/jobs", true},
        {"GET /apis/batch/v1/watch/jobs/x", false},
        {"GET /apis/batch/v1/jobs?fieldSelector=metadata.name%3Dx", true},
        {"GET /apis/batch/v1/jobs/x", false},
        {"DELETE /apis/batch/v1/jobs", false},
        {"DELETE /apis/batch/v1/jobs/x", false},
        {"GET " JOBS "/x", true},
        {"POST /apis/batch/v1/namespaces//jobs", false},
        {"GET /apis/batch/v1/namespaces//jobs/x", false},
        {"GET /apis/batch/v1/namespaces//jobs", false},
    };
    char request[200];

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct proxy_kit w;
        struct played_end *c;

        (void)snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: k\r\n\r\n", rows[i].request);
        proxy_kit_init(&w, 1);
        w.local_has_jobs = true;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, request);
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        say(conn(&w.local, 0), NOT_FOUND);
        if (rows[i].looks)
            ok(until(&w, proxy_kit_waiting(&w)), "%s: looks again", rows[i].request);
        else
            ok(has(c, "404 page not found"), "%s: a 404 at once", rows[i].request);
        proxy_kit_close(&w);
    }
}

/* What no server has a route for, the local one or a peer. */
static void no_route(void)
{
    static const struct {
        const char *method, *target;
        bool looks;
    } rows[] = {
        {"GET", JOBS "/x/status", true},
        {"GET", JOBS "/x/status/y", false},
        {"POST", JOBS, true},
        {"POST", JOBS "/x", false},
        {"POST", JOBS "/x/status", true},
        {"PUT", JOBS "/x", true},
        {"PUT", JOBS, false},
        {"PATCH", JOBS, false},
        {"GET", "/apis/batch/v1/watch/namespaces/d/jobs", true},
        {"GET", "/apis/batch/v1/watch/namespaces/d/jobs/x", true},
        {"PATCH", "/apis/batch/v1/watch/namespaces/d/jobs/x", false},
        {"HEAD", JOBS "/x/status/y", false},
    };

    for (size_t i = 0; i < 2 * ROWS(rows); i++) {
        bool local = i % 2 == 0;
        char request[200];
        struct proxy_kit w;
        struct played_end *c;

        (void)snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: k\r\n\r\n", rows[i / 2].method,
                       rows[i / 2].target);
        proxy_kit_init(&w, 1);
        w.local_has_jobs = local;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, request);
        (void)has(conn(local ? &w.local : &w.peers[0], 0), "\r\n\r\n");
        say(conn(local ? &w.local : &w.peers[0], 0), rows[i / 2].method[0] == 'H' ? NOT_FOUND_HEAD : NOT_FOUND);
        if (!rows[i / 2].looks)
            ok(has(c, "HTTP/1.1 404 "), "%s %s: a 404 at once", rows[i / 2].method, rows[i / 2].target);
        else if (local)
            ok(until(&w, proxy_kit_waiting(&w)), "%s %s: looks again", rows[i / 2].method, rows[i / 2].target);
        else
            ok(has(c, "HTTP/1.1 503 "), "%s %s: no peer's 404", rows[i / 2].method, rows[i / 2].target);
        proxy_kit_close(&w);
    }
}

/* kube-apiserver answers HEAD for custom resources, as GET. */
static void head_of_a_custom_resource(const char *type)
{
    struct proxy_kit w;
    struct played_end *c;
    char text[200];

    proxy_kit_init(&w, 1);
    w.local_has_jobs = w.jobs_excluded = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "HEAD " JOBS "/nope HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    (void)snprintf(text, sizeof(text), "HTTP/1.1 404 Not Found\r\nContent-Type: %s\r\nContent-Length: 19\r\n\r\n",
                   type);
    say(conn(&w.local, 0), text);
    ok(has(c, "HTTP/1.1 404 ") && w.cluster->misses == 0, "an object that is not there");
    proxy_kit_close(&w);
}

/* A request has waited at the local server since nobody was known to serve it: what is known by now counts. */
static void served_meanwhile(size_t before)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.peers_without_jobs = before;
    w.n_peers = before;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.local, 0), JOBS), "%zu peers, nobody has it: the local server is to say so", before);
    w.n_peers = 1;
    w.peers_without_jobs = 0;
    proxy_kit_know(&w);
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(conn(&w.peers[0], 0), "GET " JOBS), "a peer serves it by now: goes there");
    say(conn(&w.peers[0], 0), OK_ANSWER);
    ok(has(c, "\r\n\r\nok") && !got(c, "HTTP/1.1 404 "), "the client sees no 404");
    proxy_kit_close(&w);
}

/* Whoever has failed it before may be asked again. `local_too`: the local server, which is away, is known to have it.
 */
static void served_meanwhile_by_who_failed(bool local_too)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.cluster->fails_over = true;
    w.peers_without_jobs = 1;
    w.cluster->local_state = READINESS_STARTING;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    for (unsigned turn = 0; turn < 2000 && w.local.n_conns == 0; turn++) {
        loop_run_once(w.loop, 5);
        for (size_t i = 0; i < w.peers[0].n_conns; i++)
            if (got(&w.peers[0].conns[i], "\r\n\r\n"))
                hang_up(&w.peers[0].conns[i], STREAM_CLOSE_ABORT);
    }
    ok(has(conn(&w.local, 0), JOBS), "nobody has it, the peer fails: the local server is asked at last");
    w.peers_without_jobs = 0;
    w.local_has_jobs = local_too;
    proxy_kit_know(&w);
    say(conn(&w.local, 0), NOT_FOUND);
    proxy_kit_settle(&w);
    ok(has(conn(&w.peers[0], w.peers[0].n_conns - 1), "GET " JOBS), "by now the peer has it: asked again");
    say(conn(&w.peers[0], w.peers[0].n_conns - 1), OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "and answers");
    proxy_kit_close(&w);
}

/* The local server, for what nobody has. */
static struct played_end *asked_for_nobodys(struct proxy_kit *w)
{
    struct played_end *c;

    proxy_kit_init(w, 1);
    w->peers_without_jobs = 1;
    proxy_kit_start(w);
    c = client(w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w->local, 0), "\r\n\r\n");
    return c;
}

/* Its denial is not one of what it lists: nothing is to be read again, whatever is known when its end comes. */
static void nobodys_again(void)
{
    struct proxy_kit w;
    struct played_end *c;

    c = asked_for_nobodys(&w);
    w.peers_without_jobs = 0;
    proxy_kit_know(&w);
    say(conn(&w.local, 0), HEAD("404 Not Found", "application/json", "122"));
    proxy_kit_settle(&w);
    w.peers_without_jobs = 1;
    proxy_kit_know(&w);
    buf_reset(&conn(&w.local, 0)->got);
    say(conn(&w.local, 0), UNKNOWN_BODY);
    ok(has(conn(&w.local, 0), JOBS) && !proxy_kit_waiting(&w), "nobody's again: asked once more, and nothing is read");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "404 page not found"), "and that is the answer");
    proxy_kit_close(&w);
}

static void nobodys_still(void)
{
    struct proxy_kit w;
    struct played_end *c;
    unsigned misses;

    c = asked_for_nobodys(&w);
    proxy_kit_know(&w);
    misses = w.cluster->misses;
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 404 ") && w.cluster->misses == misses, "something else is known by now: 404 at once");
    proxy_kit_close(&w);
}

static void ordinary_not_found(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_has_jobs = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS "/gone HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.local, 0), JOBS), "a missing object");
    say(conn(&w.local, 0), "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
    ok(has(c, "HTTP/1.1 404 "), "is a 404 at once");
    proxy_kit_close(&w);
}

/* We may not read what the local server serves: its 404 is the truth where nobody else can have it. */
static void denied_forbidden(size_t n_peers, bool truth)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, n_peers);
    w.forbidden = true;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS "/x HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), NOT_FOUND);
    if (truth)
        ok(has(c, "HTTP/1.1 404 ") && has(c, "404 page not found"), "alone and forbidden: the server's own 404");
    else
        ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "forbidden, and a peer has it: 503");
    proxy_kit_close(&w);
}

#define SCHEMA "/openapi/v3/apis/batch/v1"
#define INDEX "{\"paths\":{\"apis/batch/v1\":{\"serverRelativeURL\":\"" SCHEMA "?hash=1\"}}}"
#define EMPTY_404 "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

/* A schema that the local server's index names, and that it says it has not. */
static void denied_schema(bool peer_has_it)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_schemas = INDEX;
    w.peer_schemas = peer_has_it ? INDEX : NULL;
    w.peers_without_jobs = peer_has_it ? 0 : 1;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " SCHEMA "?hash=1 HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.local, 0), SCHEMA), "a schema that is believed to be here");
    say(conn(&w.local, 0), EMPTY_404);
    ok(until(&w, proxy_kit_waiting(&w)), "denied: looks again");
    is_double(proxy_kit_metric(&w, "mvproxy_retries_total", "local-not-found"), 1, "counted");
    buf_reset(&conn(&w.local, 0)->got);
    proxy_kit_refreshed(&w);
    if (peer_has_it) {
        ok(has(conn(&w.peers[0], 0), "GET " SCHEMA "?hash=1"), "and goes to the peer");
        say(conn(&w.peers[0], 0), OK_ANSWER);
        ok(has(c, "\r\n\r\nok") && !got(c, "HTTP/1.1 404 "), "the client sees no 404");
    } else {
        ok(has(conn(&w.local, 0), SCHEMA), "nobody else has it: asked once more");
        say(conn(&w.local, 0), EMPTY_404);
        ok(has(c, "HTTP/1.1 404 "), "its second answer is final");
    }
    proxy_kit_close(&w);
}

#define NEWER_INDEX "{\"paths\":{\"apis/batch/v1\":{\"serverRelativeURL\":\"" SCHEMA "?hash=2\"}}}"

/* With an older schema it is a last resort: what its discovery lists it does not deny for sure. */
static void denied_by_the_older_one(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.opts.newest = w.local_has_jobs = true;
    w.local_schemas = INDEX;
    w.peer_schemas = NEWER_INDEX;
    w.local_release = 1033;
    w.peer_release = 1034;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.peers[0], 0), JOBS), "the newer server is asked");
    w.peers[0].refuse = true;
    hang_up(conn(&w.peers[0], 0), STREAM_CLOSE_NOW);
    ok(has(conn(&w.local, 0), JOBS), "it fails: the local one is asked");
    is_double(proxy_kit_metric(&w, "mvproxy_retries_total", "older"), 1, "counted");
    is_double(proxy_kit_metric(&w, "mvproxy_retries_total", "last-resort"), 0, "as that");
    say(conn(&w.local, 0), NOT_FOUND);
    ok(has(c, "HTTP/1.1 503 ") && got(c, "Retry-After: "), "which denies what it lists: 503");
    ok(w.cluster->misses > 0, "it is looked at again");
    is_double(proxy_kit_metric(&w, "mvproxy_retries_total", "local-not-found"), 1, "counted as well");
    proxy_kit_close(&w);
}

static void schema_denied_by_a_peer(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.local_schemas = "{\"paths\":{\"api/v1\":{\"serverRelativeURL\":\"/openapi/v3/api/v1?hash=1\"}}}";
    w.peer_schemas = INDEX;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET " SCHEMA " HTTP/1.1\r\nHost: k\r\n\r\n");
    ok(has(conn(&w.peers[0], 0), SCHEMA), "a peer's schema");
    say(conn(&w.peers[0], 0), EMPTY_404);
    ok(has(c, "HTTP/1.1 503 ") && has(c, "Retry-After: "), "which it says it has not: 503");
    ok(w.cluster->suspects > 0, "it is looked at again");
    proxy_kit_close(&w);
}

int main(void)
{
    verb_of_nobody(NOT_ALLOWED, "405 ");
    verb_of_nobody(UNKNOWN_404, "404 "); /* to a name of what is only created */
    verb_of_nobody(NOT_FOUND, "503 ");
    sent_to_a_peer();
    really_denied();
    unread_but_a_peers(true);
    unread_but_a_peers(false);
    unread_and_nobodys(0);
    unread_and_nobodys(1);
    unread_and_unknown();
    unread_for_it_is_forbidden();
    with_a_body_under_way();
    with_a_body_that_comes_meanwhile();
    said_behind_it();
    out_of_scope();
    no_route();
    head_of_a_custom_resource("application/json");
    ordinary_not_found();
    served_meanwhile(0);
    served_meanwhile(1);
    served_meanwhile_by_who_failed(false);
    served_meanwhile_by_who_failed(true);
    nobodys_again();
    nobodys_still();
    all_denials_of_the_local_server();
    all_denials_of_a_peer();
    a_peer_that_is_not_ready("the request has been made before all known HTTP paths have been installed, please try");
    a_peer_that_is_not_ready("apiserver is shutting down");
    truths();
    endless_not_found();
    broken_off();
    aggregated(UNKNOWN_404);
    aggregated(NOT_FOUND);
    denied_schema(true);
    denied_schema(false);
    schema_denied_by_a_peer();
    denied_by_the_older_one();
    denied_forbidden(0, true);
    denied_forbidden(1, false);
    return tap_end();
}
