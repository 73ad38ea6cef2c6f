/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the nghttp2 sessions of both sides (front/h2_*, back/h2_*) have in common: memory that fails like ours and can
 * be made to fail in tests, windows that only we open, heads as long as on HTTP/1.1, and a bound on answers that a peer
 * provokes and does not read.
 */
#ifndef MVPROXY_HTTP_H2_OPEN_H
#define MVPROXY_HTTP_H2_OPEN_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

struct quota;

/*
 * A frame that costs its sender next to nothing and us some work (RFC 9113 10.5): all but HEADERS, DATA with data,
 * answers to ours, and pieces of a head that are worth a frame.
 */
bool h2_frame_is_cheap(const nghttp2_frame_hd *hd);

/* How many WINDOW_UPDATEs are in order: Go opens two windows with each read, and reads by as little as 512 bytes. */
enum { H2_UPDATES_PER_FRAME = 8, H2_BYTES_PER_UPDATE = 128 };

struct h2_opening {
    bool server;
    void (*set_callbacks)(nghttp2_session_callbacks *cb);
    void *arg; /* of the callbacks */
    const nghttp2_settings_entry *settings;
    size_t n_settings;
    int32_t window;      /* the connection's, bytes */
    struct quota *quota; /* which the session's memory is charged to; NULL: none */
};

/* SETTINGS and window are submitted, not sent. NULL when out of memory. */
nghttp2_session *h2_session_open(const struct h2_opening *o);

#endif
