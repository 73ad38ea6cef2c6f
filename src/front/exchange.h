/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its response, whatever the protocol of the connection. The connection (front/h1_conn, front/h2_conn)
 * makes it and gives it ops; the proxy consumes it. Nobody else touches either.
 *
 * Life: the handler given to front_new() is called with a parsed request head; it attaches a sink and answers by
 *   exchange_interim()* exchange_respond() exchange_body()* exchange_finish()      or
 *   exchange_reply()                                                             or
 *   exchange_upgrade()  /  exchange_abort()
 * finish, reply, upgrade and abort end the exchange for the proxy: the pointer (and its arena) is dead after the call.
 * If the client leaves first, sink->on_gone is called, once, and the pointer is dead after it returns.
 * Sink callbacks are never called from inside an exchange_* call.
 */
#ifndef MVPROXY_FRONT_EXCHANGE_H
#define MVPROXY_FRONT_EXCHANGE_H

#include "http/head.h"

struct exchange;
struct quota;
struct stream;
struct tls_peer;

struct exchange_sink {
    /* A piece of the request's body, valid during the call; all of it is taken. */
    void (*on_body)(void *arg, struct slice data);
    /* The body is complete. `trailers` has no fields if there were none. Not called for HTTP_BODY_NONE. */
    void (*on_body_end)(void *arg, const struct http_head *trailers);
    /* exchange_congested() was true and is no longer. */
    void (*on_writable)(void *arg);
    /* The client left or broke the protocol: cancel everything. */
    void (*on_gone)(void *arg, const char *reason);
};

/* Facts about the connection; all text lives as long as the exchange. */
struct exchange_client {
    const char *address;        /* ip:port */
    const char *ip;             /* "" for Unix sockets */
    const struct tls_peer *tls; /* never NULL */
    const char *protocol;       /* "HTTP/1.1", "HTTP/2.0" */
    uint64_t connection_id;     /* unique in the process */
    uint64_t sequence;          /* the request's number on its connection, from 1 */
};

const struct http_head *exchange_request(const struct exchange *x);
/* Lives until exchange_forget_request(), or to the end: for what is only needed to send the request on. */
struct arena *exchange_request_arena(struct exchange *x);
/* The request's fields are not needed any more, nor is what was made of them in exchange_request_arena(): frees them,
 * which may have been a megabyte. Method, target and HTTP version stay. To be called once no retry can come. */
void exchange_forget_request(struct exchange *x);
/* How the request's body is delimited (NONE, LENGTH or CHUNKED; CHUNKED also stands for HTTP/2 without length). */
struct http_body exchange_request_body(const struct exchange *x);
/* The client waits for 100 (Continue) before it sends its body. */
bool exchange_expects_continue(const struct exchange *x);
/* The client asks for another protocol (Connection: upgrade); exchange_upgrade() is possible. */
bool exchange_wants_upgrade(const struct exchange *x);
const struct exchange_client *exchange_client(const struct exchange *x);
struct arena *exchange_arena(struct exchange *x);
/* Monotonic microseconds when the head was complete. */
uint64_t exchange_started_us(const struct exchange *x);
uint64_t exchange_response_bytes(const struct exchange *x); /* body bytes given so far */
uint64_t exchange_request_bytes(const struct exchange *x);
/* What is held for its sake is charged to it. Not longer than the exchange. */
struct quota *exchange_quota(const struct exchange *x);

/* From now on the sink gets the body (nothing was delivered before). Must be called before the handler returns, unless
 * it answered. */
void exchange_attach(struct exchange *x, const struct exchange_sink *sink, void *arg);
/* Stops / continues the delivery of the request's body (pieces under way are kept, bounded). */
void exchange_pause_body(struct exchange *x);
void exchange_resume_body(struct exchange *x);

/*
 * The response. Heads carry end-to-end fields only: the connection adds its own framing and connection fields and
 * refuses to write Connection, Transfer-Encoding, Content-Length or Keep-Alive from `head`; the length comes from
 * `body`. CLOSE and CHUNKED both mean "unknown length" (chunked for HTTP/1.1 clients, close-delimited for 1.0). For
 * HEAD requests and 304 `body` may be LENGTH: it is announced and no bytes follow. All return false when the client is
 * gone already (on_gone follows) or out of memory.
 */
bool exchange_interim(struct exchange *x, const struct http_head *head); /* 1xx except 101 */
bool exchange_respond(struct exchange *x, const struct http_head *head, struct http_body body);
bool exchange_body(struct exchange *x, struct slice data);
bool exchange_congested(const struct exchange *x);
/* The response is complete; trailers may be NULL. Unread request body: drained if short, else the connection closes
 * after the answer. */
void exchange_finish(struct exchange *x, const struct http_head *trailers);
/* The client had better ask another server next time: this answer is the last one on its connection (Connection: close;
 * GOAWAY, and other requests under way go on to their end). To be called before the final head is given. */
void exchange_send_away(struct exchange *x);
/*
 * The connection is another mvproxy's: what comes on it is of many clients, each of whom is bounded there. Bounds that
 * are meant for one client would let any of them end the requests of all others. To be called in the handler.
 */
void exchange_of_peer(struct exchange *x);
/*
 * The connection is a proxy's that says for whom it asks, here for the client at `address`: it is him whom bounds for
 * one client are meant for. False: he has so much in heads of requests under way that this one is to be refused. To be
 * called in the handler.
 */
bool exchange_for_client(struct exchange *x, struct slice address);
/* Somebody has vouched for the client: a certificate, or a server that took his token. His connection has its turns
 * with such from now on, not with those whom nobody knows, and so have handshakes of his address. */
void exchange_vouch(struct exchange *x);
/*
 * On whose account it is if the client gives it up soon, by a reset or with its connection: a seeded hash, 0: nobody's.
 * False: that has given up so many lately that this one is to be refused. To be called in the handler.
 */
bool exchange_may_ask(struct exchange *x, uint64_t account);
/* A whole response in one call; `body` is copied. Content-Length is added; ends the exchange. */
void exchange_reply(struct exchange *x, const struct http_head *head, struct slice body);
/* The client must see a broken stream: reset (HTTP/1.1) or RST_STREAM. Before a head was sent: just closes. `reason` is
 * logged and counted. */
void exchange_abort(struct exchange *x, const char *reason);
/* Writes the 101 head and gives the stream away, with all bytes that wait unread in it. NULL if the client is gone
 * (on_gone is not called then). */
struct stream *exchange_upgrade(struct exchange *x, const struct http_head *head);
/* True once a final response head was given. */
bool exchange_responded(const struct exchange *x);

#endif
