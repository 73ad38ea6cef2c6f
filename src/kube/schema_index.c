/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema_index.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/contract.h"
#include "base/hash.h"
#include "base/limits.h"
#include "kube/gvr.h"
#include "kube/jscan.h"

enum { SCHEMA_DEPTH = 8, PATH_BYTES = 2 * GVR_NAME_BYTES + 8 };

struct schema_index {
    unsigned refs;
    struct arena *arena;
    struct schema_entry *at; /* sorted */
    size_t n, room;
    bool starved; /* out of memory while it was read */
    uint64_t digest;
};

static int by_path(const void *a, const void *b)
{
    const struct schema_entry *x = a, *y = b;

    return slice_cmp(x->path, y->path);
}

/* "api/v1" or "apis/GROUP/VERSION". */
bool schema_path_names(struct slice path, struct slice *group, struct slice *version)
{
    struct slice part[4];
    size_t n = 0;

    while (n < 4 && slice_split(&path, '/', &part[n]))
        n++;
    if (n == 2 && slice_eq(part[0], SLICE_LIT("api")))
        *group = slice_of("", 0);
    else if (n == 3 && slice_eq(part[0], SLICE_LIT("apis")) && part[1].n > 0)
        *group = part[1];
    else
        return false;
    *version = part[n - 1];
    return version->n > 0;
}

/* p is NULL if a name is longer than any that there is. */
static struct slice path_of(struct slice group, struct slice version, char out[PATH_BYTES])
{
    int n;

    if (group.n > GVR_NAME_BYTES || version.n > GVR_NAME_BYTES)
        return SLICE_NONE;
    n = group.n == 0 ? snprintf(out, PATH_BYTES, "api/%.*s", (int)version.n, version.p)
                     : snprintf(out, PATH_BYTES, "apis/%.*s/%.*s", (int)group.n, group.p, (int)version.n, version.p);
    return slice_of(out, (size_t)n);
}

static struct slice hash_in(struct slice url)
{
    struct slice path, query = url, pair;

    if (!slice_split(&query, '?', &path) || query.p == NULL)
        return SLICE_NONE;
    while (slice_split(&query, '&', &pair))
        if (slice_has_iprefix(pair, SLICE_LIT("hash=")))
            return slice_from(pair, 5);
    return SLICE_NONE;
}

static bool starve(struct schema_index *x)
{
    x->starved = true;
    return false;
}

static bool add(struct schema_index *x, struct schema_entry e)
{
    if (x->n == LIMIT_SCHEMAS)
        return false;
    if (x->n == x->room) {
        size_t room = x->room == 0 ? 64 : 2 * x->room;
        struct schema_entry *more = mem_array(room, sizeof(*more));

        if (more == NULL)
            return starve(x);
        if (x->n > 0)
            memcpy(more, x->at, x->n * sizeof(*more));
        mem_free(x->at);
        x->at = more;
        x->room = room;
    }
    e.path = arena_copy(x->arena, e.path);
    e.url = arena_copy(x->arena, e.url);
    if (e.path.p == NULL || e.url.p == NULL)
        return starve(x);
    e.hash = hash_in(e.url);
    x->at[x->n++] = e;
    return true;
}

static bool take_paths(struct schema_index *x, struct jscan *s)
{
    struct jscan_value key, item, url;
    bool first;

    if (!jscan_enter_object(s, &first))
        return false;
    while (jscan_member(s, &first, &key)) {
        struct schema_entry e;

        if (!jscan_value(s, &item))
            return false;
        if (item.type != JSCAN_OBJECT || !jscan_get(item.raw, SLICE_LIT("serverRelativeURL"), &url) ||
            url.type != JSCAN_STRING)
            continue;
        if (!jscan_text(x->arena, &key, &e.path) || !jscan_text(x->arena, &url, &e.url))
            return starve(x);
        if (!add(x, e))
            return false;
    }
    return s->error == NULL;
}

static bool take(struct schema_index *x, struct slice document)
{
    struct jscan_value key, v;
    struct jscan s;
    bool first, found = false;

    jscan_init(&s, document, SCHEMA_DEPTH);
    if (!jscan_enter_object(&s, &first))
        return false;
    while (jscan_member(&s, &first, &key)) {
        enum jscan_type t;

        if (!found && jscan_text_eq(&key, SLICE_LIT("paths")) && jscan_peek(&s, &t) && t == JSCAN_OBJECT) {
            found = true;
            if (!take_paths(x, &s))
                return false;
        } else if (!jscan_value(&s, &v)) {
            return false;
        }
    }
    return found && s.error == NULL && jscan_end(&s);
}

static uint64_t digest(const struct schema_index *x)
{
    uint64_t sum = 1;

    for (size_t i = 0; i < x->n; i++) {
        sum = sum * 31 + hash_seeded(x->at[i].path);
        sum = sum * 31 + hash_seeded(x->at[i].hash);
    }
    return sum;
}

/* Of entries for one path (no server has several) one stays. */
static void sort(struct schema_index *x)
{
    size_t kept = 0;

    if (x->n > 0)
        qsort(x->at, x->n, sizeof(*x->at), by_path);
    for (size_t i = 0; i < x->n; i++)
        if (kept == 0 || by_path(&x->at[kept - 1], &x->at[i]) != 0)
            x->at[kept++] = x->at[i];
    x->n = kept;
}

bool schema_index_read(struct slice document, struct schema_index **out)
{
    struct schema_index *x = mem_zalloc(sizeof(*x));
    bool starved;

    *out = NULL;
    if (x == NULL)
        return false;
    x->refs = 1;
    x->arena = arena_new(LIMIT_SCHEMA_INDEX_BYTES * 4);
    if (x->arena == NULL || !take(x, document)) {
        starved = x->arena == NULL || x->starved;
        schema_index_unref(x);
        return !starved;
    }
    sort(x);
    x->digest = digest(x);
    *out = x;
    return true;
}

struct schema_index *schema_index_parse(struct slice document)
{
    struct schema_index *x;

    return schema_index_read(document, &x) ? x : NULL;
}

struct schema_index *schema_index_ref(struct schema_index *x)
{
    if (x != NULL)
        x->refs++;
    return x;
}

void schema_index_unref(struct schema_index *x)
{
    must_hold(x == NULL || x->refs > 0);
    if (x == NULL || --x->refs > 0)
        return;
    arena_free(x->arena);
    mem_free(x->at);
    mem_free(x);
}

uint64_t schema_index_digest(const struct schema_index *x)
{
    return x == NULL ? 0 : x->digest;
}

size_t schema_index_count(const struct schema_index *x)
{
    return x == NULL ? 0 : x->n;
}

const struct schema_entry *schema_index_at(const struct schema_index *x, size_t i)
{
    return &x->at[i];
}

const struct schema_entry *schema_index_find(const struct schema_index *x, struct slice path)
{
    const struct schema_entry key = {.path = path};

    return x == NULL || x->n == 0 || path.p == NULL ? NULL : bsearch(&key, x->at, x->n, sizeof(key), by_path);
}

struct slice schema_index_hash(const struct schema_index *x, struct slice group, struct slice version)
{
    char text[PATH_BYTES];
    const struct schema_entry *e = schema_index_find(x, path_of(group, version, text));

    return e == NULL ? SLICE_NONE : e->hash;
}
