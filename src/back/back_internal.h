/*
 * What the parts of the client side know of each other. Who moves what: pool.c a connection between dialling, idle,
 * busy and gone (pool.h); back.c a request between waiting, active, failing and over.
 */
#ifndef MVPROXY_BACK_BACK_INTERNAL_H
#define MVPROXY_BACK_BACK_INTERNAL_H

#include "back/churn.h"
#include "back/claims.h"
#include "back/health.h"
#include "back/pool.h"
#include "base/arena_pool.h"
#include "base/buf.h"
#include "base/limits.h"
#include "net/loop.h"

struct h1_client;
struct h2_call;
struct h2_client;
struct metric;
struct metric_family;

struct origin_metrics {
    struct metric *conns[CONN_GONE];
    struct metric *connects, *connect_failures, *reuses, *retries, *retries_refused, *ejections, *ejected, *streams;
};

struct origin {
    struct list_node node; /* of back->origins */
    struct back *back;     /* NULL once that is freed */
    unsigned refs;         /* of the outside */
    size_t users;          /* connections and requests that point here */
    char *name, *host, *address;
    struct origin_opts opts;
    struct pool pools[POOL_KINDS];
    size_t in_flight, own_in_flight; /* the second are among the first */
    bool unreachable;                /* the last attempt to connect failed */
    struct health health;
    bool shown_out; /* in the gauge */
    struct budget budget;
    struct origin_metrics m;
};

struct back {
    struct loop *loop;
    struct metrics *own_metrics; /* if none were given */
    struct metric_family *closes, *failures, *conns, *connects, *reuses;
    struct metric_family *retries, *retries_refused, *ejections, *ejected, *streams;
    struct back_check check;
    struct list origins;
    struct list failing;                            /* requests whose on_failed is due */
    struct list dead_conns, dead_h2, dead_requests; /* until the end of the turn */
    struct loop_deferred sweep;
    struct buf scratch;                            /* heads on their way out */
    uint64_t connections;                          /* HTTP/1.1, opened so far */
    struct bearer bearers[LIMIT_ACCEPTED_BEARERS]; /* by the token's hash; h2_pool.c */
    struct arena_pool arenas;
    struct churn wasted_dials, resets;
};

enum request_state {
    REQUEST_NEW,
    REQUEST_WAITING,   /* for a connection */
    REQUEST_ACTIVE,    /* on one */
    REQUEST_ABANDONED, /* cancelled; the rest of its answer is read and dropped */
    REQUEST_FAILING,   /* on_failed is due */
    REQUEST_OVER,
    REQUEST_STATES
};

struct back_request {
    struct list_node node; /* of *waits_in, back->failing or back->dead_requests */
    struct list *waits_in; /* WAITING: of the pool, or an HTTP/2 connection; NULL: a dial is for it only */
    struct back *back;
    struct pool *pool;
    struct h1_client *conn; /* ACTIVE, or the dial that is for this request only */
    struct h2_call *call;   /* once it was tried over HTTP/2 */
    struct h2_load *load;   /* in which it is counted, or NULL */
    uint64_t bearer, got;   /* token's hash, where HTTP/2 is shared by it, or 0; bytes of the response's body */
    enum request_state state;
    enum http_method method;
    uint64_t client; /* hash; 0: none, or not needed so far */
    bool charged;    /* to its client */
    struct back_opts opts;
    struct arena *arena;
    struct http_head response, trailers;
    struct buf pending; /* framed body from before it may go out */
    struct buf copy;    /* of the framed body that is out, while `keeps_copy` */
    uint64_t length_left;
    uint64_t give_up_ms, deadline_ms; /* WAITING; for the response's head (0: none) */
    unsigned retries;
    bool body_finished, body_taken; /* the second: at least a byte of it */
    bool keeps_copy;                /* the server may refuse it unread, and the whole body so far is in `copy` */
    bool body_open;                 /* body bytes may go out */
    bool paused, reused, sent, answered;
    bool http1; /* no more over HTTP/2 */
    bool tell_writable;
    bool stuck;                /* the connection takes no more of the body: it is broken, and about to say so */
    struct loop_deferred kick; /* delivers a failure, or on_writable */
    struct back_failure_info failure;
    char failure_text[192];
};

/* origin.c */
void origin_metrics_init(struct origin *o);
void origin_connected(struct origin *o);
void origin_connect_failed(struct origin *o, const char *why);
/* A final head has come. */
void origin_answered(struct origin *o, unsigned status);
/* For good: what is sent again is not counted. */
void origin_request_failed(struct origin *o, enum back_failure why, const char *text);
/* A new request is in flight, and over. */
void origin_note_request(struct origin *o, bool own);
void origin_note_over(struct origin *o, bool own);
/* After refs or users went down. */
void origin_free_if_unused(struct origin *o);

/* back.c */
/* On an HTTP/2 stream, or still reading from what was one. */
bool request_on_h2(const struct back_request *r);
/* The request's connection ended without an answer of any use: tries again if that is allowed, else on_failed later. */
void request_lost(struct back_request *r, enum back_failure why, const char *text);
/* on_failed, from the deferred queue. The request is on no list and no connection. */
void request_fail(struct back_request *r, enum back_failure why, const char *text);
void request_move(struct back_request *r, enum request_state to);
/* Takes it off whatever it is on, and ends it. No callback any more; the memory goes after the turn. */
void request_drop(struct back_request *r);
bool request_may_dial(struct back_request *r);
/* A connection ends because of what its client did. */
void request_charge(struct back_request *r);
void request_refund(struct back_request *r);
void request_over(struct back_request *r);
/*
 * The request goes out on a connection now, which the server may have closed meanwhile, or may say so (HTTP/2): a copy
 * of the body, up to LIMIT_REPLAY_BYTES, lets the request go out again if nothing of it was read.
 */
void request_keep_copy(struct back_request *r);
/* When to look next whether it gets on: at its deadline, or while its body waits for the server. */
uint64_t request_next_look(const struct back_request *r, bool body_waits);
/* Sends what waited, and tells the owner that he may write. */
void request_open_body(struct back_request *r);
void request_wants_body(struct back_request *r);
void request_complete(struct back_request *r, const struct http_head *trailers);
void request_place(struct back_request *r, bool fresh);
/* The connection that the request is on: one opened later has a higher number. 0: none, or HTTP/2. */
uint64_t request_connection(const struct back_request *r);
void back_bury_conn(struct back *b, struct h1_client *c);
void back_bury_h2(struct back *b, struct h2_client *c);

#endif
