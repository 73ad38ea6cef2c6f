/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/2 connection to a server: life, time, the two directions of bytes. What is above it: h2_call.h (one request
 * on it), h2_session.h (what nghttp2 calls), h2_pool.h (which connection a request gets).
 *
 * As on the client's side (front/h2_state.h) the session is fed and asked for bytes in one place only, settle() of
 * h2_client.c, never from inside a call of the owner or of nghttp2; what those provoke is submitted, and goes out at
 * the end of the turn.
 */
#ifndef MVPROXY_BACK_H2_CLIENT_H
#define MVPROXY_BACK_H2_CLIENT_H

#include <nghttp2/nghttp2.h>

#include "back/pool.h"

struct dial;
struct stream;

enum h2_client_state {
    H2C_DIALLING, /* waits for the connection */
    H2C_OPENING,  /* waits for the server's SETTINGS */
    H2C_OPEN,     /* takes requests while there is room */
    H2C_LEAVING,  /* takes no more; ends with its last stream */
    H2C_GONE,     /* waits for the end of the turn, to be freed */
};

struct h2_client;

/* Upwards. */
struct h2_events {
    /* The nghttp2 session, its preface queued; NULL when out of memory. */
    nghttp2_session *(*session)(struct h2_client *c);
    /* A member of `calls`, which it leaves: the connection is lost. */
    void (*lost)(struct list_node *call, const char *text);
    /* The server has spoken: those who wait get streams. */
    void (*opened)(struct h2_client *c);
    /* It does not speak HTTP/2, or takes no streams. */
    void (*refused)(struct h2_client *c);
    /* No mvproxy is there: those who wait go over another connection, without certificate. */
    void (*not_a_hop)(struct h2_client *c);
    /* It is no more. If it never became usable, those who wait fail. */
    void (*failed)(struct h2_client *c, const char *failure);
    /* It is over: nothing may point to it any more. */
    void (*gone)(struct h2_client *c);
};

/* Events in a running second. */
struct h2_rate {
    uint64_t since_ms;
    unsigned count;
};

struct h2_client {
    struct lifetime life;
    struct list_node node; /* of pool->h2_clients */
    struct pool *pool;
    struct origin *origin;
    const struct h2_events *events;
    enum h2_client_state state;
    enum conn_state shown;           /* as which it is counted */
    char *credential;                /* the Authorization it belongs to; NULL: everybody's */
    uint64_t credential_len, bearer; /* the second: its hash */
    struct lifetime_guest dial;
    struct stream *stream;
    nghttp2_session *session;
    struct h2_line *line; /* DIALLING, OPENING: for whom it is made; else NULL */
    struct list calls;    /* those with a stream (h2_call.h) */
    struct loop_timer *timer;
    struct lifetime_work work;
    uint64_t opening_ms, idle_since_ms, heard_ms;
    uint64_t pinged_ms;    /* a PING is unanswered; 0: none */
    bool doubted;          /* and nothing is sent there before something comes */
    uint64_t served, bulk; /* calls; the second: those whose answers come fast and at length, with larger windows */
    struct h2_rate control;
    uint64_t updates_due;     /* WINDOW_UPDATEs that the bodies sent so far account for */
    uint64_t resets_due;      /* requests sent that the server has not reset */
    bool in_session;          /* nghttp2 is at work, and may call us */
    bool speechless;          /* the session failed inside a frame: nothing may follow it */
    enum close_reason broken; /* CLOSE_REASONS: it is not */
    char broken_text[96];
};

/* NULL: out of memory. `credential`: see above; NONE for everybody's. It starts to dial. */
MEM_CHECK struct h2_client *h2_client_new(struct pool *p, struct slice credential, const struct h2_events *events);
/* It can take a request now. */
bool h2_client_has_room(const struct h2_client *c);
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
/* Asks the server (PING) whether it is there. Takes no requests until it says something. Closes nothing by itself. */
void h2_client_doubt(struct h2_client *c);
void h2_client_heard_settings(struct h2_client *c);
/* Keeps the gauge; after a stream came or went. */
void h2_client_show(struct h2_client *c);
bool h2_client_rate_exceeded(struct h2_client *c, struct h2_rate *r, unsigned limit);

#endif
