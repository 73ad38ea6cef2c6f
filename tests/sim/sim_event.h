/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for libevent below src/net/loop.c: the test turns the clock, and says in which order the events that are
 * due in one turn are called. The real loop, its timers and lifetimes run on it unchanged; streams, listeners and dials
 * are simulated (sim_net.h) and announce themselves as sources.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_EVENT_H
#define MVPROXY_TESTS_SIM_SIM_EVENT_H

#include "net/loop.h"

/* Something that can be ready, as a descriptor is: asked once in each turn, and again just before it is called. */
struct sim_source {
    struct list_node node, due;
    struct loop *loop;
    bool (*ready)(void *arg);
    loop_fn *run;
    void *arg;
};

void sim_source_add(struct loop *l, struct sim_source *s, bool (*ready)(void *arg), loop_fn *run, void *arg);
void sim_source_remove(struct sim_source *s); /* of one that was not added: nothing */

/*
 * Descriptors for reading, for tests of what watches them itself. As by libevent with its list of changes, the kernel
 * is told when a turn begins. `readable` is asked once in each turn of what the kernel watches. Without this they are
 * not looked at.
 */
typedef bool sim_readable_fn(void *arg, int fd);
void sim_descriptors(struct loop *l, sim_readable_fn *readable, void *arg);
/* Whether it would wake the loop, however the descriptor fares. */
bool sim_kernel_watches(const struct loop *l, int fd);

/* Which of the n >= 2 events that are due comes next, 0 to n - 1. NULL: timers last, else as they came. */
typedef size_t sim_order_fn(void *arg, size_t n);
void sim_order(struct loop *l, sim_order_fn *fn, void *arg);

/* Sets the clock of base/clock.h; before loop_new(). */
void sim_clock_start(void);
/* Lets time pass without running anything: what falls due waits for the next turn. */
void sim_pass_ms(uint64_t ms);
/* The same in a process that is never idle: the loop turns meanwhile, but not at the end. So what falls due then and
 * what the test does then meet in one turn; after a pause without turns the loop reads all that has arrived before
 * timers are called. */
void sim_pass_busy_ms(struct loop *l, uint64_t ms);
/* One turn at the present time; how many events were called. Queued work alone counts as none. */
size_t sim_turn(struct loop *l);
/* Milliseconds to the next timer that is set; UINT64_MAX: there is none. */
uint64_t sim_next_timer_ms(const struct loop *l);
/* Turns until nothing is due and nothing was done in two of them, at most `most`; false if it never comes to rest. */
bool sim_settle(struct loop *l, unsigned most);

#endif
