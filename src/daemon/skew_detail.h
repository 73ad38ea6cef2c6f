/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a resource that several servers serve only some of them have: verbs, subresources, and verbs of these.
 */
#ifndef MVPROXY_DAEMON_SKEW_DETAIL_H
#define MVPROXY_DAEMON_SKEW_DETAIL_H

#include "base/json_write.h"
#include "cluster/served.h"

enum { SKEW_DETAIL_MOST = 128 }; /* API servers have less than half of it; what is beyond is not compared */

struct skew_detail {
    struct {
        struct slice subresource, verb; /* either may be empty: a verb of the resource itself; the subresource */
    } parts[SKEW_DETAIL_MOST];          /* what any server has */
    size_t n;
};

/* True: some server that serves it lacks something that another has. */
bool skew_detail_differs(const struct served *s, const struct gvr *g, struct skew_detail *out);
/*
 * Appends to an array what this server (0: the local one) lacks of it, if it serves the resource: "delete", "/scale",
 * "/status:patch".
 */
void skew_detail_put(const struct served *s, const struct gvr *g, const struct skew_detail *d, size_t server,
                     struct json_write *list);

#endif
