/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One accepted connection, whatever its protocol: what it is charged and counted for, and its end. Below it stand
 * clients, memory and stats; on top of it the protocols (h1_conn and h2_conn, which implement its ops), and above all
 * of them front.c, which accepts, and chooses the protocol by ALPN. What the front has to be told, it is told through
 * front_host.
 */
#ifndef MVPROXY_FRONT_FRONT_CONN_H
#define MVPROXY_FRONT_FRONT_CONN_H

#include "base/arena_pool.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/recent.h"
#include "front/clients.h"
#include "front/memory.h"
#include "front/stats.h"
#include "http/h1_write.h"
#include "net/lifetime.h"
#include "net/stream.h"

struct exchange;
struct h1_parser;
struct tls_ctx;

/* Lives in the front, which makes it, shared by all its connections. */
struct front_host {
    struct loop *loop;
    struct front_stats *stats;
    struct clients *clients;
    struct memory *memory;
    struct list conns;   /* being served */
    struct list idle;    /* those of them that have asked something and are through with it, in the order of looks */
    struct list resting; /* the same ones, by since when: those first that are longest */
    struct list waiting; /* of all that are open, those that something waits for, as far as front.c has looked */
    struct list leaving; /* their descriptors are still open: tunnels of the proxy now, or last bytes under way */
    /* One has left `conns`; one has left `leaving`, its descriptor is closed. */
    void (*on_left)(struct front_host *h);
    void (*on_closed)(struct front_host *h);
    struct tls_ctx *tls;   /* of new connections; NULL: plain text */
    uint64_t trust;        /* how many contexts there were */
    uint64_t last_id;      /* of a connection */
    struct recent cut_off; /* connections and tunnels that ended for want of memory */
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

/* Where others wait for room: the time in which a head comes, once it has begun. */
enum { FRONT_HEAD_SLOW_MS = 1000 };

struct front_conn_ops {
    /* Finish what is being served, take nothing new, then close. host->draining is set already. */
    void (*drain)(void *protocol);
    /* Has asked something and is not through with it, or may be about to ask: a drain waits for it. */
    bool (*busy)(const void *protocol);
    /* It has been the client's turn for so long, who drips: of all that is asked of it only bodies are missing, which
     * come slowly (of who is not to be indulged: at all), or for FRONT_HEAD_SLOW_MS the rest of a head. */
    bool (*drips)(const void *protocol, uint64_t for_ms, bool indulged);
    /* Nothing that was asked is a server's turn, or comes in drips: what holds it is for the client to take. */
    bool (*answered)(const void *protocol, uint64_t for_ms, bool indulged);
    /* Bytes of answers that wait in the protocol for the client to let them go out. */
    size_t (*waiting)(const void *protocol);
    /* Requests that end with it, at most. */
    size_t (*open)(const void *protocol);
    /* Close within this call; why: for the proxy, if it has an exchange. */
    void (*shut)(void *protocol, const char *why, enum front_close reason);
};

/* One accepted connection, on one of its front's lists until its descriptor is closed. */
struct front_conn {
    struct list_node node;
    struct list_node idle;
    struct list_node resting;
    uint64_t resting_since_ms; /* on that list */
    struct list_node waiting;
    /* On that list: since when, what the client's machine had taken by then, and had to take. Bytes on the wire. */
    struct {
        uint64_t since_ms, taken, due;
    } mark;
    struct front_host *host;
    struct stream *stream;
    const struct front_conn_ops *ops; /* NULL during the handshake */
    void *protocol;
    struct front_limits limits;
    struct loop_turns *turns; /* the stream's, which it shares; NULL: none */
    uint64_t id;
    uint64_t accepted_us;
    uint64_t requests;
    uint64_t trust; /* host->trust when the client's certificate was judged */
    struct client_member client;
    struct memory_holder memory;
    struct lifetime life;
    bool renewed;  /* clients_renew() */
    bool upgraded; /* the stream is a tunnel's: of its end we hear by the descriptor only */
};

/*
 * `fc`, zeroed but for limits and client, is served from now on, and belongs to itself: it is freed once its descriptor
 * is closed.
 */
void front_conn_enter(struct front_conn *fc, struct front_host *h, struct stream *s);
/* Ends it within this call, by its protocol if it has one. */
void front_conn_shut(struct front_conn *fc, const char *why, enum front_close reason);
/* Ends a tunnel, whoever owns its stream. */
void front_conn_break(struct front_conn *fc, const char *why);
/* The front ends; one that is leaving may outlive it, uncounted. */
void front_conn_disown(struct front_conn *fc);

/*
 * A request has begun; its number on this connection, from 1. Whose it is, the client's certificate says as it is to be
 * judged now, whatever it was worth when the connection began.
 */
uint64_t front_conn_count_request(struct front_conn *fc);
/* By its protocol, as often as it likes: nothing is asked of it, not even in part; or something is. */
void front_conn_idle(struct front_conn *fc, bool idle);
/* It is, and has sent all of its answers. */
bool front_conn_is_between_requests(const struct front_conn *fc);
/* Clients hold so much that this one may not ask for more now: 429. */
bool front_conn_must_wait(const struct front_conn *fc);
/* The only way out: closes the stream, logs and counts the reason. The front_conn is dead to the protocol then. */
void front_conn_close(struct front_conn *fc, enum front_close reason, enum stream_close_how how);
/* The same without closing: the stream has a new owner. */
void front_conn_give_away(struct front_conn *fc);

#endif
