/* SPDX-License-Identifier: Apache-2.0 */
/* The health endpoints, byte for byte as kube-apiserver has them. */
#include "admin/health.h"

#include <stdlib.h>

#include "base/log.h"
#include "lib/tap.h"

enum { TEXT_BYTES = 1 << 16 };

static bool check(void *arg, struct err *why)
{
    const char *reason = *(const char **)arg;

    return reason == NULL || err_set(why, "%s", reason);
}

static void expect(struct health *h, const char *path, const char *query, unsigned status, const char *body)
{
    struct buf out;

    buf_init(&out, TEXT_BYTES);
    is_int(health_answer(h, slice_str(path), slice_str(query), &out), status, "%s?%s: status", path, query);
    is_slice(buf_slice(&out), body, "%s?%s: body", path, query);
    buf_free(&out);
}

static double value(struct health *h, const char *name, const char *type)
{
    static const char *const labels[] = {"name", "type", NULL};
    struct slice values[] = {slice_str(name), slice_str(type)};

    return metric_value(
        metric_child(metric_family(health_slis(h), METRIC_GAUGE, "kubernetes_healthcheck", "", labels, 10), values));
}

static void test_answers(struct health *h, const char **sync)
{
    expect(h, "/readyz", "", 200, "ok");
    expect(h, "/livez", "", 200, "ok");
    expect(h, "/healthz", "timeout=32s", 200, "ok");
    expect(h, "/readyz", "verbose", 200, "[+]ping ok\n[+]sync ok\n[+]shutdown ok\nreadyz check passed\n");
    expect(h, "/livez", "verbose=1", 200, "[+]ping ok\nlivez check passed\n");
    expect(h, "/healthz", "verbose", 200, "[+]ping ok\n[+]sync ok\nhealthz check passed\n");
    expect(h, "/readyz", "verbose&exclude=sync", 200,
           "[+]ping ok\n[+]sync excluded: ok\n[+]shutdown ok\nreadyz check passed\n");
    expect(h, "/readyz/sync", "", 200, "ok");
    expect(h, "/livez/sync", "", 404, "404 page not found\n");
    expect(h, "/readyz/nothing", "", 404, "404 page not found\n");
    expect(h, "/nothing", "", 404, "404 page not found\n");
    is_double(value(h, "sync", "readyz"), 1, "the last result is kept");
    *sync = "leases not listed";
    expect(h, "/readyz", "", 500,
           "[+]ping ok\n[-]sync failed: reason withheld, see mvproxyctl status or /readyz/sync\n[+]shutdown ok\nreadyz "
           "check failed\n");
    expect(h, "/readyz", "verbose", 500,
           "[+]ping ok\n[-]sync failed: reason withheld, see mvproxyctl status or /readyz/sync\n[+]shutdown ok\nreadyz "
           "check failed\n");
    expect(h, "/livez", "", 200, "ok");
    expect(h, "/readyz", "exclude=sync", 200, "ok");
    expect(h, "/readyz/sync", "", 500, "internal server error: leases not listed\n");
    is_double(value(h, "sync", "readyz"), 0, "the last result is kept");
}

static void test_exclude(struct health *h)
{
    expect(h, "/livez", "verbose&exclude=zzz&exclude=ping&exclude=aaa&exclude=zzz", 200,
           "[+]ping excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"aaa\", \"zzz\"\nlivez "
           "check "
           "passed\n");
    expect(h, "/livez", "verbose&exclude=p%69ng", 200, "[+]ping excluded: ok\nlivez check passed\n");
    expect(h, "/livez", "verbose&exclude=%zz&exclude=a%22b", 200,
           "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for \"a\\\"b\"\nlivez check passed\n");
    expect(h, "/livez", "exclude=ping;verbose", 200, "ok");
}

static void test_log(struct health *h, const char **sync)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct buf out;

    *sync = "the reason";
    log_set_stream(f);
    log_set_verbosity(2);
    buf_init(&out, TEXT_BYTES);
    health_answer(h, SLICE_LIT("/readyz"), SLICE_NONE, &out);
    fflush(f);
    ok(strstr(text, "the reason") != NULL, "the reason is in the log");
    ok(memmem(buf_slice(&out).p, buf_len(&out), "the reason", 10) == NULL, "and not in the answer");
    log_set_stream(stderr);
    fclose(f);
    free(text);
    buf_free(&out);
}

static void test_paths(void)
{
    static const struct {
        const char *path;
        bool ours, open;
    } rows[] = {
        {"/readyz", true, true},
        {"/livez", true, true},
        {"/healthz", true, true},
        {"/readyz/ping", true, false},
        {"/healthz/ping", true, false},
        {"/metrics", false, false},
        {"/", false, false},
        {"", false, false},
        {"readyz", false, false},
        {"/readyzz", false, false},
        {"/Readyz", false, false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        ok(health_is_path(slice_str(rows[i].path)) == rows[i].ours, "%s: %sours", rows[i].path,
           rows[i].ours ? "" : "not ");
        ok(health_is_public(slice_str(rows[i].path)) == rows[i].open, "%s: %spublic", rows[i].path,
           rows[i].open ? "" : "not ");
    }
}

int main(void)
{
    struct health *h = health_new();
    const char *sync = NULL, *shutdown = NULL;

    health_add(h, HEALTH_READYZ | HEALTH_HEALTHZ, "sync", check, &sync);
    health_add(h, HEALTH_READYZ, "shutdown", check, &shutdown);
    test_answers(h, &sync);
    test_exclude(h);
    test_log(h, &sync);
    test_paths();
    health_free(h);
    return tap_end();
}
