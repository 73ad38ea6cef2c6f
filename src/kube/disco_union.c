/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/disco_union.h"

#include <stdlib.h>

enum { BYTES_PER_RESOURCE = 256, SUBRESOURCES_PER_RESOURCE = 8 /* of what is spent, see disco_merge_group.h */ };

static bool spend_bytes(struct fiber *f, size_t n)
{
    return fiber_spend(f, 1 + n / BYTES_PER_RESOURCE);
}

/* ---- fields that we do not know ---- */

static bool has_extra(const struct disco_union *u, struct slice key)
{
    for (size_t i = 0; i < u->n; i++)
        if (slice_eq(u->extras[i]->key, key))
            return true;
    return false;
}

void disco_union_add(struct disco_union *u, const struct disco_extras *of)
{
    for (const struct disco_extra *e = of->first; e != NULL && u->n < DISCO_EXTRAS; e = e->next)
        if (!has_extra(u, e->key))
            u->extras[u->n++] = e;
}

bool disco_union_put(const struct disco_union *u, struct buf *out, struct fiber *f)
{
    for (size_t i = 0; i < u->n; i++) {
        buf_append_char(out, ',');
        buf_append(out, u->extras[i]->key);
        buf_append_char(out, ':');
        if (!buf_append(out, u->extras[i]->value) || !spend_bytes(f, u->extras[i]->value.n))
            return false;
    }
    return true;
}

static bool says_something(struct slice raw)
{
    return raw.n > 2 && !slice_eq(raw, SLICE_LIT("null"));
}

/* ---- text lists ---- */

/* Sorts, drops doubles, prints as an array. */
static void put_sorted_texts(struct buf *out, struct slice *texts, size_t n)
{
    bool first = true;

    qsort(texts, n, sizeof(*texts), slice_cmp_at);
    buf_append_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && slice_eq(texts[i], texts[i - 1]))
            continue;
        if (!first)
            buf_append_char(out, ',');
        first = false;
        buf_append_quoted(out, "", texts[i]);
    }
    buf_append_char(out, ']');
}

static bool same_field(const struct disco_resource *a, const struct disco_resource *b, enum disco_field field)
{
    return slice_eq(a->fields[field], b->fields[field]);
}

/* ---- subresources ---- */

/* One server's subresource; a later place takes precedence (as in kube-apiserver, where it overwrites). */
struct sub_part {
    const struct disco_subresource *sub;
    size_t last;  /* number of the last server that gives this description of the resource */
    size_t index; /* within the resource */
};

static int by_name_latest_first(const void *a, const void *b)
{
    const struct sub_part *x = a, *y = b;
    int cmp = slice_cmp(x->sub->name, y->sub->name);

    if (cmp != 0)
        return cmp;
    if (x->last != y->last)
        return x->last > y->last ? -1 : 1;
    return x->index > y->index ? -1 : 1;
}

/* Drops descriptions whose subresources are those of the one before: the usual case. The rest stays in order. */
static size_t distinct_subresources(const struct disco_union_part *parts, size_t n, struct disco_union_part *kept)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (count == 0 || !same_field(kept[count - 1].resource, parts[i].resource, DISCO_FIELD_SUBRESOURCES))
            kept[count++] = parts[i];
        else if (kept[count - 1].last < parts[i].last)
            kept[count - 1].last = parts[i].last;
    }
    return count;
}

static bool put_subresources(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct buf *out,
                             struct fiber *f)
{
    struct disco_union_part *kept = arena_alloc(scratch, n * sizeof(*kept));
    struct sub_part *subs;
    size_t total = 0, count = 0, same;

    if (kept == NULL)
        return false;
    n = distinct_subresources(parts, n, kept);
    for (size_t i = 0; i < n; i++)
        total += kept[i].resource->n_subresources;
    if (total == 0)
        return true;
    subs = arena_alloc(scratch, total * sizeof(*subs));
    if (subs == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t index = 0;

        for (const struct disco_subresource *s = kept[i].resource->subresources; s != NULL; s = s->next)
            subs[count++] = (struct sub_part){s, kept[i].last, index++};
    }
    qsort(subs, count, sizeof(*subs), by_name_latest_first);
    if (!fiber_spend(f, count / SUBRESOURCES_PER_RESOURCE))
        return false;
    buf_append_str(out, ",\"subresources\":");
    for (size_t i = 0; i < count; i += same) {
        for (same = 1; i + same < count && slice_eq(subs[i].sub->name, subs[i + same].sub->name); same++)
            continue;
        buf_append_char(out, i == 0 ? '[' : ',');
        if (!buf_append(out, subs[i].sub->raw) || !spend_bytes(f, subs[i].sub->raw.n))
            return false;
    }
    return buf_append_char(out, ']');
}

/* ---- resources ---- */

/* The first value that says something, else the first at all; p is NULL if nobody has the field. */
static struct slice first_value(const struct disco_union_part *parts, size_t n, enum disco_field field)
{
    struct slice first = SLICE_NONE;

    for (size_t i = 0; i < n; i++) {
        struct slice raw = parts[i].resource->fields[field];

        if (raw.p != NULL && says_something(raw))
            return raw;
        if (first.p == NULL)
            first = raw;
    }
    return first;
}

static void put_first(struct buf *out, const char *key, const struct disco_union_part *parts, size_t n,
                      enum disco_field field)
{
    struct slice raw = first_value(parts, n, field);

    if (raw.p == NULL)
        return;
    buf_append_str(out, key);
    buf_append(out, raw);
}

/* All verbs of those that differ from their predecessor: few. False when out of memory. */
static bool gather_verbs(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct slice **verbs,
                         size_t *total)
{
    const struct disco_resource **kept = arena_alloc(scratch, n * sizeof(*kept));
    size_t count = 0, at = 0;

    *total = 0;
    if (kept == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct disco_resource *r = parts[i].resource;

        if (count > 0 && same_field(kept[count - 1], r, DISCO_FIELD_VERBS))
            continue;
        kept[count++] = r;
        *total += r->n_verbs;
    }
    *verbs = arena_alloc(scratch, *total * sizeof(**verbs));
    if (*verbs == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        for (size_t v = 0; v < kept[i]->n_verbs; v++)
            (*verbs)[at++] = kept[i]->verbs[v];
    return true;
}

static bool put_united_verbs(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct buf *out)
{
    struct slice *verbs;
    size_t total;

    if (!gather_verbs(scratch, parts, n, &verbs, &total))
        return false;
    if (total == 0) {
        put_first(out, ",\"verbs\":", parts, n, DISCO_FIELD_VERBS);
        return true;
    }
    buf_append_str(out, ",\"verbs\":");
    put_sorted_texts(out, verbs, total);
    return true;
}

static bool put_extras(const struct disco_union_part *parts, size_t n, struct buf *out, struct fiber *f)
{
    struct disco_union u = {.n = 0};

    for (size_t i = 0; i < n; i++)
        disco_union_add(&u, &parts[i].resource->extras);
    return disco_union_put(&u, out, f);
}

bool disco_union_resource(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct buf *out,
                          struct fiber *f)
{
    buf_append_str(out, "{\"resource\":");
    buf_append_quoted(out, "", parts[0].resource->name);
    put_first(out, ",\"responseKind\":", parts, n, DISCO_FIELD_KIND);
    put_first(out, ",\"scope\":", parts, 1, DISCO_FIELD_SCOPE);
    put_first(out, ",\"singularResource\":", parts, 1, DISCO_FIELD_SINGULAR);
    if (!put_united_verbs(scratch, parts, n, out))
        return false;
    put_first(out, ",\"shortNames\":", parts, 1, DISCO_FIELD_SHORT_NAMES);
    put_first(out, ",\"categories\":", parts, 1, DISCO_FIELD_CATEGORIES);
    if (!put_subresources(scratch, parts, n, out, f) || !put_extras(parts, n, out, f))
        return false;
    return buf_append_char(out, '}');
}
