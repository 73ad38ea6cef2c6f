/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges one group of discovery from the documents of several servers. Private to the merge, whose rules are at the top
 * of disco_merge.c.
 */
#ifndef MVPROXY_KUBE_DISCO_MERGE_GROUP_H
#define MVPROXY_KUBE_DISCO_MERGE_GROUP_H

#include "base/buf.h"
#include "base/fiber.h"
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
 * Writes a group that `n` servers have, in their order. Spends about as much as it has to look at resources. False: out
 * of memory, given up, or `out` has failed.
 */
MEM_CHECK bool disco_group_merge(struct disco_group_merge *m, const struct disco_group_giver *givers, size_t n,
                                 struct fiber *fiber);
/*
 * From now on leaves out creationTimestamp: null in a group's metadata, which servers up to 1.33 write and later ones
 * do not. It has no meaning, and is lost when a document is decoded and encoded again.
 */
void disco_group_merge_tidy(struct disco_group_merge *m);
bool disco_group_has_timestamp(const struct disco_group *g);

#endif
