/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the cluster share: who we are, the options in force, and what everything is made with. Filled by
 * the facade before it makes them, changed by it alone, outlives them.
 */
#ifndef MVPROXY_CLUSTER_CLUSTER_ENV_H
#define MVPROXY_CLUSTER_CLUSTER_ENV_H

#include "base/limits.h"
#include "cluster/cluster_metrics.h"
#include "cluster/cluster_opts.h"
#include "kube/server_id.h"

struct cluster_env {
    struct loop *loop;
    struct back *back;
    struct api *api;
    struct publish *publish; /* publish_request(): a snapshot may be another one */
    struct cluster_metrics *metrics;
    size_t (*servers)(void *arg); /* as in pulse_opts, as the next one */
    void *servers_arg;
    struct cluster_opts o; /* texts and arrays are NULL, static_peers apart: they have been passed on to the parts */
    char own_id[SERVER_ID_BYTES];                        /* "": the host name makes none */
    char *hostname, advertise[LIMIT_ADDRESS_TEXT_BYTES]; /* of the local server; "": none */
};

#endif
