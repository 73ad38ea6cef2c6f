/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who the clients are, by address: how many connections each has, and which connections have not asked anything yet.
 *
 * A connection that has not asked anything (half-open handshakes, silent ones, slow first heads) proves nothing and
 * costs us memory, so there is a budget for them. When it is used up the oldest of an address that has more than an
 * equal share makes room: a flood from few addresses only ever pushes out itself, and one from many is bounded.
 */
#ifndef MVPROXY_FRONT_CLIENTS_H
#define MVPROXY_FRONT_CLIENTS_H

#include "base/list.h"
#include "base/mem.h"
#include "base/slice.h"

struct churn;
struct memory;
struct quota;
struct vouched;

struct clients;
struct client_address;

/* Part of a connection. Zeroed before clients_enter(). */
struct client_member {
    struct list_node among_all; /* who have not asked anything, in the order in which they came */
    struct list_node of_address;
    struct client_address *address; /* NULL: not counted */
    bool left;
};

enum clients_verdict { CLIENTS_WELCOME, CLIENTS_TOO_MANY, CLIENTS_NO_MEMORY };

/* `memory` looks after what the addresses hold, and must outlive them; NULL: nobody does. NULL when out of memory. */
MEM_CHECK struct clients *clients_new(struct memory *memory);
/* Members that have not gone must not be used with it any more. */
void clients_free(struct clients *c);
/* Counts a connection, as one that has not asked anything. max: per address, 0 for no limit; an empty address (unix
 * socket) has no limit either. */
enum clients_verdict clients_enter(struct clients *c, struct client_member *m, struct slice ip, size_t max);
/* It has asked something, or is on its way out. May be called more than once. */
void clients_asked(struct clients *c, struct client_member *m);
/* Of one that has not: as if it had come just now. */
void clients_renew(struct clients *c, struct client_member *m);
/* Its descriptor is closed. */
void clients_leave(struct clients *c, struct client_member *m);
/* Its memory goes, after clients_leave(): nothing is charged to its address any more. */
void clients_gone(struct clients *c, struct client_member *m);
/* It has thrown away what nobody was asked for; false: those of its address have done so more than `most` times in this
 * second. */
bool clients_may_cancel(struct client_member *m, uint64_t now_ms, unsigned most);
/* Of all who ask, whatever their connections: what they have given up (exchange.c), by a seeded hash of who asks. */
struct churn *clients_given_up(struct clients *c);
/* From where somebody was let in lately. */
struct vouched *clients_vouched(struct clients *c);
/* What its address holds. */
struct quota *clients_quota(const struct client_member *m);
/*
 * Its address has more than an equal share of `max` descriptors, if somebody with another address wants one, too: by
 * two at least, so that who comes from thousands of addresses drives nobody out who has as few connections as he. What
 * is shared is what those leave who have not asked anything, by the addresses from which somebody has.
 */
bool clients_has_surplus(const struct clients *c, const struct client_member *m, size_t max);
/*
 * No address has more than twice such a share: who asks nothing for long may make room for others then. One more, with
 * requests that do not end, would take the places of those who are fair.
 */
bool clients_are_even(const struct clients *c, size_t max);
/* How many have not asked anything. */
size_t clients_fresh(const struct clients *c);
/* Who has to go when at most `max` (0: any number) of those may stay and `newcomer` has come; NULL: nobody. */
struct client_member *clients_surplus(const struct clients *c, const struct client_member *newcomer, size_t max);
/* The oldest of those, as far as a short look sees, whose address has a surplus of all descriptors; NULL: none. */
struct client_member *clients_silent_surplus(const struct clients *c, size_t max);

#endif
