/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/died.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/tap.h"

static void child(void (*fn)(void *arg), void *arg, int err)
{
    struct rlimit none = {0, 0};

    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(SIGABRT, SIG_DFL);
    if (dup2(err, STDERR_FILENO) < 0)
        _exit(1);
    fn(arg);
    _exit(0);
}

bool died(void (*fn)(void *arg), void *arg, char *said, size_t size)
{
    int ends[2], status;
    size_t n = 0;
    ssize_t got;
    char rest[256];
    pid_t pid;

    if (pipe(ends) != 0 || (pid = fork()) < 0)
        tap_bail("could not make a child");
    if (pid == 0)
        child(fn, arg, ends[1]);
    close(ends[1]);
    while ((got = read(ends[0], n < size - 1 ? said + n : rest, n < size - 1 ? size - 1 - n : sizeof(rest))) > 0)
        n += n < size - 1 ? (size_t)got : 0;
    said[n] = '\0';
    close(ends[0]);
    if (waitpid(pid, &status, 0) != pid)
        tap_bail("lost a child");
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
