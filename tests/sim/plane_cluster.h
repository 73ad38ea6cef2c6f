/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the data plane (plane.h) knows of the cluster, by way of fake_cluster.h: there are two servers, the local one
 * with pods, and a peer that has the jobs of batch/v1 as well. A refresh ends when the loop gets to it.
 */
#ifndef MVPROXY_TESTS_SIM_PLANE_CLUSTER_H
#define MVPROXY_TESTS_SIM_PLANE_CLUSTER_H

#include "cluster/readiness.h"
#include "sim/plane.h"

/* What is other than it was in the beginning. */
enum plane_snapshot_bit {
    SNAPSHOT_REPLACED = 1 << 0, /* the peer has another ID, of the same address */
    SNAPSHOT_RENAMED = 1 << 1,
    SNAPSHOT_LAPSED = 1 << 2,
    SNAPSHOT_DRAINED = 1 << 3,
    SNAPSHOT_SILENT = 1 << 4,
    SNAPSHOT_UNDISCOVERED = 1 << 5,
    SNAPSHOT_EXPECTED = 1 << 6, /* and its discovery will be there in a moment */
    SNAPSHOT_ALONE = 1 << 7,    /* there is no peer */
    SNAPSHOT_LOCAL_UNKNOWN = 1 << 8,
    SNAPSHOT_LOCAL_ALL = 1 << 9, /* the local server has what the peer has */
    SNAPSHOT_UNSYNCED = 1 << 10,
    SNAPSHOT_UNMERGED = 1 << 11,
    SNAPSHOT_UNADDRESSED = 1 << 12, /* the peer has no address */
    SNAPSHOT_BITS = 13
};
/* Whoever asks from here on sees another snapshot; not if there is no memory for it. */
void plane_snapshot(struct plane *p, unsigned bits);

/* What is known of the local server, whatever it does. */
struct plane_local {
    enum readiness_state state; /* READY: it is, if it can be reached */
    bool loading, unread, no_failover;
};
void plane_local(struct plane *p, const struct plane_local *l);

/* For plane.c: makes p->cluster; frees it, when the loop has come to rest. What it knows goes before the origins do
 * (fake_cluster_forget()). */
void plane_cluster_open(struct plane *p);
void plane_cluster_close(struct plane *p);

#endif
