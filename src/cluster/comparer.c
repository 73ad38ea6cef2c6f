/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/comparer.h"

#include "base/log.h"
#include "cluster/work.h"
#include "net/loop.h"

enum { MEMORY_RETRY_MS = 500 };

struct comparer {
    struct loop *loop;
    struct work_queue *queue;
    struct work work;
    struct loop_timer *again;                  /* out of memory */
    uint64_t skewed_since_ms, uneven_since_ms; /* UINT64_MAX: that is not so */
    struct comparison *done;                   /* whose result is shown; NULL: none yet */
    struct comparison *now; /* under way; goes on to its end, so that a stream of changes keeps none from it */
    struct served *next;    /* to be compared behind it; NULL: none */
};

static void begin(void *arg);

struct comparer *comparer_new(struct loop *l, struct work_queue *w)
{
    struct comparer *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->loop = l;
    c->queue = w;
    c->skewed_since_ms = c->uneven_since_ms = UINT64_MAX;
    c->again = loop_timer_new(l, begin, c);
    if (c->again != NULL)
        return c;
    mem_free(c);
    return NULL;
}

void comparer_free(struct comparer *c)
{
    if (c == NULL)
        return;
    work_cancel(c->queue, &c->work);
    loop_timer_free(c->again);
    comparison_free(c->now);
    comparison_free(c->done);
    served_unref(c->next);
    mem_free(c);
}

static void retry_later(struct comparer *c)
{
    log_error("Out of memory for comparing what servers serve");
    if (c->next == NULL && c->now != NULL)
        c->next = served_ref(comparison_served(c->now));
    comparison_free(c->now);
    c->now = NULL;
    loop_timer_set(c->again, MEMORY_RETRY_MS);
}

static enum step do_some(void *arg)
{
    struct comparer *c = arg;

    return comparison_step(c->now, COMPARER_BUDGET);
}

static void note(const struct comparer *c, uint64_t *since_ms, bool differs)
{
    if (!differs)
        *since_ms = UINT64_MAX;
    else if (*since_ms == UINT64_MAX)
        *since_ms = loop_now_ms(c->loop);
}

static void over(void *arg, bool done)
{
    struct comparer *c = arg;

    if (!done) {
        retry_later(c);
        return;
    }
    comparison_free(c->done);
    c->done = c->now;
    c->now = NULL;
    note(c, &c->skewed_since_ms, comparer_result(c)->n_skewed > 0);
    note(c, &c->uneven_since_ms, comparer_result(c)->uneven > 0);
    begin(c);
}

/* The next one, unless one is under way. */
static void begin(void *arg)
{
    struct comparer *c = arg;

    if (c->now != NULL || c->next == NULL)
        return;
    c->now = comparison_new(c->next, c->done);
    if (c->now == NULL) {
        retry_later(c);
        return;
    }
    served_unref(c->next);
    c->next = NULL;
    work_start(c->queue, &c->work, do_some, over, c);
}

void comparer_take(struct comparer *c, struct served *s)
{
    const struct comparison *last = c->now != NULL ? c->now : c->done;
    const struct served *before = c->next != NULL ? c->next : last != NULL ? comparison_served(last) : NULL;

    if (before != NULL && served_says_same(before, s))
        return;
    served_unref(c->next);
    c->next = served_ref(s);
    begin(c);
}

const struct comparison_result *comparer_result(const struct comparer *c)
{
    static const struct comparison_result none;

    return c->done == NULL ? &none : comparison_result(c->done);
}

static uint64_t since(const struct comparer *c, uint64_t since_ms)
{
    return since_ms == UINT64_MAX ? UINT64_MAX : loop_now_ms(c->loop) - since_ms;
}

uint64_t comparer_skewed_ms(const struct comparer *c)
{
    return since(c, c->skewed_since_ms);
}

uint64_t comparer_uneven_ms(const struct comparer *c)
{
    return since(c, c->uneven_since_ms);
}

uint64_t comparer_uneven_since(const struct comparer *c, struct slice group, struct slice version)
{
    return c->done == NULL ? 0 : comparison_uneven_since(c->done, group, version);
}
