/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What everything behind back.h stands on: the whole, and origins with their metrics, health and accounts. It knows
 * neither requests nor connections; what is above it (pools) it reaches by the functions given at creation.
 */
#ifndef MVPROXY_BACK_ORIGIN_H
#define MVPROXY_BACK_ORIGIN_H

#include "back/claims.h"
#include "back/h2_load.h"
#include "back/health.h"
#include "back/shares.h"
#include "base/arena_pool.h"
#include "base/buf.h"
#include "base/churn.h"
#include "base/limits.h"
#include "net/loop.h"

struct back_request;
struct metric;
struct metric_family;
struct pool;

/* Connections, whatever their protocol. */
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
    CLOSE_SURPLUS,      /* as many others are idle already */
    CLOSE_ORIGIN_HANGS, /* the server has left a question unanswered, and nothing else came (origin_suspect()) */
    CLOSE_NO_HOP,       /* no mvproxy there: given to the pool with certificate, or of no use to anybody (HTTP/2) */
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

/* What the connections of a pool have in common. */
enum pool_kind {
    POOL_NO_CERT, /* without client certificate: requests that carry their own credential, or none */
    POOL_CERT,    /* with the front-proxy certificate: requests that assert a user */
    POOL_HOP,     /* with it, and each has proved that an mvproxy is at its other end: requests that assert nobody */
    POOL_KINDS
};

struct origin_metrics {
    struct metric *conns[CONN_GONE];
    struct metric *connects, *connect_failures, *reuses, *retries, *retries_refused, *ejections, *ejected, *streams;
    struct metric *seconds; /* NULL until it is needed */
};

enum { ORIGIN_TOKEN_BYTES = 32, ORIGIN_WHY_BYTES = 192, ORIGIN_EJECTED_AGAIN_MS = 600000 };

/* What came of the last attempt to connect. */
enum origin_reach { ORIGIN_REACHED, ORIGIN_UNREACHABLE, ORIGIN_LOOPS };

struct origin {
    struct list_node node; /* of back->origins */
    struct back *back;     /* NULL once that is freed */
    unsigned refs;         /* of the outside */
    size_t users;          /* connections and requests that point here */
    char *name, *server, *host, *address;
    struct origin_opts opts;
    struct pool *pools[POOL_KINDS];  /* NULL once the whole is freed */
    bool complete;                   /* they are all there */
    size_t in_flight, own_in_flight; /* the second are among the first */
    enum origin_reach reach;
    uint64_t suspect_again_ms;    /* not in doubt before */
    uint64_t heard_ms, silent_ms; /* when its last byte came; since when it is suspected, unless that came later */
    bool came_back;               /* a question of ours (loop_token.h) */
    uint64_t came_back_ms;
    struct health health;
    char out_why[ORIGIN_WHY_BYTES];     /* of the last failure that put it out */
    uint64_t out_since_ms, out_said_ms; /* the second: when that was said */
    unsigned out_unsaid;                /* times out since then */
    bool retired, shown_out;            /* its owner has no use for it any more; it is in the gauge */
    struct budget budget, strangers;    /* the second: for whom no server knows (bearers.h) */
    struct origin_metrics m;
};

struct back {
    struct loop *loop;
    struct metrics *own_metrics; /* if none were given */
    struct metric_family *closes, *failures, *conns, *connects, *reuses;
    struct metric_family *retries, *retries_refused, *ejections, *ejected, *streams, *seconds;
    struct back_check check;
    struct list origins, failing;                  /* the second: requests whose on_failed is due */
    struct buf scratch;                            /* heads on their way out */
    uint64_t connections;                          /* HTTP/1.1, opened so far */
    struct bearer bearers[LIMIT_ACCEPTED_BEARERS]; /* by the token's hash; bearers.c */
    struct arena_pool arenas;
    struct churn wasted_dials, resets;
    struct shares shares;                    /* of the connections to all servers over HTTP/1.1 */
    char loop_token[ORIGIN_TOKEN_BYTES + 1]; /* loop_token.h */
    /* Upwards: a connection for the request (fresh: of its own); closes idle ones; doubts all; gives up what waits. */
    void (*place)(struct back_request *r, bool fresh);
    void (*close_idle)(struct origin *o);
    void (*doubt)(struct origin *o);
    void (*is_silent)(struct origin *o);
    void (*give_up)(struct pool *p);
    void (*place_waiting)(struct pool *p);
    void (*drop_pools)(struct origin *o);
};

/* Without pools; origin_new() adds them. */
MEM_CHECK struct origin *origin_make(struct back *b, const struct origin_opts *opts);
/* Something points here, and no longer: with the last one it is freed. */
void origin_use(struct origin *o);
void origin_release(struct origin *o);
void origin_connected(struct origin *o);
void origin_connect_failed(struct origin *o, const char *why);
/* A new connection; true: it leads back to an mvproxy and must not be used. Its idle connections are closed then, so
 * that the next request finds out whether it still does. */
bool origin_refuses(struct origin *o, const struct stream *s);
void origin_say_loop(const struct origin *o); /* that what is sent there comes back */
#define ORIGIN_LOOP_TEXT "an mvproxy answers there, not a kube-apiserver"
/* Why no connection could be made. */
enum back_failure origin_failure(const struct origin *o);
/* Counts and logs the end of a connection. */
void origin_note_close(struct origin *o, enum close_reason why, const char *detail, const char *protocol,
                       uint64_t served);
const char *origin_close_text(enum close_reason why);
void origin_heard(struct origin *o);                     /* bytes have come */
uint64_t origin_patience_ms(const struct origin *o);     /* for so long a client of its own would wait for a byte */
void origin_answered(struct origin *o, unsigned status); /* a final head has come */
/* How long a client's request waited for it. */
void origin_note_time(struct origin *o, uint64_t us);
/* For good: what is sent again is not counted. */
void origin_request_failed(struct origin *o, enum back_failure why, const char *text);
/* A new request is in flight, and over. */
void origin_note_request(struct origin *o, bool own, bool probe);
void origin_note_over(struct origin *o, bool own);
/* It counts for how many may be repeated. */
void origin_note_deposit(struct origin *o, bool stranger);

#endif
