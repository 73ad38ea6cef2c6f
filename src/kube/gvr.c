/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/gvr.h"

bool gvr_eq(const struct gvr *a, const struct gvr *b)
{
    return slice_eq(a->resource, b->resource) && slice_eq(a->group, b->group) && slice_eq(a->version, b->version);
}

static char *append_part(char *to, struct slice part)
{
    if (to == NULL || part.n > GVR_NAME_BYTES || slice_index(part, '/') != part.n)
        return NULL;
    if (part.n > 0)
        memcpy(to, part.p, part.n);
    return to + part.n;
}

struct slice gvr_key(const struct gvr *g, char out[GVR_KEY_BYTES])
{
    char *end = append_part(out, g->group);

    if (end != NULL)
        *end++ = '/';
    end = append_part(end, g->version);
    if (end != NULL)
        *end++ = '/';
    end = append_part(end, g->resource);
    return end == NULL ? SLICE_NONE : slice_of(out, (size_t)(end - out));
}

bool gvr_parse_api_version(struct slice s, struct slice *group, struct slice *version)
{
    size_t slash = slice_index(s, '/');
    struct slice g = slice_of(s.p, slash < s.n ? slash : 0);
    struct slice v = slash < s.n ? slice_from(s, slash + 1) : s;

    if (v.n == 0 || slice_index(v, '/') != v.n || (slash < s.n && g.n == 0))
        return false;
    *group = g.n == 0 ? SLICE_LIT("") : g;
    *version = v;
    return true;
}
