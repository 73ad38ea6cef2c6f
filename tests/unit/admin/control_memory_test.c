/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of the control socket for whom there is no memory at the end. */
#include "admin/control.h"

#include <errno.h>
#include <event2/event.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "lib/tap.h"
#include "net/loop.h"

enum { SOON_MS = 20, TURNS = 500, NTHS = 6 };

static struct loop *loop;
static struct metrics *metrics;
static char path[64];

static bool do_nothing(const struct json_object *request, struct buf *result, struct err *err, void *arg)
{
    (void)request;
    (void)err;
    (void)arg;
    return buf_append_str(result, "1");
}

static const struct control_command commands[] = {{"nothing", do_nothing, NULL}, {NULL, NULL, NULL}};

/* Milliseconds; 0: as it is. */
static struct control *open_control(uint64_t timeout_ms)
{
    struct control_opts o = {.path = path, .commands = commands, .metrics = metrics, .timeout_ms = timeout_ms};
    struct err err = {""};
    struct control *c = control_new(loop, &o, &err);

    if (c == NULL)
        tap_bail("%s", err.text);
    return c;
}

/* One that has sent half a request, of which is known. */
static int half_a_request(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || send(fd, "{", 1, MSG_NOSIGNAL) != 1)
        tap_bail("connect %s: %s", path, strerror(errno));
    for (int i = 0; i < 4; i++)
        loop_run_once(loop, 1);
    return fd;
}

/* Whether it is closed at last; `*told`: with an answer. */
static bool ends(int fd, bool *told)
{
    char text[512];

    *told = false;
    for (unsigned i = 0; i < TURNS; i++) {
        ssize_t n = recv(fd, text, sizeof(text), 0);

        if (n == 0)
            return true;
        *told = *told || n > 0;
        loop_run_once(loop, 1);
    }
    return false;
}

/* It would be told that its request has no end. Without memory for that it is closed without a word. */
static void no_word(uint64_t timeout_ms, bool shut, const char *what)
{
    unsigned silent = 0;

    for (unsigned nth = 1; nth <= NTHS; nth++) {
        struct control *c = open_control(timeout_ms);
        int fd = half_a_request();
        bool told, over;

        if (shut)
            (void)shutdown(fd, SHUT_WR);
        mem_fail_nth(nth);
        clock_fake(clock_us() + timeout_ms * 1000, clock_wall_us());
        over = ends(fd, &told);
        ok(over, "%s, allocation %u fails: closed, %s", what, nth, told ? "and told" : "without a word");
        mem_fail_nth(0);
        silent += !told;
        close(fd);
        control_free(c);
    }
    ok(silent > 0 && silent < NTHS, "%u of %u were closed without a word", silent, (unsigned)NTHS);
}

int main(void)
{
    (void)snprintf(path, sizeof(path), "/tmp/mvproxy-control-memory-test-%ld", (long)getpid());
    event_set_mem_functions(mem_alloc, mem_realloc, mem_free);
    loop = loop_new(NULL);
    metrics = metrics_new();
    clock_fake(clock_us(), clock_wall_us()); /* else its time might be over before it is to be */
    no_word(SOON_MS, false, "half a request, and its time is over");
    no_word(0, true, "half a request, and no more comes");
    clock_real();
    loop_free(loop);
    metrics_free(metrics);
    return tap_end();
}
