/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an object that events can reach: a connection, a stream, a dial, a request under way. Whatever the event
 * loop or another object can call it through belongs to its lifetime: timers, queued work, and, as guests, everything
 * else that has a cancel function (a dial, a place in a queue, an event of libevent).
 *
 *   lifetime_init(&c->life, l, "HTTP/1.1 connection");
 *   lifetime_work_init(&c->life, &c->wake, LOOP_DEFERRED, on_wake, c);
 *   c->timer = lifetime_timer(&c->life, on_timer, c);
 *   ...
 *   lifetime_retire(&c->life, free_conn, c);
 *
 * lifetime_retire() cancels all of it and queues the one call of the free function, for the end of this turn or, from
 * inside the deferred queue or where much is queued before it, of one to come. From then on nothing of the object can
 * be armed or queued, and nothing calls it but that. So an object is freed once, no event comes between its end and the
 * free, and no forgotten timer outlives it, whatever order the events of a turn have. Also the way out of a constructor
 * that fails half way.
 *
 * What is asked for after the end is refused always, in every build, which is why it does no harm; a build with
 * sanitizers (the tests, the fuzzers) aborts with a message as well, since it is a mistake. Others log it, the first
 * few times, and go on: whoever found a way to provoke it must not be able to end everybody's connections by it.
 *
 * Costs: a comparison when something is armed or queued. No allocation but for timers.
 */
#ifndef MVPROXY_NET_LIFETIME_H
#define MVPROXY_NET_LIFETIME_H

#include "net/loop.h"

struct lifetime;

/* Work of an object, embedded in it; what it calls and on which queue it waits are fixed when it is made. */
struct lifetime_work {
    struct loop_deferred node;
    struct lifetime *life;
    struct lifetime_work *next;
    enum loop_queue queue;
};

/* Something else that calls the object, embedded in it, zeroed at first. */
struct lifetime_guest {
    struct list_node node;
    struct lifetime *life;
    void (*cancel)(void *arg);
    void *arg;
};

struct lifetime {
    struct loop *loop;
    const char *what; /* for the log */
    struct lifetime_work *works;
    struct loop_timer *timers;
    struct list guests;
    loop_fn *free_fn; /* NULL: alive */
    void *free_arg;
    struct loop_deferred free_work;
};

/* `what` is a literal that says whose life it is. */
void lifetime_init(struct lifetime *life, struct loop *l, const char *what);
/*
 * The end, once: a second call is refused. Guests are cancelled in the order opposite to that of their coming; their
 * cancel functions may still use the object. free_fn frees the memory that `life` is in. It must not free the timers.
 */
void lifetime_retire(struct lifetime *life, loop_fn *free_fn, void *arg);
static inline bool lifetime_over(const struct lifetime *life)
{
    return life->free_fn != NULL;
}

/*
 * A timer that belongs to the object: loop_timer_set() and the like work on it, and are refused after the end. The
 * pointer stays valid until the object is freed. loop_timer_free() is possible before the end, not needed, and does
 * nothing after it. NULL when out of memory, or after the end.
 */
MEM_CHECK struct loop_timer *lifetime_timer(struct lifetime *life, loop_fn *fn, void *arg);

/* Once for each work, after lifetime_init(). Not for work that is freed before its object. */
void lifetime_work_init(struct lifetime *life, struct lifetime_work *w, enum loop_queue queue, loop_fn *fn, void *arg);
/* Of LOOP_BULK: with whom it takes turns (loop_deferred). */
static inline void lifetime_work_share(struct lifetime_work *w, const struct loop_turns *turns)
{
    w->node.turns = turns;
}
/* Work that waits keeps its place. */
void lifetime_queue(struct lifetime_work *w);
void lifetime_cancel(struct lifetime_work *w);
bool lifetime_queued(const struct lifetime_work *w);

/*
 * cancel(arg) at the end, unless it is released before; after the end, at once. A guest that is there already is
 * replaced in its place.
 */
void lifetime_guest(struct lifetime *life, struct lifetime_guest *g, void (*cancel)(void *arg), void *arg);
/* It has gone by itself. Of one that is not there: nothing. */
void lifetime_release(struct lifetime_guest *g);

#endif
