/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A List document cut into its items as it arrives, in any pieces: of each turn of the loop no more is asked than to
 * pass over what has come. An item over the limit costs itself alone, not the list: it is passed over, so that nobody
 * can make a collection unreadable by one object.
 */
#ifndef MVPROXY_KUBE_LIST_CUT_H
#define MVPROXY_KUBE_LIST_CUT_H

#include "base/buf.h"
#include "kube/object.h"

struct list_cut {
    struct buf frame; /* the document without its items */
    struct buf items; /* those that are not too large, as an array */
    struct buf item;  /* the one that is coming in */
    void (*too_large)(void *arg, struct slice beginning);
    void *arg;
    unsigned depth; /* of containers: in the item, or in the frame */
    bool in_items, passing, any, in_string, escaped;
    const char *error; /* sticky; static text, NULL if none */
};

struct list_cut_opts {
    size_t item_limit, ceiling; /* bytes of one item, and of all that are kept */
    /* Gets the first bytes of each item that is not; they live during the call. NULL: nobody cares. */
    void (*too_large)(void *arg, struct slice beginning);
    void *arg;
};

/* To be freed; may be begun again then. */
void list_cut_begin(struct list_cut *c, const struct list_cut_opts *o);
void list_cut_free(struct list_cut *c);
/* False from the first error on. */
bool list_cut_feed(struct list_cut *c, struct slice bytes);
/* At the end. `out` reads what `c` holds. False with a reason. */
bool list_cut_end(struct list_cut *c, struct object_list *out, struct err *err);

#endif
