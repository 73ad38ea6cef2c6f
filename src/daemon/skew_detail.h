/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For a resource that several servers serve: the verbs, subresources and verbs of subresources that only some have.
 */
#ifndef MVPROXY_DAEMON_SKEW_DETAIL_H
#define MVPROXY_DAEMON_SKEW_DETAIL_H

#include "base/json_write.h"
#include "cluster/served.h"

enum { SKEW_DETAIL_MOST = 128 }; /* API servers have less than half as many; parts beyond are not compared */

struct skew_detail {
    struct {
        struct slice subresource, verb; /* one may be empty: a verb of the resource; the subresource itself */
    } parts[SKEW_DETAIL_MOST];          /* that some server has */
    size_t n;
};

/* Fills *out. True if a server that serves the resource lacks a part that another has. */
bool skew_detail_differs(const struct served *s, const struct gvr *g, struct skew_detail *out);
/*
 * Appends the parts that this server (0: the local one) lacks to a JSON array, if it serves the resource: "delete",
 * "/scale", "/status:patch".
 */
void skew_detail_put(const struct served *s, const struct gvr *g, const struct skew_detail *d, size_t server,
                     struct json_write *list);

#endif
