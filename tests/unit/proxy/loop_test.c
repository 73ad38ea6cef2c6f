/* SPDX-License-Identifier: Apache-2.0 */
/* A question of ours has come back to us: what is sent to the local server would go round for ever. */
#include "back/loop_token.h"

#include <stdio.h>

#include "back/back.h"
#include "net/loop.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"
#include "unit/proxy/kit.h"

#define V2 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

static struct origin *last; /* the local server, which no mvproxy may stand before */

/* `certificate`: the client's; NULL: without TLS. */
static void open_world(struct proxy_kit *w, const char *certificate)
{
    proxy_kit_init(w, 1);
    if (certificate != NULL) {
        w->front_tls = server_ctx(false);
        w->client_tls = client_ctx(certificate, false);
    }
    last = origin_new(w->back,
                      &(struct origin_opts){.name = "last", .host = "127.0.0.1", .port = w->local.port, .last = true});
    if (last == NULL)
        tap_bail("no memory");
    w->opts.local = last;
    w->local_has_jobs = true;
    proxy_kit_start(w);
}

static void close_world(struct proxy_kit *w)
{
    for (size_t i = 0; i < w->n_clients; i++)
        hang_up(&w->clients[i], STREAM_CLOSE_NOW);
    proxy_kit_settle(w);
    origin_unref(last);
    proxy_kit_close(w);
}

static struct played_end *ask(struct proxy_kit *w, const char *path, const char *fields)
{
    struct played_end *c = client(w);
    char request[1000];

    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: k\r\nAuthorization: Bearer t\r\n%s\r\n", path,
                   fields);
    say(c, request);
    return c;
}

static void comes_back(void)
{
    static const struct {
        const char *path, *fields;
    } rows[] = {{PODS, ""}, {"/apis", "Accept: " V2 "\r\n"}, {"/version", ""}};
    char field[200];
    struct proxy_kit w;
    struct played_end *c;

    open_world(&w, NULL);
    c = ask(&w, "/readyz", LOOP_TOKEN_FIELD ": none of ours\r\n");
    ok(has(conn(&w.local, 0), "/readyz"), "another's question is a request like any other");
    (void)snprintf(field, sizeof(field), LOOP_TOKEN_FIELD ": %s\r\n", loop_token_of(last, SLICE_LIT("/readyz")));
    c = ask(&w, "/readyz", field);
    ok(has(c, "HTTP/1.1 508 "), "ours is refused");
    ok(has(c, "Connection: close\r\n"), "and its connection ends");
    is_u64(w.local.n_conns, 1, "it goes nowhere");
    ok(origin_loops(last), "that is known from now on");
    for (size_t i = 0; i < ROWS(rows); i++) {
        c = ask(&w, rows[i].path, rows[i].fields);
        ok(has(c, "HTTP/1.1 508 ") && has(c, "Connection: close\r\n"), "%s: refused as well", rows[i].path);
    }
    is_u64(w.local.n_conns, 1, "nothing else goes there");
    close_world(&w);
}

/* Whoever has sent it on is an mvproxy, which must not take 508 for the server's. */
static void sent_on(void)
{
    struct proxy_kit w;
    struct played_end *c;

    open_world(&w, "front-proxy-client");
    (void)loop_token_came_back(last, slice_str(loop_token_of(last, SLICE_LIT("/readyz"))));
    c = ask(&w, PODS, "x-kubernetes-peer-proxied: true\r\n");
    ok(has(c, "HTTP/1.1 503 "), "what a peer has sent on: 503");
    ok(!got(c, "Connection: close\r\n"), "whose connection goes on");
    close_world(&w);
}

int main(void)
{
    comes_back();
    sent_on();
    return tap_end();
}
