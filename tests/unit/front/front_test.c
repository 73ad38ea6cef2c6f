/* SPDX-License-Identifier: Apache-2.0 */
/* The front as a whole: limits, drain, update, handshakes, counting, and memory that runs out. */
#include "base/clock.h"
#include "base/log.h"
#include "unit/front/kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/tap.h"
#include "net/tls_ctx.h"

static void test_request_limit(struct front_kit *k)
{
    struct front_client c;

    k->opts.max_requests_per_connection = 2;
    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "first of two requests");
    ok(strstr(client_take(&c), "Connection: close") == NULL, "not the last");
    client_ask(&c, "/sync");
    is_int(client_ended(&c), CLIENT_EOF, "the second is the last");
    ok(strstr(client_take(&c), "Connection: close\r\n") != NULL, "it says so");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "request_limit"), 1, "counted");
}

static void test_sent_away(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "an ordinary answer");
    ok(strstr(client_take(&c), "Connection: close") == NULL, "not the last");
    client_ask(&c, "/away");
    is_int(client_ended(&c), CLIENT_EOF, "one that sends the client away is the last");
    ok(strstr(client_take(&c), "Connection: close\r\n") != NULL, "it says so");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "sent_away"), 1, "counted");
}

/* What is under way when we drain is answered, and told that nothing more is. */
static void test_last_before_drain(struct front_kit *k)
{
    struct front_client c;

    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/held");
    ok(front_kit_handled(k, 1), "a request under way");
    front_drain(k->front, NULL, NULL);
    respond_whole(k, 200, "last");
    ok(client_ends_in(&c, "last") && strstr(client_take(&c), "Connection: close\r\n") != NULL, "is answered, the last");
    is_int(client_ended(&c), CLIENT_EOF, "then its connection ends");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_closed(k, "drain"), 1, "as one that was drained");
}

static void test_client_limit(struct front_kit *k)
{
    struct front_client c[3];

    k->opts.max_connections_per_client = 2;
    front_kit_start(k);
    for (int i = 0; i < 2; i++) {
        client_open(k, &c[i]);
        client_ask(&c[i], "/sync");
        ok(client_ends_in(&c[i], "sync"), "connection %d of two", i + 1);
    }
    client_start(k, &c[2]);
    is_int(client_ended(&c[2]), CLIENT_BROKEN, "a third of the same client is refused");
    is_double(front_kit_closed(k, "client_limit"), 1, "counted");
    client_close(&c[2], STREAM_CLOSE_NOW);
    client_close(&c[0], STREAM_CLOSE_NOW);
    while (front_connections(k->front) > 1)
        loop_run_once(k->loop, 20);
    front_kit_settle(k); /* its descriptor counts until it is closed, in a later turn */
    client_open(k, &c[2]);
    client_ask(&c[2], "/sync");
    ok(client_ends_in(&c[2], "sync"), "when one has left there is room again");
    client_close(&c[1], STREAM_CLOSE_NOW);
    client_close(&c[2], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_connection_limit(struct front_kit *k)
{
    struct front_client c[4];

    k->opts.max_connections = 2;
    front_kit_start(k);
    for (int i = 0; i < 2; i++) {
        client_open(k, &c[i]);
        client_ask(&c[i], "/held");
        ok(front_kit_handled(k, (unsigned)i + 1), "connection %d of two, with a request", i + 1);
    }
    for (int i = 2; i < 4; i++) {
        client_start(k, &c[i]);
        client_ask(&c[i], "/sync");
    }
    front_kit_settle(k);
    is_u64(front_connections(k->front), 2, "more wait in the kernel's queue");
    is_u64(buf_len(&c[2].in), 0, "unanswered");
    client_close(&c[0], STREAM_CLOSE_NOW);
    ok(client_ends_in(&c[2], "sync"), "until somebody leaves");
    k->opts.max_connections = 0;
    front_update(k->front, &k->opts);
    ok(client_ends_in(&c[3], "sync"), "or the limit is lifted");
    is_int(c[1].end, CLIENT_OPEN, "whose request is under way has stayed");
    for (int i = 1; i < 4; i++)
        client_close(&c[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_silent_clients(struct front_kit *k)
{
    struct front_client quiet[3], busy, slow;

    k->opts.max_fresh_connections = 3;
    front_kit_start(k);
    client_open(k, &busy);
    client_ask(&busy, "/sync");
    ok(client_ends_in(&busy, "sync"), "somebody who has asked");
    client_open(k, &slow);
    client_send(&slow, "GET / HT");
    for (int i = 0; i < 2; i++)
        client_open(k, &quiet[i]);
    front_kit_settle(k);
    is_double(front_kit_metric(k, "mvproxy_front_connections_fresh", NULL), 3, "three that have not");
    is_u64(front_connections(k->front), 4, "are there");
    client_open(k, &quiet[2]);
    ok(client_ended(&slow) != CLIENT_OPEN, "a fourth one pushes out the oldest, in the middle of its head");
    is_double(front_kit_closed(k, "crowded_out"), 1, "counted");
    client_ask(&quiet[0], "/sync");
    ok(client_ends_in(&quiet[0], "sync"), "whoever asks then stays");
    is_double(front_kit_metric(k, "mvproxy_front_connections_fresh", NULL), 2, "and is none of them any more");
    client_ask(&busy, "/sync");
    ok(client_ends_in(&busy, "sync"), "who has asked before stays anyway");
    client_close(&slow, STREAM_CLOSE_NOW);
    client_close(&busy, STREAM_CLOSE_NOW);
    for (int i = 0; i < 3; i++)
        client_close(&quiet[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_metric(k, "mvproxy_front_connections_fresh", NULL), 0, "nobody is left");
}

/* Whoever says nothing at a TLS port: the handshake does not begin. */
static void test_half_open(struct front_kit *k)
{
    struct tls_ctx *tls = k->client_tls;
    struct front_client silent[4], c;

    if (tls == NULL)
        return;
    k->opts.max_fresh_connections = 3;
    front_kit_start(k);
    k->client_tls = NULL;
    for (int i = 0; i < 4; i++)
        client_open(k, &silent[i]);
    ok(client_ended(&silent[0]) != CLIENT_OPEN, "the oldest half-open handshake makes room");
    k->client_tls = tls;
    client_open(k, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "for somebody who goes on");
    is_double(front_kit_closed(k, "crowded_out"), 2, "counted");
    client_close(&c, STREAM_CLOSE_NOW);
    for (int i = 0; i < 4; i++)
        client_close(&silent[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void ignore_event(struct stream *s, enum stream_event ev, void *arg)
{
    (void)s;
    (void)ev;
    (void)arg;
}

static void test_tunnel_counts(struct front_kit *k)
{
    struct front_client c, more;
    struct stream *tunnel;

    k->opts.max_connections_per_client = 1;
    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    front_kit_handled(k, 1);
    tunnel = exchange_upgrade(k->x, head_of(k, 101, "Upgrade", "x"));
    stream_set_owner(tunnel, ignore_event, NULL);
    is_u64(front_connections(k->front), 0, "a tunnel is no connection of the front");
    client_start(k, &more);
    is_int(client_ended(&more), CLIENT_BROKEN, "but it counts for the limit of its client");
    client_close(&more, STREAM_CLOSE_NOW);
    stream_close(tunnel, STREAM_CLOSE_NOW);
    client_close(&c, STREAM_CLOSE_NOW);
    front_kit_settle(k);
    client_open(k, &more);
    client_ask(&more, "/sync");
    ok(client_ends_in(&more, "sync"), "until it ends");
    client_send(&more, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    front_kit_handled(k, 3);
    tunnel = exchange_upgrade(k->x, head_of(k, 101, "Upgrade", "x"));
    stream_set_owner(tunnel, ignore_event, NULL);
    front_free(k->front);
    k->front = NULL;
    stream_close(tunnel, STREAM_CLOSE_NOW);
    client_close(&more, STREAM_CLOSE_NOW);
    ok(true, "a tunnel may outlive the front");
}

/* ---- drain ---- */

static void on_drained(void *arg)
{
    ++*(int *)arg;
}

static bool is_drained(void *arg)
{
    return *(int *)arg > 0;
}

static void test_drain(struct front_kit *k)
{
    struct front_client idle, again, fresh, busy, late;
    int drained = 0;

    front_kit_start(k);
    client_open(k, &idle);
    client_ask(&idle, "/sync");
    client_ends_in(&idle, "sync");
    client_open(k, &again);
    client_ask(&again, "/sync");
    client_ends_in(&again, "sync");
    client_open(k, &fresh);
    client_open(k, &busy);
    client_ask(&busy, "/slow");
    front_kit_handled(k, 3);
    front_drain(k->front, on_drained, &drained);
    client_start(k, &late);
    client_ask(&fresh, "/sync");
    client_take(&again);
    client_ask(&again, "/sync");
    is_int(client_ended(&fresh), CLIENT_EOF, "a connection that had not asked yet may ask once");
    ok(strstr(client_take(&fresh), "Connection: close\r\n") != NULL, "and is told that it was the last time");
    is_int(client_ended(&again), CLIENT_EOF, "one that is between two requests may, too");
    ok(strstr(client_take(&again), "Connection: close\r\n") != NULL, "and is told so as well");
    is_int(client_ended(&late), CLIENT_BROKEN, "nobody gets in any more");
    is_int(client_ended(&idle), CLIENT_EOF, "an idle connection ends after a while");
    is_int(drained, 0, "not drained while a request is served");
    is_int(k->gone, 0, "which nobody disturbs");
    respond_whole(k, 200, "done");
    is_int(client_ended(&busy), CLIENT_EOF, "it is answered");
    ok(strstr(client_take(&busy), "Connection: close\r\n") != NULL, "and told");
    client_close(&busy, STREAM_CLOSE_NOW);
    ok(front_kit_until(k, is_drained, &drained), "then the front is drained");
    front_kit_settle(k);
    is_int(drained, 1, "which is said once");
    client_close(&idle, STREAM_CLOSE_NOW);
    client_close(&again, STREAM_CLOSE_NOW);
    client_close(&fresh, STREAM_CLOSE_NOW);
    client_close(&late, STREAM_CLOSE_NOW);
}

/* Each of them has half a minute for a head, or ten seconds for a handshake, when nobody drains. */
static void test_drain_unfinished(struct front_kit *k)
{
    struct front_client silent, begun, again;
    int drained = 0, raw;

    front_kit_start(k);
    raw = client_raw(k);
    client_open(k, &silent);
    client_open(k, &begun);
    client_send(&begun, "GET / HT");
    client_open(k, &again);
    client_ask(&again, "/sync");
    client_ends_in(&again, "sync");
    client_send(&again, "GET / HT");
    front_kit_settle(k);
    is_u64(front_connections(k->front), 4, "four that have not sent a whole request");
    front_drain(k->front, on_drained, &drained);
    ok(front_kit_until(k, is_drained, &drained), "do not hold a drain");
    is_double(front_kit_closed(k, "drain"), 4, "counted");
    client_close(&silent, STREAM_CLOSE_NOW);
    client_close(&begun, STREAM_CLOSE_NOW);
    client_close(&again, STREAM_CLOSE_NOW);
    close(raw);
}

/* Of a thousand bytes one, then another now and then, would hold it for as long as requests may take. */
static void test_drain_in_bodies(struct front_kit *k)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n";
    struct front_client c[4]; /* silent, one whose body comes, one whose body does not, a stranger whose body comes */
    char body[5000];

    memset(body, 'b', sizeof(body));
    front_kit_start(k);
    clock_fake(clock_us(), clock_wall_us());
    for (unsigned i = 0; i < ROWS(c); i++) {
        client_open(k, &c[i]);
        if (i > 0) {
            client_send(&c[i], post);
            client_send_bytes(&c[i], slice_of(body, i == 2 ? 1 : 4000));
            front_kit_handled(k, i);
            if (i < 3)
                exchange_vouch(k->x);
        }
    }
    front_kit_settle(k);
    front_drain(k->front, NULL, NULL);
    clock_fake(clock_us() + 1000000, clock_wall_us());
    ok(client_ended(&c[0]) != CLIENT_OPEN, "the drain has looked at who is there");
    is_double(front_kit_closed(k, "drain"), 1, "bodies are given time");
    clock_fake(clock_us() + 4000000, clock_wall_us());
    ok(client_ended(&c[2]) != CLIENT_OPEN, "after 5 s one that drips holds it no longer");
    ok(front_kit_sink_has(k, "gone(draining)"), "which the proxy is told");
    ok(client_ended(&c[3]) != CLIENT_OPEN, "nor does one of whom nobody knows whether he may");
    is_double(front_kit_closed(k, "drain"), 3, "counted");
    is_int(c[1].end, CLIENT_OPEN, "one that comes still does");
    clock_real();
    for (unsigned i = 0; i < ROWS(c); i++)
        client_close(&c[i], STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_drain_in_answer(struct front_kit *k)
{
    struct front_client c;
    int drained = 0;

    front_kit_start(k);
    client_open(k, &c);
    client_ask(&c, "/x");
    front_kit_handled(k, 1);
    exchange_respond(k->x, head_of(k, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 2});
    front_drain(k->front, on_drained, &drained);
    exchange_body(k->x, SLICE_LIT("ok"));
    exchange_finish(k->x, NULL);
    is_int(client_ended(&c), CLIENT_EOF, "a head that is out already: closed all the same");
    ok(client_ends_in(&c, "ok"), "after the whole answer");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_until(k, is_drained, &drained), "drained");
}

static void test_drain_nobody(struct front_kit *k)
{
    int drained = 0;

    front_kit_start(k);
    front_drain(k->front, on_drained, &drained);
    is_int(drained, 0, "nobody there: not said inside the call");
    ok(front_kit_until(k, is_drained, &drained), "but then");
}

static void test_free_busy(struct front_kit *k)
{
    struct front_client c[4];

    front_kit_start(k);
    client_open(k, &c[0]);
    client_open(k, &c[1]);
    client_send(&c[1], "GET / HT");
    client_open(k, &c[2]);
    client_ask(&c[2], "/x");
    front_kit_handled(k, 1);
    client_start(k, &c[3]);
    front_free(k->front);
    k->front = NULL;
    is_int(k->gone, 1, "freed in the middle of it all: the proxy is told");
    for (int i = 0; i < 4; i++) {
        ok(client_ended(&c[i]) != CLIENT_OPEN, "client %d is closed", i);
        client_close(&c[i], STREAM_CLOSE_NOW);
    }
}

/* ---- opening ---- */

static void test_bind_errors(struct front_kit *k)
{
    struct listen_address at = {"127.0.0.1", 0};
    struct front_opts o;
    struct err err = {""};

    front_kit_start(k);
    o = k->opts;
    at.port = front_port(k->front);
    o.listen.addresses = &at;
    ok(front_new(k->loop, k->metrics, &o, &err) == NULL, "a port in use is an error");
    ok(strstr(err.text, "in use") != NULL, "that says so: %s", err.text);
}

/* A port of this address that was free a moment ago. */
static unsigned free_port(const char *ip)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct listen_address at = {"", 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, ip, &in.sin_addr);
    if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0 || !listener_address_of(fd, &at))
        tap_bail("no free port");
    is_str(at.host, ip, "a bound socket says where");
    close(fd);
    return at.port;
}

static bool takes_connection(struct front_kit *k, const struct listen_address *at)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected;

    inet_pton(AF_INET, at->host, &in.sin_addr);
    connected = connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0;
    front_kit_settle(k);
    if (connected)
        is_u64(front_connections(k->front), 1, "who comes by %s is served", at->host);
    close(fd);
    ok(front_kit_empty(k), "and leaves");
    return connected;
}

/* What another process has is asked for until it is free. */
static void test_listens_later(struct front_kit *k)
{
    struct listen_address at = {"127.0.0.1", 0};
    struct listeners_opts taken = {.addresses = &at, .n_addresses = 1}, own = k->opts.listen;
    struct err err = {""};
    struct front *first;

    front_kit_start(k);
    first = k->front;
    at.port = front_port(first);
    k->opts.listen_later = true;
    k->front = front_new(k->loop, k->metrics, &k->opts, &err);
    ok(k->front != NULL, "made: %s", err.text);
    for (int i = 0; i < 2; i++) {
        err_clear(&err);
        ok(!front_listen(k->front, &taken, &err), "it is taken");
        is_int(errno, EADDRINUSE, "by somebody");
        ok(strstr(err.text, "in use") != NULL, "which is said: %s", err.text);
    }
    front_update(k->front, &k->opts);
    front_free(first);
    ok(front_listen(k->front, &taken, &err), "it is free");
    is_u64(front_port(k->front), at.port, "it listens there");
    ok(takes_connection(k, &at), "and takes connections");
    k->opts.listen_later = false;
    k->opts.listen = own;
}

/* Several sockets are one listener, all or none; an address that this machine does not have yet can be bound. */
static void test_several_addresses(struct front_kit *k)
{
    struct listen_address several[] = {{"127.0.0.1", 0}, {"127.0.0.2", 0}, {"192.0.2.7", 0}};
    struct front_opts o;
    struct err err = {""};
    int drained = 0;

    several[0].port = free_port(several[0].host);
    several[1].port = free_port(several[1].host);
    k->opts.listen = (struct listeners_opts){.addresses = several, .n_addresses = ROWS(several)};
    front_kit_start(k);
    is_u64(front_port(k->front), several[0].port, "the first one's port is told");
    ok(takes_connection(k, &several[0]) && takes_connection(k, &several[1]), "both take connections");
    o = k->opts;
    o.listen.addresses = &several[1];
    o.listen.n_addresses = 1;
    ok(front_new(k->loop, k->metrics, &o, &err) == NULL && strstr(err.text, "127.0.0.2") != NULL,
       "one that is in use is an error that names it: %s", err.text);
    front_drain(k->front, on_drained, &drained);
    front_kit_settle(k);
    ok(!takes_connection(k, &several[0]) && !takes_connection(k, &several[1]), "draining closes all");
}

static const char *const from_loopback[] = {"127.0.0.0/8", NULL};

/* A load balancer says for whom it connects, in one piece or byte by byte, and what follows is the client's. */
static void test_proxy_header(struct front_kit *k)
{
    static const char header[] = "PROXY TCP4 192.0.2.1 192.0.2.2 56324 6443\r\n";
    static const char request[] = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";
    struct sockaddr_in to = {.sin_family = AF_INET};
    char got[4096];
    size_t n = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    k->opts.proxy_protocol_from = from_loopback;
    k->opts.tls = NULL;
    front_kit_start(k);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)front_port(k->front));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        tap_bail("connect");
    for (size_t i = 0; i < strlen(header); i++) {
        is_u64(front_connections(k->front), 0, "byte %zu of the header: no connection yet", i);
        (void)!send(fd, header + i, 1, 0);
        loop_run_once(k->loop, 1);
    }
    (void)!send(fd, request, strlen(request), 0);
    ok(front_kit_handled(k, 1), "the request behind it is served");
    is_str(exchange_client(k->x)->address, "192.0.2.1:56324", "as that of whom it named");
    is_str(exchange_client(k->x)->ip, "192.0.2.1", "and of no other");
    respond_whole(k, 200, "done");
    while (n == 0 || memmem(got, n, "done", 4) == NULL) {
        ssize_t more = recv(fd, got + n, sizeof(got) - n, MSG_DONTWAIT);

        n += more > 0 ? (size_t)more : 0;
        front_kit_settle(k);
    }
    close(fd);
    ok(front_kit_empty(k), "it ends as any other");
}

void __real_loop_timer_set(struct loop_timer *t, uint64_t delay_ms);
void __wrap_loop_timer_set(struct loop_timer *t, uint64_t delay_ms);
static struct loop_timer *of_line; /* of a line that waits for 20 s: those of this program are set by the test */

void __wrap_loop_timer_set(struct loop_timer *t, uint64_t delay_ms)
{
    if (delay_ms == 20000)
        of_line = t;
    else
        __real_loop_timer_set(t, delay_ms);
}

static unsigned count_of(const char *text, const char *what)
{
    unsigned n = 0;

    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        n++;
    }
    return n;
}

/* Without a valid header the connection is closed, counted, and nobody else is disturbed. */
static void test_bad_proxy_header(struct front_kit *k)
{
    static const char *const bad[] = {"GET / HTTP/1.1\r\n\r\n", "PROXY TCP4 x y z\r\n", "\r\n\r\n\r\n",
                                      "PROXY UNKNOWN"};
    struct sockaddr_in to = {.sin_family = AF_INET};
    char *text = NULL, *line;
    size_t n = 0;
    FILE *log = open_memstream(&text, &n);

    k->opts.proxy_protocol_from = from_loopback;
    front_kit_start(k);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)front_port(k->front));
    log_set_stream(log);
    for (size_t i = 0; i < ROWS(bad); i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
            tap_bail("connect");
        (void)!send(fd, bad[i], strlen(bad[i]), 0);
        if (i + 1 == ROWS(bad))
            shutdown(fd, SHUT_WR);
        front_kit_settle(k);
        is_double(front_kit_closed(k, "proxy_header"), (double)(i + 1), "closed and counted: %s", bad[i]);
        is_u64(front_connections(k->front), 0, "before it was a connection");
        close(fd);
    }
    (void)fflush(log);
    line = strstr(text, "without a valid PROXY header");
    ok(line != NULL && strstr(line, "client=\"127.0.0.1\"") != NULL, "who sent none is named: %s", text);
    ok(line != NULL && strstr(line + 1, "without a valid PROXY header") == NULL, "once in a while");
    for (int i = 0; i < 2 && of_line != NULL; i++) {
        __real_loop_timer_set(of_line, 1);
        front_kit_settle(k);
    }
    log_set_stream(stderr);
    (void)fclose(log);
    ok(strstr(text, "what=\"Connection refused that began without a valid PROXY header\" times=3") != NULL,
       "how often it was held back is told: %s", text);
    is_u64(count_of(text, "It has happened again"), 1, "once, and not of what has not happened");
    free(text);
    k->opts.proxy_protocol_from = NULL;
    front_update(k->front, &k->opts);
}

static void test_inherited(struct front_kit *k)
{
    struct sockaddr_storage addr = {.ss_family = AF_INET};
    struct front_client c;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)) != 0 || listen(fd, 5) != 0)
        tap_bail("no listening socket");
    k->opts.listen.inherited = &fd;
    k->opts.listen.n_inherited = 1;
    k->opts.hold = true;
    front_kit_start(k);
    client_start(k, &c);
    front_kit_settle(k);
    is_u64(front_connections(k->front), 0, "who comes while it is held waits");
    front_update(k->front, &k->opts);
    front_kit_settle(k);
    is_u64(front_connections(k->front), 0, "through a reload as well");
    front_release(k->front);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "then a socket from the service manager is served");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

static void test_bad_handshake(struct front_kit *k)
{
    struct tls_ctx *tls = k->client_tls;
    struct front_client c;

    if (tls == NULL)
        return;
    front_kit_start(k);
    k->client_tls = NULL;
    client_open(k, &c);
    client_send(&c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(client_ended(&c) != CLIENT_OPEN, "plain text at a TLS port");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "ends");
    is_double(front_kit_closed(k, "handshake"), 1, "counted");
    k->opts.handshake_timeout_ms = 50;
    front_update(k->front, &k->opts);
    client_open(k, &c);
    ok(client_ended(&c) != CLIENT_OPEN, "a handshake that never starts ends too");
    client_close(&c, STREAM_CLOSE_NOW);
    is_double(front_kit_closed(k, "handshake"), 2, "counted");
    k->opts.handshake_timeout_ms = 0; /* the next one needs time, on a busy machine */
    k->opts.max_memory = 256;
    front_update(k->front, &k->opts);
    k->client_tls = tls;
    client_start(k, &c);
    ok(client_ended(&c) != CLIENT_OPEN, "so does one for which there is no memory");
    client_close(&c, STREAM_CLOSE_NOW);
    is_double(front_kit_closed(k, "memory") - front_kit_closed(k, "handshake"), 1 - 2,
              "counted as such, and as nothing else");
    k->opts.max_memory = 0;
    front_update(k->front, &k->opts);
    client_open(k, &c);
    client_ask(&c, "/who");
    front_kit_handled(k, 1);
    ok(exchange_client(k->x)->tls->client_ca, "a client certificate is seen");
    is_slice(exchange_client(k->x)->tls->common_name, "alice", "with its name");
    respond_whole(k, 200, "ok");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
    is_double(front_kit_metric(k, "mvproxy_front_accepted_connections_total", NULL), 4, "four came");
    is_double(front_kit_metric(k, "mvproxy_front_handshake_seconds", NULL), 1, "one got in");
}

static void test_bytes(struct front_kit *k)
{
    struct front_client c;
    double sent;

    front_kit_start(k);
    client_open(k, &c);
    client_send(&c, "GET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    client_ends_in(&c, "sync");
    is_double(front_kit_metric(k, "mvproxy_front_received_bytes_total", NULL), 31, "bytes received are counted");
    sent = (double)buf_len(&c.in);
    is_double(front_kit_metric(k, "mvproxy_front_sent_bytes_total", NULL), sent, "and sent");
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
    front_kit_handled(k, 2);
    ok(front_kit_sink_has(k, "end"), "a body");
    is_double(front_kit_metric(k, "mvproxy_front_received_bytes_total", NULL), 31 + 67 + 5, "counts as well");
    respond_whole(k, 200, "last");
    ok(client_ends_in(&c, "last"), "the last answer");
    client_send(&c, "more");
    front_kit_settle(k);
    is_double(front_kit_metric(k, "mvproxy_front_received_bytes_total", NULL), 31 + 67 + 5 + 4,
              "and so does what comes when all has been said");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(front_kit_empty(k), "over");
}

/* ---- memory ---- */

static bool client_done(void *arg)
{
    struct front_client *c = arg;

    return c->end != CLIENT_OPEN || (buf_len(&c->in) > 0 && slice_has_suffix(buf_slice(&c->in), SLICE_LIT("sync")));
}

static bool client_got(const struct front_client *c, const char *text)
{
    struct slice in = buf_slice(&c->in);

    return in.n > 0 && memmem(in.p, in.n, text, strlen(text)) != NULL;
}

/* One request with the nth allocation failing (0: none). The client uses the same allocator, so it may be its own. */
static bool one_request(struct front_kit *k, const char *head, const char *rest, uint64_t nth, uint64_t *calls)
{
    uint64_t before = mem_calls();
    bool answered;
    struct front_client c;

    client_open(k, &c);
    mem_fail_nth(nth);
    client_send(&c, head);
    front_kit_settle(k);
    client_send(&c, rest);
    if (!front_kit_until(k, client_done, &c))
        ok(false, "allocation %llu: neither answered nor closed", (unsigned long long)nth);
    mem_fail_nth(0);
    if (client_got(&c, " 503 "))
        ok(client_got(&c, "\r\nRetry-After: 7\r\n") == (k->opts.retry_after_s > 0) &&
               client_got(&c, "\r\nRetry-After: ") == (k->opts.retry_after_s > 0),
           "a refusal for want of memory says when to come back, if that is configured");
    answered = c.end == CLIENT_OPEN;
    *calls = mem_calls() - before;
    client_close(&c, STREAM_CLOSE_NOW);
    front_kit_empty(k);
    return answered;
}

static void fail_each(struct front_kit *k, const char *head, const char *rest)
{
    uint64_t all, calls;
    unsigned answered = 0, refused = 0;

    ok(one_request(k, head, rest, 0, &all), "%.*s: answered", (int)strcspn(head, "\r"), head);
    ok(all > 0, "with %llu allocations, connection and client included", (unsigned long long)all);
    for (uint64_t nth = 1; nth <= all; nth++) {
        if (one_request(k, head, rest, nth, &calls))
            answered++;
        else
            refused++;
    }
    ok(refused > 0, "each of them failed once: %u times answered, %u times closed", answered, refused);
    ok(one_request(k, head, rest, 0, &calls), "all is well afterwards");
}

static void test_no_memory(struct front_kit *k)
{
    k->opts.retry_after_s = 7;
    front_kit_start(k);
    fail_each(k, "GET /sync HTTP/1.1\r\nHost: h\r\nX-A: ", "b\r\n\r\n");
    fail_each(k, "POST /whole HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-A: ",
              "b\r\n\r\n3\r\nabc\r\n0\r\nX-T: a trailer\r\n\r\n");
    k->opts.retry_after_s = 0; /* taken back by a reload */
    front_update(k->front, &k->opts);
    fail_each(k, "GET /sync HTTP/1.1\r\nHost: h\r\nX-A: ", "b\r\n\r\n");
}

static const struct front_kit_story stories[] = {
    {"request limit", test_request_limit},
    {"sent away", test_sent_away},
    {"last before drain", test_last_before_drain},
    {"client limit", test_client_limit},
    {"connection limit", test_connection_limit},
    {"silent clients", test_silent_clients},
    {"half-open handshakes", test_half_open},
    {"a tunnel counts", test_tunnel_counts},
    {"drain", test_drain},
    {"drain, unfinished heads", test_drain_unfinished},
    {"drain in bodies", test_drain_in_bodies},
    {"drain in an answer", test_drain_in_answer},
    {"drain with nobody there", test_drain_nobody},
    {"free while busy", test_free_busy},
    {"bind errors", test_bind_errors},
    {"listens later", test_listens_later},
    {"several addresses", test_several_addresses},
    {"PROXY header", test_proxy_header},
    {"bad PROXY header", test_bad_proxy_header},
    {"inherited socket", test_inherited},
    {"bad handshake", test_bad_handshake},
    {"bytes", test_bytes},
    {"no memory", test_no_memory},
};

int main(void)
{
    front_kit_run(stories, ROWS(stories));
    return tap_end();
}
