/* SPDX-License-Identifier: Apache-2.0 */
#include "net/spare.h"

#include "base/mem.h"

void spare_lend(struct spare *s, struct buf *b, size_t need)
{
    char *piece;

    if (b->p != NULL || need > SPARE_BYTES)
        return;
    if (s->n > 0)
        piece = s->pieces[--s->n];
    else
        piece = b->ceiling < SPARE_BYTES ? NULL : mem_alloc(SPARE_BYTES);
    if (piece != NULL)
        buf_adopt(b, piece, SPARE_BYTES);
    else
        b->failed = true; /* shows at the next append */
}

void spare_return(struct spare *s, struct buf *b)
{
    if (b->cap == SPARE_BYTES && s->n < SPARE_PIECES)
        s->pieces[s->n++] = buf_disown(b);
    else
        buf_release(b);
}

void spare_free(struct spare *s)
{
    while (s->n > 0)
        mem_free(s->pieces[--s->n]);
}
