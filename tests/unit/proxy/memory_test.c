/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request's life, from its connection's first byte on, again and again, each time with another allocation failing: no
 * crash, no leak, no hang. Over HTTP/1.1 without TLS, and over HTTP/2 with it.
 */
#include "net/loop.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"
#include "unit/proxy/frames.h"
#include "unit/proxy/kit.h"

#include <stdio.h>

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define POST2(path) ":method: POST\n:scheme: https\n:path: " path "\n:authority: k\n"
#define GET2(path) ":method: GET\n:scheme: https\n:path: " path "\n:authority: k\n"
#define EXEC PODS "/x/exec"
#define JOB_EXEC JOBS "/x/exec"
#define TO_SPDY " HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
#define X100 "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
#define X1200 X100 X100 X100 X100 X100 X100 X100 X100 X100 X100 X100 X100
#define IS_SPDY "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nok"
#define IS_OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

struct story {
    const char *name;
    const char *request; /* over HTTP/1.1; NULL: over HTTP/2 */
    const char *fields;  /* over HTTP/2: of the request's head */
    const char *body;    /* over HTTP/2, followed by trailers; NULL: none */
    const char *answer;  /* of the server over HTTP/1.1; over HTTP/2 it is always 200 with "ok" */
    const char *done;    /* what the client has at the end */
    const char *certificate;
    bool peer, refuses, tls;
};

static const struct story stories[] = {
    {.name = "forwarded",
     .request = "POST " PODS " HTTP/1.1\r\nHost: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
     .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
     .done = "ok"},
    {.name = "rerouted",
     .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\nX-Forwarded-For: 10.1.1.1\r\n\r\n",
     .answer = IS_OK,
     .done = "ok",
     .peer = true},
    {.name = "a path that leaves no room in the first block of memory",
     .request = "GET " PODS "?x=" X1200 X1200 X1200 " HTTP/1.1\r\nHost: k\r\n\r\n",
     .answer = IS_OK,
     .done = "ok"},
    {.name = "no peer left", .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\n\r\n", .done = "503", .refuses = true},
    {.name = "discovery",
     .request = "GET /apis?pretty=1 HTTP/1.1\r\nHost: k\r\nAccept: " V2 "\r\n\r\n",
     .answer = "HTTP/1.1 304 Not Modified\r\n\r\n",
     .done = "jobs"},
    {.name = "upgraded", .request = "GET " EXEC TO_SPDY, .answer = IS_SPDY, .done = "ok"},
    {.name = "rerouted and upgraded",
     .request = "GET " JOB_EXEC TO_SPDY,
     .answer = IS_SPDY,
     .done = "ok",
     .peer = true},
    {.name = "TLS, a user's certificate",
     .request = "GET " JOBS " HTTP/1.1\r\nHost: k\r\nX-Remote-User: mallory\r\n\r\n",
     .answer = IS_OK,
     .done = "ok",
     .certificate = "alice",
     .peer = true,
     .tls = true},
    {.name = "HTTP/2, forwarded",
     .fields = POST2(PODS) "x-sum: 1\n",
     .body = "abc",
     .answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
     .done = "ok",
     .tls = true},
    {.name = "HTTP/2, rerouted, a user's certificate",
     .fields = GET2(JOBS) "x-remote-user: mallory\n",
     .answer = IS_OK,
     .done = "ok",
     .certificate = "alice",
     .peer = true,
     .tls = true},
    {.name = "HTTP/2, no peer left", .fields = GET2(JOBS), .done = "\"code\":503", .refuses = true, .tls = true},
    {.name = "HTTP/2, discovery",
     .fields = GET2("/apis") "accept: " V2 "\naccept-encoding: gzip\n",
     .answer = "HTTP/1.1 304 Not Modified\r\n\r\n",
     .done = "jobs",
     .tls = true},
    {.name = "HTTP/2 on both sides, a watch",
     .fields = GET2(PODS "?watch=1") "authorization: Bearer t\n",
     .answer = IS_OK,
     .done = "ok",
     .tls = true},
    {.name = "HTTP/2 on both sides, a rerouted watch, a user's certificate",
     .fields = GET2(JOBS "?watch=1"),
     .answer = IS_OK,
     .done = "ok",
     .certificate = "alice",
     .peer = true,
     .tls = true},
};

/* ---- the client ---- */

static void ask(struct played_end *c, const struct story *st)
{
    struct bytes f = {0};

    if (st->request != NULL) {
        say(c, st->request);
        return;
    }
    say(c, FRAMES_PREFACE);
    frame_add(&f, FRAME_SETTINGS, 0, 0, SLICE_NONE);
    frames_add_head(&f, st->body == NULL ? FRAME_END_STREAM : 0, 1, st->fields);
    if (st->body != NULL) {
        frame_add(&f, FRAME_DATA, 0, 1, slice_str(st->body));
        frames_add_head(&f, FRAME_END_STREAM, 1, "x-sum: 1\n");
    }
    say_frames(c, &f);
}

static bool contains(struct slice s, const char *text)
{
    return s.n > 0 && memmem(s.p, s.n, text, strlen(text)) != NULL;
}

/* True when no more will come; *whole if all is there. */
static bool is_over(const struct played_end *c, const struct story *st, bool *whole)
{
    struct slice rest = buf_slice(&c->got);
    bool over = c->eof || c->failed;
    struct frame f;

    if (st->request != NULL) {
        *whole = got(c, st->done);
        return over || *whole || got(c, "503 ");
    }
    *whole = false;
    while (frames_next(&rest, &f)) {
        *whole |= f.type == FRAME_DATA && contains(f.payload, st->done);
        over |= f.type == FRAME_RST || f.type == FRAME_GOAWAY;
        over |= (f.type == FRAME_DATA || f.type == FRAME_HEADERS) && (f.flags & FRAME_END_STREAM) != 0;
    }
    return over || *whole;
}

/* ---- the server ---- */

/* How often something was said on a connection: over HTTP/2 the SETTINGS first, then an answer to each request. */
static unsigned serve_http2(struct played_end *s, unsigned said)
{
    struct slice rest = buf_slice(&s->got);
    struct bytes out = {0};
    unsigned asked = 1;

    if (said == 0) {
        frame_add(&out, FRAME_SETTINGS, 0, 0, SLICE_NONE);
        said = 1;
    }
    for (struct frame f; frames_next(&rest, &f);) {
        if (f.type != FRAME_HEADERS || asked++ < said)
            continue;
        frames_add_head(&out, 0, f.stream, ":status: 200\ncontent-type: application/json\n");
        frame_add(&out, FRAME_DATA, 0, f.stream, SLICE_LIT("ok"));
        said++;
    }
    say_frames(s, &out);
    return said;
}

static unsigned serve_http1(struct played_end *s, unsigned said, const char *answer)
{
    if (said > 0 || answer == NULL || !got(s, "\r\n\r\n"))
        return said;
    say(s, answer);
    return 1;
}

/* Every connection: a request that failed may come again, on another. */
static void serve(struct played_server *server, unsigned *said, const char *answer)
{
    for (size_t i = 0; i < server->n_conns; i++) {
        struct played_end *s = &server->conns[i];

        if (s->s == NULL || s->failed || (server->w->server_tls != NULL && !s->opened))
            continue;
        said[i] = strcmp(stream_alpn(s->s), "h2") == 0 ? serve_http2(s, said[i]) : serve_http1(s, said[i], answer);
    }
}

/* ---- the play ---- */

/* True if all went as without failures. */
static bool play(struct proxy_kit *w, const struct story *st, uint64_t fail_at, uint64_t *calls)
{
    struct played_server *server = st->peer ? &w->peers[0] : &w->local;
    unsigned said[PROXY_KIT_CONNS] = {0};
    bool over = false, whole = false;
    uint64_t before = mem_calls();
    struct played_end *c;

    mem_fail_nth(fail_at);
    c = client(w);
    ask(c, st);
    for (unsigned i = 0; i < 1000 && !over; i++) {
        loop_run_once(w->loop, 2);
        serve(server, said, st->answer);
        over = is_over(c, st, &whole);
    }
    mem_fail_nth(0);
    if (fail_at == 0 && !whole)
        diag("got: %.*s", (int)buf_len(&c->got), buf_slice(&c->got).p);
    *calls = mem_calls() - before;
    ok(over, "%s, %llu: it ended", st->name, (unsigned long long)fail_at);
    hang_up(c, STREAM_CLOSE_ABORT);
    return whole;
}

/* Made once for all plays. */
struct contexts {
    struct tls_ctx *front, *back, *client;
};

static bool play_anew(const struct story *st, const struct contexts *tls, uint64_t fail_at, uint64_t *calls)
{
    struct proxy_kit w;
    bool whole;

    if (st->tls) {
        proxy_kit_init_tls(&w, 1, tls_ctx_ref(tls->front), tls_ctx_ref(tls->back));
        w.front_tls = tls_ctx_ref(tls->front);
        w.client_tls = tls_ctx_ref(tls->client);
    } else {
        proxy_kit_init(&w, 1);
    }
    w.opts.can_assert = st->tls;
    w.short_of_memory = true;
    w.peers[0].refuse = st->refuses;
    proxy_kit_start(&w);
    whole = play(&w, st, fail_at, calls);
    proxy_kit_close(&w);
    return whole;
}

static void torture(const struct story *st)
{
    struct contexts tls = {NULL, NULL, NULL};
    uint64_t calls = 0, ignored;
    unsigned failed = 0;

    if (st->tls)
        tls = (struct contexts){server_ctx(true), client_ctx("front-proxy-client", false),
                                client_ctx(st->certificate, st->request == NULL)};
    ok(play_anew(st, &tls, 0, &calls), "%s: with all memory it works", st->name);
    for (uint64_t n = 1; n <= calls; n++)
        failed += !play_anew(st, &tls, n, &ignored);
    ok(failed > 0, "%s: %llu allocations, %u failures seen by the client", st->name, (unsigned long long)calls, failed);
    if (st->tls) {
        tls_ctx_unref(tls.front);
        tls_ctx_unref(tls.back);
        tls_ctx_unref(tls.client);
    }
}

int main(void)
{
    for (size_t i = 0; i < ROWS(stories); i++)
        torture(&stories[i]);
    return tap_end();
}
