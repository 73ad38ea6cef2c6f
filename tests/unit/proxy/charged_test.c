/* SPDX-License-Identifier: Apache-2.0 */
/* What clients make us hold towards servers is charged to them: answers that they do not read, bodies that may have to
 * be sent again. */
#include "front/front.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#include <stdio.h>

#define IS_OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

enum { BODY = 40 << 10 };

static size_t held_by(struct proxy_kit *w)
{
    proxy_kit_settle(w);
    return front_memory(w->front);
}

static void kept_body(void)
{
    static char body[BODY];
    struct proxy_kit w;
    struct played_end *c;
    size_t before;

    proxy_kit_open(&w, 0);
    c = client(&w);
    say(c, "GET " PODS " HTTP/1.1\r\nHost: k\r\n\r\n");
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), IS_OK);
    ok(has(c, "\r\n\r\nok"), "a connection that has served one before");
    before = held_by(&w);
    memset(body, 'b', sizeof(body));
    say(c, "PUT " PODS "/x HTTP/1.1\r\nHost: k\r\nContent-Length: 40960\r\n\r\n");
    say_bytes(c, slice_of(body, sizeof(body)));
    ok(until(&w, w.local.conns[0].n_got >= BODY), "the server has the body");
    ok(held_by(&w) >= before + BODY, "and we have it, too, in case that it was not read (%zu bytes)",
       front_memory(w.front));
    say(conn(&w.local, 0), IS_OK);
    ok(until(&w, held_by(&w) == before), "not beyond the answer");
    proxy_kit_close(&w);
}

int main(void)
{
    kept_body();
    return tap_end();
}
