/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several listening sockets that are one to their owner: opened, paused and closed together.
 */
#ifndef MVPROXY_NET_LISTENERS_H
#define MVPROXY_NET_LISTENERS_H

#include "net/listener.h"

struct listeners;

enum { LISTENERS_MAX = 16 };

struct listeners_opts {
    const struct listen_address *addresses; /* to bind; of those with port 0 each gets one of its own */
    size_t n_addresses;
    const int *inherited; /* or, if there are any: to take over instead */
    size_t n_inherited;
};

/*
 * All or none, LISTENERS_MAX at most; see listener_open() and listener_adopt(). NULL with *err; descriptors that were
 * inherited are the caller's then. errno is EADDRINUSE if somebody listens at one of the addresses.
 */
struct listeners *listeners_open(struct loop *l, const struct listeners_opts *o, listener_fn *fn, void *arg,
                                 struct err *err);
void listeners_close(struct listeners *s); /* NULL is nothing */
void listeners_pause(struct listeners *s);
void listeners_resume(struct listeners *s);
unsigned listeners_port(const struct listeners *s); /* of the first */
void listeners_on_starved(struct listeners *s, listener_starved_fn *fn);

#endif
