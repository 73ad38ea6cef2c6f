/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By makecontext() and swapcontext(), which cost a system call each: less than a microsecond for steps of one to two
 * milliseconds. They keep what the C library knows of a thread (shadow stacks, if it has them) right.
 */
#include "base/fiber.h"

#include <ucontext.h>

#include "base/contract.h"
#include "base/state.h"

#if defined(MVPROXY_SANITIZED) && !defined(MVPROXY_LEAKS_ONLY) /* LeakSanitizer knows nothing of stacks */
#include <sanitizer/common_interface_defs.h>
enum { STACK_BYTES = 8 * FIBER_STACK_BYTES }; /* frames are many times as large */
#define LEAVE_STACK(keep, bottom, size) __sanitizer_start_switch_fiber(keep, bottom, size)
#define ENTER_STACK(kept, bottom, size) __sanitizer_finish_switch_fiber(kept, bottom, size)
#else
enum { STACK_BYTES = FIBER_STACK_BYTES };
#define LEAVE_STACK(keep, bottom, size) ((void)(keep), (void)(bottom), (void)(size))
#define ENTER_STACK(kept, bottom, size) ((void)(kept), (void)(bottom), (void)(size))
#endif

/* Has the whole of its memory; this part of it is above what is pushed. */
struct fiber_stack {
    ucontext_t inside, outside;
    void *kept_inside, *kept_outside; /* by the sanitizer */
    const void *caller_bottom;
    size_t caller_size;
};

enum { ROOM = (STACK_BYTES - sizeof(struct fiber_stack)) / 64 * 64 };

static const char *const state_names[] = {
    [FIBER_NEW] = "new",   [FIBER_RUNNING] = "running", [FIBER_PAUSED] = "paused", [FIBER_CANCELLED] = "given up",
    [FIBER_DONE] = "done", [FIBER_FAILED] = "failed",
};
/* While it has a stack only its own return ends it. */
static const uint32_t state_next[] = {
    [FIBER_NEW] = STATE(FIBER_RUNNING) | STATE(FIBER_FAILED),
    [FIBER_RUNNING] = STATE(FIBER_PAUSED) | STATE(FIBER_DONE) | STATE(FIBER_FAILED),
    [FIBER_PAUSED] = STATE(FIBER_RUNNING) | STATE(FIBER_CANCELLED),
    [FIBER_CANCELLED] = STATE(FIBER_DONE) | STATE(FIBER_FAILED),
    [FIBER_DONE] = STATE(FIBER_FAILED), /* closed */
    [FIBER_FAILED] = STATE(FIBER_FAILED),
};
static const struct state_table states = STATE_TABLE("fiber", state_names, state_next);

static void move(struct fiber *f, enum fiber_state to)
{
    state_move(&states, &f->state, to);
}

void fiber_init(struct fiber *f, fiber_fn *run, void *arg, struct quota *q)
{
    *f = (struct fiber){.run = run, .arg = arg, .quota = q};
}

static char *bottom_of(struct fiber_stack *s)
{
    return (char *)s - ROOM;
}

static void go_out(struct fiber *f, bool for_good)
{
    struct fiber_stack *s = f->stack;

    LEAVE_STACK(for_good ? NULL : &s->kept_inside, s->caller_bottom, s->caller_size);
    must_hold(swapcontext(&s->inside, &s->outside) == 0);
    ENTER_STACK(s->kept_inside, &s->caller_bottom, &s->caller_size);
}

static void go_in(struct fiber *f)
{
    struct fiber_stack *s = f->stack;

    LEAVE_STACK(&s->kept_outside, bottom_of(s), (size_t)ROOM);
    must_hold(swapcontext(&s->outside, &s->inside) == 0);
    ENTER_STACK(s->kept_outside, NULL, NULL);
}

/* A context's function is given numbers. */
static void begin(unsigned high, unsigned low)
{
    struct fiber *f = (struct fiber *)((uintptr_t)high << 32 | low);

    ENTER_STACK(NULL, &f->stack->caller_bottom, &f->stack->caller_size);
    move(f, f->run(f->arg, f) ? FIBER_DONE : FIBER_FAILED);
    go_out(f, true);
}

static bool open_stack(struct fiber *f)
{
    struct fiber_stack *s;
    char *pages;

    if (!quota_take(f->quota, STACK_BYTES))
        return false;
    pages = mem_pages(STACK_BYTES);
    if (pages == NULL) {
        quota_give(f->quota, STACK_BYTES);
        return false;
    }
    s = f->stack = (struct fiber_stack *)(void *)(pages + ROOM);
    must_hold(getcontext(&s->inside) == 0);
    s->inside.uc_stack.ss_sp = pages;
    s->inside.uc_stack.ss_size = ROOM;
    makecontext(&s->inside, (void (*)(void))begin, 2, (unsigned)((uintptr_t)f >> 32), (unsigned)(uintptr_t)f);
    return true;
}

static void close_stack(struct fiber *f)
{
    mem_pages_free(bottom_of(f->stack), STACK_BYTES);
    f->stack = NULL;
    quota_give(f->quota, STACK_BYTES);
}

static bool is_over(const struct fiber *f)
{
    return f->state == FIBER_DONE || f->state == FIBER_FAILED;
}

enum step fiber_step(struct fiber *f, size_t budget)
{
    must_hold(f->state != FIBER_RUNNING && f->state != FIBER_CANCELLED);
    if (f->state == FIBER_NEW && !open_stack(f))
        move(f, FIBER_FAILED);
    if (!is_over(f)) {
        move(f, FIBER_RUNNING);
        f->left = budget;
        go_in(f);
        if (is_over(f))
            close_stack(f);
    }
    if (!is_over(f))
        return STEP_MORE;
    return f->state == FIBER_DONE ? STEP_DONE : STEP_FAILED;
}

bool fiber_pause(struct fiber *f)
{
    if (f->state == FIBER_RUNNING) {
        move(f, FIBER_PAUSED);
        go_out(f, false);
    }
    return f->state == FIBER_RUNNING;
}

void fiber_close(struct fiber *f)
{
    must_hold(f->state != FIBER_RUNNING && f->state != FIBER_CANCELLED);
    if (f->state == FIBER_PAUSED) {
        move(f, FIBER_CANCELLED);
        f->left = 0;
        go_in(f);
        must_hold(is_over(f));
        close_stack(f);
    }
    move(f, FIBER_FAILED);
}
