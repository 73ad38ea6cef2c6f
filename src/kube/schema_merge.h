/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the schema indexes (`/openapi/v3`) of several servers: all of the first one (`base`), and from the others the
 * paths that it lacks, or in which its schemas lack resources. Printed as kube-openapi does: compact, paths in bytewise
 * order, no line feed at the end.
 */
#ifndef MVPROXY_KUBE_SCHEMA_MERGE_H
#define MVPROXY_KUBE_SCHEMA_MERGE_H

#include "base/buf.h"
#include "kube/schema_index.h"

struct schema_merge {
    const struct schema_index *base;          /* NULL: empty */
    const struct schema_index *const *others; /* in order of precedence; each may be NULL */
    size_t n_others;
    const struct schema_index *unhashed; /* that of the others in which no entry has a hash; NULL: none */
    /* Whether a group/version is never taken from others. */
    bool (*excluded)(void *arg, struct slice group, struct slice version);
    /* Whether the base lacks resources of a version, and `other` has all that any server has. May be NULL: never. */
    bool (*outdone)(void *arg, const struct schema_index *other, struct slice group, struct slice version);
    void *arg;
};

/* Whether anything is added to the base. True as well if that cannot be said without looking at more than `most`
 * entries. */
bool schema_merge_adds(const struct schema_merge *m, size_t most);

/* Writes it; spends about the bytes that are written. False: out of memory, given up, or over the buffer's ceiling. */
MEM_CHECK bool schema_merge_write(const struct schema_merge *m, struct buf *out, struct fiber *f);

#endif
