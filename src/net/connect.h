/*
 * One tunnel through a proxy (via.h): dials it, asks with CONNECT, judges the answer. What comes of it is a descriptor
 * that reaches the target: the connection to the proxy itself, or, when that one is under TLS, one end of a relay.
 */
#ifndef MVPROXY_NET_CONNECT_H
#define MVPROXY_NET_CONNECT_H

#include "base/mem.h"

struct connect;
struct loop;
struct relay;
struct via;

/*
 * fd is the receiver's (non-blocking), and so is the relay, if there is one: relay_bind() or relay_drop(). Or fd is -1
 * and failure says why, naming the proxy. It is over.
 */
typedef void connect_fn(int fd, struct relay *relay, const char *failure, void *arg);

/*
 * `target` is the HOST:PORT that the proxy is asked for. All of it takes at most timeout_ms. NULL when out of memory;
 * fn is never called from inside.
 */
MEM_CHECK struct connect *connect_start(struct loop *l, struct via *via, const char *target, uint64_t timeout_ms,
                                        connect_fn *fn, void *arg);
/* No callback any more. */
void connect_cancel(struct connect *c);

#endif
