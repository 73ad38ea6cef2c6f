/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"

enum { ANSWER_CEILING = 64 << 20, ANSWER_TIMEOUT_S = 60, PIECE = 64 << 10 };

struct json_object *client_request(const char *command)
{
    struct json_object *o = json_object_new_object();

    json_object_object_add(o, "v", json_object_new_int(1));
    json_object_object_add(o, "command", json_object_new_string(command));
    return o;
}

static int connect_to(const char *path, struct err *err)
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
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        return fd;
    }
    (void)err_set(err, "no mvproxy answers at %s: %s%s", path, strerror(errno),
                  errno == EACCES                            ? " (only its user and root may)"
                  : errno == ENOENT || errno == ECONNREFUSED ? " (why: systemctl status mvproxy)"
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

static bool receive_line(int fd, struct buf *line, struct err *err)
{
    for (;;) {
        char *room = buf_reserve(line, PIECE);
        ssize_t n = room == NULL ? -1 : recv(fd, room, PIECE, 0);

        if (room == NULL)
            return err_set(err, "mvproxy's answer is too long");
        if (n < 0)
            return err_set(err, "mvproxy does not answer: %s", strerror(errno));
        if (n == 0)
            return err_set(err, "mvproxy closed the connection without an answer");
        buf_commit(line, (size_t)n);
        if (memchr(room, '\n', (size_t)n) != NULL)
            return true;
    }
}

static struct json_object *take_result(const struct buf *line, struct err *err)
{
    struct json_tokener *t = json_tokener_new();
    struct json_object *answer, *v = NULL, *result = NULL;

    answer = t == NULL ? NULL : json_tokener_parse_ex(t, buf_slice(line).p, (int)buf_len(line));
    if (!json_object_is_type(answer, json_type_object))
        (void)err_set(err, "what answers is no mvproxy");
    else if (!json_object_object_get_ex(answer, "ok", &v) || !json_object_get_boolean(v))
        (void)err_set(err, "%s",
                      json_object_object_get_ex(answer, "error", &v) ? json_object_get_string(v) : "refused");
    else if (json_object_object_get_ex(answer, "result", &v))
        result = json_object_get(v);
    utf8_make_printable(err->text); /* it goes to a terminal */
    json_object_put(answer);
    if (t != NULL)
        json_tokener_free(t);
    return result;
}

struct json_object *client_ask(const char *socket_path, struct json_object *request, struct err *err)
{
    int fd = connect_to(socket_path, err);
    struct json_object *result = NULL;
    struct err unread = {.text = ""};
    struct buf line;
    bool sent;

    buf_init(&line, ANSWER_CEILING);
    sent = fd >= 0 && send_all(fd, slice_str(json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN)), err) &&
           send_all(fd, SLICE_LIT("\n"), err);
    /* Who does not take it may have said why. */
    if (fd >= 0 && receive_line(fd, &line, sent ? err : &unread)) {
        err_clear(err);
        result = take_result(&line, err);
    }
    if (fd >= 0)
        close(fd);
    buf_free(&line);
    json_object_put(request);
    return result;
}
