/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema_complete.h"

enum { STEP_BYTES = 128 << 10, HASHED_BYTES = 2 /* for each that is read or written */ };

struct schema_completion {
    struct fiber fiber;
    struct slice document;
    struct schema_merge merge;
    struct quota *quota;
    struct buf out;
    unsigned char digest[HASH_SHA512_BYTES];
};

static struct schema_index *read_base(struct schema_completion *c, struct fiber *f)
{
    struct schema_reader *r = schema_reader_new(c->document, c->quota);
    struct schema_index *x = r == NULL ? NULL : schema_reader_read(r, f);

    schema_reader_free(r);
    return x;
}

static bool digest(struct schema_completion *c, struct fiber *f)
{
    struct hash_stream *hash = hash_sha512_start();
    bool good = hash != NULL && hash_sha512_add_long(hash, buf_slice(&c->out), f, HASHED_BYTES);

    return hash != NULL && hash_sha512_end(hash, good ? c->digest : NULL);
}

static bool complete(void *arg, struct fiber *f)
{
    struct schema_completion *c = arg;
    struct schema_index *base = read_base(c, f);
    bool good;

    c->merge.base = base;
    good = base != NULL && schema_merge_write(&c->merge, &c->out, f);
    schema_index_unref(base);
    return good && digest(c, f);
}

struct schema_completion *schema_completion_new(struct slice document, const struct schema_merge *others,
                                                size_t ceiling, struct quota *quota)
{
    struct schema_completion *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    fiber_init(&c->fiber, complete, c, quota);
    c->document = document;
    c->merge = *others;
    c->quota = quota;
    buf_init(&c->out, ceiling);
    buf_charge(&c->out, quota);
    return c;
}

enum step schema_completion_step(struct schema_completion *c)
{
    return fiber_step(&c->fiber, STEP_BYTES);
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
    fiber_close(&c->fiber);
    buf_free(&c->out);
    mem_free(c);
}
