/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>

enum { US_PER_S = 1000000 };

/* Written by tests only. */
static struct {
    bool on;
    uint64_t monotonic_us;
    int64_t wall_us;
} fake;

void clock_fake(uint64_t monotonic_us, int64_t wall_us)
{
    fake.on = true;
    fake.monotonic_us = monotonic_us;
    fake.wall_us = wall_us;
}

void clock_real(void)
{
    fake.on = false;
}

static int64_t now_us(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

uint64_t clock_us(void)
{
    return fake.on ? fake.monotonic_us : (uint64_t)now_us(CLOCK_MONOTONIC);
}

uint64_t clock_ms(void)
{
    return clock_us() / 1000;
}

int64_t clock_wall_us(void)
{
    return fake.on ? fake.wall_us : now_us(CLOCK_REALTIME);
}

/* ---- RFC 3339 ---- */

void clock_rfc3339(int64_t wall_us, char out[CLOCK_RFC3339_BYTES])
{
    int64_t us = wall_us % US_PER_S;
    time_t s = (time_t)(wall_us / US_PER_S);
    struct tm tm = {0};

    if (us < 0) {
        us += US_PER_S;
        s--;
    }
    gmtime_r(&s, &tm);
    /* The form has four digits for the year; nothing beyond it can be said. */
    snprintf(out, CLOCK_RFC3339_BYTES, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ", (unsigned)(tm.tm_year + 1900) % 10000u,
             (unsigned)(tm.tm_mon + 1) % 100u, (unsigned)tm.tm_mday % 100u, (unsigned)tm.tm_hour % 100u,
             (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u, (unsigned)us % US_PER_S);
}

/* n digits at the front of *s as a number, which must not exceed max; cut off. */
static bool take_digits(struct slice *s, size_t n, int max, int *out)
{
    uint64_t v;

    if (s->n < n || !slice_u64(slice_of(s->p, n), &v) || v > (uint64_t)max)
        return false;
    *out = (int)v;
    *s = slice_of(s->p + n, s->n - n);
    return true;
}

static bool take_char(struct slice *s, char c)
{
    if (s->n == 0 || s->p[0] != c)
        return false;
    *s = slice_of(s->p + 1, s->n - 1);
    return true;
}

static size_t leading_digits(struct slice s)
{
    size_t n = 0;

    while (n < s.n && s.p[n] >= '0' && s.p[n] <= '9')
        n++;
    return n;
}

/* An optional ".ddd" in microseconds; digits below those are dropped. */
static bool take_fraction(struct slice *s, int64_t *us)
{
    size_t n;
    int64_t scale = US_PER_S;

    *us = 0;
    if (!take_char(s, '.'))
        return true;
    n = leading_digits(*s);
    for (size_t i = 0; i < n && scale > 1; i++) {
        scale /= 10;
        *us += (s->p[i] - '0') * scale;
    }
    *s = slice_of(s->p + n, s->n - n);
    return n > 0;
}

/* "Z" or "+hh:mm", in seconds. */
static bool take_offset(struct slice *s, int64_t *seconds)
{
    int h, m;
    bool east;

    *seconds = 0;
    if (take_char(s, 'Z'))
        return true;
    east = take_char(s, '+');
    if (!east && !take_char(s, '-'))
        return false;
    if (!take_digits(s, 2, 23, &h) || !take_char(s, ':') || !take_digits(s, 2, 59, &m))
        return false;
    *seconds = (east ? 1 : -1) * (h * 3600 + m * 60);
    return true;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap);
}

bool clock_parse_rfc3339(struct slice s, int64_t *wall_us)
{
    int year, month;
    struct tm tm = {0};
    int64_t us, offset;

    if (!take_digits(&s, 4, 9999, &year) || !take_char(&s, '-') || !take_digits(&s, 2, 12, &month) ||
        !take_char(&s, '-') || !take_digits(&s, 2, 31, &tm.tm_mday) || !take_char(&s, 'T'))
        return false;
    if (month < 1 || tm.tm_mday < 1 || tm.tm_mday > days_in(year, month))
        return false;
    if (!take_digits(&s, 2, 23, &tm.tm_hour) || !take_char(&s, ':') || !take_digits(&s, 2, 59, &tm.tm_min) ||
        !take_char(&s, ':') || !take_digits(&s, 2, 59, &tm.tm_sec))
        return false;
    if (!take_fraction(&s, &us) || !take_offset(&s, &offset) || s.n != 0)
        return false;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    *wall_us = ((int64_t)timegm(&tm) - offset) * US_PER_S + us;
    return true;
}

/* ---- durations ---- */

static const struct {
    const char *name;
    uint64_t ns;
} units[] = {
    {"ns", 1},       {"us", 1000},      {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
    {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000},
};

/* The unit is everything up to the next digit or point. */
static bool take_unit(struct slice *s, uint64_t *ns)
{
    size_t n = 0;

    while (n < s->n && s->p[n] != '.' && (s->p[n] < '0' || s->p[n] > '9'))
        n++;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (slice_eq(slice_of(s->p, n), slice_str(units[i].name))) {
            *ns = units[i].ns;
            *s = slice_of(s->p + n, s->n - n);
            return true;
        }
    }
    return false;
}

/* One "12.5ms" in nanoseconds. */
static bool take_term(struct slice *s, uint64_t *ns)
{
    struct slice whole = slice_of(s->p, leading_digits(*s)), fraction = SLICE_NONE;
    uint64_t unit, part, v = 0, f = 0, scale = 1;

    *s = slice_of(s->p + whole.n, s->n - whole.n);
    if (take_char(s, '.')) {
        fraction = slice_of(s->p, leading_digits(*s));
        *s = slice_of(s->p + fraction.n, s->n - fraction.n);
    }
    if (whole.n + fraction.n == 0 || fraction.n > 18 || (whole.n > 0 && !slice_u64(whole, &v)) ||
        (fraction.n > 0 && !slice_u64(fraction, &f)) || !take_unit(s, &unit))
        return false;
    for (size_t i = 0; i < fraction.n; i++)
        scale *= 10;
    part = (uint64_t)((unsigned __int128)f * unit / scale);
    return !__builtin_mul_overflow(v, unit, ns) && !__builtin_add_overflow(*ns, part, ns);
}

bool clock_parse_duration(struct slice s, uint64_t *ms)
{
    uint64_t total = 0, term;

    if (slice_eq(s, SLICE_LIT("0"))) {
        *ms = 0;
        return true;
    }
    if (s.n == 0)
        return false;
    while (s.n > 0) {
        if (!take_term(&s, &term) || __builtin_add_overflow(total, term, &total))
            return false;
    }
    if (total > INT64_MAX || total % 1000000 != 0)
        return false;
    *ms = total / 1000000;
    return true;
}

void clock_format_duration(uint64_t ms, char out[32])
{
    uint64_t s = ms / 1000;
    unsigned rest = (unsigned)(ms % 1000);
    char fraction[8] = "";

    if (s == 0 && rest > 0) {
        snprintf(out, 32, "%ums", rest);
        return;
    }
    if (rest > 0) {
        snprintf(fraction, sizeof(fraction), ".%03u", rest);
        for (size_t n = strlen(fraction); fraction[n - 1] == '0'; n--)
            fraction[n - 1] = '\0';
    }
    if (s >= 3600)
        snprintf(out, 32, "%lluh%um%u%ss", (unsigned long long)s / 3600, (unsigned)(s / 60 % 60), (unsigned)(s % 60),
                 fraction);
    else if (s >= 60)
        snprintf(out, 32, "%um%u%ss", (unsigned)(s / 60), (unsigned)(s % 60), fraction);
    else
        snprintf(out, 32, "%u%ss", (unsigned)s, fraction);
}
