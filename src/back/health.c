/* SPDX-License-Identifier: Apache-2.0 */
#include "back/health.h"

#include <stddef.h>

/* ---- outliers ---- */

bool health_is_out(const struct health *h, uint64_t now_ms)
{
    return h->out && (now_ms < h->until_ms || now_ms < h->trial_until_ms);
}

void health_try(struct health *h, uint64_t now_ms)
{
    if (h->out && !health_is_out(h, now_ms))
        h->trial_until_ms = now_ms + HEALTH_TRIAL_MS;
}

static uint64_t time_out(enum health_cause cause, unsigned times)
{
    uint64_t ms = cause == HEALTH_CONNECT ? HEALTH_CONNECT_OUT_MS : HEALTH_REQUEST_OUT_MS;
    uint64_t most = cause == HEALTH_CONNECT ? HEALTH_CONNECT_OUT_MAX_MS : HEALTH_REQUEST_OUT_MAX_MS;

    while (times-- > 0 && ms < most)
        ms *= 2;
    return ms < most ? ms : most;
}

static void put_out(struct health *h, enum health_cause cause, uint64_t now_ms)
{
    if (!h->out && now_ms - h->back_ms >= HEALTH_STABLE_MS)
        h->times = 0;
    h->out = true;
    h->cause = cause;
    h->failures = 0;
    h->until_ms = now_ms + time_out(cause, h->times++);
    h->trial_until_ms = 0;
}

bool health_failed(struct health *h, enum health_cause cause, uint64_t now_ms)
{
    if (h->out && now_ms < h->until_ms)
        return false;
    /* Out, and its time is over: whatever fails now is as good as a trial. */
    if (!h->out && cause == HEALTH_REQUEST && ++h->failures < HEALTH_MAX_FAILURES)
        return false;
    put_out(h, cause, now_ms);
    return true;
}

bool health_succeeded(struct health *h, enum health_cause cause, uint64_t now_ms)
{
    bool was_out = h->out;

    if (cause == HEALTH_CONNECT && (!h->out || h->cause == HEALTH_REQUEST))
        return false;
    h->out = false;
    h->failures = 0;
    h->trial_until_ms = 0;
    if (was_out)
        h->back_ms = now_ms;
    return was_out;
}

/* ---- budget ---- */

static struct budget_second *this_second(struct budget *b, uint64_t now_ms)
{
    struct budget_second *s = &b->past[now_ms / 1000 % BUDGET_SECONDS];

    if (s->second != now_ms / 1000)
        *s = (struct budget_second){.second = now_ms / 1000};
    return s;
}

void budget_request(struct budget *b, uint64_t now_ms)
{
    this_second(b, now_ms)->requests++;
}

bool budget_allows(const struct budget *b, uint64_t now_ms)
{
    uint64_t second = now_ms / 1000, requests = 0, repeated = 0;

    for (size_t i = 0; i < BUDGET_SECONDS; i++)
        if (second - b->past[i].second < BUDGET_SECONDS) {
            requests += b->past[i].requests;
            repeated += b->past[i].repeated;
        }
    return repeated < BUDGET_MINIMUM || repeated * 100 < requests * BUDGET_PERCENT;
}

void budget_spend(struct budget *b, uint64_t now_ms)
{
    this_second(b, now_ms)->repeated++;
}
