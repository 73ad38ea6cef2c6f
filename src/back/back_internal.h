/*
 * What the parts of the client side know of each other. Who moves what: pool.c a connection between dialling, idle,
 * busy and gone; back.c a request between waiting, active, failing and over.
 */
#ifndef MVPROXY_BACK_BACK_INTERNAL_H
#define MVPROXY_BACK_BACK_INTERNAL_H

#include "back/back.h"
#include "base/buf.h"
#include "base/list.h"
#include "http/h1_body.h"
#include "net/loop.h"

struct dial;
struct metric;
struct metric_family;

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
    CLOSE_REASONS
};

/* Connections of one origin under one identity. */
struct pool {
    struct origin *origin;
    bool with_cert;
    struct list conns[CONN_GONE]; /* by state; idle: the most recently used first */
    size_t dialling_shared;       /* dials that are for whoever waits first */
    struct list waiting;          /* requests, the oldest first */
    struct loop_timer *idle_timer, *wait_timer;
};

struct origin_metrics {
    struct metric *conns[CONN_GONE];
    struct metric *connects, *connect_failures, *reuses, *retries;
};

struct origin {
    struct list_node node; /* of back->origins */
    struct back *back;     /* NULL once that is freed */
    unsigned refs;         /* of the outside */
    size_t users;          /* connections and requests that point here */
    char *name, *host, *address;
    struct origin_opts opts;
    struct pool pools[2]; /* [with certificate] */
    size_t in_flight;
    unsigned connect_failures; /* in a row */
    uint64_t retry_at_ms;
    struct origin_metrics m;
};

struct back {
    struct loop *loop;
    struct metrics *own_metrics; /* if none were given */
    struct metric_family *closes, *failures, *conns, *connects, *reuses, *retries;
    struct list origins;
    struct list failing;                   /* requests whose on_failed is due */
    struct list dead_conns, dead_requests; /* until the end of the turn */
    struct loop_deferred sweep;
    struct buf scratch; /* heads on their way out */
    struct arena *spare_arenas[16];
    size_t n_spare_arenas;
};

struct h1_client {
    struct list_node node;
    struct pool *pool;
    enum conn_state state;
    struct dial *dial;              /* DIALLING */
    struct back_request *dedicated; /* DIALLING: for this one only */
    struct stream *stream;
    struct back_request *request; /* BUSY */
    struct h1_parser *parser;
    struct h1_body body;
    struct loop_timer *timer; /* for 100 (Continue), then for the response's head */
    uint64_t idle_since_ms;
    uint64_t served;
    unsigned interims;
    bool in_body;   /* the response's head is complete */
    bool keep;      /* the response's head allows another request */
    bool got_eof;   /* the server has ended; what it sent before may still wait */
    bool is_broken; /* the stream failed; likewise */
};

enum request_state { REQUEST_WAITING, REQUEST_ACTIVE, REQUEST_FAILING, REQUEST_OVER };

struct back_request {
    struct list_node node; /* of pool->waiting, back->failing or back->dead_requests */
    struct back *back;
    struct pool *pool;
    struct h1_client *conn; /* ACTIVE, or the dial that is for this request only */
    enum request_state state;
    struct back_opts opts;
    struct arena *arena;
    struct http_head response, trailers;
    struct buf pending; /* framed body from before it may go out */
    uint64_t length_left;
    uint64_t give_up_ms; /* WAITING */
    unsigned retries;
    bool body_finished;
    bool body_taken; /* at least a byte: no retry any more */
    bool body_open;  /* body bytes may go out */
    bool paused;
    bool reused, sent, answered;
    bool tell_writable;
    struct loop_deferred kick; /* delivers a failure, or on_writable */
    struct back_failure_info failure;
    char failure_text[192];
};

/* origin.c */
void origin_metrics_init(struct origin *o);
void origin_connected(struct origin *o);
void origin_connect_failed(struct origin *o, const char *why);
/* After refs or users went down. */
void origin_free_if_unused(struct origin *o);

/* pool.c */
MEM_CHECK bool pool_init(struct pool *p, struct origin *o, bool with_cert);
void pool_release(struct pool *p);
/* Gives the request a connection: an idle one at once, else it waits. fresh: a dial of its own. Failures come later. */
void pool_take(struct pool *p, struct back_request *r, bool fresh);
void pool_stop_waiting(struct back_request *r);
/* The connection can serve another request: the first that waits gets it, else it is idle. */
void pool_put(struct h1_client *c);
/* The connection is over; a dial may start for those who wait. */
void pool_forget(struct h1_client *c, enum close_reason why, const char *detail);
void pool_close_idle(struct pool *p, enum close_reason why);
void pool_move(struct h1_client *c, enum conn_state to);
size_t pool_max(const struct pool *p);

/* h1_client.c */
MEM_CHECK struct h1_client *h1_client_new(struct pool *p);
void h1_client_free(struct h1_client *c);
/* The dial succeeded: the stream is the connection's from now on. */
void h1_client_opened(struct h1_client *c, struct stream *s);
/* Starts the request on an idle (or just opened) connection. */
void h1_client_attach(struct h1_client *c, struct back_request *r);
/* Framed body bytes. False: broken (the failure follows), or far too much unsent. */
bool h1_client_write(struct h1_client *c, struct slice data);
/* The request is all out: the response's head has its deadline. */
void h1_client_body_finished(struct h1_client *c);
void h1_client_pause(struct h1_client *c, bool paused);
/* Closes the connection; its request, if any, is the caller's problem. */
void h1_client_close(struct h1_client *c, enum close_reason why, const char *detail);

/* back.c */
/* The request's connection ended without an answer of any use: tries again if that is allowed, else on_failed later. */
void request_lost(struct back_request *r, enum back_failure why, const char *text);
/* on_failed, from the deferred queue. The request is on no list and no connection. */
void request_fail(struct back_request *r, enum back_failure why, const char *text);
/* Marks the end; the memory goes after the turn. No callback any more. */
void request_over(struct back_request *r);
/* Sends what waited, and tells the owner that he may write. */
void request_open_body(struct back_request *r);
void back_bury_conn(struct back *b, struct h1_client *c);

#endif
