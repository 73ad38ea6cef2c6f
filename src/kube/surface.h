/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths at which API servers say which APIs there are, as kube-apiserver takes them (kube-aggregator, pkg/apiserver;
 * k8s.io/apiserver, pkg/endpoints/discovery). Clients that were generated from OpenAPI write legacy discovery with a
 * slash at the end; so written, /apis has no aggregated form (kube-aggregator registers it for the legacy one alone).
 */
#ifndef MVPROXY_KUBE_SURFACE_H
#define MVPROXY_KUBE_SURFACE_H

#include <stdbool.h>

#include "base/slice.h"

enum surface_kind {
    SURFACE_NONE,
    SURFACE_CORE,      /* /api: in its legacy form the same everywhere */
    SURFACE_GROUPS,    /* /apis */
    SURFACE_GROUP,     /* /apis/GROUP */
    SURFACE_RESOURCES, /* /api/v1, /apis/GROUP/VERSION */
    SURFACE_SCHEMAS,   /* /openapi/v3 */
};

struct surface {
    enum surface_kind kind;
    bool legacy_only;            /* of GROUPS */
    struct slice group, version; /* "" where nothing; into the path */
};

/* `path`: decoded, without query. */
struct surface surface_of(struct slice path);

#endif
