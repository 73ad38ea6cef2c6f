/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Legacy discovery in protobuf form: byte for byte what real kube-apiservers answered, and whatever else may stand in
 * it. vectors/ has pairs of answers of the same server to the same question in both media types.
 */
#include "kube/legacy_proto.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "lib/tap.h"

static void read_file(const char *name, const char *form, struct buf *out)
{
    const char *src = getenv("top_srcdir");
    char path[512];
    FILE *f;
    int c;

    (void)snprintf(path, sizeof(path), "%s/tests/unit/kube/vectors/legacy-%s.%s", src == NULL ? "." : src, name, form);
    f = fopen(path, "rb");
    if (f == NULL)
        tap_bail("cannot read %s", path);
    buf_init(out, 1 << 20);
    while ((c = getc(f)) != EOF)
        buf_append_char(out, (char)c);
    (void)fclose(f);
}

static bool same_bytes(struct slice got, struct slice want)
{
    size_t i = 0;

    if (slice_eq(got, want))
        return true;
    while (i < got.n && i < want.n && got.p[i] == want.p[i])
        i++;
    diag("%zu bytes, not %zu; they differ from byte %zu on", got.n, want.n, i);
    return false;
}

static void test_vectors(void)
{
    static const char *const names[] = {
        "1.24.17-apis",  "1.24.17-api_v1",      "1.24.17-apis_autoscaling", "1.24.17-apis_apps_v1", "1.36.3-apis",
        "1.36.3-api_v1", "1.36.3-apis_apps_v1", "1.36.3-apis_autoscaling",  "1.36.3-forbidden",     "1.36.3-unknown"};

    for (size_t i = 0; i < ROWS(names); i++) {
        struct buf json, want, got;

        read_file(names[i], "json", &json);
        read_file(names[i], "protobuf", &want);
        buf_init(&got, 1 << 20);
        ok(legacy_proto_encode(buf_slice(&json), &got) && same_bytes(buf_slice(&got), buf_slice(&want)),
           "%s: the same bytes as the server's", names[i]);
        buf_free(&json);
        buf_free(&want);
        buf_free(&got);
    }
}

/* ---- other shapes ---- */

#define KIND(kind) "{\"kind\":\"" kind "\",\"apiVersion\":\"v1\""
#define ENVELOPE(type_bytes, kind, raw_bytes) "k8s\0\x0a" type_bytes "\x0a\x02v1\x12" kind "\x12" raw_bytes
#define REST "\x32\0\x42\0\x4a\0\x52\0"
#define BEHIND "\x1a\0\x22\0"
#define GROUP_LIST(raw_bytes)                                                                                          \
    ENVELOPE("\x12",                                                                                                   \
             "\x0c"                                                                                                    \
             "APIGroupList",                                                                                           \
             raw_bytes)
#define GROUP(raw_bytes)                                                                                               \
    ENVELOPE("\x0e",                                                                                                   \
             "\x08"                                                                                                    \
             "APIGroup",                                                                                               \
             raw_bytes)
#define RESOURCE_LIST(raw_bytes)                                                                                       \
    ENVELOPE("\x15",                                                                                                   \
             "\x0f"                                                                                                    \
             "APIResourceList",                                                                                        \
             raw_bytes)
#define STATUS(raw_bytes)                                                                                              \
    ENVELOPE("\x0c",                                                                                                   \
             "\x06"                                                                                                    \
             "Status",                                                                                                 \
             raw_bytes)

static void test_shapes(void)
{
    static const struct {
        const char *json;
        struct slice want;
        const char *what;
    } rows[] = {
        {KIND("APIGroupList") "}", SLICE_LIT(GROUP_LIST("\0") BEHIND), "no groups"},
        {KIND("APIGroupList") ",\"groups\":null,\"odd\":{\"groups\":[1]}}", SLICE_LIT(GROUP_LIST("\0") BEHIND),
         "null, and what is not known"},
        {KIND("APIGroupList") ",\"groups\":[null,{}]}",
         SLICE_LIT(GROUP_LIST("\x14") "\x0a\x08\x0a\0\x1a\x04\x0a\0\x12\0"
                                      "\x0a\x08\x0a\0\x1a\x04\x0a\0\x12\0" BEHIND),
         "what Go reads as an empty group"},
        {KIND("APIGroup") ",\"name\":\"\\u0061\",\"serverAddressByClientCIDRs\":[{\"clientCIDR\":\"c\","
                          "\"serverAddress\":\"s\"}]}",
         SLICE_LIT(GROUP("\x11") "\x0a\x01"
                                 "a"
                                 "\x1a\x04\x0a\0\x12\0"
                                 "\x22\x06\x0a\x01"
                                 "c"
                                 "\x12\x01"
                                 "s" BEHIND),
         "escapes, and addresses"},
        {KIND("APIResourceList") ",\"resources\":[{\"verbs\":[]},{\"verbs\":null,\"namespaced\":true}]}",
         SLICE_LIT(RESOURCE_LIST("\x24") "\x0a\0"
                                         "\x12\x10"
                                         "\x0a\0\x10\0\x1a\0"
                                         "\x22\0" REST "\x12\x0e"
                                         "\x0a\0\x10\x01\x1a\0" REST BEHIND),
         "no verbs in a list, and no list"},
        {KIND("Status") ",\"details\":{\"causes\":[{\"field\":\"f\"}],\"retryAfterSeconds\":300},\"code\":-1}",
         SLICE_LIT(STATUS("\x26") "\x0a\x06\x0a\0\x12\0\x1a\0"
                                  "\x12\0\x1a\0\x22\0"
                                  "\x2a\x14\x0a\0\x12\0\x1a\0"
                                  "\x22\x07\x0a\0\x12\0\x1a\x01"
                                  "f"
                                  "\x28\xac\x02\x32\0"
                                  "\x30\0" BEHIND),
         "causes, and numbers"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct buf got;

        buf_init(&got, 1 << 20);
        ok(legacy_proto_encode(slice_str(rows[i].json), &got) && same_bytes(buf_slice(&got), rows[i].want), "%s",
           rows[i].what);
        buf_free(&got);
    }
}

/* Of what is none of these nothing is said in this form. */
static void test_others(void)
{
    static const char *const rows[] = {"",
                                       "null",
                                       "[]",
                                       "{}",
                                       "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}",
                                       "{\"kind\":7}",
                                       KIND("APIGroup"),
                                       KIND("APIGroup") "} more"};

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct buf got;

        buf_init(&got, 1 << 20);
        ok(!legacy_proto_encode(slice_str(rows[i]), &got) && buf_len(&got) == 0, "no object of these: %s", rows[i]);
        buf_free(&got);
    }
}

static void test_limits(void)
{
    struct slice json =
        SLICE_LIT(KIND("APIResourceList") ",\"resources\":[{\"name\":\"\\u0061\",\"verbs\":[\"get\",\"list\"]}]}");
    struct buf got;
    unsigned failed = 0;

    for (uint64_t n = 1; n < 20; n++) {
        uint64_t before = mem_calls();
        bool good;

        buf_init(&got, 1 << 20);
        mem_fail_nth(n);
        good = legacy_proto_encode(json, &got);
        mem_fail_nth(0);
        failed += !good;
        if (mem_calls() - before >= n && good)
            diag("allocation %u is not needed", (unsigned)n);
        buf_free(&got);
    }
    ok(failed >= 5, "without memory: %u of its allocations", failed);
    buf_init(&got, 60);
    ok(!legacy_proto_encode(json, &got), "over the ceiling");
    buf_free(&got);
}

int main(void)
{
    test_vectors();
    test_shapes();
    test_others();
    test_limits();
    return tap_end();
}
