/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads, chunk framing and trailers to bytes. Nothing that could split a message gets out: a name that is no token or
 * a value with CR, LF, NUL or another control byte makes the whole head fail (leaving a field out silently could
 * change who a request is taken for).
 */
#ifndef MVPROXY_HTTP_H1_WRITE_H
#define MVPROXY_HTTP_H1_WRITE_H

#include "base/buf.h"
#include "http/head.h"

enum h1_write_flags {
    H1_WRITE_CLOSE = 1,     /* adds Connection: close */
    H1_WRITE_UPGRADE = 2,   /* adds Connection: Upgrade (the Upgrade field is in the head) */
    H1_WRITE_NO_LENGTH = 4, /* response: no framing fields at all (1xx, 101, 204, answers to HEAD of unknown length) */
};

/*
 * Appends the head of a request: method, target, HTTP/1.1, the fields except Connection, Keep-Alive, Proxy-Connection,
 * Content-Length, Transfer-Encoding and Upgrade (this only without H1_WRITE_UPGRADE), and the framing that `body` asks
 * for (NONE writes Content-Length: 0 for POST, PUT and PATCH, nothing otherwise). False: nothing was appended, because
 * a part is not fit to be sent, or the buffer is full.
 */
bool h1_write_request(struct buf *out, const struct http_head *head, struct http_body body, unsigned flags);
/*
 * Appends the head of a response in the same way. `body`: NONE writes Content-Length: 0 unless H1_WRITE_NO_LENGTH is
 * given or the status has no body (1xx, 204, 304); CLOSE writes no framing (give H1_WRITE_CLOSE too). `date` is added
 * if it is not empty and the head has no Date.
 */
bool h1_write_response(struct buf *out, const struct http_head *head, struct http_body body, unsigned flags,
                       struct slice date);
/* "0", trailers (NULL: none; names that must not be there are left out), empty line. False as above. */
bool h1_write_last_chunk(struct buf *out, const struct http_head *trailers);

enum { H1_CHUNK_HEAD_BYTES = 24 };
/* The line before n > 0 bytes of payload, in `out`; after the payload goes H1_CHUNK_TAIL. */
struct slice h1_chunk_head(uint64_t n, char out[H1_CHUNK_HEAD_BYTES]);
#define H1_CHUNK_TAIL SLICE_LIT("\r\n")

/* IMF-fixdate (RFC 9110 5.6.7), remade once a second at most. Zeroed to begin with; owned by whoever writes heads. */
struct h1_date {
    int64_t second;
    char text[32];
};
struct slice h1_date_text(struct h1_date *cache, int64_t wall_us);

#endif
