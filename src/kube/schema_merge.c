/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema_merge.h"

#include "kube/gvr.h"

enum { ENTRY_COST = 128 /* what it takes to look at an entry, in bytes that are written */ };

/* RFC 3986, 2.3: means the same wherever it stands in a URL. */
static bool is_plain(struct slice text)
{
    return slice_is_of(text, "-._~");
}

static bool is_plain_path(struct slice path)
{
    struct slice segment;

    if (path.n == 0)
        return false;
    while (slice_split(&path, '/', &segment))
        if (!is_plain(segment) || slice_eq(segment, SLICE_LIT(".")) || slice_eq(segment, SLICE_LIT("..")))
            return false;
    return true;
}

static bool may_come_from(const struct schema_merge *m, const struct schema_index *other, const struct schema_entry *e)
{
    struct slice group, version;

    if ((!is_plain(e->hash) && other != m->unhashed) || !is_plain_path(e->path))
        return false;
    if (!schema_path_names(e->path, &group, &version))
        return true;
    return (group.n == 0 || gvr_is_group(group)) && gvr_is_version(version) && !m->excluded(m->arg, group, version);
}

static bool is_outdone(const struct schema_merge *m, const struct schema_index *other, struct slice path)
{
    struct slice group, version;

    return m->outdone != NULL && schema_path_names(path, &group, &version) && m->outdone(m->arg, other, group, version);
}

/* The next entry of `other` from *i on that the base lacks, or has less in; both are sorted, *b is the place in the
 * base. */
static const struct schema_entry *next_lacking(const struct schema_merge *m, const struct schema_index *other,
                                               size_t *i, size_t *b)
{
    while (*i < schema_index_count(other)) {
        const struct schema_entry *e = schema_index_at(other, (*i)++);
        int d = 1;

        while (*b < schema_index_count(m->base) && (d = slice_cmp(schema_index_at(m->base, *b)->path, e->path)) < 0)
            (*b)++;
        if (*b < schema_index_count(m->base) && d == 0 && !is_outdone(m, other, e->path))
            continue;
        if (may_come_from(m, other, e))
            return e;
    }
    return NULL;
}

bool schema_merge_adds(const struct schema_merge *m, size_t most)
{
    for (size_t o = 0; o < m->n_others; o++) {
        const struct schema_index *other = m->others[o];
        size_t n = schema_index_count(other) + schema_index_count(m->base), i = 0, b = 0;

        if (schema_index_digest(other) == schema_index_digest(m->base))
            continue;
        if (n > most || next_lacking(m, other, &i, &b) != NULL)
            return true;
        most -= n;
    }
    return false;
}

static void put_key(struct buf *out, struct slice path, bool more)
{
    if (more)
        buf_append_char(out, ',');
    buf_append_quoted(out, "", path);
    buf_append_str(out, ":{\"serverRelativeURL\":\"");
}

/* Its URL is ours: a peer does not say where clients go. */
static void put_added(struct buf *out, const struct schema_entry *e, bool more)
{
    put_key(out, e->path, more);
    buf_append_str(out, "/openapi/v3/");
    buf_append(out, e->path);
    if (e->hash.n > 0)
        buf_append_str(out, "?hash=");
    buf_append(out, e->hash);
    buf_append_str(out, "\"}");
}

static void put_own(struct buf *out, const struct schema_entry *e, bool more)
{
    put_key(out, e->path, more);
    buf_append_json(out, e->url);
    buf_append_str(out, "\"}");
}

/* ---- writing ---- */

struct merger {
    const struct schema_merge *m;
    size_t base;  /* the next of its entries */
    size_t *next; /* of each of the others' */
    bool more;    /* not the first one that is written */
};

static const struct schema_entry *entry_at(const struct schema_index *x, size_t i)
{
    return i < schema_index_count(x) ? schema_index_at(x, i) : NULL;
}

/* The least path that is still to come. NULL: there is none. */
static const struct schema_entry *least(const struct merger *g)
{
    const struct schema_entry *found = entry_at(g->m->base, g->base);

    for (size_t o = 0; o < g->m->n_others; o++) {
        const struct schema_entry *e = entry_at(g->m->others[o], g->next[o]);

        if (e != NULL && (found == NULL || slice_cmp(e->path, found->path) < 0))
            found = e;
    }
    return found;
}

/* All are passed by whose path this is. Returns what is written for it; *own: it is the base's. NULL: nothing is. */
static const struct schema_entry *choose(struct merger *g, struct slice path, bool *own)
{
    const struct schema_entry *mine = entry_at(g->m->base, g->base), *found = NULL;

    if (mine != NULL && !slice_eq(mine->path, path))
        mine = NULL;
    g->base += mine != NULL;
    for (size_t o = 0; o < g->m->n_others; o++) {
        const struct schema_entry *e = entry_at(g->m->others[o], g->next[o]);

        if (e == NULL || !slice_eq(e->path, path))
            continue;
        g->next[o]++;
        if (found == NULL && (mine == NULL || is_outdone(g->m, g->m->others[o], path)) &&
            may_come_from(g->m, g->m->others[o], e))
            found = e;
    }
    *own = found == NULL;
    return found == NULL ? mine : found;
}

/* False: nothing is left. */
static bool merge_one(struct merger *g, struct buf *out)
{
    const struct schema_entry *e = least(g);
    bool own;

    if (e == NULL)
        return false;
    e = choose(g, e->path, &own);
    if (e == NULL)
        return true;
    if (own)
        put_own(out, e, g->more);
    else
        put_added(out, e, g->more);
    g->more = true;
    return true;
}

static bool merge_all(struct merger *g, struct buf *out, struct fiber *f)
{
    size_t before;

    /* Whoever says the very same adds nothing. */
    for (size_t o = 0; o < g->m->n_others; o++)
        if (schema_index_digest(g->m->others[o]) == schema_index_digest(g->m->base))
            g->next[o] = schema_index_count(g->m->others[o]);
    buf_append_str(out, "{\"paths\":{");
    for (before = buf_len(out); merge_one(g, out); before = buf_len(out))
        if (out->failed || !fiber_spend(f, buf_len(out) - before + (g->m->n_others + 1) * ENTRY_COST))
            return false;
    return buf_append_str(out, "}}");
}

bool schema_merge_write(const struct schema_merge *m, struct buf *out, struct fiber *f)
{
    struct merger g = {.m = m, .next = mem_array(m->n_others + 1, sizeof(*g.next))};
    bool good = g.next != NULL && merge_all(&g, out, f);

    mem_free(g.next);
    return good;
}
