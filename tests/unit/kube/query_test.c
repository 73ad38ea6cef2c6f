/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/query.h"

#include "base/buf.h"
#include "lib/tap.h"

static const struct {
    const char *name, *query, *want;
} pairs[] = {
    {"nothing", "", ""},
    {"one", "a=b", "[a=b]"},
    {"order is kept", "b=2&a=1&b=3", "[b=2][a=1][b=3]"},
    {"no value", "watch&x=", "[watch=][x=]"},
    {"value with equals signs", "fieldSelector=metadata.name==x", "[fieldSelector=metadata.name==x]"},
    {"escapes", "a%20b=%2F+c", "[a b=/ c]"},
    {"empty pairs are skipped", "&&a=1&", "[a=1]"},
    {"pairs with a semicolon are skipped", "a=1;b=2&c=3", "[c=3]"},
    {"a malformed key is skipped", "%zz=1&a=1", "[a=1]"},
    {"a malformed value is skipped", "a=%4&b=1", "[b=1]"},
    {"only malformed ones", "%=1&b=%", ""},
    {"an empty key is one", "=1", "[=1]"},
};

static const struct {
    const char *name, *query;
    bool watch;
    const char *object;
} options[] = {
    {"none", "", false, ""},
    {"watch=true", "watch=true", true, ""},
    {"watch=1", "watch=1&limit=5", true, ""},
    {"watch=0", "watch=0", false, ""},
    {"watch=false", "watch=false", false, ""},
    {"an exact name", "fieldSelector=metadata.name%3Dx", false, "x"},
    {"a name with ==", "watch=true&fieldSelector=metadata.name%3D%3Dx", true, "x"},
    {"an inequality", "fieldSelector=metadata.name!%3Dx", false, ""},
    {"not a path segment", "fieldSelector=metadata.name%3D..", false, ""},
};

static void iteration(struct arena *a)
{
    for (size_t i = 0; i < ROWS(pairs); i++) {
        /* What the caller had there before must not matter. */
        struct slice key = SLICE_NONE, value = SLICE_NONE;
        struct query_iter it;
        struct buf got;

        buf_init(&got, 1000);
        query_begin(&it, a, slice_str(pairs[i].query));
        while (query_next(&it, &key, &value))
            buf_printf(&got, "[%.*s=%.*s]", (int)key.n, key.p, (int)value.n, value.p);
        is_slice(buf_slice(&got), pairs[i].want, "%s", pairs[i].name);
        ok(!it.no_memory, "%s: read to the end", pairs[i].name);
        buf_free(&got);
    }
}

static void out_of_memory(void)
{
    struct arena *tiny = arena_new(16);
    struct slice key, value;
    struct query_iter it;

    query_begin(&it, tiny, SLICE_LIT("a=%41%41%41%41%41%41%41%41%41%41%41%41%41%41%41%41&b=1"));
    ok(!query_next(&it, &key, &value) && it.no_memory, "out of memory is not the end of the query");
    arena_free(tiny);
}

int main(void)
{
    struct arena *a = arena_new(1 << 20);

    iteration(a);
    for (size_t i = 0; i < ROWS(options); i++) {
        struct list_options got;

        ok(query_list_options(a, slice_str(options[i].query), &got), "%s: read", options[i].name);
        is_int(got.watch, options[i].watch, "%s: watch", options[i].name);
        is_slice(got.name, options[i].object, "%s: name", options[i].name);
    }
    out_of_memory();
    arena_free(a);
    return tap_end();
}
