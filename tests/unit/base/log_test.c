/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "lib/tap.h"

static char *text;
static size_t length;
static FILE *stream;

/* What was written since the last call; the next call invalidates it. */
static const char *written(void)
{
    static char copy[2 * LIMIT_LOG_BUFFER];

    fflush(stream);
    snprintf(copy, sizeof(copy), "%.*s", (int)length, text);
    rewind(stream);
    return copy;
}

/* The same line of klog with another process id and source line cannot be compared; cut to what follows "] ". */
static const char *behind_header(const char *line)
{
    const char *at = strstr(line, "] ");

    return at == NULL ? line : at + 2;
}

static void text_lines(void)
{
    char want[256];

    clock_fake(0, INT64_C(1763701895303239));
    log_info("Peer added", LS("id", SLICE_LIT("apiserver-x")), LU("port", 6443), LI("delta", -3), LB("live", true));
    snprintf(want, sizeof(want),
             "I1121 05:11:35.303239 %7d log_test.c:%d] "
             "\"Peer added\" id=\"apiserver-x\" port=6443 delta=-3 live=true\n",
             (int)getpid(), __LINE__ - 4);
    is_str(written(), want, "a whole line");
    log_warning("Slow");
    ok(written()[0] == 'W', "severity of a warning");
    log_error("Could not load", LT("err", "no such file"));
    log_set_verbosity(-1);
    log_info("Nothing");
    log_error("Nothing");
    log_set_verbosity(0);
    is_str(behind_header(written()), "\"Could not load\" err=\"no such file\"\n", "an error carries err");
    log_emit(LOG_FATAL, 0, "a/b/c.c", 7, "Gone", NULL);
    ok(strstr(written(), " c.c:7] \"Gone\"\n") != NULL, "basename, no pairs");
    log_info("Odd", LT("none", NULL),
             LT("v", "a\"b\\c\nd\re\tf\x01g\x7f-\xfc-\xc3\xbc-\xe2\x80\xae-\xc2\x80\xc2\x85-\xef\xbb\xbf"));
    is_str(behind_header(written()),
           "\"Odd\" none=\"\" v=\"a\\\"b\\\\c\\nd\\re\\tf\\x01g\\x7f-\\xfc-\xc3\xbc-\\u202e-\\u0080\\u0085-\\ufeff\"\n",
           "nothing can forge a line or hide text");
}

static void json_lines(void)
{
    char want[256];

    log_set_format(LOG_JSON);
    log_info("Peer \"x\"", LT("id", "a\nb"), LU("n", 7), LB("live", false));
    snprintf(want, sizeof(want),
             "{\"ts\":1763701895303.239,\"caller\":\"log_test.c:%d\",\"msg\":\"Peer \\\"x\\\"\",\"v\":0,"
             "\"id\":\"a\\nb\",\"n\":7,\"live\":false}\n",
             __LINE__ - 4);
    is_str(written(), want, "information");
    log_error("Bad", LT("err", "why"));
    snprintf(want, sizeof(want),
             "{\"ts\":1763701895303.239,\"caller\":\"log_test.c:%d\",\"msg\":\"Bad\",\"err\":\"why\"}\n", __LINE__ - 2);
    is_str(written(), want, "an error has no v");
    log_set_verbosity(4);
    log_v(4, "Detail");
    ok(strstr(written(), "\"v\":4}") != NULL, "verbosity of the line");
    log_set_verbosity(0);
    log_set_format(LOG_TEXT);
}

static int evaluated;

static uint64_t evaluate(void)
{
    evaluated++;
    return 1;
}

static void verbosity(void)
{
    log_v(2, "Hidden", LU("n", evaluate()));
    is_str(written(), "", "hidden at -v=0");
    is_int(evaluated, 0, "and not evaluated");
    log_set_verbosity(2);
    is_int(log_verbosity(), 2, "set");
    log_v(2, "Shown", LU("n", evaluate()));
    is_str(behind_header(written()), "\"Shown\" n=1\n", "shown at -v=2");
    log_v(3, "Hidden");
    is_str(written(), "", "above is hidden");
    log_set_verbosity(0);
}

static void buffering(void)
{
    static char big[3 * LIMIT_LOG_VALUE];
    size_t lines = 0;
    const char *at;

    log_set_buffered(true);
    log_info("One");
    log_info("Two");
    is_str(written(), "", "information waits");
    log_flush();
    at = written();
    ok(strstr(at, "\"One\"") != NULL && strstr(at, "\"Two\"") != NULL, "until the flush");
    log_info("Three");
    log_error("Four");
    at = written();
    ok(strstr(at, "\"Three\"") != NULL && strstr(at, "\"Four\"") > strstr(at, "\"Three\""),
       "an error takes along what waits, in order");

    memset(big, 'x', sizeof(big) - 1);
    log_info("Big", LT("v", big));
    log_flush();
    is_u64(strspn(strchr(written(), '=') + 2, "x"), LIMIT_LOG_VALUE, "a value is cut at its limit");
    for (int i = 0; i < 20; i++)
        log_info("Fill", LT("v", big));
    log_flush();
    for (at = written(); (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    is_u64(lines, 20, "a full buffer loses nothing");
    big[LIMIT_LOG_VALUE] = '\0';
    log_info("Huge", LT("a", big), LT("b", big), LT("c", big), LT("d", big), LT("e", big), LT("f", big), LT("g", big),
             LT("h", big), LT("i", big), LT("j", big), LT("k", big), LT("l", big), LT("m", big), LT("n", big),
             LT("o", big), LT("p", big), LT("q", big));
    log_set_buffered(false);
    at = written();
    is_u64(strspn(strstr(at, " a=") + 4, "x"), 1024, "of a line that is too long each value is cut");
    ok(strstr(at, " truncated=\"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q\"\n") != NULL, "and says so");
}

/* What python's and Go's readers refuse. */
static bool is_json(const char *line)
{
    bool inside = false;
    int depth = 0;

    for (; *line != '\0' && *line != '\n'; line++) {
        if (inside && *line == '\\' && strchr("\"\\/bfnrtu", line[1]) == NULL)
            return false;
        if (inside && *line == '\\' && line[1] == 'u' && strspn(line + 2, "0123456789abcdef") < 4)
            return false;
        if (inside && *line == '\\')
            line++;
        else if (*line == '"')
            inside = !inside;
        else if (!inside)
            depth += *line == '{' || *line == '[' ? 1 : *line == '}' || *line == ']' ? -1 : 0;
    }
    return !inside && depth == 0 && line[-1] == '}';
}

/* A client's text becomes longer by its escapes, up to six times. */
static void client_text(bool json, const char *unit, size_t units)
{
    static char big[LIMIT_LOG_VALUE + 8];
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    struct log_kv kv[ROWS(names) + 3];
    struct slice list[] = {SLICE_LIT("one"), SLICE_NONE, SLICE_LIT("three")};
    const char *at;
    size_t n = 0;

    big[0] = '\0';
    for (size_t i = 0; i < units; i++)
        memcpy(big + i * strlen(unit), unit, strlen(unit) + 1);
    list[1] = slice_str(big);
    for (; n < ROWS(names); n++)
        kv[n] = (struct log_kv)LT(names[n], big);
    kv[n++] = (struct log_kv)LL("list", list, ROWS(list));
    kv[n++] = (struct log_kv)LU("code", 401);
    kv[n].key = NULL;
    log_emit(LOG_INFO, 0, "a.c", 7, "Request", kv);
    at = written();
    ok(!json || is_json(at), "valid");
    ok(strlen(at) < LIMIT_LOG_LINE && strchr(at, '\n') == at + strlen(at) - 1, "%zu bytes, one line", strlen(at));
    ok(strstr(at, "code") != NULL && strstr(at, "401") != NULL, "the last pair is there");
    ok(strstr(at, "a,b,c,d,e,f,g,h,i,j,k,l,list") != NULL, "cut values are named");
    ok(strstr(at, "three") == NULL, "a list ends where it is cut");
}

static void cut_values(void)
{
    const struct slice groups[] = {SLICE_LIT("system:masters"), SLICE_LIT("a,b\"c\n")};
    static char wide[LIMIT_LOG_VALUE + 8];

    client_text(false, "\x01", 4096);
    client_text(false, "\xc2\x9b", 2048);
    client_text(false, "\xff", 4096);
    log_info("Groups", LL("groups", groups, 2), LL("none", groups, 0));
    is_str(behind_header(written()), "\"Groups\" groups=[\"system:masters\",\"a,b\\\"c\\n\"] none=[]\n", "a list");
    memset(wide, 'x', LIMIT_LOG_VALUE - 1);
    memcpy(wide + LIMIT_LOG_VALUE - 1, "\xc3\xbc", 3);
    log_info("Wide", LT("v", wide));
    ok(strstr(written(), "xx\" truncated=\"v\"\n") != NULL, "no character is cut in two");
    wide[LIMIT_LOG_VALUE] = '\0';
    wide[LIMIT_LOG_VALUE - 1] = 'x';
    log_info("Full", LT("v", wide));
    ok(strstr(written(), "truncated") == NULL, "what just fits is not cut");
    log_set_format(LOG_JSON);
    client_text(true, "\x01", 4096);
    client_text(true, "\xc2\x9b", 2048);
    client_text(true, "\"", 4096);
    log_info("Groups", LL("groups", groups, 2), LT("v", "a\xe2\x80\xae\xc2\x9b\x7f\xc3\xbc"), LU("n", 1));
    ok(is_json(written()), "JSON");
    log_info("Groups", LL("groups", groups, 2), LT("v", "a\xe2\x80\xae\xc2\x9b\xc3\xbc"));
    ok(strstr(written(), ",\"groups\":[\"system:masters\",\"a,b\\\"c\\n\"],\"v\":\"a\\u202e\\u009b\xc3\xbc\"}\n") !=
           NULL,
       "lists are lists; nothing moves the cursor of who reads it in a terminal");
    log_set_format(LOG_TEXT);
}

static void journal(void)
{
    FILE *f = tmpfile();
    struct stat st;
    char name[64], line[256];
    static const char *const want[] = {"<6>I", "<7>I", "<4>W", "<3>E", "<2>F"};
    static const char *const others[] = {"1:1", "1", "1:", ":1", "x:1", "1:x"};

    if (f == NULL || fstat(fileno(f), &st) != 0)
        tap_bail("no temporary file");
    snprintf(name, sizeof(name), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", name, 1);
    log_set_stream(f);
    log_info("A");
    log_set_verbosity(5);
    log_v(5, "B");
    log_set_verbosity(0);
    log_warning("C");
    log_error("D");
    log_emit(LOG_FATAL, 0, __FILE__, __LINE__, "E", NULL);
    rewind(f);
    for (size_t i = 0; i < ROWS(want); i++) {
        if (fgets(line, sizeof(line), f) == NULL)
            tap_bail("line %zu is missing", i);
        ok(slice_has_prefix(slice_str(line), slice_str(want[i])), "priority %s", want[i]);
    }
    rewind(f);
    for (size_t i = 0; i < ROWS(others); i++) {
        setenv("JOURNAL_STREAM", others[i], 1);
        log_set_stream(f);
        log_info("A");
        rewind(f);
        ok(fgets(line, sizeof(line), f) != NULL && line[0] == 'I', "another stream gets no priorities: %s", others[i]);
        rewind(f);
    }
    log_set_stream(stream);
    fclose(f);
}

/* A stream that is one end of a pipe or of a socket pair; *other the reading end. */
static FILE *stream_to(bool socket, int *other)
{
    int fds[2];
    FILE *f;

    if ((socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds)) != 0)
        tap_bail("no pipe");
    f = fdopen(fds[1], "w");
    if (f == NULL || fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0)
        tap_bail("no stream");
    *other = fds[0];
    return f;
}

struct heard {
    unsigned lines, next; /* whole ones; the number that comes next */
    bool in_order;
    unsigned long long said; /* that were dropped */
    char rest[LIMIT_LOG_BUFFER];
    size_t n;
};

static void take_line(struct heard *h, const char *line)
{
    const char *number = strstr(line, "number="), *lines = strstr(line, "lines=");

    h->lines++;
    if (lines != NULL)
        h->said += strtoull(lines + 6, NULL, 10);
    if (number == NULL)
        return;
    h->in_order = h->in_order && strtoul(number + 7, NULL, 10) >= h->next;
    h->next = (unsigned)strtoul(number + 7, NULL, 10) + 1;
}

/* Takes what is there, `most` bytes of it. */
static void hear_some(struct heard *h, int fd, size_t most)
{
    ssize_t got;
    size_t room;

    while ((room = sizeof(h->rest) - 1 - h->n) > 0 && (got = read(fd, h->rest + h->n, most < room ? most : room)) > 0) {
        char *at = h->rest, *end;

        most -= (size_t)got;
        h->n += (size_t)got;
        h->rest[h->n] = '\0';
        for (; (end = strchr(at, '\n')) != NULL; at = end + 1) {
            *end = '\0';
            take_line(h, at);
        }
        h->n = strlen(at);
        memmove(h->rest, at, h->n);
    }
}

static void hear(struct heard *h, int fd)
{
    hear_some(h, fd, SIZE_MAX);
}

/* Nobody reads: the process goes on, what has room waits, the rest is counted and said when somebody does. */
static void nobody_reads(bool socket)
{
    enum { LINES = 20000 };
    static struct heard h;
    uint64_t dropped = log_dropped();
    int other;
    FILE *f = stream_to(socket, &other);

    log_set_stream(f);
    log_info("What was dropped before is said now");
    hear(&h, other);
    h = (struct heard){.in_order = true};
    log_set_buffered(true);
    for (unsigned i = 0; i < LINES; i++) {
        log_info("Many", LU("number", i));
        if (i % 7 == 0)
            log_flush(); /* as each turn does */
    }
    dropped = log_dropped() - dropped;
    ok(dropped > 0 && dropped < LINES, "%" PRIu64 " of %u lines were dropped", dropped, LINES);
    for (unsigned turn = 0; turn < 1000; turn++) {
        hear_some(&h, other, turn < 100 ? 5000 : SIZE_MAX); /* at first less than what waits */
        log_flush();
    }
    hear(&h, other);
    is_u64(h.said, dropped, "so many are said to be");
    is_u64(h.lines, LINES - dropped + 1, "all others are there");
    ok(h.in_order, "in order");
    is_u64(h.n, 0, "and whole");
    log_info("Afterwards", LU("number", LINES));
    log_flush();
    hear(&h, other);
    is_u64(h.next, LINES + 1, "all is as before");
    close(other);
    dropped = log_dropped();
    for (unsigned i = 0; i < 10; i++)
        log_error("Nobody there");
    is_u64(log_dropped(), dropped + 10, "nobody will ever read: counted");
    log_error("Nobody there, the longer");
    log_error("Nobody there, the longe"); /* behind it stands the end of the one before */
    is_u64(log_dropped(), dropped + 12, "each once");
    log_set_buffered(false);
    log_set_stream(stream);
    fclose(f);
}

/* What cannot be written is counted, and said with the reason when there is room: no reader is to blame. */
static void not_written(void)
{
    FILE *full = fopen("/dev/full", "w");
    uint64_t dropped = log_dropped();
    const char *lines;

    if (full == NULL)
        tap_bail("no /dev/full");
    log_error("What was dropped before is said now");
    (void)written();
    log_set_stream(full);
    log_error("One");
    log_error("Two");
    is_u64(log_dropped(), dropped + 2, "a full disk: both are counted");
    log_set_stream(stream);
    log_error("Room");
    lines = written();
    ok(strstr(lines, "] \"Room\"\n") != NULL &&
           strstr(lines, "] \"Log lines dropped\" lines=2 err=\"No space left on device\"\n") != NULL,
       "and said, with why: %s", lines);
    fclose(full);
}

/* A file, of which a part may be written: that it fails is said once it does no more. */
static void file_ends(void)
{
    struct rlimit limit, small;
    FILE *f = tmpfile();
    uint64_t dropped = log_dropped();
    char all[1024] = "";

    if (f == NULL || getrlimit(RLIMIT_FSIZE, &limit) != 0)
        tap_bail("no file");
    signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    log_set_stream(f);
    (void)setrlimit(RLIMIT_FSIZE, &small);
    log_error("Lost");
    log_error("Lost as well");
    is_u64(log_dropped(), dropped + 2, "a file that may not grow");
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    log_error("Room");
    rewind(f);
    ok(fread(all, 1, sizeof(all) - 1, f) > 0 && strstr(all, "lines=2 err=\"File too large\"") != NULL, "its reason: %s",
       all);
    log_set_stream(stream);
    fclose(f);
}

/* The last words wait, but not for ever. */
static void last_words(bool socket)
{
    static struct heard h;
    int other;
    FILE *f = stream_to(socket, &other);

    h = (struct heard){.in_order = true};
    log_set_stream(f);
    for (unsigned i = 0; i < 5000; i++)
        log_info("Many", LU("number", i));
    log_emit(LOG_FATAL, 0, __FILE__, __LINE__, "Nobody listens", NULL);
    hear(&h, other);
    log_finish();
    hear(&h, other);
    ok(h.lines > 100 && h.in_order, "what has room is there, %u lines", h.lines);
    log_set_stream(stream);
    close(other);
    fclose(f);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    setenv("TZ", "UTC", 1);
    unsetenv("JOURNAL_STREAM");
    stream = open_memstream(&text, &length);
    log_set_stream(stream);
    text_lines();
    json_lines();
    verbosity();
    buffering();
    cut_values();
    journal();
    nobody_reads(false);
    nobody_reads(true);
    not_written();
    file_ends();
    last_words(false);
    last_words(true);
    log_set_stream(stderr);
    fclose(stream);
    free(text);
    return tap_end();
}
