/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the comparison (comparison.h) of all servers in the current snapshot up to date, computed in pieces in the work
 * queue (work.h). The last result stays until the next one is complete.
 */
#ifndef MVPROXY_CLUSTER_COMPARER_H
#define MVPROXY_CLUSTER_COMPARER_H

#include "cluster/comparison.h"

struct comparer;
struct loop;
struct work_queue;

enum { COMPARER_BUDGET = 500 }; /* group/versions and schemas in a step: a quarter of a millisecond */

/* NULL when out of memory. */
MEM_CHECK struct comparer *comparer_new(struct loop *l, struct work_queue *w);
void comparer_free(struct comparer *c); /* NULL is fine */
/* Compares this snapshot, unless all servers serve the same in it as in the last one. */
void comparer_take(struct comparer *c, struct served *s);
/* The result for the last snapshot compared; zeros before the first. Valid until the loop goes on. */
const struct comparison_result *comparer_result(const struct comparer *c);
/* Milliseconds for which schemas of live servers have differed, or servers have not all served the same, by all
 * comparisons since then; UINT64_MAX: they do not differ. */
uint64_t comparer_skewed_ms(const struct comparer *c);
uint64_t comparer_uneven_ms(const struct comparer *c);
/* As comparison_uneven_since(). */
uint64_t comparer_uneven_since(const struct comparer *c, struct slice group, struct slice version);

#endif
