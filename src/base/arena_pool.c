/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena_pool.h"
#include "base/contract.h"

struct arena *arena_pool_take(struct arena_pool *p, struct quota *b)
{
    struct arena *a = p->n > 0 ? p->spare[--p->n] : arena_new(p->ceiling);

    must_hold(a == NULL || arena_quota(a) == NULL); /* a spare one is on nobody's account */
    if (a == NULL || arena_charge(a, b))
        return a;
    arena_pool_give(p, a);
    return NULL;
}

void arena_pool_give(struct arena_pool *p, struct arena *a)
{
    if (a == NULL)
        return;
    if (p->n == ARENA_POOL_SPARE) {
        arena_free(a);
        return;
    }
    arena_reset(a);
    (void)!arena_charge(a, NULL); /* nobody refuses */
    p->spare[p->n++] = a;
}

void arena_pool_free(struct arena_pool *p)
{
    while (p->n > 0)
        arena_free(p->spare[--p->n]);
}
