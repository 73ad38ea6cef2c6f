/*
 * One HTTP/2 connection to a server, shared by its parts: h2_client.c (life, time, the two directions of bytes),
 * h2_client_session.c (what nghttp2 calls), h2_call.c (one request on it), h2_upload.c (its body), h2_pool.c (which
 * connection a request gets).
 *
 * As on the client's side (front/h2_state.h) the session is fed and asked for bytes in one place only, settle() of
 * h2_client.c, never from inside a call of the owner or of nghttp2; what those provoke is submitted, and goes out at
 * the end of the turn.
 */
#ifndef MVPROXY_BACK_H2_CLIENT_H
#define MVPROXY_BACK_H2_CLIENT_H

#include <nghttp2/nghttp2.h>

#include "back/back_internal.h"
#include "back/h2_pool.h"

struct dial;
struct stream;

enum h2_client_state {
    H2C_DIALLING, /* waits for the connection */
    H2C_OPENING,  /* waits for the server's SETTINGS */
    H2C_OPEN,     /* takes requests while there is room */
    H2C_LEAVING,  /* takes no more; ends with its last stream */
    H2C_GONE,     /* waits for the end of the turn, to be freed */
};

/* Events in a running second. */
struct h2_rate {
    uint64_t since_ms;
    unsigned count;
};

struct h2_client {
    struct list_node node; /* of pool->h2_clients, then of back->dead_h2 */
    struct pool *pool;
    enum h2_client_state state;
    enum conn_state shown;           /* as which it is counted */
    char *credential;                /* the Authorization it belongs to; NULL: everybody's */
    uint64_t credential_len, bearer; /* the second: its hash */
    struct dial *dial;
    struct stream *stream;
    nghttp2_session *session;
    struct list waiting, calls; /* requests (DIALLING, OPENING); struct h2_call, those with a stream */
    struct loop_timer *timer;
    struct loop_deferred work;
    uint64_t opening_ms, idle_since_ms, heard_ms;
    uint64_t pinged_ms;    /* a PING is unanswered; 0: none */
    uint64_t served, bulk; /* calls; the second: those whose answers come fast and at length, with larger windows */
    struct h2_rate control;
    uint64_t updates_due;     /* WINDOW_UPDATEs that the bodies sent so far account for */
    bool in_session;          /* nghttp2 is at work, and may call us */
    bool speechless;          /* the session failed inside a frame: nothing may follow it */
    enum close_reason broken; /* CLOSE_REASONS: it is not */
    char broken_text[96];
};

/* The request's way. */
enum h2_call_state {
    H2_CALL_UNUSED,
    H2_CALL_HEAD,  /* waits for the final head */
    H2_CALL_BODY,  /* the body arrives */
    H2_CALL_ENDED, /* all of it is here; some may wait for the owner */
    H2_CALL_LOST,  /* broke off in the body; what came before may wait for the owner */
};

struct h2_call {
    struct back_request *r;
    struct h2_client *c; /* NULL: no stream (any more) */
    struct list_node node;
    int32_t id;
    enum h2_call_state state;
    bool submitted;                 /* HEADERS are out */
    bool in_head;                   /* fields of a final or interim head arrive, else of trailers */
    size_t head_bytes, head_fields; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts */
    unsigned interims;
    const char *bad;   /* what is wrong with the head or frame that arrives; a literal, or nghttp2's */
    bool no_memory;    /* that is what is wrong */
    const char *why;   /* LOST: for the log; likewise */
    struct buf in;     /* body that the owner has paused; at most the stream's window */
    struct buf out;    /* of the request's body: waits for the server's windows */
    bool starved;      /* nghttp2 asked for more of it when there was none */
    bool uploaded;     /* its last byte was taken by nghttp2 */
    uint64_t moved_ms; /* when some of it was taken, or none waited */
    int32_t window;
    uint64_t window_since_ms, window_got;
    struct loop_timer *timer; /* for the head, or the rest of a cancelled answer; NULL: none */
    size_t drained;           /* bytes of the latter */
    struct loop_deferred work;
};

/* h2_client.c. NULL: out of memory. `credential`: see above; NONE for everybody's. It starts to dial. */
MEM_CHECK struct h2_client *h2_client_new(struct pool *p, struct slice credential);
void h2_client_free(struct h2_client *c);
/* How many requests it can take now. */
size_t h2_client_room(const struct h2_client *c);
/* Takes no more requests; ends with the last that it has. */
void h2_client_leave(struct h2_client *c);
/* GOAWAY with this code; everything on it ends. */
void h2_client_fail(struct h2_client *c, uint32_t code, enum close_reason why, const char *text);
/* Notes that it cannot go on; it is closed outside of all calls. */
void h2_client_note_broken(struct h2_client *c, enum close_reason why, const char *text);
/* Closes it now. Not from inside nghttp2. */
void h2_client_close(struct h2_client *c, enum close_reason why, const char *detail);
/* Has it look again at what there is to do, later in this turn or in the next. */
void h2_client_wake(struct h2_client *c);
void h2_client_heard_settings(struct h2_client *c);
/* Keeps the gauge; after a stream came or went. */
void h2_client_show(struct h2_client *c);
bool h2_client_rate_exceeded(struct h2_client *c, struct h2_rate *r, unsigned limit);

/* h2_client_session.c: NULL when out of memory. The connection preface is queued. */
MEM_CHECK nghttp2_session *h2_client_session_new(struct h2_client *c);

/* h2_call.c. Sends the request over the connection, which has room. */
void h2_call_start(struct h2_client *c, struct back_request *r);
/* Lets go of the stream, with RST_STREAM CANCEL if it is not over. The request is the caller's problem. */
void h2_call_cancel(struct h2_call *call);
/* Has it a stream? */
bool h2_call_is_open(const struct h2_call *call);
/* Nobody wants the rest of the answer: can it be read all the same, so that no reset is needed? */
bool h2_call_may_drain(struct h2_call *call);
/* Reads it for at most TIMEOUT_DRAIN_MS; the request is ABANDONED. */
void h2_call_drain(struct h2_call *call);
void h2_call_free(struct h2_call *call);
/* Resets the stream with the code; the request fails. */
void h2_call_fail(struct h2_call *call, uint32_t code, enum back_failure why, const char *text);
void h2_call_pause(struct h2_call *call, bool paused);
/* h2_upload.c. What nghttp2 is to take the body from; NULL: there is none. */
const nghttp2_data_provider *h2_call_upload(struct h2_call *call);
/* A piece of the body. False: the request has failed. */
bool h2_call_write(struct h2_call *call, struct slice data);
/* Enough of it waits for the server's windows; request_wants_body() when that is over. */
bool h2_call_congested(const struct h2_call *call);
/* No more of it will come. */
void h2_call_body_finished(struct h2_call *call);
/* h2_call.c. What nghttp2 has for it. */
void h2_call_fields_begin(struct h2_call *call);
void h2_call_field(struct h2_call *call, struct slice name, struct slice value);
/* A block of fields is complete; `ended`: so is the response. */
void h2_call_fields_end(struct h2_call *call, bool ended);
void h2_call_data(struct h2_call *call, struct slice data);
void h2_call_end(struct h2_call *call);
/* The stream is closed: by its end, by the server's or our RST_STREAM, or by GOAWAY. */
void h2_call_closed(struct h2_call *call, uint32_t code);
/* The connection is lost. */
void h2_call_lost(struct h2_call *call, const char *text);

#endif
