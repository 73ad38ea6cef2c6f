/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The indexes of schemas of up to four servers, with bytes 0xff between them, merged. The result is an index, has all
 * that the first has, as it has it, and of others only what they have, is not excluded and leads nowhere else. It lacks
 * nothing any more.
 */
#include "base/buf.h"
#include "fuzz/fuzz.h"
#include "kube/schema_index.h"
#include "kube/schema_merge.h"

enum { SERVERS = 4 };

/* Groups that begin with a letter of the second half of the alphabet. */
static bool is_excluded(void *arg, struct slice group, struct slice version)
{
    (void)version;
    return *(bool *)arg && group.n > 0 && group.p[0] > 'm';
}

static bool may_be_added(const struct schema_merge *m, const struct schema_entry *e)
{
    struct slice group, version;

    return e->hash.n > 0 && (!schema_path_names(e->path, &group, &version) || !m->excluded(m->arg, group, version));
}

/* Of a peer's: where clients go by it is below /openapi/v3/, and says no more than which hash is meant. */
static void check_url(const struct schema_entry *e)
{
    struct slice rest = e->url, part;

    must_hold(slice_has_prefix(e->url, SLICE_LIT("/openapi/v3/")));
    while (slice_split(&rest, '/', &part))
        must_hold(!slice_eq(part, SLICE_LIT(".")) && !slice_eq(part, SLICE_LIT("..")));
    must_hold(slice_index(e->url, '?') == e->url.n - e->hash.n - sizeof("?hash=") + 1);
    must_hold(slice_index(e->url, '#') == e->url.n && slice_index(e->url, '%') == e->url.n);
}

static bool somebody_has(const struct schema_merge *m, const struct schema_entry *e)
{
    for (size_t i = 0; i < m->n_others; i++) {
        const struct schema_entry *its = schema_index_find(m->others[i], e->path);

        if (its != NULL && slice_eq(its->hash, e->hash) && may_be_added(m, its))
            return true;
    }
    return false;
}

static void check(const struct schema_merge *m, const struct schema_index *merged)
{
    struct schema_merge again = *m;

    for (size_t i = 0; i < schema_index_count(m->base); i++) {
        const struct schema_entry *own = schema_index_at(m->base, i), *e = schema_index_find(merged, own->path);

        must_hold(e != NULL && slice_eq(e->url, own->url));
    }
    for (size_t i = 0; i < schema_index_count(merged); i++) {
        const struct schema_entry *e = schema_index_at(merged, i);

        if (schema_index_find(m->base, e->path) == NULL) {
            must_hold(somebody_has(m, e));
            check_url(e);
        }
    }
    again.base = merged;
    must_hold(!schema_merge_adds(&again, SIZE_MAX));
}

struct writing {
    const struct schema_merge *m;
    struct buf *out;
};

static bool write_it(void *arg, struct fiber *f)
{
    const struct writing *w = arg;

    return schema_merge_write(w->m, w->out, f);
}

static bool merge(const struct schema_merge *m, struct buf *out)
{
    struct writing w = {m, out};
    struct fiber f;
    enum step step = STEP_MORE;

    fiber_init(&f, write_it, &w, NULL);
    while (step == STEP_MORE)
        step = fiber_step(&f, 500);
    fiber_close(&f);
    return step == STEP_DONE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice in = slice_of((const char *)data, size), part;
    bool exclude = fuzz_byte(&in) & 1;
    struct schema_index *all[SERVERS] = {NULL}, *merged;
    struct schema_merge m = {
        .others = (const struct schema_index *const *)(all + 1), .excluded = is_excluded, .arg = &exclude};
    size_t n = 0;
    struct buf out;

    while (n < SERVERS && slice_split(&in, '\xff', &part))
        all[n++] = schema_index_parse(part);
    m.base = all[0];
    m.n_others = n > 0 ? n - 1 : 0;
    buf_init(&out, 8 << 20);
    if (merge(&m, &out)) {
        merged = schema_index_parse(buf_slice(&out));
        must_hold(merged != NULL);
        must_hold(schema_merge_adds(&m, SIZE_MAX) == (schema_index_count(merged) > schema_index_count(m.base)));
        check(&m, merged);
        schema_index_unref(merged);
    }
    buf_free(&out);
    for (size_t i = 0; i < n; i++)
        schema_index_unref(all[i]);
    return 0;
}
