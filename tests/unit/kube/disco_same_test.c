/* SPDX-License-Identifier: Apache-2.0 */
/* What servers describe alike, though those before 1.27 give no singular names: vectors/ has what real ones answered.
 */
#include "kube/disco_same.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "kube/disco_legacy.h"
#include "lib/tap.h"

#define V2 "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["

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

static struct disco_doc *must_parse(struct slice text)
{
    struct err err = {""};
    struct disco_doc *d = disco_parse(text, &err);

    if (d == NULL)
        tap_bail("%s: %.*s", err.text, (int)text.n, text.p);
    return d;
}

static struct disco_doc *walked(const char *file)
{
    static const struct slice root = SLICE_LIT(
        "{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"apps\",\"versions\":[{\"groupVersion\":\"apps/v1\","
        "\"version\":\"v1\"}]}]}");
    struct disco_walk *w = disco_walk_new(DISCO_WALK_APIS);
    struct disco_parser *p = disco_parser_new();
    struct disco_doc *d = NULL;
    struct err err = {""};
    struct buf list;

    read_file(file, &list);
    if (!disco_walk_root(w, root, &err) || !disco_walk_resources(w, 0, buf_slice(&list), &err) ||
        !disco_walk_finish(w, p, &err))
        tap_bail("%s: %s", file, err.text);
    while (disco_parser_step(p, 1000, &d, &err) == STEP_MORE)
        continue;
    disco_parser_free(p);
    disco_walk_free(w);
    buf_free(&list);
    return d;
}

static void test_releases(void)
{
    struct buf text;
    struct disco_doc *old = walked("legacy-1.24.17-apis_apps_v1.json"), *new;
    const struct disco_version *a = disco_doc_version(old, SLICE_LIT("apps"), SLICE_LIT("v1")), *b;

    read_file("discovery-1.33.13-v2.json", &text);
    new = must_parse(buf_slice(&text));
    b = disco_doc_version(new, SLICE_LIT("apps"), SLICE_LIT("v1"));
    ok(a->n_resources == 5 && a->hash != b->hash, "apps/v1 of 1.24 and of 1.33: not the same text");
    ok(disco_version_same(a, b) && disco_version_same(b, a), "but the same");
    ok(disco_resource_same(a->resources, b->resources), "as is the first resource");
    ok(!disco_resource_same(a->resources, b->resources->next), "and not the second one");
    disco_doc_unref(old);
    disco_doc_unref(new);
    buf_free(&text);
}

#define R(name, rest) "{\"resource\":\"" name "\"" rest "}"
#define ONE(singular) R("r", ",\"singularResource\":" singular ",\"verbs\":[\"get\"]")
#define TWO(singular) R("s", ",\"singularResource\":" singular)

static struct disco_doc *version_of(const char *resources, const char *rest)
{
    struct disco_doc *d;
    struct buf text;

    buf_init(&text, 1 << 20);
    buf_printf(&text, V2 "{\"metadata\":{\"name\":\"g\"},\"versions\":[{\"version\":\"v1\",\"resources\":[%s]%s}]}]}",
               resources, rest);
    d = must_parse(buf_slice(&text));
    buf_free(&text);
    return d;
}

static void test_shapes(void)
{
    static const struct {
        const char *one, *other;
        bool same;
        const char *rest, *what;
    } rows[] = {
        {ONE("\"r\""), ONE("\"r\""), true, "", "the same text"},
        {ONE("\"r\""), ONE("\"\""), true, "", "one without a name"},
        {ONE("\"r\""), ONE("null"), true, "", "null"},
        {ONE("\"\""), ONE("null"), true, "", "null and \"\""},
        {ONE("\"r\""), ONE("\"q\""), false, "", "two names"},
        {ONE("\"r\"") "," TWO("\"\""), ONE("\"\"") "," TWO("\"s\""), true, "", "one has this name, the other that"},
        {ONE("\"r\"") "," TWO("\"s\""), ONE("\"\"") "," TWO("\"t\""), false, "", "one is not given, and two differ"},
        {ONE("\"\"") "," TWO("\"\""), TWO("\"\"") "," ONE("\"\""), false, "", "another order"},
        {ONE("\"\""), ONE("\"r\"") "," TWO("\"s\""), false, "", "one more"},
        {ONE("\"\""), R("r", ",\"singularResource\":\"r\",\"verbs\":[\"put\"]"), false, "", "another verb"},
        {ONE("\"\""), R("q", ",\"singularResource\":\"r\",\"verbs\":[\"get\"]"), false, "", "another name"},
        {ONE("\"r\""), ONE("\"\""), false, ",\"freshness\":\"Stale\"", "one is Stale"},
        {R("r", ""), R("r", ""), true, "", "no such field"},
    };

    for (size_t i = 0; i < ROWS(rows); i++) {
        struct disco_doc *a = version_of(rows[i].one, ""), *b = version_of(rows[i].other, rows[i].rest);
        const struct disco_version *v = disco_doc_groups(a)->versions, *w = disco_doc_groups(b)->versions;

        ok(disco_version_same(v, w) == rows[i].same && disco_version_same(w, v) == rows[i].same, "%s", rows[i].what);
        disco_doc_unref(a);
        disco_doc_unref(b);
    }
}

int main(void)
{
    test_releases();
    test_shapes();
    return tap_end();
}
