/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that buffers take turns with. */
#include "net/buf_free_list.h"

#include "base/mem.h"
#include "lib/tap.h"

int main(void)
{
    static struct buf_free_list s;
    struct buf a, b, tiny;
    char *first;

    buf_init(&a, 1 << 20);
    buf_init(&b, 1 << 20);
    buf_init(&tiny, 100);
    buf_free_list_lend(&s, &a, FREE_LIST_BYTES + 1);
    ok(a.p == NULL, "nothing is lent for what does not fit");
    buf_free_list_lend(&s, &a, 10);
    is_u64(a.cap, FREE_LIST_BYTES, "the first piece is made");
    first = a.p;
    ok(buf_append_str(&a, "text"), "and written to");
    buf_free_list_return(&s, &a);
    ok(a.p == NULL && buf_len(&a) == 0, "it is returned");
    is_u64(s.n, 1, "and kept");
    buf_free_list_lend(&s, &b, 10);
    ok(b.p == first, "for the next");
    buf_free_list_lend(&s, &a, 10);
    ok(a.p != first && a.p != NULL, "who comes meanwhile gets another");
    first = a.p;
    buf_free_list_lend(&s, &a, 10);
    ok(a.p == first, "who has one keeps it");
    ok(buf_reserve(&b, FREE_LIST_BYTES * 4) != NULL, "a buffer may grow beyond its piece");
    buf_free_list_return(&s, &b);
    is_u64(s.n, 0, "and its memory is given back then");
    buf_free_list_return(&s, &a);
    is_u64(s.n, 1, "the other's is kept");
    mem_fail_nth(1);
    buf_free_list_lend(&s, &a, 10);
    ok(a.p != NULL, "a piece needs no allocation");
    buf_free_list_lend(&s, &b, 10);
    mem_fail_nth(0);
    ok(b.p == NULL && !buf_append_str(&b, "x"), "without memory the buffer has failed");
    buf_free_list_lend(&s, &tiny, 10);
    ok(tiny.failed, "a ceiling below a piece is respected");
    buf_free(&a);
    buf_free(&b);
    buf_free_list_return(&s, &a);
    is_u64(s.n, 0, "nothing is made of nothing");
    buf_free_list_free(&s);
    return tap_end();
}
