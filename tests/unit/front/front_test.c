/* SPDX-License-Identifier: Apache-2.0 */
/* The front as a whole: limits, drain, update, handshakes, counting, and memory that runs out. */
#include "base/clock.h"
#include "base/log.h"
#include "unit/front/world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/tap.h"
#include "net/tls_ctx.h"

static void test_request_limit(struct world *w)
{
    struct client c;

    w->opts.max_requests_per_connection = 2;
    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "first of two requests");
    ok(strstr(client_take(&c), "Connection: close") == NULL, "not the last");
    client_ask(&c, "/sync");
    is_int(client_ended(&c), CLIENT_EOF, "the second is the last");
    ok(strstr(client_take(&c), "Connection: close\r\n") != NULL, "it says so");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(world_closed(w, "request_limit"), 1, "counted");
}

static void test_sent_away(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "an ordinary answer");
    ok(strstr(client_take(&c), "Connection: close") == NULL, "not the last");
    client_ask(&c, "/away");
    is_int(client_ended(&c), CLIENT_EOF, "one that sends the client away is the last");
    ok(strstr(client_take(&c), "Connection: close\r\n") != NULL, "it says so");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(world_closed(w, "sent_away"), 1, "counted");
}

/* What is under way when we drain is answered, and told that nothing more is. */
static void test_last_before_drain(struct world *w)
{
    struct client c;

    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/held");
    ok(world_handled(w, 1), "a request under way");
    front_drain(w->front, NULL, NULL);
    respond_whole(w, 200, "last");
    ok(client_ends_in(&c, "last") && strstr(client_take(&c), "Connection: close\r\n") != NULL, "is answered, the last");
    is_int(client_ended(&c), CLIENT_EOF, "then its connection ends");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(world_closed(w, "drain"), 1, "as one that was drained");
}

static void test_client_limit(struct world *w)
{
    struct client c[3];

    w->opts.max_connections_per_client = 2;
    world_start(w);
    for (int i = 0; i < 2; i++) {
        client_open(w, &c[i]);
        client_ask(&c[i], "/sync");
        ok(client_ends_in(&c[i], "sync"), "connection %d of two", i + 1);
    }
    client_start(w, &c[2]);
    is_int(client_ended(&c[2]), CLIENT_BROKEN, "a third of the same client is refused");
    is_double(world_closed(w, "client_limit"), 1, "counted");
    client_close(&c[2], STREAM_CLOSE_NOW);
    client_close(&c[0], STREAM_CLOSE_NOW);
    while (front_connections(w->front) > 1)
        loop_run_once(w->loop, 20);
    client_open(w, &c[2]);
    client_ask(&c[2], "/sync");
    ok(client_ends_in(&c[2], "sync"), "when one has left there is room again");
    client_close(&c[1], STREAM_CLOSE_NOW);
    client_close(&c[2], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_connection_limit(struct world *w)
{
    struct client c[4];

    w->opts.max_connections = 2;
    world_start(w);
    for (int i = 0; i < 2; i++) {
        client_open(w, &c[i]);
        client_ask(&c[i], "/held");
        ok(world_handled(w, (unsigned)i + 1), "connection %d of two, with a request", i + 1);
    }
    for (int i = 2; i < 4; i++) {
        client_start(w, &c[i]);
        client_ask(&c[i], "/sync");
    }
    world_settle(w);
    is_u64(front_connections(w->front), 2, "more wait in the kernel's queue");
    is_u64(buf_len(&c[2].in), 0, "unanswered");
    client_close(&c[0], STREAM_CLOSE_NOW);
    ok(client_ends_in(&c[2], "sync"), "until somebody leaves");
    w->opts.max_connections = 0;
    front_update(w->front, &w->opts);
    ok(client_ends_in(&c[3], "sync"), "or the limit is lifted");
    is_int(c[1].end, CLIENT_OPEN, "whose request is under way has stayed");
    for (int i = 1; i < 4; i++)
        client_close(&c[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_silent_clients(struct world *w)
{
    struct client quiet[3], busy, slow;

    w->opts.max_fresh_connections = 3;
    world_start(w);
    client_open(w, &busy);
    client_ask(&busy, "/sync");
    ok(client_ends_in(&busy, "sync"), "somebody who has asked");
    client_open(w, &slow);
    client_send(&slow, "GET / HT");
    for (int i = 0; i < 2; i++)
        client_open(w, &quiet[i]);
    world_settle(w);
    is_double(world_metric(w, "mvproxy_front_connections_fresh", NULL), 3, "three that have not");
    is_u64(front_connections(w->front), 4, "are there");
    client_open(w, &quiet[2]);
    ok(client_ended(&slow) != CLIENT_OPEN, "a fourth one pushes out the oldest, in the middle of its head");
    is_double(world_closed(w, "crowded_out"), 1, "counted");
    client_ask(&quiet[0], "/sync");
    ok(client_ends_in(&quiet[0], "sync"), "whoever asks then stays");
    is_double(world_metric(w, "mvproxy_front_connections_fresh", NULL), 2, "and is none of them any more");
    client_ask(&busy, "/sync");
    ok(client_ends_in(&busy, "sync"), "who has asked before stays anyway");
    client_close(&slow, STREAM_CLOSE_NOW);
    client_close(&busy, STREAM_CLOSE_NOW);
    for (int i = 0; i < 3; i++)
        client_close(&quiet[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(world_metric(w, "mvproxy_front_connections_fresh", NULL), 0, "nobody is left");
}

/* Whoever says nothing at a TLS port: the handshake does not begin. */
static void test_half_open(struct world *w)
{
    struct tls_ctx *tls = w->client_tls;
    struct client silent[4], c;

    if (tls == NULL)
        return;
    w->opts.max_fresh_connections = 3;
    world_start(w);
    w->client_tls = NULL;
    for (int i = 0; i < 4; i++)
        client_open(w, &silent[i]);
    ok(client_ended(&silent[0]) != CLIENT_OPEN, "the oldest half-open handshake makes room");
    w->client_tls = tls;
    client_open(w, &c);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "for somebody who goes on");
    is_double(world_closed(w, "crowded_out"), 2, "counted");
    client_close(&c, STREAM_CLOSE_NOW);
    for (int i = 0; i < 4; i++)
        client_close(&silent[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void ignore_event(struct stream *s, enum stream_event ev, void *arg)
{
    (void)s;
    (void)ev;
    (void)arg;
}

static void test_tunnel_counts(struct world *w)
{
    struct client c, more;
    struct stream *tunnel;

    w->opts.max_connections_per_client = 1;
    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    world_handled(w, 1);
    tunnel = exchange_upgrade(w->x, head_of(w, 101, "Upgrade", "x"));
    stream_set_owner(tunnel, ignore_event, NULL);
    is_u64(front_connections(w->front), 0, "a tunnel is no connection of the front");
    client_start(w, &more);
    is_int(client_ended(&more), CLIENT_BROKEN, "but it counts for the limit of its client");
    client_close(&more, STREAM_CLOSE_NOW);
    stream_close(tunnel, STREAM_CLOSE_NOW);
    client_close(&c, STREAM_CLOSE_NOW);
    world_settle(w);
    client_open(w, &more);
    client_ask(&more, "/sync");
    ok(client_ends_in(&more, "sync"), "until it ends");
    client_send(&more, "GET /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    world_handled(w, 3);
    tunnel = exchange_upgrade(w->x, head_of(w, 101, "Upgrade", "x"));
    stream_set_owner(tunnel, ignore_event, NULL);
    front_free(w->front);
    w->front = NULL;
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

static void test_drain(struct world *w)
{
    struct client idle, again, fresh, busy, late;
    int drained = 0;

    world_start(w);
    client_open(w, &idle);
    client_ask(&idle, "/sync");
    client_ends_in(&idle, "sync");
    client_open(w, &again);
    client_ask(&again, "/sync");
    client_ends_in(&again, "sync");
    client_open(w, &fresh);
    client_open(w, &busy);
    client_ask(&busy, "/slow");
    world_handled(w, 3);
    front_drain(w->front, on_drained, &drained);
    client_start(w, &late);
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
    is_int(w->gone, 0, "which nobody disturbs");
    respond_whole(w, 200, "done");
    is_int(client_ended(&busy), CLIENT_EOF, "it is answered");
    ok(strstr(client_take(&busy), "Connection: close\r\n") != NULL, "and told");
    client_close(&busy, STREAM_CLOSE_NOW);
    ok(world_until(w, is_drained, &drained), "then the front is drained");
    world_settle(w);
    is_int(drained, 1, "which is said once");
    client_close(&idle, STREAM_CLOSE_NOW);
    client_close(&again, STREAM_CLOSE_NOW);
    client_close(&fresh, STREAM_CLOSE_NOW);
    client_close(&late, STREAM_CLOSE_NOW);
}

/* Each of them has half a minute for a head, or ten seconds for a handshake, when nobody drains. */
static void test_drain_unfinished(struct world *w)
{
    struct client silent, begun, again;
    int drained = 0, raw;

    world_start(w);
    raw = client_raw(w);
    client_open(w, &silent);
    client_open(w, &begun);
    client_send(&begun, "GET / HT");
    client_open(w, &again);
    client_ask(&again, "/sync");
    client_ends_in(&again, "sync");
    client_send(&again, "GET / HT");
    world_settle(w);
    is_u64(front_connections(w->front), 4, "four that have not sent a whole request");
    front_drain(w->front, on_drained, &drained);
    ok(world_until(w, is_drained, &drained), "do not hold a drain");
    is_double(world_closed(w, "drain"), 4, "counted");
    client_close(&silent, STREAM_CLOSE_NOW);
    client_close(&begun, STREAM_CLOSE_NOW);
    client_close(&again, STREAM_CLOSE_NOW);
    close(raw);
}

/* Of a thousand bytes one, then another now and then, would hold it for as long as requests may take. */
static void test_drain_in_bodies(struct world *w)
{
    static const char post[] = "POST /held HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n";
    struct client c[3]; /* silent, one whose body comes, one whose body does not */
    char body[5000];

    memset(body, 'b', sizeof(body));
    world_start(w);
    clock_fake(clock_us(), clock_wall_us());
    for (unsigned i = 0; i < ROWS(c); i++) {
        client_open(w, &c[i]);
        if (i > 0) {
            client_send(&c[i], post);
            client_send_bytes(&c[i], slice_of(body, i == 1 ? 4000 : 1));
            world_handled(w, i);
        }
    }
    world_settle(w);
    front_drain(w->front, NULL, NULL);
    clock_fake(clock_us() + 1000000, clock_wall_us());
    ok(client_ended(&c[0]) != CLIENT_OPEN, "the drain has looked at who is there");
    is_double(world_closed(w, "drain"), 1, "bodies are given time");
    clock_fake(clock_us() + 4000000, clock_wall_us());
    ok(client_ended(&c[2]) != CLIENT_OPEN, "after 5 s one that drips holds it no longer");
    ok(world_sink_has(w, "gone(draining)"), "which the proxy is told");
    is_double(world_closed(w, "drain"), 2, "counted");
    is_int(c[1].end, CLIENT_OPEN, "one that comes still does");
    clock_real();
    for (unsigned i = 0; i < ROWS(c); i++)
        client_close(&c[i], STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_drain_in_answer(struct world *w)
{
    struct client c;
    int drained = 0;

    world_start(w);
    client_open(w, &c);
    client_ask(&c, "/x");
    world_handled(w, 1);
    exchange_respond(w->x, head_of(w, 200, NULL, NULL), (struct http_body){HTTP_BODY_LENGTH, 2});
    front_drain(w->front, on_drained, &drained);
    exchange_body(w->x, SLICE_LIT("ok"));
    exchange_finish(w->x, NULL);
    is_int(client_ended(&c), CLIENT_EOF, "a head that is out already: closed all the same");
    ok(client_ends_in(&c, "ok"), "after the whole answer");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_until(w, is_drained, &drained), "drained");
}

static void test_drain_nobody(struct world *w)
{
    int drained = 0;

    world_start(w);
    front_drain(w->front, on_drained, &drained);
    is_int(drained, 0, "nobody there: not said inside the call");
    ok(world_until(w, is_drained, &drained), "but then");
}

static void test_free_busy(struct world *w)
{
    struct client c[4];

    world_start(w);
    client_open(w, &c[0]);
    client_open(w, &c[1]);
    client_send(&c[1], "GET / HT");
    client_open(w, &c[2]);
    client_ask(&c[2], "/x");
    world_handled(w, 1);
    client_start(w, &c[3]);
    front_free(w->front);
    w->front = NULL;
    is_int(w->gone, 1, "freed in the middle of it all: the proxy is told");
    for (int i = 0; i < 4; i++) {
        ok(client_ended(&c[i]) != CLIENT_OPEN, "client %d is closed", i);
        client_close(&c[i], STREAM_CLOSE_NOW);
    }
}

/* ---- opening ---- */

static void test_bind_errors(struct world *w)
{
    struct listen_address at = {"127.0.0.1", 0};
    struct front_opts o;
    struct err err = {""};

    world_start(w);
    o = w->opts;
    at.port = front_port(w->front);
    o.listen.addresses = &at;
    ok(front_new(w->loop, w->metrics, &o, &err) == NULL, "a port in use is an error");
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

static bool takes_connection(struct world *w, const struct listen_address *at)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)at->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool connected;

    inet_pton(AF_INET, at->host, &in.sin_addr);
    connected = connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0;
    world_settle(w);
    if (connected)
        is_u64(front_connections(w->front), 1, "who comes by %s is served", at->host);
    close(fd);
    ok(world_empty(w), "and leaves");
    return connected;
}

/* What another process has is asked for until it is free. */
static void test_listens_later(struct world *w)
{
    struct listen_address at = {"127.0.0.1", 0};
    struct listeners_opts taken = {.addresses = &at, .n_addresses = 1}, own = w->opts.listen;
    struct err err = {""};
    struct front *first;

    world_start(w);
    first = w->front;
    at.port = front_port(first);
    w->opts.listen_later = true;
    w->front = front_new(w->loop, w->metrics, &w->opts, &err);
    ok(w->front != NULL, "made: %s", err.text);
    for (int i = 0; i < 2; i++) {
        err_clear(&err);
        ok(!front_listen(w->front, &taken, &err), "it is taken");
        is_int(errno, EADDRINUSE, "by somebody");
        ok(strstr(err.text, "in use") != NULL, "which is said: %s", err.text);
    }
    front_update(w->front, &w->opts);
    front_free(first);
    ok(front_listen(w->front, &taken, &err), "it is free");
    is_u64(front_port(w->front), at.port, "it listens there");
    ok(takes_connection(w, &at), "and takes connections");
    w->opts.listen_later = false;
    w->opts.listen = own;
}

/* Several sockets are one listener, all or none; an address that this machine does not have yet can be bound. */
static void test_several_addresses(struct world *w)
{
    struct listen_address several[] = {{"127.0.0.1", 0}, {"127.0.0.2", 0}, {"192.0.2.7", 0}};
    struct front_opts o;
    struct err err = {""};
    int drained = 0;

    several[0].port = free_port(several[0].host);
    several[1].port = free_port(several[1].host);
    w->opts.listen = (struct listeners_opts){.addresses = several, .n_addresses = ROWS(several)};
    world_start(w);
    is_u64(front_port(w->front), several[0].port, "the first one's port is told");
    ok(takes_connection(w, &several[0]) && takes_connection(w, &several[1]), "both take connections");
    o = w->opts;
    o.listen.addresses = &several[1];
    o.listen.n_addresses = 1;
    ok(front_new(w->loop, w->metrics, &o, &err) == NULL && strstr(err.text, "127.0.0.2") != NULL,
       "one that is in use is an error that names it: %s", err.text);
    front_drain(w->front, on_drained, &drained);
    world_settle(w);
    ok(!takes_connection(w, &several[0]) && !takes_connection(w, &several[1]), "draining closes all");
}

static const char *const from_loopback[] = {"127.0.0.0/8", NULL};

/* A load balancer says for whom it connects, in one piece or byte by byte, and what follows is the client's. */
static void test_proxy_header(struct world *w)
{
    static const char header[] = "PROXY TCP4 192.0.2.1 192.0.2.2 56324 6443\r\n";
    static const char request[] = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";
    struct sockaddr_in to = {.sin_family = AF_INET};
    char got[4096];
    size_t n = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    w->opts.proxy_protocol_from = from_loopback;
    w->opts.tls = NULL;
    world_start(w);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)front_port(w->front));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        tap_bail("connect");
    for (size_t i = 0; i < strlen(header); i++) {
        is_u64(front_connections(w->front), 0, "byte %zu of the header: no connection yet", i);
        (void)!send(fd, header + i, 1, 0);
        loop_run_once(w->loop, 1);
    }
    (void)!send(fd, request, strlen(request), 0);
    ok(world_handled(w, 1), "the request behind it is served");
    is_str(exchange_client(w->x)->address, "192.0.2.1:56324", "as that of whom it named");
    is_str(exchange_client(w->x)->ip, "192.0.2.1", "and of no other");
    respond_whole(w, 200, "done");
    while (n == 0 || memmem(got, n, "done", 4) == NULL) {
        ssize_t more = recv(fd, got + n, sizeof(got) - n, MSG_DONTWAIT);

        n += more > 0 ? (size_t)more : 0;
        world_settle(w);
    }
    close(fd);
    ok(world_empty(w), "it ends as any other");
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
static void test_bad_proxy_header(struct world *w)
{
    static const char *const bad[] = {"GET / HTTP/1.1\r\n\r\n", "PROXY TCP4 x y z\r\n", "\r\n\r\n\r\n",
                                      "PROXY UNKNOWN"};
    struct sockaddr_in to = {.sin_family = AF_INET};
    char *text = NULL, *line;
    size_t n = 0;
    FILE *log = open_memstream(&text, &n);

    w->opts.proxy_protocol_from = from_loopback;
    world_start(w);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)front_port(w->front));
    log_set_stream(log);
    for (size_t i = 0; i < ROWS(bad); i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
            tap_bail("connect");
        (void)!send(fd, bad[i], strlen(bad[i]), 0);
        if (i + 1 == ROWS(bad))
            shutdown(fd, SHUT_WR);
        world_settle(w);
        is_double(world_closed(w, "proxy_header"), (double)(i + 1), "closed and counted: %s", bad[i]);
        is_u64(front_connections(w->front), 0, "before it was a connection");
        close(fd);
    }
    (void)fflush(log);
    line = strstr(text, "without a valid PROXY header");
    ok(line != NULL && strstr(line, "client=\"127.0.0.1\"") != NULL, "who sent none is named: %s", text);
    ok(line != NULL && strstr(line + 1, "without a valid PROXY header") == NULL, "once in a while");
    for (int i = 0; i < 2 && of_line != NULL; i++) {
        __real_loop_timer_set(of_line, 1);
        world_settle(w);
    }
    log_set_stream(stderr);
    (void)fclose(log);
    ok(strstr(text, "what=\"Connection refused that began without a valid PROXY header\" times=3") != NULL,
       "how often it was held back is told: %s", text);
    is_u64(count_of(text, "It has happened again"), 1, "once, and not of what has not happened");
    free(text);
    w->opts.proxy_protocol_from = NULL;
    front_update(w->front, &w->opts);
}

static void test_inherited(struct world *w)
{
    struct sockaddr_storage addr = {.ss_family = AF_INET};
    struct client c;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(struct sockaddr_in)) != 0 || listen(fd, 5) != 0)
        tap_bail("no listening socket");
    w->opts.listen.inherited = &fd;
    w->opts.listen.n_inherited = 1;
    w->opts.hold = true;
    world_start(w);
    client_start(w, &c);
    world_settle(w);
    is_u64(front_connections(w->front), 0, "who comes while it is held waits");
    front_update(w->front, &w->opts);
    world_settle(w);
    is_u64(front_connections(w->front), 0, "through a reload as well");
    front_release(w->front);
    client_ask(&c, "/sync");
    ok(client_ends_in(&c, "sync"), "then a socket from the service manager is served");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

static void test_bad_handshake(struct world *w)
{
    struct tls_ctx *tls = w->client_tls;
    struct client c;

    if (tls == NULL)
        return;
    world_start(w);
    w->client_tls = NULL;
    client_open(w, &c);
    client_send(&c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    ok(client_ended(&c) != CLIENT_OPEN, "plain text at a TLS port");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "ends");
    is_double(world_closed(w, "handshake"), 1, "counted");
    w->opts.handshake_timeout_ms = 50;
    front_update(w->front, &w->opts);
    client_open(w, &c);
    ok(client_ended(&c) != CLIENT_OPEN, "a handshake that never starts ends too");
    client_close(&c, STREAM_CLOSE_NOW);
    is_double(world_closed(w, "handshake"), 2, "counted");
    w->opts.handshake_timeout_ms = 0; /* the next one needs time, on a busy machine */
    w->opts.max_memory = 256;
    front_update(w->front, &w->opts);
    w->client_tls = tls;
    client_start(w, &c);
    ok(client_ended(&c) != CLIENT_OPEN, "so does one for which there is no memory");
    client_close(&c, STREAM_CLOSE_NOW);
    is_double(world_closed(w, "memory") - world_closed(w, "handshake"), 1 - 2, "counted as such, and as nothing else");
    w->opts.max_memory = 0;
    front_update(w->front, &w->opts);
    client_open(w, &c);
    client_ask(&c, "/who");
    world_handled(w, 1);
    ok(exchange_client(w->x)->tls->client_ca, "a client certificate is seen");
    is_slice(exchange_client(w->x)->tls->common_name, "alice", "with its name");
    respond_whole(w, 200, "ok");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
    is_double(world_metric(w, "mvproxy_front_accepted_connections_total", NULL), 4, "four came");
    is_double(world_metric(w, "mvproxy_front_handshake_seconds", NULL), 1, "one got in");
}

static void test_bytes(struct world *w)
{
    struct client c;
    double sent;

    world_start(w);
    client_open(w, &c);
    client_send(&c, "GET /sync HTTP/1.1\r\nHost: h\r\n\r\n");
    client_ends_in(&c, "sync");
    is_double(world_metric(w, "mvproxy_front_received_bytes_total", NULL), 31, "bytes received are counted");
    sent = (double)buf_len(&c.in);
    is_double(world_metric(w, "mvproxy_front_sent_bytes_total", NULL), sent, "and sent");
    client_send(&c, "POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
    world_handled(w, 2);
    ok(world_sink_has(w, "end"), "a body");
    is_double(world_metric(w, "mvproxy_front_received_bytes_total", NULL), 31 + 67 + 5, "counts as well");
    respond_whole(w, 200, "last");
    ok(client_ends_in(&c, "last"), "the last answer");
    client_send(&c, "more");
    world_settle(w);
    is_double(world_metric(w, "mvproxy_front_received_bytes_total", NULL), 31 + 67 + 5 + 4,
              "and so does what comes when all has been said");
    client_close(&c, STREAM_CLOSE_NOW);
    ok(world_empty(w), "over");
}

/* ---- memory ---- */

static bool client_done(void *arg)
{
    struct client *c = arg;

    return c->end != CLIENT_OPEN || (buf_len(&c->in) > 0 && slice_has_suffix(buf_slice(&c->in), SLICE_LIT("sync")));
}

static bool client_got(const struct client *c, const char *text)
{
    struct slice in = buf_slice(&c->in);

    return in.n > 0 && memmem(in.p, in.n, text, strlen(text)) != NULL;
}

/* One request with the nth allocation failing (0: none). The client uses the same allocator, so it may be its own. */
static bool one_request(struct world *w, const char *head, const char *rest, uint64_t nth, uint64_t *calls)
{
    uint64_t before = mem_calls();
    bool answered;
    struct client c;

    client_open(w, &c);
    mem_fail_nth(nth);
    client_send(&c, head);
    world_settle(w);
    client_send(&c, rest);
    if (!world_until(w, client_done, &c))
        ok(false, "allocation %llu: neither answered nor closed", (unsigned long long)nth);
    mem_fail_nth(0);
    if (client_got(&c, " 503 "))
        ok(client_got(&c, "\r\nRetry-After: 7\r\n") == (w->opts.retry_after_s > 0) &&
               client_got(&c, "\r\nRetry-After: ") == (w->opts.retry_after_s > 0),
           "a refusal for want of memory says when to come back, if that is configured");
    answered = c.end == CLIENT_OPEN;
    *calls = mem_calls() - before;
    client_close(&c, STREAM_CLOSE_NOW);
    world_empty(w);
    return answered;
}

static void fail_each(struct world *w, const char *head, const char *rest)
{
    uint64_t all, calls;
    unsigned answered = 0, refused = 0;

    ok(one_request(w, head, rest, 0, &all), "%.*s: answered", (int)strcspn(head, "\r"), head);
    ok(all > 0, "with %llu allocations, connection and client included", (unsigned long long)all);
    for (uint64_t nth = 1; nth <= all; nth++) {
        if (one_request(w, head, rest, nth, &calls))
            answered++;
        else
            refused++;
    }
    ok(refused > 0, "each of them failed once: %u times answered, %u times closed", answered, refused);
    ok(one_request(w, head, rest, 0, &calls), "all is well afterwards");
}

static void test_no_memory(struct world *w)
{
    w->opts.retry_after_s = 7;
    world_start(w);
    fail_each(w, "GET /sync HTTP/1.1\r\nHost: h\r\nX-A: ", "b\r\n\r\n");
    fail_each(w, "POST /whole HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-A: ",
              "b\r\n\r\n3\r\nabc\r\n0\r\nX-T: a trailer\r\n\r\n");
    w->opts.retry_after_s = 0; /* taken back by a reload */
    front_update(w->front, &w->opts);
    fail_each(w, "GET /sync HTTP/1.1\r\nHost: h\r\nX-A: ", "b\r\n\r\n");
}

static const struct world_story stories[] = {
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
    world_run(stories, ROWS(stories));
    return tap_end();
}
