/* SPDX-License-Identifier: Apache-2.0 */
/* Clients behind a proxy of theirs that we trust: what one of them wastes is nobody else's trouble. */
#include "base/clock.h"
#include "base/limits.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#include <stdio.h>

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

static void ask_for(struct played_end *c, const char *forwarded)
{
    char head[300];

    (void)snprintf(head, sizeof(head), "GET " PODS " HTTP/1.1\r\nHost: k\r\n%s\r\n", forwarded);
    say(c, head);
}

/* Asks and leaves in the middle of a long answer, until servers get no more connections for it. */
static void waste(struct proxy_kit *w, const char *forwarded)
{
    for (size_t i = 0; i <= LIMIT_CHURN_DIALS; i++) {
        struct played_end *c = client(w), *s;

        ask_for(c, forwarded);
        s = conn(&w->local, w->local.n_conns);
        if (!has(s, "\r\n\r\n"))
            tap_bail("request %zu never came", i);
        say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        if (!has(c, "hello"))
            tap_bail("answer %zu never came", i);
        hang_up(c, STREAM_CLOSE_NOW);
        if (!until(w, s->eof || s->failed))
            tap_bail("connection %zu stays", i);
    }
}

static void expect(struct proxy_kit *w, const char *forwarded, bool served, const char *name)
{
    struct played_end *c = client(w);
    size_t before = w->local.n_conns;

    ask_for(c, forwarded);
    if (served) {
        ok(has(conn(&w->local, before), "\r\n\r\n"), "%s: asks the server", name);
        say(&w->local.conns[before], OK_ANSWER);
        ok(has(c, "\r\n\r\n{}"), "%s: is served", name);
        hang_up(&w->local.conns[before], STREAM_CLOSE_NOW);
    } else {
        proxy_kit_settle(w);
        is_u64(w->local.n_conns, before, "%s: waits", name); /* until the budget has recovered, or in vain */
        hang_up(c, STREAM_CLOSE_NOW);
    }
    proxy_kit_settle(w);
}

#define PROXIES_5 "127.0.0.2, 127.0.0.3, 127.0.0.4, 127.0.0.5, 127.0.0.6"
#define PROXIES_15 PROXIES_5 ", " PROXIES_5 ", " PROXIES_5

static void waster_among_others(const char *const *trusted, bool others_are_served)
{
    struct proxy_kit w;

    clock_fake(clock_us(), clock_wall_us());
    proxy_kit_init(&w, 0);
    w.opts.trusted_proxies = trusted;
    proxy_kit_start(&w);
    waste(&w, "X-Forwarded-For: 192.0.2.9, 192.0.2.1, 127.0.0.2\r\n");
    expect(&w, "X-Forwarded-For: 192.0.2.1\r\n", false, "who wasted");
    expect(&w, "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 127.0.0.3\r\n", false, "the same by another way");
    expect(&w, "X-Forwarded-For: 192.0.2.1, 192.0.2.2\r\n", others_are_served, "another");
    expect(&w, "X-Forwarded-For: 192.0.2.1, " PROXIES_15 "\r\n", false, "he behind as many proxies as are looked at");
    expect(&w, "X-Forwarded-For: 192.0.2.1, 127.0.0.2, " PROXIES_15 "\r\n", others_are_served, "behind one more");
    expect(&w, "X-Forwarded-For: 192.0.2.1, unknown\r\n", others_are_served, "nobody's address");
    expect(&w, "X-Forwarded-For: ,\r\n", others_are_served, "the proxy, naming nobody");
    expect(&w, "", others_are_served, "the proxy itself");
    proxy_kit_close(&w);
    clock_real();
}

int main(void)
{
    static const char *const trusted[] = {"127.0.0.0/8", NULL};

    waster_among_others(trusted, true);
    waster_among_others(NULL, false); /* what anybody says of himself */
    return tap_end();
}
