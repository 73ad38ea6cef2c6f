/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes expired identity Leases, as kube-apiserver's apiserverleasegc does: hourly, in kube-system, only those with
 * the identity label, and only after reading each once more. Unlike there, deletion has preconditions, so that a Lease
 * renewed in between stays; a Lease that is seen to be renewed stays even if the clocks disagree; and only one instance
 * does it for the whole cluster.
 */
#ifndef MVPROXY_CLUSTER_LEASE_GC_H
#define MVPROXY_CLUSTER_LEASE_GC_H

#include "base/metric.h"

struct api;
struct lease_gc;

struct lease_gc_opts {
    struct api *api;
    const char *own_id;                            /* copied; never collected */
    struct metric *collected;                      /* counter of deleted Leases */
    bool (*collects)(void *arg);                   /* asked before every round */
    bool (*renewed)(void *arg, struct slice name); /* whether that Lease was lately seen to be renewed */
    void *arg;
};

/* Starts as stopped. Ends the process when out of memory. */
struct lease_gc *lease_gc_new(const struct lease_gc_opts *o);
void lease_gc_free(struct lease_gc *g);  /* NULL is fine */
void lease_gc_start(struct lease_gc *g); /* does nothing while it runs */
void lease_gc_stop(struct lease_gc *g);

#endif
