/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is not the same on all servers of a snapshot, counted in steps of bounded work: 100 servers with 500 groups are
 * not compared in one turn of the loop.
 */
#ifndef MVPROXY_CLUSTER_COMPARISON_H
#define MVPROXY_CLUSTER_COMPARISON_H

#include "base/step.h"
#include "cluster/served.h"

struct comparison;

struct comparison_result {
    size_t gvs, uneven;             /* group/versions that known servers serve; not described alike by all of these */
    const struct served_gv *skewed; /* those whose schemas differ on live servers (served_skewed) */
    size_t n_skewed;
};

/* References the snapshot, into which the result points. `before`, or NULL: the last one, which knows since when; must
 * live until this one is done. NULL when out of memory. */
MEM_CHECK struct comparison *comparison_new(struct served *s, const struct comparison *before);
void comparison_free(struct comparison *c); /* NULL is fine */
struct served *comparison_served(const struct comparison *c);
/* Looks at so many group/versions and schemas at the most. STEP_FAILED: out of memory. */
enum step comparison_step(struct comparison *c, size_t budget);
/* Once that was STEP_DONE; lives as long. */
const struct comparison_result *comparison_result(const struct comparison *c);
/* Likewise: clock_ms() when known servers began to serve the group/version differently, as they do now; 0: they do not.
 */
uint64_t comparison_uneven_since(const struct comparison *c, struct slice group, struct slice version);

#endif
