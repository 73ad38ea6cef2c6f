/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges several servers' descriptions of one thing into one JSON object. Private to the merge.
 */
#ifndef MVPROXY_KUBE_DISCO_UNION_H
#define MVPROXY_KUBE_DISCO_UNION_H

#include "base/buf.h"
#include "base/fiber.h"
#include "kube/disco.h"

/* Fields that we do not know, of several descriptions: each as the first has it. Zeroed before. */
struct disco_union {
    const struct disco_extra *extras[DISCO_EXTRAS];
    size_t n;
};
/* In order of precedence. What is beyond DISCO_EXTRAS is left out. */
void disco_union_add(struct disco_union *u, const struct disco_extras *of);
/* Appends `,"key":value` for each, in order of first appearance. False: the buffer failed, or given up. */
MEM_CHECK bool disco_union_put(const struct disco_union *u, struct buf *out, struct fiber *f);

/* A distinct description of a resource, and the number of the last server that gives it. */
struct disco_union_part {
    const struct disco_resource *resource;
    uint64_t hash; /* the resource's, copied for speed */
    size_t last;
};
/* Appends the merged resource. At least one part, in the order of the first server that gives each. Spends one for
 * each 256 bytes that are copied. False: the buffer failed, out of memory, or given up. */
MEM_CHECK bool disco_union_resource(struct arena *scratch, const struct disco_union_part *parts, size_t n,
                                    struct buf *out, struct fiber *f);

#endif
