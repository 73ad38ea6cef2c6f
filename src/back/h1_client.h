/*
 * One HTTP/1.1 connection to a server: opened by pool.c, serving one request at a time.
 */
#ifndef MVPROXY_BACK_H1_CLIENT_H
#define MVPROXY_BACK_H1_CLIENT_H

#include "back/back_internal.h"
#include "http/h1_body.h"

struct dial;

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

MEM_CHECK struct h1_client *h1_client_new(struct pool *p);
void h1_client_free(struct h1_client *c);
/* The dial succeeded: the stream is the connection's from now on. */
void h1_client_opened(struct h1_client *c, struct stream *s);
/* Starts the request on an idle (or just opened) connection. */
void h1_client_attach(struct h1_client *c, struct back_request *r);
/* Framed bytes. False: the connection is broken, or far too much is unsent; its end follows. */
bool h1_client_write(struct h1_client *c, struct slice data);
void h1_client_pause(struct h1_client *c, bool paused);
/* Nobody wants the rest of the answer: is it worth reading all the same, so that the connection can be kept? */
bool h1_client_may_drain(const struct h1_client *c);
/* Reads it for at most TIMEOUT_DRAIN_MS; the request is ABANDONED. */
void h1_client_drain(struct h1_client *c);
/* Closes the connection; its request, if any, is the caller's problem. */
void h1_client_close(struct h1_client *c, enum close_reason why, const char *detail);

#endif
