/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_INHERITED_FD = 3, NOTIFY_MESSAGE_BYTES = 1024, NOTIFY_MISSED = 8 };

struct message {
    size_t len;
    char text[NOTIFY_MESSAGE_BYTES];
};

struct notify {
    int fd; /* -1: no manager */
    struct sockaddr_un address;
    socklen_t address_len;
    uint64_t watchdog_interval_ms;
    struct message missed[NOTIFY_MISSED]; /* what the manager had no room for, oldest first */
    size_t n_missed;
};

static void find_socket(struct notify *n)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path == NULL ? 0 : strlen(path);

    if (len < 2 || (path[0] != '/' && path[0] != '@') || len >= sizeof(n->address.sun_path))
        return;
    n->address.sun_family = AF_UNIX;
    memcpy(n->address.sun_path, path, len);
    if (path[0] == '@')
        n->address.sun_path[0] = '\0'; /* abstract name space */
    n->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static bool meant_for_us(const char *variable)
{
    const char *pid = getenv(variable);
    uint64_t v;

    return pid != NULL && slice_u64(slice_str(pid), &v) && v == (uint64_t)getpid();
}

static void find_watchdog(struct notify *n)
{
    const char *us = getenv("WATCHDOG_USEC");
    uint64_t v;

    if (us == NULL || !slice_u64(slice_str(us), &v) ||
        (getenv("WATCHDOG_PID") != NULL && !meant_for_us("WATCHDOG_PID")))
        return;
    n->watchdog_interval_ms = v / 2000;
}

struct notify *notify_new(void)
{
    struct notify *n = must_zalloc(sizeof(*n));

    n->fd = -1;
    find_socket(n);
    find_watchdog(n);
    return n;
}

void notify_free(struct notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    mem_free(n);
}

/* False: the manager's queue is full, as while it is busy with something else. */
static bool send_text(struct notify *n, const char *text, size_t len)
{
    if (n->fd < 0 || sendto(n->fd, text, len, MSG_NOSIGNAL, (const struct sockaddr *)&n->address, n->address_len) >= 0)
        return true;
    if (errno == EAGAIN || errno == ENOBUFS)
        return false;
    log_warning("Could not notify the service manager", LT("err", strerror(errno)));
    return true;
}

static bool is_status(const char *text)
{
    return strncmp(text, "STATUS=", 7) == 0;
}

/* One status is as good as many; of several reloads the last counts. */
static void keep(struct notify *n, const char *text, size_t len)
{
    struct message *m;

    if (n->n_missed > 0 && is_status(text) && is_status(n->missed[n->n_missed - 1].text))
        n->n_missed--;
    if (n->n_missed == NOTIFY_MISSED)
        memmove(&n->missed[0], &n->missed[1], --n->n_missed * sizeof(n->missed[0]));
    m = &n->missed[n->n_missed++];
    memcpy(m->text, text, len);
    m->len = len;
}

void notify_again(struct notify *n)
{
    size_t sent = 0;

    while (sent < n->n_missed && send_text(n, n->missed[sent].text, n->missed[sent].len))
        sent++;
    n->n_missed -= sent;
    memmove(&n->missed[0], &n->missed[sent], n->n_missed * sizeof(n->missed[0]));
}

/* What is only good now: lost if there is no room for it. */
static void send_message(struct notify *n, const char *text, int len)
{
    if (len > 0 && len < NOTIFY_MESSAGE_BYTES)
        (void)send_text(n, text, (size_t)len);
}

/* What says how things stand: a READY=1 that got lost would be a start, or a reload, that never ends. */
static void send_state(struct notify *n, const char *text, int len)
{
    if (len <= 0 || len >= NOTIFY_MESSAGE_BYTES)
        return;
    notify_again(n); /* in order */
    if (n->n_missed > 0 || !send_text(n, text, (size_t)len))
        keep(n, text, (size_t)len);
}

void notify_ready(struct notify *n, const char *status)
{
    char m[NOTIFY_MESSAGE_BYTES];

    send_state(n, m, snprintf(m, sizeof(m), "READY=1\nSTATUS=%s\n", status));
}

void notify_reloading(struct notify *n)
{
    char m[NOTIFY_MESSAGE_BYTES];

    send_state(n, m, snprintf(m, sizeof(m), "RELOADING=1\nMONOTONIC_USEC=%llu\n", (unsigned long long)clock_us()));
}

void notify_status(struct notify *n, const char *status)
{
    char m[NOTIFY_MESSAGE_BYTES];

    send_state(n, m, snprintf(m, sizeof(m), "STATUS=%s\n", status));
}

void notify_stopping(struct notify *n)
{
    char m[NOTIFY_MESSAGE_BYTES];

    send_state(n, m, snprintf(m, sizeof(m), "STOPPING=1\nSTATUS=Shutting down\n"));
}

void notify_watchdog(struct notify *n)
{
    char m[NOTIFY_MESSAGE_BYTES];

    send_message(n, m, snprintf(m, sizeof(m), "WATCHDOG=1\n"));
}

void notify_extend_timeout(struct notify *n, uint64_t us)
{
    char m[NOTIFY_MESSAGE_BYTES];

    send_message(n, m, snprintf(m, sizeof(m), "EXTEND_TIMEOUT_USEC=%llu\n", (unsigned long long)us));
}

uint64_t notify_watchdog_interval_ms(const struct notify *n)
{
    return n->watchdog_interval_ms;
}

size_t notify_inherited(int fds[], size_t max)
{
    const char *count = getenv("LISTEN_FDS");
    uint64_t v;

    if (!meant_for_us("LISTEN_PID") || count == NULL || !slice_u64(slice_str(count), &v))
        return 0;
    for (size_t i = 0; i < v && i < max; i++) {
        fds[i] = FIRST_INHERITED_FD + (int)i;
        (void)fcntl(fds[i], F_SETFD, FD_CLOEXEC);
    }
    return (size_t)v;
}
