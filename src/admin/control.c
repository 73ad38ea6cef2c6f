/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/control.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/control_client.h"
#include "base/limits.h"
#include "base/log.h"
#include "net/listener.h"
#include "net/loop.h"

/* Who waits for a place behind the one that was accepted, the kernel keeps. */
enum { BACKLOG = 1024, LOOK_MS = 100, FLOOD_ROUNDS = 5 };

struct control {
    struct control_host host;
    uint64_t grace_ms; /* so long nobody has to make room who is slow */
    char *path;
    struct listener *listener;
    dev_t device; /* of the file, to know it again */
    ino_t inode;
    bool said; /* that it is gone and cannot be made again */
    bool over;
    int waiting; /* a client for which there is no place yet, and nobody is accepted meanwhile; -1: none */
    uint64_t waiting_since_ms;
    unsigned made_room; /* how often, without a place's having been free in between */
    struct loop_timer *look;
};

/* ---- places ---- */

/* In a flood each round has half the time of the one before it, or who comes at its end would wait for ever. */
static uint64_t grace_ms(const struct control *c)
{
    unsigned rounds = c->made_room / LIMIT_CONTROL_CLIENTS;

    return c->grace_ms >> (rounds < FLOOD_ROUNDS ? rounds : FLOOD_ROUNDS);
}

/* One that begins to ask anew has had its turn, if all others are being answered for as long. */
static void look_for_place(void *arg)
{
    struct control *c = arg;
    uint64_t grace = grace_ms(c), waited_ms = loop_now_ms(c->host.loop) - c->waiting_since_ms;

    if (control_client_make_room(&c->host, grace)) {
        c->made_room++;
        return;
    }
    c->host.wanted = waited_ms >= grace;
    loop_timer_set(c->look, grace < LOOK_MS ? grace + 1 : LOOK_MS);
}

static void on_left(void *arg)
{
    struct control *c = arg;
    int fd = c->waiting;

    if (fd < 0 || c->over)
        return;
    c->waiting = -1;
    c->host.wanted = false;
    loop_timer_cancel(c->look);
    control_client_serve(&c->host, fd);
    listener_resume(c->listener);
}

static void on_accept(int fd, void *arg)
{
    struct control *c = arg;

    if (c->host.clients.count < LIMIT_CONTROL_CLIENTS) {
        c->made_room = 0;
        control_client_serve(&c->host, fd);
        return;
    }
    c->waiting = fd;
    c->waiting_since_ms = loop_now_ms(c->host.loop);
    listener_pause(c->listener);
    loop_timer_set(c->look, 0); /* what others have asked by now is read first */
}

/* ---- the socket ---- */

static bool to_address(const char *path, struct sockaddr_un *out, struct err *err)
{
    memset(out, 0, sizeof(*out));
    out->sun_family = AF_UNIX;
    if (path[0] != '/' || strlen(path) >= sizeof(out->sun_path))
        return err_set(err, "\"%s\" is not an absolute path of at most %d bytes", path, CONTROL_PATH_MAX);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return true;
}

/* The path is an operator's word: a slip of his must not cost him a key. */
static bool may_be_replaced(const char *path, struct err *err)
{
    struct stat st;

    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return err_set(err, "%s is there and no socket, and stays", path);
    return true;
}

static int listen_at(const char *path, struct err *err)
{
    struct sockaddr_un addr;
    mode_t before;
    int fd, bound;

    if (!to_address(path, &addr, err) || !may_be_replaced(path, err))
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)unlink(path);
    before = umask(0177);
    bound = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&addr, sizeof(addr));
    (void)umask(before);
    if (bound == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    (void)err_set(err, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Made under another name first: whoever opens the path finds a socket that is listened on, at any moment. */
static int open_socket(struct control *c, struct err *err)
{
    char fresh[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    struct sockaddr_un addr;
    struct stat st;
    int fd;

    /* However many digits the number has: whether it fits is the same at each start. */
    if (strlen(c->path) > CONTROL_PATH_MAX ||
        snprintf(fresh, sizeof(fresh), "%s.%ld", c->path, (long)getpid()) >= (int)sizeof(fresh)) {
        (void)err_set(err, "\"%s\" is longer than %d bytes", c->path, CONTROL_PATH_MAX);
        return -1;
    }
    if (!to_address(c->path, &addr, err) || !may_be_replaced(c->path, err))
        return -1;
    fd = listen_at(fresh, err);
    if (fd < 0)
        return -1;
    if (lstat(fresh, &st) == 0 && rename(fresh, c->path) == 0) {
        c->device = st.st_dev;
        c->inode = st.st_ino;
        return fd;
    }
    (void)err_set(err, "%s: %s", c->path, strerror(errno));
    (void)unlink(fresh);
    close(fd);
    return -1;
}

static void set_up_host(struct control *c, struct loop *l, const struct control_opts *o)
{
    c->host = (struct control_host){.loop = l,
                                    .commands = o->commands,
                                    .arg = o->arg,
                                    .timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : TIMEOUT_CONTROL_MS,
                                    .on_left = on_left,
                                    .on_left_arg = c};
    c->grace_ms = o->grace_ms > 0 ? o->grace_ms : GRACE_CONTROL_MS;
    list_init(&c->host.clients);
    if (o->metrics != NULL)
        control_host_count(&c->host, o->metrics);
}

struct control *control_new(struct loop *l, const struct control_opts *o, struct err *err)
{
    struct control *c = must_zalloc(sizeof(*c));
    int fd;

    set_up_host(c, l, o);
    c->path = must_strdup(o->path);
    c->waiting = -1;
    c->look = loop_timer_new(l, look_for_place, c);
    if (c->look == NULL)
        (void)err_set(err, "out of memory");
    fd = c->look == NULL ? -1 : open_socket(c, err);
    if (fd >= 0) {
        c->listener = listener_adopt(l, fd, on_accept, c, err);
        if (c->listener != NULL)
            return c;
    }
    control_free(c);
    return NULL;
}

void control_keep(struct control *c)
{
    struct listener *fresh = NULL;
    struct stat st;
    struct err err;
    int fd;

    if (lstat(c->path, &st) == 0 || errno != ENOENT)
        return;
    err_clear(&err);
    fd = open_socket(c, &err);
    if (fd >= 0)
        fresh = listener_adopt(c->host.loop, fd, on_accept, c, &err);
    if (fresh != NULL) {
        listener_close(c->listener);
        c->listener = fresh;
        if (c->waiting >= 0)
            listener_pause(fresh);
        log_warning("The control socket had been removed, and is there again", LT("path", c->path));
    } else if (!c->said) {
        log_warning("The control socket was removed, and cannot be made again: mvproxyctl cannot be used",
                    LT("err", err.text));
    }
    c->said = fresh == NULL;
}

void control_free(struct control *c)
{
    struct stat st;

    if (c == NULL)
        return;
    if (c->inode != 0 && lstat(c->path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_dev == c->device &&
        st.st_ino == c->inode)
        (void)unlink(c->path);
    listener_close(c->listener);
    loop_timer_free(c->look);
    c->over = true;
    control_client_close_all(&c->host);
    if (c->waiting >= 0)
        close(c->waiting);
    mem_free(c->path);
    mem_free(c);
}
