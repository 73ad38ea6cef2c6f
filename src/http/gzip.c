/* SPDX-License-Identifier: Apache-2.0 */
#include "http/gzip.h"

#include <limits.h>
#include <zlib.h>

enum { GZIP_WINDOW = 15 + 16 /* zlib: gzip wrapper */, PIECE = 32 << 10, LEVEL = 1, MEM_LEVEL = 8 };

/* The project's allocator, so that out-of-memory tests reach zlib too. */
static void *z_alloc(void *opaque, unsigned items, unsigned size)
{
    (void)opaque;
    return mem_array(items, size);
}

static void z_free(void *opaque, void *p)
{
    (void)opaque;
    mem_free(p);
}

/* zlib counts in unsigned int. */
static void z_give(z_stream *z, struct slice *in)
{
    size_t n = in->n < UINT_MAX ? in->n : UINT_MAX;

    z->next_in = (unsigned char *)(uintptr_t)in->p;
    z->avail_in = (unsigned)n;
    *in = slice_from(*in, n);
}

struct gzipper {
    z_stream z;
};

/* Compresses all of `in`; to the end of the stream if it is the last. */
static enum gzip_result deflate_all(z_stream *z, struct slice in, bool last, struct buf *out)
{
    int rc = Z_OK;

    z_give(z, &in);
    for (;;) {
        size_t room = out->ceiling - buf_len(out);
        unsigned n = room < PIECE ? (unsigned)room : PIECE;
        char *w = n > 0 ? buf_reserve(out, n) : NULL;

        if (z->avail_in == 0 && in.n > 0)
            z_give(z, &in);
        if (w == NULL)
            return room > 0 ? GZIP_MEMORY : GZIP_TOO_LARGE;
        z->next_out = (unsigned char *)w;
        z->avail_out = n;
        rc = deflate(z, last && in.n == 0 ? Z_FINISH : Z_NO_FLUSH);
        buf_commit(out, n - z->avail_out);
        if (rc == Z_STREAM_END)
            return GZIP_OK;
        /* Room left over means that everything given was taken. */
        if (!last && in.n == 0 && z->avail_in == 0 && z->avail_out > 0)
            return GZIP_OK;
        if (rc != Z_OK && rc != Z_BUF_ERROR)
            return GZIP_BROKEN;
    }
}

struct gzipper *gzipper_new(void)
{
    struct gzipper *g = mem_zalloc(sizeof(*g));

    if (g == NULL)
        return NULL;
    g->z = (z_stream){.zalloc = z_alloc, .zfree = z_free};
    if (deflateInit2(&g->z, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEM_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK)
        return g;
    mem_free(g);
    return NULL;
}

void gzipper_free(struct gzipper *g)
{
    if (g == NULL)
        return;
    (void)deflateEnd(&g->z);
    mem_free(g);
}

enum gzip_result gzipper_feed(struct gzipper *g, struct slice in, bool last, struct buf *out)
{
    return deflate_all(&g->z, in, last, out);
}
