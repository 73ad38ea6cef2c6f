/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work for those who have no connection yet: steps of TLS handshakes. They are thousands of times as dear as what
 * provokes them, so they never hold up those who have one: each turn of the loop runs them for HANDSHAKE_TURN_US, and
 * the rest waits for the next turn.
 *
 * Between addresses they go round in a ring, whoever asks most; of one address in the order in which they came.
 */
#ifndef MVPROXY_NET_HANDSHAKE_QUEUE_H
#define MVPROXY_NET_HANDSHAKE_QUEUE_H

#include "base/list.h"
#include "base/mem.h"
#include "base/slice.h"

struct handshake_queue;
struct handshake_lane;

/* One piece of work: embedded in its object, zeroed at first. */
struct handshake_step {
    struct list_node node;
    struct handshake_lane *lane; /* NULL: does not wait */
    void (*fn)(void *arg);
    void *arg;
};

/*
 * What a turn gives to all of them together; a single step may take longer, as a signature of RSA does. Handshakes with
 * servers have a queue and a part of their own, by the servers' addresses: they are ours, and requests wait for them.
 * There the first step is to connect (dial.h).
 */
enum { HANDSHAKE_TURN_US = 250, SERVER_HANDSHAKE_TURN_US = 500 };

/* NULL when out of memory. */
MEM_CHECK struct handshake_queue *handshake_queue_new(void);
/* None may be waiting. */
void handshake_queue_free(struct handshake_queue *q);
/*
 * Queues fn(arg) once; who waits already keeps the place. `begun`: before those of the same address who have had
 * nothing yet, so that what was paid for comes to an end. Without memory for the address it shares one lane with all
 * such.
 */
void handshake_queue_add(struct handshake_queue *q, struct handshake_step *n, struct slice address, bool begun);
/* Of one that does not wait: nothing. */
void handshake_queue_cancel(struct handshake_queue *q, struct handshake_step *n);
size_t handshake_queue_waiting(const struct handshake_queue *q);
/* Takes out the next one, for the caller to run; NULL if there is none. */
struct handshake_step *handshake_queue_next(struct handshake_queue *q);

#endif
