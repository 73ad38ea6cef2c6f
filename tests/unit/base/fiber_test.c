/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fiber.h"

#include <sys/wait.h>
#include <unistd.h>

#include "lib/died.h"
#include "lib/tap.h"

/* Counts in a loop within a loop, and owns memory while it does. */
struct count {
    struct fiber fiber, *within; /* it steps that one, between two of its own */
    size_t rounds, done;
    bool fails, freed;
};

static bool count_round(struct count *c, struct fiber *f)
{
    for (size_t i = 0; i < 10; i++) {
        c->done++;
        if (c->within != NULL)
            (void)fiber_step(c->within, 1);
        if (!fiber_spend(f, 1))
            return false;
    }
    return true;
}

static bool count(void *arg, struct fiber *f)
{
    struct count *c = arg;
    char *own = mem_strdup("own");
    bool good = own != NULL;

    for (size_t i = 0; good && i < c->rounds; i++)
        good = count_round(c, f);
    mem_free(own);
    c->freed = own != NULL;
    return good && !c->fails;
}

static void begin(struct count *c, size_t rounds)
{
    *c = (struct count){.rounds = rounds};
    fiber_init(&c->fiber, count, c, NULL);
}

static void steps(void)
{
    struct count c;

    begin(&c, 3);
    is_int(fiber_step(&c.fiber, 7), STEP_MORE, "it is put aside");
    is_int(c.done, 7, "when its budget is used up");
    is_int(fiber_step(&c.fiber, 15), STEP_MORE, "and goes on");
    is_int(c.done, 22, "where it was");
    is_int(fiber_step(&c.fiber, 0), STEP_MORE, "without a budget");
    is_int(c.done, 23, "up to the next place where it may be put aside");
    ok(!c.freed, "what it owns is there");
    is_int(fiber_step(&c.fiber, SIZE_MAX), STEP_DONE, "to its end");
    is_int(c.done, 30, "and does all of it");
    ok(c.freed && c.fiber.stack == NULL, "then it has freed what it owned, and its stack is gone");
    is_int(fiber_step(&c.fiber, 1), STEP_DONE, "it stays over");
    fiber_close(&c.fiber);

    begin(&c, 1);
    c.fails = true;
    is_int(fiber_step(&c.fiber, SIZE_MAX), STEP_FAILED, "it fails");
    is_int(fiber_step(&c.fiber, SIZE_MAX), STEP_FAILED, "and stays so");
    fiber_close(&c.fiber);

    begin(&c, 3);
    ok(count(&c, NULL), "the same in one go, by a call");
    is_int(c.done, 30, "which does all of it");
}

static void giving_up(void)
{
    struct fiber none = {.run = NULL};
    struct count c;

    begin(&c, 3);
    fiber_close(&c.fiber);
    is_int(c.done, 0, "what has not begun does not when it is given up");
    begin(&c, 3);
    is_int(fiber_step(&c.fiber, 12), STEP_MORE, "in the middle");
    fiber_close(&c.fiber);
    is_int(c.done, 12, "nothing more is done");
    ok(c.freed, "but what it owned is freed");
    fiber_close(&c.fiber);
    fiber_close(&none);
    ok(true, "a second time, and zeroed, is fine");
}

static void within(void)
{
    struct count inner, outer;

    begin(&inner, 2);
    begin(&outer, 1);
    outer.within = &inner.fiber;
    is_int(fiber_step(&outer.fiber, 4), STEP_MORE, "one may step another one");
    is_int(inner.done, 4, "which gets as far");
    is_int(fiber_step(&inner.fiber, 2), STEP_MORE, "and goes on from elsewhere as well");
    is_int(fiber_step(&outer.fiber, SIZE_MAX), STEP_DONE, "to the end of the outer one");
    is_int(inner.done, 12, "each at its place");
    fiber_close(&outer.fiber);
    fiber_close(&inner.fiber);
    ok(inner.freed, "nothing is left of either");
}

static void memory(void)
{
    struct quota q;
    struct count c;
    uint64_t calls;

    quota_init(&q, NULL, 0);
    begin(&c, 1);
    c.fiber.quota = &q;
    is_int(fiber_step(&c.fiber, 1), STEP_MORE, "begun");
    ok(q.held >= FIBER_STACK_BYTES, "its stack is charged");
    fiber_close(&c.fiber);
    is_int(q.held, 0, "and given back");

    q.most = FIBER_STACK_BYTES - 1;
    begin(&c, 1);
    c.fiber.quota = &q;
    is_int(fiber_step(&c.fiber, 1), STEP_FAILED, "without room it fails");
    is_int(fiber_step(&c.fiber, 1), STEP_FAILED, "once and for all");
    is_int(c.done + q.held, 0, "with nothing done or charged");
    fiber_close(&c.fiber);

    quota_init(&q, NULL, 0);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        begin(&c, 1);
        c.fiber.quota = &q;
        calls = mem_calls();
        mem_fail_nth(nth);
        is_int(fiber_step(&c.fiber, 1), STEP_FAILED, "allocation %d fails", (int)nth);
        is_int(mem_calls() - calls, nth, "that of the stack is the first");
        is_int(q.held, 0, "nothing stays charged");
        fiber_close(&c.fiber);
    }
}

/* ---- what must not happen ---- */

static bool step_itself(void *arg, struct fiber *f)
{
    (void)arg;
    return fiber_step(f, 1) == STEP_DONE;
}

static void run_one(void *arg)
{
    struct fiber *f = arg;

    (void)fiber_step(f, 1);
}

static size_t deep(volatile char *before, size_t n)
{
    volatile char here[1024];

    here[0] = (char)(n + (before == NULL ? 0 : (size_t)before[0]));
    return n == 0 ? 0 : (size_t)here[0] + deep(here, n - 1);
}

static bool too_deep(void *arg, struct fiber *f)
{
    (void)arg;
    return deep(NULL, (size_t)1 << 20) > 0 && fiber_spend(f, 1);
}

static bool overflow_ends_the_process(void)
{
    struct fiber f;
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        (void)close(STDERR_FILENO);
        fiber_init(&f, too_deep, NULL, NULL);
        (void)fiber_step(&f, 1);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && (!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

int main(void)
{
    struct fiber f;
    char said[1024];

    steps();
    giving_up();
    within();
    memory();
    fiber_init(&f, step_itself, NULL, NULL);
    ok(died(run_one, &f, said, sizeof(said)), "work that steps itself ends the process");
    ok(overflow_ends_the_process(), "so does a stack that is too short");
    return tap_end();
}
