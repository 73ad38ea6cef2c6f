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
