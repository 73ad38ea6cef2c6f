/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip with ceilings: whole buffers both ways, and piece by piece for what comes in. A bomb costs at most the ceiling.
 */
#ifndef MVPROXY_HTTP_GZIP_H
#define MVPROXY_HTTP_GZIP_H

#include "base/buf.h"
#include "base/mem.h"

enum gzip_result {
    GZIP_OK,
    GZIP_TOO_LARGE, /* the ceiling would be passed */
    GZIP_BROKEN,    /* not gzip, damaged or truncated */
    GZIP_STOPPED,   /* the receiver said so */
    GZIP_MEMORY
};

/* Appends the compressed form (level 1, as kube-apiserver) to out, whose ceiling holds. */
enum gzip_result gzip_deflate(struct slice in, struct buf *out);
/* The same in pieces, for big documents that must not hold up the loop. Not fed any more after `last` or a failure. */
struct gzipper;
MEM_CHECK struct gzipper *gzipper_new(void); /* NULL when out of memory */
void gzipper_free(struct gzipper *g);        /* NULL is fine */
enum gzip_result gzipper_feed(struct gzipper *g, struct slice in, bool last, struct buf *out);
/* Appends the text of one or more complete gzip members to out, whose ceiling holds. */
enum gzip_result gzip_inflate(struct slice in, struct buf *out);

struct gunzip;

/* ceiling: total bytes of text it will ever hand out. NULL when out of memory. */
MEM_CHECK struct gunzip *gunzip_new(uint64_t ceiling);
void gunzip_free(struct gunzip *g);
/* Hands text to the receiver in pieces of at most 32 KiB; the receiver may say false to stop. */
enum gzip_result gunzip_feed(struct gunzip *g, struct slice in, bool (*receive)(void *arg, struct slice text),
                             void *arg);
/* At the end of the input: true if it ended where a member ends. */
bool gunzip_complete(const struct gunzip *g);

#endif
