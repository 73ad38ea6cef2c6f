/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The free list of writing buffers, which the streams of a loop share: a message is gathered, sent, and its memory is
 * the next one's, still warm in the cache. Idle streams hold none of it.
 */
#ifndef MVPROXY_NET_BUF_FREE_LIST_H
#define MVPROXY_NET_BUF_FREE_LIST_H

#include "base/buf.h"

enum {
    FREE_LIST_BYTES = 17 << 10, /* the largest record, and what TLS adds to it */
    FREE_LIST_PIECES = 64,
};

/* All zero: empty. */
struct buf_free_list {
    char *pieces[FREE_LIST_PIECES];
    size_t n;
};

/* Gives a buffer that has no memory a piece, if `need` bytes fit. */
void buf_free_list_lend(struct buf_free_list *s, struct buf *b, size_t need);
/* Forgets the buffer's content; keeps the memory here if it is a piece, or one like it. */
void buf_free_list_return(struct buf_free_list *s, struct buf *b);
void buf_free_list_free(struct buf_free_list *s);

#endif
