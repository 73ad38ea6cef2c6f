/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few fields of any Kubernetes object that list and watch need, without building a tree.
 */
#ifndef MVPROXY_KUBE_OBJECT_H
#define MVPROXY_KUBE_OBJECT_H

#include "base/err.h"
#include "base/mem.h"

enum { OBJECT_KEY_BYTES = 640 };

/* metadata.namespace "/" metadata.name (or the name alone) into `out`; p is NULL if there is none, or it is escaped or
 * too long. */
struct slice object_key(struct slice json, char out[OBJECT_KEY_BYTES]);
/*
 * The same of an object that is cut off behind its first bytes: an API server writes namespace and name ahead of all
 * that can be long. Of one without namespace it cannot be told whether that would have come.
 */
struct slice object_key_begun(struct slice json, char out[OBJECT_KEY_BYTES]);
/* The plain text of a string member, e.g. ("spec", "group"); p is NULL if absent, no string, or escaped. Into the json.
 */
struct slice object_text(struct slice json, struct slice outer, struct slice inner);
/*
 * A List document of any kind: the extents of its items, cut without building a tree, so that they can be taken in
 * several turns. `body` must outlive the iterator. begin checks the syntax of the whole. False with a reason.
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
