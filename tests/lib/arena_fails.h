/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One allocation from an arena fails, whatever room its block has: mem_fail_nth() reaches only those that need another
 * block. A program that includes this is linked with --wrap of the first three functions, or of all.
 */
#ifndef MVPROXY_TESTS_LIB_ARENA_FAILS_H
#define MVPROXY_TESTS_LIB_ARENA_FAILS_H

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

static uint64_t arena_calls, arena_fails_at; /* the second: 0: none */
static bool arena_holds;                     /* the test's own calls neither count nor fail */

static bool arena_fails(void)
{
    return !arena_holds && ++arena_calls == arena_fails_at;
}

void *__real_arena_alloc(struct arena *a, size_t size);
void *__wrap_arena_alloc(struct arena *a, size_t size);
void *__real_arena_zalloc(struct arena *a, size_t size);
void *__wrap_arena_zalloc(struct arena *a, size_t size);
struct slice __real_arena_copy(struct arena *a, struct slice s);
struct slice __wrap_arena_copy(struct arena *a, struct slice s);

void *__wrap_arena_alloc(struct arena *a, size_t size)
{
    return arena_fails() ? NULL : __real_arena_alloc(a, size);
}

void *__wrap_arena_zalloc(struct arena *a, size_t size)
{
    return arena_fails() ? NULL : __real_arena_zalloc(a, size);
}

struct slice __wrap_arena_copy(struct arena *a, struct slice s)
{
    return arena_fails() ? SLICE_NONE : __real_arena_copy(a, s);
}

struct slice __wrap_arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Of texts that are not longer. */
struct slice __wrap_arena_printf(struct arena *a, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return arena_fails() || n < 0 || (size_t)n >= sizeof(text) ? SLICE_NONE
                                                               : __real_arena_copy(a, slice_of(text, (size_t)n));
}

#endif
