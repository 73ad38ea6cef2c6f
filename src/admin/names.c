/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/names.h"

#include "base/strmap.h"

enum { FIRST_ROOM = 256 };

/* One server. Most say the very same as one before, and are not looked into again. */
struct side {
    uint64_t hash;
    size_t alike;
};

struct names {
    const struct served *served;
    bool resources;
    struct side *sides;
    struct strmap *seen;
    size_t server; /* whose turn it is */
    unsigned half;
    const struct disco_group *group; /* the next of that half; NULL: the half has not begun */
    bool gathered;
    struct gvr *rows, *sorted; /* sorted: where runs are merged into */
    size_t n, cap;
    size_t width, at; /* rows come in sorted runs of `width`; those before `at` have been merged in pairs */
};

const struct disco *names_disco(const struct served *s, size_t server)
{
    return server == 0 ? served_local_disco(s) : served_peer_at(s, server - 1)->disco;
}

static uint64_t hash_of(const struct disco *d)
{
    return disco_doc_hash(disco_apis(d)) * 31 + disco_doc_hash(disco_core(d));
}

static void take_sides(struct names *n)
{
    for (size_t i = 0; i <= served_n_peers(n->served); i++) {
        const struct disco *d = names_disco(n->served, i);

        n->sides[i].hash = d == NULL ? 0 : hash_of(d);
        while (n->sides[i].alike < i && (d == NULL || names_disco(n->served, n->sides[i].alike) == NULL ||
                                         n->sides[n->sides[i].alike].hash != n->sides[i].hash))
            n->sides[i].alike++;
    }
}

struct names *names_new(const struct served *s, bool resources)
{
    struct names *n = mem_zalloc(sizeof(*n));

    if (n == NULL)
        return NULL;
    n->served = s;
    n->resources = resources;
    n->width = 1;
    n->seen = strmap_new();
    n->sides = mem_array(served_n_peers(s) + 1, sizeof(n->sides[0]));
    if (n->seen == NULL || n->sides == NULL) {
        names_free(n);
        return NULL;
    }
    memset(n->sides, 0, (served_n_peers(s) + 1) * sizeof(n->sides[0]));
    take_sides(n);
    return n;
}

void names_free(struct names *n)
{
    if (n == NULL)
        return;
    if (n->seen != NULL)
        strmap_free(n->seen);
    mem_free(n->sides);
    mem_free(n->rows);
    mem_free(n->sorted);
    mem_free(n);
}

/* ---- each once ---- */

static bool room(struct names *n)
{
    size_t cap = n->cap == 0 ? FIRST_ROOM : 2 * n->cap;
    struct gvr *rows;

    if (n->n < n->cap)
        return true;
    rows = mem_realloc(n->rows, cap * sizeof(rows[0]));
    if (rows == NULL)
        return false;
    n->rows = rows;
    n->cap = cap;
    return true;
}

static bool add(struct names *n, const struct gvr *g)
{
    char text[GVR_KEY_BYTES];
    struct slice key = gvr_key(g, text);

    if (key.p == NULL || strmap_get(n->seen, key) != NULL)
        return true; /* no name is so long */
    if (!room(n) || !strmap_put(n->seen, key, n, NULL))
        return false;
    n->rows[n->n++] = *g;
    return true;
}

static bool add_group(struct names *n, const struct disco_group *g)
{
    for (const struct disco_version *v = g->versions; v != NULL; v = v->next) {
        if (!n->resources && !add(n, &(struct gvr){g->name, v->name, slice_of("", 0)}))
            return false;
        for (const struct disco_resource *r = n->resources ? v->resources : NULL; r != NULL; r = r->next)
            if (!add(n, &(struct gvr){g->name, v->name, r->name}))
                return false;
    }
    return true;
}

/* The half is over; whose turn is it? Again to the first group of the next one. */
static void next_half(struct names *n)
{
    const struct disco_doc *doc;

    n->group = NULL;
    while (n->group == NULL && n->server <= served_n_peers(n->served)) {
        doc =
            n->sides[n->server].alike < n->server ? NULL : disco_half(names_disco(n->served, n->server), n->half == 0);
        n->group = doc == NULL ? NULL : disco_doc_groups(doc);
        n->server += n->half;
        n->half = !n->half;
    }
    n->gathered = n->group == NULL;
}

static bool gather(struct names *n)
{
    if (n->group != NULL) {
        if (!add_group(n, n->group))
            return false;
        n->group = n->group->next;
    }
    if (n->group == NULL)
        next_half(n);
    return true;
}

/* ---- in order ---- */

static int order(const struct gvr *x, const struct gvr *y)
{
    int by = slice_cmp(x->group, y->group);

    if (by == 0)
        by = slice_cmp(x->version, y->version);
    return by == 0 ? slice_cmp(x->resource, y->resource) : by;
}

/* Merges two neighbouring runs. */
static void merge_pair(struct names *n)
{
    size_t i = n->at, end = n->n, middle = n->n - i < n->width ? end : i + n->width, k = middle;

    if (n->n - n->at > 2 * n->width)
        end = n->at + 2 * n->width;
    while (n->at < end) {
        bool first = k == end || (i < middle && order(&n->rows[i], &n->rows[k]) <= 0);

        n->sorted[n->at++] = n->rows[first ? i++ : k++];
    }
}

static bool sort(struct names *n, bool *failed)
{
    struct gvr *rows = n->rows;

    if (n->width >= n->n)
        return true;
    if (n->sorted == NULL)
        n->sorted = mem_array(n->cap, sizeof(n->sorted[0]));
    *failed = n->sorted == NULL;
    if (*failed)
        return false;
    merge_pair(n);
    if (n->at < n->n)
        return false;
    n->rows = n->sorted;
    n->sorted = rows;
    n->at = 0;
    n->width *= 2;
    return n->width >= n->n;
}

bool names_step(struct names *n, bool *failed)
{
    *failed = false;
    if (n->gathered)
        return sort(n, failed);
    *failed = !gather(n);
    return false;
}

size_t names_count(const struct names *n)
{
    return n->n;
}

const struct gvr *names_at(const struct names *n, size_t i)
{
    return &n->rows[i];
}

size_t names_alike(const struct names *n, size_t server)
{
    return n->sides[server].alike;
}
