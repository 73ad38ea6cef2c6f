/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps what is not the same on all servers, of the current snapshot: counted in pieces that share the turns of the
 * loop with reading and merging (cluster/work.h). Until a new snapshot is compared the result of the one before stays.
 */
#ifndef MVPROXY_CLUSTER_COMPARER_H
#define MVPROXY_CLUSTER_COMPARER_H

#include "cluster/comparison.h"

struct comparer;
struct loop;
struct work_queue;

enum { COMPARER_BUDGET = 500 }; /* group/versions and schemas in a step: a quarter of a millisecond */

/* `changed` is called when there is another result, never from inside. NULL when out of memory. */
MEM_CHECK struct comparer *comparer_new(struct loop *l, struct work_queue *w, void (*changed)(void *arg), void *arg);
void comparer_free(struct comparer *c); /* NULL is fine */
/* Compares this snapshot, unless its servers say what those of the last one did. */
void comparer_take(struct comparer *c, struct served *s);
/* Of the last snapshot that was compared; zeros before. Until the loop goes on. */
const struct comparison_result *comparer_result(const struct comparer *c);
/* As comparison_uneven_since(). */
uint64_t comparer_uneven_since(const struct comparer *c, struct slice group, struct slice version);

#endif
