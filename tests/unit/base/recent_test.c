/* SPDX-License-Identifier: Apache-2.0 */
#include "base/recent.h"

#include "lib/tap.h"

int main(void)
{
    struct recent r = {0};

    is_u64(recent_count(&r, 0), 0, "never");
    recent_add(&r, 500);
    is_u64(recent_count(&r, 500), 1, "in the first second");
    recent_add(&r, 9999);
    recent_add(&r, 10000);
    is_u64(recent_count(&r, 10000), 3, "and then");
    is_u64(recent_count(&r, 69999), 3, "a minute later");
    is_u64(recent_count(&r, 70000), 1, "the first ten seconds are forgotten");
    is_u64(recent_count(&r, 80000), 0, "and the next");
    is_u64(recent_count(&r, 800000), 0, "long after");
    recent_add(&r, 65000);
    is_u64(recent_count(&r, 65000), 4, "one more");
    recent_add(&r, 75000);
    is_u64(recent_count(&r, 75000), 3, "in the place of the first ones");
    recent_add(&r, 1000000);
    is_u64(recent_count(&r, 1000000), 1, "long after all of them");
    is_u64(recent_count(&r, 1060000), 1, "it counts as long");
    is_u64(recent_count(&r, 1070000), 0, "as any");
    return tap_end();
}
