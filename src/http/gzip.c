/* SPDX-License-Identifier: Apache-2.0 */
#include "http/gzip.h"

#include "base/contract.h"

#include <limits.h>
#include <zlib.h>

enum { GZIP_WINDOW = 15 + 16 /* zlib: gzip wrapper */, PIECE = 32 << 10, LEVEL = 1, MEM_LEVEL = 8 };

struct gunzip {
    z_stream z;
    uint64_t left;       /* bytes of text that may still come out */
    bool between;        /* no member is open */
    bool any;            /* a member was completed */
    enum gzip_result rc; /* sticky */
    unsigned char text[PIECE];
};

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

static z_stream z_stream_new(void)
{
    return (z_stream){.zalloc = z_alloc, .zfree = z_free};
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
    g->z = z_stream_new();
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

enum gzip_result gzip_deflate(struct slice in, struct buf *out)
{
    struct gzipper *g = gzipper_new();
    enum gzip_result result = g == NULL ? GZIP_MEMORY : gzipper_feed(g, in, true, out);

    gzipper_free(g);
    return result;
}

struct gunzip *gunzip_new(uint64_t ceiling)
{
    struct gunzip *g = mem_zalloc(sizeof(*g));

    if (g == NULL)
        return NULL;
    g->z = z_stream_new();
    g->left = ceiling;
    g->between = true;
    if (inflateInit2(&g->z, GZIP_WINDOW) != Z_OK) {
        mem_free(g);
        return NULL;
    }
    return g;
}

void gunzip_free(struct gunzip *g)
{
    if (g == NULL)
        return;
    (void)inflateEnd(&g->z);
    mem_free(g);
}

static enum gzip_result hand_out(struct gunzip *g, bool (*receive)(void *arg, struct slice text), void *arg)
{
    size_t n = PIECE - g->z.avail_out;

    must_hold(g->z.avail_out <= PIECE);
    if (n > g->left)
        return GZIP_TOO_LARGE;
    g->left -= n;
    return n == 0 || receive(arg, slice_of((const char *)g->text, n)) ? GZIP_OK : GZIP_STOPPED;
}

static enum gzip_result inflate_piece(struct gunzip *g, bool (*receive)(void *arg, struct slice text), void *arg)
{
    enum gzip_result handed;
    int rc;

    g->between = false;
    g->z.next_out = g->text;
    g->z.avail_out = PIECE;
    rc = inflate(&g->z, Z_NO_FLUSH);
    handed = hand_out(g, receive, arg);
    if (handed != GZIP_OK)
        return handed;
    switch (rc) {
    case Z_OK:
    case Z_BUF_ERROR:
        return GZIP_OK;
    case Z_STREAM_END: /* another member may follow (RFC 1952 2.2) */
        g->between = true;
        g->any = true;
        return inflateReset(&g->z) == Z_OK ? GZIP_OK : GZIP_BROKEN;
    case Z_MEM_ERROR:
        return GZIP_MEMORY;
    default:
        return GZIP_BROKEN;
    }
}

enum gzip_result gunzip_feed(struct gunzip *g, struct slice in, bool (*receive)(void *arg, struct slice text),
                             void *arg)
{
    while (g->rc == GZIP_OK) {
        bool full = g->z.avail_out == 0 && !g->between;

        if (g->z.avail_in == 0 && in.n > 0)
            z_give(&g->z, &in);
        /* A full piece may hide more text in zlib's window, even without input. */
        if (g->z.avail_in == 0 && !full)
            break;
        g->rc = inflate_piece(g, receive, arg);
    }
    return g->rc;
}

bool gunzip_complete(const struct gunzip *g)
{
    return g->rc == GZIP_OK && g->any && g->between;
}

static bool append(void *arg, struct slice text)
{
    return buf_append(arg, text);
}

enum gzip_result gzip_inflate(struct slice in, struct buf *out)
{
    struct gunzip *g = gunzip_new(out->ceiling);
    enum gzip_result rc;

    if (g == NULL)
        return GZIP_MEMORY;
    rc = gunzip_feed(g, in, append, out);
    if (rc == GZIP_STOPPED)
        rc = GZIP_TOO_LARGE;
    if (rc == GZIP_OK && !gunzip_complete(g))
        rc = GZIP_BROKEN;
    gunzip_free(g);
    return rc;
}
