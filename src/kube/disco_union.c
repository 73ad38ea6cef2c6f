/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/disco_union.h"

#include <stdlib.h>

#include "base/hash.h"
#include "kube/jscan.h"

/* Text of other descriptions is fetched while those before it are looked at: so many places ahead. */
enum { MAX_UNKNOWN = 64, AHEAD = 8 };

struct value {
    struct value *next;
    struct slice raw;
};

struct disco_member {
    struct disco_member *next; /* of unknown ones */
    struct slice key;          /* with its quotes; unknown ones only */
    struct value *values, **last;
};

/* ---- members of objects ---- */

static bool add_value(struct arena *scratch, struct disco_member *m, struct slice raw)
{
    struct value *v = arena_zalloc(scratch, sizeof(*v));

    if (v == NULL)
        return false;
    v->raw = raw;
    *m->last = v;
    m->last = &v->next;
    return true;
}

static bool add_unknown(struct disco_union *u, struct arena *scratch, const struct jscan_value *key, struct slice raw)
{
    struct disco_member **m = &u->unknown;

    while (*m != NULL && !slice_eq((*m)->key, key->raw))
        m = &(*m)->next;
    if (*m != NULL)
        return true; /* the first one has decided */
    if (u->n_unknown == MAX_UNKNOWN)
        return true;
    *m = arena_zalloc(scratch, sizeof(**m));
    if (*m == NULL)
        return false;
    (*m)->key = key->raw;
    (*m)->last = &(*m)->values;
    u->n_unknown++;
    return add_value(scratch, *m, raw);
}

static bool add_object(struct disco_union *u, struct arena *scratch, struct slice object, const struct slice *keys)
{
    struct jscan_value key, v;
    struct jscan s;
    bool first, good = true;
    size_t i;

    jscan_init(&s, object, JSCAN_MAX_DEPTH);
    if (!jscan_enter_object(&s, &first))
        return true;
    while (good && jscan_member(&s, &first, &key) && jscan_value(&s, &v)) {
        for (i = 0; i < u->n_known && !jscan_text_eq(&key, keys[i]); i++)
            continue;
        good = i < u->n_known ? add_value(scratch, &u->known[i], v.raw) : add_unknown(u, scratch, &key, v.raw);
    }
    return good;
}

bool disco_union_init(struct disco_union *u, struct arena *scratch, const struct slice *raws, size_t n,
                      const struct slice *keys, size_t n_keys)
{
    *u = (struct disco_union){.n_known = n_keys};
    u->known = arena_zalloc(scratch, n_keys * sizeof(*u->known));
    if (u->known == NULL)
        return false;
    for (size_t i = 0; i < n_keys; i++)
        u->known[i].last = &u->known[i].values;
    for (size_t i = 0; i < n; i++)
        if (!add_object(u, scratch, raws[i], keys))
            return false;
    return true;
}

static bool says_something(struct slice raw)
{
    return raw.n > 2 && !slice_eq(raw, SLICE_LIT("null"));
}

void disco_union_put_unknown(const struct disco_union *u, struct buf *out)
{
    for (const struct disco_member *m = u->unknown; m != NULL; m = m->next) {
        buf_append_char(out, ',');
        buf_append(out, m->key);
        buf_append_char(out, ':');
        buf_append(out, m->values->raw);
    }
}

/* ---- text lists ---- */

static void put_text(struct buf *out, struct slice text)
{
    buf_append_char(out, '"');
    buf_append_json(out, text);
    buf_append_char(out, '"');
}

static int by_text(const void *a, const void *b)
{
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Sorts, drops doubles, prints as an array. */
static void put_sorted_texts(struct buf *out, struct slice *texts, size_t n)
{
    bool first = true;

    qsort(texts, n, sizeof(*texts), by_text);
    buf_append_char(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && slice_eq(texts[i], texts[i - 1]))
            continue;
        if (!first)
            buf_append_char(out, ',');
        first = false;
        put_text(out, texts[i]);
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

static bool put_subresources(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct buf *out)
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
    buf_append_str(out, ",\"subresources\":");
    for (size_t i = 0; i < count; i += same) {
        for (same = 1; i + same < count && slice_eq(subs[i].sub->name, subs[i + same].sub->name); same++)
            continue;
        buf_append_char(out, i == 0 ? '[' : ',');
        buf_append(out, subs[i].sub->raw);
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

static bool put_unknown_fields(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct buf *out)
{
    static const struct slice keys[] = {
        SLICE_LIT("resource"), SLICE_LIT("responseKind"), SLICE_LIT("scope"),      SLICE_LIT("singularResource"),
        SLICE_LIT("verbs"),    SLICE_LIT("shortNames"),   SLICE_LIT("categories"), SLICE_LIT("subresources"),
    };
    struct slice *raws;
    struct disco_union u;
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += parts[i].resource->extra ? 1 : 0;
    if (count == 0)
        return true;
    raws = arena_alloc(scratch, count * sizeof(*raws));
    if (raws == NULL)
        return false;
    count = 0;
    for (size_t i = 0; i < n; i++)
        if (parts[i].resource->extra)
            raws[count++] = parts[i].resource->raw;
    if (!disco_union_init(&u, scratch, raws, count, keys, sizeof(keys) / sizeof(keys[0])))
        return false;
    disco_union_put_unknown(&u, out);
    return true;
}

bool disco_union_resource(struct arena *scratch, const struct disco_union_part *parts, size_t n, struct buf *out)
{
    buf_append_str(out, "{\"resource\":");
    put_text(out, parts[0].resource->name);
    put_first(out, ",\"responseKind\":", parts, n, DISCO_FIELD_KIND);
    put_first(out, ",\"scope\":", parts, 1, DISCO_FIELD_SCOPE);
    put_first(out, ",\"singularResource\":", parts, 1, DISCO_FIELD_SINGULAR);
    if (!put_united_verbs(scratch, parts, n, out))
        return false;
    put_first(out, ",\"shortNames\":", parts, 1, DISCO_FIELD_SHORT_NAMES);
    put_first(out, ",\"categories\":", parts, 1, DISCO_FIELD_CATEGORIES);
    if (!put_subresources(scratch, parts, n, out) || !put_unknown_fields(scratch, parts, n, out))
        return false;
    return buf_append_char(out, '}');
}
