/* SPDX-License-Identifier: Apache-2.0 */
#include "check/command.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 4 << 10, EXIT_NOT_RUN = 127 };

static void become(const char *const argv[], unsigned seconds, int out)
{
    static char *const env[] = {(char *)"LC_ALL=C.UTF-8", NULL};
    int nowhere = open("/dev/null", O_RDWR);

    (void)dup2(nowhere, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(nowhere, STDERR_FILENO);
    (void)alarm(seconds); /* it outlives what follows */
    (void)execve(argv[0], (char *const *)(void *)argv, env);
    _exit(EXIT_NOT_RUN);
}

static void read_all(int in, struct buf *out)
{
    ssize_t n = 1;

    while (n > 0) {
        char *room = buf_reserve(out, PIECE);

        n = room == NULL ? 0 : read(in, room, PIECE); /* beyond the ceiling the rest is not wanted */
        if (n > 0)
            buf_commit(out, (size_t)n);
    }
}

bool command_output(const char *const argv[], unsigned seconds, struct buf *out, struct err *err)
{
    int ends[2];
    pid_t child;

    if (access(argv[0], X_OK) != 0 || pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, "%s: %s", argv[0], strerror(errno));
    child = fork();
    if (child == 0)
        become(argv, seconds, ends[1]);
    if (child < 0)
        (void)err_set(err, "%s: %s", argv[0], strerror(errno));
    close(ends[1]);
    if (child > 0)
        read_all(ends[0], out);
    close(ends[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return child > 0;
}
