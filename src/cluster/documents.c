#include "cluster/documents.h"

#include "base/buf.h"
#include "base/hash.h"
#include "http/etag.h"
#include "http/gzip.h"

enum { COPY_BYTES = 4 << 20, HASH_BYTES = 1 << 20, GZIP_BYTES = 256 << 10 };

enum stage { STAGE_COPY, STAGE_HASH, STAGE_GZIP, STAGE_NEXT };

struct documents {
    struct slice text[SERVED_SHAPES], given_etag[SERVED_SHAPES];
    size_t shape;
    enum stage stage;
    size_t at; /* bytes of this stage that are done */
    struct served_document made[SERVED_SHAPES];
    char *storage[SERVED_SHAPES * 3]; /* body, etag, gzip of each */
    struct hash_stream *hash;
    struct gzipper *gzip;
    struct buf compressed;
};

struct documents *documents_new(const struct slice text[SERVED_SHAPES], const struct slice etag[SERVED_SHAPES])
{
    struct documents *d = mem_zalloc(sizeof *d);

    if (d == NULL)
        return NULL;
    memcpy(d->text, text, sizeof d->text);
    memcpy(d->given_etag, etag, sizeof d->given_etag);
    return d;
}

static void drop_tools(struct documents *d)
{
    if (d->hash != NULL)
        (void)hash_sha512_end(d->hash, NULL);
    d->hash = NULL;
    gzipper_free(d->gzip);
    d->gzip = NULL;
    buf_release(&d->compressed);
}

void documents_free(struct documents *d)
{
    if (d == NULL)
        return;
    drop_tools(d);
    for (size_t i = 0; i < SERVED_SHAPES * 3; i++)
        mem_free(d->storage[i]);
    mem_free(d);
}

/* The next piece of this shape's text; empties at its end. */
static struct slice piece(struct documents *d, size_t most)
{
    struct slice rest = slice_from(d->text[d->shape], d->at);

    if (rest.n > most)
        rest.n = most;
    d->at += rest.n;
    return rest;
}

static bool all_done(const struct documents *d)
{
    return d->at >= d->text[d->shape].n;
}

static void enter(struct documents *d, enum stage s)
{
    d->stage = s;
    d->at = 0;
}

static bool step_copy(struct documents *d)
{
    char **body = &d->storage[d->shape * 3];
    size_t from = d->at;
    struct slice p;

    if (*body == NULL)
        *body = mem_alloc(d->text[d->shape].n + 1);
    if (*body == NULL)
        return false;
    p = piece(d, COPY_BYTES);
    if (p.n > 0)
        memcpy(*body + from, p.p, p.n);
    if (all_done(d)) {
        d->made[d->shape].body = slice_of(*body, d->text[d->shape].n);
        enter(d, STAGE_HASH);
    }
    return true;
}

static bool keep_etag(struct documents *d, struct slice etag)
{
    char **slot = &d->storage[d->shape * 3 + 1];

    *slot = mem_slicedup(etag);
    d->made[d->shape].etag = slice_str(*slot);
    enter(d, STAGE_GZIP);
    return *slot != NULL;
}

static bool step_hash(struct documents *d)
{
    unsigned char digest[HASH_SHA512_BYTES];
    char text[ETAG_BYTES];
    bool fine;

    if (d->given_etag[d->shape].n > 0)
        return keep_etag(d, d->given_etag[d->shape]);
    if (d->hash == NULL)
        d->hash = hash_sha512_start();
    if (d->hash == NULL || !hash_sha512_add(d->hash, piece(d, HASH_BYTES)))
        return false;
    if (!all_done(d))
        return true;
    fine = hash_sha512_end(d->hash, digest);
    d->hash = NULL;
    etag_from_sha512(digest, text);
    return fine && keep_etag(d, slice_str(text));
}

static bool keep_gzip(struct documents *d)
{
    char **slot = &d->storage[d->shape * 3 + 2];
    struct slice compressed = buf_slice(&d->compressed);

    /* Exactly as long as needed: it lives for hours. */
    *slot = mem_slicedup(compressed);
    d->made[d->shape].gzip = slice_of(*slot, compressed.n);
    drop_tools(d);
    enter(d, STAGE_NEXT);
    return *slot != NULL;
}

static bool step_gzip(struct documents *d)
{
    struct slice text = d->text[d->shape], p;

    if (text.n <= DOCUMENTS_GZIP_ABOVE) {
        enter(d, STAGE_NEXT);
        return true;
    }
    if (d->gzip == NULL) {
        buf_init(&d->compressed, text.n + (64 << 10));
        d->gzip = gzipper_new();
    }
    if (d->gzip == NULL)
        return false;
    p = piece(d, GZIP_BYTES);
    if (gzipper_feed(d->gzip, p, all_done(d), &d->compressed) != GZIP_OK)
        return false;
    return !all_done(d) || keep_gzip(d);
}

static enum disco_step finish(struct documents *d, struct served_documents **out)
{
    *out = served_documents_new(d->made, d->storage);
    memset(d->storage, 0, sizeof d->storage);
    return *out == NULL ? DISCO_STEP_FAILED : DISCO_STEP_DONE;
}

enum disco_step documents_step(struct documents *d, struct served_documents **out)
{
    bool fine = true;

    switch (d->stage) {
    case STAGE_COPY:
        fine = step_copy(d);
        break;
    case STAGE_HASH:
        fine = step_hash(d);
        break;
    case STAGE_GZIP:
        fine = step_gzip(d);
        break;
    case STAGE_NEXT:
        enter(d, STAGE_COPY);
        if (++d->shape == SERVED_SHAPES)
            return finish(d, out);
        break;
    }
    return fine ? DISCO_STEP_MORE : DISCO_STEP_FAILED;
}
