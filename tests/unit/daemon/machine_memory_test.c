/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/machine_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/folder.h"
#include "lib/tap.h"

static void put(const char *path, const char *text)
{
    char command[512];

    snprintf(command, sizeof(command), "mkdir -p $(dirname %s/%s) && echo '%s' > %s/%s", folder(), path, text, folder(),
             path);
    if (system(command) != 0)
        tap_bail("%s", command);
}

static uint64_t look(const char *cgroup)
{
    char file[64], tree[64];

    put("cgroup", cgroup);
    snprintf(file, sizeof(file), "%s/cgroup", folder());
    snprintf(tree, sizeof(tree), "%s/fs", folder());
    return machine_memory_of(file, tree, 8000);
}

int main(void)
{
    char path[256];

    put("fs/memory.max", "7000");
    put("fs/a/memory.max", "3000");
    put("fs/a/b/memory.max", "max");
    put("fs/c/memory.max", "nonsense");
    put("fs/memory/v1/memory.limit_in_bytes", "2000");
    put("fs/memory/none/memory.limit_in_bytes", "9223372036854771712");
    put("fs/d/memory.max", "0");
    is_u64(look("0::/a"), 3000, "a group's limit");
    is_u64(look("0::/d"), 7000, "nothing is no limit");
    put("fs/empty/memory.max", "1");
    (void)snprintf(path, sizeof(path), "%s/fs/empty/memory.max", folder());
    is_int(truncate(path, 0), 0, "a file with nothing in it");
    is_u64(look("0::/empty"), 7000, "says nothing");
    is_u64(look("0::/a/b"), 3000, "that of the group above");
    is_u64(look("0::/c"), 7000, "what is no number is no limit");
    is_u64(look("0::/not/there"), 7000, "nor is what is not there");
    is_u64(look("0::/"), 7000, "a container's own root");
    is_u64(look("12:cpu,memory:/v1\n1:name=systemd:/a"), 2000, "version 1");
    is_u64(look("12:memory:/none"), 8000, "version 1 without a limit: the machine");
    is_u64(look("12:memoryless:/v1"), 8000, "another controller");
    is_u64(look("nothing"), 8000, "nothing to read");
    is_u64(machine_memory_of("/nonexistent", "/nonexistent", 5), 5, "no file");
    ok(machine_memory() > 0, "this machine has some");
    is_u64(machine_memory_for_clients(0, UINT64_C(8) << 30), UINT64_C(2) << 30, "a quarter is for clients");
    is_u64(machine_memory_for_clients(0, 640 << 20), 256 << 20, "256 MiB at least");
    is_u64(machine_memory_for_clients(0, 256 << 20), 128 << 20, "but no more than half, as MemoryMax= is above it");
    is_u64(machine_memory_for_clients(0, 0), 256 << 20, "where nobody says how much there is as well");
    is_u64(machine_memory_for_clients(1 << 20, UINT64_C(8) << 30), 1 << 20, "or what was asked for");
    return tap_end();
}
