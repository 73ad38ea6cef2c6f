/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of mvproxyctl, run as a process of its own before an mvproxy that is played here: what is asked,
 * what is made of answers and of none, and the exit status.
 */
#include "ctl/command_line.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "lib/descriptors.h"
#include "lib/tap.h"

enum { MOST_ARGUMENTS = 8, TEXT = 8192, TURN_MS = 100, LEAKS = 99 };

#define OK(result) "{\"v\":1,\"ok\":true,\"result\":" result "}\n"
#define REQUEST(command) "{\"v\":1,\"command\":\"" command "\"}\n"
#define REFUSED(why) "{\"v\":1,\"ok\":false,\"error\":\"" why "\"}\n"
#define READY OK("{\"ready\":true}")
#define READ(times, failing)                                                                                           \
    OK("{\"servers\":[{\"id\":\"x-b\",\"hostname\":\"b\",\"address\":\"x\",\"discoveryReads\":" times                  \
       ",\"failing\":" failing "}]}")
#define TWO(times)                                                                                                     \
    OK("{\"servers\":[{\"id\":\"x-b\",\"hostname\":\"b\",\"address\":\"x\",\"discoveryReads\":" times                  \
       "},{\"id\":\"y-b\",\"hostname\":\"b\",\"address\":\"y\",\"failing\":true}]}")
#define BROKEN                                                                                                         \
    "{\"v\":1,\"ok\":true,\"result\":{\"a\":\r{\"v\":1,\"ok\":false,\"error\":\"too long\"}" /* two lines              \
                                                                                              */
#define MISSING_WHY                                                                                                    \
    "no mvproxy answers at s: No such file or directory (why: systemctl status mvproxy, or the container's log)"
#define MISSING "mvproxyctl: " MISSING_WHY "\n"

/* What a process said. */
struct said {
    char asked[TEXT], out[TEXT], errors[TEXT];
    int status;
};

static const struct row {
    const char *arguments[MOST_ARGUMENTS];
    const char *answers; /* a line for each connection, two with a \r between; "-" ends it without one, "!"
                            before it: it is the last that is taken; NULL: there is
                            no socket */
    const char *asked;
    int status;
    const char *out, *errors; /* all of it; NULL: whatever it is */
} rows[] = {
    /* what is asked */
    {{"status"}, READY, REQUEST("status"), 0, NULL, ""},
    {{"status"}, OK("{\"ready\":false}"), REQUEST("status"), 1, NULL, ""},
    {{"peers"}, OK("{}"), REQUEST("status"), 0, NULL, ""},
    {{"skew"}, OK("{}"), "{\"v\":1,\"command\":\"skew\",\"all\":false}\n", 0, NULL, ""},
    {{"skew", "--all"}, OK("{}"), "{\"v\":1,\"command\":\"skew\",\"all\":true}\n", 0, NULL, ""},
    {{"skew", "--upgrade"}, OK("{}"), REQUEST("upgrade"), 0, "All servers serve the same resources.\n", ""},
    {{"explain", "GET", "/api"},
     OK("{\"action\":\"local\"}"),
     "{\"v\":1,\"command\":\"explain\",\"method\":\"GET\",\"path\":\"\\/api\",\"rerouted\":false}\n",
     0,
     NULL,
     ""},
    {{"explain", "--as=eve", "GET", "--rerouted", "/api"},
     OK("{\"action\":\"local\"}"),
     "{\"v\":1,\"command\":\"explain\",\"method\":\"GET\",\"path\":\"\\/api\",\"rerouted\":true,\"user\":\"eve\"}\n",
     0,
     NULL,
     ""},
    /* Until it was read again. */
    {{"refresh"},
     READ("1", "false") OK("{}") READ("1", "true") READ("2", "false"),
     REQUEST("status") REQUEST("refresh") REQUEST("status") REQUEST("status"),
     0,
     NULL,
     ""},
    {{"refresh", "b"},
     READ("1", "false") OK("{}") READ("2", "true"),
     REQUEST("status") "{\"v\":1,\"command\":\"refresh\",\"peer\":\"b\"}\n" REQUEST("status"),
     1,
     NULL,
     ""},
    /* Another one of that name is never read, and not meant. */
    {{"refresh", "b"},
     TWO("1") OK("{\"id\":\"x-b\"}") TWO("2"),
     REQUEST("status") "{\"v\":1,\"command\":\"refresh\",\"peer\":\"b\"}\n" REQUEST("status"),
     0,
     NULL,
     ""},
    {{"refresh"},
     READ("1", "false") "[]\n",
     REQUEST("status") REQUEST("refresh"),
     1,
     "",
     "mvproxyctl: what answers is no mvproxy\n"},
    {{"version"}, OK("{\"version\":\"0.1.0\"}"), REQUEST("status"), 0, "mvproxy 0.1.0\n", ""},
    {{"skew", "--all", "--upgrade"},
     NULL,
     "",
     3,
     "",
     "mvproxyctl: --all and --upgrade are two questions: one at a time\n"},
    {{"drain", "b"}, OK("{\"peer\":\"b\"}"), "{\"v\":1,\"command\":\"drain\",\"peer\":\"b\"}\n", 0, NULL, ""},
    {{"undrain", "b"}, OK("{\"peer\":\"b\"}"), "{\"v\":1,\"command\":\"undrain\",\"peer\":\"b\"}\n", 0, NULL, ""},
    {{"loglevel"}, OK("{\"level\":2}"), REQUEST("loglevel"), 0, "2\n", ""},
    {{"loglevel", "0"}, OK("{\"level\":0}"), "{\"v\":1,\"command\":\"loglevel\",\"level\":0}\n", 0, "0\n", ""},
    {{"loglevel", "10"}, OK("{\"level\":10}"), "{\"v\":1,\"command\":\"loglevel\",\"level\":10}\n", 0, "10\n", ""},
    {{"metrics"}, OK("\"a 1\\n\""), REQUEST("metrics"), 0, "a 1\n", ""},
    {{"-o", "json", "status"},
     OK("{\"ready\":false,\"a\":\"/\"}"),
     REQUEST("status"),
     0,
     "{\n  \"ready\":false,\n  \"a\":\"/\"\n}\n",
     ""},
    {{"--output", "json", "-ojson", "version"},
     OK("{\"version\":\"0.1.0\",\"ready\":true}"),
     REQUEST("status"),
     0,
     "{\n  \"version\":\"0.1.0\"\n}\n",
     ""},
    {{"-oyaml", "status"}, NULL, "", 3, "", "mvproxyctl: -o yaml: only json is known\n"},
    {{"-ojson", "reload"},
     OK("{\"reloaded\":false,\"errors\":[]}"),
     REQUEST("reload"),
     1,
     "{\n  \"reloaded\":false,\n  \"errors\":[\n  ]\n}\n",
     ""},
    {{"--output=json", "reload"}, OK("{\"reloaded\":true}"), REQUEST("reload"), 0, "{\n  \"reloaded\":true\n}\n", ""},
    {{"explain", "--as", "", "GET", "/api"},
     NULL,
     "",
     3,
     "",
     "mvproxyctl: --as: give a user's name; without --as it is about a token, or nobody\n"},
    {{"explain", "GET", "/x://y/api"},
     OK("{\"action\":\"local\"}"),
     "{\"v\":1,\"command\":\"explain\",\"method\":\"GET\",\"path\":\"\\/x:\\/\\/y\\/api\",\"rerouted\":false}\n",
     0,
     NULL,
     ""},
    {{"explain", "GET", "http://192.0.2.1"},
     OK("{\"action\":\"local\"}"),
     "{\"v\":1,\"command\":\"explain\",\"method\":\"GET\",\"path\":\"\\/\",\"rerouted\":false}\n",
     0,
     NULL,
     ""},
    {{"explain", "GET", "https://192.0.2.1:6443/api"},
     OK("{\"action\":\"local\"}"),
     "{\"v\":1,\"command\":\"explain\",\"method\":\"GET\",\"path\":\"\\/api\",\"rerouted\":false}\n",
     0,
     NULL,
     ""},
    {{"status", "-o=json"}, OK("1"), REQUEST("status"), 0, "1\n", ""},
    {{"reload"},
     OK("{\"reloaded\":false,\"errors\":[\"x\\u001b\"]}"),
     REQUEST("reload"),
     1,
     "",
     "mvproxyctl: refused, the running configuration stays:\n  x?\n"},
    /* answers that are none */
    {{"status"}, NULL, "", 2, "", MISSING},
    {{"status"}, "-", REQUEST("status"), 1, "", "mvproxyctl: mvproxy closed the connection without an answer\n"},
    {{"status"}, "[]\n", REQUEST("status"), 1, "", "mvproxyctl: what answers is no mvproxy\n"},
    {{"status"}, "{\n", REQUEST("status"), 1, "", "mvproxyctl: what answers is no mvproxy\n"},
    {{"status"}, "{}\n", REQUEST("status"), 1, "", "mvproxyctl: refused\n"},
    {{"status"}, "{\"ok\":false,\"result\":{}}\n", REQUEST("status"), 1, "", "mvproxyctl: refused\n"},
    {{"status"}, "{\"ok\":false,\"error\":\"no \\u001b\"}\n", REQUEST("status"), 1, "", "mvproxyctl: no ?\n"},
    {{"status"}, "{\"ok\":true}\n", REQUEST("status"), 1, "", "mvproxyctl: mvproxy's answer is empty\n"},
    /* wrong use */
    {{NULL}, NULL, "", 3, "", NULL},
    {{"hlep"}, NULL, "", 3, "", "mvproxyctl: unknown command \"hlep\": did you mean help?\n"},
    {{"statsu"}, NULL, "", 3, "", "mvproxyctl: unknown command \"statsu\": did you mean status?\n"},
    {{"help", "statsu"}, NULL, "", 3, "", "mvproxyctl: unknown command \"statsu\": did you mean status?\n"},
    {{"nonsense"}, NULL, "", 3, "", "mvproxyctl: unknown command \"nonsense\"; --help lists them\n"},
    {{"--nonsense", "status"}, NULL, "", 3, "", "mvproxyctl: unknown option --nonsense\n"},
    {{"status", "--json"}, NULL, "", 3, "", "mvproxyctl: unknown option --json: did you mean -o json?\n"},
    {{"status", "--jsno"}, NULL, "", 3, "", "mvproxyctl: unknown option --jsno: did you mean -o json?\n"},
    {{"status", "-json"}, NULL, "", 3, "", "mvproxyctl: unknown option -json: did you mean -o json?\n"},
    {{"--outptu=json", "status"},
     NULL,
     "",
     3,
     "",
     "mvproxyctl: unknown option --outptu=json: did you mean --output?\n"},
    {{"--sokcet=/x", "status"}, NULL, "", 3, "", "mvproxyctl: unknown option --sokcet=/x: did you mean --socket?\n"},
    {{"status", "-o", "jsn"}, NULL, "", 3, "", "mvproxyctl: -o jsn: only json is known\n"},
    {{"--output=jsn", "status"}, NULL, "", 3, "", "mvproxyctl: -o jsn: only json is known\n"},
    {{"skew", "--wacth"}, NULL, "", 3, "", "mvproxyctl: unknown option --wacth: did you mean --watch?\n"},
    {{"skew", "--all=1"}, NULL, "", 3, "", "mvproxyctl: unknown option --all=1: did you mean --all?\n"},
    {{"explain", "GET", "/api", "--as"}, NULL, "", 3, "", "mvproxyctl: --as: value missing\n"},
    {{"status", "--pre"}, NULL, "", 3, "", "mvproxyctl: --pre is an option of check; usage: mvproxyctl status\n"},
    {{"status", "-o", "yaml"}, NULL, "", 3, "", "mvproxyctl: -o yaml: only json is known\n"},
    {{"loglevel", "11"}, NULL, "", 3, "", "mvproxyctl: \"11\" is not a level between 0 and 10\n"},
    {{"loglevel", "-1"}, NULL, "", 3, "", "mvproxyctl: \"-1\" is not a level between 0 and 10\n"},
    {{"loglevel", "--", "-1"}, NULL, "", 3, "", "mvproxyctl: \"-1\" is not a level between 0 and 10\n"},
    {{"loglevel", "--", "--all"}, NULL, "", 3, "", "mvproxyctl: \"--all\" is not a level between 0 and 10\n"},
    {{"--", "statsu"}, NULL, "", 3, "", "mvproxyctl: unknown command \"statsu\": did you mean status?\n"},
    {{"-1"}, NULL, "", 3, "", "mvproxyctl: unknown command \"-1\"; --help lists them\n"},
    {{"loglevel", "4x"}, NULL, "", 3, "", "mvproxyctl: \"4x\" is not a level between 0 and 10\n"},
    {{"loglevel", ""}, NULL, "", 3, "", "mvproxyctl: \"\" is not a level between 0 and 10\n"},
    {{"explain", "GET"},
     NULL,
     "",
     3,
     "",
     "mvproxyctl: usage: mvproxyctl explain METHOD PATH [--as USER] [--rerouted]\n"},
    {{"peers", "x"}, NULL, "", 3, "", "mvproxyctl: usage: mvproxyctl peers\n"},
    {{"support-bundle"}, NULL, "", 3, "", "mvproxyctl: usage: mvproxyctl support-bundle FILE\n"},
    {{"explain", "a", "b", "c", "d", "e"},
     NULL,
     "",
     3,
     "",
     "mvproxyctl: usage: mvproxyctl explain METHOD PATH [--as USER] [--rerouted]\n"},
    /* help */
    {{"status", "-h"},
     NULL,
     "",
     0,
     "Usage: mvproxyctl status\n\n      Ready or not and why, this server, its peers.\n\nMore: man mvproxyctl\n",
     ""},
    {{"help", "undrain"},
     NULL,
     "",
     0,
     "Usage: mvproxyctl undrain PEER\n\n      Send them again.\n\nMore: man mvproxyctl\n",
     ""},
    {{"status", "help"}, NULL, "", 3, "", "mvproxyctl: usage: mvproxyctl status\n"},
    {{"--version"}, NULL, "", 0, NULL, ""},
    /* an answer that was broken off, with the reason and without; what never was one */
    {{"skew"}, BROKEN "\n", "{\"v\":1,\"command\":\"skew\",\"all\":false}\n", 1, "", "mvproxyctl: too long\n"},
    {{"status"},
     "{\"v\":1,\"ok\":true,\"result\":{\n",
     REQUEST("status"),
     1,
     "",
     "mvproxyctl: what answers is no mvproxy\n"},
    {{"status"}, OK("null"), REQUEST("status"), 1, "", "mvproxyctl: mvproxy's answer is empty\n"},
    {{"status"}, REFUSED("no mvproxy today"), REQUEST("status"), 1, "", "mvproxyctl: no mvproxy today\n"},
    {{"refresh"}, OK("{\"servers\":{}}"), REQUEST("status"), 1, "", "mvproxyctl: mvproxy's answer names no servers\n"},
    {{"refresh"},
     OK("{\"servers\":1e300}"),
     REQUEST("status"),
     1,
     "",
     "mvproxyctl: mvproxy's answer names no servers\n"},
    {{"refresh"},
     OK("{\"servers\":null}"),
     REQUEST("status"),
     1,
     "",
     "mvproxyctl: mvproxy's answer names no servers\n"},
    {{"refresh"}, OK("[]"), REQUEST("status"), 1, "", "mvproxyctl: mvproxy's answer names no servers\n"},
    {{"refresh"},
     OK("{\"servers\":[1,null]}") OK("{}") OK("{\"servers\":[1,null]}"),
     REQUEST("status") REQUEST("refresh") REQUEST("status"),
     1,
     NULL,
     ""},
    {{"status"}, "220 hello\r{}\n", REQUEST("status"), 1, "", "mvproxyctl: what answers is no mvproxy\n"},
    {{"support-bundle", "b"}, NULL, "", 2, "", MISSING},
};

/* ---- the process ---- */

static void read_all(FILE *f, char out[TEXT])
{
    size_t n;

    rewind(f);
    n = fread(out, 1, TEXT - 1, f);
    out[n] = '\0';
    (void)fclose(f);
}

/* It says whether it leaks, too: descriptors here, memory when it exits. */
static pid_t start(const char *const *arguments, int out, int errors)
{
    static const char *const always[] = {"mvproxyctl", "--socket", "s"};
    char *argv[ROWS(always) + MOST_ARGUMENTS + 1];
    int argc = 0;
    pid_t child;

    for (size_t i = 0; i < ROWS(always); i++)
        argv[argc++] = strdup(always[i]);
    for (size_t i = 0; i < MOST_ARGUMENTS && arguments[i] != NULL; i++)
        argv[argc++] = strdup(arguments[i]);
    argv[argc] = NULL;
    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        unsigned before = descriptors_open();
        int status;

        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(errors, STDERR_FILENO);
        status = command_line_run(argc, argv);
        if (descriptors_open() != before)
            status = LEAKS;
        for (int i = 0; i < argc; i++)
            free(argv[i]);
        exit(status);
    }
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return child;
}

/* ---- the mvproxy ---- */

static int listen_here(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "s"};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(fd, 8) != 0)
        tap_bail("cannot listen");
    return fd;
}

/* False: the process has ended instead, and *status is how. */
static bool await_client(int listener, pid_t child, int *status)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};

    while (poll(&p, 1, TURN_MS) == 0)
        if (waitpid(child, status, WNOHANG) == child)
            return false;
    return true;
}

/* Who has left already is no reason to die of SIGPIPE; a process that ignores it would hand that down to who is tested.
 */
static bool write_lines(int fd, struct slice lines)
{
    struct slice line;

    while (slice_split(&lines, '\r', &line))
        if (send(fd, line.p, line.n, MSG_NOSIGNAL) < 0 || send(fd, "\n", 1, MSG_NOSIGNAL) < 0)
            return false;
    return true;
}

static void answer(int listener, struct slice line, char *asked)
{
    int fd = accept(listener, NULL, NULL);
    size_t n = strlen(asked);
    ssize_t got;

    while (n + 1 < TEXT && (got = read(fd, asked + n, 1)) > 0)
        if (asked[n++] == '\n')
            break;
    asked[n] = '\0';
    if (line.p[0] == '!') {
        (void)unlink("s");
        line = slice_from(line, 1);
    }
    if (line.p[0] != '-' && !write_lines(fd, line))
        diag("nobody reads the answer");
    (void)close(fd);
}

/* Runs it before an mvproxy that answers so, and is gone afterwards. */
static void run(const char *const *arguments, const char *answers, int terminal, struct said *said)
{
    FILE *out = tmpfile(), *errors = tmpfile();
    int listener = answers == NULL ? -1 : listen_here(), status = 0;
    struct slice rest = slice_str(answers), line;
    pid_t child = start(arguments, terminal >= 0 ? terminal : fileno(out), fileno(errors));
    bool over = false;

    *said = (struct said){.status = -1};
    while (answers != NULL && !over && slice_split(&rest, '\n', &line) && line.n > 0) {
        over = !await_client(listener, child, &status);
        if (!over)
            answer(listener, line, said->asked);
    }
    if (listener >= 0) {
        (void)unlink("s");
        (void)close(listener);
    }
    if (!over)
        (void)waitpid(child, &status, 0);
    said->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_all(out, said->out);
    read_all(errors, said->errors);
}

/* ---- what is expected ---- */

static void table(void)
{
    struct said said;

    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct row *r = &rows[i];
        const char *name = r->arguments[0] == NULL ? "(nothing)" : r->arguments[0];

        run(r->arguments, r->answers, -1, &said);
        is_int(said.status, r->status, "row %zu, %s: exit status", i, name);
        is_str(said.asked, r->asked, "row %zu, %s: asked", i, name);
        if (r->out != NULL)
            is_str(said.out, r->out, "row %zu, %s: said", i, name);
        if (r->errors != NULL)
            is_str(said.errors, r->errors, "row %zu, %s: complained", i, name);
    }
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* The whole help goes where it is asked for: to standard output, or to those who did not know what to ask. */
static void help(void)
{
    static const char *const none[MOST_ARGUMENTS], *const asked[MOST_ARGUMENTS] = {"help"},
                                                          *const version[MOST_ARGUMENTS] = {"--version"};
    struct said by_mistake, on_wish, with_version;

    run(none, NULL, -1, &by_mistake);
    run(asked, NULL, -1, &on_wish);
    is_str(by_mistake.errors, on_wish.out, "the same");
    is_int(on_wish.status, 0, "exit status of help");
    is_str(on_wish.errors, "", "no error");
    ok(has(on_wish.out, "\n  check          [--pre] [--config FILE]\n      Whether ") &&
           has(on_wish.out, "\n  support-bundle FILE\n") && has(on_wish.out, "\n  help           [COMMAND]\n"),
       "the first and the last command: %s", on_wish.out);
    run(version, NULL, -1, &with_version);
    ok(has(with_version.out, "mvproxyctl 0") || has(with_version.out, "mvproxyctl 1"), "version");
}

/* Two megabytes that would take six hundred of memory; and more than mvproxy sends. */
static void heavy(void)
{
    static const char *const status[] = {"status", NULL};
    struct said said;
    struct buf text;

    buf_init(&text, 32 << 20);
    buf_append_str(&text, "{\"v\":1,\"ok\":true,\"result\":{\"servers\":[");
    for (unsigned i = 0; i < 700000; i++)
        buf_append_str(&text, "{},");
    buf_append(&text, SLICE_LIT("{}]}}\n\0"));
    run(status, text.p, -1, &said);
    is_int(said.status, 1, "an answer of many small values: refused");
    is_str(said.errors, "mvproxyctl: mvproxy's answer is not read: it would take 606 MiB of memory here\n", "and said");
    buf_reset(&text);
    (void)signal(SIGPIPE, SIG_IGN); /* it is not read to its end */
    while (buf_len(&text) < 17 << 20)
        buf_append_str(&text, "a long line, and more of it, without an end but that of what mvproxyctl takes ");
    buf_append(&text, SLICE_LIT("\n\0"));
    run(status, text.p, -1, &said);
    is_int(said.status, 1, "a longer answer than mvproxy sends: refused");
    is_str(said.errors, "mvproxyctl: mvproxy's answer is too long\n", "and said");
    buf_free(&text);
}

static void long_path(void)
{
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1], want[512];
    const char *arguments[MOST_ARGUMENTS] = {"--socket", path, "status"};
    struct said said;

    for (size_t n = sizeof(path) - 2; n < sizeof(path); n++) {
        memset(path, 'p', n);
        path[n] = '\0';
        (void)snprintf(
            want, sizeof(want),
            n + 2 == sizeof(path) ? "mvproxyctl: no mvproxy answers at %s: %s\n" : "mvproxyctl: %s: %s\n", path,
            n + 2 == sizeof(path) ? "No such file or directory (why: systemctl status mvproxy, or the container's log)"
                                  : "too long for the path of a socket");
        run(arguments, NULL, -1, &said);
        is_str(said.errors, want, "a path of %zu bytes", n);
    }
}

/* Until the mvproxy is gone. */
static void watch(void)
{
    static const char *const arguments[MOST_ARGUMENTS] = {"skew", "--watch", "--upgrade"};
    struct said said;

    run(arguments, OK("{}"), -1, &said);
    is_int(said.status, 2, "it is gone");
    is_str(said.asked, REQUEST("upgrade"), "asked once");
    is_str(said.out, "All servers serve the same resources.\n", "and said");
    is_str(said.errors, MISSING, "and why it ends");
}

/* Without what is of this machine: "host" and "log", which are there whatever the daemon says, and in this order. */
static void take_host_out(char *text)
{
    char *at = strstr(text, ",\n  \"host\":{"), *log = at == NULL ? NULL : strstr(at, ",\n  \"log\":\""), *end;

    if (log == NULL)
        return;
    end = log + strlen(",\n  \"log\":\"");
    end += strcspn(end, "\n"); /* in a text it is escaped */
    if (end[-1] == ',')
        end--;
    memmove(at, end, strlen(end) + 1);
}

static void bundle(void)
{
    static const char *const arguments[MOST_ARGUMENTS] = {"support-bundle", "bundle"},
                             *const as_json[MOST_ARGUMENTS] = {"-o", "json", "support-bundle", "bundle"},
                             *const to_stdout[MOST_ARGUMENTS] = {"support-bundle", "-"};
    char text[TEXT];
    struct said said;
    struct stat st;
    FILE *f;

    run(arguments, OK("1") OK("2") OK("3") OK("4") OK("5") OK("6"), -1, &said);
    is_int(said.status, 0, "a bundle");
    is_str(said.asked,
           REQUEST("status") "{\"v\":1,\"command\":\"skew\",\"all\":true}\n" REQUEST("requests") REQUEST("config")
               REQUEST("certs") REQUEST("metrics"),
           "all parts");
    f = fopen("bundle", "r");
    if (f == NULL)
        tap_bail("no bundle");
    read_all(f, text);
    ok(strstr(text, "\"kernel\":\"Linux ") != NULL, "what machine it is");
    take_host_out(text);
    is_str(
        text,
        "{\n  \"status\":1,\n  \"skew\":2,\n  \"requests\":3,\n  \"config\":4,\n  \"certs\":5,\n  \"metrics\":6\n}\n",
        "in it");
    ok(stat("bundle", &st) == 0 && (st.st_mode & 0777) == 0600, "for its owner alone");
    run(arguments, OK("1") OK("2") OK("3") OK("4") OK("5") OK("6"), -1, &said);
    is_int(said.status, 1, "a file that is there");
    is_str(said.errors, "mvproxyctl: bundle: File exists: give another name, or remove it\n", "stays");
    (void)unlink("bundle");
    run(arguments, OK("\"\302\2331m\"") OK("2") OK("3") OK("4") OK("5") OK("6"), -1, &said);
    f = fopen("bundle", "r");
    if (f == NULL)
        tap_bail("no bundle");
    read_all(f, text);
    ok(strstr(text, "\"status\":\"\\u009b1m\"") != NULL, "what would move a terminal is escaped: %.40s", text);
    (void)unlink("bundle");
    run(as_json, OK("1") OK("2") OK("3") OK("4") OK("5") OK("6"), -1, &said);
    is_str(said.out, "{\n  \"written\":\"bundle\",\n  \"whole\":true\n}\n", "said as JSON");
    (void)unlink("bundle");
    run(to_stdout, OK("1") OK("2") OK("3") OK("4") OK("5") OK("6"), -1, &said);
    is_int(said.status, 0, "without a file");
    is_slice(slice_of(said.out, strcspn(said.out, "4")),
             "{\n  \"status\":1,\n  \"skew\":2,\n  \"requests\":3,\n  \"config\":", "to standard output");
    ok(stat("-", &st) != 0, "and to nothing else");
}

/* A part that cannot be had is named in the file and beside it; the others are there. */
static void part_of_bundle(const char *answers, const char *errors, const char *want, const char *name)
{
    static const char *const arguments[MOST_ARGUMENTS] = {"support-bundle", "bundle"};
    char text[TEXT] = "";
    struct said said;
    FILE *f;

    run(arguments, answers, -1, &said);
    is_int(said.status, 1, "%s: exit status", name);
    is_str(said.out, want[0] == '\0' ? "" : "Written to bundle, not all of it.\n", "%s: said", name);
    is_str(said.errors, errors, "%s: complained", name);
    f = fopen("bundle", "r");
    if (f != NULL)
        read_all(f, text);
    take_host_out(text);
    is_str(text, want, "%s: in it", name);
    (void)unlink("bundle");
}

#define WITHOUT(part, why) "mvproxyctl: no " part " in the bundle: " why "\n"

static void parts_of_bundle(void)
{
    part_of_bundle(OK("1") BROKEN "\n" REFUSED("no memory") OK("4") OK("5") OK("6"),
                   WITHOUT("skew", "too long") WITHOUT("requests", "no memory"),
                   "{\n  \"status\":1,\n  \"config\":4,\n  \"certs\":5,\n  \"metrics\":6,\n"
                   "  \"failed\":{\n    \"skew\":\"too long\",\n    \"requests\":\"no memory\"\n  }\n}\n",
                   "two parts");
    part_of_bundle(REFUSED("busy") OK("2") OK("3") OK("4") OK("5") OK("6"), WITHOUT("status", "busy"),
                   "{\n  \"skew\":2,\n  \"requests\":3,\n  \"config\":4,\n  \"certs\":5,\n  \"metrics\":6,\n"
                   "  \"failed\":{\n    \"status\":\"busy\"\n  }\n}\n",
                   "the first part");
    part_of_bundle(OK("1") OK("2") OK("3") "!" OK("4"),
                   WITHOUT("certs", MISSING_WHY) WITHOUT("metrics", "no mvproxy answers any more"),
                   "{\n  \"status\":1,\n  \"skew\":2,\n  \"requests\":3,\n  \"config\":4,\n"
                   "  \"failed\":{\n    \"certs\":\"" MISSING_WHY "\",\n"
                   "    \"metrics\":\"no mvproxy answers any more\"\n  }\n}\n",
                   "it ends meanwhile");
    part_of_bundle(REFUSED("a") REFUSED("b") REFUSED("c") REFUSED("d") REFUSED("e") REFUSED("f"),
                   WITHOUT("status", "a") WITHOUT("skew", "b") WITHOUT("requests", "c") WITHOUT("config", "d")
                       WITHOUT("certs", "e") WITHOUT("metrics", "f"),
                   "", "all parts");
}

/* ---- check ---- */

static void check(void)
{
    static const char *const before[MOST_ARGUMENTS] = {"check", "--pre", "--config", "nothing.yaml", "-o", "json"},
                             *const text[MOST_ARGUMENTS] = {"check", "--pre", "--config", "nothing.yaml"},
                             *const running[MOST_ARGUMENTS] = {"check", "--config", "nothing.yaml"};
    struct said said;

    run(before, NULL, -1, &said);
    is_int(said.status, 2, "a file that is not there");
    is_str(
        said.out,
        "{\"findings\":[{\"section\":\"configuration\",\"check\":\"configuration-valid\",\"mark\":\"error\",\"text\":"
        "\"nothing.yaml: No such file or directory\",\"remedy\":\"give the path of a YAML file\"}],\"errors\":1,"
        "\"warnings\":0}\n",
        "as JSON");
    (void)setenv("LC_ALL", "C.UTF-8", 1);
    run(text, NULL, -1, &said);
    ok(has(said.out, "configuration\n\u00d7 nothing.yaml: No such"), "UTF-8: %s", said.out);
    (void)setenv("LC_ALL", "C", 1);
    run(text, NULL, -1, &said);
    ok(has(said.out, "configuration\nXX nothing.yaml: No such"), "ASCII: %s", said.out);
    run(running, OK("{\"notReady\":[]}") OK("[]"), -1, &said);
    is_str(said.asked, REQUEST("status") REQUEST("config"), "the process is asked");
    ok(has(said.out, "the process (pid ) is ready"), "and heard: %s", said.out);
    run(running, NULL, -1, &said);
    ok(has(said.out, "XX no mvproxy answers at s: No such file"), "nobody to ask: %s", said.out);
}

/* ---- on a terminal ---- */

static int open_terminal(int *master)
{
    *master = posix_openpt(O_RDWR | O_NOCTTY);
    if (*master < 0 || grantpt(*master) != 0 || unlockpt(*master) != 0)
        return -1;
    return open(ptsname(*master), O_RDWR | O_NOCTTY);
}

/* All that was written to the terminal until now: a read takes no more than has come through, so that an end is marked.
 */
static const char *shown(int master, int slave)
{
    static char text[TEXT];
    size_t n = 0;
    ssize_t got = 0;

    if (write(slave, "\001", 1) != 1)
        tap_bail("cannot write to the terminal");
    while ((n == 0 || text[n - 1] != '\001') && n < sizeof(text) - 1 &&
           (got = read(master, text + n, sizeof(text) - 1 - n)) > 0)
        n += (size_t)got;
    text[n > 0 ? n - 1 : 0] = '\0';
    return text;
}

static void colours(void)
{
    static const char *const status[MOST_ARGUMENTS] = {"status"}, *const metrics[MOST_ARGUMENTS] = {"metrics"},
                             *const watched[MOST_ARGUMENTS] = {"skew", "--watch", "--upgrade"};
    const char *text;
    struct said said;
    int master, slave = open_terminal(&master);

    if (slave < 0) {
        tap_skip("there are no terminals here", "colours");
        return;
    }
    run(status, READY, slave, &said);
    text = shown(master, slave);
    ok(has(text, "\033[32mReady\033[0m\r\n"), "green: %s", text);
    run(status, OK("{\"ready\":false}"), slave, &said);
    text = shown(master, slave);
    ok(has(text, "\033[31mNot ready\033[0m\r\n"), "red: %s", text);
    run(metrics, OK("\"\\u001b\\n\\u001b\\n\""), slave, &said);
    text = shown(master, slave);
    is_str(text, "?\r\n?\r\n", "nothing that a terminal obeys");
    run(watched, OK("{}") OK("{}"), slave, &said);
    text = shown(master, slave);
    is_str(
        text,
        "All servers serve the same resources.\r\n\033[H\033[2JAll servers serve the same resources.\r\n\033[H\033[2J",
        "each time on an empty screen");
    is_str(said.asked, REQUEST("upgrade") REQUEST("upgrade"), "asked again");
    (void)setenv("NO_COLOR", "1", 1);
    run(status, READY, slave, &said);
    text = shown(master, slave);
    ok(strncmp(text, "Ready\r\n", 7) == 0, "not wanted: %s", text);
    (void)close(slave);
    (void)close(master);
}

int main(void)
{
    char folder[] = "/tmp/command_line_test.XXXXXX";

    if (mkdtemp(folder) == NULL || chdir(folder) != 0)
        tap_bail("mkdtemp");
    table();
    help();
    heavy();
    long_path();
    watch();
    bundle();
    parts_of_bundle();
    check();
    colours();
    if (chdir("/") != 0 || rmdir(folder) != 0)
        diag("%s stays", folder);
    return tap_end();
}
