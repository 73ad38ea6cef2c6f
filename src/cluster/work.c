/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/work.h"

#include "base/clock.h"

void work_queue_init(struct work_queue *q, struct loop *l)
{
    *q = (struct work_queue){.loop = l};
    list_init(&q->waiting);
}

void work_queue_close(struct work_queue *q)
{
    while (list_pop_front(&q->waiting) != NULL)
        continue;
    loop_defer_cancel(q->loop, &q->turn);
}

static enum step do_piece(struct work *w, uint64_t start, uint64_t *now)
{
    enum step s;

    do {
        s = w->step(w->arg);
        *now = clock_us();
    } while (s == STEP_MORE && *now - start < WORK_PIECE_US);
    w->busy_us += *now - start;
    return s;
}

static void run(void *arg)
{
    struct work_queue *q = arg;
    uint64_t start = clock_us(), now = start;
    struct list_node *n;

    while (now - start < WORK_TURN_US && (n = list_pop_front(&q->waiting)) != NULL) {
        struct work *w = list_entry(n, struct work, node);
        enum step s = do_piece(w, now, &now);

        if (s == STEP_MORE)
            list_push_back(&q->waiting, &w->node);
        else
            w->over(w->arg, s == STEP_DONE);
    }
    if (q->waiting.count > 0)
        loop_defer(q->loop, &q->turn, run, q);
}

void work_start(struct work_queue *q, struct work *w, enum step (*step)(void *arg), void (*over)(void *arg, bool done),
                void *arg)
{
    w->step = step;
    w->over = over;
    w->arg = arg;
    if (!list_linked(&w->node))
        list_push_back(&q->waiting, &w->node);
    loop_defer(q->loop, &q->turn, run, q);
}

void work_cancel(struct work_queue *q, struct work *w)
{
    if (list_linked(&w->node))
        list_remove(&q->waiting, &w->node);
}
