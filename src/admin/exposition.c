/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/exposition.h"

#include "http/gzip.h"

struct exposition {
    struct metrics_text *source;
    struct buf text, packed;
    struct gzipper *gzip; /* NULL: not asked for, or given up */
    bool more;
};

struct exposition *exposition_new(struct metrics *m, enum metrics_format format, bool gzip, size_t most)
{
    struct exposition *e = mem_zalloc(sizeof(*e));

    if (e == NULL)
        return NULL;
    e->source = metrics_text_new(m, format);
    if (e->source == NULL) {
        mem_free(e);
        return NULL;
    }
    buf_init(&e->text, most);
    buf_init(&e->packed, most);
    e->gzip = gzip ? gzipper_new() : NULL;
    e->more = true;
    return e;
}

void exposition_free(struct exposition *e)
{
    if (e == NULL)
        return;
    metrics_text_free(e->source);
    gzipper_free(e->gzip);
    buf_free(&e->text);
    buf_free(&e->packed);
    mem_free(e);
}

static void give_up_gzip(struct exposition *e)
{
    gzipper_free(e->gzip);
    e->gzip = NULL;
    buf_free(&e->packed);
}

bool exposition_step(struct exposition *e)
{
    size_t before = buf_len(&e->text);

    if (!e->more)
        return false;
    e->more = metrics_text_more(e->source, &e->text);
    if (e->gzip != NULL && !e->text.failed &&
        gzipper_feed(e->gzip, slice_from(buf_slice(&e->text), before), !e->more, &e->packed) != GZIP_OK)
        give_up_gzip(e);
    return e->more;
}

bool exposition_take(struct exposition *e, struct buf *body)
{
    bool packed = e->gzip != NULL && !e->text.failed;
    struct buf *from = packed ? &e->packed : &e->text;

    *body = *from;
    buf_init(from, 0);
    return packed;
}
