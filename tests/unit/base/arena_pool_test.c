/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas that wait for the next. */
#include "base/arena_pool.h"

#include "lib/tap.h"

int main(void)
{
    struct arena_pool p = {.ceiling = 1000};
    struct arena *a = arena_pool_take(&p, NULL), *more[ARENA_POOL_SPARE + 1];

    ok(a != NULL && arena_alloc(a, 900) != NULL, "an arena is made when none waits");
    arena_pool_give(&p, a);
    ok(arena_pool_take(&p, NULL) == a, "given back, it is the next one's");
    ok(arena_alloc(a, 900) != NULL, "and empty");
    ok(arena_alloc(a, 900) == NULL, "its ceiling is the pool's");
    arena_pool_give(&p, a);
    arena_pool_give(&p, NULL);
    is_u64(p.n, 1, "no arena is no arena");
    for (size_t i = 0; i <= ARENA_POOL_SPARE; i++)
        more[i] = arena_pool_take(&p, NULL);
    for (size_t i = 0; i <= ARENA_POOL_SPARE; i++)
        arena_pool_give(&p, more[i]);
    is_u64(p.n, ARENA_POOL_SPARE, "no more than a few are kept");
    arena_pool_free(&p);
    is_u64(p.n, 0, "and all are freed");
    mem_fail_nth(1);
    ok(arena_pool_take(&p, NULL) == NULL, "out of memory: none");
    mem_fail_nth(0);
    return tap_end();
}
