/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One group of the merged discovery document, from what several servers say of it. Private to the merge, whose rules
 * stand at the top of disco_merge.c.
 */
#ifndef MVPROXY_KUBE_DISCO_MERGE_GROUP_H
#define MVPROXY_KUBE_DISCO_MERGE_GROUP_H

#include "base/buf.h"
#include "kube/disco.h"
#include "kube/disco_parse.h"

enum { DISCO_MERGE_ARENA_BYTES = 512 << 20 };

/* What one server says of the group. */
struct disco_group_giver {
    size_t server; /* its number */
    const struct disco_group *group;
    bool partial; /* some of its versions are excluded: ask `excluded` for each */
    bool live;    /* not lapsed */
};

typedef bool disco_excluded_fn(void *arg, const struct disco_version *v);

struct disco_group_merge;

/* Writes groups, one after the other, to `out`, which must outlive it. NULL when out of memory. */
MEM_CHECK struct disco_group_merge *disco_group_merge_new(struct buf *out, disco_excluded_fn *excluded, void *arg);
void disco_group_merge_free(struct disco_group_merge *m); /* NULL is fine */
/*
 * Begins a group, given by `n` servers, in their order. DONE: all say the same, it is written. MORE: step until it is
 * not; one step writes one version.
 * *spent grows by the resources looked at. FAILED: out of memory, or `out` has failed.
 */
enum step disco_group_merge_open(struct disco_group_merge *m, const struct disco_group_giver *givers, size_t n,
                                 size_t *spent);
enum step disco_group_merge_step(struct disco_group_merge *m, size_t *spent);
/*
 * Servers up to 1.33 write creationTimestamp: null into a group's metadata, which says nothing; later ones do not, nor
 * does who reads it and writes it again. From now on it is left out.
 */
void disco_group_merge_tidy(struct disco_group_merge *m);
bool disco_group_has_timestamp(const struct disco_group *g);

#endif
