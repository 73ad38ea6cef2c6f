/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of certificates that end, and how often: under a clock of our own. */
#include "daemon/expiry.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/options.h"
#include "lib/folder.h"
#include "lib/tap.h"

enum { DAY = 86400 };

static const char *file(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *p = paths[next++ % 4];

    snprintf(p, sizeof(paths[0]), "%s/%s", folder(), name);
    return p;
}

/* A certificate that begins now and lives for so many days; when it ends. */
static int64_t make(const char *name, unsigned days)
{
    char command[1024];
    int64_t now = clock_wall_us() / 1000000;

    snprintf(
        command, sizeof(command),
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days %u -keyout /dev/null "
        "-out '%s' 2>/dev/null",
        days, file(name));
    if (system(command) != 0)
        tap_bail("openssl");
    return now + (int64_t)days * DAY;
}

/* The clock stands so many seconds before `end`. */
static void stand(int64_t end, int64_t left)
{
    clock_fake(1000000, (end - left) * 1000000);
}

struct said {
    char *text;
    size_t n;
    FILE *f;
};

static void listen(struct said *s)
{
    s->text = NULL;
    s->f = open_memstream(&s->text, &s->n);
    if (s->f == NULL)
        tap_bail("memory");
    log_set_stream(s->f);
}

static unsigned lines_with(struct said *s, const char *text)
{
    unsigned n = 0;

    fclose(s->f);
    log_set_stream(stderr);
    for (const char *p = s->text; (p = strstr(p, text)) != NULL; p++)
        n++;
    free(s->text);
    return n;
}

static unsigned says(struct expiry *e, const char *text)
{
    struct said s;

    listen(&s);
    expiry_check(e);
    return lines_with(&s, text);
}

static struct arena *arena; /* of all configurations */

static struct config config_of(const char *cert, const char *ca)
{
    struct config c = {.arena = arena};

    if (arena == NULL || !options_set_defaults(&c))
        tap_bail("memory");
    c.tls_cert_file = cert;
    c.client_ca_file = ca;
    return c;
}

static void note_soon(const struct expiry_entry *entry, void *arg)
{
    *(bool *)arg = entry->soon;
}

static bool soon_among(struct expiry *e)
{
    bool soon = false;

    expiry_each(e, note_soon, &soon);
    return soon;
}

static void test_year(void)
{
    struct metrics *m = metrics_new();
    struct expiry *e = expiry_new(m);
    int64_t end = make("year.crt", 365);
    struct config c = config_of(file("year.crt"), "");
    struct expiry_entry over;
    char when[CLOCK_RFC3339_BYTES];
    struct said s;

    stand(end, 31 * DAY);
    listen(&s);
    expiry_read(e, &c);
    is_u64(lines_with(&s, "Certificate"), 0, "31 days before: nothing");
    ok(!soon_among(e), "nor to be renewed");
    stand(end, 29 * DAY);
    is_u64(says(e, "will expire"), 1, "29 days before: said");
    is_u64(says(e, "will expire"), 0, "once");
    stand(end, 20 * DAY);
    is_u64(says(e, "will expire"), 0, "and not every day");
    stand(end, 6 * DAY);
    is_u64(says(e, "will expire"), 1, "6 days before: said");
    stand(end, 6 * DAY - 3600);
    is_u64(says(e, "will expire"), 0, "not every hour");
    stand(end, 5 * DAY);
    is_u64(says(e, "hoursLeft=1"), 1, "but every day, with what is left (119 or 120 hours)");
    listen(&s);
    expiry_read(e, &c);
    is_u64(lines_with(&s, "will expire"), 0, "reading the same file again is no news");
    ok(!expiry_is_over(e, "tls-cert-file", &over), "not over");
    ok(soon_among(e), "to be renewed");
    stand(end, -60);
    ok(expiry_is_over(e, "tls-cert-file", &over), "over");
    clock_rfc3339(over.not_after * 1000000, when);
    is_u64(says(e, when), 1, "said, with the date %s", when);
    is_str(over.path, file("year.crt"), "which file");
    ok(over.not_after >= end && over.not_after < end + 60, "since when");
    ok(!expiry_is_over(e, "client-ca-file", &over), "of that option only");
    is_u64(says(e, "has expired"), 0, "once");
    stand(end, -DAY - 60);
    is_u64(says(e, "has expired"), 1, "and every day");
    clock_real();
    expiry_free(e);
    metrics_free(m);
}

static void test_renewed(void)
{
    struct metrics *m = metrics_new();
    struct expiry *e = expiry_new(m);
    int64_t end = make("renewed.crt", 100), next;
    struct config c = config_of(file("renewed.crt"), "");

    expiry_read(e, &c);
    stand(end, 3 * DAY);
    is_u64(says(e, "will expire"), 1, "3 days before: said");
    clock_real();
    next = make("renewed.crt", 400);
    expiry_read(e, &c);
    stand(end, DAY);
    is_u64(says(e, "Certificate"), 0, "a new one in its place: nothing");
    stand(next, 2 * DAY);
    is_u64(says(e, "will expire"), 1, "until that one ends");
    clock_real();
    expiry_free(e);
    metrics_free(m);
}

/* What lives for a day is renewed by a machine: thirty days, or seven, are no measure for it. */
static void test_short_life(void)
{
    struct metrics *m = metrics_new();
    struct expiry *e = expiry_new(m);
    int64_t end = make("day.crt", 1);
    struct config c = config_of("", file("day.crt"));

    expiry_read(e, &c);
    stand(end, DAY / 2);
    is_u64(says(e, "Certificate"), 0, "half a day before: nothing");
    stand(end, DAY / 5);
    is_u64(says(e, "option=\"client-ca-file\""), 1, "in the last quarter: said, with its option");
    clock_real();
    expiry_free(e);
    metrics_free(m);
}

/* What a backup that is put back has in it; where both are over, the file counts. */
static void test_would_end(void)
{
    struct metrics *m = metrics_new();
    struct expiry *e = expiry_new(m);
    int64_t end = make("young.crt", 10), later;
    struct config c = config_of(file("young.crt"), file("young.crt"));
    struct buf errors;

    buf_init(&errors, 1 << 16);
    later = make("young.crt", 100);
    expiry_read(e, &c); /* ends later */
    (void)make("young.crt", 10);
    stand(end, DAY);
    ok(!expiry_would_end(e, &c, &errors), "it ends sooner, and is valid: taken");
    stand(end, -DAY);
    ok(expiry_would_end(e, &c, &errors), "it is over: not taken");
    ok(slice_has_prefix(buf_slice(&errors), slice_str(file("young.crt"))), "the file is named");
    is_u64(slice_index(buf_slice(&errors), '\n') * 2 + 2, buf_len(&errors), "for each of both: CAs are as dear");
    stand(later, -DAY);
    ok(!expiry_would_end(e, &c, &errors), "both are over: taken");
    stand(end, 11 * DAY);
    ok(!expiry_would_end(e, &c, &errors), "neither is valid yet: taken");
    clock_real();
    buf_free(&errors);
    expiry_free(e);
    metrics_free(m);
}

static int64_t end_among_metrics, life_among_metrics;

static void find(const struct metric_view *v, void *arg)
{
    (void)arg;
    if (strcmp(v->name, "mvproxy_certificate_not_after_seconds") == 0 &&
        slice_eq(v->label_values[0], SLICE_LIT("tls-cert-file")))
        end_among_metrics = (int64_t)v->value;
    if (strcmp(v->name, "mvproxy_certificate_lifetime_seconds") == 0)
        life_among_metrics = (int64_t)v->value;
}

static void test_metric(void)
{
    struct metrics *m = metrics_new();
    struct expiry *e = expiry_new(m);
    int64_t end = make("metric.crt", 10);
    struct config c = config_of(file("metric.crt"), file("no-such.crt"));

    expiry_read(e, &c);
    metrics_walk(m, find, NULL);
    ok(end_among_metrics >= end && end_among_metrics < end + 60, "notAfter is a metric");
    is_u64((uint64_t)life_among_metrics, 10 * DAY, "and how long it lives");
    expiry_free(e);
    metrics_free(m);
}

int main(void)
{
    arena = arena_new(1 << 20);
    test_year();
    test_renewed();
    test_short_life();
    test_would_end();
    test_metric();
    arena_free(arena);
    return tap_end();
}
