/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/contract.h"

#include <malloc.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef MVPROXY_SANITIZED
#include <sanitizer/asan_interface.h>
/* Unused arena bytes are poisoned and allocations kept apart, so that overruns inside a block are found too. */
enum { REDZONE = 16 };
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
enum { REDZONE = 0 };
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

/* The test hook: the documented exception to "no mutable globals". */
static uint64_t hook_calls;
static uint64_t hook_fail_at;

void mem_fail_nth(uint64_t nth)
{
    hook_fail_at = nth == 0 ? 0 : hook_calls + nth;
}

uint64_t mem_calls(void)
{
    return hook_calls;
}

static bool hook_fails(void)
{
    if (++hook_calls != hook_fail_at)
        return false;
    hook_fail_at = 0;
    return true;
}

void *mem_alloc(size_t size)
{
    return hook_fails() ? NULL : malloc(size == 0 ? 1 : size);
}

/*
 * glibc's calloc() passes by what free() keeps at hand of small blocks (until 2.41), so that these come from the slow
 * path of malloc and are merged with their neighbours when they go.
 */
enum { KEPT_BYTES = 1032 };

void *mem_zalloc(size_t size)
{
    void *p;

    if (size > KEPT_BYTES)
        return hook_fails() ? NULL : calloc(1, size);
    p = mem_alloc(size);
    if (p != NULL)
        memset(p, 0, size);
    return p;
}

void *mem_realloc(void *p, size_t size)
{
    return hook_fails() ? NULL : realloc(p, size == 0 ? 1 : size);
}

void *mem_array(size_t count, size_t size)
{
    size_t total;

    return __builtin_mul_overflow(count, size, &total) ? NULL : mem_zalloc(total);
}

char *mem_slicedup(struct slice s)
{
    char *copy = s.n == SIZE_MAX ? NULL : mem_alloc(s.n + 1);

    if (copy == NULL)
        return NULL;
    if (s.n > 0)
        memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return copy;
}

char *mem_strdup(const char *s)
{
    return mem_slicedup(slice_str(s));
}

void mem_free(void *p)
{
    free(p);
}

enum { GUARD = 64 << 10 }; /* a page, of whatever size */

void *mem_pages(size_t size)
{
    char *p = hook_fails() ? MAP_FAILED
                           : mmap(NULL, GUARD + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    if (mprotect(p + GUARD, size, PROT_READ | PROT_WRITE) == 0)
        return p + GUARD;
    (void)munmap(p, GUARD + size);
    return NULL;
}

void mem_pages_free(void *p, size_t size)
{
    UNPOISON(p, size);
    must_hold(munmap((char *)p - GUARD, GUARD + size) == 0);
}

size_t mem_size(void *p)
{
    return p == NULL ? 0 : malloc_usable_size(p); /* LeakSanitizer's does not take NULL */
}

void mem_free_secret(void *p, size_t size)
{
    if (p != NULL)
        explicit_bzero(p, size);
    free(p);
}

static void *must(void *p)
{
    static const char text[] = "mvproxy: out of memory\n";

    if (p == NULL) {
        ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);

        (void)ignored;
        _exit(1);
    }
    return p;
}

void *must_zalloc(size_t size)
{
    void *p;

    if (size > KEPT_BYTES)
        return must(calloc(1, size));
    p = must(malloc(size == 0 ? 1 : size));
    memset(p, 0, size);
    return p;
}

char *must_slicedup(struct slice s)
{
    char *copy = must(malloc(s.n + 1));

    if (s.n > 0)
        memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return copy;
}

char *must_strdup(const char *s)
{
    return must_slicedup(slice_str(s));
}

/* ---- arena ---- */

/* The first block shares its malloc with the arena; most exchanges fit into it. */
enum { FIRST_BLOCK = 4096, MAX_BLOCK = 64 << 10 };

struct block {
    struct block *next;
    size_t cap;
    size_t used;
    alignas(max_align_t) char bytes[];
};

struct arena {
    size_t ceiling;
    size_t taken; /* capacities of all blocks */
    struct quota *quota;
    size_t next_cap;
    struct block *current;
    struct block *more; /* blocks behind the first, newest first */
    struct block first; /* last member: its bytes follow */
};

/* What a block is charged with; the first one is in the arena's own. */
static size_t cost_of(const struct arena *a, const struct block *b)
{
    return b == &a->first ? sizeof(*a) + b->cap : sizeof(*b) + b->cap;
}

static size_t round_up(size_t n)
{
    return (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

struct arena *arena_new(size_t ceiling)
{
    return arena_new_sized(ceiling, FIRST_BLOCK);
}

struct arena *arena_new_sized(size_t ceiling, size_t first)
{
    size_t cap = ceiling < first ? ceiling : first;
    struct arena *a = mem_alloc(sizeof(*a) + cap);

    if (a == NULL)
        return NULL;
    memset(a, 0, sizeof(*a));
    a->ceiling = ceiling;
    a->taken = cap;
    a->next_cap = cap * 2;
    a->first.cap = cap;
    a->current = &a->first;
    POISON(a->first.bytes, cap);
    return a;
}

void arena_reset(struct arena *a)
{
    while (a->more != NULL) {
        struct block *b = a->more;

        a->more = b->next;
        UNPOISON(b->bytes, b->cap);
        quota_give(a->quota, cost_of(a, b));
        mem_free(b);
    }
    a->first.used = 0;
    a->taken = a->first.cap;
    a->next_cap = a->first.cap * 2;
    a->current = &a->first;
    POISON(a->first.bytes, a->first.cap);
}

bool arena_charge(struct arena *a, struct quota *quota)
{
    size_t all = cost_of(a, &a->first);

    for (const struct block *b = a->more; b != NULL; b = b->next)
        all += cost_of(a, b);
    if (!quota_take(quota, all))
        return false;
    quota_give(a->quota, all);
    a->quota = quota;
    return true;
}

struct quota *arena_quota(const struct arena *a)
{
    return a->quota;
}

void arena_free(struct arena *a)
{
    if (a == NULL)
        return;
    arena_reset(a);
    quota_give(a->quota, cost_of(a, &a->first));
    UNPOISON(a->first.bytes, a->first.cap);
    mem_free(a);
}

static bool grow(struct arena *a, size_t size)
{
    size_t left = a->ceiling - a->taken;
    size_t cap = size > a->next_cap ? size : a->next_cap;
    struct block *b;

    must_hold(a->taken <= a->ceiling);
    if (size > left)
        return false;
    if (cap > left)
        cap = left;
    if (!quota_take(a->quota, sizeof(*b) + cap))
        return false;
    b = mem_alloc(sizeof(*b) + cap);
    if (b == NULL) {
        quota_give(a->quota, sizeof(*b) + cap);
        return false;
    }
    b->cap = cap;
    b->used = 0;
    b->next = a->more;
    a->more = b;
    a->taken += cap;
    a->current = b;
    if (a->next_cap < MAX_BLOCK)
        a->next_cap *= 2;
    POISON(b->bytes, cap);
    return true;
}

void *arena_alloc(struct arena *a, size_t size)
{
    size_t want;
    char *p;

    if (size > a->ceiling)
        return NULL;
    want = round_up(size) + REDZONE;
    must_hold(a->current->used <= a->current->cap); /* else there seems to be room without end */
    if (want > a->current->cap - a->current->used && !grow(a, want))
        return NULL;
    p = a->current->bytes + a->current->used;
    a->current->used += want;
    UNPOISON(p, size);
    return p;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    void *p = arena_alloc(a, size);

    if (p != NULL)
        memset(p, 0, size);
    return p;
}

struct slice arena_copy(struct arena *a, struct slice s)
{
    char *p = s.n >= a->ceiling ? NULL : arena_alloc(a, s.n + 1);

    if (p == NULL)
        return SLICE_NONE;
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return slice_of(p, s.n);
}

struct slice arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        return SLICE_NONE;
    p = arena_alloc(a, (size_t)n + 1);
    if (p == NULL)
        return SLICE_NONE;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return slice_of(p, (size_t)n);
}

size_t arena_used(const struct arena *a)
{
    size_t used = a->first.used;

    for (const struct block *b = a->more; b != NULL; b = b->next)
        used += b->used;
    return used;
}
