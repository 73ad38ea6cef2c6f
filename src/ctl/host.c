/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/host.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "check/command.h"

#define JOURNAL "/usr/bin/journalctl"
#define GROUPS "/sys/fs/cgroup"

enum { FILE_BYTES = 16 << 10, LOG_BYTES = 4 << 20, PATH_BYTES = 512, JOURNAL_SECONDS = 30 };

static void add_text(struct json_object *o, const char *name, char *text)
{
    utf8_make_printable(text);
    json_object_object_add(o, name, json_object_new_string(text));
}

/* ---- the machine ---- */

/* All of it, NUL-terminated, newlines and all; false: it cannot be read. */
static bool read_file(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = 1;
    size_t at = 0;

    if (fd < 0)
        return false;
    while (n > 0 && at < room - 1) {
        n = read(fd, text + at, room - 1 - at);
        at += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    text[at] = '\0';
    return n >= 0;
}

/* The lines of a file that begin with one of these words, or all; one text for each. */
static void add_lines(struct json_object *o, const char *name, const char *path, const char *const *words)
{
    struct json_object *lines = json_object_new_array();
    char text[FILE_BYTES], one[PATH_BYTES];
    struct slice rest = SLICE_NONE, line;

    if (read_file(path, text, sizeof(text)))
        rest = slice_str(text);
    while (rest.n > 0 && slice_split(&rest, '\n', &line)) {
        bool wanted = words == NULL;

        for (size_t i = 0; !wanted && words[i] != NULL; i++)
            wanted = slice_has_prefix(line, slice_str(words[i]));
        if (!wanted || line.n == 0)
            continue;
        (void)snprintf(one, sizeof(one), "%.*s", (int)line.n, line.p);
        utf8_make_printable(one);
        json_object_array_add(lines, json_object_new_string(one));
    }
    json_object_object_add(o, name, lines);
}

static void add_kernel(struct json_object *o)
{
    struct utsname u;
    char text[sizeof(u.sysname) + sizeof(u.release) + sizeof(u.version) + sizeof(u.machine)];

    if (uname(&u) != 0)
        return;
    (void)snprintf(text, sizeof(text), "%s %s %s %s", u.sysname, u.release, u.version, u.machine);
    add_text(o, "kernel", text);
}

static void add_clock(struct json_object *o)
{
    struct timex t = {.modes = 0};
    char now[CLOCK_RFC3339_BYTES];
    int state = adjtimex(&t);

    clock_rfc3339(clock_wall_us(), now);
    add_text(o, "time", now);
    /* As the kernel is told by whoever keeps it; without the right to ask it is not known. */
    if (state >= 0)
        json_object_object_add(o, "clockSynchronized", json_object_new_boolean((t.status & STA_UNSYNC) == 0));
}

/* ---- the process ---- */

static void add_group_file(struct json_object *o, const char *group, const char *name)
{
    char path[PATH_BYTES], text[PATH_BYTES];

    (void)snprintf(path, sizeof(path), GROUPS "%s/%s", group, name);
    if (!read_file(path, text, sizeof(text)))
        return;
    text[strcspn(text, "\n")] = '\0';
    add_text(o, name, text);
}

/* Version 2 of control groups: "0::/path". */
static void add_group(struct json_object *o, int64_t pid)
{
    static const char *const files[] = {"memory.max",  "memory.high", "memory.current",
                                        "memory.peak", "cpu.max",     "pids.max"};
    struct json_object *group = json_object_new_object();
    char path[PATH_BYTES], text[FILE_BYTES];
    char *at;

    (void)snprintf(path, sizeof(path), "/proc/%lld/cgroup", (long long)pid);
    at = read_file(path, text, sizeof(text)) ? strstr(text, "0::/") : NULL;
    if (at != NULL) {
        at += 3;
        at[strcspn(at, "\n")] = '\0';
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
            add_group_file(group, at, files[i]);
        add_text(group, "path", at);
    }
    json_object_object_add(o, "controlGroup", group);
}

struct json_object *host_facts(int64_t pid)
{
    static const char *const memory[] = {"MemTotal:", "MemAvailable:", "SwapTotal:", "SwapFree:", NULL};
    static const char *const status[] = {
        "State:", "VmPeak:", "VmRSS:", "VmSwap:", "Threads:", "CapEff:", "Seccomp:", NULL};
    struct json_object *o = json_object_new_object();
    char path[PATH_BYTES];

    add_kernel(o);
    add_clock(o);
    json_object_object_add(o, "processors", json_object_new_int64(sysconf(_SC_NPROCESSORS_ONLN)));
    add_lines(o, "load", "/proc/loadavg", NULL);
    add_lines(o, "uptime", "/proc/uptime", NULL);
    add_lines(o, "memory", "/proc/meminfo", memory);
    if (pid <= 0)
        return o;
    (void)snprintf(path, sizeof(path), "/proc/%lld/limits", (long long)pid);
    add_lines(o, "processLimits", path, NULL);
    (void)snprintf(path, sizeof(path), "/proc/%lld/status", (long long)pid);
    add_lines(o, "processStatus", path, status);
    add_group(o, pid);
    return o;
}

/* ---- the log ---- */

struct json_object *host_log(struct err *err)
{
    static const char *const argv[] = {JOURNAL,
                                       "--quiet",
                                       "--no-pager",
                                       "--lines=1000",
                                       "--output=short-iso",
                                       "--unit=mvproxy.service",
                                       "--unit=mvproxy@*.service",
                                       NULL};
    struct json_object *text = NULL;
    struct buf b;

    if (access(JOURNAL, X_OK) != 0) {
        (void)err_set(err, "there is no " JOURNAL " here: add the latest lines of mvproxy's log by hand");
        return NULL;
    }
    buf_init(&b, LOG_BYTES);
    if (command_output(argv, JOURNAL_SECONDS, &b, err) && buf_len(&b) > 0)
        text = json_object_new_string_len(buf_slice(&b).p, (int)buf_len(&b));
    buf_free(&b);
    if (text == NULL && !err_is_set(err))
        (void)err_set(err, "the journal has nothing of mvproxy.service, or may not be read: add the latest lines of "
                           "mvproxy's log by hand");
    return text;
}
