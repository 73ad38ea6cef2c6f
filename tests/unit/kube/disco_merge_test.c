/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merging discovery documents: each rule once, as text; what random documents have in common is in
 * disco_merge_random_test.c.
 */
#include "kube/disco_merge.h"

#include <stdio.h>

#include "base/buf.h"
#include "lib/merge_steps.h"
#include "lib/tap.h"

#define DOC(items)                                                                                                     \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[" items  \
    "]}\n"
#define BETA(items)                                                                                                    \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/"                                        \
    "v2beta1\",\"metadata\":{},\"items\":[" items "]}\n"
#define G(name, versions) "{\"metadata\":{\"name\":\"" name "\"},\"versions\":[" versions "]}"
#define V(name, resources) "{\"version\":\"" name "\",\"resources\":[" resources "],\"freshness\":\"Current\"}"
#define STALE(name, resources) "{\"version\":\"" name "\",\"resources\":[" resources "],\"freshness\":\"Stale\"}"
#define R(name, rest)                                                                                                  \
    "{\"resource\":\"" name "\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"K\"}," rest "}"
#define PLAIN(name) R(name, "\"scope\":\"Cluster\",\"singularResource\":\"\",\"verbs\":[\"get\",\"list\"]")
#define RV(name, verbs) R(name, "\"scope\":\"Cluster\",\"singularResource\":\"\",\"verbs\":[" verbs "]")
#define RS(name, subs)                                                                                                 \
    R(name, "\"scope\":\"Cluster\",\"singularResource\":\"\",\"verbs\":[\"get\"],\"subresources\":[" subs "]")

/* D: of the local server's custom resources nobody knows. */
enum { L = DISCO_SERVER_LOCAL, P = DISCO_SERVER_LAPSED, W = DISCO_SERVER_VOUCHES, D = 1 << 8 };

struct server {
    const char *id, *doc;
    unsigned flags;
};

struct row {
    const char *name;
    struct server servers[5];
    const char *exclude[4]; /* "group/version" */
    const char *want;
    bool is_local;
};

static const struct row rows[] = {
    {"one server", {{"a", DOC(G("g", V("v1", PLAIN("r")))), L}}, {0}, DOC(G("g", V("v1", PLAIN("r")))), true},
    {"two that say the same",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L}, {"b", DOC(G("g", V("v1", PLAIN("r")))), 0}},
     {0},
     DOC(G("g", V("v1", PLAIN("r")))),
     true},
    {"a peer with less",
     {{"a", DOC(G("g", V("v1", PLAIN("r"))) "," G("h", "")), L}, {"b", DOC(G("g", V("v1", PLAIN("r")))), 0}},
     {0},
     DOC(G("g", V("v1", PLAIN("r"))) "," G("h", "")),
     true},
    {"nothing anywhere", {{"a", DOC(""), L}, {"b", DOC(""), 0}}, {0}, DOC(""), true},
    {"no server at all", {{0}}, {0}, DOC(""), false},
    {"peers only", {{"a", DOC(G("g", V("v1", PLAIN("r")))), 0}}, {0}, DOC(G("g", V("v1", PLAIN("r")))), false},
    {"an empty local server",
     {{"a", DOC(""), L}, {"b", DOC(G("g", V("v1", PLAIN("r")))), 0}},
     {0},
     DOC(G("g", V("v1", PLAIN("r")))),
     false},
    {"a new group",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L},
      {"b", DOC(G("g", V("v1", PLAIN("r"))) "," G("h", V("v1", PLAIN("x")))), 0}},
     {0},
     DOC(G("g", V("v1", PLAIN("r"))) "," G("h", V("v1", PLAIN("x")))),
     false},
    {"a new version",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L}, {"b", DOC(G("g", V("v2", PLAIN("r")) "," V("v1", PLAIN("r")))), 0}},
     {0},
     DOC(G("g", V("v2", PLAIN("r")) "," V("v1", PLAIN("r")))),
     false},
    {"a new resource",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L}, {"b", DOC(G("g", V("v1", PLAIN("q") "," PLAIN("r")))), 0}},
     {0},
     DOC(G("g", V("v1", PLAIN("q") "," PLAIN("r")))),
     false},
    {"resources that each has alone",
     {{"a", DOC(G("g", V("v1", PLAIN("r") "," PLAIN("z")))), L},
      {"b", DOC(G("g", V("v1", PLAIN("q") "," PLAIN("r")))), 0}},
     {0},
     DOC(G("g", V("v1", PLAIN("q") "," PLAIN("r") "," PLAIN("z")))),
     false},
    {"another group order, first complete list",
     {{"a", DOC(G("g", "") "," G("h", "")), L}, {"b", DOC(G("h", "") "," G("g", "")), 0}},
     {0},
     DOC(G("g", "") "," G("h", "")),
     true},
    {"another group order, seen from the other side",
     {{"a", DOC(G("g", "") "," G("h", "")), 0}, {"b", DOC(G("h", "") "," G("g", "")), L}},
     {0},
     DOC(G("g", "") "," G("h", "")),
     false},
    {"a list that has all is the order, whatever others say",
     {{"a", DOC(G("g", V("v2", "") "," V("v1", ""))), L},
      {"b", DOC(G("g", V("v1", "") "," V("v2", "") "," V("v0", ""))), 0},
      {"c", DOC(G("g", V("va", ""))), 0}},
     {0},
     DOC(G("g", V("v1", "") "," V("v2", "") "," V("v0", "") "," V("va", ""))),
     false},
    {"a cycle keeps the preferred version",
     {{"a", DOC(G("g", V("v2", "") "," V("v1", "") "," V("v3", ""))), L},
      {"b", DOC(G("g", V("v1", "") "," V("v2", "") "," V("v0", ""))), 0}},
     {0},
     DOC(G("g", V("v2", "") "," V("v1", "") "," V("v0", "") "," V("v3", ""))),
     false},
    {"no two servers disagree, but how names order the first two's with the third: all at once",
     {{"a", DOC(G("g", V("v1", "") "," V("v3", ""))), L},
      {"b", DOC(G("g", V("v2", "") "," V("v3", ""))), 0},
      {"c", DOC(G("g", V("v2", "") "," V("v1", "") "," V("v4", ""))), 0}},
     {0},
     DOC(G("g", V("v2", "") "," V("v1", "") "," V("v3", "") "," V("v4", ""))),
     false},
    {"creationTimestamp of older servers is left out where servers differ",
     {{"a",
       DOC("{\"metadata\":{\"name\":\"g\",\"creationTimestamp\":null},\"versions\":[" V(
           "v1", "") "]},"
                     "{\"metadata\":{\"creationTimestamp\":null},\"versions\":[" V("v1", "") "]}"),
       L},
      {"b", DOC(G("g", V("v1", ""))), 0}},
     {0},
     DOC(G("g", V("v1", "")) ",{\"metadata\":{},\"versions\":[" V("v1", "") "]}"),
     false},
    {"and stays where they do not",
     {{"a", DOC("{\"metadata\":{\"name\":\"g\",\"creationTimestamp\":null},\"versions\":[" V("v1", "") "]}"), L},
      {"b", DOC("{\"metadata\":{\"name\":\"g\",\"creationTimestamp\":null},\"versions\":[" V("v1", "") "]}"), 0}},
     {0},
     DOC("{\"metadata\":{\"name\":\"g\",\"creationTimestamp\":null},\"versions\":[" V("v1", "") "]}"),
     true},
    {"verbs are united and sorted",
     {{"a", DOC(G("g", V("v1", RV("r", "\"list\",\"get\"")))), L},
      {"b", DOC(G("g", V("v1", RV("r", "\"patch\",\"get\"")))), 0}},
     {0},
     DOC(G("g", V("v1", RV("r", "\"get\",\"list\",\"patch\"")))),
     false},
    {"equal verbs are left as they are",
     {{"a", DOC(G("g", V("v1", RV("r", "\"list\",\"get\"") "," PLAIN("x")))), L},
      {"b", DOC(G("g", V("v1", RV("r", "\"list\",\"get\"")))), 0}},
     {0},
     DOC(G("g", V("v1", RV("r", "\"list\",\"get\"") "," PLAIN("x")))),
     true},
    {"null verbs and some",
     {{"a", DOC(G("g", V("v1", "{\"resource\":\"r\",\"verbs\":null}"))), L},
      {"b", DOC(G("g", V("v1", "{\"resource\":\"r\",\"verbs\":[\"get\"]}"))), 0}},
     {0},
     DOC(G("g", V("v1", "{\"resource\":\"r\",\"verbs\":[\"get\"]}"))),
     false},
    {"null verbs and none",
     {{"a", DOC(G("g", V("v1", "{\"resource\":\"r\",\"verbs\":null}"))), L},
      {"b", DOC(G("g", V("v1", "{\"resource\":\"r\",\"verbs\":[]}"))), 0}},
     {0},
     DOC(G("g", V("v1", "{\"resource\":\"r\",\"verbs\":null}"))),
     true},
    {"subresources are united and sorted",
     {{"a", DOC(G("g", V("v1", RS("r", "{\"subresource\":\"status\",\"verbs\":[\"get\"]}")))), L},
      {"b",
       DOC(G(
           "g",
           V("v1",
             RS("r",
                "{\"subresource\":\"scale\",\"verbs\":[\"get\"]},{\"subresource\":\"status\",\"verbs\":[\"get\"]}")))),
       0}},
     {0},
     DOC(G("g",
           V("v1",
             RS("r",
                "{\"subresource\":\"scale\",\"verbs\":[\"get\"]},{\"subresource\":\"status\",\"verbs\":[\"get\"]}")))),
     false},
    {"an equal-named subresource: the later server",
     {{"a",
       DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"responseKind\":{\"kind\":\"A\"},\"verbs\":[\"update\","
                                  "\"get\"],\"old\":1}")))),
       L},
      {"b",
       DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"responseKind\":{\"kind\":\"B\"},\"acceptedTypes\":[{}],"
                                  "\"verbs\":[\"patch\"],\"new\":2}")))),
       0}},
     {0},
     DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"responseKind\":{\"kind\":\"B\"},\"acceptedTypes\":[{}],"
                                "\"verbs\":[\"patch\"],\"new\":2}")))),
     false},
    {"the last server counts even if it repeats the first",
     {{"a", DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"x\":1,\"verbs\":[\"get\"]}")))), L},
      {"b", DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"x\":2,\"verbs\":[\"get\"]}")))), 0},
      {"c", DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"x\":1,\"verbs\":[\"get\"]}")))), 0}},
     {0},
     DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"x\":1,\"verbs\":[\"get\"]}")))),
     true},
    {"the last server counts even if only that resource repeats",
     {{"a", DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"x\":1,\"verbs\":[\"get\"]}")))), L},
      {"b", DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"x\":2,\"verbs\":[\"get\"]}")))), 0},
      {"c", DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"x\":1,\"verbs\":[\"get\"]}") "," PLAIN("t")))), 0}},
     {0},
     DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"x\":1,\"verbs\":[\"get\"]}") "," PLAIN("t")))),
     false},
    {"whatever the later one does not say",
     {{"a",
       DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"responseKind\":{\"kind\":\"A\"},\"verbs\":[\"get\"]}")))),
       L},
      {"b", DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"responseKind\":{},\"verbs\":null}")))), 0}},
     {0},
     DOC(G("g", V("v1", RS("r", "{\"subresource\":\"s\",\"responseKind\":{},\"verbs\":null}")))),
     false},
    {"short names and categories of the first server",
     {{"a", DOC(G("g", V("v1", R("r", "\"verbs\":[\"get\"],\"shortNames\":[\"z\",\"a\"]")))), L},
      {"b", DOC(G("g", V("v1", R("r", "\"verbs\":[\"get\"],\"shortNames\":[\"b\",\"a\"],\"categories\":[\"all\"]")))),
       0}},
     {0},
     DOC(G("g", V("v1", R("r", "\"verbs\":[\"get\"],\"shortNames\":[\"z\",\"a\"]")))),
     true},
    {"scope, kind and singular of the first server",
     {{"a",
       DOC(G("g", V("v1", "{\"resource\":\"r\",\"responseKind\":{\"kind\":\"A\"},\"scope\":\"Cluster\","
                          "\"singularResource\":\"a\",\"verbs\":[]}"))),
       0},
      {"b",
       DOC(G("g", V("v1", "{\"resource\":\"r\",\"responseKind\":{\"kind\":\"B\"},\"scope\":\"Namespaced\","
                          "\"singularResource\":\"b\",\"verbs\":[]}"))),
       L}},
     {0},
     DOC(G("g", V("v1", "{\"resource\":\"r\",\"responseKind\":{\"kind\":\"A\"},\"scope\":\"Cluster\","
                        "\"singularResource\":\"a\",\"verbs\":[]}"))),
     false},
    {"responseKind is never lost",
     {{"a", DOC(G("g", V("v1", "{\"resource\":\"r\",\"responseKind\":null,\"singularResource\":\"\",\"verbs\":[]}"))),
       L},
      {"b",
       DOC(G("g", V("v1",
                    "{\"resource\":\"r\",\"responseKind\":{\"kind\":\"B\"},\"singularResource\":\"b\",\"verbs\":[]}"))),
       0}},
     {0},
     DOC(G("g",
           V("v1", "{\"resource\":\"r\",\"responseKind\":{\"kind\":\"B\"},\"singularResource\":\"\",\"verbs\":[]}"))),
     false},
    {"unknown fields survive at every level",
     {{"a",
       DOC("{\"metadata\":{\"name\":\"g\"},\"g1\":1,\"versions\":[{\"version\":\"v1\",\"v1\":[1],\"resources\":[{"
           "\"resource\":\"r\",\"r1\":{\"a\":1},\"verbs\":[]}]}]}"),
       L},
      {"b",
       DOC("{\"metadata\":{\"name\":\"g\"},\"g1\":9,\"g2\":2,\"versions\":[{\"version\":\"v1\",\"v2\":\"x\","
           "\"resources\":[{\"resource\":\"r\",\"r2\":null,\"verbs\":[]}]}]}"),
       0}},
     {0},
     DOC("{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"r\","
         "\"verbs\":[],\"r1\":{\"a\":1},\"r2\":null}],\"v1\":[1],\"v2\":\"x\"}],\"g1\":1,\"g2\":2}"),
     false},
    {"a lapsed server's own group is stale",
     {{"a", DOC(G("g", "")), L}, {"b", DOC(G("g", "") "," G("h", V("v1", PLAIN("r")))), P}},
     {0},
     DOC(G("g", "") "," G("h", STALE("v1", PLAIN("r")))),
     false},
    {"a lapsed server's own version is stale",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L}, {"b", DOC(G("g", V("v2", PLAIN("r")) "," V("v1", PLAIN("r")))), P}},
     {0},
     DOC(G("g", STALE("v2", PLAIN("r")) "," V("v1", PLAIN("r")))),
     false},
    {"a lapsed version without freshness",
     {{"a", DOC(""), L}, {"b", DOC(G("h", "{\"version\":\"v1\"}")), P}},
     {0},
     DOC(G("h", "{\"version\":\"v1\",\"freshness\":\"Stale\"}")),
     false},
    {"a live server makes it current again",
     {{"a", DOC(""), L}, {"b", DOC(G("h", V("v1", PLAIN("r")))), P}, {"c", DOC(G("h", V("v1", PLAIN("r")))), 0}},
     {0},
     DOC(G("h", V("v1", PLAIN("r")))),
     false},
    {"what only a lapsed server adds to a live version stays",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L}, {"b", DOC(G("g", V("v1", PLAIN("r") "," PLAIN("s")))), P}},
     {0},
     DOC(G("g", V("v1", PLAIN("r") "," PLAIN("s")))),
     false},
    {"two lapsed servers",
     {{"a", DOC(G("g", "")), L},
      {"b", DOC(G("h", V("v1", PLAIN("r")))), P},
      {"c", DOC(G("h", V("v1", PLAIN("s")))), P}},
     {0},
     DOC(G("g", "") "," G("h", STALE("v1", PLAIN("r") "," PLAIN("s")))),
     false},
    {"stale here, current there",
     {{"a", DOC(G("g", STALE("v1", ""))), L}, {"b", DOC(G("g", V("v1", PLAIN("r")))), 0}},
     {0},
     DOC(G("g", V("v1", PLAIN("r")))),
     false},
    {"stale everywhere",
     {{"a", DOC(G("g", STALE("v1", PLAIN("r")))), L}, {"b", DOC(G("g", STALE("v1", PLAIN("r")))), P}},
     {0},
     DOC(G("g", STALE("v1", PLAIN("r")))),
     true},
    {"what is excluded lapses with nobody",
     {{"a", DOC(G("g", V("v1", PLAIN("r"))) "," G("h", V("v1", PLAIN("r")))), L | P},
      {"b", DOC(G("g", V("v1", PLAIN("r")))), 0}},
     {"g/v1"},
     DOC(G("g", V("v1", PLAIN("r"))) "," G("h", STALE("v1", PLAIN("r")))),
     false},
    {"the local server lapses as any other",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L | P}},
     {0},
     DOC(G("g", STALE("v1", PLAIN("r")))),
     false},
    {"an excluded version never comes from peers",
     {{"a", DOC(""), L}, {"b", DOC(G("g", V("v2", PLAIN("r")) "," V("v1", PLAIN("r")))), 0}},
     {"g/v1"},
     DOC(G("g", V("v2", PLAIN("r")))),
     false},
    {"nor a group of which nothing is left",
     {{"a", DOC(G("h", "")), L}, {"b", DOC(G("g", V("v1", PLAIN("r"))) "," G("h", "")), 0}},
     {"g/v1"},
     DOC(G("h", "")),
     true},
    {"but from the local server",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L}, {"b", DOC(G("g", V("v1", PLAIN("old")))), 0}},
     {"g/v1"},
     DOC(G("g", V("v1", PLAIN("r")))),
     true},
    {"unless others vouch for what there is",
     {{"a", DOC(G("g", V("v1", PLAIN("gone") "," PLAIN("r"))) "," G("h", V("v1", ""))), L},
      {"b", DOC(G("g", V("v1", PLAIN("new") "," PLAIN("r")))), W},
      {"c", DOC(G("g", V("v1", PLAIN("other")))), 0}},
     {"g/v1", "h/v1"},
     DOC(G("g", V("v1", PLAIN("new") "," PLAIN("r")))),
     false},
    {"each of them",
     {{"a", DOC(G("g", V("v1", PLAIN("gone")))), L},
      {"b", DOC(G("g", V("v1", PLAIN("r")))), W},
      {"c", DOC(G("h", V("v1", ""))), W}},
     {"g/v1", "h/v1"},
     DOC(G("g", V("v1", PLAIN("r"))) "," G("h", V("v1", ""))),
     false},
    {"which is about what is excluded only",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L}, {"b", DOC(G("h", V("v1", ""))), W}},
     {"h/v1"},
     DOC(G("g", V("v1", PLAIN("r"))) "," G("h", V("v1", ""))),
     false},
    {"while nobody knows it is of all, and Stale",
     {{"a", DOC(G("g", V("v2", PLAIN("r")) "," V("v1", PLAIN("r")))), L | D},
      {"b", DOC(G("g", V("v1", PLAIN("new"))) "," G("h", V("v1", PLAIN("r")))), 0}},
     {"g/v1", "h/v1"},
     DOC(G("g", V("v2", PLAIN("r")) "," STALE("v1", PLAIN("new") "," PLAIN("r"))) "," G("h", STALE("v1", PLAIN("r")))),
     false},
    {"also if all say the same",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L | D}, {"b", DOC(G("g", V("v1", PLAIN("r")))), 0}},
     {"g/v1"},
     DOC(G("g", STALE("v1", PLAIN("r")))),
     false},
    {"but nothing else is",
     {{"a", DOC(G("g", V("v1", PLAIN("r")))), L | D}, {"b", DOC(G("g", V("v1", PLAIN("r")))), 0}},
     {"h/v1"},
     DOC(G("g", V("v1", PLAIN("r")))),
     true},
    {"exclusion is by group and version",
     {{"a", DOC(""), L}, {"b", DOC(G("g", V("v1", "")) "," G("h", V("v1", ""))), 0}},
     {"h/v1", "g/v2"},
     DOC(G("g", V("v1", ""))),
     false},
    {"equal bytes, but excluded at the peer",
     {{"a", DOC(G("g", V("v2", "") "," V("v1", ""))), L}, {"b", DOC(G("g", V("v2", "") "," V("v1", ""))), 0}},
     {"g/v1"},
     DOC(G("g", V("v2", "") "," V("v1", ""))),
     true},
    {"an empty group is kept", {{"a", DOC(""), L}, {"b", DOC(G("g", "")), 0}}, {"g/v1"}, DOC(G("g", "")), false},
    {"names with escapes",
     {{"a", DOC(G("g", V("v1", PLAIN("r\\u0061")))), L}, {"b", DOC(G("g", V("v1", RV("ra", "\"watch\"")))), 0}},
     {0},
     DOC(G("g", V("v1", RV("ra", "\"get\",\"list\",\"watch\"")))),
     false},
    {"three servers",
     {{"c", DOC(G("c", "") "," G("d", "")), 0},
      {"a", DOC(G("a", "") "," G("b", "")), L},
      {"b", DOC(G("b", "") "," G("c", "")), 0}},
     {0},
     DOC(G("a", "") "," G("b", "") "," G("c", "") "," G("d", "")),
     false},
};

/* Runs one row with the servers added in the order given by `turn`, in steps of `budget`. */
static struct disco_merge *run(const struct row *row, size_t turn, size_t budget)
{
    struct disco_merge *m = disco_merge_new();
    struct err err = {""};
    size_t n = 0;

    while (n < ROWS(row->servers) && row->servers[n].id != NULL)
        n++;
    for (size_t i = 0; i < n; i++) {
        const struct server *s = &row->servers[(i + turn) % n];
        struct disco_doc *d = disco_parse(slice_str(s->doc), &err);

        if (d == NULL || !disco_merge_add(m, slice_str(s->id), d, s->flags & ~(unsigned)D))
            tap_bail("%s: %s", row->name, err.text);
        disco_doc_unref(d);
        if ((s->flags & D) != 0)
            disco_merge_doubt(m);
    }
    for (size_t i = 0; i < ROWS(row->exclude) && row->exclude[i] != NULL; i++) {
        struct slice group, version;

        version = slice_str(row->exclude[i]);
        if (!slice_split(&version, '/', &group) || !disco_merge_exclude(m, group, version))
            tap_bail("no memory");
    }
    (void)merge_in_steps(m, budget, &err);
    if (err_is_set(&err))
        tap_bail("%s: %s", row->name, err.text);
    return m;
}

static void test_rules(void)
{
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct disco_merge *m = run(&rows[i], 0, SIZE_MAX);
        struct disco_merged out, other;
        struct disco_doc *d;
        struct err err = {""};

        disco_merge_result(m, &out);
        is_slice(out.v2, rows[i].want, "%s", rows[i].name);
        is_int(out.is_local, rows[i].is_local, "%s: is it the local document", rows[i].name);
        d = disco_parse(out.v2beta1, &err);
        ok(d != NULL && disco_doc_form(d) == DISCO_V2BETA1 && out.v2beta1.n == out.v2.n + 5, "%s: v2beta1 %s",
           rows[i].name, err.text);
        disco_doc_unref(d);
        for (size_t turn = 1; turn < 3; turn++) {
            struct disco_merge *again = run(&rows[i], turn, 1);

            disco_merge_result(again, &other);
            ok(slice_eq(out.v2, other.v2) && slice_eq(out.v2beta1, other.v2beta1),
               "%s: the same in another order and in steps", rows[i].name);
            disco_merge_free(again);
        }
        disco_merge_free(m);
    }
}

static void test_beta(void)
{
    const struct row same = {"v2beta1, nothing differs",
                             {{"a", BETA(G("g", V("v1", PLAIN("r")))), L}, {"b", DOC(G("g", V("v1", PLAIN("r")))), 0}},
                             {0},
                             NULL,
                             false};
    const struct row more = {
        "v2beta1 and a new group", {{"a", BETA(G("g", "")), L}, {"b", DOC(G("h", "")), 0}}, {0}, NULL, false};
    struct disco_merge *m = run(&same, 0, SIZE_MAX);
    struct disco_merged out;

    disco_merge_result(m, &out);
    is_slice(out.v2beta1, BETA(G("g", V("v1", PLAIN("r")))), "a v2beta1 server's document stays");
    is_slice(out.v2, DOC(G("g", V("v1", PLAIN("r")))), "and is rendered as v2");
    ok(!out.is_local, "which is not its own");
    disco_merge_free(m);
    m = run(&more, 0, SIZE_MAX);
    disco_merge_result(m, &out);
    is_slice(out.v2, DOC(G("g", "") "," G("h", "")), "merged with a v2 server");
    is_slice(out.v2beta1, BETA(G("g", "") "," G("h", "")), "both ways");
    disco_merge_free(m);
}

static void test_adding(void)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(SLICE_LIT(DOC(G("g", ""))), &err);
    struct disco_merge *m = disco_merge_new();
    struct disco_merged out;

    ok(disco_merge_add(m, SLICE_LIT("a"), d, L), "a server is added");
    ok(!disco_merge_add(m, SLICE_LIT("a"), d, 0), "not twice");
    ok(disco_merge_exclude(m, SLICE_LIT("a/b"), SLICE_LIT("v1")), "a group that cannot be is excluded in vain");
    ok(disco_merge_run(m, NULL, &err), "done");
    ok(!disco_merge_add(m, SLICE_LIT("b"), d, 0), "too late");
    disco_doc_unref(d);
    disco_merge_result(m, &out);
    is_slice(out.v2, DOC(G("g", "")), "the merge keeps the document alive");
    disco_merge_free(m);
    disco_merge_free(NULL);
}

static const struct row *row_named(const char *name)
{
    for (size_t i = 0; i < ROWS(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    tap_bail("no row '%s'", name);
}

/* Every allocation of a merge that goes through all rules fails in turn. */
static void test_memory(void)
{
    const struct row *row = row_named("an equal-named subresource: the later server");
    struct disco_doc *docs[2];
    struct err err = {""};
    unsigned failed = 0, silent = 0;
    bool done = false;

    for (size_t i = 0; i < 2; i++)
        docs[i] = disco_parse(slice_str(row->servers[i].doc), &err);
    for (uint64_t nth = 1; !done && nth < 300; nth++) {
        struct disco_merge *m;
        bool good;

        err_clear(&err);
        mem_fail_nth(nth);
        m = disco_merge_new();
        good = m != NULL && disco_merge_add(m, SLICE_LIT("a"), docs[0], L) &&
               disco_merge_add(m, SLICE_LIT("b"), docs[1], 0) &&
               disco_merge_exclude(m, SLICE_LIT("x"), SLICE_LIT("v1"));
        done = good && disco_merge_run(m, NULL, &err);
        if (done) {
            struct disco_merged out;

            disco_merge_result(m, &out);
            is_slice(out.v2, row->want, "with enough memory: %s", row->name);
        }
        failed += done ? 0 : 1;
        silent += good && !done && !err_is_set(&err) ? 1 : 0;
        disco_merge_free(m);
    }
    mem_fail_nth(0);
    ok(done && failed > 20, "%u allocations failed in turn", failed);
    is_u64(silent, 0, "each with a reason");
    disco_doc_unref(docs[0]);
    disco_doc_unref(docs[1]);
}

/* Two servers' documents that differ everywhere: n groups, and one whose first resource has n of everything. */
static struct disco_doc *different_doc(unsigned n, unsigned side)
{
    struct err err = {""};
    struct disco_doc *d;
    struct buf t;

    buf_init(&t, 1 << 20);
    buf_append_str(&t, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                       "\"items\":[{\"metadata\":{\"name\":\"big\"},\"versions\":[{\"version\":\"v1\",\"resources\":["
                       "{\"resource\":\"r\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"K\"},"
                       "\"scope\":\"Cluster\",\"singularResource\":\"\",\"verbs\":[");
    for (unsigned i = 0; i < n && i < 64; i++)
        buf_printf(&t, "%s\"v%u\"", i == 0 ? "" : ",", 2 * i + side);
    buf_append_str(&t, "],\"subresources\":[");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&t,
                   "%s{\"subresource\":\"s%u\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"K\"},"
                   "\"verbs\":[\"get%u\"]}",
                   i == 0 ? "" : ",", i + side, side);
    buf_append_str(&t, "]");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&t, ",\"x%u\":%u", i + side, side);
    buf_append_str(&t, "}");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&t, "," PLAIN("%u"), i + side);
    buf_append_str(&t, "]}");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&t, ",{\"version\":\"w%u\",\"resources\":[]}", i + side);
    buf_append_str(&t, "]}");
    for (unsigned i = 0; i < n; i++)
        buf_printf(&t, "," G("g%u", ""), i + side);
    buf_append_str(&t, "]}\n");
    d = disco_parse(buf_slice(&t), &err);
    if (d == NULL)
        tap_bail("%s", err.text);
    buf_free(&t);
    return d;
}

/* NULL when it failed, with a reason. */
static struct disco_merge *merged(struct disco_doc *const docs[2], bool *silent)
{
    struct disco_merge *m = disco_merge_new();
    struct err err = {""};
    bool added =
        m != NULL && disco_merge_add(m, SLICE_LIT("a"), docs[0], L) && disco_merge_add(m, SLICE_LIT("b"), docs[1], 0);

    if (added && disco_merge_run(m, NULL, &err))
        return m;
    *silent = *silent || (added && !err_is_set(&err));
    disco_merge_free(m);
    return NULL;
}

/* Of any size: what needs the next block of an arena is then one allocation or another. Nothing is left out unsaid. */
static void test_memory_of_any_size(void)
{
    unsigned failed = 0, wrong = 0;
    bool silent = false;

    for (unsigned n = 1; n < 80; n++) {
        struct disco_doc *docs[2] = {different_doc(n, 0), different_doc(n, 1)};
        struct disco_merge *whole = merged(docs, &silent), *m = NULL;
        struct disco_merged want, got;

        if (whole == NULL)
            tap_bail("no merge of %u", n);
        disco_merge_result(whole, &want);
        for (uint64_t nth = 1; m == NULL; nth++) {
            mem_fail_nth(nth);
            m = merged(docs, &silent);
            failed += m == NULL;
        }
        mem_fail_nth(0);
        disco_merge_result(m, &got);
        wrong += !slice_eq(got.v2, want.v2);
        disco_merge_free(m);
        disco_merge_free(whole);
        disco_doc_unref(docs[0]);
        disco_doc_unref(docs[1]);
    }
    ok(failed > 500, "%u allocations failed in turn", failed);
    is_u64(wrong, 0, "what does not fail is whole");
    ok(!silent, "what fails says why");
}

static void add_text(struct disco_merge *m, const char *id, struct buf *text, unsigned flags)
{
    struct err err = {""};
    struct disco_doc *d;

    buf_append_str(text, "]}\n");
    d = text->failed ? NULL : disco_parse(buf_slice(text), &err);
    if (d == NULL || !disco_merge_add(m, slice_str(id), d, flags))
        tap_bail("%s: %s", id, err.text);
    disco_doc_unref(d);
}

static void begin_text(struct buf *text)
{
    buf_reset(text);
    buf_append_str(text,
                   "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},"
                   "\"items\":[");
}

/* Large groups that only one server has are copied as they are, but not many megabytes in one step. */
static void test_copying(void)
{
    enum { BIG_GROUPS = 40, GROUP_BYTES = 100000, BUDGET = 1000, BYTES_EACH = 256 };
    struct disco_merge *m = disco_merge_new();
    struct disco_merged out;
    struct err err = {""};
    struct buf text;
    size_t steps, least = 2 * BIG_GROUPS * GROUP_BYTES / BYTES_EACH / BUDGET - 8;

    buf_init(&text, 16 << 20);
    begin_text(&text);
    buf_append_str(&text, G("a", ""));
    add_text(m, "a", &text, L);
    begin_text(&text);
    for (int i = 0; i < BIG_GROUPS; i++) {
        buf_printf(
            &text,
            "%s{\"metadata\":{\"name\":\"g%d\"},\"versions\":[{\"version\":\"v1\",\"resources\":[{\"resource\":\"",
            i == 0 ? "" : ",", i);
        for (int k = 0; k < GROUP_BYTES / 10; k++)
            buf_append_str(&text, k < 6 ? "resources-" : k == 6 ? "\",\"x\":\"" : "0123456789");
        buf_append_str(&text, "\"}]}]}");
    }
    add_text(m, "b", &text, 0);
    steps = merge_in_steps(m, BUDGET, &err);
    disco_merge_result(m, &out);
    ok(!err_is_set(&err) && out.v2.n > BIG_GROUPS * (GROUP_BYTES - 100), "%zu bytes merged", out.v2.n);
    ok(steps >= least, "in %zu steps, both forms: at least %zu", steps, least);
    disco_merge_free(m);
    buf_free(&text);
}

/* The local server's document may have a group/version of very many resources: if a peer describes it differently, each
 * is looked at, put in order and written, and none of that is one step. */
static void test_many_resources(void)
{
    enum { RESOURCES = 20000, BUDGET = 1000, PARTS = 3 };
    struct disco_merge *m = disco_merge_new();
    struct disco_merged out;
    struct err err = {""};
    struct buf text;
    size_t steps, least = PARTS * RESOURCES / BUDGET;

    buf_init(&text, 16 << 20);
    begin_text(&text);
    buf_append_str(&text, "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[");
    for (int i = 0; i < RESOURCES; i++)
        buf_printf(&text, "%s{\"resource\":\"r%d\",\"verbs\":[\"get\"]}", i == 0 ? "" : ",", i);
    buf_append_str(&text, "]}]}");
    add_text(m, "a", &text, L);
    begin_text(&text);
    buf_append_str(&text, G("g", V("v1", PLAIN("r7") "," PLAIN("x"))));
    add_text(m, "b", &text, 0);
    steps = merge_in_steps(m, BUDGET, &err);
    disco_merge_result(m, &out);
    ok(!err_is_set(&err) && out.v2.n > buf_len(&text), "%zu bytes merged", out.v2.n);
    ok(steps >= least, "in %zu steps: at least %zu", steps, least);
    disco_merge_free(m);
    buf_free(&text);
}

/*
 * One resource of two servers may have subresources and fields that we do not know without end: they are united in
 * steps, and what is not asked for is not looked at again.
 */
static void test_one_large_resource(void)
{
    enum { SUBRESOURCES = 900, EACH = 4000, BUDGET = 1000, BYTES_EACH = 256, FIELDS = 2000 };
    struct disco_merge *m = disco_merge_new();
    struct disco_merged out;
    struct err err = {""};
    struct buf text;
    size_t steps, least = 2 * (SUBRESOURCES * EACH / BYTES_EACH / BUDGET); /* united, and copied */

    buf_init(&text, 16 << 20);
    begin_text(&text);
    buf_append_str(&text, G("g", V("v1", PLAIN("r"))));
    add_text(m, "a", &text, L);
    begin_text(&text);
    buf_append_str(&text, "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":["
                          "{\"resource\":\"r\",\"verbs\":[\"get\"]");
    for (int i = 0; i < FIELDS; i++)
        buf_printf(&text, ",\"x%d\":%d", i, i);
    for (int i = 0; i < SUBRESOURCES; i++)
        buf_printf(&text, "%s{\"subresource\":\"s%03d\",\"x\":\"%0*d\"}", i == 0 ? ",\"subresources\":[" : ",", i, EACH,
                   i);
    buf_append_str(&text, "]}]}]}");
    add_text(m, "b", &text, 0);
    steps = merge_in_steps(m, BUDGET, &err);
    disco_merge_result(m, &out);
    ok(!err_is_set(&err) && out.v2.n > SUBRESOURCES * EACH, "%zu bytes merged", out.v2.n);
    ok(steps >= least, "in %zu steps: at least %zu", steps, least);
    ok(memmem(out.v2.p, out.v2.n, "\"x63\":63", 8) != NULL && memmem(out.v2.p, out.v2.n, "\"x64\":64", 8) == NULL,
       "64 fields that we do not know");
    disco_merge_free(m);
    buf_free(&text);
}

/* It may end at any step. */
static void test_giving_up(void)
{
    enum step step = STEP_MORE;

    for (size_t steps = 0; step == STEP_MORE && steps < 1000; steps++) {
        struct disco_merge *m = disco_merge_new();
        struct merge_steps merge;
        struct err err = {""};
        struct buf text;

        buf_init(&text, 1 << 20);
        begin_text(&text);
        buf_append_str(&text, G("g", V("v1", PLAIN("r") "," PLAIN("s"))));
        add_text(m, "a", &text, L);
        begin_text(&text);
        buf_append_str(&text, G("g", V("v1", PLAIN("r") "," PLAIN("x"))));
        add_text(m, "b", &text, 0);
        merge_steps_init(&merge, m, &err);
        for (size_t i = 0; i <= steps; i++)
            step = fiber_step(&merge.fiber, 1);
        fiber_close(&merge.fiber);
        disco_merge_free(m);
        buf_free(&text);
    }
    is_int(step, STEP_DONE, "given up after each number of steps");
}

int main(void)
{
    test_many_resources();
    test_one_large_resource();
    test_giving_up();
    test_copying();
    test_rules();
    test_beta();
    test_adding();
    test_memory();
    test_memory_of_any_size();
    return tap_end();
}
