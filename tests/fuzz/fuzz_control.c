/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the control socket. Whatever it sends, in whatever pieces: each line has one answer, a JSON object of
 * the protocol, and a line without end one at most; texts that a command gets are whole; nothing is left when the
 * client has gone.
 */
#include <errno.h>
#include <json-c/json.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/control.h"
#include "base/metric.h"
#include "fuzz/fuzz.h"
#include "net/loop.h"

enum { RECORD_CEILING = 8 << 20, TURNS = 20000 };

static struct loop *loop;
static struct control *control;
static struct metrics *metrics;
static struct sockaddr_un address = {.sun_family = AF_UNIX};

static bool do_echo(const struct json_object *request, struct buf *result, struct err *err, void *arg)
{
    const char *text = "";
    struct json_object *v = NULL;
    int64_t n = 0;
    bool yes = false;

    (void)arg;
    if (!control_text(request, "text", &text, err) || !control_number(request, "n", &n, err) ||
        !control_flag(request, "yes", &yes, err)) {
        must_hold(err_is_set(err));
        return false;
    }
    if (json_object_object_get_ex(request, "text", &v))
        must_hold((size_t)json_object_get_string_len(v) == strlen(text));
    buf_append_char(result, '"');
    buf_append_json(result, slice_str(text));
    buf_append_char(result, '"');
    return true;
}

static void *begin_pieces(const struct json_object *request, struct err *err, void *arg)
{
    int64_t *left = must_zalloc(sizeof(*left));

    (void)arg;
    if (control_number(request, "n", left, err) && *left >= 0 && *left < 100)
        return left;
    (void)err_set(err, "so many are not made");
    mem_free(left);
    return NULL;
}

static bool more_pieces(void *job, struct buf *piece)
{
    int64_t *left = job;

    buf_append_char(piece, '1');
    return (*left)-- > 0;
}

static const struct control_job pieces = {begin_pieces, more_pieces, mem_free, 0};
static const struct control_command commands[] = {
    {"echo", do_echo, NULL}, {"pieces", NULL, &pieces}, {NULL, NULL, NULL}};

static void tear_down(void)
{
    control_free(control);
    loop_free(loop);
    metrics_free(metrics);
}

static void set_up(void)
{
    struct control_opts o = {.path = address.sun_path, .commands = commands};
    struct err err = {""};

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/mvproxy-fuzz-control-%d", (int)getpid());
    loop = loop_new(NULL);
    o.metrics = metrics = metrics_new();
    control = control_new(loop, &o, &err);
    must_hold(control != NULL);
    (void)atexit(tear_down);
}

/* False at the end of the connection. */
static bool receive(int fd, struct buf *answers)
{
    char piece[4096];
    ssize_t n;

    while ((n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
        must_hold(buf_append(answers, slice_of(piece, (size_t)n)));
    return n < 0 && errno == EAGAIN;
}

/* Sends all of it, and nothing more, and reads to the end. */
static void run(struct slice in, unsigned seed, struct buf *answers)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool open = true, sent_all = false;
    unsigned turns = 0;

    must_hold(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    for (; open && turns < TURNS; turns++) {
        size_t n = seed == 0 ? in.n : fuzz_piece(&seed, in.n);
        ssize_t sent = in.n == 0 ? 0 : send(fd, in.p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        in = slice_from(in, sent > 0 ? (size_t)sent : 0);
        if (in.n == 0 && !sent_all)
            sent_all = shutdown(fd, SHUT_WR) == 0;
        loop_run_once(loop, 0);
        open = receive(fd, answers);
    }
    must_hold(!open);
    close(fd);
}

/* Objects, of which one that went wrong says why. */
static size_t check_answers(struct slice all)
{
    struct slice line;
    size_t lines = 0;

    must_hold(all.n == 0 || all.p[all.n - 1] == '\n');
    while (all.n > 0 && slice_split(&all, '\n', &line)) {
        struct json_tokener *t = json_tokener_new();
        struct json_object *o = json_tokener_parse_ex(t, line.p, (int)line.n), *ok = NULL, *rest = NULL;

        must_hold(json_object_is_type(o, json_type_object) && json_tokener_get_parse_end(t) == line.n);
        must_hold(json_object_object_get_ex(o, "ok", &ok));
        must_hold(json_object_object_get_ex(o, json_object_get_boolean(ok) ? "result" : "error", &rest));
        must_hold(json_object_get_boolean(ok) || json_object_get_string_len(rest) > 0);
        json_object_put(o);
        json_tokener_free(t);
        lines++;
    }
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), rest = in, line;
    struct buf whole, cut;
    size_t lines = 0, answers;

    if (control == NULL)
        set_up();
    while (rest.n > 0 && slice_split(&rest, '\n', &line))
        lines++;
    buf_init(&whole, RECORD_CEILING);
    buf_init(&cut, RECORD_CEILING);
    run(in, 0, &whole);
    run(in, 1 + (unsigned)size, &cut);
    must_hold(slice_eq(buf_slice(&whole), buf_slice(&cut)));
    answers = check_answers(buf_slice(&whole));
    must_hold(answers <= lines);
    if (size > 0 && size < 4096 && data[size - 1] == '\n')
        must_hold(answers == lines);
    buf_free(&whole);
    buf_free(&cut);
    return 0;
}
