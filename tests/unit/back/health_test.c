/* SPDX-License-Identifier: Apache-2.0 */
/* When an origin is put last and when it comes back; how many requests may be repeated. */
#include "back/health.h"

#include "lib/tap.h"

enum { T0 = 1000000 };

/* Goes out again as soon as it may, n times; how long it is out then. */
static uint64_t out_for(enum health_cause cause, unsigned n)
{
    struct health h = {.out = false};
    uint64_t now = T0;

    for (unsigned i = 0; i < n; i++) {
        now = h.out ? h.until_ms : now;
        while (!health_failed(&h, cause, now))
            ;
    }
    return h.until_ms - now;
}

static void growing(void)
{
    is_u64(out_for(HEALTH_CONNECT, 1), 200, "unreachable: out for 0.2 s");
    is_u64(out_for(HEALTH_CONNECT, 2), 400, "then twice that");
    is_u64(out_for(HEALTH_CONNECT, 5), 3200, "and so on");
    is_u64(out_for(HEALTH_CONNECT, 50), 5000, "up to 5 s");
    is_u64(out_for(HEALTH_REQUEST, 1), 1000, "failing requests: out for 1 s");
    is_u64(out_for(HEALTH_REQUEST, 3), 4000, "then longer");
    is_u64(out_for(HEALTH_REQUEST, 50), 30000, "up to 30 s");
}

static void in_a_row(void)
{
    struct health h = {.out = false};

    for (unsigned i = 1; i < HEALTH_MAX_FAILURES; i++)
        ok(!health_failed(&h, HEALTH_REQUEST, T0), "request %u fails", i);
    ok(!health_succeeded(&h, HEALTH_REQUEST, T0), "one succeeds");
    for (unsigned i = 1; i < HEALTH_MAX_FAILURES; i++)
        ok(!health_failed(&h, HEALTH_REQUEST, T0), "it counts from one again: %u", i);
    ok(!health_succeeded(&h, HEALTH_CONNECT, T0), "a connection is no success of a request");
    ok(!health_is_out(&h, T0), "still in");
    ok(health_failed(&h, HEALTH_REQUEST, T0), "the fifth in a row");
    ok(health_is_out(&h, T0), "out");
    ok(!health_failed(&h, HEALTH_REQUEST, T0 + 10), "what was under way then counts no more");
    ok(!health_failed(&h, HEALTH_CONNECT, T0 + 10), "of neither kind");
    is_u64(h.until_ms, T0 + 1000, "and makes it no longer");
}

static void trial(void)
{
    struct health h = {.out = false};
    uint64_t now = T0;

    ok(health_failed(&h, HEALTH_CONNECT, now), "out");
    health_try(&h, now);
    ok(health_is_out(&h, now), "a request that goes there all the same is no trial");
    now += 200;
    ok(!health_is_out(&h, now), "its time is over");
    health_try(&h, now);
    ok(health_is_out(&h, now), "one request tries it, the others keep away");
    ok(health_failed(&h, HEALTH_CONNECT, now + 1), "it fails");
    ok(health_is_out(&h, now + 400) && !health_is_out(&h, now + 401), "out for longer");
    now += 401;
    health_try(&h, now);
    ok(!health_is_out(&h, now + HEALTH_TRIAL_MS), "a trial that never ends gives way to another");
    ok(health_succeeded(&h, HEALTH_CONNECT, now), "this one connects");
    ok(!h.out && !health_is_out(&h, now), "in");
    ok(!health_succeeded(&h, HEALTH_CONNECT, now), "which is told once");
}

static void relapse(void)
{
    struct health h = {.out = false};
    uint64_t now = T0;

    (void)health_failed(&h, HEALTH_CONNECT, now);
    (void)health_succeeded(&h, HEALTH_CONNECT, now += 200);
    (void)health_failed(&h, HEALTH_CONNECT, now += HEALTH_STABLE_MS - 1);
    is_u64(h.until_ms - now, 400, "soon again: longer than before");
    (void)health_succeeded(&h, HEALTH_CONNECT, now += 400);
    (void)health_failed(&h, HEALTH_CONNECT, now += HEALTH_STABLE_MS);
    is_u64(h.until_ms - now, 200, "after a good time: as if it were the first");
    (void)health_succeeded(&h, HEALTH_REQUEST, now += 200);
    ok(!h.out, "an answer proves that it can be reached");
    for (unsigned i = 0; i < HEALTH_MAX_FAILURES; i++)
        (void)health_failed(&h, HEALTH_REQUEST, now);
    ok(!health_succeeded(&h, HEALTH_CONNECT, now += 1000) && h.out, "but it takes an answer to prove that it answers");
    ok(health_succeeded(&h, HEALTH_REQUEST, now) && !h.out, "such as this");
}

static unsigned spend_all(struct budget *b, uint64_t now)
{
    unsigned n = 0;

    while (budget_allows(b, now) && n < 1000000) {
        budget_spend(b, now);
        n++;
    }
    return n;
}

static void budget(void)
{
    struct budget b = {{{0}}};
    uint64_t now = T0;

    is_u64(spend_all(&b, now), BUDGET_MINIMUM, "few requests: the minimum");
    is_u64(spend_all(&b, now + 9000), 0, "for ten seconds");
    is_u64(spend_all(&b, now + 10000), BUDGET_MINIMUM, "then again");
    b = (struct budget){{{0}}};
    for (unsigned i = 0; i < 10000; i++)
        budget_request(&b, now + i);
    is_u64(spend_all(&b, now + 9999), 2000, "many requests: a fifth of them");
    is_u64(spend_all(&b, now + 14000), 0, "which older ones that pass away do not raise");
    is_u64(spend_all(&b, now + 19999), BUDGET_MINIMUM, "forgotten in the end");
}

int main(void)
{
    growing();
    in_a_row();
    trial();
    relapse();
    budget();
    return tap_end();
}
