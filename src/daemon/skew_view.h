/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to mvproxyctl skew, as JSON in pieces: which server serves which resource, which servers lack verbs or
 * subresources that others have ("partly"), and whose schemas differ; or, for an upgrade, the resources that only old
 * or only new servers serve, and who asks for them.
 */
#ifndef MVPROXY_DAEMON_SKEW_VIEW_H
#define MVPROXY_DAEMON_SKEW_VIEW_H

#include "base/buf.h"
#include "base/mem.h"

struct askers;
struct cluster;
struct served;
struct skew_view;

struct skew_view_opts {
    struct served *served;        /* referenced */
    const struct askers *askers;  /* must live as long */
    const char *skewed_resources; /* the option; NULL: it is not told */
    uint64_t skewed_ms;           /* for how long schemas have differed; UINT64_MAX: they do not */
    uint64_t uneven_ms;           /* for how long not all have served the same; UINT64_MAX: they do */
    /* For how long servers have served a group/version differently; NULL: as uneven_ms. */
    uint64_t (*uneven_gv_ms)(const struct cluster *c, struct slice group, struct slice version);
    const struct cluster *cluster; /* its argument; must live as long */
    size_t most_bytes;             /* rows beyond this size are not printed, only counted ("rowsLeftOut") */
    bool upgrade;
    bool all; /* also resources that all servers serve; not for an upgrade */
};

/* NULL when out of memory. */
MEM_CHECK struct skew_view *skew_view_new(const struct skew_view_opts *o);
/* For control_job.more and .end; `view` is a struct skew_view. When out of memory the piece has failed. */
bool skew_view_more(void *view, struct buf *piece);
void skew_view_free(void *view); /* NULL is fine */

#endif
