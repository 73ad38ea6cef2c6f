/* SPDX-License-Identifier: Apache-2.0 */
/* Whom somebody has vouched for, by address: how long, and how many. */
#include "front/vouched.h"

#include <stdio.h>

#include "lib/tap.h"

enum { MANY = 100000, SOON = 1000 };

static struct slice address(size_t i, char text[32])
{
    (void)snprintf(text, 32, "2001:db8::%zx", i);
    return slice_str(text);
}

int main(void)
{
    static struct vouched v;
    struct slice one = SLICE_LIT("192.0.2.1"), other = SLICE_LIT("192.0.2.2");
    size_t kept = 0;
    char text[32];

    ok(!vouched_has(&v, one, SOON) && !vouched_has(&v, SLICE_NONE, SOON), "at first nobody");
    vouched_add(&v, one, SOON);
    ok(vouched_has(&v, one, SOON), "who was let in");
    ok(!vouched_has(&v, other, SOON), "and nobody else");
    ok(vouched_has(&v, one, SOON + VOUCHED_KEPT_MS - 1), "for a day");
    ok(!vouched_has(&v, one, SOON + VOUCHED_KEPT_MS), "not longer");
    vouched_add(&v, one, SOON + 5);
    ok(vouched_has(&v, one, SOON + 5 + VOUCHED_KEPT_MS - 1), "from the last time on");
    for (size_t i = 0; i < MANY; i++) {
        vouched_add(&v, address(i, text), SOON + 10 + i);
        if (i % 100 == 0)
            vouched_add(&v, one, SOON + 10 + i);
    }
    ok(vouched_has(&v, one, SOON + 10 + MANY), "who comes again and again stays, whoever else comes");
    for (size_t i = 0; i < MANY; i++)
        kept += vouched_has(&v, address(i, text), SOON + 10 + MANY);
    ok(kept > VOUCHED_SETS * 3 && kept < VOUCHED_SETS * VOUCHED_WAYS, "of many the last ones: %zu", kept);
    ok(vouched_has(&v, address(MANY - 1, text), SOON + 10 + MANY), "the last of all among them");
    return tap_end();
}
