/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the group/versions that the servers of a snapshot serve differently. Done in steps of bounded work, since 100
 * servers with 500 groups take too long for one turn of the loop.
 */
#ifndef MVPROXY_CLUSTER_COMPARISON_H
#define MVPROXY_CLUSTER_COMPARISON_H

#include "base/fiber.h"
#include "cluster/served.h"

struct comparison;

struct comparison_result {
    size_t gvs, uneven; /* group/versions of servers with known discovery; those not described alike by all of these */
    const struct served_gv *skewed; /* those whose schemas differ on live servers (served_skewed) */
    size_t n_skewed;
};

/* References the snapshot, into which the result points. `before`: the previous comparison, from which the times since
 * when are carried over, or NULL; must live until this one is done. NULL when out of memory. */
MEM_CHECK struct comparison *comparison_new(struct served *s, const struct comparison *before);
void comparison_free(struct comparison *c); /* NULL is fine */
struct served *comparison_served(const struct comparison *c);
/* Examines at most `budget` group/versions and schemas. STEP_FAILED: out of memory. */
enum step comparison_step(struct comparison *c, size_t budget);
/* After STEP_DONE. Valid as long as the comparison. */
const struct comparison_result *comparison_result(const struct comparison *c);
/* After STEP_DONE: clock_ms() when the present difference between servers for the group/version was first seen; 0: no
 * difference. */
uint64_t comparison_uneven_since(const struct comparison *c, struct slice group, struct slice version);

#endif
