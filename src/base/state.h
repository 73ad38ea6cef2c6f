/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States that move by a table: which state may follow which is data, one function of the module moves, and a move that
 * the table does not have ends the process (log line with both names, then abort: contract.h): what follows from a
 * state that cannot be is not known to be safe.
 *
 *   enum door { DOOR_OPEN, DOOR_SHUT, DOOR_LOCKED };
 *   static const char *const door_names[] = {[DOOR_OPEN] = "open", [DOOR_SHUT] = "shut", [DOOR_LOCKED] = "locked"};
 *   static const uint32_t door_next[] = {
 *       [DOOR_OPEN] = STATE(DOOR_SHUT),
 *       [DOOR_SHUT] = STATE(DOOR_OPEN) | STATE(DOOR_LOCKED),
 *       [DOOR_LOCKED] = STATE(DOOR_SHUT),
 *   };
 *   static const struct state_table doors = STATE_TABLE("door", door_names, door_next);
 *
 *   static void move(struct door *d, enum door to)
 *   {
 *       state_move(&doors, &d->state, to);
 *   }
 *
 * A state may follow itself only if the table says so. What has reached a state without a successor stays there.
 */
#ifndef MVPROXY_BASE_STATE_H
#define MVPROXY_BASE_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct state_table {
    const char *what;         /* whose states */
    const char *const *names; /* by state */
    const uint32_t *next;     /* by state: those that may follow, as bits */
    unsigned count;
};

#define STATE(s) (1U << (s))

/* Both arrays have one element for each state, at most 32. */
#define STATE_TABLE(of, state_names, state_next)                                                                       \
    {                                                                                                                  \
        .what = (of), .names = (state_names), .next = (state_next),                                                    \
        .count = sizeof(state_next) / sizeof((state_next)[0]) +                                                        \
                 0 * sizeof(char[sizeof(state_next) / sizeof((state_next)[0]) <= 32 &&                                 \
                                         sizeof(state_names) / sizeof((state_names)[0]) ==                             \
                                             sizeof(state_next) / sizeof((state_next)[0])                              \
                                     ? 1                                                                               \
                                     : -1])                                                                            \
    }

static inline bool state_may(const struct state_table *t, unsigned from, unsigned to)
{
    return from < t->count && to < t->count && (t->next[from] >> to & 1) != 0;
}

/* Logs and aborts. */
void state_illegal(const struct state_table *t, unsigned from, unsigned to, const char *file, int line)
    __attribute__((noreturn, cold));

/* `at` points to the enum. */
#define state_move(table, at, to)                                                                                      \
    do {                                                                                                               \
        if (!state_may((table), (unsigned)*(at), (unsigned)(to)))                                                      \
            state_illegal((table), (unsigned)*(at), (unsigned)(to), __FILE__, __LINE__);                               \
        *(at) = (to);                                                                                                  \
    } while (0)

#endif
