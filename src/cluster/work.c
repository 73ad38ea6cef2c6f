/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/work.h"

#include "base/clock.h"

void work_queue_init(struct work_queue *q, struct loop *l)
{
    *q = (struct work_queue){.loop = l};
    list_init(&q->pieces);
}

void work_queue_close(struct work_queue *q)
{
    while (list_pop_front(&q->pieces) != NULL)
        continue;
    loop_defer_cancel(q->loop, &q->turn);
}

static void run(void *arg)
{
    struct work_queue *q = arg;
    uint64_t start = clock_us();
    struct list_node *n;

    for (unsigned i = 0; i < WORK_PIECES_PER_TURN && (n = list_pop_front(&q->pieces)) != NULL; i++) {
        struct work *w = list_entry(n, struct work, node);

        w->fn(w->arg);
        if (clock_us() - start >= WORK_LONG_US)
            break;
    }
    if (q->pieces.count > 0)
        loop_defer(q->loop, &q->turn, run, q);
}

void work_add(struct work_queue *q, struct work *w, void (*fn)(void *arg), void *arg)
{
    w->fn = fn;
    w->arg = arg;
    if (!list_linked(&w->node))
        list_push_back(&q->pieces, &w->node);
    loop_defer(q->loop, &q->turn, run, q);
}

void work_cancel(struct work_queue *q, struct work *w)
{
    if (list_linked(&w->node))
        list_remove(&q->pieces, &w->node);
}
