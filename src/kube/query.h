/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses query strings as Go's net/url does, and the two ListOptions that change a request's meaning.
 */
#ifndef MVPROXY_KUBE_QUERY_H
#define MVPROXY_KUBE_QUERY_H

#include "base/mem.h"

/* Percent-decoding; '+' becomes a space if `plus`. False on a malformed escape, or (out->p NULL) when out of memory. */
bool query_unescape(struct arena *a, struct slice s, bool plus, struct slice *out);

/* Iterates over the pairs of a raw query. Skips what net/url skips: empty pairs, pairs with ';' or malformed escapes.
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
    struct slice name; /* X of an exact metadata.name=X in fieldSelector, if it is a valid path segment; else "" */
};
/* False when out of memory. From a query that cannot be decoded only `watch` is read, leniently. */
bool query_list_options(struct arena *a, struct slice raw, struct list_options *out);

#endif
