/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/consensus.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "lib/tap.h"

enum { MAX_NAMES = 64, MAX_LISTS = 8, MAX_LENGTH = 64 };

struct fixture {
    char text[MAX_NAMES][4];
    struct slice names[MAX_NAMES];
    size_t n;
    uint32_t items[MAX_LISTS][MAX_LENGTH];
    struct consensus_list lists[MAX_LISTS];
    size_t n_lists;
};

static uint32_t item_of(struct fixture *f, struct slice name)
{
    for (size_t i = 0; i < f->n; i++)
        if (slice_eq(f->names[i], name))
            return (uint32_t)i;
    memcpy(f->text[f->n], name.p, name.n);
    f->names[f->n] = slice_of(f->text[f->n], name.n);
    return (uint32_t)f->n++;
}

/* "A B C|B D" is two lists. */
static void build(struct fixture *f, const char *text)
{
    struct slice rest = slice_str(text), list, name;

    memset(f, 0, sizeof(*f));
    while (slice_split(&rest, '|', &list)) {
        uint32_t *items = f->items[f->n_lists];
        size_t n = 0;

        while (slice_split(&list, ' ', &name))
            if (name.n > 0)
                items[n++] = item_of(f, name);
        f->lists[f->n_lists++] = (struct consensus_list){items, n};
    }
}

static const char *print(const struct fixture *f, const uint32_t *order, struct buf *out)
{
    buf_reset(out);
    for (size_t i = 0; i < f->n; i++) {
        if (i > 0)
            buf_append_char(out, ' ');
        buf_append(out, f->names[order[i]]);
    }
    buf_append_char(out, '\0');
    return buf_slice(out).p;
}

static void test_table(void)
{
    static const struct {
        const char *name, *lists, *want;
    } rows[] = {
        /* the cases of apimachinery's own test */
        {"consensus", "A B C D|A B C D|A X Z D|Z Y|Q", "A B C Q X Z D Y"},
        {"nothing", "", ""},
        {"one list", "foo bar baz", "foo bar baz"},
        {"contradiction of complete lists", "A B|B A", "A B"},
        {"an empty list", "|A B C", "A B C"},
        {"only empty lists", "||", ""},
        {"tie at the beginning", "C D E|B D E|A D E", "A B C D E"},
        {"tie in the middle", "A D E|A C E|A B E", "A B C D E"},
        {"three complete lists", "A B C|B C A|C A B", "A B C"},
        {"a complete list among others", "A B C D|B A|C D", "A B C D"},
        {"documentation", "a c|b c", "a b c"},
        /* the first complete list decides, wherever it stands */
        {"complete list last", "B|C|C A B", "C A B"},
        {"two complete lists", "x|B A x|A B x", "B A x"},
        /* cycles: kube-apiserver would sort by name here */
        {"cycle of preferred versions", "v2 v1|v1 v2 v3b", "v1 v2 v3b"},
        {"cycle, no complete list", "v2 v1|v1 v2 a|b", "v2 v1 a b"},
        {"partial contradiction", "A B|C D|B A", "A B C D"},
        {"three-way cycle", "A B|B C|C A", "A B C"},
        {"three-way cycle from Z", "Z B|B C|C Z", "Z B C"},
        {"new name behind its neighbour", "b a|a b n|x", "b a n x"},
        {"new name before the first it shares", "b a|n a b|x", "n b a x"},
        {"new name between", "c b a|a n b|x", "c b a n x"},
        {"neighbours of a new name", "a b c|b a n c|x y|y x", "a b n c x y"},
        {"names that share nothing go to the end", "b a|a b|d c", "b a d c"},
        {"several new names keep their order", "b a|a b n3 n1 n2|x", "b a n3 n1 n2 x"},
        {"leading new names keep their order", "b a|n3 n1 a b|x", "n3 n1 b a x"},
    };
    struct fixture f;
    uint32_t order[MAX_NAMES];
    struct buf got;

    buf_init(&got, 1024);
    for (size_t i = 0; i < ROWS(rows); i++) {
        build(&f, rows[i].lists);
        ok(consensus_order(f.names, f.n, f.lists, f.n_lists, order, NULL), "%s: done", rows[i].name);
        is_str(print(&f, order, &got), rows[i].want, "%s", rows[i].name);
    }
    buf_free(&got);
}

static void test_fold(void)
{
    static const struct {
        const char *name, *lists, *want;
    } rows[] = {
        {"nothing", "", ""},
        {"two lists", "A B C|B D", "A B C D"},
        {"what adds nothing has no say", "b|a x|x b", "a b x"},
        {"nobody disagrees: no cycle but that of the first two by name", "v2|b1 a1|v2 v1 b1", "v2 v1 b1 a1"},
        {"a real cycle", "v2|b1 a1|v2 v1 b1|a1 v2 x", "v2 v1 b1 a1 x"},
    };
    struct fixture f;
    uint32_t order[MAX_NAMES];
    struct buf got;

    buf_init(&got, 1024);
    for (size_t i = 0; i < ROWS(rows); i++) {
        build(&f, rows[i].lists);
        ok(consensus_fold(f.names, f.n, f.lists, f.n_lists, order, NULL), "%s: done", rows[i].name);
        is_str(print(&f, order, &got), rows[i].want, "%s", rows[i].name);
    }
    buf_free(&got);
}

static bool fold(void *arg, struct fiber *fiber)
{
    const struct fixture *f = arg;
    uint32_t order[MAX_NAMES];

    return consensus_fold(f->names, f->n, f->lists, f->n_lists, order, fiber);
}

/* Liars' lists contradict each other: putting them in order is cut up as everything else is. */
static void test_steps(void)
{
    struct fixture f;
    struct fiber fiber;
    size_t steps = 0, given_up = 0;

    build(&f, "A B|C B A|D B A|E B A|F B A|G B A|H B A");
    fiber_init(&fiber, fold, &f, NULL);
    while (fiber_step(&fiber, 1) == STEP_MORE)
        steps++;
    ok(steps >= 3 * f.n_lists, "contradicting lists are read one in each of %zu steps", steps);
    for (size_t n = 0; n < steps; n++) {
        fiber_init(&fiber, fold, &f, NULL);
        for (size_t i = 0; i <= n; i++)
            (void)fiber_step(&fiber, 1);
        given_up += fiber.state == FIBER_PAUSED;
        fiber_close(&fiber);
    }
    is_int(given_up, steps, "it can be given up behind each of them");
}

static uint64_t state;

static uint64_t below(uint64_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

/* Lists that are all drawn from one hidden order never contradict each other. */
static void random_lists(struct fixture *f, bool contradicting)
{
    size_t n = 1 + (size_t)below(12);
    uint32_t hidden[MAX_NAMES];
    char name[8];

    memset(f, 0, sizeof(*f));
    for (size_t i = 0; i < n; i++)
        hidden[i] = (uint32_t)i;
    f->n_lists = 1 + (size_t)below(MAX_LISTS);
    for (size_t l = 0; l < f->n_lists; l++) {
        for (size_t i = n; i > 1 && (l == 0 || contradicting); i--) {
            size_t j = (size_t)below(i);
            uint32_t swap = hidden[i - 1];

            hidden[i - 1] = hidden[j];
            hidden[j] = swap;
        }
        f->lists[l].items = f->items[l];
        for (size_t i = 0; i < n; i++)
            if (below(3) != 0) {
                snprintf(name, sizeof(name), "%c", (char)('a' + hidden[i]));
                f->items[l][f->lists[l].n++] = item_of(f, slice_str(name));
            }
    }
}

/* Place of each item in the order; false if it is no permutation. */
static bool places(const struct fixture *f, const uint32_t *order, size_t *place)
{
    bool seen[MAX_NAMES] = {false};

    for (size_t i = 0; i < f->n; i++) {
        if (order[i] >= f->n || seen[order[i]])
            return false;
        seen[order[i]] = true;
        place[order[i]] = i;
    }
    return true;
}

static bool keeps(const struct consensus_list *l, const size_t *place)
{
    for (size_t i = 1; i < l->n; i++)
        if (place[l->items[i - 1]] > place[l->items[i]])
            return false;
    return true;
}

static void test_random(void)
{
    struct fixture f;
    uint32_t order[MAX_NAMES];
    size_t place[MAX_NAMES];
    unsigned broken = 0, reordered = 0, cycles = 0, first_lost = 0;
    bool all, complete;

    state = 0x9e3779b97f4a7c15ULL;
    for (unsigned round = 0; round < 20000; round++) {
        random_lists(&f, round % 2 == 1);
        if (!consensus_order(f.names, f.n, f.lists, f.n_lists, order, NULL) || !places(&f, order, place)) {
            broken++;
            continue;
        }
        all = true;
        complete = false;
        for (size_t l = 0; l < f.n_lists; l++) {
            all = all && keeps(&f.lists[l], place);
            complete = complete || f.lists[l].n == f.n;
        }
        if (!all && round % 2 == 0)
            reordered++;
        if (!all && !complete) {
            cycles++;
            first_lost += keeps(&f.lists[0], place) ? 0 : 1;
        }
    }
    is_u64(broken, 0, "always a permutation (seed 9e3779b97f4a7c15)");
    is_u64(reordered, 0, "lists that agree keep their order");
    ok(cycles > 1000, "%u contradictions were seen", cycles);
    is_u64(first_lost, 0, "and the first list kept its order in all of them");
}

static void test_memory(void)
{
    struct fixture f;
    uint32_t order[MAX_NAMES];

    build(&f, "v2 v1 c|v1 v2 a|b");
    mem_fail_nth(1);
    ok(!consensus_order(f.names, f.n, f.lists, f.n_lists, order, NULL), "out of memory");
    for (unsigned long nth = 1; nth <= 4; nth++) {
        mem_fail_nth(nth);
        ok(!consensus_fold(f.names, f.n, f.lists, f.n_lists, order, NULL), "out of memory at allocation %lu", nth);
    }
    mem_fail_nth(5);
    ok(consensus_fold(f.names, f.n, f.lists, f.n_lists, order, NULL), "two by two takes four");
    mem_fail_nth(0);
    ok(consensus_order(f.names, f.n, f.lists, f.n_lists, order, NULL), "and well again");
}

int main(void)
{
    test_table();
    test_fold();
    test_steps();
    test_random();
    test_memory();
    return tap_end();
}
