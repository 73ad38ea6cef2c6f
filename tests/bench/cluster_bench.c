/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What discovery costs: merging many servers' documents, reading and preparing very big ones. CPU time of this thread
 * and the longest step, which is the longest a turn of the loop is held up; best and median of several rounds.
 *
 *   cluster_bench [ROUNDS [merge|big|three|surface]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "cluster/documents.h"
#include "kube/disco_merge.h"
#include "kube/legacy_heal.h"
#include "kube/legacy_proto.h"
#include "kube/schema_complete.h"
#include "lib/documents_steps.h"
#include "lib/merge_steps.h"

enum { MAX_ROUNDS = 101, SERVERS = 100, GROUPS = 300, CRDS = 2000, TEXT_CEILING = 64 << 20 };
enum { SURFACE_SERVERS = 3, SURFACE_SCHEMAS = 500, SURFACE_CRDS = 20000, SURFACE_GROUPS = 200 };
/* As cluster/publish.c and cluster/disco_fetch.c have them. */
enum { MERGE_BUDGET = 10000, PARSE_BYTES = 256 << 10 };

#define HEAD "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["

static uint64_t cpu_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void die(const char *what)
{
    (void)fprintf(stderr, "cluster_bench: %s\n", what);
    exit(1);
}

/* ---- figures ---- */

/* One round of something that is done in steps. */
struct round {
    uint64_t total, longest, started;
};

static void begin(struct round *r)
{
    r->started = cpu_us();
}

static void end(struct round *r)
{
    uint64_t took = cpu_us() - r->started;

    r->total += took;
    if (r->longest < took)
        r->longest = took;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void report(const char *name, const struct round *rounds, size_t n)
{
    uint64_t total[MAX_ROUNDS], longest[MAX_ROUNDS];

    for (size_t i = 0; i < n; i++) {
        total[i] = rounds[i].total;
        longest[i] = rounds[i].longest;
    }
    qsort(total, n, sizeof(*total), by_number);
    qsort(longest, n, sizeof(*longest), by_number);
    (void)printf("| %s | %.1f | %.1f | %.1f | %.1f |\n", name, (double)total[0] / 1000, (double)total[n / 2] / 1000,
                 (double)longest[0] / 1000, (double)longest[n / 2] / 1000);
    (void)fflush(stdout);
}

/* ---- documents ---- */

/* What a server says of a group besides the usual: a category, if `of` is not 0. */
static void put_group(struct buf *out, size_t group, size_t resources, size_t of)
{
    buf_printf(out,
               "%s{\"metadata\":{\"name\":\"g%03zu.example.com\"},\"versions\":[{\"version\":\"v1\",\"resources\":[",
               buf_slice(out).p[buf_len(out) - 1] == '[' ? "" : ",", group);
    for (size_t i = 0; i < resources; i++) {
        buf_printf(
            out,
            "%s{\"resource\":\"things%zu\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"Thing%zu\"},"
            "\"scope\":\"Namespaced\",\"singularResource\":\"thing%zu\",\"verbs\":[\"delete\",\"deletecollection\","
            "\"get\",\"list\",\"patch\",\"create\",\"update\",\"watch\"],\"shortNames\":[\"t%zu\"]",
            i == 0 ? "" : ",", i, i, i, i);
        if (of > 0)
            buf_printf(out, ",\"categories\":[\"of-%zu\"]", of);
        buf_append_str(out,
                       ",\"subresources\":[{\"subresource\":\"status\",\"responseKind\":{\"group\":\"\",\"version\":"
                       "\"\",\"kind\":\"Thing\"},\"verbs\":[\"get\",\"patch\",\"update\"]}]}");
    }
    buf_append_str(out, "],\"freshness\":\"Current\"}]}");
}

static struct disco_doc *parse(struct buf *text)
{
    struct err err = {.text = ""};
    struct disco_doc *d;

    buf_append_str(text, "]}\n");
    d = text->failed ? NULL : disco_parse(buf_slice(text), &err);
    if (d == NULL)
        die(err.text);
    return d;
}

enum shape { EQUAL, ONE_GROUP, ALL_GROUPS };

static struct disco_doc *server_document(size_t server, enum shape shape)
{
    struct disco_doc *d;
    struct buf text;

    buf_init(&text, TEXT_CEILING);
    buf_append_str(&text, HEAD);
    for (size_t i = 0; i < GROUPS; i++)
        put_group(&text, i, 3, shape == ALL_GROUPS || (shape == ONE_GROUP && i == server) ? server + 1 : 0);
    d = parse(&text);
    buf_free(&text);
    return d;
}

/* ---- merging ---- */

static struct disco_merge *new_merge(struct disco_doc *const *docs, size_t n)
{
    struct disco_merge *m = disco_merge_new();
    char id[32];

    for (size_t i = 0; m != NULL && i < n; i++) {
        (void)snprintf(id, sizeof(id), "apiserver-%04zu", i);
        if (!disco_merge_add(m, slice_str(id), docs[i], i == 0 ? DISCO_SERVER_LOCAL : 0))
            die("no memory");
    }
    if (m == NULL)
        die("no memory");
    return m;
}

static void merge(struct disco_merge *m, struct round *r)
{
    enum step step = STEP_MORE;
    struct err err = {.text = ""};
    struct merge_steps steps;

    merge_steps_init(&steps, m, &err);
    while (step == STEP_MORE) {
        begin(r);
        step = fiber_step(&steps.fiber, MERGE_BUDGET);
        end(r);
    }
    if (step == STEP_FAILED)
        die(err.text);
}

static void bench_merge(const char *name, enum shape shape, size_t rounds)
{
    struct disco_doc *docs[SERVERS];
    struct round r[MAX_ROUNDS] = {{0}};

    for (size_t i = 0; i < SERVERS; i++)
        docs[i] = server_document(i, shape);
    for (size_t k = 0; k < rounds; k++) {
        struct disco_merge *m = new_merge(docs, SERVERS);

        merge(m, &r[k]);
        begin(&r[k]);
        disco_merge_free(m);
        end(&r[k]);
    }
    report(name, r, rounds);
    for (size_t i = 0; i < SERVERS; i++)
        disco_doc_unref(docs[i]);
}

/* ---- a big document ---- */

static void bench_parse(struct slice text, size_t rounds)
{
    struct round r[MAX_ROUNDS] = {{0}};

    for (size_t k = 0; k < rounds; k++) {
        struct disco_parser *p = disco_parser_new();
        enum step step = STEP_MORE;
        struct disco_doc *doc = NULL;
        struct err err = {.text = ""};

        /* As it comes in from the network. */
        for (struct slice rest = text; rest.n > 0;) {
            size_t n = rest.n < PARSE_BYTES ? rest.n : PARSE_BYTES;

            begin(&r[k]);
            if (p == NULL || !disco_parser_feed(p, slice_of(rest.p, n), &err))
                die("no memory");
            end(&r[k]);
            rest = slice_from(rest, n);
        }
        while (step == STEP_MORE) {
            begin(&r[k]);
            step = disco_parser_step(p, PARSE_BYTES, &doc, &err);
            end(&r[k]);
        }
        begin(&r[k]);
        disco_parser_free(p);
        disco_doc_unref(doc);
        end(&r[k]);
    }
    report("10 MB: read, forgotten", r, rounds);
}

static void prepare(const struct documents_input *in, struct round *r)
{
    struct documents_steps m = {.in = in};
    enum step step = STEP_MORE;
    struct fiber f;

    fiber_init(&f, documents_steps_run, &m, NULL);
    while (step == STEP_MORE) {
        begin(r);
        step = fiber_step(&f, DOCUMENTS_BUDGET);
        end(r);
    }
    if (step != STEP_DONE)
        die("no memory");
    begin(r);
    served_documents_unref(m.out);
    end(r);
}

struct kit {
    const char *name;
    struct disco_doc *const *docs;
    size_t n;
};

static void bench_big(const struct kit *kit, const char *what, bool protobuf, size_t rounds)
{
    struct round merging[MAX_ROUNDS] = {{0}}, preparing[MAX_ROUNDS] = {{0}};
    char name[100];

    for (size_t k = 0; k < rounds; k++) {
        struct disco_merge *m = new_merge(kit->docs, kit->n);
        struct documents_input in = {.protobuf = protobuf};
        struct disco_merged merged;

        merge(m, &merging[k]);
        disco_merge_result(m, &merged);
        in.text[SERVED_V2] = merged.v2;
        in.text[SERVED_V2BETA1] = merged.v2beta1;
        in.parsed = merged.parsed;
        prepare(&in, &preparing[k]);
        begin(&merging[k]);
        disco_merge_free(m);
        end(&merging[k]);
    }
    (void)snprintf(name, sizeof(name), "%s, %s: merged", kit->name, what);
    report(name, merging, rounds);
    (void)snprintf(name, sizeof(name), "%s, %s: prepared", kit->name, what);
    report(name, preparing, rounds);
}

static void big(size_t rounds)
{
    struct disco_doc *docs[2], *other;
    const struct kit two = {"10 MB, two servers", docs, 2};
    struct buf text;

    buf_init(&text, TEXT_CEILING);
    buf_append_str(&text, HEAD);
    for (size_t i = 0; i < CRDS; i++)
        put_group(&text, i, 14, 0);
    docs[0] = parse(&text);
    docs[1] = disco_doc_ref(docs[0]);
    (void)printf("\n%d custom resource definitions' groups, %.1f MB\n\n", CRDS, (double)buf_len(&text) / 1e6);
    (void)printf("| | CPU ms, best | median | longest step ms, best | median |\n| --- | --- | --- | --- | --- |\n");
    bench_parse(buf_slice(&text), rounds);
    buf_reset(&text);
    buf_append_str(&text, HEAD);
    for (size_t i = 0; i < CRDS; i++)
        put_group(&text, i, 14, i % 10 == 0 ? 1 : 0);
    other = parse(&text);
    buf_free(&text);
    bench_big(&two, "equal", false, rounds);
    disco_doc_unref(docs[1]);
    docs[1] = other;
    bench_big(&two, "one group in ten differs", false, rounds);
    bench_big(&two, "the same with protobuf", true, rounds);
    disco_doc_unref(docs[0]);
    disco_doc_unref(docs[1]);
}

/* A control plane amid its upgrade, each of whose servers describes each resource in its own way. */
static void three(size_t rounds)
{
    struct disco_doc *docs[3];
    const struct kit all = {"1 MB, three servers", docs, 3};
    size_t bytes = 0;

    for (size_t i = 0; i < 3; i++) {
        struct buf text;

        buf_init(&text, TEXT_CEILING);
        buf_append_str(&text, HEAD);
        for (size_t group = 0; group < GROUPS; group++)
            put_group(&text, group, 10, i + 1);
        bytes += buf_len(&text);
        docs[i] = parse(&text);
        buf_free(&text);
    }
    (void)printf("\n3 servers with %d groups each, %.1f MB together\n\n", GROUPS, (double)bytes / 1e6);
    (void)printf("| | CPU ms, best | median | longest step ms, best | median |\n| --- | --- | --- | --- | --- |\n");
    bench_big(&all, "each resource differs", false, rounds);
    bench_big(&all, "the same with protobuf", true, rounds);
    for (size_t i = 0; i < 3; i++)
        disco_doc_unref(docs[i]);
}

static void many(size_t rounds)
{
    (void)printf("%d servers with %d groups each\n\n", SERVERS, GROUPS);
    (void)printf("| | CPU ms, best | median | longest step ms, best | median |\n| --- | --- | --- | --- | --- |\n");
    bench_merge("all equal", EQUAL, rounds);
    bench_merge("one group of each differs", ONE_GROUP, rounds);
    bench_merge("every resource of every group differs", ALL_GROUPS, rounds);
}

/* What proxy/heal.c does for one client. Each second path is the server's alone. */
static void put_index(struct buf *out, size_t n, size_t server)
{
    buf_append_str(out, "{\"paths\":{");
    for (size_t i = 0; i < n; i++)
        buf_printf(
            out,
            "%s\"apis/g%05zu.example.com/v%zu\":{\"serverRelativeURL\":\"/openapi/v3/apis/g%05zu.example.com/v%zu"
            "?hash=%0128zu\"}",
            i == 0 ? "" : ",", i, i % 2 * server + 1, i, i % 2 * server + 1, server * n + i);
    buf_append_str(out, "}}");
}

static bool not_excluded(void *arg, struct slice group, struct slice version)
{
    (void)arg;
    (void)group;
    (void)version;
    return false;
}

static void bench_schemas(const char *what, size_t n, size_t rounds)
{
    struct round r[MAX_ROUNDS] = {{0}};
    const struct schema_index *others[SURFACE_SERVERS];
    struct buf text;

    buf_init(&text, TEXT_CEILING);
    for (size_t i = SURFACE_SERVERS; i-- > 0;) {
        buf_reset(&text);
        put_index(&text, n, i);
        others[i] = schema_index_parse(buf_slice(&text));
        if (others[i] == NULL)
            die("no index");
    }
    for (size_t k = 0; k < rounds; k++) {
        struct schema_merge m = {.others = others, .n_others = SURFACE_SERVERS, .excluded = not_excluded};
        struct schema_completion *c;
        enum step step = STEP_MORE;

        begin(&r[k]);
        c = schema_completion_new(buf_slice(&text), &m, TEXT_CEILING, NULL);
        if (c == NULL)
            die("no memory");
        for (; step == STEP_MORE; begin(&r[k])) {
            step = schema_completion_step(c);
            end(&r[k]);
        }
        if (step != STEP_DONE)
            die("no merged index");
        schema_completion_free(c);
        end(&r[k]);
    }
    report(what, r, rounds);
    for (size_t i = 0; i < SURFACE_SERVERS; i++)
        schema_index_unref((struct schema_index *)(uintptr_t)others[i]);
    buf_free(&text);
}

static void bench_legacy(size_t rounds)
{
    struct round groups[MAX_ROUNDS] = {{0}}, resources[MAX_ROUNDS] = {{0}}, protobuf[MAX_ROUNDS] = {{0}};
    struct disco_doc *all;
    struct buf text, out;

    buf_init(&text, TEXT_CEILING);
    buf_init(&out, TEXT_CEILING);
    buf_append_str(&text, HEAD);
    for (size_t i = 0; i < SURFACE_GROUPS; i++)
        put_group(&text, i, i == 0 ? 2000 : 2, 0);
    all = parse(&text);
    for (size_t k = 0; k < rounds; k++) {
        buf_reset(&out);
        begin(&groups[k]);
        (void)legacy_heal_groups(SLICE_LIT("{\"kind\":\"APIGroupList\",\"groups\":[]}"), all, &out);
        end(&groups[k]);
        buf_reset(&out);
        begin(&resources[k]);
        (void)legacy_heal_resources(slice_of("", 0), disco_doc_groups(all)->versions, &out);
        end(&resources[k]);
        buf_reset(&text);
        begin(&protobuf[k]);
        (void)legacy_proto_encode(buf_slice(&out), &text);
        end(&protobuf[k]);
    }
    report("legacy /apis completed", groups, rounds);
    report("legacy list of 2,000 resources completed", resources, rounds);
    report("the same as protobuf", protobuf, rounds);
    disco_doc_unref(all);
    buf_free(&text);
    buf_free(&out);
}

static void surface(size_t rounds)
{
    (void)printf("\n%d servers, %d schemas each; %d groups\n\n", SURFACE_SERVERS, SURFACE_SCHEMAS, SURFACE_GROUPS);
    (void)printf("| | CPU ms, best | median | longest step ms, best | median |\n| --- | --- | --- | --- | --- |\n");
    bench_schemas("index of 500 schemas completed", SURFACE_SCHEMAS, rounds);
    bench_schemas("index of 20,000 schemas completed", SURFACE_CRDS, rounds);
    bench_legacy(rounds);
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 11;
    const char *only = argc > 2 ? argv[2] : "";

    if (rounds == 0 || rounds > MAX_ROUNDS)
        die("from 1 to 101 rounds");
    if (only[0] == '\0' || strcmp(only, "merge") == 0)
        many(rounds);
    if (only[0] == '\0' || strcmp(only, "big") == 0)
        big(rounds);
    if (only[0] == '\0' || strcmp(only, "three") == 0)
        three(rounds);
    if (only[0] == '\0' || strcmp(only, "surface") == 0)
        surface(rounds);
    return 0;
}
