/* SPDX-License-Identifier: Apache-2.0 */
/* Upgraded connections: what goes through, and how each end's leaving reaches the other. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "front/front.h"
#include "net/loop.h"
#include "proxy/tunnel.h"
#include "unit/proxy/kit.h"

#define ASK "GET " PODS "/x/exec HTTP/1.1\r\nHost: k\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
#define SWITCH                                                                                                         \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Mvproxy-Hop: z\r\n\r\n"

static struct played_end *upgraded(struct proxy_kit *w, struct played_end **server)
{
    struct played_end *c = client(w);

    say(c, ASK);
    *server = conn(&w->local, w->local.n_conns);
    ok(has(*server, "Upgrade: SPDY/3.1"), "the wish goes on");
    say(*server, SWITCH);
    ok(has(c, "HTTP/1.1 101 ") && has(c, "Upgrade: SPDY/3.1\r\n"), "the protocol is switched");
    ok(!got(c, "X-Mvproxy-Hop"), "nobody speaks in our name");
    is_u64(proxy_tunnels(w->proxy), 1, "one tunnel");
    is_double(proxy_kit_metric(w, "mvproxy_tunnels", NULL), 1, "is shown");
    return c;
}

static void client_ends_first(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 0);
    c = upgraded(&w, &s);
    say(c, "ping");
    ok(has(s, "ping"), "bytes to the server");
    stream_finish_writing(c->s);
    ok(ended(s) && s->eof, "the client's end reaches the server");
    say(s, "last words");
    ok(has(c, "last words"), "who may still speak");
    stream_finish_writing(s->s);
    ok(ended(c) && c->eof, "until it ends, too");
    ok(until(&w, proxy_tunnels(w.proxy) == 0), "then the tunnel is over");
    is_double(proxy_kit_metric(&w, "mvproxy_tunnels", NULL), 0, "and no longer shown");
    is_double(proxy_kit_metric(&w, "mvproxy_tunnel_client_bytes_total", NULL), 4, "bytes of the client");
    is_double(proxy_kit_metric(&w, "mvproxy_tunnel_server_bytes_total", NULL), 10, "bytes of the server");
    is_double(proxy_kit_metric(&w, "apiserver_request_total", "101"), 0, "as kube-apiserver counts it");
    is_double(proxy_kit_metric(&w, "apiserver_request_total", "0"), 1, "without a code");
    proxy_kit_close(&w);
}

static void server_ends_first(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 0);
    c = upgraded(&w, &s);
    say(s, "all of it");
    stream_finish_writing(s->s);
    ok(has(c, "all of it") && ended(c) && c->eof, "the server's end reaches the client, after its bytes");
    say(c, "thanks");
    ok(has(s, "thanks"), "who may still speak");
    stream_finish_writing(c->s);
    ok(until(&w, proxy_tunnels(w.proxy) == 0), "then the tunnel is over");
    proxy_kit_close(&w);
}

/* 101, bytes of the new protocol and the end in one piece. */
static void all_at_once(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 0);
    c = client(&w);
    say(c, ASK);
    s = conn(&w.local, 0);
    (void)has(s, "\r\n\r\n");
    say(s, SWITCH "hello");
    stream_finish_writing(s->s);
    ok(has(c, "\r\n\r\nhello"), "bytes that came with the 101 are not lost");
    ok(ended(c) && c->eof, "nor is the end");
    proxy_kit_close(&w);
}

enum { MUCH = 16 << 20 };

/* Both sides have ended long before a reader that pauses has got all. */
static void slow_reader(void)
{
    static char block[64 << 10];
    struct proxy_kit w;
    struct played_end *c, *s;
    size_t sent = 0;

    proxy_kit_open(&w, 0);
    c = upgraded(&w, &s);
    c->count_only = true;
    c->n_got = 0;
    stop_reading(c);
    for (unsigned idle = 0; sent < MUCH && idle < 20;) {
        if (stream_congested(s->s)) {
            loop_run_once(w.loop, 5);
            idle++;
            continue;
        }
        idle = 0;
        say_bytes(s, slice_of(block, sizeof(block)));
        sent += sizeof(block);
    }
    ok(sent < MUCH, "a reader that pauses holds the writer back (%zu bytes)", sent);
    stream_finish_writing(s->s);
    stream_finish_writing(c->s);
    for (unsigned i = 0; i < 600; i++) /* longer than a closed stream may linger */
        loop_run_once(w.loop, 5);
    go_on_reading(c);
    ok(until(&w, c->eof), "the reader sees the end");
    is_u64(c->n_got, sent, "and all before it");
    ok(until(&w, proxy_tunnels(w.proxy) == 0), "then the tunnel is over");
    proxy_kit_close(&w);
}

/* ---- the tunnel alone, over pairs of sockets ---- */

static const char *over; /* why it ended */

static void on_over(void *arg, uint64_t client_bytes, uint64_t server_bytes, const char *reason)
{
    (void)arg;
    (void)client_bytes;
    (void)server_bytes;
    over = reason;
}

/* A stream over one end; the other end is the test's. */
static struct stream *socket_stream(struct loop *l, int *other)
{
    struct stream_opts none = {0};
    int fds[2], small = 4096;
    struct stream *s;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0 ||
        setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) != 0)
        tap_bail("no sockets");
    s = stream_accept(l, fds[0], &none);
    if (s == NULL)
        tap_bail("no memory");
    *other = fds[1];
    return s;
}

/* So long nothing happens; then what is due comes. */
static void pass(struct loop *l, uint64_t ms)
{
    clock_fake(clock_us() + ms * 1000, clock_wall_us());
    for (unsigned i = 0; i < 5; i++)
        loop_run_once(l, 5);
}

/* Both sides have ended, and the client takes what is left in pieces, or nothing. */
static void reader_with_a_shut_window(bool takes_some)
{
    static char bytes[48 << 10];
    char piece[2048];
    struct loop *l = loop_new(NULL);
    int client, server;
    struct stream *c = socket_stream(l, &client), *s = socket_stream(l, &server);

    over = NULL;
    clock_fake(1000000, 1700000000000000);
    for (unsigned i = 0; i < 5; i++)
        loop_run_once(l, 5);
    ok(tunnel_start(l, c, s, on_over, NULL) != NULL, "a tunnel");
    ok(write(server, bytes, sizeof(bytes)) == sizeof(bytes), "the server has written");
    (void)shutdown(server, SHUT_WR);
    (void)shutdown(client, SHUT_WR);
    for (unsigned i = 0; i < 10; i++)
        pass(l, 10);
    ok(over == NULL, "both have ended, the client has not taken all");
    for (unsigned i = 0; i < (takes_some ? 8 : 3); i++) {
        pass(l, TIMEOUT_BODY_STALL_MS / 4);
        if (takes_some && read(client, piece, sizeof(piece)) <= 0)
            tap_bail("nothing to take");
    }
    if (takes_some) {
        ok(over == NULL, "two minutes of a slow reader: it goes on");
        for (unsigned i = 0; i < 500 && over == NULL; i++) {
            (void)!read(client, piece, sizeof(piece));
            pass(l, 100);
        }
        is_str(over, "both sides ended", "until he has all");
    } else {
        ok(over == NULL, "not a minute without a byte: it goes on");
        /* The timer is the kernel's: on a busy machine more of its time has passed, so that looks are rarer by now. */
        for (unsigned i = 0; i < 1000 && over == NULL; i++)
            pass(l, TIMEOUT_BODY_STALL_MS / 4);
        is_str(over, "reader takes nothing", "a minute without a byte: over");
    }
    close(client);
    close(server);
    for (unsigned i = 0; i < 5; i++)
        pass(l, 10);
    clock_real();
    loop_free(l);
}

/* One side has ended, and the other does not: what it still sends arrives, but silence is not kept for ever. */
static void half_open(bool speaks, bool reads)
{
    static char bytes[48 << 10];
    char piece[sizeof(bytes)];
    struct loop *l = loop_new(NULL);
    int client, server;
    struct stream *c = socket_stream(l, &client), *s = socket_stream(l, &server);
    const char *name = speaks ? "who speaks" : reads ? "who is silent" : "who does not read";
    unsigned quarters = 0;

    over = NULL;
    clock_fake(1000000, 1700000000000000);
    for (unsigned i = 0; i < 5; i++)
        loop_run_once(l, 5);
    ok(tunnel_start(l, c, s, on_over, NULL) != NULL, "%s: a tunnel", name);
    ok(write(server, bytes, sizeof(bytes)) == sizeof(bytes), "%s: the server has written", name);
    (void)shutdown(server, SHUT_WR);
    for (; over == NULL && quarters < (speaks ? 12 : 400); quarters++) {
        if (reads)
            (void)!read(client, piece, sizeof(piece));
        if (speaks && write(client, "x", 1) != 1)
            tap_bail("the client cannot write");
        pass(l, TIMEOUT_BODY_STALL_MS / 4);
        if (speaks && read(server, piece, sizeof(piece)) != 1)
            tap_bail("the server gets nothing");
    }
    if (speaks) {
        ok(over == NULL, "%s: goes on for minutes", name);
        (void)shutdown(client, SHUT_WR);
        for (unsigned i = 0; i < 50 && over == NULL; i++)
            pass(l, 100);
        is_str(over, "both sides ended", "%s: until both have ended", name);
    } else {
        is_str(over, reads ? "nothing moves after one side's end" : "reader takes nothing", "%s: over", name);
        ok(quarters >= 4, "%s: not before a minute has passed", name);
    }
    close(client);
    close(server);
    for (unsigned i = 0; i < 5; i++)
        pass(l, 10);
    clock_real();
    loop_free(l);
}

/* Without memory for what the other side does not take yet the tunnel ends: nothing is left out of what goes through.
 */
static void without_memory(void)
{
    static char bytes[48 << 10];
    unsigned failed = 0;

    for (uint64_t nth = 1; nth <= 6; nth++) {
        struct loop *l = loop_new(NULL);
        int client, server;
        struct stream *c = socket_stream(l, &client), *s = socket_stream(l, &server);
        struct tunnel *t;

        over = NULL;
        t = tunnel_start(l, c, s, on_over, NULL);
        ok(write(server, bytes, sizeof(bytes)) == sizeof(bytes), "allocation %u: the server has written",
           (unsigned)nth);
        mem_fail_nth(nth);
        for (unsigned i = 0; i < 10; i++)
            loop_run_once(l, 1);
        mem_fail_nth(0);
        ok(over == NULL || strcmp(over, "write failed") == 0 || strcmp(over, "server failed") == 0,
           "it ends, or goes on");
        failed += over != NULL && strcmp(over, "write failed") == 0;
        if (over == NULL)
            tunnel_cancel(t);
        close(client);
        close(server);
        for (unsigned i = 0; i < 5; i++)
            loop_run_once(l, 1);
        loop_free(l);
    }
    ok(failed > 0, "%u times it could not write", failed);
}

/* What a client sends and the server does not read is held for that client, whoever's the tunnel is. */
static void charged(bool front_goes_first)
{
    static char block[16 << 10];
    struct proxy_kit w;
    struct played_end *c, *s;
    size_t before;
    bool held;

    proxy_kit_open(&w, 0);
    c = upgraded(&w, &s);
    proxy_kit_settle(&w);
    before = front_memory(w.front);
    stop_reading(s);
    for (unsigned idle = 0; idle < 20; loop_run_once(w.loop, 5)) {
        idle = stream_congested(c->s) ? idle + 1 : 0;
        if (idle == 0)
            say_bytes(c, slice_of(block, sizeof(block)));
    }
    /* They wait to be sent; behind them there is as much as one look into the kernel has brought from the client. */
    held = until(&w, front_memory(w.front) >= before + LIMIT_STREAM_OUTPUT_HIGH);
    ok(held, "what a server does not read is charged (%zu bytes, %zu before)", front_memory(w.front), before);
    if (!front_goes_first) {
        hang_up(s, STREAM_CLOSE_ABORT);
        ok(ended(c) && until(&w, proxy_tunnels(w.proxy) == 0), "the server goes");
        ok(until(&w, front_memory(w.front) == 0), "and it is given back");
    }
    proxy_kit_close(&w); /* the front, and then the proxy, which has the tunnel */
}

static void broken(void)
{
    struct proxy_kit w;
    struct played_end *c, *s;

    proxy_kit_open(&w, 0);
    c = upgraded(&w, &s);
    hang_up(c, STREAM_CLOSE_ABORT);
    ok(ended(s) && s->failed, "a client's reset reaches the server");
    ok(until(&w, proxy_tunnels(w.proxy) == 0), "and ends the tunnel");
    c = upgraded(&w, &s);
    hang_up(s, STREAM_CLOSE_ABORT);
    ok(ended(c) && c->failed, "a server's the client");
    ok(until(&w, proxy_tunnels(w.proxy) == 0), "and ends the tunnel");
    proxy_kit_close(&w);
}

static void ended_by_us(void)
{
    struct proxy_kit w;
    struct played_end *c, *s, *c2, *s2;

    proxy_kit_open(&w, 0);
    c = upgraded(&w, &s);
    ok(until(&w, proxy_long_running(w.proxy) == 0), "it is no request any more");
    is_u64(proxy_end_long_running(w.proxy, 5), 1, "the tunnel is ended");
    ok(ended(c) && ended(s), "both sides see it");
    c2 = upgraded(&w, &s2);
    (void)c2;
    proxy_kit_close(&w);
    ok(true, "one that is left ends with the proxy");
}

static void refused(void)
{
    struct proxy_kit w;
    struct played_end *c;

    proxy_kit_open(&w, 0);
    c = client(&w);
    say(c, ASK);
    (void)has(conn(&w.local, 0), "\r\n\r\n");
    say(conn(&w.local, 0), "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    ok(has(c, "HTTP/1.1 403 ") && has(c, "\r\n\r\nno"), "another answer than 101 is relayed as it is");
    is_u64(proxy_tunnels(w.proxy), 0, "without a tunnel");
    proxy_kit_close(&w);
}

int main(void)
{
    client_ends_first();
    server_ends_first();
    all_at_once();
    slow_reader();
    reader_with_a_shut_window(false);
    reader_with_a_shut_window(true);
    half_open(true, true);
    half_open(false, true);
    half_open(false, false);
    without_memory();
    charged(false);
    charged(true);
    broken();
    ended_by_us();
    refused();
    return tap_end();
}
