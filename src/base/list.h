/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list. A node is on one list or on none; a zeroed node is on none.
 */
#ifndef MVPROXY_BASE_LIST_H
#define MVPROXY_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/contract.h"

struct list_node {
    struct list_node *prev, *next;
};

struct list {
    struct list_node head;
    size_t count;
};

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->head.prev = l->head.next = &l->head;
    l->count = 0;
}

static inline bool list_linked(const struct list_node *n)
{
    return n->next != NULL;
}

static inline void list_insert_before_(struct list *l, struct list_node *pos, struct list_node *n)
{
    must_hold(!list_linked(n));
    n->prev = pos->prev;
    n->next = pos;
    pos->prev->next = n;
    pos->prev = n;
    l->count++;
}

static inline void list_push_back(struct list *l, struct list_node *n)
{
    list_insert_before_(l, &l->head, n);
}

static inline void list_push_front(struct list *l, struct list_node *n)
{
    list_insert_before_(l, l->head.next, n);
}

static inline void list_remove(struct list *l, struct list_node *n)
{
    must_hold(list_linked(n) && l->count > 0);
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->prev = n->next = NULL;
    l->count--;
}

static inline struct list_node *list_first(const struct list *l)
{
    return l->count == 0 ? NULL : l->head.next;
}

static inline struct list_node *list_last(const struct list *l)
{
    return l->count == 0 ? NULL : l->head.prev;
}

static inline struct list_node *list_next(const struct list *l, const struct list_node *n)
{
    return n->next == &l->head ? NULL : n->next;
}

/* `pos` is in the list; NULL: at the end. */
static inline void list_insert_before(struct list *l, struct list_node *pos, struct list_node *n)
{
    list_insert_before_(l, pos == NULL ? &l->head : pos, n);
}

static inline struct list_node *list_pop_front(struct list *l)
{
    struct list_node *n = list_first(l);

    if (n != NULL)
        list_remove(l, n);
    return n;
}

#endif
