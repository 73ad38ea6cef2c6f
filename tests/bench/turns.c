/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the turns of a program's event loop take, measured from outside: preloaded, it stands before epoll_wait().
 * A turn is what happens between two of these calls. Beside the clock it reads the CPU time of the thread, which does
 * not count what other processes do meanwhile.
 *
 *   LD_PRELOAD=.../turns.so TURNS_FILE=/tmp/turns mvproxy ...
 *
 * The file holds four 64-bit numbers: turns, how many of them took over 10 ms of CPU time, the longest in microseconds
 * of CPU time, the longest by the clock. Whoever looks may set them to zero.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LONG_US = 10000 };

typedef int epoll_wait_fn(int, struct epoll_event *, int, int);

struct told {
    uint64_t turns, over, longest_cpu_us, longest_us;
};

static struct told *told;
static epoll_wait_fn *real;

static uint64_t now_us(clockid_t which)
{
    struct timespec t;

    (void)clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TURNS_FILE");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map;

    /* POSIX lets a function pointer come out of dlsym() in no other way. */
    *(void **)&real = dlsym(RTLD_NEXT, "epoll_wait");
    if (real == NULL)
        abort();
    if (fd < 0 || ftruncate(fd, sizeof(*told)) != 0)
        return;
    map = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        told = map;
    (void)close(fd);
}

static void tell(uint64_t cpu_us, uint64_t us)
{
    told->turns++;
    told->over += cpu_us > LONG_US;
    if (told->longest_cpu_us < cpu_us)
        told->longest_cpu_us = cpu_us;
    if (told->longest_us < us)
        told->longest_us = us;
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
    static uint64_t cpu_since, since;
    int got;

    if (told != NULL && since > 0)
        tell(now_us(CLOCK_THREAD_CPUTIME_ID) - cpu_since, now_us(CLOCK_MONOTONIC) - since);
    got = real(fd, events, n, timeout);
    cpu_since = now_us(CLOCK_THREAD_CPUTIME_ID);
    since = now_us(CLOCK_MONOTONIC);
    return got;
}
