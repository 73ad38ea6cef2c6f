/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server side as a whole: listener, connections, limits, drain.
 */
#ifndef MVPROXY_FRONT_FRONT_H
#define MVPROXY_FRONT_FRONT_H

#include "base/err.h"
#include "front/exchange.h"
#include "net/listeners.h"

struct buf;
struct front;
struct loop;
struct metrics;
struct tls_ctx;

struct front_opts {
    struct listeners_opts listen;      /* used by front_new() only */
    bool listen_later;                 /* by front_listen(), not by front_new() */
    bool hold;                         /* accepts nothing until front_release() */
    size_t max_connections;            /* tunnels included, 0 = no limit; beyond: left in the kernel's queue */
    size_t max_connections_per_client; /* per IP, tunnels included, 0 = no limit; beyond: closed, counted */
    /* Connections that have not asked anything yet, handshakes included, 0 = no limit; beyond: the oldest of an
     * address that has more than its share is closed. Never more than half of max_connections, if that is a large
     * number. */
    size_t max_fresh_connections;
    /* Bytes that all clients together may make us hold, 0 = no limit; see front/memory.h. */
    size_t max_memory;
    size_t max_head_bytes;
    uint64_t header_timeout_ms, idle_timeout_ms, handshake_timeout_ms;
    uint64_t body_timeout_ms;               /* no progress on a request's body; 0: TIMEOUT_BODY_STALL_MS */
    uint64_t linger_timeout_ms;             /* for the client to read our last answer; 0: TIMEOUT_LINGER_MS */
    uint64_t max_requests_per_connection;   /* 0 = no limit */
    const char *const *proxy_protocol_from; /* networks whose connections begin with a PROXY header; NULL: none */
    struct tls_ctx *tls;                    /* a reference is taken; NULL: plain text, for tests only */
    void (*on_request)(struct exchange *x, void *arg);
    void *arg;
    /* Writes the JSON body of an answer that the front gives itself (400, 408, 431 …). NULL: plain text. */
    void (*refusal_body)(struct buf *out, unsigned status, const char *message, void *arg);
    void *refusal_arg;
    unsigned retry_after_s; /* Retry-After of our own 429 and 503; 0: none */
};

/* Binds and accepts at once, unless told otherwise. NULL with *err. */
struct front *front_new(struct loop *l, struct metrics *m, const struct front_opts *o, struct err *err);
/* Of a front that does not listen: once it has succeeded, never again. False as listeners_open(), with errno. */
bool front_listen(struct front *f, const struct listeners_opts *listen, struct err *err);
/* New connections get the new context and limits; open ones keep theirs. Addresses and ports cannot change here. */
void front_update(struct front *f, const struct front_opts *o);
/* Accepts now, if it was held. */
void front_release(struct front *f);
unsigned front_port(const struct front *f); /* of the first listening socket */
size_t front_connections(const struct front *f);
size_t front_exchanges(const struct front *f);       /* requests being served */
size_t front_max_connections(const struct front *f); /* 0: no limit */
/* New clients were left waiting in the last ten seconds: there are max_connections, of which none could be ended. */
bool front_is_crowded(const struct front *f);
/* Whether they do now, unless one of the connections makes room. */
bool front_is_full(const struct front *f);
/* Why accept() failed in the last ten seconds, for want of descriptors or memory; NULL: it did not. */
const char *front_accept_failure(const struct front *f);
size_t front_memory(const struct front *f);       /* bytes that clients make us hold */
size_t front_memory_limit(const struct front *f); /* SIZE_MAX: none */
/* Connections and tunnels that ended for it in the last minute. */
size_t front_memory_ended(const struct front *f);
/*
 * Stops accepting; busy connections close after their answer (`Connection: close`), idle ones and those that
 * have not sent a whole request after a second.
 * on_drained is called once, when the last is gone, never from inside this or another call. May be called again to
 * replace on_drained.
 */
void front_drain(struct front *f, void (*on_drained)(void *arg), void *arg);
/* Ends whatever is still there, now (sinks get on_gone). */
void front_free(struct front *f);

#endif
