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
    is_u64(schema_index_count(x), 2, "group/versions with a hash only");
    ok(slice_eq(hash_of(x, "batch", "v1"), SLICE_LIT("AB12")), "of a group");
    ok(slice_eq(hash_of(x, "", "v1"), SLICE_LIT("CD")), "of the core group, among other parameters");
    is_u64(hash_of(x, "apps", "v1").n + hash_of(x, "batch", "v2").n, 0, "none");
    schema_index_at(x, 0, &group, &version);
    ok(group.n == 0 && slice_eq(version, SLICE_LIT("v1")), "in order");
    schema_index_unref(schema_index_ref(x));
    schema_index_unref(x);
    is_u64(hash_of(NULL, "", "v1").n, 0, "nothing is known of nothing");
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
    buf_init(&b, 4 << 20);
    buf_append_str(&b, "{\"paths\":{");
    for (unsigned i = 0; i <= LIMIT_SCHEMAS; i++)
        buf_printf(&b, "%s" ITEM("apis/g%u/v1", "/x?hash=1"), i == 0 ? "" : ",", i);
    buf_append_str(&b, "}}");
    ok(schema_index_parse(buf_slice(&b)) == NULL, "more than %d", LIMIT_SCHEMAS);
    buf_free(&b);
}

static void test_memory(void)
{
    struct slice text = SLICE_LIT("{\"paths\":{" ITEM("apis/batch/v1", "/x?hash=AB") "}}");

    for (unsigned i = 1; i < 10; i++) {
        struct schema_index *x;

        mem_fail_nth(i);
        x = schema_index_parse(text);
        mem_fail_nth(0);
        ok(x == NULL || slice_eq(hash_of(x, "batch", "v1"), SLICE_LIT("AB")), "all or nothing, allocation %u", i);
        schema_index_unref(x);
    }
}

static void test_release(void)
{
    static const struct {
        const char *document;
        uint64_t major, minor, patch;
    } rows[] = {
        {"{\"major\":\"1\",\"gitVersion\":\"v1.34.4\"}", 1, 34, 4},
        {"{\"gitVersion\":\"v1.34.4-gke.100+abc\"}", 1, 34, 4},
        {"{\"gitVersion\":\"v1.35.0-alpha.1\"}", 1, 35, 0},
        {"{\"gitVersion\":\"v2\"}", 2, 0, 0},
        {"{\"gitVersion\":\"1.34\"}", 0, 0, 0},
        {"{\"gitVersion\":7}", 0, 0, 0},
        {"{}", 0, 0, 0},
        {"no", 0, 0, 0},
        {"{\"gitVersion\":\"v\"}", 0, 0, 0},
    };

    for (size_t i = 0; i < ROWS(rows); i++)
        is_u64(schema_release(slice_str(rows[i].document)), rows[i].major << 40 | rows[i].minor << 20 | rows[i].patch,
               "release of %s", rows[i].document);
}

int main(void)
{
    test_index();
    test_refused();
    test_memory();
    test_release();
    return tap_end();
}
