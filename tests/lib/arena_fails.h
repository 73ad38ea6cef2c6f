/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One allocation from an arena fails, whatever room its block has: mem_fail_nth() reaches only those that need another
 * block. A program that includes this is linked with --wrap of the three functions.
 */
#ifndef MVPROXY_TESTS_LIB_ARENA_FAILS_H
#define MVPROXY_TESTS_LIB_ARENA_FAILS_H

#include "base/mem.h"

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

#endif
