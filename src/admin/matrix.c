/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/matrix.h"

#include "admin/names.h"
#include "kube/disco_same.h"

struct matrix {
    struct served *served;
    struct names *names;
    struct matrix_cell *cells;
};

struct matrix *matrix_new(struct served *s)
{
    struct matrix *m = mem_zalloc(sizeof(*m));

    if (m == NULL)
        return NULL;
    m->served = served_ref(s);
    m->names = names_new(s, false);
    m->cells = mem_array(matrix_servers(m), sizeof(m->cells[0]));
    if (m->names != NULL && m->cells != NULL)
        return m;
    matrix_free(m);
    return NULL;
}

void matrix_free(struct matrix *m)
{
    if (m == NULL)
        return;
    names_free(m->names);
    mem_free(m->cells);
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

bool matrix_gather(struct matrix *m, bool *failed)
{
    return names_step(m->names, failed);
}

size_t matrix_rows(const struct matrix *m)
{
    return names_count(m->names);
}

void matrix_name(const struct matrix *m, size_t i, struct slice *group, struct slice *version)
{
    *group = names_at(m->names, i)->group;
    *version = names_at(m->names, i)->version;
}

/* ---- the cells ---- */

/* The number of what is the same as an earlier cell's, or a new one. */
static unsigned char variant_of(struct matrix *m, size_t i, unsigned *n)
{
    for (size_t k = 0; k < i; k++)
        if (m->cells[k].version != NULL && disco_version_same(m->cells[k].version, m->cells[i].version))
            return m->cells[k].variant;
    if (*n < MATRIX_VARIANTS)
        (*n)++;
    return (unsigned char)(*n - 1);
}

static void take_cell(struct matrix *m, size_t i, const struct gvr *g, struct matrix_row *row)
{
    const struct disco *d = names_disco(m->served, i);
    const struct disco_doc *doc = disco_half(d, g->group.n == 0);
    struct matrix_cell *c = &m->cells[i];

    *c = (struct matrix_cell){.state = d == NULL ? MATRIX_UNKNOWN : MATRIX_ABSENT};
    c->version = doc == NULL ? NULL : disco_doc_version(doc, g->group, g->version);
    if (c->version == NULL)
        return;
    c->state = MATRIX_SERVED;
    c->variant = variant_of(m, i, &row->variants);
}

static void take_schemas(struct matrix *m, const struct gvr *g, struct matrix_row *row)
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
    const struct gvr *g = names_at(m->names, i);
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
