/*
 * The connections to one origin of one kind, and the requests that wait for one.
 */
#ifndef MVPROXY_BACK_POOL_H
#define MVPROXY_BACK_POOL_H

#include "back/h2_load.h"
#include "base/list.h"
#include "net/dial.h"

struct back_request;
struct h1_client;
struct loop_timer;
struct origin;

enum conn_state { CONN_DIALLING, CONN_IDLE, CONN_BUSY, CONN_GONE, CONN_STATES };

enum close_reason {
    CLOSE_CONNECT_FAILED,
    CLOSE_IDLE_TIMEOUT,
    CLOSE_BY_SERVER,
    CLOSE_UNSOLICITED,  /* bytes that nobody asked for on an idle connection */
    CLOSE_NOT_REUSABLE, /* the response or the request's unfinished body says so */
    CLOSE_CANCELLED,
    CLOSE_BROKEN,
    CLOSE_UPGRADED, /* given away, not closed */
    CLOSE_ORIGIN_GONE,
    CLOSE_SURPLUS, /* as many others are idle already */
    CLOSE_NO_HOP,  /* no mvproxy there: given to the pool with certificate, or of no use to anybody (HTTP/2) */
    /* Of HTTP/2 connections only: */
    CLOSE_NO_HTTP2,     /* given to the HTTP/1.1 pool, or the server takes no streams */
    CLOSE_GOAWAY,       /* the server wanted no more requests on it, and the last is over */
    CLOSE_PROTOCOL,     /* the server broke the rules */
    CLOSE_FLOW_CONTROL, /* it sent more than it may */
    CLOSE_FLOOD,        /* it made too much work */
    CLOSE_PING_TIMEOUT, /* it does not answer */
    CLOSE_MAKE_ROOM,    /* idle, and another identity needs one */
    CLOSE_NO_MEMORY,
    CLOSE_REASONS
};

/* What a pool's connections have in common. */
enum pool_kind {
    POOL_NO_CERT, /* without client certificate: requests that carry their own credential, or none */
    POOL_CERT,    /* with the front-proxy certificate: requests that assert a user */
    POOL_HOP,     /* with it, and each has proved that an mvproxy is at its other end: requests that assert nobody */
    POOL_KINDS
};

struct pool {
    struct origin *origin;
    enum pool_kind kind;
    struct list conns[CONN_GONE]; /* by state; idle: the most recently used first */
    size_t dialling_shared;       /* dials that are for whoever waits first */
    struct list waiting;          /* requests, the oldest first */
    struct list held;             /* the same, after those: no dial is made for them (churn.h) */
    struct loop_timer *idle_timer, *wait_timer, *held_timer;

    struct list h2_clients;  /* HTTP/2 connections; those that are being made or were made last come first */
    size_t h2_dials;         /* of them in DIALLING or OPENING */
    size_t h2_waiting;       /* requests that wait for those */
    uint64_t http1_until_ms; /* the server does not speak HTTP/2; asked again then */
    struct h2_load load;     /* of what everybody may share */
    uint64_t bare_until_ms;  /* POOL_HOP: no mvproxy was there; asked again then */
};

MEM_CHECK bool pool_init(struct pool *p, struct origin *o, enum pool_kind kind);
void pool_release(struct pool *p);
/* Gives the request a connection: an idle one at once, else it waits. fresh: a dial of its own. Failures come later. */
void pool_take(struct pool *p, struct back_request *r, bool fresh);
void pool_stop_waiting(struct back_request *r);
/* NULL when out of memory. */
MEM_CHECK struct dial *pool_dial(struct pool *p, bool http2, dial_fn *fn, void *arg);
/* Takes an open stream that speaks HTTP/1.1 as one of its idle connections. */
void pool_adopt(struct pool *p, struct stream *s);
const char *pool_close_text(enum close_reason why);
/* The connection can serve another request: the first that waits gets it, else it is idle. */
void pool_put(struct h1_client *c);
/* The connection is over; a dial may start for those who wait. */
void pool_forget(struct h1_client *c, enum close_reason why, const char *detail);
void pool_close_idle(struct pool *p, enum close_reason why);
void pool_move(struct h1_client *c, enum conn_state to);
size_t pool_max(const struct pool *p);
/* The context of its connections; NULL: none. */
struct tls_ctx *pool_tls(const struct pool *p);
/*
 * A new connection of a pool with certificate, of whose end nothing is known yet: remembers what it proved. False: it
 * must not be the pool's, because no mvproxy is there. What waits has to be placed anew then.
 */
bool pool_admits(const struct pool *p, const struct stream *s);

#endif
