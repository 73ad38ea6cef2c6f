/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an HTTP/1.1 server connection consists of, its state with the time that belongs to it, and its end. On top of
 * it stand h1_answer.c (what goes out) and, above that, h1_conn.c (what comes in). Nobody else includes this.
 */
#ifndef MVPROXY_FRONT_H1_STATE_H
#define MVPROXY_FRONT_H1_STATE_H

#include "front/exchange_conn.h"
#include "front/front_conn.h"
#include "http/h1_body.h"
#include "net/lifetime.h"

enum h1_state {
    H1_AWAITING, /* no request; waits for the first byte of a head. Idle timeout (at first: header timeout) */
    H1_READING,  /* waits for the rest of a head. Header timeout */
    /* The proxy has the exchange; waits for the rest of the request's body. Stall timeout, also for the client to take
     * some of an answer that has begun, whatever comes of the body. */
    H1_RECEIVING,
    H1_SERVING, /* the request is complete; waits for the rest of the response. None; while the client does not take it:
                   stall timeout */
    H1_DISCARDING, /* the response is complete; waits for the short rest of a body that nobody wants. Likewise */
    H1_LINGERING,  /* our last byte is queued; waits for the client's end, so that it can read that byte */
    H1_CLOSED,     /* waits for the end of the turn, to be freed */
};

struct h1_conn {
    struct exchange x;
    struct front_conn *fc;
    struct stream *stream; /* fc->stream; dead in H1_CLOSED */
    enum h1_state state;
    struct arena *arena;      /* of the exchange, x.arena; NULL between requests */
    struct h1_parser *parser; /* of the head; NULL before and behind it */
    struct h1_body body;
    struct lifetime life;
    struct loop_timer *timer;
    struct lifetime_work wake; /* goes on outside the caller's call */

    bool body_paused;      /* by the proxy */
    bool continue_pending; /* the client waits for 100 (Continue) and has not sent any of its body */
    bool head_written;     /* of the final response */
    bool chunked;          /* the response is */
    bool close_after;      /* the response is the last one, for this reason: */
    enum front_close close_reason;

    size_t unsent_seen; /* at the last look of a timer, to tell slow from stuck */
    uint64_t written_seen;
    uint64_t progress_ms;
    uint64_t body_ms; /* when some of the request's body came last, or the proxy began to want it; H1_READING: since
                         when that is its state, or the connection is there */
};

/*
 * NULL when out of memory. Who takes the input gives it what h1_conn_wake() has called, and what is to be done when the
 * time of a state is over.
 */
MEM_CHECK struct h1_conn *h1_conn_new(struct front_conn *fc, loop_fn *on_wake, loop_fn *on_timer);
/* The one function that changes the state; sets the timer that belongs to it. */
void h1_conn_move(struct h1_conn *c, enum h1_state to);
/* The time of the state begins anew. For states that have one. */
void h1_conn_time_anew(struct h1_conn *c);
/*
 * Has the client taken any of what we sent since the last look, or is there nothing to take? Looked at when a timer
 * fires, so that a slow reader is not cut off by a timeout meant for a silent one.
 */
bool h1_conn_client_reads(struct h1_conn *c);
/* The client does not take the answer as fast as it comes: it must take some of it within a minute. */
void h1_conn_answer_waits(struct h1_conn *c);
/* Has on_wake look again at what there is to do, later in this turn or in the next. */
void h1_conn_wake(struct h1_conn *c);

/* Half-closes and waits for the client's end. */
void h1_conn_linger(struct h1_conn *c, enum front_close reason);
void h1_conn_close(struct h1_conn *c, enum front_close reason, enum stream_close_how how);
/* For an upgrade: the connection ends without its stream. */
struct stream *h1_conn_give_away(struct h1_conn *c);

/* The rest of the request's body is known to be short. */
bool h1_conn_rest_is_short(const struct h1_conn *c);
/* The response is complete: what is left of the request is discarded, if that is short. */
void h1_conn_response_done(struct h1_conn *c);
/* Request and response are over: on to the next request, or to the end. */
void h1_conn_next(struct h1_conn *c);

#endif
