/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long work in a straight line. It runs on a stack of its own, and says what each part of it cost (fiber_spend); when
 * its budget is used up it is put aside there, in the middle of whatever it does, until the next step (base/step.h).
 * Who has a `struct fiber *` among his parameters may be put aside, nobody else.
 *
 * What is on its stack lives until the work is over. Work that is given up is told so: fiber_spend() returns false from
 * then on, and it returns at once by way of its error paths, which free what it owns. So it owns things as any function
 * does, and nothing can be left on a stack that is gone.
 */
#ifndef MVPROXY_BASE_FIBER_H
#define MVPROXY_BASE_FIBER_H

#include "base/mem.h"
#include "base/step.h"

enum { FIBER_STACK_BYTES = 64 << 10 }; /* of which only those that are used become resident */

struct fiber;
struct fiber_stack;

/* Whether it has come to its end; `f` is for fiber_spend(). */
typedef bool fiber_fn(void *arg, struct fiber *f);

enum fiber_state { FIBER_NEW, FIBER_RUNNING, FIBER_PAUSED, FIBER_CANCELLED, FIBER_DONE, FIBER_FAILED };

/* Embedded in what it works on; it must not move between its first step and its end. */
struct fiber {
    fiber_fn *run;
    void *arg;
    struct quota *quota;
    enum fiber_state state;
    struct fiber_stack *stack; /* from the first step until it is over */
    size_t left;               /* of the budget */
};

/* Takes nothing yet. The stack, FIBER_STACK_BYTES, will be charged to `q`; NULL: nobody counts. */
void fiber_init(struct fiber *f, fiber_fn *run, void *arg, struct quota *q);
/*
 * Goes on until `budget` is spent, in whatever the work counts in. STEP_DONE and STEP_FAILED: it returned true or
 * false, its stack is gone, and that is what all further steps say. STEP_FAILED without anything done: out of memory.
 */
enum step fiber_step(struct fiber *f, size_t budget);
/* Frees the stack, once the work has returned if it has begun. Zeroed, or closed before, is fine. */
void fiber_close(struct fiber *f);

bool fiber_pause(struct fiber *f);

/* So what failed is no failure. */
static inline bool fiber_is_given_up(const struct fiber *f)
{
    return f != NULL && f->state == FIBER_CANCELLED;
}

/*
 * From inside: n of the budget is spent, so the work may be put aside here. False: it is given up. NULL is fine: work
 * that is done in one go.
 */
MEM_CHECK static inline bool fiber_spend(struct fiber *f, size_t n)
{
    if (f == NULL)
        return true;
    if (n < f->left) {
        f->left -= n;
        return true;
    }
    return fiber_pause(f);
}

#endif
