/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector of expired identity Leases, as kube-apiserver has one (apiserverleasegc): hourly, kube-system, only
 * with the identity label, judged once more by a live read before deletion. Unlike there, deletion has preconditions,
 * so that a Lease which is renewed in between stays; one that is seen to be renewed stays whatever the clocks say, ours
 * and its owner's; and one instance does it for all.
 */
#ifndef MVPROXY_CLUSTER_LEASE_GC_H
#define MVPROXY_CLUSTER_LEASE_GC_H

#include "base/metric.h"

struct api;
struct lease_gc;

struct lease_gc_opts {
    struct api *api;
    const char *own_id;                            /* copied; never collected */
    struct metric *collected;                      /* counts them */
    bool (*collects)(void *arg);                   /* asked before every round */
    bool (*renewed)(void *arg, struct slice name); /* somebody has lately been seen to renew that Lease */
    void *arg;
};

/* Starts as stopped. Ends the process when out of memory. */
struct lease_gc *lease_gc_new(const struct lease_gc_opts *o);
void lease_gc_free(struct lease_gc *g);  /* NULL is fine */
void lease_gc_start(struct lease_gc *g); /* does nothing while it runs */
void lease_gc_stop(struct lease_gc *g);

#endif
