/* SPDX-License-Identifier: Apache-2.0 */
/* Legacy discovery of one server, completed with what the merged document has. */
#include "kube/legacy_heal.h"

#include "base/limits.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"

#define LIST(groups)                                                                                                   \
    "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[" groups "],\"serverAddress\":[{\"a\":1}]}\n"
#define GV(group, version) "{\"groupVersion\":\"" group "/" version "\",\"version\":\"" version "\"}"
#define GROUP(name, versions, preferred)                                                                               \
    "{\"name\":\"" name "\",\"versions\":[" versions "],\"preferredVersion\":" preferred "}"
#define RESOURCES(gv, list)                                                                                            \
    "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"" gv "\",\"resources\":[" list "]}\n"
#define PODS                                                                                                           \
    "{\"name\":\"pods\",\"singularName\":\"pod\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":[\"get\"],"            \
    "\"storageVersionHash\":\"x\"}"
#define SCALE                                                                                                          \
    "{\"name\":\"pods/scale\",\"singularName\":\"\",\"namespaced\":true,\"group\":\"autoscaling\",\"version\":\"v1\"," \
    "\"kind\":\"Scale\",\"verbs\":[\"get\",\"patch\"]}"
#define NODES                                                                                                          \
    "{\"name\":\"nodes\",\"singularName\":\"node\",\"namespaced\":false,\"kind\":\"Node\",\"verbs\":[\"get\"],"        \
    "\"shortNames\":[\"no\"],\"categories\":[\"all\"]}"

static const char merged_text[] =
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["
    "{\"metadata\":{\"name\":\"b.io\"},\"versions\":[{\"version\":\"v2\"},{\"version\":\"v1\",\"resources\":["
    "{\"resource\":\"pods\",\"responseKind\":{\"group\":\"b.io\",\"version\":\"v1\",\"kind\":\"Pod\"},"
    "\"scope\":\"Namespaced\",\"singularResource\":\"pod\",\"verbs\":[\"get\",\"list\"],\"subresources\":["
    "{\"subresource\":\"scale\",\"responseKind\":{\"group\":\"autoscaling\",\"version\":\"v1\",\"kind\":\"Scale\"},"
    "\"verbs\":[\"get\",\"patch\"]}]},"
    "{\"resource\":\"ghosts\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"\"},\"scope\":\"Cluster\","
    "\"singularResource\":\"\",\"verbs\":null},"
    "{\"resource\":\"nodes\",\"responseKind\":{\"group\":\"b.io\",\"version\":\"v1\",\"kind\":\"Node\"},"
    "\"scope\":\"Cluster\",\"singularResource\":\"node\",\"verbs\":[\"get\"],\"shortNames\":[\"no\"],"
    "\"categories\":[\"all\"]}]}]},"
    "{\"metadata\":{\"name\":\"a.io\"},\"versions\":[{\"version\":\"v1\"}]},"
    "{\"metadata\":{\"name\":\"empty.io\"}}]}\n";

enum call { GROUPS, ONE_GROUP, ONE_VERSION };

static enum legacy_heal heal(enum call call, struct slice answer, const struct disco_doc *merged, struct buf *out)
{
    if (call == GROUPS)
        return legacy_heal_groups(answer, merged, out);
    if (call == ONE_GROUP)
        return legacy_heal_group(answer, disco_doc_group(merged, SLICE_LIT("b.io")), out);
    return legacy_heal_resources(answer, disco_doc_version(merged, SLICE_LIT("b.io"), SLICE_LIT("v1")), out);
}

static const struct row {
    enum call call;
    const char *answer;
    enum legacy_heal result;
    const char *want; /* of HEALED */
    const char *what;
} rows[] = {
#define BOTH GV("b.io", "v2") "," GV("b.io", "v1")
#define A GROUP("a.io", GV("a.io", "v1"), GV("a.io", "v1"))
    {GROUPS, LIST(GROUP("b.io", GV("b.io", "v1") "," GV("b.io", "v2"), GV("b.io", "v1")) "," A), LEGACY_COMPLETE, NULL,
     "a list that lacks nothing, whatever its order"},
    {GROUPS, LIST(A), LEGACY_HEALED, LIST(GROUP("b.io", BOTH, GV("b.io", "v2")) "," A),
     "a group is added, in its place"},
    {GROUPS, LIST(GROUP("b.io", GV("b.io", "v1"), GV("b.io", "v1")) "," A "," GROUP("z.io", "", "{}")), LEGACY_HEALED,
     LIST(GROUP("b.io", BOTH, GV("b.io", "v2")) "," A "," GROUP("z.io", "", "{}")),
     "a version is added and preferred; a group that the document does not have stays"},
    {GROUPS, "{\"groups\":null}", LEGACY_HEALED, "{\"groups\":[" GROUP("b.io", BOTH, GV("b.io", "v2")) "," A "]}\n",
     "null"},
    {GROUPS, "{\"groups\":{}}", LEGACY_FAILED, NULL, "no list"},
    {GROUPS, "{\"groups\":[7]}", LEGACY_FAILED, NULL, "no objects"},
    {GROUPS, "{\"groups\":[", LEGACY_FAILED, NULL, "no JSON"},
    {GROUPS, "[]", LEGACY_FAILED, NULL, "no object"},
    {GROUPS, "", LEGACY_FAILED, NULL, "nothing"},
    {GROUPS, "{}", LEGACY_COMPLETE, NULL, "an object without a list"},
    {ONE_GROUP, "", LEGACY_HEALED,
     "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"b.io\",\"versions\":[" BOTH
     "],\"preferredVersion\":" GV("b.io", "v2") "}\n",
     "a group that is not known"},
    {ONE_GROUP, "{\"kind\":\"APIGroup\",\"name\":\"b.io\",\"versions\":[" BOTH "]}", LEGACY_COMPLETE, NULL,
     "one that is"},
    {ONE_GROUP, "{\"kind\":\"APIGroup\",\"versions\":[" GV("b.io", "v1") "],\"more\":[ 1 ]}", LEGACY_HEALED,
     "{\"kind\":\"APIGroup\",\"versions\":[" BOTH "],\"more\":[ 1 ]}", "a version less"},
    {ONE_GROUP, "{\"kind\":\"APIGroup\"}", LEGACY_COMPLETE, NULL, "no list to be completed"},
    {ONE_GROUP, "7", LEGACY_FAILED, NULL, "no group"},
    {ONE_VERSION, "", LEGACY_HEALED,
     RESOURCES("b.io/v1", "{\"name\":\"pods\",\"singularName\":\"pod\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":["
                          "\"get\",\"list\"]}," SCALE "," NODES),
     "a version that is not known"},
    {ONE_VERSION, RESOURCES("b.io/v1", PODS), LEGACY_HEALED,
     RESOURCES("b.io/v1", "{\"name\":\"pods\",\"singularName\":\"pod\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":["
                          "\"get\",\"list\"],\"storageVersionHash\":\"x\"}," SCALE "," NODES),
     "a verb, a subresource, a resource; what the server says besides stays"},
    {ONE_VERSION, RESOURCES("b.io/v1", NODES "," SCALE ",{\"name\":\"pods\",\"verbs\":[\"list\",\"get\",\"watch\"]}"),
     LEGACY_COMPLETE, NULL, "nothing is lacking"},
    {ONE_VERSION, "{\"resources\":[" NODES "," SCALE ",{\"name\":\"pods\",\"verbs\":7},{\"name\":\"pods\"}]}",
     LEGACY_HEALED,
     "{\"resources\":[{\"name\":\"pods\",\"verbs\":[\"get\",\"list\"]}," SCALE "," NODES ",{\"name\":\"pods\"}]}\n",
     "of two with one name the first is completed"},
    {ONE_VERSION, "{\"resources\":[]", LEGACY_FAILED, NULL, "cut off"},
};

static void test_rows(const struct disco_doc *merged)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct buf out;

        buf_init(&out, 1 << 20);
        is_int(heal(rows[i].call, slice_str(rows[i].answer), merged, &out), rows[i].result, "%s", rows[i].what);
        if (rows[i].want != NULL)
            is_slice(buf_slice(&out), rows[i].want, "%s: text", rows[i].what);
        ok(rows[i].result != LEGACY_COMPLETE || buf_len(&out) == 0, "%s: nothing is left behind", rows[i].what);
        buf_free(&out);
    }
}

/* Whatever fails: an answer that is not whole is not given. */
static void test_memory(const struct disco_doc *merged)
{
    for (size_t i = 0; i < ROWS(rows); i++)
        for (unsigned nth = 1; nth < 12; nth++) {
            enum legacy_heal result;
            struct buf out;

            buf_init(&out, 1 << 20);
            mem_fail_nth(nth);
            result = heal(rows[i].call, slice_str(rows[i].answer), merged, &out);
            mem_fail_nth(0);
            if (result != LEGACY_FAILED && result != rows[i].result)
                ok(false, "%s: allocation %u", rows[i].what, nth);
            if (result == LEGACY_HEALED && !slice_eq(buf_slice(&out), slice_str(rows[i].want)))
                ok(false, "%s: text, allocation %u", rows[i].what, nth);
            buf_free(&out);
        }
    ok(true, "all or nothing");
}

/* A version with one resource, whose one subresource has a member of many bytes that nobody reads; and many verbs. */
static struct disco_doc *large(size_t unread, unsigned verbs)
{
    struct err err = {.text = ""};
    struct disco_doc *d;
    struct buf text;

    buf_init(&text, 8 << 20);
    buf_append_str(&text, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"items\":["
                          "{\"metadata\":{\"name\":\"b.io\"},\"versions\":[{\"version\":\"v1\",\"resources\":[");
    for (unsigned i = 0; i < 4; i++) {
        buf_printf(&text, "%s{\"resource\":\"r%u\",\"responseKind\":{\"kind\":\"R\"},\"scope\":\"Cluster\",\"verbs\":[",
                   i == 0 ? "" : ",", i);
        for (unsigned k = 0; k < verbs; k++)
            buf_printf(&text, "%s\"%02u\"", k == 0 ? "" : ",", k);
        buf_append_str(&text, "],\"subresources\":[{\"subresource\":\"s\",\"verbs\":[\"get\"],\"unread\":\"");
        for (size_t k = 0; k < unread; k++)
            buf_append_char(&text, 'x');
        buf_append_str(&text, "\"}]}");
    }
    buf_append_str(&text, "]}]}]}");
    d = disco_parse(buf_slice(&text), &err);
    if (d == NULL)
        tap_bail("%s", err.text);
    buf_free(&text);
    return d;
}

/* What others' documents cost has an end, and where it ends nothing is completed. */
static void test_work(void)
{
    struct disco_doc *some = large(LIMIT_HEALED_WORK / 4 - 1000, 1), *much = large(LIMIT_HEALED_WORK / 4, 1),
                     *verbs = large(0, 60);
    struct buf out, answer;

    buf_init(&out, 1 << 20);
    is_int(heal(ONE_VERSION, SLICE_LIT(""), some, &out), LEGACY_HEALED, "long members of others");
    ok(buf_len(&out) < 1000, "of which nothing is written");
    is_int(heal(ONE_VERSION, SLICE_LIT(""), much, &out), LEGACY_FAILED, "too long ones, where the server has nothing");
    is_int(heal(ONE_VERSION, SLICE_LIT("{\"resources\":[]}"), much, &out), LEGACY_FAILED, "or a list");
    buf_init(&answer, LIMIT_HEALED_BYTES);
    buf_append_str(&answer, "{\"resources\":[{\"name\":\"r0\",\"verbs\":[\"no\"");
    for (unsigned i = 0; i < 4000; i++)
        buf_printf(&answer, ",\"%02u\"", 60 + i % 40);
    buf_append_str(&answer, "]}]}");
    buf_reset(&out);
    is_int(heal(ONE_VERSION, buf_slice(&answer), verbs, &out), LEGACY_HEALED, "many verbs, compared with many");
    buf_reset(&answer);
    buf_append_str(&answer, "{\"resources\":[{\"name\":\"r0\",\"verbs\":[\"no\"");
    for (unsigned i = 0; i < 5000; i++)
        buf_printf(&answer, ",\"%02u\"", 60 + i % 40);
    buf_append_str(&answer, "]}]}");
    is_int(heal(ONE_VERSION, buf_slice(&answer), verbs, &out), LEGACY_FAILED, "too many");
    buf_free(&answer);
    buf_free(&out);
    disco_doc_unref(some);
    disco_doc_unref(much);
    disco_doc_unref(verbs);
}

int main(void)
{
    struct err err = {.text = ""};
    struct disco_doc *merged = disco_parse(SLICE_LIT(merged_text), &err);

    if (merged == NULL)
        tap_bail("the merged document: %s", err.text);
    test_rows(merged);
    test_memory(merged);
    test_work();
    disco_doc_unref(merged);
    return tap_end();
}
