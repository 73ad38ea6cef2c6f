/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query strings as Go's net/url reads them, and the two ListOptions that change a request's meaning.
 */
#ifndef MVPROXY_KUBE_QUERY_H
#define MVPROXY_KUBE_QUERY_H

#include "base/mem.h"

/* Percent-decoding; '+' becomes a space if `plus`. False on a malformed escape, or (out->p NULL) when out of memory. */
bool query_unescape(struct arena *a, struct slice s, bool plus, struct slice *out);

/* Pairs of a raw query in order. Skips what net/url skips: empty pairs, pairs with ';', pairs with malformed escapes.
 */
struct query_iter {
    struct arena *arena;
    struct slice rest;
    bool no_memory;
};
void query_begin(struct query_iter *it, struct arena *a, struct slice raw);
bool query_next(struct query_iter *it, struct slice *key, struct slice *value);

/* The ListOptions that matter for the verb and the name, decoded as kube-apiserver does. */
struct list_options {
    bool watch;
    struct slice name; /* X of an exact metadata.name=X in fieldSelector, if it is a legal path segment; else "" */
};
/* False when out of memory. A query that does not decode falls back to the lenient reading of `watch` alone. */
bool query_list_options(struct arena *a, struct slice raw, struct list_options *out);

#endif
