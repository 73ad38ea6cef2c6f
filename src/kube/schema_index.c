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
    STEP_BYTES = 128 << 10,       /* of a document in one step */
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

enum part { PART_BEGIN, PART_DOCUMENT, PART_PATHS, PART_ORDER, PART_DIGEST, PART_OVER };

struct schema_reader {
    struct jscan scan;
    struct schema_index *index; /* owned until it is handed out */
    enum part part;
    bool first, first_path;     /* for the scanner: of the document, of its paths */
    bool found, disordered;     /* there are paths; they are not in order */
    bool starved;               /* out of memory */
    struct schema_entry *spare; /* as large as the index's, and charged as that is */
    size_t spared;              /* bytes of it */
    struct quota *quota;
    size_t run;                 /* so many in a row are in order */
    size_t left, right, merged; /* next of the left and the right run, and where it goes to */
    size_t looked, kept;        /* for the digest */
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

/* Nothing that is read in one go is longer than this. */
static void limit_part(struct jscan *s)
{
    s->limit = s->text.n - s->pos > PART_BYTES ? s->pos + PART_BYTES : s->text.n;
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

static enum step step_paths(struct schema_reader *r)
{
    size_t from = r->scan.pos;
    struct jscan_value key;

    while (r->scan.pos - from < STEP_BYTES) {
        limit_part(&r->scan);
        if (!jscan_member(&r->scan, &r->first_path, &key)) {
            r->part = PART_DOCUMENT;
            return r->scan.error == NULL ? STEP_MORE : STEP_FAILED;
        }
        if (!take_path(r, &key))
            return STEP_FAILED;
    }
    return STEP_MORE;
}

static bool is_paths(const struct schema_reader *r, const struct jscan_value *key, struct jscan *s)
{
    enum jscan_type t;

    return !r->found && jscan_text_eq(key, SLICE_LIT("paths")) && jscan_peek(s, &t) && t == JSCAN_OBJECT;
}

static enum step step_document(struct schema_reader *r)
{
    struct jscan *s = &r->scan;
    struct jscan_value key, v;

    limit_part(s);
    if (!jscan_member(s, &r->first, &key)) {
        r->part = r->disordered ? PART_ORDER : PART_DIGEST;
        return r->found && s->error == NULL && jscan_end(s) ? STEP_MORE : STEP_FAILED;
    }
    if (!is_paths(r, &key, s))
        return jscan_value(s, &v) ? STEP_MORE : STEP_FAILED;
    r->found = true;
    r->part = PART_PATHS;
    return jscan_enter_object(s, &r->first_path) ? STEP_MORE : STEP_FAILED;
}

static enum step step_begin(struct schema_reader *r)
{
    limit_part(&r->scan);
    r->part = PART_DOCUMENT;
    return jscan_enter_object(&r->scan, &r->first) ? STEP_MORE : STEP_FAILED;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* All pairs of runs are merged: one run of two is one now. */
static void end_pass(struct schema_reader *r)
{
    struct schema_entry *merged = r->spare;

    r->spare = r->index->at;
    r->index->at = merged;
    r->run *= 2;
    r->merged = 0;
}

static bool take_spare(struct schema_reader *r)
{
    size_t bytes = r->index->room * sizeof(*r->spare);

    if (!quota_take(r->quota, bytes))
        return starve(r);
    r->spared = bytes;
    r->run = 1;
    r->spare = mem_alloc(bytes);
    return r->spare != NULL || starve(r);
}

/* No API server's is out of order. A merge sort from below; entries that come first stay so among their like. */
static enum step step_order(struct schema_reader *r)
{
    struct schema_index *x = r->index;

    if (r->spare == NULL && !take_spare(r))
        return STEP_FAILED;
    for (size_t done = 0; done < STEP_BYTES; r->merged++) {
        size_t from = r->merged - r->merged % (2 * r->run), middle = least(from + r->run, x->n),
               end = least(from + 2 * r->run, x->n);
        const struct schema_entry *e;

        if (r->merged == x->n) {
            end_pass(r);
            r->part = r->run >= x->n ? PART_DIGEST : PART_ORDER;
            return STEP_MORE;
        }
        if (r->merged == from) {
            r->left = from;
            r->right = middle;
        }
        if (r->left < middle && (r->right == end || by_path(&x->at[r->left], &x->at[r->right]) <= 0))
            e = &x->at[r->left++];
        else
            e = &x->at[r->right++];
        r->spare[r->merged] = *e;
        done += ENTRY_COST + e->path.n;
    }
    return STEP_MORE;
}

/* Of entries for one path (no server has several) the first one stays. */
static enum step step_digest(struct schema_reader *r)
{
    struct schema_index *x = r->index;

    for (size_t done = 0; done < STEP_BYTES; r->looked++) {
        const struct schema_entry *e = &x->at[r->looked];

        if (r->looked == x->n) {
            x->n = r->kept;
            r->part = PART_OVER;
            return STEP_DONE;
        }
        done += ENTRY_COST + e->path.n + e->hash.n;
        if (r->kept > 0 && by_path(&x->at[r->kept - 1], e) == 0)
            continue;
        x->digest = x->digest * 31 + hash_seeded(e->path);
        x->digest = x->digest * 31 + hash_seeded(e->hash);
        x->at[r->kept++] = *e;
    }
    return STEP_MORE;
}

struct schema_reader *schema_reader_new(struct slice document, struct quota *quota)
{
    struct schema_reader *r = mem_zalloc(sizeof(*r));

    if (r == NULL)
        return NULL;
    jscan_init(&r->scan, document, SCHEMA_DEPTH);
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

enum step schema_reader_step(struct schema_reader *r, struct schema_index **out)
{
    static enum step (*const steps[])(struct schema_reader * r) = {[PART_BEGIN] = step_begin,
                                                                   [PART_DOCUMENT] = step_document,
                                                                   [PART_PATHS] = step_paths,
                                                                   [PART_ORDER] = step_order,
                                                                   [PART_DIGEST] = step_digest};
    enum step s = r->part == PART_OVER ? STEP_FAILED : steps[r->part](r);

    *out = NULL;
    if (s == STEP_DONE) {
        *out = r->index;
        r->index = NULL;
    } else if (s == STEP_FAILED) {
        r->part = PART_OVER;
    }
    return s;
}

bool schema_reader_starved(const struct schema_reader *r)
{
    return r->starved;
}

void schema_reader_free(struct schema_reader *r)
{
    if (r == NULL)
        return;
    schema_index_unref(r->index);
    quota_give(r->quota, r->spared);
    mem_free(r->spare);
    mem_free(r);
}

bool schema_index_read(struct slice document, struct schema_index **out)
{
    struct schema_reader *r = schema_reader_new(document, NULL);
    bool starved = r == NULL;

    *out = NULL;
    if (r != NULL) {
        while (schema_reader_step(r, out) == STEP_MORE)
            continue;
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
