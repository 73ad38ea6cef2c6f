/* SPDX-License-Identifier: Apache-2.0 */
#include "check/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/slice.h"
#include "base/utf8.h"
#include "check/command.h"

#define PROPERTIES                                                                                                     \
    "LoadState,LimitNOFILE,User,StatusText,UnitFileState,TriggeredBy,ActiveState,SubState,ExecStartPre,"               \
    "CapabilityBoundingSet,AmbientCapabilities,PrivateUsers"

enum { ANSWER_BYTES = 32 << 10, GROUP_BYTES = 4096, SYSTEMCTL_SECONDS = 10 };

/* The last part of a control group's path: "0::/system.slice/system-mvproxy.slice/mvproxy@blue.service". False: none of
 * ours. */
static bool name_of(const char *proc, pid_t pid, char out[UNIT_NAME_BYTES])
{
    char path[256], text[GROUP_BYTES];
    struct slice rest, line;
    int fd;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "%s/%ld/cgroup", proc, (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (fd >= 0)
        close(fd);
    rest = slice_of(text, n < 0 ? 0 : (size_t)n);
    while (rest.n > 0 && slice_split(&rest, '\n', &line)) {
        size_t begin = line.n;

        while (begin > 0 && line.p[begin - 1] != '/')
            begin--;
        line = slice_from(line, begin);
        if (line.n < UNIT_NAME_BYTES && slice_has_prefix(line, SLICE_LIT("mvproxy")) &&
            slice_has_suffix(line, SLICE_LIT(".service"))) {
            (void)snprintf(out, UNIT_NAME_BYTES, "%.*s", (int)line.n, line.p);
            return true;
        }
    }
    return false;
}

/* Empty: not told. */
static struct slice property(struct slice all, const char *name)
{
    struct slice line, key = slice_str(name);

    while (all.n > 0 && slice_split(&all, '\n', &line))
        if (line.n > key.n && slice_has_prefix(line, key) && line.p[key.n] == '=')
            return slice_from(line, key.n + 1);
    return SLICE_NONE;
}

static bool slice_has(struct slice text, const char *word)
{
    return text.n > 0 && memmem(text.p, text.n, word, strlen(word)) != NULL;
}

static void copy(char *out, size_t room, struct slice text)
{
    (void)snprintf(out, room, "%.*s", (int)(text.n < room ? text.n : room - 1), text.n == 0 ? "" : text.p);
    utf8_make_printable(out);
}

static uint64_t limit(struct slice text)
{
    char digits[32];

    if (slice_eq(text, SLICE_LIT("infinity")))
        return UINT64_MAX;
    copy(digits, sizeof(digits), text);
    return strtoull(digits, NULL, 10);
}

/* Root has the capability unless it is bounded; in a user namespace of its own none counts for the host's ports. */
static bool may_bind_low(struct slice all, const char *user)
{
    static const char capability[] = "cap_net_bind_service";
    bool root = user[0] == '\0' || strcmp(user, "root") == 0;

    return property(all, "TriggeredBy").n > 0 ||
           (slice_has(property(all, "CapabilityBoundingSet"), capability) &&
            (root || slice_has(property(all, "AmbientCapabilities"), capability)) &&
            !slice_eq(property(all, "PrivateUsers"), SLICE_LIT("yes")));
}

static void read_properties(struct slice all, struct unit *out)
{
    struct slice active = property(all, "ActiveState"), sub = property(all, "SubState");

    out->loaded = slice_eq(property(all, "LoadState"), SLICE_LIT("loaded"));
    if (!out->loaded)
        return;
    copy(out->user, sizeof(out->user), property(all, "User"));
    out->descriptors = limit(property(all, "LimitNOFILE"));
    out->failing = slice_eq(active, SLICE_LIT("failed")) || slice_eq(sub, SLICE_LIT("auto-restart"));
    if (!slice_eq(active, SLICE_LIT("active")))
        copy(out->status, sizeof(out->status), property(all, "StatusText"));
    /* Started by its socket it needs not be enabled itself. */
    out->gives_leave = slice_has(property(all, "ExecStartPre"), "setfacl");
    out->binds_low = may_bind_low(all, out->user);
    out->disabled =
        slice_eq(property(all, "UnitFileState"), SLICE_LIT("disabled")) && property(all, "TriggeredBy").n == 0;
}

void unit_read(const char *systemctl, const char *proc, pid_t pid, struct unit *out)
{
    const char *const argv[] = {systemctl, "show", "--property=" PROPERTIES, out->name, NULL};
    struct err none = {.text = ""};
    struct buf b;

    memset(out, 0, sizeof(*out));
    if (systemctl == NULL || (pid != 0 && !name_of(proc, pid, out->name)))
        return;
    if (pid == 0)
        (void)snprintf(out->name, sizeof(out->name), "mvproxy.service");
    buf_init(&b, ANSWER_BYTES);
    if (command_output(argv, SYSTEMCTL_SECONDS, &b, &none))
        read_properties(buf_slice(&b), out);
    buf_free(&b);
}
