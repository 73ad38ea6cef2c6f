/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges several servers' descriptions of one thing into one JSON object. Private to the merge.
 */
#ifndef MVPROXY_KUBE_DISCO_UNION_H
#define MVPROXY_KUBE_DISCO_UNION_H

#include "base/buf.h"
#include "kube/disco.h"

/* The members of several objects, in order of precedence. Lives in the scratch arena. */
struct disco_union {
    struct disco_member *known; /* one per key in `keys` */
    struct disco_member *unknown;
    size_t n_known, n_unknown;
};
/*
 * `raws` are validated objects in order of precedence. Fields not in `keys` are unknown fields: at most 64 of them are
 * kept, each with its value in the first object that has it. False when out of memory.
 */
MEM_CHECK bool disco_union_init(struct disco_union *u, struct arena *scratch, const struct slice *raws, size_t n,
                                const struct slice *keys, size_t n_keys);
/* Appends `,"key":value` for each unknown field, in order of first appearance. */
void disco_union_put_unknown(const struct disco_union *u, struct buf *out);

/* A distinct description of a resource, and the number of the last server that gives it. */
struct disco_union_part {
    const struct disco_resource *resource;
    uint64_t hash; /* the resource's, copied for speed */
    size_t last;
};
/* Appends the merged resource. At least one part, in the order of the first server that gives each. False: the buffer
 * failed, or out of memory. */
MEM_CHECK bool disco_union_resource(struct arena *scratch, const struct disco_union_part *parts, size_t n,
                                    struct buf *out);

#endif
