/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request on an HTTP/2 connection: its head and body out, its response in, its ends.
 * It belongs to the request, not to the connection: it lets go of the stream when that is over, and may go on
 * delivering what waited for a paused owner.
 */
#ifndef MVPROXY_BACK_H2_CALL_H
#define MVPROXY_BACK_H2_CALL_H

#include "back/h2_client.h"

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
    struct lifetime_work work;
};

/* Sends the request over the connection, which has room. */
void h2_call_start(struct h2_client *c, struct back_request *r);
/* Resets the stream with the code; the request fails. */
void h2_call_fail(struct h2_call *call, uint32_t code, enum back_failure why, const char *text);
/* What nghttp2 has for it. */
void h2_call_fields_begin(struct h2_call *call);
void h2_call_field(struct h2_call *call, struct slice name, struct slice value);
/* A block of fields is complete; `ended`: so is the response. */
void h2_call_fields_end(struct h2_call *call, bool ended);
void h2_call_data(struct h2_call *call, struct slice data);
void h2_call_end(struct h2_call *call);
/* The stream is closed: by its end, by the server's or our RST_STREAM, or by GOAWAY. */
void h2_call_closed(struct h2_call *call, uint32_t code);
/* The connection is lost: as h2_events.lost. */
void h2_call_lost(struct list_node *call, const char *text);

#endif
