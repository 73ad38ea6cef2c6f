/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/process_metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { LOOK_US = 1000 };

struct process_metrics {
    DIR *fds; /* is being read; NULL: it is not */
    double n_fds;
    struct metric *cpu, *waiting, *resident, *virtual, *open_fds, *max_fds, *threads, *log_dropped;
};

static double seconds_of(struct timeval tv)
{
    return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

/* proc(5): the fields of /proc/self/stat from the fourth on. The second, a name in parentheses, may hold anything. */
static bool read_stat(unsigned long long *fields, size_t n)
{
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "re");
    size_t got;
    char *p;

    if (f == NULL)
        return false;
    got = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[got] = '\0';
    p = strrchr(text, ')');
    if (p == NULL || p[1] == '\0')
        return false;
    p += 3; /* the state, one letter, is field 3 */
    for (size_t i = 0; i < n; i++)
        fields[i] = strtoull(p + 1, &p, 10);
    return true;
}

/* Seconds that the process was runnable and had no processor (Documentation/scheduler/sched-stats.rst); negative: the
 * kernel does not tell. */
static double read_waiting(void)
{
    FILE *f = fopen("/proc/self/schedstat", "re"); /* nanoseconds that it ran, and waited */
    char text[128], *waited = NULL;

    if (f != NULL && fgets(text, sizeof(text), f) != NULL)
        waited = strchr(text, ' ');
    if (f != NULL)
        fclose(f);
    return waited == NULL ? -1 : (double)strtoull(waited, NULL, 10) / 1e9;
}

/* What /proc alone tells is not there until it has told it: 0 would be a fact. Where it does not once, as without a
 * descriptor to spare, what was last counts. */
static void set_known(struct metric *m, double value)
{
    metric_set(m, value);
    metric_show(m, true);
}

/*
 * Linux tells their number as the folder's size since 6.2. Before it they have to be read one by one, a microsecond
 * each: of many thousands only a part is in one turn, and the next exposition goes on.
 */
static void count_fds(struct process_metrics *p)
{
    uint64_t end = clock_us() + LOOK_US;
    struct stat st;

    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0) {
        set_known(p->open_fds, (double)st.st_size);
        return;
    }
    if (p->fds == NULL) {
        p->fds = opendir("/proc/self/fd");
        p->n_fds = -3; /* ".", ".." and the folder itself */
    }
    while (p->fds != NULL && clock_us() < end) {
        if (readdir(p->fds) != NULL) {
            p->n_fds++;
            continue;
        }
        closedir(p->fds);
        p->fds = NULL;
        set_known(p->open_fds, p->n_fds);
    }
}

static void collect(void *arg)
{
    enum { FIELD_THREADS = 20 - 4, FIELD_VSIZE = 23 - 4, FIELD_RSS = 24 - 4, FIELDS };
    struct process_metrics *p = arg;
    unsigned long long fields[FIELDS];
    double waiting = read_waiting();
    struct rusage usage;
    struct rlimit limit;

    if (getrusage(RUSAGE_SELF, &usage) == 0)
        metric_add(p->cpu, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime) - metric_value(p->cpu));
    metric_show(p->waiting, waiting >= 0);
    if (waiting >= 0)
        metric_add(p->waiting, waiting - metric_value(p->waiting));
    if (read_stat(fields, FIELDS)) {
        set_known(p->threads, (double)fields[FIELD_THREADS]);
        set_known(p->virtual, (double)fields[FIELD_VSIZE]);
        set_known(p->resident, (double)fields[FIELD_RSS] * (double)sysconf(_SC_PAGESIZE));
    }
    count_fds(p);
    metric_add(p->log_dropped, (double)log_dropped() - metric_value(p->log_dropped));
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metric_set(p->max_fds, (double)limit.rlim_cur);
}

/* Seconds since 1970: boot time plus field 22, in ticks since then. 0: /proc does not tell. */
static double start_time(void)
{
    enum { FIELD_STARTTIME = 22 - 4, FIELDS };
    unsigned long long fields[FIELDS];
    struct timespec wall, boot;

    if (!read_stat(fields, FIELDS) || clock_gettime(CLOCK_REALTIME, &wall) != 0 ||
        clock_gettime(CLOCK_BOOTTIME, &boot) != 0)
        return 0;
    return (double)wall.tv_sec - (double)boot.tv_sec + (double)(wall.tv_nsec - boot.tv_nsec) / 1e9 +
           (double)fields[FIELD_STARTTIME] / (double)sysconf(_SC_CLK_TCK);
}

static void declare_build_info(struct metrics *m, const char *version)
{
    static const char *const labels[] = {"version", "compiler", NULL};
    struct slice values[] = {slice_str(version), SLICE_LIT(__VERSION__)};

    metric_set(metric_child(metric_family(m, METRIC_GAUGE, "mvproxy_build_info",
                                          "Always 1; the labels say what is running.", labels, 1),
                            values),
               1);
}

void process_metrics_start_time(struct metrics *m)
{
    struct metric *start =
        metric_single(m, METRIC_GAUGE, "process_start_time_seconds", "Start of the process, seconds since 1970.");
    double at = start_time();

    metric_set(start, at);
    metric_show(start, at > 0);
}

struct process_metrics *process_metrics_new(struct metrics *m, const char *version)
{
    struct process_metrics *p = must_zalloc(sizeof(*p));

    p->cpu = metric_single(m, METRIC_COUNTER, "process_cpu_seconds_total", "CPU time used, user and system.");
    p->waiting = metric_single(m, METRIC_COUNTER, "mvproxy_schedstat_waiting_seconds_total",
                               "Time that the process could have run and had no processor.");
    p->threads = metric_single(m, METRIC_GAUGE, "process_threads", "Threads of the process.");
    p->virtual = metric_single(m, METRIC_GAUGE, "process_virtual_memory_bytes", "Virtual memory.");
    p->resident = metric_single(m, METRIC_GAUGE, "process_resident_memory_bytes", "Resident memory.");
    p->open_fds = metric_single(m, METRIC_GAUGE, "process_open_fds", "Open file descriptors.");
    metric_show(p->threads, false);
    metric_show(p->virtual, false);
    metric_show(p->resident, false);
    metric_show(p->open_fds, false);
    p->max_fds = metric_single(m, METRIC_GAUGE, "process_max_fds", "Most file descriptors that may be open.");
    p->log_dropped = metric_single(m, METRIC_COUNTER, "mvproxy_log_lines_dropped_total",
                                   "Lines of the log that nobody took in time, or that could not be written.");
    process_metrics_start_time(m);
    declare_build_info(m, version);
    metrics_on_collect(m, collect, p);
    return p;
}

void process_metrics_free(struct process_metrics *p)
{
    if (p->fds != NULL)
        closedir(p->fds);
    mem_free(p);
}
