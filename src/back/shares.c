/* SPDX-License-Identifier: Apache-2.0 */
#include "back/shares.h"

#include "base/contract.h"

size_t shares_of(const struct shares *s, uint64_t client)
{
    return client == 0 ? 0 : s->of[client % SHARES_CLIENTS];
}

bool shares_take(struct shares *s, uint64_t client)
{
    size_t left = s->taken < s->most ? s->most - s->taken : 0;

    if (client == 0)
        return true;
    if (shares_of(s, client) >= left)
        return false;
    s->of[client % SHARES_CLIENTS]++;
    s->taken++;
    return true;
}

void shares_give(struct shares *s, uint64_t client)
{
    if (client == 0)
        return;
    must_hold(s->taken > 0 && s->of[client % SHARES_CLIENTS] > 0);
    s->of[client % SHARES_CLIENTS]--;
    s->taken--;
}
