/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer of a proxy to CONNECT, judged byte by byte: status line, header lines, empty line. Strict (CRLF only, no
 * folded lines, no control characters) and bounded by LIMIT_CONNECT_HEAD_BYTES; only 200 opens the tunnel, as for
 * kube-apiserver. Fields are checked and dropped: RFC 9110, 9.3.6 has the framing ones ignored. Pure: no I/O.
 */
#ifndef MVPROXY_NET_CONNECT_HEAD_H
#define MVPROXY_NET_CONNECT_HEAD_H

#include "base/slice.h"

enum { CONNECT_LINE_SHOWN = 96 };

enum connect_part { CONNECT_STATUS_LINE, CONNECT_FIELD_START, CONNECT_FIELD_NAME, CONNECT_FIELD_VALUE };

enum connect_verdict {
    CONNECT_UNDECIDED,
    CONNECT_GRANTED, /* the head is complete, the tunnel begins with the next byte */
    CONNECT_REFUSED, /* connect_head_failure() says why; more must not be fed */
};

/* Zeroed at first. */
struct connect_head {
    enum connect_part part;
    bool after_cr;
    size_t bytes;                      /* of the head so far */
    size_t column;                     /* in its current line */
    char line[CONNECT_LINE_SHOWN + 1]; /* the beginning of the status line; what is not printable is '?' */
    const char *wrong;                 /* NULL: nothing, or the status */
};

/* Judges the next bytes; *used of them belong to the head. */
enum connect_verdict connect_head_feed(struct connect_head *h, struct slice in, size_t *used);
/* After CONNECT_REFUSED: one line without secrets or control characters. */
void connect_head_failure(const struct connect_head *h, char *out, size_t size);

#endif
