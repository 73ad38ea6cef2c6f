/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in the merged document for peers whose discovery was never read: unknown must not look like not there.
 * The namespace controller takes a document without a group for proof that no object of it exists, and leaves them
 * behind (KEP-4020, motivation); a group/version that is `Stale` makes it wait, and the garbage collector keep what it
 * watches (client-go: ErrGroupDiscoveryFailed).
 *
 * What the cluster's stored APIServices name is somebody's group/version, so those that nobody known serves are most
 * likely the unknown peer's. Nothing tells of resources that it has in versions that others have too.
 */
#ifndef MVPROXY_CLUSTER_PLACEHOLDER_H
#define MVPROXY_CLUSTER_PLACEHOLDER_H

#include "cluster/served.h"

#define PLACEHOLDER_ID "~unknown" /* behind every server ID */

/* All of these, without resources. Sorts `gvs`, of which there is at least one. The reference is the caller's; NULL
 * when out of memory. */
MEM_CHECK struct disco_doc *placeholder_new(struct served_gv *gvs, size_t n);

#endif
