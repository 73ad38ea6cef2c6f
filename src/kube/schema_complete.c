/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema_complete.h"

struct schema_completion {
    struct schema_merge merge;
    struct schema_reader *reader; /* these three in turn */
    struct schema_merger *merger;
    struct hash_stream *hash;
    struct schema_index *base;
    struct buf out;
    unsigned char digest[HASH_SHA512_BYTES];
};

struct schema_completion *schema_completion_new(struct slice document, const struct schema_merge *others,
                                                size_t ceiling, struct quota *quota)
{
    struct schema_completion *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    c->merge = *others;
    buf_init(&c->out, ceiling);
    buf_charge(&c->out, quota);
    c->reader = schema_reader_new(document, quota);
    c->hash = hash_sha512_start();
    if (c->reader != NULL && c->hash != NULL)
        return c;
    schema_completion_free(c);
    return NULL;
}

/* What only the work needs. */
static void clear(struct schema_completion *c)
{
    schema_reader_free(c->reader);
    schema_merger_free(c->merger);
    if (c->hash != NULL)
        (void)hash_sha512_end(c->hash, NULL);
    schema_index_unref(c->base);
    c->reader = NULL;
    c->merger = NULL;
    c->hash = NULL;
    c->base = NULL;
}

static enum step read_some(struct schema_completion *c)
{
    enum step s = schema_reader_step(c->reader, &c->base);

    if (s != STEP_DONE)
        return s;
    schema_reader_free(c->reader);
    c->reader = NULL;
    c->merge.base = c->base;
    c->merger = schema_merger_new(&c->merge);
    return c->merger == NULL ? STEP_FAILED : STEP_MORE;
}

static enum step write_some(struct schema_completion *c)
{
    size_t before = buf_len(&c->out);
    enum step s = schema_merger_step(c->merger, &c->out);

    if (s == STEP_FAILED || !hash_sha512_add(c->hash, slice_from(buf_slice(&c->out), before)))
        return STEP_FAILED;
    if (s == STEP_DONE) {
        bool good = hash_sha512_end(c->hash, c->digest);

        c->hash = NULL;
        clear(c);
        return good ? STEP_DONE : STEP_FAILED;
    }
    return STEP_MORE;
}

enum step schema_completion_step(struct schema_completion *c)
{
    return c->reader != NULL ? read_some(c) : write_some(c);
}

struct slice schema_completion_text(const struct schema_completion *c)
{
    return buf_slice(&c->out);
}

void schema_completion_sha512(const struct schema_completion *c, unsigned char out[HASH_SHA512_BYTES])
{
    memcpy(out, c->digest, sizeof(c->digest));
}

void schema_completion_free(struct schema_completion *c)
{
    if (c == NULL)
        return;
    clear(c);
    buf_free(&c->out);
    mem_free(c);
}
