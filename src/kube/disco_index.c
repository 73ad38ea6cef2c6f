/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items are entered in the document's order: a group, its first version, that one's resources... A name that is there
 * already, or that can be none, takes the item off its list: the first of a name counts. So does too great a number, of
 * a peer: what it lists is united with what others do. What the local server lists so much of is an aggregated API's,
 * or a CRD's, which goes on as it is.
 */
#include "kube/disco_index.h"

#include "base/limits.h"
#include "kube/disco_doc.h"

enum { LEFT_OUT_BYTES = 100 }; /* of each part of a name that is to be shown */

/* Drops const from what is of our own making: the document is not yet anybody else's. */
#define OWN(type, pointer) ((type *)(uintptr_t)(pointer))

/* ---- leaving out ---- */

static int shown(struct slice name)
{
    return name.n < LEFT_OUT_BYTES ? (int)name.n : LEFT_OUT_BYTES;
}

static void note_left_out(struct disco_index *x, const struct gvr *name, struct slice subresource)
{
    struct disco_doc *d = x->doc;

    /* Without memory for it, nothing is shown. */
    if (x->judges && d->n_left_out++ == 0)
        d->left_out =
            arena_printf(d->arena, "%.*s/%.*s/%.*s/%.*s", shown(name->group), name->group.p, shown(name->version),
                         name->version.p, shown(name->resource), name->resource.p, shown(subresource), subresource.p);
}

/* ---- what may stay ---- */

static bool may_be_group(const struct disco_index *x, const struct disco_group *g)
{
    const struct disco_version *v = g->versions;

    if (!x->judges)
        return true;
    if ((x->core ? g->name.n > 0 : !gvr_is_group(g->name)) || x->n_groups == LIMIT_DISCOVERY_PEER_GROUPS)
        return false;
    while (v != NULL && !gvr_is_version(v->name))
        v = v->next;
    return v != NULL || g->versions == NULL;
}

static bool may_be_version(const struct disco_index *x, const struct disco_version *v)
{
    return x->judges ? gvr_is_version(v->name) && x->n_versions < LIMIT_DISCOVERY_PEER_LIST : v->name.n > 0;
}

static bool may_be_resource(const struct disco_index *x, const struct disco_resource *r)
{
    return x->judges ? gvr_is_resource(r->name) && !r->odd && x->n_resources < LIMIT_DISCOVERY_PEER_LIST
                     : r->name.n > 0;
}

/* ---- the walk ---- */

static void judge_subresources(struct disco_index *x, struct disco_resource *r, const struct gvr *name)
{
    const struct disco_subresource **next = &r->subresources;
    size_t kept = 0;

    while (*next != NULL) {
        const struct disco_subresource *s = *next;

        if (gvr_is_resource(s->name) && kept < LIMIT_DISCOVERY_PEER_SUBRESOURCES) {
            next = &OWN(struct disco_subresource, s)->next;
            kept++;
            continue;
        }
        note_left_out(x, name, s->name);
        r->reduced = x->version->reduced = x->group->reduced = true;
        *next = s->next;
        r->n_subresources--;
    }
}

static void index_resource(struct disco_index *x)
{
    const struct disco_version *v = x->version;
    struct disco_resource *r = OWN(struct disco_resource, *x->next_resource);
    struct gvr name;

    if (r == NULL) {
        x->next_version = &x->version->next;
        x->version = NULL;
        return;
    }
    name = (struct gvr){v->group->name, v->name, r->name};
    if (may_be_resource(x, r) && disco_doc_index_add(x->doc, DISCO_ENTRY_RESOURCE, &name, r)) {
        if (x->judges)
            judge_subresources(x, r, &name);
        x->n_resources++;
        x->next_resource = &r->next;
        return;
    }
    note_left_out(x, &name, SLICE_LIT(""));
    x->version->reduced = x->group->reduced = x->judges;
    *x->next_resource = r->next;
    x->version->n_resources--;
    x->doc->n_resources--;
}

static void index_version(struct disco_index *x)
{
    struct disco_version *v = OWN(struct disco_version, *x->next_version);
    struct gvr name;

    if (v == NULL) {
        x->next_group = &x->group->next;
        x->group = NULL;
        return;
    }
    name = (struct gvr){x->group->name, v->name, SLICE_LIT("")};
    if (may_be_version(x, v) && disco_doc_index_add(x->doc, DISCO_ENTRY_VERSION, &name, v)) {
        x->version = v;
        x->n_versions++;
        x->n_resources = 0;
        x->next_resource = &v->resources;
        return;
    }
    note_left_out(x, &name, SLICE_LIT(""));
    x->group->reduced = x->judges;
    *x->next_version = v->next;
    x->group->n_versions--;
    x->doc->n_versions--;
    x->doc->n_resources -= v->n_resources;
}

static bool index_group(struct disco_index *x)
{
    struct disco_group *g = OWN(struct disco_group, *x->next_group);
    struct gvr name;

    if (g == NULL)
        return false;
    name = (struct gvr){g->name, SLICE_LIT(""), SLICE_LIT("")};
    if (may_be_group(x, g) && disco_doc_index_add(x->doc, DISCO_ENTRY_GROUP, &name, g)) {
        x->group = g;
        x->n_groups++;
        x->n_versions = 0;
        x->next_version = &g->versions;
        return true;
    }
    note_left_out(x, &name, SLICE_LIT(""));
    *x->next_group = g->next;
    x->doc->n_groups--;
    for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
        x->doc->n_versions--;
        x->doc->n_resources -= v->n_resources;
    }
    return true;
}

bool disco_index_start(struct disco_index *x, struct disco_doc *d)
{
    x->doc = d;
    x->group = NULL;
    x->version = NULL;
    x->n_groups = 0;
    x->next_group = &d->groups;
    return disco_doc_index_init(d);
}

bool disco_index_step(struct disco_index *x)
{
    if (x->version != NULL)
        index_resource(x);
    else if (x->group != NULL)
        index_version(x);
    else
        return index_group(x);
    return true;
}
