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
#include "base/metric.h"
#include "lib/tap.h"
#include "net/loop.h"

enum { LARGE = 4 << 20 };

#define REFUSED(why) "{\"v\":1,\"ok\":false,\"error\":\"" why "\"}"
#define ECHO(more) "{\"v\":1,\"command\":\"echo\"" more "}\n"
#define ECHOED "{\"v\":1,\"ok\":true,\"result\":[\"\",-1,false]}"
#define NUL_REFUSED REFUSED("a request has no NUL character (\\\\u0000) in its names and texts")
#define NO_END REFUSED("the request has no end: it is one line")
#define CROWDED_OUT REFUSED("closed to make room: others wait, and nothing whole was asked here for longest")

#define GIVEN_UP "{\"v\":1,\"ok\":false,\"error\":\"the answer is too long, or there is no memory for it\"}"

static struct loop *loop;
static struct metrics *metrics;
static char path[64];
static unsigned calls;

static bool do_echo(const struct json_object *request, struct buf *result, struct err *err, void *arg)
{
    const char *text = "";
    int64_t n = -1;
    bool yes = false;

    (void)arg;
    calls++;
    if (!control_text(request, "text", &text, err) || !control_number(request, "n", &n, err) ||
        !control_flag(request, "yes", &yes, err))
        return false;
    buf_printf(result, "[\"%s\",%lld,%s]", text, (long long)n, yes ? "true" : "false");
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
    int64_t n = LARGE;

    (void)arg;
    if (!control_number(request, "n", &n, err))
        return false;
    buf_append_char(result, '"');
    for (int64_t i = 0; i < n; i += 1024) {
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
    struct counting *c = must_zalloc(sizeof(*c));
    bool refuse = false;

    (void)arg;
    *c = (struct counting){.most = 3, .fails = -1};
    if (!control_flag(request, "refuse", &refuse, err) || !control_number(request, "n", &c->most, err) ||
        !control_number(request, "fails", &c->fails, err) || (refuse && !err_set(err, "refused"))) {
        mem_free(c);
        return NULL;
    }
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

/* One that never comes. */
static bool more_nothing(void *job, struct buf *piece)
{
    (void)job;
    (void)piece;
    return true;
}

static const struct control_job wait_job = {begin_count, more_nothing, end_count, 1};

/* A MiB at a time, 12 in all. */
static bool more_large(void *job, struct buf *piece)
{
    static char text[(1 << 20) - 16];
    struct counting *c = job;

    memset(text, 'x', sizeof(text));
    if (c->at == 0)
        buf_append_char(piece, '"');
    buf_append(piece, slice_of(text, sizeof(text)));
    if (++c->at < 12)
        return true;
    buf_append_char(piece, '"');
    return false;
}

static const struct control_job pieces_job = {begin_count, more_large, end_count, 0};

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
    {"echo", do_echo, NULL},   {"fail", do_fail, NULL},       {"large", do_large, NULL},
    {"toil", do_toil, NULL},   {"count", NULL, &count_job},   {"flood", NULL, &flood_job},
    {"wait", NULL, &wait_job}, {"pieces", NULL, &pieces_job}, {NULL, NULL, NULL}};

/* In milliseconds; 0: as it is. */
static struct control *open_patient(uint64_t timeout, uint64_t grace)
{
    struct control_opts o = {
        .path = path, .commands = commands, .metrics = metrics, .timeout_ms = timeout, .grace_ms = grace};
    struct err err = {""};
    struct control *c = control_new(loop, &o, &err);

    if (c == NULL)
        tap_bail("%s", err.text);
    return c;
}

static struct control *open_control(void)
{
    return open_patient(0, 0);
}

/* How many connections have ended so. */
static double closed(const char *reason)
{
    static const char *const labels[] = {"reason", NULL};
    struct slice value = slice_str(reason);

    return metric_value(
        metric_child(metric_family(metrics, METRIC_COUNTER, "mvproxy_control_closed_total", "", labels, 1), &value));
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
    {"a number as text", ECHO(",\"text\":1"), REFUSED("\\\"text\\\" has to be text")},
    {"nothing as text", ECHO(",\"text\":null"), REFUSED("\\\"text\\\" has to be text")},
    {"text as a number", ECHO(",\"n\":\"7\""), REFUSED("\\\"n\\\" has to be a whole number")},
    {"a fraction as a number", ECHO(",\"n\":7.5"), REFUSED("\\\"n\\\" has to be a whole number")},
    {"a number as a truth", ECHO(",\"yes\":1"), REFUSED("\\\"yes\\\" has to be true or false")},
    {"a NUL in a text", ECHO(",\"text\":\"a\\u0000b\""), NUL_REFUSED},
    {"in a name", "{\"v\":1,\"command\\u0000\":\"echo\"}\n", NUL_REFUSED},
    {"in the command", "{\"v\":1,\"command\":\"echo\\u0000x\"}\n", NUL_REFUSED},
    {"behind a backslash", ECHO(",\"text\":\"\\\\\\u0000\""), NUL_REFUSED},
    {"a backslash and what is no NUL", ECHO(",\"other\":\"\\\\u0000\",\"n\":1"),
     "{\"v\":1,\"ok\":true,\"result\":[\"\",1,false]}"},
    {"another escaped character", ECHO(",\"text\":\"\\u0061\""), "{\"v\":1,\"ok\":true,\"result\":[\"a\",-1,false]}"},
    {"a command that fails", "{\"v\":1,\"command\":\"fail\"}\n",
     "{\"v\":1,\"ok\":false,\"error\":\"it \\\"cannot\\\" be done\"}"},
    {"a mistyped command", "{\"v\":1,\"command\":\"ecko\"}\n",
     "{\"v\":1,\"ok\":false,\"error\":\"unknown command \\\"ecko\\\": did you mean echo?\"}"},
    {"no command", "{\"v\":1}\n", REFUSED("the request names no command (\\\"command\\\")")},
    {"an empty command", "{\"v\":1,\"command\":\"\"}\n", REFUSED("unknown command \\\"\\\"")},
    {"a number as command", "{\"v\":1,\"command\":7}\n", REFUSED("\\\"command\\\" has to be text")},
    {"a list", "{\"v\":1,\"command\":[\"echo\"]}\n", REFUSED("\\\"command\\\" has to be text")},
    {"an object", "{\"v\":1,\"command\":{}}\n", REFUSED("\\\"command\\\" has to be text")},
    {"nothing", "{\"v\":1,\"command\":null}\n", REFUSED("\\\"command\\\" has to be text")},
    {"no version", "{\"command\":\"echo\"}\n", REFUSED("only version 1 of the protocol is spoken here")},
    {"a version as text", "{\"v\":\"1\",\"command\":\"echo\"}\n",
     REFUSED("only version 1 of the protocol is spoken here")},
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
    say(fd, ECHO("") "{\"v\":1,\"comm");
    (void)shutdown(fd, SHUT_WR);
    is_str(answer(fd), ECHOED, "a request and half of one");
    is_str(answer(fd), NO_END, "both have an answer");
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
    int fd = dial(), others[LIMIT_CONTROL_CLIENTS];
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

static void drip(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)!send(fds[i], " ", 1, MSG_NOSIGNAL);
    turn(1);
}

/* As many as there may be: each lives as long as it likes, but none at the cost of who comes. */
static void test_crowd(void)
{
    struct control *c = open_patient(60000, 30);
    int crowd[LIMIT_CONTROL_CLIENTS], late;
    double before = closed("crowded_out");

    for (size_t i = 0; i < ROWS(crowd); i++) {
        crowd[i] = dial();
        turn(2);
    }
    for (uint64_t until = clock_ms() + 60; clock_ms() < until;)
        drip(crowd, ROWS(crowd));
    is_double(closed("crowded_out"), before, "half lines, byte by byte: nobody else is there");
    late = dial();
    say(late, ECHO(""));
    is_str(answer(late), ECHOED, "who comes then is served");
    is_str(answer(crowd[0]), CROWDED_OUT, "who has asked nothing whole for longest is told");
    is_str(answer(crowd[0]), "(end)", "and closed");
    is_double(closed("crowded_out"), before + 1, "and counted");
    for (size_t i = 1; i < ROWS(crowd); i++)
        say(crowd[i], ECHO(""));
    for (size_t i = 1; i < ROWS(crowd); i++)
        is_str(answer(crowd[i]), ECHOED, "the others went on");
    close(late);
    for (size_t i = 0; i < ROWS(crowd); i++)
        close(crowd[i]);
    turn(5);
    control_free(c);
}

/* Nobody has to make room who has just come: more than there is room for are served one after the other. */
static void test_burst(void)
{
    struct control *c = open_patient(60000, 60000);
    int many[5 * LIMIT_CONTROL_CLIENTS];
    double before = closed("crowded_out");

    for (size_t i = 0; i < ROWS(many); i++) {
        many[i] = dial();
        say(many[i], ECHO(""));
    }
    for (size_t i = 0; i < ROWS(many); i++) {
        is_str(answer(many[i]), ECHOED, "one of many");
        close(many[i]);
    }
    is_double(closed("crowded_out"), before, "none had to go");
    turn(5);
    control_free(c);
}

/* All answers are being made. Those stay; who asks again when it has one makes room, and who left. */
static void test_all_at_work(void)
{
    struct control *c = open_patient(60000, 30);
    int busy[LIMIT_CONTROL_CLIENTS], late, later;
    double before = closed("crowded_out"), gone = closed("client_gone");
    uint64_t until;

    for (size_t i = 0; i < ROWS(busy); i++) {
        busy[i] = dial();
        say(busy[i], i > 0 ? "{\"v\":1,\"command\":\"wait\"}\n"
                           : "{\"v\":1,\"command\":\"count\",\"n\":400}\n{\"v\":1,\"command\":\"wait\"}\n");
    }
    turn(5);
    late = dial();
    say(late, ECHO(""));
    is_str(answer(late), ECHOED, "there is a place when one has its answer, and asks again");
    is_double(closed("crowded_out"), before + 1, "alone");
    is_u64(jobs, LIMIT_CONTROL_CLIENTS - 1, "all others go on");
    for (until = clock_ms() + 60; clock_ms() < until;)
        turn(1);
    close(busy[1]);
    later = dial();
    say(late, "{\"v\":1,\"command\":\"wait\"}\n");
    say(later, ECHO(""));
    is_str(answer(later), ECHOED, "who has left while its answer is made keeps no place");
    is_double(closed("client_gone"), gone + 1, "and is counted");
    for (size_t i = 0; i < ROWS(busy); i++)
        if (i != 1)
            close(busy[i]);
    close(late);
    close(later);
    control_free(c);
    is_u64(jobs, 0, "none outlives the socket");
}

/* No byte moves an end. */
static void test_deadlines(void)
{
    struct control *c = open_patient(500, 60000);
    int half = dial(), idle = dial(), worker = dial(), slow = dial(), slow_pieces = dial(), steady = dial();
    double requests = closed("request_timeout"), idles = closed("idle_timeout"), answers = closed("answer_timeout");
    char byte;

    say(worker, "{\"v\":1,\"command\":\"wait\"}\n");
    say(slow, "{\"v\":1,\"command\":\"large\"}\n");
    say(slow_pieces, "{\"v\":1,\"command\":\"pieces\"}\n");
    alarm(60);
    while (closed("request_timeout") + closed("idle_timeout") + closed("answer_timeout") <
           requests + idles + answers + 4) {
        drip(&half, 1);
        (void)!recv(slow, &byte, 1, MSG_DONTWAIT);
        (void)!recv(slow_pieces, &byte, 1, MSG_DONTWAIT);
        (void)!send(steady, ECHO(""), sizeof(ECHO("")) - 1, MSG_NOSIGNAL);
        if (strcmp(answer(steady), ECHOED) != 0)
            tap_bail("who asks again and again may not stay");
    }
    alarm(0);
    is_double(closed("request_timeout"), requests + 1, "a request that comes byte by byte");
    is_str(answer(half), NO_END, "is told");
    is_str(answer(half), "(end)", "and closed");
    is_double(closed("idle_timeout"), idles + 1, "one that asks nothing");
    is_str(answer(idle), "(end)", "likewise");
    is_double(closed("answer_timeout"), answers + 2, "two answers that are taken byte by byte");
    is_u64(jobs, 1, "who waits for an answer waits on");
    close(half);
    close(idle);
    close(worker);
    close(slow);
    close(slow_pieces);
    close(steady);
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

/* A request that came in parts lies in several places, and there is no memory to join them. */
static void test_no_memory_to_read(void)
{
    static char padding[4096];
    struct control *c = open_control();
    double before = closed("no_memory");
    int fd = dial();

    memset(padding, ' ', sizeof(padding) - 1);
    say(fd, "{\"v\":1,\"command\":\"echo\"");
    for (int i = 0; i < 4; i++) {
        say(fd, padding);
        turn(3);
    }
    calls = 0;
    starved = true;
    say(fd, "}\n");
    turn(5);
    starved = false;
    is_u64(calls, 0, "it is not carried out");
    is_str(answer(fd), "(end)", "closed");
    is_double(closed("no_memory"), before + 1, "and counted");
    close(fd);
    fd = dial();
    say(fd, ECHO(""));
    is_str(answer(fd), ECHOED, "the next one is served");
    close(fd);
    turn(5);
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
    metrics = metrics_new();
    test_requests();
    test_rule_breakers();
    test_crowd();
    test_burst();
    test_all_at_work();
    test_deadlines();
    test_full();
    test_pieces();
    test_takeover();
    test_removed();
    test_out_of_descriptors();
    test_out_of_memory();
    test_no_memory_to_read();
    test_errors();
    test_lag();
    loop_free(loop);
    metrics_free(metrics);
    return tap_end();
}
