/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/matrix.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/strmap.h"

enum { KEY_BYTES = 600 };

struct gv {
    struct slice group, version; /* of some server's document */
};

struct matrix {
    struct served *served;
    struct strmap *seen;
    struct gv *rows;
    size_t n, cap;
    size_t gathered; /* servers */
    struct matrix_cell *cells;
    bool sorted;
};

struct matrix *matrix_new(struct served *s)
{
    struct matrix *m = mem_zalloc(sizeof(*m));

    if (m == NULL)
        return NULL;
    m->served = served_ref(s);
    m->seen = strmap_new();
    m->cells = mem_array(matrix_servers(m), sizeof(m->cells[0]));
    if (m->seen != NULL && m->cells != NULL)
        return m;
    matrix_free(m);
    return NULL;
}

void matrix_free(struct matrix *m)
{
    if (m == NULL)
        return;
    if (m->seen != NULL)
        strmap_free(m->seen);
    mem_free(m->cells);
    mem_free(m->rows);
    served_unref(m->served);
    mem_free(m);
}

size_t matrix_servers(const struct matrix *m)
{
    return served_n_peers(m->served) + 1;
}

const char *matrix_server(const struct matrix *m, size_t i)
{
    return i == 0 ? served_local_host(m->served) : served_peer_at(m->served, i - 1)->host;
}

static const struct disco *disco_of(const struct matrix *m, size_t i)
{
    return i == 0 ? served_local_disco(m->served) : served_peer_at(m->served, i - 1)->disco;
}

/* ---- the rows ---- */

static bool room(struct matrix *m)
{
    size_t cap = m->cap == 0 ? 256 : 2 * m->cap;
    struct gv *rows;

    if (m->n < m->cap)
        return true;
    rows = mem_realloc(m->rows, cap * sizeof(rows[0]));
    if (rows == NULL)
        return false;
    m->rows = rows;
    m->cap = cap;
    return true;
}

static bool add(struct matrix *m, struct slice group, struct slice version)
{
    char text[KEY_BYTES];
    int n = snprintf(text, sizeof(text), "%.*s/%.*s", (int)group.n, group.n == 0 ? "" : group.p, (int)version.n,
                     version.n == 0 ? "" : version.p);
    struct slice key = slice_of(text, (size_t)n);

    if (n <= 0 || (size_t)n >= sizeof(text) || strmap_get(m->seen, key) != NULL)
        return true; /* no name is so long */
    if (!room(m) || !strmap_put(m->seen, key, m, NULL))
        return false;
    m->rows[m->n++] = (struct gv){group, version};
    return true;
}

static bool add_doc(struct matrix *m, const struct disco_doc *d)
{
    for (const struct disco_group *g = d == NULL ? NULL : disco_doc_groups(d); g != NULL; g = g->next)
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
            if (!add(m, g->name, v->name))
                return false;
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct gv *x = a, *y = b;
    int order = slice_cmp(x->group, y->group);

    return order == 0 ? slice_cmp(x->version, y->version) : order;
}

bool matrix_gather(struct matrix *m, bool *failed)
{
    const struct disco *d;

    *failed = false;
    if (m->gathered < matrix_servers(m)) {
        d = disco_of(m, m->gathered++);
        *failed = d != NULL && (!add_doc(m, disco_core(d)) || !add_doc(m, disco_apis(d)));
        return false;
    }
    if (!m->sorted && m->n > 0)
        qsort(m->rows, m->n, sizeof(m->rows[0]), by_name);
    m->sorted = true;
    return true;
}

size_t matrix_rows(const struct matrix *m)
{
    return m->n;
}

void matrix_name(const struct matrix *m, size_t i, struct slice *group, struct slice *version)
{
    *group = m->rows[i].group;
    *version = m->rows[i].version;
}

/* ---- the cells ---- */

/* The number of what is the same as an earlier cell's, or a new one. */
static unsigned char variant_of(struct matrix *m, size_t i, unsigned *n)
{
    const uint64_t hash = m->cells[i].version->hash;

    for (size_t k = 0; k < i; k++)
        if (m->cells[k].version != NULL && m->cells[k].version->hash == hash)
            return m->cells[k].variant;
    if (*n < MATRIX_VARIANTS)
        (*n)++;
    return (unsigned char)(*n - 1);
}

static void take_cell(struct matrix *m, size_t i, const struct gv *g, struct matrix_row *row)
{
    const struct disco *d = disco_of(m, i);
    const struct disco_doc *doc = d == NULL ? NULL : g->group.n == 0 ? disco_core(d) : disco_apis(d);
    struct matrix_cell *c = &m->cells[i];

    *c = (struct matrix_cell){.state = d == NULL ? MATRIX_UNKNOWN : MATRIX_ABSENT};
    c->version = doc == NULL ? NULL : disco_doc_version(doc, g->group, g->version);
    if (c->version == NULL)
        return;
    c->state = MATRIX_SERVED;
    c->variant = variant_of(m, i, &row->variants);
}

static void take_schemas(struct matrix *m, const struct gv *g, struct matrix_row *row)
{
    struct slice kinds[MATRIX_VARIANTS] = {{NULL, 0}};
    unsigned n = 0;

    for (size_t i = 0; i < matrix_servers(m); i++) {
        struct slice hash =
            m->cells[i].state == MATRIX_SERVED ? served_schema(m->served, i, g->group, g->version) : SLICE_NONE;
        unsigned k = 0;

        if (hash.n == 0)
            continue;
        while (k < n && !slice_eq(kinds[k], hash))
            k++;
        if (k == n && n < MATRIX_VARIANTS)
            kinds[n++] = hash;
        m->cells[i].has_schema = true;
        m->cells[i].schema = (unsigned char)(k < MATRIX_VARIANTS ? k : MATRIX_VARIANTS - 1);
    }
    row->schemas = n;
}

void matrix_row(struct matrix *m, size_t i, struct matrix_row *out)
{
    const struct gv *g = &m->rows[i];
    bool absent = false;

    *out = (struct matrix_row){.group = g->group, .version = g->version, .cells = m->cells};
    for (size_t k = 0; k < matrix_servers(m); k++) {
        take_cell(m, k, g, out);
        absent = absent || m->cells[k].state == MATRIX_ABSENT;
    }
    /* A schema of a CRD or an aggregated API may differ for a moment, and means nothing for who serves it. */
    if (served_skewed(m->served, g->group, g->version))
        take_schemas(m, g, out);
    out->uneven = absent || out->variants > 1;
}
