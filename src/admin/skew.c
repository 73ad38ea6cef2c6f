/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/skew.h"

#include <stdlib.h>

#include "base/strmap.h"

/* ---- the union of what everybody serves ---- */

struct collection {
    struct strmap *seen;
    struct gvr *rows;
    size_t n, cap;
    bool failed;
};

static void add_row(struct collection *c, const struct gvr *g)
{
    char text[GVR_KEY_BYTES];
    struct slice key = gvr_key(g, text);

    if (c->failed || key.p == NULL || strmap_get(c->seen, key) != NULL)
        return;
    if (c->n == c->cap) {
        size_t cap = c->cap == 0 ? 256 : 2 * c->cap;
        struct gvr *rows = mem_realloc(c->rows, cap * sizeof(rows[0]));

        if (rows == NULL) {
            c->failed = true;
            return;
        }
        c->rows = rows;
        c->cap = cap;
    }
    if (!strmap_put(c->seen, key, c, NULL))
        c->failed = true;
    else
        c->rows[c->n++] = *g;
}

static void add_doc(struct collection *c, const struct disco_doc *doc)
{
    if (doc == NULL)
        return;
    for (const struct disco_group *g = disco_doc_groups(doc); g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
            for (const struct disco_resource *r = v->resources; r != NULL; r = r->next)
                add_row(c, &(struct gvr){g->name, v->name, r->name});
}

static void add_server(struct collection *c, const struct disco *d)
{
    if (d == NULL)
        return;
    add_doc(c, disco_core(d));
    add_doc(c, disco_apis(d));
}

static int by_name(const void *a, const void *b)
{
    const struct gvr *x = a, *y = b;
    int order = slice_cmp(x->group, y->group);

    if (order == 0)
        order = slice_cmp(x->version, y->version);
    return order == 0 ? slice_cmp(x->resource, y->resource) : order;
}

static const struct disco *disco_of(const struct served *s, size_t server)
{
    return server == 0 ? served_local_disco(s) : served_peer_at(s, server - 1)->disco;
}

/* A resource that exists only through its subresources is there too. */
static enum skew_state state_of(const struct disco *d, const struct gvr *g)
{
    const struct disco_doc *doc;

    if (d == NULL)
        return SKEW_UNKNOWN;
    doc = g->group.n == 0 ? disco_core(d) : disco_apis(d);
    return doc != NULL && disco_doc_resource(doc, g) != NULL ? SKEW_SERVED : SKEW_ABSENT;
}

/* One server. Most say the very same as one before, and are not looked into again. */
struct side {
    uint64_t hash;
    size_t alike; /* the first server that says the same; itself */
};

static void take_sides(const struct served *s, struct side *sides, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct disco *d = disco_of(s, i);

        if (d != NULL)
            sides[i].hash =
                disco_doc_hash(disco_apis(d)) * 31 + (disco_core(d) == NULL ? 0 : disco_doc_hash(disco_core(d)));
        sides[i].alike = 0;
        while (sides[i].alike < i && (d == NULL || sides[sides[i].alike].hash != sides[i].hash))
            sides[i].alike++;
    }
}

static void tell_row(const struct served *s, const struct gvr *g, const struct side *sides, struct skew_row *row,
                     enum skew_state *by)
{
    bool served = false, absent = false;

    for (size_t i = 0; i < row->n; i++) {
        by[i] = sides[i].alike < i ? by[sides[i].alike] : state_of(disco_of(s, i), g);
        served = served || by[i] == SKEW_SERVED;
        absent = absent || by[i] == SKEW_ABSENT;
    }
    row->gvr = *g;
    row->uneven = served && absent;
}

bool skew_walk(const struct served *s, void (*fn)(const struct skew_row *row, void *arg), void *arg)
{
    struct collection c = {.seen = strmap_new()};
    size_t n = served_n_peers(s) + 1;
    enum skew_state *by = mem_array(n, sizeof(by[0]));
    struct side *sides = mem_array(n, sizeof(sides[0]));
    struct skew_row row = {.by = by, .n = n};

    c.failed = c.seen == NULL || by == NULL || sides == NULL;
    if (!c.failed)
        take_sides(s, sides, n);
    for (size_t i = 0; i < n && !c.failed; i++)
        if (sides[i].alike == i)
            add_server(&c, disco_of(s, i));
    if (!c.failed && c.n > 0)
        qsort(c.rows, c.n, sizeof(c.rows[0]), by_name);
    for (size_t i = 0; i < c.n && !c.failed; i++) {
        tell_row(s, &c.rows[i], sides, &row, by);
        fn(&row, arg);
    }
    if (c.seen != NULL)
        strmap_free(c.seen);
    mem_free(c.rows);
    mem_free(by);
    mem_free(sides);
    return !c.failed;
}
