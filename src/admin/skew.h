/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which server serves which resource, in steps that each take little time: 100 servers with 500 groups are not compared
 * in one turn of the loop.
 */
#ifndef MVPROXY_ADMIN_SKEW_H
#define MVPROXY_ADMIN_SKEW_H

#include "cluster/served.h"

struct skew;

/* One resource. `by[0]` is the local server, `by[i]` peer i - 1; unknown servers have no say. */
enum skew_state { SKEW_UNKNOWN, SKEW_ABSENT, SKEW_SERVED };
struct skew_row {
    struct gvr gvr;
    const enum skew_state *by; /* until the next call */
    size_t n;
    bool uneven; /* served by some of the known servers and not by others */
};

/* References the snapshot. NULL when out of memory. */
MEM_CHECK struct skew *skew_new(struct served *s);
void skew_free(struct skew *k); /* NULL is fine */
/* A step. True: the rows can be read. *failed when out of memory. */
bool skew_gather(struct skew *k, bool *failed);
/* Every resource that any server serves, in order of group, version, name. */
size_t skew_rows(const struct skew *k);
void skew_row(struct skew *k, size_t i, struct skew_row *out);

#endif
