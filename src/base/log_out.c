/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_out.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

void log_out_open(struct log_out *o, FILE *f)
{
    struct stat st;
    int fd = fileno(f);
    bool known = fd >= 0 && fstat(fd, &st) == 0;

    *o = (struct log_out){.stream = f, .fd = -1};
    if (!known || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode)))
        return;
    (void)fflush(f);
    o->fd = fd;
    o->socket = S_ISSOCK(st.st_mode);
}

/* With room there is room for so much at least (pipe(7)). */
static ssize_t write_with_room(int fd, const char *p, size_t n)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};

    if (poll(&room, 1, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(fd, p, n < PIPE_BUF ? n : PIPE_BUF);
}

/* All or, as far as is known, nothing; sets *error then. */
static size_t write_stream(FILE *f, const char *p, size_t n, int *error)
{
    int before = errno;
    bool well;

    errno = 0;
    well = fwrite(p, 1, n, f) == n;
    well = fflush(f) == 0 && well;
    if (!well)
        *error = errno != 0 ? errno : EIO;
    clearerr(f);
    errno = before;
    return well ? n : 0;
}

size_t log_out_write(struct log_out *o, const char *p, size_t n, int *error)
{
    size_t done = 0;

    *error = 0;
    if (o->fd < 0)
        return write_stream(o->stream, p, n, error);
    while (done < n) {
        ssize_t got = o->socket ? send(o->fd, p + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL)
                                : write_with_room(o->fd, p + done, n - done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            *error = errno == EAGAIN || errno == EWOULDBLOCK ? 0 : errno;
            break;
        }
        done += (size_t)got;
    }
    return done;
}

void log_out_wait(const struct log_out *o, int milliseconds)
{
    struct pollfd room = {.fd = o->fd, .events = POLLOUT};

    if (o->fd >= 0)
        (void)poll(&room, 1, milliseconds);
}
