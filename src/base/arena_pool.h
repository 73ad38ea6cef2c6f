/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A few empty arenas that wait for the next who needs one: memory that was just used is still in the cache, and idle
 * connections hold none.
 */
#ifndef MVPROXY_BASE_ARENA_POOL_H
#define MVPROXY_BASE_ARENA_POOL_H

#include "base/mem.h"

enum { ARENA_POOL_SPARE = 512 };

struct arena_pool {
    size_t ceiling; /* of each arena, see arena_new() */
    struct arena *spare[ARENA_POOL_SPARE];
    size_t n;
};

/* NULL when out of memory, or when there is no room for it in `b`, which its blocks are charged to (NULL: to nobody).
 * The arena is the caller's. */
MEM_CHECK struct arena *arena_pool_take(struct arena_pool *p, struct quota *b);
/* What is in it is gone; NULL is fine. */
void arena_pool_give(struct arena_pool *p, struct arena *a);
void arena_pool_free(struct arena_pool *p);

#endif
