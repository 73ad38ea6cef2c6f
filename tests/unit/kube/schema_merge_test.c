/* SPDX-License-Identifier: Apache-2.0 */
/* One index of schemas out of several. */
#include "kube/schema_merge.h"

#include <stdio.h>

#include "lib/tap.h"

#define ITEM(path, hash) "\"" path "\":{\"serverRelativeURL\":\"/openapi/v3/" path "?hash=" hash "\"}"

static struct schema_index *parse(const char *items)
{
    struct schema_index *x;
    struct buf b;

    buf_init(&b, 1 << 20);
    buf_printf(&b, "{\"paths\":{%s}}", items);
    x = schema_index_parse(buf_slice(&b));
    if (x == NULL)
        tap_bail("no index: %s", items);
    buf_free(&b);
    return x;
}

/* Of example.com nothing is taken from others. */
static bool excluded(void *arg, struct slice group, struct slice version)
{
    (void)arg;
    (void)version;
    return slice_eq(group, SLICE_LIT("example.com"));
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

static bool merged(const struct schema_merge *m, struct buf *out)
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

static void test_rows(void)
{
    static const struct {
        const char *base, *one, *two; /* NULL: none */
        const char *want;             /* NULL: nothing is added */
        const char *what;
    } rows[] = {
        {ITEM("api/v1", "A"), ITEM("api/v1", "B"), NULL, NULL, "the same paths: the base's hashes"},
        {ITEM("api/v1", "A"), NULL, NULL, NULL, "nothing is known of others"},
        {ITEM("apis/b/v1", "A"), ITEM("apis/a/v1", "B") "," ITEM("apis/c", "C"), NULL,
         ITEM("apis/a/v1", "B") "," ITEM("apis/b/v1", "A") "," ITEM("apis/c", "C"), "before and behind, in order"},
        {ITEM("apis/b/v1", "A"), ITEM("apis/a/v1", "B"), ITEM("apis/a/v1", "C") "," ITEM("version", "D"),
         ITEM("apis/a/v1", "B") "," ITEM("apis/b/v1", "A") "," ITEM("version", "D"), "of two the first"},
        {ITEM("api/v1", "A"), ITEM("apis/example.com/v1", "B"), NULL, NULL, "what is excluded"},
        {ITEM("apis/example.com/v1", "A"), ITEM("apis/x/v1", "B"), NULL,
         ITEM("apis/example.com/v1", "A") "," ITEM("apis/x/v1", "B"), "the base's own of it stays"},
        {ITEM("api/v1", "A"), "\"apis/x/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/x/v1\"}", NULL, NULL,
         "without a hash it cannot be found again"},
        {ITEM("api/v1", "A"), "\"apis/x/v1\":{\"serverRelativeURL\":\"https://evil/?hash=1\"}", NULL,
         ITEM("api/v1", "A") "," ITEM("apis/x/v1", "1"), "a peer does not say where clients go"},
        {ITEM("api/v1", "A"), "\"apis/\\u0022x/v1\":{\"serverRelativeURL\":\"/?hash=1\"}", NULL, NULL,
         "nor what is outside its string"},
        {ITEM("api/v1", "A"), ITEM("apis/x/v1", "a b") "," ITEM("apis/y/v1", "a#b") "," ITEM("apis/z/v1", ""), NULL,
         NULL, "nor by its hash"},
        {ITEM("api/v1", "A"), ITEM("apis/x/../v1", "B") "," ITEM(".", "B") "," ITEM("apis//v1", "B"), NULL, NULL,
         "nor by a path with another meaning"},
        {ITEM("api/v1", "A"), ITEM("apis?x/v1", "B") "," ITEM("a%2e", "B") "," ITEM("", "B") "," ITEM("apis/", "B"),
         NULL, NULL, "nor by one that is a URL's other parts"},
        {ITEM("api/v1", "A"), ITEM("apis/a-b.io/v1alpha9", "09AZaz-._~") "," ITEM("logs/v1_Z~9", "B"), NULL,
         ITEM("api/v1", "A") "," ITEM("apis/a-b.io/v1alpha9", "09AZaz-._~") "," ITEM("logs/v1_Z~9", "B"),
         "all that names and hashes consist of"},
        {ITEM("api/v1", "A"),
         ITEM("api/1", "B") "," ITEM("apis/A/v1", "B") "," ITEM("apis/a_b/v1", "B") "," ITEM("apis/a/v_1", "B"), NULL,
         NULL, "nor by what no group or version is called"},
        {ITEM("api/v1", "A"), ITEM(".well-known/..x", "B"), NULL, ITEM(".well-known/..x", "B") "," ITEM("api/v1", "A"),
         "and dots"},
        {"", ITEM("api/v1", "A"), NULL, ITEM("api/v1", "A"), "an empty base"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct schema_index *base = parse(rows[i].base), *one = rows[i].one == NULL ? NULL : parse(rows[i].one),
                            *two = rows[i].two == NULL ? NULL : parse(rows[i].two);
        const struct schema_index *others[] = {base, one, two};
        const struct schema_merge m = {.base = base, .others = others, .n_others = 3, .excluded = excluded};
        struct buf out, want;

        buf_init(&out, 1 << 20);
        buf_init(&want, 1 << 20);
        buf_printf(&want, "{\"paths\":{%s}}", rows[i].want != NULL ? rows[i].want : rows[i].base);
        ok(schema_merge_adds(&m, SIZE_MAX) == (rows[i].want != NULL), "%s: is anything added", rows[i].what);
        ok(merged(&m, &out), "%s: written", rows[i].what);
        ok(slice_eq(buf_slice(&out), buf_slice(&want)), "%s", rows[i].what);
        if (!slice_eq(buf_slice(&out), buf_slice(&want)))
            diag("%.*s", (int)buf_len(&out), buf_slice(&out).p);
        buf_free(&out);
        buf_free(&want);
        schema_index_unref(base);
        schema_index_unref(one);
        schema_index_unref(two);
    }
}

static void test_bounds(void)
{
    struct schema_index *base = parse(ITEM("api/v1", "A")), *one = parse(ITEM("apis/a/v1", "B"));
    const struct schema_index *others[] = {one};
    const struct schema_merge m = {.base = base, .others = others, .n_others = 1, .excluded = excluded};
    struct buf out;

    buf_init(&out, 30);
    ok(!merged(&m, &out), "over the ceiling");
    buf_free(&out);
    for (unsigned nth = 1; nth < 4; nth++) {
        bool good;

        buf_init(&out, 1 << 20);
        mem_fail_nth(nth);
        good = merged(&m, &out);
        mem_fail_nth(0);
        ok(!good || buf_len(&out) > 100, "all or nothing, allocation %u", nth);
        buf_free(&out);
    }
    schema_index_unref(base);
    schema_index_unref(one);
}

/* Of apis/b/v1 the second server has all resources that there are. */
static bool outdone(void *arg, const struct schema_index *other, struct slice group, struct slice version)
{
    return other == arg && slice_eq(group, SLICE_LIT("b")) && slice_eq(version, SLICE_LIT("v1"));
}

static void test_outdone(void)
{
    struct schema_index *base = parse(ITEM("apis/a/v1", "A") "," ITEM("apis/b/v1", "A") "," ITEM("apis/c/v1", "A")),
                        *one = parse(ITEM("apis/b/v1", "B")),
                        *two = parse(ITEM("apis/a/v1", "C") "," ITEM("apis/b/v1", "C"));
    const struct schema_index *others[] = {one, two};
    struct schema_merge m = {
        .base = base, .others = others, .n_others = 2, .excluded = excluded, .outdone = outdone, .arg = two};
    struct buf out;

    buf_init(&out, 1 << 20);
    ok(schema_merge_adds(&m, SIZE_MAX) && merged(&m, &out), "of the same paths another one knows more");
    is_slice(buf_slice(&out),
             "{\"paths\":{" ITEM("apis/a/v1", "A") "," ITEM("apis/b/v1", "C") "," ITEM("apis/c/v1", "A") "}}",
             "its hash takes the place of the base's");
    m.n_others = 1;
    ok(!schema_merge_adds(&m, SIZE_MAX), "nobody else's");
    buf_free(&out);
    schema_index_unref(base);
    schema_index_unref(one);
    schema_index_unref(two);
}

int main(void)
{
    test_rows();
    test_outdone();
    test_bounds();
    return tap_end();
}
