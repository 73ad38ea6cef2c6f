/* SPDX-License-Identifier: Apache-2.0 */
/* What a support bundle says of a machine, whose files are written here, and of the log of its service. */
#include "ctl/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "check/command.h"
#include "lib/descriptors.h"
#include "lib/folder.h"
#include "lib/tap.h"

enum { LONG = 20000, LINE = 100, MOST = 16383, NOW_S = 1795305600 /* 2026-11-22T00:00:00Z */ };

/* ---- in place of the C library's, and of check/command.c ---- */

static struct {
    const char *output, *fault; /* of the journal */
    bool has_journal, unsynchronized, secret;
} machine;
static char ran[512];

/* The files of the machine are in the test's folder. */
int open(const char *path, int flags, ...)
{
    char there[512];

    if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0)
        return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
    (void)snprintf(there, sizeof(there), "%s%s", folder(), path);
    return (int)syscall(SYS_openat, AT_FDCWD, there, flags, 0);
}

int access(const char *path, int mode)
{
    if (strcmp(path, "/usr/bin/journalctl") == 0 && mode == X_OK)
        return machine.has_journal ? 0 : -1;
    return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

int adjtimex(struct timex *t)
{
    t->status = machine.unsynchronized ? STA_UNSYNC | STA_PLL : STA_PLL;
    return machine.secret ? -1 : 0;
}

bool command_output(const char *const *argv, unsigned seconds, struct buf *out, struct err *err)
{
    ran[0] = '\0';
    for (; *argv != NULL; argv++)
        (void)snprintf(ran + strlen(ran), sizeof(ran) - strlen(ran), "%s ", *argv);
    ok(seconds > 0 && seconds <= 60, "for %u seconds", seconds);
    if (machine.fault != NULL)
        return err_set(err, "%s", machine.fault);
    return buf_append_str(out, machine.output);
}

/* ---- the machine ---- */

static void make_folders(void)
{
    static const char *const names[] = {"proc",
                                        "proc/7",
                                        "proc/8",
                                        "sys",
                                        "sys/fs",
                                        "sys/fs/cgroup",
                                        "sys/fs/cgroup/a",
                                        "sys/fs/cgroup/a/b",
                                        "sys/fs/cgroup/a/b/pids.max"};

    folder_enter();
    for (size_t i = 0; i < ROWS(names); i++)
        if (mkdir(names[i], 0700) != 0)
            tap_bail("mkdir");
}

static void make_files(void)
{
    make_folders();
    folder_write("proc/loadavg", "0.1 0.2 0.3 1/2 3\n");
    folder_write("proc/uptime", "7.5 1.5\n");
    folder_write("proc/meminfo", "MemTotal:  4 kB\nMemFree: 3 kB\nMemAvailable: 2 kB\n\nSwapFree: \001 kB\n");
    folder_write("proc/7/limits", "Limit  Soft\nMax open files  712\n");
    folder_write("proc/7/status", "Name:\tmvproxy\nState:\tS\nVmRSS:\t5 kB\nThreads:\t3\nCapEff:\t0\n");
    folder_write("proc/7/cgroup", "1:cpu:/x\n0::/a/b\n");
    folder_write("sys/fs/cgroup/a/b/memory.max", "max\n");
    folder_write("sys/fs/cgroup/a/b/memory.current", "4096\nrubbish\n");
    folder_write("sys/fs/cgroup/a/b/cpu.max", "100 \002 1000\n");
    folder_write("proc/8/cgroup", "1:cpu:/x\n");
}

static void has(struct json_object *o, const char *name, const char *want)
{
    struct json_object *v = NULL;

    is_str(json_object_object_get_ex(o, name, &v) ? json_object_to_json_string_ext(v, JSON_C_TO_STRING_NOSLASHESCAPE)
                                                  : NULL,
           want, "%s", name);
}

static void of_machine(void)
{
    struct json_object *o;
    unsigned before = descriptors_open();

    clock_fake(1000000, NOW_S * 1000000LL);
    o = host_facts(0);
    is_u64(descriptors_open(), before, "all files are closed");
    has(o, "time", "\"2026-11-22T00:00:00.000000Z\"");
    has(o, "clockSynchronized", "true");
    has(o, "load", "[\"0.1 0.2 0.3 1/2 3\"]");
    has(o, "uptime", "[\"7.5 1.5\"]");
    has(o, "memory", "[\"MemTotal:  4 kB\",\"MemAvailable: 2 kB\",\"SwapFree: ? kB\"]");
    has(o, "processLimits", NULL);
    has(o, "controlGroup", NULL);
    ok(json_object_object_get_ex(o, "kernel", NULL) && json_object_object_get_ex(o, "processors", NULL), "the rest");
    json_object_put(o);
    machine.unsynchronized = true;
    o = host_facts(0);
    has(o, "clockSynchronized", "false");
    json_object_put(o);
    machine.secret = true;
    o = host_facts(-1);
    has(o, "clockSynchronized", NULL);
    has(o, "processLimits", NULL);
    json_object_put(o);
    clock_real();
}

static void of_process(void)
{
    struct json_object *o = host_facts(7);

    has(o, "processLimits", "[\"Limit  Soft\",\"Max open files  712\"]");
    has(o, "processStatus", "[\"State:?S\",\"VmRSS:?5 kB\",\"Threads:?3\",\"CapEff:?0\"]");
    has(o, "controlGroup",
        "{\"memory.max\":\"max\",\"memory.current\":\"4096\",\"cpu.max\":\"100 ? 1000\",\"path\":\"/a/b\"}");
    json_object_put(o);
    o = host_facts(8);
    has(o, "processLimits", "[]");
    has(o, "controlGroup", "{}");
    json_object_put(o);
    o = host_facts(9);
    has(o, "controlGroup", "{}");
    json_object_put(o);
}

/* Lines, so many bytes of them. */
static void long_file(void)
{
    static char text[LONG + 1];
    struct json_object *o, *lines = NULL;
    size_t n = 0;

    memset(text, 'x', LONG);
    for (size_t i = LINE - 1; i < LONG; i += LINE)
        text[i] = '\n';
    folder_write("proc/loadavg", text);
    o = host_facts(0);
    if (json_object_object_get_ex(o, "load", &lines))
        for (size_t i = 0; i < json_object_array_length(lines); i++)
            n += (size_t)json_object_get_string_len(json_object_array_get_idx(lines, i));
    is_u64(n, MOST - MOST / LINE, "what there is room for");
    json_object_put(o);
}

/* ---- the log ---- */

static void journal(void)
{
    static const struct {
        bool there;
        const char *output, *fault, *text, *err;
    } rows[] = {
        {false, "", NULL, NULL, "there is no /usr/bin/journalctl here: add the latest lines of mvproxy's log by hand"},
        {true, "a\nb\n", NULL, "a\nb\n", ""},
        {true, "x", NULL, "x", ""},
        {true, "", NULL, NULL,
         "the journal has nothing of mvproxy.service, or may not be read: add the latest lines of mvproxy's log by "
         "hand"},
        {true, "", "it took too long", NULL, "it took too long"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct json_object *text;
        struct err err;

        err_clear(&err);
        machine.has_journal = rows[i].there;
        machine.output = rows[i].output;
        machine.fault = rows[i].fault;
        text = host_log(&err);
        is_str(text == NULL ? NULL : json_object_get_string(text), rows[i].text, "row %zu", i);
        is_str(err.text, rows[i].err, "row %zu: why not", i);
        json_object_put(text);
    }
    is_str(ran,
           "/usr/bin/journalctl --quiet --no-pager --lines=1000 --output=short-iso --unit=mvproxy.service "
           "--unit=mvproxy@*.service ",
           "who is asked");
}

int main(void)
{
    make_files();
    of_machine();
    of_process();
    long_file();
    journal();
    return tap_end();
}
