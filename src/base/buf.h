/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing byte buffer with a ceiling given at birth. Failure (ceiling or memory) is sticky: append away, ask once.
 * The body is public so that it can be embedded; touch its fields only through these functions.
 */
#ifndef MVPROXY_BASE_BUF_H
#define MVPROXY_BASE_BUF_H

#include <stdarg.h>

#include "base/fiber.h"
#include "base/quota.h"
#include "base/slice.h"

struct buf {
    char *p;
    size_t start; /* consumed bytes at the front */
    size_t end;   /* bytes in use end here */
    size_t cap;
    size_t ceiling;
    struct quota *quota;
    bool failed;
};

/* No memory is taken before the first append. */
void buf_init(struct buf *b, size_t ceiling);
/* Its memory is charged to `quota` from now on, that which it has now too, and the quota before gets it back; where
 * there is no room for more it fails as without memory. NULL: nobody counts. */
void buf_charge(struct buf *b, struct quota *quota);
void buf_free(struct buf *b);
/* Forgets content and failure, keeps memory. */
void buf_reset(struct buf *b);
/* Forgets content and gives memory back. */
void buf_release(struct buf *b);
/* `cap` bytes from mem_* become the memory of a buffer that has none, and at most its ceiling. */
void buf_adopt(struct buf *b, char *p, size_t cap);
/* Forgets the content; the memory, b->cap bytes, is the caller's. NULL if there is none. */
char *buf_disown(struct buf *b);

static inline size_t buf_len(const struct buf *b)
{
    return b->end - b->start;
}
static inline struct slice buf_slice(const struct buf *b)
{
    return b->p == NULL ? slice_of("", 0) : slice_of(b->p + b->start, b->end - b->start);
}

/* All of these return false (and append nothing) once the buffer has failed. */
bool buf_append(struct buf *b, struct slice s);
bool buf_append_str(struct buf *b, const char *s);
bool buf_append_char(struct buf *b, char c);
bool buf_append_u64(struct buf *b, uint64_t v);
bool buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Room for n more bytes: a pointer to write at, then buf_commit(n). NULL on failure. */
char *buf_reserve(struct buf *b, size_t n);
void buf_commit(struct buf *b, size_t n);
/* Drops n bytes at the front (n <= buf_len). */
void buf_consume(struct buf *b, size_t n);
/* A long text, in pieces; so many bytes of it are worth one of the budget. False as well if it is given up. */
bool buf_append_long(struct buf *b, struct slice s, struct fiber *f, size_t bytes_per_unit);
/* Appends s as the inside of a JSON string (quotes not added); invalid UTF-8 becomes U+FFFD. */
bool buf_append_json(struct buf *b, struct slice s);
/* The text `before` as it is, and s as a JSON string with its quotes. */
bool buf_append_quoted(struct buf *b, const char *before, struct slice s);
/* Appends s for a terminal, in one line: see utf8_make_printable(). */
bool buf_append_printable(struct buf *b, struct slice s);

#endif
