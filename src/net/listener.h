/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets: bind or inherit, accept in batches, pause when out of descriptors.
 */
#ifndef MVPROXY_NET_LISTENER_H
#define MVPROXY_NET_LISTENER_H

#include "base/err.h"
#include "base/mem.h"

struct loop;
struct listener;

/* The handler owns the fd (non-blocking, close-on-exec, TCP_NODELAY and keepalive set). */
typedef void listener_fn(int fd, void *arg);

/* An IP address without brackets, and a port; 0 picks one. */
enum { LISTEN_HOST_BYTES = 46 };
struct listen_address {
    char host[LISTEN_HOST_BYTES];
    unsigned port;
};

/* Also an address that this machine does not have yet (IP_FREEBIND). Binds and listens; port 0 picks one
 * (listener_port). NULL with *err: one clear line ("bind 0.0.0.0:6443: Address already in use"). */
struct listener *listener_open(struct loop *l, const char *host, unsigned port, listener_fn *fn, void *arg,
                               struct err *err);
/* Takes over a listening fd given by the service manager. */
struct listener *listener_adopt(struct loop *l, int fd, listener_fn *fn, void *arg, struct err *err);
/* Stops accepting and closes the socket (one that was adopted in the next turn); connections stay. */
void listener_close(struct listener *l);
/* Leaves new connections in the kernel's queue until resumed (connection limit); counted by reason. */
void listener_pause(struct listener *l);
void listener_resume(struct listener *l);
unsigned listener_port(const struct listener *l);
/* Where a listening socket, of whomever, is bound. False: it is none of TCP. */
bool listener_address_of(int fd, struct listen_address *out);
/* Called, with the same arg as the handler, each time that accepting pauses for want of descriptors, or of the kernel's
 * memory (EMFILE, ENFILE, ENOBUFS, ENOMEM). */
typedef void listener_starved_fn(int error, void *arg);
void listener_on_starved(struct listener *l, listener_starved_fn *fn);
uint64_t listener_emfile_pauses(const struct listener *l);

#endif
