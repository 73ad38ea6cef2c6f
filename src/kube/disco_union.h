/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One JSON object out of several servers' descriptions of the same thing. Private to the merge.
 */
#ifndef MVPROXY_KUBE_DISCO_UNION_H
#define MVPROXY_KUBE_DISCO_UNION_H

#include "base/buf.h"
#include "kube/disco.h"

/* The members of several objects, in order of precedence. Lives in the scratch arena. */
struct disco_union {
    struct disco_member *known; /* one per key asked for */
    struct disco_member *unknown;
    size_t n_known, n_unknown;
};
/*
 * `raws` are validated objects, the first takes precedence. Keys beyond `keys` are unknown fields: kept, the first
 * object that has one decides its value; at most 64 of them. False when out of memory.
 */
MEM_CHECK bool disco_union_init(struct disco_union *u, struct arena *scratch, const struct slice *raws, size_t n,
                                const struct slice *keys, size_t n_keys);
/* Appends `,"key":value` for each unknown field, in order of first appearance. */
void disco_union_put_unknown(const struct disco_union *u, struct buf *out);

/* One distinct description of a resource and the number of the last server that gives it. */
struct disco_union_part {
    const struct disco_resource *resource;
    uint64_t hash; /* the resource's, where it is quickly found */
    size_t last;
};
/* Parts in server order (of their first giver), at least two. False: buffer failed or out of memory. */
MEM_CHECK bool disco_union_resource(struct arena *scratch, const struct disco_union_part *parts, size_t n,
                                    struct buf *out);

#endif
