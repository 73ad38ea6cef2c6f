/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One `/openapi/v3` out of several servers': what the first has, and of the others what it lacks: a
 * path, or resources in it, which its schemas do not describe then. The answer is as
 * kube-openapi writes it: compact, paths in bytewise order, no line feed at the end.
 */
#ifndef MVPROXY_KUBE_SCHEMA_MERGE_H
#define MVPROXY_KUBE_SCHEMA_MERGE_H

#include "base/buf.h"
#include "kube/schema_index.h"

struct schema_merge {
    const struct schema_index *base;          /* NULL: has nothing */
    const struct schema_index *const *others; /* in order of precedence; each may be NULL */
    size_t n_others;
    /* Never from others. `arg` is given to it. */
    bool (*excluded)(void *arg, struct slice group, struct slice version);
    /* Whether the base's schemas of a version lack resources, and the other's none that anybody has. NULL: never. */
    bool (*outdone)(void *arg, const struct schema_index *other, struct slice group, struct slice version);
    void *arg;
};

/* Whether anything is added. */
bool schema_merge_adds(const struct schema_merge *m);
/* False when out of memory, or over the buffer's ceiling. */
MEM_CHECK bool schema_merge_write(const struct schema_merge *m, struct buf *out);

#endif
