/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the present facts about the cluster for a snapshot.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_COLLECT_H
#define MVPROXY_CLUSTER_CLUSTER_COLLECT_H

#include "cluster/publish.h"

/* publish_opts.collect, with the struct cluster. */
bool cluster_collect(void *arg, struct served_input *in);

#endif
