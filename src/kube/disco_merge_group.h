/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges one group of discovery from the documents of several servers. Private to the merge, whose rules are at the top
 * of disco_merge.c.
 */
#ifndef MVPROXY_KUBE_DISCO_MERGE_GROUP_H
#define MVPROXY_KUBE_DISCO_MERGE_GROUP_H

#include "base/buf.h"
#include "kube/disco.h"
#include "kube/disco_parse.h"

enum { DISCO_MERGE_ARENA_BYTES = 512 << 20 };

/* One server's description of the group. */
struct disco_group_giver {
    size_t server; /* its number */
    const struct disco_group *group;
    bool partial;  /* some of its versions are excluded: `excluded` is called for each */
    bool doubtful; /* with partial: these are not left out, but Stale */
    bool live;     /* not lapsed */
};

typedef bool disco_excluded_fn(void *arg, const struct disco_version *v);

struct disco_group_merge;

/* Writes groups, one after the other, to `out`, which must outlive it. NULL when out of memory. */
MEM_CHECK struct disco_group_merge *disco_group_merge_new(struct buf *out, disco_excluded_fn *excluded, void *arg);
void disco_group_merge_free(struct disco_group_merge *m); /* NULL is fine */
/*
 * Begins a group that `n` servers have, in their order. STEP_DONE: all describe it alike, and it is written. STEP_MORE:
 * call disco_group_merge_step() until that does not return STEP_MORE; a step writes one version, or gets on with one
 * that is described differently. STEP_FAILED: out of memory, or `out` has failed. *spent grows by the number of
 * resources processed.
 */
enum step disco_group_merge_open(struct disco_group_merge *m, const struct disco_group_giver *givers, size_t n,
                                 size_t *spent);
enum step disco_group_merge_step(struct disco_group_merge *m, size_t *spent);
/*
 * From now on leaves out creationTimestamp: null in a group's metadata, which servers up to 1.33 write and later ones
 * do not. It has no meaning, and is lost when a document is decoded and encoded again.
 */
void disco_group_merge_tidy(struct disco_group_merge *m);
bool disco_group_has_timestamp(const struct disco_group *g);

#endif
