/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: timers, signals, what happens after a callback and after a turn. libevent underneath.
 *
 * Order inside one turn: every callback that libevent runs ends with a flush of the streams that were written to
 * (stream.h); after all callbacks of the turn the deferred queue runs. Nothing an event can still reach is freed
 * before that.
 *
 * No timer fires before what had arrived when it was due was read. The system gives no such order to a process that was
 * suspended for a while (SIGSTOP, a debugger, a frozen control group, a machine that is moved): what waited for input
 * then ends although the input is there. So after each gap, in waiting or in a turn, due timers are held until the
 * sockets were asked again and what they had is dealt with.
 */
#ifndef MVPROXY_NET_LOOP_H
#define MVPROXY_NET_LOOP_H

#include "base/list.h"
#include "base/mem.h"

struct fair_lane;
struct loop;
struct loop_timer;
struct metrics;
struct event_base;

/* Ends the process when the base cannot be made. `metrics` gets the loop-lag metrics; may be NULL. */
struct loop *loop_new(struct metrics *metrics);
/* Runs what has been put off; signals are not told of any more. */
void loop_free(struct loop *l);
/* Runs until loop_stop. */
void loop_run(struct loop *l);
void loop_stop(struct loop *l);
/* Runs at most one turn, blocking at most max_wait_ms: for tests. */
void loop_run_once(struct loop *l, uint64_t max_wait_ms);

/* Monotonic milliseconds, cached per turn. */
uint64_t loop_now_ms(const struct loop *l);

/*
 * In all, how long timers were late because this process was suspended: what others did in that time was not seen.
 * Grows after the gap, before the timers that it held fire. Counted (mvproxy_suspended_seconds_total), and from a
 * second on logged.
 */
uint64_t loop_missed_ms(const struct loop *l);

typedef void loop_fn(void *arg);

/*
 * One-shot timer. Setting a later deadline than the armed one costs nothing (it is re-armed when it fires early), so
 * pushing an idle timeout forward on every byte is fine. NULL when out of memory. Freeing is allowed anywhere,
 * also inside its own callback.
 */
MEM_CHECK struct loop_timer *loop_timer_new(struct loop *l, loop_fn *fn, void *arg);
void loop_timer_free(struct loop_timer *t);
void loop_timer_set(struct loop_timer *t, uint64_t delay_ms);
/* The same for what is set rarely: nobody is woken at the deadline before, which costs more than moving it. */
void loop_timer_move(struct loop_timer *t, uint64_t delay_ms);
void loop_timer_cancel(struct loop_timer *t);
bool loop_timer_pending(const struct loop_timer *t);

/* With whom some work of LOOP_BULK has its turns. */
struct loop_turns {
    struct slice of; /* an address, or a hash of one: with all of it. Valid when the work is queued */
    bool known;      /* apart from all whom nobody knows, however many addresses they come from */
};

/*
 * Work for the end of this turn, after all callbacks: frees, or anything that must not run inside the caller's
 * caller. The node is embedded in the object; a node that is queued already stays queued once. What is queued while
 * the queue runs, runs in the next turn (which then does not block), and so does what is left when the queue has had
 * its part of the turn.
 *
 * A node that waits for one function is never given another: the call is refused, so that a free that is queued stays
 * queued (a build with sanitizers aborts). Objects with more than one way to be called have a lifetime (lifetime.h).
 */
struct loop_deferred {
    struct list_node node;
    loop_fn *fn;
    void *arg;
    const struct loop_turns *turns; /* LOOP_BULK; NULL: its own */
    struct fair_lane *lane;         /* of a fair queue: where it waits */
};
void loop_defer(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg);
void loop_defer_cancel(struct loop *l, struct loop_deferred *d);

/* Where work waits. */
enum loop_queue {
    LOOP_DEFERRED, /* for the end of the turn */
    LOOP_AT_LEAVE, /* for the end of the outermost callback: see loop_internal.h, as for what follows */
    LOOP_BULK,     /* for its part of a turn */
    LOOP_CLOSING,  /* for a part of a turn as well, after all else: ends that nobody waits for */
    LOOP_AT_EXIT,  /* for loop_free() */
};

/* Runs fn in the loop (not in signal context) whenever the signal arrives. */
MEM_CHECK bool loop_on_signal(struct loop *l, int signo, loop_fn *fn, void *arg);

/* For the few in net/ and admin/ that need libevent itself. */
struct event_base *loop_base(struct loop *l);

#endif
