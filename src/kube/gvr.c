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

/* ---- which names there are ---- */

enum { LOWER = 1, DIGIT = 2, DASH = 4, SEGMENT = 8, ALNUM = LOWER | DIGIT };
enum { GROUP_BYTES = 253, VERSION_BYTES = 63 };

/*
 * SEGMENT: what may stand in a segment of a path as it is (RFC 3986, 3.3: pchar) without '%', '&' and '\'', and '|',
 * which the adapter for Google's metrics writes in the place of '/' (and '*' for any resource).
 */
static const unsigned char classes[256] = {
    ['a' ... 'z'] = LOWER | SEGMENT,
    ['A' ... 'Z'] = SEGMENT,
    ['0' ... '9'] = DIGIT | SEGMENT,
    ['-'] = DASH | SEGMENT,
    ['.'] = SEGMENT,
    ['_'] = SEGMENT,
    ['~'] = SEGMENT,
    ['!'] = SEGMENT,
    ['$'] = SEGMENT,
    ['('] = SEGMENT,
    [')'] = SEGMENT,
    ['*'] = SEGMENT,
    ['+'] = SEGMENT,
    [','] = SEGMENT,
    [';'] = SEGMENT,
    ['='] = SEGMENT,
    [':'] = SEGMENT,
    ['@'] = SEGMENT,
    ['|'] = SEGMENT,
};

static unsigned class_of(char c)
{
    return classes[(unsigned char)c];
}

static bool all_are(struct slice name, unsigned wanted)
{
    for (size_t i = 0; i < name.n; i++)
        if ((class_of(name.p[i]) & wanted) == 0)
            return false;
    return name.n > 0;
}

bool gvr_is_group(struct slice name)
{
    struct slice label;

    if (name.n == 0 || name.n > GROUP_BYTES)
        return false;
    while (slice_split(&name, '.', &label))
        if (!all_are(label, ALNUM | DASH) || (class_of(label.p[0]) & ALNUM) == 0 ||
            (class_of(label.p[label.n - 1]) & ALNUM) == 0)
            return false;
    return true;
}

bool gvr_is_version(struct slice name)
{
    return name.n <= VERSION_BYTES && all_are(name, ALNUM | DASH) && (class_of(name.p[0]) & LOWER) != 0 &&
           (class_of(name.p[name.n - 1]) & ALNUM) != 0;
}

bool gvr_is_resource(struct slice name)
{
    return name.n <= GVR_NAME_BYTES && all_are(name, SEGMENT) && !slice_eq(name, SLICE_LIT(".")) &&
           !slice_eq(name, SLICE_LIT(".."));
}
