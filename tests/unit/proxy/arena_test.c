/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation from an arena fails in turn, be there room in its block or not: the server sees a request as it goes
 * with all memory or none of it, and the client has the answer as it is with all memory, or 503, or a broken
 * connection.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "lib/arena_fails.h"
#include "net/loop.h"
#include "net/tls_ctx.h"
#include "proxy/explain.h"
#include "proxy/proxy_config.h"
#include "unit/net/fixture.h"
#include "unit/proxy/kit.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define SPEC(path, hash) "\"" path "\":{\"serverRelativeURL\":\"/openapi/v3/" path "?hash=" hash "\"}"
#define TO_SPDY " HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
#define LENGTH_2 "Content-Length: 2\r\n\r\nok"

struct story {
    const char *name, *request;
    const char *last; /* of the request, before the server answers; NULL: the end of its head */
    const char *answer, *done;
    const char *certificate;
    const char *const *trusted; /* proxies */
    bool peer, legacy, schemas, older;
    bool may_be_own;               /* the server's own answer instead of ours */
    const char *lost, *lost_lines; /* what an answer may lack for want of memory: this text, lines that begin so */
    unsigned n_lost;               /* so many do */
};

static const char *const trusted[] = {"127.0.0.0/8", NULL};

static const struct story stories[] = {
    {.name = "forwarded",
     .request =
         "POST " PODS " HTTP/1.1\r\nHost: k\r\nX-Other: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
     .last = "0\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
     .done = "0\r\nX-T: 1\r\n\r\n"},
    {.name = "with an interim answer",
     .request = "GET " PODS " HTTP/1.1\r\nHost: k\r\n\r\n",
     .answer = "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\n" LENGTH_2,
     .done = "\r\n\r\nok",
     .lost = "HTTP/1.1 103 Early\r\nLink: a\r\n\r\n",
     .n_lost = 1},
    {.name = "rerouted",
     .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: 10.1.1.1\r\nX-Remote-User: mallory\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\n" LENGTH_2,
     .done = "\r\n\r\nok",
     .peer = true},
    {.name = "rerouted, a user's certificate",
     .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\nX-Remote-User: mallory\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\n" LENGTH_2,
     .done = "\r\n\r\nok",
     .certificate = "alice",
     .peer = true},
    {.name = "rerouted and upgraded",
     .request = "GET " JOBS "/x/exec" TO_SPDY,
     .answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nok",
     .done = "\r\n\r\nok",
     .peer = true},
    {.name = "discovery",
     .request = "GET /apis HTTP/1.1\r\nHost: k\r\nOrigin: o\r\nAccept: " V2 "\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nAccess-Control-1: o\r\nAccess-Control-2: o\r\nAccess-Control-3: o\r\n"
               "Access-Control-4: o\r\nAccess-Control-5: o\r\nAccess-Control-6: o\r\nAccess-Control-7: o\r\n"
               "Access-Control-8: o\r\nStrict-Transport-Security: s\r\n" LENGTH_2,
     .done = "]}",
     .lost_lines = "Access-Control-",
     .n_lost = 17},
    {.name = "discovery, not modified",
     .request = "GET /apis HTTP/1.1\r\nHost: k\r\nIf-None-Match: " PROXY_KIT_ETAG "\r\nAccept: " V2 "\r\n\r\n",
     .answer = "HTTP/1.1 304 Not Modified\r\n\r\n",
     .done = "304 Not Modified"},
    {.name = "discovery for people",
     .request = "GET /apis?pretty=1 HTTP/1.1\r\nHost: k\r\nAccept: " V2 "\r\n\r\n",
     .answer = "HTTP/1.1 304 Not Modified\r\n\r\n",
     .done = "0\r\n\r\n"},
    {.name = "legacy discovery",
     .request = "GET /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n",
     .answer = "HTTP/1.1 404 Not Found\r\nX-A: b\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nlost",
     .done = "]}\n",
     .legacy = true},
    {.name = "legacy discovery of whom has all",
     .request = "HEAD /apis/batch/v1 HTTP/1.1\r\nHost: k\r\nAccept: application/json\r\n\r\n",
     .answer =
         "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{\"resources\":[]}",
     .done = "\r\n\r\n",
     .legacy = true},
    {.name = "an index of schemas",
     .request = "GET /openapi/v3 HTTP/1.1\r\nHost: k\r\nAccept: */*\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Type: application/json\r\nContent-Length: 71\r\n\r\n"
               "{\"paths\":{" SPEC("api/v1", "A1") "}}",
     .done = "}}",
     .schemas = true,
     .may_be_own = true,
     .n_lost = 4},
    {.name = "a front proxy's user",
     .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\nX-Remote-User: bob\r\nX-Remote-Group: a\r\nX-Remote-Group: b\r\n"
                "X-Remote-Extra-a%2fb: c\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\n" LENGTH_2,
     .done = "\r\n\r\nok",
     .certificate = "front-proxy-client",
     .peer = true},
    {.name = "a peer's question",
     .request =
         "GET /version HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: 10.1.1.1\r\nx-kubernetes-peer-proxied: true\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\n" LENGTH_2,
     .done = "\r\n\r\nok",
     .certificate = "front-proxy-client"},
    {.name = "a client of a trusted proxy",
     .request = "GET " PODS " HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: 192.0.2.7, 127.0.0.9\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\n" LENGTH_2,
     .done = "\r\n\r\nok",
     .trusted = trusted},
    {.name = "a user of a trusted proxy",
     .request = "GET " PODS " HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\n" LENGTH_2,
     .done = "\r\n\r\nok",
     .certificate = "alice",
     .trusted = trusted},
    {.name = "answered by an older server",
     .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nX-A: b\r\n" LENGTH_2,
     .done = "\r\n\r\nok",
     .older = true},
    {.name = "refused by us",
     .request = "GET " PODS " HTTP/1.1\r\nHost: k\r\n\r\n",
     .answer = "",
     .done = "}",
     .certificate = "foreign"},
};

/* ---- texts ---- */

enum { TEXT = 40000 };

/* Without the lines that are never the same. */
static void copy_text(const struct buf *from, const char *without, char to[TEXT])
{
    const char *const changing[] = {"Date: ", "Audit-Id: ", without};
    struct slice rest = buf_len(from) > 0 ? buf_slice(from) : SLICE_LIT(""), line;
    size_t n = 0;

    while (rest.n > 0 && slice_split(&rest, '\n', &line)) {
        bool kept = true;

        for (size_t i = 0; i < ROWS(changing) && changing[i] != NULL; i++)
            kept = kept && !slice_has_iprefix(line, slice_str(changing[i]));
        if (!kept || n + line.n + 2 > TEXT)
            continue;
        if (line.n > 0)
            memcpy(to + n, line.p, line.n);
        n += line.n;
        if (line.n > 0 && line.p[line.n - 1] == '\r')
            to[n++] = '\n';
    }
    to[n] = '\0';
}

static bool differ_by(const char *text, const char *whole, const char *lost)
{
    const char *at = lost == NULL ? NULL : strstr(whole, lost);
    size_t before = at == NULL ? 0 : (size_t)(at - whole);

    return at != NULL && strncmp(text, whole, before) == 0 && strcmp(text + before, at + strlen(lost)) == 0;
}

/* ---- the play ---- */

static struct {
    char client[TEXT], short_client[TEXT], server[TEXT]; /* what they have with all memory */
} whole;

struct sums {
    uint64_t calls;
    unsigned refused, lost;
    double unrouted; /* refused before it was known where it would have gone */
};

static bool is_over(const struct played_end *c, const struct story *st)
{
    return c->eof || c->failed || got(c, st->done) || got(c, "HTTP/1.1 5") || got(c, "HTTP/1.1 4");
}

static void serve(struct played_server *s, const struct story *st, bool said[PROXY_KIT_CONNS])
{
    for (size_t i = 0; i < s->n_conns; i++)
        if (!said[i] && got(&s->conns[i], "\r\n\r\n") && (st->last == NULL || got(&s->conns[i], st->last))) {
            said[i] = true;
            say(&s->conns[i], st->answer);
        }
}

static void judge_client(const struct story *st, const struct played_end *c, uint64_t fail_at, struct sums *sums)
{
    static char text[TEXT], short_text[TEXT];

    copy_text(&c->got, NULL, text);
    copy_text(&c->got, st->lost_lines, short_text);
    if (fail_at == 0) {
        memcpy(whole.client, text, TEXT);
        memcpy(whole.short_client, short_text, TEXT);
        ok(got(c, st->done) && got(c, "HTTP/1.1 "), "%s: with all memory it works", st->name);
    } else if (got(c, "HTTP/1.1 503 ") || ((c->eof || c->failed) && !got(c, st->done))) {
        sums->refused++;
    } else if (strcmp(text, whole.client) == 0) {
        return;
    } else if (differ_by(text, whole.client, st->lost) || (st->may_be_own && strcmp(text, st->answer) == 0) ||
               strcmp(short_text, whole.short_client) == 0) {
        sums->lost++;
    } else {
        is_str(text, whole.client, "%s, %llu: the answer", st->name, (unsigned long long)fail_at);
    }
}

static void judge_servers(const struct story *st, struct played_server *s, uint64_t fail_at)
{
    static char text[TEXT];

    for (size_t i = 0; i < s->n_conns; i++) {
        copy_text(&s->conns[i].got, NULL, text);
        if (fail_at == 0)
            memcpy(whole.server, text, TEXT);
        else if (strncmp(whole.server, text, strlen(text)) != 0)
            is_str(text, whole.server, "%s, %llu: the request", st->name, (unsigned long long)fail_at);
    }
}

static void play(struct proxy_kit *w, const struct story *st, uint64_t fail_at, struct sums *sums)
{
    struct played_server *server = st->peer ? &w->peers[0] : &w->local;
    bool said[PROXY_KIT_CONNS] = {false}, over = false;
    struct played_end *c = client(w);

    arena_calls = 0;
    arena_fails_at = fail_at;
    arena_holds = false;
    say(c, st->request);
    for (unsigned i = 0; i < 1000 && !over; i++) {
        loop_run_once(w->loop, 2);
        serve(server, st, said);
        over = is_over(c, st);
    }
    ok(over, "%s, %llu: it ended", st->name, (unsigned long long)fail_at);
    proxy_kit_settle(w);
    arena_holds = true;
    arena_fails_at = 0;
    sums->calls = arena_calls;
    judge_servers(st, server, fail_at);
    judge_client(st, c, fail_at, sums);
    for (size_t i = 0; strstr(st->answer, " 101 ") != NULL && got(c, "HTTP/1.1 5") && i < server->n_conns; i++)
        ok(ended(&server->conns[i]), "%s, %llu: the server's end", st->name, (unsigned long long)fail_at);
    hang_up(c, STREAM_CLOSE_ABORT);
}

struct contexts {
    struct tls_ctx *front, *back, *client;
};

static const char *const user[] = {"X-Remote-User", NULL}, *const group[] = {"X-Remote-Group", NULL},
                         *const extra[] = {"X-Remote-Extra-", NULL};

static void play_anew(const struct story *st, const struct contexts *tls, uint64_t fail_at, struct sums *sums)
{
    static struct proxy_kit w;

    if (st->certificate != NULL) {
        proxy_kit_init_tls(&w, 1, tls_ctx_ref(tls->front), tls_ctx_ref(tls->back));
        w.front_tls = tls_ctx_ref(tls->front);
        w.client_tls = tls_ctx_ref(tls->client);
        w.opts.can_assert = true;
    } else {
        proxy_kit_init(&w, 1);
    }
    w.opts.legacy_discovery = st->legacy;
    w.opts.trusted_proxies = st->trusted;
    w.opts.version = "v1";
    w.opts.username_headers = user;
    w.opts.group_headers = group;
    w.opts.extra_header_prefixes = extra;
    w.cluster->local_word = API_WORD_READY;
    if (st->older) { /* and the newer one is away */
        w.local_has_jobs = w.opts.newest = w.peers[0].refuse = true;
        w.local_release = 33;
        w.peer_release = 34;
        w.local_schemas = "{\"paths\":{" SPEC("apis/batch/v1", "A1") "}}";
        w.peer_schemas = "{\"paths\":{" SPEC("apis/batch/v1", "B1") "}}";
    }
    if (st->schemas) {
        w.local_schemas = "{\"paths\":{" SPEC("api/v1", "A1") "}}";
        w.peer_schemas = "{\"paths\":{" SPEC("api/v1", "B1") "," SPEC("apis/batch/v1", "B2") "}}";
    }
    proxy_kit_start(&w);
    play(&w, st, fail_at, sums);
    sums->unrouted += proxy_kit_metric(&w, "mvproxy_unavailable_requests_total", "none");
    proxy_kit_close(&w);
}

static void torture(const struct story *st)
{
    struct contexts tls = {NULL, NULL, NULL};
    struct sums all = {0}, sums = {0};

    if (st->certificate != NULL)
        tls = (struct contexts){server_ctx(false), client_ctx("front-proxy-client", false),
                                client_ctx(st->certificate, false)};
    play_anew(st, &tls, 0, &all);
    for (uint64_t n = 1; n <= all.calls; n++)
        play_anew(st, &tls, n, &sums);
    ok(sums.refused > 1, "%s: %llu allocations, %u without an answer", st->name, (unsigned long long)all.calls,
       sums.refused);
    is_u64(sums.lost, st->n_lost, "%s: so many lack something", st->name);
    is_double(sums.unrouted, st->certificate != NULL && st->trusted != NULL ? 1 : 0,
              "%s: counted without a route where the client's address found no room", st->name);
    if (st->certificate != NULL) {
        tls_ctx_unref(tls.front);
        tls_ctx_unref(tls.back);
        tls_ctx_unref(tls.client);
    }
}

/* ---- what is no request ---- */

static void options(void)
{
    struct proxy_config *c;
    struct proxy_kit w;
    uint64_t n;

    proxy_kit_init(&w, 1);
    w.opts.username_headers = user;
    w.opts.group_headers = group;
    w.opts.extra_header_prefixes = extra;
    proxy_kit_start(&w);
    for (n = 1; n < 100; n++) {
        arena_calls = 0;
        arena_fails_at = n;
        arena_holds = false;
        c = proxy_config_new(&w.opts);
        arena_holds = true;
        if (arena_calls < n)
            break;
        ok(c == NULL, "options, %llu: none", (unsigned long long)n);
        proxy_config_unref(c);
    }
    ok(c != NULL && n > 6, "options: %llu allocations, each of which fails", (unsigned long long)n - 1);
    proxy_config_unref(c);
    proxy_kit_close(&w);
}

static void explained(void)
{
    const struct explain_query q = {.method = "GET", .target = PODS};
    struct err err = {""};
    struct proxy_kit w;
    struct buf out;

    proxy_kit_open(&w, 1);
    buf_init(&out, 100000);
    arena_calls = 0;
    arena_fails_at = 1;
    arena_holds = false;
    ok(!explain_request(w.proxy, &q, &out, &err) && buf_len(&out) == 0, "a question that finds no memory: no answer");
    arena_holds = true;
    is_str(err.text, "out of memory", "told why");
    buf_free(&out);
    proxy_kit_close(&w);
}

int main(void)
{
    log_set_verbosity(-1);
    arena_holds = true;
    for (size_t i = 0; i < ROWS(stories); i++)
        torture(&stories[i]);
    options();
    explained();
    return tap_end();
}
