/* SPDX-License-Identifier: Apache-2.0 */
#include "base/churn.h"

#include <stddef.h>

/* What was wasted beyond the burst is not held against anybody for longer than the burst itself. */
enum { DEBT_BURSTS = 2, US_PER_MS = 1000, MS_PER_SECOND = 1000 };

struct churn_rate churn_rate_of(unsigned burst, unsigned per_second)
{
    unsigned cost_ms = MS_PER_SECOND / per_second;

    return (struct churn_rate){cost_ms, burst * cost_ms, LIMIT_CHURN_TOGETHER};
}

static void advance(uint64_t *at, uint64_t now, uint64_t by, uint64_t burst)
{
    *at = (*at > now ? *at : now) + by;
    if (*at > now + DEBT_BURSTS * burst)
        *at = now + DEBT_BURSTS * burst;
}

static void retreat(uint64_t *at, uint64_t now, uint64_t by)
{
    *at = *at > now + by ? *at - by : now;
}

/* NULL: somebody else has it, who wastes. */
static struct churn_account *account_of(const struct churn *ch, uint64_t client, uint64_t now_ms)
{
    const struct churn_account *a = &ch->accounts[client % LIMIT_CHURN_ACCOUNTS];

    return a->client == client || a->settled_ms <= now_ms ? (struct churn_account *)a : NULL;
}

static uint64_t cost_of_all_us(const struct churn *ch)
{
    return (uint64_t)ch->rate.cost_ms * US_PER_MS / ch->rate.together;
}

static bool is_over(const struct churn *ch, const struct churn_account *a, uint64_t now_ms)
{
    return a->settled_ms > now_ms + ch->rate.burst_ms || ch->all_settled_us > (now_ms + ch->rate.burst_ms) * US_PER_MS;
}

void churn_charge(struct churn *ch, uint64_t client, uint64_t now_ms)
{
    struct churn_account *a = account_of(ch, client, now_ms);

    if (client == 0)
        return;
    advance(&ch->all_settled_us, now_ms * US_PER_MS, cost_of_all_us(ch), (uint64_t)ch->rate.burst_ms * US_PER_MS);
    if (a == NULL)
        return;
    if (a->client != client || a->settled_ms <= now_ms)
        a->strained = false;
    a->client = client;
    advance(&a->settled_ms, now_ms, ch->rate.cost_ms, ch->rate.burst_ms);
    a->strained = a->strained || is_over(ch, a, now_ms);
}

void churn_refund(struct churn *ch, uint64_t client, uint64_t now_ms)
{
    struct churn_account *a = account_of(ch, client, now_ms);

    if (client == 0)
        return;
    retreat(&ch->all_settled_us, now_ms * US_PER_MS, cost_of_all_us(ch));
    if (a != NULL && a->client == client)
        retreat(&a->settled_ms, now_ms, ch->rate.cost_ms);
}

bool churn_allows(const struct churn *ch, uint64_t client, uint64_t now_ms)
{
    const struct churn_account *a = account_of(ch, client, now_ms);

    if (client == 0 || a == NULL || a->client != client || a->settled_ms <= now_ms)
        return true;
    return !is_over(ch, a, now_ms);
}

bool churn_strained(const struct churn *ch, uint64_t client, uint64_t now_ms)
{
    const struct churn_account *a = account_of(ch, client, now_ms);

    return client != 0 && a != NULL && a->client == client && a->strained && a->settled_ms > now_ms;
}
