#include "admin/skew.h"

#include <stdio.h>
#include <stdlib.h>

#include "admin/page.h"
#include "back/back.h"
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

static void tell_row(const struct served *s, const struct gvr *g, enum skew_state *by, size_t n,
                     void (*fn)(const struct skew_row *row, void *arg), void *arg)
{
    bool served = false, absent = false;

    for (size_t i = 0; i < n; i++) {
        by[i] = state_of(disco_of(s, i), g);
        served = served || by[i] == SKEW_SERVED;
        absent = absent || by[i] == SKEW_ABSENT;
    }
    fn(&(struct skew_row){*g, by, n, served && absent}, arg);
}

bool skew_walk(const struct served *s, void (*fn)(const struct skew_row *row, void *arg), void *arg)
{
    struct collection c = {.seen = strmap_new()};
    size_t n = served_n_peers(s) + 1;
    enum skew_state *by = mem_array(n, sizeof(by[0]));

    c.failed = c.seen == NULL || by == NULL;
    for (size_t i = 0; i < n && !c.failed; i++)
        add_server(&c, disco_of(s, i));
    if (!c.failed && c.n > 0)
        qsort(c.rows, c.n, sizeof(c.rows[0]), by_name);
    for (size_t i = 0; i < c.n && !c.failed; i++)
        tell_row(s, &c.rows[i], by, n, fn, arg);
    if (c.seen != NULL)
        strmap_free(c.seen);
    mem_free(c.rows);
    mem_free(by);
    return !c.failed;
}

/* ---- the page ---- */

enum { PAGE_SERVERS = 64, PAGE_ROWS = 5000 };

struct matrix {
    struct page *page;
    const struct served *served;
    struct slice columns[PAGE_SERVERS + 1];
    size_t n_columns;
    size_t uneven, all;
    bool begun;
};

static void begin_matrix(struct matrix *m)
{
    m->columns[m->n_columns++] = SLICE_LIT("resource");
    m->columns[m->n_columns++] = SLICE_LIT("local");
    for (size_t i = 0; i < served_n_peers(m->served) && m->n_columns <= PAGE_SERVERS; i++)
        m->columns[m->n_columns++] = slice_str(served_peer_at(m->served, i)->id);
    page_table_slices(m->page, "Resources that are not served everywhere", m->columns, m->n_columns);
    m->begun = true;
}

static void put_matrix_row(const struct skew_row *row, void *arg)
{
    static const struct page_cell cells_of[] = {[SKEW_UNKNOWN] = {{"?", 1}, PAGE_FAINT},
                                                [SKEW_ABSENT] = {{"no", 2}, PAGE_WARNING},
                                                [SKEW_SERVED] = {{"yes", 3}, PAGE_GOOD}};
    struct matrix *m = arg;
    struct page_cell cells[PAGE_SERVERS + 1];
    char name[GVR_KEY_BYTES];
    const struct gvr *g = &row->gvr;

    m->all++;
    if (!row->uneven || ++m->uneven > PAGE_ROWS)
        return;
    if (!m->begun)
        begin_matrix(m);
    snprintf(name, sizeof(name), "%.*s%s%.*s %.*s", (int)g->group.n, g->group.p, g->group.n > 0 ? "/" : "",
             (int)g->version.n, g->version.p, (int)g->resource.n, g->resource.p);
    cells[0] = (struct page_cell){slice_str(name), PAGE_PLAIN};
    for (size_t i = 1; i < m->n_columns; i++)
        cells[i] = cells_of[row->by[i - 1]];
    page_row(m->page, cells, m->n_columns);
}

static struct page_cell peer_state(const struct served_peer *peer)
{
    if (peer->life != SERVED_LIVE)
        return (struct page_cell){SLICE_LIT("lapsed"), PAGE_WARNING};
    if (peer->origin != NULL && origin_ejected(peer->origin))
        return (struct page_cell){SLICE_LIT("live, does not answer"), PAGE_BAD};
    return (struct page_cell){SLICE_LIT("live"), PAGE_GOOD};
}

static void put_servers(struct page *p, const struct served *s, bool local_answers)
{
    static const char *const columns[] = {"server", "life", "discovery", "address", "known from", NULL};
    struct page_cell local[] = {
        {slice_str(served_local_id(s)), PAGE_PLAIN},
        {SLICE_LIT("local"), PAGE_PLAIN},
        {SLICE_LIT("known"), PAGE_GOOD},
        {SLICE_LIT("local"), PAGE_PLAIN},
        {SLICE_LIT(""), PAGE_PLAIN},
    };

    page_table(p, "API servers", columns);
    if (!local_answers)
        local[1] = (struct page_cell){SLICE_LIT("local, does not answer"), PAGE_BAD};
    if (served_local_disco(s) == NULL)
        local[2] = (struct page_cell){SLICE_LIT("not yet known"), PAGE_BAD};
    page_row(p, local, 5);
    for (size_t i = 0; i < served_n_peers(s); i++) {
        const struct served_peer *peer = served_peer_at(s, i);
        const struct page_cell cells[] = {
            {slice_str(peer->id), PAGE_PLAIN},
            peer_state(peer),
            {peer->discovery_known ? SLICE_LIT("known") : SLICE_LIT("not yet known"),
             peer->discovery_known ? PAGE_GOOD : PAGE_WARNING},
            {peer->origin != NULL ? slice_str(origin_address(peer->origin)) : SLICE_LIT("none"),
             peer->origin != NULL ? PAGE_GOOD : PAGE_BAD},
            {slice_str(peer->origin != NULL && peer->source != NULL ? peer->source : ""), PAGE_PLAIN},
        };

        page_row(p, cells, 5);
    }
}

void skew_page(struct page *p, const struct served *s, bool local_answers)
{
    struct matrix m = {.page = p, .served = s};
    char text[128];

    put_servers(p, s, local_answers);
    if (!skew_walk(s, put_matrix_row, &m)) {
        page_note(p, "Out of memory: the resources could not be compared.");
        return;
    }
    snprintf(text, sizeof(text), "%zu of %zu resources are served by some servers only%s.", m.uneven, m.all,
             m.uneven > PAGE_ROWS ? "; the first 5000 are shown" : "");
    page_note(p, text);
}
