/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tap.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static unsigned tap_count;
static unsigned tap_failed;

static void print_text(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];

        if (c >= ' ' && c != 0x7f && c != '#')
            putchar(c);
        else
            printf("\\x%02x", c);
    }
}

__attribute__((format(printf, 4, 0))) static bool result(bool held, const char *file, int line, const char *name,
                                                         va_list ap)
{
    char text[512];

    vsnprintf(text, sizeof(text), name, ap);
    printf("%sok %u - ", held ? "" : "not ", ++tap_count);
    print_text(text, strlen(text));
    putchar('\n');
    if (!held) {
        tap_failed++;
        printf("# failed at %s:%d\n", file, line);
    }
    fflush(stdout);
    if (!held && getenv("TAP_STOP") != NULL)
        _exit(1); /* who only asks whether something is wrong */
    return held;
}

static void show(const char *what, const char *p, size_t n)
{
    printf("#   %s: ", what);
    if (p == NULL) {
        printf("NULL\n");
        return;
    }
    putchar('"');
    print_text(p, n);
    printf("\" (%zu bytes)\n", n);
}

bool tap_ok(bool held, const char *file, int line, const char *text, const char *name, ...)
{
    va_list ap;

    va_start(ap, name);
    result(held, file, line, name, ap);
    va_end(ap);
    if (!held)
        printf("#   not true: %s\n", text);
    return held;
}

bool tap_is_str(const char *got, const char *want, const char *file, int line, const char *name, ...)
{
    bool held = got == NULL || want == NULL ? got == want : strcmp(got, want) == 0;
    va_list ap;

    va_start(ap, name);
    result(held, file, line, name, ap);
    va_end(ap);
    if (!held) {
        show(" got", got, got == NULL ? 0 : strlen(got));
        show("want", want, want == NULL ? 0 : strlen(want));
    }
    return held;
}

bool tap_is_slice(struct slice got, const char *want, const char *file, int line, const char *name, ...)
{
    bool held = got.p == NULL || want == NULL ? got.p == want : slice_eq(got, slice_str(want));
    va_list ap;

    va_start(ap, name);
    result(held, file, line, name, ap);
    va_end(ap);
    if (!held) {
        show(" got", got.p, got.n);
        show("want", want, want == NULL ? 0 : strlen(want));
    }
    return held;
}

bool tap_is_int(long long got, long long want, const char *file, int line, const char *name, ...)
{
    va_list ap;

    va_start(ap, name);
    result(got == want, file, line, name, ap);
    va_end(ap);
    if (got != want)
        printf("#    got: %lld\n#   want: %lld\n", got, want);
    return got == want;
}

bool tap_is_u64(uint64_t got, uint64_t want, const char *file, int line, const char *name, ...)
{
    va_list ap;

    va_start(ap, name);
    result(got == want, file, line, name, ap);
    va_end(ap);
    if (got != want)
        printf("#    got: %llu\n#   want: %llu\n", (unsigned long long)got, (unsigned long long)want);
    return got == want;
}

bool tap_is_double(double got, double want, const char *file, int line, const char *name, ...)
{
    bool held = fabs(got - want) <= 1e-9 * (fabs(want) > 1 ? fabs(want) : 1);
    va_list ap;

    va_start(ap, name);
    result(held, file, line, name, ap);
    va_end(ap);
    if (!held)
        printf("#    got: %.17g\n#   want: %.17g\n", got, want);
    return held;
}

bool tap_is_null(const void *got, const char *file, int line, const char *name, ...)
{
    va_list ap;

    va_start(ap, name);
    result(got == NULL, file, line, name, ap);
    va_end(ap);
    if (got != NULL)
        printf("#    got: %p\n#   want: NULL\n", got);
    return got == NULL;
}

void tap_skip(const char *reason, const char *name, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, name);
    vsnprintf(text, sizeof(text), name, ap);
    va_end(ap);
    printf("ok %u - %s # SKIP %s\n", ++tap_count, text, reason);
    fflush(stdout);
}

void diag(const char *fmt, ...)
{
    va_list ap;

    printf("# ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

void tap_bail(const char *fmt, ...)
{
    va_list ap;

    printf("Bail out! ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
    exit(1);
}

int tap_end(void)
{
    printf("1..%u\n", tap_count);
    fflush(stdout);
    return tap_failed == 0 && tap_count > 0 ? 0 : 1;
}
