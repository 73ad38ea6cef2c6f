/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an HTTP/2 server connection and its streams consist of, and what every part of it may do to the connection. From
 * the top: h2_conn.c (life, time, the two directions of bytes), h2_session.c (what nghttp2 calls), h2_request.c (the
 * way in), h2_answer.c (the way out), h2_stream.c (life of a stream), h2_head.c (heads), this. Nobody else includes it.
 *
 * Two rules carry the rest. The session is fed and asked for bytes in one place only, settle() of h2_conn.c, and never
 * from inside a call of the proxy or of nghttp2; what those provoke is submitted, and goes out at the end of the turn.
 * And a stream leaves its connection's list only when nghttp2 says that it is closed, so only in that place.
 */
#ifndef MVPROXY_FRONT_H2_STATE_H
#define MVPROXY_FRONT_H2_STATE_H

#include <nghttp2/nghttp2.h>

#include "base/limits.h"
#include "front/exchange_conn.h"
#include "front/front_conn.h"
#include "net/lifetime.h"

enum h2_state {
    H2_SERVING,
    H2_ANNOUNCED, /* the client was told that we leave; its new streams are still taken until it has heard */
    H2_LEAVING,   /* last GOAWAY is queued; waits for the open streams to end */
    H2_PARTED,    /* all is said; waits for the client to take the rest of it */
    H2_FAILING,   /* very last GOAWAY is queued or sent; what the client still sends is thrown away */
    H2_CLOSED,    /* waits for the end of the turn, to be freed */
};

/* The request's way. */
enum h2_receiving {
    H2_HEAD,     /* fields arrive */
    H2_BODY,     /* the body arrives */
    H2_ENDED,    /* all of it is here; some may wait for the proxy */
    H2_RECEIVED, /* the proxy has been told of the end, or nobody wants the rest */
};

/* The response's way. */
enum h2_sending {
    H2_NOTHING,
    H2_ANSWERING, /* the head was given */
    H2_ENDING,    /* everything was given; the rest waits to be sent */
    H2_ANSWERED,  /* everything was sent, in the middle of the client's body; RST_STREAM follows */
    H2_RESET,     /* RST_STREAM is queued */
};

struct h2_stream {
    struct exchange x;
    struct h2_conn *c;
    struct list_node node;  /* of c->streams */
    struct list_node woken; /* of c->woken */
    struct lifetime life;
    int32_t id;
    enum h2_receiving receiving;
    enum h2_sending sending;

    size_t head_bytes, head_fields; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts; then of the trailers */
    unsigned refusal;               /* status, when the head is known to be no good before its end; 0 */
    const char *refusal_reason;
    struct http_head trailers;
    bool reset_by_client;

    struct buf in;        /* body that the proxy has paused; at most the stream's window */
    uint64_t progress_ms; /* when the client last sent some of it */
    bool body_paused;
    bool continue_pending; /* the client waits for 100 (Continue) and has not sent any of its body */

    struct buf out;    /* body of the response that the client's window or socket does not take yet */
    uint64_t taken_ms; /* `waiting`: when the client last took some of it; H2_ANSWERED: when all was sent */
    bool waiting;      /* there is something in `out` */
    bool full;         /* so much that its producer must wait; it is told when no longer */
    bool was_full;     /* it is to be told now */
    bool deferred;     /* nghttp2 waits for nghttp2_session_resume_data() */
    nghttp2_nv *nva;   /* of a head that is to be sent together with its end; else NULL */
    size_t n_nva;
    nghttp2_nv *trailer_nva;
    size_t n_trailer_nva;
};

/*
 * Of heads, decoded, at one look: a byte that was sent may stand for 4 KB. Whoever has more than the first goes on in
 * turns with all that give much to do (LOOP_BULK), up to the second in each, so that others do not wait for them all.
 */
enum { H2_HEADS_DEAR = 32 << 10, H2_HEADS_AT_ONCE = 128 << 10 };

/* Events in a running second. */
struct h2_rate {
    uint64_t since_ms;
    unsigned count;
};

struct h2_conn {
    struct front_conn *fc;
    struct stream *stream; /* fc->stream; dead in H2_CLOSED */
    nghttp2_session *session;
    enum h2_state state;
    enum front_close close_reason;
    struct list streams;        /* all that nghttp2 has not closed */
    struct list woken;          /* something to do for them, outside of all calls */
    size_t n_bodies, n_waiting; /* streams in H2_BODY; whose answers wait for the client */
    uint64_t written_ms;        /* when the socket last took something */
    /* Of input that nghttp2 gets at once; when idle: unsent, PARTED: not acknowledged, at the last look. */
    size_t piece_bytes, untaken_seen;
    struct lifetime life;
    struct loop_timer *timer;
    struct lifetime_work work, turn;           /* settles; the same in its turn among those that give much to do */
    int32_t last_id, skipped_from, skipped_to; /* of the client's streams; the ids skipped last */
    uint64_t idle_since_ms;                    /* without streams */
    uint64_t head_since_ms;                    /* a head has begun and not ended; 0: none */
    int32_t head_id;                           /* of its stream */
    uint64_t stall_due_ms;                     /* none of n_bodies and n_waiting can have stalled before */
    /* When what waits in the socket's queue has been unread for too long, unless more than so many bytes have left by
     * then; 0: nothing waits that another time looks after. */
    uint64_t unread_due_ms, unread_mark;
    uint64_t announced_ms, failed_ms, progress_ms; /* PARTED: when untaken_seen last became less */
    struct h2_rate resets, control;
    uint64_t updates_due; /* WINDOW_UPDATEs that requests, and the answers sent so far, account for */
    /* ANNOUNCED: the client answered our PING or had its time. LEAVING: until GOAWAY is sent nothing is read. */
    bool heard, parting;
    /* An answer said so: GOAWAY is due; the socket is broken; something could not be queued that had to be. */
    bool send_away, unwritable, no_memory;
    const char *shut_reason; /* the front ends it: for the proxy, if it has requests on it. NULL: it does not */
    bool of_peer;            /* carries the requests of another mvproxy's clients */
    bool in_session;         /* nghttp2 is at work, and may call us: it must not be asked for anything */
    size_t head_bytes;       /* of heads that were decoded at this look */
    uint64_t look_end_us;    /* when it has had its time; what its requests have us do counts */
    /* So much that it is read only in its turn; that nghttp2 has stopped inside of a head; that a look has taken its
     * time. This is its turn. */
    bool dear, stopped, late, has_turn;
};

/* The one function that changes the state. */
void h2_conn_move(struct h2_conn *c, enum h2_state to);
/* Has h2_conn.c look again at what there is to do, later in this turn or in the next. */
void h2_conn_wake(struct h2_conn *c);
/* GOAWAY, mostly with an error; what is open ends with it. */
void h2_conn_fail(struct h2_conn *c, uint32_t code, enum front_close reason);
/* False: the stream is broken. */
bool h2_conn_write(struct h2_conn *c, struct slice data);
/* Before one more is counted in n_bodies or n_waiting. */
void h2_conn_expect(struct h2_conn *c);

#endif
