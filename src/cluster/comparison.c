/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/comparison.h"

#include "base/clock.h"
#include "base/strmap.h"
#include "kube/disco_same.h"

enum { KNOWN_DOCUMENTS = 16, FIRST_ROOM = 64 };

/* A group/version. */
struct row {
    struct served_gv gv;
    enum served_half half;
    const struct disco_version *as; /* the first document describes it that has it, with all names */
    uint64_t sum;                   /* of how all documents describe it */
    uint64_t since_ms;              /* it has been uneven in this way; 0: it is not */
    size_t seen;                    /* by so many documents; 0: only an index of schemas names it */
    size_t document;                /* the last of these */
    bool differs;                   /* of these */
    struct slice schema;            /* the hash of its first schema */
    bool skewed;
};

struct comparison {
    struct fiber fiber;
    struct served *served;
    const struct comparison *before; /* until this one is over */
    uint64_t now_ms;
    struct strmap *by_name; /* row number + 1 */
    struct row *rows;
    size_t n, cap, n_skewed;
    enum served_half half;                     /* in hand */
    size_t document, documents[SERVED_HALVES]; /* the number of the one in hand; of different ones */
    uint64_t known[KNOWN_DOCUMENTS]; /* most servers say the very same as one before: it is looked into once */
    size_t n_known;
    struct served_gv *skewed;
    struct comparison_result result;
};

static bool compare(void *arg, struct fiber *f);

struct comparison *comparison_new(struct served *s, const struct comparison *before)
{
    struct comparison *c = mem_zalloc(sizeof(*c));

    if (c == NULL)
        return NULL;
    fiber_init(&c->fiber, compare, c, NULL);
    c->served = served_ref(s);
    c->before = before;
    c->now_ms = clock_ms() > 0 ? clock_ms() : 1;
    c->by_name = strmap_new();
    if (c->by_name != NULL)
        return c;
    comparison_free(c);
    return NULL;
}

void comparison_free(struct comparison *c)
{
    if (c == NULL)
        return;
    fiber_close(&c->fiber);
    if (c->by_name != NULL)
        strmap_free(c->by_name);
    mem_free(c->rows);
    mem_free(c->skewed);
    served_unref(c->served);
    mem_free(c);
}

struct served *comparison_served(const struct comparison *c)
{
    return c->served;
}

const struct comparison_result *comparison_result(const struct comparison *c)
{
    return &c->result;
}

/* ---- rows ---- */

static struct row *add_row(struct comparison *c, struct slice key, struct slice group, struct slice version)
{
    if (c->n == c->cap) {
        size_t cap = c->cap == 0 ? FIRST_ROOM : 2 * c->cap;
        struct row *rows = mem_realloc(c->rows, cap * sizeof(*rows));

        if (rows == NULL)
            return NULL;
        c->rows = rows;
        c->cap = cap;
    }
    /* A number, for rows move. */
    if (!strmap_put(c->by_name, key, (void *)(uintptr_t)(c->n + 1), NULL))
        return NULL;
    c->rows[c->n] = (struct row){.gv = {group, version}, .half = c->half, .schema = SLICE_NONE};
    return &c->rows[c->n++];
}

/* False when out of memory; *out is NULL for a name that is longer than any that there is. */
static bool find_row(struct comparison *c, struct slice group, struct slice version, struct row **out)
{
    char text[GVR_KEY_BYTES];
    struct slice key = gvr_key(&(struct gvr){group, version, slice_of("", 0)}, text);
    uintptr_t number;

    *out = NULL;
    if (key.p == NULL)
        return true;
    number = (uintptr_t)strmap_get(c->by_name, key);
    *out = number > 0 ? &c->rows[number - 1] : add_row(c, key, group, version);
    return *out != NULL;
}

/* ---- documents ---- */

static const struct disco_doc *document_of(const struct comparison *c, size_t server)
{
    const struct disco *d = server == 0 ? served_local_disco(c->served) : served_peer_at(c->served, server - 1)->disco;

    return disco_half(d, c->half == SERVED_CORE);
}

static bool is_known(struct comparison *c, const struct disco_doc *d)
{
    uint64_t sum = disco_doc_hash(d);

    for (size_t i = 0; i < c->n_known; i++)
        if (c->known[i] == sum)
            return true;
    if (c->n_known < KNOWN_DOCUMENTS)
        c->known[c->n_known++] = sum;
    return false;
}

static bool note_version(struct comparison *c, const struct disco_version *v)
{
    struct row *r;

    if (!find_row(c, v->group->name, v->name, &r))
        return false;
    if (r == NULL)
        return true;
    if (r->seen == 0)
        r->as = v;
    r->differs = r->differs || !disco_version_same(r->as, v);
    /* Of two that say the same the longer one has more singular names. */
    if (r->as->said == v->said && r->as->raw.n < v->raw.n)
        r->as = v;
    r->sum += r->document != c->document ? v->hash : 0;
    r->seen += r->document != c->document;
    r->document = c->document;
    return true;
}

static bool look_into(struct comparison *c, const struct disco_doc *d, struct fiber *f)
{
    for (const struct disco_group *g = disco_doc_groups(d); g != NULL; g = g->next) {
        for (const struct disco_version *v = g->versions; v != NULL; v = v->next)
            if (!note_version(c, v) || !fiber_spend(f, 1))
                return false;
        if (!fiber_spend(f, 1))
            return false;
    }
    return true;
}

/* Of all servers, those of one half. */
static bool compare_documents(struct comparison *c, struct fiber *f)
{
    c->n_known = 0;
    for (size_t server = 0; server <= served_n_peers(c->served); server++) {
        const struct disco_doc *d = document_of(c, server);

        if (!fiber_spend(f, 1))
            return false;
        if (d == NULL || is_known(c, d))
            continue;
        c->documents[c->half]++;
        c->document++;
        if (!look_into(c, d, f))
            return false;
    }
    return true;
}

/* ---- schemas ---- */

static bool note_schema(struct comparison *c, const struct schema_entry *e)
{
    struct slice group, version;
    struct row *r;

    if (e->hash.n == 0 || !schema_path_names(e->path, &group, &version))
        return true;
    if (!find_row(c, group, version, &r))
        return false;
    if (r == NULL)
        return true;
    if (r->schema.n == 0) {
        r->schema = e->hash;
    } else if (!r->skewed && !slice_eq(r->schema, e->hash)) {
        r->skewed = true;
        c->n_skewed++;
    }
    return true;
}

static bool compare_schemas(struct comparison *c, struct fiber *f)
{
    size_t n;
    const struct schema_index *const *distinct = served_distinct_schemas(c->served, &n);

    for (size_t i = 0; n > 1 && i < n; i++)
        for (size_t k = 0; k < schema_index_count(distinct[i]); k++)
            if (!note_schema(c, schema_index_at(distinct[i], k)) || !fiber_spend(f, 1))
                return false;
    return true;
}

/* NULL: there is none of that name. */
static const struct row *row_of(const struct comparison *c, struct slice group, struct slice version)
{
    char text[GVR_KEY_BYTES];
    struct slice key = gvr_key(&(struct gvr){group, version, slice_of("", 0)}, text);
    uintptr_t number = key.p == NULL ? 0 : (uintptr_t)strmap_get(c->by_name, key);

    return number > 0 ? &c->rows[number - 1] : NULL;
}

uint64_t comparison_uneven_since(const struct comparison *c, struct slice group, struct slice version)
{
    const struct row *r = row_of(c, group, version);

    return r == NULL ? 0 : r->since_ms;
}

/* As it was before, or from now on. */
static uint64_t since_of(const struct comparison *c, const struct row *r)
{
    const struct row *was = c->before == NULL ? NULL : row_of(c->before, r->gv.group, r->gv.version);

    return was != NULL && was->since_ms > 0 && was->sum == r->sum ? was->since_ms : c->now_ms;
}

static void sum_up(struct comparison *c, struct row *r)
{
    if (r->seen > 0) {
        c->result.gvs++;
        if (r->differs || r->seen < c->documents[r->half]) {
            c->result.uneven++;
            r->since_ms = since_of(c, r);
        }
    }
    if (r->skewed && !served_excluded(c->served, r->gv.group, r->gv.version))
        c->skewed[c->result.n_skewed++] = r->gv;
}

static bool sum_all_up(struct comparison *c, struct fiber *f)
{
    if (c->n_skewed > 0) {
        c->result.skewed = c->skewed = mem_array(c->n_skewed, sizeof(c->skewed[0]));
        if (c->skewed == NULL)
            return false;
    }
    for (size_t i = 0; i < c->n; i++) {
        sum_up(c, &c->rows[i]);
        if (!fiber_spend(f, 1))
            return false;
    }
    return true;
}

static bool compare(void *arg, struct fiber *f)
{
    struct comparison *c = arg;

    for (c->half = 0; c->half < SERVED_HALVES; c->half++)
        if (!compare_documents(c, f))
            return false;
    return compare_schemas(c, f) && sum_all_up(c, f);
}

enum step comparison_step(struct comparison *c, size_t budget)
{
    return fiber_step(&c->fiber, budget);
}
