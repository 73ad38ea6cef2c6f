/* SPDX-License-Identifier: Apache-2.0 */
#include "net/buf_free_list.h"

#include "base/mem.h"

void buf_free_list_lend(struct buf_free_list *s, struct buf *b, size_t need)
{
    char *piece;

    if (b->p != NULL || need > FREE_LIST_BYTES)
        return;
    if (s->n > 0)
        piece = s->pieces[--s->n];
    else
        piece = b->ceiling < FREE_LIST_BYTES ? NULL : mem_alloc(FREE_LIST_BYTES);
    if (piece != NULL)
        buf_adopt(b, piece, FREE_LIST_BYTES);
    else
        b->failed = true; /* shows at the next append */
}

void buf_free_list_return(struct buf_free_list *s, struct buf *b)
{
    if (b->cap == FREE_LIST_BYTES && s->n < FREE_LIST_PIECES)
        s->pieces[s->n++] = buf_disown(b);
    else
        buf_release(b);
}

void buf_free_list_free(struct buf_free_list *s)
{
    while (s->n > 0)
        mem_free(s->pieces[--s->n]);
}
