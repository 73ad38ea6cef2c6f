/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients make us hold: how much each connection, each address and all of them together, and what is done when it
 * is too much. Memory is charged where it is allocated (base/quota.h): arenas of requests, bodies that wait, what waits
 * in the streams, of connections to servers as well while they serve one request, the state of HTTP/2 sessions, an
 * estimate for TLS. Not in it: the kernel's buffers.
 *
 * Beyond seven eighths of the limit new requests of addresses that hold more than an equal share are refused, and so is
 * the rest of heads that are still coming, and their connections end: those that hold much and move little, the
 * greediest of the greediest address first; where that is not enough, small ones, between requests first. An address
 * within its share loses nothing. The last eighth is for what is under way and for others, the last sixteenth for
 * addresses within their share alone; at the limit nobody gets more.
 *
 * What is shared is what addresses that hold a little (LIMIT_CLIENT_LITTLE) leave, and it is shared by the others: who
 * is silent at thousands of addresses makes nobody's share smaller. Only where even a little for each is too much an
 * equal share is one of all addresses.
 */
#ifndef MVPROXY_FRONT_MEMORY_H
#define MVPROXY_FRONT_MEMORY_H

#include "base/list.h"
#include "base/mem.h"

struct loop;
struct memory;

/* The heads of one client, of the many whose requests a connection carries. */
struct memory_client;

/* An address: what its connections hold. */
struct memory_address {
    struct quota held;
    struct list_node node; /* among those that have held more than a little when it was looked at last, or since */
    struct memory *memory;
};

/* Part of a connection. */
struct memory_holder {
    struct quota held;             /* all of it; its parent is the address' */
    struct quota heads;            /* of the requests that are open; its parent is `held` */
    struct memory_client *clients; /* a table; NULL until there is one */
    struct list_node node;         /* among those that hold much, or among the others */
    bool much, idle;
    struct memory *memory; /* NULL: on its way out, it is not looked at any more */
    uint64_t moved, still_since_ms;
};

struct memory_opts {
    uint64_t (*moved)(const struct memory_holder *h); /* bytes in both directions since its beginning */
    bool (*idle)(const struct memory_holder *h);      /* it is between two requests, and its last answer is out */
    size_t (*end)(struct memory_holder *h);           /* ends it, within the call; returns how many requests with it */
};

/* NULL when out of memory. */
MEM_CHECK struct memory *memory_new(struct loop *l, const struct memory_opts *o);
void memory_free(struct memory *m);
/* 0: no limit. */
void memory_set_limit(struct memory *m, size_t most);
/* Of all clients: the parent of each address' quota. */
struct quota *memory_all(struct memory *m);

/* It has connections. m NULL: nobody looks at it. */
void memory_address_enter(struct memory *m, struct memory_address *a);
/* Nothing is charged to it any more. */
void memory_address_leave(struct memory_address *a);

/* NULL: nobody looks at it. */
void memory_enter(struct memory *m, struct memory_holder *h, struct quota *address);
/* Its heads are of many clients, not of one: only what it holds in all is bounded from now on. */
void memory_lift_heads(struct memory_holder *h);
/*
 * Where the head of a request is charged that is one of many clients' (by a hash of the address, not 0): each has as
 * much as a connection of his own would have. With all others' if memory is short, or if there are more clients at once
 * than a connection has streams.
 */
struct quota *memory_heads_of(struct memory_holder *h, uint64_t client);
/* It is on its way out; what it still holds stays charged. May be called more than once. */
void memory_dismiss(struct memory_holder *h);
/* Nothing is charged to it any more. */
void memory_leave(struct memory_holder *h);
/* A new request of this one is too much now. */
bool memory_refuses(const struct memory_holder *h);

#endif
