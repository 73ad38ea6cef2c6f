/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are refused for what the client or this process is about, not for what is asked. */
#include <stdio.h>

#include "back/back.h"
#include "back/shares.h"
#include "kube/status.h"
#include "net/loop.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"
#include "unit/proxy/frames.h"
#include "unit/proxy/kit.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: k\r\n"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
#define TO_SPDY "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"

/* Who asks for the way to the local server is told that it ends; requests go on. */
static void stopping(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 0);
    c = client(&w);
    say(c, GET("/readyz") "\r\n");
    ok(has(conn(&w.local, 0), "/readyz"), "a probe goes to the local server");
    say(&w.local.conns[0], OK_ANSWER);
    ok(has(c, "\r\n\r\nok"), "and is answered");
    proxy_set_stopping(w.proxy);
    buf_reset(&c->got);
    say(c, GET("/readyz") "\r\n");
    ok(has(c, "HTTP/1.1 503 ") && has(c, STATUS_SHUTTING_DOWN), "not once we stop");
    say(c, GET("/readyz/ping") "\r\n");
    ok(has(&w.local.conns[0], "/readyz/ping"), "parts of it");
    say(&w.local.conns[0], OK_ANSWER);
    say(client(&w), GET(PODS) "\r\n");
    ok(has(conn(&w.local, w.local.n_conns - 1), PODS) || has(conn(&w.local, 1), PODS), "and requests go on");
    proxy_kit_close(&w);
}

static bool goaway_has_come(const struct played_end *c)
{
    struct slice rest = buf_slice(&c->got);
    bool come = false;

    for (struct frame f; buf_len(&c->got) > 0 && frames_next(&rest, &f);)
        come = come || f.type == FRAME_GOAWAY;
    return come;
}

/* As with kube-apiserver: clients with HTTP/2, each with this chance, which is certainty here. */
static void sent_away(void)
{
    struct bytes f = {0};
    struct proxy_kit w;
    struct played_end *c;

    for (int chance = 0; chance < 2; chance++) {
        proxy_kit_init(&w, 0);
        w.front_tls = server_ctx(true);
        w.client_tls = client_ctx(NULL, true);
        w.opts.goaway_chance = chance;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, FRAMES_PREFACE);
        frame_add(&f, FRAME_SETTINGS, 0, 0, SLICE_NONE);
        frames_add_head(&f, FRAME_END_STREAM, 1, ":method: GET\n:scheme: https\n:path: " PODS "\n:authority: k\n");
        say_frames(c, &f);
        ok(has(conn(&w.local, 0), PODS), "a request over HTTP/2");
        say(&w.local.conns[0], OK_ANSWER);
        ok(has(c, "ok"), "is answered");
        proxy_kit_settle(&w);
        is_int(goaway_has_come(c), chance, "and sent away with chance %d", chance);
        proxy_kit_close(&w);
    }
    proxy_kit_init(&w, 0);
    w.opts.goaway_chance = 1;
    proxy_kit_start(&w);
    c = client(&w);
    say(c, GET(PODS) "\r\n");
    ok(has(conn(&w.local, 0), PODS), "a request over HTTP/1.1");
    say(&w.local.conns[0], OK_ANSWER);
    ok(has(c, "\r\n\r\nok") && !got(c, "Connection: close"), "is not sent away");
    proxy_kit_close(&w);
}

/* Half of all connections to servers are as many as one client may have. */
static void has_its_share(void)
{
    static const char *const requests[] = {GET(PODS "/b") "\r\n", GET("/apis") "Accept: " V2 "\r\n\r\n"};
    struct proxy_kit w;
    struct played_end *c;

    for (size_t i = 0; i < ROWS(requests); i++) {
        proxy_kit_open(&w, 0);
        back_set_connections(w.back, 2);
        say(client(&w), GET(PODS "/a") "\r\n");
        ok(has(conn(&w.local, 0), PODS), "a client with a request under way");
        c = client(&w);
        say(c, requests[i]);
        ok(has(c, "HTTP/1.1 429 ") && has(c, STATUS_WASTEFUL), "has no more at once, %zu", i);
        is_u64(w.local.n_conns, 1, "nothing is sent");
        proxy_kit_close(&w);
    }
}

/* What needs a connection of its own, where no more are allowed. */
static void no_connection_left(void)
{
    struct origin *only;
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_init(&w, 0);
    only = origin_new(
        w.back, &(struct origin_opts){.name = "only", .host = "127.0.0.1", .port = w.local.port, .max_connections = 1});
    if (only == NULL)
        tap_bail("no memory");
    w.opts.local = only;
    proxy_kit_start(&w);
    say(client(&w), GET(PODS "/x/exec") TO_SPDY);
    ok(has(conn(&w.local, 0), "/exec"), "one has the only connection");
    c = client(&w);
    say(c, GET(PODS "/x/exec") TO_SPDY);
    ok(has(c, "HTTP/1.1 503 ") && has(c, STATUS_OVERLOADED), "the next one hears that it is busy");
    for (size_t i = 0; i < w.n_clients; i++)
        hang_up(&w.clients[i], STREAM_CLOSE_NOW);
    proxy_kit_settle(&w);
    origin_unref(only);
    proxy_kit_close(&w);
}

int main(void)
{
    stopping();
    sent_away();
    has_its_share();
    no_connection_left();
    return tap_end();
}
