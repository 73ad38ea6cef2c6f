/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths say which APIs there are. */
#include "kube/surface.h"

#include "lib/tap.h"

int main(void)
{
    static const struct {
        const char *path;
        enum surface_kind kind;
        const char *group, *version;
        bool legacy_only;
    } rows[] = {
        {"/api", SURFACE_CORE, "", "", false},
        {"/api/", SURFACE_CORE, "", "", false},
        {"/apis", SURFACE_GROUPS, "", "", false},
        {"/apis/", SURFACE_GROUPS, "", "", true},
        {"/apis/batch", SURFACE_GROUP, "batch", "", false},
        {"/apis/batch/", SURFACE_GROUP, "batch", "", false},
        {"/apis/batch/v1", SURFACE_RESOURCES, "batch", "v1", false},
        {"/apis/batch/v1/", SURFACE_RESOURCES, "batch", "v1", false},
        {"/api/v1", SURFACE_RESOURCES, "", "v1", false},
        {"/api/v1/", SURFACE_RESOURCES, "", "v1", false},
        {"/openapi/v3", SURFACE_SCHEMAS, "", "", false},
        {"/openapi/v3/", SURFACE_NONE, "", "", false},
        {"/openapi/v3/api/v1", SURFACE_NONE, "", "", false},
        {"/", SURFACE_NONE, "", "", false},
        {"//", SURFACE_NONE, "", "", false},
        {"/apis//", SURFACE_NONE, "", "", false},
        {"/apis//v1", SURFACE_NONE, "", "", false},
        {"/apis/batch//", SURFACE_NONE, "", "", false},
        {"//apis", SURFACE_NONE, "", "", false},
        {"/apis/batch/v1/jobs", SURFACE_NONE, "", "", false},
        {"/api/v1/pods", SURFACE_NONE, "", "", false},
        {"/apis/batch/v1/jobs/x", SURFACE_NONE, "", "", false},
        {"/apix/batch/v1", SURFACE_NONE, "", "", false},
        {"/healthz", SURFACE_NONE, "", "", false},
        {"*", SURFACE_NONE, "", "", false},
        {"", SURFACE_NONE, "", "", false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct surface s = surface_of(slice_str(rows[i].path));

        is_int(s.kind, rows[i].kind, "%s: kind", rows[i].path);
        is_int(s.legacy_only, rows[i].legacy_only, "has no aggregated form");
        is_slice(s.group, rows[i].group, "group");
        is_slice(s.version, rows[i].version, "version");
    }
    return tap_end();
}
