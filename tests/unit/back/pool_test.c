/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools and origins: order of the queue, limits, idle connections, health, the life of an origin.
 */
#include <sys/resource.h>

#include "base/clock.h"
#include "net/listener.h"
#include "unit/back/kit.h"

#define OK5 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

/* With one connection allowed, requests go in the order in which they came. */
static void queue_order(bool tls)
{
    enum { N = 20 };
    static struct back_kit k;
    static struct call c[N];
    char text[64];
    struct server_conn *s;

    back_kit_open(&k, tls, 1);
    for (int i = 0; i < N; i++) {
        (void)snprintf(text, sizeof(text), "/%c", 'a' + i);
        call_init(&c[i], &k, "GET", "/");
        c[i].head.target = arena_copy(c[i].arena, slice_str(text));
        call_send(&c[i]);
    }
    s = back_kit_conn(&k, 0);
    for (int i = 0; i < N; i++) {
        (void)snprintf(text, sizeof(text), "GET /%c HTTP/1.1\r\nHost: h\r\n\r\n", 'a' + i);
        ok(conn_has(s, text), "request %d", i);
        settle(k.loop);
        is_str(conn_take(s), text, "alone");
        if (i == 10) { /* in the middle the server leaves: the order stays */
            conn_close(s, STREAM_CLOSE_NOW);
            s = back_kit_conn(&k, 1);
            i--;
            (void)snprintf(text, sizeof(text), "GET /%c ", 'a' + 11);
            ok(conn_has(s, text), "the next who waits has the new connection");
            conn_take(s);
            for (int j = 11; j < N; j++) {
                conn_say(s, OK5);
                ok(call_is(&c[j], "head(200) end"), "request %d", j);
                (void)snprintf(text, sizeof(text), "GET /%c ", 'a' + (j + 1 < N ? j + 1 : 10));
                ok(conn_has(s, text), "then %s", text);
                conn_take(s);
            }
            conn_say(s, OK5);
            ok(call_is(&c[10], "head(200) end"), "the one that was sent again comes last");
            break;
        }
        conn_say(s, OK5);
        ok(call_is(&c[i], "head(200) end"), "answer %d", i);
    }
    is_u64(k.n_conns, 2, "never more than one at a time");
    for (int i = 0; i < N; i++)
        call_free(&c[i]);
    back_kit_close(&k);
}

/* Who waits for a handshake takes a connection that becomes idle meanwhile. */
static void first_idle_serves(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call a, b;

    back_kit_open(&k, false, 2);
    call_start(&a, &k, "GET", "/a");
    s = back_kit_conn(&k, 0);
    ok(conn_has(s, "/a"), "first");
    conn_say(s, OK5);
    listener_pause(k.listener); /* new connections complete in the kernel, but nobody answers on them */
    ok(call_is(&a, "head(200) end"), "answered");
    call_start(&b, &k, "GET", "/b");
    ok(conn_has(s, "/b"), "the idle one serves");
    conn_say(s, OK5);
    ok(call_is(&b, "head(200) end"), "answered");
    listener_resume(k.listener);
    call_free(&a);
    call_free(&b);
    back_kit_close(&k);
}

static void many_at_once(bool tls)
{
    enum { N = 300 };
    static struct back_kit k;
    static struct call c[N];
    size_t done = 0;

    back_kit_open(&k, tls, 7);
    k.auto_reply = OK5;
    for (size_t i = 0; i < N; i++)
        call_start(&c[i], &k, i % 3 == 0 ? "DELETE" : "GET", "/");
    is_u64(origin_in_flight(k.origin), N, "in flight");
    for (size_t i = 0; i < N; i++) {
        done += call_is(&c[i], "head(200) end");
        call_free(&c[i]);
    }
    is_u64(done, N, "%sall are served", tls ? "TLS: " : "");
    is_u64(k.n_conns, 7, "by as many connections as allowed");
    back_kit_close(&k);
}

/* More than are dialled at once: the rest takes what becomes free, or what is dialled next. */
static void burst(void)
{
    enum { N = 3 * LIMIT_POOL_DIALS };
    static struct back_kit k;
    static struct call c[N];
    size_t done = 0;

    back_kit_open(&k, false, 0);
    for (size_t i = 0; i < N; i++)
        call_start(&c[i], &k, "GET", "/");
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "dialling"), LIMIT_POOL_DIALS,
              "a burst dials so many at once");
    ok(run_until(k.loop, k.n_conns == N), "but nobody waits for ever: all get a connection");
    for (size_t i = 0; i < N; i++)
        if (conn_has(back_kit_conn(&k, i), "\r\n\r\n"))
            conn_say(&k.conns[i], OK5);
    for (size_t i = 0; i < N; i++) {
        done += call_is(&c[i], "head(200) end");
        call_free(&c[i]);
    }
    is_u64(done, N, "and an answer");
    back_kit_close(&k);
}

/* More than are kept idle: the others are closed, and not as if their server had gone. */
static void surplus(void)
{
    enum { MORE = 2, N = LIMIT_POOL_IDLE_PER_ORIGIN + MORE };
    static struct back_kit k;
    static struct call c[N];
    struct rlimit most;
    size_t done = 0;

    if (getrlimit(RLIMIT_NOFILE, &most) == 0) {
        most.rlim_cur = most.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &most);
    }
    back_kit_open(&k, false, 0);
    for (size_t i = 0; i < N; i++)
        call_start(&c[i], &k, "GET", "/");
    ok(run_until(k.loop, k.n_conns == N), "more connections than are kept idle");
    for (size_t i = 0; i < N; i++)
        if (conn_has(back_kit_conn(&k, i), "\r\n\r\n"))
            conn_say(&k.conns[i], OK5);
    for (size_t i = 0; i < N; i++) {
        done += call_is(&c[i], "head(200) end");
        call_free(&c[i]);
    }
    is_u64(done, N, "all are served");
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), LIMIT_POOL_IDLE_PER_ORIGIN, "so many stay");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "surplus"), MORE, "the rest is a surplus");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "origin_gone"), 0,
              "and its server not gone");
    back_kit_close(&k);
}

static void busy(void)
{
    static struct back_kit k;
    struct call a, b;

    back_kit_open(&k, false, 1);
    back_kit_origin(&k, &(struct origin_opts){.max_connections = 1, .connect_timeout_ms = 200});
    call_start(&a, &k, "GET", "/a");
    ok(conn_has(back_kit_conn(&k, 0), "/a"), "the only connection");
    call_init(&b, &k, "POST", "/exec");
    b.opts.upgrade = true;
    call_send(&b);
    ok(call_is(&b, "failed: busy"), "an upgrade beyond the limit is refused at once");
    call_free(&b);
    call_start(&b, &k, "GET", "/b");
    ok(call_is(&b, "failed: busy"), "who waits too long is refused");
    ok(!b.failure.request_sent, "and nothing of it was sent");
    call_free(&b);
    call_free(&a);
    back_kit_close(&k);
}

/* The only connection serves no further request: whoever waits has another. */
static void busy_until_closed(void)
{
    static struct back_kit k;
    struct call a, b;

    back_kit_open(&k, false, 1);
    call_start(&a, &k, "GET", "/a");
    ok(conn_has(back_kit_conn(&k, 0), "/a"), "the only connection");
    call_start(&b, &k, "GET", "/b");
    conn_say(&k.conns[0], "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
    ok(call_is(&a, "head(200) end"), "its last answer");
    ok(conn_has(back_kit_conn(&k, 1), "/b"), "the next request is sent on another one");
    conn_say(&k.conns[1], OK5);
    ok(call_is(&b, "head(200) end"), "and answered");
    call_free(&a);
    call_free(&b);
    back_kit_close(&k);
}

static void idle_reaping(void)
{
    static struct back_kit k;
    struct call c[2];

    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.idle_timeout_ms = 100});
    k.auto_reply = OK5;
    for (size_t i = 0; i < 2; i++)
        call_start(&c[i], &k, "GET", "/");
    for (size_t i = 0; i < 2; i++) {
        ok(call_is(&c[i], "head(200) end"), "answer %zu", i);
        call_free(&c[i]);
    }
    is_u64(k.n_conns, 2, "two connections");
    ok(conn_closed(&k.conns[0]) && conn_closed(&k.conns[1]), "are closed when nobody needs them");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "idle_timeout"), 2, "and counted so");
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), 0, "none is idle");
    back_kit_close(&k);
}

/* One after the other: each has its own time, whatever became of the one before. */
static void idle_at_different_times(void)
{
    static struct back_kit k;
    struct call c[2];

    clock_fake(clock_us(), clock_wall_us());
    back_kit_open(&k, false, 0);
    back_kit_origin(&k, &(struct origin_opts){.idle_timeout_ms = 100});
    for (size_t i = 0; i < 2; i++)
        call_start(&c[i], &k, "GET", "/");
    for (size_t i = 0; i < 2; i++) {
        struct server_conn *s = back_kit_conn(&k, i);

        ok(conn_has(s, "\r\n\r\n"), "request %zu", i);
        conn_say(s, OK5);
        ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "idle") > (double)i), "idle");
        clock_fake(clock_us() + 60000, clock_wall_us());
    }
    ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "idle") < 2), "the first has had its time");
    settle(k.loop);
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), 1, "the other one has not");
    clock_fake(clock_us() + 60000, clock_wall_us());
    ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "idle") < 1), "until it has");
    for (size_t i = 0; i < 2; i++)
        call_free(&c[i]);
    clock_real();
    back_kit_close(&k);
}

static double hung(struct back_kit *k)
{
    return back_kit_metric(k, "mvproxy_back_connections_closed_total", "origin_hangs");
}

/* The server has left a question unanswered: what is idle is not trusted, what is under way may still be answered. */
static void suspected(void)
{
    static struct back_kit k;
    struct server_conn *busy, *idle;
    struct call a, b;

    clock_fake(clock_us(), clock_wall_us());
    back_kit_open(&k, false, 0);
    call_start(&a, &k, "GET", "/busy");
    call_start(&b, &k, "GET", "/idle");
    ok(conn_has(back_kit_conn(&k, 0), "\r\n\r\n") && conn_has(back_kit_conn(&k, 1), "\r\n\r\n"), "two connections");
    busy = buf_has(&k.conns[0].got, "/busy") ? &k.conns[0] : &k.conns[1];
    idle = busy == &k.conns[0] ? &k.conns[1] : &k.conns[0];
    conn_say(idle, OK5);
    ok(call_is(&b, "head(200) end"), "one is idle");
    call_free(&b);
    origin_suspect(k.origin);
    ok(conn_closed(idle), "the idle one is closed");
    is_double(hung(&k), 1, "for that reason");
    conn_say(busy, OK5);
    ok(call_is(&a, "head(200) end"), "what was under way is answered");
    call_free(&a);
    origin_suspect(k.origin);
    settle(k.loop);
    is_double(hung(&k), 1, "soon again: the connections of one that is merely slow are kept");
    clock_fake(clock_us() + (TIMEOUT_SUSPECT_MS - 1) * 1000ULL, clock_wall_us());
    settle(k.loop);
    origin_suspect(k.origin);
    settle(k.loop);
    ok(!busy->eof && !busy->failed, "still too soon");
    clock_fake(clock_us() + 1000, clock_wall_us());
    settle(k.loop);
    origin_suspect(k.origin);
    ok(conn_closed(busy), "later");
    is_double(hung(&k), 2, "they are closed once more");
    clock_real();
    back_kit_close(&k);
}

static void later(struct back_kit *k, uint64_t ms)
{
    clock_fake(clock_us() + ms * 1000, clock_wall_us());
    settle(k->loop);
}

enum { DEAD_MS = TIMEOUT_H2_PING_MS + TIMEOUT_H2_PONG_MS }; /* so long a client of the server's own would wait */

static const char HALF[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe";

static void begin(struct call *c, struct back_kit *k, size_t conn, const char *target, const char *answer)
{
    call_init(c, k, "GET", target);
    c->opts.movable = strcmp(target, "/movable") == 0;
    c->opts.watch = strcmp(target, "/watch") == 0;
    call_send(c);
    ok(conn_has(back_kit_conn(k, conn), target), "a request for %s", target);
    conn_say(&k->conns[conn], answer);
    settle(k->loop);
}

/* The server says nothing for so long that a client of its own would give it up, too: what is under way ends. */
static void gives_up(void)
{
    static struct back_kit k;
    struct call unanswered, half, slow, late;

    clock_fake(clock_us(), clock_wall_us());
    back_kit_open(&k, false, 0);
    begin(&unanswered, &k, 0, "/a", "");
    begin(&half, &k, 1, "/b", HALF);
    begin(&slow, &k, 2, "/c", HALF); /* its client does not read */
    back_pause(slow.r);
    later(&k, 1);
    ok(origin_healthy(k.origin), "healthy");
    origin_suspect(k.origin);
    ok(!origin_healthy(k.origin), "one that hangs is none to be asked first");
    later(&k, DEAD_MS - 1);
    begin(&late, &k, 3, "/d", "");
    origin_suspect(k.origin);
    settle(k.loop);
    ok(call_is(&unanswered, "") && call_is(&half, "head(200)"), "not yet: it may go on");
    later(&k, 1);
    origin_suspect(k.origin);
    settle(k.loop);
    ok(call_is(&unanswered, "failed: unanswered"), "what has no answer, and no second attempt there");
    ok(call_is(&half, "head(200) failed: body"), "what has half of one");
    ok(call_is(&slow, "head(200)"), "not what waits for its client");
    ok(call_is(&late, ""), "nor who has just come");
    back_resume(slow.r);
    conn_say(&k.conns[2], "llo");
    settle(k.loop);
    ok(call_is(&slow, "head(200) end"), "which may have come before");
    ok(origin_healthy(k.origin), "whoever says something does not hang");
    call_free(&unanswered);
    call_free(&half);
    call_free(&slow);
    call_free(&late);
    clock_real();
    back_kit_close(&k);
}

/* What another server can answer is asked there long before, and who reads a watch goes on elsewhere. */
static void moves(void)
{
    static struct back_kit k;
    struct call c[4];

    clock_fake(clock_us(), clock_wall_us());
    back_kit_open(&k, false, 0);
    begin(&c[0], &k, 0, "/movable", "");
    begin(&c[1], &k, 1, "/alone", "");
    begin(&c[2], &k, 2, "/watch", HALF);
    begin(&c[3], &k, 3, "/log", HALF);
    later(&k, 1);
    origin_suspect(k.origin);
    later(&k, TIMEOUT_H2_PONG_MS - 1);
    origin_suspect(k.origin);
    settle(k.loop);
    ok(call_is(&c[0], "") && call_is(&c[2], "head(200)"), "not yet");
    later(&k, 1);
    origin_suspect(k.origin);
    settle(k.loop);
    ok(call_is(&c[0], "failed: given_up"), "what may be asked elsewhere");
    ok(call_is(&c[2], "head(200) failed: body"), "a watch");
    conn_say(&k.conns[1], OK5);
    conn_say(&k.conns[3], "llo");
    ok(call_is(&c[1], "head(200) end") && call_is(&c[3], "head(200) end"), "not what would be lost");
    for (size_t i = 0; i < ROWS(c); i++)
        call_free(&c[i]);
    clock_real();
    back_kit_close(&k);
}

/* A byte in between, on whatever connection: it is slow, and has its time. */
static void is_slow(void)
{
    static struct back_kit k;
    struct call a, b;

    clock_fake(clock_us(), clock_wall_us());
    back_kit_open(&k, false, 0);
    call_start(&a, &k, "GET", "/a");
    ok(conn_has(back_kit_conn(&k, 0), "/a"), "a request");
    call_start(&b, &k, "GET", "/b");
    ok(conn_has(back_kit_conn(&k, 1), "/b"), "another");
    later(&k, 1);
    origin_suspect(k.origin);
    later(&k, DEAD_MS - 1);
    conn_say(&k.conns[1], OK5);
    ok(call_is(&b, "head(200) end"), "the other is answered");
    later(&k, 1);
    origin_suspect(k.origin);
    later(&k, DEAD_MS - 1);
    origin_suspect(k.origin);
    settle(k.loop);
    conn_say(&k.conns[0], OK5);
    ok(call_is(&a, "head(200) end"), "and then the first");
    call_free(&a);
    call_free(&b);
    clock_real();
    back_kit_close(&k);
}

/* Who waits for a connection that others have gets the next one, not one that was closed. */
static void suspected_with_waiting(void)
{
    static struct back_kit k;
    struct call a, b;

    back_kit_open(&k, false, 1);
    call_start(&a, &k, "GET", "/a");
    ok(conn_has(back_kit_conn(&k, 0), "/a"), "the only connection");
    call_start(&b, &k, "GET", "/b");
    origin_suspect(k.origin);
    conn_say(&k.conns[0], OK5);
    ok(call_is(&a, "head(200) end") && conn_has(&k.conns[0], "/b"), "it goes on with who has waited");
    conn_say(&k.conns[0], OK5);
    ok(call_is(&b, "head(200) end"), "as ever");
    call_free(&a);
    call_free(&b);
    back_kit_close(&k);
}

/* Not all in one turn; but from the first on nobody is given one of them. */
static void many_suspected(void)
{
    enum { N = 100, AT_ONCE = 32 };
    static struct back_kit k;
    static struct call calls[N];
    struct call a, b;

    back_kit_open(&k, false, 0);
    for (size_t i = 0; i < N; i++)
        call_start(&calls[i], &k, "GET", "/");
    ok(run_until(k.loop, k.n_conns == N), "a connection for each");
    for (size_t i = 0; i < N; i++)
        if (conn_has(back_kit_conn(&k, i), "\r\n\r\n"))
            conn_say(&k.conns[i], OK5);
    for (size_t i = 0; i < N; i++) {
        (void)call_over(&calls[i]);
        call_free(&calls[i]);
    }
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), N, "so many are idle");
    origin_suspect(k.origin);
    is_double(back_kit_metric(&k, "mvproxy_back_connections", "idle"), N - AT_ONCE, "some are closed at once");
    call_start(&a, &k, "GET", "/a");
    ok(conn_has(back_kit_conn(&k, N), "/a"), "a request gets a new one");
    ok(run_until(k.loop, back_kit_metric(&k, "mvproxy_back_connections", "idle") == 0), "the others follow");
    is_double(back_kit_metric(&k, "mvproxy_back_connections_closed_total", "origin_hangs"), N, "for the same reason");
    conn_say(&k.conns[N], OK5);
    ok(call_is(&a, "head(200) end"), "it is answered");
    call_start(&b, &k, "GET", "/b");
    ok(conn_has(&k.conns[N], "/b"), "and its connection serves the next");
    conn_say(&k.conns[N], OK5);
    ok(call_is(&b, "head(200) end"), "as well");
    call_free(&a);
    call_free(&b);
    back_kit_close(&k);
}

/* The owner lets go: idle connections close, what is under way finishes. */
static void origin_life(void)
{
    static struct back_kit k;
    struct server_conn *s;
    struct call a, b;
    struct origin *old;

    back_kit_open(&k, false, 0);
    k.auto_reply = OK5;
    call_start(&a, &k, "GET", "/idle");
    call_start(&b, &k, "GET", "/idle");
    ok(call_is(&a, "head(200) end") && call_is(&b, "head(200) end"), "two idle connections");
    call_free(&a);
    call_free(&b);
    k.auto_reply = NULL;
    call_start(&a, &k, "GET", "/busy");
    settle(k.loop);
    old = origin_ref(k.origin);
    back_kit_origin(&k, &(struct origin_opts){.max_connections = 1});
    is_u64(origin_in_flight(old), 1, "one under way");
    origin_unref(old);
    s = buf_has(&k.conns[0].got, "/busy") ? &k.conns[0] : &k.conns[1];
    ok(conn_closed(&k.conns[s == &k.conns[0]]), "the idle one closes");
    conn_say(s, OK5);
    ok(call_is(&a, "head(200) end"), "the busy one finishes");
    ok(conn_closed(s), "and closes then");
    call_free(&a);
    back_kit_close(&k);
}

static bool refuse(const struct sockaddr *addr, void *arg)
{
    ++*(unsigned *)arg;
    return addr->sa_family != AF_INET;
}

static void addresses(void)
{
    static const struct {
        const char *host, *address;
    } rows[] = {
        {"10.0.0.1", "10.0.0.1:6443"}, {"::1", "[::1]:6443"}, {"node-a", "node-a:6443"}, {"unix:/x", "localhost"}};
    static struct back_kit k;
    unsigned asked = 0;
    struct call c;

    back_kit_open(&k, false, 0);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct origin *o = origin_new(k.back, &(struct origin_opts){.name = "n", .host = rows[i].host, .port = 6443});

        is_str(origin_address(o), rows[i].address, "address of %s", rows[i].host);
        is_str(origin_name(o), "n", "its name");
        ok(!origin_has_cert(o), "no certificate");
        origin_unref(o);
    }
    back_kit_origin(&k, &(struct origin_opts){.allow = refuse, .allow_arg = &asked});
    call_start(&c, &k, "GET", "/");
    ok(call_is(&c, "failed: connect"), "an address that is not allowed is not dialled");
    is_int(asked, 1, "it was asked");
    is_u64(k.n_conns, 0, "and nobody came");
    call_free(&c);
    back_kit_close(&k);
}

/* What answers is no TLS server, or one that nobody vouches for. */
static void bad_tls(void)
{
    static struct back_kit k;
    struct call c;

    back_kit_open(&k, true, 0);
    tls_ctx_unref(k.server_tls);
    k.server_tls = NULL;
    k.close_at_once = true;
    call_start(&c, &k, "GET", "/");
    ok(call_is(&c, "failed: connect"), "no handshake, no request");
    ok(!c.failure.request_sent, "nothing was sent");
    call_free(&c);
    k.server_tls = server_ctx(false);
    k.close_at_once = false;
    back_kit_origin(&k, &(struct origin_opts){.host = "127.0.0.1"});
    tls_ctx_unref(k.client_tls);
    k.client_tls = server_ctx(false); /* a context without CAs verifies nobody */
    tls_ctx_unref(k.client_cert_tls);
    k.client_cert_tls = NULL;
    back_kit_origin(&k, &(struct origin_opts){.host = "127.0.0.1"});
    call_init(&c, &k, "GET", "/");
    c.opts.with_cert = true;
    call_send(&c);
    ok(call_is(&c, "failed: connect"), "no certificate to show: nothing goes out without");
    is_str(c.failure_text, "no client certificate is configured", "and says so");
    call_free(&c);
    k.client_cert_tls = client_ctx("alice", false);
    back_kit_close(&k);
}

/* Everything stops at once, whatever is going on. */
static void free_in_the_middle(void)
{
    static struct back_kit k;
    struct call c[6];

    back_kit_open(&k, false, 3);
    for (size_t i = 0; i < 5; i++)
        call_start(&c[i], &k, "GET", "/");
    call_init(&c[5], &k, "POST", "/");
    c[5].opts.upgrade = true;
    call_send(&c[5]); /* beyond the limit: its failure is due */
    ok(conn_has(back_kit_conn(&k, 0), "\r\n\r\n"), "some are busy");
    for (size_t i = 0; i < 6; i++)
        c[i].r = NULL; /* the back's own business now */
    back_free(k.back);
    k.back = back_new(k.loop, NULL);
    for (size_t i = 0; i < 6; i++) {
        ok(!buf_has(&c[i].log, "head"), "no call after back_free, request %zu", i);
        call_free(&c[i]);
    }
    back_kit_close(&k);
}

int main(void)
{
    queue_order(false);
    queue_order(true);
    first_idle_serves();
    many_at_once(false);
    many_at_once(true);
    burst();
    surplus();
    busy();
    busy_until_closed();
    idle_reaping();
    idle_at_different_times();
    suspected();
    suspected_with_waiting();
    gives_up();
    moves();
    is_slow();
    many_suspected();
    origin_life();
    addresses();
    bad_tls();
    free_in_the_middle();
    return tap_end();
}
