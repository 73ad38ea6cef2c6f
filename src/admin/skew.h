/*
 * Which server serves what, as tables of the status page: the servers we know, and the resources that are not the same
 * everywhere (all the rest would only hide these).
 */
#ifndef MVPROXY_ADMIN_SKEW_H
#define MVPROXY_ADMIN_SKEW_H

#include "cluster/served.h"

struct page;

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

/* Both tables. `local_answers`: the local server can be reached; what it serves is shown either way. */
void skew_page(struct page *p, const struct served *s, bool local_answers);

#endif
