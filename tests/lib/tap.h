/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the Test Anything Protocol, one line per check, the plan at the end. A test program is
 *
 *   int main(void)
 *   {
 *       ok(1 + 1 == 2, "sums");
 *       return tap_end();
 *   }
 *
 * Tables: give each row a name and pass it as the check's name (printf style).
 */
#ifndef MVPROXY_TESTS_LIB_TAP_H
#define MVPROXY_TESTS_LIB_TAP_H

#include "base/slice.h"

#if defined(__GNUC__) && !defined(__clang__)
/* slice_str(x) takes NULL, from which gcc concludes that the %s of a table's name might be NULL too. */
#pragma GCC diagnostic ignored "-Wformat-overflow"
#endif

/* Each of these returns whether the check held; on failure file, line, and both values follow as diagnostics. */
#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, #cond, __VA_ARGS__)
/* C strings; NULL is a value of its own. */
#define is_str(got, want, ...) tap_is_str((got), (want), __FILE__, __LINE__, __VA_ARGS__)
/* A slice against a C string (want NULL: the slice's p must be NULL). */
#define is_slice(got, want, ...) tap_is_slice((got), (want), __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, ...) tap_is_int((long long)(got), (long long)(want), __FILE__, __LINE__, __VA_ARGS__)
#define is_u64(got, want, ...) tap_is_u64((got), (want), __FILE__, __LINE__, __VA_ARGS__)
#define is_double(got, want, ...) tap_is_double((got), (want), __FILE__, __LINE__, __VA_ARGS__)
#define is_null(got, ...) tap_is_null((got), __FILE__, __LINE__, __VA_ARGS__)

bool tap_ok(bool held, const char *file, int line, const char *text, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
bool tap_is_str(const char *got, const char *want, const char *file, int line, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
bool tap_is_slice(struct slice got, const char *want, const char *file, int line, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
bool tap_is_int(long long got, long long want, const char *file, int line, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
bool tap_is_u64(uint64_t got, uint64_t want, const char *file, int line, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
/* Equal to within 1e-9 relatively. */
bool tap_is_double(double got, double want, const char *file, int line, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
bool tap_is_null(const void *got, const char *file, int line, const char *name, ...)
    __attribute__((format(printf, 4, 5)));

/* A check that cannot be made here; the reason is shown in the summary. */
void tap_skip(const char *reason, const char *name, ...) __attribute__((format(printf, 2, 3)));
/* A line for people reading the log. */
void diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program as failed: for set-up that must work. */
void tap_bail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* Prints the plan; the exit code: 0 if all held and there was at least one. */
int tap_end(void);

#endif
