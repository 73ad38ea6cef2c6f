/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests go on over HTTP/2 to a server that has little to do: what came over it, watches, and writes. */
#include <stdio.h>
#include <string.h>

#include "net/loop.h"
#include "net/tls_ctx.h"
#include "unit/net/fixture.h"
#include "unit/proxy/frames.h"
#include "unit/proxy/kit.h"

static const struct {
    bool http2; /* the client's connection */
    const char *method, *path;
    bool goes_over_http2;
} rows[] = {
    {false, "GET", PODS, false},          {false, "HEAD", PODS, false},       {false, "GET", PODS "?watch=1", true},
    {false, "POST", PODS, true},          {false, "DELETE", PODS "/x", true}, {true, "GET", PODS, true},
    {true, "GET", PODS "?watch=1", true}, {true, "DELETE", PODS "/x", true},
};

static void ask(struct played_end *c, bool http2, const char *method, const char *path)
{
    struct bytes f = {0};
    char text[400];

    if (http2) {
        (void)snprintf(text, sizeof(text), ":method: %s\n:scheme: https\n:path: %s\n:authority: k\n", method, path);
        say(c, FRAMES_PREFACE);
        frame_add(&f, FRAME_SETTINGS, 0, 0, SLICE_NONE);
        frames_add_head(&f, FRAME_END_STREAM, 1, text);
        say_frames(c, &f);
    } else {
        (void)snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: k\r\nContent-Length: 0\r\n\r\n", method, path);
        say(c, text);
    }
}

int main(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct proxy_kit w;
        struct played_end *s;

        proxy_kit_init_tls(&w, 0, server_ctx(true), client_ctx("front-proxy-client", false));
        w.front_tls = server_ctx(true);
        w.client_tls = client_ctx("alice", rows[i].http2);
        w.opts.can_assert = true;
        proxy_kit_start(&w);
        ask(client(&w), rows[i].http2, rows[i].method, rows[i].path);
        s = conn(&w.local, 0);
        ok(until(&w, s->opened && s->n_got > 0), "%s %s: asked", rows[i].method, rows[i].path);
        is_int(strcmp(stream_alpn(s->s), "h2") == 0, rows[i].goes_over_http2, "%s %s, of a client with HTTP/%s",
               rows[i].method, rows[i].path, rows[i].http2 ? "2" : "1.1");
        proxy_kit_close(&w);
    }
    return tap_end();
}
