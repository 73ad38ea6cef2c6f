/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include <string.h>

#include "lib/tap.h"

static void numbers(void)
{
    bool below = true, one = true;
    unsigned seen = 0;

    for (int i = 0; i < 1000; i++) {
        uint64_t v = random_below(7);

        below = below && v < 7;
        one = one && random_below(1) == 0;
        seen |= 1u << v;
    }
    ok(below, "below the bound");
    ok(one, "below one is zero");
    is_u64(seen, 0x7f, "every value turns up in 1000 draws");
    ok(random_u64() != random_u64(), "two draws differ");
}

static void uuids(void)
{
    char a[37], b[37];

    random_uuid(a);
    random_uuid(b);
    is_u64(strlen(a), 36, "length of a UUID");
    is_u64(strspn(a, "0123456789abcdef-"), 36, "its characters");
    ok(a[8] == '-' && a[13] == '-' && a[18] == '-' && a[23] == '-', "its dashes");
    is_int(a[14], '4', "version 4");
    ok(strchr("89ab", a[19]) != NULL, "variant of RFC 4122");
    ok(strcmp(a, b) != 0, "the next one differs");
}

int main(void)
{
    numbers();
    uuids();
    return tap_end();
}
