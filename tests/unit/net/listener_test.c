/* SPDX-License-Identifier: Apache-2.0 */
/* Accepting: what the handler gets, pauses, and running out of descriptors. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/tap.h"
#include "unit/net/fixture.h"

struct door {
    int fds[200];
    unsigned n;
    struct listener *listener;
    unsigned close_after; /* the listener is closed by its handler */
};

static void on_client(int fd, void *arg)
{
    struct door *d = arg;

    if (d->n == ROWS(d->fds))
        tap_bail("more clients than expected");
    d->fds[d->n++] = fd;
    if (d->n == d->close_after) {
        listener_close(d->listener);
        d->listener = NULL;
    }
}

static void empty(struct door *d)
{
    while (d->n > 0)
        close(d->fds[--d->n]);
}

static int dial_port(const char *host, unsigned port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    bool v4 = inet_pton(AF_INET, host, &in.sin_addr) == 1;
    int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);

    if (!v4)
        inet_pton(AF_INET6, host, &in6.sin6_addr);
    if (connect(fd, v4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6, v4 ? sizeof(in) : sizeof(in6)) == 0)
        return fd;
    close(fd);
    return -1;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    getsockopt(fd, level, name, &value, &len);
    return value;
}

static void test_accepts(struct loop *l)
{
    struct door d = {.n = 0};
    struct err err = {""};
    int client;

    d.listener = listener_open(l, "127.0.0.1", 0, on_client, &d, &err);
    ok(d.listener != NULL, "port 0 %s", err.text);
    ok(listener_port(d.listener) > 0, "picks a port");
    client = dial_port("127.0.0.1", listener_port(d.listener));
    ok(run_until(l, d.n == 1), "a client comes in");
    is_int(option(d.fds[0], IPPROTO_TCP, TCP_NODELAY), 1, "TCP_NODELAY");
    is_int(option(d.fds[0], SOL_SOCKET, SO_KEEPALIVE), 1, "SO_KEEPALIVE");
    is_int(option(d.fds[0], IPPROTO_TCP, TCP_KEEPIDLE), 30, "TCP_KEEPIDLE");
    is_int(option(d.fds[0], IPPROTO_TCP, TCP_KEEPINTVL), 15, "TCP_KEEPINTVL");
    is_int(option(d.fds[0], IPPROTO_TCP, TCP_KEEPCNT), 4, "TCP_KEEPCNT");
    is_int(option(d.fds[0], IPPROTO_TCP, TCP_USER_TIMEOUT), 0, "no TCP_USER_TIMEOUT: readers may pause");
    is_int(option(d.fds[0], IPPROTO_TCP, TCP_KEEPCNT), 4, "TCP_KEEPCNT");
    ok((fcntl(d.fds[0], F_GETFL) & O_NONBLOCK) != 0, "non-blocking");
    ok((fcntl(d.fds[0], F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
    is_null(listener_open(l, "127.0.0.1", listener_port(d.listener), on_client, &d, &err), "a port in use");
    ok(strstr(err.text, ": Address already in use") != NULL && strncmp(err.text, "bind 127.0.0.1:", 15) == 0,
       "is said so (%s)", err.text);
    listener_close(d.listener);
    settle(l);
    is_int(dial_port("127.0.0.1", 1), -1, "nobody at port 1");
    close(client);
    empty(&d);
}

static void test_bad_address(struct loop *l)
{
    struct err err = {""};

    is_null(listener_open(l, "localhost", 1, on_client, NULL, &err), "a name is not an address");
    ok(err_is_set(&err), "%s", err.text);
    err_clear(&err);
    is_null(listener_open(l, "127.0.0.1", 70000, on_client, NULL, &err), "nor 70000 a port");
    ok(err_is_set(&err), "%s", err.text);
    err_clear(&err);
    is_null(listener_adopt(l, STDIN_FILENO, on_client, NULL, &err), "nor standard input a listening socket");
    ok(err_is_set(&err), "%s", err.text);
}

static void test_dual_stack(struct loop *l)
{
    struct door d = {.n = 0};
    struct err err = {""};
    int v4, v6;

    d.listener = listener_open(l, "::", 0, on_client, &d, &err);
    if (d.listener == NULL) {
        tap_skip(err.text, "dual stack");
        return;
    }
    v4 = dial_port("127.0.0.1", listener_port(d.listener));
    v6 = dial_port("::1", listener_port(d.listener));
    ok(run_until(l, d.n == 2), ":: takes both families");
    listener_close(d.listener);
    settle(l);
    close(v4);
    close(v6);
    empty(&d);
}

static void test_pause(struct loop *l)
{
    struct door d = {.n = 0};
    struct err err = {""};
    int clients[3];

    d.listener = listener_open(l, "127.0.0.1", 0, on_client, &d, &err);
    listener_pause(d.listener);
    for (size_t i = 0; i < ROWS(clients); i++)
        clients[i] = dial_port("127.0.0.1", listener_port(d.listener));
    settle(l);
    is_int(d.n, 0, "paused: they wait");
    listener_resume(d.listener);
    ok(run_until(l, d.n == 3), "resumed: they come");
    listener_close(d.listener);
    settle(l);
    for (size_t i = 0; i < ROWS(clients); i++)
        close(clients[i]);
    empty(&d);
}

static void test_close_inside(struct loop *l)
{
    struct door d = {.close_after = 2};
    struct err err = {""};
    int clients[4];

    d.listener = listener_open(l, "127.0.0.1", 0, on_client, &d, &err);
    for (size_t i = 0; i < ROWS(clients); i++)
        clients[i] = dial_port("127.0.0.1", listener_port(d.listener));
    settle(l);
    is_int(d.n, 2, "a handler may close its listener");
    for (size_t i = 0; i < ROWS(clients); i++)
        close(clients[i]);
    empty(&d);
}

static void test_batches(struct loop *l)
{
    struct door d = {.n = 0};
    struct err err = {""};
    int clients[150];

    d.listener = listener_open(l, "127.0.0.1", 0, on_client, &d, &err);
    for (size_t i = 0; i < ROWS(clients); i++)
        clients[i] = dial_port("127.0.0.1", listener_port(d.listener));
    loop_run_once(l, 100);
    ok(d.n > 0 && d.n < ROWS(clients), "a crowd comes in batches (%u)", d.n);
    ok(run_until(l, d.n == ROWS(clients)), "but completely");
    listener_close(d.listener);
    settle(l);
    for (size_t i = 0; i < ROWS(clients); i++)
        close(clients[i]);
    empty(&d);
}

static void test_out_of_descriptors(struct loop *l)
{
    struct door d = {.n = 0};
    struct err err = {""};
    struct rlimit before, tight;
    uint64_t began, pauses;
    int client, next;

    d.listener = listener_open(l, "127.0.0.1", 0, on_client, &d, &err);
    client = dial_port("127.0.0.1", listener_port(d.listener));
    next = dup(0);
    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &tight);
    began = clock_ms();
    run_until(l, listener_emfile_pauses(d.listener) > 0);
    settle(l);
    is_int(d.n, 0, "out of descriptors: nobody comes in");
    pauses = listener_emfile_pauses(d.listener);
    /* A pause is 100 ms of the loop's clock, which is a little behind. */
    ok(pauses > 0 && pauses <= 1 + (clock_ms() - began) / 50, "which is noticed after each pause, not in every turn");
    setrlimit(RLIMIT_NOFILE, &before);
    ok(run_until(l, d.n == 1), "with descriptors again, they do");
    listener_close(d.listener);
    settle(l);
    close(client);
    empty(&d);
}

/* Whether some epoll of this process asks the kernel about what was registered under this number. */
static bool is_watched(int fd)
{
    char path[64], line[256];
    bool found = false;

    for (int i = 0; i < 64; i++) {
        FILE *f;

        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", i);
        f = fopen(path, "r");
        while (f != NULL && fgets(line, sizeof(line), f) != NULL)
            found = found || (strncmp(line, "tfd:", 4) == 0 && strtol(line + 4, NULL, 10) == fd);
        if (f != NULL)
            fclose(f);
    }
    return found;
}

/*
 * The process after this one, or the service manager, has the same socket. epoll knows the socket, not the descriptor:
 * closed without a word to epoll, it would go on waking us up for each client of the others.
 */
struct closing {
    struct loop *loop;
    struct door *door;
    struct loop_deferred first, others[3];
};

static void nothing(void *arg)
{
    (void)arg;
}

static void close_and_cancel(void *arg)
{
    struct closing *c = arg;

    listener_close(c->door->listener);
    for (size_t i = 0; i < ROWS(c->others); i++)
        loop_defer_cancel(c->loop, &c->others[i]);
}

static void test_shared(struct loop *l, bool among_cancelled)
{
    struct door d = {.n = 0};
    struct closing closing = {.loop = l, .door = &d};
    struct err err = {""};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int theirs = socket(AF_INET, SOCK_STREAM, 0), ours = dup(theirs), client;

    if (bind(theirs, (struct sockaddr *)&in, sizeof(in)) != 0 || listen(theirs, 5) != 0)
        tap_bail("listen");
    d.listener = listener_adopt(l, ours, on_client, &d, &err);
    client = dial_port("127.0.0.1", listener_port(d.listener));
    ok(run_until(l, d.n == 1), "a socket that is shared takes clients");
    ok(is_watched(ours), "epoll knows it");
    if (among_cancelled) {
        loop_defer(l, &closing.first, close_and_cancel, &closing);
        for (size_t i = 0; i < ROWS(closing.others); i++)
            loop_defer(l, &closing.others[i], nothing, NULL);
    } else {
        listener_close(d.listener);
    }
    settle(l);
    ok(fcntl(ours, F_GETFD) < 0, "closed%s", among_cancelled ? " while queued work is cancelled" : "");
    ok(!is_watched(ours), "and epoll knows nothing of it any more");
    close(client);
    close(theirs);
    empty(&d);
}

static void test_adopt(struct loop *l)
{
    struct door d = {.n = 0};
    struct err err = {""};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int client;

    if (bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0 || listen(fd, 5) != 0)
        tap_bail("listen");
    d.listener = listener_adopt(l, fd, on_client, &d, &err);
    ok(d.listener != NULL, "an inherited socket %s", err.text);
    client = dial_port("127.0.0.1", listener_port(d.listener));
    ok(run_until(l, d.n == 1), "takes clients");
    listener_close(d.listener);
    settle(l);
    close(client);
    empty(&d);
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    test_accepts(l);
    test_bad_address(l);
    test_dual_stack(l);
    test_pause(l);
    test_close_inside(l);
    test_batches(l);
    test_out_of_descriptors(l);
    test_adopt(l);
    test_shared(l, false);
    test_shared(l, true);
    loop_free(l);
    return tap_end();
}
