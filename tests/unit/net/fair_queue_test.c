/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of those who wait: between addresses, within one, and when memory is short. */
#include "net/fair_queue.h"

#include "lib/tap.h"
#include "unit/net/fixture.h"

struct guest {
    struct loop_deferred n;
    const char *name;
};

static struct guest guests[8] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"},
                                 {.name = "e"}, {.name = "f"}, {.name = "g"}, {.name = "h"}};

static void come_of(struct fair_queue *q, enum fair_share share, const char *names, const char *address)
{
    for (; *names != '\0'; names++)
        fair_queue_add(q, &guests[*names - 'a'].n, share, slice_str(address), FAIR_LAST);
}

static void come(struct fair_queue *q, const char *names, const char *address, bool begun)
{
    for (; *names != '\0'; names++)
        fair_queue_add(q, &guests[*names - 'a'].n, FAIR_STRANGERS, slice_str(address),
                       begun ? FAIR_NEXT_OF_ADDRESS : FAIR_LAST);
}

/* In the order in which they are served. */
static const char *serve_of(struct fair_queue *q, size_t max, bool strangers)
{
    static char out[16];
    struct loop_deferred *n;
    size_t i = 0;

    for (; i < max && (n = fair_queue_next(q, strangers)) != NULL; i++)
        out[i] = *list_entry(n, struct guest, n)->name;
    out[i] = '\0';
    return out;
}

static const char *serve(struct fair_queue *q, size_t max)
{
    return serve_of(q, max, true);
}

static void test_turns(void)
{
    struct fair_queue *q = fair_queue_new();

    is_str(serve(q, 8), "", "nobody waits");
    come(q, "abcd", "10.0.0.1", false);
    is_u64(fair_queue_waiting(q), 4, "four wait");
    is_str(serve(q, 8), "abcd", "one address: as they came");
    is_u64(fair_queue_waiting(q), 0, "nobody is left");

    come(q, "abcde", "10.0.0.1", false);
    come(q, "f", "10.0.0.2", false);
    come(q, "gh", "::1", false);
    is_str(serve(q, 8), "afgbhcde", "several: in turn, whoever has most");

    come(q, "abc", "10.0.0.1", false);
    is_str(serve(q, 1), "a", "the first");
    come(q, "a", "10.0.0.1", true);
    is_str(serve(q, 8), "abc", "who has begun goes on before those who have not");

    come(q, "ab", "10.0.0.1", false);
    come(q, "a", "10.0.0.1", false);
    is_str(serve(q, 8), "ab", "who waits and comes again waits once, and keeps the place");
    fair_queue_free(q);
}

/* However many addresses there are in one. */
/* Who waits for the end of what has begun waits for no ring of those who begin. */
static void test_next(void)
{
    struct fair_queue *q = fair_queue_new();

    come_of(q, FAIR_STRANGERS, "a", "10.0.0.1");
    come_of(q, FAIR_STRANGERS, "b", "10.0.0.2");
    come_of(q, FAIR_STRANGERS, "c", "10.0.0.3");
    fair_queue_add(q, &guests['d' - 'a'].n, FAIR_STRANGERS, SLICE_LIT("10.0.0.4"), FAIR_NEXT);
    fair_queue_add(q, &guests['e' - 'a'].n, FAIR_STRANGERS, SLICE_LIT("10.0.0.3"), FAIR_NEXT);
    is_str(serve(q, 8), "edabc", "of an address that waits, and of one that does not");
    fair_queue_free(q);
}

static void test_shares(void)
{
    struct fair_queue *q = fair_queue_new();

    come_of(q, FAIR_STRANGERS, "a", "10.0.0.1");
    come_of(q, FAIR_STRANGERS, "b", "10.0.0.2");
    come_of(q, FAIR_STRANGERS, "c", "10.0.0.3");
    come_of(q, FAIR_STRANGERS, "d", "10.0.0.4");
    come_of(q, FAIR_OWN, "ef", "x");
    come_of(q, FAIR_KNOWN, "g", "10.0.0.1");
    is_str(serve(q, 8), "agebfcd", "shares in turn, and who is alone in one is served after two others at most");

    come_of(q, FAIR_STRANGERS, "ab", "10.0.0.1");
    come_of(q, FAIR_KNOWN, "cd", "10.0.0.1");
    is_str(serve_of(q, 8, false), "cd", "without strangers");
    is_str(serve_of(q, 8, false), "", "whoever else there is");
    is_str(serve(q, 8), "ab", "they have kept their places");

    come_of(q, FAIR_KNOWN, "a", "10.0.0.1");
    come_of(q, FAIR_STRANGERS, "b", "10.0.0.1");
    fair_queue_cancel(q, &guests[0].n);
    is_u64(fair_queue_waiting(q), 1, "one address in two shares: each for itself");
    come_of(q, FAIR_KNOWN, "b", "10.0.0.1");
    is_str(serve(q, 8), "b", "who waits keeps the place, also if he would have another share now");
    fair_queue_free(q);
}

static void test_leaving(void)
{
    struct fair_queue *q = fair_queue_new();

    come(q, "abc", "10.0.0.1", false);
    come(q, "de", "10.0.0.2", false);
    fair_queue_cancel(q, &guests[0].n);
    fair_queue_cancel(q, &guests[0].n);
    is_u64(fair_queue_waiting(q), 4, "one has left");
    is_str(serve(q, 2), "bd", "the others' turns stay as they were");
    fair_queue_cancel(q, &guests[4].n);
    is_str(serve(q, 8), "c", "an address whose last one left is passed over");
    come(q, "e", "10.0.0.2", false);
    is_str(serve(q, 8), "e", "and may come back");
    fair_queue_free(q);
}

static void test_without_memory(void)
{
    struct fair_queue *q = fair_queue_new();

    come(q, "ab", "10.0.0.1", false);
    mem_fail_nth(1);
    come(q, "c", "10.0.0.2", false);
    mem_fail_nth(2);
    come(q, "d", "10.0.0.2", false);
    mem_fail_nth(1);
    come(q, "e", "10.0.0.3", false);
    mem_fail_nth(0);
    is_str(serve(q, 8), "acbde", "addresses for which there is no memory are as one, and nobody is lost");
    come(q, "a", "", false);
    come(q, "b", "0123456789012345678901234567890123456789012345678901234567890", false);
    is_str(serve(q, 8), "ab", "nor is anybody without an address, or with one that is none");
    fair_queue_free(q);
}

int main(void)
{
    test_turns();
    test_shares();
    test_next();
    test_leaving();
    test_without_memory();
    return tap_end();
}
