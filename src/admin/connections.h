/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connections that libevent's HTTP server accepts: how many there may be, and what happens when descriptors run
 * out. Its own listener has neither. It takes all that come, and when accept() fails it tries again at once, for ever.
 *
 * Of more than LIMIT_ADMIN_CONNECTIONS one ends, of the address that has most: where more than half have asked nothing,
 * the oldest of those; else whoever asked longest ago, and of those that have read their answer before the others. So
 * who comes gets his answer, whatever those do who stay. Without descriptors accepting pauses for a moment, as
 * net/listener.h does; what comes meanwhile waits in the kernel.
 *
 * A connection ends that holds more than CONNECTIONS_MOST_INPUT which the server has not taken: it bounds heads and
 * bodies, but not the line with the size of a chunk, and looks through all of that again with each read.
 */
#ifndef MVPROXY_ADMIN_CONNECTIONS_H
#define MVPROXY_ADMIN_CONNECTIONS_H

#include "base/mem.h"

struct bufferevent;
struct connections;
struct evconnlistener;
struct loop;

enum { CONNECTIONS_MOST_INPUT = 20 << 10 };

enum connections_event {
    CONNECTIONS_TOO_MANY, /* one was ended */
    CONNECTIONS_FLOODED,  /* the same: it had sent more than a request may have */
    CONNECTIONS_STARVED,  /* accepting pauses for want of descriptors */
};

typedef void connections_fn(enum connections_event ev, void *arg);

/* The listener must outlive it, and is its own to switch on and off. NULL when out of memory. */
MEM_CHECK struct connections *connections_new(struct loop *l, struct evconnlistener *listener, connections_fn *fn,
                                              void *arg);
/* NULL is nothing. Open connections stay, and nothing may be read from them any more. */
void connections_free(struct connections *c);
/* One has come. From the callback that makes its bufferevent, which gets its descriptor then. */
void connections_arrived(struct connections *c, struct bufferevent *bev);
/* The one with this descriptor has sent a whole request. */
void connections_asked(struct connections *c, int fd);
/* It has read the whole of the answer, as far as the kernel says. */
void connections_answered(struct connections *c, int fd);
/* Ends the one that has not read the whole of an answer for longest, but not that with this descriptor. False: there is
 * none. What it was to be sent is freed when libevent sees its end. */
bool connections_end_reader(struct connections *c, int fd);

#endif
