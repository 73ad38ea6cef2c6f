/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the few fields of Kubernetes objects that list and watch need, without building a tree.
 */
#ifndef MVPROXY_KUBE_OBJECT_H
#define MVPROXY_KUBE_OBJECT_H

#include "base/err.h"
#include "base/mem.h"

struct jscan_value;

enum { OBJECT_KEY_BYTES = 640 };

/* "namespace/name" of the metadata, or the name alone, in `out`; p is NULL if there is no name, or one of them has
 * escapes or is too long. */
struct slice object_key(struct slice json, char out[OBJECT_KEY_BYTES]);
/* The same of what is known already; p of either is NULL if it is absent. */
struct slice object_join(struct slice ns, struct slice name, char out[OBJECT_KEY_BYTES]);
/*
 * The same for an object that is cut off after its first bytes: API servers write name and namespace before anything
 * that can be long. If there is no namespace it cannot be told whether one would have followed, unless objects
 * of this kind have none (`unscoped`).
 */
struct slice object_key_begun(struct slice json, bool unscoped, char out[OBJECT_KEY_BYTES]);
/* A string's text; p is NULL if it is something else, or has escapes. */
struct slice object_plain(const struct jscan_value *v);
/* The text of a string member, e.g. ("spec", "group"), within `json`; p is NULL if it is absent, not a string, or has
 * escapes. */
struct slice object_text(struct slice json, struct slice outer, struct slice inner);
/*
 * Iterates over the items of a List document of any kind, without building a tree, so that they can be processed in
 * several turns. `body` must outlive the iterator. begin checks the syntax of the whole; false with *err set.
 */
struct object_list {
    struct slice resource_version; /* metadata.resourceVersion; p is NULL if absent */
    struct slice more;             /* metadata.continue; p is NULL if absent or empty */
    struct slice items;            /* the array's text */
    size_t pos;
};
bool object_list_begin(struct object_list *l, struct slice body, struct err *err);
/* False at the end. */
bool object_list_next(struct object_list *l, struct slice *json);

#endif
