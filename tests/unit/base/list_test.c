/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include "lib/tap.h"

struct item {
    int id;
    struct list_node node;
};

static int id_of(const struct list_node *n)
{
    return n == NULL ? -1 : list_entry(n, struct item, node)->id;
}

int main(void)
{
    struct item a = {.id = 1}, b = {.id = 2}, c = {.id = 3};
    struct list l;
    int seen = 0;

    list_init(&l);
    is_null(list_first(&l), "empty list has no first");
    is_null(list_last(&l), "and no last");
    is_null(list_pop_front(&l), "and nothing to pop");
    ok(!list_linked(&a.node), "a zeroed node is on no list");

    list_push_back(&l, &b.node);
    list_push_back(&l, &c.node);
    list_push_front(&l, &a.node);
    is_u64(l.count, 3, "counted");
    ok(list_linked(&b.node), "linked");
    is_int(id_of(list_first(&l)), 1, "first");
    is_int(id_of(list_last(&l)), 3, "last");
    for (struct list_node *n = list_first(&l); n != NULL; n = list_next(&l, n))
        seen = seen * 10 + id_of(n);
    is_int(seen, 123, "walked in order");

    list_remove(&l, &b.node);
    ok(!list_linked(&b.node), "removed node is on no list");
    is_int(id_of(list_next(&l, &a.node)), 3, "neighbours joined");
    is_int(id_of(list_pop_front(&l)), 1, "popped");
    is_int(id_of(list_pop_front(&l)), 3, "popped the last");
    is_u64(l.count, 0, "empty again");
    list_push_back(&l, &b.node);
    is_int(id_of(list_first(&l)), 2, "a node can come back");
    return tap_end();
}
