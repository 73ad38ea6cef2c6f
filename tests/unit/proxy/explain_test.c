/* SPDX-License-Identifier: Apache-2.0 */
/* What operators are told of a request that nobody has sent, and of those that are under way. */
#include "proxy/explain.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"

#include "unit/proxy/kit.h"

static const struct {
    struct explain_query query;
    const char *parts[6]; /* of the answer; NULL-terminated */
} answers[] = {
    {{"GET", PODS "/x/log?follow=true", NULL, false, NULL, NULL, NULL, NULL, NULL},
     {"\"resourceRequest\":true,\"verb\":\"get\",\"path\":\"" PODS
      "/x/log\",\"group\":\"\",\"version\":\"v1\",\"resource\":\"pods\","
      "\"subresource\":\"log\",\"namespace\":\"d\",\"name\":\"x\",\"longRunning\":true",
      "\"action\":\"local\",\"row\":\"nobody\"",
      "\"reason\":\"No server serves it: it goes to the local server, which answers 404 (is the name mistyped?).\"",
      "\"refreshesDiscovery\":true,\"localServer\":{", "\"candidates\":[]"}},
    {{"POST", JOBS, "alice", false, NULL, NULL, NULL, NULL, NULL},
     {"\"longRunning\":false,\"action\":\"peer\",\"row\":\"peer\"",
      "\"reason\":\"The local server does not serve it, and a peer does.\"",
      "\"candidates\":[{\"server\":\"cp-b\",\"serverID\":\"apiserver-b\",\"address\":\"127.0.0.1:",
      "\"live\":true,\"healthy\":true,\"drained\":false}]", "\"identity\":\"asserted to the server by X-Remote-User",
      "\"user\":\"alice\"}"}},
    {{"GET", JOBS, NULL, true, NULL, NULL, NULL, NULL, NULL},
     {"\"action\":\"refuse\",\"row\":\"rerouted\"", "\"status\":503,\"message\":\"The request was already rerouted",
      "\"user\":null}", "\"identity\":\"left to the server that answers"}},
    {{"GET", "/healthz", NULL, false, NULL, NULL, NULL, NULL, NULL},
     {"\"resourceRequest\":false,\"verb\":\"get\",\"path\":\"/healthz\",\"action\":\"local\""}},
    {{"GET", "/apis", NULL, false, NULL, NULL, NULL, NULL, NULL},
     {"\"action\":\"discovery\"", "\"reason\":\"Who accepts the aggregated form and may read it"}},
    {{"OPTIONS", "*", NULL, false, NULL, NULL, NULL, NULL, NULL}, {"\"action\":\"local\",\"row\":\"non-resource\""}},
    {{"GET", "/apis/batch", NULL, false, NULL, NULL, NULL, NULL, NULL}, {"\"action\":\"heal\""}},
};

static const struct {
    struct explain_query query;
    const char *why;
} refused[] = {
    {{"get", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL}, "\"get\" is no method: did you mean GET?"},
    {{"WATCH", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL},
     "\"WATCH\" is a verb, not a method: did you mean GET with ?watch=true?"},
    {{"create", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL},
     "\"create\" is a verb, not a method: did you mean POST?"},
    {{"List", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL}, "\"List\" is a verb, not a method: did you mean GET?"},
    {{"update", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL},
     "\"update\" is a verb, not a method: did you mean PUT?"},
    {{"deletecollection", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL},
     "\"deletecollection\" is a verb, not a method: did you mean DELETE?"},
    {{"GTE", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL}, "\"GTE\" is no method: did you mean GET?"},
    {{"EXPLAIN", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL},
     "\"EXPLAIN\" is no method: mvproxy refuses it with 501"},
    {{"CONNECT", "/x", NULL, false, NULL, NULL, NULL, NULL, NULL}, "CONNECT is refused: mvproxy is no forward proxy"},
    {{"GET", "apis", NULL, false, NULL, NULL, NULL, NULL, NULL}, "the path must begin with \"/\": did you mean /apis?"},
    {{"GET", "/%zz", NULL, false, NULL, NULL, NULL, NULL, NULL},
     "\"GET /%zz\" is no request: mvproxy answers 400: bad percent escape in request target"},
    {{"GET", "/api/v1/\xc3\xa9", NULL, false, NULL, NULL, NULL, NULL, NULL},
     "\"GET /api/v1/\xc3\xa9\" is no request: mvproxy answers 400: forbidden byte in request target"},
    {{"GET", "*", NULL, false, NULL, NULL, NULL, NULL, NULL},
     "\"GET *\" is no request: mvproxy answers 400: request target * without OPTIONS"},
};

static void questions(void)
{
    struct proxy_kit w;
    struct buf out;
    struct err err;

    proxy_kit_init(&w, 1);
    w.peer_host = "cp-b";
    w.opts.can_assert = w.opts.legacy_discovery = true;
    proxy_kit_start(&w);
    buf_init(&out, 1 << 16);
    for (size_t i = 0; i < ROWS(answers); i++) {
        const struct explain_query *q = &answers[i].query;

        buf_reset(&out);
        err_clear(&err);
        ok(explain_request(w.proxy, q, &out, &err) && !err_is_set(&err), "%s %s", q->method, q->target);
        buf_append(&out, SLICE_LIT("\0"));
        for (size_t k = 0; k < ROWS(answers[i].parts) && answers[i].parts[k] != NULL; k++)
            ok(strstr(buf_slice(&out).p, answers[i].parts[k]) != NULL, "%s in %s", answers[i].parts[k],
               buf_slice(&out).p);
    }
    for (size_t i = 0; i < ROWS(refused); i++) {
        buf_reset(&out);
        err_clear(&err);
        ok(!explain_request(w.proxy, &refused[i].query, &out, &err) && buf_len(&out) == 0, "%s %s: refused",
           refused[i].query.method, refused[i].query.target);
        is_str(err.text, refused[i].why, "and why");
    }
    buf_free(&out);
    is_u64(w.cluster->misses + w.cluster->peer_misses + w.cluster->suspects, 0, "nothing is asked for");
    is_u64(w.local.n_conns + w.peers[0].n_conns, 0, "and nothing sent");
    proxy_kit_close(&w);
}

/* One peer, which does not answer; of the local server nothing is known. */
static bool look(void *arg, const char *id, struct explain_server *out)
{
    (void)arg;
    *out = (struct explain_server){"live, does not answer", false, "reset", 2500, false, false, false};
    return strcmp(id, "apiserver-b") == 0;
}

/* Its mvproxy answers for it. */
static bool refuses(void *arg, const char *id, struct explain_server *out)
{
    bool known = look(arg, id, out);

    out->refuses = true;
    return known;
}

/* Of the local server it is known that it does not answer. */
static bool silent(void *arg, const char *id, struct explain_server *out)
{
    (void)arg;
    *out = (struct explain_server){
        "local, does not answer", strcmp(id, "apiserver-a") != 0, "reset", 2500, false, false, false};
    return true;
}

/* It takes requests, and says nothing. */
static bool hangs(void *arg, const char *id, struct explain_server *out)
{
    bool known = silent(arg, id, out);

    out->hangs = !out->answers;
    return known;
}

#define SCHEMA_OF_JOBS(hash)                                                                                           \
    "{\"paths\":{\"apis/batch/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/batch/v1?hash=" hash "\"}}}"

/* What a newer one means more by goes there, and to the local server if it does not answer. */
static void newer_is_silent(void)
{
    struct explain_query q = {"GET", JOBS, "alice", false, look, NULL, NULL, NULL, NULL};
    struct err err;
    struct proxy_kit w;
    struct buf out;

    proxy_kit_init(&w, 1);
    w.peer_host = "cp-b";
    w.local_has_jobs = w.opts.newest = true;
    w.local_schemas = SCHEMA_OF_JOBS("A");
    w.peer_schemas = SCHEMA_OF_JOBS("B");
    w.local_release = 33;
    w.peer_release = 34;
    proxy_kit_start(&w);
    for (int silent_peer = 0; silent_peer < 2; silent_peer++) {
        buf_init(&out, 1 << 16);
        q.look = silent_peer ? look : NULL;
        ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0'), "asked");
        ok(strstr(buf_slice(&out).p, silent_peer ? "\"action\":\"local\"" : "\"action\":\"peer\"") != NULL, "%s",
           buf_slice(&out).p);
        ok((strstr(buf_slice(&out).p, "which does not answer: the local server has it as well") != NULL) == silent_peer,
           "said why");
        ok((strstr(buf_slice(&out).p, "\"candidates\":[]") != NULL) == silent_peer, "whom it goes to");
        buf_free(&out);
    }
    proxy_kit_close(&w);
}

/* A decision says where a request goes; whether the client gets an answer there is another matter. */
static void unanswered(void)
{
    struct explain_query q = {"GET", JOBS, "alice", false, look, NULL, NULL, NULL, NULL};
    struct err err;
    struct proxy_kit w;
    struct buf out;

    proxy_kit_init(&w, 1);
    w.peer_host = "cp-b";
    proxy_kit_start(&w);
    buf_init(&out, 1 << 16);
    ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0'), "asked");
    ok(strstr(buf_slice(&out).p, "\"state\":\"live, does not answer\",\"answers\":false,\"lastError\":\"reset\","
                                 "\"lastErrorAgeSeconds\":2.5") != NULL,
       "how the peer is: %s", buf_slice(&out).p);
    ok(strstr(buf_slice(&out).p, ",\"failing\":false,") != NULL, "and whether requests fail there");
    ok(strstr(buf_slice(&out).p, "\"action\":\"peer\"") != NULL &&
           strstr(buf_slice(&out).p, "\"answered\":false") != NULL,
       "and that nobody else is there");
    ok(strstr(buf_slice(&out).p, "\"row\":\"peers-failed\"") != NULL &&
           strstr(buf_slice(&out).p, "no peer that does can be reached.") != NULL,
       "and by which row");
    q.look = refuses;
    buf_reset(&out);
    ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0') &&
           strstr(buf_slice(&out).p, "\"action\":\"peer\",\"row\":\"peer\"") != NULL &&
           strstr(buf_slice(&out).p, "whose mvproxy can be reached, and says 503 for it.") != NULL &&
           strstr(buf_slice(&out).p, "\"answered\":false") != NULL,
       "the 503 of the mvproxy before it is passed on: %s", buf_slice(&out).p);
    q.target = PODS;
    buf_reset(&out);
    ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0') &&
           strstr(buf_slice(&out).p, "\"answered\":true") != NULL,
       "what the local server has is answered");
    buf_free(&out);
    proxy_kit_close(&w);
}

/* Who is meant is named. */
static void unread(void)
{
    struct explain_query q = {"GET", "/apis/example.io/v1/nothings", NULL, false, NULL, NULL, NULL, NULL, NULL};
    struct err err;
    struct proxy_kit w;
    struct buf out;

    proxy_kit_init(&w, 1);
    w.peers_pending = true;
    w.peer_host = "cp-b";
    proxy_kit_start(&w);
    buf_init(&out, 1 << 16);
    ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0'), "nobody known has it");
    ok(strstr(buf_slice(&out).p, "\"action\":\"refuse\",\"row\":\"unknown-peer\"") != NULL &&
           strstr(buf_slice(&out).p, "\"candidates\":[{\"server\":\"cp-b\"") != NULL,
       "whoever may have it: %s", buf_slice(&out).p);
    buf_free(&out);
    proxy_kit_close(&w);
}

/* With a kit that is ready to be started. */
static void explains(struct proxy_kit *w, const struct explain_query *q, const char *wanted, const char *name)
{
    struct err err;
    struct buf out;

    proxy_kit_start(w);
    buf_init(&out, 1 << 16);
    ok(explain_request(w->proxy, q, &out, &err) && buf_append_char(&out, '\0'), "%s: asked", name);
    ok(strstr(buf_slice(&out).p, wanted) != NULL, "%s: %s: %s", name, wanted, buf_slice(&out).p);
    buf_free(&out);
    proxy_kit_close(w);
}

/* Of the two peers one answers, or the last one is refused by the mvproxy before it. */
static bool one_answers(void *arg, const char *id, struct explain_server *out)
{
    *out = (struct explain_server){.state = "live", .answers = strcmp(id, "apiserver-c") == 0};
    (void)arg;
    return strcmp(id, "apiserver-a") != 0;
}

static bool first_refuses(void *arg, const char *id, struct explain_server *out)
{
    size_t *n = arg;

    *out = (struct explain_server){.state = "live"};
    if (strcmp(id, "apiserver-a") == 0)
        return false;
    out->refuses = (*n)++ == 0;
    return true;
}

static void one_of_two(void)
{
    size_t n = 0;
    struct explain_query q = {.method = "GET", .target = JOBS, .look = one_answers};
    struct proxy_kit w;

    proxy_kit_init(&w, 2);
    explains(&w, &q, "\"answered\":true", "one of two answers");
    proxy_kit_init(&w, 2);
    explains(&w, &q, "\"row\":\"peer\"", "which counts");
    q.look = first_refuses;
    q.arg = &n;
    proxy_kit_init(&w, 2);
    explains(&w, &q, "\"row\":\"peers-failed\"", "the last one cannot be reached");
}

/* Who may have it, and cannot be asked. */
static void without_address(void)
{
    struct explain_query q = {.method = "GET", .target = "/apis/example.io/v1/nothings"};
    struct origin *kept;
    struct proxy_kit w;
    struct err err;
    struct buf out;

    proxy_kit_init(&w, 1);
    w.peers_pending = true;
    kept = w.peers[0].origin;
    w.peers[0].origin = NULL;
    proxy_kit_start(&w);
    buf_init(&out, 1 << 16);
    ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0'), "a peer without address");
    ok(strstr(buf_slice(&out).p, "\"address\":null,\"live\":true,\"healthy\":false,") != NULL, "is told of: %s",
       buf_slice(&out).p);
    buf_free(&out);
    w.peers[0].origin = kept;
    proxy_kit_close(&w);
}

/* Who asks the local server while it hangs waits there, until it counts as unreachable. */
static void hanging(void)
{
    static const char *const paths[] = {PODS, "/apis"};
    struct explain_query q = {"GET", NULL, NULL, false, NULL, NULL, NULL, NULL, NULL};
    struct err err;
    struct proxy_kit w;
    struct buf out;

    proxy_kit_init(&w, 1);
    w.cluster->fails_over = true;
    proxy_kit_start(&w);
    buf_init(&out, 1 << 16);
    for (size_t i = 0; i < 2 * ROWS(paths); i++) {
        bool gone = i % 2 == 0;

        q.target = paths[i / 2];
        q.look = gone ? silent : hangs;
        buf_reset(&out);
        ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0') &&
               (strstr(buf_slice(&out).p, "\"answered\":true") != NULL) == gone &&
               (strstr(buf_slice(&out).p, "\"candidates\":[]") == NULL) == gone,
           "%s, and it %s: %s", q.target, gone ? "is gone" : "hangs", buf_slice(&out).p);
    }
    buf_free(&out);
    proxy_kit_close(&w);
}

/* Nobody answers who could say who may read it; or a peer does. */
static void judges(void)
{
    struct explain_query q = {"GET", "/apis", NULL, false, silent, NULL, NULL, NULL, NULL};
    struct proxy_kit w;
    struct buf out;

    for (size_t peers = 0; peers < 2; peers++) {
        struct err err;

        proxy_kit_init(&w, peers);
        w.cluster->fails_over = true;
        proxy_kit_start(&w);
        buf_init(&out, 1 << 16);
        ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0'), "with %zu peers", peers);
        ok(strstr(buf_slice(&out).p, peers > 0 ? "\"answered\":true" : "\"answered\":false") != NULL, "%s",
           buf_slice(&out).p);
        ok((strstr(buf_slice(&out).p, "\"serverID\":\"apiserver-b\"") != NULL) == (peers > 0), "who is asked");
        buf_free(&out);
        proxy_kit_close(&w);
    }
}

/* Discovery while the local server is away: by a peer, and 503 for what nobody has who is there. */
static void away(void)
{
    static const struct {
        const char *path, *want[2];
    } rows[] = {
        {"/apis/batch/v1", {"\"action\":\"refuse\",\"row\":\"non-resource\"", "None of the API servers that serve"}},
        {"/apis/batch", {"\"action\":\"refuse\"", "\"answered\":false"}},
        {"/api/v1", {"\"action\":\"heal\"", "\"candidates\":[{\"server\":\"cp-b\""}},
        {"/openapi/v3", {"\"answered\":true", "a live peer answers about discovery and schemas"}},
        {"/version", {"\"action\":\"local\"", "\"candidates\":[]"}},
    };
    struct proxy_kit w;
    struct buf out;

    proxy_kit_init(&w, 1);
    w.opts.legacy_discovery = w.cluster->fails_over = w.local_has_jobs = true;
    w.peers_without_jobs = 1;
    w.peer_host = "cp-b";
    w.cluster->local_state = READINESS_UNREACHABLE;
    proxy_kit_start(&w);
    buf_init(&out, 1 << 16);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct explain_query q = {"GET", rows[i].path, NULL, false, NULL, NULL, NULL, NULL, NULL};
        struct err err;

        buf_reset(&out);
        ok(explain_request(w.proxy, &q, &out, &err) && buf_append_char(&out, '\0'), "%s", q.target);
        for (size_t k = 0; k < 2; k++)
            ok(strstr(buf_slice(&out).p, rows[i].want[k]) != NULL, "%s in %s", rows[i].want[k], buf_slice(&out).p);
    }
    buf_free(&out);
    proxy_kit_close(&w);
}

/* What a user with a certificate gets while no server accepts our word for him. */
static void is_unauthorized(bool can_assert, const char *user, const char *disbelieved, const char *wanted)
{
    struct explain_query q = {"GET", PODS, user, false, look, NULL, disbelieved, NULL, NULL};
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.opts.can_assert = can_assert;
    explains(&w, &q, wanted, "a user who is not accepted");
}

/* A user whom the servers may take for another; for a token that is no matter. */
static void doubted(const char *user, const char *wanted)
{
    struct explain_query q = {"GET", PODS, user, false, look, NULL, NULL, "no server knows X", NULL};
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.opts.can_assert = true;
    explains(&w, &q, wanted, "a user in doubt");
}

/* Not the peers are to blame. */
static void peers_not_configured(void)
{
    struct explain_query q = {"GET", "/apis/example.io/v1/nothings", NULL, false, NULL, NULL, NULL, NULL, "no CA"};
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.peers_pending = true;
    explains(&w, &q,
             "\"reason\":\"The local server does not serve it, and peers cannot be asked.\",\"noPeers\":\"no CA\"",
             "peers that cannot be asked");
    proxy_kit_init(&w, 1);
    q.target = "/healthz";
    explains(&w, &q, "\"reason\":\"It asks for no resource.\",\"noPeers\":null", "of no concern");
}

/* Legacy discovery that is left as the local server says it. */
static void not_completed(void)
{
    struct explain_query q = {"GET", "/apis/batch", NULL, false, look, NULL, NULL, NULL, NULL};
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.opts.legacy_discovery = false;
    explains(&w, &q, "\"action\":\"local\"", "legacy-discovery: off");
    proxy_kit_init(&w, 1);
    w.cluster->fails_over = w.local_has_jobs = true;
    w.cluster->local_state = READINESS_UNREACHABLE;
    explains(&w, &q, "\"action\":\"local\"", "and while the local server is away");
    q.target = "/apis";
    proxy_kit_init(&w, 1);
    w.cluster->fails_over = w.local_has_jobs = true;
    w.cluster->local_state = READINESS_UNREACHABLE;
    explains(&w, &q, "and others 503, since legacy-discovery is off", "the merged document, and nothing else");
    q.target = "/apis/batch";
    proxy_kit_init(&w, 1);
    w.opts.legacy_discovery = w.cluster->unread_peers = true;
    explains(&w, &q, "\"action\":\"refuse\"", "legacy discovery while a peer has not been read");
    q.target = "/openapi/v3";
    proxy_kit_init(&w, 1);
    w.cluster->unread_peers = true;
    explains(&w, &q, "\"action\":\"refuse\"", "and the index of schemas");
    proxy_kit_init(&w, 1);
    w.schemas_pending = true;
    explains(&w, &q, "\"action\":\"refuse\"", "and while that of a peer is read");
}

static void unauthorized(void)
{
    is_unauthorized(true, "alice", NULL, "\"unauthorized\":null");
    is_unauthorized(true, "alice", "it has expired", "\"unauthorized\":\"it has expired\"");
    is_unauthorized(true, NULL, "it has expired", "\"unauthorized\":null");
    is_unauthorized(false, "alice", NULL, "\"unauthorized\":\"no front-proxy certificate is configured\"");
    is_unauthorized(false, NULL, NULL, "\"unauthorized\":null");
}

static void in_doubt(void)
{
    doubted("alice", "\"doubted\":\"no server knows X\"");
    doubted(NULL, "\"doubted\":null");
}

static bool under_way(struct proxy_kit *w, size_t max, const char *part)
{
    struct buf out;
    bool found;

    buf_init(&out, 1 << 16);
    explain_under_way(w->proxy, max, &out);
    found = memmem(buf_slice(&out).p, buf_len(&out), part, strlen(part)) != NULL;
    if (!found)
        diag("%.*s", (int)buf_len(&out), buf_slice(&out).p);
    buf_free(&out);
    return found;
}

/* A peer that is asked about discovery in the place of the local server: it is who is waited for. */
static void waits_for_a_judge(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    w.opts.legacy_discovery = w.cluster->fails_over = true;
    w.peer_host = "cp-b";
    w.cluster->local_state = READINESS_UNREACHABLE;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, "GET /apis/batch HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.peers[0], 0), "\r\n\r\n");
    ok(under_way(&w, 9, "\"server\":\"cp-b\",\"serverID\":\"apiserver-b\",\"state\":\"waiting\""),
       "a peer, for its answer");
    proxy_kit_close(&w);
}

/* A peer that lists what it denies. */
static void denied(void)
{
    const struct explain_query q = {.method = "GET", .target = JOBS};
    struct buf out;
    struct proxy_kit w;
    struct err err;

    proxy_kit_init(&w, 1);
    w.peer_host = w.cluster->denies = "cp-b";
    proxy_kit_start(&w);
    buf_init(&out, 1 << 16);
    ok(explain_request(w.proxy, &q, &out, &err), "explained");
    buf_append_char(&out, '\0');
    ok(strstr(buf_slice(&out).p, "\"disbelievedSeconds\":12.0") != NULL, "its 404 of before is told: %s",
       buf_slice(&out).p);
    buf_free(&out);
    proxy_kit_close(&w);
}

#define WATCHED "/api/v1/namespaces/x;secret/pods"

static void requests(void)
{
    struct played_end *one, *two, *three;
    struct proxy_kit w;

    proxy_kit_init(&w, 1);
    w.peer_host = "cp-b";
    proxy_kit_start(&w);
    ok(under_way(&w, 9, "{\"requests\":[],\"notShown\":0}"), "nothing is under way");
    one = client(&w);
    say(one, "POST " JOBS " HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\nabc");
    (void)has(conn(&w.peers[0], 0), "abc");
    two = client(&w);
    say(two, "GET " WATCHED "?watch=1 HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    ok(under_way(&w, 9, "\"method\":\"POST\",\"verb\":\"create\",\"path\":\"" JOBS "\",\"client\":\"127.0.0.1:"),
       "what it is, and whose");
    ok(under_way(&w, 9,
                 "\"protocol\":\"HTTP/1.1\",\"row\":\"peer\",\"server\":\"cp-b\",\"serverID\":\"apiserver-b\","
                 "\"state\":\"waiting\",\"longRunning\":false,\"bytesIn\":3,\"bytesOut\":0}"),
       "where it is, and how far");
    ok(under_way(&w, 9, "\"user\":\"\",\"protocol\":\"HTTP/1.1\""), "of whom nobody has a name");
    clock_fake(clock_us() + (uint64_t)7000 * 1000000, clock_wall_us());
    ok(under_way(&w, 9, "{\"requests\":[{\"ageSeconds\":700"), "since when");
    clock_real();
    ok(under_way(&w, 9,
                 "\"server\":\"apiserver-a\",\"serverID\":\"apiserver-a\",\"state\":\"waiting\",\"longRunning\":true"),
       "the next one");
    ok(under_way(&w, 1, "POST") && !under_way(&w, 1, "\"GET") && under_way(&w, 1, "\"notShown\":1}"),
       "as many as there is room for");
    ok(!under_way(&w, 9, "secret"), "no parameter of a path is shown");
    ok(under_way(&w, 9, "\"verb\":\"watch\",\"path\":\"/api/v1/namespaces/x\",\"pathHasParameters\":true"),
       "no parameter of a path");
    three = client(&w);
    say(three, "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.peers[0], 1), "\r\n\r\n");
    ok(under_way(&w, 2, "POST") && under_way(&w, 2, "\"verb\":\"list\"") && !under_way(&w, 2, "\"watch\""),
       "the oldest first, and a watch behind those that are younger");
    say(conn(&w.local, 0), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    (void)has(two, "half");
    ok(under_way(&w, 9,
                 "\"server\":\"apiserver-a\",\"serverID\":\"apiserver-a\","
                 "\"state\":\"relaying\",\"longRunning\":true,\"bytesIn\":0,\"bytesOut\":4}"),
       "on its way");
    two = client(&w);
    say(two, "GET " JOBS "?watch=1 HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.peers[0], 2), "\r\n\r\n");
    say(conn(&w.peers[0], 2), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    (void)has(two, "half");
    ok(under_way(&w, 9, "\"server\":\"cp-b\",\"serverID\":\"apiserver-b\",\"state\":\"relaying\",\"longRunning\":true"),
       "a watch of a peer's");
    proxy_kit_close(&w);
}

/* However long paths are, a thousand requests find room in an answer of the control socket. */
static void long_path(void)
{
    char path[8192] = PODS "/", text[9000], want[2000];
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 1);
    proxy_kit_start(&w);
    c = client(&w);
    memset(path + strlen(path), 'x', sizeof(path) - 1 - strlen(path));
    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: k\r\n\r\n", path);
    say(c, text);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    (void)snprintf(want, sizeof(want), "\"pathBytes\":8191,\"path\":\"%.1024s\",\"client\"", path);
    ok(under_way(&w, 9, want), "its beginning, and how long it is");
    ok(1000 * (6 * (size_t)EXPLAIN_PATH_BYTES + 1024) < LIMIT_CONTROL_ANSWER, "a thousand of the worst fit");
    proxy_kit_close(&w);
}

/* Wherever it is cut, no half of a character is shown. */
static void long_path_of_letters(void)
{
    char text[5000];

    for (size_t odd = 0; odd < 2; odd++) {
        size_t n = (size_t)snprintf(text, sizeof(text), "GET " PODS "/%s", odd == 0 ? "" : "x");
        struct proxy_kit w;
        struct played_end *c;

        proxy_kit_init(&w, 1);
        proxy_kit_start(&w);
        c = client(&w);
        for (size_t i = 0; i < 600; i++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%%C3%%A9");
        (void)snprintf(text + n, sizeof(text) - n, " HTTP/1.1\r\nHost: k\r\n\r\n");
        say(c, text);
        (void)has(conn(&w.local, 0), "\r\n\r\n");
        ok(under_way(&w, 9, "\xc3\xa9\",\"client\""), "it ends with a whole letter, %zu", odd);
        proxy_kit_close(&w);
    }
}

int main(void)
{
    questions();
    long_path_of_letters();
    newer_is_silent();
    unanswered();
    unread();
    one_of_two();
    without_address();
    hanging();
    judges();
    away();
    unauthorized();
    in_doubt();
    peers_not_configured();
    not_completed();
    denied();
    requests();
    waits_for_a_judge();
    long_path();
    return tap_end();
}
