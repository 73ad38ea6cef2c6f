/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes expired identity Leases, as kube-apiserver's apiserverleasegc does: hourly, in kube-system, only those with
 * the identity label, and only after reading each once more. Which ones may be expired the peer table says, which keeps
 * in mind what dead servers left behind. Unlike there, deletion has preconditions, so that a Lease renewed in between
 * stays; a Lease that is seen to be renewed stays even if the clocks disagree; and only one instance does it for the
 * whole cluster.
 */
#ifndef MVPROXY_CLUSTER_LEASE_GC_H
#define MVPROXY_CLUSTER_LEASE_GC_H

#include "base/metric.h"

struct api;
struct lease_gc;
struct peers;

struct lease_gc_opts {
    struct api *api;
    const char *own_id;                      /* copied */
    struct metric *collected;                /* counter of deleted Leases */
    const struct peers *(*peers)(void *arg); /* as they are now */
    void *arg;
};

/* Starts as stopped. Ends the process when out of memory. */
struct lease_gc *lease_gc_new(const struct lease_gc_opts *o);
void lease_gc_free(struct lease_gc *g);  /* NULL is fine */
void lease_gc_start(struct lease_gc *g); /* does nothing while it runs */
void lease_gc_stop(struct lease_gc *g);

#endif
