/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group, version, resource: the name under which routing and discovery know a thing. The core group is "".
 */
#ifndef MVPROXY_KUBE_GVR_H
#define MVPROXY_KUBE_GVR_H

#include "base/slice.h"

struct gvr {
    struct slice group, version, resource;
};

/* Longest group, version or resource name that we take from anybody (Kubernetes: DNS subdomains, 253). */
enum { GVR_NAME_BYTES = 512, GVR_KEY_BYTES = 3 * GVR_NAME_BYTES + 2 };

bool gvr_eq(const struct gvr *a, const struct gvr *b);
/*
 * Key text "group/version/resource" for hashing (none of the three may hold a slash, so it is unambiguous). The result
 * points into `out`; its p is NULL if a part is longer than GVR_NAME_BYTES or holds a slash.
 */
struct slice gvr_key(const struct gvr *g, char out[GVR_KEY_BYTES]);

#endif
