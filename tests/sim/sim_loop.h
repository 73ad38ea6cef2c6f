/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated loop: the contract of net/loop.h on a virtual clock. A second passes in microseconds, the same way
 * every time. Link it instead of libnet.
 */
#ifndef MVPROXY_TESTS_SIM_SIM_LOOP_H
#define MVPROXY_TESTS_SIM_SIM_LOOP_H

#include "net/loop.h"

/* Lets the virtual time pass, running everything that falls due, in order. base/clock.h follows. */
void sim_run_ms(struct loop *l, uint64_t ms);
/* Runs until `done` says true, at most so long; the result is what it said last. */
bool sim_run_until(struct loop *l, uint64_t max_ms, bool (*done)(void *arg), void *arg);
/* Time passes in which nothing of this loop runs: its process was stopped. What is due then is late. */
void sim_pause_ms(struct loop *l, uint64_t ms);
/* Turns (a timer's callback and what was deferred in it) since the start. */
uint64_t sim_turns(const struct loop *l);
/* Seeds the jitter (base/random.h's numbers): the same seed gives the same run. */
void sim_seed(uint64_t seed);

#endif
