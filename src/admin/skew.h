/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which server serves which resource.
 */
#ifndef MVPROXY_ADMIN_SKEW_H
#define MVPROXY_ADMIN_SKEW_H

#include "cluster/served.h"

/* One resource. `by[0]` is the local server, `by[i]` peer i - 1; unknown servers have no say. */
enum skew_state { SKEW_UNKNOWN, SKEW_ABSENT, SKEW_SERVED };
struct skew_row {
    struct gvr gvr;
    const enum skew_state *by;
    size_t n;
    bool uneven; /* served by some of the known servers and not by others */
};

/* Every resource that any server serves, in order of group, version, name. False when out of memory (nothing was
 * called). */
MEM_CHECK bool skew_walk(const struct served *s, void (*fn)(const struct skew_row *row, void *arg), void *arg);

#endif
