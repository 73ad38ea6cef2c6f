/* SPDX-License-Identifier: Apache-2.0 */
/* What a process does with its limits at its start. */
#include "daemon/rlimits.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/tap.h"

enum { FEW = 64, MORE = 128, FAILED = 1, SAID = 2 };

static struct rlimit limit(int which)
{
    struct rlimit l;

    if (getrlimit((__rlimit_resource_t)which, &l) != 0)
        tap_bail("no limit");
    return l;
}

static bool set(int which, rlim_t now, rlim_t most)
{
    return setrlimit((__rlimit_resource_t)which, &(struct rlimit){now, most}) == 0;
}

/* Limits can only be lowered, so each story is a process. What it says in the log counts as well. */
static int story(bool (*fn)(void))
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        char *text = NULL;
        size_t n = 0;
        FILE *log = open_memstream(&text, &n);
        bool good;

        log_set_stream(log);
        good = fn();
        log_set_stream(stderr);
        (void)fclose(log);
        status = (good ? 0 : FAILED) | (n == 0 ? 0 : SAID);
        free(text);
        _exit(status);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static bool raised(void)
{
    if (!set(RLIMIT_NOFILE, FEW, MORE) || rlimits_descriptors() != FEW)
        return false;
    rlimits_prepare();
    return rlimits_descriptors() == MORE && limit(RLIMIT_NOFILE).rlim_max == MORE;
}

static bool raised_already(void)
{
    if (!set(RLIMIT_NOFILE, MORE, MORE))
        return false;
    rlimits_prepare();
    return rlimits_descriptors() == MORE;
}

static bool no_dumps(void)
{
    if (limit(RLIMIT_CORE).rlim_max < FEW)
        return true; /* that has been forbidden here */
    rlimits_prepare();
    return limit(RLIMIT_CORE).rlim_cur == 1 && limit(RLIMIT_CORE).rlim_max == 1 && prctl(PR_GET_DUMPABLE) == 0;
}

static bool no_dumps_already(void)
{
    if (!set(RLIMIT_CORE, 0, 0))
        return false;
    rlimits_prepare();
    return limit(RLIMIT_CORE).rlim_cur == 0 && limit(RLIMIT_CORE).rlim_max == 0 && prctl(PR_GET_DUMPABLE) == 0;
}

int main(void)
{
    is_int(story(raised), 0, "as many descriptors as there may be");
    is_int(story(raised_already), 0, "no more");
    is_int(story(no_dumps), 0, "no dumps, by whatever way");
    is_int(story(no_dumps_already), 0, "nor where that was so");
    return tap_end();
}
