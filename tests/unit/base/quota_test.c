/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quota.h"

#include <stdint.h>

#include "base/arena_pool.h"
#include "base/buf.h"
#include "lib/died.h"
#include "lib/tap.h"

static unsigned told;

static void on_reached(struct quota *b)
{
    (void)b;
    told++;
}

static void give_too_much(void *arg)
{
    quota_give(arg, 1);
}

static void test_chain(void)
{
    struct quota all, one, other;
    char said[1024];

    quota_init(&all, NULL, 100);
    quota_init(&one, &all, 60);
    quota_init(&other, &all, 0);
    ok(quota_take(&one, 60), "room for so much");
    ok(!quota_take(&one, 1), "and for no more");
    is_u64(all.held, 60, "the parent is charged too");
    ok(!quota_has_room(&other, 41), "what the parent has not");
    ok(!quota_take(&other, 41), "nobody gets");
    is_u64(other.held, 0, "and is charged for");
    ok(quota_take(&other, 40), "what is left");
    quota_add(&other, 10);
    is_u64(all.held, 110, "what is there already counts beyond the limit");
    ok(!quota_take(&other, 0), "where there is no room at all");
    quota_give(&other, 50);
    quota_give(&one, 60);
    is_u64(all.held + one.held + other.held, 0, "all given back");
    ok(quota_take(NULL, SIZE_MAX), "nobody counts");
    ok(died(give_too_much, &all, said, sizeof(said)), "more given back than was taken ends the process");
}

static void test_mark(void)
{
    struct quota all, one;

    quota_init(&all, NULL, 100);
    quota_init(&one, &all, 0);
    all.mark = 50;
    all.reached = on_reached;
    (void)quota_take(&one, 49);
    is_int((int)told, 0, "below the mark");
    (void)quota_take(&one, 1);
    is_int((int)told, 1, "told at the mark");
    (void)quota_take(&one, 1);
    is_int((int)told, 1, "once");
    quota_give(&one, 2);
    (void)quota_take(&one, 2);
    is_int((int)told, 2, "and when it comes there again");
    quota_give(&one, 51);
}

static void test_arena(void)
{
    struct arena_pool p = {.ceiling = 1 << 20};
    struct quota b;
    struct arena *a;
    size_t first;

    quota_init(&b, NULL, 64 << 10);
    a = arena_pool_take(&p, &b);
    first = b.held;
    ok(a != NULL && first >= 4096, "an arena is charged with its first block");
    ok(arena_alloc(a, 20000) != NULL, "more of it");
    ok(b.held >= first + 20000 && b.held < first + 30000, "with what it takes");
    ok(arena_alloc(a, 60000) == NULL, "there is no more room");
    arena_reset(a);
    is_u64(b.held, first, "reset");
    mem_fail_nth(1);
    ok(arena_alloc(a, 20000) == NULL, "no memory");
    mem_fail_nth(0);
    is_u64(b.held, first, "is not charged");
    arena_pool_give(&p, a);
    is_u64(b.held, 0, "given back");
    b.most = 100;
    ok(arena_pool_take(&p, &b) == NULL, "no room for an arena");
    is_u64(p.n, 1, "which stays where it was");
    arena_pool_free(&p);
}

static void test_buf(void)
{
    struct quota b, other;
    struct buf buf;
    char *p;

    quota_init(&b, NULL, 10000);
    quota_init(&other, NULL, 0);
    buf_init(&buf, 1 << 20);
    buf_charge(&buf, &b);
    is_u64(b.held, 0, "an empty buffer costs nothing");
    ok(buf_reserve(&buf, 3000) != NULL, "grows");
    is_u64(b.held, buf.cap, "charged with its memory");
    buf_charge(&buf, &other);
    is_u64(b.held, 0, "handed on");
    is_u64(other.held, buf.cap, "with all of it");
    p = buf_disown(&buf);
    is_u64(other.held, 0, "memory that is given away");
    buf_adopt(&buf, p, 3000);
    is_u64(other.held, 3000, "and adopted");
    buf_charge(&buf, &b);
    ok(buf_reserve(&buf, 20000) == NULL && buf.failed, "no room");
    buf_release(&buf);
    is_u64(b.held + other.held, 0, "released");
    mem_fail_nth(1);
    ok(buf_reserve(&buf, 100) == NULL, "no memory");
    mem_fail_nth(0);
    is_u64(b.held, 0, "is not charged");
    buf_free(&buf);
}

int main(void)
{
    test_chain();
    test_mark();
    test_arena();
    test_buf();
    return tap_end();
}
