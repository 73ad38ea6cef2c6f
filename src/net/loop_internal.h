/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rest of net/ needs of the loop. Nobody outside includes this.
 */
#ifndef MVPROXY_NET_LOOP_INTERNAL_H
#define MVPROXY_NET_LOOP_INTERNAL_H

#include "base/limits.h"
#include "net/buf_free_list.h"
#include "net/fair_queue.h"
#include "net/loop.h"

/*
 * Every callback that libevent makes into net/ runs between these two. Leaving the outermost one runs what was
 * queued with loop_at_leave(): that is how everything written during a callback leaves in one piece.
 */
void loop_enter(struct loop *l);
void loop_leave(struct loop *l);
/*
 * Thousands of connections may end in one moment. After so long no further callback begins in a turn: the rest of what
 * is due has the next ones, in its order.
 */
enum { EVENTS_TURN_US = 1000 };
/* The same for deferred work: all clients are told at once that a server has gone, or that this process is to end. */
enum { DEFERRED_TURN_US = 2000 };
/* The loop is awake: stamps the turn's time. loop_enter() does it; code that works before its first callback calls it
 * too. */
void loop_touch(struct loop *l);
/*
 * Work for the end of the outermost callback (or, outside of any, for the start of the next turn). A node that is
 * queued stays queued once.
 */
void loop_at_leave(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg);
void loop_at_leave_cancel(struct loop *l, struct loop_deferred *d);
/* Called by loop_free(): for what nobody owns any more but events still reach, such as a stream that lingers. */
void loop_at_exit(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg);
void loop_at_exit_cancel(struct loop *l, struct loop_deferred *d);
/* The same for each queue. */
void loop_queue(struct loop *l, enum loop_queue q, struct loop_deferred *d, loop_fn *fn, void *arg);
void loop_unqueue(struct loop *l, enum loop_queue q, struct loop_deferred *d);

/* Something that must not happen was asked of `of`, and was refused: aborts in a build with sanitizers, else logs. */
void loop_misuse(struct loop *l, const char *what, const char *of);

/* For lifetimes: timers that belong to one are a chain that begins at *first. */
struct lifetime;
void loop_timer_give(struct loop_timer *t, struct lifetime *life, struct loop_timer **first);
/* None of the chain fires any more. */
void loop_timers_end(struct loop_timer *first);
/* Memory. Only from the deferred queue, after loop_timers_end(). */
void loop_timers_free(struct loop_timer *first);

/*
 * For a timer that is due, and late by so much: whether it has to wait until what has arrived is read (see loop.h).
 * Then `late`, whose function is set, is called once.
 */
bool loop_hold_timer(struct loop *l, struct loop_deferred *late, uint64_t late_ms);
void loop_release_timer(struct loop *l, struct loop_deferred *late);

/* Number of the turn, from 1. */
uint64_t loop_turn(const struct loop *l);

/*
 * One receive buffer for all streams of the loop. Who leaves bytes in it is its holder, and is told to take them
 * away (evict) when somebody else needs it.
 */
struct recv_area {
    void (*evict)(void *holder);
    void *holder;
    char bytes[LIMIT_STREAM_READ_TURN];
};
/* The area, free for the caller's use. */
struct recv_area *loop_recv_area(struct loop *l);
/* The same, whoever holds it. */
struct recv_area *loop_recv_area_peek(struct loop *l);

/* The memory that writing buffers share. */
struct buf_free_list *loop_free_list(struct loop *l);

/*
 * Steps of handshakes are thousands of times as dear as what provokes them, so they never hold up those who have a
 * connection: they have so much of each turn, all together; a single step may take longer, as a signature of RSA does.
 * Handshakes with servers have a queue and a part of their own, by the servers' addresses: they are ours, and requests
 * wait for them. There the first step is to connect (dial.h).
 */
enum { HANDSHAKE_TURN_US = 250, SERVER_HANDSHAKE_TURN_US = 500 };
struct fair_queue *loop_handshakes(struct loop *l);
struct fair_queue *loop_server_handshakes(struct loop *l);

/* As given to loop_new(); may be NULL. */
struct metrics *loop_metrics(const struct loop *l);

/*
 * Work that moves much: what it takes in a turn is limited, so that whoever asks for little does not wait for it. Each
 * turn does BULK_TURN_US of it, and a third of the turn if all else takes long; at least one piece. What is left over
 * waits for the next turn, which does not block. A node that is queued keeps its place.
 *
 * Strangers, known clients and what is no client's (loop_turns) take turns; among these addresses do, and what has none
 * is like one for itself; of one address the oldest comes first. A turn that does work of others does one piece of a
 * stranger's. The same holds for LOOP_CLOSING, but that there the oldest of all comes first.
 */
enum { BULK_TURN_US = 500 };
/* Within the last tenth of a second a turn took so long, or left events to the next: strangers have to wait for their
 * part then, whatever they want. */
enum { STRAINED_TURN_US = 5000, STRAINED_US = 100000 };
bool loop_is_strained(const struct loop *l);
void loop_bulk(struct loop *l, struct loop_deferred *d, loop_fn *fn, void *arg);
void loop_bulk_cancel(struct loop *l, struct loop_deferred *d);

/* The resolver is made at its first use (dial.c) and lives as long as the loop. */
void *loop_resolver(const struct loop *l);
void loop_set_resolver(struct loop *l, void *resolver, void (*release)(void *resolver));

#endif
