/* SPDX-License-Identifier: Apache-2.0 */
/* What the log says of a document that is different. */
#include "cluster/disco_news.h"

#include <stdio.h>

#include "base/buf.h"
#include "kube/disco_parse.h"
#include "lib/tap.h"

static struct disco *make(const char *const *gvs)
{
    struct err err = {.text = ""};
    struct disco_doc *doc;
    struct disco *d;
    struct buf b;

    buf_init(&b, 1 << 20);
    buf_append_str(
        &b,
        "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":[");
    for (size_t i = 0; gvs[i] != NULL; i++) {
        struct slice resource = slice_str(gvs[i]), version, group;

        (void)slice_split(&resource, ' ', &version);
        (void)slice_split(&version, '/', &group);
        buf_printf(&b,
                   "%s{\"metadata\":{\"name\":\"%.*s\"},\"versions\":[{\"version\":\"%.*s\",\"resources\":["
                   "{\"resource\":\"%.*s\",\"responseKind\":null,\"scope\":\"Cluster\",\"singularResource\":\"x\","
                   "\"verbs\":[\"get\"]}],\"freshness\":\"Current\"}]}",
                   i == 0 ? "" : ",", (int)group.n, group.p, (int)version.n, version.p, (int)resource.n, resource.p);
    }
    buf_append_str(&b, "]}");
    doc = disco_parse(buf_slice(&b), &err);
    if (doc == NULL)
        tap_bail("%s", err.text);
    d = disco_new(NULL, doc);
    if (d == NULL)
        tap_bail("no memory");
    disco_doc_unref(doc);
    buf_free(&b);
    return d;
}

static void say(const char *const *before, const char *const *now, struct disco_news *n)
{
    struct disco *a = before == NULL ? NULL : make(before), *b = make(now);

    disco_news(a, b, n);
    disco_unref(a);
    disco_unref(b);
}

int main(void)
{
    static const char *const one[] = {"apps/v1 deployments", "batch/v1 jobs", "example.com/v1 widgets", NULL};
    static const char *const two[] = {"apps/v1 deployments", "batch/v1 cronjobs", "new.io/v2 things", NULL};
    char text[60][64];
    const char *many[61];
    struct disco_news n;

    say(NULL, one, &n);
    ok(n.came[0] == '\0' && n.gone[0] == '\0' && n.changed[0] == '\0', "the first document is no news");
    say(one, one, &n);
    ok(n.came[0] == '\0' && n.gone[0] == '\0' && n.changed[0] == '\0', "nor is the same one");
    say(one, two, &n);
    is_str(n.came, "new.io/v2", "what came");
    is_str(n.gone, "example.com/v1", "what went");
    is_str(n.changed, "batch/v1", "what has other resources");
    for (int i = 0; i < 60; i++) {
        (void)snprintf(text[i], sizeof(text[i]), "group-%02d.example.com/v1 things", i);
        many[i] = text[i];
    }
    many[60] = NULL;
    say(one, many, &n);
    ok(strlen(n.came) < DISCO_NEWS_BYTES && strlen(n.came) > DISCO_NEWS_BYTES - 64, "no more than there is room for");
    is_str(n.came + strlen(n.came) - 4, " ...", "and it says that there is more");
    is_str(n.gone, "apps/v1 batch/v1 example.com/v1", "all that went");
    return tap_end();
}
