/* SPDX-License-Identifier: Apache-2.0 */
/* What the service manager is told, byte for byte, through a socket of its kind. */
#include "daemon/notify.h"

#include "lib/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int manager = -1;

/* An abstract address: nothing is left behind. */
static void open_manager(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char name[64];
    int n = snprintf(name, sizeof(name), "@mvproxy-notify-test-%d", (int)getpid());

    memcpy(a.sun_path, name, (size_t)n);
    a.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (manager < 0 ||
        bind(manager, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)) != 0)
        tap_bail("cannot make a notify socket");
    (void)setenv("NOTIFY_SOCKET", name, 1);
}

static const char *told(void)
{
    static char text[4096];
    ssize_t n = recv(manager, text, sizeof(text) - 1, MSG_DONTWAIT);

    text[n < 0 ? 0 : n] = '\0';
    return text;
}

/* The next descriptor that is free. */
static int next_fd(void)
{
    int fd = dup(manager);

    if (fd < 0)
        tap_bail("no descriptor");
    (void)close(fd);
    return fd;
}

static void gives_back(void)
{
    int before = next_fd();
    struct notify *n = notify_new();

    ok(next_fd() > before, "a socket towards the manager");
    notify_free(n);
    is_int(next_fd(), before, "is given back");
}

static void messages(void)
{
    struct notify *n = notify_new();
    struct slice rest, line;
    uint64_t us = 0;

    notify_ready(n, "Serving, 2 peers known");
    is_str(told(), "READY=1\nSTATUS=Serving, 2 peers known\n", "ready");
    notify_reloading(n);
    rest = slice_str(told());
    ok(slice_split(&rest, '\n', &line) && slice_eq(line, SLICE_LIT("RELOADING=1")), "reloading");
    ok(slice_split(&rest, '=', &line) && slice_eq(line, SLICE_LIT("MONOTONIC_USEC")), "with the time");
    ok(slice_split(&rest, '\n', &line) && slice_u64(line, &us) && us > 0 && rest.n == 0, "in microseconds");
    notify_status(n, "last reload refused: x");
    is_str(told(), "STATUS=last reload refused: x\n", "status");
    notify_stopping(n);
    is_str(told(), "STOPPING=1\nSTATUS=Shutting down\n", "stopping");
    notify_extend_timeout(n, 2000000);
    is_str(told(), "EXTEND_TIMEOUT_USEC=2000000\n", "more time");
    notify_watchdog(n);
    is_str(told(), "WATCHDOG=1\n", "alive");
    notify_free(n);
}

/* Until there is room for nothing more. */
static void fill_queue(void)
{
    struct sockaddr_un a;
    socklen_t len = sizeof(a);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || getsockname(manager, (struct sockaddr *)&a, &len) != 0)
        tap_bail("cannot send to the notify socket");
    while (sendto(fd, "x", 1, 0, (struct sockaddr *)&a, len) == 1)
        ;
    close(fd);
}

static void empty_queue(void)
{
    while (strcmp(told(), "x") == 0)
        ;
}

/* A manager that reads nothing for a while: how things stand is told when it reads again. */
static void busy_manager(void)
{
    struct notify *n = notify_new();

    fill_queue();
    notify_reloading(n);
    notify_ready(n, "Reloaded");
    notify_status(n, "Serving, 1 peers known");
    notify_status(n, "Serving, 2 peers known");
    notify_watchdog(n);
    notify_again(n);
    empty_queue();
    notify_again(n);
    ok(strncmp(told(), "RELOADING=1\n", 12) == 0, "what there was no room for comes later");
    is_str(told(), "READY=1\nSTATUS=Reloaded\n", "in its order");
    is_str(told(), "STATUS=Serving, 2 peers known\n", "of several statuses the last");
    is_str(told(), "", "and no sign of life of long ago");
    fill_queue();
    notify_ready(n, "Starting");
    for (int i = 0; i < 20; i++) {
        notify_reloading(n);
        notify_ready(n, "Reloaded");
    }
    empty_queue();
    notify_stopping(n);
    for (int i = 0; i < 4; i++) {
        ok(strncmp(told(), "RELOADING=1\n", 12) == 0, "of many reloads the last are told");
        is_str(told(), "READY=1\nSTATUS=Reloaded\n", "with their ends");
    }
    is_str(told(), "STOPPING=1\nSTATUS=Shutting down\n", "what comes then comes behind them");
    is_str(told(), "", "and nothing is told twice");
    notify_free(n);
}

static const struct {
    const char *name, *usec, *pid;
    uint64_t want;
} watchdogs[] = {
    {"none", NULL, NULL, 0},          {"30 s", "30000000", NULL, 15000}, {"1 s", "1000000", NULL, 500},
    {"ours", "1000000", "self", 500}, {"another's", "1000000", "1", 0},  {"nonsense", "soon", NULL, 0},
};

static void watchdog(void)
{
    for (size_t i = 0; i < ROWS(watchdogs); i++) {
        char self[32];
        const char *pid = watchdogs[i].pid;
        struct notify *n;

        (void)snprintf(self, sizeof(self), "%d", (int)getpid());
        (void)unsetenv("WATCHDOG_USEC");
        (void)unsetenv("WATCHDOG_PID");
        if (watchdogs[i].usec != NULL)
            (void)setenv("WATCHDOG_USEC", watchdogs[i].usec, 1);
        if (pid != NULL)
            (void)setenv("WATCHDOG_PID", strcmp(pid, "self") == 0 ? self : pid, 1);
        n = notify_new();
        is_u64(notify_watchdog_interval_ms(n), watchdogs[i].want, "watchdog: %s", watchdogs[i].name);
        notify_free(n);
    }
}

/* What has no room in a message is not sent, nor what nobody can have meant for an address. */
static void odd(void)
{
    static const char *const addresses[] = {"", "@", "/", "relative", "run/notify"};
    static char text[1200], address[120];
    struct notify *n = notify_new();

    memset(text, 'x', sizeof(text) - 1);
    notify_status(n, text);
    is_str(told(), "", "a status that is too long");
    text[1024 - sizeof("STATUS=\n")] = '\0';
    notify_status(n, text);
    is_u64(strlen(told()), 1023, "one that just fits");
    text[1024 - sizeof("STATUS=\n")] = 'x';
    text[1025 - sizeof("STATUS=\n")] = '\0';
    notify_status(n, text);
    is_str(told(), "", "one that just does not");
    notify_status(n, "Serving");
    is_str(told(), "STATUS=Serving\n", "the next is sent");
    notify_free(n);
    for (size_t i = 0; i <= ROWS(addresses); i++) {
        memset(address, 'y', sizeof(address) - 1);
        address[0] = '@';
        (void)setenv("NOTIFY_SOCKET", i < ROWS(addresses) ? addresses[i] : address, 1);
        n = notify_new();
        notify_ready(n, "nobody");
        notify_again(n);
        is_str(told(), "", "no address: %.20s", i < ROWS(addresses) ? addresses[i] : address);
        notify_free(n);
    }
}

/* A manager that is not there: what it was to be told is not kept for another one. */
static void gone_manager(void)
{
    struct notify *n;

    (void)close(manager);
    open_manager();
    n = notify_new();
    (void)close(manager);
    notify_status(n, "Serving, 1 peers known");
    open_manager();
    notify_again(n);
    is_str(told(), "", "what nobody heard");
    notify_status(n, "Serving, 2 peers known");
    is_str(told(), "STATUS=Serving, 2 peers known\n", "who is there later hears what comes");
    notify_free(n);
}

static void no_manager(void)
{
    struct notify *n;
    char self[32];
    int fds[2] = {-1, -1};

    (void)unsetenv("NOTIFY_SOCKET");
    n = notify_new();
    notify_ready(n, "nobody listens");
    is_str(told(), "", "without a manager nothing is sent");
    notify_free(n);
    is_u64(notify_inherited(fds, ROWS(fds)), 0, "no socket is inherited");
    (void)setenv("LISTEN_FDS", "3", 1);
    (void)setenv("LISTEN_PID", "1", 1);
    is_u64(notify_inherited(fds, ROWS(fds)), 0, "nor one that is another's");
    (void)snprintf(self, sizeof(self), "%ld", (long)getpid());
    (void)setenv("LISTEN_PID", self, 1);
    is_u64(notify_inherited(fds, ROWS(fds)), 3, "how many there are");
    is_int(fds[1], 4, "and which, as far as there is room");
}

int main(void)
{
    open_manager();
    gives_back();
    messages();
    busy_manager();
    watchdog();
    odd();
    gone_manager();
    no_manager();
    (void)close(manager);
    return tap_end();
}
