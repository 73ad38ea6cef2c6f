/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/disco_same.h"

/* As sent: none, null or "". */
static bool says_nothing(struct slice raw)
{
    return raw.n <= 2 || slice_eq(raw, SLICE_LIT("null"));
}

bool disco_resource_same(const struct disco_resource *a, const struct disco_resource *b)
{
    struct slice one = a->fields[DISCO_FIELD_SINGULAR], other = b->fields[DISCO_FIELD_SINGULAR];

    return a->hash == b->hash || (a->said == b->said && (says_nothing(one) || says_nothing(other)));
}

bool disco_version_same(const struct disco_version *a, const struct disco_version *b)
{
    const struct disco_resource *r = a->resources, *other = b->resources;

    if (a->hash == b->hash || a->said != b->said)
        return a->hash == b->hash;
    for (; r != NULL && other != NULL; r = r->next, other = other->next)
        if (!disco_resource_same(r, other))
            return false;
    return r == other;
}
