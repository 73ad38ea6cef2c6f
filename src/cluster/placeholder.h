/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholder in the merged document for peers whose discovery was never read, since an unknown API must not look like
 * one that does not exist. The namespace controller takes a document without a group as proof that no objects of it
 * exist, and leaves them behind (KEP-4020, motivation); a group/version marked `Stale` makes it wait, and makes the
 * garbage collector keep what it watches (client-go: ErrGroupDiscoveryFailed).
 *
 * A group/version of a stored APIService that no known server serves most likely belongs to the unknown peer. Resources
 * that it has in group/versions of others cannot be known.
 */
#ifndef MVPROXY_CLUSTER_PLACEHOLDER_H
#define MVPROXY_CLUSTER_PLACEHOLDER_H

#include "cluster/served.h"

#define PLACEHOLDER_ID "~unknown" /* sorts after every server ID */

/* A document of all these group/versions, without resources. Sorts `gvs`; n is at least 1. The caller has the
 * reference; NULL when out of memory. */
MEM_CHECK struct disco_doc *placeholder_new(struct served_gv *gvs, size_t n);

#endif
