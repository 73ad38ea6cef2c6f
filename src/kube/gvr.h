/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Group, version and resource: the name of a resource in routing and discovery. The core group is "".
 */
#ifndef MVPROXY_KUBE_GVR_H
#define MVPROXY_KUBE_GVR_H

#include "base/slice.h"

struct gvr {
    struct slice group, version, resource;
};

/* The longest group, version or resource name that is accepted (Kubernetes: DNS subdomains, 253). */
enum { GVR_NAME_BYTES = 512, GVR_KEY_BYTES = 3 * GVR_NAME_BYTES + 2 };

bool gvr_eq(const struct gvr *a, const struct gvr *b);
/*
 * The key "group/version/resource" for hash tables. The result points into `out`; its p is NULL if a part is longer
 * than GVR_NAME_BYTES or contains a slash, which would make the key ambiguous.
 */
struct slice gvr_key(const struct gvr *g, char out[GVR_KEY_BYTES]);

/*
 * Names that an API server can have; what is served under another one is no resource. A group is a DNS subdomain, and
 * not "", which is the core group. A version is a DNS label that begins with a letter. A resource or a subresource
 * mostly is a label too, but those of metrics (custom.metrics.k8s.io, external.metrics.k8s.io) are whatever their
 * adapters call them: here it is a segment of a path that means the same wherever it stands, in a URL, on a terminal
 * and in HTML.
 */
bool gvr_is_group(struct slice name);
bool gvr_is_version(struct slice name);
bool gvr_is_resource(struct slice name);

#endif
