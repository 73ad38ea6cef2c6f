/* SPDX-License-Identifier: Apache-2.0 */
/* Watches, turn by turn: what comes in from one side has gone out to the other before the loop waits again. */
#include "front/front.h"
#include "net/loop.h"
#include "unit/proxy/kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASK "GET " PODS "?watch=1 HTTP/1.1\r\nHost: k\r\n\r\n"
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

/* A client outside of the loop, so that nothing but the proxy uses up turns. */
static int raw_client(struct proxy_kit *w)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)front_port(w->front))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0)
        tap_bail("connect");
    return fd;
}

/* Whether all of `wanted`, and nothing else, has arrived by now. */
static bool here(int fd, const char *wanted)
{
    char got[512];
    ssize_t n = recv(fd, got, sizeof(got), MSG_DONTWAIT);

    if (n == (ssize_t)strlen(wanted) && memcmp(got, wanted, (size_t)n) == 0)
        return true;
    diag("got %zd bytes: %.*s", n, n > 0 ? (int)n : 0, got);
    return false;
}

/* The kernel has what the server says; the proxy has not been woken by it. */
static void put(struct played_end *server, const char *text)
{
    say(server, text);
    for (int i = 0; i < 100 && stream_unsent(server->s) > 0; i++)
        loop_run_once(server->w->loop, 0);
}

static struct played_end *watching(struct proxy_kit *w, int *client_fd)
{
    struct played_end *s;
    char got[512];
    ssize_t n;

    *client_fd = raw_client(w);
    if (send(*client_fd, ASK, strlen(ASK), 0) != (ssize_t)strlen(ASK))
        tap_bail("send");
    s = conn(&w->local, w->local.n_conns);
    ok(has(s, "\r\n\r\n"), "the watch is asked for");
    put(s, HEAD);
    (void)until(w, recv(*client_fd, got, sizeof(got), MSG_DONTWAIT | MSG_PEEK) > 0);
    n = recv(*client_fd, got, sizeof(got), MSG_DONTWAIT);
    ok(n > 12 && memcmp(got, "HTTP/1.1 200", 12) == 0, "and begins before there is an event");
    /* Whatever is left to do has been done. */
    for (int i = 0; i < 10; i++)
        loop_run_once(w->loop, 0);
    return s;
}

static void events(void)
{
    static const char *const chunks[] = {"3\r\none\r\n", "3\r\ntwo\r\n", "5\r\nthree\r\n"};
    struct proxy_kit w;
    struct played_end *s;
    int fd;

    proxy_kit_open(&w, 0);
    s = watching(&w, &fd);
    for (size_t i = 0; i < ROWS(chunks); i++) {
        put(s, chunks[i]);
        loop_run_once(w.loop, 1000);
        ok(here(fd, chunks[i]), "event %zu leaves in the turn in which it came in", i);
    }
    put(s, "0\r\n\r\n");
    loop_run_once(w.loop, 1000);
    ok(here(fd, "0\r\n\r\n"), "and so does the end");
    close(fd);
    proxy_kit_settle(&w);
    proxy_kit_close(&w);
}

static void client_leaves(void)
{
    struct proxy_kit w;
    struct played_end *s;
    int fd;

    proxy_kit_open(&w, 0);
    s = watching(&w, &fd);
    close(fd);
    loop_run_once(w.loop, 1000); /* the proxy is told, and hangs up */
    loop_run_once(w.loop, 1000); /* the server is told */
    ok(s->eof || s->failed || s->s == NULL, "the client's end is the server's in the same turn");
    proxy_kit_settle(&w);
    proxy_kit_close(&w);
}

static void server_dies(void)
{
    struct proxy_kit w;
    struct played_end *s;
    char byte;
    int fd;

    proxy_kit_open(&w, 0);
    s = watching(&w, &fd);
    put(s, "3\r\none\r\n");
    loop_run_once(w.loop, 1000);
    ok(here(fd, "3\r\none\r\n"), "an event");
    hang_up(s, STREAM_CLOSE_ABORT);
    (void)until(&w, recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno != EAGAIN);
    ok(errno == ECONNRESET, "a server that dies in the middle: a reset, which nobody takes for the end");
    close(fd);
    proxy_kit_settle(&w);
    proxy_kit_close(&w);
}

/* Which is of no use to anybody, but any client may do it. */
static void body_after_the_head(void)
{
    static const char *const ends[] = {"0\r\n\r\n", NULL};

    for (size_t i = 0; i < ROWS(ends); i++) {
        struct proxy_kit w;
        struct played_end *c, *s;

        proxy_kit_init(&w, 1);
        w.cluster->fails_over = true;
        proxy_kit_start(&w);
        c = client(&w);
        say(c, "GET " JOBS "?watch=1 HTTP/1.1\r\nHost: k\r\nContent-Length: 3\r\n\r\n");
        s = conn(&w.peers[0], 0);
        (void)has(s, "\r\n\r\n");
        say(s, HEAD);
        (void)has(c, "200 OK");
        say(c, "abc");
        ok(has(s, "abc"), "a watch with a body, which begins behind the head of the answer");
        say(s, "3\r\none\r\n");
        ok(has(c, "one"), "events go on");
        if (ends[i] != NULL)
            say(s, ends[i]);
        else
            hang_up(s, STREAM_CLOSE_ABORT);
        ok(ends[i] == NULL ? ended(c) : has(c, ends[i]), "until it ends");
        proxy_kit_close(&w);
    }
}

int main(void)
{
    body_after_the_head();
    events();
    client_leaves();
    server_dies();
    return tap_end();
}
