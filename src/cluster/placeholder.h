/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders in the merged document. First, for peers whose discovery was never read, since an unknown API must not
 * look like one that does not exist. The namespace controller takes a document without a group as proof that no objects
 * of it exist, and leaves them behind (KEP-4020, motivation); a group/version marked `Stale` makes it wait, and makes
 * the garbage collector keep what it watches (client-go: ErrGroupDiscoveryFailed).
 *
 * A group/version of a stored APIService that no known server serves most likely belongs to the unknown peer. Resources
 * that it has in group/versions of others cannot be known.
 *
 * Second, for custom resources and aggregated APIs while nobody who can be believed says what there is of them.
 */
#ifndef MVPROXY_CLUSTER_PLACEHOLDER_H
#define MVPROXY_CLUSTER_PLACEHOLDER_H

#include "cluster/served.h"

/* They sort after every server ID. */
#define PLACEHOLDER_ID "~unknown"
#define PLACEHOLDER_EXCLUDED_ID "~unknown-excluded"

/* A document of all these group/versions, without resources. Sorts `gvs`; n is at least 1. The caller has the
 * reference; NULL when out of memory. */
MEM_CHECK struct disco_doc *placeholder_new(struct served_gv *gvs, size_t n);

#endif
