/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "ctl/weigh.h"

#define BEGUN "{\"v\":1,\"ok\":true,"
#define HANGS "the process hangs, or has no descriptors left (why: systemctl status mvproxy, or the container's log)"

/* The most that the daemon sends is an answer that is broken off, and the line that says why. */
enum {
    PIECE = 64 << 10,
    ANSWER_CEILING = LIMIT_CONTROL_ANSWER + 2 * PIECE,
    ANSWER_TIMEOUT_S = 10,
    WHOLE_TIMEOUT_MS = 120000
};

struct json_object *client_request(const char *command)
{
    struct json_object *o = json_object_new_object();

    json_object_object_add(o, "v", json_object_new_int(1));
    json_object_object_add(o, "command", json_object_new_string(command));
    return o;
}

/* -1 with *err; nobody answers, unless the path is none. */
static int connect_to(const char *path, bool *silent, struct err *err)
{
    const struct timeval patience = {.tv_sec = ANSWER_TIMEOUT_S};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof(addr.sun_path)) {
        (void)err_set(err, "%s: too long for the path of a socket", path);
        return -1;
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) { /* before connecting: where many wait already that takes its time, too */
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    }
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    *silent = true;
    (void)err_set(err, "no mvproxy answers at %s: %s%s", path, errno == EAGAIN ? HANGS : strerror(errno),
                  errno == EACCES ? " (only its user and root may)"
                  : errno == ENOENT || errno == ECONNREFUSED
                      ? " (why: systemctl status mvproxy, or the container's log)"
                      : "");
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool send_all(int fd, struct slice rest, struct err *err)
{
    while (rest.n > 0) {
        ssize_t n = send(fd, rest.p, rest.n, MSG_NOSIGNAL);

        if (n <= 0)
            return err_set(err, "mvproxy does not take the request: %s", strerror(errno));
        rest = slice_from(rest, (size_t)n);
    }
    return true;
}

/* What is behind the line that ends at `line`; an empty one at first. */
static bool receive_line(int fd, struct buf *b, struct slice *line, bool *silent, struct err *err)
{
    size_t begin = line->p == NULL ? 0 : (size_t)(line->p - buf_slice(b).p) + line->n + 1, seen = begin;
    uint64_t until = clock_ms() + WHOLE_TIMEOUT_MS;

    for (;;) {
        struct slice fresh = slice_from(buf_slice(b), seen);
        const char *end = fresh.n == 0 ? NULL : memchr(fresh.p, '\n', fresh.n);
        char *room;
        ssize_t n;

        if (end != NULL) {
            *line = slice_of(buf_slice(b).p + begin, (size_t)(end - buf_slice(b).p) - begin);
            return true;
        }
        seen += fresh.n;
        room = buf_reserve(b, PIECE);
        if (room == NULL)
            return err_set(err, "mvproxy's answer is too long");
        n = recv(fd, room, PIECE, 0);
        *silent = (n < 0 && errno == EAGAIN) || clock_ms() > until;
        if (n > 0 && *silent)
            return err_set(err, "no mvproxy answers: it takes more than %d s to do so", WHOLE_TIMEOUT_MS / 1000);
        if (n < 0)
            return *silent ? err_set(err, "no mvproxy answers: " HANGS)
                           : err_set(err, "mvproxy does not answer: %s", strerror(errno));
        if (n == 0)
            return err_set(err, "mvproxy closed the connection without an answer");
        buf_commit(b, (size_t)n);
    }
}

/* NULL: it is no object, or with *err. The process that answers may have been taken over: it is not to have all
 * memory. */
static struct json_object *parse(struct slice line, struct err *err)
{
    size_t weight = weigh_json(line);
    struct json_tokener *t = weight > WEIGH_MOST ? NULL : json_tokener_new();
    struct json_object *o;

    if (weight > WEIGH_MOST)
        (void)err_set(err, "mvproxy's answer is not read: it would take %zu MiB of memory here", weight >> 20);
    if (t == NULL)
        return NULL;
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    o = json_tokener_parse_ex(t, line.p, (int)line.n);
    json_tokener_free(t);
    if (json_object_is_type(o, json_type_object))
        return o;
    json_object_put(o);
    return NULL;
}

static struct json_object *take_result(struct json_object *answer, struct err *err)
{
    struct json_object *v = NULL, *result = NULL;

    if (answer == NULL)
        (void)err_set(err, "what answers is no mvproxy");
    else if (!json_object_object_get_ex(answer, "ok", &v) || !json_object_get_boolean(v))
        (void)err_set(err, "%s",
                      json_object_object_get_ex(answer, "error", &v) ? json_object_get_string(v) : "refused");
    else if (!json_object_object_get_ex(answer, "result", &v) || v == NULL)
        (void)err_set(err, "mvproxy's answer is empty");
    else
        result = json_object_get(v);
    utf8_make_printable(err->text); /* it goes to a terminal */
    return result;
}

/* A line that begins well and is half an object was broken off, and the next one says why (admin/control.h). */
static struct json_object *receive_answer(int fd, bool *silent, struct err *err)
{
    struct json_object *answer = NULL;
    struct err none = {.text = ""};
    struct slice line = SLICE_NONE;
    struct buf b;

    buf_init(&b, ANSWER_CEILING);
    if (receive_line(fd, &b, &line, silent, err)) {
        answer = parse(line, err);
        if (answer == NULL && !err_is_set(err) && slice_has_prefix(line, SLICE_LIT(BEGUN)) &&
            receive_line(fd, &b, &line, silent, &none))
            answer = parse(line, err);
    }
    buf_free(&b);
    return answer;
}

static int connect_as(const char *path, struct answerer *who, bool *silent, struct err *err)
{
    int fd = connect_to(path, silent, err);

    if (fd < 0 || (answerer_of(fd, who, err) && answerer_become(who, err)))
        return fd;
    close(fd);
    return -1;
}

/* Takes the connection, -1: there is none. */
static struct json_object *converse(int fd, struct json_object *request, bool *silent, struct err *err)
{
    struct json_object *result = NULL, *answer;
    struct err unread = {.text = ""};
    bool sent;

    sent = fd >= 0 && send_all(fd, slice_str(json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN)), err) &&
           send_all(fd, SLICE_LIT("\n"), err);
    answer = fd < 0 ? NULL : receive_answer(fd, silent, sent ? err : &unread);
    /* Who does not take it may have said why. */
    if (answer != NULL)
        err_clear(err);
    if (answer != NULL || !err_is_set(err))
        result = take_result(answer, err);
    json_object_put(answer);
    if (fd >= 0)
        close(fd);
    json_object_put(request);
    return result;
}

struct json_object *client_ask(const char *socket_path, struct json_object *request, bool *silent, struct err *err)
{
    *silent = false;
    return converse(connect_to(socket_path, silent, err), request, silent, err);
}

struct json_object *client_ask_as(const char *socket_path, struct json_object *request, struct answerer *who,
                                  struct err *err)
{
    bool silent = false;

    return converse(connect_as(socket_path, who, &silent, err), request, &silent, err);
}
