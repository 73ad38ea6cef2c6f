/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of the kit (kit.h) that speaks HTTP/2: nghttp2 reads, and answers what a session answers by itself; what
 * else it says is written frame by frame by the test, right or wrong.
 */
#ifndef MVPROXY_TESTS_UNIT_BACK_H2_KIT_H
#define MVPROXY_TESTS_UNIT_BACK_H2_KIT_H

#include <nghttp2/nghttp2.h>

#include "unit/back/kit.h"

enum { H2_KIT_STREAMS = 1200, H2_KIT_CONNS = 40 };

/* A request as the server got it. */
struct h2_asked {
    int32_t id;
    struct buf head; /* "name: value\n" */
    struct buf body;
    bool ended, reset;
    uint32_t code;  /* of its reset */
    int64_t window; /* how much more may be sent on it */
};

struct h2_conn {
    struct back_h2_kit *k;
    struct stream *s; /* NULL once closed */
    nghttp2_session *session;
    struct h2_asked asked[H2_KIT_STREAMS];
    size_t n_asked, pings, goaways;
    uint32_t goaway_code;
    int64_t window; /* of the connection */
    bool eof, failed;
};

struct back_h2_kit {
    struct back_kit k;
    struct h2_conn *conns[H2_KIT_CONNS];
    size_t n_conns;
    uint32_t max_streams; /* in the server's SETTINGS; set before the connection comes */
    bool silent;          /* nothing is said that the test does not say, no SETTINGS, no acknowledgements */
    bool holds;           /* windows of bodies open by h2_open_windows() only; set before the connection comes */
};

void h2_open(struct back_h2_kit *k);
void h2_close(struct back_h2_kit *k);
/* The nth connection, waits for it. */
struct h2_conn *h2_conn(struct back_h2_kit *k, size_t n);
/* The nth request on it, waits until it is complete. */
struct h2_asked *h2_asked(struct h2_conn *c, size_t n);
/* Waits until so much of its body is there. */
struct h2_asked *h2_asked_body(struct h2_conn *c, size_t n, size_t bytes);
bool h2_was_reset(struct h2_conn *c, size_t n);
bool h2_ended(struct h2_conn *c);
void h2_conn_close(struct h2_conn *c, enum stream_close_how how);

/* Frames. `fields`: "name: value\n" lines. */
void h2_frame(struct h2_conn *c, unsigned type, unsigned flags, int32_t id, struct slice payload);
void h2_headers(struct h2_conn *c, int32_t id, const char *fields, bool end);
void h2_data(struct h2_conn *c, int32_t id, const char *text, bool end);
/* So many bytes, in frames of 16 KB, whatever the windows say. */
void h2_bulk(struct h2_conn *c, int32_t id, size_t n);
void h2_rst(struct h2_conn *c, int32_t id, uint32_t code);
void h2_goaway(struct h2_conn *c, int32_t last, uint32_t code);
void h2_settings(struct h2_conn *c, uint16_t id, uint32_t value);
/* Both windows, of the stream and of the connection, by so many bytes. */
void h2_open_windows(struct h2_conn *c, int32_t id, uint32_t by);

/* As after an answer to a request with this Authorization. */
void h2_judge_bearer(struct back_h2_kit *k, const char *bearer, unsigned status);
/* A request over HTTP/2 with the certificate; `bearer`: without, and with this Authorization. */
void h2_call_init(struct call *c, struct back_h2_kit *k, const char *target, const char *bearer);
void h2_call_send(struct call *c, struct back_h2_kit *k, const char *target, const char *bearer);

#endif
