/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request: its state, its body on the way out, what becomes of it when its connection is lost. It knows no
 * protocol: what serves it is a link with a small table of operations (h1_client.c, h2_call.c).
 *
 *   NEW → WAITING → ACTIVE → OVER, or ACTIVE → WAITING (once more), ACTIVE → ABANDONED → OVER (cancelled),
 *   any of the first three → FAILING → OVER
 */
#ifndef MVPROXY_BACK_REQUEST_H
#define MVPROXY_BACK_REQUEST_H

#include "back/giving_up.h"
#include "back/origin.h"
#include "net/lifetime.h"

enum request_state {
    REQUEST_NEW,
    REQUEST_WAITING,   /* for a connection */
    REQUEST_ACTIVE,    /* on one */
    REQUEST_ABANDONED, /* cancelled; the rest of its answer is read and dropped */
    REQUEST_FAILING,   /* on_failed is due */
    REQUEST_OVER,
};

/* What a protocol does for the request that it serves; `self` is its own object. */
struct link_ops {
    /* Framed bytes of the body. False: no more of them can be sent; the request's end follows, or has come. */
    bool (*write)(void *self, struct slice data);
    bool (*congested)(const void *self);
    /* All of the body was given. NULL: no need to know. */
    void (*body_finished)(void *self);
    void (*pause)(void *self, bool paused);
    /* Nobody wants the rest of the answer: can it be read all the same, to spare what cancelling would cost? */
    bool (*may_drain)(void *self);
    /* Reads it, for at most TIMEOUT_DRAIN_MS; the request is ABANDONED. */
    void (*drain)(void *self);
    /* Lets go of the request at once. */
    void (*cancel)(void *self);
    /* The number of the connection, for request_connection(). NULL: 0. */
    uint64_t (*number)(const void *self);
    bool can_refuse; /* the server may say that it has not looked at a request */
};

/* Requests that wait for the same thing, the oldest first. */
struct line {
    struct list requests;
    size_t *total; /* of several lines; or NULL */
};

struct back_request {
    struct lifetime life;
    struct list_node node; /* of the line, or back->failing */
    struct line *line;     /* WAITING; NULL: a dial is for it only */
    struct back *back;
    struct origin *origin;
    struct pool *pool;
    const struct link_ops *link; /* ACTIVE, ABANDONED, or while a dial is for it only; else NULL */
    void *link_self;
    struct h2_call *call; /* once it was tried over HTTP/2 */
    void (*free_call)(struct h2_call *call);
    struct h2_load *load; /* in which it is counted, or NULL */
    uint64_t bearer, got; /* token's hash, where HTTP/2 is shared by it, or 0; bytes of the response's body */
    enum request_state state;
    enum http_method method;
    uint64_t client;           /* hash; 0: none, or not needed so far */
    bool charged;              /* to its client */
    bool shared;               /* its connection, or that it waits for one, is among what its client has */
    bool stranger;             /* bearer_is_stranger(): whose retries have a budget of their own */
    struct back_claims claims; /* whom opts.head names (back/withhold.h) */
    bool stripped;             /* of some of opts.impersonations */
    struct back_opts opts;
    struct arena *arena;
    struct http_head response, trailers;
    struct buf pending;               /* framed body from before it may go out */
    struct buf copy;                  /* of the framed body that is out, while `keeps_copy` */
    uint64_t length_left, length_out; /* of a body that tells it: to be given yet; gone out on this connection */
    uint64_t give_up_ms, deadline_ms; /* WAITING; for the response's head (0: none) */
    uint64_t missed_ms;               /* loop_missed_ms() when the deadline was set */
    uint64_t started_us;              /* clock_us() when it was given to us */
    unsigned retries;
    bool body_finished;
    bool body_taken; /* at least a byte */
    bool keeps_copy; /* the server may refuse it unread, and the whole body so far is in `copy` */
    bool body_open;  /* body bytes may go out */
    bool paused, reused, sent, answered;
    bool responded; /* the final head has come; `answered`: any byte */
    bool http1;     /* no more over HTTP/2 */
    bool tell_writable;
    bool stuck;                /* the connection takes no more of the body: it is broken, and about to say so */
    struct lifetime_work kick; /* delivers a failure, or on_writable */
    struct back_failure_info failure;
    char failure_text[192];
};

/* ---- for who places it (pools) ---- */

/* NULL when out of memory. Not placed yet. */
MEM_CHECK struct back_request *request_new(struct back *b, const struct back_opts *o);
void request_place(struct back_request *r, bool fresh);
void line_init(struct line *l, size_t *total);
void request_wait_in(struct back_request *r, struct line *l);
/* The same, before those whose time is over later. */
void request_wait_by_time(struct back_request *r, struct line *l);
/* If it does. */
void request_stop_waiting(struct back_request *r);
/* The oldest, or NULL. It stays where it is. */
struct back_request *line_first(const struct line *l);
/* on_failed, from the deferred queue. The request waits nowhere and has no link. */
void request_fail(struct back_request *r, enum back_failure why, const char *text);
/* If nothing of an answer has come, and who asks may ask another server for it; or if it is such a watch. */
void request_give_up(struct back_request *r, struct giving_up *g);
void line_give_up(struct line *l, struct giving_up *g);
/* Takes it off whatever it is on, and ends it. No callback any more; the memory goes after the turn. */
void request_drop(struct back_request *r);
/* Has its client not wasted too many connections? */
bool request_may_dial(struct back_request *r);
/* It has or waits for a connection of its own. False: its client has its share of those. */
bool request_take_share(struct back_request *r);
size_t request_shares(struct back_request *r);   /* how many its client has */
uint64_t request_client(struct back_request *r); /* `client`; 0: none */

/* ---- for who serves it (links) ---- */

/* It is to be cancelled by this from now on. NULL: by nobody. */
void request_set_link(struct back_request *r, const struct link_ops *ops, void *self);
/* The same, and its bytes are about to go out on it: ACTIVE. `reused`: the connection has served others. */
void request_begin(struct back_request *r, const struct link_ops *ops, void *self, bool reused);
/* Sends what waited of the body, and tells the owner that he may write. */
void request_open_body(struct back_request *r);
/* Tells the owner, from the deferred queue, that he may write. */
void request_wants_body(struct back_request *r);
/* When to look next whether it gets on: at its deadline, or while its body waits for the server. UINT64_MAX: never. */
uint64_t request_next_look(struct back_request *r, bool body_waits);
/* The response's head has not come in time. */
bool request_is_overdue(struct back_request *r);
/* Its link has ended without an answer of any use: tries again if that is allowed, else on_failed later. */
void request_lost(struct back_request *r, enum back_failure why, const char *text);
/* The final head has come: its time is over, and the server is judged by it. */
void request_responded(struct back_request *r);
void request_complete(struct back_request *r, const struct http_head *trailers);
/* It ends, and the caller tells the owner. */
void request_over(struct back_request *r);
/* A connection ends because of what its client did; it does not, after all. */
void request_charge(struct back_request *r);
void request_refund(struct back_request *r);

/* The connection that it is on: one opened later has a higher number. 0: none, or HTTP/2. */
uint64_t request_connection(const struct back_request *r);

#endif
