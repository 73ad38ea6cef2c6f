/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gzip with a ceiling, in pieces: big documents must not hold up the loop. Only towards who asked for it. Nothing is
 * unpacked here: of what others compress a kilobyte may be a megabyte, and we ask nobody for it (back/fetch.h).
 */
#ifndef MVPROXY_HTTP_GZIP_H
#define MVPROXY_HTTP_GZIP_H

#include "base/buf.h"
#include "base/mem.h"

enum gzip_result {
    GZIP_OK,
    GZIP_TOO_LARGE, /* the ceiling would be passed */
    GZIP_BROKEN,    /* fed after its end */
    GZIP_MEMORY
};

struct gzipper;

MEM_CHECK struct gzipper *gzipper_new(void); /* NULL when out of memory */
void gzipper_free(struct gzipper *g);        /* NULL is fine */
/*
 * Appends the compressed form (level 1, as kube-apiserver) to out, whose ceiling holds. Not fed any more after `last`
 * or a failure.
 */
enum gzip_result gzipper_feed(struct gzipper *g, struct slice in, bool last, struct buf *out);

#endif
