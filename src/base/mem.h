/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked allocation. Two families: mem_* may fail and its callers handle NULL (everything a request or a peer can
 * make us allocate); must_* ends the process with a message (start-up and configuration only).
 * The arena gives one exchange one lifetime.
 */
#ifndef MVPROXY_BASE_MEM_H
#define MVPROXY_BASE_MEM_H

#include "base/quota.h"
#include "base/slice.h"

#define MEM_CHECK __attribute__((warn_unused_result))

/* Sizes are in bytes. Zeroed memory or NULL. Free with mem_free. */
MEM_CHECK void *mem_zalloc(size_t size);
MEM_CHECK void *mem_alloc(size_t size);
MEM_CHECK void *mem_realloc(void *p, size_t size);
/* Zeroed array; NULL also when count * size overflows. */
MEM_CHECK void *mem_array(size_t count, size_t size);
/* NUL-terminated copies. */
MEM_CHECK char *mem_strdup(const char *s);
MEM_CHECK char *mem_slicedup(struct slice s);
void mem_free(void *p);
/*
 * Zeroed pages for a stack: the one below them cannot be touched. NULL when out of memory. `size` is a multiple of a
 * page, and the same for both.
 */
MEM_CHECK void *mem_pages(size_t size);
void mem_pages_free(void *p, size_t size);
/* What a block of mem_* really is, in bytes; 0 for NULL. */
size_t mem_size(void *p);
/* Overwrites before freeing, for keys and credentials. */
void mem_free_secret(void *p, size_t size);

void *must_zalloc(size_t size);
char *must_strdup(const char *s);
char *must_slicedup(struct slice s);

/*
 * Test hook: the nth call (1 = next) of the mem_* family and of arena block allocation fails, once; 0 switches it off.
 * mem_calls() counts calls since start, so that a torture test can walk n over a scenario.
 */
void mem_fail_nth(uint64_t nth);
uint64_t mem_calls(void);

struct arena;

/* An empty arena whose blocks together never exceed `ceiling` bytes. NULL when out of memory. */
MEM_CHECK struct arena *arena_new(size_t ceiling);
/* The same with a first block of so many bytes: for those of which there are very many. */
MEM_CHECK struct arena *arena_new_sized(size_t ceiling, size_t first);
/* From now on its blocks are charged to `b`, and those that it has now; the quota before gets them back. False, and
 * nothing has changed: there is no room. NULL: nobody counts. */
MEM_CHECK bool arena_charge(struct arena *a, struct quota *b);
struct quota *arena_quota(const struct arena *a);
void arena_free(struct arena *a);
/* Keeps the first block, forgets the rest: for reuse by the next request of a connection. */
void arena_reset(struct arena *a);
/* Aligned for any type, not zeroed; NULL at the ceiling or out of memory. */
MEM_CHECK void *arena_alloc(struct arena *a, size_t size);
MEM_CHECK void *arena_zalloc(struct arena *a, size_t size);
/* Copies; the result's p is NULL (with n 0) on failure, non-NULL otherwise even for empty text. NUL-terminated behind
 * n. */
MEM_CHECK struct slice arena_copy(struct arena *a, struct slice s);
/* printf into the arena; p is NULL on failure. NUL-terminated behind n. */
MEM_CHECK struct slice arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Bytes handed out since birth or reset, padding included. */
size_t arena_used(const struct arena *a);

#endif
