/* SPDX-License-Identifier: Apache-2.0 */
/* Which names are names, and what is left of a document of somebody who gives others. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/limits.h"
#include "kube/disco_merge.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"

#define HEAD "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["
#define TAIL "]}\n"
#define GROUP(name, versions) "{\"metadata\":{\"name\":\"" name "\"},\"versions\":[" versions "]}"
#define VERSION(name, resources) "{\"version\":\"" name "\",\"resources\":[" resources "],\"freshness\":\"Current\"}"
#define RES(name) "{\"resource\":\"" name "\",\"verbs\":[\"get\"]}"
#define WITH(name, subs) "{\"resource\":\"" name "\",\"verbs\":[\"get\"],\"subresources\":[" subs "]}"
#define SUB(name) "{\"subresource\":\"" name "\",\"verbs\":[\"get\"]}"
#define V1 VERSION("v1", RES("a"))
#define LABEL63 "a12345678901234567890123456789012345678901234567890123456789012"

static void test_names(void)
{
    enum { G = 1, V = 2, R = 4 };
    static const struct {
        struct slice name;
        unsigned is;
    } rows[] = {
        {SLICE_LIT("v1"), G | V | R},
        {SLICE_LIT("v1alpha1"), G | V | R},
        {SLICE_LIT("a"), G | V | R},
        {SLICE_LIT("a-b"), G | V | R},
        {SLICE_LIT("1a"), G | R},
        {SLICE_LIT("-a"), R},
        {SLICE_LIT("a-"), R},
        {SLICE_LIT("rbac.authorization.k8s.io"), G | R},
        {SLICE_LIT("a..b"), R},
        {SLICE_LIT(".a"), R},
        {SLICE_LIT("a."), R},
        {SLICE_LIT("a.-b"), R},
        {SLICE_LIT("a-.b"), R},
        {SLICE_LIT("V1"), R},
        {SLICE_LIT("v_1"), R},
        {SLICE_LIT(LABEL63), G | V | R},
        {SLICE_LIT(LABEL63 "4"), G | R},
        /* of metrics: Prometheus', KEDA's, Datadog's, Google's */
        {SLICE_LIT("namespace:container_cpu:sum_rate5m"), R},
        {SLICE_LIT("s0-rabbitmq-Queue_Length"), R},
        {SLICE_LIT("datadogmetric@default:requests"), R},
        {SLICE_LIT("pubsub.googleapis.com|subscription|num_undelivered_messages"), R},
        {SLICE_LIT("*"), R},
        {SLICE_LIT("..."), R},
        {SLICE_LIT(""), 0},
        {SLICE_LIT("."), 0},
        {SLICE_LIT(".."), 0},
        {SLICE_LIT("a/b"), 0},
        {SLICE_LIT("a b"), 0},
        {SLICE_LIT("a\0b"), 0},
        {SLICE_LIT("a\nb"), 0},
        {SLICE_LIT("\033[31m"), 0},
        {SLICE_LIT("a\x7f"), 0},
        {SLICE_LIT("a\xc2\x9b"), 0},
        {SLICE_LIT("\xc3\xa4"), 0},
        {SLICE_LIT("%2e"), 0},
        {SLICE_LIT("a?b"), 0},
        {SLICE_LIT("a#b"), 0},
        {SLICE_LIT("<a>"), 0},
        {SLICE_LIT("a>"), 0},
        {SLICE_LIT("a&b"), 0},
        {SLICE_LIT("a\"b"), 0},
        {SLICE_LIT("a'b"), 0},
        {SLICE_LIT("a\\b"), 0},
        {SLICE_LIT("a`b"), 0},
    };
    char longest[GVR_NAME_BYTES + 1];

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct slice n = rows[i].name;

        ok(gvr_is_group(n) == ((rows[i].is & G) != 0), "a group: %.*s", (int)n.n, n.p);
        ok(gvr_is_version(n) == ((rows[i].is & V) != 0), "a version: %.*s", (int)n.n, n.p);
        ok(gvr_is_resource(n) == ((rows[i].is & R) != 0), "a resource: %.*s", (int)n.n, n.p);
    }
    memset(longest, 'a', sizeof(longest));
    ok(gvr_is_group(slice_of(longest, 253)) && !gvr_is_group(slice_of(longest, 254)), "the longest group");
    ok(gvr_is_resource(slice_of(longest, GVR_NAME_BYTES)), "the longest resource");
    ok(!gvr_is_resource(slice_of(longest, GVR_NAME_BYTES + 1)), "a longer one");
}

static struct disco_doc *judge(struct slice text, bool core, size_t piece)
{
    struct disco_parser *p = disco_parser_new();
    struct disco_doc *d = NULL;
    struct err err = {""};

    disco_parser_judge(p, core);
    if (disco_parser_feed(p, text, &err))
        while (disco_parser_step(p, piece, &d, &err) == STEP_MORE)
            continue;
    if (d == NULL)
        tap_bail("%s: %.*s", err.text, (int)text.n, text.p);
    disco_parser_free(p);
    return d;
}

/* All that a peer with this document alone adds to a server that has nothing. */
static void merge(const struct disco_doc *ours, const struct disco_doc *theirs, struct buf *out)
{
    struct disco_merge *m = disco_merge_new();
    struct err err = {""};
    struct disco_merged merged;
    bool good;

    good =
        disco_merge_add(m, SLICE_LIT("a"), ours, DISCO_SERVER_LOCAL) && disco_merge_add(m, SLICE_LIT("b"), theirs, 0);
    if (!good || !disco_merge_run(m, NULL, &err))
        tap_bail("no memory");
    disco_merge_result(m, &merged);
    buf_init(out, 1 << 20);
    buf_append(out, merged.v2);
    disco_merge_free(m);
}

static void check_left(const char *text, bool core, const char *want, size_t left_out, const char *first)
{
    struct err err = {""};
    struct disco_doc *none = disco_parse(SLICE_LIT(HEAD TAIL), &err), *d = judge(slice_str(text), core, 1);
    struct slice said;
    struct buf left;

    merge(none, d, &left);
    is_slice(buf_slice(&left), want, "left of %s", text);
    is_slice(disco_doc_raw(d), text, "the bytes as sent");
    is_u64(disco_doc_left_out(d, &said), left_out, "so many are left out");
    is_slice(said, first, "the first of them");
    disco_doc_unref(d);
    disco_doc_unref(none);
    buf_free(&left);
}

static void test_left(void)
{
    static const struct {
        const char *text, *want, *first;
        size_t n;
        bool core;
    } rows[] = {
        {GROUP("apps", V1), GROUP("apps", V1), "", 0, false},
        {GROUP("a_b", V1) "," GROUP("apps", V1), GROUP("apps", V1), "a_b///", 1, false},
        {GROUP("apps", V1) "," GROUP("\\u001b[31m", V1) "," GROUP("<b>", V1) "," GROUP("batch", V1),
         GROUP("apps", V1) "," GROUP("batch", V1), "\033[31m///", 2, false},
        {GROUP("", V1), "", "///", 1, false},
        {"{\"versions\":[" V1 "]}," GROUP("apps", V1), GROUP("apps", V1), "///", 1, false},
        {GROUP("", V1) "," GROUP("apps", V1), GROUP("", V1), "apps///", 1, true},
        {GROUP("apps", V1) "," GROUP("apps", V1), GROUP("apps", V1), "apps///", 1, false},
        {GROUP("a", VERSION("v1/../../x", RES("x")) "," V1), GROUP("a", V1), "a/v1/../../x//", 1, false},
        {GROUP("a", VERSION("", RES("x")) "," VERSION("V1", "") "," V1 "," V1), GROUP("a", V1), "a///", 3, false},
        {GROUP("a", V1 "," VERSION("1", RES("x"))), GROUP("a", V1), "a/1//", 1, false},
        {GROUP("a", VERSION("1", RES("x"))) "," GROUP("b", ""), GROUP("b", ""), "a///", 1, false},
        {GROUP("a", VERSION("v1", RES("../x") "," RES("a\\u0000b") "," RES("b") "," RES("") "," RES("c") "," RES("b"))),
         GROUP("a", VERSION("v1", RES("b") "," RES("c"))), "a/v1/../x/", 4, false},
        {GROUP("a", VERSION("v1", RES("%2e%2e"))), GROUP("a", "{\"version\":\"v1\",\"freshness\":\"Current\"}"),
         "a/v1/%2e%2e/", 1, false},
        {GROUP("a", VERSION("v1", WITH("b", SUB("../y") "," SUB("scale") "," SUB("") "," SUB("status")))),
         GROUP("a", VERSION("v1", WITH("b", SUB("scale") "," SUB("status")))), "a/v1/b/../y", 2, false},
        {GROUP("a", VERSION("v1", WITH("b", SUB("..")) "," RES("c"))), GROUP("a", VERSION("v1", RES("b") "," RES("c"))),
         "a/v1/b/..", 1, false},
        {"{\"versions\":[{\"resources\":[{\"verbs\":[],\"resource\":\"/\"}," RES("b") "],\"version\":\"v1\"}],"
                                                                                      "\"metadata\":{\"name\":\"z\"}}",
         GROUP("z", "{\"version\":\"v1\",\"resources\":[" RES("b") "]}"), "z/v1///", 1, false},
        {GROUP("custom.metrics.k8s.io", VERSION("v1beta1", RES("pods") "," WITH("*", SUB("a.com|b_C:d")))),
         GROUP("custom.metrics.k8s.io", VERSION("v1beta1", RES("pods") "," WITH("*", SUB("a.com|b_C:d")))), "", 0,
         false},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        char text[2048], want[2048];

        (void)snprintf(text, sizeof(text), HEAD "%s" TAIL, rows[i].text);
        (void)snprintf(want, sizeof(want), HEAD "%s" TAIL, rows[i].want);
        check_left(text, rows[i].core, want, rows[i].n, rows[i].first);
    }
}

/* A resource goes with what would be printed of it; of other fields, whatever they hold. */
static void test_texts(void)
{
    static const struct {
        const char *field;
        size_t left_out;
    } rows[] = {
        {"\"responseKind\":{\"kind\":\"Pod\"}", 0},
        {"\"responseKind\":{\"kind\":\"P\\u001bod\"}", 1},
        {"\"responseKind\":{\"group\":\"\\u0007\"}", 1},
        {"\"shortNames\":[\"po\",\"~!\"]", 0},
        {"\"shortNames\":[\"po\",\"a\x7f\"]", 1},
        {"\"categories\":[\"\xc2\x9b\"]", 1},
        {"\"singularResource\":\"a\\nb\"", 1},
        {"\"scope\":\"\xe2\x80\xae\"", 1},
        {"\"verbs\":[\"get\",\"\\u001b\"]", 1},
        {"\"subresources\":[{\"subresource\":\"s\",\"responseKind\":{\"kind\":\"\\u001b\"}}]", 1},
        {"\"description\":\"\xc3\xa4\\n\"", 0},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        char text[1024];
        struct slice first;
        struct disco_doc *d;

        (void)snprintf(text, sizeof(text),
                       HEAD
                       "{\"metadata\":{\"name\":\"g\",\"x\":\"\\n\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{"
                       "\"resource\":\"a\",%s},{\"resource\":\"b\"}]}]}" TAIL,
                       rows[i].field);
        d = judge(slice_str(text), false, 1);
        is_u64(disco_doc_left_out(d, &first), rows[i].left_out, "left out with %s", rows[i].field);
        is_u64(disco_doc_n_resources(d), 2 - rows[i].left_out, "the other one stays");
        disco_doc_unref(d);
    }
}

/* Unless it is asked for, all is as it was sent. */
static void test_unasked(void)
{
    static const char text[] = HEAD GROUP("", VERSION("1", RES("a b"))) TAIL;
    struct err err = {""};
    struct disco_doc *d = disco_parse(slice_str(text), &err);
    struct slice first;

    is_slice(disco_doc_raw(d), text, "the bytes as sent");
    is_u64(disco_doc_n_resources(d), 1, "a resource");
    is_u64(disco_doc_left_out(d, &first), 0, "nothing is left out");
    is_u64(disco_doc_left_out(NULL, &first), 0, "of nothing neither");
    disco_doc_unref(d);
}

static void read_file(const char *name, struct buf *out)
{
    const char *src = getenv("top_srcdir");
    char path[512];
    FILE *f;
    size_t n;

    buf_init(out, 4 << 20);
    (void)snprintf(path, sizeof(path), "%s/tests/unit/kube/vectors/%s", src == NULL ? "." : src, name);
    f = fopen(path, "re");
    if (f == NULL)
        tap_bail("cannot read %s", path);
    do {
        char *room = buf_reserve(out, 65536);

        n = fread(room, 1, 65536, f);
        buf_commit(out, n);
    } while (n > 0);
    (void)fclose(f);
}

/* Real servers' documents stay as they are. */
static void test_real(void)
{
    static const char *const files[] = {"discovery-1.33.13-v2.json", "discovery-1.33.13-v2beta1.json",
                                        "discovery-1.34.4-v2.json", "discovery-1.36.3-v2.json"};

    for (size_t i = 0; i < ROWS(files); i++) {
        struct disco_doc *d;
        struct slice first;
        struct buf text;

        read_file(files[i], &text);
        d = judge(buf_slice(&text), false, SIZE_MAX);
        is_u64(disco_doc_left_out(d, &first), 0, "%s: nothing is left out", files[i]);
        ok(slice_eq(disco_doc_raw(d), buf_slice(&text)), "the bytes as sent");
        disco_doc_unref(d);
        buf_free(&text);
    }
}

/* What is merged has nothing of it either, from whomever a group is copied whole. */
static void test_merged(void)
{
    static const char ours[] = HEAD GROUP("apps", V1) TAIL;
    static const char theirs[] =
        HEAD GROUP("", V1) "," GROUP("apps", VERSION("v1", RES("\\u001b") "," RES("a"))) "," GROUP(
            "b", VERSION("v/2", RES("x")) "," VERSION("v1", RES("a/b") "," RES("c"))) TAIL;
    static const char want[] = HEAD GROUP("apps", V1) "," GROUP("b", VERSION("v1", RES("c"))) TAIL;
    struct err err = {""};
    struct disco_doc *a = disco_parse(slice_str(ours), &err), *b = judge(slice_str(theirs), false, 1);
    struct buf left;

    merge(a, b, &left);
    is_slice(buf_slice(&left), want, "merged");
    buf_free(&left);
    disco_doc_unref(a);
    disco_doc_unref(b);
}

/* The local server says the same: of what it has, nothing is lost. */
/* More than is united with what others list, in one go. */
static void test_many(void)
{
    static const struct {
        const char *what, *before, *left, *right, *behind;
        size_t most;
    } rows[] = {
        {"groups", "", "{\"metadata\":{\"name\":\"g", "\"},\"versions\":[" V1 "]}", "", LIMIT_DISCOVERY_PEER_GROUPS},
        {"versions", "{\"metadata\":{\"name\":\"g\"},\"versions\":[", "{\"version\":\"v", "\"}", "]}",
         LIMIT_DISCOVERY_PEER_LIST},
        {"resources", "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[",
         "{\"resource\":\"r", "\"}", "]}]}", LIMIT_DISCOVERY_PEER_LIST},
        {"subresources",
         "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"r\","
         "\"subresources\":[",
         "{\"subresource\":\"s", "\"}", "]}]}]}", 1000},
    };
    struct slice first;
    struct buf text;

    for (size_t i = 0; i < ROWS(rows); i++)
        for (size_t more = 0; more < 3; more += 2) {
            struct disco_doc *d;
            const struct disco_version *v;

            buf_init(&text, 16 << 20);
            buf_append_str(&text, HEAD);
            buf_append_str(&text, rows[i].before);
            for (size_t k = 0; k < rows[i].most + more; k++) {
                if (k > 0)
                    buf_append_char(&text, ',');
                buf_printf(&text, "%s%zu%s", rows[i].left, k, rows[i].right);
            }
            buf_append_str(&text, rows[i].behind);
            buf_append_str(&text, TAIL);
            d = judge(buf_slice(&text), false, SIZE_MAX);
            v = disco_doc_groups(d)->versions;
            is_u64(disco_doc_left_out(d, &first), more, "%s: left out beyond %zu", rows[i].what, rows[i].most);
            is_u64(i == 0   ? disco_doc_n_groups(d)
                   : i == 1 ? disco_doc_groups(d)->n_versions
                   : i == 2 ? v->n_resources
                            : v->resources->n_subresources,
                   rows[i].most, "the others stay");
            ok(i == 0 || disco_doc_groups(d)->reduced == (more > 0), "and it does not go on as it came");
            disco_doc_unref(d);
            buf_free(&text);
        }
}

/* Of next to nothing there may be a million: what is made of it, and looked at in vain, is spent as well. */
static void test_empty_ones(void)
{
    enum { N = 5000, BUDGET = 1000, READ_BYTES = 32, LOOK_BYTES = 8 };
    static const struct {
        const char *what, *before, *behind;
        size_t looks; /* at each */
    } rows[] = {
        {"versions", "{\"metadata\":{\"name\":\"g\"},\"versions\":[", "]}", 2},
        {"subresources",
         "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"r\","
         "\"subresources\":[",
         "]}]}]}", 1},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct disco_parser *p = disco_parser_new();
        size_t steps = 1, least = N * (READ_BYTES + rows[i].looks * LOOK_BYTES) / BUDGET;
        struct disco_doc *d = NULL;
        struct err err = {""};
        struct buf text;

        buf_init(&text, 1 << 20);
        buf_append_str(&text, HEAD);
        buf_append_str(&text, rows[i].before);
        for (size_t k = 0; k < N; k++)
            buf_append_str(&text, k == 0 ? "{}" : ",{}");
        buf_append_str(&text, rows[i].behind);
        buf_append_str(&text, TAIL);
        disco_parser_judge(p, false);
        if (!disco_parser_feed(p, buf_slice(&text), &err))
            tap_bail("%s", err.text);
        while (disco_parser_step(p, BUDGET, &d, &err) == STEP_MORE)
            steps++;
        ok(d != NULL && steps >= least, "%d empty %s in %zu steps: at least %zu", N, rows[i].what, steps, least);
        disco_doc_unref(d);
        disco_parser_free(p);
        buf_free(&text);
    }
}

/* The merged document has room for several of them. */
static void test_too_large(void)
{
    static char piece[1 << 20];
    struct err err = {""};

    memset(piece, ' ', sizeof(piece));
    for (int judges = 0; judges < 2; judges++) {
        struct disco_parser *p = disco_parser_new();
        size_t fed = 0, most = judges ? LIMIT_DISCOVERY_PEER_BYTES : LIMIT_DISCOVERY_BYTES;

        if (judges)
            disco_parser_judge(p, false);
        while (fed <= LIMIT_DISCOVERY_BYTES && disco_parser_feed(p, slice_of(piece, sizeof(piece)), &err))
            fed += sizeof(piece);
        is_u64(fed, most, judges ? "of a peer" : "of the local server");
        disco_parser_free(p);
    }
}

static void test_same(void)
{
    static const char text[] = HEAD GROUP("b", VERSION("v1", RES("a b") "," RES("c"))) TAIL;
    struct err err = {""};
    struct disco_doc *a = disco_parse(slice_str(text), &err), *b = judge(slice_str(text), false, 1);
    struct buf left;

    merge(a, b, &left);
    is_slice(buf_slice(&left), text, "as ours has it");
    buf_free(&left);
    disco_doc_unref(a);
    disco_doc_unref(b);
}

int main(void)
{
    test_names();
    test_left();
    test_texts();
    test_unasked();
    test_real();
    test_merged();
    test_many();
    test_empty_ones();
    test_too_large();
    test_same();
    return tap_end();
}
