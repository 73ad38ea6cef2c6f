/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds too much of what clients make us hold, to the byte, and where heads of many clients are charged. */
#include "front/memory.h"

#include "base/clock.h"
#include "base/limits.h"
#include "lib/tap.h"
#include "net/loop.h"

enum {
    MOST = 8 << 20,
    MARK = MOST - MOST / 8,
    ENOUGH = MARK - MARK / 8,
    LITTLE = LIMIT_CLIENT_LITTLE,
    ADDRESSES = 30,
    HOLDERS = 30,
    NEXT_LOOK_MS = 200, /* and more */
};

struct one {
    struct memory_holder holder;
    uint64_t moved;
    bool ended;
};

/* So many addresses, each with its first connection; more connections are added by the test. */
struct scene {
    struct loop *loop;
    struct memory *m;
    size_t n_addresses, n_holders;
    struct memory_address address[ADDRESSES];
    struct one one[HOLDERS];
};

static unsigned looks; /* at the smallest one, which holds next to nothing */
static unsigned ends;
static size_t requests_of_each = 1;

static uint64_t moved_by(const struct memory_holder *h)
{
    return list_entry(h, struct one, holder)->moved;
}

static bool is_idle(const struct memory_holder *h)
{
    looks += h->held.held <= 1;
    return false;
}

static size_t end_one(struct memory_holder *h)
{
    list_entry(h, struct one, holder)->ended = true;
    ends++;
    memory_dismiss(h);
    quota_give(&h->held, h->held.held);
    return requests_of_each;
}

static struct one *enter(struct scene *s, size_t address)
{
    struct one *o = &s->one[s->n_holders++];

    memory_enter(s->m, &o->holder, &s->address[address].held);
    return o;
}

/* Its last address has a connection that holds nothing: it is asked at each look at small ones. */
static void begin(struct scene *s, size_t addresses)
{
    *s = (struct scene){.n_addresses = addresses + 1};
    clock_fake(clock_us(), clock_wall_us());
    s->loop = loop_new(NULL);
    s->m = memory_new(s->loop, &(struct memory_opts){.moved = moved_by, .idle = is_idle, .end = end_one});
    if (s->m == NULL)
        tap_bail("no memory");
    memory_set_limit(s->m, MOST);
    for (size_t i = 0; i < s->n_addresses; i++)
        memory_address_enter(s->m, &s->address[i]);
    for (size_t i = 0; i < s->n_addresses; i++)
        enter(s, i);
    looks = ends = 0;
}

static void end(struct scene *s)
{
    for (size_t i = 0; i < s->n_holders; i++) {
        memory_dismiss(&s->one[i].holder);
        if (s->one[i].holder.clients == NULL)
            quota_give(&s->one[i].holder.held, s->one[i].holder.held.held);
        memory_leave(&s->one[i].holder);
    }
    for (size_t i = 0; i < s->n_addresses; i++)
        memory_address_leave(&s->address[i]);
    memory_free(s->m);
    loop_free(s->loop);
    clock_real();
}

static void hold(struct scene *s, size_t i, size_t bytes)
{
    quota_add(&s->one[i].holder.held, bytes);
}

static void give(struct scene *s, size_t i, size_t bytes)
{
    quota_give(&s->one[i].holder.held, bytes);
}

static bool refuses(const struct scene *s, size_t i)
{
    return memory_refuses(&s->one[i].holder);
}

static void pass(unsigned ms)
{
    clock_fake(clock_us() + 1000 * (uint64_t)ms, clock_wall_us());
}

/* Until it has been looked once more at who holds what, after so much time: at small ones, too, if nobody ends. */
static bool looked(struct scene *s, unsigned ms)
{
    unsigned before = looks + ends;

    pass(ms);
    for (int turns = 0; turns < 500 && looks + ends == before; turns++)
        loop_run_once(s->loop, 10);
    return looks + ends > before;
}

/* Until this address is bounded no more. */
static bool unbounded(struct scene *s, size_t address)
{
    pass(NEXT_LOOK_MS);
    for (int turns = 0; turns < 500 && s->address[address].held.most != SIZE_MAX; turns++)
        loop_run_once(s->loop, 10);
    return s->address[address].held.most == SIZE_MAX;
}

/* ---- who is refused ---- */

static void test_refused_at_mark(void)
{
    struct scene s;

    begin(&s, 2);
    hold(&s, 0, MARK / 2 + 1);
    hold(&s, 1, MARK / 2 - 2);
    ok(!refuses(&s, 0), "a byte below the mark nobody is refused");
    hold(&s, 1, 1);
    ok(refuses(&s, 0), "at the mark who holds a byte more than a share is");
    ok(!refuses(&s, 1), "who holds less is not");
    give(&s, 0, 1);
    hold(&s, 1, 1);
    ok(!refuses(&s, 0) && !refuses(&s, 1), "nor who holds just a share");
    end(&s);
}

/* Who holds a little takes a share, a byte less takes none, and is bounded no more. */
static void test_little(void)
{
    enum { MIDDLE = 3500 << 10 };
    struct scene s;

    begin(&s, 3);
    hold(&s, 0, LITTLE);
    hold(&s, 1, MIDDLE);
    hold(&s, 2, MARK - MIDDLE - LITTLE);
    ok(looked(&s, 0), "at the mark it is looked");
    ok(refuses(&s, 2), "three that hold a little have a third each");
    ok(s.address[0].held.most < SIZE_MAX, "each of them is bounded");
    give(&s, 0, 1);
    hold(&s, 2, 1);
    ok(looked(&s, NEXT_LOOK_MS), "and again");
    ok(!refuses(&s, 2), "without a byte of it one of them has none, and half is left to others");
    ok(s.address[0].held.most == SIZE_MAX, "nor is it bounded");
    ok(s.address[1].held.most < SIZE_MAX, "though the others are");
    end(&s);
}

/* What others hold, and a little for the one that holds more, is enough to the byte: then all have an equal share. */
static void test_crowd(void)
{
    enum { N = 24, REST = (ENOUGH - LITTLE) - (N - 1) * (LITTLE - 1) };
    struct scene s;

    for (size_t less = 0; less < 2; less++) {
        begin(&s, N + 1);
        for (size_t i = 0; i < N; i++)
            hold(&s, i, i > 0 ? LITTLE - 1 : REST - less);
        hold(&s, N, MARK - (ENOUGH - LITTLE) + less);
        is_u64(memory_all(s.m)->held, MARK, "as much as that");
        ok(looked(&s, 0), "is looked at");
        if (less == 0)
            ok(refuses(&s, N), "where all hold a little who holds more than an equal share is refused");
        else
            ok(!refuses(&s, 1), "a byte less, and only who holds more than a little is");
        if (less == 1)
            ok(!refuses(&s, 2), "none of the others");
        for (size_t i = 0; i < N; i++)
            give(&s, i, s.one[i].holder.held.held);
        ok(unbounded(&s, N), "then there is room");
        hold(&s, 1, 400000);
        hold(&s, N, MARK - memory_all(s.m)->held);
        ok(!refuses(&s, 1), "and no crowd any more");
        end(&s);
    }
}

/* Nor need anybody hold more than a little for that. */
static void test_nobody_large(void)
{
    struct scene s;

    begin(&s, ADDRESSES - 1);
    for (size_t i = 0; i < ADDRESSES - 1; i++)
        hold(&s, i, i == 0 ? LITTLE - 1 : (MARK - LITTLE + 1) / (ADDRESSES - 2) + 1);
    ok(looked(&s, 0), "many who hold a byte less than a little");
    ok(refuses(&s, 0), "of whom one holds more than an equal share");
    end(&s);
}

/* ---- who is bounded ---- */

static void test_bounded(void)
{
    struct scene s;

    begin(&s, 1);
    hold(&s, 0, MARK - 1);
    hold(&s, 1, 1);
    ok(looked(&s, 0), "at the mark");
    ok(s.address[0].held.most < SIZE_MAX, "who holds nearly all is bounded");
    give(&s, 0, MARK - ENOUGH - 1);
    is_u64(memory_all(s.m)->held, ENOUGH + 1, "a byte too much");
    ok(looked(&s, NEXT_LOOK_MS), "it is looked as long as that is too much");
    ok(s.address[0].held.most < SIZE_MAX, "until then he stays so");
    give(&s, 0, 1);
    ok(unbounded(&s, 0), "with just enough he is not");
    hold(&s, 0, 2);
    ok(s.address[0].held.most == SIZE_MAX, "nor below the mark");
    hold(&s, 0, MARK - ENOUGH);
    ok(looked(&s, 0), "from which on it is looked at once, again");
    end(&s);
}

/* Who holds a share and more gets what is left of fifteen sixteenths, in equal parts. */
static void test_bounds(void)
{
    enum { GREEDY = MOST - MOST / 16, OTHER = ENOUGH / 2 + 2 * LITTLE };

    for (unsigned i = 0; i < 2; i++) {
        size_t all = i == 0 ? MARK + 2 : GREEDY, left = i == 0 ? (GREEDY - MARK - 2) / 2 : 0;
        struct scene s;

        begin(&s, 2);
        hold(&s, 0, OTHER);
        hold(&s, 1, all - OTHER);
        ok(looked(&s, 0), "two who hold much");
        is_u64(s.address[0].held.most, OTHER + left, "may have so much more");
        is_u64(s.address[1].held.most, all - OTHER + left, "both");
        end(&s);
    }
}

/* There is nobody else for whom anything would have to be kept. */
static void test_alone(void)
{
    struct scene s;

    begin(&s, 0);
    hold(&s, 0, 1);
    enter(&s, 0);
    hold(&s, 1, MARK);
    ok(looked(&s, 0), "at the mark");
    ok(s.address[0].held.most == SIZE_MAX, "the only address is not bounded");
    end(&s);
}

static void test_set_limit(void)
{
    struct scene s;

    begin(&s, 1);
    memory_set_limit(s.m, 0);
    ok(memory_all(s.m)->most == SIZE_MAX, "no limit");
    hold(&s, 0, MARK);
    memory_set_limit(s.m, 2 * MOST);
    memory_set_limit(s.m, MOST);
    ok(looked(&s, 0), "a limit by which it is just too much has it looked at");
    end(&s);
}

/* ---- who ends ---- */

/* Who has moved an eighth of what he holds is not still. */
static void test_still(void)
{
    for (unsigned less = 0; less < 2; less++) {
        struct scene s;

        begin(&s, 1);
        pass(5000);
        hold(&s, 0, MARK);
        ok(looked(&s, 0), "it is looked at once");
        ok(!s.one[0].ended, "who has only now come to hold much stays");
        s.one[0].moved = MARK / 8 - less;
        (void)looked(&s, 1000);
        is_int(s.one[0].ended, less, "then who has moved %s",
               less ? "a byte less than an eighth ends" : "an eighth stays");
        end(&s);
    }
}

/* No more than makes enough room. */
static void test_just_enough(void)
{
    enum { EACH = 1 << 20 };
    struct scene s;
    unsigned ended = 0;

    begin(&s, 2);
    hold(&s, 0, ENOUGH + EACH - 6 * EACH);
    for (size_t i = 0; i < 6; i++) {
        enter(&s, 1);
        hold(&s, 3 + i, EACH);
    }
    (void)looked(&s, 1000);
    for (size_t i = 0; i < 6; i++)
        ended += s.one[3 + i].ended;
    is_u64(memory_all(s.m)->held, ENOUGH, "just enough is left");
    is_u64(ended, 1, "as soon as one has ended");
    end(&s);
}

/* Nor more than leaves each address its share. */
static void test_share_stays(void)
{
    enum { EACH = ENOUGH / 8 };
    struct scene s;
    unsigned ended[2] = {0, 0};

    begin(&s, 2);
    for (size_t i = 0; i < 10; i++) {
        enter(&s, i % 2);
        hold(&s, 3 + i, EACH);
    }
    (void)looked(&s, 1000);
    for (size_t i = 0; i < 10; i++)
        ended[i % 2] += s.one[3 + i].ended;
    ok(ended[0] == 1 && ended[1] == 1, "one of each address, which keep four eighths each: %u, %u", ended[0], ended[1]);
    end(&s);
}

/* ---- heads of many clients ---- */

/* All but the last are of one place of the table, and its number is that of the places. */
enum { CLIENT = 2, PLACES = 128, SAME_PLACE = CLIENT + 2 * PLACES, FIRST_PLACE = 2 * PLACES };

static void test_heads(void)
{
    struct quota *q[3], *own;
    struct scene s;
    size_t before;

    begin(&s, 1);
    own = &s.one[0].holder.heads;
    q[0] = memory_heads_of(&s.one[0].holder, CLIENT);
    ok(q[0] != own && q[0]->most == LIMIT_CONNECTION_HEADS, "a client's heads are his");
    ok(s.address[0].held.held > 0, "the table is what the connection holds");
    before = s.address[0].held.held;
    quota_add(q[0], 1);
    is_u64(s.address[0].held.held, before + 1, "as they are");
    ok(memory_heads_of(&s.one[0].holder, CLIENT) == q[0], "all of them, if it is only a byte");
    q[1] = memory_heads_of(&s.one[0].holder, SAME_PLACE);
    ok(q[1] != q[0] && q[1] != own, "those of another one are not among them");
    quota_add(q[1], 1);
    ok(memory_heads_of(&s.one[0].holder, SAME_PLACE) == q[1], "but with his");
    quota_give(q[0], 1);
    ok(memory_heads_of(&s.one[0].holder, SAME_PLACE) == q[1], "also when the place before is free");
    ok(memory_heads_of(&s.one[0].holder, CLIENT) == q[0], "which is the next one's");
    q[2] = memory_heads_of(&s.one[0].holder, FIRST_PLACE);
    before = s.address[0].held.held;
    quota_add(q[2], 1);
    is_u64(s.address[0].held.held, before + 1, "no place is left out");
    quota_give(q[1], 1);
    quota_give(q[2], 1);
    end(&s);
}

static void test_more_clients_than_places(void)
{
    struct quota *q[PLACES], *own;
    unsigned theirs = 0;
    struct scene s;

    begin(&s, 1);
    own = &s.one[0].holder.heads;
    for (uint64_t i = 0; i < PLACES; i++) {
        q[i] = memory_heads_of(&s.one[0].holder, CLIENT + i * 2 * PLACES);
        quota_add(q[i], 1);
        theirs += q[i] != own;
    }
    is_u64(theirs, PLACES, "as many clients as there are places, all of which would like the same");
    ok(memory_heads_of(&s.one[0].holder, FIRST_PLACE) == own, "one more is with all others'");
    for (size_t i = 0; i < PLACES; i++)
        ok(memory_heads_of(&s.one[0].holder, CLIENT + i * 2 * PLACES) == q[i], "%zu is still where he was", i);
    for (size_t i = 0; i < PLACES; i++)
        quota_give(q[i], 1);
    end(&s);
}

/* Then they are all together. */
static void test_no_table(void)
{
    struct scene s;

    begin(&s, 1);
    mem_fail_nth(1);
    ok(memory_heads_of(&s.one[0].holder, CLIENT) == &s.one[0].holder.heads, "no memory for the table");
    mem_fail_nth(0);
    is_u64(s.address[0].held.held, 0, "nothing is held for it");
    hold(&s, 0, MOST - 1);
    ok(memory_heads_of(&s.one[0].holder, CLIENT) == &s.one[0].holder.heads, "no room for it");
    is_u64(s.address[0].held.held, MOST - 1, "nor then");
    give(&s, 0, MOST - 1);
    end(&s);
}

/* Each request that ends with a connection takes time: a look ends few of those that have many. */
static void test_many_requests(void)
{
    enum { N = 12, MUCH = MARK / N + 1 };
    static const struct {
        size_t each;
        unsigned ended;
    } cases[] = {{1, 2}, {63, 2}, {64, 1}, {1000, 1}};
    struct scene s;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(&s, 1);
        requests_of_each = cases[i].each;
        for (size_t n = 0; n < N; n++)
            hold(&s, (size_t)(enter(&s, 0) - s.one), MUCH);
        (void)looked(&s, 0);
        pass(1000);
        ok(looked(&s, 1000), "they are looked at");
        is_u64(ends, cases[i].ended, "of %zu requests each so many connections end at once", cases[i].each);
        while (memory_all(s.m)->held > ENOUGH && looked(&s, 10))
            ;
        ok(memory_all(s.m)->held <= ENOUGH, "soon it is enough");
        is_u64(ends, 2, "no more of them end");
        end(&s);
    }
    requests_of_each = 1;
}

int main(void)
{
    test_refused_at_mark();
    test_little();
    test_crowd();
    test_nobody_large();
    test_bounded();
    test_bounds();
    test_alone();
    test_set_limit();
    test_still();
    test_just_enough();
    test_share_stays();
    test_heads();
    test_more_clients_than_places();
    test_no_table();
    test_many_requests();
    return tap_end();
}
