/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/disco_legacy.h"

#include <stdio.h>

#include "lib/tap.h"

#define V2 "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["

static const char core_root[] =
    "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[{\"clientCIDR\":\"0.0.0.0/0\"}]}";
static const char core_v1[] =
    "{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":["
    "{\"name\":\"pods/"
    "eviction\",\"singularName\":\"\",\"namespaced\":true,\"group\":\"policy\",\"version\":\"v1\",\"kind\":"
    "\"Eviction\","
    "\"verbs\":[\"create\"]},"
    "{\"name\":\"pods\",\"singularName\":\"pod\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":[\"get\",\"list\"],"
    "\"shortNames\":[\"po\"],"
    "\"categories\":[\"all\"],\"storageVersionHash\":\"x\"},"
    "{\"name\":\"nodes\",\"singularName\":\"node\",\"namespaced\":false,\"kind\":\"Node\",\"verbs\":[\"get\"]},"
    "{\"name\":\"ghosts/scale\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"\",\"verbs\":[\"get\"]},"
    "{\"name\":\"pods/log\",\"singularName\":\"\",\"namespaced\":true,\"kind\":\"Pod\",\"verbs\":[\"get\"]}]}";
static const char core_converted[] = V2 "{\"metadata\":{},\"versions\":[{\"version\":\"v1\",\"resources\":["
                                        "{\"resource\":\"pods\",\"responseKind\":{\"group\":\"\",\"version\":\"\","
                                        "\"kind\":\"Pod\"},\"scope\":\"Namespaced\","
                                        "\"singularResource\":\"pod\",\"verbs\":[\"get\",\"list\"],\"shortNames\":["
                                        "\"po\"],\"categories\":[\"all\"],\"subresources\":["
                                        "{\"subresource\":\"eviction\",\"responseKind\":{\"group\":\"policy\","
                                        "\"version\":\"v1\",\"kind\":\"Eviction\"},\"verbs\":[\"create\"]},"
                                        "{\"subresource\":\"log\",\"responseKind\":{\"group\":\"\",\"version\":\"\","
                                        "\"kind\":\"Pod\"},\"verbs\":[\"get\"]}]},"
                                        "{\"resource\":\"nodes\",\"responseKind\":{\"group\":\"\",\"version\":\"\","
                                        "\"kind\":\"Node\"},\"scope\":\"Cluster\","
                                        "\"singularResource\":\"node\",\"verbs\":[\"get\"]},"
                                        "{\"resource\":\"ghosts\",\"responseKind\":{\"group\":\"\",\"version\":\"\","
                                        "\"kind\":\"\"},\"scope\":\"Namespaced\","
                                        "\"singularResource\":\"\",\"verbs\":[],\"subresources\":[{\"subresource\":"
                                        "\"scale\",\"responseKind\":{\"group\":\"\","
                                        "\"version\":\"\",\"kind\":\"\"},\"verbs\":[\"get\"]}]}"
                                        "],\"freshness\":\"Current\"}]}]}\n";

static const char apis_root[] =
    "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":["
    "{\"name\":\"autoscaling\",\"versions\":[{\"groupVersion\":\"autoscaling/"
    "v1\",\"version\":\"v1\"},{\"groupVersion\":\"autoscaling/v2\","
    "\"version\":\"v2\"}],\"preferredVersion\":{\"groupVersion\":\"autoscaling/v2\",\"version\":\"v2\"}},"
    "{\"name\":\"gone.example.com\",\"versions\":[{\"groupVersion\":\"gone.example.com/v1\",\"version\":\"v1\"}]},"
    "{\"name\":\"batch\",\"versions\":[{\"groupVersion\":\"batch/"
    "v1\",\"version\":\"v1\"}],\"preferredVersion\":{\"version\":\"v1\"}},"
    "{\"name\":\"down.example.com\",\"versions\":[{\"version\":\"v1\"}],\"preferredVersion\":null},"
    "{\"name\":\"none\",\"versions\":[]}]}";

static struct disco_doc *finish(struct disco_walk *w, struct err *err)
{
    struct disco_parser *p = disco_parser_new();
    struct disco_doc *d = NULL;

    if (disco_walk_finish(w, p, err))
        while (disco_parser_step(p, 1000, &d, err) == STEP_MORE)
            continue;
    disco_parser_free(p);
    return d;
}

/* What the root document does not name, because its APIService was deleted. */
static void test_also(void)
{
    struct disco_walk *w = disco_walk_new(DISCO_WALK_APIS);
    struct err err = {""};
    char version[16];

    ok(disco_walk_root(w, slice_str(apis_root), &err), "APIGroupList %s", err.text);
    ok(disco_walk_also(w, SLICE_LIT("batch"), SLICE_LIT("v1"), &err), "one that is there");
    is_u64(disco_walk_count(w), 5, "is not walked twice");
    ok(disco_walk_also(w, SLICE_LIT("autoscaling"), SLICE_LIT("v3"), &err) &&
           disco_walk_also(w, SLICE_LIT("policy"), SLICE_LIT("v1"), &err) &&
           disco_walk_also(w, SLICE_LIT("policy"), SLICE_LIT("v1"), &err),
       "others, one of them twice");
    is_u64(disco_walk_count(w), 7, "are walked once");
    is_slice(disco_walk_path(w, 2), "/apis/autoscaling/v3", "behind the others of its group");
    is_slice(disco_walk_path(w, 3), "/apis/gone.example.com/v1", "before the next group");
    is_slice(disco_walk_path(w, 6), "/apis/policy/v1", "a group of its own is last");
    ok(disco_walk_also(w, SLICE_LIT(""), SLICE_LIT("v1"), &err) &&
           disco_walk_also(w, SLICE_LIT("a/b"), SLICE_LIT("v1"), &err) &&
           disco_walk_also(w, SLICE_LIT("a"), SLICE_LIT("../v1"), &err),
       "what cannot be one");
    is_u64(disco_walk_count(w), 7, "is passed over");
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(version, sizeof(version), "v%u", i + 2);
        if (!disco_walk_also(w, SLICE_LIT("policy"), slice_str(version), &err))
            break;
    }
    is_u64(disco_walk_count(w), 105, "a hundred at most");
    disco_walk_free(w);
}

static void test_core(void)
{
    struct disco_walk *w = disco_walk_new(DISCO_WALK_API);
    struct err err = {""};
    struct disco_doc *d;

    ok(disco_walk_root(w, slice_str(core_root), &err), "APIVersions %s", err.text);
    is_u64(disco_walk_count(w), 1, "one version");
    is_slice(disco_walk_path(w, 0), "/api/v1", "its path");
    ok(disco_walk_resources(w, 0, slice_str(core_v1), &err), "its resources %s", err.text);
    d = finish(w, &err);
    ok(d != NULL, "converted %s", err.text);
    is_slice(disco_doc_raw(d), core_converted, "to this");
    is_u64(disco_doc_n_resources(d), 3, "three resources");
    disco_doc_unref(d);
    disco_walk_free(w);
    disco_walk_free(NULL);
}

static void test_apis(void)
{
    static const char *const paths[] = {"/apis/autoscaling/v2", "/apis/autoscaling/v1", "/apis/gone.example.com/v1",
                                        "/apis/batch/v1", "/apis/down.example.com/v1"};
    struct disco_walk *w = disco_walk_new(DISCO_WALK_APIS);
    struct err err = {""};
    struct disco_doc *d;

    ok(disco_walk_root(w, slice_str(apis_root), &err), "APIGroupList %s", err.text);
    is_u64(disco_walk_count(w), ROWS(paths), "five versions");
    for (size_t i = 0; i < ROWS(paths); i++)
        is_slice(disco_walk_path(w, i), paths[i], "path %zu, the preferred version first", i);
    ok(disco_walk_resources(w, 0, SLICE_LIT("{\"kind\":\"APIResourceList\",\"resources\":[]}"), &err), "no resources");
    ok(disco_walk_resources(w, 1, SLICE_LIT("{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"x\"}]}"), &err),
       "a resource");
    disco_walk_absent(w, 2);
    ok(disco_walk_resources(
           w, 3, SLICE_LIT("{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"jobs\",\"namespaced\":true}]}"),
           &err),
       "another");
    ok(!disco_walk_resources(w, 3, SLICE_LIT("{\"kind\":\"Status\"}"), &err), "a later failure");
    disco_walk_unavailable(w, 4);
    err_clear(&err);
    d = finish(w, &err);
    ok(d != NULL, "converted %s", err.text);
    is_slice(disco_doc_raw(d),
             V2 "{\"metadata\":{\"name\":\"autoscaling\"},\"versions\":[{\"version\":\"v2\",\"freshness\":\"Current\"},"
                "{\"version\":\"v1\","
                "\"resources\":[{\"resource\":\"x\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"\"},"
                "\"scope\":\"Cluster\","
                "\"singularResource\":\"\",\"verbs\":[]}],\"freshness\":\"Current\"}]},"
                "{\"metadata\":{\"name\":\"batch\"},\"versions\":[{\"version\":\"v1\",\"freshness\":\"Stale\"}]},"
                "{\"metadata\":{\"name\":\"down.example.com\"},\"versions\":[{\"version\":\"v1\",\"freshness\":"
                "\"Stale\"}]}]}\n",
             "absent ones left out, unavailable ones stale");
    disco_doc_unref(d);
    disco_walk_free(w);
}

static void test_refused(void)
{
    static const struct {
        const char *root;
        enum disco_walk_kind kind;
    } roots[] = {
        {"", DISCO_WALK_APIS},
        {"[]", DISCO_WALK_APIS},
        {"{}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIVersions\",\"versions\":[]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[]}", DISCO_WALK_API},
        {"{\"kind\":\"APIGroupList\",\"groups\":{}}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[1]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"\"}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a/b\"}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"..\"}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a?b\"}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a\\r\\nX: y\"}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a\",\"name\":\"b\"}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a\",\"versions\":[{}]}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a\",\"versions\":[\"v1\"]}]}", DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"a\",\"versions\":[{\"version\":\"../v1\"}]}]}",
         DISCO_WALK_APIS},
        {"{\"kind\":\"APIGroupList\",\"groups\":[]} x", DISCO_WALK_APIS},
        {"{\"kind\":\"APIVersions\",\"versions\":[1]}", DISCO_WALK_API},
        {"{\"kind\":\"APIVersions\",\"versions\":[\"\"]}", DISCO_WALK_API},
        {"{\"kind\":\"APIVersions\",\"versions\":\"v1\"}", DISCO_WALK_API},
    };
    static const char *const lists[] = {
        "",
        "{}",
        "[]",
        "{\"kind\":\"APIGroup\"}",
        "{\"kind\":\"APIResourceList\",\"resources\":{}}",
        "{\"kind\":\"APIResourceList\",\"resources\":[1]}",
        "{\"kind\":\"APIResourceList\",\"resources\":[{}]}",
        "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":1}]}",
        "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"\"}]}",
        "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"a\",\"verbs\":\"get\"}]}",
        "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"a\",\"namespaced\":\"true\"}]}",
        "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"a\"},]}",
    };
    struct err err;

    for (size_t i = 0; i < ROWS(roots); i++) {
        struct disco_walk *w = disco_walk_new(roots[i].kind);

        err_clear(&err);
        ok(!disco_walk_root(w, slice_str(roots[i].root), &err) && err_is_set(&err), "root %zu refused: %s", i,
           err.text);
        disco_walk_free(w);
    }
    for (size_t i = 0; i < ROWS(lists); i++) {
        struct disco_walk *w = disco_walk_new(DISCO_WALK_API);

        err_clear(&err);
        if (!disco_walk_root(w, slice_str(core_root), &err))
            tap_bail("%s", err.text);
        ok(!disco_walk_resources(w, 0, slice_str(lists[i]), &err) && err_is_set(&err), "list %zu refused: %s", i,
           err.text);
        disco_walk_free(w);
    }
}

static void test_memory(void)
{
    unsigned failed = 0;

    for (uint64_t nth = 1; nth < 60; nth++) {
        struct err err = {""};
        struct disco_walk *w;
        struct disco_doc *d = NULL;

        mem_fail_nth(nth);
        w = disco_walk_new(DISCO_WALK_API);
        if (w != NULL && disco_walk_root(w, slice_str(core_root), &err) &&
            disco_walk_resources(w, 0, slice_str(core_v1), &err)) {
            struct disco_parser *p = disco_parser_new();

            if (p != NULL && disco_walk_finish(w, p, &err))
                while (disco_parser_step(p, 100000, &d, &err) == STEP_MORE)
                    continue;
            disco_parser_free(p);
        }
        mem_fail_nth(0);
        failed += d == NULL ? 1 : 0;
        disco_doc_unref(d);
        disco_walk_free(w);
    }
    ok(failed > 5 && failed < 59, "%u single allocations failed in turn", failed);
}

int main(void)
{
    test_also();
    test_core();
    test_apis();
    test_refused();
    test_memory();
    return tap_end();
}
