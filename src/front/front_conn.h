/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the front and the protocol of one connection: what they share, and the ops a protocol implements
 * (h1_conn and h2_conn, chosen by ALPN in front.c).
 */
#ifndef MVPROXY_FRONT_FRONT_CONN_H
#define MVPROXY_FRONT_FRONT_CONN_H

#include "base/arena_pool.h"
#include "base/buf.h"
#include "base/list.h"
#include "front/clients.h"
#include "front/memory.h"
#include "front/stats.h"
#include "http/h1_write.h"
#include "net/lifetime.h"
#include "net/stream.h"

struct exchange;
struct h1_parser;

/* Lives in the front, shared by all its connections. */
struct front_host {
    struct loop *loop;
    struct front_stats *stats;
    struct clients *clients;
    bool draining;
    void (*on_request)(struct exchange *x, void *arg);
    void *arg;
    /* See front_opts. */
    void (*refusal_body)(struct buf *out, unsigned status, const char *message, void *arg);
    void *refusal_arg;
    char retry_after[12]; /* "" for none */
    struct arena_pool arenas;
    struct h1_parser *spare_parser; /* for the next head; nearly always one is enough */
    struct buf scratch;             /* for one head at a time; empty between calls */
    struct h1_date date;
};

/* What a connection keeps from the moment it was accepted. */
struct front_limits {
    size_t max_head_bytes, max_head_fields;
    uint64_t header_timeout_ms, idle_timeout_ms, body_timeout_ms, linger_timeout_ms;
    uint64_t max_requests; /* 0 = no limit */
};

struct front_conn_ops {
    /* Finish what is being served, take nothing new, then close. host->draining is set already. */
    void (*drain)(void *protocol);
    /* Has asked something and is not through with it, or may be about to ask: a drain waits for it. */
    bool (*busy)(const void *protocol);
    /* Nothing is asked of it, not even in part. */
    bool (*idle)(const void *protocol);
    /* Close within this call; why: for the proxy, if it has an exchange. */
    void (*shut)(void *protocol, const char *why, enum front_close reason);
};

/* One accepted connection, on one of its front's lists until its descriptor is closed. */
struct front_conn {
    struct list_node node;
    struct front *front;
    struct front_host *host;
    struct stream *stream;
    const struct front_conn_ops *ops; /* NULL during the handshake */
    void *protocol;
    struct front_limits limits;
    uint64_t id;
    uint64_t accepted_us;
    uint64_t requests;
    uint64_t trust; /* front->trust when the client's certificate was judged */
    struct client_member client;
    struct memory_holder memory;
    struct lifetime life;
    bool upgraded; /* the stream is a tunnel's: of its end we hear by the descriptor only */
};

/*
 * A request has begun; its number on this connection, from 1. Whose it is, the client's certificate says as it is to be
 * judged now, whatever it was worth when the connection began.
 */
uint64_t front_conn_count_request(struct front_conn *fc);
/* Clients hold so much that this one may not ask for more now: 429. */
bool front_conn_must_wait(const struct front_conn *fc);
/* The only way out: closes the stream, logs and counts the reason. The front_conn is dead to the protocol then. */
void front_conn_close(struct front_conn *fc, enum front_close reason, enum stream_close_how how);
/* The same without closing: the stream has a new owner. */
void front_conn_give_away(struct front_conn *fc);

#endif
