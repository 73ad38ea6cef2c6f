/* SPDX-License-Identifier: Apache-2.0 */
/* The exposition formats, byte for byte, and how one is chosen. */
#include "admin/metrics_text.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "admin/process_metrics.h"
#include "lib/tap.h"

enum { TEXT_BYTES = 1 << 16, MORE_FDS = 40, NO_CHROOT = 99 };

static const char *const one[] = {"code", NULL};
static const char *const two[] = {"code", "name", NULL};

static struct metrics *sample(void)
{
    static const double bounds[] = {0.5, 1, 2.5};
    struct metrics *m = metrics_new();
    struct slice v = SLICE_LIT("200"), odd[] = {SLICE_LIT("404"), SLICE_LIT("a\"b\\c\nd\xff")};
    struct metric *h = metric_child(metric_histogram_family(m, "b_seconds", "Time.", one, bounds, 3), &v);

    metric_add(metric_single(m, METRIC_COUNTER, "a_total", "All \\ of\nit."), 3);
    metric_observe(h, 0.25);
    metric_observe(h, 1);
    metric_observe(h, 7);
    metric_add(metric_child(metric_family(m, METRIC_COUNTER, "c_total", "See.", two, 10), odd), 1.5);
    metric_set(metric_single(m, METRIC_GAUGE, "d", "Gauge."), -INFINITY);
    metric_inc(metric_single(m, METRIC_COUNTER, "e", "No suffix."));
    return m;
}

/* Names of servers are what Leases say. Each value is another series, whatever is in it: two equal ones would spoil the
 * scrape. */
static void test_unprintable(void)
{
    static const struct {
        const char *value, *written;
    } rows[] = {
        {"a\x1b]0;b\x07", "{code=\"a\\\\u001b]0;b\\\\u0007\"}"},
        {"a\r\xc2\x9b", "{code=\"a\\\\u000d\\\\u009b\"}"},
        {"\xe2\x80\xae", "{code=\"\\\\u202e\"}"},
        {"\\u202e", "{code=\"\\\\u005cu202e\"}"},
        {"\\\\x", "{code=\"\\\\\\\\x\"}"},
        {"\xc3\xa9\t", "{code=\"\xc3\xa9\\\\u0009\"}"},
    };
    struct metrics *m = metrics_new();
    struct metric_family *f = metric_family(m, METRIC_COUNTER, "f_total", "See.", one, 10);
    struct buf out;

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct slice value = slice_str(rows[i].value);

        metric_inc(metric_child(f, &value));
    }
    buf_init(&out, TEXT_BYTES);
    ok(metrics_text_write(&out, m, METRICS_PROMETHEUS), "written");
    for (size_t i = 0; i < ROWS(rows); i++)
        ok(memmem(buf_slice(&out).p, buf_len(&out), rows[i].written, strlen(rows[i].written)) != NULL, "%s",
           rows[i].written);
    buf_free(&out);
    metrics_free(m);
}

static void test_formats(void)
{
    struct metrics *m = sample();
    struct buf out;

    buf_init(&out, TEXT_BYTES);
    ok(metrics_text_write(&out, m, METRICS_PROMETHEUS), "Prometheus");
    is_slice(buf_slice(&out),
             "# HELP a_total All \\\\ of\\nit.\n# TYPE a_total counter\na_total 3\n"
             "# HELP b_seconds Time.\n# TYPE b_seconds histogram\n"
             "b_seconds_bucket{code=\"200\",le=\"0.5\"} 1\nb_seconds_bucket{code=\"200\",le=\"1\"} 2\n"
             "b_seconds_bucket{code=\"200\",le=\"2.5\"} 2\nb_seconds_bucket{code=\"200\",le=\"+Inf\"} 3\n"
             "b_seconds_sum{code=\"200\"} 8.25\nb_seconds_count{code=\"200\"} 3\n"
             "# HELP c_total See.\n# TYPE c_total counter\n"
             "c_total{code=\"404\",name=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\"} 1.5\n"
             "# HELP d Gauge.\n# TYPE d gauge\nd -Inf\n"
             "# HELP e No suffix.\n# TYPE e counter\ne 1\n",
             "is what it must be");
    buf_reset(&out);
    ok(metrics_text_write(&out, m, METRICS_OPENMETRICS), "OpenMetrics");
    is_slice(buf_slice(&out),
             "# HELP a All \\\\ of\\nit.\n# TYPE a counter\na_total 3\n"
             "# HELP b_seconds Time.\n# TYPE b_seconds histogram\n"
             "b_seconds_bucket{code=\"200\",le=\"0.5\"} 1\nb_seconds_bucket{code=\"200\",le=\"1.0\"} 2\n"
             "b_seconds_bucket{code=\"200\",le=\"2.5\"} 2\nb_seconds_bucket{code=\"200\",le=\"+Inf\"} 3\n"
             "b_seconds_sum{code=\"200\"} 8.25\nb_seconds_count{code=\"200\"} 3\n"
             "# HELP c See.\n# TYPE c counter\n"
             "c_total{code=\"404\",name=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\"} 1.5\n"
             "# HELP d Gauge.\n# TYPE d gauge\nd -Inf\n"
             "# HELP e No suffix.\n# TYPE e counter\ne_total 1\n# EOF\n",
             "is what it must be");
    buf_free(&out);
    buf_init(&out, 20);
    ok(!metrics_text_write(&out, m, METRICS_PROMETHEUS), "no room is an error");
    buf_free(&out);
    metrics_free(m);
}

static void test_numbers(void)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {1e15, "1e+15"},
        {123456789, "123456789"},
        {0.1, "0.1"},
        {1.0 / 3, "0.333333333333333"},
        {1e100, "1e+100"},
        {INFINITY, "+Inf"},
        {NAN, "NaN"},
        {-2.5, "-2.5"},
        {1700000000.123, "1700000000.123"},
        {9007199254740993.0, "9007199254740992"},
    };
    struct buf out;
    char want[128];

    buf_init(&out, TEXT_BYTES);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct metrics *m = metrics_new();
        struct slice line;

        metric_set(metric_single(m, METRIC_GAUGE, "g", "h"), rows[i].value);
        buf_reset(&out);
        metrics_text_write(&out, m, METRICS_PROMETHEUS);
        line = slice_from(buf_slice(&out), sizeof("# HELP g h\n# TYPE g gauge\n") - 1);
        snprintf(want, sizeof(want), "g %s\n", rows[i].text);
        if (i == 4)
            ok(slice_has_prefix(line, slice_str("g 0.3333333333333333")), "a third, to the last digit that counts");
        else
            is_slice(line, want, "%s", rows[i].text);
        metrics_free(m);
    }
    buf_free(&out);
}

static void test_bounds(void)
{
    static const double bounds[] = {0.5, 604800, 2592000, 31104000};
    static const char *const texts[] = {"le=\"0.5\"", "le=\"604800\"", "le=\"2.592e+06\"", "le=\"3.1104e+07\"",
                                        "le=\"+Inf\""};
    struct metrics *m = metrics_new();
    struct buf out;

    buf_init(&out, TEXT_BYTES);
    metric_observe(metric_child(metric_histogram_family(m, "h", "Histogram.", NULL, bounds, ROWS(bounds)), NULL), 1);
    metrics_text_write(&out, m, METRICS_PROMETHEUS);
    buf_append_char(&out, '\0');
    for (size_t i = 0; i < ROWS(texts); i++)
        ok(strstr(buf_slice(&out).p, texts[i]) != NULL, "a bound as Go writes it: %s", texts[i]);
    buf_free(&out);
    metrics_free(m);
}

/* What was asked for is what is said and what is written. */
static void test_openmetrics_versions(void)
{
    struct metrics *m = metrics_new();
    struct buf newer, older;

    buf_init(&newer, TEXT_BYTES);
    buf_init(&older, TEXT_BYTES);
    metric_add(metric_single(m, METRIC_COUNTER, "a_total", "It."), 3);
    ok(metrics_text_write(&newer, m, METRICS_OPENMETRICS) && metrics_text_write(&older, m, METRICS_OPENMETRICS_0_0_1),
       "both versions of OpenMetrics");
    is_slice(buf_slice(&older), "# HELP a It.\n# TYPE a counter\na_total 3\n# EOF\n", "0.0.1");
    ok(slice_eq(buf_slice(&older), buf_slice(&newer)), "1.0.0 is the same text");
    is_str(metrics_text_content_type(METRICS_OPENMETRICS_0_0_1),
           "application/openmetrics-text; version=0.0.1; charset=utf-8", "of a type of its own");
    buf_free(&newer);
    buf_free(&older);
    metrics_free(m);
}

static void test_negotiation(void)
{
    static const struct {
        const char *accept;
        enum metrics_format want;
    } rows[] = {
        {"", METRICS_PROMETHEUS},
        {"*/*", METRICS_PROMETHEUS},
        {"text/plain", METRICS_PROMETHEUS},
        {"application/openmetrics-text", METRICS_OPENMETRICS},
        {"application/openmetrics-text; version=1.0.0", METRICS_OPENMETRICS},
        {"application/openmetrics-text; version=\"0.0.1\"", METRICS_OPENMETRICS_0_0_1},
        {"application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         METRICS_OPENMETRICS_0_0_1},
        {"application/openmetrics-text;version=0.0.1;q=0.5,application/openmetrics-text;version=1.0.0;q=0.6",
         METRICS_OPENMETRICS},
        {"application/openmetrics-text;version=0.0.1;q=0.6,application/openmetrics-text;q=0.6",
         METRICS_OPENMETRICS_0_0_1},
        {"application/openmetrics-text; version=2.0.0", METRICS_PROMETHEUS},
        {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
         METRICS_OPENMETRICS},
        {"application/openmetrics-text;q=0.2,text/plain;q=0.3", METRICS_PROMETHEUS},
        {"application/openmetrics-text;q=0,text/plain;q=0.3", METRICS_PROMETHEUS},
        {"application/openmetrics-text;q=0", METRICS_PROMETHEUS},
        {"application/openmetrics-text;q=nonsense,*/*;q=0.001", METRICS_PROMETHEUS},
        {"application/json", METRICS_PROMETHEUS},
        {"text/html, application/openmetrics-text;q=1.000", METRICS_OPENMETRICS},
        {",,;;=", METRICS_PROMETHEUS},
    };

    for (size_t i = 0; i < ROWS(rows); i++)
        is_int(metrics_text_negotiate(slice_str(rows[i].accept)), rows[i].want, "Accept: %s", rows[i].accept);
}

static void test_encoding(void)
{
    static const struct {
        const char *accept;
        bool want;
    } rows[] = {
        {"", false},
        {"gzip", true},
        {"deflate, GZIP;q=0.5", true},
        {"gzip;q=0", false},
        {"gzip;q=0.000, br", false},
        {"br, gzip ; q=1.0", true},
        {"identity", false},
        {"xgzip", false},
        {"*", false},
        {";q=1,,=", false},
    };

    for (size_t i = 0; i < ROWS(rows); i++)
        is_int(metrics_text_accepts_gzip(slice_str(rows[i].accept)), rows[i].want, "Accept-Encoding: %s",
               rows[i].accept);
}

/* Seconds that this process has waited for a processor, which may be none at all; -1 where the kernel does not tell. */
static double waited(void)
{
    FILE *f = fopen("/proc/self/schedstat", "re"); /* nanoseconds that it ran, and waited */
    char text[128], *ns = NULL;

    if (f != NULL && fgets(text, sizeof(text), f) != NULL)
        ns = strchr(text, ' ');
    if (f != NULL)
        fclose(f);
    return ns == NULL ? -1 : (double)strtoull(ns, NULL, 10) / 1e9;
}

static double more_fds(struct metrics *m)
{
    struct metric *fds = metric_single(m, METRIC_GAUGE, "process_open_fds", "");
    double before = metric_value(fds), after;
    int opened[MORE_FDS];
    struct buf out;

    buf_init(&out, TEXT_BYTES);
    for (size_t i = 0; i < MORE_FDS; i++)
        opened[i] = dup(STDERR_FILENO);
    metrics_text_write(&out, m, METRICS_PROMETHEUS);
    after = metric_value(fds);
    for (size_t i = 0; i < MORE_FDS; i++)
        close(opened[i]);
    buf_free(&out);
    return after - before;
}

static void test_process(void)
{
    struct metrics *m = metrics_new();
    struct process_metrics *p = process_metrics_new(m, "1.2\"3");
    double before = waited(), counted;
    struct buf out;

    buf_init(&out, TEXT_BYTES);
    metrics_text_write(&out, m, METRICS_PROMETHEUS);
    metrics_text_write(&out, m, METRICS_PROMETHEUS);
    ok(memmem(buf_slice(&out).p, buf_len(&out), "mvproxy_build_info{version=\"1.2\\\"3\"", 35) != NULL, "build info");
    ok(metric_value(metric_single(m, METRIC_GAUGE, "process_open_fds", "")) >= 3, "descriptors");
    is_double(more_fds(m), MORE_FDS, "as many more as are opened");
    ok(metric_value(metric_single(m, METRIC_GAUGE, "process_threads", "")) >= 1, "threads");
    ok(metric_value(metric_single(m, METRIC_GAUGE, "process_resident_memory_bytes", "")) > 100000, "memory");
    ok(metric_value(metric_single(m, METRIC_GAUGE, "process_virtual_memory_bytes", "")) >
           metric_value(metric_single(m, METRIC_GAUGE, "process_resident_memory_bytes", "")),
       "more of it virtual");
    ok(metric_value(metric_single(m, METRIC_GAUGE, "process_start_time_seconds", "")) > 1.6e9, "start");
    ok(metric_value(metric_single(m, METRIC_COUNTER, "process_cpu_seconds_total", "")) > 0, "CPU");
    counted = metric_value(metric_single(m, METRIC_COUNTER, "mvproxy_schedstat_waiting_seconds_total", ""));
    ok(before < 0 || (counted >= before && counted <= waited()), "time without a processor");
    buf_free(&out);
    metrics_free(m);
    process_metrics_free(p);
}

/* In a child: what is exported with nothing in /proc. */
static int exported_wrongly(const char *root)
{
    static const char *const unknown[] = {"process_start_time_seconds", "process_threads",
                                          "process_virtual_memory_bytes", "process_resident_memory_bytes",
                                          "process_open_fds"};
    struct metrics *m;
    struct buf out;
    int wrong;

    if (chroot(root) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(root) != 0))
        return NO_CHROOT;
    m = metrics_new();
    (void)process_metrics_new(m, "1");
    buf_init(&out, TEXT_BYTES);
    metrics_text_write(&out, m, METRICS_PROMETHEUS);
    wrong = memmem(buf_slice(&out).p, buf_len(&out), "process_cpu_seconds_total", 25) == NULL;
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        wrong += memmem(buf_slice(&out).p, buf_len(&out), unknown[i], strlen(unknown[i])) != NULL;
    return wrong;
}

static void test_without_proc(void)
{
    char root[] = "/tmp/mvproxy-metrics-test-XXXXXX";
    int status = 0;
    pid_t child;

    if (mkdtemp(root) == NULL)
        tap_bail("mkdtemp");
    (void)fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(exported_wrongly(root));
    (void)waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_CHROOT)
        tap_skip("no other root to be had", "without /proc");
    else
        is_int(status, 0, "what /proc does not tell is not exported");
    (void)rmdir(root);
}

int main(void)
{
    test_formats();
    test_unprintable();
    test_numbers();
    test_bounds();
    test_openmetrics_versions();
    test_negotiation();
    test_encoding();
    test_process();
    test_without_proc();
    return tap_end();
}
