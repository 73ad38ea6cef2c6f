/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the writing buffers of the loop's streams take turns with: a message is gathered, sent, and its memory is
 * the next one's, still warm in the cache. Idle streams hold none of it.
 */
#ifndef MVPROXY_NET_SPARE_H
#define MVPROXY_NET_SPARE_H

#include "base/buf.h"

enum {
    SPARE_BYTES = 17 << 10, /* the largest record, and what TLS adds to it */
    SPARE_PIECES = 64,
};

/* All zero: empty. */
struct spare {
    char *pieces[SPARE_PIECES];
    size_t n;
};

/* Gives a buffer that has no memory a piece, if `need` bytes fit. */
void spare_lend(struct spare *s, struct buf *b, size_t need);
/* Forgets the buffer's content; keeps the memory here if it is a piece, or one like it. */
void spare_return(struct spare *s, struct buf *b);
void spare_free(struct spare *s);

#endif
