/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/skew_detail.h"

#include "admin/names.h"
#include "base/buf.h"

enum { PART_BYTES = 1024 };

/* NULL: it does not serve it, or is not known. */
static const struct disco_resource *resource_of(const struct served *s, size_t server, const struct gvr *g)
{
    return disco_resource(names_disco(s, server), g);
}

static bool is_among(const struct slice *verbs, size_t n, struct slice verb)
{
    for (size_t i = 0; i < n; i++)
        if (slice_eq(verbs[i], verb))
            return true;
    return false;
}

static const struct disco_subresource *find(const struct disco_resource *r, struct slice name)
{
    const struct disco_subresource *sub = r->subresources;

    while (sub != NULL && !slice_eq(sub->name, name))
        sub = sub->next;
    return sub;
}

/* A subresource that is not there is one thing that is lacking, not each of its verbs. */
static bool lacks(const struct disco_resource *r, struct slice subresource, struct slice verb)
{
    const struct disco_subresource *sub;

    if (subresource.n == 0)
        return !is_among(r->verbs, r->n_verbs, verb);
    sub = find(r, subresource);
    if (sub == NULL)
        return verb.n == 0;
    return verb.n > 0 && !is_among(sub->verbs, sub->n_verbs, verb);
}

static void add(struct skew_detail *d, struct slice subresource, struct slice verb)
{
    for (size_t i = 0; i < d->n; i++)
        if (slice_eq(d->parts[i].subresource, subresource) && slice_eq(d->parts[i].verb, verb))
            return;
    if (d->n == SKEW_DETAIL_MOST)
        return;
    d->parts[d->n].subresource = subresource;
    d->parts[d->n++].verb = verb;
}

static void add_all(struct skew_detail *d, const struct disco_resource *r)
{
    for (size_t i = 0; i < r->n_verbs; i++)
        add(d, SLICE_NONE, r->verbs[i]);
    for (const struct disco_subresource *sub = r->subresources; sub != NULL; sub = sub->next) {
        add(d, sub->name, SLICE_NONE);
        for (size_t i = 0; i < sub->n_verbs; i++)
            add(d, sub->name, sub->verbs[i]);
    }
}

bool skew_detail_differs(const struct served *s, const struct gvr *g, struct skew_detail *out)
{
    size_t n = served_n_peers(s);
    const struct disco_resource *first = NULL, *r;
    bool alike = true;

    out->n = 0;
    for (size_t i = 0; i <= n; i++) {
        r = resource_of(s, i, g);
        if (r == NULL || (first != NULL && r->hash == first->hash))
            continue;
        alike = first == NULL;
        first = alike ? r : first;
        add_all(out, r);
    }
    for (size_t i = 0; i <= n && !alike; i++) {
        r = resource_of(s, i, g);
        for (size_t k = 0; r != NULL && k < out->n; k++)
            if (lacks(r, out->parts[k].subresource, out->parts[k].verb))
                return true;
    }
    return false;
}

/* "delete", "/scale", "/status:patch". */
static void put_part(struct json_write *list, struct slice subresource, struct slice verb)
{
    struct buf text;

    buf_init(&text, PART_BYTES);
    if (subresource.n > 0) {
        buf_append_char(&text, '/');
        buf_append(&text, subresource);
    }
    buf_append_str(&text, subresource.n > 0 && verb.n > 0 ? ":" : "");
    buf_append(&text, verb);
    json_slice(list, NULL, buf_slice(&text));
    buf_free(&text);
}

void skew_detail_put(const struct served *s, const struct gvr *g, const struct skew_detail *d, size_t server,
                     struct json_write *list)
{
    const struct disco_resource *r = resource_of(s, server, g);

    for (size_t k = 0; r != NULL && k < d->n; k++)
        if (lacks(r, d->parts[k].subresource, d->parts[k].verb))
            put_part(list, d->parts[k].subresource, d->parts[k].verb);
}
