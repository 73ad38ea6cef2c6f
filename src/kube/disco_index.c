/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items are entered in the document's order: a group, its first version, that one's resources... A name that is there
 * already, or that can be none, takes the item off its list: the first of a name counts. So does too great a number, of
 * a peer: what it lists is united with what others do. What the local server lists so much of is an aggregated API's,
 * or a CRD's, which goes on as it is.
 */
#include "kube/disco_index.h"

#include "base/contract.h"
#include "base/limits.h"
#include "kube/disco_doc.h"

enum { LEFT_OUT_BYTES = 100 /* of each part of a name that is to be shown */ };
enum { ENTRY_COST = 64 /* entering a name costs about as much as reading so many bytes */, LOOK_COST = 8 };

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

static bool may_be_group(const struct disco_index *x, const struct disco_group *g, size_t kept)
{
    const struct disco_version *v = g->versions;

    if (!x->judges)
        return true;
    if ((x->core ? g->name.n > 0 : !gvr_is_group(g->name)) || kept == LIMIT_DISCOVERY_PEER_GROUPS)
        return false;
    while (v != NULL && !gvr_is_version(v->name) && fiber_spend(x->fiber, LOOK_COST))
        v = v->next;
    return v != NULL || g->versions == NULL;
}

static bool may_be_version(const struct disco_index *x, const struct disco_version *v, size_t kept)
{
    return x->judges ? gvr_is_version(v->name) && kept < LIMIT_DISCOVERY_PEER_LIST : v->name.n > 0;
}

static bool may_be_resource(const struct disco_index *x, const struct disco_resource *r, size_t kept)
{
    return x->judges ? gvr_is_resource(r->name) && !r->odd && kept < LIMIT_DISCOVERY_PEER_LIST : r->name.n > 0;
}

/* ---- the walk ---- */

static bool judge_subresources(struct disco_index *x, struct disco_resource *r, const struct gvr *name)
{
    const struct disco_subresource **next = &r->subresources;
    bool all = true;
    size_t kept = 0;

    while (*next != NULL && fiber_spend(x->fiber, LOOK_COST)) {
        const struct disco_subresource *s = *next;

        if (gvr_is_resource(s->name) && kept < LIMIT_DISCOVERY_PEER_SUBRESOURCES) {
            next = &OWN(struct disco_subresource, s)->next;
            kept++;
            continue;
        }
        note_left_out(x, name, s->name);
        all = false;
        *next = s->next;
        must_hold(r->n_subresources > 0);
        r->n_subresources--;
    }
    return all;
}

static bool enter_resources(struct disco_index *x, struct disco_group *g, struct disco_version *v)
{
    const struct disco_resource **next = &v->resources;
    size_t kept = 0;

    while (*next != NULL) {
        struct disco_resource *r = OWN(struct disco_resource, *next);
        const struct gvr name = {g->name, v->name, r->name};

        if (may_be_resource(x, r, kept) && disco_doc_index_add(x->doc, DISCO_ENTRY_RESOURCE, &name, r)) {
            r->reduced = x->judges && !judge_subresources(x, r, &name);
            v->reduced = v->reduced || r->reduced;
            kept++;
            next = &r->next;
        } else {
            note_left_out(x, &name, SLICE_LIT(""));
            v->reduced = x->judges;
            *next = r->next;
            must_hold(v->n_resources > 0 && x->doc->n_resources > 0);
            v->n_resources--;
            x->doc->n_resources--;
        }
        if (!fiber_spend(x->fiber, ENTRY_COST))
            return false;
    }
    return true;
}

static bool enter_versions(struct disco_index *x, struct disco_group *g)
{
    const struct disco_version **next = &g->versions;
    size_t kept = 0;

    while (*next != NULL) {
        struct disco_version *v = OWN(struct disco_version, *next);
        const struct gvr name = {g->name, v->name, SLICE_LIT("")};

        if (may_be_version(x, v, kept) && disco_doc_index_add(x->doc, DISCO_ENTRY_VERSION, &name, v)) {
            if (!enter_resources(x, g, v))
                return false;
            g->reduced = g->reduced || v->reduced;
            kept++;
            next = &v->next;
        } else {
            note_left_out(x, &name, SLICE_LIT(""));
            g->reduced = x->judges;
            *next = v->next;
            must_hold(g->n_versions > 0 && x->doc->n_resources >= v->n_resources);
            g->n_versions--;
            x->doc->n_versions--;
            x->doc->n_resources -= v->n_resources;
        }
        if (!fiber_spend(x->fiber, ENTRY_COST))
            return false;
    }
    return true;
}

static void leave_out_group(struct disco_index *x, const struct disco_group *g, const struct gvr *name)
{
    note_left_out(x, name, SLICE_LIT(""));
    must_hold(x->doc->n_groups > 0);
    x->doc->n_groups--;
    for (const struct disco_version *v = g->versions; v != NULL && fiber_spend(x->fiber, LOOK_COST); v = v->next) {
        x->doc->n_versions--;
        x->doc->n_resources -= v->n_resources;
    }
}

bool disco_index_fill(struct disco_index *x, struct disco_doc *d)
{
    const struct disco_group **next = &d->groups;
    size_t kept = 0;

    x->doc = d;
    if (!disco_doc_index_init(d))
        return false;
    while (*next != NULL) {
        struct disco_group *g = OWN(struct disco_group, *next);
        const struct gvr name = {g->name, SLICE_LIT(""), SLICE_LIT("")};

        if (may_be_group(x, g, kept) && disco_doc_index_add(d, DISCO_ENTRY_GROUP, &name, g)) {
            if (!enter_versions(x, g))
                return false;
            kept++;
            next = &g->next;
        } else {
            leave_out_group(x, g, &name);
            *next = g->next;
        }
        if (!fiber_spend(x->fiber, ENTRY_COST))
            return false;
    }
    return true;
}
