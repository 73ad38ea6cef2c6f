/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery documents in protobuf form: byte for byte what real kube-apiservers answered, and whatever else may stand
 * in a document. vectors/ has pairs of answers of the same server to the same question in both media types.
 */
#include "kube/disco_proto.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "kube/disco_parse.h"
#include "kube/pbwrite.h"
#include "lib/proto_check.h"
#include "lib/tap.h"

#define HEAD "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["

static struct disco_doc *must_parse(struct slice text)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(text, &err);

    if (d == NULL)
        tap_bail("%s: %.*s", err.text, (int)text.n, text.p);
    return d;
}

/* ---- real answers ---- */

static void read_file(const char *name, struct buf *out)
{
    const char *src = getenv("top_srcdir");
    char path[512];
    FILE *f;
    int c;

    (void)snprintf(path, sizeof(path), "%s/tests/unit/kube/vectors/%s", src == NULL ? "." : src, name);
    f = fopen(path, "rb");
    if (f == NULL)
        tap_bail("cannot read %s", path);
    buf_init(out, 1 << 20);
    while ((c = getc(f)) != EOF)
        buf_append_char(out, (char)c);
    (void)fclose(f);
}

static bool same_bytes(struct slice got, struct slice want, const char *name)
{
    size_t i = 0;

    if (slice_eq(got, want))
        return true;
    while (i < got.n && i < want.n && got.p[i] == want.p[i])
        i++;
    diag("%s: %zu bytes, not %zu; they differ from byte %zu on", name, got.n, want.n, i);
    return false;
}

static void test_vectors(void)
{
    static const struct {
        const char *version, *form;
    } rows[] = {{"1.33.13", "v2"}, {"1.33.13", "v2beta1"}, {"1.34.4", "v2"}, {"1.36.3", "v2"}};
    static const size_t budgets[] = {1, 4096, SIZE_MAX};

    for (size_t i = 0; i < ROWS(rows); i++) {
        enum disco_form form = strcmp(rows[i].form, "v2") == 0 ? DISCO_V2 : DISCO_V2BETA1;
        char name[64], api_version[64];
        struct buf json, want, got;
        struct disco_doc *doc;

        (void)snprintf(name, sizeof(name), "discovery-%s-%s.json", rows[i].version, rows[i].form);
        read_file(name, &json);
        (void)snprintf(name, sizeof(name), "discovery-%s-%s.protobuf", rows[i].version, rows[i].form);
        read_file(name, &want);
        (void)snprintf(api_version, sizeof(api_version), DISCO_GROUP "/%s", rows[i].form);
        doc = must_parse(buf_slice(&json));
        ok(disco_doc_n_groups(doc) > 20, "%s: a whole server's document", name);
        for (size_t b = 0; b < ROWS(budgets); b++) {
            buf_init(&got, 1 << 20);
            ok(pb_encode(doc, budgets[b], form, &got) && same_bytes(buf_slice(&got), buf_slice(&want), name),
               "%s: the same bytes, in steps of %zu", name, budgets[b]);
            buf_free(&got);
        }
        ok(pb_agrees(buf_slice(&want), doc, api_version), "%s: reads as the JSON form does", name);
        disco_doc_unref(doc);
        buf_free(&json);
        buf_free(&want);
    }
}

/* ---- other shapes ---- */

#define LISTED(groups) "\x0a\x06\x0a\0\x12\0\x1a\0" groups
#define META(name) name "\x12\0\x1a\0\x22\0\x2a\0\x32\0\x38\0\x42\0"

static void check_message(const char *json, struct slice list, const char *name)
{
    struct disco_doc *doc = must_parse(slice_str(json));
    struct slice in, type, got = SLICE_NONE;
    struct buf out;

    buf_init(&out, 1 << 20);
    ok(pb_encode(doc, 1, DISCO_V2, &out), "%s: written", name);
    ok(pb_agrees(buf_slice(&out), doc, DISCO_GROUP "/v2"), "%s: reads as the JSON form does", name);
    in = slice_from(buf_slice(&out), 4);
    ok(pb_take(&in, 1, &type) && pb_take(&in, 2, &got) && same_bytes(got, list, name), "%s: the bytes", name);
    buf_free(&out);
    disco_doc_unref(doc);
}

static void test_shapes(void)
{
    check_message(HEAD "]}", SLICE_LIT(LISTED("")), "no groups");
    check_message(HEAD "{\"metadata\":{}}]}", SLICE_LIT(LISTED("\x12\x12\x0a\x10" META("\x0a\0"))), "nothing in it");
    check_message(HEAD "{\"metadata\":{\"name\":\"a\",\"odd\":{\"x\":\"y\"}},\"odd\":1,\"versions\":[{\"version\":"
                       "\"v\\u0031\",\"odd\":[{}],\"resources\":null}]}]}",
                  SLICE_LIT(LISTED("\x12\x1b\x0a\x11" META("\x0a\x01"
                                                           "a") "\x12\x06\x0a\x02v1\x1a\0")),
                  "escapes; unknown fields are left out");
    check_message(HEAD
                  "{\"metadata\":{\"name\":\"a\"},\"versions\":[{\"version\":\"v\",\"freshness\":\"Stale\","
                  "\"resources\":[{\"resource\":\"r\",\"responseKind\":null,\"scope\":null,\"singularResource\":null,"
                  "\"verbs\":null,\"shortNames\":null,\"categories\":[null,\"c\"],\"subresources\":[{\"subresource\":"
                  "\"s\",\"responseKind\":{},\"acceptedTypes\":[{\"kind\":\"K\"},null],\"verbs\":[\"get\"]}]}]}]}"
                  "]}",
                  SLICE_LIT(LISTED("\x12\x50\x0a\x11" META("\x0a\x01\x61") "\x12\x3b\x0a\x01v\x12\x2f\x0a\x01r\x1a\0"
                                                                           "\x22\0\x3a\0\x3a\x01\x63\x42\x21\x0a"
                                                                           "\x01s\x12\x06\x0a\0\x12\0\x1a\0\x1a\x07"
                                                                           "\x0a\0\x12\0\x1a\x01K\x1a\x06\x0a\0\x12"
                                                                           "\0\x1a\0\x22\x03get\x1a\x05Stale")),
                  "null, or empty");
}

/* Lengths of one, two and three bytes at every level. */
static void test_long(void)
{
    static const size_t lengths[] = {1, 127, 128, 300, 16383, 16384, 70000};

    for (size_t i = 0; i < ROWS(lengths); i++) {
        struct disco_doc *doc;
        struct buf json, out;

        buf_init(&json, 1 << 20);
        buf_init(&out, 1 << 20);
        buf_append_str(&json, HEAD "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{"
                                   "\"resource\":\"r\",\"scope\":\"");
        for (size_t k = 0; k < lengths[i]; k++)
            buf_append_char(&json, 'x');
        buf_append_str(&json, "\"},{\"resource\":\"s\"}]},{\"version\":\"v2\"}]},{\"metadata\":{\"name\":\"h\"}}]}");
        doc = must_parse(buf_slice(&json));
        ok(pb_encode(doc, 1, DISCO_V2BETA1, &out) && pb_agrees(buf_slice(&out), doc, DISCO_GROUP "/v2beta1"),
           "a text of %zu bytes", lengths[i]);
        disco_doc_unref(doc);
        buf_free(&json);
        buf_free(&out);
    }
}

/* Decoded texts of one resource have room for 8 MiB; of them all they may be more. */
static void test_many_long(void)
{
    enum { RESOURCES = 24, TEXT = 450 << 10 };
    struct disco_doc *doc;
    struct buf json, out;

    buf_init(&json, 16 << 20);
    buf_init(&out, 16 << 20);
    buf_append_str(&json, HEAD "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[");
    for (unsigned i = 0; i < RESOURCES; i++) {
        buf_printf(&json, "%s{\"resource\":\"r%u\",\"singularResource\":\"\\n", i == 0 ? "" : ",", i);
        for (size_t k = 0; k < TEXT; k++)
            buf_append_char(&json, 'x');
        buf_append_str(&json, "\"}");
    }
    buf_append_str(&json, "]}]}]}");
    doc = must_parse(buf_slice(&json));
    ok(pb_encode(doc, 1 << 20, DISCO_V2, &out) && pb_agrees(buf_slice(&out), doc, DISCO_GROUP "/v2"),
       "%zu bytes of texts with escapes", buf_len(&json));
    disco_doc_unref(doc);
    buf_free(&json);
    buf_free(&out);
}

static void test_memory(void)
{
    struct disco_doc *doc = must_parse(SLICE_LIT(
        HEAD "{\"metadata\":{\"name\":\"a\"},\"versions\":[{\"version\":\"v\",\"resources\":[{\"resource\":\"r\","
             "\"responseKind\":{\"kind\":\"\\u0041\"},\"singularResource\":\"\\u0041\",\"shortNames\":[\"\\u0041\"],"
             "\"subresources\":[{\"subresource\":\"s\"}]}]}]}]}"));
    struct buf out;
    unsigned failed = 0;

    for (uint64_t n = 1; n < 100; n++) {
        uint64_t before = mem_calls();
        bool good;

        buf_init(&out, 1 << 20);
        mem_fail_nth(n);
        good = pb_encode(doc, SIZE_MAX, DISCO_V2, &out);
        mem_fail_nth(0);
        failed += good ? 0 : 1;
        buf_free(&out);
        if (good && mem_calls() - before < n)
            break;
    }
    ok(failed > 5, "each failing allocation is a failure and no more (%u)", failed);
    disco_doc_unref(doc);
}

static void test_varints(void)
{
    struct buf out;

    buf_init(&out, 100);
    ok(pb_put_header(&out, 1, 0) && pb_put_header(&out, 15, 128) && pb_put(&out, 4, SLICE_LIT("ab")), "written");
    ok(same_bytes(buf_slice(&out),
                  SLICE_LIT("\x0a\0\x7a\x80\x01\x22\x02"
                            "ab"),
                  "lengths"),
       "lengths and bytes");
    is_u64(pb_field_bytes(0), 2, "an empty field");
    is_u64(pb_field_bytes(127), 129, "the longest with one byte of length");
    is_u64(pb_field_bytes(128), 131, "the shortest with two");
    buf_free(&out);
    buf_init(&out, 3);
    ok(!pb_put(&out, 1, SLICE_LIT("abc")), "a buffer's ceiling");
    buf_free(&out);
}

int main(void)
{
    test_vectors();
    test_shapes();
    test_long();
    test_many_long();
    test_memory();
    test_varints();
    return tap_end();
}
