/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other face of an exchange: what a connection (HTTP/1.1, HTTP/2) implements and how it hands
 * the client's side over. The proxy never includes this.
 *
 * The rules that do not depend on the protocol live in exchange.c: the order of the calls, the announced length
 * against the bytes given, and that on_gone comes once and never from inside a call of the proxy.
 */
#ifndef MVPROXY_FRONT_EXCHANGE_CONN_H
#define MVPROXY_FRONT_EXCHANGE_CONN_H

#include "base/arena_pool.h"
#include "front/exchange.h"
#include "front/stats.h"

struct clients;
struct memory_holder;

/*
 * None of these calls the sink. Those that return bool return false when the stream is broken or memory is short;
 * exchange.c then dooms the exchange.
 */
struct exchange_ops {
    bool (*interim)(struct exchange *x, const struct http_head *head);
    /* x->answer says how the body is delimited: NONE, LENGTH or CHUNKED; x->bodyless that no byte of it follows. */
    bool (*respond)(struct exchange *x, const struct http_head *head);
    bool (*body)(struct exchange *x, struct slice data);
    bool (*congested)(const struct exchange *x);
    /* The exchange is over when one of these four is called; it is never touched again after they return. */
    void (*finish)(struct exchange *x, const struct http_head *trailers);
    void (*abort)(struct exchange *x, const char *reason);
    struct stream *(*upgrade)(struct exchange *x, const struct http_head *head);
    /* x->doom_reason is set: call exchange_give_gone() once the proxy's call is over, unless the exchange is over by
     * then. */
    void (*doomed)(struct exchange *x);
    /* The proxy wants no body now / wants it again. */
    void (*pause)(struct exchange *x);
    void (*resume)(struct exchange *x);
};

enum exchange_phase {
    EXCHANGE_UNUSED,    /* nobody holds it; waits for a request */
    EXCHANGE_ASKED,     /* the proxy holds it; waits for the final head */
    EXCHANGE_ANSWERING, /* the final head is written; waits for the rest of the response */
    EXCHANGE_DOOMED,    /* broke inside a call of the proxy; waits for that call to end, then on_gone */
    EXCHANGE_OVER,      /* the proxy let go of it, or was told that the client is gone */
};

/* Embedded in the connection or its stream. The connection fills the second part before exchange_begin(). */
struct exchange {
    enum exchange_phase phase;
    const struct exchange_sink *sink;
    void *sink_arg;
    uint64_t started_us, request_bytes, response_bytes;
    uint64_t awaited_us, awaited_bytes; /* since when it is the client's turn to send its body; the bytes before that */
    struct http_body answer;            /* of the final response, normalized: never CLOSE */
    bool sent_away;                     /* the connection ends with this answer */
    uint64_t behind;  /* hash of the address of the client for whom the connection's asks; 0: its own */
    uint64_t account; /* whose fault it is when it is given up; 0: nobody's */
    bool charged;     /* to that, until it has ended well */
    bool of_peer;     /* the connection carries the requests of another mvproxy's clients */
    bool bodyless;    /* HEAD, 204, 304: no byte follows, whatever is announced */
    const char *doom_reason;

    const struct exchange_ops *ops;
    struct front_stats *stats;
    struct clients *clients;     /* NULL: nobody is counted */
    struct quota *quota;         /* of its connection, or NULL */
    struct loop_turns *turns;    /* of its connection, or NULL */
    struct memory_holder *heads; /* of a connection whose requests' heads are counted together, or NULL */
    struct arena *arena;         /* as long as the exchange; method and target are in it */
    struct arena *request_arena; /* the fields are in it; NULL once they are forgotten */
    struct arena_pool *arenas;   /* where it comes from */
    struct http_head request;
    struct http_body request_body;
    bool expects_continue, wants_upgrade;
    struct exchange_client client;
};

/* The head is complete: the exchange may be shown to the proxy. Counts it. */
void exchange_begin(struct exchange *x);
/* The proxy holds it (ASKED, ANSWERING or DOOMED). */
bool exchange_held(const struct exchange *x);
/* The handler has attached a sink or is through with it; false means that it forgot both. */
bool exchange_taken(const struct exchange *x);
/* From now on it is the client's turn to send its body, or the rest of it. */
void exchange_await_body(struct exchange *x);
/* It has been for so long, and the body comes so slowly that its connection may be ended: where others wait for room,
 * and in a drain. Of who is not to be indulged, however it comes. */
bool exchange_is_slow(const struct exchange *x, uint64_t for_ms, bool indulged);
/* What the client sent. After each call the exchange may be over: look at exchange_held(). */
void exchange_give_body(struct exchange *x, struct slice data);
void exchange_give_end(struct exchange *x, const struct http_head *trailers);
void exchange_give_writable(struct exchange *x);
/* Tells the proxy that the client is gone, unless the exchange is over already. */
void exchange_give_gone(struct exchange *x, const char *reason);

#endif
