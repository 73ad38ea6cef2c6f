/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quota.h"

#include <stdint.h>

#include "base/contract.h"

void quota_init(struct quota *b, struct quota *parent, size_t most)
{
    *b = (struct quota){.parent = parent, .most = most == 0 ? SIZE_MAX : most, .mark = SIZE_MAX};
}

bool quota_has_room(const struct quota *b, size_t n)
{
    for (; b != NULL; b = b->parent)
        if (b->held > b->most || n > b->most - b->held)
            return false;
    return true;
}

void quota_add(struct quota *b, size_t n)
{
    for (; n > 0 && b != NULL; b = b->parent) {
        bool below = b->held < b->mark;

        b->held += n;
        if (below && b->held >= b->mark && b->reached != NULL)
            b->reached(b);
    }
}

bool quota_take(struct quota *b, size_t n)
{
    if (!quota_has_room(b, n))
        return false;
    quota_add(b, n);
    return true;
}

void quota_give(struct quota *b, size_t n)
{
    for (; n > 0 && b != NULL; b = b->parent) {
        must_hold(b->held >= n);
        b->held -= n;
    }
}
