/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/surface.h"

enum { PARTS = 3 };

/* Of "/a/b/c" or "/a/b/c/"; 0: there are none, more than PARTS, or empty ones. */
static size_t split(struct slice path, struct slice part[PARTS])
{
    size_t n = 0;

    path.n -= slice_has_suffix(path, SLICE_LIT("/"));
    if (!slice_has_prefix(path, SLICE_LIT("/")))
        return 0;
    path = slice_from(path, 1);
    while (n < PARTS && slice_split(&path, '/', &part[n]))
        if (part[n++].n == 0)
            return 0;
    return path.p == NULL || path.n == 0 ? n : 0;
}

struct surface surface_of(struct slice path)
{
    static const enum surface_kind kinds[][PARTS + 1] = {
        {SURFACE_NONE, SURFACE_GROUPS, SURFACE_GROUP, SURFACE_RESOURCES},
        {SURFACE_NONE, SURFACE_CORE, SURFACE_RESOURCES, SURFACE_NONE},
    };
    struct slice part[PARTS];
    size_t n = split(path, part);
    bool core = n > 0 && slice_eq(part[0], SLICE_LIT("api"));
    struct surface s = {.kind = SURFACE_NONE, .group = SLICE_LIT(""), .version = SLICE_LIT("")};

    if (slice_eq(path, SLICE_LIT("/openapi/v3")))
        s.kind = SURFACE_SCHEMAS;
    else if (core || (n > 0 && slice_eq(part[0], SLICE_LIT("apis"))))
        s.kind = kinds[core][n];
    s.legacy_only = s.kind == SURFACE_GROUPS && slice_has_suffix(path, SLICE_LIT("/"));
    if (s.kind == SURFACE_GROUP || (s.kind == SURFACE_RESOURCES && !core))
        s.group = part[1];
    if (s.kind == SURFACE_RESOURCES)
        s.version = part[n - 1];
    return s;
}
