/* SPDX-License-Identifier: Apache-2.0 */
/* Several listening sockets as one: all or none, paused together. */
#include "net/listeners.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/tap.h"
#include "unit/net/fixture.h"

enum { DOORS = 3 };

static void on_client(int fd, void *arg)
{
    ++*(unsigned *)arg;
    close(fd);
}

/* A socket that listens on loopback; *port its number. */
static int listening(unsigned *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&in, sizeof(in)) != 0 || listen(fd, 5) != 0 ||
        getsockname(fd, (struct sockaddr *)&in, &len) != 0)
        tap_bail("listen");
    *port = ntohs(in.sin_port);
    return fd;
}

/* -1: nobody is there. */
static int call(unsigned port)
{
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void inherited(struct loop *l)
{
    int fds[DOORS], clients[DOORS];
    unsigned ports[DOORS], came = 0;
    struct listeners_opts o = {.inherited = fds, .n_inherited = DOORS};
    struct listeners *s;
    struct err err = {""};

    for (size_t i = 0; i < DOORS; i++)
        fds[i] = listening(&ports[i]);
    s = listeners_open(l, &o, on_client, &came, &err);
    if (s == NULL)
        tap_bail("%s", err.text);
    is_u64(listeners_port(s), ports[0], "its port is the first's");
    listeners_pause(s);
    for (size_t i = 0; i < DOORS; i++)
        clients[i] = call(ports[i]);
    settle(l);
    is_u64(came, 0, "all are paused");
    listeners_resume(s);
    ok(run_until(l, came == DOORS), "and go on");
    listeners_close(s);
    settle(l);
    for (size_t i = 0; i < DOORS; i++) {
        ok(clients[i] >= 0 && call(ports[i]) < 0, "socket %zu is closed", i);
        close(clients[i]);
    }
}

static void all_or_none(struct loop *l)
{
    static const struct listen_address two[] = {{"127.0.0.1", 0}, {"127.0.0.1", 0}};
    struct listen_address taken[] = {{"127.0.0.1", 0}, {"127.0.0.1", 0}};
    int many[LISTENERS_MAX + 1];
    struct listeners_opts none = {.n_addresses = 0}, both = {.addresses = two, .n_addresses = 2},
                          one = {.addresses = taken, .n_addresses = 2},
                          too_many = {.inherited = many, .n_inherited = ROWS(many)};
    unsigned came = 0, port;
    int other = listening(&port);
    struct err err = {""};
    struct listeners *s = listeners_open(l, &both, on_client, &came, &err);

    ok(s != NULL && listeners_port(s) > 0, "two addresses %s", err.text);
    listeners_close(s);
    ok(listeners_open(l, &none, on_client, &came, &err) == NULL, "no address");
    is_str(err.text, "0 listening sockets, of 1 to 16 that are possible", "is said");
    err_clear(&err);
    ok(listeners_open(l, &too_many, on_client, &came, &err) == NULL, "too many sockets");
    is_str(err.text, "17 listening sockets, of 1 to 16 that are possible", "are counted");
    err_clear(&err);
    taken[1].port = port;
    ok(listeners_open(l, &one, on_client, &came, &err) == NULL, "an address that somebody has");
    ok(strstr(err.text, "in use") != NULL, "is named: %s", err.text);
    settle(l); /* what was opened before it is given up: LeakSanitizer looks */
    close(other);
    listeners_close(NULL);
}

int main(void)
{
    struct loop *l = loop_new(NULL);

    inherited(l);
    all_or_none(l);
    loop_free(l);
    return tap_end();
}
