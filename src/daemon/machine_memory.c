/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/machine_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "base/slice.h"

enum { PATH_BYTES = 4096, LEAST_FOR_CLIENTS = 256 << 20 };

/* "max", and what is no number, is no limit; so is version 1's, which is nearly 2^63. */
static uint64_t read_limit(const char *directory, const char *name)
{
    char path[PATH_BYTES + 64];
    char text[32] = "";
    uint64_t v = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    f = fopen(path, "re");
    if (f == NULL)
        return UINT64_MAX;
    if (fgets(text, sizeof(text), f) == NULL)
        text[0] = '\0';
    fclose(f);
    text[strcspn(text, "\n")] = '\0';
    return slice_u64(slice_str(text), &v) && v > 0 ? v : UINT64_MAX;
}

/* The least of a group's and those above it. */
static uint64_t least_limit(const char *root, const char *group, const char *name)
{
    char path[PATH_BYTES];
    size_t above = strlen(root);
    uint64_t least = UINT64_MAX;

    if (snprintf(path, sizeof(path), "%s%s", root, group) >= (int)sizeof(path))
        return least;
    for (;;) {
        uint64_t limit = read_limit(path, name);
        char *last = strrchr(path + above, '/');

        least = limit < least ? limit : least;
        if (last == NULL)
            return least;
        *last = '\0';
    }
}

static bool names_memory(const char *controllers)
{
    const char *at = strstr(controllers, "memory");

    return at != NULL && (at == controllers || at[-1] == ',') && (at[6] == '\0' || at[6] == ',');
}

/* A line of /proc/PID/cgroup: "0::/path" of version 2, "7:memory:/path" of version 1. */
static uint64_t limit_of_line(char *line, const char *root)
{
    char *controllers = strchr(line, ':'), *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    char base[PATH_BYTES];

    if (group == NULL)
        return UINT64_MAX;
    *group++ = '\0';
    controllers++;
    group[strcspn(group, "\n")] = '\0';
    if (*controllers == '\0')
        return least_limit(root, group, "memory.max");
    if (!names_memory(controllers) || snprintf(base, sizeof(base), "%s/memory", root) >= (int)sizeof(base))
        return UINT64_MAX;
    return least_limit(base, group, "memory.limit_in_bytes");
}

uint64_t machine_memory_of(const char *cgroup_file, const char *cgroup_root, uint64_t machine)
{
    FILE *f = fopen(cgroup_file, "re");
    char line[PATH_BYTES];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        uint64_t limit = limit_of_line(line, cgroup_root);

        machine = limit < machine ? limit : machine;
    }
    if (f != NULL)
        fclose(f);
    return machine;
}

uint64_t machine_memory(void)
{
    struct sysinfo info;
    uint64_t all = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;

    return machine_memory_of("/proc/self/cgroup", "/sys/fs/cgroup", all);
}

uint64_t machine_memory_for_clients(uint64_t bytes, uint64_t all)
{
    uint64_t least = all > 0 && all / 2 < LEAST_FOR_CLIENTS ? all / 2 : LEAST_FOR_CLIENTS;

    if (bytes != 0)
        return bytes;
    return all / 4 > least ? all / 4 : least;
}
