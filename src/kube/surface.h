/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises the paths of discovery and of the schema index as kube-apiserver does (kube-aggregator, pkg/apiserver;
 * k8s.io/apiserver, pkg/endpoints/discovery). Clients generated from OpenAPI request legacy discovery with a slash at
 * the end; in this form /apis has no aggregated document (kube-aggregator registers it for legacy discovery only).
 */
#ifndef MVPROXY_KUBE_SURFACE_H
#define MVPROXY_KUBE_SURFACE_H

#include <stdbool.h>

#include "base/slice.h"

enum surface_kind {
    SURFACE_NONE,
    SURFACE_CORE,      /* /api; its legacy form is the same on all servers */
    SURFACE_GROUPS,    /* /apis */
    SURFACE_GROUP,     /* /apis/GROUP */
    SURFACE_RESOURCES, /* /api/v1, /apis/GROUP/VERSION */
    SURFACE_SCHEMAS,   /* /openapi/v3 */
};

struct surface {
    enum surface_kind kind;
    bool legacy_only;            /* of GROUPS */
    struct slice group, version; /* "" if the path has none; within the path */
};

/* `path`: decoded, without query. */
struct surface surface_of(struct slice path);

#endif
