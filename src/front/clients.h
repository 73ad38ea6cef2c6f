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

struct clients;
struct client_address;

/* Part of a connection. Zeroed before clients_enter(). */
struct client_member {
    struct list_node among_all; /* who have not asked anything, in the order in which they came */
    struct list_node of_address;
    struct client_address *address; /* NULL: not counted */
};

enum clients_verdict { CLIENTS_WELCOME, CLIENTS_TOO_MANY, CLIENTS_NO_MEMORY };

/* NULL when out of memory. */
MEM_CHECK struct clients *clients_new(void);
/* Members that have not left must not be used with it any more. */
void clients_free(struct clients *c);
/* Counts a connection, as one that has not asked anything. max: per address, 0 for no limit; an empty address (unix
 * socket) has no limit either. */
enum clients_verdict clients_enter(struct clients *c, struct client_member *m, struct slice ip, size_t max);
/* It has asked something, or is on its way out. May be called more than once. */
void clients_asked(struct clients *c, struct client_member *m);
/* Its descriptor is closed. */
void clients_leave(struct clients *c, struct client_member *m);
/* How many have not asked anything. */
size_t clients_fresh(const struct clients *c);
/* Who has to go when at most `max` (0: any number) of those may stay and `newcomer` has come; NULL: nobody. */
struct client_member *clients_surplus(const struct clients *c, const struct client_member *newcomer, size_t max);

#endif
