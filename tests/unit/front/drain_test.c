/* SPDX-License-Identifier: Apache-2.0 */
/* A drain with many connections: some are told and ended in each turn. */
#include <unistd.h>

#include "lib/tap.h"
#include "unit/front/kit.h"

static void on_drained(void *arg)
{
    *(bool *)arg = true;
}

/* Beside a request that is under way: hundreds that end in one turn would have it wait. */
static void test_drain_of_many(struct front_kit *k)
{
    enum { MANY = 200, AT_ONCE = 32 };
    int raw[MANY];
    bool drained = false;
    size_t before, most = 0;

    if (k->opts.tls == NULL) /* then each has a timer of its own, too */
        return;
    front_kit_start(k);
    for (size_t i = 0; i < MANY; i++)
        raw[i] = client_raw(k);
    while (front_connections(k->front) < MANY)
        loop_run_once(k->loop, 20);
    front_drain(k->front, on_drained, &drained);
    while (!drained) {
        before = front_connections(k->front);
        loop_run_once(k->loop, 20);
        if (before - front_connections(k->front) > most)
            most = before - front_connections(k->front);
    }
    ok(most <= AT_ONCE, "as many in a turn as do not hold up others: %zu", most);
    is_double(front_kit_closed(k, "drain"), MANY, "all of them are ended");
    for (size_t i = 0; i < MANY; i++)
        close(raw[i]);
}

static const struct front_kit_story stories[] = {
    {"drain of many", test_drain_of_many},
};

int main(void)
{
    front_kit_run(stories, ROWS(stories));
    return tap_end();
}
