/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/rlimits.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/log.h"

void rlimits_prepare(void)
{
    struct rlimit files, core;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
            log_warning("Could not raise the limit of descriptors", LT("err", strerror(errno)));
    }
    /* No dump by whatever way, and no other process of the same user may look into this one's memory (ptrace(2)). */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        log_warning("Could not hide this process's memory", LT("err", strerror(errno)));
    if (getrlimit(RLIMIT_CORE, &core) != 0 || core.rlim_max == 0)
        return;
    /* 1, not 0: a core_pattern that is a pipe ignores every limit but this one (core(5)). */
    core.rlim_cur = core.rlim_max = 1;
    if (setrlimit(RLIMIT_CORE, &core) != 0)
        log_warning("Could not forbid core dumps", LT("err", strerror(errno)));
}

size_t rlimits_descriptors(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY)
        return 0;
    return (size_t)files.rlim_cur;
}
