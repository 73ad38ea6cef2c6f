/* SPDX-License-Identifier: Apache-2.0 */
/* Very many requests that wait for one poll go on in several turns, each when its knowledge is there. */
#include "cluster/waiters.h"

#include "lib/tap.h"
#include "sim/sim_loop.h"

enum { MANY = 1000, MOST_AT_ONCE = 100 };

struct counted {
    struct waiters *w;
    struct loop *loop;
    unsigned calls, in_turn, most;
    uint64_t turn;
    bool waits_anew;
};

static void count(void *arg)
{
    struct counted *c = arg;

    c->calls++;
    c->in_turn = sim_turns(c->loop) == c->turn ? c->in_turn + 1 : 1;
    c->turn = sim_turns(c->loop);
    c->most = c->in_turn > c->most ? c->in_turn : c->most;
    if (c->waits_anew && waiters_add(c->w, count, c) == NULL)
        tap_bail("no memory");
}

static void add(struct counted *c, unsigned n)
{
    while (n-- > 0)
        if (waiters_add(c->w, count, c) == NULL)
            tap_bail("no memory");
}

static void in_turns(bool snapshot_follows)
{
    struct loop *l = loop_new(NULL);
    struct waiters w;
    struct counted c = {.w = &w, .loop = l}, later = {.w = &w, .loop = l};

    waiters_init(&w, l);
    add(&c, MANY);
    waiters_polled(&w, snapshot_follows);
    sim_run_ms(l, 1);
    is_u64(c.calls, snapshot_follows ? 0 : MANY, "called after the poll");
    if (snapshot_follows)
        waiters_published(&w);
    add(&later, 1);
    waiters_polled(&w, true);
    sim_run_ms(l, 1);
    is_u64(c.calls, MANY, "all are called in the end");
    ok(c.most <= MOST_AT_ONCE, "at most %u in a turn", c.most);
    is_u64(later.calls, 0, "but not who waits for a snapshot that is not there");
    waiters_published(&w);
    is_u64(later.calls, 1, "until it is");
    waiters_clear(&w);
    loop_free(l);
}

static void anew(void)
{
    struct loop *l = loop_new(NULL);
    struct waiters w;
    struct counted c = {.w = &w, .loop = l, .waits_anew = true};

    waiters_init(&w, l);
    add(&c, MANY);
    waiters_polled(&w, false);
    sim_run_ms(l, 1);
    is_u64(c.calls, MANY, "who waits anew is called once for each poll");
    waiters_polled(&w, false);
    waiters_clear(&w);
    sim_run_ms(l, 1);
    is_u64(c.calls, MANY, "and not when all is over");
    loop_free(l);
}

int main(void)
{
    in_turns(false);
    in_turns(true);
    anew();
    return tap_end();
}
