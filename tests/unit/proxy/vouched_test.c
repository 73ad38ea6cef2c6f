/* SPDX-License-Identifier: Apache-2.0 */
/* Who is no stranger any more once a server has taken his token: from its answer on, not from his next request on. */
#include <string.h>

#include "front/exchange.h"
#include "unit/proxy/kit.h"

#define AS_BOB "Host: k\r\nAuthorization: Bearer bob\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"

static unsigned vouched, known;

void __real_exchange_vouch(struct exchange *x);
void __wrap_exchange_vouch(struct exchange *x);
void __wrap_exchange_vouch(struct exchange *x)
{
    vouched++;
    __real_exchange_vouch(x);
}

void __real_stream_take_turns_of(struct stream *s, uint64_t whom, bool is_known);
void __wrap_stream_take_turns_of(struct stream *s, uint64_t whom, bool is_known);
void __wrap_stream_take_turns_of(struct stream *s, uint64_t whom, bool is_known)
{
    known += is_known && whom != 0;
    __real_stream_take_turns_of(s, whom, is_known);
}

/* On a connection of its own, as the first that shows this token or none. */
static void ask(const char *request, const char *answer, bool taken)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 0);
    c = client(&w);
    vouched = known = 0;
    say(c, request);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    is_u64(vouched + known, 0, "a stranger: %.40s", request);
    say(conn(&w.local, 0), answer);
    ok(has(c, "HTTP/1.1 "), "answered");
    is_int(vouched > 0, taken, "his connection has its turns with those who are known: %.20s", answer);
    if (!strstr(answer, " 101 "))
        is_int(known > 0, taken, "and so has that to the server, before the body comes");
    proxy_kit_close(&w);
}

int main(void)
{
    ask("GET " PODS " HTTP/1.1\r\n" AS_BOB "\r\n", OK, true);
    ask("GET " PODS " HTTP/1.1\r\n" AS_BOB "\r\n", "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n", true);
    ask("GET " PODS " HTTP/1.1\r\n" AS_BOB "\r\n", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n", false);
    ask("GET " PODS " HTTP/1.1\r\n" AS_BOB "\r\n", "HTTP/1.1 500 Not OK\r\nContent-Length: 2\r\n\r\n", false);
    ask("GET /version HTTP/1.1\r\nHost: k\r\n\r\n", OK, false);
    ask("GET " PODS "/x/exec HTTP/1.1\r\n" AS_BOB "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", true);
    return tap_end();
}
