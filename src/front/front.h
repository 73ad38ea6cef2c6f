/*
 * The server side as a whole: listener, connections, limits, drain.
 */
#ifndef MVPROXY_FRONT_FRONT_H
#define MVPROXY_FRONT_FRONT_H

#include "base/err.h"
#include "front/exchange.h"

struct front;
struct loop;
struct metrics;
struct tls_ctx;

struct front_opts {
    const char *bind_address;
    unsigned port;
    int inherited_fd;                  /* a listening socket from the service manager, or -1 */
    size_t max_connections;            /* beyond: left in the kernel's queue */
    size_t max_connections_per_client; /* per IP, 0 = no limit: beyond: closed, counted */
    size_t max_head_bytes;
    uint64_t header_timeout_ms, idle_timeout_ms, handshake_timeout_ms;
    uint64_t max_requests_per_connection; /* 0 = no limit */
    struct tls_ctx *tls;                  /* a reference is taken; NULL: plain text, for tests only */
    void (*on_request)(struct exchange *x, void *arg);
    void *arg;
};

/* Binds and accepts at once. NULL with *err. */
struct front *front_new(struct loop *l, struct metrics *m, const struct front_opts *o, struct err *err);
/* New connections get the new context and limits; open ones keep theirs. Address and port cannot change here. */
void front_update(struct front *f, const struct front_opts *o);
unsigned front_port(const struct front *f);
size_t front_connections(const struct front *f);
size_t front_exchanges(const struct front *f); /* requests being served */
/* Stops accepting; idle connections close, busy ones after their answer (`Connection: close`). on_drained is called once, when the last is gone. */
void front_drain(struct front *f, void (*on_drained)(void *arg), void *arg);
/* Ends whatever is still there, now. */
void front_free(struct front *f);

#endif
