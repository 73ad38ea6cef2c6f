/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strmap.h"

#include <stdio.h>

#include "lib/tap.h"

static struct slice numbered(char *space, size_t size, unsigned i)
{
    return slice_of(space, (size_t)snprintf(space, size, "key-%u", i));
}

static void *value_of(unsigned i)
{
    return (void *)(uintptr_t)(i + 1);
}

static void basics(void)
{
    struct strmap *m = strmap_new();
    int one, two;
    void *old = &two;
    char key[] = "abc";

    is_null(strmap_get(m, SLICE_LIT("abc")), "empty");
    is_null(strmap_remove(m, SLICE_LIT("abc")), "nothing to remove");
    ok(strmap_put(m, slice_str(key), &one, &old), "put");
    is_null(old, "there was nothing before");
    key[0] = 'x';
    ok(strmap_get(m, SLICE_LIT("abc")) == &one, "the key was copied");
    ok(strmap_put(m, SLICE_LIT("abc"), &two, &old) && old == &one, "replaced");
    is_u64(strmap_count(m), 1, "still one");
    ok(strmap_put(m, SLICE_NONE, &one, NULL) && strmap_get(m, SLICE_LIT("")) == &one, "an empty key is a key");
    ok(strmap_put(m, slice_of("a\0b", 3), &one, NULL) && strmap_get(m, SLICE_LIT("a")) == NULL, "NUL is a byte");
    ok(strmap_remove(m, SLICE_LIT("abc")) == &two, "removed");
    is_null(strmap_get(m, SLICE_LIT("abc")), "gone");
    is_u64(strmap_count(m), 2, "two left");
    ok(strmap_remove(m, SLICE_NONE) == &one && strmap_remove(m, slice_of("a\0b", 3)) == &one, "so are these");
    is_u64(strmap_count(m), 0, "none left");
    strmap_free(m);
    strmap_free(NULL);
}

enum { MANY = 5000 };

static void many(void)
{
    struct strmap *m = strmap_new();
    static bool seen[MANY];
    char space[32];
    bool fine = true;
    size_t cursor = 0;
    struct slice key;
    void *value;
    unsigned count = 0;

    for (unsigned i = 0; i < MANY; i++)
        fine = strmap_put(m, numbered(space, sizeof(space), i), value_of(i), NULL) && fine;
    ok(fine && strmap_count(m) == MANY, "all put");
    for (unsigned i = 0; i < MANY; i++)
        fine = fine && strmap_get(m, numbered(space, sizeof(space), i)) == value_of(i);
    ok(fine, "all found");

    while (strmap_next(m, &cursor, &key, &value)) {
        unsigned i = (unsigned)(uintptr_t)value - 1;

        fine = fine && !seen[i] && slice_eq(key, numbered(space, sizeof(space), i));
        seen[i] = true;
        count++;
        if (i % 2 == 0)
            fine = fine && strmap_remove(m, numbered(space, sizeof(space), i)) == value;
    }
    ok(fine && count == MANY, "each met once, half of them removed on the way");
    is_u64(strmap_count(m), MANY / 2, "half left");
    for (unsigned i = 0; i < MANY; i++)
        fine = fine && strmap_get(m, numbered(space, sizeof(space), i)) == (i % 2 == 0 ? NULL : value_of(i));
    ok(fine, "the right half");
    strmap_free(m);
}

/* Graves must not fill the table: a map of constant size that lives for long. */
static void churn(void)
{
    struct strmap *m = strmap_new();
    char space[32];
    bool fine = true;

    for (unsigned i = 0; i < 20000; i++) {
        fine = strmap_put(m, numbered(space, sizeof(space), i), value_of(i), NULL) && fine;
        if (i >= 8)
            fine = strmap_remove(m, numbered(space, sizeof(space), i - 8)) == value_of(i - 8) && fine;
    }
    ok(fine && strmap_count(m) == 8, "8 of 20000 are left");
    strmap_free(m);
}

/* Three quarters of 16 slots, and not one slot less; then more. */
static void filling(void)
{
    struct strmap *m = strmap_new();
    uint64_t calls = mem_calls();
    char space[32];
    bool fine = true;

    for (unsigned i = 0; i < 12; i++)
        fine = strmap_put(m, numbered(space, sizeof(space), i), value_of(i), NULL) && fine;
    ok(fine, "12 entries");
    is_u64(mem_calls() - calls, 12 + 1, "one table");
    ok(strmap_put(m, SLICE_LIT("more"), value_of(12), NULL), "one more");
    is_u64(mem_calls() - calls, 13 + 2, "needs another");
    strmap_free(m);
}

static void failures(void)
{
    char space[32];

    for (uint64_t nth = 1; nth < 40; nth++) {
        struct strmap *m = strmap_new();
        unsigned put = 0;
        bool fine = true;

        mem_fail_nth(nth);
        for (unsigned i = 0; i < 30; i++)
            put += strmap_put(m, numbered(space, sizeof(space), i), value_of(i), NULL);
        mem_fail_nth(0);
        for (unsigned i = 0; i < 30; i++) {
            void *v = strmap_get(m, numbered(space, sizeof(space), i));

            fine = fine && (v == NULL || v == value_of(i));
        }
        ok(fine && put == strmap_count(m) && put >= 29, "map whole after failure of allocation %d", (int)nth);
        strmap_free(m);
    }
}

static void test_free_in_steps(void)
{
    struct strmap *m = strmap_new();
    char key[16];
    unsigned steps = 1;

    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof(key), "%u", i);
        if (!strmap_put(m, slice_str(key), m, NULL))
            break;
    }
    (void)strmap_remove(m, SLICE_LIT("7"));
    while (!strmap_free_some(m, 100))
        steps++;
    ok(steps >= 10, "a large one is freed in steps: %u", steps);
    strmap_free(m);
    m = strmap_new();
    ok(strmap_free_some(m, 1), "of an empty one there is nothing to do");
    strmap_free(m);
}

int main(void)
{
    basics();
    many();
    churn();
    filling();
    failures();
    test_free_in_steps();
    return tap_end();
}
