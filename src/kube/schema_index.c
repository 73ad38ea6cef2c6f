/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema_index.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/contract.h"
#include "base/hash.h"
#include "base/limits.h"
#include "kube/gvr.h"
#include "kube/jscan.h"

enum {
    SCHEMA_DEPTH = 8,
    PATH_BYTES = 2 * GVR_NAME_BYTES + 8,
    URL_BYTES = PATH_BYTES + 256, /* with a hash of 128 characters */
    STEP_BYTES = 128 << 10,       /* of a document in one step of a reader's own */
    PART_BYTES = 256 << 10,       /* one entry, or one field that we pass over */
    ENTRY_COST = 64,              /* what it takes to look at an entry, in bytes */
};

struct schema_index {
    unsigned refs;
    struct arena *arena;
    struct schema_entry *at; /* sorted */
    size_t n, room;
    struct quota *quota; /* `at` is charged to it */
    uint64_t digest;
};

struct schema_reader {
    struct fiber fiber;  /* of who reads in steps */
    struct fiber *other; /* in which it reads; may be that one */
    struct slice document;
    struct jscan scan;
    size_t unit_start;
    struct schema_index *index; /* owned until it is handed out */
    struct quota *quota;
    bool disordered, starved; /* its paths are not in order; it is out of memory, or given up */
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

/* ---- reading ---- */

static bool starve(struct schema_reader *r)
{
    r->starved = true;
    return false;
}

/* A large array grows by moving its pages. */
static bool has_room(struct schema_reader *r)
{
    struct schema_index *x = r->index;
    size_t room = x->room == 0 ? 64 : 2 * x->room, more = (room - x->room) * sizeof(*x->at);
    struct schema_entry *at;

    if (x->n < x->room)
        return true;
    if (x->n == LIMIT_SCHEMAS)
        return false;
    if (!quota_take(x->quota, more))
        return starve(r);
    at = mem_realloc(x->at, room * sizeof(*at));
    if (at == NULL) {
        quota_give(x->quota, more);
        return starve(r);
    }
    x->at = at;
    x->room = room;
    return true;
}

static bool add(struct schema_reader *r, struct schema_entry e)
{
    struct schema_index *x = r->index;

    if (!has_room(r))
        return false;
    e.path = arena_copy(x->arena, e.path);
    e.url = arena_copy(x->arena, e.url);
    if (e.path.p == NULL || e.url.p == NULL)
        return starve(r);
    e.hash = hash_in(e.url);
    r->disordered = r->disordered || (x->n > 0 && by_path(&x->at[x->n - 1], &e) > 0);
    x->at[x->n++] = e;
    return true;
}

static bool spend(struct schema_reader *r, size_t n)
{
    return fiber_spend(r->other, n) || starve(r);
}

/* What came before is spent; what is read now in one go is not longer than this. */
static bool begin_unit(struct schema_reader *r)
{
    struct jscan *s = &r->scan;
    size_t before = r->unit_start;

    r->unit_start = s->pos;
    s->limit = s->text.n - s->pos > PART_BYTES ? s->pos + PART_BYTES : s->text.n;
    return spend(r, s->pos - before);
}

static bool take_path(struct schema_reader *r, const struct jscan_value *key)
{
    struct jscan_value item, url;
    struct schema_entry e;

    if (!jscan_value(&r->scan, &item))
        return false;
    if (item.type != JSCAN_OBJECT || !jscan_get(item.raw, SLICE_LIT("serverRelativeURL"), &url) ||
        url.type != JSCAN_STRING)
        return true;
    if (key->raw.n > PATH_BYTES ||
        url.raw.n > URL_BYTES) /* no API server's: looked at for every client, it costs all */
        return true;
    if (!jscan_text(r->index->arena, key, &e.path) || !jscan_text(r->index->arena, &url, &e.url))
        return starve(r);
    return add(r, e);
}

static bool read_paths(struct schema_reader *r)
{
    struct jscan_value key;
    bool first;

    if (!jscan_enter_object(&r->scan, &first))
        return false;
    while (begin_unit(r) && jscan_member(&r->scan, &first, &key))
        if (!take_path(r, &key))
            return false;
    return !r->starved && r->scan.error == NULL;
}

static bool is_paths(const struct jscan_value *key, struct jscan *s)
{
    enum jscan_type t;

    return jscan_text_eq(key, SLICE_LIT("paths")) && jscan_peek(s, &t) && t == JSCAN_OBJECT;
}

static bool read_document(struct schema_reader *r)
{
    struct jscan *s = &r->scan;
    struct jscan_value key, v;
    bool first, found = false;

    if (!begin_unit(r) || !jscan_enter_object(s, &first))
        return false;
    while (begin_unit(r) && jscan_member(s, &first, &key)) {
        bool paths = !found && is_paths(&key, s);

        found = found || paths;
        if (paths ? !read_paths(r) : !jscan_value(s, &v))
            return false;
    }
    return found && !r->starved && s->error == NULL && jscan_end(s);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Each two runs of so many that are in order become one in `to`; entries that come first stay so among their like. */
static bool merge_runs(struct schema_reader *r, struct schema_entry *to, size_t run)
{
    const struct schema_index *x = r->index;

    for (size_t at = 0; at < x->n;) {
        size_t left = at, middle = least(at + run, x->n), right = middle, end = least(at + 2 * run, x->n);

        for (; at < end; at++) {
            bool from_left = left < middle && (right == end || by_path(&x->at[left], &x->at[right]) <= 0);

            to[at] = x->at[from_left ? left++ : right++];
            if (!spend(r, ENTRY_COST + to[at].path.n))
                return false;
        }
    }
    return true;
}

/* No API server's is out of order. A merge sort from below. */
static bool put_in_order(struct schema_reader *r)
{
    struct schema_index *x = r->index;
    size_t bytes = x->room * sizeof(*x->at);
    struct schema_entry *spare;
    bool good;

    if (!quota_take(r->quota, bytes))
        return starve(r);
    spare = mem_alloc(bytes);
    good = spare != NULL || starve(r);
    for (size_t run = 1; good && run < x->n; run *= 2) {
        struct schema_entry *merged = spare;

        good = merge_runs(r, merged, run);
        spare = x->at;
        x->at = merged;
    }
    mem_free(spare);
    quota_give(r->quota, bytes);
    return good;
}

/* Of entries for one path (no server has several) the first one stays. */
static bool digest(struct schema_reader *r)
{
    struct schema_index *x = r->index;
    size_t kept = 0;

    for (size_t i = 0; i < x->n; i++) {
        const struct schema_entry *e = &x->at[i];

        if (!spend(r, ENTRY_COST + e->path.n + e->hash.n))
            return false;
        if (kept > 0 && by_path(&x->at[kept - 1], e) == 0)
            continue;
        x->digest = x->digest * 31 + hash_seeded(e->path);
        x->digest = x->digest * 31 + hash_seeded(e->hash);
        x->at[kept++] = *e;
    }
    x->n = kept;
    return true;
}

static bool read_all(void *arg, struct fiber *f)
{
    struct schema_reader *r = arg;

    r->other = f;
    jscan_init(&r->scan, r->document, SCHEMA_DEPTH);
    return read_document(r) && (!r->disordered || put_in_order(r)) && digest(r);
}

struct schema_reader *schema_reader_new(struct slice document, struct quota *quota)
{
    struct schema_reader *r = mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    fiber_init(&r->fiber, read_all, r, quota);
    r->document = document;
    r->quota = quota;
    r->index = mem_zalloc(sizeof(*r->index));
    if (r->index != NULL) {
        *r->index = (struct schema_index){.refs = 1, .digest = 1, .quota = quota};
        r->index->arena = arena_new(LIMIT_SCHEMA_INDEX_BYTES * 4);
        if (r->index->arena != NULL && arena_charge(r->index->arena, quota))
            return r;
    }
    schema_reader_free(r);
    return NULL;
}

static struct schema_index *take(struct schema_reader *r)
{
    struct schema_index *x = r->index;

    r->index = NULL;
    return x;
}

struct schema_index *schema_reader_read(struct schema_reader *r, struct fiber *f)
{
    return read_all(r, f) ? take(r) : NULL;
}

enum step schema_reader_step(struct schema_reader *r, struct schema_index **out)
{
    enum step s = fiber_step(&r->fiber, STEP_BYTES);

    *out = s == STEP_DONE ? take(r) : NULL;
    return s;
}

bool schema_reader_starved(const struct schema_reader *r)
{
    return r->starved || r->scan.text.p == NULL; /* it had no stack to begin with */
}

void schema_reader_free(struct schema_reader *r)
{
    if (r == NULL)
        return;
    fiber_close(&r->fiber);
    schema_index_unref(r->index);
    mem_free(r);
}

bool schema_index_read(struct slice document, struct schema_index **out)
{
    struct schema_reader *r = schema_reader_new(document, NULL);
    bool starved = r == NULL;

    *out = NULL;
    if (r != NULL) {
        *out = schema_reader_read(r, NULL);
        starved = r->starved;
    }
    schema_reader_free(r);
    return !starved;
}

struct schema_index *schema_index_parse(struct slice document)
{
    struct schema_index *x;

    return schema_index_read(document, &x) ? x : NULL;
}

struct schema_index *schema_index_ref(struct schema_index *x)
{
    must_hold(x == NULL || x->refs > 0);
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
    quota_give(x->quota, x->room * sizeof(*x->at));
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

size_t schema_index_bytes(const struct schema_index *x)
{
    return sizeof(*x) + arena_used(x->arena) + x->room * sizeof(*x->at);
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
