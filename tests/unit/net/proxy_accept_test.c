/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that wait for their PROXY header: handed on behind it, or closed with a reason. */
#include "net/proxy_accept.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/limits.h"
#include "lib/tap.h"
#include "unit/net/fixture.h"

#define HEADER "PROXY TCP4 192.0.2.1 192.0.2.2 56324 6443\r\n"

struct gate {
    struct loop *l;
    struct proxy_accept *p;
    int fd; /* that was handed on; -1: none */
    unsigned handed, refused;
    char client[64], why[64];
};

static void on_client(int fd, const struct sockaddr *client, void *arg)
{
    struct gate *g = arg;
    char ip[INET_ADDRSTRLEN] = "";

    g->handed++;
    if (g->fd >= 0)
        close(g->fd);
    g->fd = fd;
    if (client == NULL) {
        (void)snprintf(g->client, sizeof(g->client), "-");
        return;
    }
    inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)client)->sin_addr, ip, sizeof(ip));
    (void)snprintf(g->client, sizeof(g->client), "%s", ip);
}

static void on_bad(int fd, const char *why, void *arg)
{
    struct gate *g = arg;

    (void)fd;
    g->refused++;
    (void)snprintf(g->why, sizeof(g->why), "%s", why);
}

static void open_gate(struct gate *g, struct loop *l)
{
    *g = (struct gate){.l = l, .fd = -1};
    g->p = proxy_accept_new(l, on_client, on_bad, g);
}

static void close_gate(struct gate *g)
{
    proxy_accept_free(g->p);
    if (g->fd >= 0)
        close(g->fd);
    settle(g->l);
}

/* The balancer's end of a connection that waits at the gate; *ours the other. */
static int arrive(struct gate *g, int *ours)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        tap_bail("socketpair");
    proxy_accept_add(g->p, pair[1]);
    *ours = pair[1];
    return pair[0];
}

static void say(int fd, struct slice text)
{
    if (send(fd, text.p, text.n, MSG_NOSIGNAL) != (ssize_t)text.n)
        tap_bail("send");
}

static bool is_closed(int fd)
{
    char c;
    ssize_t got = recv(fd, &c, 1, 0);

    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void refused_with(struct gate *g, int fd, const char *why)
{
    ok(run_until(g->l, g->refused == 1), "refused");
    is_str(g->why, why, "and why");
    ok(is_closed(fd), "closed");
    is_int((int)g->handed, 0, "not handed on");
    close(fd);
    settle(g->l);
    is_int((int)g->refused, 1, "once");
    g->refused = 0;
}

/* Whole, with what follows, or in pieces. */
static void handed_on(struct loop *l, size_t piece, struct slice header, const char *client)
{
    static const char behind[] = "GET";
    char got[16] = "";
    struct gate g;
    int ours, fd;

    open_gate(&g, l);
    fd = arrive(&g, &ours);
    settle(l);
    is_int((int)(g.handed + g.refused), 0, "silence: it waits");
    for (size_t at = 0; at < header.n; at += piece) {
        struct slice part = slice_from(header, at);

        part.n = part.n < piece ? part.n : piece;
        is_int((int)g.handed, 0, "not before its end");
        say(fd, part);
        if (at + piece >= header.n)
            say(fd, SLICE_LIT(behind));
        settle(l);
    }
    ok(run_until(l, g.handed == 1), "handed on, pieces of %zu", piece);
    is_str(g.client, client, "as who it is");
    ok(g.fd == ours && recv(ours, got, sizeof(got), 0) == 3, "with what follows");
    is_str(got, behind, "and nothing else");
    is_int((int)g.refused, 0, "nothing is said");
    close_gate(&g);
    ok(is_closed(fd), "its new owner has closed it");
    close(fd);
}

static void refused(struct loop *l)
{
    struct gate g;
    int ours, fd;

    open_gate(&g, l);
    fd = arrive(&g, &ours);
    say(fd, SLICE_LIT("GET / HTTP/1.1\r\n"));
    refused_with(&g, fd, "no valid PROXY header");
    fd = arrive(&g, &ours);
    say(fd, SLICE_LIT("PROXY TCP4"));
    settle(l);
    shutdown(fd, SHUT_WR);
    refused_with(&g, fd, "ended before the header did");
    fd = arrive(&g, &ours);
    say(fd, SLICE_LIT("PROXY TCP4"));
    settle(l);
    say(fd, SLICE_LIT(" nonsense\r\n"));
    refused_with(&g, fd, "no valid PROXY header");
    fd = arrive(&g, &ours);
    say(ours, SLICE_LIT("x")); /* which is not read: for us that is a reset */
    close(fd);
    ok(run_until(l, g.refused == 1), "a reset");
    is_str(g.why, "broken before the header came", "is one");
    close_gate(&g);
}

static void in_time(struct loop *l)
{
    struct gate g;
    int ours, fd;

    open_gate(&g, l);
    fd = arrive(&g, &ours);
    say(fd, SLICE_LIT("PROXY TCP4"));
    refused_with(&g, fd, "timed out");
    close_gate(&g);
}

static void without_memory(struct loop *l)
{
    unsigned failed = 0;
    struct gate g;
    int ours, fd;

    open_gate(&g, l);
    for (uint64_t nth = 1;; nth++) {
        mem_fail_nth(nth);
        fd = arrive(&g, &ours);
        mem_fail_nth(0);
        if (g.refused == 0)
            break;
        refused_with(&g, fd, "out of memory");
        failed++;
    }
    ok(failed >= 2, "%u allocations may fail", failed);
    say(fd, SLICE_LIT(HEADER));
    ok(run_until(l, g.handed == 1), "and then it works");
    close_gate(&g);
    close(fd);
}

/* The oldest goes when there are too many, and all of them with the gate. */
static void too_many(struct loop *l)
{
    static int fds[LIMIT_PROXY_HEADERS + 1];
    struct rlimit room = {4096, 4096};
    struct gate g;
    unsigned open = 0;
    int ours;

    if (setrlimit(RLIMIT_NOFILE, &room) != 0) {
        tap_skip("no more descriptors to be had", "too many wait");
        return;
    }
    open_gate(&g, l);
    for (size_t i = 0; i < ROWS(fds); i++) {
        is_int((int)g.refused, 0, "room for %zu", i);
        fds[i] = arrive(&g, &ours);
    }
    is_str(g.why, "too many wait", "no room for one more");
    is_int((int)g.refused, 1, "one has to go");
    ok(is_closed(fds[0]), "the oldest");
    for (size_t i = 1; i < ROWS(fds); i++)
        open += !is_closed(fds[i]);
    is_u64(open, LIMIT_PROXY_HEADERS, "all others wait on");
    proxy_accept_free(g.p);
    for (size_t i = 1; i < ROWS(fds); i++)
        open -= is_closed(fds[i]);
    is_u64(open, 0, "until the gate is gone");
    is_int((int)g.refused, 1, "which says nothing of them");
    for (size_t i = 0; i < ROWS(fds); i++)
        close(fds[i]);
    settle(l);
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    for (size_t piece = 1; piece < 60; piece += piece < 4 ? 1 : 13)
        handed_on(l, piece, SLICE_LIT(HEADER), "192.0.2.1");
    handed_on(l, 60, SLICE_LIT("PROXY UNKNOWN\r\n"), "-");
    refused(l);
    without_memory(l);
    too_many(l);
    in_time(l);
    proxy_accept_free(NULL);
    loop_free(l);
    return tap_end();
}
