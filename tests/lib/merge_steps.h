/* SPDX-License-Identifier: Apache-2.0 */
/* A merge in steps of its own. */
#ifndef MVPROXY_TESTS_LIB_MERGE_STEPS_H
#define MVPROXY_TESTS_LIB_MERGE_STEPS_H

#include "kube/disco_merge.h"

/* To be taken by fiber_step(), and closed. */
struct merge_steps {
    struct fiber fiber;
    struct disco_merge *merge;
    struct err *err;
};

static inline bool merge_steps_run(void *arg, struct fiber *f)
{
    struct merge_steps *s = arg;

    return disco_merge_run(s->merge, f, s->err);
}

static inline void merge_steps_init(struct merge_steps *s, struct disco_merge *m, struct err *err)
{
    *s = (struct merge_steps){.merge = m, .err = err};
    fiber_init(&s->fiber, merge_steps_run, s, NULL);
}

/* How many it takes. *err is set if it failed. */
static inline size_t merge_in_steps(struct disco_merge *m, size_t budget, struct err *err)
{
    struct merge_steps s;
    size_t n = 1;

    merge_steps_init(&s, m, err);
    while (fiber_step(&s.fiber, budget) == STEP_MORE)
        n++;
    fiber_close(&s.fiber);
    return n;
}

#endif
