/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a List document into its items while it arrives, in pieces of any size, so that a turn of the loop has to scan
 * only the bytes that came in. An item over the limit is skipped, so that one object cannot make the whole collection
 * unreadable. Other documents with one long list can be cut in the same way.
 */
#ifndef MVPROXY_KUBE_LIST_CUT_H
#define MVPROXY_KUBE_LIST_CUT_H

#include "base/buf.h"
#include "kube/object.h"

struct list_cut_opts {
    size_t item_limit, ceiling; /* bytes: of one item, and of all items kept */
    /* Gets the first bytes of each item that is skipped, valid during the call. May be NULL. */
    void (*too_large)(void *arg, struct slice beginning);
    /* Gets each item, valid JSON, as soon as it is complete; none is kept then. False: an error. NULL: they are kept.
     */
    bool (*on_item)(void *arg, struct slice item);
    void *arg;
    /* Where the items are, if not in "items" of the document itself: the key with its quotes, and how many objects are
     * around it. */
    struct slice key;
    unsigned depth;
};

struct list_cut {
    struct buf frame; /* the document without its items */
    struct buf items; /* those that are not too large, as an array */
    struct buf item;  /* the one being received */
    struct list_cut_opts o;
    unsigned depth; /* of open containers, in the item or in the frame */
    bool in_items, passing, any, in_string, escaped;
    const char *error; /* sticky; static text, NULL if none */
};

/* To be freed with list_cut_free(), after which it may begin again. */
void list_cut_begin(struct list_cut *c, const struct list_cut_opts *o);
void list_cut_free(struct list_cut *c);
/* False from the first error on. */
bool list_cut_feed(struct list_cut *c, struct slice bytes);
/* To be called at the end. `out` points into `c`. False with *err set. */
bool list_cut_end(struct list_cut *c, struct object_list *out, struct err *err);

#endif
