/* SPDX-License-Identifier: Apache-2.0 */
#include "net/file_watch.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "net/file_stamp.h"
#include "net/loop_internal.h"

enum {
    SETTLE_MS = 200, /* a pair is two files: give the second a chance */
    PERIOD_MS = 60000,
    RETRY_MIN_MS = 1000,
    MAX_LINKS = 40, /* as the kernel's */
};

struct watched_file {
    struct list_node node;
    struct file_stamp stamp;
    char *path;
};

struct file_watch {
    struct loop *loop;
    file_watch_fn *fn;
    void *arg;
    struct list files;
    int inotify; /* -1: none; the timer goes on */
    struct event *readable;
    struct loop_timer *look, *retry;
    uint64_t retry_ms; /* 0: they were good when they were judged last */
    bool settling;     /* something happened; look has been set to see what */
};

static struct watched_file *file_of(struct list_node *node)
{
    return node == NULL ? NULL : list_entry(node, struct watched_file, node);
}

static struct watched_file *first_file(const struct file_watch *w)
{
    return file_of(list_first(&w->files));
}

static struct watched_file *next_file(const struct file_watch *w, const struct watched_file *f)
{
    return file_of(list_next(&w->files, &f->node));
}

/* ---- where to look ---- */

static void watch_folder(const struct file_watch *w, const char *path, size_t n)
{
    char folder[PATH_MAX];

    if (n >= sizeof(folder))
        return;
    memcpy(folder, path, n);
    folder[n] = '\0';
    /* A folder that is already watched gives the same number again. Failure is what the timer is for. */
    (void)inotify_add_watch(w->inotify, n == 0 ? "." : folder,
                            IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM |
                                IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
}

/* Replaces path[from..to), a link, by where it points; to and what follows are kept. False: no link, or too long. */
static bool expand(char path[PATH_MAX], size_t from, size_t to)
{
    char target[PATH_MAX], rest[PATH_MAX], link[PATH_MAX];
    ssize_t n;
    int written;

    memcpy(link, path, to);
    link[to] = '\0';
    n = readlink(link, target, sizeof(target) - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    (void)snprintf(rest, sizeof(rest), "%s", path + to);
    written =
        snprintf(path + (target[0] == '/' ? 0 : from), PATH_MAX - (target[0] == '/' ? 0 : from), "%s%s", target, rest);
    return written > 0 && (size_t)written < PATH_MAX - from;
}

/*
 * Every folder in which a name on the way to the file can be replaced: those of its symbolic links and its own. Other
 * folders on the way can be renamed, too; for that there is the timer.
 */
static void watch_way(const struct file_watch *w, const char *file)
{
    char path[PATH_MAX];
    unsigned links = 0;
    size_t at = 0;

    if ((size_t)snprintf(path, sizeof(path), "%s", file) >= sizeof(path))
        return;
    for (;;) {
        size_t end;

        at += strspn(path + at, "/");
        end = at + strcspn(path + at, "/");
        if (end == at)
            return;
        if (links < MAX_LINKS && expand(path, at, end)) {
            links++;
            watch_folder(w, path, at);
            at = path[0] == '/' ? 0 : at;
            continue;
        }
        if (path[end] == '\0') {
            watch_folder(w, path, at);
            return;
        }
        at = end;
    }
}

static void close_inotify(struct file_watch *w)
{
    if (w->readable != NULL)
        event_free(w->readable);
    w->readable = NULL;
    if (w->inotify >= 0)
        close(w->inotify);
    w->inotify = -1;
}

static void on_readable(evutil_socket_t fd, short what, void *arg);

/* From scratch: what was watched along an old way is forgotten. */
static void watch_all(struct file_watch *w)
{
    close_inotify(w);
    w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->inotify >= 0)
        w->readable = event_new(loop_base(w->loop), w->inotify, EV_READ | EV_PERSIST, on_readable, w);
    if (w->readable == NULL || event_add(w->readable, NULL) != 0) {
        log_warning("Files cannot be watched (inotify); they are polled every minute", LT("err", strerror(errno)));
        close_inotify(w);
        return;
    }
    for (struct watched_file *f = first_file(w); f != NULL; f = next_file(w, f))
        watch_way(w, f->path);
}

/* ---- what happens ---- */

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct file_watch *w = arg;
    char events[4096] __attribute__((aligned(8)));

    (void)what;
    loop_enter(w->loop);
    while (read(fd, events, sizeof(events)) > 0)
        ; /* whatever it was: stat(2) says more */
    /* Not pushed back by further events: some folders are never quiet. */
    if (!w->settling)
        loop_timer_set(w->look, SETTLE_MS);
    w->settling = true;
    loop_leave(w->loop);
}

/* A new way is watched before its stamps are taken: what happens in between is an event. */
static bool anything_new(struct file_watch *w)
{
    bool changed = false;

    for (struct watched_file *f = first_file(w); f != NULL; f = next_file(w, f)) {
        struct file_stamp now = file_stamp_of(f->path);

        changed = changed || !file_stamp_same(&now, &f->stamp);
    }
    if (!changed)
        return false;
    watch_all(w);
    for (struct watched_file *f = first_file(w); f != NULL; f = next_file(w, f))
        f->stamp = file_stamp_of(f->path);
    return true;
}

void file_watch_done(struct file_watch *w, bool good)
{
    if (good) {
        w->retry_ms = 0;
        loop_timer_cancel(w->retry);
        return;
    }
    w->retry_ms = w->retry_ms == 0 ? RETRY_MIN_MS : w->retry_ms * 2;
    if (w->retry_ms > PERIOD_MS)
        w->retry_ms = PERIOD_MS;
    loop_timer_set(w->retry, w->retry_ms);
}

/* A folder that was made again is where it was, and of that there was no event: watched before the files are read. */
static void on_retry(void *arg)
{
    struct file_watch *w = arg;

    (void)anything_new(w);
    w->fn(w->arg);
}

static void on_look(void *arg)
{
    struct file_watch *w = arg;

    w->settling = false;
    loop_timer_set(w->look, PERIOD_MS);
    if (anything_new(w)) {
        w->retry_ms = 0;
        loop_timer_cancel(w->retry);
        w->fn(w->arg);
    }
}

/* ---- life ---- */

struct file_watch *file_watch_new(struct loop *l, file_watch_fn *fn, void *arg)
{
    struct file_watch *w = mem_zalloc(sizeof(*w));

    if (w == NULL)
        return NULL;
    w->loop = l;
    w->fn = fn;
    w->arg = arg;
    w->inotify = -1;
    list_init(&w->files);
    w->look = loop_timer_new(l, on_look, w);
    w->retry = loop_timer_new(l, on_retry, w);
    if (w->look != NULL && w->retry != NULL)
        return w;
    file_watch_free(w);
    return NULL;
}

void file_watch_free(struct file_watch *w)
{
    struct list_node *node;

    if (w == NULL)
        return;
    close_inotify(w);
    if (w->look != NULL)
        loop_timer_free(w->look);
    if (w->retry != NULL)
        loop_timer_free(w->retry);
    while ((node = list_pop_front(&w->files)) != NULL) {
        struct watched_file *f = list_entry(node, struct watched_file, node);

        mem_free(f->path);
        mem_free(f);
    }
    mem_free(w);
}

static bool is_watched(const struct file_watch *w, const char *path)
{
    const struct watched_file *f = first_file(w);

    while (f != NULL && strcmp(f->path, path) != 0)
        f = next_file(w, f);
    return f != NULL;
}

bool file_watch_add(struct file_watch *w, const char *path)
{
    struct watched_file *f;

    if (is_watched(w, path))
        return true;
    f = mem_zalloc(sizeof(*f));
    if (f == NULL || (f->path = mem_strdup(path)) == NULL) {
        mem_free(f);
        return false;
    }
    if (w->inotify >= 0)
        watch_way(w, path);
    f->stamp = file_stamp_of(path);
    list_push_back(&w->files, &f->node);
    return true;
}

void file_watch_start(struct file_watch *w)
{
    watch_all(w);
    loop_timer_set(w->look, 0); /* what happened since the stamps were taken */
}
