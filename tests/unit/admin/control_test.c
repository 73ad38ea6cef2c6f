/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket: what is asked and answered, and clients that break the rules. */
#include "admin/control.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "admin/metrics_text.h"
#include "base/clock.h"
#include "base/limits.h"
#include "lib/tap.h"
#include "net/loop.h"

enum { LARGE = 4 << 20 };

#define GIVEN_UP "{\"v\":1,\"ok\":false,\"error\":\"the answer is too long, or there is no memory for it\"}"

static struct loop *loop;
static char path[64];
static unsigned calls;

static bool do_echo(const struct json_object *request, struct buf *result, struct err *err, void *arg)
{
    (void)err;
    (void)arg;
    calls++;
    buf_printf(result, "[\"%s\",%lld,%s]", control_text(request, "text"), (long long)control_number(request, "n", -1),
               control_flag(request, "yes") ? "true" : "false");
    return true;
}

static bool do_fail(const struct json_object *request, struct buf *result, struct err *err, void *arg)
{
    (void)request;
    (void)arg;
    buf_append_str(result, "not to be seen");
    return err_set(err, "it \"cannot\" be done");
}

static bool do_large(const struct json_object *request, struct buf *result, struct err *err, void *arg)
{
    size_t n = (size_t)control_number(request, "n", LARGE);

    (void)err;
    (void)arg;
    buf_append_char(result, '"');
    for (size_t i = 0; i < n; i += 1024) {
        char *room = buf_reserve(result, 1024);

        if (room == NULL)
            return true;
        memset(room, 'x', 1024);
        buf_commit(result, 1024);
    }
    buf_append_char(result, '"');
    return true;
}

/* An answer in pieces: numbers, two times of three nothing; broken at `fails`. */
struct counting {
    int64_t at, most, fails;
};

static unsigned jobs;

static void *begin_count(const struct json_object *request, struct err *err, void *arg)
{
    struct counting *c;

    (void)arg;
    if (control_flag(request, "refuse")) {
        (void)err_set(err, "refused");
        return NULL;
    }
    c = must_zalloc(sizeof(*c));
    c->most = control_number(request, "n", 3);
    c->fails = control_number(request, "fails", -1);
    jobs++;
    return c;
}

static bool more_count(void *job, struct buf *piece)
{
    struct counting *c = job;

    calls++;
    piece->failed = c->at == c->fails;
    if (c->at++ % 3 == 0)
        buf_printf(piece, "%s%lld", c->at == 1 ? "[" : ",", (long long)c->at);
    if (c->at < c->most)
        return true;
    buf_append_char(piece, ']');
    return false;
}

static void end_count(void *job)
{
    jobs--;
    mem_free(job);
}

/* A second's work. */
static bool do_toil(const struct json_object *request, struct buf *result, struct err *err, void *arg)
{
    (void)request;
    (void)err;
    (void)arg;
    clock_fake(clock_us() + 1000000, clock_wall_us());
    buf_append_str(result, "1");
    return true;
}

static const struct control_job count_job = {begin_count, more_count, end_count, 1};

/* More than an answer may be. */
static bool more_flood(void *job, struct buf *piece)
{
    static char text[512 << 10];

    (void)job;
    memset(text, 'x', sizeof(text));
    buf_append(piece, slice_of(text, sizeof(text)));
    return true;
}

static const struct control_job flood_job = {begin_count, more_flood, end_count, 0};

static const struct control_command commands[] = {
    {"echo", do_echo, NULL},     {"fail", do_fail, NULL},     {"large", do_large, NULL}, {"toil", do_toil, NULL},
    {"count", NULL, &count_job}, {"flood", NULL, &flood_job}, {NULL, NULL, NULL}};

static struct control *open_control(void)
{
    struct control_opts o = {.path = path, .commands = commands};
    struct err err = {""};
    struct control *c = control_new(loop, &o, &err);

    if (c == NULL)
        tap_bail("%s", err.text);
    return c;
}

static int dial(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0)
        tap_bail("connect %s: %s", path, strerror(errno));
    return fd;
}

static void turn(unsigned n)
{
    while (n-- > 0)
        loop_run_once(loop, 1);
}

/* What came until the connection ended or a line was complete, without its newline; "(end)" behind what ended. */
static const char *answer(int fd)
{
    static char text[LIMIT_CONTROL_ANSWER + 4096];
    size_t n = 0;

    for (unsigned i = 0; i < 20000; i++) {
        ssize_t got = recv(fd, text + n, sizeof(text) - n - 8, MSG_PEEK);
        const char *newline = got <= 0 ? NULL : memchr(text + n, '\n', (size_t)got);

        if (got > 0) /* no more than this line */
            got = recv(fd, text + n, newline == NULL ? (size_t)got : (size_t)(newline + 1 - text) - n, 0);

        if (got == 0) {
            memcpy(text + n, "(end)", sizeof("(end)"));
            return text;
        }
        n += got > 0 ? (size_t)got : 0;
        if (n > 0 && text[n - 1] == '\n') {
            text[n - 1] = '\0';
            return text;
        }
        turn(1);
    }
    text[n] = '\0';
    return text;
}

static void say(int fd, const char *text)
{
    is_int(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text), "sent");
}

static const struct {
    const char *name, *request, *answer;
} rows[] = {
    {"a command", "{\"v\":1,\"command\":\"echo\",\"text\":\"a\",\"n\":7,\"yes\":true}\n",
     "{\"v\":1,\"ok\":true,\"result\":[\"a\",7,true]}"},
    {"members that are missing", "{\"v\":1,\"command\":\"echo\"}\n",
     "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}"},
    {"members of other types", "{\"v\":1,\"command\":\"echo\",\"text\":1,\"n\":\"7\",\"yes\":1}\n",
     "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}"},
    {"a command that fails", "{\"v\":1,\"command\":\"fail\"}\n",
     "{\"v\":1,\"ok\":false,\"error\":\"it \\\"cannot\\\" be done\"}"},
    {"a mistyped command", "{\"v\":1,\"command\":\"ecko\"}\n",
     "{\"v\":1,\"ok\":false,\"error\":\"unknown command \\\"ecko\\\": did you mean echo?\"}"},
    {"no command", "{\"v\":1}\n", "{\"v\":1,\"ok\":false,\"error\":\"unknown command \\\"\\\"\"}"},
    {"another version", "{\"v\":2,\"command\":\"echo\"}\n",
     "{\"v\":1,\"ok\":false,\"error\":\"only version 1 of the protocol is spoken here\"}"},
    {"no JSON", "status\n", "{\"v\":1,\"ok\":false,\"error\":\"a request is one line with a JSON object\"}"},
    {"no object", "[1]\n", "{\"v\":1,\"ok\":false,\"error\":\"a request is one line with a JSON object\"}"},
    {"more behind it", "{\"v\":1,\"command\":\"echo\"} {}\n",
     "{\"v\":1,\"ok\":false,\"error\":\"a request is one line with a JSON object\"}"},
    {"too deep", "{\"v\":1,\"a\":[[[[[[[[[[[[]]]]]]]]]]]]}\n",
     "{\"v\":1,\"ok\":false,\"error\":\"a request is one line with a JSON object\"}"},
    {"an empty line", "\n", "{\"v\":1,\"ok\":false,\"error\":\"a request is one line with a JSON object\"}"},
};

static void test_requests(void)
{
    struct control *c = open_control();
    struct stat st;
    int fd = dial();

    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "only the owner may");
    for (size_t i = 0; i < ROWS(rows); i++) {
        say(fd, rows[i].request);
        is_str(answer(fd), rows[i].answer, "%s", rows[i].name);
    }
    say(fd, "{\"v\":1,\"command\":\"echo\",\"n\":1}\n{\"v\":1,\"command\":\"echo\",\"n\":2}\n{\"v\":1,");
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":[\"\",1,false]}", "the first of two at once");
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":[\"\",2,false]}", "and the second");
    say(fd, "\"command\":\"large\"}\n");
    is_u64(strlen(answer(fd)), LARGE + 29, "half a line waits for the other half; a large answer");
    say(fd, "{\"v\":1,\"command\":\"large\",\"n\":99999999}\n");
    is_str(answer(fd), GIVEN_UP, "not a larger one than there is room for");
    close(fd);
    fd = dial();
    say(fd, "{\"v\":1,\"comm");
    (void)shutdown(fd, SHUT_WR);
    is_str(answer(fd), "{\"v\":1,\"ok\":false,\"error\":\"the request has no end: it is one line\"}",
           "half a line and no more");
    is_str(answer(fd), "(end)", "and the end");
    close(fd);
    fd = dial();
    (void)shutdown(fd, SHUT_WR);
    is_str(answer(fd), "(end)", "who asks nothing is told nothing");
    close(fd);
    control_free(c);
    ok(access(path, F_OK) != 0, "the file goes with it");
}

static void test_rule_breakers(void)
{
    static char junk[1 << 16];
    struct control *c = open_control();
    int fd = dial(), others[LIMIT_CONTROL_CLIENTS], late;
    size_t sent = 0;
    ssize_t n;

    memset(junk, 'x', sizeof(junk));
    for (unsigned i = 0; i < 200; i++) {
        n = send(fd, junk, sizeof(junk), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        turn(1);
    }
    ok(sent < 2 << 20, "a line without end is not read: %zu bytes were taken", sent);
    is_str(answer(fd), "{\"v\":1,\"ok\":false,\"error\":\"the request is too long\"}", "it is told why");
    close(fd);
    turn(5);
    for (size_t i = 0; i < ROWS(others); i++)
        others[i] = dial();
    turn(5);
    late = dial();
    is_str(answer(late), "{\"v\":1,\"ok\":false,\"error\":\"busy: as many others as there may be are connected\"}",
           "one more than there is room for is told so");
    close(late);
    /* A client that asks and never reads makes one answer wait, not a hundred. */
    calls = 0;
    for (unsigned i = 0; i < 100; i++)
        (void)!send(others[0], "{\"v\":1,\"command\":\"large\"}\n{\"v\":1,\"command\":\"echo\"}\n", 52, MSG_NOSIGNAL);
    turn(50);
    is_u64(calls, 0, "what stands behind an answer that nobody reads is not looked at");
    say(others[1], "{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(others[1]), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}", "and others are served beside it");
    for (size_t i = 0; i < ROWS(others); i++)
        close(others[i]);
    turn(5);
    control_free(c);
}

/* More requests than are kept, behind an answer that nobody takes: the loop ends its turns all the same. */
static void test_full(void)
{
    static const char echo[] = "{\"v\":1,\"command\":\"echo\"}\n";
    struct control *c = open_control();
    int greedy = dial(), other = dial();
    unsigned asked = 0;

    alarm(60); /* or the first turn has no end */
    say(greedy, "{\"v\":1,\"command\":\"large\"}\n");
    for (unsigned i = 0; i < 2 * LIMIT_CONTROL_LINE / sizeof(echo); i++) {
        asked += send(greedy, echo, sizeof(echo) - 1, MSG_NOSIGNAL) == sizeof(echo) - 1;
        if (i % 100 == 0)
            turn(1);
    }
    turn(20);
    say(other, echo);
    is_str(answer(other), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}", "others are served beside it");
    is_u64(strlen(answer(greedy)), LARGE + 29, "the answer is taken at last");
    for (unsigned i = 0; i < asked; i++)
        if (strcmp(answer(greedy), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}") != 0)
            tap_bail("answer %u of %u", i, asked);
    alarm(0);
    ok(asked > LIMIT_CONTROL_LINE / sizeof(echo), "and then each of %u requests is answered", asked);
    close(greedy);
    close(other);
    turn(5);
    control_free(c);
}

static void test_pieces(void)
{
    struct control *c = open_control();
    int fd = dial(), gone = dial(), never = dial();

    say(fd, "{\"v\":1,\"command\":\"count\",\"n\":7}\n{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":[1,4,7]}", "all pieces, one after the other");
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}", "the next request waits for its end");
    say(fd, "{\"v\":1,\"command\":\"count\",\"refuse\":true}\n");
    is_str(answer(fd), "{\"v\":1,\"ok\":false,\"error\":\"refused\"}", "one that does not begin");
    say(gone, "{\"v\":1,\"command\":\"count\",\"n\":1000000000}\n");
    say(never, "{\"v\":1,\"command\":\"count\",\"n\":1000000000}\n");
    turn(20);
    is_u64(jobs, 2, "two without end");
    close(gone);
    for (unsigned i = 0; i < 100 && jobs > 1; i++)
        turn(1);
    is_u64(jobs, 1, "who leaves ends his");
    say(fd, "{\"v\":1,\"command\":\"count\",\"n\":9,\"fails\":5}\n");
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":[1,4", "what fails on the way is broken off");
    is_str(answer(fd), GIVEN_UP, "the next line says why");
    is_str(answer(fd), "(end)", "and the end");
    close(fd);
    fd = dial();
    say(fd, "{\"v\":1,\"command\":\"flood\"}\n");
    is_u64(strlen(answer(fd)), LIMIT_CONTROL_ANSWER + 26, "so long an answer may be");
    is_str(answer(fd), GIVEN_UP, "and the next line says why it is not longer");
    is_str(answer(fd), "(end)", "and the end");
    close(fd);
    fd = dial();
    say(fd, "{\"v\":1,\"command\":\"count\",\"n\":7}\n");
    (void)shutdown(fd, SHUT_WR);
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":[1,4,7]}", "who sends nothing more still gets all of it");
    is_str(answer(fd), "(end)", "and the end");
    control_free(c);
    is_u64(jobs, 0, "none outlives the socket");
    close(fd);
    close(never);
}

static void test_takeover(void)
{
    struct control *before = open_control(), *after;
    int old = dial(), fresh;

    turn(2);
    after = open_control();
    fresh = dial();
    say(old, "{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(old), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}",
           "open connections stay with the one before");
    control_free(before);
    ok(access(path, F_OK) == 0, "which leaves the name to the one that has it now");
    say(fresh, "{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(fresh), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}", "who comes now is served by the new one");
    close(old);
    close(fresh);
    control_free(after);
}

static void test_removed(void)
{
    struct control *c = open_control(), *other;
    int old = dial(), fresh;

    turn(2);
    control_keep(c);
    say(old, "{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(old), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}", "nothing was removed: nothing happens");
    (void)unlink(path);
    control_keep(c);
    fresh = dial();
    say(fresh, "{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(fresh), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}", "removed: there again");
    say(old, "{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(old), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}", "who was connected goes on");
    close(fresh);
    other = open_control();
    control_keep(c);
    control_free(c);
    ok(access(path, F_OK) == 0, "what another process has put there stays");
    close(old);
    control_free(other);
}

static void test_out_of_descriptors(void)
{
    struct control *c = open_control();
    struct rlimit before, tight;
    int fd = dial(), next = dup(0);
    unsigned turns = 0;
    uint64_t began;

    close(next);
    getrlimit(RLIMIT_NOFILE, &before);
    tight = before;
    tight.rlim_cur = (rlim_t)next;
    setrlimit(RLIMIT_NOFILE, &tight);
    for (began = clock_ms(); clock_ms() - began < 500; turns++)
        loop_run_once(loop, 50);
    ok(turns < 10 + (clock_ms() - began) / 10, "without descriptors accepting pauses, it does not spin: %u turns",
       turns);
    setrlimit(RLIMIT_NOFILE, &before);
    say(fd, "{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}",
           "who waited is served when there are some again");
    close(fd);
    control_free(c);
}

/* libevent has no memory for a connection: it is closed, and the next one is served. */
static bool starved;

static void *allocate(size_t n)
{
    return starved ? NULL : mem_alloc(n);
}

static void *allocate_again(void *p, size_t n)
{
    return starved ? NULL : mem_realloc(p, n);
}

static void test_out_of_memory(void)
{
    struct control *c = open_control();
    int fd = dial();
    char byte;

    starved = true;
    for (int i = 0; i < 5; i++)
        loop_run_once(loop, 10);
    starved = false;
    is_int(recv(fd, &byte, 1, MSG_DONTWAIT), 0, "closed without a word");
    close(fd);
    fd = dial();
    say(fd, "{\"v\":1,\"command\":\"echo\"}\n");
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}", "the next one is served");
    close(fd);
    control_free(c);
}

static void test_errors(void)
{
    static const char *const bad[] = {
        "relative",
        "/nonexistent/folder/socket",
        "/tmp/yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
    };

    for (size_t i = 0; i < ROWS(bad); i++) {
        struct control_opts o = {.path = bad[i], .commands = commands};
        struct err err = {""};

        is_null(control_new(loop, &o, &err), "refused: %s", bad[i]);
        ok(strstr(err.text, bad[i]) != NULL, "named: %s", err.text);
    }
}

/* What is done for an operator is in the metric of the loop's turns, too. */
static void test_lag(void)
{
    static const char name[] = "\nmvproxy_loop_lag_seconds_sum ";
    struct loop *before = loop;
    struct metrics *m = metrics_new();
    struct control *c;
    struct buf text;
    const char *sum;
    int fd;

    loop = loop_new(m);
    c = open_control();
    fd = dial();
    turn(3);
    clock_fake(clock_us(), clock_wall_us());
    say(fd, "{\"v\":1,\"command\":\"toil\"}\n");
    is_str(answer(fd), "{\"v\":1,\"ok\":true,\"result\":1}", "a second's work");
    clock_real();
    buf_init(&text, 1 << 20);
    ok(metrics_text_write(&text, m, METRICS_PROMETHEUS) && buf_append_char(&text, '\0'), "the metrics");
    sum = strstr(buf_slice(&text).p, name);
    ok(sum != NULL && strtod(sum + sizeof(name) - 1, NULL) >= 1, "a turn that took a second: %.40s", sum);
    buf_free(&text);
    close(fd);
    turn(3);
    control_free(c);
    loop_free(loop);
    metrics_free(m);
    loop = before;
}

int main(void)
{
    (void)snprintf(path, sizeof(path), "/tmp/mvproxy-control-test-%ld", (long)getpid());
    (void)signal(SIGPIPE, SIG_IGN); /* as the daemon */
    event_set_mem_functions(allocate, allocate_again, mem_free);
    loop = loop_new(NULL);
    test_requests();
    test_rule_breakers();
    test_full();
    test_pieces();
    test_takeover();
    test_removed();
    test_out_of_descriptors();
    test_out_of_memory();
    test_errors();
    test_lag();
    loop_free(loop);
    return tap_end();
}
