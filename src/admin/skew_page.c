/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/skew_page.h"

#include <stdio.h>

#include "admin/html.h"
#include "admin/matrix.h"
#include "admin/server_order.h"
#include "base/clock.h"
#include "kube/disco_same.h"

enum {
    SKEWED_BYTES = 16, /* of skewed-resources: off, newest */
    PIECE_US = 2000,
    PIECE_BYTES = 64 << 10,
    PAGE_ROWS = 2000,      /* that are not the same everywhere */
    TABLE_ROWS = 25,       /* of a table; those behind the first are closed, so that who uses Tab gets past them */
    PAGE_BYTES = 12 << 20, /* of them; then they are not opened any more */
    NAMED_SERVERS = 12,    /* in a list of servers; the others are counted */
    SHOWN_VARIANTS = 4,    /* of a group/version, in its table of resources */
    SHOWN_RESOURCES = 200, /* of each of them */
    SHOWN_WORDS = 16,      /* verbs, subresources */
    SHOWN_WORD_BYTES = 64,
    OPENED_BYTES = 256 << 10, /* of one group/version */
};

enum part { PART_GATHER, PART_UNEVEN, PART_SCHEMAS, PART_ALIKE, PART_OVER };

/* A row that has been looked at. */
enum row_kind { ROW_ALIKE, ROW_SCHEMAS, ROW_UNEVEN };

struct skew_page {
    struct matrix *matrix;
    size_t *order; /* of the servers */
    enum part part;
    size_t next;  /* row */
    size_t shown; /* rows that are not the same everywhere */
    size_t alike; /* rows that are */
    size_t bytes;
    unsigned char *kinds; /* enum row_kind, by row, as far as they have been looked at */
    char *summary;
    char skewed_resources[SKEWED_BYTES];
};

void skew_page_free(struct skew_page *p)
{
    if (p == NULL)
        return;
    matrix_free(p->matrix);
    mem_free(p->summary);
    mem_free(p->kinds);
    mem_free(p->order);
    mem_free(p);
}

struct skew_page *skew_page_new(struct served *s, const char *summary, const char *skewed_resources)
{
    struct skew_page *p = mem_zalloc(sizeof(*p));

    if (p == NULL)
        return NULL;
    (void)snprintf(p->skewed_resources, sizeof(p->skewed_resources), "%s", skewed_resources);
    p->summary = mem_strdup(summary);
    p->matrix = matrix_new(s);
    p->order = server_order(s);
    if (p->summary != NULL && p->matrix != NULL && p->order != NULL)
        return p;
    skew_page_free(p);
    return NULL;
}

/* ---- what differs in one group/version ---- */

static void put_gv(const struct matrix_row *r, struct buf *out)
{
    html_raw(out, "<bdi>");
    html_text(out, r->group);
    html_raw(out, r->group.n > 0 ? "/" : "");
    html_text(out, r->version);
    html_raw(out, "</bdi>");
}

/* The servers for which `which` holds, the first by name. Nothing if there are none. */
static void put_named(const struct skew_page *p, const struct matrix_row *r, const char *what,
                      bool (*which)(const struct matrix_cell *c, unsigned arg), unsigned arg, struct buf *out)
{
    size_t n = 0;

    for (size_t i = 0; i < matrix_servers(p->matrix); i++) {
        if (!which(&r->cells[p->order[i]], arg))
            continue;
        if (n == 0)
            buf_printf(out, "<li>%s: ", what);
        if (n < NAMED_SERVERS) {
            html_raw(out, n > 0 ? ", " : "");
            html_name(out, matrix_server(p->matrix, p->order[i]));
        }
        n++;
    }
    if (n > NAMED_SERVERS)
        buf_printf(out, " and %zu more", n - NAMED_SERVERS);
    html_raw(out, n > 0 ? "</li>\n" : "");
}

static bool is_variant(const struct matrix_cell *c, unsigned variant)
{
    return c->state == MATRIX_SERVED && c->variant == variant;
}

static bool has_schema(const struct matrix_cell *c, unsigned schema)
{
    return c->has_schema && c->schema == schema;
}

static bool has_state(const struct matrix_cell *c, unsigned state)
{
    return c->state == (enum matrix_state)state;
}

static void put_sides(const struct skew_page *p, const struct matrix_row *r, struct buf *out)
{
    char what[48];

    html_raw(out, "<ul>\n");
    for (unsigned v = 0; v < r->variants; v++) {
        (void)snprintf(what, sizeof(what), r->variants == 1 ? "served by" : "%c is served by", 'A' + (int)v);
        put_named(p, r, what, is_variant, v, out);
    }
    put_named(p, r, "not served by", has_state, MATRIX_ABSENT, out);
    put_named(p, r, "not known of", has_state, MATRIX_UNKNOWN, out);
    for (unsigned k = 0; r->schemas > 1 && k < r->schemas; k++) {
        (void)snprintf(what, sizeof(what), "schema %u is that of", k + 1);
        put_named(p, r, what, has_schema, k, out);
    }
    html_raw(out, "</ul>\n");
}

/* ---- its resources ---- */

struct sides {
    const struct disco_version *at[SHOWN_VARIANTS];
    unsigned n;
};

static void take_sides(const struct skew_page *p, const struct matrix_row *r, struct sides *s)
{
    s->n = r->variants < SHOWN_VARIANTS ? r->variants : SHOWN_VARIANTS;
    for (unsigned v = 0; v < s->n; v++)
        for (size_t i = 0; s->at[v] == NULL && i < matrix_servers(p->matrix); i++)
            if (is_variant(&r->cells[i], v))
                s->at[v] = r->cells[i].version;
}

static const struct disco_resource *find(const struct disco_version *v, const struct disco_resource *r)
{
    const struct disco_resource *x = v->resources;

    for (unsigned n = 0; x != NULL && n < SHOWN_RESOURCES; x = x->next, n++)
        if (slice_eq(x->name, r->name))
            return x;
    return NULL;
}

static void put_word(struct slice word, struct buf *out)
{
    html_text(out, slice_of(word.p, word.n < SHOWN_WORD_BYTES ? word.n : SHOWN_WORD_BYTES));
}

static void put_words(const struct slice *words, size_t n, struct buf *out)
{
    for (size_t i = 0; i < n && i < SHOWN_WORDS; i++) {
        html_raw(out, i > 0 ? " " : "");
        put_word(words[i], out);
    }
}

static void put_resource(const struct disco_resource *r, struct buf *out)
{
    unsigned n = 0;

    if (r == NULL) {
        html_raw(out, "<td class=\"warning\">no</td>");
        return;
    }
    html_raw(out, "<td>");
    put_words(r->verbs, r->n_verbs, out);
    for (const struct disco_subresource *s = r->subresources; s != NULL && n < SHOWN_WORDS; s = s->next, n++) {
        html_raw(out, "<br>/");
        put_word(s->name, out);
        html_raw(out, ": ");
        put_words(s->verbs, s->n_verbs, out);
    }
    html_raw(out, "</td>");
}

/* True unless all sides have it alike. */
static bool differs(const struct sides *s, const struct disco_resource *r)
{
    for (unsigned v = 0; v < s->n; v++) {
        const struct disco_resource *other = find(s->at[v], r);

        if (other == NULL || !disco_resource_same(other, r))
            return true;
    }
    return false;
}

static void put_resource_row(const struct sides *s, const struct disco_resource *r, struct buf *out)
{
    html_raw(out, "<tr><th scope=\"row\"><bdi>");
    html_text(out, r->name);
    html_raw(out, "</bdi></th>");
    for (unsigned v = 0; v < s->n; v++)
        put_resource(find(s->at[v], r), out);
    html_raw(out, "</tr>\n");
}

static bool is_first(const struct sides *s, unsigned side, const struct disco_resource *r)
{
    for (unsigned v = 0; v < side; v++)
        if (find(s->at[v], r) != NULL)
            return false;
    return true;
}

static void put_resources(const struct sides *s, struct buf *out)
{
    size_t before = buf_len(out);

    html_raw(out, "<table>\n<caption>Resources that differ: their verbs, and their subresources with theirs</caption>\n"
                  "<thead><tr><th scope=\"col\">Resource</th>");
    for (unsigned v = 0; v < s->n; v++)
        buf_printf(out, "<th scope=\"col\">%c</th>", 'A' + (int)v);
    html_raw(out, "</tr></thead>\n<tbody>\n");
    for (unsigned v = 0; v < s->n; v++) {
        const struct disco_resource *r = s->at[v]->resources;

        for (unsigned n = 0; r != NULL && n < SHOWN_RESOURCES && buf_len(out) - before < OPENED_BYTES; r = r->next, n++)
            if (is_first(s, v, r) && differs(s, r))
                put_resource_row(s, r, out);
    }
    html_raw(out, "</tbody>\n</table>\n");
}

static void put_opened(const struct skew_page *p, const struct matrix_row *r, struct buf *out)
{
    struct sides s = {.n = 0};

    buf_printf(out, "<tr class=\"more\"><td colspan=\"%zu\"><details><summary>What differs in ",
               matrix_servers(p->matrix) + 1);
    put_gv(r, out);
    html_raw(out, "</summary>\n");
    put_sides(p, r, out);
    take_sides(p, r, &s);
    if (s.n > 1)
        put_resources(&s, out);
    if (r->variants > SHOWN_VARIANTS)
        buf_printf(out, "<p>Only the first %d of %u are compared here.</p>\n", SHOWN_VARIANTS, r->variants);
    html_raw(out, "</details></td></tr>\n");
}

/* ---- the matrix ---- */

static void put_cell(const struct matrix_row *r, const struct matrix_cell *c, struct buf *out)
{
    if (c->state == MATRIX_UNKNOWN) {
        html_raw(out, "<td class=\"dim\">?</td>");
        return;
    }
    if (c->state == MATRIX_ABSENT) {
        html_raw(out, "<td class=\"warning\">no</td>");
        return;
    }
    html_raw(out, c->variant == 0 && c->schema == 0 ? "<td class=\"good\">" : "<td>");
    if (r->variants > 1)
        buf_append_char(out, (char)('A' + c->variant));
    else
        html_raw(out, "yes");
    if (r->schemas > 1 && c->has_schema)
        buf_printf(out, " s%u", c->schema + 1u);
    html_raw(out, "</td>");
}

static void end_table(const struct skew_page *p, struct buf *out)
{
    html_raw(out, "</tbody>\n</table>\n</div>\n");
    if (p->shown > TABLE_ROWS)
        html_raw(out, "</details>\n");
}

static void begin_table(const struct skew_page *p, const struct matrix_row *first, struct buf *out)
{
    if (p->shown > 1) {
        buf_printf(out, "<details><summary>%zu and on, from ", p->shown);
        put_gv(first, out);
        html_raw(out, "</summary>\n");
    }
    html_raw(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Skew matrix\">\n"
                  "<table class=\"matrix\">\n<caption>Group/versions that are not the same on all servers, or whose "
                  "schemas differ: yes or no; A, B: "
                  "described differently; s1, s2: with different schemas; ?: not known</caption>\n<thead><tr>"
                  "<th scope=\"col\">Group/version</th>");
    for (size_t i = 0; i < matrix_servers(p->matrix); i++) {
        html_raw(out, "<th scope=\"col\">");
        html_name(out, matrix_server(p->matrix, p->order[i]));
        html_raw(out, "</th>");
    }
    html_raw(out, "</tr></thead>\n<tbody>\n");
}

static void put_row(struct skew_page *p, const struct matrix_row *r, struct buf *out)
{
    size_t before = buf_len(out);

    if (p->shown > 0 && p->shown % TABLE_ROWS == 0 && p->shown <= PAGE_ROWS)
        end_table(p, out);
    if (++p->shown > PAGE_ROWS)
        return;
    if (p->shown % TABLE_ROWS == 1)
        begin_table(p, r, out);
    html_raw(out, "<tr><th scope=\"row\">");
    put_gv(r, out);
    html_raw(out, "</th>");
    for (size_t i = 0; i < matrix_servers(p->matrix); i++)
        put_cell(r, &r->cells[p->order[i]], out);
    html_raw(out, "</tr>\n");
    if (p->bytes < PAGE_BYTES)
        put_opened(p, r, out);
    p->bytes += buf_len(out) - before;
}

static void end_matrix(const struct skew_page *p, struct buf *out)
{
    /* That of PAGE_ROWS has been closed where there are more. */
    if (p->shown > 0 && p->shown <= PAGE_ROWS)
        end_table(p, out);
    if (p->shown > PAGE_ROWS)
        buf_printf(out, "<p>The first %d of %zu are shown; mvproxyctl skew has all.</p>\n", PAGE_ROWS, p->shown);
    else if (p->bytes >= PAGE_BYTES)
        html_raw(out, "<p>There are too many to say of all what differs; mvproxyctl skew does.</p>\n");
    if (p->alike > 0)
        buf_printf(out,
                   "<details><summary>%zu group/versions are the same, with their schemas, on all servers that were "
                   "read</summary>\n<ul>\n",
                   p->alike);
}

/* ---- piece by piece ---- */

static void gather(struct skew_page *p, struct buf *out)
{
    bool failed;

    if (!matrix_gather(p->matrix, &failed) && !failed)
        return;
    html_raw(out,
             "<section id=\"skew\" aria-labelledby=\"skew-h\">\n<h2 id=\"skew-h\">Skew of versions</h2>\n<p>Skew: ");
    html_str(out, p->summary);
    html_raw(out, ". skewed-resources is ");
    html_str(out, p->skewed_resources);
    html_raw(out, ".</p>\n<p><a href=\"#end\">Go past the skew</a></p>\n");
    p->kinds = failed ? NULL : mem_array(matrix_rows(p->matrix) + 1, sizeof(p->kinds[0]));
    p->part = PART_UNEVEN;
    if (p->kinds != NULL)
        return;
    html_raw(out, "<p>Out of memory: the servers could not be compared.</p>\n</section>\n");
    p->part = PART_OVER;
}

static void step_uneven(struct skew_page *p, struct buf *out)
{
    struct matrix_row r;

    if (p->next == matrix_rows(p->matrix)) {
        p->part = PART_SCHEMAS;
        p->next = 0;
        return;
    }
    matrix_row(p->matrix, p->next, &r);
    p->kinds[p->next++] = r.uneven ? ROW_UNEVEN : r.schemas > 1 ? ROW_SCHEMAS : ROW_ALIKE;
    if (r.uneven)
        put_row(p, &r, out);
    else if (r.schemas <= 1)
        p->alike++;
}

/* What differs only in its schemas comes behind: between two releases that is nearly everything. */
static void step_schemas(struct skew_page *p, struct buf *out)
{
    struct matrix_row r;

    if (p->next == matrix_rows(p->matrix)) {
        end_matrix(p, out);
        p->part = PART_ALIKE;
        p->next = 0;
        return;
    }
    if (p->kinds[p->next] == ROW_SCHEMAS) {
        matrix_row(p->matrix, p->next, &r);
        put_row(p, &r, out);
    }
    p->next++;
}

static void step_alike(struct skew_page *p, struct buf *out)
{
    struct matrix_row r;

    if (p->next == matrix_rows(p->matrix)) {
        html_raw(out, p->alike > 0 ? "</ul>\n</details>\n</section>\n" : "</section>\n");
        p->part = PART_OVER;
        return;
    }
    if (p->kinds[p->next] == ROW_ALIKE) {
        matrix_name(p->matrix, p->next, &r.group, &r.version);
        html_raw(out, "<li>");
        put_gv(&r, out);
        html_raw(out, "</li>\n");
    }
    p->next++;
}

bool skew_page_more(struct skew_page *p, struct buf *out)
{
    static void (*const steps[])(struct skew_page * p, struct buf * out) = {
        [PART_GATHER] = gather, [PART_UNEVEN] = step_uneven, [PART_SCHEMAS] = step_schemas, [PART_ALIKE] = step_alike};
    uint64_t end = clock_us() + PIECE_US;
    size_t before = buf_len(out);

    while (p->part != PART_OVER && clock_us() < end && buf_len(out) - before < PIECE_BYTES)
        steps[p->part](p, out);
    return p->part != PART_OVER;
}
