/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdalign.h>
#include <wchar.h>

#include "lib/tap.h"

static void failing(void)
{
    uint64_t before = mem_calls();
    void *a, *b, *c;

    mem_fail_nth(2);
    a = mem_alloc(10);
    b = mem_zalloc(10);
    c = mem_alloc(10);
    ok(a != NULL, "first call works");
    is_null(b, "second call fails");
    ok(c != NULL, "once");
    is_u64(mem_calls() - before, 3, "all three are counted");
    mem_free(a);
    mem_free(c);

    mem_fail_nth(1);
    mem_fail_nth(0);
    a = mem_alloc(1);
    ok(a != NULL, "switched off");
    mem_fail_nth(1);
    is_null(mem_realloc(a, 100), "realloc fails too");
    mem_free(a);
    mem_fail_nth(1);
    is_null(mem_strdup("x"), "strdup fails too");
    mem_fail_nth(1);
    is_null(arena_new(100), "a new arena fails too");
}

static void plain(void)
{
    static const unsigned char zeros[64];
    unsigned char *z = mem_zalloc(64);
    void *nothing = mem_alloc(0);
    char *s = mem_slicedup(SLICE_LIT("ab")), *t = mem_strdup("cd"), *e = mem_slicedup(SLICE_NONE);

    ok(z != NULL && memcmp(z, zeros, 64) == 0, "zeroed");
    ok(nothing != NULL, "no bytes are not NULL");
    is_str(s, "ab", "slicedup");
    is_str(t, "cd", "strdup");
    is_str(e, "", "slicedup of nothing");
    is_null(mem_array(SIZE_MAX / 2, 3), "overflow of an array");
    mem_free(z);
    mem_free(nothing);
    mem_free(s);
    mem_free(t);
    mem_free(e);
    mem_free(NULL);
    mem_free_secret(NULL, 10);
    s = must_slicedup(SLICE_LIT("secret"));
    t = must_strdup("text");
    is_str(t, "text", "must_strdup");
    mem_free_secret(s, 6);
    mem_free(t);
}

/* The allocator gives the place of what was freed last to the next of its size; AddressSanitizer does not. What it
 * writes itself, at the beginning of what is free, may be any byte. */
static void secrets(void)
{
    enum { SIZE = 64, ALLOCATORS = 16 };
    char *p = mem_alloc(SIZE), *next;
    size_t left = 0;

    if (p == NULL)
        tap_bail("no memory");
    memset(p, 'S', SIZE);
    mem_free_secret(p, SIZE);
    next = mem_alloc(SIZE);
    if (next == NULL)
        tap_bail("no memory");
    for (size_t i = ALLOCATORS; i < SIZE; i++)
        left += next[i] == 'S';
    is_u64(left, 0, "nothing is left of a secret");
    mem_free(next);
}

static void arena_basics(void)
{
    struct arena *a = arena_new(64 << 10);
    struct slice s;
    unsigned char *z;
    bool aligned = true, zero = true;

    s = arena_copy(a, SLICE_LIT("text"));
    is_slice(s, "text", "copied");
    is_int(s.p[s.n], 0, "terminated");
    s = arena_copy(a, SLICE_NONE);
    ok(s.p != NULL && s.n == 0, "copy of nothing is not NULL");
    s = arena_printf(a, "%s-%d", "x", 42);
    is_slice(s, "x-42", "printed");
    is_slice(arena_printf(a, "%lc", (wint_t)0x20ac), NULL, "what printf() cannot print");
    for (size_t n = 1; n < 40; n++)
        aligned = aligned && (uintptr_t)arena_alloc(a, n) % alignof(max_align_t) == 0;
    ok(aligned, "aligned for any type");

    /* Dirty the memory, so that zeroing shows. */
    z = arena_alloc(a, 2000);
    memset(z, 0xff, 2000);
    arena_reset(a);
    is_u64(arena_used(a), 0, "reset");
    z = arena_zalloc(a, 2000);
    for (size_t i = 0; i < 2000; i++)
        zero = zero && z[i] == 0;
    ok(zero, "zeroed after reuse");
    arena_free(a);
    arena_free(NULL);
}

static void arena_ceiling(void)
{
    struct arena *a = arena_new(20000);
    size_t total = 0;
    void *p;

    while ((p = arena_alloc(a, 100)) != NULL) {
        memset(p, 1, 100);
        total += 100;
    }
    ok(total > 10000 && total <= 20000, "stops at the ceiling (%zu of 20000)", total);
    is_null(arena_copy(a, SLICE_LIT("a long enough text to need more than the rest of the last block, which is small"
                                    "a long enough text to need more than the rest of the last block, which is small"))
                .p,
            "a copy fails there");
    is_null(arena_alloc(a, SIZE_MAX), "absurd size");
    is_null(arena_alloc(a, SIZE_MAX - 15), "absurd size that would wrap when rounded");
    arena_reset(a);
    ok(arena_alloc(a, 10000) != NULL, "room again after reset, also for one large piece");
    is_null(arena_alloc(a, 15000), "but not for two");
    arena_free(a);

    a = arena_new(16);
    ok(arena_alloc(a, 17) == NULL, "tiny ceiling");
    arena_free(a);

    a = arena_new(1 << 20);
    mem_fail_nth(1);
    is_null(arena_alloc(a, 8000), "a new block may fail");
    ok(arena_alloc(a, 8000) != NULL, "and the arena lives on");
    arena_free(a);
}

int main(void)
{
    failing();
    plain();
    secrets();
    arena_basics();
    arena_ceiling();
    return tap_end();
}
