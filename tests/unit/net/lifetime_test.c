/* SPDX-License-Identifier: Apache-2.0 */
/* An object with everything that can call it, and its end in every order. */
#include "net/lifetime.h"

#include <stdlib.h>

#include "base/mem.h"
#include "lib/died.h"
#include "lib/tap.h"
#include "unit/net/fixture.h"

enum way { TIMER, DEFERRED, AT_LEAVE, BULK, CLOSING, AT_EXIT, GUEST, N_WAYS };
enum { N_WORKS = AT_EXIT - DEFERRED + 1 };

struct object {
    struct lifetime life;
    struct loop_timer *timer;
    struct lifetime_work works[N_WORKS];
    struct lifetime_guest guest;
    enum way end_in; /* N_WAYS: in none */
    bool over;
    unsigned late, frees, cancels;
    unsigned called[N_WAYS];
    struct object *next; /* they are kept, so that a late call is counted and not a fault */
};

struct probe {
    struct object *o;
    enum way way;
};

static void free_object(void *arg)
{
    struct object *o = arg;

    o->frees++;
}

static void end(struct object *o)
{
    o->over = true;
    lifetime_retire(&o->life, free_object, o);
}

static void called(struct object *o, enum way way)
{
    o->called[way]++;
    o->late += o->over;
    if (o->end_in == way && !o->over)
        end(o);
}

static void on_timer(void *arg)
{
    called(arg, TIMER);
}

static void on_deferred(void *arg)
{
    called(arg, DEFERRED);
}

static void on_leave(void *arg)
{
    called(arg, AT_LEAVE);
}

static void on_bulk(void *arg)
{
    called(arg, BULK);
}

static void on_closing(void *arg)
{
    called(arg, CLOSING);
}

static void on_exit_(void *arg)
{
    called(arg, AT_EXIT);
}

static void cancel_guest(void *arg)
{
    struct object *o = arg;

    o->cancels++;
}

static struct object *make(struct loop *l, struct object **all)
{
    static loop_fn *const fns[N_WORKS] = {on_deferred, on_leave, on_bulk, on_closing, on_exit_};
    struct object *o = must_zalloc(sizeof(*o));

    o->end_in = N_WAYS;
    o->next = *all;
    *all = o;
    lifetime_init(&o->life, l, "object");
    for (unsigned i = 0; i < N_WORKS; i++)
        lifetime_work_init(&o->life, &o->works[i], (enum loop_queue)(LOOP_DEFERRED + i), fns[i], o);
    o->timer = lifetime_timer(&o->life, on_timer, o);
    if (o->timer == NULL)
        tap_bail("no timer");
    return o;
}

static void arm(struct object *o, enum way way)
{
    switch (way) {
    case TIMER:
        loop_timer_set(o->timer, 0);
        break;
    case GUEST:
        lifetime_guest(&o->life, &o->guest, cancel_guest, o);
        break;
    default:
        lifetime_queue(&o->works[way - DEFERRED]);
        break;
    }
}

static void turns(struct loop *l)
{
    for (int i = 0; i < 3; i++)
        loop_run_once(l, 0);
}

/* The k-th order of 0 .. n-1. */
static void order(unsigned k, unsigned n, unsigned *out)
{
    for (unsigned i = 0; i < n; i++)
        out[i] = i;
    for (unsigned i = 0; i < n; i++) {
        unsigned left = n - i, pick = i + k % left, was = out[pick];

        k /= left;
        for (; pick > i; pick--)
            out[pick] = out[pick - 1];
        out[i] = was;
    }
}

/* Armed in each order, and ended after each number of them. */
static void test_ended_outside(struct loop *l, struct object **all)
{
    unsigned wrong = 0;

    for (unsigned k = 0; k < 5040; k++) {
        struct object *o = make(l, all);
        unsigned o_of[N_WAYS + 1], i = 0;
        bool guest = false;

        order(k, N_WAYS + 1, o_of);
        for (; o_of[i] != N_WAYS; i++) {
            arm(o, (enum way)o_of[i]);
            guest |= o_of[i] == GUEST;
        }
        end(o);
        wrong += o->frees != 0 || o->cancels != guest;
        turns(l);
        wrong += o->frees != 1 || o->late != 0;
        for (unsigned w = 0; w < N_WAYS; w++)
            wrong += o->called[w] != 0;
    }
    is_u64(wrong, 0, "ended outside of the loop, after whatever was armed: freed once, never called");
}

/* All armed, in each order, and ended by each of those that are called. */
static void test_ended_inside(struct loop *l, struct object **all)
{
    static const enum way by[] = {TIMER, DEFERRED, AT_LEAVE, BULK};

    for (unsigned b = 0; b < ROWS(by); b++) {
        unsigned wrong = 0;

        for (unsigned k = 0; k < 720; k++) {
            struct object *o = make(l, all);
            unsigned o_of[N_WAYS];

            order(k, N_WAYS, o_of);
            o->end_in = by[b];
            for (unsigned i = 0; i < N_WAYS; i++)
                arm(o, (enum way)o_of[i]);
            turns(l);
            wrong += o->frees != 1 || o->late != 0 || o->cancels != 1 || o->called[by[b]] != 1;
            wrong += o->called[AT_EXIT] != 0;
        }
        is_u64(wrong, 0, "ended by way %u: freed once, not called again", by[b]);
    }
}

static void test_alive(struct loop *l, struct object **all)
{
    struct object *o = make(l, all);

    for (enum way w = TIMER; w < N_WAYS; w++)
        arm(o, w);
    arm(o, DEFERRED);
    arm(o, GUEST);
    ok(lifetime_queued(&o->works[0]), "queued work says so");
    lifetime_cancel(&o->works[1]);
    turns(l);
    is_u64(o->called[TIMER], 1, "a timer fires");
    is_u64(o->called[DEFERRED], 1, "queued twice: runs once");
    is_u64(o->called[AT_LEAVE], 0, "cancelled: does not");
    is_u64(o->called[BULK], 1, "bulk work runs");
    ok(!lifetime_queued(&o->works[0]) && !lifetime_over(&o->life), "and all goes on");
    loop_timer_free(o->timer);
    lifetime_release(&o->guest);
    lifetime_release(&o->guest);
    end(o);
    ok(lifetime_over(&o->life), "the end can be asked for");
    turns(l);
    is_u64(o->cancels, 0, "a guest that has gone is not cancelled");
    is_u64(o->frees, 1, "a timer that was freed before is no matter");
}

struct guests {
    struct lifetime_guest g[3];
    char gone[4];
    size_t n;
};

static void note_0(void *arg)
{
    struct guests *g = arg;

    g->gone[g->n++] = '0';
}

static void note_1(void *arg)
{
    struct guests *g = arg;

    g->gone[g->n++] = '1';
    lifetime_release(&g->g[0]);
}

static void note_2(void *arg)
{
    struct guests *g = arg;

    g->gone[g->n++] = '2';
}

static void test_guests(struct loop *l, struct object **all)
{
    struct object *o = make(l, all);
    struct guests g = {.n = 0};

    lifetime_guest(&o->life, &g.g[0], note_0, &g);
    lifetime_guest(&o->life, &g.g[1], note_1, &g);
    lifetime_guest(&o->life, &g.g[2], note_2, &g);
    end(o);
    is_str(g.gone, "21", "guests go in the opposite order, and one may take another with it");
    turns(l);
}

/* What must be refused, in a child, since a build with sanitizers aborts at it. */
enum misuse { SET, MOVE, MAKE_TIMER, QUEUE, TAKE_IN, END_AGAIN, REPLACE, N_MISUSES };

struct attempt {
    struct loop *loop;
    struct object *o;
    enum misuse what;
    unsigned cancels;
};

static void count_cancel(void *arg)
{
    struct attempt *a = arg;

    a->cancels++;
}

static void misuse(struct attempt *a)
{
    static struct lifetime_guest guest;
    struct object *o = a->o;

    switch (a->what) {
    case SET:
        loop_timer_set(o->timer, 0);
        break;
    case MOVE:
        loop_timer_move(o->timer, 0);
        break;
    case MAKE_TIMER:
        o->late += lifetime_timer(&o->life, on_timer, o) != NULL;
        break;
    case QUEUE:
        for (unsigned i = 0; i < ROWS(o->works); i++)
            lifetime_queue(&o->works[i]);
        break;
    case TAKE_IN:
        lifetime_guest(&o->life, &guest, count_cancel, a);
        o->late += a->cancels != 1;
        break;
    case END_AGAIN:
        lifetime_retire(&o->life, on_timer, o);
        break;
    default:
        loop_defer(a->loop, &o->life.free_work, on_timer, o);
        break;
    }
}

/* Ends with abort() where something came of it. */
static void attempt(void *arg)
{
    struct attempt *a = arg;

    end(a->o);
    misuse(a);
    loop_timer_free(a->o->timer);
    loop_timer_cancel(a->o->timer);
    turns(a->loop);
    if (a->o->late != 0 || a->o->frees != 1)
        abort();
}

static void test_refused(struct loop *l, struct object **all)
{
    static const char *const names[] = {"setting a timer", "moving a timer", "making a timer",    "queueing",
                                        "taking in",       "a second end",   "replacing the free"};
    char said[2048];

    for (unsigned m = 0; m < N_MISUSES; m++) {
        struct attempt a = {.loop = l, .o = make(l, all), .what = (enum misuse)m};
        bool dead = died(attempt, &a, said, sizeof(said));

#ifdef MVPROXY_SANITIZED
        ok(dead, "%s after the end aborts", names[m]);
#else
        ok(!dead, "%s after the end is refused", names[m]);
#endif
        ok(strstr(said, "Refused by the event loop") != NULL, "and logged");
        end(a.o);
    }
    turns(l);
}

static void test_no_memory(struct loop *l, struct object **all)
{
    struct object *o = make(l, all);

    mem_fail_nth(1);
    is_null(lifetime_timer(&o->life, on_timer, o), "no memory for a timer");
    mem_fail_nth(0);
    end(o);
    turns(l);
    is_u64(o->frees, 1, "which is no hindrance to the end");
}

int main(void)
{
    struct loop *l = loop_new(NULL);
    struct object *all = NULL;
    unsigned late = 0;

    test_alive(l, &all);
    test_guests(l, &all);
    test_ended_outside(l, &all);
    test_ended_inside(l, &all);
    test_refused(l, &all);
    test_no_memory(l, &all);
    loop_free(l);
    for (struct object *o = all, *next; o != NULL; o = next) {
        next = o->next;
        late += o->late + o->called[AT_EXIT];
        mem_free(o);
    }
    is_u64(late, 0, "the end of the loop calls none of them");
    return tap_end();
}
