/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery documents: parsing, looking up, refusing; and the walk over legacy servers.
 */
#include "kube/disco.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/limits.h"
#include "kube/disco_legacy.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"

#define HEAD "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["
#define PODS                                                                                                           \
    "{\"resource\":\"pods\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"Pod\"},\"scope\":"            \
    "\"Namespaced\","                                                                                                  \
    "\"singularResource\":\"pod\",\"verbs\":[\"create\",\"get\",\"list\"],\"shortNames\":[\"po\"],\"subresources\":[{" \
    "\"subresource\":\"exec\",\"responseKind\":{\"kind\":\"PodExecOptions\"},\"verbs\":[\"create\",\"get\"]},{"        \
    "\"subresource\":\"log\",\"responseKind\":null,\"verbs\":[\"get\"]}]}"
#define APPS                                                                                                           \
    "{\"metadata\":{\"name\":\"apps\",\"creationTimestamp\":null},\"versions\":[{\"version\":\"v1\",\"resources\":"    \
    "[" PODS ",{\"resource\":\"only\",\"responseKind\":{},\"scope\":\"Cluster\",\"verbs\":null,\"subresources\":[{"    \
    "\"subresource\":\"x\","                                                                                           \
    "\"verbs\":[\"get\"]}]}],\"freshness\":\"Current\"},{\"version\":\"v1beta1\",\"freshness\":\"Stale\"}]}"
#define BATCH                                                                                                          \
    "{\"versions\":[{\"resources\":[{\"verbs\":[\"get\"],\"resource\":\"j\\u006fbs\"}],\"version\":\"v1\"}],"          \
    "\"metadata\":{\"name\":\"batch\"}}"
#define WHOLE HEAD APPS "," BATCH "]}\n"

static struct gvr gvr(const char *g, const char *v, const char *r)
{
    return (struct gvr){slice_str(g), slice_str(v), slice_str(r)};
}

static struct disco_doc *must_parse(const char *text)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(slice_str(text), &err);

    if (d == NULL)
        tap_bail("%s: %s", err.text, text);
    return d;
}

static void test_shape(void)
{
    struct disco_doc *d = must_parse(WHOLE);
    const struct disco_group *g = disco_doc_groups(d);
    const struct disco_version *v;
    const struct disco_resource *r;
    const struct gvr jobs = gvr("batch", "v1", "jobs");

    is_u64(disco_doc_n_groups(d), 2, "two groups");
    is_u64(disco_doc_n_resources(d), 3, "three resources");
    is_int(disco_doc_form(d), DISCO_V2, "v2");
    is_slice(disco_doc_raw(d), WHOLE, "the bytes as sent");
    is_slice(disco_doc_api_version(d), "apidiscovery.k8s.io/v2", "apiVersion's place");
    is_slice(g->name, "apps", "first group");
    is_slice(g->raw, APPS, "its bytes");
    v = g->versions;
    is_slice(v->name, "v1", "first version");
    ok(!v->stale && v->next != NULL && v->next->stale && v->next->next == NULL, "freshness");
    is_slice(v->next->raw, "{\"version\":\"v1beta1\",\"freshness\":\"Stale\"}", "bytes of a version");
    r = v->resources;
    is_slice(r->name, "pods", "first resource");
    is_slice(r->raw, PODS, "its bytes");
    is_slice(r->scope, "Namespaced", "scope");
    is_slice(r->kind, "Pod", "kind");
    is_u64(r->n_verbs, 3, "verbs");
    is_slice(r->verbs[2], "list", "in order");
    is_u64(r->n_subresources, 2, "subresources");
    is_slice(r->subresources->next->name, "log", "in order");
    is_slice(r->subresources->next->raw, "{\"subresource\":\"log\",\"responseKind\":null,\"verbs\":[\"get\"]}",
             "with their bytes");
    ok(r->version == v && v->group == g, "links upwards");
    r = disco_doc_resource(d, &jobs);
    ok(r != NULL, "an escaped name is found under its real one");
    is_slice(r->kind, "", "no kind");
    is_slice(r->scope, "", "no scope");
    ok(disco_doc_group(d, SLICE_LIT("batch")) == g->next && disco_doc_group(d, SLICE_LIT("v1")) == NULL,
       "group by name");
    ok(disco_doc_version(d, SLICE_LIT("apps"), SLICE_LIT("v1beta1")) == v->next, "version by name");
    ok(disco_doc_version(d, SLICE_LIT("apps"), SLICE_LIT("v2")) == NULL, "no such version");
    disco_doc_unref(d);
}

static void test_lookup(void)
{
    static const struct {
        const char *group, *version, *resource, *subresource, *verb;
        enum disco_answer want;
    } rows[] = {
        {"apps", "v1", "pods", "", "get", DISCO_SERVED},
        {"apps", "v1", "pods", "", "", DISCO_SERVED},
        {"apps", "v1", "pods", "", "watch", DISCO_NO_VERB},
        {"apps", "v1", "pods", "exec", "create", DISCO_SERVED},
        {"apps", "v1", "pods", "exec", "", DISCO_SERVED},
        {"apps", "v1", "pods", "exec", "list", DISCO_NO_VERB},
        {"apps", "v1", "pods", "resize", "patch", DISCO_NO_SUBRESOURCE},
        {"apps", "v1", "pod", "", "get", DISCO_NO_RESOURCE},
        {"apps", "v1", "Pods", "", "get", DISCO_NO_RESOURCE},
        {"apps", "v1", "", "", "get", DISCO_NO_RESOURCE},
        {"apps", "v2", "pods", "", "get", DISCO_NO_RESOURCE},
        {"app", "sv1", "pods", "", "get", DISCO_NO_RESOURCE},
        {"batch", "v1", "pods", "", "get", DISCO_NO_RESOURCE},
        {"batch", "v1", "jobs", "", "get", DISCO_SERVED},
        {"apps", "v1", "only", "x", "get", DISCO_SERVED},
        {"apps", "v1", "only", "", "get", DISCO_NO_RESOURCE},
        {"apps", "v1", "only", "", "", DISCO_NO_RESOURCE},
        {"apps", "v1beta1", "pods", "", "get", DISCO_NO_RESOURCE},
        {"", "v1", "pods", "", "get", DISCO_SERVED},
        {"", "v1", "pods", "log", "get", DISCO_SERVED},
        {"", "v1", "nodes", "", "get", DISCO_NO_RESOURCE},
        {"apps/v1", "pods", "", "", "", DISCO_NO_RESOURCE},
        {"apps", "v1/pods", "", "", "", DISCO_NO_RESOURCE},
    };
    struct disco_doc *core =
        must_parse(HEAD "{\"metadata\":{},\"versions\":[{\"version\":\"v1\",\"resources\":[" PODS "]}]}]}");
    struct disco_doc *apis = must_parse(WHOLE);
    struct disco *both = disco_new(core, apis), *alone = disco_new(NULL, apis);
    struct gvr g = gvr("", "v1", "pods");
    char longest[GVR_NAME_BYTES + 2];

    disco_doc_unref(core);
    disco_doc_unref(apis);
    for (size_t i = 0; i < ROWS(rows); i++) {
        g = gvr(rows[i].group, rows[i].version, rows[i].resource);
        is_int(disco_lookup(both, &g, slice_str(rows[i].subresource), slice_str(rows[i].verb)), rows[i].want,
               "%s/%s %s/%s %s", rows[i].group, rows[i].version, rows[i].resource, rows[i].subresource, rows[i].verb);
    }
    g = gvr("", "v1", "pods");
    is_int(disco_lookup(alone, &g, SLICE_LIT(""), SLICE_LIT("")), DISCO_NO_RESOURCE, "a server without /api");
    memset(longest, 'a', sizeof(longest));
    g.resource = slice_of(longest, sizeof(longest));
    is_int(disco_lookup(both, &g, SLICE_LIT(""), SLICE_LIT("")), DISCO_NO_RESOURCE, "a name longer than any");
    is_int(disco_gv(both, SLICE_LIT("apps"), SLICE_LIT("v1")), DISCO_GV_CURRENT, "current");
    is_int(disco_gv(both, SLICE_LIT("apps"), SLICE_LIT("v1beta1")), DISCO_GV_STALE, "stale");
    is_int(disco_gv(both, SLICE_LIT("apps"), SLICE_LIT("v3")), DISCO_GV_ABSENT, "absent");
    is_int(disco_gv(both, SLICE_LIT(""), SLICE_LIT("v1")), DISCO_GV_CURRENT, "core");
    is_int(disco_gv(alone, SLICE_LIT(""), SLICE_LIT("v1")), DISCO_GV_ABSENT, "no core");
    ok(disco_core(alone) == NULL && disco_apis(alone) == disco_apis(both), "documents are shared");
    disco_unref(disco_ref(both));
    disco_unref(both);
    disco_unref(alone);
    disco_unref(NULL);
    disco_doc_unref(NULL);
}

/* However it is fed and stepped, the result is the same; a document cut short anywhere is refused. */
static void test_pieces(void)
{
    const size_t n = sizeof(WHOLE) - 1;
    struct disco_doc *d = NULL;
    unsigned accepted = 0, good = 0;
    struct err err;

    for (size_t cut = 0; cut < n; cut++) {
        char *copy = must_zalloc(cut);

        err_clear(&err);
        memcpy(copy, WHOLE, cut);
        d = disco_parse(slice_of(copy, cut), &err);
        /* Only the newline at the end may be missing. */
        if (d != NULL ? cut != n - 1 : !err_is_set(&err))
            accepted++;
        disco_doc_unref(d);
        mem_free(copy);
    }
    is_u64(accepted, 0, "truncated documents are refused, with a reason");
    for (size_t piece = 1; piece < 200; piece += 3) {
        struct disco_parser *p = disco_parser_new();
        enum step step;
        unsigned steps = 0;

        err_clear(&err);
        for (size_t at = 0; at < n; at += piece)
            if (!disco_parser_feed(p, slice_of(&WHOLE[at], piece < n - at ? piece : n - at), &err))
                break;
        while ((step = disco_parser_step(p, piece, &d, &err)) == STEP_MORE)
            steps++;
        if (step == STEP_DONE && steps > 0 && disco_doc_n_resources(d) == 3 &&
            slice_eq(disco_doc_raw(d), SLICE_LIT(WHOLE)))
            good++;
        disco_doc_unref(d);
        disco_parser_free(p);
    }
    is_u64(good, 67, "pieces and steps of any size");
}

/* What is left behind then is for LeakSanitizer to say. */
static void test_given_up(void)
{
    enum step step = STEP_MORE;
    unsigned most = 0;

    while (step == STEP_MORE && most < 10000) {
        struct disco_parser *p = disco_parser_new();
        struct disco_doc *d = NULL;
        struct err err = {.text = ""};

        most++;
        if (!disco_parser_feed(p, SLICE_LIT(WHOLE), &err))
            tap_bail("no memory");
        step = STEP_MORE;
        for (unsigned n = 0; n < most && step == STEP_MORE; n++)
            step = disco_parser_step(p, 1, &d, &err);
        disco_doc_unref(d);
        disco_parser_free(p);
    }
    ok(step == STEP_DONE && most > 20, "given up after each number of steps up to %u", most);
}

static void test_no_stack(void)
{
    struct disco_parser *p = disco_parser_new();
    struct err err = {.text = ""};
    struct disco_doc *d;

    ok(disco_parser_feed(p, SLICE_LIT(WHOLE), &err), "a whole document");
    mem_fail_nth(1);
    is_int(disco_parser_step(p, SIZE_MAX, &d, &err), STEP_FAILED, "cannot be read without a stack");
    is_str(err.text, "out of memory", "which is said");
    mem_fail_nth(0);
    disco_parser_free(p);
}

static void test_refused(void)
{
    static const struct {
        const char *name, *text, *why;
    } rows[] = {
        {"nothing", "", "truncated"},
        {"no JSON", "hello", "object was expected"},
        {"HTML", "<html>", "object was expected"},
        {"an array", "[]", "object was expected"},
        {"legacy list", "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[]}",
         "not an APIGroupDiscoveryList"},
        {"a Status", "{\"kind\":\"Status\",\"apiVersion\":\"v1\"}", "not an APIGroupDiscoveryList"},
        {"unknown version",
         "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v3\",\"items\":[]}", "known"},
        {"no items", "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\"}", "missing"},
        {"no kind", "{\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"items\":[]}", "missing"},
        {"no apiVersion", "{\"kind\":\"APIGroupDiscoveryList\",\"items\":[]}", "missing"},
        {"kind is a number", "{\"kind\":1}", "not an APIGroupDiscoveryList"},
        {"items is an object", "{\"items\":{}}", "array was expected"},
        {"items twice", "{\"items\":[],\"items\":[]}", "twice"},
        {"group is a string", HEAD "\"x\"]}", "object was expected"},
        {"group is null", HEAD "null]}", "object was expected"},
        {"metadata is text", HEAD "{\"metadata\":\"x\"}]}", "object was expected"},
        {"name is a number", HEAD "{\"metadata\":{\"name\":1}}]}", "string was expected"},
        {"name twice", HEAD "{\"metadata\":{\"name\":\"a\",\"name\":\"b\"}}]}", "twice"},
        {"versions is an object", HEAD "{\"versions\":{}}]}", "array was expected"},
        {"versions twice", HEAD "{\"versions\":[],\"versions\":[]}]}", "twice"},
        {"version is a number", HEAD "{\"versions\":[{\"version\":1}]}]}", "string was expected"},
        {"resources is text", HEAD "{\"versions\":[{\"resources\":\"x\"}]}]}", "array was expected"},
        {"resource is null", HEAD "{\"versions\":[{\"resources\":[null]}]}]}", "object was expected"},
        {"verbs is text", HEAD "{\"versions\":[{\"resources\":[{\"verbs\":\"get\"}]}]}]}", "array was expected"},
        {"a verb is a number", HEAD "{\"versions\":[{\"resources\":[{\"verbs\":[1]}]}]}]}", "string was expected"},
        {"verbs twice", HEAD "{\"versions\":[{\"resources\":[{\"verbs\":[],\"verb\\u0073\":[]}]}]}]}", "twice"},
        {"shortNames twice", HEAD "{\"versions\":[{\"resources\":[{\"shortNames\":[],\"shortNames\":[]}]}]}]}",
         "twice"},
        {"subresources is an object", HEAD "{\"versions\":[{\"resources\":[{\"subresources\":{}}]}]}]}",
         "array was expected"},
        {"subresource is text", HEAD "{\"versions\":[{\"resources\":[{\"subresources\":[\"x\"]}]}]}]}",
         "object was expected"},
        {"responseKind is text", HEAD "{\"versions\":[{\"resources\":[{\"responseKind\":\"x\"}]}]}]}",
         "object was expected"},
        /* clients, which are written in Go, read what goes on as it stands: by any case, and with its type */
        {"metadata in another case", HEAD "{\"metadata\":{\"name\":\"z\"},\"Metadata\":{\"name\":\"apps\"}}]}",
         "spelling"},
        {"name in another case", HEAD "{\"metadata\":{\"name\":\"z\",\"Name\":\"apps\"}}]}", "spelling"},
        {"version in another case", HEAD "{\"versions\":[{\"version\":\"v7\",\"Version\":\"v1\"}]}]}", "spelling"},
        {"versions with a long s", HEAD "{\"versions\":[],\"ver\xc5\xbfions\":[]}]}", "spelling"},
        {"versions with an escaped long s", HEAD "{\"versions\":[],\"ver\\u017fions\":[]}]}", "spelling"},
        {"verbs in another case", HEAD "{\"versions\":[{\"resources\":[{\"Verbs\":[]}]}]}]}", "spelling"},
        {"singularResource is a number", HEAD "{\"versions\":[{\"resources\":[{\"singularResource\":5}]}]}]}",
         "string"},
        {"a shortName is an object", HEAD "{\"versions\":[{\"resources\":[{\"shortNames\":[{}]}]}]}]}", "string"},
        {"categories is text", HEAD "{\"versions\":[{\"resources\":[{\"categories\":\"x\"}]}]}]}", "array"},
        {"group of a kind is a number", HEAD "{\"versions\":[{\"resources\":[{\"responseKind\":{\"group\":7}}]}]}]}",
         "string"},
        {"kind of a subresource is text",
         HEAD "{\"versions\":[{\"resources\":[{\"subresources\":[{\"responseKind\":\"x\"}]}]}]}]}", "object"},
        {"an accepted type is a number",
         HEAD "{\"versions\":[{\"resources\":[{\"subresources\":[{\"acceptedTypes\":[{\"kind\":1}]}]}]}]}]}", "string"},
        {"labels are a number", HEAD "{\"metadata\":{\"labels\":5}}]}", "more than a name"},
        {"creationTimestamp is no time", HEAD "{\"metadata\":{\"creationTimestamp\":\"x\"}}]}", "more than a name"},
        {"uid is a number", HEAD "{\"metadata\":{\"uid\":5}}]}", "string"},
        {"kind of a group is a number", HEAD "{\"kind\":5}]}", "string"},
        {"comma too many", HEAD "{},]}", "comma"},
        {"something behind", HEAD "]} {}", "follows"},
        {"control byte", HEAD "{\"x\":\"\n\"}]}", "control byte"},
        {"bad UTF-8", HEAD "{\"x\":\"\xff\"}]}", "UTF-8"},
        {"too deep", HEAD "{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}]}",
         "deeply"},
    };
    struct err err;

    for (size_t i = 0; i < ROWS(rows); i++) {
        err_clear(&err);
        is_null(disco_parse(slice_str(rows[i].text), &err), "refused: %s", rows[i].name);
        ok(strstr(err.text, rows[i].why) != NULL, "%s: because '%s' (said '%s')", rows[i].name, rows[i].why, err.text);
    }
}

/* Oddities that are no reason to lose a whole document. */
static void test_tolerated(void)
{
    static const struct {
        const char *name, *text;
        size_t groups, resources;
    } rows[] = {
        {"no groups", HEAD "]}", 0, 0},
        {"items null", "{\"items\":null,\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"kind\":\"APIGroupDiscoveryList\"}",
         0, 0},
        {"unknown fields",
         HEAD "{\"metadata\":{\"name\":\"a\",\"x\":[{}]},\"new\":{\"a\":1},\"versions\":[]}],\"more\":[1,2]}", 1, 0},
        {"an empty group", HEAD "{}]}", 1, 0},
        {"a group twice: the first counts", HEAD APPS "," APPS "," BATCH "]}", 2, 3},
        {"nulls",
         HEAD "{\"metadata\":null,\"versions\":null},{\"metadata\":{\"name\":\"b\"},\"versions\":[{\"version\":\"v1\","
              "\"resources\":null,\"freshness\":null}]}]}",
         2, 0},
        {"a version twice",
         HEAD "{\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"a\"}]},{\"version\":\"v1\","
              "\"resources\":[{\"resource\":\"b\"}]}]}]}",
         1, 1},
        {"a resource twice",
         HEAD "{\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"a\"},{\"resource\":\"a\"},{"
              "\"resource\":\"b\"}]}]}]}",
         1, 2},
        {"names that are none",
         HEAD "{\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"\"},{\"resource\":\"a/"
              "b\"},{},{\"resource\":\"c\"}]},{\"version\":\"\",\"resources\":[{\"resource\":\"d\"}]}]}]}",
         1, 1},
        {"white space",
         " { \"kind\" : \"APIGroupDiscoveryList\" , \"apiVersion\" : \"apidiscovery.k8s.io/v2beta1\" , \"items\" : [ { "
         "\"versions\" : [ { \"version\" : \"v1\" , \"resources\" : [ { \"resource\" : \"a\" } ] } ] } ] } \n",
         1, 1},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct err err = {""};
        struct disco_doc *d = disco_parse(slice_str(rows[i].text), &err);

        ok(d != NULL, "accepted: %s %s", rows[i].name, err.text);
        if (d == NULL)
            continue;
        is_u64(disco_doc_n_groups(d), rows[i].groups, "%s: groups", rows[i].name);
        is_u64(disco_doc_n_resources(d), rows[i].resources, "%s: resources", rows[i].name);
        disco_doc_unref(d);
    }
}

struct unit {
    const char *left, *right; /* around its number */
};

/* `before`, then n numbered units with commas between them, then `behind`. */
static struct disco_doc *parse_many(const char *before, struct unit unit, size_t n, const char *behind, struct err *err)
{
    struct disco_parser *p = disco_parser_new();
    struct disco_doc *d = NULL;
    struct buf chunk;
    bool good = disco_parser_feed(p, slice_str(before), err);

    err_clear(err);
    buf_init(&chunk, 4096);
    for (size_t i = 0; good && i < n; i++) {
        buf_reset(&chunk);
        buf_printf(&chunk, "%s%s%zu%s", i == 0 ? "" : ",", unit.left, i, unit.right);
        good = disco_parser_feed(p, buf_slice(&chunk), err);
    }
    good = good && disco_parser_feed(p, slice_str(behind), err);
    while (good && disco_parser_step(p, 1 << 20, &d, err) == STEP_MORE)
        continue;
    buf_free(&chunk);
    disco_parser_free(p);
    return d;
}

/* kube-apiserver bounds none of these, so a document that has many of one kind is read like any other. */
static void test_many(void)
{
    static const struct {
        const char *what, *before;
        struct unit unit;
        size_t n;
        const char *behind;
    } rows[] = {
        {"groups", HEAD, {"{\"metadata\":{\"name\":\"g", "\"}}"}, 20000, "]}"},
        {"versions of a CRD", HEAD "{\"versions\":[", {"{\"version\":\"v", "\"}"}, 17000, "]}]}"},
        {"resources",
         HEAD "{\"versions\":[{\"version\":\"v1\",\"resources\":[",
         {"{\"resource\":\"r", "\"}"},
         50000,
         "]}]}]}"},
        {"metrics",
         HEAD "{\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"pods\",\"subresources\":[",
         {"{\"subresource\":\"", "_and_a_name_of_some_60_bytes_in_all_as_metrics_have_it\",\"verbs\":[\"get\"]}"},
         30000,
         "],\"verbs\":[\"get\"]}]}]}]}"},
        {"verbs",
         HEAD "{\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"r\",\"verbs\":[",
         {"\"v", "\""},
         1000,
         "]}]}]}]}"},
    };
    const struct disco_resource *r;
    struct err err;
    struct disco_doc *d;

    for (size_t i = 0; i < ROWS(rows); i++) {
        d = parse_many(rows[i].before, rows[i].unit, rows[i].n, rows[i].behind, &err);
        ok(d != NULL, "%zu %s: %s", rows[i].n, rows[i].what, err.text);
        if (d == NULL)
            continue;
        r = disco_doc_groups(d)->versions == NULL ? NULL : disco_doc_groups(d)->versions->resources;
        is_u64(i == 0   ? disco_doc_n_groups(d)
               : i == 1 ? disco_doc_groups(d)->n_versions
               : i == 2 ? disco_doc_n_resources(d)
               : i == 3 ? r->n_subresources
                        : r->n_verbs,
               i == 4 ? 64 : rows[i].n, "all %s that are looked at", rows[i].what);
        if (i == 3)
            ok(slice_has_prefix(r->fields[DISCO_FIELD_SUBRESOURCES], SLICE_LIT("[{\"subresource\":\"0_")) &&
                   r->n_verbs == 1 && r->raw.n > 2 << 20,
               "with their text");
        disco_doc_unref(d);
    }
}

static void test_sizes(void)
{
    char *big = must_zalloc(LIMIT_DISCOVERY_PART_BYTES);
    struct disco_parser *p = disco_parser_new();
    struct disco_doc *d;
    struct err err = {""};
    bool fed;

    memset(big, ' ', LIMIT_DISCOVERY_PART_BYTES);
    fed = disco_parser_feed(p, SLICE_LIT(HEAD "{\"x\":\""), &err) &&
          disco_parser_feed(p, slice_of(big, LIMIT_DISCOVERY_PART_BYTES), &err) &&
          disco_parser_feed(p, SLICE_LIT("\"}]}"), &err);
    ok(fed && disco_parser_step(p, SIZE_MAX, &d, &err) == STEP_FAILED, "a part too big is refused");
    ok(strstr(err.text, "too big") != NULL, "because of it: %s", err.text);
    disco_parser_free(p);
    p = disco_parser_new();
    fed = true;
    for (unsigned i = 0; fed && i < 200; i++)
        fed = disco_parser_feed(p, slice_of(big, LIMIT_DISCOVERY_PART_BYTES), &err);
    ok(!fed, "a document too big is refused");
    disco_parser_free(p);
    mem_free(big);
}

static void test_memory(void)
{
    struct err err;
    uint64_t nth = 0;
    struct disco_doc *d = NULL;

    do {
        err_clear(&err);
        mem_fail_nth(++nth);
        d = disco_parse(SLICE_LIT(WHOLE), &err);
        if (d == NULL && !err_is_set(&err))
            ok(false, "allocation %u failed without a word", (unsigned)nth);
    } while (d == NULL && nth < 100);
    mem_fail_nth(0);
    ok(nth > 3 && nth < 100, "each of %u allocations may fail", (unsigned)nth - 1);
    disco_doc_unref(d);
}

int main(void)
{
    test_shape();
    test_lookup();
    test_pieces();
    test_given_up();
    test_no_stack();
    test_refused();
    test_tolerated();
    test_many();
    test_sizes();
    test_memory();
    return tap_end();
}
