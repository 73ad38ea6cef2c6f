/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/1.1 connection to a server, serving one request at a time. Who opens them and hands them out (pool.c) is
 * told by two functions when one is free again, and when it is gone.
 */
#ifndef MVPROXY_BACK_H1_CLIENT_H
#define MVPROXY_BACK_H1_CLIENT_H

#include "back/request.h"
#include "http/h1_body.h"

struct dial;
struct h1_client;

/* Where they are at home. */
struct h1_conns {
    struct origin *origin;
    enum pool_kind kind;
    struct list by_state[CONN_GONE]; /* the most recently used first */
    /* It can serve another request. It does so, is made idle, or closed, before this returns. */
    void (*free)(struct h1_client *c);
    void (*gone)(struct h1_client *c);
};

struct h1_client {
    struct lifetime life;
    struct list_node node;
    struct h1_conns *home;
    struct origin *origin;
    enum conn_state state;
    struct dial *dial; /* DIALLING */
    struct lifetime_guest dial_guest;
    struct back_request *dedicated; /* DIALLING: for this one only */
    struct stream *stream;
    struct back_request *request; /* BUSY */
    struct h1_parser *parser;
    struct h1_body body;
    struct loop_timer *timer;     /* for 100 (Continue), the response's head, a body that waits; then for draining */
    uint64_t continue_ms;         /* until when 100 is waited for */
    uint64_t wire_mark;           /* of the stream, before the request */
    uint64_t wire_seen, moved_ms; /* of it, and when it last moved */
    uint64_t idle_since_ms;
    uint64_t number; /* request_connection() */
    uint64_t served;
    unsigned interims;
    bool in_body;   /* the response's head is complete */
    bool keep;      /* the response's head allows another request */
    bool got_eof;   /* the server has ended; what it sent before may still wait */
    bool is_broken; /* the stream failed; likewise */
};

/* NULL: out of memory. It dials from h1_client_dials() on, is open from h1_client_opened() on. */
MEM_CHECK struct h1_client *h1_client_new(struct h1_conns *home);
/* One that never dialled. */
void h1_client_discard(struct h1_client *c);
/* `dedicated`: the request that the connection is for, or NULL. */
void h1_client_dials(struct h1_client *c, struct dial *d, struct back_request *dedicated);
/* The dial is over; gives the request that it was for. */
struct back_request *h1_client_dialled(struct h1_client *c);
/* The stream is the connection's from now on. */
void h1_client_opened(struct h1_client *c, struct stream *s);
/* Its client has room for what a connection holds, which is charged to him while it serves the request. */
bool h1_client_is_affordable(const struct back_request *r);
/* Starts the request on an idle (or just opened) connection. */
void h1_client_attach(struct h1_client *c, struct back_request *r);
void h1_client_idle(struct h1_client *c);
/* Closes the connection; its request, if any, is the caller's problem. */
void h1_client_close(struct h1_client *c, enum close_reason why, const char *detail);
/* The request is lost, unless something that has come waits for the client: false. */
bool h1_client_give_up(struct h1_client *c, const char *why);
const struct link_ops *h1_client_ops(void);

#endif
