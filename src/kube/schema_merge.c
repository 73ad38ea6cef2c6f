/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema_merge.h"

#include <stdlib.h>

#include "kube/gvr.h"

struct addition {
    const struct schema_entry *entry;
    size_t server;
};

struct additions {
    struct addition *at;
    size_t n, room;
    bool failed;
};

/* RFC 3986, 2.3: means the same wherever it stands in a URL. */
static bool is_plain(struct slice text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
              c == '_' || c == '~'))
            return false;
    }
    return text.n > 0;
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

static bool may_come_from_others(const struct schema_merge *m, const struct schema_entry *e)
{
    struct slice group, version;

    if (!is_plain(e->hash) || !is_plain_path(e->path))
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
        if (may_come_from_others(m, e))
            return e;
    }
    return NULL;
}

bool schema_merge_adds(const struct schema_merge *m)
{
    for (size_t o = 0; o < m->n_others; o++) {
        size_t i = 0, b = 0;

        if (m->others[o] != m->base && next_lacking(m, m->others[o], &i, &b) != NULL)
            return true;
    }
    return false;
}

static void keep(struct additions *a, const struct schema_entry *e, size_t server)
{
    if (a->n == a->room) {
        size_t room = a->room == 0 ? 64 : 2 * a->room;
        struct addition *grown = mem_realloc(a->at, room * sizeof(*grown));

        a->failed = a->failed || grown == NULL;
        if (grown == NULL)
            return;
        a->at = grown;
        a->room = room;
    }
    a->at[a->n++] = (struct addition){e, server};
}

static int by_path_and_server(const void *a, const void *b)
{
    const struct addition *x = a, *y = b;
    int d = slice_cmp(x->entry->path, y->entry->path);

    if (d != 0 || x->server == y->server)
        return d;
    return x->server < y->server ? -1 : 1;
}

/* In order of path; of those that several have, the first server's. */
static void sort_out(struct additions *a)
{
    size_t kept = 0;

    if (a->n > 0)
        qsort(a->at, a->n, sizeof(*a->at), by_path_and_server);
    for (size_t i = 0; i < a->n; i++)
        if (kept == 0 || !slice_eq(a->at[kept - 1].entry->path, a->at[i].entry->path))
            a->at[kept++] = a->at[i];
    a->n = kept;
}

static void put_text(struct buf *out, struct slice text)
{
    buf_append_char(out, '"');
    buf_append_json(out, text);
    buf_append_char(out, '"');
}

static void put_key(struct buf *out, struct slice path, bool *first)
{
    if (!*first)
        buf_append_char(out, ',');
    *first = false;
    put_text(out, path);
    buf_append_str(out, ":{\"serverRelativeURL\":\"");
}

/* Its URL is ours: a peer does not say where clients go. */
static void put_added(struct buf *out, const struct schema_entry *e, bool *first)
{
    put_key(out, e->path, first);
    buf_append_str(out, "/openapi/v3/");
    buf_append(out, e->path);
    buf_append_str(out, "?hash=");
    buf_append(out, e->hash);
    buf_append_str(out, "\"}");
}

static void put_own(struct buf *out, const struct schema_entry *e, bool *first)
{
    put_key(out, e->path, first);
    buf_append_json(out, e->url);
    buf_append_str(out, "\"}");
}

bool schema_merge_write(const struct schema_merge *m, struct buf *out)
{
    struct additions more = {.failed = false};
    const struct schema_entry *e;
    bool first = true, good;
    size_t a = 0;

    for (size_t o = 0; o < m->n_others; o++) {
        size_t i = 0, b = 0;

        while (m->others[o] != m->base && (e = next_lacking(m, m->others[o], &i, &b)) != NULL)
            keep(&more, e, o);
    }
    sort_out(&more);
    buf_append_str(out, "{\"paths\":{");
    for (size_t b = 0; b < schema_index_count(m->base); b++) {
        e = schema_index_at(m->base, b);
        while (a < more.n && slice_cmp(more.at[a].entry->path, e->path) < 0)
            put_added(out, more.at[a++].entry, &first);
        if (a < more.n && slice_eq(more.at[a].entry->path, e->path))
            put_added(out, more.at[a++].entry, &first);
        else
            put_own(out, e, &first);
    }
    while (a < more.n)
        put_added(out, more.at[a++].entry, &first);
    buf_append_str(out, "}}");
    good = !more.failed && !out->failed;
    mem_free(more.at);
    return good;
}
