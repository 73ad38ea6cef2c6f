/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/schema_index.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "lib/tap.h"

#define ITEM(path, url) "\"" path "\":{\"serverRelativeURL\":\"" url "\"}"

static struct slice hash_of(const struct schema_index *x, const char *group, const char *version)
{
    return schema_index_hash(x, slice_str(group), slice_str(version));
}

static void test_index(void)
{
    static const char text[] =
        "{\"more\":[1,{}],\"paths\":{"
        "\"apis/batch/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/batch/v1?hash=AB12\"},"
        "\"api/v1\":{\"serverRelativeURL\":\"/openapi/v3/api/v1?x=1&hash=CD\"},"
        "\".well-known/openid-configuration\":{\"serverRelativeURL\":\"/openapi/v3/.well-known?hash=1\"},"
        "\"apis\":{\"serverRelativeURL\":\"/a?hash=1\"},"
        "\"apis/apps\":{\"serverRelativeURL\":\"/a?hash=1\"},"
        "\"apis/apps/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/apps/v1\"},"
        "\"apis/x/v1\":7,\"apis/y/v1\":{}}}";
    struct schema_index *x = schema_index_parse(slice_str(text));
    struct slice group, version;

    ok(x != NULL, "an index");
    is_u64(schema_index_count(x), 6, "what has a URL");
    ok(slice_eq(hash_of(x, "batch", "v1"), SLICE_LIT("AB12")), "of a group");
    ok(slice_eq(hash_of(x, "", "v1"), SLICE_LIT("CD")), "of the core group, among other parameters");
    is_u64(hash_of(x, "apps", "v1").n + hash_of(x, "batch", "v2").n, 0, "none");
    is_slice(schema_index_at(x, 1)->path, "api/v1", "in order");
    is_slice(schema_index_find(x, SLICE_LIT("api/v1"))->url, "/openapi/v3/api/v1?x=1&hash=CD", "found by path");
    is_slice(schema_index_find(x, SLICE_LIT("apis/apps"))->hash, "1", "a group");
    ok(schema_index_find(x, SLICE_LIT("apis/none/v1")) == NULL && schema_index_find(NULL, SLICE_LIT("api/v1")) == NULL,
       "not found");
    ok(schema_path_names(SLICE_LIT("api/v1"), &group, &version) && group.n == 0 && slice_eq(version, SLICE_LIT("v1")),
       "the core group's path");
    ok(schema_path_names(SLICE_LIT("apis/a.b/v2"), &group, &version) && slice_eq(group, SLICE_LIT("a.b")),
       "another group's");
    ok(!schema_path_names(SLICE_LIT("apis/apps"), &group, &version) &&
           !schema_path_names(SLICE_LIT("version"), &group, &version) &&
           !schema_path_names(SLICE_LIT("apis//v1"), &group, &version) &&
           !schema_path_names(SLICE_LIT("apis/a/b/c"), &group, &version),
       "what is none");
    schema_index_unref(schema_index_ref(x));
    schema_index_unref(x);
    is_u64(hash_of(NULL, "", "v1").n, 0, "nothing is known of nothing");
}

/* Each is looked at for every client that asks for the index. */
static void too_long(void)
{
    struct buf b;
    struct schema_index *x;

    buf_init(&b, 1 << 20);
    buf_printf(&b, "{\"paths\":{\"%01030d\":{\"serverRelativeURL\":\"/a?hash=1\"},", 7);
    buf_printf(&b, "\"%01031d\":{\"serverRelativeURL\":\"/a?hash=1\"},", 7);
    buf_printf(&b, "\"b\":{\"serverRelativeURL\":\"/b?hash=%01300d\"}," ITEM("c", "/c?hash=1") "}}", 7);
    x = schema_index_parse(buf_slice(&b));
    ok(x != NULL && schema_index_count(x) == 2, "a path or URL that no server has is left out, others are not");
    ok(schema_index_find(x, SLICE_LIT("b")) == NULL && schema_index_find(x, SLICE_LIT("c")) != NULL, "these");
    schema_index_unref(x);
    buf_free(&b);
}

/* Of so many group/versions, in the order that the stride makes. */
static void put_many(struct buf *b, unsigned n, unsigned stride)
{
    buf_init(b, 8 << 20);
    buf_append_str(b, "{\"paths\":{");
    for (unsigned i = 0; i < n; i++)
        buf_printf(b, "%s" ITEM("apis/g%05u/v1", "/x?hash=1"), i == 0 ? "" : ",", (unsigned)((uint64_t)i * stride % n));
    buf_append_str(b, "}}");
}

static void test_refused(void)
{
    static const char *const rows[] = {"",
                                       "[]",
                                       "{}",
                                       "{\"paths\":[]}",
                                       "{\"paths\":{}",
                                       "{\"paths\":{}} x",
                                       "{\"paths\":{\"api/v1\"}}",
                                       "{\"paths\":{\"a\":[[[[[[[[[[]]]]]]]]]]}}"};
    struct schema_index *x;
    struct buf b;

    for (size_t i = 0; i < ROWS(rows); i++)
        ok(schema_index_parse(slice_str(rows[i])) == NULL, "refused: %s", rows[i]);
    x = schema_index_parse(SLICE_LIT("{\"paths\":{}}"));
    ok(x != NULL && schema_index_count(x) == 0, "an empty one is one");
    schema_index_unref(x);
    put_many(&b, LIMIT_SCHEMAS + 1, 1);
    ok(schema_index_parse(buf_slice(&b)) == NULL, "more than %d", LIMIT_SCHEMAS);
    buf_free(&b);
    buf_init(&b, 4 << 20);
    buf_append_str(&b, "{\"other\":\"");
    for (unsigned i = 0; i < 300 << 10; i++)
        buf_append_char(&b, 'x');
    buf_append_str(&b, "\",\"paths\":{}}");
    ok(schema_index_parse(buf_slice(&b)) == NULL, "a part that would take too long");
    buf_free(&b);
}

/* In any order, as long as each is read in steps; the first of those for one path counts. */
static void test_many(void)
{
    static const unsigned strides[] = {1, 7919, 30000 - 1};

    for (size_t i = 0; i < ROWS(strides); i++) {
        struct schema_index *x = NULL;
        struct schema_reader *r;
        struct quota quota;
        unsigned steps = 0, ordered = 1;
        size_t most = 0;
        struct buf b;

        put_many(&b, 30000, strides[i]);
        quota_init(&quota, NULL, 0);
        r = schema_reader_new(buf_slice(&b), &quota);
        for (; r != NULL && schema_reader_step(r, &x) == STEP_MORE; steps++)
            most = quota.held > most ? quota.held : most;
        schema_reader_free(r);
        buf_free(&b);
        is_u64(schema_index_count(x), 30000, "all of many, stride %u", strides[i]);
        for (size_t k = 1; k < schema_index_count(x); k++)
            ordered += slice_cmp(schema_index_at(x, k - 1)->path, schema_index_at(x, k)->path) < 0;
        is_u64(ordered, 30000, "in order");
        ok(steps > 20, "in %u steps", steps);
        ok(quota.held > 2 << 20, "%zu bytes are charged", quota.held);
        ok((most >= quota.held + 30000 * sizeof(struct schema_entry)) == (i > 0), "and what it takes to sort them");
        is_slice(hash_of(x, "g29999", "v1"), "1", "found");
        schema_index_unref(x);
        is_u64(quota.held, 0, "and given back");
    }
}

/* In the middle of reading, sorting or comparing it gives back all that it has charged. */
static void test_given_up(void)
{
    enum step step = STEP_MORE;
    unsigned most = 0, charged = 0;
    struct quota quota;
    struct buf b;

    put_many(&b, 3000, 7919);
    quota_init(&quota, NULL, 0);
    while (step == STEP_MORE && most < 1000) {
        struct schema_reader *r = schema_reader_new(buf_slice(&b), &quota);
        struct schema_index *x = NULL;

        most++;
        step = STEP_MORE;
        for (unsigned n = 0; n < most && step == STEP_MORE; n++)
            step = schema_reader_step(r, &x);
        schema_index_unref(x);
        schema_reader_free(r);
        charged += quota.held > 0;
    }
    ok(step == STEP_DONE && most > 5, "given up after each number of steps up to %u", most);
    is_int(charged, 0, "nothing stays charged");
    buf_free(&b);
}

static void test_twice(void)
{
    struct schema_index *x = schema_index_parse(SLICE_LIT("{\"paths\":{" ITEM("apis/b/v1", "/x?hash=1") "," ITEM(
        "apis/a/v1", "/x?hash=2") "," ITEM("apis/b/v1", "/x?hash=3") "}}"));

    is_u64(schema_index_count(x), 2, "one of each path");
    is_slice(hash_of(x, "b", "v1"), "1", "the first one");
    schema_index_unref(x);
}

static void test_memory(void)
{
    struct slice text = SLICE_LIT("{\"paths\":{" ITEM("apis/batch/v\\u0031", "/x?hash=\\u0041B") "}}");
    unsigned failed = 0;

    for (unsigned i = 1; i < 10; i++) {
        struct schema_index *x;
        bool read;

        mem_fail_nth(i);
        read = schema_index_read(text, &x);
        mem_fail_nth(0);
        failed += !read;
        ok(read == (x != NULL), "that it is out of memory is told, allocation %u", i);
        ok(x == NULL || slice_eq(hash_of(x, "batch", "v1"), SLICE_LIT("AB")), "all or nothing, allocation %u", i);
        schema_index_unref(x);
    }
    ok(failed >= 3, "%u failed", failed);
}

static void test_no_stack(void)
{
    struct schema_reader *r = schema_reader_new(SLICE_LIT("{\"paths\":{}}"), NULL);
    struct schema_index *x;

    mem_fail_nth(1);
    is_int(schema_reader_step(r, &x), STEP_FAILED, "it cannot be read without a stack");
    mem_fail_nth(0);
    ok(schema_reader_starved(r), "which is for want of memory");
    schema_reader_free(r);
}

int main(void)
{
    test_index();
    too_long();
    test_refused();
    test_many();
    test_given_up();
    test_twice();
    test_memory();
    test_no_stack();
    return tap_end();
}
