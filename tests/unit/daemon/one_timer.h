/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of net/loop.h, for what asks it for the time and for one timer only: linked in its stead.
 */
#ifndef MVPROXY_TESTS_UNIT_DAEMON_ONE_TIMER_H
#define MVPROXY_TESTS_UNIT_DAEMON_ONE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct one_timer {
    uint64_t now_ms, due_ms; /* due_ms: when it is to be called; 0: never */
    void (*fn)(void *arg);
    bool no_memory;
};

/* The one there is. */
struct one_timer *one_timer(void);

/* To the moment for which it is set; ends the test if it is not. */
void one_timer_fire(void *arg);

#endif
