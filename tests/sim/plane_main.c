/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/plane_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/tap.h"
#include "sim/sim_memory.h"

enum { STORY_SECONDS = 20 };

/* What survives a story that crashes. */
struct shared {
    uint64_t number; /* under way */
    bool skip[PLANE_MAIN_STEPS];
};

#ifdef MVPROXY_SANITIZED
/* To remember who allocated takes a quarter of the time. ASAN_OPTIONS=malloc_context_size=30 tells it of one story. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "malloc_context_size=0";
}
#endif

static void quiet(void)
{
    (void)!freopen("/dev/null", "w", stdout);
    (void)!freopen("/dev/null", "w", stderr);
}

static void tell(const struct plane_main *m, struct plane *p, const struct shared *shared, bool say)
{
    static const struct itimerval most = {.it_value = {.tv_sec = STORY_SECONDS}};
    size_t blocks = sim_blocks();

    (void)setitimer(ITIMER_PROF, &most, NULL); /* of processor time: a process that is stopped does not hang */
    sim_clock_start();
    m->tell(p, shared->number, shared->skip, say);
    if (sim_blocks() != blocks)
        plane_fail(p, "%zd blocks of memory are left", (ssize_t)(sim_blocks() - blocks));
}

static bool run(const struct plane_main *m, struct shared *shared, uint64_t n, bool say, bool mute)
{
    pid_t pid;
    int status;

    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        struct plane *p = calloc(1, sizeof(*p));

        if (mute)
            quiet();
        log_set_stream(say ? stderr : fopen("/dev/null", "w"));
        log_set_verbosity(say ? 4 : 0);
        for (uint64_t i = 0; i < n; i++, shared->number++)
            tell(m, p, shared, say);
        (void)fflush(stdout);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool holds(const struct plane_main *m, struct shared *shared, bool say)
{
    uint64_t number = shared->number;
    bool held = run(m, shared, 1, say, !say);

    shared->number = number;
    return held;
}

static void explain(const struct plane_main *m, struct shared *shared)
{
    for (size_t i = 0; i < PLANE_MAIN_STEPS; i++) {
        shared->skip[i] = true;
        if (holds(m, shared, false))
            shared->skip[i] = false;
    }
    diag("number %llu, what it takes of it:", (unsigned long long)shared->number);
    if (holds(m, shared, true))
        diag("it holds when it is told: does something depend on more than its number?");
}

int plane_main(int argc, char **argv, const struct plane_main *m)
{
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *env = m->env != NULL ? getenv(m->env) : NULL;
    uint64_t first = m->first, n = env != NULL ? strtoull(env, NULL, 10) : m->n;
    bool say = false;

    if (shared == MAP_FAILED)
        tap_bail("mmap");
    for (int i = 1; i < argc; i++) {
        say |= strcmp(argv[i], "--tell") == 0;
        if (argv[i][0] == '-' && i + 1 < argc)
            first = strtoull(argv[++i], NULL, 10);
        else
            n = strtoull(argv[i], NULL, 10);
    }
    plane_prepare();
    shared->number = first;
    if (say)
        (void)ok(run(m, shared, 1, true, false), "story %llu", (unsigned long long)first);
    else if (!ok(run(m, shared, n, false, false), "%llu stories from number %llu on", (unsigned long long)n,
                 (unsigned long long)first))
        explain(m, shared);
    plane_unprepare();
    return tap_end();
}
